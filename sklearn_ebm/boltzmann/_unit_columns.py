"""Tables as visible units, for estimators with a parameter `visible`."""

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._missing import fill_mean_field, has_missing, missing_values
from .._parameters import StrOptions
from .._rows import canonical
from .._units import MOST_FIELD, Kind
from .._validation import (
    check_rows,
    check_states,
    in_dense,
    naming,
    refuse_unseen,
    title,
)
from .._warning import warn
from ..samplers._models import LEAST_RATE
from ..units import BY_NAME, Unit, are, check_pair, kinds_of, with_gaussian
from ._columns import Columns
from ._structure import as_made
from ._visible_scales import bias_for

# What the parameter `visible` takes.
VISIBLE = [StrOptions({*BY_NAME, "categorical"}), Unit, list]


class UnitColumns:
    """Reads tables as the visible units that parameter `visible` names."""

    def _columns(self):
        """Which visible units the columns are."""
        return Columns(
            as_made(self, "visible"),
            np.empty((0, self.n_features_in_)),
            getattr(self, "feature_names_in_", None),
            getattr(self, "n_categories_", None),
        )

    def _sees(self, kind):
        """Whether there are visible units of a kind."""
        return kind in kinds_of(self._columns().unit)

    @property
    def _fills_missing(self):
        """Whether every method that uses a model takes missing values."""
        return self.missing == "latent"

    def _refuse_missing(self, X):
        """Raise an error if values are missing."""
        if not has_missing(X):
            return
        name, remedy = type(self).__name__, "takes missing values in impute only"
        if "missing" in self.get_params(deep=False):
            remedy = "takes them for values that are not known with missing='latent'"
        raise ValueError(f"Input X contains NaN. {name} {remedy}{in_dense(X)}.")

    def _warn_of_endless_counts(self, components, bias):
        """Warn if there are states of the bits above in which a count has no bounds.

        As log Z is about as large as the mean of any count in any state, these states
        have all the probability. Chains may not have found them in training; then
        nothing else tells.
        """
        counts = are(self._columns().kinds, Kind.POISSON)
        most = np.maximum(components[:, counts], 0).sum(axis=0, dtype=float)
        endless = bias[counts] + most > MOST_FIELD
        if endless.any():
            warn(
                f"Counts of {title(self)} can grow without bounds: in some states of "
                f"the hidden units the means of {endless.sum()} of them are beyond "
                "1e13, and such states have all the probability. Lower learning_rate, "
                f"which was {self._lowest_rate():.2g} for counts: the larger they are, "
                "the smaller it has to be.",
                ConvergenceWarning,
            )

    def _base_layer(self):
        """Independent visible units near the model's: what they are, their biases."""
        columns, mean = self._columns(), self.visible_mean_.astype(float)
        variance = np.square(self.visible_scale_.astype(float))
        bias = bias_for(columns.kinds, mean, LEAST_RATE)
        return (
            with_gaussian(columns.unit, mean, variance),
            np.where(columns.gaussian, 0.0, bias),
        )

    def _read(self, X, quiet=False, exact=False):
        """Validate data to use a model on: visible units, and what to compute in.

        Of what is no float that is the dtype of the model if `exact`.
        """
        check_is_fitted(self)
        columns, missing = self._columns(), self._fills_missing

        def fill(X):
            if not missing:
                self._refuse_missing(X)
            columns.check(self, X, quiet=quiet)
            X = columns.encode(X, few=True)
            if missing:
                X = fill_mean_field(self._layered(), X, self.visible_mean_)
            return X

        dtype = self.variance_.dtype if exact else None
        X, rows = check_rows(self, X, model_dtype=dtype, fill=fill, quiet=True)
        return X, rows.dtype

    def _read_training(self, X, drawn, goes_on, hidden):
        """Validate data to train on, where `hidden` units are next to the visible ones.

        Returns visible units and their `Rows`.
        """
        found = {}

        def fill(X):
            if drawn is None:
                self._refuse_missing(X)
            elif not goes_on:
                refuse_unseen(missing_values(X))
            known = self.n_categories_ if goes_on else None
            names = getattr(self, "feature_names_in_", None)
            columns = Columns(self.visible, X, names, known)
            check_pair(columns.unit, hidden)
            columns.check(self, X)
            columns.warn_of_bits(self, X)
            found["n_categories_"] = columns.n_categories
            X = columns.encode(X)
            if drawn is None:
                return X
            return drawn.fill(X, ~columns.binary)

        X, rows = check_rows(
            self,
            X,
            reset=not goes_on,
            dtype=self._dtype() if goes_on else None,
            fill=fill,
            quiet=True,
        )
        self.__dict__.update(found)
        return X, rows

    def _visible_layer(self, weights, bias):
        """What `Layered` has of the fitted visible units: unit, weights and biases.

        There the bias of a Gaussian unit is its mean, and its weights are divided by
        its variance.
        """
        columns, variance = self._columns(), self.variance_.astype(float)
        unit = with_gaussian(columns.unit, bias.astype(float), variance)
        if columns.gaussian.any():
            weights = (weights / variance[:, np.newaxis]).astype(weights.dtype)
        return unit, weights, np.where(columns.gaussian, 0, bias)

    def _encode_missing_columns(self, X, missing):
        """Columns as visible units, and which of these are missing."""
        columns = self._columns()
        columns.check(self, np.where(missing, np.nan, X))
        return columns.encode(X), np.repeat(missing, columns.sizes, axis=1)

    def _encode_init_columns(self, init):
        """Columns of values that chains are to start from, as visible units.

        Also returns what to compute in.
        """
        X, rows = check_states(self, init, self.n_features_in_, "init", quiet=True)
        if sp.issparse(X):
            # Only the sum of numbers in one place is a value.
            X = canonical(X)
        columns = self._columns()
        with naming("init"):
            columns.check(self, X)
        return columns.encode(X), rows.dtype

    def _encode_columns(self, X):
        """Columns of values that chains are to keep, as visible units."""
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"conditions has {X.shape[1]} columns, but the model has "
                f"{self.n_features_in_} features."
            )
        columns = self._columns()
        if not columns.has_codes:
            return X
        with naming("conditions"):
            columns.check(self, X, quiet=True)
        return columns.encode(X)
