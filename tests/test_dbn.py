"""Deep belief networks: against enumeration, single machines, and written-out twins."""

import copy
import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, logsumexp
from scipy.stats import chisquare, kstest, norm, t
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from threadpoolctl import threadpool_limits

from common import (
    all_states,
    assert_same,
    assert_same_model,
    fitted_state,
    floats,
    soon_interrupted,
    traced_memory,
)
from sklearn_ebm import RBM, BernoulliRBM, DBNTransformer, GaussianRBM
from sklearn_ebm.boltzmann._bound import Bound, shifts_of
from sklearn_ebm.boltzmann._stack import LayerTasks, means_up, new_stack, pretrain
from sklearn_ebm.boltzmann._up_down import UpDown, delta
from sklearn_ebm.boltzmann._upper_rbm import UpperRBM
from sklearn_ebm.likelihood import log_likelihood, log_partition
from tables import bars_and_stripes

LEAST_P = 1e-6
# Numbers of units, the visible ones first; the weights up are tied to those down, or
# not.
SIZES = [(5, 4, 3), (4, 3, 3, 2)]
every_shape = pytest.mark.parametrize("sizes", SIZES, ids=str)
both_ways = pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])


def network(sizes, tied=True, dtype=np.float64, scale=1.5, seed=0):
    """A fitted network with random weights."""
    rng = np.random.default_rng(seed)
    X = np.full((4, sizes[0]), 0.5, dtype)
    model = DBNTransformer(sizes[1:], n_iter=0, random_state=0).fit(X)

    def draw(*shape):
        return (scale * rng.normal(size=shape)).astype(dtype)

    pairs = list(itertools.pairwise(sizes))
    model.components_ = [draw(above, below) for below, above in pairs]
    model.intercepts_ = [draw(size) for size in sizes]
    model.recognition_components_ = [draw(above, below) for below, above in pairs]
    model.recognition_intercepts_ = [draw(size) for size in sizes[1:]]
    if tied:
        model.recognition_components_ = list(model.components_)
    model.recognition_components_[-1] = model.components_[-1]
    model.recognition_intercepts_[-1] = model.intercepts_[-1]
    return model


# ---- Twins ----


def log_p(states, fields):
    """Log-probabilities of rows of Bernoulli units."""
    return np.sum(states * fields - np.logaddexp(0, fields), axis=-1)


def log_p_lower(model):
    """Log p of all states of the lower layer of the machine on top."""
    *_, below, above = model.intercepts_
    H = all_states(len(below))
    fields = H @ model.components_[-1].T + above
    scores = H @ below + np.logaddexp(0, fields).sum(axis=1)
    return scores - logsumexp(scores)


def log_p_visible(model):
    """Log p of all states of the visible units."""
    found = log_p_lower(model)
    for weights, bias in zip(model.components_[-2::-1], model.intercepts_[-3::-1]):
        fields = all_states(len(weights)) @ weights + bias
        states = all_states(len(bias))[:, np.newaxis]
        found = logsumexp(log_p(states, fields) + found, axis=1)
    return found


def paths_up(model, v):
    """All states of the layers below the machine on top, and their log q given v."""
    paths = [((v,), 0.0)]
    ways = zip(model.recognition_components_, model.recognition_intercepts_)
    for weights, bias in list(ways)[:-1]:
        paths = [
            ((*states, h), log_q + log_p(h, weights @ states[-1] + bias))
            for states, log_q in paths
            for h in all_states(len(bias))
        ]
    return paths


def number_of(bits):
    """Where rows of bits are among all states."""
    return (bits @ (2 ** np.arange(bits.shape[-1])[::-1])).astype(int)


def bound_of(model, v):
    """The bound of a row, and the standard deviation of what is averaged."""
    top, terms, weights = log_p_lower(model), [], []
    for states, log_q in paths_up(model, v):
        value = top[number_of(states[-1])] - log_q
        for k, (below, above) in enumerate(itertools.pairwise(states)):
            value += log_p(below, above @ model.components_[k] + model.intercepts_[k])
        terms.append(value)
        weights.append(np.exp(log_q))
    assert sum(weights) == pytest.approx(1, abs=1e-12)
    mean = np.dot(weights, terms)
    return mean, np.sqrt(np.dot(weights, np.square(terms - mean)))


# ---- The bound ----


@pytest.mark.thinned(4)
@every_shape
@both_ways
def test_bound_is_that_of_enumeration(sizes, tied):
    model, n_draws = network(sizes, tied), 4000
    X = all_states(sizes[0])
    log_z = float(log_partition(model.top_rbm()))
    found = model._bounds(X, n_draws) - log_z
    wanted, deviation = np.array([bound_of(model, v) for v in X]).T
    # Six standard errors (p < 2e-9 a row) of independent draws; spread ones do better.
    allowed = 6 * deviation * np.sqrt(1 / (n_draws - 1)) + 1e-12
    assert (np.abs(found - wanted) <= allowed).all()
    assert deviation.min() > 0.01  # so there was something to average
    np.testing.assert_allclose(model.score_samples(X), model._bounds(X, 10) - log_z)


@every_shape
@both_ways
def test_bound_is_below_the_likelihood(sizes, tied):
    model = network(sizes, tied)
    exact = log_p_visible(model)
    assert logsumexp(exact) == pytest.approx(0, abs=1e-12)
    bounds = np.array([bound_of(model, v)[0] for v in all_states(sizes[0])])
    assert (bounds <= exact).all()
    assert (bounds < exact - 1e-3).any()


def test_a_second_layer_that_turns_the_first_round_changes_nothing():
    # With the exact posterior on the way up the bound is log p(v), in any draw.
    model = network((5, 4, 5))
    weights, (visible, hidden, _) = model.components_[0], model.intercepts_
    model.components_ = [weights, weights.T.copy()]
    model.intercepts_ = [visible, hidden, visible]
    model.recognition_components_ = list(model.components_)
    model.recognition_intercepts_ = [hidden, visible]
    X = all_states(5)
    scores = X @ visible + np.logaddexp(0, X @ weights.T + hidden).sum(axis=1)
    wanted = scores - logsumexp(scores)
    np.testing.assert_allclose(log_p_visible(model), wanted, rtol=1e-10)
    np.testing.assert_allclose(model.score_samples(X), wanted, rtol=1e-10)


