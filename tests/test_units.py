"""Units of every kind: formulas and draws."""

import copy
import hashlib

import numpy as np
import pytest
from scipy.special import erfcx, expit, log_ndtr, logsumexp, ndtr, softmax
from scipy.stats import chi2, kstest, norm, poisson
from threadpoolctl import threadpool_limits

import reference_units as twin
from common import floats, run_on_instruction_sets, run_on_threads
from reference import chi_square_p_value, generator
from sklearn_ebm import RBM
from sklearn_ebm._simd import instruction_set
from sklearn_ebm._units import Kind, Wanted, evaluate
from sklearn_ebm.units import (
    Bernoulli,
    Categorical,
    Gaussian,
    Mixed,
    Poisson,
    ReLU,
    Spin,
    kinds_of,
)

KEY = 0x0123456789ABCDEF
LOC, SCALE = np.array([-3.0, 0.0, 50.0]), np.array([0.1, 1.0, 7.0])
MIXED = Mixed(
    (
        (3, Bernoulli()),
        (2, Gaussian(LOC[:2], SCALE[:2])),
        (4, Categorical(4)),
        (2, Spin()),
        (1, ReLU()),
        (2, Poisson()),
        (1, Gaussian(4.0, 2.0)),
        (2, Categorical(2)),
    )
)
# Every kind of unit, with columns that make a layer of it.
UNITS = {
    "bernoulli": (Bernoulli(), 3),
    "spin": (Spin(), 3),
    "categorical2": (Categorical(2), 4),
    "categorical4": (Categorical(4), 8),
    "gaussian": (Gaussian(), 3),
    "gaussians": (Gaussian(LOC, SCALE), 3),
    "relu": (ReLU(), 3),
    "poisson": (Poisson(), 3),
    "mixed": (MIXED, 17),
}
every_unit = pytest.mark.parametrize("name", UNITS)


def test_all_kinds_are_among_them():
    assert set().union(*(kinds_of(unit) for unit, _ in UNITS.values())) == set(Kind)


@every_unit
def test_units_are_values(name):
    unit, _ = UNITS[name]
    twin = copy.deepcopy(unit)
    assert twin is not unit and twin == unit and hash(twin) == hash(unit)
    assert unit != name  # which stands for a unit whose variance is learned
    assert [other for other, _ in UNITS.values() if other == unit] == [unit]


def test_units_with_other_numbers_are_others():
    loc = np.arange(2000.0)
    hash_of_thirds = hash(Gaussian(loc / 3))
    assert Gaussian(loc) == Gaussian(loc.copy())
    assert Gaussian(loc) != Gaussian(loc + 1e-12 * (loc == 1000))
    assert Categorical(3) != Categorical(4)
    # Of whatever type they are, and however NumPy prints.
    assert Gaussian(scale=2) == Gaussian(scale=np.float32(2.0)) != Gaussian(scale=3)
    assert Gaussian([1, 2]) == Gaussian(np.array([1.0, 2.0]))
    with np.printoptions(linewidth=20, precision=1):
        assert hash(Gaussian(loc / 3)) == hash_of_thirds


def columns(unit, n):
    """Of each unit: its kind, its columns, and loc and scale of Gaussian ones."""
    parts, at, found = getattr(unit, "parts", [(n, unit)]), 0, []
    for width, part in parts:
        loc, scale = (
            np.broadcast_to(getattr(part, name, 0.0), width)
            for name in ("loc", "scale")
        )
        for k in range(0, width, part.size):
            block = np.arange(at + k, at + k + part.size)
            found.append((part.kind, block, loc[k], scale[k]))
        at += width
    return found


def fields_for(unit, n, n_rows, rng, *, extreme=True):
    """Rows of fields, a third of them far out (but for counts: their means)."""
    x = 2 * rng.normal(size=(n_rows, n))
    if extreme:
        x[::3] = rng.choice([-1, 1], x[::3].shape) * rng.uniform(30, 80, x[::3].shape)
    for kind, block, _, _ in columns(unit, n):
        if kind == Kind.POISSON:
            x[:, block] = np.log(10) * rng.uniform(-2, 4, (n_rows, 1))
    return x


