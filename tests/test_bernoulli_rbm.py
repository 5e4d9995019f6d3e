"""What BernoulliRBM is: scikit-learn's interface, its formulas, and none of the
defects of scikit-learn's.

Its training is in test_training.py, its draws in test_sampling.py, what it shares
with every estimator in test_contract.py.
"""

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.neural_network import BernoulliRBM as ScikitLearnRBM

from common import PARAMETERS, all_states, floats, random_model
from sklearn_ebm import BernoulliRBM

PRECISION = {np.float32: 1e-5, np.float64: 1e-12}


def softplus(x):
    return np.logaddexp(0, x)


def pseudo_likelihood(model, X):
    """sum_i v_i log p_i + (1 - v_i) log(1 - p_i), p_i = p(v_i = 1 | others)."""
    X, W, c, b = (
        np.asarray(array, np.longdouble)
        for array in (
            X,
            model.components_,
            model.intercept_hidden_,
            model.intercept_visible_,
        )
    )
    field = c + X @ W.T
    score = np.zeros(len(X), np.longdouble)
    for i in range(X.shape[1]):
        off = field - np.outer(X[:, i], W[:, i])  # field of the hidden, v_i = 0
        odds = b[i] + (softplus(off + W[:, i]) - softplus(off)).sum(axis=1)
        score -= X[:, i] * softplus(-odds) + (1 - X[:, i]) * softplus(odds)
    return score.astype(np.float64)


# ---- A drop-in for scikit-learn's ----


def test_parameters_begin_with_those_of_scikit_learn():
    ours, theirs = (
        list(inspect.signature(cls).parameters.values())
        for cls in (BernoulliRBM, ScikitLearnRBM)
    )
    for mine, wanted in zip(ours, theirs):
        assert (mine.name, mine.default) == (wanted.name, wanted.default)
        assert mine.kind == wanted.kind
    new = ours[len(theirs) :]
    assert {parameter.kind for parameter in new} == {inspect.Parameter.KEYWORD_ONLY}
    assert {parameter.name: parameter.default for parameter in new} == {
        "n_gibbs_steps": 1,
        "persistent": True,
        "n_chains": None,
        "n_temperatures": 1,
        "momentum": 0.0,
        "weight_decay": 0.0,
        "nesterov": False,
        "l1_decay": 0.0,
        "sparsity_target": None,
        "sparsity_cost": 0.1,
        "max_norm": None,
        "fast_learning_rate": 0.0,
        "centering": True,
        "learning_rate_schedule": "constant",
        "average": True,
        "warm_start": False,
        "missing": "raise",
        "early_stopping": False,
        "validation_fraction": 0.1,
        "n_iter_no_change": 5,
        "tol": 1e-4,
        "monitor": "pseudo_likelihood",
    }


def test_methods_of_scikit_learn_are_there():
    for name, method in inspect.getmembers(ScikitLearnRBM, inspect.isfunction):
        if name.startswith("_"):
            continue
        theirs = list(inspect.signature(method).parameters)
        ours = list(inspect.signature(getattr(BernoulliRBM, name)).parameters)
        assert ours[: len(theirs)] == theirs, name


def test_attributes_of_scikit_learn_are_there(digits):
    kwargs = {"n_components": 7, "batch_size": 9, "n_iter": 2, "random_state": 0}
    ours = BernoulliRBM(**kwargs).fit(digits[:100])
    theirs = ScikitLearnRBM(**kwargs).fit(digits[:100])
    for name, wanted in vars(theirs).items():
        if name.endswith("_") and not name.startswith("_"):
            assert np.shape(getattr(ours, name)) == np.shape(wanted), name
    names = ours.get_feature_names_out()
    np.testing.assert_array_equal(names, theirs.get_feature_names_out())


@pytest.mark.parametrize("cls", [BernoulliRBM, ScikitLearnRBM])
def test_code_written_for_scikit_learn_runs(cls, digits):
    rbm = cls(20, learning_rate=0.06, batch_size=10, n_iter=2, random_state=0)
    assert rbm.fit(digits, None) is rbm
    assert rbm.transform(digits).shape == (1797, 20)
    assert rbm.fit_transform(digits, None).shape == (1797, 20)
    assert rbm.score_samples(digits).shape == (1797,)
    assert rbm.gibbs(digits).shape == (1797, 64)
    rbm.partial_fit(digits[:10])
    assert rbm.n_features_in_ == 64
    assert rbm.h_samples_.shape == (10, 20)
    with pytest.raises(TypeError):
        cls(20, 0.06)


