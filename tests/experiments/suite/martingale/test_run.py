"""The experiment from the questions to the report, on a tiny random model."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError, load
from doxascope.base.files import file_digest
from doxascope.experiments.materials.trajectories import chain, chains
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.readouts import compile_questions
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.stated_beliefs import _loaded
from doxascope.experiments.suite.martingale import trajectories
from doxascope.experiments.suite.martingale.ask import along, chain_request, exact_questions
from doxascope.experiments.suite.martingale.config import MartingaleConfig
from doxascope.experiments.suite.martingale.readings import readings
from doxascope.experiments.suite.martingale.trajectories import control_rows
from doxascope.hooks.exact.option_beliefs import largest_difference
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.store.commits import read_commits, rewrite
from doxascope.hooks.verbal.stated_beliefs import Judge

EVERYTHING = (
    "domains={factual: {kind: computed}, review: {kind: smoke}}",
    "reasoning=[cot,debate,evidence]",
    "prompts={none: '', critical: 'Doubt what you think.'}",
    "stated.sampled=[of 10]",
    "chains=2",
    "doob.continuations=2",
)
Configured = Callable[..., Any]


def judging_itself(config: MartingaleConfig) -> MartingaleConfig:
    """With two judges that are the model itself: one that sees the steps so far, and one that sees them all."""
    judges = {config.model.name: Judge(model=config.model), "late": Judge(model=config.model, sees="whole")}
    return config.model_copy(update={"stated": config.stated.model_copy(update={"judges": judges})})


@pytest.fixture(scope="module")
def whole(configured: Configured, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    """Experiment, configuration and folder of a run with everything in it."""
    experiment, config = configured(*EVERYTHING, "items=1")
    config = judging_itself(config)
    return experiment, config, run(experiment, config, tmp_path_factory.mktemp("runs"))


def test_all_kinds_are_read_at_the_same_places(whole: tuple[Any, Any, Any]) -> None:
    _, config, folder = whole
    table = readings(folder.beliefs())
    kinds = dict(zip(table["method"], table["kind"], strict=True))
    assert kinds == {
        **dict.fromkeys(("words", "letters", "claim"), "exact"),
        **dict.fromkeys(("json numbers", "json greedy", "of 10 sampled"), "verbal"),
        **dict.fromkeys((f"judge {config.model.name}", "judge late"), "judge"),
    }
    columns = ["item", "reasoning", "prompt", "draw", "step"]
    places = {method: set(map(tuple, rows[columns].to_numpy())) for method, rows in table.groupby("method")}
    assert all(own == places["words"] for own in places.values())
    assert set(table["reasoning"]) == {"cot", "debate", "evidence"}
    assert set(table.loc[table["reasoning"] == "evidence", "domain"]) == {"factual", "review"}
    urn = table[table["truth"].notna()]
    assert set(urn["item"]) == {"factual-0000"}
    assert set(urn["step"]) == set(range(7))


def test_the_report_shows_every_trajectory_with_its_beliefs(whole: tuple[Any, Any, Any]) -> None:
    _, _, folder = whole
    page = (folder.path / "report.html").read_text()
    for text in ("As the paper&#39;s Table 1", "after step 1: words", "The negative control", "smoke", "Drift within"):
        assert text in page, text
    published = pd.read_csv(folder.path / "published.csv")
    assert {"Table 1", "Section 6.1"} <= set(published["table"])
    assert "Table 1 of martingale-score" in page
    rows = json.loads((folder.path / "scores.json").read_text())["scores"]
    assert {"control_slope", "M_difference", "agreement_update", "truth_error"} <= {row["metric"] for row in rows}
    tested = {
        row["metric"]: row["equivalence"]["params"].get("hi") or row["equivalence"]["params"]["margin"]
        for row in rows
        if row["method"] == "control" and row["equivalence"]
    }
    assert tested == {"control_iv": 0.05, "control_drift2": pytest.approx(0.0025)}


def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(
    whole: tuple[Any, Any, Any], tmp_path: Path, cut_short: Any
) -> None:
    experiment, config, folder = whole
    part = shutil.copytree(folder.path, tmp_path / folder.path.name)
    cut_short(part, 1)
    for name in ("beliefs/part-00001.parquet", "scores.json"):
        (part / name).unlink()
    run(experiment, config, tmp_path)
    for name in ("scores.json", "published.csv", "transcripts/part-00001.jsonl"):
        assert (part / name).read_bytes() == (folder.path / name).read_bytes()


def test_a_model_that_judges_itself_is_loaded_once(configured: Configured, tmp_path: Path) -> None:
    experiment, config = configured("items=1", "stated={}")
    config = judging_itself(config)
    before = _loaded.cache_info()
    done = run(experiment, config, tmp_path)
    assert {f"judge {config.model.name}", "judge late"} <= set(done.beliefs()["method"])
    assert _loaded.cache_info() == before


def seal_anew(path: Path) -> None:
    """Give a run that was edited by hand the digests of what it holds now."""
    commits = [
        commit | {"files": {name: file_digest(path / name) for name in commit["files"]}}
        for commit in read_commits(path / "commits.jsonl").values()
    ]
    rewrite(path / "commits.jsonl", commits)
    folder = RunFolder(path)
    folder.write_manifest({key: value for key, value in folder.manifest.items() if key != "commits"})


def test_stored_trajectories_are_read_in_other_ways_without_being_written_again(
    configured: Configured, tmp_path: Path, whole: tuple[Any, Any, Any]
) -> None:
    def read(*changes: str, where: Path) -> Any:
        again, config = configured(*EVERYTHING, "items=1", f"trajectories={where}", *changes)
        return run(again, config, tmp_path)

    _, _, folder = whole
    again = read("stated={numbers: [unit]}", where=folder.path)
    before, after = (readings(run.beliefs()).query("method == 'words'") for run in (folder, again))
    pd.testing.assert_frame_equal(before, after)
    assert "unit numbers" in set(again.beliefs()["method"])
    other = shutil.copytree(folder.path, tmp_path / "other")
    for path in other.glob("transcripts/*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if line["readout_id"] == "factual-0000/cot-none/1":
                asked = [message for message in line["messages"] if message["role"] != "assistant"]
                line["messages"] = [*asked, *({"role": "assistant", "content": step} for step in ("Hm.", "So."))]
                line["answers"][0]["text"] = " Hm.\n\nSo."
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    seal_anew(other)
    table = readings(read("stated.numbers=[]", where=other).beliefs())
    told = table.query("item == 'factual-0000' and reasoning == 'cot' and prompt == 'none' and draw == 1")
    assert sorted(told.query("method == 'words'")["step"]) == [0, 1, 2]
    for change, message in (
        ("generation.max_new_tokens=23", "has another `generation`; give it the same"),
        ("chains=3", "has no draw 2 of factual-0000/cot-none"),
        ("wording.opening=I am sure.", "has another `wording`; give it the same"),
        ("domains={factual: {kind: computed, make: [weekdays]}}", "asked for factual-0000/cot-none in other words"),
        ("prompts={none: '', bold: 'Be bold.'}", "has no draw 0 of factual-0000/cot-bold"),
    ):
        with pytest.raises(UserError, match=message):
            read(change, where=folder.path)
    with pytest.raises(UserError, match="is not a doxascope run"):
        read(where=tmp_path / "nowhere")


def test_prefixes_share_their_tokens_and_read_as_they_would_alone(configured: Configured, noise: Any) -> None:
    experiment, config = configured("generation.max_new_tokens=60", "items=1", "reasoning=[cot,debate,evidence]")
    item = next(item for item in experiment.items(config) if item.id == "review-0000")
    with load(config.model) as lm:
        for (reasoning, prompt), own in trajectories(config, item, lm).items():
            prefixes = along(config, item, reasoning, prompt, own)
            queries = compile_questions(lm.reader, exact_questions(config, prefixes))
            read, cost, _ = lm.read(queries, budget=8192)
            assert cost.packs == 1
            trunk = max(len(query.prompt.ids) for query in queries)
            longest_branch = max(
                len(lm.reader.chat.render([{"role": "user", "content": ask}]).ids)
                for m in config.methods.values()
                for ask in m.ask
            )
            branches = len(queries) * (longest_branch + 20)  # with the options
            assert cost.tokens_tree < trunk + branches < sum(len(query.prompt.ids) for query in queries)
            for i in (0, len(queries) // 2, len(queries) - 1):
                assert largest_difference(read[i], lm.read_plain(queries[i])) < noise(read[i].logp)


def test_the_control_is_the_expected_final_belief(configured: Configured) -> None:
    experiment, config = configured("doob.continuations=120", "generation.max_new_tokens=3")
    words = config.methods["words"]
    config = config.model_copy(update={"methods": {"words": words.model_copy(update={"ask": words.ask[:1]})}})
    item = experiment.items(config)[0]
    with load(config.model) as lm:
        law = Sampling(max_new_tokens=3)
        (own,) = chains(lm, lm, [chain_request(config, item, "none")], law, draws=1, seed=5)
        rows = [row for row in control_rows(config, item, "none", own, lm) if row["option_index"] == 0]
        start = [row["prob"] for row in rows if row["step"] == 0]
        (many,) = chains(lm, lm, [chain_request(config, item, "none")._replace(name="other")], law, draws=120, seed=6)
        queries = compile_questions(
            lm.reader,
            exact_questions(
                config,
                [along(config, item, "cot", "none", [sampled])[-1] for sampled in many],
            ),
        )
        final = np.array([reading.prob[0] for reading in lm.read(queries)[0]]).reshape(len(many), -1).mean(axis=1)
    noise = final.std() / np.sqrt(60)
    assert final.std() > 0
    assert np.abs(np.array(start) - final.mean()).max() < 4 * noise * np.sqrt(1.5)
    assert start[0] != start[1]


def test_a_chain_that_ends_early_is_at_its_final_belief_from_there_on(configured: Configured) -> None:
    experiment, config = configured("doob.continuations=2", "generation.max_new_tokens=6")  # quarters: 2, 3, 5 tokens
    item = experiment.items(config)[0]
    with load(config.model) as lm:
        (own,) = chains(lm, lm, [chain_request(config, item, "none")], config.generation, draws=1, seed=5)
        ids = own[0].samples[0].ids
        for length, moving in ((6, 4), (4, 3), (3, 2), (1, 1)):
            sample = replace(own[0].samples[0], ids=ids[:length], text=lm.sampler.text(ids[:length]))
            short = [chain(lm, chain_request(config, item, "none"), sample)]
            rows = [row for row in control_rows(config, item, "none", short, lm) if row["option_index"] == 0]
            path = np.array([row["prob"] for row in rows]).reshape(5, 2)
            assert [row["step"] for row in rows[::2]] == [0, 1, 2, 3, 4]
            assert (path[moving:] == path[-1, 0]).all()
            assert (path[:moving] != path[-1, 0]).all()


@pytest.mark.parametrize(("cutoff", "domain"), [("null", "recall"), ("2024-06-30", "forecasting")])
def test_forecastbench_runs_end_to_end(
    configured: Configured, public: Callable[[str], Path], tmp_path: Path, cutoff: str, domain: str
) -> None:
    folder = public("forecastbench")
    files = f"file: {folder / '2024-07-21-human.json'}, resolutions: {folder / '2024-07-21_resolution_set.json.gz'}"
    source = f"domains={{forecasting: {{kind: forecastbench, {files}}}}}"
    experiment, config = configured(source, f"cutoff={cutoff}", "reasoning=[cot]", "items=4", "stated={}")
    done = run(experiment, config, tmp_path)
    table = readings(done.beliefs())
    assert set(table["domain"]) == {domain}
    assert table["outcome"].notna().any()
    page = (done.path / "report.html").read_text()
    assert "were resolved between 2024" in page
    assert ("at an unknown date" in page) == (cutoff == "null")
