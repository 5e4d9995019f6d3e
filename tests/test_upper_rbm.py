"""Machines above others in a belief network: what they learn, and where they begin."""

import warnings

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from common import assert_same, fitted_state
from reference import generator
from sklearn_ebm import BernoulliRBM, DBNTransformer
from sklearn_ebm._validation import random_key
from sklearn_ebm.boltzmann._starts import BITS_RATE
from sklearn_ebm.boltzmann._upper_rbm import CHUNK, DrawnStates, UpperRBM
from sklearn_ebm.likelihood import log_likelihood

LEAST_P = 1e-6


def states(means, key, number):
    """Draw `number` of states with these means, written out."""
    rng = np.random.default_rng([key, number])
    return (rng.random(means.shape, means.dtype) < means).astype(np.uint8)


def likely(counts, n, p):
    """Whether binomial counts are no outliers."""
    tails = np.minimum(binom.cdf(counts, n, p), binom.sf(counts - 1.0, n, p))
    return (2 * tails > LEAST_P).all()


@pytest.mark.parametrize(
    "n_rows, n_first, n_epochs", [(30, 50, 60), (1500, 66, 40), (6500, 30, 10)]
)
def test_layers_take_more_epochs_of_few_rows(n_rows, n_first, n_epochs):
    X = generator(0).random((n_rows, 2)) < 0.5
    model = DBNTransformer((2, 1, 2), batch_size=n_rows, random_state=0).fit(X)
    layers, rates = model.history_["layer"], model.history_["learning_rate"]
    assert layers == [1] * n_first + [2] * n_epochs + [3] * n_epochs
    falling = np.linspace(1, 0, n_epochs, endpoint=False)
    first = np.linspace(0.1, 0, n_first, endpoint=False)
    # (The third one begins as the second one turned upside down.)
    wanted = np.concatenate([first, 0.1 * falling, 0.003 * falling])
    np.testing.assert_allclose(rates, wanted)
    model.set_params(n_iter=1, learning_rate_schedule="constant").fit(X)
    assert model.history_["learning_rate"] == [0.1, 0.1, 0.003]
    model.partial_fit(X)
    assert model.history_["learning_rate"][3:] == [0.1, 0.1, 0.01]


