"""The tables of rational-agents from an author's raw data, against a plain re-computation."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from doxascope.benchmarks.metrics import knn_cmi_plain
from doxascope.experiments.report.papers.of_levels import tables_of_levels
from doxascope.experiments.report.papers.paper_tables import (
    DASH,
    PaperTable,
)
from doxascope.metrics.decision.prediction import isotonic_calibration
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
Named = Callable[[list[PaperTable], str], PaperTable]
Values = Callable[[PaperTable], dict[str, list[float]]]


def test_beliefs_and_actions_make_the_tables_of_rational_agents(
    printed: Callable[..., list[PaperTable]], named: Named, values: Values
) -> None:
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
    assert {table.number for table in printed(plain, "dataset", "model")} == {"Table 1", "Table 2", "Table 5"}
    cases = pd.DataFrame(laws, columns=["dataset", "model", "context", "p", "cond_1", "weight_1", "cond_2", "weight_2"])
    made = named(printed(cases, "dataset", "model", cluster="context"), "Figure 2")
    for (dataset, model), own in cases.groupby(["dataset", "model"]):
        implied = own["cond_1"] * own["weight_1"] + own["cond_2"] * own["weight_2"]
        ratio, forest = values(made)[f"{dataset}-{model}"]
        assert np.isnan(forest)
        assert ratio == pytest.approx(((own["p"] - implied).abs() / own["p"]).median(), abs=1e-12)
        if model == "rational":
            assert ratio == pytest.approx(0, abs=1e-12)


def test_two_contexts_have_no_information_and_no_rate(
    printed: Callable[..., list[PaperTable]], named: Named, values: Values
) -> None:
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


def test_the_distance_between_prompts_has_an_interval(printed: Callable[..., list[PaperTable]], named: Named) -> None:
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


def test_predictions_of_the_action_fill_table_1(table: Write, named: Named, values: Values) -> None:
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
