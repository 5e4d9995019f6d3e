"""What every public estimator promises, whatever the model and the data.

scikit-learn's checks, fitted state and its copies, dtypes, names, seeds,
verbosity, searches. The kinds of input are in test_inputs.py, threads in
test_threads.py, Ctrl-C in test_interrupts.py, callbacks in test_callbacks.py,
wrong arguments in test_bad_inputs.py.
"""

import copy
import inspect
import pickle
import re

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import sklearn_ebm
from common import (
    BRIEF_ESTIMATORS,
    PUBLIC_ESTIMATORS,
    assert_same,
    assert_same_model,
    brief,
    draws,
    every_bernoulli_rbm,
    every_estimator,
    few_samples,
    fit,
    fitted,
    fitted_floats,
    fitted_state,
    go_on,
    labels_for,
    name_of,
    outputs,
    run_on_threads,
)
from sklearn_ebm import BernoulliRBM, RBMImputer

# Those whose transform gives latent variables.
every_latent = pytest.mark.parametrize(
    "estimator",
    [each for each in BRIEF_ESTIMATORS if not isinstance(each, RBMImputer)],
    ids=name_of,
)

# ---- scikit-learn's own checks ----


# Those that want something to have been learned.
LEARNING = {
    "check_classifiers_train",
    "check_regressors_train",
    "check_class_weight_classifiers",
}


@parametrize_with_checks(PUBLIC_ESTIMATORS)
def test_sklearn_checks(estimator, check):
    learning = check.func.__name__ in LEARNING
    check(estimator if learning else brief(estimator))


def test_every_public_estimator_is_listed():
    public = {
        name
        for name in sklearn_ebm.__all__
        if inspect.isclass(getattr(sklearn_ebm, name))
    }
    assert public == {type(estimator).__name__ for estimator in PUBLIC_ESTIMATORS}


@every_estimator
def test_init_only_assigns_and_hides_no_parameter(estimator):
    signature = inspect.signature(type(estimator).__init__)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    assert set(vars(clone(estimator))) == set(estimator.get_params())


# ---- Refused data ----


@every_estimator
def test_refused_data_leave_the_model_as_it_was(estimator):
    wide = np.full((20, 99), 0.5)
    wide[-1, -1] = np.inf
    for model in (clone(estimator), fitted(estimator)):
        wanted = fitted_state(model)
        with pytest.raises(ValueError):
            fit(model, wide)
        assert_same(fitted_state(model), wanted)


# What some models refuse, after they have counted the features and the classes.
UNVARIED = {
    "constant": np.full((20, 99), 0.5),
    "with variances that are 0 in float32": np.float32(1e-23)
    * np.random.default_rng(0).random((20, 99), np.float32),
}


# By these, with any parameters.
REFUSED_BY = {
    "constant": ["ICA", "SlowFeatureAnalysis"],
    "with variances that are 0 in float32": ["GaussianRBM", "RBMImputer"],
}


@every_estimator
@pytest.mark.parametrize("kind", UNVARIED)
def test_data_refused_late_leave_the_model_as_it_was(estimator, kind):
    for model in (clone(estimator), fitted(estimator)):
        wanted = fitted_state(model)
        try:
            fit(model, UNVARIED[kind])
        except ValueError:
            assert_same(fitted_state(model), wanted)
        else:
            assert type(model).__name__ not in REFUSED_BY[kind]


# ---- Copies ----

COPIES = {
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
    "joblib": lambda model, folder: joblib.load(
        joblib.dump(model, folder / "model.joblib")[0]
    ),
    "joblib memory-mapped": lambda model, folder: joblib.load(
        joblib.dump(model, folder / "model.joblib")[0], mmap_mode="r"
    ),
}


@every_estimator
def test_copy_is_the_same_model(estimator, digits, tmp_path):
    model = fit(clone(estimator), digits[:100])
    wanted = outputs(model, digits[:150])
    for how, copied in COPIES.items():
        twin = copied(model, tmp_path)
        np.testing.assert_equal(twin.get_params(), model.get_params(), how)
        assert_same(outputs(twin, digits[:150]), wanted, how)


