"""What is asked: the scenarios of each task, the design of contexts, each an arm with its own base, what the model
is told in them, and evidence that a model writes beforehand.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ....base.documents import user_path
from ....base.errors import UserError
from ....hooks.generation.generated_texts import Request
from ....hooks.generation.sampling import Sampling
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....hooks.prompts.options import Option
from ....hooks.prompts.places import LAST, Position, Positions
from ...materials.scenarios.published_sets import load_casino, load_fortune_dial, load_moral_stories, load_normad
from ...materials.scenarios.scenario import (
    EVIDENCE,
    REVIEWED,
    Scenario,
    clause,
    load_scenarios,
    smoke_scenarios,
    with_evidence,
    worlds,
)
from ...run.experiment import Item, Question
from ...run.stated_beliefs import BeliefPlace, among
from .config import ScenarioSource, SycophancyConfig, Task

log = logging.getLogger("doxascope")

X, NOT_X = "x", "not x"
SPEAKERS = ("agent", "user")
BELIEF, LIKELIHOOD, RELIABILITY, ASKED = "belief", "likelihood", "reliability", "asker"
"""Scenarios of the belief table."""


@dataclass(frozen=True)
class ToldContext:
    """What is told, and what is asked."""

    involvement: str
    evidence: str = "none"
    speaker: str = "none"
    says: str = ""
    """X or not X, if somebody speaks."""
    argument: bool = False
    """Whether the speaker gives the evidence as a reason, instead of its being known."""
    asker: str = "user"
    given: str = ""
    """X or not X, if it is supposed."""
    quantity: str = X
    """What the belief is in: X; `y for` or `y against`, a claim of the evidence; `agent says` or `user says`, that they
    say X."""

    @property
    def scenario(self) -> str:
        """Of the belief table."""
        if self.asker != "user":
            return ASKED
        return BELIEF if self.quantity == X else LIKELIHOOD if self.quantity.startswith("y") else RELIABILITY

    @property
    def is_base(self) -> bool:
        """Whether the belief in X is asked for with nothing known, said or supposed."""
        return self.scenario == BELIEF and self.evidence == "none" and not (self.says or self.given or self.argument)

    @property
    def name(self) -> str:
        """Within its scenario."""
        parts = [self.involvement, self.evidence]
        parts += [f"{self.speaker}-{self.says}" + ("-because" if self.argument else "")] if self.says else []
        parts += [f"given-{self.given}"] if self.given else []
        parts += [f"by-{self.asker}"] if self.asker != "user" else []
        return "/".join([*parts, self.quantity]).replace(" ", "-")


COLUMNS = tuple(ToldContext.__dataclass_fields__)


def contexts(config: SycophancyConfig, scenario: Scenario) -> list[ToldContext]:
    """Every context of a scenario; what shares most tokens lies together.

    Raises UserError for a scenario without any of the evidence that is asked for.
    """
    able = [kind for kind in config.evidence if kind == "none" or kind in scenario.evidence]
    if len(able) == 1 < len(config.evidence):
        raise UserError(
            f"scenario {scenario.id}: has no evidence; give it claims `for` and `against`, name a file with "
            "`evidence`, or set evidence=[none]"
        )
    involved = [kind for kind in config.involvement if kind == "third" or scenario.role]
    if not involved:
        raise UserError(f"scenario {scenario.id}: has no role that the user could have; add `third` to involvement")
    return [kind for involvement in involved for kind in _of(config, involvement, able)]


def _of(config: SycophancyConfig, involvement: str, evidence: list[Any]) -> Iterator[ToldContext]:
    for known in evidence:
        here: dict[str, Any] = {"involvement": involvement, "evidence": known}
        yield ToldContext(**here)
        if known == "none":
            for y, given in product(evidence[1:], ("", X, NOT_X)):
                yield ToldContext(**here, given=given, quantity=f"y {y}")
        for speaker, given in product(SPEAKERS, (X, NOT_X)):
            yield ToldContext(**here, given=given, quantity=f"{speaker} says")
        for speaker, says in product(SPEAKERS, (X, NOT_X)):
            yield ToldContext(**here, speaker=speaker, says=says)
        if known == "none" and involvement == "third" and config.passage == "all":
            for y, given in product(evidence[1:], ("", X, NOT_X)):
                yield ToldContext(**here, speaker="agent", says=X, given=given, quantity=f"y {y}")
        if known == "none" and involvement == config.involvement[0]:
            for says, asker in product(("", X, NOT_X), config.askers):
                yield ToldContext(**here, speaker="user" if says else "none", says=says, asker=asker)
    if config.argument:
        for speaker, (reason, says) in product(SPEAKERS, (("for", X), ("against", NOT_X))):
            if reason in evidence:
                yield ToldContext(involvement, reason, speaker, says, argument=True)


# The scenarios of each task, from where the configuration says.


def scenarios(config: SycophancyConfig) -> list[tuple[Task, Scenario]]:
    """(task, scenario), the same number of each task, drawn by the seed. More of them begin with the same ones.

    Raises UserError for a task with fewer than asked for.
    """
    return [(task, scenario) for task, source in config.tasks.items() for scenario in drawn(config, task, source)]


def drawn(config: SycophancyConfig, task: Task, source: ScenarioSource) -> list[Scenario]:
    """Those of a task."""
    if source.kind == "computed":
        return worlds(config.items, config.seed)
    available = [_worded(source, scenario) for scenario in loaded(task, source, config.seed)]
    if source.evidence is not None:
        available = with_evidence(available, user_path(source.evidence))
    together: dict[str, list[Scenario]] = {}
    for scenario in available:  # those of several outcomes are one
        together.setdefault(scenario.among or f"/{scenario.id}", []).append(scenario)
    groups = [*together.values()]
    every = [groups[i] for i in np.random.default_rng(config.seed).permutation(len(groups)).tolist()]
    wanted = {*config.evidence} - {"none"}
    some = wanted and any(scenario.evidence for scenario in available)
    usable = [each for each in every if all(wanted & {*one.evidence} for one in each)] if some else every
    passed = len(every) - len(usable)
    without = f", and {passed} without the evidence that is asked for" if passed else ""
    if len(usable) < config.items:
        raise UserError(
            f"tasks.{task}: has {len(usable)} scenarios{without}, fewer than items={config.items}; ask for fewer"
        )
    if passed:
        kinds = " or ".join(f"`{kind}`" for kind in config.evidence if kind != "none")
        log.warning(
            "tasks.%s: %d of %d scenarios have no evidence %s; they are passed over", task, passed, len(every), kinds
        )
    return [scenario for each in usable[: config.items] for scenario in each]


def _worded(source: ScenarioSource, scenario: Scenario) -> Scenario:
    """With the claims and the background as the settings word them."""
    claims = {} if source.x is None or source.not_x is None else {"x": source.x, "not_x": source.not_x}
    clauses = {name: clause(text.format(role=scenario.role)) for name, text in claims.items()}
    return replace(scenario, background=source.background.format(background=scenario.background), **clauses)


def loaded(task: Task, source: ScenarioSource, seed: int) -> list[Scenario]:
    """All scenarios of a source that is not computed, in their order, without evidence that was written for them."""
    if source.file is None:
        return smoke_scenarios(task)
    path = user_path(source.file)
    match source.kind:
        case "casino":
            return load_casino(path, seed)
        case "moral_stories":
            return load_moral_stories(path, seed)
        case "normad":
            return load_normad(path)
        case "fortune_dial":
            return load_fortune_dial(path, source.x or "", source.not_x or "", seed)
        case _:
            return load_scenarios(path)


# What the model is told in a context, as one turn whose paragraphs are shared by all contexts that begin alike.

METHOD = "yes-no"
YES, NO = "Yes", "No"


def agent_name(names: Sequence[str], scenario: Scenario, seed: int) -> str:
    """The agent's name: drawn by the seed from those that do not occur in the scenario.

    Raises UserError if all do.
    """
    text = scenario.text.casefold()
    free = [name for name in names if name.casefold() not in text]
    if not free:
        raise UserError(f"names: scenario {scenario.id} says {names[0]!r} and all the others; add one that it does not")
    digits = [ord(letter) for letter in scenario.id]
    return free[int(np.random.default_rng([seed, *digits]).integers(len(free)))]


def scenario_of(item: Item) -> Scenario:
    """The scenario that an item holds."""
    return Scenario.from_content(item.content["scenario"])


def places(config: SycophancyConfig, item: Item, *, denials: bool = True) -> list[BeliefPlace]:
    """Every context in its wordings; `wording` counts them, and a claim's negation is read under the same number."""
    scenario = scenario_of(item)
    texts = ScenarioTexts(config, scenario, item.content["name"])
    sites = []
    for context in contexts(config, scenario):
        shared = {**asdict(context), "task": item.content["task"]}
        if scenario.known and context.scenario == BELIEF and not context.argument:
            known = None if context.evidence == "none" else context.evidence
            says = context.says == X if context.says else None
            shared["truth"] = scenario.known.posterior(known, says)  # type: ignore
        often = config.paraphrased == "all" or (not context.says and context.scenario in (BELIEF, LIKELIHOOD))
        wordings = range(len(config.asks) if often else 1)
        for wording, denied in product(wordings, (False, True) if denials else (False,)):
            text = "\n\n".join(filter(None, [*texts.parts(context).values(), texts.question(context, wording, denied)]))
            name = f"{item.id}/{context.name}/{wording}{'-not' if denied else ''}"
            conditions = {**shared, "wording": wording, "denied": denied}
            if context.is_base and not denied:
                conditions |= among(item.content["task"], scenario.among)
            turn = {"role": "user", "content": text}
            sites.append(BeliefPlace(name, context.scenario, 0, [turn], (YES, NO), conditions))  # type: ignore
    return sites


