"""Speed of mean field and of Gibbs sampling in deep machines, beside NumPy.

    python benchmarks/bench_dbm.py [--mnist mnist.npz] [--quick]

Machines of 784-500-1000 units, in float32. Mean field of 1 000 rows:

- in a machine that is trained for five epochs on 10 000 images of MNIST (threshold),
  test images: `transform` with the default tolerance, of 10 and of 25 steps;
- in a random machine, rows with 13 % ones, 10 steps in which all is computed
  (tolerance 0).

Gibbs: sweeps over all layers of 100 and of 1 000 chains. Beside it vectorised NumPy
with as many steps: products by BLAS, logistic functions in place, uniform numbers in
float32. Runs alternate in one process; figures are medians of the milliseconds of a
run, and ratios (NumPy's by ours) medians over runs next to each other. Threads are set
with threadpoolctl for both.
"""

import argparse
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from data import load_mnist
from sklearn_ebm import DBMTransformer
from sklearn_ebm._deep_machines import DeepMachine
from sklearn_ebm._simd import instruction_set
from sklearn_ebm.layered import Layered
from sklearn_ebm.samplers import Gibbs
from timing import seconds

SIZES = 784, 500, 1000
N_STEPS = 10
N_SWEEPS = 20


def machine():
    """Weights and biases like those of a trained machine: a fifth of units are on."""
    rng = np.random.default_rng(0)
    weights = tuple(
        rng.normal(0, 0.1, shape).astype(np.float32)
        for shape in zip(SIZES, SIZES[1:], strict=False)
    )
    biases = tuple(np.full(n, -1.5, np.float32) for n in SIZES)
    return Layered(("bernoulli",) * 3, weights, biases)


def logistic(fields):
    """Logistic function, in place."""
    np.negative(fields, out=fields)
    np.exp(fields, out=fields)
    fields += 1
    return np.reciprocal(fields, out=fields)


def mean_field(layers, X, n_steps=N_STEPS):
    """Means of the hidden layers, by NumPy."""
    (W1, W2), (_, c1, c2) = layers.weights, layers.biases
    seen = X @ W1
    first = logistic(2 * seen + c1)
    seen += c1
    top = logistic(first @ W2 + c2)
    for _ in range(n_steps):
        first = logistic(top @ W2.T + seen)
        top = logistic(first @ W2 + c2)
    return top, logistic(top @ W2.T + seen)


def sweep(layers, v, top, rng):
    """Draw the first hidden layer given its neighbours, and these given it."""
    (W1, W2), (b, c1, c2) = layers.weights, layers.biases

    def drawn(fields):
        means = logistic(fields)
        return (rng.random(means.shape, np.float32) < means).astype(np.float32)

    first = drawn(v @ W1 + top @ W2.T + c1)
    return drawn(first @ W1.T + b), drawn(first @ W2 + c2)


def trained_machine(path):
    """A deep machine that has learned MNIST, and test images."""
    train, test = load_mnist(path)
    model = DBMTransformer(SIZES[1:], n_iter=5, pretrain_n_iter=5, random_state=0)
    return model.fit(train[:10000] > 127), (test[:1000] > 127).astype(np.float32)


def compare(name, ours, theirs, threads, repeats):
    """Print medians of both, and the median ratio."""
    times = []
    for _ in range(repeats + 1):
        with threadpool_limits(limits=threads):
            times.append([1e3 * seconds(run) for run in (ours, theirs)])
    times = times[1:]  # the first round warms up
    found = [median(column) for column in zip(*times, strict=True)]
    ratio = median(b / a for a, b in times)
    print(
        f"{name:24s} {threads:3d} {found[0]:11.1f} {found[1]:9.1f} ms   "
        f"ratio {ratio:5.2f}",
        flush=True,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist", help="a .npz file with X_train and X_test")
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    args = parser.parse_args()
    repeats = 3 if args.quick else 15
    layers, rng = machine(), np.random.default_rng(0)
    X = (rng.random((1000, 784)) < 0.13).astype(np.float32)
    deep = DeepMachine(layers, np.float32, n_steps=N_STEPS, tolerance=0.0)
    # Both do the same.
    top, first = deep.field.settle(X)
    wanted = mean_field(layers, X)
    assert np.abs(top - wanted[0]).max() < 1e-3
    assert np.abs(first - wanted[1]).max() < 1e-3
    print(f"instruction set: {instruction_set()}")
    print(f"{'':24s} thr sklearn_ebm     NumPy, a run")
    model, images = trained_machine(args.mnist)
    for n_steps in (10, 25):
        model.set_params(n_mean_field_steps=n_steps)
        for threads in (1, 2):
            compare(
                f"transform, {n_steps} steps",
                lambda: model.transform(images),
                lambda n=n_steps: mean_field(model._layered(), images, n),
                threads,
                repeats,
            )
    for threads in (1, 2):
        compare(
            "mean field, tolerance 0",
            lambda: deep.field.settle(X),
            lambda: mean_field(layers, X),
            threads,
            repeats,
        )
    for n_chains in (100, 1000):
        sampler = Gibbs(layers.folded())
        chains = sampler.init(n_chains, random_state=0)
        v = (rng.random((n_chains, 784)) < 0.13).astype(np.float32)
        h = (rng.random((n_chains, 1000)) < 0.13).astype(np.float32)

        def theirs(v=v, h=h):
            for _ in range(N_SWEEPS):
                v, h = sweep(layers, v, h, rng)

        for threads in (1, 2):
            compare(
                f"{N_SWEEPS} sweeps, {n_chains} chains",
                lambda sampler=sampler, chains=chains: sampler.step(chains, N_SWEEPS),
                theirs,
                threads,
                repeats,
            )


if __name__ == "__main__":
    main()
