"""Scores as a terminal, a program and a reader want them."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ...hooks.errors import UserError
from ...metrics import PairedDifference, Score
from ..runs.folder import RunFolder
from ..scoring.engine import Scored
from ..scoring.families import METRICS, Line
from .page import render_page

FILES = ("scores.json", "report.html")
INTERVAL = "interval by"
HEADINGS = ("", "estimate", "95% interval", "p", "n", "clusters", "dropped", "status")


def listing() -> str:
    """Each metric: its name, its sections, its columns, its sentence."""
    return "\n".join(f"{m.name}  ({m.code})\n  {m.sentence}\n  columns: {m.wants}" for m in METRICS)


def as_text(scored: Scored) -> str:
    """The tables of a terminal."""
    lines = [scored.understood.line]
    for group in dict.fromkeys(entry.group for entry in scored.entries):
        lines += ["", group] if group else [""]
        found = list(_rows(scored, group))
        usual = Counter(notes.get(INTERVAL, "") for _, notes in found).most_common(1)[0][0]
        lines += [*_aligned([HEADINGS, *(row for row, _ in found)]), ""]
        lines += [f"  intervals, where nothing else is said: {usual}"] if usual else []
        for (quantity, *_), notes in found:
            said = {key: text for key, text in notes.items() if (key, text) != (INTERVAL, usual)}
            lines += [f"  {quantity}: {'; '.join(f'{key} {text}' for key, text in said.items())}"] if said else []
    if scored.comparisons:
        lines += ["", f"differences on the same items, Holm over {family_size(scored)}"]
        rows = [
            (f"{metric}: {one} - {two}", *cells(score)[:2], adjusted(score), *cells(score)[3:])
            for (metric, one, two), score in scored.comparisons.items()
        ]
        lines += _aligned([(HEADINGS[0], "difference", HEADINGS[2], "adjusted p", *HEADINGS[4:]), *rows])
    lines += ["", *(f"not scored: {name} {why}" for name, why in scored.skipped.items())] if scored.skipped else []
    return "\n".join(lines)


def family_size(scored: Scored) -> int:
    """Comparisons that have a p."""
    return max((score.family_size for score in scored.comparisons.values()), default=0)


def cells(score: Score) -> tuple[str, ...]:
    """Estimate, interval, p, n, clusters, dropped with reasons, status."""
    interval = "" if math.isnan(score.ci_lo) else f"[{number(score.ci_lo)}, {number(score.ci_hi)}]"
    reasons = ", ".join(f"{n} {why}" for why, n in score.reasons.items())
    dropped = f"{score.n_dropped}" + (f" ({reasons})" if reasons else "")
    p = "" if math.isnan(score.p) else f"{score.p:.3g}"
    return (number(score.estimate), interval, p, str(score.n_rows), str(score.n_clusters), dropped, score.status)


def adjusted(score: PairedDifference) -> str:
    """The p of a comparison after Holm."""
    return "" if math.isnan(score.p_adjusted) else f"{score.p_adjusted:.3g}"


def number(value: float) -> str:
    """Three decimals, or three digits of what is smaller."""
    if math.isnan(value):
        return "-"
    if value and abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:.3f}"


def beside(line: Line) -> dict[str, str]:
    """What is to be read with the number: how it was made, and what the metric adds."""
    made, how = {}, line.score.ci_method
    if how:
        made["no interval:" if how.startswith("none") else INTERVAL] = how.removeprefix("none: ")
    if line.score.p_method and line.score.p_method != line.score.ci_method and not math.isnan(line.score.p):
        made["p by"] = line.score.p_method
    if line.equivalence is not None:
        margin = line.equivalence.params["hi"]
        verdict = "within" if line.equivalence.equivalent else "not shown to be within"
        distance = "1 minus it is" if line.quantity == "consistency" else ""
        made[f"{distance} {verdict}".strip()] = f"±{margin:g} (TOST p {line.equivalence.p:.3g})"
    return made | dict(line.beside)


def as_data(scored: Scored, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same for `scores.json`: NaN is null, and the status says why."""
    scores = [
        {"metric": entry.metric.name, "code": entry.metric.code, "quantity": line.quantity, "kind": entry.group}
        | _plain(line.score)
        | {"beside": dict(line.beside)}
        | {"equivalence": None if line.equivalence is None else _plain(line.equivalence)}
        for entry in scored.entries
        for line in entry.lines
    ]
    differences = [
        {"metric": metric, "first_kind": one, "second_kind": two} | _plain(score)
        for (metric, one, two), score in scored.comparisons.items()
    ]
    return {
        "doxascope": __version__,
        "table": scored.understood.path.name,
        "understood": scored.understood.line,
        "settings": dict(settings),
        "scores": scores,
        "differences": differences,
        "not_scored": dict(scored.skipped),
    }


def as_html(scored: Scored, settings: Mapping[str, Any]) -> str:
    """One page: no scripts, nothing from a network, every byte of the table escaped."""
    groups = dict.fromkeys(entry.group for entry in scored.entries)
    return render_page(
        "scores.html.j2",
        table=scored.understood.path.name,
        understood=scored.understood.line,
        headings=HEADINGS,
        tables=[(group, list(_rows(scored, group))) for group in groups],
        differences=[
            (f"{metric}: {one} − {two}", *cells(score)[:2], adjusted(score), *cells(score)[3:])
            for (metric, one, two), score in scored.comparisons.items()
        ],
        family_size=family_size(scored),
        metrics=list(dict.fromkeys((e.metric.name, e.metric.code, e.metric.sentence) for e in scored.entries)),
        skipped=scored.skipped,
        version=__version__,
        settings=settings,
    )


def prepare(folder: Path) -> RunFolder:
    """The folder that `write` will fill. Raises UserError if it holds anything but scores of a table."""
    try:
        foreign = [p.name for p in folder.iterdir() if p.name not in FILES] if folder.exists() else []
        kept = folder / "scores.json"
        if not foreign and kept.exists() and "understood" not in json.loads(kept.read_text(encoding="utf-8")):
            foreign = [kept.name]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: cannot be used for scores ({error}); choose another --out") from None
    if foreign:
        raise UserError(f"{folder}: holds {sorted(foreign)[0]!r}, which is no score of a table; choose another --out")
    return RunFolder(folder)


def write(folder: RunFolder, scored: Scored, settings: Mapping[str, Any]) -> None:
    """`scores.json` and `report.html`, each whole or not at all."""
    try:
        folder.write_json("scores.json", as_data(scored, settings))
        folder.write("report.html", as_html(scored, settings))
    except OSError as error:
        raise UserError(f"{folder.path}: cannot be written ({error.strerror}); choose another --out") from None


def _rows(scored: Scored, group: str) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    for entry in scored.entries:
        if entry.group == group:
            for line in entry.lines:
                yield (line.quantity, *cells(line.score)), beside(line)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    texts = [
        [cell.ljust(w) if i in (0, 7) else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    ]
    return ["  ".join(text).rstrip() for text in texts]


def _plain(score: Score) -> dict[str, Any]:
    """What of a score JSON can hold: numbers, texts, and mappings of them; not the arrays."""
    return {name: _value(value) for name, value in score.as_dict().items() if not isinstance(value, list | np.ndarray)}


def _value(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _value(inner) for key, inner in value.items()}
    return [_value(inner) for inner in value] if isinstance(value, tuple) else value
