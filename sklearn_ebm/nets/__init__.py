"""Nets that start from Boltzmann machines."""

from .dbm_classifier import DBMClassifier
from .dbn_classifier import DBNClassifier
from .dbn_regressor import DBNRegressor

__all__ = ["DBMClassifier", "DBNClassifier", "DBNRegressor"]
