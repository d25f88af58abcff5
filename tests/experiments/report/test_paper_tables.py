"""The tables of the papers: from an author's raw data, from stored runs, as text and as LaTeX."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy, ttest_rel

from doxascope.base.errors import UserError
from doxascope.experiments.report.papers import bscore, consistency, martingale, rationality, sycophancy
from doxascope.experiments.report.papers.latex import as_latex
from doxascope.experiments.report.papers.of_levels import tables_of_levels
from doxascope.experiments.report.papers.paper_tables import (
    DASH,
    PaperTable,
    RunNumbers,
    as_lines,
    marks_of,
    number_cell,
)
from doxascope.metrics.decision.prediction import isotonic_calibration
from doxascope.metrics.decision.sufficiency import knn_cmi_plain
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]


@pytest.fixture
def printed(table: Write, command_line: Callable[..., Any], tmp_path: Path) -> Callable[..., list[PaperTable]]:
    """The paper's tables of an author's raw data, as the command line gives them: on its page, cell by cell."""

    def make(frame: pd.DataFrame, *by: str, cluster: str | None = None) -> list[PaperTable]:
        path = table(**frame, name=f"raw{len(list(tmp_path.iterdir()))}.csv")
        options = [*(["--by", ",".join(by)] if by else []), *(["--cluster", cluster] if cluster else [])]
        done = command_line("score", str(path), *options, "--out", "scores", "--full", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        blocks = json.loads((tmp_path / "scores" / "report.json").read_text())["blocks"]
        found = tables_of_levels(score_table(path, by=by, cluster=cluster))
        for one in found:
            (shown,) = [block for block in blocks if block.get("title") == f"{one.number} of {one.paper}"]
            expected = [[*labels, *(cell.text for cell in cells)] for labels, cells in one.rows]
            assert [[cell["value"] for cell in row] for row in shown["rows"]] == expected
            assert f"{one.number} of {one.paper}" in done.stdout
        return found

    return make


def values(table: PaperTable) -> dict[str, list[float]]:
    """First label of a row -> its numbers."""
    return {labels[0]: [cell.value for cell in cells] for labels, cells in table.rows}


def named(tables: list[PaperTable], number: str) -> PaperTable:
    (found,) = [table for table in tables if table.number == number]
    return found


def test_martingale_steps_make_table_1(printed: Callable[..., list[PaperTable]]) -> None:
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


def test_readings_without_and_with_a_user_make_tables_1_and_2(printed: Callable[..., list[PaperTable]]) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for model, swayed in (("Bayesian", 0.0), ("sycophant", 0.15)):
        for arm in ("Flattery", "Conformity"):
            for scenario in range(40):
                p_x, p_y = rng.uniform(0.2, 0.6), rng.uniform(0.6, 0.9)
                likelihood = rng.uniform(0.3, 0.8) * p_y
                bayes = p_x * likelihood / p_y
                noise = rng.normal(0, 0.02, 2) if swayed else np.zeros(2)
                base, syc = np.clip([bayes + noise[0], bayes + swayed + noise[1]], 0, 1)
                rows.append((model, arm, scenario, base, syc, p_x, p_y, likelihood))
    names = ["model", "arm", "scenario", "base", "syc", "p_x", "p_y", "p_y_given_x"]
    frame = pd.DataFrame(rows, columns=names)
    made = printed(frame, "model", "arm")
    one, two = named(made, "Table 1"), named(made, "Table 2")
    assert [f"{group} {name}" for group, name in one.columns][::3] == [
        f"{arm} No Syc." for arm in ("Overall", "Flattery", "Conformity")
    ]
    perfect = values(one)["Bayesian"]
    assert [perfect[i] for i in (0, 1, 3, 4, 6, 7)] == pytest.approx([0.0] * 6, abs=1e-12)
    frame["bayes"] = frame["p_x"] * frame["p_y_given_x"] / frame["p_y"]
    swayed = frame[frame["model"] == "sycophant"]
    for at, own in ((0, swayed), (3, swayed[swayed["arm"] == "Flattery"]), (6, swayed[swayed["arm"] == "Conformity"])):
        rmse = [np.sqrt(((own[name] - own["bayes"]) ** 2).mean()) for name in ("base", "syc")]
        assert values(one)["sycophant"][at : at + 2] == pytest.approx(rmse)
    flattered = swayed[swayed["arm"] == "Flattery"]
    assert values(two)["sycophant"][:2] == pytest.approx([flattered["base"].mean(), flattered["syc"].mean()])
    for arm, at in (("Flattery", 0), ("Conformity", 3)):
        own = swayed[swayed["arm"] == arm]
        p = ttest_rel(own["syc"], own["base"]).pvalue
        cells = next(cells for labels, cells in two.rows if labels[0] == "sycophant")[at : at + 3]
        stars = "**" if p < 0.05 else "*" if p < 0.1 else ""
        expected = [f"{own['base'].mean():.2f}", f"{stars}{own['syc'].mean():.2f}", f"{p:.3f}"]
        assert [cell.text for cell in cells] == expected
        still = values(two)["Bayesian"]
        assert still[at] == pytest.approx(still[at + 1])


def test_two_ways_of_asking_have_both_arms_together_too(printed: Callable[..., list[PaperTable]]) -> None:
    """Tables 1 and 2 as published: a row for each model and way of asking, `Overall` over arms, and by evidence."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        [
            (model, way, arm, evidence, f"s{i}", *rng.uniform(0.2, 0.9, 2), p, *told)
            for model in ("a", "b")
            for way in ("Direct", "Hybrid")
            for arm in ("Flattery", "Conformity")
            for evidence in ("No Evidence", "Argument")
            for i in range(12)
            for p in (rng.uniform(0.3, 0.5),)
            for told in ([(np.nan, np.nan)] if evidence == "No Evidence" else [(0.8, rng.uniform(0.3, 0.7))])
        ],
        columns=["model", "way", "arm", "evidence", "scenario", "base", "syc", "p_x", "p_y", "p_y_given_x"],
    )
    made = printed(frame, "model", "way", "arm", "evidence")
    heads = [group for group, _ in named(made, "Table 1").columns[::3]]
    assert heads == ["Overall", "Flattery", "Conformity"]
    groups = [group for group, _ in named(made, "Table 2").columns[::3]]
    arms = ("", ", Flattery", ", Conformity")
    assert groups == [f"{evidence}{arm}" for evidence in ("No Evidence", "Argument") for arm in arms]
    short = printed(frame[frame["evidence"] == "Argument"], "model", "way", "arm")
    two = named(printed(frame, "model", "way", "evidence"), "Table 2")
    assert [group for group, _ in two.columns[::3]] == ["No Evidence", "Argument"]
    for (model, way), own in frame.groupby(["model", "way"]):
        argued = own[own["evidence"] == "Argument"]
        bayes = argued["p_x"] * argued["p_y_given_x"] / argued["p_y"]
        for tables in (made, short):
            overall = values(named(tables, "Table 1"))[f"{model}, {way}"][:3]
            assert overall[:2] == pytest.approx([((argued[x] - bayes) ** 2).mean() ** 0.5 for x in ("base", "syc")])
        for at, group in enumerate(groups):
            evidence, _, arm = group.partition(", ")
            part = own[(own["evidence"] == evidence) & own["arm"].isin([arm] if arm else ["Flattery", "Conformity"])]
            found = values(named(made, "Table 2"))[f"{model}, {way}"][3 * at : 3 * at + 3]
            p = ttest_rel(part["syc"], part["base"]).pvalue
            assert found == pytest.approx([part["base"].mean(), part["syc"].mean(), p])
        plain = own[own["evidence"] == "No Evidence"]
        assert values(two)[f"{model}, {way}"][:2] == pytest.approx([plain["base"].mean(), plain["syc"].mean()])


