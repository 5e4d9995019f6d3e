"""What chains that jump or exchange temperatures do for the likelihood of small models.

    python benchmarks/quality_tempering.py [--only NAME]

Exact held-out log-likelihood (nats a row) of BernoulliRBM with 14 hidden units, whose
negative phase has persistent chains that jump (the default; with more Gibbs steps or
more chains), that do not (with fast weights, or with fast weights too small to matter:
"sweeps alone"), or that are at several temperatures. Batches of 10, rate 0.1 or 0.5
falling linearly, means and, in brackets, the worst of five seeds; seconds of one fit.
Beside that scikit-learn's class, whose rate is constant, and ours with such a rate.
Data, all bundled or simulated: digits (grey value > 7, 20 epochs over 1 300 images);
bars and stripes of 4 x 4 pixels (60 epochs over 960 images, 30 times each; the best
there is is -3.38); ten random patterns of 40 bits, of which 2 % are flipped at random
(30 epochs over 1 500 rows; log 10 plus the entropy of the flips is 6.22).
"""

import argparse
import time
import warnings

import numpy as np
from sklearn import neural_network
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sklearn_ebm import BernoulliRBM
from sklearn_ebm.layered import Layered
from sklearn_ebm.likelihood import log_likelihood

CHAINS = {
    "sweeps alone": {"fast_learning_rate": 1e-12},
    "defaults": {},
    "n_gibbs_steps=20": {"n_gibbs_steps": 20},
    "n_chains=100": {"n_chains": 100},
    "n_chains=100, n_gibbs_steps=5": {"n_chains": 100, "n_gibbs_steps": 5},
    "fast_learning_rate=0.1": {"fast_learning_rate": 0.1},
    "n_temperatures=5": {"n_temperatures": 5},
    "n_temperatures=10": {"n_temperatures": 10},
}
N_SEEDS = 5


def bars_and_stripes(n):
    """Images of n x n pixels in which whole columns or whole rows are on."""
    bits = (np.arange(2**n)[:, np.newaxis] >> np.arange(n)) & 1
    return np.concatenate([np.tile(bits, n), np.repeat(bits, n, axis=1)])


def patterns(n_rows, rng):
    """Rows of ten patterns with noise."""
    modes = rng.random((10, 40)) < 0.5
    return modes[rng.integers(10, size=n_rows)] ^ (rng.random((n_rows, 40)) < 0.02)


def data_sets():
    """Name, rows to train on, held-out rows and number of epochs."""
    digits = load_digits().data > 7
    yield "digits", digits[:1300], digits[1300:], 20
    images = bars_and_stripes(4) > 0
    yield "bars and stripes", np.tile(images, (30, 1)), images, 60
    rows = patterns(2500, np.random.default_rng(0))
    yield "patterns", rows[:1500], rows[1500:], 30


def run(train, test, make, **settings):
    """Print a row: log-likelihoods over seeds, seconds, the last swap rates."""
    scores, seconds = [], []
    for seed in range(N_SEEDS):
        model = make(14, random_state=seed, **settings)
        begin = time.perf_counter()
        model.fit(train)
        seconds.append(time.perf_counter() - begin)
        biases = model.intercept_visible_, model.intercept_hidden_
        machine = Layered(("bernoulli", "bernoulli"), (model.components_.T,), biases)
        scores.append(float(log_likelihood(machine, test)))
    swaps = ""
    if "swap_rate" in getattr(model, "history_", ()):
        mean, least = (
            model.history_[key][-1] for key in ("swap_rate", "least_swap_rate")
        )
        swaps = f"   swap rate {mean:.2f}, least {least:.2f}"
    print(
        f"{np.mean(scores):7.2f} ({np.min(scores):6.2f})   "
        f"{np.median(seconds):5.2f} s{swaps}",
        flush=True,
    )


def main():
    """Print a row for every kind of chains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="data whose name contains this")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, train, test, n_iter in data_sets():
        if args.only not in name:
            continue
        for rate in (0.1, 0.5):
            print(f"{name}, rate {rate}")
            same = {"n_iter": n_iter, "learning_rate": rate}
            for label, chains in CHAINS.items():
                print(f"    {label:32s}", end="")
                falling = {"learning_rate_schedule": "linear"}
                run(train, test, BernoulliRBM, **same, **falling, **chains)
            print(f"    {'constant rate':32s}", end="")
            run(train, test, BernoulliRBM, **same)
            print(f"    {'constant rate, scikit-learn':32s}", end="")
            run(train, test, neural_network.BernoulliRBM, **same)


if __name__ == "__main__":
    main()
