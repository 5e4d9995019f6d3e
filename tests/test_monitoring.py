"""What is watched while a model trains, early stopping, and idle hidden units."""

import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import minmax_scale
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

from common import (
    PARAMETERS,
    assert_same,
    assert_same_model,
    fitted_state,
    floats,
    large_data,
    model_with,
    name_of,
    outputs,
    run_on_threads,
    soon_interrupted,
)
from sklearn_ebm import (
    RBM,
    BernoulliRBM,
    DBMTransformer,
    DBNClassifier,
    GaussianRBM,
    MultimodalDBM,
    RBMClassifier,
)
from sklearn_ebm._stopping import Stopping
from sklearn_ebm.monitoring import COSTLY_ROWS, MONITOR_ROWS

CHEAP = {"learning_rate", "seconds", "weight_norm"}
UNIT_COSTLY = {"reconstruction_error", "hidden_activity", "saturation"}
COSTLY = {"pseudo_likelihood"} | UNIT_COSTLY
HELD_OUT = {"validation_pseudo_likelihood", "free_energy_gap"}


@pytest.fixture
def rbm():
    return BernoulliRBM(8, n_iter=6, early_stopping=True, random_state=0)


@pytest.fixture(scope="module")
def noise():
    """Nothing that can be learned: more units and epochs only overfit it."""
    return np.random.default_rng(0).random((60, 30)) < 0.5


def started_at(model, components, hidden, **state):
    """A fitted model that is to go on from these weights and hidden biases."""
    start = {"components": components, "intercept_hidden": hidden, **state}
    dtype = model._dtype()
    model._state |= {name: np.asarray(x, dtype) for name, x in start.items()}
    return model.set_params(warm_start=True, n_iter=1, learning_rate=1e-9)


def overfitting(**parameters):
    defaults = {"n_components": 100, "n_iter": 500, "random_state": 0}
    return BernoulliRBM(early_stopping=True, **{**defaults, **parameters})


def held_out_rows(rbm, X):
    """Numbers of the rows that a fit of these rows held out."""
    order = np.random.default_rng([rbm._state["key"], 0, 2]).permutation(len(X))
    return order[: int(np.ceil(rbm.validation_fraction * len(X)))]


def halves(model, X):
    """Rows that an early-stopped model has trained on, and those it has not."""
    held_out = held_out_rows(model, X)
    return np.delete(X, held_out, axis=0), X[held_out]


# ---- What is held out ----


@pytest.mark.parametrize("n_rows, fraction, wanted", [(100, 0.1, 10), (7, 0.5, 4)])
def test_held_out_rows_are_not_trained_on(n_rows, fraction, wanted, rbm):
    # Every row has a feature of its own, which only the training can raise.
    X = np.eye(n_rows)
    rbm.set_params(validation_fraction=fraction, n_iter=1, monitor="free_energy_gap")
    model = rbm.fit(X)
    unseen = model.visible_mean_ == 0
    assert unseen.sum() == wanted
    np.testing.assert_allclose(model.visible_mean_[~unseen], 1 / (n_rows - wanted))
    start = clone(rbm).set_params(n_iter=0, centering=False).fit(X)
    biases, n = start.intercept_visible_, n_rows - wanted
    np.testing.assert_allclose(biases[unseen], np.log(0.5 / (n + 0.5)))
    np.testing.assert_allclose(biases[~unseen], np.log(1.5 / (n - 0.5)))


@pytest.mark.parametrize("n_chains", [10, 60])
def test_it_is_the_fit_of_the_rows_that_are_left(n_chains, digits):
    # One minibatch an epoch, so that the order of the rows is no matter.
    X = digits[:60]
    rbm = BernoulliRBM(5, batch_size=60, n_chains=n_chains, n_iter=3, random_state=0)
    model = clone(rbm).set_params(early_stopping=True, tol=1e9)
    model.set_params(monitor="free_energy_gap").fit(X)
    assert model.best_n_iter_ == 3
    training, _ = halves(model, X)
    assert len(training) == 54
    wanted = clone(rbm).fit(training)
    for name in [*PARAMETERS, "visible_mean_"]:
        np.testing.assert_allclose(
            getattr(model, name), getattr(wanted, name), atol=1e-12, err_msg=name
        )


