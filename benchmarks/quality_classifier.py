"""Test error of RBMClassifier on MNIST, beside the published figures.

    python benchmarks/quality_classifier.py [--mnist mnist.npz] [--only NAME]
        [--validation] [--epochs N]

Grey values are taken as probabilities (X / 255). Published (Larochelle et al. 2012):
discriminative 1.81 % (500 hidden units, learning rate .05), hybrid 1.28 % (1500, .05,
alpha .01). "few labels" trains on 1 000 labelled images, without and with the other
59 000 as images of unknown label. Settings were chosen by the error on 10 000 training
images held out (--validation), never by that on the test images. A line an epoch
with --verbose.
"""

import argparse
import time

from data import labelled_mnist
from sklearn_ebm import RBMClassifier

COMMON = {
    "learning_rate": 0.05,
    "momentum": 0.9,
    "learning_rate_schedule": "linear",
    "random_state": 0,
}
# Of every run: components, settings, and how many labels there are (None: all).
RUNS = {
    "discriminative": (
        500,
        {"batch_size": 20, "n_iter": 60, "learning_rate": 0.1, "weight_decay": 1e-5},
        None,
    ),
    "hybrid": (
        1500,
        {
            "objective": "hybrid",
            "alpha": 0.1,
            "batch_size": 20,
            "n_iter": 30,
            "learning_rate": 0.1,
        },
        None,
    ),
    "few labels, discriminative": (500, {"batch_size": 20, "n_iter": 200}, 1000),
    "few labels, hybrid": (
        1500,
        {
            "objective": "hybrid",
            "alpha": 0.3,
            "batch_size": 20,
            "n_iter": 200,
            "learning_rate": 0.1,
        },
        1000,
    ),
    "few labels, the rest unlabelled": (
        1500,
        {
            "objective": "hybrid",
            "alpha": 1,
            "batch_size": 200,
            "n_iter": 30,
            "unlabeled": -1,
        },
        1000,
    ),
}


def main():
    """Train and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist", help="a .npz file with X_train, y_train, ...")
    parser.add_argument("--only", choices=RUNS, help="one of the runs")
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--epochs", type=int, help="another number of epochs")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    X, y, X_test, y_test = labelled_mnist(args.mnist, args.validation)
    for name, (n_components, settings, n_labels) in RUNS.items():
        if args.only not in (None, name):
            continue
        settings = {**COMMON, **settings, "verbose": int(args.verbose)}
        if args.epochs:
            settings["n_iter"] = args.epochs
        rows, known = slice(None), y.copy()
        if n_labels and "unlabeled" in settings:
            known[n_labels:] = -1
        elif n_labels:
            rows = slice(n_labels)
        begin = time.perf_counter()
        model = RBMClassifier(n_components, **settings).fit(X[rows], known[rows])
        seconds = time.perf_counter() - begin
        error = 100 * (1 - model.score(X_test, y_test))
        print(
            f"{name:34s} {n_components:5d} hidden  error {error:5.2f} %  "
            f"{seconds / 60:5.1f} minutes",
            flush=True,
        )


if __name__ == "__main__":
    main()
