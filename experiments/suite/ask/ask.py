"""From an item to its read-outs: each order of its options under each method, the form that is fitted to how answers
begin, and what is read of a question.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ....base.errors import UserError, named
from ....base.files import json_digest
from ....hooks.exact.option_beliefs import option_rows
from ....hooks.exact.queries import Edits, PromptReader
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....hooks.prompts.options import Option, make_options
from ....hooks.prompts.places import LAST, Position
from ....hooks.tree.memory import Cost
from ....hooks.verbal.number_formats import FORMATS
from ...materials.choices.forms import Order, labels_of, option_positions, options_of, rotated, user_turn
from ...materials.choices.sources import Choice, alike
from ...materials.choices.tables import AskedChoice
from ...run.experiment import Item, Question, Read
from ...run.readouts import compile_questions, read_questions
from ...run.stated_beliefs import BeliefPlace, before_question, stated_rows
from .config import AskConfig, AskForm, Candidate

CHOICE, PROPOSED = "choice", "proposed"
"""Scenarios: one of the options is asked for; whether one of them is right is."""
ENDINGS = ".,!?;:"
"""What an answer need not say at its end: it is what closes it."""


def item_of(asked: AskedChoice) -> Item:
    """A question as an item."""
    return Item(asked.choice.id, asked.choice.cluster, asdict(asked))


def asked_of(item: Item) -> AskedChoice:
    """The question of an item."""
    content = item.content
    examples = tuple(_choice(example) for example in content["examples"])
    return AskedChoice(_choice(content["choice"]), content["system"], examples, content["more"])


def _choice(content: dict[str, Any]) -> Choice:
    tuples: dict[str, Any] = {name: tuple(content[name]) for name in ("options", "target")}
    return Choice(**(content | tuples))


def questions(config: AskConfig, item: Item) -> list[Question]:
    """All read-outs of an item."""
    return [question for name in config.answers for question in method_questions(config, item, name)]


def method_questions(config: AskConfig, item: Item, name: str) -> list[Question]:
    """Those under one method; none, if it cannot ask the question: letters stand for options that are listed."""
    asked, form = asked_of(item), config.methods[name]
    if not form.can_ask(asked.choice):
        return []
    return [*(_proposed if form.yes_no else _chosen)(config, item.id, asked, name, form)]


def _chosen(config: AskConfig, item: str, asked: AskedChoice, name: str, form: AskForm) -> Iterator[Question]:
    """Which option, in each order."""
    choice = asked.choice
    given: Order = tuple(range(len(choice.options)))
    with named(f"question {item}"):
        design = rotated(len(given), config.orders) if choice.listed else [given]
    shots = [turn for shot in asked.examples for turn in _solved(shot, form)]
    for number, order in enumerate(design):
        yield Question(
            readout_id=f"{item}/{name}/order-{number}",
            method=name,
            scenario=CHOICE,
            conversation=_conversation(config, asked, [*shots, user_turn(choice, form, order)]),
            prefill=form.prefill,
            options=spoken_options(choice, form, order),
            conditions={"order": order, **about(asked)},
            positions=_positions() | (option_positions(choice, form, order) if config.kinds == "all" else {}),
            own_turns=True,
        )


def spoken_options(choice: Choice, form: AskForm, order: Order) -> tuple[Option, ...]:
    """The options in the forms that say them. An option that ends a sentence is said without its full stop."""
    plain = [text.rstrip(ENDINGS) or text for text in choice.options]
    if form.letters or plain == list(choice.options):
        return options_of(choice, form, order)
    if same := alike(plain):
        clashing = [option for option, spoken in zip(choice.options, plain, strict=True) if spoken in same]
        raise UserError(
            f"options {clashing[0]!r} and {clashing[1]!r} are the same but for what closes them; change one"
        )
    return make_options(choice.options, form.forms, labels_of(form, order) or plain)


def _proposed(config: AskConfig, item: str, asked: AskedChoice, name: str, form: AskForm) -> Iterator[Question]:
    """Of each option, whether it is right."""
    assert form.yes_no is not None
    # Of solved questions the true option is proposed, then another one, in turn: yes is no habit.
    shots = [
        turn
        for number, shot in enumerate(asked.examples)
        for turn in _judged(shot, form, right=number % 2 == 0, yes_no=form.yes_no)
    ]
    for place, option in enumerate(asked.choice.options):
        yield Question(
            readout_id=f"{item}/{name}/option-{place}",
            method=name,
            scenario=PROPOSED,
            conversation=_conversation(config, asked, [*shots, _proposal(asked.choice, form, option)]),
            prefill=form.prefill,
            options=make_options(form.yes_no, form.forms),
            conditions={"proposed": place, **about(asked)},
            positions=_positions(),
            own_turns=True,
        )


def about(asked: AskedChoice) -> dict[str, Any]:
    """What every read-out of a question says of it."""
    return {
        "options": asked.choice.options,
        "truth": asked.choice.right,
        "topic": asked.choice.topic,
        "more": asked.more,
    }


def _positions() -> dict[str, Position]:
    return {"question": Position(message=-1), "before-answer": Position(at="before_answer"), "answer": LAST}


def _conversation(config: AskConfig, asked: AskedChoice, turns: Sequence[Message]) -> list[Message]:
    system = asked.system or config.system
    return [*([Message(role="system", content=system)] if system else []), *turns]


def _solved(shot: Choice, form: AskForm) -> list[Message]:
    """A solved question and its answer, in the first form that says it."""
    assert shot.right is not None
    order = tuple(range(len(shot.options)))
    answer = spoken_options(shot, form, order)[shot.right].forms[0]
    return [user_turn(shot, form, order), {"role": "assistant", "content": f"{form.prefill}{answer}"}]


def _proposal(choice: Choice, form: AskForm, option: str) -> Message:
    shown = form.between.join(choice.options)
    return {"role": "user", "content": form.ask.format(question=choice.text, options=shown, option=option)}


def _judged(shot: Choice, form: AskForm, *, right: bool, yes_no: tuple[str, str]) -> list[Message]:
    assert shot.right is not None
    place = shot.right if right else (shot.right + 1) % len(shot.options)
    answer = make_options(yes_no, form.forms)[0 if right else 1].forms[0]
    return [_proposal(shot, form, shot.options[place]), {"role": "assistant", "content": f"{form.prefill}{answer}"}]


# How should an answer begin? Chosen on other questions than those that are scored, by coverage alone.

log = logging.getLogger("doxascope")

WORDS = (" {option}", " {Option}", ' "{option}', ' "{Option}')
PREFILLS = ("Answer:", "The answer is", "The answer is:", "My answer is", "My answer is:", "I choose", "I would say")
SAID = ("{option}", "{Option}", '"{option}', '"{Option}')
LEAD_INS = ("The answer is", "The correct answer is", "I choose", "I would choose", "My answer is")
CANDIDATES: tuple[Candidate, ...] = (
    Candidate(forms=SAID),
    Candidate(forms=(*SAID, *(f"{lead}{said}" for lead in LEAD_INS for said in WORDS))),
    *(Candidate(prefill=prefill, forms=WORDS) for prefill in PREFILLS),
)
"""What is tried where nothing else is given: the option itself; after lead-ins that the model says; after a prefill."""


@dataclass(frozen=True)
class FittedForm:
    """How answers under one method begin from now on."""

    method: str
    form: AskForm
    chosen: Candidate
    coverage: Mapping[str, float]
    """Candidate, in words -> mean coverage of the questions that some candidate can read; NaN if it cannot read one."""
    before: float
    """Mean coverage of the form as it was."""
    fitted_on: tuple[str, ...]
    """Digests of the questions, which may not be scored under the form."""

    def __repr__(self) -> str:
        now = self.coverage[called(self.chosen)]
        return f"FittedForm({self.method}: {called(self.chosen)}; coverage {self.before:.3g} before, {now:.3g} now)"

    def as_dict(self) -> dict[str, Any]:
        """For a manifest."""
        return {
            "chosen": self.chosen.model_dump(mode="json"),
            "coverage": {name: round(value, 9) for name, value in self.coverage.items() if np.isfinite(value)},
            "before": round(self.before, 9),
            "fitted_on": json_digest(sorted(self.fitted_on)),
        }


def called(candidate: Candidate) -> str:
    """A candidate in words."""
    if candidate.prefill:
        return f"prefill {candidate.prefill!r}"
    return f"lead-ins {candidate.forms[0]!r}, ... ({len(candidate.forms)} forms)"


def fingerprint(item: Item) -> str:
    """What makes two questions the same, whatever they are called."""
    choice = item.content["choice"]
    return json_digest([choice["text"], sorted(choice["options"])])


def fit_form(
    config: AskConfig,
    method: str,
    items: Sequence[Item],
    lm: LanguageModel,
    candidates: Sequence[Candidate],
    advance: Callable[[int], object] = lambda _: None,
) -> FittedForm:
    """The candidate under which the options of these questions, in their given order, hold most on average; the form as
    it is stands where none holds more. No score is looked at. `advance` is told of each candidate that was tried.

    Raises UserError for a candidate list under which nothing can be read.
    """
    plain = config.model_copy(update={"orders": "none"})
    form = config.methods[method]
    present = Candidate(prefill=form.prefill, forms=form.forms)
    tried = list({candidate.model_dump_json(): candidate for candidate in (present, *candidates)}.values())
    every = np.full((len(tried), len(items)), np.nan)
    for row, candidate in zip(every, tried, strict=True):
        row[:] = [_coverage(plain, method, _begun(form, candidate), item, lm) for item in items]
        advance(1)
    can = np.array(np.isfinite(every).any(axis=0))  # what no candidate can read tells nothing of them
    if not can.all():
        lost = [item.id for item, kept in zip(items, can.tolist(), strict=True) if not kept]
        log.warning(
            "fit: %s questions that no beginning of %s reads are left out, such as %s", len(lost), method, lost[0]
        )
    coverages = every[:, can].mean(axis=1).tolist() if can.any() else [np.nan]
    if not np.isfinite(coverages).any():
        raise UserError(f"fit: no beginning of {method} can be read on these questions; give other candidates")
    best = tried[int(np.nanargmax(coverages))]
    names = {called(candidate): value for candidate, value in zip(tried, coverages, strict=True)}
    return FittedForm(method, _begun(form, best), best, names, coverages[0], tuple(fingerprint(item) for item in items))


def _begun(form: AskForm, candidate: Candidate) -> AskForm:
    return form.model_copy(update={"prefill": candidate.prefill, "forms": candidate.forms})


def _coverage(config: AskConfig, method: str, form: AskForm, item: Item, lm: LanguageModel) -> float:
    """Mean over the read-outs of a question; NaN where it cannot be read."""
    tried = config.model_copy(update={"methods": {**config.methods, method: form}})
    try:
        asked = method_questions(tried, item, method)
        readings = lm.read(compile_questions(lm.reader, asked), budget=config.budget).readings if asked else []
    except UserError:
        return float("nan")
    return float(np.mean([reading.coverage for reading in readings])) if readings else float("nan")


# What is read of a question: every read-out that can be, and why the others cannot.

log = logging.getLogger("doxascope")

UNREADABLE = "unreadable"
"""Status where the options have no probability each: one is part of another, tokens change at its end, or the prompt is
too long."""


def read_item(name: str, config: AskConfig, item: Item, lm: LanguageModel, edits: Edits | None = None) -> Read:
    """Read one question under every method, for the experiment of that name. A method under which its options cannot be
    told apart token by token gives no number there, and says so; the others go on. Each branch of `edits` is a method
    of its own.
    """
    able, faults = readable(config, item, lm.reader)
    rows: list[dict[str, Any]] = []
    for method, error in faults.items():
        log.warning("left out: question %s under %s: %s", item.id, method, error)
        rows += _without_number(name, item, method)
    nothing = Read([], [], Cost(0, 0, 0, config.budget, 0), None)
    read = read_questions(name, config, item, able, lm, edits) if able else nothing
    if not edits:
        where = {"experiment": name, "item": item.id, "cluster": item.cluster}
        read = stated_rows(config, askable_places(config, item), lm).beside(read, where)
    return read._replace(rows=[*map(_with_outcome, [*read.rows, *rows])])


def askable_places(config: AskConfig, item: Item) -> list[BeliefPlace]:
    """`stated_places`, but none of a question that some format cannot ask: that is said, and the run goes on."""
    places = stated_places(config, item)
    try:
        for place in places:
            for name in config.stated.formats:
                FORMATS[name].over(place.options)
    except UserError as error:
        log.warning("left out: what is stated of question %s: %s", item.id, error)
        return []
    return places


def stated_places(config: AskConfig, item: Item) -> list[BeliefPlace]:
    """After the question as the first method asks it, letters and proposals apart, its options as given."""
    asked, form = asked_of(item), next(iter(config.plain), None)
    if not config.stated.formats or form is None or not form.can_ask(asked.choice):
        return []
    order: Order = tuple(range(len(asked.choice.options)))
    shots = [turn for shot in asked.examples for turn in _solved(shot, form)]
    return [
        BeliefPlace(
            name=f"{item.id}/stated",
            scenario=CHOICE,
            step=0,
            context=_conversation(config, asked, [*shots, user_turn(asked.choice, form, order)]),
            options=asked.choice.options,
            conditions={"order": order, **about(asked)},
            positions={"question": before_question([user_turn(asked.choice, form, order)])},
            readings=1,
        )
    ]


def readable(config: AskConfig, item: Item, reader: PromptReader) -> tuple[list[Question], dict[str, UserError]]:
    """The read-outs of a question under every method that can ask it, and why others cannot."""
    able: list[Question] = []
    faults: dict[str, UserError] = {}
    for method in config.answers:
        try:
            asked = method_questions(config, item, method)
            compile_questions(reader, asked, config.capture)
        except UserError as error:
            faults[method] = error
        else:
            able += asked
    return able, faults


def _without_number(name: str, item: Item, method: str) -> list[dict[str, Any]]:
    """The rows of a question that a method cannot read."""
    asked = asked_of(item)
    options = asked.choice.options
    where = {
        "experiment": name,
        "item": item.id,
        "cluster": item.cluster,
        "scenario": CHOICE,
        "readout_id": f"{item.id}/{method}/order-0",
        "method": method,
        **about(asked),
    }
    nothing = [float("nan")] * len(options)
    rows = option_rows(options, nothing, kind="exact", coverage=float("nan"), status=UNREADABLE)
    return [where | row for row in rows]


def _with_outcome(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with whether its option is true: of a proposed option, whether yes is, or no."""
    truth, place = row["truth"], row["option_index"]
    if truth is None:
        return {**row}
    if row["scenario"] == PROPOSED:
        return {**row, "outcome": float((row["proposed"] == truth) == (place == 0))}
    return {**row, "outcome": float(place == truth)}