# ---- Formulas ----


def slope(function, x, step):
    """Derivative along a step of one column, by differences of the fourth order."""
    far, near = (function(x + k * step) - function(x - k * step) for k in (2, 1))
    return (8 * near - far) / (12 * step.max())


@every_unit
def test_energy_is_its_definition(name):
    unit, n = UNITS[name]
    states = unit.sample(fields_for(unit, n, 20, generator(600)), random_state=0)
    wanted = sum(
        twin.energy(kind, states[:, block], loc, scale).sum(axis=1)
        for kind, block, loc, scale in columns(unit, n)
    )
    np.testing.assert_allclose(unit.energy(states), wanted, rtol=1e-12, atol=1e-12)


@every_unit
def test_log_partition_is_its_sum_or_integral(name):
    unit, n = UNITS[name]
    x = fields_for(unit, n, 9, generator(601))
    wanted = np.zeros(len(x))
    for kind, block, loc, scale in columns(unit, n):
        if kind == Kind.CATEGORICAL:
            wanted += logsumexp(x[:, block], axis=1)
        else:
            fields = x[:, block[0]]
            wanted += [twin.log_partition(kind, f, loc, scale) for f in fields]
    # (SciPy's sums lost the tails before 1.15.)
    np.testing.assert_allclose(unit.log_partition(x), wanted, rtol=1e-10, atol=1e-15)


@every_unit
def test_mean_and_variance_are_derivatives(name):
    unit, n = UNITS[name]
    x = fields_for(unit, n, 30, generator(602))
    means, variances = unit.mean(x), unit.variance(x)
    for k in range(n):
        step = 1e-3 * (np.arange(n) == k)
        found = slope(unit.log_partition, x, step)
        np.testing.assert_allclose(means[:, k], found, rtol=1e-6, atol=1e-8)
        found = slope(lambda z, k=k: unit.mean(z)[:, k], x, step)
        np.testing.assert_allclose(variances[:, k], found, rtol=1e-6, atol=1e-8)


def tails(far):
    """Fields at either side of where formulas change, and far out."""
    return np.array([[-far, -200, -80, -30.001, -29.999, -9, -1, 0, 1, 30, 80, far]]).T


def test_means_in_the_tails_keep_their_digits():
    x = tails(600.0)
    np.testing.assert_allclose(Bernoulli().mean(x), expit(x), rtol=1e-13, atol=1e-307)
    wanted = expit(x) * expit(-x)
    np.testing.assert_allclose(Bernoulli().variance(x), wanted, rtol=1e-12)
    np.testing.assert_allclose(Spin().mean(x), np.tanh(x), rtol=0, atol=3e-16)
    np.testing.assert_allclose(Spin().variance(x / 2), 4 * wanted, rtol=1e-12)
    pairs = np.hstack([x, 0 * x])
    np.testing.assert_allclose(Categorical(2).mean(pairs)[:, :1], expit(x), rtol=1e-13)


def test_rectified_units_keep_their_digits():
    # Of an integral near its end, where none of it is lost to cancellation.
    x = np.array([-1e6, -1e4, -1000, -80, -30.001, -29.999, -9, -5, -1])
    mean, variance, log_z = [], [], []
    s, w = np.polynomial.laguerre.laggauss(120)
    for field in x:
        # s = t / |x|: exp(s x - s^2 / 2) = exp(-t) exp(-t^2 / 2 x^2)
        weights = w * np.exp(-((s / field) ** 2) / 2)
        t = s / -field
        m = (weights * t).sum() / weights.sum()
        mean.append(m)
        variance.append((weights * (t - m) ** 2).sum() / weights.sum())
        log_z.append(np.log(weights.sum() / -field))
    exact = slice(0, 6)  # where Laguerre's rule is
    x, mean, variance, log_z = x[exact], mean[exact], variance[exact], log_z[exact]
    rows = np.reshape(x, (-1, 1))
    np.testing.assert_allclose(ReLU().mean(rows)[:, 0], mean, rtol=1e-9)
    np.testing.assert_allclose(ReLU().variance(rows)[:, 0], variance, rtol=1e-6)
    np.testing.assert_allclose(ReLU().log_partition(rows), log_z, rtol=1e-12)


