"""What is watched while a model trains: numbers, idle units; and a callback for it."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ._callbacks import ScoringMonitor
from ._training import epoch_order
from ._validation import dense, title
from ._warning import warn

__all__ = ["TrainingMonitor"]

# Rows of the fixed sample on which a model in training is judged, and how many of them
# are also looked at feature by feature, which takes much longer.
MONITOR_ROWS = 500
COSTLY_ROWS = 100
# Names of the parts of a fit that are logged: those of sparse coding are passes.
TASKS = "epoch", "pass"
# A hidden unit whose probability of being on stays within this of 0 or of 1 for
# every row of the sample is dead or saturated.
IDLE = 0.01
# A machine of many units may well have so large a share of idle ones.
IDLE_SHARE = 0.05


class TrainingMonitor(ScoringMonitor):
    """Callback that logs, after every epoch, how the training of a model goes.

    `sklearn.callback.ScoringMonitor` for models that are fitted without y. Set it
    with ``estimator.set_callbacks(monitor)``, also on an estimator within a
    pipeline or a grid search. Needs scikit-learn 1.9 or newer.

    Parameters
    ----------
    scoring : callable or None, default=None
        Called after every epoch as ``scoring(model, X)`` with the model, fitted as
        it would be if `fit` stopped there, and the training data. Returns a number,
        logged as "score", or a dict of numbers by name. None logs what `history_`
        says of the epoch, and asks for the numbers in it that take longer: those
        that need a sample of the data.

    Raises
    ------
    TypeError
        If `scoring` is neither callable nor None.

    ImportError
        If scikit-learn is older than 1.9.

    See Also
    --------
    sklearn.callback.ScoringMonitor : Logs scores that need y.

    Notes
    -----
    The logs come from `get_logs`, as described for
    `sklearn.callback.ScoringMonitor`: ``get_logs().data`` has a dict for every epoch
    (of `SparseCoding`, every pass over the data) of the last fit (of the outermost
    estimator).

    `DBNTransformer`, and `DBNClassifier` with ``objective="generative"``, train
    machines one after the other, whose epochs are not logged: `history_` has them
    after the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import BernoulliRBM
    >>> from sklearn_ebm.monitoring import TrainingMonitor
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> monitor = TrainingMonitor()
    >>> rbm = BernoulliRBM(2, n_iter=3, random_state=0).set_callbacks(monitor)
    >>> rbm.fit(X).n_iter_
    3
    >>> [round(epoch["hidden_activity"], 1) for epoch in monitor.get_logs().data]
    [0.3, 0.3, 0.3]
    """

    def __init__(self, scoring=None):
        if not (scoring is None or callable(scoring)):
            raise TypeError(f"scoring must be a callable or None, got {scoring!r}.")
        super().__init__(scoring=_Scorer(scoring))
        self.wants_history = scoring is None

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        """Log the model of an epoch that has ended.

        Parameters
        ----------
        estimator : estimator
            The estimator that is being fitted.

        context : sklearn.callback.CallbackContext
            What has ended.

        X : {array-like, sparse matrix}, default=None
            The training data.

        fitted_estimator : estimator, default=None
            The model as it would be if `fit` stopped here.

        Raises
        ------
        Exception
            Whatever `scoring` raises.
        """
        if context.task_name in TASKS:
            # Its own kind scores nothing without y.
            super().on_fit_task_end(
                estimator, context, X=X, y=(), fitted_estimator=fitted_estimator
            )


class _Scorer:
    """Scores a model without y, for ScoringMonitor."""

    def __init__(self, scoring):
        self.scoring = scoring

    def __call__(self, model, X, y):
        if self.scoring is None:
            return {name: entries[-1] for name, entries in model.history_.items()}
        score = self.scoring(model, X)
        return score if isinstance(score, dict) else {"score": score}


# ---- Numbers ----


class Monitor:
    """Numbers that say how training goes, on a fixed sample of the data.

    Drawing the sample and looking at it change nothing in the training.

    Parameters
    ----------
    X : ndarray or CSR matrix
        All rows.

    division : Division
        Which of them are trained on, and which held out.

    key : int
        Determines the sample.

    dtype : dtype
        That of the model.

    view : callable
        Called with the parameters of the model, returns an object with methods
        `rows` (of data and a dtype: what other methods take), `fill` (of values,
        some of them NaN), `free_energy` and `hidden_means` (of rows),
        `visible_means` (of hidden states) and, if it has one, `pseudo_likelihood`
        (of rows, and which of their values do not count). Its `bits` says whether the
        hidden units are: only those can be dead or saturated.

    missing_in : callable or None, default=None
        Says which values are missing in rows of these numbers; None if none is.
    """

    def __init__(self, X, division, key, dtype, view, missing_in=None):
        order = epoch_order(division.training, key, 0)[:MONITOR_ROWS]
        self.training = _Sample(X, order, dtype, missing_in)
        self.few = _Sample(X, order[:COSTLY_ROWS], dtype, missing_in)
        self.validation = None
        if len(division.held_out):
            held_out = division.held_out[:MONITOR_ROWS]
            self.validation = _Sample(X, held_out, dtype, missing_in)
        self.view = view

    def measure(self, parameters):
        """Names and values of the numbers, of a model with these parameters."""
        view, few = self.view(parameters), self.few
        few_rows, rows = few.rows(view), self.training.rows(view)
        reconstructed = view.visible_means(view.hidden_means(few_rows))
        error = np.square(few.values() - reconstructed)
        if few.missing is not None:
            error = error[~few.missing]
        numbers = {}
        if hasattr(view, "pseudo_likelihood"):
            score = view.pseudo_likelihood(few_rows, few.missing).mean()
            numbers["pseudo_likelihood"] = score
        hidden = view.hidden_means(rows)
        numbers |= {
            # (The sample may have no value that is known.)
            "reconstruction_error": error.mean(dtype=float) if error.size else np.nan,
            "hidden_activity": hidden.mean(dtype=float),
        }
        if view.bits:
            numbers["saturation"] = sum(_idle(hidden)) / hidden.shape[1]
        if self.validation is not None:
            unseen = self.validation.rows(view)
            if hasattr(view, "pseudo_likelihood"):
                score = view.pseudo_likelihood(unseen, self.validation.missing).mean()
                numbers["validation_pseudo_likelihood"] = score
            gap = view.free_energy(unseen).mean() - view.free_energy(rows).mean()
            numbers["free_energy_gap"] = gap
        return {name: float(number) for name, number in numbers.items()}

    def warn_of_idle_units(self, name, parameters, rate_name):
        """Warn if more than a few hidden units say the same of all rows; say if so."""
        view = self.view(parameters)
        if not view.bits:
            return False
        hidden = view.hidden_means(self.training.rows(view))
        dead, saturated = _idle(hidden)
        many = dead + saturated > IDLE_SHARE * len(parameters[0])
        if many:
            warn(
                f"Of the {len(parameters[0])} hidden units of {name}, {dead} are dead "
                f"and {saturated} saturated: for each of {len(hidden)} "
                f"training rows their probability of being on is below {IDLE} or "
                f"above {1 - IDLE}. They no longer tell rows apart. Try a lower "
                f"{rate_name}, or fewer epochs.",
                ConvergenceWarning,
            )
        return many


class _Sample:
    """Rows of some numbers, in their order."""

    def __init__(self, X, numbers, dtype, missing_in):
        numbers = np.sort(numbers)
        self.X, self.dtype = X[numbers], dtype
        self.missing = None if missing_in is None else missing_in(numbers)
        self.complete = None
        if self.missing is not None:
            self.X[self.missing] = np.nan

    def rows(self, view):
        """Rows for the kernels, with what a model puts in place of NaN."""
        if self.missing is not None:
            return view.rows(view.fill(self.X), self.dtype)
        if self.complete is None:
            self.complete = view.rows(self.X, self.dtype)
        return self.complete

    def values(self):
        """Values of the rows, as a dense array."""
        return dense(self.X, self.dtype)


def may_be_idle(mean_fields):
    """Whether there may be dead or saturated units, from means of their fields.

    If a field is beyond a bound for every row, then so is its mean.
    """
    return bool((np.abs(mean_fields) > np.log(1 / IDLE - 1)).any())


def _idle(means):
    """How many units are dead and how many saturated, from means of every row."""
    dead, saturated = (means < IDLE).all(axis=0), (means > 1 - IDLE).all(axis=0)
    return int(dead.sum()), int(saturated.sum())


# ---- Epochs ----


def enter_epoch(model, entry, words):
    """Count an epoch in `n_iter_`, add its entry to `history_`, and print its line.

    words(entry) is the text of the line, None for no line; there is none unless the
    model is verbose. In the history NaN stands for a number that was not measured.
    Both attributes are replaced together: an interrupt finds them both old or both
    new, and a history that someone has kept does not change.
    """
    history, unknown = model.history_, [np.nan] * model.n_iter_
    longer = {
        name: [*history.get(name, unknown), entry.get(name, np.nan)]
        for name in history | entry
    }
    vars(model).update(history_=longer, n_iter_=model.n_iter_ + 1)
    text = words(entry) if model.verbose else None
    if text:
        text += f", time = {entry['seconds']:.2f}s"
        print_iteration(title(model), model.n_iter_, text)


def train_epoch(model, run, rates, averaging, words):
    """Do one pass of a run over its data, and enter it in the history of the model."""
    entry = run.epoch(model._state["key"], rates, averaging)
    enter_epoch(model, entry, words)
    run.stopping.see(entry, model.n_iter_, run.measured)


def print_iteration(name, number, text):
    """Print the line of an iteration of a model of this name."""
    print(f"[{name}] Iteration {number}, {text}", flush=True)


def machine_in_words(entry):
    """Return what has been measured of a machine in training, if anything has."""
    if "reconstruction_error" not in entry:
        return None
    text = f"reconstruction error = {entry['reconstruction_error']:.4g}"
    if "pseudo_likelihood" in entry:
        text = f"pseudo-likelihood = {entry['pseudo_likelihood']:.2f}"
    if "validation_pseudo_likelihood" in entry:
        text += f" (validation {entry['validation_pseudo_likelihood']:.2f})"
    if "free_energy_gap" in entry:
        text += f", free-energy gap = {entry['free_energy_gap']:.2f}"
    if "swap_rate" in entry:
        text += (
            f", swap rate = {entry['swap_rate']:.2f} "
            f"(least {entry['least_swap_rate']:.2f})"
        )
    return text
