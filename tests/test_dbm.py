"""Deep Boltzmann machines small enough to be enumerated, and their use.

Their training is in test_dbm_training.py, their inference in test_mean_field.py.
"""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from common import assert_same, assert_same_model, fitted_state, floats, outputs
from reference import Path, all_states, chi_square_p_value, generator, state_numbers
from reference_deep import bound, enumerate_layers, sides
from sklearn_ebm import RBM, BernoulliRBM, DBMTransformer
from sklearn_ebm._machines import Machine
from sklearn_ebm.layered import Layered, blocks, interleaved
from sklearn_ebm.likelihood import log_likelihood, log_partition
from sklearn_ebm.samplers import Gibbs, ReplicaExchange
from sklearn_ebm.units import Categorical, Gaussian, Mixed, Spin

RARE = 1e-6
N_CHAINS = 24_576
NAN = np.nan
# Sizes of all layers, the visible one first.
SHAPES = [(4, 3, 2), (5, 4), (3, 3, 2, 2), (3, 2, 2, 2, 2)]
DEEP = [shape for shape in SHAPES if len(shape) > 2]
every_shape = pytest.mark.parametrize("sizes", SHAPES, ids=str)
every_deep_shape = pytest.mark.parametrize("sizes", DEEP, ids=str)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Work this small is done sooner on one; results do not depend on it."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def random_dbm(sizes, *, scale=1.5, dtype=np.float64, visible="bernoulli", **options):
    """A fitted model with random weights, none of whose units stays in one state."""
    rng = np.random.default_rng([710, *sizes])  # the same for all seeds of the tests
    options = {"n_mean_field_steps": 2000, "mean_field_tol": 0.0} | options
    model = DBMTransformer(
        sizes[1:], visible=visible, n_iter=0, random_state=0, **options
    ).fit(rng.random((9, sizes[0])).astype(dtype))
    weights = [scale * rng.normal(size=w.shape) for w in model.components_]
    biases = [0.3 * rng.normal(size=n) for n in sizes]
    for k, weight in enumerate(weights):
        biases[k] -= weight.sum(axis=0) / 2 * (visible == "bernoulli" or k > 0)
        biases[k + 1] -= weight.sum(axis=1) / 2
    model.components_ = [weight.astype(dtype) for weight in weights]
    model.intercepts_ = [bias.astype(dtype) for bias in biases]
    if visible == "gaussian":
        model.variance_ = rng.uniform(0.5, 1.5, sizes[0]).astype(dtype)
    return model


def exactly(model):
    return enumerate_layers(as_float(model._layered()))


def as_float(layers):
    return Layered(
        layers.units,
        tuple(np.float64(w) for w in layers.weights),
        tuple(np.float64(b) for b in layers.biases),
    )


# ---- The machine, and folded ----


@every_shape
def test_energies(sizes):
    model = random_dbm(sizes)
    layers, exact = model._layered(), exactly(model)
    assert layers.units == ("bernoulli",) * len(sizes)
    # From the attributes, as the class says.
    wanted = -sum(
        s @ bias for s, bias in zip(exact.states, model.intercepts_, strict=True)
    )
    for below, above, weight in zip(
        exact.states[:-1], exact.states[1:], model.components_, strict=True
    ):
        wanted -= np.einsum("ri,ji,rj->r", below, weight, above)
    np.testing.assert_allclose(layers.energy(*exact.states), wanted, 1e-12, 1e-12)
    turned = layers.reversed()
    found = turned.energy(*exact.states[::-1])
    np.testing.assert_allclose(found, wanted, 1e-12, 1e-12)
    folded = layers.folded()
    found = folded.energy(exact.even, exact.odd)
    np.testing.assert_allclose(found, wanted, 1e-12, 1e-12)
    assert len(folded.units) == 2
    # Weights between layers that are no neighbours are not there.
    n_weights = sum(weight.size for weight in layers.weights)
    assert np.count_nonzero(folded.weights[0]) == n_weights
    assert folded.folded() is folded


def test_layers_of_other_units_fold():
    rng = generator(711)
    sizes = 2, 3, 2, 1, 2
    units = (
        Gaussian([1.0, -1.0], [0.5, 2.0]),
        Spin(),
        "bernoulli",
        Spin(),
        "bernoulli",
    )
    layers = Layered(
        units,
        tuple(rng.normal(size=shape) for shape in zip(sizes[:-1], sizes[1:])),
        tuple(rng.normal(size=n) for n in sizes),
    )
    states = [rng.integers(0, 2, (6, n)).astype(float) for n in sizes]
    folded = layers.folded()
    assert isinstance(folded.units[0], Mixed)
    np.testing.assert_allclose(
        folded.energy(*sides(states)), layers.energy(*states), 1e-12
    )
    with pytest.raises(ValueError, match="two layers or more, got 1"):
        Layered(("bernoulli",), (), (np.zeros(2),)).folded()