@floats
def test_means_of_rectified_units_are_right_to_a_few_ulps(dtype):
    t = np.r_[np.linspace(0, 40, 2001), np.geomspace(40, 1e6, 50)].astype(dtype)
    # The mean at -t is 1 / (t + 2 / (t + 3 / ...)), where nothing cancels; near 0,
    # where this converges slowly, it is the inverse of Mills' ratio less t.
    exact = np.float64(t)
    wanted = 1 / (np.sqrt(np.pi / 2) * erfcx(exact / np.sqrt(2))) - exact
    far, fraction = exact[exact > 0.5], 0.0
    for k in range(3000, 0, -1):
        fraction = k / (far + fraction)
    wanted[exact > 0.5] = fraction
    found = ReLU().mean(-t[:, np.newaxis])[:, 0]
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(found, wanted, rtol=6 * eps)
    if dtype == np.float64:
        np.testing.assert_allclose(
            ReLU().log_partition(-t[:, np.newaxis]),
            -np.log(wanted + t), rtol=6 * eps, atol=6 * eps,
        )  # fmt: skip
        np.testing.assert_allclose(
            ReLU().log_partition(t[:, np.newaxis]),
            t * t / 2 + np.log(2 * np.pi) / 2 + log_ndtr(t), rtol=6 * eps,
        )  # fmt: skip
    above = exact + norm.pdf(exact) / ndtr(exact)
    np.testing.assert_allclose(ReLU().mean(t[:, np.newaxis])[:, 0], above, rtol=6 * eps)


@floats
@pytest.mark.parametrize("size", [2, 3, 31, 64, 65, 130])
def test_log_partitions_of_any_number_of_categories(size, dtype):
    # As many blocks as there is room for at once, and more; and blocks beyond it.
    for n_blocks in (1, 64 // size, 1 + 200 // size):
        n = max(1, n_blocks) * size
        x = (20 * generator(606, n).normal(size=(30, n))).astype(dtype)
        found = Categorical(size).log_partition(x)
        blocks = np.float64(x).reshape(30, -1, size)
        wanted = logsumexp(blocks, axis=2).sum(axis=1)
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-11)


@every_unit
def test_float32_means_are_close(name):
    unit, n = UNITS[name]
    x = fields_for(unit, n, 50, generator(603)).astype(np.float32)
    for method in ("mean", "variance"):
        found, wanted = getattr(unit, method)(x), getattr(unit, method)(np.float64(x))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=3e-7)
    # Sums are in double precision either way.
    assert unit.log_partition(x).dtype == np.float64
    wanted = unit.log_partition(np.float64(x))
    np.testing.assert_allclose(unit.log_partition(x), wanted, rtol=1e-14)


@every_unit
def test_fields_without_end_give_no_nan(name):
    unit, n = UNITS[name]
    for size in (1e3, 1e6):
        for dtype in (np.float32, np.float64):
            x = np.full((3, n), size, dtype) * np.array([[1], [-1], [0]], dtype)
            assert np.isfinite(unit.mean(x)).all()
            assert np.isfinite(unit.variance(x)).all()
            assert np.isfinite(unit.log_partition(x)).all()
            kinds = kinds_of(unit)
            if Kind.POISSON not in kinds:  # (which would take minutes)
                states = unit.sample(x, random_state=0)
                assert np.isfinite(states).all()


# ---- Draws ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("unit, n", [(Categorical(3), 6), (MIXED, 17)])
def test_fields_that_are_no_numbers_give_categories(unit, n, dtype):
    # Training that diverges comes here before it is noticed.
    drawn = evaluate(unit.kernel(n), np.full((2, n), np.nan, dtype), Wanted.DRAWS)
    for kind, block, *_ in columns(unit, n):
        if kind == Kind.CATEGORICAL:
            np.testing.assert_array_equal(drawn[:, block].sum(axis=1), 1)


