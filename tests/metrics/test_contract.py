import re
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from doxascope.metrics.contract import Score, distributions, outcomes, posteriors, probabilities, updates


@pytest.mark.parametrize(
    ("check", "values", "message"),
    [
        (probabilities, [0.5, 1.5], "b: 1.5 is not a probability; give values in [0, 1] or NaN"),
        (distributions, [[0.5, 0.25]], "b: sums to 0.75, not 1; normalise it first"),
        (outcomes, [1, 0.5], "b: 0.5 is not an outcome; give 0, 1 or NaN"),
        (updates, [-1.5], "b: -1.5 is no difference of two beliefs; give [-1, 1] or NaN"),
        (posteriors, [np.inf], "b: inf is negative or infinite; give P* or NaN"),
    ],
)
def test_a_message_shows_the_value_as_a_user_would_write_it(check: Callable, values: list, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(values, "b")


def test_a_result_is_a_frozen_dataclass_however_it_is_written() -> None:
    class Short(Score, headline="x"):
        x: float = float("nan")
        counts: int = 0

    @dataclass(frozen=True, kw_only=True)
    class Long(Score):
        headline: ClassVar[str] = "x"
        x: float
        why: Mapping[str, int] = field(default_factory=dict)

    for made in (Short(x=0.5, n_rows=3, status="few"), Long(x=0.5, n_rows=3, status="few")):
        assert made.estimate == 0.5
        assert repr(made) == f"{type(made).__name__}(x=0.5, n=3, status=few)"
        assert replace(made, **made.common_fields()) == made
        with pytest.raises(FrozenInstanceError):
            made.x = 1.0  # type: ignore
    assert Short(counts=2).counts == 2
    assert Long(x=0.5).why == {}
