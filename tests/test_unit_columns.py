"""How columns become visible units: codes, names, and what is refused."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import OneHotEncoder

from common import assert_same, fitted_floats, traced_memory
from reference import generator
from sklearn_ebm import RBM, DBMTransformer, DBNTransformer, MultimodalDBM, RBMImputer
from sklearn_ebm._products import goes_by_lists
from sklearn_ebm._units import Kind
from sklearn_ebm.boltzmann._columns import RANGES, Columns, column_indices
from sklearn_ebm.boltzmann._visible_scales import bias_for, column_variances
from sklearn_ebm.samplers import impute
from sklearn_ebm.samplers._chains import STATES
from sklearn_ebm.units import Categorical, Gaussian, Mixed, Spin
from tables import NAMES, SPECS, mixed_rbm, table


def test_every_kind_has_states_a_range_and_a_first_bias():
    assert set(RANGES) == set(STATES) == set(Kind)
    kinds = np.array([int(kind) for kind in Kind])
    assert np.isfinite(bias_for(kinds, np.full(len(kinds), 0.3), 0.01)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, bool])
@pytest.mark.parametrize("width", [1, 2, 3, 300])
def test_variances_of_sparse_columns_are_those_of_dense_ones(width, dtype):
    values = sp.random_array((5000, width), density=0.2, rng=1, format="csr")
    X = (200 * values).astype(dtype)
    X.data[::7] = 0
    some = np.random.default_rng(0).permutation(5000)[:4500]
    for numbers, rows in [(5000, X.toarray()), (some, X.toarray()[some])]:
        mean = rows.mean(axis=0, dtype=float)
        found = column_variances(X, numbers, mean)
        assert_same(found, column_variances(X.toarray(), numbers, mean))
        np.testing.assert_allclose(found, rows.var(axis=0, dtype=float), rtol=1e-10)


def test_infinite_variances_are_found():
    X = np.array([[1e200, 1e200, 1e200], [-1e200, 1e200, 0.0]])
    for rows in (X, sp.csr_array(X)):
        found = column_variances(rows, 2, np.array([0.0, 1e200, 5e199]))
        np.testing.assert_array_equal(found, [np.inf, 0, np.inf])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_variances_are_infinite_where_means_are():
    X = np.array([[1e308, 0.0, 1e308], [1.7e308, 1e308, 1e308]])
    mean = np.array([np.inf, 5e307, np.inf])
    for rows in (X, sp.csr_array(X)):
        np.testing.assert_array_equal(column_variances(rows, 2, mean), np.inf)


@pytest.mark.parametrize("missing", ["raise", "latent"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32])
def test_codes_of_many_categories_are_used_without_dense_blocks(dtype, missing):
    X = np.random.default_rng(0).integers(200, size=(4000, 3)).astype(dtype)
    rbm = RBM(4, visible="categorical", missing=missing, n_iter=1, random_state=0)
    rbm.fit(X[:500])
    X = np.minimum(X, X[:500].max(axis=0))
    blocks = sp.csr_array(rbm._columns().encode(X))
    with traced_memory() as memory:
        found = rbm.transform(X)
    means = rbm._machine(found.dtype).up.means(blocks.toarray())
    assert_same(found, means)
    assert memory.peak < 2e6 or not goes_by_lists(blocks)
    for method in ("free_energy", "score_samples", "reconstruct"):
        use = getattr(rbm, method)
        assert_same(use(X)[:10], use(X[:10]))
    if missing == "latent":
        X = X.astype(float)
        X[3, 1] = np.nan
        some = [each for each in range(4000) if each != 3]
        assert_same(rbm.transform(X)[some], rbm.transform(X[some]))


def test_codes_are_blocks_of_columns():
    X = table()[:, 1:3]
    blocks = OneHotEncoder(sparse_output=False).fit_transform(X)
    visible = Mixed(((3, Categorical(3)), (2, Categorical(2))))
    options = {"n_components": 3, "n_iter": 3, "random_state": 0}
    for spec in (visible, [([0, 1, 2], Categorical(3)), ([3, 4], Categorical(2))]):
        codes = RBM(visible="categorical", **options).fit(X)
        coded = RBM(visible=spec, **options).fit(blocks)
        for name, value in fitted_floats(coded).items():
            assert_same(getattr(codes, name), value, name)
        for method in ("transform", "free_energy", "score_samples"):
            assert_same(getattr(codes, method)(X), getattr(coded, method)(blocks))
        for method in ("gibbs", "reconstruct"):
            found = getattr(codes, method)(X)
            wanted = getattr(coded, method)(blocks)
            number = np.stack([wanted[:, :3].argmax(1), wanted[:, 3:].argmax(1)], 1)
            np.testing.assert_array_equal(found, number)
    np.testing.assert_array_equal(codes.n_categories_, [3, 2])
    # A probability for every pair of codes, and they sum to 1.
    pairs = np.array([[i, j] for i in range(3) for j in range(2)], float)
    np.testing.assert_allclose(np.exp(codes.score_samples(pairs)).sum(), 1, rtol=1e-9)
    assert set(map(tuple, codes.sample(200, 5, random_state=0))) <= set(
        map(tuple, pairs)
    )
    held = codes.sample(20, 5, conditions=[2, np.nan], random_state=0)
    assert (held[:, 0] == 2).all()
    assert len(set(held[:, 1])) == 2


def test_numbers_in_one_place_of_sparse_codes_are_one_code():
    X = sp.csr_array(np.array([[1.0, 0.0], [2.0, 3.0], [0.0, 1.0]]))
    halves = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr
    split = sp.csr_array(halves, shape=X.shape)
    model = RBM(2, visible="categorical", n_iter=1, random_state=0)
    np.testing.assert_array_equal(model.fit(split).n_categories_, [3, 4])
    assert_same(model.transform(split), model.transform(X))
    few = {"n_gibbs_steps": 1, "random_state": 0}
    assert_same(model.sample(init=split, **few), model.sample(init=X, **few))


def test_columns_may_be_said_in_any_way():
    X = table()
    pandas = pytest.importorskip("pandas")
    wanted = mixed_rbm().fit(X)
    kinds = [unit for _, unit in SPECS]
    mask = np.arange(7)[:, np.newaxis]
    for columns in [
        [0, slice(1, 3), slice(-4, -2), [-2], 6],
        [mask[:, 0] == 0, (mask[:, 0] > 0) & (mask[:, 0] < 3), (3, 4), [5], [-1]],
        [[0], np.array([1, 2]), range(3, 5), [k == 5 for k in range(7)], [6]],
    ]:
        found = mixed_rbm(list(zip(columns, kinds))).fit(X)
        assert_same(fitted_floats(found), fitted_floats(wanted))
    frame = pandas.DataFrame(X, columns=NAMES)
    named = ["bit", ["two", "three"], ["large", "small"], ("count",), "spin"]
    found = mixed_rbm(list(zip(named, kinds))).fit(frame)
    assert_same(fitted_floats(found), fitted_floats(wanted))
    assert_same(found.transform(frame), wanted.transform(X))
    # The order of the pairs does not matter, that of the columns does.
    found = mixed_rbm(SPECS[::-1]).fit(X)
    assert_same(fitted_floats(found), fitted_floats(wanted))


def test_units_have_their_numbers_in_the_order_their_columns_are_named_in():
    X = generator(667).normal(size=(30, 4)) * [1, 1, 3, 9] + [0, 0, 20, 50]
    scales = np.array([9.0, 1.0, 3.0])
    wanted = [([0, 2, 3], Gaussian(scale=np.sort(scales))), ([1], "gaussian")]
    found = [([3, 0, 2], Gaussian(scale=scales)), ([1], "gaussian")]
    options = {"n_iter": 2, "random_state": 0}
    models = [RBM(3, visible=pairs, **options).fit(X) for pairs in (wanted, found)]
    np.testing.assert_allclose(models[0].variance_[[0, 2, 3]], [1, 9, 81])
    assert_same(fitted_floats(models[1]), fitted_floats(models[0]))
    X[::3, 2] = X[::4, 3] = np.nan
    imputers = [RBMImputer(3, visible=pairs, **options) for pairs in (wanted, found)]
    assert_same(imputers[1].fit_transform(X), imputers[0].fit_transform(X))
    deep = MultimodalDBM(
        [("a", *found[0], 2), ("b", *found[1], 2)], 2, missing="latent", **options
    ).fit(np.nan_to_num(X))
    np.testing.assert_allclose(deep.variance_[[0, 2, 3]], [1, 9, 81])


@pytest.mark.parametrize(
    "visible, message",
    [
        ([([0, 1], "spin")], "visible must name every column once, also columns [2]"),
        ([([0, 1, 2], "spin"), ([2], "spin")], "not columns [2] more than once"),
        ([([0, 1, 1, 2], "spin")], "not columns [1] more than once"),
        ([], "also columns [0, 1, 2]"),
        ([([0, 1, 3], "spin")], "columns [0, 1, 3] are not among the 3 there are"),
        ([([True, False], "spin")], "columns [True, False] are not among the 3"),
        ([("a", "spin")], "columns are named ['a'], but the data has no names"),
        ([([0, 1, 2], "sign")], "there are no units 'sign'"),
        ([([0, 1, 2], "spin", 3)], "visible must hold pairs (columns, unit), got"),
        (["spin"], "visible must hold pairs (columns, unit), got 'spin'"),
        ([(Spin(), [0, 1, 2])], "must hold pairs (columns, unit), got (Spin(), [0,"),
        ([(Spin(), "a")], "must hold pairs (columns, unit), got (Spin(), 'a')"),
        ([("spin", [0, 1, 2])], "must hold pairs (columns, unit), got ('spin', [0,"),
        ([([0, 1, 2], Mixed(((3, Spin()),)))], "visible cannot hold Mixed units"),
        (Mixed(((2, Spin()),)), "Mixed units of 2 columns do not make 3"),
        (Categorical(2), "3 columns are no blocks of 2"),
        ([([0, 1], "spin"), ([2], Categorical(2))], "1 columns are no blocks of 2"),
        (
            [([0, 2], Categorical(2)), ([1], "spin")],
            "the 2 columns of a block of categories must lie side by side",
        ),
        ([([1, 0, 2], Gaussian([1.0, 2.0]))], "loc of Gaussian units has shape (2,)"),
        (Gaussian([1.0, 2.0]), "loc of Gaussian units has shape (2,)"),
        ("sign", "The 'visible' parameter of RBM must be a str among"),
        (3, "The 'visible' parameter of RBM must be"),
    ],
    ids=str,
)
def test_wrong_columns_are_refused(visible, message):
    X = np.sign(generator(662).normal(size=(20, 3)))
    with pytest.raises(ValueError, match=re.escape(message)):
        RBM(2, visible=visible).fit(X)


@pytest.mark.parametrize("estimator", [RBM, DBNTransformer, DBMTransformer, RBMImputer])
def test_every_estimator_refuses_an_unknown_name_alike(estimator):
    message = f"The 'visible' parameter of {estimator.__name__} must be a str among"
    with pytest.raises(ValueError, match=message):
        estimator(2, visible="sign").fit(np.ones((20, 3)))


def test_names_that_are_not_there_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table(), columns=NAMES)
    with pytest.raises(ValueError, match=r"there are no columns \['zwei'\]"):
        mixed_rbm([(["zwei"], "spin")]).fit(frame)
    left_out = re.escape(f"also columns {NAMES[1:]}")
    with pytest.raises(ValueError, match=left_out):
        mixed_rbm([(NAMES[:1], "spin")]).fit(frame)
    with pytest.raises(ValueError, match=left_out):
        MultimodalDBM([("one", NAMES[:1], "spin", 2)], 2).fit(frame)


@pytest.mark.parametrize("value", [-1.0, 0.5, np.inf])
def test_first_codes_that_are_none_are_refused(value):
    X = table()
    X[7, 1] = value
    with pytest.raises(ValueError, match="Column 1 must hold codes .*OrdinalEncoder"):
        mixed_rbm().fit(X)


@pytest.mark.parametrize(
    "value, message",
    [
        (0.5, "Column 1 must hold codes 0, 1, ... of categories"),
        (-1, "Column 1 must hold codes 0, 1, ... of categories"),
        (3, "Column 1 holds the code 3, but its codes in fit were at most 2"),
    ],
)
def test_codes_that_are_none_are_refused(value, message):
    X = table()
    model = mixed_rbm(n_iter=1).fit(X)
    wrong, conditions = X.copy(), np.full(7, np.nan)
    wrong[7, 1] = conditions[1] = value
    mask = np.arange(7) == 3
    for call in [
        *(getattr(model, m) for m in ("transform", "score_samples", "gibbs")),
        model.partial_fit,
        lambda X: model.impute(X, mask=mask),
        lambda X: model.sample(init=X),
        lambda _: model.sample(3, conditions=conditions),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            call(wrong)
    for width in (6, 8):
        with pytest.raises(
            ValueError, match=f"has {width} columns, but the model has 7"
        ):
            model.sample(3, conditions=np.zeros(width))


@pytest.mark.parametrize(
    "visible, X, message",
    [
        ("spin", [[0.0, 2.0], [1.0, -1.0]], "spin units stand for values in [-1, 1]"),
        (
            "poisson",
            [[0.0, -2.0], [1.0, 5.0]],
            "poisson units stand for values in [0, inf",
        ),
        (
            "spin",
            np.array([[True, False], [False, True]]),
            "and 0 is half-way, but columns 0 to 1 range over 0 and 1; change bits",
        ),
        ("relu", [[0.0, -2.0], [1.0, 5.0]], "relu units stand for values in [0, inf]"),
        (
            Categorical(2),
            [[0.0, 3.0], [1.0, 0]],
            "categorical units stand for values in",
        ),
        (
            [([0], "gaussian"), ([1], "bernoulli")],
            [[5.0, 0.0], [1.0, 7.0]],
            "values in [0, 1] but column 1 ranges over [0, 7]",
        ),
        (
            [([0], "gaussian"), ([1, 2], "poisson")],
            [[0.5, 3.0, 1.0], [1.0, 7.0, 2.5]],
            "columns 1 to 2 range over numbers that are not whole, too, such as 2.5",
        ),
    ],
)
def test_values_that_units_cannot_mean_have_a_warning(visible, X, message):
    with pytest.warns(UserWarning, match=re.escape(message)) as found:
        RBM(2, visible=visible, n_iter=1, learning_rate=1e-3).fit(np.array(X))
    # (A hidden unit that happens to be dead has another.)
    (warning,) = (each for each in found if "stand for" in str(each.message))
    assert warning.filename == __file__


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_array])
def test_values_of_long_tables_are_all_looked_at(container):
    # They are looked at a piece at a time, and messages tell rows and ranges of all.
    visible = [([0, 1, 2], Categorical(3)), ([3], "spin"), ([4], "categorical")]
    X = np.zeros((9000, 5))
    X[:, 1] = X[:, 3] = X[:, 4] = 1
    columns = Columns(visible, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        columns.check(RBM(), container(X))
    X[8000, 1], X[10, 3], X[8500, 3] = 0, -7, 5
    with pytest.warns(UserWarning) as found:
        columns.check(RBM(), container(X))
    messages = [str(each.message) for each in found]
    assert "Columns 0 to 2 sum to 0 in row 8000" in messages[0]
    assert "column 3 ranges over [-7, 5]" in messages[1]
    # Sparse tables store no zeros, and these belong to the range.
    X[8000, 1], X[:, 3] = 1, np.where(np.arange(9000) < 100, 0, 5)
    with pytest.warns(UserWarning, match=r"column 3 ranges over \[0, 5\]"):
        columns.check(RBM(), container(X))
    X[8000, 4] = 9
    with pytest.raises(ValueError, match="Column 4 holds the code 9"):
        columns.check(RBM(), container(X), quiet=True)
    X[8500, 4] = 0.5
    with pytest.raises(ValueError, match="Column 4 must hold codes"):
        columns.check(RBM(), container(X), quiet=True)


@pytest.mark.parametrize("visible, low", [("spin", -1.0), ("relu", 0.0)])
def test_rounding_has_no_warning(visible, low):
    X = np.array([[low - 1e-7, 1.0], [1.0 + 1e-7, low]])
    columns = Columns(visible, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        columns.check(RBM(visible=visible), X)
    with pytest.warns(UserWarning, match=f"{visible} units"):
        columns.check(RBM(visible=visible), X - 1e-5)


@pytest.mark.parametrize(
    "hidden, message",
    [
        ("gaussian", "poisson visible and gaussian hidden units have no joint"),
        ("poisson", "poisson hidden units have no joint distribution"),
        (Categorical(3), "4 columns are no blocks of 3"),
        (Mixed(((1, Spin()), (2, Spin()))), "Mixed units of 3 columns do not make 4"),
        ("categorical", "The 'hidden' parameter of RBM must be"),
    ],
    ids=str,
)
def test_wrong_hidden_units_are_refused(hidden, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        mixed_rbm(hidden=hidden).fit(table())


@pytest.mark.parametrize(
    "columns",
    [["b", "c"], ("b", "c"), np.array(["b", "c"]), np.array(["b", "c"], object)],
)
def test_names_of_columns_in_any_container(columns):
    assert list(column_indices(columns, 4, list("abcd"))) == [1, 2]


def test_names_of_columns_of_pandas_and_slices_of_names():
    pd = pytest.importorskip("pandas")
    names = pd.Index(list("abcd"))
    assert list(column_indices(names[1:3], 4, names)) == [1, 2]
    assert list(column_indices(slice("b", "c"), 4, names)) == [1, 2]
    assert list(column_indices(slice("c", None), 4, names)) == [2, 3]
    assert list(column_indices(slice(None, "b"), 4, names)) == [0, 1]
    assert list(column_indices([], 4, names)) == []
    assert list(column_indices(np.array([True, False, True, False]), 4)) == [0, 2]
    with pytest.raises(ValueError, match="there are no columns"):
        column_indices(slice("b", "x"), 4, names)


def test_a_block_of_categories_is_missing_as_a_whole():
    rng, nan = generator(668), np.nan
    X = np.column_stack([rng.normal(size=20), np.eye(3)[rng.integers(0, 3, 20)]])
    holes, part = X.copy(), X.copy()
    holes[4, 1:], part[4, 2] = nan, nan
    visible = [([0], "gaussian"), ([1, 2, 3], Categorical(3))]
    options = {"visible": visible, "n_iter": 1, "random_state": 0}
    model = RBM(2, missing="latent", **options).fit(holes)
    assert (model.sample(9, 1, conditions=[nan, 0, 1, 0])[:, 1:] == [0, 1, 0]).all()
    deep = DBMTransformer((2, 2), pretrain_n_iter=1, **options).fit(X)
    mask = np.isnan(part)
    message = "some of the columns 1 to 3 in row 4 and none for others"
    for call in [
        lambda: model.fit(part),
        lambda: model.transform(part),
        lambda: model.impute(part),
        lambda: model.impute(X, mask=mask),
        lambda: impute(model, X, mask),
        lambda: deep.impute(part),
        lambda: RBMImputer(2, **options).fit(part),
        lambda: RBMImputer(2, **options).fit(X).transform(part),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match="X has 3 columns, but"):
        impute(model, X[:, :3], mask[:, :3])
    for conditions in (
        [nan, 0, nan, nan],
        [nan, 1, nan, 0],
        [1, 1, 1, 0],
        [1, 0, 0, 0],
    ):
        for call in (model.sample, deep.sample):
            with pytest.raises(ValueError, match="conditions (has|of categorical)"):
                call(2, 1, conditions=conditions)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "estimator",
    [
        RBM(2, visible=Categorical(3), n_iter=1),
        DBNTransformer((2, 2), visible=Categorical(3), n_iter=1),
        DBMTransformer((2, 2), visible=Categorical(3), n_iter=1, pretrain_n_iter=1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_blocks_that_are_no_category_are_warned_of(estimator, container):
    # Of a category that was unknown an encoder may make zeros, which are no state of
    # the model, but scored as the likeliest of all.
    codes = generator(670).integers(0, 3, (30, 2))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(codes)
    X, odd = encoder.transform(codes), encoder.transform([[0, 1], [2, 7]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        # (After one epoch, deep machines say little.)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = estimator.set_params(random_state=0).fit(container(X))
        model.transform(container(X))
        model.transform(container(np.round(np.full((2, 6), 1 / 3), 2)))
    message = "Columns 3 to 5 sum to 0 in row 1, but they are one block"
    with pytest.warns(UserWarning, match=message):
        model.transform(container(odd))
    with pytest.warns(UserWarning, match="Columns 0 to 2 sum to 0 in row 0"):
        estimator.fit(container(np.zeros_like(X)))
    with pytest.warns(UserWarning, match="Columns 0 to 2 sum to 2 in row 4"):
        X[4, :3] = [1, 0, 1]
        estimator.fit(container(X))


def test_a_missing_block_is_no_odd_one():
    X = np.eye(3)[generator(671).integers(0, 3, 30)]
    X[4] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "The hidden layer")  # after one epoch
        model = RBM(2, visible=Categorical(3), n_iter=1, missing="latent").fit(X)
        model.transform(X)
        model.impute(X)


@pytest.mark.parametrize("number", [2.0**16, 1e300])
def test_large_numbers_are_no_codes(number):
    # A column each of as many codes as a time or an identifier would have does not fit
    # into memory.
    X = np.array([[0.0], [number]])
    for model in (RBM(2, visible="categorical"), RBMImputer(2, visible="categorical")):
        with pytest.raises(ValueError, match="Column 0 holds .*OrdinalEncoder makes"):
            model.fit(X)


def test_codes_of_all_columns_are_not_too_many():
    X = np.tile([[0.0], [2.0**14]], 4)
    with pytest.raises(ValueError, match="65540 categories together"):
        RBM(2, visible="categorical").fit(X)
