"""Displays: figures of how a model was trained, what it learned and what it draws.

They are made like those of scikit-learn: a display holds the data of a figure,
`plot` draws it, and `from_estimator` computes the data and draws.
"""

from collections.abc import Mapping
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ._enumeration import can_enumerate
from ._validation import check_count, dense
from .likelihood import LogPartition, log_partition
from .samplers import Gibbs
from .samplers._models import layered_of, layers_of

__all__ = ["AnnealingDisplay", "FiltersDisplay", "SamplesDisplay", "TrainingDisplay"]

# What `TrainingDisplay` draws if it is there: nats a row, larger is better.
SCORES = ("pseudo_likelihood", "validation_pseudo_likelihood")
# What a training is to improve: the first of these that is there is drawn otherwise.
OBJECTIVES = ("log_likelihood", "loss", "objective", "score_matching")
# What is measured in nats a row.
NATS = (*SCORES, "log_likelihood", "free_energy_gap")


class TrainingDisplay:
    """How the training of a model went, epoch by epoch.

    Parameters
    ----------
    history : dict of list
        Values for every epoch, by name, such as `history_` of a fitted model.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.

    figure_ : matplotlib Figure
        The figure these axes are in.

    lines_ : list of matplotlib Line2D
        The curves, in the order of the keys.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import BernoulliRBM
    >>> from sklearn_ebm.plotting import TrainingDisplay
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> rbm = BernoulliRBM(n_components=2, random_state=0).fit(X)
    >>> display = TrainingDisplay.from_estimator(rbm, keys=["weight_norm"])
    >>> len(display.lines_)
    1
    """

    def __init__(self, history):
        self.history = history

    @classmethod
    def from_estimator(cls, estimator, *, keys=None, ax=None):
        """Draw the history of a fitted model.

        Parameters
        ----------
        estimator : estimator
            A fitted model with a `history_`.

        keys : str or list of str, default=None
            As for `plot`.

        ax : matplotlib Axes, default=None
            As for `plot`.

        Returns
        -------
        display : TrainingDisplay
            What was drawn.

        Raises
        ------
        NotFittedError
            If the model is not fitted.

        TypeError
            If it is no estimator, or has no `history_`.

        ValueError, ImportError
            As in `plot`.
        """
        history = _fitted(cls, estimator, "history_")
        return cls(history).plot(keys=keys, ax=ax)

    def plot(self, ax=None, *, keys=None):
        """Draw a curve for each of some keys of the history.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        keys : str or list of str, default=None
            Which values to draw. None draws the pseudo-likelihoods that the history
            holds or, if there are none, what the training is to improve (such as the
            loss) or, if that is not known, the norm of the weights.

        Returns
        -------
        self : TrainingDisplay
            What was drawn.

        Raises
        ------
        ValueError
            If `history` is no dict, or `keys` is empty or has names that it does not
            have.

        ImportError
            If matplotlib is not installed.
        """
        if not isinstance(self.history, Mapping):
            raise ValueError(
                "history must be a dict of lists, such as the history_ of a fitted "
                f"model, got {self.history!r}."
            )
        if keys is None:
            keys = [key for key in SCORES if key in self.history]
            keys = keys or [key for key in OBJECTIVES if key in self.history][:1]
            keys = keys or ["weight_norm"]
        keys = _several([keys] if isinstance(keys, str) else keys, "keys", "names")
        unknown = [key for key in keys if key not in self.history]
        if unknown:
            raise ValueError(
                f"The history has no {unknown}, only {sorted(self.history)}."
            )
        self.figure_, self.ax_ = _axes(ax)
        self.lines_ = []
        for key in keys:
            values = self.history[key]
            epochs = np.arange(1, len(values) + 1)
            # (A line through one number cannot be seen.)
            seen = np.isfinite(values)
            alone = seen & ~np.r_[False, seen[:-1]] & ~np.r_[seen[1:], False]
            self.lines_ += self.ax_.plot(
                epochs,
                values,
                label=_label(key),
                marker="o" if alone.any() else None,
                markevery=np.flatnonzero(alone).tolist(),
            )
        self.ax_.set_xlabel("epoch")
        _whole_ticks(self.ax_.xaxis)
        if len(keys) == 1:
            self.ax_.set_ylabel(_label(keys[0]))
        else:
            self.ax_.legend()
        return self


