"""scikit-learn's callbacks see every epoch, can stop it, and change nothing."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler

from common import (
    BERNOULLI_RBMS,
    assert_same,
    assert_same_model,
    every_bernoulli_rbm,
    every_estimator,
    labels_for,
    outputs,
)
from sklearn_ebm import (
    RBM,
    BernoulliRBM,
    DBMClassifier,
    DBMTransformer,
    DBNClassifier,
    DBNTransformer,
    SparseCoding,
)
from sklearn_ebm.monitoring import TrainingMonitor


class Recorder:
    """Counts epochs; stops, interrupts or looks at the model on request."""

    def __init__(self, stop_at=None, interrupt_at=None, look=None):
        self.stop_at, self.interrupt_at, self.look = stop_at, interrupt_at, look
        self.events, self.seen = [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(("end", context.task_name))
        if context.task_name not in ("epoch", "pass"):
            return False
        if self.look:
            self.seen.append(self.look(fitted_estimator))
        if self.n_epochs == self.interrupt_at:
            raise KeyboardInterrupt
        return self.n_epochs == self.stop_at

    @property
    def n_epochs(self):
        return self.events.count(("end", "epoch")) + self.events.count(("end", "pass"))


class PropagatedRecorder(Recorder):
    max_propagation_depth = None


@pytest.fixture
def callbacks():
    pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks yet")


@every_bernoulli_rbm
def test_callback_sees_every_epoch_and_changes_nothing(estimator, digits, callbacks):
    recorder = Recorder()
    model = clone(estimator).set_params(n_iter=4).set_callbacks(recorder)
    model.fit(digits[:100])
    epoch = [("begin", "epoch"), ("end", "epoch")]
    fit = [("begin", "fit"), *(4 * epoch), ("end", "fit")]
    assert recorder.events == ["setup", *fit, "teardown"]
    assert_same_model(model, clone(estimator).set_params(n_iter=4).fit(digits[:100]))


@every_bernoulli_rbm
def test_callback_stops_at_the_model_of_its_epoch(estimator, digits, callbacks):
    estimator = clone(estimator).set_params(learning_rate_schedule="constant")
    recorder = Recorder(stop_at=2)
    model = clone(estimator).set_params(n_iter=6).set_callbacks(recorder)
    model.fit(digits[:100])
    assert recorder.n_epochs == model.n_iter_ == 2
    assert recorder.events[-2:] == [("end", "fit"), "teardown"]
    assert_same_model(model, clone(estimator).set_params(n_iter=2).fit(digits[:100]))


@every_bernoulli_rbm
def test_interrupt_leaves_the_model_of_its_epoch(estimator, digits, callbacks):
    estimator = clone(estimator).set_params(learning_rate_schedule="constant")
    recorder = Recorder(interrupt_at=2)
    model = clone(estimator).set_params(n_iter=6).set_callbacks(recorder)
    with pytest.raises(KeyboardInterrupt):
        model.fit(digits[:100])
    assert recorder.events[-1] == "teardown"
    assert_same_model(model, clone(estimator).set_params(n_iter=2).fit(digits[:100]))


@every_bernoulli_rbm
def test_callback_gets_a_fitted_estimator(estimator, digits, callbacks):
    estimator = clone(estimator).set_params(learning_rate_schedule="constant")
    recorder = Recorder(look=lambda fitted: outputs(fitted, digits[:50]))
    clone(estimator).set_params(n_iter=3).set_callbacks(recorder).fit(digits[:100])
    for n, seen in enumerate(recorder.seen, start=1):
        model = clone(estimator).set_params(n_iter=n).fit(digits[:100])
        assert_same(seen, outputs(model, digits[:50]))
    assert len(recorder.seen) == 3


@every_bernoulli_rbm
def test_estimator_kept_by_a_callback_stays_what_it_was(estimator, digits, callbacks):
    recorder = Recorder(look=lambda fitted: fitted)
    model = clone(estimator).set_callbacks(recorder).fit(digits[:100])
    for n, kept in enumerate(recorder.seen, start=1):
        assert kept.n_iter_ == n
        assert len(kept.history_["weight_norm"]) == n
    assert len(recorder.seen) == model.n_iter_


@every_estimator
def test_estimator_kept_by_a_callback_can_go_on(estimator, digits, callbacks):
    X, y = digits[:100], labels_for(estimator, digits[:100])
    recorder = Recorder(look=lambda fitted: fitted)
    if not hasattr(estimator, "set_callbacks"):
        pytest.skip("it takes no callbacks")
    model = clone(estimator).set_callbacks(recorder).fit(X, *y)
    if not recorder.seen:
        pytest.skip("its callbacks see the machines in it")
    for kept in recorder.seen:
        vars(kept).pop("_callback_fit_ctx", None)  # scikit-learn's, of this fit
    # All that training goes on from, too, and nothing that it has changed since.
    assert_same_model(recorder.seen[-1], model)
    first = clone(estimator).set_callbacks(Recorder(stop_at=1)).fit(X, *y)
    assert_same_model(recorder.seen[0], first)


@every_bernoulli_rbm
def test_sampling_in_a_callback_changes_nothing(estimator, digits, callbacks):
    def draw(fitted):
        fitted.gibbs(digits[:5])
        fitted.sample(2, 2)

    model = clone(estimator).set_callbacks(Recorder(look=draw)).fit(digits[:100])
    wanted = clone(estimator).fit(digits[:100])
    assert_same_model(model, wanted)
    assert_same(model.gibbs(digits[:5]), wanted.gibbs(digits[:5]))


@every_bernoulli_rbm
@pytest.mark.parametrize("propagated", [True, False])
def test_callbacks_in_a_pipeline(estimator, propagated, digits, labels, callbacks):
    def look(fitted):
        return outputs(fitted, digits[:5])

    rbm = clone(estimator).set_params(n_iter=5)
    pipeline = Pipeline(
        [("scale", MinMaxScaler()), ("rbm", rbm), ("classify", LogisticRegression())]
    )
    if propagated:
        recorder = PropagatedRecorder(stop_at=3, look=look)
        pipeline.set_callbacks(recorder)
        with pytest.warns(UserWarning, match="MinMaxScaler does not support"):
            pipeline.fit(digits[:100], labels[:100])
    else:
        recorder = Recorder(stop_at=3, look=look)
        rbm.set_callbacks(recorder)
        pipeline.fit(digits[:100], labels[:100])
    assert recorder.n_epochs == pipeline["rbm"].n_iter_ == 3
    assert_same(recorder.seen[-1], outputs(pipeline["rbm"], digits[:5]))
    assert pipeline.predict(digits[:5]).shape == (5,)


@pytest.mark.parametrize("up_down_n_iter", [0, 2])
def test_callback_sees_the_layers_of_a_deep_network(up_down_n_iter, digits, callbacks):
    model = DBNTransformer(
        (6, 5), n_iter=(3, 2), up_down_n_iter=up_down_n_iter, random_state=0
    )
    recorder = PropagatedRecorder()
    watched = clone(model).set_callbacks(recorder).fit(digits[:100])
    assert_same_model(watched, clone(model).fit(digits[:100]))
    fits = recorder.events.count(("begin", "fit"))
    assert fits == recorder.events.count(("end", "fit")) == 3  # its own, and layers'
    assert recorder.n_epochs == 5
    assert recorder.events.count(("end", "up-down")) == (up_down_n_iter > 0)
    assert recorder.events[-2:] == [("end", "fit"), "teardown"]


class LayerStopper(Recorder):
    """Stops at the end of a layer."""

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", context.task_name))
        return self.events.count(("end", "layer")) == self.stop_at


@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_callback_stops_between_the_layers(stop_at, digits, callbacks):
    model = DBNTransformer((6, 5, 4), n_iter=2, up_down_n_iter=1, random_state=0)
    recorder = LayerStopper(stop_at)
    stopped = clone(model).set_callbacks(recorder).fit(digits[:100])
    assert recorder.events.count(("begin", "layer")) == stop_at
    assert ("begin", "up-down") not in recorder.events
    assert recorder.events[-2:] == [("end", "fit"), "teardown"]
    # Layers that were not trained are as without epochs; a usable model.
    n_iter = tuple(2 if layer < stop_at else 0 for layer in range(3))
    model.set_params(n_iter=n_iter, up_down_n_iter=0).fit(digits[:100])
    assert_same_model(stopped, model)
    assert stopped.n_iter_ == 2 * stop_at
    stopped.partial_fit(digits[:50])


@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_callback_stops_below_the_labels(stop_at, digits, labels, callbacks):
    X, y = digits[:100], labels[:100]
    net = DBNClassifier(
        (6, 5, 4),
        objective="generative",
        pretrain_n_iter=2,
        n_iter=2,
        learning_rate_schedule="constant",
        random_state=0,
    )
    recorder = LayerStopper(stop_at)
    stopped = clone(net).set_callbacks(recorder).fit(X, y)
    assert recorder.events.count(("begin", "layer")) == stop_at
    assert recorder.events[-2:] == [("end", "fit"), "teardown"]
    net.set_params(pretrain_n_iter=tuple(2 * (k < stop_at) for k in range(3)))
    assert_same_model(stopped, net.set_params(n_iter=2 * (stop_at == 3)).fit(X, y))
    stopped.partial_fit(X, y)


# ---- A progress bar ----


class PretrainingStopper(PropagatedRecorder):
    """Stops at the end of the second of what is not an epoch of the whole."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        super().on_fit_task_end(estimator, context)
        before = context.task_name in ("pretraining epoch", "up-down epoch")
        return before and self.events.count(("end", context.task_name)) == 2


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize(
    "model, name, n_told, n_epochs",
    [
        (DBMTransformer((4, 3), n_iter=2, pretrain_n_iter=3), "pretraining", 6, 2),
        (DBNTransformer((4, 3), n_iter=2, up_down_n_iter=3), "up-down", 3, 4),
        (DBNClassifier((4, 3), n_iter=5, pretrain_n_iter=3), None, 0, 11),
        (DBMClassifier((4, 3), n_iter=5, pretrain_n_iter=3), "pretraining", 120, 8),
    ],
    ids=str,
)
def test_callbacks_are_told_of_what_comes_before_or_after(
    model, name, n_told, n_epochs, stops, digits, labels, callbacks
):
    recorder = PretrainingStopper() if stops else PropagatedRecorder()
    model = clone(model).set_params(random_state=0).set_callbacks(recorder)
    model.fit(digits[:60], labels[:60])
    told = recorder.events.count(("end", f"{name} epoch"))
    assert told == recorder.events.count(("begin", f"{name} epoch"))
    assert told == (min(2, n_told) if stops else n_told)
    assert recorder.n_epochs == n_epochs  # of the whole, and of machines in a stack
    without = clone(model).set_callbacks().fit(digits[:60], labels[:60])
    same = model.transform(digits[:60]) == without.transform(digits[:60])
    assert same.all() == (not stops or name is None)


