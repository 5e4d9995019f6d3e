"""Gibbs chains, conditions, imputation, many samples, and diagnostics."""

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from common import assert_same, model_with
from kernels import DTYPES, KEY, WIDTHS, bits, kernel_logistic
from reference import (
    all_states,
    chi_square_p_value,
    enumerate_machine,
    generator,
    gibbs_sweep,
    random_machine,
    state_numbers,
    swept_fields,
)
from sklearn_ebm import DBMTransformer
from sklearn_ebm._gibbs import Layer, run_chains
from sklearn_ebm._missing import few_bits_missing, fill_bits_exactly, fill_exactly
from sklearn_ebm._openmp import effective_n_threads, openmp_enabled
from sklearn_ebm._panels import Panels
from sklearn_ebm.layered import Layered
from sklearn_ebm.likelihood import log_partition, ratio_matching
from sklearn_ebm.samplers import (
    Gibbs,
    ReplicaExchange,
    autocorrelation_time,
    effective_sample_size,
    impute,
    r_hat,
    sample_chains,
)
from sklearn_ebm.samplers._models import layers_of, two_layers
from sklearn_ebm.units import (
    Categorical,
    Gaussian,
    Mixed,
    ReLU,
    are,
    as_unit,
    kinds_by_column,
)
from tables import mixed_rbm, table

RARE = 1e-6
N_CHAINS = 24_576
NAN = np.nan
floats = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Work this small is done sooner on one; results do not depend on it."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def strong_machine(dtype=np.float64, n_hidden=4, n_visible=6):
    """Units that hold on to one another, so that what is given matters."""
    rng = np.random.default_rng(300)  # the same for all seeds of the tests
    shape = n_hidden, n_visible
    components = rng.choice([-1.0, 1.0], shape) * rng.uniform(1, 2, shape)
    hidden = -components.sum(axis=1) / 2 + rng.normal(0, 0.3, n_hidden)
    visible = -components.sum(axis=0) / 2 + rng.normal(0, 0.3, n_visible)
    return tuple(x.astype(dtype) for x in (components, hidden, visible))


def random_model(n_hidden, n_visible, rng, dtype=np.float64, scale=0.5):
    machine = random_machine(n_hidden, n_visible, rng, scale=scale, dtype=dtype)
    return model_with(*machine)


def conditional(exact, observed):
    """Law of all visible states, given values (NaN: free) of some units."""
    free = np.isnan(observed)
    possible = (exact.v[:, ~free] == observed[~free]).all(axis=1)
    p = np.where(possible, exact.p_v, 0)
    return p / p.sum()


def assert_law(states, law, minlength=64):
    counts = np.bincount(state_numbers(states), minlength=minlength)
    assert counts[law == 0].sum() == 0
    assert chi_square_p_value(counts[law > 0], law[law > 0]) > RARE


def frozen(X):
    X = np.array(X)
    X.setflags(write=False)
    return X


# ---- Sums of pairs, clamped units: against twins ----


def paired_layers(machine):
    components, hidden, visible = machine
    up = Layer(Panels.from_columns(components, True), hidden)
    return up, Layer(Panels.from_rows(components), visible)


@pytest.mark.thinned(5)
@floats
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_chains", [1, 5, 16, 130])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_chains_with_paired_sums(share, n_chains, width, dtype):
    """Units 2j and 2j + 1 that are both on are added up first."""
    rng = generator(301, width, n_chains)
    machine = random_machine(19, width, rng, scale=0.5, dtype=dtype)
    states = bits(n_chains, width, rng, share)
    expected = states
    for s in range(3):
        expected = gibbs_sweep(
            machine, expected, key=KEY, step=2**32 - 2 + s, mean=kernel_logistic
        )
    run_chains(*paired_layers(machine), states, 3, KEY, 2**32 - 2)
    assert np.array_equal(states, expected)


@floats
@pytest.mark.parametrize("n_visible", [6, 7, 63, 129])
def test_pairs_are_summed_first(n_visible, dtype):
    """Fields whose sign tells in which order they were added up."""
    small = dtype(1000)
    large = 8 * small / np.finfo(dtype).eps
    last = (n_visible - 3) // 2 * 2
    # Units, from where on they have weights; whether the hidden unit is on.
    # large + small is large: what remains is small/2 one by one, -small/2 in pairs.
    for first, paired, on in [
        (last, False, True),
        (last, True, False),
        (last - 1, True, True),  # large is the second of one pair, small of the next
    ]:
        weights = np.zeros((1, n_visible), dtype)
        weights[0, first : first + 3] = large, small, -small / 2
        up = Layer(Panels.from_columns(weights, paired), [-large])
        copied = np.full((1, n_visible), 400, dtype)
        down = Layer(Panels.from_rows(copied), np.full(n_visible, -200, dtype))
        for n_chains in [1, 2]:
            states = np.ones((n_chains, n_visible), bool)
            run_chains(up, down, states, 1, KEY, 0)
            assert (states == on).all()


