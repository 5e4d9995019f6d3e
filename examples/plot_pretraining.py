"""
When does pretraining help?
===========================

A deep net can start from random weights, or from a stack of RBMs that has learned the
features of all digits, without their labels. Both are then trained on the labels there
are. How much does the start matter?

It depends on how many labels there are. With one or two labels a class, the net that
has seen the other digits makes a fifth fewer errors; with ten or more the two are
alike. So many labels say all that the pretraining of these small images has learned.
Gradient descent leaves weights alone that have small gradients; Adam, the default,
takes steps of about the same size along all of them, and keeps about half of what the
pretraining is worth.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_ebm import DBNClassifier

# %%
# Half the digits are for learning, half for testing. Of the first half, so many in each
# class have a label; the label -1 says that there is none.

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    (X / 16).astype(np.float32), y, test_size=0.5, stratify=y, random_state=0
)


def labels(n, draw):
    """Labels of the training digits, of which n of each class are known."""
    order = np.random.default_rng(draw).permutation(len(y_train))
    known = np.concatenate([order[y_train[order] == k][:n] for k in range(10)])
    found = np.full(len(y_train), -1)
    found[known] = y_train[known]
    return found


# %%
# The same net, the same steps on the same labels. For every number of labels, five
# draws of which digits have one.

n_labels = [1, 2, 5, 10, 20, 50]
n_draws = 5
starts = {"random weights": False, "pretrained on all digits": True}
errors = {name: np.empty((n_draws, len(n_labels))) for name in starts}
for name, pretrain in starts.items():
    for k, n in enumerate(n_labels):
        for draw in range(n_draws):
            net = DBNClassifier(
                (100,),
                pretrain=pretrain,
                pretrain_n_iter=60,
                solver="sgd",
                batch_size=10,
                n_iter=40,
                unlabeled=-1,
                random_state=draw,
            )
            net.fit(X_train, labels(n, draw))
            errors[name][draw, k] = 100 * (1 - net.score(X_test, y_test))

# %%
# Bands are one standard deviation over the draws. To the right: weights of some hidden
# units, before and after the labels have changed them.

before = DBNClassifier(
    (100,), pretrain_n_iter=60, n_iter=0, unlabeled=-1, random_state=0
).fit(X_train, labels(20, 0))
after = DBNClassifier(
    (100,),
    pretrain_n_iter=60,
    solver="sgd",
    batch_size=10,
    n_iter=40,
    unlabeled=-1,
    random_state=0,
).fit(X_train, labels(20, 0))

figure = plt.figure(figsize=(9, 3.8), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1.5, 1])
axis = left.subplots()
for name, found in errors.items():
    mean, spread = found.mean(axis=0), found.std(axis=0)
    (line,) = axis.plot(n_labels, mean, "o-", ms=4, label=name)
    axis.fill_between(
        n_labels, mean - spread, mean + spread, color=line.get_color(), alpha=0.2, lw=0
    )
axis.set(
    xscale="log", xlabel="labels a class", ylabel="test error in %", ylim=(0, None)
)
axis.set_xticks(n_labels, n_labels)
axis.minorticks_off()
axis.legend()
axes = right.subplots(4, 6)
for column in range(6):
    for row, (net, text) in enumerate([(before, "pretrained"), (after, "fine-tuned")]):
        for half in range(2):
            weights = net.coefs_[0][:, 6 * half + column].reshape(8, 8)
            cell = axes[2 * half + row, column]
            limit = np.abs(after.coefs_[0][:, 6 * half + column]).max()
            cell.imshow(weights, cmap="RdBu_r", vmin=-limit, vmax=limit)
            cell.set(xticks=[], yticks=[])
            if column == 0:
                cell.set_ylabel(text, fontsize=7)
plt.show()
print("Errors in %, labels a class:".ljust(28), *(f"{n:5d}" for n in n_labels))
for name, found in errors.items():
    print(f"{name}:".ljust(28), *(f"{mean:5.1f}" for mean in found.mean(axis=0)))
