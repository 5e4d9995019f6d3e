"""Likelihood and time of ICA beside scikit-learn's FastICA.

    python benchmarks/bench_ica.py [--patches 50000] [--samples 50000] [--repeats 3]
    python benchmarks/bench_ica.py --only separation

Data: simulated mixtures of 20 sources (Laplace, uniform, and half of each), and 8x8
patches of the grey values of scikit-learn's two sample photographs, in float64. Both
estimators run at their defaults (FastICA with its faster whitening, by eigenvalues),
for each density of ours, from the same seeds; runs alternate in one process.

FastICA has no density. Its unmixing matrix is given ours, every row at the scale where
that makes the data most probable; with density="adaptive" it may also choose the
best of the densities for every source. Log-likelihoods are means over the training
rows, in nats, of the medians over seeds. "Equal" is the time of a fit that is stopped
as soon as its likelihood is that of FastICA.

"separation" takes 3 000 rows of 4 sources of one kind, any of which may have the other
sign, mixes them at random, and prints how well the mixtures are undone: the median and
the worst of the Amari distances of 20 data sets, beside FastICA with two contrasts.
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
from sklearn_ebm.factors._ica_densities import ADAPTIVE, PEAKED
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
    for name in {*ADAPTIVE, *PEAKED} if density == "adaptive" else [density]:
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


def amari(P):
    """Amari distance of P from a scaled permutation; 0 to 1."""
    P, k = np.abs(P), len(P)
    rows = (P / P.max(axis=1, keepdims=True)).sum() - k
    columns = (P / P.max(axis=0, keepdims=True)).sum() - k
    return (rows + columns) / (2 * k * (k - 1))


def square(x):
    """A contrast for skewed sources, and the mean of its derivative."""
    return x**2, (2 * x).mean(axis=-1)


SOURCES = {
    "Laplace": lambda rng, shape: rng.laplace(size=shape),
    "uniform": lambda rng, shape: rng.uniform(size=shape),
    "Student, 3 df": lambda rng, shape: rng.standard_t(3, shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "gamma(4)": lambda rng, shape: rng.gamma(4, size=shape),
    "Poisson(1)": lambda rng, shape: rng.poisson(1, shape),
    "Poisson(5)": lambda rng, shape: rng.poisson(5, shape),
    "bits, p = 0.2": lambda rng, shape: rng.random(shape) < 0.2,
    "bits, p = 0.05": lambda rng, shape: rng.random(shape) < 0.05,
    "beta(2, 5)": lambda rng, shape: rng.beta(2, 5, shape),
    "half a normal": lambda rng, shape: np.abs(rng.normal(size=shape)),
}


def separate(kind, n_samples=3000, n_sources=4, n_sets=20):
    """Print a line for one kind of sources."""
    makers = {
        "ours": lambda seed: ICA(random_state=seed),
        "logcosh": lambda seed: FastICA(random_state=seed),
        "square": lambda seed: FastICA(random_state=seed, fun=square),
    }
    found = {name: [] for name in makers}
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        S = SOURCES[kind](rng, (n_samples, n_sources))
        S = S * rng.choice([-1.0, 1.0], n_sources)
        A = rng.normal(size=(n_sources, n_sources))
        for name, make in makers.items():
            found[name].append(amari(make(seed).fit(S @ A.T).components_ @ A))
    texts = (f"{median(each):.3f} (worst {max(each):.3f})" for each in found.values())
    print("{:14} ours {}; FastICA {}, of squares {}".format(kind, *texts), flush=True)


def main():
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patches", type=int, default=50_000)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=["separation"])
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if args.only:
        for kind in SOURCES:
            separate(kind)
        return
    for kind in ("Laplace", "uniform", "both"):
        X = simulated(kind, args.samples)
        for density in DENSITIES_OF_OURS if kind == "Laplace" else ["adaptive"]:
            compare(kind, X, density, args.repeats)
    X = patches(args.patches)
    for density in DENSITIES_OF_OURS:
        compare("patches", X, density, args.repeats)


if __name__ == "__main__":
    main()
