"""Pairs of one's own history: what differs, and what may not."""

from itertools import islice

import pytest

from doxascope import UserError
from doxascope.experiments.suite.locate.config import HistoryPairs
from doxascope.experiments.suite.locate.pairs import MinimalPair


def said(pair: MinimalPair, name: str) -> list[str]:
    return [message["content"] for message in pair.contexts[name] if message["role"] == "assistant"]


def test_base_and_donor_differ_in_one_past_answer_and_the_control_in_none_that_counts() -> None:
    for pair in islice(HistoryPairs(turns=5).candidates(0), 60):
        base, donor = said(pair, "base"), said(pair, "donor")
        changed = [i for i, (one, other) in enumerate(zip(base, donor, strict=True)) if one != other]
        assert changed == [3]
        assert donor[3].endswith(pair.options[0].name)
        assert base[3].endswith(pair.options[1].name)
        for name, own in (("base", base), ("donor", donor)):
            swapped = said(pair, f"same answers for {name}")
            assert swapped != own
            assert sorted(swapped) == sorted(own)
            assert not {*said(pair, f"unrelated for {name}")} & {*own}


def test_a_text_with_another_placeholder_is_refused() -> None:
    with pytest.raises(UserError, match="placeholder 'answer' is not one of"):
        HistoryPairs(ask="{question} {answer}")
