"""Chains along a path of inverse temperatures: annealing and replica exchange."""

from dataclasses import replace
from itertools import product

import joblib
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binomtest, chi2, t
from threadpoolctl import threadpool_limits

from common import model_with, run_on_instruction_sets
from kernels import DTYPES, KEY, bits, kernel_logistic
from reference import Path as Twin
from reference import (
    chi_square_p_value,
    enumerate_machine,
    generator,
    partner_levels,
    random_machine,
    state_numbers,
    swapped,
)
from sklearn_ebm._ais import Path, anneal, exchange
from sklearn_ebm._openmp import effective_n_threads, openmp_enabled
from sklearn_ebm.layered import Layered
from sklearn_ebm.samplers import ReplicaExchange
from sklearn_ebm.samplers._paths import annealing_path, check_betas

pytestmark = pytest.mark.usefixtures("one_thread")
RARE = 1e-6
N_ENSEMBLES = 24_576
floats = pytest.mark.parametrize("dtype", DTYPES)


def path_of(twin):
    components, hidden, visible = twin.machine
    return Path(components, (visible, hidden), twin.base)


def random_path(n_hidden, n_visible, rng, *, scale=0.5, dtype=np.float64):
    """A path that begins at random biases."""
    machine = random_machine(n_hidden, n_visible, rng, scale=scale, dtype=dtype)
    base = tuple(rng.normal(size=n).astype(dtype) for n in (n_visible, n_hidden))
    return Twin(machine, base, kernel_logistic)


def strong_path(dtype=np.float64, n_hidden=4, n_visible=5):
    """A path of few states to a machine whose units hold on to one another."""
    rng = np.random.default_rng(200)  # the same for all seeds of the tests
    shape = n_hidden, n_visible
    components = rng.choice([-1.0, 1.0], shape) * rng.uniform(1.5, 3, shape)
    hidden = -components.sum(axis=1) / 2 + rng.normal(0, 0.3, n_hidden)
    visible = -components.sum(axis=0) / 2 + rng.normal(0, 0.3, n_visible)
    machine = tuple(x.astype(dtype) for x in (components, hidden, visible))
    base = tuple(rng.normal(0, 0.5, n).astype(dtype) for n in shape[::-1])
    return Twin(machine, base)


class Enumerated:
    """All about the machines of a path of few states at some betas."""

    def __init__(self, twin, betas):
        self.betas = np.asarray(betas)
        self.levels = [enumerate_machine(twin.at(beta)) for beta in betas]
        self.v = self.levels[0].v
        self.log_z = np.array([exact.log_z for exact in self.levels])
        self.p = np.array([exact.p_v for exact in self.levels])
        # log p(v), unnormalised, at every beta.
        self.log_p = np.array([x.log_p_v + x.log_z for x in self.levels])
        self.sweep = np.array([x.p_h_given_v @ x.p_v_given_h for x in self.levels])

    def draw(self, level, n, rng):
        """Numbers of n states from a level's law."""
        return rng.choice(len(self.v), n, p=self.p[level])

    def acceptance(self, level):
        """Of swaps between a level and the next, by (lower, upper) state."""
        change = self.log_p[level + 1] - self.log_p[level]
        return np.exp(np.minimum(0, change[:, np.newaxis] - change))

    def swap_rates(self):
        """Expected share of swaps that are accepted."""
        p = self.p
        return np.array(
            [p[k] @ self.acceptance(k) @ p[k + 1] for k in range(len(p) - 1)]
        )


def assert_mean(x, expected):
    """Independent draws have this mean (Student's test)."""
    x = np.asarray(x)
    error = x.std(ddof=1) / np.sqrt(len(x))
    assert 2 * t.sf(abs(x.mean() - expected) / error, len(x) - 1) > RARE


def rounding(twin, visible, dtype):
    """What gains may err by: an ulp or few for every unit's field."""
    largest = np.abs(twin.fields(visible)).sum(axis=1) + np.abs(twin.base[1]).sum()
    linear = np.abs(twin.machine[2]).sum() + np.abs(twin.base[0]).sum()
    n_hidden = len(twin.machine[1])
    return 8 * np.finfo(dtype).eps * (largest + linear + n_hidden)


# ---- Twins ----

SHAPES = [(3, 2), (19, 23), (33, 70), (130, 65)]
UNEVEN = np.array([0, 0.02, 0.3, 0.55, 0.9, 1.0])


