"""Partition functions and what is computed with or without them."""

from copy import deepcopy

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone

from common import all_states, assert_same, floats, random_model, run_on_threads
from reference import generator
from sklearn_ebm import RBM, BernoulliRBM, DBMTransformer, DBNTransformer, GaussianRBM
from sklearn_ebm.boltzmann import _normaliser
from sklearn_ebm.layered import Layered
from sklearn_ebm.likelihood import (
    LogPartition,
    free_energy,
    free_energy_gap,
    log_likelihood,
    log_partition,
    pseudo_log_likelihood,
    ratio_matching,
)
from sklearn_ebm.units import Bernoulli

ESTIMATES = ["ais", "tempering"]
OF_TWO_LAYERS = free_energy, log_likelihood, pseudo_log_likelihood, ratio_matching


@pytest.fixture(scope="module")
def strong():
    """A model whose modes are far apart for its size."""
    return random_model(8, 10, 1.5, seed=4)


def brute_force(model):
    """log Z by summing over all states of both layers."""
    V, H = (all_states(n) for n in model.components_.shape[::-1])
    fields = V @ model.components_.T @ H.T
    energy = fields + (V @ model.intercept_visible_)[:, None]
    return logsumexp(energy + H @ model.intercept_hidden_)


# ---- Exactly ----


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (6, 6), (1, 9)])
def test_exact_equals_brute_force(shape):
    model = random_model(*shape, 1.5)
    found = log_partition(model)
    assert abs(found.value - brute_force(model)) < 1e-10 * abs(found.value)
    assert (found.standard_error, found.method) == (0, "exact")
    assert found.forward is None and found.reverse is None
    assert float(found) == found.value
    as_value = log_partition(model._layered())
    assert as_value.value == found.value


def test_exact_refuses_large_models_and_names_another_method():
    model = BernoulliRBM(27, n_iter=0).fit(np.zeros((2, 30)))
    with pytest.raises(ValueError, match=r"27 units.*26.*'ais'"):
        log_partition(model)


# ---- Estimates ----


def test_forward_estimates_are_unbiased_with_honest_errors(strong):
    exact = brute_force(strong)
    found = [
        log_partition(
            strong, "ais", betas=60, n_runs=50, reverse=False, random_state=seed
        )
        for seed in range(100)
    ]
    ratios = np.exp([f.value - exact for f in found])
    assert abs(ratios.mean() - 1) < 4 * ratios.std(ddof=1) / 10
    errors = np.array([abs(f.value - exact) / f.standard_error for f in found])
    assert (errors > 4).sum() <= 1
    assert all(f.reverse is None for f in found)
    assert all(1 <= f.effective_sample_size <= 50 for f in found)


@pytest.mark.slow
def test_standard_error_falls_with_the_work(strong):
    def error(betas, n_runs):
        return np.mean(
            [
                log_partition(
                    strong,
                    "ais",
                    betas=betas,
                    n_runs=n_runs,
                    reverse=False,
                    random_state=seed,
                ).standard_error
                for seed in range(20)
            ]
        )

    # 16 times the work: a quarter of the error.
    base = error(400, 50)
    assert 2.5 < base / error(400, 800) < 6
    assert 2.5 < base / error(6400, 50) < 6


@pytest.mark.parametrize("method", ESTIMATES)
@floats
def test_estimates_are_near_the_exact_value(method, dtype):
    model = random_model(8, 10, 1.0, dtype)
    exact = float(log_partition(model))
    found = log_partition(model, method, betas=2000, random_state=1)
    assert 0 < found.standard_error < 0.2
    assert abs(found.value - exact) < 5 * found.standard_error
    if method == "ais":
        assert found.value == found.forward
        assert abs(found.reverse - exact) < 5 * found.reverse_standard_error


@pytest.mark.slow
def test_reverse_estimates_agree(strong):
    exact = brute_force(strong)
    found = [
        log_partition(strong, "ais", betas=1000, n_runs=50, random_state=seed)
        for seed in range(30)
    ]
    # The starts are not exact samples, and the logarithm is not unbiased: within
    # five standard errors all the same.
    errors = [abs(f.reverse - exact) / f.reverse_standard_error for f in found]
    assert max(errors) < 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BernoulliRBM, GaussianRBM])
