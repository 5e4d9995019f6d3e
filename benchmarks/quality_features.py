"""Test error of a logistic regression on features of BernoulliRBM.

    OPENBLAS_NUM_THREADS=1 python benchmarks/quality_features.py [--mnist mnist.npz]
        [--validation] [--rows N] [--epochs N] [--verbose]
    OPENBLAS_NUM_THREADS=1 python benchmarks/quality_features.py --bundled

Grey values are taken as probabilities (X / 255); features are the means of 1024 hidden
units. Published: 1.83 % (contrastive divergence with one step, learning rate .05,
minibatches of 10, 120 epochs). Settings of the machine and C of the regression were
chosen by the error on 10 000 training images held out (--validation, which prints that
of several C), never by that on the test images. --rows trains on the first so many
images, --epochs for another number of epochs, --verbose prints a line an epoch.

--bundled prints the accuracy on scikit-learn's data, with its RBM beside ours: digits
with all defaults (three folds), and with the settings and the data of its example "RBM
features for digit classification", where digits are moved by a pixel before a fifth
of them is taken for the test; and small tables, scaled to between 0 and 1, with the
defaults but for the number of units (three folds). Then that of the highest layer of
deep models, with all defaults; and of `DBNTransformer`, its start and output varied, on
simulated images of horizontal or vertical lines (8x8 bits, one in twenty of which is
flipped, 1500 rows); and of `GaussianRBM`, its features standardised, on two circles,
one within the other. Means over three seeds.
"""

import argparse
import time

import numpy as np
from scipy.ndimage import shift
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_circles,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neural_network import BernoulliRBM as SklearnRBM
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, minmax_scale

from data import labelled_mnist
from sklearn_ebm import BernoulliRBM, DBMTransformer, DBNTransformer, GaussianRBM

SETTINGS = {
    "n_components": 1024,
    "persistent": False,
    "learning_rate": 0.05,
    "batch_size": 10,
    "n_iter": 60,
    # Without it hidden units are on for few images each, and say more.
    "centering": False,
    "random_state": 0,
}
C = 1.0
OTHER_C = 0.03, 0.1, 0.3, 1.0, 3.0
# Of --bundled: the settings of scikit-learn's example, and the machines compared.
EXAMPLE = {"n_components": 100, "learning_rate": 0.06, "n_iter": 10}
LONG_EXAMPLE = EXAMPLE | {"n_iter": 30}
TABLES = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
WIDTH = {"n_components": 100}
MACHINES = {
    "scikit-learn": (SklearnRBM, {}),
    "sklearn_ebm": (BernoulliRBM, {}),
    "sklearn_ebm, centering=False": (BernoulliRBM, {"centering": False}),
}
DEEP = {"DBNTransformer": DBNTransformer, "DBMTransformer": DBMTransformer}
STARTS = {
    "raw": (lambda random_state: "passthrough", {}),
    "BernoulliRBM": (BernoulliRBM, {}),
    "DBNTransformer": (DBNTransformer, {}),
    'DBNTransformer, init="random"': (DBNTransformer, {"init": "random"}),
    'DBNTransformer, output="all"': (DBNTransformer, {"output": "all"}),
}
SPARSE = {"sparsity_target": 0.1, "sparsity_cost": 0.1}
MOVES = (0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)
N_SEEDS = 3


def error_of(train, test, y, y_test, C):
    """Percentage of test images that are taken for another digit."""
    model = LogisticRegression(C=C, max_iter=200).fit(train, y)
    return 100 * (1 - model.score(test, y_test))


def accuracy(rbm, X, y):
    """Mean accuracy on three folds."""
    model = make_pipeline(rbm, LogisticRegression(max_iter=1000))
    return cross_val_score(model, X, y, cv=3).mean()


def scaled_accuracy(rbm, X, y):
    """Mean accuracy on three folds, of features that are standardised."""
    return accuracy(make_pipeline(rbm, StandardScaler()), X, y)


