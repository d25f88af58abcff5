"""What is asked of a triple: one prior, in which the word is asked for at once, nine posteriors, the same nine with a
reply that decides nothing, six more if a second word is rejected, and the forks.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import permutations

from ...hooks.prompts.chat import Conversation, Message
from ...hooks.prompts.options import Option, make_options
from ...hooks.prompts.places import LAST, Position
from ..experiment import Question
from ..materials.entities import Words
from .config import ConsistencyConfig, ConsistencyMethod

PRIOR, POSTERIOR, SECOND, MENTION = "prior", "posterior", "second-posterior", "mention"
FORK, FORK_REVEAL = "fork", "fork-reveal"
YES, NO = "yes", "no"


def dialogue_questions(config: ConsistencyConfig, item: str, words: Words) -> list[Question]:
    """Prior and posteriors under each method."""
    return [  # methods within, so that those that share a conversation lie together
        _reveal(config, f"{item}/{name}", method, words, variant)
        for name, variant in _scenarios(config.rejections)
        for method in config.methods
    ]


def fork_questions(config: ConsistencyConfig, item: str, words: Words) -> list[Question]:
    """ "Is it X?" of each word, with nothing written down and with each word written down as the choice; in the second
    case the reveal as well, whose other case is the prior.
    """
    if not config.fork_methods:
        return []
    asked = [_ask(config, item, words, x, hidden) for hidden in (None, 0, 1, 2) for x in range(3)]
    reveals = [
        _reveal(config, f"{item}/hidden-{hidden}", method, words, {"hidden": hidden})
        for hidden in range(3)
        for method in config.fork_methods
    ]
    return asked + reveals


def _reveal(
    config: ConsistencyConfig, name: str, method_name: str, words: Words, variant: Mapping[str, object]
) -> Question:
    method, sampled = config.methods[method_name], config.sampled
    hidden = variant.get("hidden")
    draws = sampled.draws if method_name in config.sampled_methods and hidden is None else 0
    steps = len(_turns(variant))
    scenario = FORK_REVEAL if hidden is not None else (PRIOR, POSTERIOR, SECOND)[steps]
    scenario = MENTION if "pending" in variant else scenario
    return Question(
        readout_id=f"{name}/{method_name}",
        method=method_name,
        scenario=scenario,
        step=steps,
        variant=variant,
        conversation=_conversation(config, method, words, variant),
        prefill=method.prefill,
        options=_options(words, method.forms, method.labels),
        draws=draws,
        mentioned=_options(words, sampled.mentions) if draws and sampled.mentions else (),
        positions=_positions(steps),
    )


_options = lru_cache(64)(make_options)


@cache
def _positions(steps: int) -> dict[str, Position]:
    """Where a capture reads: what the model was told, each turn that asks of words and its answer, and the
    reveal. `before-reveal` is the last place that knows nothing of what will be asked.
    """
    turns = {}
    for step in range(steps):
        name = "" if step == 0 else "second-"
        turns[f"{name}question"] = Position(message=1 + 2 * step)
        turns[f"{name}rejection"] = Position(message=2 + 2 * step)
    return {
        "system": Position(message=0),
        **turns,
        "before-reveal": Position(at="before", message=-1),
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
        variant={"asked": x, "hidden": hidden},
        conversation=[system, question],
        prefill="",
        options=(Option(YES, config.fork.yes), Option(NO, config.fork.no)),
    )


@cache
def _scenarios(rejections: int) -> list[tuple[str, dict[str, object]]]:
    """(name, variant) of the prior, which has no variant, of the posteriors, and of each first question again with a
    reply that decides nothing: `pending` is the word that the answer would have ruled out.
    """
    rejected = [(f"reject-{x}", {"template": "reject", "named": [x], "rejected": x}) for x in range(3)]
    narrowings = [
        (f"narrow-{x}-{y}", {"template": "narrow", "named": [x, y], "rejected": 3 - x - y})
        for x, y in permutations(range(3), 2)
    ]
    again = [
        (f"reject-{x}-{y}", {"template": "reject", "named": [x], "rejected": x, "then": y})
        for x, y in permutations(range(3), 2)
    ]
    undecided = [
        (f"{name}-undecided", {"template": one["template"], "named": one["named"], "pending": one["rejected"]})
        for name, one in (*rejected, *narrowings)
    ]
    return [(PRIOR, {}), *rejected, *narrowings, *undecided, *(again if rejections == 2 else [])]


def _turns(variant: Mapping[str, object]) -> list[tuple[str, Sequence[int]]]:
    """(template, words that it names) of each turn that rules something out, or might have."""
    match variant:
        case {"template": str(template), "named": list(named), "then": int(then)}:
            return [(template, named), ("reject", [then])]
        case {"template": str(template), "named": list(named)}:
            return [(template, named)]
    return []


def _conversation(
    config: ConsistencyConfig, method: ConsistencyMethod, words: Words, variant: Mapping[str, object]
) -> Conversation:
    wording, fill = config.wording, _fill(words)
    hidden = variant.get("hidden")
    turns = [_system(config, words, hidden if isinstance(hidden, int) else None)]
    for template, named in _turns(variant):
        named_too = fill | dict(zip("xy", (words[i] for i in named), strict=False))
        asked = getattr(wording, template)
        answered = wording.undecided if "pending" in variant else getattr(wording, f"{template}_answer")
        turns.append({"role": "user", "content": asked.format(**named_too)})
        turns.append({"role": "assistant", "content": answered.format(**named_too)})
    turns.append({"role": "user", "content": (method.reveal or wording.reveal).format(**fill)})
    return turns


def _system(config: ConsistencyConfig, words: Words, hidden: int | None) -> Message:
    note = "" if hidden is None else config.fork.hidden.format(**_fill(words), x=words[hidden])
    return {"role": "system", "content": config.wording.system.format(**_fill(words)) + note}


def _fill(words: Words) -> dict[str, str]:
    return dict(zip("abc", words, strict=True))
