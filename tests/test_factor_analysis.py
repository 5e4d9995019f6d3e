"""FactorAnalysis: likelihood, algebra, missing values, rotations, minibatches."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.decomposition import FactorAnalysis as SklearnFactorAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from threadpoolctl import ThreadpoolController, threadpool_limits

from common import (
    assert_same,
    floats,
    run_on_instruction_sets,
    traced_memory,
    with_holes,
)
from sklearn_ebm import FactorAnalysis, ProbabilisticPCA
from sklearn_ebm._factor_scores import exponents
from sklearn_ebm.factors import _gaussian, factor_analysis
from sklearn_ebm.factors._em import ExpectationMaximisation, collect, moments_of, step
from sklearn_ebm.factors._fits import Progress
from sklearn_ebm.factors._gaussian import FactorGaussian
from sklearn_ebm.factors._profile import (
    CentredRows,
    Covariance,
    SketchedRows,
    loadings_at,
)
from sklearn_ebm.factors._rotations import _disjoint_planes, _quartimin, rotate


def simulated(n, n_features, n_components, seed=0):
    """Rows of a random factor model, and the model."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(n_components, n_features))
    noise = rng.uniform(0.2, 2.0, n_features)
    truth = FactorGaussian(rng.normal(size=n_features), loadings, noise)
    return truth.sample(n, rng), truth


def scipy_log_density(model, X):
    """Log-density of what is observed of every row, by scipy."""
    found = np.zeros(len(X))
    covariance = model.get_covariance()
    for n, row in enumerate(X):
        seen = ~np.isnan(row)
        if seen.any():
            found[n] = stats.multivariate_normal.logpdf(
                row[seen], model.mean_[seen], covariance[np.ix_(seen, seen)]
            )
    return found


@pytest.fixture(scope="module")
def small():
    """A model of 7 features and 2 factors, with its true parameters, and its data."""
    X, truth = simulated(200, 7, 2)
    model = FactorAnalysis(2).fit(X)
    model.mean_, model.components_ = truth.mean, truth.loadings
    model.noise_variance_ = truth.noise
    return model, X


# ---- The likelihood that a fit reaches ----

BUNDLED = {
    "iris": lambda: load_iris().data,
    "wine": lambda: load_wine().data,
    "breast cancer": lambda: load_breast_cancer().data,
}


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("name", BUNDLED)
def test_no_less_likely_than_sklearn(name, n_components):
    X = BUNDLED[name]()
    theirs = SklearnFactorAnalysis(n_components, svd_method="lapack").fit(X)
    ours = FactorAnalysis(n_components).fit(X)
    assert ours.score(X) >= theirs.score(X)
    # (Of sums of squares in units of the noise, which may be 1e-9 of a variance.)
    assert ours.loglike_[-1] == pytest.approx(len(X) * ours.score(X), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_little_noise_is_not_taken_for_none(seed):
    rng = np.random.default_rng(seed)
    noise = rng.uniform(0.5, 1.2, 10) / 3000
    X = rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 10))
    X += noise * rng.normal(size=X.shape)
    model = FactorAnalysis(3, tol=1e-6).fit(X[:500])
    np.testing.assert_allclose(np.sqrt(model.noise_variance_), noise, rtol=0.3)
    theirs = SklearnFactorAnalysis(3, tol=1e-6, svd_method="lapack").fit(X[:500])
    assert model.score(X[500:]) > theirs.score(X[500:]) - 0.01


@pytest.mark.parametrize("name", BUNDLED)
def test_climbs_from_where_sklearn_stops(name):
    """With many factors there are many maxima, and the start decides."""
    X = BUNDLED[name]()
    theirs = SklearnFactorAnalysis(3, svd_method="lapack").fit(X)
    start = np.maximum(theirs.noise_variance_, 1e-9 * X.var(axis=0))
    ours = FactorAnalysis(3, noise_variance_init=start).fit(X)
    assert ours.loglike_[0] == pytest.approx(theirs.loglike_[-1], abs=1)
    assert ours.score(X) >= theirs.score(X)


def test_solution_of_sklearn_where_both_converge():
    X, _ = simulated(500, 10, 3)
    ours = FactorAnalysis(3, tol=1e-9).fit(X)
    theirs = SklearnFactorAnalysis(3, tol=1e-9, svd_method="lapack").fit(X)
    assert ours.loglike_[-1] == pytest.approx(theirs.loglike_[-1], rel=1e-10)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=1e-3)
    np.testing.assert_allclose(
        np.abs(ours.components_), np.abs(theirs.components_), rtol=0.01, atol=1e-3
    )
    np.testing.assert_allclose(
        np.abs(ours.transform(X)), np.abs(theirs.transform(X)), rtol=0.01, atol=0.01
    )
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("solver", ["svd", "em"])
@pytest.mark.parametrize("missing", [False, True])
def test_likelihood_never_decreases(solver, missing):
    X = load_wine().data
    X = with_holes(X) if missing else X
    model = FactorAnalysis(3, solver=solver, missing="latent", tol=1e-4).fit(X)
    gains = np.diff(model.loglike_)
    assert model.n_iter_ == len(model.loglike_) > 5
    assert (gains >= -1e-9 * np.abs(model.loglike_[1:])).all()
    assert model.loglike_[-1] == pytest.approx(len(X) * model.score(X), rel=1e-9)


@pytest.mark.parametrize("missing", [False, True])
def test_a_maximum_has_no_slope(missing):
    X, _ = simulated(400, 6, 1)
    X = with_holes(X) if missing else X
    model = FactorAnalysis(1, missing="latent", tol=1e-8, max_iter=10_000).fit(X)

    def deviance(parameters):
        mean, loadings, log_noise = parameters.reshape(3, 6)
        gaussian = FactorGaussian(mean, loadings[np.newaxis], np.exp(log_noise))
        return gaussian.log_density_observed(X).mean()

    best = [model.mean_, model.components_[0], np.log(model.noise_variance_)]
    slope = optimize.approx_fprime(np.concatenate(best), deviance, 1e-6)
    np.testing.assert_allclose(slope, 0, atol=1e-4)
    away = np.concatenate(best) * 1.01
    assert np.abs(optimize.approx_fprime(away, deviance, 1e-6)).max() > 1e-3


def test_em_and_svd_find_the_same_model():
    X, _ = simulated(300, 20, 2)
    svd = FactorAnalysis(2, tol=1e-8).fit(X)
    em = FactorAnalysis(2, tol=1e-8, solver="em").fit(X)
    assert em.loglike_[-1] == pytest.approx(svd.loglike_[-1], rel=1e-9)
    np.testing.assert_allclose(em.components_, svd.components_, atol=1e-3)
    np.testing.assert_allclose(em.noise_variance_, svd.noise_variance_, rtol=1e-3)


