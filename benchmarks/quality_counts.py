"""What machines of counts learn by default, the larger the counts are.

    python benchmarks/quality_counts.py [--means 10 30 100 300] [--seeds 1 2 3]
    python benchmarks/quality_counts.py --words

Held-out nats a row of three clusters in eight counts, simulated: 2 000 rows to train
on and as many held out. Each seed draws other clusters and is that of the fit, so that
what differs along a line is data and fits. By forward annealed importance sampling,
2 000 temperatures; a number above that of the mixture the rows are drawn from is of a
log Z that is too low. "logs" are Gaussian machines of the logarithms, as densities of
the counts. All but widths is at the defaults.

`--words`: simulated texts, of which a row counts the words: mixtures of topics (each a
draw from a Dirichlet distribution of 0.05, their shares in a text from one of 0.2), as
nats of a held-out text by `score`.
"""

import argparse

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from scipy.stats import poisson

from sklearn_ebm import RBM, DBMTransformer
from sklearn_ebm.likelihood import log_partition

N_ROWS, N_COUNTS, N_CLUSTERS = 2000, 8, 3
# Texts to train on, words of the language and of a text, and topics.
TEXTS = [(500, 200, 20, 10), (300, 1000, 40, 20), (2000, 1000, 40, 20)]
TEXTS += [(4000, 300, 100, 20)]
N_HELD_OUT = 1000


def simulated(mean, seed):
    """Rows to train on, held-out ones, and the log-likelihood of the mixture."""
    rng = np.random.default_rng(seed)
    means = mean * np.exp(rng.normal(size=(N_CLUSTERS, N_COUNTS)) / 2)
    X = rng.poisson(means[rng.integers(N_CLUSTERS, size=2 * N_ROWS)]).astype(float)
    train, test = X[:N_ROWS], X[N_ROWS:]
    given = poisson.logpmf(test[:, np.newaxis], means).sum(axis=2)
    return train, test, logsumexp(given, axis=1).mean() - np.log(N_CLUSTERS)


def score(model, train, test):
    """Held-out log-likelihood of a machine, or a bound on it."""
    model.fit(train)
    log_z = log_partition(model, "ais", betas=2000, reverse=False, random_state=0)
    if isinstance(model, DBMTransformer):
        return model._deep(np.float64).bound(test).mean() - log_z.value
    return -model.free_energy(test).mean() - log_z.value


def rows_of(train, test, seed):
    """Yield the name and the score of every machine."""
    options = {"visible": "poisson", "random_state": seed}
    logs = [np.log(X + 0.5) for X in (train, test)]
    for size in (16, 50, 256):
        yield f"RBM {size}", score(RBM(size, **options), train, test)
        gaussian = RBM(size, visible="gaussian", random_state=seed)
        # (The density of counts that are log-normal.)
        slope = logs[1].sum(axis=1).mean()
        yield f"RBM {size}, logs", score(gaussian, *logs) - slope
    for sizes in ((50, 50), (256, 256)):
        yield f"DBM {sizes}", score(DBMTransformer(sizes, **options), train, test)


def texts(n_rows, n_words, length, n_topics, seed):
    """Counts of words of simulated texts."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.05), n_topics)
    shares = rng.dirichlet(np.full(n_topics, 0.2), n_rows)
    lengths = rng.poisson(length, n_rows)
    rows = [rng.multinomial(*how) for how in zip(lengths, shares @ topics, strict=True)]
    return np.array(rows, float)


def compare_words(seeds):
    """Print a line for every kind of text."""
    print("texts, words, a text     independent    RBM 50   RBM 256")
    for n_rows, n_words, length, n_topics in TEXTS:
        for seed in seeds:
            X = texts(n_rows + N_HELD_OUT, n_words, length, n_topics, seed)
            train, test = X[:n_rows], X[n_rows:]
            found = [
                poisson.logpmf(test, train.mean(axis=0) + 0.5 / n_rows).sum(axis=1)
            ]
            for size in (50, 256):
                rbm = RBM(size, visible="poisson", random_state=seed)
                found.append(rbm.fit(sp.csr_array(train)).score_samples(test))
            cells = "".join(f"{np.mean(value):10.2f}" for value in found)
            print(f"{n_rows:5d}{n_words:6d}{length:6d}          {cells}", flush=True)


def main():
    """Print a table for every mean, or one of texts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--means", type=float, nargs="+", default=[10, 30, 100, 300])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--words", action="store_true", help="simulated texts")
    args = parser.parse_args()
    if args.words:
        compare_words(args.seeds)
        return
    for mean in args.means:
        found = {}
        for seed in args.seeds:
            train, test, best = simulated(mean, seed)
            alone = poisson.logpmf(test, train.mean(axis=0)).sum(axis=1).mean()
            names = [("mixture", best), ("independent counts", alone)]
            for name, value in [*names, *rows_of(train, test, seed)]:
                found.setdefault(name, []).append(value)
        print(f"mean about {mean:g}")
        for name, values in found.items():
            cells = "".join(f"{value:12.5g}" for value in values)
            print(f"    {name:20s}{cells}", flush=True)


if __name__ == "__main__":
    main()
