"""
How close to the truth does an RBM come, and what keeps it away?
================================================================

Bars and stripes: a 4 x 4 image is either some of its rows or some of its columns,
30 images in all, each as likely as the others. The best log-likelihood any model
can have is therefore known, and with 12 hidden units the model's own is computed
exactly, by enumeration.

Images of this kind are far from each other: no single pixel can be changed. Gibbs
chains that start at the data (contrastive divergence) are soon back there, however
likely the model finds other images; more steps help, slowly. Persistent chains go on
from where they are, but sweeps do not carry them from one image to another, so they
jump: to hidden states of rows of the data, by a rule that leaves the model as it is.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ebm import BernoulliRBM
from sklearn_ebm.likelihood import log_likelihood

# %%
codes = (np.arange(16)[:, None] >> np.arange(4)) & 1
stripes = np.repeat(codes, 4, axis=1)
bars = np.tile(codes, 4)
images = np.unique(np.vstack([stripes, bars]), axis=0).astype(np.float32)
best = -np.log(len(images))
X = np.repeat(images, 100, axis=0)

# %%
# `warm_start` goes on for ten more epochs at a time.
settings = {
    "contrastive divergence": {"persistent": False},
    "the same with 10 steps": {"persistent": False, "n_gibbs_steps": 10},
    "persistent chains that jump (default)": {},
}
epochs = np.arange(10, 161, 10)
curves = {}
for name, setting in settings.items():
    rbm = BernoulliRBM(12, n_iter=10, warm_start=True, random_state=0, **setting)
    curves[name] = [float(log_likelihood(rbm.fit(X), images)) for _ in epochs]
samples = rbm.sample(24, random_state=0)

# %%
# The dashed line is the best there is: minus the entropy of the images. The samples
# are of the last model, from chains that start at noise.
figure = plt.figure(figsize=(9, 3.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[3, 2])
axis = left.subplots()
for name, curve in curves.items():
    axis.plot(epochs, curve, label=name)
axis.axhline(best, color="black", linestyle="--", linewidth=1)
axis.set(xlabel="epochs", ylabel="exact log-likelihood (nats an image)")
axis.legend()
for sample, cell in zip(samples, right.subplots(4, 6).flat, strict=True):
    cell.imshow(sample.reshape(4, 4), cmap="gray_r", vmin=0, vmax=1)
    cell.set(xticks=[], yticks=[])
right.suptitle("samples")
plt.show()

known = (samples[:, None] == images).all(axis=2).any(axis=1).sum()
for name, curve in curves.items():
    print(f"{name}: {curve[-1]:.2f} nats an image, the best is {best:.2f}")
print(f"{known} of {len(samples)} samples are bars or stripes")
