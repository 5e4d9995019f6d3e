"""
What does a questionnaire measure, if answers are missing?
==========================================================

400 people answer 18 questions on a scale from 1 to 5. Behind the answers are three
traits, correlated with each other, and each question asks for one of them (two ask for
two). 30 % of the answers are missing: people skip questions, and those of the first
trait are skipped the more often the higher the answer to the first question is.

Hardly any row is complete, and filling in the mean of a question would weaken every
correlation. `FactorAnalysis` with ``missing="latent"`` uses what is there: it finds how
many traits there are, which question asks for which (with an oblique rotation, since
traits may be correlated), almost as well as if nobody had skipped anything.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ebm import FactorAnalysis
from sklearn_ebm.factors.plotting import SelectionDisplay

rng = np.random.default_rng(0)
n_people, n_questions = 400, 18

# %%
# The truth: loadings, correlated traits, and answers rounded to 1, ..., 5.
loadings = np.kron(np.eye(3), np.ones(6)) * rng.uniform(0.6, 1.1, n_questions)
loadings[1, 4], loadings[0, 10] = 0.5, -0.5
correlations = np.array([[1.0, 0.4, 0.0], [0.4, 1.0, 0.3], [0.0, 0.3, 1.0]])
traits = rng.multivariate_normal(np.zeros(3), correlations, n_people)
noise = rng.normal(scale=0.7, size=(n_people, n_questions))
truth = np.clip(np.round(3 + traits @ loadings + noise), 1, 5)

# %%
# A question of the first trait is skipped with a probability that grows with the
# answer to its first question, which everybody gave; others are skipped at random.
skipped = np.full(truth.shape, 0.3)
skipped[:, 1:6] = 0.1 + 0.15 * (truth[:, :1] - 1)
skipped[:, 0] = 0
answers = np.where(rng.random(truth.shape) < skipped, np.nan, truth)
means = np.nanmean(answers, axis=0)
filled = np.where(np.isnan(answers), means, answers)
missing, complete = np.isnan(answers).mean(), (~np.isnan(answers)).all(axis=1).sum()
print(f"{missing:.0%} of the answers are missing, {complete} rows are complete")

# %%
# Three models with as many factors as there are traits: of the answers that are there,
# of answers filled in with means, and of all answers, which nobody has.
settings = {"n_components": 3, "rotation": "oblimin"}
models = {
    "missing answers as they are": FactorAnalysis(**settings, missing="latent").fit(
        answers
    ),
    "filled in with means": FactorAnalysis(**settings).fit(filled),
    "no answer missing": FactorAnalysis(**settings).fit(truth),
}


def in_order(model):
    """Loadings with the factors in the order of the traits they stand for."""
    agreement = np.abs(loadings @ model.components_.T)
    order = agreement.argmax(axis=1)
    signs = np.sign((loadings * model.components_[order]).sum(axis=1, keepdims=True))
    return model.components_[order] * signs


# %%
# Left, the number of factors by BIC. Then the loadings, true and found, and the error
# of the loadings of each model.
figure, axes = plt.subplots(
    1, 4, figsize=(11, 4.2), width_ratios=[3, 1.2, 1.2, 2.2], layout="constrained"
)
display = SelectionDisplay.from_estimator(
    FactorAnalysis(missing="latent"), answers, range(1, 7), ax=axes[0]
)
found = in_order(models["missing answers as they are"])
for ax, values, title in zip(
    axes[1:3], [loadings, found], ["true", "found"], strict=True
):
    image = ax.imshow(values.T, cmap="RdBu_r", vmin=-1.2, vmax=1.2, aspect="auto")
    ax.set(title=title, xlabel="trait", xticks=range(3), xticklabels=[1, 2, 3])
    ax.set_yticks(range(0, n_questions, 3), range(1, n_questions + 1, 3))
axes[1].set_ylabel("question")
figure.colorbar(image, ax=axes[2], label="loading")
errors = {
    name: np.sqrt(np.mean((in_order(model) - loadings) ** 2))
    for name, model in models.items()
}
axes[3].barh(list(errors), list(errors.values()), color=["C0", "0.6", "0.8"])
axes[3].set(xlabel="root mean square error\nof a loading")
axes[3].invert_yaxis()
axes[3].set_yticks(range(3), [name.replace(" ", "\n", 2) for name in errors])
plt.show()

# %%
for name, error in errors.items():
    print(f"{name:28} error of a loading {error:.3f}")
print("factors by BIC:", display.selection.n_components)
