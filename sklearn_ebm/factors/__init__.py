"""Linear factor models: data as linear maps of hidden factors, with or without noise.

One estimator (and its named variants) a file; they share little, so little is shared.
"""

from .factor_analysis import FactorAnalysis
from .probabilistic_pca import ProbabilisticPCA
from .selection import Selection, select_n_components

__all__ = ["FactorAnalysis", "ProbabilisticPCA", "Selection", "select_n_components"]
from .ica import ICA
__all__ = ["ICA"]
from .slow_features import SlowFeatureAnalysis
__all__ = ["ICA", "SlowFeatureAnalysis"]
