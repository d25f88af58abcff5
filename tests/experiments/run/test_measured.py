"""An experiment of one number with factors: means at levels; what levels differ by, paired where items have both."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import Item, Measured, UserError
from doxascope.base.errors import in_one_line
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.plan import foreseen
from doxascope.experiments.run.questions import RunConfig
from doxascope.hooks.model.spec import resolve_model

N = 40
EFFECT = 0.2
"""Of the system prompt, on every item."""


class Planted(Measured):
    name = "planted"
    summary = "what was planted?"
    headline = "shift"
    coherent = 0.0
    factors = ("topic", "system")

    def items(self, config: Any) -> list[Item]:
        return []

    def questions(self, config: Any, item: Item) -> list[Any]:
        return []

    def measure(self, config: Any, beliefs: pd.DataFrame) -> pd.DataFrame:
        return beliefs.rename(columns={"prob": "shift"})[["item", "topic", "system", "shift"]]


def table() -> pd.DataFrame:
    """Items differ by far more than the system prompts do; topics are of different items."""
    rng = np.random.default_rng(0)
    level = rng.normal(0, 1, N)
    rows = [
        {"item": f"i{i}", "cluster": f"c{i}", "topic": "ab"[i % 2], "system": system}
        | {"prob": level[i] + (system == "careful") * (EFFECT + rng.normal(0, 0.02))}
        for i in range(N)
        for system in ("careful", "plain")
    ]
    shared = {"kind": "exact", "method": "asked", "option_index": 0, "coverage": 0.9}
    return pd.DataFrame(rows).assign(**shared)


def scores(experiment: Measured, beliefs: pd.DataFrame) -> dict[tuple[str, str], Any]:
    config = RunConfig(experiment="planted", model=resolve_model("smollm2-135m"), items=N, bootstrap_draws=200)
    return {(one.metric, one.subset): one.score for one in experiment.own_scores(config, beliefs)}


def test_levels_of_the_same_items_are_paired_and_others_are_not() -> None:
    beliefs = table()
    found = scores(Planted(), beliefs)
    assert found["shift", "all"].estimate == pytest.approx(beliefs["prob"].mean())
    by_system = beliefs.groupby("system")["prob"].mean()
    assert found["shift", "system: plain"].estimate == pytest.approx(by_system["plain"])
    paired = found["shift_contrast", "system: careful - plain"]
    assert paired.estimate == pytest.approx(by_system["careful"] - by_system["plain"])
    assert paired.ci_lo < EFFECT < paired.ci_hi
    assert paired.ci_hi - paired.ci_lo < 0.03
    assert paired.n_rows == N
    between = found["shift_contrast", "topic: a - b"]
    by_topic = beliefs.groupby("topic")["prob"].mean()
    assert between.estimate == pytest.approx(by_topic["a"] - by_topic["b"])
    assert between.ci_hi - between.ci_lo > 0.5
    assert found["gate", "all"].readable == "readable"
    few = scores(Planted(), beliefs.assign(cluster=beliefs["item"].str[-1].str.replace("[5-9]", "0", regex=True)))
    assert few["gate", "all"].conditions["coverage"].n_clusters == 5
    assert few["gate", "all"].readable == "not shown"  # 80 readings, but five things that were sampled


def test_only_the_items_that_have_both_levels_are_compared() -> None:
    beliefs = table()
    kept = beliefs[(beliefs["system"] == "plain") | (beliefs["item"].str[1:].astype(int) < 30)]
    paired = scores(Planted(), kept)["shift_contrast", "system: careful - plain"]
    assert paired.n_rows == 30
    assert paired.estimate == pytest.approx(EFFECT, abs=0.02)


@pytest.mark.parametrize("assigned", ["within", "by topic", "between"])
def test_two_factors_have_cells_and_an_interaction(assigned: str) -> None:
    """Of items that are read in all four cells, in those of one topic, or in one: by .5 more where careful and b."""
    beliefs = table().drop(columns="topic").merge(pd.DataFrame({"topic": ["a", "b"]}), how="cross")
    more = np.where((beliefs["topic"] == "b") & (beliefs["system"] == "careful"), 0.5, 0.0)
    beliefs["prob"] += more
    number = beliefs["item"].str[1:].astype(int)
    of_topic = (number % 2 == 0) == (beliefs["topic"] == "a")
    of_system = (number // 2 % 2 == 0) == (beliefs["system"] == "careful")
    beliefs = beliefs[(of_topic | (assigned == "within")) & (of_system | (assigned != "between"))]
    found = scores(Planted(), beliefs)
    means = beliefs.groupby(["topic", "system"])["prob"].mean()
    for topic, system, mean in means.reset_index().itertuples(index=False):
        assert found["shift", f"topic: {topic}, system: {system}"].estimate == pytest.approx(mean)
    (subset,) = (subset for metric, subset in found if metric == "shift_interaction")
    assert subset == "topic: a - b, system: careful - plain"
    score = found["shift_interaction", subset]
    apart = means.unstack()["careful"] - means.unstack()["plain"]
    assert score.estimate == pytest.approx(apart["a"] - apart["b"])
    assert score.n_rows == N
    assert score.ci_lo < -0.5 < score.ci_hi
    assert (score.ci_hi - score.ci_lo < 0.05) == (assigned != "between")
    assert score.p_adjusted == score.p


def test_few_items_in_more_cells_than_the_others_leave_out_none_of_these() -> None:
    """Each item is read in one cell, but one in two, which alone has both systems: all are still compared."""
    beliefs = table()
    alone = beliefs[(beliefs["system"] == "careful") == (beliefs["item"].str[1:].astype(int) // 2 % 2 == 0)]
    more = beliefs[(beliefs["item"] == "i0") & (beliefs["system"] == "plain")]
    beliefs = pd.concat([alone, more], ignore_index=True)
    config = RunConfig(experiment="planted", model=resolve_model("smollm2-135m"), items=N, bootstrap_draws=200)
    of = {(n.metric, n.subset): n for n in Planted().own_scores(config, beliefs)}
    number = of["shift_contrast", "system: careful - plain"]
    means = beliefs.groupby("system")["prob"].mean()
    assert number.score.estimate == pytest.approx(means["careful"] - means["plain"])
    assert (number.score.n_rows, number.beside["compared:"]) == (N, f"different items; 1 of {N} have both")
    crossed = of["shift_interaction", "topic: a - b, system: careful - plain"]
    cells = beliefs.groupby(["topic", "system"])["prob"].mean().unstack()
    apart = cells["careful"] - cells["plain"]
    assert crossed.score.estimate == pytest.approx(apart["a"] - apart["b"])
    assert (crossed.score.n_rows, crossed.beside["compared:"]) == (N, f"{N} of {N} items")


@pytest.mark.parametrize("drop", [True, False])
def test_a_value_that_is_missing_in_one_arm_is_paired_with_nothing(drop: bool) -> None:
    """Of items read about two topics, of which one is higher by 3, a third have no careful reading of the higher one:
    the rows are not there, or are undefined. The reference: the mean over items of the differences of what has both.
    """
    beliefs = table()
    high = beliefs.assign(topic="high", prob=beliefs["prob"] + 3)
    beliefs = pd.concat([beliefs.assign(topic="low"), high], ignore_index=True)
    gone = (beliefs["topic"] == "high") & (beliefs["system"] == "careful")
    gone &= beliefs["item"].str[1:].astype(int) % 3 == 0
    beliefs = beliefs[~gone] if drop else beliefs.assign(prob=beliefs["prob"].mask(gone))
    paired = scores(Planted(), beliefs)["shift_contrast", "system: careful - plain"]
    wide = beliefs.pivot_table(index=["item", "topic"], columns="system", values="prob")
    apart = (wide["careful"] - wide["plain"]).dropna().groupby("item").mean()
    assert paired.estimate == pytest.approx(apart.mean())
    assert paired.estimate == pytest.approx(EFFECT, abs=0.02)
    assert paired.ci_hi - paired.ci_lo < 0.03
    assert (paired.n_rows, paired.status) == (N, "ok" if drop else "missing_rows")


def test_contrasts_that_are_named_and_their_other_way_round() -> None:
    named = type("Named", (Planted,), {"contrasts": {"system": [("plain", "careful")], "topic": []}})
    found = scores(named(), table())
    assert [subset for metric, subset in found if metric == "shift_contrast"] == ["system: plain - careful"]
    assert found["shift_contrast", "system: plain - careful"].estimate == pytest.approx(-EFFECT, abs=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"headline": "shft"}, "`measure` gives no column 'shft'; did you mean 'shift'?"),
        ({"factors": ("tpic",)}, "`measure` gives no column 'tpic'; did you mean 'topic'?"),
        ({"contrasts": {"topic": [("a", "c")]}}, "contrasts: 'topic' has no level 'c'"),
    ],
)
def test_what_measure_lacks_is_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        scores(type("Wrong", (Planted,), change)(), table())
    assert message in str(error.value)


OWN = """
from doxascope import Measured


