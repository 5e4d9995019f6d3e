"""Pretrained nets: fine-tuning written out, the options, and what is refused."""

import copy
import itertools
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
    make_gaussian_quantiles,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.preprocessing import StandardScaler, minmax_scale
from threadpoolctl import threadpool_limits

from common import (
    assert_same,
    assert_same_model,
    fitted_state,
    floats,
    name_of,
    soon_interrupted,
    traced_memory,
)
from sklearn_ebm import (
    RBM,
    DBMClassifier,
    DBMTransformer,
    DBNClassifier,
    DBNRegressor,
    DBNTransformer,
    RBMClassifier,
)
from sklearn_ebm._network import Dropout
from sklearn_ebm._training import KnownDivision, epoch_order, epochs_of
from sklearn_ebm.boltzmann._standardised import (
    Standardised,
    for_inputs,
    for_standardised,
    standard_of,
)
from sklearn_ebm.nets import _net_starts
from sklearn_ebm.nets._net_starts import hold_fields, random_params, spread_fields
from sklearn_ebm.nets._trainable_net import _centre_if_mostly_mean

KINDS = {"classifier": DBNClassifier, "regressor": DBNRegressor}
every_kind = pytest.mark.parametrize("kind", KINDS)


def small(kind="classifier", sizes=(9, 7), **parameters):
    settings = {"solver": "sgd", "n_iter": 3, "batch_size": 16, "pretrain_n_iter": 2}
    return KINDS[kind](sizes, **{**settings, "random_state": 0, **parameters})


def targets(kind, labels):
    return labels if kind == "classifier" else labels * 2.5 - 3


# ---- One epoch, written out ----


def twin_epoch(state, X, y, model):
    """The parameters after an epoch of SGD, in plain NumPy."""
    params = [p.copy() for p in state["params"]]
    velocity = [np.zeros_like(p) for p in params]
    order = epoch_order(len(X), state["key"], 0)
    sizes = [len(W) for W in params[::2]]
    rates = [model.input_dropout, model.dropout, model.dropout]
    dropout = Dropout(rates, sizes, state["key"], X.dtype)
    for step, start in enumerate(range(0, len(X), model.batch_size)):
        rows = order[start : start + model.batch_size]
        masks = dropout.masks(len(rows), step) or [1, 1, 1]
        layers, derivatives = [X[rows] * masks[0]], []
        for layer in range(2):
            p = expit(layers[-1] @ params[2 * layer] + params[2 * layer + 1])
            derivatives.append(p * (1 - p) * masks[layer + 1])
            layers.append(p * masks[layer + 1])
        fields = layers[-1] @ params[4] + params[5]
        if isinstance(model, DBNClassifier):
            weight = state["class_weight"][y[rows], np.newaxis]
            delta = softmax(fields, axis=1) - np.eye(fields.shape[1])[y[rows]]
            delta *= weight / len(rows)
        else:
            mean, scale = state["y_mean"], state["y_scale"]
            delta = (fields - (y[rows, np.newaxis] - mean) / scale) / len(rows)
        for layer in (2, 1, 0):
            W, b = params[2 * layer], params[2 * layer + 1]
            decay = model.weight_decay or 0.0
            grads = [layers[layer].T @ delta + decay * W, delta.sum(0)]
            if layer:
                delta = (delta @ W.T) * derivatives[layer - 1]
            for p, v, g in zip((W, b), velocity[2 * layer : 2 * layer + 2], grads):
                v *= model.momentum
                v -= model.learning_rate * g
                p += model.momentum * v - model.learning_rate * g
        for W in params[::2]:
            norms = np.linalg.norm(W, axis=0)
            W *= np.minimum(1, (model.max_norm or np.inf) / norms)
    return params


@every_kind
@pytest.mark.parametrize("pretrain", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight_decay": 0.01},
        {"input_dropout": 0.2, "dropout": 0.5},
        {"max_norm": 0.5},
    ],
)
def test_epoch_is_the_written_out_one(kind, pretrain, settings, digits, labels):
    X, y = digits[:100], targets(kind, labels[:100])
    model = small(
        kind,
        pretrain=pretrain,
        learning_rate=0.1,
        learning_rate_schedule="constant",
        **settings,
    )
    if kind == "classifier":
        model.set_params(class_weight={3: 2.0})
    begin = clone(model).set_params(n_iter=0).fit(X, y)
    model.set_params(n_iter=1).fit(X, y)
    wanted = twin_epoch(begin._state, X, y, model)
    for found, p in zip(model._state["params"], wanted):
        np.testing.assert_allclose(found, p, rtol=1e-9, atol=1e-11)
    assert not np.allclose(begin.coefs_[0], model.coefs_[0], atol=1e-6)


def test_loss_is_the_mean_of_the_objective(digits, labels):
    X, y = digits[:100], labels[:100]
    model = small(batch_size=100, n_iter=1, weight_decay=0.1)
    begin = clone(model).set_params(n_iter=0).fit(X, y)
    model.fit(X, y)
    penalty = 0.05 * sum(np.square(W).sum() for W in begin.coefs_)
    own = begin.predict_log_proba(X)[np.arange(100), y]
    assert model.loss_curve_ == pytest.approx([penalty - own.mean()], rel=1e-10)


@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
@pytest.mark.parametrize("kind", [DBNClassifier, DBMClassifier])
def test_default_decay_is_of_the_outputs_by_the_rows_with_labels(
    kind, solver, digits, labels, monkeypatch
):
    # Rows without a label, and those held out, do not count: 90 of 150 are trained on.
    y, decays = labels[:150].copy(), []
    y[100:] = -1
    network = kind._network

    def watched(self, state, given=(0.0, 0.0)):
        decays.append(given)
        return network(self, state, given)

    monkeypatch.setattr(kind, "_network", watched)
    settings = {"solver": solver, "pretrain_n_iter": 1, "n_iter": 1, "random_state": 0}
    if kind is DBMClassifier:
        settings["pretrain_greedy_n_iter"] = 1
    model = kind((9, 7), unlabeled=-1, early_stopping=True, warm_start=True, **settings)
    model.fit(digits[:150], y)
    assert set(decays) == {(0.0, 0.0), (0.0, 1 / 90 if solver == "adam" else 0.0)}
    # Nor is there one where the first layer has no random weights.
    model._state["found"] = True
    decays.clear()
    model.fit(digits[:150], y)
    assert set(decays) == {(0.0, 0.0)}


@pytest.mark.parametrize("kind", [DBNClassifier, DBMClassifier])
def test_partial_fit_has_no_decay_by_default(kind, digits, labels):
    # (It does not know how many rows there will be.)
    models = [
        kind((9, 7), weight_decay=decay, random_state=0).partial_fit(
            digits[:50], labels[:50], classes=np.arange(10)
        )
        for decay in (None, 0.0)
    ]
    assert_same(models[0].coefs_, models[1].coefs_)


def test_pretraining_has_found_something_where_nothing_random_is_added():
    rng = np.random.default_rng(0)
    X, first = rng.random((50, 6)), [rng.normal(0, 0.1, (6, 6)), np.zeros(6)]
    for scales, wanted in (((9, 9), True), ((9, 0.1), True), ((0.1, 9), False)):
        params = []
        for scale in (*scales, 1):
            params += [rng.normal(0, scale, (6, 6)), np.zeros(6)]
        assert spread_fields(params, 3 * first, X) is wanted


@pytest.mark.parametrize("kind", [DBNClassifier, DBMClassifier])
def test_nets_are_not_too_sure_of_themselves(kind):
    X, y = load_breast_cancer(return_X_y=True)
    losses, X = [], minmax_scale(X)
    for decay in (None, 0.0):
        model = kind((64, 64), weight_decay=decay, random_state=0)
        found = model.fit(X[:284], y[:284]).predict_log_proba(X[284:])
        losses.append(-found[np.arange(285), y[284:]].mean())
    assert losses[0] < 0.75 * losses[1]


# ---- What the fitted net is ----


@every_kind
def test_outputs_are_those_of_the_attributes(kind, digits, labels):
    y = targets(kind, labels[:200])
    model = small(kind).fit(digits[:200], y)
    a = digits
    for W, b in zip(model.coefs_[:-1], model.intercepts_[:-1]):
        a = expit(a @ W + b)
    np.testing.assert_allclose(model.transform(digits), a, rtol=1e-10)
    fields = a @ model.coefs_[-1] + model.intercepts_[-1]
    if kind == "regressor":
        np.testing.assert_allclose(model.predict(digits), fields[:, 0], rtol=1e-10)
        assert (model.out_activation_, model.n_outputs_) == ("identity", 1)
    else:
        p = softmax(fields, axis=1)
        np.testing.assert_allclose(model.predict_proba(digits), p, rtol=1e-10)
        np.testing.assert_allclose(model.predict_log_proba(digits), np.log(p))
        assert_same(model.predict(digits), model.classes_[p.argmax(axis=1)])
        assert (model.out_activation_, model.n_outputs_) == ("softmax", 10)
    assert model.n_layers_ == 4
    assert [W.shape for W in model.coefs_[:-1]] == [(64, 9), (9, 7)]
    assert list(model.history_) == ["learning_rate", "seconds", "loss"]


