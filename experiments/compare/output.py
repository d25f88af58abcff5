"""A comparison for a terminal, for a program, and as files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...base.files import OutputFolder
from ...base.text import shown
from ...base.version import __version__
from ...metrics import UNREADABLE
from ...metrics.number import interval_text
from ..report.cells import aligned, as_row, in_lines, jsonable, qualified
from ..report.page import FIGURES
from ..report.score_files import prepared
from ..report.text import adjusted_p
from .findings import Comparison, Matrix, Record
from .page import family_caption, page
from .sides import Side

PLACES = ("first", "second")
"""Of sides, in the order in which they were given."""
FILES = ("comparison.json", "report.html", FIGURES)


def text(found: Comparison) -> str:
    """For a terminal: what differs, the family, and what is struck out."""
    lines: list[str] = []
    for group in found.groups:
        lines.append(f"{group.name}:")
        lines += [f"  {place}: {side.label} ({side.path})" for place, side in zip(PLACES, group.sides, strict=False)]
        lines += [f"  then: {side.label} ({side.path})" for side in group.sides[len(PLACES) :]]
        lines += [f"  {name}: {' | '.join(values)}" for name, values in group.differs]
        lines += [f"  outcomes disagree: {line}" for line in group.disagreements]
        lines += [f"  left out: {name}, for {why}" for side in group.sides for name, why in side.refused.items()]
        lines += [f"  {line}" for side in group.sides for line in verdict_lines(side)]
    lines += ["", family_caption(found)]
    lines += ["", *aligned([HEAD, *map(_cells, found.confirmed)])] if found.confirmed else []
    lines += [f"  {one.pair.metric}: {one.named}" for one in found.confirmed if one.named]
    if found.struck:
        lines += ["", f"struck out, {UNREADABLE}:", *(f"  {name} {why}" for name, why in found.failures)]
        named = [record for record in found.struck if record.pair.metric in found.family]
        lines += aligned([HEAD, *map(_cells, named)]) if named else []
        lines += [f"and {n} comparisons of other numbers"] if (n := len(found.struck) - len(named)) else []
    if found.explored:
        told = [record for record in found.explored if record.finding.startswith("differ")]
        lines += ["", f"exploratory: {len(told)} of {len(found.explored)} other differences after Benjamini-Hochberg"]
    return in_lines(lines)


HEAD = (
    *("", "first", "second", "difference", "95% interval", "adjusted p", "minimum detectable effect", "rows"),
    *("status", "finding"),
)


def verdict_lines(side: Side) -> list[str]:
    """What is said of each method of a side: whether it can be read, responds and is coherent."""
    return [f"{side.label}, {one.called}: {one.sentence}" for one in side.verdicts] or [f"{side.label}: not judged"]


def _cells(record: Record) -> tuple[str, ...]:
    score = record.score
    return (
        f"{record.pair.metric}: {' - '.join(record.pair.names)}",
        shown(score.first),
        shown(score.second),
        shown(score.difference),
        interval_text(score.ci_lo, score.ci_hi) or "none",
        adjusted_p(score),
        shown(score.mde),
        str(score.n_rows),
        qualified(score.status) or "ok",
        record.finding,
    )


def as_data(found: Comparison, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same for `comparison.json`."""
    return {
        "doxascope": __version__,
        "comparison": "paired",
        "settings": dict(settings),
        "groups": [
            {
                "name": group.name,
                "sides": [
                    {"label": side.label, "path": side.path.name, "refused": dict(side.refused)} for side in group.sides
                ],
                "differs": {name: list(values) for name, values in group.differs},
                "disagreements": list(group.disagreements),
                "failed": dict(group.failed),
                "numbers": [as_row(number) for number in group.numbers],
                "matrix": _matrix_data(group.matrix) if group.matrix else None,
            }
            for group in found.groups
        ],
        "family": {"numbers": list(found.family), "named_by": found.named_by},
        "confirmed": [as_row(one.number) | one.as_dict() for one in found.confirmed],
        "explored": [as_row(one.number) | one.as_dict() for one in found.explored],
        "struck": [as_row(one.number) | one.as_dict() for one in found.struck],
    }


def _matrix_data(matrix: Matrix) -> dict[str, Any]:
    return jsonable(
        {
            "names": list(matrix.names),
            "reliabilities": [score.as_dict() for score in matrix.reliabilities],
            "correlations": [
                {"first": matrix.names[i], "second": matrix.names[j], **score.as_dict()}
                for (i, j), score in matrix.correlations.items()
            ],
        }
    )


def prepare(folder: Path) -> OutputFolder:
    """The folder that `write` will fill. Raises UserError if it holds anything but a comparison."""
    return prepared(folder, FILES, "confirmed", "comparison")


def write(folder: OutputFolder, found: Comparison, settings: Mapping[str, Any]) -> None:
    """The record, the page and its figures, each whole or not at all."""
    folder.write_json(FILES[0], as_data(found, settings))
    page(found, settings).write(folder)
