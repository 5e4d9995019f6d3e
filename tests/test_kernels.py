"""The kernels against their plain NumPy twins: random bits, sums, training, scores."""

import hashlib
import os
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from scipy.stats import binom
from threadpoolctl import threadpool_limits

import reference
import sklearn_ebm
from reference import generator, random_machine
from sklearn_ebm._gibbs import (
    Layer,
    Purpose,
    half_sweep,
    instruction_set,
    philox,
    run_chains,
)
from sklearn_ebm._openmp import effective_n_threads, openmp_enabled
from sklearn_ebm._panels import Panels
from sklearn_ebm._rows import Rows
from sklearn_ebm._scores import score_rows
from sklearn_ebm._trainer import Trainer

DTYPES = [np.float32, np.float64]
# One unit, and either side of the borders of bytes, panels and words.
WIDTHS = [1, 7, 8, 15, 16, 17, 63, 64, 65, 129]
KEY = 0x0123456789ABCDEF
# Instruction sets, each including those before it.
ISAS = ["base", "avx2", "avx512"]


# ---- Helpers ----


def up_layer(machine):
    return Layer(Panels.from_columns(machine[0]), machine[1])


def down_layer(machine):
    return Layer(Panels.from_rows(machine[0]), machine[2])


def turned_layer(machine):
    """down_layer with the weights of up_layer."""
    return Layer(Panels.from_columns(machine[0]), machine[2], turned=True)


def sweep(X, layer, dtype, **counter):
    """Fields, means and samples of a half-sweep."""
    shape = X.shape[0], layer.n_units
    fields, means = np.full(shape, np.nan, dtype), np.full(shape, np.nan, dtype)
    samples = np.zeros(shape, dtype=bool)
    half_sweep(Rows(X), layer, fields=fields, means=means, samples=samples, **counter)
    return fields, means, samples


def sweep_from_fields(fields, **counter):
    """The same with given fields: row r of an identity picks row r of them."""
    fields = np.asarray(fields)
    layer = Layer(Panels.from_rows(fields), np.zeros(fields.shape[1]))
    return sweep(np.eye(len(fields), dtype=bool), layer, fields.dtype, **counter)


def kernel_logistic(fields):
    """The kernel's own logistic function, checked in test_logistic."""
    return sweep_from_fields(fields)[1]


def bits(n_rows, n_columns, rng, share=0.4):
    return rng.random((n_rows, n_columns)) < share


def strided(X):
    """A view with the values of X, backwards in memory and with gaps."""
    room = np.zeros((X.shape[0], 2 * X.shape[1]), dtype=X.dtype)[::-1, ::-2]
    room[...] = X
    return room


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def csr(X, index_dtype=np.int32):
    """CSR with a stored zero in every row that has one, and unsorted columns."""
    columns = [
        np.r_[np.flatnonzero(row)[::-1], np.flatnonzero(row == 0)[:1]] for row in X
    ]
    indptr = np.cumsum([0, *(len(c) for c in columns)])
    indices = np.concatenate(columns)
    data = np.concatenate([row[c] for row, c in zip(X, columns, strict=True)])
    indptr, indices = indptr.astype(index_dtype), indices.astype(index_dtype)
    matrix = sp.csr_array((data, indices, indptr), shape=X.shape)
    matrix.indptr, matrix.indices = indptr, indices
    return matrix


def real(n_rows, n_columns, dtype, rng):
    """Values in [0, 1], some of them 0 or 1, at least one of them neither."""
    X = np.clip(rng.uniform(-0.5, 1.5, (n_rows, n_columns)), 0, 1).astype(dtype)
    X[0, 0] = 0.3
    return X


def counts(n_rows, n_columns, dtype, rng):
    return rng.choice(np.uint8([0, 0, 1, 3, 127, 128, 255]), (n_rows, n_columns))


