"""Ctrl-C is heard soon, wherever it falls, and leaves a usable model."""

import copy
import inspect
import pickle
import signal
import sys
import time
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from common import (
    draws,
    every_bernoulli_rbm,
    go_on,
    interrupted_after,
    outputs,
    soon_interrupted,
)
from sklearn_ebm import (
    ICA,
    BernoulliRBM,
    DBMTransformer,
    FactorAnalysis,
    ProbabilisticPCA,
    RBMImputer,
    SlowFeatureAnalysis,
    SparseCoding,
)
from sklearn_ebm._products import single_threaded_blas
from sklearn_ebm._units import Kind
from tables import SPECS, mixed_rbm, table

LONG_FITS = {
    "short epochs": ((100, 64), {"batch_size": 10, "n_iter": 10**7}),
    "one long epoch": (
        (200_000, 64),
        {"batch_size": 1, "n_iter": 2, "n_gibbs_steps": 10, "n_components": 64},
    ),
    "large": (
        (5_000, 784),
        {"batch_size": 100, "n_iter": 10**4, "n_components": 500, "verbose": 1},
    ),
    "large batches": (
        (5_000, 784),
        {"batch_size": 5_000, "n_iter": 10**4, "n_components": 500},
    ),
    "long chains": (
        (1_000, 784),
        {"batch_size": 100, "n_gibbs_steps": 2_000, "n_components": 500},
    ),
}


@cache
def bits(shape):
    X = (np.random.default_rng(0).random(shape) < 0.2).astype(np.uint8)
    X.setflags(write=False)
    return X


@every_bernoulli_rbm
@pytest.mark.parametrize("case", LONG_FITS)
def test_interrupt_is_heard_and_leaves_a_usable_model(estimator, case):
    shape, parameters = LONG_FITS[case]
    X = bits(shape)
    model = soon_interrupted(
        lambda: clone(estimator).set_params(**parameters),
        lambda model: model.fit(X),
        begun=lambda model: hasattr(model, "components_"),
    )
    assert all(len(entries) == model.n_iter_ for entries in model.history_.values())
    for result in outputs(model, X[:20]).values():
        assert np.isfinite(result).all()
    # It goes on from there.
    done = model.n_iter_
    model.set_params(warm_start=True, n_iter=1, n_gibbs_steps=1, verbose=0)
    assert model.fit(X[:200]).n_iter_ == done + 1


@every_bernoulli_rbm
def test_history_is_right_wherever_the_interrupt_falls(estimator, digits):
    model = clone(estimator).set_params(n_iter=10**7, warm_start=True)
    model.partial_fit(digits[:10])
    for _ in range(30):
        before = model.n_iter_
        interrupted_after(lambda: model.fit(digits[:10]), seconds=0.01)
        assert model.n_iter_ >= before
        lengths = {name: len(entries) for name, entries in model.history_.items()}
        assert set(lengths.values()) == {model.n_iter_}, lengths
        assert np.isfinite(model.components_).all()


@every_bernoulli_rbm
def test_interrupted_partial_fit(estimator):
    shape, parameters = LONG_FITS["one long epoch"]
    X = bits(shape)
    before = clone(estimator).set_params(**parameters).partial_fit(X[:100])
    model = soon_interrupted(
        lambda: copy.deepcopy(before), lambda model: model.partial_fit(X)
    )
    assert all(len(entries) == model.n_iter_ for entries in model.history_.values())
    assert not np.array_equal(model.components_, before.components_)
    assert np.isfinite(model.transform(X[:20])).all()
    assert model.partial_fit(X[:100]) is model


def test_interrupt_of_a_long_score_is_heard():
    X = np.random.default_rng(0).random((10_000, 784))
    model = BernoulliRBM(500, n_iter=1, random_state=0).fit(X[:100])
    soon_interrupted(lambda: model, lambda model: model.score(X))


