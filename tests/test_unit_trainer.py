"""The trainer of units of any kind against its plain NumPy twin and the likelihood."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

import reference_units
from common import all_states
from reference import chi_square_p_value, generator, state_numbers
from sklearn_ebm._openmp import openmp_enabled
from sklearn_ebm._rows import Rows
from sklearn_ebm._unit_trainer import UnitTrainer
from sklearn_ebm._units import Kind
from sklearn_ebm.units import (
    Bernoulli,
    Categorical,
    Gaussian,
    Mixed,
    Poisson,
    ReLU,
    Spin,
)

KEY = 0x0123456789ABCDEF
N_VISIBLE, N_HIDDEN = 12, 8
MIXED = Mixed(
    (
        (2, Bernoulli()),
        (4, Gaussian()),
        (3, Categorical(3)),
        (1, Spin()),
        (2, Gaussian(scale=2.0)),
    )
)
# Units of the visible layer, and whether variances are learned.
VISIBLE = {
    "bernoulli": (Bernoulli(), False),
    "spin": (Spin(), False),
    "categorical": (Categorical(4), False),
    "gaussian learned": (Gaussian(), True),
    "gaussian fixed": (Gaussian(scale=1.5), False),
    "poisson": (Poisson(), False),
    "relu": (ReLU(), False),
    "mixed": (MIXED, True),
}
HIDDEN = {
    "bernoulli": Bernoulli(),
    "spin": Spin(),
    "gaussian": Gaussian(),
    "relu": ReLU(),
    "categorical": Categorical(4),
    "poisson": Poisson(),
}
FINITE = "bernoulli", "spin", "categorical"
PAIRS = [
    (v, h)
    for v in VISIBLE
    for h in HIDDEN
    if v in FINITE or h in FINITE or "poisson" not in (v, h)
]
ALL_OPTIONS = {
    "momentum": 0.5,
    "nesterov": True,
    "weight_decay": 0.01,
    "l1_decay": 0.02,
    "sparsity_target": 0.2,
    "sparsity_cost": 0.5,
    "max_norm": 0.3,
    "clip": 0.05,
}


def gaussian_columns(unit):
    parts = getattr(unit, "parts", [(N_VISIBLE, unit)])
    return np.concatenate([np.full(n, part.kind == Kind.GAUSSIAN) for n, part in parts])


def data_for(unit, n_rows, rng, dtype):
    """Rows that the units can be, Gaussian ones with means and scales of their own."""
    x = unit.sample(
        0.5 * rng.normal(size=(n_rows, N_VISIBLE)), random_state=rng_seed(rng)
    )
    gaussian = gaussian_columns(unit)
    return np.where(gaussian, 3 * x - 5, x).astype(dtype)


def rng_seed(rng):
    return int(rng.integers(2**31))


class Case:
    """A kernel and its twin in the same state, with numbers of no special values."""

    def __init__(
        self,
        visible="mixed",
        hidden="bernoulli",
        *,
        n_rows=23,
        batch_size=5,
        n_chains=5,
        n_gibbs_steps=1,
        centred=True,
        learned=None,
        scale=0.15,
        dtype=np.float64,
        csr=False,
        jumps=False,
        shares=False,
        rare=0.0,
        dense=None,
        seed=0,
        sizes=(N_VISIBLE, N_HIDDEN),
        **options,
    ):
        rng = generator(620, seed)
        unit, learns = VISIBLE[visible] if isinstance(visible, str) else visible
        self.unit, self.hidden = unit, HIDDEN.get(hidden, hidden)
        D, H = sizes
        self.gaussian = gaussian = gaussian_columns(unit)
        self.learned = gaussian & (learns if learned is None else learned)
        if D != N_VISIBLE:
            self.gaussian = gaussian = np.full(D, unit.kind == Kind.GAUSSIAN)
            self.learned = gaussian & learns
            fields = rng.normal(size=(n_rows, D)) - rare
            if dense:
                fields[::dense] += rare
            self.X = unit.sample(fields, random_state=rng_seed(rng)).astype(dtype)
        else:
            self.X = data_for(unit, n_rows, rng, dtype)
        state = {
            "components": scale * rng.normal(size=(H, D)),
            "intercept_hidden": 0.3 * rng.normal(size=H),
            "intercept_visible": 0.3 * rng.normal(size=D) - rare,
            "log_variance": np.where(gaussian, rng.uniform(-0.5, 0.5, D), 0),
        }
        state = {name: x.astype(dtype) for name, x in state.items()}
        start = self.hidden.sample(np.zeros((max(1, n_chains or 1), H)), random_state=1)
        settings = {
            "key": KEY,
            "step": 2**32 - 2,
            "n_gibbs_steps": n_gibbs_steps,
            "visible_offset": centred * rng.uniform(0.1, 0.9, D),
            "hidden_offset": centred * rng.uniform(0.1, 0.9, H),
            "learned": self.learned,
            "shift": np.where(gaussian, -4.0, 0.0),
            "scale": np.where(gaussian, 3.5, 1.0),
            "rate_shares": rng.uniform(0.1, 1, D) if shares else 1.0,
        }
        units = unit.kernel(D), self.hidden.kernel(H)
        self.trainer = UnitTrainer(
            Rows(sp.csr_array(self.X) if csr else self.X),
            *units,
            *state.values(),
            batch_size=batch_size,
            chains=start if n_chains else None,
            **settings,
        )
        self.twin = reference_units.UnitTrainer(
            unit.kernel(D),
            self.hidden.kernel(H),
            tuple(np.float64(x).T for x in state.values()),
            start.astype(dtype).astype(float) if n_chains else None,
            gaussian=gaussian,
            **settings,
            dtype=dtype,
            **options,
        )
        if jumps:
            self.trainer.start_jumps()
            self.twin.jumps = reference_units.Jumps(
                units[1], KEY, dtype, D, self.trainer.batch_size,
                counts=np.flatnonzero(units[0].of_kind(Kind.POISSON)),
            )  # fmt: skip
        self.trainer.offset_rate = self.twin.offset_rate = 0.25 * centred
        for name, value in options.items():
            setattr(self.trainer, name, value)
        if options.get("momentum"):
            self.trainer.start_velocity()
            self.twin.velocity = 0.0, 0.0, 0.0
        self.order = rng.permutation(n_rows)
        n_batches = -(-n_rows // self.trainer.batch_size)
        self.rates = rng.uniform(0.02, 0.1, n_batches)

    def batches(self):
        size = self.trainer.batch_size
        for k, rate in enumerate(self.rates):
            yield k, self.X[self.order[k * size : (k + 1) * size]].astype(float), rate

    def run(self, n_threads=1, pieces=1):
        """An epoch of the kernel, cut in pieces."""
        trainer = self.trainer
        trainer.begin_epoch(self.order, self.rates)
        n = len(self.rates) * trainer.sweeps_per_batch
        cuts = np.linspace(0, n, min(n, pieces) + 1).astype(int)
        for start, stop in zip(cuts[:-1], cuts[1:]):
            trainer.run(int(start), int(stop), n_threads)

    def everything(self):
        trainer = self.trainer
        found = [*trainer.parameters(), *trainer.averages(), trainer.hidden_offset()]
        found += trainer.velocities() if trainer.momentum else []
        return found + ([trainer.chains()] if self.twin.chains is not None else [])


def assert_close(found, wanted, rtol):
    for name, x, y in zip("Wcbs", found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol, rtol * np.abs(y).max(), err_msg=name)


def check_epoch(case, rtol=1e-9, spacing=1):
    """Every minibatch does what the twin does, and averages are means."""
    trainer, twin = case.trainer, case.twin
    trainer.start_average(spacing)
    trainer.begin_epoch(case.order, case.rates)
    seen = []
    for k, rows, rate in case.batches():
        twin.minibatch(rows, rate)
        sweeps = trainer.sweeps_per_batch
        trainer.run(k * sweeps, (k + 1) * sweeps)
        weights, *rest = twin.machine
        assert_close(trainer.parameters(), (weights.T, *rest), rtol)
        np.testing.assert_allclose(trainer.hidden_offset(), twin.hidden_offset, rtol)
        if twin.chains is not None:
            np.testing.assert_allclose(trainer.chains(), twin.chains, rtol, rtol)
            if twin.keep:
                np.testing.assert_allclose(
                    trainer.visible_chains(), twin.visible_chains, rtol, rtol
                )
        if trainer.momentum:
            velocity, hidden, visible = trainer.velocities()
            found = velocity.T, hidden, visible
            for x, y in zip(found, twin.velocity, strict=True):
                np.testing.assert_allclose(x, y, rtol, rtol * np.abs(y).max())
        assert trainer.step == twin.step
        if twin.jumps is not None:
            for k, x in enumerate(trainer.jumps_state()["fields"]):
                place = twin.jumps.fields[k]
                np.testing.assert_allclose(x, place, rtol, rtol * np.abs(place).max())
        seen.append(trainer.parameters())
    entered = seen[spacing - 1 :: spacing]
    assert_close(trainer.averages(), [np.mean(x, axis=0) for x in zip(*entered)], rtol)


# ---- The minibatch ----


@pytest.mark.thinned(3)
@pytest.mark.parametrize("visible, hidden", PAIRS)
def test_every_pair_trains_like_its_twin(visible, hidden):
    # (Small weights, so that there is a distribution between any two layers.)
    case = {"visible": visible, "hidden": hidden, "scale": 0.08, "clip": 0.5}
    check_epoch(Case(**case))
    case.pop("clip")
    check_epoch(Case(**case, n_chains=7, n_gibbs_steps=2, **ALL_OPTIONS))
    check_epoch(Case(**case, n_chains=4, batch_size=3, jumps=True))
    check_epoch(Case(**case, n_chains=None, n_gibbs_steps=2, momentum=0.5))


@pytest.mark.parametrize("spacing", [2, 3])
def test_what_enters_the_averages(spacing):
    check_epoch(Case("gaussian learned", batch_size=3), spacing=spacing)


@pytest.mark.parametrize(
    "options",
    [
        {"momentum": 0.7},
        {"momentum": 0.7, "nesterov": True},
        {"weight_decay": 0.3},
        {"l1_decay": 0.3},
        {"max_norm": 0.2},
        {"sparsity_target": 0.3, "sparsity_cost": 2.0},
        {"clip": 0.02},
        {"centred": False},
        {"centred": False, **ALL_OPTIONS},
        {"shares": True},
        {"shares": True, **ALL_OPTIONS},
        {"learned": False},
        {"unbounded": True, "scale": 0.05},
        {"unbounded": True, "scale": 0.05, "max_norm": 0.2, "l1_decay": 0.1},
        {"csr": True},
        {"batch_size": 1, "n_chains": 3},
        {"batch_size": 23, "n_chains": 2},
        {"batch_size": 100, "n_chains": 30},
        {"batch_size": 4, "n_chains": None},
        {"n_chains": None, "n_gibbs_steps": 3},
        {"n_gibbs_steps": 3},
        {"scale": 0.0},
        {"keep": 0.6},
        {"keep": 0.6, "n_gibbs_steps": 3},
        {"keep": 0.6, "n_gibbs_steps": 3, "n_chains": None},
        {"keep": 0.6, "batch_size": 4, "n_chains": 9, "momentum": 0.5},
        {"jumps": True, "batch_size": 3, "scale": 0.4},
        {"jumps": True, "batch_size": 3, "n_chains": 2, "scale": 1.5},
        {"jumps": True, "batch_size": 2, "n_chains": 150, "n_gibbs_steps": 2},
        {"jumps": True, "n_rows": 150, "batch_size": 50, "n_chains": 20},
        {"jumps": True, "n_rows": 400, "batch_size": 200, "n_chains": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("visible", ["mixed", "gaussian learned", "spin"])
def test_every_option_does_what_the_twin_does(visible, options):
    check_epoch(Case(visible, **options))


@pytest.mark.parametrize("sizes", [(1, 1), (63, 129), (64, 8), (65, 9), (150, 130)])
def test_layers_of_any_size(sizes):
    for unit in [(Gaussian(), True), (Poisson(), False)]:
        case = Case(
            unit, Spin(), sizes=sizes, scale=0.02, momentum=0.5, max_norm=0.2, clip=0.1
        )
        check_epoch(case)


@pytest.mark.parametrize("visible", [Poisson(), Bernoulli(), Categorical(50)], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"csr": True, "jumps": True, "batch_size": 3},
        {"n_chains": None, "n_gibbs_steps": 2},
        {"hidden": "gaussian", "n_gibbs_steps": 2, **ALL_OPTIONS},
        # Of some minibatches, rows are mostly zero; or chains alone.
        {"dense": 7},
        {"dense": 1, "n_chains": 9},
    ],
    ids=str,
)
@pytest.mark.parametrize("n_hidden", [3, 75])
def test_rows_that_are_mostly_zero(visible, options, n_hidden):
    options = {"hidden": "bernoulli", "scale": 0.03, "rare": 4.5, **options}
    case = Case((visible, False), sizes=(450, n_hidden), **options)
    if "dense" not in options:
        assert np.mean(case.X != 0, axis=1).max() < 0.05
    check_epoch(case)


@pytest.mark.parametrize("visible, hidden", PAIRS)
def test_float32_follows_the_twin(visible, hidden):
    # One minibatch: a draw that falls between two roundings would part them.
    for n_chains in (6, None):
        case = Case(
            visible, hidden, dtype=np.float32, n_rows=6, batch_size=6, momentum=0.5,
            n_chains=n_chains,
        )  # fmt: skip
        check_epoch(case, rtol=2e-5)
        assert all(x.dtype == np.float32 for x in case.everything())


def test_variances_neither_collapse_nor_leap():
    # A variance at its floor stays there; one far below the data's grows.
    case = Case((Gaussian(), True), "bernoulli", n_rows=20, batch_size=20, n_chains=20)
    floor = np.log(1e-3)
    for rate in (1e-3, 1e6):
        before = case.trainer.parameters()[3]
        case.trainer.begin_epoch(case.order, [rate])
        case.trainer.run(0, 1)
        after = case.trainer.parameters()[3]
        assert (after >= floor - 1e-12).all()
        assert (after >= before - np.log(2) - 1e-12).all()
        assert np.isfinite(after).all()


# ---- The gradient ----

SMALL = Mixed(((1, Bernoulli()), (2, Gaussian()), (3, Categorical(3))))


def log_density(machine, X, hidden, states):
    """Exact log p(v) of rows: hidden and other discrete units enumerated.

    `states` are all states of the discrete visible columns 0, 3, 4, 5; Gaussian
    units 1 and 2 are integrated in closed form.
    """
    weights, c, b, log_variance = machine
    variance = np.exp(log_variance)
    seen = weights / variance[:, np.newaxis]
    real, discrete = [1, 2], [0, 3, 4, 5]

    def minus_energy(V):
        joint = (
            V @ seen @ hidden.T + hidden @ c + (V[:, discrete] @ b[discrete])[:, None]
        )
        squares = np.square(V - b)[:, real] / (2 * variance[real])
        return joint - squares.sum(axis=1)[:, np.newaxis]

    free = logsumexp(minus_energy(X), axis=1)
    shifts = hidden @ weights[real].T
    moved = b[real] + shifts
    area = (np.square(moved) - b[real] ** 2) / (2 * variance[real])
    area = (area + np.log(2 * np.pi * variance[real]) / 2).sum(axis=1)
    rest = states @ weights[discrete] @ hidden.T + (states @ b[discrete])[:, np.newaxis]
    log_z = logsumexp(rest + hidden @ c + area)
    return (free - log_z).mean()


@pytest.mark.parametrize("offset", [0.0, np.array([0.5, 3.0, -2.0, 0.1, 0.7, 0.2])])
def test_expected_direction_is_the_gradient_of_the_likelihood(offset):
    # The direction of the twin, which the kernel's is, with exact moments of the
    # model in place of those of chains.
    rng = generator(630)
    D, H = 6, 3
    machine = [
        0.7 * rng.normal(size=(D, H)),
        rng.normal(size=H),
        rng.normal(size=D),
        np.array([0, 0.3, -0.4, 0, 0, 0]),
    ]
    hidden = np.array(np.meshgrid(*[[0.0, 1.0]] * H)).reshape(H, -1).T
    states = np.array([[v, *one] for v in (0.0, 1.0) for one in np.eye(3)])
    X = np.zeros((7, D))
    X[:, [0, 3, 4, 5]] = states[rng.integers(6, size=7)]
    X[:, [1, 2]] = 1 + 2 * rng.normal(size=(7, 2))

    weights, c, b, log_variance = machine
    variance = np.exp(log_variance)
    # Exact moments of the model: v and squares given (discrete states, h).
    rest = (
        states @ weights[[0, 3, 4, 5]] @ hidden.T + (states @ b[[0, 3, 4, 5]])[:, None]
    )
    moved = b[1:3] + hidden @ weights[1:3].T
    area = (np.square(moved) - b[1:3] ** 2) / (2 * variance[1:3])
    p = np.exp(rest + hidden @ c + area.sum(axis=1))
    p /= p.sum()
    v = np.zeros((len(states), len(hidden), D))
    v[:, :, [0, 3, 4, 5]] = states[:, np.newaxis]
    v[:, :, 1:3] = moved
    model = (
        np.einsum("sh,shi,hj->ij", p, v, hidden),
        p.sum(axis=0) @ hidden,
        np.einsum("sh,shi->i", p, v),
        np.einsum("sh,shi->i", p, np.square(v - b)) + variance,
    )
    real = np.isin(np.arange(D), [1, 2])
    twin = reference_units.UnitTrainer(
        SMALL.kernel(D), Bernoulli().kernel(H), tuple(machine), None, KEY,
        offset, 0.0, real, real, 0.0, 1.0,
    )  # fmt: skip
    found = twin.gradient(twin.moments(X), model)
    for k, name in enumerate(["weights", "hidden", "visible", "log variance"]):
        for place in np.ndindex(machine[k].shape):
            if k == 3 and place[0] not in (1, 2):
                continue
            sides = []
            for step in (1e-5, -1e-5):
                there = [x.copy() for x in machine]
                there[k][place] += step
                if k == 3:  # to which hidden biases give way
                    change = np.exp(-there[3]) - 1 / variance
                    there[1] -= (offset * change) @ weights
                sides.append(log_density(there, X, hidden, states))
            slope = (sides[0] - sides[1]) / 2e-5
            # Multiplied by the variance: steps do not depend on units.
            times = variance[place[0]] if name in ("weights", "visible") else 1
            np.testing.assert_allclose(found[k][place], slope * times, 1e-6, 1e-8)


# ---- Unbounded layers ----


@pytest.mark.parametrize(
    "visible, hidden",
    [
        ((Gaussian(), True), Gaussian()),
        ((Gaussian(scale=1.5), False), ReLU()),
        ((ReLU(), False), ReLU()),
        ((Gaussian(), True), Gaussian(scale=3.0)),
    ],
    ids=str,
)
def test_weights_between_unbounded_layers_stay_small(visible, hidden):
    case = Case(visible, hidden, n_rows=200, batch_size=10, n_chains=10)
    factor = np.abs(generator(640).normal(size=(200, 1)))
    case.X[...] = 4 * factor + 0.3 * np.abs(case.X)  # (which the kernel reads)
    trainer = case.trainer
    trainer.unbounded, trainer.clip, trainer.offset_rate = True, 1.0, 0.0
    norms = []
    for _ in range(8):
        trainer.begin_epoch(case.order, np.full(20, 0.1))
        for batch in range(20):
            trainer.run(batch, batch + 1)
            components, *_, log_variance = trainer.parameters()
            weights = components * np.exp(-log_variance / 2)
            norms.append(getattr(hidden, "scale", 1.0) * np.linalg.norm(weights, 2))
    assert np.isfinite(trainer.chains()).all()
    # To what the power method leaves; and it is the cap that keeps them there.
    assert max(norms) < 0.96
    assert max(norms) > 0.94


def test_weights_of_bounded_units_are_not_scaled():
    hidden = Mixed(((2, Bernoulli()), (N_HIDDEN - 2, Gaussian())))
    case = Case("mixed", hidden, scale=1.0, learned=False)
    before, *_, log_variance = case.trainer.parameters()
    case.trainer.unbounded, case.trainer.offset_rate = True, 0.0
    case.trainer.begin_epoch(case.order, np.zeros(len(case.rates)))
    case.trainer.run(0, 1)
    after = case.trainer.parameters()[0]
    block = np.ix_(np.arange(N_HIDDEN) >= 2, case.gaussian)
    deviation = np.broadcast_to(np.exp(log_variance / 2), before.shape)[block]
    left, norms, right = np.linalg.svd(before[block] / deviation, full_matrices=False)
    assert norms[0] > 2 and norms[-1] < 0.9  # some directions are bounded, some free
    wanted = left * np.minimum(norms, 0.95) @ right * deviation
    # (To what the power method leaves.)
    np.testing.assert_allclose(after[block], wanted, atol=2e-3)
    after[block] = before[block]
    np.testing.assert_array_equal(after, before)


# ---- Jumps ----


def two_modes(n_rows, n_chains, share, seed, scale=4.0):
    """A machine of three hidden bits that has modes far apart, and rows of two."""
    unit = Gaussian(), True
    case = Case(
        unit, "bernoulli", sizes=(4, 3), n_rows=n_rows, batch_size=20, jumps=True,
        n_chains=n_chains, scale=scale, seed=seed, centred=False,
    )  # fmt: skip
    rng = generator(645, seed)
    weights, c, b, log_variance = (x.copy() for x in case.twin.machine)
    states = np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, -1).T
    modes = rng.choice(8, 2, replace=False)
    means = b + states[modes] @ weights.T
    rows = means[(rng.random(n_rows) < share).astype(int)]
    rows += np.exp(log_variance / 2) * rng.normal(size=rows.shape)
    case.X[...] = rows * 3.5 - 4.0  # as the kernel reads them
    moved = np.square(b + states @ weights.T) - b**2
    log_p = states @ c + (moved / (2 * np.exp(log_variance))).sum(axis=1)
    return case, states, np.exp(log_p - logsumexp(log_p))


@pytest.mark.thinned(4)
@pytest.mark.parametrize("seed, share", [(0, 0.5), (1, 0.95), (2, 0.05), (3, 1.0)])
def test_jumps_leave_the_model_as_it_is(seed, share):
    # Whatever rows there are, also if they are of one mode alone.
    case, states, p = two_modes(200, 4000, share, seed, scale=0.8)
    rng = generator(646, seed)
    begun = states[rng.choice(8, 4000, p=p)]
    case.trainer.set_chains(begun)
    for _ in range(50):  # with jumps in every few minibatches
        case.trainer.begin_epoch(case.order, np.zeros(10))
        case.trainer.run(0, 10)
    assert (case.trainer.chains() != begun).any(axis=1).mean() > 0.3
    counts = np.bincount(state_numbers(case.trainer.chains()), minlength=8)
    numbers = state_numbers(states)
    wanted = np.zeros(8)
    wanted[numbers] = p
    assert chi_square_p_value(counts, wanted) > 1e-3


@pytest.mark.thinned(3)
@pytest.mark.parametrize("hidden", ["gaussian", "relu", "poisson"])
def test_jumps_to_hidden_states_without_bounds_leave_the_model_as_it_is(hidden):
    case = Case(
        "spin", hidden, sizes=(3, 2), n_rows=200, batch_size=20, jumps=True,
        n_chains=4000, scale=0.7, centred=False,
    )  # fmt: skip
    case.X[...] = 1  # of one mode alone
    weights, c, b, _ = case.twin.machine
    states = 2 * all_states(3) - 1.0
    log_p = states @ b + [
        case.hidden.log_partition(field[np.newaxis])[0]
        for field in states @ weights + c
    ]
    p = np.exp(log_p - logsumexp(log_p))
    begun = states[generator(648).choice(8, 4000, p=p)]
    case.trainer.set_chains(case.hidden.sample(begun @ weights + c, random_state=1))
    for _ in range(50):  # with jumps in every few minibatches
        case.trainer.begin_epoch(case.order, np.zeros(10))
        case.trainer.run(0, 10)
    fields = case.trainer.chains() @ weights.T + b
    seen = state_numbers(case.unit.sample(fields, random_state=2) > 0)
    wanted = np.zeros(8)
    wanted[state_numbers(states > 0)] = p
    assert chi_square_p_value(np.bincount(seen, minlength=8), wanted) > 1e-3


@pytest.mark.parametrize("visible", ["poisson", "mixed"])
@pytest.mark.parametrize("n_rows, batch_size", [(96, 10), (50, 50)])
def test_jumps_to_counts_that_are_driven_up(visible, n_rows, batch_size):
    case = Case(
        visible, n_rows=n_rows, batch_size=batch_size, jumps=True, n_chains=4,
        scale=0.3, centred=False, learned=False,
    )  # fmt: skip
    check_epoch(case)
    assert len(case.twin.jumps.fields) == 48


def test_jumps_where_counts_are_driven_up_leave_the_model_as_it_is():
    case = Case(
        (Poisson(), False), "bernoulli", sizes=(4, 3), n_rows=200, batch_size=20,
        jumps=True, n_chains=4000, scale=0.7, centred=False,
    )  # fmt: skip
    weights, c, b, _ = case.twin.machine
    states = all_states(3).astype(float)
    log_p = states @ c + np.exp(b + states @ weights.T).sum(axis=1)
    p = np.exp(log_p - logsumexp(log_p))
    begun = states[generator(649).choice(8, 4000, p=p)]
    case.trainer.set_chains(begun)
    for _ in range(50):  # with jumps in every few minibatches
        case.trainer.begin_epoch(case.order, np.zeros(10))
        case.trainer.run(0, 10)
    # Places to jump to are rows, or half-way between two, or where counts are that are
    # driven up, from a row or by all units that raise one of them.
    state = case.trainer.jumps_state()
    of_rows = case.X @ weights + c
    driven = {"row": of_rows > 0, "count": weights > 0}
    for _ in range(2):
        places = {
            name: c + np.exp(b + on @ weights.T) @ weights
            for name, on in driven.items()
        }
        driven = {name: fields > 0 for name, fields in places.items()}
    found = []
    for k in range(48):
        mine, before = state["fields"][k], state["fields"][k - 1]
        known = {"a row": mine, "between": before + 2 * (mine - before)}
        known = {name: (x, of_rows) for name, x in known.items()}
        known |= {name: (mine, x) for name, x in places.items()}
        fits = [
            name for name, (x, those) in known.items()
            if np.abs(those - x).max(axis=1).min() < 1e-9
        ]  # fmt: skip
        found.append(fits)
    wanted = [x for last in ("between", *places) for x in (*7 * ["a row"], last)] * 2
    assert all(x in fits for x, fits in zip(wanted, found, strict=True))
    # What is kept for samples are rows alone, and more of them: 256, all 200 twice.
    distances = np.abs(of_rows - state["archive"][:, np.newaxis]).max(axis=2)
    assert distances.shape == (256, 200) and distances.min(axis=1).max() < 1e-9
    assert len(np.unique(distances.argmin(axis=1))) == len(np.unique(of_rows, axis=0))
    # (As many chains have moved as do in draws that know nothing of the first ones.)
    moved = (case.trainer.chains() != begun).any(axis=1).mean()
    assert moved > 0.8 * (1 - np.square(p).sum()) > 0.1
    counts = np.bincount(state_numbers(case.trainer.chains()), minlength=8)
    wanted = np.zeros(8)
    wanted[state_numbers(states)] = p
    assert chi_square_p_value(counts, wanted) > 1e-3


@pytest.mark.parametrize("jumps", [False, True])
def test_jumps_carry_chains_where_sweeps_do_not(jumps):
    # One hidden bit, on for three rows of ten, whose two modes are 20 deviations apart.
    p, far, n_chains = 0.3, 20.0, 1000
    rows = np.where(np.arange(50) < 40, far, 0.0) + generator(647).normal(size=50)
    trainer = UnitTrainer(
        Rows(rows[:, np.newaxis]),
        Gaussian().kernel(1),
        Bernoulli().kernel(1),
        np.array([[far]]),
        np.array([np.log(p / (1 - p)) - far**2 / 2]),
        np.zeros(1),
        batch_size=10,
        chains=np.zeros((n_chains, 1)),
        key=KEY,
        step=1,
        n_gibbs_steps=1,
        visible_offset=0.0,
        hidden_offset=0.0,
    )
    if jumps:
        trainer.start_jumps()
    for _ in range(50):
        trainer.begin_epoch(np.arange(50), np.zeros(5))
        trainer.run(0, 5)
    n_on = trainer.chains().sum()
    if jumps:
        assert abs(n_on - n_chains * p) < 5 * np.sqrt(n_chains * p * (1 - p))
    else:
        assert n_on == 0


def test_jumps_wait_the_longer_the_more_often_all_are_refused():
    # Hidden units are many and hear much: no two states of them are alike.
    case = Case(
        (Gaussian(), True), "bernoulli", sizes=(40, 200), n_rows=400, batch_size=4,
        n_chains=3, jumps=True, scale=1.0,
    )  # fmt: skip
    waits = []
    for _ in range(12):
        case.trainer.begin_epoch(case.order, np.zeros(100))
        for batch in range(100):
            case.trainer.run(batch, batch + 1)
            waits.append(case.trainer.jumps_state()["wait"])
    assert waits[0] == 1 and waits[-1] == 512
    assert np.isin(np.diff(np.log2(waits)), (0, 1)).all()


@pytest.mark.parametrize(
    "sizes, n_chains, wait",
    # Multiplications of a jump, and four times those of a minibatch. The wait is the
    # shorter one that 262 144 and these allow; where those of a minibatch are more than
    # 2^25, these allow no less than four.
    [
        ((1, 1), 1, 1),  # 96
        ((40, 60), 40, 1),  # 254 400
        ((9, 400), 40, 2),  # 1 568 000, 1 267 200
        ((600, 40), 90, 1),  # 885 600, 18 048 000
        ((1, 64), 100, 4),  # 614 400, 53 248
        ((2, 300), 100, 8),  # 2 880 000, 499 200
        ((1, 300), 2000, 16),  # 57 600 000, 4 809 600
        ((5000, 60), 50, 1),  # 4 038 000, 4 * 32 400 000
        ((5000, 65), 50, 4),  # 4 374 500, 4 * 35 100 000
    ],
)
def test_jumps_cost_a_share_of_a_minibatch(sizes, n_chains, wait):
    case = Case(
        (Gaussian(), True), "bernoulli", sizes=sizes, n_rows=8, batch_size=4,
        n_chains=n_chains, jumps=True, scale=0.0,
    )  # fmt: skip
    assert case.trainer.jumps_state()["wait"] == wait


def test_jumps_do_not_wait_longer_where_minibatches_have_fewer_steps():
    case = Case("gaussian learned", n_rows=400, batch_size=1, n_chains=3, jumps=True)
    trainer = case.trainer
    trainer.start_jumps({**trainer.jumps_state(), "wait": 4, "due": 10**15})
    trainer.begin_epoch(case.order, np.zeros(400))
    trainer.run(0, 1)  # there are no rows yet
    assert trainer.jumps_state()["due"] == 10**15
    trainer.run(1, 2)
    assert trainer.jumps_state()["due"] - trainer.step < 1000


def test_jumps_of_more_chains_wait_as_long_as_they_are_to():
    few = Case("gaussian learned", n_chains=2, jumps=True).trainer
    many = Case("gaussian learned", n_chains=1000, jumps=True).trainer
    least = many.jumps_state()["wait"]
    assert least > few.jumps_state()["wait"]
    many.start_jumps(few.jumps_state())
    assert many.jumps_state()["wait"] == least


def test_jumps_go_on_from_their_state():
    case, other = (Case("mixed", jumps=True, n_rows=150, scale=0.3) for _ in "ab")
    case.run()
    trainer = other.trainer
    trainer.begin_epoch(other.order, other.rates)
    trainer.run(0, 17)
    trainer.start_jumps(trainer.jumps_state())
    trainer.run(17, 30)
    assert_same_bits(other.everything(), case.everything())
    # It is not that jumps do nothing.
    alone = Case("mixed", n_rows=150, scale=0.3)
    alone.run()
    assert (alone.trainer.chains() != case.trainer.chains()).any()
    assert alone.trainer.jumps_state() is None


# ---- The same bits ----


def assert_same_bits(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def test_chains_go_on_from_where_they_are():
    case, other = (Case("gaussian learned", keep=0.9, batch_size=12) for _ in "ab")
    case.run()
    other.trainer.begin_epoch(other.order, other.rates)
    other.trainer.run(0, 1)
    visible = other.trainer.visible_chains()
    other.trainer.set_chains(other.trainer.chains(), visible)
    other.trainer.run(1, 2)
    np.testing.assert_array_equal(
        other.trainer.visible_chains(), case.trainer.visible_chains()
    )
    # And to begin with where the hidden states alone say.
    alone = Case("gaussian learned", keep=0.9, batch_size=12)
    alone.trainer.begin_epoch(alone.order, alone.rates)
    alone.trainer.run(0, 1)
    np.testing.assert_array_equal(alone.trainer.visible_chains(), visible)
    alone.trainer.set_chains(alone.trainer.chains())
    alone.trainer.run(1, 2)
    assert (alone.trainer.visible_chains() != case.trainer.visible_chains()).all()


def large(seed=0, hidden="relu", **options):
    return Case(
        (Gaussian(), True), hidden, sizes=(150, 140), n_rows=300, batch_size=60,
        n_chains=70, scale=0.01, n_gibbs_steps=3, seed=seed, dtype=np.float32,
        **ALL_OPTIONS, **options,
    )  # fmt: skip


def large_and_rare(**options):
    return Case(
        (Poisson(), False), "bernoulli", sizes=(900, 140), n_rows=300, batch_size=60,
        n_chains=70, scale=0.01, rare=4.5, momentum=0.5, dtype=np.float32, **options,
    )  # fmt: skip


@pytest.mark.skipif(not openmp_enabled(), reason="built without OpenMP")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keep": 0.4},
        {"hidden": "bernoulli", "jumps": True},
        {"make": large_and_rare},
        {"make": large_and_rare, "jumps": True, "dense": 50},
    ],
    ids=str,
)
def test_same_bits_on_any_number_of_threads_and_cuts(options, monkeypatch):
    # As many threads as are allowed, not as there are cores.
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    found = []
    options = dict(options)
    make = options.pop("make", large)
    for n_threads, pieces in [(1, 1), (2, 1), (5, 1), (1, 15), (2, 4), (3, 7)]:
        with threadpool_limits(n_threads):
            case = make(**options)
            case.trainer.unbounded = True
            case.trainer.start_average()
            assert case.trainer.n_threads == n_threads
            case.run(n_threads, pieces)
        found.append(b"".join(x.tobytes() for x in case.everything()))
    assert all(f == found[0] for f in found)


def test_next_step_is_one_that_no_sweep_has_drawn_from():
    case = Case("spin", n_gibbs_steps=3)
    first = case.trainer.step
    case.trainer.begin_epoch(case.order, case.rates)
    case.trainer.run(0, 3)
    assert case.trainer.next_step == first + 3
    case.trainer.run(3, 4)
    assert case.trainer.next_step == first + 6


def test_wrong_orders_are_refused():
    trainer = Case().trainer
    with pytest.raises(ValueError, match="order names rows"):
        trainer.begin_epoch([0, 23], np.ones(1))
    with pytest.raises(ValueError, match="more minibatches than rates"):
        trainer.begin_epoch(np.arange(23), np.ones(4))
    trainer.begin_epoch(np.arange(23), np.ones(5))
    with pytest.raises(ValueError, match="no sweeps 0..6"):
        trainer.run(0, 6)
