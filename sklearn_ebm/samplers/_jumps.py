"""Starts of chains near rows of the training, jumps to such places, and log Z."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from .._gibbs import Purpose
from .._machines import CHUNK, Machine, unit_normalisers
from .._products import product
from .._units import Wanted, evaluate
from .._validation import dense
from ..units import as_unit
from ._models import layers_of, row_fields


def jumps_of(model):
    """Return what lets chains of a model jump; None if its training kept no rows."""
    fields, of_rows = row_fields(model)
    if fields is None:
        return None
    layers = layers_of(model)
    # (Parameters that were set by hand may be for other units than these fields.)
    fits = fields.shape[1] == len(layers.biases[1])
    return Jumps(layers, fields, of_rows) if fits else None


class Jumps:
    """Hidden states near rows that a machine was trained on.

    They are drawn from ``q(h)``, the mean over the rows of ``p(h | row)``. Chains may
    start there; and jump there by the rule of Metropolis and Hastings, which leaves the
    distribution of the model as it is, whatever the rows. (Chains do the same in
    training: `_jumps.pyx` has the equations.)

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
        self.visible = as_unit(layers.units[0])
        self.fields = np.asarray(fields, machine.dtype)
        self.transposed = np.ascontiguousarray(self.fields.T)
        log_partitions = evaluate(self.up.units, self.fields, Wanted.LOG_PARTITIONS)
        self.log_partitions = log_partitions.astype(machine.dtype)

    def start(self, n_chains, key, step):
        """Draw visible units near rows, at a step of a random sequence."""
        rows = self._row_at(self._numbers(n_chains, key, step)[0], self.starts)
        near = []
        for part in parts(n_chains):
            counter = key, step, part.start
            fields = self.down.fields(self._propose(rows[part], *counter))
            near.append(self._draw(fields, *counter))
        return np.vstack(near)

    def jump(self, visible, key, step, given=None):
        """Propose another place to every chain; return where they are then.

        With what `given` returned of the chains, some of their units keep their values,
        and the jumps are those of the model given these.
        """
        visible = np.array(dense(visible))
        where, chances = self._numbers(len(visible), key, step)
        for number, part in enumerate(parts(len(visible))):
            counter, kept, values = (key, step, part.start), None, None
            if given is None:
                rows = self._row_at(where[part], self.numbers)
            else:
                kept = given[number]
                values = np.where(kept.fixed, visible[part], 0)
                rows = (kept.cumulated <= where[part, np.newaxis]).sum(axis=1)
            purpose = Purpose.DRAW_HIDDEN
            hidden = self.up.draw(visible[part], key, step, purpose, part.start)
            proposed = self._propose(rows, *counter)
            fields = self.down.fields(proposed)
            # (Where numbers overflow the gain is NaN, and the chain stays.)
            with np.errstate(over="ignore", invalid="ignore"):
                gain = self._log_weight(proposed, fields, kept, values)
                gain -= self._log_weight(hidden, self.down.fields(hidden), kept, values)
            goes = (np.log(chances[part]) < gain)[:, np.newaxis]
            if kept is not None:
                goes = goes & ~kept.fixed
            np.copyto(visible[part], self._draw(fields, *counter), "unsafe", where=goes)
        return visible

    def given(self, visible, fixed):
        """Return what `jump` needs of chains of which some units keep their values.

        Few rows may go with these values. So half of the proposals are near rows that
        are drawn by how likely they make them.

        Parameters
        ----------
        visible : ndarray of shape (n_chains, n_features)
            The chains.

        fixed : ndarray of bool of shape (n_chains, n_features) or None
            The units; None means none.

        Returns
        -------
        given : list of Given or None
            For every one of the `parts` of the chains.
        """
        if fixed is None:
            return None
        fields = self.down.fields(self.up.means_at(self.fields))
        starts, normalisers = unit_normalisers(self.visible, fields)
        fields = np.ascontiguousarray(fields.T)
        given = []
        for part in parts(len(visible)):
            values = dense(np.where(fixed[part], visible[part], 0), fields.dtype)
            units = np.logical_or.reduceat(fixed[part], starts, axis=1)
            with np.errstate(over="ignore", invalid="ignore"):
                scores = product(values, fields).astype(float)
                scores -= product(dense(units, float), normalisers)
                likely = np.exp(scores - _log_sum(scores)[:, np.newaxis])
            shares = likely / 2 + 0.5 / len(self.numbers)
            # (The share up to the last row is 1, but might be rounded to less.)
            cumulated = shares.cumsum(axis=1)[:, :-1]
            dtype = self.fields.dtype
            given.append(Given(fixed[part], np.log(shares).astype(dtype), cumulated))
        return given

    def log_partition(self, n_draws, key):
        """Estimate log Z by the mean weight p(h) / q(h) of states drawn near rows.

        The estimate of Z is without bias, whatever the rows. It is nearly exact if
        there are rows in all modes and these are narrow, and otherwise far too low, as
        a rule. Returns it and the effective number of draws: if a single one has most
        of the weight, it may also be too high.
        """
        rows = self._row_at(self._numbers(n_draws, key, 0)[0], self.numbers)
        log_weights = []
        for part in parts(n_draws):
            hidden = self._propose(rows[part], key, 0, part.start)
            with np.errstate(over="ignore", invalid="ignore"):
                log_weights.append(self._log_weight(hidden, self.down.fields(hidden)))
        log_weights = np.concatenate(log_weights)
        total = logsumexp(log_weights)
        log_z = float(total + np.log(len(self.numbers) / n_draws))
        return log_z, float(np.exp(2 * total - logsumexp(2 * log_weights)))

    @staticmethod
    def _numbers(n_chains, key, step):
        """Return a number in [0, 1) and one in (0, 1] for every chain."""
        where, chances = np.random.default_rng([key, step]).random((n_chains, 2)).T
        return where, 1 - chances

    @staticmethod
    def _row_at(where, rows):
        """One of these rows for every chain, by its number in [0, 1)."""
        return rows[(where * len(rows)).astype(int)]

    def _propose(self, rows, key, step, first):
        """Draw hidden states near rows for chains from the first one on."""
        fields = self.fields[rows]
        return self.up.draw_at(fields, key, step, Purpose.DRAW_JUMP, first)

    def _draw(self, fields, key, step, first):
        """Draw visible units with these fields."""
        return self.down.draw_at(fields, key, step, Purpose.DRAW_VISIBLE, first)

    def _log_weight(self, hidden, fields, given=None, values=None):
        """Return ``log p(h) / q(h)`` and a constant that all states of a chain share.

        `fields` are those of the visible units; `values` are 0 of those that are not
        given. Without anything given the constant is log Z, less log of the number of
        rows.
        """
        scores = product(hidden, self.transposed) - self.log_partitions
        linear = np.einsum("ij,j->i", hidden, self.up.bias, dtype=float)
        if given is not None:
            scores += given.log_shares
            linear += np.einsum("ij,ij->i", values, fields, dtype=float)
            # (What is given is no longer summed over: it adds the same to all states.)
            fields = np.where(given.fixed, fields.dtype.type(0), fields)
        normaliser = evaluate(self.down.units, fields, Wanted.LOG_PARTITIONS)
        return linear + normaliser - _log_sum(scores)


class Given(NamedTuple):
    """What is given to some chains: units that keep their values."""

    fixed: np.ndarray
    """Which units they are, of shape (n_chains, n_features)."""

    log_shares: np.ndarray
    """Logarithms of the shares of proposals near each row: (n_chains, n_rows)."""

    cumulated: np.ndarray
    """Shares of the proposals near the rows up to each but the last."""


def _log_sum(logs):
    """Return ``logsumexp(logs, axis=1)``, which takes several times as long."""
    most = logs.max(axis=1)
    total = np.exp(logs - most[:, np.newaxis]).sum(axis=1, dtype=float)
    return most + np.log(total)


def parts(n_chains):
    """Slices of chains for which there is room at a time."""
    return [slice(k, min(k + CHUNK, n_chains)) for k in range(0, n_chains, CHUNK)]
