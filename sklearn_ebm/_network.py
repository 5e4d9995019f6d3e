"""A small feed-forward net: its passes, its objective, and optimisers.

Parameters are a list of arrays ``[weights, bias, weights, bias, ...]`` from the bottom
up, weights of shape (n_inputs, n_units). `Network` is a function of them and keeps
only room to work in; optimisers change them in place and know nothing of the net;
`Descent` brings both together with rows of data. Products and draws are compiled and
give the same bits on any number of threads.
"""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from ._passes import (
    activate,
    adam_step,
    cap_columns,
    cross_entropy,
    momentum_step,
    multiply_by_slopes,
)
from ._products import goes_by_lists, product, single_threaded_blas, sparse_product
from ._units import Wanted, evaluate
from ._validation import dense
from .units import Bernoulli

# Rows that are worked on at a time where a step or an answer needs all of them.
CHUNK = 1024
# Adam's shares of the past in the running means of the gradient and its square.
MEAN_DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8


# ---- The net ----


class Softmax:
    """Outputs that are probabilities of classes; their loss is the cross-entropy.

    Parameters
    ----------
    class_weight : array-like of shape (n_classes,)
        Weight of the rows of every class.
    """

    name = "softmax"

    def __init__(self, class_weight):
        self.class_weight = np.asarray(class_weight, np.float64)

    def loss(self, fields, codes, scale):
        """Sum over rows times `scale`; fields become its derivative."""
        return cross_entropy(fields, codes, self.class_weight, scale)


class Linear:
    """Outputs that are fields; their loss is half the squared error."""

    name = "identity"

    def loss(self, fields, targets, scale):
        """Sum over rows times `scale`; fields become its derivative."""
        fields -= targets
        loss = 0.5 * scale * np.einsum("ij,ij->", fields, fields, dtype=np.float64)
        fields *= fields.dtype.type(scale)
        return float(loss)


class Network:
    """Logistic hidden layers below an output.

    Parameters
    ----------
    output : Softmax or Linear
        What the last layer is, and the loss.

    weight_decay : float, default=0.0
        Strength of the penalty ``weight_decay / 2 * sum weights^2``, which is part of
        the objective.
    """

    # Which weights of the first layer there are, where not all of them (see `Descent`).
    connected = None

    def __init__(self, output, weight_decay=0.0):
        self.output, self.weight_decay = output, weight_decay
        self.n_threads = 0  # as many as there are, unless training says how many
        self._rooms = {}

    def forward(self, params, X, masks=None):
        """Pass rows up.

        Parameters
        ----------
        params : list of ndarray
            Weights and biases.

        X : {ndarray, sparse matrix} of shape (n_rows, n_features)
            Inputs, of the dtype of the parameters if they are dense.

        masks : list of (ndarray or None), default=None
            By what the inputs (dense ones) and the activities of every hidden layer
            are multiplied: 0 where they are dropped.

        Returns
        -------
        activities : list of ndarray
            Inputs of every layer and, last, the fields of the output. Valid until
            the next call.
        """
        weights, biases = params[::2], params[1::2]
        masks = masks or [None] * len(weights)
        if masks[0] is not None:
            X = np.multiply(X, masks[0], out=self._room("inputs", X.shape, X.dtype))
        activities = [X]
        for layer, (W, b) in enumerate(zip(weights, biases, strict=True)):
            fields = self._room(("up", layer), (X.shape[0], W.shape[1]), W.dtype)
            if sp.issparse(activities[-1]):
                sparse_product(activities[-1], W, out=fields)
            else:
                product(activities[-1], W, out=fields, n_threads=self.n_threads)
            if layer < len(weights) - 1:
                activate(fields, b, masks[layer + 1], self.n_threads)
            else:
                fields += b
            activities.append(fields)
        return activities

    def loss_and_grads(self, params, X, targets, masks=None, scale=None):
        """Evaluate the objective and its derivatives.

        Parameters
        ----------
        params, X, masks
            As for `forward`.

        targets : ndarray
            Numbers of classes (int32) for `Softmax`, values of shape (n_rows,
            n_outputs) for `Linear`.

        scale : float, default=None
            By what the sum of the losses of the rows is multiplied; None takes their
            mean.

        Returns
        -------
        loss : float
            The objective, in nats for `Softmax`.

        grads : list of ndarray
            Its derivatives by the parameters. Valid until the next call.
        """
        weights = params[::2]
        masks = masks or [None] * len(weights)
        activities = self.forward(params, X, masks)
        delta = activities[-1]
        loss = self.output.loss(delta, targets, 1 / len(X) if scale is None else scale)
        grads = [None] * len(params)
        for layer in reversed(range(len(weights))):
            W, inputs = weights[layer], activities[layer]
            grads[2 * layer] = self._weight_gradient(layer, W, inputs, delta)
            out = self._room(("bias", layer), (W.shape[1],), W.dtype)
            grads[2 * layer + 1] = delta.sum(axis=0, out=out)
            if layer:
                below = self._room(("down", layer), inputs.shape, W.dtype)
                product(delta, W, b_turned=True, out=below, n_threads=self.n_threads)
                multiply_by_slopes(below, inputs, masks[layer], self.n_threads)
                delta = below
        return loss + self._penalty(weights), grads

    def _weight_gradient(self, layer, W, inputs, delta):
        grad = self._room(("weights", layer), W.shape, W.dtype)
        if self.weight_decay:
            grad[...] = W
        product(
            inputs,
            delta,
            a_turned=True,
            out=grad,
            beta=self.weight_decay,
            n_threads=self.n_threads,
        )
        return grad

    def _penalty(self, weights):
        if not self.weight_decay:
            return 0.0
        with single_threaded_blas:
            squares = sum(float(np.vdot(W, W)) for W in weights)
        return 0.5 * self.weight_decay * squares

    def _room(self, name, shape, dtype):
        """Memory that is used again by the next minibatch."""
        room = self._rooms.get(name)
        if (
            room is None
            or room.dtype != dtype
            or room.shape[1:] != shape[1:]
            or len(room) < shape[0]
        ):
            room = self._rooms[name] = np.empty(shape, dtype)
        return room[: shape[0]]


