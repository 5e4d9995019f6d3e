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


def labelled_mnist(path, validation):
    """Images in [0, 1] and labels to train on, in random order, and to measure on.

    path : as for `load_mnist`.
    validation : whether to measure on 10 000 training images held out.
    """
    X, y, X_test, y_test = load_mnist(path, labels=True)
    X, X_test = ((grey / 255).astype(np.float32) for grey in (X, X_test))
    y, y_test = y.astype(int), y_test.astype(int)
    order = np.random.RandomState(0).permutation(len(X))
    if validation:
        order, held_out = order[:-10_000], order[-10_000:]
        X_test, y_test = X[held_out], y[held_out]
    return X[order], y[order], X_test, y_test


def binary_mnist(path):
    """Training (with X_valid, if there is one) and test images of zeros and ones.

    path : a .npz file of them, or None to fetch MNIST and draw by its grey values.
    """
    if path is None:
        rng = np.random.default_rng(0)
        return [rng.random(X.shape) < X / 255 for X in load_mnist()]
    with np.load(path) as data:
        train = [data[name] for name in ("X_train", "X_valid") if name in data]
        return np.concatenate(train), data["X_test"]


def rows_to_classify(path, n_rows):
    """Rows of 784 numbers and ten labels: of MNIST, or random ones as sparse."""
    if path:
        X, y, _, _ = load_mnist(path, labels=True)
        return (X[:n_rows] / 255).astype(np.float32), y[:n_rows].astype(int)
    rng = np.random.default_rng(0)
    X = rng.random((n_rows, 784), np.float32) * (rng.random((n_rows, 784)) < 0.19)
    return X.astype(np.float32), rng.integers(10, size=n_rows)


def patterns(seed, flip=0.05, n_rows=3000):
    """Ten patterns of 64 bits, each bit flipped now and then; which row is of which."""
    rng = np.random.default_rng(seed)
    y = rng.integers(10, size=n_rows)
    X = (rng.random((10, 64)) < 0.5)[y]
    return (X ^ (rng.random(X.shape) < flip)).astype(np.float32), y