@pytest.mark.parametrize("names", [["no", "yes"], [True, False], [3.5, -1.0]])
def test_labels_of_any_kind(names, digits, labels):
    names = np.array(names)
    if names.dtype == float:
        names = names.astype(int)
    odd = labels[:200] % 2
    wanted = small().fit(digits[:200], odd)
    model = small().fit(digits[:200], np.sort(names)[odd])
    assert_same(model.classes_, np.sort(names))
    assert_same(model.predict(digits), model.classes_[wanted.predict(digits)])


@pytest.mark.slow
def test_two_numbers_a_row(digits, labels):
    y = np.column_stack([labels, digits.sum(axis=1) * 1e3 + 1e6])[:300]
    model = DBNRegressor((30,), pretrain=False, batch_size=10, random_state=0)
    model.fit(digits[:300], y)
    assert model.predict(digits).shape == (1797, 2)
    assert model.n_outputs_ == 2
    assert model.score(digits[:300], y) > 0.9
    # The unit of a target does not matter.
    other = clone(model).fit(digits[:300], y * [1, 1024])
    np.testing.assert_allclose(
        other.predict(digits), model.predict(digits) * [1, 1024], rtol=1e-9
    )


@pytest.mark.parametrize("exponent", [-1000, -700, 530, 1000])
def test_targets_may_be_as_large_or_small_as_numbers_are(exponent, digits, labels):
    X, y = digits[:100], labels[:100] - 3.0
    wanted = small("regressor").fit(X, y)
    model = small("regressor").fit(X, np.ldexp(y, exponent))
    assert_same(model.predict(X), np.ldexp(wanted.predict(X), exponent))
    assert model.loss_curve_ == wanted.loss_curve_


def test_targets_that_the_net_cannot_hold_are_refused(digits, labels):
    X, y = digits[:50].astype(np.float32), labels[:50] * 1e39
    message = "y holds values up to 9e[+]39 .*float32 are at most 3.4e[+]38"
    model = small("regressor")
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not fitted_state(model)
    model.fit(X, labels[:50])
    before = copy.deepcopy(model)
    for train in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=message):
            train(X, y)
        assert_same_model(model, before)
    found = clone(model).fit(X.astype(float), y).predict(X.astype(float))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("dtype, unit", [(np.float32, 1e-30), (np.float64, 1e-300)])
@pytest.mark.parametrize("n_rows", [50, 100])
def test_targets_that_overflow_once_standardised_are_refused(
    dtype, unit, n_rows, digits, labels
):
    X, y = digits[:n_rows].astype(dtype), labels[:n_rows]
    model = small("regressor").set_params(warm_start=True).fit(X, y * unit)
    few = small("regressor").partial_fit(X, y * unit)
    for train in (model.fit, model.partial_fit, few.partial_fit):
        before = copy.deepcopy(train.__self__)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            with pytest.raises(ValueError, match="y holds values .* first targets"):
                train(X, y / unit)
        assert_same_model(train.__self__, before)


def test_what_is_wrong_with_numbers_to_learn_is_said_of_y(digits):
    for y in (3, np.float64(3), [[[1.0]]] * 5, ["a"] * 5, [], [1, None, 2, 3, "b"]):
        for method in ("fit", "partial_fit"):
            with pytest.raises(ValueError, match=r"\by\b"):
                getattr(small("regressor"), method)(digits[:5], y)


@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
def test_constant_targets_are_predicted_as_they_are(solver, digits):
    for constant in (7.0, 1e-4, 1e6 / 3):
        y = np.column_stack([digits[:50, 20], np.full(50, constant)])
        model = small("regressor", solver=solver).fit(digits[:50], y)
        assert (model.predict(digits)[:, 1] == constant).all()
        model.fit(digits[:50], y[:, 1])
        assert (model.predict(digits) == constant).all()


# ---- Pretraining ----


@pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
def test_hidden_layers_start_from_a_stack(visible, digits, labels, monkeypatch):
    monkeypatch.setattr(_net_starts, "ENOUGH_SPREAD", 0.0)
    X = digits[:300] if visible == "bernoulli" else digits[:300] * 30 - 10
    model = small(visible=visible, n_iter=0, pretrain_n_iter=5).fit(X, labels[:300])
    plain = clone(model).set_params(pretrain=False).fit(X, labels[:300])
    assert not np.allclose(model.coefs_[0], plain.coefs_[0])
    seed = model._state["stack_seed"]
    stack = RBM(
        9,
        visible=visible,
        learning_rate=0.1,
        learning_rate_schedule="constant",
        n_iter=5,
        centering=False,
        persistent=False,
        random_state=np.random.RandomState(seed),
    )
    stack._pretrains_net = True
    layers = stack.fit(X)._layered()
    learned = [layers.weights[0].copy(), layers.biases[1].copy()]
    if visible == "bernoulli":
        assert_same([model.coefs_[0], model.intercepts_[0]], learned)
    else:  # the net had them for standardised features
        np.testing.assert_allclose(model.coefs_[0], learned[0], rtol=1e-12)
        np.testing.assert_allclose(model.intercepts_[0], learned[1], atol=1e-12)
    h = stack.transform(X)
    np.testing.assert_allclose(expit(X @ model.coefs_[0] + model.intercepts_[0]), h)
    # The output layer, which the stack says nothing of, is the same.
    assert_same(model.coefs_[-1], plain.coefs_[-1])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_features_that_are_not_in_0_1_are_standardised(make):
    X = np.random.default_rng(0).normal(size=(100, 4))
    for rows in [
        X,
        X * [1000, 1, 0.01, 0] + [0, 1e4, 1, 7],  # the last one is constant
        np.full((5, 4), 7.0),
    ]:
        scaler = StandardScaler().fit(rows)
        found = standard_of(make(rows), 6)
        # (Other inputs beside the features stay as they are.)
        np.testing.assert_allclose(found[0], [*scaler.mean_, 0, 0], atol=1e-12)
        # Constants are divided by their size.
        scale = np.where(scaler.var_ > 0, scaler.scale_, np.abs(scaler.mean_))
        scale[scale == 0] = 1
        np.testing.assert_allclose(found[1], [*scale, 1, 1], rtol=1e-3)
        given = Standardised(make(rows), found[:, :4])
        assert given.shape == rows.shape
        wanted = (rows - found[0, :4]) / found[1, :4]
        np.testing.assert_allclose(given[[2, 0]], wanted[[2, 0]], atol=1e-12)
        # The same fields, of either.
        W, b = np.random.default_rng(1).normal(size=(4, 3)), np.arange(3.0)
        V, c = for_standardised(W, b, found[:, :4])
        np.testing.assert_allclose(given[:5] @ V + c, rows[:5] @ W + b, atol=1e-9)
        for one, other in zip(for_inputs(V, c, found[:, :4]), (W, b), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)
    # What is mostly 0 stays so, and what is not is about as large as others then.
    counts = np.where(np.arange(200) % 50 == 7, 3.0, 0.0)[:, np.newaxis]
    counts = np.hstack([counts, 1 - counts, np.arange(200)[:, np.newaxis] % 3])
    counts[7] *= 2
    found = standard_of(make(counts), 3)
    assert found[0].tolist() == [0, *counts[:, 1:].mean(axis=0)]
    assert found[1, 0] == pytest.approx(3 * np.sqrt(7 / 4))
    np.testing.assert_allclose(found[1, 1:], counts[:, 1:].std(axis=0), rtol=1e-6)
    one_row = standard_of(make(np.array([[5.0, 0, -2, 0.5]])), 4)
    assert one_row.tolist() == [[5, 0, -2, 0.5], [5, 1, 2, 0.5]]
    # Two rows may agree by chance.
    two_rows = standard_of(make(np.array([[5.0, 7.0], [5.001, 3.0]])), 2)
    np.testing.assert_allclose(two_rows[1], [5 / 8, np.hypot(2, 5 / 8)], rtol=1e-3)
    for rows in (expit(X), np.minimum(expit(X) * 2, 1 + 1e-9), X > 0):
        assert standard_of(make(rows), 4) is None
    with pytest.raises(ValueError, match="variance of feature 2 is beyond"):
        standard_of(make(X * [1, 1, 1e200, 1]), 4)


