"""Likelihood and time of ICA beside scikit-learn's FastICA.

    python benchmarks/bench_ica.py [--patches 50000] [--samples 50000] [--repeats 3]

Data: simulated mixtures of 20 sources (Laplace, uniform, and half of each), and 8x8
patches of the grey values of scikit-learn's two sample photographs, in float64. Both
estimators run at their defaults (FastICA with its faster whitening, by eigenvalues),
for each density of ours, from the same seeds; runs alternate in one process.

FastICA has no density. Its unmixing matrix is given ours, every row at the scale where
that makes the data most probable; with density="adaptive" it may also choose the
better of both for every source. Log-likelihoods are means over the training rows, in
nats, of the medians over seeds. "Equal" is the time of a fit that is stopped as soon as
its likelihood is that of FastICA.
"""

import argparse
import warnings
from statistics import median

import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.image import extract_patches_2d

from sklearn_ebm import ICA
from sklearn_ebm.factors._ica_densities import ADAPTIVE
from sklearn_ebm.factors._ica_likelihood import fitted
from timing import seconds

DENSITIES_OF_OURS = ["adaptive", "logistic", "laplace", "student"]


def simulated(kind, n_samples, n_sources=20):
    """Mixed sources."""
    rng = np.random.default_rng(0)
    shape = (n_samples, n_sources)
    peaked, flat = rng.laplace(size=shape), rng.uniform(-2, 2, size=shape)
    choice = {"Laplace": 0, "uniform": 1, "both": np.arange(n_sources) % 2}[kind]
    return np.where(choice, flat, peaked) @ rng.normal(size=(n_sources, n_sources))


def patches(n_patches):
    """8x8 patches of both photographs, grey values in [0, 1]."""
    found = [
        extract_patches_2d(
            image.mean(axis=2), (8, 8), max_patches=n_patches // 2, random_state=0
        )
        for image in load_sample_images().images
    ]
    return np.concatenate(found).reshape(-1, 64) / 255


def log_likelihood_of(unmixing, X, density):
    """Mean log-likelihood of an unmixing matrix, every row at its best scale."""
    Y = (X - X.mean(axis=0)) @ unmixing.T
    best = np.full(len(unmixing), -np.inf)
    for name in ADAPTIVE if density == "adaptive" else [density]:
        best = np.maximum(best, -fitted(Y, [name] * len(unmixing))[1])
    return best.sum() + np.linalg.slogdet(unmixing)[1]


def compare(name, X, density, repeats):
    """Print a line for one density on one data set."""
    rows = []
    for seed in range(repeats):
        ours = ICA(density=density, random_state=seed)
        theirs = FastICA(whiten_solver="eigh", random_state=seed)
        own, rival = seconds(ours.fit, X), seconds(theirs.fit, X)
        target = log_likelihood_of(theirs.components_, X, density)
        reached = np.array(ours.history_["log_likelihood"]) >= target
        equal = np.nan
        if reached.any():
            short = ICA(
                density=density, random_state=seed, max_iter=int(reached.argmax()) + 1
            )
            equal = seconds(short.fit, X)
        rows.append(
            (
                *(ours.score(X), ours.n_iter_, own),
                *(target, theirs.n_iter_, rival),
                *(equal, rival / own),
            )
        )
    found = [median(column) for column in zip(*rows, strict=True)]
    print(
        "{:10} {:9} ours {:9.4f} nats, {:3.0f} iterations, {:6.2f} s; FastICA {:9.4f}"
        ", {:3.0f}, {:6.2f} s; equal {:6.2f} s; {:5.2f} times as fast".format(
            name, density, *found
        ),
        flush=True,
    )


def main():
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patches", type=int, default=50_000)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for kind in ("Laplace", "uniform", "both"):
        X = simulated(kind, args.samples)
        for density in DENSITIES_OF_OURS if kind == "Laplace" else ["adaptive"]:
            compare(kind, X, density, args.repeats)
    X = patches(args.patches)
    for density in DENSITIES_OF_OURS:
        compare("patches", X, density, args.repeats)


if __name__ == "__main__":
    main()