def test_bound_of_a_row_does_not_depend_on_the_others(digits):
    X = digits[:300]
    model = DBNTransformer((30, 20), n_iter=2, random_state=0).fit(X)
    wanted = model.score_samples(X)
    for rows in (slice(7, 8), slice(100, 231), slice(None, None, -3)):
        np.testing.assert_allclose(model.score_samples(X[rows]), wanted[rows], 1e-12)


def test_log_z_is_found_anew_after_training(digits):
    X = (digits[:200] > 0.5).astype(float)
    model = DBNTransformer((30, 10), n_iter=1, random_state=0)
    trainings = [
        lambda: model.fit(X),
        lambda: model.partial_fit(X),
        lambda: model.set_params(up_down_n_iter=1).partial_fit(X),
        lambda: model.fit(X),
    ]
    for train in trainings:
        train()
        log_z = float(log_partition(model.top_rbm()))
        assert model.score(X) == pytest.approx(model._bounds(X, 10).mean() - log_z)


@every_shape
def test_bound_is_that_of_its_draws_written_out(sizes):
    model, n_draws = network(sizes, tied=False), 7
    X, top = np.random.default_rng(0).random((9, sizes[0])), log_p_lower(model)
    recognition = [rbm._layered() for rbm in model._rbms(recognition=True)]
    *generative, machine = (rbm._layered() for rbm in model._rbms())
    bound, wanted = Bound(recognition[:-1], generative, machine, n_draws), 0
    shifts = shifts_of(X, sizes[1:-1])
    for numbers in bound.draws:
        below = X
        for k, number in enumerate(numbers):
            uniform = (number + shifts[k]) % 1
            R, c = model.recognition_components_[k], model.recognition_intercepts_[k]
            fields = below @ R.T + c
            above = (uniform < expit(fields)).astype(float)
            given = above @ model.components_[k] + model.intercepts_[k]
            wanted = wanted + log_p(below, given) - log_p(above, fields)
            below = above
        wanted = wanted + top[number_of(below)]
    found = bound.of(X) - float(log_partition(machine))
    np.testing.assert_allclose(found, wanted / n_draws, rtol=1e-10)


def test_draws_are_spread_and_those_of_layers_differ():
    model, n_draws = network((4, 3, 3, 2)), 50
    recognition = [rbm._layered() for rbm in model._rbms(recognition=True)]
    *generative, machine = (rbm._layered() for rbm in model._rbms())
    bound = Bound(recognition[:-1], generative, machine, n_draws)
    numbers = np.array(bound.draws)  # draws, layers, units
    strata = np.sort(np.floor(numbers * n_draws), axis=0)
    assert (strata == np.arange(n_draws)[:, np.newaxis, np.newaxis]).all()
    columns = numbers.reshape(n_draws, -1).T
    off = np.corrcoef(columns)[np.triu_indices(6, 1)]
    # Correlations of independent columns, 15 of them, at a p-value of 1e-6.
    assert np.abs(off).max() < norm.isf(LEAST_P / 2 / 15) / np.sqrt(n_draws - 1)


def test_rows_have_draws_of_their_own():
    X = all_states(10).astype(float)
    shifts = shifts_of(X, [3, 5])
    assert [x.shape for x in shifts] == [(1024, 3), (1024, 5)]
    columns = np.hstack(shifts)
    assert all(kstest(column, "uniform").pvalue > LEAST_P for column in columns.T)
    # Units of a row, and a unit in rows that differ by one bit: 8 * 7 / 2 and 8 pairs.
    off = np.corrcoef(columns.T)[np.triu_indices(8, 1)]
    near = [np.corrcoef(column[::2], column[1::2])[0, 1] for column in columns.T]
    worst = max(np.abs(off).max() * 2**0.5, np.abs(near).max())
    assert worst < norm.isf(LEAST_P / 2 / 36) / np.sqrt(511)
    # Nothing but the values of the row matters, in single precision.
    Z = X[::-1]
    for same in (Z.astype(np.float32), Z + 1e-12 * Z, np.where(Z == 0, -0.0, Z)):
        np.testing.assert_array_equal(shifts_of(same, [3, 5])[1], shifts[1][::-1])


@pytest.mark.slow
def test_errors_of_draws_go_away_in_the_mean_over_rows():
    model = network((10, 4, 3), tied=False)
    X = all_states(10).astype(float)
    log_z = float(log_partition(model.top_rbm()))
    errors = model._bounds(X, 10) - log_z - [bound_of(model, v)[0] for v in X]
    assert errors.std() > 0.02
    assert abs(errors.mean()) < norm.isf(LEAST_P / 2) * errors.std() / np.sqrt(1024)


@pytest.mark.slow
def test_large_machines_have_an_estimate_of_log_z(digits):
    X = (digits[:200] > 0.5).astype(float)
    model = DBNTransformer((30, 20), n_iter=2, random_state=0).fit(X)
    exact = float(log_partition(model.top_rbm()))
    model.score(X)
    _, found = model._normaliser
    assert found != exact
    estimate = log_partition(model.top_rbm(), "ais", random_state=1)
    spread = 6 * estimate.standard_error  # of a run with the settings of `score`
    assert abs(found - exact) < spread < 0.5


# ---- One layer ----


@pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
def test_one_layer_is_a_machine(visible, digits):
    X = digits[:200]
    model = DBNTransformer((8,), visible=visible, n_iter=3, random_state=0).fit(X)
    kind = {"bernoulli": BernoulliRBM, "gaussian": GaussianRBM}[visible]
    rbm = kind(8, n_chains=100, n_iter=3, random_state=0).fit(X)
    for each in (model, rbm):
        each.partial_fit(X[:50])
    assert_same(model.components_, [rbm.components_])
    assert_same(model.intercepts_, [rbm.intercept_visible_, rbm.intercept_hidden_])
    assert_same(model.visible_mean_, rbm.visible_mean_)
    assert_same(model.transform(X), rbm.transform(X))
    assert_same(model.reconstruct(X), rbm.reconstruct(X))
    assert_same(model.sample(5), rbm.sample(5))
    wanted = log_likelihood(rbm, X).samples
    np.testing.assert_allclose(model.score_samples(X), wanted, rtol=1e-10)


