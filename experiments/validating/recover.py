"""Planted against recovered, number by number."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ...hooks.lm import LanguageModel
from ...metrics import Score
from ...metrics.validation import Floats
from ..planted.organisms.network import BALLS_AT
from ..planted.organisms.species import ORGANISMS, Species, shift_of
from ..planted.organisms.world import Contexts, draw_contexts
from ..scoring.engine import score_samples
from ..scoring.number import Number, Resampling
from ..tables.samples import Decisions, Forecasts, Sample, YesNo
from .beliefs import (
    ANSWER,
    BET,
    BETS,
    PROBE,
    READINGS,
    SUMMARY,
    WHICH,
    Effort,
    Probed,
    Sides,
    planted_sides,
    read_sides,
)
from .claims import Claimed, beyond_random, denied, held, shift_number, sycophancy
from .inner import lens_numbers
from .numbers import (
    AT_BALLS,
    DECODED,
    FRAMING,
    GAIN,
    RANDOM,
    RMSE,
    SHARE,
    SHIFT,
    SUFFICIENT,
    SURGERY,
    TOLERANCE,
    UNUSED,
    Recovered,
    line,
)
from .used import check_of_opinion, checks_of_belief, random_gain
from .where import (
    BALLS,
    QUESTION,
    READ,
    Token,
    cell_name,
    decodable,
    held_from,
    planted_from,
    tokens_of,
    transfer_map,
    used_at_summary,
)

FEWEST = 50
"""Draws of intervals that nobody reads."""


class Certified(NamedTuple):
    """A claim of what is planted, and whether it was made."""

    planted: bool
    claimed: Claimed

    @property
    def right(self) -> bool:
        """Whether it was claimed if, and only if, it is so."""
        return self.planted == self.claimed.certified


class HeldFrom(NamedTuple):
    """The part of the prompt from which on the final posterior can be decoded, and how long before the answer."""

    planted: str
    found: str
    lead: int
    """Tokens from there to the one at which the answer is read; 0 if it is never decodable."""


@dataclass(frozen=True)
class Organism:
    """Everything about one organism."""

    species: Species
    numbers: Sequence[Recovered]
    claims: Sequence[Certified]
    place: HeldFrom
    tokens: Sequence[Token]
    r2: Floats
    """[tokens, layers]."""
    map: Sequence[Number]
    """Share of an update, part by part and layer by layer."""
    posterior: Floats
    """[n] log-odds."""
    sides: Sides
    """As they were found."""

    @property
    def recovered(self) -> bool:
        """Whether everything that was planted was found, and nothing else."""
        if self.place.planted != self.place.found or any(one.found is False for one in self.numbers):
            return False
        return all(one.right for one in self.claims)


def recover(lm: LanguageModel, species: Species, effort: Effort) -> Organism:
    """Read an organism in every way, and lay what is found beside what was planted."""
    how = Resampling(effort.seed)
    contexts, left = draw_contexts(effort.contexts, [effort.seed, 1])
    found, probed = read_sides(lm, contexts, effort)
    posterior, some = contexts.logit, contexts.take(np.arange(min(effort.pairs, len(contexts))))
    tokens = tokens_of(lm, contexts)
    r2 = decodable(lm, contexts, probed)
    first = held_from(r2, tokens)
    moved = transfer_map(lm, some, r2.shape[1], how)
    steered, beyond = _steered(lm, species, probed, effort)
    return Organism(
        species,
        [
            *_shifts(species, found, posterior, how),
            *_compared(species, found, contexts, probed, left.astype(np.float64), how),
            *lens_numbers(lm, species, contexts, effort),
            *_used(lm, species, some, moved, how),
            _decoded(species, probed),
            *steered,
        ],
        [
            Certified(not math.isclose(shift_of(species)["answer"], 0), sycophancy(found, posterior, how)),
            Certified(species.holds, held(probed)),
            Certified(species.denies, denied(found, probed, left.astype(np.float64), effort)),
            *beyond,
        ],
        HeldFrom(
            planted_from(species.running(contexts), species.holds, posterior),
            QUESTION if first and first.part == READ else first.part if first else "nowhere",
            len(tokens) - 1 - first.at if first else 0,
        ),
        tokens,
        r2,
        moved,
        posterior,
        found,
    )


def _shifts(species: Species, found: Sides, posterior: Floats, how: Resampling) -> Iterator[Recovered]:
    """What the user's opinion does to each reading.

    The probe is trained where nobody has an opinion, and need not be calibrated where somebody has: what it reads there
    is shown, and nothing is asked of it. What is held is told by the patched state of the summary.
    """
    wanted = shift_of(species)
    for name in (*READINGS, SUMMARY):
        score = shift_number(found.plain[name], found.told[name], posterior, name, how).score
        yield line(SHIFT, name, math.nan if name == PROBE else wanted["action" if name == BET else name], score)


def _compared(
    species: Species, found: Sides, contexts: Contexts, probed: Probed, left: Floats, how: Resampling
) -> Iterator[Recovered]:
    """Numbers of the engine, of what was found and of what was planted in the same contexts, in this organism and, as
    rivals, in the others.
    """
    mine = _scores(found, contexts.logit, left, how)
    theirs = {
        one.name: _scores(planted_sides(one, contexts, probed), contexts.logit, left, replace(how, draws=FEWEST))
        for one in ORGANISMS
    }
    for key, what in {
        **{("rmse_truth", name): RMSE for name in READINGS},
        ("framing_bias", "yes and no"): FRAMING,
        ("sufficiency", "bet by answer"): SUFFICIENT,
    }.items():
        values = {name: scores[key].estimate for name, scores in theirs.items()}
        rivals = None if what == FRAMING else tuple(sorted({*values.values()}))
        yield line(what, key[1], values[species.name], mine[key], rivals)


def _scores(sides: Sides, posterior: Floats, left: Floats, how: Resampling) -> dict[tuple[str, str], Score]:
    """(Metric, reading) -> score."""
    return {
        (one.metric, one.method): one.score
        for family in ("truth", "readout", "sufficiency")
        for one in score_samples([*_samples(sides, posterior, left)], how, family).numbers
    }


def _samples(sides: Sides, posterior: Floats, left: Floats) -> Iterator[Sample]:
    names = np.array([f"{i:05}" for i in range(len(left))])
    shared = {"kind": "exact", "clusters": names, "keys": names}
    beliefs = {name: expit(values) for name, values in sides.plain.items()}
    for name in READINGS:
        yield Forecasts(method=name, belief=beliefs[name], p_star=expit(posterior), **shared)
    yes, no = (expit(one) for one in sides.yes)
    yield YesNo(method="yes and no", belief=yes, negated=1 - no, mass=np.ones(len(left)), **shared)
    done = beliefs[BET]
    yield Decisions(
        method="bet by answer",
        belief=beliefs[ANSWER],
        action=(done > 0.5).astype(np.int64),
        action_prob=done,
        outcome=left,
        **shared,
    )


def _used(
    lm: LanguageModel, species: Species, contexts: Contexts, moved: Sequence[Number], how: Resampling
) -> Iterator[Recovered]:
    """What moves with the states of the summary and of the balls, as a share of what Bayes' rule says should move."""
    for reading, ask in ((ANSWER, WHICH), (BET, BETS[0])):
        planted = float(species.holds and not (species.denies and reading == ANSWER))
        yield line(SHARE, reading, planted, used_at_summary(lm, contexts, ask, how).score)
    at_balls = next(one.score for one in moved if one.subset == cell_name(BALLS, BALLS_AT))
    yield line(AT_BALLS, ANSWER, float(species.wiring == "early"), at_balls)


