"""The normaliser that scores of a fitted model need: found once, and kept."""

from .._unit_paths import state_counts
from ..likelihood import log_partition

# What an estimate of log Z takes when a score is asked for.
BETAS, N_RUNS, SEED = 1000, 100, 0
# A layer with at most so many states is enumerated instead.
MOST_STATES = 2**14


def kept_log_z(model):
    """Logarithm of the partition function of a fitted model, found at the first call.

    Parameters
    ----------
    model : estimator
        A fitted Boltzmann machine.

    Returns
    -------
    log_z : float
        Exact if one of its sides can be enumerated quickly, otherwise an estimate
        with a fixed seed.
    """
    if not hasattr(model, "_log_z"):
        layers = model._layered().folded()
        if min(state_counts(layers)) <= MOST_STATES:
            model._log_z = float(log_partition(layers))
        else:
            estimate = log_partition(
                model,
                "ais",
                betas=BETAS,
                n_runs=N_RUNS,
                reverse=False,
                random_state=SEED,
            )
            model._log_z = float(estimate)
    return model._log_z
