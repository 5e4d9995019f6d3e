"""What is refused, with errors that name what was wrong and what it was."""

import inspect
import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import neural_network
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.utils import get_tags

from common import (
    BRIEF_ESTIMATORS,
    CLASSIFIERS,
    REGRESSORS,
    assert_same,
    every_estimator,
    fit,
    fitted,
    fitted_state,
    name_of,
)
from sklearn_ebm import (
    ICA,
    RBM,
    BernoulliRBM,
    DBMClassifier,
    DBNTransformer,
    FactorAnalysis,
    GaussianRBM,
    RBMClassifier,
    SparseCoding,
)
from sklearn_ebm.likelihood import free_energy_gap, log_partition
from sklearn_ebm.samplers import Gibbs
from sklearn_ebm.units import Mixed, ReLU, Spin

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def rbm():
    return BernoulliRBM(n_components=4, n_iter=1, random_state=0)


@pytest.fixture
def model(rbm, digits):
    return rbm.fit(digits[:50])


# ---- Parameters ----

BAD_PARAMETERS = {
    "n_components": [0, -1, 2.5, 4.0, "4", None, [4], NAN],
    "learning_rate": [0, -0.1, NAN, INF, "0.1", None, [0.1], 1j],
    "batch_size": [0, -10, 2.5, "10", None, NAN],
    "n_iter": [-1, 1.5, "10", None, NAN, INF],
    "verbose": [-1, "yes", None, 1.5],
    "random_state": [-1, "seed", 1.5, [1, 2]],
    "n_gibbs_steps": [0, -1, 1.5, "1", None, (1,), (1, 2, 3), (0, 2), (1, 2.5), [1, 2]],
    "persistent": [1, 0, "yes", None],
    "n_temperatures": [0, -1, 1.5, "2", None, NAN],
    "n_chains": [0, -5, 2.5, "10", NAN],
    "momentum": [1, 1.0, 1.5, -0.1, NAN, "0.9", None],
    "weight_decay": [-1e-3, NAN, INF, "0", None],
    "nesterov": [1, 0.9, "yes", None],
    "l1_decay": [-1e-3, NAN, INF, "0", None],
    "sparsity_target": [0, 1, -0.1, 1.5, NAN, "0.1", [0.1]],
    "sparsity_cost": [-1e-3, NAN, INF, "0", None],
    "fast_learning_rate": [-1e-3, NAN, INF, "0", None],
    "max_norm": [0, -1.0, NAN, INF, "1", [1.0]],
    "centering": [1, "yes", None],
    "learning_rate_schedule": ["cosine", "Linear", "", 1, None, True],
    "average": [10, 1, "yes", None],
    "warm_start": [1, 0, "yes", None],
    "missing": [None, "", "ignore", "nan", 1, True, ["latent"]],
    "early_stopping": [1, 0, "yes", None],
    "validation_fraction": [0, 1, 0.0, 1.0, -0.1, NAN, "0.1", None],
    "n_iter_no_change": [0, -1, 2.5, "5", None, NAN, INF],
    "tol": [-1e-4, NAN, INF, "0", None],
    "monitor": ["score", "", "Pseudo_Likelihood", 1, None],
}


def test_every_parameter_has_bad_values(rbm):
    assert set(BAD_PARAMETERS) == set(rbm.get_params())


@pytest.mark.parametrize("method", ["fit", "partial_fit", "fit_transform"])
@pytest.mark.parametrize(
    "name, value",
    [(name, value) for name, values in BAD_PARAMETERS.items() for value in values],
)
def test_bad_parameter(name, value, method, rbm, digits):
    rbm.set_params(**{name: value})
    with pytest.raises((TypeError, ValueError)) as caught:
        getattr(rbm, method)(digits[:20])
    message = str(caught.value)
    assert f"'{name}'" in message
    assert repr(value) in message
    assert "BernoulliRBM" in message
    assert not hasattr(rbm, "components_")


