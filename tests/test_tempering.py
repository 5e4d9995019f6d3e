"""Training with chains that exchange temperatures."""

import pickle

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.base import clone
from test_paths import Enumerated, by_level, check_levels, shuffled_levels, strong_path
from threadpoolctl import threadpool_limits

from common import (
    PARAMETERS,
    all_states,
    assert_same_model,
    floats,
    large_data,
    model_with,
)
from reference import Path as Twin
from reference import chi_square_p_value, generator, random_machine, state_numbers
from sklearn_ebm import BernoulliRBM
from sklearn_ebm.likelihood import log_likelihood
from tables import bars_and_stripes

RARE = 1e-6
N_ENSEMBLES = 24_576


def two_modes(dtype=np.float64):
    """A model of six units that are nearly always all on or all off."""
    weight = 5.0 * np.ones((2, 6))
    return model_with(weight.astype(dtype), [-15.0, -15.0], 6 * [-5.0])


def standing_still(model, X, tempered=None, **parameters):
    """`model` after an epoch of steps too small to change it.

    `tempered` is the state of its chains at several temperatures to begin with.
    """
    rbm = BernoulliRBM(
        len(model.components_), learning_rate=1e-12, average=False, **parameters
    )
    rbm.set_params(n_iter=0, random_state=0).fit(X)
    names = ["components", "intercept_hidden", "intercept_visible"]
    rbm._state |= {
        name: getattr(model, name + "_").astype(rbm._state[name].dtype)
        for name in names
    }
    if tempered is not None:
        rbm._state["tempered"] = tempered
    # Where the data are: both hidden units off.
    rbm.h_samples_ = np.zeros_like(rbm.h_samples_)
    return rbm.set_params(n_iter=1, warm_start=True).fit(X)


def in_equilibrium(twin, betas, rng):
    """Ensembles that start exactly, and all about their machines.

    The model, data with the means that its path begins at, and the state of chains.
    """
    mean = 0.35
    base = np.full(len(twin.machine[2]), np.log(mean / (1 - mean)))
    twin = Twin(twin.machine, (base, np.zeros(len(twin.machine[1]))))
    exact = Enumerated(twin, betas)
    levels = shuffled_levels(N_ENSEMBLES, len(betas), rng)
    draws = [exact.draw(k, N_ENSEMBLES, rng) for k in range(len(betas))]
    numbers = np.take_along_axis(np.stack(draws, axis=1), levels, axis=1)
    state = {
        "visible": exact.v[numbers.ravel()],
        "levels": levels,
        "betas": np.asarray(betas, float),
        "swaps": np.zeros((3, len(betas) - 1)),
        "age": 0,
        "n_steps": 0,
    }
    X = np.full((4, len(base)), mean, twin.machine[0].dtype)
    return model_with(*twin.machine), X, state, exact


def after_minibatches(n_batches, twin, betas, rng):
    """The fitted model, its tempered state, and all about its machines."""
    model, X, state, exact = in_equilibrium(twin, betas, rng)
    fitted = standing_still(
        model,
        np.repeat(X[:1], n_batches, axis=0),
        state,
        batch_size=1,
        n_chains=N_ENSEMBLES,
        n_temperatures=len(betas),
    )
    return fitted, fitted._state["tempered"], exact


def states_by_level(state):
    shape = state["levels"].shape
    return by_level(state_numbers(state["visible"]).reshape(shape), state["levels"])


@pytest.mark.thinned(3)
@floats
@pytest.mark.parametrize("n_batches", [1, 4, 16])
def test_joint_state_does_not_drift(n_batches, dtype):
    """Ensembles that start exactly stay so, and so do the chains they lead."""
    twin, betas = strong_path(dtype), [0, 0.25, 0.6, 1.0]
    rng = generator(230, n_batches)
    fitted, state, exact = after_minibatches(n_batches, twin, betas, rng)
    assert state["n_steps"] == n_batches
    np.testing.assert_array_equal(state["betas"], betas)
    check_levels(states_by_level(state), exact.p)
    hidden = state_numbers(fitted.h_samples_ == 1)
    counts = np.bincount(hidden, minlength=16)
    assert chi_square_p_value(counts, exact.levels[-1].p_h) > RARE


@pytest.mark.slow
def test_model_end_does_not_drift_while_temperatures_move():
    twin, betas = strong_path(np.float32), [0, 0.25, 0.6, 1.0]
    fitted, state, exact = after_minibatches(120, twin, betas, generator(231))
    assert np.abs(state["betas"] - betas)[1:-1].max() > 0.05
    assert state["betas"][0] == 0 and state["betas"][-1] == 1
    # They moved after 100 sweeps; of the 20 since then half have tried each pair.
    assert (state["swaps"][0] == 10 * N_ENSEMBLES).all()
    counts = np.bincount(states_by_level(state)[:, -1], minlength=32)
    assert chi_square_p_value(counts, exact.p[-1]) > RARE
    counts = np.bincount(state_numbers(fitted.h_samples_ == 1), minlength=16)
    assert chi_square_p_value(counts, exact.levels[-1].p_h) > RARE


