"""Parameters of constructors: constraints, and the check that they keep to them."""

from functools import cache, lru_cache
from numbers import Integral

import numpy as np
from sklearn import get_config
from sklearn.utils._param_validation import (
    Interval,
    Options,
    StrOptions,
    make_constraint,
    validate_parameter_constraints,
)

__all__ = [
    "Interval",
    "Options",
    "PairOf",
    "StrOptions",
    "TupleOf",
    "check_parameters",
    "is_bool",
]

# Types of values that are themselves whatever happens.
PLAIN = {bool, float, int, str, type(None)}
# What integers may be: all that are larger overflow somewhere.
INDEX = np.iinfo(np.intp)


class PairOf(Interval):
    """Constraint on a parameter: a tuple of two numbers of an interval."""

    def is_satisfied_by(self, val):
        """Whether a value keeps to the constraint."""
        is_number = super().is_satisfied_by
        return isinstance(val, tuple) and len(val) == 2 and all(map(is_number, val))

    def __str__(self):
        return f"a tuple of two, each {super().__str__()}"


class TupleOf(Interval):
    """Constraint on a parameter: array-like of such numbers, not empty."""

    def is_satisfied_by(self, val):
        """Whether a value keeps to the constraint."""
        is_number = super().is_satisfied_by
        if isinstance(val, (tuple, list, range)):
            val = list(val)
        elif hasattr(val, "__array__"):  # NumPy, pandas
            val = np.asarray(val).tolist()
        return isinstance(val, list) and bool(val) and all(map(is_number, val))

    def __str__(self):
        return f"a tuple of numbers, each {super().__str__()}"


def check_parameters(estimator):
    """Refuse constructor parameters outside the estimator's constraints."""
    if get_config()["skip_parameter_validation"]:
        return
    kind = type(estimator)
    values = tuple(getattr(estimator, name) for name in _names(kind))
    if PLAIN.issuperset(map(type, values)):
        _check_plain(kind, *values)
    else:
        _check(kind, values)


@lru_cache(typed=True)
def _check_plain(kind, *values):
    """Check values that nothing can change, but only once: `_check` takes 0.2 ms."""
    _check(kind, values)


def _check(kind, values):
    """Refuse values of the parameters of a class outside its constraints."""
    all_constraints = kind._parameter_constraints
    params = dict(zip(_names(kind), values, strict=True))
    validate_parameter_constraints(all_constraints, params, kind.__name__)
    for name, value in params.items():
        # (Parameters that a subclass adds may have no constraints.)
        constraints = all_constraints.get(name, "no_validation")
        wrong = None if constraints == "no_validation" else _wrong(value, constraints)
        if wrong:
            wanted = " or ".join(str(make_constraint(each)) for each in constraints)
            raise ValueError(
                f"The {name!r} parameter of {kind.__name__} must be "
                f"{wanted}, but {wrong}. Got {value!r} instead."
            )


@cache
def _names(kind):
    """Names of the parameters of a class, looked up once: signatures take long."""
    return kind._get_param_names()


def _wrong(value, constraints):
    """What is wrong with a number, or with one of several; None if all is well.

    To scikit-learn True is a number, and an integer is one of any size.
    """
    several = isinstance(value, (tuple, list)) or getattr(value, "ndim", 0) == 1
    parts = value if several else [value]
    if any(map(is_bool, parts)) and not any(map(_takes_bools, constraints)):
        return "no bool"
    integers = [part for part in parts if isinstance(part, Integral)]
    if any(not INDEX.min <= part <= INDEX.max for part in integers):
        return f"no int beyond {INDEX.max}"
    return None


def is_bool(value):
    """Whether a value is True or False, of Python's or NumPy's."""
    return isinstance(value, (bool, np.bool_))


def _takes_bools(constraint):
    """Whether True and False are more to a constraint than the numbers 1 and 0."""
    named = isinstance(constraint, str) and constraint in ("boolean", "verbose")
    return named or getattr(constraint, "type", None) is bool