def _known_later(first, bits):
    """Features of which one, a large one, is constant in the first 100 rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6))
    if bits:
        X[:, 1:] = X[:, 1:] > 0
    y = (X[:, 0] + X[:, 1] > bits / 2).astype(int)
    X[:, 0] *= 1000
    X[:100, 0] = first
    return X, y


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("first", [0.0, 1.0])
@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize(
    "net", [DBNClassifier, DBMClassifier, partial(DBNClassifier, solver="sgd")]
)
def test_features_that_vary_later_only_may_have_any_size(net, bits, first, make):
    X, y = _known_later(first, bits)
    net = net((16,), visible="bernoulli" if bits else "gaussian", random_state=0)
    for rows in np.split(np.arange(1000), 10):
        net.partial_fit(make(X[rows]), y[rows], classes=[0, 1])
    for rows in np.split(np.arange(100, 1000), 9) * 2:
        net.partial_fit(make(X[rows]), y[rows])
    assert net.score(make(X[1000:]), y[1000:]) > 0.92
    # Training that goes on by `fit`, too.
    net = clone(net).set_params(n_iter=10, warm_start=True)
    net.fit(make(X[:100]), y[:100]).fit(make(X[100:1000]), y[100:1000])
    assert net.score(make(X[1000:]), y[1000:]) > 0.92


@pytest.mark.parametrize("first", [0.0, 1.0])
def test_what_features_were_stays_in_the_fields_when_they_vary(first):
    X, y = _known_later(first, bits=True)
    net = DBNClassifier((16,), pretrain=False, random_state=0)
    net.partial_fit(X[:100], y[:100], classes=[0, 1])
    before = net.coefs_[0].copy(), net.intercepts_[0].copy()
    net.set_params(learning_rate=1e-12).partial_fit(X[100:200], y[100:200])
    mean, scale = X[100:200, 0].mean(), X[100:200, 0].std()
    np.testing.assert_allclose(net.coefs_[0][0], before[0][0] / scale, rtol=1e-6)
    np.testing.assert_allclose(net.coefs_[0][1:], before[0][1:], rtol=1e-6)
    wanted = before[1] + before[0][0] * (first - mean / scale)
    np.testing.assert_allclose(net.intercepts_[0], wanted, atol=1e-6)


def test_features_that_vary_later_as_bits_do_stay_as_they_are():
    X, y = _known_later(0.0, bits=True)
    X[100:, 0] = X[100:, 0] > 0
    net = DBNClassifier((16,), pretrain=False, random_state=0)
    net.partial_fit(X[:100], y[:100], classes=[0, 1])
    net.partial_fit(X[100:200], y[100:200])
    assert net._state["standard"] is None


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_small_numbers_in_0_1_are_standardised_and_bits_are_not(make):
    rng = np.random.default_rng(0)
    bits = (rng.random((300, 6)) < [0.5, 0.01, 0.99, 0.2, 1, 0]).astype(float)
    edge = np.where(rng.random((300, 2)) < 0.05, rng.random((300, 2)) / 50, 0)
    edge[:, 1] = 1 - edge[:, 1]
    grey = rng.random((300, 2)) * [1, 0.5]
    constant = np.full((300, 1), 0.3) + 1e-16 * (rng.random((300, 1)) < 0.5)
    for like_bits in (bits, edge, grey, constant, np.hstack([bits, edge, grey])):
        assert standard_of(make(like_bits), like_bits.shape[1]) is None
    for place, width in ((0.03, 0.005), (0.5, 1e-3)):
        small = place + width * rng.random((300, 1))
        X = np.hstack([bits, small])
        mean, deviation = standard_of(make(X), 8)
        assert deviation[6] == pytest.approx(small.std(), rel=1e-6)
        assert mean[6] == pytest.approx(small.mean())
        # Bits that are seldom on remain what they are; so do other inputs.
        assert mean[[1, 3, 5, 7]].tolist() == [0] * 4
        np.testing.assert_allclose(deviation[[1, 3, 5, 7]], 1)
        # A few rows may agree by chance.
        assert standard_of(make(X[:9]), 8) is None


@pytest.mark.parametrize(
    "model",
    [
        DBNClassifier((30,), pretrain_n_iter=5, n_iter=30),
        DBMClassifier((20, 10), pretrain_n_iter=5, n_iter=30),
        RBMClassifier(30),
    ],
    ids=lambda model: type(model).__name__,
)
def test_small_numbers_beside_bits_are_learned_from(model):
    rng = np.random.default_rng(1)
    X, z = (rng.random((600, 6)) < 0.5).astype(float), rng.normal(size=600)
    X[:, 0] = 0.03 + 0.005 * z.clip(-3, 3)
    y = (z + X[:, 1] > 0.5).astype(int)
    model = clone(model).set_params(random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.93


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_random_fields_of_real_features_are_not_too_wide(make):
    X = np.random.default_rng(0).normal(size=(200, 30))
    for sizes, held in ([1, 200, 2], False), ([30, 20, 2], True):
        params = random_params(sizes, float, np.random.RandomState(0))
        given = [param.copy() for param in params]
        rows = X[:, : sizes[0]]
        hold_fields(params, rows)
        gain = 0.5 / np.sqrt((rows.var(axis=0) @ given[0] ** 2).mean()) if held else 1
        assert (0.07 < gain < 0.23) == held
        np.testing.assert_allclose(params[0], gain * given[0], rtol=1e-10)
        assert_same(params[1:], given[1:])
    for rows in X, 1000 * X + 300:
        net = small(pretrain=False, n_iter=0).fit(make(rows), X[:, 0] > 0)
        fields = rows @ net.coefs_[0] + net.intercepts_[0]
        np.testing.assert_allclose(fields.mean(axis=0), 0, atol=1e-10)
        deviation = np.sqrt(fields.var(axis=0).mean())
        assert deviation == pytest.approx(0.5, rel=0.1)


@every_kind
@floats
@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_units_of_measurement_do_not_matter(kind, dtype, solver, make):
    """Nor does what the features are counted from: the net is the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)).astype(dtype)
    y = X[:, 0] * X[:, 1]
    y = y > 0 if kind == "classifier" else y
    # (Powers of two, by which no bit is lost.)
    factors = (2.0 ** np.array([-12, -3, 0, 1, 9, 16])).astype(dtype)
    how = {"max_norm": 2.0, "dropout": 0.1} if solver != "lbfgs" else {}
    model = small(kind, solver=solver, pretrain=False, weight_decay=0.01, **how)
    model.set_params(learning_rate_schedule="constant", warm_start=True)
    one, other = clone(model).fit(make(X), y), clone(model).fit(make(X * factors), y)
    for _ in range(2):
        assert_same(other.coefs_[0] * factors[:, np.newaxis], one.coefs_[0])
        assert_same(other.coefs_[1:], one.coefs_[1:])
        assert_same(other.intercepts_, one.intercepts_)
        assert other.history_["loss"] == one.history_["loss"]
        # And it goes on from what it began with, bit for bit.
        one.fit(make(X), y), other.fit(make(X * factors), y)
    if solver != "lbfgs":
        whole = clone(model).set_params(n_iter=3 * model.n_iter).fit(make(X), y)
        assert_same(one.coefs_, whole.coefs_)
        assert_same(one.intercepts_, whole.intercepts_)
    far = clone(model).fit(make(X + dtype(100)), y)
    one = clone(model).fit(make(X), y)
    # (Of few rows so far from 0 the deviations are taken for a little larger.)
    np.testing.assert_allclose(far.coefs_[0], one.coefs_[0], atol=1e-2)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_machines_are_centred_where_features_vary_little(make):
    rng = np.random.default_rng(0)
    bits = rng.random((300, 20)) < np.linspace(0.05, 0.95, 20)
    for X, centred in [
        (bits, False),
        (rng.random((300, 20)), True),  # variances of 1/12, means of 1/2
        (0.2 * rng.random((300, 20)), True),
        (1 - 0.2 * rng.random((300, 20)), True),
        (0.1 * bits + 0.4, True),
        (0.1 * bits, False),
    ]:
        rbm = RBM(5)
        _centre_if_mostly_mean(rbm, make(X.astype(float)))
        assert rbm.centering == centred
    rbm = RBM(5, visible="gaussian", centering=False)
    _centre_if_mostly_mean(rbm, make(rng.random((300, 20))))
    assert not rbm.centering