@every_estimator
def test_copy_goes_on_like_the_original(estimator, digits, tmp_path):
    model = fit(clone(estimator), digits[:100])
    twins = {how: copied(model, tmp_path) for how, copied in COPIES.items()}
    wanted = fitted_state(go_on(model, digits[50:150])), draws(model, digits[:300])
    for how, twin in twins.items():
        found = fitted_state(go_on(twin, digits[50:150])), draws(twin, digits[:300])
        assert_same(found, wanted, how)


def test_pickles_reach_another_process(digits, tmp_path):
    # All at once, in one that other tests use: a process takes a second to start.
    models = [fitted(estimator) for estimator in BRIEF_ESTIMATORS]
    X = digits[:150]
    joblib.dump((models, X), tmp_path / "models.joblib")
    code = (
        "import joblib, sys, common;"
        f"models, X = joblib.load({str(tmp_path / 'models.joblib')!r});"
        "print(*(joblib.hash(common.outputs(model, X)) for model in models))"
    )
    wanted = [joblib.hash(outputs(model, X)) for model in models]
    assert run_on_threads([1], code)[0].split() == wanted


@every_estimator
def test_a_copy_shares_nothing_with_the_original(estimator, digits):
    model = fit(clone(estimator), digits[:100])
    before = pickle.loads(pickle.dumps(model))
    twin = copy.deepcopy(model)
    go_on(twin, digits[:50])
    draws(twin, digits[:5])
    assert_same_model(model, before)


@every_estimator
def test_clone_forgets_the_fit(estimator, digits):
    model = fitted(estimator)
    twin = clone(model)
    assert not fitted_state(twin)
    assert_same_model(fit(twin, digits[:100]), model)


@every_estimator
def test_fitted_state_is_arrays_and_plain_values(estimator, digits):
    def check(value, where):
        if isinstance(value, dict):
            for key, item in value.items():
                assert isinstance(key, str), where
                check(item, f"{where}[{key!r}]")
        elif isinstance(value, (list, tuple)):
            for n, item in enumerate(value):
                check(item, f"{where}[{n}]")
        elif isinstance(value, BaseEstimator):
            check(vars(value), f"{where}.{type(value).__name__}")
        elif isinstance(value, np.ndarray):
            assert value.dtype.kind in "biuf", where
        else:
            assert value is None or type(value) in (bool, int, float, str, slice), where

    model = go_on(fitted(estimator), digits[:30])
    draws(model, digits[:5])
    check(vars(model), type(model).__name__)


@every_latent
def test_damaged_components_are_refused(estimator):
    model = fitted(estimator)
    name = "coefs_" if hasattr(model, "coefs_") else "components_"
    weights = getattr(model, name)
    if isinstance(weights, list):
        damaged = [weights[0][:, :-1], *weights[1:]]
    else:
        damaged = weights[:, :-1]
    setattr(model, name, damaged)
    with pytest.raises(ValueError, match=f"restored {type(model).__name__} is damaged"):
        pickle.loads(pickle.dumps(model))


@every_bernoulli_rbm
@pytest.mark.parametrize(
    "name", ["components_", "intercept_hidden_", "intercept_visible_"]
)
def test_damaged_pickle_is_refused(estimator, name):
    model = fitted(estimator)
    setattr(model, name, getattr(model, name)[:-1])
    with pytest.raises(ValueError, match=r"intercept|components"):
        pickle.loads(pickle.dumps(model))


# ---- Types of data ----


@every_estimator
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_dtype_is_kept(estimator, dtype, digits):
    X = digits[:100].astype(dtype)
    model = go_on(fit(clone(estimator), X), X[:50])
    floats = fitted_floats(getattr(model, "rbm_", model))
    assert {"components_", "coefs_"} & set(floats)
    assert {name: array.dtype for name, array in floats.items()} == dict.fromkeys(
        floats, dtype
    )
    H = model.transform(X)
    assert H.dtype == dtype
    # Nothing larger than itself is kept with it.
    assert H.base is None or H.base.nbytes == H.nbytes
    if hasattr(model, "inverse_transform"):
        assert model.inverse_transform(H).dtype == dtype
    if hasattr(model, "reconstruct"):
        assert model.reconstruct(X).dtype == dtype
    if hasattr(model, "sample"):
        assert few_samples(model).dtype == dtype
    for other in (np.float32, np.float64):
        assert model.transform(X.astype(other)).dtype == other
        if hasattr(model, "inverse_transform"):
            assert model.inverse_transform(H.astype(other)).dtype == other


