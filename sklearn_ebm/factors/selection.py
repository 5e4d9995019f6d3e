"""How many factors: by information criterion or by held-out likelihood."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv, cross_val_score
from sklearn.utils.validation import check_array

from .._validation import check_choice, check_count, refuse_times_and_masks
from .._warning import warn
from ._fitted import FittedFactors

__all__ = ["Selection", "select_n_components"]


@dataclass(frozen=True)
class Selection:
    """What `select_n_components` found.

    Parameters
    ----------
    candidates : tuple of int
        Numbers of components that were tried.

    scores : ndarray of shape (n_candidates,)
        The score of each in nats a row, larger is better.

    errors : ndarray of shape (n_candidates,)
        Standard errors of the scores over the folds; 0 for "bic", NaN where there is
        one fold, which does not tell.

    criterion : {"bic", "cv"}
        What the scores are.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_ebm import FactorAnalysis
    >>> from sklearn_ebm.factors import select_n_components
    >>> found = select_n_components(FactorAnalysis(), load_wine().data, (2, 4, 6))
    >>> found.candidates, found.n_components
    ((2, 4, 6), 4)
    >>> found.scores.shape
    (3,)
    """

    candidates: tuple
    scores: np.ndarray
    errors: np.ndarray
    criterion: str

    @property
    def n_components(self):
        """The number of components with the highest score."""
        return self.candidates[int(np.argmax(self.scores))]


def select_n_components(estimator, X, candidates, *, criterion="bic", cv=5):
    """Choose the number of components of a linear factor model.

    Parameters
    ----------
    estimator : FactorAnalysis or ProbabilisticPCA
        The model; a clone of it is fitted for each candidate. With "cv" it may be any
        that has `n_components` and a `score` in nats a row, such as `ICA`.

    X : array-like of shape (n_samples, n_features)
        Data; NaN where a value is missing, if the estimator takes it.

    candidates : iterable of int
        Numbers of components to try.

    criterion : {"bic", "cv"}, default="bic"
        "bic" is the Bayesian information criterion: the log-likelihood of the data
        less half the logarithm of the number of rows for each parameter, here divided
        by the number of rows. "cv" is the mean log-likelihood of held-out rows.

    cv : int, cross-validation splitter or iterable of splits, default=5
        Folds of "cv", as in scikit-learn; the same for all candidates.

    Returns
    -------
    selection : Selection
        The scores, and the number of components with the highest. It is drawn by
        `sklearn_ebm.factors.plotting.SelectionDisplay`.

    Raises
    ------
    TypeError
        If the estimator is not one of those of `criterion`, `candidates` are not
        integers, or X is sparse or holds dates or times.

    ValueError
        If `candidates` are none at all or below 0, `criterion` is not one of the above,
        `cv` has no split or scikit-learn refuses it (more folds than rows, for
        instance), or the `fit` of the estimator refuses X (for NaN or infinity, for
        instance).

    Warns
    -----
    UserWarning
        If "bic" finds at least half as many components as there are rows.

    Notes
    -----
    A rotation of the factors is free, so that
    ``n_components * (n_components - 1) / 2`` loadings do not count as parameters.

    The information criterion counts on many rows for each component. The likelihood has
    no bound where there are as many components as rows, less one, if that is fewer than
    there are features.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_ebm import FactorAnalysis
    >>> from sklearn_ebm.factors import select_n_components
    >>> X = load_wine().data
    >>> select_n_components(FactorAnalysis(), X, range(1, 7)).n_components
    4
    """
    check_choice(criterion, "criterion", ("bic", "cv"))
    _check_model(estimator, criterion)
    candidates = _check_candidates(candidates)
    refuse_times_and_masks(X, "X")
    X = check_array(
        X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", input_name="X"
    )
    # (Drawn once: a splitter may draw others each time, or none any more.)
    splits = list(check_cv(cv).split(X)) if criterion == "cv" else None
    if splits == []:
        raise ValueError(f"cv must have at least one split, got {cv!r}.")
    scores, errors = [], []
    for n_components in candidates:
        model = clone(estimator).set_params(n_components=n_components)
        if criterion == "bic":
            scores.append(_bic(model.fit(X), X))
            errors.append(0.0)
        else:
            found = cross_val_score(model, X, cv=splits, error_score="raise")
            scores.append(found.mean())
            errors.append(_standard_error(found))
    found = Selection(candidates, np.array(scores), np.array(errors), criterion)
    if criterion == "bic" and 0 < len(X) <= 2 * found.n_components:
        warn(
            f"The information criterion has found {found.n_components} components in "
            f"{len(X)} rows, of which it needs many more. Where the likelihood of many "
            "components has no bound, it says nothing: take criterion='cv', or smaller "
            "candidates."
        )
    return found


def _check_model(estimator, criterion):
    """Refuse a model that has no number of components, or not this criterion."""
    # (What counts as a parameter is known of these.)
    known = isinstance(estimator, FittedFactors)
    scored = hasattr(estimator, "score") and hasattr(estimator, "n_components")
    if known or (criterion == "cv" and scored):
        return
    wanted = "FactorAnalysis or ProbabilisticPCA"
    if criterion == "cv":
        wanted += ", or have n_components and score"
    raise TypeError(
        f"estimator must be {wanted}, with criterion={criterion!r}, got {estimator!r}."
    )


def _check_candidates(candidates):
    """Numbers of components to try, as a tuple."""
    try:
        candidates = tuple(candidates)
    except TypeError as error:
        raise TypeError(
            f"candidates must be several integers >= 0, got {candidates!r}."
        ) from error
    if not candidates:
        raise ValueError("candidates must have at least one number of components.")
    return tuple(check_count(q, "candidates", least=0) for q in candidates)


def _standard_error(values):
    if len(values) == 1:
        return np.nan
    return values.std(ddof=1) / np.sqrt(len(values))


def _bic(model, X):
    """Log-likelihood less what its parameters are worth, in nats a row."""
    q, n_features = model.components_.shape
    n_parameters = n_features + np.size(model.noise_variance_)
    n_parameters += q * n_features - q * (q - 1) // 2
    return model.score(X) - 0.5 * n_parameters * np.log(len(X)) / len(X)
