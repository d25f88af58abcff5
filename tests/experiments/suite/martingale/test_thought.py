"""The think block, step by step, on a tiny random model whose template has one."""

import json
import string
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doxascope import load
from doxascope.experiments.run.config import load_config, stored_config
from doxascope.experiments.run.plan import make_plan
from doxascope.experiments.run.readouts import compile_questions, read_questions, think
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.stated_beliefs import stated_rows
from doxascope.experiments.suite.martingale import trajectories
from doxascope.experiments.suite.martingale.ask import along, exact_questions
from doxascope.experiments.suite.martingale.readings import pairs, readings, sheet
from doxascope.hooks.exact.option_beliefs import QueryTree, largest_difference
from doxascope.hooks.store import ActivationStore
from doxascope.hooks.tree.token_tree import cut_into_packs
from doxascope.hooks.verbal.number_formats import JSON
from doxascope.hooks.verbal.stated_beliefs import ask_number
from doxascope.metrics import Resampling, drift_variance
from doxascope.metrics.tables.sample_rows import WHOLE

MERGES = (("\n", "\n"), *((letter, "\n\n") for letter in string.ascii_lowercase))
"""Else a model that spells at random would hardly ever leave a line empty."""
ASK = (
    "model.thinking=on",
    "stated.judges={}",
    "reasoning=[thought]",
    "domains={values: {kind: smoke}}",
    "generation.max_new_tokens=60",
    "items=1",
    "gate_urns=0",
    "chains=4",
    "bootstrap_draws=50",
    "methods={words: {ask: ['Your answer, {first} or {second}?', 'Which is right, {first} or {second}?']}, "
    "letters: {ask: ['A) {first} or B) {second}?'], labels: [A, B], forms: ['{option}']}, "
    "claim: {ask: ['True or false: the answer is {first}.'], claim: ['True', 'False']}}",
)
Configured = Callable[..., Any]


@pytest.fixture(scope="module", params=["opens", "switch"])
def folder(request: pytest.FixtureRequest, save_thinker: Callable[..., Path]) -> Path:
    return save_thinker(request.param, MERGES, max_position_embeddings=4096)


@pytest.fixture(scope="module")
def pondering(folder: Path) -> Configured:
    """The experiment, and its configuration for the model with changes."""
    return lambda *changes: load_config("martingale", [*ASK, *changes], str(folder))


def test_each_belief_is_the_one_after_the_very_tokens_of_the_steps(pondering: Configured, noise: Any) -> None:
    experiment, config = pondering()
    (item,) = experiment.items(config)
    with load(config.model) as lm:
        ((_, chains),) = trajectories(config, item, lm).items()
        assert max(len(chain.steps) for chain in chains) > 2
        prefixes = along(config, item, "thought", "none", chains)
        questions = exact_questions(config, prefixes)
        assert len(questions) == len(prefixes) * 2 * sum(len(method.ask) for method in config.methods.values())
        queries = compile_questions(lm.reader, questions)
        readouts = read_questions("martingale", config, item, questions, lm)
        packed = lm.read(queries, budget=config.budget).readings
        for question, query, reading in zip(questions, queries, packed, strict=True):
            asked = lm.reader.chat.render(question.conversation)
            rest = query.prompt.ids[len(asked.ids) :]
            thought = question.thought or ()
            assert query.prompt.ids[: len(asked.ids)] == asked.ids
            assert str(lm.tokenizer.decode(list(rest))).endswith("</think>\n\n")
            if question.step:
                chain = chains[question.conditions["draw"]]
                assert thought == chain.thoughts[question.step - 1] == chain.samples[0].ids[: len(thought)]
                assert rest == (*thought, *lm.tokenizer("</think>\n\n")["input_ids"])
            else:
                assert thought == ()
                empty = lm.reader.chat.render_answer(question.conversation)
                assert query.prompt.ids == empty.ids
            assert largest_difference(reading, lm.read_plain(query)) < noise(reading.logp)
        yes = [row for row in readouts.rows if row["option_index"] == 0]
        logp = np.array([reading.logp[0] for reading in packed])
        np.testing.assert_allclose([row["logp"] for row in yes], logp, atol=noise(logp))
        assert all(chain.asked == questions[0].conversation for chain in chains)


