"""ICA: densities, gradients, likelihood, separation, and what FastICA promises."""

import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import cumulative_trapezoid, quad
from scipy.optimize import approx_fprime
from sklearn.decomposition import PCA, FastICA
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from reference import generator
from sklearn_ebm import ICA
from sklearn_ebm.factors._ica_densities import (
    ADAPTIVE,
    DENSITIES,
    STUDENT_DF,
    Sources,
)
from sklearn_ebm.factors._ica_likelihood import (
    LEAST_CURVATURE,
    SCALE_ROWS,
    best_scale,
    choose,
    fitted,
    leave_saddle,
    moments,
    precondition,
)
from sklearn_ebm.factors._ica_score_matching import objective

MIXED = ["logistic", "subgaussian", "student", "laplace"]
FIXED = ["logistic", "laplace", "student"]
SETTINGS = [
    *[("likelihood", density) for density in ["adaptive", *FIXED]],
    *[("score_matching", density) for density in ["logistic", "student"]],
]
every_density = pytest.mark.parametrize("name", DENSITIES)
every_setting = pytest.mark.parametrize("objective_, density", SETTINGS)
seeds = pytest.mark.parametrize("seed", range(3))


def sources_of(kind, n, k, seed):
    """Independent sources of unit variance, as rows."""
    rng = np.random.default_rng(seed)
    peaked = rng.laplace(size=(n, k)) / np.sqrt(2)
    flat = rng.uniform(-1, 1, size=(n, k)) * np.sqrt(3)
    choice = {"super": 0, "sub": 1, "mixed": np.arange(k) % 2}[kind]
    return np.where(choice, flat, peaked)


def amari(P):
    """Amari distance of P from a scaled permutation; 0 to 1."""
    P, k = np.abs(P), len(P)
    rows = (P / P.max(axis=1, keepdims=True)).sum() - k
    columns = (P / P.max(axis=0, keepdims=True)).sum() - k
    return (rows + columns) / (2 * k * (k - 1))


def fit(X, **parameters):
    """A model fitted without regard to convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ICA(random_state=0, **parameters).fit(X)


def mixtures(kind="mixed", n=2000, k=3, seed=0):
    """Mixed sources on an unusual scale, far from zero; and the mixing matrix."""
    A = 3 * np.random.default_rng(seed + 100).normal(size=(k, k))
    return sources_of(kind, n, k, seed) @ A.T + 10, A


# ---- Densities ----


@every_density
def test_density_is_normalised(name):
    total = quad(lambda y: np.exp(-DENSITIES[name].evaluate(y)[0]), -np.inf, np.inf)[0]
    assert_allclose(total, 1, rtol=1e-7)


@every_density
def test_derivatives_of_energy(name):
    density, y, h = DENSITIES[name], np.linspace(-9, 9, 181) + 0.013, 1e-5
    low, high = density.evaluate(y - h), density.evaluate(y + h)
    _, first, second = density.evaluate(y)
    for found, n in [(first, 0), (second, 1)]:
        assert_allclose(found, (high[n] - low[n]) / (2 * h), rtol=1e-6, atol=1e-8)
    third = (high[2] - low[2]) / (2 * h)
    assert_allclose(density.third(y), third, rtol=1e-6, atol=1e-6)


def skewed(y):
    """Log-density of two Gaussians, 1.8 apart, of zero mean and excess kurtosis."""
    rare = (1 - np.sqrt(1 / 3)) / 2
    means, weights = 1.8 * np.array([1 - rare, -rare]), [rare, 1 - rare]
    parts = [stats.norm.logpdf(y, mean) for mean in means]
    return np.logaddexp(*(np.log(weights)[:, np.newaxis] + parts))


def test_densities_that_scipy_knows():
    y = np.linspace(-30, 30, 61)
    known = {
        "logistic": stats.logistic.logpdf(y),
        "student": stats.t.logpdf(y, STUDENT_DF),
        "subgaussian": np.logaddexp(stats.norm.logpdf(y, 1), stats.norm.logpdf(y, -1))
        - np.log(2),
        "right-skewed": skewed(y),
        "left-skewed": skewed(-y),
    }
    for name, wanted in known.items():
        assert_allclose(-DENSITIES[name].evaluate(y)[0], wanted, rtol=1e-12)
        scale = np.sqrt(DENSITIES[name].variance)
        draws = DENSITIES[name].draw(np.random.RandomState(0), 10**6)
        if name != "student":  # whose sample variance has no variance
            assert_allclose(draws.std(), scale, rtol=0.01)


@every_density
def test_densities_have_mean_zero(name):
    def weighted(y):
        return y * np.exp(-DENSITIES[name].evaluate(y)[0])

    assert abs(quad(weighted, -np.inf, np.inf)[0]) < 1e-9


def test_skewed_densities_have_no_excess_kurtosis():
    def moment(power):
        def weighted(y):
            return y**power * np.exp(-DENSITIES["right-skewed"].evaluate(y)[0])

        return quad(weighted, -np.inf, np.inf)[0]

    variance = moment(2)
    assert_allclose(variance, DENSITIES["right-skewed"].variance, rtol=1e-9)
    assert_allclose(moment(4), 3 * variance**2, rtol=1e-9)
    assert moment(3) > 0.25 * variance**1.5


def test_no_adaptive_density_is_the_first_choice_for_a_gaussian():
    y = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)[:, np.newaxis]
    lost = [fitted(y, [name])[1][0] for name in ADAPTIVE] - stats.norm.entropy()
    assert np.all((lost > 0.009) & (lost < 0.0115))


@pytest.mark.parametrize("seed", range(3))
def test_sources_get_the_density_that_they_have(seed):
    rng = np.random.default_rng(seed)
    S = [rng.laplace(size=9000), rng.standard_t(3, 9000), rng.logistic(size=9000)]
    S = np.column_stack([*S, rng.uniform(size=9000)])
    A = rng.normal(size=(4, 4))
    model = ICA(random_state=seed).fit(S @ A.T)
    source = np.abs(model.components_ @ A).argmax(axis=1)
    assert sorted(source) == [0, 1, 2, 3]
    wanted = np.array(["laplace", "student", "logistic", "subgaussian"])
    assert model.densities_ == wanted[source].tolist()


@every_density
def test_draws_follow_the_density(name):
    def cdf(y):
        return quad(lambda t: np.exp(-DENSITIES[name].evaluate(t)[0]), -np.inf, y)[0]

    draws = DENSITIES[name].draw(np.random.RandomState(1), 20_000)
    # In 20 cells that the density makes equally likely, found on a fine grid.
    grid = np.linspace(-30, 30, 20_001)
    mass = np.cumsum(np.exp(-DENSITIES[name].evaluate(grid)[0]))
    edges = np.interp(np.arange(1, 20) / 20, mass / mass[-1], grid)
    wanted = np.diff([0, *map(cdf, edges), 1])
    found = np.bincount(np.searchsorted(edges, draws), minlength=20)
    assert stats.chisquare(found, wanted * len(draws)).pvalue > 1e-6


def test_sources_of_several_densities():
    Y = np.random.default_rng(0).normal(size=(7, 4))
    sources = Sources(MIXED)
    for n, name in enumerate(MIXED):
        alone = DENSITIES[name]
        for all_, one in zip(sources.evaluate(Y), alone.evaluate(Y[:, n])):
            assert_allclose(all_[:, n], one)
        assert_allclose(sources.third(Y)[:, n], alone.third(Y[:, n]))


@every_density
def test_best_scale_is_a_maximum(name):
    Y = sources_of("mixed", 3000, 4, 0)
    density = DENSITIES[name]
    scale = best_scale(Y, [name] * 4)

    def loss(factor):
        return density.evaluate(Y * scale * factor)[0].mean(axis=0) - np.log(factor)

    assert (loss(1.0) < loss(1.01)).all()
    assert (loss(1.0) < loss(0.99)).all()


# ---- Gradients and Hessians ----


def loss_near(Z, W, sources):
    """The loss as a function of a relative step."""
    k = len(W)
    return lambda step: moments(Z, (np.eye(k) + step) @ W, sources).loss


@pytest.fixture(scope="module")
def setting():
    """Data, an unmixing matrix and sources with all densities."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 4)) ** 3, rng.normal(size=(4, 4)), Sources(MIXED)