# ---- The model's formulas ----


@floats
@pytest.mark.parametrize("values", ["binary", "real"])
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_transform_is_the_mean_of_the_hidden_units(dtype, values, container, digits):
    X = (digits > 0.5 if values == "binary" else digits).astype(dtype)
    model = BernoulliRBM(30, n_iter=2, random_state=0).fit(X)
    wanted = expit(X @ model.components_.T + model.intercept_hidden_)
    found = model.transform(container(X))
    np.testing.assert_allclose(found, wanted, rtol=10 * PRECISION[dtype])
    found = clone(model).fit_transform(container(X))
    np.testing.assert_allclose(found, wanted, rtol=10 * PRECISION[dtype])


@floats
@pytest.mark.parametrize("values", ["binary", "real"])
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_free_energy(dtype, values, container, digits):
    X = (digits[:300] > 0.5 if values == "binary" else digits[:300]).astype(dtype)
    model = random_model(33, 64, 0.5, dtype)
    field = X @ model.components_.T.astype(np.float64) + model.intercept_hidden_
    wanted = -X @ model.intercept_visible_ - softplus(field).sum(axis=1)
    found = model.free_energy(container(X))
    np.testing.assert_allclose(found, wanted, rtol=10 * PRECISION[dtype], atol=1e-5)


def test_free_energy_sums_out_the_hidden_units():
    model = random_model(4, 5)
    V, H = all_states(5), all_states(4)
    energy = -(V @ model.intercept_visible_)[:, None]
    energy = energy - H @ model.intercept_hidden_ - V @ model.components_.T @ H.T
    wanted = -np.log(np.exp(-energy).sum(axis=1))
    np.testing.assert_allclose(model.free_energy(V), wanted, rtol=1e-12)


@floats
@pytest.mark.parametrize("values", ["binary", "real"])
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
@pytest.mark.parametrize("scale", [0.01, 0.3, 3.0, 50.0, 500.0])
def test_score_samples_is_the_pseudo_likelihood(
    dtype, values, container, scale, digits
):
    X = digits[:60] > 0.5 if values == "binary" else digits[:60]
    X = X.astype(dtype)
    model = random_model(21, 64, scale, dtype)
    wanted = pseudo_likelihood(model, X)
    found = model.score_samples(container(X))
    assert np.isfinite(found).all()
    # Errors are those of the fields, sums of up to 64 weights, times 64 features.
    atol = PRECISION[dtype] * max(1.0, scale) * 64
    np.testing.assert_allclose(found, wanted, rtol=PRECISION[dtype], atol=atol)


@pytest.mark.parametrize("n_hidden, n_visible", [(1, 1), (1, 9), (5, 2), (40, 7)])
def test_score_samples_is_the_odds_of_flips(n_hidden, n_visible):
    model = random_model(n_hidden, n_visible)
    V = all_states(n_visible)
    wanted = np.zeros(len(V))
    for i in range(n_visible):
        flipped = V.copy()
        flipped[:, i] = 1 - flipped[:, i]
        wanted -= softplus(model.free_energy(V) - model.free_energy(flipped))
    np.testing.assert_allclose(model.score_samples(V), wanted, rtol=1e-10)


@floats
@pytest.mark.parametrize("scale", [50.0, 500.0])
def test_large_weights_do_not_overflow(dtype, scale, digits):
    model = random_model(21, 64, scale, dtype)
    X = digits[:50].astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ["transform", "free_energy", "score_samples", "reconstruct"]:
            assert np.isfinite(getattr(model, name)(X)).all(), name
        assert set(np.unique(model.gibbs(X))) <= {False, True}


@floats
def test_inverse_transform_is_the_mean_of_the_visible_units(dtype, digits):
    model = random_model(21, 64, 0.5, dtype)
    means = model.transform(digits[:50].astype(dtype))
    for H in (means, (means > 0.5).astype(dtype)):
        wanted = expit(H @ model.components_ + model.intercept_visible_)
        for container in (np.array, sp.csr_array):
            found = model.inverse_transform(container(H))
            np.testing.assert_allclose(found, wanted, rtol=10 * PRECISION[dtype])
    bits = means > 0.5
    wanted = model.inverse_transform(bits.astype(np.float32))
    np.testing.assert_array_equal(model.inverse_transform(bits), wanted)