def test_gradient_of_the_profile_likelihood():
    X, _ = simulated(100, 6, 2)
    data = Covariance(X, X.mean(axis=0))
    noise = np.random.default_rng(0).uniform(0.3, 1.5, 6)

    def deviance(log_noise):
        return -2 * loadings_at(data, np.exp(log_noise), 2).loglike

    slope = [
        (deviance(np.log(noise) + d) - deviance(np.log(noise) - d)) / 2e-5
        for d in 1e-5 * np.eye(6)
    ]
    np.testing.assert_allclose(loadings_at(data, noise, 2).gradient, slope, rtol=1e-6)


def test_profile_likelihood_is_that_of_its_model():
    X, _ = simulated(100, 6, 2)
    data = Covariance(X, X.mean(axis=0))
    # Much noise: some directions get no loadings.
    for scale in (0.1, 1.0, 10.0):
        solution = loadings_at(data, np.full(6, scale), 4)
        gaussian = FactorGaussian(data.mean, solution.loadings, solution.noise)
        wanted = gaussian.log_density(X).mean()
        assert solution.loglike == pytest.approx(wanted, rel=1e-12)


def test_eigenvectors_are_the_same_by_every_way():
    X, _ = simulated(60, 90, 3)
    mean, noise = X.mean(axis=0), np.random.default_rng(0).uniform(0.5, 2, 90)
    sketched = SketchedRows(X, mean, 3, 100, 1e-14, np.random.default_rng(0))
    sketched.thorough = True
    wanted_values, wanted = Covariance(X, mean).leading(noise, 3)
    for data in (CentredRows(X, mean), sketched):
        for _ in range(50):
            values, vectors = data.leading(noise, 3)
        np.testing.assert_allclose(data.variances, X.var(axis=0), rtol=1e-12)
        np.testing.assert_allclose(values, wanted_values, rtol=1e-9)
        np.testing.assert_allclose(np.abs(vectors), np.abs(wanted), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("svd_method", ["lapack", "randomized"])
def test_wide_data(svd_method):
    X, _ = simulated(520, 800, 5)
    ours = FactorAnalysis(5, svd_method=svd_method).fit(X)
    theirs = SklearnFactorAnalysis(5, svd_method="lapack", tol=1e-6).fit(X)
    # To within the tolerance of a fit.
    assert len(X) * ours.score(X) >= len(X) * theirs.score(X) - ours.tol
    assert ours.loglike_[-1] == pytest.approx(len(X) * ours.score(X), rel=1e-9)
    assert ours.noise_variance_.shape == (800,)


def test_wide_data_with_fewer_dimensions_than_components():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(520, 3)) @ rng.normal(size=(3, 1100))
    for Y in (X, np.zeros((520, 1100))):
        model = FactorAnalysis(20, max_iter=8, tol=1).fit(Y)
        assert np.isfinite(model.components_).all()
        assert np.isfinite(model.score_samples(Y)).all()
        found = model.get_covariance()
        np.testing.assert_allclose(found, np.cov(Y.T, bias=True), atol=1e-3)


def test_no_matrix_of_all_pairs_of_features():
    X = np.random.default_rng(0).normal(size=(40, 8000))
    with traced_memory() as memory:
        model = FactorAnalysis(3, max_iter=5, tol=0.1).fit(X)
        model.score_samples(X)
        model.transform(X)
    assert memory.peak < 8000**2  # an eighth of it


# ---- The Gaussian, and what it says of rows ----


@pytest.mark.parametrize("n_components", [0, 1, 3, 7])
def test_precision_is_the_inverse_of_the_covariance(n_components):
    X, _ = simulated(100, 7, 2)
    model = FactorAnalysis(n_components).fit(X)
    covariance = model.components_.T @ model.components_
    covariance += np.diag(model.noise_variance_)
    np.testing.assert_allclose(model.get_covariance(), covariance, rtol=1e-12)
    np.testing.assert_allclose(
        model.get_precision(), np.linalg.inv(covariance), rtol=1e-6, atol=1e-8
    )


def test_score_samples_is_the_density_of_scipy(small):
    model, X = small
    np.testing.assert_allclose(
        model.score_samples(X), scipy_log_density(model, X), rtol=1e-10
    )


@floats
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 0), (3, 5, 2), (4, 8, 8), (30, 100, 57), (130, 67, 66), (2000, 90, 50)],
)
def test_compiled_densities_are_those_of_the_covariance(shape, dtype):
    # From one row to several blocks of them, whole vectors of features and factors
    # and parts, more factors than there are registers.
    densities_are_those_of_the_covariance(*shape, dtype)


def test_densities_of_every_instruction_set_are_right():
    code = (
        "from test_factor_analysis import densities_are_those_of_the_covariance as f\n"
        "for shape in [(3, 5, 2), (30, 100, 57), (130, 67, 20)]:\n"
        "    f(*shape, 'float32'), f(*shape, 'float64')\n"
    )
    run_on_instruction_sets(["base", "avx2"], code)


def densities_are_those_of_the_covariance(n, n_features, q, dtype):
    rng = np.random.default_rng(0)
    noise, mean = rng.uniform(0.1, 2, n_features), 10 * rng.normal(size=n_features)
    gaussian = FactorGaussian(mean, rng.normal(size=(q, n_features)), noise)
    X = (mean + 3 * rng.normal(size=(n, n_features))).astype(dtype)
    wanted = stats.multivariate_normal(mean, gaussian.covariance()).logpdf(
        X.astype(float)
    )
    np.testing.assert_allclose(gaussian.log_density(X), wanted, rtol=1e-9)


@floats
def test_densities_are_the_same_bits_for_any_threads_layout_and_company(dtype):
    rng = np.random.default_rng(0)
    gaussian = FactorGaussian(rng.normal(size=90), rng.normal(size=(50, 90)), 0.5)
    X = rng.normal(size=(5000, 90)).astype(dtype)
    found = []
    for n_threads in (1, 2, 5):
        with threadpool_limits(n_threads):
            found.append(gaussian.log_density(X).tobytes())
            found.append(gaussian.log_density(np.asfortranarray(X)).tobytes())
    assert found == found[:1] * 6
    alone = [gaussian.log_density(X[i : i + 1])[0] for i in (0, 77, 4999)]
    np.testing.assert_array_equal(alone, np.frombuffer(found[0])[[0, 77, 4999]])


@floats
@pytest.mark.parametrize("bad, what", [(np.nan, "NaN"), (np.inf, "infinity")])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n_components", [0, 2])
def test_scores_refuse_what_is_not_finite(bad, what, sign, n_components, dtype):
    X = simulated(100, 9, 2)[0].astype(dtype)
    model = FactorAnalysis(n_components).fit(X)
    for row, column in [(0, 0), (57, 3), (99, 8)]:
        spoilt = X.copy()
        spoilt[row, column] = sign * bad
        with pytest.raises(ValueError, match=f"Input X contains {what}"):
            model.score_samples(spoilt)
        with pytest.raises(ValueError, match=f"Input X contains {what}"):
            model.score(spoilt)


