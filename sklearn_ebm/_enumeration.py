"""All states of a layer, and log Z by them, exactly."""

from itertools import product as combinations

import numpy as np
from scipy.special import logsumexp

from ._gibbs import Layer
from ._machines import Machine, weighted_sums
from ._panels import Panels
from ._rows import Rows
from ._scores import score_rows
from ._units import Kind
from .layered import BITS
from .units import as_unit

# 2 ** 26 states of 1000 units take about a minute a core.
MOST_ENUMERATED = 26
# The same for units other than Bernoulli ones.
MOST_STATE_BITS = 20
# States of bits (as a power of two) that are scored at a time.
BLOCK_BITS = 16
# States of other units that are scored at a time.
BLOCK = 2**12


def n_states(unit, n_units):
    """Number of states of a layer; infinite if any unit has infinitely many."""
    total = 1
    # (Not with NumPy's integers, which overflow in silence.)
    for kind, n, size in unit._groups(int(n_units)):
        if kind in (Kind.BERNOULLI, Kind.SPIN):
            total *= 2**n
        elif kind == Kind.CATEGORICAL:
            total *= size ** (n // size)
        else:
            return np.inf
    return total


def state_counts(layers):
    """Numbers of states of the layers of a model."""
    return [
        n_states(as_unit(unit), len(bias))
        for unit, bias in zip(layers.units, layers.biases, strict=True)
    ]


def enumerate_states(unit, n_units):
    """Yield blocks of rows, all states of a layer that has finitely many."""
    choices = []
    for kind, n, size in unit._groups(n_units):
        if kind == Kind.CATEGORICAL:
            choices += [np.eye(size)] * (n // size)
        else:
            off = -1.0 if kind == Kind.SPIN else 0.0
            choices += [np.array([[off], [1.0]])] * n
    block = []
    for parts in combinations(*choices):
        block.append(np.concatenate(parts))
        if len(block) == BLOCK:
            yield np.array(block)
            block = []
    if block:
        yield np.array(block)


def binary_digits(codes, n):
    """Tell which binary digits of some integers are 1, the lowest of n first."""
    return (codes[:, np.newaxis] >> np.arange(n)) & 1 == 1


# ---- Log Z ----


def enumerated(layers):
    """Log Z of a folded machine, by enumeration of the states of a layer."""
    if layers.units == BITS:
        return _of_bits(layers)
    if not can_enumerate(layers):
        raise ValueError(
            f"Neither layer has at most 2^{MOST_STATE_BITS} states, which could be "
            "enumerated. log_partition(model, 'ais') estimates log Z instead."
        )
    return _of_units(layers)


def can_enumerate(layers):
    """Whether a layer of a folded machine is small enough for that."""
    most = MOST_ENUMERATED if layers.units == BITS else MOST_STATE_BITS
    return min(state_counts(layers)) <= 2**most


def _of_bits(layers):
    """Logarithm of the sum over both layers, the smaller one by enumeration."""
    if len(layers.biases[0]) < len(layers.biases[1]):
        layers = layers.reversed()
    n_units = len(layers.biases[1])
    if n_units > MOST_ENUMERATED:
        raise ValueError(
            f"The smaller layer has {n_units} units: more than the "
            f"{MOST_ENUMERATED} whose states can be enumerated. "
            "log_partition(model, 'ais') estimates log Z instead."
        )
    weights = np.asarray(layers.weights[0], dtype=np.float64)
    # Seen from above, the lower layer is the hidden one.
    layer = Layer(Panels.from_columns(weights), layers.biases[0])
    low = min(n_units, BLOCK_BITS)
    states = np.empty((2**low, n_units), dtype=bool)
    states[:, :low] = binary_digits(np.arange(2**low), low)
    sums = []
    for high in range(2 ** (n_units - low)):
        states[:, low:] = binary_digits(np.array([high]), n_units - low)
        rows = Rows(states.astype(np.float64))
        sums.append(logsumexp(-score_rows(rows, layer, layers.biases[1])))
    return float(logsumexp(sums))


def _of_units(layers):
    """Log Z of a machine with units of any kind, by the states of the smaller layer."""
    units = [as_unit(unit) for unit in layers.units]
    sizes = state_counts(layers)
    if sizes[0] < sizes[1]:
        layers, units = layers.reversed(), units[::-1]
    machine = Machine(layers, np.float64)
    bias = np.asarray(layers.biases[1], float)
    sums = [
        logsumexp(weighted_sums(states, bias) + machine.down.log_partition(states))
        for states in enumerate_states(units[1], len(bias))
    ]
    return float(logsumexp(sums))
