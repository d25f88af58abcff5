from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from doxascope.benchmarks.agents import Eliminating
from doxascope.benchmarks.calibration.__main__ import main
from doxascope.benchmarks.calibration.design import Design, misses, rejects, score_of, scores, verdict
from doxascope.benchmarks.calibration.page import PROMISED, markdown, read, write
from doxascope.benchmarks.calibration.simulation import all_designs, merged, run

DOCS = Path(__file__).parents[2] / "docs"


def _of(*keys: str) -> list[Design]:
    return [design for design in all_designs() if design.key in keys]


def test_every_design_fills_its_rows(tmp_path: Path) -> None:
    designs = all_designs()
    assert max(Counter(design.key for design in designs).values()) == 1
    rows = run(designs, seeds=2, power_seeds=1, again=2)
    assert [(row.key, row.test) for row in rows] == [(d.key, test.name) for d in designs for test in d.tests]
    assert max(Counter((row.key, row.test) for row in rows).values()) == 1
    for row in rows:
        assert (row.first_seeds or row.seeds) == (2 if row.aim == "level" else 1)
        assert 0 <= row.rate <= 1, f"{row.key}, {row.test}: no sample had a result"
    write(rows, tmp_path)
    page = (tmp_path / "calibration.md").read_text()
    assert all("| {} |".format(row.test.replace("|", "\\|")) in page for row in rows if row.role != "picture")
    assert read(tmp_path) == rows


def test_every_headlined_test_has_a_level_and_a_power() -> None:
    ours = {
        aim: {test.name for d in all_designs() if d.aim == aim for test in d.tests if test.role == "ours"}
        for aim in ("level", "power")
    }
    assert ours["level"] == ours["power"]
    for design in all_designs():
        roles = {test.role for test in design.tests}
        assert "paper" not in roles or "ours" in roles, design.key


def test_the_page_keeps_its_promise() -> None:
    """At least 1,000 seeds; every level of ours holds or is flagged, and every test finds its effect in some design."""
    rows = read(DOCS)
    assert (DOCS / "calibration.md").read_text() == markdown(rows)
    assert [(row.key, row.test) for row in rows] == [(d.key, test.name) for d in all_designs() for test in d.tests]
    levels = [row for row in rows if row.role == "ours" and row.aim == "level"]
    found = {row.test for row in rows if row.aim == "power" and row.verdict == "found"}
    assert min(row.seeds for row in levels) >= 1000
    assert [f"{row.key}, {row.test}: {row.rate}" for row in levels if row.verdict not in ("holds", "flagged")] == []
    assert {row.test for row in levels} - found == set()


def test_rates_that_were_asked_for_are_kept_and_a_rate_that_is_not_is_named() -> None:
    rows = read(DOCS)
    asked = [line for line in markdown(rows).splitlines() if line.endswith(("| yes |", "| no |"))]
    assert len(asked) == len(PROMISED) == 16
    assert all(line.endswith("| yes |") for line in asked)
    worse = [replace(row, rate=0.071) if row.key == "F-copied-20" and row.instead_of else row for row in rows]
    named = [line for line in markdown(worse).splitlines() if line.endswith("| no |")]
    assert len(named) == 1
    assert "7.1% | at most 7% | no |" in named[0]


def test_what_of_ours_is_outside_its_level_is_run_again_on_fresh_seeds() -> None:
    """One rejection in three seeds is outside."""
    designs = _of("D-null", "W-fork")
    rows = run(designs, seeds=3, again=20)
    both = run(designs, seeds=23, again=1)
    again = [row for row in rows if row.first_seeds]
    assert again
    for row in again:
        (whole,) = (other for other in both if (other.key, other.test) == (row.key, row.test))
        assert (row.first_seeds, row.seeds, row.role) == (3, 20, "ours")
        assert row.rate * 20 == pytest.approx(whole.rate * 23 - row.first_rate * 3)
        assert f"20 fresh seeds, after {100 * row.first_rate:.1f}% of 3" in markdown([row])
    assert all(row.seeds == 3 for row in rows if row not in again)


def test_workers_do_not_change_the_numbers() -> None:
    designs = _of("W-fork", "F-pool")
    with ProcessPoolExecutor(2) as pool:
        assert run(designs, seeds=110, again=60) == run(designs, seeds=110, again=60, spread=pool.map)


def test_published_practice_fails_where_ours_does_not() -> None:
    """The artefacts are large: forty seeds show them."""
    rows = {(row.key, row.test): row for row in run(_of("C-null", "D-null", "E-flat", "A-noise"), seeds=40, again=40)}
    curse = rows["C-null", "top-option B, chosen and scored on the same answers, t"]
    honest = rows["C-null", "top-option B, chosen on one half and scored on the other, bootstrap interval"]
    assert curse.rate > 0.6
    assert honest.rate < 0.25
    assert curse.role == "paper"
    clones = rows["E-flat", "any Fisher pair, five repetitions as rows"]
    assert clones.rate > 0.5
    assert rows["E-flat", "order-restricted test"].rate < 0.25
    attenuated = rows["A-noise", "slope of one reading, HC3"]
    assert attenuated.rate > 0.5
    assert rows["A-noise", "split-reading IV slope, interval"].rate < 0.25
    assert attenuated.verdict == "too many"


