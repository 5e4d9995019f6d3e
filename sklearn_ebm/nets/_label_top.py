"""Deep belief nets whose top learns means and labels together.

The layers below the top are trained greedily, without labels; the two at the top are
an `RBMClassifier`, whose visible units are the means of the last layer below and the
label. An estimator keeps the arrays of all, from which `top_of` builds that machine.
"""

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from .._gibbs import Purpose
from .._keeping import undo_if_nothing_learned
from .._machines import Machine
from .._network import Network, outputs
from .._rows import Rows
from .._training import epochs_of
from .._validation import check_restored, check_rows
from ..boltzmann._faults import REAL_FEATURES
from ..boltzmann._fitted_rbm_classifier import scores_of
from ..boltzmann._labels import warn_of_few_labels
from ..boltzmann._sampling import PASS_KEY
from ..boltzmann._stack import (
    FIRST_ROWS,
    STACK_EPOCHS,
    LayerTasks,
    as_part,
    new_stack,
    pretrain,
    recognition,
)
from ..boltzmann._structure import check_structure
from ..boltzmann.rbm_classifier import RBMClassifier
from ..layered import Layered
from ..units import Gaussian

# Learning rate and epochs of the top by default: in minibatches of 20 rows and with a
# rate that falls to zero, it goes as far as `RBMClassifier` does by default.
TOP_RATE, TOP_EPOCHS = 0.4, 100
# Attributes that only a net with such a top has.
ATTRIBUTES = [
    "generative_intercepts_",
    "label_components_",
    "intercept_label_",
    "variance_",
    "_sampling_key",
    "_sampling_step",
]


def check_generative(model):
    """Refuse parameters that make no sense with a top that knows the labels."""
    if not model.pretrain:
        raise ValueError(
            "objective='generative' needs pretrain=True: nothing else trains the "
            "layers below the top."
        )
    if len(model._hidden_sizes) == 1 and model.visible != "bernoulli":
        raise ValueError(
            f"visible={model.visible!r} with objective='generative' takes at least two "
            "hidden layers, since the top has binary visible units; got "
            f"hidden_layer_sizes={model.hidden_layer_sizes!r}."
        )


# ---- Training ----


@undo_if_nothing_learned
def train(model, X, y, classes=None, task=None):
    """Train a net: greedily below the top, then the top with the labels.

    Parameters
    ----------
    model : DBNClassifier
        The net, which is changed. If it goes on from an earlier call, only its top
        is trained.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training data.

    y : array-like of shape (n_samples,)
        Labels.

    classes : ndarray of shape (n_classes,) or None, default=None
        All labels there will be. None takes those of y.

    task : Task or None, default=None
        The `fit` that this is. Without one it is a pass of `partial_fit`.
    """
    one_pass = task is None
    goes_on = hasattr(model, "_state") and (one_pass or model.warm_start)
    checked, rows, labels, targets = _check(model, X, y, classes, goes_on, one_pass)
    top = _new_top(model)
    rbms, dtype, weighted = [], rows.dtype, None
    if goes_on:
        top.__dict__.update(_fitted_top(model))
        weighted, dtype = model.intercept_label_, model.coefs_[0].dtype
    else:
        rbms = _new_rbms(model, top.random_state, len(labels))
    tasks = LayerTasks(task)
    try:
        if rbms:
            pretrain(rbms, checked, tasks)
        below = _below(model) if goes_on else _parameters(rbms, dtype)
        if tasks.stopped:
            _give_first_parameters(top, below, checked, labels, targets["classes"])
        else:
            H = means_below(below, checked, dtype)
            with tasks.around(top):
                if one_pass:
                    top.partial_fit(H, labels, targets["classes"])
                else:
                    top.fit(H, labels)
            if not one_pass and top.n_iter:
                remedies = ["more epochs", REAL_FEATURES, "one hidden layer"]
                top._warn_of_constant_labels(H, remedies, model)
    except KeyboardInterrupt:
        if not goes_on and all(hasattr(rbm, "components_") for rbm in rbms):
            below = _parameters(rbms, dtype)
            _give_first_parameters(top, below, checked, labels, targets["classes"])
        raise
    finally:
        # Also when interrupted: what has been learned is kept. (A top that has learned
        # nothing still has the label biases of the net, weights of classes and all.)
        if hasattr(top, "components_") and top.intercept_label_ is not weighted:
            _store(model, rbms, top, targets, goes_on)


