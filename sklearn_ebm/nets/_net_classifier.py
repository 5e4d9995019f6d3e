"""Pretrained nets that are fine-tuned to classify."""

from numbers import Real

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from .._network import Softmax
from .._parameters import Interval, StrOptions
from .._validation import naming
from ..boltzmann._labels import (
    check_classes,
    check_labels,
    classes_among,
    codes_of,
    no_label,
    refuse_mark,
)
from ..boltzmann._predicted_labels import PredictedLabels, validation_of
from ._trainable_net import TrainableNet, partial_fit_available


class NetClassifier(PredictedLabels, TrainableNet):
    """What a pretrained net needs to learn labels, and to tell them.

    An estimator that derives from it has the parameters `class_weight` and
    `unlabeled` besides those of `TrainableNet`.
    """

    _parameter_constraints: dict = {
        **TrainableNet._parameter_constraints,
        "weight_decay": [Interval(Real, 0, None, closed="left"), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "unlabeled": [Real, str, None],
    }
    _watched = "accuracy"
    _learning_rates = {"sgd": 0.1, "adam": 0.005}
    # Longer steps against what all units of a wide layer share would overshoot.
    _wide = 25.0

    @partial_fit_available
    def partial_fit(self, X, y, classes=None):
        """Train the net on one pass over the rows of X, in minibatches.

        The first call pretrains the net on the rows that it is given. With
        ``objective="fine_tuning"`` rows without a label change nothing else.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, any number of rows.

        y : array-like of shape (n_samples,)
            Labels; `unlabeled` where they are not known.

        classes : array-like of shape (n_classes,), default=None
            All labels there will be. Needed in the first call of a model that has
            not been fitted; later calls may repeat it.

        Returns
        -------
        self : object
            The fitted model.

        Raises
        ------
        AttributeError
            If `solver` is "lbfgs", which does not learn from minibatches.
        ValueError
            As in `fit`; if `classes` are missing in the first call, are no labels or
            others than before, or lack labels of `y`; or with ``early_stopping=True``
            or ``class_weight="balanced"``.
        TypeError
            As in `fit`.

        Warns
        -----
        UserWarning, DataConversionWarning
            As in `fit`.
        """
        self._check_parameters()
        self._check_partial_fit()
        classes = check_classes(self, classes, hasattr(self, "_state"))
        return self._one_pass(X, y, classes)

    def _check_partial_fit(self):
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} is not supported by partial_fit, "
                "which does not know all labels: pass a dict of weights."
            )

    def _decays(self, n_rows):
        # A net that is trained until it has all labels right, as by Adam, grows ever
        # more sure. Its outputs are a logistic regression on the last hidden layer, the
        # weights of which are as likely as normal numbers before there are any rows:
        # the fewer rows, the more that counts. But errors that remain move the layers
        # below, and undo what the pretraining has found in them.
        if self.weight_decay is None:
            none = self._solver != "adam" or self._state.get("found")
            return 0.0, 0.0 if none else 1 / n_rows
        return super()._decays(n_rows)

    # ---- Use ----

    def _label_scores(self, X):
        scores = self._outputs(X)
        return scores, scores.dtype

    # ---- Targets ----

    def _check_targets(self, y):
        return check_labels(self, y)

    def _first_targets(self, checked, classes):
        """Return the part of the state that says what the targets are."""
        y, known = checked
        if classes is None:
            classes = classes_among(self, y, known)
        if len(classes) == 0:
            name = type(self).__name__
            raise no_label(
                self, f", from which {name} cannot learn what the classes are"
            )
        return {
            "classes": classes,
            "class_weight": self._class_weights(codes_of(y[known], classes), classes),
            "n_outputs": len(classes),
        }

    def _reweigh(self, codes):
        """Weigh the labels of a fit that goes on, as `class_weight` says now."""
        known = codes[codes >= 0]
        if len(known):
            weights = self._class_weights(known, self._state["classes"])
            self._state = self._state | {"class_weight": weights}

    def _class_weights(self, codes, classes):
        """Weights of the classes, which are 1 in the mean over these labels."""
        counts = np.bincount(codes, minlength=len(classes))
        if len(codes) == 0:  # All are still to come: as if each came as often.
            counts = np.ones(len(classes), int)
        weights = np.ones(len(classes))
        if self.class_weight is not None:
            self._refuse_strange_labels(classes.tolist())
            # (Classes that do not come cannot be balanced.)
            weighed = counts > 0 if self.class_weight == "balanced" else slice(None)
            with naming("class_weight"):
                weights[weighed] = compute_class_weight(
                    self.class_weight, classes=classes[weighed], y=classes[codes]
                )
        total = counts @ weights
        if (weights < 0).any() or not 0 < total < np.inf:
            raise ValueError(
                f"class_weight={self.class_weight!r} must be finite numbers that are "
                "not negative, and not 0 for all of y."
            )
        return weights * (counts.sum() / total)

    def _refuse_strange_labels(self, labels):
        """Refuse weights of what is no label, unless all labels have weights, too."""
        given = self.class_weight
        if isinstance(given, dict) and not all(label in given for label in labels):
            strange = [label for label in given if label not in labels]
            if strange:
                raise ValueError(
                    f"class_weight={given!r} has weights for {strange}, which are not "
                    f"among the labels {labels}."
                )

    def _targets(self, checked, state):
        """Numbers of the classes of all rows, and which are known: others are -1."""
        y, known = checked
        # (The mark may be another one than in the fit that goes on.)
        refuse_mark(self, state["classes"])
        codes = np.full(len(y), -1, np.int32)
        codes[known] = codes_of(y[known], state["classes"])
        return codes, known

    def _public(self, params, state):
        return super()._public(params, state) | {"classes_": state["classes"]}

    def _output(self, state):
        return Softmax(state["class_weight"])

    def _validation(self, fields, codes):
        return validation_of(fields, codes, self._state["class_weight"])