class Dropout:
    """Masks that drop inputs and hidden units, and scale up what stays.

    Parameters
    ----------
    rates : list of float
        Share that is dropped of the inputs and of every hidden layer.

    sizes : list of int
        Numbers of their units.

    key : int
        Determines, with the number of the step, what is dropped.

    dtype : dtype
        float32 or float64.
    """

    def __init__(self, rates, sizes, key, dtype):
        self.rates, self.sizes, self.key = rates, sizes, key
        self.units = [Bernoulli().kernel(size) for size in sizes]
        self.dtype, self.fields = dtype, [None] * len(rates)

    def masks(self, n_rows, step):
        """Return the masks of a minibatch, or None where nothing is dropped."""
        if not any(self.rates):
            return None
        return [self._mask(layer, n_rows, step) for layer in range(len(self.rates))]

    def _mask(self, layer, n_rows, step):
        stays = 1 - self.rates[layer]
        if stays == 1:
            return None
        fields = self.fields[layer]
        if fields is None or len(fields) != n_rows:
            odds = np.log(stays / (1 - stays))
            fields = np.full((n_rows, self.sizes[layer]), odds, self.dtype)
            self.fields[layer] = fields
        mask = evaluate(
            self.units[layer], fields, Wanted.DRAWS, self.key, step, purpose=layer
        )
        mask *= self.dtype.type(1 / stays)
        return mask


# ---- Optimisers ----


class Momentum:
    """Gradient descent with momentum.

    Parameters
    ----------
    params : list of ndarray
        What is optimised.

    momentum : float
        Share of the last step in the next one.

    nesterov : bool
        Whether the momentum is Nesterov's.

    state : list of ndarray or None, default=None
        What `state` of another one was, to go on from.
    """

    # What the state of a training calls that.
    memory = "velocity"

    def __init__(self, params, momentum, nesterov, state=None):
        self.momentum, self.nesterov = momentum, nesterov
        self.velocities = _copies_or_zeros(state, params)

    def step(self, params, grads, rate, n_threads=0):
        """Change the parameters by a step against the gradients."""
        for p, v, g in zip(params, self.velocities, grads, strict=True):
            momentum_step(
                p.ravel(), v.ravel(), g.ravel(), rate, self.momentum, self.nesterov,
                n_threads,
            )  # fmt: skip

    def state(self):
        """Return what another optimiser needs to go on."""
        return [v.copy() for v in self.velocities]


