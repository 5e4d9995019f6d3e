"""What fitted deep Boltzmann machines do: outputs, samples, columns of any kind."""

import pickle
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from common import (
    assert_same,
    assert_same_model,
    fitted_state,
    floats,
    outputs,
    random_dbm,
    traced_memory,
)
from reference import generator
from sklearn_ebm import DBMTransformer
from sklearn_ebm._machines import Machine
from sklearn_ebm.boltzmann import _normaliser
from sklearn_ebm.likelihood import log_partition
from sklearn_ebm.samplers._jumps import jumps_of
from sklearn_ebm.units import Categorical

NAN = np.nan


# ---- Outputs ----


@pytest.fixture
def fitted(binary_digits):
    """A model of three hidden layers, in float32.

    Hardly trained: with weak weights between hidden layers mean field has one fixed
    point, wherever it starts.
    """
    X = binary_digits[:300].astype(np.float32)
    return DBMTransformer(
        (9, 7, 5), learning_rate=0.05, n_iter=3, pretrain_n_iter=0, random_state=0
    ).fit(X)


def test_transform_gives_the_means_of_layers(fitted, digits):
    X = digits[:50]
    means = fitted._deep(np.float64).means(X)
    assert [m.shape for m in means] == [(50, 9), (50, 7), (50, 5)]
    assert_same(fitted.transform(X), means[-1])
    fitted.set_params(output="all")
    assert_same(fitted.transform(X), np.hstack(means))
    # Means that settled are what their neighbours give.
    fitted.set_params(n_mean_field_steps=2000, mean_field_tol=0.0)
    first, second, third = np.split(fitted.transform(X), [9, 16], axis=1)
    w, (_, c, d, e) = fitted.components_, fitted.intercepts_
    for found, field in [
        (first, X @ w[0].T + second @ w[1] + c),
        (second, first @ w[1].T + third @ w[2] + d),
        (third, second @ w[2].T + e),
    ]:
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-field)), 1e-9)


def test_names_of_outputs(fitted, digits):
    assert list(fitted.get_feature_names_out()) == [
        f"dbmtransformer{k}" for k in range(5)
    ]
    fitted.set_params(output="all")
    assert list(fitted.get_feature_names_out()) == [
        f"dbmtransformer{k}" for k in range(21)
    ]
    assert fitted.transform(digits[:2]).shape == (2, 21)


def test_visible_means(fitted, digits):
    X = digits[:50]
    b, w = fitted.intercepts_[0], fitted.components_[0]
    fitted.set_params(output="all")
    means = fitted.transform(X)
    wanted = 1 / (1 + np.exp(-(means[:, :9] @ w + b)))
    for found in (fitted.reconstruct(X), fitted.inverse_transform(means)):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, wanted, 1e-6)
    assert_same(
        fitted.inverse_transform(sp.csr_array(means)), fitted.inverse_transform(means)
    )
    # From the top: mean field of the layers below, seen from there, where it settled.
    fitted.set_params(output="top", n_mean_field_steps=2000, mean_field_tol=0.0)
    top = fitted.transform(X)
    v = fitted.inverse_transform(top)
    turned = Machine(fitted._layered().reversed().folded(), np.float64)
    even = np.full((50, 9), 0.5)
    for _ in range(2000):
        odd = turned.up.means(np.hstack([top, even]))
        even = turned.down.means(odd)[:, 5:]
    # (Layers from the top: 5 given, then 7, 9 and 64; the last stands by the 7.)
    np.testing.assert_allclose(v, odd[:, 7:], 1e-9)
    with pytest.raises(ValueError, match="X has 21 columns, but the layer has 5"):
        fitted.inverse_transform(means)


