"""What the report of a map shows beside the numbers: controls, the map and its profiles, and the pairs."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
import pandas as pd

from ....metrics.number import Number
from ...report.figures import chart
from ...report.findings import Column, Figure, Findings, Gallery, Instance, Table, Transcript
from ...report.marks import Axis, band, cells, line, points, rule
from ...report.plotting import INK
from ...run.experiment import Transcripts
from ...run.galleries import gallery
from .ask import BASE, DONOR, EVERYTHING
from .config import LocateConfig
from .samples import SHARE, UPDATE, Map, Place, log_odds, maps, metric_name

CELL_INCHES = (0.52, 0.34)
LEFT_INCHES = 1.35
"""For the names of the spans."""
MARKERS = {"x": "×", "+": "+", "^": "△", "s": "□"}
"""Of controls, and how they are written."""


def map_figure(mapped: Map) -> Figure:
    """Spans by layers: the transfer of each cell as a colour and a number."""
    spans, layers = _axes(mapped)
    width, height = CELL_INCHES
    grid = [[mapped.get(Place(span, layer)) for layer in layers] for span in spans]
    drawn = cells(
        [[np.nan if cell is None else cell.transfer for cell in row] for row in grid],
        signed=True,
        written=[["" if cell is None else _number(cell.transfer) for cell in row] for row in grid],
        framed=[[cell is not None and cell.off_zero for cell in row] for row in grid],
        size=8,
    )
    names = ["emb." if layer < 0 else str(layer) for layer in layers]
    return chart(
        "Where is the change carried?",
        [("", [drawn])],
        "Transfer is the share of the change in log-odds from base to source that appears when the rows of one span "
        "are patched at one layer, averaged over both directions: 1 if the cell carries all of it, 0 if nothing. Spans "
        "are in the order of the prompt. In framed, bold cells the band over all cells (max-T) excludes 0, and the "
        "change is above numerical error; a framed .00 is small, but not zero.",
        x=Axis("after block (emb.: before the first)", ticks=range(len(layers)), names=names),
        y=Axis(ticks=range(len(spans)), names=spans),
        side=(width * len(layers), height * len(spans)),
        left=LEFT_INCHES,
    )


def profile_figure(mapped: Map, controls: Mapping[str, Map]) -> Figure:
    """A panel for each span: transfer over layers with its band, and the controls by their names."""
    scores = [score for each in (mapped, *controls.values()) for score in each.values()]
    shown = [x for s in scores for x in (s.transfer, s.band_lo, s.band_hi) if np.isfinite(x)]
    low, high = min([0.0, *shown]), max([1.0, *shown])
    margin = 0.05 * (high - low)
    panels = []
    for span in _axes(mapped)[0]:
        here = {place.layer: score for place, score in mapped.items() if place.span == span}
        lo, hi = [score.band_lo for score in here.values()], [score.band_hi for score in here.values()]
        marks = [band(list(here), lo, hi, "band of all cells", alpha=0.25)]
        for marker, (name, control) in zip(cycle(MARKERS), controls.items(), strict=False):
            there = {place.layer: score.transfer for place, score in control.items() if place.span == span}
            marks.append(points(list(there), list(there.values()), name, size=25, color=INK, marker=marker))
        marks.append(line(list(here), [score.transfer for score in here.values()], SOURCE, dots=2.5))
        panels.append((span, [*marks, rule(0, width=0.6), rule(1, width=0.6)]))
    names = ", ".join(f"{sign} {name}" for sign, name in zip(cycle(MARKERS.values()), controls, strict=False))
    return chart(
        "How does each span's share go over the layers?",
        panels,
        "Transfer, with the band that holds for all cells of the map at once; -1 is before the first block. The "
        f"controls are: {names or 'none'}.",
        x=Axis("after block"),
        y=Axis("transfer", (low - margin, high + margin)),
        columns=4,
    )


def _axes(cells: Map) -> tuple[list[str], list[int]]:
    """The spans in their order, and the layers."""
    return list(dict.fromkeys(place.span for place in cells)), sorted({place.layer for place in cells})


def _number(transfer: float) -> str:
    """Two decimals, without the zero before them and without the sign of a zero."""
    written = f"{transfer:.2f}".replace("-0.00", "0.00")
    return "–" if np.isnan(transfer) else written.replace("0.", ".", 1) if abs(transfer) < 0.995 else written


QUESTION = (
    "Two contexts that differ in a word lead to different answers: the base speaks for one option, the source for "
    "another. At the tokens of one span after one block, the whole residual stream of the base is replaced by the "
    "source's, and the base is read again; then the other way round. A place at which this moves the answer carries "
    "what the answer depends on. All read-outs are exact."
)
COLUMNS = (
    Column(UPDATE, "update", "mean change of log-odds from base to source, nats; transfer is a share of this change"),
    Column(SHARE, "change of share", "share of the first option among the two when the context speaks against it"),
    Column(EVERYTHING, "total effect", "transfer of all spans at all layers at once; must be 1"),
)
SOURCE = "source"
"""What a page calls the donor."""


def findings(_: LocateConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts) -> Findings:
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
        "The same cells, patched with rows of other contexts; numbers are shares of the same change. A source with the "
        "same answer should not change anything. An unrelated source takes away the base's answer without bringing "
        "another; where a single cell decides, this alone makes a half, since both directions meet in the middle. Each "
        "interval is for its cell alone.",
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
    change = by_item["log_odds", DONOR] - by_item["log_odds", BASE]

    def instance(i: int, texts: Mapping[str, Transcript]) -> Instance:
        row = by_item.iloc[i]
        base, donor = (texts[row["readout_id", name]] for name in (BASE, DONOR))
        first, second, *_ = base["options"]
        before, after = row["log_odds", BASE], row["log_odds", DONOR]
        facts = f"log-odds of {first} against {second}: {before:+.2f} in the base, {after:+.2f} in the source"
        return Instance([str(by_item.index[i])], after - before, facts, [(BASE, base), (SOURCE, donor)])

    return gallery(
        change.to_numpy(dtype=np.float64),
        lambda i: [str(by_item["readout_id", name].iloc[i]) for name in (BASE, DONOR)],
        instance,
        transcripts,
        facets=["pair"],
        score="change",
        ranking="pairs, the largest change",
        seed=0,
        most=len(by_item),
    )
