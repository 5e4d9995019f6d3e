"""Likelihood of layered models: partition functions, and measures that need none."""

from dataclasses import dataclass, field

import numpy as np

from ._enumeration import enumerated
from ._gibbs import Layer
from ._log_z import LEAST_SWEEPS, annealed, tempered
from ._machines import Machine
from ._panels import Panels
from ._scores import score_rows
from ._validation import (
    check_choice,
    check_count,
    check_names,
    check_states,
    naming,
    random_generator,
)
from .layered import BITS, Layered
from .samplers._models import layered_of, layers_of, two_layers
from .samplers._paths import check_betas

__all__ = [
    "LogLikelihood",
    "LogPartition",
    "free_energy",
    "free_energy_gap",
    "log_likelihood",
    "log_partition",
    "pseudo_log_likelihood",
    "ratio_matching",
]


@dataclass(frozen=True)
class LogPartition:
    """The logarithm of a partition function, and how it was found.

    Parameters
    ----------
    value : float
        Logarithm of Z in nats; also ``float(result)``.

    standard_error : float
        Standard error of `value` in nats; 0 if it is exact, or if all runs agree (a few
        runs that agree have met no other states, but there may be some).

    method : str
        How it was found.

    forward : float or None
        Estimate by forward annealing, which is low in expectation.

    reverse : float or None
        Estimate by reverse annealing, which is high in expectation if its starts
        are exact samples of the model. None if it was not run.

    reverse_standard_error : float or None
        Standard error of `reverse`.

    effective_sample_size : float or None
        How many equally weighted runs the forward runs are worth.

    settings : dict
        Temperatures, runs and what else the estimate depends on.

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.likelihood import log_partition
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> result = log_partition(layers)
    >>> round(result.value, 3), result.standard_error, result.method
    (1.94, 0.0, 'exact')
    """

    value: float
    standard_error: float
    method: str
    forward: float | None = None
    reverse: float | None = None
    reverse_standard_error: float | None = None
    effective_sample_size: float | None = None
    # (There may be arrays among them, which == compares element by element.)
    settings: dict = field(default_factory=dict, compare=False)

    def __float__(self):
        """Return `value`."""
        return self.value


@dataclass(frozen=True, eq=False)
class LogLikelihood:
    """The log-likelihood of rows under a model, and how its log Z was found.

    ``np.asarray(result)`` is `samples`.

    Parameters
    ----------
    value : float
        Mean over the rows, in nats; also ``float(result)``.

    samples : ndarray of shape (n_samples,)
        Log-likelihood of every row.

    standard_error : float
        Standard error of `value` that comes from log Z; 0 if that is exact, NaN if
        it was given as a number.

    method : str
        How log Z was found; "given" if it was given as a number.

    forward : float or None
        Mean by the forward estimate of log Z, which is high in expectation.

    reverse : float or None
        Mean by the reverse estimate of log Z, which is low in expectation if its
        starts are exact samples of the model. None if it was not run.

    reverse_standard_error : float or None
        Standard error of `reverse`.

    effective_sample_size : float or None
        How many equally weighted runs the forward runs are worth.

    settings : dict
        Temperatures, runs and what else the estimate of log Z depends on.

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.likelihood import log_likelihood
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> result = log_likelihood(layers, [[0, 0], [1, 1]])
    >>> result.samples.round(3), round(result.value, 3)
    (array([-1.627, -0.891]), -1.259)
    """

    value: float
    samples: np.ndarray
    standard_error: float
    method: str
    forward: float | None = None
    reverse: float | None = None
    reverse_standard_error: float | None = None
    effective_sample_size: float | None = None
    settings: dict = field(default_factory=dict)

    def __float__(self):
        """Return `value`."""
        return self.value

    def __array__(self, dtype=None, copy=None):
        """Return `samples`."""
        return np.array(self.samples, dtype, copy=copy)


