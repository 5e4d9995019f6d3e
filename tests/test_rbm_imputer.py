"""RBMImputer: exact conditionals, simulated truth, and the habits of imputers."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from common import all_states, assert_same
from sklearn_ebm import RBMImputer, _missing
from sklearn_ebm._training import Run
from sklearn_ebm.units import Gaussian, Mixed

NAN = np.nan
MIXED = [([0, 1], "bernoulli"), ([2], "categorical"), ([3, 4], "gaussian")]


def imputer_with(rbm, visible, X, **params):
    """A fitted imputer whose model has the parameters of a dictionary."""
    n_components = len(rbm["components_"])
    imputer = RBMImputer(
        n_components, visible=visible, n_iter=0, random_state=0, **params
    ).fit(X)
    for name, value in rbm.items():
        assert np.shape(getattr(imputer.rbm_, name)) == np.shape(value)
        setattr(imputer.rbm_, name, np.asarray(value, float))
    return imputer


def mixed_model(n_components=3):
    """Parameters over two bits, a category of three and two real values; rows."""
    rng = np.random.default_rng(1)
    rbm = {
        "components_": rng.normal(size=(n_components, 7)),
        "intercept_hidden_": rng.normal(size=n_components),
        "intercept_visible_": rng.normal(size=7),
        "variance_": np.array([1, 1, 1, 1, 1, 0.5, 2.0]),
    }
    bits, codes = rng.integers(0, 2, (40, 2)), rng.integers(0, 3, (40, 1))
    codes[0] = 2
    return rbm, np.hstack([bits, codes, rng.normal(size=(40, 2))]).astype(float)


def brute_force(rbm, row):
    """Probabilities of hidden states given what is there of a row of MIXED.

    Also the distributions of all its features given each of them: probabilities of
    ones, of categories, means and standard deviations.
    """
    h = all_states(len(rbm["components_"]))
    fields = h @ rbm["components_"] + rbm["intercept_visible_"]
    ones = 1 / (1 + np.exp(-fields[:, :2]))
    categories = np.exp(fields[:, 2:5])
    means, deviations = fields[:, 5:], np.sqrt(rbm["variance_"][5:])
    # p(h), visible units summed out; then the densities of what is there.
    logs = h @ rbm["intercept_hidden_"] + np.log1p(np.exp(fields[:, :2])).sum(axis=1)
    logs += np.log(categories.sum(axis=1))
    shift = fields[:, 5:] - rbm["intercept_visible_"][5:]
    logs += (
        (shift**2 / 2 + shift * rbm["intercept_visible_"][5:]) / deviations**2
    ).sum(axis=1)
    categories /= categories.sum(axis=1, keepdims=True)
    p = np.exp(logs - logs.max())
    for i in range(2):
        if not np.isnan(row[i]):
            p = p * (ones[:, i] if row[i] else 1 - ones[:, i])
        if not np.isnan(row[3 + i]):
            p = p * norm.pdf(row[3 + i], means[:, i], deviations[i])
    if not np.isnan(row[2]):
        p = p * categories[:, int(row[2])]
    return p / p.sum(), ones, categories, means, deviations


def conditional_means(rbm, row):
    p, ones, categories, means, _ = brute_force(rbm, row)
    return np.concatenate([p @ ones, [(p @ categories).argmax()], p @ means])


def with_holes(X, share=0.4, seed=0):
    missing = np.random.default_rng(seed).random(X.shape) < share
    return np.where(missing, NAN, X)


# ---- Conditional distributions ----


@pytest.mark.parametrize("n_components", [1, 3])
def test_conditional_means_equal_enumeration(n_components):
    rbm, X = mixed_model(n_components)
    imputer = imputer_with(rbm, MIXED, X)
    holes = with_holes(X)
    wanted = np.array([conditional_means(rbm, row) for row in holes])
    wanted = np.where(np.isnan(holes), wanted, holes)
    np.testing.assert_allclose(imputer.transform(holes), wanted, atol=1e-10)


@pytest.mark.parametrize("hidden", ["bernoulli", "spin"])
def test_conditional_means_of_bits_equal_enumeration_of_both_layers(hidden):
    rng = np.random.default_rng(2)
    rbm = {
        "components_": rng.normal(size=(3, 4)),
        "intercept_hidden_": rng.normal(size=3),
        "intercept_visible_": rng.normal(size=4),
    }
    X = rng.integers(0, 2, (30, 4)).astype(float)
    imputer = imputer_with(rbm, "bernoulli", X, hidden=hidden)
    holes = with_holes(X)
    v, h = all_states(4), all_states(3)
    h = 2 * h - 1 if hidden == "spin" else h
    energy = -(v @ rbm["intercept_visible_"])[:, None] - h @ rbm["intercept_hidden_"]
    p = np.exp(-energy + v @ rbm["components_"].T @ h.T).sum(axis=1)
    for row, found in zip(holes, imputer.transform(holes), strict=True):
        there = ~np.isnan(row)
        like = p * (v[:, there] == row[there]).all(axis=1)
        wanted = np.where(there, row, like @ v / like.sum())
        np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_counts_equal_a_long_sum():
    components, hidden, visible = np.array([[0.5, -0.4]]), [0.3], [0.2, 0.7]
    rbm = {
        "components_": components,
        "intercept_hidden_": hidden,
        "intercept_visible_": visible,
    }
    X = np.array([[1.0, 0], [3, 2], [0, 4]])
    imputer = imputer_with(rbm, "poisson", X)
    n = np.arange(80)
    log_factorial = np.concatenate([[0], np.cumsum(np.log(n[1:]))])
    for count in (0, 2, 5):
        weight = 0
        for h in (0, 1):
            a, b = np.array(visible) + h * components[0]
            weight = weight + np.exp(h * hidden[0] + count * a + b * n - log_factorial)
        found = imputer.transform([[count, NAN]])
        assert found[0, 1] == pytest.approx(weight @ n / weight.sum(), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("sample_posterior", [False, True])
def test_chains_have_the_conditional_moments(sample_posterior, monkeypatch):
    # Copies of a row have chains of their own. Two-sided errors beyond 5.5 standard
    # errors have a probability of 4e-8.
    monkeypatch.setattr(_missing, "MOST_STATES", 0)
    rbm, X = mixed_model()
    rbm["components_"] *= 0.7
    imputer = imputer_with(rbm, MIXED, X, sample_posterior=sample_posterior)
    row = np.array([1, NAN, NAN, X[0, 3], NAN])
    found = imputer.transform(np.tile(row, (4000, 1)))
    p, ones, categories, means, deviations = brute_force(rbm, row)
    if not sample_posterior:
        # Means of codes are not given, and the noise of the means is their own.
        for column, wanted in ((1, p @ ones[:, 1]), (4, p @ means[:, 1])):
            values = found[:, column]
            error = values.mean() - wanted
            assert abs(error) < 5.5 * values.std() / np.sqrt(len(values))
        assert (found[:, 2] == (p @ categories).argmax()).mean() > 0.9
        return
    bits = [(found[:, 1] == 1, p @ ones[:, 1])]
    bits += [(found[:, 2] == k, p @ categories[:, k]) for k in range(3)]
    mean = p @ means[:, 1]
    variance = p @ (deviations[1] ** 2 + means[:, 1] ** 2) - mean**2
    bits += [(found[:, 4], mean), ((found[:, 4] - mean) ** 2, variance)]
    # Jointly: a bit times a real value, independent given the hidden units only.
    bits += [(found[:, 1] * found[:, 4], p @ (ones[:, 1] * means[:, 1]))]
    for values, wanted in bits:
        assert abs(values.mean() - wanted) < 5.5 * values.std() / np.sqrt(len(values))


# ---- Simulated truth ----


@pytest.fixture(scope="module")
def mixture():
    """Rows of a Gaussian mixture of two bits, with holes, and the true answers."""
    rng = np.random.default_rng(0)
    weights = 2 * rng.normal(size=(2, 5))
    states = all_states(2)
    X = states[rng.integers(0, 4, 600)] @ weights + 0.5 * rng.normal(size=(600, 5))
    holes = with_holes(X, 0.2)
    logs = norm.logpdf(holes[:, None, :], states @ weights, 0.5)
    p = np.exp(np.nansum(logs, axis=2))
    wanted = (p / p.sum(axis=1, keepdims=True)) @ (states @ weights)
    return X, holes, np.where(np.isnan(holes), wanted, holes)


@pytest.mark.slow
@pytest.mark.parametrize("n_components", [12, 40])
def test_near_the_true_conditional_means(mixture, n_components):
    _, holes, wanted = mixture
    missing = np.isnan(holes)
    imputer = RBMImputer(n_components, n_iter=300, random_state=0)
    excess = ((imputer.fit_transform(holes) - wanted)[missing] ** 2).mean()
    means = SimpleImputer().fit_transform(holes)
    assert excess < 0.1 * ((means - wanted)[missing] ** 2).mean()


@pytest.mark.slow
def test_draws_spread_like_the_truth(mixture):
    X, holes, wanted = mixture
    missing = np.isnan(holes)
    imputer = RBMImputer(20, sample_posterior=True, n_iter=300, random_state=0)
    drawn = imputer.fit_transform(holes)
    # Conditional means err by the variance of the truth around them, draws from the
    # true conditional distribution by twice as much, those that do not look at the
    # rest of the row by more than six times as much.
    spread = ((X - wanted)[missing] ** 2).mean()
    alone = ((np.random.default_rng(1).permutation(X) - X)[missing] ** 2).mean()
    assert alone > 6 * spread
    assert 1.5 * spread < ((drawn - X)[missing] ** 2).mean() < 3 * spread


@pytest.mark.slow
def test_categories_come_back_as_codes(mixture):
    X, _, _ = mixture
    rng = np.random.default_rng(3)
    group = (X[:, 0] > X[:, 0].mean()).astype(int) + (X[:, 1] > X[:, 1].mean())
    table = np.column_stack([group, X])
    holes = table.copy()
    hidden = rng.random(len(X)) < 0.2
    holes[hidden, 0] = NAN
    visible = [([0], "categorical"), (slice(1, 6), "gaussian")]
    imputer = RBMImputer(20, visible=visible, n_iter=100, random_state=0)
    found = imputer.fit_transform(holes)
    assert set(np.unique(found[hidden, 0])) <= {0, 1, 2}
    frequent = SimpleImputer(strategy="most_frequent").fit_transform(holes)
    errors = [(F[hidden, 0] != table[hidden, 0]).mean() for F in (found, frequent)]
    assert errors[0] < 0.5 * errors[1]


def test_few_rows_are_seen_more_often_unless_features_are_many():
    for shape, n_epochs in [
        ((60, 1), 750),
        ((150, 4), 300),
        ((10_000, 20), 100),
        ((300, 20), 75),
        ((60, 100), 30),
    ]:
        assert RBMImputer()._n_epochs(shape) == n_epochs
        assert RBMImputer(n_iter=7)._n_epochs(shape) == 7
    # (A column without values is none.)
    X = np.random.default_rng(0).normal(size=(10, 5))
    X[:, 4] = NAN
    assert RBMImputer(3, random_state=0).fit(X).n_iter_ == 125


# ---- What imputers do ----


@pytest.fixture
def table():
    return with_holes(np.random.default_rng(0).normal(size=(60, 4)), 0.3)


def quick(**params):
    return RBMImputer(**{"n_components": 3, "n_iter": 3, "random_state": 0} | params)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_components", [3, 20])
@pytest.mark.parametrize("sample_posterior", [False, True])
def test_values_that_are_there_stay(dtype, n_components, sample_posterior, table):
    X = table.astype(dtype)
    before = X.copy()
    imputer = quick(n_components=n_components, sample_posterior=sample_posterior)
    found = imputer.fit_transform(X)
    np.testing.assert_array_equal(X, before)
    assert found.dtype == dtype
    assert np.isfinite(found).all()
    there = ~np.isnan(X)
    np.testing.assert_array_equal(found[there], X[there])
    # Also those that have more digits than the model.
    np.testing.assert_array_equal(imputer.transform(table)[there], table[there])


@pytest.mark.parametrize("n_components", [3, 20])
@pytest.mark.parametrize("sample_posterior", [False, True])
def test_same_answer_at_every_call(n_components, sample_posterior, table):
    imputer = quick(n_components=n_components, sample_posterior=sample_posterior)
    first = imputer.fit_transform(table)
    np.testing.assert_array_equal(imputer.transform(table), first)
    again = quick(n_components=n_components, sample_posterior=sample_posterior)
    np.testing.assert_array_equal(again.fit_transform(table), first)
    other = quick(n_components=n_components, sample_posterior=sample_posterior)
    other.set_params(random_state=1)
    assert not np.array_equal(other.fit_transform(table), first)


def test_exact_means_do_not_depend_on_other_rows(table):
    imputer = quick().fit(table)
    wanted = imputer.transform(table)
    for rows in (slice(5, 6), slice(0, 37), slice(None, None, -7)):
        np.testing.assert_allclose(
            imputer.transform(table[rows]), wanted[rows], rtol=1e-12
        )


def test_threads_give_the_same_bits(digits):
    X = with_holes(digits[:300], 0.2)
    found = []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads):
            imputer = RBMImputer(n_iter=2, n_gibbs_steps=5, random_state=0)
            found.append(imputer.fit_transform(X))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_draws_of_equal_rows_differ(table):
    imputer = quick(sample_posterior=True).fit(table)
    found = imputer.transform([[0.5, NAN, NAN, 1.0]] * 10)
    assert len(np.unique(found[:, 1])) == 10


def test_nothing_missing_is_handed_through(table):
    imputer = quick().fit(table)
    X = np.random.default_rng(1).normal(size=(5, 4))
    np.testing.assert_array_equal(imputer.transform(X), X)
    complete = quick().fit(X)
    assert np.isfinite(complete.transform(table)).all()


def test_rows_of_nothing_but_holes_get_the_means_of_the_model(table):
    rbm, X = mixed_model()
    found = imputer_with(rbm, MIXED, X).transform(np.full((2, 5), NAN))
    wanted = conditional_means(rbm, np.full(5, NAN))
    np.testing.assert_allclose(found, [wanted, wanted], atol=1e-10)


def test_another_placeholder(table):
    wanted = quick().fit_transform(table)
    other = np.where(np.isnan(table), -1, table)
    found = quick(missing_values=-1).fit_transform(other)
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match="NaN"):
        quick(missing_values=-1).fit(table)


@pytest.mark.parametrize("keep", [False, True])
def test_empty_features(keep, table):
    X = np.insert(table, 1, NAN, axis=1)
    visible = [([4, 0], "gaussian"), ([1, 2], "gaussian"), ([3], "gaussian")]
    imputer = quick(visible=visible, keep_empty_features=keep).fit(X)
    wanted = quick(
        visible=[([3, 0], "gaussian"), ([1], "gaussian"), ([2], "gaussian")]
    ).fit_transform(table)
    found = imputer.transform(X)
    if keep:
        np.testing.assert_array_equal(found[:, 1], 0)
        found = np.delete(found, 1, axis=1)
    np.testing.assert_array_equal(found, wanted)
    names = imputer.get_feature_names_out(["a", "b", "c", "d", "e"])
    assert list(names) == list("abcde" if keep else "acde")
    # What comes later in such a feature does not reach the model.
    X[:, 1] = 7
    later = imputer.transform(X)
    np.testing.assert_array_equal(np.delete(later, 1, 1) if keep else later, wanted)
    if keep:
        np.testing.assert_array_equal(later[:, 1], 7)


@pytest.mark.parametrize("visible", ["gaussian", "categorical"])
def test_nothing_but_empty_features(visible):
    X = np.full((4, 3), NAN, np.float32)
    imputer = quick(visible=visible, keep_empty_features=True, add_indicator=True)
    found = imputer.fit_transform(X)
    simple = SimpleImputer(keep_empty_features=True, add_indicator=True)
    assert_same(found, simple.fit_transform(X))
    assert list(imputer.get_feature_names_out()) == list(simple.get_feature_names_out())
    assert imputer.rbm_ is None
    assert imputer.n_iter_ == 0
    # Later values stay, as in other features that were empty.
    X[1, 2] = 1
    later = pickle.loads(pickle.dumps(imputer)).transform(X)
    assert_same(later[:, :3], np.nan_to_num(X))


@pytest.mark.parametrize("kind", [lambda unit: unit, lambda unit: Mixed(((5, unit),))])
def test_units_of_empty_features_are_left_out(kind, table):
    X = np.insert(table, 1, NAN, axis=1)
    loc, scale = np.arange(5.0), np.arange(1.0, 6)
    found = quick(visible=kind(Gaussian(loc, scale))).fit_transform(X)
    left = Gaussian(np.delete(loc, 1), np.delete(scale, 1))
    np.testing.assert_array_equal(found, quick(visible=left).fit_transform(table))
    kinds = Mixed(((2, Gaussian()), (3, Gaussian(scale=2.0))))
    pairs = [([0], Gaussian()), ([1, 2, 3], Gaussian(scale=2.0))]
    wanted = quick(visible=pairs).fit_transform(table)
    np.testing.assert_array_equal(quick(visible=kinds).fit_transform(X), wanted)


def test_empty_categories_take_any_code_later(table):
    X = np.insert(table, 1, NAN, axis=1)
    visible = [([0, 2, 3, 4], "gaussian"), ([1], "categorical")]
    imputer = quick(visible=visible, keep_empty_features=True).fit(X)
    X[0, 1] = 3
    assert imputer.transform(X)[:2, 1].tolist() == [3, 0]


def test_indicator(table):
    table[:, 2] = 1.0
    imputer = quick(add_indicator=True).fit(table)
    found = imputer.transform(table)
    assert found.shape == (60, 7)
    np.testing.assert_array_equal(found[:, :4], quick().fit_transform(table))
    np.testing.assert_array_equal(found[:, 4:], np.isnan(table[:, [0, 1, 3]]))
    wanted = ["x0", "x1", "x2", "x3"]
    wanted += [f"missingindicator_x{n}" for n in (0, 1, 3)]
    assert list(imputer.get_feature_names_out()) == wanted
    assert quick().fit(table).indicator_ is None


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_that_all_transformers_give(library, table):
    pytest.importorskip(library)
    imputer = quick(add_indicator=True)
    wanted = imputer.fit_transform(table)
    with config_context(transform_output=library):
        found = imputer.fit_transform(table)
    assert list(found.columns) == list(imputer.get_feature_names_out())
    np.testing.assert_array_equal(found, wanted)


def test_data_frames(table):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table, columns=list("abcd"), index=range(7, 67))
    visible = [(["b", "d"], "gaussian"), (["a", "c"], "gaussian")]
    imputer = quick(visible=visible, add_indicator=True)
    found = imputer.set_output(transform="pandas").fit_transform(frame)
    assert list(found.columns) == [*"abcd", *(f"missingindicator_{c}" for c in "abcd")]
    assert found.index.equals(frame.index)
    numbers = quick(visible=[([1, 3], "gaussian"), ([0, 2], "gaussian")])
    np.testing.assert_array_equal(found[list("abcd")], numbers.fit_transform(table))
    with pytest.raises(ValueError, match=r"no columns \['e'\]"):
        quick(visible=[(["a", "e"], "gaussian")]).fit(frame)


def test_pandas_missing_values():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, None, 0, 1], "b": [2.5, 1, None, 3]})
    frame = frame.astype({"a": "Int64", "b": "Float64"})
    plain = np.array([[1, 2.5], [NAN, 1], [0, NAN], [1, 3]])
    found = quick().fit_transform(frame)
    np.testing.assert_array_equal(found, quick().fit_transform(plain))


def test_in_a_pipeline(digits, labels):
    X = with_holes(digits[:200], 0.1)
    model = make_pipeline(quick(), LogisticRegression()).fit(X, labels[:200])
    assert model.score(X, labels[:200]) > 0.8


@pytest.mark.parametrize("mark", [np.nan, -99.0])
def test_several_draws_from_one_fit(mark, table):
    there, still = ~np.isnan(table), np.full((len(table), 1), 5.0)
    still[1] = np.nan  # a feature with a single value has no other in draws
    marked = np.where(there, table, mark)
    marked = np.hstack([marked, np.where(np.isnan(still), mark, still)])
    frame = pd.DataFrame(marked, columns=[f"c{k}" for k in range(marked.shape[1])])
    imputer = quick(missing_values=mark).fit(frame)
    draws = [
        imputer.impute(frame, method="sample", random_state=seed) for seed in range(2)
    ]
    np.testing.assert_array_equal(draws[0][:, :-1][there], table[there])
    assert not np.isclose(draws[0][:, :-1][~there], draws[1][:, :-1][~there]).any()
    assert (draws[0][:, -1] == 5).all()
    np.testing.assert_array_equal(
        draws[1], imputer.impute(frame, method="sample", random_state=1)
    )
    assert_same(imputer.impute(frame), imputer.transform(frame))
    mask = pd.DataFrame(False, index=frame.index, columns=frame.columns)
    mask["c1"] = True
    emptied = frame.copy()
    emptied["c1"] = mark
    assert_same(imputer.impute(frame, mask=mask), imputer.transform(emptied))
    with pytest.raises(ValueError, match="mask must have the columns"):
        imputer.impute(frame, mask=mask[mask.columns[::-1]])
    for wrong in ({"method": "mode"}, {"random_state": "a"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            imputer.impute(frame, **wrong)


def test_interrupted_fit_leaves_a_usable_model(table, monkeypatch):
    train, epochs = Run.epoch, []

    def interrupt(self, *args):
        if len(epochs) == 2:
            raise KeyboardInterrupt
        epochs.append(train(self, *args))
        return epochs[-1]

    monkeypatch.setattr(Run, "epoch", interrupt)
    imputer = quick(n_iter=10)
    with pytest.raises(KeyboardInterrupt):
        imputer.fit(table)
    assert imputer.n_iter_ == imputer.rbm_.n_iter_ == 2
    assert np.isfinite(imputer.transform(table)).all()


# ---- What is refused ----


def test_nothing_to_learn_from():
    with pytest.raises(ValueError, match=r"Every value of X is missing"):
        quick().fit(np.full((3, 2), NAN))


def test_infinity_is_refused(table):
    imputer = quick().fit(table)
    table[0, 0] = np.inf
    for method in (imputer.transform, quick().fit):
        with pytest.raises(ValueError, match="infinity"):
            method(table)


def test_codes_are_checked_by_the_columns_of_the_table():
    X = np.array([[NAN, 0.5, 0], [NAN, 0.1, 1], [NAN, NAN, 1], [NAN, 0.3, NAN]])
    visible = [([0, 1], "gaussian"), ([2], "categorical")]
    imputer = quick(visible=visible).fit(X)
    with pytest.raises(ValueError, match=r"Column 2 holds the code 2, .* at most 1"):
        imputer.transform([[NAN, NAN, 2]])
    X[0, 2] = 0.5
    with pytest.raises(ValueError, match="Column 2 must hold codes"):
        quick(visible=visible).fit(X)


def test_every_column_needs_a_unit(table):
    with pytest.raises(ValueError, match=r"also columns \[3\]"):
        quick(visible=[([0, 1, 2], "gaussian")]).fit(table)


def test_values_out_of_range_warn_once(table):
    with pytest.warns(UserWarning, match=r"\[0, 1\] but the data ranges") as caught:
        quick(visible="bernoulli").fit_transform(table)
    assert len(caught) == 1


@pytest.mark.slow
def test_counts_begin_with_a_lower_rate():
    """At that of other units they escape, and 1e13 is filled in."""
    rng = np.random.default_rng(25)
    means = 20 * np.exp(rng.normal(size=(3, 6)) / 2)
    X = rng.poisson(np.repeat(means, 60, axis=0)).astype(float)
    holes = rng.random(X.shape) < 0.1
    imputer = RBMImputer(visible="poisson", random_state=0)
    filled = imputer.fit_transform(np.where(holes, NAN, X))
    assert filled.max() < 2 * X.max()
    for params, wanted in [
        ({}, [0.05] * 6),
        (
            {"visible": [(slice(1), "poisson"), (slice(1, None), "gaussian")]},
            [0.006] + [0.05] * 5,
        ),
        ({"visible": "poisson", "learning_rate": 0.02}, [0.02] * 6),
    ]:
        model = RBMImputer(4, n_iter=1, random_state=0, **params)
        small = np.minimum(X[:9].round(-1), 10)
        np.testing.assert_allclose(rates_of(model.fit(small)), wanted)
        # So have copies of the model, which go on.
        twin = pickle.loads(pickle.dumps(model))
        twin.rbm_.partial_fit(small)
        np.testing.assert_allclose(rates_of(twin), wanted)
    # The larger the counts, the lower; the column of which nothing is known says none.
    large = np.column_stack([np.full(9, NAN), np.r_[NAN, np.full(8, 60.0)], np.ones(9)])
    model = RBMImputer(4, visible="poisson", n_iter=1, random_state=0).fit(large)
    np.testing.assert_allclose(rates_of(model), 0.006 / 6)


def rates_of(imputer):
    """Learning rates of the visible units in the last epoch."""
    rbm = imputer.rbm_
    rate = rbm.history_["learning_rate"][-1]
    return rate * np.broadcast_to(rbm._rate_shares(), len(rbm.visible_mean_))


@pytest.mark.parametrize("n_components", [3, 20])
@pytest.mark.parametrize("sample_posterior", [False, True])
def test_features_that_do_not_vary_are_not_varied(n_components, sample_posterior):
    """As in other imputers, whatever the unit of measurement."""
    rng = np.random.default_rng(26)
    values = [0.0, 1e-6, 7.0, 1e8 + 1 / 3]
    code = rng.integers(3, size=60)
    X = np.column_stack([code, np.tile(values, (60, 1)), rng.normal(size=60)])
    holes = rng.random(X.shape) < 0.2
    visible = [([0], "categorical"), (slice(1, None), "gaussian")]
    imputer = quick(
        n_components=n_components, visible=visible, sample_posterior=sample_posterior
    )
    filled = imputer.fit_transform(np.where(holes, NAN, X))
    np.testing.assert_allclose(filled[:, 1:5], X[:, 1:5], rtol=1e-14)
    assert np.ptp(filled[holes[:, 5], 5]) > 0


def test_unknown_names_out(table):
    with pytest.raises(ValueError, match="input_features"):
        quick().fit(table).get_feature_names_out(["a", "b"])


def test_messages_are_those_of_the_imputer(capsys):
    X = np.random.default_rng(668).normal(size=(40, 3))
    X[::7, 1] = np.nan
    # Far too long steps leave hidden units that are always off, or always on.
    model = RBMImputer(4, n_iter=20, learning_rate=5.0, verbose=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="hidden units of RBMImputer"):
        model.fit(X)
    assert capsys.readouterr().out.startswith("[RBMImputer] Iteration 1,")