def test_blocks_are_views_between_neighbours():
    weight = np.zeros((2 + 4, 3 + 5))
    for k, block in enumerate(blocks(weight, [2, 3, 4, 5])):
        assert block.shape == [(2, 3), (3, 4), (4, 5)][k]
        block[...] = k + 1
    wanted = np.block([[np.ones((2, 3)), np.zeros((2, 5))],
                       [np.full((4, 3), 2), np.full((4, 5), 3)]])  # fmt: skip
    np.testing.assert_array_equal(weight, wanted)
    assert interleaved(["v", "h2"], ["h1"]) == ["v", "h1", "h2"]
    assert interleaved(["v", "h2"], ["h1", "h3"]) == ["v", "h1", "h2", "h3"]


@every_shape
@floats
def test_conditionals(sizes, dtype):
    model = random_dbm(sizes, dtype=dtype)
    exact, machine = exactly(model), Machine(model._layered().folded())
    rtol = 1e-10 if dtype == np.float64 else 1e-5
    for given, other, p, way in [
        (exact.even, exact.odd, exact.p_even, machine.up),
        (exact.odd, exact.even, exact.p_odd, machine.down),
    ]:
        numbers = state_numbers(given)
        means = [np.bincount(numbers, exact.p * unit) / p for unit in other.T]
        rows = all_states(given.shape[1]).astype(dtype)
        np.testing.assert_allclose(way.means(rows), np.transpose(means), rtol, rtol)


# ---- Partition functions ----


@every_shape
def test_log_z_exactly(sizes):
    model = random_dbm(sizes)
    wanted = exactly(model).log_z
    for value in (model, model._layered(), model._layered().folded()):
        found = log_partition(value)
        assert found.method == "exact"
        assert abs(found.value - wanted) < 1e-10 * abs(wanted)


def test_log_z_of_two_hidden_layers_sums_the_first_only():
    model = random_dbm((4, 3, 2))
    b, c, d = model.intercepts_
    h = all_states(3).astype(float)
    terms = h @ c
    for bias, weight in [(b, model.components_[0]), (d, model.components_[1].T)]:
        terms = terms + np.log1p(np.exp(bias + h @ weight)).sum(axis=1)
    assert abs(log_partition(model).value - logsumexp(terms)) < 1e-10


@pytest.mark.parametrize("sizes", DEEP[:2], ids=str)
@pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
def test_annealing_is_unbiased_with_honest_errors(sizes, visible):
    model = random_dbm(sizes, scale=0.8, visible=visible)
    exact = float(log_partition(model))
    rng = generator(712, *sizes)
    found = [
        log_partition(
            model, "ais", betas=150, n_runs=40, reverse=False,
            random_state=int(rng.integers(2**31)),
        )
        for _ in range(30)
    ]  # fmt: skip
    ratios = np.exp([f.value - exact for f in found])
    assert abs(ratios.mean() - 1) < 6 * ratios.std(ddof=1) / np.sqrt(30)
    errors = np.array([abs(f.value - exact) / f.standard_error for f in found])
    assert (errors > 4).sum() <= 2


@every_deep_shape
def test_annealing_forwards_and_back(sizes):
    model = random_dbm(sizes, scale=1.0)
    exact = exactly(model).log_z
    seed = int(generator(713).integers(2**31))
    found = log_partition(model, "ais", betas=1000, random_state=seed)
    assert 0 < found.standard_error < 0.1
    assert abs(found.forward - exact) < 5 * found.standard_error
    assert abs(found.reverse - exact) < 5 * found.reverse_standard_error
    found = log_partition(model, "tempering", betas=1000, random_state=seed)
    assert abs(found.value - exact) < 5 * found.standard_error


def grid(model):
    """Points of the visible plane, and the area of each."""
    around = 12 * np.sqrt(model.variance_.max()) + np.abs(model.components_[0]).sum()
    line = np.linspace(-around, around, 301)
    v = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    return v, (line[1] - line[0]) ** 2


def gaussian_minus_energy(model, v, *hidden):
    """Of Gaussian visible units, from the attributes."""
    mean, variance = model.intercepts_[0], model.variance_
    total = -(np.square(v - mean) / (2 * variance)).sum(axis=1)[:, np.newaxis]
    total = total + (v / variance) @ model.components_[0].T @ hidden[0].T
    below = hidden[0]
    total = total + hidden[0] @ model.intercepts_[1]
    for k, above in enumerate(hidden[1:], 1):
        total = total + ((below @ model.components_[k].T) * above).sum(axis=1)
        total = total + above @ model.intercepts_[k + 1]
        below = above
    return total


