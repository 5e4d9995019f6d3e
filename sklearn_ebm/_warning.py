"""Warnings that point at the line of the user's program that led to them."""

import sys
import warnings

# Between that line and the place that warns: the package, and what calls it for users.
BETWEEN = "sklearn_ebm", "sklearn", "joblib"


def warn(message, category=UserWarning):
    """Warn of something at the nearest line outside of these packages.

    Parameters
    ----------
    message : str
        What to say.

    category : type, default=UserWarning
        Class of the warning.
    """
    # (Level 1 would be here.)
    level, frame = 2, sys._getframe(1)
    while frame.f_back and _package_of(frame) in BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package_of(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0]