@pytest.mark.parametrize("hidden", [(4,), (4, 3), (4, 3, 2), (4, 3, 2, 2)], ids=str)
def test_visible_means_of_any_units_from_the_top(hidden):
    """Mean field settles where every layer is what its neighbours give."""
    model = random_dbm((3, *hidden), visible="gaussian", scale=0.7)
    model.intercepts_[0] += 50
    model.intercepts_[1] -= (50 / model.variance_) @ model.components_[0].T
    top = generator(728).random((20, hidden[-1]))
    v = model.inverse_transform(top)
    w, biases, seen = model.components_, model.intercepts_, v / model.variance_
    layers = [np.full((20, n), 0.5) for n in hidden[:-1]] + [top]
    for _ in range(3000):
        for k in range(len(hidden) - 1):
            below = seen if k == 0 else layers[k - 1]
            field = below @ w[k].T + layers[k + 1] @ w[k + 1] + biases[k + 1]
            layers[k] = 1 / (1 + np.exp(-field))
    np.testing.assert_allclose(v, layers[0] @ w[0] + biases[0], 1e-9)
    # Rows differ by more than rounding: the top is heard.
    assert v.std(axis=0).max() > 1e-4


@pytest.mark.thinned(5)
@floats
@pytest.mark.parametrize("n_steps", [1, 25])
@pytest.mark.parametrize("tolerance", [0.0, 1e-3])
@pytest.mark.parametrize("hidden", [(4, 3), (4, 3, 2), (4, 3, 2, 2)], ids=str)
def test_mean_field_does_not_depend_on_where_the_data_lie(
    hidden, tolerance, n_steps, dtype
):
    X, top = generator(733).normal(size=(20, 3)), generator(728).random((20, 3))
    near, far = (
        random_dbm(
            (3, *hidden), visible="gaussian", output="all",
            n_mean_field_steps=n_steps, mean_field_tol=tolerance,
        )
        for _ in range(2)
    )  # fmt: skip
    far.intercepts_[0] += 1e4
    far.intercepts_[1] -= (1e4 / far.variance_) @ far.components_[0].T
    found = [m.transform((X + at).astype(dtype)) for m, at in ((near, 0), (far, 1e4))]
    rtol = 1e-9 if dtype == np.float64 else 0.01
    np.testing.assert_allclose(found[1], found[0], rtol, rtol)
    top = top[:, : hidden[-1]].astype(dtype)
    near, far = (m.set_params(output="top").inverse_transform(top) for m in (near, far))
    np.testing.assert_allclose(far - 1e4, near, rtol, rtol)


@pytest.mark.parametrize("kind", [np.uint8, np.bool_, np.float32, sp.csr_array])
@pytest.mark.parametrize("hidden", [(12, 7), (12, 7, 5)], ids=str)
def test_data_of_any_kind_give_the_same_model(hidden, kind, binary_digits):
    floats = binary_digits[:150].astype(np.float32)
    X = sp.csr_array(floats) if kind is sp.csr_array else floats.astype(kind)
    estimator = DBMTransformer(hidden, n_iter=2, pretrain_n_iter=1, random_state=0)
    model, wanted = clone(estimator).fit(X), clone(estimator).fit(floats)
    assert_same_model(model, wanted)
    assert_same(outputs(model, X), outputs(wanted, floats))
    assert_same_model(model.partial_fit(X[:35]), wanted.partial_fit(floats[:35]))
    found = model.sample(n_gibbs_steps=2, init=X[:9])
    assert found.dtype == np.float32
    assert_same(found, wanted.sample(n_gibbs_steps=2, init=floats[:9]))


def test_sparse_bits_give_the_same_model(binary_digits):
    X = binary_digits[:150].astype(np.uint8)
    estimator = DBMTransformer((12, 7), n_iter=2, random_state=0)
    assert_same_model(clone(estimator).fit(sp.csr_array(X)), clone(estimator).fit(X))


@pytest.mark.slow
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_no_dense_copy_of_the_data(container):
    rng = np.random.default_rng(0)
    X = container((rng.random((100_000, 100)) < 0.05).astype(np.uint8))
    model = DBMTransformer(
        (5, 4), batch_size=500, n_iter=1, pretrain_n_iter=1, random_state=0
    )
    with traced_memory() as memory:
        model.fit(X).transform(X)
        model.score_samples(X)
    # Pieces of a fixed number of rows are copied.
    assert memory.peak < 100_000 * 100 * 4 / 2