@floats
@pytest.mark.parametrize("n_chains", [1, 5, 16, 130])
@pytest.mark.parametrize("n_hidden, n_visible", SHAPES)
def test_anneal_equals_twin(n_hidden, n_visible, n_chains, dtype):
    rng = generator(201, n_hidden, n_chains)
    twin = random_path(n_hidden, n_visible, rng, dtype=dtype)
    states, step = bits(n_chains, n_visible, rng), 2**32 - 2
    weights = np.zeros(n_chains)
    for k in range(len(UNEVEN) - 1):
        gains, expected = twin.anneal_step(states, UNEVEN, k, key=KEY, step=step)
        error, before = rounding(twin, states, dtype), weights.copy()
        anneal(path_of(twin), states, UNEVEN, weights, k, k + 1, KEY, step)
        assert np.array_equal(states, expected)
        assert (np.abs(weights - before - gains) <= error).all()


@floats
@pytest.mark.parametrize("n_chains", [5, 16])
@pytest.mark.parametrize("n_hidden", [530, 1100])
def test_anneal_with_many_hidden_units(n_hidden, n_chains, dtype):
    """Fields near 0: the products of gains would overflow without a look."""
    rng = generator(202, n_hidden, n_chains)
    twin = random_path(n_hidden, 9, rng, scale=0.02, dtype=dtype)
    twin.base = twin.base[0], 0.02 * twin.base[1]
    states, weights = bits(n_chains, 9, rng), np.zeros(n_chains)
    gains, expected = twin.anneal_step(states, UNEVEN, 2, key=KEY, step=0)
    error = rounding(twin, states, dtype)
    anneal(path_of(twin), states, UNEVEN, weights, 2, 3, KEY)
    assert np.array_equal(states, expected)
    assert (np.abs(weights - gains) <= error).all()


@floats
@pytest.mark.parametrize("n_ensembles", [1, 5, 16, 43])
@pytest.mark.parametrize("n_hidden, n_visible", SHAPES)
def test_exchange_equals_twin(n_hidden, n_visible, n_ensembles, dtype):
    rng = generator(203, n_hidden, n_ensembles)
    twin = random_path(n_hidden, n_visible, rng, scale=0.3, dtype=dtype)
    betas = np.array([0, 0.3, 0.8, 1.0])
    shape = n_ensembles, len(betas)
    levels = rng.permuted(np.tile(np.int32([0, 1, 2, 3]), (n_ensembles, 1)), axis=1)
    states, step = bits(levels.size, n_visible, rng), 2**32 - 2
    accepted = []
    for s in range(4):
        partners = partner_levels(levels, s % 2, len(betas))
        expected = twin.log_p(states, betas[partners])
        expected -= twin.log_p(states, betas[levels])
        start, before = states.copy(), levels.copy()
        gains, visits = np.empty((1, *shape)), np.empty((1, *shape), np.int32)
        exchange(
            path_of(twin), states, levels, betas, s, s + 1, KEY, step,
            gains=gains, visits=visits,
        )  # fmt: skip
        error = rounding(twin, start, dtype)
        assert (np.abs(gains.ravel() - expected) <= error).all()
        assert (gains[0][partners == before] == 0).all()
        assert np.array_equal(visits[0], before)
        counter = {"key": KEY, "step": step + s}
        after = swapped(before, gains[0], s % 2, **counter)
        assert np.array_equal(levels, after)
        assert np.array_equal(states, twin.sweep(start, betas[after], **counter))
        accepted.append((after != before).any(axis=1))
    if n_ensembles > 5:
        assert 0 < np.mean(accepted) < 1


