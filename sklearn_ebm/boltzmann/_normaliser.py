"""The normaliser that scores of a fitted model need: found when asked for, and kept."""

from hashlib import sha256

import numpy as np

from .._enumeration import state_counts
from ..likelihood import log_partition
from ..samplers._jumps import jumps_of

# What an estimate of log Z takes when a score is asked for.
BETAS, N_RUNS, SEED = 1000, 100, 0
# Draws near rows of the training. Their estimate counts if the effective number of
# draws is at least ENOUGH, so that none has more than a seventh of the weight; or if it
# is higher than that of annealing by CERTAIN nats. As it is unbiased, this happens in
# at most one of 150 cases (Markov's inequality) in which annealing was right.
N_DRAWS, ENOUGH, CERTAIN = 2000, 50, 5.0
# A layer with at most so many states is enumerated instead.
MOST_STATES = 2**14


def kept_log_z(model, keeper=None):
    """Logarithm of the partition function of a fitted model, found at the first call.

    It is found anew when the model has changed since, also if attributes were set.

    Parameters
    ----------
    model : estimator
        A fitted Boltzmann machine.

    keeper : estimator, default=None
        Where it is kept; None means with the model.

    Returns
    -------
    log_z : float
        Exact if one of its sides can be enumerated quickly, otherwise the larger of two
        estimates with a fixed seed.
    """
    keeper = model if keeper is None else keeper
    layers = model._layered()
    digest = _digest(*layers.weights, *layers.biases, getattr(model, "variance_", 1.0))
    kept = vars(keeper).get("_normaliser")
    if kept is None or kept[0] != digest:
        keeper._normaliser = kept = digest, _log_z(model, layers.folded())
    return kept[1]


def _digest(*parameters):
    """A few bytes that are others for other parameters."""
    digest = sha256(usedforsecurity=False)
    for numbers in parameters:
        # (Weights are mostly views of components: turned back, they lie in one piece.)
        digest.update(np.ascontiguousarray(np.transpose(numbers)))
    return digest.hexdigest()


def _log_z(model, layers):
    """Find log Z of a model, whose folded value is `layers`."""
    if min(state_counts(layers)) <= MOST_STATES:
        return float(log_partition(layers))
    annealed = float(
        log_partition(
            model, "ais", betas=BETAS, n_runs=N_RUNS, reverse=False, random_state=SEED
        )
    )
    # Both are too low where they miss modes: annealing those that lie apart, draws near
    # rows those that are wide, or have no rows.
    jumps = jumps_of(model)
    if jumps is not None:
        near_rows, n_effective = jumps.log_partition(N_DRAWS, SEED)
        counts = n_effective >= ENOUGH or near_rows > annealed + CERTAIN
        return max(annealed, near_rows) if counts else annealed
    return annealed
