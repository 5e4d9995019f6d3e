"""Displays: what they draw is what the model says."""

import sys

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from sklearn_ebm import (
    ICA,
    BernoulliRBM,
    DBMClassifier,
    DBMTransformer,
    DBNClassifier,
    DBNRegressor,
    DBNTransformer,
    GaussianRBM,
    RBMClassifier,
    SparseCoding,
)
from sklearn_ebm.factors.plotting import SelectionDisplay
from sklearn_ebm.likelihood import log_partition
from sklearn_ebm.plotting import (
    AnnealingDisplay,
    FiltersDisplay,
    SamplesDisplay,
    TrainingDisplay,
)
from sklearn_ebm.samplers import Gibbs


@pytest.fixture(scope="module")
def rbm():
    X = np.random.default_rng(0).random((50, 6)) < 0.4
    return BernoulliRBM(7, n_iter=4, learning_rate=0.5, random_state=0).fit(X)


def cells(display, height, width):
    """The images in a mosaic, (n_rows, n_columns, height, width)."""
    mosaic = np.ma.filled(display.im_.get_array().astype(float), np.nan)
    padded = np.pad(mosaic, ((0, 1), (0, 1)), constant_values=np.nan)
    n_rows, n_columns = padded.shape[0] // (height + 1), padded.shape[1] // (width + 1)
    grid = padded.reshape(n_rows, height + 1, n_columns, width + 1).swapaxes(1, 2)
    # What is between them is empty.
    assert np.isnan(grid[:, :, height:]).all()
    assert np.isnan(grid[:, :, :, width:]).all()
    return grid[:, :, :height, :width]


def points(container):
    """Abscissae, values and half lengths of error bars."""
    line, _, (bars,) = container.lines
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    return line.get_xdata(), line.get_ydata(), np.diff(ends)[:, 0] / 2


# ---- Training ----


def test_training_draws_a_curve_for_every_key(plt, rbm):
    display = TrainingDisplay.from_estimator(rbm, keys=["weight_norm", "seconds"])
    for line, key in zip(display.lines_, ["weight_norm", "seconds"]):
        np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
        np.testing.assert_array_equal(line.get_ydata(), rbm.history_[key])
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["weight norm", "seconds"]


def test_training_draws_scores_if_there_are_any(plt):
    norms = {"weight_norm": [1.0, 2.0]}
    assert TrainingDisplay(norms).plot().ax_.get_ylabel() == "weight norm"
    scored = norms | {"pseudo_likelihood": [np.nan, -3.0]}
    display = TrainingDisplay(scored).plot()
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_ydata(), scored["pseudo_likelihood"])
    assert display.ax_.get_ylabel() == "pseudo likelihood (nats a row)"
    both = scored | {"validation_pseudo_likelihood": [-5.0, -4.0]}
    assert len(TrainingDisplay(both).plot().lines_) == 2


def test_training_draws_the_history_of_any_estimator(plt):
    X = np.random.default_rng(0).normal(size=(20, 3))
    classes = np.arange(20) % 2
    for model, key in [
        (DBNClassifier((2,), pretrain=False, n_iter=2), "loss"),
        (DBNRegressor((2,), pretrain=False, n_iter=2), "loss"),
        (RBMClassifier(2, n_iter=2), "log_likelihood"),
        (SparseCoding(2, max_iter=2, tol=0), "objective"),
        (ICA(2, max_iter=30, random_state=0), "log_likelihood"),
        (DBMTransformer((2,), n_iter=2, pretrain_n_iter=0), "weight_norm"),
    ]:
        model.fit(np.abs(X) / np.abs(X).max(), classes)
        (line,) = TrainingDisplay.from_estimator(model).lines_
        np.testing.assert_array_equal(line.get_ydata(), model.history_[key])
    with pytest.raises(ValueError, match=r"no \['weight_norm'\], only \['age'\]"):
        TrainingDisplay({"age": [1, 2]}).plot()


def test_training_names_keys_it_does_not_know(rbm):
    with pytest.raises(ValueError, match=r"no \['loss'\], only .*weight_norm"):
        TrainingDisplay.from_estimator(rbm, keys="loss")


