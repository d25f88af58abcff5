"""What is asked of a triple: one prior, in which the word is asked for at once, nine posteriors, the same nine with
replies that decide nothing, six more if a second word is rejected, and the forks.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import permutations
from typing import Any, NamedTuple

from ....hooks.prompts.chat import Conversation, Message
from ....hooks.prompts.options import Option, make_options
from ....hooks.prompts.places import LAST, Position
from ...materials.entities import Words
from ...run.experiment import Question
from ...run.stated_beliefs import BeliefPlace
from .config import ConsistencyConfig

PRIOR, POSTERIOR, SECOND, MENTION = "prior", "posterior", "second-posterior", "mention"
HEDGE = "hedge"
CONTROLS = (HEDGE, "yes to another question", "no to another question")
"""Replies that decide nothing."""
FORK, FORK_REVEAL = "fork", "fork-reveal"
YES, NO = "yes", "no"


class Dialogue(NamedTuple):
    """What is said before the reveal."""

    name: str
    turns: Sequence[tuple[str, tuple[int, ...]]] = ()
    """(template, numbers of the words that it names) of each turn that rules a word out, or might have."""
    control: str = ""
    """One of `CONTROLS`, if the reply decides nothing."""
    hidden: int | None = None
    """The word that is written down as the choice."""

    @property
    def scenario(self) -> str:
        """Of the belief table."""
        if self.hidden is not None:
            return FORK_REVEAL
        return MENTION if self.control else (PRIOR, POSTERIOR, SECOND)[len(self.turns)]

    @property
    def conditions(self) -> dict[str, Any]:
        """Columns of the belief table: `rejected` is the word that the first reply rules out, `pending` the one that it
        would have, and `control` in what way it does not.
        """
        if not self.turns:
            return {} if self.hidden is None else {"hidden": self.hidden}
        (template, named), *later = self.turns
        out: dict[str, Any] = {
            "pending" if self.control else "rejected": named[0] if template == "reject" else 3 - sum(named)
        }
        out |= {"control": self.control} if self.control else {}
        then = {"then": later[0][1][0]} if later else {}
        return {"template": template, "named": ", ".join(map(str, named)), **out, **then}


def dialogue_questions(config: ConsistencyConfig, item: str, words: Words) -> list[Question]:
    """Prior and posteriors under each method."""
    return [  # methods within, so that those that share a conversation lie together
        _reveal(config, f"{item}/{dialogue.name}", method, words, dialogue)
        for dialogue in _dialogues(config.rejections)
        for method in config.methods
    ]


def dialogue_places(config: ConsistencyConfig, item: str, words: Words) -> list[BeliefPlace]:
    """Where the probabilities of the words are asked for: with the reveal, after each dialogue."""
    return [
        BeliefPlace(
            name=f"{item}/{dialogue.name}",
            scenario=dialogue.scenario,
            step=len(dialogue.turns),
            context=_conversation(config, config.wording.reveal, words, dialogue),
            options=words,
            conditions=dialogue.conditions,
            positions={name: at for name, at in _positions(len(dialogue.turns)).items() if name != "answer"},
            readings=1,
        )
        for dialogue in _dialogues(config.rejections)
    ]


def fork_questions(config: ConsistencyConfig, item: str, words: Words) -> list[Question]:
    """ "Is it X?" of each word, with nothing written down and with each word written down as the choice; in the second
    case the reveal as well, whose other case is the prior.
    """
    if not config.fork_methods:
        return []
    asked = [_ask(config, item, words, x, hidden) for hidden in (None, 0, 1, 2) for x in range(3)]
    noted = [Dialogue(f"hidden-{hidden}", hidden=hidden) for hidden in range(3)]
    reveals = [
        _reveal(config, f"{item}/{case.name}", name, words, case) for case in noted for name in config.fork_methods
    ]
    return asked + reveals


def _reveal(config: ConsistencyConfig, name: str, method_name: str, words: Words, dialogue: Dialogue) -> Question:
    method, sampled = config.methods[method_name], config.sampled
    drawn = dialogue.hidden is None and (sampled.contexts == "all" or dialogue.scenario in (PRIOR, POSTERIOR))
    draws = sampled.draws if method_name in config.sampled_methods and drawn else 0
    return Question(
        readout_id=f"{name}/{method_name}",
        method=method_name,
        scenario=dialogue.scenario,
        step=len(dialogue.turns),
        conditions=dialogue.conditions,
        conversation=_conversation(config, method.reveal or config.wording.reveal, words, dialogue),
        prefill=method.prefill,
        options=_options(words, method.forms, method.labels),
        draws=draws,
        mentioned=_options(words, sampled.mentions) if draws and sampled.mentions else (),
        positions=_positions(len(dialogue.turns)),
    )


_options = lru_cache(64)(make_options)


@cache
def _positions(steps: int) -> dict[str, Position]:
    """Where a capture reads: what the model was told, each turn that asks of words and its answer, and the
    reveal. `before-question`, also called `before-reveal`, is the last place that knows nothing of what will be asked.
    """
    turns = {}
    for step in range(steps):
        name = "" if step == 0 else "second-"
        turns[f"{name}question"] = Position(message=1 + 2 * step)
        turns[f"{name}rejection"] = Position(message=2 + 2 * step)
    return {
        "system": Position(message=0),
        **turns,
        **dict.fromkeys(("before-reveal", "before-question"), Position(at="before", message=-1)),
        "reveal": Position(message=-1),
        "answer": LAST,
    }


def _ask(config: ConsistencyConfig, item: str, words: Words, x: int, hidden: int | None) -> Question:
    system = _system(config, words, hidden)
    question: Message = {"role": "user", "content": config.wording.reject.format(**_fill(words), x=words[x])}
    return Question(
        readout_id=f"{item}/fork-{x}" + ("" if hidden is None else f"-hidden-{hidden}"),
        method="yes-no",
        scenario=FORK,
        conditions={"asked": x, "hidden": hidden},
        conversation=[system, question],
        prefill="",
        options=(Option(YES, config.fork.yes), Option(NO, config.fork.no)),
    )


@cache
def _dialogues(rejections: int) -> list[Dialogue]:
    """The prior, the posteriors, and each first question again with replies that decide nothing."""
    first: list[tuple[str, tuple[str, tuple[int, ...]]]] = [(f"reject-{x}", ("reject", (x,))) for x in range(3)]
    first += [(f"narrow-{x}-{y}", ("narrow", (x, y))) for x, y in permutations(range(3), 2)]
    again = [Dialogue(f"reject-{x}-{y}", (("reject", (x,)), ("reject", (y,)))) for x, y in permutations(range(3), 2)]
    return [
        Dialogue(PRIOR),
        *(Dialogue(name, (turn,)) for name, turn in first),
        *(Dialogue(f"{name}-{mark}", (turn,), control) for name, turn in first for mark, control in _MARKED),
        *(again if rejections == 2 else []),
    ]


_MARKED = tuple(zip(("undecided", "aside-yes", "aside-no"), CONTROLS, strict=True))


def _conversation(config: ConsistencyConfig, reveal: str, words: Words, dialogue: Dialogue) -> Conversation:
    wording, fill = config.wording, _fill(words)
    turns: list[Message] = [_system(config, words, dialogue.hidden)]
    for template, named in dialogue.turns:
        named_too = fill | dict(zip("xy", (words[i] for i in named), strict=False))
        asked, answered = getattr(wording, template), getattr(wording, f"{template}_answer")
        if dialogue.control == HEDGE:
            answered = wording.undecided
        elif dialogue.control:
            asked, answered = asked + wording.aside, wording.aside_answers[CONTROLS.index(dialogue.control) - 1]
        turns.append({"role": "user", "content": asked.format(**named_too)})
        turns.append({"role": "assistant", "content": answered.format(**named_too)})
    turns.append({"role": "user", "content": reveal.format(**fill)})
    return turns


def _system(config: ConsistencyConfig, words: Words, hidden: int | None) -> Message:
    note = "" if hidden is None else config.fork.hidden.format(**_fill(words), x=words[hidden])
    return {"role": "system", "content": config.wording.system.format(**_fill(words)) + note}


def _fill(words: Words) -> dict[str, str]:
    return dict(zip("abc", words, strict=True))
