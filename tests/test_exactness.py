"""Machines of at most 12 units against enumeration: the right laws and gradients."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chi2

import reference
from reference import (
    all_states,
    centred_gradient,
    chi_square_p_value,
    data_moments,
    enumerate_machine,
    generator,
    model_moments,
    moments,
    random_machine,
    state_numbers,
)
from sklearn_ebm import BernoulliRBM
from sklearn_ebm._gibbs import Layer, half_sweep, run_chains
from sklearn_ebm._panels import Panels
from sklearn_ebm._rows import Rows
from sklearn_ebm._scores import score_rows
from sklearn_ebm._trainer import Trainer
from sklearn_ebm.likelihood import log_likelihood, log_partition

pytestmark = pytest.mark.usefixtures("one_thread")
DTYPES = [np.float32, np.float64]
SIZES = [(1, 1), (3, 5), (8, 4), (2, 10), (6, 6)]
N_CHAINS = 24_576
# How often a right kernel may fail a statistical test.
RARE = 1e-6


def rbm_of(machine, seed=0):
    """An estimator that has been fitted, as it were, to a given machine."""
    components, hidden, visible = machine
    rbm = BernoulliRBM(n_components=len(hidden), random_state=seed)
    rbm.components_ = components
    rbm.intercept_hidden_, rbm.intercept_visible_ = hidden, visible
    rbm.visible_mean_ = np.full(len(visible), 0.5, components.dtype)
    rbm.n_features_in_ = len(visible)
    return rbm


def layers_of(machine):
    components, hidden, visible = machine
    up = Layer(Panels.from_columns(components), hidden)
    return up, Layer(Panels.from_rows(components), visible)


def trainer_of(machine, X, *, chains=None, batch_size=None, seed=0, **options):
    settings = {"n_gibbs_steps": 1, "visible_offset": 0.0, "hidden_offset": 0.0}
    return Trainer(
        Rows(X),
        *machine,
        batch_size=batch_size or X.shape[0],
        chains=chains,
        key=int(generator(100, seed).integers(2**63)),
        step=0,
        **settings | options,
    )


# ---- Enumeration ----


@pytest.mark.parametrize("n_hidden, n_visible", SIZES)
def test_conditionals(n_hidden, n_visible):
    machine = random_machine(n_hidden, n_visible, generator(1, n_hidden), scale=2)
    exact = enumerate_machine(machine)
    rbm, (up, down) = rbm_of(machine), layers_of(machine)
    for states, layer, means, method in [
        (exact.v, up, exact.hidden_means, rbm.transform),
        (exact.h, down, exact.visible_means, rbm.inverse_transform),
    ]:
        out = np.empty_like(means)
        half_sweep(Rows(states.astype(np.float64)), layer, means=out)
        np.testing.assert_allclose(out, means, rtol=0, atol=1e-10)
        out = method(states.astype(np.float64))
        np.testing.assert_allclose(out, means, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_hidden, n_visible", SIZES)
def test_free_energy(n_hidden, n_visible):
    """-F(v) - log Z is log p(v), so differences of F are those of log p."""
    machine = random_machine(n_hidden, n_visible, generator(2, n_hidden), scale=2)
    exact = enumerate_machine(machine)
    X = exact.v.astype(np.float64)
    up, _ = layers_of(machine)
    for energy in [
        rbm_of(machine).free_energy(X),
        score_rows(Rows(X), up, machine[2]),
        reference.free_energy(machine, X),
    ]:
        log_p = -energy - exact.log_z
        np.testing.assert_allclose(log_p, exact.log_p_v, rtol=0, atol=1e-10)
        np.testing.assert_allclose(np.exp(log_p).sum(), 1, rtol=1e-10)


@pytest.mark.parametrize("n_hidden, n_visible", SIZES)
def test_log_partition(n_hidden, n_visible):
    machine = random_machine(n_hidden, n_visible, generator(16, n_hidden), scale=2)
    exact, rbm = enumerate_machine(machine), rbm_of(machine)
    assert float(log_partition(rbm)) == pytest.approx(exact.log_z, rel=1e-10)
    log_p = log_likelihood(rbm, exact.v.astype(np.float64)).samples
    np.testing.assert_allclose(log_p, exact.log_p_v, rtol=0, atol=1e-10)


def test_log_partition_of_many_units():
    """Pairs of units that know nothing of one another: a sum over pairs."""
    weights, hidden, visible = generator(17).normal(0, 2, (3, 17))
    rbm = rbm_of((np.diag(weights), hidden, visible))
    pairs = [np.zeros(17), visible, hidden, visible + hidden + weights]
    expected = np.logaddexp.reduce(pairs).sum()
    assert float(log_partition(rbm)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("as_csr", [False, True])
@pytest.mark.parametrize("n_hidden, n_visible", SIZES)
def test_pseudo_likelihood(n_hidden, n_visible, as_csr):
    """Every log p(v_i | others) from the probabilities of v and its neighbours."""
    machine = random_machine(n_hidden, n_visible, generator(3, n_hidden), scale=2)
    exact = enumerate_machine(machine)
    numbers, expected = np.arange(len(exact.v)), 0
    for i in range(n_visible):
        flipped = exact.log_p_v[numbers ^ (1 << i)]
        expected = expected + exact.log_p_v - np.logaddexp(exact.log_p_v, flipped)
    X = exact.v.astype(np.float64)
    twin = reference.pseudo_likelihood(machine, X)
    np.testing.assert_allclose(twin, expected, rtol=0, atol=1e-10)
    scores = rbm_of(machine).score_samples(sp.csr_array(X) if as_csr else X)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-10)


def test_pseudo_likelihood_of_probabilities():
    """A cross-entropy between a value and p_i, linear in the value itself."""
    machine = random_machine(5, 6, generator(4), scale=2)
    rbm = rbm_of(machine)
    X = generator(5).random((40, 6))
    expected = reference.pseudo_likelihood(machine, X)
    np.testing.assert_allclose(rbm.score_samples(X), expected, rtol=0, atol=1e-10)
    # One feature only: the mean of the scores of 0 and 1.
    machine = random_machine(5, 1, generator(6), scale=2)
    off, on = rbm_of(machine).score_samples(np.array([[0.0], [1.0]]))
    scores = rbm_of(machine).score_samples(X[:, :1])
    expected = (1 - X[:, 0]) * off + X[:, 0] * on
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-10)


def test_pseudo_likelihood_of_many_even_chances():
    """More factors of 2 than a number of double precision holds."""
    machine = np.zeros((1, 2500)), np.zeros(1), np.zeros(2500)
    scores = rbm_of(machine).score_samples(np.eye(3, 2500))
    np.testing.assert_allclose(scores, -2500 * np.log(2), rtol=1e-12)


# ---- Gradients ----


def exact_gradient(machine, data, visible_offset=0.0, hidden_offset=0.0):
    """The centred gradient of the likelihood; the plain one with zero offsets."""
    n_hidden, n_visible = machine[0].shape
    return centred_gradient(
        data_moments(machine, data),
        model_moments(machine),
        np.broadcast_to(visible_offset, n_visible),
        np.broadcast_to(hidden_offset, n_hidden),
    )


@pytest.mark.parametrize("n_hidden, n_visible", SIZES)
def test_gradient_by_finite_differences(n_hidden, n_visible):
    rng = generator(7, n_hidden)
    machine = random_machine(n_hidden, n_visible, rng)
    data = rng.random((9, n_visible)) < 0.5
    for which, gradient in enumerate(exact_gradient(machine, data)):
        for place in np.ndindex(gradient.shape):
            values = []
            for h in [-2e-3, -1e-3, 1e-3, 2e-3]:
                shifted = [x.copy() for x in machine]
                shifted[which][place] += h
                values.append(reference.log_likelihood(shifted, data))
            slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 12e-3
            assert slope == pytest.approx(gradient[place], rel=1e-6, abs=1e-9)


def flip_visible(machine):
    """The machine of 1 - v, which has the same hidden units."""
    components, hidden, visible = machine
    return -components, hidden + components.sum(axis=1), -visible


def flip_hidden(machine):
    """The machine of 1 - h."""
    components, hidden, visible = machine
    return -components, -hidden, visible + components.sum(axis=0)


def test_centred_gradient_is_a_mirror_image_on_flipped_units():
    """An ascent step commutes with flipping, and is uphill."""
    rng = generator(8)
    machine = random_machine(4, 6, rng)
    data = rng.random((20, 6)) < 0.3
    mu, offset = data.mean(axis=0), rng.random(4)

    def step(machine, *args):
        return tuple(
            x + 0.1 * g
            for x, g in zip(machine, exact_gradient(machine, *args), strict=True)
        )

    stepped = step(machine, data, mu, offset)
    better = reference.log_likelihood(stepped, data)
    assert better > reference.log_likelihood(machine, data)
    for flip, args in [
        (flip_visible, (~data, 1 - mu, offset)),
        (flip_hidden, (data, mu, 1 - offset)),
    ]:
        for x, y in zip(step(flip(machine), *args), flip(stepped), strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-12)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("real", [False, True])
def test_trainer_makes_mirror_images(real, persistent):
    """On 1 - v, too, as long as the visible states are certain given h."""
    rng = generator(9)
    n_hidden, n_visible, n_rows = 5, 7, 40
    components, hidden, _ = random_machine(n_hidden, n_visible, rng)
    machine = components, hidden, 1e4 * rng.choice([-1.0, 1.0], n_visible)
    X = (rng.random((n_rows, n_visible)) < 0.3).astype(np.float64)
    if real:
        X = rng.integers(0, 9, X.shape) / 8
    mu, offset = X.mean(axis=0), rng.random(n_hidden)
    chains = rng.random((6, n_hidden)) < 0.5 if persistent else None
    results = []
    for data, start, offsets in [
        (X, machine, mu),
        (1 - X, flip_visible(machine), 1 - mu),
    ]:
        trainer = trainer_of(
            start,
            data,
            chains=chains,
            batch_size=6,
            visible_offset=offsets,
            hidden_offset=offset,
        )
        trainer.momentum, trainer.offset_rate = 0.5, 0.1
        trainer.start_velocity()
        trainer.begin_epoch(np.arange(n_rows), np.full(7, 0.2))
        trainer.run(0, 7)
        results.append(trainer.parameters())
    for x, y in zip(flip_visible(results[0]), results[1], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-10)
    assert np.abs(results[0][0] - components).max() > 0.05


def flatten(gradient):
    return np.concatenate([np.ravel(g) for g in gradient])


def assert_stochastic_update(changes, exact, contributions, law, n_chains):
    """Changes of parameters have the mean and spread of their chains.

    Every chain is in one of the states that `law` gives, independently of the
    others, and state s subtracts contributions[s] / n_chains from the gradient.
    """
    spread = contributions - law @ contributions
    covariance = spread.T @ (law[:, np.newaxis] * spread) / n_chains
    error = changes - exact
    values, vectors = np.linalg.eigh(covariance)
    # Directions in which chains differ by more than the rounding of float32.
    kept = values > 6e-5**2
    assert np.abs(vectors[:, ~kept].T @ error).max(initial=0) < 1e-3
    statistic = ((vectors[:, kept].T @ error) ** 2 / values[kept]).sum()
    assert chi2.sf(statistic, kept.sum()) > RARE
    assert chi2.cdf(statistic, kept.sum()) > RARE


def contributions_of(machine, mu, offset):
    """What a chain in each visible state adds to the model's side of a gradient."""
    exact = enumerate_machine(machine)
    nothing = [np.zeros_like(x) for x in machine]
    rows = []
    for v, means in zip(exact.v, exact.hidden_means, strict=True):
        moments_of_one = moments(v[np.newaxis], means[np.newaxis])
        plain = centred_gradient(moments_of_one, nothing, mu, offset)
        rows.append(flatten(plain))
    return np.array(rows)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("n_gibbs_steps", [1, 4])