class FiltersDisplay:
    """The weights of hidden units as images, one colour scale for all.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Weights, a row for every hidden unit.

    shape : tuple of int or None, default=None
        Height and width of an image; None means that it is square.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.

    figure_ : matplotlib Figure
        The figure these axes are in.

    im_ : matplotlib AxesImage
        All images as one.

    colorbar_ : matplotlib Colorbar
        The colour scale, symmetric about zero.

    units_ : ndarray of int
        Which units were drawn, row by row.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import BernoulliRBM
    >>> from sklearn_ebm.plotting import FiltersDisplay
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> rbm = BernoulliRBM(n_components=2, random_state=0).fit(X)
    >>> display = FiltersDisplay.from_estimator(rbm, shape=(1, 3), units=[1])
    >>> display.im_.get_array().shape
    (1, 3)
    """

    def __init__(self, components, *, shape=None):
        self.components = components
        self.shape = shape

    @classmethod
    def from_estimator(cls, estimator, *, shape=None, units=64, ax=None):
        """Draw the weights of a fitted model.

        Parameters
        ----------
        estimator : estimator
            A fitted model with `components_`. Of several matrices of weights, as deep
            models have them, the lowest is drawn.

        shape : tuple of int, default=None
            Height and width of an image; None means that it is square.

        units : int or array-like of int, default=64
            As for `plot`.

        ax : matplotlib Axes, default=None
            As for `plot`.

        Returns
        -------
        display : FiltersDisplay
            What was drawn.

        Raises
        ------
        NotFittedError
            If the model is not fitted.

        TypeError
            If it is no estimator, or has no `components_`; or as in `plot`.

        ValueError, ImportError
            As in `plot`.
        """
        components = _fitted(cls, estimator, "components_")
        if isinstance(components, list):
            components = components[0]
            if hasattr(estimator, "classes_"):
                # (A net that predicts its features and classes alike has these last.)
                components = components[:, : estimator.n_features_in_]
        return cls(components, shape=shape).plot(ax, units=units)

    def plot(self, ax=None, *, units=64):
        """Draw the weights of some hidden units.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        units : int or array-like of int, default=64
            Indices of hidden units, or how many: those whose weights have the
            largest norms, the largest first.

        Returns
        -------
        self : FiltersDisplay
            What was drawn.

        Raises
        ------
        ValueError
            If `units` are less than 1, or not indices of hidden units; `components` are
            no matrix of numbers; or the features do not make an image of `shape`.

        TypeError
            If `units` is a single number, but no integer.

        ImportError
            If matplotlib is not installed.
        """
        components = _array(
            self.components, "components", ("n_components", "n_features")
        )
        if np.ndim(units) == 0:
            units = check_count(units, "units", least=1)
            norms = np.linalg.norm(components, axis=1)
            units = np.argsort(-norms, kind="stable")[:units]
        try:
            self.units_ = np.arange(len(components))[np.asarray(units)]
        except IndexError as error:
            raise ValueError(
                f"units must be indices of the {len(components)} hidden units, or how "
                f"many of them, got {units!r}."
            ) from error
        if self.units_.ndim != 1 or not len(self.units_):
            raise ValueError(
                f"units must name at least one hidden unit, in one row, got {units!r}."
            )
        filters = components[self.units_]
        limit = np.abs(filters[np.isfinite(filters)]).max(initial=0)
        images = _folded(filters, self.shape)
        _draw_images(self, images, ax, cmap="RdBu_r", vmin=-limit, vmax=limit)
        self.colorbar_ = self.figure_.colorbar(self.im_, ax=self.ax_, label="weight")
        return self


