"""Plain NumPy twins of units of any kind and of their trainer.

A machine here is a tuple (weights (n_visible, n_hidden), hidden biases, visible
biases, logarithms of the variances of the visible units), all in float64.
"""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp

from reference import (
    DRAW_CHOICE,
    DRAW_DATA,
    DRAW_HIDDEN,
    DRAW_JUMP,
    DRAW_VISIBLE,
    random_words,
)
from sklearn_ebm._units import Kind, Wanted, evaluate

# Make the numbers of a row others than its uniform ones.
NORMAL, RECTIFIED = 64, 32
PANEL_BYTES = 64


# ---- Random numbers ----


def _rounded_up(n, size):
    return -(-n // size) * size


def row_words(n_rows, n_columns, dtype, *, key, step=0, purpose=0, row0=0, block0=0):
    """A random integer for every column, of as many bits as a number."""
    size = np.dtype(dtype).itemsize
    blocks = block0 + np.arange(_rounded_up(n_columns * size, 16) // 16)
    # (A row counts where those of bits count columns.)
    words = random_words(row0 + np.arange(n_rows), blocks, step, purpose, key)
    words = words.swapaxes(0, 1).reshape(n_rows, -1).astype(np.uint64)
    if size == 8:
        words = words[:, ::2] | words[:, 1::2] << np.uint64(32)
    return words[:, :n_columns]


def fraction(words, dtype):
    """The low bits of random integers as numbers in (0, 1)."""
    n_bits = np.finfo(dtype).nmant
    return ((words & np.uint64(2**n_bits - 1)) + 0.5) / 2.0**n_bits


def row_uniforms(n_rows, n_columns, dtype, **counter):
    return fraction(row_words(n_rows, n_columns, dtype, **counter), dtype)


def _angle(words, dtype):
    n_bits = np.uint64(8 * np.dtype(dtype).itemsize)
    turn, back = (words >> (n_bits - np.uint64(k)) & np.uint64(1) for k in (1, 2))
    place = (fraction(words, dtype) - 0.5) * np.pi / 2
    return place + np.pi / 2 * turn + np.pi * back


def row_normals(n_rows, n_columns, dtype, *, purpose=0, **counter):
    """Box and Muller, of the words of two neighbouring panels."""
    lanes = PANEL_BYTES // np.dtype(dtype).itemsize
    n = _rounded_up(n_columns, 2 * lanes)
    words = row_words(n_rows, n, dtype, purpose=purpose | NORMAL, **counter)
    first, second = np.moveaxis(words.reshape(n_rows, -1, 2, lanes), 2, 0)
    radius = np.sqrt(-2 * np.log(fraction(first, dtype)))
    angle = _angle(second, dtype)
    pair = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return pair.reshape(n_rows, n)[:, :n_columns]


def row_rectified(fields, dtype, start, n_units, *, purpose=0, **counter):
    """States of rectified units, which are columns from `start` on of a layer.

    Proposals until one is accepted: normal numbers, or exponential ones with Robert's
    rate (Statistics and Computing 5, 1995).
    """
    n_rows, n = fields.shape
    lanes = PANEL_BYTES // np.dtype(dtype).itemsize
    x = np.float64(fields)
    rate = (np.sqrt(x * x + 4) - x) / 2
    states = np.full(x.shape, -1.0)
    turn = 0
    while (states < 0).any():
        panels = []
        for p in range(-(-n // lanes)):
            place = 8 * (start + p + turn * n_units)
            panels.append(
                row_words(
                    n_rows, 2 * lanes, dtype, purpose=purpose | RECTIFIED,
                    block0=place, **counter,
                )
            )  # fmt: skip
        words = np.stack(panels, axis=1).reshape(n_rows, -1, 2, lanes)
        first, second = words.swapaxes(1, 2).reshape(n_rows, 2, -1).swapaxes(0, 1)
        first, second = first[:, :n], second[:, :n]
        e = -np.log(fraction(first, dtype))
        s = e / rate
        accepted = np.exp(-((s + -x - rate) ** 2) / 2) >= fraction(second, dtype)
        normal = x + np.sqrt(2 * e) * np.cos(_angle(second, dtype))
        proposed = np.where(x < 0.5, np.where(accepted, s, -1), normal)
        states = np.where(states < 0, proposed, states)
        turn += 1
    return states


# ---- Single units ----


def energy(kind, s, loc=0.0, scale=1.0):
    """U(s) of one unit."""
    if kind == Kind.GAUSSIAN:
        return (s - loc) ** 2 / (2 * scale**2)
    if kind == Kind.RELU:
        return s**2 / 2
    return gammaln(s + 1) if kind == Kind.POISSON else 0 * s


def log_partition(kind, x, loc=0.0, scale=1.0):
    """log sum_s exp(s x - U(s)) of one unit, by enumeration or quadrature."""
    if kind in (Kind.BERNOULLI, Kind.SPIN):
        return logsumexp(np.array([0.0 if kind == Kind.BERNOULLI else -x, x]))
    if kind == Kind.POISSON:
        mean = np.exp(x)
        s = np.arange(max(0, mean - 40 * np.sqrt(mean)), mean + 40 * np.sqrt(mean) + 60)
        return logsumexp(np.floor(s) * x - gammaln(np.floor(s) + 1))
    peak = loc + scale**2 * x if kind == Kind.GAUSSIAN else max(x, 0.0)
    top = peak * x - energy(kind, peak, loc, scale)
    width = 40 * scale if kind == Kind.GAUSSIAN else 40 / max(1.0, -x)
    low = peak - width if kind == Kind.GAUSSIAN else max(0.0, peak - width)
    area, _ = quad(
        lambda s: np.exp(s * x - energy(kind, s, loc, scale) - top),
        low,
        peak + width,
        points=[peak] if low < peak else None,
        epsabs=0,
        epsrel=1e-12,
        limit=200,
    )
    return top + np.log(area)


# ---- Training ----


class Jumps:
    """Jumps of chains to hidden states of the last rows (see _jumps.pyx).

    hidden : compiled `Units`, which draw as the kernel does, in `dtype`
    seldom : whether one in a few minibatches does as well
    counts : which visible units are counts, which hidden bits drive up
    """

    def __init__(
        self, hidden, key, dtype, n_visible, batch_size, *, seldom=False,
        counts=(), size=48,
    ):  # fmt: skip
        self.n_visible, self.batch_size, self.seldom = n_visible, batch_size, seldom
        self.counts = counts
        self.hidden, self.key, self.dtype, self.size = hidden, key, dtype, size
        self.fields, self.rows = {}, {}
        self.at, self.wait, self.due = 0, None, 0

    def store(self, fields):
        """Keep fields of the hidden units given the rows of a minibatch."""
        for r, row in enumerate(fields[: self.size]):
            k = (self.at + r) % self.size
            self.fields[k] = self.rows[k] = row
            if k % 8 == 7 and not self.seldom:
                before = self.fields[k - 1]
                self.fields[k] = (row + before) / 2
        self.kept = [(self.at + r) % self.size for r in range(len(fields))]
        self.kept = self.kept[: self.size]
        self.at = (self.at + len(self.kept)) % self.size

    def drive_counts(self, machine, up_scale, down_scale, step):
        """Let some fields that were kept last be those where counts are driven up."""
        weights, c, b = machine[:3]
        n = len(self.counts)
        bits = set(self.hidden.of_kind(Kind.BERNOULLI)) == {True}
        for k in self.kept:
            if k % 8 != 7 or k // 8 % 3 == 0 or not n or not bits or self.seldom:
                continue
            on = self.rows[k] > 0
            if k // 8 % 3 == 2:
                n_drawn = (n + 7) // 8
                index = np.arange(1, 1 + (n_drawn + 3) // 4)
                words = random_words(index, [k], step, DRAW_CHOICE, self.key)
                words = words.ravel()[:n_drawn].astype(float)
                drawn = self.counts[(words * n / 2**32).astype(int)]
                raised = weights[drawn] > 0
                rates = b[drawn] + down_scale * (weights[drawn] * raised).sum(axis=1)
                log_weights = raised @ c + np.exp(np.minimum(rates, 15))
                on = raised[log_weights.argmax()]
            for _ in range(2):
                rates = b[self.counts] + down_scale * weights[self.counts] @ on
                expected = np.exp(np.minimum(rates, 15))
                self.fields[k] = c + up_scale * expected @ weights[self.counts]
                on = self.fields[k] > 0

    def is_due(self, step, n_steps):
        """Whether a minibatch of n_steps Gibbs steps begins with a jump."""
        return step >= self.due or self.due - step > self.wait * n_steps

    def log_proposal(self, hidden, pool):
        """log q(h) + U(h), and a constant."""
        given = hidden @ pool.T - evaluate(self.hidden, pool, Wanted.LOG_PARTITIONS)
        return logsumexp(given, axis=1)

    def jump(self, chains, log_model, step, n_steps):
        """Where chains are after a jump.

        log_model : log p(h) + U(h), and a constant, as function of states
        """
        pool = np.array([self.fields[k] for k in range(len(self.fields))], float)
        words = random_words([0], np.arange(len(chains)), step, DRAW_CHOICE, self.key)
        chosen = (words[:, 0, 0].astype(float) * len(pool) / 2**32).astype(int)
        new = evaluate(
            self.hidden, pool[chosen].astype(self.dtype), Wanted.DRAWS, key=self.key,
            step=step, purpose=DRAW_JUMP,
        ).astype(float)  # fmt: skip
        weights = [log_model(h) - self.log_proposal(h, pool) for h in (new, chains)]
        gains = weights[0] - weights[1]
        accepted = np.log((words[:, 0, 1] + 0.5) / 2**32) < gains
        work = 2 * chains.size * (self.size + self.n_visible // 8)
        n_rows, n_hidden = self.batch_size + len(chains), chains.shape[1]
        others = 2 * self.n_visible * n_hidden * n_rows

        def wait(a_minibatch):
            return int(min(64, 2 ** np.ceil(max(0, np.log2(work / a_minibatch)))))

        least = short = min(wait(262144), wait(4 * others))
        if self.seldom:
            least = min(wait(10240), max(4, wait(others // 10)))
        elif others > 33554432:
            least = min(wait(262144), max(4, short))
        self.wait = min(2 * (self.wait or least), 512)
        if accepted.any():
            self.wait = min(self.wait, least)
        if (gains > 5).sum() * 20 > len(chains):
            self.wait = short
        self.due = step + self.wait * n_steps
        return np.where(accepted[:, np.newaxis], new, chains)


@dataclass
class UnitTrainer:
    """Twin of the kernel's trainer, which it shows one minibatch at a time.

    visible, hidden : compiled `Units`, which draw as the kernel does, in `dtype`
    keep : share of their distance from their means that Gaussian units of chains keep
    infer : means of the visible units that rows do not have, given the others
    connected : of which weights there are, 1, and 0 of others
    rate_shares : of the rate, for what belongs to a visible unit
    """

    visible: object
    hidden: object
    machine: tuple
    chains: np.ndarray | None
    key: int
    visible_offset: np.ndarray
    hidden_offset: np.ndarray
    gaussian: np.ndarray
    learned: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    step: int = 0
    n_gibbs_steps: int = 1
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    l1_decay: float = 0.0
    max_norm: float = 0.0
    sparsity_target: float = 0.0
    sparsity_cost: float = 0.0
    offset_rate: float = 0.0
    clip: float = 0.0
    keep: float = 0.0
    visible_chains: np.ndarray | None = None
    velocity: tuple | None = None
    variance_rate: float = 0.1
    least_variance: float = 1e-3
    dtype: type = np.float64
    infer: object = None
    connected: object = 1.0
    up_scale: float = 1.0
    down_scale: float = 1.0
    rate_shares: object = 1.0
    unbounded: bool = False
    jumps: Jumps | None = None

    @property
    def along(self):
        """Whether weights move with a variance: up to twice that of the data, 1."""
        return self.unbounded & (self.variance <= 2)

    @property
    def variance(self):
        return np.exp(self.machine[3])

    def _draw(self, units, fields, purpose, step):
        counter = {"key": self.key, "step": step, "purpose": purpose}
        fields = fields.astype(self.dtype)
        return evaluate(units, fields, Wanted.DRAWS, **counter).astype(float)

    def hidden_fields(self, visible):
        weights, bias = self.machine[:2]
        return self.up_scale * (visible / self.variance) @ weights + bias

    def hidden_means(self, visible):
        return evaluate(self.hidden, self.hidden_fields(visible), Wanted.MEANS)

    def draw_visible(self, hidden, step):
        """Gaussian units have the visible biases for means."""
        weights, _, bias, _ = self.machine
        self.visible.set_gaussian(bias, self.variance)
        fields = self.down_scale * hidden @ weights.T
        mean = bias + fields
        fields = np.where(self.gaussian, fields / self.variance, fields + bias)
        visible = self._draw(self.visible, fields, DRAW_VISIBLE, step)
        if self.keep and self.visible_chains is not None:
            fresh = np.sqrt(1 - self.keep**2) * (visible - mean)
            moved = mean + self.keep * (self.visible_chains - mean) + fresh
            visible = np.where(self.gaussian, moved, visible)
        self.visible_chains = visible
        return visible

    def log_model(self, hidden):
        """log p(h) + U(h), and a constant."""
        weights, c, bias, _ = self.machine
        self.visible.set_gaussian(bias, self.variance)
        fields = self.down_scale * hidden @ weights.T
        fields = np.where(self.gaussian, fields / self.variance, fields + bias)
        return hidden @ c + evaluate(self.visible, fields, Wanted.LOG_PARTITIONS)

    def minibatch(self, rows, rate):
        n_given = rows.shape[1]
        data = (rows - self.shift[:n_given]) / self.scale[:n_given]
        if self.infer is not None:
            latent = self.infer(data / self.variance[:n_given], self.machine)
            data = np.hstack([data, latent])
        jumps = self.jumps
        n_steps = self.n_gibbs_steps
        if jumps is not None and jumps.fields and jumps.is_due(self.step, n_steps):
            self.chains = jumps.jump(
                self.chains, self.log_model, self.step, self.n_gibbs_steps
            )
        chains = self.chains
        if chains is None:
            fields = self.hidden_fields(data)
            chains = self._draw(self.hidden, fields, DRAW_DATA, self.step)
            self.visible_chains = data
        for s in range(self.n_gibbs_steps):
            model = self.draw_visible(chains, self.step + s)
            fields = self.hidden_fields(model)
            chains = self._draw(self.hidden, fields, DRAW_HIDDEN, self.step + s)
        if self.chains is not None:
            self.chains = chains
        if jumps is not None:
            jumps.store(self.hidden_fields(data))
        self.ascend(data, model, rate)
        if jumps is not None:
            jumps.drive_counts(self.machine, self.up_scale, self.down_scale, self.step)
        # The means of what rows have are known.
        change = data.mean(axis=0) - self.visible_offset
        change[:n_given] = 0
        self.visible_offset = self.visible_offset + self.offset_rate * change
        self.step += self.n_gibbs_steps

    def moments(self, rows):
        """Means over rows: of visible x hidden, hidden, visible, squared distance."""
        means = self.hidden_means(rows)
        squares = np.square(rows - self.machine[2]).mean(axis=0)
        return (
            rows.T @ means / len(rows),
            means.mean(axis=0),
            rows.mean(axis=0),
            squares,
        )

    def gradient(self, data, model):
        """Of the mean log-likelihood, by weights, biases and log variances.

        That of what belongs to a Gaussian unit is multiplied by its variance, but
        for the last, to which hidden biases give way: data at the visible offset look
        the same to hidden units with any variance.
        """
        raw, hidden, visible, squares = (
            d - m for d, m in zip(data, model, strict=True)
        )
        # With unbounded units, that of the variance is along it and the weights.
        share = np.where(self.along, 0.5, 1.0)
        apart = raw - np.outer(self.visible_offset, hidden)
        spread = squares / 2 - share * (self.machine[0] * apart).sum(axis=1)
        return raw, hidden, visible, spread / self.variance

    def ascend(self, data, model, rate):
        weights, c, b, log_variance = self.machine
        data, model = self.moments(data), self.moments(model)
        raw, hidden, visible, spread = self.gradient(data, model)
        activity = data[1]
        mu, offset = self.visible_offset, self.hidden_offset
        seen = self.up_scale * mu / self.variance
        centred = raw - np.outer(mu, hidden) - np.outer(visible, offset)
        if self.clip:
            centred = np.clip(centred, -self.clip, self.clip)
            visible = np.clip(visible, -self.clip, self.clip)
        centred = (centred - self.weight_decay * weights) * self.connected
        # The biases give way to whatever moves the weights.
        share = np.broadcast_to(self.rate_shares, mu.shape)
        hidden = hidden - (seen * share) @ centred
        hidden = hidden + self.sparsity_cost * (self.sparsity_target - activity)
        visible = visible - self.down_scale * centred @ offset
        direction = gradient = centred, hidden, visible
        if self.velocity is not None:
            direction = self.velocity = tuple(
                self.momentum * v + g
                for v, g in zip(self.velocity, gradient, strict=True)
            )
            if self.nesterov:
                direction = tuple(
                    g + self.momentum * v
                    for v, g in zip(self.velocity, gradient, strict=True)
                )
        own = rate * share
        begun = stepped = weights + own[:, np.newaxis] * direction[0]
        size = np.maximum(np.abs(stepped) - own[:, np.newaxis] * self.l1_decay, 0)
        weights = np.sign(stepped) * size
        change = np.log(np.maximum(0.5, 1 + self.variance_rate * own * spread))
        changed = np.maximum(log_variance + change, np.log(self.least_variance))
        changed = np.where(self.learned, changed, log_variance)
        factor = np.where(self.along, np.exp((changed - log_variance) / 2), 1)
        factor = factor[:, np.newaxis]
        weights, stepped = weights * factor, stepped + weights * (factor - 1)
        if self.max_norm:
            norms = np.linalg.norm(weights, axis=0)
            weights = weights * self.max_norm / np.maximum(norms, self.max_norm)
        moved = weights - stepped
        seen_now = self.up_scale * mu * np.where(self.gaussian, np.exp(-changed), 1)
        self.machine = (
            weights,
            c + rate * direction[1] - seen_now @ weights + seen @ begun,
            b + own * direction[2] - self.down_scale * moved @ offset,
            changed,
        )
        self.hidden_offset = offset + self.offset_rate * (activity - offset)
