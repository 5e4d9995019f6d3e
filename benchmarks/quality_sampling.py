"""Do samples reach the modes of a model?

Models of clusters that lie far apart, and of digits. How far the shares of clusters (of
digits: of the class of the nearest image) among 2000 samples are from those among the
rows, half the sum of the absolute differences: of samples as `sample` draws them by
default, of chains that start at independent features, and of replica exchange where
there is one.

    python benchmarks/quality_sampling.py [--seeds 3]
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits, make_blobs
from sklearn.neighbors import KNeighborsClassifier

from data import patterns
from sklearn_ebm import BernoulliRBM, DBMTransformer, GaussianRBM

N_SAMPLES = 2000


def blobs(seed, spread=10):
    """Six normal clusters, and which row is of which."""
    X, y = make_blobs(
        3000, 8, centers=6, center_box=(-spread, spread), random_state=seed
    )
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def digits(seed):
    """Binary digits and their classes."""
    X, y = load_digits(return_X_y=True)
    return (X > 7).astype(np.float32), y


CASES = {
    "six clusters, GaussianRBM 64": (
        blobs,
        GaussianRBM(64, n_iter=30, learning_rate_schedule="constant"),
    ),
    "ten patterns, BernoulliRBM 64": (patterns, BernoulliRBM(64, n_iter=30)),
    "ten patterns, DBM 64-32": (patterns, DBMTransformer((64, 32), n_iter=30)),
    "digits, BernoulliRBM 100": (digits, BernoulliRBM(100, n_iter=30)),
    "digits, DBM 100-50": (digits, DBMTransformer((100, 50), n_iter=30)),
}


def independent(model, X, seed):
    """Features that are independent of each other, as rows to start from."""
    rng = np.random.default_rng(seed)
    if isinstance(model, GaussianRBM):
        return rng.normal(size=(N_SAMPLES, X.shape[1]))
    return (rng.random((N_SAMPLES, X.shape[1])) < X.mean(axis=0)).astype(X.dtype)


def main():
    """Print a line for every model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    print(f"{'':32} {'default':>14} {'independent':>16} {'tempering':>16}")
    for name, (make, model) in CASES.items():
        far, seconds = {}, {}
        for seed in seeds:
            X, y = make(seed)
            nearest = KNeighborsClassifier(1).fit(X, y)
            shares = np.bincount(y) / len(y)
            model.set_params(random_state=seed).fit(X)
            ways = {"default": {}, "independent": {"init": independent(model, X, seed)}}
            if not isinstance(model, GaussianRBM):
                ways["tempering"] = {"method": "tempering"}
            for way, options in ways.items():
                start = time.perf_counter()
                V = model.sample(N_SAMPLES, random_state=seed, **options)
                seconds.setdefault(way, []).append(time.perf_counter() - start)
                found = np.bincount(nearest.predict(V), minlength=len(shares))
                apart = np.abs(found / N_SAMPLES - shares).sum() / 2
                far.setdefault(way, []).append(apart)
        row = "  ".join(
            "/".join(f"{x:.2f}" for x in values) + f" {np.median(seconds[way]):.1f} s"
            for way, values in far.items()
        )
        print(f"{name:32} {row}", flush=True)


if __name__ == "__main__":
    main()
