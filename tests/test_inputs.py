"""Every kind of input gives the same results, row by row, and is not copied.

Sparse matrices in all their forms, memory layouts, and rows that do not depend
on the rows beside them. Dtypes are in test_contract.py, inputs that are refused
in test_bad_inputs.py.
"""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

from common import (
    BRIEF_ESTIMATORS,
    LARGE_ESTIMATORS,
    assert_agree,
    assert_same,
    assert_same_model,
    draws,
    every_bernoulli_rbm,
    every_estimator,
    fit,
    fitted,
    fitted_state,
    go_on,
    large_data,
    name_of,
    outputs,
    traced_memory,
)
from sklearn_ebm import (
    RBM,
    BernoulliRBM,
    DBMClassifier,
    DBMTransformer,
    DBNClassifier,
    DBNRegressor,
    _validation,
)
from sklearn_ebm._products import goes_by_lists

# ---- Sparse matrices ----


def _unsorted(X):
    X = X.copy()
    for start, stop in zip(X.indptr[:-1], X.indptr[1:]):
        X.indices[start:stop] = X.indices[start:stop][::-1].copy()
        X.data[start:stop] = X.data[start:stop][::-1].copy()
    return type(X)((X.data, X.indices, X.indptr), shape=X.shape)


def _duplicates(X):
    """Every entry as a sum of two; the halves of floats are exact."""
    halves = X.data / 2 if X.dtype.kind == "f" else X.data
    rest = halves if X.dtype.kind == "f" else np.zeros_like(X.data)
    data = np.stack([halves, rest], axis=1).ravel().astype(X.dtype)
    return type(X)((data, np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)


def _explicit_zeros(X):
    """All entries stored, zeros too."""
    n_rows, n_columns = X.shape
    return type(X)(
        (
            X.toarray().ravel(),
            np.tile(np.arange(n_columns, dtype=X.indices.dtype), n_rows),
            np.arange(n_rows + 1, dtype=X.indptr.dtype) * n_columns,
        ),
        shape=X.shape,
    )


def _long_indices(X):
    X = X.copy()
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


CSR_FORMS = {
    "canonical": lambda X: X,
    "int64": _long_indices,
    "unsorted": _unsorted,
    "int64 unsorted": lambda X: _unsorted(_long_indices(X)),
    "duplicates": _duplicates,
    "explicit zeros": _explicit_zeros,
    "all at once": lambda X: _unsorted(_duplicates(_explicit_zeros(_long_indices(X)))),
}


@pytest.mark.thinned(5)
@every_bernoulli_rbm
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, np.uint8])
@pytest.mark.parametrize("form", CSR_FORMS)
def test_csr_gives_the_model_of_the_dense_array(
    estimator, container, dtype, form, digits
):
    dense = digits[:75]
    dense = dense.astype(dtype) if np.dtype(dtype).kind == "f" else dense > 0.5
    dense = dense.astype(dtype)
    X = CSR_FORMS[form](container(dense))
    np.testing.assert_array_equal(X.toarray(), dense)
    parts = X.data.copy(), X.indices.copy(), X.indptr.copy()
    model, wanted = fit(clone(estimator), X), fit(clone(estimator), dense)
    assert_same_model(model, wanted)
    assert_same(outputs(model, X), outputs(wanted, dense))
    assert_same_model(model.partial_fit(X), wanted.partial_fit(dense))
    assert_same(model.gibbs(X), wanted.gibbs(dense))
    # The user's matrix is as it was.
    assert_same((X.data, X.indices, X.indptr), parts)


@every_bernoulli_rbm
@pytest.mark.parametrize("format", ["csc", "coo", "lil", "dok"])
def test_other_sparse_formats_are_converted(estimator, format, digits):
    X = sp.csr_array(digits[:75]).asformat(format)
    assert_same_model(fit(clone(estimator), X), fit(clone(estimator), digits[:75]))


@every_bernoulli_rbm
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_rows_and_columns_of_zeros(estimator, container):
    X = np.zeros((20, 7), dtype=np.float32)
    X[::2, 3] = 1
    model = fit(clone(estimator), container(X))
    assert all(np.isfinite(array).all() for array in outputs(model, X).values())
    assert_same_model(model, fit(clone(estimator), X))
    assert_same(outputs(model, container(X)), outputs(model, X))


# ---- Layouts ----


def _strided(X, folder):
    room = np.full((2 * X.shape[0], 3 * X.shape[1]), 7, dtype=X.dtype)
    room[::2, 1::3] = X
    return room[::2, 1::3]


def _unaligned(X, folder):
    room = np.empty(X.nbytes + 1, dtype=np.uint8)
    view = room[1:].view(X.dtype).reshape(X.shape)
    view[...] = X
    return view


def _read_only(X, folder):
    X = X.copy()
    X.setflags(write=False)
    return X


def _memory_mapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


