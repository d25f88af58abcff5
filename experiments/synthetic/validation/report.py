"""What was planted and what was recovered, as figures and as a report; and what null organisms were said to hide."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from ....base.files import OutputFolder
from ....base.text import shown
from ....base.version import __version__
from ...report.cells import jsonable
from ...report.document import Cell, Picture, Primary, Prose, Report, TableBlock, Top, grid, in_chapter, stamped
from ...report.figures import Panel, chart
from ...report.findings import Figure
from ...report.html import FIGURES
from ...report.marks import Axis, cells, diagonal, note, points, unit
from ...report.plotting import INK
from ...report.score_files import prepared
from .beliefs import ANSWER, PARTS, PROBE, Effort
from .claims import RULES, NullPlan, NullRead, rates
from .recovery import FOUND, NOT_FOUND, NOT_SHOWN, SHARE, TOLERANCE, Organism, Recovered


def lead_figure(found: Sequence[Organism]) -> Figure:
    """Belief against exact posterior, in the answer and at the summary, an organism a panel."""
    panels = []
    for organism in found:
        truth, plain, told = expit(organism.posterior), organism.sides.plain, organism.sides.told
        marks = [
            diagonal(),
            points(truth, expit(plain[ANSWER]), "answer", size=3, color=INK, alpha=0.5),
            points(truth, expit(told[ANSWER]), "answer, after the user says left", size=3, color=INK, alpha=0.35,
                   marker="x"),
            points(truth, expit(plain[PROBE]), "probe at the summary", size=3, alpha=0.7),
        ]  # fmt: skip
        panels.append((organism.species.name, marks))
    caption = (
        "Each organism's answers, and what a cross-fitted probe reads of it before the question, against the exact "
        "posterior, in contexts that it was not trained on."
    )
    return chart("Said and held", panels, caption, x=unit("exact posterior"), y=unit("belief"), columns=4)


def map_figure(found: Sequence[Organism]) -> Figure:
    """Share of an update that moves with the residual stream, part of the prompt by layer."""
    panels = []
    for organism in found:
        grid = np.array([cell.score.estimate for cell in organism.map]).reshape(len(PARTS), -1)
        layers = range(grid.shape[1])
        written = note((len(layers) - 1) / 2, (len(PARTS) - 1) / 2, "nothing moves\nthe answer")
        marks = [cells(grid), *([written] if grid.max() < TOLERANCE[SHARE] else [])]  # false where a cell is missing
        panels.append(Panel(organism.species.name, marks, Axis("layer", ticks=layers)))
    caption = (
        "Share of the posterior's update that moves the answer with the residual stream of one part of the prompt "
        "after one block, exchanged between minimal pairs: black is all of it."
    )
    return chart("Where it lies", panels, caption, y=Axis(ticks=range(len(PARTS)), names=PARTS), columns=3)


FILES = ("report.json", "report.html", FIGURES)
NULL_FILES = (*FILES, "nulls.json")
SAID = (
    "An organism is a small transformer that was trained so that its beliefs are known: one of two urns was chosen, "
    "left or right, and six balls were drawn from it. The balls are the tokens that name these, the summary the last "
    "token of that message, before any question, and the bet a question of which urn to stake on. docs/validate.md "
    "says more."
)
RULE = (
    "Found: the whole interval lies within the tolerance of what was planted. Not found: none of it does. Not shown: a "
    "part of it does, so that more contexts are needed to say (--contexts). Where what was planted is itself a number "
    "of these contexts (not an RMSE), the interval is that of the distance between the two. A dash: nothing was "
    "planted that could be found; it does not count."
)
WRONG = "wrong"


def prepare(folder: Path) -> OutputFolder:
    """The folder that the report is to be written into. Raises UserError if it holds anything but a validation."""
    return prepared(folder, FILES, "Validation", "validation")


def prepare_null(folder: Path) -> OutputFolder:
    """The same of null organisms."""
    return prepared(folder, NULL_FILES, "Null organisms", "validation of null organisms")


def number_text(number: Recovered) -> str:
    """An estimate with its interval."""
    if math.isnan(number.estimate):
        return "none"
    return shown(number.estimate) + (f" [{shown(number.lo)}, {shown(number.hi)}]" if math.isfinite(number.lo) else "")


def planted_text(value: float) -> str:
    """A planted value; a dash where nothing was planted that could be found."""
    return "-" if math.isnan(value) else shown(value)


def _rows(organism: Organism) -> Iterator[tuple[str, str, str | Cell, str, str]]:
    for number in organism.numbers:
        name, verdict = f"{number.what}: {number.reading}", number.state or "-"
        tolerance = planted_text(number.tolerance if number.state else math.nan)
        exact = jsonable(number._asdict() | {"state": number.state})
        yield name, planted_text(number.planted), Cell(number_text(number), score=exact), tolerance, verdict
    for claim in organism.claims:
        planted, told = ("yes" if so else "no" for so in (claim.planted, claim.claimed.certified))
        yield f"{claim.claimed.name} certified", planted, told, "", "right" if claim.right else WRONG
    place = organism.place
    where, same = f"{place.found}, {place.lead} tokens before the answer", place.planted == place.found
    yield "place from which the belief is held", place.planted, where, "", FOUND if same else NOT_FOUND


def _left(organism: Organism, *verdicts: str) -> str:
    """What has one of these verdicts."""
    return "; ".join(name for name, *_, verdict in _rows(organism) if verdict in verdicts)


def page(found: Sequence[Organism], effort: Effort) -> Report:
    """Planted against recovered: the figure, then organism by organism."""
    wrong = {one.species.name: left for one in found if (left := _left(one, NOT_FOUND, WRONG))}
    open_ = {one.species.name: left for one in found if (left := _left(one, NOT_SHOWN))}
    says = f"Not recovered: {', '.join(wrong)}." if wrong else f"All {len(found)} organisms are recovered."
    if open_ and not wrong:
        says = (
            "No number is farther from what was planted than its tolerance, but there are too few contexts to show all "
            f"of {', '.join(open_)}."
        )
    counted = [number.state for organism in found for number in organism.numbers if number.state]
    claims = [claim for organism in found for claim in organism.claims]
    top = Top(
        said=SAID,
        verdict=stamped(says, [*(wrong or open_).items()]),
        further=[Prose(text=RULE)],
        figure=lead_figure(found),
        primary=Primary(
            label="planted numbers that were found",
            value=f"{counted.count(FOUND)} of {len(counted)}",
            lines=[
                *([f"{counted.count(NOT_SHOWN)} not shown"] if NOT_SHOWN in counted else []),
                f"{sum(claim.right for claim in claims)} of {len(claims)} claims are right",
            ],
        ),
    )
    blocks = in_chapter("Organism by organism", map(_organism, found))
    caption = "Fixed before anything was read, and the same for null organisms (`doxascope validate --null`)."
    rules = grid("Rules", ["claim", "is certified if"], list(RULES.items()), caption=caption)
    blocks += [Picture(title="Where the belief lies", figure=map_figure(found)), rules]
    made = f"{effort.contexts} contexts, seed {effort.seed}; doxascope {__version__}."
    return Report("Validation", "on organisms", top, blocks, made)


def _organism(organism: Organism) -> TableBlock:
    return grid(
        organism.species.name,
        ["number or claim", "planted", ("recovered", "with its interval"), "tolerance", "verdict"],
        _rows(organism),
        caption=f"It {organism.species.story}.",
        short=True,
    )


def null_page(found: Sequence[NullRead], plan: NullPlan) -> Report:
    """How often what is not there was certified."""
    counted = rates(found)
    rows = [
        [rate.claim, f"{rate.times} of {rate.n}", "[{:.3f}, {:.3f}]".format(*rate.interval), "FAILS" * rate.fails]
        for rate in counted
    ]
    left = sum(not read.honest for read in found)
    notes = [f"{left} of {len(found)} organisms have not learnt to say what they hold, and are left out."] * bool(left)
    wrong = [(rate.claim, f"{rate.times} of {rate.n}") for rate in counted if rate.fails]
    top = Top(
        said="How often a false claim was certified, in organisms that hide nothing and flatter nobody.",
        verdict=stamped("Certified too often." if wrong else "No claim is certified too often.", wrong),
        further=[Prose(text=note) for note in notes],
    )
    table = grid("False claims", ["false claim", "certified", "95% interval of the share", "verdict"], rows, short=True)
    return Report("Null organisms", f"{plan.n} of them", top, [table], f"doxascope {__version__}.")


def null_data(found: Sequence[NullRead], plan: NullPlan) -> dict[str, Any]:
    """For `nulls.json`."""
    return {
        "doxascope": __version__,
        "plan": plan._asdict(),
        "rules": {rate.claim: RULES[rate.claim] for rate in rates(found)},
        "false_claims": {
            rate.claim: {"count": rate.times, "n": rate.n, "interval": list(rate.interval), "fails": rate.fails}
            for rate in rates(found)
        },
        "organisms": [
            {"seed": read.seed, "r2": read.r2, "honest": read.honest}
            | {name: claim.evidence for name, claim in read.claims.items()}
            | {"certified": [name for name, claim in read.claims.items() if claim.certified]}
            for read in found
        ],
    }
