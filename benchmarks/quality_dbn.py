"""Test error of DBNClassifier on MNIST, beside the published figures.

    python benchmarks/quality_dbn.py [--mnist mnist.npz] [--only NAME]
        [--resume FILE] [--validation] [--epochs N] [--pretraining N] [--rows N]

Grey values are taken as probabilities (X / 255). Published: pretrained nets, fine-
tuned, 1.15-1.34 % (3x1000, 500-500-2000), with dropout 0.92 %. "few labels" has the
labels of 1 000 images, without and with a pretraining on all 60 000; the bar is a gain
of 4 points. Settings are chosen by reasoning and by the error on 10 000 training images
held out (--validation), never by that on the test images. The pretraining knows no
labels: it is done once for all runs that want it, and its time counts for each. There
is a checkpoint after it and every --every epochs of fine-tuning; --resume FILE writes
them there and goes on from what it finds. The learning rate falls epoch by epoch. The
settings are printed with the result.
"""

import argparse
import os
import time

import joblib
import numpy as np
from sklearn.base import clone

from data import labelled_mnist
from sklearn_ebm import DBNClassifier

PRETRAINING = {"pretrain_batch_size": 20, "pretrain_n_iter": 25}
ADAM = {"solver": "adam", "learning_rate": 0.001, "batch_size": 100}
DROPOUT = {"dropout": 0.3, "input_dropout": 0.1}
# Parameters that pretraining does not depend on.
FINE_TUNING = "solver", "dropout", "input_dropout", "batch_size"
# Of every run: hidden layers, settings, epochs, and how many labels (None: all).
RUNS = {
    "fine-tuned": (
        (1000, 1000, 1000),
        {**PRETRAINING, **ADAM},
        20,
        None,
    ),
    "fine-tuned, dropout": (
        (1000, 1000, 1000),
        {**PRETRAINING, **ADAM, **DROPOUT},
        60,
        None,
    ),
    "few labels": (
        (1000, 1000, 1000),
        {"pretrain": False, "solver": "sgd", "learning_rate": 0.1, "batch_size": 20},
        200,
        1000,
    ),
    "few labels, pretrained": (
        (1000, 1000, 1000),
        {**PRETRAINING, "solver": "sgd", "learning_rate": 0.1, "batch_size": 20},
        200,
        1000,
    ),
}


class Checkpoints:
    """What every run has arrived at, in a file if there is one."""

    def __init__(self, path):
        self.path = path
        self.runs = joblib.load(path) if path and os.path.exists(path) else {}

    def keep(self, name, run):
        """Write what a run has arrived at."""
        self.runs[name] = run
        if self.path:
            joblib.dump(self.runs, self.path + ".new")
            os.replace(self.path + ".new", self.path)


def train(name, model, X, y, n_epochs, every, checkpoints):
    """Train in pieces, with a rate that falls linearly over all of them."""
    start = "pretrained" if model.pretrain else name
    run = checkpoints.runs.get(name, checkpoints.runs.get(start))
    if run is None:
        begin = time.perf_counter()
        first = clone(model).set_params(n_iter=0).fit(X, y)
        run = {"model": first, "seconds": time.perf_counter() - begin}
        print(f"{start}: {run['seconds'] / 60:.1f} minutes", flush=True)
        checkpoints.keep(start, run)
    run, rate = dict(run), model.learning_rate
    model = clone_with_state(run["model"]).set_params(
        **{name: model.get_params()[name] for name in FINE_TUNING}
    )
    while model.n_iter_ < n_epochs:
        piece = min(every, n_epochs - model.n_iter_)
        begin = time.perf_counter()
        for _ in range(piece):
            # An epoch at the rate that the schedule has come to.
            left = 1 - model.n_iter_ / n_epochs
            model.set_params(learning_rate=rate * left, n_iter=1).fit(X, y)
        run["seconds"] += time.perf_counter() - begin
        run["model"] = clone_with_state(model)
        checkpoints.keep(name, run)
        print(
            f"{name}: epoch {model.n_iter_}, loss {model.loss_curve_[-1]:.5f}, "
            f"{np.mean(model.history_['seconds'][-piece:]):.1f} s an epoch",
            flush=True,
        )
    return run


def clone_with_state(model):
    """A copy that goes on when it is fitted again."""
    twin = clone(model).set_params(warm_start=True, learning_rate_schedule="constant")
    twin.__dict__ |= {
        key: value
        for key, value in vars(model).items()
        if key not in model.get_params()
    }
    return twin


def main():
    """Train and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist", help="a .npz file with X_train, y_train, ...")
    parser.add_argument("--only", choices=RUNS, help="one of the runs")
    parser.add_argument("--resume", help="file of checkpoints to write and go on from")
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--epochs", type=int, help="another number of epochs")
    parser.add_argument(
        "--pretraining", type=int, help="another number of epochs of it"
    )
    parser.add_argument("--rows", type=int, help="only so many rows to train on")
    parser.add_argument("--every", type=int, default=10, help="epochs a checkpoint")
    args = parser.parse_args()
    X, y, X_test, y_test = labelled_mnist(args.mnist, args.validation)
    X, y = X[: args.rows], y[: args.rows]
    checkpoints = Checkpoints(args.resume)
    for name, (sizes, settings, n_epochs, n_labels) in RUNS.items():
        if args.only not in (None, name):
            continue
        rows, known = slice(None), y.copy()
        if n_labels:
            known[n_labels:] = -1
            if not settings.get("pretrain", True):
                rows = slice(n_labels)
        model = DBNClassifier(sizes, unlabeled=-1, random_state=0, **settings)
        if args.pretraining is not None:
            model.set_params(pretrain_n_iter=args.pretraining)
        n_epochs = args.epochs or n_epochs
        run = train(
            name, model, X[rows], known[rows], n_epochs, args.every, checkpoints
        )
        error = 100 * (1 - run["model"].score(X_test, y_test))
        print(f"{sizes} {n_epochs} epochs {settings}")
        print(
            f"{name:28s} error {error:5.2f} %  {run['seconds'] / 60:5.1f} minutes",
            flush=True,
        )


if __name__ == "__main__":
    main()