class SamplesDisplay:
    """Images in a grid, such as states of chains: a row for each, time to the right.

    Parameters
    ----------
    images : array-like of shape (n_rows, n_columns, n_features) or \
            (n_images, n_features)
        Values, drawn from 0 (white) to 1 (black) or, if some are not between these,
        from the smallest to the largest; NaN is left empty. Without rows and columns
        the images are put in as many rows as columns, about.

    steps : array-like of shape (n_columns,) or None, default=None
        Names of the columns, such as the numbers of steps the chains have made.

    shape : tuple of int or None, default=None
        Height and width of an image; None means that it is square.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.

    figure_ : matplotlib Figure
        The figure these axes are in.

    im_ : matplotlib AxesImage
        All images as one.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import BernoulliRBM
    >>> from sklearn_ebm.plotting import SamplesDisplay
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> rbm = BernoulliRBM(n_components=2, random_state=0).fit(X)
    >>> display = SamplesDisplay.from_estimator(
    ...     rbm, n_chains=4, steps=[0, 10, 100], shape=(1, 3), random_state=0
    ... )
    >>> display.images.shape
    (4, 3, 3)
    """

    def __init__(self, images, *, steps=None, shape=None):
        self.images = images
        self.steps = steps
        self.shape = shape

    @classmethod
    def from_estimator(
        cls,
        estimator,
        *,
        n_chains=None,
        steps=(0, 1, 3, 10, 30, 100, 300, 1000),
        init=None,
        conditions=None,
        shape=None,
        random_state=None,
        ax=None,
    ):
        """Run Gibbs chains of a fitted model and draw their visible units.

        Parameters
        ----------
        estimator : estimator or Layered
            A fitted Boltzmann machine. Of the layers of a deep one the visible one is
            drawn; in `init` and `conditions` the other even layers follow it, as for
            `sklearn_ebm.samplers.Gibbs`.

        n_chains : int, default=None
            Number of chains; None means the rows of `init` or `conditions`, or
            else 5.

        steps : array-like of int, default=(0, 1, 3, 10, 30, 100, 300, 1000)
            After how many steps to look at the chains, ascending.

        init : array-like of shape (n_chains, n_features), default=None
            Values to start from, by sweeps alone; None is what it is for
            `sklearn_ebm.samplers.Gibbs.init`.

        conditions : array-like of shape (n_features,) or (n_chains, n_features), \
                default=None
            0 or 1 for units that keep this value, NaN for the others.

        shape : tuple of int, default=None
            Height and width of an image; None means that it is square.

        random_state : int, RandomState instance or None, default=None
            Seeds the chains.

        ax : matplotlib Axes, default=None
            As for `plot`.

        Returns
        -------
        display : SamplesDisplay
            What was drawn.

        Raises
        ------
        NotFittedError
            If the model is an estimator that is not fitted.

        TypeError
            As in `sklearn_ebm.samplers.Gibbs` and its `init`; or if a step is no
            integer.

        ValueError
            As there; or if `steps` are none at all, negative, or fall, or the visible
            units do not make an image of `shape`.

        ImportError
            If matplotlib is not installed.

        Warns
        -----
        UserWarning
            If all units are Bernoulli units, and `init` has values outside [0, 1].
        """
        if n_chains is None and init is None and np.ndim(conditions) < 2:
            n_chains = 5
        steps = _several(steps, "steps", "numbers of steps")
        steps = [check_count(step, "steps", least=0) for step in steps]
        if steps != sorted(steps):
            raise ValueError(f"steps must be numbers that do not fall, got {steps}.")
        sampler = Gibbs(estimator)
        chains = sampler.init(
            n_chains, init=init, conditions=conditions, random_state=random_state
        )
        n_visible, images = len(layered_of(estimator).biases[0]), []
        for n_steps in np.diff(steps, prepend=0):
            chains = sampler.step(chains, n_steps)
            images.append(dense(chains.visible)[:, :n_visible])
        return cls(np.stack(images, axis=1), steps=steps, shape=shape).plot(ax)

    def plot(self, ax=None):
        """Draw the images.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        self : SamplesDisplay
            What was drawn.

        Raises
        ------
        ValueError
            If `images` are no numbers in one of these shapes, `steps` do not name every
            column, or the features do not make an image of `shape`.

        ImportError
            If matplotlib is not installed.
        """
        images = _array(
            self.images,
            "images",
            ("n_rows", "n_columns", "n_features"),
            ("n_images", "n_features"),
        )
        seen = images[np.isfinite(images)]
        low, high = seen.min(initial=0), seen.max(initial=1)
        if low < 0 or high > 1:
            low, high = seen.min(), seen.max()
        images = _folded(images, self.shape)
        n_columns = images.shape[1]
        if self.steps is not None and np.shape(self.steps) != (n_columns,):
            raise ValueError(
                f"steps must name the {n_columns} columns of images, got "
                f"{self.steps!r}."
            )
        _draw_images(self, images, ax, cmap="gray_r", vmin=low, vmax=high)
        if self.steps is not None:
            width = images.shape[-1]
            centres = np.arange(n_columns) * (width + 1) + (width - 1) / 2
            self.ax_.set_xticks(centres, [str(step) for step in self.steps])
            self.ax_.tick_params(length=0)
        return self


