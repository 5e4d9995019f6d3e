"""Checks of inputs; the only place that touches scikit-learn's private helpers."""

import warnings

import numpy as np
from sklearn import get_config
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, validate_data

from ._rows import Rows

try:  # scikit-learn >= 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:
        """Stands in for scikit-learn's where it has no callbacks yet."""

        def _init_callback_context(self, **_):
            return _NoCallbacks()

    class _NoCallbacks:
        def subcontext(self, **_):
            return self

        def call_on_fit_task_begin(self, **_):
            return self

        def call_on_fit_task_end(self, **_):
            return False

    def with_callbacks(method):
        """Return the method as it is."""
        return method


__all__ = [
    "CallbackSupportMixin",
    "Interval",
    "StrOptions",
    "check_count",
    "check_parameters",
    "check_rows",
    "check_states",
    "has_callbacks",
    "random_key",
    "with_callbacks",
]

# What the kernels read as it is; anything else becomes float64.
DTYPES = [np.float64, np.float32, np.bool_, np.uint8]


def check_parameters(estimator):
    """Refuse constructor parameters outside the estimator's constraints."""
    if not get_config()["skip_parameter_validation"]:
        estimator._validate_params()


def has_callbacks(estimator):
    """Whether somebody looks at the estimator while it is being fitted."""
    return bool(getattr(estimator, "_skl_callbacks", ()))


def check_rows(estimator, X, *, reset=False, unit_interval=True):
    """Validate data of the estimator's features and wrap it for the kernels.

    Returns the validated X and its `Rows`. Values outside [0, 1] get a warning
    if `unit_interval`: Bernoulli units cannot mean them.
    """
    X = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=DTYPES)
    return X, wrap_rows(X, unit_interval and f"{type(estimator).__name__}'s units")


def check_states(X, n_columns, name):
    """Validate the states of a hidden layer of n_columns units."""
    X = check_array(X, accept_sparse="csr", dtype=DTYPES, input_name=name)
    if X.shape[1] != n_columns:
        raise ValueError(
            f"{name} has {X.shape[1]} columns, but the layer has {n_columns} units."
        )
    return wrap_rows(X, name)


def wrap_rows(X, owner=None):
    """`Rows` of validated data; warns if `owner` cannot mean its values."""
    rows = Rows(X)
    if owner and (rows.minimum < 0 or rows.maximum > 1):
        warnings.warn(
            f"{owner} stand for values in [0, 1] but the data ranges over "
            f"[{rows.minimum:.6g}, {rows.maximum:.6g}]; scale them with "
            "MinMaxScaler or make them binary with Binarizer.",
            UserWarning,
            stacklevel=4,
        )
    return rows


def check_count(value, name, *, least):
    """An integer argument of a method, at least `least`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer >= {least}, got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}.")
    return int(value)


def random_key(random_state):
    """64 random bits for the kernels, drawn from `random_state`."""
    high, low = check_random_state(random_state).randint(
        0, 2**32, size=2, dtype=np.uint32
    )
    return int(high) << 32 | int(low)
