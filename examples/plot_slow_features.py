"""
Can a sense of place come from slowness alone?
==============================================

An animal walks about a square room. All it has is how strongly it sees each of 12
beacons, best straight ahead, and whether they are to its front or its back. These
change fast, whenever the head turns. Where the animal is changes slowly. Can it find
out where it is from nothing but the wish for signals that change slowly?

Slow feature analysis of the products of what it sees gives signals that depend on the
place and hardly on the heading: waves across the room, which together tell the place,
though none of them belongs to one. Independent component analysis of the same signals
turns the waves into bumps: signals of one place each, like the place cells of the
hippocampus (M. Franzius, H. Sprekeler, L. Wiskott, "Slowness and sparseness lead to
place, head-direction, and spatial-view cells", PLoS Computational Biology 3, 2007).
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ebm import ICA, SlowFeatureAnalysis

# %%
# A walk of 30 000 steps. The head turns much faster than the place changes.
rng = np.random.default_rng(0)
n_steps = 30_000
place = np.empty((n_steps, 2))
heading = np.cumsum(0.6 * rng.normal(size=n_steps))
x, v = np.array([0.5, 0.5]), np.zeros(2)
for step, push in enumerate(rng.normal(size=(n_steps, 2))):
    v = 0.9 * v + 0.006 * push
    x = x + v
    v = np.where((x < 0) | (x > 1), -v, v)
    x = np.abs(x)
    x = np.where(x > 1, 2 - x, x)
    place[step] = x

# %%
# What is seen: 12 beacons, each fading with its distance, seen best straight ahead.
beacons = rng.random((12, 2)) * 1.6 - 0.3
offset = beacons - place[:, np.newaxis]
distance = np.linalg.norm(offset, axis=2)
angle = np.arctan2(offset[..., 1], offset[..., 0]) - heading[:, np.newaxis]
strength = np.exp(-((distance / 0.6) ** 2))
seen = np.concatenate([strength * (1 + np.cos(angle)), np.cos(angle)], axis=1)

# %%
# The slowest quadratic functions of it; then their independent components.
sfa = SlowFeatureAnalysis(16, expansion="quadratic").fit(seen)
slow = sfa.transform(seen)
ica = ICA(density="logistic", random_state=0).fit(slow)
places = ica.transform(slow)
places *= np.sign((places**3).mean(axis=0))
raw = SlowFeatureAnalysis().fit(seen[:, :1]).slowness_[0]
print(f"mean squared change a step: what is seen {raw:.2f}, ", end="")
print("slow features", np.round(sfa.slowness_[:4], 4), "...")


# %%
# Mean signal at every place of the room.
def map_of(signal):
    """Means over 24 x 24 places."""
    sums, *_ = np.histogram2d(*place.T, bins=24, range=[[0, 1]] * 2, weights=signal)
    counts, *_ = np.histogram2d(*place.T, bins=24, range=[[0, 1]] * 2)
    return (sums / np.maximum(counts, 1)).T


def share_of_place(signal):
    """How much of the variance the place explains."""
    cells = (place * 23.999).astype(int)
    return np.var(map_of(signal)[cells[:, 1], cells[:, 0]]) / np.var(signal)


rows = {"what is seen": seen, "slow features": slow, "independent parts": places}
figure, axes = plt.subplots(3, 8, figsize=(12, 5.2), layout="constrained")
for (title, signals), line in zip(rows.items(), axes, strict=True):
    for n, axis in enumerate(line):
        image = map_of(signals[:, n])
        axis.imshow(image, origin="lower", cmap="viridis")
        axis.set_title(f"place: {share_of_place(signals[:, n]):.0%}", fontsize=8)
        axis.set_xticks([])
        axis.set_yticks([])
    line[0].set_ylabel(title)
figure.suptitle("Mean signal at each place, and how much of it the place explains")
plt.show()
