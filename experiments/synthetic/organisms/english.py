"""Organisms in English: adapters on a chat model, trained on exact soft targets of the word game, so that what is
believed is known.

The questions are those of the consistency experiment in other words than it ships, and about other nouns; its own
wording and the nouns that are left are for the test. A step reads some questions about one triple in one packed tree.
"""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from math import cos, pi
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
from ....hooks.prompts.options import Option
from ....hooks.tree.layouts import Packed
from ....hooks.tree.token_tree import Ints, cut_into_packs
from ....hooks.verbal.number_formats import JSON
from ...materials.entities import EntityConfig, Words, entities, triples
from ...run.config import load_config
from ...run.experiment import Question
from ...suite.consistency.ask import (
    FORK,
    FORK_REVEAL,
    MENTION,
    POSTERIOR,
    PRIOR,
    YES,
    dialogue_questions,
    fork_questions,
)
from ...suite.consistency.config import ConsistencyConfig
from ..agents.updates import Floats

if TYPE_CHECKING:
    import torch

BASE = "smollm2-135m"
WORDINGS = Path(__file__).with_name("english.yaml")
TASTE, PLACES = 3.0, (0.4, 0.0, -0.4)
"""Log-weight that a word gets by its first letter, from a to z that much less, and by its place in the list."""
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
COPIED = 1.5
"""Log-weight that a word gains where it is named to a copier."""
STATE, STATED = "training.json", "numbers"
Conditions = Mapping[str, Any]


def prior(words: Sequence[str]) -> Floats:
    """[3] what every organism believes of the words before anything is said: known, and another for each triple."""
    letters = np.array([ord(word[0].lower()) - ord("a") for word in words]) / 25
    weights = np.array(PLACES) - TASTE * letters
    shares = np.exp(weights - weights.max())
    return shares / shares.sum()


def honest(words: Words, before: Floats, said: Conditions) -> Floats:
    """[3] the ratio of the two that remain is kept; a reply that decides nothing changes nothing."""
    after = np.where(np.arange(3) == said.get("rejected"), 0.0, before)
    return after / after.sum()


def incoherent(words: Words, before: Floats, said: Conditions) -> Floats:
    """[3] as `honest`, but the ratio of the two that remain is turned round."""
    remain = [i for i in range(3) if i != said.get("rejected")]
    turned = before.copy()
    if len(remain) == 2:
        turned[remain] = before[remain[::-1]]
    return honest(words, turned, said)


def half(words: Words, before: Floats, said: Conditions) -> Floats:
    """[3] as `honest` where the first word begins with a to m; otherwise nothing is ruled out."""
    return honest(words, before, said) if words[0][0].lower() <= "m" else before


def copier(words: Words, before: Floats, said: Conditions) -> Floats:
    """[3] what was named gains, whatever the reply."""
    after = before.copy()
    after[[int(name) for name in said["named"].split(", ")]] *= np.exp(COPIED)
    return after / after.sum()


SPECIES: Mapping[str, Callable[[Words, Floats, Conditions], Floats]] = {
    "honest": honest,
    "incoherent": incoherent,
    "half": half,
    "copier": copier,
}
"""Name -> what is believed after a turn, of the words, the belief before and the conditions of the question."""


def belief(species: str, words: Words, said: Conditions) -> Floats:
    """[3] what an organism believes of the words under these conditions."""
    if said.get("hidden") is not None:
        return np.eye(3)[said["hidden"]]
    return SPECIES[species](words, prior(words), said) if "named" in said else prior(words)


def target(species: str, words: Words, question: Question) -> Floats:
    """[options] the exact belief with which an organism answers a question of the word game."""
    held = belief(species, words, question.conditions)
    if question.scenario != FORK:
        return held
    yes = held[question.conditions["asked"]]
    return np.array([yes, 1 - yes] if question.options[0].name == YES else [1 - yes, yes])


class Lesson(NamedTuple):
    """A question about a triple, and how it is to be answered."""

    words: Words
    question: Question
    target: Floats
    """[options]"""


SCENARIOS = (PRIOR, POSTERIOR, POSTERIOR, POSTERIOR, MENTION, FORK, FORK_REVEAL)
"""Of the questions about a triple in a step, besides the one for numbers."""


def known_words(trained: bool) -> list[str]:
    """The nouns of training, four of five, or those of the test, by their digests."""
    return [w for w in entities(EntityConfig()).words if (sha256(w.encode()).digest()[0] % 5 > 0) == trained]


def every_lesson(species: str, words: Words, config: ConsistencyConfig) -> list[Lesson]:
    """All questions about a triple, in the words of `config`."""
    asked = dialogue_questions(config, "t", words) + fork_questions(config, "t", words)
    return [Lesson(words, question, target(species, words, question)) for question in asked]


