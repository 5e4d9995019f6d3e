"""What samplers take of a model: its layers, and where its chains begin."""

import numpy as np
from scipy.special import expit

from .._units import Kind
from ..layered import BITS, Layered, check_distribution
from ..units import as_unit, kinds_of

# Least probability of either state of a unit where a chain or a path begins, so that
# what the model allows can be reached.
LEAST_RATE = 1e-3


def layers_of(model):
    """Return the layered value of a model, folded into two layers.

    Parameters
    ----------
    model : estimator or Layered
        A fitted Boltzmann machine.

    Returns
    -------
    layers : Layered
        Its layers, the visible one first; of a deep machine its even and its odd
        layers.
    """
    return layered_of(model).folded()


def layered_of(model):
    """Return the layered value of a model.

    Parameters
    ----------
    model : estimator or Layered
        A fitted Boltzmann machine.

    Returns
    -------
    layers : Layered
        Its layers, the visible one first.
    """
    if isinstance(model, Layered):
        check_distribution(model)
        return model
    if isinstance(model, type):
        raise TypeError(f"This takes a fitted model, got the class {model.__name__}.")
    if not hasattr(model, "_layered"):
        remedy = "."
        if hasattr(model, "top_rbm"):
            remedy = "; its top_rbm() is one."
        elif type(model).__module__.startswith("sklearn."):
            # (Theirs has the name of ours.)
            remedy = " of scikit-learn."
        raise TypeError(
            "This takes a Boltzmann machine (BernoulliRBM, RBM, DBMTransformer and "
            f"their like) or a Layered, got {type(model).__name__}{remedy}"
        )
    layers = model._layered()
    check_distribution(layers)  # Training sees to it, but attributes may be set.
    return layers


def two_layers(model, what="This"):
    """Return the layered value of a model, folded into two layers of Bernoulli units.

    Parameters
    ----------
    model : estimator or Layered
        A fitted Boltzmann machine.

    what : str, default="This"
        What messages say takes no others.

    Returns
    -------
    layers : Layered
        Its layers, the visible one first.
    """
    layers = layers_of(model)
    if layers.units != BITS:
        kinds = set().union(*(kinds_of(as_unit(unit)) for unit in layers.units))
        names = ", ".join(sorted(Kind(kind).name.lower() for kind in kinds))
        raise ValueError(
            f"{what} takes two layers of Bernoulli units, got a machine with {names} "
            "units."
        )
    return layers


def base_rates(model):
    """Return the means of independent visible units that are near the model's.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine. An estimator's means are those of
        its training data, a `Layered`'s those its biases alone would give.

    Returns
    -------
    means : ndarray of shape (n_features,)
        Means.
    """
    if hasattr(model, "_base_rates"):
        return model._base_rates()
    means = getattr(model, "visible_mean_", None)
    if means is None:
        means = expit(np.asarray(two_layers(model).biases[0], dtype=np.float64))
    return np.asarray(means, np.float64)


def base_layer(model, layers):
    """Return independent visible units near a model's: what they are, their biases.

    Parameters
    ----------
    model : estimator or Layered
        A fitted Boltzmann machine.

    layers : Layered
        Its layers.

    Returns
    -------
    unit : unit
        What the units are.

    biases : ndarray of shape (n_features,)
        Biases of their own.
    """
    if hasattr(model, "_base_layer"):
        return model._base_layer()
    return as_unit(layers.units[0]), np.asarray(layers.biases[0], float)


def row_fields(model):
    """Return the fields of hidden units given rows of the training.

    Parameters
    ----------
    model : estimator or Layered
        A fitted Boltzmann machine.

    Returns
    -------
    fields : ndarray of shape (n_rows, n_hidden) or None
        Fields, of a deep machine those of its odd layers; None if the training has kept
        no rows, or there was none.

    of_rows : ndarray of bool of shape (n_rows,) or None
        Which of them are of rows of data; others are of points between such.
    """
    state = getattr(model, "_state", {}).get("jumps")
    if not state or not len(state["fields"]):
        return None, None
    # (Rows of data that "fields" holds are in "archive", too.)
    between, archive = state["fields"][~state["of_rows"]], state["archive"]
    of_rows = np.arange(len(between) + len(archive)) >= len(between)
    return np.concatenate([between, archive]), of_rows


def components_of(layers):
    """Weights (n_hidden, n_visible), in a dtype that kernels compute in."""
    weights = np.asarray(layers.weights[0])
    dtype = np.float32 if weights.dtype == np.float32 else np.float64
    return np.ascontiguousarray(weights.T, dtype=dtype)
