"""Draw the README's first figure: one coherence score, read in every way, and where the answer is decided.

    make figure        or: python docs/first_figure.py [MODEL]

Two runs go into it, `consistency` with inner layers and sampled answers, and `locate`; both lie in `runs/` and are not
read again. Every row of the left panel is scored on the same items, those that did not judge the gates.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from doxascope.experiments.config import load_config
from doxascope.experiments.consistency import ConsistencyConfig
from doxascope.experiments.consistency.inside import INNER
from doxascope.experiments.consistency.instances import instances
from doxascope.experiments.inner.plan import LensPlan
from doxascope.experiments.inner.scores import judging, profiles
from doxascope.experiments.locate.figures import draw_map
from doxascope.experiments.locate.reading import DONOR
from doxascope.experiments.locate.scores import MappedTransfer
from doxascope.experiments.plotting import INK, MARK, STYLE, to_svg
from doxascope.experiments.run_folder import RunFolder
from doxascope.experiments.runner import run
from doxascope.metrics import CompetenceGate, PairedDifference, Score, cluster_mean, paired_difference_moments

HERE = Path(__file__).parent
METHOD = "prefill"
SETTINGS = ("lens={layers: {every: 3}, methods: [prefill]}", "sampled.draws=20", "fork.methods=[]")
AT = ["item", "place"]
"""What an instance is, however it is read."""


class Row(NamedTuple):
    """A line of the left panel."""

    label: str
    score: Score
    difference: PairedDifference | None
    """From the exact belief behind the prefill; None: it is that."""
    filled: bool
    """It is a belief measurement by its gate."""
    floor: float
    """How far arithmetic alone moves the score."""


def rows(config: ConsistencyConfig, folder: RunFolder) -> Iterator[Row]:
    """Nulls and plants, exact and sampled beliefs, and inner layers."""
    every = folder.beliefs()
    lens = config.lens or LensPlan()
    beliefs = every[~every["cluster"].isin(judging(every["cluster"], lens.gate, config.seed))]
    said = beliefs["variant"].astype(str).map(json.loads)
    exact = beliefs[(beliefs["kind"] != "lens") & ~said.map(lambda one: "hidden" in one or "asked" in one)]
    reference = instances(exact[exact["method"] == METHOD]).set_index(AT)
    failed = _incompetent(config, every)
    floors = json.loads((folder.path / "floors.json").read_text())["scores"] if _certified(folder) else []
    floor = {row["method"]: row["floor"] for row in floors if row["metric"] == "c2" and row["subset"] == "all"}

    def row(label: str, table: pd.DataFrame, filled: bool, method: str = "") -> Row:
        own = table.set_index(AT).loc[reference.index]
        clusters = own["cluster"].to_numpy()
        settings = {"seed": config.seed, "draws": config.bootstrap_draws, "level": config.level}
        score = cluster_mean(own["c2"].to_numpy(), clusters, **settings)
        ones = np.ones(len(own))
        moments = [np.column_stack([one["c2"].to_numpy(), ones]) for one in (own, reference)]
        difference = paired_difference_moments(*moments, lambda s: s[:, 0] / s[:, 1], clusters, **settings)
        return Row(label, score, None if label == f"exact, {METHOD}" else difference, filled, floor.get(method, 0.0))

    (profile,) = profiles(INNER, config, every)
    words = next(iter(profile.inner.values())).by_words
    yield row("planted: a coherent agent", instances(coherent(exact[exact["method"] == METHOD])), True)
    yield Row("words alone, no context", replace(profile.exact["c2"], mean=words, ci_lo=words, ci_hi=words), None, False, 0)
    for method, own in exact.groupby("method", sort=False, observed=True):
        kind = "exact" if own["kind"].iloc[0] == "exact" else "said"
        name = str(method).replace(" sampled", ", 20 answers")
        yield row(f"{kind}, {name}", instances(own), str(method) not in failed, str(method))
    inner = beliefs[beliefs["kind"] == "lens"]
    views = said[inner.index].map(lambda one: one["lens"])
    for view, read in profile.inner.items():
        own = inner[(inner["layer"] == view.layer) & (views == view.lens)]
        why = ", ".join(read.gate.failures).replace("_", " ")
        yield row(f"{view.lens}, layer {view.layer}" + (f": {why}" if why else ""), instances(own), read.gate.passed)


def coherent(exact: pd.DataFrame) -> pd.DataFrame:
    """The same read-outs of an agent that starts from the model's priors and takes each rejection at its word."""
    logp = exact.pivot(index=["item", "scenario", "readout_id"], columns="option_index", values="logp")
    prior = logp.xs("prior", level="scenario").droplevel("readout_id")
    key = pd.MultiIndex.from_frame(exact[["item", "option_index"]])
    rejected = exact["variant"].astype(str).map(lambda text: json.loads(text).get("rejected", -1))
    kept = prior.stack().loc[key].to_numpy()
    return exact.assign(logp=np.where(exact["option_index"] == rejected, -np.inf, kept))


