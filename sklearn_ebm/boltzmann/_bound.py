"""The variational bound on the log-likelihood of a deep belief network.

With h1, h2, ... for the hidden layers from the bottom up and q for the distribution
that is drawn from on the way up, one layer given the layer below,

    log p(v) >= E_q[log p(v | h1) + log p(h1 | h2) + ... + log p(h) - log q(h1, ...)],

where h is the lower layer of the machine on top, whose other one is summed over. The
entropy of q is an average over draws like the rest, although it could be had without:
where q is nearly the posterior, what it leaves of the other terms hardly varies.
"""

import numpy as np

from .._machines import Machine
from .._units import Wanted, evaluate

# Seed of the draws.
SEED = 0


class Bound:
    """The bound of rows, by draws of their own that the values of a row decide.

    So a row by itself has the bound that it has among others, and in the mean over
    many rows the errors of the draws go away.

    Parameters
    ----------
    recognition : list of Layered
        The way up to the lower layer of the machine on top.

    generative : list of Layered
        The way down from there: the same layers.

    top : Layered
        The machine on top.

    n_draws : int
        Draws of the layers below it.
    """

    def __init__(self, recognition, generative, top, n_draws):
        self.ups = [Machine(layers, np.float64).up for layers in recognition]
        self.downs = [Machine(layers, np.float64).down for layers in generative]
        self.top = Machine(top, np.float64)
        rng = np.random.default_rng(SEED)
        drawn = [spread(rng, n_draws, len(up.bias)) for up in self.ups]
        # With no layer below the machine on top there is nothing to draw.
        self.draws = list(zip(*drawn, strict=True)) or [()]
        self.sizes = [len(up.bias) for up in self.ups]

    def of(self, X):
        """Bounds of rows, without the log Z of the machine on top.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_visible)
            Values of the visible units, in float64.

        Returns
        -------
        bound : ndarray of shape (n_rows,)
            Bounds in nats.
        """
        # What is the same in every draw.
        first = self.ups[0].fields(X) if self.ups else None
        total = np.zeros(len(X))
        shifts = shifts_of(X, self.sizes)
        for numbers in self.draws:
            below = X
            for k, number in enumerate(numbers):
                up, down = self.ups[k], self.downs[k]
                fields = up.fields(below) if k else first
                means = up.means_at(fields)
                # (As evenly spread over the draws as they were.)
                above = ((number + shifts[k]) % 1 < means).astype(float)
                total += log_probability(down.units, down.fields(above), below)
                total -= log_probability(up.units, fields, above)
                below = above
            total -= self.top.free_energy(below)
        return total / len(self.draws)


def spread(rng, n_draws, n_units):
    """Uniform numbers (n_draws, n_units), a unit's spread evenly over the draws.

    The numbers of any one draw are independent (Latin hypercube sampling).
    """
    strata = np.tile(np.arange(n_draws)[:, np.newaxis], n_units)
    strata = rng.permuted(strata, axis=0)
    return (strata + rng.random(strata.shape)) / n_draws


def shifts_of(X, sizes):
    """Return uniform numbers (n_rows, size), one array a size, that rows decide.

    By a hash of their values in single precision, that of a row in double precision.
    """
    with np.errstate(over="ignore"):
        words = (X.astype(np.float32) + np.float32(0)).view(np.uint32)  # no -0
    numbers = _scrambled(np.arange(X.shape[1] + sum(sizes), dtype=np.uint64))
    factors, *parts = np.split(numbers, X.shape[1] + np.cumsum([0, *sizes[:-1]]))
    rows = _scrambled(np.einsum("ij,j->i", words, factors))[:, np.newaxis]
    return [(_scrambled(rows + part) >> np.uint64(11)) * 2.0**-53 for part in parts]


def _scrambled(x):
    """Return 64-bit numbers that seem random, one for each (splitmix64).

    By G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators"
    (OOPSLA 2014).
    """
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def log_probability(units, fields, states):
    """Logarithms of the probabilities of rows of states, given their fields."""
    return (
        np.einsum("ij,ij->i", states, fields)
        - evaluate(units, states, Wanted.ENERGIES)
        - evaluate(units, fields, Wanted.LOG_PARTITIONS)
    )
