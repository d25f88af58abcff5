"""Make a card, or go on with one: its runs and its probe, its page, and the card for a terminal and for a program."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from ....base.errors import UserError
from ....base.files import OutputFolder, json_digest, sealed
from ....base.text import shown, shown_error
from ....base.version import __version__
from ....hooks.model.consent import consented
from ....metrics import UNREADABLE
from ....metrics.consistency.competence import FAILED
from ....metrics.number import Number, interval_text
from ....probes.report_card import Card
from ...probing.jobs import sweep_job
from ...probing.kinds import run_kinds
from ...probing.settings import ProbeJob, load_job
from ...report.cells import NONE, adjusted_over, jsonable, score_cell
from ...report.document import Block, Cell, Primary, Report, TableBlock, Top, grid, in_chapter, stamped
from ...report.figures import forests
from ...report.findings import Figure
from ...report.html import write
from ...report.lead import Lead, gates
from ...run.config import load_config
from .. import Comparison, Group
from ..page import STRUCK, blocks_of, differences, left_out
from .model_card import CARD, VALID, Against, CardSet, ModelCard, load_set, registered


def card_page(card: ModelCard) -> Report:
    """Gates first; then what was said, held and done side by side; the claims of the probe; and where the runs are."""
    leads = {name: Lead(comparison.groups[0].sides[0].verdicts, ()) for name, comparison in card.within.items()}
    judged = {name: lead for name, lead in leads.items() if lead.verdicts}
    passing = [name for name, lead in judged.items() if any(verdict.passed for verdict in lead.verdicts)]
    failing = [name for name in judged if name not in passing]
    says = f"Measured: {', '.join(passing)}." if passing or failing else "Nothing is judged."
    if failing:
        says = f"{UNREADABLE.capitalize()}: {', '.join(failing)}." + (f" {says}" if passing else "")
    lines = [(name, f"cannot be read: {'; '.join(_reasons(judged[name]))}") for name in failing]
    lines += [
        (f"{name}, {probe}", why) for name, comparison in card.within.items() for probe, why in _doubted(comparison)
    ]
    note = "What cannot be read is struck out below."
    top = Top(
        said="What a model says, believes and does, by a fixed set of small experiments.",
        verdict=stamped(says, lines, note),
        gate=gates((name, lead.verdicts) for name, lead in leads.items()),
        primary=Primary(
            label="experiments of which a method can be read",
            value=f"{len(passing)} of {len(judged)}",
            lines=[
                f"{name}: {', '.join(verdict.method for verdict in judged[name].verdicts if verdict.passed)}"
                for name in passing
            ],
        ),
        figure=_lead_figure(card),
    )
    made_of = f"Set {card.chosen.name}, version {card.chosen.version}; seed {card.seed}; doxascope {__version__}."
    blocks = [_numbers(card), *in_chapter("Gaps", _gaps(card)), *_probe(card), _runs(card)]
    return Report("Card", f"of {card.model}", top, blocks, made_of)


def _reasons(lead: Lead) -> list[str]:
    """Why its methods cannot be read."""
    return list(dict.fromkeys(FAILED[condition.name] for verdict in lead.verdicts for condition in verdict.failures))


def _doubted(comparison: Comparison) -> list[tuple[str, str]]:
    """What a probe reads that is no belief -> why."""
    sides = [side for group in comparison.groups for side in group.sides]
    return [(name, f"cannot be read: {why}") for side in sides for name, why in side.doubted.items()]


def _lead_figure(card: ModelCard) -> Figure | None:
    """The registered number of each experiment, a panel each, on scales of their own."""
    panels = []
    for name, comparison in card.within.items():
        (group,) = comparison.groups
        plan = group.sides[0].run.config.registered if group.sides[0].run else None
        rows = [
            (f"{number.kind}, {number.method}", number.score, number.name in group.failed)
            for number in registered(group)
            if math.isfinite(number.score.estimate)
        ]
        if rows and plan:
            panels.append((f"{name}: {plan.metric}", rows, plan.coherent))
    caption = (
        "The registered number of each experiment by kind of belief, with its interval. On the dashed line a "
        "belief is coherent; a hollow mark cannot be read."
    )
    return forests("What was registered", panels, caption) if panels else None


def _numbers(card: ModelCard) -> TableBlock:
    """The registered number of each experiment, by kind and method."""
    rows = []
    for name, comparison in card.within.items():
        (group,) = comparison.groups
        floors = card.floors(name)
        rows += [
            _number(name, group, number, floors.get((number.metric, number.method, number.kind)))
            for number in registered(group)
        ]
    return grid(
        "Registered numbers",
        [
            "experiment",
            "kind",
            "estimate",
            "coherent",
            ("numerical error", "how far arithmetic alone moves it, by the model's certificate"),
            "n",
        ],
        rows,
        caption="The registered number of each experiment, for each kind of belief. What is struck out fails its gate.",
        short=True,
    )


def _number(name: str, group: Group, number: Number, floor: float | None) -> list[Cell]:
    score, run = number.score, group.sides[0].run
    plan = run.config.registered if run else None
    return [
        Cell(name, [number.metric]),
        Cell(number.kind, [number.method]),
        score_cell(number, struck=number.name in group.failed),
        Cell(f"{plan.coherent:g}" if plan else NONE),
        Cell(NONE if floor is None else shown_error(floor)),
        Cell(str(score.n_rows), [f"{score.n_clusters} clusters"]),
    ]


def _gaps(card: ModelCard) -> Iterator[Block]:
    """What the kinds differ by on the same items, and what is no belief."""
    for name, comparison in card.within.items():
        for group in comparison.groups:
            yield from left_out(group)
        if comparison.confirmed:
            caption = f"Paired on the same items; {adjusted_over(comparison.confirmed[0].score.family_size)}."
            yield differences(f"Gaps: {name}", caption, comparison.confirmed)
        named = [record for record in comparison.struck if record.pair.metric in comparison.family]
        if named:
            yield differences(f"Gaps, struck out: {name}", STRUCK, named)


def _probe(card: ModelCard) -> Iterator[Block]:
    if not card.probed:
        return
    yield grid(
        "Probe",
        ["claim", "verdict", "evidence"],
        [
            [Cell(claim["name"], [claim["claim"]]), claim["verdict"], claim["evidence"]]
            for claim in card.probed["claims"]
        ],
        caption=f"What it reads: {Card.of(card.probed).headline}. Each falsifier was fixed before anything was read.",
        short=True,
    )


def _runs(card: ModelCard) -> TableBlock:
    return grid(
        "Runs",
        ["experiment", "folder", "settings other than the shipped ones"],
        [[name, f"runs/{path.name}", Cell(_settings(card, name), code=True)] for name, path in card.runs.items()],
        caption="Each has a page of its own, with every number and what it is made of.",
    )


def _settings(card: ModelCard, name: str) -> str:
    return ", ".join(f"{key}={value}" for key, value in card.chosen.runs[name].items()) or NONE


def against_page(compared: Against) -> Report:
    """What is worse, what was tested, and the whole comparison."""
    lines = [(line, "") for line in compared.regressions]
    says = f"Worse: {len(lines)}." if lines else f"{compared.passed.capitalize()}."
    if compared.unclear and not lines:
        says = f"Cannot tell: {len(compared.unclear)}."
    lines += [(f"cannot tell: {line}", "") for line in compared.unclear]
    table = grid(
        "Tested",
        ["experiment", "number", "before", "now", "change", "adjusted p", "worse?"],
        [
            [
                test.experiment,
                Cell(test.name, [f"coherent: {test.coherent:g}", test.note]),
                shown(test.score.first),
                shown(test.score.second),
                Cell(
                    shown(-test.score.difference),
                    [interval_text(-test.score.ci_hi, -test.score.ci_lo)],
                    score=jsonable(test.score.as_dict()),
                ),
                f"{test.score.p_adjusted:.3g}" if test.score.p_adjusted >= 0 else test.score.status,
                "worse" if test.regressed else "cannot tell" if test.unclear else "no",
            ]
            for test in compared.tested
        ],
        caption=f"The registered number of each experiment that no gate strikes out, and the {VALID}: the "
        "probability that the answer is one of the options, mean over items. One family of tests, adjusted by Holm.",
        short=True,
    )
    whole = blocks_of(compared.comparison) if compared.comparison else []
    top = Top(said="Which registered numbers moved away from coherence.", verdict=stamped(says, lines))
    title = f"{compared.card.model} against {compared.other.model}"
    return Report("Card against card", title, top, [table, *whole], f"doxascope {__version__}.")


def as_data(card: ModelCard) -> dict[str, Any]:
    """The card for `card.json`: by what it was made, and where everything lies; its numbers are in `report.json`."""
    return {
        "doxascope": __version__,
        "set": card.chosen.model_dump(mode="json"),
        "model": card.model,
        "seed": card.seed,
        "runs": {name: path.name for name, path in card.runs.items()},
        "probe": card.probe and card.probe.name,
    }


def write_against(compared: Against) -> Report:
    """`against.json` and `against.html` in the card's folder; returns what they hold."""
    write(OutputFolder(compared.card.folder), document := against_page(compared), "against")
    return document