@floats
@pytest.mark.parametrize("unit", [Gaussian(), ReLU(), Poisson()])
def test_numbers_drawn_from_fields_that_are_none_are_none(unit, dtype):
    drawn = unit.sample(np.array([[np.nan, 1.0, np.nan]], dtype), random_state=0)
    np.testing.assert_array_equal(np.isnan(drawn), [[True, False, True]])


@floats
@pytest.mark.parametrize("n", [1, 4, 7, 16, 17, 37])
def test_draws_take_the_uniform_numbers_of_their_column(n, dtype):
    counter = {"key": KEY, "step": 2**33 + 5, "purpose": 2, "row0": 11}
    x = generator(604, n).normal(size=(40, n)).astype(dtype)
    uniforms = twin.row_uniforms(40, n, dtype, **counter)

    def drawn_and_means(unit):
        units = unit.kernel(n)
        return (
            evaluate(units, x, Wanted.DRAWS, **counter),
            evaluate(units, x, Wanted.MEANS).astype(float),
        )

    drawn, means = drawn_and_means(Bernoulli())
    np.testing.assert_array_equal(drawn, uniforms < means)
    drawn, means = drawn_and_means(Spin())
    np.testing.assert_array_equal(drawn, np.where(2 * uniforms - 1 < means, 1, -1))
    drawn, means = drawn_and_means(Categorical(n))
    chosen = (uniforms[:, :1] >= means.cumsum(axis=1)[:, :-1]).sum(axis=1)
    assert (drawn.argmax(axis=1) == chosen).mean() > (0.9 if n > 1 else 0)
    np.testing.assert_array_equal(drawn.sum(axis=1), 1)


@floats
@pytest.mark.parametrize("mean", [0.01, 0.7, 3.0, 11.0, 15.9])
def test_counts_are_quantiles(mean, dtype):
    counter = {"key": KEY, "step": 1, "purpose": 2, "row0": 0}
    fields = np.full((4000, 7), np.log(mean), dtype)
    found = evaluate(Poisson().kernel(7), fields, Wanted.DRAWS, **counter)
    u = twin.row_uniforms(4000, 7, dtype, **counter)
    wanted = poisson(np.exp(np.float64(fields[0, 0]))).ppf(u)
    # To the count next to it, where rounding decides.
    assert np.abs(found - wanted).max() <= 1
    assert (found == wanted).mean() > (0.9999 if dtype == np.float32 else 1 - 1e-10)


@floats
@pytest.mark.parametrize("n", [1, 7, 16, 17, 37])
def test_rectified_states_are_accepted_proposals(n, dtype):
    # In a layer that has two groups of them, which draw by words of their own.
    counter = {"key": KEY, "step": 2**33 + 5, "purpose": 2, "row0": 11}
    layer = Mixed(((n, ReLU()), (3, Bernoulli()), (n, ReLU())))
    n_units = 2 * n + 3
    x = (3 * generator(604, n).normal(size=(40, n_units))).astype(dtype)
    drawn = evaluate(layer.kernel(n_units), x, Wanted.DRAWS, **counter)
    # (Where rounding decides what is accepted, the states are others.)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for start in (0, n + 3):
        columns = slice(start, start + n)
        wanted = twin.row_rectified(x[:, columns], dtype, start, n_units, **counter)
        same = np.isclose(drawn[:, columns], wanted, tolerance, tolerance)
        assert same.mean() > 0.99


@floats
@pytest.mark.parametrize("n", [1, 8, 9, 16, 17, 33, 70])
def test_normal_numbers_are_those_of_box_and_muller(n, dtype):
    counter = {"key": KEY, "step": 2**33 + 5, "purpose": 1, "row0": 11}
    found = evaluate(
        Gaussian().kernel(n), np.zeros((200, n), dtype), Wanted.DRAWS, **counter
    )
    wanted = twin.row_normals(200, n, dtype, **counter)
    tolerance = 3e-6 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@floats
def test_normal_numbers_have_their_tails(dtype):
    x = Gaussian().sample(np.zeros((2000, 500), dtype), random_state=1)
    edges = np.r_[-np.inf, np.arange(-5, 5.01, 0.25), np.inf]
    counts, _ = np.histogram(x, edges)
    assert chi_square_p_value(counts, np.diff(norm.cdf(edges))) > 1e-6


