"""Minibatches of RBMs with other than Bernoulli units, beside their matrix products.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/bench_units.py

A minibatch of persistent contrastive divergence takes five products of matrices: data
and chains up, chains down, and two for the gradient. What is timed beside it are these
five alone, by NumPy in the same type, on matrices of the same shapes; runs alternate,
figures are medians, in microseconds a minibatch.
"""

import argparse

import numpy as np

from sklearn_ebm import RBM
from sklearn_ebm._openmp import effective_n_threads
from sklearn_ebm._rows import Rows
from sklearn_ebm.units import Categorical
from timing import seconds

SIZES = [(64, 256, 10), (64, 256, 100), (128, 256, 100), (784, 500, 100)]


def data(kind, shape, rng):
    """Random rows of units of a kind."""
    if kind == "gaussian":
        return rng.normal(size=shape)
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
        f"{kind:12s} {n_visible:4d}x{n_hidden} batch {batch_size:3d} {dtype.__name__}"
        f"   {np.median(ours):8.0f} {np.median(products):8.0f} us   ratio "
        f"{np.median(ours / products):.2f}",
        flush=True,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    print(f"{effective_n_threads()} threads")
    print(" " * 39 + "ours, products alone")
    for dtype in (np.float32, np.float64):
        for size in SIZES:
            compare("gaussian", "gaussian", *size, dtype)
            compare("categorical", Categorical(4), *size, dtype)


if __name__ == "__main__":
    main()
