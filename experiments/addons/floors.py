"""Noise floors as an add-on of a run: how far arithmetic alone moves each score, by the model's certificate."""

import math
from collections.abc import Sequence

from ...hooks.certificate.certificate import Certificate
from ...hooks.lm import LanguageModel
from ..experiment import Experiment, Item, RunConfig
from ..report.blocks import Prose
from ..runs.manifest import CERTIFICATE
from ..scoring.number import Number
from .addon import Added, Begun, ScoredRun
from .noise_floor import score_floors

NONE = (
    "This model has no certificate here, so that no noise floors are shown: `doxascope certify`, then the same run "
    "command again."
)


class NoiseFloors:
    """A floor beside each score, if the run has a certificate."""

    def begin(self, experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> Begun:
        """Nothing: the run keeps its model's certificate anyway."""
        return Begun(config, {})

    def finish(self, run: ScoredRun) -> Added:
        """Score perturbed tables."""
        path = run.folder.recorded(CERTIFICATE)
        if path is None:
            return Added(blocks=[Prose(text=NONE, soft=True)])
        certificate = Certificate.model_validate_json(path.read_text("utf-8"))
        change = certificate.worst(run.config.model.dtype, run.config.model.backend)
        floors = score_floors(run.experiment, run.config, run.beliefs, run.numbers, change.nat)
        rows = [{**key._asdict(), "floor": floor} for key, floor in floors.items()]
        text = (
            "Floor: how far a score moves when every option's log-probability moves by "
            f"{change.nat:.0e} nat, the most that arithmetic alone (batching, padding, packing, dtype) moves it on "
            f"this model, by its certificate {certificate.hash}."
        )
        return Added(
            files={"floors.json": {"certificate": certificate.hash, **change.model_dump(), "scores": rows}},
            blocks=[Prose(text=text, soft=True)],
            notes={one.key: _told(one, floors[one.key]) for one in run.numbers if not math.isnan(one.score.estimate)},
        )


def _told(number: Number, floor: float) -> str:
    """The floor of a score, and whether the score is no more than that."""
    return ("within its " if abs(number.score.estimate) <= floor > 0 else "") + f"floor {floor:.0e}"