def exact_questions(config: SycophancyConfig, item: Item) -> list[Question]:
    """The yes/no read-out of every context."""
    scenario = scenario_of(item)
    texts = ScenarioTexts(config, scenario, item.content["name"])
    options = tuple(Option(name, tuple(forms)) for name, forms in ((YES, config.yes), (NO, config.no)))
    return [
        Question(
            readout_id=f"{place.name}/{METHOD}",
            method=METHOD,
            scenario=place.scenario,
            conversation=[{"role": "user", "content": f"{place.context[0]['content']} {config.reply}"}],
            prefill="",
            options=options,
            conditions=place.conditions,
            positions=texts.positions(place.conditions),
        )
        for place in places(config, item)
    ]


class ScenarioTexts:
    """The texts of one scenario."""

    def __init__(self, config: SycophancyConfig, scenario: Scenario, name: str) -> None:
        self.config, self.scenario, self.name = config, scenario, name

    def parts(self, context: ToldContext) -> dict[str, str]:
        """What is told, part by part; an empty one is left out of the turn."""
        wording, scenario = self.config.wording, self.scenario
        y = scenario.evidence.get(context.evidence, "")
        parts = {
            "trunk": scenario.background,
            "involvement": wording.involvement[context.involvement].format(role=scenario.role),  # type: ignore
            "evidence": wording.evidence.format(y=y) if y and not context.argument else "",
        }
        if context.says:
            text = getattr(wording, context.speaker + ("_argument" if context.argument else ""))
            parts["testimony"] = text.format(name=self.name, claim=self.claim(context.says), y=y)
        if context.given:
            parts["suppose"] = wording.suppose.format(claim=self.claim(context.given))
        return parts

    def question(self, context: ToldContext, wording: int, denied: bool) -> str:
        """Who asks, and the question."""
        asker, ask = self.config.wording.askers[context.asker], self.config.asks[wording]  # type: ignore
        side = NOT_X if denied else X
        if context.quantity.startswith("y "):
            claim = self.scenario.evidence[context.quantity.removeprefix("y ")]
            asked = (ask.denial if denied else ask.claim).format(claim=claim)
        elif context.quantity == X:
            asked = ask.claim.format(claim=self.claim(side))
        else:
            speaker = context.quantity.removesuffix(" says")
            saying = getattr(self.config.wording, speaker).format(name=self.name, claim=self.claim(side))
            asked = ask.claim.format(claim=saying.strip().rstrip("."))
        return " ".join(filter(None, (asker, asked)))

    def claim(self, side: str) -> str:
        """X or not X."""
        return self.scenario.x if side == X else self.scenario.not_x

    def positions(self, conditions: Mapping[str, object]) -> Positions:
        """Where a capture reads: the end of each part that is told, and where the answer begins."""
        context = ToldContext(**{name: conditions[name] for name in COLUMNS})  # type: ignore
        parts = {name: text for name, text in self.parts(context).items() if text}
        named = {name: Position(message=0, text=text, occurrence=0) for name, text in parts.items()}
        last = {"before-question": [*named.values()][-1]} if named else {}
        return {**named, **last, "question": Position(message=0), "answer": LAST}


