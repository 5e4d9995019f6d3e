"""Machines of several hidden layers, ready to compute with: inference by mean field."""

import numpy as np
from scipy.special import entr

from ._machines import Machine, Way, chunks_to_multiply, dense_chunks
from ._mean_field import MeanField
from ._validation import dense
from .layered import counted_from_origins, side_by_side, unfolded
from .units import as_unit


class DeepMachine:
    """A layered model, of which the first layer is given.

    Parameters
    ----------
    layers : Layered
        The model, unfolded.

    dtype : dtype
        What to compute in.

    n_steps : int
        Mean-field steps, at most.

    tolerance : float
        Change of a mean below which a row has settled.
    """

    def __init__(self, layers, dtype, *, n_steps, tolerance):
        self.dtype = np.dtype(dtype)
        self.sizes = [len(bias) for bias in layers.biases]
        self.machine = Machine(layers.folded(), self.dtype)
        n_visible, n_even = self.sizes[0], sum(self.sizes[::2])
        self.down = Way(
            as_unit(layers.units[0]),
            np.asarray(layers.weights[0], self.dtype).T,
            layers.biases[0],
        )
        # Gaussian units are counted from where they are by themselves: else mean field
        # would begin, and round, differently where the data lie elsewhere.
        layers, origins = counted_from_origins(layers)
        even, odd = (np.concatenate(origins[k::2]) for k in (0, 1))
        self.origins = even[:n_visible], even[n_visible:], odd
        b, c = (np.concatenate(layers.biases[k::2]) for k in (0, 1))
        # (Upside down, the last layer is the visible one.)
        latent = side_by_side(layers.units[2::2] or ("bernoulli",), self.sizes[2::2])
        hidden = side_by_side(layers.units[1::2], self.sizes[1::2])
        self.field = MeanField(
            as_unit(latent).kernel(n_even - n_visible),
            as_unit(hidden).kernel(len(c)),
            self.dtype,
            n_visible,
            n_steps=n_steps,
            tolerance=tolerance,
        ).set(self.machine.up.weights, c, b[n_visible:])

    def settle(self, X):
        """Mean field, side by side.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_visible)
            Visible units.

        Returns
        -------
        latent : ndarray of shape (n_rows, n_even - n_visible)
            Means of the even layers above the visible one.

        odd : ndarray of shape (n_rows, n_odd)
            Means of the odd layers.
        """
        visible, *above = self.origins
        if visible.any():
            X = (dense(X) - visible).astype(self.dtype)
        settled = self.field.settle(X)
        return tuple(
            (means + origin).astype(self.dtype) if origin.any() else means
            for means, origin in zip(settled, above, strict=True)
        )

    def means(self, X):
        """Means of the hidden layers, given rows of visible units.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_visible)
            Visible units.

        Returns
        -------
        means : list of ndarray of shape (n_rows, layer size)
            Of the hidden layers, from the bottom up.
        """
        if self.origins[0].any():
            rows = dense_chunks(X, self.dtype)
        else:
            rows = chunks_to_multiply(X, self.dtype, max(self.sizes[1:]))
        settled = [self.settle(piece) for piece in rows]
        latent, odd = (np.vstack(side) for side in zip(*settled, strict=True))
        return unfolded(odd, latent, self.sizes[1:])

    def visible_means(self, hidden):
        """Means of visible units, given rows of the first hidden layer.

        Parameters
        ----------
        hidden : ndarray of shape (n_rows, size of the first hidden layer)
            States or means.

        Returns
        -------
        means : ndarray of shape (n_rows, n_visible)
            Means of the visible units.
        """
        return self.down.means(np.ascontiguousarray(hidden, self.dtype))

    def even(self, X):
        """Return visible units with the means of the other even layers beside them.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_visible)
            Visible units, in the dtype of the machine.

        Returns
        -------
        even : ndarray of shape (n_rows, n_even)
            What folded machines take for visible units.
        """
        return np.hstack([X, self.settle(X)[0]])

    def bound(self, X):
        """Lower bound of log p(v) + log Z, a number a row, if hidden units are bits.

        With q the mean-field distribution of the hidden units it is the mean of -E
        under q and the entropy of q. All odd layers are summed out exactly, which
        never lowers it.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_visible)
            Visible units.

        Returns
        -------
        bound : ndarray of shape (n_rows,)
            In nats.
        """
        return np.concatenate(
            [self._bound(chunk) for chunk in dense_chunks(X, self.dtype)]
        )

    def _bound(self, X):
        even = self.even(X)
        latent = even[:, X.shape[1] :].astype(float)
        entropy = (entr(latent) + entr(1 - latent)).sum(axis=1)
        return entropy - self.machine.free_energy(even)