def log_partition(
    model, method="exact", *, betas=1000, n_runs=100, reverse=True, random_state=None
):
    """Compute or estimate the logarithm of the partition function, log Z.

    Parameters
    ----------
    model : estimator or Layered
        A fitted Boltzmann machine, restricted or deep.

    method : {"exact", "ais", "tempering"}, default="exact"
        "exact" sums over all states of the smaller layer, at most 26 Bernoulli
        units (of other units, at most 2^20 states).

        "ais" is annealed importance sampling [1]_ from independent units with the
        means of the training data.

        "tempering" adds up Bennett's acceptance ratio estimates [2]_ between
        neighbouring temperatures of `sklearn_ebm.samplers.ReplicaExchange`; for
        Bernoulli units.

    betas : int, "classic" or array-like of shape (n_temperatures,), default=1000
        For "ais", the inverse temperatures: how many, evenly spaced, or numbers
        ascending from 0 to 1, or "classic" for the 14 501 of [3]_. For
        "tempering", an int: the number of sweeps of every chain, at least 40.

    n_runs : int, default=100
        For "ais", the number of runs. For "tempering", the number of chains, in
        ensembles of 20 temperatures (at least one). With the same numbers both
        take about as long.

    reverse : bool, default=True
        Whether "ais" also runs backwards, from samples that tempered chains (of
        other than Bernoulli units: Gibbs chains) have drawn from the model, after jumps
        to places near rows of the training, if the model has kept any
        (`sklearn_ebm.samplers.Gibbs.jump`). That about doubles its time.

    random_state : int, RandomState instance or None, default=None
        Seeds the runs. An int gives the same result bit for bit on any number of
        threads.

    Returns
    -------
    result : LogPartition
        Logarithm of Z in nats, with its standard error. Of "ais", `value` is the
        forward estimate.

    Raises
    ------
    NotFittedError
        If the model is an estimator that is not fitted.

    TypeError
        If the model is neither a Boltzmann machine nor a `Layered`, but a classifier, a
        deep belief net or a class, for instance; or if a number is no integer.

    ValueError
        If both layers are too large to enumerate ("exact"), or not all units are
        Bernoulli units ("tempering"); an argument is not allowed; or the model has no
        distribution (weights or biases that are too large or not finite, of a `Layered`
        also units that there are not or that do not go together), or a single layer.

    Notes
    -----
    The forward estimate of Z is unbiased; so that of log Z is low in expectation,
    and low with near certainty when every run has missed a mode that holds most of
    the probability: then log-likelihoods come out too high, and neither the
    standard error nor the effective sample size shows it. The reverse estimate of
    1/Z is unbiased if its starts are exact samples, which they are only as far as
    the tempered chains have mixed. Agreement of the two means that annealing goes
    smoothly between independent units and *the modes that the starts are in*, among
    them, where chains jump, those of the data; a difference of nats means that at least
    one of the two is wrong, mostly the forward one. A single pair of runs need not
    bracket log Z.

    References
    ----------
    .. [1] R. M. Neal, "Annealed importance sampling", Statistics and Computing 11,
       2001.
    .. [2] C. H. Bennett, "Efficient estimation of free energy differences from
       Monte Carlo data", Journal of Computational Physics 22, 1976.
    .. [3] R. Salakhutdinov, I. Murray, "On the quantitative analysis of deep belief
       networks", ICML 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import BernoulliRBM
    >>> from sklearn_ebm.likelihood import log_partition
    >>> X = np.array([[0, 1], [1, 0]])
    >>> rbm = BernoulliRBM(3, n_iter=0, centering=False, random_state=0).fit(X)
    >>> round(float(log_partition(rbm)), 1)  # close to log 2 ** 5
    3.5
    >>> estimate = log_partition(rbm, "ais", random_state=0)
    >>> round(estimate.forward, 1), round(estimate.reverse, 1)
    (3.5, 3.5)
    """
    check_choice(method, "method", ("exact", "ais", "tempering"))
    check_choice(reverse, "reverse", (True, False))
    layers = layers_of(model)
    if method == "exact":
        return LogPartition(enumerated(layers), 0.0, "exact")
    n_runs = check_count(n_runs, "n_runs", least=1)
    rng = random_generator(random_state)
    if method == "ais":
        found = annealed(model, check_betas(betas), n_runs, reverse, rng)
    else:
        two_layers(model, "method='tempering'")
        n_sweeps = check_count(betas, "betas", least=LEAST_SWEEPS)
        found = tempered(model, n_sweeps, n_runs, rng)
    return LogPartition(method=method, **found)