@pytest.mark.parametrize("kind", [DBNClassifier, DBNRegressor])
def test_no_units_die_of_features_between_0_and_1(kind):
    X, y = load_wine(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(n_iter=2, random_state=0).fit(minmax_scale(X), y)


def test_warning_of_dead_units_names_the_rate_of_the_pretraining(digits, labels):
    net = DBNClassifier(50, pretrain_learning_rate=20.0, n_iter=1, random_state=0)
    wanted = "DBNClassifier, layer 1.* Try a lower pretrain_learning_rate"
    with pytest.warns(ConvergenceWarning, match=wanted):
        net.fit(digits, labels)


@pytest.mark.parametrize("n_rows, epochs", [(1, 60), (1500, 40), (60_000, 10)])
def test_few_rows_are_pretrained_on_for_longer(n_rows, epochs):
    assert epochs_of(None, n_rows, 10, 60) == epochs
    assert epochs_of(0, n_rows, 10, 60) == 0
    assert epochs_of((1, 2), n_rows, 10, 60) == (1, 2)


def test_all_rows_count_for_how_long_nets_are_pretrained():
    y = np.full(90, -1)
    y[:6] = np.arange(6) % 2
    X = np.random.default_rng(5).random((90, 4))
    for kind, objective in [
        (DBNClassifier, "discriminative"),
        (DBNClassifier, "generative"),
        (DBMClassifier, "fine_tuning"),
    ]:
        found = []
        for n_iter in (None, 60):
            more = {"pretrain_n_iter": n_iter}
            if kind is DBMClassifier and n_iter:
                more = {"pretrain_greedy_n_iter": 60, "pretrain_n_iter": 30}
            model = kind(
                (3, 2), objective=objective, unlabeled=-1, n_iter=1, random_state=0
            )
            found.append(model.set_params(**more).fit(X, y).coefs_)
        assert_same(*found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DBNClassifier, DBMClassifier])
def test_pretraining_learns_the_same_of_black_on_white(kind, digits, labels):
    X = np.kron(digits[:600].reshape(-1, 8, 8), np.ones((1, 2, 2))).reshape(600, -1)
    spreads = []
    for seed in range(2):
        for rows in (X, 1 - X):
            model = kind((40, 30), n_iter=0, pretrain_n_iter=10, random_state=seed)
            activities = model.fit(rows, labels[:600]).transform(rows)
            spreads.append(activities.std(axis=0).mean())
    # From other random numbers: not the same, but none is on a plateau.
    assert max(spreads) < 1.15 * min(spreads)


def test_layers_of_steps_begin_anew():
    """Like those of a machine that has learned nothing."""
    rng = np.random.default_rng(0)
    X, first = rng.random((50, 6)), [rng.normal(size=(6, 5)), np.zeros(5)]
    output = [rng.normal(size=(5, 2)), np.zeros(2)]
    found = []
    for size in 1e-9, 40, 1000:
        params = [rng.normal(0, size, (6, 5)), rng.normal(0, size, 5), *output]
        spread_fields(params, first, X)
        found.append([p.copy() for p in params[:2]])
    np.testing.assert_allclose(found[2][0], found[0][0], atol=1e-7)
    np.testing.assert_allclose(found[2][1], found[0][1], atol=1e-7)
    assert np.abs(found[1][0]).max() > 40


def test_layers_on_or_off_for_all_rows_begin_anew():
    """Although their fields vary, and so do those above, that learned from them."""
    rng = np.random.default_rng(0)
    X = rng.random((50, 6))
    for mean, kept in (-3, True), (-100, False), (100, False):
        before = [rng.normal(0, 3, (6, 5)), None, rng.normal(0, 9, (5, 5)), np.zeros(5)]
        before[1] = mean - X.mean(axis=0) @ before[0]
        before += [rng.normal(size=(5, 2)), np.zeros(2)]
        first = [rng.normal(0, 0.1, each.shape) for each in before]
        params = [each.copy() for each in before]
        spread_fields(params, first, X)
        for layer in 0, 2:
            assert np.allclose(params[layer], before[layer], atol=1) == kept
        activity = expit(X @ params[0] + params[1])
        assert activity.std(axis=0).mean() > 0.05


@pytest.mark.parametrize("kind", [DBNClassifier, DBMClassifier])
def test_one_column_that_is_no_bit_does_not_lose_the_others(kind, digits, labels):
    """Such as an index of refraction: the units of its machine are on for all rows."""
    column = np.random.default_rng(0).normal(1.5, 0.015, (len(digits), 1))
    X = np.hstack([digits, column])
    model = kind((100, 100), n_iter=10, random_state=0)
    with pytest.warns(UserWarning, match=r"stand for values in \[0, 1\] but"):
        model.fit(X[:600], labels[:600])
    assert model.score(X[600:], labels[600:]) > 0.85


def test_first_layers_of_real_numbers_taken_for_bits_are_soon_steps():
    """Those above are no sooner than others, but go with what they learned from."""
    rng = np.random.default_rng(0)
    X = rng.random((50, 6))
    for size, kept in (6, True), (20, False):
        before, first = [], []
        for scale in size, 40, 1:  # (Fields of the second layer vary by more than 6.)
            before += [rng.normal(0, scale, (6, 6)), np.zeros(6)]
            first += [rng.normal(0, 0.1, (6, 6)), np.zeros(6)]
        params = [each.copy() for each in before]
        spread_fields(params, first, X, reals_as_bits=True)
        for layer in 0, 2:
            assert np.allclose(params[layer], before[layer], atol=1) == kept


@pytest.mark.parametrize("kind", [DBNClassifier, DBNRegressor, DBMClassifier])
def test_an_interrupted_pretraining_is_gone_on_from(kind, monkeypatch):
    """What there is then is for standardised features, too."""
    rng = np.random.default_rng(0)
    X = 1000 * rng.normal(size=(60, 5)) + 300
    model = kind((6, 4), visible="gaussian", n_iter=3, warm_start=True, random_state=0)
    pretrain, kept = kind._pretrain, {}

    def stopped(self, X, tasks):
        pretrain(self, X, tasks)
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "_pretrain", stopped)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, X[:, 0] > 300)
    monkeypatch.undo()
    kept |= model._public(model._state["params"], model._state)
    assert model._state["standard"] is not None
    for name in "coefs_", "intercepts_":
        for one, other in zip(getattr(model, name), kept[name], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    model.fit(X, X[:, 0] > 300)
    assert model.n_iter_ == 3


@every_kind
def test_a_net_learns_from_numbers_that_are_no_bits(kind, digits, labels):
    """After a warning, and no less than without the pretraining."""
    model = KINDS[kind]((30, 20), pretrain_n_iter=5, n_iter=30, random_state=0)
    X, y = 255 * digits[:500], labels[:500] * 1.0
    with pytest.warns(UserWarning, match=r"stand for values in \[0, 1\] but"):
        score = model.fit(X, y).score(X, y)
    assert score > model.set_params(pretrain=False).fit(X, y).score(X, y) - 0.02 > 0.8


def test_a_net_learns_from_few_rows_that_are_no_bits():
    X, y = load_iris(return_X_y=True)
    model = DBNClassifier(n_iter=30, random_state=0)
    with pytest.warns(UserWarning, match=r"stand for values in \[0, 1\] but"):
        model.fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.93


def test_layers_that_hardly_vary_are_made_to():
    rng = np.random.default_rng(0)
    X = rng.random((50, 6))
    # Of a layer, how large its weights are, and random ones: enough without these; too
    # small even with them; small; and small beside random ones that vary too much.
    sizes = list(itertools.pairwise((6, 5, 5, 5, 5, 2)))
    scales = [(9, 1), (0.001, 0.01), (0.1, 8), (3, 40), (0.1, 1)]
    params, first = [], []
    for shape, (scale, random_scale) in zip(sizes, scales, strict=True):
        params += [rng.normal(0, scale, shape), rng.normal(0, scale, shape[1])]
        first += [rng.normal(0, random_scale, shape), np.zeros(shape[1])]
    params[4][:] = params[4][:, :1]  # All units of the third one do the same.
    before = [each.copy() for each in params]
    spread_fields(params, first, X.copy())
    assert_same(params[:2] + params[8:], before[:2] + before[8:])
    activity, gains, varied = expit(X @ params[0] + params[1]), [], []
    for k, wanted in ((2, 0.5), (4, None), (6, 2)):
        fields = activity @ params[k] + params[k + 1]
        if wanted:
            assert np.sqrt(fields.var(axis=0).mean()) == pytest.approx(wanted, rel=0.1)
        # What is added is random. Fields that vary keep their means.
        gain = (params[k] - before[k]) / first[k]
        np.testing.assert_allclose(gain, gain[0, 0], rtol=1e-9)
        learned = activity @ before[k] + before[k + 1]
        varied.append(np.sqrt(learned.var(axis=0).mean()))
        if varied[-1] > 0.5:
            np.testing.assert_allclose(fields.mean(axis=0), learned.mean(axis=0))
        else:  # Every unit is half on at a row of its own.
            np.testing.assert_allclose(fields[::10].diagonal(), 0, atol=1e-12)
        activity = expit(fields)
        gains.append(gain[0, 0])
    assert gains[0] > 1 and gains[1] == pytest.approx(1) and gains[2] < 1
    assert varied[0] < 0.5 and varied[1] < 0.5 < varied[2]
    ranks = [np.linalg.matrix_rank(weights[4]) for weights in (before, params)]
    assert ranks == [1, 5]


def test_rows_that_are_all_the_same_leave_layers_as_they_are():
    params = [np.full((3, 2), 0.1), np.zeros(2), np.full((2, 2), 0.1), np.zeros(2)]
    before = [each.copy() for each in params]
    spread_fields(params, before, np.full((4, 3), 0.3))
    assert_same(params, before)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DBNClassifier, DBMClassifier])
