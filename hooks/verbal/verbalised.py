"""Which option a sampled answer names, by the string match of the belief-consistency paper (appendix A).

The lower-cased answer names an option if it contains the lower-cased option. It must name exactly one. This is
taken as published: `apple` is found in `pineapple` too, and in `not apple`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..belief_rows import option_rows
from ..generation.generation import GeneratedText
from ..prompts.chat import CLOSE, THINK


class MatchedAnswer(NamedTuple):
    """The option that an answer names."""

    option: int | None
    """Index of the option, or None: then `status` says why."""
    status: str
    """`ok`; `unparsed`: names no option; `ambiguous`: names several; `truncated`: names none and was cut off."""


def match_options(sample: GeneratedText, names: Sequence[str], *, thinking: bool = False) -> MatchedAnswer:
    """Match an answer with the options.

    As in the paper, an answer that was cut off counts if it already names one option, and of a thinking model only what
    follows the thought counts: a thought that is not closed is an error, whatever it names.

    Args:
        sample: the answer.
        names: of the options.
        thinking: whether the prompt has opened a thought; one that the answer opens is seen anyway.
    """
    none = "truncated" if sample.status == "truncated" else "unparsed"
    _, closed, answer = sample.text.rpartition(CLOSE)
    if not closed and (thinking or THINK in answer):
        return MatchedAnswer(None, none)
    found = [i for i, name in enumerate(names) if name.lower() in answer.lower()]
    if len(found) == 1:
        return MatchedAnswer(found[0], "ok")
    return MatchedAnswer(None, "ambiguous" if found else none)


@dataclass(frozen=True)
class Tally:
    """How many answers to one prompt name each option."""

    counts: NDArray[np.int64]
    """[options + 1] answers that name each option, then those that name none or several: for
    `metrics.counts_to_probabilities`."""
    errors: Mapping[str, int]
    """status -> answers, of those that name no single option."""


def tally_matches(answers: Iterable[MatchedAnswer], n_options: int) -> Tally:
    """Count the answers that name each option."""
    answers = list(answers)
    counts = np.bincount([n_options if one.option is None else one.option for one in answers], minlength=n_options + 1)
    return Tally(counts.astype(np.int64), dict(Counter(one.status for one in answers if one.option is None)))


def tally_rows(matches: Tally, names: Sequence[str], low_coverage: float) -> list[dict[str, object]]:
    """The rows of the belief table that the answers to one prompt fill, without the columns of its experiment.

    `coverage` is the share of answers that name one option. Where none does, the status is that of most answers, and
    there is no number.
    """
    valid, total = int(matches.counts[:-1].sum()), int(matches.counts.sum())
    if valid:
        status = "low_coverage" if valid < low_coverage * total else "ok"
    else:
        status = max(matches.errors, key=lambda name: matches.errors[name], default="nan")
    prob = matches.counts[:-1] / (valid or np.nan)
    return option_rows(names, prob, kind="verbal", coverage=valid / (total or np.nan), status=status)
