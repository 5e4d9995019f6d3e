"""A negative phase whose chains exchange temperatures (parallel tempering).

Every chain of the trainer is the cold end of an ensemble. Before each minibatch the
ensembles take a sweep, swaps included, under the weights as they are, and the
trainer's chains go on from their cold ends. That costs a chain a temperature, and
packing the weights once more. The temperatures follow the model as it changes.
"""

import numpy as np
from scipy.special import logit

from ._ais import Path, exchange
from ._gibbs import Purpose, half_sweep
from ._rows import Rows
from .samplers._models import LEAST_RATE
from .samplers._swaps import evened, swap_rates, swap_sums

# So many sweeps lie between two moves of the temperatures: with a single ensemble
# each pair of neighbours has then tried 50 swaps. The model changes little meanwhile.
ADAPT_EVERY = 100


class TemperedChains:
    """Ensembles of chains at inverse temperatures that adapt to the model.

    They begin evenly spaced. After every ADAPT_EVERY sweeps they move half of the way
    to where, going by the swaps of these sweeps, a swap would be about as likely
    between any neighbours (see `evened`). The cold end is the model wherever the
    others are. That where they are depends on the chains' past disturbs it a little,
    as does every change of the weights.

    Parameters
    ----------
    n_chains, n_temperatures : int
        Number of ensembles, and of chains in each.

    means : ndarray of shape (n_features,)
        Means of the independent units at the hot end.

    key : int
        Random key, used for nothing else.

    state : dict or None, default=None
        What `state` returned, to go on from if it fits.
    """

    def __init__(self, n_chains, n_temperatures, means, key, state=None):
        means = np.clip(np.asarray(means, float), LEAST_RATE, 1 - LEAST_RATE)
        self.base, self.key = logit(means), key
        # What `swap_sums` finds, since the last move and since the last report.
        self.swaps = np.zeros((3, n_temperatures - 1))
        self.unreported = self.swaps
        shape = (n_chains, n_temperatures)
        # Sweeps of these chains, and of all so far, which say what bits are drawn.
        self.age = self.n_steps = 0
        if state is not None:
            self.n_steps = state["n_steps"]
        if state is not None and state["levels"].shape == shape:
            self.visible, self.levels = state["visible"].copy(), state["levels"].copy()
            self.betas, self.swaps = state["betas"], state["swaps"]
            self.age = state["age"]
            return
        self.betas = np.linspace(0, 1, n_temperatures)
        rng = np.random.default_rng([key, self.n_steps])
        self.visible = rng.random((n_chains * n_temperatures, len(means))) < means
        self.levels = np.tile(np.arange(n_temperatures, dtype=np.int32), (n_chains, 1))

    def state(self):
        """Arrays and plain values to go on from."""
        return {
            "visible": self.visible.copy(),
            "levels": self.levels.copy(),
            "betas": self.betas,
            "swaps": self.swaps,
            "age": self.age,
            "n_steps": self.n_steps,
        }

    def advance(self, trainer):
        """Do one sweep, and let the chains of a trainer go on from its cold ends."""
        components, hidden, visible = trainer.parameters()
        path = Path(components, (visible, hidden), (self.base, np.zeros(len(hidden))))
        step = self.n_steps
        self._sweep(path, step)
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
        self.age += 1
        if self.age % ADAPT_EVERY == 0:
            self.betas = evened(self.betas, self.swaps)
            self.swaps = np.zeros_like(self.swaps)

    def _sweep(self, path, step):
        gains = np.empty((1, *self.levels.shape))
        visits = np.empty(gains.shape, dtype=np.int32)
        exchange(
            path,
            self.visible,
            self.levels,
            self.betas,
            step,
            step + 1,
            self.key,
            gains=gains,
            visits=visits,
        )
        sums = swap_sums(gains, visits, self.levels, step)
        self.swaps, self.unreported = self.swaps + sums, self.unreported + sums

    def report(self):
        """Entries of the history: how swaps have gone since the last report."""
        rates = swap_rates(self.unreported)
        self.unreported = np.zeros_like(self.unreported)
        rates = rates[~np.isnan(rates)]
        mean, least = (rates.mean(), rates.min()) if len(rates) else (np.nan, np.nan)
        return {"swap_rate": float(mean), "least_swap_rate": float(least)}