@floats
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("n_chains", [5, 80, 140])
def test_long_rows_go_by_words(n_chains, paired, dtype):
    """If there are many of them; the order of sums tells."""
    n_visible = 200
    small = dtype(1000)
    large = 8 * small / np.finfo(dtype).eps
    weights = np.zeros((1, n_visible), dtype)
    # From -large on: small/4 one by one or in pairs, -small/4 in fours. (The others
    # only make rows longer.)
    weights[0, [4, 6, 7, 198]] = large, small, -small / 2, -small / 4
    up = Layer(Panels.from_columns(weights, paired), [-large])
    copied = np.full((1, n_visible), 400, dtype)
    down = Layer(Panels.from_rows(copied), np.full(n_visible, -200, dtype))
    states = np.zeros((n_chains, n_visible), bool)
    states[:, [4, 6, 7, 198]] = True
    for r in range(n_chains):
        states[r, 8 : 8 + 186 * (r + 1) // n_chains] = True
    fields = swept_fields(states, weights.T, [-large], 1 + paired)
    some = {small / 4, -small / 4}
    assert set(fields.ravel()) == ({small / 4} if n_chains == 5 else some)
    run_chains(up, down, states, 1, KEY, 0)
    assert (states == (fields > 0)).all()
    # Of 200 units, a row of which all are on saves 160: more than 1000 are enough.
    for n_full, last in [(6, small / 4), (7, -small / 4)]:
        full = np.ones((n_full, n_visible), bool)
        assert (swept_fields(full, weights.T, [-large]) == last).all()
        run_chains(Layer(Panels.from_columns(weights), [-large]), down, full, 1, KEY, 0)
        assert (full == (last > 0)).all()


@floats
@pytest.mark.parametrize("n_chains", [1, 5, 16, 130])
@pytest.mark.parametrize("n_visible", [7, 64, 130])
def test_clamped_chains_equal_twin(n_visible, n_chains, dtype):
    rng = generator(302, n_visible, n_chains)
    machine = random_machine(33, n_visible, rng, scale=0.5, dtype=dtype)
    start = bits(n_chains, n_visible, rng)
    clamped = bits(n_chains, n_visible, rng)
    expected, states = start, start.copy()
    for s in range(4):
        expected = gibbs_sweep(
            machine, expected, key=KEY, step=s, clamped=clamped, mean=kernel_logistic
        )
    run_chains(*paired_layers(machine), states, 4, KEY, 0, clamped)
    assert np.array_equal(states, expected)
    assert np.array_equal(states[clamped], start[clamped])
    # In two calls, and all or nothing clamped.
    states = start.copy()
    for s in (0, 2):
        run_chains(*paired_layers(machine), states, 2, KEY, s, clamped)
    assert np.array_equal(states, expected)
    run_chains(*paired_layers(machine), states, 2, KEY, 4, np.ones_like(clamped))
    assert np.array_equal(states, expected)
    free = start.copy()
    run_chains(*paired_layers(machine), states := start.copy(), 2, KEY, 0)
    run_chains(*paired_layers(machine), free, 2, KEY, 0, np.zeros_like(clamped))
    assert np.array_equal(states, free)


@pytest.mark.skipif(not openmp_enabled(), reason="built without OpenMP")
def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    rng = generator(303)
    model = random_model(120, 150, rng, np.float32, 0.3)
    conditions = np.where(rng.random((300, 150)) < 0.3, 1.0, NAN)
    X = np.where(rng.random((300, 150)) < 0.3, NAN, 0.5).astype(np.float32)
    results = []
    for n_threads in [1, 2, 3, 7]:
        monkeypatch.setenv("OMP_NUM_THREADS", str(n_threads))
        with threadpool_limits(n_threads, user_api="openmp"):
            assert effective_n_threads() == n_threads
            found = [
                model.sample(
                    300, 5, conditions=conditions, random_state=0, method=method
                )
                for method in ("gibbs", "tempering")
            ]
            found.append(model.impute(X, n_gibbs_steps=6, random_state=0))
            results.append(found)
    for found in results[1:]:
        assert_same(found, results[0])


# ---- Gibbs ----


@floats
def test_gibbs_states(dtype):
    model = random_model(9, 20, generator(304), dtype)
    sampler = Gibbs(model)
    for arguments, n_chains in [
        ({}, 1),
        ({"n_chains": 4}, 4),
        ({"init": np.zeros((3, 20))}, 3),
        ({"init": [[0.5] * 20] * 2}, 2),
        ({"n_chains": 3, "init": np.zeros((3, 20), np.uint8)}, 3),
        ({"init": sp.csr_array(np.eye(3, 20))}, 3),
        ({"conditions": np.full(20, NAN)}, 1),
        ({"conditions": np.full(20, NAN), "n_chains": 6}, 6),
        ({"conditions": np.ones((1, 20)), "init": np.zeros((3, 20))}, 3),
        ({"conditions": np.ones((5, 20))}, 5),
    ]:
        chains = sampler.init(**arguments, random_state=0)
        assert chains.visible.shape == (n_chains, 20)
        after = sampler.step(chains, 2)
        assert after.visible.shape == (n_chains, 20)
        assert after.visible.dtype == bool
        assert after.n_steps == chains.n_steps + 2
        again = sampler.step(sampler.init(**arguments, random_state=0), 2)
        assert np.array_equal(after.visible, again.visible)


@floats
def test_no_chains_stay_none(dtype):
    sampler = Gibbs(random_model(9, 20, generator(304), dtype))
    chains = sampler.init(2, random_state=0)
    none = replace(chains, visible=chains.visible[:0])
    assert sampler.step(none, 2).visible.shape == (0, 20)


@floats
@pytest.mark.parametrize("n_chains", [3, 150])
@pytest.mark.parametrize("conditions", [False, True])
@pytest.mark.parametrize("kind", ["none", "bool", "float", "real", "csr"])
def test_gibbs_goes_on(kind, conditions, n_chains, dtype):
    """a + b steps are a and then b, and no state is changed."""
    rng = generator(305)
    sampler = Gibbs(random_model(30, 70, rng, dtype))
    start = bits(n_chains, 70, rng)
    init = {
        "none": None,
        "bool": frozen(start),
        "float": frozen(start.astype(dtype)),
        "real": frozen(rng.random(start.shape).astype(dtype)),
        "csr": sp.csr_array(start.astype(dtype)),
    }[kind]
    values = np.where(rng.random(start.shape) < 0.2, start, NAN)
    chains = sampler.init(
        n_chains,
        init=init,
        conditions=frozen(values) if conditions else None,
        random_state=5,
    )
    kept = chains.visible.copy()
    whole = sampler.step(chains, 7)
    for a, b in [(0, 7), (1, 6), (3, 4), (7, 0)]:
        first = sampler.step(chains, a)
        middle = first.visible.copy()
        second = sampler.step(first, b)
        assert np.array_equal(second.visible, whole.visible)
        assert (second.n_steps, second.key) == (whole.n_steps, whole.key)
        for state, before in [(first.visible, middle), (chains.visible, kept)]:
            assert (state != before).sum() == 0
    if conditions:
        fixed = ~np.isnan(values)
        assert np.array_equal(whole.visible[fixed], start[fixed])
        assert np.array_equal(chains.fixed, fixed)
        assert not np.array_equal(whole.visible[~fixed], start[~fixed])


@floats
@pytest.mark.parametrize("conditions", [False, True])
def test_bits_of_any_type_give_the_same_chains(conditions, dtype):
    rng = generator(306)
    sampler = Gibbs(random_model(30, 70, rng, dtype))
    start = bits(20, 70, rng)
    values = np.where(rng.random(70) < 0.2, 1, NAN) if conditions else None
    found = [
        sampler.step(sampler.init(init=init, conditions=values, random_state=1), 3)
        for init in [
            start,
            start.astype(np.uint8),
            start.astype(np.int64),
            start.astype(np.float32),
            start.astype(np.float64),
            np.asfortranarray(start),
            start.tolist(),
            sp.csr_array(start),
            sp.csr_array(start.astype(np.float32)),
        ]
    ]
    for chains in found[1:]:
        assert np.array_equal(chains.visible, found[0].visible)


OBSERVED = np.array([1, NAN, NAN, 0, NAN, 1])


@pytest.mark.thinned(6)
@floats
@pytest.mark.parametrize("start", ["base", "init", "tempering"])
def test_conditions(start, dtype):
    """Given units stay; the others follow their conditional law."""
    machine = strong_machine(dtype)
    exact, model = enumerate_machine(machine), model_with(*machine)
    law = conditional(exact, OBSERVED)
    # What is given matters, and is not what most states have.
    assert np.abs(law @ exact.v - exact.p_v @ exact.v)[[1, 2, 4]].max() > 0.2
    n = N_CHAINS if start != "tempering" else 6000
    options = {"init": {"init": np.zeros((n, 6))}, "base": {"n_chains": n}}
    drawn = sample_chains(
        model,
        1,
        warm_up=60,
        method="tempering" if start == "tempering" else "gibbs",
        conditions=OBSERVED,
        random_state=generator(307).integers(2**31),
        **options.get(start, {"n_chains": n}),
    )[0]
    assert_law(drawn, law)


@floats
def test_conditions_do_not_drift(dtype):
    """Chains with values of their own that start exactly, after 1, 4, 16 steps."""
    machine = strong_machine(dtype)
    exact, sampler = enumerate_machine(machine), Gibbs(model_with(*machine))
    given = np.array(
        [[NAN] * 6, OBSERVED, [NAN, 1, NAN, NAN, 0, NAN], [1, 0, 1, 0, NAN, NAN]]
    )
    laws = [conditional(exact, values) for values in given]
    rng = generator(308)
    group = np.arange(N_CHAINS) % 4
    numbers = np.empty(N_CHAINS, int)
    for g, law in enumerate(laws):
        numbers[group == g] = rng.choice(64, N_CHAINS // 4, p=law)
    chains = sampler.init(
        init=exact.v[numbers],
        conditions=given[group],
        random_state=int(rng.integers(2**31)),
    )
    for n_steps in [1, 3, 12]:
        chains = sampler.step(chains, n_steps)
        for g, law in enumerate(laws):
            assert_law(chains.visible[group == g], law)


@pytest.mark.parametrize(
    "conditions, message",
    [
        ([0.5, NAN, NAN, NAN], "0.5"),
        ([-1, NAN, NAN, NAN], "-1"),
        ([2, NAN, NAN, NAN], "0 or 1"),
        ([np.inf, NAN, NAN, NAN], "conditions"),
        ([1, NAN], "conditions has 2 columns"),
        ([1, NAN, NAN, NAN, 0], "conditions has 5 columns"),
        (1.0, "conditions has 1 columns"),
        ([[1, NAN, NAN, NAN]] * 3, "conditions has 3 rows for 2 chains"),
        (np.zeros((2, 2, 4)), "conditions|dim"),
        (np.zeros((0, 4)), "conditions|minimum of 1"),
    ],
)
def test_bad_conditions(conditions, message):
    model = random_model(3, 4, generator(309))
    for call in [
        lambda: Gibbs(model).init(2, conditions=conditions),
        lambda: model.sample(2, 1, conditions=conditions),
        lambda: sample_chains(model, 1, 2, warm_up=1, conditions=conditions),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"n_chains": 0}, ValueError, "n_chains"),
        ({"n_chains": 2.0}, TypeError, "n_chains"),
        ({"n_chains": True}, TypeError, "n_chains"),
        ({"n_chains": 2, "init": np.zeros((3, 4))}, ValueError, "init has 3 rows"),
        ({"init": np.zeros((3, 5))}, ValueError, "init has 5 columns"),
        ({"init": np.full((3, 4), NAN)}, ValueError, "init"),
        ({"init": np.full((3, 4), np.inf)}, ValueError, "init"),
        ({"random_state": "a"}, ValueError, "random_state"),
        (
            {"init": np.zeros((3, 4)), "conditions": np.zeros((2, 4))},
            ValueError,
            "conditions has 2 rows for 3 chains",
        ),
    ],
)
def test_bad_starts(arguments, error, message):
    model = random_model(3, 4, generator(310))
    with pytest.raises(error, match=message):
        Gibbs(model).init(**arguments)
    if "n_chains" not in arguments:
        with pytest.raises(error, match=message):
            model.sample(n_gibbs_steps=1, **arguments)


