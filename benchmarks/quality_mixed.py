"""Tables of several kinds of columns: likelihoods, and one modality told by another.

    python benchmarks/quality_mixed.py [--seeds 3]

Bundled tables, numbers standardised, a third of the rows held out; all defaults but
widths. "half bits": of the wine, columns from the sixth on, and of breast cancer, from
the eleventh on, only say whether they are above the median. Held-out nats a row (of
DBMTransformer a bound) with the label as a column. Then MultimodalDBM with pathways for
features and label: the same bound, the share of labels that `infer` tells right from
the features, and that `score_samples` would, and the share of variance of the features
that it explains by the label. Then 1 500 rows of five classes, bits and real columns
that are independent given the class: what is filled in of either, given the other, by
the law of the data, by the means of the columns, by MultimodalDBM and by RBM.
"""

import argparse
import warnings

import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from sklearn_ebm import RBM, DBMTransformer, MultimodalDBM


def table(load, n_numbers=None):
    """Columns, the label last, and what they hold."""
    X, y = load(return_X_y=True)
    n_numbers = X.shape[1] if n_numbers is None else n_numbers
    bits = X[:, n_numbers:] > np.median(X[:, n_numbers:], axis=0)
    kinds = [(slice(0, n_numbers), "gaussian"), ([X.shape[1]], "categorical")]
    if bits.shape[1]:
        kinds.insert(1, (slice(n_numbers, X.shape[1]), "bernoulli"))
    return np.column_stack([scale(X[:, :n_numbers]), bits, y]), kinds


def images():
    """Digits as bits, and their labels."""
    X, y = load_digits(return_X_y=True)
    kinds = [(slice(0, 64), "bernoulli"), ([64], "categorical")]
    return np.column_stack([X > 7, y]).astype(float), kinds


TABLES = {
    "iris": (table(load_iris), 16),
    "wine": (table(load_wine), 32),
    "wine, half bits": (table(load_wine, 5), 64),
    "breast cancer, half bits": (table(load_breast_cancer, 10), 64),
}
# Table, widths of the pathways and of the joint layer.
PATHWAYS = {
    "iris 16, 8, 8": (table(load_iris), 16, 8, 8),
    "wine 32, 16, 16": (table(load_wine), 32, 16, 16),
    "digits 100, 16, 50": (images(), 100, 16, 50),
    "digits 256, 256, 256": (images(), 256, 256, 256),
}


def parts(X, seed):
    """Rows to train on, and others."""
    X = X[np.random.default_rng(seed).permutation(len(X))]
    return X[: len(X) * 2 // 3], X[len(X) * 2 // 3 :]


def of_label(model, X, n_classes):
    """Labels that make the rows most probable."""
    rows = [np.column_stack([X[:, :-1], np.full(len(X), c)]) for c in range(n_classes)]
    return np.argmax([model.score_samples(each) for each in rows], axis=0)


class Classes:
    """Twenty bits and six real columns of rows of five classes, and their laws."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.rates = np.where(rng.random((5, 20)) < 0.5, 0.1, 0.9)
        self.centres = rng.normal(0, 2, (5, 6))
        labels = rng.integers(5, size=1500)
        bits = rng.random((1500, 20)) < self.rates[labels]
        real = self.centres[labels] + rng.normal(size=(1500, 6))
        self.train, self.test = np.split(np.column_stack([bits, real]), [1200])

    def by_law(self):
        """Means of either part of the held-out rows, given the other."""
        bits, real = self.test[:, None, :20], self.test[:, None, 20:]
        of_bits = bits * np.log(self.rates) + (1 - bits) * np.log(1 - self.rates)
        of_real = -np.square(real - self.centres) / 2
        return (
            softmax(of_real.sum(axis=2), axis=1) @ self.rates,
            softmax(of_bits.sum(axis=2), axis=1) @ self.centres,
        )

    def errors(self, bits, real):
        """Log loss of bits, in nats a row, and mean squared error of real columns."""
        rates, found = np.clip(bits, 1e-3, 1 - 1e-3), self.test[:, :20]
        loss = found * np.log(rates) + (1 - found) * np.log(1 - rates)
        return -loss.sum(axis=1).mean(), np.square(real - self.test[:, 20:]).mean()


def print_classes(seed):
    """Print how well either part of the rows is filled in, given the other."""
    data, is_bit = Classes(seed), np.arange(26) < 20
    kinds = [(slice(0, 20), "bernoulli"), (slice(20, 26), "gaussian")]
    pathways = [(unit, columns, unit, 64) for columns, unit in kinds]
    deep = MultimodalDBM(pathways, 64, random_state=seed).fit(data.train)
    flat = RBM(64, visible=kinds, random_state=seed).fit(data.train)
    means = np.tile(data.train.mean(axis=0), (len(data.test), 1))
    answers = {
        "law": data.by_law(),
        "means": (means[:, is_bit], means[:, ~is_bit]),
        "MultimodalDBM": [
            deep.infer(data.test, unit, random_state=0) for _, unit in kinds
        ],
        "RBM": [
            flat.impute(data.test, mask=part, n_gibbs_steps=1000, random_state=0)[
                :, part
            ]
            for part in (is_bit, ~is_bit)
        ],
    }
    for name, answer in answers.items():
        loss, error = data.errors(*answer)
        print(f"five classes  {name:14}{loss:8.2f}{error:7.2f}", flush=True)


def main():
    """Print a line for every table and model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, ((X, kinds), width) in TABLES.items():
        models = {
            "RBM": RBM(width, visible=kinds),
            "RBM, 50 epochs": RBM(width, visible=kinds, n_iter=50),
            "DBM": DBMTransformer((width, width // 2), visible=kinds),
        }
        for title, model in models.items():
            scores = []
            for seed in seeds:
                train, test = parts(X, seed)
                scores.append(
                    model.set_params(random_state=seed).fit(train).score(test)
                )
            found = "".join(f"{score:9.2f}" for score in scores)
            print(f"{name:26}{title:16}{found}", flush=True)
    for name, ((X, kinds), *widths, joint) in PATHWAYS.items():
        modalities = [
            (each, columns, unit, width)
            for each, (columns, unit), width in zip("xy", kinds, widths, strict=True)
        ]
        for seed in seeds:
            train, test = parts(X, seed)
            model = MultimodalDBM(modalities, joint, random_state=seed).fit(train)
            told = model.infer(test, "y", random_state=0)[:, 0] == test[:, -1]
            best = of_label(model, test, int(X[:, -1].max()) + 1) == test[:, -1]
            error = model.infer(test, "x", random_state=0) - test[:, :-1]
            explained = 1 - np.square(error).mean() / test[:, :-1].var(axis=0).mean()
            print(
                f"{name:26}bound {model.score(test):7.2f}  labels {told.mean():.2f} "
                f"(by scores {best.mean():.2f})  variance {explained:5.2f}",
                flush=True,
            )
    for seed in seeds:
        print_classes(seed)


if __name__ == "__main__":
    main()
