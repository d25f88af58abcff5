"""The tables of the paper (martingale-score) from stored runs, and the means that its text gives of Table 1."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from .paper_tables import PaperCell, PaperTable, RunNumbers, number_cell, starred

PAPER = "martingale-score"
DOMAINS = {
    "forecasting": "Forecasting",
    "values": "ChangeMyView",
    "changemyview": "ChangeMyView",
    "review": "OpenReview",
}
DOMAINS |= {"openreview": "OpenReview"}
REASONING = {"cot": "CoT", "debate": "Debate"}
PROMPTS = {"none": "No Prompt", "critical": "CT Prompt", "prior-conforming": "PC Prompt"}
STARS = ((0.05, "*"),)
"""Of a t-test of independent rows, as published."""
TOLD = "* p < 0.05 by a t-test of independent rows, as published; intervals are ours, over questions."


def tables(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Table 1, its means, and Table 2. Table 3 is Table 1 of another model."""
    return [_scores(runs), _means(runs), _judges(runs)]


def _cells(run: RunNumbers, method: str) -> dict[tuple[str, str, str], str]:
    """(domain, reasoning, prompt), as printed -> the subset that holds it."""
    found = {}
    for metric, of, subset in run.rows:
        parts = subset.split(", ")
        if metric == "M_step" and of == method and len(parts) == 3:
            domain, reasoning, prompt = parts
            named = DOMAINS.get(domain.lower(), domain), REASONING.get(reasoning, reasoning)
            found[(*named, PROMPTS.get(prompt, prompt))] = subset
    return found


def _scores(runs: Sequence[RunNumbers]) -> PaperTable:
    known = {(run.model, method): _cells(run, method) for run in runs for method in run.methods}
    every = [cell for cells in known.values() for cell in cells]
    domains = sorted({cell[0] for cell in every}, key=_place(DOMAINS.values()))
    techniques = sorted({cell[1] for cell in every}, key=_place(REASONING.values()))
    columns = [(domain, technique) for domain in domains for technique in techniques]
    rows = []
    for run in runs:
        for method in run.methods:
            cells = _cells(run, method)
            for prompt in sorted({cell[2] for cell in cells}, key=_place(PROMPTS.values())):
                shown = [_score(run, method, cells.get((*column, prompt), "")) for column in columns]
                rows.append(((run.model + run.mark(method), prompt, method), shown))
    return PaperTable(
        PAPER,
        "Table 1",
        "Martingale Scores under different setups, per reasoning step.",
        ("Model", "Prompt", "read as"),
        columns,
        rows,
        [TOLD],
    )


def _score(run: RunNumbers, method: str, subset: str) -> PaperCell:
    value = run.value("M_step", method, subset)
    stars = starred(run.value("M_step", method, subset, "p_iid"), STARS)
    return number_cell(value, run.ends("M_step", method, subset), written="+.4f", stars=stars)


def _means(runs: Sequence[RunNumbers]) -> PaperTable:
    """Mean |M| over cells, by prompt and by domain and reasoning, with the half-width of a normal interval."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for method in run.methods:
            for (domain, reasoning, prompt), subset in _cells(run, method).items():
                for name in (prompt, f"{domain}, {reasoning}"):
                    found.setdefault((name, method), []).append(run.value("M_step", method, subset))
    rows = []
    for (name, method), values in found.items():
        size = np.abs([value for value in values if not math.isnan(value)])
        mean = float(size.mean()) if len(size) else math.nan
        half = 1.959964 * float(size.std(ddof=1)) / len(size) ** 0.5 if len(size) > 1 else math.nan
        ends = (mean - half, mean + half)
        counted = PaperCell(f"{sum(value > 0 for value in values)} of {len(values)}") if values else PaperCell()
        rows.append(((name, method), [number_cell(mean, ends, written=".3f"), counted]))
    caption = "Mean |M| over the cells of Table 1, and how many are positive; the interval takes cells as independent."
    return PaperTable(PAPER, "Section 6.1", caption, ("Cells", "read as"), [("", "mean |M|"), ("", "M > 0")], rows)


def _judges(runs: Sequence[RunNumbers]) -> PaperTable:
    rows = []
    for run in runs:
        for metric, _, subset in run.rows:
            if metric == "agreement" and subset.partition(" - ")[0].startswith("judge "):
                one = [("n_clusters", "d"), ("n_rows", "d"), ("pearson", ".4f"), ("spearman", ".4f")]
                cells = [number_cell(run.value(metric, "", subset, name), written=written) for name, written in one]
                rows.append(((run.model, *subset.split(" - ", 1)), cells))
    columns = [("", name) for name in ("Problems", "Belief Samples", "Pearson r", "Spearman ρ")]
    head = ("Model", "default judge", "Judge Model")
    return PaperTable(PAPER, "Table 2", "Inter-rater agreement of judges with the default judge.", head, columns, rows)


def _place(order: Iterable[str]) -> Callable[[str], tuple[int, str]]:
    """By the paper's order, then by name."""
    names = list(dict.fromkeys(order))
    return lambda name: (names.index(name) if name in names else len(names), name)
