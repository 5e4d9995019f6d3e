"""scikit-learn's callbacks see every epoch, can stop it, and change nothing."""

import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler

from common import (
    PUBLIC_ESTIMATORS,
    assert_same,
    assert_same_model,
    every_estimator,
    outputs,
)


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
        if context.task_name != "epoch":
            return False
        if self.look:
            self.seen.append(self.look(fitted_estimator))
        if self.n_epochs == self.interrupt_at:
            raise KeyboardInterrupt
        return self.n_epochs == self.stop_at

    @property
    def n_epochs(self):
        return self.events.count(("end", "epoch"))


class PropagatedRecorder(Recorder):
    max_propagation_depth = None


@pytest.fixture
def callbacks():
    pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks yet")


@every_estimator
def test_callback_sees_every_epoch_and_changes_nothing(estimator, digits, callbacks):
    recorder = Recorder()
    model = clone(estimator).set_params(n_iter=4).set_callbacks(recorder)
    model.fit(digits[:100])
    epoch = [("begin", "epoch"), ("end", "epoch")]
    fit = [("begin", "fit"), *(4 * epoch), ("end", "fit")]
    assert recorder.events == ["setup", *fit, "teardown"]
    assert_same_model(model, clone(estimator).set_params(n_iter=4).fit(digits[:100]))


@every_estimator
def test_callback_stops_at_the_model_of_its_epoch(estimator, digits, callbacks):
    estimator = clone(estimator).set_params(learning_rate_schedule="constant")
    recorder = Recorder(stop_at=2)
    model = clone(estimator).set_params(n_iter=6).set_callbacks(recorder)
    model.fit(digits[:100])
    assert recorder.n_epochs == model.n_iter_ == 2
    assert recorder.events[-2:] == [("end", "fit"), "teardown"]
    assert_same_model(model, clone(estimator).set_params(n_iter=2).fit(digits[:100]))


@every_estimator
def test_interrupt_leaves_the_model_of_its_epoch(estimator, digits, callbacks):
    estimator = clone(estimator).set_params(learning_rate_schedule="constant")
    recorder = Recorder(interrupt_at=2)
    model = clone(estimator).set_params(n_iter=6).set_callbacks(recorder)
    with pytest.raises(KeyboardInterrupt):
        model.fit(digits[:100])
    assert recorder.events[-1] == "teardown"
    assert_same_model(model, clone(estimator).set_params(n_iter=2).fit(digits[:100]))


@every_estimator
def test_callback_gets_a_fitted_estimator(estimator, digits, callbacks):
    estimator = clone(estimator).set_params(learning_rate_schedule="constant")
    recorder = Recorder(look=lambda fitted: outputs(fitted, digits[:50]))
    clone(estimator).set_params(n_iter=3).set_callbacks(recorder).fit(digits[:100])
    for n, seen in enumerate(recorder.seen, start=1):
        model = clone(estimator).set_params(n_iter=n).fit(digits[:100])
        assert_same(seen, outputs(model, digits[:50]))
    assert len(recorder.seen) == 3


@every_estimator
def test_estimator_kept_by_a_callback_stays_what_it_was(estimator, digits, callbacks):
    recorder = Recorder(look=lambda fitted: fitted)
    model = clone(estimator).set_callbacks(recorder).fit(digits[:100])
    for n, kept in enumerate(recorder.seen, start=1):
        assert kept.n_iter_ == n
        assert len(kept.history_["weight_norm"]) == n
    assert len(recorder.seen) == model.n_iter_


@every_estimator
def test_sampling_in_a_callback_changes_nothing(estimator, digits, callbacks):
    def draw(fitted):
        fitted.gibbs(digits[:5])
        fitted.sample(2, 2)

    model = clone(estimator).set_callbacks(Recorder(look=draw)).fit(digits[:100])
    wanted = clone(estimator).fit(digits[:100])
    assert_same_model(model, wanted)
    assert_same(model.gibbs(digits[:5]), wanted.gibbs(digits[:5]))


@every_estimator
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


def test_progress_bar(digits, callbacks, capsys):
    from sklearn.callback import ProgressBar

    pytest.importorskip("rich", reason="scikit-learn's progress bar needs it")
    model = clone(PUBLIC_ESTIMATORS[0]).set_callbacks(ProgressBar())
    assert model.fit(digits[:100]).n_iter_ == model.n_iter
