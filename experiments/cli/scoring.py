"""`doxascope check`, `report`, `sheet`, `score`, `compare`, `tables` and `card`: what is stored, as numbers, pages, and
side by side.
"""

from pathlib import Path
from typing import Any

import click

from ...base.code import load_code
from ...base.documents import user_path
from ...base.errors import UserError, in_one_line
from ...base.text import as_csv, for_spreadsheet
from .console import ALLOW_CODE, FULL, OVERRIDE, echo, echo_report, echo_stored, named_values, number


def _list_metrics(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from ...metrics.metric import registered

        for metric in registered():
            echo(f"{metric.name}  ({metric.code})\n  {metric.sentence}\n  columns: {metric.wants}")
        context.exit()


@click.command()
@click.argument("folders", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(folders: tuple[Path, ...]) -> None:
    """Read runs once, and name every file that is not as it was written; needs no model.

    Exits with 2 if there is one. `doxascope run` with --restore reads anew what is lost.

    \b
    doxascope check runs/consistency-smollm2-135m-1a2b3c4d
    """
    from ...hooks.store.commits import AGAIN
    from ..run.folder import RunFolder
    from ..run.integrity import faults

    damaged = 0
    for run in map(RunFolder.open, folders):
        with in_one_line(run.path):
            lines = list(faults(run))
            damaged += bool(lines)
            if not lines:
                missing = f", {run.missing} still to be read" if run.missing else ""
                lines = [f"{run.path}: {len(run.committed())} batches{missing}, every file as it was written"]
        echo("\n".join(lines))
    if damaged:
        raise UserError(f"{damaged} of {len(folders)} runs damaged; {AGAIN}")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@FULL
@ALLOW_CODE
def report(folder: Path, full: bool, allow_code: tuple[Path, ...]) -> None:
    """Score a run anew from its stored beliefs and write its report; needs no model.

    \b
    doxascope report runs/consistency-smollm2-135m-1a2b3c4d
    """
    from ..run.config import stored_config
    from ..run.folder import RunFolder
    from ..run.runner import report as write_report

    stored = RunFolder.open(folder)
    with stored.writing(alone=False):
        write_report(stored, *stored_config(stored.config, allow_code))
    echo_stored(folder, full)


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
def sheet(run: Path, file: Path) -> None:
    """Write the steps of a martingale run as a CSV in which people fill in what they believe after each.

    It is made for spreadsheets: an apostrophe stands before what they would compute, which --ratings takes away.

    \b
    doxascope sheet runs/martingale-smollm2-135m-1a2b3c4d ratings.csv
    doxascope score runs/martingale-smollm2-135m-1a2b3c4d --ratings ratings.csv
    """
    from ..run.folder import RunFolder
    from ..suite.martingale.readings import sheet as empty_sheet

    text = as_csv(for_spreadsheet(empty_sheet(RunFolder.open(run))))
    try:
        with file.open("x", encoding="utf-8", newline="") as opened:
            opened.write(text)
    except FileExistsError:
        raise UserError(f"{file}: is there, and may hold ratings; name another file") from None
    except OSError as error:
        raise UserError(f"{file}: cannot be written ({error.strerror})") from error


@click.command()
@click.argument("tables", metavar="TABLE|RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--ratings", type=click.Path(path_type=Path), help="What people believed at the steps of a run.")
@click.option("--metric", default="all", show_default=True, metavar="NAME", help="A metric of --list, or all that fit.")
@click.option("--cluster", metavar="COLUMN", help="What was sampled: rows that share it are not independent.")
@click.option("--replicates", metavar="COLUMN", help="Which reading of its item a row is, for reliability.")
@click.option("--by", metavar="COLUMN,...", help="Score each level of these columns, and each combination of them.")
@click.option("--map", "names", multiple=True, metavar="NAME=COLUMN", help="A name of --list, and your column for it.")
@click.option(
    "--reference", "references", multiple=True, metavar="FACTOR=LEVEL", help="What other levels are compared with."
)
@click.option(
    "--seed", type=click.IntRange(0), help="Of everything that is resampled; 0, or a run's own, if not given."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder for scores.json and the report.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_metrics, help="Show the metrics."
)
@FULL
@ALLOW_CODE
def score(
    tables: tuple[Path, ...],
    ratings: Path | None,
    metric: str,
    cluster: str | None,
    replicates: str | None,
    by: str | None,
    names: tuple[str, ...],
    references: tuple[str, ...],
    seed: int | None,
    out: Path | None,
    full: bool,
    allow_code: tuple[Path, ...],
) -> None:
    """Score beliefs from anywhere: a CSV, Parquet, JSON or JSONL table, known by its column names; or runs, together.

    A worked example: a file of four lines,

    \b
    question,prior,posterior,outcome
    rain,0.30,0.45,1
    snow,0.20,0.10,0
    hail,0.60,0.70,1

    \b
    doxascope score forecasts.csv                          every metric that fits
    doxascope score forecasts.csv --metric martingale      one of them
    doxascope score forecasts.csv --out scores             JSON and a page as well
    doxascope score mine.json --map belief=probability     what you call probability is the belief
    doxascope score answers.csv --by model,template        each level, each cell, and what levels differ by
    doxascope score updates.csv --reference domain=law     slopes of other domains less that of law
    doxascope score runs/martingale-*                      runs of one experiment together, by model
    doxascope score forecasts.csv --allow-code mine.py     with metrics of your own (docs/extending.md)
    doxascope score --list                                 metrics and their columns
    """
    from ...metrics.scoring.engine import chosen, score_table
    from ..report.score_files import page_of, prepare, write
    from ..run.folder import run_at

    folder = None if out is None else prepare(out)
    for file in allow_code:
        load_code(user_path(file).resolve())
    chosen(metric)
    as_table = cluster or replicates or names or by
    named, compared = named_values("--map", names), named_values("--reference", references)
    runs = [run for table in tables if (run := run_at(table)) and not (as_table and table.name == "beliefs")]
    for run in [run for table in tables if table.name == "beliefs" and as_table and (run := run_at(table))]:
        run.require_no_other_beliefs()
    if runs and as_table:
        raise UserError("--cluster, --replicates, --by and --map are for tables; a run knows its items")
    if len(runs) < len(tables) and (ratings or len(tables) > 1):
        odd = next(table for table in tables if not run_at(table))
        raise UserError(f"{odd}: is no run; only runs are scored together, or with --ratings")
    if runs:
        from ..run.joint_scores import score_runs  # and with it torch

        scored = score_runs(runs, metric, ratings=ratings, references=compared, seed=seed, allow_code=allow_code)
    else:
        table = next(iter(tables))
        known = {"cluster": cluster, "replicates": replicates, "names": named, "by": _columns(by)}
        scored = score_table(table, metric, **known, references=compared, seed=seed or 0)
    settings: dict[str, Any] = {"metric": metric, "cluster": cluster, "replicates": replicates, "seed": seed, "by": by}
    settings |= {"ratings": ratings and str(ratings), "map": ", ".join(names) or None}
    settings |= {"reference": ", ".join(references) or None}
    settings = {key: value for key, value in settings.items() if value is not None}
    document = page_of(scored, settings) if folder is None else write(folder, scored, settings)
    echo_report(document, None if folder is None else folder.path, full)


def _columns(by: str | None) -> list[str]:
    """The names of a list with commas. Raises UserError for one that is empty."""
    names = [] if by is None else [name.strip() for name in by.split(",")]
    if not all(names):
        raise UserError(f"--by {by!r}: has an empty name; give columns with commas between them")
    return names


@click.command()
@click.argument("paths", metavar="RUN|TABLE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="A number to confirm, as in scores.json.")
@click.option(
    "--margin", "margins", multiple=True, metavar="NAME=VALUE", help="Within it two are tested to be the same."
)
@click.option("--cluster", metavar="COLUMN", help="Of tables: what was sampled.")
@click.option("--map", "names", multiple=True, metavar="NAME=COLUMN", help="Of tables: a name, and your column for it.")
@click.option("--method", "methods", multiple=True, metavar="NAME", help="Of sides that call it otherwise: the method.")
@click.option("--seed", type=click.IntRange(0), help="Of all resampling; the first run's own, or 0, if not given.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the report, as a page and as JSON.")
@FULL
@ALLOW_CODE
def compare(
    paths: tuple[Path, ...],
    metrics: tuple[str, ...],
    margins: tuple[str, ...],
    cluster: str | None,
    names: tuple[str, ...],
    methods: tuple[str, ...],
    seed: int | None,
    out: Path | None,
    full: bool,
    allow_code: tuple[Path, ...],
) -> None:
    """Compare runs, or tables, on the items that both have; or the kinds of belief of one run.

    What differs between runs is told first, and what cannot be compared is refused. Names given by --metric are the
    family of tests (Holm); without them it is what the runs were made for. All else is exploratory.

    \b
    doxascope compare runs/martingale-a runs/martingale-b             two models, templates, back ends, checkpoints
    doxascope compare runs/martingale-a                               exact, stated, inner and probed beliefs of one run
    doxascope compare runs/martingale-a runs/truth-a runs/martingale-b runs/truth-b
    doxascope compare mine.csv theirs.csv --metric brier --margin brier=0.01
    doxascope compare a.eval b.eval                                   logs of Inspect; samples_*.jsonl of lm-eval
    doxascope compare runs/ask-a samples_b.jsonl --method texts       a run and a log of the same questions
    """
    from ..compare import compare as compared
    from ..compare.page import page, prepare
    from ..report.html import write

    folder = None if out is None else prepare(out)
    within = {name: number("--margin", name, value) for name, value in named_values("--margin", margins).items()}
    comparison = compared(
        *paths, metrics=metrics, margins=within, cluster=cluster, names=named_values("--map", names), methods=methods,
        seed=seed, allow_code=allow_code,
    )  # fmt: skip
    settings = {"metric": ", ".join(metrics), "margin": ", ".join(margins), "cluster": cluster, "seed": seed}
    settings |= {"map": ", ".join(names), "method": ", ".join(methods)}
    document = page(comparison, {key: value for key, value in settings.items() if value not in (None, "")})
    if folder is not None:
        write(folder, document)
    echo_report(document, None if folder is None else folder.path, full)


@click.command()
@click.argument("paths", metavar="RUN...|TABLE", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--by", metavar="COLUMN,...", help="Of a table: what makes its rows and columns.")
@click.option("--cluster", metavar="COLUMN", help="Of a table: what was sampled.")
@click.option(
    "--map", "names", multiple=True, metavar="NAME=COLUMN", help="Of a table: a name, and your column for it."
)
@click.option("--latex", is_flag=True, help="As LaTeX, for the package booktabs.")
@ALLOW_CODE
def tables(
    paths: tuple[Path, ...],
    by: str | None,
    cluster: str | None,
    names: tuple[str, ...],
    latex: bool,
    allow_code: tuple[Path, ...],
) -> None:
    """Print the tables of a paper that runs replicate, or that raw data fill, with its rows, columns, names and stars.

    What is not held is a dash. Below each number stands our interval; an unreadable method is marked.

    \b
    doxascope tables runs/martingale-*                     Table 1 of the paper, a row for each model and prompt
    doxascope tables runs/consistency-a --latex            for a manuscript
    doxascope tables steps.csv --by model,prompt,domain    the same of raw data (docs/papers.md names the columns)
    """
    from ...metrics.scoring.engine import score_table
    from ..report.papers.latex import as_latex
    from ..report.papers.of_levels import tables_of_levels
    from ..report.papers.paper_tables import as_lines, marks_of
    from ..run.folder import run_at

    folders = {path: run_at(path) for path in paths}
    raw = [path for path, folder in folders.items() if folder is None]
    if raw and len(paths) > 1:
        raise UserError(f"{raw[0]}: is no run; give the folders of runs, or one table")
    if not raw and (by or cluster or names):
        raise UserError("--by, --cluster and --map are for tables; a run knows its items")
    notes: list[str] = []
    if raw:
        for file in allow_code:
            load_code(user_path(file).resolve())
        scored = score_table(raw[0], cluster=cluster, names=named_values("--map", names), by=_columns(by))
        paper_tables = tables_of_levels(scored)
        if not paper_tables:
            raise UserError(f"{scored.understood.line}: fills no table of a paper; say by --by what its rows are")
        notes.append(scored.understood.line)
    else:
        from ..run.paper_tables import scored_earlier, tables_of  # and with it torch

        whole = [folder for folder in folders.values() if folder is not None]
        paper_tables = tables_of(whole, allow_code)
        notes += scored_earlier(whole)
    for table in paper_tables:
        echo(as_latex(table) if latex else "\n".join(as_lines(table)))
        echo("")
    for line in [*marks_of(paper_tables), *notes]:
        echo(f"% {line}" if latex else line)


@click.command()
@click.argument("model")
@click.option("--set", "chosen", default="quick", show_default=True, help="quick, standard, or a YAML file.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of items and of what is drawn.")
@OVERRIDE
@click.option("--out", type=click.Path(path_type=Path), default=Path("cards"), show_default=True, help="For cards.")
@click.option("--against", "other", type=click.Path(path_type=Path), help="A card to be tested against.")
@FULL
def card(
    model: str, chosen: str, seed: int, overrides: tuple[str, ...], out: Path, other: Path | None, full: bool
) -> None:
    """Run a fixed set of small experiments and a probe on MODEL, and write one page.

    The same command again resumes. With --against the registered numbers, the valid-answer rate and the gates
    are tested against those of another card. The exit code is 1 if one is worse, and 2 if so few items cannot leave out
    that one is worse by twice its margin.

    \b
    doxascope card smollm2-135m
    doxascope card Qwen/Qwen3-0.6B --set standard -o model.dtype=bfloat16
    doxascope card ./checkpoint-2000 --against cards/quick-1-checkpoint-1000-1a2b3c4d
    """
    from ..compare.card import ModelCard, against, make_card
    from ..compare.card.model_card import load_set, require_same_set
    from ..compare.card.output import write_against

    before = None if other is None else ModelCard.open(other)
    if before is not None:
        require_same_set(before, load_set(chosen), seed)
    fresh = make_card(model, out, chosen=chosen, seed=seed, overrides=overrides)
    echo_stored(fresh.folder, full)
    if before is not None:
        changes = against(fresh, before)
        echo("")
        echo_report(write_against(changes), full=full)
        echo(f"\nagainst: {fresh.folder / 'against.html'}")
        if changes.regressions:
            raise SystemExit(1)
        if changes.unclear:
            raise UserError(
                f"{len(changes.unclear)} numbers may be worse by twice their margin, unseen; take more items"
            )