@pytest.mark.parametrize(
    "hidden, wrong, within, allowed",
    [
        ("bernoulli", [0, 1.5, -1], 0.2, "(0.0, 1.0)"),
        ("spin", [-1, 1.5], -0.8, "(-1.0, 1.0)"),
        ("relu", [0, -0.5], 1.5, "(0.0, inf)"),
        ("poisson", [0, -0.5], 1.5, "(0.0, inf)"),
        ("gaussian", [], -3, "(-inf, inf)"),
        (Mixed(((1, Spin()), (1, ReLU()))), [-0.5, 1], 0.5, "(0.0, 1.0)"),
    ],
    ids=str,
)
def test_bad_sparsity_target_of_other_units(hidden, wrong, within, allowed, digits):
    visible = "bernoulli" if hidden == "poisson" else "spin"
    models = [RBM(2, visible=visible, hidden=hidden, n_iter=1)]
    if hidden in ("bernoulli", "spin", "relu"):
        models += [GaussianRBM(2, hidden=hidden), RBM(2, hidden=hidden)]
    for model in models:
        for target in [*wrong, NAN, INF, -INF]:
            with pytest.raises(ValueError) as caught:
                model.set_params(sparsity_target=target).fit(digits[:20])
            message = f"'sparsity_target' parameter of {type(model).__name__} must be "
            assert message + f"a float in the range {allowed}" in str(caught.value)
            assert f"Got {target!r}" in str(caught.value)
            assert not hasattr(model, "components_")
        model.set_params(sparsity_target=within, n_iter=1).fit(digits[:20])
        assert np.isfinite(model.components_).all()


@every_estimator
def test_none_is_refused_where_it_means_nothing(estimator):
    told = dict(re.findall(r"^    (\w+) : (.*)$", type(estimator).__doc__, re.M))
    X = np.eye(4)
    for name in estimator.get_params():
        if "None" in told[name]:
            continue
        bad = clone(estimator).set_params(**{name: None})
        with pytest.raises((TypeError, ValueError), match=name):
            fit(bad, X)


@every_estimator
def test_every_parameter_is_checked_and_named(estimator, digits):
    for name in estimator.get_params():
        wrong = object()
        bad = clone(estimator).set_params(**{name: wrong})
        for method in ("fit", "partial_fit", "fit_transform"):
            if not hasattr(bad, method):
                continue
            with pytest.raises((TypeError, ValueError)) as caught:
                fit(bad, digits[:20], method)
            for said in (f"'{name}'", repr(wrong), type(bad).__name__):
                assert said in str(caught.value)
            assert not fitted_state(bad)


@every_estimator
def test_bools_and_ints_that_overflow_are_no_numbers(estimator, digits):
    told = dict(re.findall(r"^    (\w+) : (.*)$", type(estimator).__doc__, re.M))
    for name in estimator.get_params():
        wrong = [10**30, -(10**30)] if re.search(r"\bint\b", told[name]) else []
        if re.search(r"\b(int|float)\b", told[name]) and name != "verbose":
            wrong += [True, False, np.True_, np.False_]
        if "tuple" in told[name] or "array-like of int" in told[name]:
            wrong += [(True, 2), (2, 10**30)]
        for value in wrong:
            bad = clone(estimator).set_params(**{name: value})
            with pytest.raises((TypeError, ValueError)) as caught:
                fit(bad, digits[:20])
            for said in (f"'{name}'", repr(value), type(bad).__name__):
                assert said in str(caught.value)
            assert not fitted_state(bad)


def test_bools_that_mean_something_are_taken(digits):
    BernoulliRBM(2, n_iter=1, verbose=False, centering=np.True_).fit(digits[:20])
    ICA(2, whiten=False, max_iter=50, tol=1.0).fit(digits[:50, 20:22])


