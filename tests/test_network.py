"""The small net: gradients, optimisers, masks, and the same bits on any threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_softmax
from threadpoolctl import threadpool_limits

from common import floats
from sklearn_ebm._descent import Adam, Descent, Momentum, minimise
from sklearn_ebm._network import Dropout, Linear, Network, Softmax, outputs
from sklearn_ebm._pacer import Pacer
from sklearn_ebm._passes import (
    activate,
    adam_step,
    cap_columns,
    cross_entropy,
    momentum_step,
    multiply_by_slopes,
)
from sklearn_ebm._validation import dense

SIZES = [7, 9, 6, 4]
N_ROWS = 13


def first_params(sizes=SIZES, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=shape).astype(dtype)
        for below, size in zip(sizes, sizes[1:])
        for shape in [(below, size), (size,)]
    ]


def data(dtype=np.float64):
    rng = np.random.default_rng(1)
    X = rng.random((N_ROWS, SIZES[0])).astype(dtype)
    codes = rng.integers(SIZES[-1], size=N_ROWS).astype(np.int32)
    values = rng.normal(size=(N_ROWS, SIZES[-1])).astype(dtype)
    return X, {"softmax": codes, "linear": values}


OUTPUTS = {"softmax": Softmax([0.5, 1.0, 2.0, 0.0]), "linear": Linear()}
every_output = pytest.mark.parametrize("kind", OUTPUTS)


def masks_for(rates, dtype=np.float64, n_rows=N_ROWS):
    return Dropout(rates, SIZES[:-1], 5, np.dtype(dtype)).masks(n_rows, 3)


def written_out(kind, params, X, targets, masks, decay, output_decay=None):
    """The objective, in plain NumPy."""
    decays = [decay, decay, decay if output_decay is None else output_decay]
    masks = masks or [None] * 3
    a = X if masks[0] is None else X * masks[0]
    for layer in range(3):
        a = a @ params[2 * layer] + params[2 * layer + 1]
        if layer < 2:
            a = expit(a)
            a = a if masks[layer + 1] is None else a * masks[layer + 1]
    if kind == "softmax":
        own = log_softmax(a, axis=1)[np.arange(len(a)), targets]
        loss = -(OUTPUTS[kind].class_weight[targets] * own).mean()
    else:
        loss = 0.5 * np.square(a - targets).sum(axis=1).mean()
    return loss + sum(d / 2 * np.square(W).sum() for d, W in zip(decays, params[::2]))


@every_output
@pytest.mark.parametrize("rates", [[0, 0, 0], [0.2, 0.5, 0.5], [0, 0.3, 0]])
@pytest.mark.parametrize(
    "decays", [(0.0, None), (0.03, None), (0.0, 0.05), (0.03, 0.0)]
)
def test_objective_and_every_derivative(kind, rates, decays):
    params, (X, targets) = first_params(), data()
    masks = masks_for(rates)
    network = Network(OUTPUTS[kind], *decays)
    loss, grads = network.loss_and_grads(params, X, targets[kind], masks)
    grads = [g.copy() for g in grads]
    # A pure function of its arguments.
    again, same = network.loss_and_grads(params, X, targets[kind], masks)
    assert again == loss
    assert all(np.array_equal(a, b) for a, b in zip(same, grads))

    def objective():
        return written_out(kind, params, X, targets[kind], masks, *decays)

    assert loss == pytest.approx(objective(), rel=1e-12)
    for p, grad in zip(params, grads):
        found = np.empty_like(p)
        for where in np.ndindex(p.shape):
            value, ends = p[where], []
            for step in (1e-5, -1e-5):
                p[where] = value + step
                ends.append(objective())
            p[where] = value
            found[where] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(grad, found, rtol=1e-6, atol=1e-9)


@every_output
def test_two_classes_and_one_output(kind):
    params = first_params([7, 9, 2 if kind == "softmax" else 1])
    X, _ = data()
    targets = np.arange(N_ROWS, dtype=np.int32) % 2
    output = Softmax([1, 1])
    if kind == "linear":
        targets, output = targets[:, np.newaxis].astype(float), Linear()
    loss, _ = Network(output).loss_and_grads(params, X, targets)
    field = expit(X @ params[0] + params[1]) @ params[2] + params[3]
    if kind == "softmax":
        wanted = np.log1p(np.exp(-(2 * targets - 1) * (field[:, 1] - field[:, 0])))
    else:
        wanted = 0.5 * np.square(field - targets)
    assert loss == pytest.approx(wanted.mean(), rel=1e-12)


@every_output
def test_float32_stays_and_agrees(kind):
    X, targets = data()
    masks = masks_for([0.2, 0.5, 0.5])
    wanted = Network(OUTPUTS[kind], 0.01).loss_and_grads(
        first_params(), X, targets[kind], masks
    )
    X, targets = data(np.float32)
    masks = [mask.astype(np.float32) for mask in masks]
    found = Network(OUTPUTS[kind], 0.01).loss_and_grads(
        first_params(dtype=np.float32), X, targets[kind], masks
    )
    assert found[0] == pytest.approx(wanted[0], rel=1e-5)
    for a, b in zip(found[1], wanted[1]):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_far_fields_have_finite_losses():
    fields = np.array([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]])
    codes = np.array([1, 1], np.int32)
    loss = cross_entropy(fields, codes, np.ones(3), 0.5)
    assert loss == pytest.approx(1e4)
    np.testing.assert_allclose(fields, [[0.5, -0.5, 0], [0, 0, 0]], atol=1e-300)


def test_shorter_minibatches_use_the_room_of_longer_ones():
    X, targets = data()
    network = Network(Linear())
    network.loss_and_grads(first_params(), X, targets["linear"])
    part = X[:5], targets["linear"][:5]
    found = network.loss_and_grads(first_params(), *part)
    wanted = Network(Linear()).loss_and_grads(first_params(), *part)
    assert found[0] == wanted[0]
    assert all(np.array_equal(a, b) for a, b in zip(found[1], wanted[1]))


# ---- Dropout ----


@floats
def test_masks_drop_their_share_and_scale_up_the_rest(dtype):
    rates = [0.2, 0.5, 0.0]
    dropout = Dropout(rates, [40, 50, 60], 11, np.dtype(dtype))
    n_rows, n_steps = 50, 20
    masks = [dropout.masks(n_rows, step) for step in range(n_steps)]
    for layer, rate in enumerate(rates):
        if not rate:
            assert all(each[layer] is None for each in masks)
            continue
        drawn = np.stack([each[layer] for each in masks])
        assert drawn.dtype == dtype
        assert set(np.unique(drawn)) == {0, dtype(1 / (1 - rate))}
        dropped = (drawn == 0).mean(axis=(0, 1))
        n = n_rows * n_steps
        # 90 units, each beyond 6 standard errors with p < 1e-8.
        assert (np.abs(dropped - rate) < 6 * np.sqrt(rate * (1 - rate) / n)).all()
        # Steps and rows have draws of their own.
        assert not np.array_equal(drawn[0], drawn[1])
        assert not np.array_equal(drawn[0, 0], drawn[0, 1])


def test_layers_of_the_same_shape_drop_other_units():
    dropout = Dropout([0.5, 0.5], [50, 50], 11, np.dtype(np.float64))
    below, above = dropout.masks(50, 3)
    # They agree by chance, for each of 2500 entries: 6 standard errors.
    assert abs((below == above).mean() - 0.5) < 6 * 0.5 / 50


def test_nothing_is_dropped_without_rates():
    assert masks_for([0.0, 0.0, 0.0]) is None


# ---- Optimisers ----


def gradients(params, seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=p.shape).astype(p.dtype) for p in params]


@floats
@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_is_the_written_out_one(nesterov, dtype):
    params = first_params(dtype=dtype)
    wanted = [p.astype(float) for p in params]
    velocity = [np.zeros_like(p) for p in wanted]
    optimiser = Momentum(params, 0.9, nesterov)
    for step, rate in enumerate([0.1, 0.05, 0.2]):
        grads = gradients(params, step)
        optimiser.step(params, grads, rate)
        for w, v, g in zip(wanted, velocity, grads):
            v *= 0.9
            v -= rate * g
            w += 0.9 * v - rate * g if nesterov else v
        if step == 0:  # another one goes on from here
            optimiser = Momentum(params, 0.9, nesterov, optimiser.state())
    rtol = 1e-12 if dtype == np.float64 else 2e-6
    for p, w in zip(params, wanted):
        assert p.dtype == dtype
        np.testing.assert_allclose(p, w, rtol=rtol, atol=rtol)


@floats
def test_adam_is_the_written_out_one(dtype):
    params = first_params(dtype=dtype)
    wanted = [p.astype(float) for p in params]
    mean, square = ([np.zeros_like(p) for p in wanted] for _ in range(2))
    optimiser = Adam(params)
    for t, rate in enumerate([0.1, 0.05, 0.2], start=1):
        grads = gradients(params, t)
        optimiser.step(params, grads, rate)
        for w, m, s, g in zip(wanted, mean, square, grads):
            m += 0.1 * (g - m)
            s += 0.001 * (np.square(g, dtype=float) - s)
            step = (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.999**t)) + 1e-8)
            w -= rate * step
        if t == 1:
            optimiser = Adam(params, optimiser.state())
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    for p, w in zip(params, wanted):
        assert p.dtype == dtype
        np.testing.assert_allclose(p, w, rtol=rtol, atol=rtol)


@floats
def test_cap_scales_long_columns_only(dtype):
    W = np.random.default_rng(0).normal(size=(30, 300)).astype(dtype)
    norms = np.linalg.norm(W.astype(float), axis=0)
    limit = float(np.median(norms))
    capped = W.copy()
    cap_columns(capped, limit)
    short = norms <= limit
    np.testing.assert_array_equal(capped[:, short], W[:, short])
    np.testing.assert_allclose(
        capped[:, ~short], W[:, ~short] * (limit / norms[~short]), rtol=1e-6
    )


@every_output
@pytest.mark.parametrize("decays", [(0.01, None), (0.01, 0.03)])
def test_lbfgs_ends_where_the_gradient_vanishes(kind, decays):
    rng = np.random.default_rng(0)
    X = rng.random((60, 7))
    targets = {
        "softmax": rng.integers(4, size=60).astype(np.int32),
        "linear": rng.normal(size=(60, 4)),
    }[kind]
    network = Network(OUTPUTS[kind], *decays)
    params, rows, losses = first_params(), np.arange(50), []

    def after(loss):
        losses.append(loss)
        wanted = written_out(kind, params, X[rows], targets[rows], None, *decays)
        assert loss == pytest.approx(wanted, rel=1e-10)
        return False

    minimise(network, params, X, targets, rows, 3000, 1e-6, after)
    _, grads = network.loss_and_grads(params, X[rows], targets[rows])
    assert max(np.abs(g).max() for g in grads) < 1e-6
    assert (np.diff(losses) <= 0).all()


def test_lbfgs_takes_up_chunks_of_rows(monkeypatch):
    X, targets = data()
    found = []
    for chunk in (1024, 4):
        monkeypatch.setattr("sklearn_ebm._descent.CHUNK", chunk)
        params = first_params()
        minimise(
            Network(Linear(), 0.1), params, X, targets["linear"], np.arange(N_ROWS),
            3, 1e-9, lambda loss: False,
        )  # fmt: skip
        found.append(params)
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_lbfgs_stops_when_told():
    X, targets = data()
    losses = []

    def after(loss):
        losses.append(loss)
        return len(losses) == 2

    minimise(
        Network(Linear()), first_params(), X, targets["linear"], np.arange(N_ROWS),
        50, 1e-9, after,
    )  # fmt: skip
    assert len(losses) == 2


# ---- Steps of the centred net ----


def test_where_inputs_lie_changes_nothing_with_offsets():
    """The same function is learned from X and from X + 3, whose biases are less."""
    X, targets = data()
    found = []
    for shift in (0.0, 3.0):
        network, params = Network(OUTPUTS["linear"]), first_params()
        params[1] -= shift * params[0].sum(axis=0)
        layers = network.forward(params, X + shift)[:-1]
        offsets = [layer.mean(axis=0) for layer in layers]
        dropout = Dropout([0.0, 0.5, 0.5], SIZES[:-1], 5, X.dtype)
        descent = Descent(
            network, Adam(params), params, X + shift, targets["linear"], dropout, 5,
            2.5, offsets=offsets,
        )  # fmt: skip
        for _ in range(3):
            descent.epoch(np.arange(N_ROWS), np.full(3, 0.01), Pacer(1))
        found.append(outputs(network, params, X + shift))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-7)


# ---- Threads ----


@floats
def test_the_same_bits_on_any_number_of_threads(dtype):
    sizes = [200, 300, 300, 10]
    rng = np.random.default_rng(0)
    X = rng.random((270, 200)).astype(dtype)
    codes = rng.integers(10, size=270).astype(np.int32)
    found = []
    for n_threads in (1, 2, 5):
        params = first_params(sizes, dtype)
        with threadpool_limits(n_threads):
            dropout = Dropout([0.2, 0.5, 0.5], sizes[:-1], 7, np.dtype(dtype))
            network = Network(Softmax(np.ones(10)), 1e-3)
            network.n_threads = n_threads
            for optimiser in (Momentum(params, 0.9, True), Adam(params)):
                for step in range(2):
                    masks = dropout.masks(len(X), step)
                    _, grads = network.loss_and_grads(params, X, codes, masks)
                    optimiser.step(params, grads, 0.1, n_threads)
                    cap_columns(params[0], 3.0, n_threads)
        found.append([p.tobytes() for p in params])
    assert found[1:] == found[:1] * 2


# ---- Rows ----


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, np.asfortranarray])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.bool_, np.uint8])
def test_dense_rows_of_any_data(container, dtype):
    X = (np.random.default_rng(0).random((20, 7)) < 0.5).astype(dtype)
    for rows in (np.array([3, 1, 19]), slice(2, 9)):
        found = dense(container(X)[rows], np.float32)
        assert found.dtype == np.float32
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, X[rows])


@pytest.mark.parametrize("hidden", [False, True])
def test_outputs_are_those_of_all_chunks(hidden, monkeypatch):
    monkeypatch.setattr("sklearn_ebm._network.CHUNK", 5)
    params, (X, _) = first_params(), data()
    a = expit(expit(X @ params[0] + params[1]) @ params[2] + params[3])
    wanted = a if hidden else a @ params[4] + params[5]
    found = outputs(Network(Linear()), params, X, hidden)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("dtype", [bool, np.float32, np.float64])
def test_outputs_of_sparse_rows_are_those_of_dense_ones(dtype, hidden):
    X = sp.random_array((3000, 400), density=0.01, rng=0, format="csr").astype(dtype)
    network, params = Network(Linear()), first_params([400, 9, 6, 4], np.float32)
    some = np.arange(2500, 0, -2)
    for numbers in (None, some):
        found = outputs(network, params, X, hidden, numbers)
        wanted = outputs(network, params, X.toarray(), hidden, numbers)
        assert found.tobytes() == wanted.tobytes()


# ---- What does not fit ----


def test_shapes_that_do_not_fit_are_refused():
    matrix, row = np.ones((3, 4)), np.ones(4)
    codes = np.zeros(3, np.int32)
    for call in [
        lambda: activate(matrix, np.ones(3)),
        lambda: activate(matrix, row, np.ones((3, 3))),
        lambda: multiply_by_slopes(matrix, np.ones((2, 4))),
        lambda: multiply_by_slopes(matrix, matrix, np.ones((2, 4))),
        lambda: cross_entropy(matrix, codes[:2], row, 1.0),
        lambda: cross_entropy(matrix, codes, np.ones(3), 1.0),
        lambda: momentum_step(row, row, np.ones(3), 0.1, 0.9, False),
        lambda: adam_step(row, row, np.ones(3), row, 0.1, 0.9, 0.9, 1e-8),
    ]:
        with pytest.raises(ValueError, match="do not fit"):
            call()


@pytest.mark.parametrize("code", [-1, 4])
def test_classes_that_are_not_there_are_refused(code):
    codes = np.full(3, code, np.int32)
    with pytest.raises(ValueError, match=f"there is no class {code}"):
        cross_entropy(np.ones((3, 4)), codes, np.ones(4), 1.0)
