"""The training of classification restricted Boltzmann machines."""

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from .._callbacks import CallbackSupportMixin, begin_fit, with_callbacks
from .._classifier_trainer import ClassifierTrainer
from .._keeping import keeping, store, undo_if_nothing_learned
from .._machines import some_rows, weighted_sums
from .._parameters import check_parameters
from .._rows import Rows
from .._stopping import Stopping
from .._training import (
    ENTRIES,
    KnownDivision,
    Run,
    mean_with,
    means_without,
    refuse_early_stopping,
    share_held_out,
)
from .._validation import check_rows, random_key
from .._warning import warn
from ..monitoring import train_epoch
from ._faults import warn_of_constant_labels
from ._fitted_rbm_classifier import FittedRBMClassifier, scores_of
from ._labels import (
    check_classes,
    check_labels,
    classes_among,
    codes_of,
    no_label,
    refuse_mark,
    warn_of_few_labels,
)
from ._predicted_labels import validation_of
from ._rbm_classifier_starts import spread_of_fields, start_for_labels, start_of_joint
from ._standardised import (
    Moments,
    moments_to_standardise,
    standard_for_steps,
    warn_of_narrow,
    warn_of_rounding,
)
from ._starts import SMALL, first_chains, last_chains
from ._structure import check_structure
from ._visible_scales import column_variances

# Learning rate and momentum along the gradient of p(y|v), which is exact.
RATE, MOMENTUM = 0.1, 0.9
# Learning rate of the generative part, which follows chains. With momentum, too, its
# steps must not be longer.
RATE_OF_CHAINS = 0.2
# What the kernel adds to the history of an epoch, of its rows with labels.
FOUND_ENTRIES = "log_likelihood", "accuracy"
# Weight of the generative part of the hybrid objective, of each row beside each label.
ALPHA = 0.01


