"""The compiled pass of ICA over its data: right, and cut anywhere the same bits."""

import hashlib

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from common import floats, run_on_instruction_sets
from sklearn_ebm._ica import add_moments, add_own_moments, rounds
from sklearn_ebm._simd import instruction_set
from sklearn_ebm.factors._ica_densities import DENSITIES, Sources
from sklearn_ebm.factors._ica_likelihood import moments, own_moments

MIXED = ["student", "logistic", "laplace", "subgaussian", "left-skewed"]
# Rows and sources: one of each; parts of a block; several rounds of blocks.
SHAPES = [(1, 1), (7, 3), (300, 20), (1500, 8), (20_000, 17)]


def setting(n, k, names, dtype=np.float64):
    """Rows of heavy tails, an unmixing matrix, and sources."""
    rng = np.random.default_rng(n)
    Z = rng.normal(size=(n, k)) ** 3
    W = rng.normal(size=(k, k)) + np.eye(k)
    return Z.astype(dtype), W.astype(dtype).astype(float), Sources((names * k)[:k])


def by_numpy(Z, W, sources):
    """What `moments` should find."""
    Y = Z.astype(float) @ W.T
    energy, score, slope = sources.evaluate(Y)
    energies = energy.mean(axis=0)
    gradient = score.T @ Y / len(Z) - np.eye(len(W))
    curvature = slope.T @ (Y * Y) / len(Z)
    return energies, energies.sum() - np.linalg.slogdet(W)[1], gradient, curvature


def found_by_pass(Z, W, sources):
    found = moments(Z, W, sources)
    return found.energies, found.loss, found.gradient, found.curvature


@floats
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("names", [*([name] for name in DENSITIES), MIXED])
def test_moments_are_those_of_numpy(shape, names, dtype):
    eps = np.finfo(dtype).eps
    case = setting(*shape, names, dtype)
    for found, wanted in zip(found_by_pass(*case), by_numpy(*case), strict=True):
        size = np.abs(wanted).max()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=100 * eps * size)


@floats
@pytest.mark.parametrize("shape", SHAPES)
def test_sources_by_themselves(shape, dtype):
    """What is found of sources at given scales is that of a diagonal matrix."""
    Z, W, sources = setting(*shape, MIXED, dtype)
    scale = np.abs(np.diag(W)) + 0.1
    wanted = by_numpy(Z, np.diag(scale.astype(dtype).astype(float)), sources)
    found = own_moments(Z, scale, sources)
    energies, _, gradient, curvature = wanted
    wanted = [energies, np.diag(gradient), np.diag(curvature)]
    for one, all_ in zip(found, wanted, strict=True):
        error = 100 * np.finfo(dtype).eps * np.abs(all_).max()
        np.testing.assert_allclose(one, all_, rtol=0, atol=error)


@floats
@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("y", [0.0, 1e-9, -1e-3, 0.7, -3.0, 40.0, -800.0, 1e6])
def test_one_value_at_a_time(name, y, dtype):
    Z, sources = np.array([[y]], dtype=dtype), Sources([name])
    y = float(Z[0, 0])
    energy, score, slope = (float(v) for v in DENSITIES[name].evaluate(np.float64(y)))
    found = moments(Z, np.eye(1), sources)
    eps = np.finfo(dtype).eps
    # log(1 + ...) of an energy, and 1 - exp of a score, are good to an eps of 1.
    np.testing.assert_allclose(found.loss, energy, rtol=4 * eps, atol=4 * eps)
    product = found.gradient[0, 0] + 1
    np.testing.assert_allclose(
        product, score * y, rtol=8 * eps, atol=4 * eps * max(abs(y), 1)
    )
    if name == "logistic":  # whose slope NumPy's formula loses in the tails
        cosh = np.cosh(min(abs(y), 1400) / 2)
        slope = 0.5 / cosh / cosh
    error = eps if name == "subgaussian" else np.finfo(dtype).tiny
    np.testing.assert_allclose(
        found.curvature[0, 0], slope * y * y, rtol=16 * eps, atol=4 * error * y * y
    )


