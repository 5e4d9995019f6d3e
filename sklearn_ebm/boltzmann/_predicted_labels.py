"""What classifiers tell of labels, once they have a score for each."""

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_consistent_length

from ._labels import labels_of, no_label


class PredictedLabels(ClassifierMixin):
    """Labels, and their probabilities.

    An estimator that derives from it sets `classes_` and has `_label_scores`, which
    returns log p(y|v) of all labels for every row, up to what the labels share, and
    the dtype that results are to have; and the parameter `unlabeled`.
    """

    def predict(self, X):
        """Predict the labels of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            The most probable labels.

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

        Warns
        -----
        UserWarning
            By `RBMClassifier`, if values of X lie outside [0, 1].
        """
        scores, _ = self._label_scores(X)
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X, y, sample_weight=None):
        """Compute the accuracy of the predicted labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        y : array-like of shape (n_samples,)
            True labels. Rows whose label is `unlabeled` do not count.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Share of the rows whose predicted label is that of y.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `predict`. Or if y has another number of rows than X, or no label.

        Warns
        -----
        UserWarning
            As in `predict`.
        """
        labels, known = labels_of(self, y)
        check_consistent_length(X, labels, sample_weight)
        if len(labels) and not known.any():
            raise no_label(self)
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)[known]
        labels, predicted = labels[known], self.predict(X)[known]
        return float(accuracy_score(labels, predicted, sample_weight=sample_weight))

    def predict_proba(self, X):
        """Compute the probabilities of the labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`; float64 for any X.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `predict`.

        Warns
        -----
        UserWarning
            As in `predict`.
        """
        # (In float32 they would round to 1 and to 0 where their logarithms do not.)
        scores, _ = self._label_scores(X)
        return softmax(scores.astype(float), axis=1)

    def predict_log_proba(self, X):
        """Compute the logarithms of the probabilities of the labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
            Log-probabilities in nats, in the order of `classes_`; float64 for any X.
            Finite also where `predict_proba` rounds to 0.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `predict`.

        Warns
        -----
        UserWarning
            As in `predict`.
        """
        scores, _ = self._label_scores(X)
        return log_softmax(scores.astype(float), axis=1)

    def decision_function(self, X):
        """Compute how much speaks for each label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            ``log p(y|v)`` less its mean over the labels; with two labels, the
            log-odds of ``classes_[1]``. In nats.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `predict`.

        Warns
        -----
        UserWarning
            As in `predict`.
        """
        scores, dtype = self._label_scores(X)
        if scores.shape[1] == 2:
            return (scores[:, 1] - scores[:, 0]).astype(dtype, copy=False)
        scores = scores - scores.mean(axis=1, keepdims=True)
        return scores.astype(dtype, copy=False)


def validation_of(scores, codes, class_weight=None):
    """Say how well scores of rows, as `_label_scores` returns them, tell their labels.

    These labels, numbers of the columns of the scores, are held out of the training.
    Each counts with the weight of its class.
    """
    own = log_softmax(scores, axis=1)[np.arange(len(codes)), codes]
    right = scores.argmax(axis=1) == codes
    weights = None if class_weight is None else np.asarray(class_weight, float)[codes]
    if weights is not None and not weights.any():
        weights = None  # Where no label counts, all are counted.
    return {
        "validation_log_likelihood": float(np.average(own.astype(float), 0, weights)),
        "validation_accuracy": float(np.average(right, 0, weights)),
    }
