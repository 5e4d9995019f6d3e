"""The value that every layered Boltzmann machine is."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ._products import product
from ._units import Kind
from .units import (
    Mixed,
    are,
    are_bits,
    as_unit,
    check_pair,
    kinds_by_column,
    with_gaussian,
)

__all__ = ["Layered"]

# The units of two layers that have kernels of their own.
BITS = "bernoulli", "bernoulli"
# Directions that are tried where units are rectified, and for how long.
N_AXES, N_ROUNDS = 10, 30
TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class Layered:
    """A layered Boltzmann machine: layers of units, connected to their neighbours.

    Its energy is ``sum_l U_l(s_l) - sum_l s_l . biases[l] - sum_l s_l . weights[l] .
    s_{l+1}``, where U_l is the energy of the units by themselves (0 for Bernoulli
    units; see `sklearn_ebm.units`). What is asked for its likelihood or for samples
    refuses a machine without a distribution. It does not change: its arrays are views
    that cannot be written to.

    Parameters
    ----------
    units : tuple of str or Unit
        What the units of every layer are, the visible layer first.

    weights : tuple of array-like
        ``weights[l]`` of shape (size of layer l, size of layer l + 1).

    biases : tuple of array-like
        ``biases[l]`` of shape (size of layer l,).

    Raises
    ------
    ValueError
        If the layers, or the shapes of `weights` and `biases`, do not fit together, a
        layer has no units, or `units` cannot be what it holds (a name that there is
        not, say, or blocks of categories that are not whole).

    TypeError
        If `weights` or `biases` are no numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm.layered import Layered
    >>> biases = np.zeros(3), np.zeros(2)
    >>> layers = Layered(("bernoulli", "spin"), [np.ones((3, 2))], biases)
    >>> layers.energy([[1, 0, 1]], [[1, 1]])
    array([-4.])
    """

    units: tuple
    weights: tuple
    biases: tuple

    def __post_init__(self):
        """Make arrays of floats of lists, and check that the shapes fit."""
        for name in ("weights", "biases"):
            object.__setattr__(self, name, tuple(map(_floats, getattr(self, name))))
        # (Bits have one name, by which their own kernels and scores are chosen.)
        units = tuple("bernoulli" if are_bits(unit) else unit for unit in self.units)
        object.__setattr__(self, "units", units)
        if any(bias.ndim != 1 or not len(bias) for bias in self.biases):
            found = [bias.shape for bias in self.biases]
            raise ValueError(
                "Biases are an array (n_units,) for every layer, of one unit or more; "
                f"got arrays of shapes {found}."
            )
        sizes = [len(bias) for bias in self.biases]
        shapes = [np.shape(weight) for weight in self.weights]
        if len(self.units) != len(sizes) or shapes != list(pairwise(sizes)):
            raise ValueError(
                f"weights of shapes {shapes} do not connect {len(self.units)} layers "
                f"of sizes {sizes}."
            )
        for unit, size in zip(self.units, sizes, strict=True):
            as_unit(unit).kernel(size)  # refuses layers that these cannot fill

    def energy(self, *states):
        """Energy of rows of states, one array (n_rows, layer size) a layer.

        Parameters
        ----------
        *states : array-like
            States of the layers, the visible layer first.

        Returns
        -------
        energy : ndarray of shape (n_rows,)
            Energies in nats.

        Raises
        ------
        ValueError
            If there is not one array for every layer, or an array has another shape
            than its layer.
        """
        if len(states) != len(self.biases):
            raise ValueError(
                f"A machine of {len(self.biases)} layers has an energy of states of "
                f"each, got {len(states)} arrays."
            )
        states = [np.asarray(s, dtype=float) for s in states]
        if len({len(s) for s in states if s.ndim == 2}) > 1:
            raise ValueError(
                "states have different numbers of rows: "
                f"{[len(s) for s in states if s.ndim == 2]}."
            )
        energy = -sum(s @ b for s, b in zip(states, self.biases, strict=True))
        energy = energy + sum(
            as_unit(unit).energy(s) for unit, s in zip(self.units, states, strict=True)
        )
        for (below, above), weight in zip(pairwise(states), self.weights, strict=True):
            energy = energy - np.einsum("ij,ij->i", below @ weight, above)
        return energy

    def reversed(self):
        """Turn the order of the layers round.

        Returns
        -------
        layered : Layered
            The same machine, its last layer first.
        """
        return Layered(
            self.units[::-1],
            tuple(weight.T for weight in self.weights[::-1]),
            self.biases[::-1],
        )

    def folded(self):
        """Fold the layers into two: the even ones side by side, and the odd ones.

        Only neighbouring layers are connected. So the units of all even layers are
        independent of each other given the odd ones, and the other way round: any
        layered machine is a restricted Boltzmann machine some weights of which are
        zero, and all that is known of those holds for it.

        Returns
        -------
        layered : Layered
            The same machine with two layers. The states of its first layer are
            those of layers 0, 2, ... next to each other, those of its second layer
            those of layers 1, 3, ...

        Raises
        ------
        ValueError
            If there is a single layer; or, of three or more, if `units` has names that
            there are not, or units that do not make layers of these sizes.
        """
        if len(self.units) < 2:
            raise ValueError(f"This takes two layers or more, got {len(self.units)}.")
        if len(self.units) == 2:
            return self
        sizes = [len(bias) for bias in self.biases]
        weight = np.zeros(
            (sum(sizes[::2]), sum(sizes[1::2])),
            np.result_type(*self.weights),
        )
        for block, part in zip(blocks(weight, sizes), self.weights, strict=True):
            block[...] = part
        return Layered(
            tuple(side_by_side(self.units[k::2], sizes[k::2]) for k in (0, 1)),
            (weight,),
            tuple(np.concatenate(self.biases[k::2]) for k in (0, 1)),
        )


def _floats(values):
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"Weights and biases of dtype {values.dtype} are no numbers.")
    # A view: whose array it is may write to it, others not by way of the value.
    values = values.view() if values.dtype.kind == "f" else values.astype(float)
    values.flags.writeable = False
    return values


def blocks(weight, sizes):
    """Return where the weights between neighbouring layers are in a folded machine.

    Parameters
    ----------
    weight : ndarray of shape (n_even, n_odd)
        Weights between the even and the odd layers.

    sizes : list of int
        Sizes of the layers.

    Returns
    -------
    blocks : list of ndarray
        Views of `weight`, one of shape ``(sizes[i], sizes[i + 1])`` for every i.
    """
    found = []
    for i in range(len(sizes) - 1):
        even, odd = (i, i + 1) if i % 2 == 0 else (i + 1, i)
        row, column = sum(sizes[:even:2]), sum(sizes[1:odd:2])
        block = weight[row : row + sizes[even], column : column + sizes[odd]]
        found.append(block if i % 2 == 0 else block.T)
    return found


def connections(sizes):
    """Return which units of a folded machine are connected: those of neighbours.

    Parameters
    ----------
    sizes : list of int
        Sizes of the layers.

    Returns
    -------
    connected : ndarray of bool of shape (n_even, n_odd)
        Even units as rows, odd units as columns.
    """
    connected = np.zeros((sum(sizes[::2]), sum(sizes[1::2])), bool)
    for block in blocks(connected, sizes):
        block[...] = True
    return connected


def unfolded(first, second, sizes):
    """Return what belongs to the layers, from what belongs to both sides.

    Parameters
    ----------
    first, second : ndarray of shape (..., n_units)
        Of layers 0, 2, ... side by side, and of layers 1, 3, ...

    sizes : list of int
        Sizes of the layers.

    Returns
    -------
    layers : list of ndarray of shape (..., n_units)
        Views, one for every layer.
    """
    layers = [None] * len(sizes)
    for k, side in enumerate((first, second)):
        ends = np.cumsum(sizes[k::2], dtype=int)
        layers[k::2] = [
            side[..., end - size : end]
            for end, size in zip(ends, sizes[k::2], strict=True)
        ]
    return layers


def side_by_side(units, sizes):
    """Return what a layer holds that is made of several.

    Parameters
    ----------
    units : sequence of str or Unit
        What these hold.

    sizes : sequence of int
        Their numbers of units.

    Returns
    -------
    unit : str or Unit
        What all of them hold.
    """
    if len(units) == 1 or set(units) == {"bernoulli"}:
        return units[0]
    parts = []
    for unit, size in zip(units, sizes, strict=True):
        unit = as_unit(unit)
        parts += unit.parts if isinstance(unit, Mixed) else [(size, unit)]
    return Mixed(tuple(parts))


def check_distribution(layers):
    """Refuse a machine that is none: exp(-energy) has an infinite sum, or is NaN.

    Parameters
    ----------
    layers : Layered
        The machine.
    """
    for name in ("weights", "biases"):
        for k, numbers in enumerate(getattr(layers, name)):
            wrong = numbers[~np.isfinite(numbers)]
            if len(wrong):
                raise ValueError(f"{name}[{k}] must be finite, got {wrong[0]}.")
    # (All of them: each may be refused.)
    unbounded = [check_pair(*pair) for pair in pairwise(map(as_unit, layers.units))]
    if any(unbounded):
        _check_coupling(layers.folded())


def _check_coupling(layers):
    """Refuse weights between units without bounds that are too large.

    The energy has a quadratic part in them. If it falls in any direction there is no
    distribution; where units are rectified, only directions in which they grow count,
    and some of those are tried: what none of them shows is not refused.
    """
    deviations, rectified = zip(
        *(
            _unbounded(as_unit(unit), len(bias))
            for unit, bias in zip(layers.units, layers.biases, strict=True)
        ),
        strict=True,
    )
    coupling = deviations[0][:, np.newaxis] * layers.weights[0] * deviations[1]
    if _contracts(coupling):
        return
    block = coupling[np.ix_(~rectified[0], ~rectified[1])]
    if not _contracts(block):
        raise ValueError(
            "weights between Gaussian units must have singular values below 1 where "
            "units are measured in their deviations, got "
            f"{np.linalg.norm(block, 2):.6g}: there is no such distribution."
        )
    found = _steepest(coupling, *rectified)
    if found >= 1:
        raise ValueError(
            "weights between rectified units, or of these with Gaussian ones, are too "
            "large: v.W.h must stay below (v.v + h.h) / 2 where Gaussian units are "
            f"measured in their deviations, and comes to {found:.6g} times that: there "
            "is no such distribution."
        )


def _contracts(coupling):
    """Whether all singular values are below 1."""
    if coupling.shape[0] < coupling.shape[1]:
        coupling = coupling.T
    coupling = np.ascontiguousarray(coupling)
    square = product(np.ascontiguousarray(coupling.T), coupling)
    try:
        # (Much faster than singular values, which are below 1 if there is a root.)
        np.linalg.cholesky(np.eye(len(square)) - square)
    except np.linalg.LinAlgError:
        return False
    return True


def _steepest(coupling, rectified_rows, rectified_columns):
    """The largest v.coupling.h that is found for v and h of length 1.

    Entries of rectified units are not negative. From the steepest axes on, v is the
    best there is for h and h for v, which never makes it less.
    """

    def allowed(x, rectified):
        return np.where(rectified[:, np.newaxis], np.maximum(x, 0), x)

    v = np.hstack([coupling, -coupling[:, ~rectified_columns]])
    v = allowed(v, rectified_rows)
    v = v[:, np.argsort(np.linalg.norm(v, axis=0))[-N_AXES:]]
    for _ in range(N_ROUNDS):
        v /= np.maximum(np.linalg.norm(v, axis=0), TINY)
        h = allowed(coupling.T @ v, rectified_columns)
        h /= np.maximum(np.linalg.norm(h, axis=0), TINY)
        v = allowed(coupling @ h, rectified_rows)
    return np.linalg.norm(v, axis=0).max()


def _unbounded(unit, n_units):
    """Deviations of units without bounds by themselves, 0 of others; the rectified."""
    kinds = kinds_by_column(unit, n_units)
    rectified = are(kinds, Kind.RELU)
    _, variance = unit._gaussian(n_units)
    gaussian = np.where(are(kinds, Kind.GAUSSIAN), np.sqrt(variance), 0.0)
    return np.where(rectified, 1.0, gaussian), rectified


def counted_from_origins(layers):
    """Return the machine with Gaussian units counted from their means by themselves.

    Parameters
    ----------
    layers : Layered
        The machine.

    Returns
    -------
    counted : Layered
        The machine of what is left: biases of their neighbours make up for it.

    origins : list of ndarray of shape (layer size,)
        What is left out of every layer; 0 of units that are not Gaussian.
    """
    units, biases, origins = [], [np.asarray(b, float) for b in layers.biases], []
    for unit, bias in zip(layers.units, biases, strict=True):
        origin, variance = as_unit(unit)._gaussian(len(bias))
        origins.append(origin)
        far = origin.any()
        units.append(with_gaussian(unit, 0 * origin, variance) if far else unit)
    # (Not by BLAS, whose threads keep a processor busy for a while afterwards.)
    for k, weight in enumerate(layers.weights):
        if origins[k].any():
            biases[k + 1] = biases[k + 1] + np.einsum("i,ij->j", origins[k], weight)
        if origins[k + 1].any():
            biases[k] = biases[k] + np.einsum("ij,j->i", weight, origins[k + 1])
    return Layered(tuple(units), layers.weights, tuple(biases)), origins
