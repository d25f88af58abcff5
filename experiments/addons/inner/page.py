"""The section of a report about inner layers: the profile over layers, and the gates."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....hooks.lens.lens import View
from ....hooks.lens.plan import Gate
from ....metrics import Score
from ...experiment import Column, Figure
from ...report.blocks import Block, Cell, Picture, Prose, TableBlock
from ...report.plotting import INK, MARK, panel_figure
from .scores import Layer, Profile

GATES = {"coverage": "coverage", "partial_corr": "words", "evidence_response": "evidence", "items_responding": "items"}
"""Gate -> what its row of crosses is called in the figure."""
ROW = 0.09
"""Of the height of the scores, for a row of crosses below them."""
SMALLEST_RANGE = 0.02
LAYER = {"color": MARK, "marker": "o", "markersize": 3.5, "linestyle": "none"}
KEY = {
    "layer that passes": LAYER,
    "layer that fails": LAYER | {"fillstyle": "none"},
    "the model's own answer": {"color": INK, "linewidth": 1},
    "the words alone": {"color": INK, "linewidth": 0.9, "linestyle": (0, (1, 2))},
    "gate that fails": {"color": INK, "marker": "x", "markersize": 2.5, "linestyle": "none"},
}


def inner_blocks(columns: Sequence[Column], profiles: Sequence[Profile], gate: Gate) -> list[Block]:
    """The figure of all methods that were read inside, and the gates layer by layer."""
    read = [(profile.method, view, one) for profile in profiles for view, one in profile.inner.items()]
    judged = read[0][2].gate.n_clusters
    clusters = judged + profiles[0].exact[columns[0].metric].n_clusters
    passed = sum(one.gate.passed for *_, one in read)
    figure = profile_figure(columns[0], profiles)
    text = (
        "What inner layers would answer: by the logit lens (raw: as they are), by the tuned lens (translated: an "
        "affine map that was fitted on text without the items' words) and, where asked for, by their mean Jacobian on "
        "that text. "
        f"Gates: {judged} of {clusters} clusters judge, the others score. {passed} of "
        f"{len(read)} read-outs pass: coverage at least {gate.coverage:g}, correlation with the exact log-odds beyond "
        f"the words at least {gate.partial_corr:g}, the exact answer's response to evidence, in more than half of "
        "the clusters, where five or more say. What fails is no belief and enters no other number of this page."
    )
    scored = [(column.title, column.explanation) for column in columns]
    judges = [(name, "") for name in ("coverage", "beyond the words", "evidence, nat", "share that responds", "fails")]
    return [
        Prose(title=figure.title, text=text, soft=True),
        Picture(figure=figure),
        TableBlock(
            name="Gates, layer by layer",
            head=[("method", ""), ("layer", ""), *scored, *judges],
            rows=[_gated(columns, *one) for one in read],
            folded=True,
        ),
    ]


def profile_figure(column: Column, profiles: Sequence[Profile]) -> Figure:
    """The headline over layers, a panel for each method and lens."""
    panels = [
        (f"{profile.method}, {lens}", (profile, {v.layer: r for v, r in profile.inner.items() if v.lens == lens}))
        for profile in profiles
        for lens in dict.fromkeys(view.lens for view in profile.inner)
    ]
    ends = [x for profile in profiles for x in _ends(profile, column.metric) if math.isfinite(x)] or [0.0, 1.0]
    span = max(max(ends) - min(ends), SMALLEST_RANGE)
    crosses = {gate: min(ends) - (i + 1) * ROW * span for i, gate in enumerate(GATES)}

    def draw(axes: Any, data: tuple[Profile, Mapping[int, Layer]]) -> None:
        from matplotlib.ticker import MaxNLocator

        profile, read = data
        exact = profile.exact[column.metric]
        if math.isfinite(exact.ci_lo):
            axes.axhspan(exact.ci_lo, exact.ci_hi, color=INK, alpha=0.15, linewidth=0)
        axes.axhline(exact.estimate, color=INK, linewidth=1)
        axes.plot(list(read), [one.by_words for one in read.values()], color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
        for layer, one in read.items():
            _point(axes, layer, one.scores[column.metric], filled=one.gate.passed)
        for gate, y in crosses.items():
            failed = [layer for layer, one in read.items() if gate in one.gate.failures]
            axes.plot(failed, [y] * len(failed), "x", color=INK, markersize=2.5, markeredgewidth=0.6)
        ticks = [y for y in MaxNLocator(4).tick_values(min(ends), max(ends)) if min(ends) <= y <= max(ends)]
        axes.set_yticks([*crosses.values(), *ticks], [*GATES.values(), *(f"{y:.3g}" for y in ticks)])
        for label in axes.get_yticklabels()[: len(crosses)]:
            label.set_fontsize(6)
        axes.set_ylim(min(ends) - (len(crosses) + 1) * ROW * span, max(ends) + ROW * span)
        axes.locator_params(axis="x", nbins=5, integer=True)
        axes.set_xlabel("layer")

    return panel_figure(
        f"Inner layers: {column.title}",
        panels,
        draw,
        f"{column.title.capitalize()}: {column.explanation}. The model's own answer is the solid line with its "
        "interval, the words alone without any context the dotted one. Filled: the layer passes its gates. Hollow: it "
        "fails, and the crosses below say which (coverage: the options hold too little; words: too little like the "
        "answer is left once each word's usual share is taken out; evidence: what it is about does not move as in the "
        "answer; items: it does so in too few of them). A hollow point is no belief, however high it lies.",
        columns=2,
        key=KEY,
    )


def _ends(profile: Profile, metric: str) -> Iterator[float]:
    """Every number that a panel must show."""
    for score in (profile.exact[metric], *(read.scores[metric] for read in profile.inner.values())):
        yield from (score.estimate, score.ci_lo, score.ci_hi)
    yield from (read.by_words for read in profile.inner.values())


def _point(axes: Any, layer: int, score: Score, *, filled: bool) -> None:
    axes.plot([layer] * 2, [score.ci_lo, score.ci_hi], color=MARK, linewidth=1.2 if filled else 0.5)
    axes.plot(layer, score.estimate, "o", color=MARK, markersize=3.5, fillstyle="full" if filled else "none")


def _gated(columns: Sequence[Column], method: str, view: View, read: Layer) -> list[Cell]:
    """A row of the table of gates."""
    gate = read.gate
    texts = [
        method,
        f"{view.lens}, layer {view.layer}",
        *(_written(read.scores[column.metric]) for column in columns),
        f"{gate.coverage:.2g}",
        _interval(gate.partial_corr, gate.ci_lo, gate.ci_hi),
        f"{_interval(gate.evidence_response, *gate.evidence_ci)}, exact {gate.evidence_exact:+.2f}",
        gate.withheld or _interval(gate.responding, *gate.responding_ci),
        ", ".join(GATES[name] for name in gate.failures),
    ]
    return [Cell(text) for text in texts]


def _written(score: Score) -> str:
    return f"{score.estimate:.3f}" if math.isfinite(score.estimate) else "–"


def _interval(estimate: float, lo: float, hi: float) -> str:
    return f"{estimate:+.2f} [{lo:+.2f}, {hi:+.2f}]" if math.isfinite(estimate) else "–"