def test_values_that_only_equal_those_that_were_taken_are_refused(digits):
    model = BernoulliRBM(1, n_iter=1, batch_size=10).fit(digits[:20])
    for value in (True, 1.0, "1"):
        model.set_params(n_components=value)
        for train in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match="'n_components' parameter"):
                train(digits[:20])
    # (Of several values, each may be another one that equals it.)
    model.set_params(n_components=1, n_gibbs_steps=(1, 2)).fit(digits[:20])
    with pytest.raises(ValueError, match="'n_gibbs_steps' parameter"):
        model.set_params(n_gibbs_steps=(True, 2)).fit(digits[:20])


def test_parameters_of_a_subclass_may_be_anything(digits):
    class Own(BernoulliRBM):
        def __init__(self, n_components=2, *, own=True, n_iter=1):
            super().__init__(n_components, n_iter=n_iter)
            self.own = own

    for own in (True, 10**30):
        assert Own(own=own).fit(digits[:20]).n_iter_ == 1


@pytest.mark.parametrize(
    "estimator",
    [each for each in BRIEF_ESTIMATORS if "output" in each.get_params()],
    ids=name_of,
)
def test_an_output_that_is_set_after_the_fit_is_checked(estimator, digits):
    model = fitted(estimator).set_params(output="Top")
    H = np.zeros((2, 3))
    calls = [
        lambda: model.transform(digits[:2]),
        lambda: model.inverse_transform(H),
        lambda: model.get_feature_names_out(),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match="output must be 'top' or 'all', got 'Top'"
        ):
            call()


@pytest.mark.parametrize(
    "estimator",
    [each for each in BRIEF_ESTIMATORS if "early_stopping" in each.get_params()],
    ids=name_of,
)
def test_one_row_is_too_few_to_hold_out_any(estimator, digits):
    model = clone(estimator).set_params(early_stopping=True)
    # (As scikit-learn wants it said.)
    with pytest.raises(
        ValueError, match="leaves nothing to train on .*n_samples=1 row"
    ):
        fit(model, digits[:1])


@pytest.mark.parametrize(
    "estimator, name",
    [
        (FactorAnalysis(2), "noise_variance_init"),
        (ICA(2), "w_init"),
        (SparseCoding(2), "dict_init"),
        (DBMClassifier(2), "objective"),
    ],
)
def test_parameters_that_cannot_be_converted_are_named(estimator, name, digits):
    for value in ([], {}, [1, "a"], np.ones(3), "nonsense"):
        with pytest.raises((TypeError, ValueError), match=name):
            fit(clone(estimator).set_params(**{name: value}), digits[:20])


def test_an_array_is_no_choice(model, digits):
    for call in (model.sample, lambda **how: model.impute(digits[:2], **how)):
        with pytest.raises(ValueError, match="method must be"):
            call(method=np.array(["mean", "gibbs"]))


def test_unknown_parameter():
    with pytest.raises(TypeError, match="n_hidden"):
        BernoulliRBM(n_hidden=4)
    with pytest.raises(ValueError, match="n_hidden"):
        BernoulliRBM().set_params(n_hidden=4)


@pytest.mark.parametrize("warm", [True, False])
def test_number_of_components_cannot_change_in_training(warm, model, digits):
    model.set_params(n_components=7, warm_start=warm)
    train = model.fit if warm else model.partial_fit
    with pytest.raises(ValueError, match=r"n_components=7 .* 4"):
        train(digits[:20])


# ---- Data ----


def _with(value):
    def change(X):
        X = X.copy()
        X[2, 3] = value
        return X

    return change


def _sparse_with(value):
    return lambda X: sp.csr_array(_with(value)(X))


def _malformed(name, entry, value):
    """CSR data of which one entry of the indices, or the indptr, is something else."""

    def change(X):
        X = sp.csr_matrix(X)
        getattr(X, name)[entry] = value
        return X

    return change