def test_swap_rates_of_the_history():
    """In equilibrium and while temperatures stay; two sweeps try each pair once."""
    twin, betas = strong_path(), [0, 0.25, 0.6, 1.0]
    fitted, state, exact = after_minibatches(2, twin, betas, generator(232))
    tried, accepted, _ = state["swaps"]
    assert (tried == N_ENSEMBLES).all()
    for n, wanted in zip(accepted, exact.swap_rates()):
        assert binomtest(int(n), N_ENSEMBLES, wanted).pvalue > RARE
    rates = accepted / N_ENSEMBLES
    assert np.ptp(rates) > 0.05
    assert fitted.history_["swap_rate"] == [pytest.approx(rates.mean())]
    assert fitted.history_["least_swap_rate"] == [rates.min()]


def test_history_tells_of_one_epoch_at_a_time():
    twin, betas = strong_path(), [0, 0.25, 0.6, 1.0]
    fitted, state, _ = after_minibatches(2, twin, betas, generator(233))
    first = state["swaps"]
    fitted.fit(np.full((3, 5), 0.35))
    tried, accepted, _ = fitted._state["tempered"]["swaps"] - first
    rates = accepted / tried
    assert fitted.history_["swap_rate"][1] == pytest.approx(rates.mean())
    # A single sweep tries every other pair, the next one those between.
    for pairs in ([1], [0, 2]):
        before = fitted._state["tempered"]["swaps"]
        fitted.partial_fit(np.full((1, 5), 0.35))
        tried, accepted, _ = fitted._state["tempered"]["swaps"] - before
        assert np.array_equal(np.flatnonzero(tried), pairs)
        rates = accepted[pairs] / tried[pairs]
        assert fitted.history_["swap_rate"][-1] == pytest.approx(rates.mean())
        assert fitted.history_["least_swap_rate"][-1] == pytest.approx(rates.min())


def test_swap_rate_is_unknown_where_none_was_tried(digits):
    model = BernoulliRBM(3, n_temperatures=2, random_state=0).partial_fit(digits[:10])
    model.partial_fit(digits[:10])
    tried, untried = model.history_["swap_rate"]
    assert 0 <= tried <= 1
    assert np.isnan(untried)
    assert np.isnan(model.history_["least_swap_rate"][1])


def test_one_temperature_has_no_swaps(digits):
    model = BernoulliRBM(3, n_iter=1, random_state=0).fit(digits[:20])
    assert not {"swap_rate", "least_swap_rate"} & set(model.history_)
    assert "tempered" not in model._state


def test_lines_tell_swap_rates(digits, capsys):
    model = BernoulliRBM(3, n_iter=1, verbose=1, random_state=0)
    clone(model).fit(digits[:50])
    assert "swap" not in capsys.readouterr().out
    model.set_params(n_temperatures=3).fit(digits[:50])
    mean, least = (model.history_[key][0] for key in ("swap_rate", "least_swap_rate"))
    assert f", swap rate = {mean:.2f} (least {least:.2f}), " in capsys.readouterr().out


@pytest.mark.thinned(3)
@pytest.mark.filterwarnings("ignore:Of the 5 hidden units")
@pytest.mark.parametrize("seed", range(3))
def test_temperatures_adapt_to_even_out_swaps(seed):
    """Where evenly spaced temperatures leave a gap; judged by enumeration."""
    rng = np.random.default_rng(seed)
    machine = random_machine(5, 6, rng, scale=4)
    model, X = model_with(*machine), np.full((1000, 6), 0.5)
    fitted = standing_still(
        model, X, n_temperatures=6, n_chains=200, batch_size=1, n_gibbs_steps=1
    )
    betas = fitted._state["tempered"]["betas"]
    assert betas[0] == 0 and betas[-1] == 1
    assert (np.diff(betas) > 0).all()
    twin = Twin(machine, (np.zeros(6), np.zeros(5)))
    before, after = (
        Enumerated(twin, each).swap_rates() for each in (np.linspace(0, 1, 6), betas)
    )
    assert after.min() > before.min()
    assert np.ptp(after) < np.ptp(before) / 2


@pytest.mark.slow
@floats
def test_chains_follow_the_model_in_both_modes(dtype):
    model = two_modes(dtype)
    # 100 minibatches.
    X = np.full((400, 6), 0.35, dtype=dtype)
    chains = {"batch_size": 4, "n_chains": 4000}
    tempered = standing_still(model, X, n_temperatures=8, **chains)
    states = all_states(2)
    fields = states @ model.components_ + model.intercept_visible_
    p = np.exp(states @ model.intercept_hidden_ + np.logaddexp(0, fields).sum(axis=1))
    p /= p.sum()
    assert p[1] + p[2] < 1e-4  # one mode or the other
    found = np.bincount((tempered.h_samples_ @ [2, 1]).astype(int), minlength=4)
    assert binomtest(found[3], 4000, p[3]).pvalue > 1e-6
    # Without, they hardly ever leave.
    plain = standing_still(model, X, **chains)
    assert binomtest(int(plain.h_samples_.all(axis=1).sum()), 4000, p[3]).pvalue < 1e-6


