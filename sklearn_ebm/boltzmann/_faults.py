"""What may be wrong with a model after its training, and what then may help."""

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning

from .._enumeration import state_counts
from .._excess import LARGEST_NORM
from .._machines import SOME, Machine, some_rows, weighted_sums
from .._units import Kind
from .._validation import dense, title
from .._warning import warn
from ..likelihood import log_partition
from ..samplers._models import LEAST_RATE
from ..units import are, as_unit, kinds_by_column, kinds_of, with_gaussian
from ._visible_scales import bias_for, column_variances

# Share of the largest norm of weights that is as good as all of it: means over an epoch
# are a little smaller.
NEARLY = 0.98
# Largest standard deviation of the means of units that are as good as constant.
LEAST_DEVIATION = 0.02
# Rows that are looked at before a warning, if SOME of them ask for one.
MANY = 10_000
# What may help if real features are taken for probabilities of bits.
REAL_FEATURES = "standardized data with visible='gaussian'"
# Units whose states have probabilities, not densities.
COUNTABLE = Kind.BERNOULLI, Kind.SPIN, Kind.CATEGORICAL, Kind.POISSON
# Rows that are added up, at most, and nats by which good estimates may be wrong.
MOST_ROWS, SLACK = 1000, 0.1
# Chains that look for states far from the data, their seed, and their sweeps: more for
# counts, which grow a little in each.
N_CHAINS, SEED, N_SWEEPS, N_SWEEPS_OF_COUNTS = 32, 0, 3, 30
# A layer with at most so many states is enumerated instead; beside real features, whose
# fits take far longer than that, one of at most so many states times features.
FEW_STATES, FEW_NUMBERS = 2**10, 2**20
# Nats by which a model may seem to be worse than independent features.
SURE = 1.0

# ---- Units that say nothing ----


def warn_of_constant_units(layer, means_of, X, remedies, least=LEAST_DEVIATION):
    """Warn if no unit of a layer tells rows apart.

    Parameters
    ----------
    layer : str
        What the layer is called.

    means_of : callable
        Returns the means of its units given rows, of shape (n_rows, n_units).

    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        The training data.

    remedies : list of str
        What may help; at least two things.

    least : float, default=LEAST_DEVIATION
        Standard deviation of the means of a unit that tells rows apart.
    """
    # (A unit may tell a rare class apart, of which there is no row among SOME.)
    for n in (SOME, MANY) if X.shape[0] > SOME else (SOME,):
        means = means_of(some_rows(X, n))
        most = means.std(axis=0, dtype=np.float64).max()
        if len(means) == 1 or most >= least:
            return
    warn(
        f"The {layer} hardly tells rows apart: over {len(means)} training rows no "
        f"unit's mean has a standard deviation above {most:.2g}. Try "
        f"{', '.join(remedies[:-1])}, or {remedies[-1]}.",
        ConvergenceWarning,
    )


def warn_of_constant_top(transformer, X):
    """Warn if no feature of the top layer tells rows of the training data apart."""
    top = transformer.components_[-1]
    remedies = [
        "more epochs if features are binary",
        f"if they are real, {REAL_FEATURES}",
    ]
    remedies += ["output='all'"] if transformer.output == "top" else []
    remedies.append("a StandardScaler after it")
    warn_of_constant_units(
        f"top layer of {title(transformer)}",
        lambda rows: transformer._output(rows, top.dtype)[:, -len(top) :],
        X,
        remedies,
    )


def warn_of_constant_bits(estimator, view, X):
    """Warn if the hidden units of a restricted machine are bits and hardly vary.

    `view` is what a monitor sees of it; X are its visible units in the training.
    """
    if not view.bits:
        return
    remedies = ["more epochs", "another learning_rate"]
    if kinds_of(as_unit(view.layers.units[0])) == {Kind.BERNOULLI}:
        # (More epochs of probabilities may make it worse, and so may those of decay:
        # where only three features or more together say something, weights have to
        # grow before they are worth anything.)
        decays = " with weight_decay=0" if getattr(estimator, "weight_decay", 0) else ""
        remedies = [
            f"more epochs{decays} if features are binary",
            "if they are real, Gaussian units and standardized data",
            "a StandardScaler after it",
        ]
    warn_of_constant_units(
        f"hidden layer of {title(estimator)}",
        lambda rows: view.hidden_means(view.rows(rows, estimator._dtype())),
        X,
        remedies,
    )