# What the data are, and what the message says of them.
BAD_DATA = {
    "NaN": (_with(NAN), "contains NaN"),
    "inf": (_with(INF), "contains infinity"),
    "-inf": (_with(-INF), "contains infinity"),
    "float32 NaN": (lambda X: _with(NAN)(X).astype(np.float32), "contains NaN"),
    "sparse NaN": (_sparse_with(NAN), "contains NaN"),
    "sparse inf": (_sparse_with(INF), "contains infinity"),
    "CSR -1": (_malformed("indices", 3, -1), r"Sparse [Xv] is malformed"),
    "CSR outside": (_malformed("indices", 3, 64), r"Sparse [Xv] is malformed"),
    "CSR far outside": (_malformed("indices", -1, 10**8), r"Sparse [Xv] is malformed"),
    "CSR falls": (_malformed("indptr", 5, 10**8), r"Sparse [Xv] is malformed"),
    "1-D": (lambda X: X[0], "Expected 2D array, got 1D array"),
    "3-D": (lambda X: X[None], r"(dim 3|3D)"),
    "scalar": (lambda X: 0.5, "Expected 2D array, got scalar"),
    "no rows": (lambda X: X[:0], r"0 sample\(s\)"),
    "sparse no rows": (lambda X: sp.csr_array(X[:0]), r"0 sample\(s\)"),
    "no columns": (lambda X: X[:, :0], r"0 feature\(s\)"),
    "complex": (lambda X: X * 1j, "Complex data not supported"),
    "sparse complex": (lambda X: sp.csr_array(X * 1j), "Complex data not supported"),
    "strings": (lambda X: np.full(X.shape, "one"), "could not convert"),
    "objects": (lambda X: np.full(X.shape, {}), r"(dict|number|float)"),
    "None": (lambda X: None, "Expected 2D array, got scalar"),
    "text": (lambda X: "data", r"(data|2D array|string)"),
    "ragged": (lambda X: [[0, 1], [0, 1, 1]], r"(inhomogeneous|sequence)"),
}
DATA_METHODS = [
    "fit",
    "partial_fit",
    "fit_transform",
    "transform",
    "score_samples",
    "score",
    "free_energy",
    "reconstruct",
    "gibbs",
]


@pytest.mark.parametrize("method", DATA_METHODS)
@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data(case, method, model, digits):
    make, message = BAD_DATA[case]
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        getattr(model, method)(make(digits[:20].copy()))
    if "contains" in message:
        assert re.search(r"Input [Xv] ", str(caught.value))


@every_estimator
@pytest.mark.parametrize("case", [case for case in BAD_DATA if "sparse" not in case])
def test_bad_data_of_every_estimator(case, estimator, digits):
    if "NaN" in case and get_tags(estimator).input_tags.allow_nan:
        return
    make, message = BAD_DATA[case]
    model = fitted(estimator)
    for method in ("fit", "partial_fit", "fit_transform", "transform", "score_samples"):
        if hasattr(model, method):
            X = make(digits[:20].copy())
            with pytest.raises((TypeError, ValueError), match=message):
                fit(model, X, method) if "fit" in method else getattr(model, method)(X)


@every_estimator
def test_text_is_refused_with_advice(estimator):
    X = np.array([["red", 1.0], ["blue", 2.0]] * 10, dtype=object)
    refused = "X holds text in column {}: .*'red'.*OrdinalEncoder"
    with pytest.raises(ValueError, match=refused.format(0)):
        fit(clone(estimator), X)
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"size": ["1", "2"] * 10, "hue": ["red", None] * 10})
    for dtype in (str, object, "string", "category"):
        with pytest.raises(ValueError, match=refused.format("'hue'")):
            fit(clone(estimator), table.astype({"hue": dtype}))


@pytest.mark.parametrize(
    "estimator", [*CLASSIFIERS, *REGRESSORS], ids=lambda model: type(model).__name__
)
def test_refused_targets_leave_a_fitted_model_as_it_was(estimator, digits):
    model = fitted(estimator)
    before = fitted_state(model)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(digits[:20, :40], np.arange(19) % 3)
    assert_same(fitted_state(model), before)