# ---- Images ----


def test_filters_are_the_weights_of_the_chosen_units(plt, rbm):
    display = FiltersDisplay.from_estimator(rbm, shape=(2, 3), units=[4, 0, 2])
    grid = cells(display, 2, 3).reshape(4, 6)
    np.testing.assert_array_equal(grid[:3], rbm.components_[[4, 0, 2]])
    assert np.isnan(grid[3]).all()
    low, high = display.im_.get_clim()
    assert high == -low == np.abs(rbm.components_[[4, 0, 2]]).max()


def test_filters_of_a_deep_model_are_its_lowest_weights(plt):
    X = np.random.default_rng(0).random((20, 6)) < 0.4
    for sizes in [(4,), (4, 3), (6, 4)]:
        model = DBMTransformer(sizes, n_iter=1, pretrain_n_iter=0).fit(X)
        for deep in (model, DBNTransformer(sizes, n_iter=1).fit(X)):
            display = FiltersDisplay.from_estimator(deep, shape=(2, 3))
            np.testing.assert_array_equal(display.components, deep.components_[0])
            assert len(display.units_) == sizes[0]


def test_filters_of_a_net_that_also_sees_classes_are_those_of_the_features(plt):
    X = np.random.default_rng(0).random((20, 6)) < 0.4
    net = DBMClassifier(
        (4, 3), objective="multi_prediction", n_iter=1, pretrain_n_iter=1
    ).fit(X, np.arange(20) % 3)
    assert net.components_[0].shape == (4, 9)
    display = FiltersDisplay.from_estimator(net, shape=(2, 3))
    np.testing.assert_array_equal(display.components, net.components_[0][:, :6])


def test_filters_of_codes_have_a_pixel_a_category(plt):
    X = np.random.default_rng(0).integers(0, 3, (60, 4)).astype(float)
    deep = DBNTransformer((5, 3), visible="categorical", n_iter=1).fit(X)
    display = FiltersDisplay.from_estimator(deep, shape=(4, 3))
    np.testing.assert_array_equal(display.components, deep.components_[0])


def test_filters_of_the_strongest_units(plt, rbm):
    norms = np.linalg.norm(rbm.components_, axis=1)
    display = FiltersDisplay.from_estimator(rbm, shape=(1, 6), units=4)
    assert list(display.units_) == list(np.argsort(-norms)[:4])
    grid = cells(display, 1, 6).reshape(4, 6)
    np.testing.assert_array_equal(grid, rbm.components_[display.units_])
    # No more than there are.
    assert len(FiltersDisplay(rbm.components_, shape=(6, 1)).plot().units_) == 7


def test_images_are_square_unless_told(plt, rbm):
    display = FiltersDisplay(np.arange(18.0).reshape(2, 9)).plot(units=[0, 1])
    np.testing.assert_array_equal(cells(display, 3, 3).ravel(), np.arange(18))
    with pytest.raises(ValueError, match="6 features do not make.*shape="):
        FiltersDisplay.from_estimator(rbm)
    with pytest.raises(ValueError, match=r"6 features do not make.*\(2, 2\)"):
        SamplesDisplay.from_estimator(rbm, shape=(2, 2))


def test_samples_are_states_of_chains_after_these_steps(plt, rbm):
    steps = [0, 1, 5]
    display = SamplesDisplay.from_estimator(
        rbm, n_chains=4, steps=steps, shape=(3, 2), random_state=1
    )
    sampler = Gibbs(rbm)
    start = sampler.init(4, random_state=1)
    grid = cells(display, 3, 2)
    for column, n_steps in enumerate(steps):
        wanted = sampler.step(start, n_steps).visible
        np.testing.assert_array_equal(grid[:, column].reshape(4, 6), wanted)
    labels = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert labels == ["0", "1", "5"]


