"""The tables of the paper (martingale-score) from stored runs: Table 1, the means that its text gives of it, what
Figures 4 and 5 are drawn of, and Table 2. A cell is a setup: model, prompt, domain, and way of reasoning.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ....metrics.martingale.cell_metrics import controlled, plain_mean
from ....metrics.tables.samples import Cells
from ..figures import chart
from ..findings import Figure
from ..marks import PALE, Axis, points, ranges, rule
from .paper_tables import COUNTED, READ_AS, PaperCell, PaperTable, RunNumbers, number_cell, of_parts, starred

PAPER = "martingale-score"
DOMAINS = {
    "forecasting": "Forecasting",
    "recall": "Forecasting (resolved before training ended)",
    "values": "ChangeMyView",
    "changemyview": "ChangeMyView",
    "r/changemyview": "ChangeMyView",
    "cmv": "ChangeMyView",
    "review": "OpenReview",
    "openreview": "OpenReview",
}
REASONING = {"cot": "CoT", "debate": "Debate"}
PROMPTS = {"none": "No Prompt", "critical": "CT Prompt", "prior-conforming": "PC Prompt"}
STARS = ((0.05, "*"),)
"""Of a t-test of independent rows, as published."""
TOLD = "* p < 0.05 by a t-test of independent rows, as published; intervals are ours, over questions."
FACTORS = ("model", "prompt", "domain", "reasoning")
MARKERS = "os^Dv<>P"


class Setup(NamedTuple):
    """A cell of the paper's Table 1, by its names."""

    model: str
    method: str
    domain: str
    reasoning: str
    prompt: str
    run: RunNumbers
    subset: str
    """What its numbers are called in the run."""
    score: str = "M_step"

    def value(self, metric: str, name: str = "estimate") -> float:
        """Of its run; NaN if it is not there."""
        return self.run.value(metric, self.method, self.subset, name)


def setups(runs: Sequence[RunNumbers]) -> list[Setup]:
    """Those that runs hold, in the paper's order within each run and method."""
    parts = {subset: subset.split(", ") for run in runs for _, _, subset in run.rows}
    return setups_of(
        runs, {subset: (levels[0], levels[1], levels[2]) for subset, levels in parts.items() if len(levels) == 3}
    )


def setups_of(runs: Sequence[RunNumbers], named: Mapping[str, tuple[str, str, str]]) -> list[Setup]:
    """The same; `named`: subset -> its domain, reasoning and prompt."""
    scores = {metric for run in runs for metric, _, _ in run.rows}
    score, by_prompt, all_setups = "M_step" if "M_step" in scores else "M", _place(PROMPTS.values()), []
    for run in runs:
        for method in run.methods:
            of_method = []
            for metric, read_as, subset in run.rows:
                if metric == score and read_as == method and subset in named:
                    domain, reasoning, prompt = named[subset]
                    of = f"{domain} (smoke set)" if domain in run.smoke else DOMAINS.get(domain.lower(), domain)
                    names = of, REASONING.get(reasoning.lower(), reasoning)
                    prompt_name = PROMPTS.get(prompt.lower(), prompt)
                    of_method.append(Setup(run.model, method, *names, prompt_name, run, subset, score))
            all_setups += sorted(of_method, key=lambda setup: by_prompt(setup.prompt))
    return all_setups


