"""Training goes on only with the units and layers that there are."""

import copy
import pickle
from operator import methodcaller

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from common import (
    assert_same,
    assert_same_model,
    fitted_floats,
    fitted_state,
    interrupted_after,
    name_of,
)
from sklearn_ebm import (
    RBM,
    BernoulliRBM,
    DBMClassifier,
    DBMTransformer,
    DBNClassifier,
    DBNRegressor,
    DBNTransformer,
    GaussianRBM,
    MultimodalDBM,
    RBMClassifier,
    RBMImputer,
)
from sklearn_ebm.boltzmann._upper_rbm import UpperRBM
from sklearn_ebm.units import Bernoulli, Categorical, Gaussian, Mixed, Spin

BITS = (np.random.default_rng(0).random((30, 5)) < 0.5).astype(float)
LABELS = BITS[:, 0].astype(int)
MASK = np.arange(5) == 1
PAIRS = [(slice(0, 2), "gaussian"), ([4, 3, 2], "bernoulli")]
LEFT, RIGHT = ("a", [0, 1], "bernoulli", 2), ("b", [2, 3, 4], "bernoulli", 2)
DBM = {"n_iter": 1, "pretrain_n_iter": 1}

# A model, a parameter, what is asked of it, and what messages say that there is.
REFUSED = [
    (RBM(3), "n_components", 4, "3"),
    (RBM(3), "visible", "gaussian", "'bernoulli'"),
    (RBM(3, visible="gaussian"), "visible", "bernoulli", "'gaussian'"),
    (RBM(3, visible="gaussian"), "visible", "categorical", "'gaussian'"),
    (RBM(3, visible="gaussian"), "visible", Gaussian(), "'gaussian'"),
    (
        RBM(3, visible=Gaussian(scale=2.0)),
        "visible",
        Gaussian(scale=1.0),
        "Gaussian(loc=0.0, scale=2.0)",
    ),
    (
        RBM(3, visible=PAIRS),
        "visible",
        "bernoulli",
        "[(slice(0, 2), 'gaussian'), (slice(2, 5), 'bernoulli')]",
    ),
    (RBM(3), "hidden", "spin", "'bernoulli'"),
    (RBM(3, visible="spin"), "hidden", "gaussian", "'bernoulli'"),
    (GaussianRBM(3), "variance", 1.0, "'learned'"),
    (GaussianRBM(3, variance=1.0), "variance", 2.0, "1.0"),
    (GaussianRBM(3), "standardize", False, "True"),
    (DBMTransformer((3, 2), **DBM), "hidden_layer_sizes", (3,), "(3, 2)"),
    (DBMTransformer((3, 2), **DBM), "visible", "gaussian", "'bernoulli'"),
    (
        DBMTransformer((3, 2), visible="gaussian", **DBM),
        "standardize",
        False,
        "True",
    ),
    (
        MultimodalDBM([LEFT, RIGHT], 2, **DBM),
        "modalities",
        [LEFT, (*RIGHT[:2], "gaussian", 2)],
        "[('a', [0, 1], 'bernoulli', (2,)), ('b', [2, 3, 4], 'bernoulli', (2,))]",
    ),
    (MultimodalDBM([LEFT, RIGHT], 2, **DBM), "n_joint", 3, "2"),
    # (Digits that NumPy does not print.)
    (
        RBM(3, visible=Gaussian(scale=np.full(5, 1.5))),
        "visible",
        Gaussian(scale=np.full(5, 1.5 + 1e-12)),
        "Gaussian(loc=0.0, scale=array([1.5, 1.5, 1.5, 1.5, 1.5]))",
    ),
    (DBNTransformer((3, 2)), "hidden_layer_sizes", (3, 3), "(3, 2)"),
    (DBNTransformer((3, 2)), "visible", "gaussian", "'bernoulli'"),
    (DBNTransformer((3, 2), visible="gaussian"), "visible", "bernoulli", "'gaussian'"),
    (RBMClassifier(3), "n_components", 4, "3"),
    (DBNClassifier((3, 2)), "hidden_layer_sizes", (3,), "(3, 2)"),
    (DBNClassifier((3, 2)), "visible", "gaussian", "'bernoulli'"),
    (DBNClassifier((3, 2)), "objective", "generative", "'discriminative'"),
    (
        DBNClassifier((3, 2), objective="generative"),
        "visible",
        "gaussian",
        "'bernoulli'",
    ),
    (
        DBNClassifier((3, 2), objective="generative"),
        "objective",
        "discriminative",
        "'generative'",
    ),
    (DBNRegressor((3, 2)), "visible", "gaussian", "'bernoulli'"),
    (DBMClassifier((3, 2), **DBM), "visible", "gaussian", "'bernoulli'"),
    (DBMClassifier((3, 2), **DBM), "objective", "multi_prediction", "'fine_tuning'"),
]