@pytest.mark.parametrize("sizes", [(2, 3, 2), (2, 2, 2, 2)], ids=str)
def test_gaussian_visible_units_by_quadrature(sizes):
    model = random_dbm(sizes, visible="gaussian")
    h = all_states(sum(sizes[1:])).astype(float)
    hidden = np.split(h, np.cumsum(sizes[1:])[:-1], axis=1)
    v, area = grid(model)
    log_p = logsumexp(gaussian_minus_energy(model, v, *hidden), axis=1)
    log_z = logsumexp(log_p) + np.log(area)
    assert abs(float(log_partition(model)) - log_z) < 1e-9
    # The energy as a value, the bound, and p(v) that integrates to 1.
    rows = v[::1001]
    joint = gaussian_minus_energy(model, rows, *hidden)
    layers = model._layered()
    for r, one in enumerate(rows):
        found = layers.energy(np.tile(one, (len(h), 1)), *hidden)
        np.testing.assert_allclose(found, -joint[r], 1e-10, 1e-10)
    assert (model.score_samples(rows) <= log_p[::1001] - log_z + 1e-9).all()
    means = model._deep(np.float64).means(rows)
    wanted = sum(
        -(q * np.log(q, where=q > 0, out=np.zeros_like(q))).sum(axis=1)
        for mean in means
        for q in (mean, 1 - mean)
    )
    wanted = wanted + np.array(
        [
            gaussian_minus_energy(model, rows[[r]], *(m[[r]] for m in means))[0, 0]
            for r in range(len(rows))
        ]
    )
    np.testing.assert_allclose(model.score_samples(rows), wanted - log_z, 1e-9)


# ---- Bounds ----


@every_shape
@floats
def test_bound_is_below_the_likelihood(sizes, dtype):
    model = random_dbm(sizes, dtype=dtype)
    exact = exactly(model)
    v = all_states(sizes[0]).astype(dtype)
    found = model.score_samples(v)
    assert found.dtype == np.float64
    slack = 1e-10 if dtype == np.float64 else 1e-4
    gap = exact.log_p_v - found
    assert (gap > -slack).all()
    if len(sizes) == 2:
        np.testing.assert_allclose(found, exact.log_p_v, slack, slack)
    else:
        assert gap.max() > 1e-3  # it is a bound
    assert model.score(v) == found.mean()
    # Less steps, a looser bound: but a bound all the same.
    model.set_params(n_mean_field_steps=1)
    loose = model.score_samples(v)
    assert (loose <= found + slack).all()


@every_deep_shape
def test_bound_is_that_of_the_best_odd_units(sizes):
    model = random_dbm(sizes, n_mean_field_steps=3)
    layers, machine = model._layered(), model._deep(np.float64)
    v = all_states(sizes[0]).astype(float)
    means = machine.means(v)
    found = model.score_samples(v) + float(log_partition(model))
    np.testing.assert_allclose(found, bound(layers, v, means), 1e-12)
    rng = generator(714)
    for size in (1e-3, 0.1, 0.5):
        for _ in range(10):
            other = [m.copy() for m in means]
            for mean in other[::2]:  # of odd layers
                mean += size * (rng.random(mean.shape) - mean)
            assert (bound(layers, v, other) <= found).all()


@every_deep_shape
def test_the_longer_mean_field_the_better(sizes):
    model = random_dbm(sizes)
    v = all_states(sizes[0]).astype(float)
    found = [
        model.set_params(n_mean_field_steps=n).score_samples(v)
        for n in (1, 2, 3, 5, 10, 30, 100)
    ]
    assert (np.diff(found, axis=0) > -1e-12).all()
    # Where it ends, no hidden unit alone can make it better.
    means = model.set_params(n_mean_field_steps=5000)._deep(float).means(v)
    layers = model._layered()
    best = bound(layers, v, means)
    for layer, size in enumerate(sizes[1:]):
        for unit in range(size):
            for step in (-1e-3, 1e-3):
                other = [m.copy() for m in means]
                other[layer][:, unit] = np.clip(other[layer][:, unit] + step, 0, 1)
                assert (bound(layers, v, other) <= best + 1e-12).all()


