"""Speed of RBMClassifier beside a plain NumPy implementation.

    python benchmarks/bench_classifier.py [--mnist mnist.npz] [--quick]

The NumPy code does the same steps on whole minibatches, vectorised and in float32:
products by BLAS, and elementwise work on an array (rows, classes, hidden units). Both
train on the same images in the same order, in one process, their runs alternating;
figures are medians of the microseconds a minibatch takes, and ratios are of runs next
to each other. Threads are set with threadpoolctl for both. Without --mnist the images
are random numbers of which 19 % are not zero, as in MNIST. Last, milliseconds that the
probabilities of 1 000 rows take, beside scikit-learn's MLPClassifier of the same size,
which sums over hidden units once and not once a class; of random numbers and labels.
"""

import argparse
import warnings
from statistics import median

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from data import rows_to_classify
from sklearn_ebm import RBMClassifier
from sklearn_ebm._simd import instruction_set
from timing import seconds

RATE, ALPHA = 0.05, 0.01
# Epochs of a fit: the training loop finds out whether a second thread pays.
N_EPOCHS = 5


class NumpyClassifier:
    """The same training in NumPy: W (n_visible, n_hidden), U (n_classes, n_hidden)."""

    def __init__(self, n_visible, n_hidden, n_classes, batch_size, alpha):
        self.rng = np.random.default_rng(0)
        self.W = 0.01 * self.rng.standard_normal((n_visible, n_hidden), np.float32)
        self.U = 0.01 * self.rng.standard_normal((n_classes, n_hidden), np.float32)
        self.b = np.zeros(n_visible, np.float32)
        self.c = np.zeros(n_hidden, np.float32)
        self.d = np.zeros(n_classes, np.float32)
        self.batch_size, self.alpha = batch_size, np.float32(alpha)

    def epoch(self, X, y):
        """Take a step on every minibatch."""
        for start in range(0, len(X), self.batch_size):
            rows = slice(start, start + self.batch_size)
            self.step(X[rows], y[rows])

    def step(self, v, y):
        """Take a step on a minibatch."""
        rate = np.float32(RATE / len(v))
        under = (v @ self.W + self.c)[:, np.newaxis] + self.U
        small = np.exp(-np.abs(under))
        log_p = self.d + (np.maximum(under, 0) + np.log1p(small)).sum(axis=2)
        p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        means = np.where(under > 0, np.float32(1), small) / (1 + small)
        weight = -p
        weight[np.arange(len(y)), y] += 1
        if self.alpha:
            weight[np.arange(len(y)), y] += self.alpha
        of_class = weight[:, :, np.newaxis] * means
        of_row = of_class.sum(axis=1)
        dW, dU = v.T @ of_row, of_class.sum(axis=0)
        dc, dd = of_row.sum(axis=0), weight.sum(axis=0)
        if self.alpha:
            x, z, h = self.chain(means[np.arange(len(y)), y])
            dW -= x.T @ h
            np.subtract.at(dU, z, h)
            dc -= h.sum(axis=0)
            dd -= self.alpha * np.bincount(z, minlength=len(dd)).astype(np.float32)
            self.b += rate * self.alpha * (v.sum(axis=0) - x.sum(axis=0))
        self.W += rate * dW
        self.U += rate * dU
        self.c += rate * dc
        self.d += rate * dd

    def chain(self, means):
        """Visible units and labels after a Gibbs step, and alpha p(h | both)."""
        one, rng = np.float32(1), self.rng
        h = (rng.random(means.shape, np.float32) < means).astype(np.float32)
        on = one / (one + np.exp(-(h @ self.W.T + self.b)))
        x = (rng.random(on.shape, np.float32) < on).astype(np.float32)
        score = h @ self.U.T + self.d
        # The largest of Gumbel variates is a draw from the softmax.
        z = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
        h = one / (one + np.exp(-(x @ self.W + self.c + self.U[z])))
        return x, z, self.alpha * h


def compare(name, X, y, n_hidden, batch_size, alpha, threads, repeats):
    """Print medians of both, and the median ratio."""
    plain = NumpyClassifier(X.shape[1], n_hidden, 10, batch_size, alpha)
    ours = RBMClassifier(
        n_hidden,
        objective="hybrid" if alpha else "discriminative",
        alpha=alpha,
        learning_rate=RATE,
        batch_size=batch_size,
        n_iter=N_EPOCHS,
        momentum=0.0,
        average=False,
        random_state=0,
    )
    times = []
    for _ in range(repeats + 1):
        with threadpool_limits(limits=threads):
            first = seconds(lambda: ours.fit(X, y))
        with threadpool_limits(limits=threads):
            second = seconds(lambda: [plain.epoch(X, y) for _ in range(N_EPOCHS)])
        times.append((first, second))
    times = times[1:]  # the first round warms up
    n_batches = N_EPOCHS * -(-len(X) // batch_size)
    found = [median(column) / n_batches * 1e6 for column in zip(*times, strict=True)]
    ratio = median(b / a for a, b in times)
    print(
        f"{name:38s} {threads:3d} {found[0]:10.1f} {found[1]:10.1f} us   "
        f"ratio {ratio:5.1f}",
        flush=True,
    )


def compare_probabilities(n_visible, n_hidden, n_classes, repeats):
    """Print the times of `predict_proba` on one thread, and the median ratio."""
    X = np.random.default_rng(0).random((1000, n_visible), np.float32)
    y = np.arange(len(X)) % n_classes
    ours = RBMClassifier(n_hidden, n_iter=1, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = MLPClassifier(n_hidden, max_iter=1, random_state=0).fit(X, y)
    with threadpool_limits(limits=1):
        times = [
            [1e3 * seconds(model.predict_proba, X) for model in (ours, theirs)]
            for _ in range(repeats + 1)
        ][1:]
    found = [median(column) for column in zip(*times, strict=True)]
    print(
        f"predict_proba, {f'{n_visible}x{n_hidden}x{n_classes}':23s} {1:3d} "
        f"{found[0]:10.1f} {found[1]:10.1f} ms   "
        f"ratio {median(b / a for a, b in times):5.2f}",
        flush=True,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist", help="a .npz file with X_train, y_train")
    parser.add_argument("--quick", action="store_true", help="less data, fewer runs")
    args = parser.parse_args()
    n_rows, repeats = (2_000, 3) if args.quick else (10_000, 5)
    X, y = rows_to_classify(args.mnist, n_rows)
    print(f"instruction set: {instruction_set()}")
    print(f"{'':38s} thr  sklearn_ebm      NumPy, a minibatch")
    for n_hidden, batch_size, alpha in [
        (500, 100, 0),
        (500, 20, 0),
        (500, 100, ALPHA),
        (1500, 20, ALPHA),
    ]:
        kind = "hybrid" if alpha else "discriminative"
        name = f"784x{n_hidden}x10 batch {batch_size} {kind}"
        for threads in (1, 2):
            compare(name, X, y, n_hidden, batch_size, alpha, threads, repeats)
    for shape in [(64, 256, 2), (64, 256, 10), (64, 256, 100), (784, 500, 100)]:
        compare_probabilities(*shape, repeats)


if __name__ == "__main__":
    main()
