"""Multi-prediction training of deep Boltzmann machines with labels among their units.

Folded (see `Layered.folded`), a deep machine has two sides. The even one holds the
inputs, the label (a group of units of which one is on) and the latent even layers; of
every row some inputs and perhaps the label are observed, or all inputs and not the
label, as in use. Mean field starts from the means of the other even units under their
biases, and in every step

    odd = logistic(even W + c),    fields = odd W' + b,

and then every even unit that is not observed takes the mean of its field. The loss is
the cross-entropy of the inputs and the label that were not observed, as the last step
predicts them, and its gradient goes back through all steps.
"""

from itertools import pairwise

import numpy as np
from scipy.special import expit, log_softmax, logit

from .._missing import missing_values, observed_means
from .._network import outputs
from .._passes import activate, multiply_by_slopes
from .._products import product, single_threaded_blas
from .._validation import check_rows, dense
from ..boltzmann._faults import warn_of_constant_labels
from ..boltzmann._starts import BITS_RATE, SMALL, log_odds, start_of_bits
from ..boltzmann._structure import component_shapes
from ..layered import Layered, blocks, connections, unfolded

# Parameters of `DBMClassifier` that are for nets.
REFUSED = "input_dropout", "dropout", "max_norm"
# Largest norm of the gradient. What goes back through many steps can explode.
LONGEST = 1.0
# Share of the labels that are told in a minibatch.
TOLD = 0.5
# Share of the rows with a label that observe all inputs and are asked for the label: of
# few inputs a random half does not say what all of them do, and of many, that of the
# inputs is nearly all of the loss.
WHOLE = 0.5