def fitted(estimator, **params):
    params = {"n_iter": 1, "random_state": 0} | params
    return estimator.__sklearn_clone__().set_params(**params).fit(BITS, LABELS)


def ways_on(model):
    ways = [model.partial_fit]
    if "warm_start" in model.get_params():
        ways.append(model.set_params(warm_start=True).fit)
    return ways


@pytest.mark.parametrize(
    "estimator, name, value, found",
    REFUSED,
    ids=[f"{type(e).__name__}-{name}-{value}" for e, name, value, _ in REFUSED],
)
def test_other_units_and_layers_are_refused(estimator, name, value, found):
    model = fitted(estimator).set_params(**{name: value})
    before = model.__getstate__()
    for way in ways_on(model):
        with pytest.raises(ValueError) as error:
            way(BITS, LABELS)
        assert str(error.value) == (
            f"{name}={value!r} does not fit the model that training goes on from, "
            f"which has {found}."
        )
    after = model.__getstate__()
    assert before.keys() == after.keys()
    assert model.n_iter_ == before["n_iter_"]
    # It is of no consequence to one who begins afresh.
    if "warm_start" in model.get_params():
        model.set_params(warm_start=False).fit(BITS, LABELS)


# What is done with models: functions of a model and rows.
USES = [
    "transform",
    "free_energy",
    "reconstruct",
    "score_samples",
    "gibbs",
    "predict",
    "predict_proba",
]
USES = {name: methodcaller(name, BITS) for name in USES} | {
    "inverse_transform": lambda model: model.inverse_transform(model.transform(BITS)),
    "sample": methodcaller("sample", 3, n_gibbs_steps=2, random_state=0),
    "impute": methodcaller("impute", BITS, mask=MASK, random_state=0),
    "infer": methodcaller("infer", BITS, "b", n_gibbs_steps=2, random_state=0),
    "top_rbm": lambda model: model.top_rbm().components_,
}


@pytest.mark.thinned(5)
@pytest.mark.parametrize(
    "estimator, name, value",
    [
        *((estimator, name, value) for estimator, name, value, _ in REFUSED),
        (RBM(3, hidden="spin"), "hidden", "bernoulli"),
        (RBM(3, visible="spin"), "visible", "bernoulli"),
        (RBMImputer(3), "visible", "gaussian"),
        (RBMImputer(3), "visible", PAIRS),
        (
            MultimodalDBM([LEFT, RIGHT], 2, **DBM),
            "modalities",
            [("b", [0, 1], "bernoulli", 2), ("a", [2, 3, 4], "bernoulli", 2)],
        ),
    ],
    ids=str,
)
def test_what_is_asked_after_a_fit_is_for_the_next_one(estimator, name, value):
    model = fitted(estimator)
    kept = {}
    for method, use in USES.items():
        if hasattr(model, method):
            kept[method] = use(copy.deepcopy(model))
            found = use(copy.deepcopy(model).set_params(**{name: value}))
            assert_same(found, kept[method], method)
    restored = pickle.loads(pickle.dumps(model.set_params(**{name: value})))
    for method in {"transform", "predict"} & {*dir(model)}:
        assert_same(USES[method](restored), kept[method], method)
    model.fit(BITS, LABELS)
    again = fitted(estimator, **{name: value})
    assert_same(fitted_floats(model), fitted_floats(again))


@pytest.mark.parametrize(
    "model, change",
    [
        (RBM(3, visible=[*PAIRS]), lambda m: m.visible.reverse()),
        (MultimodalDBM([LEFT, RIGHT], 2, **DBM), lambda m: m.modalities.reverse()),
        (RBMImputer(3, visible=[*PAIRS]), lambda m: m.visible.pop()),
    ],
    ids=name_of,
)
def test_lists_that_change_after_a_fit_are_for_the_next_one(model, change):
    model.set_params(n_iter=1, random_state=0).fit(BITS)
    methods = [name for name in USES if hasattr(model, name)]
    wanted = {name: USES[name](copy.deepcopy(model)) for name in methods}
    change(model)
    found = {name: USES[name](copy.deepcopy(model)) for name in methods}
    assert_same(found, wanted)


