"""What GaussianRBM reaches: photo patches, and two independent Laplace sources.

    python benchmarks/quality_gaussian_rbm.py [--only patches|laplace] [--picture FILE]

Patches: 8x8, of scikit-learn's two photos, reduced to half their size (that leaves
little of the noise of their compression), each less its mean and divided by its
contrast, then the 36 leading principal components, whitened. 60 000 to train on and
20 000 held out. Beside the model's log-likelihood (forward and reverse annealed
importance sampling, nats a patch, of densities of the whitened components) that of
a Gaussian with the full covariance of the same training patches.

Laplace: two independent sources mixed by a rotation, 20 000 pairs to train on; ten
fits, exact log-likelihood of 50 000 others (hidden states enumerated) beside that of
the true density.
"""

import argparse
import time

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.datasets import load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

from sklearn_ebm import GaussianRBM
from sklearn_ebm.likelihood import log_partition


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


def main():
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["patches", "laplace"])
    parser.add_argument("--picture", help="a file for the picture of the filters")
    args = parser.parse_args()
    if args.only != "laplace":
        fit_patches(args.picture)
    if args.only != "patches":
        fit_laplace()


if __name__ == "__main__":
    main()