class Gaps(Measured):
    name, summary, headline = "gaps", "is there a gap?", "gap"

    def items(self, config):
        return []

    def questions(self, config, item):
        return []

    def measure(self, config, beliefs):
        return beliefs["prbo"]
"""


def test_a_number_that_is_not_made_is_not_registered_and_a_fault_in_a_file_has_its_line(tmp_path: Path) -> None:
    code, settings = tmp_path / "gaps.py", tmp_path / "gaps.yaml"
    code.write_text(OWN)
    for metric in ("gap", "gab"):
        settings.write_text(
            "experiment: ./gaps.py:Gaps\nmodel: smollm2-135m\nitems: 3\n"
            f"registered: {{metric: {metric}, method: m, n: 9}}\n"
        )
        if metric == "gap":
            experiment, config = load_config(str(settings), allow_code=[code])
            assert foreseen(experiment, config, [])[0].startswith("registered to estimate gap of m")
        else:
            with pytest.raises(UserError, match="gaps makes no such number; did you mean 'gap'"):
                load_config(str(settings), allow_code=[code])
    with pytest.raises(UserError) as fault, in_one_line("run: cannot be scored"):
        list(experiment.own_scores(config, table()))
    assert f"cannot be scored: KeyError: 'prbo' ({code}, line 15; --debug shows its traceback)" in str(fault.value)


def test_a_shipped_experiment_says_that_a_number_may_not_be_made() -> None:
    experiment, config = load_config("truth", ["registered={metric: brierr, method: asked, n: 60}"])
    assert "did you mean 'brier'" in foreseen(experiment, config, [])[-1]
