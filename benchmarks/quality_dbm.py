"""What deep Boltzmann machines reach on MNIST, beside the published figures.

    python benchmarks/quality_dbm.py --mnist mnist_sm2008.npz --gray mnist.npz
        [--only NAME] [--resume FILE] [--epochs N] [--pretraining N] [--rows N]
        [--betas N]

Likelihood: 500-1000 hidden units, the binarisation of Salakhutdinov & Murray (2008):
arrays X_train, X_valid (both trained on, 60 000 rows) and X_test of zeros and ones, and
y_test for the inpainting. Published: a bound of -84.6 nats. Printed is the variational
bound with log Z by annealed importance sampling: forward (too high if it misses modes)
and reverse (too low if its starts are typical samples). "redrawn" learns what every
epoch draws anew from the grey values of --gray, the others the binary images that there
are; the test images are the same. "centred" and "uncentred" have no pretraining.
Without --mnist the images come from OpenML and every pixel is drawn once with its grey
value as probability: another binarisation, and numbers that are not comparable.

Classification: grey values as probabilities (X / 255) of --gray. Published 0.95 % test
error, with dropout 0.79 %.

Inpainting: the machine of "likelihood" completes the lower halves of 1 000 binarised
test images; a net trained on whole real images (--gray, each pixel drawn with its grey
value as probability) reads whole images, completed ones, and ones without lower halves.

--resume FILE keeps there what every run has arrived at, every --every epochs, and goes
on from what it finds. Learning rates fall epoch by epoch. The settings are printed with
the results.
"""

import argparse
import os
import time

import joblib
import numpy as np
from sklearn.base import clone

from data import load_mnist
from sklearn_ebm import DBMClassifier, DBMTransformer, DBNClassifier
from sklearn_ebm.likelihood import log_partition

SIZES = (500, 1000)
DENSITY = {
    "batch_size": 100,
    "n_gibbs_steps": 5,
    "learning_rate": 0.02,
    "pretrain_learning_rate": 0.05,
    "random_state": 0,
}
LONG = {"pretrain_n_iter": 50, "weight_decay": 2e-4, "mean_field_tol": 1e-2}
# Without pretraining, and too short for chains to tell the rest.
SHORT = DENSITY | {"pretrain_n_iter": 0, "n_gibbs_steps": 1}
CLASSES = {
    "pretrain_batch_size": 20,
    "pretrain_greedy_n_iter": 25,
    "pretrain_n_iter": 15,
    "solver": "adam",
    "learning_rate": 0.001,
    "batch_size": 100,
    "random_state": 0,
}
DROPOUT = {"dropout": 0.3, "input_dropout": 0.1}
# Of every run: settings and epochs.
DENSITIES = {
    "likelihood": (DENSITY | LONG, 300),
    "redrawn": (DENSITY | LONG, 300),
    "centred": (SHORT, 10),
    "uncentred": (SHORT | {"centering": False}, 10),
}
CLASSIFIERS = {
    "fine-tuned": (CLASSES, 20),
    "fine-tuned, dropout": (CLASSES | DROPOUT, 40),
    "multi-prediction": (
        {
            "objective": "multi_prediction",
            "n_mean_field_steps": 8,
            "solver": "sgd",
            "learning_rate": 0.1,
            "batch_size": 100,
            "random_state": 0,
        },
        30,
    ),
}
NAMES = [*DENSITIES, *CLASSIFIERS, "inpainting"]


def load_bits(path):
    """Training and test images of zeros and ones, and the labels of the latter."""
    if path is None:
        X, _, X_test, y_test = load_mnist(labels=True)
        rng = np.random.default_rng(0)
        bits = (rng.random(each.shape) < each / 255 for each in (X, X_test))
        return *bits, y_test
    with np.load(path) as data:
        train = [data[name] for name in ("X_train", "X_valid") if name in data]
        return np.concatenate(train), data["X_test"], data.get("y_test")


class Checkpoints:
    """What every run has arrived at, in a file if there is one."""

    def __init__(self, path):
        self.path = path
        self.runs = joblib.load(path) if path and os.path.exists(path) else {}

    def keep(self, name, model, seconds):
        """Write what a run has arrived at."""
        self.runs[name] = {"model": model, "seconds": seconds}
        if self.path:
            joblib.dump(self.runs, self.path + ".new")
            os.replace(self.path + ".new", self.path)


def with_state(model, **params):
    """Return a copy that goes on when it is fitted again."""
    twin = clone(model).set_params(warm_start=True, **params)
    own = model.get_params()
    twin.__dict__ |= {key: x for key, x in vars(model).items() if key not in own}
    return twin


def train(name, model, draw, n_epochs, args, checkpoints):
    """Train on draw(epoch), with a rate that falls linearly over all epochs."""
    rate = model.learning_rate
    if name not in checkpoints.runs:
        begin = time.perf_counter()
        model.set_params(n_iter=0).fit(*draw(0))
        seconds = time.perf_counter() - begin
        print(f"{name}: begun in {seconds / 60:.1f} minutes", flush=True)
        checkpoints.keep(name, model, seconds)
    run = checkpoints.runs[name]
    model, seconds = run["model"], run["seconds"]
    while model.n_iter_ < n_epochs:
        model = with_state(model, n_iter=1, learning_rate_schedule="constant")
        begin = time.perf_counter()
        for _ in range(min(args.every, n_epochs - model.n_iter_)):
            left = 1 - model.n_iter_ / n_epochs
            model.set_params(learning_rate=rate * left).fit(*draw(model.n_iter_ + 1))
        seconds += time.perf_counter() - begin
        checkpoints.keep(name, model, seconds)
        last = model.history_["seconds"][-1]
        print(f"{name}: epoch {model.n_iter_}, {last:.1f} s an epoch", flush=True)
    return model, seconds