@pytest.mark.parametrize(
    "estimator, name, value",
    [
        (RBM(3), "n_components", np.int64(3)),
        (RBM(3, visible=Spin()), "visible", Spin()),
        (RBM(3, visible="spin", hidden=Gaussian()), "hidden", Gaussian(0.0, 1.0)),
        (
            RBM(3, visible=PAIRS),
            "visible",
            [(slice(2, 5), "bernoulli"), (np.array([0, 1]), "gaussian")],
        ),
        (
            RBM(3, visible=[(slice(0, 2), Spin()), (slice(2, 5), Bernoulli())]),
            "visible",
            Mixed(((2, Spin()), (3, Bernoulli()))),
        ),
        (RBM(3, hidden=Categorical(3)), "hidden", Categorical(np.int64(3))),
        (GaussianRBM(3, variance=1), "variance", 1.0),
        (DBMTransformer((3,), **DBM), "hidden_layer_sizes", 3),
        (DBMTransformer((3, 2), **DBM), "hidden_layer_sizes", [3, 2]),
        (
            MultimodalDBM([LEFT, RIGHT], 2, **DBM),
            "modalities",
            [("a", slice(0, 2), "bernoulli", [2]), RIGHT],
        ),
        (DBNTransformer((3, 2)), "hidden_layer_sizes", [3, 2]),
        (DBNClassifier((3,)), "hidden_layer_sizes", 3),
        (DBNClassifier((3, 2), objective="generative"), "hidden_layer_sizes", [3, 2]),
    ],
)
def test_the_same_in_other_words_goes_on(estimator, name, value):
    model, twin = fitted(estimator), fitted(estimator)
    model.set_params(**{name: value})
    for way, same in zip(ways_on(model), ways_on(twin), strict=True):
        way(BITS, LABELS)
        same(BITS, LABELS)
    assert model.n_iter_ == twin.n_iter_ > 1
    assert_array_equal(model.transform(BITS), twin.transform(BITS))


# ---- What steps remember ----


@pytest.mark.parametrize(
    "estimator, between",
    [
        (BernoulliRBM(3, average=False), {"momentum": 0.0}),
        (GaussianRBM(3, average=False), {"momentum": 0.0}),
        (RBMClassifier(3, average=False), {"momentum": 0.0}),
        (DBNClassifier((3, 2), solver="sgd", nesterov=False), {"solver": "adam"}),
        (DBNClassifier((3, 2), solver="sgd", nesterov=False), {"solver": "lbfgs"}),
    ],
    ids=name_of,
)
def test_momentum_does_not_outlive_steps_without(estimator, between):
    momentum = {"momentum": 0.9, "batch_size": len(BITS), "n_iter": 3}
    model = fitted(estimator, warm_start=True, **momentum)
    was = {name: model.get_params()[name] for name in between}
    model.set_params(**between).fit(BITS, LABELS).set_params(**was, n_iter=1)
    twin = copy.deepcopy(model).set_params(momentum=0.0)
    # A first step is the same with momentum and without.
    wanted = fitted_floats(twin.fit(BITS, LABELS))
    found = fitted_floats(model.fit(BITS, LABELS))
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-9, atol=1e-12)


# ---- Deep belief networks ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fit_of_layers_goes_on_from_their_parameters(dtype):
    X, Y = (
        np.random.default_rng(seed).random((60, 6)).astype(dtype) for seed in (1, 2)
    )
    settings = {"n_iter": 2, "warm_start": True, "momentum": 0.5, "batch_size": 7}
    model = DBNTransformer((5, 4), random_state=0, **settings)
    rng = np.random.RandomState(0)
    first = RBM(5, random_state=rng, **settings)
    second = UpperRBM(4, random_state=rng, **settings)
    for part, n_iter in [(X, 2), (Y, 3), (X, 0)]:
        model.set_params(n_iter=n_iter).fit(part)
        first.set_params(n_iter=n_iter).fit(part)
        second.set_params(n_iter=n_iter).fit(first.transform(part))
        assert_same(model.components_, [first.components_, second.components_])
        assert_same(model.intercepts_[-1], second.intercept_hidden_)
        assert_same(model.transform(part), second.transform(first.transform(part)))
        assert_same(model.visible_mean_, first.visible_mean_)
    assert model.n_iter_ == 10
    assert model.history_["layer"] == [1, 1, 2, 2, 1, 1, 1, 2, 2, 2]
    assert {len(values) for values in model.history_.values()} == {10}
    # Without, it begins afresh.
    afresh = model.set_params(warm_start=False, n_iter=2, random_state=0).fit(X)
    assert_same_model(afresh, DBNTransformer(**afresh.get_params()).fit(X))


