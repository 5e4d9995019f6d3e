"""RBMClassifier: what it learns, rows without a label, how training goes on."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, minmax_scale
from threadpoolctl import threadpool_limits

from common import (
    CLASSIFIER_PARAMETERS,
    CLASSIFIERS,
    assert_same,
    assert_same_model,
    division_of,
    fitted_floats,
    fitted_state,
    name_of,
    run_on_threads,
    soon_interrupted,
)
from reference import generator
from sklearn_ebm import DBMClassifier, DBNClassifier, RBMClassifier
from sklearn_ebm._class_scores import class_scores
from sklearn_ebm._training import KnownDivision
from sklearn_ebm.boltzmann._standardised import Moments

OBJECTIVES = "discriminative", "generative", "hybrid"


# ---- Learning ----


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_it_learns_the_digits(objective, digits, labels):
    model = RBMClassifier(64, objective=objective, n_iter=30, random_state=0)
    model.fit(digits[:1200], labels[:1200])
    assert model.score(digits[1200:], labels[1200:]) > 0.88
    assert model.history_["accuracy"][-1] > 0.93
    growth = np.diff(model.history_["log_likelihood"])
    assert growth[:3].min() > 0


def test_labels_of_any_type(digits, labels):
    wanted = RBMClassifier(8, n_iter=2, random_state=0).fit(digits, labels)
    names = np.array([f"digit {k}" for k in range(10)])
    for y in (names[labels], names.astype(object)[labels], labels - 5, labels * 2.0):
        model = clone(wanted).fit(digits, y)
        assert_same(model.predict_proba(digits), wanted.predict_proba(digits))
        assert set(model.predict(digits)) <= set(y)
        found = model.sample(2, y=y[:2], n_gibbs_steps=2)
        assert found.shape == (2, 64)


def test_sparse_bits_and_dense_rows_give_one_model(binary_digits, labels):
    wanted = RBMClassifier(
        9, objective="hybrid", persistent=True, n_iter=2, random_state=0
    )
    wanted.fit(binary_digits.astype(np.float32), labels)
    for X in (
        binary_digits,
        binary_digits.astype(np.uint8),
        sp.csr_array(binary_digits.astype(np.float32)),
        sp.csr_array(binary_digits),
    ):
        model = clone(wanted).fit(X, labels)
        assert_same_model(model, wanted)
        assert_same(model.predict_proba(X), wanted.predict_proba(binary_digits))


def threads_results():
    """Hashes of fits that are large enough for several threads."""
    import joblib

    from common import fitted_state

    rng = np.random.default_rng(0)
    X = np.clip(rng.normal(0, 0.6, (250, 300)), 0, 1)
    y = rng.integers(5, size=250)
    found = {}
    for objective, persistent, dtype in [
        ("discriminative", False, "float32"),
        ("generative", False, "float64"),
        ("hybrid", True, "float32"),
        ("hybrid", False, "float64"),
    ]:
        model = RBMClassifier(
            330,
            objective=objective,
            alpha=0.5,
            persistent=persistent,
            batch_size=200,
            momentum=0.5,
            n_gibbs_steps=2,
            unlabeled=4,
            n_iter=2,
            random_state=0,
        ).fit(X.astype(dtype), y)
        results = [fitted_state(model), model.predict_proba(X), model.transform(X)]
        results.append(model.sample(20, n_gibbs_steps=3))
        found[f"{objective} {persistent} {dtype}"] = joblib.hash(results)
    return found


def test_any_number_of_threads_gives_the_same_bits():
    with threadpool_limits(1):
        wanted = threads_results()
    code = "import test_rbm_classifier as t; print(t.threads_results())"
    for printed in run_on_threads([2, 3], code):
        assert printed.strip() == str(wanted)


# ---- Rows without a label ----


@pytest.mark.parametrize("early_stopping", [True, False])
def test_unlabelled_rows_change_nothing_in_a_discriminative_fit(
    early_stopping, digits, labels
):
    X, y = digits[:600], labels[:600].copy()
    y[generator(8).random(600) < 0.4] = -1
    wanted = RBMClassifier(9, n_iter=3, early_stopping=early_stopping, random_state=0)
    wanted.fit(X[y >= 0], y[y >= 0])
    model = clone(wanted).set_params(unlabeled=-1)
    for given in (X, sp.csr_array(X)):
        with pytest.warns(UserWarning, match=rf"label \({sum(y < 0)} of 600\); .*hyb"):
            assert_same_model(model.fit(given, y), wanted)
    if not early_stopping:
        wanted.partial_fit(X[y >= 0], y[y >= 0])
        assert_same_model(model.partial_fit(X, y), wanted)


def test_unlabelled_rows_matter_otherwise(digits, labels):
    y = labels[:600].copy()
    y[100:] = -1
    for objective in ("generative", "hybrid"):
        model = RBMClassifier(
            9, objective=objective, unlabeled=-1, n_iter=3, random_state=0
        ).fit(digits[:600], y)
        alone = clone(model).fit(digits[:100], y[:100])
        assert not np.array_equal(model.components_, alone.components_)
        assert list(model.classes_) == list(range(10))


def test_the_generative_objective_is_told_of_rare_labels(digits, labels):
    X, y = digits[:1000], labels[:1000].copy()
    y[20:] = -1
    model = RBMClassifier(4, objective="generative", unlabeled=-1, n_iter=1)
    with pytest.warns(UserWarning, match=r"rows have \(20 of 1000\); .*hybrid"):
        model.fit(X, y)
    y[:30] = labels[:30]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)  # of enough
        model.set_params(objective="hybrid").fit(X[20:], y[20:])


@pytest.mark.slow
def test_the_hybrid_objective_learns_rare_labels_better(digits, labels):
    rows = np.concatenate([np.flatnonzero(labels[:1198] == k)[:1] for k in range(10)])
    y = np.full(1198, -1)
    y[rows] = labels[rows]
    scores = {}
    for objective in ("generative", "hybrid"):
        model = RBMClassifier(64, objective=objective, unlabeled=-1, random_state=0)
        model.fit(digits[:1198], y)
        scores[objective] = model.score(digits[1198:], labels[1198:])
    assert scores["hybrid"] > scores["generative"] + 0.1


def test_a_class_may_be_called_minus_one(digits, labels):
    y = np.where(labels < 5, -1, 1)
    model = RBMClassifier(9, n_iter=3, random_state=0).fit(digits, y)
    assert list(model.classes_) == [-1, 1]


def test_marker_of_unlabelled_rows_may_be_a_string(digits, labels):
    names = np.array([str(k) for k in labels[:100]])
    names[:10] = "?"
    model = RBMClassifier(4, unlabeled="?", objective="hybrid", n_iter=1)
    assert "?" not in model.fit(digits[:100], names).classes_


@pytest.mark.parametrize(
    "model",
    [
        RBMClassifier(4, n_iter=2),
        RBMClassifier(4, n_iter=2, objective="hybrid"),
        DBNClassifier(4, n_iter=2),
        DBNClassifier(4, n_iter=2, objective="generative"),
        DBMClassifier((4, 3), n_iter=2, pretrain_n_iter=1),
        DBMClassifier((4, 3), n_iter=2, objective="multi_prediction"),
    ],
)
def test_marker_of_unlabelled_rows_may_be_nan(model, digits, labels):
    X, y = digits[:60], np.where(np.arange(60) < 40, labels[:60], -1)
    wanted = clone(model).set_params(unlabeled=-1, random_state=0).fit(X, y)
    nan = np.where(y < 0, np.nan, y)
    names = np.where(y < 0, np.nan, y.astype(str).astype(object))
    for given in (nan, names):
        found = clone(wanted).set_params(unlabeled=np.nan).fit(X, given)
        assert_same(found.classes_, np.unique(given[:40]))
        assert_same(found.predict_proba(X), wanted.predict_proba(X))
    found = clone(wanted).set_params(unlabeled=np.nan)
    with pytest.raises(ValueError, match="y has no label.*unlabeled=nan"):
        found.fit(X, np.full(60, np.nan))
    with pytest.raises(ValueError, match="unlabeled=nan marks rows without a label"):
        found.partial_fit(X, nan, classes=[0.0, 1.0, np.nan])
    # Without such a mark, NaN is no label.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in (nan, names):
            with pytest.raises(ValueError, match="contains NaN. With unlabeled=np.nan"):
                wanted.fit(X, given)
        with pytest.raises(ValueError, match="contains infinity"):
            wanted.fit(X, np.where(y < 0, np.inf, y))


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_rows_without_a_label_do_not_count_in_scores(model, digits, labels):
    X, y = digits[:90], labels[:90]
    model = clone(model).set_params(unlabeled=-1, n_iter=3, random_state=0).fit(X, y)
    known = np.arange(90) % 3 > 0
    weight = np.random.default_rng(0).random(90)
    names = y.astype(str).astype(object)
    for given, mark in [(y, -1), (y.astype(float), np.nan), (names, "?")]:
        twin = clone(model).set_params(unlabeled=mark).fit(X, given)
        right = twin.predict(X) == given
        assert 0 < right[known].mean() < 1
        some = np.where(known, given, mark)
        assert twin.score(X, some) == right[known].mean()
        wanted = np.average(right[known], weights=weight[known])
        assert twin.score(X, some, sample_weight=weight) == pytest.approx(wanted)
        assert twin.score(X, given) == right.mean()
        with pytest.raises(ValueError, match="y has no label: all of it is unlabeled"):
            twin.score(X, np.full(90, mark))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            twin.score(X, some[:-1])
    # Mistakes are refused as they are without a mark.
    model.set_params(unlabeled=-1)
    for wrong in (y + 0.5, y.astype(str), np.where(known, y, np.nan)):
        with pytest.raises(ValueError, match=r"(?i)mix|contains NaN"):
            model.score(X, wrong)


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=name_of)
@pytest.mark.parametrize("n_classes", [3, 30])
def test_names_are_not_taken_for_numbers(classifier, n_classes):
    # (NumPy's comparisons would.)
    X, y = np.random.default_rng(0).random((120, 5)), np.arange(120) % n_classes
    model = clone(classifier).set_params(warm_start=True).fit(X, y)
    kept, go_on = fitted_floats(model), getattr(model, "partial_fit", model.fit)
    for names in (y.astype(str), np.full(120, "2"), y.astype(str).astype(object)):
        with pytest.raises(ValueError, match="not among the classes"):
            go_on(X, names)
    if hasattr(model, "partial_fit"):
        with pytest.raises(ValueError, match="are not those of the model"):
            model.partial_fit(X, y, classes=np.unique(y).astype(str))
    assert_same(fitted_floats(model), kept)
    for same in (y.astype(float), y.tolist()):
        go_on(X, same)
    if isinstance(model, RBMClassifier):
        with pytest.raises(ValueError, match="not among the classes"):
            model.free_energy(X[:1], ["2"])


@pytest.mark.parametrize("mark", ["?", None, -1.5])
@pytest.mark.parametrize("classifier", [RBMClassifier(4), DBNClassifier((4,))])
def test_numbers_beside_any_mark(classifier, mark, digits, labels):
    X, y = digits[:60], labels[:60]
    model = clone(classifier).set_params(n_iter=1, random_state=0, unlabeled=-1)
    known = np.arange(60) % 3 > 0
    wanted = clone(model).fit(X, np.where(known, y, -1))
    marked = y.astype(object)
    marked[~known] = mark
    model.set_params(unlabeled=np.nan if mark is None else mark).fit(X, marked)
    np.testing.assert_array_equal(model.classes_, np.unique(y[known]))
    assert model.classes_.dtype == y.dtype
    assert_same(model.predict_proba(X), wanted.predict_proba(X))
    score = wanted.score(X, np.where(known, y, -1))
    assert model.score(X, marked) == score
    # As labels beside marks are found in a table.
    model.partial_fit(X, marked, classes=pd.unique(marked[known]))
    new = clone(model).partial_fit(X, marked, classes=pd.unique(marked[known]))
    assert_same(new.classes_, wanted.classes_)
    assert new.predict(X).dtype == y.dtype
    assert 0 <= new.score(X, marked) <= 1


@pytest.mark.parametrize(
    "model",
    [
        RBMClassifier(4, n_iter=1),
        DBNClassifier((4,), pretrain=False, n_iter=1),
        DBNClassifier((4,), objective="generative", n_iter=1),
        DBMClassifier((4,), objective="multi_prediction", n_iter=1),
    ],
    ids=name_of,
)
def test_a_class_that_the_model_knows_cannot_become_the_mark(model, digits, labels):
    X, y = digits[:60], labels[:60]
    model = clone(model).set_params(warm_start=True, random_state=0).fit(X, y)
    before = model.predict_proba(X)
    model.set_params(unlabeled=0)
    for go_on in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="unlabeled=0 marks rows without a label"):
            go_on(X, y)
    assert_same(model.predict_proba(X), before)


@pytest.mark.parametrize("dtype", ["string", object])
def test_missing_values_of_pandas_mark_rows_as_nan_does(dtype, digits, labels):
    X, names = digits[:60], labels[:60].astype(str).astype(object)
    names[40:] = np.nan
    series = pd.Series(names, dtype=dtype).where(np.arange(60) < 40, pd.NA)
    model = RBMClassifier(4, n_iter=1, unlabeled=np.nan, random_state=0)
    wanted = clone(model).fit(X, names).predict_proba(X)
    nones = names.copy()
    nones[40:] = None
    for given in (series, nones):
        assert_same(model.fit(X, given).predict_proba(X), wanted)
        with pytest.raises(ValueError, match="marks rows without a label and cannot"):
            model.partial_fit(X, given, classes=pd.unique(given))
    # Without such a mark they are no labels.
    for given in (series, names, nones):
        with pytest.raises(ValueError, match="Input y contains NaN"):
            model.set_params(unlabeled="?").fit(X, given)
        with pytest.raises(ValueError, match="classes contain NaN"):
            model.partial_fit(X, names[:40], classes=pd.unique(given))


@pytest.mark.slow
def test_unlabelled_rows_help(digits, labels):
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    X, y = digits[order], labels[order].copy()
    known = np.zeros(len(y), bool)
    known[:40] = True
    y[40:1200] = -1
    model = RBMClassifier(
        64, objective="hybrid", alpha=1, unlabeled=-1, n_iter=100, random_state=0
    ).fit(X[:1200], y[:1200])
    alone = clone(model).set_params(n_iter=2000).fit(X[:40], y[:40])
    test = slice(1200, None)
    assert model.score(X[test], y[test]) > alone.score(X[test], y[test])


# ---- partial_fit, warm starts, early stopping ----


def test_partial_fit_goes_on(digits, labels):
    model = RBMClassifier(
        16, objective="hybrid", persistent=True, learning_rate=0.5, random_state=0
    )
    assert model.partial_fit(digits[:90], labels[:90], classes=range(12)) is model
    assert model.predict_proba(digits).shape == (len(digits), 12)
    for start in 4 * list(range(0, 1500, 90)):
        part = slice(start, start + 90)
        model.partial_fit(digits[part], labels[part])
    assert model.n_iter_ == 69
    assert model.score(digits, labels) > 0.8
    assert model.h_samples_.shape == (10, 16)
    shown = np.vstack([digits[:90], *4 * [digits[:1530]]])
    np.testing.assert_allclose(model.visible_mean_, shown.mean(axis=0), rtol=1e-10)


def test_partial_fit_of_all_rows_is_an_epoch_of_fit(digits, labels):
    model = RBMClassifier(16, n_iter=1, momentum=0.5, random_state=0)
    once = clone(model).fit(digits, labels)
    again = clone(model).partial_fit(digits, labels, classes=range(10))
    assert_same_model(again, once)


def test_warm_start_goes_on(digits, labels):
    model = RBMClassifier(
        16, objective="hybrid", persistent=True, momentum=0.5, random_state=0
    )
    whole = clone(model).set_params(n_iter=4, average=False).fit(digits, labels)
    parts = clone(whole).set_params(n_iter=2, warm_start=True)
    parts.fit(digits, labels).fit(digits, labels)
    assert parts.n_iter_ == 4
    for name in CLASSIFIER_PARAMETERS:
        assert_same(getattr(parts, name), getattr(whole, name))


def test_partial_fit_wants_the_classes(digits, labels):
    model = RBMClassifier(4, random_state=0)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(digits, labels)
    model.partial_fit(digits, labels, classes=np.arange(10))
    model.partial_fit(digits, labels, classes=np.arange(10)[::-1])
    with pytest.raises(ValueError, match="are not those of the model"):
        model.partial_fit(digits, labels, classes=np.arange(9))
    with pytest.raises(ValueError, match=r"\[77\] that are not among the classes"):
        model.partial_fit(digits[:2], [0, 77])
    marked = RBMClassifier(4, unlabeled=3)
    with pytest.raises(ValueError, match="cannot be one of the classes"):
        marked.partial_fit(digits, labels, classes=np.arange(10))


@pytest.mark.parametrize("monitor", ["accuracy", "log_likelihood"])
def test_early_stopping_keeps_the_best_epoch(monitor, digits, labels):
    model = RBMClassifier(
        64,
        n_iter=200,
        learning_rate=0.5,
        early_stopping=True,
        monitor=monitor,
        n_iter_no_change=4,
        validation_fraction=0.2,
        random_state=0,
    ).fit(digits[:300], labels[:300])
    assert model.n_iter_ < 200
    watched = model.history_[f"validation_{monitor}"]
    # (Of equals, that of the highest log-likelihood.)
    pairs = zip(watched, model.history_["validation_log_likelihood"], strict=True)
    assert model.best_n_iter_ == 1 + max(enumerate(pairs), key=lambda x: x[1])[0]
    # The rows held out, told from the state of the fit.
    order = division_of(model, labels[:300], 0.2).held_out
    if monitor == "accuracy":
        found = model.score(digits[order], labels[order])
    else:
        log_p = model.predict_log_proba(digits[order])
        found = log_p[np.arange(60), labels[order]].mean()
    assert found == pytest.approx(max(watched), rel=1e-9)


@pytest.mark.parametrize("n, fraction", [(300, 0.1), (300, 0.5), (37, 0.25)])
def test_a_share_of_each_class_is_held_out(n, fraction, labels):
    labels = np.sort(labels[:n])
    found = set()
    for key in range(20):
        known = np.ones(n, bool)
        division = KnownDivision(known, fraction, key, "labels", True, labels)
        rows = division.held_out
        assert len(rows) == np.ceil(fraction * n)
        share = len(rows) / n * np.bincount(labels)
        assert np.abs(np.bincount(labels[rows], minlength=10) - share).max() < 1
        assert sorted([*rows, *division.training]) == list(range(n))
        found.update(rows)
    # Any row may be.
    assert len(found) > 0.75 * n


def test_the_only_row_of_a_class_is_trained_on():
    labels = np.repeat([0, 1, 2, 3], [57, 1, 1, 1])
    for key in range(50):
        rows = KnownDivision(labels >= 0, 0.1, key, "labels", True, labels).held_out
        assert len(rows) == 6
        assert (labels[rows] == 0).all()
    # Unless there are no other rows.
    every = np.arange(20)
    assert len(KnownDivision(every >= 0, 0.1, 0, "labels", True, every).held_out) == 2


def test_rows_that_are_trained_on_with_a_label_are_counted(labels):
    labels = np.where(np.arange(100) % 3, labels[:100], -1)
    for others in (True, False):
        division = KnownDivision(labels >= 0, 0.2, 0, "labels", others, labels)
        training = labels[division.training]
        assert division.n_rows == len(training)
        assert division.n_known == (training >= 0).sum()


def test_early_stopping_waits_on_a_plateau():
    rng = np.random.default_rng(0)
    X = (rng.random((3000, 12)) < 0.5) * 1.0
    y = X[:, :4].sum(axis=1) % 2
    model = RBMClassifier(early_stopping=True, random_state=0)
    assert model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.95


def test_early_stopping_needs_labels_on_either_side(digits, labels):
    model = RBMClassifier(4, early_stopping=True, validation_fraction=0.9)
    with pytest.raises(ValueError, match="leaves nothing to train on of the 3 labels"):
        model.fit(digits[:3], labels[:3])
    with pytest.raises(ValueError, match="does not support early_stopping"):
        model.partial_fit(digits, labels, classes=range(10))


# ---- Callbacks and Ctrl-C ----


def test_callbacks_see_every_epoch(digits, labels):
    callback = pytest.importorskip("sklearn.callback")
    monitor = callback.ScoringMonitor(scoring="accuracy")
    y = labels[:300].copy()
    y[200:] = -1
    model = RBMClassifier(8, n_iter=4, unlabeled=-1, random_state=0)
    found = clone(model).set_callbacks(monitor).fit(digits[:300], y)
    assert_same_model(found, model.fit(digits[:300], y))
    scores = [epoch["accuracy"] for epoch in monitor.get_logs().data]
    assert len(scores) >= 4
    # (To this scorer, rows without a label are wrong.)
    assert scores[-1] == pytest.approx((model.predict(digits[:300]) == y).mean())


@pytest.mark.parametrize(
    "parameters",
    [
        {"batch_size": 100, "n_components": 500},
        {"batch_size": 5_000, "n_components": 500, "persistent": True},
        {"batch_size": 100, "n_components": 500, "n_gibbs_steps": 2_000},
        {"batch_size": 1, "n_components": 4},
    ],
)
def test_interrupt_is_heard_and_leaves_a_usable_model(parameters):
    rng = np.random.default_rng(0)
    X = (rng.random((5_000, 784)) < 0.2).astype(np.uint8)
    y = rng.integers(10, size=5_000)
    parameters = {"objective": "hybrid", "n_iter": 10**5, **parameters}
    model = soon_interrupted(
        lambda: RBMClassifier(random_state=0, **parameters),
        lambda model: model.fit(X, y),
        # (On a busy machine the first interrupts come before there is a model.)
        begun=lambda model: hasattr(model, "history_"),
    )
    assert all(len(entries) == model.n_iter_ for entries in model.history_.values())
    assert np.isfinite(model.predict_proba(X[:20])).all()
    done = model.n_iter_
    model.set_params(warm_start=True, n_iter=1, n_gibbs_steps=1, batch_size=50)
    assert model.fit(X[:200], y[:200]).n_iter_ == done + 1


# ---- What is refused ----


def test_labels_are_asked_for(digits, labels):
    model = RBMClassifier(4)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(digits, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(digits, labels[:-1])
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(digits, np.linspace(0, 1, len(digits)))
    for objective in OBJECTIVES:
        model.set_params(objective=objective, unlabeled=0)
        with pytest.raises(ValueError, match=r"y has no label.*unlabeled=0"):
            model.fit(digits, np.zeros(len(digits), int))
        assert not hasattr(model, "classes_")


def test_going_on_without_a_label(digits, labels):
    model = RBMClassifier(4, unlabeled=-1, objective="hybrid", random_state=0)
    model.partial_fit(digits, labels, classes=range(10))
    unknown = np.full(len(digits), -1)
    model.partial_fit(digits, unknown)
    assert np.isnan(model.history_["log_likelihood"][-1])
    assert np.isfinite(model.components_).all()
    first = clone(model).partial_fit(digits, unknown, classes=range(10))
    assert first.predict_proba(digits).shape == (len(digits), 10)
    # A discriminative model has nothing to learn of such a batch of a stream.
    model = clone(model).set_params(objective="discriminative", warm_start=True)
    model.partial_fit(digits, labels, classes=range(10))
    before = fitted_state(model)
    assert_same(fitted_state(model.partial_fit(digits, unknown)), before)
    with pytest.raises(ValueError, match="has 3 features, but"):
        model.partial_fit(digits[:, :3], unknown)
    # (Not that the classes are not known, which they are.)
    with pytest.raises(ValueError, match="y has no label.* cannot learn anything"):
        model.fit(digits, unknown)
    with pytest.raises(ValueError, match="y has no label.* cannot learn anything"):
        clone(model).partial_fit(digits, unknown, classes=range(10))


@pytest.mark.parametrize(
    "model",
    [
        RBMClassifier(4, objective="hybrid"),
        DBNClassifier(4, objective="generative"),
        DBMClassifier((4, 3), objective="multi_prediction"),
    ],
)
def test_early_stopping_goes_on_with_labels_only(model, digits, labels):
    model = clone(model).set_params(n_iter=1, unlabeled=-1, random_state=0)
    model.fit(digits[:50], labels[:50])
    model.set_params(warm_start=True, early_stopping=True)
    before = fitted_state(model)
    with pytest.raises(ValueError, match="y has no label.*unlabeled=-1.*hold none out"):
        model.fit(digits[:50], np.full(50, -1))
    assert_same(fitted_state(model), before)
    model.set_params(early_stopping=False).fit(digits[:50], np.full(50, -1))
    assert model.n_iter_ == 2


def test_number_of_components_cannot_change(digits, labels):
    model = RBMClassifier(4, n_iter=1, warm_start=True).fit(digits, labels)
    with pytest.raises(ValueError, match="n_components=5 does not fit .* has 4"):
        model.set_params(n_components=5).fit(digits, labels)


def test_arguments_of_sample(digits, labels):
    model = RBMClassifier(4, n_iter=1).fit(digits, labels)
    for arguments, message in [
        ({"y": 11}, "[11] that are not among the classes"),
        ({"y": [1, 2]}, "y must be 3 labels, one a row, got shape (2,)"),
        ({"init": digits[:2]}, "init has 2 rows, but n_samples=3"),
        ({"init": digits[:3, :5]}, "init has 5 columns"),
        ({"n_gibbs_steps": -1}, "n_gibbs_steps must be an integer >= 0"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            model.sample(3, **arguments)
    with pytest.raises(ValueError, match="y must be 5 labels"):
        model.free_energy(digits[:5], [1, 2])


@pytest.mark.parametrize(
    "model",
    [
        RBMClassifier(5, n_iter=1),
        RBMClassifier(5, n_iter=1, objective="hybrid"),
        DBNClassifier((5,), n_iter=1),
        DBNClassifier((5, 4), n_iter=1, objective="generative"),
        DBMClassifier((5, 4), n_iter=1, pretrain_n_iter=1),
    ],
    ids=name_of,
)
def test_mark_that_no_row_has_is_warned_of(model, digits, labels):
    model = clone(model).set_params(unlabeled=-1)
    with pytest.warns(UserWarning, match="No row of y is unlabeled=-1, which") as found:
        model.fit(digits[:50], labels[:50])
    assert sum("No row" in str(each.message) for each in found) == 1
    # As where a meta-estimator numbers the classes.
    ensemble = BaggingClassifier(model, n_estimators=1, random_state=0)
    y = np.where(np.arange(50) % 2, labels[:50], -1)
    with pytest.warns(UserWarning, match="BaggingClassifier"):
        ensemble.fit(digits[:50], np.where(labels[:50] > 4, 1, -1))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "No row of y")
        model.fit(digits[:50], y)
        model.partial_fit(digits[:50], np.abs(y))
        model.set_params(unlabeled=None).fit(digits[:50], labels[:50])


def test_labels_that_are_objects_can_be_scored(digits, labels):
    for y in (labels.astype(object), (labels > 4).astype(object)):
        model = RBMClassifier(8, n_iter=5, random_state=0)
        assert cross_val_score(model, digits, y, cv=2).min() > 0.5
        found = model.fit(digits, y).score(digits, y)
        assert found == (model.predict(digits) == y.astype(int)).mean()


def test_default_weight_of_the_generative_part(digits, labels):
    y = np.where(np.arange(len(labels)) % 5, -1, labels)
    rarity = len(y) / (y >= 0).sum()
    settings = {"objective": "hybrid", "unlabeled": -1, "n_iter": 2, "random_state": 0}
    for X, targets, alpha in [(digits, y, 0.01 * rarity), (digits, labels, 0.01)]:
        found, wanted = (
            RBMClassifier(8, alpha=weight, **settings).fit(X, targets)
            for weight in (None, alpha)
        )
        assert_same(fitted_floats(found), fitted_floats(wanted))
    model = RBMClassifier(8, **settings).set_params(momentum=0.0).fit(digits, y)
    before = model.components_.copy()
    model.partial_fit(digits, np.full(len(digits), -1))  # as much as no label can tell
    assert np.abs(model.components_ - before).max() > 1e-3
    few = np.where(np.arange(len(labels)) < 12, labels, -1)
    found, wanted = (
        RBMClassifier(8, alpha=weight, **settings).fit(digits, few)
        for weight in (None, 1.0)  # no more than 1
    )
    assert_same(fitted_floats(found), fitted_floats(wanted))


@pytest.mark.parametrize("objective", ["hybrid", "generative"])
def test_values_out_of_range_are_warned_of(objective, digits, labels):
    model = RBMClassifier(4, objective=objective, n_iter=1)
    wanted = r"RBMClassifier stand for values in"
    grid = GridSearchCV(make_pipeline(model), {"rbmclassifier__n_iter": [1]}, cv=2)
    for estimator in (model, grid):
        with pytest.warns(UserWarning, match=wanted) as caught:
            estimator.fit(16 * digits, labels)
        # The line above, not one of scikit-learn's.
        assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(UserWarning, match=wanted) as caught:
        features = model.fit_transform(16 * digits, labels)
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=wanted):
        np.testing.assert_array_equal(features, model.transform(16 * digits))


def test_discriminative_objective_takes_any_features(digits, labels):
    model = RBMClassifier(4, n_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(16 * digits - 3, labels).predict(40 * digits)
        model.fit_transform(16 * digits, labels)
        model.partial_fit(digits, labels).transform(30 * digits)
        model.fit(digits, labels)
    # Others than those it was fitted to are not these features, or not scaled.
    for call in (model.predict, lambda X: model.partial_fit(X, labels)):
        with pytest.warns(UserWarning, match="stand for values in"):
            call(16 * digits)


def test_all_rows_so_far_say_how_features_vary():
    rng = generator(54)
    X = rng.normal(size=(300, 6)) * [1, 2, 3, 1e3, 1e-3, 1] + [0, 5, 0, 0, 0, -20]
    X[:, 5] = rng.random(300) < 0.2  # mostly 0
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = RBMClassifier(30, random_state=0)
    sizes = [1, 2, 7, 90, 200]
    for part in np.split(np.arange(300), np.cumsum(sizes)[:-1]):
        model.partial_fit(X[part], y[part], classes=[0, 1])
    found, wanted = (
        moments.standard(6) for moments in (model._state["moments"], Moments.of(X))
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert found[0, 5] == 0 and found[1, 5] == pytest.approx(1)
    for n in (1, 3):  # few rows of the first call do no harm that lasts
        model.fit(X[:n], y[:n]).partial_fit(X[:n], y[:n])
        online = RBMClassifier(30, random_state=0)
        online.partial_fit(X[:n], y[:n], classes=[0, 1])
        for _ in range(30):
            online.partial_fit(X, y)
        assert online.score(X, y) > 0.9


def test_features_far_from_0_are_warned_of():
    rng = generator(55)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    for dtype, fine, far in [(np.float32, 300, 3000), (np.float64, 1e6, 1e8)]:
        model = RBMClassifier(5, n_iter=20, random_state=0)
        with pytest.warns(UserWarning, match="mean of feature 1 is .* rounding"):
            model.fit((X + [0, far, 0]).astype(dtype), y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert model.fit((X + fine).astype(dtype), y).score(X + fine, y) > 0.9


def _rates_beside_bits(seed):
    """Bits that say nothing, and a rate that tells the labels."""
    rng = np.random.default_rng(seed)
    rates = 0.03 + 0.005 * rng.normal(size=600)
    bits = rng.random((600, 10)) < 0.5
    return np.column_stack([bits, rates]), (rates > 0.03).astype(int)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_bits_that_cannot_tell_small_numbers_say_so(container):
    X, y = _rates_beside_bits(0)
    for objective, remedy in [("hybrid", "Scale .* or take"), ("generative", "Take")]:
        model = RBMClassifier(8, objective=objective, n_iter=2, random_state=0)
        wanted = f"1 of 11 features hardly .*feature 10 .*that. {remedy} objective="
        with pytest.warns(UserWarning, match=wanted) as caught:
            model.fit(container(X), y)
        assert caught[0].filename == __file__
        with pytest.warns(UserWarning, match=wanted):
            clone(model).partial_fit(container(X), y, classes=[0, 1])
    # As it advises.
    hybrid = RBMClassifier(32, objective="hybrid", random_state=0)
    discriminative = RBMClassifier(32, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = minmax_scale(X)
        assert hybrid.fit(container(scaled), y).score(container(scaled), y) > 0.9
        assert discriminative.fit(container(X), y).score(container(X), y) > 0.9
    with pytest.warns(UserWarning, match=wanted.split("that")[0]):
        hybrid.fit(container(X), y)
    assert hybrid.score(container(X), y) < 0.8


@pytest.mark.parametrize("objective", ["hybrid", "generative"])
def test_bits_and_images_have_no_warning_of_small_numbers(objective, digits, labels):
    model = RBMClassifier(8, objective=objective, n_iter=0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(digits, labels)
        model.fit(digits > 0.5, labels)
        # A constant is one of the things that may be in a table.
        model.fit(np.column_stack([digits, np.full(len(digits), 0.3)]), labels)
        # Rows that are few may be alike by chance.
        model.fit(*(part[:5] for part in _rates_beside_bits(0)))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("first", [0.0, 1.0, -7.0])
def test_features_that_vary_later_only_may_have_any_size(container, first):
    rng = generator(57)
    X = rng.normal(size=(1500, 6))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    X[:, 0] *= 1000
    X[:100, 0] = first
    model = RBMClassifier(16, random_state=0)
    for rows in np.split(np.arange(1000), 10):
        before = getattr(model, "intercept_hidden_", None)
        model.partial_fit(container(X[rows]), y[rows], classes=[0, 1])
        assert before is None or abs(model.intercept_hidden_ - before).max() < 1
    assert model.score(container(X[1000:]), y[1000:]) > 0.9
    # Training that goes on by `fit`, too.
    model = RBMClassifier(16, n_iter=10, random_state=0, warm_start=True)
    model.fit(container(X[:100]), y[:100]).fit(container(X[100:1000]), y[100:1000])
    assert model.score(container(X[1000:]), y[1000:]) > 0.9


def test_features_that_hardly_vary_have_no_say():
    rng = generator(56)
    X = rng.normal(size=(200, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    for tiny in (1e-18, 1e-21, 1e-25):
        Z = X * np.array([1, 1, tiny], np.float32)
        model = RBMClassifier(5, n_iter=20, random_state=0).fit(Z, y)
        assert model.score(Z, y) > 0.9


@pytest.mark.parametrize("online", [False, True])
def test_features_that_are_not_in_0_1_are_standardised(online):
    rng = generator(52)
    X = rng.normal(size=(200, 6)) * 10.0 ** np.arange(-3, 3) + [0, 1, 2, 30, 400, -9000]
    y = (np.sin(3 * X[:, 0] / X[:, 0].std()) + (X[:, 3] - 30) / 2 > 0).astype(int)
    model = RBMClassifier(30, n_iter=5, weight_decay=1e-3, random_state=0)
    scaled = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
    model.fit(X, y)
    if online:
        for _ in range(3):
            model.partial_fit(X, y)
            scaled[1].partial_fit(scaled[0].transform(X), y)
    wanted = scaled.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), wanted, rtol=1e-7, atol=1e-7)
    assert np.ptp(wanted) > 2
    fields = X @ model.components_.T + model.intercept_hidden_
    deviations = scaled[0].scale_ * model.components_
    np.testing.assert_allclose(deviations, scaled[1].components_, rtol=1e-6, atol=1e-7)
    assert 0.3 < fields.std() < 5


def test_where_features_lie_does_not_matter_to_partial_fit():
    rng = generator(53)
    X = rng.normal(size=(240, 3)) * [1, 0.1, 20]
    y = (X[:, 0] + 10 * X[:, 1] > 0).astype(int)
    here, away = (RBMClassifier(10, random_state=0) for _ in range(2))
    for start in range(0, 240, 40):  # deviations are other ones after every call
        rows = slice(start, start + 40)
        here.partial_fit(X[rows], y[rows], classes=[0, 1])
        away.partial_fit(X[rows] + [3e4, 5e3, -1e6], y[rows], classes=[0, 1])
    wanted = here.decision_function(X)
    found = away.decision_function(X + [3e4, 5e3, -1e6])
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    assert np.ptp(wanted) > 2


def test_rows_held_out_do_not_say_what_standardises(digits, labels):
    X = 16 * digits
    model = RBMClassifier(5, n_iter=0, early_stopping=True, random_state=0)
    wanted = fitted_floats(model.fit(X, labels))
    X[division_of(model, labels, 0.1).held_out] *= 100
    found = fitted_floats(model.fit(X, labels))
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-9, atol=1e-12)
    X = digits.copy()
    X[division_of(model, labels, 0.1).held_out] *= 100
    assert model.fit(X, labels)._state["moments"] is None


def test_counts_stay_sparse():
    rng = generator(53)
    y = rng.integers(0, 2, 150)
    rates = rng.gamma(0.4, 3, (2, 80))
    X = rng.poisson(rates[y]).astype(float)
    model = RBMClassifier(20, n_iter=10, random_state=0)
    dense_model, sparse = model.fit(X, y), clone(model).fit(sp.csr_matrix(X), y)
    wanted = dense_model.decision_function(X)
    np.testing.assert_allclose(sparse.decision_function(X), wanted, rtol=1e-8)
    # Those that are mostly 0 have 0 where they had it, and 1 in the mean where not.
    rare = (X != 0).mean(axis=0) < 0.5
    assert 20 < rare.sum() < 70
    Z = StandardScaler().fit_transform(X)
    sizes = np.sqrt(np.square(X).sum(axis=0) / np.maximum(1, (X != 0).sum(axis=0)))
    Z[:, rare] = (X / np.where(sizes > 0, sizes, 1))[:, rare]
    found = clone(model).fit(Z, y)  # (not all of Z is in [0, 1])
    assert Z.min() < 0
    scaled = found._state["moments"].standard(80)[1]
    np.testing.assert_allclose(scaled[~rare], 1, rtol=1e-9)
    np.testing.assert_allclose(found.decision_function(Z), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["label_components_", "intercept_label_"])
def test_damaged_pickle_is_refused(name, digits, labels):
    import pickle

    model = RBMClassifier(4, n_iter=1).fit(digits, labels)
    setattr(model, name, getattr(model, name)[:-1])
    with pytest.raises(ValueError, match=f"damaged: {name}"):
        pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("size", [1, 20.5])  # by tables, and too large for these
@pytest.mark.parametrize("shape", [(1, 4, 1), (9, 5, 17), (40, 70, 33)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_many_classes(dtype, shape, size):
    n_rows, n_classes, n_hidden = shape
    rng = generator(871)
    fields = rng.normal(0, 5, (n_rows, n_hidden)).astype(dtype)
    fields[0] = 300.0
    labels = rng.uniform(-size, size, (n_hidden, n_classes)).astype(dtype)
    labels.flat[0] = size
    intercepts = rng.normal(size=n_classes)
    found = class_scores(fields, labels, intercepts)
    each = fields[:, :, np.newaxis].astype(float) + labels
    wanted = np.logaddexp(0, each).sum(axis=1) + intercepts
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found, wanted, rtol, atol=rtol * n_hidden)
    # Each row by itself.
    for row in range(n_rows):
        alone = class_scores(fields[row : row + 1], labels, intercepts)
        assert np.array_equal(alone[0], found[row])


@pytest.mark.parametrize("objective", ["discriminative", "hybrid"])
@pytest.mark.parametrize(
    "n_rows, n_features, wanted", [(400, 20, 1.0), (30, 120, 0.25), (40, 1000, 0.1)]
)
def test_first_fields_are_narrow_where_rows_are_few(
    n_rows, n_features, wanted, objective
):
    X = generator(702).random((n_rows, n_features)) < 0.3
    model = RBMClassifier(200, objective=objective, n_iter=0, random_state=0)
    fields = X @ model.fit(X, np.arange(n_rows) % 2).components_.T
    assert np.sqrt(fields.var(axis=0).mean()) == pytest.approx(wanted, rel=0.15)