@floats
@pytest.mark.parametrize("n_chains", [5, 130])
def test_clamped_units_equal_twin(n_chains, dtype):
    rng = generator(204, n_chains)
    twin = random_path(33, 70, rng, dtype=dtype)
    states, clamped = bits(n_chains, 70, rng), bits(n_chains, 70, rng)
    start, weights = states.copy(), np.zeros(n_chains)
    anneal(path_of(twin), states, UNEVEN, weights, 0, 3, KEY, 7, clamped)
    expected = start
    for k in range(3):
        _, expected = twin.anneal_step(
            expected, UNEVEN, k, key=KEY, step=7, clamped=clamped
        )
    assert np.array_equal(states, expected)
    assert np.array_equal(states[clamped], start[clamped])
    betas = np.linspace(0, 1, 5)
    levels = np.tile(np.arange(5, dtype=np.int32), (n_chains // 5, 1))
    states = start.copy()
    exchange(path_of(twin), states, levels, betas, 0, 1, KEY, 7, clamped)
    expected = twin.sweep(start, betas[levels], key=KEY, step=7, clamped=clamped)
    assert np.array_equal(states, expected)


@floats
def test_extreme_fields(dtype):
    """Fields of hundreds: gains are finite, and states those that are certain."""
    rng = generator(205)
    twin = random_path(40, 30, rng, dtype=dtype)
    signs = rng.choice([-1, 1], (40, 30))
    hidden, visible = (300 * rng.choice([-1, 1], n) for n in (40, 30))
    twin.machine = tuple(x.astype(dtype) for x in (20.0 * signs, hidden, visible))
    start = bits(20, 30, rng)
    for betas in [np.array([0, 1.0, 1.0]), np.array([1, 0.0, 0.0]), UNEVEN]:
        states, weights = start.copy(), np.zeros(20)
        gains, expected = twin.anneal_step(start, betas, 0, key=KEY, step=0)
        anneal(path_of(twin), states, betas, weights, 0, 1, KEY)
        assert np.isfinite(weights).all()
        assert (np.abs(weights - gains) <= rounding(twin, start, dtype)).all()
        assert np.array_equal(states, expected)
    states, weights = start.copy(), np.zeros(20)
    anneal(path_of(twin), states, UNEVEN, weights, 0, len(UNEVEN) - 1, KEY)
    assert np.isfinite(weights).all()


def test_no_chains_take_no_steps():
    path, states = path_of(random_path(3, 5, generator(207))), np.zeros((0, 5), bool)
    anneal(path, states, UNEVEN, np.zeros(0), 0, 2, KEY)
    levels = np.zeros((0, len(UNEVEN)), np.int32)
    exchange(path, states, levels, UNEVEN, 0, 2, KEY)
    # (Neither fails.)


# ---- Pieces, threads and processors ----


def start_exchange(n_ensembles, n_betas, n_visible, rng):
    betas = np.linspace(0, 1, n_betas) ** 2
    levels = np.tile(np.arange(n_betas, dtype=np.int32), (n_ensembles, 1))
    return bits(levels.size, n_visible, rng), levels, betas


@floats
@pytest.mark.parametrize("n_chains", [7, 150])
def test_anneal_in_pieces(n_chains, dtype):
    rng = generator(206)
    twin = random_path(60, 70, rng, dtype=dtype)
    betas, start = np.linspace(0, 1, 12), bits(n_chains, 70, rng)
    results = []
    for cuts in [[0, 11], [0, 4, 11], [0, 0, 1, 10, 11], range(12)]:
        states, weights = start.copy(), np.zeros(n_chains)
        for a, b in zip(cuts[:-1], cuts[1:], strict=True):
            anneal(path_of(twin), states, betas, weights, a, b, KEY, 3)
        results.append((states, weights))
    for states, weights in results[1:]:
        assert np.array_equal(states, results[0][0])
        assert np.array_equal(weights, results[0][1])
    for a, b in [(-1, 3), (4, 3), (0, 12)]:
        with pytest.raises(ValueError, match="steps"):
            anneal(path_of(twin), start, betas, np.zeros(n_chains), a, b, KEY)


@floats
@pytest.mark.parametrize("n_ensembles", [2, 40])
def test_exchange_in_pieces(n_ensembles, dtype):
    rng = generator(207)
    twin = random_path(60, 70, rng, scale=0.1, dtype=dtype)
    start, levels, betas = start_exchange(n_ensembles, 5, 70, rng)
    results = []
    for cuts in [[0, 9], [0, 4, 9], [0, 0, 1, 9], range(10)]:
        states, now = start.copy(), levels.copy()
        gains = np.empty((9, *levels.shape))
        visits = np.empty(gains.shape, np.int32)
        for a, b in zip(cuts[:-1], cuts[1:], strict=True):
            exchange(
                path_of(twin), states, now, betas, a, b, KEY, 3,
                gains=gains[a:b], visits=visits[a:b],
            )  # fmt: skip
        results.append((states, now, gains, visits))
    assert not np.array_equal(results[0][1], levels)
    for result in results[1:]:
        assert all(map(np.array_equal, result, results[0]))


def on_the_way():
    """What annealing and exchange come to, in both dtypes, many chains and few."""
    found = []
    for dtype in DTYPES:
        rng = np.random.default_rng(208)
        twin = random_path(520, 150, rng, scale=0.1, dtype=dtype)
        path = path_of(twin)
        for n in (5, 203):
            states, weights = bits(n, 150, rng), np.zeros(n)
            anneal(path, states, UNEVEN, weights, 0, 5, KEY)
            found += [states, weights]
            states, levels, betas = start_exchange(n, 4, 150, rng)
            gains = np.empty((4, *levels.shape))
            visits = np.empty(gains.shape, np.int32)
            exchange(path, states, levels, betas, 0, 4, KEY, 0, None, gains, visits)
            found += [states, levels, gains, visits]
    return found


@pytest.mark.skipif(not openmp_enabled(), reason="built without OpenMP")
def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    results = []
    for n_threads in [1, 2, 3, 7]:
        monkeypatch.setenv("OMP_NUM_THREADS", str(n_threads))
        with threadpool_limits(n_threads, user_api="openmp"):
            assert effective_n_threads() == n_threads
            results.append(on_the_way())
    for result in results[1:]:
        assert all(map(np.array_equal, result, results[0]))


def test_every_instruction_set_gives_the_same_bits():
    code = (
        "import joblib, test_paths; from sklearn_ebm._simd import instruction_set;"
        "print(instruction_set(), joblib.hash(test_paths.on_the_way()))"
    )
    digest = joblib.hash(on_the_way())
    isas = ["base", "avx2"]
    for isa, printed in zip(isas, run_on_instruction_sets(isas, code)):
        used, found = printed.split()
        assert used in ("base", isa)
        assert found == digest


# ---- Annealed importance sampling ----


def log_weights(twin, betas, starts, seed, clamped=None):
    """Of annealing from numbers of states."""
    exact = Enumerated(twin, [0])
    states, weights = exact.v[starts], np.zeros(len(starts))
    key = int(generator(209, seed).integers(2**63))
    betas = np.ascontiguousarray(betas, dtype=float)
    n_steps = len(betas) - 1
    anneal(path_of(twin), states, betas, weights, 0, n_steps, key, 0, clamped)
    return weights, state_numbers(states)


@floats
def test_two_temperatures_are_importance_sampling(dtype):
    """The expectation of the weight over all starts is Z / Z_0, exactly."""
    twin = strong_path(dtype)
    exact = Enumerated(twin, [0, 1])
    ratio = exact.log_z[1] - exact.log_z[0]
    for betas, sign in [([0, 1], 1), ([1, 0], -1)]:
        weights, ends = log_weights(twin, betas, np.arange(len(exact.v)), 0)
        assert np.array_equal(ends, np.arange(len(exact.v)))
        p = exact.p[betas[0]]
        error = 1e-10 if dtype == np.float64 else 1e-5
        assert np.log(p @ np.exp(weights)) == pytest.approx(sign * ratio, abs=error)


@pytest.mark.thinned(8)
@floats
@pytest.mark.parametrize("n_betas", [3, 6, 40])
@pytest.mark.parametrize("forward", [True, False], ids=["forward", "reverse"])
def test_weights_are_unbiased(forward, n_betas, dtype):
    """Z^/Z from the base, Z/Z^ from the model: 1 on average, over 200 keys."""
    twin = strong_path(dtype)
    betas = np.linspace(0, 1, n_betas)[:: 1 if forward else -1]
    exact = Enumerated(twin, betas[[0, -1]])
    ratio = exact.log_z[1] - exact.log_z[0]
    # In one leap the weights would differ by factors of 100.
    assert np.ptp(exact.log_p[1] - exact.log_p[0]) > np.log(100)
    rng = generator(210, n_betas)
    relative, beyond = [], 0
    for seed in range(200):
        starts = exact.draw(0, 200, rng)
        weights = np.exp(log_weights(twin, betas, starts, seed)[0] - ratio)
        relative.append(weights.mean())
        reported = weights.std(ddof=1) / np.sqrt(len(weights)) / weights.mean()
        beyond += abs(np.log(weights.mean())) > 4 * reported
    assert_mean(relative, 1)
    if n_betas == 40:
        assert beyond <= 2


@floats
def test_weighted_ends_follow_the_model(dtype):
    """Not only the mean of the weights: that over every group of ends."""
    twin = strong_path(dtype)
    betas = np.linspace(0, 1, 5)
    exact = Enumerated(twin, [0, 1])
    starts = exact.draw(0, 40_000, generator(211))
    weights, ends = log_weights(twin, betas, starts, 1)
    weights = np.exp(weights - (exact.log_z[1] - exact.log_z[0]))
    groups = np.eye(8)[ends % 8]
    law = np.bincount(np.arange(len(exact.v)) % 8, weights=exact.p[1])
    x = weights[:, np.newaxis] * groups - law
    error = x.mean(axis=0)
    statistic = error @ np.linalg.solve(np.cov(x.T) / len(x), error)
    assert chi2.sf(statistic, 8) > RARE


def test_weights_of_clamped_units():
    """Among states with these values, Z and Z_0 are sums over the others."""
    twin = strong_path()
    exact = Enumerated(twin, [0, 1])
    # All chains hold units 1 and 3 at 1 and 0.
    held = exact.v[:, 1] & ~exact.v[:, 3]
    log_z = logsumexp(exact.log_p[:, held], axis=1)
    p = np.where(held, exact.p[0], 0)
    starts = generator(212).choice(len(p), 40_000, p=p / p.sum())
    clamped = np.zeros((len(starts), 5), bool)
    clamped[:, [1, 3]] = True
    weights, ends = log_weights(twin, np.linspace(0, 1, 6), starts, 2, clamped)
    assert held[ends].all()
    blocks = np.exp(weights - (log_z[1] - log_z[0])).reshape(400, 100).mean(axis=1)
    assert_mean(blocks, 1)


@pytest.mark.slow
def test_error_falls_with_temperatures_and_runs():
    """As 1 / sqrt(both), once chains mix while the temperature hardly changes."""
    machine = random_machine(4, 5, np.random.default_rng(213))
    twin = Twin(machine, (np.zeros(5), np.zeros(4)))
    exact = Enumerated(twin, [0, 1])
    rng = generator(213)
    work, errors = [], []
    for n_betas, n_runs in product([65, 257, 1025], [500, 2000]):
        starts = exact.draw(0, n_runs, rng)
        weights, _ = log_weights(twin, np.linspace(0, 1, n_betas), starts, n_betas)
        weights = np.exp(weights - weights.max())
        reported = weights.std(ddof=1) / weights.mean() / np.sqrt(n_runs)
        work.append(np.log((n_betas - 1) * n_runs))
        errors.append(np.log(reported))
    slope, _ = np.polyfit(work, errors, 1)
    assert slope == pytest.approx(-0.5, abs=0.05)


@floats
def test_annealing_path(dtype):
    """From independent units with the means of the data to the model."""
    machine = random_machine(4, 6, generator(214), dtype=dtype)
    components, hidden, visible = machine
    model = model_with(*machine)
    means = np.array([0.1, 0.9, 0.5, 0.3, 0.0, 1.0])
    model.visible_mean_ = means
    bare = Layered(("bernoulli",) * 2, (components.T,), (visible, hidden))
    for value, rates in [
        (model, np.clip(means, 1e-3, 1 - 1e-3)),
        (bare, 1 / (1 + np.exp(-np.clip(visible, -6.9, 6.9)))),
    ]:
        path, log_z = annealing_path(value)
        base = np.log(rates) - np.log1p(-rates), np.zeros(4)
        exact = Enumerated(Twin(machine, base), [0, 1])
        np.testing.assert_allclose(log_z, exact.log_z[0], rtol=1e-6)
        states, weights = exact.v.copy(), np.zeros(len(exact.v))
        anneal(path, states, np.array([0, 1.0]), weights, 0, 1, KEY)
        error = 1e-4 if dtype == np.float32 else 1e-6
        expected = exact.log_p[1] - exact.log_p[0]
        np.testing.assert_allclose(weights, expected, atol=error)


# ---- Replica exchange: exactness ----

BETAS = np.array([0, 0.25, 0.6, 1.0])


def run_exchange(
    twin, numbers, levels, start, n_steps, seed, clamped=None, betas=BETAS
):
    """Numbers of states (n_ensembles, n_betas) by chain, and levels, at the end."""
    v = Enumerated(twin, [0]).v
    states, levels = v[numbers.ravel()], levels.copy()
    key = int(generator(215, seed).integers(2**63))
    exchange(
        path_of(twin), states, levels, betas, start, start + n_steps, key, 0, clamped
    )
    return state_numbers(states).reshape(numbers.shape), levels


def by_level(numbers, levels):
    """States ordered by level instead of by chain."""
    return np.take_along_axis(numbers, np.argsort(levels, axis=1), axis=1)


def shuffled_levels(n_ensembles, n_levels, rng):
    levels = np.tile(np.arange(n_levels, dtype=np.int32), (n_ensembles, 1))
    return rng.permuted(levels, axis=1)


@floats
@pytest.mark.parametrize("parity", [0, 1])
def test_exchange_transition_law(parity, dtype):
    """One sweep from fixed states, by many ensembles: all chains and levels."""
    twin = strong_path(dtype, 2, 2)
    exact = Enumerated(twin, BETAS)
    for seed, (numbers, order) in enumerate(
        [([0, 1, 2, 3], [0, 1, 2, 3]), ([2, 0, 1, 1], [3, 0, 2, 1])]
    ):
        numbers, order = np.array(numbers), np.int32(order)
        # Law of (which pairs have swapped, states of the four chains).
        chain = np.argsort(order)
        pairs = range(parity, 3, 2)
        laws = []
        for swaps in product([False, True], repeat=len(pairs)):
            after, p = order.copy(), 1.0
            for level, swap in zip(pairs, swaps, strict=True):
                low, high = chain[level], chain[level + 1]
                rate = exact.acceptance(level)[numbers[low], numbers[high]]
                p *= rate if swap else 1 - rate
                if swap:
                    after[low], after[high] = level + 1, level
            law = np.array(p)
            for k in range(4):
                law = np.multiply.outer(law, exact.sweep[after[k], numbers[k]])
            laws.append(law.ravel())
        end, levels = run_exchange(
            twin,
            np.tile(numbers, (N_ENSEMBLES, 1)),
            np.tile(order, (N_ENSEMBLES, 1)),
            parity,
            1,
            10 * seed + parity,
        )
        code = np.zeros(N_ENSEMBLES, int)
        for level in pairs:
            code = 2 * code + (levels[:, chain[level]] == level + 1)
        for k in range(4):
            code = 4 * code + end[:, k]
        law = np.concatenate(laws)
        assert law.sum() == pytest.approx(1)
        counts = np.bincount(code, minlength=len(law))
        assert chi_square_p_value(counts, law) > RARE


def check_levels(now, laws):
    """Of ensembles: every level has its law, independently of the others."""
    for level, law in enumerate(laws):
        counts = np.bincount(now[:, level], minlength=len(law))
        assert chi_square_p_value(counts, law) > RARE
    reduced = [np.bincount(np.arange(len(p)) % 8, weights=p) for p in laws]
    for a, b in [(0, 1), (1, 2), (2, 3), (0, 3)]:
        counts = np.bincount(8 * (now[:, a] % 8) + now[:, b] % 8, minlength=64)
        law = np.outer(reduced[a], reduced[b]).ravel()
        assert chi_square_p_value(counts[law > 0], law[law > 0]) > RARE
        assert counts[law == 0].sum() == 0


@pytest.mark.thinned(4)
@floats
@pytest.mark.parametrize("start", [0, 1])
def test_exchange_does_not_drift(start, dtype):
    """Ensembles that start exactly stay so: every level, and levels together."""
    twin = strong_path(dtype)
    exact = Enumerated(twin, BETAS)
    rng = generator(216, start)
    levels = shuffled_levels(N_ENSEMBLES, 4, rng)
    numbers = np.stack([exact.draw(k, N_ENSEMBLES, rng) for k in range(4)], axis=1)
    numbers = np.take_along_axis(numbers, levels, axis=1)
    for n_steps in [1, 4, 16]:
        end, after = run_exchange(twin, numbers, levels, start, n_steps, n_steps)
        assert np.array_equal(np.sort(after, axis=1), np.sort(levels, axis=1))
        check_levels(by_level(end, after), exact.p)
        if n_steps > 1:
            assert np.mean(after != levels) > 0.3


@floats
def test_exchange_with_clamped_units_does_not_drift(dtype):
    """Every other ensemble holds units 0 and 2, at values of its own."""
    twin = strong_path(dtype)
    exact = Enumerated(twin, BETAS)
    rng = generator(217)
    levels = shuffled_levels(N_ENSEMBLES, 4, rng)
    holds = np.arange(N_ENSEMBLES) % 2 == 1
    values = rng.random((N_ENSEMBLES, 2)) < 0.5
    group = np.where(holds, 1 + values @ [1, 2], 0)
    free = [np.ones(32, bool)]
    for a, b in [(0, 0), (1, 0), (0, 1), (1, 1)]:
        free.append((exact.v[:, 0] == a) & (exact.v[:, 2] == b))
    laws = [np.where(mask, exact.p, 0) for mask in free]
    laws = [law / law.sum(axis=1, keepdims=True) for law in laws]
    numbers = np.empty(levels.shape, int)
    for g, level in product(range(5), range(4)):
        here = group == g
        numbers[here, level] = rng.choice(32, here.sum(), p=laws[g][level])
    numbers = np.take_along_axis(numbers, levels, axis=1)
    clamped = np.zeros((N_ENSEMBLES, 4, 5), bool)
    clamped[holds, :, 0] = clamped[holds, :, 2] = True
    for n_steps in [1, 5]:
        end, after = run_exchange(
            twin, numbers, levels, 0, n_steps, n_steps, clamped.reshape(-1, 5)
        )
        now = by_level(end, after)
        for g in range(5):
            check_levels(now[group == g], laws[g])


def test_equal_temperatures_always_swap():
    twin = strong_path()
    levels = np.tile(np.arange(4, dtype=np.int32), (500, 1))
    numbers = generator(218).integers(32, size=levels.shape)
    betas = np.full(4, 0.7)
    for start, wanted in [(0, [1, 0, 3, 2]), (1, [0, 2, 1, 3])]:
        _, after = run_exchange(twin, numbers, levels, start, 1, 0, None, betas)
        assert (after == wanted).all()


# ---- ReplicaExchange ----


def model_of(twin):
    """A model whose path begins where that of the twin does."""
    model = model_with(*twin.machine)
    model.visible_mean_ = 1 / (1 + np.exp(-np.float64(twin.base[0])))
    return model


def exact_replicas(model, twin, betas, n_ensembles, rng):
    """Ensembles in equilibrium, and what is to be known about them."""
    twin = Twin(twin.machine, (twin.base[0], np.zeros(len(twin.machine[1]))))
    exact = Enumerated(twin, betas)
    sampler = ReplicaExchange(model)
    replicas = sampler.init(n_ensembles, betas=betas, random_state=3)
    levels = np.arange(len(betas))
    numbers = np.stack([exact.draw(k, n_ensembles, rng) for k in levels], axis=1)
    return sampler, replace(replicas, visible=exact.v[numbers]), exact


@floats
def test_swap_rates(dtype):
    twin = strong_path(dtype)
    sampler, replicas, exact = exact_replicas(
        model_of(twin), twin, BETAS, N_ENSEMBLES, generator(219)
    )
    expected = exact.swap_rates()
    assert expected.min() < 0.9
    seen = []
    for _ in range(4):
        replicas = sampler.step(replicas)
        # Levels 0 and 1 are partners in even steps, 1 and 2 in odd ones.
        tried = np.arange(3) % 2 == (replicas.n_steps - 1) % 2
        assert np.array_equal(np.isnan(replicas.swap_rates), ~tried)
        for level in np.flatnonzero(tried):
            rate = replicas.swap_rates[level]
            n = round(rate * N_ENSEMBLES)
            assert rate == n / N_ENSEMBLES
            assert binomtest(n, N_ENSEMBLES, expected[level]).pvalue > RARE
            seen.append(level)
    assert set(seen) == {0, 1, 2}


def test_swap_rates_count_swaps():
    """Over several steps, and from gains: the share of tries that succeeded."""
    twin = strong_path()
    sampler, replicas, _ = exact_replicas(
        model_of(twin), twin, BETAS, 300, generator(220)
    )
    after = sampler.step(replicas, 11)
    tries, successes = np.zeros(3), np.zeros(3)
    visits = [*after.visits, after.levels]
    for k, step in enumerate(range(replicas.n_steps, after.n_steps)):
        for level in range(step % 2, 3, 2):
            for e in range(300):
                chain = np.flatnonzero(visits[k][e] == level)[0]
                tries[level] += 1
                successes[level] += visits[k + 1][e, chain] == level + 1
    np.testing.assert_allclose(after.swap_rates, successes / tries, rtol=1e-12)


def replicas_equal(a, b, names=("visible", "levels", "betas", "key", "n_steps")):
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names)


@floats
def test_steps_of_replicas(dtype):
    """Steps leave the old state alone, and a + b of them are a and then b."""
    machine = random_machine(20, 30, generator(221), scale=0.3, dtype=dtype)
    sampler = ReplicaExchange(model_with(*machine))
    start = sampler.init(7, betas=5, random_state=4)
    assert start.visible.shape == (7, 5, 30)
    assert start.visible.dtype == bool
    kept = start.visible.copy(), start.levels.copy(), start.betas.copy()
    whole = sampler.step(start, 9)
    assert all(map(np.array_equal, kept, (start.visible, start.levels, start.betas)))
    first = sampler.step(start, 4)
    second = sampler.step(first, 5)
    assert replicas_equal(whole, second)
    assert not np.array_equal(whole.visible, start.visible)
    assert np.array_equal(whole.gains, np.vstack([first.gains, second.gains]))
    assert np.array_equal(whole.visits, np.vstack([first.visits, second.visits]))
    assert np.array_equal(whole.betas, np.linspace(0, 1, 5))
    same = sampler.step(start, 0)
    assert replicas_equal(same, start)
    assert np.isnan(same.swap_rates).all()
    again = sampler.init(7, betas=5, random_state=4)
    assert replicas_equal(again, start)
    other = sampler.init(7, betas=5, random_state=5)
    assert not np.array_equal(other.visible, start.visible)
    samples = sampler.samples(whole)
    assert samples.shape == (7, 30)
    for e in range(7):
        chain = list(whole.levels[e]).index(4)
        assert np.array_equal(samples[e], whole.visible[e, chain])


def test_replicas_start_and_stay_where_they_are_told():
    machine = random_machine(20, 30, generator(222))
    sampler = ReplicaExchange(model_with(*machine))
    rng = generator(223)
    init, fixed = bits(6, 30, rng), bits(6, 30, rng)
    replicas = sampler.init(6, betas=4, init=init, fixed=fixed, random_state=0)
    assert (replicas.visible == init[:, np.newaxis]).all()
    replicas = sampler.step(replicas, 8)
    held = np.broadcast_to(fixed[:, np.newaxis], replicas.visible.shape)
    same = replicas.visible == init[:, np.newaxis]
    assert same[held].all()
    assert not same[~held].all()


def test_replicas_begin_at_the_means_of_the_data():
    model = model_with(*random_machine(3, 4, generator(224)))
    model.visible_mean_ = means = np.array([0.05, 0.5, 0.8, 0.95])
    start = ReplicaExchange(model).init(5000, betas=4, random_state=1)
    for k, p in enumerate(means):
        n = int(start.visible[..., k].sum())
        assert binomtest(n, 20_000, p).pvalue > RARE


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(3))
def test_adapt_evens_out_swaps(seed):
    """Where evenly spaced temperatures leave a gap; judged by enumeration."""
    machine = random_machine(5, 6, np.random.default_rng(seed), scale=4)
    twin = Twin(machine, (np.zeros(6), np.zeros(5)))
    sampler = ReplicaExchange(model_of(twin))
    start = sampler.init(200, betas=6, random_state=seed)
    adapted = sampler.adapt(start, 600, 12)
    assert adapted.betas[0] == 0
    assert adapted.betas[-1] == 1
    assert (np.diff(adapted.betas) > 0).all()
    assert np.array_equal(start.betas, np.linspace(0, 1, 6))
    assert adapted.n_steps == start.n_steps + 600
    before, after = (
        Enumerated(twin, replicas.betas).swap_rates() for replicas in (start, adapted)
    )
    assert after.min() > before.min()
    assert np.ptp(after) < np.ptp(before) / 2
    # From then on they stay as they are.
    assert np.array_equal(sampler.step(adapted, 20).betas, adapted.betas)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"n_steps": -5}, "n_steps must be an integer >= 0, got -5"),
        ({"n_steps": 2.5}, "n_steps must be an integer >= 0, got 2.5"),
        ({"n_rounds": 0}, "n_rounds must be an integer >= 1, got 0"),
        ({"n_rounds": -1}, "n_rounds must be an integer >= 1, got -1"),
        ({"n_rounds": None}, "n_rounds must be an integer >= 1, got None"),
    ],
)
def test_bad_counts_of_adapt(arguments, message):
    sampler = ReplicaExchange(model_with(*random_machine(3, 4, generator(227))))
    with pytest.raises((TypeError, ValueError), match=message):
        sampler.adapt(sampler.init(2, random_state=0), **arguments)


