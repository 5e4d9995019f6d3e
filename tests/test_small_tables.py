"""Classifiers at their defaults learn tables of a hundred rows or two."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from sklearn_ebm import DBMClassifier, DBNClassifier, RBMClassifier


@pytest.mark.parametrize("load", [load_iris, load_wine], ids=["iris", "wine"])
@pytest.mark.parametrize(
    "model",
    [
        RBMClassifier(),
        DBNClassifier(),
        DBMClassifier(),
        DBMClassifier(objective="multi_prediction"),
    ],
    ids=str,
)
def test_small_tables_are_learned(model, load):
    X, y = load(return_X_y=True)
    model = make_pipeline(MinMaxScaler(clip=True), clone(model))
    model[-1].set_params(random_state=0)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(model, X.astype(np.float32), y, cv=folds)
    base_rate = np.bincount(y).max() / len(y)
    assert scores.mean() > 0.85
    # Every fold makes less than half the errors of who names the largest class.
    assert (scores > (1 + base_rate) / 2).all()
