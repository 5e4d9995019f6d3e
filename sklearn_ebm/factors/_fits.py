"""What the fits of linear factor models share."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._validation import refuse_unseen
from .._warning import warn
from ..monitoring import print_iteration
from ._profile import least_noise

# Values of a feature that are few, for each parameter of its own.
FEW_FOR_FACTORS = 10
# Rows that are too few for it, if each counts by what its other values tell: a rule for
# structural models (P. M. Bentler, C.-P. Chou, "Practical issues in structural
# modeling", 1987).
TOO_FEW_FOR_FACTORS = 5


class Progress:
    """The log-likelihoods of a fit: keeps them, prints them, says when to stop.

    Parameters
    ----------
    name : str
        Name of the estimator.
    tol : float
        A change no larger than this is enough.
    verbose : bool or int
        If not 0, print a line an iteration.
    """

    def __init__(self, name, tol, verbose):
        self.name, self.tol, self.verbose = name, tol, verbose
        self.loglike, self.converged = [], False

    def __call__(self, loglike):
        """Take note of an iteration's log-likelihood; whether to stop."""
        self.loglike.append(float(loglike))
        if self.verbose:
            text = f"log-likelihood = {loglike:.2f}"
            print_iteration(self.name, len(self.loglike), text)
        if len(self.loglike) > 1:
            self.converged = abs(loglike - self.loglike[-2]) <= self.tol
        return self.converged

    def warn_unconverged(self, max_iter):
        """Warn that so many iterations were not enough."""
        warn(
            f"{self.name} did not converge in max_iter={max_iter} iterations.",
            ConvergenceWarning,
        )


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


def filled_with_means(X):
    """Put the mean of a feature where it is missing."""
    missing = np.isnan(X)
    refuse_unseen(missing)
    return np.where(missing, np.nanmean(X, axis=0, dtype=np.float64), X)


def signs_of(rows):
    """Sign of the largest entry of each row; of equals, but for rounding, the first.

    Rows times these signs do not depend on how they were found.
    """
    size = np.abs(rows)
    largest = (size >= (1 - 1e-6) * size.max(axis=1, keepdims=True)).argmax(axis=1)
    return np.where(rows[np.arange(len(rows)), largest] < 0, -1.0, 1.0)


def check_same_components(estimator, asked, made):
    """Refuse to go on with a model that was asked for another number of components.

    It may have fewer than it was `made` for, for want of rows.
    """
    found = len(estimator.components_)
    if asked not in (made, found):
        raise ValueError(
            f"n_components={estimator.n_components!r} does not fit the model that "
            f"training goes on from, which has {found}."
        )
