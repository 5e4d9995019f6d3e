"""Likelihood of layered models: the partition function, exactly."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ._gibbs import Layer
from ._panels import Panels
from ._rows import Rows
from ._scores import score_rows
from .layered import Layered

# 2 ** 26 states of 1000 units take about a minute a core.
MOST_ENUMERATED = 26
# States (as a power of two) that are scored at a time.
BLOCK_BITS = 16


@dataclass(frozen=True)
class LogPartition:
    """The logarithm of a partition function, and how it was found.

    Parameters
    ----------
    value : float
        Logarithm of Z in nats; also ``float(result)``.

    standard_error : float
        Standard error of `value` in nats; 0 if it is exact.

    method : str
        How it was found.
    """

    value: float
    standard_error: float
    method: str

    def __float__(self):
        """Return `value`."""
        return self.value


def log_partition(model, method="exact"):
    """Compute the logarithm of the partition function, log Z.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    method : {"exact"}, default="exact"
        "exact" sums over all states of the smaller layer, at most 26 units.

    Returns
    -------
    result : LogPartition
        Logarithm of Z, in nats.

    Raises
    ------
    ValueError
        If both layers are too large to enumerate.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import BernoulliRBM
    >>> from sklearn_ebm.likelihood import log_partition
    >>> X = np.array([[0, 1], [1, 0]])
    >>> rbm = BernoulliRBM(n_components=3, n_iter=0, random_state=0).fit(X)
    >>> round(float(log_partition(rbm)), 1)  # close to log 2 ** 5
    3.5
    """
    if method != "exact":
        raise ValueError(f"method must be 'exact', got {method!r}.")
    layers = model if isinstance(model, Layered) else model._layered()
    if len(layers.weights) != 1 or set(layers.units) != {"bernoulli"}:
        raise ValueError(
            "The exact method takes two layers of Bernoulli units, got "
            f"{layers.units!r}."
        )
    if len(layers.biases[0]) < len(layers.biases[1]):
        layers = layers.reversed()
    return LogPartition(_sum_over_top(layers), 0.0, "exact")


def _sum_over_top(layers):
    """Logarithm of the sum over both layers, the upper one by enumeration."""
    n_units = len(layers.biases[1])
    if n_units > MOST_ENUMERATED:
        raise ValueError(
            f"The smaller layer has {n_units} units: more than the "
            f"{MOST_ENUMERATED} whose states can be enumerated."
        )
    weights = np.asarray(layers.weights[0], dtype=np.float64)
    # Seen from above, the lower layer is the hidden one.
    layer = Layer(Panels.from_columns(weights), layers.biases[0])
    low = min(n_units, BLOCK_BITS)
    states = np.empty((2**low, n_units), dtype=bool)
    states[:, :low] = _states(np.arange(2**low), low)
    sums = []
    for high in range(2 ** (n_units - low)):
        states[:, low:] = _states(np.array([high]), n_units - low)
        rows = Rows(states.astype(np.float64))
        sums.append(logsumexp(-score_rows(rows, layer, layers.biases[1])))
    return float(logsumexp(sums))


def _states(codes, n_units):
    """Binary digits of some integers, the lowest first."""
    return (codes[:, None] >> np.arange(n_units)) & 1 == 1


def log_likelihood(model, X, log_z=None):
    """Compute the log-likelihood of rows under a model.

    Parameters
    ----------
    model : estimator
        A fitted restricted Boltzmann machine.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Values of the visible units.

    log_z : float or LogPartition, default=None
        Logarithm of the partition function; None computes it exactly.

    Returns
    -------
    log_likelihood : ndarray of shape (n_samples,)
        ``-free_energy(X) - log Z`` in nats.
    """
    log_z = float(log_partition(model) if log_z is None else log_z)
    return -model.free_energy(X) - log_z