@pytest.mark.parametrize("warm_start", [False, True])
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name_of)
def test_labels_in_a_column_warn_once(estimator, warm_start, digits):
    X, y = digits[:50], (np.arange(50) % 3)[:, np.newaxis]
    model = fitted(estimator).set_params(n_iter=1, warm_start=warm_start)
    calls = [lambda: model.fit(X, y)]
    if hasattr(model, "partial_fit"):
        calls.append(lambda: model.partial_fit(X, y))
        new = clone(estimator)
        calls.append(lambda: new.partial_fit(X, y, classes=[0, 1, 2]))
    for call in calls:
        with pytest.warns(DataConversionWarning, match="A column-vector y") as caught:
            call()
        said = [each for each in caught if each.category is DataConversionWarning]
        assert len(said) == 1


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name_of)
def test_strings_among_other_labels_are_refused(estimator, digits):
    message = r"Unknown label type: {} mixes strings with other labels \(int, str\)"
    for labels in (["a", 1, "b"], [1, "a", 2]):
        y = np.array(labels, object)
        with pytest.raises(ValueError, match=message.format("y")):
            clone(estimator).fit(digits[:3], y)
        if hasattr(estimator, "partial_fit"):
            with pytest.raises(ValueError, match=message.format("classes")):
                clone(estimator).partial_fit(digits[:3], [1, 2, 1], classes=y)
    marked = clone(estimator).set_params(unlabeled=-1, n_iter=1)
    y = np.array(["a", -1, "b"] * 5, object)
    assert marked.fit(digits[:15], y).classes_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="y contains NaN"):
        clone(estimator).fit(digits[:3], [1, "a", None])


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_first_data_leave_no_model(case, rbm, digits):
    make, message = BAD_DATA[case]
    for method in ("fit", "partial_fit"):
        with pytest.raises((TypeError, ValueError), match=message):
            getattr(rbm, method)(make(digits[:20].copy()))
        with pytest.raises(NotFittedError):
            rbm.transform(digits[:20])


@every_estimator
@pytest.mark.parametrize("dtype, size", [("float32", 3e38), ("float64", 1.7e308)])
def test_data_too_large_to_sum_up_are_refused(dtype, size, estimator, digits):
    X = (digits[:50] > 0.5).astype(dtype)
    for large in (size * X, size * (2 * X - 1)):
        large *= 0.9  # others are not far from it
        with pytest.raises(ValueError, match=f"of {dtype}. Scale X"):
            fit(clone(estimator), large)


@pytest.mark.parametrize(
    "estimator",
    [
        each
        for each in BRIEF_ESTIMATORS
        if get_tags(each).input_tags.sparse  # not linear models, which scale what comes
    ],
    ids=name_of,
)
@pytest.mark.parametrize("dtype, size", [("float32", 3e37), ("float64", 1.7e308)])
def test_rows_too_large_to_sum_up_are_refused(dtype, size, estimator, digits):
    model, X = fitted(estimator), (digits[:50] > 0.5).astype(dtype)
    for name in ("transform", "free_energy", "score_samples", "predict", "objective"):
        if callable(getattr(model, name, None)):
            with pytest.raises(ValueError, match=f"{dtype}. Scale X"):
                getattr(model, name)(size * X)


@every_estimator
@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]"])
def test_times_are_not_numbers(dtype, estimator, digits):
    X = (digits[:50] > 0.5).astype(np.int64).astype(dtype)
    with pytest.raises(TypeError, match=f"X of dtype {dtype[:8]}"):
        fit(clone(estimator), X)
    model = fitted(estimator)
    with pytest.raises(TypeError, match=f"X of dtype {dtype[:8]}"):
        model.transform(X)
    if hasattr(model, "inverse_transform"):
        H = model.transform(digits[:50]).astype(np.int64).astype(dtype)
        with pytest.raises(TypeError, match=f"X of dtype {dtype[:8]}"):
            model.inverse_transform(H)


