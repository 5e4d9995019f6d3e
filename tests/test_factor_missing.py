"""What linear factor models say of missing values that they were not told of."""

import copy
import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from common import assert_same_model, fitted_state
from sklearn_ebm import FactorAnalysis, ProbabilisticPCA
from sklearn_ebm.factors import _em, select_n_components
from sklearn_ebm.factors._em import collect, condensed
from sklearn_ebm.factors._gaussian import FactorGaussian, patterns_of

X = np.random.default_rng(0).normal(size=(40, 4))
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
METHODS = [
    (model, method)
    for model in (FactorAnalysis(2), ProbabilisticPCA(2))
    for method in ("fit", "partial_fit", "transform", "score_samples", "score")
    if hasattr(model, method)
]


@pytest.mark.parametrize("model", [FactorAnalysis(2), ProbabilisticPCA(2)])
def test_columns_of_masks_are_those_of_the_data(model):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    mask = pd.DataFrame(False, index=frame.index, columns=frame.columns)
    mask["a"] = True
    model = clone(model).fit(frame)
    filled = model.impute(frame, mask=mask)
    assert (filled[:, 1:] == X[:, 1:]).all()
    assert not (filled[:, 0] == X[:, 0]).any()
    # (pandas has bool of its own, of which NumPy makes objects.)
    own = mask.astype("boolean")
    np.testing.assert_array_equal(model.impute(frame, mask=own), filled)
    own.iloc[0, 1] = pd.NA
    with pytest.raises(ValueError, match="mask must be bool"):
        model.impute(frame, mask=own)
    for turned in (mask[list("dcba")], mask[list("dcba")].iloc[0]):
        with pytest.raises(ValueError, match="mask must have the columns"):
            model.impute(frame, mask=turned)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model, method", METHODS)
def test_the_remedy_for_missing_values_is_named_and_works(model, method, dtype):
    holes = HOLES.astype(dtype)
    model = clone(model).fit(X.astype(dtype))
    message = f"Input X contains NaN. {type(model).__name__} takes .* missing='latent'"
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(holes)
    with pytest.raises(ValueError, match="infinity"):
        getattr(model, method)(np.where(np.isnan(holes), np.inf, holes))
    getattr(model.set_params(missing="latent"), method)(holes)
    with pytest.raises(ValueError, match="infinity"):
        getattr(model, method)(np.where(np.isnan(holes), np.inf, holes))


@pytest.mark.parametrize("missing", ["raise", "latent"])
@pytest.mark.parametrize("model", [FactorAnalysis(2), ProbabilisticPCA(2)])
def test_density_below_all_numbers_is_minus_infinity(model, missing):
    model = clone(model).set_params(missing=missing).fit(X)
    for rows in [X, HOLES] if missing == "latent" else [X]:
        wanted = model.score_samples(rows)
        for scale in (1e160, 1e200, 1e300, 1e307):
            found = model.score_samples(rows * np.c_[[1, scale] * 20])
            np.testing.assert_array_equal(found[::2], wanted[::2])
            np.testing.assert_array_equal(found[1::2], -np.inf)
            assert model.score(rows * scale) == -np.inf


@pytest.mark.parametrize(
    "model", [FactorAnalysis(0), ProbabilisticPCA(0), ProbabilisticPCA("ard")]
)
def test_a_model_may_be_left_without_factors(model):
    noise = np.random.default_rng(2).normal(size=(300, 4))
    noise[np.random.default_rng(3).random(noise.shape) < 0.1] = np.nan
    noise[0] = np.nan
    model = clone(model).set_params(missing="latent").fit(noise)
    assert model.components_.shape == (0, 4)
    np.testing.assert_allclose(model.mean_, np.nanmean(noise, axis=0))
    shared = np.ndim(model.noise_variance_) == 0
    residual = noise - model.mean_
    variances = np.nanmean(residual**2, axis=None if shared else 0)
    np.testing.assert_allclose(model.noise_variance_, variances)
    wanted = np.nansum(norm.logpdf(residual, scale=np.sqrt(variances)), axis=1)
    np.testing.assert_allclose(model.score_samples(noise), wanted)
    factors = model.transform(noise)
    assert factors.shape == (300, 0)
    means = np.tile(model.mean_, (300, 1))
    np.testing.assert_array_equal(model.inverse_transform(factors), means)
    wanted = np.where(np.isnan(noise), model.mean_, noise)
    np.testing.assert_allclose(model.impute(noise), wanted)