def test_units_that_stay_need_values():
    exchange = ReplicaExchange(random_model(3, 4, generator(310)))
    with pytest.raises(ValueError, match="fixed .* needs init"):
        exchange.init(2, fixed=np.zeros(4, bool))
    with pytest.raises(ValueError, match="init has 3 rows for 2 ensembles"):
        exchange.init(2, init=np.zeros((3, 4)))


@pytest.mark.parametrize("of_bits", [True, False])
def test_states_of_something_else_are_refused(of_bits):
    bits_layers = random_model(3, 4, generator(311))._layered()
    spins = Layered(("spin", "spin"), (np.zeros((4, 3)),), (np.zeros(4), np.zeros(3)))
    sampler = Gibbs(bits_layers if of_bits else spins)
    other = Gibbs(random_model(3, 5, generator(311))).init(2, random_state=0)
    replicas = ReplicaExchange(bits_layers).init(2, random_state=0)
    for call in (sampler.step, lambda chains: sampler.means(chains, 1)):
        for state in (None, np.zeros((2, 4)), replicas):
            with pytest.raises(TypeError, match=r"state must be Chains, .* got"):
                call(state)
        wanted = r"visible of Chains must be of shape \(n_chains, 4\), got"
        for visible in (other.visible, np.zeros(4)):
            with pytest.raises(ValueError, match=wanted):
                call(replace(other, visible=visible))


