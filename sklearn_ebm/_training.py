"""Epochs of a fit: order of the rows, learning rates, time, and Ctrl-C.

The kernel owns minibatches; this module decides what each epoch feeds it and
calls it in pieces short enough that an interrupt is heard at once.
"""

import time

import numpy as np

# Longest stay in a kernel between two chances to be interrupted, in seconds.
PATIENCE = 0.1


def in_pieces(run, n):
    """Call ``run(start, stop)`` over ``range(n)`` in pieces of about PATIENCE.

    Python hears Ctrl-C between two pieces. How the work is cut depends on the
    clock and must not change what `run` does.
    """
    start, size = 0, 1
    while start < n:
        stop = min(n, start + size)
        begin = time.perf_counter()
        run(start, stop)
        seconds = time.perf_counter() - begin
        if seconds < PATIENCE / 2:
            size *= 2
        elif seconds > PATIENCE:
            size = max(1, int(size * PATIENCE / seconds))
        start = stop


def minibatch_rates(learning_rate, schedule, epoch, n_epochs, n_batches):
    """Learning rate of every minibatch of an epoch.

    "constant", or "linear": falling from `learning_rate` at the first minibatch
    to nothing after the last one of `n_epochs`.
    """
    if schedule == "constant":
        return np.full(n_batches, float(learning_rate))
    done = (epoch * n_batches + np.arange(n_batches)) / (n_epochs * n_batches)
    return learning_rate * (1.0 - done)


def epoch_order(n_rows, key, epoch):
    """Rows in the order in which an epoch shows them."""
    return np.random.default_rng([key, epoch]).permutation(n_rows)


def train_epoch(trainer, order, rates):
    """Show a trainer all rows once; returns the seconds it took."""
    begin = time.perf_counter()
    in_pieces(
        lambda start, stop: trainer.run(order, rates, start, stop),
        len(rates) * trainer.n_passes,
    )
    return time.perf_counter() - begin
