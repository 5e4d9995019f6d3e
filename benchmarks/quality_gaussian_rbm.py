"""What GaussianRBM reaches: photo patches, independent Laplace sources, clusters.

    python benchmarks/quality_gaussian_rbm.py
        [--only patches|laplace|clusters|defaults|wide|langevin] [--picture FILE]
        [--faces freyfaces.npz] [--mnist mnist.npz]

Patches: 8x8, of scikit-learn's two photos, reduced to half their size (that leaves
little of the noise of their compression), each less its mean and divided by its
contrast, then the 36 leading principal components, whitened. 60 000 to train on and
20 000 held out. Beside the model's log-likelihood (forward and reverse annealed
importance sampling, nats a patch, of densities of the whitened components) that of
a Gaussian with the full covariance of the same training patches.

Laplace: two independent sources mixed by a rotation, 20 000 pairs to train on; ten
fits, exact log-likelihood of 50 000 others (hidden states enumerated) beside that of
the true density.

Clusters: normal clusters of variance 1, 1 000 rows to train on and as many others, 16
hidden units, 100 epochs at a constant rate; and bundled tables, of which 30 % are held
out, 10 hidden units, 400 epochs. Exact log-likelihood of held-out rows: of a mixture
that knows the number of clusters, of a normal distribution, and median and worst of
five fits with chains that jump (as they do) and with chains that only sweep.

Defaults: 256 hidden units, 10 epochs and as many as the defaults take; and 16 hidden
units on whitened principal components, as densities of the features. Simulated and
bundled tables, standardised; held-out rows, a quarter, by the lower one of forward
and reverse annealing, three fits; beside normal distributions, with all correlations
and with none.

Wide: tables of few rows for their features, by 50 and 256 hidden units, in ten epochs
and in as many as the defaults take; nats a row of 500 others by `score`, one fit,
beside `FactorAnalysis` of 20 factors.

Langevin: Gibbs-Langevin chains beside those of block Gibbs sampling. Autocorrelation
times, in sweeps (which take the same time), of the two features of a model with two
modes, of the components of patches, and of their free energy; and the exact
log-likelihood of held-out patches after training with such chains (means of five fits).
"""

import argparse
import time
import warnings

import numpy as np
from scipy.stats import multivariate_normal, norm
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_sample_images,
    load_wine,
    make_blobs,
)
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

from sklearn_ebm import FactorAnalysis, GaussianRBM
from sklearn_ebm.layered import Layered
from sklearn_ebm.likelihood import free_energy, log_partition
from sklearn_ebm.samplers import Gibbs, autocorrelation_time
from sklearn_ebm.units import Gaussian

# Of Langevin dynamics; None is block Gibbs sampling.
TIMES = None, 3.0, 1.0, 0.3, 0.1


def whitened_patches(n_patches=80_000, n_components=36):
    """Whitened components of patches, and the map back to pixels."""
    photos = [
        photo.mean(axis=2)[:426].reshape(213, 2, 320, 2).mean(axis=(1, 3))
        for photo in load_sample_images().images
    ]
    X = np.concatenate(
        [
            extract_patches_2d(
                photo, (8, 8), max_patches=n_patches // 2, random_state=seed
            ).reshape(-1, 64)
            for seed, photo in enumerate(photos)
        ]
    )
    X -= X.mean(axis=1, keepdims=True)
    X /= np.sqrt(X.var(axis=1, keepdims=True) + 100)
    X = X[np.random.default_rng(0).permutation(len(X))]
    variances, directions = np.linalg.eigh(np.cov(X.T))
    variances, directions = variances[-n_components:], directions[:, -n_components:]
    X = (X - X.mean(axis=0)) @ directions / np.sqrt(variances)
    return X.astype(np.float32), directions.T


