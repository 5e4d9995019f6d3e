"""RBMClassifier: its law by enumeration, its gradients, its chains, its labels."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_softmax, logsumexp, softmax
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.datasets import make_circles
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import minmax_scale
from threadpoolctl import threadpool_limits

from common import (
    CLASSIFIERS,
    all_states,
    assert_same,
    assert_same_model,
    fitted_floats,
    fitted_state,
    floats,
    name_of,
    run_on_threads,
    soon_interrupted,
)
from reference import (
    DRAW_DATA,
    DRAW_HIDDEN,
    DRAW_VISIBLE,
    SEED,
    bernoulli,
    generator,
    random_words,
)
from sklearn_ebm import DBMClassifier, DBNClassifier, RBMClassifier
from sklearn_ebm._class_scores import class_scores
from sklearn_ebm._classifier import ClassifierTrainer
from sklearn_ebm._rows import Rows
from sklearn_ebm._training import KnownDivision

KEY = 0x0123456789ABCDEF
DRAW_LABEL, DRAW_ROW_LABEL = 4, 5
LEAST_P = 1e-6
OBJECTIVES = {"discriminative": (1.0, 0.0), "generative": (0, 1), "hybrid": (1, 0.3)}
PARAMETERS = [
    "components_",
    "label_components_",
    "intercept_hidden_",
    "intercept_visible_",
    "intercept_label_",
]

# ---- A machine as plain arrays, and its twin ----


def machine(n_hidden, n_visible, n_classes, *, scale=1.0, dtype=np.float64, seed=0):
    """Weights, label weights, biases: of hidden and visible units and labels."""
    rng = generator(seed)
    shapes = [(n_hidden, n_visible), (n_hidden, n_classes)]
    shapes += [n_hidden, n_visible, n_classes]
    return tuple((scale * rng.normal(size=shape)).astype(dtype) for shape in shapes)


def fields_under(parameters, X):
    """Fields of the hidden units under every class, (n, n_classes, n_hidden)."""
    W, U, c, _, _ = (np.float64(part) for part in parameters)
    return (c + X @ W.T)[:, np.newaxis] + U.T


def label_scores(parameters, X):
    under = np.logaddexp(0, fields_under(parameters, X))
    return parameters[4] + under.sum(axis=-1)


def draw_labels(p, *, step, purpose=DRAW_LABEL):
    """The kernel's draws of labels with probabilities p."""
    words = random_words([0], np.arange(len(p)), step, purpose, KEY)[:, 0]
    u = (words[:, 0] + words[:, 1] / 2.0**32) / 2.0**32
    return (u[:, np.newaxis] >= p.cumsum(axis=1)[:, :-1]).sum(axis=1)


def chain_step(parameters, h, *, step):
    """Visible units, labels, and the means of the hidden units given them."""
    W, _, _, b, d = parameters
    counter = {"key": KEY, "step": step}
    v = bernoulli(expit(b + h @ W), purpose=DRAW_VISIBLE, **counter)
    y = draw_labels(softmax(d + h @ parameters[1], axis=1), step=step)
    return v, y, expit(fields_under(parameters, v)[np.arange(len(v)), y])


def twin_gradient(parameters, X, codes, a, g, *, n_steps=1, step=0, h=None):
    """Gradient of a minibatch, and the last states of its chains."""
    n_classes = parameters[1].shape[1]
    under = expit(fields_under(parameters, X))
    p = softmax(label_scores(parameters, X), axis=1)
    known = (codes >= 0)[:, np.newaxis]
    own = np.where(known, np.eye(n_classes)[codes], p)
    weight = (a * known * (own - p) + g * own) / len(X)
    S = np.einsum("nc,nch->nh", weight, under)
    dW, dU = S.T @ X, np.einsum("nc,nch->hc", weight, under)
    found = [dW, dU, S.sum(axis=0), g * X.mean(axis=0), weight.sum(axis=0)]
    if g == 0:
        return found, None
    if h is None:
        drawn = draw_labels(p, step=step, purpose=DRAW_ROW_LABEL)
        y = np.where(codes >= 0, codes, drawn)
        means = under[np.arange(len(X)), y]
        h = bernoulli(means, key=KEY, step=step, purpose=DRAW_DATA)
    for s in range(step, step + n_steps):
        v, y, means = chain_step(parameters, h, step=s)
        h = bernoulli(means, key=KEY, step=s, purpose=DRAW_HIDDEN)
    one_hot, share = np.eye(n_classes)[y], g / len(v)
    of_chains = [means.T @ v, means.T @ one_hot, means.sum(axis=0)]
    of_chains += [v.sum(axis=0), one_hot.sum(axis=0)]
    return [x - share * z for x, z in zip(found, of_chains, strict=True)], h


def trainer_of(parameters, X, codes, a, g, **options):
    return ClassifierTrainer(
        Rows(X),
        codes,
        parameters,
        batch_size=options.pop("batch_size", len(codes)),
        key=KEY,
        step=options.pop("step", 0),
        discriminative=a,
        generative=g,
        offset=options.pop("offset", np.zeros(X.shape[1])),
        **options,
    )


def division_of(model, labels, fraction):
    """Which rows a model that was fitted to all of them has held out."""
    known, key = np.ones(len(labels), bool), model._state["key"]
    return KnownDivision(known, fraction, key, "labels", True, labels)


