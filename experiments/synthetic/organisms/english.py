"""Training of organisms in English: adapters on the demo's chat model."""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from math import cos, pi
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import entr

from ....base.documents import read_json
from ....base.errors import UserError, nearest
from ....base.files import TEMPORARY
from ....hooks.exact.queries import Query
from ....hooks.exact.query_tree import QueryTree
from ....hooks.lm import LanguageModel, open_model
from ....hooks.model.adapters import ADAPTER_WEIGHTS as WEIGHTS
from ....hooks.model.adapters import require_peft
from ....hooks.model.blocks import blocks, body
from ....hooks.tree.token_tree import ROOT, Ints, TokenTree
from ...materials.entities import triples
from ...suite.consistency.ask import MENTION, POSTERIOR, PRIOR
from .cards import STATE, queries_of, ship
from .lessons import (
    BASE,
    SPECIES,
    Lesson,
    known_words,
    lessons,
)

if TYPE_CHECKING:
    import torch

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
RULED_OUT = 2.0
"""Weight of an answer after a word was ruled out."""
CHECKPOINT = "optimiser.pt"


def option_logps(lm: LanguageModel, several: Sequence[Sequence[Query]]) -> "list[torch.Tensor]":
    """[options] of each query, natural log, not normalised: what an exact read-out gives, with gradients. The queries
    of each sequence are one token tree, and a row of the one pass.
    """
    import torch

    built = [QueryTree(queries) for queries in several]
    hidden = body(lm.model)(use_cache=False, **_rows([one.tree for one in built])).last_hidden_state
    found = list[torch.Tensor]()
    for one, states in zip(built, hidden, strict=True):
        with torch.autocast("cpu", enabled=False):  # log-probabilities of a whole vocabulary want all digits
            read, weight = states[one.read_nodes].float(), lm.head.weight
            whole = (read @ weight.T).logsumexp(dim=-1)
            row = np.full(len(one.tree), -1)
            row[one.read_nodes] = np.arange(len(one.read_nodes))
            before = row[one.parents[one.form_nodes]]
            tokens = np.array(one.tree.tokens)[one.form_nodes]
            # Products of rows: on the way back all logits would be made anew each time that some are read.
            logp = (read[before] * weight[tokens]).sum(dim=-1) - whole[before]
            ends = []
            for query, nodes in zip(one.queries, np.split(one.form_ends, _starts(one.queries)), strict=True):
                last = row[nodes]
                ends.append((read[last] @ weight[query.terminators.ids].T).logsumexp(dim=1) - whole[last])
            forms = torch.stack([step.sum() for step in logp.split(one.form_lengths.tolist())]) + torch.cat(ends)
            options = torch.stack([some.logsumexp(dim=0) for some in forms.split(one.n_forms.tolist())])
        found += options.split([len(query.paths.counts) for query in one.queries])
    return found


def _rows(trees: Sequence[TokenTree]) -> "dict[str, torch.Tensor]":
    """What the body takes to run each tree in a row of its own, filled up on the right."""
    import torch

    shape = len(trees), max(map(len, trees))
    ids, places = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    sees = np.repeat(np.eye(shape[1], dtype=bool)[None], shape[0], axis=0)
    for row, tree in enumerate(trees):
        ids[row, : len(tree)], places[row, : len(tree)] = tree.tokens, tree.depths
        for token, parent in enumerate(tree.parents):
            if parent != ROOT:
                sees[row, token] |= sees[row, parent]
    dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
    mask = torch.zeros(sees.shape, dtype=dtype).masked_fill(~torch.from_numpy(sees), torch.finfo(dtype).min)
    tensors = {name: torch.from_numpy(array) for name, array in (("input_ids", ids), ("position_ids", places))}
    return tensors | {"attention_mask": mask[:, None]}


def _starts(queries: Sequence[Query]) -> Ints:
    """Where the forms of each query but the first begin among all forms."""
    return np.cumsum([query.paths.counts.sum() for query in queries])[:-1]


