"""
What do photos consist of, to a Gaussian RBM?
=============================================

Small patches of photos, once their second-order statistics are taken away by
whitening, look like noise to every method that knows of covariances only. A restricted
Boltzmann machine with Gaussian visible units still finds something in them: most of
its hidden units come to stand for edges, each at a place and in a direction of its
own, as simple cells of the visual cortex do.

It is not only to look at. The model gives patches it has not seen more than ten nats
(a factor of 20 000) more than the best Gaussian does.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import multivariate_normal
from sklearn.datasets import load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

from sklearn_ebm import GaussianRBM
from sklearn_ebm.likelihood import log_partition

# %%
# Photos at half their size, patches of 8x8 pixels less their mean and over their
# contrast; of these the leading principal components, whitened.
photos = [
    photo.mean(axis=2)[:426].reshape(213, 2, 320, 2).mean(axis=(1, 3))
    for photo in load_sample_images().images
]
X = np.concatenate(
    [extract_patches_2d(p, (8, 8), max_patches=30_000, random_state=0) for p in photos]
).reshape(-1, 64)
X -= X.mean(axis=1, keepdims=True)
X /= np.sqrt(X.var(axis=1, keepdims=True) + 100)
variances, directions = np.linalg.eigh(np.cov(X.T))
variances, directions = variances[-36:], directions[:, -36:]
X = ((X - X.mean(axis=0)) @ directions / np.sqrt(variances)).astype(np.float32)
X = np.random.default_rng(0).permutation(X)
train, test = X[:50_000], X[50_000:]

# %%
# A learning rate that falls to zero, small minibatches, and a hundred hidden units.
rbm = GaussianRBM(
    100,
    learning_rate=0.1,
    learning_rate_schedule="linear",
    batch_size=20,
    n_chains=20,
    n_iter=40,
    random_state=0,
).fit(train)

# %%
# log Z is estimated in both directions; the Gaussian has the covariance of the same
# training patches.
log_z = log_partition(rbm, "ais", betas=500, random_state=0)
energy = rbm.free_energy(test).mean(dtype=float)
gauss = multivariate_normal(train.mean(axis=0), np.cov(train.T)).logpdf(test).mean()
print(f"Gaussian       {gauss:7.2f} nats a patch")
print(
    f"Gaussian RBM   {-energy - log_z.forward:7.2f} (forward), "
    f"{-energy - log_z.reverse:.2f} (reverse)"
)

# %%
# Weights of the hidden units, turned back into pixels; grey is zero.
filters = rbm.components_ @ directions.T
figure, axes = plt.subplots(10, 10, figsize=(6, 6), layout="constrained")
for axis, weights in zip(axes.ravel(), filters, strict=True):
    most = np.abs(weights).max()
    axis.imshow(weights.reshape(8, 8), cmap="gray", vmin=-most, vmax=most)
    axis.set_axis_off()
plt.show()
