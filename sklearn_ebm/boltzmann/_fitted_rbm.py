"""What every fitted restricted Boltzmann machine can do: the use of a model."""

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .._gibbs import Layer, half_sweep
from .._missing import fill_mean_field, missing_values
from .._panels import Panels
from .._rows import Rows
from .._scores import score_rows
from .._transformer import Transformer
from .._validation import check_restored, check_rows, check_states, check_values, naming
from ..layered import Layered
from ..samplers import Chains, Gibbs
from ..samplers._chains import as_values
from ._sampling import Sampling

# Numbers in sparse rows, as a share of the features, for which only some of the weights
# are packed: otherwise that would take longer than all the rest.
FEW = 0.25


class FittedRBM(Sampling, Transformer):
    """The use of a restricted Boltzmann machine of Bernoulli units.

    An estimator that derives from it sets `components_`, `intercept_hidden_`,
    `intercept_visible_` and `visible_mean_`, and has the parameters `missing` and
    `random_state`.
    """

    _takes_sparse = True

    def transform(self, X):
        """Compute the probabilities of the hidden units, p(h=1|v=X).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data to be transformed.

        Returns
        -------
        h : ndarray of shape (n_samples, n_components)
            Means of the hidden units.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, or has other features than in `fit`.
            NaN is taken with ``missing="latent"``, in a dense array.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If values of X lie outside [0, 1], by more than rounding.
        """
        return self._transform(X)

    def _transform(self, X, quiet=False):
        check_is_fitted(self)
        X, rows = check_rows(self, X, scan=False, fill=self._mean_field())
        if sp.issparse(X) and 0 < X.nnz <= FEW * X.shape[1]:
            rows, up = self._of_active(X, rows.dtype)
        else:
            up = self._up(rows.dtype)
        means = means_of(rows, up)
        check_values(self, X, rows, quiet=quiet)
        return means

    def inverse_transform(self, X):
        """Compute the probabilities of the visible units, p(v=1|h=X).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_components)
            States or means of the hidden units.

        Returns
        -------
        v : ndarray of shape (n_samples, n_features)
            Means of the visible units.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, a column for every hidden unit.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If values of X lie outside [0, 1], by more than rounding.
        """
        check_is_fitted(self)
        _, rows = check_states(self, X, self.components_.shape[0], "X")
        return means_of(rows, self._down(rows.dtype))

    def reconstruct(self, X):
        """Reconstruct data from the means of the hidden units.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        Returns
        -------
        v : ndarray of shape (n_samples, n_features)
            ``inverse_transform(transform(X))``, deterministic.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.
        """
        return self.inverse_transform(self.transform(X))

    def free_energy(self, X):
        """Compute the free energy F(v) = -log sum_h exp(-E(v, h)).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        Returns
        -------
        free_energy : ndarray of shape (n_samples,)
            Free energies in nats, so that ``log p(v) = -F(v) - log Z``.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`; NaN is an error whatever `missing` is.

        Warns
        -----
        UserWarning
            As in `transform`.
        """
        check_is_fitted(self)
        _, rows = check_rows(self, X, model_dtype=self.components_.dtype)
        return score_rows(rows, self._up(rows.dtype), self.intercept_visible_)

    def score_samples(self, X):
        """Compute the pseudo-log-likelihood of X.

        The sum over the features of ``log p(v_i | all other features)``; a value
        between 0 and 1 counts as the mean over binary values with that
        probability (a cross-entropy). Exact, deterministic, each row by itself;
        takes O(n_features * n_components) a row. With ``missing="latent"`` features
        that are missing (NaN) are left out of the sum, and are at their mean-field
        values for the others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        Returns
        -------
        pseudo_likelihood : ndarray of shape (n_samples,)
            Pseudo-log-likelihoods in nats.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.

        Warns
        -----
        UserWarning
            As in `transform`.
        """
        check_is_fitted(self)
        skipped = None

        def fill(X):
            nonlocal skipped
            missing = missing_values(X)
            if missing is not None:
                # The kernel reads rows; missing values lie as those of X do.
                skipped = np.ascontiguousarray(missing, np.uint8)
            return fill_mean_field(self._layered(), X, self.visible_mean_)

        _, rows = check_rows(
            self,
            X,
            model_dtype=self.components_.dtype,
            fill=fill if self.missing == "latent" else None,
        )
        return score_rows(
            rows,
            self._up(rows.dtype),
            self.intercept_visible_,
            self.components_.astype(rows.dtype, copy=False),
            skipped=skipped,
        )

    def score(self, X, y=None):
        """Compute the mean of `score_samples` over the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        score : float
            The mean, in nats a row.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `score_samples`.
        """
        return float(self.score_samples(X).mean())

    def gibbs(self, v):
        """Perform one Gibbs sampling step.

        Parameters
        ----------
        v : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units to start from.

        Returns
        -------
        v_new : ndarray of shape (n_samples, n_features)
            Binary (bool) values of the visible units after one step.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `free_energy`, of `v`.

        Warns
        -----
        UserWarning
            As in `free_energy`, of `v`.

        Notes
        -----
        Successive calls use fresh random bits; the sequence of calls is
        reproducible from the `random_state` of the fit.
        """
        check_is_fitted(self)
        with naming("v"):
            X, _ = check_rows(self, v)
        sampler = Gibbs(self)
        chains = Chains(as_values(X), None, *self._draws())
        self._use_draws(1)
        return sampler.step(chains).visible

    def _layered(self):
        """Return the fitted model as a value."""
        check_is_fitted(self)
        return layered(
            self.components_, self.intercept_hidden_, self.intercept_visible_
        )

    def _up(self, dtype):
        """Return the direction visible -> hidden, for data of this dtype."""
        components = self.components_.astype(dtype, copy=False)
        return Layer(Panels.from_columns(components), self.intercept_hidden_)

    def _of_active(self, X, dtype):
        """Return sparse rows, and `_up`, without the features that all rows lack."""
        columns, places = np.unique(X.indices, return_inverse=True)
        shape = X.shape[0], len(columns)
        rows = Rows(sp.csr_array((X.data, places, X.indptr), shape), dtype, False)
        components = self.components_[:, columns].astype(dtype, copy=False)
        return rows, Layer(Panels.from_columns(components), self.intercept_hidden_)

    def _down(self, dtype):
        """Return the direction hidden -> visible, for states of this dtype."""
        components = self.components_.astype(dtype, copy=False)
        return Layer(Panels.from_rows(components), self.intercept_visible_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "latent"
        return tags

    def _check_restored(self):
        n_hidden, n_visible = self.components_.shape
        shapes = {"intercept_hidden_": (n_hidden,), "intercept_visible_": (n_visible,)}
        check_restored(self, shapes)

    def _mean_field(self):
        """Return what puts mean-field values in place of NaN, if there may be any."""
        if self.missing == "raise":
            return None
        return lambda X: fill_mean_field(self._layered(), X, self.visible_mean_)


def layered(components, hidden, visible):
    return Layered(("bernoulli", "bernoulli"), (components.T,), (visible, hidden))


def means_of(rows, layer):
    means = np.empty((rows.n_rows, layer.n_units), dtype=rows.dtype)
    half_sweep(rows, layer, means=means)
    return means
