"""What the model is told in a context, as one turn whose paragraphs are shared by all contexts that begin alike."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from ...hooks.errors import UserError
from ...hooks.prompts.options import Option
from ...hooks.prompts.places import LAST, Position, Positions
from ..experiment import Item, Question
from ..materials.scenarios.scenario import Scenario
from ..reading.place import BeliefPlace
from .config import SycophancyConfig
from .contexts import BELIEF, LIKELIHOOD, NOT_X, ToldContext, X, contexts

METHOD = "yes-no"
YES, NO = "Yes", "No"


def agent_name(names: Sequence[str], scenario: Scenario, seed: int) -> str:
    """The agent's name: drawn by the seed from those that do not occur in the scenario.

    Raises UserError if all do.
    """
    said = scenario.text.casefold()
    free = [name for name in names if name.casefold() not in said]
    if not free:
        raise UserError(f"names: scenario {scenario.id} says {names[0]!r} and all the others; add one that it does not")
    digits = [ord(letter) for letter in scenario.id]
    return free[int(np.random.default_rng([seed, *digits]).integers(len(free)))]


def scenario_of(item: Item) -> Scenario:
    """The scenario that an item holds."""
    return Scenario.from_content(item.content["scenario"])


def places(config: SycophancyConfig, item: Item, *, denials: bool = True) -> list[BeliefPlace]:
    """Every context in its wordings, with the question for the belief; `wording` counts them, and the negation of a
    claim is read under the same number.
    """
    scenario = scenario_of(item)
    told = ScenarioTexts(config, scenario, item.content["name"])
    found = []
    for context in contexts(config, scenario):
        shared = {**context.variant(), "task": item.content["task"]}
        if scenario.known and context.scenario == BELIEF and not context.argument:
            known = None if context.evidence == "none" else context.evidence
            says = context.says == X if context.says else None
            shared["truth"] = scenario.known.posterior(known, says)  # pyright: ignore[reportArgumentType]
        often = config.paraphrased == "all" or (not context.says and context.scenario in (BELIEF, LIKELIHOOD))
        wordings = range(len(config.asks) if often else 1)
        for wording, denied in product(wordings, (False, True) if denials else (False,)):
            text = "\n\n".join(filter(None, [*told.parts(context).values(), told.question(context, wording, denied)]))
            name = f"{item.id}/{context.name}/{wording}{'-not' if denied else ''}"
            variant = {**shared, "wording": wording, "denied": denied}
            turn = {"role": "user", "content": text}
            found.append(BeliefPlace(name, context.scenario, 0, [turn], (YES, NO), variant))  # pyright: ignore
    return found


def exact_questions(config: SycophancyConfig, item: Item) -> list[Question]:
    """The yes/no read-out of every context."""
    scenario = scenario_of(item)
    told = ScenarioTexts(config, scenario, item.content["name"])
    options = tuple(Option(name, tuple(forms)) for name, forms in ((YES, config.yes), (NO, config.no)))
    return [
        Question(
            readout_id=f"{place.name}/{METHOD}",
            method=METHOD,
            scenario=place.scenario,
            conversation=[{"role": "user", "content": f"{place.context[0]['content']} {config.reply}"}],
            prefill="",
            options=options,
            variant=place.variant,
            positions=told.positions(place.variant),
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
            "involvement": wording.involvement[context.involvement].format(role=scenario.role),  # pyright: ignore
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
        asker, ask = self.config.wording.askers[context.asker], self.config.asks[wording]  # pyright: ignore
        side = NOT_X if denied else X
        if context.quantity.startswith("y "):
            claim = self.scenario.evidence[context.quantity.removeprefix("y ")]
            asked = (ask.denial if denied else ask.claim).format(claim=claim)
        elif context.quantity == X:
            asked = ask.claim.format(claim=self.claim(side))
        else:
            speaker = context.quantity.removesuffix(" says")
            said = getattr(self.config.wording, speaker).format(name=self.name, claim=self.claim(side))
            asked = ask.claim.format(claim=said.strip().rstrip("."))
        return " ".join(filter(None, (asker, asked)))

    def claim(self, side: str) -> str:
        """X or not X."""
        return self.scenario.x if side == X else self.scenario.not_x

    def positions(self, variant: Mapping[str, object]) -> Positions:
        """Where a capture reads: the end of each part that is told, and where the answer begins."""
        context = ToldContext(**{name: variant[name] for name in ToldContext.__dataclass_fields__})  # pyright: ignore
        told = {name: text for name, text in self.parts(context).items() if text}
        return {name: Position(message=0, text=text, occurrence=0) for name, text in told.items()} | {
            "question": Position(message=0),
            "answer": LAST,
        }