def test_no_factors_may_be_a_candidate_where_values_are_missing():
    found = select_n_components(FactorAnalysis(missing="latent"), HOLES, [0, 1])
    assert np.isfinite(found.scores).all()


def test_values_whose_sum_is_beyond_all_numbers_are_not_refused():
    model = FactorAnalysis(2).fit(X)
    assert np.isfinite(model.transform(np.full((3, 4), 1e307) * [1, 1, 1, -1])).all()
    assert np.isfinite(model.transform(np.full((30, 4), 1e307))).all()


def without_noise(n_samples, n_features, rank, share):
    """Rows in a space of fewer dimensions, and the same with a share missing."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_samples, rank)) @ rng.normal(size=(rank, n_features))
    return rows, np.where(rng.random(rows.shape) < share, np.nan, rows)


@pytest.mark.parametrize("n_components", [3, 5, "ard"])
def test_rows_without_noise_are_completed(n_components):
    rows, holes = without_noise(60, 8, 3, 0.2)
    model = ProbabilisticPCA(n_components, missing="latent").fit(holes)
    assert model.n_iter_ < model.max_iter
    # Of the likelihood, at a noise of 1e-12 of the variance, some digits are left.
    assert (np.diff(model.loglike_) >= -1e-7 * np.abs(model.loglike_[1:])).all()
    assert 60 * model.score(holes) == pytest.approx(model.loglike_[-1], rel=1e-7)
    np.testing.assert_allclose(model.impute(holes), rows, atol=1e-8)


def test_draws_where_only_some_factors_are_known():
    rows, holes = without_noise(100, 40, 20, 0.5)
    model = ProbabilisticPCA(20).fit(rows)
    drawn = model.impute(holes, method="sample", random_state=0)
    np.testing.assert_array_equal(drawn[~np.isnan(holes)], rows[~np.isnan(holes)])
    # Where the observed values determine the others, there is one draw.
    some = np.where(np.arange(40) < 30, rows, np.nan)
    drawn = model.impute(some, method="sample", random_state=0)
    np.testing.assert_allclose(drawn, rows, atol=1e-3)


def test_the_first_step_climbs_where_the_noise_is_at_its_bound():
    _, holes = without_noise(40, 6, 6, 0.3)
    holes *= [1e-6, 1e-5, 1e-4, 1, 1e4, 1e5]
    model = ProbabilisticPCA(5, missing="latent").fit(holes)
    # (At a noise of 1e-13 of the variance, rounding is more than later steps gain.)
    assert (np.diff(model.loglike_[:6]) > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_squares_that_float32_cannot_hold(seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 6))
    Z += 0.5 * rng.normal(size=(500, 6))
    Z[::3, 1] = np.nan
    model, Z = ProbabilisticPCA(2, missing="latent"), (1e-24 * Z).astype(np.float32)
    wanted = model.fit(Z.astype(np.float64)).noise_variance_
    assert model.fit(Z).noise_variance_ / wanted == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("shape", [(40, 4), (4, 40), (20, 1200)])
@pytest.mark.parametrize("holes", [True, False])
@pytest.mark.parametrize("scale, dtype", [(1e20, np.float32), (1e160, np.float64)])
@pytest.mark.parametrize(
    "model, method", [pair for pair in METHODS if pair[1].endswith("fit")]
)
def test_variances_beyond_all_numbers(model, method, scale, dtype, holes, shape):
    rows = np.random.default_rng(0).normal(size=shape)
    if holes:
        rows[::3, 1] = np.nan
    twin = clone(model).set_params(missing="latent")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # (Of larger floats there are none beside float64.)
        more = "" if dtype == np.float64 else ", or pass it as float64"
        with pytest.raises(
            ValueError, match=rf"the numbers of {np.dtype(dtype)}. Scale X{more}\.$"
        ):
            getattr(twin, method)((scale * rows).astype(dtype))
    assert not fitted_state(twin)


def test_a_batch_with_variances_beyond_float32_leaves_the_model_as_it_was():
    rows = X.astype(np.float32)
    model = FactorAnalysis(2).partial_fit(rows)
    before = copy.deepcopy(model)
    with pytest.raises(ValueError, match="beyond the numbers of float32"):
        model.partial_fit(np.float32(1e20) * rows)
    assert_same_model(model, before)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("shape", [(1, 1), (500, 3), (300, 64), (300, 65), (90, 200)])
def test_rows_are_sorted_by_what_they_miss(shape, order):
    observed = (np.random.default_rng(0).random(shape) < 0.98).copy(order)
    first, pattern = patterns_of(observed)
    np.testing.assert_array_equal(observed[first][pattern], observed)
    assert len(first) == len(np.unique(observed, axis=0))


def of_few_patterns(noise=0.5, offset=0.0):
    """Rows, most of which lack the same as others do, and a model of them."""
    rng = np.random.default_rng(4)
    truth = FactorGaussian(np.full(5, offset), rng.normal(size=(2, 5)), noise**2)
    rows = truth.sample(400, rng)
    rows[100:200, 1] = rows[150:300, 3] = np.nan
    rows[300, :4] = np.nan  # the only one
    rows[301:305] = np.nan
    return rows, truth


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noise, offset", [(0.5, 0), (1e-5, 0), (0.5, 1e6)])
def test_rows_that_lack_the_same_are_condensed(noise, offset, dtype):
    rows, model = of_few_patterns(noise, offset)
    rows = rows.astype(dtype)
    model = FactorGaussian(
        np.nanmean(rows, axis=0, dtype=float), model.loadings, model.noise
    )
    few, ones = condensed(rows, 3)
    assert len(few) == 1 + (1 + 5) + 2 * (1 + 4) + (1 + 3) + 1
    centre = model.mean + 0.1
    found, loglike = collect(model, few, centre, True, ones)
    wanted, same_loglike = collect(model, rows, centre, True)
    assert loglike == pytest.approx(same_loglike, rel=1e-10)
    for name, value in vars(wanted).items():
        atol = 1e-10 * np.abs(value).max()
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-10, atol=atol)


@pytest.mark.parametrize("noise, offset", [(0.5, 0), (1e-3, 0), (0.5, 1e6)])
@pytest.mark.parametrize(
    "model", [FactorAnalysis(2), FactorAnalysis(0), ProbabilisticPCA("ard")]
)
def test_a_fit_to_condensed_rows_is_that_to_all(model, noise, offset, monkeypatch):
    rows, _ = of_few_patterns(noise, offset)
    model = clone(model).set_params(missing="latent", max_iter=20, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = clone(model).fit(rows)
        monkeypatch.setattr(_em, "WIDEST", 0)
        wanted = clone(model).fit(rows)
    np.testing.assert_allclose(found.loglike_, wanted.loglike_, rtol=1e-9)
    np.testing.assert_allclose(found.mean_, wanted.mean_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-9)
    # (That it is a difference of variances has taken digits from it.)
    np.testing.assert_allclose(
        found.noise_variance_, wanted.noise_variance_, rtol=1e-9, atol=1e-13
    )


def test_a_constant_feature_has_no_variance_where_rows_are_condensed():
    rows, _ = of_few_patterns()
    rows = np.column_stack([rows, np.where(np.isnan(rows[:, 1]), np.nan, 0.1)])
    model = FactorAnalysis(2, missing="latent").fit(rows)
    assert model.noise_variance_[-1] == pytest.approx(1e-12)
    assert np.abs(model.components_[:, -1]).max() < 1e-6


def test_condensed_rows_are_the_same_on_any_number_of_threads():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(20_000, 120)) @ rng.normal(size=(120, 120))
    rows[::2, 3] = np.nan
    with threadpool_limits(1):
        wanted = condensed(rows, 3)
    with threadpool_limits(2):
        found = condensed(rows, 3)
    for one, other in zip(found, wanted):
        np.testing.assert_array_equal(one, other)


def test_rows_that_few_others_are_like_stay_as_they_are():
    few, ones = condensed(HOLES[:9], 3)
    np.testing.assert_array_equal(few, HOLES[:9])
    np.testing.assert_array_equal(ones, np.ones(9))


@pytest.mark.parametrize("model", [FactorAnalysis(1), ProbabilisticPCA(1)])
def test_missing_values_in_columns_that_lie_one_after_the_other(model):
    holes = np.random.default_rng(2).normal(size=(60, 12))
    holes[::3, 1] = holes[1::4, 10] = np.nan
    model = clone(model).set_params(missing="latent")
    wanted = clone(model).fit(holes).score_samples(holes)
    # As tables with names of columns have them.
    holes = np.asfortranarray(holes)
    np.testing.assert_allclose(model.fit(holes).score_samples(holes), wanted)


@pytest.mark.parametrize("seed", range(2))
def test_noise_that_vanishes_by_chance_is_warned_of(seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 40)) / 2
    Z += 0.7 * rng.normal(size=Z.shape)
    missing = rng.random(Z.shape)
    few, most = (np.where(missing < share, np.nan, Z) for share in (0.9, 0.3))
    with pytest.warns(ConvergenceWarning, match="40 features .* next to no noise"):
        FactorAnalysis(3, missing="latent").fit(few)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FactorAnalysis(3, missing="latent").fit(most)


def _of_factors(seed, n_rows, n_features, n_factors, missing):
    """Rows with values missing, and others of the same distribution without."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(n_factors, n_features))
    X = rng.normal(size=(n_rows + 2000, n_factors)) @ loadings
    X += rng.normal(size=X.shape) * np.sqrt(rng.uniform(0.2, 1, n_features))
    holes = X[:n_rows]
    holes[rng.random(holes.shape) < missing] = np.nan
    return holes, X[n_rows:]


