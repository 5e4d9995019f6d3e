"""Checks of inputs.

Only this file, `_parameters.py` and `_callbacks.py` use private parts of scikit-learn.
"""

import re
from contextlib import contextmanager
from numbers import Real

import numpy as np
import scipy.sparse as sp
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils._missing import is_pandas_na
from sklearn.utils.validation import _check_feature_names_in, check_array, validate_data

from ._parameters import is_bool
from ._rows import Rows, canonical
from ._warning import warn

# What the kernels read as it is; anything else becomes float64.
DTYPES = [np.float64, np.float32, np.bool_, np.uint8]
FLOATS = [np.float64, np.float32]
# Bytes of data of which a copy by rows is made.
MOST_COPIED = 2**28
# Scaling to [0, 1] may leave values beyond it by so much, from rounding alone.
ROUNDING = 1e-6
# Where values are a larger share of the largest number, sums of them may be infinite.
ROOM_FOR_SUMS = 1e-8
# What errors quote: values, and names of features, which scikit-learn lists.
QUOTED = re.compile(r"(\B'[^'\n]*'|^- .*)", re.MULTILINE)

# ---- Data for the kernels ----


def check_rows(
    estimator,
    X,
    *,
    reset=False,
    dtype=None,
    model_dtype=None,
    quiet=False,
    scan=True,
    fill=None,
):
    """Validate data of the estimator's features and wrap it for the kernels.

    Returns the validated X and its `Rows`, to be computed in `dtype` (by default
    that of X, but `model_dtype` if X holds no floats: its numbers are exact anyway).
    Values are checked by `check_values`, unless a kernel is to look at them first (not
    `scan`). `fill` is called with the validated X and returns what takes its place,
    without missing values.
    """
    refuse_times_and_masks(X, "X")
    # The kernels' own scan of the data notices what is not finite.
    X = _validated(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=DTYPES,
        ensure_all_finite=False,
    )
    # (A sparse matrix may hold several numbers for a place, whose sum is the value.)
    X = canonical(X) if sp.issparse(X) else _with_rows_together(X)
    dtype = dtype or _dtype_of(X, model_dtype)
    filled = X if fill is None else fill(X)
    # `Rows` keeps no bits of values that may change from epoch to epoch, as those in
    # place of missing ones do.
    rows = Rows(filled, dtype, scan, filled is X)
    X = filled
    if scan:
        check_values(estimator, X, rows, quiet=quiet)
    return X, rows


def check_states(estimator, X, n_units, name, *, model_dtype=None, quiet=False):
    """Validate states of a layer of n_units units that came as argument `name`.

    Warns of values outside [0, 1] unless `quiet`; `model_dtype` as in `check_rows`.

    Returns what `check_rows` returns.
    """
    refuse_times_and_masks(X, name)
    with naming(name):
        X = check_array(X, accept_sparse="csr", dtype=DTYPES, input_name=name)
    if X.shape[1] != n_units:
        raise ValueError(
            f"{name} has {X.shape[1]} columns, but the layer has {n_units} units."
        )
    rows = Rows(X, _dtype_of(X, model_dtype))
    if not quiet:
        _warn_range(estimator, rows)
    return X, rows


def check_values(estimator, X, rows, *, quiet=False):
    """Refuse NaN, infinity and values that are too large, and warn of some others.

    Unless `quiet`, of those outside [0, 1], which Bernoulli units cannot represent.
    """
    if not rows.finite:
        refuse_not_finite(estimator, X)
    refuse_too_large(max(-rows.minimum, rows.maximum), rows.dtype)
    if not quiet:
        _warn_range(estimator, rows)


def _with_rows_together(X):
    """Return X, copied where columns are together in memory, as those of tables are.

    Reading a row of such data takes two to three times as long. Large data are left.
    """
    apart = X.shape[1] > 1 and X.strides[1] != X.itemsize
    return np.ascontiguousarray(X) if apart and X.nbytes <= MOST_COPIED else X


def _dtype_of(X, model_dtype):
    """Return the dtype to compute X in, or None to leave that to `Rows`."""
    if X.dtype.kind == "f":
        return X.dtype
    if model_dtype is None:
        return None
    return np.float32 if model_dtype == np.float32 else np.float64


def are_shares(rows):
    """Whether all values are in [0, 1], but for rounding."""
    return rows.minimum >= -ROUNDING and rows.maximum <= 1 + ROUNDING