def example_accuracy(rbm, X, y):
    """Accuracy on a fifth of the moved digits."""
    images = X.reshape(-1, 8, 8)
    moved = [shift(images, (0, *move), order=0).reshape(len(X), 64) for move in MOVES]
    train, test, y_train, y_test = train_test_split(
        np.vstack(moved), np.tile(y, len(MOVES)), test_size=0.2, random_state=0
    )
    classifier = LogisticRegression(C=6000, solver="newton-cg")
    return make_pipeline(rbm, classifier).fit(train, y_train).score(test, y_test)


def lines(n_rows=1500):
    """Images of horizontal or of vertical lines, and which they are."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n_rows)
    on = rng.random((n_rows, 8)) < 0.3
    images = np.where(y[:, None, None] == 0, on[:, :, None], on[:, None, :])
    return (images ^ (rng.random((n_rows, 8, 8)) < 0.05)).reshape(n_rows, 64), y


def compare_on_bundled_data():
    """Print accuracies of all machines."""
    digits = load_digits().data / 16, load_digits().target
    tables = {
        title: (minmax_scale(X), y)
        for title, load in TABLES.items()
        for X, y in [load(return_X_y=True)]
    }
    tasks = [
        ("digits, all defaults", accuracy, digits, {}),
        ("digits, example", example_accuracy, digits, EXAMPLE),
        ("digits, example, 30 epochs", example_accuracy, digits, LONG_EXAMPLE),
    ]
    for title, table in tables.items():
        tasks.append((f"{title}, 100 units", accuracy, table, WIDTH))
    for name, (machine, changes) in MACHINES.items():
        for title, measure, data, settings in tasks:
            report(name, title, measure, data, machine, settings | changes)
    for name, machine in DEEP.items():
        for title, data in {"digits": digits, **tables}.items():
            report(name, f"{title}, all defaults", accuracy, data, machine, {})
    for name, (machine, settings) in STARTS.items():
        report(name, "lines", accuracy, lines(), machine, settings)
    circles = make_circles(1000, noise=0.1, factor=0.5, random_state=0)
    for name, settings in {"GaussianRBM": {}, "GaussianRBM, sparse": SPARSE}.items():
        report(name, "circles", scaled_accuracy, circles, GaussianRBM, settings)


def report(name, title, measure, data, machine, settings):
    """Print the mean over the seeds."""
    found = [
        measure(machine(**settings, random_state=seed), *data)
        for seed in range(N_SEEDS)
    ]
    print(f"{name:30s} {title:28s} {100 * np.mean(found):.2f} %", flush=True)


def main():
    """Train and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", help="a .npz file with X_train, y_train, ...")
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--rows", type=int, help="number of training images")
    parser.add_argument("--epochs", type=int, help="another number of epochs")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--bundled", action="store_true", help="scikit-learn's data")
    args = parser.parse_args()
    if args.bundled:
        compare_on_bundled_data()
        return
    X, y, X_test, y_test = labelled_mnist(args.mnist, args.validation)
    X, y = X[: args.rows], y[: args.rows]
    settings = {**SETTINGS, "verbose": int(args.verbose)}
    if args.epochs:
        settings["n_iter"] = args.epochs
    print(f"{len(X)} images,", *(f"{name}={x}" for name, x in settings.items()))
    begin = time.perf_counter()
    rbm = BernoulliRBM(**settings).fit(X)
    minutes = (time.perf_counter() - begin) / 60
    features, of_test = rbm.transform(X), rbm.transform(X_test)
    print(f"machine: {minutes:.1f} minutes, mean feature {features.mean():.3f}")
    for strength in OTHER_C if args.validation else [C]:
        begin = time.perf_counter()
        error = error_of(features, of_test, y, y_test, strength)
        minutes = (time.perf_counter() - begin) / 60
        print(
            f"C={strength:<5} error {error:5.2f} %  {minutes:.1f} minutes", flush=True
        )


if __name__ == "__main__":
    main()