def test_the_published_error_keeps_posteriors_above_1_and_says_how_many(
    printed: Callable[..., list[PaperTable]],
) -> None:
    """Eq. 1 and 2 as they stand, by their formula; and Figure 2 from the outcomes."""
    rng = np.random.default_rng(11)
    n = 60
    frame = pd.DataFrame({"model": "m", "arm": ["Flattery", "Conformity"] * (n // 2), "scenario": range(n)})
    frame["p_x"], frame["p_y"] = rng.uniform(0.4, 0.9, n), rng.uniform(0.4, 0.9, n)
    frame["p_y_given_x"] = rng.uniform(0.5, 1, n)
    frame["base"], frame["syc"] = rng.uniform(0.3, 1, (2, n))
    frame["outcome"] = rng.integers(0, 2, n)
    bayes = frame["p_y_given_x"] * frame["p_x"] / frame["p_y"]
    above = (bayes > 1).sum()
    assert above > 3
    made = printed(frame, "model", "arm")
    one = named(made, "Table 1")
    for at, own in ((0, slice(None)), (3, frame["arm"] == "Flattery"), (6, frame["arm"] == "Conformity")):
        part, target = frame.loc[own], bayes.loc[own]
        rmse = [np.sqrt(((part[name] - target) ** 2).mean()) for name in ("base", "syc")]
        p = ttest_rel((part["syc"] - target) ** 2, (part["base"] - target) ** 2).pvalue
        assert values(one)["m"][at : at + 3] == pytest.approx([*rmse, p])
    (told,) = [note for note in one.notes if note.startswith("Posteriors of eq. 1 above 1")]
    assert f"{above} of {n} (m)" in told
    assert "The paper names no test" in one.notes[0]
    cut = bayes.clip(upper=1)
    for at, arm in enumerate(("Flattery", "Conformity")):
        own = frame["arm"] == arm
        worse = [
            (frame["syc"][own] - aim[own]) ** 2 - (frame["base"][own] - aim[own]) ** 2
            for aim in (frame["outcome"], cut)
        ]
        assert values(named(made, "Figure 2"))["m"][at] == pytest.approx(np.corrcoef(worse[0], worse[1])[0, 1])


def test_counted_answers_make_table_2(printed: Callable[..., list[PaperTable]]) -> None:
    rng = np.random.default_rng(2)
    rows = []
    for model in ("steady", "biased"):
        for category in ("subjective", "random", "easy", "hard"):
            for q in range(6):
                single = rng.multinomial(30, [0.6, 0.3, 0.1])
                multi = single if model == "steady" else rng.multinomial(30, [1 / 3] * 3)
                truth = {"easy": "abc"[int(single.argmax())], "hard": "c"}.get(category, "")
                rows.append((model, category, f"{category}{q}", *single, *multi, truth))
    options = [f"{arm}_{option}" for arm in ("single", "multi") for option in "abc"]
    frame = pd.DataFrame(rows, columns=["model", "category", "question", *options, "truth"])
    made = named(printed(frame, "model", "category"), "Table 2")
    assert [name for _, name in made.columns] == ["Subjective", "Random", "Easy", "Hard", "Mean"]
    found = values(made)
    assert found["steady"] == pytest.approx([0.0] * 5)  # what it says afresh it says again
    cells = {labels[0]: [cell.text for cell in cells] for labels, cells in made.rows}
    assert cells["biased"][2] == "+0.00*"  # every easy answer is right
    expected = []
    for category in ("subjective", "random", "hard"):
        own = frame[(frame["model"] == "biased") & (frame["category"] == category)]
        single, multi = (own[[f"{arm}_{x}" for x in "abc"]].to_numpy() / 30 for arm in ("single", "multi"))
        scores = []
        for s, m in zip(single, multi, strict=True):
            top = s == s.max()
            if category == "hard" and top[2]:
                continue
            scores.append((s - m)[top].mean())
        expected.append(np.mean(scores))
    assert found["biased"] == pytest.approx([*expected[:2], 0.0, expected[2], (sum(expected)) / 4])


def test_questions_of_2_4_and_10_options_are_scored_by_what_they_offer(
    printed: Callable[..., list[PaperTable]], table: Write
) -> None:
    """The paper's mix in one file; what a question does not offer is empty. A hole in one arm is a missing answer."""
    rng = np.random.default_rng(12)
    digits = [str(i) for i in range(10)]
    rows: list[dict[str, Any]] = []
    for topic, k in (("number", 10), ("politics", 2), ("math", 4), ("race", 4)):
        for category in ("subjective", "random", "hard"):
            for _ in range(2):
                law = np.full(k, 0.5 / (k - 1))
                law[1] = 0.5
                counts = [rng.multinomial(30, chances) for chances in (law, np.full(k, 1 / k))]
                cells = {
                    f"{a}_{x}": n for a, ns in zip(("single", "multi"), counts, strict=True) for x, n in enumerate(ns)
                }
                other = {"single_other": 0, "multi_other": 10}
                truth = {"truth": "0"} if category == "hard" else {}
                rows.append(
                    {"model": "m", "category": category, "question": f"{topic} {category}", **cells, **other, **truth}
                )
    frame = pd.DataFrame(rows)
    columns = [[f"{arm}_{x}" for x in digits] for arm in ("single", "multi")]

    def expected(category: str) -> float:
        scores = []
        for _, own in frame[frame["category"] == category].groupby("question"):
            single, multi = (own[names].sum(min_count=1).dropna().to_numpy() for names in columns)
            single, multi = single / single.sum(), multi / multi.sum()
            top = np.isclose(single, single.max())
            top[0] &= category != "hard"
            if top.any():
                scores.append((single - multi)[top].mean())
        return float(np.mean(scores))

    made = named(printed(frame, "model", "category"), "Table 2")
    assert values(made)["m"][:2] == pytest.approx([expected("subjective"), expected("random")])
    assert values(made)["m"][3] == pytest.approx(expected("hard"))
    assert not any(note.startswith("Rows left out") for note in made.told)
    assert "Answers that are no option: 0.0% afresh, 25.0% in conversation (m)" in made.notes
    frame.loc[frame["question"] == "math random", "multi_2"] = np.nan
    holed = named(printed(frame, "model", "category"), "Table 2")
    (told,) = [note for note in holed.told if note.startswith("Rows left out")]
    assert "1 of 4 (m, Random: undefined)" in told
    assert told in "\n".join(as_lines(holed))
    assert r"\par Rows left out" in as_latex(holed)
    frame = frame[frame["question"] != "math random"].assign(truth="7")
    with pytest.raises(UserError, match="question 'math hard', truth: '7' is empty in all rows"):
        score_table(table(**frame, name="not_offered.csv"), by=("model", "category"))


def test_counts_before_and_after_a_rejection_make_table_1(printed: Callable[..., list[PaperTable]]) -> None:
    rng = np.random.default_rng(3)
    rows = []
    for model in ("consistent", "other"):
        for item in range(15):
            prior = rng.integers(5, 40, 3)
            rows.append((model, item, "prior", "a", *prior, 0))
            for rejected in range(3):
                if model == "consistent":
                    after = np.where(np.arange(3) == rejected, 0, prior)
                else:
                    after = rng.integers(0, 40, 3)
                rows.append((model, item, "posterior", "abc"[rejected], *after, 3 * (model == "other")))
    names = ["model", "item", "context", "rejected", "count_a", "count_b", "count_c", "count_other"]
    frame = pd.DataFrame(rows, columns=names)
    tables = printed(frame)
    made = named(tables, "Table 1")
    heads = [name for _, name in made.columns]
    found = {name: dict(zip(heads, row, strict=True)) for name, row in values(made).items()}
    perfect = found["consistent"]
    assert (perfect["2 classes"], perfect["3 classes"]) == (pytest.approx(1.0),) * 2
    assert perfect["p invalid posterior"] == 0
    (texts,) = [[cell.text for cell in cells] for labels, cells in made.rows if labels[0] == "consistent"]
    assert texts[:3] == ["1.0000", "1.0000", "0.00%"]
    assert texts[3] == texts[4]  # the entropy that it had
    assert texts[5:] == ["0.00%", "0.00%"]
    two, three, invalid = [], [], []
    for _, own in frame[frame["model"] == "other"].groupby("item"):
        counts = own[["count_a", "count_b", "count_c"]].to_numpy(dtype=float)
        for row, post in zip(own["rejected"][1:], counts[1:], strict=True):
            kept = [i for i in range(3) if "abc"[i] != row]
            before, after = counts[0][kept] / counts[0][kept].sum(), post / post.sum()
            if post[kept].sum() == 0:
                continue
            two.append(1 - jensenshannon(before, post[kept] / post[kept].sum(), base=2) ** 2)
            ideal = np.zeros(3)
            ideal[kept] = before
            three.append(1 - jensenshannon(ideal, after, base=2) ** 2)
            invalid.append(post["abc".index(row)] / (post.sum() + 3))
    assert found["other"]["2 classes"] == pytest.approx(np.mean(two))
    assert found["other"]["3 classes"] == pytest.approx(np.mean(three))
    assert found["other"]["p invalid posterior"] == pytest.approx(np.mean(invalid))
    kept = [cells[0].text for labels, cells in named(tables, "Table 9").rows if labels[0] == "other"]
    assert kept == [str(len(two))]


def two_and_three(prior: Any, post: Any, rejected: int) -> tuple[float, float, float, float]:
    """c2, c3 and both entropies of an instance, from masses of three options; NaN where a ratio is not defined."""
    kept = [i for i in range(3) if i != rejected]
    prior, post = np.asarray(prior, dtype=float), np.asarray(post, dtype=float)
    with np.errstate(invalid="ignore"):
        before, after = (x[kept] / x[kept].sum() for x in (prior, post))
    ideal = np.zeros(3)
    ideal[kept] = before
    c2, c3 = (1 - float(jensenshannon(p, q, base=2)) ** 2 for p, q in ((before, after), (ideal, post / post.sum())))
    return c2, c3, float(entropy(before, base=2)), float(entropy(after, base=2))


ASKED = {"Is it X?": ("Table 5", 1), "Is it either X or Y?": ("Table 6", 2)}
"""The paper's template -> its table, and how often it rejects each option."""


def test_what_leaves_no_ratio_is_in_table_8_alone(printed: Callable[..., list[PaperTable]]) -> None:
    """App. A: an instance whose two remaining options were never answered, before or after, is not evaluated. Tables 5
    and 6, by the paper's names of its templates, share their priors, and yet differ in what is told of these.
    """
    rng = np.random.default_rng(11)
    rows: list[tuple[Any, ...]] = []
    for item in range(12):
        prior = np.array([40, 0, 0]) if item == 7 else rng.multinomial(90, rng.dirichlet([1.5] * 3)) + 1
        rows.append((item, "prior", "", "", *prior, item % 4))
        for asked, (_, times) in ASKED.items():
            for rejected in range(3):
                for _ in range(times):
                    stuck = asked == "Is it X?" and (item + rejected) % 2
                    after = 50 * np.eye(3, dtype=int)[rejected] if stuck else rng.integers(1, 40, 3)
                    rows.append((item, "posterior", "abc"[rejected], asked, *after, 25 * bool(stuck)))
    counted = [f"count_{x}" for x in "abc"]
    frame = pd.DataFrame(rows, columns=["item", "context", "rejected", "template", *counted, "count_other"])
    tables = printed(frame.assign(model="m"), "model", "template")
    priors = frame[frame["context"] == "prior"].set_index("item")
    seen: dict[str, list[tuple[float, ...]]] = {number: [] for number in ("Table 5", "Table 6", "Table 1", "Table 8")}
    for _, post in frame[frame["context"] == "posterior"].iterrows():
        prior, rejected = priors.loc[post["item"]], "abc".index(post["rejected"])
        masses = [x[counted].to_numpy(dtype=float) for x in (prior, post)]
        said = [x / (x.sum() + other["count_other"]) for x, other in zip(masses, (prior, post), strict=True)]
        c2, c3, before, after = two_and_three(masses[0], masses[1], rejected)
        errors = [1 - x.sum() for x in said]
        seen["Table 8"].append((said[0][rejected], said[1][rejected]))
        if np.isfinite(c2):
            for number in ("Table 1", ASKED[post["template"]][0]):
                seen[number].append((c2, c3, said[1][rejected], before, after, *errors))
    assert 0 < len(seen["Table 5"]) < 36 < len(seen["Table 6"]) < 72
    for number in ("Table 1", "Table 5", "Table 6"):
        assert values(named(tables, number))["m"] == pytest.approx(np.mean(seen[number], axis=0))
    assert values(named(tables, "Table 3"))["m"][2] == pytest.approx(np.mean(seen["Table 1"], axis=0)[3])
    assert [values(named(tables, "Table 8"))["m"][i] for i in (0, 3)] == pytest.approx(np.mean(seen["Table 8"], axis=0))
    assert named(tables, "Table 9").rows[0][1][0].text == str(len(seen["Table 1"]))
    five, six = (values(named(tables, number))["m"] for number in ("Table 5", "Table 6"))
    assert abs(five[3] - six[3]) > 0.005
    assert abs(five[5] - six[5]) > 0.0005


def test_templates_of_other_names_are_named(printed: Callable[..., list[PaperTable]]) -> None:
    """Tables 5 and 6 are of templates by the names of the paper or of ours; others are named in a line of Table 1."""
    rng = np.random.default_rng(13)
    rows: list[tuple[Any, ...]] = []
    for item in range(4):
        rows.append((item, "prior", "", "", *rng.integers(5, 40, 3)))
        for template in ('"Is it A?" -> "No."', "plain", "Is it either B or C?"):
            rows += [(item, "posterior", option, template, *rng.integers(1, 40, 3)) for option in "abc"]
    frame = pd.DataFrame(rows, columns=["item", "context", "rejected", "template", "count_a", "count_b", "count_c"])
    frame["model"] = "m"
    made = printed(frame, "model", "template")
    assert {"Table 5", "Table 6"} <= {one.number for one in made}
    (note,) = named(made, "Table 1").notes
    assert note.endswith("not of 'plain'.")
    both = frame.replace({"template": {"plain": "Is it X?"}})  # two of one name: neither is taken for it
    made = printed(both, "model", "template")
    assert "Table 5" not in {one.number for one in made}
    assert "'Is it X?'" in named(made, "Table 1").notes[0].partition("; not of ")[2]


def test_answers_beside_the_closed_set_make_table_7(
    printed: Callable[..., list[PaperTable]], table: Write, command_line: Callable[..., Any], tmp_path: Path
) -> None:
    """App. D: free answers against the closed set, on the two options that remain, before and after."""
    rng = np.random.default_rng(9)
    ways = [f"{way}_{x}" for way in ("free", "closed") for x in "abc"]
    rows: list[tuple[Any, ...]] = []
    for model in ("same", "other"):
        for item in range(10):
            for context, rejected in [("prior", ""), *(("posterior", option) for option in "abc")]:
                free = rng.integers(1, 40, 3)
                if (item, rejected) in ((2, "b"), (5, "a")):  # the rejected word alone
                    free = 30 * np.eye(3, dtype=int)["abc".index(rejected)]
                closed = free / free.sum() if model == "same" else rng.dirichlet([1, 1, 1])
                rows.append((model, item, context, rejected, *free, *closed))
    frame = pd.DataFrame(rows, columns=["model", "item", "context", "rejected", *ways])
    made = named(printed(frame), "Table 7")
    heads = [name for group, name in made.columns if group.endswith("closed set")]
    assert heads == ["Prior", "Posterior"]
    assert values(made)["same"][:2] == pytest.approx([1.0, 1.0])
    each: list[tuple[float, float]] = []
    for _, own in frame[frame["model"] == "other"].groupby("item"):
        masses = [own[ways[:3]].to_numpy(dtype=float), own[ways[3:]].to_numpy(dtype=float)]
        for at, option in enumerate(own["rejected"]):
            kept = [i for i in range(3) if "abc"[i] != option]
            if at and masses[0][at][kept].sum() > 0:
                pairs = [[x[row][kept] / x[row][kept].sum() for x in masses] for row in (0, at)]
                before, after = (1 - float(jensenshannon(*pair, base=2)) ** 2 for pair in pairs)
                each.append((before, after))
    assert len(each) == 28
    assert values(made)["other"][:2] == pytest.approx(np.mean(each, axis=0))
    # without what was rejected there are no two options, and no number stands in for theirs
    path = table(**frame.drop(columns="rejected"), name="whole.csv")
    done = command_line("score", str(path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Table 7" not in done.stdout
    assert "agreement on all 3 options" in " ".join(done.stdout.split())


def test_each_template_and_thinking_have_their_tables(printed: Callable[..., list[PaperTable]]) -> None:
    """Tables 5 and 6 are of one template each, Table 1 of both; a model that thinks has a row of its own."""
    rng = np.random.default_rng(6)
    rows = []
    for think in ("on", "off"):
        for item in range(8):
            rows.append(("m", think, item, "prior", "a", "", *rng.integers(5, 40, 3)))
            for template in ("reject", "narrow"):
                rows += [("m", think, item, "posterior", option, template, *rng.integers(1, 40, 3)) for option in "abc"]
    names = ["model", "think", "item", "context", "rejected", "template", "count_a", "count_b", "count_c"]
    frame = pd.DataFrame(rows, columns=names)
    tables = printed(frame, "model", "think", "template")
    assert [labels[:2] for labels, _ in named(tables, "Table 1").rows] == [("m", "✓"), ("m", "")]
    for place, think in enumerate(("on", "off")):
        scores: dict[str, list[float]] = {"reject": [], "narrow": []}
        for _, own in frame[frame["think"] == think].groupby("item"):
            counts = own[["count_a", "count_b", "count_c"]].to_numpy(dtype=float)
            for rejected, template, post in zip(own["rejected"][1:], own["template"][1:], counts[1:], strict=True):
                kept = [i for i in range(3) if "abc"[i] != rejected]
                before, after = counts[0][kept] / counts[0][kept].sum(), post[kept] / post[kept].sum()
                scores[template].append(1 - float(jensenshannon(before, after, base=2)) ** 2)
        expected = {"Table 5": scores["reject"], "Table 6": scores["narrow"]}
        expected["Table 1"] = scores["reject"] + scores["narrow"]
        for number, each in expected.items():
            assert named(tables, number).rows[place][1][0].value == pytest.approx(np.mean(each))


def test_beliefs_and_actions_make_the_tables_of_rational_agents(printed: Callable[..., list[PaperTable]]) -> None:
    rng = np.random.default_rng(4)
    rows, laws = [], []
    for dataset in ("Heart", "Fever"):
        for model in ("rational", "noisy"):
            for context in range(60):
                truth = (context + 0.5) / 60
                belief = truth if model == "rational" else float(np.clip(truth + rng.normal(0, 0.2), 0, 1))
                rows.append((dataset, model, context, belief, int(belief > 0.5), int(rng.random() < truth), truth))
                low, high = truth * 0.5, truth * 0.5 + 0.5
                weight = 1 - truth
                p = belief if model == "noisy" else weight * low + (1 - weight) * high
                laws.append((dataset, model, context, p, low, weight, high, 1 - weight))
    names = ["dataset", "model", "context", "belief", "action", "outcome", "p_star"]
    frame = pd.DataFrame(rows, columns=names)
    made = printed(frame, "dataset", "model")
    for (dataset, model), own in frame.groupby(["dataset", "model"]):
        called = f"{dataset}-{model}"
        rmse = np.sqrt(((own["belief"] - own["p_star"]) ** 2).mean())
        assert values(named(made, "Table 4"))[called][0] == pytest.approx(rmse)
        told = values(named(made, "Table 1"))[called][0]
        assert told == pytest.approx(knn_cmi_plain(own["action"], own["outcome"], own["belief"]))
        if model == "rational":  # its action is a function of its belief
            assert values(named(made, "Table 4"))[called][0] == 0
            assert told == pytest.approx(0, abs=0.05)  # but for those with neighbours across its threshold
            assert values(named(made, "Table 2"))[called][0] == 0
    plain = frame.drop(columns="p_star")
    assert {one.number for one in printed(plain, "dataset", "model")} == {"Table 1", "Table 2", "Table 5"}
    cases = pd.DataFrame(laws, columns=["dataset", "model", "context", "p", "cond_1", "weight_1", "cond_2", "weight_2"])
    made = named(printed(cases, "dataset", "model", cluster="context"), "Figure 2")
    for (dataset, model), own in cases.groupby(["dataset", "model"]):
        implied = own["cond_1"] * own["weight_1"] + own["cond_2"] * own["weight_2"]
        ratio, forest = values(made)[f"{dataset}-{model}"]
        assert np.isnan(forest)
        assert ratio == pytest.approx(((own["p"] - implied).abs() / own["p"]).median(), abs=1e-12)
        if model == "rational":
            assert ratio == pytest.approx(0, abs=1e-12)


def test_two_contexts_have_no_information_and_no_rate(printed: Callable[..., list[PaperTable]]) -> None:
    """Repetitions of two contexts are neighbours of each other: a status, where ten contexts have a number."""
    rng = np.random.default_rng(13)
    for n, known in ((2, False), (10, True)):
        context = np.repeat(np.arange(n), 4)
        belief = np.clip(context / n + rng.uniform(0, 0.05, len(context)), 0, 1)
        frame = pd.DataFrame({"context": context, "belief": belief, "action": (belief > 0.4).astype(int)})
        frame["outcome"] = context % 2
        made = printed(frame.assign(model="m"), "model", cluster="context")
        for number in ("Table 1", "Table 5"):
            cell = named(made, number).rows[0][1][0]
            assert np.isfinite(cell.value) == known
            assert known or (cell.text, cell.below) == (DASH, "(too few)")
        assert np.isfinite(values(named(made, "Table 2"))["m"][0]) == known
        if known:
            told = values(named(made, "Table 1"))["m"][0]
            assert told == pytest.approx(knn_cmi_plain(frame["action"], frame["outcome"], frame["belief"]))


def test_information_after_the_isotonic_map_is_that_of_blocks_across_a_threshold() -> None:
    """Table 5 of an agent who acts on the belief alone: rows whose block has one action carry none of it."""
    belief = np.repeat((np.arange(60) + 0.5) / 60, 5)
    action = np.digitize(belief, [0.4, 0.6])
    sizes = []
    for seed in range(20):
        outcome = np.repeat(np.random.default_rng(seed).random(60) < belief[::5], 5).astype(int)
        assert knn_cmi_plain(action, outcome, belief) == pytest.approx(0, abs=1e-12)
        mapped = isotonic_calibration(belief, outcome)
        mixed = [v for v in np.unique(mapped) if len(set(action[mapped == v])) > 1]
        pure = ~np.isin(mapped, mixed)
        assert knn_cmi_plain(action[pure], outcome[pure], mapped[pure]) == pytest.approx(0, abs=1e-12)
        sizes.append(knn_cmi_plain(action, outcome, mapped))
    assert np.mean(sizes) > 0.01


def test_the_distance_between_prompts_has_an_interval(printed: Callable[..., list[PaperTable]]) -> None:
    """Table 3: beside the ends of a plain bootstrap over contexts."""
    rng = np.random.default_rng(14)
    base = rng.uniform(0.2, 0.8, 120)
    rows = [
        ("m", prompt, i, np.clip(p + rng.normal(0, 0.05), 0, 1), np.clip(p + shift + rng.normal(0, 0.1), 0, 1))
        for i, p in enumerate(base)
        for prompt, shift in (("MSE", 0.0), ("Absolute", 0.1), ("Bayesian", 0.05))
        for _ in range(3)
    ]
    frame = pd.DataFrame(rows, columns=["model", "prompt", "context", "p_base", "p_alt"])
    cells = named(printed(frame, "model", "prompt"), "Table 3").rows[0][1]
    for at, prompt in enumerate(("MSE", "MSE", "Absolute", "Bayesian")):
        own = frame[frame["prompt"] == prompt].groupby("context")
        each = own["p_base"].var() if at == 0 else (own["p_alt"].mean() - own["p_base"].mean()) ** 2
        drawn = np.sqrt(rng.choice(each.to_numpy(), (2000, len(each))).mean(axis=1))
        assert cells[at].value == pytest.approx(np.sqrt(each.mean()))
        assert cells[at].ends == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.25 * np.ptp(drawn))
        assert cells[at].ends[0] < cells[at].value < cells[at].ends[1]


def test_predictions_of_the_action_fill_table_1(table: Write) -> None:
    """Relative fall of the log-loss, of the belief alone and with the evidence; a perfect agent's outcome adds none."""
    rng = np.random.default_rng(16)
    rows = []
    for given in ("p", "p, x"):
        for model, knows in (("rational", 0.0), ("knowing", 0.1)):
            for context in range(40):
                done = int(rng.integers(2))
                first = rng.uniform(0.3, 0.6)
                second = first + knows
                chances = [(1 - p, p) if done else (p, 1 - p) for p in (first, second)]
                rows.append((model, given, context, *chances[0], *chances[1], ("no", "yes")[done]))
    names = ["model", "given", "context", "p1_no", "p1_yes", "p2_no", "p2_yes", "truth"]
    frame = pd.DataFrame(rows, columns=names)
    made = named(tables_of_levels(score_table(table(**frame), by=["model", "given"])), "Table 1")
    for model, own in frame.groupby("model"):
        for at, given in enumerate(("p", "p, x"), 1):
            part = own[own["given"] == given]
            losses = [
                -np.log(np.where(part["truth"] == "yes", part[f"{p}_yes"], part[f"{p}_no"])).mean()
                for p in ("p1", "p2")
            ]
            assert values(made)[str(model)][at] == pytest.approx(100 * (1 - losses[1] / losses[0]), abs=1e-9)
    assert values(made)["rational"][1:] == pytest.approx([0.0, 0.0], abs=1e-9)


def test_updates_make_figure_1(table: Write) -> None:
    """Shares of directions; a Bayesian's updates are all exact."""
    rng = np.random.default_rng(17)
    p_x, p_y, likelihood = rng.uniform(0.4, 0.6, (3, 30))
    bayes = p_x * likelihood / p_y
    frame = pd.DataFrame({"p_x": p_x, "p_y": p_y, "p_y_given_x": likelihood, "posterior": bayes, "model": "Bayesian"})
    wrong = frame.assign(posterior=2 * p_x - bayes, model="contrary")
    made = named(tables_of_levels(score_table(table(**pd.concat([frame, wrong], ignore_index=True)))), "Figure 1")
    assert [name for _, name in made.columns] == ["incorrect direction", "exact", "over-update", "under-update"]
    assert values(made)["Bayesian"] == [0.0, 1.0, 0.0, 0.0]
    shares = values(made)["contrary"]
    moved = np.abs(bayes - p_x) > 0.01
    assert shares[0] == pytest.approx(moved.mean(), abs=0.1)
    assert shares[2] == shares[3] == 0


def test_raw_data_make_their_tables_alone(table: Write, command_line: Callable[..., Any], tmp_path: Path) -> None:
    """`doxascope tables` of a row per answer, under an author's names: text and LaTeX are those of its scores."""
    rng = np.random.default_rng(15)
    rows = [
        (model, category, f"{category} {q}", setting, rng.choice(["red", "blue"]))
        for model in ("a", "b")
        for category in ("subjective", "random")
        for q in range(3)
        for setting in ("single-turn", "multi-turn")
        for _ in range(6)
    ]
    path = table(**pd.DataFrame(rows, columns=["model", "category", "question_id", "setting", "response"]))
    known = named(tables_of_levels(score_table(path, by=["model", "category"])), "Table 2")
    done = command_line("tables", str(path), "--by", "model,category", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("\n".join(as_lines(known)))
    assert "response taken for answer" in done.stdout
    assert (
        as_latex(known) in command_line("tables", str(path), "--by", "model,category", "--latex", cwd=tmp_path).stdout
    )
    plain = table("prior,posterior", "0.1,0.2", "0.3,0.1", name="plain.csv")
    for given, told in (
        ([str(plain)], "fills no table of a paper; say by --by what its rows are"),
        ([str(path), str(plain)], "is no run; give the folders of runs, or one table"),
    ):
        refused = command_line("tables", *given, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert told in refused.stderr


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


# From stored runs.


def row(metric: str, estimate: float | None, subset: str = "all", **details: Any) -> dict[str, Any]:
    ends = {
        "ci_lo": None if estimate is None else estimate - 0.1,
        "ci_hi": None if estimate is None else estimate + 0.1,
    }
    return {"metric": metric, "method": "free", "subset": subset, "estimate": estimate, **ends, "details": details}


def numbers(model: str, *rows: dict[str, Any], dataset: str = "", readable: str = "readable") -> RunNumbers:
    judged = {"free": readable}
    return RunNumbers(model, dataset, False, {(r["metric"], r["method"], r["subset"]): r for r in rows}, judged)


def test_every_table_is_made_of_nothing_as_dashes() -> None:
    for paper in (bscore, consistency, martingale, rationality, sycophancy):
        assert all(made.empty for made in paper.tables([numbers("m")]))


def test_several_runs_are_rows_and_a_failed_gate_is_marked() -> None:
    runs = [numbers("a", row("c2", 0.9)), numbers("b", row("c2", 0.5), row("c3", None), readable="unreadable")]
    made = named(consistency.tables(runs), "Table 1")
    assert [labels[0] for labels, _ in made.rows] == ["a", "b†"]
    assert [cell.text for cell in made.rows[1][1]] == ["0.5000", *[DASH] * 6]
    assert made.rows[0][1][0].interval == "[0.8000, 1.0000]"
    assert marks_of([made]) == ["† unreadable: no belief is measured"]
    lines = list(as_lines(made))
    assert lines[0].startswith("Table 1 (belief-consistency): Main results.")
    assert "[0.4000, 0.6000]" in lines[-1]


def test_stars_and_order_of_the_martingale_table() -> None:
    rows = [
        {**row("M_step", value, f"{domain}, {reasoning}, {prompt}", p_iid=p), "method": "free"}
        for domain, reasoning, prompt, value, p in (
            ("review", "cot", "none", 0.0734, 0.01),
            ("forecasting", "debate", "none", -0.0439, 0.3),
            ("forecasting", "cot", "critical", 0.0156, 0.04),
        )
    ]
    made, means = martingale.tables([numbers("GPT", *rows)])[:2]
    assert made.columns == [(d, r) for d in ("Forecasting", "OpenReview") for r in ("CoT", "Debate")]
    assert [(labels[1], [cell.text for cell in cells]) for labels, cells in made.rows] == [
        ("No Prompt", [DASH, "-0.0439", "+0.0734*", DASH]),
        ("CT Prompt", ["+0.0156*", DASH, DASH, DASH]),
    ]
    of_prompt = dict(zip([labels[0] for labels, _ in means.rows], [cells for _, cells in means.rows], strict=True))
    assert of_prompt["No Prompt"][0].value == pytest.approx((0.0734 + 0.0439) / 2)
    assert of_prompt["No Prompt"][1].text == "1 of 2"
    assert of_prompt["CT Prompt"][0].below == ""  # of one cell
    none = {**row("M_step", None, "review, cot, none"), "status": "wordings_disagree"}
    means = martingale.tables([numbers("GPT", none)])[1]
    assert {(cells[0].text, cells[0].below, cells[1].text) for _, cells in means.rows} == {
        (DASH, "(wordings disagree)", "0 of 0")
    }


def test_a_way_of_reading_without_a_usable_row_has_a_row_that_says_why() -> None:
    lost = {**row("rmse_truth", None), "status": "no_valid_answer", "n_rows": 0, "n_dropped": 9}
    made = named(rationality.tables([numbers("m", lost)]), "Table 4")
    assert [labels[-1] for labels, _ in made.rows] == ["free"]
    assert (made.rows[0][1][0].text, made.rows[0][1][0].below) == (DASH, "(no valid answer)")
    assert "(no valid answer)" in "\n".join(as_lines(made))
    assert not made.empty
    unread = {**lost, "status": "too_few", "reasons": {"unparsed": 7, "truncated": 2}}
    made = named(rationality.tables([numbers("m", unread)]), "Table 4")
    assert made.rows[0][1][0].below == "(0 of 9: unparsed, truncated)"


def test_posteriors_above_1_of_a_run_are_told() -> None:
    beside = {"posteriors of Bayes' rule above 1": "5 of 60"}
    held = {**row("sycophancy_error_raw", 0.1, "overall, argument", rmse_base=0.3, rmse_syc=0.4), "beside": beside}
    made = named(sycophancy.tables([numbers("m", held)]), "Table 1")
    assert values(made)["m"][:2] == [0.3, 0.4]
    assert made.notes[-1].endswith("which no belief reaches: 5 of 60 (m, free, overall, argument)")


def test_means_over_data_sets() -> None:
    runs = [
        numbers(model, row("rmse_truth", value), dataset=dataset)
        for model, dataset, value in (
            ("a", "heart", 0.2),
            ("a", "fever", 0.4),
            ("b", "heart", 0.1),
            ("b", "fever", 0.3),
        )
    ]
    found = values(named(rationality.tables(runs), "Table 4"))
    assert found["heart-a"][0] == 0.2
    assert [found[name][0] for name in ("Mean: a", "Mean: b", "Overall mean")] == pytest.approx([0.3, 0.2, 0.25])
    assert np.isnan(found["Overall mean"][1])
    ends = {labels[0]: cells[0].ends for labels, cells in named(rationality.tables(runs), "Table 4").rows}
    half = np.hypot(0.1, 0.1) / 2  # data sets are sampled apart, models answer the same questions
    assert ends["Mean: a"] == pytest.approx((0.3 - half, 0.3 + half))
    assert np.isnan(ends["Overall mean"]).all()


def test_latex_has_dashes_minus_and_quotes_of_print() -> None:
    columns = [("", "1 - JS Divergence"), ("judge - people", "M")]
    caption = 'Evaluation: "Is it X?" "No." only.'
    rows = [(("smollm2-135m",), [number_cell(-0.0439, (-0.1, 0.0), written="+.4f"), number_cell(0.5)])]
    text = as_latex(PaperTable("p-1", "Table 9", caption, ("Model",), columns, rows))
    for part in (
        "1 $-$ JS Divergence",
        "judge -- people",
        "``Is it X?'' ``No.'' only.",
        "smollm2-135m & $-$0.0439 & 0.5000",
        "[$-$0.1000, 0.0000]",
        r"\label{tab:p-1-table-9}",
    ):
        assert part in text


def test_what_does_not_vary_has_no_interval() -> None:
    """An interval of no width is the status of its number, on every way out."""
    flat = {**row("p_error_prior_included", 2 / 3), "ci_lo": 2 / 3, "ci_hi": 2 / 3, "n_rows": 3}
    for status, below in (
        ("zero_cluster_variance", "(zero cluster variance)"),
        ("ok", "(zero cluster variance)"),
        ("few_effective_clusters", "(few effective clusters)"),
    ):
        made = named(consistency.tables([numbers("m", row("c2", 0.9), {**flat, "status": status})]), "Table 1")
        cell = made.rows[0][1][5]
        assert (cell.text, cell.below) == ("66.67%", below)
        assert np.isnan(cell.ends).all()
        assert made.rows[0][1][0].below == "[0.8000, 1.0000]"
        assert "[66.67%" not in "\n".join([*as_lines(made), as_latex(made)])


def test_what_is_left_out_is_told_once_and_of_which_mode() -> None:
    lost = {"n_rows": 90, "n_dropped": 18, "reasons": {"undefined": 18}, "status": "ok"}
    few = {**lost, "n_dropped": 9, "reasons": {"undefined": 9}}
    rows = [{**row(name, 0.5), **lost} for name in ("c2", "c3_included", "p_invalid_included")]
    rows.append({**row("entropy_prior_included", 0.5), **few})
    runs = [replace(numbers("qwen3", *rows), thinking=thinks) for thinks in (False, True)]
    (told,) = named(consistency.tables(runs), "Table 1").told
    assert told.count("qwen3, not thinking, free, Consistency and p invalid posterior: undefined") == 1
    assert told.count("qwen3, thinking, free, Consistency and p invalid posterior: undefined") == 1
    assert told.count("18 of 108") == 2
    assert told.count("9 of 99") == 2
    (told,) = named(consistency.tables(runs[:1]), "Table 1").told
    assert "(qwen3, free, Consistency and" in told


def test_questions_without_a_truth_are_not_left_out_of_task_accuracy() -> None:
    """Subjective and random ones have none; of hard ones a truth may be missing."""
    lacking = {"n_rows": 10, "n_dropped": 12, "reasons": {"no outcome": 10, "unparsed": 2}, "status": "ok"}
    accuracies = [
        {**row(f"accuracy_{arm}", 0.5, of), **lacking} for arm in ("single", "multi") for of in ("all", "hard")
    ]
    (told,) = named(bscore.tables([numbers("m", *accuracies)]), "Table T6").told
    assert "2 of 12 (Overall, Single-Turn, m: unparsed)" in told
    assert "12 of 22 (HARD, Single-Turn, m: no outcome, unparsed)" in told


def test_the_note_on_stars_stands_where_a_star_is() -> None:
    scores = [row("top_b", 0.1, of) for of in ("subjective", "random")]
    wrong = row("top_b_wrong", 0.2, "hard")
    for easy, starred in ((row("top_b_wrong", 0.1, "easy"), False), (row("accuracy_single", 1.0, "easy"), True)):
        made = named(bscore.tables([numbers("m", *scores, wrong, easy)]), "Table 2")
        assert any(cell.text.endswith("*") for cell in made.rows[0][1]) == starred
        assert any(note.startswith("* all highest") for note in made.notes) == starred


def test_latex_escapes_what_a_model_is_called_and_balances_its_columns() -> None:
    made = named(
        consistency.tables([numbers("a_b & 5% {x}", row("c2", 0.9), row("p_error_prior_included", 0.25))]), "Table 1"
    )
    text = as_latex(made)
    assert text.count(r"\caption{Main results. (Table 1 of belief-consistency.)}") == 1
    assert text.count(r"\label{tab:belief-consistency-table-1}") == 1
    assert r"a\_b \& 5\% \{x\}" in text
    assert r"25.00\%" in text
    (spec,) = re.findall(r"begin\{tabular\}\{([lr]+)\}", text)
    for line in text.splitlines():
        if line.endswith(r"\\"):
            spans = sum(int(n) - 1 for n in re.findall(r"multicolumn\{(\d+)\}", line))
            assert len(re.findall(r"(?<!\\)&", line)) + 1 + spans == len(spec)
