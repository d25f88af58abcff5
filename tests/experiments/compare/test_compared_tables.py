"""`doxascope compare` of tables: outcomes that disagree, where each is scored by its own, and a metric of one's own."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from doxascope.experiments.compare import compare
from doxascope.experiments.compare.page import page, sentence
from doxascope.experiments.report.html import to_html
from doxascope.experiments.report.terminal import to_text
from doxascope.metrics import metric

N = 20


def table(path: Path, outcomes: Sequence[Any], form: str) -> Path:
    """Of two options, or of three in a belief table, whose first, or last, is true."""
    if form == "belief":
        lines = ["item,belief,outcome", *(f"q{i},0.{i % 9 + 1},{y}" for i, y in enumerate(outcomes))]
    else:
        lines = ["readout_id,item,kind,method,option,prob,outcome"]
        for i, y in enumerate(outcomes):
            truth: Any = {"": ("", "", ""), 1: (1, 0, 0), 0: (0, 0, 1)}[y]
            probs = (0.2 + 0.01 * i, 0.3, 0.5 - 0.01 * i)
            lines += [f"r{i},q{i},exact,m,{o},{p},{t}" for o, p, t in zip("abc", probs, truth, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("form", ["belief", "options"])
def test_outcomes_that_disagree_are_told_with_the_files_the_row_and_both_values(form: str, tmp_path: Path) -> None:
    outcomes: list[object] = [i % 2 for i in range(N)]
    other = [*outcomes]
    other[3], other[4], other[5] = 0, 1, ""  # what is not known does not disagree
    first, second = (table(tmp_path / f"{name}.csv", own, form) for name, own in (("a", outcomes), ("b", other)))
    found = compare(first, second)
    (line,) = found.groups[0].disagreements
    values = "1 and 0" if form == "belief" else "option_index 0 and option_index 2"
    start = f"{first} and {second}: 2 of {N - 1} common rows have another outcome, the first 'q3': {values};"
    assert line.startswith(start)
    assert line in to_text(page(found, {}), 1000)
    assert line in to_html(page(found, {})).replace("&#39;", "'")


def test_tables_that_agree_say_nothing(tmp_path: Path) -> None:
    outcomes = [i % 2 for i in range(N)]
    found = compare(*(table(tmp_path / f"{name}.csv", outcomes, "belief") for name in "ab"))
    assert found.groups[0].disagreements == []
    assert "disagree" not in to_text(page(found, {}), full=True) + to_html(page(found, {}))


def test_a_sentence_has_the_level_of_its_interval_and_says_that_it_is_not_adjusted(tmp_path: Path) -> None:
    for name, moves in (("a", 9), ("b", 3)):
        rows = [f"q{i},0.{5 + i % 3},{0.9 if i < moves else 0.51},{i % 2}" for i in range(N)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["item,prior,posterior,outcome", *rows]) + "\n")
    found = compare(tmp_path / "a.csv", tmp_path / "b.csv")
    record = next(record for record in found.confirmed if record.score.ci_lo < record.score.ci_hi)
    for level, size, text in (
        (0.95, 1, "with the 95% interval"),
        (0.9, 1, "with the 90% interval"),
        (0.995, 2, "with the 99.5% interval"),
    ):
        score = replace(record.score, params={**record.score.params, "level": level}, family_size=size)
        said = sentence(replace(record, number=replace(record.number, score=score)))
        assert text in said
        assert ("of this number alone, not adjusted" in said) == (size > 1)


def test_a_metric_of_a_users_own_is_paired_as_every_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: each for name, each in metric._REGISTRY.items() if name != "moved"}  # pyright: ignore
    monkeypatch.setattr(metric, "_REGISTRY", known)  # other tests of this process know nothing of it
    page_of_it = (Path(__file__).parents[3] / "docs" / "extending.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"`moved.py`:\n\n```python\n(.*?)```", page_of_it, re.DOTALL)
    (tmp_path / "moved.py").write_text(code)
    for name, moves in (("a", 9), ("b", 3)):
        rows = [f"q{i},0.5,{0.7 if i < moves else 0.51}" for i in range(12)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["item,prior,posterior", *rows]) + "\n")
    both = [tmp_path / "a.csv", tmp_path / "b.csv"]
    found = compare(*both, metrics=["moved"], allow_code=[tmp_path / "moved.py"])
    (record,) = found.confirmed
    assert (record.score.first, record.score.second, record.score.n_rows) == (0.75, 0.25, 12)
