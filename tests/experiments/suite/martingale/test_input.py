"""What a user may get wrong: one line, or a status that is counted and shown."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError
from doxascope.benchmarks.agents import Bayesian
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import items_of
from doxascope.experiments.run.plan import foreseen
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.martingale.ask import evidence
from doxascope.metrics.claims import verdicts

Configured = Callable[..., Any]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("domains={values: {kind: table}}", "kind 'table': needs a `file`"),
        ("domains={values: {kind: smoke, file: x.csv}}", "kind 'smoke': takes no `file`"),
        ("domains={values: {kind: computed}}", "domains.values: has no computed questions"),
        ("domains={values: {kind: smoke, make: [urns]}}", "kind 'smoke': takes no `make`"),
        ("domains={factual: {kind: computed, make: [urns, urns]}}", "`make` names a kind of question twice"),
        ("reasoning=[cot, debate, cot]", "reasoning: names a kind twice"),
        ("trajectories=nowhere", "nowhere: is not a doxascope run"),
        ("domains={factual: {kind: smoke}}", "domains.factual: has no smoke questions"),
        ("domains={forecasting: {kind: forecastbench, file: x.json}}", "`resolutions` go with kind `forecastbench`"),
        ("domains={art: {kind: smoke}}", "domains.art: has no smoke questions"),
        ("domains={gate: {kind: table, file: x.csv}}", "'gate' is taken"),
        ("domains={'a/b': {kind: table, file: x.csv}}", "give a name without '/'"),
        ("domains={values: {kind: smoke, unused: [x]}}", "which go with `table`"),
        ("reasoning=[guess]", "reasoning.0"),
        ("stated.numbers=[words]", "format 'words' is not one of unit, integer"),
        ("methods={words: {ask: '{first} or {third}?'}}", "ask: placeholder 'third' is not one of {first} {second}"),
        ("methods={x: {ask: 'x', labels: [A, B], claim: [T, F]}}", "two ways of answering"),
        ("wording.cot='{word}'", "wording.cot: placeholder 'word' is not one of {question}"),
        ("doob.continuations=3", "give an even number"),
        ("stated.draws=3", "stated.draws"),
        ("numbers=[json]", "unknown key 'numbers'; did you mean 'stated.numbers'?"),
        ("greedy=[json]", "unknown key 'greedy'; did you mean 'stated.greedy'?"),
        ("sampled=[json]", "unknown key 'sampled'; did you mean 'stated.sampled'?"),
        ("draws=2", "unknown key 'draws'; did you mean 'stated.draws' or 'thoughts.draws' or 'lens.draws'?"),
        ("judge=null", "unknown key 'judge'; did you mean 'stated.judges'?"),
        ("stated.judges={smolm2-135m: {}}", "did you mean 'smollm2-135m'?"),
        ("stated.judges={smollm2-135m: {prompt: '{belief}'}}", "prompt: placeholder 'belief'"),
    ],
)
def test_a_wrong_setting_is_one_line(configured: Configured, change: str, message: str) -> None:
    def prepare() -> None:
        experiment, config = configured(change)
        experiment.items(config)

    with pytest.raises(UserError) as error:
        prepare()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("doob.continuations=2", "generation.temperature=0.5"), "set generation.temperature and top_p to 1"),
        (("doob.continuations=2", "reasoning=[debate]"), "add `cot` to reasoning"),
        (("doob.continuations=2", "generation.stop=[Answer]"), "take generation.stop away"),
        (("model.thinking=on",), "goes with reasoning `thought`, beside it `evidence`; else set `closed`"),
        (("model.thinking=on", "reasoning=[thought, cot]"), "goes with reasoning `thought`, beside it `evidence`"),
        (("model.thinking=on", "reasoning=[evidence]"), "goes with reasoning `thought`, beside it `evidence`"),
        (("reasoning=[cot, thought]",), "set `model.thinking: on`"),
    ],
)
def test_settings_that_do_not_go_together(configured: Configured, changes: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        configured(*changes)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,option_yes\nWell?,Yes\n", "has no column 'option_no'"),
        ("question,option_yes,option_no\nWell?,Yes,\n", "row 1: has 1 option"),
        ("question,option_yes,option_no,outcome\nWell?,Yes,No,maybe\n", "row 1: truth 'maybe' is no option"),
        ("item,a,b\nWell?,Yes,No\n", "has no column 'question'|the column 'item' is not used here"),
    ],
)
def test_a_file_of_other_questions_is_named(configured: Configured, tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path / "t.csv", text)
    experiment, config = configured(f"domains={{values: {{kind: table, file: {path}}}}}", "items=1")
    with pytest.raises(UserError, match=message):
        experiment.items(config)


def test_a_judge_without_a_chat_template_is_refused(
    configured: Configured, save_speller: Callable[..., Path], tmp_path: Path
) -> None:
    judge = save_speller("abc ?", max_position_embeddings=4096)
    experiment, config = configured(
        "domains={values: {kind: smoke}}", "items=1", f"stated.judges={{other: {{model: {judge}}}}}"
    )
    with pytest.raises(
        UserError, match=f"judge {judge.name}: the model has no chat template; choose `template: plain`"
    ):
        run(experiment, config, tmp_path)


def test_a_prior_conforming_prompt_and_an_observer_are_prompts_like_any(configured: Configured) -> None:
    experiment, config = configured("prompts={none: '', stubborn: 'Hold on to what you believe.'}", "items=1")
    asked = experiment.questions(config, experiment.items(config)[0])
    systems = {q.conversation[0]["content"] for q in asked if q.conversation[0]["role"] == "system"}
    assert systems == {"Hold on to what you believe."}
    assert len({q.readout_id for q in asked}) == len(asked)


def with_urns(table: pd.DataFrame, follows: float) -> pd.DataFrame:
    """The rows of the table, and of the gate's urns: every belief moves by `follows` of what Bayes' rule moves it."""
    rng = np.random.default_rng(0)
    own = table.drop_duplicates(["method", "kind"])
    rows = []
    for urn, (first, second, third) in enumerate(np.sort(rng.uniform(size=(12, 3)))[:, [1, 0, 2]]):
        for step, truth in enumerate((first, second, third)):
            conditions = {"domain": "gate", "reasoning": "evidence", "prompt": "none", "reading": 0, "truth": truth}
            conditions |= {"draw": 0, "statuses": None} if step else {"draw": pd.NA, "statuses": ("ok",)}
            belief = np.clip(first + follows * (truth - first) + rng.normal(0, 0.01), 0, 1)
            for index, prob in enumerate((belief, 1 - belief)):
                rows.append(
                    own.assign(
                        readout_id=f"gate-{urn}/{step}/" + own["kind"].astype(str) + own["method"].astype(str),
                        item=f"gate-{urn}",
                        cluster=f"gate {urn}",
                        step=step,
                        **{name: pd.Series([value] * len(own), own.index) for name, value in conditions.items()},
                        option_index=index,
                        prob=prob,
                    )
                )
    return pd.concat([table, *rows], ignore_index=True)


@pytest.mark.parametrize("follows", [0.8, 0.0])
def test_what_is_rarely_answered_and_what_follows_no_evidence_are_told_apart(
    configured: Configured, planted: Any, follows: float
) -> None:
    experiment, config = configured()
    read = Bayesian().sample(20, 0).read.copy()
    often = read.copy()
    often[:9] = np.nan
    table = planted({"words": [read, read], "letters": [read, read], "greedy": [often], "numbers": [read]})
    said = table["method"].isin(("greedy", "numbers"))
    table = table.assign(
        kind=table["kind"].astype(str).mask(said, "verbal"),
        coverage=table["coverage"].mask(table["prob"].isna(), 0.0).mask(table["method"] == "letters", 0.49),
    )
    numbers = score_run(experiment, config, with_urns(table, follows))
    failing = {one.method: [condition.label for condition in one.failures] for one in verdicts(numbers)}
    assert failing == {"words": [], "letters": ["coverage"], "greedy": ["valid-answer rate"], "numbers": []}
    assert {one.responds for one in verdicts(numbers)} == {"responds" if follows else "does not respond"}
    # The urns of the gate enter no other number.
    alone = {number.key: number for number in score_run(experiment, config, table)}
    numbers = [number for number in numbers if number.metric != "urn_slope"]
    assert [number.key for number in numbers] == list(alone)
    for number in numbers:
        if number.metric != "gate":
            np.testing.assert_equal(number.score.as_dict(), alone[number.key].score.as_dict())
        else:
            assert verdicts([alone[number.key]])[0].responds == "not tested"  # what was not read is not affirmed


def test_trajectories_that_do_not_split_or_end_are_counted_and_shown(configured: Configured, tmp_path: Path) -> None:
    experiment, config = configured(
        "domains={values: {kind: smoke}}", "generation.max_new_tokens=2", "chains=3", "stated={}"
    )
    folder = run(experiment, config, tmp_path)
    rows = json.loads((folder.path / "scores.json").read_text())["scores"]
    shares = {r["metric"]: r["estimate"] for r in rows if r["method"] == "trajectories" and r["subset"] == "all"}
    assert set(shares) == {"truncated", "unsplit", "empty"}
    assert shares["truncated"] > 0.5
    assert f"Of 9 trajectories, {round(9 * shares['truncated'])} truncated" in (folder.path / "report.html").read_text()


def test_every_smoke_question_says_where_it_is_from(configured: Configured) -> None:
    for domain in ("values", "review", "forecasting"):
        experiment, config = configured(f"domains={{{domain}: {{kind: smoke}}}}", "items=20")
        items = experiment.items(config)
        assert {item.content["domain"] for item in items} == {"recall" if domain == "forecasting" else domain}
        for item in items:
            assert item.content["question"]["provenance"].startswith("written for doxascope; ")
            assert (item.content["question"]["resolved_on"] != "") == (domain == "forecasting")
        assert len({item.content["question"]["text"] + item.content["question"]["background"] for item in items}) == 20


def test_the_advice_for_a_column_that_is_not_used_is_taken(configured: Configured, tmp_path: Path) -> None:
    """As it is printed, beside the file that was named; and nothing stands over the evidence before there is any."""
    path = tmp_path / "riddles.csv"
    path.write_text("question,outcome,evidence_1,notes\nDid it rain?,1,The street is wet.,x\n")
    named = ("reasoning=[evidence]", "items=1", "gate_urns=0", f"questions={path}")
    experiment, config = configured(*named)
    with pytest.raises(UserError, match="the column 'notes' is not used here") as error:
        experiment.items(config)
    flag, advice = shlex.split(str(error.value).partition("under `unused`: ")[2])
    assert flag == "-o"
    experiment, config = configured(*named, advice)
    (item,) = experiment.items(config)
    before, after = (context[-1]["content"] for context in evidence(config, item, "none").contexts)
    assert before.endswith("Did it rain?")
    assert after == f"{before}\n\n{config.wording.evidence}\n\nThe street is wet."


def test_a_table_is_read_whole_and_the_urns_of_the_gate_are_none_of_the_planned_clusters(tmp_path: Path) -> None:
    rows = [f"Will event {i} happen?,yes,no,yes,There are signs of {i}." for i in range(9)]
    text = "\n".join(["question,option_yes,option_no,outcome,evidence_1", *rows]) + "\n"
    (tmp_path / "events.csv").write_text(text)
    for changes, read in (([], 9), (["items=4"], 4)):
        loaded: Any = load_config("martingale", [*changes, "gate_urns=5"], material=str(tmp_path / "events.csv"))
        items = items_of(*loaded)
        assert len(items) == read + 5
        told = foreseen(*loaded, items)
        assert told[0] == f"events: {'all' if read == 9 else '4 of'} 9 questions are read{', by `items`' * (read == 4)}"
        assert f"(18 clusters), not for a claim of coherence; this run has {read} clusters" in told[1]
    named = f"domains={{events: {{kind: table, file: '{tmp_path / 'events.csv'}'}}, values: {{kind: smoke}}}}"
    experiment, config = load_config("martingale", [named])
    assert config.model_dump()["items"] is None  # each source says how many that is
    assert foreseen(experiment, config, items_of(experiment, config))[0] == (
        "events: all 9 questions are read; values: 6 of 20 questions are read, to try it; `items` sets how many"
    )
