"""What a training leaves: all it has learned, also when it is interrupted.

Nothing changes where it learned nothing, or diverged.
"""

import functools
from contextlib import contextmanager

import numpy as np

# Every training stores one of these anew, as the last of all that it stores. As long as
# it is the old one, nothing has been learned, and what else has changed is undone.
LEARNED = "components_", "coefs_", "rbm_"


class Diverged(ValueError):
    """Training has arrived at parameters that are not finite."""


def until_checked():
    """Context without NumPy's warnings of what `check_finite` is to find soon."""
    return np.errstate(over="ignore", invalid="ignore")


def check_finite(number, rate):
    """Refuse to go on if a norm of weights, or a loss, is not finite."""
    if not np.isfinite(number):
        raise Diverged(
            f"Training diverged: at a learning rate of {rate:g} the parameters are no "
            "longer finite. Lower learning_rate (or that of the stage it happened in), "
            "or scale the data."
        )


def undo_if_nothing_learned(method):
    """Decorate a method that trains: if nothing is learned, the estimator is as before.

    Nothing is learned if training diverges, or if it ends before anything is stored, as
    when the data are refused (which may have other features than those of the model
    there is).
    """

    @functools.wraps(method)
    def trains(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            same = all(vars(self).get(name) is before.get(name) for name in LEARNED)
            if same or isinstance(error, Diverged):
                vars(self).clear()
                vars(self).update(before)
            raise

    return trains


def store(estimator, run):
    """Keep what a run has arrived at."""
    # (What an earlier call has left, and this one may not have.)
    for name in ("best_n_iter_", "h_samples_"):
        vars(estimator).pop(name, None)
    vars(estimator).update(estimator._fitted(run))


@contextmanager
def keeping(estimator, run):
    """Context at whose end what has been learned is stored, also when interrupted.

    After divergence nothing is stored: it would only be undone, with warnings before.
    """
    try:
        yield
    except Diverged:
        raise
    except BaseException:
        store(estimator, run)
        raise
    store(estimator, run)
