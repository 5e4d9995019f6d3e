"""MultimodalDBM: pathways that stay apart, and what one modality says of another."""

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import expit, logit, logsumexp, softmax
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from common import all_states, assert_same
from sklearn_ebm import DBMTransformer, MultimodalDBM, RBMImputer, _missing
from sklearn_ebm.likelihood import log_partition
from sklearn_ebm.units import Categorical, Mixed, Spin

# Columns of the modalities are not next to each other.
MODALITIES = [("a", [0, 3], "bernoulli", (2,)), ("b", [1, 2, 4], "bernoulli", (2,))]
DEEP = [("a", [0, 3], "bernoulli", (3, 2)), ("b", [1, 2, 4], "gaussian", (4, 1))]


def random_bits(n_rows, n_columns=5, seed=0):
    return (np.random.default_rng(seed).random((n_rows, n_columns)) < 0.5) * 1.0


def small_model(seed=0, modalities=MODALITIES, n_joint=2, scale=1.5):
    """A model with random weights, strong enough that errors show."""
    rng = np.random.default_rng(seed)
    model = MultimodalDBM(modalities, n_joint, n_iter=0, random_state=0)
    model.fit(random_bits(20))
    connected = [weights != 0 for weights in model.components_]
    model.components_ = [
        np.where(where, rng.normal(0, scale, where.shape), 0) for where in connected
    ]
    model.intercepts_ = [rng.normal(0, 0.5, len(b)) for b in model.intercepts_]
    return model


def log_weights(model):
    """All states of all units, and their -energies, by plain loops over layers."""
    sizes = [len(b) for b in model.intercepts_]
    states = all_states(sum(sizes))
    layers = np.split(states, np.cumsum(sizes)[:-1], axis=1)
    total = sum(s @ b for s, b in zip(layers, model.intercepts_, strict=True))
    for below, above, W in zip(layers, layers[1:], model.components_):
        total = total + ((above @ W) * below).sum(axis=1)
    return layers, total


# ---- Pathways ----


def test_layers_and_what_is_connected():
    X = random_bits(100)
    model = MultimodalDBM(DEEP, 3, n_iter=2, pretrain_n_iter=1, random_state=0)
    model.set_params(momentum=0.5, weight_decay=1e-3, batch_size=10).fit(X)
    first, second, joint = model.components_
    assert model.hidden_layer_sizes == (7, 3, 3)
    assert (first.shape, second.shape, joint.shape) == ((7, 5), (3, 7), (3, 3))
    a, b = [0, 3], [1, 2, 4]
    wanted = np.zeros((7, 5), bool)
    wanted[np.ix_(range(3), a)] = wanted[np.ix_(range(3, 7), b)] = True
    np.testing.assert_array_equal(first != 0, wanted)
    wanted = np.zeros((3, 7), bool)
    wanted[:2, :3] = wanted[2:, 3:] = True
    np.testing.assert_array_equal(second != 0, wanted)
    assert (joint != 0).all()
    assert (model.variance_[a] == 1).all()
    assert (model.variance_[b] != 1).all()


@pytest.mark.parametrize("pretrain_n_iter", [0, 2])
def test_one_modality_is_a_plain_machine(pretrain_n_iter):
    X = random_bits(100)
    params = {"n_iter": 3, "pretrain_n_iter": pretrain_n_iter, "random_state": 0}
    params["learning_rate"] = 0.05
    model = MultimodalDBM([("all", slice(None), "bernoulli", 4)], 3, **params).fit(X)
    twin = DBMTransformer((4, 3), **params).fit(X)
    for name in ("components_", "intercepts_", "h_samples_"):
        assert_same(getattr(model, name), getattr(twin, name))
    assert_same(model.transform(X), twin.transform(X))


def test_columns_by_name_index_mask_and_slice():
    X = random_bits(50, 4)
    frame = pd.DataFrame(X, columns=list("wxyz"))
    first = [["w", "x"], [0, 1], np.array([True, True, False, False]), slice(0, 2)]
    models = [
        MultimodalDBM(
            [("one", columns, "bernoulli", 2), ("two", ["y", "z"], "bernoulli", 3)],
            2,
            n_iter=1,
            random_state=0,
        ).fit(frame)
        for columns in first
    ]
    for model in models[1:]:
        assert_same(model.components_, models[0].components_)