def test_scores_of_numbers_whose_squares_overflow():
    X, _ = simulated(100, 9, 2)
    model = FactorAnalysis(2).fit(X)
    assert not np.isfinite(model.score_samples(np.full((1, 9), 1e200)))


def test_shapes_of_rows_and_model_must_fit():
    X, mean, scale = np.zeros((3, 5)), np.zeros(5), np.ones(5)
    good = [X, mean, scale, np.zeros((2, 5)), np.eye(2), np.empty(3)]
    exponents(*good)
    for n, bad in enumerate(
        [np.zeros((3, 4)), mean[:4], scale[:4], np.zeros((2, 4)), np.eye(3), scale]
    ):
        with pytest.raises(ValueError, match="rows and model do not fit"):
            exponents(*good[:n], bad, *good[n + 1 :])


def test_missing_values_are_integrated_out(small):
    model, X = small
    X = with_holes(X)
    X[3] = np.nan
    model = FactorAnalysis(2, missing="latent").fit(X)
    found = model.score_samples(X)
    np.testing.assert_allclose(found, scipy_log_density(model, X), rtol=1e-10)
    assert found[3] == 0
    np.testing.assert_allclose(model.transform(X[3:4]), 0, atol=1e-12)


@pytest.mark.parametrize("holes", [False, True])
def test_transform_is_the_conditional_mean_of_the_factors(holes, small):
    model, X = small
    X = with_holes(X[:30]) if holes else X[:30]
    model.set_params(missing="latent")
    covariance = model.get_covariance()
    for row, found in zip(X, model.transform(X)):
        seen = ~np.isnan(row)
        wanted = model.components_[:, seen] @ np.linalg.solve(
            covariance[np.ix_(seen, seen)], (row - model.mean_)[seen]
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_impute_fills_in_conditional_means(small):
    model, X = small
    covariance, holes = model.get_covariance(), with_holes(X[:30])
    filled = model.impute(holes)
    for row, found in zip(holes, filled):
        seen = ~np.isnan(row)
        gain = np.linalg.solve(
            covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, ~seen)]
        )
        wanted = model.mean_[~seen] + (row - model.mean_)[seen] @ gain
        np.testing.assert_array_equal(found[seen], row[seen])
        np.testing.assert_allclose(found[~seen], wanted, rtol=1e-9, atol=1e-12)
    masked = model.impute(X[:30], mask=np.isnan(holes))
    np.testing.assert_array_equal(masked, filled)


def is_standard_normal(values):
    """Whether rows may be independent standard normal, p > 1e-6 for each test."""
    n, d = values.shape
    assert stats.kstest(values.ravel(), "norm").pvalue > 1e-6
    for i in range(d):
        for j in range(i):
            product = (values[:, i] * values[:, j]).sum() / np.sqrt(n)
            assert 2 * stats.norm.sf(abs(product)) > 1e-6 / d**2


def test_samples_have_the_covariance_of_the_model(small):
    model, _ = small
    X = model.sample(20_000, random_state=1)
    root = np.linalg.cholesky(model.get_covariance())
    is_standard_normal(np.linalg.solve(root, (X - model.mean_).T).T)


@pytest.mark.parametrize("method", ["mean", "sample"])
def test_impute_refuses_what_is_no_random_state(method, small):
    model, X = small
    with pytest.raises(ValueError, match="random_state must be .*, got 'nonsense'"):
        model.impute(X[:3], method=method, random_state="nonsense")


def test_imputed_draws_are_conditional_draws(small):
    model, X = small
    row = X[0].copy()
    row[[1, 4, 5]] = np.nan
    seen = ~np.isnan(row)
    covariance = model.get_covariance()
    gain = np.linalg.solve(
        covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, ~seen)]
    )
    mean = model.mean_[~seen] + (row - model.mean_)[seen] @ gain
    conditional = covariance[np.ix_(~seen, ~seen)]
    conditional = conditional - covariance[np.ix_(~seen, seen)] @ gain
    draws = model.impute(np.tile(row, (20_000, 1)), method="sample", random_state=0)
    deviation = draws[:, ~seen] - mean
    is_standard_normal(np.linalg.solve(np.linalg.cholesky(conditional), deviation.T).T)


def test_draws_go_on_and_can_be_repeated(small):
    model, X = small
    twin = FactorAnalysis(2, tol=1e-6).fit(X)
    model = FactorAnalysis(2, tol=1e-6).fit(X)
    first, second = model.sample(3), model.sample(3)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(twin.sample(3), first)
    np.testing.assert_array_equal(twin.sample(3), second)
    again = model.sample(3, random_state=7)
    np.testing.assert_array_equal(model.sample(3, random_state=7), again)


def test_inverse_transform(small):
    model, X = small
    factors = model.transform(X)
    wanted = model.mean_ + factors @ model.components_
    np.testing.assert_allclose(model.inverse_transform(factors), wanted, rtol=1e-12)
    with pytest.raises(ValueError, match="X has 3 columns, .* 2 components"):
        model.inverse_transform(np.ones((4, 3)))


# ---- Missing values in training ----


def test_moments_of_patterns_are_those_of_complete_rows():
    X, truth = simulated(50, 6, 2)
    complete, loglike = collect(truth, X, truth.mean, False)
    patterns, same_loglike = collect(truth, X, truth.mean, True)
    assert same_loglike == pytest.approx(loglike, rel=1e-12)
    for zz in patterns.zz:
        np.testing.assert_allclose(zz, complete.zz, rtol=1e-9, atol=1e-9)
    for name in ("n", "xx", "xz"):
        np.testing.assert_allclose(
            getattr(patterns, name), getattr(complete, name), rtol=1e-9, atol=1e-9
        )
    np.testing.assert_allclose(step(patterns).loadings, step(complete).loadings)
    np.testing.assert_allclose(step(patterns).noise, step(complete).noise)


def likelihoods(climb_with, X, start, n_iter):
    """Log-likelihoods of some iterations of expectation maximisation."""
    found = []
    climb = ExpectationMaximisation(
        X, start, True, found.append, lambda moments, _: climb_with(moments)
    )
    climb.run(n_iter)
    return np.array(found)