@pytest.fixture
def progress_bar(callbacks):
    pytest.importorskip("rich", reason="scikit-learn's progress bar needs it")
    from sklearn.callback import ProgressBar

    return ProgressBar(max_propagation_depth=None)


@every_bernoulli_rbm
def test_progress_bar_changes_nothing(estimator, digits, progress_bar, capsys):
    model = clone(estimator).set_callbacks(progress_bar).fit(digits[:100])
    assert_same_model(model, clone(estimator).fit(digits[:100]))
    printed = capsys.readouterr().out
    assert f"{type(model).__name__} - fit" in printed
    assert "100%" in printed


def test_progress_bar_of_a_deep_network(digits, progress_bar, capsys):
    model = DBNTransformer((6, 5), n_iter=2, up_down_n_iter=1, random_state=0)
    watched = clone(model).set_callbacks(progress_bar).fit(digits[:100])
    assert_same_model(watched, clone(model).fit(digits[:100]))
    printed = capsys.readouterr().out
    assert "DBNTransformer - fit" in printed
    assert "100%" in printed


def test_progress_bar_of_an_early_stop(digits, progress_bar, capsys):
    model = clone(BERNOULLI_RBMS[0]).set_params(n_iter=100, early_stopping=True)
    model.set_params(learning_rate=1e-6, tol=1.0).set_callbacks(progress_bar)
    assert model.fit(digits[:100]).n_iter_ < 100
    assert "100%" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:The estimator MinMaxScaler does not support")
