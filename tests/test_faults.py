"""Warnings of what is wrong with a model that has been trained."""

import re
import warnings
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import binarize, minmax_scale, scale

import sklearn_ebm
from common import all_states
from reference import generator
from sklearn_ebm import (
    RBM,
    BernoulliRBM,
    DBMTransformer,
    DBNClassifier,
    DBNTransformer,
    GaussianRBM,
    RBMClassifier,
    RBMImputer,
)
from sklearn_ebm._machines import some_rows
from sklearn_ebm._units import Kind
from sklearn_ebm.boltzmann._faults import (
    _are_states,
    warn_if_worse_than_independent,
    warn_of_constant_bits,
    warn_of_excess_probability,
)
from sklearn_ebm.likelihood import log_likelihood, log_partition
from sklearn_ebm.units import Gaussian
from tables import UNBOUNDED, spins_that_agree

# ---- Units that say nothing ----


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


def test_tables_whose_real_columns_are_real_have_other_remedies():
    X = np.random.default_rng(0).normal(size=(20, 2)) > 0
    for visible, remedies in [
        ("bernoulli", "Try more epochs if features are binary, if they are real"),
        ([([0], "bernoulli"), ([1], "gaussian")], "Try more epochs, or another learn"),
    ]:
        model = RBM(3, visible=visible, n_iter=0).fit(X)
        view = Mock(bits=True, layers=model._layered())
        view.hidden_means.return_value = np.full((20, 3), 0.3)
        with pytest.warns(ConvergenceWarning, match=remedies):
            warn_of_constant_bits(model, view, X)


def _parities():
    """Triples of bits any two of which tell the third, and where values are missing."""
    rng = generator(681)
    bits = rng.random((1000, 3, 2)) < 0.5
    X = (
        np.dstack([bits, bits[:, :, :1] ^ bits[:, :, 1:]])
        .reshape(1000, 9)
        .astype(float)
    )
    return X, rng.random(X.shape) < 0.1


def test_where_decay_outweighs_what_is_learned_more_epochs_go_without_it():
    X, gone = _parities()
    model = RBMImputer(visible="bernoulli", random_state=0)
    with pytest.warns(ConvergenceWarning, match="more epochs with weight_decay=0 if"):
        model.fit(np.where(gone, np.nan, X))


@pytest.mark.slow
def test_more_epochs_without_decay_find_what_only_three_features_say():
    X, gone = _parities()
    model = RBMImputer(visible="bernoulli", weight_decay=0.0, n_iter=600)
    model.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        filled = model.fit_transform(np.where(gone, np.nan, X))
    # (Two bits of three that are gone cannot be told.)
    assert ((filled > 0.5) == X)[gone].mean() > 0.8


