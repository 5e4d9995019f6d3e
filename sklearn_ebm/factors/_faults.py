"""What may be wrong with a fitted linear factor model: warnings."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._warning import warn
from ._profile import least_noise

# Values of a feature that are few, for each parameter of its own.
FEW_FOR_FACTORS = 10
# Rows that are too few for it, if each counts by what its other values tell: a rule for
# structural models (P. M. Bentler, C.-P. Chou, "Practical issues in structural
# modeling", 1987).
TOO_FEW_FOR_FACTORS = 5


def warn_of_no_noise(name, n_components, shape):
    """Warn of components that hold all rows: what is left to the noise is nothing."""
    n_rows, n_features = shape
    if n_rows - 1 <= n_components and n_rows <= n_features:
        warn(
            f"{name} has {n_components} components for {n_rows} rows of {n_features} "
            "features, and nothing is left to the noise: the likelihood has no bound, "
            "and other rows have next to none. Take a smaller n_components; "
            "select_n_components with criterion='cv' finds one.",
            ConvergenceWarning,
        )


def warn_of_few_values(name, gaussian, observed, *, shared_noise=False):
    """Warn of factors, or noise, that few observed values may look like by chance."""
    if shared_noise or not _warn_of_no_noise(name, gaussian, observed):
        _warn_of_few_rows(name, gaussian.n_components, observed, shared_noise)


def _warn_of_no_noise(name, gaussian, observed):
    """Warn of features that few observed values have left as little noise as can be."""
    few = observed.sum(axis=0) < FEW_FOR_FACTORS * (1 + gaussian.n_components)
    variances = gaussian.noise + (gaussian.loadings**2).sum(axis=0)
    least = 2 * least_noise(variances, missing=True)
    low = np.flatnonzero(few & (gaussian.noise <= least))
    if len(low):
        warn(
            f"{name} leaves {len(low)} of {len(variances)} features (the first is "
            f"feature {low[0]}) next to no noise. The few values that are observed may "
            "look so by chance, and other rows have next to no likelihood then. Take a "
            "smaller n_components: select_n_components with criterion='cv' finds one. "
            "ProbabilisticPCA(missing='latent'), in which all features have the same "
            "noise, can do with fewer values.",
            ConvergenceWarning,
        )
    return len(low) > 0


def _warn_of_few_rows(name, q, observed, shared_noise):
    """Warn of features whose loadings are learned from hardly more rows than they are.

    A row counts by the share of the q factors that its other values can tell: without
    any it says nothing of loadings, however many such rows there are. With shared noise
    the features are in it together.
    """
    if q == 0 or observed.all():
        return
    n_features = observed.shape[1]
    told = np.clip(observed.sum(axis=1) - 1, 0, q) / q
    # (A mean, noise, and q loadings, these but for a rotation of the factors.)
    n_parameters = 2 - shared_noise + q - q * (q - 1) / (2 * n_features)
    rows = told @ observed / n_parameters
    few = np.flatnonzero(rows < TOO_FEW_FOR_FACTORS)
    if shared_noise:
        # (Rows that are few by themselves are not for want of values.)
        enough = len(observed) >= TOO_FEW_FOR_FACTORS * n_parameters
        too_few = enough and rows.mean() < TOO_FEW_FOR_FACTORS
        whose = "on average its features"
    else:
        too_few = len(few) > 0
        first = f" (the first is feature {few[0]})" if too_few else ""
        whose = f"{len(few)} of {n_features} features{first}"
    if too_few:
        warn(
            f"{name} learns n_components={q} from too few values: {whose} have less "
            f"than {TOO_FEW_FOR_FACTORS} rows for each of their parameters, where a "
            "row counts by the share of the components that its other values can tell. "
            "Other rows may be far less likely than these. Take a smaller "
            "n_components: select_n_components with criterion='cv' finds one.",
            ConvergenceWarning,
        )
