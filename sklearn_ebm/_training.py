"""Epochs of a fit: which rows and in what order, learning rates, what is measured.

The kernel owns minibatches; this module decides what each epoch feeds it.
"""

import math
import time

import numpy as np

from ._callbacks import is_watched
from ._keeping import check_finite, until_checked
from ._pacer import Pacer
from ._rows import Rows
from ._stopping import NoStopping

# Parameters of at least so many minibatches of an epoch are averaged, where there are
# as many: more of them, nearly the same as these, would cost time and change nothing.
LEAST_AVERAGED = 100
# Held-out rows that are copied at a time, to subtract them from the means.
CHUNK = 1000
# Schedules of the learning rate: what it is multiplied by at a minibatch, given the
# share of the training that is done by then. An entry is all that a new one needs (but
# for its name in docstrings): every estimator checks its parameter against these names.
SCHEDULES = {"constant": np.ones_like, "linear": lambda done: 1.0 - done}
# What `Run.epoch` enters in the history of any machine.
ENTRIES = "learning_rate", "seconds", "weight_norm"


def refuse_early_stopping(estimator):
    """Refuse to stop early in `partial_fit`, which is one pass over its rows."""
    if estimator.early_stopping:
        raise ValueError("partial_fit does not support early_stopping=True.")


def share_held_out(estimator):
    """Return the share of the rows that early stopping holds out."""
    return estimator.validation_fraction if estimator.early_stopping else 0


def rows_to_hold_out(rows, fraction, key, name, classes=None):
    """Draw the rows to hold out: a share of the rows with these numbers.

    The key determines which, and their random order. With the class of every row, it
    is this share of each class, as nearly as can be, in the order of the classes.
    `name` is what an error calls these rows, if none would be left to train on.
    """
    n_held_out = math.ceil(fraction * len(rows))
    if n_held_out == 0:
        return rows[:0]
    if n_held_out == len(rows):
        raise ValueError(
            f"validation_fraction={fraction} leaves nothing to train on of the {name}."
        )
    rng = np.random.default_rng([key, 0, 2])
    if classes is None:
        return rng.permutation(rows)[:n_held_out]
    order = rng.permutation(len(rows))
    order = order[np.argsort(classes[order], kind="stable")]
    # (The only row of a class is to be learned from.)
    several = np.bincount(classes)[classes[order]] > 1
    if several.sum() >= n_held_out:
        order = order[several]
    # Evenly spaced in this order, so that every class has its share.
    places = (np.arange(n_held_out) + rng.random()) * (len(order) / n_held_out)
    return rows[order[places.astype(int)]]


def means_without(X, rows, held_out):
    """Means of the columns of X (and its Rows) over the rows that are not held out."""
    if len(held_out) == 0:
        return rows.column_means
    total = rows.n_rows * rows.column_means
    for start in range(0, len(held_out), CHUNK):
        chunk = Rows(X[np.sort(held_out[start : start + CHUNK])], rows.dtype)
        total -= chunk.n_rows * chunk.column_means
    return total / (rows.n_rows - len(held_out))


def mean_with(mean, n_seen, more, n_more):
    """Mean of n_seen rows and n_more others, given those of both; their number."""
    n = n_seen + n_more
    return mean + (more - mean) * (n_more / n), n


class Division:
    """Rows to train on, and rows held out of the training, of which none is copied.

    Parameters
    ----------
    X, rows : ndarray or CSR matrix, and its Rows
        All rows.

    fraction : float
        Share of the rows that is held out: a permutation says which.

    key : int
        Determines the permutation, so that training that goes on with the same
        data never sees what was held out before.

    Attributes
    ----------
    training : int or ndarray
        Numbers of the rows to train on, or how many there are if these are all.

    n_rows : int
        Number of rows to train on.

    column_means : ndarray
        Means of the columns over the rows to train on.

    held_out : ndarray
        Numbers of the other rows, in random order.
    """

    def __init__(self, X, rows, fraction, key):
        numbers, name = np.arange(rows.n_rows), f"n_samples={rows.n_rows} rows"
        self.held_out = rows_to_hold_out(numbers, fraction, key, name)
        self.n_rows = rows.n_rows - len(self.held_out)
        self.training = rows.n_rows
        if len(self.held_out):
            self.training = np.delete(numbers, self.held_out)
        self.column_means = means_without(X, rows, self.held_out)


class KnownDivision:
    """Rows to train on, and rows held out of those whose target is known.

    Parameters
    ----------
    known : ndarray of bool of shape (n_samples,)
        Of which rows it is.

    fraction, key : float, int
        As for `Division`; the share is one of the rows of known targets.

    what : str
        What the error calls targets, if none would be left to train on.

    others : bool
        Whether rows without a target are trained on, too.

    classes : ndarray of shape (n_samples,) or None, default=None
        Numbers that targets are, each of which is held out in its share.

    Attributes
    ----------
    training, held_out : ndarray
        Numbers of the rows, sorted.

    n_rows, n_known : int
        Number of rows to train on, and of those whose target is known.
    """

    def __init__(self, known, fraction, key, what, others, classes=None):
        rows = np.flatnonzero(known)
        name = f"{len(rows)} {what} of n_samples={len(known)} rows"
        if classes is not None:
            classes = classes[rows]
        self.held_out = np.sort(rows_to_hold_out(rows, fraction, key, name, classes))
        candidates = np.arange(len(known)) if others else rows
        self.training = np.setdiff1d(candidates, self.held_out)
        self.n_rows = len(self.training)
        self.n_known = len(rows) - len(self.held_out)

    def rows_of(self, X):
        """Return the rows of X to train on; a copy only if they are not all."""
        return X if self.n_rows == X.shape[0] else X[self.training]


