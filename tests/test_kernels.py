"""The kernels against their plain NumPy twins: random bits, sums, chains, scores."""

import hashlib
from itertools import product

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom
from threadpoolctl import threadpool_limits

import reference
from common import run_on_instruction_sets, run_on_threads
from kernels import (
    BOTH,
    DTYPES,
    INPUTS,
    KEY,
    WIDTHS,
    bits,
    cancelling_machine,
    down_layer,
    everything,
    kernel_logistic,
    make_trainer,
    plain,
    real,
    scores,
    set_options,
    sweep,
    sweep_from_fields,
    turned_layer,
    up_layer,
)
from reference import generator, random_machine
from sklearn_ebm._gibbs import (
    Layer,
    Purpose,
    half_sweep,
    run_chains,
)
from sklearn_ebm._openmp import effective_n_threads, openmp_enabled
from sklearn_ebm._panels import Panels
from sklearn_ebm._rows import Rows
from sklearn_ebm._scores import score_rows
from sklearn_ebm._simd import instruction_set, philox

# Instruction sets, each including those before it.
ISAS = ["base", "avx2", "avx512"]


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


def machine_for(X, n_hidden, rng, dtype):
    """A random machine for which the twin has the bits of the kernel.

    Products, which the kernel may add up in one step, are exact.
    """
    machine = random_machine(n_hidden, X.shape[1], rng, dtype=dtype)
    if np.isin(plain(X), [0, 1]).all():
        return machine
    return tuple(np.round(64 * array) / 64 for array in machine)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make, dtype", INPUTS)
def test_half_sweep(make, dtype, width):
    rng = generator(6, width)
    counter = {"key": KEY, "step": 7, "purpose": Purpose.DRAW_HIDDEN}
    for n_visible, n_hidden in [(width, 17), (33, width)]:
        X = make(9, n_visible, dtype, rng)
        machine = machine_for(X, n_hidden, rng, dtype)
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


@pytest.mark.thinned(3)
@pytest.mark.parametrize("make, dtype", INPUTS)
@pytest.mark.parametrize("n_rows", [1, 127, 128, 129, 300])
def test_half_sweep_across_blocks(make, dtype, n_rows):
    rng = generator(8, n_rows)
    X = make(n_rows, 30, dtype, rng)
    machine = machine_for(X, 20, rng, dtype)
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


def test_rows_of_another_width_are_refused():
    machine = random_machine(20, 30, generator(9), dtype=np.float32)
    layer, bias = up_layer(machine), np.zeros(30)
    for n_columns in (29, 31):
        rows = Rows(bits(10, n_columns, generator(9)))
        with pytest.raises(ValueError, match="do not fit"):
            half_sweep(rows, layer, means=np.empty((10, 20), np.float32))
        with pytest.raises(ValueError, match="do not fit"):
            score_rows(rows, layer, bias)
    with pytest.raises(ValueError, match="do not fit"):
        score_rows(Rows(bits(10, 30, generator(9))), layer, np.zeros(29))


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
def test_rows_that_change(dtype):
    rng = generator(32)
    machine = random_machine(17, 70, rng, dtype=dtype)
    X = bits(9, 70, rng).astype(dtype)
    rows = Rows(X, fixed=False)
    X[...] = bits(9, 70, rng)
    results = np.empty((2, 9, 17), dtype=dtype)
    for data, fields in zip([rows, Rows(X)], results, strict=True):
        half_sweep(data, up_layer(machine), fields=fields)
    assert np.array_equal(*results)


