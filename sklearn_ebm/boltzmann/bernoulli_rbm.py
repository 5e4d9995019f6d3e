"""Restricted Boltzmann machines of Bernoulli units."""

from numbers import Integral, Real

from .._parameters import Interval, StrOptions
from ._trainable_rbm import TrainableRBM


class BernoulliRBM(TrainableRBM):
    """Bernoulli restricted Boltzmann machine (RBM).

    A layer of binary visible units v and a layer of binary hidden units h with
    energy ``E(v, h) = - b.v - c.h - v.W.h`` and ``p(v, h) = exp(-E) / Z``.
    Trained by stochastic ascent of the likelihood, with the model's expectations
    taken from persistent Gibbs chains (PCD, also known as stochastic maximum
    likelihood [1]_) or from chains restarted at the data (contrastive divergence
    [2]_), by default along the centred gradient [3]_.

    Parameters and attributes begin with those of
    `sklearn.neural_network.BernoulliRBM` and mean the same.

    Parameters
    ----------
    n_components : int, default=256
        Number of binary hidden units.

    learning_rate : float, default=0.1
        Size of a step along the gradient of the mean log-likelihood (in nats) of
        a minibatch. It is *highly* recommended to tune it; reasonable values are
        in the 10**[0., -3.] range.

    batch_size : int, default=10
        Number of rows in a minibatch. The last minibatch of an epoch may be
        shorter; its gradient is a mean over its own rows.

    n_iter : int, default=10
        Number of epochs: passes over the training data.

    verbose : int, default=0
        If not 0, print a line an epoch with the pseudo-log-likelihood (nats) of
        a fixed sample of at most 100 training rows. Never changes the model.

    random_state : int, RandomState instance or None, default=None
        Seeds the initial weights, the order of the rows and all sampling. An int
        gives the same model bit for bit, on any number of threads.

    n_gibbs_steps : int or tuple of two int, default=1
        Gibbs sweeps of the chains for each minibatch. A pair ``(first, last)``
        lets them grow evenly from `first` in the first epoch of `fit` to `last`
        in the last; `partial_fit` does `last`.

    persistent : bool, default=True
        Whether the chains go on from where the last minibatch left them (PCD), with
        jumps between modes (see the Notes), or start at the rows of the minibatch (CD).

    n_chains : int or None, default=None
        Number of persistent chains; None means `batch_size`, which is best set beside
        minibatches of a few rows: the fewer chains, the noisier the steps, and a
        single chain sees one mode of the model at a time. Without persistence there is
        one chain for every row of the minibatch.

    n_temperatures : int, default=1
        With more than 1, every persistent chain exchanges states with chains at higher
        temperatures (parallel tempering [7]_), between the model and independent
        features, so that it can cross from one mode of the model to another. Takes at
        least that many times as long for the chains. The temperatures are evenly spaced
        at first. After every 100 minibatches, counted over all calls, they move halfway
        to where, going by the swaps tried in these, swaps would be about equally likely
        between all neighbours. They are kept for training that goes on with as many
        chains and temperatures.

    momentum : float, default=0.0
        Share of the last step's velocity in the next one, in [0, 1).

    weight_decay : float, default=0.0
        Strength of the L2 penalty ``weight_decay / 2 * ||components_||^2``,
        subtracted from the mean log-likelihood.

    nesterov : bool, default=False
        Whether the momentum is Nesterov's, which steps along the gradient plus
        `momentum` times the new velocity [4]_. Without `momentum` it does nothing.

    l1_decay : float, default=0.0
        Strength of the L1 penalty ``l1_decay * sum |components_|``. After each step all
        weights are drawn towards zero by ``learning_rate * l1_decay`` but not past it,
        so that some become exactly zero (with `average`, those that are zero throughout
        the last epoch). Try 1e-4 first: a machine whose weights are all zero does not
        learn any, and a strong penalty keeps it there.

    sparsity_target : float or None, default=None
        Share of the rows, in (0, 1), for which a hidden unit should be on. Its
        bias is pulled up or down until the mean of the unit over the data comes
        near it. None leaves the units alone.

    sparsity_cost : float, default=0.1
        Strength of that pull: ``sparsity_cost * (sparsity_target - mean)``, with the
        mean over the minibatch, is added to the gradient of the hidden biases (only)
        [5]_. The likelihood pulls too; where the two balance depends on the cost.

    max_norm : float or None, default=None
        Largest Euclidean norm that the weights of a hidden unit (a row of
        `components_`) may have: after each step, longer ones are scaled back to it.
        None sets no limit.

    fast_learning_rate : float, default=0.0
        If not 0, the persistent chains see the parameters with fast ones added (weights
        and biases), which follow the same gradient at this learning rate and fade by
        5 % each minibatch [6]_. They push the chains away from where they have just
        been, so that they mix faster, and are not part of the model. Reasonable values
        are one to ten times `learning_rate`. Not used without persistence.

    centering : bool, default=True
        Whether to follow the centred gradient, which subtracts the means of the
        data and of the hidden units. It makes learning insensitive to the
        coding (0 for black or 0 for white) and better conditioned, and begins
        with weights that are not small and hidden units that are on a fifth of the
        time. The fitted attributes are those of the plain model either way.

    learning_rate_schedule : {"constant", "linear"}, default="constant"
        "linear" lets the learning rate fall linearly to zero over the `n_iter`
        epochs of `fit`. `partial_fit` always uses `learning_rate`. For any other
        schedule call `fit` several times with `warm_start`, and set the rate before
        each call; one that a callback sets during a fit is used by the next.

    average : bool, default=True
        Whether the fitted parameters are the mean over the minibatches of the
        last epoch (for `partial_fit`, of the call) instead of the last ones; of 200
        minibatches or more, over evenly spaced ones. Training and the chains go on
        from the last ones.

    warm_start : bool, default=False
        Whether `fit` goes on from the current parameters and chains.

    missing : {"raise", "latent"}, default="raise"
        What NaN in dense data means: an error, or a value that is not known. While
        training, unknown values are drawn from their distribution given the known ones,
        by Gibbs chains that take a step before every epoch. `transform`, `reconstruct`
        and `score_samples` put mean-field values in their place; `score_samples` leaves
        them out of its sum, so that rows of which less is known have higher scores.
        `free_energy` and `gibbs` take none.

    early_stopping : bool, default=False
        Whether `fit` holds some rows out, watches the `monitor` on them, and stops when
        it has not improved for `n_iter_no_change` epochs. The fitted parameters are
        then those of the best epoch of the call; with `warm_start`, training goes on
        from those of the last one, for a best epoch of its own. `partial_fit` does not
        support it.

    validation_fraction : float, default=0.1
        Share of the rows that `early_stopping` holds out, by a permutation drawn
        from `random_state`; the same ones when `fit` goes on with the same data.
        At most 500 of them are looked at, so that large data need only a small
        share.

    n_iter_no_change : int, default=5
        Number of epochs in a row without progress after which an early-stopped fit
        ends.

    tol : float, default=1e-4
        Tolerance of `early_stopping`, in nats a row: with "pseudo_likelihood", by how
        much an epoch has to beat the best one; with "free_energy_gap", by how much the
        gap may exceed its lowest value.

    monitor : {"pseudo_likelihood", "free_energy_gap"}, default="pseudo_likelihood"
        What `early_stopping` watches: the pseudo-log-likelihood of held-out rows,
        or how far their mean free energy lies above that of training rows. The
        gap is by how much the model finds rows it has not seen less likely than
        those it has, and grows as it overfits. It says nothing of how much there
        is still to be learned, and some gap is the price of learning: with it,
        set `tol` to the gap you accept, for instance 1.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Weights.

    intercept_hidden_ : ndarray of shape (n_components,)
        Biases of the hidden units.

    intercept_visible_ : ndarray of shape (n_features,)
        Biases of the visible units.

    h_samples_ : ndarray of shape (n_chains, n_components)
        States (0 or 1) of the hidden units of the persistent chains. Only with
        ``persistent=True``.

    visible_mean_ : ndarray of shape (n_features,)
        Mean of the training data.

    n_iter_ : int
        Number of epochs since the parameters were initialised.

    history_ : dict of list
        For every epoch: "learning_rate" (of its first minibatch), "seconds" of
        training, "weight_norm" (Frobenius norm of the weights). With
        `n_temperatures` also "swap_rate", the share of tried swaps between
        neighbouring temperatures that were accepted, as a mean over all neighbours,
        and "least_swap_rate", that of the two between which it is the smallest: near
        0, use more temperatures. If asked for by
        `verbose`, `early_stopping` or a `sklearn_ebm.monitoring.TrainingMonitor`,
        also, for the parameters as they would be if `fit` stopped there and a
        fixed sample of at most 100 training rows: "pseudo_likelihood" (nats a
        row) and "reconstruction_error" (mean squared difference from `reconstruct`);
        of at most 500: "hidden_activity" (mean of `transform`), "saturation" (share of
        hidden units that are dead or saturated: below 0.01 for every row, or above
        0.99 for every row). With `early_stopping` also "validation_pseudo_likelihood",
        of at most 500 held-out rows, and "free_energy_gap" (nats a row), their mean
        free energy less that of the training rows. NaN for epochs in which a number
        was not measured.

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
        At the end of `fit`, if over 5 % of the hidden units are dead or saturated, or
        none tells rows apart, or if the model is found to be certainly worse than
        independent features.

    See Also
    --------
    sklearn.neural_network.BernoulliRBM : The model this one replaces.
    sklearn.decomposition.PCA : A linear dimensionality reduction.

    Notes
    -----
    Values between 0 and 1 are probabilities: a row stands for a distribution
    over binary rows. bool, uint8 and CSR data are used as they are, and cost in
    proportion to what is not zero. A fit takes no `sample_weight`, since
    stochastic steps on a weighted row are not the same as a repeated row.

    Persistent chains jump to hidden states of rows by a Metropolis-Hastings rule
    that leaves the model as it is: sweeps alone would not carry them between modes
    that lie far apart. With hundreds of hidden units hardly any jump succeeds, and
    few are tried. There are none beside `fast_learning_rate` or `n_temperatures`.

    References
    ----------
    .. [1] T. Tieleman, "Training restricted Boltzmann machines using
       approximations to the likelihood gradient", ICML 2008.
    .. [2] G. E. Hinton, "Training products of experts by minimizing contrastive
       divergence", Neural Computation 14, 2002.
    .. [3] J. Melchior, A. Fischer, L. Wiskott, "How to center deep Boltzmann
       machines", JMLR 17, 2016.
    .. [4] Y. Bengio, N. Boulanger-Lewandowski, R. Pascanu, "Advances in
       optimizing recurrent networks", ICASSP 2013.
    .. [5] H. Lee, C. Ekanadham, A. Y. Ng, "Sparse deep belief net model for
       visual area V2", NIPS 2007.
    .. [6] T. Tieleman, G. E. Hinton, "Using fast weights to improve persistent
       contrastive divergence", ICML 2009.
    .. [7] G. Desjardins et al., "Tempered Markov chain Monte Carlo for training of
       restricted Boltzmann machines", AISTATS 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ebm import BernoulliRBM
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> rbm = BernoulliRBM(n_components=2, random_state=0).fit(X)
    >>> rbm.transform(X).shape
    (4, 2)
    """

    _parameter_constraints: dict = {
        **TrainableRBM._parameter_constraints,
        "n_temperatures": [Interval(Integral, 1, None, closed="left")],
        "sparsity_target": [Interval(Real, 0, 1, closed="neither"), None],
        "fast_learning_rate": [Interval(Real, 0, None, closed="left")],
        "monitor": [StrOptions({"pseudo_likelihood", "free_energy_gap"})],
    }

    def __init__(
        self,
        n_components=256,
        *,
        learning_rate=0.1,
        batch_size=10,
        n_iter=10,
        verbose=0,
        random_state=None,
        n_gibbs_steps=1,
        persistent=True,
        n_chains=None,
        n_temperatures=1,
        momentum=0.0,
        weight_decay=0.0,
        nesterov=False,
        l1_decay=0.0,
        sparsity_target=None,
        sparsity_cost=0.1,
        max_norm=None,
        fast_learning_rate=0.0,
        centering=True,
        learning_rate_schedule="constant",
        average=True,
        warm_start=False,
        missing="raise",
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1e-4,
        monitor="pseudo_likelihood",
    ):
        self.n_components = n_components
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.n_gibbs_steps = n_gibbs_steps
        self.persistent = persistent
        self.n_chains = n_chains
        self.n_temperatures = n_temperatures
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.l1_decay = l1_decay
        self.sparsity_target = sparsity_target
        self.sparsity_cost = sparsity_cost
        self.max_norm = max_norm
        self.fast_learning_rate = fast_learning_rate
        self.centering = centering
        self.learning_rate_schedule = learning_rate_schedule
        self.average = average
        self.warm_start = warm_start
        self.missing = missing
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.monitor = monitor
