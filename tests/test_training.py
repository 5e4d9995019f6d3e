"""How BernoulliRBM trains: going on with warm_start and partial_fit, and what each
parameter does."""

import copy
import itertools
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from common import (
    PARAMETERS,
    all_states,
    assert_same,
    assert_same_model,
    fit,
    floats,
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
    RBMClassifier,
)
from sklearn_ebm._training import epoch_order, gibbs_steps

# ---- Going on ----

VARIANTS = {
    "default": {},
    "tempering": {"n_temperatures": 3},
    "CD": {"persistent": False},
    "momentum": {"momentum": 0.7},
    "L1": {"l1_decay": 3e-4},
    "Nesterov": {"momentum": 0.7, "nesterov": True},
    "sparse": {"sparsity_target": 0.1},
    "norms": {"max_norm": 0.1, "momentum": 0.5},
    "fast": {"fast_learning_rate": 0.2},
    "everything": {
        "n_gibbs_steps": 2,
        "n_chains": 7,
        "momentum": 0.5,
        "nesterov": True,
        "weight_decay": 1e-3,
        "l1_decay": 1e-3,
        "sparsity_target": 0.2,
        "sparsity_cost": 0.3,
        "max_norm": 0.5,
        "fast_learning_rate": 0.1,
        "centering": False,
        "average": False,
    },
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


@every_variant
@floats
def test_warm_start_equals_going_on(variant, dtype, digits):
    X = digits[:105].astype(dtype)
    rbm = BernoulliRBM(6, random_state=0, **VARIANTS[variant])
    model = clone(rbm).set_params(n_iter=2, warm_start=True).fit(X)
    assert model.n_iter_ == 2
    model.set_params(n_iter=3).fit(X)
    assert model.n_iter_ == 5
    assert len(model.history_["weight_norm"]) == 5
    assert_same_model(model, clone(rbm).set_params(n_iter=5).fit(X))


def test_fit_without_warm_start_starts_afresh(digits):
    model = BernoulliRBM(6, n_iter=2, random_state=0).fit(digits[:100])
    model.partial_fit(digits[:50])
    first = clone(model).fit(digits[:100])
    assert_same_model(model.fit(digits[:100]), first)


def test_warm_start_takes_other_batches_and_data(digits):
    model = BernoulliRBM(6, n_iter=1, warm_start=True, random_state=0)
    model.fit(digits[:100])
    model.set_params(batch_size=20, n_chains=15).fit(digits[100:400])
    assert model.h_samples_.shape == (15, 6)
    model.set_params(persistent=False).fit(digits[:55])
    assert model.n_iter_ == 3
    assert np.isfinite(model.score(digits))


@every_variant
@pytest.mark.parametrize("n_rows", [1, 2, 9, 10, 11, 25, 1000])
def test_partial_fit_takes_any_number_of_rows(variant, n_rows, digits):
    rbm = BernoulliRBM(6, random_state=0, **VARIANTS[variant])
    model = rbm.partial_fit(digits[:n_rows])
    assert model is rbm
    before = [getattr(model, name).copy() for name in PARAMETERS]
    assert model.partial_fit(digits[:n_rows]) is rbm
    for name, array in zip(PARAMETERS, before):
        assert np.isfinite(getattr(model, name)).all()
        assert not np.array_equal(getattr(model, name), array), name


@every_variant
def test_sequence_of_partial_fits_is_reproducible(variant, digits):
    def train():
        model = BernoulliRBM(6, random_state=0, **VARIANTS[variant])
        for start in range(0, 100, 23):
            model.partial_fit(digits[start : start + 23])
        return model

    assert_same_model(train(), train())


def test_partial_fit_draws_fresh_bits(digits):
    # Steps too small to matter: what changes are the draws.
    model = BernoulliRBM(40, learning_rate=1e-12, random_state=0)
    chains = [model.partial_fit(digits[:10]).h_samples_.copy() for _ in range(4)]
    for a, b in itertools.combinations(chains, 2):
        assert 0.2 < np.mean(a != b) < 0.8


def test_partial_fit_goes_on_from_fit(digits):
    model = BernoulliRBM(6, n_iter=3, average=False, random_state=0).fit(digits)
    before = model.components_.copy()
    model.set_params(learning_rate=1e-9).partial_fit(digits[:10])
    np.testing.assert_allclose(model.components_, before, atol=1e-7)


def test_partial_fit_ignores_the_schedule(digits):
    rbm = BernoulliRBM(6, random_state=0)
    falling = clone(rbm).set_params(learning_rate_schedule="linear")
    assert_same_model(falling.partial_fit(digits[:95]), rbm.partial_fit(digits[:95]))


@pytest.mark.parametrize("model", [BernoulliRBM(3), RBMClassifier(3)], ids=name_of)
def test_mean_of_the_training_data(model, digits, labels):
    def shown(method, start, stop):
        getattr(model, method)(digits[start:stop], labels[start:stop])
        return model.visible_mean_

    model = clone(model).set_params(n_iter=1, random_state=0)
    means = np.cumsum(digits, axis=0) / np.arange(1, len(digits) + 1)[:, np.newaxis]
    np.testing.assert_allclose(shown("fit", 0, 100), means[99])
    np.testing.assert_allclose(shown("partial_fit", 100, 130), means[129])
    np.testing.assert_allclose(shown("partial_fit", 130, 200), means[199])
    model.set_params(warm_start=True)
    np.testing.assert_allclose(shown("fit", 300, 350), digits[300:350].mean(axis=0))


@pytest.mark.parametrize("centering", [True, False])
def test_no_epochs_give_the_initial_model(centering, digits):
    model = BernoulliRBM(256, n_iter=0, centering=centering, random_state=0)
    model.fit(digits)
    assert model.n_iter_ == 0
    assert all(len(entries) == 0 for entries in model.history_.values())
    weights, mean = model.components_, (digits.sum(axis=0) + 0.5) / 1798
    odds, deviation = np.log(mean / (1 - mean)), np.sqrt(mean * (1 - mean))
    rate, sizes = 0.5, 0.01
    if centering:
        rate, sizes = 0.2, 2 * deviation / np.sqrt(256 * 0.2 * 0.8)
    # 16 384 normal numbers: their spread is known to half a percent.
    assert 0.97 < (weights / sizes).std() < 1.03
    hidden, visible = model.intercept_hidden_, model.intercept_visible_
    if centering:  # fields are log-odds where the other side is at its mean
        hidden, visible = hidden + weights @ mean, visible + weights.sum(axis=0) * rate
    np.testing.assert_allclose(hidden, np.log(rate / (1 - rate)), atol=1e-12)
    np.testing.assert_allclose(visible, odds, atol=1e-12)
    assert model.transform(digits).shape == (len(digits), 256)
    assert model.h_samples_.shape == (10, 256)


# ---- What each parameter does ----
#
# Two fits from the same seed draw the same bits until their parameters differ,
# so what one minibatch changes can be compared exactly.


def trained(X, n_minibatches=1, **parameters):
    """Parameters after some minibatches, each of all of X."""
    defaults = {"n_components": 5, "average": False, "random_state": 0}
    rbm = BernoulliRBM(**{**defaults, "batch_size": len(X), **parameters})
    model = rbm.set_params(n_iter=n_minibatches).fit(X)
    return {name: getattr(model, name) for name in PARAMETERS}


def change(X, n_minibatches=1, **parameters):
    """Change of the parameters in the last of these minibatches."""
    before = trained(X, n_minibatches - 1, **parameters)
    after = trained(X, n_minibatches, **parameters)
    return {name: after[name] - before[name] for name in PARAMETERS}


def assert_close(found, wanted, **tolerance):
    for name in PARAMETERS:
        np.testing.assert_allclose(
            found[name], wanted[name], err_msg=name, **{"atol": 1e-12, **tolerance}
        )


@pytest.mark.parametrize("centering", [True, False])
def test_learning_rate_scales_the_step(centering, digits):
    X = digits[:30]
    one = change(X, learning_rate=0.1, centering=centering)
    two = change(X, learning_rate=0.2, centering=centering)
    assert_close(two, {name: 2 * one[name] for name in PARAMETERS})


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("n_rows, n_chains", [(1, 10), (7, 3), (200, 1), (150, 300)])
def test_each_phase_is_a_mean_over_its_own_rows(persistent, n_rows, n_chains, digits):
    X = digits[:n_rows]
    steps = change(
        X,
        learning_rate=0.1,
        centering=False,
        persistent=persistent,
        n_chains=n_chains,
    )
    # What the model's phase took from the visible bias: a mean over chains of bits.
    n_chains = n_chains if persistent else n_rows
    counts = n_chains * (X.mean(axis=0) - steps["intercept_visible_"] / 0.1)
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    assert counts.min() > -0.5
    assert counts.max() < n_chains + 0.5
    assert np.abs(steps["intercept_hidden_"]).max() <= 0.1
    assert np.abs(steps["components_"]).max() <= 0.1


@pytest.mark.parametrize("persistent", [True, False])
def test_centered_gradient(persistent, digits):
    X, rate = digits[:50], 0.1
    step = BernoulliRBM(
        5, learning_rate=rate, batch_size=50, average=False, persistent=persistent
    )
    step.set_params(n_iter=0, warm_start=True, random_state=0).fit(X)
    step.set_params(n_iter=1)
    # One goes on without centring from where the other starts.
    plain = clone(step).set_params(n_iter=0).fit(X).set_params(n_iter=1)
    plain.set_params(centering=False)
    start = [getattr(step, name).copy() for name in PARAMETERS]
    (W, c, b), (W_, c_, b_) = (
        [(getattr(model, name) - x) / rate for name, x in zip(PARAMETERS, start)]
        for model in (plain.fit(X), step.fit(X))
    )
    mean = X.mean(axis=0)
    # The offset of the hidden units is whatever explains the visible biases ...
    offset = np.linalg.lstsq(W_.T, b - b_, rcond=None)[0]
    np.testing.assert_allclose(b_, b - W_.T @ offset, atol=1e-9)
    assert (offset > 0).all() and (offset < 1).all()
    # ... and explains the weights too.
    wanted = W - np.outer(c, mean) - np.outer(offset, b)
    np.testing.assert_allclose(W_, wanted, atol=1e-9)
    np.testing.assert_allclose(c_, c - W_ @ mean, atol=1e-9)


def give_way(model, moved, X, centering):
    """The model with its weights moved in a first step, besides their gradient.

    A centred machine, whose offsets are the mean of the data and 1/5, stays
    centred.
    """
    weights, hidden, visible = (model[name] for name in PARAMETERS)
    if centering:
        hidden, visible = hidden - moved @ X.mean(axis=0), visible - 0.2 * moved.sum(0)
    return dict(zip(PARAMETERS, (weights + moved, hidden, visible)))


@pytest.mark.parametrize("centering", [True, False])
def test_weight_decay_shrinks_the_weights(centering, digits):
    X, rate, decay = digits[:50], 0.1, 0.3
    start = trained(X, 0, centering=centering)["components_"]
    free = change(X, learning_rate=rate, centering=centering)
    held = change(X, learning_rate=rate, centering=centering, weight_decay=decay)
    assert_close(held, give_way(free, -rate * decay * start, X, centering))


def test_weight_decay_shrinks_the_norm(digits):
    norms = [
        BernoulliRBM(16, weight_decay=decay, random_state=0)
        .fit(digits)
        .history_["weight_norm"][-1]
        for decay in (0.0, 0.01, 0.1)
    ]
    assert norms[0] > 1.2 * norms[1] > 1.2**2 * norms[2]


@pytest.mark.parametrize("centering", [True, False])
def test_l1_decay_draws_weights_to_zero(centering, digits):
    X, rate = digits[:50], 0.1
    free = trained(X, learning_rate=rate, centering=centering)
    weights = free["components_"]
    decay = np.median(np.abs(weights)) / rate
    held = trained(X, learning_rate=rate, centering=centering, l1_decay=decay)
    wanted = np.sign(weights) * np.maximum(np.abs(weights) - rate * decay, 0)
    assert_close(held, give_way(free, wanted - weights, X, centering))
    found = held["components_"]
    np.testing.assert_array_equal(found == 0, wanted == 0)
    assert 0.1 < (found == 0).mean() < 0.9


@pytest.mark.parametrize("average", [True, False])
def test_l1_decay_makes_zeros(average, digits):
    rbm = BernoulliRBM(16, average=average, random_state=0)
    zeros = [
        (clone(rbm).set_params(l1_decay=decay).fit(digits).components_ == 0).mean()
        for decay in (0.0, 1e-4, 1e-3)
    ]
    assert zeros[0] == 0
    assert 0 < 2 * zeros[1] < zeros[2]


@pytest.mark.parametrize("centering", [True, False])
def test_max_norm_scales_the_weights_of_long_units(centering, digits):
    X = digits[:50]
    free = trained(X, centering=centering)
    norms = np.linalg.norm(free["components_"], axis=1)
    most = np.median(norms)
    held = trained(X, centering=centering, max_norm=most)
    scale = np.where(norms > most, most / norms, 1)
    moved = free["components_"] * (scale[:, None] - 1)
    assert_close(held, give_way(free, moved, X, centering))
    # (One has the median itself, but for rounding.)
    assert (held["components_"] == free["components_"]).all(axis=1).sum() in (2, 3)


@floats
@pytest.mark.parametrize("average", [True, False])
def test_max_norm_holds(average, dtype, digits):
    X = digits.astype(dtype)
    rbm = BernoulliRBM(16, n_iter=1, average=average, warm_start=True, random_state=0)
    free = clone(rbm).set_params(n_iter=5).fit(X).components_
    assert np.median(np.linalg.norm(free, axis=1)) > 1.4
    rbm.set_params(max_norm=0.7)
    for _ in range(5):
        norms = np.linalg.norm(np.float64(rbm.fit(X).components_), axis=1)
        assert norms.max() < 0.7 * (1 + 70 * np.finfo(dtype).eps)
    assert np.median(norms) > 0.6


@pytest.mark.parametrize("centering", [True, False])
@pytest.mark.parametrize("momentum", [0.5, 0.9])
def test_momentum_repeats_the_last_step(centering, momentum, digits):
    X = digits[:50]
    parameters = {"centering": centering, "learning_rate": 0.1}
    first = change(X, 1, **parameters)
    assert_close(change(X, 1, momentum=momentum, **parameters), first)
    plain = change(X, 2, **parameters)
    found = change(X, 2, momentum=momentum, **parameters)
    wanted = {name: plain[name] + momentum * first[name] for name in PARAMETERS}
    assert_close(found, wanted)


@pytest.mark.parametrize("centering", [True, False])
@pytest.mark.parametrize("momentum", [0.5, 0.9])
def test_nesterov_momentum_is_a_step_ahead(centering, momentum, digits):
    X, rate = digits[:50], 0.1
    model = BernoulliRBM(
        5,
        learning_rate=rate,
        batch_size=50,
        n_iter=1,
        momentum=momentum,
        nesterov=True,
        centering=centering,
        average=False,
        warm_start=True,
        random_state=0,
    ).fit(X)
    first = change(X, 1, learning_rate=rate, centering=centering)
    start = {name: getattr(model, name).copy() for name in PARAMETERS}
    found = change(X, 1, **model.get_params() | {"warm_start": False})
    assert_close(found, {name: first[name] * (1 + momentum) for name in PARAMETERS})
    # The second minibatch has a gradient g of its own, which a step without
    # momentum shows; the velocity v is momentum * first + g, the step g + momentum * v.
    plain = copy.deepcopy(model).set_params(momentum=0.0).fit(X)
    model.fit(X)
    for name in PARAMETERS:
        g = getattr(plain, name) - start[name]
        wanted = g + momentum * (momentum * first[name] + g)
        found = getattr(model, name) - start[name]
        np.testing.assert_allclose(found, wanted, atol=1e-12, err_msg=name)


def test_nesterov_without_momentum_is_no_matter(digits):
    assert_close(
        trained(digits[:50], 3, nesterov=True), trained(digits[:50], 3), atol=0, rtol=0
    )


@pytest.mark.parametrize("centering", [True, False])
def test_sparsity_pulls_the_hidden_biases_only(centering, digits):
    X, rate, target, cost = digits[:50], 0.1, 0.2, 0.7
    model = BernoulliRBM(5, n_iter=0, centering=centering, random_state=0)
    means = model.fit(X).transform(X).mean(axis=0)
    free = trained(X, learning_rate=rate, centering=centering)
    held = trained(
        X,
        learning_rate=rate,
        centering=centering,
        sparsity_target=target,
        sparsity_cost=cost,
    )
    pull = {"intercept_hidden_": rate * cost * (target - means)}
    assert_close(held, {name: free[name] + pull.get(name, 0) for name in PARAMETERS})


@pytest.mark.thinned(3)
@pytest.mark.parametrize("centering", [True, False])
@pytest.mark.parametrize("target", [0.1, 0.3, 0.8])
def test_sparsity_brings_the_units_near_the_target(target, centering, digits):
    rbm = BernoulliRBM(16, centering=centering, random_state=0)
    far = [
        np.abs(rbm.fit(digits).transform(digits).mean(axis=0) - target).mean()
        for rbm in (
            rbm,
            clone(rbm).set_params(sparsity_target=target),
            clone(rbm).set_params(sparsity_target=target, sparsity_cost=3),
        )
    ]
    assert far[2] < min(0.05, 0.8 * far[1])
    assert far[1] < 0.9 * far[0]


def test_linear_schedule_falls_to_zero(digits):
    X = digits[:50]
    constant = change(X, 2, learning_rate=0.2)
    first = trained(X, 1, learning_rate=0.2)
    falling = trained(X, 2, learning_rate=0.2, learning_rate_schedule="linear")
    found = {name: falling[name] - first[name] for name in PARAMETERS}
    assert_close(found, {name: constant[name] / 2 for name in PARAMETERS})


def test_number_of_steps_of_an_epoch():
    def growth(*parameters, n_epochs):
        return [gibbs_steps(*parameters, epoch, n_epochs) for epoch in range(n_epochs)]

    assert growth(3, n_epochs=4) == [3, 3, 3, 3]
    assert growth((1, 5), n_epochs=5) == [1, 2, 3, 4, 5]
    assert growth((1, 5), n_epochs=3) == [1, 3, 5]
    assert growth((1, 2), n_epochs=6) == [1, 1, 1, 2, 2, 2]
    assert growth((4, 1), n_epochs=4) == [4, 3, 2, 1]
    assert growth((2, 9), n_epochs=1) == [2]


@pytest.mark.parametrize("persistent", [True, False])
def test_growing_number_of_steps(persistent, digits):
    X = digits[:95]
    rbm = BernoulliRBM(5, persistent=persistent, average=False, random_state=0)
    model = clone(rbm).set_params(n_gibbs_steps=(1, 5), n_iter=3).fit(X)
    steps = clone(rbm).set_params(warm_start=True, n_iter=1)
    for n in (1, 3, 5):
        steps.set_params(n_gibbs_steps=n).fit(X)
    assert_same_model(model, steps)
    # Every sweep has had a step of the random counter of its own.
    assert model._state["step"] == 10 * (1 + 3 + 5)


def test_partial_fit_does_the_last_number_of_steps(digits):
    rbm = BernoulliRBM(5, n_gibbs_steps=(1, 3), random_state=0)
    wanted = clone(rbm).set_params(n_gibbs_steps=3).partial_fit(digits[:50])
    assert_same_model(rbm.partial_fit(digits[:50]), wanted)


def test_history(digits):
    rbm = BernoulliRBM(6, learning_rate=0.2, n_iter=4, average=False, random_state=0)
    model = clone(rbm).fit(digits[:100])
    assert model.history_["learning_rate"] == [0.2] * 4
    assert len(model.history_["seconds"]) == 4
    norm = np.sqrt(np.square(model.components_).sum())
    assert model.history_["weight_norm"][-1] == pytest.approx(norm, rel=1e-12)
    assert "pseudo_likelihood" not in model.history_
    rbm.set_params(learning_rate_schedule="linear", verbose=1).fit(digits[:100])
    rates = rbm.history_["learning_rate"]
    np.testing.assert_allclose(rates, [0.2, 0.15, 0.1, 0.05])
    score = rbm.history_["pseudo_likelihood"][-1]  # of all rows, when they are few
    assert score == pytest.approx(rbm.score(digits[:100]), rel=1e-9)


def test_every_epoch_has_an_order_of_its_own():
    orders = {tuple(epoch_order(50, 7, epoch)) for epoch in range(5)}
    assert len(orders) == 5
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert tuple(epoch_order(50, 7, 0)) == tuple(epoch_order(50, 7, 0))
    assert tuple(epoch_order(50, 8, 0)) not in orders


def test_average_is_the_mean_over_the_minibatches():
    # Of rows all alike, so that the order in which they are shown is no matter.
    X = np.full((40, 7), 0.5)
    rbm = BernoulliRBM(5, random_state=0)
    raw = clone(rbm).set_params(average=False)
    path = []
    for start in range(0, 40, 10):
        raw.partial_fit(X[start : start + 10])
        path.append([getattr(raw, name).copy() for name in PARAMETERS])
    model = clone(rbm).set_params(n_iter=1).fit(X)
    for name, steps in zip(PARAMETERS, zip(*path)):
        found = getattr(model, name)
        np.testing.assert_allclose(found, np.mean(steps, axis=0), atol=1e-12)
        assert np.abs(found - steps[-1]).max() > 1e-6


@pytest.mark.thinned(3)
@pytest.mark.parametrize("n_batches, spacing", [(199, 1), (200, 2), (301, 3)])
def test_averages_of_long_epochs_are_of_evenly_spaced_minibatches(n_batches, spacing):
    X = np.full((10 * n_batches, 3), 0.5)
    rbm = BernoulliRBM(2, random_state=0)
    raw = clone(rbm).set_params(average=False)
    path = [raw.partial_fit(X[:10]).components_.copy() for _ in range(n_batches)]
    found = clone(rbm).set_params(n_iter=1).fit(X).components_
    entered = np.mean(path[spacing - 1 :: spacing], axis=0)
    np.testing.assert_allclose(found, entered, atol=1e-11)
    assert np.abs(entered - np.mean(path[::2], axis=0)).max() > 1e-6


def test_average_of_one_minibatch_is_the_minibatch(digits):
    assert_close(trained(digits[:50], 3, average=True), trained(digits[:50], 3))


def test_average_is_over_the_last_epoch(digits):
    rbm = BernoulliRBM(5, n_iter=3, random_state=0).fit(digits[:100])
    raw = BernoulliRBM(5, n_iter=2, average=False, warm_start=True, random_state=0)
    raw.fit(digits[:100]).set_params(n_iter=1, average=True).fit(digits[:100])
    assert_same_model(raw, rbm)


def test_training_goes_on_from_what_is_not_averaged(digits):
    model = BernoulliRBM(5, n_iter=2, warm_start=True, random_state=0)
    model.fit(digits[:100]).set_params(average=False, n_iter=1).fit(digits[:100])
    raw = BernoulliRBM(5, n_iter=3, average=False, random_state=0).fit(digits[:100])
    assert_same_model(model, raw)


def test_fast_parameters_act_from_the_second_minibatch_on(digits):
    X, fast = digits[:50], {"fast_learning_rate": 0.5}
    none = {"fast_learning_rate": 1e-300}  # (but chains do not jump)
    assert_close(trained(X, 1, **fast), trained(X, 1, **none), atol=0, rtol=0)
    found, plain = trained(X, 2, **fast), trained(X, 2, **none)
    assert all((found[name] != plain[name]).any() for name in PARAMETERS)


def test_fast_parameters_are_for_persistent_chains(digits):
    X, rbm = digits[:100], BernoulliRBM(5, persistent=False, random_state=0)
    fast = clone(rbm).set_params(fast_learning_rate=0.5).fit(X)
    assert_same_model(fast, rbm.fit(X))


@pytest.mark.slow
def test_fast_parameters_drive_a_chain_out_of_a_mode():
    X = np.repeat([[0.0], [1.0]], 5, axis=0) * np.ones(8)
    share, flips = [], []
    for rate in (1e-12, 1.0):
        # Steps of the model too small to matter: only the chain moves.
        model = two_modes(n_iter=100).set_params(
            n_chains=1, learning_rate=1e-12, fast_learning_rate=rate
        )
        before = model.components_
        path = [model.partial_fit(X).h_samples_ for _ in range(400)]
        np.testing.assert_allclose(model.components_, before, atol=1e-8)
        share.append(np.mean(path))
        flips.append(np.count_nonzero(np.diff(path, axis=0)))
    assert share[0] in (0, 1)
    assert 0.3 < share[1] < 0.7
    assert flips[1] > 4


@pytest.mark.parametrize("n_chains, n_wanted", [(None, 10), (1, 1), (37, 37)])
def test_number_of_chains(n_chains, n_wanted, digits):
    model = BernoulliRBM(5, n_chains=n_chains, random_state=0).fit(digits[:25])
    assert model.h_samples_.shape == (n_wanted, 5)
    assert set(np.unique(model.h_samples_)) <= {0, 1}


def test_without_persistence_there_are_no_chains(digits):
    model = BernoulliRBM(5, persistent=False, random_state=0).fit(digits[:25])
    assert not hasattr(model, "h_samples_")


def two_modes(n_iter):
    """A model of rows all ones and rows all zeros, with many of its chains."""
    X = np.repeat([[0.0], [1.0]], 100, axis=0) * np.ones(8)
    rbm = BernoulliRBM(
        1, n_iter=n_iter, n_chains=400, average=False, warm_start=True, random_state=0
    )
    return rbm.fit(X)


def model_phase(model, X, **parameters):
    """Mean of the visible units in the model's phase of one small step from X."""
    before, rate = model.intercept_visible_.copy(), 1e-6
    model.set_params(
        n_iter=1, learning_rate=rate, batch_size=len(X), centering=False, **parameters
    )
    step = (model.fit(X).intercept_visible_ - before) / rate
    return (X.mean(axis=0) - step).mean()


def mean_after_steps(model, n_steps):
    """Exact mean of the visible units n_steps Gibbs steps after a row of ones."""
    V, H = all_states(8), all_states(1)
    up, down = model.transform(V)[:, 0], model.inverse_transform(H)
    visible = np.where(V == 1, down[:, None], 1 - down[:, None]).prod(axis=2)
    on = up[-1]
    for _ in range(n_steps - 1):
        on = np.array([1 - on, on]) @ visible @ up
    return (np.array([1 - on, on]) @ down).mean()


def test_persistent_chains_stay_where_they_were():
    model = two_modes(n_iter=100)
    before = model.h_samples_.copy()
    assert 0.1 < before.mean() < 0.9
    # (Without fast parameters they jump, also between the modes of the model.)
    model.set_params(learning_rate=1e-12, fast_learning_rate=1e-12)
    model.partial_fit(np.ones((10, 8)))
    assert np.mean(model.h_samples_ == before) > 0.9


@pytest.mark.slow
def test_chains_of_contrastive_divergence_start_at_the_data():
    ones = np.ones((400, 8))
    assert model_phase(two_modes(100), ones, persistent=False) > 0.9
    assert 0.1 < model_phase(two_modes(100), ones) < 0.9


def test_contrastive_divergence_takes_as_many_steps_as_it_is_told():
    ones = np.ones((4000, 8))
    wanted = [mean_after_steps(two_modes(10), n) for n in (1, 2, 10)]
    found = [
        model_phase(two_modes(10), ones, persistent=False, n_gibbs_steps=n)
        for n in (1, 2, 10)
    ]
    # Six standard deviations of a mean over 4000 rows.
    np.testing.assert_allclose(found, wanted, atol=6 * 0.5 / np.sqrt(4000))
    assert wanted[0] > wanted[2] + 0.1


@floats
@pytest.mark.parametrize("variant", ["default", "CD", "momentum"])
def test_training_raises_the_pseudo_likelihood(variant, dtype, digits):
    X = digits.astype(dtype)
    rbm = BernoulliRBM(32, random_state=0, **VARIANTS[variant])
    start = clone(rbm).set_params(n_iter=0).fit(X)
    assert rbm.fit(X).score(X) > start.score(X) + 2


@pytest.mark.parametrize(
    "model",
    [
        BernoulliRBM(4, learning_rate=1e38),
        # (Whose weights are cut to 0, but not its biases.)
        BernoulliRBM(4, learning_rate=1e40, l1_decay=1e-3),
        DBMTransformer((8, 8), visible="gaussian", pretrain_learning_rate=1e38),
        DBNRegressor(30, solver="sgd", learning_rate=100.0, pretrain_n_iter=1),
    ],
    ids=name_of,
)
def test_training_that_diverges_says_so(model, digits):
    X = digits[:300].astype(np.float32)
    with pytest.raises(ValueError, match="diverged.*learning rate.*learning_rate"):
        fit(model.set_params(random_state=0), X)


@pytest.mark.parametrize("rate", [1e39, 1e100, 1e300])
@pytest.mark.parametrize(
    "model",
    [
        RBM(4, visible="gaussian"),
        GaussianRBM(4, early_stopping=True),
        DBMTransformer((4, 3), visible="gaussian"),
        DBNTransformer((4, 3), up_down_n_iter=2),
        DBNClassifier(4),
        DBNRegressor(4, early_stopping=True),
        DBMClassifier((4, 3), pretrain_n_iter=1),
        DBMClassifier((4, 3), objective="multi_prediction"),
    ],
    ids=str,
)
def test_training_that_diverges_says_nothing_else(model, rate, digits):
    own = "up_down_learning_rate"
    name = own if own in model.get_params() else "learning_rate"
    model = clone(model).set_params(n_iter=2, random_state=0, **{name: rate})
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match="diverged"):
            fit(model, digits[:60].astype(np.float32))


