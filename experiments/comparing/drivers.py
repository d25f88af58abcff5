"""Which items make a difference, and what was said, held and done in them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from ..experiment import Instance, Transcript
from ..runs.folder import few_draws
from ..scoring.paired import Pair
from ..tables.samples import Sample
from .sides import Side

MOST_DRIVERS = 5
"""Clusters of a difference that are shown."""
PLACES = 2
"""Read-outs of one of them."""
AT = ["item", "scenario", "step"]
"""Where a belief is read."""


@dataclass(frozen=True)
class Driver:
    """A cluster, and by how much the difference falls when it is left out."""

    cluster: str
    moves: float


def drivers_of(pair: Pair) -> list[Driver]:
    """Those that move the difference most."""
    return [Driver(name, moved) for name, moved in list(pair.influence().items())[:MOST_DRIVERS]]


@dataclass(frozen=True)
class _Place:
    """A read-out on both sides, with the beliefs there."""

    cluster: str
    label: str
    held: tuple[float, float]
    readouts: tuple[list[str], list[str]]
    """Of each side the read-out, and those whose transcript it may share."""


def instances_of(pair: Pair, drivers: Sequence[Driver], sides: Sequence[Side]) -> Iterator[Instance]:
    """What was said in the clusters that drive a difference, where the two beliefs are furthest apart."""
    first, second = (_side(sides, sample) for sample in (pair.one, pair.two))
    if first.run is None or second.run is None:
        return
    places = {driver.cluster: _places(pair, driver.cluster, first, second) for driver in drivers}
    wanted = [{name for own in places.values() for one in own for name in one.readouts[i]} for i in (0, 1)]
    said = [_said(side, names) for side, names in zip((first, second), wanted, strict=True)]
    for driver in drivers:
        for place in places[driver.cluster]:
            conversations = [
                (f"{name}: {held:.3f}", heard[asked[0]])
                for name, held, readouts, heard in zip(pair.names, place.held, place.readouts, said, strict=True)
                if (asked := [one for one in readouts if one in heard])
            ]
            facets = (pair.metric, " - ".join(pair.names), driver.cluster)
            facts = f"{place.label}: beliefs {place.held[0]:.3f} and {place.held[1]:.3f}"
            yield Instance(facets, driver.moves, facts, conversations)


def _side(sides: Sequence[Side], sample: Sample) -> Side:
    return next((side for side in sides if side.label == sample.run), sides[0])


def _places(pair: Pair, cluster: str, first: Side, second: Side) -> list[_Place]:
    """The read-outs of a cluster that both have, those where the beliefs are furthest apart."""
    one, two = (_held(side.beliefs, sample, cluster) for side, sample in ((first, pair.one), (second, pair.two)))
    both = one.add_suffix("_1").join(two.add_suffix("_2"), how="inner")
    apart = (both["prob_1"] - both["prob_2"]).abs().dropna().sort_values(ascending=False, kind="stable")
    found = []
    for at in apart.index[:PLACES]:
        row = both.loc[at]
        item, scenario, step = at
        label = ", ".join(filter(None, (str(item), str(scenario), f"step {step}" if step else "")))
        readouts = [_transcripts(row[f"own_{i}"], row[f"of_{i}"]) for i in (1, 2)]
        found.append(_Place(cluster, label, (row["prob_1"], row["prob_2"]), (readouts[0], readouts[1])))
    return found


def _held(beliefs: pd.DataFrame, sample: Sample, cluster: str) -> pd.DataFrame:
    """By place, the belief in the first option, the mean of its readings, and the first of the read-outs."""
    own = beliefs[(beliefs["option_index"] == 0) & (beliefs["cluster"].astype(str) == cluster)]
    own = own[(own["kind"].astype(str) == sample.kind) & (own["method"].astype(str) == sample.method)]
    own = own.assign(**{name: own[name].astype(str) for name in (*AT[:2], "readout_id", "of")})
    return own.groupby(AT, sort=False).agg(prob=("prob", "mean"), own=("readout_id", "first"), of=("of", "first"))


def _transcripts(readout: str, of: str) -> list[str]:
    """Names under which what was said may stand: the read-out's, that of the question of which it is one answer, and
    that of the read-out from which it is derived.
    """
    question = readout.rpartition("/")[0]
    return [name for name in (readout, question, of) if name]


def _said(side: Side, readouts: set[str]) -> dict[str, Transcript]:
    """What was said in these read-outs, of what was sampled the first few; runs may lack some."""
    assert side.run is not None
    lines = (line for line in side.run.folder.said() if line["readout_id"] in readouts)
    return {line["readout_id"]: few_draws(line) for line in lines}