class TrainableRBMClassifier(CallbackSupportMixin, FittedRBMClassifier):
    """The training of a classification RBM.

    An estimator that derives from it has the parameters of `RBMClassifier`.

    Training goes on from the dict `_state`, which is replaced as a whole, never changed
    in place. It holds

    - "parameters", in the order in which `_fitted` makes them public, not averaged,
    - "visible_mean" of the "n_seen" rows so far and, where features are standardised,
      their "moments" (otherwise None),
    - "key" and "step", which say what random numbers come next,
    - "velocity", after steps with momentum, the "scales" of these steps, or None, and
      "structure".
    """

    # Whether it is more than the top of a net, which warns by itself.
    _stands_alone = True

    # ---- Training ----

    @undo_if_nothing_learned
    @with_callbacks
    def fit(self, X, y):
        """Fit the model to the data X and the labels y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, values in [0, 1] where the objective has a generative part.

        y : array-like of shape (n_samples,)
            Labels: numbers or strings; `unlabeled` where they are not known.

        Returns
        -------
        self : RBMClassifier
            The fitted model.

        Raises
        ------
        ValueError
            If parameters are not allowed; X is not a matrix of finite numbers; `y` is
            of another length, holds no labels (but real numbers or NaN), strings among
            others, or none where one is needed; `validation_fraction` leaves nothing to
            train on; with `warm_start`, X, `y` or `n_components` do not fit the model
            so far; or training diverges, which leaves the estimator as it was.
        TypeError
            If X holds dates or times, or `y` is sparse.

        Warns
        -----
        UserWarning
            If values of X lie outside [0, 1], by more than rounding, where the
            objective has a generative part or those of the first data did not; if a
            feature hardly varies there, and the objective has such a part; if rows
            without a label are left out, as they are with
            ``objective="discriminative"``; if so few rows have labels that
            ``objective="generative"`` learns little of them; if no row has the mark
            `unlabeled`; or if features lie so far from 0 that rounding hides how they
            vary.
        ConvergenceWarning
            If the probabilities of the labels are nearly the same for all rows.
        DataConversionWarning
            If `y` is a matrix of one column.
        """
        check_parameters(self)
        goes_on = self.warm_start and hasattr(self, "_state")
        given = X, y
        X, rows, codes, division = self._begin(X, y, None, goes_on)
        if goes_on and self.n_iter == 0:
            return self
        n_rows = len(np.asarray(y))
        if len(codes) < n_rows and self._stands_alone:
            warn(
                "objective='discriminative' learns nothing from rows without a label "
                f"({n_rows - len(codes)} of {n_rows}); objective='hybrid' does."
            )
        if self.objective == "generative" and self.n_iter and self._stands_alone:
            warn_of_few_labels(codes, n_rows, "hybrid")
        if goes_on:
            self._go_on(X, rows, division, n_seen=0)
        task = begin_fit(self, self.n_iter, *given)
        monitor = stopping = None
        if self.early_stopping:
            monitor = _HeldOut(X, codes, division.held_out, self._dtype())
            stopping = Stopping(self.monitor, self.tol, self.n_iter_no_change)
        run = Run(self._trainer(rows, codes, division), division, monitor, stopping)
        with keeping(self, run):
            rate, schedule = self._rate(division), self.learning_rate_schedule
            for _, rates, averaging in run.epochs(
                self, self.n_iter, rate, schedule, task
            ):
                train_epoch(self, run, rates, averaging, _in_words)
        if self.n_iter and self._stands_alone:
            remedies = ["more epochs", "another learning_rate"]
            if self.objective != "discriminative":
                remedies.append("objective='discriminative'")
            self._warn_of_constant_labels(X, remedies)
        task.end(dict)
        return self

    def fit_transform(self, X, y):
        """Fit the model to the data X and the labels y, and transform X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, as for `fit`.

        y : array-like of shape (n_samples,)
            Labels, as for `fit`.

        Returns
        -------
        h : ndarray of shape (n_samples, n_components)
            What `transform` returns.

        Raises
        ------
        ValueError, TypeError
            As in `fit`.

        Warns
        -----
        UserWarning
            As in `fit`.
        """
        return self.fit(X, y)._transform(X, quiet=True)

    @undo_if_nothing_learned
    def partial_fit(self, X, y, classes=None):
        """Train the model on one pass over the rows of X, in minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, any number of rows, values as for `fit`.

        y : array-like of shape (n_samples,)
            Labels; `unlabeled` where they are not known. Later calls may have no
            label at all, of which discriminative training learns nothing.

        classes : array-like of shape (n_classes,), default=None
            All labels there will be. Needed in the first call of a model that has
            not been fitted; later calls may repeat it.

        Returns
        -------
        self : RBMClassifier
            The fitted model.

        Raises
        ------
        ValueError
            As in `fit`; if `classes` are missing in the first call, are no labels or
            others than before, or lack labels of `y`; or with ``early_stopping=True``.
        TypeError
            As in `fit`.

        Warns
        -----
        UserWarning, DataConversionWarning
            As in `fit`.
        """
        check_parameters(self)
        refuse_early_stopping(self)
        goes_on = hasattr(self, "_state")
        classes = check_classes(self, classes, goes_on)
        X, rows, codes, division = self._begin(
            X, y, classes, goes_on, may_be_empty=goes_on
        )
        if len(codes) == 0:
            return self
        if goes_on:
            self._go_on(X, rows, division, n_seen=self._state["n_seen"])
        run = Run(self._trainer(rows, codes, division), division)
        rates = np.full(run.n_batches, self._rate(division))
        with keeping(self, run):
            train_epoch(self, run, rates, self.average, _in_words)
        return self

    def _begin(self, X, y, classes, goes_on, may_be_empty=False):
        """Check the data; begin with new parameters, or go on with those there are.

        Returns X, its Rows, the number of every row's class (-1 if not known) and
        which rows are trained on: with `may_be_empty` none, perhaps, if there is no
        label to learn from.
        """
        labels, known = check_labels(self, y)
        if goes_on:
            check_structure(self, self._state["structure"])
        dtype = self._dtype() if goes_on else None
        # Where nothing is said of the features themselves, they may be any numbers.
        takes_any = self._takes_any_features() if goes_on else True
        quiet = takes_any and not self._models_features()
        X, rows = check_rows(self, X, reset=not goes_on, dtype=dtype, quiet=quiet)
        check_consistent_length(X, labels)
        if classes is None:
            classes = self.classes_ if goes_on else classes_among(self, labels, known)
        # (The mark may be another one than in the fit that goes on.)
        refuse_mark(self, classes)
        codes = np.full(len(labels), -1, np.int32)
        codes[known] = codes_of(labels[known], classes)
        if self.objective == "discriminative" and not known.all():
            # Rows without a label must not matter, not even in the means.
            X, codes = X[known], codes[known]
            rows = Rows(X, rows.dtype) if len(codes) else rows
        if len(classes) == 0 or (len(codes) == 0 and not may_be_empty):
            missed = "what the classes are" if len(classes) == 0 else "anything"
            name = f"{type(self).__name__}(objective={self.objective!r})"
            raise no_label(self, f", from which {name} cannot learn {missed}")
        rng = check_random_state(self.random_state)
        key = self._state["key"] if goes_on else random_key(rng)
        known = codes >= 0
        fraction = share_held_out(self)
        division = KnownDivision(known, fraction, key, "labels", True, codes)
        if not goes_on:
            # (How many rows there will be, the first of `partial_fit` do not say.)
            n_rows = np.inf if may_be_empty else division.n_rows
            self._initialise(X, rows, codes, classes, division, n_rows, key, rng)
        return X, rows, codes, division

    def _begin_only(self, X, y, classes):
        """Take first parameters, and learn nothing.

        (A `fit` of no epochs would know the classes of these rows only.)
        """
        _, rows, codes, division = self._begin(X, y, classes, goes_on=False)
        store(self, Run(self._trainer(rows, codes, division), division))

    def _models_features(self):
        """Whether the objective says anything of the features themselves."""
        if self.objective == "hybrid":
            return self.alpha is None or self.alpha > 0
        return self.objective == "generative"

    def _structure(self):
        """What the machine is made of (see `check_structure`)."""
        return {"n_components": repr(int(self.n_components))}

    def _dtype(self):
        """Dtype of the model that training goes on from."""
        return self._state["parameters"][0].dtype

    def _initialise(self, X, rows, codes, classes, division, n_in_all, key, rng):
        """Parameters and random keys before the first epoch, of so many rows in all."""
        mean, n_rows = means_without(X, rows, division.held_out), division.n_rows
        n, n_classes = len(mean), len(classes)
        components = rng.normal(0, SMALL, (self.n_components, n))
        labels = rng.normal(0, SMALL, (self.n_components, n_classes))
        known = codes[division.training]
        counts = np.bincount(known[known >= 0], minlength=n_classes) + 0.5
        shares = counts / counts.sum()
        moments = self._first_moments(X, division)
        if self.objective == "generative":
            parameters = start_of_joint(components, labels, mean, n_rows, shares)
        else:
            components, hidden, visible = self._start_for_labels(
                components, X, rows.dtype, mean, moments, division, n_in_all
            )
            parameters = components, labels, hidden, visible, np.log(shares)
        self.classes_ = classes
        self._state = {
            "parameters": tuple(
                np.ascontiguousarray(part, rows.dtype) for part in parameters
            ),
            "visible_mean": mean,
            "n_seen": n_rows,
            "key": key,
            "step": 0,
            "structure": self._structure(),
            "moments": moments,
        }
        self._sampling_key, self._sampling_step = random_key(rng), 0
        self.n_iter_ = 0
        self.history_ = {name: [] for name in [*ENTRIES, *FOUND_ENTRIES]}
        self.__dict__.pop("h_samples_", None)

    def _start_for_labels(self, weights, X, dtype, mean, moments, division, n_in_all):
        """What `start_for_labels` makes of small random weights and these data."""
        n = len(mean)
        standard = [np.zeros(n), np.ones(n)]
        if moments is not None:
            standard = standard_for_steps(moments, dtype)
            warn_of_rounding(standard, dtype)
        variance = column_variances(X, some_rows(division.training), mean)
        unlabelled = self._models_features() and 2 * division.n_known < division.n_rows
        spread = spread_of_fields(n, n_in_all, unlabelled)
        return start_for_labels(
            weights, mean, variance, division.n_rows, standard, spread
        )

    def _first_moments(self, X, division):
        """What the features of a new model are standardised by, if they are."""
        if not self._models_features():
            return moments_to_standardise(division.rows_of(X))
        if self._stands_alone:
            warn_of_narrow(division.rows_of(X), self.objective)
        return None

    def _go_on(self, X, rows, division, n_seen):
        """Take rows to train on into the mean of the n_seen rows before them."""
        more = means_without(X, rows, division.held_out)
        mean, n_in_all = mean_with(
            self._state["visible_mean"], n_seen, more, division.n_rows
        )
        state = {"visible_mean": mean, "n_seen": n_in_all}
        if self._takes_any_features():
            before, moments = self._state["moments"], Moments.of(division.rows_of(X))
            constants, woken = before.constants(), []
            if constants is not None:
                woken = constants[0, moments.vary(constants)].astype(int)
            if n_seen:  # the rows before them may have been few
                moments = before.with_those_of(moments)
            state["moments"] = moments
            if len(woken):
                state["parameters"] = self._woken(woken, before, moments)
        self._state = self._state | state

    def _woken(self, woken, before, moments):
        """Parameters for features that vary for the first time, of any size.

        They begin with weights as they would have, had they varied before; what these
        add to the fields in the rows so far stays as it was.
        """
        weights, labels, hidden, *others = self._state["parameters"]
        last, now = (
            standard_for_steps(each, weights.dtype)[1] for each in (before, moments)
        )
        ratio = np.ones(len(now))
        ratio[woken] = (last / now)[woken]
        fields = weighted_sums(weights, before.mean * (1 - ratio))
        new = (weights * ratio, labels, hidden + fields, *others)
        return tuple(np.ascontiguousarray(part, weights.dtype) for part in new)

    def _trainer(self, rows, codes, division):
        """Return a kernel that goes on from the state of the training."""
        state, scales = self._state, self._scales(rows.dtype)
        discriminative, generative, weight_decay = self._shares(division)
        chains = self._chains() if self.persistent and generative else None
        trainer = ClassifierTrainer(
            rows,
            codes,
            state["parameters"],
            batch_size=self.batch_size,
            key=state["key"],
            step=state["step"],
            discriminative=discriminative,
            generative=generative,
            offset=state["visible_mean"],
            n_gibbs_steps=self.n_gibbs_steps,
            chains=chains,
            scales=scales,
        )
        trainer.momentum = self._momentum()
        trainer.weight_decay = weight_decay
        if trainer.momentum:
            trainer.start_velocity(self._last_velocity(scales))
        return trainer

    def _shares(self, division):
        """How much of a step is discriminative, generative and decay.

        The first is for each row with a label. Minibatches have their share of such
        rows on average only: a sum, scaled once for all, estimates their mean without
        bias.
        """
        weights = {"discriminative": (1, 0), "generative": (0, 1)}
        discriminative, generative = weights.get(
            self.objective, (1, self._alpha(division))
        )
        rows_a_label = _rows_a_label(division)
        # A row counts as much as a whole minibatch at most: where labels are rarer, all
        # steps are as much shorter, along the same gradient in the mean.
        weight_decay, most = self.weight_decay, min(self.batch_size, division.n_rows)
        if discriminative and rows_a_label > most:
            generative *= most / rows_a_label
            weight_decay *= most / rows_a_label
            rows_a_label = most
        return discriminative * rows_a_label, generative, weight_decay

    def _scales(self, dtype):
        """How many times as long the steps of every feature are, or None."""
        if self._models_features() or not self._takes_any_features():
            return None
        return standard_for_steps(self._state["moments"], dtype)[1] ** -2

    def _last_velocity(self, scales):
        """The velocity to start from, if any, of steps that are scaled like this.

        The last steps were scaled otherwise if deviations have changed since. Weights
        have to go on as fast as they did, since the biases do: of features far from 0
        fields would be swept along.
        """
        velocity, last = self._state.get("velocity"), self._state.get("scales")
        if velocity is None or (last is None and scales is None):
            return velocity
        ratio = (1.0 if last is None else last) / (1.0 if scales is None else scales)
        weights = velocity[0] * ratio.astype(velocity[0].dtype)
        return (weights, *velocity[1:])

    def _momentum(self):
        """The momentum that is given, or the default of the objective."""
        if self.momentum is None:
            return 0.0 if self.objective == "generative" else MOMENTUM
        return float(self.momentum)

    def _rate(self, division):
        """The learning rate that is given, or the default of the objective."""
        if self.learning_rate is not None:
            return float(self.learning_rate)
        if self.objective == "generative":
            return RATE_OF_CHAINS
        if self.objective == "discriminative":
            return RATE
        # Rows with a label weigh more where they are rarer, and so does their noise.
        rarity = np.clip(_rows_a_label(division), 1, self.batch_size)
        rate = RATE / np.sqrt(rarity)
        alpha = self._alpha(division)
        if alpha > 0:
            most = RATE_OF_CHAINS * (1 - self._momentum()) / alpha
            rate = min(rate, most)
        return float(rate)

    def _alpha(self, division):
        """The weight of the generative part that is given, or the default."""
        if self.alpha is not None:
            return float(self.alpha)
        rows_a_label = _rows_a_label(division)
        return min(1.0, ALPHA * rows_a_label) if rows_a_label else 1.0

    def _chains(self):
        """Hidden states to start from: the last ones, or new ones."""
        chains = last_chains(self, self.batch_size)
        if chains is not None:
            return chains
        state = self._state
        components, _, intercept, *_ = state["parameters"]
        return first_chains(
            components,
            intercept,
            state["visible_mean"],
            self.batch_size,
            state["key"],
            state["step"],
        )

    def _warn_of_constant_labels(self, X, remedies, model=None):
        """Warn if the labels of the rows it was fitted to hardly depend on the row.

        The warning names `model`, if this machine is a part of it.
        """
        # (`predict_proba` would warn of values out of range once more.)
        dtype, parameters = self._dtype(), self._parameters()
        warn_of_constant_labels(
            model or self,
            lambda rows: scores_of(rows, Rows(rows, dtype), parameters)[0],
            X,
            remedies,
        )

    def _fitted(self, run):
        """Return the attributes that a run has arrived at."""
        components, labels, hidden, visible, label = run.parameters()
        fitted = {
            "components_": components,
            "label_components_": labels,
            "intercept_hidden_": hidden,
            "intercept_visible_": visible,
            "intercept_label_": label,
            "visible_mean_": self._state["visible_mean"].astype(components.dtype),
            "_state": self._state_after(run),
        }
        fitted |= run.stopping.fitted(self.n_iter_)
        if run.trainer.persistent:
            fitted["h_samples_"] = run.trainer.chains()
        return fitted

    def _state_after(self, run):
        """Return what training goes on from after a run."""
        # (After a run without momentum there is no velocity that could go on.)
        return self._state | {
            "parameters": run.trainer.parameters(),
            "step": int(run.trainer.next_step),
            "velocity": run.trainer.velocities() if run.trainer.momentum else None,
            "scales": self._scales(self._dtype()),
        }


def _rows_a_label(division):
    """How many rows are trained on for each that has a label; 0 if none has."""
    return division.n_rows / division.n_known if division.n_known else 0.0


class _HeldOut:
    """How well rows that are not trained on are classified."""

    def __init__(self, X, codes, numbers, dtype):
        self.X, self.codes = X[numbers], codes[numbers]
        self.rows = Rows(self.X, dtype)

    def measure(self, parameters):
        """Names and values, of a model with these parameters."""
        scores, _ = scores_of(self.X, self.rows, parameters)
        return validation_of(scores, self.codes)


def _in_words(entry):
    """Return what the line of an epoch says."""
    text = (
        f"log-likelihood = {entry['log_likelihood']:.4f}, "
        f"accuracy = {entry['accuracy']:.4f}"
    )
    if "validation_accuracy" in entry:
        text += (
            f" (validation {entry['validation_log_likelihood']:.4f}, "
            f"{entry['validation_accuracy']:.4f})"
        )
    return text
