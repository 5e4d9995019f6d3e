"""What a net that has been fine-tuned can do: the use of a model."""

from itertools import pairwise

from sklearn.utils.validation import check_is_fitted

from .._network import Network, outputs
from .._transformer import Transformer
from .._validation import check_rows


class FittedNet(Transformer):
    """The use of a net.

    An estimator that derives from it sets `coefs_`, `intercepts_`, `history_` and
    `_state`, and says what its outputs are (`_output`).
    """

    _takes_sparse = True

    def transform(self, X):
        """Compute the activities of the last hidden layer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data to be transformed.

        Returns
        -------
        h : ndarray of shape (n_samples, n_units)
            Activities, between 0 and 1.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, or has other features than in `fit`.
            Fitted with ``objective="multi_prediction"``, `DBMClassifier` takes NaN, in
            a dense array.
        TypeError
            If X holds dates or times.
        """
        return self._outputs(X, hidden=True)

    def _outputs(self, X, hidden=False):
        """Fields of the outputs, or activities of the last hidden layer."""
        check_is_fitted(self)
        X, rows = self._read(X)
        params = [each.astype(rows.dtype, copy=False) for each in self._params()]
        return outputs(self._network(self._state), params, self._inputs(X), hidden)

    @property
    def loss_curve_(self):
        """The objective in every epoch.

        Raises
        ------
        AttributeError
            If the net has not been fitted, or has not been fine-tuned.
        """
        if "loss" not in self.history_:
            raise AttributeError("loss_curve_ is of nets that are fine-tuned only.")
        return self.history_["loss"]

    # ---- The net: another kind of net says other things here ----

    def _read(self, X, reset=False):
        """Validate data: X, and its `Rows`."""
        # (Values that the visible units cannot represent are the pretraining's affair.)
        return check_rows(self, X, reset=reset, quiet=True)

    def _inputs(self, X, training=False):
        """Return what the net is given of rows of data, in `Descent` and `outputs`."""
        return X

    def _network(self, state, decays=(0.0, 0.0)):
        """Return the net, with these decays of all weights and of the output's."""
        return Network(self._output(state), *decays)

    def _params(self):
        """Return the parameters of the net, from the public attributes."""
        pairs = zip(self.coefs_, self.intercepts_, strict=True)
        return [each for pair in pairs for each in pair]

    @property
    def _n_features_out(self):
        return self.coefs_[-1].shape[0]

    def __sklearn_is_fitted__(self):
        return hasattr(self, "coefs_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check_restored(self):
        damage = self._damage()
        if damage is not None:
            raise ValueError(
                f"The restored {type(self).__name__} is damaged: {damage}."
            )

    def _damage(self):
        """Return what is wrong with the public attributes, or None."""
        shapes = [each.shape for each in self.coefs_]
        biases = [each.shape for each in getattr(self, "intercepts_", ())]
        joined = all(a[1] == b[0] for a, b in pairwise(shapes))
        if (
            not joined
            or biases != [shape[1:] for shape in shapes]
            or shapes[0][0] != self.n_features_in_
            or shapes[-1][1] != getattr(self, "n_outputs_", shapes[-1][1])
        ):
            return f"coefs_ have shapes {shapes}, intercepts_ {biases}"
        return None