class Adam:
    """Steps along the mean gradient, by the root of its mean square (Adam).

    Parameters
    ----------
    params : list of ndarray
        What is optimised.

    state : list of ndarray or None, default=None
        What `state` of another one was, to go on from.
    """

    # What the state of a training calls that.
    memory = "adam"

    def __init__(self, params, state=None):
        self.n_steps = 0 if state is None else int(state[-1])
        self.means = _copies_or_zeros(state and state[: len(params)], params)
        self.squares = _copies_or_zeros(state and state[len(params) : -1], params)

    def step(self, params, grads, rate, n_threads=0):
        """Change the parameters by a step against the gradients."""
        self.n_steps += 1
        t = self.n_steps
        # Both means start at zero: this makes up for it.
        root = np.sqrt(1 - SQUARE_DECAY**t)
        rate *= root / (1 - MEAN_DECAY**t)
        for p, m, s, g in zip(params, self.means, self.squares, grads, strict=True):
            adam_step(
                p.ravel(), m.ravel(), s.ravel(), g.ravel(), rate, MEAN_DECAY,
                SQUARE_DECAY, EPSILON * root, n_threads,
            )  # fmt: skip

    def state(self):
        """Return what another optimiser needs to go on."""
        means = [array.copy() for array in (*self.means, *self.squares)]
        return [*means, np.array(self.n_steps)]


def _copies_or_zeros(state, params):
    if state is None:
        return [np.zeros_like(p) for p in params]
    return [np.array(each) for each in state]


# ---- Training ----


class Descent:
    """Epochs of minibatches: a net, an optimiser, and rows to learn from.

    Parameters
    ----------
    network : Network
        The objective.

    optimiser : Momentum, Adam or None
        What takes the steps. `minimise` needs none.

    params : list of ndarray
        Changed in place, by nobody else.

    X : ndarray or CSR matrix
        All rows.

    targets : ndarray
        One entry for every row of X.

    dropout : Dropout
        What is left out in every step.

    batch_size : int
        Rows of a minibatch.

    max_norm : float or None
        Largest norm of the weights that lead to a unit.

    step : int
        Number of steps before this training, which numbers the draws.

    offsets : list of ndarray
        Means of the inputs and of the hidden units. A step of the weights then leaves
        the fields at these means as they are. Empty for the plain gradient.
    """

    def __init__(
        self, network, optimiser, params, X, targets, dropout, batch_size, max_norm,
        step=0, offsets=(),
    ):  # fmt: skip
        self.network, self.optimiser, self.params = network, optimiser, params
        self.X, self.targets, self.dropout = X, targets, dropout
        self.batch_size, self.max_norm, self.step = batch_size, max_norm, step
        self.offsets = [offset[np.newaxis] for offset in offsets]
        with single_threaded_blas:
            self.fields = self._fields_at_offsets()

    def epoch(self, order, rates, pacer):
        """Take a step on every minibatch of rows; the mean of the objective."""
        losses = np.empty(len(rates))

        def run(start, stop, n_threads):
            self.network.n_threads = n_threads
            for batch in range(start, stop):
                first = batch * self.batch_size
                rows = order[first : first + self.batch_size]
                losses[batch] = len(rows) * self._minibatch(rows, rates[batch])

        with single_threaded_blas:
            pacer.run(run, len(rates))
        return float(losses.sum() / len(order))

    def _minibatch(self, rows, rate):
        X = dense(self.X[rows], self.params[0].dtype)
        masks = self.dropout.masks(len(rows), self.step)
        n_threads = self.network.n_threads
        loss, grads = self.network.loss_and_grads(
            self.params, X, self.targets[rows], masks
        )
        self._centre(grads[::2], grads[1::2])
        self.optimiser.step(self.params, grads, rate, n_threads)
        if self.max_norm is not None:
            for weights in self.params[::2]:
                cap_columns(weights, self.max_norm, n_threads)
        # The biases have taken the step of the centred net. In the plain one, they also
        # give back what the new weights have added to the fields at the offsets.
        before, self.fields = self.fields, self._fields_at_offsets()
        for b, old, new in zip(self.params[1::2], before, self.fields, strict=False):
            b -= new[0] - old[0]
        self.step += 1
        return loss

    def _centre(self, weights, biases):
        """Make derivatives those of a net that is given inputs less the offsets."""
        for dW, db, offset in zip(weights, biases, self.offsets, strict=False):
            product(
                -offset, db[np.newaxis], a_turned=True, out=dW, beta=1.0,
                n_threads=self.network.n_threads,
            )  # fmt: skip
            if self.network.connected is not None:
                dW *= self.network.connected

    def _fields_at_offsets(self):
        """What weights make of the offsets."""
        return [
            product(offset, W, n_threads=self.network.n_threads)
            for offset, W in zip(self.offsets, self.params[::2], strict=False)
        ]