def test_loss_is_the_negative_log_likelihood(setting):
    Z, W, sources = setting
    log_p = -sources.evaluate(Z @ W.T)[0].sum(axis=1) + np.log(abs(np.linalg.det(W)))
    assert_allclose(moments(*setting).loss, -log_p.mean(), rtol=1e-12)


def test_relative_gradient_is_that_of_finite_differences(setting):
    loss, h = loss_near(*setting), 1e-6
    found = moments(*setting).gradient
    for i, j in np.ndindex(4, 4):
        step = np.zeros((4, 4))
        step[i, j] = h
        wanted = (loss(step) - loss(-step)) / (2 * h)
        assert_allclose(found[i, j], wanted, rtol=1e-6, atol=1e-7)


def test_relative_hessian_blocks_are_those_of_finite_differences(setting):
    loss, h = loss_near(*setting), 1e-4
    curvature = moments(*setting).curvature

    def second(a, b):
        total = 0
        for s, t in [(1, 1), (1, -1), (-1, 1), (-1, -1)]:
            step = np.zeros((4, 4))
            step[a] += s * h
            step[b] += t * h
            total += s * t * loss(step)
        return total / (4 * h * h)

    for i, j in np.ndindex(4, 4):
        wanted = curvature[i, j] + (i == j)
        assert_allclose(second((i, j), (i, j)), wanted, rtol=1e-4, atol=1e-5)
        if i != j:
            assert_allclose(second((i, j), (j, i)), 1, rtol=1e-4)


def test_preconditioner_solves_the_blocks():
    rng = np.random.default_rng(0)
    gradient, curvature = rng.normal(size=(5, 5)), 0.4 + 3 * rng.random((5, 5))
    step = precondition(gradient, curvature)
    shifted = 0
    for i, j in np.ndindex(5, 5):
        if i == j:
            assert_allclose(step[i, i] * (curvature[i, i] + 1), gradient[i, i])
            continue
        block = np.array([[curvature[i, j], 1], [1, curvature[j, i]]])
        least = np.linalg.eigvalsh(block)[0]
        if least < LEAST_CURVATURE:
            block += (LEAST_CURVATURE - least) * np.eye(2)
            shifted += 1
        found = block @ [step[i, j], step[j, i]]
        assert_allclose(found, [gradient[i, j], gradient[j, i]])
    assert 0 < shifted < 20
    curvature -= 5  # nothing is convex here
    assert np.vdot(precondition(gradient, curvature), gradient) > 0


@pytest.mark.parametrize("k", [2, 4, 6])
def test_score_matching_objective_and_gradient(k):
    rng = np.random.default_rng(0)
    Z, W = rng.normal(size=(50, 4)), rng.normal(size=(k, 4))
    sources = Sources([*MIXED, *MIXED][:k])
    value, gradient = objective(Z, W, sources)

    def log_p(z):
        return -sources.evaluate(z @ W.T)[0].sum(axis=-1)

    wanted, h = 0, 1e-4
    for step in h * np.eye(4):
        low, here, high = log_p(Z - step), log_p(Z), log_p(Z + step)
        wanted += (high - 2 * here + low) / h**2 + ((high - low) / (2 * h)) ** 2 / 2
    assert_allclose(value, wanted.mean(), rtol=1e-5)
    differences = approx_fprime(
        W.ravel(), lambda w: objective(Z, w.reshape(k, 4), sources)[0], 1e-7
    )
    assert_allclose(gradient.ravel(), differences, rtol=1e-4, atol=1e-5)


def test_score_matching_is_least_at_the_truth():
    # E[laplacian + |gradient|^2] = 0 under the model itself.
    sources, W = Sources(MIXED), np.random.default_rng(0).normal(size=(4, 4))
    Y = sources.draw(20_000, np.random.RandomState(0))
    _, score, slope = sources.evaluate(Y)
    terms = ((score @ W) ** 2).sum(axis=1) - slope @ (W * W).sum(axis=1)
    assert stats.ttest_1samp(terms, 0).pvalue > 1e-6
    Z = Y @ np.linalg.inv(W).T
    half = ((score @ W) ** 2).sum(axis=1).mean() / 2
    assert_allclose(objective(Z, W, sources)[0], terms.mean() - half, rtol=1e-9)


