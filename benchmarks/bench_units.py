"""Minibatches of RBMs with other than Bernoulli units, beside their matrix products.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/bench_units.py

A minibatch of persistent contrastive divergence takes five products of matrices: data
and chains up, chains down, and two for the gradient. What is timed beside it are these
five alone, by NumPy in the same type, on matrices of the same shapes; runs alternate,
figures are medians, in microseconds a minibatch.
"""

import argparse
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_ebm import RBM
from sklearn_ebm._openmp import effective_n_threads
from sklearn_ebm._rows import Rows
from sklearn_ebm.units import Categorical
from timing import seconds

SIZES = [(64, 256, 10), (64, 256, 100), (128, 256, 100), (784, 500, 100)]
# Of counts of which one in a hundred is not zero.
RARE_SIZES = [(2000, 100, 100), (20000, 100, 100)]


def data(kind, shape, rng):
    """Random rows of units of a kind."""
    if kind == "gaussian":
        return rng.normal(size=shape)
    if kind == "rare counts":
        return rng.integers(1, 6, shape) * (rng.random(shape) < 0.01)
    choices = rng.integers(4, size=(shape[0], shape[1] // 4))
    return np.eye(4)[choices].reshape(shape)


def compare(kind, unit, n_visible, n_hidden, batch_size, dtype, n_rows=2000):
    """Print the times of a minibatch and of its products."""
    rng = np.random.default_rng(0)
    X = data(kind, (n_rows, n_visible), rng).astype(dtype)
    model = RBM(
        n_hidden,
        visible=unit,
        batch_size=batch_size,
        n_chains=batch_size,  # as many rows as the products have
        n_iter=1,
        random_state=0,
    ).fit(X)
    trainer, n_batches = model._trainer(Rows(X)), -(-n_rows // batch_size)
    trainer.begin_epoch(np.arange(n_rows), np.full(n_batches, 1e-3))
    v = X[:batch_size].copy()
    h = rng.normal(size=(batch_size, n_hidden)).astype(dtype)
    W = np.ascontiguousarray(model.components_.T)

    def multiply():
        for _ in range(n_batches):
            v @ W, h @ W.T, v @ W, v.T @ h, v.T @ h

    ours, products = [], []
    for _ in range(9):
        ours.append(seconds(trainer.run, 0, n_batches, trainer.n_threads))
        products.append(seconds(multiply))
    ours, products = (np.array(times) / n_batches * 1e6 for times in (ours, products))
    print(
        f"{kind:12s} {n_visible:5d}x{n_hidden} batch {batch_size:3d} {dtype.__name__}"
        f"   {np.median(ours):8.0f} {np.median(products):8.0f} us   ratio "
        f"{np.median(ours / products):.2f}",
        flush=True,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    # (One epoch of random rows.)
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{effective_n_threads()} threads")
    print(" " * 40 + "ours, products alone")
    for dtype in (np.float32, np.float64):
        for size in SIZES:
            compare("gaussian", "gaussian", *size, dtype)
            compare("categorical", Categorical(4), *size, dtype)
        for size in RARE_SIZES:
            compare("rare counts", "poisson", *size, dtype)


if __name__ == "__main__":
    main()