@pytest.mark.parametrize(
    "model",
    [
        DBNClassifier(4),
        DBNRegressor(4, solver="sgd"),
        DBMClassifier((4, 3), objective="multi_prediction"),
    ],
    ids=name_of,
)
def test_net_whose_last_step_diverges_is_noticed(model, digits):
    # Its loss, which is from before that step, is a number.
    model = clone(model).set_params(n_iter=1, batch_size=60, learning_rate=1e39)
    with pytest.raises(ValueError, match="diverged"):
        fit(model, digits[:60].astype(np.float32))


def test_training_that_diverges_leaves_the_model_as_it_was(digits):
    X = digits[:300].astype(np.float32)
    model = BernoulliRBM(4, n_iter=2, random_state=0).fit(X)
    before = {name: value for name, value in vars(model).items() if name[-1] == "_"}
    with pytest.raises(ValueError, match="diverged"):
        model.set_params(learning_rate=1e38).partial_fit(X)
    for name, value in before.items():
        assert_same(getattr(model, name), value)
    once = clone(model).set_params(learning_rate=0.1).fit(X).partial_fit(X)
    assert_same_model(model.set_params(learning_rate=0.1).partial_fit(X), once)
    with pytest.raises(ValueError, match="diverged"):
        clone(model).set_params(learning_rate=1e38).fit(X)


def test_warm_start_without_an_epoch_changes_nothing(digits):
    X = digits[:300]
    model = BernoulliRBM(4, n_iter=9, early_stopping=True, random_state=0).fit(X)
    before = clone(model).fit(X)
    model.set_params(warm_start=True, n_iter=0).fit(X)
    assert_same_model(model, before)
    assert model.best_n_iter_ == before.best_n_iter_