def _check(model, X, y, classes, goes_on, one_pass):
    """Check data and labels: X, its Rows, the labels, and what is known of targets."""
    checked = model._check_targets(y)
    labels, _ = checked
    if goes_on:
        check_structure(model, model._state["structure"])
    X, rows = check_rows(model, X, reset=not goes_on, quiet=True)
    check_consistent_length(X, labels)
    # (Refuses y without any label where the classes are to be found in it.)
    targets = model._state if goes_on else model._first_targets(checked, classes)
    # (Refuses labels that are none of the classes.)
    codes, _ = model._targets(checked, targets)
    if not one_pass and model.n_iter != 0:
        warn_of_few_labels(codes, len(codes), "discriminative")
    if goes_on and not one_pass:
        model._reweigh(codes)
        targets = model._state
    return X, rows, labels, targets


def _new_top(model):
    rate = TOP_RATE if model.learning_rate is None else model.learning_rate
    top = RBMClassifier(
        model._hidden_sizes[-1],
        objective="generative",
        learning_rate=rate,
        learning_rate_schedule=model.learning_rate_schedule,
        batch_size=model.batch_size,
        n_iter=TOP_EPOCHS if model.n_iter is None else model.n_iter,
        weight_decay=model.weight_decay or 0.0,
        early_stopping=model.early_stopping,
        validation_fraction=model.validation_fraction,
        n_iter_no_change=model.n_iter_no_change,
        tol=model.tol,
        unlabeled=model.unlabeled,
        warm_start=model.warm_start,
        verbose=model.verbose,
        random_state=check_random_state(model.random_state),
    )
    return as_part(top, model, "top")


def _new_rbms(model, rng, n_rows):
    """Machines below the top; the numbers of tuples for the top are not used."""

    def below(value):
        return value[:-1] if np.ndim(value) else value

    return new_stack(
        model,
        model._hidden_sizes[:-1],
        rng,
        learning_rate=below(model.pretrain_learning_rate),
        n_iter=epochs_of(below(model.pretrain_n_iter), n_rows, *STACK_EPOCHS),
        batch_size=model.pretrain_batch_size,
        pretrains_net=True,
        persistent=False,
        learning_rate_schedule="constant",
    )


def _give_first_parameters(top, below, X, labels, classes):
    """Give a top its first parameters if its training has not come to that."""
    if hasattr(top, "components_"):
        return
    H = means_below(below, X[:FIRST_ROWS], below[0][0].dtype if below[0] else None)
    top.set_params(early_stopping=False)._begin_only(H, labels[:FIRST_ROWS], classes)


def _store(model, rbms, top, targets, goes_on):
    """Keep what machines have learned, and what the top needs to go on."""
    if goes_on:
        weights, biases = _below(model)
        visible = model.generative_intercepts_[:-1]
    else:
        targets = targets | {"structure": model._structure()}
        for name in [*ATTRIBUTES, "n_outputs_", "out_activation_"]:
            model.__dict__.pop(name, None)
        weights, biases = _parameters(rbms, top.components_.dtype)
        visible = [rbm.intercept_visible_ for rbm in rbms]
        if rbms and model.visible == "gaussian":
            model.variance_ = rbms[0].variance_
        model._sampling_key, model._sampling_step = top._sampling_key, 0
    # Of a joint model, weights of the classes only move the biases of the labels.
    weight = np.maximum(targets["class_weight"], np.finfo(np.float32).tiny)
    label = top.intercept_label_ + np.log(weight).astype(top.intercept_label_.dtype)
    model.__dict__.pop("best_n_iter_", None)
    if hasattr(top, "best_n_iter_"):
        model.best_n_iter_ = top.best_n_iter_
    model.__dict__.update(
        classes_=targets["classes"],
        coefs_=[*weights, np.ascontiguousarray(top.components_.T)],
        intercepts_=[*biases, top.intercept_hidden_],
        generative_intercepts_=[*visible, top.intercept_visible_],
        label_components_=top.label_components_,
        intercept_label_=label,
        n_layers_=len(weights) + 2,
        n_iter_=top.n_iter_,
        history_=top.history_,
        _state={**targets, "top": top._state},
    )


# ---- Use ----