def run(trainer, n, *, rate=0.0, n_threads=1):
    """An epoch over n rows in their order."""
    n_batches = -(-n // trainer.batch_size)
    trainer.begin_epoch(np.arange(n), np.full(n_batches, rate))
    trainer.run(0, n_batches * trainer.sweeps_per_batch, n_threads)


def data_for(n, n_visible, n_classes, *, unknown=0.0, dtype=np.float64, kind="dense"):
    """Values in [0, 1], many of them 0 or 1, and numbers of classes."""
    rng = generator(1)
    X = np.clip(rng.normal(0.7, 0.5, (n, n_visible)), 0, 1).astype(dtype)
    if kind != "dense":
        X[rng.random(X.shape) < 0.6] = 0
    if kind == "bits":
        X = (X != 0).astype(dtype)
    codes = rng.integers(n_classes, size=n)
    codes[rng.random(n) < unknown] = -1
    return X, codes.astype(np.int32)


def model_with(parameters):
    """A fitted model with these parameters."""
    W, U = parameters[:2]
    X = np.full((len(U.T), W.shape[1]), 0.5, W.dtype)
    model = RBMClassifier(len(W), n_iter=0, random_state=0)
    model.fit(X, np.arange(len(U.T)))
    vars(model).update(zip(PARAMETERS, parameters, strict=True))
    return model


@pytest.mark.parametrize("objective", ["discriminative", "generative", "hybrid"])
def test_where_training_starts(objective, digits):
    y = np.repeat([0, 1, 2], [1000, 500, 297])
    model = RBMClassifier(256, objective=objective, n_iter=0, random_state=0)
    model.fit(digits, y)
    mean = (digits.sum(axis=0) + 0.5) / 1798
    share = (np.bincount(y) + 0.5) / 1798.5
    means = np.concatenate([mean, share])
    weights = np.hstack([model.components_, model.label_components_])
    hidden, visible = model.intercept_hidden_, model.intercept_visible_
    labels, rate = model.intercept_label_, 0.2
    if objective != "generative":
        # Fields deviate by 1 (as if a row more had been as uncertain as a bit), or by
        # half of that, and are log-odds where the other side is at its mean.
        variance = digits.var(axis=0) * 1797 + mean * (1 - mean)
        sizes = np.full(67, 0.01)
        sizes[:64] = np.sqrt(1798 / variance.sum())
        if objective == "hybrid":
            sizes[:64] /= 2
        hidden = hidden + model.components_ @ digits.mean(axis=0)
        visible = visible + model.components_.sum(axis=0) * rate
    else:
        # Fields of independent units deviate by at most 1, and are log-odds where the
        # other side is at its mean.
        deviation = np.sqrt(means * (1 - means))
        sizes = 2 * deviation / np.sqrt(256 * 0.2 * 0.8)
        hidden = hidden + weights @ means
        visible = visible + model.components_.sum(axis=0) * rate
        labels = labels + model.label_components_.sum(axis=0) * rate
    # 17 152 normal numbers: their spread is known to half a percent.
    assert 0.97 < (weights / sizes).std() < 1.03
    np.testing.assert_allclose(hidden, np.log(rate / (1 - rate)), atol=1e-12)
    np.testing.assert_allclose(visible, np.log(mean / (1 - mean)), atol=1e-12)
    np.testing.assert_allclose(labels, np.log(share), atol=1e-12)


@pytest.mark.parametrize("objective", ["discriminative", "generative", "hybrid"])
def test_rows_held_out_have_no_say_in_the_start(objective, digits, labels):
    model = RBMClassifier(
        5, objective=objective, n_iter=0, early_stopping=True, validation_fraction=0.5
    )
    model.set_params(random_state=0).fit(digits, labels)
    wanted, division = fitted_floats(model), division_of(model, labels, 0.5)
    shares = np.bincount(labels[division.training]) + 0.5
    biases = model.intercept_label_
    if objective == "generative":
        biases = biases + 0.2 * model.label_components_.sum(axis=0)
    np.testing.assert_allclose(biases, np.log(shares / shares.sum()), atol=1e-12)
    X = digits.copy()
    X[division.held_out] = 0.25
    for n_iter in (0, 1):  # a new model, and a fit that goes on
        found = fitted_floats(model.fit(X, labels))
        for name in wanted if n_iter == 0 else ["visible_mean_"]:
            # (Means over the others are differences, which round.)
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-9, atol=1e-12)
        model.set_params(n_iter=1, warm_start=True)


def test_one_row_does_not_say_how_much_features_vary():
    X = generator(36).integers(0, 2, (1, 100)).astype(float)
    model = RBMClassifier(100, n_iter=0, random_state=0).fit(X, [0])
    # (2 / 9 of a row that is as uncertain as can be, and none of the one there is.)
    assert 0.97 < model.components_.std() * np.sqrt(100 / 9) < 1.03


@pytest.mark.thinned(4)
@pytest.mark.parametrize("objective", ["discriminative", "hybrid"])
@pytest.mark.parametrize("online", [False, True])
def test_labels_that_are_not_linear_in_the_features(objective, online):
    # At the defaults, and where training begins with rows that say little.
    rng = generator(35)
    X = (rng.random((1000, 6)) < 0.5).astype(float)
    y = X[:, :2].sum(axis=1) == 1
    model = RBMClassifier(32, objective=objective, random_state=0)
    if online:
        for _ in range(20):
            for k in [0, 1, *range(2, 1000, 50)]:
                stop = k + 1 if k < 2 else k + 50
                model.partial_fit(X[k:stop], y[k:stop], classes=[False, True])
    else:
        model.fit(X, y)
    assert model.score(X, y) == 1


@pytest.mark.parametrize(
    "objective, rate, momentum",
    [("discriminative", 0.1, 0.9), ("hybrid", 0.2, 0.0), ("generative", 0.2, 0.0)],
)
def test_defaults_of_the_objectives(objective, rate, momentum, digits, labels):
    model = RBMClassifier(5, objective=objective, n_iter=2, random_state=0)
    given = clone(model).set_params(learning_rate=rate, momentum=momentum)
    model.fit(digits, labels).partial_fit(digits[:50], labels[:50])
    given.fit(digits, labels).partial_fit(digits[:50], labels[:50])
    assert model.history_["learning_rate"] == [rate] * 3
    assert_same(model.components_, given.components_)


def test_hybrid_without_a_generative_part_is_discriminative(digits, labels):
    settings = {"n_iter": 3, "learning_rate": 0.1, "momentum": 0.5, "random_state": 0}
    models = [
        RBMClassifier(5, objective=objective, alpha=0, **settings).fit(digits, labels)
        for objective in ("hybrid", "discriminative")
    ]
    for name in PARAMETERS[:3]:
        found, wanted = (getattr(model, name) for model in models)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def joint(parameters):
    """log p(v, y, h) less -log Z for all states: (visible, labels, hidden)."""
    W, U, c, b, d = parameters
    v, h = all_states(len(b)), all_states(len(c))
    pairs = v @ W.T @ h.T + (v @ b)[:, np.newaxis] + h @ c
    return pairs[:, np.newaxis] + (d + h @ U).T


def assert_law(counts, p):
    """Counts of states agree with their probabilities."""
    expected = p * counts.sum()
    assert expected.min() > 5
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert chi2.sf(statistic, len(p) - 1) > LEAST_P


def number_of(states):
    """The place of rows of bits in `all_states`."""
    return states.astype(int) @ (1 << np.arange(states.shape[1])[::-1])


# ---- What the model says, by enumeration ----


@floats
@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_probabilities_are_those_of_the_joint(n_classes, dtype):
    parameters = machine(6, 5, n_classes, scale=2, dtype=dtype)
    model, v = model_with(parameters), all_states(5).astype(dtype)
    log_p = joint([np.float64(part) for part in parameters])
    wanted = log_softmax(logsumexp(log_p, axis=2), axis=1)
    tolerance = 1e-10 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(model.predict_log_proba(v), wanted, atol=tolerance)
    np.testing.assert_allclose(
        model.predict_proba(v), np.exp(wanted), atol=tolerance, rtol=tolerance
    )
    np.testing.assert_array_equal(model.predict(v), wanted.argmax(axis=1))


