"""
What do the features of an RBM buy a classifier with few labels?
================================================================

An RBM learns its features without labels, from all digits; only the classifier on top
of them needs labels. When there are few, does the detour through features pay?

It depends on what has to be learned from the labels. For digits in the middle of the
image it pays with one or two labels a class, and costs with ten or more: pixels say
nearly all there is to say linearly, and the RBM's features keep less of it. For digits
moved by a pixel in any direction, pixels mean something else in every place, and the
features pay as soon as there are five labels a class.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from sklearn_ebm import BernoulliRBM

# On matrices this small a second BLAS thread only gets in the way.
threadpool_limits(limits=1, user_api="blas")


def with_moves(X, y):
    """Every digit where it is and one pixel up, down, left and right."""
    images = X.reshape(-1, 8, 8)
    moves = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]
    copies = [shift(images, (0, *move), order=0).reshape(len(X), 64) for move in moves]
    return np.vstack(copies), np.tile(y, len(moves))


# %%
# Half the digits are for learning, half for testing; whatever is moved is moved after
# the split, so that no digit is in both.

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    (X / 16).astype(np.float32), y, test_size=0.5, stratify=y, random_state=0
)
tasks = {
    "digits in the middle": (X_train, y_train, X_test, y_test, 60),
    "digits moved by a pixel": (
        *with_moves(X_train, y_train),
        *with_moves(X_test, y_test),
        40,
    ),
}

# %%
# For every number of labels a class, ten draws of which digits have one.

n_labels = [1, 2, 5, 10, 20, 50]
accuracies = {}
for task, (X_train, y_train, X_test, y_test, n_iter) in tasks.items():
    rbm = BernoulliRBM(200, n_iter=n_iter, centering=False, random_state=0)
    rbm.fit(X_train)
    for features, H_train, H_test in [
        ("raw pixels", X_train, X_test),
        ("RBM features", rbm.transform(X_train), rbm.transform(X_test)),
    ]:
        found = np.empty((10, len(n_labels)))
        for draw in range(10):
            # The first n of each class in a random order are the ones with a label.
            order = np.random.default_rng(draw).permutation(len(y_train))
            for k, n in enumerate(n_labels):
                labelled = np.concatenate(
                    [order[y_train[order] == digit][:n] for digit in range(10)]
                )
                classifier = LogisticRegression(C=10, max_iter=1000)
                classifier.fit(H_train[labelled], y_train[labelled])
                found[draw, k] = classifier.score(H_test, y_test)
        accuracies[task, features] = found

# %%
# Bands are one standard deviation over the draws.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for (task, features), found in accuracies.items():
    axis = axes[list(tasks).index(task)]
    mean, spread = found.mean(axis=0), found.std(axis=0)
    color = "C0" if features == "RBM features" else "0.4"
    axis.plot(n_labels, mean, "o-", ms=4, color=color, label=features)
    axis.fill_between(
        n_labels, mean - spread, mean + spread, color=color, alpha=0.2, lw=0
    )
    axis.set(title=task, xscale="log", xlabel="labels a class", xticks=n_labels)
    axis.set_xticklabels(n_labels)
    axis.minorticks_off()
axes[0].set_ylabel("test accuracy")
axes[0].legend(loc="lower right")
plt.show()
print("Test accuracy, labels a class:".ljust(38), *(f"{n:5d}" for n in n_labels))
for (task, features), found in accuracies.items():
    print(f"{task}, {features}:".ljust(38), *(f"{mean:5.2f}" for mean in found.mean(0)))