def is_generative(model):
    """Whether a fitted net has a top that knows the labels."""
    return "top" in getattr(model, "_state", ())


def top_of(model):
    """Return the machine at the top of a fitted net: a fitted `RBMClassifier`."""
    top = RBMClassifier(len(model.intercepts_[-1]), objective="generative")
    top.__dict__.update(_fitted_top(model))
    return top


def _fitted_top(model):
    """Return the fitted attributes of the machine at the top."""
    same = [
        "classes_",
        "label_components_",
        "intercept_label_",
        "n_iter_",
        "history_",
        "_sampling_key",
        "_sampling_step",
    ]
    if hasattr(model, "best_n_iter_"):
        same.append("best_n_iter_")
    weights, state = model.coefs_[-1], model._state["top"]
    return {name: getattr(model, name) for name in same} | {
        "components_": np.ascontiguousarray(weights.T),
        "intercept_hidden_": model.intercepts_[-1],
        "intercept_visible_": model.generative_intercepts_[-1],
        "visible_mean_": state["visible_mean"].astype(weights.dtype),
        "n_features_in_": len(weights),
        "_state": state,
    }


def means_below(below, X, dtype):
    """Visible units of the top, but for the label: X itself if there is one layer.

    Parameters
    ----------
    below : tuple of list of ndarray
        Weights and biases of the layers below the top, from the bottom up.

    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Validated data.

    dtype : dtype
        What to compute in.

    Returns
    -------
    means : {ndarray, sparse matrix} of shape (n_samples, n_units)
        Means, each layer given those of the one below.
    """
    params = [
        each.astype(dtype, copy=False)
        for pair in zip(*below, strict=True)
        for each in pair
    ]
    if not params:
        return X
    means = outputs(Network(None), params, X)
    return expit(means, out=means)


def outputs_of(model, X, rows, hidden=False):
    """``log p(y|x)`` less its mean over the labels or, if `hidden`, the top's means."""
    H = means_below(_below(model), X, rows.dtype)
    found = Rows(H, rows.dtype, False)
    scores, means = scores_of(H, found, top_of(model)._parameters(), hidden)
    if hidden:
        return means
    return (scores - scores.mean(axis=1, keepdims=True)).astype(rows.dtype)


def sample(model, n_samples, y, n_gibbs_steps, random_state):
    """Draw from the top, and then pass down once."""
    top = top_of(model)
    # (A generator is drawn from once, for the top and the pass.)
    key, step = top._draws(random_state)
    top._sampling_key, top._sampling_step = key, step
    states = top.sample(n_samples, y=y, n_gibbs_steps=n_gibbs_steps)
    if random_state is None:
        model._sampling_step = top._sampling_step + len(model.coefs_)
    n_below = len(model.coefs_) - 1
    for number in reversed(range(n_below)):
        down = Machine(_layers(model, number), states.dtype).down
        at = step + n_below - 1 - number
        states = down.draw(states, key ^ PASS_KEY, at, Purpose.DRAW_VISIBLE)
    return np.asarray(states, model.coefs_[0].dtype)


def check_shapes(model):
    """Refuse a restored net whose arrays do not fit each other."""
    n_classes = len(model.classes_)
    shapes = {
        "generative_intercepts_": [(len(weights),) for weights in model.coefs_],
        "label_components_": (len(model.intercepts_[-1]), n_classes),
        "intercept_label_": (n_classes,),
    }
    check_restored(model, shapes)


def _layers(model, number):
    """Return a layer below the top with the one below it."""
    bias, unit = model.generative_intercepts_[number], "bernoulli"
    if number == 0 and hasattr(model, "variance_"):
        scale = np.sqrt(model.variance_.astype(float))
        bias, unit = np.zeros(len(bias)), Gaussian(bias.astype(float), scale)
    return Layered(
        (unit, "bernoulli"),
        (model.coefs_[number],),
        (bias, model.intercepts_[number]),
    )


def _below(model):
    """Weights and biases of the layers below the top."""
    return model.coefs_[:-1], model.intercepts_[:-1]


def _parameters(rbms, dtype):
    """Weights and biases of the way up through machines, as arrays of their own."""
    weights, biases = recognition(rbms) if rbms else ([], [])
    return tuple(
        [np.array(each, dtype, order="C") for each in layers]
        for layers in (weights, biases)
    )
