"""How well chains mix: autocorrelation, effective sample size, agreement."""

import numpy as np


def autocorrelation_time(x):
    """Estimate the integrated autocorrelation time of chains.

    Parameters
    ----------
    x : array-like of shape (n_draws,) or (n_draws, n_chains)
        Successive values of one quantity.

    Returns
    -------
    time : float
        ``1 + 2 * sum of autocorrelations`` in draws, summed over pairs of lags
        while these pairs are positive and fall (Geyer's initial monotone sequence
        [1]_), with the variance between chains counted. 1 if all values are the
        same, and at least ``1 / log10(n_draws * n_chains)``.

    Raises
    ------
    ValueError
        If `x` is not of one of these shapes, has fewer than two draws, or holds NaN or
        infinity.

    References
    ----------
    .. [1] C. J. Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7,
       1992.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm.samplers import autocorrelation_time
    >>> draws = np.random.default_rng(0).normal(size=(1000, 4))
    >>> round(autocorrelation_time(draws))
    1
    >>> round(autocorrelation_time(np.repeat(draws, 10, axis=0)))
    10
    """
    x = _draws(x)
    n, m = x.shape
    centred = x - x.mean(axis=0)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, size, axis=0)[:n].mean(axis=1) / n
    within = covariance[0] * n / (n - 1)
    variance = within * (n - 1) / n + (x.mean(axis=0).var(ddof=1) if m > 1 else 0)
    if variance == 0:
        return 1.0
    rho = 1 - (within - covariance * n / (n - 1)) / variance
    rho[0] = 1
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = np.argmax(pairs <= 0) if (pairs <= 0).any() else len(pairs)
    time = -1 + 2 * np.minimum.accumulate(pairs[:stop]).sum()
    return float(max(time, 1 / np.log10(max(n * m, 10))))


def effective_sample_size(x):
    """Estimate how many independent draws chains are worth.

    Parameters
    ----------
    x : array-like of shape (n_draws,) or (n_draws, n_chains)
        Successive values of one quantity.

    Returns
    -------
    size : float
        Number of draws divided by `autocorrelation_time`.

    Raises
    ------
    ValueError
        As in `autocorrelation_time`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm.samplers import effective_sample_size
    >>> draws = np.random.default_rng(0).normal(size=(1000, 4))
    >>> repeated = np.repeat(draws, 10, axis=0)
    >>> 3000 < effective_sample_size(repeated) < 5000  # of 40 000
    True
    """
    x = _draws(x)
    return x.size / autocorrelation_time(x)


def r_hat(x):
    """Compute the potential scale reduction of chains, each split in halves.

    Parameters
    ----------
    x : array-like of shape (n_draws, n_chains)
        Successive values of one quantity.

    Returns
    -------
    r_hat : float
        Square root of the variance of all draws over that within half-chains [1]_;
        near 1 (say below 1.01) if the chains have come to agree.

    Raises
    ------
    ValueError
        If `x` has more than two dimensions, or fewer than four draws a chain, or holds
        NaN or infinity.

    References
    ----------
    .. [1] A. Gelman et al., "Bayesian Data Analysis", 3rd edition, section 11.4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm.samplers import r_hat
    >>> draws = np.random.default_rng(0).normal(size=(1000, 4))
    >>> round(r_hat(draws), 2)
    1.0
    >>> round(r_hat(draws + [0, 0, 0, 2]), 2)  # one of them is elsewhere
    1.38
    """
    x = _draws(x)
    half = len(x) // 2
    if half < 2:
        raise ValueError(f"r_hat needs at least 4 draws a chain, got {len(x)}.")
    halves = np.concatenate([x[:half], x[-half:]], axis=1)
    within = halves.var(axis=0, ddof=1).mean()
    between = halves.mean(axis=0).var(ddof=1)
    if within == 0:
        return 1.0 if between == 0 else np.inf
    return float(np.sqrt((half - 1) / half + between / within))


def _draws(x):
    """Draws (n_draws, n_chains), less the first, so that constants are 0 exactly.

    In units in which they are about 1: squares neither overflow nor underflow.
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim == 1:
        x = x[:, np.newaxis]
    if x.ndim != 2 or len(x) < 2 or not x.size:
        raise ValueError(
            f"Draws of shape {x.shape} are not (n_draws, n_chains), with two draws or "
            "more of a chain or more."
        )
    if not np.isfinite(x).all():
        raise ValueError("Draws must be finite numbers, but hold NaN or infinity.")
    x = _in_units_of_the_largest(x)
    return _in_units_of_the_largest(x - x[0, 0])


def _in_units_of_the_largest(x):
    """Multiply by a power of two, which rounds nothing."""
    _, exponent = np.frexp(np.abs(x).max())
    return np.ldexp(x, -exponent)
