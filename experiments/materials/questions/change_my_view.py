"""Views that somebody wants challenged, as r/ChangeMyView has them: a matter of values, without an outcome."""

import json
from pathlib import Path

from ....hooks.errors import UserError
from .question import BinaryQuestion


def load_views(path: Path) -> list[BinaryQuestion]:
    """The views of a JSON-lines file: its objects have a `title`, and may have an `id` and a `selftext`. Other keys are
    left alone.

    Raises UserError for a file that cannot be read or is empty, a line that is no JSON object, or one without a title.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error}); give a UTF-8 file of JSON lines") from None
    questions = [_question(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise UserError(f"{path}: is empty; give one JSON object per line")
    return questions


def _question(path: Path, number: int, line: str) -> BinaryQuestion:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: line {number} is not JSON ({error.msg}); one object per line") from None
    view = row.get("title") if isinstance(row, dict) else None
    if not isinstance(view, str) or not (view := view.strip()).removeprefix("CMV:").strip():
        raise UserError(f"{path}: line {number} has no text under 'title'")
    name = str(row.get("id") or number)
    return BinaryQuestion(
        id=name,
        cluster=name,
        text=f"Do you agree with this view? {view.removeprefix('CMV:').strip()}",
        option_yes="Agree",
        option_no="Disagree",
        provenance=f"{path.name}, line {number}",
        background=str(row.get("selftext") or ""),
    )