@floats
def test_normal_numbers_of_a_row_do_not_depend_on_each_other(dtype):
    # Pairs of Box and Muller are a panel apart; neither they nor their squares
    # nor their cubes are correlated.
    n = 10000
    x = Gaussian().sample(np.zeros((n, 40), dtype), random_state=2).astype(float)
    upper = np.triu_indices(40, 1)
    powers = {1: x, 2: x * x, 3: x * x * x}
    powers = {p: (y - y.mean(axis=0)) / y.std(axis=0) for p, y in powers.items()}
    for left, right in [(1, 1), (2, 2), (1, 2), (2, 1), (3, 1), (1, 3)]:
        r = powers[left].T @ powers[right] / n
        assert chi2.sf(n * np.square(r[upper]).sum(), len(upper[0])) > 1e-6


def probabilities(kind, x):
    """Of the states of units, which `state_numbers` counts, by field."""
    if kind == Kind.BERNOULLI:
        return np.stack([expit(-x), expit(x)], axis=-1)
    return np.stack([expit(-2 * x), expit(2 * x)], axis=-1)


N_DRAWS = 20000


@floats
@every_unit
def test_draws_have_the_distribution_of_the_unit(name, dtype):
    unit, n = UNITS[name]
    least = 1e-6 / n
    for extreme in (False, True):
        x = fields_for(unit, n, 1, generator(605, extreme), extreme=extreme)
        x = x.astype(dtype)
        s = unit.sample(np.tile(x, (N_DRAWS, 1)), random_state=3)
        assert s.dtype == dtype
        s, x = s.astype(float), x[0].astype(float)
        for kind, block, loc, scale in columns(unit, n):
            one, f = s[:, block[0]], x[block[0]]
            if kind == Kind.CATEGORICAL:
                assert set(np.unique(s[:, block])) <= {0.0, 1.0}
                np.testing.assert_array_equal(s[:, block].sum(axis=1), 1)
                counts, p = s[:, block].sum(axis=0), softmax(x[block])
            elif kind in (Kind.BERNOULLI, Kind.SPIN):
                off = 0 if kind == Kind.BERNOULLI else -1
                assert set(np.unique(one)) <= {off, 1}
                on = (one == 1).sum()
                counts, p = np.array([N_DRAWS - on, on]), probabilities(kind, f)
            elif kind == Kind.POISSON:
                law = poisson(np.exp(f))
                edges = np.unique(law.ppf(np.linspace(0.001, 0.999, 40)))
                counts = np.bincount(np.searchsorted(edges, one), None, len(edges) + 1)
                p = np.diff(np.r_[0, law.cdf(edges), 1])
                assert (one == np.rint(one)).all()
            else:
                if kind == Kind.GAUSSIAN:
                    ranks = norm.cdf(one, loc + scale**2 * f, scale)
                else:
                    assert (one >= 0).all()
                    ranks = np.exp(log_ndtr(f - one) - log_ndtr(f))
                assert kstest(ranks, "uniform").pvalue > least
                continue
            # What never happens, and the rest.
            assert counts[p * N_DRAWS < 1e-9].sum() == 0
            if (p * N_DRAWS > 20).sum() > 1:
                assert chi_square_p_value(counts, p) > least


@pytest.mark.parametrize("mean", [0.01, 0.3, 1.0, 3.7, 30.0, 1e3, 1e4, 1e6])
@floats
def test_counts(mean, dtype):
    field = np.full((2000, 10), np.log(mean), dtype)
    law = poisson(np.exp(np.float64(field[0, 0])))
    s = Poisson().sample(field, random_state=4).ravel().astype(int)
    edges = np.unique(law.ppf(np.linspace(0.0005, 0.9995, 60)))
    counts = np.bincount(np.searchsorted(edges, s), None, len(edges) + 1)
    p = np.diff(np.r_[0, law.cdf(edges), 1])
    assert chi_square_p_value(counts, p) > 1e-6
    # All of the counts, not only where they are: even and odd ones.
    if mean > 3:
        odd = (1 - np.exp(-2 * law.mean())) / 2
        seen = np.array([len(s) - (s % 2).sum(), (s % 2).sum()])
        assert chi_square_p_value(seen, np.array([1 - odd, odd])) > 1e-6