def test_columns_of_codes():
    # A class of three is said by three columns of codes, and by six bits.
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 500)
    noise = rng.random((500, 3)) < 0.1
    codes = np.where(noise, rng.integers(0, 3, (500, 3)), classes[:, np.newaxis])
    bits = (np.arange(6) // 2 == classes[:, np.newaxis]) ^ (rng.random((500, 6)) < 0.05)
    X = np.hstack([codes, bits])
    modalities = [
        ("codes", slice(0, 3), "categorical", 6),
        ("bits", slice(3, 9), "bernoulli", 6),
    ]
    model = MultimodalDBM(
        modalities, 4, batch_size=10, n_iter=60, learning_rate=0.1, random_state=0
    ).fit(X)
    # Visible units: three of every column of codes, and six bits.
    assert model.components_[0].shape == (12, 15)
    first = np.arange(15) < 9
    np.testing.assert_array_equal(model.components_[0][0] != 0, first)
    np.testing.assert_array_equal(model.components_[0][6] != 0, ~first)
    found = model.infer(X, "codes", n_gibbs_steps=200, random_state=0)
    assert set(np.unique(found)) <= {0.0, 1.0, 2.0}
    # A third by chance.
    assert (found == classes[:, np.newaxis]).mean() > 0.6


# ---- The distribution ----


@pytest.mark.parametrize("n_joint", [1, 2])
def test_log_z_is_that_of_enumeration(n_joint):
    model = small_model(n_joint=n_joint)
    _, energies = log_weights(model)
    found = log_partition(model, method="exact").value
    assert found == pytest.approx(logsumexp(energies), rel=1e-10)


@pytest.mark.slow
def test_inferred_modality_has_the_conditional_distribution():
    model = small_model()
    layers, energies = log_weights(model)
    visible = layers[0]
    for given in all_states(2):
        rows = (visible[:, [0, 3]] == given).all(axis=1)
        p = np.exp(energies[rows] - logsumexp(energies[rows]))
        others = visible[rows][:, [1, 2, 4]] @ [4, 2, 1]
        wanted = np.bincount(others.astype(int), p)
        X = np.full((4000, 5), np.nan)
        X[:, [0, 3]] = given
        drawn = model.infer(X, "b", method="sample", n_gibbs_steps=50, random_state=1)
        counts = np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8)
        chi2 = ((counts - 4000 * wanted) ** 2 / (4000 * wanted)).sum()
        # p = 1e-6 at 7 degrees of freedom.
        assert chi2 < 40.5
        # The mean of many chains, each a mean over its second half.
        means = model.infer(X[:500], "b", n_gibbs_steps=400, random_state=2)
        exact = p @ visible[rows][:, [1, 2, 4]]
        # Five standard errors, were the draws of a chain all alike.
        np.testing.assert_allclose(means.mean(axis=0), exact, atol=5 * 0.5 / 500**0.5)


@pytest.mark.slow
def test_infer_looks_at_the_other_modality_only():
    model = small_model()
    X = random_bits(30, seed=3)
    found = model.infer(X, "a", random_state=0)
    changed = X.copy()
    changed[:, [0, 3]] = np.nan
    assert_same(model.infer(changed, "a", random_state=0), found)
    assert found.shape == (30, 2)
    filled = model.impute(changed, n_gibbs_steps=1000, random_state=0)
    assert_same(filled[:, [0, 3]], found)
    assert_same(filled[:, [1, 2, 4]], X[:, [1, 2, 4]])


@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame])
def test_inferred_columns_may_hold_anything(container):
    model = small_model()
    X = random_bits(30, seed=3)
    found = model.infer(container(X), "a", random_state=0)
    changed = X.copy()
    changed[:, 0], changed[:, 3] = np.inf, -7.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(model.infer(container(changed), "a", random_state=0), found)
    with pytest.raises(ValueError, match="infinity"):
        model.infer(container(changed), "b")
    with pytest.raises(ValueError, match="4 features, but MultimodalDBM is expecting"):
        model.infer(container(X[:, :4]), "a")
    with pytest.raises(ValueError, match=r"mask must be bool of shape \(30, 5\)"):
        model.impute(container(X), mask=np.ones(4, bool))
    with pytest.raises(TypeError, match="dense data is required"):
        model.infer(sp.csr_array(X), "a")


def test_what_a_modality_says_of_the_other_is_learned():
    rng = np.random.default_rng(0)
    bit = rng.random((500, 1)) < 0.5
    X = np.repeat(bit, 6, axis=1) ^ (rng.random((500, 6)) < 0.05)
    modalities = [
        ("left", slice(0, 3), "bernoulli", 4),
        ("right", slice(3, 6), "bernoulli", 4),
    ]
    model = MultimodalDBM(modalities, 2, batch_size=10, n_iter=100, random_state=0).fit(
        X
    )
    left = np.full((2, 6), np.nan)
    left[:, :3] = [[0], [1]]
    # All copies that are seen agree: the others are on with 0.05 or 0.95.
    found = model.infer(left, "right", n_gibbs_steps=500, random_state=0)
    np.testing.assert_allclose(found, [[0.05] * 3, [0.95] * 3], atol=0.15)


# ---- Missing values in transform ----


