"""A restricted Boltzmann machine at some moment of its training."""

import numpy as np

from .._gibbs import Layer
from .._missing import fill_mean_field
from .._panels import Panels
from .._rows import Rows
from .._scores import score_rows
from ._base import layered, means_of


class Snapshot:
    """Parameters at some moment of the training, as functions of rows."""

    def __init__(self, components, intercept_hidden, intercept_visible, mean):
        self.components, self.intercept_visible = components, intercept_visible
        self.layers = layered(components, intercept_hidden, intercept_visible)
        self.mean = mean
        self.up = Layer(Panels.from_columns(components), intercept_hidden)
        self.down = Layer(Panels.from_rows(components), intercept_visible)

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
