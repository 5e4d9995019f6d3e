"""Starts of chains near rows of the training, jumps to such places, and log Z."""

import numpy as np
from scipy.special import logsumexp

from .._gibbs import Purpose
from .._machines import CHUNK, Machine
from .._products import product
from .._units import Wanted, evaluate
from .._validation import dense
from ._paths import layers_of, row_fields


def jumps_of(model):
    """Return what lets chains of a model jump; None if its training kept no rows."""
    fields, of_rows = row_fields(model)
    if fields is None:
        return None
    layers = layers_of(model)
    # (A model that was given other units since has no fields of theirs.)
    fits = fields.shape[1] == len(layers.biases[1])
    return Jumps(layers, fields, of_rows) if fits else None


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

    of_rows : ndarray of bool of shape (n_rows,), default=None
        Near which of them chains may start; None means all.
    """

    def __init__(self, layers, fields, of_rows=None):
        self.numbers = np.arange(len(fields))
        self.starts = self.numbers if of_rows is None else self.numbers[of_rows]
        machine = Machine(layers)
        self.up, self.down = machine.up, machine.down
        self.fields = np.asarray(fields, machine.dtype)
        self.transposed = np.ascontiguousarray(self.fields.T)
        self.log_partitions = evaluate(
            self.up.units, self.fields, Wanted.LOG_PARTITIONS
        )

    def start(self, n_chains, key, step):
        """Draw visible units near rows, at a step of a random sequence."""
        rows, _ = self._choices(n_chains, key, step, self.starts)
        near = []
        for part in parts(n_chains):
            counter = key, step, part.start
            near.append(self._down(self._propose(rows[part], *counter), *counter))
        return np.vstack(near)

    def jump(self, visible, key, step):
        """Propose another place to every chain; return where they are then."""
        visible = np.array(dense(visible))
        rows, chances = self._choices(len(visible), key, step, self.numbers)
        for part in parts(len(visible)):
            counter = key, step, part.start
            hidden = self._up(visible[part], *counter)
            proposed = self._propose(rows[part], *counter)
            gain = self._log_weight(proposed) - self._log_weight(hidden)
            goes = part.start + np.flatnonzero(np.log(chances[part]) < gain)
            visible[goes] = self._down(proposed, *counter)[goes - part.start]
        return visible

    def log_partition(self, n_draws, key):
        """Estimate log Z by the mean weight p(h) / q(h) of states drawn near rows.

        The estimate of Z is without bias, whatever the rows. Where they are in all
        modes, each of which is narrow, nearly exact; else far too low, as a rule.
        Returns it and the effective number of draws: if a single one has most of the
        weight, it may also be too high.
        """
        rows, _ = self._choices(n_draws, key, 0, self.numbers)
        log_weights = [
            self._log_weight(self._propose(rows[part], key, 0, part.start))
            for part in parts(n_draws)
        ]
        log_weights = np.concatenate(log_weights)
        total = logsumexp(log_weights)
        log_z = float(total + np.log(len(self.numbers) / n_draws))
        return log_z, float(np.exp(2 * total - logsumexp(2 * log_weights)))

    @staticmethod
    def _choices(n_chains, key, step, rows):
        """One of these rows for every chain, and a number in (0, 1]."""
        where, chances = np.random.default_rng([key, step]).random((n_chains, 2)).T
        return rows[(where * len(rows)).astype(int)], 1 - chances

    def _propose(self, rows, key, step, first):
        """Draw hidden states near rows for chains from the first one on."""
        fields = self.fields[rows]
        return self.up.draw_at(fields, key, step, Purpose.DRAW_JUMP, first)

    def _up(self, visible, key, step, first):
        return self.up.draw(visible, key, step, Purpose.DRAW_HIDDEN, first)

    def _down(self, hidden, key, step, first):
        return self.down.draw(hidden, key, step, Purpose.DRAW_VISIBLE, first)

    def _log_weight(self, hidden):
        """Return ``log p(h) / q(h)`` without log Z, less log of the number of rows."""
        scores = product(hidden, self.transposed) - self.log_partitions
        linear = np.einsum("ij,j->i", hidden, self.up.bias, dtype=float)
        return linear + self.down.log_partition(hidden) - logsumexp(scores, axis=1)


def parts(n_chains):
    """Slices of chains for which there is room at a time."""
    return [slice(k, min(k + CHUNK, n_chains)) for k in range(0, n_chains, CHUNK)]
