"""What a fitted deep belief network can do: the use of a model."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._gibbs import Purpose
from .._machines import Machine, dense_chunks
from .._transformer import Transformer
from .._validation import (
    check_choice,
    check_count,
    check_restored,
    check_rows,
    check_states,
    dense,
    naming,
)
from ..samplers import Gibbs
from ..samplers._draws import SAMPLING_METHODS, SPARE_STEPS, draw
from ._bound import Bound
from ._columns import by_number
from ._faults import warn_of_excess_probability
from ._normaliser import kept_log_z
from ._sampling import PASS_KEY, OwnDraws
from ._stack import encoder, means_down, means_up
from ._structure import component_shapes, gives_all
from .rbm import RBM

# Draws of the hidden layers for the bound of every row.
N_DRAWS = 10


class FittedDBN(OwnDraws, Transformer):
    """The use of a deep belief network.

    An estimator that derives from it has the parameters `visible`, `output` and
    `random_state` and sets the attributes of `DBNTransformer`, among them `_stack`,
    the states of its machines.
    """

    _takes_sparse = True

    def transform(self, X):
        """Compute the means of hidden units, layer by layer.

        Every layer is given the means of the layer below, along the recognition
        weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data to be transformed.

        Returns
        -------
        h : ndarray of shape (n_samples, n_features_out)
            Means of the units of the top layer or, with ``output="all"``, of all
            hidden layers, from the bottom up.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, has other features than in `fit`, or
            in columns of codes others than 0, 1, ... up to the largest in `fit`.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If X has values that the visible units cannot represent, or blocks of
            categories that do not sum to 1.
        """
        return self._transform(X)

    def _transform(self, X, quiet=False):
        check_is_fitted(self)
        X, rows = self._check_use(X, quiet=quiet)
        return self._output(X, rows.dtype)

    def _output(self, X, dtype):
        of_all, layers = gives_all(self), [X]
        for rbm in self._rbms(recognition=True):
            below = layers[-1] if of_all else layers.pop()
            layers.append(means_up(rbm, below, dtype))
        return np.hstack(layers[1:]) if of_all else layers[0]

    def inverse_transform(self, X):
        """Compute means of the visible units, given the top layer.

        Every layer is given the means of the layer above, along the generative
        weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_out)
            States or means as `transform` returns them; with ``output="all"`` those
            of the layers below the top are not used.

        Returns
        -------
        v : ndarray of shape (n_samples, n_features)
            Means of the visible units; the likeliest category where a column holds
            codes of categories.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If X is not a matrix of finite numbers, with the columns of `transform`.
        TypeError
            If X holds dates or times.

        Warns
        -----
        UserWarning
            If values of X lie outside [0, 1], by more than rounding.
        """
        check_is_fitted(self)
        X, rows = check_states(self, X, self._n_features_out, "X")
        H = dense(X[:, -len(self.components_[-1]) :], rows.dtype)
        for rbm in reversed(self._rbms()):
            H = means_down(rbm, H)
        return H

    def reconstruct(self, X):
        """Reconstruct data from the means of the top layer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        Returns
        -------
        v : ndarray of shape (n_samples, n_features)
            ``inverse_transform(transform(X))``, deterministic.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.
        """
        return self.inverse_transform(self.transform(X))

    def score_samples(self, X):
        """Compute a lower bound on the log-likelihood of X.

        The variational bound ``E_q[log p(v, h) - log q(h)]``, with the hidden layers
        drawn up from v along the recognition weights: ten draws, by random numbers
        that the values of a row decide (an estimate, which for a few rows can lie a
        little above the log-likelihood). It needs log Z of the machine at the top,
        which is found when it is first needed, and kept: exactly if a layer has at most
        2^14 states, otherwise by the larger of two estimates with a fixed seed,
        annealed importance sampling and the weights of states near rows of the
        training. Then it is an estimate of a lower bound, which can lie above the
        log-likelihood (see `top_rbm` for forward and reverse estimates of log Z). With
        one hidden layer nothing is drawn, and it is the log-likelihood.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units. Values of Bernoulli units between 0 and 1
            are used as they are.

        Returns
        -------
        bound : ndarray of shape (n_samples,)
            Bounds in nats; of columns of counts and categories on those of
            probabilities, of real ones on those of densities.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.

        Warns
        -----
        UserWarning
            As in `transform`. Or if scores cannot be right, since different rows of
            bits, categories or counts had more than all probability together.
        """
        check_is_fitted(self)
        X, _ = self._check_use(X)
        scores = self._bounds(X, N_DRAWS) - kept_log_z(self.top_rbm(), self)
        first = self._rbm(0)
        warn_of_excess_probability(
            self, first._columns().kinds, X, scores, encoder(first)
        )
        return scores

    def _bounds(self, X, n_draws):
        """Bounds of validated rows, without log Z."""
        recognition = [rbm._layered() for rbm in self._rbms(recognition=True)]
        *generative, top = (rbm._layered() for rbm in self._rbms())
        bound = Bound(recognition[:-1], generative, top, n_draws)
        encode = encoder(self._rbm(0))
        return np.concatenate([bound.of(x) for x in dense_chunks(X, float, encode)])

    def score(self, X, y=None):
        """Compute the mean of a lower bound on the log-likelihood of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.

        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        score : float
            Mean of `score_samples`, in nats a row.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `score_samples`.
        """
        return float(self.score_samples(X).mean())

    def sample(
        self,
        n_samples=None,
        n_gibbs_steps=1000,
        init=None,
        random_state=None,
        *,
        method="gibbs",
    ):
        """Draw samples from the model.

        Each from a Gibbs chain of its own in the machine at the top, followed by one
        pass down.

        Parameters
        ----------
        n_samples : int, default=None
            Number of samples. None means one for every row of `init`, or one.

        n_gibbs_steps : int, default=1000
            Gibbs steps of the chains.

        init : array-like of shape (n_samples, n_features), default=None
            Values of the visible units from which the starts of the chains are drawn
            up. None starts them near rows of the training and lets them jump to others,
            if the training has kept any (with persistent chains, by default); or else
            at independent units with the means that the training data gave.

        random_state : int, RandomState instance or None, default=None
            Seeds the draws. None goes on with a sequence of the model's own, which
            the `random_state` of the fit determines.

        method : {"gibbs", "tempering"}, default="gibbs"
            "tempering" has every chain exchange temperatures with nine others,
            which helps where the machine at the top has separate modes and takes
            ten to twenty times as long.

        Returns
        -------
        v : ndarray of shape (n_samples, n_features)
            Values of the visible units.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If `n_samples` is less than 1 or `n_gibbs_steps` less than 0; `init` has
            other than `n_samples` rows, or is refused as X by `transform`; or `method`
            is none of these, or "tempering" with a single hidden layer above units that
            are not Bernoulli units.
        TypeError
            If a number is no integer, or `init` holds dates or times.

        Warns
        -----
        UserWarning
            As in `transform`, of `init`.
        """
        check_is_fitted(self)
        n_steps = check_count(n_gibbs_steps, "n_gibbs_steps", least=0)
        check_choice(method, "method", SAMPLING_METHODS[:2])
        if n_samples is not None:
            check_count(n_samples, "n_samples", least=1)
        key, step = self._draws(random_state)
        top = self.top_rbm()
        if init is not None:
            init = self._draw_up(init, key ^ PASS_KEY, step)
        chains = Gibbs(top).begin(n_samples, init, None, key, step)
        states = draw(top, chains, 1, n_steps, 1, method, init is None)[0]
        if random_state is None:
            self._use_draws(n_steps + SPARE_STEPS + len(self.components_))
        return self._draw_down(states, key ^ PASS_KEY, step)

    def _draw_up(self, X, key, step):
        """Draw states of the lower layer at the top, given visible units."""
        with naming("init"):
            X, rows = self._check_use(X)
        *below, _ = self._rbms(recognition=True)
        if not below:
            return encoder(self._rbm(0))(X)
        states = np.concatenate(list(dense_chunks(X, rows.dtype, encoder(below[0]))))
        for number, rbm in enumerate(below):
            up = Machine(rbm._layered(), rows.dtype).up
            states = up.draw(states, key, step + number, Purpose.DRAW_HIDDEN)
        return states

    def _draw_down(self, states, key, step):
        """Draw visible units, as columns, given the lower layer at the top."""
        rbms = self._rbms()
        states = np.asarray(states, self.components_[0].dtype)
        for number, rbm in enumerate(rbms[-2::-1]):
            down = Machine(rbm._layered(), states.dtype).down
            states = down.draw(states, key, step + number, Purpose.DRAW_VISIBLE)
        return rbms[0]._decode(states)

    def top_rbm(self):
        """Return the machine at the top: the upper two layers.

        Returns
        -------
        rbm : RBM
            A fitted machine whose features are the units of the layer below the
            top, a copy of its part of the model. `sklearn_ebm.likelihood.log_partition`
            says how well its log Z is known, `sklearn_ebm.samplers` how its chains
            mix.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        """
        check_is_fitted(self)
        number = len(self.components_)
        rbm, layers = self._rbm(number - 1), np.array(self.history_["layer"])
        rbm.history_ = {
            name: np.array(values)[layers == number].tolist()
            for name, values in self.history_.items()
            if name != "layer"
        }
        if self._up_down_step:
            # The up-down algorithm has left the machine's own training behind.
            rbm._state = rbm._state | {
                "components": rbm.components_,
                "intercept_hidden": rbm.intercept_hidden_,
                "intercept_visible": rbm.intercept_visible_,
                "velocity": None,
            }
        return rbm

    def _rbms(self, recognition=False):
        """Return fitted machines from the bottom up, with the weights of one way."""
        return [self._rbm(k, recognition) for k in range(len(self.components_))]

    def _rbm(self, number, recognition=False):
        weights = self.recognition_components_ if recognition else self.components_
        rbm = RBM(
            len(weights[number]),
            visible="bernoulli" if number else self._numbered_visible(),
            random_state=0,
        )
        # (With what it was made of in `_made`.)
        rbm.__dict__.update(
            self._stack[number],
            components_=weights[number],
            intercept_hidden_=self.recognition_intercepts_[number],
            intercept_visible_=self.intercepts_[number],
        )
        if number == 0 and hasattr(self, "variance_"):
            rbm.variance_ = self.variance_
        return rbm

    def _numbered_visible(self):
        """What the columns hold, without their names."""
        names = getattr(self, "feature_names_in_", None)
        return by_number(self.visible, self.n_features_in_, names)

    def _check_use(self, X, quiet=False):
        """Validate data to use the model on; the data and their `Rows`."""
        first = self._rbm(0)
        X, rows = check_rows(self, X, quiet=quiet or not first._bits)
        if not first._bits:
            first._columns().check(self, X, quiet=quiet)
        return X, rows

    @property
    def _n_features_out(self):
        sizes = [len(weights) for weights in self.components_]
        return sum(sizes) if gives_all(self) else sizes[-1]

    def _check_restored(self):
        sizes = [len(bias) for bias in self.intercepts_]
        weights = component_shapes(sizes)
        shapes = {
            "components_": weights,
            "recognition_components_": weights,
            "recognition_intercepts_": [(size,) for size in sizes[1:]],
        }
        check_restored(self, shapes)