# ---- Greedy training ----


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, np.uint8])
def test_layers_are_machines_on_what_is_below(dtype, container, binary_digits):
    X = binary_digits[:200].astype(dtype)
    settings = {"batch_size": 7, "momentum": 0.5, "persistent": False}
    model = DBNTransformer(
        (12, 9), learning_rate=(0.1, 0.05), n_iter=(2, 3), random_state=0, **settings
    ).fit(container(X))
    rng = np.random.RandomState(0)
    first = BernoulliRBM(12, n_iter=2, random_state=rng, **settings).fit(X)
    second = UpperRBM(
        9, learning_rate=0.05, n_iter=3, random_state=rng, **settings
    ).fit(first.transform(X))
    assert_same(model.components_, [first.components_, second.components_])
    assert_same(
        model.intercepts_,
        [
            first.intercept_visible_,
            second.intercept_visible_,
            second.intercept_hidden_,
        ],
    )
    assert_same(model.recognition_components_, model.components_)
    assert_same(
        model.recognition_intercepts_,
        [first.intercept_hidden_, second.intercept_hidden_],
    )
    # And so they go on.
    model.partial_fit(container(X[:30]))
    first.partial_fit(X[:30])
    second.partial_fit(first.transform(X[:30]))
    assert_same(model.components_, [first.components_, second.components_])


@pytest.mark.slow
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_training_makes_no_dense_copy_of_the_data(container):
    rng = np.random.default_rng(0)
    X = container((rng.random((8_000, 784)) < 0.1).astype(np.uint8))
    model = DBNTransformer((8, 6), batch_size=100, n_iter=1, up_down_n_iter=1)
    with traced_memory() as memory:
        model.fit(X).partial_fit(X)
        model.set_params(up_down_n_iter=0).fit(X).partial_fit(X)
    # The means of two layers, in float32, and a chunk of rows; the data as float32
    # are 25 MB, as they are 6 and, in CSR, 3.
    assert memory.peak < 4 * 8_000 * (8 + 6) + 4e6


def test_tables_with_names_are_fitted_without_a_warning(binary_digits):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(binary_digits[:100, 20:30]).add_prefix("pixel")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # (Which the top of so short a training may deserve.)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = DBNTransformer((6, 5), n_iter=1, random_state=0).fit(X)
        assert list(model.feature_names_in_) == list(X.columns)
        # All layers together, too.
        model.set_params(up_down_n_iter=1, warm_start=True).fit(X).fit(X).partial_fit(X)
    assert list(model.feature_names_in_) == list(X.columns)


def test_history_has_the_epochs_of_all_layers_in_order(digits):
    model = DBNTransformer((6, 5), n_iter=(2, 3), up_down_n_iter=2, random_state=0)
    model.fit(digits[:100])
    assert model.history_["layer"] == [1, 1, 2, 2, 2, 0, 0]
    assert model.n_iter_ == 7
    assert all(len(values) == 7 for values in model.history_.values())
    assert np.isfinite(list(model.history_.values())).all()
    norm = np.linalg.norm(np.concatenate([w.ravel() for w in model.components_]))
    assert model.history_["weight_norm"][-1] == pytest.approx(norm)
    greedy = clone(model).set_params(up_down_n_iter=0).fit(digits[:100])
    assert greedy.partial_fit(digits[:20]).history_["layer"] == [1, 1, 2, 2, 2, 1, 2]
    assert np.isfinite(list(greedy.history_.values())).all()
    assert greedy.top_rbm().n_iter_ == 4
    assert len(greedy.top_rbm().history_["weight_norm"]) == 4


def test_lines_name_the_layer(digits, capsys):
    model = DBNTransformer((6, 5), n_iter=1, up_down_n_iter=1, verbose=1)
    model.fit(digits[:50])
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("[DBNTransformer, layer 1] Iteration 1, pseudo-")
    assert second.startswith("[DBNTransformer, layer 2] Iteration 1, pseudo-")
    assert third.startswith("[DBNTransformer] Iteration 3, reconstruction error = ")


# ---- Interrupts ----


def stack(**settings):
    """Machines whose training takes long."""
    owner = DBNTransformer()
    rng = np.random.RandomState(0)
    return new_stack(owner, (64, 32, 16), rng, learning_rate=0.1, **settings)


@pytest.mark.parametrize("last", [0, 1, 2])
def test_interrupt_leaves_all_machines_usable(last):
    X = (np.random.default_rng(0).random((3000, 64)) < 0.2).astype(np.uint8)
    n_iter = [10**7 if number == last else 1 for number in range(3)]
    rbms = soon_interrupted(
        lambda: stack(n_iter=n_iter),
        lambda rbms: pretrain(rbms, X, LayerTasks()),
        begun=lambda rbms: rbms[last].n_iter_ > 1,
    )
    done = [rbm.n_iter_ for rbm in rbms]
    assert done[:last] == [1] * last
    assert done[last] > 1
    assert done[last + 1 :] == [0] * (2 - last)
    for rbm in rbms:
        assert len(rbm.history_["weight_norm"]) == rbm.n_iter_
    means = X
    for rbm in rbms:
        means = means_up(rbm, means, np.float32)
        assert np.isfinite(means).all()


@pytest.mark.parametrize("up_down", [False, True])
def test_interrupt_leaves_a_usable_model(up_down):
    X = (np.random.default_rng(0).random((500, 64)) < 0.2).astype(np.uint8)
    many = "up_down_n_iter" if up_down else "n_iter"
    model = soon_interrupted(
        lambda: DBNTransformer((32, 16), n_iter=1).set_params(**{many: 10**6}),
        lambda model: model.fit(X),
        begun=lambda model: model.n_iter_ > 2,
    )
    assert model.n_iter_ > 2
    assert all(len(values) == model.n_iter_ for values in model.history_.values())
    assert model.history_["layer"][-1] == (0 if up_down else 1)
    assert np.isfinite(model.score(X))
    done = model.n_iter_
    model.partial_fit(X)
    assert model.n_iter_ == done + (1 if up_down else 2)


# ---- Use ----