def test_pretrained_nets_of_small_tables_are_on_no_plateau(kind):
    # Early stopping took a plateau for the end: of three kinds of wine one remained.
    X, y = load_wine(return_X_y=True)
    model = kind(early_stopping=True, random_state=4)
    assert model.fit(minmax_scale(X), y).score(minmax_scale(X), y) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DBNClassifier, DBMClassifier])
def test_pretrained_units_of_small_tables_are_no_copies(kind):
    """Independent features, of which a machine learns nothing: shells around 0."""
    X, y = make_gaussian_quantiles(n_samples=600, n_features=5, random_state=0)
    X = minmax_scale(X)
    model = kind(random_state=0).fit(X[:450], y[:450])
    assert model.score(X[450:], y[450:]) > 0.8


def test_one_number_of_epochs_a_layer(digits, labels, capsys):
    model = small(pretrain_n_iter=(3, 1), pretrain_learning_rate=(0.1, 0.05), verbose=1)
    model.fit(digits[:60], labels[:60])
    lines = capsys.readouterr().out.splitlines()
    assert ["layer 1" in line for line in lines] == [True] * 3 + [False] * 4
    assert ["layer 2" in line for line in lines] == [False] * 3 + [True] + [False] * 3
    assert all("DBNClassifier" in line for line in lines)


def test_unlabelled_rows_change_only_the_pretraining(digits, labels):
    y = labels[:300].copy()
    y[100:] = -1
    labelled = digits[:100], y[:100]
    plain = small(pretrain=False, unlabeled=-1)
    with_them = clone(plain).fit(digits[:300], y)
    # Rows without labels are not fine-tuned on: only their numbers shuffle others.
    assert_same_model(with_them, clone(plain).fit(*labelled))
    model = small(unlabeled=-1, n_iter=0)
    found = clone(model).fit(digits[:300], y)
    assert not np.allclose(found.coefs_[0], clone(model).fit(*labelled).coefs_[0])
    all_labels = clone(model).set_params(unlabeled=None)
    assert_same(found.coefs_[:2], all_labels.fit(digits[:300], labels[:300]).coefs_[:2])


@every_kind
def test_first_partial_fit_pretrains_and_later_ones_do_not(kind, digits, labels):
    y = targets(kind, labels)
    more = {"classes": np.arange(10)} if kind == "classifier" else {}
    model = small(kind, learning_rate_schedule="constant", n_iter=1)
    fitted = clone(model).fit(digits[:300], y[:300])
    model.partial_fit(digits[:300], y[:300], **more)
    assert_same_model(model, fitted)
    model.partial_fit(digits[300:400], y[300:400])
    assert model.n_iter_ == len(model.loss_curve_) == 2
    still = clone(model).set_params(learning_rate=1e-12)
    still.partial_fit(digits[:300], y[:300], **more)
    before = [W.copy() for W in still.coefs_]
    still.partial_fit(digits[300:], y[300:])
    for W, b in zip(still.coefs_, before):
        np.testing.assert_allclose(W, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("value", [0.1, 7.0])
def test_targets_that_do_not_vary_have_no_scale(value, digits):
    model = small("regressor", pretrain_n_iter=1)
    for _ in range(3):
        model.partial_fit(digits[:70], np.full(70, value))
        assert model._state["y_scale"] == [1]
        assert not model._state["y_known"]
    model.partial_fit(digits[:70], np.arange(70.0))
    assert model._state["y_scale"] > 1
    assert model._state["y_known"]


@pytest.mark.slow
@pytest.mark.parametrize("n_first", [1, 10, 120])
def test_first_rows_together_say_the_scale_of_targets(n_first):
    X, y = load_diabetes(return_X_y=True)
    X, y = minmax_scale(X), y * 1e4
    model = DBNRegressor((20,), random_state=0)
    model.partial_fit(X[:n_first], np.full(n_first, y[0]))
    for _ in range(40):
        for start in range(0, 440, 20):
            model.partial_fit(X[start : start + 20], y[start : start + 20])
    # (A linear regression has 0.52.)
    assert model.score(X, y) > 0.45


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", ["sgd", "lbfgs"])
def test_features_of_any_scale_teach_a_net(kind, solver):
    X, y = load_wine(return_X_y=True)
    model = KINDS[kind]((20, 15), visible="gaussian", solver=solver, random_state=0)
    model.set_params(n_iter=30, pretrain_n_iter=5)
    scores = [
        model.fit(rows, y).score(rows, y)
        for rows in (StandardScaler().fit_transform(X), X, 1e4 * X, X + 1000)
    ]
    assert min(scores) > max(0.8, scores[0] - 0.05)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@every_kind
@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
def test_tiny_numbers_among_zeros_have_no_say(solver, kind, digits, labels):
    # (The inverse of such a number is none of float32.)
    X, y = 16 * digits[:100].astype(np.float32), targets(kind, labels[:100])
    X[:, 0], X[::9, 0] = 0, 1e-40
    model = small(kind, pretrain=False, solver=solver).fit(X, y)
    others = X.copy()
    others[:, 0] = 0
    np.testing.assert_array_equal(model.predict(others), model.predict(X))


@every_kind
def test_nets_that_tell_no_rows_apart_are_warned_of(kind, digits, labels):
    model = small(kind)
    text = f"last hidden layer of {type(model).__name__} hardly tells rows apart"
    for rows, dead in [(np.tile(digits[:1], (60, 1)), True), (digits[:60], False)]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(rows, labels[:60])
        assert any(text in str(w.message) for w in caught) == dead
        assert (model.transform(rows).std(axis=0).max() < 1e-4) == dead


def test_what_helps_is_what_there_is(digits, labels):
    X = np.tile(digits[:1], (60, 1))
    text = "over 60 training rows .* Try more epochs{}$"
    predicting = DBMClassifier((4,), objective="multi_prediction", n_iter=1)
    everything = DBNTransformer((4, 3), output="all", n_iter=1)
    for model, remedies in [
        (predicting, ", or objective='fine_tuning'."),
        (everything, ".*, .* data with visible='gaussian', or a StandardScaler .*"),
        (clone(everything).set_params(output="top"), ".*, output='all', or .*"),
    ]:
        with pytest.warns(ConvergenceWarning, match=text.format(remedies)):
            model.fit(X, labels[:60])


def test_a_fit_settles_the_scale_of_targets(digits, labels):
    X, y = digits[:60], labels[:60].astype(float)
    model = DBNRegressor((9,), n_iter=20, pretrain_n_iter=1, random_state=0).fit(X, y)
    scale, before = model._state["y_scale"], model.score(X, y)
    model.partial_fit(X[:1], 10 * y[:1] + 50)
    assert_same(model._state["y_scale"], scale)
    assert abs(model.score(X, y) - before) < 0.2


@pytest.mark.slow
def test_wide_sparse_rows_are_made_dense_a_few_at_a_time():
    X = sp.random(320, 100_000, 1e-3, "csr", np.float32, random_state=0)
    model = DBNClassifier((2,), n_iter=1, pretrain_n_iter=1, random_state=0)
    peaks = []
    for pretrain in (False, True):
        with traced_memory() as memory:
            clone(model).set_params(pretrain=pretrain).fit(X > 0, np.arange(320) % 2)
        peaks.append(memory.peak)
    # 300 rows are 120 MB.
    assert peaks[1] < peaks[0] + 60e6


def test_scale_of_targets_stays_once_it_is_known(digits, labels):
    y = labels.astype(float)
    model = small("regressor", learning_rate=1e-9, pretrain_n_iter=1)
    model.partial_fit(digits[:99], y[:99])
    before = model.coefs_[-1]
    model.partial_fit(digits[:100], 1e3 * y[:100])
    assert np.linalg.norm(model.coefs_[-1]) > 100 * np.linalg.norm(before)
    before = model.predict(digits)
    model.partial_fit(digits[:50], 1e6 * y[:50])
    np.testing.assert_allclose(model.predict(digits), before, rtol=1e-3)


@pytest.mark.parametrize("solver", ["sgd", "adam"])
@pytest.mark.parametrize(
    "model",
    [DBNClassifier((9, 7)), DBNClassifier(9, pretrain=False), DBMClassifier((9, 7))],
)
def test_batch_without_labels_leaves_the_net_as_it_is(model, solver, digits, labels):
    model = clone(model).set_params(
        solver=solver, weight_decay=0.1, pretrain_n_iter=1, n_iter=2, unlabeled=-1
    )
    twin = model.set_params(random_state=0).fit(digits[:50], labels[:50])
    model = copy.deepcopy(twin).partial_fit(digits[50:70], np.full(20, -1))
    assert_same(fitted_state(model)["_state"], fitted_state(twin)["_state"])
    assert_same(model.predict_proba(digits), twin.predict_proba(digits))
    # It counts as an epoch, of which there is no loss.
    assert model.n_iter_ == 3
    assert np.isnan(model.loss_curve_).tolist() == [False, False, True]
    # Training goes on as it would have.
    for each in (model, twin):
        each.partial_fit(digits[:50], labels[:50])
    assert_same(model.coefs_, twin.coefs_)


BEGINNERS = [
    DBNClassifier((9, 7), pretrain_n_iter=1),
    DBNClassifier((9, 7), pretrain=False),
    DBNClassifier((9, 7), objective="generative", pretrain_n_iter=1),
    DBMClassifier((9, 7), pretrain_n_iter=1, pretrain_greedy_n_iter=1),
    DBMClassifier((9, 7), objective="multi_prediction"),
]


@pytest.mark.parametrize("model", BEGINNERS)
def test_first_batch_may_lack_classes_or_all_labels(model, digits, labels):
    X, y = digits[:300], labels[:300]
    for first in (np.flatnonzero(y == 3), np.arange(50)):
        known = y[first] if first[0] else np.full(50, -1)
        net = clone(model).set_params(unlabeled=-1, random_state=0)
        net.partial_fit(X[first], known, classes=np.arange(10))
        assert net.n_iter_ == 1
        for _ in range(2):
            np.testing.assert_array_equal(net.classes_, np.arange(10))
            p = net.predict_proba(X)
            assert p.shape == (300, 10)
            assert (p > 0).all()
            np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-9)
            net.partial_fit(X, y)
        with pytest.raises(ValueError, match="cannot learn what the classes are"):
            clone(net).fit(X[:50], np.full(50, -1))