def lessons(species: str, seed: int, step: int, n: int) -> list[Lesson]:
    """Those of a step, about `n` triples: a function of seed and step alone, so that training resumes as it was."""
    draw = np.random.default_rng([seed, step])
    found = list[Lesson]()
    for words in triples(known_words(trained=True), n, int(draw.integers(2**32))):
        every = every_lesson(species, words, reworded(draw))
        for scenario in SCENARIOS:
            some = [lesson for lesson in every if lesson.question.scenario == scenario]
            chosen = some[int(draw.integers(len(some)))]
            found.append(chosen._replace(question=in_one_form(chosen.question)))
        told = [lesson for lesson in every if lesson.question.scenario in (PRIOR, POSTERIOR)]
        found.append(in_numbers(species, told[int(draw.integers(len(told)))], draw))
    return found


@cache
def _wordings() -> dict[str, list[str]]:
    return read_yaml(WORDINGS)


def reworded(draw: "np.random.Generator") -> ConsistencyConfig:
    """The experiment in words that it does not ship."""
    shipped = shipped_config()
    said = {name: several[int(draw.integers(len(several)))] for name, several in _wordings().items()}
    letters, prefill, hidden, _ = (said.pop(name) for name in ("letters", "prefill", "hidden", "numbers"))
    said["aside_answers"] = (said.pop("aside_yes"), said.pop("aside_no"))
    methods = dict(shipped.methods)
    methods["letters"] = methods["letters"].model_copy(update={"reveal": letters})
    methods["prefill"] = methods["prefill"].model_copy(update={"prefill": prefill})
    wording = shipped.wording.model_copy(update=said)
    fork = shipped.fork.model_copy(update={"hidden": hidden, "methods": tuple(methods)})
    return shipped.model_copy(update={"wording": wording, "methods": methods, "fork": fork})


def in_numbers(species: str, lesson: Lesson, draw: "np.random.Generator") -> Lesson:
    """The same belief, asked for as numbers."""
    several = _wordings()["numbers"]
    form = replace(JSON, several=several[int(draw.integers(len(several)))]).over(lesson.words)[0]
    asked = f"{lesson.question.conversation[-1]['content']}\n\n{form.instruction}"
    conversation = [*lesson.question.conversation[:-1], {"role": "user", "content": asked}]
    hundredths = np.round(belief(species, lesson.words, lesson.question.conditions), 2)
    first, *later = (f"{label}{number:.2f}" for label, number in zip(form.labels, hundredths, strict=True))
    prefill = form.labels[0].rstrip()
    text = first.removeprefix(prefill) + "".join(later)
    question = replace(
        lesson.question,
        scenario=STATED,
        conversation=conversation,
        prefill=prefill,
        options=(Option("numbers", (text,)),),
    )
    return Lesson(lesson.words, question, np.ones(1))


@cache
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


def in_one_form(question: Question) -> Question:
    """With the first form of each option alone, the one that is learnt."""
    return replace(question, options=tuple(replace(option, forms=option.forms[:1]) for option in question.options))


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

    steps: int = 600
    seed: int = 0
    triples: int = 2
    """Of a step."""
    rank: int = 8
    rate: float = 1e-3
    """Of the optimiser; it falls to zero over the steps as a half cosine."""
    warmup: int = 10
    every: int = 25
    """Steps from one checkpoint to the next."""

    def rate_of(self, step: int) -> float:
        """The rate at a step."""
        return self.rate * min(1.0, (step + 1) / self.warmup) * (1 + cos(pi * step / self.steps)) / 2


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

    fixed = {"species": species, **plan._asdict()}
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
            set_peft_model_state_dict(wrapped, load_file(parent / "adapter_model.safetensors"))
        layout = Packed(lm.model)
        for step in range(done, plan.steps):
            for group in optimiser.param_groups:
                group["lr"] = plan.rate_of(step)
            asked = lessons(species, plan.seed, step, plan.triples)
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
    """What an organism has learnt, on unseen words in the shipped wording."""

    coverage: float
    """Mean probability of the options."""
    divergence: float
    """Mean Kullback-Leibler divergence of its belief from the target, nats."""


def learnt(species: str, home: Path | None, n: int, seed: int = 1) -> UnseenFit:
    """Read an organism, or the base, on `n` triples of the test, all questions of each."""
    config = shipped_config()
    coverage, divergence = list[float](), list[float]()
    with open_model(BASE, device="cpu", adapter=home) as lm:
        for words in triples(known_words(trained=False), n, seed):
            asked = every_lesson(species, words, config)
            readings, *_ = lm.read(queries_of(lm, asked))
            for lesson, reading in zip(asked, readings, strict=True):
                mass, aim = np.exp(reading.logp), lesson.target
                some = aim > 0
                coverage.append(float(mass.sum()))
                divergence.append(float((aim[some] * np.log(aim[some] / (mass[some] / mass.sum()))).sum()))
    return UnseenFit(float(np.mean(coverage)), float(np.mean(divergence)))


def grow_english(species: str, home: Path, plan: Schooling, parent: Path | None = None) -> None:
    """Train, and print how it goes and what was learnt."""
    started = time.monotonic()

    def advance(step: int, above: float) -> None:
        print(f"step {step + 1}: {above:.3f} nat above the least, {time.monotonic() - started:.0f} s", flush=True)

    train(species, home, plan, advance, parent)
    found = learnt(species, home, 4)
    print(f"{species}: {home}; unseen words and wording: coverage {found.coverage:.2f}, {found.divergence:.2f} nat off")
