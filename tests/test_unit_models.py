"""Machines of units of any kind: their chains, free energies and partition functions.

Models small enough for every law to be summed or integrated.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, log_ndtr, logsumexp, ndtr, ndtri_exp, softmax
from scipy.stats import kstest, poisson
from threadpoolctl import threadpool_limits

import reference_units
from common import floats
from reference import chi_square_p_value, generator
from sklearn_ebm._enumeration import can_enumerate
from sklearn_ebm._gibbs import Purpose
from sklearn_ebm._machines import Machine
from sklearn_ebm._unit_paths import UnitPath
from sklearn_ebm._units import Kind
from sklearn_ebm.layered import Layered
from sklearn_ebm.likelihood import (
    free_energy,
    log_likelihood,
    log_partition,
)
from sklearn_ebm.samplers import Gibbs, impute, sample_chains
from sklearn_ebm.samplers._jumps import Jumps
from sklearn_ebm.units import (
    Bernoulli,
    Categorical,
    Gaussian,
    Mixed,
    Poisson,
    ReLU,
    Spin,
    as_unit,
)

pytestmark = pytest.mark.usefixtures("one_thread")
RARE = 1e-6
N_CHAINS = 20_000
KEY = 77
# Units with finitely many states, and columns of a layer.
FINITE = {
    "bernoulli": (Bernoulli(), 3),
    "spin": (Spin(), 3),
    "categorical": (Categorical(3), 6),
}
MIXED = Mixed(
    ((2, Bernoulli()), (3, Categorical(3)), (1, Gaussian(1.0, 0.7)), (1, Poisson()))
)
INFINITE = {
    "gaussian": (Gaussian([-1.0, 2.0], [0.6, 1.5]), 2),
    "relu": (ReLU(), 2),
    "poisson": (Poisson(), 2),
    "mixed": (MIXED, 7),
}
REAL = {"gaussian": Gaussian(0.5, 1.2), "relu": ReLU()}
# Units that have no joint distribution with others that are infinitely many.
COUNTS = {"poisson", "mixed"}


def parts_of(unit, n):
    """(kind, columns, loc, scale) of every unit of a layer."""
    at, found = 0, []
    for width, part in getattr(unit, "parts", [(n, unit)]):
        loc, scale = (
            np.broadcast_to(getattr(part, name, 0.0), width)
            for name in ("loc", "scale")
        )
        for k in range(0, width, part.size):
            columns = np.arange(at + k, at + k + part.size)
            found.append((part.kind, columns, loc[k], scale[k]))
        at += width
    return found


def states_of(unit, n):
    """All states of a layer."""
    rows = np.zeros((1, 0))
    for kind, columns, *_ in parts_of(unit, n):
        one = np.eye(len(columns))
        if kind != Kind.CATEGORICAL:
            one = np.array([[0.0 if kind == Kind.BERNOULLI else -1.0], [1.0]])
        rows = np.hstack([np.repeat(rows, len(one), 0), np.tile(one, (len(rows), 1))])
    return rows


def numbers(rows, states):
    """Where rows stand among the states; every row must."""
    same = (rows[:, np.newaxis] == states).all(axis=2)
    assert same.any(axis=1).all()
    return same.argmax(axis=1)


def log_partitions(unit, fields):
    """Sum over the units of a layer, of rows of fields, from the definition."""
    total = np.zeros(len(fields))
    for kind, columns, loc, scale in parts_of(unit, fields.shape[1]):
        x = fields[:, columns]
        if kind == Kind.CATEGORICAL:
            total += logsumexp(x, axis=1)
        else:
            total += [
                reference_units.log_partition(kind, f, loc, scale) for f in x[:, 0]
            ]
    return total


def energies(unit, rows):
    return sum(
        reference_units.energy(kind, rows[:, columns], loc, scale).sum(axis=1)
        for kind, columns, loc, scale in parts_of(unit, rows.shape[1])
    )


def drawn(unit, fields, rng):
    """Exact draws of a layer by NumPy."""
    out = np.empty_like(fields)
    u = rng.random(fields.shape)
    for kind, columns, loc, scale in parts_of(unit, fields.shape[1]):
        x, k = fields[:, columns], columns[0]
        if kind == Kind.CATEGORICAL:
            which = (u[:, [k]] > softmax(x, axis=1).cumsum(axis=1)[:, :-1]).sum(axis=1)
            out[:, columns] = np.eye(len(columns))[which]
            continue
        x = x[:, 0]
        if kind == Kind.BERNOULLI:
            out[:, k] = u[:, k] < expit(x)
        elif kind == Kind.SPIN:
            out[:, k] = np.where(u[:, k] < expit(2 * x), 1, -1)
        elif kind == Kind.GAUSSIAN:
            out[:, k] = rng.normal(loc + scale**2 * x, scale)
        elif kind == Kind.RELU:
            out[:, k] = x - ndtri_exp(np.log(u[:, k]) + log_ndtr(x))
        else:
            out[:, k] = rng.poisson(np.exp(x))
    return out


def random_layers(visible, hidden, seed, scale=0.8, dtype=np.float64):
    (v, D), (h, H) = visible, hidden
    rng = generator(650, seed)
    weights = scale * np.clip(rng.normal(size=(D, H)), -1.5, 1.5)
    if not set(FINITE.values()) >= {visible, hidden}:
        weights /= 2
    if any(kind == Kind.POISSON for kind, *_ in parts_of(v, D) + parts_of(h, H)):
        weights = np.clip(weights, -0.3, 0.3)  # counts of tens, not of millions
    b, c = 0.4 * rng.normal(size=(1, D)), 0.4 * rng.normal(size=(1, H))
    # Centred, so that no layer stays in one state.
    biases = (b - h.mean(c) @ weights.T)[0], (c - v.mean(b) @ weights)[0]
    return Layered(
        (v, h), (weights.astype(dtype),), tuple(b.astype(dtype) for b in biases)
    )


def column_p_values(unit, rows, p, fields):
    """Whether the columns of rows are a mixture (p) of units with these fields."""
    found = []
    for kind, columns, loc, scale in parts_of(unit, rows.shape[1]):
        x, one = fields[:, columns], rows[:, columns[0]].astype(float)
        if kind in (Kind.GAUSSIAN, Kind.RELU):
            x = x[:, 0]
            if kind == Kind.GAUSSIAN:
                ranks = ndtr((one[:, None] - loc - scale**2 * x) / scale) @ p
            else:
                ranks = 1 - np.exp(log_ndtr(x - one[:, None]) - log_ndtr(x)) @ p
            found.append(kstest(ranks, "uniform").pvalue)
            continue
        if kind == Kind.CATEGORICAL:
            counts, law = rows[:, columns].sum(axis=0), p @ softmax(x, axis=1)
        elif kind == Kind.POISSON:
            top = int(one.max()) + 2
            counts = np.bincount(one.astype(int), None, top)
            law = p @ poisson.pmf(np.arange(top), np.exp(x))
            law[-1] = 1 - law[:-1].sum()
        else:
            on = p @ expit(x[:, 0] if kind == Kind.BERNOULLI else 2 * x[:, 0])
            counts = np.array([(one != 1).sum(), (one == 1).sum()])
            law = np.array([1 - on, on])
        found.append(chi_square_p_value(counts, law))
    return np.array(found)


def finite_hidden(layers):
    """States of the hidden layer, their probabilities, and fields of visible units."""
    bias, c = layers.biases
    states = states_of(as_unit(layers.units[1]), len(c))
    fields = bias + states @ layers.weights[0].T
    log_p = states @ c + log_partitions(as_unit(layers.units[0]), fields)
    return states, softmax(log_p), fields, logsumexp(log_p)


# ---- Chains ----


@pytest.mark.thinned(8)
@floats
@pytest.mark.parametrize("hidden", FINITE)
@pytest.mark.parametrize("visible", FINITE | INFINITE)
def test_chains_of_finite_hidden_layers(visible, hidden, dtype):
    layers = random_layers(
        (FINITE | INFINITE)[visible], FINITE[hidden], seed=1, dtype=dtype
    )
    unit, c = as_unit(layers.units[0]), layers.biases[1].astype(float)
    states, p, fields, _ = finite_hidden(layers)
    assert p.max() < 0.95
    rng = generator(651)
    least = RARE / 10
    sampler = Gibbs(layers)

    # One step from fixed states is p(h | v) and then p(v' | h).
    for v in drawn(unit, fields[:2], rng).astype(dtype):
        chains = sampler.init(init=np.tile(v, (N_CHAINS, 1)), random_state=3)
        given = softmax(states @ (c + layers.weights[0].T.astype(float) @ v))
        after = sampler.step(chains).visible
        assert after.dtype == (bool if {visible, hidden} == {"bernoulli"} else dtype)
        assert column_p_values(unit, after, given, fields).min() > least
        # Visible units are independent given the hidden ones only.
        if visible in FINITE:
            every = states_of(unit, len(v))
            law = given @ softmax(fields @ every.T, axis=1)
            counts = np.bincount(numbers(after, every), None, len(every))
            assert chi_square_p_value(counts, law) > least

    # Exact samples stay exact, in the marginal laws of both layers.
    h = rng.choice(len(p), N_CHAINS, p=p)
    chains = sampler.init(init=drawn(unit, fields[h], rng), random_state=4)
    machine = Machine(layers)
    for n_steps in (1, 3, 12):
        chains = sampler.step(chains, n_steps)
        assert column_p_values(unit, chains.visible, p, fields).min() > least
        counter = KEY, n_steps, Purpose.DRAW_HIDDEN
        above = machine.up.draw(chains.visible, *counter)
        counts = np.bincount(numbers(above, states), None, len(states))
        assert chi_square_p_value(counts, p) > least


@pytest.mark.thinned(5)
@pytest.mark.parametrize("hidden", INFINITE)
@pytest.mark.parametrize("visible", FINITE)
def test_chains_under_infinite_hidden_layers(visible, hidden):
    layers = random_layers(FINITE[visible], INFINITE[hidden], seed=2, scale=0.5)
    states, p, *_ = finite_hidden(layers.reversed())
    assert p.max() < 0.95
    start = generator(652).choice(len(p), N_CHAINS, p=p)
    sampler = Gibbs(layers)
    chains = sampler.init(init=states[start], random_state=5)
    for n_steps in (1, 3, 12):
        chains = sampler.step(chains, n_steps)
        now = numbers(chains.visible, states)
        assert chi_square_p_value(np.bincount(now, None, len(p)), p) > RARE
        if n_steps == 1:
            # In balance: as many go from a state to another as come back; and do go.
            moves = np.zeros((len(p), len(p)))
            np.add.at(moves, (start, now), 1)
            upper = np.triu_indices(len(p), 1)
            there, back = moves[upper], moves.T[upper]
            both = np.stack([there, back], axis=1)[there + back > 40]
            half = np.full(both.shape, 0.5)
            assert chi_square_p_value(both.astype(int), half) > RARE
            assert there.sum() + back.sum() > 0.2 * N_CHAINS


@pytest.mark.thinned(8)
@floats
@pytest.mark.parametrize("time", [0.1, 1.0])
@pytest.mark.parametrize("hidden", FINITE)
@pytest.mark.parametrize("visible", ["gaussian", "mixed"])
def test_langevin_steps_leave_the_model_as_it_is(visible, hidden, time, dtype):
    layers = random_layers(INFINITE[visible], FINITE[hidden], seed=7, dtype=dtype)
    unit, c = as_unit(layers.units[0]), layers.biases[1].astype(float)
    states, p, fields, _ = finite_hidden(layers)
    rng = generator(654)
    sampler = Gibbs(layers, langevin_time=time)
    least = RARE / 10

    # One step: real units are normal between where they were and their means.
    v = drawn(unit, fields[:1], rng).astype(dtype)[0]
    chains = sampler.init(init=np.tile(v, (N_CHAINS, 1)), random_state=3)
    given = softmax(states @ (c + layers.weights[0].T.astype(float) @ v))
    after = sampler.step(chains).visible
    assert after.dtype == dtype
    keep, means = np.exp(-time), unit.mean(fields)
    for kind, columns, _, scale in parts_of(unit, len(v)):
        if kind == Kind.GAUSSIAN:
            k = columns[0]
            mean = means[:, k] + keep * (v[k] - means[:, k])
            now = after[:, [k]].astype(float)
            ranks = ndtr((now - mean) / (scale * np.sqrt(1 - keep**2))) @ given
            assert kstest(ranks, "uniform").pvalue > least

    # Exact samples stay exact, in the marginal laws of both layers.
    h = rng.choice(len(p), N_CHAINS, p=p)
    chains = sampler.init(init=drawn(unit, fields[h], rng), random_state=4)
    for n_steps in (1, 3, 12):
        chains = sampler.step(chains, n_steps)
        assert column_p_values(unit, chains.visible, p, fields).min() > least
        counter = KEY, n_steps, Purpose.DRAW_HIDDEN
        above = sampler.machine.up.draw(chains.visible, *counter)
        counts = np.bincount(numbers(above, states), None, len(states))
        assert chi_square_p_value(counts, p) > least


def test_langevin_steps_of_a_long_time_are_those_of_gibbs():
    layers = random_layers(INFINITE["mixed"], FINITE["spin"], seed=8)
    draws = {
        time: sample_chains_for(layers, time) for time in (None, 1e-6, 1.0, 40.0, 1e4)
    }
    np.testing.assert_array_equal(draws[1e4], draws[None])
    np.testing.assert_allclose(draws[40.0], draws[None], rtol=1e-9, atol=1e-12)
    # The real unit is the sixth column.
    assert (draws[1.0][:, 5] != draws[None][:, 5]).all()
    first = Gibbs(layers).init(50, random_state=0).visible
    assert np.abs(draws[1e-6][:, 5] - first[:, 5]).max() < 0.02
    one = sample_chains(layers, 1, 50, warm_up=3, method="langevin", random_state=0)
    np.testing.assert_array_equal(one[0], draws[1.0])


def fields_near(layers, seed):
    """Fields of hidden units, as given rows but not quite."""
    rng = generator(658, seed)
    bias, c = layers.biases
    v = drawn(as_unit(layers.units[0]), np.tile(bias, (3, 1)), rng)
    fields = c + v @ layers.weights[0]
    return fields + 0.3 * rng.normal(size=fields.shape)


@pytest.mark.thinned(8)
@pytest.mark.parametrize("hidden", FINITE)
@pytest.mark.parametrize("visible", FINITE | INFINITE)
def test_jumps_by_the_rule_of_metropolis_and_hastings(visible, hidden):
    dtype = np.float32
    layers = random_layers(
        (FINITE | INFINITE)[visible], FINITE[hidden], seed=1, dtype=dtype
    )
    unit, c = as_unit(layers.units[0]), layers.biases[1].astype(float)
    states, p, fields, _ = finite_hidden(layers)
    rng, least = generator(657), RARE / 10
    near = fields_near(layers, 0)
    jumps = Jumps(layers, near)
    q = np.mean([softmax(states @ x) for x in near], axis=0)

    # Chains start at hidden states near the rows, and what these draw.
    start = jumps.start(N_CHAINS, KEY, 0)
    assert start.dtype == dtype
    assert column_p_values(unit, start, q, fields).min() > least

    # One jump from fixed states: those that stay are where they were, others at
    # draws given a hidden state that was proposed and accepted.
    for v in drawn(unit, fields[:2], rng).astype(dtype):
        after = jumps.jump(np.tile(v, (N_CHAINS, 1)), KEY, 1)
        given = softmax(states @ (c + layers.weights[0].T.astype(float) @ v))
        ratio = (p / q) / (p / q)[:, np.newaxis]
        taken = given @ np.minimum(1, ratio) * q
        moved = (after != v).any(axis=1)
        if visible in INFINITE:
            law = np.array([taken.sum(), 1 - taken.sum()])
            if visible != "poisson":
                counts = np.array([moved.sum(), N_CHAINS - moved.sum()])
                assert chi_square_p_value(counts, law) > least
                found = column_p_values(unit, after[moved], taken / law[0], fields)
                assert found.min() > least
        else:
            every = states_of(unit, len(v))
            law = taken @ softmax(fields @ every.T, axis=1)
            law[numbers(v[np.newaxis], every)[0]] += 1 - taken.sum()
            counts = np.bincount(numbers(after, every), None, len(every))
            assert chi_square_p_value(counts, law) > least

    # Exact samples stay exact, and do not stay where they are (of some machines, most
    # are in one state).
    h = rng.choice(len(p), N_CHAINS, p=p)
    before = now = drawn(unit, fields[h], rng).astype(dtype)
    for step in range(2, 8):
        now = jumps.jump(now, KEY, step)
    assert column_p_values(unit, now, p, fields).min() > least
    assert (now != before).any(axis=1).mean() > 0.2


def log_densities(unit, fields, row, fixed):
    """Log-densities of the fixed units of a row, given rows of fields."""
    total = np.zeros(len(fields))
    for kind, columns, loc, scale in parts_of(unit, len(row)):
        if not fixed[columns[0]]:
            continue
        x, v = fields[:, columns], row[columns]
        total += x @ v - reference_units.energy(kind, v, loc, scale).sum()
        if kind == Kind.CATEGORICAL:
            total -= logsumexp(x, axis=1)
        else:
            total -= [
                reference_units.log_partition(kind, f, loc, scale) for f in x[:, 0]
            ]
    return total


@pytest.mark.thinned(8)
@pytest.mark.parametrize("hidden", FINITE)
@pytest.mark.parametrize("visible", FINITE | INFINITE)
def test_jumps_given_the_values_of_some_units(visible, hidden):
    dtype = np.float32
    layers = random_layers(
        (FINITE | INFINITE)[visible], FINITE[hidden], seed=1, dtype=dtype
    )
    unit, c = as_unit(layers.units[0]), layers.biases[1].astype(float)
    states, p, fields, _ = finite_hidden(layers)
    rng, least = generator(660), RARE / 10
    units = parts_of(unit, len(layers.biases[0]))
    fixed = np.zeros(len(layers.biases[0]), bool)
    for _, columns, *_ in units[::2]:
        fixed[columns] = True
    free = np.arange(len(units)) % 2 == 1
    near = fields_near(layers, 0)
    jumps = Jumps(layers, near)
    means = np.array([softmax(states @ x) @ states for x in near])
    means = layers.biases[0].astype(float) + means @ layers.weights[0].T.astype(float)
    of_rows = np.array([softmax(states @ x) for x in near])
    for v in drawn(unit, fields[[0, len(fields) // 2]], rng).astype(dtype):
        start = np.tile(v, (N_CHAINS, 1))
        given = jumps.given(start, np.tile(fixed, (N_CHAINS, 1)))
        shares = softmax(log_densities(unit, means, v.astype(float), fixed)) / 2
        shares += 0.5 / len(near)
        (kept,) = {each.log_shares[0].tobytes() for each in given}
        found = np.exp(np.frombuffer(kept, dtype))
        np.testing.assert_allclose(found, shares, rtol=1e-4)
        logs = np.log(p) + log_densities(unit, fields, v.astype(float), fixed)
        law, q = softmax(logs), shares @ of_rows

        # One jump: those that move are draws given what was proposed and accepted.
        after = jumps.jump(start, KEY, 1, given)
        np.testing.assert_array_equal(after[:, fixed], start[:, fixed])
        first = softmax(states @ (c + layers.weights[0].T.astype(float) @ v))
        ratio = (law / q) / (law / q)[:, np.newaxis]
        taken = first @ np.minimum(1, ratio) * q
        if visible == "gaussian" or visible == "relu":  # which never draw the same
            moved = (after != v).any(axis=1)
            counts = np.array([moved.sum(), N_CHAINS - moved.sum()])
            wanted = np.array([taken.sum(), 1 - taken.sum()])
            assert chi_square_p_value(counts, wanted) > least
            found = column_p_values(unit, after[moved], taken / wanted[0], fields)
            assert found[free].min() > least

        # Exact samples given the values stay exact.
        now = drawn(unit, fields[rng.choice(len(p), N_CHAINS, p=law)], rng)
        now = np.where(fixed, v, now).astype(dtype)
        for step in range(2, 8):
            now = jumps.jump(now, KEY, step, given)
            np.testing.assert_array_equal(now[:, fixed], start[:, fixed])
        assert column_p_values(unit, now, law, fields)[free].min() > least


@pytest.mark.parametrize("hidden", FINITE)
@pytest.mark.parametrize("visible", FINITE | INFINITE)
def test_log_partition_by_draws_near_rows(visible, hidden):
    layers = random_layers((FINITE | INFINITE)[visible], FINITE[hidden], seed=3)
    states, p, _, log_z = finite_hidden(layers)
    near = fields_near(layers, 2)
    q = np.mean([softmax(states @ x) for x in near], axis=0)
    # The weights p(h) / q(h) of draws h from q(h) have mean 1 and this variance.
    error = np.sqrt(((p / q) ** 2 @ q - 1) / N_CHAINS)
    found, n_effective = Jumps(layers, near).log_partition(N_CHAINS, KEY)
    wanted = N_CHAINS / ((p / q) ** 2 @ q)
    assert 0.9 * wanted < n_effective + 1 and n_effective < N_CHAINS + 1e-6
    assert abs(np.expm1(found - log_z)) < 5 * error + 1e-6


def test_jumps_of_chains_for_which_there_is_no_room_at_once(monkeypatch):
    layers = random_layers(INFINITE["gaussian"], FINITE["bernoulli"], seed=1)
    jumps = Jumps(layers, fields_near(layers, 0))
    start = jumps.start(10, KEY, 0)
    after = jumps.jump(start, KEY, 1)
    assert 0 < (after != start).any(axis=1).sum() < 10
    log_z, _ = jumps.log_partition(10, KEY)
    fixed = np.tile([True, False], (10, 1))
    given = jumps.jump(start, KEY, 1, jumps.given(start, fixed))
    assert 0 < (given != start).any(axis=1).sum() < 10
    monkeypatch.setattr("sklearn_ebm.samplers._jumps.CHUNK", 3)
    found = jumps.jump(start, KEY, 1, jumps.given(start, fixed))
    np.testing.assert_array_equal(found, given)
    np.testing.assert_array_equal(jumps.start(10, KEY, 0), start)
    np.testing.assert_array_equal(jumps.jump(start, KEY, 1), after)
    assert jumps.log_partition(10, KEY)[0] == pytest.approx(log_z)


@pytest.mark.thinned(5)
@pytest.mark.parametrize("hidden", INFINITE)
@pytest.mark.parametrize("visible", FINITE)
def test_jumps_under_infinite_hidden_layers(visible, hidden):
    layers = random_layers(FINITE[visible], INFINITE[hidden], seed=2, scale=0.5)
    states, p, *_ = finite_hidden(layers.reversed())
    start = generator(659).choice(len(p), N_CHAINS, p=p)
    jumps, now = Jumps(layers, fields_near(layers, 1)), states[start]
    for step in range(6):
        now = jumps.jump(now, KEY, step)
    counts = np.bincount(numbers(now, states), None, len(p))
    assert chi_square_p_value(counts, p) > RARE
    assert (numbers(now, states) != start).mean() > 0.2


def sample_chains_for(layers, time):
    sampler = Gibbs(layers, time)
    return sampler.step(sampler.init(50, random_state=0), 3).visible


@pytest.mark.slow
def test_langevin_steps_hold_what_is_given():
    layers = random_layers(INFINITE["gaussian"], FINITE["bernoulli"], seed=9)
    sampler = Gibbs(layers, langevin_time=0.5)
    chains = sampler.init(N_CHAINS, conditions=[np.nan, 1.5], random_state=5)
    v = sampler.step(chains, 80).visible
    assert (v[:, 1] == 1.5).all()
    # p(v_0 | v_1): hidden states weighted by both.
    states, _, fields, _ = finite_hidden(layers)
    free = Gaussian(
        as_unit(layers.units[0]).loc[:1], as_unit(layers.units[0]).scale[:1]
    )
    log_p = states @ (layers.biases[1] + 1.5 * layers.weights[0][1])
    p = softmax(log_p + log_partitions(free, fields[:, :1]))
    assert column_p_values(free, v[:, :1], p, fields[:, :1]).min() > RARE


def test_langevin_steps_need_real_units():
    layers = random_layers(INFINITE["relu"], FINITE["bernoulli"], seed=10)
    with pytest.raises(ValueError, match="are for Gaussian visible units"):
        Gibbs(layers, langevin_time=1.0)
    bits = Layered(("bernoulli",) * 2, (np.ones((3, 2)),), (np.ones(3), np.ones(2)))
    with pytest.raises(ValueError, match="are for Gaussian visible units"):
        sample_chains(bits, 2, method="langevin")
    layers = random_layers(INFINITE["gaussian"], FINITE["bernoulli"], seed=10)
    for time in (0, -1.0, np.nan, np.inf, "1"):
        with pytest.raises(ValueError, match="langevin_time must be a positive number"):
            Gibbs(layers, time)


def density_grid(layers):
    """Values of one visible unit and their distribution function, by quadrature."""
    unit, hidden = map(as_unit, layers.units)
    low = 0.0 if parts_of(unit, 1)[0][0] == Kind.RELU else -25.0
    v = np.linspace(low, 25.0, 8001)[:, np.newaxis]
    log_p = v @ layers.biases[0] - energies(unit, v)
    log_p += hidden.log_partition(v * layers.weights[0] + layers.biases[1])
    p = np.exp(log_p - log_p.max())
    cdf = np.r_[0, np.cumsum((p[1:] + p[:-1]) / 2)]
    return v[:, 0], cdf / cdf[-1]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("hidden", REAL)
@pytest.mark.parametrize("visible", REAL)
@pytest.mark.parametrize("weight", [0.5, -0.5])
def test_chains_between_real_layers(visible, hidden, weight):
    biases = np.array([0.4]), np.array([-0.7])
    units = REAL[visible], REAL[hidden]
    layers = Layered(units, (np.array([[weight]]),), biases)
    v, cdf = density_grid(layers)
    start = np.interp(generator(653).random(N_CHAINS), cdf, v)
    sampler = Gibbs(layers)
    chains = sampler.init(init=start[:, np.newaxis], random_state=6)
    for n_steps in (1, 3, 12):
        chains = sampler.step(chains, n_steps)
        ranks = np.interp(chains.visible[:, 0], v, cdf)
        assert kstest(ranks, "uniform").pvalue > RARE


def test_chains_draw_afresh_at_every_step():
    layers = random_layers(INFINITE["gaussian"], FINITE["spin"], seed=3)
    sampler = Gibbs(layers)
    chains = sampler.init(500, random_state=0)
    once = sampler.step(chains)
    twice = sampler.step(once)
    assert (once.visible != twice.visible).all()
    np.testing.assert_array_equal(sampler.step(chains, 2).visible, twice.visible)
    with threadpool_limits(5):
        np.testing.assert_array_equal(sampler.step(chains, 2).visible, twice.visible)


@pytest.mark.slow
def test_conditions_hold_the_rest_is_conditional():
    layers = random_layers(INFINITE["mixed"], FINITE["bernoulli"], seed=4)
    conditions = np.full(7, np.nan)
    conditions[[0, 5]] = 1, -0.3
    states, _, fields, _ = finite_hidden(layers)
    seen = np.array([0, 5])
    # p(h, other visible | seen): hidden states weighted by what is seen.
    bias, c = layers.biases
    others = Mixed(((1, Bernoulli()), (3, Categorical(3)), (1, Poisson())))
    rest = [1, 2, 3, 4, 6]
    log_p = states @ (c + layers.weights[0][seen].T @ conditions[seen])
    p = softmax(log_p + log_partitions(others, fields[:, rest]))
    v = sample_chains(
        layers, 1, N_CHAINS, warm_up=60, conditions=conditions, random_state=7
    )[0]
    assert (v[:, seen] == conditions[seen]).all()
    assert column_p_values(others, v[:, rest], p, fields[:, rest]).min() > RARE
    # Imputation finds the conditional means.
    X = np.tile(conditions, (300, 1))
    filled = impute(layers, X, np.isnan(X), n_gibbs_steps=400, random_state=8)
    means = p @ others.mean(fields[:, rest])
    for column, mean in zip(rest, means):
        error = filled[:, column].std() / np.sqrt(len(X))
        assert abs(filled[:, column].mean() - mean) < 5 * error


# ---- Free energy and partition functions ----


@pytest.mark.parametrize("hidden", FINITE | INFINITE)
@pytest.mark.parametrize("visible", FINITE | INFINITE)
def test_free_energy_sums_the_hidden_layer_out(visible, hidden):
    everything = FINITE | INFINITE
    layers = random_layers(everything[visible], everything[hidden], seed=5, scale=0.3)
    unit, (bias, c), rng = as_unit(layers.units[0]), layers.biases, generator(654)
    X = drawn(unit, np.tile(bias, (6, 1)), rng)
    fields = c + X @ layers.weights[0]
    wanted = (
        energies(unit, X) - X @ bias - log_partitions(as_unit(layers.units[1]), fields)
    )
    found = Machine(layers).free_energy(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    single = X.astype(np.float32)
    rounded = Machine(layers, np.float32).free_energy(single)
    np.testing.assert_allclose(rounded, wanted, rtol=1e-4, atol=1e-4)
    if {visible, hidden} <= set(INFINITE) and {visible, hidden} & COUNTS:
        with pytest.raises(ValueError, match="no joint distribution"):
            free_energy(layers, X)
    else:
        if {visible, hidden} == {"bernoulli"}:
            # By kernels of their own, in the dtype of the weights.
            np.testing.assert_allclose(free_energy(layers, X), found, rtol=1e-13)
            np.testing.assert_allclose(free_energy(layers, single), wanted, rtol=1e-6)
        else:
            np.testing.assert_array_equal(free_energy(layers, X), found)
            np.testing.assert_array_equal(free_energy(layers, single), rounded)
    if hidden in FINITE:
        states = states_of(as_unit(layers.units[1]), len(c))
        every = [layers.energy(np.tile(v, (len(states), 1)), states) for v in X]
        np.testing.assert_allclose(wanted, -logsumexp(-np.array(every), axis=1))


@pytest.mark.parametrize("hidden", FINITE | INFINITE)
@pytest.mark.parametrize("visible", FINITE | INFINITE)
def test_exact_log_z(visible, hidden):
    everything = FINITE | INFINITE
    layers = random_layers(everything[visible], everything[hidden], seed=6, scale=0.3)
    if visible in FINITE or hidden in FINITE:
        wanted = finite_hidden(layers if hidden in FINITE else layers.reversed())[3]
        result = log_partition(layers)
        np.testing.assert_allclose(float(result), wanted, rtol=1e-9)
        assert (result.method, result.standard_error) == ("exact", 0)
    else:
        message = "Neither layer has at most 2\\^20 states"
        if {visible, hidden} & COUNTS:
            message = "no joint distribution"
        with pytest.raises(ValueError, match=message):
            log_partition(layers)


def test_layers_of_very_many_states_are_not_enumerated():
    # 4^64 states: none in the arithmetic of NumPy's integers.
    categories = Categorical(np.int64(4)), 256
    layers = random_layers(categories, (Poisson(), 2), seed=6)
    assert not can_enumerate(layers)


def test_log_z_of_gaussian_and_bernoulli_units_in_closed_form():
    rng = generator(655)
    mu, variance = rng.normal(size=5), rng.uniform(0.3, 2, 5)
    weights, c = rng.normal(size=(5, 4)), rng.normal(size=4)
    # As an energy of v / variance: MODELS' form is that of GaussianRBM.
    unit = Gaussian(mu, np.sqrt(variance))
    layers = Layered(
        (unit, "bernoulli"), (weights / variance[:, None],), (np.zeros(5), c)
    )
    h = states_of(Bernoulli(), 4)
    shift = h @ weights.T
    joint = h @ c + ((2 * mu * shift + shift**2) / (2 * variance)).sum(axis=1)
    wanted = np.log(2 * np.pi * variance).sum() / 2 + logsumexp(joint)
    np.testing.assert_allclose(float(log_partition(layers)), wanted, rtol=1e-12)


@pytest.mark.parametrize("hidden", FINITE)
def test_densities_of_real_units_integrate_to_one(hidden):
    layers = random_layers(INFINITE["gaussian"], FINITE[hidden], seed=7)
    grid = np.linspace(-14, 14, 561)
    X = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    total = np.exp(log_likelihood(layers, X).samples).sum() * (grid[1] - grid[0]) ** 2
    np.testing.assert_allclose(total, 1, rtol=1e-6)
    weights, (b, c) = layers.weights[0][:1], layers.biases
    one = Layered((ReLU(), as_unit(layers.units[1])), (weights,), (b[:1], c))
    area, _ = quad(
        lambda v: np.exp(float(log_likelihood(one, [[v]]))), 0, 30, limit=100
    )
    np.testing.assert_allclose(area, 1, rtol=1e-6)
    counts = Layered((Poisson(), as_unit(layers.units[1])), (weights / 2,), (b[:1], c))
    rows = np.arange(400.0)[:, np.newaxis]
    np.testing.assert_allclose(
        np.exp(log_likelihood(counts, rows).samples).sum(), 1, rtol=1e-9
    )


@pytest.mark.thinned(8)
@pytest.mark.parametrize("visible", FINITE | INFINITE)
@pytest.mark.parametrize("hidden", ["bernoulli", "categorical"])
def test_annealed_estimates_are_unbiased(visible, hidden):
    layers = random_layers((FINITE | INFINITE)[visible], FINITE[hidden], seed=8)
    if as_unit(layers.units[0]).kind == as_unit(layers.units[1]).kind == Kind.BERNOULLI:
        layers = Layered((Bernoulli(), Bernoulli()), layers.weights, layers.biases)
    wanted = float(log_partition(layers))
    # Few temperatures, so that weights differ and their mean must be right.
    for seed in range(2):
        found = log_partition(layers, "ais", betas=12, n_runs=4000, random_state=seed)
        assert found.standard_error > 1e-4
        error = np.expm1(found.forward - wanted)
        assert abs(error) < 5 * found.standard_error
        error = np.expm1(wanted - found.reverse)
        assert abs(error) < 5 * found.reverse_standard_error


@pytest.mark.parametrize("visible", FINITE | INFINITE)
def test_annealing_from_independent_units_of_other_means(visible):
    layers = random_layers((FINITE | INFINITE)[visible], FINITE["bernoulli"], seed=9)
    wanted = float(log_partition(layers))
    base = as_unit(layers.units[0]), layers.biases[0] - 0.3
    path = UnitPath(layers, base)
    betas = np.linspace(0, 1, 12)
    for seed in range(2):
        states = path.start(4000, generator(663, seed).integers(2**62))
        log_weights, _ = path.anneal(states, betas, KEY + seed)
        weights = np.exp(log_weights + path.log_z_base - wanted)
        assert abs(weights.mean() - 1) < 5 * weights.std() / np.sqrt(4000)


def test_annealing_between_unbounded_layers():
    # Of a Gaussian in both layers log Z is a determinant.
    weights = np.array([[0.5, -0.2], [0.1, 0.4], [0.3, 0.3]])
    b, c = np.array([0.2, -0.4, 0.1]), np.array([0.5, -0.3])
    layers = Layered((Gaussian(), Gaussian()), (weights,), (b, c))
    joint = np.eye(5)
    joint[:3, 3:], joint[3:, :3] = -weights, -weights.T
    bias = np.r_[b, c]
    wanted = bias @ np.linalg.solve(joint, bias) / 2
    wanted += 5 / 2 * np.log(2 * np.pi) - np.linalg.slogdet(joint)[1] / 2
    found = log_partition(layers, "ais", betas=20, n_runs=4000, random_state=0)
    assert abs(np.expm1(found.forward - wanted)) < 5 * found.standard_error
    assert abs(np.expm1(wanted - found.reverse)) < 5 * found.reverse_standard_error
