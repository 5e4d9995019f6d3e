"""Boltzmann machines."""

from .bernoulli_rbm import BernoulliRBM
from .classifier import RBMClassifier
from .dbm import DBMTransformer
from .dbn import DBNTransformer
from .dbn_classifier import DBNClassifier
from .dbn_regressor import DBNRegressor
from .gaussian_rbm import GaussianRBM
from .imputer import RBMImputer
from .rbm import RBM

__all__ = [
    "RBM",
    "BernoulliRBM",
    "DBMTransformer",
    "DBNClassifier",
    "DBNRegressor",
    "DBNTransformer",
    "GaussianRBM",
    "RBMClassifier",
    "RBMImputer",
]
