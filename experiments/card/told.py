"""A card for a terminal and for a program."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import __version__
from ...probes.card.claims import Card
from ..comparing import Comparison, Group
from ..report.aligned import aligned, in_lines
from ..report.rows import as_row, jsonable
from ..runs.folder import RunFolder
from ..scoring.number import interval_text, shown
from ..tables.samples import sample_name
from .against import Against
from .card import ModelCard, registered
from .page import against_page


def text(card: ModelCard) -> str:
    """Gates first, then the registered number of each experiment by kind, then the probe."""
    lines = [f"card of {card.model} by the set {card.chosen.name}, version {card.chosen.version}, seed {card.seed}", ""]
    rows = [("", "", "kind", "estimate", "interval", "status", "gate")]
    for name, found in card.within.items():
        (group,) = found.groups
        for one in registered(group):
            judged = {sample_name(verdict.kind, verdict.method, "") for verdict in group.sides[0].verdicts}
            gate = "passes" if one.name in judged else "not judged"
            gate = f"fails {group.failed[one.name]}" if one.name in group.failed else gate
            told = (shown(one.score.estimate), interval_text(one.score.ci_lo, one.score.ci_hi) or "none")
            rows.append((f"{name}: {one.metric}", one.method, one.kind, *told, one.score.status, gate))
    lines += aligned(rows)
    if card.probed:
        lines += ["", f"what the probe reads: {Card.of(card.probed).headline}"]
        lines += aligned([_claim(one) for one in card.probed["claims"]])
    return in_lines(lines)


def _claim(one: Mapping[str, Any]) -> tuple[str, str, str]:
    """A claim of the probe and its verdict, with the first that is told of one which is not supported."""
    return one["name"], one["verdict"], "" if one["verdict"] == "supported" else one["evidence"].partition("; ")[0]


def as_data(card: ModelCard) -> dict[str, Any]:
    """The card for `card.json`: where everything lies, and the numbers that the page shows."""
    told = {key: value for key, value in card.probed.items() if key != "settings"}  # they name the folders of runs
    probe = {"folder": card.probe.name, **told} if card.probe else None
    return {
        "doxascope": __version__,
        "set": card.chosen.model_dump(mode="json"),
        "model": card.model,
        "seed": card.seed,
        "runs": {name: path.name for name, path in card.runs.items()},
        "experiments": {name: _experiment(found.groups[0], found) for name, found in card.within.items()},
        "probe": probe,
    }


def _experiment(group: Group, found: Comparison) -> dict[str, Any]:
    (side,) = group.sides
    return {
        "headline": side.headline,
        "gates": {one.method: {"passed": one.passed, "fails": one.reason} for one in side.verdicts},
        "numbers": [as_row(one) for one in registered(group)],
        "differences": [as_row(one.number) | one.as_dict() for one in (*found.confirmed, *found.struck)],
    }


def against_text(found: Against) -> str:
    """What was tested against the other card, and what is worse."""
    if found.comparison is None:
        return "the card was compared with itself: nothing differs"
    lines = [f"against {found.other.folder}: {len(found.tested)} tests (Holm)"]
    lines += [f"  {one.told}" for one in found.tested]
    lines += ["", *(f"worse: {line}" for line in found.regressions)] if found.regressions else ["", found.passed]
    return in_lines(lines)


def write_against(found: Against) -> Path:
    """`against.json` and `against.html` in the card's folder; returns the page's path."""
    folder = RunFolder(found.card.folder)
    folder.write_json("against.json", against_data(found))
    folder.write("against.html", against_page(found).html())
    return found.card.folder / "against.html"


def against_data(found: Against) -> dict[str, Any]:
    """The same for `against.json`; what could not be tested is null."""
    told = {
        "doxascope": __version__,
        "card": found.card.folder.name,
        "other": found.other.folder.name,
        "tested": [one.as_dict() for one in found.tested],
        "regressions": found.regressions,
    }
    return jsonable(told)
