"""How the columns of a table become visible units, and units columns again."""

from dataclasses import astuple
from numbers import Integral

import numpy as np
import scipy.sparse as sp

from .._machines import GLANCE, dense_chunks
from .._missing import missing_values
from .._products import goes_by_lists
from .._units import Kind
from .._validation import ROUNDING, dense, title
from .._warning import warn
from ..units import (
    Categorical,
    Gaussian,
    Mixed,
    Unit,
    are,
    are_bits,
    as_unit,
    check_blocks,
    kinds_of,
)

CODES = "categorical"
# Values that units of a kind can mean; of every kind, so that a new one is not taken
# for a real number.
RANGES = {
    Kind.BERNOULLI: (0, 1),
    Kind.SPIN: (-1, 1),
    Kind.CATEGORICAL: (0, 1),
    Kind.GAUSSIAN: (-np.inf, np.inf),
    Kind.RELU: (0, np.inf),
    Kind.POISSON: (0, np.inf),
}
# How far from 1 a block of categories may sum: probabilities may have been rounded.
BLOCK_ROUNDING = 0.1
# Each code is a column of dense rows: numbers beyond are no codes, but identifiers or
# times, whose columns no memory holds.
MOST_CODES = 2**16


class Columns:
    """Which visible units the columns of a table are.

    Parameters
    ----------
    visible : str, Unit or list of (columns, str or Unit)
        What the columns hold; as parameter `visible` of `RBM`.

    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Data, to find the numbers of categories in; or anything of that width.

    names : ndarray of str or None, default=None
        Names of the columns.

    n_categories : ndarray of int of shape (n_features,) or None, default=None
        Numbers of categories of columns of codes, 0 for others, once known.

    Attributes
    ----------
    runs : list of (start, stop, unit)
        Columns next to each other that hold the same; unit is None for a column of
        codes.

    sizes : ndarray of shape (n_features,)
        Number of visible units of every column.

    unit : Unit
        What the visible units are, all of them.

    kinds : ndarray of int of shape (n_visible,)
        Kind of every visible unit.

    binary : ndarray of bool of shape (n_visible,)
        Which are 0 or 1: bits, and blocks of them of which one is on.

    gaussian, learned : ndarray of bool of shape (n_visible,)
        Which are Gaussian, and which of these have variances that are learned.
    """

    def __init__(self, visible, X, names=None, n_categories=None):
        n_features = X.shape[1]
        specs, owner = owners_of(visible, n_features, names)
        units = [None if s == CODES else as_unit(s) for s in specs]
        codes = np.array([unit is None for unit in units])[owner]
        self.n_categories = n_categories
        if n_categories is None:
            self.n_categories = _count_categories(X, codes)
        self.sizes = np.where(codes, self.n_categories, 1)
        starts = np.flatnonzero(np.diff(owner, prepend=-1) | codes)
        stops = np.append(starts[1:], n_features)
        self.runs = [
            (start, stop, _unit_of_run(units[owner[start]], owner, start, stop))
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        ]
        learned = [isinstance(spec, str) and spec == "gaussian" for spec in specs]
        self.learned = np.repeat(np.array(learned)[owner], self.sizes)
        parts = []
        for start, stop, unit in self.runs:
            n = int(self.sizes[start:stop].sum())
            parts.append((n, Categorical(n) if unit is None else unit))
        for n, unit in parts:
            unit.kernel(n)  # refuses columns that do not make whole blocks
        self.unit = parts[0][1] if len(parts) == 1 else Mixed(tuple(parts))
        self.kinds = np.concatenate([np.full(n, int(unit.kind)) for n, unit in parts])
        self.binary = are(self.kinds, Kind.BERNOULLI, Kind.CATEGORICAL)
        self.gaussian = are(self.kinds, Kind.GAUSSIAN)

    @property
    def has_codes(self):
        """Whether any column holds codes of categories."""
        return any(unit is None for _, _, unit in self.runs)

    def check(self, estimator, X, *, quiet=False):
        """Warn of values that the units cannot represent, unless `quiet`.

        Refuses numbers that are not codes, and blocks that are missing in part.
        """
        for start, stop, unit in self.runs:
            if unit is None:
                _check_codes(X, start, self.n_categories[start] - 1)
                continue
            if isinstance(unit, Categorical) and not sp.issparse(X):
                missing = missing_values(X[:, start:stop])
                if missing is not None:
                    check_blocks(unit, missing, "X", start)
            # (Real numbers may be any: data are not looked at for nothing.)
            if not quiet and unit.kind != Kind.GAUSSIAN:
                _warn_of_values(estimator, X, start, stop, unit)

    def encode(self, X, few=False):
        """Return rows of visible units: columns, codes as blocks one of which is 1.

        With `few` they are sparse where next to all are 0: codes of many categories.
        """
        if not self.has_codes:
            return X
        X = dense(X)
        single = X.dtype in (np.float32, np.uint8, np.bool_)
        dtype = np.float32 if single else np.float64
        if few and all(unit is None for _, _, unit in self.runs):
            coded = self._as_entries(X, dtype)
            if goes_by_lists(coded) and not np.isnan(X).any():
                return coded
        out = np.empty((len(X), self.sizes.sum()), dtype)
        at = 0
        for start, stop, unit in self.runs:
            n = self.sizes[start:stop].sum()
            part = X[:, start:stop]
            if unit is None:
                part = np.where(np.isnan(part), np.nan, part == np.arange(n))
            out[:, at : at + n] = part
            at += n
        return out

    def _as_entries(self, X, dtype):
        """Return codes as a sparse array, in which each is an entry."""
        shape = len(X), self.sizes.sum()
        places = np.nan_to_num(X) + (np.cumsum(self.sizes) - self.sizes)
        starts = np.arange(0, X.size + 1, X.shape[1])
        ones = np.ones(X.size, dtype)
        return sp.csr_array((ones, places.astype(np.int64).ravel(), starts), shape)

    def warn_of_bits(self, estimator, X):
        """Warn of data to train on that are bits where they should be spins."""
        for start, stop, unit in self.runs:
            if unit is None or unit.kind != Kind.SPIN:
                continue
            bits = _range(X, start, stop) == (0, 1)
            if bits and _fraction(X, start, stop) is None:
                warn(
                    "spin units stand for -1 and 1, and 0 is half-way, but "
                    f"{_words(start, stop)} over 0 and 1; change bits x to 2 * x - 1, "
                    f"or choose 'bernoulli' visible units for {title(estimator)}.",
                )

    def decode(self, V):
        """Return columns of rows of visible units: the likeliest of the categories."""
        if not self.has_codes:
            return V
        columns, at = [], 0
        for start, stop, unit in self.runs:
            n = self.sizes[start:stop].sum()
            part = V[:, at : at + n]
            if unit is None:
                part = part.argmax(axis=1)[:, np.newaxis].astype(V.dtype)
            columns.append(part)
            at += n
        return np.hstack(columns)


