"""What the defaults of BernoulliRBM's own parameters rest on.

    python benchmarks/quality_defaults.py [--mnist mnist.npz] [--debd PATH/debd]
    python benchmarks/quality_defaults.py --deep [--mnist ...] [--debd ...]
    python benchmarks/quality_defaults.py --wide [--mnist ...] [--debd ...]
    python benchmarks/quality_defaults.py --few [--mnist ...] [--debd ...]
    python benchmarks/quality_defaults.py --stack [--debd ...]

Held-out log-likelihood (nats a row, forward annealed importance sampling with 2 000
temperatures) after 10 epochs with all defaults and 64 components, and with one
parameter changed at a time, and with the two that gain most; parameters that
scikit-learn's class has too keep its values. Means over three seeds. Binarised digits
(bundled), ten patterns of 64 bits one in a hundred of which is flipped (2 000 rows; the
true density has -5.9), the first 20 000 images of MNIST (threshold binarisation) and
density-estimation sets, where their paths are given.

--deep: bounds on the log-likelihood of DBMTransformer with 64 and 32 hidden units and
all defaults, by forward and by reverse annealing; means and the worst over the seeds.

--wide: 64, 256 and 500 components and all other defaults, trained on the first 3 000
rows: the lower one of forward and reverse annealing, for each seed.

--few: all defaults, more epochs at a falling rate, and RBM with its defaults, which are
such epochs and 100 chains, on the first 100, 300, 1 000 and 3 000 rows; with 64 and
with 256 components. Means over the seeds.

--stack: `score` of DBNTransformer at its defaults (256 and 256 units), on 500 rows held
out after a training on 2 000: of its first layer alone, of both from random weights,
and as it is. Means over the seeds.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from data import load_mnist, patterns
from sklearn_ebm import RBM, BernoulliRBM, DBMTransformer, DBNTransformer
from sklearn_ebm.likelihood import log_partition

CHANGES = {
    "defaults": {},
    "centering=False": {"centering": False},
    "average=False": {"average": False},
    "linear schedule": {"learning_rate_schedule": "linear"},
    "momentum=0.5": {"momentum": 0.5},
    "momentum=0.9": {"momentum": 0.9},
    "weight_decay=1e-4": {"weight_decay": 1e-4},
    "weight_decay=1e-3": {"weight_decay": 1e-3},
    "persistent=False": {"persistent": False},
    "n_gibbs_steps=5": {"n_gibbs_steps": 5},
    "n_chains=100": {"n_chains": 100},
    "n_temperatures=5": {"n_temperatures": 5},
    "fast_learning_rate=0.1": {"fast_learning_rate": 0.1},
    "max_norm=10": {"max_norm": 10},
    "n_chains=100, linear": {
        "n_chains": 100,
        "learning_rate_schedule": "linear",
    },
}
STACKS = {
    "one layer": {"hidden_layer_sizes": 256},
    "random": {"init": "random"},
    "defaults": {},
}
LINEAR = partial(BernoulliRBM, 64, learning_rate_schedule="linear")
OF_FEW_ROWS = {
    "defaults": partial(BernoulliRBM, 64),
    "30, linear": partial(LINEAR, n_iter=30),
    "60, linear": partial(LINEAR, n_iter=60),
    "RBM": partial(RBM, 64),
    "256": partial(BernoulliRBM, 256),
    "RBM, 256": partial(RBM, 256),
}
FEW = 100, 300, 1000, 3000
N_SEEDS = 3
SIZES, N_ROWS = (64, 256, 500), 3000


def data_sets(args):
    """Training and held-out rows by name."""
    digits = (load_digits().data > 8).astype(np.float32)
    yield "digits", digits[:1200], digits[1200:]
    X, _ = patterns(7, flip=0.01)
    yield "patterns", X[:2000], X[2000:]
    if args.mnist:
        train, test = ((X > 127).astype(np.float32) for X in load_mnist(args.mnist))
        yield "MNIST", train[:20_000], test
    if args.debd:
        names = ["nltcs", "plants", "jester", "dna"]
        for name in [*names, "mushrooms"] if args.more else names:
            with np.load(args.debd / f"{name}.npz") as data:
                yield name, data["X_train"], data["X_valid"]


def score(make, train, test, seed):
    """Held-out log-likelihood of a fit."""
    model = make(random_state=seed).fit(train)
    log_z = log_partition(model, "ais", betas=2000, reverse=False, random_state=0)
    return -model.free_energy(test).mean() - log_z.value


def deep_bounds(train, test, seed):
    """Held-out bounds of a deep machine, forward and reverse."""
    model = DBMTransformer((64, 32), random_state=seed).fit(train)
    log_z = log_partition(model, "ais", betas=2000, random_state=0)
    bound = model._deep(np.float32).bound(test).mean()
    return bound - log_z.forward, bound - log_z.reverse


def print_wide(sets):
    """Print a line for every data set and number of components."""
    for name, train, test in sets:
        for size in SIZES:
            scores = []
            for seed in range(N_SEEDS):
                model = BernoulliRBM(size, random_state=seed).fit(train[:N_ROWS])
                log_z = log_partition(model, "ais", betas=1000, random_state=0)
                largest = max(log_z.forward, log_z.reverse)
                scores.append(-model.free_energy(test).mean() - largest)
            found = " ".join(f"{score:8.2f}" for score in scores)
            print(f"{name:10s} {size:4d} {found}", flush=True)


def print_deep(sets):
    """Print a line for every data set."""
    for name, train, test in sets:
        found = np.array([deep_bounds(train, test, seed) for seed in range(N_SEEDS)])
        forward, reverse = found.mean(axis=0)
        print(
            f"{name:10s} {forward:8.2f} (forward) {reverse:8.2f} (reverse)   worst "
            f"{found.min():8.2f}",
            flush=True,
        )


def print_few(sets):
    """Print a line for every data set and number of rows."""
    for name, train, test in sets:
        for n in FEW:
            means = [
                np.mean([score(make, train[:n], test, seed) for seed in range(N_SEEDS)])
                for make in OF_FEW_ROWS.values()
            ]
            print(line_of(f"{name} {n}", means, OF_FEW_ROWS), flush=True)


def line_of(name, means, titles):
    """What is printed of a data set: a mean for every title."""
    cells = (f"   {m:8.2f} ({t})" for t, m in zip(titles, means, strict=True))
    return f"{name:14s}" + "".join(cells)


def print_stacks(sets):
    """Print a line for every data set."""
    for name, train, test in sets:
        means = []
        for change in STACKS.values():
            fits = [
                DBNTransformer(random_state=seed, **change).fit(train[:2000])
                for seed in range(N_SEEDS)
            ]
            means.append(np.mean([model.score(test[:500]) for model in fits]))
        print(line_of(name, means, STACKS), flush=True)


def main():
    """Print a column for every data set, or a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", help="a .npz file with X_train and X_test")
    parser.add_argument("--debd", type=Path, help="folder with a .npz file for each")
    parser.add_argument("--deep", action="store_true", help="deep machines")
    parser.add_argument("--wide", action="store_true", help="many components, few rows")
    parser.add_argument("--few", action="store_true", help="few rows, more epochs")
    parser.add_argument("--stack", action="store_true", help="deep belief networks")
    args = parser.parse_args()
    args.more = args.deep or args.wide or args.few or args.stack
    if args.few:
        print_few(data_sets(args))
        return
    if args.stack:
        print_stacks(data_sets(args))
        return
    if args.wide:
        print_wide(data_sets(args))
        return
    if args.deep:
        print_deep(data_sets(args))
        return
    sets = list(data_sets(args))
    print(f"{'':24s}" + "".join(f"{name:>10s}" for name, _, _ in sets))
    for name, change in CHANGES.items():
        make = partial(BernoulliRBM, 64, **change)
        cells = [
            np.mean([score(make, train, test, seed) for seed in range(N_SEEDS)])
            for _, train, test in sets
        ]
        print(f"{name:24s}" + "".join(f"{cell:10.2f}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
