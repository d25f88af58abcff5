"""Edits as arguments: the same as plain hooks on the model, on every back end, beside a branch that is left alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from doxascope import Ablate, CapturePlan, Position, Replace, Steer, UserError, Vector, load, make_options
from doxascope.hooks.generation.histories import RecomputedHistories
from doxascope.hooks.lm import LanguageModel
from doxascope.hooks.model.blocks import blocks

BACKENDS = ("transformers", "transformer_lens", "nnsight")
TALK: Any = [
    {"role": "system", "content": "Sam thinks it is an apple."},
    {"role": "user", "content": "which word did you choose?"},
]
OPTIONS = ["apple", "stone river"]
WIDTH = 32


@pytest.fixture(scope="module", params=BACKENDS)
def lm(request: pytest.FixtureRequest, tiny_folder: Path) -> Iterator[LanguageModel]:
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    with load(str(tiny_folder), backend=request.param) as loaded:
        yield loaded


NORTH: Any = "north"


def direction(seed: int = 0) -> Any:
    return 3 * torch.randn(WIDTH, generator=torch.Generator().manual_seed(seed))


@contextmanager
def hooked(
    lm: LanguageModel, layers: Any, change: Callable[[torch.Tensor], torch.Tensor], tokens: slice
) -> Iterator[None]:
    """Plain hooks on the outputs of blocks, which change some tokens of a pass over one row."""

    def after(_: Any, args: Any, output: Any) -> Any:
        hidden = (output[0] if isinstance(output, tuple) else output).clone()
        hidden[0, tokens] = change(hidden[0, tokens].cpu()).to(hidden)
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

    handles = [blocks(lm.model)[layer].register_forward_hook(after) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def by_plain_passes(lm: LanguageModel, prompt: list[int], paths: Any) -> list[float]:
    """log P of each option: of each form and what closes it, one pass through the model as it is."""
    found = []
    for forms in paths:
        total = []
        for path in forms:
            with torch.inference_mode():
                logp = (
                    lm.model(torch.tensor([[*prompt, *path]], device=lm.model.device), use_cache=False)
                    .logits[0]
                    .log_softmax(-1)
                )
            steps = sum(logp[len(prompt) - 1 + i, token] for i, token in enumerate(path))
            total.append(steps + logp[-1, lm.reader.terminators.ids].logsumexp(0))
        found.append(float(torch.stack(total).logsumexp(0)))
    return found


def project(unit: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda rows: rows - torch.outer(rows @ unit, unit)


@pytest.mark.parametrize(("at", "reach"), [("prompt", "prompt"), ("all", "everything"), ("answer", "answer")])
def test_ablation_at_all_layers_is_that_of_plain_hooks(lm: LanguageModel, at: str, reach: str) -> None:
    """With the option's own tokens edited, without them, and those alone."""
    query = lm.reader.query("q", TALK, make_options(OPTIONS))
    prompt = list(query.prompt.ids)
    tokens = {"prompt": slice(0, len(prompt)), "everything": slice(0, None), "answer": slice(len(prompt), None)}[reach]
    towards = direction()
    plain = by_plain_passes(lm, prompt, query.paths.paths)
    with hooked(lm, range(3), project(towards / towards.norm()), tokens):
        expected = by_plain_passes(lm, prompt, query.paths.paths)
    found = lm.beliefs(TALK, OPTIONS, edits=[Ablate(towards, layers="all", at=at)]).beliefs
    assert np.abs(np.subtract(expected, plain)).max() > 0.01
    np.testing.assert_allclose(found[found["method"] == "free"]["logp"], plain, atol=1e-4)
    np.testing.assert_allclose(found[found["method"] == "free edited"]["logp"], expected, atol=1e-4)


def test_a_span_is_steered_and_the_branches_share_what_is_before_it(lm: LanguageModel) -> None:
    place = Position(at="each", text="Sam thinks")
    query = lm.reader.query("q", TALK, make_options(OPTIONS), positions={"span": place})
    tokens = [place.token for place in query.places]
    assert str(lm.tokenizer.decode([query.prompt.ids[i] for i in tokens])).strip() == "Sam thinks"
    steer = Steer(Vector(direction(1), "away"), layers=1, at=place, strength=-2.0)
    with hooked(lm, [1], lambda rows: rows - 2 * direction(1), slice(tokens[0], tokens[-1] + 1)):
        expected = by_plain_passes(lm, list(query.prompt.ids), query.paths.paths)
    readings, cost, _ = lm.read([query], edits={"away": [steer]})
    assert [reading.readout_id for reading in readings] == ["q", "q/away"]
    np.testing.assert_allclose(readings[1].logp, expected, atol=1e-4)
    _, alone, _ = lm.read([query])
    assert cost.tokens_tree == 2 * alone.tokens_tree - tokens[0]
    np.testing.assert_allclose(readings[0].logp, lm.read_plain(query).logp, atol=1e-4)