def test_the_last_belief_is_that_of_a_model_that_thinks(pondering: Configured, noise: Any) -> None:
    law = "thoughts={draws: 8, max_new_tokens: 100}"
    experiment, config = pondering("chains=8", "generation.max_new_tokens=100", law)
    (item,) = experiment.items(config)
    with load(config.model) as lm:
        ((_, chains),) = trajectories(config, item, lm).items()
        whole = [chain for chain in chains if chain.status in ("ok", "unsplit")]
        assert whole
        prefixes = {chain.draw: along(config, item, "thought", "none", [chain])[-1] for chain in whole}
        first = {draw: exact_questions(config, [prefix])[0] for draw, prefix in prefixes.items()}
        readings = lm.read(compile_questions(lm.reader, list(first.values()))).readings
        asked = replace(next(iter(first.values())), readout_id=chains[0].name, thought=None)
        (mixture,), _ = think(config, [asked], lm)
        for draw, reading in zip(first, readings, strict=True):
            again = mixture.thoughts[draw].reading
            assert again is not None
            np.testing.assert_allclose(reading.logp, again.logp, atol=noise(again.logp))


def test_the_prefixes_of_a_thought_share_their_tokens(pondering: Configured) -> None:
    experiment, config = pondering("generation.max_new_tokens=200", "seed=1")
    (item,) = experiment.items(config)
    with load(config.model) as lm:
        ((_, chains),) = trajectories(config, item, lm).items()
        longest = max(chains, key=lambda chain: len(chain.steps))
        assert len(longest.steps) > 4
        questions = exact_questions(config, along(config, item, "thought", "none", [longest]))
        queries = compile_questions(lm.reader, questions)
        ends = [question for question in questions if question.step == len(longest.steps)]
        asked = [len(lm.reader.chat.render(question.conversation).ids) for question in ends]
        trunks = sum(asked) + len(asked) * len(longest.thoughts[-1])
        branches = sum(len("</think>\n\n") + len(path) for q in queries for paths in q.paths.paths for path in paths)
        built = QueryTree(queries)
        assert len(built.tree) < trunks + branches < sum(len(query.prompt.ids) for query in queries)
        by_step = QueryTree(
            [query for _, query in sorted(enumerate(queries), key=lambda pair: questions[pair[0]].step)]
        )
        budget = 2 * max(len(query.prompt.ids) for query in queries)
        run, other = (
            sum(map(len, cut_into_packs(query_tree.tree, query_tree.read_nodes, budget)))
            for query_tree in (built, by_step)
        )
        assert run < other  # as few packs as can be have to hold a thought


def test_numbers_and_answers_follow_the_same_thought(pondering: Configured) -> None:
    experiment, config = pondering()
    (item,) = experiment.items(config)
    with load(config.model) as lm:
        ((_, (first, *_)),) = trajectories(config, item, lm).items()
        ids = first.thoughts[-1]
        asked = ask_number(lm.reader, "r", first.contexts[-1], JSON, thought=ids)
        rendered = lm.reader.chat.render(asked.messages)
        tail = lm.tokenizer(f"</think>\n\n{asked.prefill}")["input_ids"]
        assert asked.messages[-1]["content"].endswith(JSON.instruction)
        assert asked.prompt(lm.reader).ids == asked.query(lm.reader).prompt.ids == (*rendered.ids, *ids, *tail)
        assert asked.prefill + asked.opening == JSON.labels[0]
        rows, said, *_ = stated_rows(config, along(config, item, "thought", "none", [first]), lm)
        stated = [row["prob"] for row in rows if row["method"] == "json numbers" and row["option_index"] == 0]
        assert len(stated) == len({*stated}) == len(first.steps) + 1  # the conversation is the same before each
        assert len({tuple(map(str, line["messages"])) for line in said}) == 1


def test_a_plan_samples_no_thoughts_for_what_is_read_after_given_ones(pondering: Configured) -> None:
    experiment, config = pondering("stated={}")
    planned = make_plan(experiment, config)
    assert planned.tokens_sampled == 0
    assert planned.readouts == 2 * sum(len(method.ask) for method in config.methods.values())


