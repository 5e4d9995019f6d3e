"""DBMClassifier by multi-prediction: gradients, a plain twin, values that miss."""

import copy
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_softmax, softmax
from scipy.stats import kstest
from sklearn.metrics import log_loss
from sklearn.utils import get_tags

from common import assert_same, floats, soon_interrupted, traced_memory
from sklearn_ebm import DBMClassifier
from sklearn_ebm.layered import connections
from sklearn_ebm.nets._multi_prediction import (
    MultiPredictionNet,
    Observed,
    _softmax,
)

N_INPUTS, N_CLASSES = 5, 3
WEIGHTS = np.array([1.0, 2.0, 0.5])
SIZES = [(4,), (4, 3), (4, 3, 2), (3, 2, 2, 3)]
every_depth = pytest.mark.parametrize("sizes", SIZES, ids=str)


def net_and_params(sizes, n_steps=4, weight_decay=0.0, dtype=float):
    """A net and random parameters; layers of an odd and an even number side by side."""
    layers = [N_INPUTS + N_CLASSES, *sizes]
    connected = np.block(
        [
            [np.full((even, odd), abs(2 * i - 2 * k - 1) == 1) for k, odd in odds]
            for odds in [list(enumerate(layers[1::2]))]
            for i, even in enumerate(layers[::2])
        ]
    )
    rng = np.random.default_rng(len(sizes))
    params = [
        rng.normal(size=connected.shape) * connected,
        rng.normal(size=connected.shape[1]),
        rng.normal(size=connected.shape[0]),
    ]
    net = MultiPredictionNet(N_INPUTS, WEIGHTS, n_steps, connected, weight_decay)
    return net, [each.astype(dtype) for each in params]


def minibatch(dtype=float):
    """Rows with missing inputs, labels some of which are not known, and masks."""
    rng = np.random.default_rng(5)
    X = rng.random((8, N_INPUTS)).astype(dtype)
    X[0, 1] = X[2, 3] = X[3] = np.nan
    codes = np.array([0, 1, 2, -1, 1, 0, 2, -1], np.int32)
    observed = rng.random((8, N_INPUTS)) < 0.5
    told = np.array([1, 0, 1, 1, 0, 0, 1, 0], bool)[:, np.newaxis]
    whole = np.array([0, 0, 1, 1, 0, 1, 0, 0], bool)[:, np.newaxis]
    return X, codes, [observed, told, whole]


def twin(params, x, code, observed, told, n_steps, whole=False):
    """One row: the loss, fields of the classes, means of the odd and even units."""
    W, c, b = params
    n, m = N_INPUTS, N_INPUTS + N_CLASSES
    if whole and code >= 0:
        observed, told = np.ones(n, bool), False

    def means(field):
        even = expit(field)
        even[n:m] = softmax(field[n:m])
        for i in range(n):
            if observed[i] and not np.isnan(x[i]):
                even[i] = x[i]
        if told and code >= 0:
            even[n:m] = np.arange(N_CLASSES) == code
        return even

    even = means(b)
    for _ in range(n_steps):
        odd = expit(even @ W + c)
        field = W @ odd + b
        even = means(field)
    loss = 0.0
    for i in range(n):
        if not observed[i] and not np.isnan(x[i]):
            p = expit(field[i])
            loss -= x[i] * np.log(p) + (1 - x[i]) * np.log(1 - p)
    if not told and code >= 0:
        loss -= WEIGHTS[code] * log_softmax(field[n:m])[code]
    return loss, field[n:m], odd, even


# ---- The net ----


@every_depth
def test_loss_is_that_of_a_plain_twin(sizes):
    net, params = net_and_params(sizes, weight_decay=0.3)
    X, codes, masks = minibatch()
    found, _ = net.loss_and_grads(params, X, codes, masks)
    seen, told, whole = (mask > 0 for mask in masks)
    losses = [
        twin(params, X[r], codes[r], seen[r], told[r, 0], 4, whole[r, 0])[0]
        for r in range(len(X))
    ]
    wanted = np.mean(losses) + 0.15 * np.square(params[0]).sum()
    assert found == pytest.approx(wanted, rel=1e-12)


