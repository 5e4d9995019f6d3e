"""Restricted Boltzmann machines whose units are of any kind."""

from numbers import Real

from .._parameters import Interval, StrOptions
from .._training import SCHEDULES
from ._unit_columns import VISIBLE
from ._unit_rbm import UnitsRBM


class RBM(UnitsRBM):
    """Restricted Boltzmann machine with units of any kind.

    A layer of visible units v and a layer of hidden units h with energy
    ``E(v, h) = U(v) + V(h) - b.v - c.h - v.W.h`` and ``p(v, h) = exp(-E) / Z``, where
    U and V say what the units are [1]_. Gaussian visible units have means b and
    variances of their own, ``E(v, h) = sum (v - b)^2 / (2 variance) + V(h) - c.h -
    (v / variance).W.h``. Trained like `BernoulliRBM`, which is this model with
    Bernoulli units in both layers: with the same `n_iter`, `n_chains` and
    `learning_rate_schedule`, whose defaults differ, it is the same, bit for bit.

    Parameters
    ----------
    n_components : int, default=256
        Number of hidden units; of categorical ones, the number of columns.

    visible : str, Unit or list of (columns, str or Unit), default="bernoulli"
        What the features are: "bernoulli" (values in [0, 1]), "spin" (in [-1, 1]),
        "gaussian" (real, with a variance that is learned for each), "relu" (real and
        not negative, of a size near 1: scale such features), "poisson" (counts),
        "categorical" (codes 0, 1, ... of categories, as
        `sklearn.preprocessing.OrdinalEncoder` makes them), or a unit of
        `sklearn_ebm.units`: ``Categorical(n)`` are blocks of n features of which
        one is 1, as `sklearn.preprocessing.OneHotEncoder` makes them, and
        ``Gaussian(scale=s)`` has a fixed standard deviation. For tables that mix
        them, a list of pairs ``(columns, unit)`` that names every column (by
        numbers, slices, masks, or the names of a data frame) once. Columns of a
        block lie side by side; numbers of `Gaussian` are in the order in which its
        columns are named.

    hidden : {"bernoulli", "spin", "gaussian", "relu", "poisson"} or Unit, \
            default="bernoulli"
        What the hidden units are. Counts cannot be combined with counts or real units
        in the other layer, since there is no such distribution. Real units (of variance
        1) in both layers have one only while the weights are small; training keeps them
        so.

    learning_rate : float or None, default=None
        Size of a step along the gradient of the mean log-likelihood (in nats) of a
        minibatch. None is 0.1 or, if there are "gaussian" features, 0.03; but for
        "poisson" features 0.01 or, if that is lower, ``0.1 / m``, where m is their
        largest mean times ``max(1, n_components / 50)``. With hidden "poisson" units
        everything learns at the rate of counts. With hidden units that have no bounds
        ("gaussian", "relu", "poisson") it is 0.3 times that, divided by the largest
        eigenvalue of the covariances of bits, spins, categories and, scaled to a
        variance of 0.3, real features, where that is above 0.3.

    batch_size : int, default=10
        Number of rows in a minibatch.

    n_iter : int or None, default=None
        Number of epochs: passes over the training data. None takes 100 of up to 1 000
        rows, fewer of more rows or where a feature has fewer than thirty, and at least
        30; if there are "poisson" or "relu" features 10 to 60 (by ten rows for a
        feature, of which a rare count is a part), and if there are "gaussian" ones 10
        to 400 (see `GaussianRBM`).

    verbose : int, default=0
        If not 0, print a line an epoch. Never changes the model.

    random_state : int, RandomState instance or None, default=None
        Seeds the initial weights, the order of the rows and all sampling. An int
        gives the same model bit for bit, on any number of threads.

    n_gibbs_steps : int or tuple of two int, default=1
        Gibbs sweeps of the chains for each minibatch; a pair lets them grow from
        epoch to epoch.

    persistent : bool, default=True
        Whether the chains go on from where the last minibatch left them (PCD) or
        start at the rows of the minibatch (CD).

    n_chains : int or None, default=None
        Number of persistent chains; None means `batch_size`, but at least 100: fewer
        miss modes of the model.

    momentum : float, default=0.0
        Share of the last step's velocity in the next one, in [0, 1).

    nesterov : bool, default=False
        Whether the momentum is Nesterov's.

    weight_decay : float, default=0.0
        Strength of the L2 penalty on the weights, ``weight_decay / 2 *
        sum(components_**2 / variance_)``, subtracted from the mean log-likelihood
        (but variances do not follow it). A step shrinks weights by the share
        ``learning_rate * weight_decay`` of themselves, in any unit of measurement.

    l1_decay : float, default=0.0
        Strength of the L1 penalty on the weights: a step takes ``learning_rate *
        l1_decay`` off the size of each weight, down to 0. With `standardize`, weights
        of Gaussian features are measured in standard deviations of the feature here
        (``components_ / visible_scale_``).

    sparsity_target : float or None, default=None
        Mean over the data to which hidden units are pulled, inside their range: (0, 1)
        of "bernoulli", (-1, 1) of "spin", above 0 of "relu" and "poisson".

    sparsity_cost : float, default=0.1
        Strength of that pull.

    max_norm : float or None, default=None
        Largest norm that the weights of a hidden unit (a row of `components_`) may
        have; with `standardize`, those of Gaussian features enter it in standard
        deviations of the feature (over `visible_scale_`).

    centering : bool, default=True
        Whether to follow the centred gradient.

    learning_rate_schedule : {"constant", "linear"} or None, default=None
        "linear" lets the learning rate fall to zero over the epochs of `fit`. None is
        "linear" if there are "gaussian" features, or if `n_iter` is None and there are
        no "poisson" or "relu" ones, and otherwise "constant".

    average : bool, default=True
        Whether the fitted parameters are means over the last epoch.

    warm_start : bool, default=False
        Whether `fit` goes on from the current parameters and chains.

    missing : {"raise", "latent"}, default="raise"
        What NaN in dense data means: an error, or a value that is not known, which
        training draws as in `BernoulliRBM`. `transform`, `reconstruct`, `free_energy`,
        `score_samples` and `gibbs` put mean-field values in its place: a score is the
        log-likelihood of the row so filled in, not that of what is known of it. (With
        two Bernoulli layers all is as in `BernoulliRBM`.)

    standardize : bool, default=True
        Whether to train on Gaussian features less their mean and divided by their
        standard deviation, as most need, or only less their mean. Attributes
        and results are in the units of the data either way.

    early_stopping : bool, default=False
        Whether `fit` holds some rows out, watches the free-energy gap on them (how
        far their mean free energy lies above that of training rows, in nats a row),
        and stops when it has been above its lowest value of the call by more than `tol`
        for `n_iter_no_change` epochs. The fitted parameters are then those of the last
        epoch with a smaller gap. `partial_fit` does not support it.

    validation_fraction : float, default=0.1
        Share of the rows that `early_stopping` holds out; at most 500 of them are
        looked at.

    n_iter_no_change : int, default=5
        Number of epochs in a row with too large a gap after which an early-stopped fit
        ends.

    tol : float, default=1.0
        By how much the gap may exceed its lowest value, in nats a row. Some gap is
        the price of learning.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_visible)
        Weights. There is a visible unit for each feature, or one for each category
        of a feature that holds codes.

    intercept_hidden_ : ndarray of shape (n_components,)
        Biases of the hidden units.

    intercept_visible_ : ndarray of shape (n_visible,)
        Biases of the visible units; of Gaussian ones their means without hidden
        units.

    variance_ : ndarray of shape (n_visible,)
        Variances of Gaussian visible units given the hidden ones; 1 for others.
        Not with Bernoulli units in both layers.

    n_categories_ : ndarray of int of shape (n_features,)
        Numbers of categories of features that hold codes, 0 for others. Not with
        Bernoulli units in both layers.

    h_samples_ : ndarray of shape (n_chains, n_components)
        States of the hidden units of the persistent chains. Only with
        ``persistent=True``.

    visible_mean_ : ndarray of shape (n_visible,)
        Mean of the training data.

    visible_scale_ : ndarray of shape (n_visible,)
        Standard deviations of the training data (with `partial_fit`, of those of the
        first calls, until there are 100 rows that vary), 1 where they are 0. Not with
        Bernoulli units in both layers.

    n_iter_ : int
        Number of epochs since the parameters were initialised.

    history_ : dict of list
        For every epoch: "learning_rate" (of counts it is less, see the parameter),
        "seconds", "weight_norm", and if asked for by `verbose` or `early_stopping`
        numbers found on a sample of the training rows, "saturation" of Bernoulli hidden
        units only; with `early_stopping` also "free_energy_gap".

    best_n_iter_ : int
        `n_iter_` after the epoch whose parameters were kept. Only with
        `early_stopping`.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when X has feature
        names that are all strings.

    Warns
    -----
    ConvergenceWarning
        At the end of `fit`, if over 5 % of the hidden units, Bernoulli ones, are dead
        or saturated: below 0.01 for every row, or above 0.99 for every row. Or if there
        are states of hidden bits in which counts have means beyond 1e13: the larger the
        counts, the smaller the `learning_rate` has to be. Or if the model is found to
        be certainly worse than independent features (not of rectified units).

    See Also
    --------
    BernoulliRBM : The same with two layers of Bernoulli units, and more options.
    GaussianRBM : The same with Gaussian visible units.

    Notes
    -----
    Parameters that are not explained at length here are those of `BernoulliRBM`.
    Steps of Gaussian visible units are along their part of the gradient times their
    variance, so that they do not depend on the unit of measurement; a gradient of a
    weight beyond 1 counts as 1. A fit takes no `sample_weight`. Chains of hidden bits,
    spins or categories jump between modes as those of `BernoulliRBM` do; so do those of
    other hidden units, unless visible ones are real, too.

    References
    ----------
    .. [1] M. Welling, M. Rosen-Zvi, G. E. Hinton, "Exponential family harmoniums
       with an application to information retrieval", NIPS 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import RBM
    >>> X = np.array([[0, 2, 1.5], [1, 0, -0.5], [0, 1, 0.7], [1, 2, 0.1]])
    >>> rbm = RBM(
    ...     n_components=2,
    ...     visible=[([0], "bernoulli"), ([1], "categorical"), ([2], "gaussian")],
    ...     random_state=0,
    ... )
    >>> rbm.fit(X).components_.shape  # a binary, three categories, a real one
    (2, 5)
    """

    _parameter_constraints: dict = {
        **UnitsRBM._parameter_constraints,
        "visible": VISIBLE,
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "learning_rate_schedule": [StrOptions(set(SCHEDULES)), None],
    }

    def __init__(
        self,
        n_components=256,
        *,
        visible="bernoulli",
        hidden="bernoulli",
        learning_rate=None,
        batch_size=10,
        n_iter=None,
        verbose=0,
        random_state=None,
        n_gibbs_steps=1,
        persistent=True,
        n_chains=None,
        momentum=0.0,
        nesterov=False,
        weight_decay=0.0,
        l1_decay=0.0,
        sparsity_target=None,
        sparsity_cost=0.1,
        max_norm=None,
        centering=True,
        learning_rate_schedule=None,
        average=True,
        warm_start=False,
        missing="raise",
        standardize=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1.0,
    ):
        self.n_components = n_components
        self.visible = visible
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.n_gibbs_steps = n_gibbs_steps
        self.persistent = persistent
        self.n_chains = n_chains
        self.momentum = momentum
        self.nesterov = nesterov
        self.weight_decay = weight_decay
        self.l1_decay = l1_decay
        self.sparsity_target = sparsity_target
        self.sparsity_cost = sparsity_cost
        self.max_norm = max_norm
        self.centering = centering
        self.learning_rate_schedule = learning_rate_schedule
        self.average = average
        self.warm_start = warm_start
        self.missing = missing
        self.standardize = standardize
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
