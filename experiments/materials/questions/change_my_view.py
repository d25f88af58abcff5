"""Views that somebody wants challenged, as r/ChangeMyView has them: a matter of values, without an outcome."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....hooks.documents import read_json_rows
from ....hooks.errors import UserError
from .question import BinaryQuestion


def load_views(path: Path) -> list[BinaryQuestion]:
    """The views of a JSON-lines file: its objects have a `title`, and may have an `id` and a `selftext`. Other keys are
    left alone.

    Raises UserError as `read_json_rows` does, and for a title without text.
    """
    return [_question(path, number, row) for number, row in enumerate(read_json_rows(path, ("title",)), 1)]


def _question(path: Path, number: int, row: Mapping[str, Any]) -> BinaryQuestion:
    view = row["title"]
    if not isinstance(view, str) or not (view := view.strip()).removeprefix("CMV:").strip():
        raise UserError(f"{path}: row {number} has no text under 'title'")
    name = str(row.get("id") or number)
    return BinaryQuestion(
        id=name,
        cluster=name,
        text=f"Do you agree with this view? {view.removeprefix('CMV:').strip()}",
        option_yes="Agree",
        option_no="Disagree",
        provenance=f"{path.name}, row {number}",
        background=str(row.get("selftext") or ""),
    )
