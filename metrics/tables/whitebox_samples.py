"""Samples of what only an open model shows: forks, patches, inner layers, other askers."""

from ..contract import Array
from .samples import Sample


class Forks(Sample):
    """Of each option, whether it is said to be the chosen one, and how probable its reveal is."""

    q: Array
    """[n, k] P(yes) / (P(yes) + P(no))."""
    r: Array
    """[n, k] masses."""
    coverage: Array | None = None
    """[n] probability that the answer is yes or no, the mean over the options."""


class Patches(Sample):
    """Log-odds of minimal pairs, with the donor's residual put into the base."""

    base: Array
    patched: Array
    donor: Array
    patched_reverse: Array | None = None
    cell: Array | None = None
    """[n] where it was put; the pairs of a map are the same in every cell."""
    pair: Array | None = None
    metric: str = "transfer"
    """What the share of the update is called: by donor, say."""
    noise_floor: float = 0.0
    """In nats: a mean update no larger than this is none."""


class Layers(Sample):
    """An inner read-out beside the exact one."""

    inner: Array
    """[n, k] log-probabilities."""
    exact: Array
    words: Array
    """[n, k] the option of each column."""
    rejected: Array
    """[n] column of the rejected option; -1: none is, yet."""


class Askers(Sample):
    """What testimony shifts, by who asks afterwards."""

    shift_user: Array
    """[n] change of log-odds."""
    shift_third: Array


class Queries(Sample):
    """A belief that was there unasked, and asked for."""

    passive: Array
    queried: Array
