"""What BernoulliRBM draws: gibbs and sample."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from scipy.special import softmax
from scipy.stats import binomtest, chisquare
from sklearn.base import clone

from common import all_states, assert_same, floats, model_with, name_of, random_model
from sklearn_ebm import (
    RBM,
    BernoulliRBM,
    DBMTransformer,
    DBNTransformer,
    GaussianRBM,
    MultimodalDBM,
    RBMClassifier,
)
from sklearn_ebm._gibbs import Purpose
from sklearn_ebm._machines import Machine
from sklearn_ebm._missing import fill_exactly
from sklearn_ebm.likelihood import free_energy, log_partition, ratio_matching
from sklearn_ebm.samplers import Gibbs, ReplicaExchange, impute
from sklearn_ebm.samplers._jumps import Jumps
from sklearn_ebm.samplers._models import layered_of, row_fields
from sklearn_ebm.units import Categorical


@floats
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_gibbs_gives_bits(dtype, container, digits):
    X = container(digits[:50].astype(dtype))
    v = BernoulliRBM(8, random_state=0).fit(X).gibbs(X)
    assert v.shape == X.shape
    assert v.dtype == bool
    assert 0 < v.mean() < 1


def test_gibbs_draws_fresh_bits_and_the_sequence_is_reproducible(digits):
    def sequence():
        model = BernoulliRBM(8, n_iter=1, random_state=0).fit(digits[:100])
        return [model.gibbs(digits[:50]) for _ in range(4)] + [model.sample(3)]

    first, again = sequence(), sequence()
    assert_same(first, again)
    for a, b in itertools.combinations(first[:4], 2):
        assert not np.array_equal(a, b)


def test_gibbs_can_be_iterated(digits):
    model = BernoulliRBM(8, n_iter=1, random_state=0).fit(digits)
    v = digits[:20]
    for _ in range(5):
        v = model.gibbs(v)
    assert v.dtype == bool


@floats
def test_draws_follow_the_conditionals(dtype):
    # Hidden units that copy the visible ones, and these that copy them back.
    n = 70
    copying = model_with(100 * np.eye(n, dtype=dtype), -50 * np.ones(n), [-50] * n)
    V = np.random.default_rng(0).random((150, n)) < 0.4
    np.testing.assert_array_equal(copying.gibbs(V), V)
    np.testing.assert_array_equal(copying.gibbs(sp.csr_array(V)), V)
    np.testing.assert_array_equal(copying.sample(init=V, n_gibbs_steps=20), V)


@floats
def test_sample_draws_from_the_model(dtype):
    # Weak enough to be forgotten in 100 steps, strong enough to matter.
    model = random_model(3, 4, 1.0, dtype)
    V = all_states(4)
    p = np.exp(-model.free_energy(V))
    n = 20_000
    drawn = model.sample(n, 100, random_state=0)
    counts = np.bincount((drawn @ 2 ** np.arange(4)[::-1]).astype(int), minlength=16)
    assert chisquare(counts, n * p / p.sum()).pvalue > 1e-6


@floats
def test_sample_shapes(dtype, digits):
    model = BernoulliRBM(8, n_iter=1, random_state=0).fit(digits.astype(dtype))
    for found, n_rows in [
        (model.sample(n_gibbs_steps=2), 1),
        (model.sample(7, n_gibbs_steps=2), 7),
        (model.sample(np.int64(7), np.int32(2)), 7),
        (model.sample(init=digits[:5], n_gibbs_steps=2), 5),
        (model.sample(5, 2, digits[:5], 0), 5),
        (model.sample(init=sp.csr_array(digits[:5]), n_gibbs_steps=2), 5),
        (model.sample(init=digits[:5].tolist(), n_gibbs_steps=2), 5),
    ]:
        assert found.shape == (n_rows, 64)
        assert found.dtype == dtype
        assert set(np.unique(found)) == {0, 1}


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_sample_without_steps_is_init(container, digits):
    model = BernoulliRBM(8, n_iter=1, random_state=0).fit(digits)
    for init in (digits[:5], (digits[:5] > 0.5).astype(float)):
        found = model.sample(init=container(init), n_gibbs_steps=0)
        np.testing.assert_array_equal(found, init)
        found[:] = 7  # the user's to change
    np.testing.assert_array_equal(digits.max(), 1)


def test_sample_starts_at_the_means_of_the_data(binary_digits):
    # (Of the training by CD no rows are left.)
    model = BernoulliRBM(8, n_iter=1, persistent=False, random_state=0)
    model.fit(binary_digits)
    n = 20_000
    found = model.sample(n, n_gibbs_steps=0)
    p = binary_digits.mean(axis=0)
    # Six standard deviations: one in 10^7 over the 64 features.
    error = 6 * np.sqrt(p * (1 - p) / n)
    assert (np.abs(found.mean(axis=0) - p) <= error + 1e-6).all()
    both = np.corrcoef(found[:, (p > 0.2) & (p < 0.8)].T)
    assert np.abs(both[np.triu_indices_from(both, 1)]).max() < 6 / np.sqrt(n)


def test_sample_of_any_units_starts_at_the_means_of_the_data():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            rng.integers(0, 3, 500),
            2.0 * (rng.random(500) < 0.3) - 1,
            rng.poisson(4, 500),
            rng.normal(7, 2, 500),
        ]
    )
    kinds = "categorical", "spin", "poisson", "gaussian"
    visible = [([column], kind) for column, kind in enumerate(kinds)]
    model = RBM(8, visible=visible, n_iter=20, persistent=False, random_state=0).fit(X)
    n = 20_000
    found = model.sample(n, n_gibbs_steps=0, random_state=0)
    for code in range(3):
        p = (X[:, 0] == code).mean()
        # Six standard deviations, and what rates are kept from 0 and 1 by.
        error = 6 * np.sqrt(p * (1 - p) / n) + 2e-3
        assert abs((found[:, 0] == code).mean() - p) < error
    error = 6 * X.std(axis=0) / np.sqrt(n) + 4e-3
    assert (np.abs(found.mean(axis=0) - X.mean(axis=0)) < error)[1:3].all()
    np.testing.assert_allclose(found[:, 3], X[:, 3].mean(), rtol=1e-6)


def test_what_is_known_decides_between_clusters():
    rng = np.random.default_rng(0)
    high = np.arange(400)[:, np.newaxis] % 2 == 0
    X = 10.0 * high + rng.normal(size=(400, 30))
    model = GaussianRBM(1, n_iter=20, random_state=0).fit(X)
    # Chains do not leave the cluster in which their missing values are, and most are
    # missing. What is left tells the cluster without a doubt.
    missing = np.arange(30) >= 10
    found = impute(model, X, missing, random_state=0)
    np.testing.assert_allclose(found, model.impute(X, mask=missing), atol=0.01)
    drawn = model.sample(conditions=np.where(missing, np.nan, X), random_state=0)
    np.testing.assert_array_equal(drawn[:, 10:].mean(axis=1) > 5, high[:, 0])


SEPARATE = [
    BernoulliRBM(6, n_iter=40, random_state=0),
    RBM(4, visible="spin", hidden="spin", n_iter=40, random_state=0),
    DBMTransformer((5, 3), n_iter=40, random_state=0),
    DBNTransformer((6, 5), n_iter=40, random_state=0),
]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("rate", [0.25, 0.04])
@pytest.mark.parametrize("model", SEPARATE, ids=name_of)
def test_modes_far_apart_have_their_shares_among_samples(model, rate):
    rng = np.random.default_rng(0)
    first = rng.random((600, 1)) < rate
    X = (first ^ (rng.random((600, 12)) < 0.01)).astype(float)

    def is_first(V):
        return (V > 0).mean(axis=1) > 0.5

    model = clone(model).fit(2 * X - 1 if isinstance(model, RBM) else X)
    # Shares that the model, right or wrong, gives both: one hidden state after another.
    top = getattr(model, "top_rbm", lambda: model)()
    turned = layered_of(top).folded().reversed()
    h = all_states(len(turned.biases[0])).astype(float)
    if isinstance(model, RBM):
        h = 2 * h - 1
    p = softmax(-free_energy(turned, h))
    h = h.repeat(100, axis=0)
    v = Machine(turned).up.draw(h, 5, 0, Purpose.DRAW_VISIBLE)
    if top is not model:
        v = model._draw_down(v, 6, 0)
    share = p @ is_first(v).reshape(-1, 100).mean(axis=1)
    if rate > 0.1:
        assert 0.1 < share < 0.9
    else:  # which not every model gives its share
        assert 0 < share < 0.1

    n = 4000
    found = is_first(model.sample(n, n_gibbs_steps=100, random_state=1)).sum()
    assert binomtest(found, n, share).pvalue > 1e-6
    # Sweeps alone do not lead from one to the other.
    start = 2 * X[:200] - 1 if isinstance(model, RBM) else X[:200]
    stay = is_first(model.sample(init=start, n_gibbs_steps=100, random_state=1))
    assert (stay == is_first(start)).mean() > 0.9


@pytest.mark.thinned(3)
@pytest.mark.parametrize("method", ["sample", "impute"])
@pytest.mark.parametrize("model", SEPARATE[:3], ids=name_of)
def test_modes_far_apart_have_their_shares_given_some_columns(model, method):
    rng = np.random.default_rng(1)
    first = rng.random((600, 1)) < 0.4
    X = (first ^ (rng.random((600, 14)) < 0.01)).astype(float)
    X[:, 12:] = rng.random((600, 2)) < 0.2 + 0.3 * first  # which hardly tell them apart
    low = -1 if isinstance(model, RBM) else 0
    model = clone(model).fit(np.where(X == 0, low, X))
    n, values = 4000, np.full(14, np.nan)
    values[12:] = 1.0
    layers = layered_of(model).folded()
    row = np.pad(values, (0, len(layers.biases[0]) - 14), constant_values=np.nan)
    mean = fill_exactly(layers, row[np.newaxis], np.isnan(row)[np.newaxis])[0, :12]
    share = (mean - low) / (1 - low)
    assert (share > 0.1).all() and (share < 0.9).all()
    if method == "sample":
        drawn = model.sample(n, 100, conditions=values, random_state=2)
    else:
        rows = np.tile(values, (n, 1))
        drawn = model.impute(rows, method="sample", random_state=3)
    assert (drawn[:, 12:] == 1).all()
    for k in range(12):
        found = int((drawn[:, k] == 1).sum())
        assert binomtest(found, n, share[k]).pvalue > 1e-6


@pytest.mark.parametrize("model", SEPARATE[:3], ids=name_of)
def test_places_to_jump_to_are_all_different(model):
    X = np.random.default_rng(0).random((600, 20))
    fields, of_rows = row_fields(clone(model).set_params(n_iter=3).fit(X))
    assert of_rows.sum() > 200
    assert len(np.unique(fields, axis=0)) == len(fields) <= 262


def test_chains_of_a_model_with_more_units_than_were_trained_do_not_jump(digits):
    model = BernoulliRBM(8, n_iter=1, random_state=0).fit(digits)
    model.components_ = np.vstack([model.components_, np.ones(64)])
    model.intercept_hidden_ = np.append(model.intercept_hidden_, -9.0)
    assert model.sample(3, n_gibbs_steps=4, random_state=0).shape == (3, 64)
    estimate = log_partition(model, "ais", betas=1000, random_state=0)
    exact = log_partition(model).value
    assert abs(estimate.reverse - exact) < 5 * estimate.reverse_standard_error


@pytest.mark.parametrize("n_steps, n_jumps", [(5, 0), (6, 1), (20, 2)])
def test_what_is_given_is_looked_at_where_chains_jump(n_steps, n_jumps, monkeypatch):
    called, given, jump = [], Jumps.given, Jumps.jump
    monkeypatch.setattr(
        Jumps, "given", lambda *args: called.append("given") or given(*args)
    )
    monkeypatch.setattr(
        Jumps, "jump", lambda *args: called.append("jump") or jump(*args)
    )
    X = np.random.default_rng(0).random((100, 12)) < 0.5
    model = BernoulliRBM(4, n_iter=1, random_state=0).fit(X)
    impute(model, X, [True] * 9 + [False] * 3, n_gibbs_steps=n_steps, random_state=0)
    assert called[:2] == ["given", "jump"][: 2 * n_jumps]
    assert called.count("given") == min(n_jumps, 1)
    assert called.count("jump") >= n_jumps


def test_sample_random_state(digits):
    model = BernoulliRBM(8, n_iter=1, random_state=0).fit(digits)
    first = model.sample(9, 3, random_state=5)
    np.testing.assert_array_equal(model.sample(9, 3, random_state=5), first)
    assert not np.array_equal(model.sample(9, 3, random_state=6), first)
    rng = np.random.RandomState(5)
    np.testing.assert_array_equal(model.sample(9, 3, random_state=rng), first)
    assert not np.array_equal(model.sample(9, 3, random_state=rng), first)
    drawn = [model.sample(9, 3) for _ in range(3)]
    for a, b in itertools.combinations(drawn, 2):
        assert not np.array_equal(a, b)


def test_samples_are_different_rows(binary_digits):
    model = BernoulliRBM(30, n_iter=2, random_state=0).fit(binary_digits)
    drawn = model.sample(200, 5, random_state=0)
    assert len(np.unique(drawn, axis=0)) > 190


def test_few_steps_resemble_init(binary_digits):
    model = BernoulliRBM(64, n_iter=20, random_state=0).fit(binary_digits)
    init = binary_digits[:300].astype(float)
    near, far = (
        np.abs(model.sample(init=init, n_gibbs_steps=n, random_state=0) - init).mean()
        for n in (1, 200)
    )
    assert near < 0.7 * far


@pytest.mark.parametrize(
    "model",
    [
        BernoulliRBM(3, n_iter=1, random_state=0),
        RBM(3, visible="categorical", n_iter=1, random_state=0),
        DBMTransformer((3, 2), n_iter=1, random_state=0),
    ],
    ids=name_of,
)
def test_tables_of_conditions_have_the_columns_of_the_data(model):
    pd = pytest.importorskip("pandas")
    names = list("abcd")
    X = pd.DataFrame(np.random.default_rng(0).random((40, 4)) < 0.4, columns=names)
    model = clone(model).fit(X)
    wanted = pd.DataFrame([[1, np.nan, 0, np.nan]], columns=names)
    v = model.sample(5, 3, conditions=wanted)
    assert v[:, 0].all()
    assert not v[:, 2].any()
    assert model.sample(2, 3, init=X[:2]).shape == (2, 4)
    mask = pd.DataFrame([[True, False, False, False]] * 40, columns=names)
    assert model.impute(X.astype(float), mask=mask).shape == X.shape
    for name, call in {
        "conditions": lambda: model.sample(5, conditions=wanted[names[::-1]]),
        "init": lambda: model.sample(2, init=X[:2].astype(float)[names[::-1]]),
        "mask": lambda: model.impute(X.astype(float), mask=mask[names[::-1]]),
    }.items():
        with pytest.raises(ValueError, match=f"{name} must have the columns"):
            call()
    # Missing values of pandas are those that are free.
    for each in (wanted.astype("Int64"), wanted.astype("Int64").iloc[0]):
        found = model.sample(5, 3, conditions=each, random_state=0)
        assert_array_equal(found, model.sample(5, 3, conditions=wanted, random_state=0))
    # A table without NaN would hold all units, most of them at 0.
    with pytest.raises(TypeError, match="conditions must be dense"):
        model.sample(5, 3, conditions=sp.csr_array([[1, 0, 0, 0]]))


def test_tables_given_to_functions_have_the_columns_of_the_data():
    pd = pytest.importorskip("pandas")
    bits, names = np.random.default_rng(0).random((40, 4)) < 0.4, list("abcd")
    X = pd.DataFrame(bits, columns=names)
    model = BernoulliRBM(3, n_iter=1).fit(X)
    mask = pd.DataFrame(bits, columns=names)
    turned, back = X[names[::-1]].astype(float), mask[names[::-1]]
    chains, exchange = Gibbs(model), ReplicaExchange(model)
    for name, call in [
        ("conditions", lambda: chains.init(40, conditions=turned)),
        ("init", lambda: chains.init(init=turned)),
        ("init", lambda: exchange.init(40, init=turned)),
        ("fixed", lambda: exchange.init(40, init=bits, fixed=back)),
        ("X", lambda: impute(model, turned, mask=mask)),
        ("mask", lambda: impute(model, X.astype(float), mask=back)),
        ("X", lambda: ratio_matching(model, turned)),
    ]:
        with pytest.raises(ValueError, match=f"{name} must have the columns"):
            call()
    assert chains.init(init=X, conditions=X.astype(float)).visible.shape == (40, 4)
    assert exchange.init(40, init=X, fixed=mask).visible.shape[0] == 40
    assert impute(model, X.astype(float), mask=mask).shape == (40, 4)
    assert_array_equal(ratio_matching(model, X), ratio_matching(model, bits))


class OtherTable:
    """A data frame of another library than pandas, as far as arguments are read."""

    def __init__(self, values, columns):
        self.values, self.columns = values, columns

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


def test_columns_of_tables_of_any_library_are_those_of_the_data():
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).random((40, 3)) < 0.4
    model = BernoulliRBM(3, n_iter=1).fit(pd.DataFrame(X, columns=list("abc")))
    assert_array_equal(model.sample(2, 0, init=OtherTable(X[:2], list("abc"))), X[:2])
    with pytest.raises(ValueError, match="init must have the columns"):
        model.sample(2, init=OtherTable(X[:2], list("cba")))


@pytest.mark.parametrize(
    "visible, hidden, value, words",
    [
        ("bernoulli", "spin", 0.5, "0 or 1"),
        ("spin", "bernoulli", 0, "-1 or 1"),
        ("poisson", "bernoulli", -7, "counts"),
        ("poisson", "bernoulli", 0.5, "counts"),
        ("relu", "bernoulli", -7, ">= 0"),
    ],
)
def test_conditions_are_what_units_can_be(visible, hidden, value, words):
    X = np.random.default_rng(0).integers(0, 2, (40, 3)).astype(float)
    X = 2 * X - 1 if visible == "spin" else X
    model = RBM(3, visible=visible, hidden=hidden, n_iter=1, random_state=0).fit(X)
    with pytest.raises(ValueError, match=words):
        model.sample(2, 3, conditions=[value, np.nan, np.nan])
    v = model.sample(2, 3, conditions=[1, np.nan, np.nan], random_state=0)
    assert (v[:, 0] == 1).all()


def test_what_is_known_is_not_rounded_by_impute():
    X = 1.6e9 + np.random.default_rng(0).random((50, 2)) * 1e5
    model = GaussianRBM(2, n_iter=1, random_state=0).fit(X.astype(np.float32))
    holed = X[:3].copy()
    holed[:, 0] = np.nan
    found = model.impute(holed, random_state=0)
    assert np.array_equal(found[:, 1], X[:3, 1])
    assert np.isfinite(found).all()


def test_numbers_of_columns_are_no_names():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(np.eye(4), columns=list("abcd"))
    model = BernoulliRBM(2, n_iter=1, random_state=0).fit(X)
    one = pd.Series([1, np.nan, np.nan, np.nan], index=[7, 5, 3, 1])
    assert model.sample(3, 2, conditions=one)[:, 0].all()
    with pytest.raises(ValueError, match="Expected (a )?2"):
        clone(model).fit(X["a"])


BELOW_AND_ABOVE = {
    "bernoulli": RBM(4, n_iter=1),
    "spin": RBM(4, visible="spin", n_iter=1),
    "relu": RBM(4, visible="relu", n_iter=1),
    "poisson": RBM(4, visible="poisson", n_iter=1),
    "block": RBM(4, visible=Categorical(4), n_iter=1),
    "table": RBM(4, visible=[([0], "categorical"), (slice(1, 4), "spin")], n_iter=1),
    "DBM": DBMTransformer((4, 3), n_iter=1),
    "DBM-spin": DBMTransformer((4, 3), visible="spin", n_iter=1),
    "multimodal": MultimodalDBM(
        [
            ("first", slice(0, 2), "bernoulli", (3, 2)),
            ("others", slice(2, None), "bernoulli", (3, 2)),
        ],
        n_joint=2,
        n_iter=1,
    ),
    "DBN": DBNTransformer((4, 3), n_iter=1),
    "one-layer": DBNTransformer(4, n_iter=1),
    "one-layer-spin": DBNTransformer(4, visible="spin", n_iter=1),
    "classifier": RBMClassifier(4, n_iter=1),
}


@pytest.mark.parametrize("kind", BELOW_AND_ABOVE)
def test_values_to_start_from_that_units_cannot_mean_have_one_warning(kind):
    X = np.eye(4)[[0, 1, 2, 3, 3, 2]]
    model = clone(BELOW_AND_ABOVE[kind]).fit(X, np.arange(6) % 2)
    init = np.where(X == 1, 3.0, -2.0)
    init[:, 0] = X[:, 0] if kind == "table" else init[:, 0]
    for container in (np.asarray, sp.csr_array):
        with pytest.warns(UserWarning, match="values in .* rang") as caught:
            model.sample(init=container(init), n_gibbs_steps=1, n_samples=6)
        assert [warning.filename for warning in caught] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.sample(init=container(X), n_gibbs_steps=1, n_samples=6)


def test_column_of_a_table_to_start_from_goes_by_its_number_in_the_table():
    X = np.eye(4)[[0, 1, 2, 3, 3, 2]]
    model = clone(BELOW_AND_ABOVE["table"]).fit(X)
    # (Column 0 is two visible units.)
    with pytest.warns(UserWarning, match="columns 1 to 3 range over"):
        model.sample(init=X + [0, 0, 0, 4], n_gibbs_steps=1)
    for name in ("init", "conditions"):
        with pytest.raises(ValueError, match=f"{name} has 3 columns"):
            model.sample(**{name: X[:, :3]})
        with pytest.raises(ValueError, match=f"{name}: Column 0 must hold codes"):
            model.sample(**{name: X + 0.5})