@every_estimator
def test_bits_become_the_same_dtype_up_and_down(estimator, binary_digits):
    model = fit(clone(estimator), binary_digits[:100])
    H = model.transform(binary_digits[:100])
    if hasattr(model, "inverse_transform"):
        for dtype in (np.bool_, np.uint8):
            assert model.inverse_transform((H > 0.5).astype(dtype)).dtype == H.dtype


@every_bernoulli_rbm
@pytest.mark.parametrize("model_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("data_dtype", [np.float32, np.float64, np.bool_, np.uint8])
def test_partial_fit_keeps_the_dtype_of_the_model(
    estimator, model_dtype, data_dtype, binary_digits
):
    model = clone(estimator).partial_fit(binary_digits[:50].astype(model_dtype))
    model.partial_fit(binary_digits[50:100].astype(data_dtype))
    for name in ["components_", "intercept_hidden_", "intercept_visible_"]:
        assert getattr(model, name).dtype == model_dtype, name


@every_bernoulli_rbm
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
def test_bits_give_the_model_of_float32(estimator, dtype, binary_digits):
    X = binary_digits[:150].astype(dtype)
    floats = binary_digits[:150].astype(np.float32)
    model, wanted = fit(clone(estimator), X), fit(clone(estimator), floats)
    assert model.transform(X).dtype == np.float32
    assert_same_model(model, wanted)
    assert_same(outputs(model, X), outputs(wanted, floats))
    assert_same_model(model.partial_fit(X[:35]), wanted.partial_fit(floats[:35]))
    assert_same(model.gibbs(X), wanted.gibbs(floats))


@every_estimator
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
def test_likelihoods_of_bits_are_those_of_the_dtype_of_the_model(
    estimator, dtype, binary_digits
):
    floats = binary_digits[:100].astype(np.float64)
    X, model = floats.astype(dtype), fit(clone(estimator), floats)
    for name in ("free_energy", "score_samples"):
        if hasattr(model, name):
            assert_same(getattr(model, name)(X), getattr(model, name)(floats), name)


@pytest.mark.thinned(3)
@every_estimator
def test_other_numbers_are_taken_as_float64(estimator, binary_digits):
    floats = binary_digits[:100].astype(np.float64)
    wanted = fit(clone(estimator), floats)
    wanted_outputs = outputs(wanted, floats)
    for dtype in (np.int64, np.int8, np.float16, object):
        X = floats.astype(dtype)
        model = fit(clone(estimator), X)
        assert_same_model(model, wanted)
        assert_same(outputs(model, X), wanted_outputs, str(dtype))


# ---- Names ----


@every_estimator
def test_names_of_features(estimator, digits):
    pandas = pytest.importorskip("pandas")
    columns = [f"pixel {n}" for n in range(64)]
    frame = pandas.DataFrame(digits[:75], columns=columns)
    model = fit(clone(estimator), frame)
    assert list(model.feature_names_in_) == columns
    assert model.n_features_in_ == 64
    assert_same(outputs(model, frame), outputs(model, frame.to_numpy()))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[columns[::-1]])
    # (In the order in memory of the frame, on which the rounding of BLAS depends.)
    plain = fit(clone(estimator), frame.to_numpy())
    assert not hasattr(plain, "feature_names_in_")
    model.__dict__.pop("feature_names_in_")
    assert_same_model(model, plain)


@every_latent
def test_names_out_and_set_output(estimator, digits):
    pandas = pytest.importorskip("pandas")
    model = fit(clone(estimator), digits[:75])
    names = model.get_feature_names_out()
    width = model.transform(digits[:3]).shape[1]
    prefix = type(model).__name__.lower()
    assert list(names) == [f"{prefix}{n}" for n in range(width)]
    index = pandas.Index(range(100, 175))
    frame = pandas.DataFrame(digits[:75], index=index)
    # (In the order in memory of the frame, on which the rounding of BLAS depends.)
    wanted = model.transform(frame.to_numpy())
    found = model.set_output(transform="pandas").transform(frame)
    assert list(found.columns) == list(names)
    assert found.index.equals(index)
    assert_same(found.to_numpy(), wanted)
    again = fit(clone(model), digits[:75], "fit_transform")
    assert list(again.columns) == list(names)
    np.testing.assert_allclose(again.to_numpy(), wanted, rtol=1e-10, atol=1e-10)


