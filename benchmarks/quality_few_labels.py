"""Errors of nets that know the labels of few digits, and the features of more.

    python benchmarks/quality_few_labels.py

scikit-learn's digits in [0, 1]: 1 000 of them to learn from, of which so many in each
class have a label, and 797 to test. Nets at their defaults, not pretrained, and
pretrained for ten epochs; a logistic regression on the rows with labels. Mean errors of
five random divisions (seeds 10 to 14).
"""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from sklearn_ebm import DBMClassifier, DBNClassifier

N_LABELS = [2, 5, 20, 70]
MODELS = {
    "LogisticRegression": LogisticRegression(max_iter=2000),
    "DBNClassifier, not pretrained": DBNClassifier(pretrain=False),
    "DBNClassifier": DBNClassifier(),
    "DBNClassifier, 10 epochs": DBNClassifier(pretrain_n_iter=10),
    "DBMClassifier": DBMClassifier(),
    "DBMClassifier, 20 and 10 epochs": DBMClassifier(
        pretrain_greedy_n_iter=20, pretrain_n_iter=10
    ),
}


def error(model, X, y, n_labels, seed):
    """Return the test error in % of a model that is given n_labels a class."""
    order = np.random.default_rng(seed).permutation(len(y))
    training, test = order[:1000], order[1000:]
    known = np.concatenate([training[y[training] == k][:n_labels] for k in range(10)])
    model = clone(model).set_params(random_state=seed)
    if hasattr(model, "unlabeled"):
        seen = np.full(len(y), -1)
        seen[known] = y[known]
        model.set_params(unlabeled=-1).fit(X[training], seen[training])
    else:
        model.fit(X[known], y[known])
    return 100 * (1 - model.score(X[test], y[test]))


def main():
    """Print a line for every model."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    print(f"{'errors in %, labels a class:':32s}", *(f"{n:6d}" for n in N_LABELS))
    for name, model in MODELS.items():
        errors = [
            np.mean([error(model, X, y, n, seed) for seed in range(10, 15)])
            for n in N_LABELS
        ]
        print(f"{name:32s}", *(f"{each:6.2f}" for each in errors), flush=True)


if __name__ == "__main__":
    main()