LAYOUTS = {
    "fortran": lambda X, folder: np.asfortranarray(X),
    "strided": _strided,
    "reversed": lambda X, folder: X[::-1, ::-1].copy()[::-1, ::-1],
    "some columns": lambda X, folder: np.hstack([X, X])[:, : X.shape[1]],
    "unaligned": _unaligned,
    "big-endian": lambda X, folder: X.astype(X.dtype.newbyteorder(">")),
    "read-only": _read_only,
    "memory-mapped": _memory_mapped,
}


@every_bernoulli_rbm
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, np.uint8])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_does_not_matter(estimator, dtype, layout, digits, tmp_path):
    plain = digits[:75] if np.dtype(dtype).kind == "f" else digits[:75] > 0.5
    plain = plain.astype(dtype)
    X = LAYOUTS[layout](plain, tmp_path)
    if layout == "big-endian" and dtype == np.float32:
        plain = plain.astype(np.float64)  # not a type the kernels know
    model, wanted = fit(clone(estimator), X), fit(clone(estimator), plain)
    assert_same_model(model, wanted)
    assert_same(outputs(model, X), outputs(wanted, plain))
    assert_same_model(model.partial_fit(X), wanted.partial_fit(plain))


@every_bernoulli_rbm
@pytest.mark.parametrize("layout", ["fortran", "strided"])
def test_data_too_large_to_copy_are_read_where_they_are(
    estimator, layout, digits, tmp_path, monkeypatch
):
    X = LAYOUTS[layout](digits[:75], tmp_path)
    wanted = fit(clone(estimator), X)
    monkeypatch.setattr(_validation, "MOST_COPIED", X.nbytes - 1)
    model = fit(clone(estimator), X)
    assert_same_model(model, wanted)
    assert_same(outputs(model, X), outputs(wanted, X))


def test_data_are_copied_if_they_lie_by_columns_and_are_not_large(monkeypatch):
    by_columns = np.zeros((9, 5), order="F")
    for X in (by_columns, by_columns.T[:, ::2]):
        together = _validation._with_rows_together(X)
        assert together.flags.c_contiguous and not np.shares_memory(together, X)
    for X in (by_columns.T, by_columns[:, :1], by_columns.T[:, 1:]):
        assert _validation._with_rows_together(X) is X
    monkeypatch.setattr(_validation, "MOST_COPIED", by_columns.nbytes - 1)
    assert _validation._with_rows_together(by_columns) is by_columns


@pytest.mark.thinned(3)
@every_estimator
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_read_only_and_mapped_data(estimator, dtype, digits, tmp_path):
    def states(X):
        model = fit(clone(estimator), X)
        yield fitted_state(model)
        yield outputs(model, X)
        yield fitted_state(go_on(model, X))

    plain = digits[:100].astype(dtype)
    wanted = list(states(plain))
    for layout in ("read-only", "memory-mapped"):
        assert_same(list(states(LAYOUTS[layout](plain, tmp_path))), wanted, layout)


@every_bernoulli_rbm
def test_read_only_csr(estimator, digits):
    X = sp.csr_array(digits[:75])
    for array in (X.data, X.indices, X.indptr):
        array.setflags(write=False)
    model = fit(clone(estimator), X)
    assert_same_model(model, fit(clone(estimator), digits[:75]))
    assert_same(outputs(model, X), outputs(model, digits[:75]))


@every_estimator
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_data_is_never_changed(estimator, container, digits):
    if container is sp.csr_array and not get_tags(estimator).input_tags.sparse:
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            fit(clone(estimator), container(digits[:75]))
        return
    X = container(digits[:75])
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    before = copy.deepcopy(arrays)
    model = go_on(fit(clone(estimator), X), X)
    outputs(model, X)
    draws(model, X)
    assert_same(arrays, before)


@pytest.mark.parametrize("estimator", [LARGE_ESTIMATORS[0]], ids=name_of)
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_no_dense_copy_of_the_data(estimator, container):
    rng = np.random.default_rng(0)
    dense = (rng.random((20_000, 784)) < 0.1).astype(np.uint8)
    X = container(dense)
    if sp.issparse(X):
        size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    else:
        size = X.nbytes
    model = clone(estimator).set_params(n_components=8)
    with traced_memory() as memory:
        model.fit(X).partial_fit(X)
        model.score_samples(X)
    # Besides the data, which were there before: 30 % of their size, and what a
    # model of 8 x 784 needs.
    assert memory.peak < 0.3 * size + 1e6