def test_other_layers_are_refused():
    # Gibbs sampling takes any two layers; what has kernels for bits alone does not.
    bias = np.zeros(2)
    layers = Layered(("gaussian", "bernoulli"), (np.zeros((2, 2)),), (bias, bias))
    found = Gibbs(layers).step(Gibbs(layers).init(3, random_state=0)).visible
    assert found.shape == (3, 2)
    assert found.dtype == np.float64
    for call in [
        lambda: two_layers(layers),
        lambda: ReplicaExchange(layers),
        lambda: log_partition(layers, "tempering"),
        lambda: sample_chains(layers, 2, 2, warm_up=1, method="tempering"),
        lambda: ratio_matching(layers, np.zeros((1, 2))),
    ]:
        with pytest.raises(ValueError, match="two layers of Bernoulli units.*gaussian"):
            call()


def test_tempering_is_named_where_the_layers_are_others():
    X = generator(340).normal(size=(20, 3))
    model = DBMTransformer((4, 3), visible="gaussian", n_iter=1, random_state=0).fit(X)
    fresh = deepcopy(model)
    for call in [
        lambda: model.sample(2, method="tempering"),
        lambda: sample_chains(model, 2, method="tempering"),
        lambda: log_partition(model, "tempering"),
    ]:
        with pytest.raises(ValueError, match="^method='tempering' takes two layers"):
            call()
    # A refused call uses up no random bits.
    assert_same(model.sample(2, 3), fresh.sample(2, 3))


def test_a_single_layer_is_refused():
    layers = Layered(("spin",), (), (np.zeros(2),))
    for call in [Gibbs, two_layers, log_partition]:
        with pytest.raises(ValueError, match="takes two layers or more, got 1"):
            call(layers)


def test_a_layered_value_does_not_change():
    model, W = random_model(2, 3, generator(312)), np.ones((3, 2))
    given = Layered(("bernoulli", "bernoulli"), [W], [np.zeros(3), np.zeros(2)])
    for value in (given, model._layered(), given.reversed(), given.folded()):
        with pytest.raises(AttributeError):
            value.weights = ()
        for array in (*value.weights, *value.biases):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7
    W[0] = 7  # is still the user's
    assert model.components_.flags.writeable


@pytest.mark.parametrize(
    "unit, message",
    [
        (Categorical(3), "4 columns are no blocks of 3"),
        (Gaussian(scale=np.ones(3)), "but there are 4 of them"),
        (Mixed(((3, ReLU()),)), "of 3 columns do not make 4"),
        ("no such unit", "there are no units"),
    ],
)
def test_a_layered_value_has_layers_that_its_units_can_fill(unit, message):
    with pytest.raises(ValueError, match=message):
        Layered((unit, "bernoulli"), [np.zeros((4, 1))], [np.zeros(4), np.zeros(1)])


def test_a_layered_value_gives_the_draws_of_its_model():
    model = random_model(5, 8, generator(311))
    model.visible_mean_ = 1 / (1 + np.exp(-model.intercept_visible_))
    for method in ["gibbs", "tempering"]:
        found = [
            sample_chains(value, 3, 4, warm_up=3, method=method, random_state=0)
            for value in (model, model._layered())
        ]
        assert_same(*found)


@pytest.mark.parametrize("method", ["gibbs", "tempering"])
@pytest.mark.parametrize("kind", [np.int64, np.float16, list])
def test_weights_of_a_layered_value_may_be_any_numbers(kind, method):
    weights = generator(336).integers(-3, 4, (8, 5))
    biases = np.zeros(8), np.zeros(5)

    def drawn(weights):
        layers = Layered(("bernoulli",) * 2, (weights,), biases)
        return sample_chains(layers, 2, 4, warm_up=3, method=method, random_state=0)

    converted = weights.tolist() if kind is list else weights.astype(kind)
    assert_same(drawn(converted), drawn(weights.astype(float)))


# ---- Many samples ----


@floats
def test_chains_are_sampled_in_turn(dtype):
    """sample, sample_chains and explicit steps are the same draws."""
    model = random_model(20, 30, generator(312), dtype)
    sampler = Gibbs(model)
    chains = sampler.step(sampler.init(4, random_state=9), 11)
    expected = [chains.visible]
    for _ in range(2):
        chains = sampler.step(chains, 3)
        expected.append(chains.visible)
    drawn = sample_chains(model, 3, 4, warm_up=11, thinning=3, random_state=9)
    assert_same(drawn, np.stack(expected))
    rows = model.sample(10, 11, n_chains=4, thinning=3, random_state=9)
    assert rows.dtype == dtype
    assert np.array_equal(rows, drawn.reshape(12, 30)[:10])
    thin = model.sample(28, 11, n_chains=4, thinning=1, random_state=9)
    assert np.array_equal(thin.reshape(7, 4, 30)[::3], drawn)
    # Without n_chains, every sample has a chain of its own.
    rows = model.sample(6, 11, random_state=9)
    alone = sample_chains(model, 1, 6, warm_up=11, random_state=9)
    assert np.array_equal(rows, alone[0])


def test_shapes_of_samples():
    model = random_model(5, 8, generator(313))
    init, given = np.zeros((3, 8)), np.full((4, 8), NAN)
    for method in ["gibbs", "tempering"]:
        for arguments, n_rows in [
            ({}, 1),
            ({"n_samples": 5}, 5),
            ({"n_chains": 2}, 2),
            ({"n_samples": 5, "n_chains": 2}, 5),
            ({"n_samples": 2, "n_chains": 5}, 2),
            ({"n_samples": 7, "n_chains": 3, "init": init}, 7),
            ({"init": init}, 3),
            ({"conditions": given}, 4),
            ({"conditions": given[0], "n_samples": 6, "n_chains": 1}, 6),
        ]:
            found = model.sample(
                n_gibbs_steps=2, thinning=1, method=method, random_state=0, **arguments
            )
            assert found.shape == (n_rows, 8)
            assert set(np.unique(found)) <= {0, 1}


