"""Starts of chains near rows of the training, and jumps to other such places."""

import numpy as np
from scipy.special import logsumexp

from .._gibbs import Purpose
from .._machines import Machine
from .._products import product
from .._units import Wanted, evaluate
from .._validation import dense


class Jumps:
    """Hidden states near rows that a machine was trained on.

    They are drawn from ``q(h)``, the mean over the rows of ``p(h | row)``. Chains may
    start there; and jump there by the rule of Metropolis and Hastings, which leaves the
    model as it is, whatever the rows. (The same is done in the training: `_jumps.pyx`
    has the equations.)

    Parameters
    ----------
    layers : Layered
        The model, of two layers.

    fields : ndarray of shape (n_rows, n_hidden)
        Fields of the hidden units given each row.
    """

    def __init__(self, layers, fields):
        machine = Machine(layers)
        self.up, self.down = machine.up, machine.down
        self.fields = np.asarray(fields, machine.dtype)
        self.transposed = np.ascontiguousarray(self.fields.T)
        self.log_partitions = evaluate(
            self.up.units, self.fields, Wanted.LOG_PARTITIONS
        )

    def start(self, n_chains, key, step):
        """Draw visible units near rows, at a step of a random sequence."""
        return self._down(self._propose(n_chains, key, step)[0], key, step)

    def jump(self, visible, key, step):
        """Propose another place to every chain; return where they are then."""
        hidden = self.up.draw(visible, key, step, Purpose.DRAW_HIDDEN)
        proposed, chances = self._propose(len(hidden), key, step)
        with np.errstate(divide="ignore"):
            gain = self._log_weight(proposed) - self._log_weight(hidden)
            goes = np.log(chances) < gain
        moved = np.array(dense(visible))
        moved[goes] = self._down(proposed, key, step)[goes]
        return moved

    def _propose(self, n_chains, key, step):
        """Draw a hidden state near a row for every chain, and a number in [0, 1)."""
        rows, chances = np.random.default_rng([key, step]).random((n_chains, 2)).T
        fields = self.fields[(rows * len(self.fields)).astype(int)]
        return self.up.draw_at(fields, key, step, Purpose.DRAW_JUMP), chances

    def _down(self, hidden, key, step):
        return self.down.draw(hidden, key, step, Purpose.DRAW_VISIBLE)

    def _log_weight(self, hidden):
        """Return ``log p(h) / q(h)``, and a constant."""
        scores = product(hidden, self.transposed) - self.log_partitions
        linear = np.einsum("ij,j->i", hidden, self.up.bias, dtype=float)
        return linear + self.down.log_partition(hidden) - logsumexp(scores, axis=1)
