"""Labels as classifiers are given them: checks, and numbers in their place."""

from numbers import Number

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .._validation import check_given, is_nan, nan_for_na, refuse_masks
from .._warning import warn

# Share of rows with labels below which the generative objective learns little of them.
FEW_LABELLED = 0.03


def labels_of(estimator, y):
    """Return the labels, and which of them are known: not `unlabeled`."""
    refuse_masks(
        y, "y", "y.filled(mark) with unlabeled=mark makes them rows without a label"
    )
    labels = nan_for_na(column_or_1d(y, warn=True))
    known = ~_marked(labels, estimator.unlabeled)
    return _of_one_type(labels, known), known


def _of_one_type(labels, known):
    """Labels without their marks' type: numbers beside None or "?" are numbers again.

    Rows that have none get some other row's label.
    """
    if labels.dtype != object or not known.any():
        return labels
    if not all(isinstance(label, (Number, np.bool_)) for label in labels[known]):
        return labels
    natural = np.array(labels[known].tolist())
    filled = np.full(len(labels), natural[0])
    filled[known] = natural
    return filled


def check_labels(estimator, y):
    """Return `labels_of` y that can be learned, and which of them are known."""
    check_given(estimator, y)
    labels, known = labels_of(estimator, y)
    if known.any():
        # (scikit-learn's check would compare NaN with labels that are strings, and warn
        # of numbers that are not finite before it refuses them.)
        if (labels != labels)[known].any():
            raise ValueError(
                "Input y contains NaN. With unlabeled=np.nan it marks rows without a "
                "label."
            )
        _refuse_mixed(labels[known], "y")
        with np.errstate(invalid="ignore"):
            check_classification_targets(labels[known])
    elif len(labels) and estimator.early_stopping:
        raise no_label(estimator, ", of which early_stopping=True can hold none out")
    return labels, known


def classes_among(estimator, labels, known):
    """Return the classes that labels say there are.

    Warns if there is a mark for rows without one, but no row has it.
    """
    alone = getattr(estimator, "_stands_alone", True)
    if estimator.unlabeled is not None and known.all() and alone:
        warn(
            f"No row of y is unlabeled={estimator.unlabeled!r}, which would mark rows "
            "without a label. Was the mark of another type, or were labels numbered "
            "before (as BaggingClassifier, VotingClassifier and others do, which take "
            "the mark for a class)?"
        )
    return np.unique(labels[known])


def no_label(estimator, consequence=""):
    """Return the error to raise where no label is known."""
    return ValueError(
        f"y has no label: all of it is unlabeled={estimator.unlabeled!r}{consequence}."
    )


def warn_of_few_labels(codes, n_rows, remedy):
    """Warn if few rows have a class, where a class is one unit of many."""
    n_labelled = np.count_nonzero(codes >= 0)
    if n_labelled < FEW_LABELLED * n_rows:
        warn(
            "objective='generative' learns little of labels that few rows have "
            f"({n_labelled} of {n_rows}); objective={remedy!r} learns more."
        )


def check_classes(estimator, classes, goes_on):
    """Return the classes that partial_fit is told of, sorted, or None."""
    if classes is None:
        if not goes_on:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        return None
    if np.ndim(classes) != 1 or len(classes) == 0:
        raise ValueError(
            "classes must be an array of all labels, of one dimension and not empty, "
            f"got {classes!r}."
        )
    # (Before they are sorted, which None and NaN among names cannot be.)
    classes = nan_for_na(np.asarray(classes))
    refuse_mark(estimator, classes)
    if (classes != classes).any():
        raise ValueError("classes contain NaN, which is no label.")
    _refuse_mixed(classes, "classes")
    # (What `unique` makes of a column of objects, numbers among them.)
    classes = np.unique(_of_one_type(classes, np.ones(len(classes), bool)))
    if goes_on and not (
        _are_names(classes) == _are_names(estimator.classes_)
        and np.array_equal(classes, estimator.classes_)
    ):
        raise ValueError(
            f"classes={classes.tolist()} are not those of the model so far, "
            f"{estimator.classes_.tolist()}."
        )
    return classes


def refuse_mark(estimator, classes):
    """Refuse classes among which is the mark of rows without a label."""
    if _marked(classes, estimator.unlabeled).any():
        raise ValueError(
            f"unlabeled={estimator.unlabeled!r} marks rows without a label and cannot "
            "be one of the classes."
        )


def _marked(labels, mark):
    """Which of the labels are the mark of rows without one; NaN may be that, too."""
    if mark is None:
        return np.zeros(labels.shape, bool)
    # (NaN is the only value that differs from itself.)
    same = labels != labels if is_nan(mark) else labels == mark
    return np.broadcast_to(same, labels.shape)


def _refuse_mixed(labels, name):
    """Refuse strings among other labels, which cannot be sorted."""
    if labels.dtype == object and len({isinstance(each, str) for each in labels}) > 1:
        kinds = ", ".join(sorted({type(each).__name__ for each in labels}))
        raise ValueError(
            f"Unknown label type: {name} mixes strings with other labels ({kinds})."
        )


def codes_of(y, classes):
    """Places of labels in the sorted array of classes."""
    if len(y) == 0:
        return np.zeros(0, np.intp)
    labels = np.unique(y)
    if _are_names(labels) == _are_names(classes):
        unknown = np.setdiff1d(labels, classes)
    else:
        unknown = labels  # NumPy may take the number 3 for the name "3"
    if len(unknown):
        raise ValueError(
            f"y has labels {unknown.tolist()} that are not among the classes "
            f"{classes.tolist()}."
        )
    return np.searchsorted(classes, y)


def _are_names(labels):
    """Whether labels, at least one and all of a kind, are strings."""
    return isinstance(labels[0], (str, bytes))
