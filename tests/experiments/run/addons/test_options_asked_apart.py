"""Questions with more than two options, each of which is asked for by itself: what their probabilities sum to."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from doxascope.experiments.probing.kinds import run_kinds
from doxascope.experiments.run.addons.side_by_side import said_numbers
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.scores import ScoredRun
from doxascope.experiments.suite.sycophancy.ask import exact_questions, places
from doxascope.experiments.suite.sycophancy.config import SycophancyConfig

CLUES = "question,options,truth,evidence_1\n" + "".join(
    f"Who did it in year {i}?,cat|dog|fox,dog,The fox was away.\n" for i in range(3)
)
SCENARIOS = "background,x,not_x,for,outcome\n" + "".join(
    f"Year {i}.,cat won|dog won|fox won,cat lost|dog lost|fox lost,it purrs|it barks|it hides,0|1|0\n" for i in range(4)
)


def test_options_of_a_question_are_read_together_and_summed_for_every_kind(
    tiny_for: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "own.csv").write_text(CLUES)
    settings = [f"questions={tmp_path / 'own.csv'}", "reasoning=[evidence]", "gate_urns=0", "stated.greedy=[]"]
    settings += ["methods={words: {ask: ['{first} or {second}?']}}", "items=3", "registered=null"]
    settings += ["stated.numbers=[of 10]", "kinds=all", "bootstrap_draws=20"]
    folder = run_kinds(*load_config("martingale", settings, str(tiny_for("martingale"))), tmp_path / "runs")
    beliefs = RunFolder.open(folder.path).beliefs()
    scores = json.loads((folder.path / "scores.json").read_text())["scores"]
    sums = {row["kind"]: row for row in scores if row["metric"] == "options_excess"}
    assert {*sums} == {"exact", "verbal", "probe"}
    rows = beliefs[beliefs["among"].notna() & (beliefs["option_index"] == 0)]
    for kind in ("exact", "verbal"):  # the two orders are readings of one belief
        each = rows[rows["kind"] == kind].groupby(["item", "step"], observed=True)["prob"].mean()
        assert len(each) == 9 * 2  # three options of three questions, with and without the evidence
        assert sums[kind]["estimate"] == pytest.approx(float(each.mean()) * 3 - 1)
        assert sums[kind]["n_clusters"] == 3
    first = str(rows["item"].iloc[0])  # one option of three, before and after the evidence
    left = beliefs[(beliefs["item"].astype(str) != first) | (beliefs["kind"] != "exact")]
    config = load_config("martingale", settings, str(tiny_for("martingale")))
    scored = ScoredRun(folder, *config, lambda: left, left, ())
    every = {each.kind: each for each in said_numbers(scored, pd.DataFrame()) if each.metric == "options_excess"}
    assert (every["exact"].score.n_rows, every["exact"].score.n_dropped, every["verbal"].score.n_dropped) == (4, 2, 0)
    assert every["exact"].beside == {"sums left out, for an option that has no belief": "2 of 6"}


def test_claims_of_several_outcomes_are_drawn_together_and_none_is_favoured_where_they_are_summed(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.csv").write_text(SCENARIOS)
    tasks = f"tasks={{morality: {{kind: table, file: {tmp_path / 'own.csv'}}}}}"
    experiment, config = load_config("sycophancy", [tasks, "items=2", "registered=null"])
    assert isinstance(config, SycophancyConfig)
    items = experiment.items(config)
    assert [item.content["scenario"]["outcome"] for item in items] == [0, 1, 0] * 2
    assert sorted(Counter(item.cluster for item in items).values()) == [3, 3]
    for item in items:
        marked = [place for place in places(config, item) if "among" in place.conditions]
        texts = [place.context[0]["content"] for place in marked]
        assert len(texts) == len(config.asks)  # nobody has a role, so third parties alone
        assert all(item.content["scenario"]["x"] in text for text in texts)
        assert not any(word in text for text in texts for word in ("thinks", "purrs", "barks", "hides", "lost"))
        asked = [question for question in exact_questions(config, item) if "among" in question.conditions]
        assert {question.conditions["among"] for question in asked} == {f"morality {item.content['scenario']['among']}"}