@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_samples_without_random_state_go_on(method):
    def sequence():
        model = random_model(9, 20, generator(314))
        options = {"method": method, "n_chains": 2, "thinning": 2}
        return [model.sample(5, 4, **options) for _ in range(3)] + [
            model.gibbs(np.zeros((3, 20))),
            model.impute(np.full((3, 20), NAN), n_gibbs_steps=4),
        ]

    first, again = sequence(), sequence()
    assert_same(first, again)
    for a, b in pairwise(first[:3]):
        assert not np.array_equal(a, b)


@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_a_random_state_leaves_others_alone(method):
    """Neither the model's own sequence nor NumPy's generator moves."""
    model = random_model(9, 20, generator(315))
    before = np.random.get_state()[1].copy(), np.random.get_state()[2]
    wanted = model.sample(5, 4, random_state=3, method=method)
    step = model._sampling_step if hasattr(model, "_sampling_step") else None
    assert np.array_equal(model.sample(5, 4, random_state=3, method=method), wanted)
    assert not np.array_equal(model.sample(5, 4, random_state=4, method=method), wanted)
    assert getattr(model, "_sampling_step", None) == step
    after = np.random.get_state()[1], np.random.get_state()[2]
    assert np.array_equal(before[0], after[0])
    assert before[1] == after[1]


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"n_samples": 0}, ValueError, "n_samples"),
        ({"n_samples": 1.5}, TypeError, "n_samples"),
        ({"n_gibbs_steps": -1}, ValueError, "n_gibbs_steps"),
        ({"n_gibbs_steps": "a"}, TypeError, "n_gibbs_steps"),
        ({"thinning": 0}, ValueError, "thinning"),
        ({"thinning": None}, TypeError, "thinning"),
        ({"n_chains": 0}, ValueError, "n_chains"),
        ({"n_chains": "a"}, TypeError, "n_chains"),
        ({"method": "swap"}, ValueError, "method"),
        ({"method": None}, ValueError, "method"),
        ({"random_state": -1}, ValueError, "random_state"),
    ],
)
def test_bad_arguments_of_sample(arguments, error, message):
    model = random_model(3, 4, generator(316))
    with pytest.raises(error, match=message):
        model.sample(**{"n_samples": 2, "n_gibbs_steps": 1} | arguments)
    # A refused call uses up no random bits.
    fresh = random_model(3, 4, generator(316))
    assert_same(model.sample(5, 3), fresh.sample(5, 3))


def test_bad_arguments_of_sample_chains():
    model = random_model(3, 4, generator(317))
    for arguments, message in [
        ({"n_draws": 0}, "n_draws"),
        ({"warm_up": -1}, "warm_up"),
        ({"thinning": 0}, "thinning"),
        ({"method": "swap"}, "method"),
    ]:
        with pytest.raises(ValueError, match=message):
            sample_chains(model, **{"n_draws": 2, "n_chains": 2} | arguments)


