"""What a model is made of, by its parameters: it stays so where training goes on.

In words, which fitted state can carry and messages say: the same words if and only if
there are the same units and layers.
"""

from itertools import pairwise
from numbers import Integral

import numpy as np

from .._parameters import Interval, TupleOf
from .._validation import check_choice
from ..units import in_words
from ._columns import owners_of

# What a parameter that says how large hidden layers are may be.
LAYER_SIZES = [
    TupleOf(Integral, 1, None, closed="left"),
    Interval(Integral, 1, None, closed="left"),
]


def check_structure(estimator, fitted):
    """Refuse to go on with a model that is made of something else.

    Parameters
    ----------
    estimator : estimator
        Its `_structure` says what its parameters ask for.

    fitted : dict of str
        What that returned when the model was new: words by the names of parameters.
    """
    asked = estimator._structure()
    for name, found in fitted.items():
        if asked.get(name) != found:
            raise ValueError(
                f"{name}={getattr(estimator, name)!r} does not fit the model that "
                f"training goes on from, which has {found}."
            )


def as_made(estimator, name):
    """What a parameter was when the model was new or, without a model, what it is.

    What is set later is for the next fit: a model remains what it is.
    """
    made = vars(estimator).get("_made", {})
    return made[name] if name in made else getattr(estimator, name)


def gives_all(estimator):
    """Whether the output is that of all hidden layers, not of the top alone."""
    # (It may have been set since the fit.)
    check_choice(estimator.output, "output", ("top", "all"))
    return estimator.output == "all"


def layer_sizes(sizes):
    """Numbers of units of layers, given as an int or as several, in a list."""
    return np.ravel(sizes).tolist()


def component_shapes(sizes):
    """Shapes of the weights between layers of these sizes, from the bottom up."""
    return [(above, below) for below, above in pairwise(sizes)]


def sizes_in_words(sizes):
    """Numbers of units of layers."""
    return repr(tuple(layer_sizes(sizes)))


def visible_in_words(estimator):
    """What the features are, of an estimator with a parameter `visible`.

    Not the units that names stand for: variances of "gaussian" are learned, those of
    a `Gaussian` are not.
    """
    names = getattr(estimator, "feature_names_in_", None)
    specs, owner = owners_of(estimator.visible, estimator.n_features_in_, names)
    words = np.array([in_words(spec) for spec in specs])[owner]
    if (words == words[0]).all():
        return str(words[0])
    starts = np.flatnonzero(words[1:] != words[:-1]) + 1
    runs = np.split(np.arange(len(words)), starts)
    pairs = [f"(slice({run[0]}, {run[-1] + 1}), {words[run[0]]})" for run in runs]
    return f"[{', '.join(pairs)}]"
