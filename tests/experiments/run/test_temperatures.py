"""Other temperatures than 1 are kept apart, or refused."""

import pytest

from doxascope.base.errors import UserError
from doxascope.experiments.run.config import load_config


@pytest.mark.parametrize("name", ["ask", "locate", "martingale", "rationality", "sycophancy", "truth"])
def test_who_has_one_belief_for_a_question_is_not_read_at_several_temperatures(name: str) -> None:
    with pytest.raises(UserError, match=r"temperatures: .* at 1"):
        load_config(name, ["temperatures=[0.5]"])
