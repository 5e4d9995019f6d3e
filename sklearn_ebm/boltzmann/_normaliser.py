"""The normaliser that scores of a fitted model need, and what tells of its size."""

from hashlib import sha256

import numpy as np
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from .._machines import Machine, some_rows, weighted_sums
from .._unit_paths import state_counts
from .._units import Kind
from .._validation import dense, title
from .._warning import warn
from ..likelihood import log_partition
from ..samplers._jumps import jumps_of
from ..samplers._paths import LEAST_RATE
from ..units import are, as_unit, kinds_by_column, with_gaussian
from ._visible_scales import bias_for, column_variances

# What an estimate of log Z takes when a score is asked for.
BETAS, N_RUNS, SEED = 1000, 100, 0
# Draws near rows of the training.
N_DRAWS = 2000
# A layer with at most so many states is enumerated instead.
MOST_STATES = 2**14
# And with so many as a matter of course, at the end of a fit.
FEW_STATES = 2**10
# Units whose states have probabilities, not densities.
COUNTABLE = Kind.BERNOULLI, Kind.SPIN, Kind.CATEGORICAL, Kind.POISSON
# Rows that are added up, at most, and nats by which good estimates may be wrong.
MOST_ROWS, SLACK = 1000, 0.1
# Chains that look for states far from the data, their sweeps, and nats by which a model
# may seem to be worse.
N_CHAINS, N_SWEEPS, SURE = 32, 3, 1.0


