"""Numerical error as an add-on of a run: how far arithmetic alone moves each score, by the model's certificate."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from ....base.text import shown_error
from ....hooks.checks.certificate import Certificate
from ....metrics.number import Key, Number
from ....metrics.tables.belief_parts import BeliefTable
from ...report.document import Prose
from ..experiment import Experiment, RunConfig
from ..manifest import CERTIFICATE
from ..scores import Added, AddOn, ScoredRun, score_run

DRAWS = 2
"""Perturbed tables that are scored."""
NONE = (
    "The rounding error of this model was not measured; `doxascope certify MODEL` measures it, and the same run "
    "command then shows it."
)


class NoiseFloors(AddOn):
    """The numerical error beside each score, if the run has a certificate, which it keeps anyway."""

    def finish(self, run: ScoredRun) -> Added:
        """Score perturbed tables."""
        path = run.folder.recorded(CERTIFICATE)
        if path is None:
            return Added(blocks=[Prose(text=NONE, soft=True)])
        certificate = Certificate.model_validate_json(path.read_text("utf-8"))
        change = certificate.worst(run.config.model.dtype, run.config.model.backend)
        floors = score_floors(run.experiment, run.config, run.taken, run.numbers, change.nat)
        rows = [{**key._asdict(), "floor": floor} for key, floor in floors.items()]
        text = (
            "Numerical error: how far a score moves when every option's log-probability moves by "
            f"{change.nat:.0e} nat, the most that arithmetic alone (batching, padding, packing, dtype) moves it on "
            f"this model, by its certificate {certificate.hash}."
        )
        return Added(
            files={"floors.json": {"certificate": certificate.hash, **change.model_dump(), "scores": rows}},
            blocks=[Prose(text=text, soft=True)],
            notes={
                number.key: _told(number, floors[number.key])
                for number in run.numbers
                if not math.isnan(floors[number.key])
            },
        )


def _told(number: Number, floor: float) -> str:
    """The numerical error of a score, and whether the score is no more than that."""
    within = "within its " if abs(number.score.estimate) <= floor > 0 else ""
    return f"{within}numerical error {shown_error(floor)}"


def score_floors(
    experiment: Experiment, config: RunConfig, beliefs: BeliefTable, numbers: Sequence[Number], nat: float
) -> dict[Key, float]:
    """Key of a number -> the largest change of its estimate in `DRAWS` tables in which every option's log-probability
    is `nat` higher or lower, by a coin of its own; NaN where an estimate is undefined. A size, not a bound.
    """
    plain = config.model_copy(update={"bootstrap_draws": 2})  # estimates hardly ever need the intervals
    before = {number.key: number.score.estimate for number in numbers}
    floors = dict.fromkeys(before, 0.0)
    for draw in range(DRAWS):
        moved = _moved(beliefs, nat, [config.seed, draw])
        after = _estimates(experiment, plain, moved)
        if any(math.isfinite(estimate) and not math.isfinite(after[key]) for key, estimate in before.items()):
            after = _estimates(experiment, config, moved)  # an interval of two draws withholds what the run's own gives
        for key, estimate in before.items():
            floors[key] = float(np.maximum(floors[key], abs(after[key] - estimate)))
    return floors


def _estimates(experiment: Experiment, config: RunConfig, beliefs: BeliefTable) -> defaultdict[Key, float]:
    """Of every number; NaN of one that is not there."""
    with np.errstate(all="ignore"):
        estimates = {number.key: number.score.estimate for number in score_run(experiment, config, beliefs)}
    return defaultdict(lambda: math.nan, estimates)


def _moved(beliefs: BeliefTable, nat: float, seed: Sequence[int]) -> BeliefTable:
    """`perturbed`, the coins thrown row after row."""

    def moved(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        rng = np.random.default_rng(seed)
        return (perturbed(part, nat, rng) for part in parts)

    if isinstance(beliefs, pd.DataFrame):
        return perturbed(beliefs, nat, np.random.default_rng(seed))
    return beliefs.each(moved)


def perturbed(beliefs: pd.DataFrame, nat: float, rng: np.random.Generator) -> pd.DataFrame:
    """Every log-probability `nat` higher or lower, normalised anew by read-out; what was written stays."""
    readouts, _ = pd.factorize(beliefs["readout_id"])
    computed = beliefs["logp"].notna().to_numpy()
    shift = np.where(computed, rng.choice((-nat, nat), len(beliefs)), 0.0)
    prob = beliefs["prob"].to_numpy(float) * np.exp(shift)
    total = np.where(computed, np.bincount(readouts, weights=prob)[readouts], 1.0)
    moved = {"prob": prob / total, "logp": beliefs["logp"] + shift, "coverage": beliefs["coverage"] * total}
    return beliefs.assign(**moved)
