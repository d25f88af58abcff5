"""Every number of a run, from its settings and its belief table alone."""

from typing import Any

from ...hooks.errors import UserError
from ...metrics import belief_gate
from ..experiment import Experiment, RunConfig, TakesParts
from ..scoring.engine import require_unique, score_samples
from ..scoring.measured import SLOW
from ..scoring.number import Number, Resampling
from ..scoring.verdict import GATE
from ..tables.belief_parts import BeliefTable, in_parts
from ..tables.samples import ALL


def resampling(config: RunConfig) -> Resampling:
    """How a run's scores are resampled."""
    return Resampling(config.seed, config.bootstrap_draws, config.level)


def gate(config: RunConfig, method: str, kind: str = "exact", **readings: Any) -> Number:
    """The competence gate of a method, for an experiment's `own_scores`: its page, the terminal and `scores.json` then
    lead with it (METRICS W4).

    Args:
        config: of the run. Coverage has to reach its `low_coverage`; bounds are of its `level`.
        method: that is judged.
        kind: of belief.
        readings: as `belief_gate` takes them; what is not given is not asked.
    """
    score = belief_gate(**{"min_coverage": config.low_coverage, **resampling(config).interval, **readings})
    return Number(metric=GATE, method=method, kind=kind, score=score, quantity="competence gate", code="W4")


def as_taken(experiment: Experiment, beliefs: BeliefTable) -> Any:
    """Beliefs as the experiment takes them: by parts, if it can."""
    return in_parts(beliefs) if isinstance(experiment, TakesParts) else beliefs


def score_run(experiment: Experiment, config: RunConfig, beliefs: BeliefTable) -> list[Number]:
    """The engine's numbers of the experiment's samples, the paired differences of its headline, and its own numbers.

    Raises UserError for an experiment that breaks its contract: two numbers of one name, or no headline.
    """
    return score_and_tell(experiment, config, beliefs)[0]


def score_and_tell(
    experiment: Experiment, config: RunConfig, beliefs: BeliefTable
) -> tuple[list[Number], dict[str, str]]:
    """The same, and metric -> why it was left out of a run that is too large for it."""
    taken = as_taken(experiment, beliefs)
    found = score_samples(experiment.samples(config, taken), resampling(config), compared={experiment.headline})
    numbers = [*found.all, *experiment.own_scores(config, taken)]
    require_unique(numbers)
    if not any(number.metric == experiment.headline and number.subset == ALL for number in numbers):
        raise UserError(f"{experiment.name}: its headline {experiment.headline!r} is no number of the subset {ALL!r}")
    return numbers, {name: f"{why} of `doxascope score`" for name, why in found.skipped.items() if name in SLOW}
