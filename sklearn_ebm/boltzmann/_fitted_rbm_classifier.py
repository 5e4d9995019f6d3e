"""What a fitted classification RBM can do: the use of a model."""

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from .._class_scores import class_scores
from .._gibbs import Layer, Purpose, half_sweep
from .._panels import Panels
from .._rows import Rows
from .._transformer import Transformer
from .._units import Wanted, evaluate
from .._validation import (
    check_count,
    check_names,
    check_restored,
    check_rows,
    check_states,
    dense,
)
from ..layered import BITS, Layered
from ..samplers import Chains, Gibbs
from ..units import Categorical
from ._labels import codes_of
from ._predicted_labels import PredictedLabels
from ._sampling import OwnDraws

# Rows whose hidden fields are held at a time.
CHUNK = 2000
# What draws by NumPy are for, first states (part of their seeds), and draws of labels.
FIRST_STATES, LABEL = 5, int(Purpose.DRAW_LABEL)


class FittedRBMClassifier(PredictedLabels, OwnDraws, Transformer):
    """The use of a classification RBM.

    The estimator that derives from it sets `classes_`, `components_`,
    `label_components_`, the intercepts, `visible_mean_` and `_state` (whose "moments",
    if any, are those of features that are standardised), and has the parameter
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
            Means of the hidden units, without knowledge of the label: of the means
            under each label, weighted by ``p(y|v)``.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, or has other features than in `fit`.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If values of X lie outside [0, 1], by more than rounding, and those of the
            first data did not.
        """
        return self._transform(X)

    def _transform(self, X, quiet=False):
        check_is_fitted(self)
        X, rows = check_rows(self, X, quiet=quiet or self._takes_any_features())
        return scores_of(X, rows, self._parameters(), hidden=True)[1]

    def free_energy(self, X, y=None):
        """Compute the free energy of rows, or of rows and labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        y : array-like of shape (n_samples,), default=None
            Labels. None sums them out.

        Returns
        -------
        free_energy : ndarray of shape (n_samples,)
            F(v, y) or F(v) in nats, so that ``log p(v, y) = -F(v, y) - log Z`` and
            ``log p(v) = -F(v) - log Z``.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`; ValueError also if `y` does not have a label for every
            row, or has others than `classes_`.

        Warns
        -----
        UserWarning
            As in `transform`.
        """
        scores, rows = self._scores(X, exact=True)
        # b.v is the field of a unit whose weights are the visible biases.
        biases = self.intercept_visible_[np.newaxis].astype(rows.dtype)
        unit = Layer(Panels.from_columns(biases), np.zeros(1))
        field = np.empty((rows.n_rows, 1), rows.dtype)
        half_sweep(rows, unit, fields=field)
        if y is None:
            found = logsumexp(scores, axis=1)
        else:
            found = scores[np.arange(rows.n_rows), self._codes(y, rows.n_rows)]
        return -found - field[:, 0]

    def sample(
        self,
        n_samples=None,
        *,
        y=None,
        n_gibbs_steps=1000,
        init=None,
        random_state=None,
    ):
        """Draw samples from the model by Gibbs sampling, for given labels or any.

        Parameters
        ----------
        n_samples : int, default=None
            Number of samples, each from a chain of its own. None means one for each
            label in `y` or row of `init`, or else 1.

        y : label or array-like of shape (n_samples,), default=None
            Labels that the chains keep, so that the samples come from ``p(v|y)``.
            None draws labels too.

        n_gibbs_steps : int, default=1000
            Gibbs steps of every chain. Few steps give samples that still resemble
            `init`; with 0 they are `init`.

        init : array-like of shape (n_samples, n_features), default=None
            Values of the visible units to start from. None starts every chain at
            independent features with the means of the training data.

        random_state : int, RandomState instance or None, default=None
            Seeds the draws. None goes on with the model's own sequence, which the
            `random_state` of the fit determines.

        Returns
        -------
        v : ndarray of shape (n_samples, n_features)
            Binary values of the visible units.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If `n_samples` is less than 1, or `n_gibbs_steps` than 0; `y` or `init` have
            other than `n_samples` rows; `y` has labels that are not in `classes_`; or
            `init` has other features than in `fit`, or values that are not finite.
        TypeError
            If a number is no integer, or `init` holds dates or times.

        Warns
        -----
        UserWarning
            If values of `init` lie outside [0, 1], by more than rounding.

        Notes
        -----
        Samples mean something if the objective has had a generative part: with
        "discriminative" the model has learned nothing of ``p(v)``.
        """
        check_is_fitted(self)
        if n_samples is None:
            given = [each for each in (y, init) if np.ndim(each) > 0]
            n_samples = np.shape(given[0])[0] if given else 1
        n_samples = check_count(n_samples, "n_samples", least=1)
        n_steps = check_count(n_gibbs_steps, "n_gibbs_steps", least=0)
        codes = None if y is None else self._codes(y, n_samples)
        if init is not None:
            check_names(self, init, "init")
            init, rows = check_states(self, init, self.n_features_in_, "init")
            if rows.n_rows != n_samples:
                raise ValueError(
                    f"init has {rows.n_rows} rows, but n_samples={n_samples}."
                )
        key, step = self._draws(random_state)
        if random_state is None:
            self._use_draws(n_steps + 1)
        if init is None:
            rng = np.random.default_rng([key, step, FIRST_STATES])
            init = rng.random((n_samples, self.n_features_in_)) < self.visible_mean_
        if codes is None:
            v = self._draw_with_labels(init, n_steps, key, step)
        else:
            v = self._draw_given(codes, init, n_steps, key, step)
        return v.astype(self.components_.dtype)

    def _draw_given(self, codes, v, n_steps, key, step):
        """Visible units of chains after some steps, given the numbers of labels."""
        # A label is a group of visible units of which one is on: here, bits that stay.
        joint = np.vstack([self.components_.T, self.label_components_.T])
        bias = np.concatenate([self.intercept_visible_, self.intercept_label_])
        labels = np.eye(len(self.classes_), dtype=bool)[codes]
        states = np.hstack([dense(v), labels])
        fixed = np.arange(len(joint)) >= self.n_features_in_
        chains = Chains(states, np.broadcast_to(fixed, states.shape), key, step + 1)
        sampler = Gibbs(Layered(BITS, (joint,), (bias, self.intercept_hidden_)))
        return sampler.step(chains, n_steps).visible[:, : self.n_features_in_]

    def _draw_with_labels(self, v, n_steps, key, step):
        """Visible units of chains after some steps, which draw the labels as well."""
        dtype, n_classes = self.components_.dtype, len(self.classes_)
        label = Categorical(n_classes).kernel(n_classes)
        down = Layer(Panels.from_rows(self.components_), self.intercept_visible_)
        of_label = Layer(
            Panels.from_rows(self.label_components_), self.intercept_label_
        )
        joint = np.hstack([self.components_, self.label_components_])
        up = Layer(Panels.from_columns(joint), self.intercept_hidden_)
        fields, _ = scores_of(v, Rows(v, dtype), self._parameters())
        v = dense(v)
        h = np.empty((len(v), len(joint)), bool)
        for at in range(step, step + n_steps):
            draw = {"key": key, "step": at}
            labels = evaluate(label, fields, Wanted.DRAWS, purpose=LABEL, **draw)
            seen = Rows(np.hstack([v, labels]), dtype)
            half_sweep(seen, up, samples=h, purpose=Purpose.DRAW_HIDDEN, **draw)
            hidden, v = Rows(h, dtype), np.empty(v.shape, bool)
            half_sweep(hidden, down, samples=v, purpose=Purpose.DRAW_VISIBLE, **draw)
            fields = np.empty((len(v), n_classes), dtype)
            half_sweep(hidden, of_label, fields=fields)
        return v

    def _takes_any_features(self):
        """Whether it was fitted as if features were standardised."""
        return self._state.get("moments") is not None

    def _label_scores(self, X):
        scores, rows = self._scores(X)
        return scores, rows.dtype

    def _scores(self, X, exact=False):
        """Scores of all classes, and the Rows of X."""
        check_is_fitted(self)
        dtype = self.components_.dtype if exact else None
        quiet = self._takes_any_features()
        X, rows = check_rows(self, X, model_dtype=dtype, quiet=quiet)
        return scores_of(X, rows, self._parameters())[0], rows

    def _parameters(self):
        return (
            self.components_,
            self.label_components_,
            self.intercept_hidden_,
            self.intercept_visible_,
            self.intercept_label_,
        )

    def _codes(self, y, n):
        """Numbers of the classes of n labels, or of one for all."""
        y = np.asarray(y)
        if y.shape not in ((), (n,)):
            raise ValueError(f"y must be {n} labels, one a row, got shape {y.shape}.")
        return codes_of(np.broadcast_to(y, n), self.classes_)

    def _check_restored(self):
        (n_hidden, n_visible), n_classes = self.components_.shape, len(self.classes_)
        shapes = {
            "label_components_": (n_hidden, n_classes),
            "intercept_hidden_": (n_hidden,),
            "intercept_visible_": (n_visible,),
            "intercept_label_": (n_classes,),
        }
        check_restored(self, shapes)


def scores_of(X, rows, parameters, hidden=False):
    """log p(v, y) of rows X, up to what the classes share; each row by itself.

    Returns also the means of the hidden units given the rows, if asked for.
    """
    components, labels, intercept_hidden, _, intercept_label = parameters
    weights = Panels.from_columns(components.astype(rows.dtype, copy=False))
    layer = Layer(weights, intercept_hidden)
    labels = labels.astype(rows.dtype, copy=False)
    scores = np.empty((rows.n_rows, labels.shape[1]))
    means = np.empty((rows.n_rows, layer.n_units), rows.dtype) if hidden else None
    for start in range(0, rows.n_rows, CHUNK):
        part = slice(start, start + CHUNK)
        chunk = rows if rows.n_rows <= CHUNK else Rows(X[part], rows.dtype, False)
        fields = np.empty((chunk.n_rows, layer.n_units), rows.dtype)
        half_sweep(chunk, layer, fields=fields)
        scores[part] = class_scores(
            fields, labels, intercept_label, means[part] if hidden else None
        )
    return scores, means
