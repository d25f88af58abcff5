"""The tables of belief-consistency from an author's raw data, against a plain re-computation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from doxascope.experiments.report.papers.paper_tables import (
    PaperTable,
)

Write = Callable[..., Path]
Named = Callable[[list[PaperTable], str], PaperTable]
Values = Callable[[PaperTable], dict[str, list[float]]]


def test_counts_before_and_after_a_rejection_make_table_1(
    printed: Callable[..., list[PaperTable]], named: Named, values: Values
) -> None:
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


def test_what_leaves_no_ratio_is_in_table_8_alone(
    printed: Callable[..., list[PaperTable]], named: Named, values: Values
) -> None:
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


def test_templates_of_other_names_are_named(printed: Callable[..., list[PaperTable]], named: Named) -> None:
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
    assert {"Table 5", "Table 6"} <= {table.number for table in made}
    (note,) = named(made, "Table 1").notes
    assert note.endswith("not of 'plain'.")
    both = frame.replace({"template": {"plain": "Is it X?"}})  # two of one name: neither is taken for it
    made = printed(both, "model", "template")
    assert "Table 5" not in {table.number for table in made}
    assert "'Is it X?'" in named(made, "Table 1").notes[0].partition("; not of ")[2]


def test_answers_beside_the_closed_set_make_table_7(
    printed: Callable[..., list[PaperTable]],
    table: Write,
    command_line: Callable[..., Any],
    tmp_path: Path,
    named: Named,
    values: Values,
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


def test_each_template_and_thinking_have_their_tables(printed: Callable[..., list[PaperTable]], named: Named) -> None:
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
