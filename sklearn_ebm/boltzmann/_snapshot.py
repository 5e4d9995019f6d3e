"""Machines at a moment of their training, as a `Monitor` looks at them.

The parameter `view` of `Monitor` documents their methods.
"""

from functools import cached_property

import numpy as np

from .._gibbs import Layer
from .._machines import Machine
from .._missing import fill_mean_field
from .._panels import Panels
from .._rows import Rows
from .._scores import score_rows
from .._units import Kind
from .._validation import dense
from ..units import as_unit, kinds_of
from ._fitted_rbm import layered, means_of


class Snapshot:
    """Parameters of a restricted Boltzmann machine of bits, as functions of rows."""

    bits = True

    def __init__(self, components, intercept_hidden, intercept_visible, mean):
        self.components, self.intercept_visible = components, intercept_visible
        self.layers = layered(components, intercept_hidden, intercept_visible)
        self.mean = mean
        self.up = Layer(Panels.from_columns(components), intercept_hidden)

    @cached_property
    def down(self):
        return Layer(Panels.from_rows(self.components), self.intercept_visible)

    def rows(self, X, dtype):
        return Rows(X, dtype)

    def fill(self, X):
        return fill_mean_field(self.layers, X, self.mean)

    def hidden_means(self, rows):
        return means_of(rows, self.up)

    def visible_means(self, hidden):
        return means_of(Rows(hidden), self.down)

    def free_energy(self, rows):
        return score_rows(rows, self.up, self.intercept_visible)

    def pseudo_likelihood(self, rows, skipped=None):
        skipped = None if skipped is None else skipped.view(np.uint8)
        return score_rows(
            rows, self.up, self.intercept_visible, self.components, skipped=skipped
        )


class UnitSnapshot:
    """The same of a machine with units of any kind, from its fitted attributes."""

    def __init__(self, estimator, fitted):
        self.layers = twin_of(estimator, fitted)._layered()
        self.mean, self.machine = fitted["visible_mean_"], Machine(self.layers)
        self.bits = kinds_of(as_unit(self.layers.units[1])) == {Kind.BERNOULLI}

    def rows(self, X, dtype):
        return dense(X, dtype)

    def fill(self, X):
        return fill_mean_field(self.layers, X, self.mean)

    def hidden_means(self, X):
        return self.machine.up.means(X)

    def visible_means(self, hidden):
        return self.machine.down.means(hidden)

    def free_energy(self, X):
        return self.machine.free_energy(X)


class DeepSnapshot:
    """The same of a deep machine, which trains without missing or held-out rows."""

    bits = True

    def __init__(self, estimator, fitted):
        dtype = fitted["components_"][0].dtype
        self.machine = twin_of(estimator, fitted)._deep(dtype)

    def rows(self, X, dtype):
        return dense(X, dtype)

    def hidden_means(self, X):
        return np.hstack(self.machine.means(X))

    def visible_means(self, hidden):
        return self.machine.visible_means(hidden[:, : self.machine.sizes[1]])


def twin_of(estimator, fitted):
    """Return an estimator with the same parameters and other fitted attributes."""
    twin = type(estimator).__new__(type(estimator))
    twin.__dict__.update(estimator.__dict__ | fitted)
    return twin
