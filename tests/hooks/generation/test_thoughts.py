"""Models whose template has a think block: how they are asked, and what they are said to believe."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError, load
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import Question
from doxascope.experiments.run.joint_scores import score_runs
from doxascope.experiments.run.plan import make_plan
from doxascope.experiments.run.readouts import think
from doxascope.experiments.run.runner import run
from doxascope.hooks.generation.generated_texts import Request
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.prompts.chat import ChatRenderer, Message
from doxascope.hooks.prompts.options import make_options
from doxascope.hooks.prompts.places import Position, find_places

CHAT: list[Message] = [{"role": "user", "content": "Which?"}]
OPTIONS = make_options(["red", "blue", "green"], ["{option}"])


@pytest.fixture(scope="module")
def thinker_folder(save_thinker: Callable[[str], Path]) -> Path:
    return save_thinker("switch")


@pytest.fixture(scope="module")
def thinker(thinker_folder: Path) -> Any:
    return load(str(thinker_folder), thinking="on")


def settings(thinker_folder: Path, *changes: str) -> Any:
    wanted = ["model.thinking=on", "thoughts={draws: 6, max_new_tokens: 60}", *changes]
    return load_config("consistency", wanted, str(thinker_folder))


def question(readout_id: str = "r", prefill: str = "") -> Question:
    return Question(readout_id, "free", "prior", CHAT, prefill, OPTIONS)


@pytest.mark.parametrize(
    ("template", "thinking", "end"),
    [
        ("switch", "off", "<u><think>\n\n</think>\n\n"),
        ("switch", "closed", "<u><think>\n\n</think>\n\n"),
        ("switch", "on", "<u>"),
        ("opens", "closed", "<u><think>\n\n</think>\n\n"),
        ("opens", "on", "<u><think>\n"),
        ("none", "off", "<u>"),
    ],
)
def test_how_the_answer_is_asked_for(
    save_thinker: Callable[[str], Path], template: str, thinking: Any, end: str
) -> None:
    lm = load(str(save_thinker(template)), thinking=thinking)
    chat = lm.reader.chat
    assert str(lm.tokenizer.decode(list(chat.render(CHAT).ids))) == "<u>user: Which?</u>" + end
    answered = chat.render_answer(CHAT, "It is")
    assert str(lm.tokenizer.decode(list(answered.ids))).endswith("It is")
    if thinking != "off":
        assert str(lm.tokenizer.decode(list(answered.ids))).count("<think>\n\n</think>\n\n") == 1


@pytest.mark.parametrize("thinking", ["on", "closed"])
def test_a_model_without_a_think_block_is_refused(
    make_tokenizer: Callable[..., Any], think_templates: dict[str, str], smollm: Any, thinking: str
) -> None:
    for tokenizer, template in ((smollm.tokenizer, "own"), (smollm.tokenizer, "plain")):
        with pytest.raises(UserError, match=f"thinking '{thinking}': .*no think block"):
            ChatRenderer(tokenizer, template, thinking)
    with pytest.raises(UserError, match="'</think>' is no token of the model"):
        ChatRenderer(make_tokenizer(chat_template=think_templates["switch"]), "own", thinking)


def test_a_template_that_always_opens_a_thought_cannot_be_off(save_thinker: Callable[[str], Path]) -> None:
    with pytest.raises(UserError, match="opens a thought; set `thinking: on`, or `closed`"):
        load(str(save_thinker("opens")))


def test_a_belief_is_the_mean_of_the_exact_ones_after_each_thought(
    thinker: Any, thinker_folder: Path, noise: Callable[[Any], float]
) -> None:
    _, config = settings(thinker_folder, "token_budget=1")
    (mixture,), cost = think(config, [question(prefill="It is ")], thinker)
    close = thinker.reader.chat.close
    asked = thinker.reader.chat.render(CHAT)
    samples = thinker.sample([Request("r", asked, range(6))], Sampling(max_new_tokens=60), seed=0, until=[close])
    assert [thought.sample for thought in mixture.thoughts] == samples
    masses = np.zeros((6, 3))
    for k, sample in enumerate(samples):
        if sample.ids[-1] == close:
            query = thinker.reader.query("r", CHAT, OPTIONS, "It is ", thought=sample.ids[:-1])
            tail = thinker.tokenizer("\n\nIt is ")["input_ids"]
            assert query.prompt.ids == (*asked.ids, *sample.ids, *tail)
            masses[k] = np.exp(thinker.read_plain(query).logp)
    assert 0 < mixture.unclosed == int((masses.sum(axis=1) == 0).sum()) < 6
    rows = mixture.rows(0.5)
    logp = np.log(masses.mean(axis=0))
    np.testing.assert_allclose([float(str(row["logp"])) for row in rows], logp, atol=noise(logp))
    assert rows[0]["coverage"] == pytest.approx(masses.sum() / 6, rel=noise(logp))
    errors = masses.std(axis=0, ddof=1) / np.sqrt(6)
    assert mixture.covariance is not None
    np.testing.assert_allclose(np.sqrt(np.diag(mixture.covariance)), errors, rtol=2 * noise(logp))  # of a spread, too
    assert cost.packs <= 6 - mixture.unclosed  # all forms of a thought in one


def test_a_thought_depends_on_nothing_else_that_is_asked(thinker: Any, thinker_folder: Path) -> None:
    _, config = settings(thinker_folder)
    (alone,), _ = think(config, [question("b")], thinker)
    (_, among), _ = think(config, [question("a"), question("b")], thinker)
    assert [thought.sample.ids for thought in alone.thoughts] == [thought.sample.ids for thought in among.thoughts]
    more, _ = think(settings(thinker_folder, "thoughts.draws=8")[1], [question("b")], thinker)
    assert [thought.sample.ids for thought in more[0].thoughts[:6]] == [
        thought.sample.ids for thought in alone.thoughts
    ]
    other, _ = think(settings(thinker_folder, "seed=1")[1], [question("b")], thinker)
    assert [thought.sample.ids for thought in other[0].thoughts] != [thought.sample.ids for thought in alone.thoughts]


def test_thoughts_that_are_not_closed_give_no_number(thinker: Any, thinker_folder: Path) -> None:
    _, config = settings(thinker_folder, "thoughts={draws: 3, max_new_tokens: 1}")
    (mixture,), _ = think(config, [question()], thinker)
    assert mixture.unclosed == 3
    for row in mixture.rows(0.5):
        assert (row["coverage"], row["status"]) == (0.0, "truncated")
        assert np.isnan(float(str(row["prob"])))
        assert "logp" not in row


def test_one_thought_has_no_error(thinker: Any, thinker_folder: Path) -> None:
    closed = []
    for seed in range(8):
        _, config = settings(thinker_folder, "thoughts={draws: 1, max_new_tokens: 300}", f"seed={seed}")
        (mixture,), _ = think(config, [question()], thinker)
        assert mixture.covariance is None
        closed += [mixture] if mixture.unclosed == 0 else []
    assert closed
    for mixture in closed:
        assert [row["status"] for row in mixture.rows(0.0)] == ["ok"] * 3


def test_a_thought_that_leaves_no_room_is_refused(thinker: Any, thinker_folder: Path) -> None:
    _, config = settings(thinker_folder, "thoughts.max_new_tokens=1010")
    with pytest.raises(
        UserError, match=r"read-out r: prompt, thought and option take up to 10\d\d tokens.* takes 1024"
    ):
        think(config, [question()], thinker)


def test_the_library_does_not_call_one_thought_a_belief(thinker: Any) -> None:
    with pytest.raises(UserError, match="a mixture over thoughts"):
        thinker.beliefs("Which?", ["red", "blue"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("temperatures=[2]", "temperatures: thoughts are sampled at 1"),
        ("sampled={draws: 2, methods: [prefill]}", "'prefill' has a prefill, which leaves no room for a thought"),
        ("sampled={draws: 2, mentions: ['{option}']}", "mentions: thoughts name words, too"),
        ("thoughts.draws=0", r"thoughts\.draws: .*greater than or equal to 1"),
        ("model.thinking=maybe", r"model\.thinking"),
    ],
)
def test_what_does_not_go_with_thoughts_is_refused(thinker_folder: Path, change: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        settings(thinker_folder, change)


def test_a_run_keeps_its_thoughts_and_carries_none_into_the_dialogue(thinker_folder: Path, tmp_path: Path) -> None:
    wanted = ("items=2", "methods={free: {forms: ['{option}']}}", "fork.methods=[]", "bootstrap_draws=50")
    experiment, config = settings(thinker_folder, *wanted, "sampled.draws=2", "sampling.max_new_tokens=20")
    folder = run(experiment, config, tmp_path, verify=1)
    spoken = [json.loads(line) for part in sorted((folder.path / "transcripts").iterdir()) for line in part.open()]
    for line in spoken:
        assert [thought["draw"] for thought in line["thoughts"]] == list(range(6))
        assert not any("think>" in message["content"] for message in line["messages"])
    statuses = {thought["status"] for line in spoken for thought in line["thoughts"]}
    assert {"ok", "truncated"} <= statuses
    beliefs = folder.beliefs()
    mixed = beliefs[beliefs["method"] == "free"].drop_duplicates("readout_id").set_index("readout_id")
    for line in spoken:
        row = mixed.loc[line["readout_id"]]
        assert row["unclosed"] == sum(thought["status"] != "ok" for thought in line["thoughts"])
        assert row["thoughts"] == 6
    scores = json.loads((folder.path / "scores.json").read_text())["scores"]
    found = {s["metric"]: s["estimate"] for s in scores if (s["method"], s["subset"]) == ("free", "all")}
    assert found["unclosed"] == pytest.approx(mixed["unclosed"].mean() / 6)
    assert found["c2_corrected"] > found["c2"]


def test_what_is_said_is_laid_beside_the_mixture(thinker_folder: Path, tmp_path: Path) -> None:
    wanted = ("items=1", "methods={free: {forms: ['{option}']}}", "fork.methods=[]", "bootstrap_draws=50")
    experiment, config = settings(thinker_folder, *wanted, "stated.numbers=[of 10]")
    folder = run(experiment, config, tmp_path)
    beliefs = folder.beliefs().astype({"method": str})
    beliefs["place"] = beliefs["readout_id"].str.split("/").str[:2].str.join("/")
    wide = beliefs.pivot(index=["place", "option_index"], columns="method", values="prob")
    apart = (wide["free"] - wide["of 10 numbers"]).abs().groupby("place").sum(min_count=1) / 2
    assert len(apart) > 20
    (found,) = [
        number
        for number in score_runs([folder]).numbers
        if (number.metric, number.kind) == ("said_from_computed", "verbal")
    ]
    assert found.score.estimate == pytest.approx(apart.mean())
    scores = json.loads((folder.path / "scores.json").read_text())["scores"]
    (own,) = [row for row in scores if row["metric"] == "said_from_computed"]
    assert own["estimate"] == found.score.estimate


def test_a_mixture_has_no_residual_stream(thinker_folder: Path, tmp_path: Path) -> None:
    experiment, config = settings(thinker_folder, "items=1", "capture.layers=[0]")
    with pytest.raises(UserError, match="capture: a belief after thoughts has no residual stream of its own"):
        run(experiment, config, tmp_path)


def test_a_thought_is_a_position(thinker: Any) -> None:
    thought = thinker.tokenizer("<think>so")["input_ids"]

    def token(**position: Any) -> int:
        query = thinker.reader.query(
            "r", CHAT, OPTIONS, "It is", thought=thought, positions={"here": Position(**position)}
        )
        (place,) = query.places
        return place.token

    asked = len(thinker.reader.chat.render(CHAT).ids)
    assert token(at="thought") == asked + len(thought) - 1
    assert token(at="last") == asked + len(thought) + len("\n\nIt is")
    assert token(message=0) == asked - 3  # before </u><u>
    with pytest.raises(UserError, match="after a thought `before_answer` is not known"):
        token(at="before_answer")
    closed = ChatRenderer(thinker.tokenizer, "own", "closed")
    with pytest.raises(UserError, match="position 'here': no thought stands before the answer"):
        find_places(closed, CHAT, "", closed.render(CHAT), {"here": Position(at="thought")})


def test_a_plan_counts_the_thoughts(thinker_folder: Path) -> None:
    planned = make_plan(*settings(thinker_folder, "items=2", "fork.methods=[]"))
    assert planned.tokens_sampled == planned.readouts * 6 * 60
