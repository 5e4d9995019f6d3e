"""The Gaussian of a linear factor model, x ~ N(mean, W'W + diag(noise)).

Every question about it is answered through its factors z ~ N(0, I), x = mean + zW +
noise, in O(n_features * n_components) a row (the Woodbury identity); no covariance of
the features is formed unless it is asked for. All but the means of factors given whole
rows of float32 is computed in float64.
"""

from contextlib import nullcontext

import numpy as np

from .._factor_scores import exponents
from .._openmp import effective_n_threads
from .._products import product, single_threaded_blas

LOG_2_PI = np.log(2 * np.pi)
# Numbers in a block of rows: small enough to stay in a cache.
BLOCK = 2**18
# Numbers in a block of rows that are multiplied by each other and summed.
PRODUCT_BLOCK = 2**21
# Numbers in a block of small matrices, one for each row.
LARGE_BLOCK = 2**22
# Multiplications that are worth a second thread, which on a busy machine comes late.
LEAST_WORK = 5e7


def row_blocks(n_rows, width, size=BLOCK):
    """Slices that cut rows of `width` numbers in blocks of about `size` numbers."""
    step = max(1, size // max(1, width))
    for start in range(0, n_rows, step):
        yield slice(start, min(n_rows, start + step))


def one_thread_if_small(work):
    """Context in which so many multiplications, if few, are done on one thread."""
    return single_threaded_blas if work < LEAST_WORK else nullcontext()


class FactorGaussian:
    """x ~ N(mean, loadings' loadings + diag(noise)), a value that never changes.

    Parameters
    ----------
    mean : array-like of shape (n_features,)
    loadings : array-like of shape (n_components, n_features)
    noise : array-like of shape (n_features,), or a number
        Variances, above 0.
    """

    def __init__(self, mean, loadings, noise):
        self.mean = np.asarray(mean, dtype=np.float64)
        self.loadings = np.asarray(loadings, dtype=np.float64)
        self.noise = np.full(self.mean.shape, noise, dtype=np.float64)
        self.n_components, self.n_features = self.loadings.shape
        # Data and loadings in units of the noise.
        self.scale = 1 / np.sqrt(self.noise)
        self.scaled = np.ascontiguousarray(self.loadings * self.scale)
        work = self.n_components * self.scaled.size
        n_threads = effective_n_threads(work, LEAST_WORK)
        gram = product(self.scaled, self.scaled, b_turned=True, n_threads=n_threads)
        precision = np.eye(self.n_components) + gram
        # The factors given x have the precision L L'. (NumPy's functions, unlike
        # SciPy's, take the matrices of a model without factors.)
        root = np.linalg.cholesky(precision)
        self.inverse_root = np.linalg.inv(root)
        self.log_norm = -0.5 * (self.n_features * LOG_2_PI + np.log(self.noise).sum())
        self.log_norm -= np.log(np.diag(root)).sum()

    def parameters(self):
        """What makes the same value again, by name."""
        return {"mean": self.mean, "loadings": self.loadings, "noise": self.noise}

    def canonical_loadings(self):
        """Loadings of the same model whose factors are independent given x.

        They are sorted, those that the data say most about first.
        """
        _, basis = np.linalg.eigh(self.scaled @ self.scaled.T)
        return basis[:, ::-1].T @ self.loadings

    # ---- Rows without missing values ----

    def log_density(self, X):
        """Log-density of every row, (n,)."""
        found = np.empty(len(X))
        model = self.mean, self.scale, self.scaled, self.inverse_root
        # (Ctrl-C is heard between blocks.)
        for rows in row_blocks(len(X), self.n_features, LARGE_BLOCK):
            exponents(np.ascontiguousarray(X[rows]), *model, found[rows])
        found += self.log_norm
        return found

    def factor_means(self, X):
        """E[z | x] of every row, (n, n_components), in the precision of X.

        Of float32 and float64, deviations from the mean have all their digits.
        """
        back = (self.factor_covariance() @ self.scaled * self.scale).T
        # (Of float32 so small that their inverses are none, those of float64.)
        fits = np.abs(back).max(initial=0) <= np.finfo(X.dtype).max
        dtype = X.dtype if fits else np.float64
        back, mean = back.astype(dtype), self.mean.astype(dtype)
        rest = (self.mean - mean).astype(dtype)
        found = np.empty((len(X), self.n_components), X.dtype)
        for rows in row_blocks(len(X), self.n_features):
            deviation = X[rows] - mean
            if rest.any():
                deviation -= rest
            np.matmul(deviation, back, out=found[rows])
        return found

    def factor_covariance(self):
        """Covariance of z given a row without missing values."""
        return self.inverse_root.T @ self.inverse_root

    # ---- Rows with missing values, NaN ----

    def given_observed(self, X, ones=None):
        """Yield what the observed values of blocks of rows say, as `Observed`."""
        ones = np.ones(len(X)) if ones is None else ones
        width = max(self.n_features, (self.n_components + 1) ** 2)
        for rows in row_blocks(len(X), width, LARGE_BLOCK):
            yield Observed(self, rows, np.asarray(X[rows], np.float64), ones[rows])

    def log_density_observed(self, X):
        """Log-density of the observed values of every row, (n,)."""
        found = np.empty(len(X))
        for part in self.given_observed(X):
            found[part.rows] = part.log_density()
        return found

    def factor_means_observed(self, X):
        """E[z | observed values] of every row, (n, n_components)."""
        found = np.empty((len(X), self.n_components))
        for part in self.given_observed(X):
            found[part.rows] = part.means
        return found

    def fill(self, X, rng=None):
        """X with its NaN replaced by conditional means, or draws if there is an `rng`.

        The values drawn for a row are a joint draw.
        """
        filled = np.array(X, dtype=np.float64)
        for part in self.given_observed(X):
            factors, noise = part.means, 0.0
            if rng is not None:
                factors = part.draw(rng)
                noise = rng.normal(size=part.observed.shape) / self.scale
            answers = self.mean + factors @ self.loadings + noise
            filled[part.rows] = np.where(part.observed, filled[part.rows], answers)
        return filled

    # ---- The whole ----

    def covariance(self):
        """Covariance of the features."""
        covariance = self.loadings.T @ self.loadings
        covariance.flat[:: self.n_features + 1] += self.noise
        return covariance

    def precision(self):
        """Inverse of `covariance`."""
        whitener = self.inverse_root @ self.scaled
        precision = -(whitener.T @ whitener)
        precision.flat[:: self.n_features + 1] += 1
        return precision * self.scale * self.scale[:, np.newaxis]

    def sample(self, n_samples, rng):
        """Draws of x, (n_samples, n_features)."""
        factors = rng.normal(size=(n_samples, self.n_components))
        found = np.empty((n_samples, self.n_features))
        for rows in row_blocks(*found.shape):  # Ctrl-C is heard between them
            noise = rng.normal(size=found[rows].shape) / self.scale
            found[rows] = self.mean + factors[rows] @ self.loadings + noise
        return found


class Observed:
    """What the observed values of some rows say of their factors.

    Rows with the same pattern of missing values share the covariance of their
    factors.

    Parameters
    ----------
    gaussian : FactorGaussian
    rows : slice
        Which rows these are.
    X : ndarray of shape (n, n_features)
        The rows, NaN where a value is missing.
    ones : ndarray of shape (n,)
        What the mean of a row is times: 1, or another number in the rows of
        `_em.condensed`.

    Attributes
    ----------
    observed : ndarray of bool of shape (n, n_features)
    means : ndarray of shape (n, n_components)
        Means of the factors.
    pattern : ndarray of int of shape (n,)
        Which pattern a row has.
    inverse_roots : ndarray of shape (n_patterns, n_components, n_components)
        The inverse of the Cholesky factor of the factors' precision, R with covariance
        R' R, for every pattern. (A covariance itself would not have the digits of
        factors that are known well beside others that are not.)
    """

    def __init__(self, gaussian, rows, X, ones):
        self.gaussian, self.rows, self.ones = gaussian, rows, ones
        self.observed = ~np.isnan(X)
        deviation = (X - np.outer(ones, gaussian.mean)) * gaussian.scale
        self.deviation = np.where(self.observed, deviation, 0.0)
        first, self.pattern = patterns_of(self.observed)
        precisions = _precisions(gaussian, self.observed[first])
        self.inverse_roots = np.linalg.inv(np.linalg.cholesky(precisions))
        evidence = self.deviation @ gaussian.scaled.T
        whitened = np.einsum("nij,nj->ni", self.inverse_roots[self.pattern], evidence)
        self.means = self._coloured(whitened)

    def of_rows(self):
        """Covariances of the factors of every row, times how many rows it is."""
        roots = self.inverse_roots
        covariances = (np.swapaxes(roots, 1, 2) @ roots)[self.pattern]
        covariances *= self.ones[:, np.newaxis, np.newaxis] ** 2
        return covariances

    def _coloured(self, factors):
        """Rows of white factors with the covariances of the factors of the rows."""
        return np.einsum("nji,nj->ni", self.inverse_roots[self.pattern], factors)

    def log_density(self):
        """Log-density of the observed values of every row, or of what it stands for."""
        diagonals = np.diagonal(self.inverse_roots, axis1=1, axis2=2)
        found = self.observed @ (LOG_2_PI + np.log(self.gaussian.noise))
        found -= 2 * np.log(diagonals).sum(axis=1)[self.pattern]
        found *= self.ones**2
        # Of squares, which lose no digits where the noise is tiny as differences do.
        rest = self.deviation - self.observed * (self.means @ self.gaussian.scaled)
        found += np.einsum("ij,ij->i", rest, rest)
        found += np.einsum("ij,ij->i", self.means, self.means)
        return -0.5 * found

    def draw(self, rng):
        """Factors drawn given the observed values."""
        return self.means + self._coloured(rng.normal(size=self.means.shape))


def patterns_of(observed):
    """Places of the first rows of all patterns, and which pattern every row has."""
    # Words of 64 bits sort several times faster than what np.unique makes of rows.
    # (The bytes of a word have to lie side by side; in Fortran order they do not.)
    packed = np.packbits(np.ascontiguousarray(observed), axis=1)
    words = np.pad(packed, [(0, 0), (0, -packed.shape[1] % 8)]).view(np.uint64)
    order = np.lexsort(words.T)
    new = np.ones(len(order), bool)
    new[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
    pattern = np.empty(len(order), np.intp)
    pattern[order] = np.cumsum(new) - 1
    return order[new], pattern


def _precisions(gaussian, patterns):
    """I + W diag(observed / noise) W' for every pattern."""
    q = gaussian.n_components
    found = np.zeros((len(patterns), q * q))
    # (No shape is left to be inferred: a model may have no factors.)
    for features in row_blocks(gaussian.n_features, q * q, LARGE_BLOCK):
        scaled = gaussian.scaled[:, features].T
        products = scaled[:, :, np.newaxis] * scaled[:, np.newaxis]
        products = products.reshape(len(scaled), q * q)
        found += patterns[:, features].astype(np.float64) @ products
    return found.reshape(len(patterns), q, q) + np.eye(q)