@pytest.mark.parametrize("missing", [False, True])
def test_expanded_step_takes_over_the_mean_and_spread_of_the_factors(missing):
    X, _ = simulated(100, 6, 3)
    X = with_holes(X) if missing else X
    _, guess = simulated(2, 6, 3, seed=5)
    moments, _ = collect(guess, X, guess.mean, missing)
    plain, expanded = step(moments), step(moments, expand=True)
    factors, posterior = np.empty((100, 3)), np.zeros((3, 3))
    for part in guess.given_observed(X):
        factors[part.rows] = part.means
        posterior += part.of_rows().sum(axis=0) / 100
    spread = posterior + np.cov(factors.T, bias=True)
    covariance = plain.loadings.T @ spread @ plain.loadings + np.diag(plain.noise)
    np.testing.assert_allclose(expanded.covariance(), covariance, rtol=1e-9, atol=1e-12)
    mean = plain.mean + factors.mean(axis=0) @ plain.loadings
    np.testing.assert_allclose(expanded.mean, mean, rtol=1e-9)


def test_expanded_steps_climb_faster():
    X, _ = simulated(200, 60, 2)
    X = with_holes(X)
    start = FactorAnalysis(2, missing="latent", max_iter=1)._start(X, 2)
    plain = likelihoods(step, X, start, 30)
    expanded = likelihoods(lambda moments: step(moments, expand=True), X, start, 30)
    assert expanded[0] == plain[0]
    for found in (plain, expanded):
        assert (np.diff(found) >= -1e-9 * np.abs(found[1:])).all()
    # As much in 6 steps as plain ones gain in 30.
    assert expanded[5] > plain[29]


def test_em_finds_a_factor_weaker_than_the_noise_it_starts_from():
    rng = np.random.default_rng(0)
    loadings = np.array([[1, 1, 1, 1, 1, 1], [0.3, 0.3, 0.3, 0, 0, 0]])
    X = rng.normal(size=(1000, 2)) @ loadings + 0.1 * rng.normal(size=(1000, 6))
    assert np.linalg.eigvalsh(np.corrcoef(X.T))[-2] < 0.5
    em, svd = (FactorAnalysis(2, solver=solver).fit(X) for solver in ("em", "svd"))
    assert em.score(X) > FactorAnalysis(1).fit(X).score(X) + 0.5
    assert em.score(X) == pytest.approx(svd.score(X), abs=1e-3)


def test_moments_of_a_model_leave_it_where_it_is():
    _, truth = simulated(2, 6, 2)
    for missing in (False, True):
        for expand in (False, True):
            same = step(moments_of(truth, missing), expand=expand)
            for name, value in truth.parameters().items():
                np.testing.assert_allclose(getattr(same, name), value, rtol=1e-9)


def test_missing_values_cost_little_of_the_truth():
    X, truth = simulated(4000, 10, 2)
    model = FactorAnalysis(2, missing="latent", tol=1e-3).fit(with_holes(X))
    fresh = truth.sample(4000, np.random.default_rng(3))
    lost = (truth.log_density(fresh) - model.score_samples(fresh)).mean()
    # Half a nat for each of 39 parameters over the 4000 rows, were all observed.
    assert 0 < lost < 3 * 0.5 * 39 / 4000
    # Means and pairs of variables as they are found would not do.
    filled = np.where(np.isnan(with_holes(X)), np.nanmean(X, axis=0), X)
    naive = FactorAnalysis(2).fit(filled)
    assert (truth.log_density(fresh) - naive.score_samples(fresh)).mean() > 10 * lost


def test_a_feature_without_observed_values_is_refused():
    X = np.ones((5, 3))
    X[:, 1] = np.nan
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="Feature 1 of X has no observed value"):
            getattr(FactorAnalysis(1, missing="latent"), method)(X)


# ---- Rotations ----


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("rotation", ["varimax", "quartimax", "promax", "oblimin"])
def test_rotations_leave_the_likelihood_unchanged(rotation, missing):
    X = load_wine().data
    plain = FactorAnalysis(3).fit(X)
    model = FactorAnalysis(3, rotation=rotation).fit(X)
    assert model.loglike_ == plain.loglike_
    assert np.abs(model.components_ - plain.components_).max() > 0.1
    rows = with_holes(X) if missing else X
    model.set_params(missing="latent")
    plain.set_params(missing="latent")
    np.testing.assert_allclose(
        model.score_samples(rows), plain.score_samples(rows), rtol=1e-9
    )
    np.testing.assert_allclose(
        model.get_covariance(), plain.get_covariance(), rtol=1e-9, atol=1e-9
    )
    # The factors explain the same.
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(rows)),
        plain.inverse_transform(plain.transform(rows)),
        rtol=1e-8,
    )
    oblique = rotation in ("promax", "oblimin")
    assert hasattr(model, "factor_correlation_") == oblique
    if oblique:
        np.testing.assert_allclose(np.diag(model.factor_correlation_), 1, rtol=1e-12)


@pytest.mark.parametrize("rotation", ["varimax", "quartimax"])
def test_orthogonal_rotations_are_those_of_sklearn(rotation):
    X, _ = simulated(300, 12, 3)
    ours = FactorAnalysis(3, rotation=rotation, tol=1e-9).fit(X)
    theirs = SklearnFactorAnalysis(
        3, rotation=rotation, tol=1e-9, svd_method="lapack"
    ).fit(X)
    agreement = np.abs(np.corrcoef(ours.components_, theirs.components_)[:3, 3:])
    np.testing.assert_allclose(agreement.max(axis=0), 1, atol=1e-3)
    np.testing.assert_allclose(agreement.max(axis=1), 1, atol=1e-3)


def test_rotations_are_maxima_of_their_criteria():
    """No rotation in a plane of two factors does better."""
    loadings = np.random.default_rng(0).normal(size=(5, 15)) ** 3
    criteria = {
        "varimax": lambda L: (L**2).var(axis=1).sum(),
        "quartimax": lambda L: (L**4).sum(),
    }
    for method, criterion in criteria.items():
        rotated, correlations = rotate(loadings, method)
        assert correlations is None
        np.testing.assert_allclose(rotated.T @ rotated, loadings.T @ loadings)
        for i, j in combinations(range(5), 2):
            for angle in np.linspace(-1.5, 1.5, 31):
                turned = rotated.copy()
                cos, sin = np.cos(angle), np.sin(angle)
                turned[i] = cos * rotated[i] + sin * rotated[j]
                turned[j] = cos * rotated[j] - sin * rotated[i]
                assert criterion(turned) <= criterion(rotated) * (1 + 1e-9)


@pytest.mark.parametrize("n", range(2, 9))
def test_planes_turned_together_have_no_factor_in_common(n):
    rounds = _disjoint_planes(n)
    for planes in rounds:
        assert len(np.unique(planes)) == planes.size
    found = sorted(map(tuple, np.hstack(rounds).T.tolist()))
    assert found == list(combinations(range(n), 2))