def test_one_hidden_layer_is_a_restricted_boltzmann_machine():
    model = random_dbm((5, 4))
    rbm = BernoulliRBM(4, n_iter=0).fit(np.zeros((2, 5)))
    rbm.components_ = model.components_[0]
    rbm.intercept_visible_, rbm.intercept_hidden_ = model.intercepts_
    v = all_states(5).astype(float)
    np.testing.assert_allclose(model.transform(v), rbm.transform(v), 1e-12)
    np.testing.assert_allclose(model.score_samples(v), log_likelihood(rbm, v), 1e-12)
    np.testing.assert_allclose(model.reconstruct(v), rbm.reconstruct(v), 1e-12)
    assert_same(
        Gibbs(model).step(Gibbs(model).init(init=v, random_state=0), 3).visible,
        Gibbs(rbm).step(Gibbs(rbm).init(init=v, random_state=0), 3).visible,
    )
    real = random_dbm((3, 4), visible="gaussian")
    twin = RBM(4, visible="gaussian", n_iter=0).fit(np.eye(3))
    twin.components_, twin.variance_ = real.components_[0], real.variance_
    twin.intercept_visible_, twin.intercept_hidden_ = real.intercepts_
    X = generator(715).normal(size=(20, 3))
    np.testing.assert_allclose(real.score_samples(X), log_likelihood(twin, X), 1e-12)
    np.testing.assert_allclose(real.transform(X), twin.transform(X), 1e-12)


# ---- Chains ----


def assert_law(states, law):
    counts = np.bincount(state_numbers(states), minlength=len(law))
    assert counts[law == 0].sum() == 0
    assert chi_square_p_value(counts[law > 0], law[law > 0]) > RARE


def conditional(p, states, observed):
    """Law of states, given values (NaN: free) of some units."""
    known = ~np.isnan(observed)
    law = np.where((states[:, known] == observed[known]).all(axis=1), p, 0)
    return law / law.sum()


@every_deep_shape
@floats
def test_gibbs_does_not_drift(sizes, dtype):
    model = random_dbm(sizes, dtype=dtype)
    exact, sampler = exactly(model), Gibbs(model)
    rng = generator(720, *sizes)
    start = all_states(exact.even.shape[1])[
        rng.choice(len(exact.p_even), N_CHAINS, p=exact.p_even)
    ]
    chains = sampler.init(init=start, random_state=int(rng.integers(2**31)))
    for n_steps in [1, 3, 12]:
        chains = sampler.step(chains, n_steps)
        assert_law(chains.visible, exact.p_even)