def add_up(case, cuts, n_threads):
    """All sums of all strands, cut at some rounds."""
    Z, W, sources = case
    layout = sources.layout(Z.dtype)
    width = layout.shapes.shape[1]
    weights = np.zeros((len(W), width), Z.dtype)
    weights[:, layout.places] = W.T
    n_strands, n_rounds = rounds(len(Z), width * Z.itemsize)
    shapes = (width,), (width, width), (width, width)
    sums = [np.zeros((n_strands, *shape)) for shape in shapes]
    cuts = [cut for cut in cuts if cut < n_rounds]
    for start, stop in zip([0, *cuts], [*cuts, n_rounds], strict=True):
        add_moments(
            Z, weights, layout.kinds, layout.shapes, *sums, start, stop, n_threads
        )
    return [part.tobytes() for part in sums]


@floats
def test_same_bits_however_the_work_is_cut(dtype):
    case = setting(20_000, 17, MIXED, dtype)
    width = case[2].layout(case[0].dtype).shapes.shape[1]
    n_strands, n_rounds = rounds(20_000, width * case[0].itemsize)
    assert n_strands > 7
    assert n_rounds > 2
    wanted = add_up(case, [], 1)
    for cuts, n_threads in [([1], 1), ([1, 2], 2), ([], 2), ([2], 7)]:
        assert add_up(case, cuts, n_threads) == wanted


def fingerprint():
    """A hash of what a pass finds."""
    digest = hashlib.sha256()
    for dtype in (np.float32, np.float64):
        found = moments(*setting(20_000, 17, MIXED, dtype))
        for part in (found.energies, found.gradient, found.curvature):
            digest.update(part)
    return digest.hexdigest()


@pytest.mark.parametrize("n_threads", [2, 5])
def test_same_bits_on_any_number_of_threads(n_threads):
    with threadpool_limits(1):
        wanted = fingerprint()
    with threadpool_limits(n_threads):
        assert fingerprint() == wanted


def test_every_instruction_set_is_right():
    # (Products of the first are those of BLAS, whose last bits differ.)
    code = """if True:
        import numpy as np
        import test_ica_pass as t
        for dtype in (np.float32, np.float64):
            for shape in t.SHAPES:
                for names in (["laplace"], t.MIXED):
                    t.test_moments_are_those_of_numpy(shape, names, dtype)
                t.test_sources_by_themselves(shape, dtype)
    """
    run_on_instruction_sets(["base", "avx2"], code)


def test_same_bits_on_instruction_sets_with_products_of_our_own():
    if instruction_set() == "base":
        pytest.skip("this processor has none")
    code = "import test_ica_pass as t; print(t.fingerprint())"
    (printed,) = run_on_instruction_sets(["avx2"], code)
    assert printed.strip() == fingerprint()


def test_shapes_must_fit():
    Z, W, sources = setting(10, 8, ["logistic"])
    layout = sources.layout(Z.dtype)
    sums = np.zeros((1, 8)), np.zeros((1, 8, 8)), np.zeros((1, 8, 8))
    good = [Z, W.T.copy(), layout.kinds, layout.shapes, *sums]
    add_moments(*good, 0, 1, 1)
    for n, bad in [
        (0, Z[:, :7].copy()),
        (1, W[:, :7].copy()),
        (2, layout.kinds[:0]),
        (3, layout.shapes[:2]),
        (4, np.zeros((1, 7))),
        (5, np.zeros((2, 8, 8))),
        (6, np.zeros((1, 8, 7))),
    ]:
        with pytest.raises(ValueError, match="do not fit"):
            add_moments(*good[:n], bad, *good[n + 1 :], 0, 1, 1)
    good = [Z, np.ones(8), layout.places, layout.kinds, layout.shapes, np.zeros((3, 8))]
    add_own_moments(*good)
    for n, bad in [
        (0, Z[:, :7].copy()),
        (1, np.ones(7)),
        (2, layout.places[:7]),
        (3, layout.kinds[:0]),
        (4, layout.shapes[:3]),
        (5, np.zeros((3, 7))),
    ]:
        with pytest.raises(ValueError, match="do not fit"):
            add_own_moments(*good[:n], bad, *good[n + 1 :])
