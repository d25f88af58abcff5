"""What is read of a tiny model: the cache against ordinary passes, answers against the law they are drawn from."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError, load
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.joint_scores import score_runs
from doxascope.experiments.run.plan import make_plan
from doxascope.experiments.run.readouts import compile_questions
from doxascope.experiments.run.runner import run
from doxascope.experiments.suite.bscore.ask import ANSWER_TOKENS, planned
from doxascope.experiments.suite.bscore.turns import MULTI, choice_of, orders_of, single_questions
from doxascope.experiments.suite.bscore.views import views
from doxascope.hooks.generation.histories import CachedHistories
from doxascope.hooks.model.spec import resolve_model
from doxascope.hooks.prompts.options import make_options
from doxascope.metrics import belief_table

BRIEF = ("items=2", "turns=3", "distributions={}", "bootstrap_draws=10", "per_question=false")


@pytest.fixture(scope="module")
def model(bscore: Callable[..., Any]) -> Any:
    return load(bscore()[1].model)


def test_every_turn_is_read_as_an_ordinary_pass_over_its_own_prompt_reads_it(
    bscore: Callable[..., Any], model: Any, noise: Callable[[Any], float]
) -> None:
    """The history in the cache is the history that the transcript shows."""
    experiment, config = bscore("confidence=null")
    item = experiment.items(config)[3]
    read = experiment.read(config, item, model)
    table = belief_table(read.rows)
    said = {transcript["readout_id"]: transcript for transcript in read.transcripts}
    names = {row["readout_id"] for row in read.rows if row.get("scenario") == MULTI}
    assert len(names) == config.runs * config.turns
    turns = [name for name in names if name in said]
    assert len(turns) == config.runs
    for name in turns:
        whole = said[name]["messages"]
        own = table[table["readout_id"] == name]
        order = orders_of(choice_of(item))[own["order"].iloc[0]]
        method = config.methods["words"]
        query = model.reader.query(name, whole, make_options(choice_of(item).options, method.forms), method.prefill)
        plain = model.read_plain(query)
        assert np.abs(plain.logp - own["logp"].to_numpy()).max() < noise(plain.logp)
        shown = [choice_of(item).options[i] for i in order]
        assert ", ".join(shown) in whole[-1]["content"]


def test_a_cache_computes_what_is_new_alone_and_agrees_with_the_tree(
    bscore: Callable[..., Any], model: Any, noise: Callable[[Any], float]
) -> None:
    experiment, config = bscore("turns=5", "runs=2")
    item = experiment.items(config)[1]
    asked = [
        question for question in planned(config, item) if question.scenario == MULTI and question.conditions["run"] == 0
    ]
    queries = compile_questions(model.reader, asked)
    packed = model.read(queries, budget=4096, temperatures=(0.5,))
    histories = CachedHistories(model.model)
    computed, held = 0, []
    for query, there in zip(queries, packed.readings, strict=True):
        grown = model.read_grown([query], histories, budget=64, temperatures=(0.5,))
        computed += grown.cost.tokens_run
        held.append(grown.held)
        (here,) = grown.readings
        for one, other in ((here.logp, there.logp), (here.tempered[0.5], there.tempered[0.5])):
            assert np.abs(one - other).max() < noise(other)
        assert here.competitor.token == there.competitor.token
    assert computed == packed.cost.tokens_tree


def test_sampled_answers_are_as_frequent_as_the_exact_law_says(
    bscore: Callable[..., Any], model: Any, opening_option: Any
) -> None:
    """5,000 answers of the model against P over options, in one order: within 4.5 standard errors each."""
    from doxascope.hooks.generation.generated_texts import Request
    from doxascope.hooks.generation.sampling import Sampling

    experiment, config = bscore("items=8")
    asked = single_questions(config, experiment.items(config)[4])[0]  # two options
    (query,) = compile_questions(model.reader, [asked])
    (exact,) = model.read([query]).readings
    n = 5000
    longest = max(len(path) for paths in query.paths.paths for path in paths)
    law = Sampling(max_new_tokens=longest + 1)
    found = model.sample([Request("a", query.prompt, range(n))], law, seed=1)
    named = [opening_option(sample.ids, query.paths, query.terminators) for sample in found]
    p = np.exp(exact.logp)
    shares = np.array([named.count(i) / n for i in range(len(p))])
    assert (np.abs(shares - p) <= 4.5 * np.sqrt(p * (1 - p) / n) + 1 / n).all()


def test_a_plan_counts_the_confidence_that_is_asked_for(bscore: Callable[..., Any]) -> None:
    experiment, config = bscore("distributions={}")
    without = make_plan(experiment, config.model_copy(update={"confidence": None}))
    planned = make_plan(experiment, config)
    options = sum(len(item.content["options"]) for item in experiment.items(config))
    assert planned.readouts - without.readouts == options
    assert planned.tokens_run > without.tokens_run
    assert without.tokens_sampled == 0
    assert planned.tokens_sampled == ANSWER_TOKENS * options


def test_answers_that_are_counted_follow_the_exact_law_over_orders(bscore: Callable[..., Any], model: Any) -> None:
    experiment, config = bscore("confidence=null", "queries=5000", "runs=2")
    item = experiment.items(config)[2]
    (view, *_) = views(config, belief_table(experiment.read(config, item, model).rows))
    (one,) = view.asked
    for answers in one.counted:
        shares = np.bincount(answers, minlength=one.k) / len(answers)
        error = np.sqrt(one.balanced * (1 - one.balanced) / len(answers))
        assert (np.abs(shares - one.balanced) <= 4.5 * error).all()


def test_a_first_turn_is_the_question_afresh(bscore: Callable[..., Any], model: Any) -> None:
    experiment, config = bscore("confidence=null")
    (view, *_) = views(config, belief_table(experiment.read(config, experiment.items(config)[0], model).rows))
    (one,) = view.asked
    assert (one.b[:, 0] == 0).all()
    assert np.abs(one.b[:, 1:]).max() > 0


def test_the_residual_stream_is_captured_at_named_positions_of_every_turn(
    bscore: Callable[..., Any], model: Any
) -> None:
    experiment, config = bscore("confidence=null", "capture.layers=[1]", "turns=3")
    item = experiment.items(config)[1]
    captured = experiment.read(config, item, model).captured
    rows = captured.rows
    assert set(rows["position"]) == {"question", "before-answer", "answer", "own-last-answer"}
    own = rows[rows["position"] == "own-last-answer"]
    assert len(own) == config.runs * (config.turns - 1)
    assert own["readout_id"].str.contains("/turn-[23]/").all()


@pytest.fixture(scope="module")
def whole(bscore: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run."""
    experiment, config = bscore(*BRIEF)
    return run(experiment, config, tmp_path_factory.mktemp("whole"))