@every_deep_shape
def test_one_sweep_is_that_of_the_machine(sizes):
    """The law of the next state of chains from one state, by all states."""
    model = random_dbm(sizes)
    exact, sampler = exactly(model), Gibbs(model)
    n_even, n_odd = exact.even.shape[1], exact.odd.shape[1]
    joint = np.zeros((2**n_even, 2**n_odd))
    joint[state_numbers(exact.even), state_numbers(exact.odd)] = exact.p
    up = joint / joint.sum(axis=1, keepdims=True)
    down = joint / joint.sum(axis=0)
    seed = int(generator(721).integers(2**31))
    for number in (0, 2**n_even // 3, 2**n_even - 1):
        start = np.tile(all_states(n_even)[number], (N_CHAINS, 1))
        chains = sampler.step(sampler.init(init=start, random_state=seed))
        assert_law(chains.visible, down @ up[number])


@every_deep_shape
def test_replica_exchange_does_not_drift(sizes):
    model = random_dbm(sizes)
    exact, layers = exactly(model), model._layered().folded()
    sampler, rng = ReplicaExchange(model), generator(722, *sizes)
    betas = np.array([0, 0.4, 0.8, 1.0])
    # Chains at every temperature, from its own law.
    base = np.clip(model._base_rates(), 1e-3, 1 - 1e-3)
    base = np.log(base / (1 - base))
    machine = layers.weights[0].T, layers.biases[1], layers.biases[0]
    path = Path(machine, (base, np.zeros(len(layers.biases[1]))))
    states = all_states(len(base)).astype(float)
    n, visible = 6000, []
    for beta in betas:
        log_p = path.log_p(states, np.full(len(states), beta))
        p = np.exp(log_p - logsumexp(log_p))
        visible.append(states[rng.choice(len(states), n, p=p)] != 0)
    np.testing.assert_allclose(p, exact.p_even, 1e-10)
    start = sampler.init(n, betas=betas, random_state=int(rng.integers(2**31)))
    replicas = replace(start, visible=np.stack(visible, axis=1))
    for n_steps in [1, 3, 12]:
        replicas = sampler.step(replicas, n_steps)
        assert_law(sampler.samples(replicas), exact.p_even)
    assert (replicas.swap_rates > 0).all()


OBSERVED = {
    (4, 3, 2): [1, NAN, NAN, 0],
    (3, 3, 2, 2): [NAN, 0, NAN],
    (3, 2, 2, 2, 2): [1, NAN, NAN],
}


@every_deep_shape
@floats
def test_conditions_do_not_drift(sizes, dtype):
    model = random_dbm(sizes, dtype=dtype)
    exact, sampler = exactly(model), Gibbs(model)
    rng, states = generator(723, *sizes), all_states(exact.even.shape[1])
    given = np.full(exact.even.shape[1], NAN)
    given[: sizes[0]] = OBSERVED[sizes]
    law = conditional(exact.p_even, states, given)
    start = states[rng.choice(len(law), N_CHAINS, p=law)]
    chains = sampler.init(
        init=start, conditions=given, random_state=int(rng.integers(2**31))
    )
    for n_steps in [1, 3, 12]:
        chains = sampler.step(chains, n_steps)
        assert_law(chains.visible, law)


@every_deep_shape
@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_samples_have_the_law_of_the_model(sizes, method):
    model = random_dbm(sizes)
    exact, rng = exactly(model), generator(724, *sizes)
    p_v, v = np.exp(exact.log_p_v), all_states(sizes[0])
    given = np.array(OBSERVED[sizes])
    law = conditional(p_v, v, given)
    # What is given matters.
    assert np.abs(law @ v - p_v @ v)[np.isnan(given)].max() > 0.02
    for conditions, wanted in [(None, p_v), (given, law)]:
        drawn = model.sample(
            4000, 100, method=method, conditions=conditions,
            random_state=int(rng.integers(2**31)),
        )  # fmt: skip
        assert drawn.shape == (4000, sizes[0])
        assert_law(drawn, wanted)


@every_deep_shape
def test_imputations_have_the_conditional_law(sizes):
    model = random_dbm(sizes, scale=1.0)
    exact, rng = exactly(model), generator(725, *sizes)
    given, v = np.array(OBSERVED[sizes]), all_states(sizes[0])
    law = conditional(np.exp(exact.log_p_v), v, given)
    X, free = np.tile(given, (4000, 1)), np.isnan(given)
    draw = {"n_gibbs_steps": 60, "random_state": int(rng.integers(2**31))}
    assert_law(model.impute(X, method="sample", **draw), law)
    means = model.impute(X, **draw)
    np.testing.assert_array_equal(means[:, ~free], X[:, ~free])
    error = means[:, free].std(axis=0, ddof=1) / np.sqrt(len(X))
    assert (np.abs(means[:, free].mean(axis=0) - (law @ v)[free]) < 5.5 * error).all()
    # The same values, by a mask.
    filled = np.where(np.isnan(X), 0.3, X)
    assert_same(model.impute(filled, mask=free, **draw), means)


def test_gaussian_imputations_have_the_conditional_means():
    model = random_dbm((2, 3, 2), visible="gaussian", scale=0.8)
    h = all_states(5).astype(float)
    line = np.linspace(-30, 30, 4001)
    rows = np.stack([np.full_like(line, 0.7), line], axis=1)
    log_p = logsumexp(gaussian_minus_energy(model, rows, h[:, :3], h[:, 3:]), axis=1)
    wanted = np.exp(log_p - logsumexp(log_p)) @ line
    X = np.tile([0.7, NAN], (4000, 1))
    seed = int(generator(726).integers(2**31))
    for method in ("mean", "sample"):
        found = model.impute(X, method=method, n_gibbs_steps=60, random_state=seed)[
            :, 1
        ]
        error = found.std(ddof=1) / np.sqrt(4000)
        assert abs(found.mean() - wanted) < 5.5 * error


# ---- What a fitted model does ----


@pytest.fixture
def fitted(binary_digits):
    """A model of three hidden layers, in float32."""
    X = binary_digits[:300].astype(np.float32)
    return DBMTransformer((9, 7, 5), n_iter=3, random_state=0).fit(X)


def test_transform_gives_the_means_of_layers(fitted, digits):
    X = digits[:50]
    means = fitted._deep(np.float64).means(X)
    assert [m.shape for m in means] == [(50, 9), (50, 7), (50, 5)]
    assert_same(fitted.transform(X), means[-1])
    fitted.set_params(output="all")
    assert_same(fitted.transform(X), np.hstack(means))
    # Means that settled are what their neighbours give.
    fitted.set_params(n_mean_field_steps=2000, mean_field_tol=0.0)
    first, second, third = np.split(fitted.transform(X), [9, 16], axis=1)
    w, (_, c, d, e) = fitted.components_, fitted.intercepts_
    for found, field in [
        (first, X @ w[0].T + second @ w[1] + c),
        (second, first @ w[1].T + third @ w[2] + d),
        (third, second @ w[2].T + e),
    ]:
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-field)), 1e-9)


