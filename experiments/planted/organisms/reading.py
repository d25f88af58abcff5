"""How an organism is read through the ordinary loader: its answers, its number, its bets, its states."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import logit

from ....hooks.backends.capture import CapturePlan
from ....hooks.backends.captured import Captured
from ....hooks.exact.exact import ExactReading
from ....hooks.model.points import Point
from ....hooks.prompts.options import make_options
from ....hooks.prompts.places import Position
from ....hooks.prompts.query import Query, Swap
from ....hooks.verbal.asking import NumberQuestion
from ....hooks.verbal.exact_numbers import read_numbers
from ....hooks.verbal.formats import INTEGER, NumberFormat
from ..trajectories import Floats
from .language import SUMMARY
from .world import Contexts, UrnQuestion

if TYPE_CHECKING:
    import torch

    from ....hooks.lm import LanguageModel

PERCENT = NumberFormat("percent", "Percent {yes} ?", INTEGER.numbers)
NOTED = Position(at="end", message=0)
"""The end of the evidence: the last token before the question, one message earlier than any answer."""


class UrnAnswers(NamedTuple):
    """One question, asked after each of n contexts."""

    logit: Floats
    """[n] of the left urn, natural log-odds; of a bet those of the bet, with its payoffs."""
    coverage: Floats
    """[n] total probability of the answers."""
    captured: Captured | None


def queries_of(
    lm: "LanguageModel", contexts: Contexts, ask: UrnQuestion, positions: Mapping[str, Position] | None = None
) -> list[Query]:
    """The queries of a question, one for each context."""
    options = make_options(ask.options)
    return [
        lm.reader.query(f"{i:05}/{ask.text}", contexts.conversation(i, ask), options, positions=positions)
        for i in range(len(contexts))
    ]


def answers(
    lm: "LanguageModel", contexts: Contexts, ask: UrnQuestion, positions: Mapping[str, Position] | None = None
) -> UrnAnswers:
    """What is answered, and the residual stream after every block at the positions, if any are given."""
    queries = queries_of(lm, contexts, ask, positions)
    found = lm.read(queries, capture=CapturePlan() if positions else None)
    return _answered(found.readings, ask, found.captured)


def answers_with(
    lm: "LanguageModel", contexts: Contexts, ask: UrnQuestion, point: Point, token: int, rows: "torch.Tensor"
) -> UrnAnswers:
    """The same with other rows [n, width] of the residual stream at one token of each prompt (activation patching)."""
    queries = [
        replace(query, swap=Swap((token,), {point: rows[i : i + 1]}))
        for i, query in enumerate(queries_of(lm, contexts, ask))
    ]
    return _answered(lm.read(queries).readings, ask, None)


def _answered(readings: Sequence[ExactReading], ask: UrnQuestion, captured: Captured | None) -> UrnAnswers:
    odds = np.array([one.logp[0] - one.logp[1] for one in readings])
    return UrnAnswers(ask.sign * odds, np.array([one.coverage for one in readings]), captured)


def numbers(lm: "LanguageModel", contexts: Contexts, about: str = "left") -> UrnAnswers:
    """The number that is said, in percent: its exact expectation, as log-odds of the left urn."""
    ask = UrnQuestion("percent", about)
    asked = [
        NumberQuestion(f"{i:05}", PERCENT.worded(about.capitalize(), ""), tuple(contexts.conversation(i, ask)), "", "")
        for i in range(len(contexts))
    ]
    said = [one.belief for one in read_numbers(lm, asked)]
    mean = np.array([one.mean for one in said])
    return UrnAnswers(ask.sign * logit(mean), np.array([one.coverage for one in said]), None)


def states(captured: Captured, position: str, layer: int) -> Floats:
    """[n, width] the residual stream at a position after a block."""
    rows = np.flatnonzero(captured.rows["position"] == position)
    values = captured.residuals["resid_post"][rows, captured.layers.index(layer)]
    return values.double().numpy()


def token_of(captured: Captured, position: str) -> int:
    """The token at which a position lies, the same in every prompt."""
    (token,) = set(captured.rows.loc[captured.rows["position"] == position, "token_index"])
    return int(token)


SUMMARY_AT: Mapping[str, Position] = {SUMMARY: NOTED}
