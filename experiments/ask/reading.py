"""What is read of a question: every read-out that can be, and why the others cannot."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from ...hooks.belief_rows import option_rows
from ...hooks.errors import UserError
from ...hooks.lm import LanguageModel
from ..experiment import Item, Question, Read
from ..reading.exact import compile_questions, read_questions
from .asking import PROPOSED, method_questions
from .config import AskConfig

log = logging.getLogger("doxascope")

UNREADABLE = "ambiguous"
"""Status of a read-out whose options have no probability each: one is part of another, or tokens change at its end."""


def read_item(name: str, config: AskConfig, item: Item, lm: LanguageModel) -> Read:
    """Read one question under every method, for the experiment of that name. A method under which its options cannot be
    told apart token by token gives no number there, and says so; the others go on.

    Raises UserError if no method can read it, with what the first said.
    """
    able: list[Question] = []
    unable: list[dict[str, Any]] = []
    faults: list[str] = []
    for method in config.answers:
        try:
            asked = method_questions(config, item, method)
            compile_questions(lm.reader, asked, config.capture)
        except UserError as error:
            faults.append(str(error))
            unable += _rows(name, item, method_questions(config, item, method))
        else:
            able += asked
    if not able:
        raise UserError(faults[0] if faults else f"question {item.id}: no method of {list(config.answers)} can ask it")
    for fault in faults:
        log.warning("left out: %s", fault)
    read = read_questions(name, config, item, able, lm)
    return read._replace(rows=[*map(_with_outcome, [*read.rows, *unable])])


def _rows(name: str, item: Item, asked: Sequence[Question]) -> list[dict[str, Any]]:
    """The rows of read-outs without a number."""
    return [
        {
            "experiment": name,
            "item": item.id,
            "cluster": item.cluster,
            "scenario": one.scenario,
            "readout_id": one.readout_id,
            "method": one.method,
            "variant": json.dumps(one.variant, sort_keys=True),
            **row,
        }
        for one in asked
        for row in option_rows(
            [option.name for option in one.options],
            [float("nan")] * len(one.options),
            kind="exact",
            coverage=float("nan"),
            status=UNREADABLE,
        )
    ]


def _with_outcome(row: Any) -> dict[str, Any]:
    """The row with whether its option is true: of a proposed option, whether yes is, or no."""
    told = json.loads(row["variant"])
    truth, place = told["truth"], row["option_index"]
    if truth is None:
        return row
    if row["scenario"] == PROPOSED:
        return {**row, "outcome": float((told["proposed"] == truth) == (place == 0))}
    return {**row, "outcome": float(place == truth)}