def test_a_warm_start_holds_out_the_same_rows(rbm):
    X = np.eye(50)
    rbm.set_params(warm_start=True, n_iter=1)
    unseen = rbm.fit(X).visible_mean_ == 0
    for _ in range(3):
        np.testing.assert_array_equal(rbm.fit(X).visible_mean_ == 0, unseen)
    other = clone(rbm).set_params(random_state=1).fit(X)
    assert (unseen != (other.visible_mean_ == 0)).any()


@pytest.mark.parametrize("n_rows, fraction", [(1, 0.1), (1, 0.9), (2, 0.6), (9, 0.9)])
def test_too_few_rows(n_rows, fraction, rbm, digits):
    rbm.set_params(validation_fraction=fraction, warm_start=True)
    message = rf"validation_fraction={fraction} .* n_samples={n_rows}"
    with pytest.raises(ValueError, match=message):
        rbm.fit(digits[:n_rows])
    assert not hasattr(rbm, "components_")
    assert not hasattr(rbm, "_state")
    rbm.set_params(validation_fraction=0.5).fit(digits[:50])
    before = fitted_state(clone(rbm).fit(digits[:50]))
    with pytest.raises(ValueError, match=message):
        rbm.set_params(validation_fraction=fraction).fit(digits[:n_rows])
    assert_same(fitted_state(rbm), before)


@pytest.mark.parametrize("n_rows", [2, 3, 11])
def test_few_rows(n_rows, rbm, digits):
    model = rbm.fit(digits[:n_rows])
    assert np.isfinite(model.transform(digits)).all()
    assert all(len(entries) == model.n_iter_ for entries in model.history_.values())


def test_partial_fit_refuses(rbm, digits):
    with pytest.raises(ValueError, match="partial_fit does not support early_stop"):
        rbm.partial_fit(digits[:50])
    assert not hasattr(rbm, "components_")
    rbm.fit(digits[:50]).set_params(early_stopping=False).partial_fit(digits[:50])
    assert rbm.n_iter_ == 7
    assert not hasattr(rbm, "best_n_iter_")
    assert np.isnan(rbm.history_["free_energy_gap"][-1])


# ---- The history ----


def test_what_is_in_the_history(rbm, digits):
    quiet = clone(rbm).set_params(early_stopping=False).fit(digits[:50])
    assert set(quiet.history_) == CHEAP
    loud = clone(quiet).set_params(verbose=1).fit(digits[:50])
    assert set(loud.history_) == CHEAP | COSTLY
    assert set(rbm.fit(digits[:50]).history_) == CHEAP | COSTLY | HELD_OUT


