"""Tables of a hundred rows or two: classifiers at their defaults, and warnings."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import (
    load_iris,
    load_wine,
    make_gaussian_quantiles,
)
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, minmax_scale

from sklearn_ebm import (
    DBMClassifier,
    DBNClassifier,
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