def fit_patches(picture):
    """Print the likelihood of patches; draw the filters if a file is named."""
    X, back = whitened_patches()
    train, test = X[:60_000], X[60_000:]
    gauss = multivariate_normal(train.mean(axis=0), np.cov(train.T))
    print(f"full-covariance Gaussian      {gauss.logpdf(test).mean():8.2f}")
    model = GaussianRBM(
        100,
        batch_size=100,
        n_chains=200,
        n_iter=100,
        learning_rate=0.1,
        learning_rate_schedule="linear",
        random_state=0,
    )
    begin = time.perf_counter()
    model.fit(train)
    seconds = time.perf_counter() - begin
    estimate = log_partition(model, "ais", betas=2000, random_state=0)
    energy = model.free_energy(test).mean(dtype=float)
    print(
        f"GaussianRBM, 100 hidden units {-energy - estimate.forward:8.2f} (forward, "
        f"s.e. {estimate.standard_error:.2f}) {-energy - estimate.reverse:8.2f} "
        f"(reverse, {estimate.reverse_standard_error:.2f})   {seconds:.1f} s"
    )
    if picture:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 6), layout="constrained")
        filters = model.components_ @ back
        for axis, weights in zip(figure.subplots(10, 10).ravel(), filters, strict=True):
            most = np.abs(weights).max()
            axis.imshow(weights.reshape(8, 8), cmap="gray", vmin=-most, vmax=most)
            axis.set_axis_off()
        figure.savefig(picture, dpi=80)


def laplace(n, rng):
    """Rotated pairs of independent Laplace numbers, and their log-densities."""
    sources = rng.laplace(size=(n, 2))
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    log_p = -np.abs(sources).sum(axis=1) - 2 * np.log(2)
    return sources @ np.array([[c, s], [-s, c]]), log_p


def fit_laplace():
    """Print the exact likelihood of ten fits."""
    rng = np.random.default_rng(0)
    train, _ = laplace(20_000, rng)
    test, log_p = laplace(50_000, rng)
    gauss = multivariate_normal(train.mean(axis=0), np.cov(train.T))
    print(f"true density {log_p.mean():.4f}, Gaussian {gauss.logpdf(test).mean():.4f}")
    scores, seconds = [], []
    for seed in range(10):
        model = GaussianRBM(
            10,
            batch_size=100,
            n_iter=60,
            learning_rate=0.1,
            learning_rate_schedule="linear",
            random_state=seed,
        )
        begin = time.perf_counter()
        model.fit(train)
        seconds.append(time.perf_counter() - begin)
        scores.append(model.score(test))
    print("GaussianRBM, 10 hidden units", *(f"{score:.4f}" for score in scores))
    print(
        f"best {max(scores):.4f}: {log_p.mean() - max(scores):.4f} nats below the true "
        f"density; {np.median(seconds):.1f} s a fit"
    )


def clusters():
    """Centres of clusters by name."""
    rng = np.random.default_rng(0)
    return {
        "2 in 1 feature, 6 apart": np.array([[-3.0], [3.0]]),
        "4 in a square, 6 apart": 3.0 * np.array([[-1, -1], [1, 1], [-1, 1], [1, -1]]),
        "3 in 5 features": 3 * rng.normal(size=(3, 5)),
        "5 in 10 features": 2 * rng.normal(size=(5, 10)),
        "2 in 2 features, 40 apart": np.array([[-20.0, 0.0], [20.0, 0.0]]),
    }


def fit_clusters():
    """Print how well clusters and tables are found, with and without jumps."""
    rng = np.random.default_rng(1)
    for name, centres in clusters().items():
        rows = centres[rng.integers(len(centres), size=2000)]
        rows = rows + rng.normal(size=rows.shape)
        mixture = GaussianMixture(len(centres), n_init=5, random_state=0)
        compare_jumps(name, rows[:1000], rows[1000:], mixture, 16, 100)
    for load in (load_iris, load_wine, load_breast_cancer):
        train, test = train_test_split(load().data, test_size=0.3, random_state=0)
        compare_jumps(load.__name__[5:], train, test, None, 10, 400)