def bimodal():
    """Units that are all on or all off, one of them in two cases of three."""
    w = 1.3
    components = np.full((6, 8), w)
    return components, np.full(6, -4 * w), np.full(8, -3 * w + 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("state", [0, 1])
def test_tempering_crosses_between_modes(state):
    """Where plain Gibbs sampling stays in the mode it starts from."""
    machine = bimodal()
    exact, model = enumerate_machine(machine), model_with(*machine)
    many = exact.v.sum(axis=1)
    modes = [exact.p_v[many <= 1].sum(), exact.p_v[many >= 7].sum()]
    assert min(modes) > 0.2
    assert sum(modes) > 0.95
    n = 2000
    options = {
        "init": np.full((n, 8), state),
        "warm_up": 200,
        "random_state": int(generator(318).integers(2**31)),
    }
    law = np.bincount(many, weights=exact.p_v)
    p_values = {}
    for method in ["gibbs", "tempering"]:
        drawn = sample_chains(model, 1, method=method, **options)[0]
        counts = np.bincount(drawn.sum(axis=1), minlength=9)
        p_values[method] = chi_square_p_value(counts, law)
    assert p_values["gibbs"] < 1e-100
    assert p_values["tempering"] > RARE


# ---- Imputation ----


@pytest.mark.thinned(2)
@floats
def test_imputed_means(dtype):
    """Conditional means of all missing units, by many rows of a pattern."""
    machine = strong_machine(dtype)
    exact, model = enumerate_machine(machine), model_with(*machine)
    for seed, observed in enumerate(
        [OBSERVED, np.full(6, NAN), np.array([0, 1, NAN, NAN, NAN, NAN])]
    ):
        X = np.tile(observed, (1000, 1)).astype(dtype)
        filled = impute(
            model,
            X,
            np.isnan(X),
            n_gibbs_steps=200,
            random_state=int(generator(319, seed).integers(2**31)),
        )
        mean = conditional(exact, observed) @ exact.v
        # Rows are independent: their spread tells the error of their mean.
        error = filled.std(axis=0, ddof=1) / np.sqrt(len(X))
        missing = np.isnan(observed)
        z = (filled.mean(axis=0) - mean)[missing] / error[missing]
        # Residual of the warm-up: far below an error.
        assert np.abs(z).max() < norm.isf(RARE / 2)
        # The estimator sums the states of so few hidden units.
        precision = 1e-12 if dtype == np.float64 else 1e-6
        found = model.impute(X[:2])[:, missing]
        np.testing.assert_allclose(found, [mean[missing]] * 2, rtol=precision)


def test_the_method_of_imputed_means_does_not_matter():
    """Sums over 2^12 hidden states, or chains, of which a model of 2^13 needs some."""
    rng = generator(336)
    lacking = rng.permuted(
        np.arange(20) < np.arange(9, 14)[:, None].repeat(10, 0), axis=1
    )
    X = np.where(lacking, NAN, bits(50, 20, rng))  # (fewer bits would be summed)
    few, more = random_model(12, 20, rng), random_model(13, 20, rng)
    draw = {"n_gibbs_steps": 2000, "random_state": 0}
    chains = impute(few, X, np.isnan(X), **draw)
    np.testing.assert_allclose(few.impute(X, **draw), chains, atol=0.1)
    assert_same(few.impute(X, random_state=1), few.impute(X, random_state=2))
    assert_same(few.impute(np.asfortranarray(X)), few.impute(X))
    assert_same(more.impute(X, **draw), impute(more, X, np.isnan(X), **draw))
    # Beside many visible units the sums of fewer hidden ones take as long.
    wide = random_model(12, 257, rng)
    X_wide = np.where(rng.random((3, 257)) < 0.3, NAN, bits(3, 257, rng))
    found = wide.impute(X_wide, random_state=0)
    assert_same(found, impute(wide, X_wide, np.isnan(X_wide), random_state=0))
    # Few bits that are missing are summed themselves, beside chains of other rows.
    Y = X.copy()
    Y[::2] = np.where(rng.random((25, 20)) < 0.2, NAN, bits(25, 20, rng))
    summed = np.isnan(Y).sum(axis=1) <= 8
    assert 20 < summed.sum() < 30
    found = more.impute(Y, **draw)
    exact = fill_exactly(more._layered(), Y, np.isnan(Y))
    np.testing.assert_allclose(found[summed], exact[summed], rtol=1e-9)
    rest = Y[~summed]
    assert_same(found[~summed], impute(more, rest, np.isnan(rest), **draw))
    # A unit more that does nothing changes nothing.
    few.components_ = np.vstack([few.components_, np.zeros(20)])
    few.intercept_hidden_ = np.append(few.intercept_hidden_, 0.7)
    np.testing.assert_allclose(few.impute(X, **draw), chains, atol=0.1)


@pytest.mark.parametrize("kind", ["float32", "mixed", "deep"])
def test_missing_bits_are_summed(kind):
    """Their states, as exact as those of the hidden units."""
    rng, X = generator(337), np.array(table(60), float)
    if kind == "mixed":
        model = mixed_rbm(n_iter=5, random_state=0).fit(X)
        units = model._columns().encode(X)
    else:
        units = bits(60, 12, rng)
        model = random_model(5, 12, rng)
        if kind == "deep":
            model = DBMTransformer((6, 3), n_iter=3, random_state=0).fit(units)
            units = np.hstack([units, np.zeros((60, 3))])
    layers = layers_of(model)
    if kind == "float32":
        layers = replace(
            layers,
            weights=[layers.weights[0].astype(np.float32)],
            biases=[bias.astype(np.float32) for bias in layers.biases],
        )
    binary = are(kinds_by_column(as_unit(layers.units[0]), units.shape[1]), 0)
    missing = binary & (rng.random(units.shape) < 0.3)
    missing[:, 12:] |= kind == "deep"
    few = few_bits_missing(layers, missing)
    assert few.sum() > 10
    found = fill_bits_exactly(layers, units[few], missing[few])
    wanted = fill_exactly(layers, units[few], missing[few])
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    if not binary.all():
        missing[:, ~binary] = True
        assert not few_bits_missing(layers, missing).any()


@pytest.mark.slow
@floats
def test_imputed_draws(dtype):
    """Joint draws: chi-square over the missing pattern."""
    machine = strong_machine(dtype)
    exact, model = enumerate_machine(machine), model_with(*machine)
    X = np.tile(OBSERVED, (N_CHAINS, 1)).astype(dtype)
    filled = model.impute(
        X,
        method="sample",
        n_gibbs_steps=60,
        random_state=int(generator(320).integers(2**31)),
    )
    assert set(np.unique(filled)) == {0, 1}
    assert_law(filled, conditional(exact, OBSERVED))


def test_imputed_draws_of_single_sweeps():
    """One sweep from independent units: the law by enumeration."""
    machine = strong_machine()
    exact, model = enumerate_machine(machine), model_with(*machine)
    model.visible_mean_ = np.array([0.9, 0.2, 0.7, 0.5, 0.6, 0.1])
    X = np.tile(OBSERVED, (N_CHAINS, 1))
    free = np.isnan(OBSERVED)
    p = np.where(exact.v, model.visible_mean_, 1 - model.visible_mean_)
    start = p[:, free].prod(axis=1) * (exact.v[:, ~free] == OBSERVED[~free]).all(axis=1)
    drawn = start @ exact.p_h_given_v @ exact.p_v_given_h
    law = np.zeros(8)
    np.add.at(law, state_numbers(exact.v[:, free]), drawn)
    filled = model.impute(
        X,
        method="sample",
        n_gibbs_steps=1,
        random_state=int(generator(321).integers(2**31)),
    )
    counts = np.bincount(state_numbers(filled[:, free]), minlength=8)
    assert chi_square_p_value(counts, law) > RARE


@pytest.mark.parametrize(
    "n_steps, kept", [(1, [1]), (2, [2]), (3, [2, 3]), (4, [3, 4])]
)
def test_imputed_means_of_few_sweeps(n_steps, kept):
    """Means given the hidden units of the second half of the sweeps, no others."""
    machine = strong_machine()
    exact, model = enumerate_machine(machine), model_with(*machine)
    model.visible_mean_ = np.array([0.9, 0.2, 0.95, 0.5, 0.05, 0.1])
    free = np.isnan(OBSERVED)
    held = (exact.v[:, ~free] == OBSERVED[~free]).all(axis=1)
    p = np.where(exact.v, model.visible_mean_, 1 - model.visible_mean_)
    law, means = p[:, free].prod(axis=1) * held, []
    # Of a sweep only the free units are kept.
    where = state_numbers(np.where(free, exact.v, OBSERVED))
    for _ in range(n_steps):
        hidden = law @ exact.p_h_given_v
        means.append(hidden @ exact.visible_means)
        law = np.bincount(where, weights=hidden @ exact.p_v_given_h, minlength=64)
    X = np.tile(OBSERVED, (N_CHAINS, 1))
    filled = impute(
        model,
        X,
        np.isnan(X),
        n_gibbs_steps=n_steps,
        random_state=int(generator(335, n_steps).integers(2**31)),
    )[:, free]
    expected = np.mean([means[k - 1] for k in kept], axis=0)[free]
    error = filled.std(axis=0, ddof=1) / np.sqrt(N_CHAINS)
    assert np.abs((filled.mean(axis=0) - expected) / error).max() < norm.isf(RARE / 2)
    for k in range(1, n_steps + 1):
        if k not in kept:  # others would have been noticed
            assert np.abs((means[k - 1][free] - expected) / error).max() > 10


@pytest.mark.slow
def test_imputing_beside_probabilities():
    """Observed values in (0, 1) enter the fields of hidden units linearly."""
    components, hidden, visible = machine = strong_machine()
    model = model_with(*machine)
    observed = np.array([0.3, NAN, NAN, 0.8, 0.5, 1.0])
    free = np.isnan(observed)
    # The chain of the two missing units, by enumeration.
    v, h = all_states(2), all_states(4)
    rows = np.tile(observed, (4, 1))
    rows[:, free] = v
    on = 1 / (1 + np.exp(-(hidden + rows @ components.T)))
    up = np.where(h, on[:, np.newaxis], 1 - on[:, np.newaxis]).prod(axis=2)
    on = 1 / (1 + np.exp(-(visible[free] + h @ components[:, free])))
    down = np.where(v, on[:, np.newaxis], 1 - on[:, np.newaxis]).prod(axis=2)
    law = np.full(4, 0.25) @ np.linalg.matrix_power(up @ down, 60)
    filled = model.impute(
        np.tile(observed, (N_CHAINS, 1)),
        method="sample",
        n_gibbs_steps=60,
        random_state=int(generator(322).integers(2**31)),
    )
    counts = np.bincount(state_numbers(filled[:, free]), minlength=4)
    assert chi_square_p_value(counts, law) > RARE
    assert (filled[:, ~free] == observed[~free]).all()


@floats
@pytest.mark.parametrize("method", ["mean", "sample"])
def test_imputing_keeps_what_is_observed(method, dtype):
    rng = generator(323)
    model = random_model(9, 20, rng, dtype)
    X = rng.random((40, 20)).astype(dtype)
    X[rng.random(X.shape) < 0.3] = NAN
    X[0], X[1] = NAN, 0.25
    X.setflags(write=False)
    mask = rng.random(X.shape) < 0.2
    for masked in (None, mask, mask[2]):
        missing = np.isnan(X) if masked is None else np.isnan(X) | masked
        filled = model.impute(X, mask=masked, method=method, random_state=1)
        assert filled.dtype == dtype
        assert np.array_equal(filled[~missing], X[~missing])
        assert ((filled >= 0) & (filled <= 1)).all()
        if method == "sample":
            assert set(np.unique(filled[missing])) == {0, 1}
    # What stood where a value is masked does not matter.
    other = np.where(mask, 0.125, X)
    assert_same(
        model.impute(other, mask=mask, method=method, random_state=1),
        model.impute(X, mask=mask, method=method, random_state=1),
    )
    complete = np.nan_to_num(X)
    found = model.impute(complete, method=method, random_state=1)
    assert_same(found, complete)
    found[:] = 7  # the user's to change
    assert complete.max() < 1


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32])
def test_imputing_bits_of_any_type(dtype):
    rng = generator(324)
    model = random_model(9, 20, rng)
    X, mask = bits(30, 20, rng), bits(30, 20, rng)
    for method in "mean", "sample":
        draw = {"method": method, "random_state": 2}
        found = model.impute(X.astype(dtype), mask=mask, **draw)
        wanted = model.impute(X.astype(float), mask=mask, **draw)
        assert_same(found, wanted)
    assert_same(impute(model, X.astype(dtype), mask, **draw), wanted)
    with pytest.raises(TypeError, match="Sparse data was passed for X"):
        impute(model, sp.csr_array(X), mask)