@pytest.mark.parametrize("mean", [2e6, 1e9, 1e13])
def test_large_counts_have_their_law(mean):
    field = np.full((N_DRAWS, 1), np.log(mean))
    s = Poisson().sample(field, random_state=4).ravel()
    assert (s == np.floor(s)).all()
    law = poisson(np.exp(field[0, 0]))
    assert kstest(law.cdf(s), "uniform").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("mean", [1.5e6, 2e7])
def test_large_counts_are_quantiles(mean):
    # To the count next to it, where rounding decides.
    counter = {"key": KEY, "step": 1, "purpose": 2, "row0": 0}
    fields = np.full((4000, 1), np.log(mean))
    found = evaluate(Poisson().kernel(1), fields, Wanted.DRAWS, **counter)
    u = twin.row_uniforms(4000, 1, np.float64, **counter)
    wanted = poisson(np.exp(fields[0, 0])).ppf(u)
    assert np.abs(found - wanted).max() <= 1
    assert (found == wanted).mean() > 0.99


def test_counts_without_a_mean_are_zero():
    fields = np.array([[-40.0, -800.0, -1e30, -np.inf]])
    assert not Poisson().sample(fields, random_state=0).any()


def tables(a, b):
    """Chi-square p-value that pairs of fair bits are independent."""
    counts = np.bincount(2 * a.ravel().astype(int) + b.ravel().astype(int), None, 4)
    return chi_square_p_value(counts, np.full(4, 0.25))


@floats
@pytest.mark.parametrize("field", [-3e4, -1e5, -2e5, -1e9, -1e18, -1e30])
def test_draws_of_rectified_units_far_below_zero(field, dtype):
    """Next to exponential ones, of mean 1 / |x|; nothing is lost by rounding."""
    x = np.full((500, 8), field, dtype)
    drawn = evaluate(ReLU().kernel(8), x, Wanted.DRAWS, key=KEY).astype(float)
    assert kstest(drawn.ravel() * -field, "expon").pvalue > 1e-6
    if field < -1e5:
        assert len(np.unique(drawn)) > 3900


# Fair bits of every kind of unit, from its draws without a field.
FAIR = {
    "bernoulli": (Bernoulli(), lambda s: s),
    "spin": (Spin(), lambda s: s > 0),
    "categorical2": (Categorical(2), lambda s: s[:, ::2]),
    "categorical4": (Categorical(4), lambda s: s[:, ::4] + s[:, 1::4]),
    "gaussian": (Gaussian(), lambda s: s > 0),
    "relu": (ReLU(), lambda s: s > norm.ppf(0.75)),
}


@floats
@pytest.mark.parametrize("name", FAIR)
def test_draws_are_independent(name, dtype):
    unit, fair = FAIR[name]
    units, x = unit.kernel(64), np.zeros((1000, 64), dtype)

    def drawn(key=KEY, step=0, purpose=0, row0=0):
        counter = {"key": key, "step": step, "purpose": purpose, "row0": row0}
        return fair(evaluate(units, x, Wanted.DRAWS, **counter))

    first = drawn()
    for apart in (1, 2, 4, 8):
        if apart < first.shape[1]:
            assert tables(first[:, apart:], first[:, :-apart]) > 1e-6
        assert tables(first[apart:], first[:-apart]) > 1e-6
    for other in [
        {"key": KEY + 1},
        {"key": KEY ^ 1 << 63},
        {"step": 1},
        {"step": 2**32},
        {"purpose": 1},
        {"row0": 1000},
    ]:
        assert tables(first, drawn(**other)) > 1e-6, other
    np.testing.assert_array_equal(drawn(row0=400)[:600], first[400:])


def test_normal_numbers_are_not_the_uniform_ones():
    # A real unit and a binary one in the same column of two layers.
    x = np.zeros((20000, 1))
    bits = evaluate(Bernoulli().kernel(1), x, Wanted.DRAWS, key=KEY)
    real = evaluate(Gaussian().kernel(1), x, Wanted.DRAWS, key=KEY)
    for law in (real > 0, np.abs(real) > norm.ppf(0.75)):
        assert tables(bits, law) > 1e-6


