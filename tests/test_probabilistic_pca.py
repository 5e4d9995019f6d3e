"""ProbabilisticPCA: closed form, missing values, how many components."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from common import with_holes
from sklearn_ebm import ProbabilisticPCA
from sklearn_ebm.factors._em import ExpectationMaximisation, collect, step
from sklearn_ebm.factors._gaussian import FactorGaussian
from sklearn_ebm.factors.probabilistic_pca import _relevance_step


def simulated(n, n_features, variances, noise=1.0, seed=0):
    """Rows with so much variance along random axes beyond the noise."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(n_features, len(variances))))
    loadings = np.sqrt(variances)[:, np.newaxis] * axes.T
    truth = FactorGaussian(rng.normal(size=n_features), loadings, noise)
    return truth.sample(n, rng), truth


def pca_of_1_over_n(X, n_components):
    """scikit-learn's PCA with the covariance that maximum likelihood has."""
    pca = PCA(n_components, svd_solver="full").fit(X)
    pca.explained_variance_ *= (len(X) - 1) / len(X)
    pca.noise_variance_ *= (len(X) - 1) / len(X)
    return pca


@pytest.mark.parametrize("holes", [False, True])
def test_warns_where_nothing_is_left_to_the_noise(holes):
    X = np.random.default_rng(0).normal(size=(8, 20))
    how = {"max_iter": 20_000}
    if holes:
        X, how["missing"] = with_holes(X, 0.05), "latent"
    for n_components in (None, 7):
        with pytest.warns(ConvergenceWarning, match="nothing is left to the noise"):
            ProbabilisticPCA(n_components, **how).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ProbabilisticPCA(3, **how).fit(X)
        ProbabilisticPCA("ard", **how).fit(X)
        ProbabilisticPCA(**how).fit(X[:, :7])


# ---- The closed form ----


@pytest.mark.parametrize("n_components", [1, 3, 9, 10, None])
def test_likelihood_is_that_of_pca(n_components):
    X, _ = simulated(200, 10, [5, 3, 2])
    model = ProbabilisticPCA(n_components).fit(X)
    pca = pca_of_1_over_n(X, n_components)
    wanted = pca.score_samples(X)
    np.testing.assert_allclose(model.score_samples(X), wanted, rtol=1e-10)
    np.testing.assert_allclose(model.get_covariance(), pca.get_covariance(), rtol=1e-9)
    np.testing.assert_allclose(model.get_precision(), pca.get_precision(), rtol=1e-9)
    assert model.loglike_ == [pytest.approx(len(X) * model.score(X), rel=1e-12)]
    np.testing.assert_allclose(
        model.explained_variance_, pca.explained_variance_, rtol=1e-10
    )
    assert model.n_components_ == len(pca.components_)


@pytest.mark.parametrize("shape", [(200, 10), (20, 50)])
def test_closed_form(shape):
    X, _ = simulated(*shape, [5, 3, 2])
    n, D = shape
    model = ProbabilisticPCA(3).fit(X)
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    noise = values[3:].mean()
    loglike = D * np.log(2 * np.pi) + np.log(values[:3]).sum()
    loglike = -n / 2 * (loglike + (D - 3) * np.log(noise) + D)
    assert model.noise_variance_ == pytest.approx(noise, rel=1e-10)
    assert model.loglike_[0] == pytest.approx(loglike, rel=1e-10)
    squares = (model.components_**2).sum(axis=1)
    np.testing.assert_allclose(squares, values[:3] - noise, rtol=1e-9)


def test_posterior_means_are_shrunk_projections():
    X, _ = simulated(200, 10, [5, 3, 2])
    model, pca = ProbabilisticPCA(3).fit(X), pca_of_1_over_n(X, 3)
    scale = np.sqrt(pca.explained_variance_ - pca.noise_variance_)
    wanted = np.abs(pca.transform(X)) * scale / pca.explained_variance_
    np.testing.assert_allclose(np.abs(model.transform(X)), wanted, rtol=1e-8)
    factors = model.transform(X)
    np.testing.assert_allclose(
        model.inverse_transform(factors), model.mean_ + factors @ model.components_
    )


def test_more_components_than_rows():
    X, _ = simulated(6, 20, [5.0])
    for n_components in (5, 6, 20, None):
        model = ProbabilisticPCA(n_components).fit(X)
        assert model.n_components_ == min(n_components or 6, 6)
        assert np.isfinite(model.score_samples(X)).all()
        assert model.noise_variance_ > 0


