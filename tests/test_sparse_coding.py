"""Sparse coding: codes against KKT conditions, closed forms and scikit-learn's
solvers; learning against a plain twin and simulated dictionaries.
"""

import copy
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, orthogonal_mp
from threadpoolctl import threadpool_limits

from common import (
    assert_same,
    assert_same_model,
    run_on_instruction_sets,
    soon_interrupted,
    traced_memory,
)
from sklearn_ebm import SparseCoding
from sklearn_ebm._simd import instruction_set
from sklearn_ebm._sparse_codes import Matrix, add_moments, update_atoms
from sklearn_ebm.factors import _dictionary

floats = pytest.mark.parametrize("dtype", [np.float32, np.float64])
# All minibatches' kinds: several, all rows at once.
batches = pytest.mark.parametrize("batch_size", [64, None])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def coder(atoms, X, **parameters):
    """A model with these atoms."""
    parameters = {"transform_tol": 1e-13, **parameters}
    model = SparseCoding(
        len(atoms), dict_init=np.asarray(atoms), max_iter=0, **parameters
    )
    return model.fit(X)


def mean_objective(X, codes, atoms, alpha, beta):
    errors = np.asarray(X, float) - codes.astype(float) @ atoms.astype(float)
    return (beta * (errors**2).sum() + alpha * np.abs(codes).sum()) / len(X)


@pytest.fixture(scope="module")
def patches(digits):
    """Centred digits, and atoms made of them: coherent, four times as many."""
    X = digits - digits.mean(axis=0)
    X = X[:, X.std(axis=0) > 0]
    rng = np.random.default_rng(0)
    atoms = X[rng.permutation(len(X))[:240]]
    return X[:400].copy(), unit(atoms)


# ---- Codes ----


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(
    "alpha, beta", [(0.05, 0.5), (0.3, 0.5), (0.3, 2.0), (100.0, 0.5)]
)
def test_codes_keep_the_kkt_conditions(alpha, beta, positive, patches):
    X, atoms = patches
    model = coder(atoms, X, alpha=alpha, beta=beta, positive_code=positive)
    codes = model.transform(X)
    slope = 2 * beta * (X - codes @ model.components_) @ model.components_.T
    used = codes != 0
    np.testing.assert_allclose(slope[used], alpha * np.sign(codes[used]), atol=1e-6)
    assert (slope if positive else np.abs(slope)).max() <= alpha + 1e-6
    assert used.any() == (alpha < 100)  # no atom is worth that much
    assert (codes >= 0).all() == (positive or not used.any())


def test_orthonormal_atoms_give_soft_thresholding():
    rng = np.random.default_rng(0)
    atoms = np.linalg.qr(rng.standard_normal((20, 20)))[0][:12]
    X = rng.standard_normal((50, 20))
    alpha, beta = 0.7, 1.3
    z = X @ atoms.T
    for positive in (False, True):
        model = coder(atoms, X, alpha=alpha, beta=beta, positive_code=positive)
        kept = np.maximum((z if positive else np.abs(z)) - alpha / (2 * beta), 0)
        np.testing.assert_allclose(
            model.transform(X), np.sign(z) * kept, rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("positive", [False, True])
def test_codes_are_those_of_lasso(positive):
    rng = np.random.default_rng(1)
    atoms = unit(rng.standard_normal((30, 40)))  # few enough: one minimum
    X = rng.standard_normal((20, 40))
    alpha, beta = 0.4, 0.8
    model = coder(atoms, X, alpha=alpha, beta=beta, positive_code=positive)
    lasso = Lasso(
        alpha / (2 * beta) / 40,
        fit_intercept=False,
        tol=1e-14,
        max_iter=100_000,
        positive=positive,
    ).fit(atoms.T, X.T)
    np.testing.assert_allclose(model.transform(X), lasso.coef_, atol=1e-7)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6, 1e-10])
