"""A long score says how far it is; a short one says nothing."""

import time

import pytest

from doxascope.metrics.scoring import engine as telling
from doxascope.metrics.scoring.engine import progress


def test_nothing_is_said_of_a_short_score(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as begin:
        begin("a")
        begin("b")
    assert capsys.readouterr() == ("", "")


def test_a_step_that_takes_long_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "PATIENCE", 0.01)
    with progress() as begin:
        begin("brier")
        begin("martingale of exact/words")
        time.sleep(0.2)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["scoring: 1 done after 0 s, now martingale of exact/words"]