@pytest.mark.slow
def test_images_tell_their_labels(digits, labels):
    """Labels by themselves have no structure that their pathway could learn."""
    X = np.hstack([digits > 0.5, np.eye(10)[labels]])
    modalities = [
        ("image", slice(0, 64), "bernoulli", 128),
        ("label", slice(64, 74), Categorical(10), 64),
    ]
    for seed in range(2):
        model = MultimodalDBM(modalities, random_state=seed).fit(X[:700])
        found = model.infer(X[700:1000], "label", random_state=0)
        assert (found.argmax(axis=1) == labels[700:1000]).mean() > 0.7


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(3))
def test_measurements_tell_labels_and_labels_measurements(seed):
    X, y = load_wine(return_X_y=True)
    X = np.column_stack([StandardScaler().fit_transform(X), y])
    X = X[np.random.default_rng(seed).permutation(len(X))]
    modalities = [
        ("measurements", slice(0, 13), "gaussian", 32),
        ("label", [13], "categorical", 16),
    ]
    model = MultimodalDBM(modalities, 16, random_state=seed).fit(X[:120])
    found = model.infer(X[120:], "label", random_state=0)[:, 0]
    # (The most frequent label has 0.4, and means of the labels explain 0.43.)
    assert (found == X[120:, 13]).mean() > 0.75
    error = model.infer(X[120:], "measurements", random_state=0) - X[120:, :13]
    assert 1 - np.square(error).mean() / X[120:, :13].var(axis=0).mean() > 0.15


@pytest.mark.parametrize("unit", ["bernoulli", "gaussian"])
def test_weights_of_a_label_start_where_it_is_told_well(unit):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((60, 4)), rng.integers(3, size=60)])
    modalities = [("x", slice(0, 4), unit, 5), ("label", [4], "categorical", 8)]
    model = MultimodalDBM(modalities, 6, n_iter=0, pretrain_n_iter=0, random_state=0)
    model.fit(X)
    W, b, c = model.components_[0], model.intercepts_[0], model.intercepts_[1]
    assert not W[:5, 4:].any() and not W[5:, :4].any()
    label, rate = W[5:, 4:], model._state["hidden_offset"][5:13]
    assert_allclose(np.square(label).T @ (rate * (1 - rate)), 2.5**2)
    # Where both layers are at their means, so are fields: of the label and its units.
    mean = np.bincount(X[:, 4].astype(int)) / 60
    assert_allclose(softmax(b[4:] + label.T @ rate), mean, rtol=0.02)
    up = model.components_[1]
    assert_allclose(
        c[5:] + label @ mean + up[:, 5:].T @ model._state["latent_offset"],
        logit(rate),
        atol=0.05,
    )


def test_default_learning_rates():
    X = np.array([[1.0, 0, 1], [0, 1, 0]])
    for kind, rate in [("bernoulli", 0.05), ("gaussian", 0.05), ("relu", 0.01)]:
        modalities = [("a", [0, 2], "bernoulli", 2), ("b", [1], kind, 2)]
        model = MultimodalDBM(modalities, 2, n_iter=1, pretrain_n_iter=0).fit(X)
        assert model.history_["learning_rate"] == [rate]


def mean_field(model, x, n_rounds, n_steps):
    """One row: the layers settle, then missing units take their means, in rounds."""
    W1, W2 = model.components_
    b, c1, c2 = model.intercepts_
    missing = np.isnan(x)
    v = np.where(missing, model.visible_mean_, x)
    for _ in range(n_rounds + 1):
        top = expit(expit(2 * W1 @ v + c1) @ W2.T + c2)
        for _ in range(n_steps):
            top = expit(W2 @ expit(W1 @ v + c1 + W2.T @ top) + c2)
        first = expit(W1 @ v + c1 + W2.T @ top)
        v, before = np.where(missing, expit(b + W1.T @ first), x), v
    return top, before


@pytest.mark.parametrize("n_rounds", [1, 2, 30])
def test_missing_values_are_latent(n_rounds, monkeypatch):
    monkeypatch.setattr(_missing, "N_MEAN_FIELD", n_rounds)
    model = small_model().set_params(
        missing="latent", n_mean_field_steps=7, mean_field_tol=0.0
    )
    X = random_bits(12, seed=4)
    X[0, 1] = X[2, [0, 3]] = X[3] = X[5, [1, 2, 4]] = np.nan
    found = model.transform(X)
    for row, x in zip(found, X, strict=True):
        np.testing.assert_allclose(
            row, mean_field(model, x, n_rounds, 7)[0], rtol=1e-12
        )
    whole = ~np.isnan(X).any(axis=1)
    plain = clone(model).set_params(missing="raise")
    plain.__dict__.update({**vars(model), "missing": "raise"})
    assert_same(plain.transform(X[whole]), found[whole])