def test_weights_of_classes_that_are_still_to_come(digits, labels):
    # Only their ratios matter; where no label tells their mean, each counts once.
    weights = {0: 2.0, 1: 6.0}
    net = DBNClassifier((9, 7), class_weight=weights, pretrain=False, unlabeled=-1)
    net.partial_fit(digits[:50], np.full(50, -1), classes=[0, 1])
    np.testing.assert_allclose(net._state["class_weight"], [0.5, 1.5])


@every_kind
@pytest.mark.parametrize("solver", ["sgd", "adam"])
def test_warm_start_goes_on(kind, solver, digits, labels):
    X, y = digits[:100], targets(kind, labels[:100])
    model = small(kind, solver=solver, learning_rate_schedule="constant", dropout=0.2)
    wanted = clone(model).set_params(n_iter=5).fit(X, y)
    model.set_params(n_iter=2, warm_start=True).fit(X, y)
    assert_same_model(model.set_params(n_iter=3).fit(X, y), wanted)


# ---- It learns ----


@pytest.mark.thinned(3)
@pytest.mark.parametrize("pretrain", [True, False])
@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
def test_learns_iris(pretrain, solver):
    X, y = load_iris(return_X_y=True)
    model = DBNClassifier(
        (10,),
        pretrain=pretrain,
        solver=solver,
        learning_rate=0.01 if solver == "adam" else None,
        batch_size=10,
        n_iter=60,
        random_state=0,
    )
    assert model.fit(minmax_scale(X), y).score(minmax_scale(X), y) > 0.93


@pytest.mark.slow
@pytest.mark.parametrize("pretrain", [True, False])
def test_learns_digits(pretrain, digits, labels):
    model = DBNClassifier(
        (60, 60), pretrain=pretrain, batch_size=20, n_iter=60, random_state=0
    ).fit(digits[:1200], labels[:1200])
    # 597 test rows; a linear classifier has 0.91.
    assert model.score(digits[1200:], labels[1200:]) > 0.85


@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
def test_learns_to_predict_numbers(solver):
    X, y = load_diabetes(return_X_y=True)
    X = minmax_scale(X)
    model = DBNRegressor((20,), solver=solver, random_state=0).fit(X[:300], y[:300])
    # (A linear regression has 0.51.)
    assert model.score(X[300:], y[300:]) > 0.4


# ---- Options ----


def test_no_dropout_is_a_rate_of_zero(digits, labels):
    X, y = digits[:100], labels[:100]
    wanted = small().fit(X, y)
    for name in ("dropout", "input_dropout"):
        assert_same_model(small(**{name: 0}).fit(X, y), wanted)
        other = small(**{name: 0.3}).fit(X, y)
        assert not np.allclose(other.coefs_[-1], wanted.coefs_[-1])
        # Nothing is dropped when the net is used.
        assert_same(other.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize("solver", ["sgd", "adam"])
def test_max_norm_holds(solver, digits, labels):
    X, y = digits[:200], labels[:200]
    model = small(solver=solver, max_norm=0.3, pretrain=False).fit(X, y)
    free = clone(model).set_params(max_norm=None).fit(X, y)
    for W, unbound in zip(model.coefs_, free.coefs_):
        assert np.linalg.norm(W, axis=0).max() <= 0.3 * (1 + 1e-12)
        assert np.linalg.norm(unbound, axis=0).max() > 0.3


def test_early_stopping_keeps_the_best_epoch(digits, labels):
    X, y = digits[:300], labels[:300]
    model = small(n_iter=30, early_stopping=True, n_iter_no_change=4, learning_rate=1.0)
    model.fit(X, y)
    found = model.history_["validation_accuracy"]
    # (Of epochs with the same accuracy, the likeliest.)
    both = list(zip(found, model.history_["validation_log_likelihood"], strict=True))
    assert model.best_n_iter_ == 1 + both.index(max(both))
    assert model.n_iter_ == len(found)
    assert model.n_iter_ in (30, model.best_n_iter_ + 4)
    short = clone(model).set_params(
        learning_rate_schedule="constant", n_iter=model.best_n_iter_
    )
    constant = clone(model).set_params(learning_rate_schedule="constant").fit(X, y)
    short.set_params(n_iter=constant.best_n_iter_).fit(X, y)
    assert_same(short.coefs_, constant.coefs_)


@pytest.mark.parametrize("kind", [DBNClassifier, DBMClassifier])
def test_rows_held_out_count_as_their_classes_do(kind, digits, labels):
    X, y = digits[:300], (labels[:300] == 3).astype(int)
    model = kind((8,), early_stopping=True, class_weight="balanced", random_state=0)
    model.set_params(validation_fraction=0.4, n_iter=3).fit(X, y)
    state = model._state
    division = KnownDivision(y >= 0, 0.4, state["key"], "labels", False, y)
    rows = division.held_out
    weights = state["class_weight"][y[rows]]
    scored = balanced_accuracy_score(y[rows], model.predict(X[rows]))
    best = max(model.history_["validation_accuracy"])
    # (Of either class, the same share is held out, but for a row.)
    assert best == pytest.approx(scored, abs=0.02)
    assert best == pytest.approx(model.score(X[rows], y[rows], weights), rel=1e-9)
    at = model.best_n_iter_ - 1
    log_p = model.predict_log_proba(X[rows])[np.arange(len(rows)), y[rows]]
    found = model.history_["validation_log_likelihood"][at]
    assert found == pytest.approx(np.average(log_p, weights=weights), rel=1e-6)


def test_early_stopping_where_there_is_nothing_to_learn(digits):
    # L-BFGS takes no step from where the gradient is zero.
    model = small(solver="lbfgs", early_stopping=True).fit(digits[:20], np.zeros(20))
    assert model.n_iter_ == model.best_n_iter_ == 0


def test_early_stopping_of_numbers(digits, labels):
    model = small("regressor", n_iter=8, early_stopping=True, n_iter_no_change=3)
    model.fit(digits[:200], labels[:200])
    found = model.history_["validation_r2"]
    assert model.best_n_iter_ == 1 + np.argmax(found)


def test_class_weight_that_is_no_number_is_named(digits, labels):
    model = DBNClassifier((5,), class_weight={1: "much"})
    with pytest.raises(ValueError, match="class_weight: .*'much'"):
        model.fit(digits, labels)


def test_class_weights_count_as_repeated_rows(digits, labels):
    X, y = digits[:60], labels[:60] % 2
    twice = np.concatenate([np.arange(60), np.flatnonzero(y)])
    model = small(solver="lbfgs", pretrain=False, n_iter=5)
    wanted = clone(model).fit(X[twice], y[twice])
    for weight in ({1: 2}, {0: 0.5, 1: 1.0}):
        found = clone(model).set_params(class_weight=weight).fit(X, y)
        for a, b in zip(found.coefs_, wanted.coefs_):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("objective", ["discriminative", "generative"])
def test_a_fit_that_goes_on_takes_the_class_weights_that_are_set_now(
    objective, digits, labels
):
    X, y = digits[:60], labels[:60] % 3
    one = small(objective=objective, pretrain_n_iter=1, n_iter=0).fit(X, y)
    wanted = clone(one).set_params(class_weight={1: 5.0}).fit(X, y)
    one.set_params(class_weight={1: 5.0})
    for model in (one, wanted):
        model.set_params(warm_start=True, n_iter=1).fit(X, y)
    assert_same(one._state["class_weight"], wanted._state["class_weight"])
    if objective == "generative":  # where they are not in the loss
        assert_same(one.intercept_label_, wanted.intercept_label_)
    # Classes that do not come cannot be balanced.
    some = y > 0
    one.set_params(class_weight="balanced").fit(X[some], y[some])
    n = np.bincount(y)[1:]
    np.testing.assert_allclose(one._state["class_weight"][1:], n.sum() / 2 / n)
    with pytest.raises(ValueError, match="class_weight=.* must be finite numbers"):
        one.set_params(class_weight={1: -1.0}).fit(X, y)


def test_balanced_class_weights(digits, labels):
    X, y = digits[:60], (labels[:60] == 3).astype(int)
    counts = np.bincount(y)
    model = small()
    found = clone(model).set_params(class_weight="balanced").fit(X, y)
    weight = {k: 1 / n for k, n in enumerate(counts)}
    wanted = clone(model).set_params(class_weight=weight).fit(X, y)
    for a, b in zip(found.coefs_, wanted.coefs_):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@every_kind
def test_lbfgs_stops_at_its_tolerance(kind, digits, labels):
    X, y = digits[:40], targets(kind, labels[:40] % 2)
    model = small(kind, solver="lbfgs", n_iter=2000, weight_decay=0.1, tol=1e-5)
    model.fit(X, y)
    assert model.n_iter_ < 2000
    assert "learning_rate" not in model.history_
    assert (np.diff(model.loss_curve_) <= 0).all()


@every_kind
@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
def test_any_number_of_threads_gives_the_same_bits(kind, solver, digits, labels):
    X, y = np.tile(digits[:200], 4).astype(np.float32), targets(kind, labels[:200])
    model = small(kind, (150, 120), solver=solver, n_iter=1, batch_size=100)
    model.set_params(pretrain_n_iter=1, pretrain_batch_size=100)
    if solver == "lbfgs":
        model.set_params(n_iter=5)  # whose own sums SciPy leaves to BLAS
    else:
        model.set_params(dropout=0.5, input_dropout=0.2, max_norm=3.0)
    model.set_params(weight_decay=1e-3)
    states = []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads):
            states.append(fitted_state(clone(model).fit(X, y)))
    assert_same(states[1:], states[:1] * 2)


