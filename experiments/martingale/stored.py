"""Trajectories that an earlier run has written, to be read in other ways: it says again what the model said."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from ...hooks.documents import user_path
from ...hooks.errors import UserError
from ...hooks.generation.generation import GeneratedText, Request
from ...hooks.generation.sampling import Sampling
from ...hooks.settings import parse, read_yaml
from ..experiment import Drawn, Message, Transcript
from ..materials.trajectories.trajectory import Trajectory
from ..runs.folder import RunFolder
from .config import MartingaleConfig

SAME = ("wording", "generation", "debate")
"""Settings that decide what is said; questions and system prompts are compared as they stand."""
WHERE = {"threads", "device", "device_map", "dtype", "kernel", "backend", "sampler"}
"""Settings of a model that leave it what it is."""


class StoredTrajectories:
    """The trajectories of a run.

    Args:
        lines: what was said in it.
        where: it lies.
    """

    def __init__(self, lines: Iterable[Transcript], where: str) -> None:
        kept = {line["readout_id"]: line for line in lines if any("ids" in drawn for drawn in line["answers"])}
        self.where = where
        self._messages = {name: line["messages"] for name, line in kept.items()}
        self._samples = {
            (one.readout_id, one.draw): one for line in kept.values() for one in map(_sample, line["answers"])
        }

    def sample(
        self, requests: Sequence[Request], sampling: Sampling, *, seed: int, until: Sequence[int] = ()
    ) -> list[GeneratedText]:
        """As `LanguageModel.sample`. Raises UserError, naming it, for a draw that the run has not."""
        wanted = [(request.readout_id, draw) for request in requests for draw in request.draws]
        if absent := [one for one in wanted if one not in self._samples]:
            name, draw = absent[0]
            raise UserError(
                f"trajectories: {self.where} has no draw {draw} of {name}; ask for what it has, or run anew"
            )
        return [self._samples[one] for one in wanted]

    def check(self, one: Trajectory) -> None:
        """Raise UserError if the run's trajectory of that name was asked for, or was parted, in another way."""
        if one.samples and as_transcript(one)["messages"] != self._messages[f"{one.name}/{one.draw}"]:
            raise UserError(
                f"trajectories: {self.where} asked for {one.name} in other words; take its domains and prompts"
            )


@lru_cache(maxsize=1)
def stored_trajectories(config_json: str) -> StoredTrajectories:
    """The run that a configuration names.

    Raises UserError if it is none of this experiment, not complete, or of another model, wording or sampling.
    """
    config = MartingaleConfig.model_validate_json(config_json)
    assert config.trajectories
    folder = RunFolder.open(user_path(config.trajectories))
    where = str(folder.config)
    theirs = parse(MartingaleConfig, read_yaml(Path(where)), where)
    other = [key for key in SAME if getattr(theirs, key) != getattr(config, key)]
    if theirs.model.model_dump(exclude=WHERE) != config.model.model_dump(exclude=WHERE):
        other = ["model"]
    if other:
        raise UserError(f"trajectories: {where} has another `{other[0]}`; give it the same, or run anew")
    if folder.missing:
        raise UserError(f"trajectories: {folder.path} has {folder.missing} batches still to read; go on with it first")
    return StoredTrajectories(folder.said(), str(folder.path))


def as_transcript(one: Trajectory) -> Transcript:
    """A trajectory, kept once under its own name: what was asked, then a message for each step; and the samples, with
    all that it takes to read them again.
    """
    steps: list[Message] = [{"role": "assistant" if one.samples else "user", "content": step} for step in one.steps]
    return {
        "readout_id": f"{one.name}/{one.draw}",
        "messages": [*one.asked, *steps],
        "prefill": "",
        "options": [],
        "thoughts": [],
        "answers": [
            {"draw": s.draw, "text": s.text, "status": s.status, "readout_id": s.readout_id, "ids": s.ids}
            for s in one.samples
        ],
    }


def _sample(drawn: Drawn) -> GeneratedText:
    assert "ids" in drawn
    assert "readout_id" in drawn
    status = "ok" if drawn["status"] == "ok" else "truncated"
    return GeneratedText(drawn["readout_id"], drawn["draw"], tuple(drawn["ids"]), drawn["text"], (), status)
