"""Speed of fine-tuning beside scikit-learn's MLPClassifier.

    python benchmarks/bench_network.py [--mnist mnist.npz] [--only NAME] [--quick]

DBNClassifier(pretrain=False) and MLPClassifier(activation="logistic") of the same sizes
go through the same rows in float32, with the same batch size and solver: SGD with
Nesterov's momentum, or Adam. Both have a penalty on the weights (scikit-learn computes
it also where it is zero; ours does not). Their runs alternate in one process; figures
are medians of the milliseconds a minibatch takes, with all that a fit of one epoch does
besides, and ratios (theirs by ours) medians over runs next to each other. Threads are
set with threadpoolctl for both. Without --mnist the large nets learn from random
numbers of which 19 % are not zero, as in MNIST; the small one learns the digits.
"""

import argparse
import warnings
from statistics import median

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from data import rows_to_classify
from sklearn_ebm import DBNClassifier
from sklearn_ebm._simd import instruction_set
from timing import seconds

DECAY = 1e-5
# Hidden layers, batch size and whether it learns the digits.
NETS = {
    "784-1000-1000-10": ((1000, 1000), 100, False),
    "784-500-500-2000-10": ((500, 500, 2000), 100, False),
    "64-100-50-10": ((100, 50), 32, True),
}


def pair(sizes, batch_size, solver):
    """Our net and theirs, to be trained for an epoch."""
    shared = {"solver": solver, "batch_size": batch_size, "random_state": 0}
    rate = 0.1 if solver == "sgd" else 0.001
    ours = DBNClassifier(
        sizes,
        pretrain=False,
        n_iter=1,
        learning_rate=rate,
        learning_rate_schedule="constant",
        weight_decay=DECAY,
        **shared,
    )
    theirs = MLPClassifier(
        sizes,
        activation="logistic",
        max_iter=1,
        learning_rate_init=rate,
        # Theirs is for a sum over the rows of a minibatch.
        alpha=DECAY * batch_size,
        **shared,
    )
    return ours, theirs


def compare(name, X, y, sizes, batch_size, solver, threads, repeats):
    """Print medians of both, and the median ratio."""
    ours, theirs = pair(sizes, batch_size, solver)
    times = []
    for _ in range(repeats + 1):
        with threadpool_limits(limits=threads):
            first = seconds(ours.fit, X, y)
        with threadpool_limits(limits=threads):
            times.append((first, seconds(theirs.fit, X, y)))
    times = times[1:]  # the first round warms up
    n_batches = -(-len(X) // batch_size)
    found = [median(column) / n_batches * 1e3 for column in zip(*times, strict=True)]
    ratio = median(b / a for a, b in times)
    print(
        f"{name + f' batch {batch_size}':32s} {solver:5s} {threads:3d} "
        f"{found[0]:9.3f} {found[1]:9.3f} ms   ratio {ratio:5.2f}",
        flush=True,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist", help="a .npz file with X_train, y_train")
    parser.add_argument("--only", choices=NETS, help="one of the nets")
    parser.add_argument("--quick", action="store_true", help="less data, fewer runs")
    args = parser.parse_args()
    n_rows, repeats = (2_000, 3) if args.quick else (10_000, 7)
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = rows_to_classify(args.mnist, n_rows)
    digits, classes = load_digits(return_X_y=True)
    digits = (digits / 16).astype(np.float32)
    print(f"instruction set: {instruction_set()}")
    print(f"{'':32s} solv thr sklearn_ebm   sklearn, a minibatch")
    for name, (sizes, batch_size, small) in NETS.items():
        if args.only not in (None, name):
            continue
        rows = (digits, classes) if small else (X, y)
        for solver in ("sgd", "adam"):
            for threads in (1, 2):
                compare(name, *rows, sizes, batch_size, solver, threads, repeats)


if __name__ == "__main__":
    main()