@both_ways
def test_transform_is_passes_written_out(tied, digits):
    model = network((64, 12, 10, 8), tied, scale=0.5)
    means, layers = digits, []
    ways = zip(model.recognition_components_, model.recognition_intercepts_)
    for weights, bias in ways:
        means = expit(means @ weights.T + bias)
        layers.append(means)
    np.testing.assert_allclose(model.transform(digits), means, rtol=1e-10)
    for k in (2, 1, 0):
        means = expit(means @ model.components_[k] + model.intercepts_[k])
    np.testing.assert_allclose(model.reconstruct(digits), means, rtol=1e-10)
    model.set_params(output="all")
    every = np.hstack(layers)
    np.testing.assert_allclose(model.transform(digits), every, rtol=1e-10)
    np.testing.assert_allclose(model.transform(sp.csr_array(digits)), every, 1e-10)
    np.testing.assert_allclose(model.inverse_transform(every), means, rtol=1e-10)
    names = model.get_feature_names_out()
    assert list(names) == [f"dbntransformer{n}" for n in range(30)]
    sparse = sp.csr_array(every)
    np.testing.assert_allclose(model.inverse_transform(sparse), means, rtol=1e-10)


def test_gaussian_features(digits):
    X = 16 * digits[:300]
    model = DBNTransformer(
        (12, 8), visible="gaussian", learning_rate=(0.01, 0.1), n_iter=3, random_state=0
    ).fit(X)
    rng = np.random.RandomState(0)
    first = GaussianRBM(12, learning_rate=0.01, n_iter=3, random_state=rng).fit(X)
    assert_same(model.components_[0], first.components_)
    assert_same(model.variance_, first.variance_)
    (W, U), (c, d) = model.recognition_components_, model.recognition_intercepts_
    means = expit(expit(X / model.variance_ @ W.T + c) @ U.T + d)
    np.testing.assert_allclose(model.transform(X), means, rtol=1e-8)
    means = expit(means @ model.components_[1] + model.intercepts_[1])
    means = means @ model.components_[0] + model.intercepts_[0]
    np.testing.assert_allclose(model.reconstruct(X), means, rtol=1e-8, atol=1e-8)
    assert np.isfinite(model.score(X))


@pytest.mark.slow
def test_bound_and_samples_of_gaussian_features():
    rng = np.random.default_rng(0)
    model = DBNTransformer((4, 3), visible="gaussian", n_iter=0, random_state=0)
    model.fit(rng.normal(size=(50, 3)))
    twin = network((3, 4, 3), tied=False)
    for name in ("components_", "intercepts_"):
        for each in (name, f"recognition_{name}"):
            setattr(model, each, getattr(twin, each))
    model.variance_ = np.array([0.5, 1.0, 2.0])
    deviation = np.sqrt(model.variance_)
    H, log_p_h = all_states(4), log_p_lower(model)
    means = H @ model.components_[0] + model.intercepts_[0]

    X, n_draws = rng.normal(size=(20, 3)), 4000
    found = model._bounds(X, n_draws) - float(log_partition(model.top_rbm()))
    weights, bias = model.recognition_components_[0], model.recognition_intercepts_[0]
    for v, value in zip(X, found):
        log_q = log_p(H, v / model.variance_ @ weights.T + bias)
        terms = norm.logpdf(v, means, deviation).sum(axis=1) + log_p_h - log_q
        wanted = np.exp(log_q) @ terms
        error = np.sqrt(np.exp(log_q) @ np.square(terms - wanted) / (n_draws - 1))
        assert abs(value - wanted) < 6 * error  # as for bits above

    drawn, p = model.sample(20_000, 200, random_state=0), np.exp(log_p_h)
    for values, wanted in [
        (drawn, p @ means),
        (drawn**2, p @ (means**2 + model.variance_)),
        (drawn[:, :1] * drawn, p @ (means[:, :1] * means) + [0.5, 0, 0]),
    ]:
        error = values.std(axis=0) / np.sqrt(len(values))
        assert (np.abs(values.mean(axis=0) - wanted) < 6 * error).all()


def test_another_kind_of_features_leaves_nothing_behind(digits):
    model = DBNTransformer((6, 5), visible="gaussian", n_iter=1, random_state=0)
    model.fit(digits[:50]).set_params(visible="bernoulli").fit(digits[:50])
    assert not hasattr(model, "variance_")
    assert not hasattr(model, "n_categories_")
    assert_same_model(model, clone(model).fit(digits[:50]))


def test_codes_of_categories(digits):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 200), rng.integers(0, 2, 200)]).astype(
        float
    )
    model = DBNTransformer((5, 3), visible="categorical", n_iter=2, random_state=0)
    model.fit(X)
    assert model.n_categories_.tolist() == [3, 2]
    assert model.components_[0].shape == (5, 5)
    assert model.transform(X).shape == (200, 3)
    for codes in (model.reconstruct(X), model.sample(50, 10)):
        assert codes.shape[1] == 2
        assert np.isin(codes, [0, 1, 2]).all()
    assert (model.score_samples(X) < 0).all()
    model.set_params(up_down_n_iter=1).partial_fit(X)
    with pytest.raises(ValueError, match="holds the code 3"):
        model.transform(X + [[1, 0]])


@pytest.mark.parametrize(
    "columns", [(["a", "c"], ["b"]), (slice("a", "b"), ["c"])], ids=str
)
def test_columns_have_names(columns):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    first, second = columns
    numbers = [["abc".index(name) for name in names] for names in (["a", "c"], ["b"])]
    if isinstance(first, slice):
        numbers = [[0, 1], [2]]
    frame = pd.DataFrame(rng.random((60, 3)).round(), columns=list("abc"))
    units = "bernoulli", "categorical"
    model = DBNTransformer((5, 3), n_iter=2, random_state=0)
    wanted = (
        clone(model)
        .set_params(visible=list(zip(numbers, units, strict=True)))
        .fit(frame.to_numpy())
    )
    model.set_params(visible=list(zip(columns, units, strict=True))).fit(frame)
    assert_same(model.transform(frame), wanted.transform(frame.to_numpy()))
    assert_same(model.score_samples(frame), wanted.score_samples(frame.to_numpy()))
    model.partial_fit(frame)
    assert model.sample(3).shape == (3, 3)
    with pytest.raises(ValueError, match="no columns"):
        clone(model).set_params(visible=[(["a", "x"], "bernoulli")]).fit(frame)


