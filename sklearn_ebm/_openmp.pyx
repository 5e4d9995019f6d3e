# How many threads a piece of work runs on.
import os
import threading

from joblib import cpu_count
from joblib.parallel import get_active_backend

from ._openmp cimport SKLEARN_EBM_OPENMP, omp_get_max_threads

_forked = False


def _after_fork():
    # GNU OpenMP's threads do not survive a fork, and its next parallel region
    # would wait for them for ever: a forked child works on one thread.
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def openmp_enabled():
    """Whether the kernels were compiled with OpenMP."""
    return bool(SKLEARN_EBM_OPENMP)


def effective_n_threads(double work=float("inf"), double least=0.0):
    """Number of threads for a piece of work.

    ``OMP_NUM_THREADS``, threadpoolctl and the container's CPU quota are
    honoured. Work below `least` stays on one thread, as does work inside a
    joblib worker thread unless ``OMP_NUM_THREADS`` says otherwise.
    """
    if _forked or work < least or not SKLEARN_EBM_OPENMP:
        return 1
    cdef int limit = omp_get_max_threads()
    if limit == 1 or os.environ.get("OMP_NUM_THREADS"):
        return limit
    if threading.current_thread() is not threading.main_thread():
        backend, _ = get_active_backend()
        if (backend.nesting_level or 0) > 0:
            return 1
    return max(1, min(limit, cpu_count(only_physical_cores=True)))
