"""How swaps between temperatures go, and temperatures that even them out."""

import numpy as np


def swap_sums(gains, visits, levels, first):
    """Add up what swaps between each temperature and the next have come to.

    Parameters
    ----------
    gains, visits : ndarray of shape (n_steps, n_ensembles, n_temperatures)
        Of every sweep, as `Replicas` has them.

    levels : ndarray of shape (n_ensembles, n_temperatures)
        Levels of the chains after the last one.

    first : int
        Random step of the first one.

    Returns
    -------
    sums : ndarray of shape (3, n_temperatures - 1)
        How many swaps were tried, how many accepted, and the gains of both chains
        of all that were tried. Sums of several runs may be added.
    """
    n_temperatures = visits.shape[2]
    parity = ((first + np.arange(len(visits))) % 2).astype(visits.dtype)
    # The lower level of a chain's pair; without a partner -1, or the last level.
    pairs = visits - (visits - parity[:, np.newaxis, np.newaxis]) % 2
    counted = (pairs + 1).ravel()
    moved = np.concatenate([visits, levels[np.newaxis]])[1:] != visits

    def total(values=None):
        return np.bincount(counted, values, n_temperatures + 1)[1:-1]

    return np.stack([total() / 2, total(moved.ravel()) / 2, total(gains.ravel())])


def swap_rates(sums):
    """Share of accepted swaps between each level and the next; NaN without any.

    Parameters
    ----------
    sums : ndarray of shape (3, n_temperatures - 1)
        What `swap_sums` returned.

    Returns
    -------
    rates : ndarray of shape (n_temperatures - 1,)
        Shares.
    """
    tried, accepted, _ = sums
    unknown = np.full(len(tried), np.nan)
    return np.divide(accepted, tried, out=unknown, where=tried > 0)


def evened(betas, sums):
    """Inverse temperatures between which swaps are about as likely everywhere.

    The gain of the lower chain plus that of the upper one, on average, is the
    symmetric divergence of two neighbours; its square root adds up along the path
    like a length, of which every interval gets the same part.

    Parameters
    ----------
    betas : ndarray of shape (n_temperatures,)
        The inverse temperatures that there were.

    sums : ndarray of shape (3, n_temperatures - 1)
        What `swap_sums` returned; swaps of all neighbours have been tried.

    Returns
    -------
    betas : ndarray of shape (n_temperatures,)
        Those half-way to even ones, so that noise does not drive them back and forth.
    """
    tried, _, gains = sums
    lengths = np.sqrt(np.maximum(-gains / tried, 1e-12))
    total = np.concatenate([[0], np.cumsum(lengths)])
    even = np.interp(np.linspace(0, total[-1], len(betas)), total, betas)
    mixed = (betas + even) / 2
    mixed[0], mixed[-1] = 0, 1
    return mixed
