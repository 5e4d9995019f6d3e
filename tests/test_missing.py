"""Missing values as latent variables: training, and what is put in their place."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from scipy.stats import chisquare
from sklearn.base import clone

from common import PARAMETERS, all_states, assert_same_model, floats, random_model
from sklearn_ebm import RBM, BernoulliRBM, DBMTransformer, GaussianRBM
from sklearn_ebm._missing import DrawnValues, fill_mean_field
from sklearn_ebm.likelihood import log_likelihood
from sklearn_ebm.units import Categorical


@pytest.fixture
def holes(digits):
    """Binarised digits in which a fifth of the values is missing, and where."""
    X = (digits > 0.5).astype(np.float32)
    missing = np.random.default_rng(0).random(X.shape) < 0.2
    return np.where(missing, np.nan, X), missing


@pytest.mark.slow
def test_likelihood_close_to_that_of_complete_data(digits, holes):
    X, (holed, missing) = (digits > 0.5).astype(np.float32), holes
    imputed = np.where(missing, np.nanmean(holed[:1200], axis=0), X)
    rbm = BernoulliRBM(
        15, n_iter=60, learning_rate=0.05, missing="latent", random_state=0
    )

    def score(data):
        model = clone(rbm).fit(data[:1200].astype(np.float32))
        return float(log_likelihood(model, X[1200:]))

    complete, latent = score(X), score(holed)
    assert latent > complete - 0.5
    assert latent > score(imputed)


def test_a_seed_and_its_generator_give_one_model(holes):
    X, _ = holes
    rbm = BernoulliRBM(4, n_iter=1, missing="latent", random_state=0).fit(X[:100])
    state = np.random.RandomState(0)
    assert_same_model(clone(rbm).set_params(random_state=state).fit(X[:100]), rbm)


@floats
def test_nothing_missing_changes_nothing(dtype, digits):
    X = digits[:200].astype(dtype)
    rbm = BernoulliRBM(6, n_iter=2, random_state=0)
    plain, latent = clone(rbm).fit(X), clone(rbm).set_params(missing="latent").fit(X)
    assert_same_model(plain, latent)
    np.testing.assert_array_equal(plain.transform(X), latent.transform(X))
    np.testing.assert_array_equal(plain.score_samples(X), latent.score_samples(X))


def test_missing_values_are_refused_by_default(holes):
    X, filled = holes[0], np.nan_to_num(holes[0])
    rbm = BernoulliRBM(4, n_iter=1).fit(filled)
    for method in (rbm.transform, rbm.score_samples, rbm.partial_fit, rbm.fit):
        with pytest.raises(ValueError, match="NaN. BernoulliRBM takes.*missing='lat"):
            method(X)
    with pytest.raises(ValueError, match="infinity"):
        rbm.fit(np.where(np.isnan(X), np.inf, X))


def test_missing_values_of_sparse_data_are_refused(holes):
    X, _ = holes
    rbm = BernoulliRBM(4, n_iter=1, missing="latent").fit(X)
    for method in (rbm.fit, rbm.transform, rbm.score_samples):
        with pytest.raises(ValueError, match="sparse"):
            method(sp.csr_array(X))
    # Nobody is told to ask for what would be refused then.
    for rbm in (
        BernoulliRBM(4, n_iter=1),
        RBM(4, visible="spin", n_iter=1),
        GaussianRBM(4, n_iter=1),
    ):
        rbm.fit(np.nan_to_num(X))
        for method in (rbm.fit, rbm.partial_fit, rbm.transform, rbm.score_samples):
            with pytest.raises(ValueError, match="missing='latent', in a dense array"):
                method(sp.csr_array(X))
    dbm = DBMTransformer((4, 3), n_iter=1).fit(np.nan_to_num(X))
    for method in (dbm.fit, dbm.transform):
        with pytest.raises(ValueError, match="in impute only, in a dense array"):
            method(sp.csr_array(X))


def test_infinity_is_refused(holes):
    X, _ = holes
    X = np.where(np.isnan(X), np.inf, X)
    with pytest.raises(ValueError, match="infinity"):
        BernoulliRBM(4, n_iter=1, missing="latent").fit(X)


def test_methods_without_a_meaning_for_missing_values_refuse_them(holes):
    X, _ = holes
    rbm = BernoulliRBM(4, n_iter=1, missing="latent", random_state=0).fit(X)
    for method in (rbm.free_energy, rbm.gibbs):
        with pytest.raises(ValueError, match="NaN"):
            method(X)


def test_columns_of_data_with_holes_may_come_one_after_another(holes):
    X = holes[0][:60]
    rbm = BernoulliRBM(4, n_iter=1, missing="latent", random_state=0).fit(X)
    other = np.asfortranarray(X)
    assert_same_model(clone(rbm).fit(other), rbm)
    for method in (rbm.transform, rbm.score_samples, rbm.reconstruct):
        np.testing.assert_array_equal(method(other), method(X))


def test_data_are_not_changed_and_the_model_is_reproducible(holes):
    X, _ = holes
    before = X.copy()
    before.flags.writeable = False
    rbm = BernoulliRBM(6, n_iter=3, missing="latent", random_state=0)
    first, again = clone(rbm).fit(before), clone(rbm).fit(X)
    assert_same_model(first, again)
    np.testing.assert_array_equal(X, before)


def test_partial_fit(holes):
    X, _ = holes

    def train():
        model = BernoulliRBM(6, missing="latent", random_state=0)
        for part in np.array_split(X, 5):
            model.partial_fit(part)
        return model

    model = train()
    assert_same_model(model, train())
    assert all(np.isfinite(getattr(model, name)).all() for name in PARAMETERS)


@floats
def test_drawn_values_follow_the_conditional(dtype):
    # Strong enough to matter, weak enough to be forgotten in 30 sweeps.
    model = random_model(4, 5, 1.0, dtype)
    n, free = 20_000, np.array([0, 2, 3])
    X = np.tile(np.array([0, 1, 0, 0, 1], dtype=dtype), (n, 1))
    X[:, free] = np.nan
    drawn = DrawnValues(123, layers=model._layered())
    filled = drawn.fill(X)
    drawn.sweep(model._layered(), 30)
    np.testing.assert_array_equal(filled[:, [1, 4]], 1)
    states = np.ones((8, 5), dtype=dtype)
    states[:, free] = all_states(3)
    p = np.exp(-model.free_energy(states).astype(float))
    found = np.bincount((filled[:, free] @ [1, 2, 4]).astype(int), minlength=8)
    expected = np.zeros(8)
    expected[(states[:, free] @ [1, 2, 4]).astype(int)] = n * p / p.sum()
    assert chisquare(found, expected).pvalue > 1e-6


def test_mean_field_values_are_a_fixed_point(holes):
    X, missing = holes
    model = BernoulliRBM(8, n_iter=5, missing="latent", random_state=0).fit(X)
    filled = fill_mean_field(model._layered(), X, model.visible_mean_)
    np.testing.assert_array_equal(filled[~missing], X[~missing])
    h = expit(filled @ model.components_.T + model.intercept_hidden_)
    v = expit(h @ model.components_ + model.intercept_visible_)
    np.testing.assert_allclose(filled[missing], v[missing], atol=1e-3)
    np.testing.assert_allclose(model.transform(X), h, atol=1e-5)


def test_score_samples_counts_known_values_only(holes):
    X, missing = holes
    X, missing = X[:20], missing[:20]
    model = BernoulliRBM(8, n_iter=5, missing="latent", random_state=0).fit(holes[0])
    filled = fill_mean_field(model._layered(), X, model.visible_mean_)
    total = np.zeros(len(X))
    for i in range(X.shape[1]):
        on, off = filled.copy(), filled.copy()
        on[:, i], off[:, i] = 1, 0
        logit = model.free_energy(off) - model.free_energy(on)
        log_p = np.where(
            X[:, i] == 1, -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
        )
        total += np.where(missing[:, i], 0, log_p)
    np.testing.assert_allclose(model.score_samples(X), total, rtol=1e-4)


def test_rows_with_nothing_known(holes):
    X, _ = holes
    model = BernoulliRBM(8, n_iter=2, missing="latent", random_state=0).fit(X)
    unknown = np.full((3, X.shape[1]), np.nan, dtype=np.float32)
    assert (model.score_samples(unknown) == 0).all()
    assert np.isfinite(model.transform(unknown)).all()


def test_chains_of_a_fit_that_goes_on_are_not_raw(holes, monkeypatch):
    # New chains begin at the means of the columns, which a trained model is past.
    X, _ = holes
    sweeps = []
    sweep = DrawnValues.sweep
    monkeypatch.setattr(
        DrawnValues,
        "sweep",
        lambda self, layers, n=1: (sweeps.append(n), sweep(self, layers, n))[1],
    )
    rbm = BernoulliRBM(4, n_iter=2, missing="latent", warm_start=True, random_state=0)
    rbm.fit(X[:100]).fit(X[:100])
    assert sweeps == [1, 1, 20, 1]


@pytest.mark.parametrize(
    "visible, draw",
    [
        ("gaussian", lambda rng, shape: rng.normal(5, 2, shape)),
        ("relu", lambda rng, shape: rng.exponential(3, shape)),
        ("poisson", lambda rng, shape: rng.poisson(4, shape)),
        ("spin", lambda rng, shape: np.where(rng.random(shape) < 0.3, 1, -1)),
    ],
)
def test_what_misses_first_leaves_mean_and_variance_of_columns(visible, draw):
    # Those of means over 1200 draws are within 6 standard errors of what is seen.
    rng = np.random.default_rng(0)
    X = draw(rng, (3000, 3)).astype(float)
    X[rng.random(X.shape) < 0.4] = np.nan
    rbm = RBM(2, visible=visible, missing="latent", n_iter=0, random_state=0).fit(X)
    mean, deviation = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    n_missing, share = np.isnan(X).sum(axis=0), np.isnan(X).mean(axis=0)
    bound = 6 * share * deviation / np.sqrt(n_missing)
    assert (np.abs(rbm.visible_mean_ - mean) < bound).all()
    squares = np.square(X - mean)
    bound = 6 * share * np.nanstd(squares, axis=0) / np.sqrt(n_missing) + bound**2
    assert (np.abs(rbm.visible_scale_**2 - deviation**2) < bound).all()


@floats
def test_values_drawn_for_features_that_look_like_bits_are_real(dtype):
    rng = np.random.default_rng(0)
    bits = (rng.random((60, 5)) < 0.5).astype(dtype)
    bits[rng.random(bits.shape) < 0.3] = np.nan
    rbm = GaussianRBM(3, n_iter=3, missing="latent", random_state=0)
    model = clone(rbm).fit(bits)
    # Nearly the same data, which do not look like bits.
    data = bits.copy()
    data.flat[np.flatnonzero(bits == 1)[0]] = np.nextafter(dtype(1), dtype(2))
    other = clone(rbm).fit(data)
    np.testing.assert_allclose(model.components_, other.components_, 1e-2, 1e-4)
    np.testing.assert_allclose(model.variance_, other.variance_, 1e-3)


NEVER_OBSERVED = {
    "bits": (BernoulliRBM(2), (0.9, 0.9, 0.1), 2),
    "real": (GaussianRBM(2), (1.0, 1000.0, -5.0), 1),
    "block": (RBM(2, visible=[(0, "bernoulli"), ([1, 2, 3], Categorical(3))]), 0, 1),
    "codes": (RBM(2, visible=[(0, "bernoulli"), ([1, 2], "categorical")]), 0, 2),
}


@pytest.mark.parametrize("case", NEVER_OBSERVED)
def test_features_that_nothing_is_known_of_are_refused(case):
    model, where, number = NEVER_OBSERVED[case]
    model = clone(model).set_params(missing="latent", n_iter=5, random_state=0)
    rng = np.random.default_rng(0)
    if case == "bits":
        X = (rng.random((600, 3)) < where).astype(float)
    elif case == "real":
        X = rng.normal(where, (1, 50, 2), (600, 3))
    else:
        X, codes = rng.integers(0, 2, (600, 4)).astype(float), rng.choice(3, 600)
        X[:, 1:] = np.eye(3)[codes] if case == "block" else codes[:, np.newaxis]
        X = X if case == "block" else X[:, :3]
    holes = X.copy()
    holes[:, number] = np.nan
    if case == "block":
        holes[:, 1:] = np.nan
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=f"^Feature {number} of X has no observed"):
            method(holes)
    # A model knows more, and goes on from what it knows.
    model.partial_fit(X)
    for rows in (holes[:1], holes[:500]):
        model.partial_fit(rows)
    mean = model.visible_mean_
    if case != "codes":
        assert (np.abs(mean - X.mean(axis=0)) < 0.3 * X.std(axis=0)).all()
    if case in ("block", "codes"):
        assert mean[1:4].sum() == pytest.approx(1, abs=1e-6)
    if case == "real":
        np.testing.assert_allclose(model.visible_scale_, X.std(axis=0), rtol=0.2)
    model.set_params(warm_start=True).fit(holes)


def test_missing_values_are_never_drawn_with_the_same_counter(monkeypatch, holes):
    seen, sweep = [], DrawnValues.sweep

    def watched(self, layers, n_sweeps=1):
        first = self.n_steps
        sweep(self, layers, n_sweeps)
        seen.extend((self.key, step) for step in range(first, self.n_steps))

    monkeypatch.setattr(DrawnValues, "sweep", watched)
    X = holes[0][:60]
    model = BernoulliRBM(3, batch_size=60, missing="latent", random_state=0)
    for _ in range(4):
        model.partial_fit(X)
    model.set_params(warm_start=True, n_iter=2).fit(X).fit(X)
    assert len(seen) > 60
    assert len(set(seen)) == len(seen)


def test_methods_that_take_no_missing_values_say_so(holes):
    model = BernoulliRBM(3, n_iter=1, missing="latent", random_state=0).fit(holes[0])
    do = ["transform", "reconstruct", "score_samples", "impute"]
    for name in do:
        assert np.isfinite(getattr(model, name)(holes[0])).all()
    for method in (model.free_energy, model.gibbs):
        match = f"{', '.join(do[:-1])} and {do[-1]} take missing values"
        with pytest.raises(ValueError, match=match):
            method(holes[0])
