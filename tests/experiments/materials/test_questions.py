import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError
from doxascope.experiments.materials.questions import load_forecastbench, load_openreview, load_views

DATA = Path(os.environ.get("DOXASCOPE_DATA", Path(__file__).parents[3] / "../shared/data"))


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_submissions_with_their_evidence_in_order(tmp_path: Path) -> None:
    text = (
        "rebuttal,review2,title,abstract,decision,review1,venue\n"
        "We did.,Weak.,On x,We show x.,Accept (poster),Strong.,ICML\n"
        ",,On y,We show y.,Withdrawn,,\n,,On z,Z.,Desk reject,,\n"
    )
    first, second, third = load_openreview(written(tmp_path / "t.csv", text))
    assert first.evidence == ("Review1: Strong.", "Review2: Weak.", "Rebuttal: We did.")
    assert (first.outcome, third.outcome, second.evidence) == (1, 0, ())
    assert np.isnan(second.outcome)
    assert "ICML" in first.text
    bad = written(tmp_path / "bad.csv", "title,abstract,decision\nOn x,We show x.,perhaps\n")
    with pytest.raises(UserError, match=r"row 1: decision 'perhaps'; it must begin with one of accept, reject"):
        load_openreview(bad)


def test_views_have_no_outcome(tmp_path: Path) -> None:
    rows = [{"title": "CMV: Tea beats coffee", "id": "t1", "selftext": "It does.", "ups": 3}, {"title": "Cats first"}]
    found = load_views(written(tmp_path / "v.jsonl", "\n".join(map(json.dumps, rows))))
    assert [question.text.partition("? ")[2] for question in found] == ["Tea beats coffee", "Cats first"]
    assert [(question.id, question.background) for question in found] == [("t1", "It does."), ("2", "")]
    assert np.isnan([question.outcome for question in found]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ('{"title": "a"}\nnonsense', "line 2: is not JSON"),
        ('{"title": "CMV: "}', "row 1 has no text under 'title'"),
        ("[1]", "row 1 is no object"),
    ],
)
def test_files_without_views_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_views(written(tmp_path / "v.jsonl", text))
    with pytest.raises(UserError, match="cannot be read"):
        load_views(tmp_path / "none.jsonl")


ASKED: dict[str, Any] = {
    "forecast_due_date": "2024-07-21",
    "questions": [
        {"id": "m", "source": "poly", "question": "Will it?", "background": "So far.", "url": "https://x.example"},
        {"id": "f", "source": "fred", "question": "Up by {resolution_date} from {forecast_due_date}?", "background": "",
         "url": ""},
        {"id": ["m", "f"], "source": "poly", "question": "Both?", "background": "", "url": ""},
    ],
}  # fmt: skip
SETTLED: dict[str, Any] = {
    "forecast_due_date": "2024-07-21",
    "resolutions": [
        {"id": "f", "source": "fred", "resolution_date": day, "resolved_to": to, "resolved": known}
        for day, to, known in (("2024-07-28", 1.0, True), ("2024-08-20", 0.4, False))
    ],
}


def test_forecasts_are_dated_and_those_of_one_question_share_a_cluster(tmp_path: Path) -> None:
    questions = written(tmp_path / "q.json", json.dumps(ASKED))
    resolutions = tmp_path / "r.json.gz"
    with gzip.open(resolutions, "wt") as file:
        json.dump(SETTLED, file)
    market, early, late = load_forecastbench(questions, resolutions)
    assert (early.text, early.resolved_on) == ("Up by 2024-07-28 from 2024-07-21?", "2024-07-28")
    assert early.cluster == late.cluster != market.cluster
    np.testing.assert_array_equal([question.outcome for question in (market, early, late)], [np.nan, 1, np.nan])
    assert "https://x.example" in market.provenance


def test_what_is_no_forecastbench_set_is_refused(tmp_path: Path) -> None:
    good = written(tmp_path / "q.json", json.dumps(ASKED)), written(tmp_path / "r.json", json.dumps(SETTLED))
    with pytest.raises(UserError, match="is no ForecastBench resolution set: give one with 'resolutions'"):
        load_forecastbench(good[0], good[0])
    other = written(tmp_path / "o.json", json.dumps(SETTLED | {"forecast_due_date": "2025-01-01"}))
    with pytest.raises(UserError, match="due on 2025-01-01, the questions on 2024-07-21"):
        load_forecastbench(good[0], other)
    lacking = written(tmp_path / "l.json", json.dumps(ASKED | {"questions": [{"id": "m", "source": "x"}]}))
    with pytest.raises(UserError, match="question 1 has no 'question'"):
        load_forecastbench(lacking, good[1])
    broken = tmp_path / "b.json.gz"
    broken.write_bytes(b"\x1f\x8b no gzip")
    for path in (broken, written(tmp_path / "t.json", "{"), tmp_path / "none.json"):
        with pytest.raises(UserError, match=r"cannot be read|is not JSON"):
            load_forecastbench(good[0], path)


def test_the_published_sets_of_forecastbench(tmp_path: Path) -> None:
    questions, resolutions = (
        DATA / "forecastbench" / name for name in ("2024-07-21-human.json", "2024-07-21_resolution_set.json.gz")
    )
    if not questions.exists():
        pytest.skip("forecastbench is not beside the checkout (DOXASCOPE_DATA names the folder)")
    found = load_forecastbench(questions, resolutions)
    ids = {row["source"] + "/" + row["id"] for row in json.loads(questions.read_text())["questions"]}
    assert {question.cluster for question in found} == ids
    with gzip.open(resolutions) as file:
        rows = [row for row in json.load(file)["resolutions"] if isinstance(row["id"], str)]
    told = Counter(row["resolved_to"] for row in rows if row["resolved"] and f"{row['source']}/{row['id']}" in ids)
    assert Counter(question.outcome for question in found if not np.isnan(question.outcome)) == told
    assert not any("{" in question.text for question in found)