@pytest.mark.slow
def test_learns_modes_that_sweeps_do_not_leave():
    """Between stripes and bars lies nothing; likelihoods are exact."""
    X = bars_and_stripes(4)
    # Chains with fast parameters do not jump, and these are too small to matter.
    chains = {"sweep": {"fast_learning_rate": 1e-12}, "jump": {}}
    chains["tempered"] = {"n_temperatures": 5}
    for seed in range(3):
        rbm = BernoulliRBM(14, learning_rate=0.5, n_iter=600, random_state=seed)
        rbm.set_params(learning_rate_schedule="linear")
        found = {
            name: float(log_likelihood(clone(rbm).set_params(**change).fit(X), X))
            for name, change in chains.items()
        }
        # The best there is: 30 images, two of them twice as often.
        for name in ("jump", "tempered"):
            assert found[name] > np.log(1 / 32) - 0.5
            assert found["sweep"] < found[name] - 5


@pytest.mark.slow
def test_learns_modes_far_apart():
    rng = np.random.default_rng(0)
    modes = rng.random((4, 30)) < 0.5
    X = modes[rng.integers(4, size=1000)] ^ (rng.random((1000, 30)) < 0.02)
    rbm = BernoulliRBM(8, n_iter=20, learning_rate=0.1, random_state=0)
    tempered = clone(rbm).set_params(n_temperatures=6).fit(X)
    assert np.isfinite(log_likelihood(tempered, X).samples).all()
    # The entropy of the data is log 4 + 30 H(0.02) = 4.3 nats.
    assert float(log_likelihood(tempered, X)) > -6.5


def test_training_goes_on_where_it_stopped(digits):
    # Temperatures move within epochs: after 100, 200, 300, 400 minibatches of one row.
    X = digits[:105]
    rbm = BernoulliRBM(6, n_temperatures=3, batch_size=1, random_state=0)
    model = clone(rbm).set_params(n_iter=2, warm_start=True).fit(X)
    model = pickle.loads(pickle.dumps(model)).fit(X)
    whole = clone(rbm).set_params(n_iter=4).fit(X)
    assert whole._state["tempered"]["betas"][1] != 0.5
    assert_same_model(model, whole)


def test_partial_fits_move_temperatures_when_one_run_does(digits):
    # Means that do not change, and one row at a time.
    X = np.tile(digits[:1] > 0.5, (250, 1)).astype(float)
    rbm = BernoulliRBM(6, n_temperatures=3, batch_size=1, n_chains=3, random_state=0)
    moves = []
    for k in range(250):
        rbm.partial_fit(X[k : k + 1])
        moves.append(rbm._state["tempered"]["betas"][1])
    assert list(np.flatnonzero(np.diff([0.5, *moves]))) == [99, 199]


def test_other_temperatures_are_drawn_afresh(digits):
    rbm = BernoulliRBM(6, n_temperatures=3, n_iter=1, random_state=0, warm_start=True)
    before = rbm.fit(digits[:105])._state["tempered"]
    after = rbm.set_params(n_temperatures=4).fit(digits[:105])._state["tempered"]
    # Of the new chains the age begins again; the counter of the draws goes on.
    assert (before["age"], before["n_steps"]) == (11, 11)
    assert (after["age"], after["n_steps"]) == (11, 22)


def test_any_number_of_threads_gives_the_same_bits():
    X = large_data()["float32 binary"]
    rbm = BernoulliRBM(
        200, n_temperatures=4, n_chains=40, batch_size=5, n_iter=2, random_state=0
    )
    with threadpool_limits(1):
        wanted = clone(rbm).fit(X)
    assert wanted._state["tempered"]["n_steps"] == 120
    with threadpool_limits(3):
        assert_same_model(clone(rbm).fit(X), wanted)


def test_more_chains_than_a_pass_holds(digits):
    rbm = BernoulliRBM(6, n_temperatures=2, n_chains=300, n_iter=1, random_state=0)
    model = rbm.fit(digits[:200])
    assert model.h_samples_.shape == (300, 6)
    assert all(np.isfinite(getattr(model, name)).all() for name in PARAMETERS)


def test_needs_persistent_chains(digits):
    rbm = BernoulliRBM(4, n_temperatures=2, persistent=False)
    for fit in (rbm.fit, rbm.partial_fit):
        with pytest.raises(ValueError, match="n_temperatures=2.*persistent=True"):
            fit(digits)
