"""Likelihood and speed of FactorAnalysis beside scikit-learn's.

    python benchmarks/bench_factor_analysis.py [--mnist mnist.npz] [--repeats 3]

Both models get the same data (float64) and number of factors, and scikit-learn's
default settings. Runs alternate in one process; times are medians and ratios those of
runs next to each other. Log-likelihoods are of the training data. MNIST has grey values
in [0, 1]; it is fitted without its constant pixels, too, which add a constant (their
likelihood has no bound but the least noise variance). For many rows score_samples is a
matrix product, with as many columns as there are factors here and features there, so
that its ratio cannot exceed features / factors by much.
"""

import argparse
import warnings
from statistics import median

import numpy as np
from sklearn.decomposition import FactorAnalysis as SklearnFactorAnalysis
from sklearn.exceptions import ConvergenceWarning

from data import load_mnist
from sklearn_ebm import FactorAnalysis
from timing import timed

N_COMPONENTS = 50


def simulated(n_rows, n_features, rng):
    """Rows of a factor model with 50 factors of falling size."""
    sizes = np.linspace(1, 0.2, N_COMPONENTS)[:, np.newaxis]
    loadings = sizes * rng.normal(size=(N_COMPONENTS, n_features))
    noise = rng.uniform(0.5, 3, n_features)
    X = rng.normal(size=(n_rows, N_COMPONENTS)) @ loadings
    return X + np.sqrt(noise) * rng.normal(size=X.shape)


def alternate(functions, repeats):
    """Seconds and last results of some functions that take turns."""
    times, results = [[] for _ in functions], [None] * len(functions)
    for _ in range(repeats):
        for n, function in enumerate(functions):
            seconds, results[n] = timed(function)
            times[n].append(seconds)
    return times, results


def ratio(times):
    """How many times longer the second took than the first."""
    return median(b / a for a, b in zip(*times, strict=True))


def fits(name, X, repeats):
    """Time fits of both models; print and return them."""
    times, models = alternate(
        [
            lambda: FactorAnalysis(N_COMPONENTS).fit(X),
            lambda: SklearnFactorAnalysis(N_COMPONENTS).fit(X),
        ],
        repeats,
    )
    print(f"\n{name}: {X.shape[0]} x {X.shape[1]}, {N_COMPONENTS} factors")
    for who, seconds, model in zip(
        ("sklearn_ebm", "scikit-learn"), times, models, strict=True
    ):
        print(
            f"  {who:13s} fit {median(seconds):7.2f} s, {model.n_iter_:3d} iterations, "
            f"log-likelihood {model.score(X):.6f} nats a row"
        )
    print(f"  ratio {ratio(times):.1f}", flush=True)
    return models


def scores(models, X, repeats):
    """Time score_samples of both models with the same parameters."""
    ours, theirs = models
    for name in ("components_", "noise_variance_", "mean_"):
        setattr(theirs, name, getattr(ours, name))
    print("\nscore_samples, the same parameters")
    for n_rows in (1, 100, 1000, 10_000, len(X)):
        rows = X[:n_rows]
        functions = [lambda r=rows: ours.score_samples(r)]
        functions.append(lambda r=rows: theirs.score_samples(r))
        times, found = alternate(functions, repeats + 2)
        times = [seconds[1:] for seconds in times]  # the first round warms up
        difference = np.abs(found[0] - found[1]).max()
        print(
            f"  {n_rows:6d} rows: {median(times[0]) * 1e3:9.3f} ms, scikit-learn "
            f"{median(times[1]) * 1e3:9.3f} ms, ratio {ratio(times):6.1f}, largest "
            f"difference {difference:.1e} nats",
            flush=True,
        )


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist", help=".npz file with MNIST; otherwise fetched")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    wide = simulated(2000, 10_000, np.random.default_rng(0))
    fits("simulated factors", wide, options.repeats)
    train, _ = load_mnist(options.mnist)
    train = train.reshape(len(train), -1) / 255
    fits("MNIST, pixels that vary", train[:, train.std(axis=0) > 0], options.repeats)
    models = fits("MNIST", train, options.repeats)
    scores(models, train, options.repeats)


if __name__ == "__main__":
    main()
