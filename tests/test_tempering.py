"""Training with chains that exchange temperatures."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.base import clone

from common import PARAMETERS, all_states, assert_same_model, floats, model_with
from sklearn_ebm import BernoulliRBM
from sklearn_ebm.likelihood import log_likelihood


def two_modes(dtype=np.float64):
    """A model of six units that are nearly always all on or all off."""
    weight = 5.0 * np.ones((2, 6))
    return model_with(weight.astype(dtype), [-15.0, -15.0], 6 * [-5.0])


def standing_still(model, X, **parameters):
    """`model` after an epoch of steps too small to change it."""
    rbm = BernoulliRBM(
        len(model.components_), learning_rate=1e-12, average=False, **parameters
    )
    rbm.set_params(n_iter=0, random_state=0).fit(X)
    names = ["components", "intercept_hidden", "intercept_visible"]
    rbm._state |= {
        name: getattr(model, name + "_").astype(rbm._state[name].dtype)
        for name in names
    }
    # Where the data are: both hidden units off.
    rbm.h_samples_ = np.zeros_like(rbm.h_samples_)
    return rbm.set_params(n_iter=1, warm_start=True).fit(X)


@floats
def test_chains_follow_the_model_in_both_modes(dtype):
    model = two_modes(dtype)
    # 100 minibatches.
    X = np.full((400, 6), 0.35, dtype=dtype)
    chains = {"batch_size": 4, "n_chains": 4000}
    tempered = standing_still(model, X, n_temperatures=8, **chains)
    states = all_states(2)
    fields = states @ model.components_ + model.intercept_visible_
    p = np.exp(states @ model.intercept_hidden_ + np.logaddexp(0, fields).sum(axis=1))
    p /= p.sum()
    assert p[1] + p[2] < 1e-4  # one mode or the other
    found = np.bincount((tempered.h_samples_ @ [2, 1]).astype(int), minlength=4)
    assert binomtest(found[3], 4000, p[3]).pvalue > 1e-6
    # Without, they hardly ever leave.
    plain = standing_still(model, X, **chains)
    assert binomtest(int(plain.h_samples_.all(axis=1).sum()), 4000, p[3]).pvalue < 1e-6


def test_learns_modes_far_apart():
    rng = np.random.default_rng(0)
    modes = rng.random((4, 30)) < 0.5
    X = modes[rng.integers(4, size=1000)] ^ (rng.random((1000, 30)) < 0.02)
    rbm = BernoulliRBM(8, n_iter=20, learning_rate=0.1, random_state=0)
    tempered = clone(rbm).set_params(n_temperatures=6).fit(X)
    assert np.isfinite(log_likelihood(tempered, X)).all()
    # The entropy of the data is log 4 + 30 H(0.02) = 4.3 nats.
    assert log_likelihood(tempered, X).mean() > -6.5


def test_training_goes_on_where_it_stopped(digits):
    rbm = BernoulliRBM(6, n_temperatures=3, random_state=0)
    model = clone(rbm).set_params(n_iter=2, warm_start=True).fit(digits[:105])
    model.fit(digits[:105])
    assert_same_model(model, clone(rbm).set_params(n_iter=4).fit(digits[:105]))


def test_more_chains_than_a_pass_holds(digits):
    rbm = BernoulliRBM(6, n_temperatures=2, n_chains=300, n_iter=1, random_state=0)
    model = rbm.fit(digits[:200])
    assert model.h_samples_.shape == (300, 6)
    assert all(np.isfinite(getattr(model, name)).all() for name in PARAMETERS)


def test_needs_persistent_chains(digits):
    rbm = BernoulliRBM(4, n_temperatures=2, persistent=False)
    for fit in (rbm.fit, rbm.partial_fit):
        with pytest.raises(ValueError, match="n_temperatures=2.*persistent=True"):
            fit(digits)