def test_oblimin_has_no_slope_along_the_axes():
    loadings = np.random.default_rng(0).normal(size=(15, 3)) ** 3
    axes = np.random.default_rng(1).normal(size=(3, 3))
    _, gradient = _quartimin(loadings, axes)
    found = optimize.approx_fprime(
        axes.ravel(), lambda a: _quartimin(loadings, a.reshape(3, 3))[0], 1e-7
    )
    np.testing.assert_allclose(gradient.ravel(), found, rtol=1e-4, atol=1e-4)
    rotated, correlations = rotate(loadings.T, "oblimin")

    def value(L):
        squares = L**2
        return 0.25 * ((squares.sum(axis=0) - squares) * squares).sum()

    assert value(rotated) < value(loadings.T)
    # The axes that made it, from L = T^-1 A', and small turns of each on its sphere.
    axes = np.linalg.lstsq(rotated.T, loadings, rcond=None)[0].T
    np.testing.assert_allclose(axes.T @ axes, correlations, atol=1e-9)
    rng = np.random.default_rng(2)
    for _ in range(50):
        near = axes + 1e-3 * rng.normal(size=(3, 3))
        near /= np.linalg.norm(near, axis=0)
        assert value(np.linalg.solve(near, loadings.T)) > value(rotated)


@pytest.mark.parametrize("seed", range(4))
def test_oblimin_goes_all_the_way(seed):
    # Along such loadings there is a long and narrow valley.
    loadings = np.random.default_rng(seed).normal(size=(15, 3)) ** 3
    rotated, _ = rotate(loadings.T, "oblimin")
    axes = np.linalg.lstsq(rotated.T, loadings)[0].T
    value, gradient = _quartimin(loadings, axes)
    along = gradient - axes * (axes * gradient).sum(axis=0)
    assert np.linalg.norm(along) < 1e-3 * value


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "powers", [[100, 0, 0, 0, 0, -100], [148, 90, 30, -30, -90, -148]]
)
def test_promax_of_scales_too_far_apart_is_refused(powers):
    X, _ = simulated(300, 6, 2)
    X *= 10.0 ** np.array(powers)
    message = "rotation='promax' finds factors that are copies .* scale X"
    with pytest.raises(ValueError, match=message):
        FactorAnalysis(2, rotation="promax").fit(X)
    assert np.isfinite(FactorAnalysis(2, rotation="oblimin").fit(X).score(X))


@pytest.mark.parametrize("rotation", ["promax", "oblimin"])
def test_oblique_rotations_recover_correlated_factors(rotation):
    rng = np.random.default_rng(0)
    correlations = np.array([[1, 0.5], [0.5, 1]])
    factors = rng.multivariate_normal([0, 0], correlations, 5000)
    loadings = np.kron(np.eye(2), np.ones(5)) * rng.uniform(0.7, 1.2, 10)
    X = factors @ loadings + 0.5 * rng.normal(size=(5000, 10))
    model = FactorAnalysis(2, rotation=rotation).fit(X)
    order = np.argsort(model.components_[:, 0])[::-1]
    np.testing.assert_allclose(model.components_[order], loadings, atol=0.07)
    assert model.factor_correlation_[0, 1] == pytest.approx(0.5, abs=0.07)
    found = model.transform(X)[:, order]
    assert np.corrcoef(found.T, factors.T)[[0, 1], [2, 3]].min() > 0.95