def kept_log_z(model, keeper=None):
    """Logarithm of the partition function of a fitted model, found at the first call.

    And again when the model has changed since, be it that its attributes were set.

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


def warn_of_excess_probability(estimator, kinds, X, scores, encode=None):
    """Warn if the different rows of X have more than all probability together.

    Parameters
    ----------
    estimator : estimator
        Whose scores these are.

    kinds : ndarray of int of shape (n_visible,)
        Kinds of the visible units.

    X : {ndarray, sparse matrix} of shape (n_samples, n_visible)
        Rows of visible units. Only those that are states of these are added up.

    scores : ndarray of shape (n_samples,)
        Log-likelihoods by an estimate of log Z, or bounds on them.

    encode : callable, default=None
        Makes rows of visible units of those of X, if they are not.
    """
    n_rows = len(scores)
    if n_rows == 0 or scores.max() + np.log(n_rows) < SLACK:
        return
    if not are(kinds, *COUNTABLE).all():
        return
    highest = np.argsort(scores)[-MOST_ROWS:]
    rows = X[highest] if encode is None else encode(X[highest])
    rows = dense(rows, np.float64)
    rows, places = np.unique(rows, axis=0, return_index=True)
    states = _are_states(kinds, rows).all(axis=1)
    total = logsumexp(scores[highest][places], b=states)
    if total > SLACK:
        warn(
            f"By the scores of {title(estimator)}, {states.sum()} different rows have "
            f"{np.exp(total):.3g} times all the probability that there is. The "
            f"estimate of log Z is at least {total:.3g} nats too low, and scores are "
            "as much too high: annealing has missed much of the probability."
        )


def warn_if_worse_than_independent(estimator, X, learning_rate):
    """Warn if a fitted machine is certainly worse than independent features.

    No state has more than all probability, and no place more density than it has given
    the hidden units at the mean of Gaussian ones. So the log-likelihood of rows is at
    most by how much the free energy of any state lies above theirs, and the logarithm
    of that density. States are looked for along chains from some rows; what has all the
    probability is soon found. Where one of the sides has few states the log-likelihood
    itself is known.

    Parameters
    ----------
    estimator : TrainedRBM
        The machine. Nothing is said of rectified visible units, whose densities have no
        bound.

    X : {ndarray, sparse matrix} of shape (n_samples, n_visible)
        What it was trained on.

    learning_rate : float
        How it was trained.
    """
    layers = estimator._layered()
    unit = as_unit(layers.units[0])
    kinds = kinds_by_column(unit, X.shape[1])
    real = are(kinds, Kind.GAUSSIAN)
    if not (real | are(kinds, *COUNTABLE)).all():
        return
    rows = dense(some_rows(X, N_CHAINS), np.float64)
    # Probabilities stand for bits.
    draws = np.random.default_rng(SEED).random(rows.shape) < rows
    rows = np.where(are(kinds, Kind.BERNOULLI), draws, rows)
    if not (real | _are_states(kinds, rows)).all():
        return
    alone = _independent_score(estimator, unit, kinds, X, rows)
    machine = Machine(layers)
    if min(state_counts(layers)) <= FEW_STATES:
        energies = machine.free_energy(rows.astype(machine.dtype))
        most = -float(log_partition(layers)) - energies.mean()
    else:
        states = np.empty((1 + N_SWEEPS, *rows.shape), machine.dtype)
        states[0] = rows
        for step in range(N_SWEEPS):
            states[step + 1] = machine.sweep(states[step], SEED, step)[1]
        energies = machine.free_energy(states.reshape(-1, rows.shape[1]))
        most = energies.min() - energies[: len(rows)].mean()
        most -= np.log(2 * np.pi * unit._gaussian(len(kinds))[1][real]).sum() / 2
    if most < alone - SURE:
        chains = "raise n_chains" if estimator.persistent else "set persistent=True"
        warn(
            f"Nearly all the probability of {title(estimator)} lies in states far from "
            f"the data: the log-likelihood of a row is {most:.3g} nats at most, and "
            f"{alone:.3g} with independent features (means over {len(rows)} rows). "
            f"Lower learning_rate, which was {learning_rate:.3g}, or {chains}.",
            ConvergenceWarning,
        )


def _independent_score(estimator, unit, kinds, X, rows):
    """Mean log-likelihood of rows if features were independent, by all of X."""
    mean, real = estimator.visible_mean_.astype(float), are(kinds, Kind.GAUSSIAN)
    bias = np.where(real, 0, bias_for(kinds, mean, LEAST_RATE))
    if real.any():
        variance = column_variances(X, X.shape[0], mean)
        # (Features that are constant have no density to compare with, and no training
        # makes those of a given variance narrower.)
        given = unit._gaussian(len(kinds))[1]
        variance = np.where(estimator._columns().learned, variance, given)
        unit = with_gaussian(unit, mean, np.where(variance > 0, variance, given))
    of_rows = weighted_sums(rows, bias) - unit.energy(rows)
    return of_rows.mean() - unit.log_partition(bias[np.newaxis])[0]


def _are_states(kinds, values):
    """Tell which values are states of countable units, not means of them."""
    spins, counts = are(kinds, Kind.SPIN), are(kinds, Kind.POISSON)
    possible = np.where(spins, np.abs(values) == 1, values >= 0)
    return possible & (values == np.round(values)) & (counts | (values <= 1))


def _digest(*parameters):
    """A few bytes that tell parameters from others."""
    digest = sha256(usedforsecurity=False)
    for numbers in parameters:
        # (Weights are mostly views of components: turned back, they lie in one piece.)
        digest.update(np.ascontiguousarray(np.transpose(numbers)))
    return digest.hexdigest()


def _log_z(model, layers):
    """Find log Z of a model, whose folded value is `layers`."""
    if min(state_counts(layers)) <= MOST_STATES:
        return float(log_partition(layers))
    annealed = log_partition(
        model, "ais", betas=BETAS, n_runs=N_RUNS, reverse=False, random_state=SEED
    )
    # Both are too low where they miss modes: annealing those that lie apart, draws near
    # rows those that are wide, or have no rows.
    jumps = jumps_of(model)
    near_rows = -np.inf if jumps is None else jumps.log_partition(N_DRAWS, SEED)
    return max(float(annealed), near_rows)
