"""Beliefs from sampled texts: the option that an answer names first (as token paths), the string match of the
belief-consistency paper, and the mixture over the thoughts of a model that thinks before it answers.

An answer *mentions* an option where one of the option's paths and then a terminator stand in its ids. The first
mention is the one whose terminator comes first; of two that end together, the longer (`blueberry`, not `berry`).
P(o) is the probability that an answer's first mention is of o.

At every history h of a sampled answer, the chance that the first mention begins *now* and is of o is exact: the
sum of P(path, terminator | h) over the paths that would not be preceded by another mention. Summed along the
answer, its mean over answers is P(o): each term is the conditional expectation, given h, of the event that the first
mention begins there, and these events are disjoint. The sum may exceed 1 for one answer; it need not vary less than
the 0/1 hit (an option that comes sooner or later anyway).

This is not the string match (exactly one option anywhere in the text, in any spelling): whether a second option follows
depends on the whole future, which no step knows.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import logsumexp

from ...base.errors import UserError
from ...base.settings import Settings
from ..exact.option_beliefs import UNEMBED_ROWS, ExactReading, exact_rows, option_rows
from ..exact.queries import Query
from ..model.head import Head
from ..prompts.chat import CLOSE, THINK
from ..prompts.options import Option, OptionPaths, Terminators
from .generated_texts import GeneratedText
from .histories import Histories, Node
from .sampling import Sampling

Floats = NDArray[np.float64]
Ids = tuple[int, ...]

LOG_NEGLIGIBLE = -12.0
"""A path is left as soon as its tokens so far are less likely than exp of this; what that can amount to is reported.
Ten times the precision costs about twice the time: single letters are nowhere impossible."""
BUDGET = 256
"""Default histories whose paths are walked together; each may take several tokens."""


class Mention(NamedTuple):
    """Where an answer names an option."""

    option: int
    start: int
    end: int
    """Index of the terminator."""


def first_mention(ids: Sequence[int], paths: OptionPaths, terminators: Terminators) -> Mention | None:
    """The first mention in an answer, if there is one."""
    for end, token in enumerate(ids):
        if token in terminators.id_set and (ending := _ending(tuple(ids[:end]), paths)):
            option, length = ending
            return Mention(option, end - length, end)
    return None


class Estimate(NamedTuple):
    """[options] each."""

    prob: Floats
    se: Floats
    """Monte-Carlo standard error; NaN for one answer."""


@dataclass(frozen=True)
class Mentions:
    """What n answers to one prompt say of its k options."""

    hits: Floats
    """[n, k]: 1 where the answer's first mention is of the option."""
    expected: Floats
    """[n, k] the exact chance of it, summed along the answer."""
    left_out: float
    """The most by which paths that were left can lower the mean of `expected`."""

    @property
    def sampled(self) -> Estimate:
        """Frequencies."""
        return _mean(self.hits)

    @property
    def rao_blackwell(self) -> Estimate:
        """Mean of `expected`."""
        return _mean(self.expected)


def read_mentions(
    samples: Sequence[GeneratedText],
    query: Query,
    sampling: Sampling,
    histories: Histories,
    head: Head,
    *,
    budget: int = BUDGET,
) -> Mentions:
    """First mentions in the answers to one prompt, and their exact chances along the way.

    The event is on the answer as it was sampled: a mention counts if it is complete within `max_new_tokens`.

    Args:
        samples: answers to the query's prompt.
        query: the prompt and the paths; they are the same at every place of the answer, so forms for mid-sentence (with
            a leading space) belong among them.
        sampling: the sampling distribution of the samples, which must be the model's own.
        histories: an empty tree that computes histories of the model.
        head: of the model.
        budget: about how many histories are walked from together; bounds the memory.

    Raises UserError for samples that were not drawn from the model's own distribution, or ended by stop texts.
    """
    if not sampling.faithful or sampling.stop:
        raise UserError(
            f"read-out {query.readout_id}: exact chances along an answer need samples at temperature 1, without top_k, "
            "top_p or stop texts; sample anew"
        )
    k = len(query.paths.paths)
    hits, expected, left_out = np.zeros((len(samples), k)), np.zeros((len(samples), k)), 0.0
    chances: dict[Ids, _Chance] = {}
    trails: list[list[Ids]] = []
    fresh: dict[Ids, None] = {}
    for row, sample in enumerate(samples):
        mention = first_mention(sample.ids, query.paths, query.terminators)
        if mention:
            hits[row, mention.option] = 1
        trails.append([sample.ids[:t] for t in range(mention.end + 1 if mention else len(sample.ids))])
        fresh.update(dict.fromkeys(history for history in trails[-1] if history not in chances))
        if len(fresh) >= budget or row == len(samples) - 1:
            chances |= _chances(query, list(fresh), sampling.max_new_tokens, histories, head)
            fresh = {}
    for row, trail in enumerate(trails):
        expected[row] = sum((chances[history].option for history in trail), np.zeros(k))
        left_out += sum(chances[history].left_out for history in trail) / len(samples)
    return Mentions(hits, expected, left_out)


