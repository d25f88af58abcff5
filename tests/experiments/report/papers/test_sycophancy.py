"""The tables of sycophancy-bayesian from an author's raw data, against a plain re-computation."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from doxascope.experiments.report.papers.of_levels import tables_of_levels
from doxascope.experiments.report.papers.paper_tables import (
    PaperTable,
)
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
Named = Callable[[list[PaperTable], str], PaperTable]
Values = Callable[[PaperTable], dict[str, list[float]]]


def test_readings_without_and_with_a_user_make_tables_1_and_2(
    printed: Callable[..., list[PaperTable]], named: Named, values: Values
) -> None:
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


def test_two_ways_of_asking_have_both_arms_together_too(
    printed: Callable[..., list[PaperTable]], named: Named, values: Values
) -> None:
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
    printed: Callable[..., list[PaperTable]], named: Named, values: Values
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


def test_updates_make_figure_1(table: Write, named: Named, values: Values) -> None:
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