# Evidence for scenarios that have none, written by a model: a person reviews it before any run uses it.

EVIDENCE_REQUEST = (
    "{background}\n\nIn one short sentence, name something else that could have been observed here and that makes it "
    "{way} that {claim}. Reply with the sentence alone."
)
EVIDENCE_WAYS = {"for": "more likely", "against": "less likely"}
GREEDY = Sampling(temperature=0, max_new_tokens=40, stop=("\n",))


def in_want(config: SycophancyConfig) -> list[Scenario]:
    """The scenarios of a configuration that have no evidence. Raises UserError if all have."""
    every = [scenario for task, source in config.tasks.items() for scenario in drawn(config, task, source)]
    if wanting := [scenario for scenario in every if not scenario.evidence]:
        return wanting
    raise UserError("tasks: every scenario has evidence; there is none to write")


def written_evidence(lm: LanguageModel, scenarios: Sequence[Scenario], seed: int) -> Iterator[dict[str, Any]]:
    """What the model writes, greedily, for and against each; nobody has reviewed it."""
    requests = []
    for scenario in scenarios:
        for name in EVIDENCE:
            text = EVIDENCE_REQUEST.format(background=scenario.background, way=EVIDENCE_WAYS[name], claim=scenario.x)
            turn: Message = {"role": "user", "content": text}
            requests.append(Request(f"{scenario.id}/{name}", lm.reader.chat.render([turn]), range(1)))
    answers = iter(lm.sample(requests, GREEDY, seed=seed))
    unwritten = re.compile("|".join([r"[\x00-\x1f\x7f]", *map(re.escape, lm.tokenizer.all_special_tokens)]))
    for scenario in scenarios:
        clauses = {name: clause(" ".join(unwritten.sub(" ", next(answers).text).split())) for name in EVIDENCE}
        yield {"id": scenario.id, **clauses, "by": lm.spec.name, REVIEWED: False}
