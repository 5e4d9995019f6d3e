"""Densities of the sources of ICA: energies and their derivatives, and draws.

A density is p(y) = exp(-energy(y)), normalised; all are smooth and have mean zero.
Their scale is arbitrary, since the unmixing matrix of ICA has a scale of its own.

Of each there are two forms: `evaluate`, and what the compiled pass over the data
(_ica.pyx) takes, a `kind` with its `shape`. Its energies are without `log_norm`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, k1
from scipy.stats import geninvgauss

from .._ica import HYPERBOLIC, STUDENT, TANH, lanes_of

# Degrees of freedom of the Student t: heavy tails with a finite variance.
STUDENT_DF = 3
# Half-width of the rounded tip of the Laplace density; its tails have slope 1.
LAPLACE_TIP = 0.1
# Weight of the lesser one of two Gaussians whose mixture is skewed and, whatever their
# distance, has no excess kurtosis: what peaked and flat densities do not see.
LESSER = 0.5 - 1 / np.sqrt(12)


class Logistic:
    """The logistic density, 1 / (4 cosh(y / 2)^2): kurtosis 1.2."""

    variance = np.pi**2 / 3
    kind, log_norm = TANH, 0.0
    # energy' = 0 + 0 y + 1 tanh(1 y / 2), of y + 0
    shape = 1, 1, 0, 0, 0

    @staticmethod
    def evaluate(y):
        """Energy of each value and its first two derivatives."""
        energy = np.abs(y)
        energy += 2 * np.log1p(np.exp(-energy))
        score = np.tanh(y / 2)
        return energy, score, (1 - score * score) / 2

    @staticmethod
    def third(y):
        """Third derivative of the energy."""
        score = np.tanh(y / 2)
        return -score * (1 - score * score) / 2

    @staticmethod
    def draw(rng, shape):
        """Draws from the density."""
        return rng.logistic(size=shape)


class Laplace:
    """The Laplace density with a rounded tip, exp(-sqrt(y^2 + tip^2)) / (2 tip K_1).

    This is the symmetric hyperbolic density, whose normaliser is known.
    """

    variance = 2.0  # of the sharp density; only a scale to start from
    kind, shape = HYPERBOLIC, (LAPLACE_TIP,)
    log_norm = float(np.log(2 * LAPLACE_TIP * k1(LAPLACE_TIP)))

    @staticmethod
    def evaluate(y):
        """Energy of each value and its first two derivatives."""
        radius = np.sqrt(y * y + LAPLACE_TIP**2)
        inverse = 1 / radius
        energy = radius + Laplace.log_norm
        return energy, y * inverse, LAPLACE_TIP**2 * inverse**3

    @staticmethod
    def third(y):
        """Third derivative of the energy."""
        return -3 * LAPLACE_TIP**2 * y / np.sqrt(y * y + LAPLACE_TIP**2) ** 5

    @staticmethod
    def draw(rng, shape):
        """Draws: Gaussians whose variance is generalised inverse Gaussian."""
        variance = LAPLACE_TIP * geninvgauss.rvs(
            1, LAPLACE_TIP, size=shape, random_state=rng
        )
        return np.sqrt(variance) * rng.normal(size=shape)


class Student:
    """Student's t with 3 degrees of freedom."""

    variance = STUDENT_DF / (STUDENT_DF - 2)
    kind, shape = STUDENT, (STUDENT_DF,)
    log_norm = float(gammaln(STUDENT_DF / 2) - gammaln((STUDENT_DF + 1) / 2))
    log_norm += float(0.5 * np.log(STUDENT_DF * np.pi))

    @staticmethod
    def evaluate(y):
        """Energy of each value and its first two derivatives."""
        df = STUDENT_DF
        square = y * y
        energy = (df + 1) / 2 * np.log1p(square / df) + Student.log_norm
        inverse = 1 / (df + square)
        return energy, (df + 1) * y * inverse, (df + 1) * (df - square) * inverse**2

    @staticmethod
    def third(y):
        """Third derivative of the energy."""
        df = STUDENT_DF
        return 2 * (df + 1) * y * (y * y - 3 * df) / (df + y * y) ** 3

    @staticmethod
    def draw(rng, shape):
        """Draws from the density."""
        return rng.standard_t(STUDENT_DF, size=shape)