def test_probabilities_and_their_logarithms_agree_where_float32_would_round():
    model = model_with(machine(6, 5, 3, scale=60, dtype=np.float32))
    v = all_states(5).astype(np.float32)
    log_p, p = model.predict_log_proba(v), model.predict_proba(v)
    assert log_p.min() < np.log(np.finfo(np.float32).smallest_subnormal)
    assert (log_p[log_p < 0] > -1e-8).any()
    np.testing.assert_allclose(np.log(p), log_p, rtol=1e-8, atol=1e-15)


def test_transform_sums_the_label_out():
    parameters = machine(6, 5, 3, scale=2)
    of_pair = logsumexp(joint(parameters), axis=1)
    wanted = softmax(of_pair, axis=1) @ all_states(6)
    found = model_with(parameters).transform(all_states(5))
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_free_energy_is_what_remains_of_the_joint():
    parameters, v = machine(6, 5, 3, scale=2), all_states(5)
    model, log_p = model_with(parameters), joint(parameters)
    found = model.free_energy(v)
    np.testing.assert_allclose(found, -logsumexp(log_p, axis=(1, 2)), rtol=1e-10)
    for y in range(3):
        wanted = -logsumexp(log_p[:, y], axis=1)
        np.testing.assert_allclose(model.free_energy(v, y), wanted, rtol=1e-10)
        labels = np.full(len(v), y)
        np.testing.assert_allclose(model.free_energy(v, labels), wanted, rtol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_decision_function_is_in_log_odds(n_classes):
    model, v = model_with(machine(6, 5, n_classes)), all_states(5)
    found, log_p = model.decision_function(v), model.predict_log_proba(v)
    if n_classes == 2:
        wanted = log_p[:, 1] - log_p[:, 0]
    else:
        wanted = log_p - log_p.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


def test_large_fields_neither_overflow_nor_round_to_nothing():
    parameters = machine(40, 5, 3, scale=300)
    v = all_states(5)
    wanted = log_softmax(label_scores(parameters, v), axis=1)
    found = model_with(parameters).predict_log_proba(v)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_many_rows_are_read_in_chunks(digits, labels):
    model = RBMClassifier(20, n_iter=2, random_state=0).fit(digits, labels)
    X = np.tile(digits, (3, 1))
    for method in ("predict_proba", "transform", "free_energy"):
        found, wanted = getattr(model, method)(X), getattr(model, method)(digits)
        assert_same(found, np.concatenate([wanted] * 3))


# ---- Gradients ----


@pytest.mark.parametrize("kind", ["dense", "sparse", "bits"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (70, 33, 2), (3, 4, 1)])
def test_discriminative_gradient_is_that_of_the_log_likelihood(shape, kind):
    parameters = machine(*shape, scale=0.7)
    X, codes = data_for(150, shape[1], shape[2], kind=kind)

    def log_likelihood(parts):
        log_p = log_softmax(label_scores(parts, X), axis=1)
        return log_p[np.arange(len(X)), codes].mean()

    trainer = trainer_of(parameters, X, codes, 1.0, 0.0)
    run(trainer, len(X))
    rng = generator(2)
    for number, gradient in enumerate(trainer.gradients()):
        direction = rng.normal(size=gradient.shape)
        sides = []
        for sign in (1, -1):
            parts = list(parameters)
            parts[number] = parts[number] + sign * 1e-5 * direction
            sides.append(log_likelihood(parts))
        slope = (sides[0] - sides[1]) / 2e-5
        found = (gradient * direction).sum()
        scale = np.abs(gradient * direction).sum()
        assert abs(found - slope) <= 1e-6 * max(scale, 1e-3), PARAMETERS[number]
    assert trainer.seen()[0] == pytest.approx(log_likelihood(parameters), rel=1e-12)


# (rows, chains or None for CD, sweeps, share of unknown labels)
CASES = [
    (1, None, 1, 0),
    (40, None, 1, 0),
    (40, None, 3, 0.5),
    (40, 40, 1, 0),
    (40, 60, 2, 0.5),
    (300, None, 1, 0.3),
    (100, 300, 2, 0.3),
    (300, 100, 1, 0),
]


@pytest.mark.thinned(5)
@floats
@pytest.mark.parametrize("n_hidden", [70, 256])
@pytest.mark.parametrize("kind", ["dense", "sparse", "bits"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradient_is_that_of_the_twin(objective, case, kind, n_hidden, dtype):
    if n_hidden == 256 and case not in CASES[2:4]:
        return
    n, n_chains, n_steps, unknown = case
    a, g = OBJECTIVES[objective]
    # 83 features are neither whole panels nor whole blocks.
    parameters = machine(n_hidden, 83, 5, scale=0.2, dtype=dtype)
    X, codes = data_for(n, 83, 5, unknown=unknown, dtype=dtype, kind=kind)
    chains = None
    if n_chains:
        chains = generator(3).random((n_chains, n_hidden)) < 0.5
    options = {"n_gibbs_steps": n_steps, "step": 2**33 + 5, "chains": chains}
    trainer = trainer_of(parameters, X, codes, a, g, **options)
    run(trainer, n)
    exact = [np.float64(part) for part in parameters]
    h = None if chains is None else chains.astype(float)
    wanted, h = twin_gradient(
        exact, X, codes, a, g, n_steps=n_steps, step=2**33 + 5, h=h
    )
    # A unit whose draw ties with its mean to single precision would differ.
    tolerance = 1e-11 if dtype == np.float64 else 3e-6
    for found, part in zip(trainer.gradients(), wanted, strict=True):
        np.testing.assert_allclose(found, part, rtol=tolerance, atol=tolerance)
    if n_chains and g:
        np.testing.assert_array_equal(trainer.chains(), h)


def centred(gradient, offset):
    """Step of a machine with centred features, in the parameters of the plain one."""
    dW, dU, dc, db, dd = gradient
    dW = dW - np.outer(dc, offset)
    return [dW, dU, dc - dW @ offset, db, dd]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", ["dense", "sparse", "bits"])
@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[5], CASES[6]])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_steps_are_those_of_centred_features(objective, case, kind):
    n, n_chains, n_steps, unknown = case
    a, g = OBJECTIVES[objective]
    parameters = machine(70, 83, 5, scale=0.2)
    X, codes = data_for(n, 83, 5, unknown=unknown, kind=kind)
    offset = generator(4).random(83) * (np.arange(83) % 4 > 0)
    chains, found = None, []
    if n_chains:
        chains = generator(3).random((n_chains, 70)) < 0.5
    for subtracted in (np.zeros(83), offset):
        options = {"n_gibbs_steps": n_steps, "chains": chains, "offset": subtracted}
        trainer = trainer_of(parameters, X, codes, a, g, **options)
        run(trainer, n)
        found.append(trainer.gradients())
    for part, wanted in zip(found[1], centred(found[0], offset), strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-11, atol=1e-11)


def test_nothing_depends_on_which_value_is_called_1():
    # Momentum and decay included; weights change sign, and biases make up for it.
    W, U, c, b, d = machine(9, 20, 3, scale=0.5)
    X, codes = data_for(25, 20, 3)
    mean = X.mean(axis=0)
    turned = [-W, U, c + W.sum(axis=1), -b, d]
    found = []
    for parts, rows, offset in [([W, U, c, b, d], X, mean), (turned, 1 - X, 1 - mean)]:
        trainer = trainer_of(parts, rows, codes, 1.0, 0.0, batch_size=10, offset=offset)
        trainer.momentum = 0.7
        trainer.start_velocity()
        for _ in range(3):
            run(trainer, 25, rate=0.5)
        found.append(label_scores(trainer.parameters(), rows))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10, atol=1e-10)
    before = label_scores([W, U, c, b, d], X)
    assert np.abs(found[0] - before).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["discriminative", "generative", "hybrid"])