class AnnealingDisplay:
    """Forward and reverse annealed importance sampling with more and more effort.

    Estimates of log Z over the number of temperatures, with error bars of one
    standard error.

    Parameters
    ----------
    results : list of LogPartition
        Results of `sklearn_ebm.likelihood.log_partition` with ``method="ais"``.

    exact : float or LogPartition or None, default=None
        Logarithm of Z, if it is known.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.

    figure_ : matplotlib Figure
        The figure these axes are in.

    forward_, reverse_ : matplotlib ErrorbarContainer
        The estimates; `reverse_` is None if there are none.

    exact_ : matplotlib Line2D or None
        The line at the exact value.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import BernoulliRBM
    >>> from sklearn_ebm.plotting import AnnealingDisplay
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> rbm = BernoulliRBM(n_components=2, random_state=0).fit(X)
    >>> display = AnnealingDisplay.from_estimator(rbm, (10, 30), random_state=0)
    >>> [result.settings["n_betas"] for result in display.results]
    [10, 30]
    """

    def __init__(self, results, *, exact=None):
        self.results = results
        self.exact = exact

    @classmethod
    def from_estimator(
        cls,
        estimator,
        betas=(100, 300, 1000, 3000),
        *,
        n_runs=100,
        random_state=None,
        ax=None,
    ):
        """Estimate log Z several times and draw the estimates.

        If a layer is small enough (at most 26 units, or 2^20 states where not all units
        are Bernoulli units), log Z is also computed exactly; the time this takes
        doubles with every unit.

        Parameters
        ----------
        estimator : estimator or Layered
            A fitted restricted Boltzmann machine.

        betas : list, default=(100, 300, 1000, 3000)
            Numbers of temperatures, or whatever else `log_partition` takes for
            `betas`; one estimate for each. A number alone is a list of one.

        n_runs : int, default=100
            Number of runs of every estimate.

        random_state : int, RandomState instance or None, default=None
            Seeds the runs, which are independent of each other.

        ax : matplotlib Axes, default=None
            As for `plot`.

        Returns
        -------
        display : AnnealingDisplay
            What was drawn.

        Raises
        ------
        NotFittedError, TypeError
            As in `sklearn_ebm.likelihood.log_partition`.

        ValueError
            As there; or if `betas` is empty.

        ImportError
            If matplotlib is not installed.
        """
        betas = [betas] if isinstance(betas, (Integral, str)) else betas
        betas = _several(betas, "betas", "numbers of temperatures")
        rng = check_random_state(random_state)
        results = [
            log_partition(estimator, "ais", betas=b, n_runs=n_runs, random_state=rng)
            for b in betas
        ]
        exact = None
        if can_enumerate(layers_of(estimator)):
            exact = log_partition(estimator)
        return cls(results, exact=exact).plot(ax)

    def plot(self, ax=None):
        """Draw the estimates.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        self : AnnealingDisplay
            What was drawn.

        Raises
        ------
        ValueError
            If `results` are none, or hold anything but what `log_partition` returns
            with ``method="ais"``.

        ImportError
            If matplotlib is not installed.
        """
        results = self._annealed()
        self.figure_, self.ax_ = _axes(ax)
        self.forward_ = self._bars(
            [(r, r.forward, r.standard_error) for r in results],
            marker="^",
            label="forward",
        )
        backward = [
            (r, r.reverse, r.reverse_standard_error)
            for r in results
            if r.reverse is not None
        ]
        self.reverse_ = self.exact_ = None
        if backward:
            self.reverse_ = self._bars(backward, marker="v", label="reverse")
        if self.exact is not None:
            self.exact_ = self.ax_.axhline(
                float(self.exact), color="black", ls="--", lw=1, label="exact"
            )
        self.ax_.set(xscale="log", xlabel="temperatures", ylabel="log Z (nats)")
        self.ax_.legend()
        return self

    def _annealed(self):
        """Results, after a check: others have neither temperatures nor two ends."""
        results = _several(self.results, "results", "LogPartition")
        for result in results:
            known = isinstance(result, LogPartition)
            found = result.method if known else type(result).__name__
            if not known or found != "ais":
                raise ValueError(
                    "results must be what log_partition returns with method='ais', "
                    f"got {found!r}."
                )
        return results

    def _bars(self, points, **style):
        results, values, errors = zip(*points, strict=True)
        n_betas = [result.settings["n_betas"] for result in results]
        return self.ax_.errorbar(n_betas, values, errors, capsize=3, **style)


