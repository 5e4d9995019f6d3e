"""Data of the benchmarks: MNIST from a .npz file, or fetched from OpenML."""

import numpy as np
from sklearn.datasets import fetch_openml


def load_mnist(path=None):
    """Grey values (uint8) of the 60 000 training and 10 000 test images.

    path : a .npz file with arrays X_train and X_test, or None to fetch them.
    """
    if path is None:
        X = fetch_openml("mnist_784", as_frame=False, parser="liac-arff").data
        return X[:60000].astype(np.uint8), X[60000:].astype(np.uint8)
    with np.load(path) as arrays:
        return arrays["X_train"], arrays["X_test"]
