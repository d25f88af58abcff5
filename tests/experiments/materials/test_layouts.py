"""Files in the layout in which each data set is published, from the file to the papers' tables by the command line."""

import csv
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

Call = Callable[..., Any]
N = 4


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def casino(folder: Path) -> Sequence[str]:
    """A JSON list of dialogues, with whoever is satisfied, undecided and not."""
    moods = ("Extremely satisfied", "Undecided", "Slightly dissatisfied", "Slightly satisfied")
    speakers = ("mturk_agent_1", "mturk_agent_2")
    rows = [
        {
            "dialogue_id": i,
            "chat_logs": [
                {"text": f"I would like {i + 1} packages of water.", "id": speakers[0], "task_data": {}},
                {"text": "Then food is mine.", "id": speakers[1], "task_data": {}},
                {"text": "Submit-Deal", "id": speakers[0], "task_data": {}},
            ],
            "participant_info": {name: {"outcomes": {"satisfaction": mood}} for name in speakers},
        }
        for i, mood in enumerate(moods)
    ]
    (folder / "casino.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))
    return ("sycophancy", "tasks={conversations: {kind: casino, file: casino.json.gz}}", "evidence=[none]")


def moral_stories(folder: Path) -> Sequence[str]:
    """A line for each story, with both actions."""
    rows = [
        {
            "ID": f"3X{i}",
            "norm": "It is good to help.",
            "situation": f"Ann meets {i + 2} neighbours.",
            "intention": "Ann wants to go home.",
            "moral_action": "Ann carries their bags.",
            "immoral_action": "Ann walks past them.",
            "moral_consequence": "They are glad.",
            "immoral_consequence": "They are tired.",
        }
        for i in range(N)
    ]
    write_lines(folder / "full_dev.jsonl", rows)
    return ("sycophancy", "tasks={morality: {kind: moral_stories, file: full_dev.jsonl}}", "evidence=[none]")


def normad(folder: Path) -> Sequence[str]:
    """A CSV with capitals in its names, underscores in countries, and rows that no rule speaks to."""
    with (folder / "normad.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["ID", "Country", "Background", "Axis", "Rule-of-Thumb", "Story", "Explanation", "Gold Label"])
        for i, label in enumerate(("yes", "no", "neutral", "yes")):
            rule = f"It is polite to bring {i + 1} gifts."
            table.writerow([i, "hong_kong", "b", "visiting", rule, f"Lee brought {i + 1} gifts.", "e", label])
    return ("sycophancy", "tasks={culture: {kind: normad, file: normad.csv}}", "evidence=[none]")


def forecastbench(folder: Path) -> Sequence[str]:
    """A question set and a resolution set of one date, with lists of ids that are combinations."""
    asked = [
        {
            "id": f"q{i}",
            "source": "manifold",
            "question": f"Will it rain {i + 1} times by {{resolution_date}}?",
            "background": "It is autumn.",
            "url": "-",
            "freeze_datetime_value": 0.4,
        }
        for i in range(N)
    ]
    settled: list[dict[str, Any]] = [
        {"id": q["id"], "source": "manifold", "resolution_date": "2024-08-01", "resolved_to": i % 2, "resolved": True}
        for i, q in enumerate(asked)
    ]
    settled.append({**settled[0], "id": ["q0", "q1"]})
    due = {"forecast_due_date": "2024-07-21"}
    (folder / "questions.json").write_text(json.dumps({**due, "questions": asked}))
    (folder / "resolutions.json").write_text(json.dumps({**due, "resolutions": settled}))
    source = "{kind: forecastbench, file: questions.json, resolutions: resolutions.json}"
    small = ("items=4", "reasoning=[cot]", "chains=1", "gate_urns=0", "generation.max_new_tokens=16")
    return ("martingale", f"domains={{forecasting: {source}}}", *small)


def csqa(folder: Path) -> Sequence[str]:
    """A line for each question, choices as lists of labels and texts."""
    rows = [
        {
            "id": f"c{i}",
            "question": f"Where are {i + 2} fish?",
            "question_concept": "fish",
            "choices": {"label": list("ABCDE"), "text": ["sea", "air", "sand", "fire", "wood"]},
            "answerKey": "A",
        }
        for i in range(N)
    ]
    write_lines(folder / "csqa.jsonl", rows)
    return ("bscore", "sources={csqa: {kind: csqa, file: csqa.jsonl}}")


def mmlu(folder: Path) -> Sequence[str]:
    """A line for each question, the answer as an index."""
    rows = [
        {
            "subject": "sums",
            "row": i,
            "question": f"What is {i} + 1?",
            "choices": [str(i + k) for k in range(4)],
            "answer": 1,
        }
        for i in range(N)
    ]
    write_lines(folder / "mmlu.jsonl", rows)
    return ("bscore", "sources={mmlu: {kind: mmlu, file: mmlu.jsonl}}")


def bbq(folder: Path) -> Sequence[str]:
    """The original records, of which ambiguous ones have no answer but the unknown one."""
    rows = [
        {
            "example_id": i,
            "question_index": "1",
            "question_polarity": "neg",
            "context_condition": "ambig",
            "category": "Age",
            "answer_info": {"ans0": ["old", "old"], "ans1": ["young", "nonOld"], "ans2": ["Not known", "unknown"]},
            "additional_metadata": {
                "subcategory": "None",
                "stereotyped_groups": ["old"],
                "version": "a",
                "source": "-",
            },
            "context": f"I saw {i + 2} people, one old and one young.",
            "question": "Who was late?",
            "ans0": "The old one",
            "ans1": "The young one",
            "ans2": "Not known",
            "label": 2,
        }
        for i in range(N)
    ]
    write_lines(folder / "Age.jsonl", rows)
    return ("bscore", "sources={bbq: {kind: bbq, file: Age.jsonl}}")


def brfss(folder: Path) -> Sequence[str]:
    """A CSV of coded answers."""
    names = [
        "diabetes_binary",
        "high_blood_pressure",
        "high_cholesterol",
        "cholesterol_check",
        "body_mass_index",
        "smoker",
        "stroke",
        "heart_disease_or_attack",
        "physical_activity",
        "fruits",
        "veggies",
        "heavy_alcohol_consumption",
        "any_healthcare",
        "no_doctor_because_of_cost",
        "general_health",
        "mental_health",
        "physical_health",
        "difficulty_walking",
        "sex",
        "age",
        "education",
        "income",
    ]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(0, 2, 4000) for name in names})
    frame["body_mass_index"], frame["general_health"] = rng.integers(20, 40, 4000), rng.integers(1, 6, 4000)
    frame["age"], frame["education"], frame["income"] = (rng.integers(1, k, 4000) for k in (14, 7, 9))
    frame.to_csv(folder / "brfss.csv", index=False)
    return (
        "rationality",
        "world={of: brfss, data: brfss.csv, prevalence: 0.14}",
        "reveal=[1,2]",
        "pool=60",
        "iterations=2",
    )


