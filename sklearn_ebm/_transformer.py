"""What the transformers of the package have in common."""

from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer that keeps float32, fitted as soon as it has `components_`.

    An estimator that derives from it has `_check_restored`, which refuses fitted
    attributes that do not fit each other.
    """

    # Whether its features may come as a sparse matrix.
    _takes_sparse = False

    @property
    def _n_features_out(self):
        return len(self.components_)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "components_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __setstate__(self, state):
        super().__setstate__(state)
        if self.__sklearn_is_fitted__():
            self._check_restored()
