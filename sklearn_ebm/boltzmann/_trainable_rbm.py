"""The training of restricted Boltzmann machines, here of two layers of bits."""

from numbers import Integral, Real

import numpy as np
from scipy.special import expit, logit

from .._machines import weighted_sums
from .._parameters import Interval, StrOptions
from .._stopping import STOPPING_CONSTRAINTS
from .._trainer import Trainer
from .._validation import title
from ..monitoring import may_be_idle
from ._faults import warn_if_worse_than_independent, warn_of_constant_bits
from ._fitted_rbm import FittedRBM
from ._snapshot import Snapshot, twin_of
from ._starts import BITS_RATE, first_chains, log_odds, start_of_bits
from ._trainable import Trainable


class TrainableRBM(Trainable, FittedRBM):
    """The training of a restricted Boltzmann machine of Bernoulli units.

    `UnitsRBM` replaces what is different with units of other kinds.
    """

    _parameter_constraints: dict = {
        **Trainable._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "persistent": ["boolean"],
        "nesterov": ["boolean"],
        "l1_decay": [Interval(Real, 0, None, closed="left")],
        "sparsity_cost": [Interval(Real, 0, None, closed="left")],
        "max_norm": [Interval(Real, 0, None, closed="neither"), None],
        "missing": [StrOptions({"raise", "latent"})],
        **STOPPING_CONSTRAINTS,
    }

    def _check_parameters(self):
        super()._check_parameters()
        if self.n_temperatures > 1 and not self.persistent:
            raise ValueError(
                f"n_temperatures={self.n_temperatures} needs chains that go on: "
                "persistent=True."
            )

    def _first_state(self, components, X, dtype, division):
        """Parameters to begin with, by what the units are, from random weights."""
        visible = log_odds(division.column_means, division.n_rows)
        rate = np.full(self.n_components, BITS_RATE if self.centering else 0.5)
        hidden = logit(rate)
        if self.centering:
            visible, hidden = start_of_bits(
                [components.T], [expit(visible), rate], [visible, hidden]
            )
        parameters = {
            "components": components,
            "intercept_hidden": hidden,
            "intercept_visible": visible,
            "hidden_offset": rate,
        }
        return {name: x.astype(dtype) for name, x in parameters.items()}

    def _kernel(self, rows, **settings):
        """Return the kernel that trains machines of such units."""
        state = self._state
        trainer = Trainer(
            rows,
            state["components"],
            state["intercept_hidden"],
            state["intercept_visible"],
            visible_offset=self._subtracted(state["visible_offset"]),
            **settings,
        )
        # (Fast parameters and temperatures have ways of their own between modes.)
        if self.persistent and not self.fast_learning_rate and self.n_temperatures == 1:
            trainer.start_jumps(state.get("jumps"))
        return trainer

    def _first_chains(self, n_chains, key, step):
        """Hidden states given the mean of the data."""
        components, intercept, mean = (
            self._state[name]
            for name in ("components", "intercept_hidden", "visible_offset")
        )
        return first_chains(components, intercept, mean, n_chains, key, step)

    def _view(self, parameters):
        """Return what a monitor looks at."""
        mean = self._state["visible_offset"].astype(self._dtype())
        return Snapshot(*parameters, mean)

    def _layers_of(self, parameters):
        """Return the model with these parameters as a value."""
        return twin_of(self, self._public(parameters))._layered()

    def _warn_of_faults(self, X, run, drawn):
        """Warn if hidden units tell nothing, or the model does not fit the data."""
        # (Only machines of other units than bits have variances.)
        seen = run.division.column_means / getattr(self, "variance_", 1.0)
        fields = weighted_sums(self.components_, seen)
        idle = False
        # (Fields at the mean are enough to see that no unit is idle, as a rule.)
        if may_be_idle(fields + self.intercept_hidden_):
            monitor = self._monitor(X, run.division, drawn)
            rate = "pretrain_learning_rate" if self._pretrains_net else "learning_rate"
            idle = monitor.warn_of_idle_units(title(self), run.parameters(), rate)
        # (None, which leaves the number to the model, is never 0.)
        if self.n_iter != 0 and self._stands_alone:
            warn_if_worse_than_independent(self, X, self._lowest_rate())
            if not idle:
                warn_of_constant_bits(self, self._view(run.parameters()), X)

    def _public(self, parameters):
        """Return the public attributes of a model with these parameters."""
        components, hidden, visible = parameters
        return {
            "components_": components,
            "intercept_hidden_": hidden,
            "intercept_visible_": visible,
            "visible_mean_": self._state["visible_offset"].astype(components.dtype),
        }

    def _structure(self):
        """What the machine is made of (see `check_structure`)."""
        return {"n_components": repr(int(self.n_components))}

    def _shape(self, n_visible):
        """Numbers of hidden and of visible units that are trained."""
        return self.n_components, n_visible
