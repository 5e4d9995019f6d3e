"""Quickstart: classify shifted digits with the features of an RBM.

Every digit is seen where it is and moved by one pixel up, down, left and right. A
linear classifier on pixels cannot follow the moves; a linear classifier on the
features of a restricted Boltzmann machine, learned without labels, can. Both RBMs
get the same width, learning rate and number of epochs, and every classifier its best
C from the same grid, chosen by cross-validation on the training part.

Prints test accuracies, fit times and the pseudo-log-likelihood of held-out digits;
writes quickstart.png if matplotlib is there. Takes ten to thirty seconds.
"""

from time import perf_counter

import numpy as np
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, train_test_split
from sklearn.neural_network import BernoulliRBM as SklearnRBM
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from sklearn_ebm import BernoulliRBM

MOVES = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]


def with_moves(X, y):
    """Every digit in five places, its class, and the number of the digit."""
    images = X.reshape(-1, 8, 8)
    moved = [shift(images, (0, *move), order=0).reshape(len(X), 64) for move in MOVES]
    return np.vstack(moved), np.tile(y, len(MOVES)), np.tile(np.arange(len(X)), 5)


# On matrices this small a second BLAS thread only gets in the way.
threadpool_limits(limits=1, user_api="blas")

# Split first, move afterwards: no digit is in both parts.
X, y = load_digits(return_X_y=True)
parts = train_test_split(
    (X / 16).astype(np.float32), y, test_size=0.5, stratify=y, random_state=0
)
X_train, y_train, digit = with_moves(parts[0], parts[2])
X_test, y_test, _ = with_moves(parts[1], parts[3])
folds = list(GroupKFold(n_splits=2).split(X_train, groups=digit))

settings = {"n_components": 200, "learning_rate": 0.06, "n_iter": 10}
rbm = BernoulliRBM(**settings, verbose=1, random_state=0)
lines = []
for name, features in [
    ("raw pixels", "passthrough"),
    ("sklearn.neural_network.BernoulliRBM", SklearnRBM(**settings, random_state=0)),
    ("sklearn_ebm.BernoulliRBM", rbm),
]:
    classifier = GridSearchCV(
        LogisticRegression(max_iter=3000),
        {"C": [10, 100, 1000, 10000]},
        cv=folds,
        n_jobs=2,
    )
    pipeline = Pipeline([("features", features), ("classifier", classifier)])
    # pipeline.fit(X_train, y_train), with a clock between its two steps.
    begin = perf_counter()
    H_train = pipeline[:-1].fit_transform(X_train)
    seconds = perf_counter() - begin
    pipeline[-1].fit(H_train, y_train)
    lines.append(
        f"{name:36} {pipeline.score(X_test, y_test):8.3f} {seconds:11.2f} s "
        f"{classifier.best_params_['C']:6}"
    )

print(f"\n{'logistic regression on':36} {'accuracy':>8} {'feature fit':>13} {'C':>6}")
print(*lines, sep="\n")

mean = X_train.mean(axis=0)
alone = X_test * np.log(mean) + (1 - X_test) * np.log(1 - mean)
print(
    "\nPseudo-log-likelihood of held-out digits, sum over pixels of log p(pixel | "
    "the others):\n"
    f"{rbm.score(X_test):.2f} nats a digit (pixels that know nothing of each other: "
    f"{alone.sum(axis=1).mean():.2f}).\nA pseudo-likelihood is not a likelihood: "
    "compare it only with other pseudo-likelihoods of the same data."
)

try:
    import matplotlib.pyplot as plt
except ImportError:
    print('\nNo picture without matplotlib: pip install ".[plots]" brings it.')
    raise SystemExit(0) from None


def mosaic(rows, low, high):
    """Sixty images of 8x8 as one picture, ten in a row."""
    images = np.full((6, 10, 10, 10), np.nan)
    images[:, :, 1:9, 1:9] = ((rows[:60] - low) / (high - low)).reshape(6, 10, 8, 8)
    return images.transpose(0, 2, 1, 3).reshape(60, 100)


strongest = np.argsort(-np.linalg.norm(rbm.components_, axis=1))
filters = rbm.components_[strongest]
samples = rbm.sample(60, n_gibbs_steps=2000, random_state=0)
some = np.random.default_rng(0).permutation(len(X_test))
limit = np.abs(filters[:60]).max()
figure, axes = plt.subplots(1, 3, figsize=(12, 2.9), layout="constrained")
for axis, title, image, colors in [
    (axes[0], "Learned filters", mosaic(filters, -limit, limit), "RdBu_r"),
    (axes[1], "Held-out digits", mosaic(X_test[some], 0, 1), "gray_r"),
    (axes[2], "Drawn from the model", mosaic(rbm.reconstruct(samples), 0, 1), "gray_r"),
]:
    axis.imshow(image, cmap=colors, vmin=0, vmax=1)
    axis.set_title(title)
    axis.axis("off")
figure.savefig("quickstart.png", dpi=100)
print("\nWrote quickstart.png: filters, data, samples.")
