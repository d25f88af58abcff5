"""Draw the README's first figure: one coherence score, read in every way, and where the answer is decided.

    make figures       or: python docs/first_figure.py [MODEL]

Two runs go into it, `consistency` with inner layers and sampled answers, and `locate`; both lie in `runs/` and are not
read again. Every row of the left panel is read of the same items, those that did not judge the gates; where some
instances are undefined, as when no answer names a word, the label says how many are left.
"""

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from doxascope.experiments.report.plotting import INK, MARK, STYLE, drawn
from doxascope.experiments.run.addons.inner_layers import GATES
from doxascope.experiments.run.addons.inner_readouts import judging, profiles
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.scores import resampling, score_run
from doxascope.experiments.suite.consistency import INNER, ConsistencyConfig
from doxascope.experiments.suite.consistency.ask import FORK, FORK_REVEAL
from doxascope.experiments.suite.consistency.instances import instances
from doxascope.experiments.suite.locate.ask import DONOR
from doxascope.experiments.suite.locate.page import map_axes, map_cells
from doxascope.experiments.suite.locate.samples import UPDATE, Map, maps
from doxascope.hooks.checks.certificate import certify, save_certificate
from doxascope.hooks.lens.plan import LensPlan
from doxascope.metrics import INNER_KINDS, PairedDifference, Score, cluster_mean, paired_difference_moments
from doxascope.metrics.claims import verdicts
from doxascope.metrics.inference import ClusterMean

HERE = Path(__file__).parent
METHOD = "prefill"
SETTINGS = ("lens={layers: {every: 3}, methods: [prefill]}", "sampled.draws=20", "sampling.max_new_tokens=32")
WIDTH = 92
"""Of the text below the map, in characters."""
AT = ["item", "place"]
"""What an instance is, however it is read."""


class Row(NamedTuple):
    """A line of the left panel."""

    label: str
    score: Score
    difference: PairedDifference | None
    """From the exact belief behind the prefill; None: it is that."""
    fails: str
    """The gates that say that it is no belief."""
    floor: float = 0.0
    """How far arithmetic alone moves the score."""
    marker: str = "o"


def rows(config: ConsistencyConfig, folder: RunFolder) -> Iterator[Row]:
    """Nulls and plants, exact and sampled beliefs, and inner layers."""
    every = folder.beliefs()
    lens = config.lens or LensPlan()
    beliefs = every[~every["cluster"].isin(judging(every["cluster"], lens.gate, config.seed))]
    forked = beliefs["scenario"].isin((FORK, FORK_REVEAL))
    exact = beliefs[~beliefs["kind"].isin(INNER_KINDS) & ~forked]
    reference = instances(exact[exact["method"] == METHOD]).set_index(AT)
    failed = _incompetent(config, every)
    floors = json.loads((folder.path / "floors.json").read_text())["scores"] if _certified(folder) else []
    floor = {row["method"]: row["floor"] for row in floors if row["metric"] == "c2" and row["subset"] == "all"}

    def row(label: str, table: pd.DataFrame, fails: str = "", floor: float = 0.0, marker: str = "o") -> Row:
        own = table.set_index(AT).loc[reference.index]
        clusters = own["cluster"].to_numpy()
        settings = resampling(config)
        score = cluster_mean(own["c2"].to_numpy(), clusters, how=settings)
        ones = np.ones(len(own))
        mine, theirs = (np.column_stack([one["c2"].to_numpy(), ones]) for one in (own, reference))
        difference = paired_difference_moments(mine, theirs, lambda s: s[:, 0] / s[:, 1], clusters, how=settings)
        if score.n_dropped:
            label += f" ({score.n_rows} of {len(own)})"
        return Row(label, score, None if label == f"exact, {METHOD}" else difference, fails, floor, marker)

    (profile,) = profiles(INNER, config, every)
    words = next(iter(profile.inner.values())).by_words
    planted = instances(coherent(exact[exact["method"] == METHOD]))
    yield row("planted: a coherent agent", planted, marker="*")
    null = ClusterMean(mean=words, ci_lo=words, ci_hi=words)
    yield Row("the words alone, no context", null, None, "null", marker="D")
    for method, own in exact.groupby("method", sort=False, observed=True):
        kind = "exact" if own["kind"].iloc[0] == "exact" else "said"
        name = str(method).replace(" sampled", ", 20 answers")
        fails = "competence" if method in failed else ""
        yield row(f"{kind}, {name}", instances(own), fails, floor.get(str(method), 0.0))
    inner = beliefs[beliefs["kind"] == "lens"]
    for view, read in profile.inner.items():
        own = inner[(inner["layer"] == view.layer) & (inner["lens"] == view.lens)].drop(columns="lens")
        yield row(f"layer {view.layer}, {view.lens}", instances(own), ", ".join(GATES[g] for g in read.gate.failures))


