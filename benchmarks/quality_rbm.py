"""Exact test log-likelihood of small RBMs on MNIST, ours beside scikit-learn's.

    python benchmarks/quality_rbm.py [--mnist mnist.npz] [--only NAME] [--seed 0]

MNIST with threshold binarisation (grey value > 127), 60 000 training and 10 000
test images, 16 hidden units, so that log Z is exact (2 ** 16 hidden states).
Figures are means over the test images in nats. "flipped" is trained and tested
on 1 - pixels.
"""

import argparse
import time

import numpy as np
from sklearn.neural_network import BernoulliRBM as SklearnRBM

from data import load_mnist
from sklearn_ebm import BernoulliRBM
from sklearn_ebm.likelihood import log_likelihood

LONG = {"n_iter": 50, "batch_size": 100, "learning_rate": 0.01}
SHORT = {"n_iter": 10, "batch_size": 100, "learning_rate": 0.05}


def exact(model, X):
    """Mean exact log-likelihood of any model with an RBM's attributes."""
    ours = BernoulliRBM(n_iter=0, n_components=len(model.components_)).fit(X[:2])
    for name in ("components_", "intercept_hidden_", "intercept_visible_"):
        setattr(ours, name, getattr(model, name))
    return float(log_likelihood(ours, X))


def run(name, model, train, test):
    """Fit and print a row."""
    begin = time.perf_counter()
    model.fit(train)
    seconds = time.perf_counter() - begin
    activity = model.transform(test).mean(axis=0)
    stuck = int(((activity < 0.001) | (activity > 0.999)).sum())
    print(
        f"{name:52s} {exact(model, test):9.2f} nats   {seconds:6.1f} s   "
        f"{stuck} stuck units   finite {bool(np.isfinite(model.components_).all())}",
        flush=True,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", help="a .npz file with X_train and X_test")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    train, test = ((part > 127).astype(np.float32) for part in load_mnist(args.mnist))
    base = {"n_components": 16, "random_state": args.seed}
    mean = (train.sum(axis=0) + 0.5) / (len(train) + 1)
    score = (test @ np.log(mean) + (1 - test) @ np.log1p(-mean)).mean()
    print(f"{'independent pixels (base rate)':52s} {score:9.2f} nats")
    pixels = [("", train, test), (", flipped", 1 - train, 1 - test)]
    for flip, a, b in pixels:
        rows = {
            "10 epochs, batch 100, lr .05": BernoulliRBM(**base, **SHORT),
            "50 epochs, batch 100, lr .01": BernoulliRBM(**base, **LONG),
            "50 epochs, batch 100, lr .01, not centred": BernoulliRBM(
                **base, **LONG, centering=False
            ),
            "defaults": BernoulliRBM(**base),
            "defaults, not averaged": BernoulliRBM(**base, average=False),
            "scikit-learn, 10 epochs, batch 100, lr .05": SklearnRBM(**base, **SHORT),
            "scikit-learn, defaults": SklearnRBM(**base),
        }
        for name, model in rows.items():
            if args.only in name + flip:
                run(name + flip, model, a, b)
    if args.only in "defaults, float64":
        run(
            "defaults, float64",
            BernoulliRBM(**base),
            train.astype(float),
            test.astype(float),
        )


if __name__ == "__main__":
    main()
