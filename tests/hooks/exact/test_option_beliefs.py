from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from doxascope import UserError, load
from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.exact.option_beliefs import ExactReading, largest_difference, normalised
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.prompts.chat import Message
from doxascope.hooks.prompts.options import OptionPaths, make_options
from doxascope.hooks.tree.memory import Cost
from doxascope.hooks.tree.token_tree import REPEATED

OPTIONS = make_options(
    ["coral", "shirt", "radio"], ["{option}", "{Option}", "I chose {option}", 'The word is "{option}']
)


def conversations() -> list[list[Message]]:
    start: list[Message] = [{"role": "system", "content": "Choose one of three words: coral, shirt, radio."}]
    ask: Message = {"role": "user", "content": "Which word did you choose?"}
    rejections: list[list[Message]] = [
        [{"role": "user", "content": f"Is it {word}?"}, {"role": "assistant", "content": "No."}]
        for word in ("coral", "shirt", "radio")
    ]
    return [[*start, *turns, ask] for turns in ([], *rejections)]


def queries(lm: Any) -> list[Any]:
    return [lm.reader.query(str(i), chat, OPTIONS) for i, chat in enumerate(conversations())]


class Asked(NamedTuple):
    """What the real model was asked, and what it says in one pack."""

    queries: list[Query]
    readings: list[ExactReading]
    cost: Cost


@pytest.fixture(scope="module")
def asked(smollm: Any) -> Asked:
    every = queries(smollm)
    readings, cost, _ = smollm.read(every, budget=10_000)
    return Asked(every, readings, cost)


@pytest.fixture(scope="module")
def plain(smollm: Any, asked: Asked) -> list[ExactReading]:
    return [smollm.read_plain(query) for query in asked.queries]


@pytest.mark.parametrize("budget", [10_000, 200, 90])
def test_packed_equals_plain_on_a_real_model(
    smollm: Any, asked: Asked, plain: list[ExactReading], budget: int, noise: Callable[[Any], float]
) -> None:
    readings, cost, _ = smollm.read(asked.queries, budget=budget)
    assert cost.tokens_tree > 200
    assert cost.tokens_run <= (1 + REPEATED) * cost.tokens_tree
    for one, other in zip(readings, plain, strict=True):
        assert largest_difference(one, other) < noise(other.logp)


def test_one_pack_runs_the_unique_tokens_of_the_tree_alone(asked: Asked) -> None:
    prefixes = set()
    for query in asked.queries:
        for path in (path for paths in query.paths.paths for path in paths):
            ids = query.prompt.ids + path
            prefixes.update(ids[:n] for n in range(1, len(ids) + 1))
    assert asked.cost.tokens_run == asked.cost.tokens_tree == len(prefixes)


def test_a_belief_is_the_sum_over_forms_and_no_more_than_one(asked: Asked) -> None:
    for reading in asked.readings:
        np.testing.assert_allclose(np.exp(reading.logp), [np.exp(forms).sum() for forms in reading.form_logp])
        assert 0 < reading.coverage <= 1
        assert reading.prob.sum() == pytest.approx(1)


def test_the_competitor_is_the_likeliest_token_that_starts_no_option(
    smollm: Any, asked: Asked, noise: Callable[[Any], float]
) -> None:
    query, reading = asked.queries[0], asked.readings[0]
    with torch.inference_mode():
        logp = (
            smollm.model(torch.tensor([query.prompt.ids], device=smollm.model.device))
            .logits[0, -1]
            .log_softmax(-1)
            .cpu()
        )
    ranked = [int(i) for i in logp.argsort(descending=True)]
    best = next(i for i in ranked if i not in query.paths.first_ids)
    assert reading.competitor.token == best
    assert reading.competitor.logp == pytest.approx(float(logp[best]), abs=noise(float(logp[best])))


def test_questions_of_one_prompt_have_each_its_own_competitor(tiny: Any) -> None:
    query = tiny.reader.query("0", [{"role": "user", "content": "Which?"}], make_options(["q", "z"], ["{option}"]))
    likeliest = tiny.read_plain(query).competitor.token
    other = replace(query, paths=OptionPaths(query.paths.options, (((likeliest,),), query.paths.paths[1])))
    one, two = tiny.read([query, other]).readings
    assert one.competitor.token == likeliest != two.competitor.token == tiny.read_plain(other).competitor.token


def test_a_terminator_that_covers_everything_leaves_the_plain_next_token_probability(
    tiny: Any, tiny_folder: Any
) -> None:
    every = sorted({text[0] for text in map(tiny.tokenizer.decode, range(3, len(tiny.tokenizer))) if text})
    lm = load(str(tiny_folder), terminators=("<end>", *every))
    options = make_options(["q", "z"], ["{option}"])
    query = lm.reader.query("r", [{"role": "user", "content": "?"}], options)
    (reading,), *_ = lm.read([query])
    with torch.inference_mode():
        p = lm.model(torch.tensor([query.prompt.ids], device=lm.model.device)).logits[0, -1].softmax(-1)
    left_out = set(range(len(lm.tokenizer))) - lm.reader.terminators.id_set
    first = [float(p[path[0]]) for paths in query.paths.paths for path in paths]
    assert len(left_out) < 5  # control tokens alone
    np.testing.assert_allclose(np.exp(reading.logp), first, rtol=0.05)


def test_broken_weights_give_no_belief(tiny_folder: Any) -> None:
    lm = load(str(tiny_folder))
    lm.model.model.norm.weight.data[3] = float("nan")
    with pytest.raises(UserError, match="logits are NaN"):
        lm.beliefs("Is it?", options=["yes", "no"])


def test_a_belief_sums_to_one_where_the_digits_of_its_logs_end_before_the_point() -> None:
    """As damaged weights make it: the log of the sum is known to .01 nat alone."""
    prob = normalised(np.array([-37137613324288.0, -37137613324291.516]))
    assert prob.sum() == pytest.approx(1, abs=1e-12)
    assert prob[0] > prob[1]
    assert normalised(np.array([0.0, -1000.0])).tolist() == [1, 0]
    assert np.isnan(normalised(np.full(2, -np.inf))).all()


def test_a_model_whose_packed_pass_is_wrong_is_refused(tiny_folder: Any) -> None:
    lm = load(str(tiny_folder))
    lm.head.softcap = 0.5
    with pytest.raises(UserError, match=r"packed and plain forward passes differ by .* nat"):
        lm.beliefs("Is it?", options=["yes", "no"])


def test_attention_that_takes_no_mask_is_refused(tiny_folder: Any, tmp_path: Any) -> None:
    lm = load(str(tiny_folder))
    lm.model.config.layer_types = ["linear_attention"] * 3
    with pytest.raises(UserError, match="'linear_attention' layers do not take the mask"):
        TransformersBackend(lm.model)


def test_a_prompt_longer_than_the_context_is_refused(tiny: Any) -> None:
    with pytest.raises(UserError, match=r"read-out 0: prompt and option take \d+ tokens, the model takes 1024"):
        tiny.beliefs("word " * 1500, options=["yes", "no"])