def test_replicas_of_something_else_are_refused():
    sampler, other = (
        ReplicaExchange(model_with(*random_machine(3, n, generator(228))))
        for n in (4, 5)
    )
    for call in (sampler.step, sampler.adapt, sampler.samples):
        for state in (None, np.zeros((2, 10, 4), bool)):
            with pytest.raises(TypeError, match=r"state must be Replicas, .* got"):
                call(state)
    wanted = r"visible of Replicas must be of shape \(n_ensembles, n_temperatures, 4\)"
    for call in (sampler.step, sampler.adapt):
        with pytest.raises(ValueError, match=wanted):
            call(other.init(2, random_state=0))


def test_check_betas():
    np.testing.assert_array_equal(check_betas(3), [0, 0.5, 1])
    np.testing.assert_array_equal(check_betas([0, 0.2, 1]), [0, 0.2, 1])
    classic = check_betas("classic")
    assert len(classic) == 14_501
    np.testing.assert_allclose(classic[[0, 500, 4500, -1]], [0, 0.5, 0.9, 1])
    steps = np.diff(classic)
    np.testing.assert_allclose(steps[:500], 1e-3)
    np.testing.assert_allclose(steps[500:4500], 1e-4)
    np.testing.assert_allclose(steps[4500:], 1e-5)


