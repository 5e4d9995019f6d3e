"""Machines above others, which learn states of the hidden units below them."""

import numpy as np
from scipy.special import logit

from .._machines import weighted_sums
from .._products import product
from .._training import epochs_of
from .._validation import random_key
from ._sampling import MISSING_KEY
from ._stack import STACK_EPOCHS
from ._starts import BITS_RATE, bits_of, last_chains
from .rbm import RBM

# Rows of states that are drawn at a time: no longer than an interrupt may wait.
CHUNK = 4096
# Learning rate, where none is given, of a machine that begins as the one below turned
# upside down, which is a good model already; and in `partial_fit`, where the one below
# has seen a single pass, and both have to go on learning.
TURNED_RATE, TURNED_RATE_OF_A_PASS = 0.003, 0.01


class DrawnStates:
    """States of bits with given means, drawn again before every epoch.

    They are what the machine above is to be a model of: its bound on the likelihood
    is an average over them. (Means in place of states have the same means and
    covariances, but to the units above they say something else.) The interface is
    that of `DrawnValues`.

    Parameters
    ----------
    key : int
        Random key, used for nothing else.

    number : int
        Of the first draw.
    """

    def __init__(self, key, number=0):
        self.key, self.number = key, number

    def fill(self, means):
        """Return states that take the place of means, and change with `sweep`."""
        self.means, self.states = means, np.empty(means.shape, np.uint8)
        self.sweep()
        return self.states

    def sweep(self, *_):
        """Draw the states again, in place; the model does not matter."""
        rng = np.random.default_rng([self.key, self.number])
        self.number += 1
        for start in range(0, len(self.means), CHUNK):
            means = self.means[start : start + CHUNK]
            numbers = rng.random(means.shape, means.dtype)
            self.states[start : start + CHUNK] = numbers < means

    def missing_in(self, numbers):
        """Return that nothing is missing."""


class UpperRBM(RBM):
    """A machine that is fitted to means of hidden units and learns their states.

    With `below` set to the machine of these hidden units, it begins as that one turned
    upside down. Units that are to spare begin as good as independent of the others.
    """

    below = None

    def _n_epochs(self, X, rows):
        return epochs_of(self.n_iter, rows.n_rows, *STACK_EPOCHS)

    def _schedule(self):
        return self.learning_rate_schedule or "linear"

    def _rate(self):
        return TURNED_RATE if self._turned_by_default else super()._rate()

    def _rate_of_a_pass(self):
        return TURNED_RATE_OF_A_PASS if self._turned_by_default else super()._rate()

    @property
    def _turned_by_default(self):
        return self.learning_rate is None and self.below is not None

    def _check_training(self, X, drawn, goes_on):
        states, rows = super()._check_training(X, drawn, goes_on)
        # Known better than from any draw.
        rows.column_means = X.mean(axis=0, dtype=float)
        return states, rows

    def _drawn_values(self, goes_on):
        if not goes_on:
            return DrawnStates(random_key(self.random_state))
        # No draw twice: a call draws once and once an epoch, of a step or more.
        return DrawnStates(self._state["key"] ^ MISSING_KEY, 2 * self._state["step"])

    def _warn_of_faults(self, X, run, drawn):
        # (A unit that stands for a feature which hardly varies is idle, and may be.)
        if self.below is None:
            super()._warn_of_faults(X, run, drawn)

    def _first_state(self, components, X, dtype, division):
        below = self.below
        if below is None:
            return super()._first_state(components, X, dtype, division)
        turned = below.components_.T
        spare = components[len(turned) :]
        rate = np.full(len(spare), BITS_RATE)
        hidden = logit(rate) - weighted_sums(spare, division.column_means)
        parameters = {
            "components": np.concatenate([turned, spare]),
            "intercept_hidden": np.concatenate([below.intercept_visible_, hidden]),
            "intercept_visible": below.intercept_hidden_ - weighted_sums(spare.T, rate),
            "hidden_offset": np.concatenate([below.visible_mean_, rate]),
        }
        # (The kernels take rows one after the other, of the transposed weights too.)
        return {name: x.astype(dtype, order="C") for name, x in parameters.items()}

    def _first_chains(self, n_chains, key, step):
        states = last_chains(self.below, n_chains)
        if states is None:
            return super()._first_chains(n_chains, key, step)
        # Where the chains of the machine below have come to is where these begin.
        weights = self._state["components"]
        fields = product(states.astype(weights.dtype), weights, b_turned=True)
        return bits_of(fields + self._state["intercept_hidden"], key, step)
