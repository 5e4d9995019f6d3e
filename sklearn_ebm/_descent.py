"""How a net is trained: optimisers, epochs of minibatches, and L-BFGS.

Optimisers change parameters in place and know nothing of the net (see _network.py);
`Descent` brings both together with rows of data.
"""

import numpy as np
from scipy.optimize import minimize

from ._network import CHUNK, Network
from ._passes import adam_step, cap_columns, momentum_step
from ._products import product, single_threaded_blas
from ._validation import dense

# Adam's shares of the past in the running means of the gradient and its square.
MEAN_DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8


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
    plain, decays = Network(network.output), network.decays(len(params) // 2)

    def objective(vector):
        at = _unpacked(vector, params)
        loss, slope = _sums(plain, at, X, targets, rows)
        if any(decays):
            pulls = [np.zeros_like(p) for p in at]
            pulls[::2] = [decay * W for decay, W in zip(decays, at[::2], strict=True)]
            slope += _packed(pulls)
            pairs = zip(pulls[::2], at[::2], strict=True)
            loss += 0.5 * sum(np.vdot(pull, W) for pull, W in pairs)
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
