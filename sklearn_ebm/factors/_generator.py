"""The own random sequence of a linear factor model."""

import numpy as np

from .._validation import random_generator, random_key


class OwnGenerator:
    """The random numbers of methods that are not given a random state.

    Copies of a model draw the same numbers.
    """

    def _begin_draws(self):
        """Begin the model's own sequence of draws."""
        self._sampling_key, self._sampling_step = random_key(self.random_state), 0

    def _generator(self, random_state):
        """Return a generator: of random_state, or the next of the model's own."""
        if random_state is not None:
            return random_generator(random_state)
        self._sampling_step += 1
        return np.random.default_rng([self._sampling_key, self._sampling_step])
