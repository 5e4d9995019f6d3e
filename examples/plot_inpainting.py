"""
Can an RBM fill in half a digit?
================================

An RBM is a joint distribution, so any pixels can be given and the others asked for,
with no training for the question. Here the upper halves of held-out digits are
given. `impute` answers with the mean of every missing pixel, or with joint draws of
all of them: several lower halves that the upper one may have.

The means are compared with two answers that know nothing of Boltzmann machines: the
mean of each pixel in the training data, and the mean over the nearest neighbours of
the upper half. On digits this small the RBM leaves the pixel means far behind, but
not the neighbours, which do about as well. What it adds are the draws: their pixels
agree with each other, where a mean of many answers is a blur.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import train_test_split

from sklearn_ebm import BernoulliRBM
from sklearn_ebm.plotting import SamplesDisplay

# %%
# Pixels are on where the grey value is above the middle: a threshold binarisation.
X = (load_digits().data > 8).astype(np.float32)
train, test = train_test_split(X, test_size=0.3, random_state=0)
lower = np.arange(64) >= 32


def imputed(imputer, train, X):
    """Digits with their lower halves filled in by an imputer of scikit-learn."""
    return imputer.fit(train).transform(np.where(lower, np.nan, X))


def errors(filled, truth):
    """Mean squared error of the lower half of every digit."""
    return ((filled - truth)[:, lower] ** 2).mean(axis=1)


# %%
# The number of neighbours is chosen on a part of the training digits that is held out
# for it. The RBM has many chains that take several steps, so that they keep up.
part, rest = train_test_split(train, test_size=0.3, random_state=1)
found = {
    k: errors(imputed(KNNImputer(n_neighbors=k), part, rest), rest).mean()
    for k in (5, 10, 20, 40)
}
k = min(found, key=found.get)
rbm = BernoulliRBM(
    100,
    n_iter=100,
    learning_rate_schedule="linear",
    n_chains=100,
    n_gibbs_steps=5,
    random_state=0,
).fit(train)
filled = {
    "pixel means": imputed(SimpleImputer(), train, test),
    f"{k} neighbours": imputed(KNNImputer(n_neighbors=k), train, test),
    "RBM": rbm.impute(test, mask=lower, n_gibbs_steps=1000, random_state=0),
}

# %%
# Each row is a digit: the truth, what is given of it, the two conditional means,
# and four draws of the RBM. (Grey is not given.) Bars are the errors of all test
# digits, with one standard error.
given = np.where(lower, np.nan, test)
draws = [
    rbm.impute(given[:8], method="sample", n_gibbs_steps=1000, random_state=seed)
    for seed in range(4)
]
columns = [test, given, *list(filled.values())[1:], *draws]
names = ["truth", "given", "neighb.", "RBM", "draw", "draw", "draw", "draw"]

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4.6), width_ratios=[3, 2], layout="constrained"
)
SamplesDisplay(np.stack([c[:8] for c in columns], axis=1), steps=names).plot(left)
score = {name: errors(answer, test) for name, answer in filled.items()}
right.bar(
    list(score),
    [error.mean() for error in score.values()],
    yerr=[error.std() / np.sqrt(len(error)) for error in score.values()],
    color=["0.8", "0.6", "C0"],
    capsize=3,
)
right.set_ylabel("mean squared error of a missing pixel")
plt.show()

for name, error in score.items():
    print(f"{name:16} {error.mean():.4f}")
_, neighbours, ours = score.values()
gain = neighbours - ours
print(
    f"RBM better than neighbours by {gain.mean():.4f}, with a standard error of "
    f"{gain.std() / np.sqrt(len(gain)):.4f} over {len(gain)} digits"
)