def test_the_end_of_each_step_is_captured_within_the_thought(pondering: Configured, tmp_path: Path, noise: Any) -> None:
    experiment, config = pondering("stated={}", "capture.layers=[0]")
    done = run(experiment, config, tmp_path, scored=False)
    stored = ActivationStore.open(done.path).read(layer=0)
    assert set(stored.rows["position"]) == {"step", "before-question", "answer"}
    (item,) = experiment.items(config)
    with load(config.model) as lm:
        ((_, chains),) = trajectories(config, item, lm).items()
        questions = exact_questions(config, along(config, item, "thought", "none", chains))
        asked = {question.readout_id: question for question in questions}
        steps = stored.rows[stored.rows["position"] == "step"]
        assert set(steps["readout_id"]) == {name for name, question in asked.items() if question.step}
        for row, name in list(zip(steps.index, steps["readout_id"], strict=True))[::7]:
            prompt = lm.reader.chat.render(asked[name].conversation).ids
            ids = [*prompt, *(asked[name].thought or ())]
            plain = lm.model(torch.tensor([ids], device=lm.model.device), output_hidden_states=True).hidden_states
            np.testing.assert_allclose(stored.values[row], plain[1][0, -1].cpu(), atol=noise(plain[1][0, -1]))


def test_drift_is_that_of_the_question_under_which_thoughts_are_had(pondering: Configured, tmp_path: Path) -> None:
    few = ("items=2", "chains=8", "stated={}", "generation.max_new_tokens=16")
    experiment, config = pondering(*few, "methods={words: {ask: 'Your answer, {first} or {second}?'}}")
    done = run(experiment, config, tmp_path)
    scores = json.loads((done.path / "scores.json").read_text())["scores"]
    (drift,) = [score for score in scores if score["metric"] == "drift2"]
    assert (drift["method"], drift["subset"]) == ("words", "values, thought, none")
    ends = pairs(readings(done.beliefs()), WHOLE)
    ends = ends[ends["method"] == "words"]
    updates = [(group["first"] - group["prior_first"]).to_numpy() for _, group in ends.groupby("item", sort=False)]
    assert drift["estimate"] == pytest.approx(drift_variance(updates, how=Resampling(draws=50)).drift2)
    assert "The model thought under the question of the method words" in (done.path / "report.html").read_text()
    for _, group in sheet(done).dropna(subset="draw").groupby(["item", "draw"], sort=False):
        shown = group.sort_values("step")["shown"]
        assert all(text.count("assistant, thinking: ") == 1 for text in shown)
        assert all(after.startswith(before.rstrip()) for before, after in pairwise(shown))


@pytest.mark.parametrize("folder", ["opens"], indirect=True)
def test_a_run_from_the_command_line_goes_on_where_it_was_stopped(
    folder: Path, tmp_path: Path, command_line: Callable[..., Any], cut_short: Any
) -> None:
    settings = [
        *ASK,
        "items=2",
        "reasoning=[thought, evidence]",
        "domains={factual: {kind: computed}}",
        "generation.max_new_tokens=24",
        "chains=2",
        "stated.numbers=[]",
        "stated.greedy=[]",
        "stated.sampled=[of 10]",
        "stated.draws=2",
    ]
    judge = f"stated.judges={{other: {{model: {{name: other, path: {folder}, thinking: closed}}}}}}"
    command = ["run", "martingale", "-m", str(folder), "--verify", "1"]
    command += [word for setting in (*settings, judge) for word in ("-o", setting)]

    def invoke() -> Path:
        done = command_line(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        (made,) = (tmp_path / "runs").iterdir()
        return made

    made = invoke()
    names = ("scores.json", "published.csv", "transcripts/part-00001.jsonl")
    before = {name: (made / name).read_bytes() for name in names}
    cut_short(made, 1)
    for name in (*names, "beliefs/part-00001.parquet"):
        (made / name).unlink()
    invoke()
    assert {name: (made / name).read_bytes() for name in names} == before
    _, config = stored_config(made / "config.yaml")
    assert config.model.thinking == "on"
    scores = json.loads(before["scores.json"])["scores"]
    ended = {score["subset"] for score in scores if score["metric"] == "truncated" and score["estimate"] > 0}
    assert "factual, thought, none" in ended
    assert {score["method"] for score in scores if score["metric"] == "M"} == {
        *("words", "letters", "claim", "of 10 sampled", "judge other")
    }
    readout_ids = [json.loads(line)["readout_id"] for line in before[names[2]].decode().splitlines()]
    assert {"factual-0001/thought-none/0", "factual-0001/thought-none/1"} <= {*readout_ids}