def test_features_that_are_always_on_cost_nothing(objective, digits, labels):
    X = np.hstack([digits, np.ones((len(digits), 200))])
    model = RBMClassifier(50, objective=objective, n_iter=20, random_state=0)
    scores = []
    for data in (digits, X):
        model.fit(data[:1200], labels[:1200])
        scores.append(model.score(data[1200:], labels[1200:]))
    assert scores[0] > 0.85
    assert scores[1] > scores[0] - 0.03


@pytest.mark.parametrize("batch_size, factor, alpha", [(10, 10, 0.25), (100, 40, 1.0)])
def test_a_rare_label_counts_as_much_as_a_minibatch_at_most(
    batch_size, factor, alpha, digits, labels, monkeypatch
):
    # One row in forty has a label.
    y = np.where(np.arange(400) % 40 == 0, labels[:400], -1)
    found = {}

    def spy(*args, **settings):
        found.update(settings, trainer=ClassifierTrainer(*args, **settings))
        return found["trainer"]

    monkeypatch.setattr("sklearn_ebm.boltzmann.classifier.ClassifierTrainer", spy)
    settings = {"objective": "hybrid", "alpha": 1.0, "unlabeled": -1, "n_iter": 1}
    model = RBMClassifier(5, batch_size=batch_size, weight_decay=0.1, **settings)
    model.fit(digits[:400], y)
    assert found["discriminative"] == factor
    assert found["generative"] == alpha
    assert found["trainer"].weight_decay == pytest.approx(0.1 * alpha)


def test_labels_that_nothing_tells_apart_are_warned_of():
    X, y = make_circles(300, noise=0.1, factor=0.5, random_state=0)
    X, text = minmax_scale(X), "layer of labels of RBMClassifier hardly tells rows"
    model = RBMClassifier(20, objective="generative", n_iter=20, random_state=0)
    with pytest.warns(ConvergenceWarning, match=text):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(objective="discriminative").fit(X, y)
        model.fit(X[y == 1], y[y == 1])  # of one class


@pytest.mark.slow
def test_rare_labels_are_learned(digits, labels):
    # Two of a kind beside a hundred rows without a label for each of them.
    rows = np.concatenate([np.flatnonzero(labels[:1200] == k)[:2] for k in range(10)])
    X = np.concatenate([digits[rows], digits[:1000], digits[:1000]])
    y = np.concatenate([labels[rows], np.full(2000, -1)])
    model = RBMClassifier(objective="hybrid", unlabeled=-1, n_iter=10, random_state=0)
    assert model.fit(X, y).score(digits[1200:], labels[1200:]) > 0.5


