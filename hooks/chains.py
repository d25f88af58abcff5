"""The belief along a thought that is put before an answer, and after thoughts that end otherwise: read in one tree."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..base.errors import UserError
from .lm import LanguageModel
from .prompts.chat import Conversation
from .prompts.options import Option, make_options

FORMS = (" {option}",)
"""How an answer goes on that has been begun."""
END = ".!? "
"""What closes a sentence: not part of it where it is an option."""


def read_chain(
    lm: LanguageModel,
    messages: Conversation,
    sentences: Sequence[str],
    answer: str,
    options: Sequence[str],
    *,
    names: str | None = None,
    replaced: Mapping[str, str] | None = None,
    forms: Sequence[str] = FORMS,
) -> pd.DataFrame:
    """Belief over the options after 0, 1, ... sentences of a thought, and after replaced ones: the rows of a chain as
    `doxascope score` takes them, but for the column `chain`.

    Args:
        messages: the conversation, which ends with the user's question.
        sentences: of the thought, as the assistant says them.
        answer: how the answer begins after a thought, such as "The answer is".
        names: the option that the thought names.
        replaced: option -> the sentence that names it, in place of the last.
        forms: how an option may be written after `answer`.

    Returns a row per belief: `sentences`, `names`, `replaced`, and `belief_<option>`, its probability; where a thought
    names each option, `thought_<option>`, too: the probability that the model thinks the last sentence that names it.

    Raises UserError for no sentence, no beginning of an answer, a name that is no option, and a model that thinks.
    """
    if not sentences or not answer.strip():
        raise UserError("a chain has one sentence or more, and an answer that is begun; give both")
    if lm.spec.thinking == "on":
        raise UserError("thinking 'on': the thought is put into the answer here; load it 'closed' (model.thinking)")
    put = dict(replaced or {})
    if unknown := [name for name in (names, *put) if name is not None and name not in options]:
        raise UserError(f"{unknown[0]!r}: is no option; options: {', '.join(options)}")
    chains: list[tuple[str | None, Sequence[str]]] = [(None, sentences[:n]) for n in range(len(sentences) + 1)]
    chains += [(name, (*sentences[:-1], last)) for name, last in put.items()]
    asked = make_options(options, forms)
    queries = [
        lm.reader.query(f"thought-{i}", messages, asked, " ".join((*said, answer)))
        for i, (_, said) in enumerate(chains)
    ]
    ends, before = {**put, names: sentences[-1]}, " ".join(sentences[:-1])
    whole = ends.keys() == {*options}
    if whole:
        ways = [Option(option, (f"{' ' if before else ''}{ends[option].rstrip(END)}",)) for option in options]
        queries.append(lm.reader.query("thought", messages, tuple(ways), before))
    readings = lm.read(queries).readings
    thought = {f"thought_{name}": p for name, p in zip(options, np.exp(readings[-1].logp).tolist(), strict=True)}
    rows = list[dict[str, Any]]()
    for (name, said), reading in zip(chains, readings, strict=False):
        beliefs = dict(zip((f"belief_{option}" for option in options), np.exp(reading.logp).tolist(), strict=True))
        about = {"sentences": len(said), "names": names, "replaced": name}
        rows.append({**about, **beliefs, **(thought if whole else {})})
    return pd.DataFrame(rows)