def test_machine_at_the_top(digits):
    model = DBNTransformer((12, 8), n_iter=2, random_state=0).fit(digits[:200])
    top = model.top_rbm()
    assert isinstance(top, RBM)
    hidden = BernoulliRBM(12, n_iter=0).fit(digits[:200])
    hidden.components_ = model.recognition_components_[0]
    hidden.intercept_hidden_ = model.recognition_intercepts_[0]
    below = hidden.transform(digits)
    np.testing.assert_allclose(top.transform(below), model.transform(digits), 1e-10)
    np.testing.assert_allclose(top.visible_mean_, below[:200].mean(axis=0), rtol=0.1)
    before = copy.deepcopy(fitted_state(model))
    top.partial_fit(below)  # a model of its own
    assert not np.array_equal(top.components_, model.components_[-1])
    assert_same(fitted_state(model), before)
    # It goes on from what the up-down algorithm has made of it.
    model.set_params(up_down_n_iter=1, up_down_learning_rate=1.0).fit(digits[:200])
    top = model.top_rbm().set_params(learning_rate=1e-12)
    found = top.partial_fit(below).components_
    np.testing.assert_allclose(found, model.components_[-1], rtol=1e-6, atol=1e-9)


# ---- Samples ----


@pytest.mark.thinned(4)
@every_shape
@floats
def test_samples_have_the_distribution_of_the_model(sizes, dtype):
    model = network(sizes, tied=False, dtype=dtype, scale=0.8)
    n = 20_000
    drawn = model.sample(n, 200, random_state=0)
    assert drawn.dtype == dtype
    counts = np.bincount(number_of(drawn), minlength=2 ** sizes[0])
    assert chisquare(counts, n * np.exp(log_p_visible(model))).pvalue > LEAST_P


@every_shape
def test_samples_from_a_row_are_drawn_up_and_down(sizes):
    # Without Gibbs steps.
    model = network(sizes, tied=False)
    v, n = np.zeros(sizes[0]), 20_000
    v[::2] = 1
    states, wanted = all_states(sizes[0]), 0
    for (*_, lower), log_q in paths_up(model, v):
        found = np.exp(log_q) * np.ones(1)
        rows = lower[np.newaxis]
        for k in range(len(sizes) - 3, -1, -1):
            fields = rows @ model.components_[k] + model.intercepts_[k]
            below = all_states(sizes[k])
            found = np.exp(log_p(below[:, np.newaxis], fields)) @ found
            rows = below
        wanted = wanted + found
    drawn = model.sample(None, 0, init=np.tile(v, (n, 1)), random_state=0)
    counts = np.bincount(number_of(drawn), minlength=len(states))
    assert chisquare(counts, n * wanted).pvalue > LEAST_P


def test_draws_go_on_unless_seeded(digits):
    model = DBNTransformer((6, 5), n_iter=1, random_state=0).fit(digits[:100])
    assert_same(
        model.sample(20, 3, random_state=1), model.sample(20, 3, random_state=1)
    )
    first = model.sample(20, 3)
    assert not np.array_equal(model.sample(20, 3), first)
    assert_same(clone(model).fit(digits[:100]).sample(20, 3), first)
    assert model.sample(init=digits[:7]).shape == (7, 64)
    assert model.sample().shape == (1, 64)
    assert model.sample(3, 20, method="tempering").shape == (3, 64)


# ---- The up-down algorithm ----


def run_of(model, X, key=0):
    """The algorithm at the weights of a model."""
    return UpDown.of(model._rbm(0), model, key, 0)


@pytest.mark.parametrize("direction", ["ups", "downs"])
@pytest.mark.parametrize("layer", [0, 1])
def test_delta_rule_is_the_gradient(direction, layer):
    model = network((6, 4, 3, 3), tied=False)
    way = getattr(run_of(model, None), direction)[layer]
    rng = np.random.default_rng(0)
    given = rng.random((9, way.weights.shape[0]))
    states = (rng.random((9, way.weights.shape[1])) < 0.5).astype(float)

    def mean_log_p(weights, bias):
        return log_p(states, given @ weights + bias).mean()

    weights, bias, _ = delta(way, given, states)
    for place in np.ndindex(weights.shape):
        step = np.zeros(weights.shape)
        step[place] = 1e-5
        change = mean_log_p(way.weights + step, way.bias)
        change -= mean_log_p(way.weights - step, way.bias)
        assert weights[place] == pytest.approx(change / 2e-5, rel=1e-6, abs=1e-9)
    for place in range(len(bias)):
        step = np.zeros(len(bias))
        step[place] = 1e-5
        change = mean_log_p(way.weights, way.bias + step)
        change -= mean_log_p(way.weights, way.bias - step)
        assert bias[place] == pytest.approx(change / 2e-5, rel=1e-6, abs=1e-9)


class Recorder(UpDown):
    """Keeps what is drawn."""

    def _draw(self, way, given):
        drawn = super()._draw(way, given)
        self.drawn = [*getattr(self, "drawn", []), drawn]
        return drawn