def range_of(unit):
    """Return the least and the largest value that any units of a layer can mean."""
    lows, highs = zip(*(RANGES[kind] for kind in kinds_of(unit)), strict=True)
    return max(lows), min(highs)


def all_bits(visible):
    """Whether the columns are Bernoulli units, all of them, however they are listed."""
    if not isinstance(visible, list):
        return are_bits(visible)
    # (What is no list of pairs is refused where it is read.)
    return bool(visible) and all(
        isinstance(pair, (tuple, list)) and len(pair) == 2 and are_bits(pair[1])
        for pair in visible
    )


def owners_of(visible, n_features, names=None):
    """Return what the columns hold, and for every column which of these it holds.

    That is a list of units, or names of them, and numbers of its entries. Units have
    their columns in the order of the table, however they were listed.
    """
    if not isinstance(visible, (list, Mixed)):
        return [visible], np.zeros(n_features, int)
    pairs = [
        (column_indices(columns, n_features, names), unit)
        for columns, unit in _pairs(visible, n_features)
    ]
    lists = [columns for columns, _ in pairs]
    owner = places_of(lists, n_features, "visible", names)
    return [_in_order(unit, columns) for columns, unit in pairs], owner


def by_number(visible, n_features, names):
    """`visible` with numbers in place of names of columns, if it has any."""
    if names is None or not isinstance(visible, list):
        return visible
    return [
        (column_indices(columns, n_features, names).tolist(), unit)
        for columns, unit in _pairs(visible, n_features)
    ]


