"""Test log-likelihood of a 784x500 RBM on MNIST, and how it grows with time.

    python benchmarks/quality_likelihood.py --mnist mnist_sm2008.npz [--only NAME]
    python benchmarks/quality_likelihood.py --mnist mnist_sm2008.npz --curve
        [--picture FILE]

The data are the binarisation of Salakhutdinov & Murray (2008), whose own RBM with
500 hidden units (CD-25) reached -86.34 nats: arrays X_train, X_valid (both trained
on, 60 000 rows) and X_test of zeros and ones. Without --mnist the images come from
OpenML and every pixel is drawn once with its grey value as probability: another
binarisation, and numbers that are not comparable.

log Z is estimated with 20 000 temperatures and 100 runs, forward (likelihoods too
high if it misses modes) and reverse (too low if its starts are typical samples).
Seconds are those of `fit`. --curve trains for more and more epochs, ours (each point
a fit of its own, because the learning rate falls over the whole of it) and
scikit-learn's.
"""

import argparse
import time

import numpy as np
from sklearn.neural_network import BernoulliRBM as SklearnRBM

from data import binary_mnist
from sklearn_ebm import BernoulliRBM
from sklearn_ebm.likelihood import log_partition

BASE = {"batch_size": 100, "random_state": 0}
RECIPE = BASE | {
    "learning_rate": 0.1,
    "learning_rate_schedule": "linear",
    "weight_decay": 5e-4,
}
RECIPES = {
    "2 minutes": RECIPE | {"n_iter": 400},
    "10 minutes": RECIPE | {"n_iter": 1000},
}


def report(name, model, seconds, train, test):
    """Print both estimates for the test images; return the forward one."""
    estimate = log_partition(model, "ais", betas=20_000, random_state=0)
    energy, fitted = model.free_energy(test).mean(), model.free_energy(train).mean()
    print(
        f"{name:28s} test {-energy - estimate.forward:8.2f} (forward, s.e. "
        f"{estimate.standard_error:.2f}) {-energy - estimate.reverse:8.2f} (reverse, "
        f"{estimate.reverse_standard_error:.2f})   train "
        f"{-fitted - estimate.forward:8.2f}   {seconds:6.1f} s",
        flush=True,
    )
    return -energy - estimate.forward


def draw(curves, path):
    """Picture of curves: by name, lists of (seconds, log-likelihood)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    for name, points in curves.items():
        ax.semilogx(*zip(*points, strict=True), "o-", label=name)
    ax.axhline(-86.34, color="grey", ls=":", label="published (CD-25, 2008)")
    ax.set_xlabel("seconds of training, 2 threads")
    ax.set_ylabel("test log-likelihood, nats an image")
    ax.legend()
    figure.savefig(path, dpi=100)


def fit(model, X):
    """Fit; the seconds it took."""
    begin = time.perf_counter()
    model.fit(X)
    return time.perf_counter() - begin


def as_ours(theirs, X):
    """Our model with the parameters of scikit-learn's."""
    model = BernoulliRBM(n_iter=0, n_components=len(theirs.components_)).fit(X)
    for name in ("components_", "intercept_hidden_", "intercept_visible_"):
        setattr(model, name, getattr(theirs, name))
    return model


def main():
    """Print the table or the curve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", help="a .npz file of binary images")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--picture", help="a file for the picture of the curve")
    args = parser.parse_args()
    train, test = binary_mnist(args.mnist)
    if not args.curve:
        for name, recipe in RECIPES.items():
            if args.only in name:
                model = BernoulliRBM(500, **recipe)
                report(
                    f"{name} {recipe['n_iter']}", model, fit(model, train), train, test
                )
        return
    curves = {"sklearn_ebm": [], "scikit-learn": []}
    for n_iter in (1, 3, 10, 30, 100, 400):
        ours = BernoulliRBM(500, **RECIPE | {"n_iter": n_iter})
        seconds = fit(ours, train)
        name = f"sklearn_ebm {n_iter} epochs"
        curves["sklearn_ebm"].append(
            (seconds, report(name, ours, seconds, train, test))
        )
        if n_iter > 30:
            continue  # (Minutes of scikit-learn's.)
        theirs = SklearnRBM(500, learning_rate=0.05, n_iter=n_iter, **BASE)
        seconds = fit(theirs, train.astype(np.float32))
        model, name = as_ours(theirs, train), f"scikit-learn {n_iter} epochs"
        score = report(name, model, seconds, train, test)
        curves["scikit-learn"].append((seconds, score))
    if args.picture:
        draw(curves, args.picture)


if __name__ == "__main__":
    main()