# What the kernels read: a name, and a function of (rows, columns, dtype, rng).
# bool and uint8 are computed in float32.
SINGLE = {
    "bool": lambda n, m, dtype, rng: bits(n, m, rng),
    "uint8": lambda n, m, dtype, rng: bits(n, m, rng).astype(np.uint8),
    "uint8 counts": counts,
    "csr bool": lambda n, m, dtype, rng: csr(bits(n, m, rng)),
    "csr uint8": lambda n, m, dtype, rng: csr(bits(n, m, rng).astype(np.uint8)),
}
BOTH = {
    "binary": lambda n, m, dtype, rng: bits(n, m, rng).astype(dtype),
    "Fortran": lambda n, m, dtype, rng: np.asfortranarray(
        bits(n, m, rng).astype(dtype)
    ),
    "strided": lambda n, m, dtype, rng: strided(bits(n, m, rng).astype(dtype)),
    "read-only": lambda n, m, dtype, rng: read_only(bits(n, m, rng).astype(dtype)),
    "real": real,
    "real strided": lambda n, m, dtype, rng: strided(real(n, m, dtype, rng)),
    "negative": lambda n, m, dtype, rng: rng.normal(size=(n, m)).astype(dtype),
    "csr": lambda n, m, dtype, rng: csr(bits(n, m, rng).astype(dtype)),
    "csr 64-bit": lambda n, m, dtype, rng: csr(bits(n, m, rng).astype(dtype), np.int64),
    "csr real": lambda n, m, dtype, rng: csr(real(n, m, dtype, rng)),
}
INPUTS = [
    *(pytest.param(make, np.float32, id=name) for name, make in SINGLE.items()),
    *(
        pytest.param(make, dtype, id=f"{name}-{dtype.__name__}")
        for name, make in BOTH.items()
        for dtype in DTYPES
    ),
]


def plain(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X)


# ---- Random bits ----


