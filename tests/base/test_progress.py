import pytest

from doxascope.base import progress as module
from doxascope.base.progress import progress, stand


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


def test_a_job_within_shows_no_line_of_its_own_but_where_it_stands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_SECONDS", 0)
    with progress(2, "run", "sweep", of_jobs=True) as advance:
        for name in ("a", "b"):
            with progress(3, "item", name) as one:
                one(3)
            stand("scoring: 3 done")
            advance(1)
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("sweep: ") for line in lines)
    assert any(line.startswith("sweep: 0/2 runs") and line.endswith("; a 3/3 items") for line in lines)
    assert any(line.endswith("; scoring: 3 done") for line in lines)
    assert lines[-1].startswith("sweep: 2/2 runs")
    stand("scoring: 3 done")
    assert capsys.readouterr().err == "scoring: 3 done\n"
    with progress(1, "item", "after") as one:
        one(1)
    assert capsys.readouterr().err.startswith("after: 1/1 items")


def test_what_was_done_before_is_no_part_of_the_rate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(module, "LOG_SECONDS", 10)
    with progress(12, "run", "sweep", before=9) as advance:
        advance(1)
        advance(2)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["sweep: 10/12 runs, 10.0 s per run, 20 s left", "sweep: 12/12 runs, 6.7 s per run, 0 s left"]
    monkeypatch.undo()
    with progress(3, "run", "sweep", before=3):
        pass
    assert capsys.readouterr().err == "sweep: 3/3 runs\n"


def test_the_time_that_is_left_falls_while_a_job_works(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 300.0, 400.0, 900.0, 1100.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(module, "LOG_SECONDS", 0)
    with progress(4, "run", "sweep", of_jobs=True) as advance:
        advance(1)
        for line in ("a 1/3 items", "a 2/3 items"):
            stand(line)
        advance(1)
    assert [line.partition(";")[0] for line in capsys.readouterr().err.splitlines()] == [
        "sweep: 1/4 runs, 300.0 s per run, 900 s left",
        "sweep: 1/4 runs, 300.0 s per run, 800 s left",
        "sweep: 1/4 runs, 300.0 s per run, 600 s left",  # by its mean the run is over: two are left
        "sweep: 2/4 runs, 550.0 s per run, 1100 s left",
    ]