@floats
def test_reconstruct_goes_there_and_back(dtype, digits):
    X = digits[:50].astype(dtype)
    model = BernoulliRBM(16, n_iter=2, random_state=0).fit(X)
    wanted = model.inverse_transform(model.transform(X))
    np.testing.assert_array_equal(model.reconstruct(X), wanted)


def test_training_makes_reconstructions_better(digits):
    start = BernoulliRBM(64, n_iter=0, random_state=0).fit(digits)
    model = BernoulliRBM(64, n_iter=10, random_state=0).fit(digits)
    errors = [np.square(m.reconstruct(digits) - digits).mean() for m in (start, model)]
    assert errors[1] < 0.7 * errors[0]


# ---- Defects of scikit-learn's that are not ours ----


def test_short_last_batch_weighs_as_its_rows():
    # 11 rows in batches of 10. The chains are nearly all ones, as the data are:
    # weighted ten times, those of the last batch would take 10 off every bias.
    X = np.ones((11, 30))
    rbm = BernoulliRBM(
        4, learning_rate=0.1, centering=False, average=False, random_state=0
    )
    start = clone(rbm).set_params(n_iter=0).fit(X)
    step = rbm.set_params(n_iter=1).fit(X).intercept_visible_ - start.intercept_visible_
    assert step.min() >= -1e-12
    assert step.max() <= 0.2


def test_partial_fit_on_1000_rows_saturates_nothing(binary_digits):
    model = BernoulliRBM(16, random_state=0)
    for _ in range(5):
        model.partial_fit(binary_digits[:1000])
    usage = model.transform(binary_digits).mean(axis=0)
    assert (usage > 0.01).all() and (usage < 0.99).all()
    found = model.sample(2000, 100, random_state=0).mean()
    assert found == pytest.approx(binary_digits.mean(), abs=0.1)


def test_partial_fit_returns_self(digits):
    model = BernoulliRBM(4)
    assert model.partial_fit(digits[:10]) is model
    assert model.partial_fit(digits[:10]) is model


def test_partial_fit_keeps_float32(digits):
    model = BernoulliRBM(4)
    for _ in range(2):
        model.partial_fit(digits[:10].astype(np.float32))
        for name in PARAMETERS:
            assert getattr(model, name).dtype == np.float32


def test_partial_fit_makes_minibatches():
    X = np.full((40, 7), 0.5)  # all alike: the order is no matter
    rbm = BernoulliRBM(5, average=False, random_state=0)
    steps = clone(rbm)
    for start in range(0, 40, 10):
        steps.partial_fit(X[start : start + 10])
    found = clone(rbm).partial_fit(X)
    for name in [*PARAMETERS, "h_samples_"]:
        np.testing.assert_array_equal(getattr(found, name), getattr(steps, name))


def order_of_rows(model, n_rows, block):
    """Order in which one epoch showed rows that each fill a block of features.

    With a falling learning rate, a row adds the more to its biases the earlier
    it is shown; what the chains take off is alike in all blocks.
    """
    before = model.intercept_visible_.copy()
    model.fit(np.repeat(np.eye(n_rows), block, axis=1))
    step = (model.intercept_visible_ - before).reshape(n_rows, block).mean(axis=1)
    return tuple(np.argsort(-step))


def test_data_is_shuffled():
    n_rows, block = 4, 2000
    model = BernoulliRBM(
        1,
        learning_rate=1e-6,
        batch_size=1,
        n_iter=0,
        centering=False,
        learning_rate_schedule="linear",
        average=False,
        warm_start=True,
        random_state=0,
    )
    model.fit(np.repeat(np.eye(n_rows), block, axis=1)).set_params(n_iter=1)
    orders = [order_of_rows(model, n_rows, block) for _ in range(12)]
    # Twelve random orders of four rows: fewer than three, once in 10^9.
    assert len(set(orders)) >= 3


@pytest.mark.parametrize(("centering", "rate"), [(True, 0.2), (False, 0.5)])
def test_chains_start_like_the_data(digits, centering, rate):
    model = BernoulliRBM(256, n_iter=0, centering=centering, random_state=0)
    chains = model.fit(digits).h_samples_
    assert chains.shape == (10, 256)
    # 2560 bits: ten standard deviations and more.
    assert rate - 0.1 < chains.mean() < rate + 0.1


