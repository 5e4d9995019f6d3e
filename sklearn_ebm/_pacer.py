"""Calls of kernels: in pieces short enough for Ctrl-C, on as many threads as pay."""

import time

# Longest stay in a kernel between two chances to be interrupted, in seconds.
PATIENCE = 0.1
# After so many pieces of that length, one that is so many times shorter tries the other
# number of threads; sooner if the last try was a success.
PROBE_EVERY = 12
PROBE_SIZE = 32


class Pacer:
    """Cuts the work of a kernel in pieces and decides how many threads do it.

    Python hears Ctrl-C between two pieces of about PATIENCE seconds. On a busy
    machine a team whose threads wait for each other can be far slower than one
    thread, so both are timed now and then and the faster one goes on. Results
    must not depend on how the work is cut or on the number of threads.

    Parameters
    ----------
    most : int
        Largest number of threads.
    """

    def __init__(self, most=1):
        self.threads, self.other = most, 1
        self.size = 1
        self.until_probe = 1  # the first time soon: a short fit gains by it, too

    def run(self, kernel, n):
        """Call ``kernel(start, stop, n_threads)`` over ``range(n)`` in pieces."""
        start = 0
        while start < n:
            probe = self.until_probe == 0 and self.threads != self.other
            size = -(-self.size // PROBE_SIZE) if probe else self.size
            stop = min(n, start + size)
            begin = time.perf_counter()
            kernel(start, stop, self.other if probe else self.threads)
            seconds = time.perf_counter() - begin
            pace, start = seconds / (stop - start), stop
            if probe:
                self.until_probe = PROBE_EVERY
                if pace < self.pace:
                    self.threads, self.other = self.other, self.threads
                    self.until_probe = PROBE_EVERY // 4
                continue
            self.pace = pace
            if seconds < PATIENCE / 2:
                self.size *= 2
            else:
                self.until_probe = max(0, self.until_probe - 1)
                if seconds > PATIENCE:
                    self.size = max(1, int(PATIENCE / pace))
