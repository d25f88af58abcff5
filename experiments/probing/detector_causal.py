"""Does the model's answer follow what a detector reads? Its activations are moved along the detector's pattern, and
along random ones that lie on the same principal components, where the detector reads (METRICS W10).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...base.errors import UserError
from ...base.text import shown
from ...hooks.backends.captures import CapturePlan
from ...hooks.edits.interventions import Intervention, Steer
from ...hooks.exact.option_beliefs import ExactReading
from ...hooks.exact.queries import Query
from ...hooks.lm import LanguageModel
from ...hooks.prompts.places import Position
from ...metrics.consistency.competence import NOT_SHOWN
from ...metrics.contract import RESAMPLING, Floats, Resampling
from ...metrics.inference.means import ClusterMean, cluster_mean
from ...probes.detectors import Detector
from ..report.cells import score_cell
from ..report.document import Block, Cell, grid
from .causal.contexts import edited_tokens
from .causal.interventions import by_turns

MOST_ROWS, RANDOM = 40, 19
ROUNDING = 1e-3
"""Nats up to which a change may be that of the arithmetic."""
FOLLOWS, OPPOSITE = "follows", "moves the other way"
SAID = {
    FOLLOWS: "the model's answer follows",
    OPPOSITE: "the model's answer moves the other way",
    NOT_SHOWN: "the model's answer is not shown to follow",
}


class CausalGain(NamedTuple):
    """What moving a detector's score does to the model's own answer."""

    fall: ClusterMean
    """In nats, of the log-odds that the model gives to what was said, for each standard deviation of the score towards
    a lie."""
    random: Floats
    """[directions] the same along patterns like it whose parts have random signs."""

    @property
    def verdict(self) -> str:
        """`follows`, or `moves the other way`, where the interval excludes 0 and no random direction does as much."""
        if not abs(self.fall.mean) > max(ROUNDING, np.abs(self.random).max()):
            return NOT_SHOWN
        return FOLLOWS if self.fall.ci_lo > 0 else OPPOSITE if self.fall.ci_hi < 0 else NOT_SHOWN

    @property
    def sentence(self) -> str:
        """The verdict."""
        return SAID[self.verdict]


def causal_gain(
    lm: LanguageModel,
    asked: Sequence[tuple[Query, Position]],
    clusters: Sequence[str],
    detector: Detector,
    *,
    seed: int = 0,
    how: Resampling = RESAMPLING,
) -> CausalGain:
    """The causal gain of a detector on the answer to a question of two options, the first of which is that what was
    said is true.

    Args:
        asked: [rows] a question after what was said, which captures where the detector reads, and that place.
        clusters: [rows] question of each. Of as many clusters as there are rows are drawn, 40 at most in all.
        seed: of the rows and of the random directions.

    A detector that was made of these very rows goes with all that its labels go with in them, and its answer then seems
    to follow it: give other rows.

    Raises UserError for fewer than two rows, and for a score that is the same in all.
    """
    order = np.random.default_rng(seed).permutation(len(clusters))  # a file may list all truths first
    chosen = order[by_turns([clusters[i] for i in order])[:MOST_ROWS]].tolist()
    queries, places = zip(*(asked[i] for i in chosen), strict=True)
    steps = steps_along(_activations(lm, queries, detector), detector, seed)
    falls = np.array(
        [_falls(lm, query, place, detector.layers, steps) for query, place in zip(queries, places, strict=True)]
    )
    fall = cluster_mean(falls[:, 0], [clusters[i] for i in chosen], how=how)
    return CausalGain(fall, falls[:, 1:].mean(axis=0))


def _activations(lm: LanguageModel, queries: Sequence[Query], detector: Detector) -> Floats:
    """[rows, layers, d] where the detector reads."""
    layers = sorted(detector.layers)
    captured = lm.read(queries, capture=CapturePlan(layers=tuple(layers))).captured
    assert captured is not None
    (values,) = captured.residuals.values()
    return values[:, [layers.index(layer) for layer in detector.layers]].double().numpy()


def steps_along(x: Floats, detector: Detector, seed: int) -> Floats:
    """[1 + directions, layers, d] what goes with the score in the activations [rows, layers, d], for one standard
    deviation of it (Haufe's pattern); and the same with the signs of its parts on the principal components (of all
    layers together) drawn at random: as long, and as much of each where activations vary much.

    Raises UserError for fewer than two rows, and for a score that is the same in all.
    """
    score = detector.score(x)
    score = score - score.mean()
    if len(x) < 2:
        raise UserError(f"{detector.name}: is moved by how its score varies; give two rows or more")
    if not (sd := float(score.std())) > 0:
        raise UserError(f"{detector.name}: its score is the same in all rows; there is nothing to move it by")
    rows, sizes, components = np.linalg.svd((x - x.mean(axis=0)).reshape(len(x), -1), full_matrices=False)
    parts = sizes * (score @ rows) / (len(x) * sd)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(RANDOM, len(parts)))
    return (np.vstack([np.ones(len(parts)), signs]) * parts @ components).reshape(-1, *x.shape[1:])


def _falls(lm: LanguageModel, query: Query, place: Position, layers: Sequence[int], steps: Floats) -> list[float]:
    """[1 + directions] half the fall of the log-odds from a step away from a lie to one towards it, in one tree."""
    at = edited_tokens(place)
    edits: dict[str, list[Intervention]] = {
        f"{sign:+}-{k}": [
            Steer(part, strength=sign, layers=layer, at=at) for part, layer in zip(step, layers, strict=True)
        ]
        for k, step in enumerate(steps)
        for sign in (-1, 1)
    }
    up_and_down = np.array([_log_odds(reading) for reading in lm.read([query], edits=edits).readings[1:]])
    return (-np.diff(up_and_down.reshape(-1, 2)).ravel() / 2).tolist()


def _log_odds(reading: ExactReading) -> float:
    return float(reading.logp[0] - reading.logp[1])


def causal_table(gains: dict[str, CausalGain]) -> Block:
    """Of detectors by name."""
    rows = [
        [name, gain.verdict, score_cell(gain.fall), Cell(shown(float(np.abs(gain.random).max())))]
        for name, gain in gains.items()
    ]
    about = (
        "Fall of the log-odds, in nats, that the model's own answer gives to what was said, when the activations that "
        "the detector reads are moved towards a lie by one standard deviation of its score; and the largest change by "
        f"{RANDOM} random directions like it: the signs of its parts on the principal components are drawn."
    )
    heads = ["", "the answer", "causal gain", "largest of random directions"]
    return grid("Does the answer follow it?", heads, rows, about, short=True)
