"""Test log-likelihood on the standard binary density-estimation sets.

    python benchmarks/quality_density.py PATH/debd [--sets plants jester] [--seed 0]

PATH/debd holds a .npz file for each set, with arrays X_train, X_valid and X_test of
zeros and ones. One recipe for all sets: PCD with a learning rate (0.1, or 0.03 for
fewer than 5 000 rows) that falls linearly to zero, over a grid of sizes, weight decays
and epochs; for fewer than 5 000 rows the best settings of each size once more with
chains that exchange ten temperatures, which allow a rate of 0.2. The model is chosen by
the estimated log-likelihood of the validation part (the lower of forward and reverse
annealed importance sampling) and then looked at once on the test part. Exact where
there are at most 20 variables. Nats a row.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np

from sklearn_ebm import BernoulliRBM
from sklearn_ebm.likelihood import log_partition

SMALL = 5000  # rows: fewer leave time for
TEMPERED = {"n_temperatures": 10, "learning_rate": 0.2}
BASE = {"batch_size": 100, "learning_rate_schedule": "linear"}
SIZES = 200, 400
GRID = {"weight_decay": [0.0, 5e-4, 1e-2], "n_iter": [300, 1000]}
# As commonly reported: Chow-Liu tree, the best tractable model, and what else.
PUBLISHED = {
    "nltcs": "Chow-Liu -6.759, EiNet -6.015, HCLT -5.999, best tractable -5.99",
    "plants": "Chow-Liu -16.524, ID-SPN -12.537, best tractable -11.84",
    "jester": "Chow-Liu -58.230, HCLT -52.463, best tractable -51.29",
    "dna": "Chow-Liu -87.662, best tractable -79.06",
    "mushrooms": "RBM with 23 hidden units -15.15, NADE -9.81, MADE -9.68",
    "nips": "RBM with 23 hidden units -277.37, NADE -273.08, MADE -277.28",
}


def log_zs(model, betas):
    """Two estimates of log Z, of which neither may be relied on alone."""
    if model.n_features_in_ <= 20:
        exact = float(log_partition(model))
        return exact, exact
    estimate = log_partition(model, "ais", betas=betas, random_state=0)
    return estimate.forward, estimate.reverse


def scores(model, X, betas):
    """Mean log-likelihood of rows by either estimate."""
    energy = model.free_energy(X).mean()
    return [-energy - log_z for log_z in log_zs(model, betas)]


def run(name, path, seed):
    """Choose on the validation part, print a row for the test part."""
    with np.load(path) as data:
        train, valid, test = (data[f"X_{part}"] for part in ("train", "valid", "test"))
    begin = time.perf_counter()
    small = len(train) < SMALL
    base = BASE | {"learning_rate": 0.03 if small else 0.1, "random_state": seed}

    def candidate(**settings):
        model = BernoulliRBM(**base | settings).fit(train)
        return min(scores(model, valid, 10_000)), settings, model

    found = []
    for size in SIZES:
        of_size = [
            candidate(n_components=size, **dict(zip(GRID, values, strict=True)))
            for values in itertools.product(*GRID.values())
        ]
        best = max(of_size, key=lambda entry: entry[0])
        found += [best, candidate(**best[1], **TEMPERED)] if small else [best]
    score, settings, model = max(found, key=lambda entry: entry[0])
    forward, reverse = scores(model, test, 20_000)
    seconds = time.perf_counter() - begin
    print(
        f"{name:10s} {train.shape[1]:4d} variables   test {forward:9.3f} (forward) "
        f"{reverse:9.3f} (reverse)   valid {score:9.3f}   {seconds:4.0f} s\n"
        f"{'':10s} {settings}\n{'':10s} published: {PUBLISHED.get(name, '-')}",
        flush=True,
    )


def main():
    """Print a row for every set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with a .npz file for each set")
    parser.add_argument("--sets", nargs="+", default=list(PUBLISHED))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in args.sets:
        run(name, args.folder / f"{name}.npz", args.seed)


if __name__ == "__main__":
    main()