def test_progress_bar_of_a_pipeline(digits, labels, progress_bar, capsys):
    pipeline = Pipeline(
        [
            ("scale", MinMaxScaler()),
            ("rbm", clone(BERNOULLI_RBMS[0])),
            ("classify", LogisticRegression()),
        ]
    )
    pipeline.set_callbacks(progress_bar).fit(digits[:100], labels[:100])
    printed = capsys.readouterr().out
    assert "Pipeline - fit" in printed
    assert "BernoulliRBM - fit" in printed
    plain = clone(BERNOULLI_RBMS[0]).fit(MinMaxScaler().fit_transform(digits[:100]))
    assert_same_model(pipeline["rbm"], plain)


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_bar_of_a_grid_search(n_jobs, digits, progress_bar, capsys):
    grid = {"n_components": [2, 5]}
    search = GridSearchCV(
        clone(BERNOULLI_RBMS[0]), grid, cv=2, n_jobs=n_jobs, error_score="raise"
    )
    search.set_callbacks(progress_bar).fit(digits[:100])
    printed = capsys.readouterr().out
    assert "GridSearchCV - fit" in printed
    assert "BernoulliRBM - fit" in printed
    wanted = clone(BERNOULLI_RBMS[0]).set_params(**search.best_params_)
    assert_same(
        outputs(search.best_estimator_, digits[:5]),
        outputs(wanted.fit(digits[:100]), digits[:5]),
    )


