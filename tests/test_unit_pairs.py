"""Which units there are, which go together, and what is refused."""

import numpy as np
import pytest

from sklearn_ebm._enumeration import n_states
from sklearn_ebm._units import Kind, Units, Wanted, evaluate
from sklearn_ebm.layered import Layered, _steepest
from sklearn_ebm.likelihood import free_energy, log_likelihood, log_partition
from sklearn_ebm.samplers import Gibbs, ReplicaExchange, impute, sample_chains
from sklearn_ebm.units import (
    Bernoulli,
    Categorical,
    Gaussian,
    Mixed,
    Poisson,
    ReLU,
    Spin,
    as_unit,
    check_pair,
)

MIXED = Mixed(((3, Bernoulli()), (2, Gaussian()), (2, Poisson())))

BOUNDED = [Bernoulli(), Spin(), Categorical(3)]
REAL = [Gaussian(), Gaussian(1.0, 2.0), ReLU()]


def test_pairs_with_a_layer_of_finitely_many_states_are_allowed():
    for bounded in [*BOUNDED, Mixed(((2, Spin()), (3, Categorical(3))))]:
        for unit in [*BOUNDED, *REAL, Poisson(), MIXED]:
            assert check_pair(bounded, unit) is False
            assert check_pair(unit, bounded) is False


@pytest.mark.parametrize("first", REAL)
@pytest.mark.parametrize("second", [*REAL, Mixed(((1, Spin()), (2, ReLU())))])
def test_pairs_of_real_units_want_small_weights(first, second):
    assert check_pair(first, second) is True
    assert check_pair(second, first) is True


@pytest.mark.parametrize(
    "visible, hidden, message",
    [
        (Poisson(), Poisson(), "poisson visible and poisson hidden"),
        (Poisson(), Gaussian(), "poisson visible and gaussian hidden"),
        (ReLU(), Poisson(), "relu visible and poisson hidden"),
        (MIXED, ReLU(), "poisson visible and relu hidden"),
        (Gaussian(), MIXED, "gaussian visible and poisson hidden"),
    ],
)
def test_counts_and_unbounded_units_are_refused(visible, hidden, message):
    with pytest.raises(ValueError, match=f"{message} units have no joint"):
        check_pair(visible, hidden)


def no_machines():
    """Values of layers that define no distribution, and what is said of them."""
    W, zeros = np.full((2, 2), 0.3), np.zeros(2)
    real = Gaussian(scale=2.0)
    beside = Mixed(((1, Spin()), (1, Gaussian())))
    nan, infinite = W.copy(), np.array([0.0, -np.inf])
    nan[1, 0] = np.nan
    for units, weights, biases, message in [
        (("poisson", "poisson"), W, (zeros, zeros), "poisson .* no joint distribution"),
        (("poisson", "relu"), W, (zeros, zeros), "poisson .* no joint distribution"),
        (("gaussian", "gaussian"), 2 * W, (zeros, zeros), "below 1 .* got 1.2:"),
        ((real, "gaussian"), W, (zeros, zeros), "below 1 .* got 1.2:"),
        ((beside, "gaussian"), 3 * W, (zeros, zeros), "below 1 .* got 1.27279:"),
        (("relu", "relu"), 2 * W, (zeros, zeros), "comes to 1.2 times"),
        (("gaussian", "relu"), -4 * W, (zeros, zeros), "comes to 2.4 times"),
        (("bernoulli", "bernoulli"), nan, (zeros, zeros), r"weights\[0\] .* got nan"),
        (("gaussian", "bernoulli"), nan, (zeros, zeros), r"weights\[0\] .* got nan"),
        (("bernoulli", "spin"), W, (zeros, infinite), r"biases\[1\] .* got -inf"),
    ]:
        yield Layered(units, (weights,), biases), message
    # Neither pair of neighbours is too much by itself.
    deep = Layered(("gaussian",) * 3, (1.5 * W, 1.5 * W), (zeros, zeros, zeros))
    yield deep, "below 1 .* got 1.27279:"


