"""Any number of threads or processes gives the same bits, and none hangs."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from common import (
    LARGE_ESTIMATORS,
    assert_agree,
    assert_same,
    assert_same_model,
    draws,
    every_bernoulli_rbm,
    every_estimator,
    fit,
    fitted,
    fitted_state,
    large_data,
    large_results,
    outputs,
    run_on_threads,
    run_python,
)
from sklearn_ebm import RBM, GaussianRBM, _pacer, _products, _units
from sklearn_ebm.likelihood import log_partition


@pytest.fixture(scope="module")
def one_thread():
    with threadpool_limits(1):
        return large_results()


def test_any_number_of_threads_gives_the_same_bits(one_thread):
    # (The environment that asks for one is tried in test_kernels.py.)
    code = "import json, common; print(json.dumps(common.large_results()))"
    for line in run_on_threads([2, 3, 7], code):
        found = json.loads(line)
        assert found.keys() == one_thread.keys()
        assert [key for key in found if found[key] != one_thread[key]] == []


@pytest.mark.thinned(2)
@pytest.mark.parametrize("n_threads", [2, 3])
def test_threadpoolctl_limits_give_the_same_bits(n_threads, one_thread):
    with threadpool_limits(n_threads):
        found = large_results(LARGE_ESTIMATORS[:1])
    assert [key for key in found if found[key] != one_thread[key]] == []


@pytest.mark.slow
def test_annealing_of_counts_gives_the_same_bits_on_any_number_of_threads():
    # Rows so wide and so many that BLAS would share the sums over their features out.
    X = np.random.default_rng(0).poisson(2.0, (60, 784)).astype(float)
    model = RBM(8, visible="poisson", n_iter=1, random_state=0).fit(X)
    found = set()
    for n_threads in (1, 2, 3, 4):
        with threadpool_limits(n_threads):
            one = log_partition(
                model, "ais", betas=5, n_runs=1001, reverse=False, random_state=0
            )
        found.add((one.value, one.effective_sample_size))
    assert len(found) == 1


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib_workers_give_the_model_of_the_main_thread(backend):
    X = large_data()["float32 binary"]
    estimator = LARGE_ESTIMATORS[0]
    wanted = fit(clone(estimator), X)
    jobs = [delayed(clone(estimator).fit)(X) for _ in range(3)]
    for model in Parallel(n_jobs=2, backend=backend)(jobs):
        assert_same_model(model, wanted)


@every_bernoulli_rbm
def test_reading_from_several_threads(estimator, digits):
    model = clone(estimator).set_params(n_components=64).fit(digits)
    parts = [digits[start::5] for start in range(5)] * 4
    wanted = [outputs(model, X) for X in parts]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda X: outputs(model, X), parts))
    assert_same(found, wanted)


@every_estimator
def test_reading_one_model_from_several_threads(estimator, digits):
    model = fitted(estimator)
    X = digits[:600]
    wanted = outputs(model, X)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: outputs(model, X), range(8)):
            assert_agree(found, wanted)


def test_reading_a_large_model_from_several_threads():
    X = large_data()["float32 binary"]
    model = clone(LARGE_ESTIMATORS[0]).fit(X)
    wanted = outputs(model, X)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: outputs(model, X), range(6)))
    assert_same(found, [wanted] * 6)


def test_calls_of_less_than_a_millisecond_stay_on_one_thread(monkeypatch):
    # On a busy machine each of many such calls would wait for the second one.
    calls = []

    def record(work, least):
        calls.append(work >= least)
        return 1

    X = np.random.default_rng(0).normal(size=(400, 10)).astype(np.float32)
    model = GaussianRBM(256, n_iter=0, random_state=0).fit(X)
    for module in (_products, _units):
        monkeypatch.setattr(module, "effective_n_threads", record)
    model.impute(X, mask=X > 1, n_gibbs_steps=2, random_state=0)
    assert calls and not any(calls)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_forks_before_and_after_a_parallel_fit_give_its_model():
    # Of joblib before, from a process without threads; then none must hang.
    code = """if True:
        import joblib, multiprocessing, common as t
        X = t.large_data()["float32 binary"]
        def work():
            model = t.fit(t.clone(t.LARGE_ESTIMATORS[0]), X)
            results = t.fitted_state(model) | t.outputs(model, X)
            return joblib.hash(results | t.draws(model, X))
        jobs = [joblib.delayed(work)()] * 3
        hashes = joblib.Parallel(2, backend="multiprocessing")(jobs)
        hashes.append(work())
        children = multiprocessing.get_context("fork").Pool(2)
        jobs = [children.apply_async(work) for _ in range(2)]
        hashes += [job.get(timeout=60) for job in jobs]
        hashes.append(work())  # and the parent still works
        children.close()
        children.join()
        print(*hashes)
    """
    X = large_data()["float32 binary"]
    model = fit(clone(LARGE_ESTIMATORS[0]), X)
    results = fitted_state(model) | outputs(model, X) | draws(model, X)
    hashes = run_python(code, OMP_NUM_THREADS="2").split()
    assert hashes == [joblib.hash(results)] * 7


# ---- How many threads a kernel gets ----


@pytest.mark.parametrize(("faster", "slower"), [(2, 1), (1, 2)])
def test_a_pacer_spends_its_time_on_the_faster_number_of_threads(
    monkeypatch, faster, slower
):
    clock, spent, done = [0.0], {1: 0.0, 2: 0.0}, []

    class Time:
        perf_counter = staticmethod(lambda: clock[0])

    def kernel(start, stop, n_threads):
        done.extend(range(start, stop))
        seconds = (stop - start) * (0.001 if n_threads == faster else 0.0018)
        spent[n_threads] += seconds
        clock[0] += seconds
        assert seconds < 1.5 * _pacer.PATIENCE

    monkeypatch.setattr(_pacer, "time", Time)
    pacer = _pacer.Pacer(2)
    for _ in range(2):
        done.clear()
        pacer.run(kernel, 5000)
        assert done == list(range(5000))
    # (Before the first trial it has not tried the other number, which is then best.)
    assert spent[slower] < (0.01 if faster == 2 else 0.05) * spent[faster]
