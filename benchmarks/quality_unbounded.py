"""What machines with hidden units without bounds learn of finite features by default.

    python benchmarks/quality_unbounded.py [--mnist mnist.npz] [--debd PATH/debd]
    python benchmarks/quality_unbounded.py --rate 0.1

Log-likelihoods of the rows that were trained on (nats a row) by `RBM` with hidden
"gaussian", "relu" and "poisson" units and all other defaults, a number for each of
three seeds, beside independent features and hidden bits. Those of up to 14
features are exact; of others the lower one of forward and reverse annealed importance
sampling with 500 temperatures. --rate takes a learning rate in place of the default.

Data: spins that agree (the sign of one common variable and noise), bits of digits (the
14 that vary most, and all), bits and quartiles of clinical tables, all bundled or
simulated; the first 3000 binarised images of MNIST and two density-estimation sets,
where their paths are given.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import KBinsDiscretizer

from data import load_mnist
from sklearn_ebm import RBM
from sklearn_ebm.likelihood import log_partition

HIDDEN = "bernoulli", "gaussian", "relu", "poisson"
SIZES = 50, 256
N_SEEDS = 3
# Features whose states are summed.
FEW = 14


def agreeing(n_rows, n_spins, noise, seed=1):
    """Spins that follow the sign of one variable, with noise."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_rows, 1))
    return np.where(common + noise * rng.normal(size=(n_rows, n_spins)) > 0, 1.0, -1.0)


def quartiles(X):
    """Codes 0 to 3 of the quarter that a value lies in."""
    bins = KBinsDiscretizer(4, encode="ordinal", strategy="quantile")
    return bins.fit_transform(X)


def data_sets(args):
    """Name, kind of the features, and rows."""
    digits = (load_digits().data > 8).astype(float)
    most = digits[:, np.sort(np.argsort(-digits.var(axis=0))[:FEW])]
    cancer = load_breast_cancer().data
    clinical = (cancer > np.median(cancer, axis=0)).astype(float)
    yield "12 spins that agree", "spin", agreeing(400, 12, 0.3)
    yield "300 spins that agree", "spin", agreeing(1000, 300, 0.6)
    yield "14 pixels", "bernoulli", most
    yield "14 pixels, spins", "spin", 2 * most - 1
    yield "64 pixels", "bernoulli", digits
    yield "64 pixels, spins", "spin", 2 * digits - 1
    yield "cancer, 14 bits", "bernoulli", clinical[:, :FEW]
    yield "cancer, 14 spins", "spin", 2 * clinical[:, :FEW] - 1
    yield "cancer, 30 categories", "categorical", quartiles(cancer)
    yield "wine, 6 categories", "categorical", quartiles(load_wine().data[:, :6])
    if args.debd:
        for name in ("mushrooms", "plants"):
            with np.load(args.debd / f"{name}.npz") as data:
                yield name, "bernoulli", data["X_train"][:3000].astype(float)
    if args.mnist:
        train, _ = load_mnist(args.mnist)
        yield "MNIST", "bernoulli", (train[:3000] > 127).astype(float)


def independent(kind, X):
    """Log-likelihood of features by themselves."""
    total = 0.0
    for column in X.T:
        shares = np.unique(column, return_counts=True)[1] / len(column)
        total += (shares * np.log(shares)).sum()
    return total


def score(model, X):
    """Log-likelihood of rows a row: exact, or the lower of two estimates."""
    free_energy = model.free_energy(X).mean()
    if model.components_.shape[1] <= FEW:
        return -free_energy - log_partition(model, "exact").value
    log_z = log_partition(model, "ais", betas=500, random_state=0)
    return -free_energy - max(log_z.forward, log_z.reverse)


def main():
    """Print a line for every data set, kind and number of hidden units."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", help="a .npz file with X_train and X_test")
    parser.add_argument("--debd", type=Path, help="folder with a .npz file for each")
    parser.add_argument("--rate", type=float, help="learning rate")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of models that were led away
    for name, kind, X in data_sets(args):
        print(f"{name}: independent {independent(kind, X):.2f}")
        for hidden in HIDDEN:
            for size in SIZES:
                model = RBM(size, visible=kind, hidden=hidden, learning_rate=args.rate)
                scores = [
                    score(model.set_params(random_state=seed).fit(X), X)
                    for seed in range(N_SEEDS)
                ]
                found = " ".join(f"{x:10.4g}" for x in scores)
                rate = model.history_["learning_rate"][0]
                print(f"  {hidden:9s} {size:4d} {found}   rate {rate:.2g}", flush=True)


if __name__ == "__main__":
    main()
