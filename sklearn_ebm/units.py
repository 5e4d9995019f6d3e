"""What the units of a layer are: the kinds there are, and which go together.

Given its field x, a unit of any kind has a distribution proportional to
``exp(s x - U(s))`` over its states s. Each kind says what its states and its energy
U are; the logarithm of the normaliser follows, and its derivative is the mean. The
formulas themselves are in ``_units.pyx``.
"""

import sys
from dataclasses import dataclass
from itertools import product
from numbers import Integral

import numpy as np

from ._units import UNBOUNDED, Kind, Units, Wanted, evaluate
from ._validation import random_key

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Mixed",
    "Poisson",
    "ReLU",
    "Spin",
    "Unit",
]


def in_words(spec):
    """What units are, as they were given: a name, or a unit, with all its digits."""
    everything = {"threshold": sys.maxsize, "linewidth": sys.maxsize}
    with np.printoptions(floatmode="unique", **everything):
        return repr(spec)


class Unit:
    """A kind of unit; every other class here derives from it.

    All methods take one row of fields (or states) for every row of a layer.

    Examples
    --------
    >>> from sklearn_ebm.units import Spin, Unit
    >>> isinstance(Spin(), Unit)
    True
    """

    kind = None
    # Number of columns that make one unit.
    size = 1

    # (Not those of dataclasses, to which arrays are neither equal nor hashable.)
    def __eq__(self, other):
        return type(self) is type(other) and in_words(self) == in_words(other)

    def __hash__(self):
        return hash(in_words(self))

    def energy(self, states):
        """Compute the energy U of states.

        Parameters
        ----------
        states : array-like of shape (n_rows, n_units)
            States of a layer of these units.

        Returns
        -------
        energy : ndarray of shape (n_rows,)
            Sum over the units, in nats.

        Raises
        ------
        ValueError
            If `states` are not of shape (n_rows, n_units), or have a number of columns
            that these units cannot have: no whole blocks of categories, not that of
            `loc` or `scale`, or not that of the parts of mixed units.
        """
        return self._evaluate(states, Wanted.ENERGIES, "states")

    def log_partition(self, fields):
        """Compute the logarithm of the normaliser, ``log sum_s exp(s x - U(s))``.

        Parameters
        ----------
        fields : array-like of shape (n_rows, n_units)
            Fields of a layer of these units.

        Returns
        -------
        log_partition : ndarray of shape (n_rows,)
            Sum over the units, in nats.

        Raises
        ------
        ValueError
            If `fields` are not of shape (n_rows, n_units), or have a number of columns
            that these units cannot have (as in `energy`).
        """
        return self._evaluate(fields, Wanted.LOG_PARTITIONS)

    def mean(self, fields):
        """Compute the means of the units.

        Parameters
        ----------
        fields : array-like of shape (n_rows, n_units)
            Fields of a layer of these units.

        Returns
        -------
        mean : ndarray of shape (n_rows, n_units)
            Means: the derivative of `log_partition`.

        Raises
        ------
        ValueError
            As in `log_partition`.
        """
        return self._evaluate(fields, Wanted.MEANS)

    def variance(self, fields):
        """Compute the variances of the units.

        Parameters
        ----------
        fields : array-like of shape (n_rows, n_units)
            Fields of a layer of these units.

        Returns
        -------
        variance : ndarray of shape (n_rows, n_units)
            Variances.

        Raises
        ------
        ValueError
            As in `log_partition`.
        """
        return self._evaluate(fields, Wanted.VARIANCES)

    def sample(self, fields, random_state=None):
        """Draw states.

        Parameters
        ----------
        fields : array-like of shape (n_rows, n_units)
            Fields of a layer of these units.

        random_state : int, RandomState instance or None, default=None
            Seeds the draws.

        Returns
        -------
        states : ndarray of shape (n_rows, n_units)
            Independent draws.

        Raises
        ------
        ValueError
            As in `log_partition`; or if `random_state` is not allowed.
        """
        return self._evaluate(fields, Wanted.DRAWS, key=random_key(random_state))

    def _evaluate(self, rows, wanted, name="fields", **counter):
        rows = np.asarray(rows)
        if rows.ndim != 2:
            raise ValueError(
                f"{name} must be of shape (n_rows, n_units), got shape {rows.shape}."
            )
        dtype = np.float32 if rows.dtype == np.float32 else np.float64
        rows = np.ascontiguousarray(rows, dtype)
        return evaluate(self.kernel(rows.shape[1]), rows, wanted, **counter)

    def kernel(self, n_units):
        """Return the compiled description of a layer of these units.

        Parameters
        ----------
        n_units : int
            Number of columns.

        Returns
        -------
        units : Units
            What the kernels take.

        Raises
        ------
        ValueError
            If these units cannot have so many columns (as in `energy`).
        """
        mean, variance = self._gaussian(n_units)
        return Units(self._groups(n_units), mean, variance)

    def _groups(self, n_units):
        if n_units % self.size:
            raise ValueError(f"{n_units} columns are no blocks of {self.size}.")
        return [(self.kind, n_units, self.size)]

    def _gaussian(self, n_units):
        """Means and variances of Gaussian units, a number for every column."""
        return np.zeros(n_units), np.ones(n_units)