@pytest.mark.parametrize(
    "rounds, counter, key, words",
    [
        # Random123's kat_vectors: philox4x32, 7 and 10 rounds.
        (7, "0 0 0 0", "0 0", "5f6fb709 0d893f64 4f121f81 4f730a48"),
        (7, "f f f f", "f f", "5207ddc2 45165e59 4d8ee751 8c52f662"),
        (7, "pi", "pi", "4dfccaba 190a87f0 c47362ba b6b5242a"),
        (10, "0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (10, "f f f f", "f f", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (10, "pi", "pi", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_known_answers(rounds, counter, key, words):
    if counter == "pi":
        counter, key = "243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0"
    long = {"0": 0, "f": 0xFFFFFFFF}
    counter = [long.get(word, int(word, 16)) for word in counter.split()]
    k0, k1 = (long.get(word, int(word, 16)) for word in key.split())
    words = [int(word, 16) for word in words.split()]
    assert philox(counter, k1 << 32 | k0, rounds).tolist() == words
    assert reference.philox4x32(counter, k1 << 32 | k0, rounds).tolist() == words


def test_philox_equals_twin():
    rng = generator(1)
    counters = rng.integers(0, 2**32, (50, 4))
    for counter, key in zip(
        counters, rng.integers(0, 2**64, 50, np.uint64), strict=True
    ):
        expected = reference.philox4x32(counter, key)
        assert np.array_equal(philox(counter, key), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("purpose", [Purpose.DRAW_HIDDEN, Purpose.DRAW_DATA])
@pytest.mark.parametrize("step", [0, 1, 2**32 - 1, 2**32, 2**56 - 1])
def test_random_bits(dtype, purpose, step):
    fields = generator(2).normal(size=(300, 40)).astype(dtype)
    for key in [0, KEY, 2**64 - 1]:
        counter = {"key": key, "step": step, "purpose": purpose}
        _, means, samples = sweep_from_fields(fields, **counter)
        assert np.array_equal(samples, reference.bernoulli(means, **counter))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_random_bits_by_width(dtype, width):
    fields = generator(3, width).normal(size=(131, width)).astype(dtype)
    counter = {"key": KEY, "step": 5, "purpose": Purpose.DRAW_VISIBLE}
    _, means, samples = sweep_from_fields(fields, **counter)
    assert np.array_equal(samples, reference.bernoulli(means, **counter))


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_bits_when_draws_tie(dtype):
    """Probabilities k / 65536 and a little, k the 16-bit draw: extra bits decide."""
    counter = {"key": KEY, "step": 2**32 + 3, "purpose": Purpose.DRAW_HIDDEN}
    shape = 140, 70
    draws = reference.draws16(*shape, **counter)
    # float32 has few numbers between two draws near 1.
    tiny = generator(4).uniform(0.1, 0.9, shape)
    p = (draws + tiny) / 65536
    fields = (np.log(p) - np.log1p(-p)).astype(dtype)
    _, means, samples = sweep_from_fields(fields, **counter)
    assert (np.floor(65536 * means) == draws).mean() > 0.95
    assert 0.4 < samples.mean() < 0.6
    assert np.array_equal(samples, reference.bernoulli(means, **counter))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [2.0**-18, 1.5 / 65536, 1 - 2.0**-18])
def test_rare_states_have_their_rate(dtype, p):
    """Sixteen bits alone cannot tell these probabilities from 0, 2 / 65536, 1."""
    n, width = 8192, 256
    bias = np.full(width, np.log(p) - np.log1p(-p), dtype)
    layer = Layer(Panels(1, width, dtype), bias)
    key = generator(5).integers(2**63)
    X = np.zeros((n, 1), dtype=dtype)
    _, means, samples = sweep(X, layer, dtype, key=key)
    mean = np.float64(means[0, 0])
    assert mean == pytest.approx(p, rel=1e-5)
    law = binom(n * width, min(mean, 1 - mean))
    seen = (samples if p < 0.5 else ~samples).sum()
    assert law.cdf(seen) > 1e-6
    assert law.sf(seen - 1) > 1e-6


# ---- Half-sweeps ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_logistic(dtype):
    limit = 87.0 if dtype == np.float32 else 708.0
    x = np.r_[
        np.linspace(-limit, limit, 4001), np.linspace(-20, 20, 4001), -1e-30, 0, 1e-30
    ]
    x = x.astype(dtype).reshape(1, -1)
    means = kernel_logistic(x)
    expected = expit(x.astype(np.longdouble))
    assert np.all(np.abs(means - expected) <= 4 * np.finfo(dtype).eps * expected)
    assert kernel_logistic(np.zeros((1, 1), dtype))[0, 0] == 0.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_logistic_far_out(dtype):
    x = np.array([[88, 100, 709, 1e4, 1e30, np.inf]], dtype=dtype)
    assert np.all(kernel_logistic(x) == 1)
    below = np.array([[-709, -1e4, -1e30, -np.inf]], dtype=dtype)
    assert np.all(kernel_logistic(below) == 0)
    if dtype == np.float32:
        assert kernel_logistic(np.float32([[-87.5]]))[0, 0] == 0


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make, dtype", INPUTS)
def test_half_sweep(make, dtype, width):
    rng = generator(6, width)
    counter = {"key": KEY, "step": 7, "purpose": Purpose.DRAW_HIDDEN}
    for n_visible, n_hidden in [(width, 17), (33, width)]:
        machine = random_machine(n_hidden, n_visible, rng, dtype=dtype)
        X = make(9, n_visible, dtype, rng)
        fields, means, samples = sweep(X, up_layer(machine), dtype, **counter)
        expected = reference.hidden_fields(machine, plain(X))
        assert np.array_equal(fields, expected)
        assert np.array_equal(means, kernel_logistic(expected))
        assert np.array_equal(samples, reference.bernoulli(means, **counter))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_half_sweep_down(dtype, width):
    rng = generator(7, width)
    machine = random_machine(width, 40, rng, dtype=dtype)
    hidden = bits(6, width, rng)
    fields, _, _ = sweep(hidden, down_layer(machine), dtype)
    assert np.array_equal(fields, reference.visible_fields(machine, hidden))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_half_sweep_of_a_turned_layer(width, dtype):
    rng = generator(29, width)
    machine = random_machine(width, 40, rng, dtype=dtype)
    hidden = bits(6, width, rng)
    fields, _, _ = sweep(hidden, turned_layer(machine), dtype)
    assert np.array_equal(fields, reference.visible_fields(machine, hidden))


@pytest.mark.parametrize("make, dtype", INPUTS)
@pytest.mark.parametrize("n_rows", [1, 127, 128, 129, 300])
def test_half_sweep_across_blocks(make, dtype, n_rows):
    rng = generator(8, n_rows)
    machine = random_machine(20, 30, rng, dtype=dtype)
    X = make(n_rows, 30, dtype, rng)
    fields, means, samples = sweep(X, up_layer(machine), dtype, key=KEY, step=1)
    assert np.array_equal(fields, reference.hidden_fields(machine, plain(X)))
    expected = reference.bernoulli(means, key=KEY, step=1, purpose=Purpose.DRAW_DATA)
    assert np.array_equal(samples, expected)


def test_half_sweep_fills_only_what_is_given():
    rng = generator(9)
    machine = random_machine(20, 30, rng, dtype=np.float32)
    X = bits(10, 30, rng)
    fields, means, samples = sweep(X, up_layer(machine), np.float32, key=KEY)
    for name, expected in [("fields", fields), ("means", means), ("samples", samples)]:
        out = np.empty_like(expected)
        half_sweep(Rows(X), up_layer(machine), key=KEY, **{name: out})
        assert np.array_equal(out, expected)
    with pytest.raises(ValueError, match="does not fit"):
        half_sweep(Rows(X), up_layer(machine), means=np.empty((10, 21), np.float32))


@pytest.mark.parametrize("make, dtype", INPUTS)
@pytest.mark.parametrize("n_columns", [1, 65])
def test_rows(make, dtype, n_columns):
    X = make(20, n_columns, dtype, generator(10))
    rows, values = Rows(X), np.float64(plain(X))
    assert (rows.n_rows, rows.n_columns) == X.shape
    assert rows.dtype == dtype
    assert rows.binary == np.isin(values, [0, 1]).all()
    assert (rows.minimum, rows.maximum) == (values.min(), values.max())
    assert rows.density == pytest.approx((values != 0).mean(), rel=1e-12)
    np.testing.assert_allclose(rows.column_means, values.mean(axis=0), atol=1e-14)


@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("make, dtype", INPUTS)
def test_rows_in_another_dtype(make, dtype, to):
    """Data of one dtype are computed in another one as if they were converted."""
    rng = generator(31)
    machine = random_machine(17, 70, rng, dtype=to)
    X, results = make(9, 70, dtype, rng), []
    for rows in [Rows(X, to), Rows(plain(X).astype(to))]:
        assert rows.dtype == to
        fields = np.empty((9, 17), dtype=to)
        half_sweep(rows, up_layer(machine), fields=fields)
        scores = score_rows(rows, up_layer(machine), machine[2], machine[0])
        results.append((fields, scores, rows.column_means, rows.minimum, rows.maximum))
    for x, y in zip(*results, strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_rows, n_columns", [(1, 1), (17, 9), (64, 65), (8, 129)])
def test_panels(dtype, n_rows, n_columns):
    matrix = generator(11).normal(size=(n_rows, n_columns)).astype(dtype)
    by_rows = Panels.from_rows(matrix)
    by_columns = Panels.from_columns(np.ascontiguousarray(matrix.T))
    assert np.array_equal(by_rows.columns(), matrix.T)
    assert np.array_equal(by_columns.columns(), matrix.T)
    assert np.array_equal(by_rows.view(), by_columns.view())


# ---- Chains ----


def alternate(machine, states, n_steps, *, key, step):
    """run_chains in half-sweeps; many chains add up hidden units differently."""
    dtype, n_chains = machine[0].dtype, len(states)
    for s in range(n_steps):
        counter = {"key": key, "step": step + s}
        _, _, hidden = sweep(
            states, up_layer(machine), dtype, purpose=Purpose.DRAW_HIDDEN, **counter
        )
        counter["purpose"] = Purpose.DRAW_VISIBLE
        if n_chains < 16:
            _, _, states = sweep(hidden, down_layer(machine), dtype, **counter)
        else:
            fields = reference.visible_fields(machine, hidden, n_chains)
            states = reference.bernoulli(kernel_logistic(fields), **counter)
    return states


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_chains", [1, 15, 16, 140])
def test_run_chains(n_chains, width, dtype):
    rng = generator(12, width, n_chains)
    for n_visible, n_hidden in [(width, 19), (23, width)]:
        machine = random_machine(n_hidden, n_visible, rng, scale=0.5, dtype=dtype)
        states = bits(n_chains, n_visible, rng)
        expected = alternate(machine, states, 3, key=KEY, step=2**32 - 2)
        run_chains(up_layer(machine), down_layer(machine), states, 3, KEY, 2**32 - 2)
        assert np.array_equal(states, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_run_chains_with_a_turned_layer(width, dtype):
    rng = generator(30, width)
    machine = random_machine(width, 40, rng, scale=0.5, dtype=dtype)
    results = []
    for n_chains in [5, 20]:
        start = bits(n_chains, 40, rng)
        for down in [down_layer(machine), turned_layer(machine)]:
            states = start.copy()
            run_chains(up_layer(machine), down, states, 2, KEY, 0)
            results.append(states)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[2], results[3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_run_chains_goes_on(dtype):
    """Steps in two calls, and chains in two calls, are those of one call."""
    rng = generator(13)
    machine = random_machine(19, 30, rng, scale=0.5, dtype=dtype)
    up, down = up_layer(machine), down_layer(machine)
    start = bits(50, 30, rng)
    whole, steps, chains = start.copy(), start.copy(), start.copy()
    run_chains(up, down, whole, 5, KEY, 11)
    run_chains(up, down, steps, 2, KEY, 11)
    run_chains(up, down, steps, 3, KEY, 13)
    assert np.array_equal(steps, whole)
    first, last = chains[:20].copy(), chains[20:].copy()
    run_chains(up, down, first, 5, KEY, 11)
    run_chains(up, down, last, 5, KEY, 11, row0=20)
    assert np.array_equal(np.vstack([first, last]), whole)
    run_chains(up, down, start, 0, KEY, 11)
    assert np.array_equal(start, chains)


@pytest.mark.skipif(not openmp_enabled(), reason="built without OpenMP")
@pytest.mark.parametrize("n_chains", [1, 2, 100, 300])
def test_run_chains_on_threads(n_chains, monkeypatch):
    rng = generator(14)
    machine = random_machine(120, 150, rng, scale=0.3, dtype=np.float32)
    up, down = up_layer(machine), down_layer(machine)
    start = bits(n_chains, 150, rng)
    results = []
    for n_threads in [1, 2, 3]:
        monkeypatch.setenv("OMP_NUM_THREADS", str(n_threads))
        with threadpool_limits(n_threads, user_api="openmp"):
            assert effective_n_threads() == n_threads
            states = start.copy()
            run_chains(up, down, states, 5, KEY, 0)
            results.append(states)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


# ---- Training ----


def make_trainer(X, machine, chains, rng, *, batch_size, n_gibbs_steps=1, centred=True):
    """A kernel trainer, with offsets and a step that are not zero."""
    n_hidden, n_visible = machine[0].shape
    dtype = machine[0].dtype
    visible_offset = rng.uniform(0.1, 0.9, n_visible).astype(dtype) * centred
    trainer = Trainer(
        Rows(X),
        *machine,
        batch_size=batch_size,
        chains=chains,
        key=KEY,
        step=2**32 - 1,
        n_gibbs_steps=n_gibbs_steps,
        visible_offset=visible_offset,
        hidden_offset=rng.uniform(0.1, 0.9, n_hidden).astype(dtype) * centred,
    )
    trainer.offset_rate = 0.25 * centred
    return trainer, visible_offset


def twin_of(trainer, visible_offset, *, persistent, n_gibbs_steps, momentum):
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
        momentum=trainer.momentum,
        weight_decay=trainer.weight_decay,
        offset_rate=trainer.offset_rate,
        velocity=trainer.velocities() if momentum else None,
        mean=kernel_logistic,
    )


def assert_close(actual, expected, dtype, *, exact=False):
    """Equal, or equal but for the rounding of a few hundred additions."""
    tolerance = 0 if exact else 1e-5 if dtype == np.float32 else 1e-13
    for x, y in zip(actual, expected, strict=True):
        assert x.dtype == dtype
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
    momentum=0.0,
    weight_decay=0.0,
):
    """Every minibatch of an epoch does what the twin does from the same state."""
    dtype, persistent = machine[0].dtype, chains is not None
    trainer, visible_offset = make_trainer(
        X,
        machine,
        chains,
        rng,
        batch_size=batch_size,
        n_gibbs_steps=n_gibbs_steps,
        centred=centred,
    )
    trainer.momentum, trainer.weight_decay = momentum, weight_decay
    if momentum:
        trainer.start_velocity()
    order = rng.permutation(X.shape[0])
    rates = rng.uniform(0.5, 1, trainer.n_batches)
    trainer.start_average()
    seen = []
    for batch in range(trainer.n_batches):
        twin = twin_of(
            trainer,
            visible_offset,
            persistent=persistent,
            n_gibbs_steps=n_gibbs_steps,
            momentum=momentum,
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
        if momentum:
            assert_close(trainer.velocities(), twin.velocity, dtype)
        seen.append(trainer.parameters())
        average = [
            np.mean(x, axis=0, dtype=np.float64) for x in zip(*seen, strict=True)
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
@pytest.mark.parametrize("kind", ["binary", "csr", "real"])
@pytest.mark.parametrize("batch_size, n_chains", BATCHES)
def test_training(batch_size, n_chains, kind, dtype):
    rng = generator(15, batch_size)
    n_visible, n_hidden = 21, 18
    machine = random_machine(n_hidden, n_visible, rng, scale=0.5, dtype=dtype)
    chains = None if n_chains is None else bits(n_chains, n_hidden, rng)
    # Two whole minibatches and a short one.
    X = BOTH[kind](2 * batch_size + (batch_size + 2) // 3, n_visible, dtype, rng)
    check_training(X, machine, chains, rng, batch_size=batch_size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("kind", ["binary", "real"])
@pytest.mark.parametrize(
    "options",
    [
        {"centred": False},
        {"n_gibbs_steps": 3},
        {"momentum": 0.5},
        {"weight_decay": 0.1},
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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["binary", "real"])
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
    trainer.momentum, trainer.weight_decay, trainer.offset_rate = 0.5, 1 / 16, 0.25
    shapes = [x.shape for x in machine]
    trainer.start_velocity([rng.integers(-8, 8, s).astype(dtype) / 8 for s in shapes])
    trainer.start_average()
    twin = twin_of(
        trainer,
        half,
        persistent=chains is not None,
        n_gibbs_steps=2,
        momentum=True,
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


def cancelling_machine(n_hidden, n_visible, rng, dtype):
    """Hidden units that are always on and whose huge weights almost cancel.

    The order in which they are added up decides over the visible units.
    """
    huge = 1e4 if dtype == np.float32 else 1e13
    weights = (huge * rng.normal(size=(n_hidden, n_visible))).astype(dtype)
    weights[-1] -= weights.sum(axis=0)
    hidden, visible = np.full(n_hidden, 1e9 * huge), rng.normal(size=n_visible)
    return weights, hidden.astype(dtype), visible.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_hidden", [40, 66, 131])
def test_order_of_sums(n_hidden, dtype):
    rng = generator(28, n_hidden)
    machine = cancelling_machine(n_hidden, 30, rng, dtype)
    on = np.ones((1, n_hidden), dtype=bool)
    fields = [reference.visible_fields(machine, on, n) for n in [1, 16]]
    assert np.abs(fields[0] - fields[1]).max() > 0.01
    for n_chains in [15, 16, 140]:
        states = bits(n_chains, 30, rng)
        chains = np.ones((n_chains, n_hidden), dtype=bool)
        X = states.astype(dtype)
        check_training(X, machine, chains, rng, batch_size=5, centred=False)
        expected = alternate(machine, states, 3, key=KEY, step=0)
        run_chains(up_layer(machine), down_layer(machine), states, 3, KEY, 0)
        assert np.array_equal(states, expected)


def everything(trainer):
    return [
        *trainer.parameters(),
        *trainer.averages(),
        *trainer.velocities(),
        trainer.hidden_offset(),
        trainer.chains(),
    ]


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
        assert trainer.n_batches * trainer.sweeps_per_batch == n_sweeps
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
def test_training_goes_on(dtype):
    """A trainer made from the state of another one goes on as that one does."""
    rng = generator(22)
    machine = random_machine(20, 30, rng, scale=0.3, dtype=dtype)
    X, order = bits(50, 30, rng).astype(dtype), rng.permutation(50)
    trainer, visible_offset = make_trainer(
        X, machine, bits(10, 20, rng), rng, batch_size=10
    )
    trainer.momentum = 0.5
    trainer.start_velocity()
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
    other.start_velocity(trainer.velocities())
    for one in [trainer, other]:
        one.start_average()
        one.begin_epoch(order, np.full(5, 0.3))
        one.run(3, 5)
    for x, y in zip(everything(trainer), everything(other), strict=True):
        assert np.array_equal(x, y)


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


# ---- Scores ----


def scores(machine, X):
    """Free energy and pseudo-likelihood by the kernels."""
    rows, up = Rows(X), up_layer(machine)
    return score_rows(rows, up, machine[2]), score_rows(
        rows, up, machine[2], machine[0]
    )


def assert_scores(machine, X):
    """Right but for the rounding of the fields, of which log-odds are differences."""
    rounding = 1e-6 if machine[0].dtype == np.float32 else 1e-14
    energy, pseudo = scores(machine, X)
    assert energy.dtype == pseudo.dtype == np.float64
    X = np.float64(plain(X))
    size = 1 + np.abs(reference.hidden_fields(machine, X)).sum(axis=1)
    size += np.abs(X) @ np.abs(np.float64(machine[2]))
    error = np.abs(energy - reference.free_energy(machine, X))
    np.testing.assert_array_less(error, rounding * size)
    error = np.abs(pseudo - reference.pseudo_likelihood(machine, X))
    size *= np.maximum(1, np.abs(X)).sum(axis=1)
    np.testing.assert_array_less(error, rounding * size)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make, dtype", INPUTS)
def test_scores(make, dtype, width):
    rng = generator(24, width)
    for n_visible, n_hidden in [(width, 17), (30, width)]:
        machine = random_machine(n_hidden, n_visible, rng, scale=0.7, dtype=dtype)
        assert_scores(machine, make(19, n_visible, dtype, rng))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [5, 10, 15, 19, 25, 80, 300])
def test_scores_of_strong_weights(dtype, largest):
    """Also where the probabilities of units are 0 or 1 but for 1e-9."""
    rng = generator(25, largest)
    machine = random_machine(40, 12, rng, dtype=dtype)
    machine[0][:] *= largest / np.abs(machine[0]).max()
    assert_scores(machine, bits(40, 12, rng).astype(dtype))


@pytest.mark.parametrize("make, dtype", INPUTS)
def test_scores_of_a_row_do_not_depend_on_the_others(make, dtype):
    rng = generator(26)
    machine = random_machine(20, 30, rng, dtype=dtype)
    # The last row is of bits, whatever the others are.
    X = np.vstack([plain(make(37, 30, dtype, rng)), bits(1, 30, rng)]).astype(dtype)
    whole = scores(machine, X)
    for r in range(len(X)):
        for x, y in zip(scores(machine, X[r : r + 1]), whole, strict=True):
            assert x[0] == y[r]


# ---- The same bits on every processor and number of threads ----


def fingerprint():
    """Print a hash of all that kernels compute, and what they ran on."""
    digest = hashlib.sha256()
    for dtype in DTYPES:
        rng = np.random.default_rng(27)
        machine = random_machine(130, 200, rng, scale=0.3, dtype=dtype)
        up, down = up_layer(machine), down_layer(machine)
        for kind in ["binary", "csr", "real"]:
            X = BOTH[kind](1000, 200, dtype, rng)
            results = [*sweep(X, up, dtype, key=KEY, step=3), *scores(machine, X)]
            for chains in [bits(160, 130, rng), None]:
                trainer, _ = make_trainer(
                    X, machine, chains, rng, batch_size=300, n_gibbs_steps=2
                )
                trainer.momentum, trainer.weight_decay = 0.5, 0.01
                trainer.start_velocity()
                trainer.start_average()
                order = rng.permutation(1000)[:400]
                sweeps = 2 * trainer.sweeps_per_batch
                trainer.begin_epoch(order, np.full(2, 0.1))
                trainer.run(0, sweeps, trainer.n_threads)
                results += everything(trainer)
            for result in results:
                digest.update(np.ascontiguousarray(result))
        states = bits(1000, 200, rng)
        run_chains(up, down, states, 3, KEY, 0)
        digest.update(states)
        digest.update(Rows(real(9000, 130, dtype, rng)).column_means)
    print(instruction_set(), effective_n_threads(), digest.hexdigest())


@cache
def run_fingerprint(isa=None, n_threads=1):
    """Instruction set, number of threads and hash of a fresh process."""
    env = {k: v for k, v in os.environ.items() if k != "SKLEARN_EBM_ISA"}
    env["OMP_NUM_THREADS"] = str(n_threads)
    # More threads than cores should not spin for one another.
    env["OMP_WAIT_POLICY"] = "passive"
    if isa:
        env["SKLEARN_EBM_ISA"] = isa
    folders = [Path(__file__).parent, Path(sklearn_ebm.__file__).parents[1]]
    code = (
        f"import sys; sys.path[:0] = {[str(folder) for folder in folders]}; "
        "import test_kernels; test_kernels.fingerprint()"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True
    )
    assert output.returncode == 0, output.stderr
    return output.stdout.split()


@pytest.mark.parametrize("isa", ISAS)
def test_same_bits_on_every_instruction_set(isa):
    best, _, digest = run_fingerprint()
    assert run_fingerprint("base")[::2] == ["base", digest]
    if ISAS.index(isa) > ISAS.index(best):
        pytest.skip(f"this processor has no {isa}")
    assert run_fingerprint(isa, 3 if openmp_enabled() else 1)[::2] == [isa, digest]


@pytest.mark.skipif(not openmp_enabled(), reason="built without OpenMP")
@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_same_bits_on_any_number_of_threads(n_threads):
    _, used, digest = run_fingerprint(None, n_threads)
    assert used == str(n_threads)
    assert digest == run_fingerprint("base")[2]
