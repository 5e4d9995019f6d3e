"""Data of the benchmarks: MNIST from a file or fetched, and patterns of bits."""

import sys
import warnings
from urllib.error import URLError

import numpy as np
from sklearn.datasets import fetch_openml


def load_mnist(path=None, *, labels=False):
    """Grey values (uint8) of the 60 000 training and 10 000 test images.

    path : a .npz file with arrays X_train and X_test (and y_train, y_test), or None
        to fetch them.
    labels : whether to return X_train, y_train, X_test, y_test.
    """
    if path is None:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "A network error")
                mnist = fetch_openml("mnist_784", as_frame=False, parser="liac-arff")
        except URLError as error:
            sys.exit(
                f"MNIST cannot be fetched ({error.reason}): give --mnist FILE.npz."
            )
        X, y = mnist.data.astype(np.uint8), mnist.target.astype(int)
        parts = X[:60000], y[:60000], X[60000:], y[60000:]
    else:
        with np.load(path) as arrays:
            names = ["X_train", "y_train", "X_test", "y_test"]
            parts = [arrays.get(name) for name in names]
    return tuple(parts) if labels else (parts[0], parts[2])


def patterns(seed, flip=0.05, n_rows=3000):
    """Ten patterns of 64 bits, each bit flipped now and then; which row is of which."""
    rng = np.random.default_rng(seed)
    y = rng.integers(10, size=n_rows)
    X = (rng.random((10, 64)) < 0.5)[y]
    return (X ^ (rng.random(X.shape) < flip)).astype(np.float32), y