# ---- Rows under a model ----


def free_energy(model, X):
    """Compute the free energy of rows.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Values of the visible units.

    Returns
    -------
    free_energy : ndarray of shape (n_samples,)
        ``F(v) = -log sum_h exp(-E(v, h))`` in nats.

    Raises
    ------
    NotFittedError
        If the model is an estimator that is not fitted.

    TypeError
        As in `log_partition`; or if X holds dates or times.

    ValueError
        If the model has not exactly one hidden layer, or no distribution (as in
        `log_partition`); or if X has another number of columns than there are features
        or units, or holds NaN, infinity or what an estimator refuses in its columns.

    Warns
    -----
    UserWarning
        If X has values that the visible units do not stand for, such as 2 for Bernoulli
        units. The values for a `Layered` are looked at only if all of its units are
        Bernoulli units.

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.likelihood import free_energy
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> free_energy(layers, [[0, 0], [1, 1]]).round(3)
    array([-0.313, -1.049])
    """
    _refuse_deep(model)
    if hasattr(model, "free_energy"):
        return model.free_energy(X)
    if not isinstance(model, Layered):
        # A deep machine with one hidden layer, of which the bound is exact.
        X, dtype = model._read(X, exact=True)
        return -model._deep(dtype).bound(X)
    if model.units != BITS:
        n_units, dtype = len(model.biases[0]), model.weights[0].dtype
        X, rows = check_states(model, X, n_units, "X", model_dtype=dtype, quiet=True)
        return Machine(model, rows.dtype).free_energy(X)
    return score_rows(*_scored(model, X)[:3])


def _refuse_deep(model):
    """Raise an error if a model has more than one hidden layer, or none."""
    layers = layered_of(model)
    layers.folded()  # refuses a single layer
    if len(layers.units) > 2:
        raise ValueError(
            "This takes a machine with a single hidden layer: the free energy of a "
            "deep one has no closed form. Its score_samples bounds the log-likelihood."
        )


def _scored(model, X):
    """Rows, the way up, visible biases and weights, as `score_rows` takes them."""
    layers = two_layers(model)
    n_units, dtype = len(layers.biases[0]), layers.weights[0].dtype
    check_names(model, X, "X")
    _, rows = check_states(model, X, n_units, "X", model_dtype=dtype)
    components = layers.weights[0].T.astype(rows.dtype)
    layer = Layer(Panels.from_columns(components), layers.biases[1])
    return rows, layer, layers.biases[0], components


def log_likelihood(model, X, log_z=None, **settings):
    """Compute the log-likelihood of rows under a model.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Values of the visible units.

    log_z : float or LogPartition or None, default=None
        Logarithm of the partition function; None calls `log_partition`.

    **settings : dict
        Further arguments of `log_partition`, such as ``method="ais"``.

    Returns
    -------
    result : LogLikelihood
        ``-free_energy(X) - log Z`` in nats, of every row and in the mean.

    Raises
    ------
    NotFittedError
        As in `log_partition` and `free_energy`.

    TypeError
        As in `log_partition` and `free_energy`; or if `log_z` is no number.

    ValueError
        As in `log_partition` and `free_energy`; or if `log_z` is not finite, or given
        along with `settings`, which would change nothing.

    Warns
    -----
    UserWarning
        As in `free_energy`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import BernoulliRBM
    >>> from sklearn_ebm.likelihood import log_likelihood
    >>> X = np.array([[0, 1], [1, 0]])
    >>> rbm = BernoulliRBM(3, n_iter=0, centering=False, random_state=0).fit(X)
    >>> result = log_likelihood(rbm, X)
    >>> round(float(result), 1), result.method, result.samples.shape
    (-1.4, 'exact', (2,))
    """
    if log_z is None:
        log_z = log_partition(model, **settings)
    elif settings:
        raise ValueError(f"log_z is given; {list(settings)} would change nothing.")
    elif not isinstance(log_z, LogPartition):
        try:
            log_z = LogPartition(float(log_z), np.nan, "given")
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"log_z must be a number or a LogPartition, got {log_z!r}."
            ) from error
    if not np.isfinite(log_z.value):
        raise ValueError(f"log_z must be finite, got {log_z.value}.")
    gains = -free_energy(model, X)
    mean = float(gains.mean())
    forward, reverse = (
        None if found is None else mean - found
        for found in (log_z.forward, log_z.reverse)
    )
    return LogLikelihood(
        mean - log_z.value,
        gains - log_z.value,
        log_z.standard_error,
        log_z.method,
        forward,
        reverse,
        log_z.reverse_standard_error,
        log_z.effective_sample_size,
        log_z.settings,
    )