def test_modes_that_annealing_misses(kind, monkeypatch):
    # One hidden bit, on in 99 of 100 cases, all features far from where they are while
    # it is off. Annealing begins there, and stays.
    n, far = 40, 5.0
    rng = generator(661)
    model = kind(1, n_iter=1, random_state=0, batch_size=50)
    model.fit((rng.random((200, n)) < 0.5).astype(float))
    model.components_[:] = 2 * far
    model.intercept_visible_[:] = -far
    if kind is GaussianRBM:
        model.variance_[:] = model.visible_scale_[:] = 1.0
    model.visible_mean_[:] = 0.0 if kind is BernoulliRBM else -far
    # Half of the energy of the weights: then the bit is as often on as off.
    model.intercept_hidden_[:] = np.log(99)
    if kind is BernoulliRBM:
        model.intercept_hidden_ -= n * far
    exact = log_partition(model).value
    # (Of fewer runs none might start the way back while the bit is off.)
    how = {"betas": 200, "n_runs": 1000, "random_state": 0}
    annealed = log_partition(model, "ais", **how)
    assert abs(annealed.forward - (exact - np.log(100))) < 0.1
    # Rows of both kinds were kept: fields that turn the bit off, or on.
    for name in "fields", "archive":
        fields = model._state["jumps"][name]
        fields[:] = np.where(np.arange(len(fields)) % 2, 50.0, -50.0)[:, np.newaxis]
    found = log_partition(model, "ais", **how)
    assert found.forward == annealed.forward
    # (But for the factor of 2 by which the way back may miss one state of the bit.)
    assert abs(found.reverse - exact) < 1
    monkeypatch.setattr(_normaliser, "MOST_STATES", 1)
    assert abs(_normaliser.kept_log_z(model) - exact) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("betas", ["classic", [0, 0.5, 1], np.linspace(0, 1, 30) ** 2])
def test_schedules(betas):
    model = random_model(4, 5, 0.3)
    found = log_partition(model, "ais", betas=betas, n_runs=200, random_state=0)
    assert abs(found.value - brute_force(model)) < 5 * found.standard_error + 1e-6


def test_a_model_without_connections_is_exact():
    layers = random_model(4, 5, 1.0)._layered()
    layers = Layered(layers.units, (0 * layers.weights[0],), layers.biases)
    exact = float(log_partition(layers))
    found = log_partition(layers, "ais", betas=10, random_state=0)
    # The path turns hidden biases on, which every run weighs alike.
    assert abs(found.value - exact) < 1e-10
    assert found.standard_error < 1e-10


@pytest.mark.parametrize("method", ESTIMATES)
def test_estimates_are_reproducible(method, strong):
    first, again, other = (
        log_partition(strong, method, betas=100, n_runs=40, random_state=seed)
        for seed in (0, 0, 1)
    )
    assert first.value == again.value and first.standard_error == again.standard_error
    assert first.value != other.value


THREADS = """
import numpy as np
from sklearn_ebm import BernoulliRBM
from sklearn_ebm.likelihood import log_partition
X = np.random.default_rng(0).random((200, 300)) < 0.2
rbm = BernoulliRBM(200, n_iter=1, batch_size=50, random_state=0).fit(X)
for method in ("ais", "tempering"):
    found = log_partition(rbm, method, betas=50, n_runs=70, random_state=0)
    print(found.value.hex(), found.standard_error.hex(), found.reverse)
"""


def test_estimates_do_not_depend_on_the_number_of_threads():
    found = run_on_threads([1, 2, 3, 7], THREADS)
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"method": "guess"}, "guess"),
        ({"method": None}, "None"),
        ({"method": "ais", "betas": 1}, "betas"),
        ({"method": "ais", "betas": [0, 1, 0.5]}, "betas"),
        ({"method": "ais", "betas": [0.1, 1]}, "betas"),
        ({"method": "ais", "betas": [0, 0.9]}, "betas"),
        ({"method": "ais", "betas": [0, np.nan, 1]}, "betas"),
        ({"method": "ais", "betas": "many"}, "many"),
        ({"method": "ais", "n_runs": 0}, "n_runs"),
        ({"method": "ais", "reverse": "no"}, "reverse"),
        ({"method": "tempering", "betas": 39}, "betas"),
        ({"method": "ais", "random_state": -1}, "random_state"),
    ],
)
def test_bad_arguments_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        log_partition(random_model(3, 4), **arguments)