def column_indices(columns, n_features, names=None):
    """Numbers of the columns that an index, a slice, a mask or names stand for."""
    given = columns
    if isinstance(columns, slice):
        columns = _numbered(columns, n_features, names)
    elif not isinstance(columns, Integral):
        columns = np.atleast_1d(np.asarray(columns))
        if columns.dtype.kind in "OUT":
            columns = columns.tolist()
        elif not len(columns):
            columns = columns.astype(int)
    if isinstance(columns, list) and any(isinstance(c, str) for c in columns):
        if names is None:
            raise ValueError(
                f"columns are named {columns}, but the data has no names of columns."
            )
        where = {name: number for number, name in enumerate(names)}
        unknown = [name for name in columns if name not in where]
        if unknown:
            raise ValueError(f"there are no columns {unknown}.")
        return np.array([where[name] for name in columns], int)
    try:
        return np.atleast_1d(np.arange(n_features)[columns])
    except IndexError as error:
        raise ValueError(
            f"columns {given!r} are not among the {n_features} there are."
        ) from error


def _numbered(columns, n_features, names):
    """Return a slice of columns, which may be one of names (the last one included)."""
    ends = [columns.start, columns.stop]
    for place, end in enumerate(ends):
        if isinstance(end, str):
            ends[place] = int(column_indices(end, n_features, names)[0]) + place
    return slice(*ends, columns.step)


def places_of(lists, n_features, parameter, names=None):
    """Return for every column which of the lists it is in: one of them, and once.

    `parameter` is the one that the lists of columns come from, for errors, which give
    columns their `names` if they have any.
    """
    places, named = np.empty(n_features, int), np.zeros(n_features, int)
    for number, columns in enumerate(lists):
        places[columns] = number
        np.add.at(named, columns, 1)
    for fault, text in [
        (named > 1, "not columns {} more than once"),
        (named == 0, "also columns {}"),
    ]:
        if fault.any():
            columns = np.flatnonzero(fault).tolist()
            if names is not None:
                columns = [names[column] for column in columns]
            text = text.format(columns)
            raise ValueError(f"{parameter} must name every column once, {text}.")
    return places


def part_of(unit, columns):
    """Return the unit of some of its columns, by numbers or a mask."""
    if not isinstance(unit, Gaussian):
        return unit
    return Gaussian(
        *(np.asarray(x)[columns] if np.ndim(x) else x for x in astuple(unit))
    )


def _in_order(unit, columns):
    """Return the unit of listed columns for them in the order of the table."""
    if isinstance(unit, Categorical):
        unit.kernel(len(columns))  # refuses columns that do not make whole blocks
        blocks = np.sort(columns.reshape(-1, unit.size), axis=1)
        if (np.diff(blocks, axis=1) != 1).any():
            raise ValueError(
                f"the {unit.size} columns of a block of categories must lie side by "
                f"side, but visible names columns {columns.tolist()} as such blocks."
            )
    if isinstance(unit, Gaussian):
        unit.kernel(len(columns))  # refuses other numbers of means and scales
    return part_of(unit, np.argsort(columns))


def _unit_of_run(unit, owner, start, stop):
    """Return the unit of neighbouring columns, a part of those it was given for."""
    own = np.flatnonzero(owner == owner[start])
    if len(own) == stop - start:
        return unit
    return part_of(unit, (own >= start) & (own < stop))


def _pairs(visible, n_features):
    """Mixed units as a list of (columns, unit), or a list that is one."""
    if isinstance(visible, Mixed):
        visible._groups(n_features)  # refuses another number of columns
        ends = np.cumsum([n for n, _ in visible.parts])
        visible = [
            (slice(end - n, end), unit)
            for end, (n, unit) in zip(ends, visible.parts, strict=True)
        ]
    for pair in visible:
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        # (A string may name either, and is looked up later.)
        if (
            not is_pair
            or isinstance(pair[0], Unit)
            or not isinstance(pair[1], (str, Unit))
        ):
            raise ValueError(f"visible must hold pairs (columns, unit), got {pair!r}.")
        if isinstance(pair[1], Mixed):
            raise ValueError("visible cannot hold Mixed units in a pair; name parts.")
    return visible


def _values(X, start, stop, known):
    """Yield the known values of some columns, a piece at a time.

    Of a sparse table, those it stores. What is known is told by a function.
    """
    if sp.issparse(X):
        pieces = _stored(X.tocsr(), start, stop)
    else:
        pieces = dense_chunks(X[:, start:stop], X.dtype, size=GLANCE)
    for piece in pieces:
        given = known(piece)
        yield piece if given.all() else piece[given]


def _stored(X, start, stop):
    """Yield what a CSR matrix stores of some columns, a piece at a time."""
    for first in range(0, X.nnz, GLANCE):
        part = slice(first, first + GLANCE)
        columns = X.indices[part]
        yield X.data[part][(columns >= start) & (columns < stop)]


