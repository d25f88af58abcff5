"""One family of each kind of layers, as the command tries all of them."""

import pytest

from doxascope.benchmarks.families import check_family
from doxascope.benchmarks.tiny_families import FAMILIES


@pytest.mark.parametrize("family", ["gemma3_text", "llama4_text", "lfm2", "zamba2", "mamba"])
def test_a_family_is_read_as_by_plain_passes(family: str) -> None:
    outcome = check_family(family)
    assert not outcome.skipped
    assert not outcome.faults
    assert outcome.path in outcome.nat


def test_streams_of_a_shape_of_their_own_are_refused_in_one_line() -> None:
    outcome = check_family("gemma3n_text")
    assert not outcome.faults
    assert "keeps several streams" in outcome.capture
    assert "keeps several streams" in outcome.edit


def test_there_are_many_families() -> None:
    assert len(FAMILIES) >= 30
