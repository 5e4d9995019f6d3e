"""Data shared by the tests, small and read-only."""

import gc
from collections import Counter

import pytest
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

# Failures of the comparisons in common.py show their values.
pytest.register_assert_rewrite("common")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    # What a plain pytest leaves out besides the tests that are marked slow: cases of
    # those marked thinned, and all but the first of the estimators of a class.
    from common import VARIANTS

    counts = Counter()
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        slow = id(params.get("estimator")) in VARIANTS
        thinned = item.get_closest_marker("thinned")
        if thinned and not slow:
            test = item.nodeid.partition("[")[0]
            slow = counts[test] % thinned.args[0] > 0
            counts[test] += 1
        if slow:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session):
    # Thousands of tests are not garbage: without them collections take no time.
    gc.collect()
    gc.freeze()
    # Of a few tests, those that need other processes wait for their own.
    if len(session.items) > 5000 and not session.config.option.collectonly:
        from common import start_interpreters

        start_interpreters()


@pytest.fixture(scope="module")
def one_thread():
    """Work this small is done sooner on one; results do not depend on it."""
    with threadpool_limits(1, user_api="openmp"):
        yield


@pytest.fixture
def plt():
    """Pyplot without a screen; no figure is left behind."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


@pytest.fixture(scope="session")
def digits():
    """Scaled digits: (1797, 64) float64 in [0, 1]."""
    X = load_digits().data / 16
    X.setflags(write=False)
    return X


@pytest.fixture(scope="session")
def binary_digits(digits):
    """Digits made binary: (1797, 64) bool."""
    X = digits > 0.5
    X.setflags(write=False)
    return X


@pytest.fixture(scope="session")
def labels():
    """Classes of the digits."""
    return load_digits().target