def _warn_range(estimator, rows):
    if not are_shares(rows):
        warn(
            f"The units of {title(estimator)} stand for values in [0, 1] but "
            f"the data ranges over [{rows.minimum:.7g}, {rows.maximum:.7g}]; scale "
            "it with MinMaxScaler(clip=True), sparse data with MaxAbsScaler, or make "
            "it binary with Binarizer.",
        )


# ---- Data as floats, for linear models and tables ----


def check_floats(estimator, X, *, reset=False, **how):
    """Validate data of the estimator's features, as float32 or float64.

    The first ones, with `reset`, are refused if they are too large.

    `how` goes on to scikit-learn's `validate_data`.
    """
    refuse_times_and_masks(X, "X")
    X = _once(X)
    X = _validated(estimator, X, reset=reset, dtype=FLOATS, **how)
    if reset:
        # (There may be NaN, which these leave out.)
        values = X.data if sp.issparse(X) else X
        least, most = (
            f.reduce(values, axis=None, initial=0) for f in (np.fmin, np.fmax)
        )
        refuse_too_large(max(-least, most), X.dtype)
    return X


def check_latent(X, n_columns, columns, **how):
    """Validate input of `inverse_transform`, of so many columns, as floats.

    `how` goes on to scikit-learn's `check_array`.
    """
    refuse_times_and_masks(X, "X")
    X = check_array(_once(X), dtype=FLOATS, input_name="X", **how)
    if X.shape[1] != n_columns:
        raise ValueError(
            f"X has {X.shape[1]} columns, but there are {n_columns} {columns}."
        )
    return X


def check_table(estimator, X, missing_values, *, reset=False):
    """Validate a dense table to impute: a copy in floats, NaN where values are missing.

    `missing_values` is what stands for them in X.
    """
    nan = is_nan(missing_values)
    finite = "allow-nan" if nan else True
    X = check_floats(estimator, X, reset=reset, ensure_all_finite=finite)
    return X.copy() if nan else np.where(missing_values == X, X.dtype.type("nan"), X)


def _once(X):
    """Sparse data with one entry a place: two bits there, as floats, would be 2."""
    if sp.issparse(X) and (X.format == "csr" or X.dtype == np.bool_):
        return canonical(X.tocsr())
    return X


def as_floats(values):
    """Rows of values, or one of them, as a matrix; pandas.NA becomes NaN."""
    if hasattr(values, "iloc"):  # pandas
        values = values.to_numpy(np.float64, na_value=np.nan)
    return np.atleast_2d(np.asarray(values, dtype=np.float64))


def dense(X, dtype=None):
    """Return rows as a contiguous array, of another dtype if one is given.

    X itself if it is that already.
    """
    return np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, dtype)


# ---- Missing values, masks and conditions ----


def check_missing(estimator, X, mask=None):
    """Validate dense data with missing values: X with zeros there, and where.

    They are NaN, or named by `mask`, where X may hold anything.
    """
    refuse_times_and_masks(X, "X")
    X = _validated(estimator, X, reset=False, dtype=DTYPES, ensure_all_finite=False)
    missing = np.isnan(X)
    if mask is not None:
        check_names(estimator, mask, "mask")
        missing |= check_mask(mask, X.shape, "mask")
    X = np.where(missing, X.dtype.type(0), X)
    assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")
    return X, missing


def with_missing(estimator, X, mask):
    """X with NaN where `mask`, if there is one, says that values are missing."""
    if mask is None:
        return X
    check_names(estimator, mask, "mask")
    return np.where(check_mask(mask, X.shape, "mask"), X.dtype.type(np.nan), X)


def check_mask(mask, shape, name):
    """A mask of bool for data of this shape, or of its columns, broadcast."""
    mask = np.asarray(mask)
    if mask.dtype == object and all(map(is_bool, mask.flat)):
        # As of tables whose types of bool are those of pandas or Arrow.
        mask = mask.astype(np.bool_)
    if mask.dtype != np.bool_ or mask.shape not in (shape, shape[1:]):
        raise ValueError(
            f"{name} must be bool of shape {shape} or {shape[1:]}, got "
            f"{mask.dtype} of shape {mask.shape}."
        )
    return np.broadcast_to(mask, shape)


