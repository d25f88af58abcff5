"""What a capture plan means, and what it hands on."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from doxascope import UserError
from doxascope.base.settings import parse
from doxascope.hooks.backends.captures import CapturePlan, ids_hash
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.prompts.chat import ChatRenderer, Message
from doxascope.hooks.prompts.options import make_options
from doxascope.hooks.prompts.places import LAST, Position, find_places

TALK: list[Message] = [
    {"role": "system", "content": "user"},  # says what the template says
    {"role": "user", "content": " Is it a stone? "},
    {"role": "assistant", "content": "No."},
    {"role": "user", "content": "Which word did you choose?"},
]
OPTIONS = make_options(["apple", "river"])


def plan(**settings: Any) -> CapturePlan:
    return parse(CapturePlan, settings, "capture")


@pytest.mark.parametrize(
    ("layers", "numbers"),
    [
        ("all", range(9)),
        ({"every": 4}, [0, 4, 8]),
        ([5, 0, -1, 5], [0, 5, 8]),
        (3, [3]),
        (0.5, [4]),
        ([0.0, 1.0, 1], [0, 1, 8]),
    ],
)
def test_layers_by_number_step_and_depth(layers: Any, numbers: Any) -> None:
    assert plan(layers=layers).layer_numbers(9) == tuple(numbers)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"sites": ["resid_mid"]},
            r"capture: sites\.0: Input should be 'resid_pre', 'head_out', .* or 'resid_post', given 'resid_mid'",
        ),
        ({"sites": []}, r"capture: sites: "),
        ({"layers": "some"}, r"capture: layers: give `all`, `\{every: k\}`, layer numbers, or depths .*, given 'some'"),
        ({"layers": []}, r"capture: layers: give `all`"),
        ({"layers": [1.5]}, r"capture: layers: give `all`"),
        ({"layers": True}, r"capture: layers: give `all`"),
        ({"layers": {"every": 0}}, r"every: Input should be greater than or equal to 1, given 0"),
        ({"positions": {"end": {"at": "start"}}}, r"positions\.end\.at: Input should be 'last', .*, given 'start'"),
        ({"positions": {"end": {"at": "end"}}}, r"positions\.end: `at: before`, `end` and `mean` need a `message`"),
        ({"positions": {"end": {"at": "last", "message": 1}}}, r"positions\.end: `message` and `text` go with"),
        ({"place": "last"}, r"capture: unknown key 'place'"),
    ],
)
def test_a_plan_that_is_wrong_is_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as refusal:
        plan(**settings)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("layer", [9, -10])
def test_a_layer_out_of_range_is_refused(layer: int) -> None:
    with pytest.raises(UserError, match=rf"capture\.layers: there is no layer {layer}; the model has layers 0 to 8"):
        plan(layers=[0, layer]).layer_numbers(9)


@pytest.fixture(params=["own", "plain", "none"])
def chat(request: pytest.FixtureRequest, make_tokenizer: Callable[..., Any]) -> ChatRenderer:
    return ChatRenderer(make_tokenizer(("which word did you choose",) * 3), request.param)


def said(chat: ChatRenderer, messages: list[Message], prefill: str, **position: Any) -> str:
    """The text of the tokens at a position."""
    prompt = chat.render(messages, prefill)
    (place,) = find_places(chat, messages, prefill, prompt, {"here": Position(**position)})
    return str(chat.tokenizer.decode(list(prompt.ids[place.token - place.length + 1 : place.token + 1])))


@pytest.mark.parametrize("prefill", ["", " I chose"])
def test_positions_are_where_they_say(chat: ChatRenderer, prefill: str) -> None:
    for number, message in enumerate(TALK):
        assert said(chat, TALK, prefill, message=number, at="mean").strip() == message["content"].strip()
        assert said(chat, TALK, prefill, message=number - len(TALK), at="mean").strip() == message["content"].strip()
        assert message["content"].strip().endswith(said(chat, TALK, prefill, message=number).strip())
    whole = str(chat.tokenizer.decode(list(chat.render(TALK, prefill).ids)))
    assert whole.endswith(said(chat, TALK, prefill, at="last"))
    assert whole.removesuffix(prefill).endswith(said(chat, TALK, prefill, at="before_answer"))


@pytest.mark.parametrize(
    ("content", "position", "message"),
    [
        ("Hello", {"message": 3}, "position 'here': there is no message 3; the conversation has 1"),
        ("Hello", {"message": -2}, "position 'here': there is no message -2"),
        ("", {"message": 0}, "position 'here': message 0 is empty"),
    ],
)
def test_a_position_that_a_context_lacks_is_refused(
    tiny: Any, content: str, position: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=f"read-out r: {message}"):
        tiny.reader.query(
            "r", [{"role": "user", "content": content}], OPTIONS, positions={"here": Position(**position)}
        )


def test_before_a_message_is_the_last_token_that_knows_nothing_of_it(make_tokenizer: Callable[..., Any]) -> None:
    chat = ChatRenderer(make_tokenizer(("which word did you choose",) * 3), "own")
    prompt = chat.render(TALK)
    for number, message in enumerate(TALK):
        (place,) = find_places(chat, TALK, "", prompt, {"here": Position(at="before", message=number)})
        until = str(chat.tokenizer.decode(list(prompt.ids[: place.token + 1])))
        assert until.endswith(f"<|im_start|>{message['role']}\n")
        assert until.count("<|im_start|>") == number + 1
    bare = ChatRenderer(make_tokenizer(), "none")
    with pytest.raises(UserError, match="position 'here': nothing stands before message 0"):
        said(bare, TALK[:1], "", at="before", message=0)


def test_a_template_that_rewrites_messages_has_no_positions_in_them(make_tokenizer: Callable[..., Any]) -> None:
    counts = "{% for m in messages %}{{ m['content'] }} ({{ m['content'] | length }})\n{% endfor %}"
    chat = ChatRenderer(make_tokenizer(chat_template=counts), "own")
    with pytest.raises(UserError, match="the chat template rewrites messages; `last` and `before_answer` remain"):
        said(chat, TALK, "", message=1)
    assert said(chat, TALK, "", at="last") == "\n"


def query(lm: Any, readout_id: str, content: str) -> Query:
    talk: list[Message] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}]
    positions = {"system": Position(message=0), "question": Position(message=1, at="mean"), "last": LAST}
    return lm.reader.query(readout_id, talk, OPTIONS, positions=positions)


def test_rows_say_what_they_are_functions_of(tiny: Any) -> None:
    asked = [query(tiny, "a", "Is it an apple?"), query(tiny, "b", "Is it a stone?")]
    _, _, captured = tiny.read(asked, capture=plan(sites=["resid_post", "resid_pre"], layers=[0, 2]))
    rows = captured.rows
    assert list(rows.columns) == ["readout_id", "position", "token_index", "ids_hash"]
    assert rows["readout_id"].tolist() == ["a"] * 3 + ["b"] * 3
    assert rows["position"].tolist() == ["system", "question", "last"] * 2
    assert captured.layers == (0, 2)
    for one in asked:
        mine = rows[rows["readout_id"] == one.readout_id]
        assert mine["token_index"].tolist() == [place.token for place in one.places]
        assert mine["ids_hash"].tolist() == [ids_hash(one.prompt.ids[: place.token + 1]) for place in one.places]
    assert list(captured.residuals) == ["resid_post", "resid_pre"]
    for residuals in captured.residuals.values():
        assert residuals.shape == (6, 2, 32)
        assert not residuals.is_inference()
        torch.testing.assert_close(residuals[0], residuals[3], rtol=0, atol=0)  # one system prompt, one row
        assert not torch.equal(residuals[2], residuals[5])
    assert rows["ids_hash"][0] == rows["ids_hash"][3]
    assert rows["ids_hash"].nunique() == 5


def test_residuals_keep_the_dtype_of_the_model(tiny_folder: Any, tiny: Any) -> None:
    from doxascope import load

    half = load(str(tiny_folder), dtype="bfloat16")
    for lm, dtype in ((half, torch.bfloat16), (tiny, torch.float32)):
        captured = lm.read([query(lm, "a", "Is it?")], capture=plan()).captured
        assert captured is not None
        assert captured.residuals["resid_post"].dtype == dtype


def test_a_query_without_positions_has_no_rows(tiny: Any) -> None:
    bare = tiny.reader.query("bare", [{"role": "user", "content": "Is it?"}], OPTIONS)
    _, _, captured = tiny.read([bare, query(tiny, "a", "Is it?")], capture=plan())
    assert set(captured.rows["readout_id"]) == {"a"}
    _, _, nothing = tiny.read([bare], capture=plan())
    assert len(nothing.rows) == 0
    assert nothing.residuals == {}
