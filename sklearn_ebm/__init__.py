"""Energy-based and latent-variable models as scikit-learn estimators."""

from .boltzmann import (
    RBM,
    BernoulliRBM,
    DBMTransformer,
    DBNTransformer,
    GaussianRBM,
    MultimodalDBM,
    RBMClassifier,
    RBMImputer,
)
from .factors import (
    ICA,
    FactorAnalysis,
    ProbabilisticPCA,
    SlowFeatureAnalysis,
    SparseCoding,
)
from .nets import DBMClassifier, DBNClassifier, DBNRegressor

__all__ = [
    "ICA",
    "RBM",
    "BernoulliRBM",
    "DBMClassifier",
    "DBMTransformer",
    "DBNClassifier",
    "DBNRegressor",
    "DBNTransformer",
    "FactorAnalysis",
    "GaussianRBM",
    "MultimodalDBM",
    "ProbabilisticPCA",
    "RBMClassifier",
    "RBMImputer",
    "SlowFeatureAnalysis",
    "SparseCoding",
]
__version__ = "0.1.0.dev0"