@pytest.mark.parametrize(
    "estimator, method",
    [
        (DBNClassifier((8,), n_iter=1, pretrain_n_iter=1), "predict_proba"),
        (DBNClassifier((8, 8), n_iter=1, pretrain_n_iter=1), "transform"),
        (DBNRegressor((8,), n_iter=1, pretrain_n_iter=1), "predict"),
        (RBM(8, visible="poisson", n_iter=1), "transform"),
        (RBM(8, hidden="spin", n_iter=1), "transform"),
        (DBMTransformer((8, 8), n_iter=1, pretrain_n_iter=1), "transform"),
        (
            DBMClassifier(
                (8, 8), n_iter=1, pretrain_n_iter=1, pretrain_greedy_n_iter=1
            ),
            "predict_proba",
        ),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_wide_sparse_data_are_used_without_a_dense_copy(estimator, method, dtype):
    X = sp.random_array((1500, 5000), density=2e-3, rng=0, format="csr")
    X = (X > 0).astype(dtype)
    model = clone(estimator).set_params(random_state=0)
    use = getattr(model.fit(X[:50], np.arange(50) % 2), method)
    with threadpool_limits(limits=1), traced_memory() as memory:
        found = use(X)
    assert_same(found, use(X.toarray()))
    # (On each thread mean field has room for lists of 128 rows. Where BLAS makes
    # products, some of the rows at a time are dense.)
    most = 7e6 if "DBM" in name_of(estimator) else 2e6
    assert memory.peak < most or not goes_by_lists(X)


# ---- Rows by themselves ----


SUBSETS = {
    "one row": slice(5, 6),
    "last row": slice(-1, None),
    "first rows": slice(0, 37),
    "every seventh": slice(None, None, 7),
    "backwards": slice(None, None, -1),
    "binary rows": slice(0, 200),
    "real rows": slice(200, 400),
    "sparse rows": slice(400, 500),
    "dense rows": slice(500, 600),
}


def _mixed_rows(digits, dtype):
    """Binary, real-valued, nearly empty and nearly full rows."""
    rng = np.random.default_rng(0)
    return np.vstack(
        [
            digits[:200] > 0.5,
            digits[200:400],
            rng.random((100, 64)) < 0.02,
            rng.random((100, 64)) < 0.98,
        ]
    ).astype(dtype)


@every_bernoulli_rbm
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("subset", SUBSETS)
def test_rows_are_independent(estimator, dtype, subset, digits):
    X = _mixed_rows(digits, dtype)
    rows = SUBSETS[subset]
    # 37 components: not a whole number of vectors.
    model = clone(estimator).set_params(n_components=37).fit(X)
    of_all = {name: result[rows] for name, result in outputs(model, X).items()}
    assert_same(outputs(model, X[rows]), of_all)
    assert_same(outputs(model, sp.csr_array(X[rows])), of_all)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_numbers_in_wide_sparse_rows(dtype):
    """Of which only the weights that are needed are packed."""
    rng = np.random.default_rng(0)
    X = (rng.random((40, 900)) * (rng.random((40, 900)) < 0.02)).astype(dtype)
    X[3] = 0
    model = BernoulliRBM(20, n_iter=1, random_state=0).fit(X)
    wanted = model.transform(X)
    for rows in (slice(0, 1), slice(3, 5), slice(0, 12)):
        assert 0 < np.count_nonzero(X[rows]) <= 225
        few = sp.csr_array(X[rows])
        assert_same(model.transform(few), wanted[rows])
        assert_same(model.transform(_unsorted(few)), wanted[rows])
    assert_same(model.transform(sp.csr_array(X[3:4])), wanted[3:4])
    few = sp.csr_array(X[:1])
    few.data[0] = 2
    with pytest.warns(UserWarning, match=r"values in \[0, 1\]"):
        model.transform(few)
    few.data[0] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        model.transform(few)


@pytest.mark.parametrize("estimator", [LARGE_ESTIMATORS[0]], ids=name_of)
def test_rows_are_independent_in_a_large_model(estimator):
    X = large_data()["float32 binary"]
    model = fit(clone(estimator), X)
    wanted = outputs(model, X)
    for rows in (slice(0, 1), slice(100, 131), slice(None, None, 3)):
        of_all = {name: result[rows] for name, result in wanted.items()}
        assert_same(outputs(model, X[rows]), of_all)


@every_estimator
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_do_not_depend_on_the_rows_beside_them(estimator, dtype, digits):
    X = digits[:150].astype(dtype)
    model = fit(clone(estimator), X[:100])
    wanted = outputs(model, X)
    for rows in (slice(5, 6), slice(0, 37), slice(None, None, -7)):
        of_all = {name: result[rows] for name, result in wanted.items()}
        assert_agree(outputs(model, X[rows]), of_all)


@pytest.mark.parametrize(
    "estimator",
    [each for each in BRIEF_ESTIMATORS if hasattr(each, "score_samples")],
    ids=name_of,
)
def test_score_is_the_mean_of_score_samples(estimator, digits):
    model = fitted(estimator)
    score = model.score(digits, np.zeros(len(digits)))
    assert type(score) is float
    assert score == pytest.approx(model.score_samples(digits).mean(), rel=1e-12)


@every_estimator
def test_reading_changes_nothing(estimator, digits):
    model = fitted(estimator)
    before = copy.deepcopy(model)
    first = outputs(model, digits[:300])
    assert_same(outputs(model, digits[:300]), first)
    assert_same_model(model, before)
