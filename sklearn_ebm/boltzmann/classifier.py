"""The classification restricted Boltzmann machine."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from .._callbacks import CallbackSupportMixin, begin_fit, with_callbacks
from .._classifier import ClassifierTrainer
from .._keeping import keeping, undo_if_nothing_learned
from .._machines import some_rows
from .._parameters import Interval, StrOptions, check_parameters
from .._rows import Rows
from .._stopping import STOPPING_CONSTRAINTS, Stopping
from .._training import (
    SCHEDULES,
    KnownDivision,
    Run,
    mean_with,
    means_without,
    refuse_early_stopping,
    share_held_out,
)
from .._validation import are_shares, check_rows, random_key
from .._warning import warn
from ..monitoring import train_epoch
from ._classifier_starts import spread_of_fields, start_for_labels, start_of_joint
from ._faults import warn_of_constant_labels
from ._fitted_classifier import FittedClassifier, scores_of
from ._labels import (
    check_classes,
    check_labels,
    classes_among,
    codes_of,
    no_label,
)
from ._predicted_labels import validation_of
from ._standardised import Moments, standard_for_steps, warn_of_rounding
from ._starts import SMALL, first_chains, last_chains
from ._structure import check_structure
from ._visible_scales import column_variances

# Learning rate and momentum along the gradient of p(y|v), which is exact; and the rate
# of chains, beyond which momentum must not take the steps of the generative part.
RATE, MOMENTUM, RATE_OF_CHAINS = 0.1, 0.9, 0.2
# Weight of the generative part of the hybrid objective, of each row beside each label.
ALPHA = 0.01
# What is known of every epoch.
HISTORY = ["learning_rate", "seconds", "weight_norm", "log_likelihood", "accuracy"]


class RBMClassifier(CallbackSupportMixin, FittedClassifier):
    """Classification restricted Boltzmann machine.

    A joint model of binary visible units v, a label y and binary hidden units h,
    with energy ``E(v, y, h) = - b.v - d_y - c.h - v.W.h - h.U_y``. What it says of
    the label is exact and cheap: ``p(y|v)`` is proportional to
    ``exp(d_y + sum_j softplus(c_j + U_jy + (v.W)_j))``. It can be trained for that
    alone, as a model of data and labels together, or as a blend of both, which may
    also learn from rows without a label [1]_ [2]_.

    Parameters
    ----------
    n_components : int, default=256
        Number of binary hidden units.

    objective : {"discriminative", "generative", "hybrid"}, \
            default="discriminative"
        What training increases: "discriminative" the mean of ``log p(y|v)``, along
        its exact gradient; "generative" that of ``log p(v, y)``, by contrastive
        divergence; "hybrid" the first plus `alpha` times the second.

    alpha : float or None, default=None
        Weight of the generative part of the hybrid objective. None means 0.01 times
        the number of rows for each label, but 1 at most: as if every row counted, in
        sums in place of means. The other objectives have no use for it.

    learning_rate : float or None, default=None
        Size of a step along the gradient of the objective (in nats a row), which
        `momentum` makes ``1 / (1 - momentum)`` times as long in the end. None means
        0.1 for the discriminative objective and 0.2 for the generative one. For the
        hybrid one it means ``0.1 / sqrt(r)``, where r is the number of rows for each
        label, but `batch_size` at most; and never more than ``0.2 * (1 - momentum) /
        alpha``.

    batch_size : int, default=10
        Number of rows in a minibatch. The last minibatch of an epoch may be
        shorter; its gradient is a mean over its own rows.

    n_iter : int, default=50
        Number of epochs: passes over the training data.

    verbose : int, default=0
        If not 0, print a line an epoch. Never changes the model.

    random_state : int, RandomState instance or None, default=None
        Seeds the initial weights, the order of the rows and all sampling. An int
        gives the same model bit for bit, on any number of threads.

    n_gibbs_steps : int, default=1
        Gibbs sweeps of the chains for each minibatch, where the objective has a
        generative part.

    persistent : bool, default=False
        Whether those chains go on from where the last minibatch left them (PCD) or
        start at the rows of the minibatch and their labels (CD).

    momentum : float or None, default=None
        Share of the last step's velocity in the next one, in [0, 1). None means 0 for
        the generative objective and 0.9 for the others.

    weight_decay : float, default=0.0
        Strength of the L2 penalty ``weight_decay / 2 * (||components_||^2 +
        ||label_components_||^2)``, subtracted from the objective.

    learning_rate_schedule : {"constant", "linear"}, default="constant"
        "linear" lets the learning rate fall linearly to zero over the `n_iter`
        epochs of `fit`. `partial_fit` always uses `learning_rate`.

    average : bool, default=True
        Whether the fitted parameters are the mean over the minibatches of the
        last epoch (for `partial_fit`, of the call) instead of the last ones.
        Training goes on from the last ones.

    warm_start : bool, default=False
        Whether `fit` goes on from the current parameters and chains.

    unlabeled : int, float, str or None, default=None
        The value of y that marks a row whose label is not known. Such rows take part in
        the generative part of the objective, with ``log p(v)`` in place of
        ``log p(v, y)``; with "discriminative" they change nothing. None means that all
        labels are known.

    early_stopping : bool, default=False
        Whether `fit` holds some rows out, watches the `monitor` on them, and stops when
        it has not improved for `n_iter_no_change` epochs. The fitted parameters are
        then those of the best epoch of the call; with `warm_start`, training goes on
        from those of the last one, for a best epoch of its own. `partial_fit` does not
        support it.

    validation_fraction : float, default=0.1
        Share of the labelled rows, and of those of each class, that `early_stopping`
        holds out, by a permutation drawn from `random_state`; the same ones when `fit`
        goes on with the same data.

    n_iter_no_change : int, default=5
        Number of epochs in a row without progress after which an early-stopped fit
        ends.

    tol : float, default=1e-4
        By how much an epoch has to beat the best one to count as progress.

    monitor : {"accuracy", "log_likelihood"}, default="accuracy"
        What `early_stopping` watches on the rows held out: the share of them that is
        classified correctly (where epochs have the same, the other too), or the mean
        of ``log p(y|v)`` in nats.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.

    components_ : ndarray of shape (n_components, n_features)
        Weights between hidden and visible units.

    label_components_ : ndarray of shape (n_components, n_classes)
        Weights between hidden units and labels.

    intercept_hidden_ : ndarray of shape (n_components,)
        Biases of the hidden units.

    intercept_visible_ : ndarray of shape (n_features,)
        Biases of the visible units. The discriminative objective says nothing of
        them: they stay at the log-odds of the features.

    intercept_label_ : ndarray of shape (n_classes,)
        Biases of the labels.

    visible_mean_ : ndarray of shape (n_features,)
        Mean of the training data.

    h_samples_ : ndarray of shape (batch_size, n_components)
        States (0 or 1) of the hidden units of the persistent chains. Only with
        ``persistent=True`` and a generative part of the objective.

    n_iter_ : int
        Number of epochs since the parameters were initialised.

    history_ : dict of list
        For every epoch: "learning_rate" (of its first minibatch), "seconds" of
        training, "weight_norm" (Frobenius norm of the weights of the features, not
        averaged), "log_likelihood" (mean ``log p(y|v)``, nats) and "accuracy", both of
        the labelled training rows, each as it was just before the step that it
        contributed to. With `early_stopping` also "validation_log_likelihood" and
        "validation_accuracy", of the rows held out. NaN where there was no labelled
        row.

    best_n_iter_ : int
        `n_iter_` after the epoch whose parameters were kept. Only with
        `early_stopping`.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when X has feature
        names that are all strings.

    See Also
    --------
    BernoulliRBM : The model without labels.
    sklearn.neural_network.MLPClassifier : A discriminative net with one hidden
        layer.

    Notes
    -----
    Values between 0 and 1 are probabilities. The discriminative objective takes any
    features: where not all of its first data are in [0, 1], it learns as if they were
    standardised, those that are mostly 0 only divided by their size (`weight_decay` is
    a penalty on the weights of such features, then). Fitted attributes are those for
    the features themselves.

    bool, uint8 and CSR data are used as they are, and made dense a minibatch at a time.
    A fit takes no `sample_weight`, since stochastic steps on a weighted row are not the
    same as a repeated row. Missing values (NaN) of features are an error.

    For a row without a label the positive phase weighs the hidden units under every
    label with ``p(y|v)``, rather than drawing a label: the same gradient on average,
    with less noise and at no cost, since all of it is at hand. Its chain starts at a
    label drawn from ``p(y|v)``. If a minibatch holds less than one label on average,
    steps of the hybrid objective are multiplied by that average: make minibatches so
    large that most of them hold a label.

    Steps are those of a model whose features are centred at `visible_mean_`, as those
    of `BernoulliRBM` are: what is learned does not depend on which of two values is
    called 1, and features that never vary change nothing.

    References
    ----------
    .. [1] H. Larochelle, Y. Bengio, "Classification using discriminative restricted
       Boltzmann machines", ICML 2008.
    .. [2] H. Larochelle, M. Mandel, R. Pascanu, Y. Bengio, "Learning algorithms for
       the classification restricted Boltzmann machine", JMLR 13, 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_ebm import RBMClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RBMClassifier(50, n_iter=30, random_state=0)
    >>> model.fit(X[:1500] / 16, y[:1500]).predict_proba(X[1500:] / 16).shape
    (297, 10)
    >>> model.score(X[1500:] / 16, y[1500:]) > 0.85
    True
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "objective": [StrOptions({"discriminative", "generative", "hybrid"})],
        "alpha": [Interval(Real, 0, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_iter": [Interval(Integral, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "n_gibbs_steps": [Interval(Integral, 1, None, closed="left")],
        "persistent": ["boolean"],
        "momentum": [Interval(Real, 0, 1, closed="left"), None],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "learning_rate_schedule": [StrOptions(set(SCHEDULES))],
        "average": ["boolean"],
        "warm_start": ["boolean"],
        "unlabeled": [Real, str, None],
        **STOPPING_CONSTRAINTS,
        "monitor": [StrOptions({"accuracy", "log_likelihood"})],
    }

    def __init__(
        self,
        n_components=256,
        *,
        objective="discriminative",
        alpha=None,
        learning_rate=None,
        batch_size=10,
        n_iter=50,
        verbose=0,
        random_state=None,
        n_gibbs_steps=1,
        persistent=False,
        momentum=None,
        weight_decay=0.0,
        learning_rate_schedule="constant",
        average=True,
        warm_start=False,
        unlabeled=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1e-4,
        monitor="accuracy",
    ):
        self.n_components = n_components
        self.objective = objective
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.n_gibbs_steps = n_gibbs_steps
        self.persistent = persistent
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.learning_rate_schedule = learning_rate_schedule
        self.average = average
        self.warm_start = warm_start
        self.unlabeled = unlabeled
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.monitor = monitor

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
            objective has a generative part or those of the first data did not; if rows
            without a label are left out, as they are with
            ``objective="discriminative"``; if no row has the mark `unlabeled`; or if
            features lie so far from 0 that rounding hides how they vary.
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
        moments = self._first_moments(X, rows, division)
        if self.objective == "generative":
            parameters = start_of_joint(components, labels, mean, n_rows, shares)
        else:
            standard = [np.zeros(n), np.ones(n)]
            if moments is not None:
                standard = standard_for_steps(moments, rows.dtype)
                warn_of_rounding(standard, rows.dtype)
            variance = column_variances(X, some_rows(division.training), mean)
            unlabelled = self._models_features() and 2 * division.n_known < n_rows
            spread = spread_of_fields(n, n_in_all, unlabelled)
            components, hidden, visible = start_for_labels(
                components, mean, variance, n_rows, standard, spread
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
        self.history_ = {name: [] for name in HISTORY}
        self.__dict__.pop("h_samples_", None)

    def _first_moments(self, X, rows, division):
        """What the features of a new model are standardised by, if they are."""
        if self._models_features() or are_shares(rows):
            return None
        learned = _training(X, division)
        return None if are_shares(Rows(learned)) else Moments.of(learned)

    def _go_on(self, X, rows, division, n_seen):
        """Take rows to train on into the mean of the n_seen rows before them."""
        more = means_without(X, rows, division.held_out)
        mean, n_in_all = mean_with(
            self._state["visible_mean"], n_seen, more, division.n_rows
        )
        state = {"visible_mean": mean, "n_seen": n_in_all}
        if self._takes_any_features():
            moments = Moments.of(_training(X, division))
            if n_seen:  # the rows before them may have been few
                moments = self._state["moments"].with_those_of(moments)
            state["moments"] = moments
        self._state = self._state | state

    def _trainer(self, rows, codes, division):
        """Return a kernel that goes on from the state of the training."""
        state = self._state
        weights = {"discriminative": (1, 0), "generative": (0, 1)}
        discriminative, generative = weights.get(
            self.objective, (1, self._alpha(division))
        )
        chains = None
        if self.persistent and generative:
            chains = self._chains()
        rows_a_label = _rows_a_label(division)
        # A row counts as much as a whole minibatch at most: where labels are rarer, all
        # steps are as much shorter, along the same gradient in the mean.
        weight_decay, most = self.weight_decay, min(self.batch_size, division.n_rows)
        if discriminative and rows_a_label > most:
            generative *= most / rows_a_label
            weight_decay *= most / rows_a_label
            rows_a_label = most
        scales = None
        if self._takes_any_features() and not self._models_features():
            scales = standard_for_steps(state["moments"], rows.dtype)[1] ** -2
        trainer = ClassifierTrainer(
            rows,
            codes,
            state["parameters"],
            batch_size=self.batch_size,
            key=state["key"],
            step=state["step"],
            # Minibatches have their share of labelled rows on average only: a sum,
            # scaled once for all, estimates their mean without bias.
            discriminative=discriminative * rows_a_label,
            generative=generative,
            offset=state["visible_mean"],
            n_gibbs_steps=self.n_gibbs_steps,
            chains=chains,
            scales=scales,
        )
        trainer.momentum = self._momentum()
        trainer.weight_decay = weight_decay
        if trainer.momentum:
            trainer.start_velocity(state.get("velocity"))
        return trainer

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
        }


def _training(X, division):
    """Return the rows that are trained on; a copy only if they are not all."""
    return X if division.n_rows == X.shape[0] else X[division.training]


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
