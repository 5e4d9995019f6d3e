"""Scikit-learn's callbacks, and what stands in for them before its version 1.9."""

from contextlib import nullcontext

try:  # scikit-learn >= 1.9
    from sklearn.callback import (
        CallbackSupportMixin,
        ProgressBar,
        ScoringMonitor,
        with_callbacks,
    )
except ImportError:

    class CallbackSupportMixin:
        """Stands in for scikit-learn's where it has no callbacks yet."""

        def _init_callback_context(self, **_):
            return _NoCallbacks()

    class _NoCallbacks:
        def subcontext(self, **_):
            return self

        def propagate_callback_context(self, _):
            return nullcontext()

        def call_on_fit_task_begin(self, **_):
            return self

        def call_on_fit_task_end(self, **_):
            return False

    class ProgressBar:
        """Stands for a callback that nobody can have set."""

    class ScoringMonitor:
        """Says what it would take to have one."""

        def __init__(self, *, scoring):
            raise ImportError("Callbacks need scikit-learn 1.9 or newer.")

    def with_callbacks(method):
        """Return the method as it is."""
        return method


__all__ = [
    "CallbackSupportMixin",
    "ScoringMonitor",
    "is_watched",
    "wants_history",
    "with_callbacks",
]


def _callbacks_of(estimator):
    return getattr(estimator, "_skl_callbacks", ())


def is_watched(estimator):
    """Whether a callback may look at the estimator in any epoch, or stop it there.

    A progress bar only counts the epochs.
    """
    return any(type(each) is not ProgressBar for each in _callbacks_of(estimator))


def wants_history(estimator):
    """Whether a callback of the estimator asks for the numbers that take time."""
    callbacks = _callbacks_of(estimator)
    return any(getattr(each, "wants_history", False) for each in callbacks)
