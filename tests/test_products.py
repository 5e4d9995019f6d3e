"""Products: right, and the same bits on any number of threads, of dense and sparse."""

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

from common import floats
from sklearn_ebm._products import goes_by_lists, product, sparse_product
from sklearn_ebm._simd import instruction_set

SHAPES = [(1, 1, 1), (3, 5, 2), (300, 7, 300), (257, 784, 513), (1000, 40, 64)]


def factors(shape, dtype):
    m, k, n = shape
    rng = np.random.default_rng(m)
    return rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)


@floats
@pytest.mark.parametrize("shape", SHAPES)
def test_product_is_that_of_integers(shape, dtype):
    # Sums of small integers are exact in any order.
    a, b = (np.rint(4 * x) for x in factors(shape, dtype))
    found = product(a, b)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.float64(a) @ np.float64(b))


@floats
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("a_turned", [False, True])
@pytest.mark.parametrize("b_turned", [False, True])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_product_of_turned_factors_into_a_matrix(
    shape, a_turned, b_turned, beta, dtype
):
    a, b = (np.rint(4 * x) for x in factors(shape, dtype))
    out = np.rint(4 * factors((shape[0], shape[2], 1), dtype)[0])
    wanted = np.float64(a) @ np.float64(b) + beta * out
    found = product(
        a.T.copy() if a_turned else a,
        b.T.copy() if b_turned else b,
        a_turned=a_turned,
        b_turned=b_turned,
        out=out,
        beta=beta,
    )
    assert found is out
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_empty_sum_into_a_matrix(beta):
    out = np.ones((2, 3))
    product(np.ones((2, 0)), np.ones((0, 3)), out=out, beta=beta)
    np.testing.assert_array_equal(out, np.full((2, 3), beta))


@floats
@pytest.mark.parametrize("shape", SHAPES)
def test_product_is_the_same_on_any_number_of_threads(shape, dtype):
    a, b = factors(shape, dtype)
    found = []
    for n_threads in (1, 2, 5):
        with threadpool_limits(n_threads):
            found.append(product(a, b).tobytes())
        found.append(product(a, b, n_threads=n_threads).tobytes())
    assert found == found[:1] * 6


def test_limits_of_blas_are_restored():
    before = threadpool_info()
    product(*factors((3, 5, 2), np.float64))
    assert threadpool_info() == before


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 2, 0)])
def test_empty_products(shape):
    found = product(*factors(shape, np.float64))
    np.testing.assert_array_equal(found, np.zeros(shape[::2]))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="cannot multiply"):
        product(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"\(2, 3\) does not go into \(3, 2\)"):
        product(np.ones((2, 2)), np.ones((2, 3)), out=np.ones((3, 2)))


@floats
@pytest.mark.parametrize("density", [0, 0.01, 0.3, 1])
@pytest.mark.parametrize("width", [1, 7, 8, 15, 31, 100, 129, 300])
def test_sparse_products_have_the_bits_of_dense_ones(width, density, dtype):
    rng = np.random.default_rng(width)
    for n_terms in (1, 191, 192, 193, 1000):
        X = sp.random_array((7, n_terms), density=density, rng=rng, format="csr")
        X.data -= 0.5
        X.data[::5] = 0
        b = rng.normal(size=(n_terms, width)).astype(dtype)
        wanted = product(X.toarray().astype(dtype), b)
        for rows in (X, X.astype(dtype)):
            assert sparse_product(rows, b).tobytes() == wanted.tobytes()
        out = np.empty_like(wanted)
        assert sparse_product(X, b, out=out) is out
        assert out.tobytes() == wanted.tobytes()


@floats
@pytest.mark.parametrize("values", [bool, np.uint8])
def test_sparse_products_of_bits_are_the_same_on_any_number_of_threads(values, dtype):
    X = sp.random_array((4000, 500), density=0.2, rng=0, format="csr").astype(values)
    X.data[:] = 1
    b = np.random.default_rng(0).normal(size=(500, 80)).astype(dtype)
    wanted = product(X.toarray().astype(dtype), b).tobytes()
    for n_threads in (1, 2, 5):
        with threadpool_limits(n_threads):
            assert sparse_product(X, b).tobytes() == wanted


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 2, 0)])
def test_empty_sparse_products(shape):
    a, b = factors(shape, np.float64)
    found = sparse_product(sp.csr_array(a), b)
    np.testing.assert_array_equal(found, np.zeros(shape[::2]))


def test_sparse_products_that_do_not_fit_are_refused():
    X = sp.csr_array(np.ones((2, 3)))
    with pytest.raises(ValueError, match="cannot multiply"):
        sparse_product(X, np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"\(2, 3\) does not go into \(3, 2\)"):
        sparse_product(X, np.ones((3, 3)), out=np.ones((3, 2)))
    X.indices[-1] = 5
    with pytest.raises(ValueError, match="entries outside its 3 columns"):
        sparse_product(X, np.ones((3, 3)))


def test_only_few_numbers_go_by_lists():
    X = sp.random_array((100, 100), density=0.01, rng=0, format="csr")
    assert not goes_by_lists(X.toarray())
    assert not goes_by_lists(sp.csr_array(np.ones((100, 100))))
    # (Where BLAS makes dense products, nothing does.)
    assert goes_by_lists(X) == (instruction_set() != "base")
