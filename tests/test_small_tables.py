"""Tables of a hundred rows or two: classifiers at their defaults, and warnings."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import (
    load_iris,
    load_wine,
    make_classification,
    make_gaussian_quantiles,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, binarize, minmax_scale, scale

from sklearn_ebm import (
    RBM,
    BernoulliRBM,
    DBMClassifier,
    DBMTransformer,
    DBNClassifier,
    DBNTransformer,
    GaussianRBM,
    RBMClassifier,
)

# And folds. (Of the wine, half is enough to learn from.)
TABLES = {"iris": (load_iris, 3), "wine": (load_wine, 2)}
# (Multi-prediction is slow, and more so on the iris.)
CASES = [
    (RBMClassifier(), "iris"),
    (RBMClassifier(), "wine"),
    (DBNClassifier(), "iris"),
    (DBNClassifier(), "wine"),
    (DBMClassifier(), "iris"),
    (DBMClassifier(), "wine"),
    (DBMClassifier(objective="multi_prediction"), "wine"),
]


@pytest.mark.slow
@pytest.mark.parametrize("model, table", CASES, ids=str)
def test_small_tables_are_learned(model, table):
    load, n_folds = TABLES[table]
    X, y = load(return_X_y=True)
    model = make_pipeline(MinMaxScaler(clip=True), clone(model))
    model[-1].set_params(random_state=0)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    scores = cross_val_score(model, X.astype(np.float32), y, cv=folds)
    base_rate = np.bincount(y).max() / len(y)
    assert scores.mean() > 0.85
    # Every fold makes less than half the errors of who names the largest class.
    assert (scores > (1 + base_rate) / 2).all()


def test_what_is_not_linear_is_learned_from_features_far_from_zero():
    X, y = make_gaussian_quantiles(
        n_samples=900, n_features=4, n_classes=3, random_state=0
    )
    X = minmax_scale(X).astype(np.float32)
    net = DBNClassifier((100, 100), pretrain=False, n_iter=50, random_state=0)
    assert net.fit(X[:600], y[:600]).score(X[600:], y[600:]) > 0.8


@pytest.mark.thinned(3)
@pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
@pytest.mark.parametrize(
    "model",
    [
        DBNTransformer((256, 256, 256), random_state=0),
        DBMTransformer(n_iter=3, random_state=0),
        DBNClassifier(objective="generative", n_iter=20, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_top_that_is_as_good_as_constant_has_a_warning(model, visible):
    X, y = load_iris(return_X_y=True)
    X = minmax_scale(X) if visible == "bernoulli" else scale(X)
    model = clone(model).set_params(visible=visible)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(X, y)
    assert _says_so(caught) == _is_constant(model, X) == (visible == "bernoulli")


@pytest.mark.parametrize(
    "model, prepare, is_bad",
    [
        (BernoulliRBM(32), minmax_scale, True),
        (RBM(32), minmax_scale, True),
        (RBM(32, hidden="relu"), minmax_scale, False),  # has a scale of its own
        (BernoulliRBM(32), binarize, False),
        (GaussianRBM(32), scale, False),
    ],
    ids=str,
)
def test_hidden_bits_that_are_as_good_as_constant_have_a_warning(
    model, prepare, is_bad
):
    X, _ = make_classification(1000, 30, n_informative=10, random_state=0)
    X = prepare(X)
    model = clone(model).set_params(random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(X)
    assert _says_so(caught) == is_bad
    if model.get_params().get("hidden", "bernoulli") == "bernoulli":
        assert _is_constant(model, X) == is_bad


def test_labels_of_a_rare_class_are_told_apart():
    # (None of it is among the rows that are looked at first.)
    rng = np.random.default_rng(0)
    y = (np.arange(10_000) % 333 == 5).astype(int)
    X = (rng.random((10_000, 20)) < np.where(y, 0.8, 0.1)[:, None]).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = RBMClassifier(16, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.999


def _is_constant(model, X):
    use = model.predict_proba if hasattr(model, "predict_proba") else model.transform
    return use(X).std(axis=0).max() < 0.02


def _says_so(caught):
    return any("hardly tells rows apart" in str(each.message) for each in caught)


def test_labels_of_a_single_class_deserve_no_warning():
    X, _ = load_iris(return_X_y=True)
    model = DBNClassifier(
        (8, 5), objective="generative", n_iter=2, visible="gaussian", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(scale(X), np.zeros(150, int))
