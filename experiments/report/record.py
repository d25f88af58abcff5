"""A document as JSON, and back: all of it but the drawings, which lie beside it as files."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ...base.documents import read_json
from ...base.errors import in_one_line
from ...base.text import visible
from .cells import jsonable
from .document import Block, Report


def to_json(document: Report) -> dict[str, Any]:
    """The document in what JSON has, without what is as usual. Characters that a terminal would obey are escaped."""
    return jsonable(_plain(document))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        shown = ((field, getattr(value, field.name)) for field in fields(value) if field.metadata.get("kept", True))
        return {field.name: _plain(part) for field, part in shown if field.name == "kind" or part != field.default}
    if isinstance(value, Mapping):
        return {visible(str(name)): _plain(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return visible(value) if isinstance(value, str) else value


def from_json(data: Mapping[str, Any]) -> Report:
    """The document of which `to_json` has made this; its figures have no drawing. Raises what pydantic does."""
    kinds = {kind.kind: TypeAdapter(kind) for kind in Block.__subclasses__()}
    blocks = [kinds[block["kind"]].validate_python(block) for block in data["blocks"]]
    return TypeAdapter(Report).validate_python({**data, "blocks": blocks})


def read(path: Path) -> Report:
    """The document of a `report.json`. Raises UserError for a file that holds none."""
    with in_one_line(f"{path}: holds no report", "write it again: `doxascope report`"):
        return from_json(read_json(path))
