"""What the tests of the kernels share: layers, data of every kind, trainers."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_ebm._gibbs import Layer, half_sweep
from sklearn_ebm._panels import Panels
from sklearn_ebm._rows import Rows
from sklearn_ebm._scores import score_rows
from sklearn_ebm._trainer import Trainer

DTYPES = [np.float32, np.float64]
# One unit, and either side of the borders of bytes, panels and words.
WIDTHS = [1, 7, 8, 15, 16, 17, 63, 64, 65, 129]
KEY = 0x0123456789ABCDEF


# ---- Layers and half-sweeps ----


def up_layer(machine):
    return Layer(Panels.from_columns(machine[0]), machine[1])


def down_layer(machine):
    return Layer(Panels.from_rows(machine[0]), machine[2])


def turned_layer(machine):
    """down_layer with the weights of up_layer."""
    return Layer(Panels.from_columns(machine[0]), machine[2], turned=True)


def sweep(X, layer, dtype, **counter):
    """Fields, means and samples of a half-sweep."""
    shape = X.shape[0], layer.n_units
    fields, means = np.full(shape, np.nan, dtype), np.full(shape, np.nan, dtype)
    samples = np.zeros(shape, dtype=bool)
    half_sweep(Rows(X), layer, fields=fields, means=means, samples=samples, **counter)
    return fields, means, samples


def sweep_from_fields(fields, **counter):
    """The same with given fields: row r of an identity picks row r of them."""
    fields = np.asarray(fields)
    layer = Layer(Panels.from_rows(fields), np.zeros(fields.shape[1]))
    return sweep(np.eye(len(fields), dtype=bool), layer, fields.dtype, **counter)


def kernel_logistic(fields):
    """The kernel's own logistic function, checked in test_logistic."""
    return sweep_from_fields(fields)[1]


# ---- Data ----


def bits(n_rows, n_columns, rng, share=0.4):
    return rng.random((n_rows, n_columns)) < share


def strided(X):
    """A view with the values of X, backwards in memory and with gaps."""
    room = np.zeros((X.shape[0], 2 * X.shape[1]), dtype=X.dtype)[::-1, ::-2]
    room[...] = X
    return room


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def csr(X, index_dtype=np.int32):
    """CSR with a stored zero in every row that has one, and unsorted columns."""
    columns = [
        np.r_[np.flatnonzero(row)[::-1], np.flatnonzero(row == 0)[:1]] for row in X
    ]
    indptr = np.cumsum([0, *(len(c) for c in columns)])
    indices = np.concatenate(columns)
    data = np.concatenate([row[c] for row, c in zip(X, columns, strict=True)])
    indptr, indices = indptr.astype(index_dtype), indices.astype(index_dtype)
    matrix = sp.csr_array((data, indices, indptr), shape=X.shape)
    matrix.indptr, matrix.indices = indptr, indices
    return matrix


def strided_csr(X):
    """CSR in canonical format whose arrays have gaps."""
    matrix = sp.csr_array(X)
    arrays = (matrix.data, matrix.indices, matrix.indptr)
    return sp.csr_array(tuple(strided(a[np.newaxis])[0] for a in arrays), X.shape)


def real(n_rows, n_columns, dtype, rng):
    """Values in [0, 1], some of them 0 or 1, at least one of them neither.

    They are multiples of 1/64, products of which with others are exact.
    """
    X = np.clip(rng.uniform(-0.5, 1.5, (n_rows, n_columns)), 0, 1)
    X = (np.round(64 * X) / 64).astype(dtype)
    X[0, 0] = 0.25
    return X


def few_reals(n_rows, n_columns, dtype, rng):
    """`real`, but most of them 0: so few that they are listed."""
    X = real(n_rows, n_columns, dtype, rng) * bits(n_rows, n_columns, rng, 0.15)
    X[0, 0] = 0.25
    return X.astype(dtype)


def counts(n_rows, n_columns, dtype, rng):
    return rng.choice(np.uint8([0, 0, 1, 3, 127, 128, 255]), (n_rows, n_columns))


