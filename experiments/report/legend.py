"""What the names and marks on a page mean: those that an experiment declares, and those that all pages share, as far as
they stand on it.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from ...base.text import listed
from ...metrics.consistency.competence import (
    BELOW_MENTIONED,
    COVERAGE,
    EASY,
    HALVES,
    ORDER,
    PARSED,
    RESPONDING,
    TITLES,
    WORDINGS,
)
from ...metrics.number import STATUSES, status_text
from .document import Block, Picture, Primary, Prose, Stamp, TableBlock, Top

WORDS = {
    r"†": ("†", "this cannot be read as a belief, by the verdict on it"),
    r"‡": ("‡", "it is not shown that this can be read as a belief"),
    r"\breadable\b|\bunreadable\b": ("readable", "what is read is an answer to the question"),
    r"\brespond(s|ing)?\b|\bresponse not\b": ("responds", "in most items the belief follows what the model is told"),
    r"\bcoherent\b(?! under negation)|\bcoherence\b": (
        "coherent",
        "the number lies within the margin around the value of a coherent belief",
    ),
    r"\bnot shown\b": ("not shown", "the data decide neither way"),
    r"\bratio of rare answers\b": (
        "ratio of rare answers",
        "in most read-outs the options have less probability than is required, so that numbers compare rare answers",
    ),
    r"\bclusters?\b": ("cluster", "items that share content; uncertainty is over clusters, not over rows"),
    r"\beach cluster once\b": (
        "each cluster once",
        "the mean in which a cluster with many rows counts no more than others",
    ),
    r"\bminimum detectable effect\b": (
        "minimum detectable effect",
        "the smallest effect that so many clusters would show with 80% power",
    ),
    r"\badjusted p\b": ("adjusted p", "p, corrected for the number of tests that are made together"),
    r"\bcoverage\b": ("coverage", "probability that the answer is any of the options"),
    r"\btwo one-sided tests\b": ("two one-sided tests", "they show that a number lies within a margin (TOST)"),
    r"\beffective number of rows\b": (
        "effective number of rows",
        "so many independent rows would vary as these do, fewer where clusters are few",
    ),
    r"\bexploratory\b": ("exploratory", "not registered before reading, so that it confirms nothing"),
    r"\bstruck out\b": ("struck out", "shown, and counted in no conclusion, since it cannot be read as a belief"),
}
"""What is looked for on a page -> the word, and what it means."""
BY_CONDITION = {
    "readable": {
        COVERAGE: "the options have enough of the answer's probability",
        PARSED: "most answers can be parsed",
        ORDER: "it does not follow the place of the options",
        WORDINGS: "the wordings of a question agree",
    },
    "responds": {
        HALVES: "in most items an option that is ruled out loses at least half of its probability",
        BELOW_MENTIONED: "it has at most half of that after a mere mention",
        RESPONDING: "in most items the belief moves as the evidence asks",
        EASY: "easy questions are answered right more often than by guessing",
    },
}
"""What the verdict means where a page judges by these conditions."""


def legend(
    terms: Iterable[tuple[str, str]], top: Top, blocks: Sequence[Block], gate: TableBlock | None = None
) -> list[tuple[str, str]]:
    """(name or mark, what it means) of what stands in these blocks, those of `terms` first, each once.

    Args:
        terms: that an experiment declares.
        top: what is printed of it.
        blocks: likewise.
        gate: the conditions of the verdicts, printed or not; None: those of `top`.
    """
    texts = "\n".join(filter(None, _texts(top, blocks)))
    named: dict[str, str] = {}
    for name, means in terms:
        named.setdefault(name, means)
    found = [
        (name, means) for name, means in named.items() if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", texts)
    ]
    flags = {flag for block in blocks if isinstance(block, TableBlock) for row in block.rows for cell in row
             for flag in cell.status.split(", ") if flag}  # fmt: skip
    flags |= {status for status in STATUSES if f"({status_text(status)}" in texts}
    found += [STATUSES[status] for status in STATUSES if status in flags]
    judged = gate or top.gate
    asked = {row[0].value for row in judged.rows} if judged else set()
    words = [word for pattern, word in WORDS.items() if re.search(pattern, texts, re.IGNORECASE)]
    return found + [(name, _by_condition(name, asked) or means) for name, means in words]


def _by_condition(verdict: str, asked: Collection[str]) -> str:
    """What a verdict means by the conditions that a page asks; empty if it is none, or asks none."""
    means = BY_CONDITION.get(verdict, {}).items()
    return listed([said for name, said in means if TITLES.get(name, name) in asked])


def _texts(top: Top, blocks: Sequence[Block]) -> Iterator[str]:
    yield top.said
    leading = [*top.alarms, top.verdict, *top.further, *filter(None, (top.gate, top.primary))]
    yield from (top.figure.title, top.figure.caption) if top.figure else ()
    for block in (*leading, *blocks):
        yield block.title
        if isinstance(block, Prose):
            yield block.text
        elif isinstance(block, Stamp):
            yield from (block.says, block.note, *(part for line in block.lines for part in line))
        elif isinstance(block, Primary):
            yield from (block.label, *block.lines)
        elif isinstance(block, Picture):
            yield from (block.figure.title, block.figure.caption)
        elif isinstance(block, TableBlock):
            yield from (block.caption, *(part for column in block.head for part in column))
            yield from (part for note in block.notes for part in note)
            yield from (
                text for row in block.rows for cell in row if not cell.code for text in (cell.value, *cell.below)
            )