def longest_silence(call):
    """The longest time of a processor in which a call lets Python hear no signal."""
    heard = [time.thread_time()]
    before = signal.signal(signal.SIGPROF, lambda *_: heard.append(time.thread_time()))
    signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
    try:
        call()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return np.diff([*heard, time.thread_time()]).max()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="has no such timers")
@pytest.mark.parametrize("method", ["transform", "gibbs", "reconstruct"])
def test_interrupts_are_heard_however_many_rows_there_are(method):
    X = bits((60_000, 784))
    model = BernoulliRBM(500, n_iter=0, random_state=0).fit(X[:100])
    assert longest_silence(lambda: getattr(model, method)(X)) < 0.2


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="has no such timers")
@pytest.mark.parametrize("model", [FactorAnalysis(20), ICA(20, max_iter=2)], ids=str)
def test_interrupts_are_heard_however_many_samples_are_drawn(model):
    model.fit(np.random.default_rng(0).random((100, 784)))
    assert longest_silence(lambda: model.sample(60_000)) < 0.2


def interrupted_at(number, call, file):
    """Interrupt a call at a line of a file, by its number among those executed.

    Returns all lines up to there.
    """
    lines = []

    def line(frame, event, _):
        if event == "line":
            lines.append((frame.f_code.co_name, frame.f_lineno))
            if len(lines) - 1 == number:
                raise KeyboardInterrupt
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: line if frame.f_code.co_filename == file else None)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
        # (Here it can also be between the body of a `with` and its end, where Python
        # hears no signal.)
        while single_threaded_blas.depth:
            single_threaded_blas.__exit__()
    return lines


@pytest.mark.parametrize(
    "model",
    [
        ICA(2, max_iter=3, random_state=0),
        SlowFeatureAnalysis(2),
        SlowFeatureAnalysis(2, expansion="quadratic"),
        SparseCoding(3, max_iter=2, random_state=0),
        RBMImputer(2, visible="gaussian", n_iter=2, random_state=0),
        FactorAnalysis(2, max_iter=3),
        ProbabilisticPCA(2),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_interrupts_leave_no_model_half_new(model):
    rng = np.random.default_rng(5)
    old, new = rng.normal(size=(40, 4)), rng.normal(size=(30, 7))
    file = inspect.getfile(type(model))
    lines = interrupted_at(-1, lambda: clone(model).fit(new), file)
    last = {line: number for number, line in enumerate(lines)}  # of every line
    wanted = [clone(model).fit(X).transform(X) for X in (old, new)]
    left = []
    for number in last.values():
        found = clone(model).fit(old)
        interrupted_at(number, lambda found=found: found.fit(new), file)
        found = pickle.loads(pickle.dumps(found))
        left.append(found.n_features_in_)
        outcome = found.transform({4: old, 7: new}[left[-1]])
        if left[-1] == 4:
            np.testing.assert_array_equal(outcome, wanted[0])
        assert np.isfinite(outcome).all()
        assert outcome.shape == wanted[left[-1] == 7].shape
        if hasattr(found, "sample"):
            assert found.sample(3).shape == (3, left[-1])
    assert set(left) == {4, 7}


@pytest.mark.parametrize(
    "model",
    [
        mixed_rbm(n_iter=2),
        mixed_rbm([([0, 1, 2, 5, 6], "relu"), ([3, 4], "gaussian")], missing="latent"),
        DBMTransformer((3, 2), visible=SPECS, n_iter=1, pretrain_n_iter=1),
    ],
    ids=["RBM", "missing", "DBM"],
)
def test_numpy_asks_no_enumeration_what_it_is(model, monkeypatch):
    """It would take Ctrl-C, if the type answers in Python, for the answer no."""
    asked = []

    def answer(_, name):
        asked.append(name)
        raise AttributeError(name)

    monkeypatch.setattr(type(Kind), "__getattr__", answer, raising=False)
    X = np.abs(table(50))
    draws(go_on(model.fit(X), X), X)
    outputs(model, X)
    model.impute(X, mask=X > 1, n_gibbs_steps=2)
    assert not [name for name in asked if name.startswith("__array")]
