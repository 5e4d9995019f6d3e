"""
Can a deep Boltzmann machine complete half a digit?
===================================================

A deep Boltzmann machine is a joint distribution of pixels and two layers of hidden
units. Given the upper halves of digits it has not seen, it draws lower halves. Whether
these are any good is asked of a judge: a classifier that has been trained on whole real
digits. It reads whole digits that it has not seen, and digits completed in several
ways; the share that it reads right says how much of a digit's identity is in what was
filled in.

The upper half leaves several answers open (a 3 and an 8 begin alike), so neither a draw
nor the mean of many can always have the right one: a classifier trained on upper halves
alone, which needs no completion, shows how much they say. Draws are sharp,
and mostly digits, of which the judge reads two in three right. That is as many, within
the error, as of the means, which hedge, and of lower halves that are the mean of all
training digits, which are wrong everywhere and mislead nobody. What draws add is that
they are digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from sklearn_ebm import DBMTransformer
from sklearn_ebm.plotting import SamplesDisplay

# %%
# Pixels are on where the grey value is above the middle: a threshold binarisation.
# Neither the machine nor the judge sees the test digits.
X, y = load_digits(return_X_y=True)
X = (X > 8).astype(np.float32)
train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
lower = np.arange(64) >= 32

judge = SVC().fit(train, y_train)
of_upper_halves = SVC().fit(train[:, ~lower], y_train)
dbm = DBMTransformer(
    (100, 50),
    n_chains=50,
    n_gibbs_steps=3,
    n_iter=60,
    random_state=0,
).fit(train)

# %%
# Every digit gets five draws of its lower half, each from a chain of its own, and the
# mean of the missing pixels over the steps of another chain.
draws = [
    dbm.impute(test, mask=lower, method="sample", random_state=seed)
    for seed in range(5)
]
completed = {
    "whole digits": [test],
    "mean": [dbm.impute(test, mask=lower, random_state=5)],
    "draws": draws,
    "mean of all": [np.where(lower, train.mean(axis=0), test)],
    "empty": [np.where(lower, 0, test)],
}
right = {
    name: np.mean([judge.predict(digits) == y_test for digits in several], axis=0)
    for name, several in completed.items()
}

# %%
# Each row is a digit: the truth, what is given of it, the mean and the draws. (Grey is
# not given.) Bars are the shares of test digits that the judge reads right, with one
# standard error.
given = np.where(lower, np.nan, test)
rows = [np.flatnonzero(y_test == digit)[0] for digit in range(10)]
columns = [test, given, completed["mean"][0], *draws]
names = ["truth", "given", "mean", *["draw"] * 5]

figure, (left, bars) = plt.subplots(
    1, 2, figsize=(9, 5), width_ratios=[3, 2], layout="constrained"
)
SamplesDisplay(np.stack([c[rows] for c in columns], axis=1), steps=names).plot(left)
bars.barh(
    list(right),
    [share.mean() for share in right.values()],
    xerr=[share.std() / np.sqrt(len(share)) for share in right.values()],
    color=["0.8", "C0", "C0", "0.6", "0.6"],
    capsize=3,
)
bars.invert_yaxis()
most = of_upper_halves.score(test[:, ~lower], y_test)
bars.axvline(most, color="0.5", linestyle=":")
bars.set_xlabel("share read right (dotted: from upper halves)")
plt.show()

for name, share in right.items():
    print(f"{name:12} {share.mean():.3f} ± {share.std() / np.sqrt(len(share)):.3f}")
print(f"upper halves {most:.3f}")
