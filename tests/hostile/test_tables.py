"""Hostile tables: each is refused in one line that names the place, or read as a person would read it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError
from doxascope.base.text import as_csv, for_spreadsheet
from doxascope.metrics.scoring.engine import score_table

BELIEFS = "readout_id,item,kind,method,option,prob"
STEPS = "trajectory,step,belief"

REFUSED: dict[str, tuple[str, str]] = {
    "a truth value as a belief": ("prior,posterior|0.1,true|0.2,0.3|", "row 1, posterior: 'true' is not a number"),
    "an underscore in a number": ("prior,posterior|0.1,0.2|0.1_5,0.3|", "row 2, prior: '0.1_5' is not a number"),
    "part of an answer": ("k,n|2.5,5|1,5|", "row 1, k: '2.5' is no count"),
    "a number beyond floats": ("prior,posterior|0.1,1e999|", "row 1, posterior: '1e999'"),
    "labels that floats cannot hold": ("prior,posterior,item|0.1,0.2,1|0.2,0.3,1.0|", "is written '1' and '1.0'"),
    "a step that is not there": (f"{STEPS}|a,0,.1|a,2,.3|b,0,.1|b,1,.2|b,2,.3|", "'a' has no row for step 1"),
    "probabilities that sum to less": (f"{BELIEFS}|r,i,exact,m,yes,0.4|r,i,exact,m,no,0.4|", "sums to 0.8, not 1"),
    "a row too short": ("prior,posterior|0.1|", "row 1 has 1 fields"),
    "a column twice": ("prior,prior,posterior|0.1,0.2,0.3|", "two columns 'prior'"),
    "nothing": ("", "is empty"),
    "an open quote": ('prior,posterior|0.1,"0.2|', "not valid CSV"),
    "a NUL": ("prior,posterior|0.1,0.2\0|", "zero bytes"),
    "another number of the same digits": ("prior,posterior|0.1,٠.٢x|", "is not a number"),
}


def scored(path: Path) -> list[tuple[str, float]]:
    return [(number.metric, number.score.estimate) for number in score_table(path).all]


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_be_read_in_two_ways_is_refused(name: str, tmp_path: Path) -> None:
    text, says = REFUSED[name]
    path = tmp_path / "table.csv"
    path.write_text(text.replace("|", "\n"))
    with pytest.raises(UserError) as told:
        score_table(path)
    assert says in str(told.value)
    assert "\n" not in str(told.value)


JSON_LINES = {
    "a key twice": ('{"prior": 0.1, "prior": 0.4, "posterior": 0.2}', "the key 'prior' twice"),
    "a truth value": ('{"prior": 0.1, "posterior": true}', "row 1, posterior: 'True' is not a number"),
    "deep": ('{"prior": ' + "[" * 100_000, "row 1 is not JSON"),
    "5000 digits": ('{"prior": 0.1, "posterior": ' + "9" * 5000 + "}", "row 1"),
    "500 digits": ('{"prior": 0.1, "posterior": ' + "9" * 500 + "}", "row 1, posterior"),
    "a list as a number": ('{"prior": [0.1], "posterior": 0.2}', "row 1, prior"),
    "two spellings of a label": (
        '{"prior": 0.1, "posterior": 0.2, "item": 1}\n{"prior": 0.1, "posterior": 0.2, "item": 1.0}',
        "is written '1' and '1.0'",
    ),
}


@pytest.mark.parametrize("name", JSON_LINES)
def test_json_that_could_be_read_in_two_ways_is_refused(name: str, tmp_path: Path) -> None:
    text, says = JSON_LINES[name]
    path = tmp_path / "table.jsonl"
    path.write_text(text)
    with pytest.raises(UserError) as told:
        score_table(path)
    assert says in str(told.value)


def test_clusters_that_floats_cannot_tell_apart_are_refused_and_whole_numbers_are_kept(tmp_path: Path) -> None:
    ids = [2**60 + i for i in range(6)]
    beliefs = np.linspace(0.1, 0.6, 6)
    table = pd.DataFrame({"prior": beliefs, "posterior": beliefs[::-1], "cluster": ids})
    table.to_parquet(tmp_path / "whole.parquet")
    assert "clusters: cluster (6)" in score_table(tmp_path / "whole.parquet").understood.line
    pd.concat([table, table.iloc[:1].assign(cluster=None)]).astype({"cluster": "Int64"}).to_parquet(
        tmp_path / "gap.parquet"
    )
    with pytest.raises(UserError, match="row 7, cluster: is missing"):
        score_table(tmp_path / "gap.parquet")
    table.astype({"cluster": float}).to_parquet(tmp_path / "float.parquet")
    with pytest.raises(UserError, match="too large to be told from its neighbours"):
        score_table(tmp_path / "float.parquet")


def test_weights_that_do_not_sum_to_one_are_said(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("p,cond_1,weight_1,cond_2,weight_2\n0.5,0.4,0.5,0.6,0.5\n0.5,0.4,1,0.6,1\n")
    assert "weights of 1 rows sum to 2 to 2, not 1: they are divided by their sum" in score_table(path).understood.line


@pytest.mark.parametrize("name", [".writing-part-1.parquet", "part-1 (1).parquet", "Copy of part-1.parquet"])
def test_leftovers_in_a_folder_are_named(name: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"prior": [0.1, 0.2], "posterior": [0.2, 0.3]})
    for part in ("part-0.parquet", "part-1.parquet"):
        table.to_parquet(tmp_path / part)
    assert scored(tmp_path)
    table.to_parquet(tmp_path / name)
    with pytest.raises(UserError, match=r"is a hidden file|is a copy by its name"):
        score_table(tmp_path)


def test_the_belief_table_of_a_default_consistency_run_is_scored_without_its_forks(tmp_path: Path) -> None:
    rows = []
    for item in "abc":
        for scenario, prob in (("prior", 0.5), ("posterior", 0.6), ("fork", 0.7), ("fork-reveal", 0.2)):
            for option, p in (("x", prob), ("y", 1 - prob)):
                rows.append((f"{item}/{scenario}", item, "exact", "free", scenario, option, p))
    names = ["readout_id", "item", "kind", "method", "scenario", "option", "prob"]
    pd.DataFrame(rows, columns=names).to_csv(tmp_path / "run.csv", index=False)
    line = score_table(tmp_path / "run.csv").understood.line
    assert "6 read-outs of other scenarios (fork, fork-reveal) are left out" in line


def test_thousands_of_levels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "levels.csv"
    path.write_text("prior,posterior,factor_a\n" + "".join(f"0.5,0.6,l{i}\n" for i in range(3000)))
    with pytest.raises(UserError, match="factor_a: has 3,000 levels, more than 200"):
        score_table(path)


@pytest.mark.parametrize("columns", [1_000, 30_000])
def test_many_columns_are_refused_soon(columns: int, tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"some column {i}" for i in range(columns)) + "\n")
    with pytest.raises(UserError, match="fit no metric"):
        score_table(path)


def test_a_cell_of_megabytes_is_no_burden(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("prior,posterior,item\n" + "".join(f"0.{i},0.5,{i}{'x' * 5_000_000}\n" for i in range(1, 4)))
    score_table(path)
    (tmp_path / "name.csv").write_text("p" * 5_000_000 + ",posterior\n0.1,0.2\n")
    with pytest.raises(UserError) as told:
        score_table(tmp_path / "name.csv")
    assert len(str(told.value)) < 3_000


def test_no_cell_for_a_spreadsheet_is_a_formula() -> None:
    table = pd.DataFrame({"=head": ["=cmd|' /C calc'!A0", "@sum(1)", "-1", "+1", "\t=1", "plain"], "n": range(-3, 3)})
    lines = as_csv(for_spreadsheet(table)).splitlines()
    assert all(not line.startswith(("=", "@", "-", "+", "\t")) for line in lines)
    assert lines[1].endswith(",-3")


def test_control_characters_are_shown_and_not_obeyed(tmp_path: Path, command_line: Callable[..., Any]) -> None:
    path = tmp_path / "a\x1b[2J\u202eb.csv"
    path.write_text("prior,posterior,it\x07em\n0.1,0.2,x\n0.3,0.4,y\n")
    for args in ((str(path),), (str(tmp_path / "no\x1b]0;owned\x07.csv"),)):
        done = command_line("score", *args, cwd=tmp_path)
        said = done.stdout + done.stderr
        assert "\\x1b" in said
        assert not {"\x1b", "\x07", "\u202e"} & set(said)


def test_settings_cannot_leave_the_folder_of_runs_or_run_code(tmp_path: Path, command_line: Callable[..., Any]) -> None:
    model = {"name": "x", "path": str(tmp_path)}
    for change, says in (
        ({"name": "../../x"}, "model.name"),
        ({"name": "a/b"}, "model.name"),
        ({"name": "a\nb"}, "model.name"),
        ({"packaged": {"module": "os", "assemble": "getcwd", "install": "x"}}, "would run code"),
        ({"trust_remote_code": True}, "to allow it, say -o model.trust_remote_code=true"),
        ({"threads": 100_000}, "model.threads"),
    ):
        (tmp_path / "mine.yaml").write_text(json.dumps({"experiment": "consistency", "model": model | change}))
        done = command_line("run", "mine.yaml", cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_zero_byte_makes_no_second_cluster(tmp_path: Path) -> None:
    path = tmp_path / "zero.jsonl"
    rows = [{"prior": 0.1 * i, "posterior": 0.5, "cluster": name} for i, name in enumerate(("a", "a\0", "b"))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=r"cluster: 'a\\x00' holds a zero byte; take it out"):
        score_table(path)