def test_without_components():
    X, _ = simulated(50, 4, [2.0])
    model = ProbabilisticPCA(0).fit(X)
    assert model.noise_variance_ == pytest.approx(X.var(axis=0).mean(), rel=1e-12)
    scale = np.sqrt(model.noise_variance_)
    wanted = stats.norm.logpdf(X, X.mean(axis=0), scale).sum(axis=1)
    np.testing.assert_allclose(model.score_samples(X), wanted, rtol=1e-12)


# ---- Expectation maximisation ----


def test_em_reaches_the_closed_form():
    X, _ = simulated(200, 8, [6, 4])
    rng = np.random.default_rng(0)
    start = FactorGaussian(X.mean(axis=0), rng.normal(size=(2, 8)), 1.0)
    for missing in (False, True):
        found = []

        def report(loglike, found=found):
            found.append(loglike)
            return len(found) > 1 and found[-1] - found[-2] < 1e-9

        climb = ExpectationMaximisation(
            X, start, missing, report, lambda m, _: step(m, shared_noise=True)
        )
        climb.run(10_000)
        best = ProbabilisticPCA(2).fit(X)
        assert (np.diff(found) >= -1e-9 * np.abs(found[1:])).all()
        assert found[-1] == pytest.approx(best.loglike_[0], rel=1e-9)
        np.testing.assert_allclose(
            climb.gaussian.covariance(), best.get_covariance(), atol=1e-4
        )


def test_missing_values():
    X, truth = simulated(1000, 8, [6, 4])
    holes = with_holes(X)
    holes[0] = np.nan
    model = ProbabilisticPCA(2, missing="latent").fit(holes)
    gains = np.diff(model.loglike_)
    assert (gains >= -1e-9 * np.abs(model.loglike_[1:])).all()
    assert model.loglike_[-1] == pytest.approx(1000 * model.score(holes), rel=1e-9)
    covariance = model.get_covariance()
    for row, found in zip(holes[1:50], model.score_samples(holes[1:50])):
        seen = ~np.isnan(row)
        wanted = stats.multivariate_normal.logpdf(
            row[seen], model.mean_[seen], covariance[np.ix_(seen, seen)]
        )
        assert found == pytest.approx(wanted, rel=1e-10)
    fresh = truth.sample(4000, np.random.default_rng(3))
    lost = (truth.log_density(fresh) - model.score_samples(fresh)).mean()
    # Half a nat a row for each of 24 parameters over 1000 rows, were all observed.
    assert 0 < lost < 3 * 0.5 * 24 / 1000
    filled = model.impute(holes)
    np.testing.assert_array_equal(filled[~np.isnan(holes)], X[~np.isnan(holes)])
    errors = (filled - X)[1:][np.isnan(holes[1:])]
    assert (errors**2).mean() < 0.8 * X.var(axis=0).mean()


# ---- How many components ----


def test_minka_is_that_of_sklearn():
    for X in (load_wine().data, simulated(300, 12, [8, 5, 3])[0]):
        model = ProbabilisticPCA("mle").fit(X)
        pca = PCA("mle", svd_solver="full").fit(X)
        assert model.n_components_ == len(model.components_) == pca.n_components_
        again = ProbabilisticPCA(int(pca.n_components_)).fit(X)
        np.testing.assert_array_equal(again.components_, model.components_)


@pytest.mark.parametrize("unit", [1e-30, 1e-8, 1e8])
def test_minka_does_not_ask_for_the_unit(unit):
    X = simulated(300, 12, [8, 5, 3])[0]
    wanted = ProbabilisticPCA("mle").fit(X).n_components_
    assert ProbabilisticPCA("mle").fit(unit * X).n_components_ == wanted > 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_components", ["mle", "ard"])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e18 / 3, 1e150])