@every_estimator
def test_masks_are_not_lost(estimator, digits):
    for dtype in (float, int):
        X = np.ma.array((digits[:50] > 0.5).astype(dtype), mask=False)
        model = fit(clone(estimator), X)
        assert_same(model.transform(X), model.transform(X.data))
        X[3, 4] = np.ma.masked
        for method in (model.transform, lambda X: fit(clone(estimator), X)):
            with pytest.raises(ValueError, match="masked entries") as caught:
                method(X)
            # What is advised can be done.
            remedy = re.search(r"X(\.\S*filled\(\S*\))", str(caught.value))[1]
            assert np.isnan(eval("X" + remedy, {"X": X, "np": np})).sum() == 1


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name_of)
def test_masks_of_labels_are_not_lost(estimator, digits):
    for labels, mark in ((np.arange(15) % 3, -1), (np.array(list("abc") * 5), "?")):
        y = np.ma.array(labels, mask=False)
        marked = clone(estimator).set_params(unlabeled=mark, n_iter=1)
        assert len(marked.fit(digits[:15], y).classes_) == 3
        y[labels == labels[0]] = np.ma.masked
        with pytest.raises(ValueError, match="y has masked entries.*filled.mark."):
            marked.fit(digits[:15], y)
        # What is advised can be done.
        assert len(marked.fit(digits[:15], y.filled(mark)).classes_) == 2


@pytest.mark.parametrize("estimator", REGRESSORS)
@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]"])
def test_times_are_no_targets(dtype, estimator, digits):
    with pytest.raises(TypeError, match=f"y of dtype {dtype[:8]}"):
        clone(estimator).fit(digits[:50], np.arange(50).astype(dtype))


@pytest.mark.parametrize("method", [*DATA_METHODS[3:], "partial_fit", "fit"])
@pytest.mark.parametrize("n_columns", [1, 63, 65])
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_wrong_number_of_features(method, n_columns, container, model, digits):
    X = np.hstack([digits, digits])[:20, :n_columns]
    model.set_params(warm_start=True)
    name = "v" if method == "gibbs" else "X"
    wanted = rf"\b{name} has {n_columns} features, but BernoulliRBM is expecting 64"
    with pytest.raises(ValueError, match=wanted):
        getattr(model, method)(container(X))


@pytest.mark.parametrize(
    "model",
    [BernoulliRBM(3, n_iter=1), RBM(3, visible="spin", n_iter=1), GaussianRBM(3)],
    ids=name_of,
)
@pytest.mark.parametrize("case", BAD_DATA)
def test_what_is_wrong_is_said_of_its_argument(case, model, digits):
    make, _ = BAD_DATA[case]
    bad, model = make(digits[:20].copy()), fitted(model)
    for name, call in [
        ("v", model.gibbs),
        ("X_train", lambda rows: free_energy_gap(model, rows, digits)),
        ("X_test", lambda rows: free_energy_gap(model, digits, rows)),
        ("X_test", lambda rows: free_energy_gap(model._layered(), digits, rows)),
    ]:
        with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b") as caught:
            call(bad)
        assert not re.search(r"\bX\b", str(caught.value))


