"""
Can annealed importance sampling be trusted?
============================================

The partition function of an RBM of any size can be estimated by annealed importance
sampling, forward from independent units or in reverse from samples of the model. How
far is the estimate from the truth, and would one notice?

Three models. With 20 hidden units log Z is also known exactly: both directions agree
with it. With 200 units, trained for too long with too few chains (`fit` warns of it),
it is not known, and chains hardly move: with few temperatures the two estimates may lie
nats apart, by more than their error bars promise, or agree by luck. They come together
as temperatures are added, so only several numbers of them tell. The third is made by
hand to deceive: a unit added to the first model holds a mode that no run ever finds.
Both directions agree, error bars are small, and both are wrong by five nats.
"""

from copy import deepcopy

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_ebm import BernoulliRBM
from sklearn_ebm.likelihood import log_partition
from sklearn_ebm.plotting import AnnealingDisplay

# %%
# Pixels are on where the grey value is above the middle: a threshold binarisation.
X = (load_digits().data > 8).astype(np.float32)
small = BernoulliRBM(20, n_iter=50, random_state=0).fit(X)
large = BernoulliRBM(200, n_iter=150, random_state=0).fit(X)

# %%
# The unit added by hand is on near one random image only, at most seven pixels from
# it. It makes that image as probable as e to the 5 times all others together; then
# log Z is larger by 5 nats.
image = np.random.default_rng(0).permutation(64) < 32
log_z = float(log_partition(small))
depth = small.free_energy(image[np.newaxis])[0] + log_z + 5
weight = depth / 8
unit = weight * np.where(image, 1, -1)
deceiving = deepcopy(small)
deceiving.components_ = np.vstack([small.components_, unit])
deceiving.intercept_hidden_ = np.append(
    small.intercept_hidden_, depth - weight * image.sum()
)

# %%
# Bars are one standard error, found from 100 runs.
models = {
    "20 units": small,
    "200 units": large,
    "20 units and one to deceive": deceiving,
}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for (name, model), axis in zip(models.items(), axes, strict=True):
    display = AnnealingDisplay.from_estimator(model, random_state=0, ax=axis)
    axis.set_title(name)
    last = display.results[-1]
    print(
        f"{name}, 3000 temperatures: forward {last.forward:.2f} "
        f"({last.standard_error:.2f}), reverse {last.reverse:.2f} "
        f"({last.reverse_standard_error:.2f}), exact "
        + ("unknown" if display.exact is None else f"{float(display.exact):.2f}")
    )
plt.show()