# ---- What they share ----


def _several(values, name, what):
    """List what an argument holds, which must be something."""
    try:
        found = list(values)
    except TypeError:
        found = []
    if not found:
        raise ValueError(f"{name} must be a list of {what}, not empty, got {values!r}.")
    return found


def _array(values, name, *shapes):
    """Return an array of floats, not empty, of one of some shapes in words."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        array = np.empty(0)
    if not array.size or array.ndim not in map(len, shapes):
        wanted = " or ".join(f"({', '.join(shape)})" for shape in shapes)
        raise ValueError(
            f"{name} must be numbers in shape {wanted}, not empty, got {values!r}."
        )
    return array


def _fitted(display, estimator, name):
    """Return an attribute of a fitted model for a display."""
    check_is_fitted(estimator)
    if not hasattr(estimator, name):
        raise TypeError(
            f"{display.__name__} takes a fitted model with {name}, which "
            f"{type(estimator).__name__} does not have."
        )
    return getattr(estimator, name)


def _axes(ax):
    """Axes to draw on, and their figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays need matplotlib, which is not installed: "
            "pip install '.[plots]' in a checkout of sklearn_ebm brings it."
        ) from error
    if ax is None:
        _, ax = plt.subplots()
    return ax.figure, ax


def _whole_ticks(axis):
    """Let the ticks of an axis be whole numbers, if the user has said nothing else."""
    from matplotlib.ticker import MaxNLocator

    locator = axis.get_major_locator()
    if isinstance(locator, MaxNLocator):
        locator.set_params(integer=True)


def _label(key):
    """Return the name of a value of the history, with its unit."""
    return key.replace("_", " ") + (" (nats a row)" if key in NATS else "")


def _folded(rows, shape):
    """Rows of features as images in a grid: (n_rows, n_columns, height, width)."""
    n_features = rows.shape[-1]
    if shape is None:
        side = round(np.sqrt(n_features))
        shape = (side, side)
    sides = np.asarray(shape)
    whole = sides.shape == (2,) and sides.dtype.kind in "iu" and (sides > 0).all()
    if not whole or np.prod(sides) != n_features:
        raise ValueError(
            f"{n_features} features do not make an image of shape {shape}; "
            "shape=(height, width) says what they are."
        )
    if rows.ndim == 2:
        # Empty places at the end.
        n_columns = int(np.ceil(np.sqrt(len(rows))))
        n_rows = -(-len(rows) // n_columns)
        grid = np.full((n_rows * n_columns, n_features), np.nan)
        grid[: len(rows)] = rows
        rows = grid.reshape(n_rows, n_columns, n_features)
    return rows.reshape(*rows.shape[:2], *shape)


def _draw_images(display, images, ax, **colors):
    """Draw a grid of images as one, a pixel between neighbours; keep the artists."""
    display.figure_, display.ax_ = _axes(ax)
    n_rows, n_columns, height, width = images.shape
    spaced = np.full((n_rows, height + 1, n_columns, width + 1), np.nan)
    spaced[:, :height, :, :width] = images.swapaxes(1, 2)
    mosaic = spaced.reshape(n_rows * (height + 1), n_columns * (width + 1))
    display.im_ = display.ax_.imshow(mosaic[:-1, :-1], interpolation="none", **colors)
    # Between the images one sees what lies behind them.
    display.ax_.set(facecolor="0.75", xticks=[], yticks=[])
    display.ax_.spines[:].set_visible(False)