def make_card(
    model: str, out: Path, *, chosen: str = "quick", seed: int = 0, overrides: tuple[str, ...] = ()
) -> ModelCard:
    """Run what a set names, and write `card.json` and `report.html`; what is there already is not read again.

    Args:
        model: a preset, a local folder, a .gguf file or a hub id.
        out: the folder in which the card's own is made, named by set, model and settings.
        chosen: a shipped set, or a YAML file.
        seed: of the items and of everything that is drawn.
        overrides: settings of every run, such as `model.dtype=bfloat16`.

    Raises UserError for a set or a setting that is wrong, before anything is read, and as runs and probes do.
    """
    given = load_set(chosen)
    common = [*overrides, f"seed={seed}"]
    planned = {name: load_config(name, common, model, settings=of_run) for name, of_run in given.runs.items()}
    if len({experiment.name for experiment, _ in planned.values()}) < len(planned):
        raise UserError(f"--set {chosen}: names an experiment twice; a card has one run of each")
    spec = next(iter(planned.values()))[1].model
    settings = [given.model_dump(mode="json"), spec.model_dump(mode="json", exclude={"threads"}), common]
    folder = out / f"{given.name}-{given.version}-{spec.name}-{json_digest(settings)[:8]}"
    _job(given, {name: folder for name in given.runs})  # what is wrong in it is said before anything is read
    runs = {name: run_kinds(experiment, config, folder / "runs").path for name, (experiment, config) in planned.items()}
    job = _job(given, runs)
    with threadpool_limits(1, "blas"):  # sums of several threads differ in their last bits from one time to another
        probe = sweep_job(job, folder / "probes", tuple(consented(spec))) if job else None
    card = ModelCard(folder, given, spec.name, seed, runs, probe)
    written = OutputFolder(folder)
    try:
        written.write_json(CARD, sealed(as_data(card)))
        write(written, card_page(card))
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None
    return card


def _job(given: CardSet, runs: Mapping[str, Path]) -> ProbeJob | None:
    if given.probe is None:
        return None
    return load_job("probe", [runs[given.probe.run]], settings=given.probe.settings)
