"""Is the estimate of log Z right where the modes of a model lie far apart?

    python benchmarks/quality_log_z.py [--seeds 3]

Models of six normal clusters, of ten patterns of 64 bits, one in a hundred of which is
flipped, and of digits: log Z exactly, where a side of the model can be enumerated; by
annealed importance sampling, forward and in reverse (1 000 temperatures, 100 runs); and
as scores take it: the larger of the forward estimate and of one by draws near rows of
the training.
"""

import argparse

import numpy as np
from quality_sampling import blobs, digits

from data import patterns
from sklearn_ebm import BernoulliRBM, DBMTransformer, GaussianRBM
from sklearn_ebm._enumeration import can_enumerate
from sklearn_ebm.boltzmann import _normaliser
from sklearn_ebm.likelihood import log_partition


def few_flips(seed):
    """Ten patterns that lie far apart."""
    return patterns(seed, flip=0.01)


CASES = {
    "six clusters, GaussianRBM 14": (
        blobs,
        GaussianRBM(14, n_iter=50, learning_rate_schedule="constant"),
    ),
    "ten patterns, BernoulliRBM 16": (few_flips, BernoulliRBM(16, n_iter=30)),
    "ten patterns, DBM 20-14": (few_flips, DBMTransformer((20, 14), n_iter=30)),
    "ten patterns, DBM 64-32": (few_flips, DBMTransformer((64, 32), n_iter=30)),
    "digits, DBM 20-14": (digits, DBMTransformer((20, 14), n_iter=30)),
    "digits, DBM 100-50": (digits, DBMTransformer((100, 50), n_iter=30)),
}


def main():
    """Print a line for every model and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    # (Scores would enumerate the small ones.)
    _normaliser.MOST_STATES = 1
    print(f"{'':32}{'exact':>10}{'forward':>10}{'reverse':>10}{'scores':>10}")
    for name, (make, model) in CASES.items():
        for seed in seeds:
            model.set_params(random_state=seed).fit(make(seed)[0])
            few = can_enumerate(model._layered().folded())
            exact = log_partition(model).value if few else np.nan
            annealed = log_partition(model, "ais", random_state=0)
            values = exact, annealed.forward, annealed.reverse
            values = *values, _normaliser.kept_log_z(model)
            print(f"{name:32}" + "".join(f"{x:10.2f}" for x in values), flush=True)


if __name__ == "__main__":
    main()
