"""The option that an answer names first, as token paths: counted in samples, and expected along them.

An answer *mentions* an option where one of the option's paths and then a terminator stand in its ids. The first
mention is the one whose terminator comes first; of two that end together, the longer (`blueberry`, not `berry`).
P(o) is the probability that an answer's first mention is of o.

At every history h of a sampled answer, the chance that the first mention begins *now* and is of o is exact: the
sum of P(path, terminator | h) over the paths that would not be preceded by another mention. Summed along the
answer, its mean over answers is P(o): each term is the conditional expectation, given h, of the event that the first
mention begins there, and these events are disjoint. The sum may exceed 1 for one answer; it need not vary less than
the 0/1 hit (an option that comes sooner or later anyway).

This is not the string match of `verbalised` (exactly one option anywhere in the text, in any spelling): whether
a second option follows depends on the whole future, which no step knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..exact.exact import UNEMBED_ROWS
from ..model.head import Head
from ..prompts.options import OptionPaths, Terminators
from ..prompts.query import Query
from .generation import GeneratedText
from .growing import Histories, Node
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


def opening_option(ids: Sequence[int], paths: OptionPaths, terminators: Terminators) -> int | None:
    """The option with which an answer begins: the event whose probability the exact read-out gives."""
    for option, several in enumerate(paths.paths):
        for path in several:
            if tuple(ids[: len(path)]) == path and not terminators.id_set.isdisjoint(ids[len(path) : len(path) + 1]):
                return option
    return None


def first_mention(ids: Sequence[int], paths: OptionPaths, terminators: Terminators) -> Mention | None:
    """The first mention in an answer, if there is one."""
    for end, token in enumerate(ids):
        if token in terminators.id_set and (found := _ending(tuple(ids[:end]), paths)):
            option, length = found
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
