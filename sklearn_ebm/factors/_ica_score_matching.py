"""Score matching for ICA: complete, or overcomplete as an energy model.

The model is ``log p(z) = -sum_i energy_i(w_i.z) - log Z``, with any number of filters
w_i. The objective ``E[laplacian(log p) + |gradient(log p)|^2 / 2]`` needs no Z. See
A. Hyvarinen, "Estimation of non-normalized statistical models by score matching",
JMLR 6, 2005.
"""

import numpy as np
from scipy.optimize import minimize

from ._gaussian import row_blocks
from ._ica_likelihood import State

# Numbers in a block of rows: what is computed from it stays in the cache.
BLOCK_SIZE = 2**16


def objective(Z, W, sources):
    """Return the objective of score matching, a mean over rows, and its gradient."""
    k = len(W)
    gram = W @ W.T
    norms = np.diag(gram)
    value, slopes = 0.0, np.zeros(k)
    outer, linear = np.zeros((k, k)), np.zeros_like(W)
    for rows in row_blocks(len(Z), k, BLOCK_SIZE):
        block = Z[rows]
        Y = block @ W.T
        _, score, slope = sources.evaluate(Y)
        field = score @ gram
        value += 0.5 * np.vdot(score, field) - (slope @ norms).sum()
        slopes += slope.sum(axis=0)
        outer += score.T @ score
        linear += (slope * field - sources.third(Y) * norms).T @ block
    n = len(Z)
    return value / n, (linear + outer @ W - 2 * slopes[:, np.newaxis] * W) / n


def minimise(Z, W, sources, *, unit, max_iter, tol, report):
    """Minimise by L-BFGS; `report` is called with the state after every iteration.

    The objective, its gradient and W depend on the unit of Z, its root mean square:
    they are taken as of data in this unit, so that what is small does not depend on it.
    """
    slope = np.inf

    def fun(w):
        nonlocal slope
        value, gradient = objective(Z, w.reshape(W.shape) / unit, sources)
        slope = float(unit * np.abs(gradient).max())
        return unit**2 * value, unit * gradient.ravel()

    def callback(intermediate_result):  # scipy asks for this name
        W_now = intermediate_result.x.reshape(W.shape) / unit
        value = float(intermediate_result.fun) / unit**2
        report(State(W_now, sources.names, value, slope, slope <= tol))

    found = minimize(
        fun,
        unit * W.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=callback,
        options={"maxiter": max_iter, "gtol": tol, "ftol": 0, "maxfun": 20 * max_iter},
    )
    if found.nit == 0:  # nothing is better than the start, which may be a minimum
        slope = float(np.abs(found.jac).max())
        callback(found)