def _decoded(species: Species, probed: Probed) -> Recovered:
    one = probed.r2
    return Recovered(DECODED, PROBE, float(species.holds), one.value, one.lo, one.hi, TOLERANCE[DECODED], (0.0, 1.0))


def _steered(
    lm: LanguageModel, species: Species, probed: Probed, effort: Effort
) -> tuple[list[Recovered], list[Certified]]:
    """What follows the probe's belief; where nothing is held there is nothing to steer along."""
    numbers: list[Recovered] = []
    claims: list[Certified] = []
    if not held(probed).certified:
        return numbers, claims
    for reading, check in checks_of_belief(lm, probed, effort):
        follows = species.holds and not (species.denies and reading == ANSWER)
        assert check.numbers.surgery is not None
        numbers += [
            line(GAIN, reading, float(follows), check.numbers.gains["pattern"]),
            line(RANDOM, reading, 0.0, random_gain(check, effort)),
            line(SURGERY, reading, float(follows), check.numbers.surgery.exact),
        ]
        claims.append(Certified(follows, beyond_random(check, reading)))
    if not any(shift_of(species).get(name) for name in ("answer", "summary")):
        numbers.append(line(UNUSED, ANSWER, 0.0, check_of_opinion(lm, effort).numbers.gains["means"]))
    return numbers, claims
