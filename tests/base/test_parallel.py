import pytest

from doxascope.base import parallel as module
from doxascope.base.parallel import progress


def test_a_log_gets_whole_lines_and_always_the_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress(3, "item", "reading") as advance:
        for _ in range(3):
            advance(1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("reading: 3/3 items")
    monkeypatch.setattr(module, "LOG_SECONDS", 0)
    with progress(3, "item", "reading") as advance:
        for _ in range(3):
            advance(1)
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == [
        f"reading: {n}/3 items" for n in (1, 2, 3)
    ]
