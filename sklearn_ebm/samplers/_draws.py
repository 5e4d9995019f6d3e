"""Many samples from chains, and samples of what is missing."""

from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.utils.validation import check_array

from .._validation import (
    check_choice,
    check_count,
    check_mask,
    check_names,
    check_states,
    dense,
    naming,
    random_key,
)
from ..layered import BITS
from ..units import as_unit, check_blocks
from ._chains import Chains, Gibbs
from ._exchange import ReplicaExchange
from ._models import layers_of, two_layers

SAMPLING_METHODS = "gibbs", "tempering", "langevin"
# Jumps in the middle of a warm-up, one after the other. Where modes lie far apart, each
# draws a mode.
WARM_UP_JUMPS = 10
# More random steps that `draw` may take than sweeps and jumps between draws: jumps of
# the warm-up and, at most, ten others. `ReplicaExchange.adapt` takes at least 2
# sweeps in each of 5 rounds, however short the warm-up; before that, chains have first
# states and become bits.
SPARE_STEPS = 10 + WARM_UP_JUMPS
# Sweeps from a jump to the next where values are filled in: SOON if a larger share than
# OFTEN of the jumps of the warm-up succeed (then more jumps make better means).
SWEEPS_A_JUMP, SOON, OFTEN = 5, 2, 0.1
# Of Langevin dynamics that take the place of a draw: ten steps of a tenth, say.
LANGEVIN_TIME = 1.0
IMPUTING_METHODS = "mean", "sample"


def sample_chains(
    model,
    n_draws,
    n_chains=None,
    *,
    warm_up=1000,
    thinning=1,
    method="gibbs",
    init=None,
    conditions=None,
    random_state=None,
):
    """Draw from several chains, keeping apart what comes from each.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine; or a deep one, all of whose even layers,
        side by side from the bottom up, are visible units here.

    n_draws : int
        Number of draws from every chain.

    n_chains : int or None, default=None
        Number of chains; None means the rows of `init` or `conditions`, or 1.

    warm_up : int, default=1000
        Sweeps before the first draw.

    thinning : int, default=1
        Sweeps from a draw to the next.

    method : {"gibbs", "tempering", "langevin"}, default="gibbs"
        "tempering" draws from the model's end of `ReplicaExchange` with ten
        temperatures, which adapt during the first half of the warm-up and stay as
        they are from then on. It takes ten times as long a sweep, and crosses
        between modes where Gibbs sampling hardly does. "langevin" is
        ``Gibbs(model, langevin_time=1)``, for models with Gaussian visible units.

    init : array-like of shape (n_chains, n_features) or None, default=None
        Values to start from, by sweeps alone. None has chains jump to places near rows
        of the data and, without `conditions`, start there (`Gibbs.jump`, `Gibbs.init`),
        if the model is an estimator whose training has kept any.

    conditions : array-like of shape (n_features,) or (n_chains, n_features), \
            default=None
        0 or 1 for units that keep this value, NaN for the others.

    random_state : int, RandomState instance or None, default=None
        Seeds the draws.

    Returns
    -------
    v : ndarray of shape (n_draws, n_chains, n_units)
        Visible units; Bernoulli units as bool. A feature is one unit, but a column of
        codes of categories is a block of them, here as in `init` and `conditions`.

    Raises
    ------
    NotFittedError
        If the model is an estimator that is not fitted.

    TypeError
        If the model is none that `Gibbs` takes, a number is no integer, `conditions`
        are sparse, or they or `init` hold dates or times.

    ValueError
        As in `Gibbs` and `Gibbs.init`; or if a number is too small, or `method` is not
        one of the above or not for these units.

    Warns
    -----
    UserWarning
        As in `Gibbs.init`.

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.samplers import sample_chains
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> sample_chains(layers, 100, 4, warm_up=10, random_state=0).shape
    (100, 4, 2)
    """
    chains = Gibbs(model).init(
        n_chains, init=init, conditions=conditions, random_state=random_state
    )
    jumps = init is None
    return draw(model, chains, n_draws, warm_up, thinning, method, jumps)


def draw(model, chains, n_draws, warm_up, thinning, method, jumps=False):
    """Draw from chains that have been begun.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine; or a deep one, all of whose even layers,
        side by side from the bottom up, are visible units here.

    chains : Chains
        The state before the warm-up.

    n_draws, warm_up, thinning, method : int, int, int, str
        As for `sample_chains`.

    jumps : bool, default=False
        Whether chains may leave the modes that they start in by jumps, too.

    Returns
    -------
    v : ndarray of shape (n_draws, n_chains, n_features)
        Visible units; Bernoulli units as bool.
    """
    n_draws = check_count(n_draws, "n_draws", least=1)
    warm_up = check_count(warm_up, "warm_up", least=0)
    thinning = check_count(thinning, "thinning", least=1)
    check_method(model, method)
    half = warm_up // 2
    if method == "tempering":
        sampler = ReplicaExchange(model)
        step, look = partial(sampler.step, record=False), sampler.samples
        chains = sampler.adapt(_replicas(sampler, chains), half)
    else:
        sampler = Gibbs(model, LANGEVIN_TIME if method == "langevin" else None)
        step, look = sampler.step, lambda chains: dense(chains.visible)
        chains = step(chains, half)
    jumps = jumps and method != "tempering"
    if jumps:
        # Only now: sweeps have led to places that are the model's. From others, jumps
        # would lead to the likeliest of those that are not.
        jump = sampler.jumping(chains)
        for _ in range(min(half, WARM_UP_JUMPS)):
            chains = jump(chains)
    chains = step(chains, warm_up - half)
    draws = [look(chains)]
    for _ in range(n_draws - 1):
        if jumps:
            chains = jump(chains)
        chains = step(chains, thinning)
        draws.append(look(chains))
    return np.stack(draws)