# ---- Stops ----


@every_bernoulli_rbm
def test_model_stopped_by_a_callback_is_usable(estimator, digits, callbacks):
    model = clone(estimator).set_params(n_iter=6).set_callbacks(Recorder(stop_at=2))
    model.fit(digits[:100])
    assert all(len(entries) == 2 for entries in model.history_.values())
    for result in outputs(model, digits[:20]).values():
        assert np.isfinite(result).all()
    model.sample(3, 5)
    model.set_callbacks().set_params(warm_start=True, n_iter=3).fit(digits[:100])
    assert model.partial_fit(digits[:20]).n_iter_ == 6


def test_callback_stops_an_early_stopping_fit_at_its_best_model(digits, callbacks):
    estimator = clone(BERNOULLI_RBMS[0]).set_params(n_iter=100, early_stopping=True)
    estimator.set_params(learning_rate=1e-6, tol=0.0, n_iter_no_change=100)

    def look(fitted):
        return fitted.components_, fitted.best_n_iter_

    recorder = Recorder(stop_at=3, look=look)
    model = clone(estimator).set_callbacks(recorder).fit(digits[:100])
    assert model.n_iter_ == 3
    # What a callback sees is what the fit would leave if it stopped there.
    for n, (components, best) in enumerate(recorder.seen, start=1):
        wanted = clone(estimator).set_params(n_iter=n).fit(digits[:100])
        assert_same(components, wanted.components_)
        assert best == wanted.best_n_iter_


# ---- Our own monitor ----


def first_weight(model, X):
    return model.components_[0, 0]


def two_scores(model, X):
    return {"score": model.score(X), "rows": len(X)}


@pytest.fixture
def training_monitor(callbacks):
    from sklearn_ebm.monitoring import TrainingMonitor

    return TrainingMonitor


@every_bernoulli_rbm
def test_monitor_logs_the_history(estimator, digits, training_monitor):
    monitor = training_monitor()
    model = clone(estimator).set_callbacks(monitor).fit(digits[:100])
    log = monitor.get_logs().data
    assert len(log) == model.n_iter_
    assert {epoch["task_name"] for epoch in log} == {"epoch"}
    for name, entries in model.history_.items():
        assert [epoch[name] for epoch in log] == entries, name
    assert model.history_["pseudo_likelihood"][-1] == pytest.approx(
        model.score(digits[:100])
    )
    plain = clone(estimator).fit(digits[:100])
    model.history_ = plain.history_
    assert_same(outputs(model, digits), outputs(plain, digits))
    assert_same(model._state, plain._state)


