"""Speed and memory of BernoulliRBM beside scikit-learn's (and a PyTorch loop).

    python benchmarks/bench_rbm.py [--mnist mnist.npz] [--quick] [--only NAME]
        [--repeats 5]

Both models get the same data (float32 unless the row says otherwise), batch
size, epochs and number of chains, in one process, their runs alternating;
figures are medians, and ratios are of runs next to each other. Threads are set
with threadpoolctl for both, before every run. A PyTorch loop (binary tensors,
PCD-1, the plainest code that trains the same model) is timed if torch is there.
Set SKLEARN_EBM_ISA=avx2 or base to see the kernels on narrower vectors.
"""

import argparse
import subprocess
import sys
from statistics import median

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.neural_network import BernoulliRBM as SklearnRBM
from threadpoolctl import threadpool_limits

from data import load_mnist
from sklearn_ebm import BernoulliRBM
from sklearn_ebm._simd import instruction_set
from timing import seconds

SETTINGS = {"random_state": 0}


def compare(functions, threads, repeats):
    """Alternate some functions; a list of times for each."""
    times = [[] for _ in functions]
    for _ in range(repeats + 1):
        for function, found in zip(functions, times, strict=True):
            with threadpool_limits(limits=threads):
                found.append(seconds(function))
    return [found[1:] for found in times]  # the first round warms up


def report(name, threads, times, n_batches, scale=1e6, unit="us"):
    """Print a row of the table."""
    ours, theirs = times[0], times[1]
    ratio = median(b / a for a, b in zip(ours, theirs, strict=True))
    cells = [f"{median(found) / n_batches * scale:10.1f}" for found in times]
    print(
        f"{name:34s} {threads:3d} {' '.join(cells)} {unit}   ratio {ratio:5.1f}",
        flush=True,
    )


def torch_epochs(X, n_components, batch_size):
    """Two epochs of PCD-1 in plain PyTorch, or None without it."""
    try:
        import torch
    except ImportError:
        return None
    data = torch.from_numpy(X)

    def run():
        W = torch.randn(X.shape[1], n_components) * 0.01
        b, c = torch.zeros(X.shape[1]), torch.zeros(n_components)
        h = torch.zeros(batch_size, n_components)
        for v in data.split(batch_size) + data.split(batch_size):
            mean = torch.sigmoid(v @ W + c)
            x = torch.bernoulli(torch.sigmoid(h @ W.T + b))
            model = torch.sigmoid(x @ W + c)
            W += 0.1 * (v.T @ mean / len(v) - x.T @ model / len(x))
            b += 0.1 * (v.mean(0) - x.mean(0))
            c += 0.1 * (mean.mean(0) - model.mean(0))
            h = torch.bernoulli(model)

    return run


