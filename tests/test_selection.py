"""The number of factors, and its picture."""

import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_ebm import ICA, FactorAnalysis, ProbabilisticPCA
from sklearn_ebm.factors import Selection, select_n_components


@pytest.fixture(scope="module")
def data():
    """500 rows of 9 features with 3 factors."""
    rng = np.random.default_rng(0)
    factors, loadings = rng.normal(size=(500, 3)), rng.normal(size=(3, 9))
    return factors @ loadings + rng.normal(size=(500, 9))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [FactorAnalysis(), ProbabilisticPCA()])
def test_as_many_factors_as_rows_are_warned_of(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2)) @ rng.normal(size=(2, 50)) + rng.normal(size=(20, 50))
    with pytest.warns(UserWarning, match="19 components in 20 rows.*criterion='cv'"):
        assert select_n_components(estimator, X, range(20)).n_components == 19
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert select_n_components(estimator, X, range(10)).n_components == 2
        held_out = select_n_components(estimator, X, range(10), criterion="cv")
    assert held_out.n_components < 4


@pytest.mark.parametrize("estimator", [FactorAnalysis(), ProbabilisticPCA()])
def test_finds_the_number_of_factors(estimator, data):
    selection = select_n_components(estimator, data, range(6))
    assert selection.n_components == 3
    assert selection.candidates == (0, 1, 2, 3, 4, 5)
    assert selection.criterion == "bic"
    held_out = select_n_components(estimator, data, range(6), criterion="cv")
    # One factor too many costs little on held-out rows, one too few costs much.
    assert held_out.n_components in (3, 4)
    assert held_out.scores.max() - held_out.scores[3] < held_out.errors[3]
    assert (held_out.scores[3] - held_out.scores[:3]).min() > 0.2


@pytest.mark.parametrize("estimator", [FactorAnalysis(), ProbabilisticPCA()])
def test_finds_the_number_of_factors_behind_missing_values(estimator, data):
    holes = np.where(np.random.default_rng(1).random(data.shape) < 0.1, np.nan, data)
    estimator.set_params(missing="latent")
    for criterion in ("bic", "cv"):
        found = select_n_components(estimator, holes, [1, 3], criterion=criterion)
        assert found.n_components == 3


def test_scores_are_what_they_say(data):
    model = FactorAnalysis(2).fit(data)
    bic = select_n_components(FactorAnalysis(), data, [2])
    n_parameters = 9 + 9 + 2 * 9 - 1
    wanted = 500 * model.score(data) - n_parameters / 2 * np.log(500)
    assert 500 * bic.scores[0] == pytest.approx(wanted, rel=1e-12)
    assert bic.errors == [0]
    pca = ProbabilisticPCA(2).fit(data)
    bic = select_n_components(ProbabilisticPCA(), data, [2])
    wanted = 500 * pca.score(data) - (n_parameters - 8) / 2 * np.log(500)
    assert 500 * bic.scores[0] == pytest.approx(wanted, rel=1e-12)
    cv = select_n_components(FactorAnalysis(), data, [1, 2], criterion="cv", cv=4)
    folds = cross_val_score(FactorAnalysis(2), data, cv=4)
    assert cv.scores[1] == pytest.approx(folds.mean(), rel=1e-12)
    assert cv.errors[1] == pytest.approx(folds.std(ddof=1) / 2, rel=1e-12)


@pytest.mark.filterwarnings("error")
def test_one_fold_has_no_standard_error(plt, data):
    from sklearn_ebm.factors.plotting import SelectionDisplay

    display = SelectionDisplay.from_estimator(
        FactorAnalysis(),
        data,
        [2, 3],
        criterion="cv",
        cv=ShuffleSplit(1, random_state=0),
    )
    assert np.isfinite(display.selection.scores).all()
    assert np.isnan(display.selection.errors).all()
    assert display.selection.n_components == 3
    display.figure_.canvas.draw()


@pytest.mark.parametrize("cv", [ShuffleSplit(3), KFold(3, shuffle=True)])
def test_all_candidates_see_the_same_folds(cv, data):
    found = select_n_components(
        ProbabilisticPCA(), data, [2, 2, 2], criterion="cv", cv=cv
    )
    assert len(set(found.scores)) == len(set(found.errors)) == 1


def test_splits_that_can_be_drawn_once_are_enough(data):
    wanted, found = (
        select_n_components(FactorAnalysis(), data, [1, 2], criterion="cv", cv=cv)
        for cv in (KFold(5), KFold(5).split(data))
    )
    np.testing.assert_array_equal(found.scores, wanted.scores)


@pytest.mark.parametrize("estimator", [ICA(random_state=0), PCA()])
def test_held_out_rows_compare_any_densities(estimator, data):
    found = select_n_components(estimator, data, [2, 3], criterion="cv")
    assert np.isfinite(found.scores).all()
    wanted = (
        r"estimator must be FactorAnalysis or ProbabilisticPCA, .*'bic', got (IC|P)"
    )
    with pytest.raises(TypeError, match=wanted):
        select_n_components(estimator, data, [2, 3])


def test_wrong_arguments(data):
    pipeline = make_pipeline(StandardScaler(), FactorAnalysis())
    for criterion in ("bic", "cv"):
        with pytest.raises(TypeError, match="estimator must be .*got Pipeline"):
            select_n_components(pipeline, data, [1], criterion=criterion)
    with pytest.raises(TypeError, match="candidates must be several .*, got 3"):
        select_n_components(FactorAnalysis(), data, 3)
    with pytest.raises(ValueError, match="criterion must be 'bic' or 'cv', got 'aic'"):
        select_n_components(FactorAnalysis(), data, [1], criterion="aic")
    with pytest.raises(ValueError, match="candidates must have at least one"):
        select_n_components(FactorAnalysis(), data, [])
    with pytest.raises(TypeError, match="X of dtype datetime64"):
        select_n_components(FactorAnalysis(), data.astype("M8[s]"), [1])
    for cv in ([], iter([]), {}):
        with pytest.raises(ValueError, match="cv must have at least one split, got"):
            select_n_components(FactorAnalysis(), data, [1], criterion="cv", cv=cv)
    for bad in (-1, 1.5, "2"):
        with pytest.raises((TypeError, ValueError), match=r"candidates must be an int"):
            select_n_components(FactorAnalysis(), data, [bad])


def test_display_draws_the_scores(plt, data):
    from sklearn_ebm.factors.plotting import SelectionDisplay

    for criterion in ("bic", "cv"):
        display = SelectionDisplay.from_estimator(
            FactorAnalysis(), data, [4, 2, 3], criterion=criterion, cv=3
        )
        x, y = display.errorbar_.lines[0].get_data()
        scores = dict(zip(display.selection.candidates, display.selection.scores))
        np.testing.assert_array_equal(x, [2, 3, 4])
        np.testing.assert_array_equal(y, [scores[q] for q in (2, 3, 4)])
        assert set(display.line_.get_xdata()) == {3}
        assert display.errorbar_.has_yerr == (criterion == "cv")
        assert "nats a row" in display.ax_.get_ylabel()
    _, ax = plt.subplots()
    selection = Selection((1, 2), np.array([0.0, 1.0]), np.zeros(2), "bic")
    display = SelectionDisplay(selection).plot(ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
