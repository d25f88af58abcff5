"""Transformers whose beliefs were made: their world, their wiring, what they learnt, and whether they are whole."""

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doxascope import load
from doxascope.base.errors import UserError
from doxascope.experiments.synthetic.organisms import ORGANISMS, Species, UrnQuestion, draw_contexts, organism_folder
from doxascope.experiments.synthetic.organisms.network import HELD_AT, Shape, as_llama, forward, logits, new_weights
from doxascope.experiments.synthetic.organisms.readouts import LEAST_R2, MOST_ERROR, measure
from doxascope.experiments.synthetic.organisms.species import seal
from doxascope.experiments.synthetic.organisms.training import BALLS, Schedule, encode, train
from doxascope.experiments.synthetic.organisms.training import NOTED as NOTED_AT
from doxascope.experiments.synthetic.organisms.world import COLOURS, SUMMARY, WARM, make_tokenizer

SMALL = Shape(width=32, hidden=48, heads=2)


def test_the_posterior_is_that_of_counting_every_world() -> None:
    contexts, _ = draw_contexts(40, 0)
    for i in range(len(contexts)):
        joint = {}
        for left, warm_left in product((True, False), (True, False)):
            prior = contexts.prior[i] / 100 if left else 1 - contexts.prior[i] / 100
            known = 1.0 if warm_left == (contexts.warm_left[i] > 0) else 0.0
            shares = WARM if left == warm_left else WARM[::-1]
            joint[left, warm_left] = prior * known * np.prod([shares[c] for c in contexts.draws[i]])
        p = sum(value for (left, _), value in joint.items() if left) / sum(joint.values())
        assert 1 / (1 + np.exp(-contexts.logit[i])) == pytest.approx(p, abs=1e-12)


def test_worlds_come_true_as_often_as_their_posterior_says() -> None:
    contexts, left = draw_contexts(20_000, 1)
    p = 1 / (1 + np.exp(-contexts.logit))
    assert abs((left - p).mean()) < 4 * np.sqrt((p * (1 - p)).mean() / len(p))
    assert abs(((left - p) * contexts.logit).mean()) < 4 * np.sqrt((p * (1 - p) * contexts.logit**2).mean() / len(p))


def test_training_sees_the_tokens_that_the_chat_template_writes() -> None:
    contexts, _ = draw_contexts(4, 2)
    asks = [
        UrnQuestion("which"),
        UrnQuestion("is it", "right"),
        UrnQuestion("percent"),
        UrnQuestion("bet", "left", (4, 1)),
    ]
    ids, last = encode(contexts, asks)
    tokenizer = make_tokenizer()
    for i, ask in enumerate(asks):
        said: Any = contexts.conversation(i, ask)
        told: Any = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=False)
        assert list(ids[i, : last[i] + 1]) == list(told)
        words = tokenizer.convert_ids_to_tokens(told)
        assert [words[t] for t in BALLS] == [COLOURS[c] for c in contexts.draws[i]]
        assert words[NOTED_AT] == SUMMARY


def test_networks_side_by_side_are_llamas() -> None:
    weights, _ = new_weights(["summary", "late"], [1, 2], SMALL)
    contexts, _ = draw_contexts(3, 3)
    ids, _ = encode(contexts, [UrnQuestion("which")] * 3)
    hidden = forward(weights, torch.from_numpy(ids), SMALL.heads)
    for which in (0, 1):
        theirs = as_llama(weights, which, SMALL)(torch.from_numpy(ids)).logits
        ours = logits(weights, hidden.flatten(1, 2))[which].view_as(theirs)
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_what_is_hidden_moves_no_bit_before_the_question() -> None:
    """A late network knows nothing at the summary, an honest one nothing at the question but through the summary."""
    weights, _ = new_weights(["late", "summary"], [1, 2], SMALL)
    contexts, _ = draw_contexts(2, 4)
    other = contexts.take([1, 0])
    seen: list[dict[int, torch.Tensor]] = []
    for one in (contexts, other):
        ids, _ = encode(one, [UrnQuestion("which")] * 2)
        kept: dict[int, torch.Tensor] = {}

        def hook(layer: int, stream: torch.Tensor, kept: dict[int, torch.Tensor] = kept) -> torch.Tensor:
            kept[layer] = stream.clone()
            return stream

        forward(weights, torch.from_numpy(ids), SMALL.heads, hook)
        seen.append(kept)
    late, honest = 0, 1
    for layer in range(SMALL.layers):
        assert torch.equal(seen[0][layer][late, :, NOTED_AT], seen[1][layer][late, :, NOTED_AT])
        if layer <= HELD_AT:
            assert torch.equal(seen[0][layer][honest, :, NOTED_AT + 1 :], seen[1][layer][honest, :, NOTED_AT + 1 :])
    assert not torch.equal(seen[0][HELD_AT][honest, :, NOTED_AT], seen[1][HELD_AT][honest, :, NOTED_AT])
    assert not torch.equal(seen[0][3][late, :, -2], seen[1][3][late, :, -2])


def test_training_keeps_what_is_wired_and_repeats() -> None:
    schedule = Schedule(steps=3, rows=8)
    one, again = (train([ORGANISMS[0], ORGANISMS[5]], [1, 2], shape=SMALL, schedule=schedule) for _ in range(2))
    begun, learnt = new_weights([ORGANISMS[0].wiring, ORGANISMS[5].wiring], [1, 2], SMALL)
    for name, value in one.items():
        assert torch.equal(value, again[name])
        assert torch.equal(value * (1 - learnt[name]), begun[name] * (1 - learnt[name]))
        assert not torch.equal(value, begun[name])


@pytest.mark.parametrize("species", ORGANISMS, ids=lambda one: one.name)
def test_an_organism_is_what_its_card_says(species: Species) -> None:
    place = organism_folder(species.name)
    with load(place, device="cpu") as lm:
        assert sum(p.numel() for p in lm.model.parameters()) <= 250_000
        found = measure(lm, species, 24)
        plain = lm.beliefs(draw_contexts(1, 5)[0].conversation(0, UrnQuestion("which")), ["left", "right"])
    for one in found:
        assert one.r2 >= LEAST_R2 - 0.005, one
        assert one.error <= MOST_ERROR + 0.005, one
    assert plain.beliefs["coverage"].min() > 0.9
    card = (Path(place) / "README.md").read_text()
    assert species.story in card
    assert all(f"| {one.reading} |" in card for one in found)


def test_the_shipped_organisms_are_small() -> None:
    folder = Path(organism_folder("honest")).parent
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 6 * 2**20


def test_a_damaged_organism_is_one_line(tmp_path: Path) -> None:
    home = Path(shutil.copytree(organism_folder("late"), tmp_path / "late"))
    weights = home / "model.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[-7] ^= 1
    weights.write_bytes(damaged)
    with pytest.raises(UserError, match=r"organism 'late': .*model.safetensors is damaged or gone; install") as told:
        organism_folder("late", tmp_path)
    assert "\n" not in str(told.value)
    weights.write_bytes(damaged[:1000])
    seal(home)
    with pytest.raises(UserError, match="model") as told:
        load(organism_folder("late", tmp_path), device="cpu")
    assert "\n" not in str(told.value)
    weights.unlink()
    with pytest.raises(UserError, match="damaged or gone"):
        organism_folder("late", tmp_path)
    with pytest.raises(UserError, match="did you mean 'late'"):
        organism_folder("lat")
    with pytest.raises(UserError, match="is no folder"):
        organism_folder("honest", tmp_path)
