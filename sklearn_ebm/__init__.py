"""Energy-based and latent-variable models as scikit-learn estimators."""

from .boltzmann import RBM, BernoulliRBM, GaussianRBM

__all__ = ["RBM", "BernoulliRBM", "GaussianRBM"]
__version__ = "0.1.0.dev0"