def training(
    name, X, n_components, batch_size, repeats, thread_counts=(1, 2), n_iter=2
):
    """Rows of the table: training, in time a minibatch."""
    settings = SETTINGS | {
        "n_components": n_components,
        "batch_size": batch_size,
        "n_iter": n_iter,
    }
    functions = [
        lambda: BernoulliRBM(**settings).fit(X),
        lambda: SklearnRBM(**settings).fit(X),
    ]
    loop = torch_epochs(X, n_components, batch_size) if X.dtype == np.float32 else None
    if loop is not None and n_iter == 2:
        functions.append(loop)
    ours = {}
    for threads in thread_counts:
        if loop is not None:
            import torch

            torch.set_num_threads(threads)
        times = compare(functions, threads, repeats)
        ours[threads] = times[0]
        report(name, threads, times, n_iter * -(-len(X) // batch_size))
    if len(thread_counts) == 2:
        one, two = (median(ours[k]) for k in thread_counts)
        print(f"{'':34s}     {thread_counts[1]} threads / 1: {one / two:.2f}x")


def using(name, X, repeats, n_components=500, method="transform"):
    """Rows of the table: a method that uses the model, in milliseconds."""
    settings = SETTINGS | {"n_components": n_components, "batch_size": 100, "n_iter": 1}
    ours = BernoulliRBM(**settings).fit(X[:1000])
    theirs = SklearnRBM(**settings).fit(X[:1000])
    functions = [
        lambda: getattr(ours, method)(X),
        lambda: getattr(theirs, method)(X),
    ]
    for threads in (1, 2):
        times = compare(functions, threads, repeats)
        report(f"{name}, {X.shape[0]} rows", threads, times, 1, 1e3, "ms")


MEMORY = """
import resource, sys
import numpy as np, scipy.sparse as sp
from sklearn_ebm import BernoulliRBM
kind = sys.argv[1]
rng = np.random.default_rng(0)
X = np.empty((60000, 784), dtype=np.uint8)
for row in X:
    row[:] = rng.random(784) < 0.13
if kind == "csr":
    indices = np.flatnonzero(X.ravel()).astype(np.int64) % 784
    indptr = np.concatenate([[0], np.cumsum(X.sum(1, dtype=np.int64))])
    X = sp.csr_matrix((np.ones(len(indices), np.float32), indices.astype(np.int32),
                       indptr.astype(np.int32)), shape=X.shape)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
else:
    size = X.nbytes
rbm = BernoulliRBM(500, batch_size=100, n_iter=1, random_state=0)
rbm.fit(X[:200])
# Highest resident size so far is reset, so that only the fit counts.
open("/proc/self/clear_refs", "w").write("5")
now = [int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmRSS")]
rbm.fit(X)
peak = [int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")]
extra = (peak[0] - now[0]) * 1024
print(f"{kind:6s} data {size / 2**20:6.1f} MiB, fit adds {extra / 2**20:5.1f} MiB: "
      f"{(size + extra) / size:.2f}x")
"""


def memory():
    """Peak memory of a fit beyond the data it is given (Linux)."""
    for kind in ("uint8", "csr"):
        subprocess.run([sys.executable, "-c", MEMORY, kind], check=True)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", help="a .npz file with X_train and X_test")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    grey = load_mnist(args.mnist)[0][:: 10 if args.quick else 1]
    X = grey > 127
    X32, X64 = X.astype(np.float32), X.astype(np.float64)
    # Dark on light: nine of ten values are not zero.
    light = 1 - grey.astype(np.float32) / 255
    sparse, some, score = csr_matrix(1 - light), X32[:6000], "score_samples"
    digits = (load_digits().data / 16).astype(np.float32)
    n = args.repeats
    rows = {
        "784x500 batch 100": lambda k: training(k, X32, 500, 100, n),
        "784x500 batch 100 float64": lambda k: training(k, X64, 500, 100, n),
        "784x500 batch 10": lambda k: training(k, X32, 500, 10, n),
        "784x500 batch 100 dense grey": lambda k: training(k, light, 500, 100, n),
        "digits 64x100 batch 10": lambda k: training(k, digits, 100, 10, n, n_iter=10),
        "transform binary": lambda k: using(k, X32, n),
        "transform dense grey": lambda k: using(k, light, n),
        "16 units, transform binary": lambda k: using(k, X32, n, 16),
        "16 units, transform dense grey": lambda k: using(k, light, n, 16),
        "16 units, transform CSR grey": lambda k: using(k, sparse, n, 16),
        # (scikit-learn flips one feature of a row, not all one by one.)
        "16 units, score binary": lambda k: using(k, some, n, 16, score),
        "500 units, score binary": lambda k: using(k, some, n, 500, score),
        "memory": lambda k: memory(),
    }
    print(f"instruction set: {instruction_set()}")
    print(f"{'':34s} thr  sklearn_ebm  scikit-learn  [torch], a minibatch")
    for name, row in rows.items():
        if args.only in name:
            row(name)


if __name__ == "__main__":
    main()
