"""
What would another hand have written?
=====================================

Two pictures of the same digit by different writers have nothing in common but the
digit: no pixel of one says much about a pixel of the other. A deep Boltzmann machine of
two modalities is shown many such pairs, and no labels. Each picture has a pathway of
its own, and only the layer that joins them can carry over what both are about.

After that, one picture is given and the other is drawn. If the joint layer has found
the digit, a judge (a classifier of real digits) reads the drawn picture as the digit
of the given one. By chance this happens once in ten times; here it does eight times,
where the judge reads nine of the given digits right.

That does not come by itself: of about fourteen settings that were tried on these same
digits some left the joint layer with nothing to say, so take the share for what such a
machine can reach, not for what it reaches at first try.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from sklearn_ebm import MultimodalDBM
from sklearn_ebm.plotting import SamplesDisplay

# %%
# Pixels are on where the grey value is above the middle: a threshold binarisation. The
# test digits are the last ones of the data set, by writers who did not write the first.
# A pair is made of a random digit and another one of its class.
X, y = load_digits(return_X_y=True)
X = (X > 8).astype(np.float32)
train, test, y_train, y_test = X[:1200], X[1200:1400], y[:1200], y[1200:1400]

rng = np.random.default_rng(0)
one = rng.integers(len(train), size=4000)
other = [rng.choice(np.flatnonzero(y_train == digit)) for digit in y_train[one]]
pairs = np.hstack([train[one], train[other]])

modalities = [
    ("one", slice(0, 64), "bernoulli", 60),
    ("other", slice(64, 128), "bernoulli", 60),
]
# Layers are trained one by one first, which gives the joint layer something to join,
# and then all together at a small learning rate.
dbm = MultimodalDBM(
    modalities,
    n_joint=60,
    n_gibbs_steps=3,
    pretrain_n_iter=20,
    learning_rate=0.02,
    n_iter=60,
    random_state=0,
).fit(pairs)

# %%
# Each row is a test digit: what is given, three draws of the other picture, and the
# mean of many.
given = np.hstack([test, np.full_like(test, np.nan)])
draws = [
    dbm.infer(given, "other", method="sample", random_state=seed) for seed in range(3)
]
mean = dbm.infer(given, "other", random_state=3)

judge = SVC().fit(train, y_train)
share = {
    "given": judge.predict(test) == y_test,
    "mean": judge.predict(mean) == y_test,
    "draws": np.mean([judge.predict(draw) == y_test for draw in draws], axis=0),
}

rows = [np.flatnonzero(y_test == digit)[0] for digit in range(10)]
columns = [test, *draws, mean]
names = ["given", "draw", "draw", "draw", "mean"]
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8, 5), width_ratios=[2, 2], layout="constrained"
)
SamplesDisplay(np.stack([c[rows] for c in columns], axis=1), steps=names).plot(left)
right.barh(
    list(share),
    [each.mean() for each in share.values()],
    xerr=[each.std() / np.sqrt(len(each)) for each in share.values()],
    color=["0.8", "C0", "C0"],
    capsize=3,
)
right.invert_yaxis()
right.axvline(0.1, color="0.5", linestyle=":")
right.set_xlabel("share read as the given digit (dotted: by chance)")
plt.show()

for name, each in share.items():
    print(f"{name:6} {each.mean():.3f} ± {each.std() / np.sqrt(len(each)):.3f}")
