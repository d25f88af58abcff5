"""The questions of ForecastBench and their resolutions, as its data sets publish them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ....hooks.documents import read_json
from ....hooks.errors import UserError, in_one_line
from .question import BinaryQuestion


def load_forecastbench(questions: Path, resolutions: Path) -> list[BinaryQuestion]:
    """A question for each single question and date on which it is resolved; the dates of one question are a cluster.

    What is not resolved yet, or has no resolution in the file, has no outcome. Combinations of questions are left out.

    Args:
        questions: a question set, .json or .json.gz.
        resolutions: the resolution set of the same due date.

    Raises UserError for a file that cannot be read or is no such set, or sets of two due dates.
    """
    asked, settled = _read(questions, "questions"), _read(resolutions, "resolutions")
    due = asked["forecast_due_date"]
    if settled["forecast_due_date"] != due:
        raise UserError(
            f"{resolutions}: due on {settled['forecast_due_date']}, the questions on {due}; give the sets of one date"
        )
    dated: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    with in_one_line(resolutions):
        for row in settled["resolutions"]:
            if isinstance(row["id"], str):
                dated.setdefault((row["source"], row["id"]), []).append(row)
    with in_one_line(questions):
        return [
            _question(row, due, resolution)
            for row in asked["questions"]
            if isinstance(row["id"], str)
            for resolution in dated.get((row["source"], row["id"]), [{}])
        ]


def _question(row: Mapping[str, Any], due: str, resolution: Mapping[str, Any]) -> BinaryQuestion:
    date = resolution.get("resolution_date", "")
    cluster = f"{row['source']}/{row['id']}"
    text = (
        row["question"].replace("{forecast_due_date}", due).replace("{resolution_date}", date or "the resolution date")
    )
    return BinaryQuestion(
        id=f"{cluster}/{date}" if date else cluster,
        cluster=cluster,
        text=text,
        option_yes="Yes",
        option_no="No",
        provenance=f"ForecastBench {due}, {row['source']}, {row['url']}",
        outcome=float(resolution["resolved_to"]) if resolution.get("resolved") else np.nan,
        background=row["background"],
        resolved_on=date,
    )


NEEDED = {
    "questions": ("id", "source", "question", "background", "url"),
    "resolutions": ("id", "source", "resolution_date", "resolved_to", "resolved"),
}


def _read(path: Path, kind: str) -> Any:
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get(kind), list) or "forecast_due_date" not in data:
        raise UserError(f"{path}: is no ForecastBench {kind[:-1]} set: give one with {kind!r} and 'forecast_due_date'")
    for number, row in enumerate(data[kind], 1):
        if missing := [name for name in NEEDED[kind] if not isinstance(row, dict) or name not in row]:
            raise UserError(f"{path}: {kind[:-1]} {number} has no {missing[0]!r}")
    return data