class TwoGaussians:
    """A mixture of two Gaussians of variance 1, with mean zero.

    Parameters
    ----------
    weight : float
        Weight of the right one.

    distance : float
        Between their means.
    """

    kind = TANH

    def __init__(self, weight, distance):
        self.weight = weight
        self.means = distance * (1 - weight), -distance * weight
        self.variance = 1 + distance**2 * weight * (1 - weight)
        # energy' = x - lean - half tanh(half x), of x = y + shift
        half = distance / 2
        self.lean = float(np.log(weight / (1 - weight))) / distance
        self.shift = self.lean - sum(self.means) / 2
        self.half = half
        self.shape = distance, -half, 1, self.shift, -self.lean
        self.log_norm = (self.lean**2 + half**2 + float(np.log(2 * np.pi))) / 2
        self.log_norm -= float(np.log(weight * (1 - weight))) / 2

    def evaluate(self, y):
        """Energy of each value and its first two derivatives."""
        x = y + self.shift
        size = self.half * np.abs(x)
        energy = (x / 2 - self.lean) * x - size - np.log1p(np.exp(-2 * size))
        tanh = np.tanh(self.half * x)
        slope = 1 - self.half**2 * (1 - tanh * tanh)
        return energy + self.log_norm, x - self.lean - self.half * tanh, slope

    def third(self, y):
        """Third derivative of the energy."""
        tanh = np.tanh(self.half * (y + self.shift))
        return 2 * self.half**3 * tanh * (1 - tanh * tanh)

    def draw(self, rng, shape):
        """Draws from the density."""
        means = np.where(rng.uniform(size=shape) < self.weight, *self.means)
        return means + rng.normal(size=shape)


# At their best scales these and the logistic fit a Gaussian about equally well (they
# lose 0.010 to 0.011 nats), so that the best of them tells what a source is.
DENSITIES = {
    "logistic": Logistic,
    "laplace": Laplace,
    "student": Student,
    "subgaussian": TwoGaussians(0.5, 2),  # kurtosis -0.5
    "right-skewed": TwoGaussians(LESSER, 1.8),
    "left-skewed": TwoGaussians(1 - LESSER, 1.8),
}
# What an adaptive source chooses from; and then, if the first of them suits it best,
# what is more peaked. (Sooner that would suit mixtures of bits, too, and keep them.)
ADAPTIVE = ("logistic", "subgaussian", "right-skewed", "left-skewed")
PEAKED = ("logistic", "laplace", "student")
# What a source is whose sign is changed.
MIRRORED = {"right-skewed": "left-skewed", "left-skewed": "right-skewed"}


@dataclass(frozen=True)
class Layout:
    """Where sources are in the panels of the compiled pass, and what these are.

    `places` are the columns of the sources, `kinds` the kinds of the panels,
    `shapes` of shape (5, columns); columns of no source may have any.
    """

    places: np.ndarray
    kinds: np.ndarray
    shapes: np.ndarray


class Sources:
    """Independent sources, each with a density of its own, given by name."""

    def __init__(self, names):
        self.names = list(names)
        self._columns, self._layouts = {}, {}
        for kind in sorted(set(self.names)):
            columns = [n for n, name in enumerate(self.names) if name == kind]
            if columns[-1] - columns[0] == len(columns) - 1:  # a slice spares copies
                columns = slice(columns[0], columns[-1] + 1)
            self._columns[kind] = columns

    def layout(self, dtype):
        """Sources in panels, each of one kind."""
        if dtype not in self._layouts:
            self._layouts[dtype] = self._laid_out(dtype)
        return self._layouts[dtype]

    def _laid_out(self, dtype):
        densities, lanes = [DENSITIES[name] for name in self.names], lanes_of(dtype)
        places, kinds = np.empty(len(densities), dtype=int), []
        for kind in sorted({density.kind for density in densities}):
            own = [n for n, density in enumerate(densities) if density.kind == kind]
            places[own] = lanes * len(kinds) + np.arange(len(own))
            kinds += [kind] * -(-len(own) // lanes)
        shapes = np.ones((5, lanes * len(kinds)), dtype)
        for place, density in zip(places, densities, strict=True):
            shapes[: len(density.shape), place] = density.shape
        return Layout(places, np.array(kinds, dtype=np.int32), shapes)

    def log_norms(self):
        """What the energies of the compiled pass lack, for each source."""
        return np.array([DENSITIES[name].log_norm for name in self.names])

    def evaluate(self, Y):
        """Energy and its first two derivatives, elementwise, source by source."""
        if len(self._columns) == 1:
            return DENSITIES[self.names[0]].evaluate(Y)
        results = tuple(np.empty_like(Y) for _ in range(3))
        for kind, columns in self._columns.items():
            parts = DENSITIES[kind].evaluate(Y[:, columns])
            for result, part in zip(results, parts, strict=True):
                result[:, columns] = part
        return results

    def third(self, Y):
        """Third derivative of the energy, elementwise."""
        result = np.empty_like(Y)
        for kind, columns in self._columns.items():
            result[:, columns] = DENSITIES[kind].third(Y[:, columns])
        return result

    def draw(self, n_samples, rng):
        """Draws of all sources, as rows."""
        result = np.empty((n_samples, len(self.names)))
        for kind, columns in self._columns.items():
            shape = result[:, columns].shape
            result[:, columns] = DENSITIES[kind].draw(rng, shape)
        return result