def test_expected_update_is_the_exact_gradient(n_gibbs_steps, centred, dtype):
    """PCD with chains that start from the model itself."""
    rng = generator(10)
    machine = random_machine(4, 5, rng, scale=1.5, dtype=dtype)
    exact = enumerate_machine(machine)
    X = (rng.random((50, 5)) < 0.4).astype(dtype)
    mu = X.mean(axis=0, dtype=np.float64) * centred
    offset = np.full(4, 0.4) * centred
    chains = exact.h[rng.choice(len(exact.h), N_CHAINS, p=exact.p_h)]
    trainer = trainer_of(
        machine,
        X,
        chains=chains,
        n_gibbs_steps=n_gibbs_steps,
        visible_offset=mu,
        hidden_offset=offset,
    )
    rate = 0.125
    trainer.begin_epoch(np.arange(50), np.array([rate]))
    trainer.run(0, trainer.sweeps_per_batch)
    pairs = zip(trainer.parameters(), machine, strict=True)
    changes = flatten([(np.float64(x) - y) / rate for x, y in pairs])
    assert_stochastic_update(
        changes,
        flatten(exact_gradient(machine, X, mu, offset)),
        contributions_of(machine, mu, offset),
        exact.p_v,
        N_CHAINS,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_gibbs_steps", [1, 3])
def test_expected_update_of_contrastive_divergence(n_gibbs_steps, dtype):
    """CD-k: chains that start from the data and make k steps."""
    rng = generator(11)
    machine = random_machine(4, 5, rng, scale=1.5, dtype=dtype)
    exact = enumerate_machine(machine)
    start = np.array([1, 0, 1, 0, 0], dtype=dtype)
    X = np.tile(start, (N_CHAINS, 1))
    mu, offset = np.full(5, 0.3), np.full(4, 0.4)
    trainer = trainer_of(
        machine,
        X,
        n_gibbs_steps=n_gibbs_steps,
        visible_offset=mu,
        hidden_offset=offset,
    )
    rate = 0.125
    trainer.begin_epoch(np.arange(N_CHAINS), np.array([rate]))
    trainer.run(0, trainer.sweeps_per_batch)
    sweep = exact.p_h_given_v @ exact.p_v_given_h
    law = np.linalg.matrix_power(sweep, n_gibbs_steps)
    law = law[state_numbers(start[np.newaxis])[0]]
    model = (
        exact.hidden_means.T @ (law[:, np.newaxis] * exact.v),
        law @ exact.hidden_means,
        law @ exact.v,
    )
    expected = centred_gradient(data_moments(machine, X[:1]), model, mu, offset)
    pairs = zip(trainer.parameters(), machine, strict=True)
    changes = flatten([(np.float64(x) - y) / rate for x, y in pairs])
    assert_stochastic_update(
        changes,
        flatten(expected),
        contributions_of(machine, mu, offset),
        law,
        N_CHAINS,
    )


# ---- No drift, and no standing still ----

# Where the units of a small machine stand among those of a wide layer, whose
# other units are always off: borders of bytes, panels and words.
VISIBLE_PLACES = np.array([0, 7, 8, 16, 63, 64])
HIDDEN_PLACES = np.array([3, 15, 17, 62, 65])


def strong_machine(dtype):
    """Six visible and five hidden units that hold on to one another."""
    rng = generator(12)
    signs = rng.choice([-1.0, 1.0], (5, 6))
    components = signs * rng.uniform(1, 2.5, (5, 6))
    # Biases that balance the weights, so that no state is without a chance.
    hidden = -components.sum(axis=1) / 2 + rng.normal(0, 0.3, 5)
    visible = -components.sum(axis=0) / 2 + rng.normal(0, 0.3, 6)
    return tuple(x.astype(dtype) for x in (components, hidden, visible))


class Small:
    """A machine of few states, perhaps among idle units of wide layers."""

    def __init__(self, dtype, *, wide):
        self.machine = self.whole = strong_machine(dtype)
        self.exact = enumerate_machine(self.machine)
        self.n_hidden, self.n_visible = 5, 6
        self.h, self.v = np.arange(5), np.arange(6)
        if wide:
            self.n_hidden, self.n_visible = 66, 67
            self.h, self.v = HIDDEN_PLACES, VISIBLE_PLACES
            components = np.zeros((66, 67), dtype)
            hidden, visible = np.full(66, -1e3, dtype), np.full(67, -1e3, dtype)
            components[np.ix_(self.h, self.v)] = self.machine[0]
            hidden[self.h], visible[self.v] = self.machine[1:]
            self.whole = components, hidden, visible
        # One sweep from each visible state, and from each hidden state.
        self.v_to_v = self.exact.p_h_given_v @ self.exact.p_v_given_h
        self.h_to_h = self.exact.p_v_given_h @ self.exact.p_h_given_v

    def visible(self, numbers):
        states = np.zeros((len(numbers), self.n_visible), dtype=bool)
        states[:, self.v] = self.exact.v[numbers]
        return states

    def hidden(self, numbers):
        states = np.zeros((len(numbers), self.n_hidden), dtype=bool)
        states[:, self.h] = self.exact.h[numbers]
        return states

    def visible_numbers(self, states):
        states = np.asarray(states)
        assert states.sum() == states[:, self.v].sum()
        return state_numbers(states[:, self.v])

    def hidden_numbers(self, states):
        assert states.sum() == states[:, self.h].sum()
        return state_numbers(states[:, self.h])


def by_gibbs(small, start, n_steps, kind, seed):
    rbm = rbm_of(small.whole, seed)
    states = small.visible(start)
    for _ in range(n_steps):
        states = rbm.gibbs(as_input(states, kind))[: len(start)]
    return small.visible_numbers(states)


def by_sample(small, start, n_steps, kind, seed):
    states = as_input(small.visible(start), kind)
    states = rbm_of(small.whole).sample(
        init=states, n_gibbs_steps=n_steps, random_state=seed
    )
    return small.visible_numbers(states[: len(start)])


def by_run_chains(small, start, n_steps, kind, seed):
    states = small.visible(start)
    key = int(generator(101, seed).integers(2**63))
    run_chains(*layers_of(small.whole), states, n_steps, key, 0)
    return small.visible_numbers(states)


def by_trainer(small, start, n_steps, kind, seed, *, n_gibbs_steps=1):
    """Persistent chains of hidden states; the learning rate is zero."""
    X = as_input(small.visible(generator(102).integers(64, size=6 * n_steps)), kind)
    trainer = trainer_of(
        small.whole,
        X,
        chains=small.hidden(start),
        batch_size=6,
        seed=seed,
        n_gibbs_steps=n_gibbs_steps,
        visible_offset=0.3,
        hidden_offset=0.5,
    )
    rates = np.zeros(-(-X.shape[0] // trainer.batch_size))
    sweeps = n_steps * trainer.n_passes
    trainer.begin_epoch(np.arange(X.shape[0]), rates)
    trainer.run(0, sweeps)
    for x, y in zip(trainer.parameters(), small.whole, strict=True):
        assert np.array_equal(x, y)
    return small.hidden_numbers(trainer.chains())


def by_trainer_with_more_steps(*args):
    return by_trainer(*args, n_gibbs_steps=args[2])


def as_input(states, kind):
    """States as one of the paths through the kernels reads them."""
    *path, dtype = kind.split()
    states = states.astype(dtype)
    if path == ["csr"]:
        return sp.csr_array(states)
    if path == ["real"]:
        # One more row, which is not of bits, and all are read as real values.
        return np.vstack([states, np.full_like(states[:1], 0.5)])
    return states


KINDS = [
    "bool",
    "uint8",
    "float32",
    "float64",
    "csr float32",
    "csr float64",
    "real float32",
    "real float64",
]


def path(sampler, kind, dtype):
    return pytest.param(
        sampler, kind, dtype, id=f"{sampler.__name__}-{kind}-{dtype.__name__}"
    )


# A sampler, an input it reads, and the dtype of the model. The trainer computes
# in the dtype of its data, and run_chains takes nothing but bool.
PATHS = [
    *(
        path(s, kind, d)
        for s in [by_gibbs, by_sample]
        for kind in KINDS
        for d in DTYPES
    ),
    *(path(by_run_chains, "bool", dtype) for dtype in DTYPES),
    *(
        path(sampler, kind, np.float64 if "64" in kind else np.float32)
        for sampler in [by_trainer, by_trainer_with_more_steps]
        for kind in KINDS
    ),
]


def law_of(sampler, small):
    """Stationary law and one-step law of the states a sampler returns."""
    if "trainer" in sampler.__name__:
        return small.exact.p_h, small.h_to_h
    return small.exact.p_v, small.v_to_v


@pytest.mark.thinned(8)
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("sampler, kind, dtype", PATHS)
def test_transition_law(sampler, kind, dtype, wide):
    """One and three steps from fixed states, each by many chains."""
    small = Small(dtype, wide=wide)
    _, one_step = law_of(sampler, small)
    starts = np.array([0, 5, len(one_step) - 1])
    n_each = N_CHAINS // len(starts)
    for n_steps in [1, 3]:
        end = sampler(small, np.tile(starts, n_each), n_steps, kind, n_steps)
        law = np.linalg.matrix_power(one_step, n_steps)[starts]
        counts = [
            np.bincount(end[k :: len(starts)], minlength=law.shape[1])
            for k in range(len(starts))
        ]
        assert chi_square_p_value(counts, law) > RARE


@pytest.mark.thinned(8)
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("sampler, kind, dtype", PATHS)
def test_no_drift(sampler, kind, dtype, wide):
    """Chains that start exactly from the model's law stay in it."""
    small = Small(dtype, wide=wide)
    stationary, _ = law_of(sampler, small)
    start = generator(13).choice(len(stationary), N_CHAINS, p=stationary)
    for n_steps in [1, 8]:
        start = sampler(small, start, n_steps, kind, n_steps)
        counts = np.bincount(start, minlength=len(stationary))
        assert chi_square_p_value(counts, stationary) > RARE


def reduced(numbers, law):
    """States by their first three units only, and the law of those."""
    return numbers % 8, np.bincount(np.arange(len(law)) % 8, weights=law)


def assert_independent(first, second, p_first, p_second):
    """Pairs of draws have the product of their two known laws."""
    (first, p_first), (second, p_second) = (
        reduced(first, p_first),
        reduced(second, p_second),
    )
    counts = np.bincount(8 * first + second, minlength=64)
    assert chi_square_p_value(counts, np.outer(p_first, p_second).ravel()) > RARE


@pytest.mark.thinned(8)
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("lag", [1, 8, 128])
@pytest.mark.parametrize("sampler, kind, dtype", PATHS)
def test_rows_are_independent(sampler, kind, dtype, lag, wide):
    small = Small(dtype, wide=wide)
    _, one_step = law_of(sampler, small)
    end = sampler(small, np.full(N_CHAINS, 5), 1, kind, lag)
    pairs = end.reshape(-1, 2, lag)
    law = one_step[5]
    assert_independent(pairs[:, 0].ravel(), pairs[:, 1].ravel(), law, law)


@pytest.mark.parametrize("dtype", DTYPES)
def test_successive_steps_are_fresh(dtype):
    """From one and the same state, two steps in a row draw different bits."""
    small = Small(dtype, wide=True)
    start = np.full(N_CHAINS, 5)
    law = small.v_to_v[5]
    rbm = rbm_of(small.whole, 1)
    X = small.visible(start)
    ends = [small.visible_numbers(rbm.gibbs(X)) for _ in range(3)]
    ends += [
        small.visible_numbers(rbm.sample(init=X, n_gibbs_steps=1)) for _ in range(2)
    ]
    up, down = layers_of(small.whole)
    for step in [0, 1, 2**32]:
        states = X.copy()
        run_chains(up, down, states, 1, 99, step)
        ends.append(small.visible_numbers(states))
    for k, first in enumerate(ends):
        for second in ends[:k]:
            assert_independent(first, second, law, law)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_gibbs_steps", [1, 2])
def test_successive_minibatches_are_fresh(n_gibbs_steps, dtype):
    """Two minibatches from one and the same chain: pairs have the joint law."""
    small = Small(dtype, wide=True)
    X = small.visible(np.zeros(12, int)).astype(dtype)
    trainer = trainer_of(
        small.whole,
        X,
        chains=small.hidden(np.full(N_CHAINS, 5)),
        batch_size=6,
        n_gibbs_steps=n_gibbs_steps,
    )
    ends = []
    for batch in range(2):
        sweeps = trainer.sweeps_per_batch
        trainer.begin_epoch(np.arange(12), np.zeros(2))
        trainer.run(batch * sweeps, (batch + 1) * sweeps)
        ends.append(small.hidden_numbers(trainer.chains()))
    one = np.linalg.matrix_power(small.h_to_h, n_gibbs_steps)
    joint = one[5][:, np.newaxis] * one
    counts = np.bincount(32 * ends[0] + ends[1], minlength=joint.size)
    assert chi_square_p_value(counts, joint.ravel()) > RARE


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["bool", "real float64"])
def test_pairs_of_successive_states(kind, dtype):
    """Of chains in the model's law, states before and after a step: no standing."""
    small = Small(dtype, wide=False)
    joint = small.exact.p_v[:, np.newaxis] * small.v_to_v
    for sampler in [by_gibbs, by_sample, by_run_chains]:
        start = generator(14).choice(64, N_CHAINS, p=small.exact.p_v)
        end = sampler(small, start, 1, kind, 5)
        counts = np.bincount(64 * start + end, minlength=joint.size)
        assert chi_square_p_value(counts, joint.ravel()) > RARE


@pytest.mark.parametrize("n_steps", [0, 1])
def test_samples_from_no_states(n_steps):
    """Without init, chains start at independent units with the data's means."""
    small = Small(np.float64, wide=False)
    rbm = rbm_of(small.whole)
    mean = generator(15).uniform(0.2, 0.8, 6)
    rbm.visible_mean_ = mean
    end = rbm.sample(N_CHAINS, n_gibbs_steps=n_steps, random_state=3)
    states = all_states(6)
    law = np.where(states, mean, 1 - mean).prod(axis=1)
    law = law @ np.linalg.matrix_power(small.v_to_v, n_steps)
    counts = np.bincount(state_numbers(end), minlength=64)
    assert chi_square_p_value(counts, law) > RARE


def test_values_between_0_and_1_enter_the_field():
    """A Gibbs step from probabilities: the hidden field is linear in them."""
    small = Small(np.float64, wide=False)
    x = np.array([0.2, 0.9, 0.5, 0.0, 1.0, 0.7])
    components, hidden, _ = small.machine
    on = 1 / (1 + np.exp(-(hidden + components @ x)))
    h = small.exact.h
    law = np.where(h, on, 1 - on).prod(axis=1) @ small.exact.p_v_given_h
    rbm = rbm_of(small.whole)
    end = rbm.gibbs(np.tile(x, (N_CHAINS, 1)))
    counts = np.bincount(state_numbers(end), minlength=64)
    assert chi_square_p_value(counts, law) > RARE