class MultiPredictionNet:
    """Mean field as a net: a pure function of parameters, rows and what is observed.

    Its parameters are ``[W, c, b]``: weights of shape (n_even, n_odd), biases of odd
    units and biases of even units, which are inputs, classes and latent units.

    Parameters
    ----------
    n_inputs : int
        Number of inputs.

    class_weight : array-like of shape (n_classes,)
        Weight in the loss of the labels.

    n_steps : int
        Mean-field steps.

    connected : ndarray of bool of shape (n_even, n_odd)
        Which units are connected.

    weight_decay : float, default=0.0
        Strength of the penalty ``weight_decay / 2 * sum W^2``.

    longest : float, default=inf
        Largest Euclidean norm of the derivatives of the loss: longer ones are scaled
        back to it.
    """

    def __init__(
        self,
        n_inputs,
        class_weight,
        n_steps,
        connected,
        weight_decay=0.0,
        longest=np.inf,
    ):
        self.n_inputs, self.n_steps, self.connected = n_inputs, n_steps, connected
        self.class_weight = np.asarray(class_weight, float)
        self.labels = slice(n_inputs, n_inputs + len(self.class_weight))
        self.weight_decay, self.longest = weight_decay, longest
        self.n_threads = 0  # as many as there are, unless training says how many

    def forward(self, params, X):
        """Predict labels, given all inputs that are not NaN.

        Parameters
        ----------
        params : list of ndarray
            Weights and biases.

        X : {ndarray, sparse matrix} of shape (n_rows, n_inputs)
            Inputs, NaN where they are missing.

        Returns
        -------
        found : list of ndarray
            Means of the latent units (of the odd ones if there are none) and fields
            of the classes.
        """
        W = params[0]
        X, n_rows = dense(X, W.dtype), X.shape[0]
        alone = W.shape[0] == self.labels.stop
        n_hidden = W.shape[1] if alone else W.shape[0] - self.labels.stop
        hidden = np.empty((n_rows, n_hidden), W.dtype)
        fields = np.empty((n_rows, len(self.class_weight)), W.dtype)
        whole = ~np.isnan(X).any(axis=1)
        # Inputs that are all observed are added up once.
        for rows, n_given in [(whole, self.n_inputs), (~whole, 0)]:
            if not rows.any():
                continue
            start, observed = self._first_means(params, X[rows], None, None)
            for last in self._steps(params, start, observed, n_given):
                even, odd, found = last
            fields[rows] = found[:, self._classes(n_given)]
            hidden[rows] = odd if alone else even[:, self.labels.stop :]
        return [hidden, fields]

    def loss_and_grads(self, params, X, targets, masks, scale=None):
        """Evaluate the objective and its derivatives.

        Parameters
        ----------
        params : list of ndarray
            Weights and biases.

        X : ndarray of shape (n_rows, n_inputs)
            Inputs, NaN where they are missing.

        targets : ndarray of int32 of shape (n_rows,)
            Numbers of the classes, -1 where they are not known.

        masks : list of ndarray of bool
            Of shapes (n_rows, n_inputs) and (n_rows, 1): which inputs and labels are
            observed; the others are to be predicted. Of shape (n_rows, 1): rows of
            which that is not true; if they have a label, they observe all inputs and
            are asked for nothing but this.

        scale : float, default=None
            By what the sum of the losses of the rows is multiplied; None takes their
            mean.

        Returns
        -------
        loss : float
            The objective, in nats.

        grads : list of ndarray
            Its derivatives by the parameters.
        """
        scale = 1 / len(X) if scale is None else scale
        even, observed = self._first_means(params, X, targets, masks)
        trace = [(even, None, None)]
        trace += list(self._steps(params, even, observed, 0))
        loss, delta = self._loss(trace[-1][2], X, targets, observed, scale)
        grads = self._gradients(params, trace, observed, delta)
        grads[0] *= self.connected
        self._shorten(grads)
        if self.weight_decay:
            W = params[0]
            grads[0] += W.dtype.type(self.weight_decay) * W
            with single_threaded_blas:
                loss += 0.5 * self.weight_decay * float(np.vdot(W, W))
        return loss, grads

    def _shorten(self, grads):
        """Scale derivatives back that are longer than they may be, in place."""
        with single_threaded_blas:
            norm = np.sqrt(sum(float(np.vdot(grad, grad)) for grad in grads))
        if norm > self.longest:
            for grad in grads:
                grad *= grad.dtype.type(self.longest / norm)

    def _first_means(self, params, X, targets, masks):
        """Means of the even units before the first step, and which are observed."""
        W, _, b = params
        n_rows = len(X)
        start = np.zeros((n_rows, len(b)), W.dtype)
        self._means(start, b)
        observed = np.zeros(start.shape, bool)
        known = ~np.isnan(X)
        if masks is not None:
            labelled = targets[:, np.newaxis] >= 0
            whole = labelled & masks[2]
            known &= whole | masks[0]
            told = labelled & ~whole & masks[1]
            on = targets[:, np.newaxis] == np.arange(len(self.class_weight))
            observed[:, self.labels] = told
            np.copyto(start[:, self.labels], on, where=told)
        observed[:, : self.n_inputs] = known
        np.copyto(start[:, : self.n_inputs], X, where=known)
        return start, observed

    def _steps(self, params, even, observed, n_given):
        """Yield means of even and of odd units and fields of even ones, step by step.

        The first n_given units are observed in all rows; nothing is said of their
        fields.
        """
        W, c, b = params
        free, first = W[n_given:], even
        base = None
        if n_given:
            given = np.ascontiguousarray(even[:, :n_given])
            base = product(given, W[:n_given], n_threads=self.n_threads)
        for _ in range(self.n_steps):
            moving = np.ascontiguousarray(even[:, n_given:])
            odd = product(
                moving,
                free,
                out=None if base is None else base.copy(),
                beta=0.0 if base is None else 1.0,
                n_threads=self.n_threads,
            )
            activate(odd, c, None, self.n_threads)
            fields = product(odd, free, b_turned=True, n_threads=self.n_threads)
            even = np.array(first)
            new = even[:, n_given:]
            means = fields.copy()
            fields += b[n_given:]
            self._means(means, b[n_given:], n_given)
            np.copyto(new, means, where=~observed[:, n_given:])
            yield even, odd, fields

    def _means(self, fields, bias, n_given=0):
        """Turn fields without biases into means."""
        classes = self._classes(n_given)
        own = _softmax(fields[:, classes] + bias[classes])
        activate(fields, bias, None, self.n_threads)
        fields[:, classes] = own

    def _classes(self, n_given):
        """Where the classes are among the even units after the first n_given."""
        return slice(self.labels.start - n_given, self.labels.stop - n_given)

    def _loss(self, fields, X, targets, observed, scale):
        """Cross-entropy of what was not observed, and its derivative by the fields."""
        delta = np.zeros_like(fields)
        found = fields[:, : self.n_inputs]
        wanted = ~observed[:, : self.n_inputs] & ~np.isnan(X)
        # Targets are probabilities, also where the user was warned that some are not.
        values = np.clip(np.where(wanted, X, 0), 0, 1)
        losses = np.logaddexp(0, found, dtype=float) - values * found
        total = losses[wanted].sum()
        means = found.copy()
        activate(means, np.zeros(self.n_inputs, means.dtype), None, self.n_threads)
        delta[:, : self.n_inputs] = np.where(wanted, means - values, 0) * scale
        asked = np.flatnonzero((targets >= 0) & ~observed[:, self.labels.start])
        if len(asked):
            codes = targets[asked]
            weights = self.class_weight[codes]
            logs = log_softmax(fields[asked, self.labels].astype(float), axis=1)
            total -= weights @ logs[np.arange(len(asked)), codes]
            slope = np.exp(logs)
            slope[np.arange(len(asked)), codes] -= 1
            delta[asked, self.labels] = slope * (weights * scale)[:, np.newaxis]
        return float(total) * scale, delta

    def _gradients(self, params, trace, observed, delta):
        """Derivatives by the parameters; delta is that by the last fields."""
        W, c, b = params
        gW, gc, gb = np.zeros_like(W), np.zeros_like(c), np.zeros_like(b)
        add = {"out": gW, "beta": 1.0, "n_threads": self.n_threads}
        for t in range(len(trace) - 1, 0, -1):
            odd, before = trace[t][1], trace[t - 1][0]
            gb += delta.sum(axis=0)
            product(delta, odd, a_turned=True, **add)
            below = product(delta, W, n_threads=self.n_threads)
            multiply_by_slopes(below, odd, None, self.n_threads)
            gc += below.sum(axis=0)
            product(before, below, a_turned=True, **add)
            delta = product(below, W, b_turned=True, n_threads=self.n_threads)
            delta[observed] = 0
            # Of a softmax: mean_k (delta_k - sum_j delta_j mean_j).
            own = delta[:, self.labels] * before[:, self.labels]
            own -= before[:, self.labels] * own.sum(axis=1, keepdims=True)
            multiply_by_slopes(delta, before, None, self.n_threads)
            delta[:, self.labels] = own
        # Even units start from means under their biases.
        gb += delta.sum(axis=0)
        return [gW, gc, gb]