@every_bernoulli_rbm
def test_set_output_leaves_the_visible_space_alone(estimator, digits):
    pytest.importorskip("pandas")
    model = fit(clone(estimator), digits[:75]).set_output(transform="pandas")
    wanted = model.transform(digits[:75]).to_numpy()
    assert_same(clone(model).fit_transform(digits[:75]).to_numpy(), wanted)
    np.testing.assert_allclose(
        model.reconstruct(digits[:75]), model.inverse_transform(wanted), rtol=1e-12
    )


# ---- Seeds ----


@every_estimator
def test_same_seed_same_model(estimator, digits):
    first = clone(estimator)
    if "random_state" in first.get_params():
        first.set_params(random_state=3)
    fit(first, digits[:100])
    again = fit(clone(first), digits[:100])
    assert_same_model(again, first)
    assert_same_model(fit(first, digits[:100]), again)


@every_bernoulli_rbm
def test_other_seed_other_model(estimator, digits):
    first = clone(estimator).set_params(random_state=3).fit(digits[:100])
    other = clone(estimator).set_params(random_state=4).fit(digits[:100])
    assert not np.array_equal(other.components_, first.components_)


@every_bernoulli_rbm
def test_random_state_instance_goes_on(estimator, digits):
    rng = np.random.RandomState(0)
    model = clone(estimator).set_params(random_state=rng)
    first = model.fit(digits[:100]).components_
    second = model.fit(digits[:100]).components_
    assert not np.array_equal(first, second)
    model.set_params(random_state=np.random.RandomState(0))
    np.testing.assert_array_equal(model.fit(digits[:100]).components_, first)


@every_estimator
def test_global_generator_is_left_alone(estimator, digits):
    before = joblib.hash(np.random.get_state())
    model = go_on(fit(clone(estimator), digits[:100]), digits[:100])
    draws(model, digits[:10])
    if hasattr(model, "sample"):
        few_samples(model, random_state=0)
    assert joblib.hash(np.random.get_state()) == before


# ---- Verbosity ----


@every_estimator
def test_quiet_unless_asked_otherwise(estimator, digits, capsys):
    draws(go_on(fit(clone(estimator), digits[:250]), digits[:100]), digits[:10])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "estimator",
    [each for each in BRIEF_ESTIMATORS if "verbose" in each.get_params()],
    ids=name_of,
)
def test_verbose_prints_a_line_an_iteration(estimator, digits, capsys):
    quiet = fit(clone(estimator), digits[:250])
    model = fit(clone(estimator).set_params(verbose=1), digits[:250])
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    # A line an epoch of every layer's pretraining, too.
    first = 0
    if hasattr(model, "dbm_variance_"):
        first = model.pretrain_n_iter
        first += model.pretrain_greedy_n_iter * len(model.components_)
    elif hasattr(model, "pretrain_n_iter") and not hasattr(model, "coefs_"):
        if getattr(model, "objective", None) != "multi_prediction":
            first = model.pretrain_n_iter * len(model.components_)
    elif getattr(model, "pretrain", False) and hasattr(model, "coefs_"):
        first = model.pretrain_n_iter * (model.n_layers_ - 2)
    assert len(lines) == first + model.n_iter_
    trained = type(model).__name__
    assert all(re.match(rf"\[{trained}.*\] Iteration \d+, ", line) for line in lines)
    assert printed.err == ""
    assert_same(fitted_floats(model), fitted_floats(quiet))
    assert_same(outputs(model, digits[:150]), outputs(quiet, digits[:150]))


@every_bernoulli_rbm
def test_verbose_adds_to_the_history_only(estimator, digits):
    quiet = fit(clone(estimator), digits[:600])
    model = clone(estimator).set_params(verbose=1).fit(digits[:600])
    assert model.n_iter_ == model.n_iter
    for name in set(model.history_) - set(quiet.history_):
        assert len(model.history_.pop(name)) == model.n_iter
    assert "pseudo_likelihood" not in model.history_
    assert_same_model(model, quiet)


