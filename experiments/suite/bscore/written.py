"""The published way: answers that the model writes out, at a stated temperature, and what is parsed of them: afresh,
in conversations of what it wrote, and as lists of numbers from a named distribution (b-score, B.2, C.4).
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....hooks.generation.generated_texts import Request
from ....hooks.generation.sampling import random_generator
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....hooks.prompts.options import Option
from ...materials.trajectories import before_control_token
from ...report.findings import Drawn, Transcript
from ...run.experiment import Item, Question
from ...run.readouts import question_transcript
from .config import BScoreConfig, Written
from .turns import SINGLE, choice_of, orders_of, turn_orders, turn_question

WRITTEN, LIST = "written", "list"
"""What is added to the name of a method whose answers are written out, and whose lists are."""
UNPARSED = -1
"""The option of an answer that none can be read of."""
Rows = list[dict[str, Any]]


def parsed(text: str, options: Sequence[Option], written: Written) -> int:
    """The option that an answer gives between the first marks, letter case and blanks aside; `UNPARSED` if there are no
    marks, or no option between them.
    """
    given, marked = text, True
    if written.open:
        _, begun, rest = text.partition(written.open)
        given, ended, _ = rest.partition(written.close)
        marked = bool(begun and ended)
    if not marked:
        return UNPARSED
    names = {_plain(form): i for i, option in enumerate(options) for form in (option.name, *option.forms)}
    return names.get(_plain(given), UNPARSED)


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(".\"'").casefold()


def written_rows(config: BScoreConfig, item: Item, lm: LanguageModel) -> tuple[Rows, list[Transcript]]:
    """The rows of each method that holds conversations, and what was said: of each run, how often each option was the
    answer among those that could be parsed, with all of them in `answers` (afresh) and `answers_multi`.
    """
    if config.written is None:
        return [], []
    rows: Rows = []
    transcripts: list[Transcript] = []
    for name, method in config.held.items():
        if not method.can_ask(choice_of(item)):
            continue
        afresh = _afresh(config, config.written, item, name, lm)
        talks = _talks(config, config.written, item, name, lm)
        for run, (singles, (turns, last, written)) in enumerate(zip(afresh, talks, strict=True)):
            rows += _counted(config, item, f"{name} {WRITTEN}", WRITTEN, last, run, singles, answers_multi=turns)
            drawn: Drawn = {"draw": 0, "text": written, "status": "ok" if turns[-1] != UNPARSED else "unparsed"}
            transcripts.append(question_transcript(lm.reader.chat, last, answers=[drawn]))
    more, also = _lists(config, config.written, item, lm)
    return rows + more, transcripts + also


def planned_tokens(config: BScoreConfig, item: Item) -> int:
    """Most tokens that it writes."""
    if config.written is None:
        return 0
    methods = sum(method.can_ask(choice_of(item)) for method in config.held.values())
    lists = config.written.lists * config.written.list_tokens * bool(choice_of(item).target)
    return config.runs * (config.queries + config.turns) * methods * config.written.max_new_tokens + lists


def _afresh(config: BScoreConfig, written: Written, item: Item, name: str, lm: LanguageModel) -> list[list[int]]:
    """[runs, queries] answers, each to the question in an order that is drawn for it."""
    n = len(orders_of(choice_of(item)))
    rng = random_generator(config.seed, f"{item.id}/{WRITTEN}/{name}", 0)
    order = rng.integers(n, size=(config.runs, config.queries))
    asked = [_question(config, item, name, number, (), f"{item.id}/{WRITTEN}-{number}/{name}") for number in range(n)]
    requests = [
        Request(question.readout_id, lm.reader.chat.render(question.conversation), range(int((order == number).sum())))
        for number, question in enumerate(asked)
    ]
    texts = iter(lm.sample(requests, written, seed=config.seed))
    answers = np.full(order.shape, UNPARSED)
    for number, question in enumerate(asked):
        answers[order == number] = [
            parsed(next(texts).text, question.options, written) for _ in range(int((order == number).sum()))
        ]
    return answers.tolist()


def _talks(
    config: BScoreConfig, written: Written, item: Item, name: str, lm: LanguageModel
) -> list[tuple[list[int], Question, str]]:
    """Of each conversation the answers of its turns, the last question, and what was said to it. A turn sees what the
    model wrote at those before it, whether or not an option could be read of it.
    """
    histories: list[list[Message]] = [[] for _ in range(config.runs)]
    orders = [turn_orders(config, item, run) for run in range(config.runs)]
    answers: list[list[int]] = [[] for _ in range(config.runs)]
    asked: list[Question] = []
    texts: list[str] = []
    for turn in range(config.turns):
        asked = [
            _question(config, item, name, orders[run][turn], history, f"{item.id}/run-{run}/{name}/{WRITTEN}")
            for run, history in enumerate(histories)
        ]
        requests = [Request(each.readout_id, lm.reader.chat.render(each.conversation), [turn]) for each in asked]
        texts = [before_control_token(each.text, lm) for each in lm.sample(requests, written, seed=config.seed)]
        for run, (each, text) in enumerate(zip(asked, texts, strict=True)):
            answers[run].append(parsed(text, each.options, written))
            histories[run] += [each.conversation[-1], {"role": "assistant", "content": text}]
    return list(zip(answers, asked, texts, strict=True))


def _question(
    config: BScoreConfig, item: Item, name: str, order: int, history: Sequence[Message], readout_id: str
) -> Question:
    seen = history if config.keep_turns is None else history[-2 * config.keep_turns :]
    question = turn_question(config, item, name, order, seen, readout_id)
    return Question(readout_id, name, question.scenario, question.conversation, "", question.options)


def _lists(config: BScoreConfig, written: Written, item: Item, lm: LanguageModel) -> tuple[Rows, list[Transcript]]:
    """Many draws of a named distribution in one answer (C.4): the whole numbers that it lists."""
    choice, name = choice_of(item), next(iter(config.methods))
    if not choice.target or not written.lists:
        return [], []
    law = choice.text
    turn: Message = {"role": "user", "content": written.list_ask.format(question=law, n=written.list_numbers)}
    asked = turn_question(config, item, name, 0, (), f"{item.id}/{LIST}/{name}")
    asked = Question(asked.readout_id, name, asked.scenario, [turn], "", asked.options)
    request = Request(asked.readout_id, lm.reader.chat.render([turn]), range(written.lists))
    law_of_lists = written.model_copy(update={"max_new_tokens": written.list_tokens})
    texts = lm.sample([request], law_of_lists, seed=config.seed)
    numbers = {option: i for i, option in enumerate(choice.options)}
    rows: Rows = []
    for run, sample in enumerate(texts):
        listed = [numbers.get(number, UNPARSED) for number in re.findall(r"(?<![\d.])-?\d+(?![\d.]*\d)", sample.text)]
        rows += _counted(
            config, item, f"{name} {LIST}", LIST, asked, run, listed[: written.list_numbers], target=choice.target
        )
    answers: list[Drawn] = [{"draw": sample.draw, "text": sample.text, "status": sample.status} for sample in texts]
    return rows, [question_transcript(lm.reader.chat, asked, answers=answers)]


def _counted(
    config: BScoreConfig, item: Item, method: str, way: str, asked: Question, run: int, answers: list[int], **about: Any
) -> Rows:
    """The rows of answers that were counted; without a valid one there is no number."""
    choice = choice_of(item)
    valid = [answer for answer in answers if answer != UNPARSED]
    shares = np.bincount(valid, minlength=len(choice.options)) / (len(valid) or np.nan)
    coverage = len(valid) / max(1, len(answers))
    status = "unparsed" if not valid else "ok" if coverage >= config.low_coverage else "low_coverage"
    place = {"readout_id": f"{asked.readout_id}.{run}" if way == LIST else asked.readout_id, "scenario": SINGLE}
    counted = {"run": run, "answers": answers, "category": choice.category, "truth": choice.right, **about}
    return [
        {**place, "kind": "verbal", "method": method, "estimate": way, **counted}
        | {"option": option, "option_index": i, "prob": shares[i], "coverage": coverage, "status": status}
        for i, option in enumerate(choice.options)
    ]
