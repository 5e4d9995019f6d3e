"""
Which dictionary do photo patches want?
=======================================

Patches of photos can be put together from the cosines that JPEG uses, from the
principal components of other patches, or from a dictionary that sparse coding has
learned. Which of them makes most of a few atoms? Dictionaries are learned from the left
halves of two photos and judged by the right halves: the squared error that is left when
orthogonal matching pursuit has put together a patch from one, two, four or eight
atoms.

Principal components are waves that fill the whole patch, and no better than cosines.
Learned atoms are edges and bars, each at a place and a slope of its own, and two of
them do the work of three cosines. More atoms than there are pixels help either kind,
and the learned ones keep their lead: of 256 learned atoms, two leave about the error
that four of 64 cosines leave.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.decomposition import PCA
from sklearn.feature_extraction.image import extract_patches_2d

from sklearn_ebm import SparseCoding
from sklearn_ebm.plotting import FiltersDisplay


def patches_of(photos, n_patches):
    """8x8 patches of some photos as rows, their means subtracted."""
    patches = [
        extract_patches_2d(photo, (8, 8), max_patches=n_patches, random_state=0)
        for photo in photos
    ]
    X = np.concatenate(patches).reshape(-1, 64)
    return X - X.mean(axis=1, keepdims=True)


def cosines(n):
    """The products of n cosines down and n cosines across a patch."""
    waves = np.cos(np.outer(np.arange(n) / n, np.pi * (np.arange(8) + 0.5)))
    return np.einsum("ai,bj->abij", waves, waves).reshape(-1, 64)


# Grey, at half the resolution: neighbouring pixels of the files differ by little but
# noise.
photos = [
    photo[:426].reshape(213, 2, 320, 2, 3).mean(axis=(1, 3, 4))
    for photo in load_sample_images().images
]
train = patches_of([photo[:, :160] for photo in photos], 8000)
test = patches_of([photo[:, 160:] for photo in photos], 300)
train, test = train / train.std(), test / train.std()

# %%
# Fixed dictionaries, and learned ones.
components = PCA(64).fit(train).components_
learned = {
    n: SparseCoding(n, alpha=1.0, max_iter=16, random_state=0).fit(train)
    for n in (64, 256)
}
dictionaries = {
    "64 cosines": cosines(8),
    "256 cosines": cosines(16),
    "64 principal components": components,
    "64 learned atoms": learned[64].components_,
    "256 learned atoms": learned[256].components_,
}

# %%
# A model of no passes is its first dictionary.
n_atoms = np.array([1, 2, 4, 8])
errors = {}
for name, atoms in dictionaries.items():
    coder = SparseCoding(len(atoms), algorithm="omp", dict_init=atoms, max_iter=0)
    errors[name] = []
    for n in n_atoms:
        coder.set_params(n_nonzero_coefs=n).fit(test)
        left = test - coder.inverse_transform(coder.transform(test))
        errors[name].append(np.mean(left**2) / np.mean(test**2))
    print(f"{name:24}" + "".join(f"{error:8.3f}" for error in errors[name]))

# %%
figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
FiltersDisplay(components).plot(axes[0], units=np.arange(49))
axes[0].set_title("principal components, the first 49")
usage = (learned[256].transform(train) != 0).mean(axis=0)
most_used = np.argsort(-usage, kind="stable")[:49]
FiltersDisplay(learned[256].components_).plot(axes[1], units=most_used)
axes[1].set_title("learned atoms, the 49 most used of 256")
for name, curve in errors.items():
    axes[2].loglog(n_atoms, curve, ".-", label=name)
axes[2].set(
    xlabel="atoms of a patch", ylabel="squared error, relative", title="other patches"
)
axes[2].set_xticks(n_atoms, n_atoms)
axes[2].set_yticks([0.2, 0.3, 0.4, 0.6], [0.2, 0.3, 0.4, 0.6])
axes[2].minorticks_off()
axes[2].legend()
plt.show()
