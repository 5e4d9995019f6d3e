"""Energy-based and latent-variable models as scikit-learn estimators."""

from .boltzmann import BernoulliRBM

__all__ = ["BernoulliRBM"]
__version__ = "0.1.0.dev0"