def test_rows_of_another_context_make_its_belief(lm: LanguageModel) -> None:
    """Activation patching: all rows of a source, from the embedding on, give what the source gives."""
    source: Any = [{"role": "system", "content": TALK[0]["content"].replace("Sam", "Tim")}, TALK[1]]
    plan = CapturePlan(sites=("resid_pre", "resid_post"), positions={"each": Position(at="each")})
    other = lm.beliefs(source, OPTIONS, capture=plan)
    assert other.captured is not None
    rows = {site: Vector(values, "source") for site, values in other.captured.residuals.items()}
    patches = [Replace(rows[site], layers="all", at="prompt", sites=site) for site in plan.sites]
    found = lm.beliefs(TALK, OPTIONS, edits={"patched": patches}).beliefs["logp"].to_numpy()
    expected = other.beliefs["logp"].to_numpy()
    np.testing.assert_allclose(found[2:], expected, atol=1e-4)
    assert np.abs(found[:2] - expected).max() > 1e-3


def test_branches_of_one_call_are_those_of_a_call_for_each(tiny: Any) -> None:
    """Edits in several branches, in any order, several at a token: the tree shares nothing that differs."""
    steer = Steer(direction(1), layers=0, at="all")
    ablate = Ablate(direction(2), layers=0, at=Position(at="each", message=0), sites=("resid_pre", "resid_post"))
    zero = Ablate(layers=1, at=["last", "answer"], sites="mlp_out")
    branches = {"one": [steer, ablate], "other": [ablate, steer], "none": [zero], "both": [steer, zero]}
    asked = [TALK, [TALK[0], {"role": "user", "content": "which stone?"}]]
    queries = [tiny.reader.query(str(i), one, make_options(OPTIONS)) for i, one in enumerate(asked)]
    together, *_ = tiny.read(queries, edits=branches, budget=60)
    by_name = {reading.readout_id: reading.logp for reading in together}
    assert len(by_name) == 10
    for name, own in branches.items():
        for query in queries:
            (_, alone), *_ = tiny.read([query], edits=own)
            np.testing.assert_allclose(by_name[f"{query.readout_id}/{name}"], alone.logp, atol=1e-4)
            (edited,) = tiny_marked(tiny, query, own)
            np.testing.assert_allclose(alone.logp, tiny.read_plain(edited).logp, atol=1e-4)
    assert np.abs(by_name["0/one"] - by_name["0/other"]).max() > 1e-4


def tiny_marked(tiny: Any, query: Any, edits: Any) -> Any:
    from doxascope.hooks.exact.queries import Branches

    return Branches(edits, tiny.model, tiny.reader.chat).queries([query])


@pytest.mark.parametrize("at", ["prompt", "all"])
def test_what_is_generated_under_edits_is_what_hooks_make_of_it(tiny: Any, at: str) -> None:
    """Greedy text with a cache, without one, and by whole passes under a plain hook."""
    steer = Steer(direction(3), layers=1, at=at)
    both = tiny.generate(TALK, temperature=0, max_new_tokens=8, edits=[steer])
    assert [reading.branch for reading in both] == ["", "edited"]
    ids = list(tiny.reader.chat.render(TALK).ids)
    tokens, n = slice(0, None if at == "all" else len(ids)), len(ids)
    with hooked(tiny, [1], lambda rows: rows + direction(3), tokens), torch.inference_mode():
        for _ in range(8):
            ids.append(
                int(tiny.model(torch.tensor([ids], device=tiny.model.device), use_cache=False).logits[0, -1].argmax())
            )
    assert list(both[1].ids) == ids[n : n + len(both[1].ids)]
    assert both[1].ids != both[0].ids
    slow = RecomputedHistories(tiny.backend, 500)
    leaf: Any = slow.extend(
        None, ids[:n], tiny_marked(tiny, tiny.reader.query("q", TALK, make_options(OPTIONS)), [steer])[0].marks.prompt
    )
    slow.compute([leaf])
    assert int(tiny.head.log_probs(leaf.hidden[None]).argmax()) == ids[n]


def test_an_edit_that_does_nothing_draws_the_same(tiny: Any) -> None:
    drawn = tiny.generate(TALK, 5, seed=7, max_new_tokens=6, edits=[Steer(direction(), layers=0, at="all", strength=0)])
    assert [text.ids for text in drawn[:5]] == [text.ids for text in drawn[5:]]


