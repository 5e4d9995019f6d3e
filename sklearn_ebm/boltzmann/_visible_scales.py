"""What visible units are shifted and divided by, and where their biases start."""

import numpy as np
import scipy.sparse as sp

from .._machines import GLANCE, chunks, dense_chunks, weighted_sums
from .._units import Kind
from .._validation import or_more_digits
from .._warning import warn
from ..units import are

# From this number of rows on, the scale by which a feature is standardised is settled,
# if it varies. With fewer rows, every call of `partial_fit` estimates it anew.
FEW_ROWS = 100
# Standard deviations that rectified units, of variance 1 but for that, can well have.
RELU_DEVIATIONS = 0.1, 10.0
# What the state of the training has of visible units that may be real, by its names.
SCALES = "shift", "scale", "visible_variance", "visible_scale"


def first_units(columns, X, division, standardize, dtype):
    """Return where the visible units start.

    Parameters
    ----------
    columns : Columns
        What the columns hold.

    X : {ndarray, sparse matrix} of shape (n_samples, n_visible)
        Visible units.

    division : Division
        Which rows are trained on.

    standardize : bool
        Whether Gaussian units are trained in standard deviations from their mean, not
        only less their mean.

    dtype : dtype
        That of the model, which has to hold the variances.

    Returns
    -------
    start : dict of ndarray of shape (n_visible,)
        "shift" and "scale" (what is subtracted from units, and what they are divided
        by then); "bias" and "variance", so shifted and scaled; "visible_variance" (0
        of constant columns) and "visible_scale", the standard deviations (1 of these).
    """
    mean = division.column_means
    variance = column_variances(X, division.training, mean)
    spread = np.where(variance > 0, variance, 1.0)
    # Far from 0, averages and velocities of hidden biases would not fit those of the
    # weights while variances change, and their fields would be rounded.
    shift, scale = np.where(columns.gaussian, mean, 0.0), np.ones(len(mean))
    if standardize:
        scale = np.where(columns.gaussian, np.sqrt(spread), 1.0)
    if division.n_rows >= FEW_ROWS:
        _warn_of_scale(columns.kinds, np.sqrt(variance))
    _, first = columns.unit._gaussian(len(mean))
    bias = bias_for(columns.kinds, mean, 0.5 / division.n_rows)
    first = np.where(columns.learned, spread, first)
    _check_variances(first, dtype)
    return {
        "shift": shift,
        "scale": scale,
        "bias": np.where(columns.gaussian, (mean - shift) / scale, bias),
        "variance": first / np.square(scale),
        "visible_variance": variance,
        "visible_scale": np.sqrt(spread),
    }


def more_units(state, columns, X, division, standardize, kept):
    """Return what changes in what units are divided by when there are more rows.

    One row, or a few, do not say by what units are to be standardised; a `fit` settles
    it, but for columns that have not varied. The parameters are those of standardised
    units and stay what they are, but for variances that are given in the units of the
    data. Without `standardize` units stay less the mean of the first rows.

    Parameters
    ----------
    state : dict
        The state of the training, before these rows.

    columns, X, division, standardize : see `first_units`
        As there.

    kept : bool
        Whether what has varied keeps its scale, of however few rows that is.

    Returns
    -------
    changed : dict of ndarray
        What takes the place of entries of the state.
    """
    before = state["visible_variance"]
    few = not kept and state["n_seen"] < FEW_ROWS and not state.get("settled")
    new = few | (before == 0)
    if not new.any():
        return {}
    n_rows = state["n_seen"] + division.n_rows
    share = division.n_rows / n_rows
    change = division.column_means - state["visible_offset"]
    mean = state["visible_offset"] + share * change
    inside = column_variances(X, division.training, division.column_means)
    variance = (1 - share) * (before + share * np.square(change)) + share * inside
    variance = np.where(new, beyond_rounding(variance, n_rows, mean), before)
    spread = np.where(variance > 0, variance, 1.0)
    _check_variances(np.where(columns.learned, spread, 1.0), state["components"].dtype)
    changed = {"visible_variance": variance, "visible_scale": np.sqrt(spread)}
    if standardize:
        new &= columns.gaussian
        scale = np.where(new, np.sqrt(spread), state["scale"])
        log_variance, given = state["log_variance"].copy(), ~columns.learned
        larger = np.where(given, np.log(scale / state["scale"]), 0.0)
        log_variance[: len(larger)] -= (2 * larger).astype(log_variance.dtype)
        changed |= {
            "shift": np.where(new, mean, state["shift"]),
            "scale": scale,
            "log_variance": log_variance,
        }
    return changed


def varied_features(start, columns):
    """Features of learned variance that vary; all of them if none does."""
    varied = columns.learned & (start["visible_variance"] > 0)
    return varied if varied.any() else columns.learned


def scaled_offset(state):
    """Running means of visible units, shifted and scaled as these are in training."""
    return (state["visible_offset"] - state["shift"]) / state["scale"]


def kernel_scales(state, columns):
    """What a `UnitTrainer` has to know of the scales of features, by its names."""
    return {
        "learned": columns.learned,
        "shift": state["shift"],
        "scale": state["scale"],
        "data_variance": np.square(state["visible_scale"] / state["scale"]),
    }


