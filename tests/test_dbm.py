"""Deep Boltzmann machines small enough to be enumerated.

Their training is in test_dbm_training.py, their inference in test_mean_field.py, what
estimators do with them in test_dbm_use.py and test_dbm_fit.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import entr, logsumexp

from common import assert_same, floats, random_dbm
from reference import Path, all_states, chi_square_p_value, generator, state_numbers
from reference_deep import bound, enumerate_layers, sides
from sklearn_ebm import RBM, BernoulliRBM
from sklearn_ebm._machines import Machine
from sklearn_ebm.layered import Layered, blocks, unfolded
from sklearn_ebm.likelihood import log_likelihood, log_partition
from sklearn_ebm.samplers import Gibbs, ReplicaExchange, impute
from sklearn_ebm.units import Gaussian, Mixed, Spin

pytestmark = pytest.mark.usefixtures("one_thread")
RARE = 1e-6
N_CHAINS = 24_576
NAN = np.nan
# Sizes of all layers, the visible one first.
SHAPES = [(4, 3, 2), (5, 4), (3, 3, 2, 2), (3, 2, 2, 2, 2)]
DEEP = [shape for shape in SHAPES if len(shape) > 2]
every_shape = pytest.mark.parametrize("sizes", SHAPES, ids=str)
every_deep_shape = pytest.mark.parametrize("sizes", DEEP, ids=str)


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


@pytest.mark.parametrize("sizes", [(2, 1), (1, 2, 1)], ids=str)
def test_machines_may_be_given_as_lists(sizes):
    weights = [np.arange(2.0).reshape(shape) for shape in zip(sizes[:-1], sizes[1:])]
    biases, units = [np.arange(n) - 0.5 for n in sizes], ["bernoulli"] * len(sizes)
    wanted = Layered(tuple(units), tuple(weights), tuple(biases))
    lists = Layered(units, [w.tolist() for w in weights], [b.tolist() for b in biases])
    whole = Layered(units, [w.astype(int) for w in weights], biases)
    for found in (lists, whole):
        assert_same(vars(found), vars(wanted))
        assert_same(vars(found.reversed()), vars(wanted.reversed()))
        assert_same(vars(found.folded()), vars(wanted.folded()))
        assert log_partition(found).value == log_partition(wanted).value
    for other in ([["1"]], [[1j]], np.array([["2020"]], "M8[Y]")):
        with pytest.raises(TypeError, match="are no numbers"):
            Layered(("bernoulli",) * 2, (other,), ([0.0], [0.0]))


def test_blocks_are_views_between_neighbours():
    weight = np.zeros((2 + 4, 3 + 5))
    for k, block in enumerate(blocks(weight, [2, 3, 4, 5])):
        assert block.shape == [(2, 3), (3, 4), (4, 5)][k]
        block[...] = k + 1
    wanted = np.block([[np.ones((2, 3)), np.zeros((2, 5))],
                       [np.full((4, 3), 2), np.full((4, 5), 3)]])  # fmt: skip
    np.testing.assert_array_equal(weight, wanted)
    first, second = np.arange(6), np.arange(6, 14)
    layers = unfolded(first, second, [2, 3, 4, 5])
    assert [len(each) for each in layers] == [2, 3, 4, 5]
    assert_same(np.concatenate(layers[::2]), first)
    assert_same(np.concatenate(layers[1::2]), second)
    (only,) = unfolded(first, second[:0], [6])
    assert_same(only, first)
    only[0] = -1
    assert first[0] == -1


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


@pytest.mark.thinned(4)
@pytest.mark.parametrize("sizes", DEEP[:2], ids=str)
@pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
def test_annealing_is_unbiased_with_honest_errors(sizes, visible):
    model = random_dbm(sizes, scale=0.8, visible=visible)
    exact = float(log_partition(model))
    rng = generator(712, *sizes)
    found = [
        log_partition(
            model, "ais", betas=100, n_runs=40, reverse=False,
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


@pytest.mark.slow
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
    wanted = sum((entr(q) + entr(1 - q)).sum(axis=1) for q in means)
    for r in range(len(rows)):
        one = rows[[r]], *(mean[[r]] for mean in means)
        wanted[r] += gaussian_minus_energy(model, *one)[0, 0]
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


@pytest.mark.thinned(3)
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


@pytest.mark.thinned(3)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "method, sizes",
    [("gibbs", sizes) for sizes in DEEP] + [("tempering", DEEP[1])],
    ids=str,
)
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


@pytest.mark.thinned(3)
@every_deep_shape
def test_imputations_have_the_conditional_law(sizes):
    model = random_dbm(sizes, scale=1.0)
    exact, rng = exactly(model), generator(725, *sizes)
    given, v = np.array(OBSERVED[sizes]), all_states(sizes[0])
    law = conditional(np.exp(exact.log_p_v), v, given)
    X, free = np.tile(given, (4000, 1)), np.isnan(given)
    draw = {"n_gibbs_steps": 60, "random_state": int(rng.integers(2**31))}
    assert_law(model.impute(X, method="sample", **draw), law)
    # Chains of all even layers, of which those above the visible one are free.
    even = np.pad(X, ((0, 0), (0, sum(sizes[2::2]))), constant_values=NAN)
    means = impute(model, even, np.isnan(even), **draw)[:, : sizes[0]]
    np.testing.assert_array_equal(means[:, ~free], X[:, ~free])
    error = means[:, free].std(axis=0, ddof=1) / np.sqrt(len(X))
    wanted = (law @ v)[free]
    assert (np.abs(means[:, free].mean(axis=0) - wanted) < 5.5 * error).all()
    # The model itself sums the states of so few units of odd layers.
    means = model.impute(X, **draw)
    np.testing.assert_array_equal(means[:, ~free], X[:, ~free])
    np.testing.assert_allclose(means[:, free], [wanted] * len(X), rtol=1e-12)
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
    draw = {"method": "sample", "n_gibbs_steps": 60, "random_state": seed}
    found = model.impute(X, **draw)[:, 1]
    assert abs(found.mean() - wanted) < 5.5 * found.std(ddof=1) / np.sqrt(4000)
    np.testing.assert_allclose(model.impute(X)[:, 1], wanted, rtol=1e-9)
