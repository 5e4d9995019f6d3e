"""The compiled trainer against its plain NumPy twin, minibatch by minibatch."""

import time
from itertools import pairwise

import numpy as np
import pytest

import reference
import reference_units
from kernels import (
    BOTH,
    DTYPES,
    INPUTS,
    KEY,
    WIDTHS,
    bits,
    cancelling_machine,
    everything,
    kernel_logistic,
    make_trainer,
    plain,
    set_options,
)
from reference import generator, random_machine
from sklearn_ebm._rows import Rows
from sklearn_ebm._trainer import Trainer
from sklearn_ebm.units import Bernoulli


def twin_of(trainer, visible_offset, *, persistent, n_gibbs_steps, **options):
    """The twin, in the state in which the kernel is."""
    return reference.Trainer(
        machine=trainer.parameters(),
        chains=trainer.chains() if persistent else None,
        n_chains=trainer.n_chains,
        key=KEY,
        step=trainer.step,
        visible_offset=visible_offset,
        hidden_offset=trainer.hidden_offset(),
        n_gibbs_steps=n_gibbs_steps,
        offset_rate=trainer.offset_rate,
        velocity=trainer.velocities() if trainer.momentum else None,
        fast=trainer.fast_parameters() if trainer.fast_learning_rate else None,
        mean=kernel_logistic,
        **options,
    )