def coherent(exact: pd.DataFrame) -> pd.DataFrame:
    """The same read-outs of an agent that starts from the model's priors and takes each rejection at its word."""
    logp = exact.pivot(index=["item", "scenario", "readout_id"], columns="option_index", values="logp")
    prior = logp.xs("prior", level="scenario").droplevel("readout_id")
    key = pd.MultiIndex.from_frame(exact[["item", "option_index"]])
    rejected = exact["rejected"].fillna(-1)
    kept = prior.stack().loc[key].to_numpy()
    return exact.assign(logp=np.where(exact["option_index"] == rejected, -np.inf, kept))


def _incompetent(config: ConsistencyConfig, beliefs: pd.DataFrame) -> set[str]:
    """The methods that cannot be read or do not respond, on all items."""
    experiment, _ = load_config("consistency")
    numbers = score_run(experiment, config, beliefs[~beliefs["kind"].isin(INNER_KINDS)])
    return {verdict.method for verdict in verdicts(numbers) if not verdict.passed or verdict.unresponsive}


def _certified(folder: RunFolder) -> bool:
    return (folder.path / "floors.json").is_file()


def draw(forest: list[Row], cells: Map, model: str, stamp: str) -> Any:
    """Left the forest, right the map."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE | {"figure.facecolor": "white", "savefig.facecolor": "white"}):
        figure = Figure(figsize=(15, 0.24 * len(forest) + 1.2), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.9))
        beside = left.get_yaxis_transform()
        for y, row in enumerate(forest):
            own = row.score.estimate
            if row.marker == "D":
                left.axvline(own, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
            left.axhspan(y - 0.4, y + 0.4, color=INK, alpha=0.04, linewidth=0)
            left.fill_betweenx([y - 0.4, y + 0.4], own - row.floor, own + row.floor, color=INK, alpha=0.3)
            left.plot([row.score.ci_lo, row.score.ci_hi], [y, y], color=MARK, linewidth=0.8 if row.fails else 1.8)
            left.plot(own, y, row.marker, color=MARK, fillstyle="none" if row.fails else "full", markersize=5)
            if row.difference is not None:
                d = row.difference
                told = f"{d.difference:+.3f} [{d.ci_lo:+.3f}, {d.ci_hi:+.3f}]"
                left.text(1.02, y, told, transform=beside, va="center", fontsize=7)
            left.text(1.45, y, row.fails, transform=beside, va="center", fontsize=7)
        left.set_ylim(len(forest) - 0.5, -1.2)
        left.set_yticks(range(len(forest)), [row.label for row in forest])
        left.tick_params(axis="y", length=0)
        left.set_xlabel("consistency: 1 is a kept ratio of the words that remain")
        left.text(1.02, -0.9, f"less exact, {METHOD}", transform=beside, fontsize=7, weight="bold")
        left.text(1.45, -0.9, "fails the gate of", transform=beside, fontsize=7, weight="bold")
        left.set_title(f"What {model} says, holds, and only seems to hold", loc="left")
        map_cells(cells).draw(right)
        for which, axis in zip("xy", map_axes(cells), strict=True):
            axis.apply(right, which)
        right.tick_params(length=0)
        right.spines[:].set_visible(False)
        right.set_aspect("equal", anchor="N")
        right.set_title("Where its answer is decided: share of the change that a span carries", loc="left")
        right.text(0, -0.25, stamp, transform=right.transAxes, va="top", fontsize=9, linespacing=1.5)
    return figure


def reading(forest: list[Row], update: Score, failed: bool) -> str:
    """What to see, in words."""
    hollow = [row for row in forest if row.label.startswith("layer") and row.fails]
    best = max(hollow, key=lambda row: row.score.estimate)
    told = [
        "Hollow: fails a gate, and is no belief however high it lies.",
        f"Best of the {len(hollow)} inner read-outs that fail: {best.label}, with {best.score.estimate:.4f}.",
        "The words alone, without any context (dotted), score like a coherent agent.",
        "Intervals over triples; differences on the same items. Grey: floor of arithmetic, thinner than a line.",
    ]
    if failed:
        told.append(
            "The map's pairs fail the competence gate: what was rejected gains "
            f"({abs(update.estimate):.1f} nats of log-odds), so that it shows where this reaction is carried, which is "
            "no belief."
        )
    return "\n".join(textwrap.fill(line, WIDTH) for line in told)


def main(model: str | None) -> None:
    """Run what is not there yet, and draw."""
    experiment, config = load_config("consistency", SETTINGS, model)
    assert isinstance(config, ConsistencyConfig)
    folder = run(experiment, config, Path("runs"))
    if not _certified(folder):
        save_certificate(certify(config.model))
        folder = run(experiment, config, Path("runs"))
    mapping, settings = load_config("locate", (), model)
    read = run(mapping, settings, Path("runs")).beliefs()
    numbers = score_run(mapping, settings, read)
    scores = {number.metric: number.score for number in numbers}
    donor = maps(read, numbers)[DONOR]
    forest = list(rows(config, folder))
    failed = not all(verdict.passed and not verdict.unresponsive for verdict in verdicts(numbers))
    figure = draw(forest, donor, config.model.name, reading(forest, scores[UPDATE], failed))
    (HERE / "first-figure.svg").write_text(drawn("", figure, "").svg, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
