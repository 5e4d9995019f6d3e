"""Estimators, data and comparisons that the tests share.

PUBLIC_ESTIMATORS is the place where a new estimator is added. Fixtures are in
conftest.py, plain loops to compare the kernels with in reference.py.
"""

import contextlib
import copy
import inspect
import io
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from functools import cache
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.datasets import load_digits

from sklearn_ebm import (
    ICA,
    RBM,
    BernoulliRBM,
    DBMClassifier,
    DBMTransformer,
    DBNClassifier,
    DBNRegressor,
    DBNTransformer,
    FactorAnalysis,
    GaussianRBM,
    MultimodalDBM,
    ProbabilisticPCA,
    RBMClassifier,
    RBMImputer,
    SlowFeatureAnalysis,
    SparseCoding,
)
from sklearn_ebm._training import KnownDivision

BERNOULLI_RBMS = [
    BernoulliRBM(n_components=4, n_iter=3, random_state=0),
    BernoulliRBM(
        n_components=4,
        n_iter=3,
        persistent=False,
        momentum=0.5,
        weight_decay=1e-3,
        centering=False,
        learning_rate_schedule="linear",
        average=False,
        random_state=0,
    ),
    BernoulliRBM(n_components=4, n_iter=3, missing="latent", random_state=0),
    BernoulliRBM(n_components=4, n_iter=3, n_temperatures=3, random_state=0),
]
# What an RBMClassifier has learned.
CLASSIFIER_PARAMETERS = [
    "components_",
    "label_components_",
    "intercept_hidden_",
    "intercept_visible_",
    "intercept_label_",
]
CLASSIFIERS = [
    RBMClassifier(n_components=8, n_iter=5, learning_rate=0.5, random_state=0),
    RBMClassifier(
        n_components=8,
        n_iter=10,
        learning_rate=0.3,
        objective="hybrid",
        persistent=True,
        momentum=0.5,
        weight_decay=1e-3,
        random_state=0,
    ),
    DBNClassifier(
        (8, 6),
        learning_rate=0.02,
        n_iter=30,
        batch_size=10,
        pretrain_n_iter=2,
        random_state=0,
    ),
    DBNClassifier(
        (8,),
        solver="adam",
        learning_rate=0.01,
        dropout=0.1,
        max_norm=4.0,
        n_iter=30,
        pretrain_n_iter=2,
        random_state=0,
    ),
    DBMClassifier(
        (8, 6),
        learning_rate=0.05,
        batch_size=10,
        n_iter=20,
        pretrain_n_iter=3,
        random_state=0,
    ),
    DBMClassifier(
        (6, 4, 3),
        visible="gaussian",
        solver="adam",
        learning_rate=0.02,
        n_iter=40,
        pretrain_n_iter=2,
        pretrain_greedy_n_iter=1,
        random_state=0,
    ),
    DBMClassifier(
        (6, 4),
        objective="multi_prediction",
        n_mean_field_steps=3,
        learning_rate=0.2,
        batch_size=20,
        n_iter=8,
        random_state=0,
    ),
    DBNClassifier(8, solver="lbfgs", pretrain=False, n_iter=40, random_state=0),
    DBNClassifier(
        (30, 30),
        objective="generative",
        learning_rate=0.5,
        batch_size=10,
        n_iter=30,
        pretrain_n_iter=20,
        random_state=0,
    ),
]
REGRESSORS = [
    DBNRegressor(
        (8, 6),
        visible="gaussian",
        learning_rate=0.03,
        batch_size=10,
        n_iter=20,
        pretrain_n_iter=2,
        random_state=0,
    ),
]
# Their transform gives features back, filled in.
IMPUTERS = [
    RBMImputer(4, n_iter=3, random_state=0),
    RBMImputer(20, sample_posterior=True, add_indicator=True, n_iter=3, random_state=0),
]
# A new estimator joins by being added here: all that is promised of every
# estimator is then tested of it, as far as it has the methods.
PUBLIC_ESTIMATORS = [
    *BERNOULLI_RBMS,
    RBM(4, n_iter=3, random_state=0),
    RBM(4, visible="spin", hidden="gaussian", n_iter=3, random_state=0),
    RBM(4, visible="gaussian", missing="latent", n_iter=3, random_state=0),
    GaussianRBM(4, n_iter=3, random_state=0),
    DBMTransformer((4, 3), n_iter=3, random_state=0),
    DBMTransformer(
        (4, 3, 2),
        visible="gaussian",
        n_iter=2,
        pretrain_n_iter=1,
        momentum=0.5,
        centering=False,
        output="all",
        random_state=0,
    ),
    DBNTransformer((6, 4), n_iter=2, random_state=0),
    DBNTransformer((6, 5, 4), n_iter=1, output="all", up_down_n_iter=2, random_state=0),
    MultimodalDBM(
        [
            ("first", slice(0, 1), "gaussian", (3, 2)),
            ("others", slice(1, None), "bernoulli", (4, 2)),
        ],
        n_joint=3,
        n_iter=3,
        pretrain_n_iter=1,
        random_state=0,
    ),
    FactorAnalysis(n_components=4),
    FactorAnalysis(n_components=4, max_iter=20, rotation="promax", missing="latent"),
    ProbabilisticPCA(n_components=4, random_state=0),
    ProbabilisticPCA(n_components=4, missing="latent", random_state=0),
    ICA(n_components=4, max_iter=30, random_state=0),
    ICA(4, objective="score_matching", density="student", tol=0.1, random_state=0),
    SlowFeatureAnalysis(n_components=4),
    SparseCoding(n_components=4, max_iter=3, random_state=0),
    SparseCoding(n_components=4, max_iter=3, batch_size=None, random_state=0),
    SparseCoding(n_components=4, max_iter=3, algorithm="omp", random_state=0),
    *CLASSIFIERS,
    *REGRESSORS,
    *IMPUTERS,
]
# Large enough for several threads; batches below and above 128 rows, and all that moves
# weights besides their gradient.
LARGE_ESTIMATORS = [
    BernoulliRBM(
        n_components=300,
        batch_size=batch_size,
        persistent=persistent,
        momentum=0.5,
        n_iter=1,
        random_state=0,
    )
    for batch_size in (64, 200)
    for persistent in (True, False)
] + [
    BernoulliRBM(
        n_components=300,
        batch_size=64,
        momentum=0.5,
        nesterov=True,
        weight_decay=0.01,
        l1_decay=0.001,
        max_norm=2.0,
        fast_learning_rate=0.05,
        n_iter=1,
        random_state=0,
    )
]
# Methods that neither draw nor change anything.
READ_ONLY = [
    "transform",
    "score_samples",
    "free_energy",
    "reconstruct",
    "objective",
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
]