def density(name, args, checkpoints):
    """Train a machine, or take the one there is."""
    settings, n_epochs = DENSITIES[name]
    train_images, test, _ = load_bits(args.mnist)
    train_images = train_images[: args.rows]
    if name == "redrawn":
        probability = load_mnist(args.gray)[0][: args.rows] / np.float32(255)

        def draw(epoch):
            rng = np.random.default_rng([0, epoch])
            return (rng.random(probability.shape, np.float32) < probability,)

    else:

        def draw(epoch):
            return (train_images,)

    model = DBMTransformer(SIZES, **settings)
    n_epochs = args.epochs or n_epochs
    model, seconds = train(name, model, draw, n_epochs, args, checkpoints)
    return model, seconds, train_images, test, settings


def report_bound(name, args, checkpoints):
    """Print both estimates of the bound for the test images."""
    model, seconds, train_images, test, settings = density(name, args, checkpoints)
    z = log_partition(model, "ais", betas=args.betas, random_state=0)
    bounds = [model._deep(np.float32).bound(X).mean() for X in (test, train_images)]
    print(
        f"{SIZES} {model.n_iter_} epochs {settings}\n{name:20s} test bound "
        f"{bounds[0] - z.forward:8.2f} (forward, s.e. {z.standard_error:.2f}) "
        f"{bounds[0] - z.reverse:8.2f} (reverse, {z.reverse_standard_error:.2f})   "
        f"train {bounds[1] - z.forward:8.2f}   {seconds / 60:5.1f} minutes",
        flush=True,
    )


def report_error(name, args, checkpoints):
    """Train a classifier on grey images, and print its test error."""
    settings, n_epochs = CLASSIFIERS[name]
    X, y, X_test, y_test = load_mnist(args.gray, labels=True)
    X, X_test = ((grey / 255).astype(np.float32) for grey in (X, X_test))
    model = DBMClassifier(SIZES, **settings)
    if args.pretraining is not None:
        n_iter = args.pretraining
        model.set_params(pretrain_n_iter=n_iter, pretrain_greedy_n_iter=n_iter)
    data = X[: args.rows], y[: args.rows].astype(int)
    n_epochs = args.epochs or n_epochs
    model, seconds = train(name, model, lambda epoch: data, n_epochs, args, checkpoints)
    error = 100 * (1 - model.score(X_test, y_test.astype(int)))
    print(f"{SIZES} {n_epochs} epochs {settings}")
    print(f"{name:20s} error {error:5.2f} %   {seconds / 60:5.1f} minutes", flush=True)


def inpaint(args, checkpoints):
    """Complete lower halves, and print how many a judge of real digits reads right."""
    model, *_ = density("likelihood", args, checkpoints)
    _, test, y_test = load_bits(args.mnist)
    if y_test is None:
        raise SystemExit(f"{args.mnist} has no labels y_test, which inpainting needs")
    X, y, *_ = load_mnist(args.gray, labels=True)
    X, y = X[: args.rows], y[: args.rows].astype(int)
    bits = np.random.default_rng(0).random(X.shape) < X / 255
    judge = DBNClassifier(
        (500,),
        pretrain=False,
        solver="sgd",
        dropout=0.5,
        batch_size=100,
        n_iter=20,
        random_state=0,
    ).fit(bits, y)
    test, y_test = test[:1000], y_test[:1000].astype(int)
    lower = np.arange(784) >= 392
    test = test.astype(np.float32)
    answers = {"whole": test, "empty": np.where(lower, 0, test)}
    for method in ("sample", "mean"):
        answers[method] = model.impute(
            test, mask=lower, method=method, n_gibbs_steps=1000, random_state=0
        )
    for name, digits in answers.items():
        share = 100 * judge.score(digits, y_test)
        print(f"lower half {name:8s} read right {share:5.1f} %", flush=True)


def main():
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", help="a .npz file of binary images")
    parser.add_argument("--gray", help="a .npz file of grey images with labels")
    parser.add_argument("--only", choices=NAMES, help="one of the runs")
    parser.add_argument("--resume", help="file of checkpoints to write and go on from")
    parser.add_argument("--epochs", type=int, help="another number of epochs")
    parser.add_argument("--pretraining", type=int, help="the same of the classifiers'")
    parser.add_argument("--rows", type=int, help="only so many rows to train on")
    parser.add_argument("--every", type=int, default=10, help="epochs a checkpoint")
    parser.add_argument("--betas", type=int, default=20_000, help="temperatures")
    args = parser.parse_args()
    checkpoints = Checkpoints(args.resume)
    for name in NAMES:
        if args.only not in (None, name):
            continue
        if name in DENSITIES:
            report_bound(name, args, checkpoints)
        elif name in CLASSIFIERS:
            report_error(name, args, checkpoints)
        else:
            inpaint(args, checkpoints)


if __name__ == "__main__":
    main()
