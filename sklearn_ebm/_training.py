"""Epochs of a fit: order of the rows, learning rates, time, and Ctrl-C.

The kernel owns minibatches; this module decides what each epoch feeds it and
calls it in pieces short enough that an interrupt is heard at once.
"""

import time

import numpy as np

# Longest stay in a kernel between two chances to be interrupted, in seconds.
PATIENCE = 0.1
# After so many pieces of that length, a shorter one tries the other number of
# threads; sooner if the last try was a success.
PROBE_EVERY = 12
PROBE_SIZE = 8


class Pacer:
    """Cuts the work of a kernel in pieces and decides how many threads do it.

    Python hears Ctrl-C between two pieces of about PATIENCE seconds. On a busy
    machine a team whose threads wait for each other can be far slower than one
    thread, so both are timed now and then and the faster one goes on. Results
    must not depend on how the work is cut or on the number of threads.

    Parameters
    ----------
    most : int
        Largest number of threads.
    """

    def __init__(self, most=1):
        self.threads, self.other = most, 1
        self.size = 1
        self.until_probe = PROBE_EVERY

    def run(self, kernel, n):
        """Call ``kernel(start, stop, n_threads)`` over ``range(n)`` in pieces."""
        start = 0
        while start < n:
            probe = self.until_probe == 0 and self.threads != self.other
            size = -(-self.size // PROBE_SIZE) if probe else self.size
            stop = min(n, start + size)
            begin = time.perf_counter()
            kernel(start, stop, self.other if probe else self.threads)
            seconds = time.perf_counter() - begin
            pace, start = seconds / (stop - start), stop
            if probe:
                self.until_probe = PROBE_EVERY
                if pace < self.pace:
                    self.threads, self.other = self.other, self.threads
                    self.until_probe = PROBE_EVERY // 4
                continue
            self.pace = pace
            if seconds < PATIENCE / 2:
                self.size *= 2
            else:
                self.until_probe = max(0, self.until_probe - 1)
                if seconds > PATIENCE:
                    self.size = max(1, int(PATIENCE / pace))


def minibatch_rates(learning_rate, schedule, epoch, n_epochs, n_batches):
    """Learning rate of every minibatch of an epoch.

    "constant", or "linear": falling from `learning_rate` at the first minibatch
    to nothing after the last one of `n_epochs`.
    """
    if schedule == "constant":
        return np.full(n_batches, float(learning_rate))
    done = (epoch * n_batches + np.arange(n_batches)) / (n_epochs * n_batches)
    return learning_rate * (1.0 - done)


def gibbs_steps(n_gibbs_steps, epoch, n_epochs):
    """Gibbs sweeps for each minibatch of an epoch.

    A number or, with a pair, from its first number in the first of `n_epochs`
    evenly to its second one in the last.
    """
    if not isinstance(n_gibbs_steps, tuple):
        return n_gibbs_steps
    first, last = n_gibbs_steps
    return first + round((last - first) * epoch / max(1, n_epochs - 1))


def epoch_order(n_rows, key, epoch):
    """Rows in the order in which an epoch shows them."""
    return np.random.default_rng([key, epoch]).permutation(n_rows)


def train_epoch(trainer, order, rates, pacer):
    """Show a trainer all rows once; returns the seconds it took."""
    begin = time.perf_counter()
    trainer.begin_epoch(order, rates)
    pacer.run(trainer.run, len(rates) * trainer.sweeps_per_batch)
    return time.perf_counter() - begin
