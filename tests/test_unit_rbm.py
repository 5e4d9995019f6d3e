"""Estimators with units of any kind: RBM and GaussianRBM."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp
from scipy.stats import norm, poisson
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_sample_images,
    load_wine,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler, scale

from common import (
    assert_same,
    assert_same_model,
    fitted_floats,
    floats,
    name_of,
    run_on_threads,
    traced_memory,
)
from reference import generator
from sklearn_ebm import (
    RBM,
    BernoulliRBM,
    DBMTransformer,
    DBNClassifier,
    DBNTransformer,
    GaussianRBM,
    RBMClassifier,
    RBMImputer,
)
from sklearn_ebm.boltzmann._defaults import n_directions
from sklearn_ebm.layered import Layered
from sklearn_ebm.likelihood import log_likelihood, log_partition
from sklearn_ebm.samplers import Gibbs
from sklearn_ebm.units import (
    Bernoulli,
    Categorical,
    Gaussian,
    Mixed,
    ReLU,
    with_gaussian,
)
from tables import SPECS, UNBOUNDED, mixed_rbm, spins_that_agree, table

# ---- Two layers of bits ----


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"persistent": False, "momentum": 0.5, "average": False},
        {"missing": "latent", "weight_decay": 1e-3, "batch_size": 7},
        {"centering": False, "max_norm": 1.0, "learning_rate_schedule": "linear"},
    ],
    ids=str,
)
@floats
def test_two_layers_of_bits_are_a_bernoulli_rbm(binary_digits, options, dtype):
    X = binary_digits[:300].astype(dtype)
    options = {"n_components": 9, "n_iter": 2, "random_state": 0, **options}
    found, wanted = RBM(**options).fit(X), BernoulliRBM(n_chains=100, **options).fit(X)
    assert_same(fitted_floats(found), fitted_floats(wanted))
    for method in ("transform", "score_samples", "free_energy", "gibbs", "reconstruct"):
        assert_same(getattr(found, method)(X), getattr(wanted, method)(X))
    assert_same(found.sample(5), wanted.sample(5))
    mask = np.arange(64) < 5
    imputed = (m.impute(X, mask=mask, random_state=0) for m in (found, wanted))
    assert_same(*imputed)
    assert_same_machine(found.partial_fit(X), wanted.partial_fit(X))


@pytest.mark.parametrize(
    "visible, hidden",
    [
        (Bernoulli(), Bernoulli()),
        ([(slice(0, 60), "bernoulli"), (slice(60, None), Bernoulli())], "bernoulli"),
    ],
    ids=["units", "list"],
)
def test_bits_are_the_same_however_they_are_named(visible, hidden, binary_digits):
    X = binary_digits[:100]
    named = RBM(5, n_iter=1, random_state=0).fit(X)
    given = RBM(5, visible=visible, hidden=hidden, n_iter=1, random_state=0).fit(X)
    assert_same(fitted_floats(given), fitted_floats(named))
    assert_same(given.score_samples(X), named.score_samples(X))
    found, wanted = (m.sample(4, method="tempering") for m in (given, named))
    assert_same(found, wanted)


def assert_same_machine(found, wanted):
    # RBM has more parameters that say what it is made of.
    parts, fewer = found._state.pop("structure"), wanted._state.pop("structure")
    assert parts == fewer | {"visible": "'bernoulli'", "hidden": "'bernoulli'"}
    assert_same_model(found, wanted)


# ---- Langevin dynamics ----


@pytest.mark.parametrize("persistent", [True, False])
@floats
def test_chains_that_are_drawn_near_where_they_were(persistent, dtype):
    X = load_iris().data.astype(dtype)
    model = GaussianRBM(5, n_iter=4, persistent=persistent, random_state=0)
    fits = {
        time: clone(model).set_params(langevin_time=time).fit(X)
        for time in (None, 0.1, 1e4)
    }
    # After a long time nothing is left of where they were, and the bits are the same.
    assert_same(fitted_floats(fits[1e4]), fitted_floats(fits[None]))
    assert (fits[0.1].components_ != fits[None].components_).all()
    assert ("visible_chains" in fits[0.1]._state) == persistent
    again = pickle.loads(pickle.dumps(fits[0.1]))
    assert_same_model(again.partial_fit(X), fits[0.1].partial_fit(X))


def test_chains_of_langevin_dynamics_go_on():
    X = load_iris().data
    model = GaussianRBM(5, n_iter=1, langevin_time=0.1, average=False, random_state=0)
    model.set_params(learning_rate_schedule="constant")
    whole = clone(model).set_params(n_iter=3).fit(X)
    parts = clone(model).set_params(warm_start=True).fit(X).fit(X).fit(X)
    # (But for rounding: between calls the logarithms of variances are kept.)
    for name, values in fitted_floats(whole).items():
        assert_allclose(fitted_floats(parts)[name], values, rtol=1e-10, err_msg=name)
    # Another number of chains begins anew, and so do chains that were drawn afresh.
    for change in ({"n_chains": 7}, {"langevin_time": None}, {"persistent": False}):
        parts.set_params(**change).fit(X)
        assert ("visible_chains" in parts._state) == ("n_chains" in change)
        parts.set_params(**model.get_params() | {"warm_start": True}).fit(X)
        assert parts._state["visible_chains"].shape == (100, 4)


def test_samples_by_langevin_dynamics():
    X = load_iris().data
    model = GaussianRBM(3, random_state=0).fit(X)
    options = {"n_gibbs_steps": 3, "init": X[:5], "random_state": 1}
    found = model.sample(5, method="langevin", **options)
    assert (found != model.sample(5, **options)).all()
    sampler = Gibbs(model, langevin_time=1.0)
    wanted = sampler.step(sampler.init(init=X[:5], random_state=1), 3).visible
    assert_same(found, wanted)
    assert (model.sample(5, method="langevin") != found).all()
    with pytest.raises(ValueError, match="are for Gaussian visible units"):
        BernoulliRBM(2).fit([[0, 1], [1, 0]]).sample(method="langevin")


# ---- Early stopping ----


def held_out_by(model, X):
    order = np.random.default_rng([model._state["key"], 0, 2]).permutation(len(X))
    held_out = order[: int(np.ceil(model.validation_fraction * len(X)))]
    return np.delete(X, held_out, axis=0), X[held_out]


@pytest.mark.parametrize("missing", ["raise", "latent"])
@pytest.mark.parametrize("real", [True, False])
def test_early_stopping_keeps_the_last_epoch_of_a_small_gap(real, missing, capsys):
    # Nothing to be learned: what there is, is overfitted.
    noise = generator(670).normal(size=(60, 30))
    if real:
        rbm = GaussianRBM(100, learning_rate=0.1, learning_rate_schedule="constant")
    else:
        noise = (noise > 0) + 1.0 * (noise > 1)
        rbm = RBM(100, visible="categorical", learning_rate=0.1)
    rbm.set_params(n_iter=500, tol=0.5, n_iter_no_change=3, missing=missing)
    rbm.set_params(early_stopping=True, validation_fraction=0.4, random_state=0)
    model = clone(rbm).set_params(verbose=1).fit(noise)
    assert "free-energy gap" in capsys.readouterr().out
    gaps = model.history_["free_energy_gap"]
    assert len(gaps) == model.n_iter_ < 500
    near = gaps <= np.minimum.accumulate(gaps) + 0.5
    best = np.flatnonzero(near)[-1] + 1
    assert model.best_n_iter_ == best == model.n_iter_ - 3
    training, validation = held_out_by(model, noise)
    gap = model.free_energy(validation).mean() - model.free_energy(training).mean()
    np.testing.assert_allclose(gap, gaps[best - 1], rtol=1e-9)
    wanted = clone(rbm).set_params(n_iter=best).fit(noise)
    for name in ("components_", "intercept_hidden_", "intercept_visible_", "variance_"):
        assert_same(getattr(model, name), getattr(wanted, name), name)
    with pytest.raises(ValueError, match="partial_fit does not support early_stop"):
        model.partial_fit(noise)


def test_early_stopping_of_two_layers_of_bits(binary_digits):
    options = {"n_iter": 4, "early_stopping": True, "tol": 0.3, "random_state": 0}
    found = RBM(9, **options).fit(binary_digits[:200])
    wanted = BernoulliRBM(9, n_chains=100, monitor="free_energy_gap", **options)
    assert_same_machine(found, wanted.fit(binary_digits[:200]))


@pytest.mark.parametrize(
    "n_rows, n_features, n_iter",
    [(400, 4, 100), (60, 4, 50), (36, 4, 30), (2000, 1, 50), (4000, 1, 30)],
)
def test_epochs_of_bits_by_default(n_rows, n_features, n_iter):
    X = (generator(652).random((n_rows, n_features)) < 0.5).astype(float)
    options = {"n_components": 1, "batch_size": n_rows // 2, "random_state": 0}
    found = RBM(**options).fit(X)
    wanted = BernoulliRBM(**options, n_iter=n_iter, learning_rate_schedule="linear")
    wanted.set_params(n_chains=max(100, n_rows // 2))
    assert_same_machine(found, wanted.fit(X))
    spins = RBM(visible="spin", hidden="spin", **options).fit(2 * X - 1)
    assert spins.history_["learning_rate"] == wanted.history_["learning_rate"]
    # Where the number is given the rate stays as it is.
    assert found.set_params(n_iter=2).fit(X).history_["learning_rate"] == [0.1, 0.1]


# ---- In the units of the data ----


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("hidden", ["bernoulli", "spin"])
@pytest.mark.parametrize("variance", ["learned", 3.0])
def test_attributes_are_of_the_units_of_the_data(standardize, hidden, variance):
    rng = generator(661)
    X = rng.normal(size=(200, 3)) * [1.0, 2.0, 3.0] + [5, 0, -9]
    model = GaussianRBM(
        4, hidden=hidden, variance=variance, standardize=standardize, random_state=0,
        learning_rate=1e-3,
    ).fit(X)  # fmt: skip
    if variance != "learned":
        np.testing.assert_allclose(model.variance_, variance)
    # p(v) of the documented energy, every hidden state summed out.
    low = 0.0 if hidden == "bernoulli" else -1.0
    h = np.array(np.meshgrid(*[[low, 1.0]] * 4)).reshape(4, -1).T
    b, s2, W = model.intercept_visible_, model.variance_, model.components_.T

    def minus_energy(v):
        quadratic = -(np.square(v - b) / (2 * s2)).sum(axis=1)
        return (
            quadratic[:, np.newaxis] + (v / s2) @ W @ h.T + h @ model.intercept_hidden_
        )

    shift = h @ W.T
    log_z = logsumexp(
        h @ model.intercept_hidden_
        + ((2 * b * shift + shift**2) / (2 * s2)).sum(axis=1)
    ) + (np.log(2 * np.pi * s2).sum() / 2)
    wanted = logsumexp(minus_energy(X), axis=1)
    np.testing.assert_allclose(-model.free_energy(X), wanted, rtol=1e-9)
    np.testing.assert_allclose(model.score_samples(X), wanted - log_z, rtol=1e-9)
    p = np.exp(minus_energy(X) - wanted[:, np.newaxis])
    np.testing.assert_allclose(model.transform(X), p @ h, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(h), b + shift, rtol=1e-9)
    state = model._state
    z = (X - state["shift"]) / state["scale"]
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-9)
    assert standardize == (abs(z.std(axis=0) - 1).max() < 1e-9)
    assert model.sample(3, 5, random_state=0).shape == (3, 3)


@pytest.mark.parametrize("scale", [1e-23, 1e20])
@pytest.mark.parametrize("kind", [RBM(3), DBMTransformer((3, 2), pretrain_n_iter=1)])
def test_variances_that_the_dtype_cannot_hold_are_refused(kind, scale):
    X = generator(674).normal(size=(50, 3)) * scale
    model = clone(kind).set_params(visible="gaussian", n_iter=1)
    with pytest.raises(ValueError, match="unit 0 is .* beyond the numbers of float32"):
        model.fit(X.astype(np.float32))
    assert np.isfinite(model.fit(X).transform(X)).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e160, 1e200])
def test_variances_that_no_number_can_hold_are_refused(scale):
    X = generator(675).normal(size=(50, 3)) * scale
    with pytest.raises(ValueError, match="unit 0 is inf, .* numbers of float64"):
        GaussianRBM(3, n_iter=1).fit(X)


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:The units of")
@pytest.mark.parametrize("visible", ["spin", "bernoulli"])
@pytest.mark.parametrize("scale", [1e100, 1e160, 1e290])
def test_steps_below_units_without_bounds_may_not_vanish(visible, scale):
    X = generator(931).normal(size=(50, 3))
    model = RBM(3, visible=visible, hidden="gaussian", n_iter=1, random_state=0)
    with pytest.raises(ValueError, match="vary too much .* Scale the data"):
        model.fit(scale * X)
    assert not hasattr(model, "components_")
    for works in (1e30, 1e-200, 0.0):
        assert np.isfinite(model.fit(works * X).transform(X)).all()


@pytest.mark.parametrize(
    "model",
    [
        RBM(3, visible="gaussian", missing="latent", n_iter=1),
        GaussianRBM(3, n_iter=1),
        DBNClassifier((3,), solver="lbfgs", pretrain=False, n_iter=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_means_that_no_number_can_hold_are_refused(model):
    X = generator(676).random((50, 3)) * 1e308
    with pytest.raises(ValueError, match="beyond the numbers of float64. Scale"):
        model.fit(X, np.arange(50) % 2)


@pytest.mark.parametrize("average", [True, False])
def test_standardised_training_is_of_the_same_model(average):
    X = table()
    model = mixed_rbm(average=average, n_iter=1, batch_size=300).fit(X)
    # One minibatch: the average is its outcome, and so is the state.
    state, columns = model._state, model._columns()
    s2 = np.exp(state["log_variance"])
    unit = with_gaussian(columns.unit, state["intercept_visible"], s2)
    bias = np.where(columns.gaussian, 0, state["intercept_visible"])
    inner = Layered(
        (unit, "bernoulli"),
        ((state["components"] / s2).T,),
        (bias, state["intercept_hidden"]),
    )
    z = (columns.encode(X) - state["shift"]) / state["scale"]
    density = log_likelihood(inner, z).samples - np.log(state["scale"]).sum()
    np.testing.assert_allclose(model.score_samples(X), density, rtol=1e-9)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("kind", [GaussianRBM, RBM])
def test_in_which_units_weights_are_small(kind, standardize):
    if kind is RBM:
        X, rbm = table(), mixed_rbm()
    else:
        X = generator(662).normal(size=(200, 3)) * [1.0, 2.0, 30.0] + [5, 0, -9]
        rbm = GaussianRBM(6, random_state=0)
    rbm.set_params(standardize=standardize, average=False, n_iter=1)
    rbm.set_params(batch_size=len(X), learning_rate=0.02)

    def weights(**options):
        return clone(rbm).set_params(**options).fit(X)

    # A step of one minibatch, in which all see the same draws.
    start, plain = weights(n_iter=0).components_, weights()
    decayed = weights(weight_decay=3.0).components_
    shrunk = plain.components_ - 0.02 * 3.0 * start
    np.testing.assert_allclose(decayed, shrunk, rtol=1e-9, atol=1e-12)

    real = plain._columns().gaussian & standardize
    scale = np.where(real, plain.visible_scale_, 1.0)
    size = np.abs(plain.components_ / scale)
    half = np.median(size)
    found = weights(l1_decay=half / 0.02).components_ / scale
    size = np.maximum(size - half, 0)
    wanted = np.sign(plain.components_) * size
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert 0.4 < np.mean(found == 0) < 0.6

    norms = np.linalg.norm(plain.components_ / scale, axis=1)
    capped = weights(max_norm=np.median(norms)).components_ / scale
    wanted = np.minimum(norms, np.median(norms))
    np.testing.assert_allclose(np.linalg.norm(capped, axis=1), wanted, rtol=1e-9)


@pytest.mark.parametrize("hidden", ["bernoulli", "relu"])
@pytest.mark.parametrize(
    "options", [{}, {"persistent": False, "momentum": 0.5}], ids=str
)
def test_units_of_measurement_do_not_matter(hidden, options):
    X = load_iris().data[::2]
    model = GaussianRBM(4, hidden=hidden, n_iter=3, random_state=0, **options)
    scale, mean = (
        np.array([2.0**-9, 2.0, 8.0, 2.0**12]),
        np.array([64.0, -2.0, 0.0, 512]),
    )
    first, other = clone(model).fit(X), clone(model).fit(X * scale + mean)
    wanted = first.transform(X)
    np.testing.assert_allclose(other.transform(X * scale + mean), wanted, rtol=1e-6)
    for name, power in [("components_", 1), ("variance_", 2), ("visible_scale_", 1)]:
        found = getattr(other, name) / scale**power
        np.testing.assert_allclose(found, getattr(first, name), rtol=1e-6)
    found = (other.intercept_visible_ - mean) / scale
    np.testing.assert_allclose(found, first.intercept_visible_, rtol=1e-6, atol=1e-6)
    found = (other.sample(5, 20, random_state=0) - mean) / scale
    # The start of chains is drawn in units of the data as well.
    np.testing.assert_allclose(found, first.sample(5, 20, random_state=0), rtol=1e-5)


@pytest.mark.thinned(5)
@pytest.mark.parametrize("hidden", ["bernoulli", "spin", "relu", "gaussian"])
@pytest.mark.parametrize("variance", ["learned", 0.5])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"persistent": False},
        {"max_norm": 0.5},
        {"momentum": 0.5},
        {"average": True},
        {"centering": False},
    ],
)
def test_where_features_lie_does_not_matter(hidden, variance, options):
    # Also where they are not standardised.
    X = StandardScaler().fit_transform(load_iris().data)
    model = GaussianRBM(
        4, hidden=hidden, variance=variance, standardize=False, learning_rate=0.1,
        n_iter=9, random_state=0, **{"average": False, **options},
    )  # fmt: skip
    far = np.array([128.0, -64.0, 0.0, 512.0])
    first, other = clone(model).fit(X), clone(model).fit(X + far)
    assert np.linalg.norm(first.components_) > 0.3  # something is learned
    for name in ("components_", "variance_"):
        wanted = getattr(first, name)
        np.testing.assert_allclose(getattr(other, name), wanted, rtol=1e-6, atol=1e-8)
    wanted = first.intercept_visible_ + far
    np.testing.assert_allclose(other.intercept_visible_, wanted, rtol=1e-8)
    wanted = first.transform(X)
    np.testing.assert_allclose(other.transform(X + far), wanted, rtol=1e-6, atol=1e-8)
    found, wanted = other.free_energy(X + far), first.free_energy(X)
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], atol=1e-6)


@pytest.mark.parametrize("n_pretraining", [0, 5])
@pytest.mark.parametrize("unit", ["gaussian", Gaussian(scale=0.7)])
def test_where_features_lie_does_not_matter_to_deep_machines(unit, n_pretraining):
    X = StandardScaler().fit_transform(load_iris().data)
    model = DBMTransformer(
        (4, 3), visible=unit, standardize=False, n_iter=2, momentum=0.5,
        pretrain_n_iter=n_pretraining, random_state=0,
    )  # fmt: skip
    far = np.array([128.0, -64.0, 0.0, 512.0])
    first, other = clone(model).fit(X), clone(model).fit(X + far)
    for found, wanted in zip(other.components_, first.components_, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
    wanted = first.score_samples(X)
    np.testing.assert_allclose(other.score_samples(X + far), wanted, rtol=1e-6)


# ---- Scores ----


@pytest.mark.slow
def test_scores_of_estimators_are_estimated_where_no_layer_is_small():
    X = load_iris().data
    model = GaussianRBM(2, hidden="gaussian", variance=0.5, random_state=0).fit(X)
    # log Z is a determinant: v ~ N(., (P - W' W)^-1), P the precision of the units.
    W = model.components_.T / 0.5
    precision = np.eye(4) / 0.5 - W @ W.T
    linear = model.intercept_visible_ / 0.5 + W @ model.intercept_hidden_
    mean = np.linalg.solve(precision, linear)
    squares = np.einsum("ij,jk,ik->i", X - mean, precision, X - mean)
    log_det = np.linalg.slogdet(precision)[1]
    wanted = (log_det - squares - 4 * np.log(2 * np.pi)) / 2
    estimate = log_partition(model, "ais", random_state=1, reverse=False)
    assert estimate.standard_error < 0.05
    difference = wanted - model.score_samples(X)
    np.testing.assert_allclose(difference, difference[0], atol=1e-9)
    assert abs(difference[0]) < 6 * estimate.standard_error
    assert abs(np.mean(-model.free_energy(X) - float(estimate) - wanted)) < (
        6 * estimate.standard_error
    )


def test_training_forgets_the_scale_of_scores():
    X = load_iris().data
    model = GaussianRBM(3, random_state=0).fit(X)
    for train in (model.fit, model.partial_fit):
        model.score(X)
        train(X[:75])
        wanted = -model.free_energy(X) - float(log_partition(model))
        np.testing.assert_allclose(model.score_samples(X), wanted, rtol=1e-12)


@pytest.mark.slow
def test_annealing_from_the_base_of_an_estimator():
    X = table()
    model = mixed_rbm(n_iter=20).fit(X)
    wanted = float(log_partition(model))
    for seed in range(2):
        found = log_partition(model, "ais", betas=30, n_runs=3000, random_state=seed)
        error = np.expm1(found.forward - wanted)
        assert abs(error) < 5 * found.standard_error


@pytest.mark.slow
def test_small_counts_are_not_drawn_far_beyond_the_data():
    """States in which many hidden units stay on together, and counts are dozens."""
    means = np.array([[1, 0.3, 2, 1], [0.5, 2, 0.7, 1]])
    for seed in range(3):
        rng = generator(672, seed)
        X = rng.poisson(means[rng.integers(0, 2, 600)]).astype(float)
        model = RBM(visible="poisson", random_state=seed).fit(X)
        draws = model.sample(4000, n_gibbs_steps=200, random_state=0)
        assert draws.max() < 4 * X.max()
        # (Of draws from the true means half a percent is.)
        assert (draws > X.max(axis=0)).any(axis=1).mean() < 0.03


@pytest.mark.slow
def test_rare_counts_are_not_drawn_far_beyond_the_data():
    """Words that turn on all of the hidden units that raise them."""
    far = []
    for seed in range(3):
        rng = generator(673, seed)
        topics = rng.dirichlet(np.full(200, 0.05), 10)
        shares = rng.dirichlet(np.full(10, 0.2), 500)
        X = rng.poisson(20 * shares @ topics).astype(float)
        model = RBM(visible="poisson", random_state=seed).fit(X)
        draws = model.sample(2000, random_state=0)
        far.append((draws > 2 * X.max() + 5).any(axis=1).mean())
    assert max(far) < 0.02, far


# ---- Where training starts and what bounds it ----


@pytest.mark.parametrize(
    "n_rows, n_features, n_iter, of_counts",
    [
        (240, 8, 400, 60),
        (80, 8, 133, 60),
        (79, 8, 131, 59),
        (20, 8, 33, 15),
        (5, 8, 10, 10),
        (500, 1, 240, 60),
        (1100, 1, 109, 54),
        (7000, 1, 17, 10),
        (13000, 1, 10, 10),
    ],
)
def test_epochs_of_a_slow_fit_by_default(n_rows, n_features, n_iter, of_counts):
    X = generator(651).normal(size=(n_rows, n_features))
    model = GaussianRBM(1, batch_size=n_rows, random_state=0).fit(X)
    assert model.n_iter_ == n_iter
    again = clone(model).set_params(n_iter=n_iter).fit(X)
    assert_same_model(model, again)
    model.set_params(warm_start=True).fit(X)
    assert model.n_iter_ == 2 * n_iter
    # Counts and rectified features take others, at a constant rate.
    X = np.square(X).round()
    for visible, wanted in [
        ("poisson", of_counts),
        ("relu", of_counts),
        ("gaussian", n_iter),
        ([([0], "gaussian"), (slice(1, n_features), "poisson")], n_iter),
    ]:
        rbm = RBM(1, visible=visible, batch_size=n_rows, random_state=0).fit(X)
        assert rbm.n_iter_ == wanted
    # Also where rows are held out.
    model = clone(again).set_params(n_iter=None, early_stopping=True, tol=1e9)
    if n_rows > 10:
        assert model.fit(X).n_iter_ == n_iter


@pytest.mark.parametrize("visible, n_iter", [("poisson", 60), ("relu", 20)])
def test_rare_counts_are_parts_of_features_where_epochs_go_by_rows(visible, n_iter):
    # Of 60 columns, a row has three counts above 0.
    X = np.tile(np.eye(20), (10, 3))
    assert RBM(1, visible=visible, batch_size=200).fit(X).n_iter_ == n_iter


def test_epochs_go_by_the_directions_in_which_rows_vary():
    rng = generator(661)
    alone = rng.normal(size=(300, 40))
    few = alone[:, :4]
    together = few[:, np.arange(40) % 4] * np.arange(1, 41) + 7
    assert 36 < n_directions(alone) <= 40
    assert 3.8 < n_directions(together) < 4.3
    # Neither scales nor constant columns matter, nor how rows are stored.
    odd = np.hstack([together * 1e5 - 3, np.full((300, 9), 0.1)])
    assert_allclose(n_directions(odd), n_directions(together), rtol=1e-6)
    assert_allclose(n_directions(sp.csr_array(few)), n_directions(few), rtol=1e-12)
    assert n_directions(few[:1]) == n_directions(np.ones((5, 3))) == 1
    # By the eigenvalues of the correlations.
    X = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6))
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(X.T))
    wanted = eigenvalues.sum() ** 2 / np.square(eigenvalues).sum()
    assert_allclose(n_directions(X), wanted, rtol=0.1)

    # So many real features may say the same that there are more epochs than the number
    # of features allows, up to a hundred.
    for n_rows, n_iter in [(20, 80), (150, 100), (300, 100)]:
        rows = rng.normal(size=(n_rows, 1)) * np.ones(200)
        found = GaussianRBM(1, batch_size=n_rows, random_state=0).fit(rows).n_iter_
        assert 0.85 * n_iter <= found <= n_iter
        mixed = [(slice(0, 199), "gaussian"), ([199], "spin")]
        rows[:, 199] = np.sign(rows[:, 199])
        model = RBM(1, visible=mixed, batch_size=n_rows, random_state=0).fit(rows)
        assert 0.8 * n_iter <= model.n_iter_ <= n_iter
    assert GaussianRBM(1, batch_size=300, random_state=0).fit(alone).n_iter_ == 100


def test_real_columns_are_learned_as_by_a_gaussian_machine(digits):
    X = digits[:60, 20:26]
    gaussian = GaussianRBM(5, random_state=0).fit(X)
    rbm = RBM(5, visible="gaussian", random_state=0).fit(X)
    assert_same(fitted_floats(rbm), fitted_floats(gaussian))
    rates = rbm.history_["learning_rate"]
    assert rates[0] == 0.03
    assert np.all(np.diff(rates) < 0)
    # One real column is enough, and what is given is kept.
    mixed = RBM(5, visible=[([0], "gaussian"), (slice(1, 6), "bernoulli")])
    mixed.set_params(random_state=0, n_iter=3)
    assert_allclose(mixed.fit(X).history_["learning_rate"], [0.03, 0.02, 0.01])
    mixed.set_params(learning_rate_schedule="constant", learning_rate=0.2)
    assert mixed.fit(X).history_["learning_rate"] == [0.2] * 3
    for visible in ("bernoulli", "spin"):
        rbm.set_params(visible=visible, n_iter=3)
        assert rbm.fit(X).history_["learning_rate"] == [0.1] * 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_units_learn_two_clusters_in_one_feature(seed):
    rng = np.random.default_rng(0)
    X = rng.choice([-3.0, 3.0], (4000, 1)) + rng.normal(size=(4000, 1))
    model = GaussianRBM(random_state=seed).fit(X[:1000])
    # (A normal distribution has -2.57.)
    densities = norm.pdf(X[1000:], [-3, 3]).mean(axis=1)
    assert model.score(X[1000:]) > np.log(densities).mean() - 0.05


@pytest.mark.parametrize("n_features", [1, 3])
def test_few_of_many_units_begin_with_wide_steps(n_features):
    X = generator(704).normal(size=(100, n_features))
    model = GaussianRBM(300, n_iter=0, random_state=0).fit(X)
    wide, small = np.split(model.components_, [32 * n_features])
    assert np.sqrt(np.square(wide).mean()) > 0.05
    assert np.abs(small).max() < 0.05


# Beside real columns, centred machines start with bits that depend on each other, and
# their means are right to a first order.
@pytest.mark.parametrize("centering, error", [(False, 0.1), (True, 0.25)])
@pytest.mark.parametrize("standardize", [True, False])
def test_models_start_with_the_means_of_the_data(standardize, centering, error):
    X = table(2000)
    model = mixed_rbm(n_iter=0, standardize=standardize, centering=centering).fit(X)
    mean = model._columns().encode(X).mean(axis=0)
    found = model.sample(4000, 20, random_state=0)
    found = model._columns().encode(found).mean(axis=0)
    # (Real columns start with wide steps, which is another matter.)
    bits = ~model._columns().gaussian
    assert (abs(found - mean) < error * model.visible_scale_)[bits].all()


CENTRES = {
    "two in one feature": [[-3.0], [3.0]],
    "two in two features": [[-2.0, -2.0], [2.0, 2.0]],
    "four in a square": [[-3.0, -3.0], [3.0, 3.0], [-3.0, 3.0], [3.0, -3.0]],
    "three that lie far apart": 8 * np.eye(5)[:3],
    "two that lie very far apart": [[-10.0, 5.0], [10.0, 5.0]],
}


@pytest.mark.thinned(5)
@pytest.mark.parametrize("name", CENTRES)
def test_clusters_are_found_and_kept(name):
    # As closely as by a mixture that knows their number; in the first of these, ten
    # persistent chains that only sweep found one wide cluster, or lost one for another.
    rng = generator(674)
    centres = np.array(CENTRES[name])
    clusters = rng.integers(len(centres), size=1000)
    X = centres[clusters] + rng.normal(size=(1000, centres.shape[1]))
    wanted = GaussianMixture(len(centres), n_init=3, random_state=0).fit(X).score(X)
    options = {"learning_rate_schedule": "linear", "n_iter": 100, "random_state": 0}
    model = GaussianRBM(16, **options).fit(X)
    assert model.score(X) > wanted - 0.15


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_counts_of_nothing_are_one_feature_where_epochs_go_by_rows(container):
    X = container(np.zeros((5, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert RBM(1, visible="poisson", batch_size=5).fit(X).n_iter_ == 30


def test_a_few_epochs_of_rare_counts_tell_topics_apart():
    """In fifteen epochs, by default before, 2.5 nats were gained."""
    rng = generator(656)
    topics = rng.dirichlet(np.full(200, 0.05), 10)
    shares = rng.dirichlet(np.full(10, 0.2), 1000)
    lengths = rng.poisson(20, 1000)
    X = np.array([rng.multinomial(*how) for how in zip(lengths, shares @ topics)])
    train, test = sp.csr_array(X[:500]), X[500:]
    model = RBM(50, visible="poisson", random_state=0).fit(train)
    mean = train.mean(axis=0) + 0.001
    independent = poisson.logpmf(test, mean).sum(axis=1).mean()
    assert model.score(test) > independent + 6


def test_hidden_units_start_as_the_tails_of_the_data_are():
    rng = generator(675)
    long, short = rng.laplace(size=(500, 3)), rng.uniform(size=(500, 3))
    for X, rate in [(long, 0.1), (short, 0.5)]:
        model = GaussianRBM(6, n_iter=0, random_state=0).fit(X)
        assert (model._state["hidden_offset"] == rate).all()
    # Up to three rows say nothing of tails.
    for n in (1, 2, 3):
        model = GaussianRBM(100, learning_rate=1e-9, random_state=0).partial_fit(X[:n])
        assert (model._state["hidden_offset"] < 0.3).all()


@pytest.mark.parametrize("hidden", ["gaussian", "relu"])
def test_weights_to_unbounded_units_stay_small(hidden):
    rng = generator(667)
    X = rng.normal(size=(200, 1)) + 0.1 * rng.normal(size=(200, 6))
    options = {"learning_rate": 0.1, "n_iter": 60, "average": False, "random_state": 0}
    model = GaussianRBM(2, hidden=hidden, **options).fit(X)
    weights = model.components_ / np.sqrt(model.variance_)
    norm = np.linalg.norm(weights, 2)
    assert norm < 0.96
    # It is the cap that keeps them there. (Rectified units may find less to say.)
    assert norm > 0.9 or hidden == "relu"


def test_a_strong_factor_leaves_room_for_weak_ones():
    # Weights that are too large in one direction are taken back in that one: scaled as
    # a whole, minibatch by minibatch, they would soon have no other direction.
    rng = generator(668)
    loadings = rng.normal(size=(3, 12)) * [[2.0], [1.0], [0.5]]
    X = rng.normal(size=(1000, 3)) @ loadings + rng.normal(size=(1000, 12))
    model = GaussianRBM(3, hidden="gaussian", n_chains=100, n_iter=30, random_state=0)
    weights = model.fit(X).components_ / np.sqrt(model.variance_)
    norms = np.linalg.svd(weights, compute_uv=False)
    assert norms[0] < 0.96 and norms[1] > 0.8 and norms[2] > 0.4, norms


@pytest.mark.parametrize(
    "hidden",
    [Gaussian(scale=50.0), ReLU(), Mixed(((1, Bernoulli()), (16, Gaussian())))],
)
def test_there_is_a_distribution_from_the_first(hidden):
    X = generator(671).normal(size=(30, 2))
    model = GaussianRBM(17, hidden=hidden, variance=1e-4, standardize=False, n_iter=0)
    model.set_params(random_state=0).fit(X)
    real = slice(1, None) if isinstance(hidden, Mixed) else slice(None)
    scale = getattr(hidden, "scale", 1.0)
    weights = model.components_[real] * scale / np.sqrt(model.variance_)
    norm = np.linalg.norm(weights, 2)
    np.testing.assert_allclose(norm, 0.95)
    assert np.isfinite(model.sample(3, n_gibbs_steps=5)).all()


def test_weights_between_many_real_units_do_not_depend_on_threads():
    # Large enough for singular values to be found by several.
    code = (
        "import numpy as np, joblib; from sklearn_ebm import GaussianRBM; "
        "X = np.random.default_rng(0).normal(size=(200, 257)); "
        "m = GaussianRBM(130, hidden='gaussian', n_iter=3, random_state=0).fit(X); "
        "print(joblib.hash(m.components_))"
    )
    assert len(set(run_on_threads([1, 2, 3], code))) == 1


@pytest.mark.parametrize("n_components", [8, 32])
def test_many_strong_factors_at_once_leave_a_distribution(n_components):
    rng = generator(670)
    X = rng.normal(size=(100, 12)) @ rng.normal(size=(12, 60))
    X += 0.5 * rng.normal(size=X.shape)
    X[rng.random(X.shape) < 0.2] = np.nan
    options = {"learning_rate": 0.05, "n_iter": 15, "n_chains": 100, "random_state": 0}
    model = RBM(n_components, visible="gaussian", hidden="gaussian", missing="latent")
    model.set_params(average=False, **options).fit(X)
    weights = model.components_ / np.sqrt(model.variance_)
    norms = np.linalg.svd(weights, compute_uv=False)
    assert norms[0] < 0.951 and norms[5] > 0.5, norms


@pytest.mark.parametrize(
    "hidden", [Gaussian(), ReLU(), Mixed(((1, Bernoulli()), (1, Gaussian())))], ids=str
)
def test_weights_to_unbounded_units_bound_no_others(hidden):
    rng = generator(669)
    factor = rng.normal(size=(400, 1))
    bits = (factor > 0) ^ (rng.random((400, 8)) < 0.02)
    X = np.hstack([bits, factor + 0.1 * rng.normal(size=(400, 3))])
    visible = [(slice(0, 8), "bernoulli"), (slice(8, 11), "gaussian")]
    options = {"learning_rate": 0.01, "n_iter": 100, "average": False}
    model = RBM(2, visible=visible, hidden=hidden, random_state=0, **options)
    model.set_params(learning_rate_schedule="constant").fit(X)
    real = slice(1, 2) if isinstance(hidden, Mixed) else slice(0, 2)
    weights = model.components_[real, 8:] / np.sqrt(model.variance_[8:])
    assert np.linalg.norm(weights, 2) < 0.96
    assert np.linalg.norm(model.components_[:, :8], 2) > 2
    # Two of the bits agree in 96 % of the rows; independent ones would in half of them.
    drawn = model.sample(1000, 300, random_state=1)[:, :8]
    assert np.mean(drawn[:, :, np.newaxis] == drawn[:, np.newaxis]) > 0.875 + 1 / 80


@pytest.mark.parametrize("hidden", ["gaussian", "relu"])
def test_variances_beside_unbounded_units_do_not_collapse(hidden):
    X = load_breast_cancer().data
    model = GaussianRBM(4, hidden=hidden, learning_rate=0.05, n_iter=60, random_state=0)
    apart = model.fit(X).variance_ / X.var(axis=0)
    # A floor at a thousandth is all that stopped them.
    assert apart.min() > 0.15


def test_variances_beside_unbounded_units_do_not_grow_without_end():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 8))
    X += rng.normal(size=X.shape) * np.linspace(0.3, 2, 8)
    # Such long steps throw the model far and back.
    model = GaussianRBM(4, hidden="gaussian", momentum=0.95, random_state=1)
    assert (model.fit(X).variance_ < 1000 * X.var(axis=0)).all()


def test_a_row_far_out_moves_a_weight_by_no_more_than_the_rate():
    X = generator(668).normal(size=(10, 3))
    options = {"standardize": False, "average": False, "centering": False}
    options |= {"learning_rate": 1e-3, "n_iter": 0, "batch_size": 10, "random_state": 0}
    model = RBM(4, visible=Gaussian(), **options).fit(X)
    before = model.components_.copy(), model.intercept_visible_.copy()
    X[3] = 1e6
    model.partial_fit(X)
    after = model.components_, model.intercept_visible_
    moved = [abs(a - b).max() for a, b in zip(after, before, strict=True)]
    np.testing.assert_allclose(moved, 1e-3, rtol=1e-9)


# ---- Missing values ----


@pytest.mark.parametrize("visible, mean", [("spin", -0.6), ("poisson", 6.0)])
def test_means_do_not_depend_on_what_stands_for_missing_values(visible, mean):
    rng = generator(669)
    X = rng.poisson(6.0, (4000, 3)).astype(float)
    X = np.where(rng.random(X.shape) < 0.2, 1.0, -1.0) if visible == "spin" else X
    X[rng.random(X.shape) < 0.4] = np.nan
    model = RBM(2, visible=visible, missing="latent", n_iter=0, random_state=0).fit(X)
    error = 5 * np.nanstd(X, axis=0) / np.sqrt(2000)
    assert (abs(model.visible_mean_ - mean) < error).all()


def test_methods_without_draws_put_mean_field_values_in_place():
    # Which in a normal distribution are conditional means.
    X = load_iris().data
    model = GaussianRBM(
        2, hidden="gaussian", variance=0.5, n_iter=1, missing="latent", random_state=0
    ).fit(X)
    W = model.components_.T / 0.5
    precision = np.eye(4) / 0.5 - W @ W.T
    assert np.linalg.norm(W, 2) * np.sqrt(0.5) < 0.8
    mean = np.linalg.solve(
        precision, model.intercept_visible_ / 0.5 + W @ model.intercept_hidden_
    )
    Y, lost, kept = X.copy(), [1, 3], [0, 2]
    inside, across = precision[np.ix_(lost, lost)], precision[np.ix_(lost, kept)]
    Y[:, lost] = (
        mean[lost] - np.linalg.solve(inside, across @ (X[:, kept] - mean[kept]).T).T
    )
    holes = np.where(np.isin(np.arange(4), lost), np.nan, X)
    for method in ("transform", "free_energy"):
        found, wanted = getattr(model, method)(holes), getattr(model, method)(Y)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_scores_of_rows_with_missing_values_are_those_of_mean_field_values():
    X = generator(676).normal(size=(40, 3)) @ np.diag([1.0, 2.0, 3.0])
    X[:, 1] += X[:, 0]
    holes = np.where(generator(677).random(X.shape) < 0.3, np.nan, X)
    model = GaussianRBM(3, n_iter=20, missing="latent", random_state=0).fit(holes)
    b, c, s2 = model.intercept_visible_, model.intercept_hidden_, model.variance_
    W, lost = model.components_.T, np.isnan(holes)
    filled = np.where(lost, model.visible_mean_, holes)
    for _ in range(30):
        means = expit(c + filled / s2 @ W)
        filled = np.where(lost, b + means @ W.T, filled)
    means = expit(c + filled / s2 @ W)
    np.testing.assert_allclose(model.transform(holes), means, rtol=1e-9)
    rebuilt = b + means @ W.T
    np.testing.assert_allclose(model.reconstruct(holes), rebuilt, rtol=1e-9)
    # A mixture of normal distributions, one for each hidden state.
    h = np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, -1).T
    joint = (filled / s2) @ W @ h.T + h @ c
    joint -= np.square(filled - b).dot(0.5 / s2)[:, np.newaxis]
    log_z = logsumexp(h @ c + (np.square(b + h @ W.T) - b**2).dot(0.5 / s2))
    wanted = logsumexp(joint, axis=1) - log_z - np.log(2 * np.pi * s2).sum() / 2
    np.testing.assert_allclose(model.score_samples(holes), wanted, rtol=1e-9)


@pytest.mark.parametrize("kind", [RBMClassifier(3), DBMTransformer((3, 2), n_iter=1)])
def test_machines_that_take_no_missing_values_say_so(kind, binary_digits):
    X, y = binary_digits[:50].astype(float), np.arange(50) % 2
    model = clone(kind).fit(X, y)
    holes = np.where(generator(678).random(X.shape) < 0.1, np.nan, X)
    for method in ("transform", "free_energy", "reconstruct", "score_samples"):
        if hasattr(model, method):
            with pytest.raises(ValueError, match="Input X contains NaN"):
                getattr(model, method)(holes)


def test_imputation_finds_conditional_means_of_a_gaussian_model():
    # Gaussian units in both layers are a normal distribution.
    X = load_iris().data
    model = GaussianRBM(2, hidden="gaussian", n_iter=30, random_state=0).fit(X)
    W = model.components_.T / model.variance_[:, np.newaxis]
    precision = np.diag(1 / model.variance_) - W @ W.T
    linear = model.intercept_visible_ / model.variance_ + W @ model.intercept_hidden_
    mean, lost, kept = np.linalg.solve(precision, linear), [1, 3], [0, 2]
    rows = np.repeat(X[::30], 100, axis=0)
    mask = np.isin(np.arange(4), lost)
    inside = precision[np.ix_(lost, lost)]
    across = precision[np.ix_(lost, kept)]
    wanted = (
        mean[lost] - np.linalg.solve(inside, across @ (rows[:, kept] - mean[kept]).T).T
    )
    found = model.impute(rows, mask=mask, n_gibbs_steps=200, random_state=0)
    assert_same(found[:, kept], rows[:, kept])
    found = found[:, lost].reshape(-1, 100, 2)
    error = found.std(axis=1) / np.sqrt(100)
    gap = found.mean(axis=1) - wanted.reshape(-1, 100, 2)[:, 0]
    assert (abs(gap) < 6 * error).all()
    drawn = model.impute(rows, mask=mask, method="sample", random_state=0)[:, lost]
    spread = np.cov((drawn - wanted).T)
    np.testing.assert_allclose(spread, np.linalg.inv(inside), rtol=0.4, atol=0.02)


def test_missing_values_are_latent():
    X = table(600)
    holes = generator(663).random(X.shape) < 0.2
    Y = np.where(holes, np.nan, X)
    with pytest.raises(ValueError, match="NaN.*RBM takes them for values that are not"):
        mixed_rbm().fit(Y)
    model = mixed_rbm(missing="latent", n_iter=20).fit(Y)
    with_all = mixed_rbm(n_iter=20).fit(X)
    # Means of the data do not depend on what stands where nothing is known.
    known = model._columns().encode(Y)
    error = np.nanstd(known, axis=0) / np.sqrt((~np.isnan(known)).sum(axis=0))
    assert (abs(model.visible_mean_ - np.nanmean(known, axis=0)) < 5 * error).all()
    for method in ("transform", "score_samples", "free_energy", "gibbs"):
        assert np.isfinite(getattr(model, method)(Y)).all()
    assert abs(model.score(X) - with_all.score(X)) < 1.0
    filled = model.impute(Y, random_state=0)
    assert_same(filled[~holes], X[~holes])
    assert set(filled[:, 1]) == {0, 1, 2}
    # Better than the mean where columns lean on each other.
    error = np.square(filled - X)[:, 3][holes[:, 3]].mean()
    assert error < 0.8 * np.square(X[:, 3].mean() - X[:, 3])[holes[:, 3]].mean()


# ---- Data of many kinds ----


def patches():
    pytest.importorskip("PIL")
    image = load_sample_images().images[0].astype(float).mean(axis=2)
    return extract_patches_2d(image, (8, 8), max_patches=500, random_state=0)


def odd(values):
    X = generator(664).normal(size=(200, 4))
    X[:, 1] = values
    return X


DATA = {
    "digits": lambda: load_digits().data[:500],
    "iris": lambda: load_iris().data,
    "wine": lambda: load_wine().data,
    "breast cancer": lambda: load_breast_cancer().data,
    "diabetes": lambda: load_diabetes().data,
    "patches": lambda: patches().reshape(-1, 64),
    "cauchy": lambda: generator(665).standard_cauchy((300, 6)),
    "constant": lambda: odd(0.1),
    "huge constant": lambda: odd(1e7 + 0.1),
    "one outlier": lambda: odd(np.r_[1e6, np.zeros(199)]),
    "two values": lambda: odd(np.tile([0.0, 1e-3], 100)),
    "one row": lambda: np.array([[1.0, -3.0, 1e5]]),
}


@pytest.mark.thinned(5)
@floats
@pytest.mark.parametrize("name", DATA)
def test_no_data_give_nan(name, dtype):
    X = DATA[name]().astype(dtype)
    for hidden in ("bernoulli", "relu"):
        model = GaussianRBM(16, hidden=hidden, n_iter=3, random_state=0).fit(X)
        for key, value in fitted_floats(model).items():
            assert np.isfinite(value).all(), key
            if not key.startswith("visible"):
                assert value.dtype == dtype
        assert (model.variance_ > 0).all()
        for method in ("transform", "free_energy", "gibbs", "reconstruct"):
            found = getattr(model, method)(X[:100])
            assert np.isfinite(found).all(), method
            assert found.dtype == dtype or method == "free_energy"
        sample = model.sample(5, 50, random_state=0)
        assert np.isfinite(sample).all()
        assert sample.dtype == dtype


@pytest.mark.parametrize(
    "model",
    [
        GaussianRBM(3, n_iter=2),
        GaussianRBM(3, n_iter=2, standardize=False),
        RBM(3, n_iter=2, visible="gaussian", hidden="spin"),
        DBMTransformer((3, 2), n_iter=2, visible="gaussian"),
        DBNTransformer((3, 2), n_iter=2, visible="gaussian"),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_column_stays_what_it_is(model, dtype):
    X = generator(666).normal(size=(100, 3))
    for value in (0.0, 0.1, 1 / 3, 1e7 + 0.1, 1e-30):
        Y = np.column_stack([X, np.full(100, value)]).astype(dtype)
        model.set_params(random_state=0).fit(Y)
        np.testing.assert_allclose(model.reconstruct(Y)[:, 3], Y[:, 3], rtol=1e-6)
        # In samples it varies as if in one row more it had: here in one of 101.
        size = max(abs(value) or np.median(X.std(axis=0)), 1e-13) / np.sqrt(101)
        samples = model.sample(400, 2, random_state=0)[:, 3].astype(float)
        assert abs(samples.mean() - value) < 4 * size / np.sqrt(400)
        assert 0.85 < samples.std() / size < 1.15
        # Hidden units do not hear of it.
        other = Y.copy()
        other[:, 3] += 5
        assert_same(model.transform(other), model.transform(Y))
        assert np.isfinite(model.score(other))


def test_a_column_that_begins_to_vary_is_learned():
    X = generator(667).normal(size=(200, 2))
    still = np.column_stack([X[:, 0], np.zeros(200)])
    model = GaussianRBM(3, random_state=0, learning_rate=0.1).partial_fit(still)
    assert not model.components_[:, 1].any()
    for _ in range(50):
        model.partial_fit(X)
    assert model.components_[:, 1].any()
    assert 0.5 < model.sample(400, 20, random_state=0)[:, 1].std() < 2
    # One row does not say what varies.
    assert GaussianRBM(3, random_state=0).partial_fit(X[:1]).components_.all()


@pytest.mark.parametrize(
    "model",
    [
        GaussianRBM(3, n_iter=20),
        GaussianRBM(3, n_iter=20, standardize=False),
        DBMTransformer((3, 2), n_iter=20, visible="gaussian"),
        DBNTransformer((3, 2), n_iter=20, visible="gaussian"),
    ],
    ids=name_of,
)
def test_a_fit_that_goes_on_learns_what_begins_to_vary(model):
    X = generator(669).normal(size=(300, 3))
    still = np.column_stack([X[:, :2], np.full(300, 3.0)])
    varied = X + np.array([0.0, 0.0, 3.0])
    model.set_params(random_state=0, warm_start=True).fit(still)
    found = model.fit(varied).score(varied)
    wanted = clone(model).fit(varied).score(varied)
    assert found > wanted - 0.5  # where it has no say: -15 nats


@pytest.mark.parametrize("n_constant", [30, 300])
def test_constant_columns_do_not_take_part_in_the_start(n_constant):
    X = generator(670).normal(size=(300, 6))
    many = np.hstack([X, np.zeros((300, n_constant))])
    deep = {"visible": "gaussian", "pretrain_n_iter": 0}
    for model in (GaussianRBM(50), DBMTransformer((50, 5), **deep)):
        model.set_params(n_iter=0, random_state=0)
        sizes = []
        for rows in (X, many):
            components = clone(model).fit(rows).components_
            first = components[0] if isinstance(components, list) else components
            sizes.append(first[:, :6].std())
        # (Of 300 normal numbers each.)
        assert 0.8 < sizes[1] / sizes[0] < 1.25


def test_the_floor_of_variances_is_a_share_of_those_of_the_data():
    X = load_iris().data
    X -= X.mean(axis=0)
    model = GaussianRBM(4, n_iter=2, standardize=False, random_state=0)
    for size in (1e-3, 1e3):
        found = clone(model).fit(size * X)
        # Of what one would see of the features without hidden units.
        assert (found.variance_ < 1.01 * np.square(size) * X.var(axis=0)).all()
    exact = np.outer(X[:, 0], [1.0, 2.0])
    fitted = clone(model).set_params(n_iter=500, learning_rate=1.0).fit(1e-2 * exact)
    share = fitted.variance_ / (1e-4 * exact.var(axis=0))
    assert (share >= 1e-3 * (1 - 1e-6)).all()


# ---- Copies, and training that goes on ----


def test_pickles_are_the_model():
    X = table()
    model = mixed_rbm(missing="latent").fit(X)
    model.score_samples(X)
    other = pickle.loads(pickle.dumps(model))
    assert_same_model(other, model)
    assert_same(other.score_samples(X), model.score_samples(X))
    assert_same_model(other.partial_fit(X), model.partial_fit(X))
    assert_same(other.sample(3), model.sample(3))
    again = clone(model).fit(X)
    assert_same_model(again, mixed_rbm(missing="latent").fit(X))


def test_a_fit_leaves_nothing_of_other_units():
    X = table()
    model = mixed_rbm().fit(X)
    model.score_samples(X)
    X = X[:, [1, 1, 1]] > 0
    model.set_params(visible="bernoulli").fit(X)
    assert not {"n_categories_", "variance_", "visible_scale_"} & set(vars(model))
    other = pickle.loads(pickle.dumps(model))
    assert_same(other.transform(X), model.transform(X))


def test_training_goes_on():
    X = table()
    model = mixed_rbm(n_iter=1, learning_rate_schedule="constant")
    whole = clone(model).set_params(n_iter=2, average=False).fit(X)
    parts = clone(model).set_params(warm_start=True, average=False).fit(X).fit(X)
    assert_same(fitted_floats(parts), fitted_floats(whole))
    assert parts.n_iter_ == 2
    once = clone(model).partial_fit(X[:100])
    chains, step = once.h_samples_.copy(), once._state["step"]
    once.partial_fit(X[100:])
    np.testing.assert_allclose(
        once.visible_mean_, once._columns().encode(X).mean(axis=0), rtol=1e-9
    )
    assert once._state["step"] == step + 20
    assert (once.h_samples_ != chains).any()
    assert once.n_iter_ == 2


@pytest.mark.thinned(3)
@pytest.mark.parametrize("n_rows", [1, 7])
@pytest.mark.parametrize(
    "model",
    [
        GaussianRBM(4),
        RBM(4, visible=[([0, 1], Gaussian(scale=3e-4)), ([2, 3], "gaussian")]),
        DBMTransformer((4, 3), visible="gaussian"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_first_rows_together_say_what_features_are_divided_by(model, n_rows):
    X, _ = load_iris(return_X_y=True)
    X = 1e-3 * np.random.default_rng(0).permutation(X)
    model = clone(model).set_params(random_state=0)
    for start in range(0, 105, n_rows):
        model.partial_fit(X[start : start + n_rows])
    n_seen = -(-100 // n_rows) * n_rows
    np.testing.assert_allclose(model.visible_scale_, X[:n_seen].std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(model.visible_mean_, X[:105].mean(axis=0), rtol=1e-9)
    if isinstance(model, RBM):
        np.testing.assert_allclose(model.variance_[:2], 9e-8, rtol=1e-9)
        return
    for _ in range(3):
        model.partial_fit(X)
    independent = norm(X.mean(axis=0), X.std(axis=0)).logpdf(X).sum(axis=1).mean()
    assert model.score(X) > independent - 0.5


def test_features_that_vary_late_are_divided_by_their_deviation():
    X = np.full((150, 3), 0.1)
    X[:, 1] += np.arange(150)
    model = GaussianRBM(2, random_state=0).partial_fit(X)
    np.testing.assert_array_equal(model.visible_scale_[[0, 2]], 1)
    known = model.visible_scale_[1]
    X[:75, 0] = 1e3
    model.partial_fit(X)
    assert model.visible_scale_[1] == known
    assert model.visible_scale_[2] == 1
    seen = np.append(np.full(150, 0.1), X[:, 0])
    np.testing.assert_allclose(model.visible_scale_[0], seen.std(), rtol=1e-9)


def test_features_that_are_not_to_be_divided_stay_so():
    X = table()[:, [0]] * 1e3
    model = GaussianRBM(2, standardize=False, random_state=0).partial_fit(X[:1])
    model.partial_fit(X[1:])
    np.testing.assert_array_equal(model._state["scale"], 1)
    np.testing.assert_allclose(model.visible_scale_, X.std(axis=0), rtol=1e-9)


@pytest.mark.parametrize("spec", ["categorical", "spin", SPECS], ids=str)
def test_sparse_data_are_the_same_data(spec):
    X = np.abs(table()) if spec == SPECS else table()[:, [0, 1]]
    X = X if spec != "spin" else np.sign(X)
    model = mixed_rbm(spec)
    dense, sparse = clone(model).fit(X), clone(model).fit(sp.csr_array(X))
    assert_same_model(sparse, dense)
    for method in ("transform", "score_samples", "gibbs"):
        found = getattr(sparse, method)(sp.csr_array(X))
        assert_same(found, getattr(dense, method)(X))
    assert_same(sparse.sample(init=sp.csr_array(X[:3])), dense.sample(init=X[:3]))


def test_no_dense_copy_of_wide_data():
    shape = (2000, 10_000)
    X = sp.random_array(shape, density=1e-4, format="csr", dtype=np.float32, rng=0)
    model = RBM(2, hidden="spin", n_iter=0, early_stopping=True, random_state=0)
    with traced_memory() as memory:
        model.fit(X).transform(X)
    # Of wide data, pieces of fewer rows are copied.
    assert memory.peak < 2000 * 10_000 * 4 / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "model, make",
    [
        (GaussianRBM(4), np.uint8),
        (GaussianRBM(4), np.float32),
        (RBM(4, hidden="spin"), np.uint8),
        (RBM(4, hidden="spin"), sp.csr_array),
        (RBM(4, visible=Categorical(2)), np.uint8),
    ],
)
def test_no_copy_of_the_data(model, make):
    bits = generator(672).random((20_000, 784)) < 0.2
    if model.get_params().get("visible"):
        bits[:, 1::2] = ~bits[:, ::2]  # whole blocks
    X = make(np.repeat(bits, 3, axis=0).view(np.uint8))
    arrays = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    size = sum(array.nbytes for array in arrays)
    model = clone(model).set_params(n_iter=1, batch_size=500, random_state=0)
    with traced_memory() as memory:
        model.fit(X).transform(X)
        model.free_energy(X)
    # Some of the rows at a time, and their bits: nothing of the size of the data.
    assert memory.peak < 0.3 * size + 1e6


def test_counts_begin_with_a_lower_rate():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.1), 5)
    X = np.array([rng.multinomial(100, topics[k]) for k in rng.integers(5, size=900)])
    rbm = RBM(12, visible="poisson", random_state=0).fit(X)
    independent = poisson.logpmf(X, X.mean(axis=0)).sum(axis=1).mean()
    assert float(log_likelihood(rbm, X)) > independent + 20
    for given, wanted in [
        ({"visible": "bernoulli", "hidden": "spin"}, [0.1] * 3),
        ({"visible": "gaussian"}, [0.03] * 3),
        ({"visible": "poisson"}, [0.01] * 3),
        ({"visible": [([0], "poisson"), ([1, 2], "bernoulli")]}, [0.01, 0.1, 0.1]),
        ({"visible": "poisson", "learning_rate": 0.02}, [0.02] * 3),
        ({"hidden": "poisson", "learning_rate": 0.02}, [0.02] * 3),
    ]:
        model = RBM(4, n_iter=1, random_state=0, **given).fit(X[:20, :3] > 0)
        assert_allclose(rates_of(model), wanted)
    # The larger the counts, the lower, but for real columns, which do not matter.
    visible = [([0], "poisson"), ([1], "poisson"), ([2], "gaussian")]
    rbm = RBM(4, visible=visible, n_iter=1, random_state=0)
    large = np.tile([[3.0, 40.0, 900.0], [5.0, 60.0, 1000.0]], (4, 1))
    assert_allclose(rates_of(rbm.fit(large)), [0.01 / 5, 0.01 / 5, 0.03])
    assert rates_of(rbm.partial_fit(2 * large))[0] < 0.01 / 5
    # So are the more hidden units, all of which move the mean of a large count.
    rbm = RBM(100, visible=visible, n_iter=1, random_state=0)
    assert_allclose(rates_of(rbm.fit(large)), [0.01 / 10, 0.01 / 10, 0.03])


def rates_of(model):
    """Learning rates of the visible units in the last epoch."""
    rate = model.history_["learning_rate"][-1]
    return rate * np.broadcast_to(model._rate_shares(), len(model.visible_mean_))


@pytest.mark.parametrize(
    "visible", ["poisson", [(slice(0, 5), "poisson"), ([5], "gaussian")]]
)
@pytest.mark.parametrize("model", [RBM(4), DBMTransformer((4,), pretrain_n_iter=0)])
def test_training_keeps_to_the_rates_of_counts(model, visible):
    # The first minibatch, from weights of 0, steps along the gradient of the biases.
    X = generator(671).poisson(60, (10, 6)).astype(float)
    model = clone(model).set_params(
        visible=visible, n_iter=1, batch_size=10, centering=False, average=False,
        standardize=False, random_state=0,
    )  # fmt: skip
    start = clone(model).set_params(n_iter=0).fit(X)
    before, after = (
        fitted.intercepts_[0]
        if hasattr(fitted, "intercepts_")
        else fitted.intercept_visible_
        for fitted in (start, model.fit(X))
    )
    step, rates = np.abs(after - before)[:5], rates_of(model)
    assert (step <= 1.001 * rates[:5]).all()
    assert step.max() > 0.1 * rates[0]
    assert rates[0] < 0.2 * model.history_["learning_rate"][0]


@pytest.mark.slow
def test_counts_hold_no_other_columns_up():
    """With one rate for all, 0.22 to 0.36 of the draws follow the first column."""
    rng = generator(672)
    kind = rng.integers(4, size=1500)
    follows = np.where(
        rng.random(1500) < 0.93, (kind + 1) % 4, rng.integers(4, size=1500)
    )
    table = np.column_stack([kind, follows, rng.poisson(60 + 20 * kind)]).astype(float)
    visible = [([0, 1], "categorical"), ([2], "poisson")]
    draws = RBM(256, visible=visible, random_state=0).fit(table).sample(1000)
    assert ((draws[:, 0] + 1) % 4 == draws[:, 1]).mean() > 0.85
    count = [draws[draws[:, 0] == k, 2].mean() for k in range(4)]
    assert_allclose(count, [60, 80, 100, 120], rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [100, 300])
def test_large_counts_are_learned_by_default(mean):
    """At 0.01 100 units left -1364 nats of the larger ones, with ten epochs more."""
    rng = generator(670)
    means = mean * np.exp(rng.normal(size=(3, 8)) / 2)
    X = rng.permutation(rng.poisson(np.repeat(means, 200, axis=0))).astype(float)
    X, test = X[:400], X[400:]
    independent = poisson.logpmf(test, X.mean(axis=0)).sum(axis=1).mean()
    model = RBM(100, visible="poisson", random_state=0).fit(X)
    assert model.score(test) > independent + 10


@pytest.mark.slow
def test_wide_deep_machines_learn_large_counts_by_default():
    """With rates of small counts: -8e14 nats, and a score above 0, of a wrong log Z."""
    for seed in range(2):
        rng = generator(676, seed)
        means = 100 * np.exp(rng.normal(size=(3, 8)) / 2)
        X = rng.poisson(means[rng.integers(3, size=4000)]).astype(float)
        X, test = X[:2000], X[2000:]
        independent = poisson.logpmf(test, X.mean(axis=0)).sum(axis=1).mean()
        model = DBMTransformer((100, 50), visible="poisson", random_state=seed).fit(X)
        # (A log Z that is too low would be a score that is too high.)
        # The margins are of tens of nats, and so few runs are right to one.
        log_z = log_partition(model, "ais", betas=500, n_runs=50, random_state=0)
        bound = model._deep(float).bound(test).mean()
        for estimate in (log_z.forward, log_z.reverse):
            assert independent + 10 < bound - estimate < -20


@pytest.mark.parametrize("hidden", UNBOUNDED)
def test_hidden_units_without_bounds_begin_with_a_lower_rate(hidden):
    usual = 0.01 if hidden == "poisson" else 0.1
    X, _ = spins_that_agree(300)
    real = 100 * generator(681).normal(size=(300, 1))
    cases = [
        (X, "spin"),
        (X > 0, [(slice(0, 12), "bernoulli")]),
        (X[:, :2] > 0, [([0, 1], "categorical")]),
    ]
    if hidden != "poisson":  # which has no distribution with these
        mixed = [(slice(0, 12), "spin"), ([12], "gaussian")]
        cases.append((np.hstack([X, real]), mixed))
    for rows, visible in cases:
        units = rows[:, :12].astype(float)
        if rows.shape[1] == 2:
            units = np.hstack([1 - units, units])
        usual_here = 0.03 if rows.shape[1] == 13 else usual
        if rows.shape[1] == 13:  # a real feature counts as much as steady bits
            units = np.hstack([units, np.sqrt(0.3) * scale(rows[:, 12:])])
        largest = np.linalg.eigvalsh(np.cov(units.T, bias=True))[-1]
        assert largest > 0.5
        wanted = pytest.approx(usual_here * 0.3 / largest, rel=1e-3)
        rbm = RBM(4, visible=visible, hidden=hidden, n_iter=1, random_state=0)
        assert rbm.fit(rows).history_["learning_rate"] == [wanted]
        rbm.set_params(warm_start=True).fit(rows)
        assert rbm.history_["learning_rate"] == [wanted] * 2
        # In parts, it is not higher in the end.
        parts = clone(rbm)
        for part in np.split(rows, 10):
            parts.partial_fit(part)
        assert (
            0.5 * wanted.expected
            < parts.history_["learning_rate"][-1]
            < (1.02 * wanted.expected)
        )
        # The imputer does not see some of it.
        imputer = RBMImputer(4, visible=visible, hidden=hidden, n_iter=1)
        holes = rows.astype(float)
        holes[::50, 0] = np.nan
        model = imputer.set_params(random_state=0).fit(holes).rbm_
        begun = model.history_["learning_rate"][0]
        of_imputer = 0.006 if hidden == "poisson" else 0.05
        assert begun == pytest.approx(of_imputer * 0.3 / largest, rel=0.05)
    # Where nothing varies, or little does, it is the usual one.
    for quiet in (np.ones((20, 3)), np.eye(20)[:, :3]):
        rbm = RBM(4, hidden=hidden, n_iter=1, random_state=0).fit(quiet)
        assert rbm.history_["learning_rate"] == [usual]


@pytest.mark.slow
@pytest.mark.parametrize("hidden", UNBOUNDED)
def test_hidden_units_without_bounds_learn_spins_that_agree(hidden):
    """With usual rates and without jumps: thousands of nats below independent spins."""
    X, independent = spins_that_agree()
    for seed in range(3):
        model = RBM(50, visible="spin", hidden=hidden, random_state=seed)
        if hidden == "poisson":  # whose low rate leaves the plateau late
            model.set_params(n_iter=50)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            model.fit(X)
        log_z = log_partition(model, "exact")
        assert log_likelihood(model, X, log_z).value > independent + 2


@pytest.mark.parametrize("hidden", UNBOUNDED)
def test_chains_of_hidden_units_without_bounds_jump(hidden):
    """Without jumps, some of these models end hundreds of nats lower, and more."""
    X, independent = spins_that_agree()
    for seed in range(3):
        model = RBM(50, visible="spin", hidden=hidden, random_state=seed)
        # Ten times the default, and more.
        model.set_params(learning_rate=0.01 if hidden == "poisson" else 0.1).fit(X)
        log_z = log_partition(model, "exact")
        assert log_likelihood(model, X, log_z).value > independent - 5


def test_variances_that_diverge_are_noticed():
    """Before the weights do, at a rate that is far too large."""
    X = (1e-9 * np.random.default_rng(0).normal(size=(20, 5))).astype(np.float32)
    model = RBM(
        64,
        visible="gaussian",
        hidden="gaussian",
        learning_rate=1000.0,
        batch_size=20,
        average=False,
        standardize=False,
        random_state=0,
    )
    with pytest.raises(ValueError, match="Training diverged"):
        for _ in range(20):
            assert np.isfinite(model.partial_fit(X).variance_).all()
    assert np.isfinite(model.transform(X)).all()