def test_fit_of_all_layers_together_goes_on():
    settings = {"n_iter": 2, "random_state": 0}
    wanted = DBNTransformer((5, 4), up_down_n_iter=3, **settings).fit(BITS)
    model = DBNTransformer((5, 4), up_down_n_iter=1, warm_start=True, **settings)
    model.fit(BITS).set_params(up_down_n_iter=2).fit(BITS)
    assert model.history_["layer"] == wanted.history_["layer"] == [1, 1, 2, 2, 0, 0, 0]
    assert_same(model.components_, wanted.components_)
    assert_same(model.recognition_components_, wanted.recognition_components_)
    before = model.__getstate__()
    with pytest.raises(ValueError, match="up_down_n_iter=0 does not fit the model"):
        model.set_params(up_down_n_iter=0).fit(BITS)
    assert_same(model.components_, before["components_"])
    # What has been trained greedily may go on so, and then all together.
    greedy = DBNTransformer((5, 4), n_iter=1, random_state=0, warm_start=True).fit(BITS)
    greedy.set_params(up_down_n_iter=3).fit(BITS)
    assert greedy.history_["layer"] == [1, 2, 1, 2, 0, 0, 0]
    assert_same(greedy.components_[-1], greedy.recognition_components_[-1])


def test_an_interrupt_of_a_fit_that_goes_on_leaves_what_there_is():
    X = (np.random.default_rng(0).random((500, 64)) < 0.2).astype(np.uint8)
    model = DBNTransformer((32, 16), n_iter=1, random_state=0, warm_start=True).fit(X)
    top = model.components_[1].copy()
    model.set_params(n_iter=(10**6, 1))
    interrupted_after(lambda: model.fit(X))
    assert model.history_["layer"][:2] == [1, 2]
    assert set(model.history_["layer"][2:]) == {1}
    assert model.n_iter_ == len(model.history_["layer"]) > 2
    assert_same(model.components_[1], top)
    assert np.isfinite(model.set_params(n_iter=1).fit(X).score(X))
    assert model.history_["layer"][-2:] == [1, 2]


@pytest.mark.parametrize(
    "model",
    [
        RBMClassifier(3),
        RBMClassifier(3, objective="generative", persistent=True),
        DBNClassifier((3,), pretrain=False),
        DBNClassifier((3, 2), objective="generative", pretrain_n_iter=1),
        DBMClassifier((3, 2), pretrain_n_iter=1),
    ],
)
@pytest.mark.parametrize("early_stopping", [False, True])
def test_no_epoch_changes_nothing(model, early_stopping):
    model = clone(model).set_params(
        early_stopping=early_stopping, n_iter=9, random_state=0, warm_start=True
    )
    wanted = fitted_state(model.fit(BITS, LABELS))
    assert_same(fitted_state(model.set_params(n_iter=0).fit(BITS, LABELS)), wanted)


@pytest.mark.parametrize(
    "model",
    [
        BernoulliRBM(3),
        BernoulliRBM(3, fast_learning_rate=0.01),
        RBM(3, hidden="spin"),
        GaussianRBM(3, langevin_time=1.0),
        RBMClassifier(3, objective="generative", persistent=True),
    ],
)
def test_chains_end_where_training_goes_on_without(model):
    model = fitted(model)
    wanted = model.h_samples_.shape
    for way in ways_on(model):
        model.set_params(persistent=True)
        way(BITS, LABELS)
        assert model.h_samples_.shape == wanted
        model.set_params(persistent=False)
        way(BITS, LABELS)
        assert not hasattr(model, "h_samples_")
    # New ones begin when they are asked for again.
    model.set_params(persistent=True).partial_fit(BITS, LABELS)
    assert model.h_samples_.shape == wanted
    assert np.isfinite(model.components_).all()
