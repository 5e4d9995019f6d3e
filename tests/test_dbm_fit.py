"""How DBMTransformer trains: pretraining, going on, what is refused, interrupts."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import poisson
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import reference_units
from common import (
    all_states,
    assert_same,
    assert_same_model,
    fitted_floats,
    soon_interrupted,
)
from reference import generator
from reference_deep import minus_energy, unfolded
from sklearn_ebm import DBMTransformer
from sklearn_ebm._pacer import Pacer
from sklearn_ebm._training import epoch_order, minibatch_rates
from sklearn_ebm._units import Wanted, evaluate
from sklearn_ebm.boltzmann import _dbm_pretraining
from sklearn_ebm.boltzmann._sampling import LAYER_KEY
from sklearn_ebm.boltzmann._trainable import OFFSET_RATE
from sklearn_ebm.layered import Layered
from sklearn_ebm.likelihood import log_partition
from sklearn_ebm.units import Bernoulli, Gaussian
from tables import bars_and_stripes

BERNOULLI = Bernoulli()

# ---- Pretraining, and going on ----


def real_and_bits(rng, n_rows=40):
    """Two columns of bits and three of numbers."""
    bits = rng.random((n_rows, 2)) < [0.3, 0.8]
    return np.hstack([bits, rng.normal([5, 0, -2], [2, 1, 0.5], (n_rows, 3))])


DATA = {
    "bernoulli": lambda rng: (rng.random((40, 5)) < rng.random(5)).astype(float),
    "gaussian": lambda rng: real_and_bits(rng)[:, 2:],
    "both": real_and_bits,
}
KINDS = {
    "bernoulli": "bernoulli",
    "gaussian": "gaussian",
    "both": [([0, 1], "bernoulli"), ([2, 3, 4], "gaussian")],
}
PRETRAINING = {"pretrain_n_iter": 3, "pretrain_learning_rate": 0.2, "batch_size": 7}


def trained(model):
    """The folded machine in training: weights, odd and even biases."""
    state = model._state
    names = "intercept_hidden", "intercept_visible"
    return state["components"].T, *(state[name] for name in names)


def drawn_at(fields, n_chains, key):
    units = BERNOULLI.kernel(len(fields))
    return evaluate(units, np.tile(fields, (n_chains, 1)), Wanted.DRAWS, key=key)


def log_odds(mean):
    return np.log(mean / (1 - mean))


def pretrained_by_hand(model, X):
    """Layers from the bottom up by twins of the trainer, as the papers compose them.

    From the state of a model before its training; returns weights (below, above)
    and biases of the layers, as shifted and scaled, logarithms of variances, and the
    offsets of the hidden layers.
    """
    state, sizes = model._state, [X.shape[1], *model.hidden_layer_sizes]
    start = unfolded(trained(model), sizes)
    weights, biases = list(start.weights), list(start.biases)
    rows = (X - state["shift"]) / state["scale"]
    log_variance = state["log_variance"][: sizes[0]]
    gaussian = model._columns().gaussian
    units = model._columns().unit
    even = np.concatenate([np.zeros(sizes[0]), state["latent_offset"]])
    on = trained(model)[0], state["hidden_offset"], even
    on = list(unfolded(on, sizes).biases[1:])
    n_layers, n_chains = len(weights), model.n_chains or max(100, model.batch_size)
    for k in range(n_layers):
        below, above = weights[k].shape
        first, last = k == 0, k == n_layers - 1
        real = gaussian if first else np.zeros(below, bool)
        key = state["key"] ^ (LAYER_KEY + k)
        # With neighbours on one side only, what comes from it counts twice.
        up = 2.0 if first and not last else 1.0
        down = 2.0 if last and not first else 1.0
        mean, before = rows.mean(axis=0), biases[k]
        if not first or not gaussian.any():
            odds = log_odds((rows.sum(axis=0) + 0.5) / (len(rows) + 1))
        if model.centering and not gaussian.any():
            biases[k] = odds - down * (weights[k] @ on[k])
            biases[k + 1] = log_odds(on[k]) - up * (mean @ weights[k])
        elif k:
            biases[k] = odds
        seen = mean / np.exp(log_variance) if first else mean
        fields = biases[k + 1] + up * (seen @ weights[k])
        twin = reference_units.UnitTrainer(
            (units if first else BERNOULLI).kernel(below), BERNOULLI.kernel(above),
            (weights[k], biases[k + 1], biases[k],
             log_variance if first else np.zeros(below)),
            drawn_at(fields, n_chains, key), key,
            mean * model.centering, on[k] * model.centering,
            real, real, np.zeros(below), np.ones(below), step=1,
            momentum=model.momentum, weight_decay=model.weight_decay,
            offset_rate=OFFSET_RATE * model.centering,
            velocity=(0.0, 0.0, 0.0) if model.momentum else None,
            clip=1.0 if gaussian.any() and first else 0.0,
            up_scale=up, down_scale=down,
        )  # fmt: skip
        n_batches = -(-len(X) // model.batch_size)
        for epoch in range(model.pretrain_n_iter):
            order = epoch_order(len(X), key, twin.step)
            rates = minibatch_rates(
                model.pretrain_learning_rate, model.learning_rate_schedule, epoch,
                model.pretrain_n_iter, n_batches,
            )  # fmt: skip
            for n, rate in enumerate(rates):
                part = order[n * model.batch_size : (n + 1) * model.batch_size]
                twin.minibatch(rows[part], rate)
        weights[k], c, b, variances = twin.machine
        on[k] = twin.hidden_offset
        biases[k] = b if first else (before + b) / 2
        biases[k + 1] = c
        log_variance = variances if first else log_variance
        rows = twin.hidden_means(rows)
        if not first and not last:
            weights[k] = weights[k] / 2
    return weights, biases, log_variance, on


@pytest.mark.parametrize("centering", [True, False])
@pytest.mark.parametrize("hidden", [(200,), (200, 150), (200, 150, 100)], ids=str)
def test_where_machines_of_bits_start(hidden, centering):
    mean = generator(753).random(60)
    X = (generator(754).random((300, 60)) < mean).astype(float)
    options = {"centering": centering, "n_iter": 0, "pretrain_n_iter": 0}
    model = DBMTransformer(hidden, random_state=0, **options).fit(X)
    rate = 0.2 if centering else 0.5
    means = [(X.sum(axis=0) + 0.5) / 301, *(np.full(n, rate) for n in hidden)]
    weights, biases = [w.T for w in model.components_], list(model.intercepts_)
    fields = list(biases)
    for k, weight in enumerate(weights):
        below, above = (m * (1 - m) for m in means[k : k + 2])
        if centering:  # fields are log-odds where neighbours are at their means
            fields[k] = fields[k] + weight @ means[k + 1]
            fields[k + 1] = fields[k + 1] + means[k] @ weight
        sizes = 0.01
        if centering:
            # Fields of independent units then have variances of at most 1 where a
            # layer hears from one side, 1/4 from each where from two.
            largest = max((4 * below**2).sum(), above.sum())
            sizes = 2 * np.sqrt(below / largest)[:, np.newaxis]
            sizes = sizes / (1 if len(hidden) == 1 else 2)
        # At least 12 000 normal numbers: their spread is known to half a percent.
        assert 0.975 < (weight / sizes).std() < 1.025
    for found, wanted in zip(fields, means, strict=True):
        np.testing.assert_allclose(found, log_odds(wanted), atol=1e-10)


@pytest.mark.thinned(5)
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"centering": False, "learning_rate_schedule": "constant"},
        {"momentum": 0.5, "weight_decay": 0.01, "n_chains": 11},
    ],
    ids=str,
)
@pytest.mark.parametrize("hidden", [(4,), (4, 3), (4, 3, 2), (4, 3, 3, 2)], ids=str)
def test_pretraining_composes_what_its_layers_learn(hidden, options, kind):
    X = DATA[kind](generator(750))
    settings = {"visible": KINDS[kind], "n_iter": 0, "random_state": 3, **options}
    model = DBMTransformer(hidden, **PRETRAINING | settings)
    start = clone(model).set_params(pretrain_n_iter=0).fit(X)
    start.set_params(pretrain_n_iter=3)
    weights, biases, log_variance, offsets = pretrained_by_hand(start, X)
    model.fit(X)
    found = unfolded(trained(model), [X.shape[1], *hidden])
    for x, y in zip([*found.weights, *found.biases], weights + biases, strict=True):
        np.testing.assert_allclose(x, y, 1e-9, 1e-9)
    found = model._state["log_variance"]
    np.testing.assert_allclose(found[: X.shape[1]], log_variance, 1e-9, 1e-9)
    assert (found[X.shape[1] :] == 0).all()
    if model.centering:
        found = model._state["hidden_offset"], model._state["latent_offset"]
        for x, parts in zip(found, (offsets[::2], offsets[1::2]), strict=True):
            np.testing.assert_allclose(x, np.concatenate([[], *parts]), 1e-9, 1e-9)
    assert (model.n_iter_, model.history_["seconds"]) == (0, [])


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("hidden", [(4,), (4, 3), (4, 3, 3, 2)], ids=str)
def test_parameters_are_those_of_the_data(hidden, kind):
    """What trains shifted and scaled rows says the same of the rows themselves."""
    rng = generator(751)
    X = DATA[kind](rng)
    model = DBMTransformer(
        hidden, visible=KINDS[kind], n_iter=5, average=False, random_state=0
    ).fit(X)
    assert [w.shape for w in model.components_] == [
        (above, below) for below, above in pairwise([X.shape[1], *hidden])
    ]
    state, sizes = model._state, [X.shape[1], *hidden]
    inner = unfolded(trained(model), sizes)
    gaussian = model._columns().gaussian
    variance = np.exp(state["log_variance"][: sizes[0]])
    states = [(rng.random((30, n)) < 0.5).astype(float) for n in sizes]
    states[0] = X[:30]
    rows = (X[:30] - state["shift"]) / state["scale"]

    def energies():
        """Of the machine as trained, from the definition."""
        first = np.where(gaussian, 0, inner.biases[0])
        seen = inner.weights[0] / variance[:, np.newaxis]
        squares = np.square(rows - inner.biases[0]) / (2 * variance)
        layers = Layered(
            inner.units, (seen, *inner.weights[1:]), (first, *inner.biases[1:])
        )
        return (squares * gaussian).sum(axis=1) - minus_energy(
            layers, rows, *states[1:]
        )

    # To a constant, which belongs to what is given.
    difference = model._layered().energy(*states) - energies()
    other = [states[0], *(1 - s for s in states[1:])]
    again = model._layered().energy(*other)
    states = other
    np.testing.assert_allclose(again - energies(), difference, 1e-8, 1e-8)
    if not gaussian.any():
        np.testing.assert_allclose(difference, 0, atol=1e-10)


def test_fitted_parameters_are_the_average_of_the_last_epoch():
    X = DATA["bernoulli"](generator(752))
    options = {"n_iter": 4, "batch_size": 40, "random_state": 0}
    model = DBMTransformer((4, 3), **options).fit(X)
    last = DBMTransformer((4, 3), average=False, **options).fit(X)
    # One minibatch an epoch: the average is over that one.
    assert_same(model.components_, last.components_)
    model = DBMTransformer((4, 3), **options | {"batch_size": 10}).fit(X)
    last = DBMTransformer((4, 3), average=False, **options | {"batch_size": 10}).fit(X)
    assert_same(model._state, last._state)
    assert not np.array_equal(model.components_[1], last.components_[1])


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("pretrain", [0, 2])
def test_warm_start_equals_going_on(pretrain, kind):
    X = DATA[kind](generator(753))
    options = {
        "visible": KINDS[kind],
        "random_state": 0,
        "learning_rate_schedule": "constant",
        "momentum": 0.5,
        "pretrain_n_iter": pretrain,
        "batch_size": 8,
    }
    whole = DBMTransformer((4, 3, 2), n_iter=5, **options).fit(X)
    parts = DBMTransformer((4, 3, 2), n_iter=2, warm_start=True, **options).fit(X)
    assert parts.n_iter_ == 2
    parts.set_params(n_iter=3).fit(X)
    assert parts.n_iter_ == 5
    if kind == "bernoulli":
        assert_same_model(parts, whole)
        assert_same(parts.sample(5), whole.sample(5))
        return
    # (Of a variance its logarithm is kept, which is rounded.)
    for name, array in fitted_floats(whole).items():
        np.testing.assert_allclose(fitted_floats(parts)[name], array, 1e-9, 1e-9)


def test_partial_fit_goes_on_bit_for_bit():
    X = DATA["bernoulli"](generator(754))
    models = [DBMTransformer((4, 3), momentum=0.5, random_state=0) for _ in range(2)]
    for k in range(4):
        for model in models:
            model.partial_fit(X[10 * k : 10 * k + 10])
        models[1] = pickle.loads(pickle.dumps(models[1]))
        assert models[0].n_iter_ == k + 1
    assert_same_model(*models)
    np.testing.assert_allclose(models[0].visible_mean_, X.mean(axis=0), 1e-12)
    # Chains go on too, and other random numbers are drawn.
    first = models[0].h_samples_
    assert not np.array_equal(models[0].partial_fit(X[:10]).h_samples_, first)


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_pretraining_of_real_columns_does_not_run_away_by_default(load):
    X = StandardScaler().fit_transform(load().data)
    model = DBMTransformer(
        visible="gaussian", n_iter=1, pretrain_n_iter=5, random_state=0
    ).fit(X)
    assert np.square(model.reconstruct(X) - X).mean() < 1


@pytest.mark.parametrize(
    "visible, rates",
    [
        ("bernoulli", [0.1, 0.1]),
        ("spin", [0.1, 0.1]),
        ("gaussian", [0.03, 0.1]),
        ("relu", [0.01, 0.1]),
        ("poisson", [0.1, 0.1]),
        ([([0], "poisson"), (slice(1, None), "bernoulli")], [0.1, 0.1]),
        ([([0], "poisson"), (slice(1, None), "gaussian")], [0.03, 0.1]),
        ([([0], "relu"), (slice(1, None), "gaussian")], [0.01, 0.1]),
    ],
)
def test_learning_rates_of_the_pretraining(visible, rates, monkeypatch):
    seen = []

    def note(rate, *others):
        seen.append(rate)
        return minibatch_rates(rate, *others)

    monkeypatch.setattr(_dbm_pretraining, "minibatch_rates", note)
    X = np.eye(3)
    model = DBMTransformer((3, 2), visible=visible, pretrain_n_iter=1, n_iter=0)
    model.fit(X)
    assert seen == rates
    model.set_params(pretrain_learning_rate=0.25).fit(X)
    assert seen[len(rates) :] == [0.25] * len(rates)
    rate = 0.03 if rates[0] == 0.03 else 0.01
    assert model.fit(X).set_params(n_iter=1).fit(X).history_["learning_rate"] == [rate]


@pytest.mark.parametrize(
    "n_rows, visible, n_epochs",
    [
        (40, "bernoulli", 30),
        (40, "gaussian", 120),
        (20, "gaussian", 80),
        (5, "gaussian", 30),
        (1500, "gaussian", 80),
        (1500, "spin", 30),
        (5000, [([0], "gaussian"), ([1, 2], "bernoulli")], 30),
    ],
)
def test_epochs_by_default(n_rows, visible, n_epochs):
    X = generator(755).random((n_rows, 3))
    model = DBMTransformer((1, 2), visible=visible, batch_size=n_rows, random_state=0)
    chains = max(100, n_rows)
    assert len(model.fit(X).h_samples_) == chains
    assert model.n_iter_ == n_epochs
    given = clone(model).set_params(n_iter=n_epochs, pretrain_n_iter=n_epochs)
    assert_same_model(given.set_params(n_chains=chains).fit(X), model)


@pytest.mark.parametrize("mean, n_layers", [(19, 2), (21, 1)])
def test_large_counts_have_one_layer_pretrained(mean, n_layers, capsys):
    visible = [([0], "poisson"), ([1], "bernoulli")]
    model = DBMTransformer((3, 2), visible=visible, pretrain_n_iter=2, n_iter=1)
    model.set_params(verbose=1).fit([[mean, 1.0], [mean, 0.0]])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * n_layers + 1


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", range(6))
def test_layers_of_large_counts_are_a_model_of_them(seed):
    """Each pretrained by itself, they began thousands of nats below the mixture."""
    rng = generator(760, seed)
    means = 100 * np.exp(rng.normal(size=(3, 8)) / 2)
    X = rng.poisson(means[rng.integers(3, size=1000)]).astype(float)
    train, test = X[:500], X[500:]
    given = poisson.logpmf(test[:, np.newaxis], means).sum(axis=2)
    mixture = logsumexp(given, axis=1).mean() - np.log(3)
    model = DBMTransformer((40, 30), visible="poisson", random_state=0).fit(train)
    log_z = log_partition(model, "ais", betas=500, random_state=0)
    bound = model._deep(np.float64).bound(test).mean()
    assert bound - max(log_z.forward, log_z.reverse) > mixture - 5


def test_learning_rates_fall_with_large_counts():
    X = np.array([[40.0, 1.0], [60.0, 0.0]])
    visible = [([0], "poisson"), ([1], "bernoulli")]
    for size, less in [(3, 5), (100, 10)]:
        model = DBMTransformer((size, 2), visible=visible, n_iter=1).fit(X)
        assert model.history_["learning_rate"] == [0.01]
        assert model._rate_shares().tolist() == [pytest.approx(1 / less), 1]
        for number, wanted in enumerate([[0.1 / less, 1], 1]):
            assert _dbm_pretraining._learning_rate(model, number) == 0.1
            shares = _dbm_pretraining._rate_shares(model, number)
            np.testing.assert_allclose(shares, wanted)
        model.set_params(learning_rate=0.5, pretrain_learning_rate=0.5).fit(X)
        assert model.history_["learning_rate"] == [0.5]
        assert model._rate_shares().tolist() == [1, 1]
        assert _dbm_pretraining._rate_shares(model, 0) == 1


@pytest.mark.parametrize("visible", ["poisson", "gaussian", Gaussian()], ids=str)
def test_a_row_far_out_moves_a_pretrained_weight_by_no_more_than_the_rate(visible):
    X = generator(759).poisson(2.0, (20, 3)).astype(float)
    X[7, 1] = 1e6
    options = {"standardize": False, "centering": False, "n_iter": 0, "random_state": 0}
    model = DBMTransformer((4, 3), visible=visible, batch_size=20, **options)
    start = clone(model).set_params(pretrain_n_iter=0).fit(X)
    model.set_params(pretrain_n_iter=1, pretrain_learning_rate=1e-3).fit(X)
    weights, bias = (
        np.abs(after[0] - before[0]).max()
        for after, before in [
            (model.components_, start.components_),
            (model.intercepts_, start.intercepts_),
        ]
    )
    np.testing.assert_allclose(weights, 1e-3, rtol=1e-6)
    assert bias < 1.001e-3


def test_least_variances_of_the_pretraining_are_shares_of_those_of_the_data():
    X = 0.01 * generator(762).normal(size=(60, 3))
    options = {"standardize": False, "n_iter": 0, "random_state": 0}
    model = DBMTransformer((4, 3), visible="gaussian", pretrain_n_iter=2, **options)
    assert (model.fit(X).variance_ < 1.1 * X.var(axis=0)).all()


def test_pretraining_is_for_the_first_fit_only():
    X = DATA["bernoulli"](generator(755))
    model = DBMTransformer(
        (4, 3), pretrain_n_iter=2, n_iter=1, warm_start=True, random_state=0
    ).fit(X)
    other = copy.deepcopy(model).set_params(pretrain_n_iter=0)
    assert_same_model(model.fit(X), other.fit(X))
    model = DBMTransformer((4, 3), pretrain_n_iter=2, random_state=0)
    assert_same_model(
        model.partial_fit(X),
        clone(model).set_params(pretrain_n_iter=0).partial_fit(X),
    )


@pytest.mark.parametrize(
    "sizes, message",
    [
        ((), "'hidden_layer_sizes' .* Got \\(\\)"),
        ((3, 0), "Got \\(3, 0\\)"),
        ((3, -1), "Got \\(3, -1\\)"),
        ((3, 2.0), "Got \\(3, 2.0\\)"),
        ([3, "2"], "Got \\[3, '2'\\]"),
        (((3, 2), (4, 3)), "Got \\(\\(3, 2\\), \\(4, 3\\)\\)"),
        (0, "'hidden_layer_sizes'"),
        (2.5, "'hidden_layer_sizes'"),
        ("3", "'hidden_layer_sizes'"),
        (None, "'hidden_layer_sizes'"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_sizes_of_layers(method, sizes, message):
    model = DBMTransformer(sizes, n_iter=1)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(np.eye(4))
    assert not hasattr(model, "components_")


def test_sizes_of_layers_in_any_form():
    X = DATA["bernoulli"](generator(756))
    wanted = DBMTransformer((4, 3), n_iter=2, random_state=0).fit(X)
    for sizes in ([4, 3], np.array([4, 3]).tolist(), (np.int64(4), 3)):
        found = DBMTransformer(sizes, n_iter=2, random_state=0).fit(X)
        assert_same_model(found, wanted)
    one = DBMTransformer(4, n_iter=2, random_state=0).fit(X)
    assert_same_model(one, DBMTransformer((4,), n_iter=2, random_state=0).fit(X))


@pytest.mark.parametrize("sizes", [(4, 2), (4,), (3, 4), 4, (4, 3, 2)])
def test_sizes_of_layers_cannot_change_in_training(sizes):
    X = DATA["bernoulli"](generator(757))
    model = DBMTransformer((4, 3), n_iter=1, random_state=0).fit(X)
    before = copy.deepcopy(model)
    model.set_params(hidden_layer_sizes=sizes)
    with pytest.raises(ValueError, match=r"hidden_layer_sizes=.* has \(4, 3\)"):
        model.partial_fit(X)
    with pytest.raises(ValueError, match=r"hidden_layer_sizes=.* has \(4, 3\)"):
        model.set_params(warm_start=True).fit(X)
    assert_same_model(model, before)


# ---- What training does ----


def test_training_raises_the_bound(digits):
    X = (digits[:300] > 0.5).astype(np.float32)
    scores = {}
    for n_iter in (0, 100):
        model = DBMTransformer(
            (20, 8), learning_rate=0.2, n_iter=n_iter, random_state=0
        )
        scores[n_iter] = model.fit(X).score(X)
    # From independent pixels. (Other seeds gain 2.8 to 3.4.)
    assert scores[100] > scores[0] + 2


@pytest.mark.slow
def test_chains_go_from_mode_to_mode():
    """Between stripes and bars lies nothing; without jumps this ends below -20."""
    images = bars_and_stripes(4)
    X, states = np.tile(images, (30, 1)), all_states(16).astype(np.float32)
    for seed in range(3):
        model = DBMTransformer((100, 50), random_state=seed).fit(X)
        bound = model._deep(np.float32).bound
        # Not above the true one: log Z is at least this sum over all images.
        log_z = logsumexp(bound(states))
        # The best there is: 30 images, two of them twice as often.
        found = bound(images.astype(np.float32)).mean() - log_z
        assert np.log(1 / 32) - 1.5 < found < np.log(1 / 32) + 0.1


def test_steps_are_the_same_in_any_unit_of_measurement():
    X = DATA["gaussian"](generator(758))
    options = {"visible": "gaussian", "n_iter": 3, "random_state": 0}
    model = DBMTransformer((4, 3), **options).fit(X)
    other = DBMTransformer((4, 3), **options).fit(8 * X - 64)
    np.testing.assert_allclose(other.transform(8 * X - 64), model.transform(X), 1e-7)
    np.testing.assert_allclose(other.variance_, 64 * model.variance_, 1e-7)
    jacobian = 3 * np.log(8)
    np.testing.assert_allclose(
        other.score_samples(8 * X - 64), model.score_samples(X) - jacobian, 1e-7
    )


# ---- Interrupts ----


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "options",
    [
        {"pretrain_n_iter": 10**6},
        {"n_iter": 10**7},
        {"n_iter": 2, "batch_size": 1, "n_gibbs_steps": 1000},
    ],
    ids=str,
)
@pytest.mark.parametrize("hidden", [(8,), (60, 30), (60, 30, 20)], ids=str)
def test_interrupts_leave_a_usable_model(hidden, options):
    X = (generator(760).random((2000, 64)) < 0.2).astype(np.uint8)
    model = soon_interrupted(
        lambda: DBMTransformer(hidden, random_state=0, **options),
        lambda model: model.fit(X),
        seconds=0.2,
    )
    assert all(len(entries) == model.n_iter_ for entries in model.history_.values())
    if "pretrain_n_iter" in options:
        assert model.n_iter_ == 0
    assert np.isfinite(model.transform(X[:20])).all()
    assert np.isfinite(model.sample(3, 5)).all()
    done = model.n_iter_
    model.set_params(warm_start=True, n_iter=1, n_gibbs_steps=1, pretrain_n_iter=0)
    assert model.fit(X[:200]).n_iter_ == done + 1


def test_an_interrupt_keeps_what_an_epoch_of_pretraining_has_learned(monkeypatch):
    def interrupted(pacer, kernel, n):
        kernel(0, n // 2, 1)
        raise KeyboardInterrupt

    X = (generator(761).random((200, 64)) < 0.2).astype(np.uint8)
    model = DBMTransformer((20, 3), pretrain_n_iter=1, random_state=0)
    start = clone(model).set_params(pretrain_n_iter=0, n_iter=0).fit(X)
    monkeypatch.setattr(Pacer, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.n_iter_ == 0
    assert not np.array_equal(model.components_[0], start.components_[0])
    assert_same(model.components_[1], start.components_[1])


def test_pretraining_has_a_line_for_every_epoch(binary_digits, capsys):
    model = DBMTransformer(
        (6, 5), n_iter=1, pretrain_n_iter=2, verbose=1, random_state=0
    )
    model.fit(binary_digits[:50])
    lines = capsys.readouterr().out.splitlines()
    number = "[DBMTransformer{}] Iteration {},"
    starts = [number.format(f", layer {k}", i) for k in (1, 2) for i in (1, 2)]
    starts.append(number.format("", 1))
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)
    assert all("weight norm" in line and "time" in line for line in lines[:-1])
