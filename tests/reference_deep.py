"""Plain NumPy twins of deep Boltzmann machines: mean field, bounds, all states."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
from scipy.special import entr, expit, logsumexp

from reference import all_states

# ---- Mean field in a folded machine ----


def half_steps(seen, weights, odd_bias, latent_bias):
    """What a mean-field step does, as functions.

    seen : (n_rows, n_given), what is given; weights : (n_even, n_odd).

    Returns the latent means to begin with, odd means given latent ones, and latent
    means given odd ones.
    """
    given, above = np.split(np.float64(weights), [seen.shape[1]])
    from_below = np.float64(seen) @ given

    def odd_means(latent):
        return expit(from_below + latent @ above + odd_bias)

    def latent_means(odd):
        return expit(odd @ above.T + latent_bias)

    # To begin with, the layers above say what those below say.
    return latent_means(expit(2 * from_below + odd_bias)), odd_means, latent_means


def mean_field(seen, weights, odd_bias, latent_bias, n_steps, tolerance=0.0):
    """Means of latent and of odd units; a row that has settled stays as it is."""
    latent, odd_means, latent_means = half_steps(seen, weights, odd_bias, latent_bias)
    moving = np.ones(len(seen), bool)
    for _ in range(n_steps):
        new = latent_means(odd_means(latent))
        change = np.abs(new - latent).max(axis=1, initial=0)
        latent = np.where(moving[:, np.newaxis], new, latent)
        moving &= change > tolerance
    return latent, odd_means(latent)
