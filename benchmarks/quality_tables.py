"""Errors and log losses of classifiers at their defaults, in cross-validation.

    python benchmarks/quality_tables.py [--only DBNClassifier] [--table wine]

What the defaults of DBNClassifier and DBMClassifier rest on: tables of 150 to 1 797
rows, three of them simulated; every feature scaled to [0, 1] by the training rows. Five
stratified folds with ``shuffle=True, random_state=0``; the model of fold k has
``random_state=k``. Beside them gradient descent with momentum in fewer epochs, the same
net without pretraining, and scikit-learn's (at its own defaults, of the same sizes);
and the models of features and labels, of one hidden layer and of two, by objective.
Means over the folds, the worst error of a fold, and seconds a fit.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_circles,
    make_classification,
    make_gaussian_quantiles,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from sklearn_ebm import DBMClassifier, DBNClassifier, RBMClassifier

TABLES = {
    "iris": partial(load_iris, return_X_y=True),
    "wine": partial(load_wine, return_X_y=True),
    "breast_cancer": partial(load_breast_cancer, return_X_y=True),
    "digits": partial(load_digits, return_X_y=True),
    "circles": partial(make_circles, 300, noise=0.05, factor=0.5, random_state=0),
    "quantiles": partial(
        make_gaussian_quantiles, n_samples=600, n_features=5, random_state=0
    ),
    "15 classes": partial(
        make_classification, 1500, 30, n_informative=12, n_classes=15, random_state=0
    ),
}
SGD = {"solver": "sgd", "n_iter": 30}
MODELS = {
    "DBNClassifier": DBNClassifier(),
    "DBNClassifier, sgd": DBNClassifier(**SGD),
    "DBNClassifier, decay": DBNClassifier(weight_decay=3e-5),
    "DBNClassifier, not pretrained": DBNClassifier(pretrain=False),
    "DBMClassifier": DBMClassifier(),
    "DBMClassifier, sgd": DBMClassifier(**SGD, batch_size=50),
    "DBMClassifier, multi-prediction": DBMClassifier(objective="multi_prediction"),
    "RBMClassifier": RBMClassifier(),
    "RBMClassifier, hybrid": RBMClassifier(objective="hybrid"),
    "RBMClassifier, generative": RBMClassifier(objective="generative"),
    "DBNClassifier, generative, 256": DBNClassifier(256, objective="generative"),
    "DBNClassifier, generative": DBNClassifier(objective="generative"),
    "MLPClassifier": MLPClassifier((256, 256)),
}


def cross_validate(model, X, y):
    """Test errors in % and log losses in nats of folds, and seconds of their fits."""
    errors, losses, seconds = [], [], []
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    for seed, (training, test) in enumerate(folds):
        one = clone(model).set_params(random_state=seed)
        one = make_pipeline(MinMaxScaler(clip=True), one)
        begin = time.perf_counter()
        one.fit(X[training], y[training])
        seconds.append(time.perf_counter() - begin)
        errors.append(100 * (1 - one.score(X[test], y[test])))
        chance = one.predict_proba(X[test]).astype(float)
        # (Those of scikit-learn's net are float32, and so do not quite add up to 1.)
        losses.append(log_loss(y[test], chance / chance.sum(axis=1, keepdims=True)))
    return errors, losses, seconds


def main():
    """Print a line for every model and table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=MODELS, help="one of the models")
    parser.add_argument("--table", choices=TABLES, help="one of the tables")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, model in MODELS.items():
        for table, load in TABLES.items():
            if args.only not in (None, name) or args.table not in (None, table):
                continue
            X, y = load()
            errors, losses, seconds = cross_validate(model, X.astype(np.float32), y)
            print(
                f"{name:32s} {table:14s} error {np.mean(errors):5.2f} %  worst "
                f"{max(errors):5.2f} %  log loss {np.mean(losses):.3f}  "
                f"{np.mean(seconds):6.2f} s a fit",
                flush=True,
            )


if __name__ == "__main__":
    main()