def name_of(estimator):
    """Class and first unusual choice, to tell parametrised tests apart."""
    kind = "" if getattr(estimator, "persistent", True) else "-CD"
    kind += "-tempered" if getattr(estimator, "n_temperatures", 1) > 1 else ""
    kind += "-latent" if getattr(estimator, "missing", "raise") == "latent" else ""
    return f"{type(estimator).__name__}{kind}"


def brief(estimator):
    """Return the same, trained for no more epochs than it takes to do all it does."""
    params = estimator.get_params(deep=False)
    few = {
        name: 2 if n is None else min(n, 2)
        for name, n in params.items()
        if name.endswith("n_iter")
    }
    return clone(estimator).set_params(**few)


# Where what has been learned does not matter.
BRIEF_ESTIMATORS = [brief(estimator) for estimator in PUBLIC_ESTIMATORS]


def variants(estimators):
    """Return all but the first of every class."""
    seen = set()
    return [each for each in estimators if type(each) in seen or seen.add(type(each))]


# (By identity, as they are among the parameters of a test.)
VARIANTS = {
    id(each)
    for some in (PUBLIC_ESTIMATORS, BRIEF_ESTIMATORS)
    for each in variants(some)
}

every_estimator = pytest.mark.parametrize("estimator", BRIEF_ESTIMATORS, ids=name_of)
every_bernoulli_rbm = pytest.mark.parametrize("estimator", BERNOULLI_RBMS, ids=name_of)