def test_samples_of_a_deep_machine_are_its_visible_units(plt):
    X = np.random.default_rng(0).random((20, 6)) < 0.4
    dbm = DBMTransformer((4, 3), n_iter=1, pretrain_n_iter=0).fit(X)
    display = SamplesDisplay.from_estimator(
        dbm, n_chains=4, steps=[0, 5], shape=(3, 2), random_state=1
    )
    sampler = Gibbs(dbm)
    wanted = sampler.step(sampler.init(4, random_state=1), 5).visible
    grid = cells(display, 3, 2)
    np.testing.assert_array_equal(grid[:, 1].reshape(4, 6), wanted[:, :6])


def test_samples_from_given_starts_and_conditions(plt, rbm):
    init = np.random.default_rng(2).random((3, 6))
    conditions = [1, 0, np.nan, np.nan, np.nan, np.nan]
    display = SamplesDisplay.from_estimator(
        rbm, init=init, conditions=conditions, shape=(1, 6), random_state=1
    )
    assert display.images.shape == (3, 8, 6)
    np.testing.assert_array_equal(display.images[:, 0, 2:], init[:, 2:])
    assert (display.images[:, :, :2] == [1, 0]).all()
    display = SamplesDisplay.from_estimator(rbm, shape=(1, 6), conditions=conditions)
    assert display.images.shape == (5, 8, 6)


def test_any_images_in_a_grid(plt):
    images = np.random.default_rng(0).random((5, 4))
    grid = cells(SamplesDisplay(images).plot(), 2, 2)
    assert grid.shape == (2, 3, 2, 2)
    np.testing.assert_array_equal(grid.reshape(6, 4)[:5], images)
    assert np.isnan(grid[1, 2]).all()


@pytest.mark.parametrize("add, ends", [(0, (0, 1)), (90, (90.25, 90.75)), (-1, None)])
def test_images_beyond_zero_and_one_are_seen(plt, add, ends):
    images = np.array([[0.25, 0.5], [0.75, 0.5]]) + add
    display = SamplesDisplay(images, shape=(1, 2)).plot()
    assert display.im_.get_clim() == (ends or (-0.75, -0.25))


def test_holes_in_images_are_left_empty(plt):
    images = np.array([[0.25, np.nan], [0.75, 0.5]])
    display = SamplesDisplay(images, shape=(1, 2)).plot()
    assert display.im_.get_clim() == (0, 1)
    np.testing.assert_array_equal(cells(display, 1, 2).reshape(2, 2), images)
    assert SamplesDisplay(images - 1, shape=(1, 2)).plot().im_.get_clim() == (
        -0.75,
        -0.25,
    )
    nothing = np.full((2, 2), np.nan)
    assert SamplesDisplay(nothing, shape=(1, 2)).plot().im_.get_clim() == (0, 1)
    display = FiltersDisplay(images - 1, shape=(1, 2)).plot()
    assert display.im_.get_clim() == (-0.75, 0.75)


@pytest.mark.parametrize("ticks", [[1, 2], None])
def test_ticks_that_the_user_has_chosen_stay(plt, rbm, ticks):
    _, ax = plt.subplots()
    if ticks:
        ax.set_xticks(ticks)
    else:
        ax.set_xscale("log")
    wanted = ax.xaxis.get_major_locator()
    TrainingDisplay.from_estimator(rbm, keys=["weight_norm"], ax=ax)
    assert ax.xaxis.get_major_locator() is wanted
    assert ax.get_ylabel() == "weight norm"


# ---- Annealing ----


def test_annealing_draws_both_directions_and_the_exact_value(plt, rbm):
    display = AnnealingDisplay.from_estimator(
        rbm, (5, 50), n_runs=20, random_state=np.random.RandomState(3)
    )
    # The same estimates, one after the other from one generator.
    rng = np.random.RandomState(3)
    wanted = [
        log_partition(rbm, "ais", betas=b, n_runs=20, random_state=rng) for b in (5, 50)
    ]
    x, values, errors = points(display.forward_)
    np.testing.assert_array_equal(x, [5, 50])
    np.testing.assert_array_equal(values, [r.forward for r in wanted])
    np.testing.assert_allclose(errors, [r.standard_error for r in wanted], rtol=1e-9)
    x, values, errors = points(display.reverse_)
    np.testing.assert_array_equal(values, [r.reverse for r in wanted])
    np.testing.assert_allclose(
        errors, [r.reverse_standard_error for r in wanted], rtol=1e-9
    )
    assert display.exact_.get_ydata()[0] == float(log_partition(rbm))
    assert display.ax_.get_xscale() == "log"


