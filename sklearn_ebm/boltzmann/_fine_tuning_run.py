"""The epochs of a fine-tuning: which rows it takes, its steps, its early stop."""

import time

import numpy as np

from .._keeping import check_finite, until_checked
from .._machines import some_rows
from .._network import Adam, Descent, Momentum, minimise, outputs
from .._openmp import effective_n_threads
from .._pacer import Pacer
from .._stopping import NoStopping, Stopping
from .._training import epoch_order


class FineTuning:
    """The fine-tuning of one call of `fit` or `partial_fit`."""

    def __init__(self, model, X, targets, division):
        state = model._state
        self.model, self.key, self.division = model, state["key"], division
        self.params = params = [p.copy() for p in state["params"]]
        # The name in the state of what the optimiser remembers, if it does.
        self.memory = {"adam": "moments", "sgd": "velocity"}.get(model._solver)
        self.offsets = {}
        if model._centred:
            offsets = state.get("offsets")
            if offsets is None:
                offsets = model._offsets(X[some_rows(division.training)])
            self.offsets = {"offsets": offsets}
        if model._solver == "adam":
            optimiser = Adam(params, state.get("moments"))
        else:
            optimiser = Momentum(
                params, model.momentum, model.nesterov, state.get("velocity")
            )
        self.descent = Descent(
            model._network(state, model.weight_decay),
            optimiser,
            params,
            X,
            targets,
            model._dropout(state),
            model.batch_size,
            model.max_norm,
            state["step"],
            **self.offsets,
        )
        self.n_batches = -(-len(division.training) // model.batch_size)
        self.pacer = Pacer(effective_n_threads())
        self.stopping = NoStopping()
        if model.early_stopping:
            self.stopping = Stopping(model._watched, model.tol, model.n_iter_no_change)
            self.held_out = X[division.held_out], targets[division.held_out]

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
        if not self.model.early_stopping:
            return {}
        X, targets = self.held_out
        network = self.model._network(self.model._state)
        return self.model._validation(outputs(network, self.params, X), targets)

    def see(self, entry, n_iter):
        """Take note of what has been entered as epoch n_iter."""
        if self.model.early_stopping:
            self.stopping.see(entry, n_iter, [p.copy() for p in self.params])

    def state(self):
        """Return what another run needs to go on."""
        # (What another optimiser remembers is out of date.)
        memory = {"moments": None, "velocity": None}
        if self.memory:
            memory[self.memory] = self.descent.optimiser.state()
        return {
            "params": [p.copy() for p in self.params],
            "step": int(self.descent.step),
            **memory,
            **self.offsets,
        }
