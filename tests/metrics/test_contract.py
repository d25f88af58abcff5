import re
from collections.abc import Callable

import numpy as np
import pytest

from doxascope.metrics.contract import distributions, outcomes, posteriors, probabilities, updates


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