def refuse_unseen(missing):
    """Refuse data in which nothing of a feature is observed, by what is missing."""
    unseen = [] if missing is None else np.flatnonzero(missing.all(axis=0))
    if len(unseen):
        raise ValueError(f"Feature {unseen[0]} of X has no observed value.")


def in_dense(X):
    """What a message adds to a remedy for NaN that sparse data do not have."""
    if sp.issparse(X):
        return ", in a dense array: in a sparse matrix they are not supported"
    return ""


def check_fixed(conditions, n_units, *, binary=True):
    """Values (NaN where a unit is free) that units are to keep, 2-d.

    They are 0 or 1 if `binary`.
    """
    values = as_conditions(conditions)
    if values.shape[1] != n_units:
        raise ValueError(
            f"conditions has {values.shape[1]} columns, but the layer has {n_units} "
            "units."
        )
    found = values[~np.isnan(values)]
    wrong = found[(found != 0) & (found != 1)]
    if binary and len(wrong):
        raise ValueError(
            "conditions must be 0 or 1, or NaN for units that are free, got "
            f"{wrong[0]:.6g}."
        )
    return values


def as_conditions(conditions):
    """Values that are to be kept, NaN where they are free, as a matrix of floats."""
    if sp.issparse(conditions):
        raise TypeError("conditions must be dense: NaN stands for units that are free.")
    refuse_times_and_masks(conditions, "conditions")
    with naming("conditions"):
        return check_array(
            as_floats(conditions),
            ensure_all_finite="allow-nan",
            input_name="conditions",
        )


def is_nan(value):
    """Whether a value is NaN."""
    # (`np.isnan` cannot tell of integers that fit in none of its types.)
    return isinstance(value, Real) and bool(value != value)


def nan_for_na(labels):
    """Labels with NaN for None and pandas.NA: tables have all three for no value.

    None cannot be sorted among names, and pandas.NA is equal or unequal to nothing.
    """
    if labels.dtype != object:
        return labels
    missing = np.array([each is None or is_pandas_na(each) for each in labels], bool)
    return np.where(missing, np.nan, labels) if missing.any() else labels


# ---- What is refused in any data, and how it is named ----


def _validated(estimator, X, **checks):
    """What `validate_data` returns; its error says of text what to do about it."""
    if _is_plain(estimator, X, **checks):
        return X
    try:
        return validate_data(estimator, X, **checks)
    except (TypeError, ValueError) as error:
        about_text = re.search("convert string|cast", str(error), re.IGNORECASE)
        column = _column_of_text(X) if about_text else None
        if column is None:
            raise
        raise ValueError(
            f"X holds text in column {column!r}: {error}. Encode it as numbers first: "
            "categories by OneHotEncoder, or, for 'categorical' units of RBM and "
            "RBMImputer, by OrdinalEncoder."
        ) from error


def _is_plain(estimator, X, *, reset, dtype, ensure_all_finite=True, **_):
    """Whether `validate_data`, which takes 0.1 ms, would find nothing to do.

    That is as long as a minibatch, or the features of a few rows, take altogether.
    """
    return (
        not reset
        and ensure_all_finite is False
        and type(X) is np.ndarray
        and X.dtype in dtype
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
    )


def _column_of_text(X):
    """Name or number of the first column of text that is no number, or None."""
    if sp.issparse(X):
        return None
    if hasattr(X, "columns"):  # a table; they may have other types than one another
        columns = [(name, X[name]) for name in X.columns]
    else:
        X = np.asarray(X)
        columns = enumerate(X.T) if X.ndim == 2 else []
    for name, column in columns:
        for each in np.asarray(column, dtype=object):
            if isinstance(each, (str, bytes)):
                try:
                    float(each)
                except ValueError:
                    return name
    return None


def refuse_not_finite(estimator, X):
    """Refuse NaN, with what there is to do about it, and infinity."""
    values = X.data if sp.issparse(X) else X
    if getattr(estimator, "missing", None) == "raise" and np.isnan(values).any():
        raise ValueError(
            f"Input X contains NaN. {type(estimator).__name__} takes them for "
            f"values that are not known with missing='latent'{in_dense(X)}."
        )
    if getattr(estimator, "missing", None) == "latent" and np.isnan(values).any():
        raise ValueError(
            "Input X contains NaN. With missing='latent' transform, reconstruct, "
            "score_samples and impute take missing values, other methods do not."
        )
    assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")


