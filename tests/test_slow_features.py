"""Slow feature analysis: its eigenproblem, sequences, running moments, refusals."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from threadpoolctl import threadpool_limits

from common import traced_memory
from sklearn_ebm import SlowFeatureAnalysis
from sklearn_ebm.factors import _slowness, slow_features

EXPANSIONS = ["linear", "quadratic"]
every_expansion = pytest.mark.parametrize("expansion", EXPANSIONS)
LENGTHS = [300, 1, 2, 447, 250]


@pytest.fixture(scope="module")
def walk():
    """1000 frames of four features that remember, mixed, in five sequences."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    for t in range(1, 1000):
        X[t] += [0.95, 0.8, 0.4, 0.1] * X[t - 1]
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    X = X @ rotation + 0.5
    X.setflags(write=False)
    return X


def expanded(X, expansion):
    if expansion == "linear":
        return X
    return PolynomialFeatures(include_bias=False).fit_transform(X - X.mean(axis=0))


def differences(Y, lengths):
    """Differences of frames within sequences, the plain way."""
    parts = np.split(Y, np.cumsum(lengths)[:-1])
    return np.concatenate([part[1:] - part[:-1] for part in parts])


# ---- The eigenproblem ----


@every_expansion
def test_generalised_eigenproblem(expansion, walk):
    model = SlowFeatureAnalysis(expansion=expansion).fit(walk, lengths=LENGTHS)
    E = expanded(walk, expansion)
    D = differences(E, LENGTHS)
    values, vectors = eigh(D.T @ D / len(D), np.cov(E.T, bias=True))
    assert_allclose(model.slowness_, values, rtol=1e-8)
    size = np.abs(vectors) * E.std(axis=0)[:, np.newaxis]
    vectors = vectors * np.sign(vectors[size.argmax(axis=0), range(len(vectors))])
    assert_allclose(model.components_, vectors.T, rtol=1e-8, atol=1e-8)
    assert_allclose(model.mean_, E.mean(axis=0), rtol=1e-10)


@every_expansion
def test_constraints_and_slowness(expansion, walk):
    model = SlowFeatureAnalysis(expansion=expansion).fit(walk, lengths=LENGTHS)
    Y = model.transform(walk)
    k = Y.shape[1]
    assert k == (4 if expansion == "linear" else 14)
    assert_allclose(Y.mean(axis=0), 0, atol=1e-10)
    assert_allclose(Y.T @ Y / len(Y), np.eye(k), atol=1e-9)
    D = differences(Y, LENGTHS)
    assert_allclose((D**2).mean(axis=0), model.slowness_, rtol=1e-9)
    assert (np.diff(model.slowness_) > 0).all()