@dataclass(frozen=True, eq=False)
class Bernoulli(Unit):
    """Binary units, 0 or 1.

    Examples
    --------
    >>> from sklearn_ebm.units import Bernoulli
    >>> Bernoulli().mean([[0.0, 1.0]]).round(3)
    array([[0.5  , 0.731]])
    """

    kind = Kind.BERNOULLI


@dataclass(frozen=True, eq=False)
class Spin(Unit):
    """Binary units, -1 or 1.

    Examples
    --------
    >>> from sklearn_ebm.units import Spin
    >>> Spin().mean([[0.0, 1.0]]).round(3)
    array([[0.   , 0.762]])
    """

    kind = Kind.SPIN


@dataclass(frozen=True, eq=False)
class Categorical(Unit):
    """Units with several states, each coded as a block of columns one of which is 1.

    Parameters
    ----------
    n_categories : int
        Number of states, and of columns of a block.

    Raises
    ------
    ValueError
        If `n_categories` is no integer, or less than 1.

    Examples
    --------
    >>> from sklearn_ebm.units import Categorical
    >>> Categorical(3).mean([[0.0, 0.0, 1.0]]).round(3)
    array([[0.212, 0.212, 0.576]])
    """

    n_categories: int
    kind = Kind.CATEGORICAL

    def __post_init__(self):
        """Check the number."""
        n = self.n_categories
        if not _is_count(n):
            raise ValueError(f"n_categories must be an int of at least 1, got {n!r}.")
        # (A number of NumPy's has another repr, and its powers overflow in silence.)
        object.__setattr__(self, "n_categories", int(n))

    @property
    def size(self):
        """Number of columns of a block."""
        return self.n_categories


@dataclass(frozen=True, eq=False)
class Gaussian(Unit):
    """Real units, with ``U(s) = (s - loc)^2 / (2 scale^2)``.

    Parameters
    ----------
    loc : float or ndarray of shape (n_units,), default=0.0
        Means without a field.

    scale : float or ndarray of shape (n_units,), default=1.0
        Standard deviations, which no field changes.

    Raises
    ------
    ValueError
        If `loc` is not a finite number, `scale` not a positive, finite one, or either
        not one for every unit.

    Examples
    --------
    >>> from sklearn_ebm.units import Gaussian
    >>> Gaussian(loc=1.0, scale=2.0).mean([[0.0, 1.0]])
    array([[1., 5.]])
    """

    loc: float | np.ndarray = 0.0
    scale: float | np.ndarray = 1.0
    kind = Kind.GAUSSIAN

    def __post_init__(self):
        """Check the numbers."""
        loc, scale = _numbers(self.loc), _numbers(self.scale)
        if not np.isfinite(loc).all():
            raise ValueError(
                f"loc must be a finite number or one for every unit, got {self.loc!r}."
            )
        if not (np.isfinite(scale) & (scale > 0)).all():
            raise ValueError(
                "scale must be a positive, finite number or one for every unit, got "
                f"{self.scale!r}."
            )
        # (The same numbers have the same repr, of whatever type they came.)
        for name, value in {"loc": loc, "scale": scale}.items():
            object.__setattr__(self, name, value if value.ndim else float(value))

    def _gaussian(self, n_units):
        for name in ("loc", "scale"):
            shape = np.shape(getattr(self, name))
            if shape not in ((), (n_units,)):
                raise ValueError(
                    f"{name} of Gaussian units has shape {shape}, but there are "
                    f"{n_units} of them."
                )
        return (
            np.broadcast_to(np.asarray(self.loc, float), n_units),
            np.broadcast_to(np.square(np.asarray(self.scale, float)), n_units),
        )