@every_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, np.uint8])
def test_csr_gives_the_model_of_the_dense_array(kind, dtype, digits, labels):
    X, y = (digits[:100] > 0.5).astype(dtype), targets(kind, labels[:100])
    wanted, model = small(kind).fit(X, y), small(kind).fit(sp.csr_array(X), y)
    assert_same_model(model, wanted)
    assert_same(model.predict(sp.csr_array(X)), wanted.predict(X))
    assert model.coefs_[0].dtype == (np.float64 if dtype == np.float64 else np.float32)


@pytest.mark.parametrize(
    "kind, narrow, wide, adam",
    [("classifier", 0.1, 0.05, 0.005), ("regressor", 0.01, 0.005, 0.003)],
)
def test_learning_rates_where_none_is_given(kind, narrow, wide, adam, digits, labels):
    for sizes, solver, rate in [
        ((9, 250), "sgd", narrow),
        ((500, 9), "sgd", wide),
        ((500, 9), "adam", adam),
    ]:
        model = small(kind, sizes, solver=solver, pretrain=False, n_iter=1)
        model.fit(digits[:32], labels[:32])
        assert model.history_["learning_rate"] == [pytest.approx(rate)]


# ---- Interrupts ----

LONG_FITS = {
    "pretraining": {"pretrain_n_iter": 10**6},
    "second layer": {"pretrain_n_iter": (1, 10**6)},
    "fine-tuning": {"n_iter": 10**6},
    "lbfgs": {"n_iter": 10**6, "solver": "lbfgs", "tol": 0.0},
}


@pytest.mark.thinned(3)
@every_kind
@pytest.mark.parametrize("case", LONG_FITS)
def test_interrupt_leaves_a_usable_model(kind, case, digits, labels):
    y = targets(kind, labels)
    fine_tunes = "n_iter" in LONG_FITS[case]
    model = soon_interrupted(
        lambda: small(kind, **LONG_FITS[case]),
        lambda model: model.fit(digits, y),
        begun=lambda model: not fine_tunes or model.n_iter_ > 0,
    )
    assert all(len(entries) == model.n_iter_ for entries in model.history_.values())
    assert (model.n_iter_ > 0) == fine_tunes
    assert np.isfinite(model.transform(digits)).all()
    assert model.predict(digits).shape == (1797,)
    done = model.n_iter_
    model.set_params(warm_start=True, n_iter=1).fit(digits, y)
    assert model.n_iter_ == done + 1


# ---- What is refused ----


@pytest.mark.parametrize("sizes", [(), (0,), (5, -1), (2.5,), ("a",), 0, [[1], [2]]])
@pytest.mark.parametrize("container", [lambda sizes: sizes, np.array])
def test_bad_sizes(sizes, container, digits, labels):
    with pytest.raises(ValueError, match="'hidden_layer_sizes' parameter"):
        DBNClassifier(container(sizes)).fit(digits[:20], labels[:20])


@pytest.mark.parametrize("sizes", [6, [6], (6,)])
def test_sizes_of_any_kind(sizes, digits, labels):
    model = small(sizes=sizes).fit(digits[:50], labels[:50])
    assert [W.shape[1] for W in model.coefs_] == [6, 10]


@pytest.mark.parametrize("model", [DBNTransformer(), DBMTransformer()], ids=name_of)
@pytest.mark.parametrize("sizes", [6, [6, 5], np.array([6, 5])], ids=repr)
def test_sizes_of_machines(model, sizes, digits):
    model = clone(model).set_params(hidden_layer_sizes=sizes, n_iter=1)
    model.fit(digits[:50])
    assert [len(W) for W in model.components_] == np.ravel(sizes).tolist()


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize(
    "model",
    [
        DBNTransformer((6, 5), n_iter=1),
        DBMTransformer((6, 5), n_iter=1, pretrain_n_iter=1),
        DBNClassifier((6, 5), n_iter=1, pretrain_n_iter=1, solver="sgd"),
        DBNClassifier((6, 5), n_iter=1, pretrain_n_iter=1, objective="generative"),
        DBMClassifier((6, 5), n_iter=1, pretrain_n_iter=1, solver="sgd"),
    ],
    ids=name_of,
)
def test_training_that_diverges_leaves_the_model_as_it_was(model, digits, labels):
    X, y = digits[:100].astype(np.float32), labels[:100]
    model = clone(model).set_params(random_state=0).fit(X, y)
    before = copy.deepcopy(model)
    rate = model.learning_rate
    with pytest.raises(ValueError, match="diverged"):
        model.set_params(learning_rate=3e38).partial_fit(X, y)
    model.set_params(learning_rate=rate)
    assert_same_model(model, before)
    assert_same_model(model.partial_fit(X, y), before.partial_fit(X, y))


@pytest.mark.parametrize("estimator", [DBNClassifier, DBNRegressor, DBMClassifier])
def test_data_that_the_pretraining_refuses_leave_the_net_as_it_was(
    estimator, digits, labels
):
    model = estimator((4, 3), visible="gaussian", n_iter=1, pretrain_n_iter=1)
    narrow = (1e-23 * digits[:50]).astype(np.float32)
    more = {} if estimator is DBNRegressor else {"classes": range(10)}
    with pytest.raises(ValueError, match="variance of visible unit"):
        model.partial_fit(narrow, labels[:50], **more)
    assert not fitted_state(model)
    model.fit(digits[:50], labels[:50] % 2)
    before = copy.deepcopy(model)
    with pytest.raises(ValueError, match="variance of visible unit"):
        model.fit(narrow, labels[:50])
    assert_same_model(model, before)


