"""What the tests of the papers' tables share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from doxascope.experiments.report.papers.of_levels import tables_of_levels
from doxascope.experiments.report.papers.paper_tables import (
    PaperTable,
)
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]


@pytest.fixture
def printed(table: Write, command_line: Callable[..., Any], tmp_path: Path) -> Callable[..., list[PaperTable]]:
    """The paper's tables of an author's raw data, as the command line gives them: on its page, cell by cell."""

    def make(frame: pd.DataFrame, *by: str, cluster: str | None = None) -> list[PaperTable]:
        path = table(**frame, name=f"raw{len(list(tmp_path.iterdir()))}.csv")
        options = [*(["--by", ",".join(by)] if by else []), *(["--cluster", cluster] if cluster else [])]
        done = command_line("score", str(path), *options, "--out", "scores", "--full", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        blocks = json.loads((tmp_path / "scores" / "report.json").read_text())["blocks"]
        found = tables_of_levels(score_table(path, by=by, cluster=cluster))
        for made in found:
            (shown,) = [block for block in blocks if block.get("title") == f"{made.number} of {made.paper}"]
            expected = [[*labels, *(cell.text for cell in cells)] for labels, cells in made.rows]
            assert [[cell["value"] for cell in row] for row in shown["rows"]] == expected
            assert f"{made.number} of {made.paper}" in done.stdout
        return found

    return make


@pytest.fixture
def values() -> Callable[[PaperTable], dict[str, list[float]]]:
    """First label of a row -> its numbers."""
    return lambda table: {labels[0]: [cell.value for cell in cells] for labels, cells in table.rows}


@pytest.fixture
def named() -> Callable[[list[PaperTable], str], PaperTable]:
    """The one table of a number."""

    def find(tables: list[PaperTable], number: str) -> PaperTable:
        (found,) = [table for table in tables if table.number == number]
        return found

    return find