def _replicas(sampler, chains):
    """Ensembles that go on from chains, and with their random sequence."""
    if chains.visible.dtype != bool:
        # Values between 0 and 1 become bits.
        chains = Gibbs(sampler.model).step(chains)
    replicas = sampler.init(
        len(chains.visible),
        init=chains.visible,
        fixed=chains.fixed,
        random_state=0,  # replaced: None would draw from NumPy's global generator
    )
    return replace(replicas, key=chains.key, n_steps=chains.n_steps)


def check_method(model, method):
    """Refuse a method of sampling that there is not, or not for this model.

    Parameters
    ----------
    model : estimator or Layered
        A fitted Boltzmann machine.

    method : str
        As for `sample_chains`.
    """
    check_choice(method, "method", SAMPLING_METHODS)
    if method == "tempering":
        two_layers(model, "method='tempering'")


def impute(model, X, mask, *, n_gibbs_steps=100, method="mean", random_state=None):
    """Fill in missing visible units, given the others.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine; or a deep one, all of whose even layers,
        side by side from the bottom up, are visible units here.

    X : array-like of shape (n_samples, n_features)
        Values of the visible units; what it holds where they are missing does not
        matter.

    mask : array-like of bool of shape (n_samples, n_features) or (n_features,)
        Which of them are missing.

    n_gibbs_steps : int, default=100
        Sweeps of a chain of every row; the first half is a warm-up.

    method : {"mean", "sample"}, default="mean"
        "mean" estimates the conditional mean of every missing unit, as the mean of
        its probabilities given the hidden units in the second half of the sweeps.
        "sample" draws missing units jointly from their conditional distribution.

    random_state : int, RandomState instance or None, default=None
        Seeds the chains.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        A copy in the dtype of the model, missing values filled in.

    Raises
    ------
    NotFittedError
        If the model is an estimator that is not fitted.

    TypeError
        If the model is none that `Gibbs` takes, or `n_gibbs_steps` is no integer.

    ValueError
        If X has another number of columns than there are visible units, or holds NaN or
        infinity where nothing is missing; `mask` is not bool, has another shape, or
        takes a part of a block of categories; the model is refused by `Gibbs`; or
        another argument is not allowed.

    Warns
    -----
    UserWarning
        If all units are Bernoulli units, and X has values outside [0, 1].

    Examples
    --------
    >>> from sklearn_ebm.layered import Layered
    >>> from sklearn_ebm.samplers import impute
    >>> bits = ("bernoulli", "bernoulli")
    >>> layers = Layered(bits, [[[2.0], [2.0]]], [[-1.0, -1.0], [-1.0]])
    >>> V = impute(layers, [[1, 0], [0, 1]], [False, True], random_state=0)
    >>> V.shape, V[:, 0]
    ((2, 2), array([1., 0.]))
    """
    n_steps = check_count(n_gibbs_steps, "n_gibbs_steps", least=1)
    check_choice(method, "method", IMPUTING_METHODS)
    check_names(model, X, "X")
    check_names(model, mask, "mask")
    with naming("X"):  # missing values need not be finite
        X = check_array(X, dtype=None, ensure_all_finite=False, input_name="X")
    missing = check_mask(mask, np.shape(X), "mask")
    layers = layers_of(model)
    X, _ = check_states(
        model,
        np.where(missing, 0, X),
        len(layers.biases[0]),
        "X",
        quiet=layers.units != BITS,
    )
    check_blocks(as_unit(layers.units[0]), missing, "X")
    return fill_in(model, X, missing, n_steps, method, random_key(random_state), 0)


def fill_in(model, X, missing, n_steps, method, key, step):
    """Fill in missing visible units like `impute`, at a step of a random sequence.

    Parameters
    ----------
    model, X, missing, n_steps, method : see `impute`
        As there, but X is an array, `missing` the mask, and `n_steps` are the sweeps.

    key, step : int
        Random key and first random step.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        A copy in the dtype of the model, missing values filled in.
    """
    sampler = Gibbs(model)
    start = sampler.start(len(X), key, step)
    visible = np.where(missing, start, X).astype(sampler.dtype)
    chains = Chains(visible, ~missing, key, step + 1)
    total, n_kept, half = np.zeros(X.shape), 0, n_steps // 2
    jump, every, moved = sampler.jumping(chains), SWEEPS_A_JUMP, []
    for k in range(n_steps):
        # (First to where sweeps lead, as in `draw`.)
        if k > half // 2 and k % every == 0:
            after = jump(chains)
            moved.append((after.visible != chains.visible).any(axis=1).mean())
            chains = after
            if k < half:
                every = SOON if np.mean(moved) > OFTEN else SWEEPS_A_JUMP
        # A sweep at a time, because observed values may lie between 0 and 1.
        means, drawn = sampler.means(chains, chains.n_steps)
        np.copyto(chains.visible, drawn, where=missing)  # (an array of our own)
        chains = replace(chains, n_steps=chains.n_steps + 1)
        if k >= half:
            total, n_kept = np.add(total, means, out=total), n_kept + 1
    visible = chains.visible
    if method == "mean":
        np.copyto(visible, total / n_kept, "same_kind", where=missing)
    return visible