PANEL_SHAPES = [(1, 1), (17, 9), (64, 65), (8, 129), (16, 16), (50, 33), (5, 40)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_rows, n_columns", PANEL_SHAPES)
def test_panels(dtype, n_rows, n_columns):
    matrix = generator(11).normal(size=(n_rows, n_columns)).astype(dtype)
    by_rows = Panels.from_rows(matrix)
    by_columns = Panels.from_columns(np.ascontiguousarray(matrix.T))
    padded = np.zeros_like(by_rows.view())
    lanes = padded.shape[2]
    for i, j in np.ndindex(*matrix.shape):
        padded[j // lanes, i, j % lanes] = matrix[i, j]
    for panels in (by_rows, by_columns):
        assert np.array_equal(panels.view(), padded)
        assert np.array_equal(panels.columns(), matrix.T)


# ---- Chains ----


def alternate(machine, states, n_steps, *, key, step):
    """Twin of run_chains."""
    for s in range(n_steps):
        states = reference.gibbs_sweep(
            machine, states, key=key, step=step + s, mean=kernel_logistic, neighbours=1
        )
    return states


@pytest.mark.thinned(3)
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
@pytest.mark.parametrize(
    "n_chains, n_visible, n_hidden",
    [(2, 150, 120), (100, 150, 120), (300, 150, 120), (300, 400, 300)],
)
def test_run_chains_on_threads(n_chains, n_visible, n_hidden, monkeypatch):
    """Threads that share the panels of a block, and that have blocks of their own."""
    rng = generator(14)
    machine = random_machine(n_hidden, n_visible, rng, scale=0.3, dtype=np.float32)
    up, down = up_layer(machine), down_layer(machine)
    start = bits(n_chains, n_visible, rng)
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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_hidden", [40, 66, 131])
def test_order_of_sums(n_hidden, dtype):
    rng = generator(28, n_hidden)
    machine = cancelling_machine(n_hidden, 30, rng, dtype)
    on = np.ones((1, n_hidden), dtype=bool)
    fields = [reference.visible_fields(machine, on, n) for n in [1, 4]]
    assert np.abs(fields[0] - fields[1]).max() > 0.01
    for n_chains in [2, 15, 140]:
        states = bits(n_chains, 30, rng)
        expected = alternate(machine, states, 3, key=KEY, step=0)
        run_chains(up_layer(machine), down_layer(machine), states, 3, KEY, 0)
        assert np.array_equal(states, expected)


# ---- Scores ----


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


@pytest.mark.thinned(3)
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


# How the trainer trains: all that is common, and all there is.
OPTIONS = [
    {"momentum": 0.5, "weight_decay": 0.01},
    {
        "momentum": 0.5,
        "nesterov": True,
        "weight_decay": 0.01,
        "l1_decay": 0.1,
        "sparsity_target": 0.2,
        "sparsity_cost": 0.5,
        "max_norm": 2,
        "fast_learning_rate": 0.1,
    },
]


def fingerprint():
    """Print what kernels ran on, and hashes of all they compute: of bits, of reals."""
    of_bits, of_reals = hashlib.sha256(), hashlib.sha256()
    for dtype in DTYPES:
        rng = np.random.default_rng(27)
        machine = random_machine(130, 200, rng, scale=0.3, dtype=dtype)
        up, down = up_layer(machine), down_layer(machine)
        for kind in ["binary", "csr", "real"]:
            X = BOTH[kind](1000, 200, dtype, rng)
            results = [*sweep(X, up, dtype, key=KEY, step=3), *scores(machine, X)]
            for chains, options in product([bits(160, 130, rng), None], OPTIONS):
                trainer, _ = make_trainer(
                    X, machine, chains, rng, batch_size=300, n_gibbs_steps=2
                )
                set_options(trainer, options)
                trainer.start_average()
                order = rng.permutation(1000)[:400]
                sweeps = 2 * trainer.sweeps_per_batch
                trainer.begin_epoch(order, np.full(2, 0.1))
                trainer.run(0, sweeps, trainer.n_threads)
                results += everything(trainer)
            for result in results:
                digest = of_reals if kind == "real" else of_bits
                digest.update(np.ascontiguousarray(result))
        states = bits(1000, 200, rng)
        run_chains(up, down, states, 3, KEY, 0)
        of_bits.update(states)
        of_bits.update(Rows(real(9000, 130, dtype, rng)).column_means)
    digests = of_bits.hexdigest(), of_reals.hexdigest()
    print(instruction_set(), effective_n_threads(), *digests)


CODE = "import test_kernels; test_kernels.fingerprint()"


@pytest.fixture(scope="module")
def by_threads():
    """Instruction set, number of threads and hashes, by the threads asked for."""
    numbers = [1, 2, 3, 7]
    lines = run_on_threads(numbers, CODE)
    return {n: line.split() for n, line in zip(numbers, lines)}


@pytest.fixture(scope="module")
def by_isa():
    """The same by the instruction set asked for."""
    lines = run_on_instruction_sets(ISAS, CODE)
    return {isa: line.split() for isa, line in zip(ISAS, lines)}


@pytest.mark.parametrize("isa", ISAS)
def test_same_bits_on_every_instruction_set(isa, by_threads, by_isa):
    best, _, of_bits, of_reals = by_threads[1]
    if ISAS.index(isa) > ISAS.index(best):
        pytest.skip(f"this processor has no {isa}")
    assert by_isa[isa][::2] == [isa, of_bits]
    # Only the base has no fused multiplication.
    if isa == best or isa != "base":
        assert by_isa[isa][3] == of_reals


@pytest.mark.skipif(not openmp_enabled(), reason="built without OpenMP")
@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_same_bits_on_any_number_of_threads(n_threads, by_threads, by_isa):
    best, *_ = by_threads[1]
    assert by_threads[n_threads] == [best, str(n_threads), *by_isa[best][2:]]