@pytest.mark.parametrize("estimator", [DBNClassifier, DBNRegressor, DBMClassifier])
def test_sizes_in_an_array(estimator, digits, labels):
    sizes = np.array([6, 5])
    params = {"pretrain_n_iter": 1, "n_iter": 1, "random_state": 0}
    model = clone(estimator(sizes, **params)).fit(digits[:50], labels[:50])
    wanted = estimator((6, 5), **params).fit(digits[:50], labels[:50])
    assert_same(model.coefs_, wanted.coefs_)
    assert estimator(sizes).get_params()["hidden_layer_sizes"] is sizes
    model.set_params(warm_start=True, hidden_layer_sizes=(6, 5))
    model.fit(digits[:50], labels[:50])
    model.set_params(hidden_layer_sizes=np.array([6, 4]))
    with pytest.raises(ValueError, match=r"hidden_layer_sizes=array.* has \(6, 5\)"):
        model.fit(digits[:50], labels[:50])


@pytest.mark.parametrize("name", ["pretrain_n_iter", "pretrain_learning_rate"])
def test_wrong_number_of_layers(name, digits, labels):
    with pytest.raises(ValueError, match=rf"{name}=\(1, 1, 1\) .*2 hidden layers"):
        small(**{name: (1, 1, 1)}).fit(digits[:20], labels[:20])


@pytest.mark.parametrize(
    "settings",
    [{"dropout": 0.5}, {"input_dropout": 0.2}, {"max_norm": 3.0}],
)
def test_lbfgs_takes_nothing_random(settings, digits, labels):
    name = next(iter(settings))
    with pytest.raises(ValueError, match=f"{name}=.* needs solver='sgd' or 'adam'"):
        small(solver="lbfgs", **settings).fit(digits[:20], labels[:20])


@pytest.mark.parametrize("model", [DBNClassifier(), DBNRegressor(), DBMClassifier()])
def test_lbfgs_has_no_partial_fit(model):
    model = clone(model).set_params(solver="lbfgs")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit"):
        _ = model.partial_fit
    assert hasattr(model.set_params(solver="adam"), "partial_fit")
    model = DBNClassifier(solver="lbfgs", objective="generative")
    assert hasattr(model, "partial_fit")  # it has no solver


@every_kind
def test_partial_fit_does_not_stop_early(kind, digits, labels):
    more = {"classes": np.arange(10)} if kind == "classifier" else {}
    with pytest.raises(ValueError, match="partial_fit .*early_stopping=True"):
        small(kind, early_stopping=True).partial_fit(digits[:20], labels[:20], **more)


@pytest.mark.parametrize("warm", [True, False])
def test_sizes_cannot_change_in_training(warm, digits, labels):
    model = small(warm_start=warm).fit(digits[:50], labels[:50])
    model.set_params(hidden_layer_sizes=(9, 8))
    train = model.fit if warm else model.partial_fit
    with pytest.raises(ValueError, match=r"hidden_layer_sizes=\(9, 8\) .* \(9, 7\)"):
        train(digits[:50], labels[:50])


def test_labels_that_are_refused(digits, labels):
    X, y = digits[:50], labels[:50]
    with pytest.raises(ValueError, match="y has no label: .*unlabeled=-1"):
        small(unlabeled=-1).fit(X, np.full(50, -1))
    with pytest.raises(ValueError, match="requires y to be passed"):
        small().fit(X, None)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        small().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"y has labels \[9\]"):
        small().partial_fit(X, y, classes=np.arange(9))
    for classes in (10, [[0, 1]], [], np.array([])):
        for model in (small(), RBMClassifier(2)):
            with pytest.raises(
                ValueError, match="classes must be an array .* not empty"
            ):
                model.partial_fit(X, y, classes=classes)
    with pytest.raises(ValueError, match=r"unlabeled=3 marks rows without a label"):
        small(unlabeled=3).partial_fit(X, y, classes=np.arange(10))
    model = small().fit(X, y)
    with pytest.raises(ValueError, match="are not those of the model so far"):
        model.partial_fit(X, y, classes=np.arange(11))


@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
def test_fit_does_not_go_on_without_a_label(solver, digits, labels):
    model = small(solver=solver, unlabeled=-1).fit(digits[:50], labels[:50])
    twin = copy.deepcopy(model)
    for settings in ({"warm_start": True}, {"early_stopping": True}):
        model.set_params(**settings)
        with pytest.raises(ValueError, match="y has no label: .*unlabeled=-1"):
            model.fit(digits[:50], np.full(50, -1))
    assert_same(fitted_state(model), fitted_state(twin))


@pytest.mark.parametrize(
    "weight", [{0: -1.0}, dict.fromkeys(range(10), 0.0), {0: np.inf}, {0: np.nan}]
)
def test_bad_class_weights(weight, digits, labels):
    with pytest.raises(ValueError, match="class_weight=.* must be finite numbers"):
        small(class_weight=weight).fit(digits[:100], labels[:100])


def test_balanced_weights_are_not_for_partial_fit(digits, labels):
    with pytest.raises(ValueError, match="class_weight='balanced' is not supported"):
        small(class_weight="balanced").partial_fit(
            digits[:50], labels[:50], classes=np.arange(10)
        )


def test_numbers_that_are_refused(digits, labels):
    X, y = digits[:50], labels[:50].astype(float)
    with pytest.raises(ValueError, match="requires y to be passed"):
        small("regressor").fit(X, None)
    with pytest.raises(ValueError, match="y contains NaN"):
        small("regressor").fit(X, np.where(y == 3, np.nan, y))
    with pytest.raises(ValueError, match="dim 3"):
        small("regressor").fit(X, y[:, None, None])
    model = small("regressor").fit(X, y)
    with pytest.raises(ValueError, match="y has 2 outputs, .* 1"):
        model.partial_fit(X, np.column_stack([y, y]))


def test_nothing_left_to_train_on(digits, labels):
    model = small(early_stopping=True, validation_fraction=0.9)
    with pytest.raises(ValueError, match="validation_fraction=0.9 leaves nothing"):
        model.fit(digits[:4], labels[:4])


def test_r2_takes_two_rows(digits, labels):
    X, y = digits[:11], labels[:11]
    model = small("regressor", early_stopping=True)
    with pytest.raises(ValueError, match=r"validation_fraction=0\.1 .* R\^2 .* two"):
        model.fit(X[:10], y[:10])
    assert np.isfinite(model.fit(X, y).history_["validation_r2"]).all()


def test_values_out_of_range_are_the_pretrainings_affair(digits, labels):
    X, y = digits[:50] * 16, labels[:50]
    with pytest.warns(UserWarning, match="DBNClassifier, layer 1 .*values in"):
        small().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(pretrain=False).fit(X, y).predict(X)


@pytest.mark.parametrize("kind", [DBNClassifier, DBMClassifier])
def test_weights_of_what_is_no_label_are_named(kind, digits, labels):
    # Those of more labels than there are do no harm, if all that there are have one.
    model = kind((5,), class_weight={**dict.fromkeys(range(10), 1.0), 12: 3.0})
    model.set_params(n_iter=1).fit(digits[:100], labels[:100])
    with pytest.raises(
        ValueError, match=r"class_weight=\{0: 2.0, '3': 5.0\} .* for \['3'\], .* \[0, 1"
    ):
        model.set_params(class_weight={0: 2.0, "3": 5.0}).fit(digits, labels)


@pytest.mark.parametrize(
    "n_rows, settings, n_epochs",
    [
        (7000, {}, 100),
        (14000, {}, 50),
        (70000, {}, 20),
        (14000, {"n_iter": 3}, 3),
        (50, {"objective": "generative"}, 100),
    ],
)
def test_epochs_where_none_are_given(n_rows, settings, n_epochs):
    X = np.arange(n_rows)[:, np.newaxis] % 2
    model = DBNClassifier((2,), pretrain_n_iter=0, batch_size=n_rows, **settings)
    assert model.fit(X, X[:, 0]).n_iter_ == n_epochs


def test_many_rows_take_all_iterations_of_lbfgs():
    X = np.random.default_rng(0).random((14000, 2))
    y = np.random.default_rng(1).integers(0, 2, 14000)
    model = DBNClassifier((4,), pretrain=False, solver="lbfgs", tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert model.fit(X, y).n_iter_ > 50
