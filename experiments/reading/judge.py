"""What judges say at each place: the mean of the exact distribution of their numbers, without the noise of sampling."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...hooks.errors import UserError
from ...hooks.lm import LanguageModel, load
from ...hooks.model.spec import ModelSpec
from ...hooks.prompts.chat import Message
from ...hooks.verbal.asking import ask_number
from ...hooks.verbal.exact_numbers import read_numbers
from ...hooks.verbal.formats import UNIT
from ...hooks.verbal.plan import Judge
from ..experiment import RunConfig, Transcript
from .place import BeliefPlace
from .stated import Rows
from .transcripts import number_transcript


class Shown(NamedTuple):
    """What a judge is shown in order to believe something at a place."""

    place: BeliefPlace
    question: str
    steps: Sequence[str]
    """Those up to the place's own, or also later ones, if it sees the whole."""


def judge_rows(
    config: RunConfig, show: Callable[[Judge], Sequence[Shown]], lm: LanguageModel
) -> tuple[Rows, list[Transcript]]:
    """The rows of the belief table for every judge of `config.stated`, without the columns of an experiment and an
    item, and what each was asked. A model that judges itself is loaded once.

    Args:
        config: of the run.
        show: what each judge is shown.
        lm: the model whose beliefs are read.

    Raises UserError for a judge that has no chat template.
    """
    judges = config.stated.judges
    others = [one.model for one in judges.values() if not _is_itself(one.model, config)]
    loaded = _loaded(tuple(dict.fromkeys(one.model_dump_json() for one in others))) if others else {}
    rows: Rows = []
    said: list[Transcript] = []
    for i, (name, judge) in enumerate(judges.items()):
        reader = loaded.get(judge.model.model_dump_json(), lm)
        more, also = _one_judge(config, judge, f"judge {name}" if i else "judge", show(judge), reader)
        rows += [row | {"kind": "judge", "method": f"judge {name}"} for row in more]
        said += also
    return rows, said


def _is_itself(judge: ModelSpec, config: RunConfig) -> bool:
    return judge.model_copy(update={"threads": config.model.threads}) == config.model


def _one_judge(
    config: RunConfig, judge: Judge, mark: str, shown: Sequence[Shown], lm: LanguageModel
) -> tuple[Rows, list[Transcript]]:
    asked = []
    for place, question, steps in shown:
        text = judge.prompt.format(question=question, steps=_numbered(steps), step=place.step)
        message: Message = {"role": "user", "content": text}
        asked.append(ask_number(lm.reader, f"{place.name}/{mark}", [message], UNIT.worded(*place.options)))
    rows: Rows = []
    for (place, *_), one in zip(shown, read_numbers(lm, asked, budget=config.budget), strict=True):
        rows += [place.columns() | row for row in one.rows(place.options, config.low_coverage)]
    return rows, [
        number_transcript(lm.reader.chat, own, one.place.options) for one, own in zip(shown, asked, strict=True)
    ]


@lru_cache(maxsize=1)
def _loaded(settings: tuple[str, ...]) -> dict[str, LanguageModel]:
    """The judges of a run, which stay in memory beside the model."""
    return {one: _load(ModelSpec.model_validate_json(one)) for one in settings}


def _load(spec: ModelSpec) -> LanguageModel:
    try:
        return load(spec)
    except UserError as error:
        raise UserError(f"judge {spec.name}: {error}") from error


def _numbered(steps: Sequence[str]) -> str:
    return "\n\n".join(f"[{i}] {step}" for i, step in enumerate(steps, 1)) or "(none yet)"