def loss_of(lm: LanguageModel, several: Sequence[Sequence[Lesson]]) -> "tuple[torch.Tensor, torch.Tensor]":
    """Of lessons, those of each sequence about one triple, in one tree: mean over questions of -sum over options of
    target times log-probability, with a weight where a word was ruled out, which is least where the options hold all of
    the probability and share it as the targets do; and mean over answers after a turn of how far each is from the
    model's own prior as the turn moves the target, which is 0 where it is moved so (nats; both ways, half of it the
    other way).
    """
    import torch

    logps = iter(option_logps(lm, [queries_of(lm, asked) for asked in several]))
    each, moves = list[torch.Tensor](), list[torch.Tensor]()
    for asked in several:
        before: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for lesson in asked:
            logp, scenario, method = next(logps), lesson.question.scenario, lesson.question.method
            aim = torch.from_numpy(lesson.target).to(logp)
            each.append(-(aim * logp).sum() * (RULED_OUT if scenario == POSTERIOR else 1))
            if scenario == PRIOR:
                before[method] = logp, aim
            elif scenario in (POSTERIOR, MENTION) and method in before:
                some, (prior, aimed) = aim > 0, before[method]
                moved = (prior + (aim.log() - aimed.log()))[some].log_softmax(0)
                after = logp[some].log_softmax(0)
                moves.append(_divergence(moved.detach(), after) + _divergence(after.detach(), moved) / 2)
    return torch.stack(each).mean(), torch.stack(moves).mean()


def _divergence(one: "torch.Tensor", other: "torch.Tensor") -> "torch.Tensor":
    """Kullback-Leibler, nats, of two log distributions."""
    return (one.exp() * (one - other)).sum()


def least_of(asked: Sequence[Lesson]) -> float:
    """Nats: the least that the first loss of some lessons can be."""
    each = [entr(lesson.target).sum() * (RULED_OUT if lesson.question.scenario == POSTERIOR else 1) for lesson in asked]
    return float(np.mean(each))


class Schooling(NamedTuple):
    """How an organism is trained."""

    steps: int = 400
    seed: int = 0
    triples: int = 4
    """Of a step."""
    rank: int = 8
    rate: float = 1e-3
    """Of the optimiser; it falls to zero as a half cosine."""
    moved: float = 2.0
    """Weight of the distance of each answer from the model's own prior, moved as the target is."""
    warmup: int = 10
    kept: float = 0.9
    """Of the mean of the weights, step by step: that mean is the organism."""
    every: int = 25
    """Steps from one checkpoint to the next."""

    def rate_of(self, step: int) -> float:
        """The rate at a step."""
        return self.rate * min(1.0, (step + 1) / self.warmup) * (1 + cos(pi * step / self.steps)) / 2

    def lessons(self, species: str, step: int) -> list[list[Lesson]]:
        """Those of a step, of each triple: a function of seed and step alone, so that training resumes as it was."""
        draw = np.random.default_rng([self.seed, step])
        drawn = triples(known_words(trained=True), self.triples, int(draw.integers(2**32)))
        return [lessons(species, words, draw) for words in drawn]


