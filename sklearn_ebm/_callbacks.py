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
    "Task",
    "begin_fit",
    "is_watched",
    "wants_history",
    "with_callbacks",
]


class Task:
    """A fit, or a part of one. Callbacks are told when it begins and when it ends.

    Parameters
    ----------
    context : callback context
        That of the task, which begins now.

    given : dict
        The estimator and the data that callbacks are told of.
    """

    def __init__(self, context, given):
        self.context, self.given = context, given
        context.call_on_fit_task_begin(**given)

    def part(self, name, n_parts=0):
        """Begin a part of the task that itself has so many parts."""
        context = self.context.subcontext(task_name=name, max_subtasks=n_parts)
        return Task(context, self.given)

    def parts(self, name, n_parts):
        """Yield the numbers of parts, until a callback stops them.

        A part ends when the next one is asked for.
        """
        for number in range(n_parts):
            part = self.part(name)
            yield number
            if part.end():
                return

    def end(self, fitted=None):
        """End the task; whether a callback asks to stop.

        `fitted` returns the attributes with which the estimator would be a fitted one.
        """
        return self.context.call_on_fit_task_end(
            **self.given, reconstruction_attributes=fitted
        )


def begin_fit(estimator, n_parts, X, y):
    """Begin the task of a fit. The data are those that the user has given."""
    context = estimator._init_callback_context(max_subtasks=n_parts)
    return Task(context, {"estimator": estimator, "X": X, "y": y})


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
