"""Deep Boltzmann machines unrolled into nets, for fine-tuning.

In the fixed point of mean field the odd hidden layers are a logistic function of the
visible units and of the even hidden layers, and these are one of the odd layers. So a
net that is given the visible units with the means of the even hidden units beside them,
and that has the weights of the machine, says in its hidden layers what mean field says,
and goes on from there. The deep machine is trained without labels, and stays as it is
when the net is fine-tuned, which is one like others but for its inputs.
"""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from .._deep_machines import DeepMachine
from .._products import goes_by_lists
from .._training import epochs_of
from .._validation import dense
from ..boltzmann._stack import as_part
from ..boltzmann._structure import component_shapes
from ..boltzmann.dbm import DBMTransformer
from ..layered import Layered
from ._net_starts import random_params
from ._trainable_net import PRETRAINING

# Epochs of the greedy and of the joint training, at least and at most, where no number
# is given.
GREEDY_EPOCHS, JOINT_EPOCHS = (20, 60), (10, 30)
# Change of a mean below which a row has settled, as for `DBMTransformer`.
TOLERANCE = 1e-3


# ---- What `DBMClassifier` does with objective="fine_tuning" ----


def first_params(model, rows, state, rng):
    """Return a net, and put a machine that has learned nothing into the state."""
    layers = [rows.n_columns, *model._hidden_sizes]
    state["dbm"] = {
        "components_": [
            np.zeros(shape, rows.dtype) for shape in component_shapes(layers)
        ],
        "dbm_intercepts_": [np.zeros(size, rows.dtype) for size in layers],
        "dbm_variance_": np.ones(rows.n_columns, rows.dtype),
    }
    return random_params(net_sizes(layers, state["n_outputs"]), rows.dtype, rng)


def pretrain(model, X, tasks):
    """Train the machine, and put what it has learned in place of hidden layers."""
    dbm = DBMTransformer(
        tuple(model._hidden_sizes),
        visible=model.visible,
        learning_rate=model.pretrain_learning_rate,
        batch_size=model.pretrain_batch_size,
        n_chains=model.pretrain_batch_size,
        n_iter=epochs_of(model.pretrain_n_iter, X.shape[0], *JOINT_EPOCHS),
        n_gibbs_steps=model.pretrain_n_gibbs_steps,
        weight_decay=model.pretrain_weight_decay,
        pretrain_n_iter=epochs_of(
            model.pretrain_greedy_n_iter, X.shape[0], *GREEDY_EPOCHS
        ),
        n_mean_field_steps=model.n_mean_field_steps,
        verbose=model.verbose,
        random_state=check_random_state(model._state["stack_seed"]),
        centering=PRETRAINING["centering"],
    )
    as_part(dbm, model, "pretraining", pretrains_net=True)
    try:
        with tasks.around(dbm):
            dbm.fit(X)
    finally:
        # An interrupted machine is as far as it got.
        if hasattr(dbm, "components_"):
            learned = {
                "components_": dbm.components_,
                "dbm_intercepts_": dbm.intercepts_,
                "dbm_variance_": dbm.variance_,
            }
            params = unrolled(mean_field_layers(learned))
            params += model._state["params"][len(params) :]
            model._state |= {"dbm": learned, "params": params}
            model._publish()


def inputs(model, X, training):
    """Return what the net is given of rows of data."""
    if len(model.components_) == 1:
        return X
    machine = DeepMachine(
        mean_field_layers(vars(model)),
        model.coefs_[0].dtype,
        n_steps=model.n_mean_field_steps,
        tolerance=TOLERANCE,
    )
    return Augmented(X, machine, training)


def damage(model):
    """Return what is wrong with public attributes, or None."""
    layers = [len(bias) for bias in model.dbm_intercepts_]
    shapes = [each.shape for each in model.components_]
    if shapes != component_shapes(layers) or layers[0] != model.n_features_in_:
        return f"components_ have shapes {shapes}, dbm_intercepts_ {layers}"
    sizes = net_sizes(layers, model.n_outputs_)
    shapes = [each.shape for each in model.coefs_]
    biases = [each.shape for each in model.intercepts_]
    wanted = [(size,) for size in sizes[1:]]
    if shapes != list(pairwise(sizes)) or biases != wanted:
        return f"coefs_ have shapes {shapes}, intercepts_ {biases}"
    return None


class Augmented:
    """Rows of data with the means of latent units beside them, found when needed.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        Data.

    machine : DeepMachine
        Says the means.

    keep : bool
        Whether to keep them, because rows will be asked for again.
    """

    def __init__(self, X, machine, keep):
        self.X, self.machine = X, machine
        self.n_latent = sum(machine.sizes[2::2])
        self.shape = X.shape[0], machine.sizes[0] + self.n_latent
        self.kept = None
        if keep:
            self.kept = np.empty((X.shape[0], self.n_latent), machine.dtype)
            self.known = np.zeros(X.shape[0], bool)

    def __getitem__(self, rows):
        X, latent = self.X[rows], self._means(rows)
        # (Rows that are asked for again are trained on, and dense there.)
        if self.kept is None and goes_by_lists(X):
            return sp.hstack((X, sp.csr_array(latent)), "csr", latent.dtype)
        return np.hstack([dense(X, self.machine.dtype), latent])

    def _means(self, rows):
        """Means of the latent units of rows."""
        if self.kept is None:
            return self.machine.settle(self.X[rows])[0]
        new = rows[~self.known[rows]]
        if len(new):
            self.kept[new] = self.machine.settle(self.X[new])[0]
            self.known[new] = True
        return self.kept[rows]


def net_sizes(layers, n_outputs):
    """Numbers of units of the layers of a net, from those of a machine."""
    latent = [sum(layers[2::2])] if len(layers) > 2 else []
    return [sum(layers[::2]), sum(layers[1::2]), *latent, n_outputs]


def mean_field_layers(learned):
    """Return the machine that does the mean field of the layers above the visible one.

    Parameters
    ----------
    learned : dict
        `components_`, `dbm_intercepts_` and `dbm_variance_`.

    Returns
    -------
    layers : Layered
        The machine, right but for what its visible units are: those are given.
    """
    weights = [component.T for component in learned["components_"]]
    weights[0] = weights[0] / learned["dbm_variance_"][:, np.newaxis]
    units = ("bernoulli",) * (len(weights) + 1)
    return Layered(units, tuple(weights), tuple(learned["dbm_intercepts_"]))


def unrolled(layers):
    """Return weights and biases of the hidden layers of a net, from a machine."""
    n_visible, folded = len(layers.biases[0]), layers.folded()
    (weights,), (even, odd) = folded.weights, folded.biases
    params = [np.array(weights, order="C"), np.array(odd)]
    if len(even) > n_visible:
        params += [np.array(weights[n_visible:].T, order="C")]
        params += [np.array(even[n_visible:])]
    return params
