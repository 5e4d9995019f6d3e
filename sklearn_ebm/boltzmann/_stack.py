"""Stacks of restricted Boltzmann machines, trained greedily from the bottom up.

The first machine learns the data, and every other one is fitted to the means of the
hidden units of the one below. What comes out are fitted machines: estimators take their
parameters from them, and keep of them what `states_of` returns, to go on with.
"""

from contextlib import contextmanager

import numpy as np

from .._callbacks import Task
from .._machines import Machine
from .._rows import Rows
from .._validation import dense
from ._fitted_rbm import means_of
from .rbm import RBM

# Rows that are taken up at a time: no longer than an interrupt may wait.
CHUNK = 2048
# Epochs of a machine under a net, at least and at most, where no number is given.
STACK_EPOCHS = 10, 60
# Rows that the machines above an interrupted one take their first biases from.
FIRST_ROWS = 1000


def as_part(machine, whole, name, pretrains_net=False):
    """Tell a machine that it is a part of an estimator, and return it.

    Messages call it by the class of that one and this name of the part. It does not
    warn of being no good model. It may be told that a net is to start from what it
    learns, too.
    """
    machine._title = f"{type(whole).__name__}, {name}"
    machine._stands_alone = False
    if pretrains_net:
        machine._pretrains_net = True
    return machine


def new_stack(
    estimator,
    sizes,
    rng,
    *,
    learning_rate,
    n_iter,
    upper=RBM,
    pretrains_net=False,
    **settings,
):
    """Return machines that have not been fitted, from the bottom up.

    Parameters
    ----------
    estimator : estimator
        Whose stack it is: its `visible` says what the features are, its `verbose`
        whether lines are printed, and its class is named in what is said.

    sizes : sequence of int
        Numbers of hidden units.

    rng : RandomState
        Seeds every machine, when its training begins. A stack of one machine is
        the model that `RBM` learns with ``random_state=rng``.

    learning_rate, n_iter : number or tuple
        As for `RBM`; in a tuple one for every machine.

    upper : type, default=RBM
        Class of the machines above the first one.

    pretrains_net : bool, default=False
        Whether a net is to start from what they learn.

    **settings : dict
        Further parameters of `RBM`, the same for all of them.

    Returns
    -------
    rbms : list of RBM
        The machines.
    """
    rates = one_a_layer(learning_rate, len(sizes), "learning_rate")
    counts = one_a_layer(n_iter, len(sizes), "n_iter")
    rbms = []
    for number, (size, rate, count) in enumerate(
        zip(sizes, rates, counts, strict=True)
    ):
        rbm = (upper if number else RBM)(
            size,
            visible="bernoulli" if number else estimator.visible,
            learning_rate=rate,
            n_iter=count,
            random_state=rng,
            verbose=estimator.verbose,
            **settings,
        )
        name = f"layer {number + 1}"
        rbms.append(as_part(rbm, estimator, name, pretrains_net))
    return rbms


def one_a_layer(value, n_layers, name):
    """A number for every layer: the same one, or several."""
    if np.ndim(value) == 0:
        return [value] * n_layers
    if len(value) != n_layers:
        raise ValueError(
            f"{name}={value!r} has {len(value)} numbers for {n_layers} hidden layers."
        )
    return list(value)


class LayerTasks:
    """Tells callbacks of the training of machines, one after the other.

    Parameters
    ----------
    task : Task or None, default=None
        The fit of the stack. With None there is nobody to tell.

    Attributes
    ----------
    stopped : bool
        Whether a callback has asked that no further machine be trained.
    """

    def __init__(self, task=None):
        self.task, self.stopped = task, False

    @contextmanager
    def around(self, machine):
        """Return a context in which to train a machine."""
        if self.task is None:
            yield
            return
        context = self.task.context.subcontext(task_name="layer")
        with context.propagate_callback_context(machine):
            layer = Task(context, self.task.given)
            yield
        self.stopped = layer.end()


def pretrain(rbms, X, tasks, method="fit", prepare=None):
    """Train machines one after the other, each on the means of the one below.

    Means of at most two layers are in memory. An interrupt is passed on. After it, or a
    stop by a callback, every machine is usable: those not yet trained have their first
    parameters, or the ones they had before.

    Parameters
    ----------
    rbms : list of RBM
        The machines, which are changed.

    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Validated data, used as they are.

    tasks : LayerTasks
        What callbacks are told of, and may stop.

    method : {"fit", "partial_fit"}, default="fit"
        How each machine is trained.

    prepare : callable or None, default=None
        Is called with each machine and its inputs before it is trained.
    """
    inputs = X
    try:
        for rbm in rbms:
            if prepare is not None:
                prepare(rbm, inputs)
            with tasks.around(rbm):
                getattr(rbm, method)(inputs)
            if tasks.stopped:
                break
            if rbm is not rbms[-1]:
                inputs = means_up(rbm, inputs, rbm.components_.dtype)
    except KeyboardInterrupt:
        _give_first_parameters(rbms, X)
        raise
    if tasks.stopped:
        _give_first_parameters(rbms, X)