@every_bernoulli_rbm
def test_history_has_an_entry_an_epoch(estimator, digits):
    model = clone(estimator).set_params(n_iter=4, verbose=1).fit(digits[:100])
    assert model.n_iter_ == 4
    assert all(len(entries) == 4 for entries in model.history_.values())
    assert all(np.isfinite(entries).all() for entries in model.history_.values())
    model.fit(digits[:100])
    assert model.n_iter_ == 4
    assert all(len(entries) == 4 for entries in model.history_.values())


# ---- Searches and pipelines ----


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search_over_a_pipeline(n_jobs, digits, labels):
    pipeline = Pipeline(
        [
            ("scale", MinMaxScaler()),
            ("rbm", BernoulliRBM(random_state=0)),
            ("classify", LogisticRegression(C=10, max_iter=300)),
        ]
    )
    grid = {"rbm__n_components": [2, 40], "rbm__learning_rate": [0.05]}
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=n_jobs, error_score="raise")
    search.fit(16 * digits[:600], labels[:600])
    assert search.best_params_["rbm__n_components"] == 40
    assert search.best_score_ > 0.5
    assert search.predict(16 * digits[:5]).shape == (5,)


@pytest.mark.parametrize(
    "estimator",
    [each for each in BRIEF_ESTIMATORS if hasattr(each, "score")],
    ids=name_of,
)
def test_grid_search_needs_no_scorer(estimator, digits):
    grid = {"n_components": [1, 8]}
    if "hidden_layer_sizes" in estimator.get_params():
        grid = {"hidden_layer_sizes": [(1, 1), (8, 3)]}
    elif "n_joint" in estimator.get_params():
        grid = {"n_joint": [1, 8]}
    estimator = clone(estimator)
    if "n_iter" in estimator.get_params():
        estimator.set_params(n_iter=2)
    search = GridSearchCV(estimator, grid, cv=2, error_score="raise")
    # So few columns that every normaliser is exact and costs nothing.
    X = digits[:150, 18:29]
    fit(search, X)
    y = labels_for(search, X)
    assert search.score(X, *y) == search.best_estimator_.score(X, *y)


@every_bernoulli_rbm
def test_grid_search_finds_the_number_of_components(estimator, digits):
    grid = {"n_components": [1, 16]}
    estimator = clone(estimator).set_params(n_iter=10)
    search = GridSearchCV(estimator, grid, cv=2, error_score="raise")
    assert search.fit(digits[:600]).best_params_ == {"n_components": 16}


# ---- Promises about what is refused ----


@every_estimator
def test_fit_takes_no_sample_weight_and_says_so(estimator, digits):
    assert "no `sample_weight`" in " ".join(type(estimator).__doc__.split())
    X = digits[:50]
    with pytest.raises(TypeError, match="sample_weight"):
        clone(estimator).fit(X, *labels_for(estimator, X), sample_weight=np.ones(50))


@pytest.mark.parametrize(
    "estimator, method",
    [
        pytest.param(each, method, id=f"{name_of(each)}-{method}")
        for each in BRIEF_ESTIMATORS
        for method in ("fit", "partial_fit")
        if hasattr(each, method)
    ],
)
@pytest.mark.parametrize("bad", ["not finite", "shape"])
def test_refused_data_leave_the_model_alone(estimator, method, bad, digits):
    model = fitted(estimator)
    warm = "warm_start" in model.get_params()
    if warm:
        model.set_params(warm_start=True)
    before = copy.deepcopy(model)
    X = digits[:20].copy()
    X[3, 4] = np.inf if get_tags(estimator).input_tags.allow_nan else np.nan
    if bad == "shape":
        # A fit that begins anew takes any number of features, but not one dimension.
        X = X[:3, :5] if warm or method == "partial_fit" else X[0]
    with pytest.raises(ValueError):
        fit(model, X, method)
    assert_same_model(model, before)
    assert_same(outputs(model, digits[:20]), outputs(before, digits[:20]))