def compare_jumps(name, train, test, mixture, n_components, n_iter):
    """Print a row: a mixture, a normal distribution, and chains of both kinds."""
    best = f"{mixture.fit(train).score(test):8.2f}" if mixture else " " * 8
    print(
        f"{name:27s}{best}{EmpiricalCovariance().fit(train).score(test):9.2f}", end=""
    )
    # Langevin dynamics that forget where they were: sweeps, but no jumps.
    for langevin_time in (None, 50.0):
        scores = [
            GaussianRBM(
                n_components,
                n_iter=n_iter,
                learning_rate_schedule="constant",
                langevin_time=langevin_time,
                random_state=seed,
            )
            .fit(train)
            .score(test)
            for seed in range(5)
        ]
        print(f"   {np.median(scores):8.2f} ({min(scores):8.2f})", end="", flush=True)
    print()


def standardised_tables():
    """Tables by name."""
    rng = np.random.default_rng(0)
    blobs = rng.normal(size=(700, 20)), rng.normal(size=(300, 20)) + 4
    factor = rng.normal(size=(1400, 1))
    tables = {
        "8 clusters in 10 features": make_blobs(2000, 10, centers=8, random_state=1)[0],
        "2 clusters in 20 features": np.concatenate(blobs),
        "4 clusters in 5 features": make_blobs(400, 5, centers=4, random_state=0)[0],
        "20 features that agree": 0.95**0.5 * factor
        + 0.05**0.5 * rng.normal(size=(1400, 20)),
        "3 factors of 30 features": rng.normal(size=(1400, 3))
        @ rng.normal(size=(3, 30))
        + 0.5 * rng.normal(size=(1400, 30)),
        "zeros in 80 % of 6": np.where(
            rng.random((800, 6)) < 0.8, 0, rng.exponential(size=(800, 6))
        ),
        "iris": load_iris().data,
        "wine": load_wine().data,
        "breast cancer": load_breast_cancer().data,
        "digits, noise of 0.05": load_digits().data / 16
        + 0.05 * rng.normal(size=(1797, 64)),
    }
    return {name: scale(X) for name, X in tables.items()}


def fit_defaults():
    """Print what 10 epochs reach, all defaults, and 16 units on whitened features."""
    for name, X in standardised_tables().items():
        train, test = train_test_split(X, random_state=5)
        normal = EmpiricalCovariance().fit(train).score(test)
        alone = norm.logpdf(test, train.mean(axis=0), train.std(axis=0))
        print(f"{name:27s}{normal:8.2f}{alone.sum(axis=1).mean():8.2f}", end="")
        whitening = PCA(whiten=True).fit(train)
        white = whitening.transform(train), whitening.transform(test)
        # (What the density of the features is less than that of the whitened ones.)
        spread = np.log(whitening.explained_variance_).sum() / 2
        for settings, (rows, others), less in [
            ({"n_iter": 10}, (train, test), 0),
            ({}, (train, test), 0),
            ({"n_components": 16}, white, spread),
        ]:
            print("   ", end="")
            for seed in range(3):
                model = GaussianRBM(**settings, random_state=seed).fit(rows)
                log_z = log_partition(model, "ais", betas=1000, random_state=0)
                largest = max(log_z.forward, log_z.reverse)
                score = -model.free_energy(others).mean() - largest - less
                print(f"{score:8.2f}", end="", flush=True)
        print()


def wide_tables(faces, mnist):
    """Tables of few rows for their features, by name: rows to train on, and others."""
    rng, tables = np.random.default_rng(0), {}
    if faces:
        X = rng.permutation(np.load(faces)["X"] / 255)
        tables["1500 faces, 560 pixels"] = X[:1500], X[1500:]
        tables["300 faces, 560 pixels"] = X[:300], X[1500:]
    if mnist:
        X = np.load(mnist)["X_train"][:2000].reshape(2000, -1) / 255
        X = X[:, X.std(axis=0) > 0.1]
        tables[f"1000 digits, {X.shape[1]} pixels"] = X[:1000], X[1000:]
    for n, d, k in [(60, 100, 3), (500, 200, 5), (300, 100, 20), (300, 100, 0)]:
        X = rng.normal(size=(n + 500, k)) @ rng.normal(size=(k, d))
        X += rng.normal(size=X.shape)
        tables[f"{n} rows of {d}, {k} factors"] = X[:n], X[n:]
    return tables


