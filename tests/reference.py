"""Plain NumPy twins of the compiled kernels, and small machines by enumeration.

Nothing here is fast or clever: every function says what a kernel must compute,
or computes it from the definition. A machine is a tuple (components, hidden,
visible) of weights (n_hidden, n_visible) and biases, as `Trainer.parameters`
returns it.
"""

import os
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import chi2

# Statistical tests hold for any seed; this one may be set to try others.
SEED = int(os.environ.get("SKLEARN_EBM_TEST_SEED", "0"))

DRAW_HIDDEN, DRAW_VISIBLE, DRAW_DATA, DRAW_SWAP, DRAW_JUMP, DRAW_CHOICE = range(6)
REFINE = 0x80


def generator(*path):
    """NumPy's generator for one use: the test seed and where it is used."""
    return np.random.default_rng([SEED, *path])


def random_machine(n_hidden, n_visible, rng, *, scale=1.0, dtype=np.float64):
    """Normal weights and biases."""
    shapes = [(n_hidden, n_visible), n_hidden, n_visible]
    return tuple((scale * rng.normal(size=shape)).astype(dtype) for shape in shapes)


# ---- Random bits ----


def philox4x32(counter, key, rounds=7):
    """Philox4x32 of counters (..., 4) under a 64-bit key, as uint32 (..., 4)."""
    low32 = 0xFFFFFFFF
    x0, x1, x2, x3 = np.moveaxis(np.asarray(counter, dtype=np.uint64), -1, 0)
    k0, k1 = int(key) & low32, int(key) >> 32
    for _ in range(rounds):
        a, b = x0 * np.uint64(0xD2511F53), x2 * np.uint64(0xCD9E8D57)
        x0, x1 = (b >> 32) ^ x1 ^ np.uint64(k0), b & low32
        x2, x3 = (a >> 32) ^ x3 ^ np.uint64(k1), a & low32
        k0, k1 = (k0 + 0x9E3779B9) & low32, (k1 + 0xBB67AE85) & low32
    return np.stack([x0, x1, x2, x3], axis=-1).astype(np.uint32)


def random_words(columns, rows, step, purpose, key):
    """The generator's words (rows, columns, 4) for counters of a draw."""
    counter = np.empty((len(rows), len(columns), 4), dtype=np.uint64)
    counter[..., 0] = columns
    counter[..., 1] = np.asarray(rows)[:, np.newaxis]
    counter[..., 2] = step & 0xFFFFFFFF
    counter[..., 3] = purpose << 24 | step >> 32
    return philox4x32(counter, key)


