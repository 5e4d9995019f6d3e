"""How well RBMImputer fills in tables, beside scikit-learn's imputers.

    python benchmarks/bench_imputer.py [--seeds 5] [--only wine]

A fifth of all entries is hidden at random. Numbers: root mean squared error of hidden
entries in standard deviations of their column; categories: share of wrong ones; means
over seeds, with standard errors. The methods are means or most frequent categories;
nearest neighbours and chained regressions (on standardised columns, categories one-hot
but for one, read off as the largest); FactorAnalysis with three factors, likewise;
RBMImputer with its defaults, with eight real hidden units, and with settings chosen in
every run by a tenth of the entries that are not hidden. The neighbours' number is
chosen likewise.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.model_selection import ParameterGrid

from sklearn_ebm import FactorAnalysis, RBMImputer

RBM_GRID = {"n_components": [30, 256], "n_iter": [30, 100, 300]}
KNN_GRID = {"n_neighbors": [5, 10, 20, 40]}


def binned(x, n_bins):
    """Codes of equally frequent bins."""
    edges = np.quantile(x, np.linspace(0, 1, n_bins + 1)[1:-1])
    return np.searchsorted(edges, x, side="right")


def tables():
    """Rows, and which columns hold codes of categories, by name."""
    yield "breast cancer", load_breast_cancer().data, []
    wine = load_wine()
    yield "wine", wine.data, []
    codes = [0, 6, 9]
    X = np.column_stack([wine.data, wine.target])
    X[:, codes] = np.transpose([binned(X[:, c], 3) for c in codes])
    yield "wine, 4 of 14 categories", X, [*codes, 13]
    diabetes = load_diabetes(scaled=False)
    X = np.column_stack([diabetes.data, diabetes.target])
    X[:, 1] -= 1
    X[:, [2, 10]] = np.transpose([binned(X[:, c], 3) for c in (2, 10)])
    yield "diabetes, 3 of 11 categories", X, [1, 2, 10]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 100))
    yield "three factors of 100 columns", X + 0.5 * rng.normal(size=X.shape), []


# ---- Imputers: functions of a table with holes and of which columns hold codes ----


def constants(holes, codes):
    """Means, and the most frequent categories."""
    filled = SimpleImputer().fit_transform(holes)
    if codes:
        frequent = SimpleImputer(strategy="most_frequent")
        filled[:, codes] = frequent.fit_transform(holes[:, codes])
    return filled


def as_numbers(column, is_code):
    """A standardised column, or all categories but the first as columns of 0 and 1.

    With the first one too, regressions of a category on the others would know it
    without looking at the rest of the row.
    """
    if not is_code:
        return ((column - np.nanmean(column)) / np.nanstd(column))[:, np.newaxis]
    found = column[:, np.newaxis] == np.arange(1, np.nanmax(column) + 1)
    return np.where(np.isnan(column)[:, np.newaxis], np.nan, found)


def by_columns(imputer):
    """An imputer of numbers, made to fill in categories too."""

    def fill(holes, codes):
        blocks = [as_numbers(x, n in codes) for n, x in enumerate(holes.T)]
        stops = np.cumsum([block.shape[1] for block in blocks])
        answer = imputer.fit_transform(np.hstack(blocks))
        filled = holes.copy()
        for n, block in enumerate(np.split(answer, stops[:-1], axis=1)):
            column = holes[:, n]
            values = block[:, 0] * np.nanstd(column) + np.nanmean(column)
            if n in codes:
                first = 1 - block.sum(axis=1)
                values = np.column_stack([first, block]).argmax(axis=1)
            filled[:, n] = np.where(np.isnan(column), values, column)
        return filled

    return fill


def rbm(**settings):
    """RBMImputer with these settings."""

    def fill(holes, codes):
        others = [n for n in range(holes.shape[1]) if n not in codes]
        visible = [(others, "gaussian"), (codes, "categorical")]
        imputer = RBMImputer(
            visible=visible if codes else "gaussian", random_state=0, **settings
        )
        return imputer.fit_transform(holes)

    return fill


def factors(holes, codes):
    """FactorAnalysis of numbers, with three factors."""
    model = FactorAnalysis(3, missing="latent")
    return by_columns(Filled(model))(holes, codes)


class Filled:
    """A model that fills in, as an imputer."""

    def __init__(self, model):
        self.model = model

    def fit_transform(self, X):
        """Fit the model to X, and fill in what is missing."""
        return self.model.fit(X).impute(X)


def chosen(make, grid, holes, codes, seed):
    """The settings with the least error on known entries that are hidden for it."""
    rng = np.random.default_rng([seed, 1])
    held = ~np.isnan(holes) & (rng.random(holes.shape) < 0.1)
    part = np.where(held, np.nan, holes)

    def error(settings):
        found = errors(make(**settings)(part, codes), holes, held, codes)
        return np.nansum([found[0] ** 2, found[1]])

    return min(ParameterGrid(grid), key=error)


def errors(filled, truth, hidden, codes):
    """Error of numbers in standard deviations, share of wrong categories."""
    is_code = np.isin(np.arange(truth.shape[1]), codes)
    number = (((filled - truth) / np.nanstd(truth, axis=0))[hidden & ~is_code]) ** 2
    wrong = (filled != truth)[hidden & is_code]
    return np.sqrt(number.mean()), wrong.mean() if codes else np.nan


def runs(X, codes, seed):
    """Errors, seconds and settings by method; choosing is not timed."""
    hidden = np.random.default_rng(seed).random(X.shape) < 0.2
    holes = np.where(hidden, np.nan, X)
    neighbours = chosen(
        lambda **s: by_columns(KNNImputer(**s)), KNN_GRID, holes, codes, seed
    )
    settings = chosen(rbm, RBM_GRID, holes, codes, seed)
    methods = {
        "mean, most frequent": (constants, ""),
        "neighbours": (by_columns(KNNImputer(**neighbours)), neighbours),
        "IterativeImputer": (
            by_columns(IterativeImputer(max_iter=30, random_state=0)),
            "",
        ),
        "FactorAnalysis": (factors, ""),
        "RBMImputer": (rbm(), ""),
        "RBMImputer, 8 real": (rbm(n_components=8, hidden="gaussian"), ""),
        "RBMImputer, chosen": (rbm(**settings), settings),
    }
    for name, (fill, said) in methods.items():
        start = time.perf_counter()
        filled = fill(holes, codes)
        seconds = time.perf_counter() - start
        yield name, (*errors(filled, X, hidden, codes), seconds), said


def main():
    """Print the errors of all methods on all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    for table, X, codes in tables():
        if args.only not in table:
            continue
        found, said = {}, {}
        for seed in range(args.seeds):
            for name, result, settings in runs(X, codes, seed):
                found.setdefault(name, []).append(result)
                said.setdefault(name, []).append(settings)
        print(f"{table}: {X.shape[0]} rows", flush=True)
        for name, results in found.items():
            (number, wrong, seconds) = np.mean(results, axis=0)
            spread = np.std(results, axis=0, ddof=1) / np.sqrt(args.seeds)
            text = f"   {name:20} numbers {number:.3f} ({spread[0]:.3f})"
            if codes:
                text += f"   categories {wrong:.3f} ({spread[1]:.3f})"
            print(f"{text}   {seconds:6.2f} s", flush=True)
        for name in ("neighbours", "RBMImputer, chosen"):
            print(f"   {name}:", *said[name])


if __name__ == "__main__":
    main()