@dataclass
class _Chance:
    """What may begin after a history."""

    option: Floats
    """[options] probability that the first mention begins there and is of the option."""
    left_out: float = 0.0


@dataclass(eq=False)
class _Walk:
    """On the way down a path below a history."""

    chance: _Chance
    option: int
    rest: Ids
    """The tokens of the path that are still ahead."""
    node: Node
    logp: float = 0.0


def _chances(query: Query, fresh: Sequence[Ids], limit: int, histories: Histories, head: Head) -> dict[Ids, _Chance]:
    """The chances after each history, by walking down all paths at once, a token per round."""
    import torch

    chances = {history: _Chance(np.zeros(len(query.paths.paths))) for history in fresh}
    walks = [
        _Walk(chance, option, path, histories.extend(None, query.prompt.ids + history))
        for history, chance in chances.items()
        for option, path in _ahead(history, query.paths, query.terminators, limit)
    ]
    while walks:
        at_node: dict[Node, list[_Walk]] = {}
        for walk in walks:
            at_node.setdefault(walk.node, []).append(walk)
        histories.compute(every := list(at_node))
        walks = []
        for nodes in (every[i : i + UNEMBED_ROWS] for i in range(0, len(every), UNEMBED_ROWS)):
            hidden = torch.stack([node.hidden for node in nodes if node.hidden is not None])
            logp = head.log_probs(hidden, passing=True)
            ends = logp[:, query.terminators.ids].double().logsumexp(dim=1).tolist()
            here = [(row, walk) for row, node in enumerate(nodes) for walk in at_node[node]]
            steps = logp[[row for row, _ in here], [walk.rest[0] if walk.rest else 0 for _, walk in here]].tolist()
            for (row, walk), step in zip(here, steps, strict=True):
                if not walk.rest:
                    walk.chance.option[walk.option] += np.exp(walk.logp + ends[row])
                    continue
                walk.logp += step
                if walk.logp < LOG_NEGLIGIBLE:
                    walk.chance.left_out += np.exp(walk.logp)
                    continue
                walk.node, walk.rest = histories.extend(walk.node, walk.rest[:1]), walk.rest[1:]
                walks.append(walk)
    return chances


def _ending(ids: Ids, paths: OptionPaths) -> tuple[int, int] | None:
    """(option, length) of the longest path with which `ids` end."""
    ends = [
        (len(path), option)
        for option, several in enumerate(paths.paths)
        for path in several
        if ids[len(ids) - len(path) :] == path
    ]
    if not ends:
        return None
    length, option = max(ends)
    return option, length


def _ahead(history: Ids, paths: OptionPaths, terminators: Terminators, limit: int) -> list[tuple[int, Ids]]:
    """(option, path) of what could begin after a history without mention, and be the first mention."""
    return [
        (option, path)
        for option, several in enumerate(paths.paths)
        for path in several
        if len(history) + len(path) < limit
        and _ending(history + path, paths) == (option, len(path))
        and not any(token in terminators.id_set and _ending(history + path[:i], paths) for i, token in enumerate(path))
    ]


def _mean(values: Floats) -> Estimate:
    n = len(values)
    se = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(values.shape[1], np.nan)
    return Estimate(values.mean(axis=0), se)