@every_depth
def test_predictions_are_those_of_a_plain_twin(sizes):
    net, params = net_and_params(sizes)
    X, _, _ = minibatch()
    hidden, fields = net.forward(params, X)
    everything = np.ones(N_INPUTS, bool)
    for r in range(len(X)):
        _, wanted, odd, even = twin(params, X[r], -1, everything, False, 4)
        np.testing.assert_allclose(fields[r], wanted, rtol=1e-12, atol=1e-12)
        latent = even[N_INPUTS + N_CLASSES :]
        np.testing.assert_allclose(
            hidden[r], latent if len(latent) else odd, rtol=1e-12
        )


@every_depth
def test_gradient_is_that_of_finite_differences(sizes):
    net, params = net_and_params(sizes, weight_decay=0.03)
    X, codes, masks = minibatch()
    _, grads = net.loss_and_grads(params, X, codes, masks)
    for k, (param, grad) in enumerate(zip(params, grads, strict=True)):
        wanted = np.zeros_like(param)
        for index in np.ndindex(param.shape):
            if k == 0 and not net.connected[index]:
                continue
            ends = []
            for h in (1e-5, -1e-5):
                moved = [each.copy() for each in params]
                moved[k][index] += h
                ends.append(net.loss_and_grads(moved, X, codes, masks)[0])
            wanted[index] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(grad, wanted, rtol=1e-6, atol=1e-8)


@floats
def test_softmax_of_any_fields(dtype):
    rng = np.random.default_rng(0)
    scale = 10.0 ** rng.integers(-3, 6, (20, 1))
    fields = (rng.normal(size=(20, 3)) * scale).astype(dtype)
    found = _softmax(fields)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, softmax(fields, axis=1), rtol=1e-6)


def test_scale_and_dtype():
    net, params = net_and_params((4, 3), dtype=np.float32)
    X, codes, masks = minibatch(np.float32)
    loss, grads = net.loss_and_grads(params, X, codes, masks)
    assert {grad.dtype for grad in grads} == {np.dtype(np.float32)}
    doubled, twice = net.loss_and_grads(params, X, codes, masks, scale=2 / len(X))
    assert doubled == pytest.approx(2 * loss)
    for a, b in zip(grads, twice, strict=True):
        np.testing.assert_allclose(2 * a, b, rtol=1e-5, atol=1e-6)
    assert {each.dtype for each in net.forward(params, X)} == {np.dtype(np.float32)}


def test_what_is_not_asked_for_is_not_learned():
    # All is observed, or not known: no loss but the penalty, no gradient.
    net, params = net_and_params((4, 3))
    X, codes, (seen, told, whole) = minibatch()
    masks = [seen | True, told | True, whole & False]
    loss, grads = net.loss_and_grads(params, X, codes, masks)
    assert loss == 0
    assert not any(grad.any() for grad in grads)


def test_targets_are_probabilities():
    # Whoever was warned of values out of range is not led astray by them.
    net, params = net_and_params((4, 3))
    X, codes, masks = minibatch()
    observed = masks[0] | masks[2] & (codes >= 0)[:, np.newaxis]
    far = np.where(observed, X, 40 * X - 20)
    near = np.where(observed, X, np.clip(far, 0, 1))
    found, grads = net.loss_and_grads(params, far, codes, masks)
    wanted, slopes = net.loss_and_grads(params, near, codes, masks)
    assert found == wanted
    for a, b in zip(grads, slopes, strict=True):
        np.testing.assert_array_equal(a, b)


def test_long_gradients_are_scaled_back():
    net, params = net_and_params((4, 3), weight_decay=0.1)
    X, codes, masks = minibatch()
    _, free = net.loss_and_grads(params, X, codes, masks)
    net.weight_decay = 0
    _, own = net.loss_and_grads(params, X, codes, masks)
    norm = np.sqrt(sum(np.square(grad).sum() for grad in own))
    net.longest, net.weight_decay = norm / 3, 0.1
    _, found = net.loss_and_grads(params, X, codes, masks)
    # Not the penalty's.
    own[0] += 3 * 0.1 * params[0]
    for a, b in zip(found, own, strict=True):
        np.testing.assert_allclose(a, b / 3, rtol=1e-12, atol=1e-14)
    net.longest = 2 * norm
    for a, b in zip(net.loss_and_grads(params, X, codes, masks)[1], free, strict=True):
        np.testing.assert_array_equal(a, b)