def test_runs_of_two_models_are_compared_on_the_same_questions(
    bscore: Callable[..., Any], whole: RunFolder, tiny_folder: Path, tmp_path: Path
) -> None:
    experiment, config = bscore(*BRIEF, "confidence=null")
    other = config.model_copy(update={"model": resolve_model(str(tiny_folder))})
    found = score_runs([whole, run(experiment, other, tmp_path)])
    (excess,) = [number for number in found.differences if number.metric == "b_excess_difference"]
    assert excess.score.n_rows == 2
    each = [n.score.estimate for n in found.numbers if (n.metric, n.method, n.subset) == ("b_excess", "words", "all")]
    assert abs(excess.score.estimate) == pytest.approx(abs(each[0] - each[1]))


def test_a_conversation_that_is_too_long_is_refused_unless_it_may_be_cut(
    bscore: Callable[..., Any], model: Any
) -> None:
    experiment, config = bscore("turns=200", "confidence=null", "runs=2")
    item = experiment.items(config)[0]
    with pytest.raises(UserError, match="; shorten the conversation, by fewer `turns`"):
        experiment.read(config, item, model)
    cut = config.model_copy(update={"keep_turns": 1, "turns": 4})
    last = experiment.read(cut, item, model).transcripts[-1]
    assert len(last["messages"]) == 3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("runs=1", "runs: Input should be greater than or equal to 2"),
        ("turns=1", "turns: Input should be greater than or equal to 2"),
        ("cuts=[9]", "cuts: 9 is none of the turns 2 to 4"),
        ("sources.own.kind=csqa", "kind 'csqa': needs a `file`"),
        ("items=37", "has 36 questions, fewer than 37"),
        ("methods.words.conversations=false", "methods: none holds conversations"),
        ("sampling.temperature=0.5", "past answers are the model's own"),
    ],
)
def test_a_setting_that_cannot_be_run_is_refused_in_one_line(
    change: str, told: str, bscore: Callable[..., Any]
) -> None:
    def items() -> None:
        experiment, config = bscore(change)
        experiment.items(config)

    with pytest.raises(UserError, match=told):
        items()


def test_a_run_that_was_killed_ends_with_the_same_bytes(
    bscore: Callable[..., Any], whole: RunFolder, tmp_path: Path, cut_short: Any
) -> None:
    again = tmp_path / "again" / whole.path.name
    shutil.copytree(whole.path, again)
    cut_short(again, 1)
    for name in ("beliefs", "transcripts"):
        sorted((again / name).iterdir())[-1].unlink()
    (again / "scores.json").unlink()
    experiment, config = bscore(*BRIEF)
    resumed = run(experiment, config, tmp_path / "again")
    assert resumed.path == again
    pd.testing.assert_frame_equal(whole.beliefs(), resumed.beliefs())
    for name in ("scores.json", "published.csv"):
        assert (whole.path / name).read_bytes() == (again / name).read_bytes()
    assert all(len(said.get("prompt", "")) == 16 for said in whole.said())
    page = (whole.path / "report.html").read_text()
    assert "The three verdicts" in page
    assert "Does it settle? words" in page
