"""What callbacks and the numbers of the history cost a fit at 784x500.

    python benchmarks/bench_callbacks.py [--rows 60000] [--epochs 2] [--repeats 9]
        [--only NAME]

Simulated binary data, 13 % on, batch size 100, one thread. Every row of the table is a
fit with something that watches it; it alternates with a plain fit of the same settings
in one process. Printed are the ratios, less one, of the shortest and of the median
processor times: what is looked for is smaller than what others on a machine change. The
progress bar needs rich, callbacks need scikit-learn 1.9.

A callback that may look at the model or stop the fit makes every epoch average
its parameters, where a plain fit averages the last one only: rows say how much
of their cost that is, by a fit with `average=False` and the same callback.
"""

import argparse
import contextlib
import io
import time
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from sklearn_ebm import BernoulliRBM
from sklearn_ebm.monitoring import TrainingMonitor


class Stop:
    """Callback that could stop the fit and never does."""

    def setup(self, estimator, context):
        """Do nothing."""

    def teardown(self, estimator, context):
        """Do nothing."""

    def on_fit_task_begin(self, estimator, context):
        """Do nothing."""

    def on_fit_task_end(self, estimator, context):
        """Never stop."""
        return False


def mean_weight(model, X):
    """Return next to nothing, for next to no time."""
    return float(model.intercept_hidden_[0])


def watchers():
    """Names, parameters and callbacks of the rows of the table."""
    found = {
        "callback that may stop": ({}, Stop),
        "TrainingMonitor(a cheap function)": ({}, lambda: TrainingMonitor(mean_weight)),
        "TrainingMonitor()": ({}, TrainingMonitor),
        "verbose": ({"verbose": 1}, None),
        "early_stopping": ({"early_stopping": True, "tol": 0.0}, None),
    }
    try:
        import rich  # noqa: F401
        from sklearn.callback import ProgressBar
    except ImportError:
        print("no progress bar: rich or scikit-learn 1.9 is missing")
    else:
        found = {"ProgressBar": ({}, ProgressBar)} | found
    return found


def overhead(X, settings, parameters, callback, repeats):
    """Ratios of the times of alternating fits, watched and not, less one."""
    plain = BernoulliRBM(**settings)
    watched = BernoulliRBM(**(settings | parameters))
    if callback is not None:
        watched.set_callbacks(callback())
    times = [], []
    for _ in range(repeats + 1):
        for model, found in zip((plain, watched), times, strict=True):
            begin = time.process_time()
            with contextlib.redirect_stdout(io.StringIO()):
                model.fit(X)
            found.append(time.process_time() - begin)
    without, with_it = (found[1:] for found in times)  # the first warms up
    return [f(with_it) / f(without) - 1 for f in (min, median)]


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    X = np.empty((args.rows, 784), dtype=np.uint8)
    for row in X:
        row[:] = rng.random(784) < 0.13
    settings = {
        "n_components": 500,
        "batch_size": 100,
        "n_iter": args.epochs,
        "random_state": 0,
    }
    print(f"{args.rows} rows, {args.epochs} epochs; time beyond that of a plain fit")
    print(f"{'':36s}      average=True     average=False")
    for name, (parameters, callback) in watchers().items():
        if args.only not in name:
            continue
        text = f"{name:36s}"
        for average in (True, False):
            with threadpool_limits(limits=1):
                shortest, middle = overhead(
                    X,
                    settings | {"average": average},
                    parameters,
                    callback,
                    args.repeats,
                )
            text += f"  {shortest:6.1%}, {middle:6.1%} "
        print(text, flush=True)


if __name__ == "__main__":
    main()
