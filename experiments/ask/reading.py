"""What is read of a question: every read-out that can be, and why the others cannot."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from ...hooks.belief_rows import option_rows
from ...hooks.edits.branches import Edits
from ...hooks.errors import UserError
from ...hooks.lm import LanguageModel
from ...hooks.prompts.query import PromptReader
from ...hooks.tree.memory import Cost
from ..experiment import Item, Question, Read
from ..reading.exact import compile_questions, read_questions
from .asking import CHOICE, PROPOSED, about, asked_of, method_questions
from .config import AskConfig

log = logging.getLogger("doxascope")

UNREADABLE = "unreadable"
"""Status where the options have no probability each: one is part of another, tokens change at its end, or the prompt is
too long."""


def read_item(name: str, config: AskConfig, item: Item, lm: LanguageModel, edits: Edits | None = None) -> Read:
    """Read one question under every method, for the experiment of that name. A method under which its options cannot be
    told apart token by token gives no number there, and says so; the others go on. Each branch of `edits` is a method
    of its own.
    """
    able, faults = readable(config, item, lm.reader)
    rows: list[dict[str, Any]] = []
    for method, error in faults.items():
        log.warning("left out: question %s under %s: %s", item.id, method, error)
        rows += _without_number(name, item, method)
    nothing = Read([], [], Cost(0, 0, 0, config.budget, 0), None)
    read = read_questions(name, config, item, able, lm, edits) if able else nothing
    return read._replace(rows=[*map(_with_outcome, [*read.rows, *rows])])


def readable(config: AskConfig, item: Item, reader: PromptReader) -> tuple[list[Question], dict[str, UserError]]:
    """The read-outs of a question under every method that can ask it, and why others cannot."""
    able: list[Question] = []
    faults: dict[str, UserError] = {}
    for method in config.answers:
        try:
            asked = method_questions(config, item, method)
            compile_questions(reader, asked, config.capture)
        except UserError as error:
            faults[method] = error
        else:
            able += asked
    return able, faults


def _without_number(name: str, item: Item, method: str) -> list[dict[str, Any]]:
    """The rows of a question that a method cannot read."""
    one = asked_of(item)
    options = one.choice.options
    where = {
        "experiment": name,
        "item": item.id,
        "cluster": item.cluster,
        "scenario": CHOICE,
        "readout_id": f"{item.id}/{method}/order-0",
        "method": method,
        "variant": json.dumps(about(one), sort_keys=True),
    }
    nothing = [float("nan")] * len(options)
    rows = option_rows(options, nothing, kind="exact", coverage=float("nan"), status=UNREADABLE)
    return [where | row for row in rows]


def _with_outcome(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with whether its option is true: of a proposed option, whether yes is, or no."""
    told = json.loads(row["variant"])
    truth, place = told["truth"], row["option_index"]
    if truth is None:
        return {**row}
    if row["scenario"] == PROPOSED:
        return {**row, "outcome": float((told["proposed"] == truth) == (place == 0))}
    return {**row, "outcome": float(place == truth)}