def _incompetent(config: ConsistencyConfig, beliefs: pd.DataFrame) -> set[str]:
    """The methods that fail the competence gate, on all items."""
    experiment, _ = load_config("consistency")
    cells = experiment.score(config, beliefs[beliefs["kind"] != "lens"])
    return {c.method for c in cells if isinstance(c.score, CompetenceGate) and not c.score.passed}


def _certified(folder: RunFolder) -> bool:
    return (folder.path / "floors.json").is_file()


def draw(forest: list[Row], cells: list[MappedTransfer], model: str) -> Any:
    """Left the forest, right the map."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE | {"figure.facecolor": "white", "savefig.facecolor": "white"}):
        figure = Figure(figsize=(15, 0.27 * len(forest) + 1.6), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
        for y, row in enumerate(forest):
            left.plot([row.score.ci_lo, row.score.ci_hi], [y, y], color=MARK, linewidth=1.6 if row.filled else 0.8)
            left.axvspan(0, 0)
            left.plot(row.score.estimate, y, "o", color=MARK, fillstyle="full" if row.filled else "none", markersize=5)
            left.fill_betweenx([y - 0.4, y + 0.4], row.score.estimate - row.floor, row.score.estimate + row.floor,
                               color=INK, alpha=0.25, linewidth=0)  # fmt: skip
            if row.difference is not None:
                d = row.difference
                text = f"{d.difference:+.3f} [{d.ci_lo:+.3f}, {d.ci_hi:+.3f}]"
                left.text(1.02, y, text, transform=left.get_yaxis_transform(), va="center", fontsize=7)
        left.set_ylim(len(forest) - 0.5, -0.8)
        left.set_yticks(range(len(forest)), [row.label for row in forest])
        left.set_xlabel("consistency: 1 is a kept ratio of the two words that remain")
        left.text(1.02, -0.8, "less exact, prefill", transform=left.get_yaxis_transform(), fontsize=7, va="bottom")
        left.set_title(f"What {model} says, holds, and seems to hold", loc="left")
        draw_map(right, cells)
        right.set_title("At which word and layer its answer is decided (transfer)", loc="left")
    return figure


def main(model: str | None) -> None:
    """Run what is not there yet, and draw."""
    experiment, config = load_config("consistency", SETTINGS, model)
    assert isinstance(config, ConsistencyConfig)
    folder = run(experiment, config, Path("runs"))
    mapping, settings = load_config("locate", (), model)
    cells = [cell.score for cell in mapping.score(settings, run(mapping, settings, Path("runs")).beliefs())]
    donor = [score for score in cells if isinstance(score, MappedTransfer) and score.donor == DONOR]
    figure = draw(list(rows(config, folder)), donor, config.model.name)
    (HERE / "first-figure.svg").write_text(to_svg(figure), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