def pseudo_log_likelihood(model, X):
    """Compute the pseudo-log-likelihood of rows.

    It is the sum over the features of ``log p(v_i | all other features)`` [1]_, exact,
    and needs no partition function; larger is better.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Values of the visible units. A value between 0 and 1 counts as the mean
        over binary values with that probability.

    Returns
    -------
    pseudo_log_likelihood : ndarray of shape (n_samples,)
        Pseudo-log-likelihoods in nats.

    Raises
    ------
    NotFittedError, TypeError
        As in `free_energy`.

    ValueError
        As in `free_energy`; or if not all units are Bernoulli units.

    Warns
    -----
    UserWarning
        If X has values outside [0, 1].

    References
    ----------
    .. [1] J. Besag, "Statistical analysis of non-lattice data", The Statistician 24,
       1975.

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.likelihood import pseudo_log_likelihood
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> pseudo_log_likelihood(layers, [[0, 0], [0, 1]]).round(3)
    array([-1.386, -1.82 ])
    """
    _refuse_deep(model)
    return score_rows(*_scored(model, X))


def ratio_matching(model, X):
    """Compute the ratio matching objective of rows.

    It compares a row with its neighbours, which differ from it in one feature, and
    needs no partition function [1]_; smaller is better.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Values of the visible units. A value between 0 and 1 counts as the mean
        over binary values with that probability.

    Returns
    -------
    objective : ndarray of shape (n_samples,)
        ``sum_i (1 + p(v) / p(v with feature i flipped)) ** -2``.

    Raises
    ------
    NotFittedError, TypeError
        As in `free_energy`.

    ValueError
        As in `free_energy`; or if not all units are Bernoulli units.

    Warns
    -----
    UserWarning
        If X has values outside [0, 1].

    References
    ----------
    .. [1] A. Hyvarinen, "Some extensions of score matching", Computational
       Statistics & Data Analysis 51, 2007.

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.likelihood import ratio_matching
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> ratio_matching(layers, [[0, 0], [0, 1]]).round(3)
    array([0.5  , 0.707])
    """
    _refuse_deep(model)
    return score_rows(*_scored(model, X), ratio=True)


def free_energy_gap(model, X_train, X_test):
    """Compute by how much held-out rows lie above training rows in free energy.

    The partition function cancels. A gap that grows during training is a sign of
    overfitting [1]_; it says nothing of underfitting.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    X_train, X_test : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows the model was trained on, and others.

    Returns
    -------
    gap : float
        Mean free energy of `X_test` less that of `X_train`, in nats.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        As in `free_energy`, of either set of rows.

    Warns
    -----
    UserWarning
        As in `free_energy`.

    References
    ----------
    .. [1] G. E. Hinton, "A practical guide to training restricted Boltzmann
       machines", in Neural Networks: Tricks of the Trade, 2012.

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.likelihood import free_energy_gap
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> round(free_energy_gap(layers, [[0, 0], [1, 1]], [[0, 1]]), 3)
    0.368
    """
    _refuse_deep(model)
    with naming("X_test"):
        test = free_energy(model, X_test)
    with naming("X_train"):
        train = free_energy(model, X_train)
    return float(test.mean() - train.mean())