def refuse_too_large(largest, dtype, most=None):
    """Refuse data whose largest number is above `most`, or leaves no room for sums.

    Of infinity others have more to say.
    """
    if (most or ROOM_FOR_SUMS * np.finfo(dtype).max) < largest < np.inf:
        raise ValueError(
            f"X has values of size {largest:.3g}, so large that what is summed up may "
            f"be beyond the numbers of {np.dtype(dtype)}. Scale X"
            f"{or_more_digits('it', dtype)}."
        )


def refuse_times_and_masks(X, name):
    """Refuse dates, times and masked entries, which would become plain numbers."""
    # (Of a table, column by column.)
    for dtype in np.ravel(getattr(X, "dtypes", getattr(X, "dtype", None))):
        if getattr(dtype, "kind", None) in ("m", "M"):
            raise TypeError(f"{name} of dtype {dtype} does not hold numbers.")
    refuse_masks(
        X,
        name,
        f"{name}.astype(float).filled(np.nan) makes them missing values, if the model "
        "takes them",
    )


def refuse_masks(values, name, remedy):
    """Refuse masked entries: their masks would be ignored."""
    # (Arrays of pandas have masks of their own, of what is missing.)
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} has masked entries, whose masks would be lost. Say what they are: "
            f"{remedy}."
        )


@contextmanager
def naming(name):
    """Context whose errors are about the argument or parameter of this name.

    Checks that are made for X speak of X, and those of NumPy and scikit-learn may name
    nothing: where it says X the message then has this name, or begins with it.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        parts = QUOTED.split(str(error))
        parts[::2] = [re.sub(r"\bX\b", name, part) for part in parts[::2]]
        text = "".join(parts)
        if not re.search(rf"\b{name}\b", " ".join(parts[::2])):
            text = f"{name}: {text}"
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(text) from error


def check_names(estimator, X, name):
    """Refuse a table whose columns are not those of the fit, or in another order."""
    known, found = getattr(estimator, "feature_names_in_", None), None
    if known is not None and hasattr(X, "columns"):  # pandas, polars
        found = list(X.columns)
    elif known is not None and hasattr(X, "iloc"):  # a row of pandas
        found = list(X.index)
    # (Only strings are names, as for scikit-learn.)
    named = bool(found) and all(isinstance(each, str) for each in found)
    if named and found != list(known):
        raise ValueError(
            f"{name} must have the columns that X had in fit, in the same order, got "
            f"{found}."
        )


def input_names(estimator, names):
    """Names of the features, as `get_feature_names_out` takes them."""
    return _check_feature_names_in(estimator, names)


# ---- Arguments and estimators ----


def check_choice(value, name, choices):
    """Refuse an argument of a method that is not one of the values it may have."""
    # (`in` cannot tell whether an array is among them.)
    if not np.isscalar(value) or value not in choices:
        raise ValueError(
            f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}."
        )


def check_count(value, name, *, least):
    """An integer argument of a method, at least `least`."""
    if is_bool(value) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer >= {least}, got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}.")
    return int(value)


def random_generator(random_state):
    """A RandomState for the argument `random_state`."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be an integer in [0, 2**32 - 1], a RandomState or "
            f"None, got {random_state!r}."
        ) from error


def random_key(random_state):
    """64 random bits for the kernels, drawn from `random_state`."""
    rng = random_generator(random_state)
    high, low = rng.randint(0, 2**32, size=2, dtype=np.uint32)
    return int(high) << 32 | int(low)


def check_given(estimator, y):
    """Refuse to be fitted without targets."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            "None."
        )


def check_restored(estimator, shapes):
    """Refuse a restored estimator whose arrays do not have the shapes they should.

    shapes : dict of attributes; the value is a shape, or a list of those of the arrays
    in a list.
    """
    for name, wanted in shapes.items():
        found = getattr(estimator, name, None)
        if isinstance(wanted, list):
            found = [] if found is None else [np.shape(each) for each in found]
        else:
            found = np.shape(found)
        if found != wanted:
            raise ValueError(
                f"The restored {type(estimator).__name__} is damaged: {name} has shape "
                f"{found} instead of {wanted}."
            )


def title(estimator):
    """What messages call an estimator; a machine inside another one has a title."""
    return getattr(estimator, "_title", type(estimator).__name__)


def or_more_digits(name, dtype):
    """Return the rest of a remedy against overflow, where there are larger floats."""
    return "" if np.dtype(dtype) == np.float64 else f", or pass {name} as float64"