# What the kernels read: a name, and a function of (rows, columns, dtype, rng).
# bool and uint8 are computed in float32.
SINGLE = {
    "bool": lambda n, m, dtype, rng: bits(n, m, rng),
    "uint8": lambda n, m, dtype, rng: bits(n, m, rng).astype(np.uint8),
    "uint8 counts": counts,
    "csr bool": lambda n, m, dtype, rng: csr(bits(n, m, rng)),
    "csr uint8": lambda n, m, dtype, rng: csr(bits(n, m, rng).astype(np.uint8)),
}
BOTH = {
    "binary": lambda n, m, dtype, rng: bits(n, m, rng).astype(dtype),
    "Fortran": lambda n, m, dtype, rng: np.asfortranarray(
        bits(n, m, rng).astype(dtype)
    ),
    "strided": lambda n, m, dtype, rng: strided(bits(n, m, rng).astype(dtype)),
    "read-only": lambda n, m, dtype, rng: read_only(bits(n, m, rng).astype(dtype)),
    "real": real,
    "few reals": few_reals,
    "real strided": lambda n, m, dtype, rng: strided(real(n, m, dtype, rng)),
    "negative": lambda n, m, dtype, rng: 4 * real(n, m, dtype, rng) - 2,
    "csr": lambda n, m, dtype, rng: csr(bits(n, m, rng).astype(dtype)),
    "csr 64-bit": lambda n, m, dtype, rng: csr(bits(n, m, rng).astype(dtype), np.int64),
    "csr strided": lambda n, m, dtype, rng: strided_csr(real(n, m, dtype, rng)),
    "csr real": lambda n, m, dtype, rng: csr(real(n, m, dtype, rng)),
}
INPUTS = [
    *(pytest.param(make, np.float32, id=name) for name, make in SINGLE.items()),
    *(
        pytest.param(make, dtype, id=f"{name}-{dtype.__name__}")
        for name, make in BOTH.items()
        for dtype in DTYPES
    ),
]


def plain(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def cancelling_machine(n_hidden, n_visible, rng, dtype):
    """Hidden units that are always on and whose huge weights almost cancel.

    The order in which they are added up decides over the visible units.
    """
    huge = 1e4 if dtype == np.float32 else 1e13
    weights = (huge * rng.normal(size=(n_hidden, n_visible))).astype(dtype)
    weights[-1] -= weights.sum(axis=0)
    hidden, visible = np.full(n_hidden, 1e9 * huge), rng.normal(size=n_visible)
    return weights, hidden.astype(dtype), visible.astype(dtype)


# ---- What kernels compute ----


def make_trainer(X, machine, chains, rng, *, batch_size, n_gibbs_steps=1, centred=True):
    """A kernel trainer, with offsets and a step that are not zero."""
    n_hidden, n_visible = machine[0].shape
    dtype = machine[0].dtype
    visible_offset = rng.uniform(0.1, 0.9, n_visible).astype(dtype) * centred
    trainer = Trainer(
        Rows(X),
        *machine,
        batch_size=batch_size,
        chains=chains,
        key=KEY,
        step=2**32 - 1,
        n_gibbs_steps=n_gibbs_steps,
        visible_offset=visible_offset,
        hidden_offset=rng.uniform(0.1, 0.9, n_hidden).astype(dtype) * centred,
    )
    trainer.offset_rate = 0.25 * centred
    return trainer, visible_offset


def set_options(trainer, options):
    """Choose how a kernel trainer trains."""
    for name, value in options.items():
        setattr(trainer, name, value)
    if trainer.momentum:
        trainer.start_velocity()
    if trainer.fast_learning_rate:
        trainer.start_fast()


def everything(trainer):
    return [
        *trainer.parameters(),
        *trainer.averages(),
        *trainer.velocities(),
        *(trainer.fast_parameters() if trainer.fast_learning_rate else ()),
        trainer.hidden_offset(),
        trainer.chains(),
    ]


def scores(machine, X):
    """Free energy and pseudo-likelihood by the kernels."""
    rows, up = Rows(X), up_layer(machine)
    return score_rows(rows, up, machine[2]), score_rows(
        rows, up, machine[2], machine[0]
    )
