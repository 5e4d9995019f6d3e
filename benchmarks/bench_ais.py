"""Speed of annealed importance sampling beside a vectorised NumPy version.

    python benchmarks/bench_ais.py [--mnist mnist.npz] [--betas 1000] [--repeats 5]

A 784x500 RBM trained for three epochs on MNIST (threshold binarisation), 100 runs,
float32, the forward pass only. The NumPy version does the same: matrix products by
BLAS, one field of the hidden units for both the weight and the next draw, its own
generator for uniform float32 numbers. It is timed twice: with np.logaddexp and
scipy.special.expit, as one would write it, and "tuned", with both of them in terms of
np.exp and np.log1p on float32, which are vectorised. Runs alternate in one process;
times are medians of a temperature, ratios are of runs next to each other. Also the
exact log Z of a model with 20 hidden units.
"""

import argparse
from itertools import pairwise
from statistics import median

import numpy as np
from scipy.special import expit, logit, logsumexp
from threadpoolctl import threadpool_limits

from data import load_mnist
from sklearn_ebm import BernoulliRBM
from sklearn_ebm.likelihood import log_partition
from timing import timed

N_RUNS = 100


def softplus(x):
    """log(1 + exp(x)), by the functions that NumPy has vector code for."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x):
    """The logistic function, likewise."""
    return 1 / (1 + np.exp(-x))


PLAIN = lambda x: np.logaddexp(0, x), expit
TUNED = softplus, sigmoid


def numpy_ais(model, n_betas, seed, functions):
    """Estimate log Z in plain NumPy."""
    softplus, sigmoid = functions
    rng = np.random.default_rng(seed)
    W = np.ascontiguousarray(model.components_.T)
    b, c = model.intercept_visible_, model.intercept_hidden_
    base = logit(np.clip(model.visible_mean_, 0.001, 0.999)).astype(np.float32)
    betas = np.linspace(0, 1, n_betas)
    shape_v, shape_h = (N_RUNS, len(b)), (N_RUNS, len(c))
    v = (rng.random(shape_v, np.float32) < expit(base)).astype(np.float32)
    log_w = np.zeros(N_RUNS)
    for low, high in pairwise(betas.astype(np.float32)):
        field = c + v @ W
        gain = softplus(high * field) - softplus(low * field)
        log_w += (v @ (b - base)) * (high - low) + gain.sum(axis=1, dtype=float)
        h = (rng.random(shape_h, np.float32) < sigmoid(high * field)).astype(np.float32)
        field = (1 - high) * base + high * (b + h @ W.T)
        v = (rng.random(shape_v, np.float32) < sigmoid(field)).astype(np.float32)
    log_z = np.logaddexp(0, base).sum(dtype=float) + len(c) * np.log(2)
    return log_z + logsumexp(log_w) - np.log(N_RUNS)


def main():
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", help="a .npz file with X_train and X_test")
    parser.add_argument("--betas", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    X = load_mnist(args.mnist)[0] > 127
    settings = {"batch_size": 100, "learning_rate": 0.05, "random_state": 0}
    model = BernoulliRBM(500, n_iter=3, **settings).fit(X)

    def ours(seed):
        result = log_partition(
            model, "ais", betas=args.betas, reverse=False, random_state=seed
        )
        return result.value

    for threads in (1, 2):
        ways = [
            ours,
            lambda seed: numpy_ais(model, args.betas, seed, PLAIN),
            lambda seed: numpy_ais(model, args.betas, seed, TUNED),
        ]
        times, values = np.empty((2, len(ways), args.repeats + 1))
        for seed in range(args.repeats + 1):
            for way, function in enumerate(ways):
                with threadpool_limits(limits=threads):
                    times[way, seed], values[way, seed] = timed(function, seed)
        mine, plain, tuned = times[:, 1:] / args.betas * 1e6
        print(
            f"784x500, {N_RUNS} runs, {threads} threads: {median(mine):.0f} us a "
            f"temperature, NumPy {median(plain):.0f} ({median(plain / mine):.1f} "
            f"times), tuned {median(tuned):.0f} ({median(tuned / mine):.1f} times)   "
            f"log Z {values[0].mean():.2f}, {values[1].mean():.2f}, "
            f"{values[2].mean():.2f}",
            flush=True,
        )
    model = BernoulliRBM(20, n_iter=3, **settings).fit(X)
    seconds, value = timed(log_partition, model)
    print(f"784x20 exactly: log Z {float(value):.4f} in {seconds:.2f} s")


if __name__ == "__main__":
    main()