@pytest.mark.parametrize("n_gibbs_steps", [1, 3])
def test_a_minibatch_is_that_of_the_twin(n_gibbs_steps):
    model = network((6, 4, 3, 5), tied=False)
    model.set_params(n_gibbs_steps=n_gibbs_steps)
    X = np.random.default_rng(0).random((8, 6))
    run = Recorder.of(model._rbm(0), model, 0, 0)
    error = run.minibatch(X, 0.2)
    found, drawn = run.fitted(), run.drawn
    W, b = model.components_, model.intercepts_
    R, c = model.recognition_components_, model.recognition_intercepts_
    awake = [X, *drawn[:2]]
    dreams = [drawn[-1], drawn[-2], drawn[2 * n_gibbs_steps + 1]]
    assert len(drawn) == 2 + 2 * n_gibbs_steps + 2

    def mean(way, given):
        weights, bias = way
        return expit(given @ weights + bias)

    for k in range(2):
        left = awake[k] - mean((W[k], b[k]), awake[k + 1])
        wanted = W[k] + 0.2 * awake[k + 1].T @ left / 8
        np.testing.assert_allclose(found["components_"][k], wanted, rtol=1e-10)
        wanted = b[k] + 0.2 * left.mean(axis=0)
        np.testing.assert_allclose(found["intercepts_"][k], wanted, rtol=1e-10)
        if k == 0:
            assert error == pytest.approx(np.square(left).mean(), rel=1e-10)
        left = dreams[k + 1] - mean((R[k].T, c[k]), dreams[k])
        wanted = R[k] + 0.2 * left.T @ dreams[k] / 8
        up = found["recognition_components_"][k]
        np.testing.assert_allclose(up, wanted, rtol=1e-10)
        wanted = c[k] + 0.2 * left.mean(axis=0)
        bias = found["recognition_intercepts_"][k]
        np.testing.assert_allclose(bias, wanted, rtol=1e-10)
    first, last = (mean((W[2].T, b[3]), h) for h in (awake[2], dreams[2]))
    wanted = W[2] + 0.2 * (first.T @ awake[2] - last.T @ dreams[2]) / 8
    np.testing.assert_allclose(found["components_"][2], wanted, rtol=1e-10)
    wanted = b[2] + 0.2 * (awake[2] - dreams[2]).mean(axis=0)
    np.testing.assert_allclose(found["intercepts_"][2], wanted, rtol=1e-10)
    wanted = b[3] + 0.2 * (first - last).mean(axis=0)
    np.testing.assert_allclose(found["intercepts_"][3], wanted, rtol=1e-10)
    for name in ("components_", "intercepts_"):
        assert_same(found["recognition_" + name][-1], found[name][-1])


def test_a_minibatch_of_gaussian_features_is_that_of_the_twin():
    # In the units of the data: generative steps are those of the means given the
    # layer above, recognition steps those of weights from standardised features.
    rng = np.random.default_rng(0)
    mean, deviation = np.array([3.0, -1.0, 0.5]), np.array([2.0, 0.5, 1.0])
    X = mean + deviation * rng.normal(size=(40, 3))
    model = DBNTransformer(
        (4, 3), visible="gaussian", learning_rate=0.01, n_iter=2, random_state=0
    ).fit(X)
    run = Recorder.of(model._rbm(0), model, 0, 0)
    run.minibatch(X, 0.2)
    found, (h, _, _, dream) = run.fitted(), run.drawn
    W, b = model.components_[0], model.intercepts_[0]
    R, c = model.recognition_components_[0], model.recognition_intercepts_[0]
    left = X - h @ W - b
    wanted = W + 0.2 * h.T @ left / 40
    np.testing.assert_allclose(found["components_"][0], wanted, rtol=1e-8)
    wanted = b + 0.2 * left.mean(axis=0)
    np.testing.assert_allclose(found["intercepts_"][0], wanted, rtol=1e-8)
    scale, end = X.std(axis=0), run.drawn[2]
    field = (X.mean(axis=0) + scale * dream) / model.variance_ @ R.T + c
    left = end - expit(field)
    step = 0.2 * left.T @ dream / 40 * model.variance_ / scale
    np.testing.assert_allclose(found["recognition_components_"][0], R + step, rtol=1e-8)
    wanted = c + 0.2 * left.mean(axis=0) - step / model.variance_ @ X.mean(axis=0)
    np.testing.assert_allclose(found["recognition_intercepts_"][0], wanted, rtol=1e-8)


@pytest.mark.parametrize("visible", ["poisson", "gaussian"])
def test_a_row_far_out_moves_a_weight_by_no_more_than_the_rate(visible):
    X = np.random.default_rng(0).poisson(2.0, (20, 3)).astype(float)
    model = DBNTransformer((4, 3), visible=visible, n_iter=0, random_state=0).fit(X)
    deviation = X.std(axis=0) if visible == "gaussian" else np.ones(3)
    variance = model.variance_ if visible == "gaussian" else np.ones(3)
    # One feature is far out in a row, another in what is drawn down from the top.
    X[7, 1] = 1e6
    model.intercepts_[0][2] = np.log(1e6) if visible == "poisson" else 1e6
    run = run_of(model, X)
    run.minibatch(X, 0.01)
    after = run.fitted()
    # As far as the rate, in the units that training works in.
    for name, unit in [
        ("components_", deviation),
        ("intercepts_", deviation),
        ("recognition_components_", variance / deviation),
    ]:
        moved = np.abs(after[name][0] - getattr(model, name)[0]) / unit
        assert moved.max() == pytest.approx(0.01, rel=1e-6), name


def test_epochs_show_all_rows_in_new_orders_at_falling_rates(monkeypatch):
    seen, rates = [], []

    def look(self, X, rate):
        seen.append(X[:, 0])
        rates.append(rate)
        self.step += 1
        return 0.0

    X = np.linspace(0, 1, 25)[:, np.newaxis] * np.ones(3)
    model = DBNTransformer(
        (3, 2), n_iter=1, up_down_n_iter=3, batch_size=10, random_state=0
    ).set_params(learning_rate_schedule="linear", up_down_learning_rate=0.9)
    monkeypatch.setattr(UpDown, "minibatch", look)
    model.fit(X).partial_fit(X)
    epochs = np.concatenate(seen).reshape(4, 25)
    assert (np.sort(epochs, axis=1) == X[:, 0]).all()
    for first, second in itertools.combinations([*epochs, X[:, 0]], 2):
        assert not np.array_equal(first, second)
    np.testing.assert_allclose(rates[:9], 0.1 * np.arange(9, 0, -1))
    assert rates[9:] == [0.9] * 3
    assert max(map(len, seen)) == 9  # 25 rows in three parts


