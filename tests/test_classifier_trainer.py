"""The kernel of RBMClassifier: its law by enumeration, its gradients, its chains."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_softmax, logsumexp, softmax
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.datasets import make_circles
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import minmax_scale

from common import (
    CLASSIFIER_PARAMETERS,
    all_states,
    assert_same,
    division_of,
    fitted_floats,
    floats,
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
from sklearn_ebm import RBMClassifier
from sklearn_ebm._classifier_trainer import ClassifierTrainer
from sklearn_ebm._rows import Rows
from sklearn_ebm.boltzmann import _trainable_rbm_classifier

KEY = 0x0123456789ABCDEF
DRAW_LABEL, DRAW_ROW_LABEL = 4, 5
LEAST_P = 1e-6
OBJECTIVES = {"discriminative": (1.0, 0.0), "generative": (0, 1), "hybrid": (1, 0.3)}

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
    vars(model).update(zip(CLASSIFIER_PARAMETERS, parameters, strict=True))
    return model


@pytest.mark.parametrize(
    "objective, rare",
    [
        ("discriminative", False),
        ("generative", False),
        ("hybrid", False),
        ("hybrid", True),
    ],
)
def test_where_training_starts(objective, rare, digits):
    y = np.repeat([0, 1, 2], [1000, 500, 297])
    if rare:
        y[np.arange(1797) % 3 > 0] = -1
    model = RBMClassifier(256, objective=objective, n_iter=0, random_state=0)
    model.set_params(unlabeled=-1).fit(digits, y)
    mean = (digits.sum(axis=0) + 0.5) / 1798
    share = np.bincount(y[y >= 0]) + 0.5
    share /= share.sum()
    means = np.concatenate([mean, share])
    weights = np.hstack([model.components_, model.label_components_])
    hidden, visible = model.intercept_hidden_, model.intercept_visible_
    labels, rate = model.intercept_label_, 0.2
    if objective != "generative":
        # Fields deviate by 1 (as if a row more had been as uncertain as a bit), or by
        # half of that where most rows have no label, and are log-odds where the other
        # side is at its mean.
        variance = digits.var(axis=0) * 1797 + mean * (1 - mean)
        sizes = np.full(67, 0.01)
        sizes[:64] = np.sqrt(1798 / variance.sum())
        if rare:
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
    # (2 / 9 of a row that is as uncertain as can be, and none of the one there is; and
    # fields deviate by no more than half the root of the rows for a feature.)
    spread = 0.5 * np.sqrt(1 / 100)
    assert 0.97 < model.components_.std() * np.sqrt(100 / 9) / spread < 1.03


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
    [("discriminative", 0.1, 0.9), ("hybrid", 0.1, 0.9), ("generative", 0.2, 0.0)],
)
def test_defaults_of_the_objectives(objective, rate, momentum, digits, labels):
    model = RBMClassifier(5, objective=objective, n_iter=2, random_state=0)
    given = clone(model).set_params(learning_rate=rate, momentum=momentum)
    model.fit(digits, labels).partial_fit(digits[:50], labels[:50])
    given.fit(digits, labels).partial_fit(digits[:50], labels[:50])
    assert model.history_["learning_rate"] == [rate] * 3
    assert_same(model.components_, given.components_)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("rarity", [1, 4, 100])
def test_default_rate_of_the_hybrid_objective(alpha, rarity, digits, labels):
    """Lower where labels are rare; for chains at most as high as theirs alone."""
    y = np.where(np.arange(1700) % rarity == 0, labels[:1700], -1)
    model = RBMClassifier(5, objective="hybrid", alpha=alpha, n_iter=1, unlabeled=-1)
    model.fit(digits[:1700], y)
    wanted = min(0.1 / np.sqrt(min(rarity, 10)), 0.02 / alpha)
    np.testing.assert_allclose(model.history_["learning_rate"], wanted, rtol=1e-12)
    again = clone(model).set_params(alpha=np.float32(alpha), random_state=0)
    if alpha == 1:
        plain = clone(model).set_params(random_state=0).fit(digits[:1700], y)
        assert_same(again.fit(digits[:1700], y).components_, plain.components_)
    # (Chains by themselves take steps of 0.2, which momentum does not make longer.)
    model.set_params(momentum=0.5).fit(digits[:1700], y)
    wanted = min(0.1 / np.sqrt(min(rarity, 10)), 0.1 / alpha)
    np.testing.assert_allclose(model.history_["learning_rate"], wanted, rtol=1e-12)


def test_hybrid_classifier_learns_what_is_not_linear():
    X = generator(470).random((300, 3)) < 0.5
    y = X.sum(axis=1) % 2
    assert RBMClassifier(objective="hybrid", random_state=0).fit(X, y).score(X, y) == 1


def test_hybrid_without_a_generative_part_is_discriminative(digits, labels):
    settings = {"n_iter": 3, "learning_rate": 0.1, "momentum": 0.5, "random_state": 0}
    models = [
        RBMClassifier(5, objective=objective, alpha=0, **settings).fit(digits, labels)
        for objective in ("hybrid", "discriminative")
    ]
    for name in CLASSIFIER_PARAMETERS[:3]:
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
        assert abs(found - slope) <= 1e-6 * max(scale, 1e-3), CLASSIFIER_PARAMETERS[
            number
        ]
    found = trainer.found()["log_likelihood"]
    assert found == pytest.approx(log_likelihood(parameters), rel=1e-12)


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


@pytest.mark.parametrize("kind", ["dense", "sparse", "bits"])
@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-9), (np.float32, 2e-3)])
def test_scaled_steps_are_those_of_scaled_features(kind, dtype, rtol):
    # Momentum, decay and average included, and passes of one minibatch.
    W, U, c, b, d = machine(70, 83, 5, scale=0.2)
    X, codes = data_for(300, 83, 5, kind=kind)
    mean, size = X.mean(axis=0), 4.0 ** generator(5).uniform(-1, 1, 83)
    found = []
    for parts, rows, options in [
        ([W, U, c, b, d], X, {"offset": mean, "scales": size**-2}),
        ([W * size, U, c, b, d], X / size, {"offset": mean / size}),
    ]:
        rows = rows.astype(dtype)
        trainer = trainer_of(parts, rows, codes, 1.0, 0.0, batch_size=270, **options)
        trainer.momentum, trainer.weight_decay = 0.7, 0.2
        trainer.start_velocity()
        trainer.start_average()
        for _ in range(3):
            run(trainer, 300, rate=0.5)
        found.append([trainer.parameters(), trainer.averages()])
    for own, others in zip(*found, strict=True):
        for k, (part, wanted) in enumerate(zip(own, others, strict=True)):
            part = part * size if k == 0 else part
            np.testing.assert_allclose(part, wanted, rtol=rtol, atol=rtol)
    assert np.abs(found[1][0][0] - W * size).max() > 0.1


def test_nothing_depends_on_which_value_is_called_1():
    # Momentum and decay included; weights change sign, and biases make up for it.
    W, U, c, b, d = machine(9, 20, 3, scale=0.5)
    X, codes = data_for(25, 20, 3)
    mean = X.mean(axis=0)
    turned = [-W, U, c + W.sum(axis=1), -b, d]
    found = []
    for parts, rows, offset in [([W, U, c, b, d], X, mean), (turned, 1 - X, 1 - mean)]:
        trainer = trainer_of(parts, rows, codes, 1.0, 0.0, batch_size=10, offset=offset)
        trainer.momentum, trainer.weight_decay = 0.7, 0.2
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

    monkeypatch.setattr(_trainable_rbm_classifier, "ClassifierTrainer", spy)
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
