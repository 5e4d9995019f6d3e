"""The kernel of mean field against a plain NumPy twin, and what is true of it."""

from itertools import pairwise

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import entr
from threadpoolctl import threadpool_limits

from common import run_on_instruction_sets
from reference import generator
from reference_deep import half_steps, mean_field
from sklearn_ebm._mean_field import MeanField
from sklearn_ebm._openmp import effective_n_threads, openmp_enabled
from sklearn_ebm.units import Bernoulli

# (rows, given, latent, odd): blocks of 128 rows, panels of 8 or 16 units and slabs of
# eight panels, in whole and in part; turns of 64 units and more; and no latent units.
SIZES = [
    (1, 1, 1, 1),
    (5, 7, 3, 4),
    (128, 16, 8, 16),
    (129, 9, 17, 15),
    (280, 30, 21, 33),
    (20, 40, 150, 170),
    (70, 12, 0, 5),
]
DTYPES = [np.float32, np.float64]
every_size = pytest.mark.parametrize("sizes", SIZES, ids=str)
floats = pytest.mark.parametrize("dtype", DTYPES)


def machine(sizes, dtype=np.float64, scale=1.0):
    """Rows of what is given, weights, and biases of odd and of latent units."""
    n_rows, n_given, n_latent, n_odd = sizes
    rng = generator(700, *sizes)
    arrays = (
        rng.random((n_rows, n_given)),
        scale * rng.normal(size=(n_given + n_latent, n_odd)),
        rng.normal(size=n_odd),
        rng.normal(size=n_latent),
    )
    return tuple(x.astype(dtype) for x in arrays)


def kernel(seen, weights, odd_bias, latent_bias, n_steps, tolerance=0.0):
    """What the kernel finds of the rows."""
    bernoulli = Bernoulli()
    field = MeanField(
        bernoulli.kernel(len(latent_bias)),
        bernoulli.kernel(len(odd_bias)),
        seen.dtype,
        seen.shape[1],
        n_steps=n_steps,
        tolerance=tolerance,
    )
    return field.set(weights, odd_bias, latent_bias).settle(seen)


