"""What the report of a map shows beside the numbers."""

from collections.abc import Mapping, Sequence

import pandas as pd

from ..experiment import Column, Findings, Gallery, Instance, Table, Transcripts
from ..scoring.number import Number
from .figures import map_figure, profile_figure
from .interchange import BASE, DONOR, EVERYTHING
from .samples import SHARE, UPDATE, Map, log_odds, maps, metric_name

QUESTION = (
    "Two contexts that differ in a word lead to different answers: the base speaks for one option, the source for "
    "another. The source's residual stream, all of it, is put in place of the base's at the tokens of one span after "
    "one block, and the base is read again; and the other way round. What moves the answer there carries what the "
    "answer depends on. All read-outs are exact."
)
COLUMNS = (
    Column(UPDATE, "update", "mean change of log-odds from base to source, in nats; what transfer is a share of"),
    Column(SHARE, "change of share", "of the first option among the two when the context speaks against it"),
    Column(EVERYTHING, "total effect", "transfer of all spans at all layers at once; must be 1"),
)
SOURCE = "source"
"""What a page calls the donor."""


def findings(beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts) -> Findings:
    """The controls, the map, its profiles, and the pairs."""
    drawn = maps(beliefs, numbers)
    controls = {name: cells for name, cells in drawn.items() if name != DONOR}
    return Findings(
        question=QUESTION,
        columns=COLUMNS,
        tables=[_control_table(controls)] if controls else [],
        figures=[map_figure(drawn[DONOR]), profile_figure(drawn[DONOR], controls)],
        gallery=_gallery(beliefs, transcripts),
    )


def _control_table(controls: Mapping[str, Map]) -> Table:
    """The cells in which the controls were read, beside the source."""
    first = next(iter(controls))
    return Table(
        "Do the controls carry anything?",
        "The same cells with rows of other contexts, as a share of the same change. A source with the same answer "
        "should bring nothing. An unrelated one brings no answer but takes away the own one; where a cell is all that "
        "counts, that alone is worth a half, for both directions meet in the middle. Intervals are of each cell alone.",
        (
            Column(metric_name(DONOR), SOURCE, f"transfer from the {SOURCE}"),
            *(Column(metric_name(name), name, f"transfer from the {name}") for name in controls),
        ),
        tuple(map(str, controls[first])),
        metric=metric_name(first),
    )


def _gallery(beliefs: pd.DataFrame, transcripts: Transcripts) -> Gallery:
    """Every pair, the largest change first."""
    readouts = log_odds(beliefs[beliefs["scenario"].isin((BASE, DONOR))])
    by_item = readouts.pivot(index="item", columns="scenario", values=["log_odds", "readout_id"])
    said = transcripts({*by_item["readout_id", BASE], *by_item["readout_id", DONOR]})
    instances = []
    for item, row in by_item.iterrows():
        base, donor = (said[row["readout_id", name]] for name in (BASE, DONOR))
        first, second, *_ = base["options"]
        before, after = row["log_odds", BASE], row["log_odds", DONOR]
        facts = f"log-odds of {first} against {second}: {before:+.2f} in the base, {after:+.2f} in the source"
        instances.append(Instance([str(item)], after - before, facts, [(BASE, base), (SOURCE, donor)]))
    return Gallery(
        caption=f"All {len(instances)} pairs, the largest change first.",
        facets=["pair"],
        score="change",
        instances=sorted(instances, key=lambda one: -one.score),
    )
