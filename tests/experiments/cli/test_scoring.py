"""`doxascope score`: the terminal, the JSON, the page, the command."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from doxascope.base.errors import UserError
from doxascope.experiments.report.html import to_html
from doxascope.experiments.report.score_files import as_data, page_of, prepare, write
from doxascope.experiments.report.terminal import to_text
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
PAIRS = ("prior,posterior,outcome,question", "0.2,0.3,0,a", "0.4,0.4,1,a", "0.6,0.7,1,b", "0.8,0.6,1,c", "0.5,,1,d")


def test_json_has_null_for_nan_and_the_page_escapes_the_table(table: Write, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    scored = score_table(table(f"prior,posterior,{evil}", "0.2,0.3,x", "0.2,0.4,x", name="t&<b>.csv"))
    write(prepare(tmp_path / "out"), scored, {"seed": 0})
    stored = json.loads((tmp_path / "out" / "scores.json").read_text(), parse_constant=pytest.fail)
    assert stored == json.loads(json.dumps(as_data(scored, {"seed": 0}), allow_nan=False))
    slope = stored["scores"][0]
    assert (slope["quantity"], slope["estimate"], slope["status"]) == ("M", None, "zero_variance_prior")
    page = (tmp_path / "out" / "report.html").read_text()
    assert evil not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "t&amp;&lt;b&gt;.csv" in page
    assert "src=" not in page
    assert "http" not in page.replace("http-equiv", "")
    write(prepare(tmp_path / "out"), scored, {"seed": 0})  # its own folder may be written again


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match=re.escape("holds 'thesis.tex'")):
        prepare(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    (run / "scores.json").write_text('{"experiment": "consistency"}')
    with pytest.raises(UserError, match=re.escape("holds 'scores.json'")):
        prepare(run)
    (run / "scores.json").write_text("[]")
    with pytest.raises(UserError, match=re.escape("holds 'scores.json'")):
        prepare(run)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "report.html").write_text("the user's")  # of the names that would be written, and not of a score
    with pytest.raises(UserError, match=re.escape("holds 'report.html'")):
        prepare(mine)


def test_what_is_printed_carries_its_denominators_and_methods(table: Write) -> None:
    document = page_of(score_table(table(*PAIRS)), {})
    text = " ".join(to_text(document).split())
    assert "1 (1 undefined)" in text
    assert (
        "not shown to be within 0.01 of 0: 3 clusters, and 300 are needed; the interval by which such a claim is "
        in text
    )
    assert "minimum detectable effect (80% power)" in text
    assert "few effective clusters" in text
    assert "CR3 over 3 clusters" in text
    assert to_html(document).count("CR3 over 3 clusters") >= 1


def doxascope(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "doxascope", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.place
def test_the_command_line(table: Write, tmp_path: Path) -> None:
    table(*PAIRS)
    done = doxascope("score", "t.csv", "--out", "o", "--seed", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("scoring: ") for line in done.stderr.splitlines())  # on a slow machine
    assert "pairs (prior, posterior, outcome), 5 rows" in done.stdout
    assert json.loads((tmp_path / "o/scores.json").read_text())["settings"]["seed"] == 3
    table("prior,posterior", "0.2,1.3")
    failed = doxascope("score", "t.csv", cwd=tmp_path)
    assert failed.returncode == 2
    assert failed.stderr.splitlines() == ["doxascope: t.csv: row 1, posterior: '1.3' is not in [0, 1]"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["prior,posterior", "0.2,1.3"], "row 1, posterior: '1.3' is not in [0, 1]"),
        (["prior,posterior", "0.2"], "row 1 has 1 fields, the header 2"),
        (["single_a,single_b,multi_a,multi_b", "1,2,3,-1"], "row 1, multi_b: '-1' is negative or infinite"),
        (["prior,posterior", "inf,0.2"], "row 1, prior: 'inf' is not in [0, 1]"),
        (["prior,posterior"], "has columns but no rows"),
        (
            ["prior,outcome", "0.2,1"],
            "nearest is 'pairs' (prior, posterior [, outcome, factor_<name>, ...]), which lacks",
        ),
        (["prior,posterior,kind", "0.2,0.3,exact", "0.2,0.3,lens"], "mixes the kinds exact, lens"),
        (
            ["readout_id,item,kind,method,option,prob", "r,i,exact,m,yes,0.5", "r,i,exact,m,yes,0.5"],
            "row 2: readout_id 'r' has option 'yes' twice",
        ),
        (["prior,posterior,city", "0.2,0.3,Köln"], "another encoding than UTF-8 (byte 0xf6)"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, lines: Sequence[str], message: str, command_line: Callable[..., Any]
) -> None:
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode("latin-1"))
    failed = command_line("score", "t.csv", "--out", "o", cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (2, "")
    (line,) = failed.stderr.splitlines()
    assert line.startswith("doxascope: t.csv: ")
    assert message in line
    assert not (tmp_path / "o" / "scores.json").exists()


def test_scoring_never_imports_torch(table: Write, tmp_path: Path) -> None:
    path = table(*PAIRS)
    code = (
        "import sys\n"
        f"sys.argv = ['doxascope', 'score', {str(path)!r}, '--out', {str(tmp_path / 'o')!r}]\n"
        "from doxascope.experiments.cli.main import main\n"
        "try: main()\n"
        "finally: print('imported', {'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "report.html" in done.stdout
    assert done.stdout.endswith("imported set()\n")


def test_levels_fill_the_papers_table_on_the_page_and_in_the_terminal(table: Write) -> None:
    lines = [f"{m},{q},{0.2 + 0.05 * q},{0.25 + 0.05 * q + (m == 'b') * 0.01 * q}" for m in "ab" for q in range(10)]
    scored = score_table(table("model,question,prior,posterior", *lines))
    for told in (to_text(page_of(scored, {})), to_html(page_of(scored, {}))):
        assert "martingale-score" in told
        assert "+0.2000" in told  # the slope of model b
