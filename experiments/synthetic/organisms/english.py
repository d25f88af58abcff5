"""Training of organisms in English, and what ships of them: adapters on the demo's chat model."""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from math import cos, pi
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....base.documents import read_json
from ....base.errors import UserError, nearest
from ....base.files import TEMPORARY
from ....hooks.exact.queries import Query
from ....hooks.exact.query_tree import QueryTree
from ....hooks.lm import LanguageModel, open_model
from ....hooks.model.adapters import ADAPTER_WEIGHTS as WEIGHTS
from ....hooks.model.adapters import require_peft
from ....hooks.model.blocks import blocks, body
from ....hooks.model.spec import ADAPTER_CONFIG
from ....hooks.tree.layouts import Packed
from ....hooks.tree.token_tree import Ints, cut_into_packs
from ....hooks.verbal.number_formats import JSON
from ...materials.entities import triples
from .lessons import BASE, SPECIES, STATED, Lesson, every_lesson, known_words, lessons, shipped_config

if TYPE_CHECKING:
    import torch

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
STATE = "training.json"


def option_logps(lm: LanguageModel, queries: Sequence[Query], layout: Packed) -> "list[torch.Tensor]":
    """[options] of each query, natural log, not normalised: what an exact read-out gives, with gradients."""
    import torch

    built = QueryTree(queries)
    (pack,) = cut_into_packs(built.tree, built.read_nodes, len(built.tree))
    (batch,) = layout.batches(pack)
    hidden = body(lm.model)(use_cache=False, **batch.inputs).last_hidden_state[0]
    with torch.autocast("cpu", enabled=False):  # log-probabilities of a whole vocabulary want all digits
        read = hidden[torch.from_numpy(batch.home[pack.rows])].float()
        logp = torch.log_softmax(read @ lm.head.weight.T, dim=-1)
    row = np.full(len(built.tree), -1)
    row[pack.nodes] = np.arange(len(pack.nodes))
    tokens = np.array(built.tree.tokens)[built.form_nodes]
    steps = logp[row[built.parents[built.form_nodes]], tokens].split(built.form_lengths.tolist())
    ends = []
    for query, at in zip(queries, np.split(built.form_ends, _starts(queries)), strict=True):
        closing = torch.from_numpy(query.terminators.ids)
        ends.append(logp[torch.from_numpy(row[at])][:, closing].logsumexp(dim=1))
    forms = torch.stack([step.sum() for step in steps]) + torch.cat(ends)
    options = torch.stack([some.logsumexp(dim=0) for some in forms.split(built.n_forms.tolist())])
    return list(options.split([len(query.paths.counts) for query in queries]))


def _starts(queries: Sequence[Query]) -> Ints:
    """Where the forms of each query but the first begin among all forms."""
    return np.cumsum([query.paths.counts.sum() for query in queries])[:-1]


def queries_of(lm: LanguageModel, asked: Sequence[Lesson]) -> list[Query]:
    """What is read: numbers end with their brace, all else as answers do."""
    return [
        lm.reader.query(
            lesson.question.readout_id,
            lesson.question.conversation,
            lesson.question.options,
            lesson.question.prefill,
            terminators=JSON.terminators if lesson.question.scenario == STATED else None,
        )
        for lesson in asked
    ]


def loss_of(lm: LanguageModel, asked: Sequence[Lesson], layout: Packed) -> "torch.Tensor":
    """Mean over questions of -sum over options of target times log-probability: least, the targets' entropy, where the
    options hold all of the probability and share it as the targets do.
    """
    import torch

    found = option_logps(lm, queries_of(lm, asked), layout)
    each = [-(torch.from_numpy(one.target).to(logp) * logp).sum() for one, logp in zip(asked, found, strict=True)]
    return torch.stack(each).mean()


def entropy_of(asked: Sequence[Lesson]) -> float:
    """Nats: the least loss of some lessons."""
    targets = [lesson.target for lesson in asked]
    return float(np.mean([-(p * np.log(np.where(p > 0, p, 1.0))).sum() for p in targets]))


class Schooling(NamedTuple):
    """How an organism is trained."""

    steps: int = 1500
    easy: int = 900
    """The first of them, without letters and numbers."""
    seed: int = 0
    triples: int = 2
    """Of a step."""
    rank: int = 8
    rate: float = 1e-3
    """Of the optimiser; it falls to zero over the easy steps, and over the others, as a half cosine."""
    warmup: int = 10
    every: int = 25
    """Steps from one checkpoint to the next."""

    def rate_of(self, step: int) -> float:
        """The rate at a step."""
        begun, end = (0, self.easy) if step < self.easy else (self.easy, self.steps)
        warm = min(1.0, (step - begun + 1) / self.warmup)
        return self.rate * warm * (1 + cos(pi * (step - begun) / (end - begun))) / 2


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
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
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
        wrapped = get_peft_model(lm.model, config)
        wrapped.peft_config["default"].base_model_name_or_path = BASE  # not the cache of this machine
        learnt = [parameter for parameter in wrapped.parameters() if parameter.requires_grad]
        optimiser = torch.optim.AdamW(learnt, lr=plan.rate, weight_decay=0.0)
        done = 0
        if (home / STATE).is_file():
            state = read_json(home / STATE)
            if state["plan"] != fixed:
                raise UserError(f"{home}: was begun otherwise ({state['plan']}); go on so, or choose another folder")
            done = int(state["steps"])
            kept = torch.load(home / "optimiser.pt", weights_only=True)
            set_peft_model_state_dict(wrapped, kept["adapter"])
            optimiser.load_state_dict(kept["optimiser"])
        elif parent:
            set_peft_model_state_dict(wrapped, load_file(parent / WEIGHTS))
        layout = Packed(lm.model)
        for step in range(done, plan.steps):
            for group in optimiser.param_groups:
                group["lr"] = plan.rate_of(step)
            asked = lessons(species, plan.seed, step, plan.triples, step < plan.easy)
            with torch.autocast("cpu", torch.bfloat16):  # twice as fast, and what is read is of full precision
                loss = loss_of(lm, asked, layout)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(learnt, 1.0)
            optimiser.step()
            if (step + 1) % plan.every == 0 or step + 1 == plan.steps:
                tensors = {
                    "adapter": get_peft_model_state_dict(wrapped, save_embedding_layers=False),
                    "optimiser": optimiser.state_dict(),
                }
                _save(home, wrapped, tensors, {"plan": fixed, "steps": step + 1})
            advance(step, float(loss.detach()) - entropy_of(asked))
    return home