def test_names_of_outputs(fitted, digits):
    assert list(fitted.get_feature_names_out()) == [
        f"dbmtransformer{k}" for k in range(5)
    ]
    fitted.set_params(output="all")
    assert list(fitted.get_feature_names_out()) == [
        f"dbmtransformer{k}" for k in range(21)
    ]
    assert fitted.transform(digits[:2]).shape == (2, 21)


def test_visible_means(fitted, digits):
    X = digits[:50]
    b, w = fitted.intercepts_[0], fitted.components_[0]
    fitted.set_params(output="all")
    means = fitted.transform(X)
    wanted = 1 / (1 + np.exp(-(means[:, :9] @ w + b)))
    for found in (fitted.reconstruct(X), fitted.inverse_transform(means)):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, wanted, 1e-6)
    assert_same(
        fitted.inverse_transform(sp.csr_array(means)), fitted.inverse_transform(means)
    )
    # From the top: mean field of the layers below, seen from there, where it settled.
    fitted.set_params(output="top", n_mean_field_steps=2000, mean_field_tol=0.0)
    top = fitted.transform(X)
    v = fitted.inverse_transform(top)
    turned = Machine(fitted._layered().reversed().folded(), np.float64)
    even = np.full((50, 9), 0.5)
    for _ in range(2000):
        odd = turned.up.means(np.hstack([top, even]))
        even = turned.down.means(odd)[:, 5:]
    # (Layers from the top: 5 given, then 7, 9 and 64; the last stands by the 7.)
    np.testing.assert_allclose(v, odd[:, 7:], 1e-9)
    with pytest.raises(ValueError, match="X has 21 columns, but the layer has 5"):
        fitted.inverse_transform(means)


@pytest.mark.parametrize("hidden", [(4,), (4, 3), (4, 3, 2), (4, 3, 2, 2)], ids=str)
def test_visible_means_of_any_units_from_the_top(hidden):
    """Mean field settles where every layer is what its neighbours give."""
    model = random_dbm((3, *hidden), visible="gaussian", scale=0.7)
    model.intercepts_[0] += 50
    model.intercepts_[1] -= (50 / model.variance_) @ model.components_[0].T
    top = generator(728).random((20, hidden[-1]))
    v = model.inverse_transform(top)
    w, biases, seen = model.components_, model.intercepts_, v / model.variance_
    layers = [np.full((20, n), 0.5) for n in hidden[:-1]] + [top]
    for _ in range(3000):
        for k in range(len(hidden) - 1):
            below = seen if k == 0 else layers[k - 1]
            field = below @ w[k].T + layers[k + 1] @ w[k + 1] + biases[k + 1]
            layers[k] = 1 / (1 + np.exp(-field))
    np.testing.assert_allclose(v, layers[0] @ w[0] + biases[0], 1e-9)
    # Rows differ by more than rounding: the top is heard.
    assert v.std(axis=0).max() > 1e-4


@pytest.mark.parametrize("kind", [np.uint8, np.bool_, np.float32, sp.csr_array])
@pytest.mark.parametrize("hidden", [(12, 7), (12, 7, 5)], ids=str)
def test_data_of_any_kind_give_the_same_model(hidden, kind, binary_digits):
    floats = binary_digits[:150].astype(np.float32)
    X = sp.csr_array(floats) if kind is sp.csr_array else floats.astype(kind)
    estimator = DBMTransformer(hidden, n_iter=2, pretrain_n_iter=1, random_state=0)
    model, wanted = clone(estimator).fit(X), clone(estimator).fit(floats)
    assert_same_model(model, wanted)
    assert_same(outputs(model, X), outputs(wanted, floats))
    assert_same_model(model.partial_fit(X[:35]), wanted.partial_fit(floats[:35]))
    found = model.sample(n_gibbs_steps=2, init=X[:9])
    assert found.dtype == np.float32
    assert_same(found, wanted.sample(n_gibbs_steps=2, init=floats[:9]))


def test_sparse_bits_give_the_same_model(binary_digits):
    X = binary_digits[:150].astype(np.uint8)
    estimator = DBMTransformer((12, 7), n_iter=2, random_state=0)
    assert_same_model(clone(estimator).fit(sp.csr_array(X)), clone(estimator).fit(X))


