"""Deep belief nets with the labels at the top: their laws by enumeration, and use."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_softmax, logsumexp, softmax
from scipy.stats import binom, chi2
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_limits

from common import (
    all_states,
    assert_same,
    assert_same_model,
    fitted_state,
    outputs,
    soon_interrupted,
)
from sklearn_ebm import RBM, DBNClassifier, RBMClassifier

LEAST_P = 1e-6
# Gibbs steps after which chains of `strong` nets are independent of their start: the
# second eigenvalue of a step is at most 0.83, and 0.34 where the label is given.
MIXED = 60


def small(sizes=(9, 7), **parameters):
    settings = {"n_iter": 3, "batch_size": 16, "pretrain_n_iter": 2, "random_state": 0}
    return DBNClassifier(sizes, objective="generative", **{**settings, **parameters})


def strong(sizes=(3, 4), n_features=4, n_classes=3, visible="bernoulli"):
    """A fitted net with weights that are far from 0."""
    rng = np.random.default_rng(0)
    X = rng.random((30, n_features))
    net = small(sizes, n_iter=0, pretrain_n_iter=0, visible=visible)
    net.fit(X, np.arange(30) % n_classes)
    for name in ("coefs_", "intercepts_", "generative_intercepts_"):
        setattr(net, name, [rng.normal(size=a.shape) for a in getattr(net, name)])
    net.coefs_[:-1] = [3 * weights for weights in net.coefs_[:-1]]
    net.label_components_ = 3 * rng.normal(size=net.label_components_.shape)
    net.intercept_label_ = rng.normal(size=n_classes)
    return net


def joint(net):
    """log p(v, y, h) of the top less -log Z for all states: (visible, labels, h)."""
    W, c = net.coefs_[-1], net.intercepts_[-1]
    v, h = all_states(len(W)), all_states(len(c))
    pairs = v @ W @ h.T + (v @ net.generative_intercepts_[-1])[:, np.newaxis] + h @ c
    return pairs[:, np.newaxis] + (net.intercept_label_ + h @ net.label_components_).T


def means_below(net, X):
    for W, b in zip(net.coefs_[:-1], net.intercepts_[:-1]):
        X = expit(X @ W + b)
    return X


# ---- Laws ----


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("sizes", [(4,), (3, 4), (5, 3, 4)])
def test_probabilities_are_those_of_the_top(sizes, n_classes):
    net = strong(sizes, n_classes=n_classes)
    X = np.random.default_rng(1).random((20, 4))
    v, h = means_below(net, X), all_states(4)
    under_labels = np.array(
        [
            v @ net.coefs_[-1] @ h.T
            + h @ (net.intercepts_[-1] + net.label_components_[:, label])
            + net.intercept_label_[label]
            for label in range(n_classes)
        ]
    )  # (labels, rows, states of h)
    wanted = log_softmax(logsumexp(under_labels, axis=2).T, axis=1)
    np.testing.assert_allclose(net.predict_log_proba(X), wanted, atol=1e-10)
    np.testing.assert_allclose(net.predict_proba(X), np.exp(wanted), atol=1e-10)
    np.testing.assert_array_equal(net.predict(X), wanted.argmax(axis=1))
    scores = wanted - wanted.mean(axis=1, keepdims=True)
    scores = wanted[:, 1] - wanted[:, 0] if n_classes == 2 else scores
    np.testing.assert_allclose(net.decision_function(X), scores, atol=1e-10)
    of_h = softmax(logsumexp(under_labels, axis=0), axis=1)
    np.testing.assert_allclose(net.transform(X), of_h @ h, atol=1e-10)


def law_of_features(net, label):
    """p(x | y) of all states of the features, of two layers and of more."""
    log_p = joint(net)
    log_p = log_p if label is None else log_p[:, [label]]
    p = softmax(logsumexp(log_p, axis=(1, 2)))
    for W, b in zip(net.coefs_[-2::-1], net.generative_intercepts_[-2::-1]):
        above, below = all_states(W.shape[1]), all_states(W.shape[0])
        field = above @ W.T + b
        given = below @ field.T - np.logaddexp(0, field).sum(axis=1)
        p = np.exp(given) @ p
    return p


@pytest.mark.thinned(4)
@pytest.mark.parametrize("sizes", [(4,), (3, 4), (4, 3, 4)])
@pytest.mark.parametrize("label", [0, 2, None])
def test_samples_follow_the_law_given_the_label(sizes, label):
    net, n = strong(sizes, n_features=3), 10_000
    p = law_of_features(net, label)
    np.testing.assert_allclose(p.sum(), 1)
    X = net.sample(n, y=label, n_gibbs_steps=MIXED, random_state=3)
    counts = np.bincount(X.astype(int) @ [4, 2, 1], minlength=8)
    statistic = ((counts - n * p) ** 2 / (n * p)).sum()
    assert (n * p).min() > 5
    assert chi2.sf(statistic, 7) > LEAST_P
    # The law of another label is another one.
    other = law_of_features(net, 1)
    assert n * ((p - other) ** 2 / other).sum() > 100


def test_gaussian_features_are_drawn_with_their_variances():
    net, n = strong(n_features=2, visible="gaussian"), 20_000
    net.variance_ = np.array([0.25, 4.0])
    p = softmax(logsumexp(joint(net)[:, 1], axis=1))
    states = all_states(3)
    # Means of features given the layer above: weights times variances.
    means = net.generative_intercepts_[0] + states @ net.coefs_[0].T * net.variance_
    wanted = p @ means
    spread = np.sqrt(p @ (means - wanted) ** 2 + net.variance_)
    X = net.sample(n, y=1, n_gibbs_steps=MIXED, random_state=0)
    # 5.5 standard errors: less than 1e-6 of either mean.
    assert (np.abs(X.mean(axis=0) - wanted) < 5.5 * spread / np.sqrt(n)).all()
    fourth = ((means - wanted) ** 4 + 6 * (means - wanted) ** 2 * net.variance_).T @ p
    fourth += 3 * net.variance_**2
    error = np.sqrt((fourth - spread**4) / n)
    # (Beyond the mean's own error, of order 1/n.)
    assert (np.abs(X.var(axis=0) - spread**2) < 5.5 * error + 31 * spread**2 / n).all()


def test_rare_labels_have_a_warning(digits, labels):
    y = labels[:1000].copy()
    y[20:] = -1
    net = DBNClassifier((4,), objective="generative", unlabeled=-1, n_iter=1)
    with pytest.warns(UserWarning, match=r"rows have \(20 of 1000\); .*discriminative"):
        net.fit(digits[:1000], y)


def test_every_label_has_its_sample():
    net = strong(n_features=3)
    y = np.repeat([0, 2], 3000)
    X = net.sample(6000, y=y, n_gibbs_steps=MIXED, random_state=0)
    for label in (0, 2):
        p = law_of_features(net, label)
        counts = np.bincount(X[y == label].astype(int) @ [4, 2, 1], minlength=8)
        assert chi2.sf(((counts - 3000 * p) ** 2 / (3000 * p)).sum(), 7) > LEAST_P


def test_samples_go_on_from_call_to_call(digits, labels):
    net, twin = (small().fit(digits[:100], labels[:100]) for _ in range(2))
    first, second = (net.sample(5, n_gibbs_steps=3) for _ in range(2))
    assert not np.array_equal(first, second)
    assert_same([twin.sample(5, n_gibbs_steps=3) for _ in range(2)], [first, second])
    before = net.sample(5, y=3, n_gibbs_steps=3, random_state=1)
    assert_same(net.sample(5, y=3, n_gibbs_steps=3, random_state=1), before)
    assert set(np.unique(before)) <= {0.0, 1.0}


# ---- Training ----


def test_layers_are_a_stack_and_a_top_of_its_means(digits, labels):
    X, y = digits[:200], labels[:200]
    net = small(learning_rate_schedule="constant", weight_decay=0.01).fit(X, y)
    rng = np.random.RandomState(0)
    first = RBM(9, n_iter=2, persistent=False, random_state=rng).fit(X)
    assert_same(net.coefs_[0], first.components_.T.copy())
    assert_same(net.intercepts_[0], first.intercept_hidden_)
    assert_same(net.generative_intercepts_[0], first.intercept_visible_)
    top = RBMClassifier(
        7,
        objective="generative",
        learning_rate=0.4,
        n_iter=3,
        batch_size=16,
        weight_decay=0.01,
        random_state=rng,
    ).fit(first.transform(X), y)
    np.testing.assert_allclose(net.coefs_[1], top.components_.T, atol=1e-8)
    np.testing.assert_allclose(net.label_components_, top.label_components_, atol=1e-8)
    np.testing.assert_allclose(net.intercept_label_, top.intercept_label_, atol=1e-8)
    assert list(net.history_) == list(top.history_)
    assert net.n_iter_ == 3
    assert net.n_layers_ == 3


def test_one_layer_is_the_classification_machine(digits, labels):
    X, y = digits[:200], labels[:200]
    net = small((7,), learning_rate_schedule="constant").fit(X, y)
    top = RBMClassifier(
        7,
        objective="generative",
        learning_rate=0.4,
        n_iter=3,
        batch_size=16,
        random_state=0,
    ).fit(X, y)
    assert_same(net.coefs_, [top.components_.T.copy()])
    # (Scores are less their mean: rounded otherwise.)
    log_p = log_softmax(net.decision_function(X), axis=1)
    np.testing.assert_allclose(net.predict_log_proba(X), log_p, rtol=1e-10)
    np.testing.assert_allclose(net.predict_proba(X), top.predict_proba(X), rtol=1e-10)
    assert_same(net.transform(X), top.transform(X))
    assert_same(
        net.sample(5, y=3, n_gibbs_steps=9, random_state=1),
        top.sample(5, y=3, n_gibbs_steps=9, random_state=1),
    )


@pytest.mark.slow
def test_learns_digits(digits, labels):
    # A net whose accuracy is 0.75 or less has more right, of 597 rows that it has not
    # seen, once in a million.
    least = binom.isf(LEAST_P, 597, 0.75)
    for seed in range(2):
        net = small((100, 100), n_iter=100, pretrain_n_iter=50, random_state=seed)
        net.set_params(batch_size=10, learning_rate=0.3)
        net.fit(digits[:1200], labels[:1200])
        right = (net.predict(digits[1200:]) == labels[1200:]).sum()
        assert right > least
    # And a machine that has learned labels from data knows those of samples of it.
    other = RBMClassifier(100, n_iter=30, random_state=0).fit(digits, labels)
    y = np.arange(300) % 10
    right = (other.predict(net.sample(300, y=y, random_state=0)) == y).sum()
    assert right > binom.isf(LEAST_P, 300, 0.2)


def test_unlabelled_rows_are_learned_from(digits, labels):
    y = labels[:300].copy()
    y[100:] = -1
    net = small(unlabeled=-1).fit(digits[:300], y)
    assert_same(net.classes_, np.arange(10))
    # They shape the layer below just as if their labels were known ...
    known = small().fit(digits[:300], labels[:300])
    assert_same(net.coefs_[0], known.coefs_[0])
    # ... and the top by log p(h).
    H = expit(digits[:300] @ net.coefs_[0] + net.intercepts_[0])
    few = clone(net).set_params(pretrain_n_iter=0).fit(digits[:100], y[:100])
    assert not np.allclose(few.coefs_[1], net.coefs_[1])
    rng = np.random.RandomState(0)
    RBM(9, n_iter=2, persistent=False, random_state=rng).fit(digits[:300])
    top = RBMClassifier(
        7, objective="generative", n_iter=3, batch_size=16, unlabeled=-1
    ).set_params(random_state=rng, learning_rate=0.4, learning_rate_schedule="linear")
    top.fit(H, y)
    np.testing.assert_allclose(net.coefs_[1], top.components_.T, atol=1e-8)


def test_class_weights_multiply_the_joint(digits, labels):
    X, y = digits[:100], labels[:100] % 3
    plain, weight = small().fit(X, y), {0: 2.0, 1: 0.5, 2: 3.0}
    net = small(class_weight=weight).fit(X, y)
    wanted = plain.predict_proba(X) * [2.0, 0.5, 3.0]
    wanted /= wanted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(net.predict_proba(X), wanted, rtol=1e-9)
    # Once, however often training goes on.
    for model in (plain, net):
        model.set_params(warm_start=True, n_iter=2).fit(X, y).partial_fit(X, y)
    wanted = plain.predict_proba(X) * [2.0, 0.5, 3.0]
    wanted /= wanted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(net.predict_proba(X), wanted, rtol=1e-9)
    balanced = small(class_weight="balanced").fit(X, y)
    counts = np.bincount(y)
    shift = balanced.intercept_label_ - small().fit(X, y).intercept_label_
    np.testing.assert_allclose(shift, np.log(100 / 3 / counts), rtol=1e-9)
    never = small(class_weight={1: 0}).fit(X, y)
    assert np.isfinite(never.predict_log_proba(X)).all()
    assert (never.predict(X) != 1).all()


def test_class_weights_count_once_when_training_never_comes_to_the_top(
    monkeypatch, digits, labels
):
    def interrupted(*given):
        raise KeyboardInterrupt

    X, y = digits[:60], labels[:60] % 3
    net = small(class_weight={0: 5.0}, warm_start=True).fit(X, y)
    before = copy.deepcopy(net)
    monkeypatch.setattr("sklearn_ebm.nets._label_top.means_below", interrupted)
    for train in (net.fit, net.partial_fit):
        with pytest.raises(KeyboardInterrupt):
            train(X, y)
    assert_same_model(net, before)


@pytest.mark.parametrize("sizes", [(9, 7), (9,)])
def test_first_pass_that_is_interrupted_keeps_all_classes(
    sizes, monkeypatch, digits, labels
):
    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(RBMClassifier, "partial_fit", interrupted)
    for y in (labels[:60] % 3, np.full(60, -1)):
        net = small(sizes, unlabeled=-1)
        with pytest.raises(KeyboardInterrupt):
            net.partial_fit(digits[:60], y, classes=np.arange(10))
        assert net.predict_proba(digits).shape == (len(digits), 10)


def test_decision_function_is_in_log_odds_of_either_objective(digits, labels):
    for n_classes in (2, 3):
        y = labels[:100] % n_classes
        for objective in ("discriminative", "generative"):
            net = small().set_params(objective=objective).fit(digits[:100], y)
            log_p = net.predict_log_proba(digits)
            wanted = log_p - log_p.mean(axis=1, keepdims=True)
            wanted = log_p[:, 1] - log_p[:, 0] if n_classes == 2 else wanted
            found = net.decision_function(digits)
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)


def test_parameters_of_the_other_objective_change_nothing(digits, labels):
    wanted = small().fit(digits[:100], labels[:100])
    net = small(solver="lbfgs", momentum=0.1, nesterov=False, dropout=0.5)
    net.set_params(input_dropout=0.2, max_norm=1.0)
    assert_same_model(net.fit(digits[:100], labels[:100]), wanted)
    assert hasattr(net, "partial_fit")
    for numbers in (tuple, np.array):
        last = small(
            pretrain_n_iter=numbers((2, 99)), pretrain_learning_rate=numbers((0.1, 7.0))
        )
        assert_same_model(last.fit(digits[:100], labels[:100]), wanted)


def test_early_stopping_keeps_the_best_epoch(digits, labels):
    X, y = digits[:300], labels[:300]
    net = small(n_iter=40, early_stopping=True, n_iter_no_change=4, learning_rate=1.0)
    net.fit(X, y)
    found = net.history_["validation_accuracy"]
    assert net.best_n_iter_ == 1 + np.argmax(found)
    assert net.n_iter_ == len(found)
    # A call that is refused leaves that alone.
    net.set_params(warm_start=True, validation_fraction=0.9)
    with pytest.raises(ValueError, match="validation_fraction=0.9 leaves nothing"):
        net.fit(X[:4], y[:4])
    assert net.best_n_iter_ == 1 + np.argmax(found)
    net.set_params(warm_start=False, early_stopping=False).fit(X, y)
    assert not hasattr(net, "best_n_iter_")


def test_warm_start_trains_the_top_on(digits, labels):
    X, y = digits[:100], labels[:100]
    net = small(learning_rate_schedule="constant")
    wanted = clone(net).set_params(n_iter=5).fit(X, y)
    net.set_params(n_iter=2, warm_start=True).fit(X, y)
    lower = net.coefs_[0].copy()
    net.set_params(n_iter=3).fit(X, y)
    assert_same(net.coefs_, wanted.coefs_)
    assert_same(net.coefs_[0], lower)
    assert net.history_["accuracy"] == wanted.history_["accuracy"]


def test_first_partial_fit_pretrains_and_later_ones_do_not(digits, labels):
    net = small(n_iter=1, learning_rate_schedule="constant")
    fitted = clone(net).fit(digits[:300], labels[:300])
    net.partial_fit(digits[:300], labels[:300], classes=np.arange(10))
    assert_same_model(net, fitted)
    lower, top = net.coefs_
    net.partial_fit(digits[300:400], labels[300:400])
    assert net.n_iter_ == len(net.history_["accuracy"]) == 2
    assert_same(net.coefs_[0], lower)
    assert not np.allclose(net.coefs_[1], top)
    few = small().partial_fit(digits[:5], labels[:5], classes=np.arange(10))
    assert few.predict_proba(digits).shape == (1797, 10)


@pytest.mark.parametrize("names", [["no", "yes"], [True, False], [3, -1]])
def test_labels_of_any_kind(names, digits, labels):
    names, odd = np.sort(names), labels[:100] % 2
    wanted = small().fit(digits[:100], odd)
    net = small().fit(digits[:100], names[odd])
    assert_same(net.classes_, names)
    assert_same(net.predict(digits), names[wanted.predict(digits)])
    found = net.sample(3, y=names[[0, 1, 1]], n_gibbs_steps=3, random_state=0)
    wanted = wanted.sample(3, y=[0, 1, 1], n_gibbs_steps=3, random_state=0)
    assert_same(found, wanted)


def test_a_sample_for_each_label(digits, labels):
    net = small().fit(digits[:100], labels[:100])
    found = net.sample(y=[3, 1, 4], n_gibbs_steps=3, random_state=0)
    assert_same(found, net.sample(3, y=[3, 1, 4], n_gibbs_steps=3, random_state=0))
    assert net.sample(y=3, n_gibbs_steps=3).shape == (1, 64)


def test_any_number_of_threads_gives_the_same_bits(digits, labels):
    X, y = np.tile(digits[:200], 4).astype(np.float32), labels[:200]
    net, found = small((150, 120), n_iter=1, batch_size=100), []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads):
            model = clone(net).fit(X, y)
            states = fitted_state(model), outputs(model, X), model.sample(9, y=1)
        found.append(states)
    assert_same(found[1:], found[:1] * 2)


@pytest.mark.parametrize("sizes", [(9, 7), (7,)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, np.uint8])
def test_csr_gives_the_model_of_the_dense_array(sizes, dtype, digits, labels):
    X, y = (digits[:100] > 0.5).astype(dtype), labels[:100]
    wanted, net = small(sizes).fit(X, y), small(sizes).fit(sp.csr_array(X), y)
    assert_same_model(net, wanted)
    assert_same(outputs(net, sp.csr_array(X)), outputs(wanted, X))
    assert net.coefs_[0].dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert_same_model(
        net.partial_fit(sp.csr_array(X), y), wanted.partial_fit(X.astype(float), y)
    )


@pytest.mark.parametrize("interrupt_at", [None, 2])
def test_callbacks_see_the_machines(interrupt_at, digits, labels):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks yet")
    from test_callbacks import PropagatedRecorder

    X, y = digits[:100], labels[:100]
    recorder = PropagatedRecorder(interrupt_at=interrupt_at and 2 + interrupt_at)
    net = small(learning_rate_schedule="constant").set_callbacks(recorder)
    if interrupt_at:
        with pytest.raises(KeyboardInterrupt):
            net.fit(X, y)
    else:
        net.fit(X, y)
        fits = recorder.events.count(("begin", "fit"))
        assert fits == recorder.events.count(("end", "fit")) == 3  # its own, and theirs
        assert recorder.n_epochs == 5
        assert recorder.events[-2:] == [("end", "fit"), "teardown"]
    wanted = clone(net).set_callbacks().set_params(n_iter=interrupt_at or 3).fit(X, y)
    assert_same_model(net, wanted)


LONG_FITS = {
    "pretraining": {"pretrain_n_iter": 10**6},
    "second layer": {"sizes": (9, 8, 7), "pretrain_n_iter": (1, 10**6, 1)},
    "top": {"n_iter": 10**6},
}


@pytest.mark.parametrize("case", LONG_FITS)
def test_interrupt_leaves_a_usable_model(case, digits, labels):
    y = np.where(np.arange(1797) % 3 == 0, labels, -1)
    y[labels == 9] = -1
    y[-1] = 9  # a class that the first rows do not show
    net = soon_interrupted(
        lambda: small(**LONG_FITS[case], unlabeled=-1),
        lambda net: net.fit(digits, y),
        begun=lambda net: case != "top" or net.n_iter_ > 0,
    )
    assert all(len(entries) == net.n_iter_ for entries in net.history_.values())
    assert (net.n_iter_ > 0) == (case == "top")
    assert np.isfinite(net.transform(digits)).all()
    assert net.predict_proba(digits).shape == (1797, 10)
    assert net.sample(2, y=9, n_gibbs_steps=2).shape == (2, 64)
    done = net.n_iter_
    net.set_params(warm_start=True, n_iter=1).fit(digits, y)
    assert net.n_iter_ == done + 1


def test_an_objective_leaves_nothing_of_the_other(digits, labels):
    X, y = digits[:60], labels[:60]
    for visible in ("bernoulli", "gaussian"):
        other = DBNClassifier((9, 7), n_iter=2, random_state=0, visible=visible)
        net = small(visible=visible, pretrain_learning_rate=0.01)
        plain = clone(other).fit(X, y)
        again = clone(net).fit(X, y).set_params(**other.get_params())
        assert_same_model(again.fit(X, y), plain)
        wanted = clone(net).fit(X, y)
        plain.set_params(**net.get_params())
        assert_same_model(plain.fit(X, y), wanted)


# ---- What is refused ----


def test_samples_are_of_a_generative_net(digits, labels):
    net = DBNClassifier((9, 7), n_iter=1, pretrain_n_iter=1)
    assert not hasattr(net, "sample")
    with pytest.raises(AttributeError, match="'DBNClassifier' has no attribute 'sam"):
        _ = net.sample
    with pytest.raises(NotFittedError):
        small().sample(3)
    net.fit(digits[:50], labels[:50]).set_params(objective="generative")
    assert not hasattr(net, "sample")
    assert not hasattr(small().fit(digits[:50], labels[:50]), "loss_curve_")


def test_arguments_of_sample(digits, labels):
    net = small().fit(digits[:100], labels[:100])
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1"):
        net.sample(0)
    with pytest.raises(ValueError, match="n_gibbs_steps must be an integer >= 0"):
        net.sample(n_gibbs_steps=-1)
    with pytest.raises(ValueError, match=r"y has labels \[10\]"):
        net.sample(y=10)
    with pytest.raises(ValueError, match="y must be 3 labels"):
        net.sample(3, y=[1, 2])
    with pytest.raises(ValueError, match="random_state must be"):
        net.sample(random_state="a")


def test_parameters_that_make_no_sense(digits, labels):
    X, y = digits[:50], labels[:50]
    with pytest.raises(ValueError, match="'objective' parameter"):
        DBNClassifier(objective="joint").fit(X, y)
    with pytest.raises(ValueError, match="'generative' needs pretrain=True"):
        small(pretrain=False).fit(X, y)
    with pytest.raises(ValueError, match="visible='gaussian' .*two hidden layers"):
        small((7,), visible="gaussian").fit(X, y)
    with pytest.raises(ValueError, match=r"pretrain_n_iter=\(1,\) .*2 hidden layers"):
        small(pretrain_n_iter=(1,)).fit(X, y)
    with pytest.raises(ValueError, match="partial_fit .*early_stopping=True"):
        small(early_stopping=True).partial_fit(X, y, classes=np.arange(10))


@pytest.mark.parametrize("warm", [True, False])
def test_training_goes_on_as_it_began(warm, digits, labels):
    X, y = digits[:50], labels[:50]
    net = small(warm_start=warm).fit(X, y)
    train = net.fit if warm else net.partial_fit
    net.set_params(hidden_layer_sizes=(9, 8))
    with pytest.raises(ValueError, match=r"hidden_layer_sizes=\(9, 8\) .* \(9, 7\)"):
        train(X, y)
    net.set_params(hidden_layer_sizes=(9, 7), objective="discriminative")
    with pytest.raises(ValueError, match="objective='discriminative' .*'generative'"):
        train(X, y)
    net = DBNClassifier((9, 7), n_iter=1, warm_start=warm).fit(X, y)
    train = net.fit if warm else net.partial_fit
    net.set_params(objective="generative")
    with pytest.raises(ValueError, match="objective='generative' .*'discriminative'"):
        train(X, y)


def test_labels_that_are_refused(digits, labels):
    X, y = digits[:50], labels[:50]
    with pytest.raises(ValueError, match="y has no label: .*unlabeled=-1"):
        small(unlabeled=-1).fit(X, np.full(50, -1))
    with pytest.raises(ValueError, match="requires y to be passed"):
        small().fit(X, None)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        small().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"y has labels \[9\]"):
        small().partial_fit(X, y, classes=np.arange(9))
    net = small().fit(X, y)
    with pytest.raises(ValueError, match=r"y has labels \[17\]"):
        net.partial_fit(X, y + 8 * (y == 9))


@pytest.mark.parametrize("visible, layer", [("bernoulli", "layer 1"), ("top", "top")])
def test_values_out_of_range_are_named_with_their_machine(
    visible, layer, digits, labels
):
    net = small((7,) if visible == "top" else (9, 7))
    with pytest.warns(UserWarning, match=f"DBNClassifier, {layer} .*values in") as got:
        net.fit(digits[:50] * 16, labels[:50])
    assert len([each for each in got if "values in" in str(each.message)]) == 1


@pytest.mark.parametrize(
    "name", ["generative_intercepts_", "label_components_", "intercept_label_"]
)
def test_damaged_pickle_is_refused(name, digits, labels):
    net = small().fit(digits[:50], labels[:50])
    setattr(net, name, getattr(net, name)[:-1])
    with pytest.raises(ValueError, match=f"DBNClassifier is damaged: {name}"):
        pickle.loads(pickle.dumps(net))
