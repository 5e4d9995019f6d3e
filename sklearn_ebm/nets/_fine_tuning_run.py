"""The epochs of a fine-tuning: which rows it takes, its steps, its early stop."""

import time

import numpy as np

from .._descent import minimise
from .._keeping import check_finite, until_checked
from .._openmp import effective_n_threads
from .._pacer import Pacer
from .._stopping import NoStopping
from .._training import epoch_order


class FineTuning:
    """The fine-tuning of one call of `fit` or `partial_fit`.

    Parameters
    ----------
    descent : Descent
        The net, its optimiser and all rows.

    division : KnownDivision
        Which of them it trains on.

    key : int
        Determines, with the number of the step, their order in an epoch.

    stopping : Stopping or None, default=None
        What chooses the best epoch by what rows held out say.

    validate : callable or None, default=None
        Returns that, given the parameters.
    """

    def __init__(self, descent, division, key, stopping=None, validate=None):
        self.descent, self.division, self.key = descent, division, key
        self.stopping, self.validate = stopping or NoStopping(), validate
        self.params = descent.params
        self.n_batches = -(-len(division.training) // descent.batch_size)
        self.pacer = Pacer(effective_n_threads())

    def epoch(self, rates):
        """Train on every row once; returns what to enter in the history."""
        order = epoch_order(self.division.training, self.key, self.descent.step)
        begin = time.perf_counter()
        with until_checked():
            loss = self.descent.epoch(order, rates, self.pacer)
        seconds = time.perf_counter() - begin
        # (The loss is from before the last step.)
        finite = all(np.isfinite(each).all() for each in self.params)
        check_finite(loss if finite else np.nan, rates[0])
        return {"learning_rate": float(rates[0]), "seconds": seconds, "loss": loss}

    def minimise(self, n_iter, tol, ended):
        """Train by L-BFGS."""
        descent, begin = self.descent, time.perf_counter()

        def after(loss):
            nonlocal begin
            seconds = time.perf_counter() - begin
            stop = ended({"seconds": seconds, "loss": loss})
            begin = time.perf_counter()
            return stop

        minimise(
            descent.network,
            self.params,
            descent.X,
            descent.targets,
            self.division.training,
            n_iter,
            tol,
            after,
        )

    def measure(self):
        """Return what the rows held out say."""
        return self.validate(self.params) if self.validate else {}

    def see(self, entry, n_iter):
        """Take note of what has been entered as epoch n_iter."""
        if self.validate:
            self.stopping.see(entry, n_iter, [p.copy() for p in self.params])

    def state(self):
        """Return what another run needs to go on."""
        optimiser, offsets = self.descent.optimiser, self.descent.offsets
        # (What another optimiser remembers is out of date.)
        memory = {"adam": None, "velocity": None}
        if optimiser:
            memory[optimiser.memory] = optimiser.state()
        state = {
            "params": [p.copy() for p in self.params],
            "step": int(self.descent.step),
            **memory,
        }
        return state | ({"offsets": [mean[0] for mean in offsets]} if offsets else {})