def unscaled(state, columns, components, hidden, visible, log_variance):
    """Return parameters for visible units as they are in the data.

    Parameters
    ----------
    state : dict
        The state of the training: "shift" and "scale" of the visible units, and what
        is known of the features.

    columns : Columns
        What the columns hold.

    components, hidden, visible, log_variance : ndarray of float
        Parameters of the machine of units so shifted and scaled: weights and biases
        of the hidden units, biases and variances of the visible ones.

    Returns
    -------
    components, hidden, visible, variance : ndarray of float
        Those of the same machine for units as they are in the data. Features that have
        not varied have no weights.
    """
    shift, scale = state["shift"], state["scale"]
    variance = np.exp(log_variance)
    still = _still(state, columns)
    components = np.where(still, 0.0, components)
    return (
        components * scale,
        hidden - weighted_sums(components, shift / scale / variance),
        np.where(still, state["visible_offset"], shift + scale * visible),
        np.where(still, _still_variance(state, columns), np.square(scale) * variance),
    )


def _still(state, columns):
    """Which real features have not varied so far, in several rows."""
    return columns.learned & (state["visible_variance"] == 0) & (state["n_seen"] > 1)


def _still_variance(state, columns):
    """Variances of real features that have not varied, as if one row more deviated.

    By the size of the feature or, where that is zero, as much as others do.
    """
    size = np.abs(state["visible_offset"])
    varied = columns.learned & (state["visible_variance"] > 0)
    usual = np.median(state["visible_scale"][varied]) if varied.any() else 1.0
    # (In float32, too, squares are finite and larger than 0.)
    size = np.clip(np.where(size > 0, size, usual), 1e-13, 1e18)
    return np.square(size) / (state["n_seen"] + 1)


def bias_for(kinds, mean, little):
    """Biases of independent units with these means, kept `little` from the extremes.

    Those of Gaussian units, whose biases are counted from their means, are 0.
    """
    near = np.clip(mean, 0, 1)
    bernoulli = np.log((near + little) / (1 - near + little))
    spins = np.clip((mean + 1) / 2, 0, 1)
    choices = [
        (Kind.BERNOULLI, bernoulli),
        (Kind.SPIN, np.log((spins + little) / (1 - spins + little)) / 2),
        (Kind.CATEGORICAL, np.log(near + little)),
        (Kind.GAUSSIAN, np.zeros(len(mean))),
        (Kind.POISSON, np.log(np.maximum(mean, 0) + little)),
        (Kind.RELU, mean),
    ]
    which = [are(kinds, kind) for kind, _ in choices]
    # (A kind that is forgotten here is not to start from 0 without a word.)
    return np.select(which, [x for _, x in choices], default=np.nan)


def column_variances(X, numbers, mean):
    """Variances of columns over some rows (their numbers, or how many).

    Zeros are counted, so that sparse rows need no dense copy. Of dense and of sparse
    rows squares of what else there is are added up row by row: the same bits.
    """
    total, n_seen = np.zeros(len(mean)), np.zeros(len(mean), int)
    n_rows = np.size(numbers)
    if np.ndim(numbers) == 0:
        n_rows, numbers = numbers, None
    # (Infinite variances are refused.)
    with np.errstate(over="ignore", invalid="ignore"):
        # (NumPy adds up a single column in another order.)
        if sp.issparse(X) and len(mean) > 1:
            for rows in chunks(X, X.nnz // X.shape[0], numbers, GLANCE):
                stored = rows.data != 0
                columns = rows.indices[stored].astype(np.intp)
                values = rows.data[stored].astype(float)
                np.add.at(total, columns, np.square(values - mean[columns]))
                n_seen += np.bincount(columns, minlength=len(mean))
        else:
            for chunk in dense_chunks(X, float, numbers=numbers, size=GLANCE):
                seen = chunk != 0
                squares = chunk - mean
                squares *= seen
                np.square(squares, out=squares)
                squares[:1] += total
                total, n_seen = squares.sum(axis=0), n_seen + seen.sum(axis=0)
        total += np.square(np.sqrt(n_rows - n_seen) * mean)
    # (Beside a mean beyond all numbers, any variance would be taken for its rounding.)
    finite = np.isfinite(mean)
    total[~finite] = np.inf
    return beyond_rounding(total / n_rows, n_rows, np.where(finite, mean, 0.0))


def beyond_rounding(variance, n_rows, mean):
    """Return variances, exactly 0 where values differ by no more than means round.

    Parameters
    ----------
    variance, mean : ndarray of shape (n_columns,)
        Variances and means of columns.

    n_rows : int
        Number of rows that both are of.

    Returns
    -------
    variance : ndarray of shape (n_columns,)
        Variances.
    """
    rounding = n_rows * np.finfo(float).eps * np.abs(mean)
    return np.where(np.sqrt(variance) > rounding, variance, 0.0)


def _check_variances(variance, dtype):
    """Refuse variances that are 0 or infinite in the dtype of the model."""
    with np.errstate(over="ignore", under="ignore"):
        kept = variance.astype(dtype)
    wrong = np.flatnonzero((kept == 0) | np.isinf(kept))
    if len(wrong):
        raise ValueError(
            f"The variance of visible unit {wrong[0]} is {variance[wrong[0]]:.3g}, "
            f"which is beyond the numbers of {np.dtype(dtype)}. Scale the data"
            f"{or_more_digits('them', dtype)}."
        )


def _warn_of_scale(kinds, deviations):
    """Warn of rectified units whose standard deviations are far from 1."""
    least, most = RELU_DEVIATIONS
    odd = (deviations > 0) & ~((deviations >= least) & (deviations <= most))
    odd &= are(kinds, Kind.RELU)
    if odd.any():
        unit = np.flatnonzero(odd)[0]
        warn(
            f"Rectified units vary by about 1, whatever the data: visible unit {unit} "
            f"has a standard deviation of {deviations[unit]:.3g}, which the model "
            "cannot say well. Scale such features, for instance with "
            "StandardScaler(with_mean=False)."
        )