def test_few_tempered_sweeps_are_enough():
    estimate = log_partition(random_model(3, 4), "tempering", betas=40, random_state=0)
    assert np.isfinite([estimate.value, estimate.standard_error]).all()


# ---- Rows ----


def test_log_likelihood_sums_to_one():
    model = random_model(4, 6, 1.0)
    V = all_states(6)
    assert abs(logsumexp(log_likelihood(model, V).samples)) < 1e-10
    np.testing.assert_array_equal(
        log_likelihood(model, V), log_likelihood(model._layered(), V)
    )
    given = log_likelihood(model, V, log_partition(model))
    np.testing.assert_array_equal(given, log_likelihood(model, V))
    with pytest.raises(ValueError, match="log_z is given"):
        log_likelihood(model, V, 1.0, method="ais")


def test_log_likelihood_says_how_log_z_was_found():
    model = random_model(4, 6, 1.0)
    settings = {"method": "ais", "betas": 50, "random_state": 3}
    log_z = log_partition(model, **settings)
    V = all_states(6)
    found, gains = log_likelihood(model, V, **settings), -free_energy(model, V)
    np.testing.assert_array_equal(found.samples, gains - log_z.value)
    np.testing.assert_array_equal(np.asarray(found), found.samples)
    assert float(found) == found.value == pytest.approx(found.samples.mean())
    assert found.forward == pytest.approx(gains.mean() - log_z.forward)
    assert found.reverse == pytest.approx(gains.mean() - log_z.reverse)
    for name in (
        "method",
        "standard_error",
        "reverse_standard_error",
        "effective_sample_size",
        "settings",
    ):
        assert getattr(found, name) == getattr(log_z, name)
    alone = log_likelihood(model, V, **settings, reverse=False)
    assert alone.reverse is None and alone.value == found.value


def test_log_likelihood_with_log_z_as_a_number():
    model, V = random_model(4, 6, 1.0), all_states(6)
    found = log_likelihood(model, V, 2)
    np.testing.assert_array_equal(found.samples, -free_energy(model, V) - 2)
    assert found.method == "given" and np.isnan(found.standard_error)