# ---- What every estimator can do ----


def labels_for(model, X):
    """What `fit` takes besides X: targets of a classifier or regressor, of any kind."""
    if not (is_classifier(model) or is_regressor(model)):
        return ()
    n_rows = X.shape[0] if getattr(X, "shape", ()) else np.size(X)
    return (np.arange(n_rows) % 3,)


def fit(model, X, method="fit"):
    """Fit an estimator to X by one of its methods, and to labels if it needs them."""
    return getattr(model, method)(X, *labels_for(model, X))


@cache
def fitted_once(estimator):
    """The model of the first 100 digits, which is to be left alone."""
    return fit(clone(estimator), load_digits().data[:100] / 16)


def fitted(estimator):
    """The model of the first 100 digits, as a copy of one that is fitted only once.

    What copies promise is tested in test_contract.py.
    """
    return copy.deepcopy(fitted_once(estimator))


# ---- What is compared ----


def fitted_state(model):
    """All that `fit` left in the model, but for the time it took."""

    def timeless(value):
        if isinstance(value, dict):
            return {k: timeless(v) for k, v in value.items() if k != "seconds"}
        if isinstance(value, BaseEstimator):
            return {type(value).__name__: fitted_state(value)}
        return value

    # log Z is found when it is first asked for; it is no part of the fit. Nor is what
    # parameters were.
    own = {*model.get_params(), "_normaliser", "_made"}
    return {
        key: timeless(value)
        for key, value in sorted(vars(model).items())
        if key not in own and not key.startswith(("_skl", "_sklearn"))
    }


def fitted_floats(model):
    """The arrays of floats that `fit` left for users to see, by name."""
    # Deep models have lists of arrays: only the first goes by its name alone.
    return {
        f"{name}[{number}]" if number else name: array
        for name, value in fitted_state(model).items()
        for number, array in enumerate(value if isinstance(value, list) else [value])
        if name.endswith("_") and getattr(array, "dtype", np.dtype(int)).kind == "f"
    }


def outputs(model, X):
    """What all read-only methods say about X, by method."""
    # (`objective` is a parameter of some.)
    return {
        m: getattr(model, m)(X) for m in READ_ONLY if callable(getattr(model, m, 0))
    }


def draws(model, X):
    """What all methods say that draw from the model's own sequence."""
    found = {"gibbs": model.gibbs(X)} if hasattr(model, "gibbs") else {}
    return found | ({"sample": few_samples(model)} if hasattr(model, "sample") else {})


def few_samples(model, **options):
    """Five samples, of chains no longer than it takes to draw all that they draw."""
    if "n_gibbs_steps" in inspect.signature(model.sample).parameters:
        options["n_gibbs_steps"] = 10
    return model.sample(5, **options)


def go_on(model, X):
    """Train a fitted model further, if it can be."""
    if "warm_start" in model.get_params():
        fit(model.set_params(warm_start=True), X)
    return fit(model, X[:50], "partial_fit") if hasattr(model, "partial_fit") else model


