"""A small feed-forward net: its passes, its objective, and what it drops out.

Parameters are a list of arrays ``[weights, bias, weights, bias, ...]`` from the bottom
up, weights of shape (n_inputs, n_units). `Network` is a function of them and keeps
only room to work in; what changes them is in _descent.py. Products and draws are
compiled and give the same bits on any number of threads.
"""

import numpy as np
import scipy.sparse as sp

from ._passes import activate, cross_entropy, multiply_by_slopes
from ._products import goes_by_lists, product, single_threaded_blas, sparse_product
from ._units import Wanted, evaluate
from ._validation import dense
from .units import Bernoulli

# Rows that are worked on at a time where a step or an answer needs all of them.
CHUNK = 1024


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

    output_decay : float or None, default=None
        The same for the weights of the output; None takes `weight_decay`.
    """

    # Which weights of the first layer there are, where not all of them (see `Descent`).
    connected = None

    def __init__(self, output, weight_decay=0.0, output_decay=None):
        self.output, self.weight_decay = output, weight_decay
        self.output_decay = weight_decay if output_decay is None else output_decay
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
            decay = self.decays(len(weights))[layer]
            grads[2 * layer] = self._weight_gradient(layer, W, inputs, delta, decay)
            out = self._room(("bias", layer), (W.shape[1],), W.dtype)
            grads[2 * layer + 1] = delta.sum(axis=0, out=out)
            if layer:
                below = self._room(("down", layer), inputs.shape, W.dtype)
                product(delta, W, b_turned=True, out=below, n_threads=self.n_threads)
                multiply_by_slopes(below, inputs, masks[layer], self.n_threads)
                delta = below
        return loss + self._penalty(weights), grads

    def decays(self, n_layers):
        """Strengths of the penalty on the weights of each layer."""
        return [self.weight_decay] * (n_layers - 1) + [self.output_decay]

    def _weight_gradient(self, layer, W, inputs, delta, decay):
        grad = self._room(("weights", layer), W.shape, W.dtype)
        if decay:
            grad[...] = W
        product(
            inputs,
            delta,
            a_turned=True,
            out=grad,
            beta=decay,
            n_threads=self.n_threads,
        )
        return grad

    def _penalty(self, weights):
        pairs = zip(self.decays(len(weights)), weights, strict=True)
        with single_threaded_blas:
            return 0.5 * sum(
                decay * float(np.vdot(W, W)) for decay, W in pairs if decay
            )

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