@dataclass(frozen=True, eq=False)
class ReLU(Unit):
    """Real units that are not negative, with ``U(s) = s^2 / 2``.

    A Gaussian of variance 1 around the field, restricted to what is not negative;
    its mean is a smooth rectifier of the field.

    Examples
    --------
    >>> from sklearn_ebm.units import ReLU
    >>> ReLU().mean([[0.0, 5.0]]).round(3)
    array([[0.798, 5.   ]])
    """

    kind = Kind.RELU


@dataclass(frozen=True, eq=False)
class Poisson(Unit):
    """Counts 0, 1, 2, ..., with ``U(s) = log s!`` and mean ``exp(field)``.

    Examples
    --------
    >>> from sklearn_ebm.units import Poisson
    >>> Poisson().mean([[0.0, 1.0]]).round(3)
    array([[1.   , 2.718]])
    """

    kind = Kind.POISSON


@dataclass(frozen=True, eq=False)
class Mixed(Unit):
    """Units of several kinds, one kind after the other.

    Parameters
    ----------
    parts : tuple of (int, Unit)
        Numbers of columns, and what they hold.

    Raises
    ------
    ValueError
        If `parts` are not pairs of a number of columns and a `Unit`, or such a unit
        cannot have so many columns.

    Examples
    --------
    >>> from sklearn_ebm.units import Bernoulli, Gaussian, Mixed
    >>> Mixed(((1, Bernoulli()), (2, Gaussian()))).mean([[0.0, 1.0, 2.0]])
    array([[0.5, 1. , 2. ]])
    """

    parts: tuple

    def __post_init__(self):
        """Check the parts."""
        several = isinstance(self.parts, (tuple, list)) and len(self.parts) > 0
        for part in self.parts if several else [self.parts]:
            if not _is_part(part):
                raise ValueError(
                    "parts must hold pairs (number of columns >= 1, Unit), got "
                    f"{part!r}."
                )
        parts = tuple((int(n), unit) for n, unit in self.parts)
        for n, unit in parts:
            try:
                # (What `kernel` refuses, which takes ten times as long.)
                unit._groups(n), unit._gaussian(n)
            except ValueError as error:
                raise ValueError(f"parts cannot hold {(n, unit)!r}: {error}") from error
        object.__setattr__(self, "parts", parts)

    def _groups(self, n_units):
        total = sum(n for n, _ in self.parts)
        if total != n_units:
            raise ValueError(f"Mixed units of {total} columns do not make {n_units}.")
        return [group for n, unit in self.parts for group in unit._groups(n)]

    def _gaussian(self, n_units):
        of_parts = [unit._gaussian(n) for n, unit in self.parts]
        return tuple(np.concatenate(values) for values in zip(*of_parts, strict=True))


def _is_count(n):
    return isinstance(n, Integral) and not isinstance(n, bool) and n >= 1


def _is_part(part):
    if not isinstance(part, (tuple, list)) or len(part) != 2:
        return False
    return _is_count(part[0]) and isinstance(part[1], Unit)


def _numbers(values):
    """Return a number, or one for every unit, as an array; NaN if it is neither."""
    try:
        values = np.asarray(values, float)
    except (TypeError, ValueError):
        return np.array(np.nan)
    return values if values.ndim < 2 else np.array(np.nan)


BY_NAME = {
    "bernoulli": Bernoulli,
    "spin": Spin,
    "gaussian": Gaussian,
    "relu": ReLU,
    "poisson": Poisson,
}


def as_unit(unit):
    """Return the unit that a name stands for.

    Parameters
    ----------
    unit : str or Unit
        A unit, or the name of one that needs no parameters.

    Returns
    -------
    unit : Unit
        The unit.
    """
    if isinstance(unit, str) and unit in BY_NAME:
        return BY_NAME[unit]()
    if isinstance(unit, Unit):
        return unit
    raise ValueError(
        f"there are no units {unit!r}; names are {sorted(BY_NAME)} and, for visible "
        "columns that hold codes, 'categorical'."
    )


def are_bits(unit):
    """Tell whether units of a layer are all Bernoulli, by name or not.

    Parameters
    ----------
    unit : object
        A name or a unit, or what is neither.

    Returns
    -------
    are_bits : bool
        Whether that is so.
    """
    return isinstance(unit, (str, Unit)) and unit in ("bernoulli", Bernoulli())