def assert_close(actual, expected, dtype, *, exact=False):
    """Equal, or equal but for the rounding of a few hundred additions."""
    tolerance = 0 if exact else 1e-5 if dtype == np.float32 else 1e-13
    for x, y in zip(actual, expected, strict=True):
        assert x.dtype == dtype
        assert x.shape == np.shape(y)
        # (A tenth of the time of NumPy's own assertion, which tells more.)
        if not (np.abs(x - y) <= tolerance * (1 + np.abs(y))).all():
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def check_training(
    X,
    machine,
    chains,
    rng,
    *,
    batch_size,
    n_gibbs_steps=1,
    centred=True,
    spacing=1,
    jumps=False,
    **options,
):
    """Every minibatch of an epoch does what the twin does from the same state.

    n_gibbs_steps may be a list, of which the minibatches take turns. Every spacing-th
    enters the average.
    """
    dtype, persistent = machine[0].dtype, chains is not None
    trainer, visible_offset = make_trainer(
        X,
        machine,
        chains,
        rng,
        batch_size=batch_size,
        centred=centred,
    )
    set_options(trainer, options)
    twins_jumps = None
    if jumps:
        trainer.start_jumps()
        units = Bernoulli().kernel(trainer.n_hidden)
        twins_jumps = reference_units.Jumps(
            units, KEY, dtype, X.shape[1], trainer.batch_size, seldom=True
        )
    order = rng.permutation(X.shape[0])
    n_batches = -(-len(order) // batch_size)
    rates = rng.uniform(0.5, 1, n_batches)
    trainer.start_average(spacing)
    seen = []
    n_steps = np.resize(n_gibbs_steps, n_batches)
    for batch in range(n_batches):
        trainer.n_gibbs_steps = n_steps[batch]
        twin = twin_of(
            trainer,
            visible_offset,
            persistent=persistent,
            n_gibbs_steps=n_steps[batch],
            jumps=twins_jumps,
            **options,
        )
        data = plain(X)[order[batch * batch_size : (batch + 1) * batch_size]]
        twin.minibatch(data, rates[batch])
        sweeps = trainer.sweeps_per_batch
        trainer.begin_epoch(order, rates)
        trainer.run(batch * sweeps, (batch + 1) * sweeps)

        assert trainer.step == twin.step
        if persistent:
            assert np.array_equal(trainer.chains(), twin.chains)
        assert_close(trainer.parameters(), twin.machine, dtype)
        assert_close([trainer.hidden_offset()], [twin.hidden_offset], dtype)
        if trainer.momentum:
            assert_close(trainer.velocities(), twin.velocity, dtype)
        if trainer.fast_learning_rate:
            assert_close(trainer.fast_parameters(), twin.fast, dtype)
        seen.append(trainer.parameters())
        entered = seen[spacing - 1 :: spacing] or seen[-1:]
        average = [
            np.mean(x, axis=0, dtype=np.float64) for x in zip(*entered, strict=True)
        ]
        assert_close(trainer.averages(), average, dtype)


# Rows in a minibatch, and persistent chains (None: CD).
BATCHES = [
    (1, 1),
    (1, None),
    (3, 5),
    (4, 4),
    (5, 3),
    (5, None),
    (128, 128),
    (7, 129),
    (129, 7),
    (129, None),
    (128, 300),
    (300, 128),
    (300, None),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["binary", "csr", "real", "few reals"])
@pytest.mark.parametrize("batch_size, n_chains", BATCHES)
def test_training(batch_size, n_chains, kind, dtype):
    rng = generator(15, batch_size)
    n_visible, n_hidden = 21, 18
    machine = random_machine(n_hidden, n_visible, rng, scale=0.5, dtype=dtype)
    chains = None if n_chains is None else bits(n_chains, n_hidden, rng)
    # Two whole minibatches and a short one.
    X = BOTH[kind](2 * batch_size + (batch_size + 2) // 3, n_visible, dtype, rng)
    check_training(X, machine, chains, rng, batch_size=batch_size)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("n_chains", [10, 60, None])
def test_training_on_rows_of_any_length(n_chains, real):
    # (Lists are read in turns, some of which only a few rows need.)
    rng = generator(119, real)
    n_visible, n_hidden = 150, 35
    machine = random_machine(n_hidden, n_visible, rng, scale=0.1)
    chains = None if n_chains is None else bits(n_chains, n_hidden, rng)
    share = rng.choice(
        [0, 0.02, 0.1, 0.25, 0.9], size=(130, 1), p=[0.3, 0.3, 0.2, 0.1, 0.1]
    )
    X = (rng.random((130, n_visible)) < share).astype(np.float64)
    if real:
        X *= rng.random(X.shape)
    check_training(X, machine, chains, rng, batch_size=60)


@pytest.mark.thinned(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("kind", ["binary", "real", "few reals"])
@pytest.mark.parametrize(
    "options",
    [
        {"centred": False},
        {"n_gibbs_steps": 3},
        {"n_gibbs_steps": [1, 3, 2]},
        {"momentum": 0.5},
        {"weight_decay": 0.1},
        {"l1_decay": 0.1},
        {"max_norm": 1.5},
        {"spacing": 2},
        {"spacing": 2, "max_norm": 1.5, "fast_learning_rate": 0.5},
        {"spacing": 5},
        {"nesterov": True, "momentum": 0.9},
        {"nesterov": True, "momentum": 0.9, "weight_decay": 0.1, "centred": False},
        {"sparsity_target": 0.2, "sparsity_cost": 0.5},
        {"fast_learning_rate": 0.5},
        {"fast_learning_rate": 0.5, "centred": False, "n_gibbs_steps": 2},
        {"fast_learning_rate": 0.5, "max_norm": 1.5, "momentum": 0.5},
        {
            "fast_learning_rate": 0.5,
            "sparsity_target": 0.2,
            "sparsity_cost": 0.5,
            "momentum": 0.9,
            "nesterov": True,
            "l1_decay": 0.1,
            "max_norm": 1,
            "weight_decay": 0.1,
        },
        {"centred": False, "momentum": 0.9, "weight_decay": 0.1, "n_gibbs_steps": 2},
        {"momentum": 0.9, "weight_decay": 0.1, "n_gibbs_steps": 2},
    ],
    ids=lambda options: "-".join(options),
)
def test_training_options(options, kind, persistent, dtype):
    rng = generator(16)
    for batch_size, n_visible, n_hidden in [(6, 30, 10), (150, 11, 70)]:
        machine = random_machine(n_hidden, n_visible, rng, scale=0.5, dtype=dtype)
        chains = bits(batch_size + 1, n_hidden, rng) if persistent else None
        X = BOTH[kind](3 * batch_size + 1, n_visible, dtype, rng)
        check_training(X, machine, chains, rng, batch_size=batch_size, **options)


@pytest.mark.thinned(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["binary", "csr", "real", "few reals"])
@pytest.mark.parametrize(
    "batch_size, n_chains, n_gibbs_steps",
    [(1, 1, 1), (3, 5, 2), (5, 3, 1), (70, 2, 1), (130, 4, 2), (7, 130, [5, 1])],
)
def test_jumps(batch_size, n_chains, n_gibbs_steps, kind, dtype):
    rng = generator(29, batch_size)
    for n_visible, n_hidden in [(21, 5), (70, 18)]:
        machine = random_machine(n_hidden, n_visible, rng, scale=0.4, dtype=dtype)
        X = BOTH[kind](7 * batch_size + 1, n_visible, dtype, rng)
        check_training(
            X, machine, bits(n_chains, n_hidden, rng), rng, batch_size=batch_size,
            n_gibbs_steps=n_gibbs_steps, jumps=True,
        )  # fmt: skip


@pytest.mark.parametrize(
    "sizes, n_chains, wait",
    # Multiplications of a jump, and a tenth of those of a minibatch. The wait is the
    # shorter one that 10 240 and these allow; where they allow less than four, four.
    [
        ((1, 1), 1, 1),  # 96
        ((3, 40), 2, 1),  # 7 680
        ((3, 40), 3, 2),  # 11 520, 168
        ((9, 200), 12, 32),  # 235 200, 5 760
        ((150, 40), 100, 8),  # 528 000, 124 800
        ((600, 40), 5, 4),  # 49 200, 43 200
        ((1, 300), 200, 64),  # 5 760 000, 12 240: never fewer
    ],
)
def test_jumps_cost_a_share_of_a_minibatch(sizes, n_chains, wait):
    (n_visible, n_hidden), rng = sizes, generator(32)
    machine = random_machine(n_hidden, n_visible, rng, scale=0.0, dtype=np.float32)
    X, chains = bits(8, n_visible, rng), bits(n_chains, n_hidden, rng)
    trainer, _ = make_trainer(X, machine, chains, rng, batch_size=4)
    trainer.start_jumps()
    assert trainer.jumps_state()["wait"] == wait


@pytest.mark.parametrize("in_pieces", [False, True])
def test_jumps_come_at_once_where_chains_are_far_from_the_model(in_pieces):
    # Visible units are all on or all off; on has 20 nats more, and no chain is there.
    n_visible, n_hidden, rng = 20, 60, generator(34)
    machine = (
        np.ones((n_hidden, n_visible)),
        np.full(n_hidden, -n_visible / 2),
        np.full(n_visible, 1 - n_hidden / 2),
    )
    X = np.repeat([[0.0], [1.0]], 100, axis=0) * np.ones(n_visible)
    chains = np.zeros((5, n_hidden), dtype=bool)
    trainer, _ = make_trainer(X, machine, chains, rng, batch_size=4)
    trainer.start_jumps()
    assert trainer.jumps_state()["wait"] == 4  # as usual
    trainer.begin_epoch(rng.permutation(200), np.zeros(50))
    waits = []
    for batch in range(50):
        trainer.run(batch, batch + 1)
        waits.append(trainer.jumps_state()["wait"])
        if in_pieces:
            trainer.start_jumps(trainer.jumps_state())
    assert waits[0] == 1
    assert trainer.chains().mean() > 0.9
    assert waits[-1] == 4
    assert (np.diff(waits) <= waits[:-1]).all()  # no sooner than twice as long


@pytest.mark.parametrize("n_chains", [3, 150])
def test_jumps_go_on_from_their_state(n_chains):
    rng = generator(30)
    machine = random_machine(12, 20, rng, scale=0.5, dtype=np.float64)
    X, chains = bits(200, 20, rng).astype(float), bits(n_chains, 12, rng)
    order, found = rng.permutation(200), []
    for stop in (None, 0, 17, 40):
        trainer, _ = make_trainer(X, machine, chains, generator(31), batch_size=5)
        trainer.start_velocity()
        trainer.begin_epoch(order, np.full(40, 0.3))
        if stop is None:  # without jumps
            trainer.run(0, 40)
            assert trainer.jumps_state() is None
        else:
            trainer.start_jumps()
            trainer.run(0, stop)
            trainer.start_jumps(trainer.jumps_state())
            trainer.run(stop, 40)
        found.append(everything(trainer))
    without, whole, *pieces = found
    assert (without[-1] != whole[-1]).any()
    for piece in pieces:
        for x, y in zip(piece, whole, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.thinned(5)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["binary", "real", "few reals"])
@pytest.mark.parametrize("width", WIDTHS)
def test_training_by_width(width, kind, dtype):
    rng = generator(17, width)
    for n_visible, n_hidden in [(width, 20), (25, width), (width, width)]:
        machine = random_machine(n_hidden, n_visible, rng, scale=0.3, dtype=dtype)
        X = BOTH[kind](13, n_visible, dtype, rng)
        chains = bits(6, n_hidden, rng)
        check_training(X, machine, chains, rng, batch_size=5, momentum=0.5)


@pytest.mark.parametrize("make, dtype", INPUTS)
def test_training_reads_all_inputs(make, dtype):
    rng = generator(18)
    machine = random_machine(20, 70, rng, scale=0.2, dtype=dtype)
    X = make(14, 70, dtype, rng)
    check_training(X, machine, bits(5, 20, rng), rng, batch_size=5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("real_valued", [False, True])
@pytest.mark.parametrize(
    "n_rows, n_chains", [(1, 1), (4, 2), (4, None), (128, 128), (256, 64), (32, 256)]
)
def test_training_exactly(n_rows, n_chains, real_valued, dtype):
    """With fields that are 0 or huge every number is dyadic: no rounding at all."""
    rng = generator(19, n_rows)
    n_visible, n_hidden = 20, 17
    weights = 4096 * rng.choice([-1, 0, 1], (n_hidden, n_visible), p=[0.1, 0.8, 0.1])
    machine = (
        weights.astype(dtype),
        np.zeros(n_hidden, dtype),
        np.zeros(n_visible, dtype),
    )
    X = bits(n_rows, n_visible, rng).astype(dtype)
    if real_valued:
        X = rng.choice([0, 0.25, 0.5, 1], (n_rows, n_visible)).astype(dtype)
        X[0, 0] = 0.5
    chains = None if n_chains is None else bits(n_chains, n_hidden, rng)
    half = np.full(n_visible, 0.5, dtype)
    trainer = Trainer(
        Rows(X),
        *machine,
        batch_size=n_rows,
        chains=chains,
        key=KEY,
        step=0,
        n_gibbs_steps=2,
        visible_offset=half,
        hidden_offset=0.5,
    )
    options = {"momentum": 0.5, "weight_decay": 1 / 16}
    set_options(trainer, options)
    trainer.offset_rate = 0.25
    shapes = [x.shape for x in machine]
    trainer.start_velocity([rng.integers(-8, 8, s).astype(dtype) / 8 for s in shapes])
    trainer.start_average()
    twin = twin_of(
        trainer,
        half,
        persistent=chains is not None,
        n_gibbs_steps=2,
        **options,
    )
    means = twin.hidden_means(X)
    assert np.isin(means, [0, 0.5, 1]).all()
    twin.minibatch(X, 1.0)
    trainer.begin_epoch(np.arange(n_rows), np.ones(1))
    trainer.run(0, trainer.sweeps_per_batch)
    assert_close(trainer.parameters(), twin.machine, dtype, exact=True)
    assert_close(trainer.velocities(), twin.velocity, dtype, exact=True)
    assert_close(trainer.averages(), twin.machine, dtype, exact=True)
    assert_close([trainer.hidden_offset()], [twin.hidden_offset], dtype, exact=True)
    if chains is not None:
        assert np.array_equal(trainer.chains(), twin.chains)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_hidden", [40, 66, 131])
def test_order_of_sums(n_hidden, dtype):
    rng = generator(28, n_hidden)
    machine = cancelling_machine(n_hidden, 30, rng, dtype)
    for n_chains in [2, 15, 140]:
        X = bits(n_chains, 30, rng).astype(dtype)
        chains = np.ones((n_chains, n_hidden), dtype=bool)
        check_training(X, machine, chains, rng, batch_size=5, centred=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["binary", "real"])
@pytest.mark.parametrize("batch_size, n_chains", [(270, 140), (270, None), (3, 4)])
def test_training_in_pieces(batch_size, n_chains, kind, dtype):
    """How sweeps are cut into calls changes nothing."""
    rng = generator(20, batch_size)
    machine = random_machine(20, 30, rng, scale=0.3, dtype=dtype)
    X = BOTH[kind](2 * batch_size + 2, 30, dtype, rng)
    chains = None if n_chains is None else bits(n_chains, 20, rng)
    order, results = rng.permutation(len(X)), []
    n_sweeps = 3 * 2 * (3 if batch_size > 128 else 1)
    for cuts in [[0, n_sweeps], [0, 1, 1, 4, 5, n_sweeps], range(n_sweeps + 1)]:
        trainer, _ = make_trainer(
            X, machine, chains, generator(21), batch_size=batch_size, n_gibbs_steps=2
        )
        assert 3 * trainer.sweeps_per_batch == n_sweeps
        trainer.momentum = 0.5
        trainer.start_velocity()
        trainer.start_average()
        for start, stop in pairwise(cuts):
            trainer.begin_epoch(order, np.full(3, 0.3))
            trainer.run(start, stop)
        results.append(everything(trainer))
    for whole, *pieces in zip(*results, strict=True):
        assert all(np.array_equal(whole, piece) for piece in pieces)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_chains", [10, 60])
def test_training_goes_on(n_chains, dtype):
    """A trainer made from the state of another one goes on as that one does."""
    rng = generator(22)
    machine = random_machine(20, 30, rng, scale=0.3, dtype=dtype)
    X, order = bits(50, 30, rng).astype(dtype), rng.permutation(50)
    trainer, visible_offset = make_trainer(
        X, machine, bits(n_chains, 20, rng), rng, batch_size=10
    )
    set_options(trainer, {"momentum": 0.5, "fast_learning_rate": 0.5})
    trainer.begin_epoch(order, np.full(5, 0.3))
    trainer.run(0, 3)
    other = Trainer(
        Rows(X),
        *trainer.parameters(),
        batch_size=10,
        chains=trainer.chains(),
        key=KEY,
        step=trainer.step,
        n_gibbs_steps=1,
        visible_offset=visible_offset,
        hidden_offset=trainer.hidden_offset(),
    )
    other.momentum, other.offset_rate = 0.5, trainer.offset_rate
    other.fast_learning_rate = 0.5
    other.start_velocity(trainer.velocities())
    other.start_fast(trainer.fast_parameters())
    for one in [trainer, other]:
        one.start_average()
        one.begin_epoch(order, np.full(5, 0.3))
        one.run(3, 5)
    for x, y in zip(everything(trainer), everything(other), strict=True):
        assert np.array_equal(x, y)


def test_time_of_a_row_does_not_grow_with_their_number():
    """Also where the values of a row are far from each other."""
    rng, n_rows = generator(24), 20_000
    machine, chains = random_machine(4, 64, rng, dtype=np.float32), bits(20, 4, rng)
    X = rng.random((n_rows, 64), dtype=np.float32) * bits(n_rows, 64, rng, 0.1)
    seconds = []
    for data in (X, np.asfortranarray(X)):
        trainer, _ = make_trainer(data, machine, chains, rng, batch_size=20)
        trainer.begin_epoch(rng.permutation(n_rows), np.zeros(n_rows // 20))
        begin = time.perf_counter()
        trainer.run(0, n_rows // 20)
        seconds.append(time.perf_counter() - begin)
    assert seconds[1] < 20 * seconds[0]


def test_training_refuses_what_is_not_there():
    rng = generator(23)
    machine = random_machine(4, 6, rng, dtype=np.float32)
    trainer, _ = make_trainer(
        bits(10, 6, rng), machine, bits(5, 4, rng), rng, batch_size=5
    )
    for order, rates, start, stop in [
        (np.arange(10), np.ones(2), 0, 3),
        (np.arange(10), np.ones(2), -1, 2),
        (np.arange(10), np.ones(2), 2, 1),
        (np.arange(10), np.ones(1), 0, 2),
        (np.arange(1, 11), np.ones(2), 0, 2),
        (np.arange(-1, 9), np.ones(2), 0, 2),
    ]:
        with pytest.raises(ValueError, match=r"no sweeps|not there|more minibatches"):
            trainer.begin_epoch(order, rates)
            trainer.run(start, stop)