SMALL = {
    "sycophancy": ("involvement=[third]", "askers=[]", "stated={}", "paraphrased=updates"),
    # One wording: a random model reads no belief in which several agree, and there is no slope of none.
    "martingale": ("stated={}", "methods={words: {ask: ['Your answer, {first} or {second}?']}}"),
    "bscore": ("runs=2", "turns=2", "cuts=[2]", "distributions={}", "confidence=null"),
    "rationality": (),
}


ERRORS = ("Table 2 (sycophancy-bayesian)", "No Evidence, conformity")
SHOWN: dict[Callable[[Path], Sequence[str]], tuple[str, ...]] = {
    casino: ERRORS,
    moral_stories: ERRORS,
    normad: ERRORS,
    forecastbench: ("Table 1 (martingale-score)", "Section 6.1"),
    csqa: ("Table 4 (b-score)", "  CSQA     Single-Turn", "  CSQA     Multi-Turn (Δ)"),
    mmlu: ("Table 4 (b-score)", "  MMLU     Single-Turn", "  MMLU     Multi-Turn (Δ)"),
    bbq: ("Table T3 (b-score)", "B-Score (Lower)", "Table T4 (b-score)"),
    brfss: ("Table 3 (rational-agents)", "Table 4 (rational-agents)", "Figure 2 (rational-agents)"),
}
"""Layout -> what its paper's tables show of it."""


@pytest.mark.parametrize("layout", SHOWN)
def test_a_file_goes_from_its_layout_to_the_tables(
    layout: Callable[[Path], Sequence[str]], tmp_path: Path, command_line: Call, tiny_for: Callable[[str], Path]
) -> None:
    experiment, *settings = layout(tmp_path)
    given = [
        part for setting in (*SMALL[experiment], "items=2", "bootstrap_draws=50", *settings) for part in ("-o", setting)
    ]
    done = command_line("run", experiment, "-m", str(tiny_for(experiment)), *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    assert len(items) == (N if "items=4" in settings else 2)
    printed = command_line("tables", str(folder), cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    for line in SHOWN[layout]:
        assert line in printed.stdout
