"""Energy-based and latent-variable models as scikit-learn estimators."""

from .boltzmann import RBM, BernoulliRBM, GaussianRBM

__all__ = ["RBM", "BernoulliRBM", "GaussianRBM"]
from .boltzmann import BernoulliRBM
from .factors import FactorAnalysis
__all__ = ["BernoulliRBM", "FactorAnalysis"]
from .factors import FactorAnalysis, ProbabilisticPCA

__all__ = ["BernoulliRBM", "FactorAnalysis", "ProbabilisticPCA"]
from .factors import ICA
__all__ = ["ICA", "BernoulliRBM"]
from .factors import ICA, SlowFeatureAnalysis
__all__ = ["ICA", "BernoulliRBM", "SlowFeatureAnalysis"]
__version__ = "0.1.0.dev0"