def test_constant_data_have_no_components(n_components, constant):
    X = np.full((60, 4), constant)
    model = ProbabilisticPCA(n_components).fit(X)
    assert model.n_components_ == 0
    np.testing.assert_array_equal(model.mean_, X[0])
    assert model.loglike_ == [pytest.approx(60 * model.score(X), rel=1e-12)]
    assert model.transform(X).shape == (60, 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_components", ["mle", "ard", 3])
def test_a_large_constant_does_not_vary(n_components):
    X, _ = simulated(60, 5, [9, 4])
    near, far = (np.column_stack([X, np.full(60, c)]) for c in (1.0, 1e18 / 3))
    model = ProbabilisticPCA(n_components).fit(near)
    other = ProbabilisticPCA(n_components).fit(far)
    np.testing.assert_array_equal(other.components_, model.components_)
    assert other.score(far) == model.score(near)


def test_minka_needs_complete_rows():
    X, _ = simulated(5, 12, [8.0])
    with pytest.raises(ValueError, match="n_components='mle' needs as many rows"):
        ProbabilisticPCA("mle").fit(X)
    holes = with_holes(simulated(50, 6, [8.0])[0])
    with pytest.raises(ValueError, match="no missing values"):
        ProbabilisticPCA("mle", missing="latent").fit(holes)


def test_relevance_determination_finds_the_components():
    for n, noise in [(200, 1.0), (1000, 1e-3)]:
        X, _ = simulated(n, 12, [20 * noise, 14 * noise, 9 * noise], noise)
        model = ProbabilisticPCA("ard").fit(X)
        assert model.n_components_ == len(model.components_) == 3
    noise = np.random.default_rng(0).normal(size=(300, 8))
    assert ProbabilisticPCA("ard").fit(noise).n_components_ == 0


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("shape", [(12, 30), (30, 60), (30, 300)], ids=str)
def test_relevance_determination_of_fewer_rows_than_features(shape, missing):
    # Every row could have a component of its own, and no noise.
    # (With a third missing, components of 60 and 40 are hard to find in 300 features.)
    X, _ = simulated(*shape, [200.0, 150.0])
    model = ProbabilisticPCA("ard", missing="latent" if missing else "raise")
    model.fit(with_holes(X) if missing else X)
    assert model.n_components_ == 2
    assert 0.7 < model.noise_variance_ < 1.3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e150, 1e-150])
def test_relevance_determination_does_not_ask_for_the_unit(unit):
    X, _ = simulated(300, 12, [9, 4, 2])
    model, other = (ProbabilisticPCA("ard").fit(Y) for Y in (X, unit * X))
    assert other.n_components_ == model.n_components_ == 3
    wanted = unit * model.components_
    np.testing.assert_allclose(other.components_, wanted, rtol=1e-10)
    wanted = unit**2 * model.noise_variance_
    assert other.noise_variance_ == pytest.approx(wanted, rel=1e-10, abs=0)


@pytest.mark.slow
def test_relevance_determination_is_the_fixed_point_of_em():
    """Bishop's iteration, from the largest maximum-likelihood model."""
    X, _ = simulated(100, 8, [12, 5, 3])
    model = ProbabilisticPCA("ard").fit(X)
    full = ProbabilisticPCA(7).fit(X)
    gaussian = full._gaussian()
    for _ in range(2000):
        moments, _ = collect(gaussian, X, gaussian.mean, False)
        gaussian = _relevance_step(moments, gaussian)
    assert gaussian.n_components == model.n_components_
    assert gaussian.noise[0] == pytest.approx(model.noise_variance_, rel=1e-8)
    np.testing.assert_allclose(
        gaussian.covariance(), model.get_covariance(), rtol=1e-6, atol=1e-6
    )


def test_relevance_determination_with_missing_values():
    X, _ = simulated(400, 10, [20, 14])
    model = ProbabilisticPCA("ard", missing="latent", tol=1e-6).fit(with_holes(X))
    assert model.n_components_ == 2
    complete = ProbabilisticPCA("ard").fit(X)
    assert model.noise_variance_ == pytest.approx(complete.noise_variance_, rel=0.1)
    # Loadings are shrunk.
    likely = ProbabilisticPCA(2).fit(X)
    assert (complete.explained_variance_ < likely.explained_variance_).all()


def test_relevance_of_loadings_that_are_exactly_zero():
    X = np.array([[1, 0, 1, np.nan, 1], [1, 0, np.nan, 1, np.nan]])
    model = ProbabilisticPCA("ard", missing="latent", tol=0.0, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(random_state=0).fit(X)
    assert np.isfinite(model.score(X))


def test_no_components_are_undone_from_a_data_frame_too():
    pytest.importorskip("pandas")
    noise = np.random.default_rng(0).normal(size=(200, 5))
    model = ProbabilisticPCA("ard").fit(noise)
    frame = model.set_output(transform="pandas").transform(noise)
    assert frame.shape == (200, 0)
    found = model.inverse_transform(frame)
    np.testing.assert_allclose(found, np.tile(model.mean_, (200, 1)))
