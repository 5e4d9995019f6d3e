"""Samples of a fitted Boltzmann machine, and draws in place of what is missing."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._missing import (
    can_fill_exactly,
    few_bits_missing,
    fill_bits_exactly,
    fill_exactly,
)
from .._rows import Rows
from .._validation import (
    as_conditions,
    check_choice,
    check_count,
    check_missing,
    check_names,
    check_states,
    check_values,
    random_generator,
    random_key,
)
from ..samplers import Gibbs
from ..samplers._draws import IMPUTING_METHODS, SPARE_STEPS, check_method, draw, fill_in
from ..samplers._models import layers_of

# A model has random keys for its training and for its draws. Where either needs a
# second sequence, its key is the first one ^ one of these numbers.
# The training: of missing values,
MISSING_KEY = 0x9E3779B97F4A7C15
# of chains that exchange temperatures, which only BernoulliRBM has,
TEMPERING_KEY = 0xC2B2AE3D27D4EB4F
# of layer k of a deep Boltzmann machine by itself (this number + k),
LAYER_KEY = 0xD6E8FEB86659FD93
# and of the up-down algorithm, from the key of the top, which is an RBM: so this
# number and that for temperatures, though the same, never meet on one key.
UP_DOWN_KEY = TEMPERING_KEY
# Draws: of passes between the data and the top of a deep belief network. (Missing
# values of the training have the same number, but another key.)
PASS_KEY = MISSING_KEY


class OwnDraws:
    """The random sequence of a fitted model, which goes on from call to call."""

    def _draws(self, random_state=None):
        """Random key and step: of `random_state`, or the next of the model's own."""
        if random_state is not None:
            return random_key(random_state), 0
        if not hasattr(self, "_sampling_key"):
            self._sampling_key, self._sampling_step = random_key(self.random_state), 0
        return self._sampling_key, self._sampling_step

    def _use_draws(self, n_steps):
        """Count the next random steps of the model's own sequence as used."""
        self._sampling_step += n_steps