def test_samples(fitted, binary_digits):
    given = np.full((4, 64), NAN)
    given[:, :5] = 1
    for arguments, n_rows in [
        ({}, 1),
        ({"n_samples": 5}, 5),
        ({"n_samples": 5, "n_chains": 2}, 5),
        ({"init": binary_digits[:3]}, 3),
        ({"init": binary_digits[:3], "n_samples": 7}, 7),
        ({"conditions": given}, 4),
        ({"conditions": given[0], "n_samples": 6}, 6),
        ({"conditions": given[:3], "init": binary_digits[:3]}, 3),
    ]:
        for method in ("gibbs", "tempering"):
            if "n_samples" in arguments and "init" in arguments:
                arguments["n_chains"] = 3
            draw = {"n_gibbs_steps": 3, "method": method, **arguments}
            found = fitted.sample(random_state=1, **draw)
            assert (found.shape, found.dtype) == ((n_rows, 64), np.float32)
            assert set(np.unique(found)) <= {0, 1}
            assert_same(fitted.sample(random_state=1, **draw), found)
            if "conditions" in arguments:
                assert (found[:, :5] == 1).all()
                assert (found[:, 5:].mean(axis=0) < 1).any()
    # No step: where chains start. And the model's own sequence goes on.
    start = fitted.sample(init=binary_digits[:3], n_gibbs_steps=0, random_state=0)
    assert_same(start, binary_digits[:3].astype(np.float32))
    assert not np.array_equal(fitted.sample(20, 2), fitted.sample(20, 2))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"conditions": np.zeros(65)}, "conditions has 65 columns, .* 64 features"),
        ({"conditions": np.full(64, 0.5)}, "0 or 1.* 0.5"),
        ({"conditions": np.zeros((3, 64)), "n_chains": 2}, "3 rows for 2 chains"),
        ({"init": np.zeros((3, 65))}, "65 features"),
        ({"init": np.zeros((3, 64)), "n_chains": 2}, "3 rows for 2 chains"),
        ({"init": np.full((3, 64), NAN)}, "NaN"),
        ({"method": "slice"}, "slice"),
        ({"n_samples": 0}, "n_samples"),
    ],
)
def test_bad_samples(fitted, arguments, message):
    with pytest.raises(ValueError, match=message):
        fitted.sample(n_gibbs_steps=1, **arguments)


def test_imputing(fitted, digits):
    X = digits[:6].copy()
    X[1, 3:9] = X[4] = NAN
    for method in ("mean", "sample"):
        draw = {"n_gibbs_steps": 4, "method": method, "random_state": 0}
        found = fitted.impute(X, **draw)
        known = ~np.isnan(X)
        assert (found.shape, found.dtype) == (X.shape, np.float32)
        np.testing.assert_array_equal(found[known], X[known].astype(np.float32))
        assert ((found >= 0) & (found <= 1)).all()
        assert (method == "mean") == (found[~known] % 1 != 0).any()
    with pytest.raises(ValueError, match="median"):
        fitted.impute(X, method="median")
    with pytest.raises(ValueError, match="n_gibbs_steps"):
        fitted.impute(X, n_gibbs_steps=0)


def test_missing_values_are_refused(fitted, digits):
    X = digits[:6].copy()
    X[1, 3] = NAN
    for method in ("fit", "partial_fit", "transform", "score_samples", "reconstruct"):
        with pytest.raises(ValueError, match="contains NaN") as caught:
            getattr(fitted, method)(X)
        # There is no such parameter here.
        assert "missing='latent'" not in str(caught.value)


def test_values_out_of_range_are_named(digits):
    with pytest.warns(UserWarning, match=r"range over \[0, 16\].*DBMTransformer"):
        DBMTransformer((4, 3), n_iter=1, random_state=0).fit(16 * digits[:50])


# ---- Columns of several kinds ----

COLUMNS = [
    ([0, 3], "categorical"),
    ([1], "gaussian"),
    ([2], "spin"),
    ([4], "poisson"),
]


def table(rng, n_rows=60):
    return np.stack(
        [
            rng.integers(0, 3, n_rows),
            rng.normal(50, 3, n_rows),
            rng.choice([-1, 1], n_rows),
            rng.integers(0, 2, n_rows),
            rng.poisson(2, n_rows),
        ],
        axis=1,
    ).astype(float)


