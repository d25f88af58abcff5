"""What the tests of scoring share."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from doxascope.experiments.scoring.engine import Scored


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes a CSV from its lines, or from columns, and names it."""

    def make(*lines: str, name: str = "t.csv", encoding: str = "utf-8", **columns: Any) -> Path:
        path = tmp_path / name
        text = pd.DataFrame(columns).to_csv(index=False) if columns else "\n".join(lines) + "\n"
        path.write_text(text, encoding=encoding)
        return path

    return make


@pytest.fixture
def estimates() -> Callable[..., dict[str, Any]]:
    """Quantity -> score, of one kind of belief."""

    def found(scored: Scored, kind: str = "") -> dict[str, Any]:
        return {number.quantity: number.score for number in scored.numbers if number.name == kind}

    return found


@pytest.fixture
def beside() -> Callable[..., Mapping[str, str]]:
    """What stands beside a quantity."""

    def found(scored: Scored, quantity: str) -> Mapping[str, str]:
        return next(number.beside for number in scored.numbers if number.quantity == quantity)

    return found
