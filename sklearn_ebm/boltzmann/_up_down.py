"""The up-down algorithm: contrastive wake-sleep training of a deep belief network.

Wake: states are drawn up from the data, and every layer's generative weights learn to
give the layer below back. The machine on top learns from the state it is reached in
and the state some Gibbs sweeps later. Sleep: from there states are drawn down, and
the recognition weights learn to find the states that these came from. Each of these
conditionals is a layer of independent units, whose gradient is the delta rule.
"""

import numpy as np

from .._gibbs import Purpose
from .._machines import Way
from .._products import product
from .._validation import dense
from ..units import Bernoulli, any_unbounded, with_gaussian
from ._defaults import CLIP


class UpDown:
    """Weights of the ways up and down, and their training on minibatches.

    Real features are trained on less their means and divided by their deviations.
    Steps of their generative weights are along the gradient times the variance.

    Parameters
    ----------
    recognition : tuple of list of ndarray
        Weights (n_above, n_below) and biases of the layers below the machine on
        top, on the way up.

    generative : tuple of list of ndarray
        Weights of all layers, and the biases of all, the visible ones first.

    visible : Unit
        What the features are.

    variance, shift, scale : ndarray of shape (n_visible,)
        Of Gaussian features the variances given the layer above, and what is
        subtracted from them for the training, and divides them then; 1, 0 and 1 for
        others.

    key, step : int
        Random key, and random steps that have been used.

    n_gibbs_steps : int
        Sweeps of the machine on top.
    """

    def __init__(
        self,
        recognition,
        generative,
        *,
        visible,
        variance,
        shift,
        scale,
        key,
        step,
        n_gibbs_steps,
    ):
        *weights, top = generative[0]
        *biases, top_down, top_up = generative[1]
        self.dtype, self.key, self.step = top.dtype, key, step
        self.shift, self.scale, self.variance = shift, scale, variance
        self.n_gibbs_steps = n_gibbs_steps
        self.unbounded = any_unbounded(visible)
        self.top_up = own_way(top.T, top_up)
        self.top_down = own_way(top, top_down)
        self.ups = [own_way(w.T, b) for w, b in zip(*recognition, strict=True)]
        self.downs = [own_way(w, b) for w, b in zip(weights, biases, strict=True)]
        self._standardize(visible)

    @classmethod
    def of(cls, first, model, key, step):
        """Begin with the weights of a model, the first machine of which is given."""
        shift, scale, variance, visible = 0.0, 1.0, 1.0, Bernoulli()
        if not first._bits:
            columns = first._columns()
            shift = np.where(columns.gaussian, first.visible_mean_, 0.0)
            scale = np.where(columns.gaussian, first.visible_scale_, 1.0)
            variance, visible = first.variance_.astype(float), columns.unit
        n_visible = len(first.visible_mean_)
        return cls(
            (model.recognition_components_[:-1], model.recognition_intercepts_[:-1]),
            (model.components_, model.intercepts_),
            visible=visible,
            variance=np.broadcast_to(variance, n_visible),
            shift=np.broadcast_to(shift, n_visible),
            scale=np.broadcast_to(scale, n_visible),
            key=key,
            step=step,
            n_gibbs_steps=model.n_gibbs_steps,
        )

    # (In these two methods all factors are 1 and all shifts 0 but for real features.)

    def _standardize(self, visible):
        """Change the lowest weights to those of standardised features."""
        up, down, dtype = self.ups[0], self.downs[0], self.dtype
        self.precision = np.square(self.scale) / self.variance
        seen = up.weights / self.variance[:, np.newaxis]
        bias = up.bias + np.einsum("i,ij->j", self.shift, seen)
        unit = with_gaussian(visible, np.zeros(len(self.shift)), 1 / self.precision)
        self.ups[0] = Way(
            Bernoulli(), (seen * self.scale[:, np.newaxis]).astype(dtype), bias
        )
        self.downs[0] = Way(
            unit,
            (down.weights / self.scale * self.precision).astype(dtype),
            (down.bias - self.shift) / self.scale * self.precision,
        )

    def fitted(self):
        """Return the attributes of the model with the weights as they are now."""
        up, down = self.ups[0], self.downs[0]
        seen = up.weights / self.scale[:, np.newaxis]
        lowest_up = (
            (seen * self.variance[:, np.newaxis]).T,
            up.bias - np.einsum("i,ij->j", self.shift, seen),
        )
        lowest_down = (
            down.weights / self.precision * self.scale,
            self.shift + down.bias / self.precision * self.scale,
        )
        top = self.top_up.weights.T, self.top_up.bias
        ups = [lowest_up, *((way.weights.T, way.bias) for way in self.ups[1:]), top]
        downs = [lowest_down, *((way.weights, way.bias) for way in self.downs[1:])]
        biases = [*(bias for _, bias in downs), self.top_down.bias, top[1]]
        fitted = {
            "components_": [*(weights for weights, _ in downs), top[0]],
            "intercepts_": biases,
            "recognition_components_": [weights for weights, _ in ups],
            "recognition_intercepts_": [bias for _, bias in ups],
        }
        return {
            name: [np.array(each, self.dtype, order="C") for each in arrays]
            for name, arrays in fitted.items()
        }

    def minibatch(self, X, rate):
        """Take a step of all weights; returns the mean squared error of the features.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_visible)
            Visible units.

        rate : float
            Learning rate.
        """
        awake = self._draw_up((dense(X, float) - self.shift) / self.scale)
        end, top_steps = self._contrast(awake[-1])
        dreams = self._draw_down(end)
        # All steps are found before any is taken.
        wake = list(map(delta, self.downs, awake[1:], awake[:-1]))
        sleep = list(map(delta, self.ups, dreams[:-1], dreams[1:]))
        if self.unbounded:
            wake[0], sleep[0] = clipped(*wake[0]), clipped(*sleep[0])
        for k, (down, (weights, bias, _)) in enumerate(
            zip(self.downs, wake, strict=True)
        ):
            scale = self.precision.astype(self.dtype) if k == 0 else 1
            down.weights += rate * weights * scale
            down.bias += rate * bias * scale
        for up, (weights, bias, _) in zip(self.ups, sleep, strict=True):
            up.weights += rate * weights
            up.bias += rate * bias
        weights, bias_down, bias_up = top_steps
        self.top_up.weights += rate * weights
        self.top_down.weights += rate * weights.T
        self.top_down.bias += rate * bias_down
        self.top_up.bias += rate * bias_up
        return float(np.square(wake[0][2]).mean())

    def _draw_up(self, X):
        """Draw states from the bottom up, given the visible units."""
        states = [X.astype(self.dtype)]
        for way in self.ups:
            states.append(self._draw(way, states[-1]))
        return states

    def _draw_down(self, top):
        """Draw states given the lower layer on top; from the bottom up."""
        states = [top]
        for way in reversed(self.downs):
            states.append(self._draw(way, states[-1]))
        return states[::-1]

    def _contrast(self, start):
        """State of the machine on top after some sweeps, and its gradients."""
        end = start
        for _ in range(self.n_gibbs_steps):
            end = self._draw(self.top_down, self._draw(self.top_up, end))
        first, last = self.top_up.means(start), self.top_up.means(end)
        weights = product(turned(start), first) - product(turned(end), last)
        return end, (
            weights / len(start),
            (start - end).mean(axis=0),
            (first - last).mean(axis=0),
        )

    def _draw(self, way, given):
        self.step += 1  # every draw has its own
        return way.draw(given, self.key, self.step, Purpose.DRAW_HIDDEN)

    def weight_norms(self):
        """Frobenius norms of all generative weights, and of those on the way up."""
        fitted = self.fitted()
        return [
            float(np.sqrt(sum(np.square(w, dtype=float).sum() for w in fitted[way])))
            for way in ("components_", "recognition_components_")
        ]


def delta(way, given, states):
    """Gradient of the mean of log p(states | given) by the delta rule.

    Parameters
    ----------
    way : Way
        The units whose states they are, given others.

    given, states : ndarray of shape (n_rows, n_inputs), (n_rows, n_units)
        States of both layers.

    Returns
    -------
    weights, bias : ndarray of shape (n_inputs, n_units), (n_units,)
        Gradients with respect to the weights and biases of the fields.

    residuals : ndarray of shape (n_rows, n_units)
        What is left of the states without their means.
    """
    residuals = states - way.means(given)
    weights = product(turned(given), residuals) / len(given)
    return weights, residuals.mean(axis=0), residuals


def clipped(weights, bias, residuals):
    """Return what `delta` does, with no gradient beyond CLIP."""
    return np.clip(weights, -CLIP, CLIP), np.clip(bias, -CLIP, CLIP), residuals


def own_way(weights, bias):
    """Way to Bernoulli units, with copies of weights and biases that may change."""
    return Way(Bernoulli(), np.array(weights, order="C"), np.array(bias))


def turned(matrix):
    return np.ascontiguousarray(matrix.T)
