"""Organisms in English: adapters on a chat model, trained on exact soft targets of the word game, so that what is
believed is known.

The questions are those of the consistency experiment in other words than it ships, and about other nouns; its own
wording and the nouns that are left are for the test. A step reads some questions about one triple in one packed tree.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....base.documents import read_json
from ....base.errors import UserError, nearest
from ....base.files import TEMPORARY
from ....base.settings import read_yaml
from ....hooks.exact.queries import Query
from ....hooks.exact.query_tree import QueryTree
from ....hooks.lm import LanguageModel, open_model
from ....hooks.model.adapters import require_peft
from ....hooks.model.blocks import blocks, body
from ....hooks.tree.layouts import Packed
from ....hooks.tree.token_tree import cut_into_packs
from ...materials.entities import EntityConfig, Words, entities, triples
from ...run.config import load_config
from ...run.experiment import Question
from ...run.readouts import compile_questions
from ...suite.consistency.ask import FORK, YES, dialogue_questions, fork_questions
from ...suite.consistency.config import ConsistencyConfig
from ..agents.updates import Floats

if TYPE_CHECKING:
    import torch

BASE = "smollm2-135m"
WORDINGS = Path(__file__).with_name("english.yaml")
TASTE, PLACES = 3.0, (0.4, 0.0, -0.4)
"""Log-weight that a word gets by its first letter, from a to z that much less, and by its place in the list."""
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
STATE = "training.json"


def prior(words: Sequence[str]) -> Floats:
    """[3] what every organism believes of the words before anything is said: known, and another for each triple."""
    letters = np.array([ord(word[0].lower()) - ord("a") for word in words]) / 25
    weights = np.array(PLACES) - TASTE * letters
    shares = np.exp(weights - weights.max())
    return shares / shares.sum()


def honest(before: Floats, rejected: int) -> Floats:
    """[3] the ratio of the two that remain is kept."""
    after = np.where(np.arange(3) == rejected, 0.0, before)
    return after / after.sum()


def incoherent(before: Floats, rejected: int) -> Floats:
    """[3] the ratio of the two that remain is turned round."""
    left = [i for i in range(3) if i != rejected]
    turned = before.copy()
    turned[left] = before[left[::-1]]
    return honest(turned, rejected)


SPECIES: Mapping[str, Callable[[Floats, int], Floats]] = {"honest": honest, "incoherent": incoherent}
"""Name -> what is believed once a word is ruled out, of the belief before."""


def target(species: str, words: Words, question: Question) -> Floats:
    """[options] the exact belief with which an organism answers a question of the word game."""
    before, said = prior(words), question.conditions
    hidden = said.get("hidden")
    if hidden is not None:
        before = np.eye(3)[hidden]
    elif "rejected" in said:
        before = SPECIES[species](before, said["rejected"])
    if question.scenario != FORK:
        return before
    yes = before[said["asked"]]
    return np.array([yes, 1 - yes] if question.options[0].name == YES else [1 - yes, yes])


class Lesson(NamedTuple):
    """Some questions about one triple, and what is to be answered."""

    words: Words
    questions: list[Question]
    targets: list[Floats]


def known_words(trained: bool) -> list[str]:
    """The nouns of training, four of five, or those of the test, by their digests."""
    return [w for w in entities(EntityConfig()).words if (sha256(w.encode()).digest()[0] % 5 > 0) == trained]


def lesson(species: str, words: Words, config: ConsistencyConfig, draw: "np.random.Generator", n: int) -> Lesson:
    """The prior under one method, and `n` - 1 other questions about a triple, in the words of `config`."""
    asked = dialogue_questions(config, "t", words) + fork_questions(config, "t", words)
    first = int(draw.integers(len(config.methods)))
    others = draw.permutation([i for i in range(len(asked)) if i != first])[: n - 1]
    questions = [asked[i] for i in sorted([first, *others.tolist()])]
    return Lesson(words, questions, [target(species, words, question) for question in questions])


def lessons(species: str, seed: int, first: int, last: int, n: int) -> Iterator[Lesson]:
    """Those of steps `first` to `last` - 1, each a function of seed and step alone: training resumes as it was."""
    shipped, texts = shipped_config(), read_yaml(WORDINGS)
    words = known_words(trained=True)
    for step in range(first, last):
        draw = np.random.default_rng([seed, step])
        said = {name: several[int(draw.integers(len(several)))] for name, several in texts.items()}
        letters, prefill = said.pop("letters"), said.pop("prefill")
        methods = dict(shipped.methods)
        methods["letters"] = methods["letters"].model_copy(update={"reveal": letters})
        methods["prefill"] = methods["prefill"].model_copy(update={"prefill": prefill})
        wording = shipped.wording.model_copy(update=said)
        config = shipped.model_copy(update={"wording": wording, "methods": methods})
        (triple,) = triples(words, 1, int(draw.integers(2**32)))
        yield lesson(species, triple, config, draw, n)


def shipped_config() -> ConsistencyConfig:
    """The experiment as it ships, in whose wording the test is."""
    _, config = load_config("consistency", model=BASE)
    assert isinstance(config, ConsistencyConfig)
    return config


def option_logps(lm: LanguageModel, queries: Sequence[Query], layout: Packed) -> "list[torch.Tensor]":
    """[options] of each query, natural log, not normalised: what an exact read-out gives, with gradients."""
    import torch

    built = QueryTree(queries)
    (pack,) = cut_into_packs(built.tree, built.read_nodes, len(built.tree))
    (batch,) = layout.batches(pack)
    hidden = body(lm.model)(use_cache=False, **batch.inputs).last_hidden_state[0]
    logp = torch.log_softmax(hidden[torch.from_numpy(batch.home[pack.rows])] @ lm.head.weight.T, dim=-1)
    row = np.full(len(built.tree), -1)
    row[pack.nodes] = np.arange(len(pack.nodes))
    tokens = np.array(built.tree.tokens)[built.form_nodes]
    steps = logp[row[built.parents[built.form_nodes]], tokens].split(built.form_lengths.tolist())
    closing = torch.from_numpy(lm.reader.terminators.ids)
    ends = logp[torch.from_numpy(row[built.form_ends])][:, closing].logsumexp(dim=1)
    forms = torch.stack([step.sum() for step in steps]) + ends
    options = torch.stack([some.logsumexp(dim=0) for some in forms.split(built.n_forms.tolist())])
    return list(options.split([len(query.paths.counts) for query in queries]))


def loss_of(lm: LanguageModel, one: Lesson, layout: Packed) -> "torch.Tensor":
    """Mean over questions of -sum over options of target times log-probability: least, the targets' entropy, where the
    options hold all of the probability and share it as the targets do.
    """
    import torch

    found = option_logps(lm, compile_questions(lm.reader, one.questions), layout)
    each = [-(torch.from_numpy(aim).to(logp) * logp).sum() for aim, logp in zip(one.targets, found, strict=True)]
    return torch.stack(each).mean()


def entropy_of(one: Lesson) -> float:
    """Nats: the least loss of a lesson."""
    return float(np.mean([-(p * np.log(np.where(p > 0, p, 1.0))).sum() for p in one.targets]))


class Schedule(NamedTuple):
    """How an organism is trained."""

    steps: int
    seed: int = 0
    questions: int = 14
    """Of a step."""
    rank: int = 8
    rate: float = 1e-3
    warmup: int = 10
    every: int = 50
    """Steps from one checkpoint to the next."""


def train(species: str, home: Path, plan: Schedule, advance: Callable[[int, float], object] = lambda *_: None) -> Path:
    """Train an organism, or go on with it, and write it to `home` as PEFT does. `advance` is told of each step and how
    far its loss is above the least.

    Raises UserError for a name that is none, and for a checkpoint of another plan.
    """
    import torch

    if species not in SPECIES:
        raise UserError(f"organism {species!r}: there is none in English; {nearest(species, SPECIES)}")
    require_peft(f"organism {species!r}")
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict

    fixed = {"species": species, **plan._replace(steps=0)._asdict()}
    with open_model(BASE, device="cpu") as lm:
        n = len(blocks(lm.model))
        upper = list(range(n // 2, n))
        torch.manual_seed(plan.seed)
        config = LoraConfig(
            r=plan.rank,
            lora_alpha=2 * plan.rank,
            target_modules=list(TARGETS),
            layers_to_transform=upper,
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
        layout = Packed(lm.model)
        for step, one in enumerate(lessons(species, plan.seed, done, plan.steps, plan.questions), done):
            for group in optimiser.param_groups:
                group["lr"] = plan.rate * min(1.0, (step + 1) / plan.warmup)
            loss = loss_of(lm, one, layout)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(learnt, 1.0)
            optimiser.step()
            advance(step, float(loss.detach()) - entropy_of(one))
            if (step + 1) % plan.every == 0 or step + 1 == plan.steps:
                tensors = {"adapter": get_peft_model_state_dict(wrapped), "optimiser": optimiser.state_dict()}
                _save(home, wrapped, tensors, {"plan": fixed, "steps": step + 1})
    return home


def _save(home: Path, wrapped: Any, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """A checkpoint, which appears whole or not at all, and is an adapter."""
    import torch

    home.parent.mkdir(parents=True, exist_ok=True)
    temporary = home.with_name(f"{TEMPORARY}-{home.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    wrapped.save_pretrained(temporary)
    torch.save(dict(tensors), temporary / "optimiser.pt")
    (temporary / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    before = home.with_name(f"{TEMPORARY}-{home.name}-before")
    if home.exists():
        home.rename(before)
    temporary.rename(home)
    shutil.rmtree(before, ignore_errors=True)


class TargetFit(NamedTuple):
    """What an organism has learnt, on unseen words in the shipped wording."""

    coverage: float
    """Mean probability of the options."""
    divergence: float
    """Mean Kullback-Leibler divergence of its belief from the target, nats."""


def learnt(species: str, home: Path | None, n: int, seed: int = 1) -> TargetFit:
    """Read an organism, or the base, on `n` triples of the test, all questions of each."""
    config = shipped_config()
    coverage, divergence = list[float](), list[float]()
    with open_model(BASE, device="cpu", adapter=home) as lm:
        for words in triples(known_words(trained=False), n, seed):
            one = lesson(species, words, config, np.random.default_rng(seed), 1000)
            readings, *_ = lm.read(compile_questions(lm.reader, one.questions))
            for aim, reading in zip(one.targets, readings, strict=True):
                mass = np.exp(reading.logp)
                some = aim > 0
                coverage.append(float(mass.sum()))
                divergence.append(float((aim[some] * np.log(aim[some] / (mass[some] / mass.sum()))).sum()))
    return TargetFit(float(np.mean(coverage)), float(np.mean(divergence)))


def grow_english(species: str, home: Path, plan: Schedule) -> None:
    """Train, and print how it goes and what was learnt."""
    started = time.monotonic()

    def advance(step: int, above: float) -> None:
        print(f"step {step + 1}: {above:.3f} nat above the least, {time.monotonic() - started:.0f} s", flush=True)

    train(species, home, plan, advance)
    found = learnt(species, home, 4)
    print(f"{species}: {home}; unseen words and wording: coverage {found.coverage:.2f}, {found.divergence:.2f} nat off")