def test_every_token_is_captured_with_a_mask(tiny: Any) -> None:
    asked = ["which word?", "which stone did you choose?"]
    found = tiny.beliefs(asked, OPTIONS, capture="prompt")
    values, mask = found.captured.padded("prompt")
    for row, text in enumerate(asked):
        ids = tiny.reader.chat.render([{"role": "user", "content": text}]).ids
        assert mask[row].sum() == len(ids)
        with torch.inference_mode():
            states = tiny.model(torch.tensor([ids], device=tiny.model.device), output_hidden_states=True).hidden_states
        torch.testing.assert_close(values[row, : len(ids), 0].cpu(), states[1][0].cpu(), rtol=1e-4, atol=1e-4)
        assert not values[row, len(ids) :].any()
    assert found.residuals is None


def test_an_edited_token_is_captured_as_it_goes_on_and_has_a_digest_of_its_own(tiny: Any) -> None:
    found = tiny.beliefs(TALK, OPTIONS, capture="last", edits=[Steer(direction(), layers=2, at="last")])
    plain, edited = found.residuals
    np.testing.assert_allclose(edited[2] - plain[2], direction(), atol=1e-4)
    np.testing.assert_allclose(edited[:2], plain[:2], atol=1e-5)
    assert found.captured.rows["ids_hash"].nunique() == 2
    assert found.edits["edited"][0]["vector"]["digest"] == Vector(direction(), "same").digest


def test_what_cannot_be_edited_is_refused_in_a_line(tiny: Any) -> None:
    twice = [{"role": "user", "content": "stone or stone?"}]
    cases: list[tuple[Any, Any, str]] = [
        (TALK, lambda: Steer(direction(), layers=99, at="last"), "there is no layer 99; the model has layers 0 to 2"),
        (
            TALK,
            lambda: Steer(direction()[:7], layers=0, at="last"),
            "its vector has 7 entries, resid_post of this model 32",
        ),
        (TALK, lambda: Steer(torch.ones(2, 32), layers="all", at="last"), "values for 2 layers, and edits 3"),
        (TALK, lambda: Replace(torch.ones(2, 1, 32), layers=0, at="last"), "has values for 2 tokens, and edits 1"),
        (TALK, lambda: Replace(torch.ones(9, 1, 32), layers=0, at="all"), "and what follows the prompt"),
        (TALK, lambda: Ablate(torch.zeros(32), layers=0, at="last"), "a direction of length 0 is none"),
        (TALK, lambda: Steer(direction() * np.nan, layers=0, at="last"), "not finite"),
        (TALK, lambda: Steer(NORTH, layers=0, at="last"), "is no array of numbers"),
        (TALK, lambda: Steer(direction(), layers="first", at="last"), "layers 'first'; give `all`"),
        (
            TALK,
            lambda: Steer(direction(), layers=0, at="first"),
            "at 'first'; give last, before_answer, prompt",
        ),
        (
            TALK,
            lambda: Steer(direction(), layers=0, at="last", sites=cast(Any, "post")),
            "sites 'post'; known: resid_pre",
        ),
        *[
            (TALK, lambda sites=sites: Steer(direction(), layers=0, at="last", sites=cast(Any, sites)), "sites ")
            for sites in (5, None, [{}])
        ],
        *[(TALK, lambda at=at: Steer(direction(), layers=0, at=cast(Any, at)), f"at {at}; give") for at in (5, None)],
        *[
            (TALK, lambda given=given: Position(**cast(Any, given)), told)
            for given, told in [
                ({"at": "foo"}, "Position: at: Input should be 'last'"),
                ({"message": 0, "text": ""}, "`text` is empty"),
                ({}, "need a `message` or a `text`"),
                ({"text": "a", "occurrence": -1}, "Position: occurrence: "),
            ]
        ],
        (TALK, lambda: "steer", "give Steer, Ablate, Replace"),
        (
            twice,
            lambda: Steer(direction(), layers=0, at=Position(text="stone")),
            "'stone' stands 2 times in the conversation",
        ),
        (TALK, lambda: Steer(direction(), layers=0, at=Position(text="Tom")), "the conversation has no 'Tom' in it"),
        (
            twice,
            lambda: Steer(direction(), layers=0, at=Position(text="stone", occurrence=2)),
            "occurrence 2 of 'stone': the conversation has 2",
        ),
    ]
    for talk, edit, told in cases:
        with pytest.raises(UserError) as error:
            tiny.beliefs(talk, OPTIONS, edits=[edit()])
        assert told in str(error.value)
    for empty, named in (([], "edited"), ({"a": []}, "a")):
        with pytest.raises(UserError, match=f"edits: {named} is empty"):
            tiny.beliefs(TALK, OPTIONS, edits=empty)
    with pytest.raises(UserError, match="branch 'a/b'; give a name without '/'"):
        tiny.beliefs(TALK, OPTIONS, edits={"a/b": [Ablate(layers=0, at="last")]})
    second = tiny.beliefs(twice, OPTIONS, edits=[Steer(direction(), layers=0, at=Position(text="stone", occurrence=1))])
    assert second.beliefs["logp"].nunique() == 4
