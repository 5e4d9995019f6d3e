"""Greedy pretraining of deep Boltzmann machines, a layer at a time."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from .._machines import Way, dense_chunks, weighted_sums
from .._rows import Rows
from .._training import Division, Run, minibatch_rates
from .._unit_trainer import UnitTrainer
from .._units import Kind, Wanted, evaluate
from .._validation import title
from ..layered import blocks, unfolded
from ..monitoring import print_iteration
from ..units import any_unbounded, are, as_unit
from ._defaults import CLIP, rate_of_counts, rate_shares
from ._sampling import LAYER_KEY
from ._starts import log_odds
from ._trainable import set_steps
from ._visible_scales import bias_for, kernel_scales

BERNOULLI = as_unit("bernoulli")
# Learning rates by default. At the first, hidden units that hear their input twice and
# visible ones without bounds can drive each other to infinity.
RATE, RATE_OF_REALS, UNBOUNDED_RATE = 0.1, 0.03, 0.01


def pretrain(estimator, X, rows, division, epochs, n_epochs):
    """Train the layers of an estimator one by one, in place: its `_state` changes.

    When interrupted, it has what they have learned so far.

    In the deep machine a hidden layer has fields from both sides. To make up for the
    side that is missing while a layer is trained by itself, fields of the lowest hidden
    layer are doubled, and so are those that the highest one gives back [1]_; of the
    layers between neither, but the deep machine gets half of their weights.

    Where only the lowest layer is trained, nothing is doubled.

    Parameters
    ----------
    estimator : DBMTransformer
        At the start of its training.

    X, rows : {ndarray, sparse matrix}, Rows
        Visible units.

    division : Division
        Which rows are trained on.

    epochs : iterator
        Its next element is asked for before every epoch; where there is none, that is
        the end of the pretraining.

    n_epochs : int
        Epochs of every layer.

    References
    ----------
    .. [1] R. Salakhutdinov, G. E. Hinton, "Deep Boltzmann machines", AISTATS 2009.
    """
    key = estimator._state["key"]
    for part in _parts(estimator, rows.n_columns):
        for epoch in range(n_epochs):
            if next(epochs, None) is None:
                return
            if epoch == 0:
                _set_biases(estimator, part, rows, division)
                trainer = _trainer(estimator, rows, part)
                run = Run(trainer, division)
            rates = minibatch_rates(
                _learning_rate(estimator, part.k),
                estimator.learning_rate_schedule,
                epoch,
                n_epochs,
                run.n_batches,
            )
            try:
                entry = run.epoch(key ^ (LAYER_KEY + part.k), rates, False)
            finally:
                part.keep(trainer, estimator.centering)
            if estimator.verbose:
                text = "weight norm = {weight_norm:.4g}, time = {seconds:.2f}s"
                name = f"{title(estimator)}, layer {part.k + 1}"
                print_iteration(name, epoch + 1, text.format(**entry))
        if not part.last and not part.only:
            way = _way_up(trainer, rows.dtype, part.up)
            shift, scale = _standardised(estimator._state, part)
            X = np.vstack(
                [
                    way.means(((chunk - shift) / scale).astype(rows.dtype))
                    for chunk in dense_chunks(X, rows.dtype)
                ]
            )
            rows = Rows(X)
            division = Division(X, rows, 0, key)


@dataclass
class Part:
    """Layers k and k + 1 of a deep machine, which are a machine by themselves.

    Arrays are views of the deep machine's.
    """

    k: int
    last: bool
    # Whether it is the only one that is trained: layers above, if any, say nothing yet.
    only: bool
    # (n_lower, n_upper); and where there are weights at all.
    weights: np.ndarray
    connected: np.ndarray
    lower_bias: np.ndarray
    upper_bias: np.ndarray
    upper_offset: np.ndarray
    # Of the visible units; None of other layers.
    log_variance: np.ndarray | None

    def __post_init__(self):
        first = self.k == 0
        # By what weights are multiplied on the way up, and on the way down.
        self.up = 2.0 if first and not self.last and not self.only else 1.0
        self.down = 2.0 if self.last and not first else 1.0
        # What of its weights the deep machine gets.
        self.share = 1.0 if first or self.last else 0.5
        self._bias_from_below = np.array(self.lower_bias)

    def start(self, kinds, mean, n_rows):
        """Set biases that these layers have to themselves, given means of the data."""
        rate = self.upper_offset
        own = bias_for(kinds, mean, 0.5 / n_rows)
        self.lower_bias[...] = own - self.down * weighted_sums(self.weights, rate)
        self.upper_bias[...] = logit(rate) - self.up * weighted_sums(
            self.weights.T, mean
        )

    def keep(self, trainer, centring):
        """Keep what has been learned."""
        components, hidden, visible, log_variance = trainer.parameters()
        self.weights[...] = self.share * components.T
        self.upper_bias[...] = hidden
        if self.k:
            # A layer of two machines starts from the mean of its two biases.
            visible = (self._bias_from_below + visible) / 2
        else:
            self.log_variance[...] = log_variance
        self.lower_bias[...] = visible
        if centring:
            self.upper_offset[...] = trainer.hidden_offset()


def _parts(estimator, n_columns):
    """The parts of a machine, from the bottom up.

    One after the other: each starts with what the one below it has left.
    """
    state, sizes = estimator._state, estimator._sizes(n_columns)
    weights = blocks(state["components"].T, sizes)
    connected = blocks(estimator._connected(n_columns), sizes)
    biases = unfolded(state["intercept_visible"], state["intercept_hidden"], sizes)
    even = np.pad(state["latent_offset"], (sizes[0], 0))
    state["latent_offset"] = even[sizes[0] :]  # a view: the layers' go there
    offsets = unfolded(even, state["hidden_offset"], sizes)
    for k in range(estimator._n_pretrained_layers):
        yield Part(
            k,
            k == len(sizes) - 2,
            estimator._n_pretrained_layers == 1,
            weights[k],
            connected[k],
            biases[k],
            biases[k + 1],
            offsets[k + 1],
            None if k else state["log_variance"][: sizes[0]],
        )


def _kinds(estimator, part):
    """Return the kinds of the lower units of a part."""
    if part.k == 0:
        return estimator._columns().kinds
    return np.full(len(part.lower_bias), int(Kind.BERNOULLI))


def _standardised(state, part):
    """What is subtracted from the inputs of a part, and what they are divided by."""
    return (0.0, 1.0) if part.k else (state["shift"], state["scale"])


def _learning_rate(estimator, k):
    """Learning rate of layer k."""
    if estimator.pretrain_learning_rate is not None:
        return estimator.pretrain_learning_rate
    if k:
        return RATE
    if estimator._sees(Kind.RELU):
        return UNBOUNDED_RATE
    return RATE_OF_REALS if estimator._sees(Kind.GAUSSIAN) else RATE


def _rate_shares(estimator, k):
    """Shares of the learning rate of layer k for the units below it."""
    if k or estimator.pretrain_learning_rate is not None:
        return 1.0
    kinds = estimator._columns().kinds
    means, size = estimator._state["visible_offset"], estimator._hidden_sizes[0]
    of_counts = rate_of_counts(UNBOUNDED_RATE, kinds, means, size)
    return rate_shares(_learning_rate(estimator, k), of_counts, kinds)


def _trainer(estimator, rows, part):
    """A kernel that trains a part."""
    n_lower, n_upper = part.weights.shape
    state, columns, first = estimator._state, estimator._columns(), part.k == 0
    shift, scale = _standardised(state, part)
    key = state["key"] ^ (LAYER_KEY + part.k)
    seen = (rows.column_means - shift) / scale
    variance = np.exp(part.log_variance.astype(float)) if first else 1.0
    fields = part.upper_bias + part.up * weighted_sums(
        part.weights.T.astype(float), seen / variance
    )
    trainer = UnitTrainer(
        rows,
        (columns.unit if first else BERNOULLI).kernel(n_lower),
        BERNOULLI.kernel(n_upper),
        np.ascontiguousarray(part.weights.T),
        part.upper_bias,
        part.lower_bias,
        part.log_variance if first else 0.0,
        batch_size=estimator.batch_size,
        chains=_chains(estimator, fields, key),
        key=key,
        step=1,
        n_gibbs_steps=1,
        visible_offset=estimator._subtracted(
            seen, are(_kinds(estimator, part), Kind.BERNOULLI)
        ),
        hidden_offset=part.upper_offset if estimator.centering else 0.0,
        rate_shares=_rate_shares(estimator, part.k),
        up_scale=part.up,
        down_scale=part.down,
        connected=part.connected,
        **(kernel_scales(state, columns) if first else {}),
    )
    if first and any_unbounded(columns.unit):
        trainer.clip = CLIP
    set_steps(trainer, estimator)
    return trainer


def _chains(estimator, fields, key):
    """First states of persistent chains: hidden units of the mean of the data.

    None for a net: by contrastive divergence hidden units say more of the rows, and the
    machine is a worse model of them.
    """
    if estimator._pretrains_net:
        return None
    fields = np.tile(fields, (estimator._n_chains(), 1))
    units = BERNOULLI.kernel(fields.shape[1])
    return evaluate(units, fields, Wanted.DRAWS, key=key)


def _set_biases(estimator, part, rows, division):
    """Let the biases of a part be those that its training begins with."""
    if estimator._of_centred_bits():
        part.start(_kinds(estimator, part), rows.column_means, division.n_rows)
    elif part.k:
        # The bias from below is that of units which hear their input twice.
        part.lower_bias[...] = log_odds(rows.column_means, division.n_rows)


def _way_up(trainer, dtype, up):
    """Way from the visible to the hidden units of a machine that has been trained."""
    components, hidden, _, log_variance = trainer.parameters()
    weights = components.T * (up / np.exp(log_variance))[:, np.newaxis]
    return Way(BERNOULLI, weights.astype(dtype), hidden)
