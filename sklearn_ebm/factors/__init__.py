"""Linear factor models: data as linear maps of hidden factors, with or without noise.

One estimator (and its named variants) a file; they share little, so little is shared.
"""

from .factor_analysis import FactorAnalysis
from .ica import ICA
from .probabilistic_pca import ProbabilisticPCA
from .selection import Selection, select_n_components
from .slow_features import SlowFeatureAnalysis
from .sparse_coding import SparseCoding

__all__ = [
    "ICA",
    "FactorAnalysis",
    "ProbabilisticPCA",
    "Selection",
    "SlowFeatureAnalysis",
    "SparseCoding",
    "select_n_components",
]