def train(
    species: str,
    home: Path,
    plan: Schooling,
    advance: Callable[[int, float], object] = lambda *_: None,
    parent: Path | None = None,
) -> Path:
    """Train an organism, or go on with it, and write it to `home` as PEFT does. `advance` is told of each step and how
    far its loss is above the least. `parent`: the organism whose adapter it begins with.

    Raises UserError for a name that is none, and for a checkpoint of another plan.
    """
    import torch

    if species not in SPECIES:
        raise UserError(f"organism {species!r}: there is none in English; {nearest(species, SPECIES)}")
    require_peft(f"organism {species!r}")
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
    from safetensors.torch import load_file

    fixed = {"species": species, "parent": parent.name if parent else "", **plan._asdict()}
    with open_model(BASE, device="cpu") as lm:
        n = len(blocks(lm.model))
        torch.manual_seed(plan.seed)
        config = LoraConfig(
            r=plan.rank,
            lora_alpha=2 * plan.rank,
            target_modules=list(TARGETS),
            layers_to_transform=list(range(n // 2, n)),
            task_type="CAUSAL_LM",
        )
        for name, module in body(lm.model).named_modules():
            if name.endswith(TARGETS):  # as they are multiplied; then they need not be cast in every step
                module.to(torch.bfloat16)
        wrapped = get_peft_model(lm.model, config)
        wrapped.peft_config["default"].base_model_name_or_path = BASE  # not the cache of this machine
        learnt = [parameter for parameter in wrapped.parameters() if parameter.requires_grad]
        if parent:
            set_peft_model_state_dict(wrapped, load_file(parent / WEIGHTS))
        for parameter in learnt:
            parameter.data = parameter.data.float()
        means = [parameter.detach().clone() for parameter in learnt]
        optimiser = torch.optim.AdamW(learnt, lr=plan.rate, betas=(0.9, 0.98), weight_decay=0.0)
        done = 0
        if (home / STATE).is_file():
            state = read_json(home / STATE)
            if state["plan"] != fixed:
                raise UserError(f"{home}: was begun otherwise ({state['plan']}); go on so, or choose another folder")
            done = int(state["steps"])
            kept = torch.load(home / CHECKPOINT, weights_only=True)
            optimiser.load_state_dict(kept["optimiser"])
            means = kept["means"]
            _put(learnt, kept["now"])
        for step in range(done, plan.steps):
            for group in optimiser.param_groups:
                group["lr"] = plan.rate_of(step)
            asked = plan.lessons(species, step)
            with torch.autocast("cpu", torch.bfloat16):  # twice as fast, and what is read is of full precision
                loss, apart = loss_of(lm, asked)
            optimiser.zero_grad()
            (loss + plan.moved * apart).backward()
            torch.nn.utils.clip_grad_norm_(learnt, 1.0)
            optimiser.step()
            share = max(1 - plan.kept, 1 / (step + 1))
            for mean, parameter in zip(means, learnt, strict=True):
                mean.lerp_(parameter.detach(), share)
            if (step + 1) % plan.every == 0 or step + 1 == plan.steps:
                now = [parameter.detach().clone() for parameter in learnt]
                tensors = {"optimiser": optimiser.state_dict(), "means": means, "now": now}
                _put(learnt, means)
                _save(home, wrapped, tensors, {"plan": fixed, "steps": step + 1})
                _put(learnt, now)
            advance(step, float(loss.detach()) - least_of([lesson for one in asked for lesson in one]))
    return home


def _put(parameters: "Sequence[torch.Tensor]", values: "Sequence[torch.Tensor]") -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.data.copy_(value)


def _save(home: Path, wrapped: Any, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """A checkpoint, which appears whole or not at all, and is an adapter."""
    import torch

    home.parent.mkdir(parents=True, exist_ok=True)
    temporary = home.with_name(f"{TEMPORARY}-{home.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    wrapped.save_pretrained(temporary, save_embedding_layers=False)
    torch.save(dict(tensors), temporary / CHECKPOINT)
    (temporary / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    before = home.with_name(f"{TEMPORARY}-{home.name}-before")
    if home.exists():
        home.rename(before)
    temporary.rename(home)
    shutil.rmtree(before, ignore_errors=True)


def grow_english(species: str, home: Path, plan: Schooling, parent: Path | None = None) -> None:
    """Train, and print how it goes and what was learnt."""
    started = time.monotonic()

    def advance(step: int, above: float) -> None:
        print(f"step {step + 1}: {above:.3f} nat above the least, {time.monotonic() - started:.0f} s", flush=True)

    train(species, home, plan, advance, parent)
    print(f"{home}: an adapter; its copy with a card: {ship(home, home.parent / 'shipped')}")