def test_the_exact_model_of_the_data_stays_where_it_is():
    # A machine below its own turned copy has the exact posterior on the way up; with
    # data from it, the mean of every step is zero, if all is drawn as it should be.
    model = network((5, 4, 5), scale=0.8)
    weights, (visible, hidden, _) = model.components_[0], model.intercepts_
    model.components_ = [weights, weights.T.copy()]
    model.intercepts_ = [visible, hidden, visible]
    model.recognition_components_ = list(model.components_)
    model.recognition_intercepts_ = [hidden, visible]
    rng = np.random.default_rng(0)
    p = np.exp(log_p_visible(model))
    changes, rate = [], 1e-3
    for key in range(300):
        X = all_states(5)[rng.choice(32, 200, p=p / p.sum())]
        run = run_of(model, X, key)
        before = run.fitted()
        run.minibatch(X, rate)
        after = run.fitted()
        change = [
            (new - old).ravel() / rate
            for name in before
            for new, old in zip(after[name], before[name])
        ]
        changes.append(np.concatenate(change))
    changes = np.array(changes)
    scores = changes.mean(axis=0) / changes.std(axis=0, ddof=1) * np.sqrt(300)
    n_tests = len(scores)
    assert np.abs(scores).max() < t.isf(LEAST_P / 2 / n_tests, 299)


@pytest.mark.slow
def test_up_down_raises_the_likelihood():
    images = np.unique(bars_and_stripes(3), axis=0)
    assert len(images) == 14
    X, gains = np.tile(images, (10, 1)), []
    for seed in range(12):
        model = DBNTransformer(
            (6, 6), n_iter=20, up_down_learning_rate=0.1, random_state=seed
        )
        before = log_p_visible(model.fit(X))[number_of(images)].mean()
        model.set_params(up_down_n_iter=40).fit(X)
        gains.append(log_p_visible(model)[number_of(images)].mean() - before)
    score = np.mean(gains) / np.std(gains, ddof=1) * np.sqrt(12)
    assert t.sf(score, 11) < LEAST_P


def test_up_down_unties_the_ways_and_leaves_the_greedy_model_to_its_copies(digits):
    X = digits[:200]
    greedy = DBNTransformer((12, 8), n_iter=2, random_state=0).fit(X)
    before = fitted_state(clone(greedy).fit(X))
    run = run_of(greedy, X)
    run.minibatch(X, 0.1)
    assert_same(fitted_state(greedy), before)
    model = clone(greedy).set_params(up_down_n_iter=2).fit(X)
    assert not np.allclose(model.components_[0], model.recognition_components_[0])
    assert_same(model.components_[-1], model.recognition_components_[-1])
    # A pass more is one with fresh random bits.
    once, twice = (clone(greedy).set_params(up_down_n_iter=1).fit(X) for _ in range(2))
    first = fitted_state(once)["components_"][0].copy()
    twice.set_params(up_down_n_iter=0).partial_fit(X)
    assert twice.history_["layer"] == [1, 1, 2, 2, 0, 0]
    assert not np.array_equal(twice.components_[0], first)
    assert_same(twice.components_, model.components_)


def test_up_down_that_is_interrupted_in_its_first_epoch_goes_on(monkeypatch, digits):
    steps, minibatch = [], UpDown.minibatch

    def interrupted(run, *given):
        steps.append(given)
        if len(steps) == 6:
            raise KeyboardInterrupt
        return minibatch(run, *given)

    X, settings = digits[:100], {"up_down_learning_rate": 0.5, "random_state": 0}
    model = DBNTransformer((6, 5), n_iter=1, up_down_n_iter=1, **settings)
    monkeypatch.setattr(UpDown, "minibatch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    before = copy.deepcopy(model)
    assert not np.allclose(before.components_[0], before.recognition_components_[0])
    state = model.top_rbm()._state
    assert_same(state["components"], before.components_[-1])
    # (Steps too short to see.)
    model.set_params(warm_start=True, up_down_learning_rate=1e-12).fit(X)
    assert model.history_["layer"] == [1, 2, 0]
    for name in ("components_", "recognition_components_"):
        for found, wanted in zip(getattr(model, name), getattr(before, name)):
            np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_up_down_does_not_depend_on_units_of_measurement(digits):
    X = digits[:200, digits[:200].std(axis=0) > 0]
    factor, shift = 8.0, 16.0  # powers of two round nothing
    settings = {"visible": "gaussian", "learning_rate": 0.01, "n_iter": 1}
    model = DBNTransformer((8, 6), up_down_n_iter=2, random_state=0, **settings)
    plain, other = clone(model).fit(X), clone(model).fit(factor * X + shift)
    np.testing.assert_allclose(
        other.transform(factor * X + shift), plain.transform(X), rtol=1e-9
    )
    np.testing.assert_allclose(
        other.reconstruct(factor * X + shift),
        factor * plain.reconstruct(X) + shift,
        rtol=1e-9,
    )
    np.testing.assert_allclose(other.variance_, factor**2 * plain.variance_)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_up_down_that_diverges_is_noticed(method):
    X = np.random.default_rng(0).random((60, 6)) * 10
    model = DBNTransformer(
        (4, 3), visible="gaussian", learning_rate=0.01, n_iter=1, random_state=0
    ).set_params(up_down_n_iter=2)
    if method == "partial_fit":
        model.partial_fit(X)
    before = copy.deepcopy(fitted_state(model))
    model.set_params(up_down_learning_rate=1e200)
    with pytest.raises(ValueError, match=r"diverged: at a learning rate of 1e\+200 "):
        getattr(model, method)(X)
    # The call in which it happened is as if it had not been.
    assert_same(fitted_state(model), before)


def test_up_down_notices_weights_of_the_way_up(monkeypatch, digits):
    def spoil(self, X, rate):
        self.ups[-1].weights[0, 0] = np.inf
        return 0.0

    monkeypatch.setattr(UpDown, "minibatch", spoil)
    with pytest.raises(ValueError, match="diverged: at a learning rate of 0.01 "):
        DBNTransformer((4, 3, 2), n_iter=1, up_down_n_iter=1).fit(digits[:50])


@pytest.mark.parametrize(
    "visible, sizes, turned",
    [
        ("bernoulli", (9, 12), [True]),
        ("bernoulli", (9, 11, 8, 11), [False, False, True]),
        ("gaussian", (9, 12, 9), [False, True]),
    ],
)
def test_machines_begin_as_those_below_where_there_is_room(visible, sizes, turned):
    X = (np.random.default_rng(77).random((60, 12)) < 0.5).astype(float)
    model = DBNTransformer(sizes, visible=visible, n_iter=(1, *[0] * len(turned)))
    weights = model.set_params(random_state=0).fit(X).components_
    for below, above, wanted in zip(weights, weights[1:], turned, strict=False):
        found = above[: below.shape[1]]
        assert wanted == (found.shape == below.T.shape and (found == below.T).all())
    # Their rate is lower, unless one is given.
    rates = model.set_params(n_iter=1).fit(X).history_["learning_rate"]
    np.testing.assert_allclose(rates[1:], np.where(turned, 0.003, 0.1))
    rates = model.set_params(learning_rate=0.05).fit(X).history_["learning_rate"]
    np.testing.assert_allclose(rates, 0.05)


@pytest.mark.parametrize("init, size", [("random", 200), ("transposed", 520)])
def test_any_number_of_threads_gives_the_same_bits(init, size):
    X = (np.random.default_rng(0).random((600, 500)) < 0.2).astype(np.float32)
    model = DBNTransformer(
        (300, size),
        init=init,
        batch_size=300,
        n_iter=1,
        up_down_n_iter=1,
        random_state=0,
    )
    with threadpool_limits(1):
        wanted = clone(model).fit(X)
        scores, drawn = wanted._bounds(X, 2), wanted.sample(300, 2)
    for n_threads in (2, 3):
        with threadpool_limits(n_threads):
            found = clone(model).fit(X)
            assert_same(found._bounds(X, 2), scores)
            assert_same(found.sample(300, 2), drawn)
        wanted._sampling_step = found._sampling_step
        assert_same_model(found, wanted)


# ---- What is refused ----


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"hidden_layer_sizes": ()}, "'hidden_layer_sizes' .* a tuple of numbers"),
        ({"hidden_layer_sizes": (4, 0)}, r"'hidden_layer_sizes' .* Got \(4, 0\)"),
        ({"hidden_layer_sizes": 0}, "'hidden_layer_sizes' .* Got 0 "),
        ({"hidden_layer_sizes": (4, 2.5)}, "'hidden_layer_sizes'"),
        ({"n_iter": (1, 2, 3)}, r"n_iter=\(1, 2, 3\) has 3 numbers for 2 hidden"),
        ({"learning_rate": (0.1,)}, r"learning_rate=\(0.1,\) has 1 numbers for 2"),
        ({"learning_rate": (0.1, 0.0)}, "'learning_rate'"),
        ({"n_gibbs_steps": (1, 2)}, "'n_gibbs_steps'"),
        ({"momentum": 1.0}, "'momentum'"),
        ({"output": "bottom"}, "'output'"),
        ({"visible": "bits"}, "'visible'"),
        ({"up_down_learning_rate": 0}, "'up_down_learning_rate'"),
        (
            {"up_down_n_iter": 2, "hidden_layer_sizes": (4,)},
            r"up_down_n_iter=2 takes at least two hidden layers, got .*\(4,\)",
        ),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_parameters(settings, message, method, digits):
    model = DBNTransformer((4, 3), random_state=0).set_params(**settings)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(digits[:50])
    assert not fitted_state(model)