# ---- Separation ----


@seeds
@pytest.mark.parametrize("k", [2, 5, 8])
@pytest.mark.parametrize("kind", ["super", "sub", "mixed"])
def test_adaptive_separates_all_kinds(kind, k, seed):
    X, A = mixtures(kind, 5000, k, seed)
    model = ICA(random_state=seed).fit(X)
    assert amari(model.components_ @ A) < 0.05
    wanted = {"super": 0, "sub": k, "mixed": k // 2}[kind]
    assert model.densities_.count("subgaussian") == wanted


SKEWED = {
    "bits": lambda rng, shape: rng.random(shape) < 0.2,
    "counts": lambda rng, shape: rng.poisson(1, shape),
    "beta": lambda rng, shape: rng.beta(2, 5, shape),
    "half a normal": lambda rng, shape: np.abs(rng.normal(size=shape)),
}


@seeds
@pytest.mark.parametrize("k", [2, 5, 8])
@pytest.mark.parametrize("kind", SKEWED)
def test_adaptive_separates_skewed_sources(kind, k, seed):
    """Sources without much excess kurtosis, some of them with the other sign."""
    rng = np.random.default_rng(seed)
    S = SKEWED[kind](rng, (5000, k)) * rng.choice([-1.0, 1.0], k)
    A = rng.normal(size=(k, k))
    model = ICA(random_state=seed).fit(S @ A.T + 3)
    assert amari(model.components_ @ A) < 0.05
    # A density leans as its source does, whatever its sign has become.
    leans = stats.skew(model.transform(S @ A.T + 3)) > 0
    wanted = np.where(leans, "right-skewed", "left-skewed")
    assert model.densities_ == wanted.tolist()


def test_all_rows_have_the_last_word_on_densities():
    n = 4 * SCALE_ROWS
    peaked, flat = (sources_of(kind, n, 1, 0) for kind in ("super", "sub"))
    # The first source is sub-Gaussian on the rows that are looked at first only.
    few = np.arange(n)[:, np.newaxis] % 4 == 0
    Z = np.column_stack([np.where(few, flat, peaked), flat, peaked])
    W = np.diag(best_scale(Z, ["logistic"] * 3))
    moved, sources = choose(Z, W, Sources(["logistic"] * 3))
    assert sources.names == ["logistic", "logistic", "subgaussian"]
    kept = np.abs(moved[:2]) > 0
    assert kept.tolist() == [[True, False, False], [False, False, True]]
    before = moments(Z, W, Sources(["logistic"] * 3)).loss
    assert moments(Z, moved, sources).loss < before
    assert choose(Z[:, :1].copy(), W[:1, :1], Sources(["logistic"]))[1] is None


@seeds
@every_setting
def test_super_gaussian_sources_by_every_method(objective_, density, seed):
    X, A = mixtures("super", 5000, 4, seed)
    model = ICA(objective=objective_, density=density, random_state=seed).fit(X)
    assert amari(model.components_ @ A) < 0.05


@seeds
def test_no_worse_than_fastica(seed):
    X, A = mixtures("mixed", 3000, 5, seed)
    model = ICA(random_state=0).fit(X)
    fast = FastICA(random_state=0, max_iter=1000).fit(X)
    W = fast.components_[np.argmax(np.abs(fast.components_ @ A), axis=0)]
    names = np.array(model.densities_)[np.argmax(np.abs(model.components_ @ A), axis=0)]
    Y = (X - fast.mean_) @ W.T
    for n, name in enumerate(names):  # give its rows their best scales
        W[n] *= best_scale(Y[:, [n]], [name])
    rival = -moments(X - fast.mean_, W, Sources(names)).loss
    assert model.score(X) >= rival


@pytest.mark.parametrize("density", ["adaptive", "logistic", "student"])
def test_equivariance(density):
    kind = "mixed" if density == "adaptive" else "super"
    X, _ = mixtures(kind, 3000, 4)
    M = np.random.default_rng(5).normal(size=(4, 4))
    model = fit(X, density=density, tol=1e-9)
    other = fit(X @ M + 1, density=density, tol=1e-9)
    P = np.corrcoef(model.transform(X).T, other.transform(X @ M + 1).T)[:4, 4:]
    order, sign = np.abs(P).argmax(axis=1), np.sign(P[np.abs(P) > 0.9])
    assert sorted(order) == [0, 1, 2, 3]
    moved = other.components_[order] @ M.T * sign[:, np.newaxis]
    assert_allclose(moved, model.components_, rtol=1e-6, atol=1e-7)
    volume = np.linalg.slogdet(M)[1]
    assert_allclose(other.score(X @ M + 1), model.score(X) - volume, rtol=1e-10)


@pytest.mark.parametrize("density", ["adaptive", *FIXED])
@pytest.mark.parametrize("kind", ["super", "sub"])
@pytest.mark.parametrize("near", [True, False])
def test_likelihood_never_falls(density, kind, near):
    X, _ = mixtures(kind, 1000, 6)
    far = {} if near else {"w_init": np.eye(6), "whiten": False}
    model = fit(X - X.mean(axis=0), density=density, tol=1e-8, **far)
    history = np.array(model.history_["log_likelihood"])
    assert len(history) == model.n_iter_ > 2
    assert np.diff(history).min() >= -1e-13 * np.abs(history).max()
    assert near or history[-1] > history[0] + 0.01
    assert_allclose(history[-1], model.score(X - X.mean(axis=0)), rtol=1e-10)


def test_gradient_vanishes_at_the_maximum():
    X, _ = mixtures()
    model = ICA(tol=1e-8, random_state=0).fit(X)
    assert model.history_["gradient"][-1] < 1e-8
    W = model.components_ / model.source_scale_[:, np.newaxis]
    found = moments(X - model.mean_, W, Sources(model.densities_))
    assert_allclose(found.gradient, 0, atol=1e-7)


def test_float32_fits_as_well():
    X, _ = mixtures()
    double, single = (ICA(random_state=0).fit(X.astype(t)) for t in ("f8", "f4"))
    assert_allclose(single.score(X), double.score(X), rtol=1e-5)


# ---- The density of the data ----


def tiny_model(n_features, density, **parameters):
    X, _ = mixtures("super", 500, n_features)
    return fit(X / 10, density=density, **parameters), X / 10


@pytest.mark.thinned(5)
@pytest.mark.parametrize("density", ["adaptive", *FIXED])
@pytest.mark.parametrize("whiten", ["unit-variance", "arbitrary-variance", False])
def test_density_integrates_to_one_in_one_dimension(density, whiten):
    model, _ = tiny_model(1, density, whiten=whiten)
    centre, width = getattr(model, "mean_", [0])[0], 1 / model.components_[0, 0]
    parts = [
        quad(lambda x: np.exp(model.score_samples([[x]])[0]), *ends)[0]
        for ends in [
            (-np.inf, centre),
            (centre, centre + width),
            (centre + width, np.inf),
        ]
    ]
    assert_allclose(sum(parts), 1, rtol=1e-5)


@pytest.mark.parametrize("density", ["adaptive", "laplace"])
@pytest.mark.parametrize("n_components", [1, 2])
def test_density_integrates_to_one_in_two_dimensions(density, n_components):
    model, _ = tiny_model(2, density, n_components=n_components)
    # A square around the mean, along the principal components.
    axes = PCA(whiten=True).fit(model.sample(1000, random_state=0))
    scale = np.sqrt(axes.explained_variance_)
    u = np.linspace(-25, 25, 901)
    grid = np.stack(np.meshgrid(u, u, indexing="ij"), axis=-1).reshape(-1, 2)
    X = (grid * scale) @ axes.components_ + model.mean_
    total = np.exp(model.score_samples(X)).sum() * (u[1] - u[0]) ** 2 * scale.prod()
    assert_allclose(total, 1, rtol=1e-3)


@pytest.mark.parametrize("whiten", ["unit-variance", "arbitrary-variance", False])
def test_log_likelihood_by_hand(whiten):
    X, _ = mixtures()
    model = fit(X, whiten=whiten)
    W = model.components_ / model.source_scale_[:, np.newaxis]
    Y = (X - getattr(model, "mean_", 0)) @ W.T
    energy = sum(
        DENSITIES[name].evaluate(Y[:, n])[0] for n, name in enumerate(model.densities_)
    )
    assert_allclose(model.energy(X), energy, rtol=1e-9)
    wanted = -energy + np.log(abs(np.linalg.det(W)))
    assert_allclose(model.score_samples(X), wanted, rtol=1e-9)
    assert model.noise_variance_ == 0


def test_fewer_components_leave_gaussian_noise():
    X, _ = mixtures("mixed", 2000, 5)
    model = fit(X, n_components=2)
    pca = PCA().fit(X)
    variances = pca.explained_variance_ * (len(X) - 1) / len(X)
    assert_allclose(model.noise_variance_, variances[2:].mean())
    scores = pca.transform(X)
    inside = fit(scores[:, :2]).score_samples(scores[:, :2])
    outside = stats.norm.logpdf(scores[:, 2:], scale=np.sqrt(model.noise_variance_))
    assert_allclose(model.score_samples(X), inside + outside.sum(axis=1), rtol=1e-6)
    assert_allclose(model.history_["log_likelihood"][-1], model.score(X), rtol=1e-9)


@pytest.mark.parametrize("n_components", [2, 4])
def test_samples_follow_the_model(n_components):
    X, _ = mixtures("mixed", 3000, 4)
    model = fit(X, n_components=n_components)
    drawn = model.sample(20_000, random_state=0)
    S = model.transform(drawn) / model.source_scale_
    for n, name in enumerate(model.densities_):
        grid = np.linspace(-60, 60, 120_001)
        density = np.exp(-DENSITIES[name].evaluate(grid)[0])
        mass = cumulative_trapezoid(density, grid, initial=0)
        law = partial(np.interp, xp=grid, fp=mass)
        assert stats.kstest(S[:, n], law).pvalue > 1e-6
    correlations = stats.spearmanr(S).statistic
    off = np.atleast_2d(correlations)[0, 1:] if n_components > 2 else correlations
    assert np.all(np.abs(off) < 5 / np.sqrt(len(S)))
    if n_components < 4:
        rest = drawn - model.inverse_transform(model.transform(drawn))
        wanted = model.noise_variance_ * (4 - n_components)
        spread = wanted * np.sqrt(2 / (4 - n_components) / len(rest))
        assert abs((rest**2).sum(axis=1).mean() - wanted) < 5 * spread


def test_samples_are_fresh_and_reproducible():
    X, _ = mixtures()
    model, twin = fit(X), fit(X)
    first, second = model.sample(5), model.sample(5)
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(first, twin.sample(5))
    np.testing.assert_array_equal(second, twin.sample(5))
    again = [model.sample(5, random_state=3) for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_every_fit_begins_the_samples_anew():
    X, _ = mixtures()
    model = fit(X)
    wanted = model.sample(5)
    np.testing.assert_array_equal(model.fit(X).sample(5), wanted)
    model.set_params(random_state=1).fit(X)
    twin = ICA(random_state=1).fit(X)
    np.testing.assert_array_equal(model.sample(5), twin.sample(5))


def test_dependent_features_have_no_density():
    X, _ = mixtures()
    X = np.column_stack([X, X @ [1, 2, 3]])
    model = fit(X)
    assert model.components_.shape == (3, 4)
    assert_allclose(model.inverse_transform(model.transform(X)), X, rtol=1e-9)
    with pytest.raises(ValueError, match="no variance outside"):
        model.score_samples(X)
    assert np.isfinite(model.energy(X)).all()
    assert np.isfinite(fit(X, n_components=2).score(X))


# ---- Order, signs, seeds ----


@every_setting
def test_order_and_signs_are_definite(objective_, density):
    X, _ = mixtures("super")
    model = fit(X, objective=objective_, density=density)
    brought = np.linalg.norm(model.mixing_ * model.transform(X).std(axis=0), axis=0)
    assert (np.diff(brought) < 0).all()
    mixing = model.mixing_
    assert (mixing[np.abs(mixing).argmax(axis=0), range(3)] > 0).all()


@pytest.mark.parametrize("objective_", ["likelihood", "score_matching"])
def test_seeds_lead_to_one_maximum(objective_):
    X, _ = mixtures("super", 5000)
    how = {"objective": objective_, "density": "logistic", "tol": 1e-7}
    models = [ICA(random_state=seed, **how).fit(X) for seed in (0, 1)]
    first, second = (model.components_ for model in models)
    assert not np.array_equal(first, second)
    assert_allclose(first, second, rtol=1e-4, atol=1e-6)


# ---- What FastICA promises ----


@every_setting
@pytest.mark.parametrize("whiten", ["unit-variance", "arbitrary-variance", False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_attributes(objective_, density, whiten, dtype):
    X = mixtures("super", 300, 4)[0].astype(dtype)
    how = {"objective": objective_, "density": density, "max_iter": 20}
    model = fit(X, n_components=None if whiten is False else 2, whiten=whiten, **how)
    k = 2 if whiten else 4
    shapes = {"components_": (k, 4), "mixing_": (4, k), "source_scale_": (k,)}
    if whiten:
        shapes |= {"mean_": (4,), "whitening_": (k, 4)}
        Z = (X - model.mean_) @ model.whitening_.T
        assert_allclose(Z.T @ Z / len(Z), np.eye(k), atol=1e-4)
    else:
        assert not hasattr(model, "mean_")
        assert not hasattr(model, "whitening_")
    for name, shape in shapes.items():
        assert getattr(model, name).shape == shape
        assert getattr(model, name).dtype == dtype
    eye = model.components_.astype(float) @ model.mixing_.astype(float)
    assert_allclose(eye, np.eye(k), atol=1e-4)
    S = model.transform(X)
    assert S.shape == (300, k)
    assert S.dtype == dtype
    if whiten == "unit-variance":
        assert_allclose(S.var(axis=0), 1, rtol=1e-3)
    else:
        np.testing.assert_array_equal(model.source_scale_, 1)


@pytest.mark.parametrize("n_sources", [2, 3])
def test_data_that_are_not_whitened_have_the_same_maximum(n_sources):
    # (From the axes of correlated data, some fits ended at a saddle.)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.laplace(size=(1000, n_sources)) @ rng.normal(size=(n_sources,) * 2)
        X -= X.mean(axis=0)
        white, plain = (fit(X, whiten=w).score(X) for w in ("unit-variance", False))
        assert plain == pytest.approx(white, abs=2e-3)


def test_sources_that_are_mixed_half_and_half_are_a_saddle_that_is_left():
    S = np.random.default_rng(0).laplace(size=(5000, 2))
    W, sources = np.array([[1.0, 1.0], [-1.0, 1.0]]) / 2, Sources(["laplace"] * 2)
    now = moments(S, W, sources)
    moved, found = leave_saddle(S, W, sources, now)
    assert found.loss < now.loss - 0.01
    assert found.loss == moments(S, moved, sources).loss
    apart = moments(S, np.eye(2), sources)
    assert leave_saddle(S, np.eye(2), sources, apart) is None
    first, one = np.ascontiguousarray(S[:, :1]), Sources(["laplace"])
    alone = moments(first, np.eye(1), one)
    assert leave_saddle(first, np.eye(1), one, alone) is None


def test_whitening_goes_when_it_is_switched_off():
    X, _ = mixtures()
    model = fit(X).set_params(whiten=False).fit(X)
    assert not hasattr(model, "mean_")


@pytest.mark.parametrize("add_noise", [True, False])
@pytest.mark.parametrize("whiten", ["unit-variance", "arbitrary-variance", False])
@seeds
def test_square_wave_and_heavy_tails(add_noise, whiten, seed):
    rng = np.random.RandomState(seed)
    s1 = 2.0 * (np.sin(np.linspace(0, 100, 1000)) > 0) - 1
    s2 = stats.t.rvs(1, size=1000, random_state=rng)
    S = stats.zscore(np.column_stack([s1, s2]))
    c, s = np.cos(0.6), np.sin(0.6)
    X = S @ np.array([[c, s], [s, -c]]).T
    X = stats.zscore(X + add_noise * 0.1 * rng.randn(*X.shape))
    model = fit(X, whiten=whiten)
    found = np.abs(np.corrcoef(model.transform(X).T, S.T)[:2, 2:])
    assert (found.max(axis=0) > (0.9 if add_noise else 0.99)).all()


@pytest.mark.parametrize("add_noise", [True, False])
def test_more_mixtures_than_sources(add_noise):
    rng, t = np.random.RandomState(0), np.linspace(0, 100, 1000)
    S = stats.zscore(np.column_stack([np.sin(t), np.ceil(np.sin(np.pi * t))]))
    X = S @ rng.randn(2, 6) + add_noise * 0.1 * rng.randn(1000, 6)
    model = fit(X, n_components=2)
    found = np.abs(np.corrcoef(model.transform(X).T, S.T)[:2, 2:])
    assert (found.max(axis=0) > (0.9 if add_noise else 0.99)).all()


def test_no_whitening_ignores_n_components():
    X, _ = mixtures()
    for n_components in (1, 5):
        with pytest.warns(UserWarning, match="Ignoring n_components") as caught:
            model = ICA(n_components, whiten=False, random_state=0).fit(X)
        assert caught[0].filename == __file__
        assert model.mixing_.shape == (3, 3)


def test_no_whitening_finds_the_same_maximum():
    X, _ = mixtures()
    X = X - X.mean(axis=0)
    model, plain = (fit(X, tol=1e-8, whiten=w) for w in ("unit-variance", False))
    assert_allclose(plain.score(X), model.score(X), rtol=1e-10)
    scale = plain.transform(X).std(axis=0)
    assert_allclose(plain.transform(X) / scale, model.transform(X), atol=1e-5)


def proportions(rng):
    return rng.dirichlet(np.ones(5), size=400)


def with_a_sum(rng):
    X = rng.laplace(size=(500, 3))
    return np.column_stack([X, X[:, 0] + X[:, 1]])


def mixed(rng):
    return rng.laplace(size=(500, 5)) @ rng.normal(size=(5, 12))


def wide(rng):
    return rng.laplace(size=(20, 40))


def independent(rng):
    return rng.laplace(size=(500, 6)) * 10.0 ** np.arange(6)


@pytest.mark.parametrize("offset", [0, 1e3, 1e6])
@pytest.mark.parametrize("solver", ["auto", "svd", "eigh"])
@pytest.mark.parametrize(
    "data, rank",
    [(proportions, 4), (with_a_sum, 3), (mixed, 5), (wide, 19), (independent, 6)],
)
def test_rounding_is_no_direction(data, rank, solver, offset):
    for seed in range(5):
        X = data(generator(720, seed)) + offset
        model = ICA(whiten_solver=solver, max_iter=2, random_state=0).fit(X)
        assert model.components_.shape == (rank, X.shape[1])
        np.testing.assert_allclose(model.transform(X).var(axis=0), 1, rtol=1e-5)
        back = model.inverse_transform(model.transform(X))
        assert np.abs((back - X) / X.std(axis=0)).max() < 1e-6
        # No weights that make much of nothing.
        assert np.abs(model.components_ * X.std(axis=0)).max() < 1e4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["auto", "svd", "eigh"])
def test_rounding_of_one_feature_is_not_that_of_others(solver, dtype):
    # One that is large beside its spread, ten spacings or more.
    eps = np.finfo(dtype).eps
    for size in (0.01, 100.0):
        X = generator(723).laplace(size=(1000, 3)) * [1, 0.1, size]
        X[:, 0] += 0.1 / eps
        model = ICA(whiten_solver=solver, max_iter=2, random_state=0)
        X = X.astype(dtype)
        model.fit(X)
        assert model.components_.shape == (3, 3)
        back = model.inverse_transform(model.transform(X))
        assert (np.abs(back - X) < 1e-2 * X.std(axis=0) + 4 * eps * np.abs(X)).all()


@pytest.mark.parametrize("offset", [0, 1e3, 1e6])
def test_rounding_of_many_means_is_no_direction(offset):
    X = generator(722).laplace(size=(10, 8000)) + offset
    model = ICA(max_iter=2, random_state=0).fit(X)
    assert model.components_.shape == (9, 8000)


def test_no_whitening_needs_full_rank():
    with pytest.raises(ValueError, match="whiten=False .* full rank"):
        ICA(whiten=False).fit(np.eye(5)[:3])


def test_too_many_components():
    X, _ = mixtures()
    wanted = "n_components is too large: .* set to 3"
    with pytest.warns(UserWarning, match=wanted) as caught:
        model = ICA(7, random_state=0).fit(X)
    assert caught[0].filename == __file__
    assert model.components_.shape == (3, 3)


@pytest.mark.parametrize("seed", range(3))
def test_score_matching_without_a_lower_bound_says_so(seed):
    rng = np.random.default_rng(seed)
    S = (rng.random((3000, 4)) < 0.02) * rng.normal(size=(3000, 4))
    X = S @ rng.normal(size=(4, 4))
    with pytest.warns(
        ConvergenceWarning, match="stopped after .* no lower bound where"
    ):
        ICA(objective="score_matching", random_state=0, max_iter=1000).fit(X)
    # As far as rounding allows is another matter.
    X = rng.laplace(size=(2000, 4))
    with pytest.warns(ConvergenceWarning, match="stopped after .*: increase tol"):
        ICA(objective="score_matching", tol=0, random_state=0, max_iter=1000).fit(X)


@pytest.mark.parametrize("seed", range(4))
def test_sources_that_are_the_same_in_most_rows_are_found(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(8, 8))
    X = (rng.random((200, 8)) < 0.05) @ A.T
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = ICA(random_state=0).fit(X)
    assert amari(model.components_ @ A) < 0.04
    # The last state is that of before the likelihood lost its bound.
    assert model.score(X) == pytest.approx(model.history_["log_likelihood"][-1])
    # Of that density itself a maximum is found, or there is advice, which is good.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = ICA(density="student", random_state=0).fit(X)
    assert bool(caught) == (amari(model.components_ @ A) > 0.04)
    assert all("no maximum where" in str(each.message) for each in caught)
    assert all("density='logistic'" in str(each.message) for each in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = ICA(density="logistic", random_state=0).fit(X)
    assert amari(model.components_ @ A) < 0.04


def test_convergence_warning():
    X, _ = mixtures()
    for how in ({}, {"objective": "score_matching", "density": "logistic"}):
        wanted = "did not converge in 2 iter"
        with pytest.warns(ConvergenceWarning, match=wanted) as caught:
            model = ICA(max_iter=2, tol=0, random_state=0, **how).fit(X)
        assert caught[0].filename == __file__
        assert model.n_iter_ == 2


@every_setting
def test_fit_transform_and_inverse(objective_, density):
    X, _ = mixtures("super")
    how = {"objective": objective_, "density": density, "random_state": 0}
    S = ICA(**how).fit_transform(X)
    model = ICA(**how).fit(X)
    assert_allclose(S, model.transform(X), rtol=1e-10)
    assert_allclose(model.inverse_transform(S), X, rtol=1e-9)


def test_inverse_transform_of_fewer_components_is_that_of_pca():
    X, _ = mixtures("mixed", 500, 5)
    model = fit(X, n_components=2)
    pca = PCA(2).fit(X)
    wanted = pca.inverse_transform(pca.transform(X))
    assert_allclose(model.inverse_transform(model.transform(X)), wanted, rtol=1e-9)


@pytest.mark.parametrize("whiten", ["unit-variance", "arbitrary-variance", False])
def test_inverse_transform_of_more_components_is_nearest(whiten):
    X = np.random.default_rng(22).laplace(size=(500, 3))
    how = {"objective": "score_matching", "density": "logistic", "whiten": whiten}
    model = ICA(5, random_state=0, max_iter=20, **how).fit(X)
    assert_allclose(model.mixing_, np.linalg.pinv(model.components_), atol=1e-10)


@pytest.mark.parametrize("shape", [(500, 4), (4, 60)])
def test_solvers_of_the_whitening_agree(shape):
    X = np.random.default_rng(0).laplace(size=shape)
    models = [
        fit(X, n_components=3, whiten_solver=solver, max_iter=5)
        for solver in ("auto", "eigh", "svd")
    ]
    for model in models[1:]:
        assert_allclose(model.components_, models[0].components_, atol=1e-8)


def test_features_on_very_different_scales():
    S = sources_of("super", 2000, 3, 0)
    scales = np.array([1e-5, 1, 1e4])
    model = fit(S * scales + 1e-3 * scales)
    assert model.components_.shape == (3, 3)
    assert amari(model.components_ * scales) < 0.05


def test_given_start():
    X, _ = mixtures()
    start = 2 * np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    model = fit(X, w_init=start, max_iter=1)
    assert model.n_iter_ == 1
    best = fit(X, tol=1e-8)
    # Starting at the solution, one iteration stays there.
    W = best.components_ / best.source_scale_[:, np.newaxis]
    W = W @ np.linalg.inv(best.whitening_)
    names = set(best.densities_)
    assert names == {"laplace", "subgaussian"}
    again = fit(X, w_init=W, tol=1e-6, max_iter=50)
    assert_allclose(again.components_, best.components_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_a_given_start_that_mixes_sources_evenly_leads_to_them(seed):
    # Where sources of long and of short tails are mixed evenly, both mixtures look like
    # some of short tails, and there is a maximum of such ones, lower by 0.05 nats.
    rng = np.random.default_rng(seed)
    S = np.column_stack([rng.laplace(size=500), rng.uniform(-1, 1, 500)])
    S /= S.std(axis=0)
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    best = fit(S)
    model = fit(S, w_init=turn @ np.linalg.inv(best.whitening_))
    assert_allclose(model.score(S), best.score(S), atol=1e-3)


@pytest.mark.parametrize("objective_", ["likelihood", "score_matching"])
def test_the_unit_of_data_that_are_not_whitened_does_not_matter(objective_):
    X, _ = mixtures("super")
    X -= X.mean(axis=0)
    how = {"objective": objective_, "density": "logistic", "whiten": False}
    model = fit(X, **how)
    for unit in (1e-4, 1e4):
        other = fit(unit * X, **how)
        assert_allclose(unit * other.components_, model.components_, rtol=1e-5)
        assert other.n_iter_ == model.n_iter_


@pytest.mark.parametrize("size", [1e-4, 1e4])
def test_a_start_of_any_size_leads_to_the_maximum(size):
    X, A = mixtures("super")
    X -= X.mean(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ICA(density="logistic", w_init=size * np.eye(3), whiten=False).fit(X)
    assert amari(model.components_ @ A) < 0.05


@pytest.mark.parametrize("objective_", ["likelihood", "score_matching"])
def test_starting_at_the_solution_is_convergence(objective_):
    X, _ = mixtures()
    how = {"objective": objective_, "density": "logistic", "whiten": False}
    best = fit(X, tol=1e-4, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = ICA(w_init=best.components_, tol=1e-2, **how).fit(X)
    assert again.n_iter_ == 1
    (slope,) = again.history_["gradient"]
    assert slope <= 1e-2
    assert_allclose(again.components_, best.components_, rtol=1e-3, atol=1e-3)


# ---- More components than features ----


@seeds
def test_overcomplete_recovers_its_own_model(seed):
    angles = np.radians([0, 50, 115])
    filters = 2 * np.column_stack([np.cos(angles), np.sin(angles)])
    sources = Sources(["student"] * 3)
    # Draws from cells of a fine grid, with the density at their middle.
    u = np.linspace(-8, 8, 801)
    grid = np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2)
    p = np.exp(-sources.evaluate(grid @ filters.T)[0].sum(axis=1))
    rng = np.random.default_rng(seed)
    X = grid[rng.choice(len(grid), 20_000, p=p / p.sum())]
    X = X + (rng.random(X.shape) - 0.5) * (u[1] - u[0])
    model = fit(X, n_components=3, objective="score_matching", density="student")
    found = model.components_ / model.source_scale_[:, np.newaxis]
    both = np.concatenate([found, -found])
    gaps = np.linalg.norm(filters[:, np.newaxis] - both, axis=2)
    assert len(set(gaps.argmin(axis=1) % 3)) == 3
    assert gaps.min(axis=1).max() < 0.15 * 2


def test_overcomplete_is_an_energy_model():
    X, _ = mixtures("super", 500, 3)
    model = fit(
        X, n_components=5, objective="score_matching", density="logistic", tol=1e-2
    )
    assert model.components_.shape == (5, 3)
    assert model.mixing_.shape == (3, 5)
    assert model.whitening_.shape == (3, 3)
    S = model.transform(X)
    assert_allclose(model.inverse_transform(S), X, rtol=1e-9)
    energy = Sources(["logistic"] * 5).evaluate(S / model.source_scale_)[0].sum(axis=1)
    assert_allclose(model.energy(X), energy)
    history = model.history_["score_matching"]
    assert len(history) == model.n_iter_
    assert history[-1] < history[0]
    for method in ("score_samples", "score", "sample"):
        assert not hasattr(model, method)
        assert hasattr(ICA(), method)
        with pytest.raises(AttributeError) as caught:
            getattr(model, method)
        assert "energy model of 5 components" in str(caught.value.__cause__)


# ---- Refusals and interrupts ----


def test_score_matching_needs_smooth_densities():
    for density in ("adaptive", "laplace"):
        with pytest.raises(
            ValueError, match="'score_matching' takes density=.*" + density
        ):
            ICA(objective="score_matching", density=density).fit(mixtures()[0])


def test_constant_data_are_refused():
    with pytest.raises(ValueError, match="all rows of X are equal"):
        ICA().fit(np.full((10, 3), 0.1))


@pytest.mark.parametrize(
    "start, message",
    [
        (np.eye(4), r"w_init has invalid shape \(4, 4\) -- should be \(3, 3\)"),
        (np.ones((3, 3)), "w_init must have full rank"),
        (np.full((3, 3), np.nan), "w_init contains NaN"),
    ],
)
def test_bad_start(start, message):
    with pytest.raises(ValueError, match=message):
        ICA(w_init=start).fit(mixtures()[0])


def test_wrong_number_of_sources():
    model = fit(mixtures()[0])
    with pytest.raises(ValueError, match="X has 2 columns, but there are 3 comp"):
        model.inverse_transform(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1"):
        model.sample(0)


@pytest.mark.parametrize(
    "how", [{}, {"objective": "score_matching", "density": "logistic"}]
)
def test_interrupt_leaves_the_last_iteration(how, monkeypatch):
    X, _ = mixtures("super", 2000, 6)
    note = ICA._note

    def stop(self, history, state, whitening):
        note(self, history, state, whitening)
        if len(history["gradient"]) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ICA, "_note", stop)
    model = ICA(random_state=0, tol=0, **how)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    monkeypatch.undo()
    wanted = fit(X, max_iter=3, tol=0, **how)
    assert model.n_iter_ == 3
    assert model.history_ == wanted.history_
    np.testing.assert_array_equal(model.components_, wanted.components_)
    assert np.isfinite(model.score(X))


# ---- Defaults, and the scale of the data ----


def test_the_default_density_is_one_that_the_objective_takes():
    X, _ = mixtures("super")
    for objective_, density in [
        ("likelihood", "adaptive"),
        ("score_matching", "logistic"),
    ]:
        how = {"objective": objective_, "random_state": 0}
        found, wanted = ICA(**how).fit(X), ICA(density=density, **how).fit(X)
        np.testing.assert_array_equal(found.components_, wanted.components_)
        assert found.densities_ == wanted.densities_
        assert found.history_ == wanted.history_


@pytest.mark.parametrize("exponent", [-450, -200, 200, 450])
@pytest.mark.parametrize("solver", ["eigh", "svd"])
@pytest.mark.parametrize("n_components", [2, 3])
def test_scale_of_the_data_changes_nothing_else(n_components, solver, exponent):
    X, _ = mixtures("super")
    scale = 2.0**exponent
    model = ICA(n_components, whiten_solver=solver, random_state=0)
    wanted = model.fit(X)
    expected = wanted.components_, wanted.mixing_, wanted.noise_variance_
    densities = wanted.score_samples(X)
    model.fit(X * scale)
    assert_allclose(model.components_ * scale, expected[0], rtol=1e-9)
    assert_allclose(model.mixing_ / scale, expected[1], rtol=1e-9)
    assert_allclose(model.noise_variance_ / scale / scale, expected[2], rtol=1e-9)
    moved = model.score_samples(X * scale) + 3 * np.log(scale)
    assert_allclose(moved, densities, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype, most", [(np.float64, 1e30), (np.float32, 1e12)])
@pytest.mark.parametrize("solver", ["auto", "eigh", "svd"])
def test_features_of_very_different_scales_keep_their_sources(solver, dtype, most):
    X, _ = mixtures("super")
    X = X.astype(dtype)
    scale = np.array([1 / most, 3, most], dtype)
    model = ICA(whiten_solver=solver, random_state=0)
    # (Whitened in other coordinates, the search begins elsewhere.)
    wanted = model.fit(X).transform(X), model.score_samples(X)
    found = model.fit(X * scale).transform(X * scale)
    similar = np.abs(np.corrcoef(found.T, wanted[0].T)[:3, 3:])
    assert_allclose(np.sort(similar, axis=1)[:, -1], 1, atol=1e-3)
    back = model.inverse_transform(found) / scale
    assert_allclose(back, X, atol=1e3 * np.finfo(dtype).eps * np.abs(X).max())
    moved = model.score_samples(X * scale) + np.log(scale.astype(float)).sum()
    assert_allclose(moved.mean(), wanted[1].mean(), rtol=1e-3)
    in_training = model.history_["log_likelihood"][-1]
    assert_allclose(model.score(X * scale), in_training, rtol=1e-4)
    # What is rounding remains no direction.
    flat = X.copy()
    flat[:, 0] = 1 + np.finfo(dtype).eps * (np.arange(len(X)) % 2)
    assert model.fit(flat).components_.shape == (2, 3)


def test_a_last_iteration_that_arrives_has_converged():
    X, _ = mixtures("super")
    model = ICA(max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X)
    assert model.history_["gradient"][-1] < model.tol
    with pytest.warns(ConvergenceWarning, match="1 iterations"):
        model.set_params(tol=model.history_["gradient"][-1] / 2).fit(X)


@pytest.mark.parametrize("whiten", ["unit-variance", False])
@pytest.mark.parametrize(
    "dtype, scale",
    [
        (np.float64, 1e-300),
        (np.float64, 1e-160),
        (np.float64, 1e160),
        (np.float64, 1e305),
        (np.float32, 1e-36),
        (np.float32, 1e36),
    ],
)
def test_data_whose_squares_are_no_numbers_are_refused(dtype, scale, whiten):
    X = (mixtures("super")[0] * scale).astype(dtype)
    assert np.isfinite(X).all()
    model = ICA(whiten=whiten, random_state=0)
    with pytest.raises(ValueError, match="X spread over .*StandardScaler|Scale X"):
        model.fit(X)
    model.fit(StandardScaler().fit_transform(X / scale))


@pytest.mark.filterwarnings("error")
def test_numbers_whose_squares_are_none_are_refused_however_little_they_vary():
    X = mixtures("super")[0]
    for size, whiten in ((1e200, "unit-variance"), (1e200, False), (1e290, False)):
        large = np.column_stack([X, np.full(len(X), size)])
        with pytest.raises(ValueError, match=r"of size 1e\+2[09]0, .* Scale X\.$"):
            ICA(whiten=whiten, random_state=0).fit(large)
    large = np.column_stack([X, np.full(len(X), 1e139)])
    assert np.isfinite(ICA(random_state=0).fit(large).transform(large)).all()


def test_data_that_are_rounded_to_nothing_are_refused():
    X = 1e6 + 0.1 * generator(703).laplace(size=(1000, 3))
    ICA(random_state=0).fit(X)
    with pytest.raises(ValueError, match="numbers of float32 as large as those of X"):
        ICA(random_state=0).fit(X.astype(np.float32))