# ---- Samples and imputations ----


def test_samples(fitted, binary_digits):
    given = np.full((4, 64), NAN)
    given[:, :5] = 1
    for arguments, n_rows in [
        ({}, 1),
        ({"n_samples": 5}, 5),
        ({"n_samples": 5, "n_chains": 2}, 5),
        ({"init": binary_digits[:3]}, 3),
        ({"init": binary_digits[:3], "n_samples": 7}, 7),
        ({"conditions": given}, 4),
        ({"conditions": given[0], "n_samples": 6}, 6),
        ({"conditions": given[:3], "init": binary_digits[:3]}, 3),
    ]:
        for method in ("gibbs", "tempering"):
            if "n_samples" in arguments and "init" in arguments:
                arguments["n_chains"] = 3
            draw = {"n_gibbs_steps": 3, "method": method, **arguments}
            found = fitted.sample(random_state=1, **draw)
            assert (found.shape, found.dtype) == ((n_rows, 64), np.float32)
            assert set(np.unique(found)) <= {0, 1}
            assert_same(fitted.sample(random_state=1, **draw), found)
            if "conditions" in arguments:
                assert (found[:, :5] == 1).all()
                assert (found[:, 5:].mean(axis=0) < 1).any()
    # No step: where chains start. And the model's own sequence goes on.
    start = fitted.sample(init=binary_digits[:3], n_gibbs_steps=0, random_state=0)
    assert_same(start, binary_digits[:3].astype(np.float32))
    assert not np.array_equal(fitted.sample(20, 2), fitted.sample(20, 2))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"conditions": np.zeros(65)}, "conditions has 65 columns, .* 64 features"),
        ({"conditions": np.full(64, 0.5)}, "0 or 1.* 0.5"),
        ({"conditions": np.zeros((3, 64)), "n_chains": 2}, "3 rows for 2 chains"),
        ({"init": np.zeros((3, 65))}, "init has 65 columns"),
        ({"init": np.zeros((3, 64)), "n_chains": 2}, "3 rows for 2 chains"),
        ({"init": np.full((3, 64), NAN)}, "NaN"),
        ({"method": "slice"}, "slice"),
        ({"n_samples": 0}, "n_samples"),
    ],
)
def test_bad_samples(fitted, arguments, message):
    with pytest.raises(ValueError, match=message):
        fitted.sample(n_gibbs_steps=1, **arguments)


def test_imputing(fitted, digits):
    X = digits[:6].copy()
    X[1, 3:9] = X[4] = NAN
    for method in ("mean", "sample"):
        draw = {"n_gibbs_steps": 4, "method": method, "random_state": 0}
        found = fitted.impute(X, **draw)
        known = ~np.isnan(X)
        assert (found.shape, found.dtype) == (X.shape, X.dtype)
        np.testing.assert_array_equal(found[known], X[known])
        assert ((found >= 0) & (found <= 1)).all()
        assert (method == "mean") == (found[~known] % 1 != 0).any()
    with pytest.raises(ValueError, match="median"):
        fitted.impute(X, method="median")
    with pytest.raises(ValueError, match="n_gibbs_steps"):
        fitted.impute(X, n_gibbs_steps=0)


@pytest.mark.parametrize("method", ["mean", "sample"])
def test_rows_that_lack_nothing_have_no_chains(method, digits):
    """They need none, though latent units of theirs are unknown."""
    model = DBMTransformer((16, 4), n_iter=1, random_state=0).fit(digits[:200])
    X = digits[:9].astype(float)
    X[3, 5:20] = X[7, 40] = NAN
    how = {"n_gibbs_steps": 4, "method": method, "random_state": 0}
    found, wanted = model.impute(X, **how), model.impute(X[[3, 7]], **how)
    assert_same(found[[3, 7]], wanted)
    # The model's own sequence of draws goes on only if something is drawn.
    kept, step = model.impute(digits[:9], method=method), model._sampling_step
    assert (kept.dtype, step) == (found.dtype, 0)
    np.testing.assert_array_equal(kept, digits[:9])