@pytest.mark.parametrize("number", ["c2", "M"])
def test_what_is_said_is_told_from_what_is_computed_and_held(number: str) -> None:
    """Of forty tables: the planted difference is found and covered, and none is where none was planted."""
    rows = run(_of(f"F-kinds-{number}", f"F-kinds-{number}-power"), seeds=40, power_seeds=10, again=0)
    rates = {(row.key.removeprefix(f"F-kinds-{number}"), row.test): row.rate for row in rows}
    assert all(rate <= 0.15 for (key, _), rate in rates.items() if not key)
    assert all(rate >= 0.9 for (key, _), rate in rates.items() if key)


def test_the_verdict_is_two_standard_errors_at_the_nominal_level() -> None:
    reach = 2 * np.sqrt(0.05 * 0.95 / 1000)
    for rate, said in (
        (0.05, "holds"),
        (0.05 + reach, "holds"),
        (0.05 + reach + 0.001, "too many"),
        (0.05 - reach - 0.001, "timid"),
    ):
        assert verdict(rate, 1000, 0.05, "level") == said
    assert verdict(0.01, 1000, 0.05, "level", bound=True) == "holds"
    assert verdict(0.05 + reach + 0.001, 1000, 0.05, "level", bound=True) == "too many"
    assert verdict(0.8, 400, 0.05, "power") == "found"
    assert verdict(0.79, 400, 0.05, "power") == "often missed"
    assert verdict(float("nan"), 0, 0.05, "level") == "undefined"


def test_a_number_that_is_asked_for_alone_is_the_one_among_all() -> None:
    sample = Eliminating().sample(30, 0)
    alone = score_of("consistency", "p_invalid_norm", sample, 99)
    np.testing.assert_equal(vars(alone), vars(scores("consistency", sample, 99)["p_invalid_norm"]))
    assert alone.params["draws"] == 99


def test_what_is_undefined_is_no_result() -> None:
    assert np.isnan(rejects(float("nan")))
    assert np.isnan(misses(float("nan"), 1, 0))
    assert (rejects(0.05), rejects(0.051)) == (1, 0)
    assert (misses(-1, 1, 0), misses(0.1, 1, 0), misses(-1, -0.1, 0)) == (0, 1, 1)


def test_a_design_that_is_run_anew_replaces_its_rows_alone() -> None:
    old = run(_of("F-pool", "W-fork"), seeds=3, again=1)
    new = run(_of("W-fork"), seeds=5, again=1)
    both = merged(old, new)
    assert [row for row in both if row.key == "F-pool"] == [row for row in old if row.key == "F-pool"]
    assert [row for row in both if row.key == "W-fork"] == new
    assert "3 seeds per level" in markdown(both)  # the smallest
    odd = replace(new[0], undefined=2, rate=0.4, verdict="too many", note="")
    assert f"- {odd.test}: 40.0% of 5 for {odd.agent} (undefined in 2 of 5)\n" in markdown([odd])


def test_the_command_writes_where_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(
        [
            "--seeds",
            "2",
            "--power-seeds",
            "1",
            "--again",
            "1",
            "--workers",
            "1",
            "--only",
            "F-pool",
            "--out",
            str(tmp_path),
        ]
    )
    assert "4 rows" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"calibration.md", "calibration.csv"}
    with pytest.raises(SystemExit):
        main(["--only", "no such design"])


def test_the_page_is_derived_from_the_table(tmp_path: Path) -> None:
    table = (DOCS / "calibration.csv").read_text()
    (tmp_path / "calibration.csv").write_text(table)
    main(["--page-only", "--out", str(tmp_path)])
    assert (tmp_path / "calibration.csv").read_text() == table
    page = (tmp_path / "calibration.md").read_text()
    assert page == (DOCS / "calibration.md").read_text()
    assert len(page.splitlines()) < 300
    rows = [row for row in read(tmp_path) if row.test == "slope, CR3 t(G*-1)" and row.family.startswith("A")]
    rates = sorted(row.rate for row in rows if row.aim == "level")
    counts = [sum(row.verdict == verdict for row in rows) for verdict in ("holds", "found")]
    n = [sum(row.aim == aim for row in rows) for aim in ("level", "power")]
    cells = f"{100 * rates[0]:.1f}% to {100 * rates[-1]:.1f}% | {counts[0]} of {n[0]} |  | {counts[1]} of {n[1]} |"
    assert cells in page
