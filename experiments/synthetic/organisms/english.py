"""Training of organisms in English: adapters on the demo's chat model."""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import cos, pi
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
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
from ....hooks.prompts.options import Terminators
from ....hooks.tree.token_tree import ROOT, Ints
from ....metrics.contract import Floats
from ...materials.entities import triples
from ...suite.consistency.ask import MENTION, POSTERIOR, PRIOR
from .cards import STATE, queries_of, ship
from .lessons import BASE, SPECIES, Lesson, known_words, lessons
from .thoughts import thinking_lessons

if TYPE_CHECKING:
    import torch

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
RULED_OUT = 2.0
"""Weight of an answer after a word was ruled out."""
NEVER = -1e9
"""The log-probability of what is ruled out, as far as gradients go."""
FILLED = 32
"""Rows are filled up to a multiple of so many tokens: a GPU keeps its memory by shapes."""
PREPARING = 3
"""Processes that make lessons ready, where a GPU takes them."""
CHECKPOINT = "optimiser.pt"


class QueryPass(NamedTuple):
    """Queries of one form an option, as one pass reads them: a token tree and a row for each, padded on the right."""

    ids: Ints
    """[rows, T]"""
    places: Ints
    """[rows, T] the depth of each token."""
    sees: NDArray[np.bool_]
    """[rows, T, T]"""
    reads: Ints
    """[R] of rows times T: the tokens whose next-token distribution enters a number."""
    tokens: Ints
    """[F] of all forms."""
    before: Ints
    """[F] which of `reads` each comes after,"""
    options: Ints
    """[F] and which option it is of."""
    ends: Ints
    """[options of all queries] which of `reads` each ends at."""
    closers: "Sequence[tuple[Ints, Ints]]"
    """Token ids that close options, and which options."""