def test_an_array_of_a_log_likelihood_is_a_copy_if_asked_for():
    found = log_likelihood(random_model(4, 6, 1.0), all_states(6))
    assert np.asarray(found) is found.samples
    assert not np.shares_memory(np.array(found), found.samples)
    assert np.asarray(found, np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.asarray(found, np.float32, copy=False)


def test_results_of_tempering_compare():
    model = random_model(4, 6, 1.0)
    one, same, other = (
        log_partition(model, "tempering", betas=60, random_state=k) for k in (0, 0, 1)
    )
    assert one == same != other


def test_deep_machines_have_no_free_energy():
    layers = Layered(
        ("bernoulli",) * 3,
        (np.zeros((4, 3)), np.zeros((3, 2))),
        tuple(map(np.zeros, (4, 3, 2))),
    )
    model = DBMTransformer((3, 2), n_iter=0).fit(np.eye(4))
    for function in OF_TWO_LAYERS:
        for deep in (layers, model):
            with pytest.raises(ValueError, match="single hidden layer"):
                function(deep, np.zeros((1, 4)))


def test_free_energy_of_deep_machines_with_one_hidden_layer():
    X = np.random.default_rng(0).integers(0, 3, (20, 2)).astype(float)
    kinds = [([0], "categorical"), ([1], "gaussian")]
    model = DBMTransformer((3,), visible=kinds, n_iter=2, random_state=0).fit(X)
    np.testing.assert_allclose(log_likelihood(model, X), model.score_samples(X))
    wanted = free_energy(model._layered(), model._columns().encode(X))
    np.testing.assert_allclose(free_energy(model, X), wanted)
    assert free_energy_gap(model, X, X) == 0


def log_odds_of_flips(model, V):
    """How much likelier rows are than with one feature flipped, for each feature."""
    F = model.free_energy(V)
    found = np.empty(V.shape)
    for i in range(V.shape[1]):
        flipped = V.copy()
        flipped[:, i] = 1 - flipped[:, i]
        found[:, i] = model.free_energy(flipped) - F
    return found


@floats
def test_pseudo_log_likelihood_equals_its_definition(dtype):
    model = random_model(5, 6, 1.0, dtype)
    V = all_states(6).astype(dtype)
    expected = -np.log1p(np.exp(-log_odds_of_flips(model, V))).sum(axis=1)
    rtol = 1e-10 if dtype is np.float64 else 1e-4
    for given in (model, model._layered()):
        found = pseudo_log_likelihood(given, V)
        np.testing.assert_allclose(found, expected, rtol=rtol)
        np.testing.assert_array_equal(found, model.score_samples(V))


def test_pseudo_log_likelihood_is_of_bits():
    layers = Layered(("gaussian", "bernoulli"), [np.ones((2, 1))], [[0.0, 0], [0.0]])
    with pytest.raises(ValueError, match="ernoulli"):
        pseudo_log_likelihood(layers, np.zeros((1, 2)))


@floats
def test_ratio_matching_equals_its_definition(dtype):
    model = random_model(5, 6, 1.0, dtype)
    V = all_states(6).astype(dtype)
    expected = ((1 + np.exp(log_odds_of_flips(model, V))) ** -2).sum(axis=1)
    rtol = 1e-10 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(ratio_matching(model, V), expected, rtol=rtol)


def test_ratio_matching_of_probabilities_is_a_mean():
    model = random_model(5, 1, 1.0)
    off, on = ratio_matching(model, [[0.0], [1.0]])
    mixed = ratio_matching(model, [[0.3]])
    np.testing.assert_allclose(mixed, 0.7 * off + 0.3 * on, rtol=1e-10)


def test_ratio_matching_is_least_at_the_truth():
    # Hyvarinen: its expectation under the data is least for the model they come from.
    truth = random_model(3, 5, 1.0, seed=1)
    V = all_states(5)
    p = np.exp(log_likelihood(truth, V).samples)
    best = p @ ratio_matching(truth, V)
    rng = np.random.default_rng(0)
    for _ in range(20):
        layers = truth._layered()
        step = 0.3 * rng.normal(size=layers.weights[0].shape)
        other = Layered(layers.units, (layers.weights[0] + step,), layers.biases)
        assert p @ ratio_matching(other, V) > best


@pytest.mark.parametrize("log_z", [np.nan, np.inf, -np.inf])
def test_log_z_has_to_be_finite(log_z):
    model, V = random_model(4, 6, 1.0), all_states(6)
    for given in (log_z, LogPartition(log_z, 0.0, "exact")):
        with pytest.raises(ValueError, match=f"log_z must be finite, got {log_z}"):
            log_likelihood(model, V, given)
    for given in ("a", [1.0], {}):
        with pytest.raises(TypeError, match="^log_z must be a number"):
            log_likelihood(model, V, given)


def test_layers_have_units_and_rows_belong_together():
    for biases in ([[], [0, 0]], [[[1.0]], [0.0, 0.0]], [0.0, [0.0, 0.0]]):
        weights = np.zeros((np.size(biases[0]), 2))
        with pytest.raises(ValueError, match="^Biases are an array .n_units,. for"):
            Layered(("spin", "bernoulli"), (weights,), biases)
    layers = Layered(("bernoulli",) * 2, (np.ones((3, 2)),), (np.zeros(3), np.zeros(2)))
    with pytest.raises(ValueError, match=r"different numbers of rows: \[2, 1\]"):
        layers.energy(np.zeros((2, 3)), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="^A machine of 2 layers .* got 1 arrays"):
        layers.energy(np.zeros((2, 3)))


def test_bits_have_one_name():
    rng = np.random.default_rng(0)
    weights, biases = [rng.normal(size=(22, 3))], [np.zeros(22), np.zeros(3)]
    named, given = (
        Layered((unit, unit), weights, biases) for unit in ("bernoulli", Bernoulli())
    )
    V = rng.integers(0, 2, (4, 22))
    assert log_partition(given).value == log_partition(named).value
    np.testing.assert_array_equal(ratio_matching(given, V), ratio_matching(named, V))
    settings = {"betas": 40, "n_runs": 10, "random_state": 0}
    found = [log_partition(m, "tempering", **settings).value for m in (named, given)]
    assert found[0] == found[1]


def test_a_single_layer_has_no_free_energy():
    for unit in ("bernoulli", "spin"):
        layers, X = Layered((unit,), (), (np.zeros(3),)), np.zeros((2, 3))
        for function in OF_TWO_LAYERS:
            with pytest.raises(ValueError, match="takes two layers or more, got 1"):
                function(layers, X)


@pytest.mark.parametrize("units", [("bernoulli", "bernoulli"), ("spin", "bernoulli")])
def test_bits_have_the_free_energy_of_floats(units):
    rng = np.random.default_rng(0)
    W, b, c = rng.normal(0, 10, (9, 4)), rng.normal(size=9), rng.normal(size=4)
    layers, X = Layered(units, (W,), (b, c)), rng.random((30, 9)) < 0.4
    for dtype in (np.bool_, np.uint8):
        found = free_energy(layers, X.astype(dtype))
        assert_same(found, free_energy(layers, X.astype(float)))
    single = Layered(units, (W.astype(np.float32),), (b, c))
    assert_same(free_energy(single, X), free_energy(single, X.astype(np.float32)))


def test_free_energy_gap():
    model = random_model(4, 6, 1.0)
    V = all_states(6)
    gap = free_energy_gap(model, V[:20], V[20:])
    expected = model.free_energy(V[20:]).mean() - model.free_energy(V[:20]).mean()
    assert gap == pytest.approx(expected)


@pytest.mark.parametrize(
    "model, changed",
    [
        (GaussianRBM(3), "components_"),
        (GaussianRBM(3), "variance_"),
        (RBM(3, hidden="spin"), "components_"),
        (RBM(3, hidden="spin"), "intercept_hidden_"),
        (DBMTransformer((3, 2)), "components_"),
        (DBMTransformer((3, 2)), "intercepts_"),
        (DBNTransformer((3, 2)), "components_"),
        (DBNTransformer((3, 2)), "intercepts_"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_scores_follow_parameters_that_are_set(model, changed):
    X = generator(61).random((20, 5)) < 0.4
    model = clone(model).set_params(n_iter=1, random_state=0).fit(X)
    unscored = deepcopy(model)
    before = model.score_samples(X)
    for each in model, unscored:
        numbers = getattr(each, changed)
        for array in numbers if isinstance(numbers, list) else [numbers]:
            array *= 1.5  # in place
            array += 0.25
    after = model.score_samples(X)
    np.testing.assert_array_equal(after, unscored.score_samples(X))
    assert np.abs(after - before).max() > 0.01


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_set_by_hand_that_are_not_finite_are_refused(wrong):
    model = BernoulliRBM(3, n_iter=1, random_state=0).fit(np.eye(4))
    model.components_[0, 1] = wrong
    for ask in (
        log_partition,
        lambda model: log_partition(model, "ais", random_state=0),
        lambda model: log_likelihood(model, np.eye(4), log_z=0.0),
        lambda model: model.sample(2),
        lambda model: model.gibbs(np.eye(4)),
    ):
        with pytest.raises(ValueError, match=rf"weights\[0\] must be .*, got {wrong}"):
            ask(model)


def test_weights_set_by_hand_that_leave_no_distribution_are_refused():
    # A score was NaN, and samples ran away.
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = GaussianRBM(2, hidden="gaussian", n_iter=3, random_state=0).fit(X)
    assert np.isfinite(model.score(X))
    model.components_ = np.full((2, 3), 2.0)
    for ask in (
        lambda: log_partition(model, "ais", random_state=0),
        lambda: model.score_samples(X),
        lambda: model.sample(2),
        lambda: model.impute(X, mask=np.arange(3) == 0, random_state=0),
    ):
        with pytest.raises(ValueError, match="singular values below 1"):
            ask()