def _check_codes(X, column, most):
    """Refuse a column that holds anything but the codes 0, 1, ..., most."""
    largest = 0
    for codes in _values(X, column, column + 1, lambda x: ~np.isnan(x)):
        if not (np.isfinite(codes) & (codes == np.floor(codes)) & (codes >= 0)).all():
            raise ValueError(
                f"Column {column} must hold codes 0, 1, ... of categories, as "
                "sklearn.preprocessing.OrdinalEncoder makes them."
            )
        largest = max(largest, codes.max(initial=0))
    if largest > most:
        raise ValueError(
            f"Column {column} holds the code {largest:g}, but its codes in fit were at "
            f"most {most}."
        )


def _warn_of_values(estimator, X, start, stop, unit):
    """Warn of values in some columns that these units cannot represent."""
    low, high = RANGES[unit.kind]
    least, largest = _range(X, start, stop)
    if least < low - ROUNDING or largest > high + ROUNDING:
        bits = unit.kind == Kind.BERNOULLI
        remedy = "scale them with MinMaxScaler(clip=True)" if bits else "change them"
        warn(
            f"{Kind(unit.kind).name.lower()} units stand for values in "
            f"[{low}, {high}] but {_words(start, stop)} over "
            f"[{least:.7g}, {largest:.7g}]; {remedy}, or choose "
            f"another kind of visible units for {title(estimator)}.",
        )
    elif unit.kind == Kind.POISSON and (odd := _fraction(X, start, stop)) is not None:
        warn(
            f"poisson units stand for counts but {_words(start, stop)} over "
            f"numbers that are not whole, too, such as {odd:.7g}; round them, or "
            f"choose another kind of visible units for {title(estimator)}.",
        )
    elif isinstance(unit, Categorical) and (odd := _odd_block(unit, X, start, stop)):
        row, column, total = odd
        warn(
            f"Columns {column} to {column + unit.size - 1} "
            f"sum to {total:.7g} in row {row}, but they are one block of "
            "categories, one of which is 1 (or NaN, all of them): "
            f"{type(estimator).__name__} has no place for other rows, as "
            "OneHotEncoder makes them of categories it drops or ignores.",
        )


def _words(start, stop):
    """Begin a sentence about what some columns hold."""
    if stop == start + 1:
        return f"column {start} ranges"
    return f"columns {start} to {stop - 1} range"


def _fraction(X, start, stop):
    """A finite number in some columns that is not whole, or None."""
    for part in _values(X, start, stop, np.isfinite):
        odd = part[np.abs(part - np.round(part)) > ROUNDING]
        if len(odd):
            return odd[0]
    return None


def _range(X, start, stop):
    """Least and largest finite value of some columns."""
    values = _values(X, start, stop, np.isfinite)
    ends = [(part.min(), part.max(), part.size) for part in values if part.size]
    # (There may be no finite value.)
    lows, highs, sizes = zip(*ends or [(0, 0, 0)], strict=True)
    least, largest = min(lows), max(highs)
    if sp.issparse(X) and sum(sizes) < X.shape[0] * (stop - start):
        least, largest = min(least, 0), max(largest, 0)  # what it does not store
    return least, largest


def _odd_block(unit, X, start, stop):
    """Return (row, first column, sum) of a block that does not sum to 1, or None."""
    first = 0
    for part in dense_chunks(X, float, lambda rows: rows[:, start:stop], size=GLANCE):
        totals = part.reshape(len(part), -1, unit.size).sum(axis=2)
        # (NaN, of a block that is missing, compares as no more than anything.)
        rows, places = np.nonzero(np.abs(totals - 1) > BLOCK_ROUNDING)
        if len(rows):
            row, place = rows[0], int(places[0])
            return first + row, start + unit.size * place, totals[row, place]
        first += len(part)
    return None


def _count_categories(X, codes):
    """One more than the largest code of every column of codes, at least 1."""
    counts = np.zeros(X.shape[1], int)
    for column in np.flatnonzero(codes):
        part = dense(X[:, [column]], float)
        part = part[np.isfinite(part)]
        if part.size and part.max() >= MOST_CODES:
            raise ValueError(
                f"Column {column} holds {part.max():g}, but codes of categories are "
                f"0, 1, ... and below {MOST_CODES}: OrdinalEncoder makes them."
            )
        counts[column] = 1 + max(0, int(part.max())) if part.size else 1
    if counts.sum() > MOST_CODES:
        raise ValueError(
            f"The columns of codes have {counts.sum()} categories together, each of "
            f"which takes a visible unit; at most {MOST_CODES} are possible."
        )
    return counts
