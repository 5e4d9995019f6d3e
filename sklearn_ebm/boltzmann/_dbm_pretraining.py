"""Greedy pretraining of deep Boltzmann machines, a layer at a time."""

import numpy as np
from scipy.special import logit

from .._machines import Way, chunks, weighted_sums
from .._rows import Rows
from .._training import Division, Run, minibatch_rates
from .._unit_trainer import UnitTrainer
from .._units import Wanted, evaluate
from ..layered import blocks, unfolded
from ..units import any_unbounded, as_unit
from ._sampling import LAYER_KEY
from ._starts import CLIP, log_odds
from ._trained import OFFSET_RATE

BERNOULLI = as_unit("bernoulli")
# Learning rates by default. Hidden units that hear their input twice, and visible ones
# that may answer with any number, can drive each other up without end at the first.
RATE, UNBOUNDED_RATE = 0.1, 0.01


def pretrain(estimator, X, rows, division):
    """Train the layers of an estimator one by one, in place: its `_state` changes.

    When interrupted, it has what they have learned so far.

    In the deep machine a hidden layer hears from both sides. Trained by itself, the
    lowest layer hears its input twice and the highest one answers twice [1]_; the
    weights of those between, which hear and answer once, are halved.

    Parameters
    ----------
    estimator : DBMTransformer
        At the start of its training.

    X, rows : {ndarray, sparse matrix}, Rows
        Visible units.

    division : Division
        Which rows are trained on.

    References
    ----------
    .. [1] R. Salakhutdinov, G. E. Hinton, "Deep Boltzmann machines", AISTATS 2009.
    """
    state = estimator._state
    sizes = estimator._sizes(rows.n_columns)
    weights = blocks(state["components"].T, sizes)
    connected = blocks(estimator._connected(rows.n_columns), sizes)
    biases = unfolded(state["intercept_visible"], state["intercept_hidden"], sizes)
    even = np.pad(state["latent_offset"], (sizes[0], 0))
    state["latent_offset"] = even[sizes[0] :]  # a view: the layers' go there
    offsets = unfolded(even, state["hidden_offset"], sizes)
    last = len(sizes) - 2
    for k in range(last + 1):
        up = 2.0 if k == 0 < last else 1.0
        down = 2.0 if k == last > 0 else 1.0
        share = 0.5 if 0 < k < last else 1.0
        below = np.array(biases[k])
        if estimator._of_centred_bits():
            # Biases that these layers have to themselves.
            mean, rate = rows.column_means, offsets[k + 1]
            odds = log_odds(mean, division.n_rows)
            biases[k][...] = odds - down * weighted_sums(weights[k], rate)
            biases[k + 1][...] = logit(rate) - up * weighted_sums(weights[k].T, mean)
        trainer = _trainer(
            estimator, rows, k, weights[k], connected[k], biases, offsets, up, down
        )
        run = Run(trainer, division)
        for epoch in range(estimator.pretrain_n_iter):
            rates = minibatch_rates(
                _learning_rate(estimator, k),
                estimator.learning_rate_schedule,
                epoch,
                estimator.pretrain_n_iter,
                run.n_batches,
            )
            try:
                run.epoch(state["key"] ^ (LAYER_KEY + k), rates, False)
            finally:
                components, hidden, visible, log_variance = trainer.parameters()
                weights[k][...] = share * components.T
                # A layer of two machines starts from the mean of its two biases.
                biases[k][...] = visible if k == 0 else (below + visible) / 2
                biases[k + 1][...] = hidden
                if k == 0:
                    state["log_variance"][: sizes[0]] = log_variance
                if estimator.centering:
                    offsets[k + 1][...] = trainer.hidden_offset()
        if k < last:
            X = _means(X, trainer, rows.dtype, up, *_standardised(state, k))
            rows = Rows(X)
            division = Division(X, rows, 0, state["key"])


def _standardised(state, k):
    """What is subtracted from the inputs of layer k, and what they are divided by."""
    return (state["shift"], state["scale"]) if k == 0 else (0.0, 1.0)


def _learning_rate(estimator, k):
    """Learning rate of layer k."""
    if estimator.pretrain_learning_rate is not None:
        return estimator.pretrain_learning_rate
    unbounded = k == 0 and any_unbounded(estimator._columns().unit)
    return UNBOUNDED_RATE if unbounded else RATE


def _trainer(estimator, rows, k, weights, connected, biases, offsets, up, down):
    """A kernel that trains layers k and k + 1."""
    n_visible, n_hidden = weights.shape
    state, columns, first = estimator._state, estimator._columns(), k == 0
    shift, scale = _standardised(state, k)
    key = state["key"] ^ (LAYER_KEY + k)
    centred = estimator.centering
    seen = (rows.column_means - shift) / scale
    variance = np.exp(state["log_variance"][:n_visible].astype(float)) if first else 1.0
    fields = biases[k + 1] + up * weighted_sums(
        weights.T.astype(float), seen / variance
    )
    trainer = UnitTrainer(
        rows,
        (columns.unit if first else BERNOULLI).kernel(n_visible),
        BERNOULLI.kernel(n_hidden),
        np.ascontiguousarray(weights.T),
        biases[k + 1],
        biases[k],
        state["log_variance"][:n_visible] if first else 0.0,
        batch_size=estimator.batch_size,
        chains=_chains(estimator, fields, key),
        key=key,
        step=1,
        n_gibbs_steps=1,
        visible_offset=seen if centred else 0.0,
        hidden_offset=offsets[k + 1] if centred else 0.0,
        gaussian=columns.gaussian if first else False,
        learned=columns.learned if first else False,
        shift=shift,
        scale=scale,
        data_variance=np.square(state["visible_scale"] / scale) if first else 1.0,
        up_scale=up,
        down_scale=down,
        connected=connected,
    )
    if first and any_unbounded(columns.unit):
        trainer.clip = CLIP
    trainer.momentum = estimator.momentum
    trainer.weight_decay = estimator.weight_decay
    trainer.offset_rate = OFFSET_RATE if centred else 0.0
    if estimator.momentum:
        trainer.start_velocity()
    return trainer


def _chains(estimator, fields, key):
    """First states of persistent chains: hidden units of the mean of the data.

    None for contrastive divergence.
    """
    if not estimator._greedy_chains_persist:
        return None
    n_chains = estimator.n_chains or estimator.batch_size
    fields, units = np.tile(fields, (n_chains, 1)), BERNOULLI.kernel(len(fields))
    return evaluate(units, fields, Wanted.DRAWS, key=key)


def _means(X, trainer, dtype, up, shift, scale):
    """Means of the hidden units of a machine that has been trained, for all rows."""
    components, hidden, _, log_variance = trainer.parameters()
    weights = components.T * (up / np.exp(log_variance))[:, np.newaxis]
    way = Way(BERNOULLI, weights.astype(dtype), hidden)
    return np.vstack(
        [
            way.means(((chunk - shift) / scale).astype(dtype))
            for chunk in chunks(X, dtype)
        ]
    )