@every_depth
def test_rows_do_not_depend_on_each_other(sizes):
    net, params = net_and_params(sizes)
    X, _, _ = minibatch()
    together = net.forward(params, X)
    for r in range(len(X)):
        alone = net.forward(params, X[r : r + 1])
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_allclose(a[0], b[r], rtol=1e-13, atol=1e-13)


# ---- The estimator ----


def two_halves(n_rows, rng):
    """Four classes, as two independent bits; each is copied six times with errors."""
    bits = rng.random((n_rows, 2)) < 0.5
    X = np.repeat(bits, 6, axis=1) ^ (rng.random((n_rows, 12)) < 0.1)
    return X.astype(float), 2 * bits[:, 0] + bits[:, 1]


def votes_of(X):
    """How many copies of either bit say that it is on, less those that deny it."""
    return np.where(np.isnan(X), 0, 2 * X - 1).reshape(len(X), 2, 6).sum(axis=2)


PARAMS = {
    "objective": "multi_prediction",
    "learning_rate": 0.1,
    "batch_size": 20,
    "n_iter": 20,
    "random_state": 0,
}


@pytest.mark.slow
@pytest.mark.parametrize("missing_in_training", [False, True])
def test_classes_with_and_without_missing_inputs(missing_in_training):
    rng = np.random.default_rng(0)
    X, y = two_halves(1000, rng)
    if missing_in_training:
        X[rng.random(X.shape) < 0.3] = np.nan
    model = DBMClassifier((12, 6), **PARAMS).fit(X, y)
    assert np.isfinite(model.components_[0]).all()
    T, truth = two_halves(2000, rng)
    T[rng.random(T.shape) < 0.4] = np.nan
    votes = votes_of(T)
    # Where the copies that are left do not tie, they say what is most probable.
    clear = (np.abs(votes) >= 2).all(axis=1)
    best = 2 * (votes[:, 0] > 0) + (votes[:, 1] > 0)
    agree = model.predict(T)[clear] == best[clear]
    assert clear.sum() > 500
    assert agree.mean() > 0.95
    # Of the other half nothing is left; of this one as much as before.
    T[:, 6:] = np.nan
    half = model.predict_proba(T).reshape(-1, 2, 2).sum(axis=2).argmax(axis=1)
    certain = np.abs(votes[:, 0]) >= 2
    assert (half == (votes[:, 0] > 0))[certain].mean() > 0.95


def test_missing_inputs_do_not_count_in_the_first_means(digits, labels):
    X = np.array(digits[:200])
    X[np.random.default_rng(0).random(X.shape) < 0.6] = np.nan
    X[:, 5] = np.nan
    model = DBMClassifier((6, 5), objective="multi_prediction", n_iter=0).fit(
        X, labels[:200]
    )
    # Where the hidden units are at their first means, the inputs are at theirs.
    W, bias = model.components_[0], model.dbm_intercepts_[0]
    found = expit(bias + 0.2 * W.sum(axis=0))[:64]
    assert found[5] == pytest.approx(0.5)  # of which nothing is known
    mean = np.nanmean(np.delete(X, 5, axis=1), axis=0)
    wanted = (200 * mean + 0.5) / 201
    np.testing.assert_allclose(np.delete(found, 5), wanted, rtol=1e-9)


def test_the_first_hidden_units_are_seldom_on_and_differ(digits, labels):
    model = DBMClassifier((60, 40), objective="multi_prediction", n_iter=0)
    model.set_params(random_state=0).fit(digits, labels)
    W, V = model.components_
    given = np.append(digits.mean(axis=0), np.full(10, 0.1))
    fields = W @ given + model.dbm_intercepts_[1] + 0.2 * V.sum(axis=0)
    np.testing.assert_allclose(expit(fields), 0.2, atol=0.01)
    spread = (digits @ W[:, :64].T).std(axis=0)
    assert 0.1 < spread.mean() < 1