def assert_agree(found, wanted):
    """The same outputs of a model, to rounding where BLAS computed them."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype, name
        rtol = 1e-10 if array.dtype == np.float64 else 1e-5
        atol = rtol * np.abs(array).max(initial=0)
        np.testing.assert_allclose(found[name], array, rtol, atol, err_msg=name)


def assert_same(found, wanted, where=""):
    """The same values of the same types, bit for bit, at any depth."""
    if isinstance(wanted, np.ndarray):
        assert isinstance(found, np.ndarray), where
        assert found.dtype == wanted.dtype, where
        assert found.shape == wanted.shape, where
        if wanted.dtype == object:
            assert found.tolist() == wanted.tolist(), where
        else:
            same = found.tobytes() == wanted.tobytes()
            assert same, f"{where}: {np.count_nonzero(found != wanted)} values differ"
        return
    assert type(found) is type(wanted), where
    if isinstance(wanted, dict):
        assert list(found) == list(wanted), where
        for key in wanted:
            assert_same(found[key], wanted[key], f"{where}[{key!r}]")
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted), where
        for n, (a, b) in enumerate(zip(found, wanted)):
            assert_same(a, b, f"{where}[{n}]")
    else:
        assert found == wanted, where


def assert_same_model(found, wanted):
    """The same fitted state, bit for bit."""
    assert_same(fitted_state(found), fitted_state(wanted))


# ---- Other processes ----


@contextlib.contextmanager
def traced_memory():
    """What is taken of memory in a block: at its end, the most at once as `peak`."""
    memory = SimpleNamespace()
    tracemalloc.start()
    try:
        yield memory
        memory.peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def output_of(code):
    """What Python code prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})
    return printed.getvalue()


def outputs_of(processes, code):
    """What each of the processes prints, all at work at once."""
    started = [process.apply_async(output_of, (code,)) for process in processes]
    return [result.get(timeout=120) for result in started]


@cache
def interpreter(**environment):
    """Another process that sees what this one sees, but for its environment.

    It stays for all that is to be run in this environment, for its imports take
    longer than most of that.
    """
    before = dict(os.environ)
    # More threads than cores should not spin for one another.
    os.environ.update(environment, OMP_WAIT_POLICY="passive")
    try:
        # (A daemon: one that hangs is killed at the end.)
        return multiprocessing.get_context("spawn").Pool(1)
    finally:
        os.environ.clear()
        os.environ.update(before)


def on_threads(n):
    return interpreter(OMP_NUM_THREADS=str(n))


def on_instruction_set(name):
    return interpreter(SKLEARN_EBM_ISA=name, OMP_NUM_THREADS="3")


def run_on_threads(numbers, code):
    """Outputs of code where the environment asks for these numbers of threads."""
    return outputs_of([on_threads(n) for n in numbers], code)


def run_on_instruction_sets(names, code):
    """Outputs of code with the kernels of these instruction sets, on some threads."""
    return outputs_of([on_instruction_set(name) for name in names], code)


def start_interpreters():
    """Start those that a whole run needs, which import this module meanwhile."""
    processes = [on_threads(n) for n in (1, 2, 3, 7)]
    processes += [on_instruction_set(name) for name in ("base", "avx2", "avx512")]
    for process in processes:
        process.apply_async(output_of, ("",))


def run_python(code, **environment):
    """Output of an interpreter that has done nothing else."""
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        cwd=os.path.dirname(__file__),  # not where a source tree may lie
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- Interrupts ----


