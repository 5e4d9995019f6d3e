"""Speed of sparse coding beside scikit-learn's solvers, at equal objectives.

    python benchmarks/bench_sparse_coding.py [--rows 50000] [--atoms 256]
        [--alpha 1.0] [--repeats 3] [--passes 3] [--threads 1 2] [--batches]

8x8 patches of scikit-learn's two sample photos (grey, the mean of each patch
subtracted, scaled to unit variance), float64. Three comparisons, each with the same
data, penalty, first atoms and number of passes for both, and the tolerance of
`sparse_encode` (a duality gap of 1e-8 |x|^2) for all codes:

- transform: all rows by one dictionary; `sparse_encode(algorithm="lasso_cd")`, and
  on the first 2000 rows "lasso_lars", which is slower;
- minibatches: one pass; `MiniBatchDictionaryLearning(fit_algorithm="cd")`;
- all rows: some passes; `DictionaryLearning(fit_algorithm="cd")`.

Runs alternate in one process; times are medians, ratios medians of the ratios of
neighbouring runs. On several threads scikit-learn gets as many jobs. Objectives are
means of a row in nats (beta = 1/2): of the rows themselves for transform, of 5000
other patches, coded by scikit-learn, for the dictionaries.

With --batches instead: fits until they settle, by minibatches and of all rows at once,
of 1 000 to --rows rows (once, on the first number of threads).
"""

import argparse
import warnings
from statistics import median

import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.decomposition import (
    DictionaryLearning,
    MiniBatchDictionaryLearning,
    sparse_encode,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.image import extract_patches_2d
from threadpoolctl import threadpool_limits

from sklearn_ebm import SparseCoding
from timing import timed


def load_patches(n_rows, seed):
    """Patches as rows, half of them from each photo."""
    patches = [
        extract_patches_2d(
            image.mean(axis=2), (8, 8), max_patches=n_rows // 2, random_state=seed
        )
        for image in load_sample_images().images
    ]
    X = np.concatenate(patches).reshape(n_rows, 64)
    X -= X.mean(axis=1, keepdims=True)
    return X / X.std()


def mean_objective(X, codes, atoms, alpha):
    """Mean of |x - h D|^2 / 2 + alpha |h|_1."""
    errors = X - codes @ atoms
    return ((errors**2).sum() / 2 + alpha * np.abs(codes).sum()) / len(X)


def compare(name, threads, repeats, ways, quality):
    """Time the ways in turn and print medians, their ratio and the quality."""
    times, values = np.empty((2, len(ways), repeats))
    for repeat in range(repeats):
        for way, function in enumerate(ways):
            with threadpool_limits(limits=threads):
                times[way, repeat], result = timed(function)
            values[way, repeat] = quality(result)
    ours, theirs = times
    print(
        f"{name:28} {threads} threads: {median(ours):7.2f} s, scikit-learn "
        f"{median(theirs):7.2f} s, ratio {median(theirs / ours):5.1f}   objective "
        f"{values[0, 0]:.6f}, {values[1, 0]:.6f} nats",
        flush=True,
    )


def compare_batches(args, quality):
    """Fit some numbers of rows by minibatches and all at once."""
    for n_rows in (1000, 3000, 10_000, 30_000, args.rows):
        X = load_patches(n_rows, 0)
        for batch_size in (256, None):
            model = SparseCoding(
                args.atoms, alpha=args.alpha, batch_size=batch_size, random_state=0
            )
            with threadpool_limits(limits=args.threads[0]):
                seconds, _ = timed(lambda model=model, X=X: model.fit(X))
            print(
                f"{n_rows:6} rows, batch_size={batch_size!s:5} {seconds:7.2f} s, "
                f"{model.n_iter_:3} passes, objective {quality(model):.4f} nats",
                flush=True,
            )


def compare_solvers(args, X, quality):
    """Compare transform, minibatches and all rows with scikit-learn's solvers."""
    rng = np.random.default_rng(0)
    first = X[rng.choice(len(X), args.atoms, replace=False)]
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    shared = {"alpha": args.alpha, "dict_init": first, "random_state": 0, "tol": 0}

    def ours(passes, batch_size):
        model = SparseCoding(
            args.atoms, max_iter=passes, batch_size=batch_size, **shared
        )
        return model.fit(X)

    def theirs(kind, passes, jobs, **parameters):
        model = kind(
            args.atoms, max_iter=passes, fit_algorithm="cd", n_jobs=jobs,
            **shared, **parameters,
        )  # fmt: skip
        return model.fit(X)

    learned = ours(1, 256)
    n_nonzero = learned.history_["n_nonzero"][-1]
    print(
        f"{args.rows} patches 8x8, {args.atoms} atoms, alpha {args.alpha}: "
        f"{n_nonzero:.1f} atoms a row"
    )
    # Codes that start at zero, as ours do.
    zeros = np.zeros((len(X), args.atoms))
    for threads in args.threads:
        compare_codes(args, threads, learned, X, "lasso_cd")
        compare_codes(args, threads, learned, X[:2000], "lasso_lars")
        compare(
            "minibatches, 1 pass",
            threads,
            args.repeats,
            [
                lambda: ours(1, 256),
                lambda jobs=threads: theirs(
                    MiniBatchDictionaryLearning, 1, jobs, max_no_improvement=None
                ),
            ],
            quality,
        )
        compare(
            f"all rows, {args.passes} passes",
            threads,
            args.repeats,
            [
                lambda: ours(args.passes, None),
                lambda jobs=threads: theirs(
                    DictionaryLearning, args.passes, jobs, code_init=zeros
                ),
            ],
            quality,
        )


def compare_codes(args, threads, learned, rows, algorithm):
    """Code rows by a dictionary that has been learned."""
    atoms, alpha = learned.components_, args.alpha

    def theirs():
        return sparse_encode(
            rows, atoms, algorithm=algorithm, alpha=alpha, n_jobs=threads
        )

    compare(
        f"transform, {algorithm}, {len(rows)}",
        threads,
        args.repeats,
        [lambda: learned.transform(rows), theirs],
        lambda codes: mean_objective(rows, codes, atoms, alpha),
    )


def main():
    """Print the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--atoms", type=int, default=256)
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, held_out = load_patches(args.rows, 0), load_patches(5000, 1)

    def quality(model):
        atoms = model.components_
        codes = sparse_encode(held_out, atoms, algorithm="lasso_cd", alpha=args.alpha)
        return mean_objective(held_out, codes, atoms, args.alpha)

    if args.batches:
        compare_batches(args, quality)
    else:
        compare_solvers(args, X, quality)


if __name__ == "__main__":
    main()
