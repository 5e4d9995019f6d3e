"""Paths of machines from independent units to a model."""

import numpy as np
from scipy.special import logit

from .._ais import Path
from .._validation import check_count
from ._models import LEAST_RATE, base_rates, components_of, two_layers


def annealing_path(model):
    """Return the path from a base-rate model to a model, and where it begins.

    Parameters
    ----------
    model : estimator or Layered
        A fitted restricted Boltzmann machine.

    Returns
    -------
    path : Path
        Machines at the inverse temperatures from 0 (independent units; the
        visible ones with `base_rates`) to 1 (the model).

    log_z : float
        Logarithm of the partition function at inverse temperature 0.
    """
    layers = two_layers(model)
    base = logit(np.clip(base_rates(model), LEAST_RATE, 1 - LEAST_RATE))
    n_hidden = len(layers.biases[1])
    path = Path(components_of(layers), layers.biases, (base, np.zeros(n_hidden)))
    return path, float(np.logaddexp(0, base).sum() + n_hidden * np.log(2))


def check_betas(betas):
    """Return inverse temperatures as an array, after a check.

    Parameters
    ----------
    betas : int, "classic" or array-like of shape (n_temperatures,)
        Inverse temperatures ascending from 0 to 1, or how many, evenly spaced.
        "classic" are 14 501, dense near 1 [1]_.

    Returns
    -------
    betas : ndarray of shape (n_temperatures,)
        Inverse temperatures.

    References
    ----------
    .. [1] R. Salakhutdinov, I. Murray, "On the quantitative analysis of deep belief
       networks", ICML 2008.
    """
    if isinstance(betas, str) and betas == "classic":
        parts = [(0, 0.5, 500), (0.5, 0.9, 4000), (0.9, 1, 10_000)]
        spaced = [np.linspace(a, b, n, endpoint=False) for a, b, n in parts]
        return np.concatenate([*spaced, [1.0]])
    if np.ndim(betas) == 0 and not isinstance(betas, str):
        return np.linspace(0, 1, check_count(betas, "betas", least=2))
    try:
        array = np.asarray(betas, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if (
        array.ndim != 1
        or len(array) < 2
        or array[0] != 0
        or array[-1] != 1
        or not (np.diff(array) > 0).all()
    ):
        raise ValueError(
            "betas must be a number of temperatures, 'classic' or numbers that "
            f"ascend from 0 to 1, got {betas!r}."
        )
    return array
