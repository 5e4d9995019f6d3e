"""The folded trainer against its plain twin, and against the gradient of the bound."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import reference_units
from reference import generator
from reference_deep import bound, enumerate_layers, mean_field, unfolded
from sklearn_ebm._mean_field import MeanField
from sklearn_ebm._openmp import openmp_enabled
from sklearn_ebm._rows import Rows
from sklearn_ebm._unit_trainer import UnitTrainer
from sklearn_ebm._units import Kind
from sklearn_ebm.layered import side_by_side
from sklearn_ebm.units import Bernoulli, Gaussian, Mixed, as_unit

KEY = 0x0123456789ABCDEF
BERNOULLI = Bernoulli()
# Sizes of all layers, the visible one first.
SHAPES = [(6, 5, 4), (5, 4, 3, 3), (4, 3, 3, 2, 2)]
OPTIONS = {"momentum": 0.5, "weight_decay": 0.05, "clip": 0.05}
# Which of n visible units are Gaussian.
VISIBLE = {
    "bernoulli": lambda n: np.zeros(n, bool),
    "gaussian": lambda n: np.ones(n, bool),
    "both": lambda n: np.arange(n) >= 2,
}
every_shape = pytest.mark.parametrize("sizes", SHAPES, ids=str)


def connections(sizes):
    """Which even units (rows) and odd units (columns) are connected."""
    layer = [np.repeat(range(k, len(sizes), 2), sizes[k::2]) for k in (0, 1)]
    return np.abs(layer[0][:, np.newaxis] - layer[1]) == 1


def units_for(gaussian):
    """Bernoulli units, and Gaussian ones after them."""
    n_real, n = gaussian.sum(), len(gaussian)
    if n_real in (0, n):
        return Gaussian() if n_real else BERNOULLI
    return Mixed(((n - n_real, BERNOULLI), (n_real, Gaussian())))


class Case:
    """A folded trainer and its twin in the same state."""

    def __init__(
        self,
        sizes,
        visible="bernoulli",
        *,
        n_rows=23,
        batch_size=5,
        n_chains=6,
        n_gibbs_steps=1,
        centred=True,
        n_steps=400,
        tolerance=0.0,
        scale=0.5,
        dtype=np.float64,
        jumps=False,
        share=0.4,
        seed=0,
        **options,
    ):
        rng = generator(730, seed, *sizes)
        n_given, D, H = sizes[0], sum(sizes[::2]), sum(sizes[1::2])
        n_latent = D - n_given
        gaussian = np.append(VISIBLE[visible](n_given), np.zeros(n_latent, bool))
        unit = units_for(gaussian[:n_given])
        rows = rng.random((n_rows, n_given)) < share
        real = 3 * rng.normal(size=rows.shape) - 5
        self.X = np.where(gaussian[:n_given], real, rows).astype(dtype)
        even = as_unit(side_by_side((unit, "bernoulli"), (n_given, n_latent)))
        self.connected = connections(sizes)
        state = {
            "components": scale * rng.normal(size=(H, D)) * self.connected.T,
            "intercept_hidden": 0.3 * rng.normal(size=H),
            "intercept_visible": 0.3 * rng.normal(size=D),
            "log_variance": np.where(gaussian, rng.uniform(-0.5, 0.5, D), 0),
        }
        state["intercept_visible"][:n_given] += np.log(share / 0.4)
        state = {name: x.astype(dtype) for name, x in state.items()}
        chains = (rng.random((n_chains, H)) < 0.5).astype(dtype)
        settings = {
            "key": KEY,
            "step": 2**32 - 2,
            "n_gibbs_steps": n_gibbs_steps,
            "visible_offset": centred * rng.uniform(0.1, 0.9, D),
            "hidden_offset": centred * rng.uniform(0.1, 0.9, H),
        }
        # (The twin knows those of all visible units, the kernel those of the rows.)
        scales = {
            "learned": gaussian,
            "shift": np.where(gaussian, -4.0, 0.0),
            "scale": np.where(gaussian, 3.5, 1.0),
        }
        field = MeanField(
            BERNOULLI.kernel(n_latent), BERNOULLI.kernel(H), np.dtype(dtype), n_given,
            n_steps=n_steps, tolerance=tolerance,
        )  # fmt: skip
        self.trainer = UnitTrainer(
            Rows(self.X), even.kernel(D), BERNOULLI.kernel(H), *state.values(),
            batch_size=batch_size, chains=chains, field=field,
            connected=self.connected, **settings,
            **{name: x[:n_given] for name, x in scales.items()},
        )  # fmt: skip
        self.twin = reference_units.UnitTrainer(
            even.kernel(D), BERNOULLI.kernel(H),
            tuple(np.float64(x).T for x in state.values()), chains.astype(float),
            dtype=dtype, connected=self.connected.astype(float),
            infer=lambda seen, machine: mean_field(
                seen, machine[0], machine[1], machine[2][n_given:], n_steps, tolerance
            )[0],
            gaussian=gaussian, **settings, **scales, **options,
        )  # fmt: skip
        if jumps:
            self.trainer.start_jumps()
            hidden = BERNOULLI.kernel(H)
            self.twin.jumps = reference_units.Jumps(
                hidden, KEY, dtype, D, self.trainer.batch_size,
                counts=np.flatnonzero(even.kernel(D).of_kind(Kind.POISSON)),
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

    def run(self, n_threads=1):
        self.trainer.begin_epoch(self.order, self.rates)
        n_sweeps = len(self.rates) * self.trainer.sweeps_per_batch
        self.trainer.run(0, n_sweeps, n_threads)

    def everything(self):
        trainer = self.trainer
        found = [*trainer.parameters(), trainer.chains(), trainer.hidden_offset()]
        found += trainer.velocities() if trainer.momentum else []
        return [*found, trainer.visible_offset()]


def check_epoch(case, rtol=1e-9):
    """Every minibatch does what the twin does."""
    trainer, twin = case.trainer, case.twin
    start = trainer.parameters()[0].T
    trainer.begin_epoch(case.order, case.rates)
    size, n_sweeps = trainer.batch_size, trainer.sweeps_per_batch
    for k, rate in enumerate(case.rates):
        rows = case.X[case.order[k * size : (k + 1) * size]].astype(float)
        twin.minibatch(rows, rate)
        trainer.run(k * n_sweeps, (k + 1) * n_sweeps)
        weights, *rest = twin.machine
        pairs = [*zip(trainer.parameters(), (weights.T, *rest), strict=True)]
        pairs += [
            (trainer.chains(), twin.chains),
            (trainer.hidden_offset(), twin.hidden_offset),
            (trainer.visible_offset(), twin.visible_offset),
        ]
        if trainer.momentum:
            velocity, hidden, visible = trainer.velocities()
            found = velocity.T, hidden, visible
            pairs += [*zip(found, twin.velocity, strict=True)]
        for x, y in pairs:
            np.testing.assert_allclose(x, y, rtol, rtol * np.abs(y).max())
        assert (trainer.parameters()[0].T[~case.connected] == 0).all()
        assert trainer.step == twin.step
    # All weights that there are have moved.
    assert (weights != start)[case.connected].all()


# ---- The minibatch ----


@pytest.mark.thinned(3)
@every_shape
@pytest.mark.parametrize("visible", VISIBLE)
@pytest.mark.parametrize("centred", [True, False])
def test_minibatches_are_those_of_the_twin(centred, visible, sizes):
    check_epoch(Case(sizes, visible, centred=centred))
    check_epoch(Case(sizes, visible, centred=centred, n_gibbs_steps=3, **OPTIONS))
    check_epoch(Case(sizes, visible, centred=centred, jumps=True))


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "options",
    [
        {"momentum": 0.7, "nesterov": True},
        {"l1_decay": 0.3},
        {"max_norm": 0.2},
        {"n_steps": 25, "tolerance": 1e-3},
        {"n_steps": 1},
        {"batch_size": 1, "n_chains": 3},
        {"n_rows": 150, "batch_size": 150, "n_chains": 70},
        {"batch_size": 100, "n_chains": 1},
        {"scale": 0.0},
        {"scale": 2.0},
        {"scale": 2.0, "jumps": True, "n_chains": 20},
        {"jumps": True, "batch_size": 2, "n_chains": 150, "n_gibbs_steps": 2},
    ],
    ids=str,
)
@every_shape
def test_every_option_does_what_the_twin_does(sizes, options):
    check_epoch(Case(sizes, **options))


@pytest.mark.parametrize("sizes", [(450, 7, 4), (450, 5, 4, 3)], ids=str)
def test_rows_that_are_mostly_zero(sizes):
    case = Case(sizes, share=0.01, scale=0.1, jumps=True, momentum=0.5)
    # (Latent means count as well.)
    assert case.X.sum(axis=1).max() + sum(sizes[2::2]) < 0.05 * sum(sizes[::2])
    check_epoch(case)


@every_shape
@pytest.mark.parametrize("visible", VISIBLE)
def test_float32_follows_the_twin(sizes, visible):
    # One minibatch: a draw that falls between two roundings would part them.
    case = Case(sizes, visible, dtype=np.float32, n_rows=6, batch_size=6, momentum=0.5)
    check_epoch(case, rtol=5e-5)
    assert all(x.dtype == np.float32 for x in case.everything())


@pytest.mark.parametrize("up, down", [(2.0, 1.0), (1.0, 2.0), (0.5, 3.0)])
@pytest.mark.parametrize("visible", VISIBLE)
def test_weights_that_count_more_than_once(visible, up, down):
    """Machines that pretraining takes from a deep one: no mean field, all connected."""
    rng = generator(731)
    gaussian = VISIBLE[visible](5)
    unit = units_for(gaussian)
    X = np.where(gaussian, rng.normal(size=(8, 5)), rng.random((8, 5)) < 0.5)
    X = X.astype(float)
    state = (
        rng.normal(size=(4, 5)),
        rng.normal(size=4),
        rng.normal(size=5),
        np.where(gaussian, 0.3, 0.0),
    )
    settings = {
        "key": KEY, "step": 3, "n_gibbs_steps": 1, "shift": np.zeros(5),
        "visible_offset": rng.random(5), "hidden_offset": rng.random(4),
        "learned": gaussian, "scale": np.ones(5),
        "up_scale": up, "down_scale": down,
    }  # fmt: skip
    chains = (rng.random((7, 4)) < 0.5).astype(float)
    trainer = UnitTrainer(
        Rows(X), unit.kernel(5), BERNOULLI.kernel(4), *state, batch_size=4,
        chains=chains, **settings,
    )  # fmt: skip
    twin = reference_units.UnitTrainer(
        unit.kernel(5), BERNOULLI.kernel(4), tuple(x.T for x in state), chains,
        **settings, gaussian=gaussian, max_norm=1.0,
    )  # fmt: skip
    trainer.max_norm = 1.0
    trainer.begin_epoch(np.arange(8), [0.1, 0.05])
    for k, rate in enumerate([0.1, 0.05]):
        twin.minibatch(X[4 * k : 4 * k + 4], rate)
        trainer.run(k, k + 1)
        weights, *rest = twin.machine
        for x, y in zip(trainer.parameters(), (weights.T, *rest), strict=True):
            np.testing.assert_allclose(x, y, 1e-10, 1e-12)
        np.testing.assert_array_equal(trainer.chains(), twin.chains)


def test_units_that_nothing_gives_are_refused():
    with pytest.raises(ValueError, match="do not make the visible units"):
        UnitTrainer(
            Rows(np.zeros((3, 4))), BERNOULLI.kernel(6), BERNOULLI.kernel(2),
            np.zeros((2, 6)), np.zeros(2), np.zeros(6), batch_size=1, chains=None,
            key=0, step=0, n_gibbs_steps=1, visible_offset=0.0, hidden_offset=0.0,
        )  # fmt: skip


@pytest.mark.skipif(not openmp_enabled(), reason="built without OpenMP")
def test_same_bits_on_any_number_of_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads):
            case = Case(
                (100, 60, 50, 40), n_rows=300, batch_size=150, n_chains=70,
                dtype=np.float32, scale=0.1, n_steps=25, tolerance=1e-3, momentum=0.5,
                jumps=True,
            )  # fmt: skip
            assert case.trainer.n_threads == n_threads
            case.run(n_threads)
        found.append(b"".join(x.tobytes() for x in case.everything()))
    assert found[1:] == found[:1] * 2


# ---- The gradient ----


def settled(machine, X, n_steps=500):
    weights, c, b, *_ = machine
    return mean_field(X, weights, c, b[X.shape[1] :], n_steps)


def mean_bound(machine, X, sizes):
    """Mean over rows of the bound where mean field ends, with the exact log Z."""
    layers = unfolded(machine, sizes)
    latent, odd = (
        np.split(side, np.cumsum(sizes[k::2])[:-1], axis=1)
        for side, k in zip(settled(machine, X), (2, 1), strict=True)
    )
    hidden = [(odd, latent)[k % 2][k // 2] for k in range(len(sizes) - 1)]
    return bound(layers, X, hidden).mean() - enumerate_layers(layers).log_z


def model_moments(machine, sizes):
    """Exact means of even x odd, odd and even units, and squares (not used)."""
    exact = enumerate_layers(unfolded(machine, sizes))
    raw = np.einsum("s,si,sj->ij", exact.p, exact.even, exact.odd)
    visible = exact.p @ exact.even
    squares = exact.p @ np.square(exact.even - machine[2])
    return raw, exact.p @ exact.odd, visible, squares


SMALL = [(4, 3, 2), (3, 3, 2, 2), (3, 2, 2, 2, 2)]
every_small_shape = pytest.mark.parametrize("sizes", SMALL, ids=str)


def twin_with(machine, sizes, mu, offset, **options):
    D, H = machine[0].shape
    zeros = np.zeros(D, bool)
    return reference_units.UnitTrainer(
        BERNOULLI.kernel(D), BERNOULLI.kernel(H), machine, np.zeros((1, H)), KEY, mu,
        offset, zeros, zeros, np.zeros(D), np.ones(D),
        connected=connections(sizes).astype(float), **options,
    )  # fmt: skip


def random_machine(sizes, rng, scale):
    connected = connections(sizes)
    D, H = connected.shape
    weights = scale * rng.normal(size=(D, H)) * connected
    return weights, rng.normal(size=H), rng.normal(size=D), np.zeros(D)


@every_small_shape
def test_expected_direction_is_the_gradient_of_the_bound(sizes):
    # The direction of the twin, which the kernel's is, with exact moments of the
    # model in place of those of chains.
    rng = generator(740, *sizes)
    machine = random_machine(sizes, rng, 0.8)
    X = (rng.random((7, sizes[0])) < 0.5).astype(float)
    twin = twin_with(machine, sizes, 0.0, 0.0)
    data = np.hstack([X, settled(machine, X)[0]])
    found = twin.gradient(twin.moments(data), model_moments(machine, sizes))
    for k in range(3):
        places = np.ndindex(machine[k].shape)
        for place in places if k else np.argwhere(connections(sizes)):
            place = tuple(place)
            ends = []
            for step in (1e-5, -1e-5):
                there = [x.copy() for x in machine]
                there[k][place] += step
                ends.append(mean_bound(there, X, sizes))
            slope = (ends[0] - ends[1]) / 2e-5
            np.testing.assert_allclose(found[k][place], slope, 1e-6, 1e-8)


@every_small_shape
@pytest.mark.parametrize("centred", [True, False])
def test_step_of_the_kernel_with_chains_of_the_model(centred, sizes):
    """Its mean is the exact direction: no twin, and chains that start from p."""
    rng = generator(741, *sizes)
    machine = random_machine(sizes, rng, 0.8)
    X = (rng.random((9, sizes[0])) < 0.5).astype(float)
    exact = enumerate_layers(unfolded(machine, sizes))
    n, connected = 40_000, connections(sizes)
    D, H = connected.shape
    mu, offset = (centred * rng.random(size) for size in (D, H))
    chains = exact.odd[rng.choice(len(exact.p), n, p=exact.p)]
    field = MeanField(
        BERNOULLI.kernel(D - sizes[0]), BERNOULLI.kernel(H), np.dtype(float), sizes[0],
        n_steps=500, tolerance=0.0,
    )  # fmt: skip
    trainer = UnitTrainer(
        Rows(X), BERNOULLI.kernel(D), BERNOULLI.kernel(H), machine[0].T, *machine[1:],
        batch_size=9, chains=chains, field=field, connected=connected,
        key=int(rng.integers(2**63)), step=0, n_gibbs_steps=1, visible_offset=mu,
        hidden_offset=offset,
    )  # fmt: skip
    trainer.begin_epoch(np.arange(9), [1.0])
    trainer.run(0, 1, 2)
    weights, c, b, _ = trainer.parameters()
    found = weights.T - machine[0], c - machine[1], b - machine[2]
    # Of the data, exactly; of the model, mean and variance of one chain's part.
    latent, odd = settled(machine, X)
    data = np.hstack([X, latent])
    above = 1 / (1 + np.exp(-(exact.even @ machine[0] + machine[1])))

    def directions(even, odd):
        raw = (even - mu)[:, :, np.newaxis] * (odd - offset)[:, np.newaxis] * connected
        return raw, odd - np.einsum("rij,i->rj", raw, mu), even - raw @ offset

    for part, seen, chain in zip(
        found, directions(data, odd), directions(exact.even, above), strict=True
    ):
        # (What the offsets move does not depend on the sizes of the phases.)
        mean = np.tensordot(exact.p, chain, 1)
        variance = np.tensordot(exact.p, np.square(chain - mean), 1)
        error = np.sqrt(variance / n) + 1e-12
        assert (np.abs(part - (seen.mean(axis=0) - mean)) < 5.6 * error).all()


def flipped(machine, even, odd):
    """The same machine, of whose units some are called on when they are off."""
    weights, c, b, log_variance = machine
    x, y = 1 - 2 * even, 1 - 2 * odd
    return (
        x[:, np.newaxis] * weights * y,
        y * (c + even @ weights),
        x * (b + weights @ odd),
        log_variance,
    )


@every_small_shape
def test_centred_steps_do_not_depend_on_what_is_called_on(sizes):
    rng = generator(742, *sizes)
    machine = random_machine(sizes, rng, 0.5)
    X = (rng.random((9, sizes[0])) < 0.5).astype(float)
    D, H = machine[0].shape
    even, odd = ((rng.random(n) < 0.5).astype(float) for n in (D, H))
    even[0], odd[0] = 1, 1
    mu, offset = rng.random(D), rng.random(H)

    def after(machine, X, mu, offset):
        twin = twin_with(machine, sizes, mu, offset, weight_decay=0.1)
        data = twin.moments(np.hstack([X, settled(machine, X)[0]]))
        moments = iter([data, model_moments(machine, sizes)])
        twin.moments = lambda rows: next(moments)
        twin.ascend(None, None, 0.5)
        return twin.machine

    turned = np.abs(X - even[: sizes[0]])
    found = after(
        flipped(machine, even, odd), turned, np.abs(mu - even), np.abs(offset - odd)
    )
    wanted = flipped(after(machine, X, mu, offset), even, odd)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, 1e-9, 1e-9)
    plain = after(flipped(machine, even, odd), turned, 0 * mu, 0 * offset)
    assert np.abs(plain[0] - wanted[0]).max() > 1e-3
