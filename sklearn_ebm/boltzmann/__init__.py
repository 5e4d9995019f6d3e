"""Boltzmann machines."""

from .bernoulli_rbm import BernoulliRBM
from .classifier import RBMClassifier
from .dbm import DBMTransformer
from .dbm_classifier import DBMClassifier
from .dbn import DBNTransformer
from .dbn_classifier import DBNClassifier
from .dbn_regressor import DBNRegressor
from .gaussian_rbm import GaussianRBM
from .imputer import RBMImputer
from .multimodal import MultimodalDBM
from .rbm import RBM

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
