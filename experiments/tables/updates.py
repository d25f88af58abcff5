"""Samples of beliefs that move: an earlier and a later one, along trajectories, and as several judges read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .cells import Array
from .samples import Sample

STEPWISE, WHOLE = "per step", "first to last"
"""Ways of pairing the beliefs of a trajectory."""


@dataclass(frozen=True, kw_only=True)
class Pairs(Sample):
    """A belief and a later one."""

    prior: Array
    posterior: Array
    outcome: Array | None = None
    readings: Array | None = None
    """[n, r] of the prior, which is then their mean."""
    wordings: Array | None = None
    """[n, w] of the prior in each wording, over which it is then the mean."""
    cell: Array | None = None
    """[n] combination of the levels of all factors: each has an intercept of its own. None: there is one."""
    n_broken: int = 0
    """Pairs that a missing step took from the trajectories, not among the rows."""


@dataclass(frozen=True, kw_only=True)
class Updates(Sample):
    """Updates, in one or more ways of pairing them."""

    views: Mapping[str, Pairs]
    """Way of pairing -> pairs; the last one spans from the first belief to the last."""
    factors: Mapping[str, Array] | None = None
    """Factor -> [n] level of each pair from first to last, of those that vary."""
    levels: Mapping[str, Array] = field(default_factory=dict)
    """The same of all factors."""
    baselines: Mapping[str, str] = field(default_factory=dict)
    """Factor -> the level that others are compared with; the first by name where it does not say."""
    mixed: bool = False
    """Of several models, whose difference would pass for a slope: only what tells them apart is scored."""

    @property
    def whole(self) -> Pairs:
        """From the first belief to the last."""
        return list(self.views.values())[-1]

    @property
    def keys_known(self) -> bool:
        """Whether its pairs can be paired with those of another sample."""
        return self.whole.keys is not None

    @property
    def repeated(self) -> Array | None:
        """What tells that priors were read several times; None if they were not."""
        return self.views[next(iter(self.views))].readings if self.replicate is None else self.replicate

    @property
    def outcome(self) -> Array | None:
        """What came true."""
        return self.whole.outcome


@dataclass(frozen=True, kw_only=True)
class Chains(Updates):
    """Updates of chains that the model sampled itself, several of a question."""

    question: Array
    """[n] question of each chain."""
    half: Array | None = None
    """[n] which of two readings of the prior a chain starts from; None: the prior is exact."""
    update: Array | None = None
    """[n] what the chains move, where it is less than the whole belief; None: posterior less prior."""


@dataclass(frozen=True, kw_only=True)
class Judgements(Sample):
    """What several judges read from the same texts."""

    judges: tuple[str, ...]
    readings: Array
    """[n, judges]"""
    changes: Array | None = None
    """[m, judges] updates between steps."""
    change_clusters: Array | None = None
    """[m]"""