@pytest.mark.parametrize("layers, message", list(no_machines()))
def test_layers_without_a_distribution_are_refused(layers, message):
    mask = np.array([True] + [False] * (sum(map(len, layers.biases[::2])) - 1))
    rows = np.zeros((1, len(mask)))
    calls = [
        lambda: log_partition(layers),
        lambda: log_partition(layers, "ais", betas=3, n_runs=2),
        lambda: log_partition(layers, "tempering"),
        lambda: free_energy(layers, rows),
        lambda: log_likelihood(layers, rows, 1.0),
        lambda: Gibbs(layers),
        lambda: ReplicaExchange(layers),
        lambda: sample_chains(layers, 2, warm_up=1),
        lambda: impute(layers, rows, mask),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("kinds", [(a, b) for a in "rg" for b in "rg"], ids="".join)
def test_steepest_direction_is_that_of_all_angles(kinds):
    rectified = [np.array([kind == "r", False]) for kind in kinds]
    angles = np.linspace(0, 2 * np.pi, 2001)
    units = np.array([np.cos(angles), np.sin(angles)])
    v, h = (units[:, ~mask[0] | (units[0] >= -1e-9)] for mask in rectified)
    for seed in range(20):
        coupling = np.random.default_rng(seed).normal(size=(2, 2))
        found = _steepest(coupling, *rectified)
        np.testing.assert_allclose(found, (v.T @ coupling @ h).max(), rtol=1e-4)


def test_layers_with_a_distribution_are_taken():
    W, zeros = np.full((2, 2), 0.49), np.zeros(2)
    beside = Mixed(((1, Spin()), (1, Gaussian(scale=0.5))))
    for units, weights in [
        (("gaussian", "gaussian"), W),
        ((Gaussian(scale=0.1), Gaussian(scale=2.0)), 4 * W),
        ((beside, Gaussian(scale=0.5)), 4 * W),
        (("relu", "relu"), -4 * W),
        (("relu", "gaussian"), np.array([[0.9, 0.0], [-0.9, 0.0]])),
        (("poisson", "bernoulli"), 4 * W),
        # (Not neighbours.)
        (("poisson", "bernoulli", "bernoulli", "poisson"), 4 * W),
    ]:
        n = len(units)
        layers = Layered(units, (weights,) * (n - 1), (zeros,) * n)
        draws = sample_chains(layers, 2, 3, warm_up=5, random_state=0)
        assert np.isfinite(draws).all()


def test_names():
    names = {"bernoulli", "spin", "gaussian", "relu", "poisson"}
    assert {as_unit(name).kind for name in names} == set(Kind) - {Kind.CATEGORICAL}
    assert all(Kind(as_unit(name).kind).name.lower() == name for name in names)
    unit = Categorical(3)
    assert as_unit(unit) is unit
    for wrong in ("tanh", "Bernoulli", 3, None, Spin):
        with pytest.raises(ValueError, match=r"there are no units .*'relu', 'spin'"):
            as_unit(wrong)


@pytest.mark.parametrize(
    "unit, n, message",
    [
        (lambda: Categorical(3), 4, "4 columns are no blocks of 3"),
        (lambda: Categorical(0), 4, "n_categories"),
        (lambda: Categorical(2.5), 5, "n_categories"),
        (lambda: Gaussian(scale=0.0), 2, "scale"),
        (lambda: Gaussian(scale=-1.0), 2, "scale"),
        (lambda: Gaussian(scale=np.nan), 2, "scale"),
        (lambda: Gaussian(loc=np.inf), 2, "loc"),
        (lambda: Gaussian(loc=np.zeros(3)), 2, "loc"),
        (lambda: Mixed(((2, Spin()), (3, ReLU()))), 4, "5 columns"),
        (lambda: Mixed(((2, Spin()), (3, "relu"))), 5, r"got \(3, 'relu'\)"),
        (lambda: Mixed(((2, Spin()), (3.0, ReLU()))), 5, r"got \(3\.0, ReLU\(\)\)"),
    ],
)
def test_layers_that_are_none_are_refused(unit, n, message):
    with pytest.raises(ValueError, match=message):
        unit().mean(np.zeros((1, n)))


@pytest.mark.parametrize(
    "unit, message",
    [
        (lambda: Categorical(True), "n_categories must be .* got True"),
        (lambda: Gaussian(np.zeros((2, 2))), "loc must be .* one for every unit, got"),
        (lambda: Gaussian("a"), "loc must be .* got 'a'"),
        (lambda: Gaussian(None), "loc must be .* got None"),
        (lambda: Gaussian(scale=np.ones((1, 2))), "scale must be .* got array"),
        (lambda: Gaussian(scale="a"), "scale must be .* got 'a'"),
        (lambda: Mixed("x"), "parts must hold pairs .* got 'x'"),
        (lambda: Mixed(3), "parts must hold pairs .* got 3"),
        (lambda: Mixed(()), r"parts must hold pairs .* got \(\)"),
        (lambda: Mixed((3, Spin())), "parts must hold pairs .* got 3"),
        (lambda: Mixed(((-1, Spin()),)), r"parts must hold pairs .* got \(-1, Spin"),
        (
            lambda: Mixed(((True, Spin()),)),
            r"parts must hold .* got \(True, Spin",
        ),
        (lambda: Mixed(((3, Categorical(2)),)), "parts .*: 3 columns are no blocks of"),
        (lambda: Mixed(((3, Gaussian([0, 1])),)), "parts .*: loc .* 3 of them"),
        (lambda: Mixed(((3, Mixed(((2, Spin()),))),)), "parts .*: .* do not make 3"),
    ],
)
def test_units_that_are_none_are_refused_at_once(unit, message):
    with pytest.raises(ValueError, match=message):
        unit()


@pytest.mark.parametrize("integer", [int, np.int64, np.uint8])
def test_any_integers_count_states(integer):
    categories = Categorical(integer(4))
    mixed = Mixed(((integer(70), Spin()), (integer(8), categories)))
    assert repr(categories) == "Categorical(n_categories=4)"
    assert repr(mixed) == f"Mixed(parts=((70, Spin()), (8, {categories})))"
    assert n_states(categories, integer(128)) == 4**32
    assert n_states(mixed, integer(78)) == 2**70 * 4**2
    assert n_states(Bernoulli(), integer(70)) == 2**70


def test_widths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="there are 3 units, not 4"):
        evaluate(Spin().kernel(3), np.zeros((2, 4)), Wanted.MEANS)
    assert evaluate(Spin().kernel(3), np.zeros((0, 3)), Wanted.MEANS).shape == (0, 3)
    with pytest.raises(ValueError, match="no blocks"):
        Units([(Kind.CATEGORICAL, 4, 3)])