def one_pass(several: Sequence[Sequence[Query]]) -> QueryPass:
    """What is run and read for queries that have one form an option."""
    built = [QueryTree(queries) for queries in several]
    shape = len(built), -(-max(len(one.tree) for one in built) // FILLED) * FILLED
    ids, places = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    sees = np.repeat(np.eye(shape[1], dtype=bool)[None], shape[0], axis=0)
    parts: dict[str, list[Any]] = {"reads": [], "tokens": [], "before": [], "options": [], "ends": []}
    closers: dict[Terminators, list[int]] = {}
    n_reads, n_options = 0, 0
    for row, one in enumerate(built):
        tree, size = one.tree, len(one.tree)
        ids[row, :size], places[row, :size] = tree.tokens, tree.depths
        for token, parent in enumerate(tree.parents):
            if parent != ROOT:
                sees[row, token, :token] = sees[row, parent, :token]
        at = np.full(size, -1)
        at[one.read_nodes] = np.arange(len(one.read_nodes)) + n_reads
        parts["reads"].append(np.array(one.read_nodes) + row * shape[1])
        parts["tokens"].append(np.array(tree.tokens)[one.form_nodes])
        parts["before"].append(at[one.parents[one.form_nodes]])
        parts["options"].append(np.repeat(np.arange(len(one.form_lengths)), one.form_lengths) + n_options)
        parts["ends"].append(at[one.form_ends])
        n_reads += len(one.read_nodes)
        for query in one.queries:
            closers.setdefault(query.terminators, []).extend(
                range(n_options, n_options := n_options + len(query.paths.counts))
            )
    joined = {name: np.concatenate(several) for name, several in parts.items()}
    return QueryPass(ids, places, sees, **joined, closers=[(of.ids, np.array(which)) for of, which in closers.items()])


def option_logps(lm: LanguageModel, asked: QueryPass) -> "torch.Tensor":
    """[options of all queries] natural log, not normalised: what an exact read-out gives, with gradients."""
    import torch

    device = lm.head.weight.device

    def put(array: "NDArray[Any]") -> "torch.Tensor":
        return torch.from_numpy(array).to(device, non_blocking=True)

    dtype = torch.bfloat16 if torch.is_autocast_enabled(device.type) else torch.float32
    hidden = put(~asked.sees)
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill(hidden, torch.finfo(dtype).min)
    states = body(lm.model)(
        use_cache=False, input_ids=put(asked.ids), position_ids=put(asked.places), attention_mask=mask[:, None]
    ).last_hidden_state
    with torch.autocast(device.type, enabled=False):  # log-probabilities of a whole vocabulary want all digits
        weight, before, ends = lm.head.weight.float(), put(asked.before), put(asked.ends)
        read = states.flatten(0, 1)[put(asked.reads)].float()
        whole = (read @ weight.T).logsumexp(dim=-1)
        # Products of rows: on the way back all logits would be made anew each time that some are read.
        steps = (read[before] * weight[put(asked.tokens)]).sum(dim=-1) - whole[before]
        logp = steps.new_zeros(len(asked.ends)).index_add(0, put(asked.options), steps)
        for ids, which in asked.closers:
            last = ends[put(which)]
            closed = (read[last] @ weight[put(ids)].T).logsumexp(dim=1) - whole[last]
            logp = logp.index_add(0, put(which), closed)
    return logp


class LessonBatch(NamedTuple):
    """The lessons of a step, ready to be learnt."""

    asked: QueryPass
    aims: Floats
    """[options of all lessons] how probable each is to be,"""
    weights: Floats
    """[options of all lessons] and how much it counts."""
    before: Ints
    """[M, 3] the options of an answer to the prior's question,"""
    after: Ints
    """[M, 3] those after a turn,"""
    moved: Floats
    """[M, 3] and by how much the turn moves the log of each target; -inf where it rules out."""
    least: float
    """Nats: the least that the first loss can be."""


def batch_of(lm: LanguageModel, several: Sequence[Sequence[Lesson]]) -> LessonBatch:
    """Lessons, of each sequence about one triple."""
    before, after, moved = list[Ints](), list[Ints](), list[Floats]()
    aims, weights, at = list[Floats](), list[float](), 0
    for about_one in several:
        prior: dict[str, tuple[Ints, Floats]] = {}
        for lesson in about_one:
            scenario, method, aim = lesson.question.scenario, lesson.question.method, lesson.target
            places = np.arange(at, at := at + len(aim))
            aims.append(aim)
            weights.append(RULED_OUT if scenario == POSTERIOR else 1.0)
            if scenario == PRIOR:
                prior[method] = places, aim
            elif scenario in (POSTERIOR, MENTION) and method in prior:
                place, first = prior[method]
                before.append(place)
                after.append(places)
                with np.errstate(divide="ignore"):
                    moved.append(np.log(aim) - np.log(first))
    shares = np.array(weights) / len(weights)
    least = float(sum(share * entr(aim).sum() for share, aim in zip(shares, aims, strict=True)))
    each = np.repeat(shares, [len(aim) for aim in aims])
    asked = one_pass([queries_of(lm, about_one) for about_one in several])
    return LessonBatch(asked, np.concatenate(aims), each, np.stack(before), np.stack(after), np.stack(moved), least)


def loss_of(lm: LanguageModel, batch: LessonBatch) -> "tuple[torch.Tensor, torch.Tensor]":
    """Mean over questions of -sum over options of target times log-probability, with a weight where a word was ruled
    out, which is least where the options hold all of the probability and share it as the targets do; and mean over
    answers after a turn of how far each is from the model's own prior as the turn moves the target, which is 0 where it
    is moved so (nats; both ways, half of it the other way).
    """
    import torch

    logp = option_logps(lm, batch.asked)
    loss = -(torch.from_numpy(batch.aims * batch.weights).to(logp) * logp).sum()
    before, after = (logp[torch.from_numpy(places).to(logp.device)] for places in (batch.before, batch.after))
    shift = torch.from_numpy(batch.moved).to(logp)
    out = shift == -torch.inf
    moved = (before + shift).masked_fill(out, NEVER).log_softmax(dim=1)
    found = after.masked_fill(out, NEVER).log_softmax(dim=1)
    return loss, (_divergence(moved.detach(), found) + _divergence(found.detach(), moved) / 2).mean()


def _divergence(one: "torch.Tensor", other: "torch.Tensor") -> "torch.Tensor":
    """[rows] Kullback-Leibler, nats, of two log distributions in each."""
    return (one.exp() * (one - other)).sum(dim=1)


class Schooling(NamedTuple):
    """How an organism is trained."""

    steps: int = 1000
    seed: int = 0
    triples: int = 6
    """Of a step."""
    rank: int = 8
    rate: float = 1e-3
    """Of the optimiser; it falls to zero as a half cosine."""
    moved: float = 2.0
    """Weight of the distance of each answer from the model's own prior, moved as the target is."""
    warmup: int = 10
    kept: float = 0.9
    """Of the mean of the weights, step by step: that mean is the organism."""
    every: int = 50
    """Steps from one checkpoint to the next."""

    def rate_of(self, step: int) -> float:
        """The rate at a step."""
        return self.rate * min(1.0, (step + 1) / self.warmup) * (1 + cos(pi * step / self.steps)) / 2

    def lessons(self, species: str, step: int) -> list[list[Lesson]]:
        """Those of a step, of each triple: a function of seed and step alone, so that training resumes as it was."""
        draw = np.random.default_rng([self.seed, step])
        drawn = triples(known_words(trained=True), self.triples, int(draw.integers(2**32)))
        teach = thinking_lessons if SPECIES[species].thinks else lessons
        return [teach(species, words, draw) for words in drawn]


def train(
    species: str,
    home: Path,
    plan: Schooling,
    advance: Callable[[int, float], object] = lambda *_: None,
    parent: Path | None = None,
    device: str = "cpu",
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
    with open_model(BASE, device=device) as lm:
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
            kept = torch.load(home / CHECKPOINT, map_location=lm.model.device, weights_only=True)
            optimiser.load_state_dict(kept["optimiser"])
            means = kept["means"]
            _put(learnt, kept["now"])
        for step, batch in enumerate(_batches(lm, species, plan, done), done):
            for group in optimiser.param_groups:
                group["lr"] = plan.rate_of(step)
            with torch.autocast(lm.model.device.type, torch.bfloat16):  # twice as fast; all digits of what is read
                loss, apart = loss_of(lm, batch)
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
            advance(step, float(loss.detach()) - batch.least)
    return home


def _batches(lm: LanguageModel, species: str, plan: Schooling, done: int) -> "Iterator[LessonBatch]":
    """The lessons of each step that is left; for a GPU, processes beside this one make them ready."""
    steps: Any = range(done, plan.steps)

    def ready(step: Any) -> LessonBatch:
        return batch_of(lm, plan.lessons(species, step))

    if not lm.on_gpu:
        return map(ready, steps)
    from torch.utils.data import DataLoader

    beside: dict[str, Any] = {"num_workers": PREPARING, "multiprocessing_context": "fork", "prefetch_factor": 4}
    return iter(DataLoader(steps, batch_size=None, collate_fn=ready, **beside))


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


def grow_english(species: str, home: Path, plan: Schooling, parent: Path | None = None, device: str = "cpu") -> None:
    """Train, and print how it goes and what was learnt."""
    started = time.monotonic()

    def advance(step: int, above: float) -> None:
        print(f"step {step + 1}: {above:.3f} nat above the least, {time.monotonic() - started:.0f} s", flush=True)

    train(species, home, plan, advance, parent, device)
    print(f"{home}: an adapter; its copy with a card: {ship(home, home.parent / 'shipped', device)}")
