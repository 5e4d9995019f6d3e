"""Bound on the test log-likelihood of a 784-500-2000 deep belief network on MNIST.

    python benchmarks/quality_dbn_likelihood.py --mnist mnist_sm2008.npz
    python benchmarks/quality_dbn_likelihood.py --mnist mnist_sm2008.npz --up-down 10
    ... --epochs 2 --betas 1000   # a look whether it runs

The data are the binarisation of Salakhutdinov & Murray (2008): arrays X_train, X_valid
(both trained on, 60 000 rows) and X_test of zeros and ones. Published for two hidden
layers: -84.55 nats, an estimate of the log-likelihood itself. What is printed here is
the variational bound with log Z of the machine at the top by annealed importance
sampling: forward (too high if it misses modes) and reverse (too low if its starts are
typical samples). Without --mnist the images come from OpenML and every pixel is drawn
once with its grey value as probability: another binarisation, and numbers that are
not comparable.

The up-down algorithm goes ten sweeps up and down in the machine at the top for every
minibatch: with one it first loses some nats of what persistent chains had learned.

--resume FILE keeps the model there after the greedy layers and after every epoch of
the up-down algorithm, and goes on from it.
"""

import argparse
import os
import time

import joblib

from data import binary_mnist
from sklearn_ebm import DBNTransformer
from sklearn_ebm.likelihood import log_partition

RECIPE = {
    "hidden_layer_sizes": (500, 2000),
    "init": "transposed",
    "batch_size": 100,
    "n_gibbs_steps": 5,
    "learning_rate": (0.1, 0.02),
    "learning_rate_schedule": "linear",
    "weight_decay": 5e-4,
    "up_down_learning_rate": 0.01,
    "random_state": 0,
}


def report(name, model, betas, seconds, train, test):
    """Print both estimates of the bound for test images, and for training images."""
    estimate = log_partition(model.top_rbm(), "ais", betas=betas, random_state=0)
    # Without log Z, by the ten draws of `score_samples`.
    bound, fitted = (model._bounds(X, 10).mean() for X in (test, train[:10_000]))
    print(
        f"{name:24s} test {bound - estimate.forward:8.2f} (forward, s.e. "
        f"{estimate.standard_error:.2f}) {bound - estimate.reverse:8.2f} (reverse, "
        f"{estimate.reverse_standard_error:.2f})   train "
        f"{fitted - estimate.forward:8.2f}   {seconds:7.1f} s",
        flush=True,
    )


def main():
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", help="a .npz file of binary images")
    parser.add_argument("--epochs", type=int, nargs="+", default=[400, 100])
    parser.add_argument("--up-down", type=int, default=0, help="epochs")
    parser.add_argument("--betas", type=int, default=20_000)
    parser.add_argument("--resume", help="a file for the model")
    args = parser.parse_args()
    train, test = binary_mnist(args.mnist)
    n_iter = tuple(args.epochs) if len(args.epochs) > 1 else args.epochs[0]
    print(f"{RECIPE | {'n_iter': n_iter}}, {len(train)} rows", flush=True)
    if args.resume and os.path.exists(args.resume):
        model, seconds = joblib.load(args.resume)
    else:
        model, begin = DBNTransformer(n_iter=n_iter, **RECIPE), time.perf_counter()
        model.fit(train)
        seconds = time.perf_counter() - begin
        if args.resume:
            joblib.dump((model, seconds), args.resume)
    report("greedy layers", model, args.betas, seconds, train, test)
    while model.history_["layer"].count(0) < args.up_down:
        begin = time.perf_counter()
        model.set_params(up_down_n_iter=1, n_gibbs_steps=10).partial_fit(train)
        seconds += time.perf_counter() - begin
        if args.resume:
            joblib.dump((model, seconds), args.resume)
    if args.up_down:
        name = f"{args.up_down} epochs of up-down"
        report(name, model, args.betas, seconds, train, test)


if __name__ == "__main__":
    main()
