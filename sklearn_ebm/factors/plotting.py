"""Displays of linear factor models, made like those of `sklearn_ebm.plotting`."""

import numpy as np

from ..plotting import _axes, _whole_ticks
from .selection import Selection, select_n_components

__all__ = ["SelectionDisplay"]

LABELS = {
    "bic": "log-likelihood less parameters (BIC), nats a row",
    "cv": "held-out log-likelihood, nats a row",
}


class SelectionDisplay:
    """Scores of numbers of components, and the one chosen.

    Parameters
    ----------
    selection : Selection
        What `sklearn_ebm.factors.select_n_components` returned.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.

    figure_ : matplotlib Figure
        The figure these axes are in.

    errorbar_ : matplotlib ErrorbarContainer
        The scores, with a standard error each if they are of "cv".

    line_ : matplotlib Line2D
        The vertical line at the number that was chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_ebm import FactorAnalysis
    >>> from sklearn_ebm.factors.plotting import SelectionDisplay
    >>> display = SelectionDisplay.from_estimator(
    ...     FactorAnalysis(), load_wine().data, range(1, 7)
    ... )
    >>> display.selection.n_components
    4
    """

    def __init__(self, selection):
        self.selection = selection

    @classmethod
    def from_estimator(
        cls, estimator, X, candidates, *, criterion="bic", cv=5, ax=None
    ):
        """Choose a number of components and draw the scores.

        Parameters
        ----------
        estimator : FactorAnalysis or ProbabilisticPCA
            As for `select_n_components`.

        X : array-like of shape (n_samples, n_features)
            As for `select_n_components`.

        candidates : iterable of int
            As for `select_n_components`.

        criterion : {"bic", "cv"}, default="bic"
            As for `select_n_components`.

        cv : int, cross-validation splitter or iterable of splits, default=5
            As for `select_n_components`.

        ax : matplotlib Axes, default=None
            As for `plot`.

        Returns
        -------
        display : SelectionDisplay
            What was drawn.

        Raises
        ------
        TypeError, ValueError
            As in `select_n_components`.

        ImportError
            If matplotlib is not installed.
        """
        selection = select_n_components(
            estimator, X, candidates, criterion=criterion, cv=cv
        )
        return cls(selection).plot(ax=ax)

    def plot(self, ax=None):
        """Draw the scores, and a line at the number that was chosen.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        self : SelectionDisplay
            What was drawn.

        Raises
        ------
        ValueError
            If `selection` is not what `select_n_components` returns.

        ImportError
            If matplotlib is not installed.
        """
        if not isinstance(self.selection, Selection):
            raise ValueError(
                "selection must be what select_n_components returns, got "
                f"{self.selection!r}."
            )
        chosen, order = self.selection, np.argsort(self.selection.candidates)
        self.figure_, self.ax_ = _axes(ax)
        self.errorbar_ = self.ax_.errorbar(
            np.array(chosen.candidates)[order],
            chosen.scores[order],
            yerr=chosen.errors[order] if chosen.criterion == "cv" else None,
            marker="o",
            capsize=3,
        )
        self.line_ = self.ax_.axvline(
            chosen.n_components, color="0.6", linestyle="--", zorder=0
        )
        self.ax_.set_xlabel("number of components")
        _whole_ticks(self.ax_.xaxis)
        self.ax_.set_ylabel(LABELS[chosen.criterion])
        return self