def test_hybrid_gradient_is_a_sum():
    parameters = machine(70, 33, 4, scale=0.3)
    X, codes = data_for(50, 33, 4, unknown=0.2)
    found = {}
    for name, (a, g) in {"a": (1.5, 0), "g": (0, 0.3), "both": (1.5, 0.3)}.items():
        trainer = trainer_of(parameters, X, codes, a, g)
        run(trainer, 50)
        found[name] = trainer.gradients()
    for number, part in enumerate(found["both"]):
        wanted = found["a"][number] + found["g"][number]
        np.testing.assert_allclose(part, wanted, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("spacing", [1, 2, 3, 4])
def test_steps_follow_gradient_momentum_decay_and_average(spacing):
    parameters = machine(9, 20, 3, scale=0.5)
    X, codes = data_for(25, 20, 3)
    trainer = trainer_of(parameters, X, codes, 1.0, 0.0, batch_size=10)
    trainer.momentum, trainer.weight_decay = 0.7, 0.2
    trainer.start_velocity()
    trainer.start_average(spacing)
    run(trainer, 25, rate=0.1)
    parts, path = list(parameters), []
    velocity = [0.0] * 5
    for start in (0, 10, 20):
        rows = slice(start, start + 10)
        gradient, _ = twin_gradient(parts, X[rows], codes[rows], 1, 0)
        for k, decay in enumerate([0.2, 0.2, 0, 0, 0]):
            velocity[k] = 0.7 * velocity[k] + gradient[k] - decay * parts[k]
            parts[k] = parts[k] + 0.1 * velocity[k]
        path.append(list(parts))
    for k in range(5):
        np.testing.assert_allclose(trainer.parameters()[k], parts[k], rtol=1e-11)
        np.testing.assert_allclose(trainer.velocities()[k], velocity[k], rtol=1e-9)
        entered = path[spacing - 1 :: spacing] or path[-1:]
        mean = np.mean([step[k] for step in entered], axis=0)
        np.testing.assert_allclose(trainer.averages()[k], mean, rtol=1e-11)


# ---- Chains ----


def hidden_law(parameters):
    p = logsumexp(joint(parameters), axis=(0, 1))
    return softmax(p)


def chains_after(parameters, h, n_steps):
    """States of persistent chains of the training after some sweeps."""
    X, codes = data_for(1, len(parameters[3]), len(parameters[4]))
    trainer = trainer_of(
        parameters, X, codes, 0.0, 1.0, chains=h, n_gibbs_steps=n_steps, step=SEED << 20
    )
    run(trainer, 1)
    return trainer.chains()


@floats
@pytest.mark.parametrize("start", [0, 5, 7])
def test_one_step_of_the_negative_phase_has_its_law(start, dtype):
    parameters = machine(3, 3, 3, scale=1.2, dtype=dtype)
    exact = [np.float64(part) for part in parameters]
    p = softmax(joint(exact)[:, :, start].ravel())  # of (v, y) given h
    given = softmax(joint(exact), axis=2).reshape(-1, 8)
    h = np.tile(all_states(3)[start], (40_000, 1))
    found = number_of(chains_after(parameters, h, 1))
    assert_law(np.bincount(found, minlength=8), p @ given)


@pytest.mark.parametrize("n_steps", [1, 4, 16])
def test_chains_of_the_training_do_not_drift(n_steps):
    parameters = machine(3, 4, 3, scale=1.2)
    p, rng = hidden_law(parameters), generator(5, n_steps)
    h = all_states(3)[rng.choice(8, size=40_000, p=p)]
    after = chains_after(parameters, h, n_steps)
    assert_law(np.bincount(number_of(after), minlength=8), p)
    assert (after != h).any(axis=1).mean() > 0.1


@pytest.mark.parametrize("y", [None, 0, 2])
@pytest.mark.parametrize("n_steps", [1, 4])
def test_samples_do_not_drift(n_steps, y):
    parameters = machine(4, 3, 3, scale=1.2)
    model, rng = model_with(parameters), generator(6, n_steps)
    log_p = logsumexp(joint(parameters), axis=2)
    p = softmax(logsumexp(log_p, axis=1) if y is None else log_p[:, y])
    init = all_states(3)[rng.choice(8, size=40_000, p=p)]
    after = model.sample(
        40_000, y=y, n_gibbs_steps=n_steps, init=init, random_state=SEED
    )
    assert_law(np.bincount(number_of(after), minlength=8), p)
    assert (after != init).any(axis=1).mean() > 0.1


@pytest.mark.parametrize("y", [None, 1])
def test_one_step_of_sample_has_its_law(y):
    parameters = machine(4, 3, 3, scale=1.2)
    model, log_p = model_with(parameters), joint(parameters)
    start = 5
    labels = softmax(logsumexp(log_p[start], axis=1)) if y is None else np.eye(3)[y]
    h = labels @ softmax(log_p[start], axis=1)
    wanted = h @ softmax(logsumexp(log_p, axis=1), axis=0).T
    init = np.tile(all_states(3)[start], (40_000, 1))
    found = model.sample(40_000, y=y, n_gibbs_steps=1, init=init, random_state=SEED)
    assert_law(np.bincount(number_of(found), minlength=8), wanted)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_every_step_of_sample_draws_labels_anew(n_steps):
    """From bits that are all on, which one of two labels goes with."""
    weights, of_labels = 3 * np.eye(3), np.tile([1.5, -1.5], (3, 1))
    low = np.full(3, -1.5)
    parameters = weights, of_labels, low, low, -of_labels.sum(axis=0) / 2
    log_p = joint(parameters)
    up, down = softmax(log_p, axis=2), softmax(log_p, axis=(0, 1))
    law = np.zeros((8, 2))  # of (v, y)
    law[7] = softmax(logsumexp(log_p[7], axis=1))
    for _ in range(n_steps):
        law = down @ np.einsum("vy,vyh", law, up)
    found = model_with(parameters).sample(
        40_000, n_gibbs_steps=n_steps, init=np.ones((40_000, 3)), random_state=SEED
    )
    assert_law(np.bincount(number_of(found), minlength=8), law.sum(axis=1))


def test_samples_of_a_class_look_like_it(digits, labels):
    known = labels < 2
    model = RBMClassifier(
        32,
        objective="generative",
        persistent=True,
        n_iter=60,
        learning_rate=0.05,
        random_state=0,
    ).fit(digits[known], labels[known])
    y = np.repeat([0, 1], 100)
    found = model.sample(200, y=y, n_gibbs_steps=200, random_state=0)
    for k in (0, 1):
        means = [digits[labels == j].mean(axis=0) for j in (k, 1 - k)]
        near, far = (np.abs(found[y == k].mean(axis=0) - m).mean() for m in means)
        assert near < far / 2


def test_samples_go_on_and_can_be_repeated(digits, labels):
    model = RBMClassifier(8, n_iter=1, random_state=0).fit(digits, labels)
    twin = clone(model).fit(digits, labels)
    first, second = (model.sample(4, n_gibbs_steps=3) for _ in range(2))
    assert not np.array_equal(first, second)
    assert_same([twin.sample(4, n_gibbs_steps=3) for _ in range(2)], [first, second])
    given = [model.sample(4, y=1, n_gibbs_steps=3, random_state=7) for _ in range(2)]
    assert_same(given[0], given[1])


def test_a_sample_for_each_label_or_start(digits, labels):
    model = RBMClassifier(8, n_iter=1, random_state=0).fit(digits, labels)
    steps = {"n_gibbs_steps": 3, "random_state": 0}
    assert_same(
        model.sample(y=[3, 1, 4, 1], **steps), model.sample(4, y=[3, 1, 4, 1], **steps)
    )
    for init in (digits[:5], sp.csr_array(digits[:5]), digits[:5].tolist()):
        assert_same(
            model.sample(init=init, y=3, **steps),
            model.sample(5, init=digits[:5], y=3, **steps),
        )
    assert model.sample(y=3, **steps).shape == model.sample(**steps).shape == (1, 64)
    with pytest.raises(ValueError, match="init has 5 rows, but n_samples=4"):
        model.sample(y=[3, 1, 4, 1], init=digits[:5], **steps)


# ---- Learning ----


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_it_learns_the_digits(objective, digits, labels):
    model = RBMClassifier(64, objective=objective, n_iter=30, random_state=0)
    model.fit(digits[:1200], labels[:1200])
    assert model.score(digits[1200:], labels[1200:]) > 0.88
    assert model.history_["accuracy"][-1] > 0.93
    growth = np.diff(model.history_["log_likelihood"])
    assert growth[:3].min() > 0


def test_labels_of_any_type(digits, labels):
    wanted = RBMClassifier(8, n_iter=2, random_state=0).fit(digits, labels)
    names = np.array([f"digit {k}" for k in range(10)])
    for y in (names[labels], names.astype(object)[labels], labels - 5, labels * 2.0):
        model = clone(wanted).fit(digits, y)
        assert_same(model.predict_proba(digits), wanted.predict_proba(digits))
        assert set(model.predict(digits)) <= set(y)
        found = model.sample(2, y=y[:2], n_gibbs_steps=2)
        assert found.shape == (2, 64)


def test_sparse_bits_and_dense_rows_give_one_model(binary_digits, labels):
    wanted = RBMClassifier(
        9, objective="hybrid", persistent=True, n_iter=2, random_state=0
    )
    wanted.fit(binary_digits.astype(np.float32), labels)
    for X in (
        binary_digits,
        binary_digits.astype(np.uint8),
        sp.csr_array(binary_digits.astype(np.float32)),
        sp.csr_array(binary_digits),
    ):
        model = clone(wanted).fit(X, labels)
        assert_same_model(model, wanted)
        assert_same(model.predict_proba(X), wanted.predict_proba(binary_digits))


def threads_results():
    """Hashes of fits that are large enough for several threads."""
    import joblib

    from common import fitted_state

    rng = np.random.default_rng(0)
    X = np.clip(rng.normal(0, 0.6, (250, 300)), 0, 1)
    y = rng.integers(5, size=250)
    found = {}
    for objective, persistent, dtype in [
        ("discriminative", False, "float32"),
        ("generative", False, "float64"),
        ("hybrid", True, "float32"),
        ("hybrid", False, "float64"),
    ]:
        model = RBMClassifier(
            330,
            objective=objective,
            alpha=0.5,
            persistent=persistent,
            batch_size=200,
            momentum=0.5,
            n_gibbs_steps=2,
            unlabeled=4,
            n_iter=2,
            random_state=0,
        ).fit(X.astype(dtype), y)
        results = [fitted_state(model), model.predict_proba(X), model.transform(X)]
        results.append(model.sample(20, n_gibbs_steps=3))
        found[f"{objective} {persistent} {dtype}"] = joblib.hash(results)
    return found


def test_any_number_of_threads_gives_the_same_bits():
    with threadpool_limits(1):
        wanted = threads_results()
    code = "import test_rbm_classifier as t; print(t.threads_results())"
    for printed in run_on_threads([2, 3], code):
        assert printed.strip() == str(wanted)


# ---- Rows without a label ----


@pytest.mark.parametrize("early_stopping", [True, False])
def test_unlabelled_rows_change_nothing_in_a_discriminative_fit(
    early_stopping, digits, labels
):
    X, y = digits[:600], labels[:600].copy()
    y[generator(8).random(600) < 0.4] = -1
    wanted = RBMClassifier(9, n_iter=3, early_stopping=early_stopping, random_state=0)
    wanted.fit(X[y >= 0], y[y >= 0])
    model = clone(wanted).set_params(unlabeled=-1).fit(X, y)
    assert_same_model(model, wanted)
    assert_same_model(clone(model).fit(sp.csr_array(X), y), wanted)
    if not early_stopping:
        wanted.partial_fit(X[y >= 0], y[y >= 0])
        assert_same_model(model.partial_fit(X, y), wanted)


def test_unlabelled_rows_matter_otherwise(digits, labels):
    y = labels[:600].copy()
    y[100:] = -1
    for objective in ("generative", "hybrid"):
        model = RBMClassifier(
            9, objective=objective, unlabeled=-1, n_iter=3, random_state=0
        ).fit(digits[:600], y)
        alone = clone(model).fit(digits[:100], y[:100])
        assert not np.array_equal(model.components_, alone.components_)
        assert list(model.classes_) == list(range(10))


def test_a_class_may_be_called_minus_one(digits, labels):
    y = np.where(labels < 5, -1, 1)
    model = RBMClassifier(9, n_iter=3, random_state=0).fit(digits, y)
    assert list(model.classes_) == [-1, 1]


def test_marker_of_unlabelled_rows_may_be_a_string(digits, labels):
    names = np.array([str(k) for k in labels[:100]])
    names[:10] = "?"
    model = RBMClassifier(4, unlabeled="?", objective="hybrid", n_iter=1)
    assert "?" not in model.fit(digits[:100], names).classes_


@pytest.mark.parametrize(
    "model",
    [
        RBMClassifier(4, n_iter=2),
        RBMClassifier(4, n_iter=2, objective="hybrid"),
        DBNClassifier(4, n_iter=2),
        DBNClassifier(4, n_iter=2, objective="generative"),
        DBMClassifier((4, 3), n_iter=2, pretrain_n_iter=1),
        DBMClassifier((4, 3), n_iter=2, objective="multi_prediction"),
    ],
)
def test_marker_of_unlabelled_rows_may_be_nan(model, digits, labels):
    X, y = digits[:60], np.where(np.arange(60) < 40, labels[:60], -1)
    wanted = clone(model).set_params(unlabeled=-1, random_state=0).fit(X, y)
    nan = np.where(y < 0, np.nan, y)
    names = np.where(y < 0, np.nan, y.astype(str).astype(object))
    for given in (nan, names):
        found = clone(wanted).set_params(unlabeled=np.nan).fit(X, given)
        assert_same(found.classes_, np.unique(given[:40]))
        assert_same(found.predict_proba(X), wanted.predict_proba(X))
    found = clone(wanted).set_params(unlabeled=np.nan)
    with pytest.raises(ValueError, match="y has no label.*unlabeled=nan"):
        found.fit(X, np.full(60, np.nan))
    with pytest.raises(ValueError, match="unlabeled=nan marks rows without a label"):
        found.partial_fit(X, nan, classes=[0.0, 1.0, np.nan])
    # Without such a mark, NaN is no label.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in (nan, names):
            with pytest.raises(ValueError, match="contains NaN. With unlabeled=np.nan"):
                wanted.fit(X, given)
        with pytest.raises(ValueError, match="contains infinity"):
            wanted.fit(X, np.where(y < 0, np.inf, y))


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_rows_without_a_label_do_not_count_in_scores(model, digits, labels):
    X, y = digits[:90], labels[:90]
    model = clone(model).set_params(unlabeled=-1, n_iter=3, random_state=0).fit(X, y)
    known = np.arange(90) % 3 > 0
    weight = np.random.default_rng(0).random(90)
    names = y.astype(str).astype(object)
    for given, mark in [(y, -1), (y.astype(float), np.nan), (names, "?")]:
        twin = clone(model).set_params(unlabeled=mark).fit(X, given)
        right = twin.predict(X) == given
        assert 0 < right[known].mean() < 1
        some = np.where(known, given, mark)
        assert twin.score(X, some) == right[known].mean()
        wanted = np.average(right[known], weights=weight[known])
        assert twin.score(X, some, sample_weight=weight) == pytest.approx(wanted)
        assert twin.score(X, given) == right.mean()
        with pytest.raises(ValueError, match="y has no label: all of it is unlabeled"):
            twin.score(X, np.full(90, mark))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            twin.score(X, some[:-1])
    # Mistakes are refused as they are without a mark.
    model.set_params(unlabeled=-1)
    for wrong in (y + 0.5, y.astype(str), np.where(known, y, np.nan)):
        with pytest.raises(ValueError, match=r"(?i)mix|contains NaN"):
            model.score(X, wrong)


@pytest.mark.parametrize("dtype", ["string", object])
def test_missing_values_of_pandas_mark_rows_as_nan_does(dtype, digits, labels):
    X, names = digits[:60], labels[:60].astype(str).astype(object)
    names[40:] = np.nan
    series = pd.Series(names, dtype=dtype).where(np.arange(60) < 40, pd.NA)
    model = RBMClassifier(4, n_iter=1, unlabeled=np.nan, random_state=0)
    wanted = clone(model).fit(X, names).predict_proba(X)
    nones = names.copy()
    nones[40:] = None
    for given in (series, nones):
        assert_same(model.fit(X, given).predict_proba(X), wanted)
        with pytest.raises(ValueError, match="marks rows without a label and cannot"):
            model.partial_fit(X, given, classes=pd.unique(given))
    # Without such a mark they are no labels.
    for given in (series, names, nones):
        with pytest.raises(ValueError, match="Input y contains NaN"):
            model.set_params(unlabeled="?").fit(X, given)
        with pytest.raises(ValueError, match="classes contain NaN"):
            model.partial_fit(X, names[:40], classes=pd.unique(given))


@pytest.mark.slow
def test_unlabelled_rows_help(digits, labels):
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    X, y = digits[order], labels[order].copy()
    known = np.zeros(len(y), bool)
    known[:40] = True
    y[40:1200] = -1
    model = RBMClassifier(
        64, objective="hybrid", alpha=1, unlabeled=-1, n_iter=100, random_state=0
    ).fit(X[:1200], y[:1200])
    alone = clone(model).set_params(n_iter=2000).fit(X[:40], y[:40])
    test = slice(1200, None)
    assert model.score(X[test], y[test]) > alone.score(X[test], y[test])


# ---- partial_fit, warm starts, early stopping ----


def test_partial_fit_goes_on(digits, labels):
    model = RBMClassifier(
        16, objective="hybrid", persistent=True, learning_rate=0.5, random_state=0
    )
    assert model.partial_fit(digits[:90], labels[:90], classes=range(12)) is model
    assert model.predict_proba(digits).shape == (len(digits), 12)
    for start in 4 * list(range(0, 1500, 90)):
        part = slice(start, start + 90)
        model.partial_fit(digits[part], labels[part])
    assert model.n_iter_ == 69
    assert model.score(digits, labels) > 0.8
    assert model.h_samples_.shape == (10, 16)
    shown = np.vstack([digits[:90], *4 * [digits[:1530]]])
    np.testing.assert_allclose(model.visible_mean_, shown.mean(axis=0), rtol=1e-10)


def test_partial_fit_of_all_rows_is_an_epoch_of_fit(digits, labels):
    model = RBMClassifier(16, n_iter=1, momentum=0.5, random_state=0)
    once = clone(model).fit(digits, labels)
    again = clone(model).partial_fit(digits, labels, classes=range(10))
    assert_same_model(again, once)


def test_warm_start_goes_on(digits, labels):
    model = RBMClassifier(
        16, objective="hybrid", persistent=True, momentum=0.5, random_state=0
    )
    whole = clone(model).set_params(n_iter=4, average=False).fit(digits, labels)
    parts = clone(whole).set_params(n_iter=2, warm_start=True)
    parts.fit(digits, labels).fit(digits, labels)
    assert parts.n_iter_ == 4
    for name in PARAMETERS:
        assert_same(getattr(parts, name), getattr(whole, name))


def test_partial_fit_wants_the_classes(digits, labels):
    model = RBMClassifier(4, random_state=0)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(digits, labels)
    model.partial_fit(digits, labels, classes=np.arange(10))
    model.partial_fit(digits, labels, classes=np.arange(10)[::-1])
    with pytest.raises(ValueError, match="are not those of the model"):
        model.partial_fit(digits, labels, classes=np.arange(9))
    with pytest.raises(ValueError, match=r"\[77\] that are not among the classes"):
        model.partial_fit(digits[:2], [0, 77])
    marked = RBMClassifier(4, unlabeled=3)
    with pytest.raises(ValueError, match="cannot be one of the classes"):
        marked.partial_fit(digits, labels, classes=np.arange(10))


@pytest.mark.parametrize("monitor", ["accuracy", "log_likelihood"])
def test_early_stopping_keeps_the_best_epoch(monitor, digits, labels):
    model = RBMClassifier(
        64,
        n_iter=200,
        learning_rate=0.5,
        early_stopping=True,
        monitor=monitor,
        n_iter_no_change=4,
        validation_fraction=0.2,
        random_state=0,
    ).fit(digits[:300], labels[:300])
    assert model.n_iter_ < 200
    watched = model.history_[f"validation_{monitor}"]
    # (Of equals, that of the highest log-likelihood.)
    pairs = zip(watched, model.history_["validation_log_likelihood"], strict=True)
    assert model.best_n_iter_ == 1 + max(enumerate(pairs), key=lambda x: x[1])[0]
    # The rows held out, told from the state of the fit.
    order = division_of(model, labels[:300], 0.2).held_out
    if monitor == "accuracy":
        found = model.score(digits[order], labels[order])
    else:
        log_p = model.predict_log_proba(digits[order])
        found = log_p[np.arange(60), labels[order]].mean()
    assert found == pytest.approx(max(watched), rel=1e-9)


@pytest.mark.parametrize("n, fraction", [(300, 0.1), (300, 0.5), (37, 0.25)])
def test_a_share_of_each_class_is_held_out(n, fraction, labels):
    labels = np.sort(labels[:n])
    found = set()
    for key in range(20):
        known = np.ones(n, bool)
        division = KnownDivision(known, fraction, key, "labels", True, labels)
        rows = division.held_out
        assert len(rows) == np.ceil(fraction * n)
        share = len(rows) / n * np.bincount(labels)
        assert np.abs(np.bincount(labels[rows], minlength=10) - share).max() < 1
        assert sorted([*rows, *division.training]) == list(range(n))
        found.update(rows)
    # Any row may be.
    assert len(found) > 0.75 * n


def test_the_only_row_of_a_class_is_trained_on():
    labels = np.repeat([0, 1, 2, 3], [57, 1, 1, 1])
    for key in range(50):
        rows = KnownDivision(labels >= 0, 0.1, key, "labels", True, labels).held_out
        assert len(rows) == 6
        assert (labels[rows] == 0).all()
    # Unless there are no other rows.
    every = np.arange(20)
    assert len(KnownDivision(every >= 0, 0.1, 0, "labels", True, every).held_out) == 2


def test_early_stopping_needs_labels_on_either_side(digits, labels):
    model = RBMClassifier(4, early_stopping=True, validation_fraction=0.9)
    with pytest.raises(ValueError, match="leaves nothing to train on of the 3 labels"):
        model.fit(digits[:3], labels[:3])
    with pytest.raises(ValueError, match="does not support early_stopping"):
        model.partial_fit(digits, labels, classes=range(10))


# ---- Callbacks and Ctrl-C ----


def test_callbacks_see_every_epoch(digits, labels):
    callback = pytest.importorskip("sklearn.callback")
    monitor = callback.ScoringMonitor(scoring="accuracy")
    y = labels[:300].copy()
    y[200:] = -1
    model = RBMClassifier(8, n_iter=4, unlabeled=-1, random_state=0)
    found = clone(model).set_callbacks(monitor).fit(digits[:300], y)
    assert_same_model(found, model.fit(digits[:300], y))
    scores = [epoch["accuracy"] for epoch in monitor.get_logs().data]
    assert len(scores) >= 4
    # (To this scorer, rows without a label are wrong.)
    assert scores[-1] == pytest.approx((model.predict(digits[:300]) == y).mean())


@pytest.mark.parametrize(
    "parameters",
    [
        {"batch_size": 100, "n_components": 500},
        {"batch_size": 5_000, "n_components": 500, "persistent": True},
        {"batch_size": 100, "n_components": 500, "n_gibbs_steps": 2_000},
        {"batch_size": 1, "n_components": 4},
    ],
)
def test_interrupt_is_heard_and_leaves_a_usable_model(parameters):
    rng = np.random.default_rng(0)
    X = (rng.random((5_000, 784)) < 0.2).astype(np.uint8)
    y = rng.integers(10, size=5_000)
    parameters = {"objective": "hybrid", "n_iter": 10**5, **parameters}
    model = soon_interrupted(
        lambda: RBMClassifier(random_state=0, **parameters),
        lambda model: model.fit(X, y),
    )
    assert all(len(entries) == model.n_iter_ for entries in model.history_.values())
    assert np.isfinite(model.predict_proba(X[:20])).all()
    done = model.n_iter_
    model.set_params(warm_start=True, n_iter=1, n_gibbs_steps=1, batch_size=50)
    assert model.fit(X[:200], y[:200]).n_iter_ == done + 1


# ---- What is refused ----


def test_labels_are_asked_for(digits, labels):
    model = RBMClassifier(4)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(digits, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(digits, labels[:-1])
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(digits, np.linspace(0, 1, len(digits)))
    for objective in OBJECTIVES:
        model.set_params(objective=objective, unlabeled=0)
        with pytest.raises(ValueError, match=r"y has no label.*unlabeled=0"):
            model.fit(digits, np.zeros(len(digits), int))
        assert not hasattr(model, "classes_")


def test_going_on_without_a_label(digits, labels):
    model = RBMClassifier(4, unlabeled=-1, objective="hybrid", random_state=0)
    model.partial_fit(digits, labels, classes=range(10))
    unknown = np.full(len(digits), -1)
    model.partial_fit(digits, unknown)
    assert np.isnan(model.history_["log_likelihood"][-1])
    assert np.isfinite(model.components_).all()
    first = clone(model).partial_fit(digits, unknown, classes=range(10))
    assert first.predict_proba(digits).shape == (len(digits), 10)
    # A discriminative model has nothing to learn of such a batch of a stream.
    model = clone(model).set_params(objective="discriminative", warm_start=True)
    model.partial_fit(digits, labels, classes=range(10))
    before = fitted_state(model)
    assert_same(fitted_state(model.partial_fit(digits, unknown)), before)
    with pytest.raises(ValueError, match="has 3 features, but"):
        model.partial_fit(digits[:, :3], unknown)
    # (Not that the classes are not known, which they are.)
    with pytest.raises(ValueError, match="y has no label.* cannot learn anything"):
        model.fit(digits, unknown)
    with pytest.raises(ValueError, match="y has no label.* cannot learn anything"):
        clone(model).partial_fit(digits, unknown, classes=range(10))


@pytest.mark.parametrize(
    "model",
    [
        RBMClassifier(4, objective="hybrid"),
        DBNClassifier(4, objective="generative"),
        DBMClassifier((4, 3), objective="multi_prediction"),
    ],
)
def test_early_stopping_goes_on_with_labels_only(model, digits, labels):
    model = clone(model).set_params(n_iter=1, unlabeled=-1, random_state=0)
    model.fit(digits[:50], labels[:50])
    model.set_params(warm_start=True, early_stopping=True)
    before = fitted_state(model)
    with pytest.raises(ValueError, match="y has no label.*unlabeled=-1.*hold none out"):
        model.fit(digits[:50], np.full(50, -1))
    assert_same(fitted_state(model), before)
    model.set_params(early_stopping=False).fit(digits[:50], np.full(50, -1))
    assert model.n_iter_ == 2


def test_number_of_components_cannot_change(digits, labels):
    model = RBMClassifier(4, n_iter=1, warm_start=True).fit(digits, labels)
    with pytest.raises(ValueError, match="n_components=5 does not fit .* has 4"):
        model.set_params(n_components=5).fit(digits, labels)


def test_arguments_of_sample(digits, labels):
    model = RBMClassifier(4, n_iter=1).fit(digits, labels)
    for arguments, message in [
        ({"y": 11}, "[11] that are not among the classes"),
        ({"y": [1, 2]}, "y must be 3 labels, one a row, got shape (2,)"),
        ({"init": digits[:2]}, "init has 2 rows, but n_samples=3"),
        ({"init": digits[:3, :5]}, "init has 5 columns"),
        ({"n_gibbs_steps": 0}, "n_gibbs_steps must be an integer >= 1"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            model.sample(3, **arguments)
    with pytest.raises(ValueError, match="y must be 5 labels"):
        model.free_energy(digits[:5], [1, 2])


def test_values_out_of_range_are_warned_of(digits, labels):
    model, wanted = RBMClassifier(4, n_iter=1), r"RBMClassifier stand for values in"
    grid = GridSearchCV(make_pipeline(model), {"rbmclassifier__n_iter": [1]}, cv=2)
    for estimator in (model, grid):
        with pytest.warns(UserWarning, match=wanted) as caught:
            estimator.fit(16 * digits, labels)
        # The line above, not one of scikit-learn's.
        assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(UserWarning, match=wanted) as caught:
        features = model.fit_transform(16 * digits, labels)
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=wanted):
        np.testing.assert_array_equal(features, model.transform(16 * digits))


@pytest.mark.parametrize("name", ["label_components_", "intercept_label_"])
def test_damaged_pickle_is_refused(name, digits, labels):
    import pickle

    model = RBMClassifier(4, n_iter=1).fit(digits, labels)
    setattr(model, name, getattr(model, name)[:-1])
    with pytest.raises(ValueError, match=f"damaged: {name}"):
        pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("size", [1, 20.5])  # by tables, and too large for these
@pytest.mark.parametrize("shape", [(1, 4, 1), (9, 5, 17), (40, 70, 33)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_many_classes(dtype, shape, size):
    n_rows, n_classes, n_hidden = shape
    rng = generator(871)
    fields = rng.normal(0, 5, (n_rows, n_hidden)).astype(dtype)
    fields[0] = 300.0
    labels = rng.uniform(-size, size, (n_hidden, n_classes)).astype(dtype)
    labels.flat[0] = size
    intercepts = rng.normal(size=n_classes)
    found = class_scores(fields, labels, intercepts)
    each = fields[:, :, np.newaxis].astype(float) + labels
    wanted = np.logaddexp(0, each).sum(axis=1) + intercepts
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found, wanted, rtol, atol=rtol * n_hidden)
    # Each row by itself.
    for row in range(n_rows):
        alone = class_scores(fields[row : row + 1], labels, intercepts)
        assert np.array_equal(alone[0], found[row])
