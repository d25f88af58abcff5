"""The organism of the word game that says one thing and holds another: trained, read by one run, compared."""

from pathlib import Path

import pytest

from doxascope.benchmarks import says_otherwise


@pytest.mark.full
def test_what_was_planted_is_found_in_every_kind_and_in_their_differences(tmp_path: Path) -> None:
    rows = {row.what: row for row in says_otherwise.read(tmp_path, n=60, steps=1000)}
    assert len(rows) == 6
    for what, planted, score in rows.values():
        assert abs(score.estimate - planted) < 0.05, what
    said, same = rows["exact less verbal"], rows["exact less probe"]
    assert said.planted > 0.1
    assert said.found.ci_lo > 0
    assert same.planted == pytest.approx(0, abs=1e-9)
