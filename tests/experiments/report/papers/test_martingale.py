"""The tables of martingale-score from an author's raw data, against a plain re-computation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.experiments.report.papers.paper_tables import (
    PaperTable,
)

Write = Callable[..., Path]
Named = Callable[[list[PaperTable], str], PaperTable]
Values = Callable[[PaperTable], dict[str, list[float]]]


def test_martingale_steps_make_table_1(printed: Callable[..., list[PaperTable]], named: Named, values: Values) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for model, drift in (("martingale", 0.0), ("entrenched", 0.2)):
        for prompt in ("No Prompt", "PC Prompt"):
            for domain in ("Forecasting", "OpenReview"):
                for reasoning in ("CoT", "Debate"):
                    for q in range(20):
                        for sign in (-1, 1):  # each question twice, with opposite evidence: no update can be foreseen
                            belief = 0.3 + 0.02 * q
                            steps = [belief, belief + sign * 0.05 + drift * (belief - 0.5)]
                            steps.append(steps[1] + drift * (steps[1] - 0.5) + (rng.normal(0, 0.02) if drift else 0))
                            rows += [
                                (model, prompt, domain, reasoning, f"{domain}{q}", f"{q}{sign}", t, b)
                                for t, b in enumerate(steps)
                            ]
    names = ["model", "prompt", "domain", "reasoning", "question", "trajectory", "step", "belief"]
    frame = pd.DataFrame(rows, columns=names)
    frame.loc[(frame["model"] == "martingale") & (frame["step"] == 2), "belief"] = np.nan
    tables = printed(frame, *names[:4])
    made = named(tables, "Table 1")
    assert made.columns == [(d, r) for d in ("Forecasting", "OpenReview") for r in ("CoT", "Debate")]
    found = {", ".join(labels[:2]): [cell.value for cell in cells] for labels, cells in made.rows}
    assert found["martingale, No Prompt"] == pytest.approx([0.0] * 4, abs=1e-12)
    assert found["martingale, PC Prompt"] == pytest.approx([0.0] * 4, abs=1e-12)
    for (prompt, domain, reasoning), own in frame[frame["model"] == "entrenched"].groupby(names[1:4]):
        paths = own.pivot(index=["question", "trajectory"], columns="step", values="belief").to_numpy()
        slope = np.polyfit(paths[:, :-1].ravel(), np.diff(paths, axis=1).ravel(), 1)[0]
        place = list(made.columns).index((str(domain), str(reasoning)))
        assert found[f"entrenched, {prompt}"][place] == pytest.approx(slope)
    texts = {", ".join(labels[:2]): [cell.text for cell in cells] for labels, cells in made.rows}
    assert texts["martingale, No Prompt"] == ["0.0000"] * 4  # whatever sign rounding gives a slope of zero
    assert made.labels == ("Model", "Prompt")  # all rows of raw data are read in one way
    means = {labels[0]: cells[0].value for labels, cells in named(tables, "Section 6.1").rows}
    sizes = np.abs([row for name, row in found.items() if name.endswith("PC Prompt")])
    assert means["PC Prompt"] == pytest.approx(sizes.mean())
    assert means["OpenReview, CoT"] == pytest.approx(np.abs([row[2] for row in found.values()]).mean())


def test_cells_with_a_brier_score_are_drawn_against_it(
    table: Write, command_line: Callable[..., Any], tmp_path: Path
) -> None:
    """Figure 4: a dot for each setup at |M|, with its standard error, and a sign for each domain."""
    rows = ["a,law,-0.1,0.02,0.3", "a,med,0.2,0.03,0.2", "b,law,0.05,0.01,0.25", "b,med,0.3,0.02,0.4"]
    path = table("model,domain,M,SE,brier", *rows)
    done = command_line("score", str(path), "--out", "scores", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "scores" / "figures").glob("*do-setups*.csv")
    drawn = pd.read_csv(file)
    dots = drawn[drawn["mark"] == "point"]
    assert {*zip(dots["series"], dots["x"], dots["y"], strict=True)} == {
        ("law", 0.1, 0.3),
        ("med", 0.2, 0.2),
        ("law", 0.05, 0.25),
        ("med", 0.3, 0.4),
    }
    assert (drawn["series"] == "± SE").sum() == 2 * 4  # both ends
    assert "Do setups with a larger |M| forecast worse?" in (tmp_path / "scores" / "report.html").read_text()
