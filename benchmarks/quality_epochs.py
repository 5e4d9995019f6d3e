"""How many epochs of fine-tuning many rows take.

    python benchmarks/quality_epochs.py [--mnist mnist.npz]

`DBNRegressor` and `DBNClassifier` with the default number of epochs, which falls with
the number of rows, and with 100, all else default: test error (of Friedman's first
function with noise of variance 1, the share of the variance that is not explained), log
loss in nats, and seconds of the fit. The clusters are six classes of corners of a
hypercube (20 features, `make_classification`), scaled to [0, 1]; MNIST has grey values
as probabilities.
"""

import argparse
from time import perf_counter

from sklearn.datasets import make_classification, make_friedman1
from sklearn.metrics import log_loss
from sklearn.preprocessing import minmax_scale

from data import labelled_mnist
from sklearn_ebm import DBNClassifier, DBNRegressor


def classes(n_rows):
    """Training and test rows of six classes in 20 features."""
    X, y = make_classification(
        n_rows + 10000, 20, n_informative=12, n_classes=6, random_state=0
    )
    X = minmax_scale(X)
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def report(name, model, X, y, X_test, y_test):
    """Print how well a model does that has learned X and y, and in what time."""
    start = perf_counter()
    model.fit(X, y)
    seconds = perf_counter() - start
    error, nats = 1 - model.score(X_test, y_test), ""
    if hasattr(model, "predict_proba"):
        nats = f"{log_loss(y_test, model.predict_proba(X_test)):.3f} nats"
    print(
        f"{name:16s} {model.n_iter_:4d} epochs  error {100 * error:5.2f} %  {nats:10s}"
        f"  {seconds:6.1f} s",
        flush=True,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist", help="a .npz file with X_train and X_test")
    args = parser.parse_args()
    X, y = make_friedman1(20000, noise=1, random_state=0)
    runs = [("Friedman", DBNRegressor, X[:10000], y[:10000], X[10000:], y[10000:])]
    runs += [(f"clusters, {n}", DBNClassifier, *classes(n)) for n in (10000, 40000)]
    X, y, X_test, y_test = labelled_mnist(args.mnist, validation=False)
    runs += [
        (f"MNIST, {n}", DBNClassifier, X[:n], y[:n], X_test, y_test)
        for n in (10000, 60000)
    ]
    for name, estimator, *data in runs:
        for n_iter in (None, 100):
            report(name, estimator(n_iter=n_iter, random_state=0), *data)


if __name__ == "__main__":
    main()