def draws16(n_rows, n_columns, *, key, step, purpose, row0=0):
    """Draws from 0..65535: eight columns share a counter, two share a word."""
    rows, blocks = row0 + np.arange(n_rows), np.arange((n_columns + 7) // 8)
    words = random_words(blocks, rows, step, purpose, key)
    halves = np.stack([words & 0xFFFF, words >> 16], axis=-1)
    return halves.reshape(n_rows, -1)[:, :n_columns]


def uniforms(n_rows, n_columns, *, key, step, purpose, row0=0):
    """48-bit uniform numbers: a draw, and 32 bits that count when it ties."""
    rows, columns = row0 + np.arange(n_rows), np.arange(n_columns)
    extra = random_words(columns, rows, step, purpose | REFINE, key)[..., 0]
    draws = draws16(n_rows, n_columns, key=key, step=step, purpose=purpose, row0=row0)
    return (draws + extra / 2**32) / 2**16


def bernoulli(means, **counter):
    """Units that are on with these probabilities, as bool."""
    means = np.asarray(means, dtype=np.float64)
    return uniforms(*means.shape, **counter) < means


# ---- Half-sweeps and chains ----


def fields(X, weights, bias, neighbours=1):
    """Bias + X @ weights in their dtype, one active unit after the other.

    With neighbours > 1, so many units of X at a time are added up by themselves
    before their sum is added to the rest. (Units that are off add zeros.)
    """
    out = np.tile(np.asarray(bias, weights.dtype), (len(X), 1))
    columns = np.asarray(X, weights.dtype).T[:, :, np.newaxis]
    for start in range(0, len(weights), neighbours):
        part = columns[start] * weights[start]
        for i in range(start + 1, min(start + neighbours, len(weights))):
            part += columns[i] * weights[i]
        out += part
    return out


def hidden_fields(machine, visible):
    components, bias, _ = machine
    return fields(visible, components.T, bias)


def visible_fields(machine, hidden, neighbours=1):
    components, _, bias = machine
    return fields(hidden, components, bias, neighbours)


def block_fields(X, weights, bias, neighbours=1):
    """Fields of rows of bits that are swept together.

    If it pays to make tables of the sums of four units, rows of which much is on use
    them; the others take `neighbours` (1 or 2) units at a time.
    """
    lists, n_units = fields(X, weights, bias, neighbours), len(weights)
    starts = np.arange(0, n_units, neighbours)
    length = np.logical_or.reduceat(np.asarray(X, bool), starts, axis=1).sum(axis=1)
    excess = np.maximum(length - 0.2 * n_units, 0)
    if excess.sum() <= 5.0 * n_units:
        return lists
    return np.where(excess[:, np.newaxis] > 0, fields(X, weights, bias, 4), lists)


def swept_fields(X, weights, bias, neighbours=1, *, even=True):
    """Fields of rows of bits in blocks of at most 128, as even as can be or not."""
    n_rows, n_blocks = len(X), -(-len(X) // 128)
    stops = [
        n_rows * (b + 1) // n_blocks if even else 128 * (b + 1)
        for b in range(n_blocks - 1)
    ]
    return np.vstack(
        [block_fields(part, weights, bias, neighbours) for part in np.split(X, stops)]
    )


def gibbs_sweep(machine, visible, *, key, step, clamped=None, mean=expit, neighbours=2):
    """Hidden units, added up from pairs of visible ones, then visible units."""
    components, hidden_bias, visible_bias = machine
    counter = {"key": key, "step": step}
    means = mean(swept_fields(visible, components.T, hidden_bias, neighbours))
    hidden = bernoulli(means, purpose=DRAW_HIDDEN, **counter)
    means = mean(swept_fields(hidden, components, visible_bias))
    drawn = bernoulli(means, purpose=DRAW_VISIBLE, **counter)
    return drawn if clamped is None else np.where(clamped, visible, drawn)


# ---- Chains at inverse temperatures ----


@dataclass
class Path:
    """Twin of the path from `base`, biases (visible, hidden), to a machine.

    Methods take rows of visible units and an inverse temperature for each.
    """

    machine: tuple
    base: tuple
    mean: object = staticmethod(expit)

    def at(self, beta):
        """The machine at one inverse temperature, in float64."""
        components, hidden, visible = (np.float64(x) for x in self.machine)
        base_visible, base_hidden = (np.float64(x) for x in self.base)
        return (
            beta * components,
            (1 - beta) * base_hidden + beta * hidden,
            (1 - beta) * base_visible + beta * visible,
        )

    def fields(self, visible):
        components, bias, _ = self.machine
        return fields(visible, components.T, bias, 2)

    def log_p(self, visible, betas):
        """Logarithm of the unnormalised probability, hidden units summed out."""
        base_visible, base_hidden = (np.float64(x) for x in self.base)
        betas = np.reshape(betas, (-1, 1))
        x = (1 - betas) * base_hidden + betas * np.float64(self.fields(visible))
        bias = (1 - betas) * base_visible + betas * np.float64(self.machine[2])
        return (visible * bias).sum(axis=1) + np.logaddexp(0, x).sum(axis=1)

    def tempered(self, fields, base, betas):
        """Fields at inverse temperatures, in the dtype of the machine."""
        dtype, betas = fields.dtype, np.reshape(betas, (-1, 1))
        base = np.asarray(base, dtype)
        return base * (1 - betas).astype(dtype) + fields * betas.astype(dtype)

    def sweep(self, visible, betas, *, key, step, clamped=None):
        counter = {"key": key, "step": step}
        x = self.tempered(self.fields(visible), self.base[1], betas)
        hidden = bernoulli(self.mean(x), purpose=DRAW_HIDDEN, **counter)
        # Many chains take their hidden units four at a time.
        x = visible_fields(self.machine, hidden, 4 if len(visible) >= 16 else 1)
        x = self.tempered(x, self.base[0], betas)
        drawn = bernoulli(self.mean(x), purpose=DRAW_VISIBLE, **counter)
        return drawn if clamped is None else np.where(clamped, visible, drawn)

    def anneal_step(self, visible, betas, k, *, key, step, clamped=None):
        """Gains from betas[k] to the next, and states after a sweep there."""
        here, there = (np.full(len(visible), betas[k + i]) for i in (0, 1))
        gains = self.log_p(visible, there) - self.log_p(visible, here)
        if k + 2 < len(betas):
            visible = self.sweep(
                visible, there, key=key, step=step + k, clamped=clamped
            )
        return gains, visible


def partner_levels(levels, parity, n_levels):
    """Levels with which 2k + parity <-> 2k + 1 + parity swap; their own if none."""
    to = np.where((levels - parity) % 2 == 0, levels + 1, levels - 1)
    return np.where((to < 0) | (to >= n_levels), levels, to)


def swapped(levels, gains, parity, *, key, step):
    """Levels (n_ensembles, n_levels) after swaps, given what these would gain."""
    levels = levels.copy()
    n_ensembles, n_levels = levels.shape
    words = random_words(
        np.arange(n_levels), np.arange(n_ensembles), step, DRAW_SWAP, key
    )
    for e in range(n_ensembles):
        for level in range(parity, n_levels - 1, 2):
            low = np.flatnonzero(levels[e] == level)[0]
            high = np.flatnonzero(levels[e] == level + 1)[0]
            u = (words[e, level, 0] + 0.5) / 2**32
            if np.log(u) < gains[e, low] + gains[e, high]:
                levels[e, low], levels[e, high] = level + 1, level
    return levels


# ---- Training ----


def moments(visible, hidden_means):
    """Means over rows: of hidden x visible, of hidden, of visible."""
    h, v = np.float64(hidden_means), np.float64(visible)
    return h.T @ v / len(v), h.mean(axis=0), v.mean(axis=0)


def centred_gradient(data, model, visible_offset, hidden_offset):
    """The centred gradient, in plain parameters, of two sets of moments."""
    mu, offset = np.float64(visible_offset), np.float64(hidden_offset)

    def covariance(hv, h, v):
        return hv - np.outer(h, mu) - np.outer(offset, v) + np.outer(offset, mu)

    weights = covariance(*data) - covariance(*model)
    hidden = data[1] - model[1] - weights @ mu
    visible = data[2] - model[2] - offset @ weights
    return weights, hidden, visible


@dataclass
class Trainer:
    """Twin of the kernel's trainer, which it shows one minibatch at a time.

    `machine` and what samples depend on are in the kernel's dtype; gradients
    are in float64. Everything is updated by replacement, never in place.
    """

    machine: tuple
    chains: np.ndarray | None
    n_chains: int
    key: int
    visible_offset: np.ndarray
    hidden_offset: np.ndarray
    step: int = 0
    n_gibbs_steps: int = 1
    momentum: float = 0.0
    weight_decay: float = 0.0
    l1_decay: float = 0.0
    max_norm: float = 0.0
    nesterov: bool = False
    sparsity_target: float = 0.0
    sparsity_cost: float = 0.0
    offset_rate: float = 0.0
    velocity: tuple | None = None
    fast: tuple | None = None
    fast_learning_rate: float = 0.0
    mean: object = staticmethod(expit)
    jumps: object = None  # reference_units.Jumps

    def hidden_means(self, visible):
        return self.mean(hidden_fields(self.machine, visible))

    def sweep(self, hidden, step):
        """Chains from hidden states on: visible states, p(h | v), new states.

        They see the machine with its fast parameters added.
        """
        machine = self.machine
        if self.fast is not None:
            machine = tuple(x + f for x, f in zip(machine, self.fast, strict=True))
        fields = swept_fields(hidden, machine[0], machine[2], even=False)
        means = self.mean(fields)
        visible = bernoulli(means, key=self.key, step=step, purpose=DRAW_VISIBLE)
        means = self.mean(hidden_fields(machine, visible))
        hidden = bernoulli(means, key=self.key, step=step, purpose=DRAW_HIDDEN)
        return visible, means, hidden

    def log_model(self, hidden):
        """log p(h), and a constant."""
        weights, c, b = (np.float64(x) for x in self.machine)
        return hidden @ c + np.logaddexp(0, hidden @ weights + b).sum(axis=1)

    def minibatch(self, data, rate):
        jumps, n_steps = self.jumps, self.n_gibbs_steps
        if jumps is not None and jumps.is_due(self.step, n_steps):
            # (Of the rows that are worked on together.)
            jumps.store(hidden_fields(self.machine, data)[:128])
            chains = np.float64(self.chains)
            chains = jumps.jump(chains, self.log_model, self.step, n_steps)
            self.chains = chains > 0
        data_means = self.hidden_means(data)
        hidden = self.chains
        if hidden is None:
            hidden = bernoulli(
                data_means, key=self.key, step=self.step, purpose=DRAW_DATA
            )
        for s in range(self.n_gibbs_steps):
            visible, means, hidden = self.sweep(hidden, self.step + s)
        if self.chains is not None:
            self.chains = hidden
        gradient = centred_gradient(
            moments(data, data_means),
            moments(visible, means),
            self.visible_offset,
            self.hidden_offset,
        )
        if self.fast is not None:
            self.fast = tuple(
                0.95 * np.float64(f) + self.fast_learning_rate * g
                for f, g in zip(self.fast, gradient, strict=True)
            )
        activity = np.mean(data_means, axis=0, dtype=np.float64)
        self._ascend(gradient, activity, rate)
        self.step += self.n_gibbs_steps
        self.hidden_offset = self.hidden_offset + self.offset_rate * (
            activity - self.hidden_offset
        )

    def _ascend(self, gradient, activity, rate):
        weights, hidden, visible = gradient
        # The biases give way to whatever moves the weights.
        mu, offset = np.float64(self.visible_offset), np.float64(self.hidden_offset)
        decay = self.weight_decay * np.float64(self.machine[0])
        weights, hidden, visible = (
            weights - decay,
            hidden + decay @ mu,
            visible + offset @ decay,
        )
        hidden = hidden + self.sparsity_cost * (self.sparsity_target - activity)
        direction = gradient = weights, hidden, visible
        if self.velocity is not None:
            direction = self.velocity = tuple(
                self.momentum * np.float64(v) + g
                for v, g in zip(self.velocity, gradient, strict=True)
            )
        if self.velocity is not None and self.nesterov:
            direction = tuple(
                g + self.momentum * v
                for v, g in zip(self.velocity, gradient, strict=True)
            )
        weights, hidden, visible = (
            np.float64(x) + rate * d
            for x, d in zip(self.machine, direction, strict=True)
        )
        stepped = weights
        size = np.maximum(np.abs(weights) - rate * self.l1_decay, 0)
        weights = np.sign(weights) * size
        if self.max_norm:
            norms = np.linalg.norm(weights, axis=1, keepdims=True)
            weights = weights * self.max_norm / np.maximum(norms, self.max_norm)
        moved = weights - stepped
        self.machine = weights, hidden - moved @ mu, visible - offset @ moved


# ---- Scores ----


def free_energy(machine, X):
    """F(v) = -b.v - sum_j softplus(c_j + (v W)_j), for any real rows."""
    components, hidden, visible = (np.float64(x) for x in machine)
    X = np.float64(X)
    return -X @ visible - np.logaddexp(0, hidden + X @ components.T).sum(axis=1)


def pseudo_likelihood(machine, X):
    """sum_i v_i log p_i + (1 - v_i) log(1 - p_i), p_i = p(v_i = 1 | others)."""
    X = np.float64(X)
    total = np.zeros(len(X))
    for i in range(X.shape[1]):
        on, off = X.copy(), X.copy()
        on[:, i], off[:, i] = 1, 0
        log_odds = free_energy(machine, off) - free_energy(machine, on)
        total += X[:, i] * log_expit(log_odds) + (1 - X[:, i]) * log_expit(-log_odds)
    return total


# ---- Small machines by enumeration ----


def all_states(n):
    """All 2**n rows of n bits; row k holds the bits of k, the lowest first."""
    return (np.arange(2**n)[:, np.newaxis] >> np.arange(n) & 1).astype(bool)


def state_numbers(states):
    """Where rows of bits stand among `all_states`."""
    states = np.asarray(states)
    return (states != 0) @ (1 << np.arange(states.shape[1]))


def enumerate_machine(machine):
    """Everything about a machine from the energies of all its states.

    v, h: all states; log_z; p_vh (states of v, states of h), p_v, p_h; means of
    the hidden units given each v, and of the visible units given each h; one
    Gibbs sweep as the matrices p_h_given_v and p_v_given_h.
    """
    components, hidden, visible = (np.float64(x) for x in machine)
    v, h = all_states(len(visible)), all_states(len(hidden))
    minus_energy = (v @ visible)[:, np.newaxis] + h @ hidden + v @ components.T @ h.T
    log_z = logsumexp(minus_energy)
    p_vh = np.exp(minus_energy - log_z)
    p_v, p_h = p_vh.sum(axis=1), p_vh.sum(axis=0)
    p_h_given_v, p_v_given_h = p_vh / p_v[:, np.newaxis], p_vh.T / p_h[:, np.newaxis]
    return SimpleNamespace(
        v=v,
        h=h,
        log_z=log_z,
        log_p_v=logsumexp(minus_energy, axis=1) - log_z,
        p_vh=p_vh,
        p_v=p_v,
        p_h=p_h,
        p_h_given_v=p_h_given_v,
        p_v_given_h=p_v_given_h,
        hidden_means=p_h_given_v @ h,
        visible_means=p_v_given_h @ v,
    )


def log_likelihood(machine, data):
    """Mean of log p(v) over rows of bits, exactly."""
    return enumerate_machine(machine).log_p_v[state_numbers(data)].mean()


def model_moments(machine):
    """The model's exact expectations of hidden x visible, hidden, visible."""
    exact = enumerate_machine(machine)
    return exact.h.T @ exact.p_vh.T @ exact.v, exact.p_h @ exact.h, exact.p_v @ exact.v


def data_moments(machine, data):
    """`moments` of rows of bits with exact p(h | v)."""
    return moments(data, enumerate_machine(machine).hidden_means[state_numbers(data)])


# ---- Statistics ----


def chi_square_p_value(counts, probabilities, *, least=20):
    """p-value of counts (..., cells) of independent draws from probabilities.

    The rarest cells are merged until every cell expects at least `least`. The
    leading axes are independent experiments, whose statistics add up.
    """
    statistic, degrees = 0.0, 0
    for seen, p in zip(
        np.atleast_2d(counts), np.atleast_2d(probabilities), strict=True
    ):
        order = np.argsort(p)
        seen, expected = seen[order], seen.sum() * p[order]
        merged = max(
            np.searchsorted(np.cumsum(expected), least) + 1,
            np.searchsorted(expected, least),
        )
        cells = np.r_[0, merged : len(p)]
        expected = np.add.reduceat(expected, cells)
        seen = np.add.reduceat(seen, cells)
        statistic += ((seen - expected) ** 2 / expected).sum()
        degrees += len(cells) - 1
    return chi2.sf(statistic, degrees)
