"""Paths of machines with units of any kind, from independent visible units to a model.

At inverse temperature beta a row v has

    log p(v) = (1 - beta) (a.v - A(v)) + beta (b.v - U(v))
               + log sum_h exp(beta h.(c + W'v) - V(h)) + const,

where a and A belong to the independent units, and b, U, c, V and W to the model.
"""

import numpy as np

from ._gibbs import Purpose
from ._machines import Machine, weighted_sums
from ._products import product
from ._units import Wanted, evaluate
from .units import as_unit, with_gaussian


class UnitPath:
    """Machines from independent units to a model.

    Parameters
    ----------
    layers : Layered
        The model.

    base : tuple of Unit and ndarray
        The independent visible units, of the same kinds, and their biases.
    """

    def __init__(self, layers, base):
        self.visible, self.hidden = (as_unit(unit) for unit in layers.units)
        self.base, self.base_bias = base
        self.machine = Machine(layers)
        self.dtype = self.machine.dtype
        self.bias = np.asarray(layers.biases[0], float)
        n = len(self.bias)
        self.base_units = self.base.kernel(n)
        self.moments = self.visible._gaussian(n), self.base._gaussian(n)
        zeros = np.zeros((1, self.machine.up.units.n_units))
        self.log_z_base = float(
            self.base.log_partition(self.base_bias[np.newaxis])[0]
            + self.hidden.log_partition(zeros)[0]
        )

    def start(self, n_rows, key):
        """Draw independent visible units."""
        fields = np.tile(self.base_bias, (n_rows, 1)).astype(self.dtype)
        return evaluate(self.base_units, fields, Wanted.DRAWS, key=key)

    def log_weights(self, v, fields, beta, new):
        """Logarithm of p(v) at `new` less that at `beta`, without constants.

        `fields` are those of the hidden units given v.
        """
        x = v.astype(np.float64)
        energies = [
            evaluate(units, np.ascontiguousarray(v), Wanted.ENERGIES)
            for units in (self.base_units, self.machine.down.units)
        ]
        base = weighted_sums(x, self.base_bias) - energies[0]
        model = weighted_sums(x, self.bias) - energies[1]
        fields, up = fields.astype(np.float64), self.machine.up.units
        hidden = [evaluate(up, fields * b, Wanted.LOG_PARTITIONS) for b in (beta, new)]
        return (new - beta) * (model - base) + hidden[1] - hidden[0]

    def sweep(self, fields, beta, key, step):
        """Visible units after a sweep at an inverse temperature.

        `fields` are those of the hidden units before it.
        """
        up, down = self.machine.up, self.machine.down
        share = self.dtype.type(beta)
        fields = fields * share
        hidden = up.draw_at(fields, key, step, Purpose.DRAW_HIDDEN)
        units, bias = self._visible_at(beta)
        fields = product(hidden, down.weights) * share + bias
        purpose = int(Purpose.DRAW_VISIBLE)
        return evaluate(units, fields, Wanted.DRAWS, key, step, purpose)

    def _visible_at(self, beta):
        """Visible units at an inverse temperature, and their biases."""
        bias = (1 - beta) * self.base_bias + beta * self.bias
        (mean, variance), (first, spread) = self.moments
        precision = (1 - beta) / spread + beta / variance
        middle = ((1 - beta) * first / spread + beta * mean / variance) / precision
        unit = with_gaussian(self.visible, middle, 1 / precision)
        return unit.kernel(len(bias)), bias.astype(self.dtype)

    def anneal(self, states, betas, key):
        """Take states along the path; the logarithms of their weights, and states."""
        log_weights = np.zeros(len(states))
        for k in range(len(betas) - 1):
            fields = self.machine.up.fields(states)
            log_weights += self.log_weights(states, fields, betas[k], betas[k + 1])
            states = self.sweep(fields, betas[k + 1], key, k + 1)
        return log_weights, states

    def anneal_back(self, states, betas, key):
        """Take samples of the model back; the logarithms of their weights."""
        log_weights = np.zeros(len(states))
        for k in range(len(betas) - 1, 0, -1):
            fields = self.machine.up.fields(states)
            log_weights += self.log_weights(states, fields, betas[k], betas[k - 1])
            if k > 1:
                states = self.sweep(fields, betas[k - 1], key, k)
        return log_weights
