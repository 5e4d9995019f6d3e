"""What the fits of linear factor models share."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._validation import refuse_unseen
from .._warning import warn
from ..monitoring import print_iteration


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
