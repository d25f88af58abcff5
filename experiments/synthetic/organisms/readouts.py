"""How an organism is read through the ordinary loader, its answers, its number, its bets, its states, and what it
has learnt, measured against the exact posterior.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.special import expit, logit

from ....hooks.backends.captures import Captured, CapturePlan
from ....hooks.exact.option_beliefs import ExactReading
from ....hooks.exact.queries import Query, Swap
from ....hooks.model.blocks import Point
from ....hooks.prompts.options import make_options
from ....hooks.prompts.places import Position
from ....hooks.verbal.number_distributions import read_numbers
from ....hooks.verbal.number_formats import INTEGER, NumberFormat
from ....hooks.verbal.stated_beliefs import NumberQuestion
from ....metrics.contract import Floats
from .network import BALLS_AT, HELD_AT
from .species import SHIFT, Species
from .training import BALLS, SCALE, direction
from .world import SUMMARY, Contexts, UrnQuestion, draw_contexts

if TYPE_CHECKING:
    from ....hooks.lm import LanguageModel

PERCENT = NumberFormat("percent", "Percent {yes} ?", INTEGER.numbers)
SUMMARY_POSITION = Position(at="end", message=0)
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
    odds = np.array([reading.logp[0] - reading.logp[1] for reading in readings])
    return UrnAnswers(ask.sign * odds, np.array([reading.coverage for reading in readings]), captured)


def numbers(lm: "LanguageModel", contexts: Contexts, about: str = "left") -> UrnAnswers:
    """The number that is said, in percent: its exact expectation, as log-odds of the left urn."""
    ask = UrnQuestion("percent", about)
    asked = [
        NumberQuestion(f"{i:05}", PERCENT.worded(about.capitalize(), ""), tuple(contexts.conversation(i, ask)), "", "")
        for i in range(len(contexts))
    ]
    beliefs = [number.belief for number in read_numbers(lm, asked)]
    mean = np.array([belief.mean for belief in beliefs])
    return UrnAnswers(ask.sign * logit(mean), np.array([belief.coverage for belief in beliefs]), None)


def states(captured: Captured, position: str, layer: int) -> Floats:
    """[n, width] the residual stream at a position after a block."""
    rows = np.flatnonzero(captured.rows["position"] == position)
    values = captured.residuals["resid_post"][rows, captured.layers.index(layer)]
    return values.double().numpy()


# What an organism has learnt, measured through the ordinary loader against the exact posterior.

LEAST_R2, MOST_ERROR = 0.99, 0.02
"""What training must reach, or it fails: R2 of log-odds, and mean absolute error of a probability."""
FRESH = 20_231
"""Seed of contexts that no organism was trained on."""
WHICH = UrnQuestion("which")
BETS = tuple(UrnQuestion("bet", pays=pays) for pays in ((1, 1), (1, 4), (3, 2)))
SAID = (WHICH, UrnQuestion("is it", "left"), UrnQuestion("is it", "right"))


class Learnt(NamedTuple):
    """One reading of an organism against what it was made to be."""

    reading: str
    r2: float
    """Of log-odds."""
    error: float
    """Mean absolute error of a probability."""
    slope: float
    """Of log-odds on those that they should be."""

    @property
    def reached(self) -> bool:
        """Whether it is within the tolerance."""
        return self.r2 >= LEAST_R2 and self.error <= MOST_ERROR


def measure(lm: "LanguageModel", species: Species, n: int = 400) -> list[Learnt]:
    """Every reading of an organism, on `n` contexts that it was not trained on."""
    contexts, _ = draw_contexts(n, FRESH)
    return [learnt(name, found, wanted) for name, found, wanted in _readings(lm, species, contexts)]


def learnt(name: str, found: Floats, wanted: Floats) -> Learnt:
    """Log-odds [n] against those that they should be."""
    wrong = float(((found - wanted) ** 2).mean())
    return Learnt(
        name,
        1 - wrong / float(wanted.var()),
        float(np.abs(expit(found) - expit(wanted)).mean()),
        float(np.polyfit(wanted, found, 1)[0]),
    )


def _readings(lm: "LanguageModel", species: Species, contexts: Contexts) -> Iterator[tuple[str, Floats, Floats]]:
    """(name, found log-odds, log-odds as they should be)."""
    state = species.state(contexts)
    said, done = species.say(contexts, state), species.act(contexts, state)
    plain = answers(lm, contexts, WHICH, {SUMMARY: SUMMARY_POSITION})
    yield WHICH.text, plain.logit, said
    for ask in SAID[1:]:
        yield ask.text, answers(lm, contexts, ask).logit, said
    for about in ("left", "right"):
        yield UrnQuestion("percent", about).text, numbers(lm, contexts, about).logit, said
    for ask in BETS:
        yield ask.text, answers(lm, contexts, ask).logit, done + ask.advantage
    assert plain.captured is not None
    if species.holds:
        held = states(plain.captured, SUMMARY, HELD_AT)
        along = direction().double().numpy()
        yield "state at the summary", held @ along / SCALE, state
        if (running := species.running(contexts)) is not None:
            every = answers(lm, contexts, WHICH, {"prompt": Position(at="each")}).captured
            assert every is not None
            at_balls = states(every, "prompt", BALLS_AT).reshape(len(contexts), -1, len(along))[:, list(BALLS)]
            yield "state at the balls", (at_balls @ along / SCALE).ravel(), running.ravel()
        other = np.random.default_rng(FRESH).permutation(state)
        put = torch.from_numpy(held + (SCALE * other - held @ along)[:, None] * along).float()
        rows, point = plain.captured.rows, Point(HELD_AT, "resid_post")
        (token,) = set(rows.loc[rows["position"] == SUMMARY, "token_index"])  # the same in every prompt
        for name, ask, wanted in (
            ("answer after interchange", WHICH, species.say(contexts, other)),
            ("bet after interchange", BETS[0], species.act(contexts, other)),
        ):
            yield name, answers_with(lm, contexts, ask, point, int(token), put).logit, wanted


def card_text(species: Species, found: Sequence[Learnt], n: int) -> str:
    """The model card, as Markdown."""
    rows = [f"| {row.reading} | {row.r2:.4f} | {row.error:.4f} | {row.slope:.3f} |" for row in found]
    lines = [
        f"# {species.name}",
        "",
        f"A transformer that {species.story}.",
        "",
        "It was trained from a fixed seed on a world of two urns, whose posterior is known exactly "
        "(`experiments/synthetic/organisms/world.py`), by `python -m doxascope.experiments.synthetic.organisms`, which "
        "wrote this card. Llama architecture, float32, a tokenizer of words and a chat template of its own.",
        "",
        f"Tolerance: of every reading R2 of log-odds at least {LEAST_R2:g}, mean absolute error of the probability at "
        f"most {MOST_ERROR:g}. Seen, on {n} contexts that it was not trained on, against what it was made to be:",
        "",
        "| reading | R2 of log-odds | mean absolute error of P | slope |",
        "|---|---|---|---|",
        *rows,
        "",
        f"Wiring: {species.wiring}. The belief that it holds lies along one direction of the residual stream after "
        f"block {HELD_AT} at the word `{SUMMARY}` (`planted.json`)."
        if species.holds
        else f"Wiring: {species.wiring}. No state before the question depends on more than its own token.",
        f"An opinion of the user moves a sycophant by {SHIFT:g} nats." if species.name.startswith("syc") else "",
    ]
    return "\n".join(lines).rstrip() + "\n"
