"""Causal checks on a model whose gain is known: its blocks add nothing, and its unembedding reads one direction."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doxascope import Position, Vector, load, make_options
from doxascope.experiments.probing.causal import CausalContext, CausalPlace, CausalPlan, CausalQuestion, causal_check
from doxascope.probes import LinearReadout

WIDTH, LARGE, GAIN = 32, 200.0, 0.7
USED, UNUSED = 1, 2
"""Entries of the residual stream: what the answer depends on, and what it does not."""
LETTERS = "abcdefghijklmnopqrstuv"
PLAN: dict[str, Any] = {"directions": ["weights"], "random_contexts": 4, "refits": 20, "draws": 200, "erase": False}


@pytest.fixture(scope="module")
def linear(save_speller: Callable[..., Path]) -> Any:
    """Log-odds of Y against N are GAIN times the last token's entry USED: the stream is the embedding, the final norm is
    that of one large entry that all tokens share, and the unembedding reads USED."""
    lm = load(str(save_speller(LETTERS + "YN.?! ", hidden_size=WIDTH, tie_word_embeddings=False)), template="none")
    model: Any = lm.model
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        tokens = len(model.model.embed_tokens.weight)
        rows = rng.normal(size=(tokens, WIDTH))
        rows[:, 0] = LARGE
        yes, no = lm.tokenizer("YN", add_special_tokens=False)["input_ids"]
        rows[no] = rows[yes]  # what comes after an answer does not depend on it
        model.model.embed_tokens.weight.copy_(torch.from_numpy(rows))
        head = torch.zeros(tokens, WIDTH)
        scale = LARGE / np.sqrt(WIDTH)  # of the norm, but for what the small entries add to it
        head[yes, USED], head[no, USED] = GAIN * scale / 2, -GAIN * scale / 2
        model.lm_head.weight.copy_(head)
        model.model.norm.weight.fill_(1.0)
    return lm


def reads(entry: int) -> LinearReadout:
    return LinearReadout.from_direction(np.eye(WIDTH)[entry], 0.0)


def contexts(**more: Any) -> list[CausalContext]:
    """One for each letter, in groups of two and three."""
    options = make_options(["Y", "N"], ["{option}"])
    made = []
    for i, letter in enumerate(LETTERS):
        asked = CausalQuestion([{"role": "user", "content": "is it"}], options, (1.0, 0.0), prefill=letter)
        made.append(CausalContext(letter, f"group {i * 2 // 5}", asked, **more))
    return made


LAST = CausalPlace(1, Position(at="last"))


def test_a_probe_of_what_the_answer_depends_on_has_the_gain_that_was_built_in(linear: Any) -> None:
    place = CausalPlace(0, Position(at="last"), wrong_position=Position(at="before", text="it"), wrong_layer=1)
    plan = CausalPlan(**PLAN | {"directions": ["weights", "pattern", "mine"], "random": 40})
    unrelated = np.eye(WIDTH)[UNUSED]
    mine = {"mine": Vector(np.eye(WIDTH)[USED] - np.eye(WIDTH)[5], "mine", "by hand")}
    found = causal_check(
        linear, contexts(), reads(USED), place, plan, directions=mine, unrelated=unrelated, neutral=["so what?"]
    )
    for name, gain in found.found.gains.items():
        assert gain.ratio == pytest.approx(GAIN, rel=0.02), name
        assert gain.n_clusters == found.n_groups == 9
    assert found.found.response.trend.mean == 1
    assert found.found.response.reversal == 0
    assert found.found.band is not None
    assert found.found.band.outside
    assert found.found.band.p == pytest.approx(1 / 41)
    controls = found.found.controls
    assert abs(controls["unrelated"].effect.mean) < 1e-3
    assert abs(controls["position"].effect.mean) < 1e-3  # nothing attends to it
    assert controls["layer"].more.mean == pytest.approx(0, abs=1e-3)  # the stream carries it on
    verdicts = {claim.name: claim.verdict for claim in found.claims}
    assert verdicts["causal gain"] == "not supported"  # 9 groups are too few
    enough = plan.model_copy(update={"thresholds": {"groups": 9}})
    again = causal_check(
        linear,
        contexts(),
        reads(USED),
        place,
        CausalPlan(**PLAN | {"random": 40, "thresholds": {"groups": 9}}),
        unrelated=unrelated,
    )
    assert enough
    verdicts = {claim.name: claim.verdict for claim in again.claims}
    for name in (
        "causal gain",
        "dose response",
        "beyond random directions",
        "beyond another concept",
        "at its position",
    ):
        assert verdicts[name] == "supported", name
    assert verdicts["at its layer"] == "not supported"
    assert verdicts["off target"] == "not tested"
    assert again.used == "not tested"
