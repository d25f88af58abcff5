"""The second real model: a base model with mixed layers, on paths longer than its sliding window."""

from collections.abc import Callable
from typing import Any

from doxascope.hooks.exact.option_beliefs import largest_difference
from doxascope.hooks.prompts.chat import Message
from doxascope.hooks.prompts.options import make_options


def test_packed_equals_plain_beyond_the_sliding_window(gemma: Any, noise: Callable[[Any], float]) -> None:
    assert gemma.identity.path == "packed"
    options = make_options(["Paris", "Rome"], [" {option}"])
    log = "The ship sailed on a calm sea, and the captain kept the log of each day. " * 31
    asked: list[list[Message]] = [
        [{"role": "user", "content": f"{log}What is the capital of {land}?"}] for land in ("France", "Italy")
    ]
    queries = [gemma.reader.query(str(i), chat, options) for i, chat in enumerate(asked)]
    assert min(len(query.prompt.ids) for query in queries) > gemma.model.config.sliding_window + 50
    readings, cost, _ = gemma.read(queries)
    assert cost.packs == 1
    assert [reading.prob[right] > 0.9 for right, reading in enumerate(readings)] == [True, True]
    behind = readings[1]  # the branch that stands behind another in the pack
    assert largest_difference(behind, gemma.read_plain(queries[1])) < noise(behind.logp)


def test_a_base_model_s_text_begins_with_its_bos_once(gemma: Any) -> None:
    ids = gemma.reader.chat.render([{"role": "user", "content": "Hello"}]).ids
    assert ids.count(gemma.tokenizer.bos_token_id) == 1
    assert list(ids) == gemma.tokenizer("User: Hello\nAssistant:")["input_ids"]


def test_an_answer_follows_raw_text_after_the_space_that_a_template_would_bring(gemma: Any) -> None:
    """`Assistant:Yes` is a token that nobody writes, and held a thousandth of what `Assistant: Yes` does."""
    talk: list[Message] = [{"role": "user", "content": "Is the sky blue?"}]
    options = make_options(["Yes", "No"])
    spaced, glued = (gemma.reader.query("q", talk, options, spaced=one) for one in (True, False))
    text = gemma.tokenizer("User: Is the sky blue?\nAssistant: Yes")["input_ids"]
    assert text[len(spaced.prompt.ids) :] == list(spaced.paths.paths[0][0])
    (right, wrong), *_ = gemma.read([spaced, glued])
    assert right.coverage > 100 * wrong.coverage