# Which option a sampled answer names, by the string match of the belief-consistency paper (appendix A).
#
# The lower-cased answer names an option if it contains the lower-cased option. It must name exactly one. This is
# taken as published: `apple` is found in `pineapple` too, and in `not apple`.


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
        thinking: whether the prompt has opened a thought; one that the answer opens is seen anyway.
    """
    none = "truncated" if sample.status == "truncated" else "unparsed"
    _, closed, answer = sample.text.rpartition(CLOSE)
    if not closed and (thinking or THINK in answer):
        return MatchedAnswer(None, none)
    named = [i for i, name in enumerate(names) if name.lower() in answer.lower()]
    if len(named) == 1:
        return MatchedAnswer(named[0], "ok")
    return MatchedAnswer(None, "ambiguous" if named else none)


def match_rows(answers: Iterable[MatchedAnswer], names: Sequence[str], low_coverage: float) -> list[dict[str, object]]:
    """The rows of the belief table that the answers to one prompt fill, without the columns of its experiment.

    `prob` is the share of each option among the answers that name one option, and `coverage` the share of those. Where
    none does, the status is that of most answers, and there is no number.
    """
    answers = list(answers)
    named = np.array([answer.option for answer in answers if answer.option is not None], dtype=np.int64)
    counts = np.bincount(named, minlength=len(names))
    valid = int(counts.sum())
    failed = Counter(answer.status for answer in answers if answer.option is None).most_common(1)
    if valid:
        status = "low_coverage" if valid < low_coverage * len(answers) else "ok"
    else:
        status = failed[0][0] if failed else "nan"
    prob, coverage = counts / (valid or np.nan), valid / (len(answers) or np.nan)
    return option_rows(names, prob, kind="verbal", coverage=coverage, status=status)


# The belief of a model that thinks before it answers: a mixture over thoughts.
#
# What it will answer is exact once a thought is there. Before it, the probability of an option is the mean over all
# thoughts that the model might have; the mean over K sampled ones estimates it without drawing an answer (Rao-
# Blackwell).
# A thought that is not closed within its limit leads to no answer: its mass is on no option.

Probabilities = NDArray[np.float64]


class Thoughts(Settings):
    """How thoughts are sampled: from the model's own distribution."""

    draws: int = Field(default=8, ge=1)
    """Thoughts before each read-out."""
    max_new_tokens: int = Field(default=3000, ge=1)
    """Of a thought, until it is closed."""


class Thought(NamedTuple):
    """A sampled thought, and the belief after it."""

    sample: GeneratedText
    reading: ExactReading | None
    """None if it was not closed."""

    @property
    def status(self) -> str:
        """`ok`; `truncated`: not closed within the limit; `unparsed`: the turn ended before it was."""
        return "ok" if self.reading else "truncated" if self.sample.status == "truncated" else "unparsed"


@dataclass(frozen=True)
class Mixture:
    """The belief of K thoughts."""

    thoughts: Sequence[Thought]
    options: tuple[Option, ...]

    @property
    def masses(self) -> Probabilities:
        """[K, options] probabilities after each thought; zero after one that was not closed."""
        nothing = np.zeros(len(self.options))
        return np.stack([np.exp(thought.reading.logp) if thought.reading else nothing for thought in self.thoughts])

    @property
    def unclosed(self) -> int:
        """How many thoughts were not closed."""
        return sum(thought.reading is None for thought in self.thoughts)

    @property
    def covariance(self) -> Probabilities | None:
        """[options, options] Monte-Carlo covariance of the mean masses: the squares of their standard errors are on the
        diagonal. None for one thought, which does not tell.
        """
        k = len(self.thoughts)
        return np.cov(self.masses, rowvar=False) / k if k > 1 else None

    def rows(self, low_coverage: float) -> list[dict[str, object]]:
        """The rows of the belief table, without the columns of the experiment. Where no thought was closed there is no
        number, and the status is that of most.
        """
        closed = [thought.reading for thought in self.thoughts if thought.reading]
        if not closed:
            status = Counter(thought.status for thought in self.thoughts).most_common(1)[0][0]
            names = [option.name for option in self.options]
            return option_rows(names, [np.nan] * len(names), kind="exact", coverage=0.0, status=status)
        logp = logsumexp([reading.logp for reading in closed], axis=0) - np.log(len(self.thoughts))
        prefilled = {"forced_logp": closed[0].prefilled_logp}  # the same after every thought
        return [row | prefilled for row in exact_rows(logp, self.options, low_coverage)]