def test_attributes_hold_the_parameters(digits, labels):
    model = DBMClassifier((6, 5, 4), n_mean_field_steps=3, **PARAMS)
    model.set_params(n_iter=2, momentum=0.5, weight_decay=1e-3)
    model.fit(digits[:100], labels[:100])
    shapes = [each.shape for each in model.components_]
    assert shapes == [(6, 74), (5, 6), (4, 5)]
    assert [len(bias) for bias in model.dbm_intercepts_] == [74, 6, 5, 4]
    assert_same(model._params(), model._state["params"])
    # Layers that are not neighbours stay apart.
    assert not model._state["params"][0][:74, 6:].any()
    assert not hasattr(model, "coefs_")
    assert model.transform(digits[:3]).shape == (3, 5)
    assert len(model.get_feature_names_out()) == 5


def test_rows_without_labels_are_learned_from(digits, labels):
    X, y = digits[:200], np.where(np.arange(200) < 60, labels[:200], -1)
    model = DBMClassifier((6, 5), unlabeled=-1, **PARAMS).set_params(n_iter=2)
    model.fit(X, y)
    assert model._state["step"] == 2 * 10
    assert model.classes_.tolist() == list(range(10))
    few = DBMClassifier((6, 5), **PARAMS).set_params(n_iter=2).fit(X[:60], y[:60])
    assert (few.components_[0] != model.components_[0]).any()
    model.set_params(early_stopping=True).fit(X, y)
    # Six of the rows with labels are held out.
    assert model._state["step"] == 2 * 10
    assert np.isfinite(model.history_["validation_log_likelihood"]).all()


def test_rows_observe_any_share_of_their_inputs():
    draws = Observed(2000, key=3)
    inputs, told, whole = draws.masks(500, step=1)
    shares = inputs.mean(axis=1)
    assert kstest(shares, "uniform").pvalue > 1e-4
    # Which ones is a draw for each, and independent of what else is drawn.
    others = np.stack([shares, told[:, 0], whole[:, 0], inputs[:, 0] - shares])
    assert np.abs(np.corrcoef(others) - np.eye(4)).max() < 0.2
    for each in (told, whole):
        assert abs(each.mean() - 0.5) < 0.1
    assert_same(draws.masks(500, step=1), [inputs, told, whole])
    assert (draws.masks(500, step=2)[0] != inputs).any()


def test_steps_of_prediction_are_not_kept(digits, labels):
    model = DBMClassifier((30, 20), objective="multi_prediction", random_state=0)
    model.set_params(n_iter=1, n_mean_field_steps=5).fit(digits[:200], labels[:200])
    peaks = []
    for n_steps in (5, 200):
        model.set_params(n_mean_field_steps=n_steps)
        with traced_memory() as memory:
            model.predict(digits)
        peaks.append(memory.peak)
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize("solver", ["sgd", "adam"])
def test_layers_that_are_not_neighbours_stay_unconnected(solver, digits, labels):
    sizes = (6, 5, 4, 3)
    model = DBMClassifier(sizes, objective="multi_prediction", solver=solver)
    model.set_params(n_iter=2, random_state=0).fit(digits[:100], labels[:100])
    apart = ~connections([74, *sizes])
    assert apart.any()
    assert (model._state["params"][0][apart] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["sgd", "adam"])
def test_inputs_that_are_always_on_cost_nothing(solver, digits, labels):
    model = DBMClassifier((40, 30), objective="multi_prediction", solver=solver)
    model.set_params(n_iter=15, random_state=0)
    scores = []
    for more in (0, 300):
        X = np.hstack([digits, np.ones((len(digits), more))])
        model.fit(X[:1200], labels[:1200])
        scores.append(model.score(X[1200:], labels[1200:]))
    assert scores[0] > 0.8
    assert scores[1] > scores[0] - 0.05