def expected_numbers(model, training, validation, few=None):
    """What the history should say of a model, from its public methods.

    few: the training rows that are looked at feature by feature; all by default.
    """
    few = training if few is None else few
    hidden = model.transform(training)
    idle = (hidden.max(axis=0) < 0.01) | (hidden.min(axis=0) > 0.99)
    wanted = {
        "pseudo_likelihood": model.score(few),
        "reconstruction_error": np.mean((few - model.reconstruct(few)) ** 2),
        "hidden_activity": hidden.mean(),
        "saturation": idle.mean(),
        "weight_norm": np.sqrt((model.components_**2).sum()),
    }
    if validation is not None:
        gap = model.free_energy(validation).mean() - model.free_energy(training).mean()
        wanted["free_energy_gap"] = gap
        wanted["validation_pseudo_likelihood"] = model.score(validation)
    return wanted


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("n_rows", [100, 1797])
def test_numbers(early_stopping, n_rows, digits):
    X = digits[:n_rows]
    # Average off: the weight norm is that of the last parameters. The tolerance
    # keeps the last epoch.
    rbm = BernoulliRBM(8, average=False, verbose=1, random_state=0, n_iter=3)
    rbm.set_params(learning_rate=0.5, validation_fraction=0.4, n_iter_no_change=9)
    rbm.set_params(tol=1e9, monitor="free_energy_gap", early_stopping=early_stopping)
    model = rbm.fit(X)
    training, validation = halves(model, X) if early_stopping else (X, None)
    # The samples are fixed ones, of rows of each side and fewer of the training.
    order = np.random.default_rng([model._state["key"], 0]).permutation(len(training))
    few, training = training[order[:COSTLY_ROWS]], training[order[:MONITOR_ROWS]]
    validation = None if validation is None else validation[:MONITOR_ROWS]
    wanted = expected_numbers(model, training, validation, few)
    found = {name: model.history_[name][-1] for name in wanted}
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("early_stopping", [True, False])
def test_missing_values_do_not_count(early_stopping, digits):
    X = np.array(digits[:COSTLY_ROWS])
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    X[50:80] = digits[50:80]
    rbm = BernoulliRBM(8, average=False, verbose=1, random_state=0, n_iter=3)
    rbm.set_params(tol=1e9, monitor="free_energy_gap", validation_fraction=0.4)
    model = rbm.set_params(missing="latent", early_stopping=early_stopping).fit(X)
    training, validation = halves(model, X) if early_stopping else (X, X[:0])
    error = np.square(training - model.reconstruct(training))
    wanted = {
        "pseudo_likelihood": model.score(training),
        "reconstruction_error": np.nanmean(error),
        "hidden_activity": model.transform(training).mean(),
    }
    if early_stopping:
        wanted["validation_pseudo_likelihood"] = model.score(validation)
    found = {name: model.history_[name][-1] for name in wanted}
    assert found == pytest.approx(wanted, rel=1e-9)
    quiet = clone(rbm).set_params(verbose=0).fit(X)
    assert_same(quiet._state, model._state)


@pytest.mark.parametrize("kind", [BernoulliRBM, GaussianRBM])
def test_samples_without_a_known_value_have_no_error(kind, recwarn):
    X = np.full((20, 1), np.nan)
    X[0] = 1.0
    model = kind(2, missing="latent", n_iter=2, random_state=0)
    model.set_params(early_stopping=True, tol=1e9, validation_fraction=0.9)
    known = []
    for row in range(8):  # Of which most hold out the row that is known.
        model.fit(np.roll(X, row, axis=0))
        known.append(np.isfinite(model.history_["reconstruction_error"]).all())
        assert np.isfinite(model.history_["free_energy_gap"]).all()
    assert not all(known)
    assert not [each for each in recwarn if each.category is RuntimeWarning]


def test_averages_are_what_is_measured(digits):
    X = digits[:100]
    model = BernoulliRBM(8, n_iter=3, verbose=1, random_state=0).fit(X)
    wanted = expected_numbers(model, X, None)
    del wanted["weight_norm"]
    found = {name: model.history_[name][-1] for name in wanted}
    assert found == pytest.approx(wanted, rel=1e-9)


def test_every_epoch_has_the_numbers_of_its_own_model(digits):
    X = digits[:100]
    rbm = BernoulliRBM(8, verbose=1, random_state=0)
    history = clone(rbm).set_params(n_iter=4).fit(X).history_
    for n in range(1, 5):
        model = clone(rbm).set_params(n_iter=n).fit(X)
        assert history["pseudo_likelihood"][n - 1] == pytest.approx(model.score(X))