@pytest.mark.parametrize("n_components", [1, 3])
@every_expansion
def test_fewer_components_are_the_slowest(expansion, n_components, walk):
    all_ = SlowFeatureAnalysis(expansion=expansion).fit(walk)
    few = SlowFeatureAnalysis(n_components, expansion=expansion).fit(walk)
    assert_allclose(few.components_, all_.components_[:n_components], rtol=1e-7)
    assert_allclose(few.slowness_, all_.slowness_[:n_components], rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_hidden_slow_sine_is_recovered(seed):
    rng = np.random.default_rng(seed)
    slow = np.sin(np.linspace(0, 6 * np.pi, 3000))
    S = np.column_stack([slow, rng.normal(size=(3000, 5))])
    X = S @ rng.normal(size=(6, 6))
    model = SlowFeatureAnalysis(1).fit(X)
    r = np.corrcoef(model.transform(X)[:, 0], slow)[0, 1]
    assert abs(r) > 0.99


def test_quadratic_expansion_recovers_a_product():
    # The example of Wiskott and Sejnowski: x1 = sin(t) + cos(11 t)^2, x2 = cos(11 t).
    t = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    X = np.column_stack([np.sin(t) + np.cos(11 * t) ** 2, np.cos(11 * t)])
    r = {}
    for expansion in EXPANSIONS:
        model = SlowFeatureAnalysis(1, expansion=expansion).fit(X)
        r[expansion] = abs(np.corrcoef(model.transform(X)[:, 0], np.sin(t))[0, 1])
    assert r["linear"] < 0.95
    assert r["quadratic"] > 0.99


@every_expansion
@pytest.mark.parametrize("dtype, far", [(np.float64, 1e7), (np.float32, 1e3)])
def test_where_data_lie_does_not_matter(dtype, far, expansion, walk):
    near = SlowFeatureAnalysis(expansion=expansion).fit(walk)
    X = (walk + far * np.array([1, -1, 1, 2])).astype(dtype)
    model = SlowFeatureAnalysis(expansion=expansion).partial_fit(X[:300])
    for part in np.split(X[300:], 7):
        model.partial_fit(part)
    whole = SlowFeatureAnalysis(expansion=expansion).fit(X, lengths=[300] + [100] * 7)
    for each in (model, whole):
        assert len(each.slowness_) == len(near.slowness_)
    rtol = 1e-6 if dtype == np.float64 else 1e-2
    assert_allclose(model.slowness_, whole.slowness_, rtol=rtol)
    size = np.abs(whole.transform(X)).max()
    assert_allclose(model.transform(X), whole.transform(X), atol=10 * rtol * size)
    wanted = SlowFeatureAnalysis(expansion=expansion)
    wanted.fit(walk, lengths=[300] + [100] * 7)
    assert_allclose(whole.slowness_, wanted.slowness_, rtol=rtol)


def test_slowness_of_noise_and_of_a_sine():
    rng = np.random.default_rng(0)
    noise = SlowFeatureAnalysis().fit(rng.normal(size=(200_000, 1)))
    assert_allclose(noise.slowness_, 2, atol=0.06)
    t = np.arange(10_000)
    sine = SlowFeatureAnalysis().fit(np.sin(2 * np.pi * t / 100)[:, np.newaxis])
    assert_allclose(sine.slowness_, (2 * np.pi / 100) ** 2, rtol=1e-2)


def test_sign_is_definite(walk):
    model = SlowFeatureAnalysis().fit(walk)
    flipped = SlowFeatureAnalysis().fit(-walk)
    assert_allclose(flipped.components_, model.components_, rtol=1e-9)
    size = np.abs(model.components_) * walk.std(axis=0)
    largest = model.components_[range(4), size.argmax(axis=1)]
    assert (largest > 0).all()


def test_scale_of_features_does_not_matter(walk):
    scales = np.array([1e-9, 1e-3, 1, 1e9])
    model = SlowFeatureAnalysis().fit(walk)
    scaled = SlowFeatureAnalysis().fit(walk * scales)
    assert_allclose(scaled.slowness_, model.slowness_, rtol=1e-9)
    assert_allclose(scaled.components_ * scales, model.components_, rtol=1e-7)


# ---- Sequences ----


@pytest.mark.slow
@pytest.mark.parametrize("block", [7, 40, 2**18])
@every_expansion
def test_blocks_do_not_matter(expansion, block, walk, monkeypatch):
    wanted = SlowFeatureAnalysis(expansion=expansion).fit(walk, lengths=LENGTHS)
    for module in (_slowness, slow_features):
        monkeypatch.setattr(module, "BLOCK_SIZE", block)
    model = SlowFeatureAnalysis(expansion=expansion).fit(walk, lengths=LENGTHS)
    assert_allclose(model.components_, wanted.components_, rtol=1e-7, atol=1e-9)
    assert_allclose(model.slowness_, wanted.slowness_, rtol=1e-10)
    assert_allclose(model.transform(walk), wanted.transform(walk), atol=1e-9)


def test_differences_never_cross_the_ends(walk):
    # A jump between sequences shows if, and only if, they are taken for one.
    X = walk.copy()
    X[500:] += 100 * walk.std(axis=0)
    apart = SlowFeatureAnalysis().fit(X, lengths=[500, 500])
    D = differences(apart.transform(X), [500, 500])
    assert_allclose((D**2).mean(axis=0), apart.slowness_, rtol=1e-8)
    together = SlowFeatureAnalysis().fit(X)
    assert together.slowness_[0] > 1.5 * apart.slowness_[0]


@every_expansion
@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_partial_fit_equals_fit(expansion, chunks, walk):
    model = SlowFeatureAnalysis(expansion=expansion)
    lengths = []
    for part in np.array_split(walk, chunks):
        within = [len(part) // 3, len(part) - len(part) // 3]
        lengths += within
        assert model.partial_fit(part, lengths=within) is model
    wanted = SlowFeatureAnalysis(expansion=expansion).fit(walk, lengths=lengths)
    assert model.n_frames_ == wanted.n_frames_ == 1000
    assert_allclose(model.slowness_, wanted.slowness_, rtol=1e-9)
    if expansion == "linear":
        assert_allclose(model.components_, wanted.components_, rtol=1e-6, atol=1e-9)
        assert_allclose(model.mean_, wanted.mean_, rtol=1e-10)
    else:
        # Products are of data less another mean: the same functions, but for the sign.
        assert_allclose(model.origin_, walk[: len(walk) // chunks].mean(axis=0))
        assert_allclose(wanted.origin_, walk.mean(axis=0))
        Y = np.abs(model.transform(walk))
        assert_allclose(Y, np.abs(wanted.transform(walk)), rtol=1e-6, atol=1e-8)


def test_fit_forgets_and_partial_fit_does_not(walk):
    once = SlowFeatureAnalysis().fit(walk[:500])
    again = SlowFeatureAnalysis().fit(walk[500:]).fit(walk[:500])
    np.testing.assert_array_equal(again.components_, once.components_)
    again.partial_fit(walk[500:])
    both = SlowFeatureAnalysis().fit(walk, lengths=[500, 500])
    assert_allclose(again.slowness_, both.slowness_, rtol=1e-9)


def test_single_frames_can_come_later(walk):
    model = SlowFeatureAnalysis().fit(walk)
    before = model.slowness_
    model.partial_fit(walk[:1])
    assert model.n_frames_ == 1001
    assert_allclose(model.slowness_, before, rtol=0.1)


def test_memory_does_not_grow_with_frames():
    rng = np.random.default_rng(0)

    def peak(n_chunks):
        model = SlowFeatureAnalysis()
        with traced_memory() as memory:
            for _ in range(n_chunks):
                model.partial_fit(rng.normal(size=(2000, 20)))
        return memory.peak, len(pickle.dumps(model))

    peak(2)  # what is imported or cached on first use
    (few, size), (many, larger) = peak(3), peak(30)
    assert many < few + 50_000
    assert larger < size + 100


def test_lengths_are_routed():
    X = np.random.default_rng(0).normal(size=(60, 3)).cumsum(axis=0)
    lengths = [20, 40]
    with config_context(enable_metadata_routing=True):
        step = SlowFeatureAnalysis().set_fit_request(lengths=True)
        pipeline = make_pipeline(StandardScaler(), step).fit(X, lengths=lengths)
        SlowFeatureAnalysis().set_partial_fit_request(lengths=True)
    wanted = SlowFeatureAnalysis().fit(
        StandardScaler().fit_transform(X), lengths=lengths
    )
    assert_allclose(pipeline[-1].slowness_, wanted.slowness_)
    assert not np.allclose(SlowFeatureAnalysis().fit(X).slowness_, wanted.slowness_)


@every_expansion
@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("n_frames", [10, 1000])
def test_tables_that_all_transformers_give(n_frames, library, expansion, walk):
    pytest.importorskip(library)
    X, model = walk[:n_frames], SlowFeatureAnalysis(expansion=expansion)
    wanted = model.fit_transform(X)
    with config_context(transform_output=library):
        found = model.fit_transform(X)
    assert list(found.columns) == list(model.get_feature_names_out())
    assert_array_equal(found, wanted)


# ---- Rank ----


@every_expansion
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dependent_and_constant_features(expansion, dtype, walk):
    X = np.column_stack([walk[:, :2], walk[:, :2] @ [[1], [2]], np.full(1000, 0.1)])
    X = X.astype(dtype)
    model = SlowFeatureAnalysis(expansion=expansion).fit(X)
    plain = SlowFeatureAnalysis(expansion=expansion).fit(X[:, :2])
    assert len(model.slowness_) == (2 if expansion == "linear" else 5)
    rtol = 1e-7 if dtype == np.float64 else 1e-3
    assert_allclose(model.slowness_, plain.slowness_, rtol=rtol)
    Y = model.transform(X)
    assert_allclose(np.abs(Y), np.abs(plain.transform(X[:, :2])), atol=300 * rtol)
    assert np.abs(model.components_).max() < 1e3


def test_fewer_frames_than_features():
    X = np.random.default_rng(0).normal(size=(10, 30))
    model = SlowFeatureAnalysis().fit(X)
    assert model.components_.shape == (9, 30)
    assert_allclose(np.cov(model.transform(X).T, bias=True), np.eye(9), atol=1e-9)


@pytest.fixture(scope="module")
def wide():
    """60 frames of 80 features that remember, of many scales, one of them constant."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 80))
    for t in range(1, 60):
        X[t] += 0.9 * X[t - 1]
    X = (X @ rng.normal(size=(80, 80)) + 30) * np.logspace(-3, 3, 80)
    X[:, 3] = 0.1
    return X


def by_moments(model, X, lengths):
    """The model that moments of all features give, however few the frames are."""
    state = _slowness.without_frames(_slowness.first_state(X, model.expansion))
    model._learn(state, X, np.array(lengths))
    return model


@pytest.mark.parametrize("n_components", [None, 3])
@pytest.mark.parametrize("lengths", [[60], [59, 1], [31, 29]])
def test_few_frames_have_the_slow_features_of_their_moments(
    lengths, n_components, wide
):
    model = SlowFeatureAnalysis(n_components).fit(wide, lengths=lengths)
    wanted = by_moments(SlowFeatureAnalysis(n_components), wide, lengths)
    assert model.n_frames_ == wanted.n_frames_ == 60
    scale = wide.std(axis=0)
    for name in ("components_", "mixing_"):
        size = scale if name == "components_" else 1 / scale[:, np.newaxis]
        found, right = getattr(model, name) * size, getattr(wanted, name) * size
        assert_allclose(found, right, atol=1e-9 * np.abs(right).max())
    assert_allclose(model.slowness_, wanted.slowness_, rtol=1e-9, atol=1e-12)
    assert_allclose(model.mean_, wanted.mean_, rtol=1e-12)


@every_expansion
def test_few_frames_become_many(expansion, wide):
    """Before and after there are more of them than of features."""
    X = wide[:, 4 : 80 if expansion == "linear" else 12]
    X = np.concatenate([X, X[::-1] ** 2])
    model, lengths = SlowFeatureAnalysis(expansion=expansion), []
    for part in np.array_split(X, 5):
        before = pickle.dumps(model)
        lengths += [10, len(part) - 10]
        model.partial_fit(part, lengths=lengths[-2:])
        wanted = SlowFeatureAnalysis(expansion=expansion)
        n = sum(lengths)
        wanted.fit(X[:n], lengths=lengths)
        assert model.n_frames_ == n
        assert ("frames" in model._state) == (n < len(model.mean_))
        assert_allclose(model.slowness_, wanted.slowness_, rtol=1e-6, atol=1e-9)
        again = pickle.loads(before).partial_fit(part, lengths=lengths[-2:])
        assert_array_equal(again.components_, model.components_)
    assert "frames" not in model._state


def test_few_frames_are_the_models_own(wide):
    X = wide.copy()
    model = SlowFeatureAnalysis().fit(X[:30])
    X[:] = 0
    model.partial_fit(wide[30:])
    wanted = SlowFeatureAnalysis().fit(wide, lengths=[30, 30])
    assert_array_equal(model.components_, wanted.components_)


def test_few_frames_on_any_number_of_threads():
    X = np.random.default_rng(0).normal(size=(300, 400))
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            found.append(SlowFeatureAnalysis(5).fit(X))
    assert_allclose(found[0].components_, found[1].components_, 1e-6, 1e-9)


def test_few_frames_of_short_sequences():
    # Several functions are constant within sequences, and so as slow as can be.
    X = np.random.default_rng(0).normal(size=(300, 400))
    model = SlowFeatureAnalysis(5).fit(X, lengths=[50] * 6)
    assert_allclose(model.slowness_, 0, atol=1e-12)
    Y = model.transform(X).reshape(6, 50, 5)
    assert_allclose(Y - Y[:, :1], 0, atol=1e-6)
    assert_allclose(np.cov(Y.reshape(-1, 5).T, bias=True), np.eye(5), atol=1e-6)


def test_the_work_of_few_frames_does_not_grow_with_all_pairs_of_features():
    X = np.random.default_rng(0).normal(size=(10, 3000))
    with traced_memory() as memory:
        SlowFeatureAnalysis().fit(X)
    assert memory.peak < 10 * X.nbytes


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e160, 1e-160])
def test_few_frames_beyond_all_numbers_are_refused(scale, wide):
    message = "beyond the numbers" if scale > 1 else "all frames are equal, or so close"
    with pytest.raises(ValueError, match=message):
        SlowFeatureAnalysis().fit(scale * wide)


def test_tol_leaves_out_small_directions(walk):
    X = walk.copy()
    X[:, 3] = X[:, 0] + 1e-3 * X[:, 3]
    assert SlowFeatureAnalysis().fit(X).components_.shape == (4, 4)
    assert SlowFeatureAnalysis(tol=1e-4).fit(X).components_.shape == (3, 4)


def test_directions_of_rounding_are_left_out_whatever_the_tolerance():
    rng = np.random.default_rng(0)
    X = np.outer(rng.normal(size=50), rng.normal(size=20))
    assert SlowFeatureAnalysis(tol=0.0).fit(X).components_.shape == (1, 20)


def test_more_components_than_directions(walk):
    wanted = "n_components=7 is more than the 4 direc"
    with pytest.warns(UserWarning, match=wanted) as caught:
        model = SlowFeatureAnalysis(7).fit(walk)
    assert caught[0].filename == __file__
    assert model.transform(walk).shape == (1000, 4)


# ---- There and back, names, dtypes ----


def test_inverse_transform(walk):
    model = SlowFeatureAnalysis().fit(walk)
    assert_allclose(model.inverse_transform(model.transform(walk)), walk, atol=1e-9)
    few = SlowFeatureAnalysis(2).fit(walk)
    Y = few.transform(walk)
    design = np.column_stack([np.ones(1000), Y])
    best = design @ np.linalg.lstsq(design, walk, rcond=None)[0]
    assert_allclose(few.inverse_transform(Y), best, rtol=1e-8, atol=1e-9)
    with pytest.raises(ValueError, match="X has 3 columns, but there are 2 slow"):
        few.inverse_transform(walk[:, :3])


def test_no_inverse_of_products(walk):
    model = SlowFeatureAnalysis().fit(walk).set_params(expansion="quadratic").fit(walk)
    assert not hasattr(model, "inverse_transform")
    assert not hasattr(model, "mixing_")
    with pytest.raises(AttributeError) as caught:
        model.inverse_transform(walk)
    assert "products of features cannot be undone" in str(caught.value.__cause__)


@pytest.mark.parametrize("expansion, other", [EXPANSIONS, EXPANSIONS[::-1]])
def test_an_expansion_that_is_set_later_is_for_the_next_fit(expansion, other, walk):
    model = SlowFeatureAnalysis(expansion=expansion).fit(walk)
    Y, invertible = model.transform(walk), hasattr(model, "inverse_transform")
    model.set_params(expansion=other)
    assert_array_equal(model.transform(walk), Y)
    assert hasattr(model, "inverse_transform") == invertible
    if invertible:
        assert_allclose(model.inverse_transform(Y), walk, atol=1e-9)
    wanted = SlowFeatureAnalysis(expansion=other).fit(walk).transform(walk)
    assert_array_equal(model.fit(walk).transform(walk), wanted)


@every_expansion
def test_dtypes_and_names(expansion, walk):
    X = walk.astype(np.float32)
    model = SlowFeatureAnalysis(2, expansion=expansion).fit(X)
    assert model.components_.dtype == model.slowness_.dtype == np.float32
    assert model.transform(X).dtype == np.float32
    wanted = SlowFeatureAnalysis(2, expansion=expansion).fit(walk)
    assert_allclose(model.slowness_, wanted.slowness_, rtol=1e-4)
    names = ["slowfeatureanalysis0", "slowfeatureanalysis1"]
    assert list(model.get_feature_names_out()) == names


# ---- Refusals ----


@pytest.mark.parametrize(
    "lengths, message",
    [
        ([500, 400], "lengths must sum to the number of frames, 1000, but sum to 900"),
        ([1001, -1], "lengths must be a list of positive integers"),
        ([1000, 0], "lengths must be a list of positive integers"),
        ([1000.0], "lengths must be a list of positive integers"),
        (1000, "lengths must be a list of positive integers"),
        ([], "lengths must be a list of positive integers"),
        ([[500], [1, 499]], "lengths: .*sequence"),
        # Sums that numbers of 64 bits do not have.
        (4 * [2**62] + [1000], f"but sum to {2**64 + 1000}"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_lengths(lengths, message, method, walk):
    with pytest.raises(ValueError, match=message):
        getattr(SlowFeatureAnalysis(), method)(walk, lengths=lengths)


def test_no_differences(walk):
    with pytest.raises(ValueError, match="at least two frames"):
        SlowFeatureAnalysis().fit(walk[:3], lengths=[1, 1, 1])
    with pytest.raises(ValueError, match="at least two frames"):
        SlowFeatureAnalysis().partial_fit(walk[:1])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_constant_data_are_refused(method):
    model = SlowFeatureAnalysis()
    with pytest.raises(ValueError, match="all frames are equal"):
        getattr(model, method)(np.full((1000, 3), 0.1))
    assert not hasattr(model, "n_features_in_")


def test_expansion_cannot_change_half_way(walk):
    model = SlowFeatureAnalysis().fit(walk).set_params(expansion="quadratic")
    with pytest.raises(ValueError, match="began with expansion='linear'"):
        model.partial_fit(walk)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("expansion, scale", [("linear", 1e160), ("quadratic", 1e100)])
def test_variances_beyond_all_numbers_are_refused(expansion, scale, walk):
    model = SlowFeatureAnalysis(expansion=expansion)
    message = "variances of the features take sums .* beyond the numbers of float64"
    with pytest.raises(ValueError, match=message):
        model.fit(scale * walk)
    assert not hasattr(model, "components_")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-155, 1e-160])
def test_features_whose_variance_underflows_are_constant(scale, walk):
    X, model = walk / walk.std(axis=0), SlowFeatureAnalysis()
    with pytest.raises(ValueError, match="all frames are equal, or so close that no"):
        model.fit(scale * X)
    small, wanted = X.copy(), X.copy()
    small[:, 1], wanted[:, 1] = scale * X[:, 1], 0
    assert_allclose(model.fit(small).transform(small), model.fit(wanted).transform(X))
    # Of products, features themselves are left.
    plain = model.fit(X).slowness_
    model = SlowFeatureAnalysis(expansion="quadratic")
    assert_allclose(model.fit(np.sqrt(scale) * X).slowness_, plain, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-21, 1e21])
def test_products_that_float32_cannot_hold_are_refused(scale, walk):
    X = scale * walk / walk.std(axis=0)
    model = SlowFeatureAnalysis(expansion="quadratic")
    with pytest.raises(ValueError, match="beyond the numbers of float32"):
        model.fit(X.astype(np.float32))
    assert not hasattr(model, "components_")
    assert np.isfinite(model.fit(X).transform(X)).all()
