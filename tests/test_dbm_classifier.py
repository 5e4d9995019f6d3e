"""DBMClassifier fine-tuned: an unrolled machine, frozen, below a net that learns."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import get_tags

from common import assert_same, fitted_state, soon_interrupted
from sklearn_ebm import DBMClassifier, DBMTransformer
from sklearn_ebm.nets import _net_starts, _unrolled

SIZES = [(6,), (6, 5), (6, 5, 4), (6, 5, 4, 3)]
MACHINE = ["components_", "dbm_intercepts_", "dbm_variance_"]


def transformer_of(model, X, **params):
    """DBMTransformer with the machine of a classifier."""
    dbm = DBMTransformer(
        model.hidden_layer_sizes, visible=model.visible, n_iter=0, **params
    ).fit(X)
    dbm.components_ = model.components_
    dbm.intercepts_ = model.dbm_intercepts_
    dbm.variance_ = model.dbm_variance_
    return dbm


# ---- The unrolled net ----


@pytest.mark.thinned(3)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
def test_net_says_what_mean_field_says(sizes, visible, digits, labels, monkeypatch):
    monkeypatch.setattr(_net_starts, "ENOUGH_SPREAD", 0.0)
    monkeypatch.setattr(_unrolled, "TOLERANCE", 0.0)
    X = digits[:500]
    model = DBMClassifier(
        sizes,
        visible=visible,
        n_mean_field_steps=400,
        pretrain_learning_rate=0.3,
        pretrain_greedy_n_iter=5,
        n_iter=0,
        random_state=0,
    ).fit(X, labels[:500])
    dbm = transformer_of(
        model, X, n_mean_field_steps=400, mean_field_tol=0.0, output="all"
    )
    layers = np.split(dbm.transform(X), np.cumsum(sizes)[:-1], axis=1)
    wanted = np.hstack(layers[1::2] if len(sizes) > 1 else layers)
    assert wanted.std(axis=0).max() > 0.01
    np.testing.assert_allclose(model.transform(X), wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("sizes", SIZES)
def test_net_is_given_means_of_even_layers(sizes, digits, labels):
    X = digits[:60].astype(float)
    model = DBMClassifier(
        sizes, n_mean_field_steps=3, pretrain_n_iter=5, n_iter=2, random_state=0
    ).fit(X, labels[:60])
    dbm = transformer_of(model, X, n_mean_field_steps=3, output="all")
    layers = np.split(dbm.transform(X), np.cumsum(sizes)[:-1], axis=1)
    activity = np.hstack([X, *layers[1::2]])
    for W, b in zip(model.coefs_[:-1], model.intercepts_[:-1]):
        activity = 1 / (1 + np.exp(-activity @ W - b))
    np.testing.assert_allclose(model.transform(X), activity, rtol=0, atol=1e-12)
    fields = activity @ model.coefs_[-1] + model.intercepts_[-1]
    p = np.exp(fields) / np.exp(fields).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), p, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p), atol=1e-12)
    assert (model.predict(X) == p.argmax(axis=1)).all()


def test_unrolled_weights_are_those_of_the_machine(digits, labels, monkeypatch):
    monkeypatch.setattr(_net_starts, "ENOUGH_SPREAD", 0.0)
    model = DBMClassifier((6, 5, 4), visible="gaussian", n_iter=0, random_state=0)
    model.fit(digits[:100].astype(float), labels[:100])
    W1, W2, W3 = model.components_
    b, c1, c2, c3 = model.dbm_intercepts_
    first = np.zeros((64 + 5, 6 + 4))
    first[:64, :6] = W1.T / model.dbm_variance_[:, np.newaxis]
    first[64:, :6], first[64:, 6:] = W2, W3.T
    np.testing.assert_allclose(model.coefs_[0], first, rtol=1e-14)
    np.testing.assert_allclose(model.coefs_[1], first[64:].T, rtol=1e-14)
    assert_same(model.intercepts_[0], np.concatenate([c1, c3]))
    assert_same(model.intercepts_[1], c2)


def test_kept_means_are_those_found_again(digits, labels):
    model = DBMClassifier((6, 5), n_iter=1, random_state=0)
    model.fit(digits[:100], labels[:100])
    rng = np.random.default_rng(0)
    kept, anew = (model._inputs(digits[:100], training) for training in (True, False))
    for _ in range(4):
        rows = rng.permutation(100)[:40]
        assert_same(np.asarray(kept[rows]), np.asarray(anew[rows]))
    assert kept[rows].shape == (40, 64 + 5)
    # They are not looked for again.
    kept.machine.field = None
    assert_same(np.asarray(kept[rows]), np.asarray(anew[rows]))


# ---- Training ----


@pytest.mark.parametrize("n_iter", [1, 6])
def test_machine_is_frozen_in_fine_tuning(n_iter, digits, labels):
    models = [
        DBMClassifier((6, 5), pretrain_n_iter=2, n_iter=n, random_state=0).fit(
            digits[:100], labels[:100]
        )
        for n in (0, n_iter)
    ]
    for name in MACHINE:
        assert_same(getattr(models[0], name), getattr(models[1], name))
    assert all(
        (a != b).any() for a, b in zip(models[0].coefs_, models[1].coefs_, strict=True)
    )


@pytest.mark.parametrize("going_on", ["warm_start", "partial_fit"])
def test_training_that_goes_on_does_not_pretrain(going_on, digits, labels):
    model = DBMClassifier((6, 5), pretrain_n_iter=2, n_iter=3, random_state=0)
    model.fit(digits[:100], labels[:100])
    before = {name: getattr(model, name) for name in MACHINE}
    coefs = model.coefs_
    if going_on == "warm_start":
        model.set_params(warm_start=True).fit(digits[:100], labels[:100])
        assert model.n_iter_ == 6
    else:
        model.partial_fit(digits[:100], labels[:100])
        assert model.n_iter_ == 4
    assert_same({name: getattr(model, name) for name in MACHINE}, before)
    assert (model.coefs_[0] != coefs[0]).any()


def test_rows_without_labels_train_the_machine_only(digits, labels):
    X, y = digits[:200], np.where(np.arange(200) < 60, labels[:200], -1)
    params = {"pretrain_n_iter": 2, "n_iter": 4, "random_state": 0}
    model = DBMClassifier((6, 5), unlabeled=-1, **params).fit(X, y)
    full = DBMClassifier((6, 5), **params).fit(X, labels[:200])
    few = DBMClassifier((6, 5), **params).fit(X[:60], labels[:60])
    assert_same(model.components_, full.components_)
    assert (model.components_[0] != few.components_[0]).any()
    assert model.classes_.tolist() == list(range(10))
    # Three minibatches of 20 rows.
    assert model._state["step"] == 4 * 3


def test_pretraining_is_that_of_the_transformer(digits, labels):
    model = DBMClassifier(
        (6, 5),
        pretrain_learning_rate=0.3,
        pretrain_batch_size=10,
        pretrain_n_iter=12,
        pretrain_greedy_n_iter=5,
        pretrain_n_gibbs_steps=(1, 2),
        pretrain_weight_decay=0.001,
        n_mean_field_steps=1,
        n_iter=1,
        random_state=3,
    ).fit(digits[:1000], labels[:1000])
    twin = DBMTransformer(
        (6, 5),
        learning_rate=0.3,
        batch_size=10,
        n_chains=10,
        n_iter=12,
        pretrain_n_iter=5,
        n_gibbs_steps=(1, 2),
        weight_decay=0.001,
        n_mean_field_steps=1,
        centering=False,
        random_state=np.random.RandomState(model._state["stack_seed"]),
    )
    twin._pretrains_net = True
    twin.fit(digits[:1000])
    assert np.abs(twin.components_[1]).mean() > 0.05  # it began with 0.008
    assert_same(model.components_, twin.components_)
    assert_same(model.dbm_intercepts_, twin.intercepts_)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["sgd", "adam", "lbfgs"])
def test_digits_are_learned(solver, digits, labels):
    model = DBMClassifier((40, 30), solver=solver, random_state=0)
    if solver == "adam":
        model.set_params(learning_rate=0.01)
    model.fit(digits[:1000], labels[:1000])
    # One in ten by chance.
    assert model.score(digits[1000:], labels[1000:]) > 0.75


def test_early_stopping_keeps_the_best_epoch(digits, labels):
    model = DBMClassifier((20, 10), early_stopping=True, n_iter=8, random_state=0)
    model.fit(digits[:500], labels[:500])
    accuracy = model.history_["validation_accuracy"]
    assert accuracy[model.best_n_iter_ - 1] > 0.15
    assert accuracy[model.best_n_iter_ - 1] >= max(accuracy) - model.tol


@pytest.mark.parametrize("phase", ["pretraining", "fine-tuning"])
def test_interrupted_fit_leaves_a_model(phase, digits, labels):
    X, y = np.tile(digits, (5, 1)), np.tile(labels, 5)
    long = {"pretraining": "pretrain_n_iter", "fine-tuning": "n_iter"}[phase]
    untrained = DBMClassifier((100, 50), pretrain_n_iter=0, n_iter=0, random_state=0)
    untrained.set_params(**{"pretrain_greedy_n_iter": 0, "batch_size": 50, long: 10**6})
    model = soon_interrupted(
        lambda: clone(untrained),
        lambda model: model.fit(X, y),
        begun=lambda model: phase == "pretraining" or model.n_iter_ > 0,
    )
    assert model.predict(digits[:5]).shape == (5,)
    assert (model.n_iter_ > 0) == (phase == "fine-tuning")
    assert len(model.loss_curve_) == model.n_iter_
    assert model.coefs_[0].std() > 0


def test_sparse_rows_stay_sparse(digits, labels):
    model = DBMClassifier((6, 5), n_iter=1, pretrain_n_iter=1, random_state=0)
    model.fit(digits[:50], labels[:50])
    inputs = model._inputs(sp.csr_matrix(digits[:50]), True)
    assert sp.issparse(inputs.X)
    assert isinstance(inputs[np.arange(3)], np.ndarray)


OBJECTIVES = ["fine_tuning", "multi_prediction"]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_refitted_model_has_nothing_of_the_other_objective(objective, digits, labels):
    X, y = digits[:50], labels[:50]
    model = DBMClassifier((6, 5), n_iter=1, pretrain_n_iter=1, random_state=0)
    new = clone(model).set_params(objective=objective).fit(X, y)
    for first in OBJECTIVES:
        model.set_params(objective=first).fit(X, y)
    model.set_params(objective=objective).fit(X, y)
    assert_same(fitted_state(model), fitted_state(new))
    assert hasattr(model, "coefs_") == (objective == "fine_tuning")
    assert hasattr(model, "dbm_variance_") == (objective == "fine_tuning")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_fitted_model_goes_by_its_own_objective(objective, digits, labels):
    X, y = digits[:50], labels[:50]
    model = DBMClassifier((6, 5), n_iter=1, pretrain_n_iter=1, random_state=0)
    model.set_params(objective=objective).fit(X, y)
    wanted = model.predict_proba(X), model.transform(X)
    names = model.get_feature_names_out().tolist()
    (other,) = {*OBJECTIVES} - {objective}
    model.set_params(objective=other)
    for each in (model, pickle.loads(pickle.dumps(model))):
        assert_same((each.predict_proba(X), each.transform(X)), wanted)
        assert each.get_feature_names_out().tolist() == names


# ---- What is refused ----


def test_other_sizes_are_refused(digits, labels):
    model = DBMClassifier((6, 5, 6), n_iter=1, pretrain_n_iter=1, random_state=0)
    model.fit(digits[:50], labels[:50])
    # The net of these has layers of the same sizes.
    model.set_params(hidden_layer_sizes=(7, 5, 5), warm_start=True)
    with pytest.raises(ValueError, match=r"hidden_layer_sizes=\(7, 5, 5\) does not"):
        model.fit(digits[:50], labels[:50])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_other_objective_is_refused(method, digits, labels):
    model = DBMClassifier((6, 5), n_iter=1, pretrain_n_iter=1, random_state=0)
    model.fit(digits[:50], labels[:50])
    model.set_params(objective="multi_prediction", warm_start=True)
    with pytest.raises(ValueError, match="objective='multi_prediction' does not fit"):
        getattr(model, method)(digits[:50], labels[:50])


@pytest.mark.parametrize("name", [*MACHINE[:2], "coefs_", "intercepts_"])
def test_damaged_models_are_refused(name, digits, labels):
    model = DBMClassifier((6, 5), n_iter=1, pretrain_n_iter=1, random_state=0)
    model.fit(digits[:50], labels[:50])
    setattr(model, name, getattr(model, name)[:-1])
    with pytest.raises(ValueError, match="restored DBMClassifier is damaged"):
        DBMClassifier().__setstate__(vars(model))


def test_missing_values_are_refused(digits, labels):
    X = digits[:50].copy()
    X[3, 5] = np.nan
    model = DBMClassifier((6, 5), random_state=0)
    assert not get_tags(model).input_tags.allow_nan
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(X, labels[:50])


@pytest.mark.parametrize(
    "objective, solver", [("fine_tuning", "adam"), ("multi_prediction", "sgd")]
)
def test_solver_by_the_objective(objective, solver, digits, labels):
    X, y = digits[:100], labels[:100]
    params = {"objective": objective, "n_iter": 2, "random_state": 0}
    found = DBMClassifier((6, 5), **params).fit(X, y)
    wanted = DBMClassifier((6, 5), solver=solver, **params).fit(X, y)
    assert_same(found._state, wanted._state)
    assert_same(found.predict_proba(X), wanted.predict_proba(X))