@pytest.mark.parametrize("hidden", [(4,), (4, 3), (4, 3, 2)], ids=str)
def test_columns_of_any_kind(hidden):
    X = table(generator(770))
    model = DBMTransformer(
        hidden, visible=COLUMNS, n_iter=3, pretrain_n_iter=1, random_state=0
    ).fit(X)
    assert model.n_features_in_ == 5
    assert model.n_categories_.tolist() == [3, 0, 0, 2, 0]
    # A unit for each category.
    assert [len(bias) for bias in model.intercepts_] == [8, *hidden]
    assert model.transform(X).shape == (60, hidden[-1])
    assert np.isfinite(model.score_samples(X)).all()
    seen = model.inverse_transform(model.transform(X))
    drawn = model.sample(30, 5, conditions=[NAN, NAN, 1, 1, NAN])
    for found in (seen, model.reconstruct(X), drawn):
        assert found.shape[1] == 5
        assert set(found[:, 0]) <= {0, 1, 2}
        assert set(found[:, 3]) <= {0, 1}
    assert (drawn[:, 2:4] == 1).all()
    assert set(drawn[:, 4] % 1) == {0}
    missing = X[:8].copy()
    missing[2, 0] = missing[3, 1] = missing[4] = NAN
    filled = model.impute(missing, n_gibbs_steps=5, method="sample")
    known = ~np.isnan(missing)
    np.testing.assert_allclose(filled[known], missing[known], 1e-12)
    assert set(filled[:, 0]) <= {0, 1, 2}
    # Chains that start from a table.
    start = model.sample(init=X[:4], n_gibbs_steps=0)
    np.testing.assert_allclose(start, X[:4], 1e-12)
    with pytest.raises(ValueError, match="code 3"):
        model.transform(X + [1, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="conditions has 8 columns"):
        model.sample(2, 2, conditions=np.zeros(8))


def test_categories_are_one_hot_units():
    """A column of codes is the block of units that stand for it."""
    X = table(generator(771))[:, [0, 3]]
    coded = DBMTransformer((4, 3), visible="categorical", n_iter=3, random_state=0)
    coded.fit(X)
    units = [([0, 1, 2], Categorical(3)), ([3, 4], Categorical(2))]
    V = np.hstack([np.eye(3)[X[:, 0].astype(int)], np.eye(2)[X[:, 1].astype(int)]])
    spelled = DBMTransformer((4, 3), visible=units, n_iter=3, random_state=0).fit(V)
    assert_same(coded.components_, spelled.components_)
    assert_same(coded.transform(X), spelled.transform(V))
    assert_same(coded.score_samples(X), spelled.score_samples(V))
    # A distribution of codes, of which the bound is below.
    codes = np.array([[i, j] for i in range(3) for j in range(2)], float)
    assert np.exp(coded.score_samples(codes)).sum() <= 1 + 1e-9


# ---- Kept numbers, damage, threads ----


def test_log_z_is_kept_until_the_model_changes(fitted, binary_digits):
    X = binary_digits[:300].astype(np.float32)
    before = fitted.score_samples(X)
    assert fitted._log_z == float(log_partition(fitted))
    fitted._log_z += 1
    assert_same(fitted.score_samples(X), before - 1)
    fitted.partial_fit(X)
    assert not hasattr(fitted, "_log_z")
    assert not np.array_equal(fitted.score_samples(X), before)


def test_a_large_model_estimates_log_z(binary_digits):
    X = binary_digits[:100].astype(np.float32)
    model = DBMTransformer((20, 30), n_iter=2, random_state=0).fit(X)
    found = model.score_samples(X)
    assert_same(model.score_samples(X), found)
    wanted = log_partition(
        model, "ais", betas=1000, n_runs=100, reverse=False, random_state=0
    )
    assert model._log_z == float(wanted)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.components_.pop(),
        lambda m: m.components_.reverse(),
        lambda m: m.intercepts_.pop(0),
        lambda m: m.intercepts_.append(np.zeros(2)),
        lambda m: setattr(m, "components_", m.components_ + [np.zeros((2, 5))]),
        lambda m: m.components_.__setitem__(1, m.components_[1].T),
    ],
)
def test_damaged_models_are_refused(fitted, change):
    assert pickle.loads(pickle.dumps(fitted)).n_iter_ == 3
    change(fitted)
    with pytest.raises(ValueError, match="restored DBMTransformer is damaged"):
        pickle.loads(pickle.dumps(fitted))


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    rng = np.random.default_rng(0)
    X = (rng.random((300, 200)) < 0.2).astype(np.float32)
    found = []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads):
            model = DBMTransformer(
                (150, 100, 60), n_iter=1, pretrain_n_iter=1, momentum=0.5,
                output="all", random_state=0,
            ).fit(X)  # fmt: skip
            missing = np.where(X[:100] > 0, NAN, X[:100])
            model._log_z = 0.0
            found.append(
                [
                    fitted_state(model),
                    outputs(model, X),
                    model.inverse_transform(model.transform(X)),
                    model.sample(100, 3, random_state=1),
                    model.impute(missing, n_gibbs_steps=3, random_state=1),
                    log_partition(model, "ais", betas=5, random_state=0).value,
                ]
            )
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])