def are(kinds, *wanted):
    """Return which of an array of kinds are among those that are wanted.

    They are compared as plain numbers. Of anything else NumPy asks the type for
    attributes and takes every error for a no, Ctrl-C too; and before Python 3.12 the
    type of an enumeration answers in Python, where Ctrl-C can be heard.

    Parameters
    ----------
    kinds : ndarray of int
        Kinds, for instance one for every unit of a layer.

    *wanted : Kind
        What they may be.

    Returns
    -------
    are : ndarray of bool
        Which of them are that.
    """
    # (Kinds are few: np.isin takes ten times as long.)
    found = np.zeros(np.shape(kinds), bool)
    for kind in wanted:
        found |= kinds == int(kind)
    return found


def kinds_of(unit):
    """Return the kinds of units in a layer.

    Parameters
    ----------
    unit : Unit
        What the layer holds.

    Returns
    -------
    kinds : set of Kind
        The kinds.
    """
    if isinstance(unit, Mixed):
        return set().union(*(kinds_of(part) for _, part in unit.parts))
    return {unit.kind}


def kinds_by_column(unit, n_columns):
    """Return the kind of every column of a layer.

    Parameters
    ----------
    unit : Unit
        What the layer holds.

    n_columns : int
        Number of its columns.

    Returns
    -------
    kinds : ndarray of int of shape (n_columns,)
        The kinds.
    """
    groups = unit._groups(n_columns)
    return np.concatenate([np.full(n, int(kind)) for kind, n, _ in groups])


def any_unbounded(*units):
    """Tell whether states of any of these units can be as large as they like.

    Parameters
    ----------
    *units : Unit
        What layers hold.

    Returns
    -------
    unbounded : bool
        Whether any kind in them has no bound.
    """
    return any(UNBOUNDED & kinds_of(unit) for unit in units)


def with_gaussian(unit, mean, variance):
    """Return the same units with other means and variances of Gaussian ones.

    Parameters
    ----------
    unit : Unit
        What a layer holds.

    mean, variance : ndarray of shape (n_units,)
        Numbers for every column; only those of Gaussian ones are used.

    Returns
    -------
    unit : Unit
        What it holds then.
    """
    if isinstance(unit, Gaussian):
        return Gaussian(mean, np.sqrt(variance))
    if not isinstance(unit, Mixed):
        return unit
    parts, at = [], 0
    for n, part in unit.parts:
        where = slice(at, at + n)
        parts.append((n, with_gaussian(part, mean[where], variance[where])))
        at += n
    return Mixed(tuple(parts))


def check_pair(visible, hidden):
    """Refuse layers that have no joint distribution.

    Parameters
    ----------
    visible, hidden : Unit
        What two connected layers hold.

    Returns
    -------
    unbounded : bool
        Whether there is a distribution only while the weights are small.
    """
    unbounded = False
    for pair in product(kinds_of(visible), kinds_of(hidden)):
        if not UNBOUNDED.issuperset(pair):
            continue
        if Kind.POISSON in pair:
            first, second = (Kind(kind).name.lower() for kind in pair)
            raise ValueError(
                f"{first} visible and {second} hidden units have no joint "
                "distribution: the mean of a count grows exponentially with its "
                "field, so that with any positive weight between them exp(-energy) "
                "has an infinite sum. Counts go with bernoulli, spin and categorical "
                "units."
            )
        unbounded = True
    return unbounded


def check_blocks(unit, missing, name, first=0):
    """Refuse data in which only a part of a block of categories is missing.

    What is there of such a block tells something of the rest, which chains that draw
    whole blocks do not take into account.

    Parameters
    ----------
    unit : Unit
        What the layer holds.

    missing : ndarray of bool of shape (n_rows, n_units)
        Which values are missing.

    name : str
        What messages call the data.

    first : int, default=0
        Number of the first column in these messages.
    """
    start = 0
    for _, n_units, size in unit._groups(missing.shape[1]):
        part = missing[:, start : start + n_units]
        blocks = part.reshape(len(part), n_units // size, size)
        rows, places = np.nonzero(blocks.any(axis=2) & ~blocks.all(axis=2))
        if len(rows):
            column = first + start + size * int(places[0])
            raise ValueError(
                f"{name} has values for some of the columns {column} to "
                f"{column + size - 1} in row {rows[0]} and none for others; they are "
                "one block of categories, known as a whole or missing as a whole."
            )
        start += n_units