@pytest.mark.parametrize(
    "betas",
    [
        1, 0, -3, 2.5, True, None, "linear", [0], [1], [], [0.1, 1], [0, 0.9],
        [0, 0.5, 0.5, 1], [0, 0.7, 0.3, 1], [0, np.nan, 1], [[0, 1]], ["a", "b"],
        [0, 0.5, np.inf, 1],
    ],
)  # fmt: skip
def test_bad_betas(betas):
    with pytest.raises((ValueError, TypeError), match="betas must be"):
        check_betas(betas)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"n_ensembles": 0}, ValueError, "n_ensembles"),
        ({"n_ensembles": 2.0}, TypeError, "n_ensembles"),
        ({"betas": 1}, ValueError, "betas"),
        ({"init": np.zeros((3, 4))}, ValueError, "init has 3 rows for 2"),
        ({"init": np.zeros((2, 5))}, ValueError, "init has 5 columns"),
        ({"init": np.full((2, 4), np.nan)}, ValueError, "init"),
        ({"init": np.full((2, 4), 0.5)}, ValueError, "init"),
        ({"fixed": np.zeros((2, 4))}, ValueError, "fixed must be bool"),
        ({"fixed": np.zeros((3, 4), bool)}, ValueError, "fixed must be bool"),
        ({"random_state": "a"}, ValueError, "random_state"),
    ],
)
def test_bad_starts_of_replicas(arguments, error, message):
    sampler = ReplicaExchange(model_with(*random_machine(3, 4, generator(226))))
    with pytest.raises(error, match=message):
        sampler.init(**{"n_ensembles": 2} | arguments)