@pytest.fixture
def model(digits):
    return DBNTransformer((6, 5), n_iter=1, random_state=0).fit(digits[:100])


@pytest.mark.parametrize("sizes", [[4, 3], np.array([4, 3]), range(4, 2, -1)])
def test_sizes_are_any_array_like(sizes, digits):
    model = DBNTransformer(sizes, n_iter=1, random_state=0).fit(digits[:20])
    assert [len(weights) for weights in model.components_] == [4, 3]
    for wrong in (
        {4, 3},
        {4: 3},
        "43",
        [[4, 3]],
        [],
        [[4], [4, 3]],
        np.ones((3, 2), int),
    ):
        with pytest.raises(ValueError, match="hidden_layer_sizes"):
            DBNTransformer(wrong).fit(digits[:20])


def test_layers_cannot_change_in_training(model, digits):
    model.set_params(hidden_layer_sizes=(6, 4))
    with pytest.raises(ValueError, match=r"hidden_layer_sizes=\(6, 4\) .* \(6, 5\)"):
        model.partial_fit(digits[:50])


def test_use_before_fit(digits):
    model = DBNTransformer()
    for use in ("transform", "inverse_transform", "score_samples", "reconstruct"):
        with pytest.raises(NotFittedError, match="DBNTransformer"):
            getattr(model, use)(digits)
    for use in (model.sample, model.top_rbm, model.get_feature_names_out):
        with pytest.raises(NotFittedError, match="DBNTransformer"):
            use()


def test_bad_arguments(model, digits):
    with pytest.raises(ValueError, match="X has 6 columns, but the layer has 5 units"):
        model.inverse_transform(np.ones((2, 6)))
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)
    with pytest.raises(TypeError, match="n_gibbs_steps"):
        model.sample(3, 2.5)
    with pytest.raises(ValueError, match="method must be 'gibbs' or 'tempering'"):
        model.sample(3, method="exact")
    with pytest.raises(ValueError, match="init has 5 rows for 3 chains"):
        model.sample(3, init=digits[:5])
    with pytest.raises(
        ValueError, match="63 features, but DBNTransformer is expecting"
    ):
        model.sample(init=digits[:5, :63])


@pytest.mark.parametrize("method", ["fit", "fit_transform", "partial_fit"])
def test_values_out_of_range_have_one_warning(method, digits):
    model = DBNTransformer((6, 5), n_iter=2, up_down_n_iter=2, random_state=0)
    with pytest.warns(UserWarning, match=r"DBNTransformer.* \[0, 16\]") as caught:
        getattr(model, method)(16 * digits[:100])
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=r"DBNTransformer .* \[0, 16\]") as caught:
        model.partial_fit(16 * digits[:100])  # of the up-down algorithm
    assert len(caught) == 1


@pytest.mark.parametrize(
    "name",
    [
        "components_",
        "recognition_components_",
        "intercepts_",
        "recognition_intercepts_",
    ],
)
def test_damaged_models_are_refused(name, model):
    state = model.__getstate__()
    state[name] = [array[:-1] for array in state[name]]
    with pytest.raises(ValueError, match="restored DBNTransformer is damaged"):
        DBNTransformer().__setstate__(state)
