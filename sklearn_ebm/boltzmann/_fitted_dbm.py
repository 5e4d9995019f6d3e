"""What every fitted deep Boltzmann machine can do: the use of a model."""

import numpy as np
from scipy.special import logit
from sklearn.utils.validation import check_is_fitted

from .._deep_machines import DeepMachine
from .._transformer import Transformer
from .._validation import check_restored, check_states, dense
from ..layered import Layered, side_by_side
from ..samplers._models import LEAST_RATE
from ..units import as_unit
from ._columns import all_bits
from ._faults import warn_of_excess_probability
from ._normaliser import kept_log_z
from ._sampling import Sampling
from ._structure import as_made, component_shapes, gives_all
from ._unit_columns import UnitColumns


class FittedDBM(UnitColumns, Sampling, Transformer):
    """The use of a deep Boltzmann machine with Bernoulli hidden units.

    An estimator that derives from it sets `components_`, `intercepts_`, `variance_`,
    `visible_mean_` and `visible_scale_`, and has the parameters of `DBMTransformer`
    that say how mean field is done.
    """

    _takes_sparse = True
    missing = "raise"

    def transform(self, X):
        """Compute mean-field means of the hidden units, given the visible ones.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data to be transformed.

        Returns
        -------
        h : ndarray of shape (n_samples, n_hidden)
            Means of the highest hidden layer or, with ``output="all"``, of all
            hidden layers from the bottom up.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, has other features than in `fit`, or
            in columns of codes others than 0, 1, ... up to the largest in `fit`.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If X has values that the visible units cannot represent, or blocks of
            categories that do not sum to 1.
        """
        return self._transform(X)

    def _transform(self, X, quiet=False):
        return self._output(*self._read(X, quiet=quiet))

    def _output(self, X, dtype):
        of_all = gives_all(self)
        means = self._deep(dtype).means(X)
        # (A view of one layer would keep those beside it.)
        return np.hstack(means) if of_all else np.ascontiguousarray(means[-1])

    def inverse_transform(self, X):
        """Compute means of the visible units from those of hidden ones.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_hidden)
            States or means of hidden units, as `transform` returns them.

        Returns
        -------
        v : ndarray of shape (n_samples, n_features)
            Means of the visible units given the first hidden layer. From the highest
            layer alone (``output="top"``) the layers below it are found by mean
            field. In columns of codes, the likeliest category.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, with the columns of `transform`.
        TypeError
            If X holds dates or times.
        """
        check_is_fitted(self)
        X, rows = check_states(self, X, self._n_features_out, "X", quiet=True)
        machine = self._deep(rows.dtype)
        X = dense(X, machine.dtype)
        if gives_all(self):
            means = machine.visible_means(X[:, : len(self.intercepts_[1])])
        else:
            means = self._deep(machine.dtype, reverse=True).means(X)[-1]
        return self._columns().decode(means)

    def reconstruct(self, X):
        """Reconstruct data from the mean-field means of the first hidden layer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        Returns
        -------
        v : ndarray of shape (n_samples, n_features)
            Means of the visible units, deterministic.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`; NaN is always an error.

        Warns
        -----
        UserWarning
            As in `transform`.
        """
        X, dtype = self._read(X)
        machine = self._deep(dtype)
        return self._columns().decode(machine.visible_means(machine.means(X)[0]))

    def score_samples(self, X):
        """Compute a lower bound of the log-likelihood of X.

        The variational bound with the mean-field distribution of the hidden units,
        all odd layers summed out, less log Z. That is found when it is first needed,
        and kept: exactly if a side of the model has at most 2^14 states, otherwise
        by the larger of two estimates with a fixed seed, annealed importance sampling
        and the weights of states near rows of the training. With an estimate of log Z
        this is an estimate of a lower bound (see
        `sklearn_ebm.likelihood.log_partition`, which also tells its error).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        Returns
        -------
        bound : ndarray of shape (n_samples,)
            Bounds in nats.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`; NaN is always an error.

        Warns
        -----
        UserWarning
            As in `transform`. Or if scores cannot be right, since different rows of
            bits, categories or counts had more than all probability together.
        """
        X, dtype = self._read(X, exact=True)
        scores = self._deep(dtype).bound(X) - kept_log_z(self)
        warn_of_excess_probability(self, self._columns().kinds, X, scores)
        return scores

    def score(self, X, y=None):
        """Compute the mean bound of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        score : float
            Mean of `score_samples`, in nats a row.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `score_samples`.
        """
        return float(self.score_samples(X).mean())

    def _encode_missing(self, X, missing):
        X, missing = self._encode_missing_columns(X, missing)
        padding = (0, 0), (0, self._n_latent)
        return np.pad(X, padding), np.pad(missing, padding, constant_values=True)

    def _encode_init(self, init):
        """Values of even layers, from columns: of the visible one and those above."""
        X, dtype = self._encode_init_columns(init)
        return self._deep(dtype).even(dense(X, dtype))

    def _encode(self, X):
        padding = (0, 0), (0, self._n_latent)
        return np.pad(self._encode_columns(X), padding, constant_values=np.nan)

    def _decode(self, V):
        V = V[:, : len(self.intercepts_[0])]
        return self._columns().decode(V.astype(self.components_[0].dtype))

    @property
    def _n_latent(self):
        """Number of units of the even layers above the visible one."""
        return sum(map(len, self.intercepts_[2::2]))

    def _deep(self, dtype, *, reverse=False):
        """Return the model to compute with, upside down if wanted."""
        layers = self._layered()
        return DeepMachine(
            layers.reversed() if reverse else layers,
            dtype,
            n_steps=self.n_mean_field_steps,
            tolerance=self.mean_field_tol,
        )

    def _layered(self):
        """Return the fitted model as a value."""
        check_is_fitted(self)
        weights = [component.T for component in self.components_]
        unit, weights[0], bias = self._visible_layer(weights[0], self.intercepts_[0])
        if all_bits(as_made(self, "visible")):
            unit = "bernoulli"
        return Layered(
            (unit, *["bernoulli"] * len(weights)),
            tuple(weights),
            (bias, *self.intercepts_[1:]),
        )

    def _base_rates(self):
        """Means of independent Bernoulli units of the even layers, near the model's."""
        mean = self.visible_mean_.astype(float)[np.newaxis]
        return self._deep(np.float64).even(mean)[0]

    def _base_layer(self):
        """Independent units of the even layers near the model's, and their biases."""
        visible, bias = super()._base_layer()
        rates = np.clip(self._base_rates()[len(bias) :], LEAST_RATE, 1 - LEAST_RATE)
        return (
            as_unit(beside(visible, len(bias), len(rates))),
            np.concatenate([bias, logit(rates)]),
        )

    @property
    def _n_features_out(self):
        sizes = [len(component) for component in self.components_]
        return sum(sizes) if gives_all(self) else sizes[-1]

    def _check_restored(self):
        sizes = [len(bias) for bias in self.intercepts_]
        check_restored(self, {"components_": component_shapes(sizes)})
        self._columns()


def beside(visible, n_visible, n_latent):
    """Visible units with Bernoulli units of higher even layers beside them."""
    if not n_latent:
        return visible
    return side_by_side((visible, "bernoulli"), (n_visible, n_latent))