@pytest.mark.parametrize("hidden, wanted", [(-9, 1.0), (9, 1.0), (0, 0.0)])
def test_saturation(hidden, wanted, digits):
    rbm = idle_model([hidden] * 3).set_params(verbose=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert rbm.fit(digits[:100]).history_["saturation"] == [wanted]


@pytest.mark.parametrize(
    "hidden, field",
    [("spin", -0.6), ("poisson", 0.7), ("gaussian", 2.0), ("relu", 2.0)],
)
def test_only_bits_are_dead_or_saturated(hidden, field, digits):
    X = np.sign(digits - 0.5)
    rbm = RBM(3, visible="spin", hidden=hidden, n_iter=0, random_state=0).fit(X)
    rbm = started_at(rbm, np.zeros((3, 64)), [field] * 3).set_params(verbose=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert set(rbm.fit(X).history_) == CHEAP | UNIT_COSTLY - {"saturation"}


@pytest.mark.parametrize(
    "model",
    [
        GaussianRBM(3),
        RBM(3, visible="spin"),
        DBMTransformer((3, 2)),
        MultimodalDBM([("all", slice(0, 64), "bernoulli", (3,))], n_joint=2),
    ],
    ids=name_of,
)
def test_bits_beside_units_of_any_kind_may_be_saturated(model, digits):
    model = clone(model).set_params(n_iter=1, verbose=1, random_state=0)
    assert set(model.fit(digits[:100]).history_) == CHEAP | UNIT_COSTLY
    assert 0 <= model.history_["saturation"][0] <= 1


def test_numbers_not_measured_are_nan(digits):
    model = BernoulliRBM(4, n_iter=2, warm_start=True, random_state=0)
    model.fit(digits[:50]).set_params(verbose=1).fit(digits[:50])
    model.set_params(verbose=0).fit(digits[:50]).partial_fit(digits[:50])
    scores = model.history_["pseudo_likelihood"]
    assert list(np.isnan(scores)) == [True] * 2 + [False] * 2 + [True] * 3
    assert np.isfinite(model.history_["weight_norm"]).all()
    assert {len(entries) for entries in model.history_.values()} == {7}


def test_verbose_says_what_is_held_out_and_changes_nothing(rbm, digits, capsys):
    quiet = clone(rbm).fit(digits[:100])
    assert capsys.readouterr().out == ""
    model = rbm.set_params(verbose=1).fit(digits[:100])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    assert all("validation" in line and "gap" in line for line in lines)
    assert_same_model(model, quiet)


# ---- When to stop ----


def rule(monitor, losses, tol=0.0, patience=3):
    """Best epoch, and epoch of the stop or None, of a sequence of losses."""
    stopping = Stopping(monitor, tol, patience)
    for n, loss in enumerate(losses, start=1):
        entry = {"validation_pseudo_likelihood": -loss, "free_energy_gap": loss}
        stopping.see(entry, n, None)
        if stopping.done:
            return stopping.best and stopping.best["n_iter"], n
    return stopping.best and stopping.best["n_iter"], None


NAN = float("nan")


def test_of_epochs_with_one_accuracy_the_likelihood_decides():
    stopping = Stopping("accuracy", 0.01, 3)
    epochs = [(0.9, -3), (0.9, -2), (0.9, -1.995), (0.8, -1), (0.9, -1.5), (0.9, -1.6)]
    best, waited = [], []
    for n, (accuracy, log_likelihood) in enumerate(epochs):
        entry = {
            "validation_accuracy": accuracy,
            "validation_log_likelihood": log_likelihood,
        }
        stopping.see(entry, n, None)
        best.append(stopping.best["n_iter"])
        waited.append(stopping.waited)
    assert best == [0, 1, 2, 2, 4, 4]
    assert waited == [0, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("kind", [RBMClassifier, DBNClassifier])
def test_few_rows_held_out_do_not_end_a_training_that_has_begun(kind):
    X, y = load_wine(return_X_y=True)
    model = kind(early_stopping=True, random_state=0).fit(minmax_scale(X), y)
    found = model.history_["validation_log_likelihood"]
    right = np.array(model.history_["validation_accuracy"])
    kept = model.best_n_iter_ - 1
    assert right[kept] == right.max()
    assert found[kept] == np.array(found)[right == right.max()].max()


@pytest.mark.parametrize(
    "losses, tol, wanted",
    [
        ([9, 8, 7, 6, 5, 4], 0.5, (6, None)),
        ([9, 8, 8.1, 8.2, 8.3, 1], 0.0, (2, 5)),
        ([9, 8, 8.1, 8.2, 7, 7.1, 7.2], 0.0, (5, None)),
        ([9, 8.9, 8.8, 8.7, 8.6, 0], 0.5, (4, 4)),  # better, but not by enough
        ([9, 9, 9, 9, 9], 0.0, (1, 4)),
        ([9, 8, NAN, NAN, NAN, 1], 0.0, (2, 5)),
        ([NAN, NAN, NAN, NAN], 0.0, (None, 3)),
    ],
)
def test_rule_of_the_pseudo_likelihood(losses, tol, wanted):
    assert rule("pseudo_likelihood", losses, tol) == wanted


@pytest.mark.parametrize(
    "losses, tol, wanted",
    [
        ([0.0, 0.1, 0.2, 0.3, 0.4], 0.5, (5, None)),
        ([0.0, 0.1, 0.2, 0.3, 0.4], 0.15, (2, 5)),
        ([0.5, 0.1, 0.4, 0.4, 0.1, 0.4, 0.4], 0.2, (5, None)),
        ([0.0, -1.0, -0.4, -0.4, -0.4], 0.5, (2, 5)),  # of the lowest, not the first
        ([0.0, NAN, NAN, NAN], 1.0, (1, 4)),
        ([NAN, NAN, NAN, NAN], 1.0, (None, 3)),
    ],
)
def test_rule_of_the_gap(losses, tol, wanted):
    assert rule("free_energy_gap", losses, tol) == wanted


@pytest.mark.parametrize("monitor", ["pseudo_likelihood", "free_energy_gap"])
@pytest.mark.parametrize("persistent", [True, False])
def test_stops_when_the_model_overfits(monitor, persistent, noise):
    tol = 1e-4 if monitor == "pseudo_likelihood" else 1.0
    rbm = overfitting(monitor=monitor, persistent=persistent, tol=tol)
    model = clone(rbm).fit(noise)
    assert model.n_iter_ < 500
    wait = rbm.n_iter_no_change
    assert model.n_iter_ - wait <= model.best_n_iter_ <= model.n_iter_
    # Training on would have made it worse.
    training, validation = halves(model, noise)
    went_on = clone(rbm).set_params(early_stopping=False, n_iter=200).fit(training)
    assert model.score(validation) > went_on.score(validation)


def test_stops_when_it_stands_still(digits):
    rbm = overfitting(learning_rate=1e-6, tol=0.1, n_iter_no_change=4)
    model = rbm.fit(digits[:200])
    assert model.n_iter_ == 5


def test_goes_on_while_it_learns(digits):
    rbm = overfitting(n_components=16, n_iter=12, learning_rate=0.01, tol=0)
    assert rbm.fit(digits).n_iter_ == 12


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("monitor", ["pseudo_likelihood", "free_energy_gap"])
def test_the_best_epoch_is_kept(average, monitor, noise):
    tol = 1e-4 if monitor == "pseudo_likelihood" else 1.0
    rbm = overfitting(average=average, monitor=monitor, tol=tol)
    model = clone(rbm).fit(noise)
    assert model.best_n_iter_ < model.n_iter_
    scores = model.history_["validation_pseudo_likelihood"]
    gaps = np.array(model.history_["free_energy_gap"])
    if monitor == "pseudo_likelihood":
        assert np.argmax(scores) == model.best_n_iter_ - 1
    else:
        assert np.flatnonzero(gaps <= gaps.min() + tol)[-1] == model.best_n_iter_ - 1
    # It is the model that a fit of so many epochs arrives at.
    short = clone(rbm).set_params(n_iter=model.best_n_iter_).fit(noise)
    for name in PARAMETERS:
        assert_same(getattr(model, name), getattr(short, name))
    _, validation = halves(model, noise)
    assert model.score(validation) == pytest.approx(scores[model.best_n_iter_ - 1])


def test_training_goes_on_from_the_last_epoch(noise):
    rbm = overfitting(warm_start=True, average=False)
    model = clone(rbm).fit(noise)
    assert model.best_n_iter_ < model.n_iter_
    straight = clone(rbm).set_params(n_iter=model.n_iter_, n_iter_no_change=10**6)
    straight.set_params(tol=1e9, monitor="free_energy_gap").fit(noise)
    assert_same(model._state, straight._state)
    assert_same(model.h_samples_, straight.h_samples_)
    for m in (model, straight):
        m.set_params(early_stopping=False, n_iter=1).fit(noise)
        m.__dict__.pop("history_")  # has NaN where nothing was held out
    assert_same_model(model, straight)
    assert not hasattr(model, "best_n_iter_")


def test_a_warm_start_counts_anew(noise):
    model = overfitting(warm_start=True).fit(noise)
    first = model.n_iter_
    model.fit(noise)
    assert model.n_iter_ >= first + model.n_iter_no_change
    assert first < model.best_n_iter_ <= model.n_iter_
    assert all(len(entries) == model.n_iter_ for entries in model.history_.values())


def test_no_epochs(rbm, digits):
    model = rbm.set_params(n_iter=0).fit(digits[:50])
    assert model.n_iter_ == 0
    assert model.best_n_iter_ == 0
    assert model.transform(digits).shape == (len(digits), 8)


@pytest.mark.parametrize("seconds", [0.03, 0.3])
def test_interrupt_leaves_the_best_model_so_far(seconds):
    X = (np.random.default_rng(0).random((2_000, 200)) < 0.2).astype(np.uint8)
    rbm = overfitting(n_iter=10**7, tol=1e9, monitor="free_energy_gap")
    model = soon_interrupted(
        lambda: clone(rbm),
        lambda model: model.fit(X),
        seconds,
        begun=lambda model: hasattr(model, "components_"),
    )
    assert all(len(entries) == model.n_iter_ for entries in model.history_.values())
    assert getattr(model, "best_n_iter_", 0) in (0, model.n_iter_ - 1, model.n_iter_)
    for result in outputs(model, X[:20]).values():
        assert np.isfinite(result).all()
    done = model.n_iter_
    model.set_params(warm_start=True, n_iter=1)
    assert model.fit(X).n_iter_ == done + 1


# ---- The same model, whatever the data come in and wherever it is fitted ----


@pytest.mark.thinned(4)
@floats
@pytest.mark.parametrize("binary", [True, False])
def test_sparse_data_give_the_model_of_dense_data(dtype, binary, digits):
    X = digits[:300].astype(dtype)
    if binary:
        X = np.ceil(X - 0.5)
    rbm = overfitting(n_components=20, n_iter=30, validation_fraction=0.3)
    dense = clone(rbm).fit(X)
    assert dense.components_.dtype == dtype
    for container in (sp.csr_array, sp.csr_matrix):
        assert_same_model(clone(rbm).fit(container(X)), dense)
    if binary:
        bits = clone(rbm).fit(X.astype(bool))
        assert_same_model(bits, clone(rbm).fit(X.astype(np.float32)))


@pytest.mark.slow
def test_any_number_of_threads():
    rbm = overfitting(n_components=300, batch_size=64, n_iter=2)
    wanted = {}
    with threadpool_limits(1):
        for kind, X in large_data().items():
            wanted[kind] = joblib.hash(fitted_state(clone(rbm).fit(X)))
    code = """if True:
        import joblib, test_monitoring as t
        rbm = t.overfitting(n_components=300, batch_size=64, n_iter=2)
        for kind, X in t.large_data().items():
            print(kind, joblib.hash(t.fitted_state(t.clone(rbm).fit(X))), sep=":")
    """
    for printed in run_on_threads([1, 2, 3], code):
        assert dict(line.split(":") for line in printed.splitlines()) == wanted


def test_same_seed_same_model(noise):
    first = overfitting().fit(noise)
    assert_same_model(overfitting().fit(noise), first)
    assert_same_model(first.fit(noise), overfitting().fit(noise))
    other = overfitting(random_state=1).fit(noise)
    assert not np.array_equal(other.components_, first.components_)


def test_data_may_be_read_only_and_of_any_strides(rbm, digits):
    X = digits[:200].copy()
    wanted = clone(rbm).fit(X)
    X.setflags(write=False)
    assert_same_model(clone(rbm).fit(X), wanted)
    assert_same_model(clone(rbm).fit(np.asfortranarray(X)), wanted)


class WithoutPartialFit(BernoulliRBM):
    """What scikit-learn's checks should see of an estimator that stops early."""

    @property
    def partial_fit(self):
        raise AttributeError("partial_fit")


def test_sklearn_checks():
    check_estimator(WithoutPartialFit(4, n_iter=3, early_stopping=True, random_state=0))


# ---- Idle hidden units ----


def idle_model(hidden):
    """A model of 64 features with these hidden biases, to be trained on."""
    model = model_with(np.zeros((len(hidden), 64)), hidden, np.zeros(64))
    return started_at(model, model.components_, hidden)


@pytest.mark.parametrize(
    "hidden, dead, saturated",
    [([-5, 0, 4], 1, 0), ([-4, 0, 5], 0, 1), ([9, 9, -9], 1, 2)],
)
def test_idle_units_are_warned_of(hidden, dead, saturated, digits):
    wanted = f"Of the 3 hidden units of BernoulliRBM, {dead} are dead and {saturated} "
    with pytest.warns(ConvergenceWarning, match=wanted) as caught:
        idle_model(hidden).fit(digits)
    # (Of the features such a machine knows nothing, which another warning says.)
    caught = [
        each for each in caught if "worse than independent" not in str(each.message)
    ]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "500 training rows" in str(caught[0].message)
    assert "learning_rate" in str(caught[0].message)


@pytest.mark.parametrize("kind", ["spin", "gaussian", "poisson"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_idle_bits_beside_units_of_any_kind_are_warned_of(kind, dtype, digits):
    X = {"spin": np.sign(digits - 0.5), "poisson": np.round(16 * digits)}
    X = X.get(kind, digits).astype(dtype)
    rbm = RBM(3, visible=kind, n_iter=0, random_state=0).fit(X)
    rbm = started_at(rbm, np.zeros((3, 64)), [9, -9, 0])
    with pytest.warns(ConvergenceWarning, match="1 are dead and 1 saturated") as caught:
        rbm.fit(X)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_the_unit_of_measurement_hides_no_idle_unit():
    # At the mean, 6, and a deviation of 2 the field is -9; without the variance it
    # would be 0.
    X = np.tile([[4.0], [8.0]], (50, 1))
    rbm = GaussianRBM(1, n_iter=0, random_state=0).fit(X)
    rbm = started_at(rbm, np.ones((1, 1)), [-9.0], log_variance=np.zeros(1))
    with pytest.warns(ConvergenceWarning, match="1 are dead"):
        rbm.fit(X)
    assert rbm.components_[0] * 6 + rbm.intercept_hidden_ == pytest.approx(0, abs=1e-6)


def test_a_few_idle_units_of_many_are_not_warned_of(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # (No unit of this model has weights.)
        warnings.filterwarnings("error", "Of the")
        idle_model([-9, 9, *[0] * 38]).fit(digits)
    with pytest.warns(ConvergenceWarning, match="Of the 40.* 2 are dead and 1 sat"):
        idle_model([-9, -9, 9, *[0] * 37]).fit(digits)


@pytest.mark.parametrize("verbose", [0, 1])
@pytest.mark.parametrize("early_stopping", [True, False])
def test_a_runaway_fit_is_warned_of(verbose, early_stopping, binary_digits):
    rbm = BernoulliRBM(30, learning_rate=50.0, centering=False, random_state=0)
    rbm.set_params(verbose=verbose, early_stopping=early_stopping)
    with pytest.warns(ConvergenceWarning, match="hidden units") as caught:
        rbm.fit(binary_digits)
    said = [str(each.message) for each in caught]
    # Units are looked at once; and the model is as bad as it seems.
    assert len(said) == 2 and "hidden units" in said[0] and "worse than" in said[1]


def test_a_unit_that_tells_one_row_apart_is_not_idle():
    # Off for all rows but one: its mean is below 0.01, but it says something.
    X = np.zeros((400, 64))
    X[7] = 1
    model = idle_model([-9.0])
    model._state |= {"components": np.full((1, 64), 1.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a bad model
        warnings.filterwarnings("error", "Of the")
        model.set_params(verbose=1).fit(X)
    assert model.transform(X).mean() < 0.01
    assert model.history_["saturation"] == [0.0]


@pytest.mark.thinned(5)
@pytest.mark.parametrize("kind", ["digits", "binary", "noise"])
@pytest.mark.parametrize("centering", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_healthy_fits_are_not_warned_of(kind, centering, persistent, digits, noise):
    X = {"digits": digits, "binary": digits > 0.5, "noise": noise}[kind]
    rbm = BernoulliRBM(centering=centering, persistent=persistent, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if kind == "noise":  # Whose rows there is nothing to tell apart by.
            warnings.filterwarnings("ignore", "The hidden layer")
        rbm.fit(X)