@pytest.mark.parametrize("unit", [1e-80, 1e-3, 1e6, 1e80])
@pytest.mark.parametrize("rotation", ["varimax", "quartimax", "promax", "oblimin"])
def test_the_unit_of_the_loadings_does_not_matter_to_a_rotation(rotation, unit):
    loadings = np.random.default_rng(0).normal(size=(3, 15)) ** 3
    wanted, correlations = rotate(loadings, rotation)
    found, same_correlations = rotate(unit * loadings, rotation)
    np.testing.assert_allclose(found / unit, wanted, atol=1e-6)
    if correlations is not None:
        np.testing.assert_allclose(same_correlations, correlations, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::scipy.linalg.LinAlgWarning")
def test_factors_that_training_gave_up_are_not_rotated(digits):
    X = digits[:60, -24:].copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    plain = FactorAnalysis(max_iter=20, missing="latent").fit(X)
    assert (np.linalg.norm(plain.components_, axis=1) < 1e-20).any()
    for rotation in ("promax", "oblimin"):
        rotated = clone(plain).set_params(rotation=rotation).fit(X)
        np.testing.assert_allclose(
            rotated.get_covariance(), plain.get_covariance(), atol=1e-12
        )
        assert np.isfinite(rotated.transform(X)).all()


def test_factors_without_loadings_are_not_rotated():
    loadings = np.random.default_rng(0).normal(size=(3, 8))
    loadings[1] = 0
    for method in ("varimax", "promax", "oblimin"):
        rotated, _ = rotate(loadings, method)
        assert not rotated[1].any()
        assert np.isfinite(rotated).all()
        # Nor are those whose loadings are rounding, as many iterations leave them.
        for least in (1e-5, 1e-8, 1e-17, 1e-40, 1e-90):
            weak = loadings.copy()
            weak[1] = least
            rotated, correlations = rotate(weak, method)
            if correlations is None:
                correlations = np.eye(3)
            assert np.linalg.eigvalsh(correlations)[0] > 0
            found = rotated.T @ correlations @ rotated
            np.testing.assert_allclose(found, weak.T @ weak, atol=1e-12)
    assert rotate(loadings[:0], "promax")[0].shape == (0, 8)
    np.testing.assert_array_equal(rotate(loadings[:1], "oblimin")[1], [[1]])


# ---- Minibatches ----


@pytest.mark.slow
@pytest.mark.parametrize("missing", [False, True])
def test_minibatches_reach_the_likelihood_of_a_fit(missing):
    X, truth = simulated(6000, 8, 2)
    X = with_holes(X, 0.2) if missing else X
    model = FactorAnalysis(2, missing="latent" if missing else "raise")
    for start in range(0, 6000, 50):
        assert model.partial_fit(X[start : start + 50]) is model
    assert model.n_iter_ == len(model.loglike_) == 120
    whole = FactorAnalysis(2, missing="latent").fit(X)
    fresh = truth.sample(5000, np.random.default_rng(5))
    best = whole.score(fresh)
    once = FactorAnalysis(2, missing="latent").fit(X[:50]).score(fresh)
    assert once < best - 0.05
    # The last 6 % of the rows count for most: some of the gain is lost again.
    assert model.score(fresh) > best - 0.1 * (best - once)


@pytest.mark.slow
def test_single_rows_are_minibatches():
    X, truth = simulated(1500, 4, 1)
    model = FactorAnalysis(1)
    for row in X:
        model.partial_fit(row[np.newaxis])
    assert np.isfinite(model.loglike_).all()
    start = FactorAnalysis(1).partial_fit(X[:1])
    assert model.score(X) > start.score(X)
    # (Half a nat where training goes on from the first row.)
    assert model.score(X) > truth.log_density(X).mean() - 0.1


@pytest.mark.parametrize("missing", [False, True])
def test_the_first_rows_count_together(missing):
    X, _ = simulated(400, 6, 2)
    X = with_holes(X) if missing else X
    model = FactorAnalysis(2, missing="latent" if missing else "raise")
    parts = clone(model)
    for start, stop in [(0, 40), (40, 41), (41, 90), (90, 150)]:
        parts.partial_fit(X[start:stop])
    whole = clone(model).partial_fit(X[:150])
    assert_same(parts.get_covariance(), whole.get_covariance())
    assert parts.n_iter_ == 4 and "first_rows" not in parts._state
    # And then no more.
    parts.partial_fit(X[150:])
    assert_same(parts.get_covariance(), whole.partial_fit(X[150:]).get_covariance())


def test_a_constant_feature_online(monkeypatch):
    # Its noise variance dwindles beyond float32, here in a few minibatches.
    monkeypatch.setattr(factor_analysis, "DECAY", 0.05)
    X, _ = simulated(40, 3, 1)
    X = np.column_stack([X, np.full(40, 3.0)]).astype(np.float32)
    model = FactorAnalysis(1)
    for k in range(300):
        model.partial_fit(X[k % 2 :: 2])
    assert (model.noise_variance_ >= np.finfo(np.float32).tiny).all()
    assert np.isfinite(model.transform(X)).all() and np.isfinite(model.score(X))


def test_first_rows_of_other_types_than_later_ones():
    X, _ = simulated(60, 6, 2)
    model = FactorAnalysis(2).partial_fit(X[:20].astype(np.float32))
    with pytest.raises(ValueError, match="beyond the numbers of float32"):
        model.partial_fit(1e30 * X[20:40])
    assert model.partial_fit(X[20:]).components_.dtype == np.float32
    holes = FactorAnalysis(2, missing="latent").partial_fit(with_holes(X[:20]))
    holes.set_params(missing="raise").partial_fit(X[20:])
    assert np.isfinite(holes.score(X))


@pytest.mark.parametrize("model", [FactorAnalysis(2), ProbabilisticPCA(2)])
@pytest.mark.parametrize("missing", [False, True])
def test_small_numbers_are_fitted_like_others_or_refused(model, missing):
    X, _ = simulated(200, 6, 2)
    X = with_holes(X, 0.1) if missing else X
    n_seen = np.isfinite(X).sum() / len(X)
    model = clone(model).set_params(missing="latent" if missing else "raise")
    score = clone(model).fit(X).score(X)
    for scale in (1e-20, 1e-140):
        found = clone(model).fit(scale * X).score(scale * X) + n_seen * np.log(scale)
        assert found == pytest.approx(score, rel=1e-9)
    small = (
        [(1e-20, np.float32, "float64")] if isinstance(model, FactorAnalysis) else []
    )
    for scale, dtype, remedy in [
        *small,
        (1e-160, np.float64, r"Scale X\."),
        (1e-180, np.float64, r"Scale X\."),
    ]:
        with pytest.raises(ValueError, match=f"varies too little.*{remedy}"):
            clone(model).fit((scale * X).astype(dtype))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_factors_of_float32_whose_inverses_are_none():
    X = (1e-40 * simulated(200, 6, 2)[0]).astype(np.float32)
    model = ProbabilisticPCA(2).fit(X)
    found, wanted = model.transform(X), model.transform(X.astype(np.float64))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("missing", [False, True])
def test_share_of_a_minibatch_after_a_fit(missing):
    """That of one among all the minibatches of its size that there were."""
    X, _ = simulated(310, 6, 2)
    X = with_holes(X) if missing else X
    model = FactorAnalysis(2, missing="latent" if missing else "raise").fit(X[:300])
    gaussian = model._gaussian()
    batch, loglike = collect(gaussian, X[300:], gaussian.mean, missing)
    moments = moments_of(gaussian, missing).mixed(batch.scaled(0.1), 31**-0.6)
    wanted = step(moments)
    model.partial_fit(X[300:])
    np.testing.assert_allclose(model.get_covariance(), wanted.covariance(), rtol=1e-9)
    assert model.loglike_[-1] == pytest.approx(loglike, rel=1e-12)


def test_minibatches_go_on_from_a_fit():
    X, truth = simulated(2000, 8, 2)
    model = FactorAnalysis(2, rotation="promax").fit(X)
    before = model.score(X)
    for start in range(0, 2000, 200):
        model.partial_fit(truth.sample(200, np.random.default_rng(start)))
    assert model.score(X) > before - 0.1
    # Data of another kind are learned.
    other, _ = simulated(2000, 8, 2, seed=9)
    unlike = model.score(other)
    for _ in range(100):
        model.partial_fit(other)
    assert model.score(other) > unlike
    assert model.score(other) > FactorAnalysis(2).fit(other).score(other) - 0.05


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_minibatches_go_on_with_the_components_there_are(first):
    X, _ = simulated(40, 8, 2)
    model = getattr(FactorAnalysis(2), first)(X).partial_fit(X)
    components = model.components_
    message = (
        "n_components=4 does not fit the model that training goes on from, which has 2."
    )
    with pytest.raises(ValueError, match=message):
        model.set_params(n_components=4).partial_fit(X)
    assert model.components_ is components
    assert model.set_params(n_components=2).partial_fit(X).n_iter_ > 2


@pytest.mark.parametrize("asked", [None, 5, 8, 20])
def test_minibatches_go_on_where_rows_were_too_few(asked):
    X, _ = simulated(5, 8, 2)
    model = FactorAnalysis(asked, tol=1, max_iter=5).fit(X)
    assert model.components_.shape == (5, 8)
    for _ in range(2):
        assert model.partial_fit(X).components_.shape == (5, 8)
    assert model.set_params(n_components=5).partial_fit(X).n_iter_ > 3


# ---- Corners ----


def test_more_components_than_rows_or_features():
    X, _ = simulated(10, 30, 2)
    assert FactorAnalysis(20, max_iter=5, tol=1).fit(X).components_.shape == (10, 30)
    assert FactorAnalysis().fit(X[:, :5]).components_.shape == (5, 5)
    assert FactorAnalysis(9).fit(X[:, :5]).components_.shape == (5, 5)
    assert FactorAnalysis(20).partial_fit(X[:3]).components_.shape == (20, 30)


def test_as_many_components_as_features_give_the_covariance():
    X, _ = simulated(500, 4, 2)
    model = FactorAnalysis(tol=1e-8).fit(X)
    found = model.get_covariance()
    np.testing.assert_allclose(found, np.cov(X.T, bias=True), rtol=1e-3, atol=1e-3)


def test_without_components_features_are_independent():
    X, _ = simulated(50, 4, 2)
    model = FactorAnalysis(0).fit(X)
    em = FactorAnalysis(0, solver="em").fit(X)
    np.testing.assert_allclose(em.noise_variance_, X.var(axis=0), rtol=1e-9)
    np.testing.assert_allclose(model.noise_variance_, X.var(axis=0), rtol=1e-9)
    assert model.transform(X).shape == (50, 0)
    wanted = stats.norm.logpdf(X, X.mean(axis=0), X.std(axis=0)).sum(axis=1)
    np.testing.assert_allclose(model.score_samples(X), wanted, rtol=1e-6)


@pytest.mark.parametrize("solver", ["svd", "em"])
def test_constant_and_repeated_features(solver):
    X, _ = simulated(100, 4, 1)
    # (The mean of many 0.1 is another number: what that leaves is no variance.)
    X = np.hstack([X, X[:, :1], np.full((100, 1), 0.1)])
    assert X[:, 5].mean() != 0.1
    model = FactorAnalysis(2, solver=solver, max_iter=200, tol=1).fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert (model.noise_variance_ > 0).all()
    assert model.noise_variance_[5] == pytest.approx(1e-12)
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize(
    "model",
    [FactorAnalysis(2), FactorAnalysis(2, missing="latent"), ProbabilisticPCA()],
    ids=str,
)
def test_scores_warn_of_features_that_were_constant(model):
    X, _ = simulated(100, 6, 1)
    X[:, [2, 4]] = 3.0
    model.fit(X)
    far = X.copy()
    far[0] *= 1e4
    far[:, [2, 4]] = 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score(X)
        model.score(far)  # of a feature that varies
    X[7, 4] = X[9, 4] = 4.0
    with pytest.warns(UserWarning, match=r"densities of 2 of .*: number 4\. Leave"):
        assert model.score(X) < -1e5


@pytest.mark.parametrize("missing", ["raise", "latent"])
def test_scores_warn_of_constant_features_on_any_scale(missing):
    X = 0.01 * simulated(100, 6, 1)[0]
    X[:, 2] = 0
    model = FactorAnalysis(1, missing=missing).fit(X)
    X[0, 2] = 0.02
    with pytest.warns(UserWarning, match=r"densities of 1 of .*: number 2\. Leave"):
        model.score(X)


@pytest.mark.parametrize("shape", [(60, 6), (6, 60)], ids=str)
def test_a_large_constant_does_not_vary(shape):
    X, _ = simulated(*shape, 1)
    X[:, 0] = 1e18 / 3
    assert X[:, 0].mean() != X[0, 0] or len(X) == 6
    model = FactorAnalysis(2).fit(X)
    assert model.mean_[0] == X[0, 0]
    assert (model.components_[:, 0] == 0).all()
    assert model.loglike_[-1] == pytest.approx(len(X) * model.score(X), rel=1e-9)


@pytest.mark.parametrize("solver, holes", [("svd", 0), ("em", 0), ("em", 0.2)])
@pytest.mark.parametrize("unit", [1e-14, 1e-8, 1e8])
def test_the_unit_of_all_features_does_not_matter(unit, solver, holes):
    X, _ = simulated(100, 6, 2)
    X[np.random.default_rng(0).random(X.shape) < holes] = np.nan
    model, other = (
        FactorAnalysis(2, solver=solver, missing="latent").fit(Y) for Y in (X, unit * X)
    )
    np.testing.assert_allclose(other.components_, unit * model.components_, rtol=1e-5)
    wanted = model.score_samples(X) - np.log(unit) * (~np.isnan(X)).sum(axis=1)
    np.testing.assert_allclose(other.score_samples(unit * X), wanted, rtol=1e-6)


def test_scales_of_features_do_not_matter():
    X, _ = simulated(100, 6, 2)
    scales = 10.0 ** np.arange(-3, 3)
    model, other = (FactorAnalysis(2, tol=1e-8).fit(Y) for Y in (X, X * scales))
    np.testing.assert_allclose(other.components_ / scales, model.components_, atol=1e-3)
    assert other.score(X * scales) + np.log(scales).sum() == pytest.approx(
        model.score(X), rel=1e-9
    )


def test_noise_variance_init():
    # (Of a hundred rows one noise variance goes to 0, where sums are rounded.)
    X, _ = simulated(1000, 5, 1)
    best = FactorAnalysis(1, tol=1e-8).fit(X)
    assert best.noise_variance_.min() > 0.1
    near = FactorAnalysis(1, tol=1e-8, noise_variance_init=best.noise_variance_).fit(X)
    assert near.n_iter_ < best.n_iter_
    assert near.loglike_[0] == pytest.approx(best.loglike_[-1], rel=1e-9)
    for bad in ([1.0, 2.0], [1, 1, 1, 1, 0], [1, 1, 1, 1, -2]):
        with pytest.raises(ValueError, match="noise_variance_init must be .* 5 feat"):
            FactorAnalysis(1, noise_variance_init=bad).fit(X)


def test_components_have_a_fixed_sign(digits):
    for model in (FactorAnalysis(5), FactorAnalysis(5, rotation="oblimin")):
        components = model.fit(digits).components_
        largest = np.abs(components).argmax(axis=1)
        assert (components[np.arange(5), largest] > 0).all()


@pytest.mark.parametrize("model", [FactorAnalysis(1), ProbabilisticPCA(1)])
def test_signs_do_not_depend_on_rounding(model):
    """Of two features of one variance the loadings are as large as each other."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 100))
    X = StandardScaler().fit_transform(np.column_stack([x, y - x]))
    for _ in range(30):
        components = model.fit(rng.permutation(X)).components_
        np.testing.assert_array_equal(np.sign(components), [[1, -1]])


def test_warns_where_it_has_not_converged():
    X = load_wine().data
    for solver in ("svd", "em"):
        model = FactorAnalysis(3, max_iter=2, solver=solver)
        with pytest.warns(ConvergenceWarning, match=r"did not converge .*max_iter=2 "):
            model.fit(X)
        assert model.n_iter_ == 2


@pytest.mark.parametrize("missing", ["raise", "latent"])
def test_warns_where_nothing_is_left_to_the_noise(missing):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 20))
    if missing == "latent":
        X[rng.random(X.shape) < 0.1] = np.nan
    for n_components in (None, 7):
        model = FactorAnalysis(n_components, missing=missing, max_iter=5000)
        with pytest.warns(ConvergenceWarning, match="nothing is left to the noise"):
            model.fit(X)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".* nothing is left")
        FactorAnalysis(3, missing=missing, max_iter=5000).fit(X)
        FactorAnalysis(missing=missing, max_iter=5000).fit(X[:, :7])


def test_any_number_of_threads_gives_the_same_model(digits):
    """To 1e-10, since sums of BLAS depend on it."""
    for missing in ("raise", "latent"):
        X = digits if missing == "raise" else with_holes(digits[:200], 0.02)
        models = []
        for n_threads in (1, 2):
            with threadpool_limits(n_threads):
                model = FactorAnalysis(4, missing=missing, tol=10)
                models.append((model.fit(X), model.score_samples(X)))
        (one, one_scores), (two, two_scores) = models
        assert one.n_iter_ == two.n_iter_
        np.testing.assert_allclose(two_scores, one_scores, rtol=1e-10)
        np.testing.assert_allclose(two.components_, one.components_, atol=1e-9)


def blas_threads():
    """Numbers of threads that BLAS libraries take."""
    libraries = ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in libraries}


@pytest.mark.parametrize("small", [True, False])
def test_lbfgs_of_small_problems_stays_on_one_thread(small, monkeypatch):
    """Its own small sums are done by BLAS, and would wait for threads each time."""
    minimize, seen = optimize.minimize, []

    def watched(*args, **kwargs):
        seen.append(blas_threads())
        return minimize(*args, **kwargs)

    monkeypatch.setattr(optimize, "minimize", watched)
    if not small:
        monkeypatch.setattr(_gaussian, "LEAST_WORK", 0)
    X, _ = simulated(200, 12, 3)
    model = FactorAnalysis(3, rotation="oblimin")
    with threadpool_limits(2):
        if max(blas_threads()) == 1:
            pytest.skip("BLAS has one thread")
        model.fit(X)
        assert max(blas_threads()) == 2
    assert seen == [{1} if small else {2}] * 2


def test_float32_is_computed_in_float64(digits):
    X = digits[:500].astype(np.float32)
    model, wanted = FactorAnalysis(5).fit(X), FactorAnalysis(5).fit(X.astype(float))
    assert model.loglike_[-1] == pytest.approx(wanted.loglike_[-1], rel=1e-12)
    np.testing.assert_allclose(model.components_, wanted.components_, atol=1e-6)


def test_factors_of_float32_have_the_digits_of_deviations_from_the_mean(digits):
    # (Of values near 1000, neither of which float32 has.)
    X = digits[:500] / 16 + 1000.3
    model, rows = FactorAnalysis(5).fit(X), X.astype(np.float32)
    wanted = model.transform(rows.astype(float))
    assert model.transform(rows).dtype == np.float32
    np.testing.assert_allclose(model.transform(rows), wanted, atol=2e-5)


@pytest.mark.parametrize("solver", ["svd", "em"])
@pytest.mark.parametrize("iteration", [1, 2, 7])
def test_interrupt_leaves_a_usable_model(solver, iteration, digits, monkeypatch):
    class Interrupted(Progress):
        def __call__(self, loglike):
            super().__call__(loglike)
            if len(self.loglike) == iteration:
                raise KeyboardInterrupt

    monkeypatch.setattr(factor_analysis, "Progress", Interrupted)
    model = FactorAnalysis(10, tol=0, solver=solver)
    with pytest.raises(KeyboardInterrupt):
        model.fit(digits)
    assert model.n_iter_ == len(model.loglike_) == iteration
    loglike = model.score_samples(digits).sum()
    assert loglike == pytest.approx(max(model.loglike_), rel=1e-9)
    assert np.isfinite(model.sample(3)).all()
    assert model.partial_fit(digits[:50]).n_iter_ == iteration + 1


@pytest.mark.parametrize("rotation", ["varimax", "promax"])
@pytest.mark.parametrize("where", ["climb", "rotation"])
def test_an_interrupted_fit_does_not_wait_for_its_rotation(
    where, rotation, digits, monkeypatch
):
    class Interrupted(Progress):
        def __call__(self, loglike):
            super().__call__(loglike)
            if where == "climb" and len(self.loglike) == 3:
                raise KeyboardInterrupt

    def interrupted(*_):
        assert where == "rotation"
        raise KeyboardInterrupt

    monkeypatch.setattr(factor_analysis, "Progress", Interrupted)
    monkeypatch.setattr(factor_analysis, "rotate", interrupted)
    model = FactorAnalysis(5, rotation=rotation, max_iter=10)
    with pytest.raises(KeyboardInterrupt):
        model.fit(digits)
    assert model.n_iter_ == len(model.loglike_)
    assert not hasattr(model, "factor_correlation_")
    loglike = model.score_samples(digits).sum()
    assert loglike == pytest.approx(max(model.loglike_), rel=1e-9)
    # Online training goes on from there, and keeps each of its steps.
    for done in (model.n_iter_ + 1, model.n_iter_ + 2):
        if where == "rotation":
            with pytest.raises(KeyboardInterrupt):
                model.partial_fit(digits[:50])
        else:
            monkeypatch.undo()
            model.partial_fit(digits[:50])
        assert model.n_iter_ == done


@pytest.mark.parametrize("method", ["varimax", "quartimax", "oblimin"])
@pytest.mark.parametrize("general", [0, 0.3])
def test_rotations_leave_a_stationary_minimum(method, general):
    # A general factor and one of two poles, as symmetric blocks of features have them.
    signs = np.repeat([1, -1], 3)
    within = 0.6
    loadings = np.array(
        [
            np.full(6, np.sqrt((within + general) / 2)),
            signs * np.sqrt((within - general) / 2),
        ]
    )
    rotated, correlations = rotate(loadings, method)
    correlations = np.eye(2) if correlations is None else correlations
    np.testing.assert_allclose(
        rotated.T @ correlations @ rotated, loadings.T @ loadings, atol=1e-10
    )
    if method == "oblimin":
        wanted = [np.sqrt(within), 0]
    else:
        apart = np.sqrt(within**2 - general**2)
        wanted = [np.sqrt((within + apart) / 2), np.sqrt((within - apart) / 2)]
    sizes = np.sort(np.abs(rotated), axis=0)[::-1]
    np.testing.assert_allclose(sizes, np.transpose([wanted] * 6), atol=1e-6)


@pytest.mark.parametrize("method", ["varimax", "quartimax"])
def test_orthogonal_rotations_are_the_best_of_all_angles(method):
    rng = np.random.RandomState(0)
    share = 1.0 if method == "varimax" else 0.0

    def criterion(loadings):
        squares = loadings**2
        return (squares**2).sum() - share * (squares.sum(axis=1) ** 2).sum() / 6

    # With communalities nearly alike the criterion is flat in the beginning.
    for size in (1e-4, 1e-2, 1):
        loadings = np.kron(np.eye(2), np.full((1, 3), 0.8))
        loadings = loadings + size * rng.standard_normal((2, 6))
        turn = np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
        found = criterion(rotate(turn @ loadings, method)[0])
        angles = np.linspace(0, np.pi / 2, 2001)
        turns = [[[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]] for a in angles]
        best = max(criterion(np.array(each) @ loadings) for each in turns)
        assert found >= best * (1 - 1e-12)