def assert_close(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        rtol = 1e-12 if x.dtype == np.float64 else 2e-5
        np.testing.assert_allclose(x, y, rtol, rtol)


# ---- The twin ----


@floats
@every_size
@pytest.mark.parametrize("n_steps", [0, 1, 2, 7])
def test_steps_equal_the_twin(n_steps, sizes, dtype):
    given = machine(sizes, dtype, 0.5)
    found = kernel(*given, n_steps)
    assert [x.dtype for x in found] == [dtype] * 2
    assert_close(found, mean_field(*given, n_steps))


TOLERANCES = [1e-4, 0.01, 0.2]


@every_size
@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("n_steps", [0, 1, 2, 7, 40])
def test_changes_that_are_told_equal_the_twin(n_steps, tolerance, sizes):
    # (In float32 a change may be on either side of what is told.)
    given = machine(sizes, scale=0.5)
    assert_close(
        kernel(*given, n_steps, tolerance), mean_field(*given, n_steps, tolerance)
    )


@floats
@every_size
@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_rows_that_settle_stop(tolerance, sizes, dtype):
    given = machine(sizes, dtype, 0.5)
    path = np.array([kernel(*given, k, tolerance)[0] for k in range(41)])
    moved = np.abs(np.diff(path, axis=0)).max(axis=2, initial=0)
    last = (moved > 0).cumsum(axis=0).argmax(axis=0)  # step that moved a row last
    # Rows do stop, and at different times, where there is something to settle.
    if sizes == (280, 30, 21, 33) and tolerance == 0.01:
        assert last.max() < 39
        assert len(set(last.tolist())) > 2
    # They do because a whole step would not move them by much more.
    _, odd_means, latent_means = half_steps(*given)
    after = latent_means(odd_means(path[-1].astype(float)))
    left = np.abs(after - path[-1]).max(axis=1, initial=0)
    assert left[last < 39].max(initial=0) < 1.5 * tolerance


@floats
@pytest.mark.parametrize("tolerance", [1e-3, 0.01])
def test_no_row_stops_while_changes_wait(tolerance, dtype):
    # Many odd units change all the same way, each by less than a 32nd of its mean.
    given = (
        np.ones((1, 1), dtype),
        np.outer([0.06, -0.05], np.ones(500)),
        np.full(500, 2.0),
        np.array([22.0]),
    )
    latent, _ = kernel(*given, 200, tolerance)
    _, odd_means, latent_means = half_steps(*given)
    after = latent_means(odd_means(latent.astype(float)))
    assert abs(after - latent).max() < 1.5 * tolerance


@floats
@every_size
def test_rows_do_not_see_each_other(sizes, dtype):
    seen, *rest = machine(sizes, dtype)
    latent, odd = kernel(seen, *rest, 30, 0.01)
    for rows in (slice(0, 1), slice(None, None, -1), slice(1, None, 3)):
        part = kernel(np.ascontiguousarray(seen[rows]), *rest, 30, 0.01)
        np.testing.assert_array_equal(part[0], latent[rows])
        np.testing.assert_array_equal(part[1], odd[rows])


def test_no_rows():
    seen, *rest = machine((5, 7, 3, 4))
    assert [x.shape for x in kernel(seen[:0], *rest, 5)] == [(0, 3), (0, 4)]


@pytest.mark.skipif(not openmp_enabled(), reason="built without OpenMP")
@floats
def test_same_bits_on_any_number_of_threads(dtype, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    given = machine((400, 40, 24, 40), dtype, 0.5)
    found = []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads):
            assert effective_n_threads() == n_threads
            found.append(b"".join(x.tobytes() for x in kernel(*given, 30, 1e-3)))
    assert found[1:] == found[:1] * 2


def everything():
    return [
        kernel(*machine(sizes, dtype, 0.5), 30, 1e-3)
        for dtype in DTYPES
        for sizes in SIZES
    ]


def test_every_instruction_set_gives_the_same_bits():
    # (Changes are listed with other instructions where there are some for that.)
    code = "import joblib, test_mean_field as t; print(joblib.hash(t.everything()))"
    for printed in run_on_instruction_sets(["base", "avx2"], code):
        assert printed.strip() == joblib.hash(everything())


@floats
@every_size
def test_rows_may_be_given_in_any_form(sizes, dtype):
    seen, *rest = machine(sizes, dtype)
    seen[generator(705).random(seen.shape) < 0.5] = 0
    sparse = sp.csr_array(seen)
    # (An entry that is zero is none.)
    sparse.data[: len(sparse.data) // 3] = 0
    seen = sparse.toarray()
    dense = kernel(seen, *rest, 3)
    for form in (sparse, np.asfortranarray(seen), seen[::-1].copy()[::-1]):
        for x, y in zip(kernel(form, *rest, 3), dense, strict=True):
            np.testing.assert_array_equal(x, y)


def test_rows_that_do_not_fit_are_refused():
    seen, *rest = machine((5, 7, 3, 4))
    field = MeanField(
        Bernoulli().kernel(3), Bernoulli().kernel(4), np.float64, 7, n_steps=1,
        tolerance=0,
    ).set(*rest)  # fmt: skip
    with pytest.raises(ValueError, match="rows do not fit"):
        field.settle(seen[:, :6])


# ---- What mean field is ----


def test_it_begins_with_inputs_that_count_twice():
    # As in the machine with which the lowest layer was pretrained; written out.
    weights = np.array([[1.0], [-2.0]])
    latent, odd = kernel(
        np.array([[0.3]]), weights, np.array([0.1]), np.array([0.5]), 0
    )
    first = 1 / (1 + np.exp(-(0.1 + 2 * 0.3)))
    second = 1 / (1 + np.exp(-(0.5 - 2 * first)))
    third = 1 / (1 + np.exp(-(0.1 + 0.3 - 2 * second)))
    np.testing.assert_allclose([latent[0, 0], odd[0, 0]], [second, third], 1e-12)


@every_size
def test_it_ends_at_a_fixed_point(sizes):
    given = machine(sizes)
    latent, odd = kernel(*given, 3000)
    _, odd_means, latent_means = half_steps(*given)
    np.testing.assert_allclose(odd, odd_means(latent), 1e-10)
    np.testing.assert_allclose(latent, latent_means(odd), 1e-10, 1e-13)


def bound(seen, weights, odd_bias, latent_bias, latent, odd):
    """Mean of minus the energy, and entropy, of independent latent and odd units."""
    even = np.hstack([seen, latent])
    energy = -np.einsum("ri,ij,rj->r", even, weights, odd)
    energy -= latent @ latent_bias + odd @ odd_bias
    entropy = [(entr(q) + entr(1 - q)).sum(axis=1) for q in (latent, odd)]
    return sum(entropy) - energy


@every_size
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_the_bound_never_falls(sizes, scale):
    given = machine(sizes, scale=scale)
    path = [kernel(*given, k) for k in range(12)]
    # From half a step to the next: latent, then odd, then latent ...
    halves = []
    for (latent, odd), (after, _) in pairwise(path):
        halves += [bound(*given, latent, odd), bound(*given, after, odd)]
    rises = np.diff(halves, axis=0)
    assert (rises > -1e-11).all()
    if sizes == SIZES[4]:
        assert rises[0].min() > 0
