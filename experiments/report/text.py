"""Numbers as text: the cells of every table, and the tables of a terminal."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from ...base.text import shown
from ...metrics import ClusterMean, CoherenceClaim, Equivalence, PairedDifference, Score
from ...metrics.metric import registered
from ...metrics.number import Number, interval_text
from ...metrics.scoring.engine import Scored, ScoredTable
from ...metrics.tables.samples import ALL
from .cells import aligned
from .lead import Lead
from .papers.of_levels import tables_of_levels
from .papers.paper_tables import as_lines, marks_of

INTERVAL = "interval by"
HEADINGS = ("", "estimate", "95% interval", "p", "n", "clusters", "dropped", "status")
DIFFERENCES = (HEADINGS[0], "difference", HEADINGS[2], "adjusted p", *HEADINGS[4:])


def listing() -> str:
    """Each metric: its name, its sections, its columns, its sentence."""
    return "\n".join(f"{m.name}  ({m.code})\n  {m.sentence}\n  columns: {m.wants}" for m in registered())


def as_text(scored: ScoredTable) -> str:
    """What is known of a table: of all of it, not of its parts."""
    lines = [scored.understood.line, "", *Lead.of_table(scored).lines]
    parts = {sample.subset for sample in scored.understood.samples if sample.subset != ALL}
    whole, rest = by_sample(scored, parts)
    for name, numbers in whole.items():
        lines += ["", name] if name else [""]
        lines += table_text(numbers)
    if scored.differences:
        lines += ["", f"differences on the same items; {adjusted_over(family_size(scored.differences))}"]
        lines += aligned([DIFFERENCES, *map(difference_cells, scored.differences)])
    lines += ["", *(f"not scored: {name} {why}" for name, why in scored.skipped.items())] if scored.skipped else []
    of_papers = tables_of_levels(scored)
    for table in of_papers:
        lines += ["", *as_lines(table)]
    lines += marks_of(of_papers)
    lines += ["", f"{rest} numbers of parts are on the page and in scores.json (--out)"] if rest else []
    return "\n".join(lines)


def headline_text(scores: Mapping[str, Any]) -> str:
    """The verdict, the registered number, the headline of a run and what is to be seen beside it by method, and what it
    left out, from its `scores.json`.
    """
    lines: list[str] = []
    for metric in (scores["headline"], *scores.get("beside", ())):
        own = [row for row in scores["scores"] if row["metric"] == metric and row["subset"] == ALL]
        if own:
            lines += ["", f"{metric}: {own[0]['quantity']}".rstrip(": ")]
            lines += aligned([(*HEADINGS[:3], *HEADINGS[4:]), *map(_stored_cells, own)])
            read_with = [
                (row["method"], "; ".join(f"{key} {told}" for key, told in row["beside"].items())) for row in own
            ]
            lines += [f"  {method}: {told}" for method, told in read_with if told]
    unscored = [f"not scored: {name} {why}" for name, why in scores.get("not_scored", {}).items()]
    told = [*unscored, *scores.get("advice", ())]
    return "\n".join([*scores["lead"]["said"], *lines, *(["", *told] if told else [])])


def _stored_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    estimate, lo, hi = (math.nan if row[name] is None else row[name] for name in ("estimate", "ci_lo", "ci_hi"))
    counts = (str(row[name]) for name in ("n_rows", "n_clusters", "n_dropped"))
    return (row["method"], shown(estimate), interval_text(lo, hi) or "none", *counts, row["status"])


def table_text(numbers: Sequence[Number]) -> list[str]:
    """A table of numbers, each by its quantity, and below it what is to be read with them."""
    notes = [beside(number) for number in numbers]
    usual = Counter(one.get(INTERVAL, "") for one in notes).most_common(1)[0][0]
    lines = [*aligned([HEADINGS, *((number.quantity, *cells(number.score)) for number in numbers)]), ""]
    lines += [f"  intervals, where nothing else is said: {usual}"] if usual else []
    for number, note in zip(numbers, notes, strict=True):
        said = {key: text for key, text in note.items() if (key, text) != (INTERVAL, usual)}
        lines += [f"  {number.quantity}: {'; '.join(f'{key} {text}' for key, text in said.items())}"] if said else []
    return lines


def by_sample(scored: Scored, parts: set[str]) -> tuple[dict[str, list[Number]], int]:
    """Name of a sample -> its numbers of the whole; and how many are of parts."""
    whole: dict[str, list[Number]] = {}
    rest = 0
    for number in scored.numbers:
        if number.subset in parts or number.subset.startswith(tuple(f"{part}, " for part in parts)):
            rest += 1
        else:
            whole.setdefault(number.name, []).append(number)
    return whole, rest


def family_size(differences: Sequence[Number]) -> int:
    """Comparisons that have a p."""
    scores = (number.score for number in differences)
    return max((score.family_size for score in scores if isinstance(score, PairedDifference)), default=0)


def cells(score: Score) -> tuple[str, ...]:
    """Estimate, interval, p, n, clusters, dropped with reasons, status."""
    interval = interval_text(score.ci_lo, score.ci_hi) or ("" if math.isnan(score.estimate) else "none")
    reasons = ", ".join(f"{n} {why}" for why, n in score.reasons.items())
    dropped = f"{score.n_dropped}" + (f" ({reasons})" if reasons else "")
    p = "" if math.isnan(score.p) else f"{score.p:.3g}"
    return (shown(score.estimate), interval, p, str(score.n_rows), str(score.n_clusters), dropped, score.status)


def difference_cells(number: Number) -> tuple[str, ...]:
    """The same of a difference, by its quantity, with p after Holm."""
    score = number.score
    assert isinstance(score, PairedDifference)
    return (number.quantity, *cells(score)[:2], adjusted_p(score), *cells(score)[3:])


def adjusted_over(n: int, by: str = "Holm") -> str:
    """What was done to the p of so many tests."""
    if n < 2:
        return "one test, whose p needs no adjustment" if n else "none can be tested"
    return f"p adjusted by {by} over {n} tests"


def adjusted_p(score: PairedDifference) -> str:
    """p after Holm; where no resample reaches zero it is the most that it can be."""
    if math.isnan(score.p_adjusted):
        return ""
    return f"{'<= ' * score.p_at_floor}{score.p_adjusted:.3g}"


def beside(number: Number) -> Mapping[str, str]:
    """What is to be read with the number: how it was made, and what the metric adds."""
    made, how = {}, number.score.ci_method
    if how:
        made["no interval:" if how.startswith("none") else INTERVAL] = how.removeprefix("none: ")
    if number.score.p_method and number.score.p_method != how and not math.isnan(number.score.p):
        made["p by"] = number.score.p_method
    if number.equivalence is not None:
        made |= _claim(number.equivalence)
    score = number.score
    if weighs_clusters(score):
        made["clusters weighing the same"] = f"{shown(score.equal_weight_mean)}, the largest {score.largest_share:.0%}"
    return made | dict(number.beside)


def _claim(found: Equivalence | CoherenceClaim) -> Mapping[str, str]:
    """Whether it may be said to be as good as zero, and if not, for want of what."""
    if isinstance(found, Equivalence):
        verdict = "within" if found.equivalent else "not shown to be within"
        return {verdict: f"±{found.params['hi']:g} (TOST p {found.p:.3g})"}
    margin = f"{found.params['margin']:g} {found.params.get('unit', '')}".strip()
    if found.claimed:
        return {"within": f"{margin}, by {found.ci_method}"}
    wants = [f"{found.n_clusters} of {found.needed_clusters} clusters"] if "clusters" in found.failures else []
    if "upper" in found.failures or "lower" in found.failures:
        ends = [found.upper] if math.isinf(found.lower) else [found.lower, found.upper]
        wants.append(f"bound{'s' * (len(ends) > 1)} {', '.join(map(shown, ends))}")
    return {"not shown to be within": f"{margin}: {'; '.join(wants)}"}


def weighs_clusters(score: Score) -> TypeGuard[ClusterMean]:
    """Whether it is a mean in which it makes a difference that larger clusters weigh more."""
    if not isinstance(score, ClusterMean) or math.isnan(score.equal_weight_mean):
        return False
    return shown(score.equal_weight_mean) != shown(score.mean)