def test_labels_of_a_rare_class_are_told_apart():
    rng, y = np.random.default_rng(0), np.zeros(10_000, int)
    # (None of it is among the rows that are looked at first.)
    y[np.setdiff1d(np.arange(10_000), some_rows(np.arange(10_000)))[::333]] = 1
    X = (rng.random((10_000, 20)) < np.where(y, 0.8, 0.1)[:, None]).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = RBMClassifier(16, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.999


def test_labels_of_a_single_class_deserve_no_warning():
    X, _ = load_iris(return_X_y=True)
    model = DBNClassifier(
        (8, 5), objective="generative", n_iter=2, visible="gaussian", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(scale(X), np.zeros(150, int))


def _is_constant(model, X):
    use = model.predict_proba if hasattr(model, "predict_proba") else model.transform
    return use(X).std(axis=0).max() < 0.02


def _says_so(caught):
    return any("hardly tells rows apart" in str(each.message) for each in caught)


# ---- Probability that is not where the data are ----


def test_few_hidden_states_tell_exactly_how_bad_a_model_is():
    # No row says so: what has the probability lies between clusters, or is wide.
    X = make_blobs(400, 3, centers=6, random_state=1)[0]
    model = GaussianRBM(6, persistent=False, n_iter=100, random_state=0)
    model.set_params(learning_rate_schedule="constant")
    with pytest.warns(ConvergenceWarning, match="set persistent=True") as caught:
        model.fit(X)
    said = re.search(r"is (-[\d.]+) nats", str(caught[-1].message))
    rows = X[np.linspace(0, 399, 32).astype(int)]
    assert float(said[1]) == pytest.approx(model.score(rows), rel=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(persistent=True).fit(X)


@pytest.mark.parametrize("hidden", ["bernoulli", *UNBOUNDED])
def test_models_that_were_led_away_from_the_data_are_warned_of(hidden):
    X, _ = spins_that_agree()
    model = RBM(50, visible="spin", hidden=hidden, learning_rate=3.0, random_state=0)
    model.set_params(n_iter=10, n_chains=10)
    with pytest.warns(
        ConvergenceWarning, match="worse than independent.* was 3[ .,]"
    ) as caught:
        model.fit(X)
    said = [str(each.message) for each in caught if "worse than" in str(each.message)]
    most, alone = (float(number) for number in re.findall(r"-[\d.]+e?[+\d]*", said[0]))
    # Both are means over 32 of the rows.
    rows = X[np.linspace(0, 399, 32).astype(int)]
    log_p = np.log((1 + rows * X.mean(axis=0)) / 2).sum(axis=1)
    assert alone == pytest.approx(log_p.mean(), abs=0.01)
    value = log_likelihood(model, rows, log_partition(model, "exact")).value
    assert value < 0.99 * most < alone
    # Densities of rectified units have no bound.
    visible = [(slice(0, 11), "spin"), ([11], "relu")]
    if hidden != "poisson":
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            model.set_params(visible=visible).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("bits", [0, 2])
def test_real_models_that_were_led_away_from_the_data_are_warned_of(bits, scale):
    rng = generator(676)
    X = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 30))
    X += 0.5 * rng.normal(size=X.shape)
    X[:, bits:] = scale * (3 + X[:, bits:])
    X[:, :bits] = X[:, :bits] > 0
    visible = [(slice(0, bits), "bernoulli"), (slice(bits, 30), "gaussian")]
    rbm = RBM(100, visible=visible if bits else "gaussian", random_state=0)
    steep = {"learning_rate": 2.0, "learning_rate_schedule": "constant"}
    with pytest.warns(ConvergenceWarning, match="worse than independent") as caught:
        rbm.set_params(n_iter=10, n_chains=10, **steep).fit(X)
    said = [str(each.message) for each in caught if "worse than" in str(each.message)]
    most, alone = (float(number) for number in re.findall(r"-[\d.]+e?[+\d]*", said[0]))
    rows = X[np.linspace(0, 399, 32).astype(int)]
    log_p = norm.logpdf(rows, X.mean(axis=0), X.std(axis=0))
    log_p[:, :bits] = np.log(np.abs(rows - (1 - X.mean(axis=0))))[:, :bits]
    assert alone == pytest.approx(log_p.sum(axis=1).mean(), rel=0.01, abs=0.5)
    log_z = log_partition(rbm, "ais", random_state=0)
    value = log_likelihood(rbm, rows, min(log_z.forward, log_z.reverse)).value
    assert value < most + 0.01 * abs(most) and most < alone
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        RBM(100, visible=rbm.visible, random_state=0).fit(X)


def test_real_features_and_few_hidden_units_are_compared_exactly():
    # One-hot rows as real numbers: some fits do well, some not, and 2^16 states say so.
    X = np.eye(5)[generator(3).integers(0, 5, 200)]
    alone = norm.logpdf(X, X.mean(axis=0), X.std(axis=0)).sum(axis=1).mean()
    found = set()
    for seed in range(4):
        model = GaussianRBM(16, random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X)
        warned = any("worse than independent" in str(each.message) for each in caught)
        gap = model.score(X) - alone
        if abs(gap + 1) > 1:  # (Of some of the rows, it may be another one.)
            assert warned == (gap < -1), gap
            found.add(warned)
    assert found == {True, False}


def test_long_rows_of_counts_that_no_row_is_like_are_warned_of():
    # Short texts on few topics, many hidden units, and slow hidden biases: in some of
    # their states texts are ten times as long, of which contrastive divergence sees
    # nothing. (Persistent chains jump beyond rows.)
    rng = np.random.default_rng(1)
    topics = rng.dirichlet(np.full(100, 0.1), 8)
    shares = rng.dirichlet(np.full(8, 0.2), 1000)
    X = np.array([rng.multinomial(rng.poisson(20), p) for p in shares @ topics])
    model = RBM(256, visible="poisson", n_iter=10, learning_rate=0.01, random_state=1)
    model.set_params(persistent=False)
    with pytest.warns(ConvergenceWarning, match="worse than independent"):
        model.fit(X[:700])
    assert model.sample(100, random_state=0).sum(axis=1).mean() > 60
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.set_params(persistent=True, n_chains=100).fit(X[:700])
    assert model.sample(100, random_state=0).sum(axis=1).mean() < 60


@pytest.mark.parametrize("scale", [2.0, 5.0])
def test_a_given_variance_that_is_too_large_is_no_fault_of_the_training(scale):
    X = generator(1230).normal(size=(300, 6))
    options = {"learning_rate": 1e-6, "n_iter": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        # (So short a training has taught hidden units nothing.)
        warnings.filterwarnings("ignore", "The hidden layer")
        GaussianRBM(4, variance=scale**2, **options).fit(X)
        RBM(4, visible=Gaussian(scale=scale), **options).fit(X)


def test_states_that_are_far_from_all_rows_are_found():
    # The field of a unit comes back to all bits: from a row with one bit, at once.
    X = np.eye(12)
    model = RBM(1, hidden="gaussian", n_iter=0, random_state=0).fit(X)
    model.intercept_visible_[:] = 0
    for weight, far in [(5.0, True), (0.1, False)]:
        model.components_[:] = weight
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_if_worse_than_independent(model, X, 0.1)
        assert len(caught) == far
    # The states of all bits and of one are 143 * 25 / 2 nats apart.
    model.components_[:] = 5
    with pytest.warns(ConvergenceWarning, match=r"is -1\.79e\+03 nats at most"):
        warn_if_worse_than_independent(model, X, 0.1)
    # Probabilities stand for bits, here for no others than these.
    with pytest.warns(ConvergenceWarning, match=r"is -1\.79e\+03 nats at most"):
        warn_if_worse_than_independent(model, sp.csr_array((1 - 1e-12) * X), 0.1)


@pytest.mark.parametrize("scale", [0.01, 0.5, 5.0, 100.0])
def test_rectified_features_have_a_size(scale):
    X = np.abs(generator(662).normal(size=(300, 4)))
    X[:, 1] += 20  # far from 0 is no matter
    X[:, 2] *= scale
    X[:, 3] = 0
    columns = [([0, 3], "gaussian"), ([1, 2], "relu")]
    model = RBM(3, visible=columns, n_iter=1, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
        model.transform(X)
    found = [str(w.message) for w in caught if "Rectified units" in str(w.message)]
    assert len(found) == (scale in (0.01, 100.0))
    if found:
        deviation = X[:, 2].std()
        assert f"unit 2 has a standard deviation of {deviation:.3g}, which" in found[0]
    # A few rows do not say it.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(model).partial_fit(X[:1])


def test_scores_that_cannot_be_right_are_warned_of():
    model = RBM(3, visible="spin", n_iter=0, random_state=0).fit(2 * np.eye(4) - 1)
    spins, real = np.full(4, int(Kind.SPIN)), np.full(4, int(Kind.GAUSSIAN))
    all_spins = 2 * all_states(4) - 1
    scores = model.score_samples(all_spins)
    twice, X = np.tile(scores, 2), np.tile(all_spins, (2, 1))
    # All that there is, and no more; means of spins have no probabilities.
    for rows, too_high in [(X, 0.0), (X / 2, 1.0), (0 * X, 1.0), (X[:0], 1.0)]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_of_excess_probability(
                model, spins, rows, twice[: len(rows)] + too_high
            )
            warn_of_excess_probability(model, real, rows, twice[: len(rows)] + 9.0)
    with pytest.warns(UserWarning, match=r"RBM, 16 .* have 2.72 times .* least 1 nats"):
        warn_of_excess_probability(model, spins, sp.csr_array(X), twice + 1.0)
    # What has been kept is believed.
    model._normaliser = model._normaliser[0], model._normaliser[1] - 1.0
    with pytest.warns(UserWarning, match="at least 1 nats too low"):
        assert model.score(X) == pytest.approx(scores.mean() + 1)


@pytest.mark.parametrize(
    "kind, states",
    [("BERNOULLI", [0, 1]), ("SPIN", [-1, 1]), ("POISSON", [0, 1, 2, 7])],
)
def test_which_values_are_states(kind, states):
    values = np.array([[-2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 7, np.nan]])
    kinds = np.full(values.shape[1], int(Kind[kind]))
    np.testing.assert_array_equal(_are_states(kinds, values), np.isin(values, states))


@pytest.mark.parametrize("n_more", [0, 1])
def test_counts_without_bounds_are_warned_of(n_more):
    """They are in states that no row is near, so that training does not see them."""
    X = np.array([[3.0, 1.0], [2.0, 0.0]] * 10)
    visible = [([0], "poisson"), ([1], "gaussian")]
    model = RBM(4, visible=visible, n_iter=0, random_state=0).fit(X)
    model.set_params(n_iter=1, warm_start=True, learning_rate=1e-9)
    # With the first three units on, the field of the count is 29 or 31. What takes from
    # it, or leads to the real values, does not matter.
    to_count, to_real = [10.0, 10.0, 9.0 + 2 * n_more, -5.0], [0.0, 50.0, 0.0, 0.0]
    model._state["components"][:] = np.column_stack([to_count, to_real])
    model._state["intercept_visible"][0] = 0
    model._state["intercept_hidden"][:] = -1000
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    said = [str(each.message) for each in caught if "Counts" in str(each.message)]
    assert len(said) == n_more
    assert all("of 1 of them" in message for message in said)


@pytest.mark.parametrize("kind", [RBM, DBNTransformer, DBMTransformer, RBMImputer])
def test_fits_that_counts_escape_from_say_so(kind):
    means = 300 * np.exp(generator(671).normal(size=(3, 10)))
    X = generator(672).poisson(np.repeat(means, 100, axis=0)).astype(float)
    sizes = 64 if kind in (RBM, RBMImputer) else (64, 4)
    model = kind(sizes, visible="poisson", learning_rate=3.0, n_iter=5, random_state=0)
    if kind in (RBMImputer, DBMTransformer):  # which are hard to drive there
        model.set_params(n_chains=1, weight_decay=0.0)
    with pytest.warns(ConvergenceWarning, match="Counts of .* bounds") as caught:
        model.fit(X)
    assert all(each.filename == __file__ for each in caught)


# ---- What the guide says of them ----


def test_the_guide_quotes_what_is_said():
    folder = Path(sklearn_ebm.__file__).parent
    source = " ".join(path.read_text() for path in folder.rglob("*.py"))
    source = re.sub(r'"\s+f?"', "", source)  # strings in pieces
    page = Path(__file__).parent.parent / "doc" / "warnings.rst"
    if not page.exists():
        pytest.skip("the documentation is not beside the tests")
    quoted = re.findall(r'^   \* - (".*)$', page.read_text(), re.M)
    assert len(quoted) > 10
    for line in quoted:
        for text in re.findall(r'"([^"]+)"', line):
            for part in text.split("..."):
                assert part.strip() in source, part


def test_real_units_that_would_need_larger_weights_are_warned_of():
    rng = generator(680)
    strong = rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 10))
    noise = rng.normal(size=(1000, 10))
    model = GaussianRBM(3, hidden="gaussian", random_state=0)
    with pytest.warns(ConvergenceWarning, match="as large as .*FactorAnalysis"):
        model.fit(strong + 0.2 * noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(0.3 * strong + noise)
        clone(model).set_params(hidden="bernoulli").fit(strong + 0.2 * noise)