class Observed:
    """Draws what rows of minibatches observe (see `MultiPredictionNet`).

    A row observes any share of its inputs, each as probable: a net that has always
    seen half of them takes what it misses for evidence.

    Parameters
    ----------
    n_inputs : int
        Number of inputs.

    key : int
        Determines, with the number of the step, what is drawn.
    """

    def __init__(self, n_inputs, key):
        self.n_inputs, self.key = n_inputs, key

    def masks(self, n_rows, step):
        """Return the masks of a minibatch."""
        rng = np.random.default_rng([self.key, step])
        shares, told, whole = rng.random((3, n_rows, 1), np.float32)
        inputs = rng.random((n_rows, self.n_inputs), np.float32) < shares
        return [inputs, told < TOLD, whole < WHOLE]


def _softmax(fields):
    """Probabilities of classes with these fields, a row for every row."""
    # (At every step: what SciPy's looks at first is some percent of a minibatch.)
    odds = np.exp(fields - fields.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    return odds


def _folded(weights, biases):
    """Parameters of the net, from weights and biases of layers."""
    units = ("bernoulli",) * len(biases)
    layers = Layered(units, tuple(weights), tuple(biases)).folded()
    return [np.ascontiguousarray(layers.weights[0]), *layers.biases[::-1]]


# ---- What `DBMClassifier` does with objective="multi_prediction" ----


def read(model, X, reset):
    """Validate data in which values may be missing: X, and its `Rows` without."""
    given = []

    def fill(X):
        given.append(X)
        missing = missing_values(X)
        if missing is None:
            return X
        # Training begins with the columns' means, which are to stay what they are.
        means = observed_means(X, missing) if reset else np.zeros(X.shape[1])
        return np.where(missing, means.astype(X.dtype), X)

    _, rows = check_rows(model, X, reset=reset, fill=fill, quiet=not reset)
    return given[0], rows


def first_params(model, rows, state, rng):
    """Return the parameters of a machine that has learned nothing."""
    n_classes = state["n_outputs"]
    sizes = _sizes(model, rows.n_columns, n_classes)
    weights = [rng.normal(0, SMALL, shape) for shape in pairwise(sizes)]
    rates = [np.full(size, BITS_RATE) for size in sizes[1:]]
    odds = log_odds(rows.column_means, rows.n_rows)
    # With hidden units that are on for half of the rows, training would first spend
    # long on what all of them do together.
    biases = start_of_bits(
        weights,
        [np.append(expit(odds), np.full(n_classes, 1 / n_classes)), *rates],
        [np.append(odds, np.zeros(n_classes)), *map(logit, rates)],
    )
    return [each.astype(rows.dtype) for each in _folded(weights, biases)]


def _sizes(model, n_features, n_outputs):
    """Numbers of units of the layers of the machine, the visible ones first."""
    return [n_features + n_outputs, *model._hidden_sizes]


def warn_of_faults(model, X):
    """Warn if the probabilities of labels hardly differ from row to row."""
    network, params = model._network(model._state), model._params()
    warn_of_constant_labels(
        model,
        lambda rows: outputs(network, params, model._inputs(rows)),
        X,
        ["more epochs", "objective='fine_tuning'"],
    )


def offsets(model, X):
    """Return means of the even units: of inputs over the rows X, of others at first."""
    weights, n_classes = model._state["params"][0], model._state["n_outputs"]
    X = dense(X, weights.dtype)
    known = ~np.isnan(X)
    means = np.full(len(weights), BITS_RATE, weights.dtype)
    n_known = np.maximum(known.sum(axis=0), 1)
    means[: X.shape[1]] = np.where(known, X, 0).sum(axis=0) / n_known
    means[X.shape[1] :][:n_classes] = 1 / n_classes
    return [means]


def network(model, state, weight_decay):
    """Return the net."""
    n_classes = state["n_outputs"]
    sizes = _sizes(model, model.n_features_in_, n_classes)
    return MultiPredictionNet(
        model.n_features_in_,
        state["class_weight"],
        model.n_mean_field_steps,
        connections(sizes),
        weight_decay,
        LONGEST,
    )


def masks(model, state):
    """Return what draws which inputs and labels are observed."""
    return Observed(model.n_features_in_, state["key"])


def public(model, params, state):
    """Return the public attributes of a machine with these parameters."""
    W, c, b = params
    sizes = _sizes(model, model.n_features_in_, state["n_outputs"])
    weights = [block.T for block in blocks(W, sizes)]
    return {
        "components_": [np.ascontiguousarray(each) for each in weights],
        "dbm_intercepts_": unfolded(b, c, sizes),
    }


def params(model):
    """Return the parameters that public attributes hold."""
    return _folded([each.T for each in model.components_], model.dbm_intercepts_)


def n_features_out(model):
    """Return the number of latent units, or of odd ones if there are none."""
    sizes = [len(bias) for bias in model.dbm_intercepts_]
    return sum(sizes[2::2]) or sizes[1]


def damage(model):
    """Return what is wrong with public attributes, or None."""
    layers = [len(bias) for bias in model.dbm_intercepts_]
    shapes = [each.shape for each in model.components_]
    n_visible = model.n_features_in_ + model.n_outputs_
    if shapes != component_shapes(layers) or layers[0] != n_visible:
        return f"components_ have shapes {shapes}, dbm_intercepts_ {layers}"
    return None