def warn_of_constant_labels(model, scores_of, X, remedies):
    """Warn if probabilities of labels hardly differ from row to row.

    scores_of(rows) returns a score for every label, log-odds but for a number for each
    row; `remedies` are what may help (see `warn_of_constant_units`).
    """
    if scores_of(X[:1]).shape[1] > 1:
        warn_of_constant_units(
            f"layer of labels of {title(model)}",
            lambda rows: softmax(scores_of(rows), axis=1),
            X,
            remedies,
        )


def warn_of_full_weights(estimator, kinds):
    """Warn if weights between Gaussian layers are as large as training lets them be.

    `kinds` are those of the visible units, by column.
    """
    hidden = as_unit(estimator.hidden)
    if hidden.kind != Kind.GAUSSIAN or (kinds != Kind.GAUSSIAN).any():
        return
    weights = estimator.components_ / np.sqrt(estimator.variance_.astype(np.float64))
    weights *= np.reshape(hidden.scale, (-1, 1))
    if np.linalg.norm(weights, 2) > NEARLY * LARGEST_NORM:
        warn(
            f"The weights of {title(estimator)} are as large as they can be: features "
            "agree more strongly than it can say. sklearn_ebm.FactorAnalysis fits the "
            "same distributions, by maximum likelihood and without that bound.",
            ConvergenceWarning,
        )


# ---- Probability that is not where the data are ----


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

    With discrete units no p(v) is above 1, so that log Z is at least -F(s) for every
    state s, and log p(v) at most F(s) - F(v). Of Gaussian features, whose density given
    the hidden units is at most that at their means, the logarithm of that density is
    added. States s of low free energy are looked for along chains from some rows; what
    has all the probability is soon found. Where one of the sides has few states the
    log-likelihood itself is known.

    Parameters
    ----------
    estimator : TrainableRBM
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
    # (Independent features know a single row by heart.)
    if X.shape[0] == 1 or not (real | are(kinds, *COUNTABLE)).all():
        return
    rows = dense(some_rows(X, N_CHAINS), np.float64)
    # Probabilities stand for bits.
    draws = np.random.default_rng(SEED).random(rows.shape) < rows
    rows = np.where(are(kinds, Kind.BERNOULLI), draws, rows)
    if not (real | _are_states(kinds, rows)).all():
        return
    alone = _independent_score(estimator, unit, kinds, X, rows)
    machine = Machine(layers)
    n_states = min(state_counts(layers))
    if n_states <= (FEW_NUMBERS / X.shape[1] if real.any() else FEW_STATES):
        energies = machine.free_energy(rows.astype(machine.dtype))
        most = -float(log_partition(layers)) - energies.mean()
    else:
        counts = are(kinds, Kind.POISSON).any()
        n_sweeps = N_SWEEPS_OF_COUNTS if counts else N_SWEEPS
        states = np.empty((1 + n_sweeps, *rows.shape), machine.dtype)
        states[0] = rows
        for step in range(n_sweeps):
            states[step + 1] = machine.sweep(states[step], SEED, step)[1]
        energies = machine.free_energy(states.reshape(-1, rows.shape[1]))
        most = energies.min() - energies[: len(rows)].mean()
        most -= np.log(2 * np.pi * unit._gaussian(len(kinds))[1][real]).sum() / 2
    if most < alone - SURE:
        chains = "raise n_chains" if estimator.persistent else "set persistent=True"
        warn(
            f"{title(estimator)} is worse than independent features: the "
            f"log-likelihood of a row is {most:.3g} nats at most, and {alone:.3g} with "
            f"independent features (means over {len(rows)} rows). If training was "
            "short, train longer; else lower learning_rate, which was "
            f"{learning_rate:.3g}, or {chains}.",
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
