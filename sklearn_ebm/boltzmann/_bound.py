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
    """The bound of rows, by draws that are the same for all rows.

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
        for numbers in self.draws:
            below = X
            for k, uniform in enumerate(numbers):
                up, down = self.ups[k], self.downs[k]
                fields = up.fields(below) if k else first
                means = evaluate(up.units, fields, Wanted.MEANS)
                above = (uniform < means).astype(float)
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


def log_probability(units, fields, states):
    """Logarithms of the probabilities of rows of states, given their fields."""
    return (
        np.einsum("ij,ij->i", states, fields)
        - evaluate(units, states, Wanted.ENERGIES)
        - evaluate(units, fields, Wanted.LOG_PARTITIONS)
    )