def test_names_and_values_in_errors_stay_what_they_are():
    """Also those that are spelt as the argument of other methods, or as this one."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(np.eye(2), columns=["a", "v"])
    model = BernoulliRBM(2, n_iter=1).fit(table)
    with pytest.raises(ValueError, match="(?s)^v: .*\n- X\n.*\n- v\n"):
        model.gibbs(table.rename(columns={"v": "X"}))
    for value in ("X", "v"):
        refused = f"^v holds text in column 0: .*: '{value}'[.]"
        with pytest.raises(ValueError, match=refused):
            model.gibbs([[value, 1]])


def test_no_model_is_said_of_the_rows(digits):
    with pytest.raises(NotFittedError):
        free_energy_gap(BernoulliRBM(3), digits, digits)
    with pytest.raises(TypeError, match="^This takes a Boltzmann machine"):
        free_energy_gap(None, digits, digits)
    with pytest.raises(NotFittedError):
        GaussianRBM(3).gibbs(digits)


@pytest.mark.parametrize("method", DATA_METHODS[3:])
def test_wrong_names_of_features(method, rbm, digits):
    pandas = pytest.importorskip("pandas")
    columns = [f"pixel {n}" for n in range(64)]
    frame = pandas.DataFrame(digits[:20], columns=columns)
    model = rbm.fit(frame)
    other = frame.rename(columns={"pixel 3": "something else"})
    with pytest.raises(ValueError, match="something else"):
        getattr(model, method)(other)


def test_missing_values_in_a_frame(model, digits):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(digits[:20]).convert_dtypes()
    frame.iloc[3, 4] = pandas.NA
    with pytest.raises(ValueError, match="contains NaN"):
        model.transform(frame)


# ---- Hidden states ----


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_hidden_states(case, model, digits):
    make, message = BAD_DATA[case]
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        model.inverse_transform(make(model.transform(digits[:20])))
    if "contains" in message:
        assert "Input X " in str(caught.value)


@pytest.mark.parametrize("n_columns", [1, 3, 5, 64])
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_wrong_number_of_hidden_units(n_columns, container, model):
    with pytest.raises(ValueError, match=rf"X has {n_columns} .* 4 "):
        model.inverse_transform(container(np.ones((3, n_columns))))


# ---- Arguments of sample ----


@pytest.mark.parametrize("name", ["n_samples", "n_gibbs_steps"])
@pytest.mark.parametrize("value", [-1, 2.5, 3.0, "3", True, [3], NAN, INF])
def test_bad_count(name, value, model):
    with pytest.raises((TypeError, ValueError)) as caught:
        model.sample(**{"n_samples": 2, name: value})
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)


def test_no_samples(model):
    with pytest.raises(ValueError, match=r"n_samples .*0"):
        model.sample(0)


def test_no_number_of_steps(model):
    with pytest.raises(TypeError, match=r"n_gibbs_steps .*None"):
        model.sample(2, n_gibbs_steps=None)


@pytest.mark.parametrize("value", [-1, "seed", 1.5, [1.5], 2**64])
def test_bad_seed(value, model):
    with pytest.raises((TypeError, ValueError)) as caught:
        model.sample(2, 2, random_state=value)
    assert "random_state" in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("case", [case for case in BAD_DATA if case != "None"])
def test_bad_init(case, model, digits):
    make, message = BAD_DATA[case]
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        model.sample(init=make(digits[:20].copy()), n_gibbs_steps=2)
    if "contains" in message:
        assert re.search(r"\binit\b", str(caught.value))


@pytest.mark.parametrize("n_columns", [1, 63, 65])
def test_init_with_wrong_number_of_features(n_columns, model):
    with pytest.raises(ValueError, match=rf"init has {n_columns} .* 64 "):
        model.sample(init=np.ones((3, n_columns)), n_gibbs_steps=2)


@pytest.mark.parametrize(
    "estimator",
    [
        each
        for each in BRIEF_ESTIMATORS
        if "init" in inspect.signature(getattr(each, "sample", len)).parameters
    ],
    ids=name_of,
)
def test_what_is_wrong_with_init_is_said_of_init(estimator, digits):
    model, holes = fitted(estimator), digits[:5].copy()
    holes[2, 3] = NAN
    for init in [digits[:5, :63], digits[0], holes, [["a"] * 64], {}, "one"]:
        with pytest.raises((TypeError, ValueError), match="init"):
            model.sample(init=init)


def test_init_with_wrong_number_of_rows(model, digits):
    with pytest.raises(ValueError, match=r"init has 5 rows for 3 chains"):
        model.sample(3, 2, init=digits[:5])


def test_refused_draws_leave_the_sequence_alone(rbm, digits):
    model, twin = (clone(rbm).fit(digits[:50]) for _ in range(2))
    for bad in (
        {"n_samples": 0},
        {"n_gibbs_steps": -1},
        {"init": digits[:5], "n_samples": 3},
        {"init": digits[:5, :9]},
        {"random_state": "seed"},
    ):
        with pytest.raises((TypeError, ValueError)):
            model.sample(**bad)
    np.testing.assert_array_equal(model.gibbs(digits), twin.gibbs(digits))


# ---- Use before fit ----


@pytest.mark.parametrize(
    "call",
    [
        *[lambda m, X, name=name: getattr(m, name)(X) for name in DATA_METHODS[3:]],
        lambda m, X: m.inverse_transform(X[:, :4]),
        lambda m, X: m.sample(3),
        lambda m, X: m.get_feature_names_out(),
    ],
    ids=[*DATA_METHODS[3:], "inverse_transform", "sample", "get_feature_names_out"],
)
def test_not_fitted(call, rbm, digits):
    with pytest.raises(NotFittedError, match="BernoulliRBM"):
        call(rbm, digits[:5])
    rbm.fit(digits[:50])
    call(rbm, digits[:5])
    with pytest.raises(NotFittedError, match="BernoulliRBM"):
        call(clone(rbm), digits[:5])


@pytest.mark.parametrize("name", ["components_", "h_samples_", "n_iter_", "history_"])
def test_no_attributes_before_fit(name, rbm):
    assert not hasattr(rbm, name)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_no_sample_weight(method, rbm, digits):
    with pytest.raises(TypeError, match="sample_weight"):
        getattr(rbm, method)(digits[:20], sample_weight=np.ones(20))


def test_times_in_tables_are_refused():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({name: pd.date_range("2020", periods=5) for name in "ab"})
    with pytest.raises(TypeError, match="does not hold numbers"):
        GaussianRBM(2, n_iter=1).fit(X)


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]"])
def test_times_are_no_conditions(dtype, digits):
    pd = pytest.importorskip("pandas")
    # (The first second and what is free, 0 and NaN, would do for units of any kind.)
    times = np.zeros((3, 64), np.int64).astype(dtype)
    table = pd.DataFrame(digits[:3])
    table[5] = times[:, 5]
    for model in (BernoulliRBM(3, n_iter=1), GaussianRBM(3, n_iter=1)):
        model.fit(digits[:50])
        for conditions in (times, times[0], table, pd.Series(times[0])):
            with pytest.raises(TypeError, match=f"conditions of dtype {dtype[:8]}"):
                model.sample(conditions=conditions)
        with pytest.raises(TypeError, match=f"conditions of dtype {dtype[:8]}"):
            Gibbs(model).init(conditions=times)


@pytest.mark.parametrize("function", [log_partition, Gibbs])
def test_what_is_no_machine_is_refused(function, digits):
    y = (digits[:50, 20] > 0.5).astype(int)
    classifier = RBMClassifier(3, n_iter=1).fit(digits[:50], y)
    for model in (classifier, "rbm"):
        with pytest.raises(TypeError, match="takes a Boltzmann machine"):
            function(model)
    stack = DBNTransformer((4, 3), n_iter=1).fit(digits[:50])
    with pytest.raises(TypeError, match="top_rbm"):
        function(stack)
    theirs = neural_network.BernoulliRBM(3, n_iter=1).fit(digits[:50])
    with pytest.raises(TypeError, match="got BernoulliRBM of scikit-learn"):
        function(theirs)
    with pytest.raises(TypeError, match="fitted model, got the class BernoulliRBM"):
        function(BernoulliRBM)


def test_messages_name_units_and_not_their_numbers(digits):
    model = GaussianRBM(3, n_iter=1, random_state=0).fit(digits[:50, 10:20])
    with pytest.raises(ValueError, match="with bernoulli, gaussian units"):
        model.sample(2, method="tempering")
