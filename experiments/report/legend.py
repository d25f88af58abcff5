"""What the names and marks on a page mean: those that an experiment declares, and those that all pages share, as far as
they stand on it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from ...metrics.number import status_text
from .document import Block, Picture, Primary, Prose, Stamp, TableBlock, Top

STATUSES = {
    "few_clusters": "the interval rests on so few clusters that it may be too short",
    "few_effective_clusters": "so few clusters carry the number that its interval may be too short",
    "too_few": "there are too few rows to say this number",
    "too_few_clusters": "there are too few clusters to say this number",
    "one_cluster": "all rows are of one cluster, so that nothing says how far the number would vary",
    "no_freedom": "no permutation changes the table, so that p is 1 by itself",
    "few_contexts": "the number rests on so few contexts that its interval may be too short",
    "no_df": "too few clusters are left for an interval",
    "undefined": "the rows do not define this number, as a ratio to zero",
    "zero_variance": "what the number compares does not vary",
    "zero_cluster_variance": "every cluster has the same value, so that the interval has no length",
    "zero_variance_prior": "all beliefs before the update are the same, so that it cannot depend on them",
    "constant": "what the number relates does not vary",
    "wordings_disagree": "the wordings of a question do not read one belief, so that the number is not given",
    "one_reading": "each belief was read once, so that noise of reading is not known",
    "weak_reliability": "readings hardly repeat themselves, so that what is divided by their reliability is arbitrary",
    "no_reliability": "readings do not repeat themselves, so that nothing can be corrected for their noise",
    "not_estimable": "readings of one thing differ by more than those of different things, so that no share is theirs",
    "weak_instrument": "two readings of one belief hardly go together, so that the one does not correct the other",
    "dependent_posterior": "readings before and after share what their wording adds, and that does not cancel",
    "weak_update": "what the number is divided by is hardly larger than noise",
    "few_surprises": "so few outcomes surprised that the interval may be too short",
    "one_outcome": "all outcomes are the same",
    "ties_dominate": "most clusters do not differ at all, so that the few that do decide",
    "missing_rows": "the interval reckons with rows that are missing",
    "leverage_one": "one cluster alone decides the number",
    "no_controls": "no control was read that the number could be compared with",
    "never_wrong": "the likeliest answer is never wrong",
    "shared_clusters": "clusters are shared between what is compared",
    "rank_deficient": "the rows cannot tell the effects of the regression apart",
    "at_end": "the best value is the last that was tried; the true one may lie farther",
    "flat": "choices do not rise with the belief, so that no weighting fits them",
    "nothing_left": "the other belief explains all of it",
    "base_worse_than_marginal": "the prediction is worse than frequencies alone, so that a gain over it shows nothing",
    "chance_is_perfect": "the control has the best score, too, so that the number cannot tell",
    "unreadable": "the method cannot be read as a belief",
    "unresponsive": "the method does not respond to what it is told",
}
"""What a status says of its number."""
WORDS = {
    r"†": ("†", "this cannot be read as a belief, by the verdict on it"),
    r"‡": ("‡", "it is not shown that this can be read as a belief"),
    r"\breadable\b|\bunreadable\b": (
        "readable",
        "the answer is mostly one of the options, and follows the question rather than its form",
    ),
    r"\brespond(s|ing)?\b|\bresponse not\b": ("responds", "in most items the belief moves as what was said asks"),
    r"\bcoherent\b|\bcoherence\b": (
        "coherent",
        "the number lies within the margin around the value of a coherent belief",
    ),
    r"\bnot shown\b": ("not shown", "the data decide neither way"),
    r"\bratio of rare answers\b": (
        "ratio of rare answers",
        "the options together are improbable, so that numbers of this method compare answers that hardly ever come",
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
    r"\bexploratory\b": ("exploratory", "not registered before reading, so that it confirms nothing"),
    r"\bstruck out\b": ("struck out", "shown, and counted in no conclusion, since it cannot be read as a belief"),
}
"""What is looked for on a page -> the word, and what it means."""


def legend(terms: Iterable[tuple[str, str]], top: Top, blocks: Sequence[Block]) -> list[tuple[str, str]]:
    """(name or mark, what it means) of what stands in these blocks, those of `terms` first, each once."""
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
    found += [(status_text(status), means) for status, means in STATUSES.items() if status in flags]
    return found + [word for pattern, word in WORDS.items() if re.search(pattern, texts)]


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