@pytest.mark.thinned(5)
@floats
@every_unit
def test_rows_do_not_depend_on_each_other_or_on_threads(name, dtype):
    unit, n = UNITS[name]
    x = fields_for(unit, n, 210_000 // n, generator(606)).astype(dtype)
    units = unit.kernel(n)
    counter = {"key": KEY, "step": 3, "purpose": 1}
    for wanted in (Wanted.DRAWS, Wanted.MEANS, Wanted.VARIANCES, Wanted.LOG_PARTITIONS):
        whole = []
        for n_threads in (1, 2, 5):
            with threadpool_limits(n_threads):
                whole.append(evaluate(units, x, wanted, **counter))
        assert all(w.tobytes() == whole[0].tobytes() for w in whole)
        part = evaluate(units, x[5:8].copy(), wanted, row0=5, **counter)
        assert part.tobytes() == whole[0][5:8].tobytes()


@every_unit
def test_rows_are_asked_for(name):
    unit, n = UNITS[name]
    for method in ("mean", "variance", "sample", "log_partition", "energy"):
        wanted = "states" if method == "energy" else "fields"
        for shape in [(n,), (), (2, 1, n)]:
            message = rf"{wanted} must be of shape \(n_rows, n_units\), got shape \("
            with pytest.raises(ValueError, match=message):
                getattr(unit, method)(np.zeros(shape))


def test_samples_follow_their_seed():
    x = np.zeros((50, 17))
    same = MIXED.sample(x, random_state=0)
    np.testing.assert_array_equal(same, MIXED.sample(x, random_state=0))
    assert (same != MIXED.sample(x, random_state=1)).any()
    rng = np.random.RandomState(0)
    assert (MIXED.sample(x, rng) != MIXED.sample(x, rng)).any()


def test_parts_of_a_mixed_layer_are_those_units():
    x = fields_for(MIXED, 17, 30, generator(607))
    at, log_partition = 0, 0
    for n, unit in MIXED.parts:
        part = x[:, at : at + n]
        for method in ("mean", "variance"):
            found = getattr(MIXED, method)(x)[:, at : at + n]
            np.testing.assert_array_equal(found, getattr(unit, method)(part))
        log_partition = log_partition + unit.log_partition(part)
        at += n
    np.testing.assert_allclose(MIXED.log_partition(x), log_partition, rtol=1e-13)


# ---- Instruction sets ----

# Instruction sets, each including those before it.
ISAS = ["base", "avx2", "avx512"]


def fingerprint():
    """Print a hash of what units and their training compute, and on what."""
    digest = hashlib.sha256()
    for dtype in (np.float32, np.float64):
        for unit, n in [*UNITS.values(), (Gaussian(), 77), (Categorical(5), 205)]:
            x = fields_for(unit, n, 300, np.random.default_rng(0)).astype(dtype)
            for wanted in (Wanted.MEANS, Wanted.DRAWS):
                digest.update(evaluate(unit.kernel(n), x, wanted, key=KEY, step=1))
    X = np.random.default_rng(0).poisson(2.0, (300, 70)) * 0.37
    for kinds in [
        ("gaussian", "bernoulli"),
        ("relu", "bernoulli"),
        ("poisson", "spin"),
    ]:
        model = RBM(40, visible=kinds[0], hidden=kinds[1], momentum=0.5, n_iter=1)
        model.set_params(batch_size=50, learning_rate=0.01, random_state=0).fit(X)
        digest.update(model.components_)
        digest.update(model.free_energy(X))
    print(instruction_set(), digest.hexdigest())


def test_same_bits_on_every_instruction_set():
    code = "import test_units; test_units.fingerprint()"
    best, digest = run_on_threads([1], code)[0].split()
    # (All that this processor has.)
    isas = ISAS[: ISAS.index(best) + 1]
    found = [line.split() for line in run_on_instruction_sets(isas, code)]
    assert found == [[isa, digest] for isa in isas]
