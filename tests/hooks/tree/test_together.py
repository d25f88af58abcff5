"""Sets of queries in one forward pass: each reads the same bytes whoever its neighbours are."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig

from doxascope import load
from doxascope.base.errors import UserError
from doxascope.benchmarks.tiny_families import FAMILIES
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.rounds import read_in_rounds
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.exact.option_beliefs import start_reading
from doxascope.hooks.generation.generated_texts import Request
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.prompts.options import make_options
from doxascope.hooks.prompts.places import LAST
from doxascope.hooks.tree.memory import Budgets, budgets_within
from doxascope.hooks.tree.token_tree import BLOCK, FILLER, TokenTree, cut_into_packs, join_packs

SHAPE: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "initializer_range": 0.3,
}
MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 24}
BUDGET = 1024


@pytest.fixture(scope="module", params=["llama", "gemma3_text"])
def lm(request: pytest.FixtureRequest, save_architecture: Callable[..., Path]) -> Iterator[Any]:
    settings = SHAPE | MIXED if request.param == "gemma3_text" else SHAPE
    with load(str(save_architecture(request.param, settings))) as loaded:
        yield loaded


def sets_of(lm: Any, n: int) -> list[list[Any]]:
    """Sets of queries of several lengths, some of equal prompts."""
    options = make_options(["yes", "no", "perhaps not"])
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    asked = [[" ".join(words[: 1 + (i + j) % 7] * (1 + i % 3)) + "?" for j in range(3)] for i in range(n)]
    return [
        [
            lm.reader.query(f"{i}-{j}", [{"role": "user", "content": text}], options, positions={"last": LAST})
            for j, text in enumerate(texts)
        ]
        for i, texts in enumerate(asked)
    ]


def together(lm: Any, requests: list[list[Any]], **more: Any) -> list[Any]:
    plan = CapturePlan()
    return start_reading(requests, lm.backend, lm.head, budget=BUDGET, joined=True, capture=plan, **more)()


def test_joined_packs_are_of_one_length_and_their_pieces_begin_at_blocks() -> None:
    tree, packs = TokenTree(), []
    for i in range(7):
        tree.begin()
        ends = [tree.add([1, 2, *range(3 + j, 60 + 20 * i)])[-1] for j in range(3)]
        packs += cut_into_packs(tree, ends, BUDGET)
    joined = join_packs(packs, BUDGET)
    assert [piece for pack in joined for _, piece in pack.pieces] == packs
    for pack in joined:
        assert len(pack) == BUDGET
        visible = pack.visible()
        seen = np.zeros_like(visible)
        for begin, piece in pack.pieces:
            assert begin % BLOCK == 0
            here = slice(begin, begin + len(piece))
            seen[here, here] = piece.visible()
            np.testing.assert_array_equal(pack.tokens[here], piece.tokens)
        filler = np.flatnonzero(pack.members == FILLER)
        seen[filler, filler] = True
        np.testing.assert_array_equal(visible, seen)
    every = [sorted(node for pack in packed for node in pack.nodes) for packed in (joined, packs)]
    assert every[0] == every[1]


def test_a_set_alone_and_among_seven_others_reads_the_same_bytes(lm: Any, noise: Callable[[Any], float]) -> None:
    requests = sets_of(lm, 8)
    everyone = together(lm, requests, temperatures=(0.5,))
    for i, (request, among) in enumerate(zip(requests, everyone, strict=True)):
        (alone,) = together(lm, [request], temperatures=(0.5,))
        own = lm.read(request)
        torch.testing.assert_close(among.captured.residuals, alone.captured.residuals, rtol=0, atol=0)
        assert among.captured.rows.equals(alone.captured.rows)
        assert among.cost == alone.cost, i
        for reading, other, apart in zip(among.readings, alone.readings, own.readings, strict=True):
            assert reading.readout_id == other.readout_id == apart.readout_id
            assert reading.logp.tobytes() == other.logp.tobytes()
            assert reading.tempered[0.5].tobytes() == other.tempered[0.5].tobytes()
            assert reading.competitor == other.competitor
            np.testing.assert_allclose(reading.logp, apart.logp, atol=noise(apart.logp))


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral", "gemma3_text", "gpt2", "phi3", "olmo2"])
def test_in_bfloat16_a_set_reads_the_same_bytes_in_any_company(
    family: str, save_architecture: Callable[..., Path]
) -> None:
    """Alone, first, last, and among others in another order."""
    with load(str(save_architecture(family, FAMILIES[family])), dtype="bfloat16") as lm:
        *requests, last = sets_of(lm, 6)
        for company in ([last, *requests], [*requests, last], [requests[3], last, requests[0]]):
            (alone,), among = together(lm, [last]), together(lm, company)[company.index(last)]
            torch.testing.assert_close(among.captured.residuals, alone.captured.residuals, rtol=0, atol=0)
            for reading, other in zip(among.readings, alone.readings, strict=True):
                assert reading.logp.tobytes() == other.logp.tobytes()


def test_items_share_passes_on_a_gpu_unless_experts_are_chosen_or_it_is_set(
    save_architecture: Callable[..., Path],
) -> None:
    _, config = load_config("ask")
    _, apart = load_config("ask", ["together=false"])
    for family, shared in (("llama", True), ("gemma3_text", True), ("mixtral", False)):
        budgets = budgets_within(8e10, AutoConfig.from_pretrained(save_architecture(family, FAMILIES[family])), 2)
        assert config.on_device(budgets).together is shared
        assert apart.on_device(budgets).together is False
    assert config.on_device(Budgets(1024, 4096, on_cpu=True)).together is False


def test_a_mixture_of_experts_reads_the_same_among_others_as_far_as_rounding_goes(
    save_architecture: Callable[..., Path], noise: Callable[[Any], float]
) -> None:
    """How many tokens an expert is given at once depends on who else is there, and with it the order of its sums."""
    with load(str(save_architecture("mixtral", FAMILIES["mixtral"]))) as lm:
        requests = sets_of(lm, 8)
        for request, among in zip(requests, lm.start_reading(requests, together=True)(), strict=True):
            (alone,) = lm.start_reading([request], together=True)()
            for reading, other in zip(among.readings, alone.readings, strict=True):
                np.testing.assert_allclose(reading.logp, other.logp, atol=noise(other.logp))


def test_rounds_give_each_item_its_own_readings_and_read_them_together(lm: Any) -> None:
    """Items ask once, twice, or what depends on an answer."""
    requests, passes = sets_of(lm, 4), []
    run = lm.backend.run
    lm.backend.run = lambda pack, **more: passes.append(len(pack.pieces)) or run(pack, **more)

    def item(i: int, model: Any) -> list[Any]:
        first = model.read(requests[i], budget=2 * BUDGET)
        again = model.read(requests[i][: 1 + i % 2], budget=2 * BUDGET) if i else first
        return [*first.readings, *again.readings]

    try:
        (found,) = read_in_rounds(lm, [[[lambda model, i=i: item(i, model) for i in range(4)]]], together=True)
    finally:
        del lm.backend.run
    assert passes == [4, 3]
    for i, readings in enumerate(found):
        for reading, other in zip(readings, item(i, lm), strict=True):
            assert reading.readout_id == other.readout_id
            np.testing.assert_allclose(reading.logp, other.logp, atol=1e-4)


def test_a_set_of_no_queries_reads_nothing_and_the_others_what_they_would(lm: Any) -> None:
    one, two = sets_of(lm, 2)
    found = together(lm, [[], one, [], two, []])
    assert [len(own.readings) for own in found] == [0, len(one), 0, len(two), 0]
    for alone, own in zip((*together(lm, [one]), *together(lm, [two])), (found[1], found[3]), strict=True):
        assert [reading.logp.tobytes() for reading in own.readings] == [r.logp.tobytes() for r in alone.readings]
        assert own.cost == alone.cost
    assert lm.read([]).readings == []


@pytest.mark.parametrize("asks", [0, 1])
def test_what_an_item_raises_comes_after_what_those_before_it_read_and_leaves_no_thread(lm: Any, asks: int) -> None:
    """Item 1 asks twice, and item 2 fails before that, in a round of four and a second one that has begun."""
    before, requests = threading.active_count(), sets_of(lm, 4)

    def item(i: int, model: Any) -> Any:
        if i == 2 and not asks:
            raise UserError("item 2 is wrong")
        readings = model.read(requests[i], budget=BUDGET).readings
        if i == 2:
            raise UserError("item 2 is wrong")
        return readings + model.read(requests[i][:1], budget=BUDGET).readings

    batches = read_in_rounds(lm, [[[lambda model, i=i: item(i, model) for i in range(4)]]] * 2, together=True)
    first = next(batches)
    assert len(first) == 2
    for i, readings in enumerate(first):
        for reading, alone in zip(readings, item(i, lm), strict=True):
            np.testing.assert_allclose(reading.logp, alone.logp, atol=1e-4)
    with pytest.raises(UserError, match="item 2 is wrong"):
        next(batches)
    assert threading.active_count() == before


def test_rounds_of_items_apart_read_the_bytes_of_one_item_after_the_other(lm: Any) -> None:
    """What a run on a GPU does by itself. The next batch asks while the first is read, and not before."""
    requests, order = sets_of(lm, 6), []

    def item(i: int, model: Any) -> list[Any]:
        order.append(i)
        found = [model.read(requests[i], budget=BUDGET, capture=CapturePlan())]
        return [*found, model.read(requests[i][:1], budget=BUDGET)] if i % 2 else found

    reads = [lambda model, i=i: item(i, model) for i in range(6)]
    batches = read_in_rounds(lm, [[reads[:2]], [reads[2:5]], [reads[5:]]], together=False)
    found = next(batches)
    assert order == [0, 1, 2, 3, 4]
    found += [read for batch in batches for read in batch]
    for i, own in enumerate(found):
        for got, other in zip(own, item(i, lm), strict=True):
            assert got.cost == other.cost
            for reading, alone in zip(got.readings, other.readings, strict=True):
                assert reading.logp.tobytes() == alone.logp.tobytes()
        torch.testing.assert_close(own[0].captured.residuals, item(i, lm)[0].captured.residuals, rtol=0, atol=0)


def test_what_a_later_batch_raises_comes_after_the_results_before_it(lm: Any) -> None:
    def wrong(model: Any) -> Any:
        raise UserError("item 1 is wrong")

    (request,) = sets_of(lm, 1)
    batches = read_in_rounds(lm, [[[lambda model: model.read(request, budget=BUDGET)]], [[wrong]]], together=False)
    assert [read.readings[0].readout_id for read in next(batches)] == ["0-0"]
    with pytest.raises(UserError, match="item 1 is wrong"):
        next(batches)


def test_what_the_items_of_a_group_have_written_is_sampled_at_once_and_whatever_other_groups_do(lm: Any) -> None:
    """Items that only read, and one that asks for another length, are between them."""
    requests, calls, sample = sets_of(lm, 5), [], lm.sampler.generate
    law = Sampling(max_new_tokens=6)

    def counted(asked: Any, *rest: Any, **more: Any) -> Any:
        calls.append([request.readout_id for request in asked])
        return sample(asked, *rest, **more)

    def item(i: int, model: Any) -> Any:
        readings = model.read(requests[i], budget=BUDGET).readings
        if i == 1:
            return readings
        law_of_item = law.model_copy(update={"max_new_tokens": 3}) if i == 3 else law
        asked = [Request(f"{i}-{j}", query.prompt, range(2)) for j, query in enumerate(requests[i][: 1 + i % 2])]
        return model.sample(asked, law_of_item, seed=7)

    reads = [lambda model, i=i: item(i, model) for i in range(5)]
    alone = [item(i, lm) for i in range(5)]
    object.__setattr__(lm.sampler, "generate", counted)
    try:
        (among,) = read_in_rounds(lm, [[reads[:4], reads[4:]]], together=True)
        (first,) = read_in_rounds(lm, [[reads[:4]]], together=True)
        (apart,) = read_in_rounds(lm, [[reads[:4], reads[4:]]], together=False)
    finally:
        object.__delattr__(lm.sampler, "generate")
    of_first = [["0-0", "2-0"], ["3-0", "3-1"]]
    assert calls == [*of_first, ["4-0"], *of_first, ["0-0"], ["2-0"], ["3-0", "3-1"], ["4-0"]]
    assert [text.logp for i in (0, 2, 3) for text in among[i]] == [text.logp for i in (0, 2, 3) for text in first[i]]
    for i in (0, 2, 3, 4):
        assert apart[i] == alone[i]
        assert [(text.readout_id, text.draw, text.ids) for text in among[i]] == [
            (text.readout_id, text.draw, text.ids) for text in alone[i]
        ]
