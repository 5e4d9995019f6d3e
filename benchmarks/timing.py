"""Wall times of calls that are compared with each other."""

import time

# Seconds before a call, spent awake. OpenBLAS keeps its threads busy with waiting for
# some tens of milliseconds after a product; whoever comes next would share a core with
# them. (A processor that slept would take its time to wake.)
PAUSE = 0.1


def timed(function, *args):
    """Seconds that a call takes when no other is at work, and its result."""
    end = time.perf_counter() + PAUSE
    while (begin := time.perf_counter()) < end:
        pass
    result = function(*args)
    return time.perf_counter() - begin, result


def seconds(function, *args):
    """Seconds that a call takes when no other is at work."""
    return timed(function, *args)[0]