def test_tol_is_that_of_lasso(tol, patches):
    """The duality gap, as scikit-learn has it, is at most tol |x|^2."""
    X, atoms = patches
    alpha = 0.1
    codes = coder(atoms, X, alpha=alpha, transform_tol=tol).transform(X)
    residual = X - codes @ atoms
    scale = np.minimum(1, alpha / np.abs(residual @ atoms.T).max(axis=1))
    primal = (residual**2).sum(axis=1) / 2 + alpha * np.abs(codes).sum(axis=1)
    dual = (X**2).sum(axis=1) / 2 - ((X - scale[:, None] * residual) ** 2).sum(
        axis=1
    ) / 2
    gap = (primal - dual) / (X**2).sum(axis=1)
    assert gap.max() <= tol + 1e-14
    assert tol < 1e-3 or gap.max() > tol / 1e3  # nor is more done than asked for


def test_atoms_that_are_nearly_parallel():
    """Few sweeps are enough where plain coordinate descent takes thousands."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(100, 1, size=(50, 2))
        model = coder(unit(X[:5]), X, alpha=1.0, transform_tol=1e-8)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            codes = model.transform(X)
        slope = (X - codes @ model.components_) @ model.components_.T
        gap = (np.abs(codes) - codes * slope).sum(axis=1)
        assert gap.max() < 1e-3 and np.abs(slope).max() < 1 + 1e-4


def test_atoms_that_are_equal_or_opposite(patches):
    X, atoms = patches
    twice = np.vstack([atoms[:40], atoms[:40], -atoms[:40]])
    once = coder(atoms[:40], X, alpha=0.1)
    model = coder(twice, X, alpha=0.1)
    np.testing.assert_allclose(model.objective(X), once.objective(X), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-100, 1e-3, 1e100])
def test_codes_scale_with_the_data(scale, patches):
    X, atoms = patches
    wanted = coder(atoms, X, alpha=0.3).transform(X)
    found = coder(atoms, scale * X, alpha=0.3 * scale).transform(scale * X)
    np.testing.assert_allclose(found / scale, wanted, atol=1e-6)


@floats
@pytest.mark.parametrize("algorithm", ["lasso_cd", "omp"])
def test_a_code_does_not_depend_on_other_rows(algorithm, dtype, patches):
    X, atoms = (array[:120].astype(dtype) for array in patches)
    model = coder(atoms, X, alpha=0.1, transform_tol=1e-8, algorithm=algorithm)
    codes, objective = model.transform(X), model.objective(X)
    assert codes.dtype == dtype and objective.dtype == np.float64
    for part in (slice(3, 4), slice(5, 90), slice(None, None, -1)):
        assert_same(model.transform(X[part]), np.ascontiguousarray(codes[part]))
        assert_same(model.objective(X[part]), np.ascontiguousarray(objective[part]))


def test_float32_codes_are_those_of_float64(patches):
    X, atoms = patches
    wanted = coder(atoms, X, alpha=0.2).objective(X)
    model = coder(atoms.astype(np.float32), X.astype(np.float32), alpha=0.2)
    np.testing.assert_allclose(model.objective(X.astype(np.float32)), wanted, rtol=1e-5)


def test_rows_of_zeros_have_codes_of_zeros(patches):
    X, atoms = patches
    X = X.copy()
    X[::3] = 0
    for algorithm in ("lasso_cd", "omp"):
        codes = coder(atoms, X, alpha=0.1, algorithm=algorithm).transform(X)
        assert not codes[::3].any() and codes[1::3].any(axis=1).all()


def test_as_exact_as_rounding_allows(patches):
    """A tolerance of zero ends all the same, without a warning."""
    X, atoms = patches
    model = coder(atoms, X, alpha=0.1, transform_tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        codes = model.transform(X)
    slope = (X - codes @ model.components_) @ model.components_.T
    assert np.abs(slope).max() <= 0.1 + 1e-12


def test_too_few_sweeps_are_reported(patches):
    X, atoms = patches
    model = coder(atoms, X, alpha=0.01, transform_max_iter=1)
    message = r"codes of \d+ of 400 rows .* increase transform_max_iter=1 or"
    with pytest.warns(ConvergenceWarning, match=message):
        model.transform(X)


@pytest.mark.parametrize("n_nonzero", [1, 5, None])
def test_omp_is_that_of_scikit_learn(n_nonzero, patches):
    X, atoms = patches
    X = X[:100] + 0.01  # no row is an atom
    model = coder(atoms, X, algorithm="omp", n_nonzero_coefs=n_nonzero)
    codes = model.transform(X)
    most = n_nonzero or X.shape[1] // 10
    assert ((codes != 0).sum(axis=1) <= most).all()
    wanted = orthogonal_mp(model.components_.T, X.T, n_nonzero_coefs=most).T
    np.testing.assert_allclose(codes, wanted, atol=1e-8)


@pytest.mark.parametrize("n_components", [1, 9, None])
def test_omp_counts_the_atoms_there_are(n_components, patches):
    X, atoms = patches
    X = X[:100] + 0.01  # no row is an atom
    model = coder(atoms[:2], X, algorithm="omp", n_nonzero_coefs=2)
    codes = model.transform(X)
    assert codes.any(axis=0).all()
    # (What is said of atoms after the fit is for the next one.)
    model.set_params(n_components=n_components, n_nonzero_coefs=3)
    assert_same(model.transform(X), codes)


# ---- Objective, reconstruction ----


@pytest.mark.slow
def test_objective_and_score(patches):
    X, atoms = patches
    for algorithm, penalty in (("lasso_cd", 0.2), ("omp", 0.0)):
        model = coder(atoms, X, alpha=0.2, beta=0.7, algorithm=algorithm)
        codes = model.transform(X)
        wanted = mean_objective(X, codes, atoms, penalty, 0.7)
        assert model.objective(X).mean() == pytest.approx(wanted, rel=1e-12)
        assert model.score(X) == -model.objective(X).mean()


@floats
def test_inverse_transform(dtype, patches):
    X, atoms = (array.astype(dtype) for array in patches)
    model = coder(atoms, X, alpha=0.1, transform_tol=1e-8)
    codes = model.transform(X)
    found = model.inverse_transform(codes)
    np.testing.assert_allclose(found, codes @ model.components_, atol=1e-5)
    found_csr = model.inverse_transform(sp.csr_matrix(codes))
    assert found_csr.dtype == found.dtype == dtype
    np.testing.assert_allclose(found_csr, found, atol=1e-5)


# ---- Learning ----


@pytest.mark.thinned(4)
@pytest.mark.parametrize("positive_code", [False, True])
@pytest.mark.parametrize("positive_dict", [False, True])
@pytest.mark.parametrize("alpha, beta", [(0.1, 0.5), (0.3, 3.0)])
def test_alternating_never_raises_the_objective(
    positive_code, positive_dict, alpha, beta, patches
):
    X, _ = patches
    model = SparseCoding(
        100,
        alpha=alpha,
        beta=beta,
        batch_size=None,
        max_iter=15,
        tol=0,
        positive_code=positive_code,
        positive_dict=positive_dict,
        random_state=0,
    ).fit(X)
    objective = np.array(model.history_["objective"])
    assert len(objective) == 15
    assert (np.diff(objective) <= 1e-9 * objective[0]).all()
    assert objective[-1] < 0.95 * objective[0]
    assert -model.score(X) <= objective[-1] * (1 + 1e-9)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    codes = model.transform(X)
    assert (codes >= 0).all() == positive_code
    assert (model.components_ >= 0).all() == positive_dict


def moved(atoms, codes, X, positive):
    """The atoms after each has moved to its best place, the plain way."""
    atoms = atoms.copy()
    for k in np.flatnonzero(codes.any(axis=0)):
        others = np.delete(np.arange(len(atoms)), k)
        left = X - codes[:, others] @ atoms[others]
        best = codes[:, k] @ left
        best = np.maximum(best, 0) if positive else best
        if best.any():
            atoms[k] = best / np.linalg.norm(best)
    return atoms


@pytest.mark.parametrize("positive", [False, True])
def test_a_pass_over_all_rows_is_its_plain_twin(positive, patches):
    X, atoms = patches
    atoms = unit(np.abs(atoms)) if positive else atoms
    parameters = {"alpha": 0.2, "positive_dict": positive}
    codes = coder(atoms, X, **parameters).transform(X)
    model = SparseCoding(
        len(atoms),
        dict_init=atoms,
        max_iter=1,
        batch_size=None,
        transform_tol=1e-13,
        random_state=0,
        **parameters,
    ).fit(X)
    used = codes.any(axis=0)
    wanted = moved(atoms, codes, X, positive)
    np.testing.assert_allclose(model.components_[used], wanted[used], atol=1e-8)
    assert model.history_["objective"] == pytest.approx(
        [mean_objective(X, codes, atoms, 0.2, 0.5)]
    )
    assert model.history_["n_nonzero"] == [np.count_nonzero(codes) / len(X)]


@floats
def test_kernels_of_learning(dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 11)).astype(dtype)
    codes = (rng.standard_normal((30, 7)) * (rng.random((30, 7)) < 0.4)).astype(dtype)
    squares, products = rng.standard_normal((7, 7)), rng.standard_normal((7, 11))
    wanted = squares + codes.T.astype(float) @ codes
    wanted_products = products + codes.T.astype(float) @ X
    for n_threads in (1, 3):
        a, b = squares.copy(), products.copy()
        add_moments(codes, X, a, b, n_threads)
        np.testing.assert_allclose(a, wanted, rtol=1e-12)
        np.testing.assert_allclose(b, wanted_products, rtol=1e-12)
    atoms = unit(rng.standard_normal((7, 11)))
    moments = codes.T.astype(float) @ codes, codes.T.astype(float) @ X
    matrix = Matrix(atoms)
    for start, stop in ((0, 3), (3, 7)):
        update_atoms(matrix, *moments, False, start, stop)
    np.testing.assert_allclose(
        matrix.values, moved(atoms, codes.astype(float), X, False), atol=1e-12
    )
    with pytest.raises(ValueError, match="do not fit"):
        update_atoms(matrix, *moments, False, 0, 8)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("batch_size", [16, None])
@pytest.mark.parametrize("algorithm", ["lasso_cd", "omp"])
def test_partial_fit_lowers_the_objective_of_other_rows(batch_size, algorithm, digits):
    held_out = digits[1500:]
    model = SparseCoding(
        40, alpha=0.3, batch_size=batch_size, algorithm=algorithm, random_state=0
    )
    scores = []
    for start in range(0, 1500, 300):
        assert model.partial_fit(digits[start : start + 300]) is model
        scores.append(model.score(held_out))
    assert scores[0] < scores[2] < scores[4]
    assert model.n_iter_ == len(model.history_["objective"]) == 5


def test_partial_fit_goes_on_from_all_the_rows_before(patches):
    """Two parts at once are one part and then the other."""
    X, _ = patches
    settings = {"n_components": 30, "alpha": 0.2, "batch_size": 50, "random_state": 0}
    start = SparseCoding(**settings).partial_fit(X[:100])
    twin = copy.deepcopy(start)
    start.partial_fit(X[100:300])
    twin.partial_fit(X[100:200]).partial_fit(X[200:300])
    assert_same(twin.components_, start.components_)


def simulated(seed, n_atoms=16, n_features=16, n_samples=1000):
    """Rows made of two atoms each, with a little noise, and the atoms."""
    rng = np.random.default_rng(seed)
    atoms = unit(rng.standard_normal((n_atoms, n_features)))
    codes = np.zeros((n_samples, n_atoms))
    for row in codes:
        row[rng.choice(n_atoms, 2, replace=False)] = rng.choice([-1, 1], 2) * (
            1 + rng.random(2)
        )
    noise = 0.02 * rng.standard_normal((n_samples, n_features))
    return codes @ atoms + noise, atoms


@pytest.mark.thinned(3)
@batches
@pytest.mark.parametrize("seed", range(3))
def test_a_simulated_dictionary_is_recovered(seed, batch_size):
    """Up to order and signs. A few atoms may share a local minimum."""
    X, atoms = simulated(seed)
    model = SparseCoding(
        16, alpha=0.2, batch_size=batch_size, tol=1e-5, random_state=seed
    ).fit(X)
    cosines = np.abs(model.components_ @ atoms.T)
    assert (cosines.max(axis=0) > 0.98).sum() >= 12
    assert -model.score(X) < 1.3 * -coder(atoms, X, alpha=0.2).score(X)


@batches
def test_atoms_that_nothing_uses_are_replaced(batch_size):
    rng = np.random.default_rng(0)
    X = np.zeros((200, 10))
    X[:, :5] = rng.standard_normal((200, 5))
    atoms = np.eye(10)  # the last five are orthogonal to all rows
    model = SparseCoding(
        10, alpha=0.1, dict_init=atoms, max_iter=3, batch_size=batch_size, tol=0
    ).fit(X)
    assert np.abs(model.components_[:, :5]).max(axis=1).min() > 0
    assert not model.components_[:, 5:].any()
    assert model.transform(X).any(axis=0).all()


@batches
def test_data_that_say_nothing(batch_size):
    for X in (np.zeros((30, 4)), np.ones((1, 4)), np.ones((3, 1))):
        model = SparseCoding(6, batch_size=batch_size, random_state=0).fit(X)
        np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
        assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize("batch_size", [50, None])
def test_a_penalty_that_no_atom_is_worth(batch_size, patches):
    # No code is worth more than its row's length times that of an atom, which is 1.
    X, _ = patches
    alpha = 2.1 * np.linalg.norm(X, axis=1).max()
    model = SparseCoding(8, batch_size=batch_size, max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"No row uses .*: alpha={alpha:g}"):
        model.set_params(alpha=alpha).fit(X)
    assert not model.transform(X).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(alpha=alpha / 4).fit(X)
        model.set_params(alpha=alpha, max_iter=0).fit(X)
        model.set_params(max_iter=1).fit(0 * X)


def test_rows_that_are_atoms_are_coded_in_silence(patches):
    X, _ = patches
    model = SparseCoding(
        30, algorithm="omp", n_nonzero_coefs=3, max_iter=2, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X).partial_fit(X)
        again = SparseCoding(
            30, algorithm="omp", n_nonzero_coefs=3, max_iter=0, random_state=0
        )
        again.fit(X)
    # (Once, and of this line.)
    for use in (again.transform, again.objective, again.score):
        with pytest.warns(RuntimeWarning, match="prematurely for") as caught:
            use(X)
        assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize("batch_size, patience", [(50, 3), (None, 1)])
def test_fit_stops_when_the_objective_settles(batch_size, patience, patches):
    X, _ = patches
    settings = {"n_components": 50, "alpha": 0.2, "batch_size": batch_size}
    settings["random_state"] = 0
    model = SparseCoding(tol=1e-3, **settings).fit(X)
    objective = np.array(model.history_["objective"])
    gains = [
        1 - objective[n : n + patience].min() / objective[:n].min()
        for n in range(1, len(objective) + 1 - patience)
    ]
    assert min(gains[:-1]) > 9.9e-4 and gains[-1] < 1e-3
    assert SparseCoding(tol=0, max_iter=40, **settings).fit(X).n_iter_ == 40


@pytest.mark.parametrize(
    "algorithm, most, meant",
    [("lasso_cd", 400, None), ("lasso_cd", 399, 256), ("omp", 400, 256)],
)
def test_what_automatic_batches_are(algorithm, most, meant, patches, monkeypatch):
    monkeypatch.setattr("sklearn_ebm.factors.sparse_coding.MOST_AT_ONCE", most)
    X, _ = patches
    model, wanted = (
        SparseCoding(9, algorithm=algorithm, max_iter=3, random_state=0, **size)
        for size in ({}, {"batch_size": meant})
    )
    assert_same(model.fit(X).components_, wanted.fit(X).components_)
    wanted.set_params(batch_size=256).partial_fit(X)
    assert_same(model.partial_fit(X).components_, wanted.components_)


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_values_whose_squares_are_infinite_are_refused(container, patches):
    X, _ = patches
    model = SparseCoding(3, max_iter=2, random_state=0).fit(X)
    model.set_params(alpha=1e100).fit(container(X * 1e138))
    for method in (model.fit, model.partial_fit, model.transform, model.score):
        with pytest.raises(ValueError, match="values of size .* Scale X"):
            method(container(X * -1e160))


def test_codes_that_float32_cannot_hold_are_refused(patches):
    X = np.abs(patches[0]) / np.abs(patches[0]).max()
    model = SparseCoding(3, max_iter=2, alpha=1.0, random_state=0)
    large = (2e30 * X).astype(np.float32)
    fitted = clone(model).fit(X)
    for method in (model.fit, model.partial_fit, fitted.transform):
        with pytest.raises(ValueError, match="size 2e.30, .* or pass it as float64"):
            method(large)
    model.fit((9e29 * X).astype(np.float32))
    with pytest.raises(ValueError, match=r"size 1e\+100, .* numbers of float32"):
        model.partial_fit(1e100 * X)
    assert np.isfinite(model.transform((9e29 * X).astype(np.float32))).all()
    assert np.isfinite(
        model.fit(large.astype(float)).transform(large.astype(float))
    ).all()


def test_first_atoms_are_rows(patches):
    X, _ = patches
    model = SparseCoding(20, max_iter=0, random_state=0).fit(X)
    assert ((model.components_ @ unit(X).T).max(axis=1) > 1 - 1e-12).all()
    assert model.n_iter_ == 0 and model.history_["objective"] == []
    given = X[:20].copy()
    model = SparseCoding(20, max_iter=2, dict_init=given).fit(X)
    np.testing.assert_array_equal(given, X[:20])  # is left alone


def test_a_line_a_pass(patches, capsys):
    X, _ = patches
    settings = {"n_components": 9, "max_iter": 3, "tol": 0, "random_state": 0}
    model = SparseCoding(verbose=1, **settings).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:26] for line in lines] == [
        f"[SparseCoding] Iteration {n}" for n in (1, 2, 3)
    ]
    assert f"objective = {model.history_['objective'][0]:.6g}" in lines[0]
    assert_same_model(model, SparseCoding(verbose=0, **settings).fit(X))


# ---- Threads, instruction sets, interrupts ----


def results():
    """Hashes of what fits and transforms give, large enough for threads."""
    rng = np.random.default_rng(0)
    found = {}
    for dtype in (np.float32, np.float64):
        X = rng.standard_normal((500, 30)).astype(dtype)
        for batch_size in (256, None):
            model = SparseCoding(
                70, alpha=0.8, batch_size=batch_size, max_iter=2, random_state=0
            ).fit(X)
            codes = model.transform(X)
            arrays = (
                model.components_,
                codes,
                model.objective(X),
                model.inverse_transform(codes),
                model.partial_fit(X[:100]).components_,
            )
            found[f"{np.dtype(dtype)} {batch_size}"] = joblib.hash(arrays)
    return found


@pytest.fixture(scope="module")
def one_thread():
    with threadpool_limits(1):
        return results()


@pytest.mark.parametrize("n_threads", [2, 7])
def test_any_number_of_threads_gives_the_same_bits(n_threads, one_thread):
    with threadpool_limits(n_threads):
        assert results() == one_thread


def test_same_bits_on_instruction_sets_with_fused_multiplication(one_thread):
    if instruction_set() == "base":
        pytest.skip("this processor has none")
    code = "import test_sparse_coding as t; print(t.results())"
    (printed,) = run_on_instruction_sets(["avx2"], code)
    assert printed.strip() == str(one_thread)


@pytest.mark.parametrize(
    "shape, parameters",
    [
        ((20_000, 64), {"n_components": 256, "alpha": 0.1, "batch_size": None}),
        ((50, 8), {"n_components": 4, "max_iter": 10**8, "tol": 0}),
        ((2_000, 400), {"n_components": 900, "alpha": 0.5, "batch_size": 2_000}),
        ((20_000, 64), {"n_components": 256, "algorithm": "omp"}),
    ],
)
def test_an_interrupt_is_heard_and_leaves_a_usable_model(shape, parameters):
    X = np.random.default_rng(0).standard_normal(shape)
    model = soon_interrupted(
        lambda: SparseCoding(random_state=0, **parameters),
        lambda model: model.fit(X),
        seconds=0.4,
    )
    lengths = {len(entries) for entries in model.history_.values()}
    assert lengths == {model.n_iter_}
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    assert np.isfinite(model.transform(X[:5])).all()
    assert model.partial_fit(X[:20]).n_iter_ == lengths.pop() + 1


def test_atoms_may_be_given_as_lists():
    X, atoms = np.random.default_rng(0).normal(size=(20, 2)), [[1.0, 0], [0, 1.0]]
    model = SparseCoding(2, dict_init=atoms, max_iter=3, random_state=0).fit(X)
    wanted = SparseCoding(2, dict_init=np.array(atoms), max_iter=3, random_state=0).fit(
        X
    )
    assert_same(model.components_, wanted.components_)


@pytest.mark.parametrize("n_components", [6, None])
def test_going_on_keeps_the_number_of_atoms(n_components):
    X = np.random.default_rng(17).normal(size=(30, 8))
    model = SparseCoding(n_components, random_state=0, max_iter=1).fit(X)
    n_atoms = n_components or 8
    assert model.partial_fit(X).components_.shape == (n_atoms, 8)
    atoms = model.components_
    message = (
        "n_components=20 does not fit the model that training goes on from, which has "
        f"{n_atoms}."
    )
    with pytest.raises(ValueError, match=message):
        model.set_params(n_components=20).partial_fit(X)
    assert model.components_ is atoms
    # The other number of atoms is that of the next fit.
    assert model.transform(X).shape == (30, n_atoms)
    assert model.fit(X).components_.shape == (20, 8)


# ---- What is refused ----


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"alpha": 0}, "'alpha' parameter"),
        ({"beta": -1.0}, "'beta' parameter"),
        ({"algorithm": "lars"}, "'algorithm' parameter"),
        ({"batch_size": 0}, "'batch_size' parameter"),
        (
            {"positive_code": True, "algorithm": "omp"},
            "positive_code=True does not go with algorithm='omp'",
        ),
        (
            {"n_nonzero_coefs": 6, "algorithm": "omp"},
            "n_nonzero_coefs=6 is more than there are atoms, n_components=5",
        ),
        ({"dict_init": np.ones((5, 3))}, r"= \(5, 4\), got \(5, 3\)"),
        ({"dict_init": np.full((5, 4), np.nan)}, "dict_init contains NaN"),
        ({"dict_init": np.eye(5, 4)}, "dict_init has atoms of zeros"),
        (
            {"dict_init": -np.ones((5, 4)), "positive_dict": True},
            "dict_init has negative entries, but positive_dict=True",
        ),
    ],
)
def test_parameters_that_are_refused(parameters, message):
    X = np.random.default_rng(0).standard_normal((20, 4))
    model = SparseCoding(5, **parameters)
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=message):
            method(X)
        assert not hasattr(model, "n_features_in_")


def test_data_that_are_refused(patches):
    X, _ = patches
    model = SparseCoding(5, max_iter=1).fit(X)
    with pytest.raises(ValueError, match="X has 4 columns, but there are 5 atoms"):
        model.inverse_transform(np.ones((3, 4)))
    assert not hasattr(model, "score_samples")


# ---- Sparse data ----


def sparse_rows(n, n_features, density, dtype=np.float64):
    """Rows of which most values are zero, as CSR; some have none that is not."""
    rng = np.random.default_rng(0)
    n_values = int(density * n * n_features)
    where = rng.integers(n, size=n_values), rng.integers(n_features, size=n_values)
    values = rng.random(n_values).astype(dtype)
    return sp.csr_array((values, where), shape=(n, n_features))


@pytest.mark.parametrize("container", [sp.csr_array, sp.csc_matrix])
def test_bits_in_one_place_are_one(container):
    bits = np.random.default_rng(0).random((40, 6)) < 0.3
    X = container(bits)
    twice = np.repeat(X.data, 2), np.repeat(X.indices, 2), 2 * X.indptr
    X = container(twice, shape=X.shape)
    np.testing.assert_array_equal(X.toarray(), bits)
    once = sp.csr_array(bits)
    model, wanted = (
        SparseCoding(6, max_iter=2, random_state=0).fit(each) for each in (X, once)
    )
    assert_same(model.components_, wanted.components_)
    assert_same(model.transform(X), wanted.transform(once))
    found, decoded = model.inverse_transform(X), wanted.inverse_transform(once)
    np.testing.assert_allclose(found, decoded, atol=1e-12)
    # The user's matrix is as it was.
    assert X.nnz == 2 * bits.sum()


@pytest.mark.thinned(8)
@floats
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix, sp.coo_array])
@pytest.mark.parametrize(
    "parameters",
    [
        {"batch_size": 64},
        {"batch_size": None},
        {"batch_size": None, "positive_code": True, "positive_dict": True},
        {"algorithm": "omp", "n_nonzero_coefs": 3},
    ],
)
def test_sparse_data_give_what_dense_data_do(parameters, container, dtype, monkeypatch):
    # Fewer rows at a time than a piece of work has.
    monkeypatch.setattr(_dictionary, "DENSE_SIZE", 30 * 12)
    rows = sparse_rows(200, 30, 0.1, dtype)
    X, dense = container(rows), rows.toarray()
    assert not dense.any(axis=1).all()
    how = {"alpha": 0.1, "max_iter": 3, "tol": 0, "random_state": 0} | parameters
    with warnings.catch_warnings():
        # Of rows that need fewer atoms than they may have.
        warnings.filterwarnings("ignore", "Orthogonal matching pursuit ended")
        model, wanted = (SparseCoding(40, **how).fit(data) for data in (X, dense))
        for _ in range(2):
            for name in ("transform", "objective"):
                found, true = (getattr(m, name) for m in (model, wanted))
                np.testing.assert_array_equal(found(X), true(dense))
            np.testing.assert_array_equal(model.components_, wanted.components_)
            assert model.components_.dtype == dtype
            for name in ("objective", "n_nonzero"):
                assert model.history_[name] == wanted.history_[name]
            model.partial_fit(X)
            wanted.partial_fit(dense)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [256, None])
def test_sparse_data_are_never_dense_as_a_whole(batch_size):
    X = sparse_rows(3000, 5000, 1e-3)
    model = SparseCoding(5, alpha=0.1, batch_size=batch_size, max_iter=2)
    with traced_memory() as memory:
        model.fit(X).objective(X)
        model.partial_fit(X)
    assert memory.peak < 3000 * 5000 * 8 / 6


def test_sparse_data_must_be_finite():
    X = sparse_rows(20, 5, 0.5)
    X.data[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SparseCoding(3).fit(X)


def test_fit_stops_when_nothing_is_left_to_explain():
    for batch_size, n_iter in [(None, 2), (5, 4)]:
        model = SparseCoding(2, batch_size=batch_size, random_state=0)
        assert model.fit(np.zeros((20, 3))).n_iter_ == n_iter