def fit_wide(faces, mnist):
    """Print what ten epochs and all defaults reach on wide tables."""
    for name, (train, test) in wide_tables(faces, mnist).items():
        n_factors = min(20, len(train) - 2)
        linear = FactorAnalysis(n_factors).fit(train).score(test[:500])
        print(f"{name:26s}{linear:9.1f}", end="", flush=True)
        for n_components in (50, 256):
            for n_iter in (10, None):
                model = GaussianRBM(n_components, n_iter=n_iter, random_state=0)
                score = model.fit(train).score(test[:500])
                print(f"{score:9.1f} ({model.n_iter_:3d})", end="", flush=True)
        print()


def two_modes(distance):
    """Two equal modes of variance 1, this far apart."""
    step = np.full((2, 1), distance / np.sqrt(2))
    # With zero between the modes, the bias of the hidden unit is 0.
    return Layered(
        (Gaussian(-step[:, 0] / 2), "bernoulli"), (step,), (np.zeros(2), np.zeros(1))
    )


def mixing(model, t, n_draws=4000, n_chains=50):
    """Autocorrelation times: the mean over the features, and of the free energy."""
    sampler = Gibbs(model, langevin_time=t)
    chains = sampler.step(sampler.init(n_chains, random_state=0), 500)
    draws = []
    for _ in range(n_draws):
        chains = sampler.step(chains)
        draws.append(chains.visible)
    draws = np.array(draws, float)
    features = [autocorrelation_time(x) for x in np.moveaxis(draws, 2, 0)]
    energy = free_energy(model, draws.reshape(-1, draws.shape[2]))
    return np.mean(features), autocorrelation_time(energy.reshape(n_draws, n_chains))


def compare_chains():
    """Print how fast chains mix, and what is learned with them."""
    X, _ = whitened_patches()
    train, test = X[:20_000], X[60_000:]
    settings = {
        "batch_size": 100,
        "n_iter": 30,
        "learning_rate": 0.1,
        "learning_rate_schedule": "linear",
        "random_state": 0,
    }
    model = GaussianRBM(12, **settings).fit(train)
    models = {"3 apart": two_modes(3), "5 apart": two_modes(5), "patches": model}
    for name, one in models.items():
        for t in TIMES:
            features, energy = mixing(one, t)
            print(
                f"{name:8s} langevin_time={t!s:5s} autocorrelation times: "
                f"features {features:7.2f}, free energy {energy:7.2f}",
                flush=True,
            )
    for persistent in (True, False):
        for t in TIMES:
            fits = [
                GaussianRBM(
                    12,
                    persistent=persistent,
                    langevin_time=t,
                    **settings | {"random_state": seed},
                ).fit(train)
                for seed in range(5)
            ]
            scores = [fit.score(test) for fit in fits]
            print(
                f"{'PCD' if persistent else 'CD':3s} langevin_time={t!s:5s} "
                f"held out {np.mean(scores):8.3f} nats a patch "
                f"(s.e. {np.std(scores, ddof=1) / 5**0.5:.3f}), "
                f"{sum(fits[0].history_['seconds']):.1f} s",
                flush=True,
            )


def main():
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only",
        choices=["patches", "laplace", "clusters", "defaults", "wide", "langevin"],
    )
    parser.add_argument("--faces", help="freyfaces.npz, with an array X of rows")
    parser.add_argument("--mnist", help="mnist.npz")
    parser.add_argument("--picture", help="a file for the picture of the filters")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if args.only in (None, "patches"):
        fit_patches(args.picture)
    if args.only in (None, "laplace"):
        fit_laplace()
    if args.only in (None, "clusters"):
        fit_clusters()
    if args.only in (None, "defaults"):
        fit_defaults()
    if args.only in (None, "wide"):
        fit_wide(args.faces, args.mnist)
    if args.only in (None, "langevin"):
        compare_chains()


if __name__ == "__main__":
    main()
