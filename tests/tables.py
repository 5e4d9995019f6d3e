"""Small data: a table with columns of every kind, with a model; and others."""

import numpy as np

from common import all_states
from reference import generator
from sklearn_ebm import RBM


def table(n_rows=300, seed=0):
    """A binary column, codes of 3 and of 2 categories, two real ones, counts, spins.

    All of them lean one way or the other with a hidden bit.
    """
    rng = generator(660, seed)
    bit = rng.random(n_rows) < 0.4
    return np.column_stack(
        [
            rng.random(n_rows) < np.where(bit, 0.9, 0.2),
            np.minimum(rng.integers(0, 3, n_rows) + bit, 2),
            rng.integers(0, 2, n_rows),
            rng.normal(np.where(bit, 30.0, 50.0), 4.0),
            rng.normal(np.where(bit, 1e-3, 0.0), 1e-3),
            rng.poisson(np.where(bit, 5.0, 1.0)),
            np.where(rng.random(n_rows) < np.where(bit, 0.8, 0.3), 1, -1),
        ]
    ).astype(float)


SPECS = [
    ([0], "bernoulli"),
    ([1, 2], "categorical"),
    ([3, 4], "gaussian"),
    ([5], "poisson"),
    ([6], "spin"),
]
NAMES = ["bit", "three", "two", "large", "small", "count", "spin"]


def mixed_rbm(visible=SPECS, **options):
    settings = {"learning_rate": 0.02, "n_iter": 5, "random_state": 0}
    return RBM(4, visible=visible, **settings | options)


def bars_and_stripes(n):
    """Images of n x n pixels, whole rows or whole columns on."""
    bits = all_states(n)
    rows = np.repeat(bits, n, axis=1)
    columns = np.tile(bits, n)
    return np.concatenate([rows, columns])


# Kinds of hidden units without bounds.
UNBOUNDED = "gaussian", "relu", "poisson"


def spins_that_agree(n_rows=400, n_spins=12):
    """Spins that nearly all follow one normal variable, and what they are alone."""
    rng = generator(680)
    X = rng.normal(size=(n_rows, 1)) + 0.3 * rng.normal(size=(n_rows, n_spins))
    X = np.where(X > 0, 1.0, -1.0)
    p = (X > 0).mean(axis=0)
    return X, np.where(X > 0, np.log(p), np.log(1 - p)).sum(axis=1).mean()