def epochs_of(n_iter, n_rows, least, most, few_rows=1000):
    """Return n_iter or, if it is None, the number of epochs for so many rows.

    What counts is the number of steps, of which few rows make few an epoch: `most` for
    `few_rows` or fewer, less for more rows, and at least `least`.
    """
    if n_iter is not None:
        return n_iter
    return max(least, min(most, few_rows * most // n_rows))


def minibatch_rates(learning_rate, schedule, epoch, n_epochs, n_batches):
    """Learning rate of every minibatch of an epoch, one of `n_epochs`.

    `schedule` is the name of one of `SCHEDULES`.
    """
    done = (epoch * n_batches + np.arange(n_batches)) / (n_epochs * n_batches)
    return float(learning_rate) * SCHEDULES[schedule](done)


def gibbs_steps(n_gibbs_steps, epoch, n_epochs):
    """Gibbs sweeps for each minibatch of an epoch.

    A number or, with a pair, from its first number in the first of `n_epochs`
    evenly to its second one in the last.
    """
    if not isinstance(n_gibbs_steps, tuple):
        return n_gibbs_steps
    first, last = n_gibbs_steps
    return first + round((last - first) * epoch / max(1, n_epochs - 1))


def epoch_order(rows, key, step):
    """Rows (their numbers, or how many) in the order in which an epoch shows them.

    The epoch is the one that begins with this step of the training.
    """
    return np.random.default_rng([key, step]).permutation(rows)


class Run:
    """The epochs of one call of `fit` or `partial_fit`.

    Parameters
    ----------
    trainer : Trainer
        The kernel that is trained.

    division : Division
        Which rows it trains on.

    monitor : Monitor or None, default=None
        What measures the model after every epoch.

    stopping : Stopping or None, default=None
        What chooses the best epoch by the numbers of the monitor.

    tempered : TemperedChains or None, default=None
        What moves the trainer's chains before each minibatch.
    """

    def __init__(self, trainer, division, monitor=None, stopping=None, tempered=None):
        self.trainer, self.division, self.tempered = trainer, division, tempered
        self.monitor, self.stopping = monitor, stopping or NoStopping()
        self.measured = None  # parameters that the monitor has looked at
        self.pacer = Pacer(trainer.n_threads)
        self.n_batches = -(-division.n_rows // trainer.batch_size)

    def epochs(self, model, n_iter, learning_rate, schedule, task):
        """Yield the epochs of a `fit`, and tell callbacks of each.

        There are fewer than `n_iter` if early stopping or a callback ends them.

        Parameters
        ----------
        model : estimator
            What is fitted. Its `_fitted` gives callbacks its attributes so far.

        n_iter : int
            How many there are at most.

        learning_rate, schedule : float, str
            As for `minibatch_rates`.

        task : Task
            The fit.

        Yields
        ------
        epoch : int
            Its number, from 0.

        rates : ndarray of shape (n_batches,)
            Learning rates of its minibatches.

        averaging : bool
            Whether parameters are averaged over it.
        """
        watched = self.monitor is not None or is_watched(model)
        for epoch in range(n_iter):
            part = task.part("epoch")
            rates = minibatch_rates(
                learning_rate, schedule, epoch, n_iter, self.n_batches
            )
            # Only the last epoch's average is kept, but a watcher may want to see, or
            # to stop at, any epoch.
            yield epoch, rates, model.average and (watched or epoch == n_iter - 1)
            if part.end(lambda: model._fitted(self)) or self.stopping.done:
                return

    def epoch(self, key, rates, averaging):
        """Show the trainer its rows once; returns what to enter in the history."""
        trainer = self.trainer
        order = epoch_order(self.division.training, key, trainer.step)
        if averaging:
            trainer.start_average(max(1, len(rates) // LEAST_AVERAGED))
        begin = time.perf_counter()
        trainer.begin_epoch(order, rates)
        kernel = trainer.run if self.tempered is None else self._tempered_run
        self.pacer.run(kernel, len(rates) * trainer.sweeps_per_batch)
        with until_checked():
            norm = trainer.weight_norm()
        # (With `l1_decay` or `max_norm`, weights may be finite where biases are not.)
        finite = all(np.isfinite(each).all() for each in trainer.parameters())
        check_finite(norm if finite else np.nan, rates[0])
        entry = {
            "learning_rate": float(rates[0]),
            "seconds": time.perf_counter() - begin,
            "weight_norm": norm,
            **trainer.found(),
        }
        if self.tempered is not None:
            entry |= self.tempered.report()
        if self.monitor is not None:
            self.measured = trainer.averages()
            entry |= self.monitor.measure(self.measured)
        return entry

    def _tempered_run(self, start, stop, n_threads):
        """Do sweeps start..stop of the epoch like `Trainer.run`."""
        for sweep in range(start, stop):
            if sweep % self.trainer.sweeps_per_batch == 0:
                self.tempered.advance(self.trainer)
            self.trainer.run(sweep, sweep + 1, n_threads)

    def parameters(self):
        """Return the parameters that are the fitted ones."""
        best = self.stopping.best
        return self.trainer.averages() if best is None else best["parameters"]
