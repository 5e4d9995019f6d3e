"""
What would this patient's missing values be?
============================================

A table of patients has numbers, categories, and holes. An RBM with a visible unit of
the right kind for every column is one joint distribution of them all, so that whatever
is missing in a row can be asked for given whatever is there, numbers and categories
alike, with no model for each question.

A fifth of the entries of the diabetes data is hidden: six blood values, age, blood
pressure, and as categories the sex, the weight (by the body-mass index) and how far the
disease has gone after a year. `RBMImputer` answers with conditional means and likeliest
categories. Its model also draws: many ways in which a patient's holes may be filled
jointly. They tell how sure an answer is, and for some columns that is not very: age and
glucose can hardly be told from the rest, cholesterol can.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.impute import SimpleImputer

from sklearn_ebm import RBMImputer

# %%
# Categories are codes. The limits of the body-mass index are the usual ones; the
# progression is cut in three parts of equal size.
data = load_diabetes(scaled=False, as_frame=True)
table = data.data.rename(
    columns={
        "bp": "blood pressure",
        "s1": "cholesterol",
        "s2": "LDL",
        "s3": "HDL",
        "s4": "cholesterol / HDL",
        "s5": "log triglycerides",
        "s6": "glucose",
    }
)
table["sex"] -= 1
table["weight"] = np.digitize(table.pop("bmi"), [25, 30])
course = np.quantile(data.target, [1 / 3, 2 / 3])
table["course"] = np.digitize(data.target, course)
labels = {
    "sex": ["sex 1", "sex 2"],
    "weight": ["normal", "over", "obese"],
    "course": ["mild", "middle", "severe"],
}
numbers = [name for name in table.columns if name not in labels]

rng = np.random.default_rng(0)
hidden = rng.random(table.shape) < 0.2
holes = table.mask(hidden)

# %%
# Fit to the table with its holes, and fill them in.
imputer = RBMImputer(
    visible=[(numbers, "gaussian"), (list(labels), "categorical")], random_state=0
).set_output(transform="pandas")
filled = imputer.fit_transform(holes)

# For comparison, means and the most frequent categories.
constant = holes.fillna(holes[numbers].mean())
frequent = SimpleImputer(strategy="most_frequent")
constant[list(labels)] = frequent.fit_transform(holes[list(labels)])


def errors(answer):
    """Error of every column: in standard deviations, or the share of wrong ones."""
    found = {}
    for n, name in enumerate(table.columns):
        off = (answer[name] - table[name])[hidden[:, n]]
        if name in labels:
            found[name] = (off != 0).mean()
        else:
            found[name] = np.sqrt((off**2).mean()) / table[name].std()
    return found


# %%
# One patient whose categories are all among the holes, and five hundred draws of
# everything that is missing at once.
places = [table.columns.get_loc(name) for name in labels]
patient = int(np.argmax(hidden[:, places].all(axis=1) * hidden.sum(axis=1)))
copies = holes.iloc[[patient] * 500]
draws = imputer.impute(copies, method="sample", random_state=0)
missing = [name for n, name in enumerate(table.columns) if hidden[patient, n]]

# %%
# Above, what is missing of the patient: the draws (blue outlines and bars) over all
# patients (grey), the answer (blue line, blue bar) and the truth (star). Below, the
# errors of all hidden entries, column by column.
figure = plt.figure(figsize=(9, 6.5), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[3, 2])
above.suptitle(f"patient {patient}")
for axes, name in zip(above.subplots(2, 3).ravel(), missing, strict=True):
    values = draws[:, table.columns.get_loc(name)]
    truth, answer = table[name].iloc[patient], filled[name].iloc[patient]
    if name in labels:
        codes = np.arange(len(labels[name]))
        shares = [(values == k).mean() for k in codes]
        axes.bar(
            codes - 0.2, [(table[name] == k).mean() for k in codes], 0.4, color="0.85"
        )
        axes.bar(codes + 0.2, shares, 0.4, color="w", edgecolor="C0")
        axes.bar(answer + 0.2, shares[int(answer)], 0.4, color="C0")
        axes.plot(truth + 0.2, 0.05, "k*", ms=10)
        axes.set_xticks(codes, labels[name])
    else:
        bins = np.linspace(table[name].min(), table[name].max(), 25)
        axes.hist(table[name], bins, density=True, color="0.85")
        axes.hist(values, bins, density=True, histtype="step", color="C0")
        axes.axvline(answer, color="C0")
        axes.plot(truth, 0, "k*", ms=10, clip_on=False)
    axes.set_title(name, fontsize=10)
    axes.set_yticks([])

axes = below.subplots()
at = np.arange(table.shape[1])
answers = {"means, most frequent": (constant, "0.8"), "RBMImputer": (filled, "C0")}
for shift, (name, (answer, color)) in zip((-0.2, 0.2), answers.items(), strict=True):
    found = errors(answer)
    axes.bar(at + shift, list(found.values()), 0.4, color=color, label=name)
    parts = [np.mean([found[c] for c in names]) for names in (numbers, labels)]
    print(f"{name:22} numbers {parts[0]:.2f}   categories {parts[1]:.2f}")
axes.set_xticks(at, [name.replace(" ", "\n", 1) for name in table.columns], fontsize=8)
axes.set_ylabel("error (standard deviations),\nor share of wrong ones", fontsize=9)
axes.legend(fontsize=8, ncols=2)
plt.show()
