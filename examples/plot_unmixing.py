"""
Does it matter which density unmixing assumes?
==============================================

Four signals reach four microphones, each of which hears a mixture: a sine and a saw
tooth, which are sub-Gaussian, clicks, which are super-Gaussian, and speech-like bursts,
which are extremely so. Independent component analysis finds the signals again from the
mixtures alone.

The maximum of the likelihood depends on the density that the sources are taken to have.
"logistic" is made for super-Gaussian sources, and leaves the sine and the saw tooth
mixed; "adaptive" chooses a density for each source, and finds all four, as FastICA
does. What FastICA does not have is a likelihood: it says which assumption fits the data
better without knowing the true signals.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import FastICA

from sklearn_ebm import ICA

# %%
# Four signals of 4000 samples, and their mixtures.
rng = np.random.default_rng(0)
t = np.linspace(0, 40, 4000)
signals = {
    "sine": np.sin(3.1 * t),
    "saw tooth": (1.3 * t) % 2 - 1,
    "clicks": rng.laplace(size=len(t)) ** 3,
    "bursts": rng.normal(size=len(t)) * np.maximum(0, np.sin(1.7 * t)) ** 4,
}
S = np.column_stack(list(signals.values()))
S /= S.std(axis=0)
mixing = rng.normal(size=(4, 4))
X = S @ mixing.T


# %%
# The Amari distance is 0 where each source is found by itself, up to its scale.
def amari(P):
    """How far P is from a permutation with scales."""
    P = np.abs(P)
    rows = (P / P.max(axis=1, keepdims=True)).sum() - len(P)
    columns = (P / P.max(axis=0, keepdims=True)).sum() - len(P)
    return (rows + columns) / (2 * len(P) * (len(P) - 1))


models = {
    "logistic": ICA(density="logistic", random_state=0).fit(X),
    "adaptive": ICA(random_state=0).fit(X),
    "FastICA": FastICA(random_state=0).fit(X),
}
for name, model in models.items():
    has_score = isinstance(model, ICA)
    nats = f"{model.score(X):8.3f} nats" if has_score else "no likelihood"
    print(f"{name:9} Amari distance {amari(model.components_ @ mixing):.3f}, {nats}")
print("adaptive chose", models["adaptive"].densities_)

# %%
# Each column shows what a model found, beside the signal that it is most like.
columns = {"signals": S, "mixtures": X}
for name, model in models.items():
    found = model.transform(X)
    r = np.corrcoef(S.T, found.T)[:4, 4:]
    best = np.abs(r).argmax(axis=1)
    columns[name] = found[:, best] * np.sign(r[range(4), best])

figure, axes = plt.subplots(
    4, len(columns), figsize=(12, 5.5), sharex=True, layout="constrained"
)
shown = slice(0, 1200)
for column, (title, found) in enumerate(columns.items()):
    colour = "0.3" if title in ("signals", "mixtures") else f"C{column - 2}"
    for row, name in enumerate(signals):
        axis = axes[row, column]
        axis.plot(t[shown], found[shown, row], color=colour, lw=0.7)
        axis.set_xticks([])
        axis.set_yticks([])
        if title in models:
            r = abs(np.corrcoef(S[:, row], found[:, row])[0, 1])
            axis.set_title(f"|r| = {r:.3f}", fontsize=8, pad=2)
        if column == 0:
            axis.set_ylabel(name)
    distance = (
        f"\nAmari {amari(models[title].components_ @ mixing):.3f}"
        if title in models
        else ""
    )
    axes[0, column].annotate(
        title + distance,
        (0.5, 1.25),
        xycoords="axes fraction",
        ha="center",
        weight="bold",
    )
plt.show()