def test_missing_values_are_refused(fitted, digits):
    X = digits[:6].copy()
    X[1, 3] = NAN
    for method in ("fit", "partial_fit", "transform", "score_samples", "reconstruct"):
        with pytest.raises(ValueError, match="takes missing values in impute only"):
            getattr(fitted, method)(X)


def test_values_out_of_range_are_named(digits):
    with pytest.warns(UserWarning, match=r"range over \[0, 16\].*DBMTransformer"):
        DBMTransformer((4, 3), n_iter=1, random_state=0).fit(16 * digits[:50])


# ---- Columns of several kinds ----

COLUMNS = [
    ([0, 3], "categorical"),
    ([1], "gaussian"),
    ([2], "spin"),
    ([4], "poisson"),
]


def table(rng, n_rows=60):
    return np.stack(
        [
            rng.integers(0, 3, n_rows),
            rng.normal(50, 3, n_rows),
            rng.choice([-1, 1], n_rows),
            rng.integers(0, 2, n_rows),
            rng.poisson(2, n_rows),
        ],
        axis=1,
    ).astype(float)


@pytest.mark.parametrize("hidden", [(4,), (4, 3), (4, 3, 2)], ids=str)
def test_columns_of_any_kind(hidden):
    X = table(generator(770))
    model = DBMTransformer(
        hidden, visible=COLUMNS, n_iter=3, pretrain_n_iter=1, random_state=0
    ).fit(X)
    assert model.n_features_in_ == 5
    assert model.n_categories_.tolist() == [3, 0, 0, 2, 0]
    # A unit for each category.
    assert [len(bias) for bias in model.intercepts_] == [8, *hidden]
    assert model.transform(X).shape == (60, hidden[-1])
    assert np.isfinite(model.score_samples(X)).all()
    seen = model.inverse_transform(model.transform(X))
    drawn = model.sample(30, 5, conditions=[NAN, NAN, 1, 1, NAN])
    for found in (seen, model.reconstruct(X), drawn):
        assert found.shape[1] == 5
        assert set(found[:, 0]) <= {0, 1, 2}
        assert set(found[:, 3]) <= {0, 1}
    assert (drawn[:, 2:4] == 1).all()
    assert set(drawn[:, 4] % 1) == {0}
    missing = X[:8].copy()
    missing[2, 0] = missing[3, 1] = missing[4] = NAN
    filled = model.impute(missing, n_gibbs_steps=5, method="sample")
    known = ~np.isnan(missing)
    np.testing.assert_allclose(filled[known], missing[known], 1e-12)
    assert set(filled[:, 0]) <= {0, 1, 2}
    # Chains that start from a table.
    start = model.sample(init=X[:4], n_gibbs_steps=0)
    np.testing.assert_allclose(start, X[:4], 1e-12)
    with pytest.raises(ValueError, match="code 3"):
        model.transform(X + [1, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="conditions has 8 columns"):
        model.sample(2, 2, conditions=np.zeros(8))


def test_categories_are_one_hot_units():
    """A column of codes is the block of units that stand for it."""
    X = table(generator(771))[:, [0, 3]]
    coded = DBMTransformer((4, 3), visible="categorical", n_iter=3, random_state=0)
    coded.fit(X)
    units = [([0, 1, 2], Categorical(3)), ([3, 4], Categorical(2))]
    V = np.hstack([np.eye(3)[X[:, 0].astype(int)], np.eye(2)[X[:, 1].astype(int)]])
    spelled = DBMTransformer((4, 3), visible=units, n_iter=3, random_state=0).fit(V)
    assert_same(coded.components_, spelled.components_)
    assert_same(coded.transform(X), spelled.transform(V))
    assert_same(coded.score_samples(X), spelled.score_samples(V))
    # A distribution of codes, of which the bound is below.
    codes = np.array([[i, j] for i in range(3) for j in range(2)], float)
    assert np.exp(coded.score_samples(codes)).sum() <= 1 + 1e-9


# ---- Kept numbers, damage, threads ----


def test_log_z_is_kept_until_the_model_changes(fitted, binary_digits):
    X = binary_digits[:300].astype(np.float32)
    before = fitted.score_samples(X)
    log_z = float(log_partition(fitted))
    digest, kept = fitted._normaliser
    assert kept == log_z
    # What is kept is what is used: without it, scores are all but log Z.
    fitted._normaliser = digest, 0.0
    assert_same(fitted.score_samples(X) - log_z, before)
    fitted.partial_fit(X)
    assert not np.array_equal(fitted.score_samples(X), before)
    assert fitted._normaliser[1] == float(log_partition(fitted))


def test_a_large_model_estimates_log_z(binary_digits):
    X = binary_digits[:100].astype(np.float32)
    model = DBMTransformer((20, 30), n_iter=2, random_state=0).fit(X)
    found = model.score_samples(X)
    assert_same(model.score_samples(X), found)
    annealed = log_partition(
        model, "ais", betas=1000, n_runs=100, reverse=False, random_state=0
    )
    near_rows, n_effective = jumps_of(model).log_partition(2000, 0)
    assert abs(near_rows - float(annealed)) < 1
    assert n_effective > 50
    assert model._normaliser[1] == max(float(annealed), near_rows)


def test_a_draw_near_rows_that_outweighs_all_others_does_not_count(monkeypatch):
    X = np.eye(3)[np.arange(60) % 3].repeat(5, axis=1)
    model = DBMTransformer((4, 3), n_iter=1, random_state=0).fit(X)
    monkeypatch.setattr(_normaliser, "MOST_STATES", 1)
    annealed = float(
        log_partition(
            model, "ais", betas=1000, n_runs=100, reverse=False, random_state=0
        )
    )
    for near_rows, n_effective, counts in [
        (annealed + 2, 10, False),
        (annealed + 2, 100, True),
        (annealed + 9, 1, True),
        (annealed - 2, 100, False),
    ]:
        near = Mock(**{"log_partition.return_value": (near_rows, n_effective)})
        monkeypatch.setattr(_normaliser, "jumps_of", lambda _, near=near: near)
        log_z = _normaliser._log_z(model, model._layered().folded())
        assert log_z == pytest.approx(near_rows if counts else annealed)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.components_.pop(),
        lambda m: m.components_.reverse(),
        lambda m: m.intercepts_.pop(0),
        lambda m: m.intercepts_.append(np.zeros(2)),
        lambda m: setattr(m, "components_", m.components_ + [np.zeros((2, 5))]),
        lambda m: m.components_.__setitem__(1, m.components_[1].T),
    ],
)
def test_damaged_models_are_refused(fitted, change):
    assert pickle.loads(pickle.dumps(fitted)).n_iter_ == 3
    change(fitted)
    with pytest.raises(ValueError, match="restored DBMTransformer is damaged"):
        pickle.loads(pickle.dumps(fitted))


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    # (The estimate of a score takes long; one by few temperatures is below.)
    monkeypatch.setattr(_normaliser, "_log_z", lambda *_: 1000.0)
    rng = np.random.default_rng(0)
    X = (rng.random((200, 150)) < 0.2).astype(np.float32)
    found = []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads):
            model = DBMTransformer(
                (120, 80, 40), n_iter=1, pretrain_n_iter=1, momentum=0.5,
                output="all", random_state=0,
            ).fit(X)  # fmt: skip
            missing = np.where(X[:100] > 0, NAN, X[:100])
            found.append(
                [
                    fitted_state(model),
                    outputs(model, X),
                    model.inverse_transform(model.transform(X)),
                    model.sample(100, 3, random_state=1),
                    model.impute(missing, n_gibbs_steps=3, random_state=1),
                    log_partition(model, "ais", betas=5, random_state=0).value,
                ]
            )
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])