@floats
def test_visible_bias_starts_at_log_odds(dtype, digits):
    X = digits[:200].astype(dtype)
    model = BernoulliRBM(4, n_iter=0, centering=False, random_state=0)
    b = model.fit(X).intercept_visible_
    mean = X.mean(axis=0)
    assert np.isfinite(b).all()  # though some features are never on
    assert (mean == 0).any()
    np.testing.assert_allclose(expit(b), mean, atol=1 / len(X))
    inner = (mean > 0.2) & (mean < 0.8)
    np.testing.assert_allclose(b[inner], logit(mean[inner]), atol=0.05)
    order = np.argsort(mean)
    assert (np.diff(b[order]) > -1e-5).all()


def test_score_samples_is_deterministic(digits):
    model = BernoulliRBM(8, n_iter=2).fit(digits)
    first = model.score_samples(digits)
    np.testing.assert_array_equal(model.score_samples(digits), first)
    np.testing.assert_array_equal(model.score_samples(digits[::-1]), first[::-1])


def test_verbose_does_not_change_the_model(digits):
    quiet = BernoulliRBM(8, n_iter=3, random_state=0).fit(digits)
    loud = BernoulliRBM(8, n_iter=3, random_state=0, verbose=1).fit(digits)
    for name in [*PARAMETERS, "h_samples_"]:
        np.testing.assert_array_equal(getattr(loud, name), getattr(quiet, name))
    np.testing.assert_array_equal(loud.gibbs(digits), quiet.gibbs(digits))


def test_there_are_samples_and_a_score(digits):
    model = BernoulliRBM(8, n_iter=1, random_state=0).fit(digits)
    assert model.sample(3, 5).shape == (3, 64)
    assert np.isfinite(model.score(digits))


@floats
def test_defaults_leave_no_feature_saturated(dtype, binary_digits):
    X = binary_digits.astype(dtype)
    model = BernoulliRBM(16, random_state=0).fit(X)
    usage = model.transform(X).mean(axis=0)
    assert (usage > 0.01).all() and (usage < 0.99).all()
    assert all(np.isfinite(getattr(model, name)).all() for name in PARAMETERS)


# ---- Warnings ----

CALLS = {
    "fit": lambda model, X: clone(model).fit(X),
    "verbose fit": lambda model, X: clone(model).set_params(verbose=1).fit(X),
    "fit_transform": lambda model, X: clone(model).fit_transform(X),
    "partial_fit": lambda model, X: model.partial_fit(X),
    "transform": lambda model, X: model.transform(X),
    "reconstruct": lambda model, X: model.reconstruct(X),
    "free_energy": lambda model, X: model.free_energy(X),
    "score_samples": lambda model, X: model.score_samples(X),
    "score": lambda model, X: model.score(X),
    "gibbs": lambda model, X: model.gibbs(X),
    "sample": lambda model, X: model.sample(init=X, n_gibbs_steps=2),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
@pytest.mark.parametrize("low, high", [(0, 16), (-0.25, 1), (-3, 2.5)])
def test_values_outside_the_unit_interval_warn_once(call, container, low, high, digits):
    model = BernoulliRBM(4, n_iter=2, random_state=0).fit(digits[:50])
    X = digits[:50].copy()
    X[3, 5], X[4, 6] = low, high
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[call](model, container(X))
    assert [warning.category for warning in caught] == [UserWarning]
    message = str(caught[0].message)
    assert f"[{low}, {high}]" in message
    assert "BernoulliRBM" in message
    assert "[0, 1]" in message
    assert "MinMaxScaler" in message and "Binarizer" in message
    assert "sparse data with MaxAbsScaler" in message


def test_bytes_beyond_one_warn(digits):
    X = (16 * digits[:50]).astype(np.uint8)
    with pytest.warns(UserWarning, match=r"\[0, 16\]"):
        BernoulliRBM(4, n_iter=1).fit(X)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32, np.float64])
def test_values_in_the_unit_interval_do_not_warn(call, dtype, binary_digits):
    model = BernoulliRBM(4, n_iter=2, random_state=0).fit(binary_digits[:50])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS[call](model, binary_digits[:50].astype(dtype))
        CALLS[call](model, sp.csr_array(binary_digits[:50].astype(dtype)))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_of_scaled_values_does_not_warn(call, dtype, digits):
    """A scaler to [0, 1] may leave a value one unit in the last place beyond it."""
    model = BernoulliRBM(4, n_iter=2, random_state=0).fit(digits[:50])
    X, eps = digits[:50].astype(dtype), np.finfo(dtype).eps
    X[3, 5], X[4, 6] = -eps, 1 + eps
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS[call](model, X)
    X[4, 6] = 1.000002
    with pytest.warns(UserWarning, match=r", 1\.000002\]"):
        CALLS[call](model, X)
