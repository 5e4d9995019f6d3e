"""Samplers of layered models as init and step on a small state, and diagnostics.

A sampler holds the model; the state that `init` returns and `step` advances holds
everything else, the random key and counter among it, so that a step from the same
state gives the same result. Steps return a new state and leave the old one alone.
"""

from ._chains import Chains, Gibbs
from ._diagnostics import autocorrelation_time, effective_sample_size, r_hat
from ._draws import impute, sample_chains
from ._exchange import ReplicaExchange, Replicas

__all__ = [
    "Chains",
    "Gibbs",
    "ReplicaExchange",
    "Replicas",
    "autocorrelation_time",
    "effective_sample_size",
    "impute",
    "r_hat",
    "sample_chains",
]
