"""Boltzmann machines."""

from .rbm import BernoulliRBM

__all__ = ["BernoulliRBM"]