def test_missing_values_are_refused_elsewhere():
    X = random_bits(30)
    X[3, 2] = np.nan
    model = small_model()
    with pytest.raises(ValueError, match="contains NaN.*missing='latent'"):
        model.transform(X)
    methods = model.fit, model.partial_fit, model.score_samples, model.reconstruct
    for missing in ("raise", "latent"):
        model.set_params(missing=missing)
        # What takes missing values is transform alone: no promise of all methods.
        assert not get_tags(model).input_tags.allow_nan
        for method in methods:
            with pytest.raises(ValueError, match=r"contains NaN.*whole rows: leave"):
                method(X)
    # What is advised works.
    model.transform(X)
    model.fit(RBMImputer(2, visible="bernoulli", n_iter=1).fit_transform(X).round())


# ---- What is refused ----


@pytest.mark.parametrize(
    ("modalities", "message"),
    [
        ([], "one or more with different names"),
        ([("a", [0], "bernoulli")], "must hold tuples"),
        ([("a", [0, 1], [([0], "spin")], 2)], "unit of the modality 'a' .* one kind"),
        ([("a", [0, 1], None, 2)], "unit of the modality 'a' .* got None"),
        ([("a", [0], Mixed(((1, Spin()),)), 2)], "unit of the modality 'a' .* Mixed"),
        ([("a", slice(None), "bernoulli", 0)], "'a' must be integers of at least 1"),
        ([("a", slice(None), "bernoulli", [[2]])], "'a' must be integers"),
        ([("a", slice(None), "bernoulli", ())], "'a' must be integers"),
        ([("a", slice(None), "bernoulli", 2.5)], "'a' must be integers"),
        ([("a", slice(None), "boolean", 2)], "boolean"),
        (
            [("a", [0, 1], "bernoulli", 2), ("a", [2, 3, 4], "bernoulli", 2)],
            r"different names, got \['a', 'a'\]",
        ),
        (
            [("a", [0, 1], "bernoulli", 2), ("b", [2, 3, 4], "bernoulli", (2, 2))],
            "as many hidden layers, got {'a': 1, 'b': 2}",
        ),
        (
            [("a", [0, 1], "bernoulli", 2), ("b", [1, 2, 3, 4], "bernoulli", 2)],
            r"not columns \[1\] more than once",
        ),
        (
            [("a", [0, 0, 1], "bernoulli", 2), ("b", [2, 3, 4], "bernoulli", 2)],
            r"modalities must name .* \[0\] more than once",
        ),
        ([("a", [0, 1, 3], "bernoulli", 2)], r"also columns \[2, 4\]"),
        (
            [("a", slice(None), "bernoulli", 2), ("b", [], "bernoulli", 2)],
            "'b' has none of the columns",
        ),
        ([("a", ["x"], "bernoulli", 2)], "no names of columns"),
    ],
)
def test_modalities_that_are_refused(modalities, message):
    with pytest.raises(ValueError, match=message):
        MultimodalDBM(modalities, 2, n_iter=1).fit(random_bits(10))


def test_type_of_modalities():
    with pytest.raises(ValueError, match="'modalities' parameter of MultimodalDBM"):
        MultimodalDBM("all", 2).fit(random_bits(10))


def test_unknown_modality():
    with pytest.raises(ValueError, match="modality must be 'a' or 'b', got 'c'"):
        small_model().infer(random_bits(3), "c")


@pytest.mark.parametrize(
    "modalities",
    ["abc", [("a", [0], "bernoulli", 2), ("b", [1], "bernoulli", (2, 2))]],
    ids=str,
)
def test_modalities_that_make_no_machine_have_no_sizes(modalities):
    model = MultimodalDBM(modalities)
    assert not hasattr(model, "hidden_layer_sizes")
    inspect.getmembers(model)  # as editors do


def test_other_pathways_are_refused():
    model = MultimodalDBM(MODALITIES, 2, n_iter=1, warm_start=True, random_state=0)
    model.fit(random_bits(20)).fit(random_bits(20))
    swapped = [("a", [0, 1], "bernoulli", 2), ("b", [2, 3, 4], "bernoulli", 2)]
    for method in (model.set_params(modalities=swapped).fit, model.partial_fit):
        with pytest.raises(ValueError, match="modalities=.* does not fit the model"):
            method(random_bits(20))
    model.set_params(modalities=MODALITIES, n_joint=3)
    with pytest.raises(ValueError, match="does not fit the model"):
        model.fit(random_bits(20))


def test_copies():
    model = small_model()
    X = random_bits(10)
    twin = pickle.loads(pickle.dumps(model))
    assert_same(twin.transform(X), model.transform(X))
    assert_same(
        twin.infer(X, "a", method="sample"), model.infer(X, "a", method="sample")
    )
