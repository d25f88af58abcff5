"""What the model says at each place: the exact distribution of its numbers, and sampled answers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...hooks.lm import LanguageModel
from ...hooks.verbal.answers import answer_rows, write_answers
from ...hooks.verbal.asking import NumberQuestion, ask_number
from ...hooks.verbal.exact_numbers import NumberReading, read_numbers
from ...hooks.verbal.formats import FORMATS, UNIT, NumberFormat
from ..experiment import Item, Transcript
from ..reading.place import BeliefPlace
from ..reading.stated import ANSWER_TOKENS, Rows
from ..reading.transcripts import number_transcript
from .asking import AUXILIARY, BELIEF, PRIOR, BeliefSite, places, said
from .config import RationalityConfig

NUMBERS = "numbers"


def stated_rows(config: RationalityConfig, item: Item, lm: LanguageModel) -> tuple[Rows, list[Transcript]]:
    """The rows of all formats without the columns of an experiment and an item, and what was asked and said.

    Numbers are read under every prompt and in every case. Answers are sampled under every prompt, each a reading of
    its own; in a case their mean is the number distribution's.
    """
    rows: Rows = []
    told: list[Transcript] = []
    asked = [one for one in places(config, item) if one.scenario != PRIOR]
    for name in dict.fromkeys((*config.said.numbers, *config.said.sampled)):
        pairs = [(_place(config, one), _question(config, item, one, name, lm)) for one in asked]
        if name in config.said.numbers:
            read = read_numbers(lm, [one for _, one in pairs], budget=config.budget)
            for (place, _), one in zip(pairs, read, strict=True):
                rows += _numbers(place, one, config)
        if name in config.said.sampled:
            here = [(place, one) for place, one in pairs if place.scenario == BELIEF]
            sampling = config.sampling.model_copy(update={"max_new_tokens": ANSWER_TOKENS})
            written = write_answers(
                lm, [one for _, one in here], sampling, draws=config.said.repetitions, seed=config.seed
            )
            for (place, one), answers in zip(here, written, strict=True):
                for answer in answers:
                    for row in answer_rows(one, "sampled", [answer], place.options, config.low_coverage):
                        where = place.columns(reading=answer.draw)
                        rows.append(where | row | {"readout_id": f"{row['readout_id']}.{answer.draw}"})
            told += [
                number_transcript(lm.reader.chat, one, place.options, answers)
                for (place, one), answers in zip(here, written, strict=True)
            ]
            pairs = [pair for pair in pairs if pair not in here]
        if name in config.said.numbers:
            told += [number_transcript(lm.reader.chat, one, place.options) for place, one in pairs]
    return _with_auxiliary(config, item, lm, rows, told)


def _place(config: RationalityConfig, place: BeliefSite) -> BeliefPlace:
    return BeliefPlace(place.name, place.scenario, 0, [], config.answers, place.variant)


def _question(config: RationalityConfig, item: Item, place: BeliefSite, name: str, lm: LanguageModel) -> NumberQuestion:
    text = said(item, place, config, config.wording.number)
    return ask_number(lm.reader, f"{place.name}/{name}", text, FORMATS[name].worded(*config.answers))


def _numbers(place: BeliefPlace, read: NumberReading, config: RationalityConfig) -> Rows:
    """The mean of the distribution, its spread, and by how much several lines do not add up to 1."""
    beside = {"sd": read.belief.sd}
    if len(read.lines) > 1:
        beside["excess"] = sum(line.mean for line in read.lines) - 1
    return [place.columns(**beside) | row for row in read.rows(place.options, config.low_coverage)]


def _with_auxiliary(
    config: RationalityConfig, item: Item, lm: LanguageModel, rows: Rows, told: list[Transcript]
) -> tuple[Rows, list[Transcript]]:
    """Beside that, a number for each state of the covariate that was not revealed."""
    further: Any = item.content["auxiliary"]
    if not (config.said.auxiliary and config.iterated and further):
        return rows, told
    text = config.wording.auxiliary_number.format(situation=item.content["situation"], noun=further["noun"])
    form = _states(further["labels"])
    asked = ask_number(lm.reader, f"{item.id}/auxiliary", [{"role": "user", "content": text}], form)
    (read,) = read_numbers(lm, [asked], budget=config.budget)
    where = {"scenario": AUXILIARY, "step": 0, "variant": "{}"}
    status = read.lines[-1].status(config.low_coverage)
    own = [
        where  # a read-out each, as the lines of numbers need not sum to 1
        | {"readout_id": f"{asked.readout_id}/{NUMBERS}.{i}", "kind": "verbal", "method": NUMBERS}
        | {"option": label, "option_index": i, "prob": line.mean}
        | {"coverage": read.belief.coverage, "status": status}
        for i, (label, line) in enumerate(zip(further["labels"], read.lines, strict=True))
    ]
    return [*rows, *own], [*told, number_transcript(lm.reader.chat, asked, further["labels"])]


def _states(labels: Sequence[str]) -> NumberFormat:
    """The paper's format: a line for each state, with a number from 0 to 1."""
    listed = ", ".join(f'"{label}:"' for label in labels)
    return replace(
        UNIT,
        name="states",
        instruction=f"Give each its probability, a number from 0 to 1 with at most two decimals. Reply with "
        f"{len(labels)} lines and nothing else, in this order and each followed by its number: {listed}.",
        labels=tuple(f"{'' if not i else chr(10)}{label}: " for i, label in enumerate(labels)),
    )