def test_annealing_without_what_is_not_known(plt):
    rng = np.random.default_rng(0)
    large = BernoulliRBM(30, n_iter=1, random_state=0).fit(rng.random((20, 28)) < 0.5)
    assert AnnealingDisplay.from_estimator(large, (5,), n_runs=5).exact_ is None
    forward = log_partition(large, "ais", betas=5, n_runs=5, reverse=False)
    assert AnnealingDisplay([forward]).plot().reverse_ is None


# ---- All of them ----


def every_display(rbm):
    return [
        TrainingDisplay(rbm.history_),
        FiltersDisplay(rbm.components_, shape=(2, 3)),
        SamplesDisplay(rbm.components_, shape=(2, 3)),
        AnnealingDisplay([log_partition(rbm, "ais", betas=5, n_runs=5)]),
    ]


def test_displays_draw_where_they_are_told(plt, rbm):
    for display in every_display(rbm):
        figure, axes = plt.subplots(1, 2)
        assert display.plot(ax=axes[1]) is display
        assert display.ax_ is axes[1]
        assert display.figure_ is figure
        assert not axes[0].has_data()
        figure.canvas.draw()
        # And on a figure of their own.
        assert display.plot().figure_ is not figure


def test_matplotlib_is_asked_for_when_it_is_needed(rbm, monkeypatch):
    displays = every_display(rbm)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for display in displays:
        with pytest.raises(ImportError, match=r"pip install '\.\[plots\]'"):
            display.plot()


# ---- What is at the edge ----


def test_single_numbers_are_seen(plt):
    nan = float("nan")
    display = TrainingDisplay({"weight_norm": [1.0, nan, 2.0, 3.0]}).plot()
    (line,) = display.lines_
    assert line.get_marker() == "o"
    assert line.get_markevery() == [0]
    (line,) = TrainingDisplay({"weight_norm": [1.0, 2.0]}).plot().lines_
    assert line.get_marker() == "None"


@pytest.mark.parametrize(
    "display, named",
    [
        (TrainingDisplay.from_estimator, "history_"),
        (FiltersDisplay.from_estimator, "components_"),
        (lambda model: SamplesDisplay.from_estimator(model, steps=(1,)), "Boltzmann"),
        (lambda model: AnnealingDisplay.from_estimator(model, (10,)), "Boltzmann"),
    ],
)
def test_what_a_display_cannot_draw_is_named(plt, rbm, display, named):
    pipeline = make_pipeline(rbm)
    with pytest.raises(TypeError, match=rf"{named}.* Pipeline"):
        display(pipeline)


@pytest.mark.parametrize("units", [0, -1, 2.5, [], [99], [0.5], [[0, 1]]])
def test_filters_refuse_units_that_are_not_there(plt, rbm, units):
    with pytest.raises((ValueError, TypeError), match="units"):
        FiltersDisplay.from_estimator(rbm, units=units, shape=(2, 3))


def test_filters_of_a_mask_of_units(plt, rbm):
    mask = np.arange(7) % 2 == 0
    display = FiltersDisplay.from_estimator(rbm, units=mask, shape=(2, 3))
    assert list(display.units_) == [0, 2, 4, 6]


@pytest.mark.parametrize("shape", [6, (2, 3, 1), (2, 2), (2.0, 3.0), (-2, -3)])
def test_images_of_another_shape_are_refused(plt, rbm, shape):
    with pytest.raises(ValueError, match="6 features do not make an image"):
        FiltersDisplay.from_estimator(rbm, shape=shape)


@pytest.mark.parametrize("steps", [(1.5, 2), (5, 3), (-1, 2)])
def test_samples_after_steps_that_cannot_be_are_refused(plt, rbm, steps):
    with pytest.raises((ValueError, TypeError), match="steps"):
        SamplesDisplay.from_estimator(rbm, steps=steps, shape=(2, 3))