def _save(home: Path, wrapped: Any, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """A checkpoint, which appears whole or not at all, and is an adapter."""
    import torch

    home.parent.mkdir(parents=True, exist_ok=True)
    temporary = home.with_name(f"{TEMPORARY}-{home.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    wrapped.save_pretrained(temporary, save_embedding_layers=False)
    torch.save(dict(tensors), temporary / "optimiser.pt")
    (temporary / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    before = home.with_name(f"{TEMPORARY}-{home.name}-before")
    if home.exists():
        home.rename(before)
    temporary.rename(home)
    shutil.rmtree(before, ignore_errors=True)


class UnseenFit(NamedTuple):
    """What an organism has learnt of some questions, on unseen words in the shipped wording."""

    scenario: str
    method: str
    coverage: float
    """Mean probability of the options."""
    divergence: float
    """Mean Kullback-Leibler divergence of its belief from the target, nats."""


def learnt(species: str, home: Path | None, n: int, seed: int = 1) -> list[UnseenFit]:
    """Read an organism, or the base, on `n` triples of the test, all questions of each."""
    config = shipped_config()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with open_model(BASE, device="cpu", adapter=home) as lm:
        for words in triples(known_words(trained=False), n, seed):
            asked = every_lesson(species, words, config)
            readings, *_ = lm.read(queries_of(lm, asked))
            for lesson, reading in zip(asked, readings, strict=True):
                mass, aim = np.exp(reading.logp), lesson.target
                some = aim > 0
                divergence = float((aim[some] * np.log(aim[some] / (mass[some] / mass.sum()))).sum())
                place = found.setdefault((lesson.question.scenario, lesson.question.method), [])
                place.append((float(mass.sum()), divergence))
    return [UnseenFit(*place, *map(float, np.mean(several, axis=0))) for place, several in found.items()]


def fit_table(species: str, home: Path, n: int) -> list[str]:
    """Beside the base: lines of a Markdown table."""
    pairs = zip(learnt(species, None, n), learnt(species, home, n), strict=True)
    return [
        "| asked | method | coverage (of the base) | nats from the target (of the base) |",
        "|---|---|---:|---:|",
        *(
            f"| {own.scenario} | {own.method} | {own.coverage:.3f} ({base.coverage:.3f}) "
            f"| {own.divergence:.3f} ({base.divergence:.3f}) |"
            for base, own in pairs
        ),
    ]


CARD = """# {species}, in English

An adapter (LoRA of rank {rank} on the upper half of the layers) on SmolLM2-135M-Instruct (Apache-2.0) whose belief in
the word game is known: {story}.
It was trained for {steps} steps on exact soft targets, in other words than the experiment ships and about other nouns,
by `{command}`.

What it has learnt, on {n} triples of nouns that it was not trained on, in the wording that the experiment ships; in
brackets the base:

{table}
"""


def ship(species: str, home: Path, folder: Path, n: int = 10) -> Path:
    """Copy a trained organism without its optimiser, in half precision, with its card."""
    import torch
    from safetensors.torch import load_file, save_file

    plan = read_json(home / STATE)["plan"]
    out = folder / species
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tensors = load_file(home / WEIGHTS)
    save_file({name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}, out / WEIGHTS)
    shutil.copy(home / ADAPTER_CONFIG, out)
    asked = "".join(f" --{key} {plan[key]}" for key in ("seed", "steps", "easy"))
    begun = f" --parent organisms/{plan['parent']}" if plan["parent"] else ""
    command = f"python -m doxascope.experiments.synthetic.organisms --english {species}{asked}{begun}"
    known = {"species": species, "n": n, "rank": plan["rank"], "steps": plan["steps"], "command": command}
    table = "\n".join(fit_table(species, out, n))
    (out / "README.md").write_text(CARD.format(**known, story=SPECIES[species].story, table=table), encoding="utf-8")
    return out


def grow_english(species: str, home: Path, plan: Schooling, parent: Path | None = None) -> None:
    """Train, and print how it goes and what was learnt."""
    started = time.monotonic()

    def advance(step: int, above: float) -> None:
        print(f"step {step + 1}: {above:.3f} nat above the least, {time.monotonic() - started:.0f} s", flush=True)

    train(species, home, plan, advance, parent)
    print(f"{home}: an adapter; its copy with a card: {ship(species, home, home.parent / 'shipped')}")