@pytest.mark.parametrize("seed", range(3))
def test_factors_of_too_few_values_are_warned_of(seed):
    X, _ = _of_factors(seed, 60, 20, 4, 0.5)
    with pytest.warns(ConvergenceWarning, match="from too few values: .* of 20 feat"):
        FactorAnalysis(4, missing="latent", tol=0.1).fit(X)
    X, others = _of_factors(seed, 300, 10, 3, 0.85)
    with pytest.warns(ConvergenceWarning, match="(too|The) few values") as caught:
        model = FactorAnalysis(3, missing="latent").fit(X)
    assert sum("few values" in str(each.message) for each in caught) == 1
    # As it advises.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = select_n_components(model, X, range(3), criterion="cv")
    fewer = clone(model).set_params(n_components=found.n_components).fit(X)
    assert model.score(others) + 1 < fewer.score(others)


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_all_share_asks_for_fewer_values(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        X, _ = _of_factors(seed, 60, 20, 4, 0.5)
        ProbabilisticPCA(4, missing="latent").fit(X)
    X, _ = _of_factors(seed, 200, 40, 3, 0.9)
    with pytest.warns(ConvergenceWarning, match="from too few values: on average"):
        ProbabilisticPCA(3, missing="latent").fit(X)


@pytest.mark.parametrize("model", [FactorAnalysis, ProbabilisticPCA])
@pytest.mark.parametrize(
    "enough", [(60, 20, 4, 0.1), (200, 40, 8, 0.5), (200, 40, None, 0.02)]
)
def test_values_that_are_enough_have_no_warning(model, enough):
    n_rows, n_features, n_factors, missing = enough
    X, _ = _of_factors(0, n_rows, n_features, n_factors or 8, missing)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model(n_factors, missing="latent", tol=1).fit(X)
