"""Boltzmann machines."""

from .bernoulli_rbm import BernoulliRBM
from .dbm import DBMTransformer
from .dbm_classifier import DBMClassifier
from .dbn import DBNTransformer
from .dbn_classifier import DBNClassifier
from .dbn_regressor import DBNRegressor
from .gaussian_rbm import GaussianRBM
from .multimodal import MultimodalDBM
from .rbm import RBM
from .rbm_classifier import RBMClassifier
from .rbm_imputer import RBMImputer

__all__ = [
    "RBM",
    "BernoulliRBM",
    "DBMClassifier",
    "DBMTransformer",
    "DBNClassifier",
    "DBNRegressor",
    "DBNTransformer",
    "GaussianRBM",
    "MultimodalDBM",
    "RBMClassifier",
    "RBMImputer",
]