def minimise(network, params, X, targets, rows, max_iter, tol, after):
    """Change the parameters to where L-BFGS finds the least objective of some rows.

    It computes in float64, whatever the dtype of the parameters, and takes up the
    rows a chunk at a time.

    Parameters
    ----------
    network, params, X, targets
        As for `Descent`.

    rows : ndarray
        Numbers of the rows.

    max_iter : int
        Most iterations.

    tol : float
        It stops where no derivative is larger than this.

    after : callable
        Called after every iteration, when the parameters have been changed, with the
        objective; returns whether to stop.
    """
    plain, decay = Network(network.output), network.weight_decay

    def objective(vector):
        at = _unpacked(vector, params)
        loss, slope = _sums(plain, at, X, targets, rows)
        if decay:
            weights = [p if p.ndim == 2 else np.zeros_like(p) for p in at]
            slope += decay * _packed(weights)
            loss += 0.5 * decay * sum(np.vdot(W, W) for W in weights)
        return loss, slope

    def follow(intermediate_result):
        for p, found in zip(
            params, _unpacked(intermediate_result.x, params), strict=True
        ):
            p[...] = found
        if after(float(intermediate_result.fun)):
            raise StopIteration

    options = {"maxiter": max_iter, "maxfun": 20 * max_iter + 20, "gtol": tol}
    with single_threaded_blas:
        minimize(
            objective,
            _packed(params).astype(np.float64),
            jac=True,
            method="L-BFGS-B",
            callback=follow,
            # The derivatives say when to stop, not a small gain.
            options={**options, "ftol": 10 * np.finfo(float).eps},
        )


def _sums(network, params, X, targets, rows):
    """Mean loss and its gradient over many rows."""
    loss, slope = 0.0, 0.0
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        inputs = dense(X[part], params[0].dtype)
        own, grads = network.loss_and_grads(
            params, inputs, targets[part], scale=1 / len(rows)
        )
        loss, slope = loss + own, slope + _packed(grads)
    return loss, slope


def _packed(arrays):
    return np.concatenate([each.ravel() for each in arrays])


def _unpacked(vector, like):
    ends = np.cumsum([each.size for each in like])
    parts = np.split(vector, ends[:-1])
    return [part.reshape(each.shape) for part, each in zip(parts, like, strict=True)]


def outputs(network, params, X, hidden=False, numbers=None):
    """What the net says of rows of data, or of those with these numbers.

    Its outputs or, if `hidden`, the activities of the last hidden layer, a chunk of
    rows at a time.
    """
    dtype, found = params[0].dtype, []
    for start in range(0, X.shape[0] if numbers is None else len(numbers), CHUNK):
        part = slice(start, start + CHUNK)
        rows = X[part if numbers is None else numbers[part]]
        if not goes_by_lists(rows):
            rows = dense(rows, dtype)
        activities = network.forward(params, rows)
        found.append(activities[-2 if hidden else -1].copy())
    return np.concatenate(found)
