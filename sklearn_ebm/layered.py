"""The value that every layered Boltzmann machine is."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .units import as_unit


@dataclass(frozen=True, eq=False)
class Layered:
    """A layered Boltzmann machine: layers of units, connected to their neighbours.

    Its energy is ``sum_l U_l(s_l) - sum_l s_l . biases[l] - sum_l s_l . weights[l] .
    s_{l+1}``, where U_l is the energy of the units by themselves (0 for Bernoulli
    units; see `sklearn_ebm.units`).

    Parameters
    ----------
    units : tuple of str or Unit
        What the units of every layer are, the visible layer first.

    weights : tuple of ndarray
        ``weights[l]`` of shape (size of layer l, size of layer l + 1).

    biases : tuple of ndarray
        ``biases[l]`` of shape (size of layer l,).
    """

    units: tuple
    weights: tuple
    biases: tuple

    def __post_init__(self):
        """Check that the shapes fit."""
        sizes = [len(bias) for bias in self.biases]
        shapes = [np.shape(weight) for weight in self.weights]
        if len(self.units) != len(sizes) or shapes != list(pairwise(sizes)):
            raise ValueError(
                f"weights of shapes {shapes} do not connect {len(self.units)} layers "
                f"of sizes {sizes}."
            )

    def energy(self, *states):
        """Energy of rows of states, one array (n_rows, layer size) a layer.

        Parameters
        ----------
        *states : array-like
            States of the layers, the visible layer first.

        Returns
        -------
        energy : ndarray of shape (n_rows,)
            Energies in nats.
        """
        states = [np.asarray(s, dtype=float) for s in states]
        energy = -sum(s @ b for s, b in zip(states, self.biases, strict=True))
        energy = energy + sum(
            as_unit(unit).energy(s) for unit, s in zip(self.units, states, strict=True)
        )
        for (below, above), weight in zip(pairwise(states), self.weights, strict=True):
            energy = energy - np.einsum("ij,ij->i", below @ weight, above)
        return energy

    def reversed(self):
        """Turn the order of the layers round.

        Returns
        -------
        layered : Layered
            The same machine, its last layer first.
        """
        return Layered(
            self.units[::-1],
            tuple(weight.T for weight in self.weights[::-1]),
            self.biases[::-1],
        )
