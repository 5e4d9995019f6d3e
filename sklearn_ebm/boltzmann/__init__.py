"""Boltzmann machines."""

from .bernoulli_rbm import BernoulliRBM
from .dbm import DBMTransformer
from .dbn import DBNTransformer
from .gaussian_rbm import GaussianRBM
from .multimodal import MultimodalDBM
from .rbm import RBM
from .rbm_classifier import RBMClassifier
from .rbm_imputer import RBMImputer

__all__ = [
    "RBM",
    "BernoulliRBM",
    "DBMTransformer",
    "DBNTransformer",
    "GaussianRBM",
    "MultimodalDBM",
    "RBMClassifier",
    "RBMImputer",
]
