"""When to stop a training: by the best epoch so far, or not at all."""

from numbers import Integral, Real

import numpy as np

from ._parameters import Interval

# Constraints on the parameters by which estimators say when to stop.
STOPPING_CONSTRAINTS = {
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
}


class Stopping:
    """Early stopping: remembers the best epoch, and when to give up.

    Parameters
    ----------
    monitor : str
        What is watched: "free_energy_gap", or a number that should rise on held-out
        rows, such as "pseudo_likelihood". An epoch is the best one so far if that
        number is the highest; it is progress if it is higher by more than `tol`.
        Where two have the same "accuracy", as few rows soon have, their log-likelihoods
        say which is better. With the gap an epoch is both, as long as the gap is within
        `tol` of the lowest.

    tol : float
        Tolerance, in the unit of what is watched.

    patience : int
        Number of epochs in a row without progress after which the training ends.

    Attributes
    ----------
    best : dict or None
        "n_iter" and "parameters" of the best epoch.

    done : bool
        Whether to stop.
    """

    def __init__(self, monitor, tol, patience):
        self.monitor, self.tol, self.patience = monitor, tol, patience
        self.lowest, self.waited, self.best = (np.inf,), 0, None

    @property
    def done(self):
        return self.waited >= self.patience

    def fitted(self, n_iter):
        """Return the fitted attributes of a model after n_iter epochs."""
        return {"best_n_iter_": self.best["n_iter"] if self.best else n_iter}

    def see(self, entry, n_iter, parameters):
        """Take note of an epoch. Numbers that are NaN are never progress."""
        if self.monitor != "free_energy_gap":
            losses = (-entry[f"validation_{self.monitor}"],)
            if self.monitor == "accuracy":
                losses += (-entry["validation_log_likelihood"],)
            best = losses < self.lowest
            # (Not strict: `lowest` begins as a single infinity.)
            pairs = zip(losses, self.lowest, strict=False)
            progress = best and any(new < old - self.tol for new, old in pairs)
        else:
            losses = (entry["free_energy_gap"],)
            best = progress = losses[0] <= min(self.lowest, losses)[0] + self.tol
        if best:
            self.best = {"n_iter": n_iter, "parameters": parameters}
        self.lowest = min(self.lowest, losses)
        self.waited = 0 if progress else self.waited + 1


class NoStopping:
    """Stands in for `Stopping` where all epochs are wanted and the last is kept."""

    best, done = None, False

    def fitted(self, n_iter):
        """Return none."""
        return {}

    def see(self, entry, n_iter, parameters):
        """Take no note of an epoch."""
