"""
What does each class look like to the model?
============================================

A classification RBM is a joint model of data and labels. Asked for the labels, it is a
classifier; with a label held fixed, it can be asked the other way round: what do
features of this class look like? The answer depends on what it was trained for. Here
the same machine learns binarised digits with each of the three objectives, and draws
digits of every class by Gibbs sampling.

Trained to tell the classes apart, and for nothing else, it draws fragments: the
strokes that one class has and others lack, and noise where nothing tells them apart.
Trained as a model of digits and labels, it draws digits that can be read. The samples
of the hybrid objective lie in between. With as few digits as there are here (1 257 to
learn from), what a digit looks like also helps to tell which one it is, and the
generative model errs half as often as the discriminative one; with all of MNIST it errs
more often (3.4 % against 1.8 %, Larochelle and Bengio 2008). The hybrid model is as
good as the better one of both.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_ebm import RBMClassifier

# %%
# Pixels are on where the grey value is above the middle: a threshold binarisation.
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    (X > 8).astype(np.float32), y, test_size=0.3, stratify=y, random_state=0
)

# %%
# Samples of class k come from p(v | y = k): chains of 1 000 Gibbs steps that keep their
# label.
objectives = ["discriminative", "hybrid", "generative"]
labels = np.tile(np.arange(10), 4)
samples, accuracies = {}, {}
for objective in objectives:
    model = RBMClassifier(
        200,
        objective=objective,
        alpha=0.3,
        persistent=True,
        batch_size=20,
        learning_rate_schedule="linear",
        n_iter=150,
        random_state=0,
    ).fit(X_train, y_train)
    accuracies[objective] = model.score(X_test, y_test)
    samples[objective] = model.sample(y=labels, random_state=0)

# %%
# Four samples of every class, and the share of test digits that are classified rightly.
figure, axes = plt.subplots(3, 1, figsize=(6, 7.6), layout="constrained")
for axis, objective in zip(axes, objectives, strict=True):
    # One image, with a frame of a pixel around each digit.
    digits = samples[objective].reshape(4, 10, 8, 8)
    page = np.pad(digits, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=0.3)
    axis.imshow(page.swapaxes(1, 2).reshape(40, 100), cmap="gray_r", vmin=0, vmax=1)
    axis.set_title(f"{objective}: test accuracy {accuracies[objective]:.3f}")
    axis.set_xticks(10 * np.arange(10) + 4.5, range(10))
    axis.set_yticks([])
    axis.tick_params(length=0)
axes[-1].set_xlabel("class that the chains keep")
plt.show()
