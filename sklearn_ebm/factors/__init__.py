"""Linear factor models: data as linear maps of hidden factors, with or without noise.

One estimator (and its named variants) a file; they share little, so little is shared.
"""

from .factor_analysis import FactorAnalysis

__all__ = ["FactorAnalysis"]