class Sampling(OwnDraws):
    """What an estimator needs to be sampled from, given `_layered`."""

    def sample(
        self,
        n_samples=None,
        n_gibbs_steps=1000,
        init=None,
        random_state=None,
        *,
        n_chains=None,
        thinning=10,
        conditions=None,
        method="gibbs",
    ):
        """Draw samples from the model by Gibbs sampling.

        Parameters
        ----------
        n_samples : int, default=None
            Number of samples. None means one from each chain.

        n_gibbs_steps : int, default=1000
            Gibbs steps of every chain before its first sample. Few steps give
            samples that still resemble `init`.

        init : array-like of shape (n_chains, n_features), default=None
            Values of the visible units to start from, by sweeps alone. None lets chains
            jump to places near rows of the data, as far as the training has kept some
            (with persistent chains, by default), so that modes that lie far apart, as
            clusters do, get their shares. Without `conditions` they start at such
            places, too; or else every chain at independent features with the means of
            the training data (real ones at these means).

        random_state : int, RandomState instance or None, default=None
            Seeds the draws. None goes on with the model's own sequence, which the
            `random_state` of the fit determines.

        n_chains : int, default=None
            Number of chains, which are sampled in turn. None means `n_samples`, each
            from a chain of its own, or else the rows of `init` or `conditions`.

        thinning : int, default=10
            Gibbs steps from one sample of a chain to its next.

        conditions : array-like of shape (n_features,) or (n_chains, n_features), \
                default=None
            Values (0 or 1 for Bernoulli units) for features that keep them, NaN for
            those to be drawn.

        method : {"gibbs", "tempering", "langevin"}, default="gibbs"
            "tempering" has every chain exchange temperatures with nine others,
            which helps where the model has separate modes and takes ten to twenty
            times as long (see `sklearn_ebm.samplers.ReplicaExchange`). "langevin" has
            Gaussian visible units follow Langevin dynamics for a time of 1 where Gibbs
            sampling draws them afresh (see `sklearn_ebm.samplers.Gibbs`, which takes
            any time); it needs such units, and mixes no faster.

        Returns
        -------
        v : ndarray of shape (n_samples, n_features)
            Values of the visible units; row ``i * n_chains + j`` is the
            i-th sample of chain j. `sklearn_ebm.samplers` has the chains
            themselves, and diagnostics of how they mix.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If a number of samples, chains or steps is too small; `init` or `conditions`
            have other features than in `fit`, no row for every chain, or values that
            are not finite or, in `conditions`, no states of such units (NaN is free);
            or `method` is none of these, or not for such units.
        TypeError
            If such a number is no integer, `conditions` are sparse, or they or `init`
            hold dates or times.

        Warns
        -----
        UserWarning
            If `init` has values that the visible units cannot represent, or blocks of
            categories that do not sum to 1.
        """
        check_is_fitted(self)
        n_steps = check_count(n_gibbs_steps, "n_gibbs_steps", least=0)
        thinning = check_count(thinning, "thinning", least=1)
        check_method(self, method)
        most = 1
        if n_samples is not None:
            most = n_samples = check_count(n_samples, "n_samples", least=1)
            n_chains = n_samples if n_chains is None else n_chains
        draws = self._draws(random_state)
        check_names(self, init, "init")
        check_names(self, conditions, "conditions")
        if init is not None:
            init = self._encode_init(init)
        if conditions is not None:
            conditions = self._encode(as_conditions(conditions))
        chains = Gibbs(self).begin(n_chains, init, conditions, *draws)
        if random_state is None:
            self._use_draws(n_steps + most * (thinning + 1) + SPARE_STEPS)
        n_draws = -(-most // chains.visible.shape[0])
        jumps = init is None
        v = draw(self, chains, n_draws, n_steps, thinning, method, jumps)
        v = v.reshape(-1, v.shape[-1])[:n_samples]
        return self._decode(v)

    def impute(
        self, X, *, mask=None, n_gibbs_steps=100, method="mean", random_state=None
    ):
        """Fill in missing values, given the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Values of the visible units; NaN where they are missing.

        mask : array-like of bool of shape (n_samples, n_features) or \
                (n_features,), default=None
            Further values that are taken for missing.

        n_gibbs_steps : int, default=100
            Gibbs steps of a chain of every row that lacks something, the first half of
            them a warm-up.

        method : {"mean", "sample"}, default="mean"
            "mean" fills in conditional means (the likeliest category where a column
            holds codes): exact ones, without chains, where the hidden units (of a deep
            machine those of its odd layers) have no more than 4096 states, and these
            times the visible units are no more than 2^20; and of rows of restricted
            machines that lack no more than eight values, all of them bits. "sample"
            fills in a joint draw from the conditional distribution.

        random_state : int, RandomState instance or None, default=None
            Seeds the chains. None goes on with the model's own random sequence.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The data, missing values filled in and the others as they were.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X has other features than in `fit`, values that are neither finite nor
            missing, or other codes than in `fit`; `mask` is not of bool or of another
            shape; of a block of categories a part is missing; `n_gibbs_steps` is less
            than 1, or `method` none of these.
        TypeError
            If X is sparse or holds dates or times, or `n_gibbs_steps` is no integer.

        Warns
        -----
        UserWarning
            If X has values that the visible units cannot represent, or blocks of
            categories that do not sum to 1.
        """
        check_is_fitted(self)
        X, missing = check_missing(self, X, mask)
        units, unknown = self._encode_missing(X, missing)
        n_steps = check_count(n_gibbs_steps, "n_gibbs_steps", least=1)
        check_choice(method, "method", IMPUTING_METHODS)
        random_generator(random_state)  # refuses what is none, whether it is needed
        rows = np.flatnonzero(missing.any(axis=1))
        part = units[rows], unknown[rows]
        found = self._fill_in(*part, n_steps, method, random_state)
        # (What is known stays as it is, also where the model computes less precisely.)
        filled = X.astype(np.result_type(X, found))
        filled[rows] = np.where(missing[rows], found, filled[rows])
        return filled

    def _fill_in(self, units, unknown, n_steps, method, random_state):
        """Columns, from values of visible units of which some are unknown."""
        if not len(units):
            return self._decode(units)
        layers = layers_of(self)
        if method == "mean" and can_fill_exactly(layers):
            return self._decode(fill_exactly(layers, units, unknown))
        exact = np.zeros(len(unknown), bool)
        if method == "mean":
            exact = few_bits_missing(layers, unknown)
        found = np.empty(unknown.shape)
        found[exact] = fill_bits_exactly(layers, units[exact], unknown[exact])
        if not exact.all():
            draws = self._draws(random_state)
            if random_state is None:
                self._use_draws(2 * n_steps + 1)  # (no more jumps than sweeps)
            rest = units[~exact], unknown[~exact]
            found[~exact] = fill_in(self, *rest, n_steps, method, *draws)
        return self._decode(found)

    def _encode_missing(self, X, missing):
        """Columns as units, and which of these are missing."""
        check_values(self, X, Rows(X))
        return X, missing

    def _encode_init(self, init):
        """Columns of values that chains are to start from, as units, after a check."""
        return check_states(self, init, self.n_features_in_, "init")[0]

    def _encode(self, X):
        """Columns of values that chains are to keep, as units."""
        return X

    def _decode(self, V):
        """Visible units that were drawn, as columns."""
        return V.astype(self.components_.dtype)