@pytest.mark.parametrize("steps", [[], 5, None])
def test_samples_after_no_list_of_steps_are_refused(plt, rbm, steps):
    with pytest.raises(ValueError, match=r"steps must be a list .* got"):
        SamplesDisplay.from_estimator(rbm, steps=steps, shape=(2, 3))


@pytest.mark.parametrize("steps", [[1, 2], 5, range(4)])
def test_steps_name_every_column(plt, steps):
    with pytest.raises(ValueError, match="steps must name the 3 columns"):
        SamplesDisplay(np.ones((2, 3, 4)), steps=steps).plot()


@pytest.mark.parametrize("rows", [np.ones(4), np.ones((0, 4)), 1.0, "abcd", [[1], []]])
def test_what_is_no_image_is_refused(plt, rows):
    with pytest.raises(ValueError, match=r"images must be .*\(n_images, n_features\)"):
        SamplesDisplay(rows).plot()
    wanted = r"components must be .*\(n_components, n_features\)"
    for components in (rows, np.ones((1, 1, 4))):
        with pytest.raises(ValueError, match=wanted):
            FiltersDisplay(components).plot()
    assert not plt.get_fignums()


@pytest.mark.parametrize("nothing", [None, 3, [], "history", BernoulliRBM()])
def test_what_is_no_data_of_a_display_is_named(plt, nothing):
    for display, name in [
        (TrainingDisplay, "history"),
        (FiltersDisplay, "components"),
        (SamplesDisplay, "images"),
        (AnnealingDisplay, "results"),
        (SelectionDisplay, "selection"),
    ]:
        with pytest.raises(ValueError, match=f"{name} must be .*"):
            display(nothing).plot()
    assert not plt.get_fignums()


@pytest.mark.parametrize("nothing", [None, 3, {}, "model"])
def test_what_is_no_estimator_is_refused(plt, nothing):
    for display in (TrainingDisplay, FiltersDisplay, SamplesDisplay, AnnealingDisplay):
        with pytest.raises(TypeError, match="is not an estimator|takes a Boltzmann"):
            display.from_estimator(nothing)
    with pytest.raises(TypeError, match="estimator must be FactorAnalysis"):
        SelectionDisplay.from_estimator(nothing, np.eye(4), [1])
    assert not plt.get_fignums()


@pytest.mark.parametrize("keys", [3, [], ()])
def test_training_without_keys_is_refused(plt, rbm, keys):
    with pytest.raises(ValueError, match="keys must be a list of names"):
        TrainingDisplay.from_estimator(rbm, keys=keys)
    assert not plt.get_fignums()


def test_annealing_draws_nothing_else(plt, rbm):
    others = {
        "exact": log_partition(rbm),
        "tempering": log_partition(rbm, "tempering", n_runs=10, betas=40),
        "float": 1.0,
    }
    for name, other in others.items():
        with pytest.raises(ValueError, match=f"results must .*'ais', got '{name}'"):
            AnnealingDisplay([other]).plot()
    for results in ([], others["exact"]):
        with pytest.raises(ValueError, match="results must be a list of LogPartition"):
            AnnealingDisplay(results).plot()
    for betas in ([], None, 2.5):
        with pytest.raises(ValueError, match="betas must be a list of"):
            AnnealingDisplay.from_estimator(rbm, betas)
    assert not plt.get_fignums()


def test_annealing_of_one_number_of_temperatures(plt, rbm):
    for betas in (5, np.int64(5)):
        display = AnnealingDisplay.from_estimator(rbm, betas, n_runs=5)
        assert [result.settings["n_betas"] for result in display.results] == [5]


def test_annealing_of_other_units(plt):
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = GaussianRBM(2, n_iter=1, random_state=0).fit(X)
    display = AnnealingDisplay.from_estimator(model, (10, 20), n_runs=5)
    assert display.exact_.get_ydata()[0] == float(log_partition(model))
    # Too many states for the exact value of other units than bits.
    model = GaussianRBM(21, n_iter=1, random_state=0).fit(X)
    display = AnnealingDisplay.from_estimator(model, (10, 20), n_runs=5)
    assert display.exact is None
