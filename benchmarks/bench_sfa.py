"""Time and memory of slow feature analysis.

    python benchmarks/bench_sfa.py [--frames 1000000] [--features 50] [--repeats 5]

Linear, in float64, on a simulated walk: mixed features with memories from none to
long. Beside it, the same in plain NumPy and SciPy: whole arrays of centred data and of
differences, their two covariance matrices, and `scipy.linalg.eigh` of the pair. Runs
alternate in one process; times are medians, ratios are of runs next to each other. Then
the peak of what `partial_fit` allocates, for a tenth of the frames and for all of them,
in chunks that are made as they are needed.
"""

import argparse
import tracemalloc
from statistics import median

import numpy as np
from scipy.linalg import eigh
from scipy.signal import lfilter

from sklearn_ebm import SlowFeatureAnalysis
from timing import timed


def walk(n_frames, n_features, seed):
    """Mixed features, each of which remembers for another time."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_frames, n_features))
    for column, memory in enumerate(np.linspace(0, 0.99, n_features)):
        X[:, column] = lfilter([1], [1, -memory], X[:, column])
    mixing = np.random.default_rng(0).normal(size=(n_features, n_features))
    return X @ np.linalg.qr(mixing)[0]


def plain(X):
    """Delta-values of all slow features."""
    X = X - X.mean(axis=0)
    D = np.diff(X, axis=0)
    return eigh(D.T @ D / len(D), X.T @ X / len(X))[0]


def peak_of_partial_fit(n_chunks, n_features):
    """Largest size of the memory that partial_fit takes, in MB."""
    model = SlowFeatureAnalysis()
    peak = 0
    for seed in range(n_chunks):
        X = walk(10_000, n_features, seed)
        tracemalloc.start()
        model.partial_fit(X)
        peak = max(peak, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return peak / 1e6


def main():
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    X = walk(args.frames, args.features, 0)
    model = SlowFeatureAnalysis()
    times = []
    for _ in range(args.repeats + 1):
        seconds, _ = timed(model.fit, X)
        rival, wanted = timed(plain, X)
        times.append((seconds, rival))
    ours, theirs = zip(*times[1:], strict=True)  # the first warms up
    ratio = median(b / a for a, b in zip(ours, theirs, strict=True))
    error = np.abs(model.slowness_ / wanted - 1).max()
    print(
        f"{args.frames} x {args.features}: fit {median(ours):.2f} s, plain "
        f"{median(theirs):.2f} s ({ratio:.2f} times); Delta-values differ by "
        f"{error:.0e}"
    )
    seconds, _ = timed(model.transform, X)
    print(f"transform {seconds:.2f} s")
    n_chunks = args.frames // 10_000
    few, many = (
        peak_of_partial_fit(n, args.features) for n in (n_chunks // 10, n_chunks)
    )
    print(
        f"partial_fit in chunks of 10000 frames, peak allocation: {few:.2f} MB for "
        f"{n_chunks // 10} chunks, {many:.2f} MB for {n_chunks}"
    )


if __name__ == "__main__":
    main()
