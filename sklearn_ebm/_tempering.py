"""A negative phase whose chains exchange temperatures (parallel tempering).

Every chain of the trainer is the cold end of an ensemble. Before each minibatch the
ensembles take a sweep, swaps included, under the weights as they are, and the
trainer's chains go on from their cold ends. That costs a chain a temperature, and
packing the weights once more.
"""

import numpy as np
from scipy.special import logit

from ._ais import Path, exchange
from ._gibbs import Purpose, half_sweep
from ._rows import Rows
from .samplers._paths import LEAST_RATE


class TemperedChains:
    """Ensembles of chains at evenly spaced inverse temperatures.

    Parameters
    ----------
    n_chains, n_temperatures : int
        Number of ensembles, and of chains in each.

    means : ndarray of shape (n_features,)
        Means of the independent units at the hot end.

    key : int
        Random key, used for nothing else.

    state : dict, default=None
        What `state` returned, to go on from if it fits.
    """

    def __init__(self, n_chains, n_temperatures, means, key, state=None):
        means = np.clip(np.asarray(means, float), LEAST_RATE, 1 - LEAST_RATE)
        self.base, self.key = logit(means), key
        self.betas = np.linspace(0, 1, n_temperatures)
        shape = (n_chains, n_temperatures)
        if state is not None and state["levels"].shape == shape:
            self.visible, self.levels = state["visible"].copy(), state["levels"].copy()
            self.n_steps = state["n_steps"]
            return
        rng = np.random.default_rng(key)
        self.visible = rng.random((n_chains * n_temperatures, len(means))) < means
        self.levels = np.tile(np.arange(n_temperatures, dtype=np.int32), (n_chains, 1))
        self.n_steps = 0

    def state(self):
        """Arrays and plain values to go on from."""
        return {
            "visible": self.visible.copy(),
            "levels": self.levels.copy(),
            "n_steps": self.n_steps,
        }

    def advance(self, trainer):
        """One sweep, from whose cold ends the chains of a trainer go on."""
        components, hidden, visible = trainer.parameters()
        path = Path(components, (visible, hidden), (self.base, np.zeros(len(hidden))))
        step = self.n_steps
        exchange(path, self.visible, self.levels, self.betas, step, step + 1, self.key)
        n_chains, n_temperatures = self.levels.shape
        cold = self.levels.argmax(axis=1) + n_temperatures * np.arange(n_chains)
        states = np.empty((n_chains, len(hidden)), dtype=bool)
        half_sweep(
            Rows(self.visible[cold], components.dtype),
            path.up,
            samples=states,
            key=self.key,
            step=step,
            purpose=Purpose.DRAW_DATA,
        )
        trainer.set_chains(states)
        self.n_steps = step + 1