def interrupted_after(train, seconds=0.3):
    """Interrupt a call that would last; how long it took to be heard.

    What other processes took of that counts a tenth.
    """
    sent, heard = [], threading.Event()

    def interrupt():
        # (And again: one that comes while garbage is collected can be lost in a
        # destructor, to which Python does not listen.)
        while not heard.wait(10 if sent else seconds):
            sent.append((time.perf_counter(), time.process_time()))
            signal.raise_signal(signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    # A shell that runs the tests in the background lets them ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            sender.start()
            train()
    finally:
        heard.set()
        sender.join()
        signal.signal(signal.SIGINT, before)
    waited = time.perf_counter() - sent[0][0]
    return min(waited, time.process_time() - sent[0][1] + waited / 10)


def soon_interrupted(make, train, seconds=0.15, begun=lambda model: True):
    """A model of `make()` whose training heard an interrupt within half a second.

    Has five tries, each interrupted later: on a busy machine something else may hold
    one of them up, or it may not have `begun`.
    """
    delays = []
    for wait in seconds * 2.0 ** np.arange(5):
        model = make()
        delays.append(interrupted_after(lambda model=model: train(model), wait))
        if delays[-1] < 0.5 and begun(model):
            return model
    raise AssertionError(f"no interrupt was heard soon, with a model: {delays} s")


# ---- Large fits ----


def large_data():
    """300 rows of 784 features, by dtype and kind of values."""
    rng = np.random.default_rng(0)
    binary = rng.random((300, 784)) < 0.15
    real = binary * rng.random(binary.shape)
    return {
        f"{dtype} {kind}": X.astype(dtype)
        for kind, X in {"binary": binary, "real": real}.items()
        for dtype in ("float32", "float64")
    }


def large_results(estimators=LARGE_ESTIMATORS):
    """Hashes of all that large fits compute, by estimator, data and name."""
    found = {}
    for number, estimator in enumerate(estimators):
        for kind, X in large_data().items():
            model = clone(estimator).fit(X)
            results = fitted_state(model) | outputs(model, X[:100])
            results["sample"] = model.sample(200, 3, random_state=1)
            results["gibbs"] = model.gibbs(X)
            for name, result in results.items():
                found[f"{number} {kind} {name}"] = joblib.hash(result)
    return found


# ---- Restricted Boltzmann machines ----

PARAMETERS = ["components_", "intercept_hidden_", "intercept_visible_"]
floats = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def model_with(components, hidden, visible):
    """A fitted model with these parameters."""
    components = np.asarray(components)
    n_hidden, n_visible = components.shape
    X = np.full((4, n_visible), 0.5, components.dtype)
    model = BernoulliRBM(n_hidden, n_iter=0, random_state=0).fit(X)
    model.components_ = components
    model.intercept_hidden_ = np.asarray(hidden, components.dtype)
    model.intercept_visible_ = np.asarray(visible, components.dtype)
    return model


def random_model(n_hidden, n_visible, scale=1.0, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return model_with(
        scale * rng.normal(size=(n_hidden, n_visible)).astype(dtype),
        scale * rng.normal(size=n_hidden),
        scale * rng.normal(size=n_visible),
    )


def division_of(model, labels, fraction):
    """Which rows an `RBMClassifier` that was fitted to all of them has held out."""
    known, key = np.ones(len(labels), bool), model._state["key"]
    return KnownDivision(known, fraction, key, "labels", True, labels)


def with_holes(X, share=0.3, seed=1):
    """X with a share of its values missing, in every pattern that comes."""
    holes = np.random.default_rng(seed).random(X.shape) < share
    return np.where(holes, np.nan, X)


def all_states(n):
    return np.array(list(itertools.product([0.0, 1.0], repeat=n)))


# ---- Deep Boltzmann machines ----


def random_dbm(sizes, *, scale=1.5, dtype=np.float64, visible="bernoulli", **options):
    """A fitted model with random weights, none of whose units stays in one state."""
    rng = np.random.default_rng([710, *sizes])  # the same for all seeds of the tests
    options = {"n_mean_field_steps": 2000, "mean_field_tol": 0.0} | options
    model = DBMTransformer(
        sizes[1:], visible=visible, n_iter=0, random_state=0, **options
    ).fit(rng.random((9, sizes[0])).astype(dtype))
    weights = [scale * rng.normal(size=w.shape) for w in model.components_]
    biases = [0.3 * rng.normal(size=n) for n in sizes]
    for k, weight in enumerate(weights):
        biases[k] -= weight.sum(axis=0) / 2 * (visible == "bernoulli" or k > 0)
        biases[k + 1] -= weight.sum(axis=1) / 2
    model.components_ = [weight.astype(dtype) for weight in weights]
    model.intercepts_ = [bias.astype(dtype) for bias in biases]
    if visible == "gaussian":
        model.variance_ = rng.uniform(0.5, 1.5, sizes[0]).astype(dtype)
    return model
