"""Restricted Boltzmann machines of Gaussian visible units."""

from numbers import Real

from .._parameters import Interval, StrOptions
from ..units import Gaussian
from ._unit_rbm import UnitsRBM


class GaussianRBM(UnitsRBM):
    """Restricted Boltzmann machine of Gaussian visible units, for real features.

    A layer of real visible units v and a layer of hidden units h with energy
    ``E(v, h) = sum (v - b)^2 / (2 variance) - c.h - (v / variance).W.h`` (for
    Bernoulli hidden units) and ``p(v, h) = exp(-E) / Z``: given the hidden units the
    features are independent normal variables with means ``b + W.h``, so that the
    data are a mixture of as many Gaussians as h has states, whose means share
    their parameters [1]_. Trained by stochastic ascent of the likelihood with
    persistent Gibbs chains.

    Parameters
    ----------
    n_components : int, default=256
        Number of hidden units. Some dozens of rows, or more features than rows, want
        far fewer: there is no bound to how far such a model follows the rows.

    hidden : {"bernoulli", "spin", "gaussian", "relu"} or Unit, default="bernoulli"
        What the hidden units are, as in `RBM`.

    variance : "learned" or float, default="learned"
        Variances of the features given the hidden units: one learned for each, or
        this one for all, in the units of the data.

    learning_rate : float, default=0.03
        Size of a step along the gradient of the mean log-likelihood (in nats) of
        a minibatch. Long fits of few rows want less.

    batch_size : int, default=10
        Number of rows in a minibatch.

    n_iter : int or None, default=None
        Number of epochs: passes over the training data. None takes 400 of up to 300
        rows, 120 000 / n of more, but at least 10; and fewer if there are less than 30
        rows a feature, from which long training learns noise, though up to 100 if
        features say the same, so that there are 100 rows for each direction in which
        they vary.

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
        miss modes far from the data.

    momentum : float, default=0.0
        Share of the last step's velocity in the next one, in [0, 1).

    nesterov : bool, default=False
        Whether the momentum is Nesterov's.

    weight_decay : float, default=0.0
        Strength of the L2 penalty on the weights, ``weight_decay / 2 *
        sum(components_**2 / variance_)``, subtracted from the mean log-likelihood
        (but variances do not follow it). A step along the gradient times the
        variance shrinks weights by the share ``learning_rate * weight_decay`` of
        themselves, in any unit of measurement, with `standardize` or without.

    l1_decay : float, default=0.0
        Strength of the L1 penalty on the weights: a step takes ``learning_rate *
        l1_decay`` off the size of each weight, down to 0. With `standardize`, weights
        are measured in standard deviations of their feature here (``components_ /
        visible_scale_``), otherwise in the units of the data.

    sparsity_target : float or None, default=None
        Mean over the data to which hidden units are pulled, inside their range: (0, 1)
        of "bernoulli", (-1, 1) of "spin", above 0 of "relu" and "poisson".

    sparsity_cost : float, default=0.1
        Strength of that pull.

    max_norm : float or None, default=None
        Largest norm that the weights of a hidden unit may have: with `standardize`
        a row of ``components_ / visible_scale_``, otherwise a row of `components_`.

    centering : bool, default=True
        Whether to follow the centred gradient.

    learning_rate_schedule : {"constant", "linear"}, default="linear"
        "linear" lets the learning rate fall to zero over the epochs of `fit`. With
        "constant", half as many epochs go as far, but what they end with is noisier:
        draws may have other means than the data. `partial_fit` always
        uses `learning_rate`.

    average : bool, default=True
        Whether the fitted parameters are means over the last epoch.

    warm_start : bool, default=False
        Whether `fit` goes on from the current parameters and chains.

    missing : {"raise", "latent"}, default="raise"
        What NaN in dense data means: an error, or a value that is not known, which
        training draws as in `BernoulliRBM`. `transform`, `reconstruct`, `free_energy`,
        `score_samples` and `gibbs` put mean-field values in its place: a score is the
        log-density of the row so filled in, not that of what is known of it.

    standardize : bool, default=True
        Whether to train on features less their mean and divided by their standard
        deviation, as most need, or only less their mean. Attributes and results are
        in the units of the data either way.

    langevin_time : float or None, default=None
        If a number, the chains sample by Gibbs-Langevin steps [2]_: given the hidden
        units, the features are not drawn afresh, but follow Langevin dynamics from
        where they are for this time, after which they keep a share
        ``exp(-langevin_time)`` of their distance from their means. (The time of the
        n steps of size e of [2]_ is ``n * e``.) Of no advantage: see the Notes.

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
    components_ : ndarray of shape (n_components, n_features)
        Weights, in the units of the features.

    intercept_hidden_ : ndarray of shape (n_components,)
        Biases of the hidden units.

    intercept_visible_ : ndarray of shape (n_features,)
        Means of the features without hidden units.

    variance_ : ndarray of shape (n_features,)
        Variances of the features given the hidden units.

    n_categories_ : ndarray of int of shape (n_features,)
        Zeros: no feature holds codes of categories.

    h_samples_ : ndarray of shape (n_chains, n_components)
        States of the hidden units of the persistent chains. Only with
        ``persistent=True``.

    visible_mean_ : ndarray of shape (n_features,)
        Mean of the training data.

    visible_scale_ : ndarray of shape (n_features,)
        Standard deviations of the training data (with `partial_fit`, of those of the
        first calls, until there are 100 rows that vary), 1 where they are 0.

    n_iter_ : int
        Number of epochs since the parameters were initialised.

    history_ : dict of list
        For every epoch: "learning_rate", "seconds", "weight_norm", and if asked for
        by `verbose` or `early_stopping` numbers found on a sample of the training
        rows, "saturation" of Bernoulli hidden units only; with `early_stopping` also
        "free_energy_gap".

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
        or saturated: below 0.01 for every row, or above 0.99 for every row. Or if the
        model is found to be certainly worse than independent normal features, or if
        weights to "gaussian" hidden units are as large as they can be.

    See Also
    --------
    RBM : The same for features of any kind.
    sklearn.decomposition.FactorAnalysis : Gaussian factors and features.

    Notes
    -----
    Parameters that are not explained at length here are those of `BernoulliRBM`.
    Variances are learned in place with the weights and stay above a thousandth of
    those of the data. The gradient of W and b is multiplied by the variance, so
    that steps do not depend on the units of measurement; a gradient of a weight
    (in standard deviations) beyond 1 counts as 1. A fit takes no `sample_weight`.
    Chains of hidden bits, spins or categories jump between modes as those of
    `BernoulliRBM` do, but not along Langevin dynamics.

    Given the hidden units the features are normal, so that Langevin dynamics have a
    solution in closed form: there is no step size whose error a Metropolis test would
    have to correct, and the model is left exactly as it is, with any `langevin_time`.
    A draw afresh is the limit of a long time. For means of functions of the features
    no time is better than that: successive states are the more alike the shorter it
    is. It is here to compare with and to repeat what was trained with it.

    References
    ----------
    .. [1] K. Cho, A. Ilin, T. Raiko, "Improved learning of Gaussian-Bernoulli
       restricted Boltzmann machines", ICANN 2011.
    .. [2] R. Liao, S. Kornblith, M. Ren, D. J. Fleet, G. Hinton, "Gaussian-Bernoulli
       RBMs without tears", arXiv:2210.10318, 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_ebm import GaussianRBM
    >>> X, _ = load_iris(return_X_y=True)
    >>> rbm = GaussianRBM(n_components=4, n_iter=100, random_state=0).fit(X)
    >>> rbm.sample(3, random_state=0).shape
    (3, 4)
    """

    _parameter_constraints: dict = {
        **UnitsRBM._parameter_constraints,
        "variance": [
            StrOptions({"learned"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "langevin_time": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        n_components=256,
        *,
        hidden="bernoulli",
        variance="learned",
        learning_rate=0.03,
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
        learning_rate_schedule="linear",
        average=True,
        warm_start=False,
        missing="raise",
        standardize=True,
        langevin_time=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1.0,
    ):
        self.n_components = n_components
        self.hidden = hidden
        self.variance = variance
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
        self.langevin_time = langevin_time
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol

    def _structure(self):
        learned = self.variance == "learned"
        structure = super()._structure()
        del structure["visible"]  # which is what `variance` says
        return structure | {
            "variance": repr(self.variance if learned else float(self.variance))
        }

    @property
    def visible(self):
        """What the features are, as parameter of `RBM`.

        Raises
        ------
        ValueError
            If `variance` is a number that is not positive and finite.
        """
        if self.variance == "learned":
            return "gaussian"
        return Gaussian(scale=self.variance**0.5)