# ---- States in place of means ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_states_are_bits_with_these_means_drawn_anew(dtype):
    means = np.tile(np.linspace(0, 1, 11, dtype=dtype), (CHUNK + 1000, 1))
    drawn = DrawnStates(7, 3)
    first = drawn.fill(means).copy()
    drawn.sweep()
    second = drawn.states
    assert_same(first, states(means, 7, 3))
    assert_same(second, states(means, 7, 4))
    n = len(means)
    p = means[0].astype(float)
    assert likely(first.sum(axis=0), n, p)
    assert likely(second.sum(axis=0), n, p)
    # A bit tells nothing of the same one in the next draw.
    assert likely((first & second).sum(axis=0), n, p**2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("persistent", [True, False])
def test_every_epoch_is_one_on_states_of_its_own(persistent, dtype):
    means = generator(0).random((50, 12)).astype(dtype)
    settings = {"persistent": persistent, "centering": False, "momentum": 0.5}
    rng = np.random.RandomState(0)
    model = UpperRBM(5, n_iter=3, random_state=rng, **settings)
    model.set_params(learning_rate_schedule="constant").fit(means)
    rng = np.random.RandomState(0)
    key = random_key(rng)
    twin = BernoulliRBM(5, n_iter=0, random_state=rng, warm_start=True, **settings)
    twin.set_params(n_chains=100).fit(means).set_params(n_iter=1)
    for number in (1, 2, 3):  # that of 0 is only looked at
        twin.fit(states(means, key, number))
    assert_same(model.components_, twin.components_)
    assert_same(model.intercept_hidden_, twin.intercept_hidden_)
    assert_same(model.intercept_visible_, twin.intercept_visible_)
    assert_same(model.visible_mean_, means.mean(axis=0, dtype=float).astype(dtype))


def test_calls_that_go_on_draw_fresh_states(monkeypatch):
    seen = []

    def note(drawn, *_):
        seen.append((drawn.key, drawn.number))
        return sweep(drawn)

    sweep = DrawnStates.sweep
    monkeypatch.setattr(DrawnStates, "sweep", note)
    means = generator(1).random((8, 6))
    model = UpperRBM(3, n_iter=4, batch_size=8, warm_start=True, random_state=0)
    for _ in range(2):
        model.fit(means).partial_fit(means)
    assert len(set(seen)) == len(seen) == 2 * (5 + 2)


# ---- The machine below, turned upside down ----


def test_a_turned_machine_leaves_the_likelihood_as_it_is(binary_digits):
    X = binary_digits[:100].astype(float)
    n = X.shape[1]
    model = DBNTransformer((12, n), n_iter=(5, 0), init="transposed", random_state=0)
    model.fit(X)
    first = BernoulliRBM(
        12, n_chains=100, n_iter=5, random_state=np.random.RandomState(0)
    ).fit(X)
    assert_same(model.components_, [first.components_, first.components_.T])
    assert_same(
        model.intercepts_[1:], [first.intercept_hidden_, first.intercept_visible_]
    )
    wanted = log_likelihood(first, X).samples
    # (The bound is tight in every draw.)
    np.testing.assert_allclose(model.score_samples(X), wanted, rtol=1e-9)


def test_units_to_spare_change_little(binary_digits):
    X = binary_digits[:300].astype(float)
    model = DBNTransformer((12, 100), n_iter=(5, 0), init="transposed", random_state=0)
    model.fit(X)
    assert_same(model.components_[1][:64], np.ascontiguousarray(model.components_[0].T))
    spare = model.components_[1][64:]
    assert 0.005 < spare.std() < 0.02
    first = BernoulliRBM(
        12, n_chains=100, n_iter=5, random_state=np.random.RandomState(0)
    ).fit(X)
    wanted = log_likelihood(first, X).samples
    found = model.score_samples(X)
    assert np.abs(found - wanted).max() < 0.2
    # They are on as often as those of any machine at first.
    means = first.transform(X).mean(axis=0)
    np.testing.assert_allclose(
        spare @ means + model.intercepts_[2][64:], logit(BITS_RATE), rtol=1e-9
    )
    # What they add to the fields of the others is 0 in the mean.
    np.testing.assert_allclose(
        model.intercepts_[1] + BITS_RATE * spare.sum(axis=0),
        first.intercept_hidden_,
        rtol=1e-9,
    )


def test_steps_are_centred_at_what_the_turned_units_stand_for(binary_digits):
    model = DBNTransformer((12, 66), n_iter=(5, 0), init="transposed").fit(
        binary_digits[:300].astype(float)
    )
    wanted = np.append(model.visible_mean_, [BITS_RATE, BITS_RATE])
    assert_same(model._stack[1]["_state"]["hidden_offset"], wanted)


@pytest.mark.parametrize("n_more", [0, 1, 2])
@pytest.mark.parametrize("persistent", [True, False])
def test_any_number_of_units_to_spare(persistent, n_more, binary_digits):
    """One among them, where NumPy puts the transposed weights in another order."""
    model = DBNTransformer(
        (10, 64 + n_more, 10 + n_more),
        init="transposed",
        persistent=persistent,
        n_iter=(1, 0, 1),
    ).fit(binary_digits[:50])
    first, second, _ = model.components_
    assert_same(second[:64], np.ascontiguousarray(first.T))


def test_learning_from_there_raises_the_bound(binary_digits):
    X = binary_digits[:500].astype(np.float32)
    model = DBNTransformer(
        (14, 64),
        n_iter=(10, 0),
        learning_rate=(0.1, 0.05),
        n_gibbs_steps=5,
        init="transposed",
        random_state=0,
    )
    before = model.fit(X).score(X)  # exact: 2^14 states
    learned = clone(model).set_params(n_iter=(10, 30)).fit(X)
    assert_same(learned.components_[0], model.components_[0])
    # (Other seeds gain 0.05 to 0.1 nats.)
    assert learned.score(X) > before + 0.02


def test_chains_begin_where_those_below_are():
    rng = generator(2)
    X = (rng.random((400, 6)) < 0.4).astype(float)
    below = BernoulliRBM(4, n_iter=3, n_chains=20_000, random_state=0).fit(X)
    below.components_ *= 5
    upper = UpperRBM(6, n_iter=0, n_chains=20_000, random_state=0)
    upper.below = below
    upper.fit(below.transform(X))
    chance = expit(below.h_samples_ @ below.components_ + below.intercept_visible_)
    # In rows whose state below is the same.
    for state in np.unique(below.h_samples_, axis=0):
        rows = (below.h_samples_ == state).all(axis=1)
        assert likely(upper.h_samples_[rows].sum(axis=0), rows.sum(), chance[rows][0])


def test_other_chains_below_are_no_start():
    X = (generator(3).random((40, 6)) < 0.4).astype(float)
    below = BernoulliRBM(4, n_iter=1, n_chains=3, random_state=0).fit(X)
    upper = UpperRBM(6, n_iter=1, n_chains=5, random_state=0)
    upper.below = below
    assert upper.fit(below.transform(X)).h_samples_.shape == (5, 6)


def test_state_of_the_network_holds_no_machine(binary_digits):
    model = DBNTransformer((10, 64), n_iter=1, init="transposed", random_state=0)
    model.fit(binary_digits[:50])
    assert all("below" not in state for state in model._stack)
    # And so it goes on, also from a model that began in another way.
    model.set_params(init="random").partial_fit(binary_digits[:50])
    assert fitted_state(model)["n_iter_"] == 4


def test_units_of_features_that_never_vary_may_be_idle(binary_digits):
    X = binary_digits[:200] * (np.arange(64) < 32)
    model = DBNTransformer((10, 64), n_iter=(1, 3), random_state=0, init="transposed")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X)
    assert (model.transform(X).max(axis=0) < 0.01).mean() > 0.05


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "settings, message",
    [
        ({"init": "tied"}, "'init' .* Got 'tied'"),
        (
            {"hidden_layer_sizes": (10, 63)},
            r"hidden_layer_sizes=\(10, 63\) layer 2 has 63, and that one has 64",
        ),
        (
            {"hidden_layer_sizes": (10, 64, 9)},
            "layer 3 has 9, and that one has 10",
        ),
        ({"visible": "gaussian"}, "takes visible='bernoulli', got visible='gaussian'"),
    ],
)
def test_what_cannot_be_turned_is_refused(settings, message, method, digits):
    model = DBNTransformer((10, 64), init="transposed").set_params(**settings)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(digits[:50])
    assert not fitted_state(model)