def _give_first_parameters(rbms, X):
    """Give machines that have not been fitted their first parameters."""
    inputs = X[:FIRST_ROWS]
    for rbm in rbms:
        if not hasattr(rbm, "components_"):
            n_iter = rbm.n_iter
            rbm.set_params(n_iter=0).fit(inputs).set_params(n_iter=n_iter)
        inputs = means_up(rbm, inputs, rbm.components_.dtype)


def means_up(rbm, X, dtype):
    """Means of the hidden units of a machine, a dense array of this dtype.

    Parameters
    ----------
    rbm : RBM
        A fitted machine.

    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Validated data, columns as the machine was fitted to.

    dtype : dtype
        float32 or float64.

    Returns
    -------
    means : ndarray of shape (n_samples, n_components)
        Means; those of a row do not depend on the others.
    """
    n_rows, encode = X.shape[0], encoder(rbm)
    means = np.empty((n_rows, len(rbm.components_)), dtype)
    up = rbm._up(dtype) if rbm._bits else Machine(rbm._layered(), dtype).up
    for start in range(0, n_rows, CHUNK):
        rows = encode(X[start : start + CHUNK])
        if rbm._bits:
            found = means_of(Rows(rows, dtype, False), up)
        else:
            found = up.means(dense(rows, dtype))
        means[start : start + CHUNK] = found
    return means


def encoder(rbm):
    """Return what makes visible units of the columns of data, chunks of rows."""
    return (lambda X: X) if rbm._bits else rbm._columns().encode


def recognition(rbms):
    """Return the weights and biases of the way up, layer by layer.

    The field of a layer is ``states_below @ weights + bias``; of Gaussian visible
    units the weights are divided by the variance.

    Parameters
    ----------
    rbms : list of RBM
        Fitted machines.

    Returns
    -------
    weights : list of ndarray of shape (n_units_below, n_units)
        Weights.

    biases : list of ndarray of shape (n_units,)
        Biases.
    """
    layers = [rbm._layered() for rbm in rbms]
    return [each.weights[0] for each in layers], [each.biases[1] for each in layers]


def states_of(rbms):
    """Return what machines have learned, as dicts of arrays and plain values.

    But for their histories, which are in that of the stack (see `joined_history`).
    """
    ours = "_title", "_stands_alone", "below", "history_"
    left_out = {*rbms[0].get_params(deep=False), *ours}
    return [
        {name: value for name, value in vars(rbm).items() if name not in left_out}
        for rbm in rbms
    ]


def restore(rbms, states):
    """Give machines the states that `states_of` has returned, to go on from."""
    for rbm, state in zip(rbms, states, strict=True):
        rbm.__dict__.update(state, history_={})


def means_down(rbm, H):
    """Means of the visible units of a machine, as columns of the data.

    Parameters
    ----------
    rbm : RBM
        A fitted machine.

    H : ndarray of shape (n_samples, n_components)
        States or means of its hidden units, float32 or float64.

    Returns
    -------
    means : ndarray of shape (n_samples, n_features)
        Means in the dtype of H.
    """
    bits, dtype, found = rbm._bits, H.dtype, []
    down = rbm._down(dtype) if bits else Machine(rbm._layered(), dtype).down
    for start in range(0, len(H), CHUNK):
        rows = H[start : start + CHUNK]
        means = means_of(Rows(rows, dtype, False), down) if bits else down.means(rows)
        found.append(rbm._columns().decode(means))
    return np.concatenate(found)


def joined_history(history, rbms):
    """Return a history of a stack with what machines have done since.

    Parameters
    ----------
    history : dict of list
        Numbers by epoch; its "layer" is the number of the machine that was
        trained, from 1.

    rbms : list of RBM
        Machines, whose histories begin with these epochs.

    Returns
    -------
    history : dict of list
        A new one.
    """
    layers = history.get("layer", [])
    names = ["layer", *history, *(name for rbm in rbms for name in rbm.history_)]
    joined = {name: list(history.get(name, [np.nan] * len(layers))) for name in names}
    for number, rbm in enumerate(rbms, start=1):
        first, n_new = layers.count(number), rbm.n_iter_ - layers.count(number)
        for name, values in joined.items():
            found = rbm.history_.get(name, [np.nan] * rbm.n_iter_)
            values += [number] * n_new if name == "layer" else found[first:]
    return joined