@pytest.mark.slow
def test_what_is_missing_is_no_evidence(digits, labels):
    model = DBMClassifier((40, 30), objective="multi_prediction", random_state=0)
    model.set_params(n_iter=40).fit(digits[:1200], labels[:1200])
    rng, X = np.random.default_rng(0), digits[1200:]
    y, losses = labels[1200:], []
    for share in (0, 0.5, 0.9, 1):
        some = np.where(rng.random(X.shape) < share, np.nan, X)
        losses.append(log_loss(y, model.predict_proba(some)))
    assert losses[0] < 0.5
    assert losses == sorted(losses)
    # Nothing more is known than how frequent the classes are: log 10 = 2.3 nats. (Of a
    # net that has always seen half of the inputs it is 4.9.)
    assert losses[-1] < 3


@pytest.mark.slow
def test_digits_are_learned(digits, labels):
    model = DBMClassifier((40, 30), objective="multi_prediction", random_state=0)
    model.set_params(n_iter=15).fit(digits[:1000], labels[:1000])
    # One in ten by chance.
    assert model.score(digits[1000:], labels[1000:]) > 0.75
    upper = digits[1000:].copy()
    upper[:, 32:] = np.nan
    zeros = np.nan_to_num(upper)
    found = model.score(upper, labels[1000:])
    assert found > model.score(zeros, labels[1000:])


def test_training_goes_on(digits, labels):
    X, y = digits[:100], labels[:100]
    model = DBMClassifier((6, 5), **PARAMS).set_params(n_iter=2)
    model.partial_fit(X, y, classes=np.arange(10)).partial_fit(X, y)
    assert model.n_iter_ == 2
    assert model._state["step"] == 2 * 5
    before = model.components_[0]
    model.set_params(warm_start=True).fit(X, y)
    assert model.n_iter_ == 4
    assert (model.components_[0] != before).any()


def test_interrupted_fit_leaves_a_model(digits, labels):
    model = soon_interrupted(
        lambda: DBMClassifier((50, 30), **PARAMS).set_params(n_iter=10**6),
        lambda model: model.fit(digits, labels),
    )
    assert model.n_iter_ == len(model.loss_curve_)
    assert model.predict(digits[:5]).shape == (5,)


# ---- What is refused ----


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"dropout": 0.1}, r"dropout=0.1 needs objective='fine_tuning'"),
        ({"input_dropout": 0.2}, r"input_dropout=0.2 needs objective='fine_tuning'"),
        ({"max_norm": 2.0}, r"max_norm=2.0 needs objective='fine_tuning'"),
        ({"visible": "gaussian"}, r"visible='gaussian' needs objective='fine_tuning'"),
        ({"solver": "lbfgs"}, r"needs solver='sgd' or 'adam'"),
    ],
)
def test_parameters_that_do_not_go_together(params, message, digits, labels):
    model = DBMClassifier((6, 5), objective="multi_prediction", **params)
    with pytest.raises(ValueError, match=message):
        model.fit(digits[:50], labels[:50])


def test_values_that_are_refused(digits, labels):
    model = DBMClassifier((6, 5), **PARAMS).set_params(n_iter=1)
    assert get_tags(model).input_tags.allow_nan
    X = digits[:50].copy()
    X[0, 0] = np.nan
    model.fit(X, labels[:50])
    # What a fitted model takes does not change with what the next one is asked for.
    other = copy.copy(model).set_params(objective="fine_tuning")
    assert get_tags(other).input_tags.allow_nan
    assert_same(other.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="sparse matrix are not supported"):
        model.predict(sp.csr_matrix(X))
    X[1, 1] = np.inf
    for method in (lambda: model.fit(X, labels[:50]), lambda: model.predict(X)):
        with pytest.raises(ValueError, match="contains infinity"):
            method()
    with pytest.warns(UserWarning, match=r"stand for values in \[0, 1\]"):
        model.fit(3 * digits[:50], labels[:50])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(3 * digits[:50])


def test_damaged_models_are_refused(digits, labels):
    model = DBMClassifier((6, 5), **PARAMS).set_params(n_iter=1)
    model.fit(digits[:50], labels[:50])
    model.dbm_intercepts_ = model.dbm_intercepts_[:-1]
    with pytest.raises(ValueError, match="restored DBMClassifier is damaged"):
        DBMClassifier().__setstate__(vars(model))