def test_random_bits_of_imputing():
    model = random_model(9, 20, generator(325))
    X = np.full((5, 20), NAN)

    def drawn(model, seed=None):
        return model.impute(X, method="sample", random_state=seed)

    first = drawn(model, 3)
    assert_same(drawn(model, 3), first)
    assert not np.array_equal(drawn(model, 4), first)
    one, two = drawn(model), drawn(model)
    assert not np.array_equal(one, two)
    again = random_model(9, 20, generator(325))
    assert_same([drawn(again), drawn(again)], [one, two])
    # The public function, on the same seed.
    found = impute(model, X, np.isnan(X), method="sample", random_state=3)
    assert_same(found, first)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"mask": np.zeros((3, 4))}, ValueError, "mask must be bool"),
        ({"mask": np.zeros((4, 3), bool)}, ValueError, "mask"),
        ({"mask": np.zeros(3, bool)}, ValueError, "mask"),
        ({"method": "mode"}, ValueError, "method"),
        ({"n_gibbs_steps": 0}, ValueError, "n_gibbs_steps"),
        ({"n_gibbs_steps": 1.0}, TypeError, "n_gibbs_steps"),
        ({"random_state": "x"}, ValueError, "random_state"),
        ({"X": np.zeros((3, 5))}, ValueError, "features"),
        ({"X": np.full((3, 4), np.inf)}, ValueError, "infinity"),
        ({"X": sp.csr_array(np.zeros((3, 4)))}, TypeError, "[Ss]parse"),
    ],
)
def test_bad_arguments_of_impute(arguments, error, message):
    model = random_model(3, 4, generator(326))
    with pytest.raises(error, match=message):
        model.impute(**{"X": np.zeros((3, 4))} | arguments)
    with pytest.warns(UserWarning, match="stand for values"):
        model.impute(np.full((3, 4), 2.0))


def test_impute_takes_what_is_like_an_array():
    model = random_model(3, 4, generator(327))
    X = np.array([[0, 1, NAN, 0.5], [1, NAN, NAN, 0]])
    missing = np.isnan(X)
    wanted = impute(model, X, missing, random_state=0)
    assert_same(impute(model, X.tolist(), missing.tolist(), random_state=0), wanted)
    layers = model._layered()
    assert impute(layers, X, missing, random_state=0).shape == X.shape
    for bad in [
        lambda: impute(model, X, np.zeros_like(missing)),  # NaN that is not missing
        lambda: impute(model, X, missing[:1]),
        lambda: impute(model, X[:, :3], missing[:, :3]),
        lambda: impute(model, X, missing, method="mode"),
        lambda: impute(model, X, missing, n_gibbs_steps=0),
    ]:
        with pytest.raises(ValueError):
            bad()