def tables(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """The tables of stored runs."""
    return tables_of(setups(runs), runs)


def tables_of(all_setups: Sequence[Setup], runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Table 1, its means, Figures 4 and 5, and Table 2. Table 3 is Table 1 of another model."""
    cells = as_cells(all_setups)
    return [_scores(all_setups), _means(all_setups), _forecasts(all_setups), _regressions(cells), _judges(runs)]


def _scores(all_setups: Sequence[Setup]) -> PaperTable:
    domains = sorted({setup.domain for setup in all_setups}, key=_place(DOMAINS.values()))
    techniques = sorted({setup.reasoning for setup in all_setups}, key=_place(REASONING.values()))
    columns = [(domain, technique) for domain in domains for technique in techniques]
    heads = [(d, t) if d and t else ("", d or t or "M") for d, t in columns]
    updates = (
        "per reasoning step" if all(setup.score == "M_step" for setup in all_setups) else "from prior to posterior"
    )
    rows: dict[tuple[str, ...], dict[tuple[str, str], PaperCell]] = {}
    for setup in all_setups:
        labels = (setup.model + setup.run.mark(setup.method), setup.prompt, setup.method)
        rows.setdefault(labels, {})[setup.domain, setup.reasoning] = _score(setup)
    return PaperTable(
        PAPER,
        "Table 1",
        f"Martingale Scores under different setups, {updates}.",
        ("Model", "Prompt", READ_AS),
        heads,
        [(labels, [cells.get(column, PaperCell()) for column in columns]) for labels, cells in rows.items()],
        [TOLD],
    )


def _score(setup: Setup) -> PaperCell:
    place = (setup.score, setup.method, setup.subset)
    stars = starred(setup.run, setup.method, setup.value(setup.score, "p_iid"), STARS)
    counted = setup.run.counted(*place)
    return number_cell(setup.value(setup.score), setup.run.ends(*place), written="+.4f", stars=stars, counted=counted)


def _means(all_setups: Sequence[Setup]) -> PaperTable:
    """Mean |M| over cells, by prompt and by domain and reasoning, with the half-width of a normal interval."""
    groups: dict[tuple[str, str], list[Setup]] = {}
    by_prompt, by_setup = (
        [setup.prompt for setup in all_setups],
        [", ".join(filter(None, setup[2:4])) for setup in all_setups],
    )
    for name, setup in zip([*by_prompt, *by_setup], [*all_setups, *all_setups], strict=True):
        if name:
            groups.setdefault((name, setup.method), []).append(setup)
    rows = []
    for labels, cells in groups.items():
        known = np.array([value for cell in cells if not np.isnan(value := cell.value(cell.score))])
        mean, half = plain_mean(np.abs(known)) if len(known) else (math.nan, math.nan)
        why = of_parts(cell.run.counted(cell.score, cell.method, cell.subset) for cell in cells)
        ends = float(np.maximum(0.0, mean - half)), mean + half
        shown = number_cell(mean, ends, written=".3f", counted=why)
        rows.append((labels, [shown, PaperCell(f"{(known > 0).sum()} of {len(known)}")]))
    caption = (
        "Mean |M| over the setups of Table 1 (as independent ones, where there are several), and how many are positive."
    )
    return PaperTable(PAPER, "Section 6.1", caption, ("Setups", READ_AS), [("", "mean |M|"), ("", "M > 0")], rows)


def _with_outcomes(all_setups: Sequence[Setup]) -> dict[str, list[Setup]]:
    """Of each method, the setups whose questions have outcomes."""
    known: dict[str, list[Setup]] = {}
    for setup in all_setups:
        if not np.isnan(setup.value("brier_post") + setup.value(setup.score)):
            known.setdefault(setup.method, []).append(setup)
    return known


def as_cells(all_setups: Sequence[Setup]) -> list[Cells]:
    """Of each method, the setups whose questions have outcomes: M per step with its error, and the Brier score."""
    return [
        Cells(
            method=method,
            value=np.array([setup.value(setup.score) for setup in of_method]),
            error=np.array([setup.value(setup.score, "se") for setup in of_method]),
            brier=np.array([setup.value("brier_post") for setup in of_method]),
            factors={name: np.array([getattr(setup, name) for setup in of_method], dtype=object) for name in FACTORS},
        )
        for method, of_method in _with_outcomes(all_setups).items()
    ]


def _forecasts(all_setups: Sequence[Setup]) -> PaperTable:
    rows = []
    for setup in (setup for of_method in _with_outcomes(all_setups).values() for setup in of_method):
        of_score, of_brier = (
            setup.run.counted(metric, setup.method, setup.subset) for metric in (setup.score, "brier_post")
        )
        cells = [
            number_cell(abs(setup.value(setup.score)), counted=of_score),
            number_cell(setup.value(setup.score, "se"), counted=of_score),
            number_cell(setup.value("brier_post"), counted=of_brier),
        ]
        rows.append(((*(getattr(setup, name) for name in FACTORS), setup.method), cells))
    head = (*(name.capitalize() for name in FACTORS), READ_AS)
    caption = "Brier Score and Martingale Score of each setup, of the same questions."
    return PaperTable(PAPER, "Figure 4", caption, head, [("", x) for x in ("|M|", "SE of M", "Brier Score")], rows)


def _regressions(cells: Sequence[Cells]) -> PaperTable:
    """The Brier score on |M| over setups, alone and with controls."""
    rows = []
    for sample in cells:
        assert sample.brier is not None
        for line in controlled(sample.value, sample.brier, sample.factors):
            score = line.score.as_dict()
            counted = {name: score[name] for name in COUNTED}
            numbers = [number_cell(score[name], counted=counted) for name in ("coef", "se", "p", "r2")]
            rows.append(((line.part.removeprefix("given ") or "none", sample.method), numbers))
    columns = [("", "slope on |M|"), ("", "SE"), ("", "p"), ("", "R²")]
    caption = "Regressions of the Brier Score on |M|, by what is controlled for."
    return PaperTable(PAPER, "Figure 5", caption, ("Controls", READ_AS), columns, rows)


def _judges(runs: Sequence[RunNumbers]) -> PaperTable:
    rows = []
    for run in runs:
        for metric, _, subset in run.rows:
            if metric == "agreement" and subset.partition(" - ")[0].startswith("judge "):
                formats = [("n_clusters", "d"), ("n_rows", "d"), ("pearson", ".4f"), ("spearman", ".4f")]
                counted = run.counted(metric, "", subset)
                cells = [
                    number_cell(
                        run.value(metric, "", subset, name),
                        written=written,
                        counted={} if name in COUNTED else counted,
                    )
                    for name, written in formats
                ]
                rows.append(((run.model, *subset.split(" - ", 1)), cells))
    columns = [("", name) for name in ("Problems", "Belief Samples", "Pearson r", "Spearman ρ")]
    head = ("Model", "default judge", "Judge Model")
    return PaperTable(PAPER, "Table 2", "Inter-rater agreement of judges with the default judge.", head, columns, rows)


def _place(order: Iterable[str]) -> Callable[[str], tuple[int, str]]:
    """By the paper's order, then by name."""
    names = list(dict.fromkeys(order))
    return lambda name: (names.index(name) if name in names else len(names), name)


# Figure 4: a dot for each setup.


def setup_figure(samples: Iterable[Cells]) -> Figure | None:
    """The Brier score against |M| with its standard error, a panel for each sample of which two cells
    have both; None without one.
    """
    panels = []
    for sample in samples:
        if sample.brier is None or np.isfinite(sample.value + sample.brier).sum() < 2:
            continue
        size, brier = np.abs(sample.value), sample.brier
        kinds = [name for name in ("domain", "reasoning", "technique") if name in sample.factors]
        named = [", ".join(map(str, levels)) for levels in zip(*(sample.factors[name] for name in kinds), strict=True)]
        groups = np.array(named or [""] * len(size), dtype=object)
        marks = [rule(0.25, "a coin")]
        for i, name in enumerate(dict.fromkeys(groups.tolist())):
            dots = (groups == name) & np.isfinite(size) & np.isfinite(brier)
            if sample.error is not None:
                low, high = (size[dots] + sign * sample.error[dots] for sign in (-1, 1))
                marks.append(ranges(brier[dots], low, high, "± SE", flat=True, alpha=PALE))
            marks.append(points(size[dots], brier[dots], name, marker=MARKERS[i % len(MARKERS)]))
        panels.append((sample.method, marks))
    if not panels:
        return None
    return chart(
        "Do setups with a larger |M| forecast worse?",
        panels,
        "A dot is a setup; |M| with its standard error, and the Brier score of the same questions, as published. "
        "Noisier updates raise both, so that dots can rise without any entrenched belief.",
        x=Axis("|M|", (0, None)),
        y=Axis("Brier score", (0, None)),
    )
