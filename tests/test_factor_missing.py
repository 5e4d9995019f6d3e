"""What linear factor models say of missing values that they were not told of."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_ebm import FactorAnalysis, ProbabilisticPCA

X = np.random.default_rng(0).normal(size=(40, 4))
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
METHODS = [
    (model, method)
    for model in (FactorAnalysis(2), ProbabilisticPCA(2))
    for method in ("fit", "partial_fit", "transform", "score_samples", "score")
    if hasattr(model, method)
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model, method", METHODS)
def test_the_remedy_for_missing_values_is_named_and_works(model, method, dtype):
    holes = HOLES.astype(dtype)
    model = clone(model).fit(X.astype(dtype))
    message = f"Input X contains NaN. {type(model).__name__} takes .* missing='latent'"
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(holes)
    with pytest.raises(ValueError, match="infinity"):
        getattr(model, method)(np.where(np.isnan(holes), np.inf, holes))
    getattr(model.set_params(missing="latent"), method)(holes)
    with pytest.raises(ValueError, match="infinity"):
        getattr(model, method)(np.where(np.isnan(holes), np.inf, holes))


def test_values_whose_sum_is_beyond_all_numbers_are_not_refused():
    model = FactorAnalysis(2).fit(X)
    assert np.isfinite(model.transform(np.full((3, 4), 1e307) * [1, 1, 1, -1])).all()
    assert np.isfinite(model.transform(np.full((30, 4), 1e307))).all()
