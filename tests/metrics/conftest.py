"""What the tests of scoring share."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from doxascope.metrics.scoring.engine import Scored


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