# ---- Diagnostics ----


def autoregression(phi, n_draws, n_chains, rng):
    """x_t = phi x_{t-1} + noise, started in its law of variance 1."""
    x = rng.normal(size=(n_draws, n_chains))
    x[1:] *= np.sqrt(1 - phi**2)
    for before, now in pairwise(x):
        now += phi * before
    return x


@pytest.mark.thinned(3)
@pytest.mark.parametrize("n_chains", [1, 4])
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.3])
def test_autocorrelation_time(phi, n_chains):
    """(1 + phi) / (1 - phi) for an autoregression."""
    rng = generator(328, n_chains)
    tau, n_draws = (1 + phi) / (1 - phi), 4000
    found = np.array(
        [
            autocorrelation_time(autoregression(phi, n_draws, n_chains, rng))
            for _ in range(40)
        ]
    )
    # Spread of a sum up to about the lag 6 tau, of so many draws (Sokal).
    window = max(6 * tau, 10)
    error = tau * np.sqrt(2 * (2 * window + 1) / (n_draws * n_chains))
    assert (np.abs(found - tau) < 6 * error).all()
    # The mean errs less; cutting off costs a few parts in a hundred at most.
    assert abs(found.mean() - tau) < 0.05 * tau + 6 * error / np.sqrt(40)


def test_autocorrelation_time_counts_differences_between_chains():
    """Variance of the true mean is that of the chains' means over n_chains."""
    rng = generator(329)
    x = rng.normal(size=(2000, 8))
    apart = x + np.linspace(-5, 5, 8)
    assert autocorrelation_time(x) < 1.5
    assert autocorrelation_time(apart) > 500
    assert effective_sample_size(apart) < 32


def test_autocorrelation_time_of_special_chains():
    n = 1000
    swinging = np.tile([[1.0], [-1.0]], (n // 2, 3))
    swinging = swinging + 0.01 * generator(330).normal(size=swinging.shape)
    # Better than independent draws, as far as can be told from so many.
    assert 0 < autocorrelation_time(swinging) < 1
    for constant in (0.0, 1.0, 0.1, -1 / 3, 1e300, 1e-300):
        x = np.full((n, 4), constant)
        assert autocorrelation_time(x) == 1
        assert autocorrelation_time(x[:, 0]) == 1
        assert effective_sample_size(x) == 4 * n
        assert r_hat(x) == 1
    rng = generator(331)
    for x in [rng.normal(size=(2, 1)), rng.normal(size=(3, 2)), rng.normal(size=5)]:
        assert 0 < autocorrelation_time(x) < np.inf


def test_diagnostics_do_not_depend_on_scale_or_place():
    x = autoregression(0.7, 500, 3, generator(332))
    for function in (autocorrelation_time, effective_sample_size, r_hat):
        assert function(100 + 3 * x) == pytest.approx(function(x), rel=1e-9)
        assert function(x[:, ::-1]) == pytest.approx(function(x), rel=1e-9)
        assert function(x.tolist()) == function(x)
    assert effective_sample_size(x) == pytest.approx(1500 / autocorrelation_time(x))
    one = x[:, 0]
    assert autocorrelation_time(one) == autocorrelation_time(one[:, np.newaxis])


@pytest.mark.parametrize("scale", [1e-310, 1e-170, 1e160, 1e308])
def test_diagnostics_of_numbers_whose_squares_are_none(scale):
    x = autoregression(0.99, 500, 3, generator(336))
    x /= np.abs(x).max()
    for function in (autocorrelation_time, effective_sample_size, r_hat):
        assert function(scale * x) == pytest.approx(function(x), rel=1e-3)


def test_effective_sample_size_is_that_of_the_mean():
    """The mean of chains has the variance of so many independent draws."""
    rng = generator(333)
    x = autoregression(0.8, 1000, 2000, rng)
    size = np.mean([effective_sample_size(x[:, k]) for k in range(200)])
    variance = (x.mean(axis=0) ** 2).mean()  # error sqrt(2 / 2000)
    assert 1 / variance == pytest.approx(size, rel=6 * np.sqrt(2 / 2000) + 0.05)


def test_r_hat():
    rng = generator(334)
    found = [r_hat(rng.normal(size=(1000, 4))) for _ in range(50)]
    # r_hat**2 - 1 is about (chi2_7 / 7 - 1) / 500.
    assert np.abs(np.array(found) - 1).max() < 0.01
    assert np.mean(found) == pytest.approx(1, abs=1e-3)
    apart = rng.normal(size=(1000, 4)) + np.arange(4)
    # Between chains 5/3 plus 1 within, in halves 10/7.
    assert r_hat(apart) == pytest.approx(np.sqrt(1 + 10 / 7), rel=0.05)
    drift = rng.normal(size=(1000, 2)) + np.linspace(0, 4, 1000)[:, np.newaxis]
    assert r_hat(drift) > 1.3
    assert r_hat(np.arange(8.0)) > 1.5
    assert r_hat(np.tile([0.0, 1.0], (10, 1))) == np.inf
    # By hand: half-chains (0, 1), (4, 5), each of variance 1/2; their means
    # 0.5 and 4.5 of variance 8.
    assert r_hat([0.0, 1, 4, 5]) == pytest.approx(np.sqrt(1 / 2 + 16))
    with pytest.raises(ValueError, match="at least 4 draws"):
        r_hat(np.zeros((3, 5)))


def test_bad_draws():
    for x in [np.zeros((2, 2, 2)), np.zeros(1), np.zeros((1, 5)), 3.0]:
        for function in (autocorrelation_time, effective_sample_size, r_hat):
            with pytest.raises(ValueError, match="n_draws, n_chains"):
                function(x)
    for function in (autocorrelation_time, effective_sample_size, r_hat):
        for odd in (np.nan, np.inf):
            with pytest.raises(ValueError, match="finite"):
                function(np.array([[0.0, 1], [1, 0], [2, odd], [3, 3], [4, 1]]))