@pytest.mark.parametrize("batch_size", [None, 20])
def test_monitor_logs_passes_of_sparse_coding(batch_size, digits, training_monitor):
    monitor = training_monitor()
    model = SparseCoding(5, batch_size=batch_size, max_iter=4, tol=0, random_state=0)
    model.set_callbacks(monitor).fit(digits[:100])
    log = monitor.get_logs().data
    assert len(log) == model.n_iter_ == 4
    for name, entries in model.history_.items():
        assert [one_pass[name] for one_pass in log] == entries, name


def test_monitor_logs_a_score(digits, training_monitor):
    held_out = digits[100:200]
    estimator = BERNOULLI_RBMS[0]
    for scoring in (first_weight, two_scores, lambda model, X: model.score(held_out)):
        monitor = training_monitor(scoring)
        model = clone(estimator).set_callbacks(monitor).fit(digits[:100])
        # It has not asked for anything else.
        assert_same_model(model, clone(estimator).fit(digits[:100]))
        log = monitor.get_logs().data
        for n, epoch in enumerate(log, start=1):
            wanted = scoring(
                clone(estimator).set_params(n_iter=n).fit(digits[:100]), digits[:100]
            )
            wanted = wanted if isinstance(wanted, dict) else {"score": wanted}
            assert {name: epoch[name] for name in wanted} == wanted
        assert len(log) == model.n_iter


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_monitor_of_a_grid_search(n_jobs, digits, training_monitor):
    monitor = training_monitor(two_scores)
    rbm = clone(BERNOULLI_RBMS[0]).set_callbacks(monitor)
    grid = {"n_components": [2, 5]}
    search = GridSearchCV(rbm, grid, cv=2, n_jobs=n_jobs, error_score="raise")
    search.fit(digits[:100])
    log = monitor.get_logs().data
    assert len(log) == (2 * 2 + 1) * rbm.n_iter
    assert [epoch["rows"] for epoch in log].count(50) == 2 * 2 * rbm.n_iter
    last = log[-1] if log[-1]["rows"] == 100 else log[rbm.n_iter - 1]
    assert last["score"] == search.best_estimator_.score(digits[:100])


def test_monitor_in_a_pipeline(digits, labels, training_monitor):
    monitor = training_monitor()
    rbm = clone(BERNOULLI_RBMS[0]).set_callbacks(monitor)
    steps = [("scale", MinMaxScaler()), ("rbm", rbm), ("end", LogisticRegression())]
    pipeline = Pipeline(steps).fit(digits[:100], labels[:100])
    scores = [epoch["pseudo_likelihood"] for epoch in monitor.get_logs().data]
    assert scores == pipeline["rbm"].history_["pseudo_likelihood"]


def test_monitor_takes_a_callable(training_monitor):
    with pytest.raises(TypeError, match="scoring .*'score'"):
        training_monitor("score")


def test_callbacks_get_the_data_as_they_were_given(callbacks):
    rng = np.random.default_rng(0)
    X = (rng.random((60, 6)) < 0.4).astype(float)
    holed = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    codes = np.c_[rng.integers(0, 3, 60), X[:, :2]]
    columns = [([0], "categorical"), ([1, 2], "bernoulli")]
    for model, data in [
        (BernoulliRBM(3, missing="latent"), holed),
        (RBM(3, visible=columns), codes),
    ]:
        monitor = TrainingMonitor(lambda model, X: model.score(X))
        model.set_params(n_iter=2, random_state=0).set_callbacks(monitor).fit(data)
        last = monitor.get_logs().data[-1]
        assert last["score"] == model.score(data)


class Witness(Recorder):
    """Keeps the data that the fit of the estimator itself tells of."""

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.seen.append((estimator, X, y))


@every_estimator
def test_callbacks_of_every_fit_get_what_was_given(estimator, digits, callbacks):
    if not hasattr(estimator, "set_callbacks"):
        pytest.skip("it takes no callbacks")
    X, y = digits[:60].tolist(), labels_for(estimator, digits[:60])
    y = [part.tolist() for part in y]
    witness = Witness()
    model = clone(estimator).set_callbacks(witness)
    model.fit(X, *y)
    told = [(X_, y_) for owner, X_, y_ in witness.seen if owner is model]
    assert told
    for X_, y_ in told:
        assert X_ is X
        assert y_ is (y[0] if y else None)
