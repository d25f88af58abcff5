"""The command line: a shell over the library."""

import logging
import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from ... import __version__
from ...hooks.errors import UserError, cause, in_one_line
from ...hooks.model.spec import BACKENDS, presets, resolve_model
from ...hooks.text import as_csv
from .activations import activations
from .echo import VisibleFormatter, echo
from .probe import probe

OVERRIDE = click.option(
    "-o", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting, e.g. -o model.dtype=bfloat16."
)
ALLOW_CODE = click.option(
    "--allow-code",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run the code of this experiment; without it no file is ever imported.",
)
MATERIAL = click.argument("material", metavar="[FILE]", required=False)
MODEL = click.option("-m", "--model", help="A preset, a local folder, a .gguf file, or a hub id.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="doxascope")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Measure whether an open language model holds coherent beliefs, from the inside.

    \b
    doxascope run consistency                     measure the default model
    doxascope run consistency -m Qwen/Qwen3-0.6B  measure another one
    doxascope plan consistency -o items=500       what a run would cost
    doxascope score beliefs.csv                   score beliefs from anywhere; needs no model
    doxascope ls                                  experiments, models, runs
    """


@cli.command()
@click.argument("target")
@MATERIAL
@MODEL
@OVERRIDE
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs.")
@click.option("--verify", type=click.IntRange(0), default=0, help="Recompute N read-outs by the plain path.")
@click.option("--shard", metavar="I/N", default="1/1", help="Read only the I-th of N parts; all share the folder.")
@click.option("--backend", type=click.Choice(BACKENDS), help="The library that reads the model.")
@click.option("--restore", is_flag=True, help="Read anew what is damaged or gone, activations among it.")
@ALLOW_CODE
def run(
    target: str,
    material: str | None,
    model: str | None,
    overrides: tuple[str, ...],
    out: Path,
    verify: int,
    shard: str,
    backend: str | None,
    restore: bool,
    allow_code: tuple[Path, ...],
) -> None:
    """Run an experiment, or go on with it, and write scores and a report.

    TARGET is an experiment's name or a YAML file. The same command again resumes; other settings get a folder of
    their own.

    \b
    doxascope run consistency
    doxascope run consistency -m ./my-model -o items=200 -o seed=1
    doxascope run ask questions.csv               your questions, each with its own options (docs/ask.md)
    doxascope run my-study.yaml --out results --verify 5
    doxascope run my-study.yaml --shard 3/8       one of eight jobs; the last to end writes the scores
    doxascope run mine.yaml --allow-code mine.py  an experiment of your own (docs/extending.md)
    """
    from ..engine.config import load_config
    from ..engine.runner import run as run_experiment
    from ..runs.shard import WHOLE, parse_shard

    part = parse_shard(shard)
    if restore and part != WHOLE:
        raise UserError("--restore is for a whole run; give it without --shard, then go on with the shards")
    chosen = () if backend is None else (f"model.backend={backend}",)
    experiment, config = load_config(target, (*overrides, *chosen), model, allow_code, material)
    folder = run_experiment(experiment, config, out, verify=verify, shard=part, restored=restore)
    if folder.missing:
        echo(f"shard {shard} is read; {folder.missing} batches of other shards are missing in {folder.path}")
    else:
        _print_scores(folder.path)


@cli.command()
@click.argument("target")
@MATERIAL
@MODEL
@OVERRIDE
@click.option("--item", metavar="ID", help="Read one item, or one of its read-outs, and show its tokens and masses.")
@click.option(
    "--power", "pilots", multiple=True, metavar="RUN", type=click.Path(path_type=Path), help="A pilot run, or several."
)
@click.option("--effect", "effects", multiple=True, metavar="NAME=VALUE", help="What --power is to find.")
@ALLOW_CODE
def plan(
    target: str,
    material: str | None,
    model: str | None,
    overrides: tuple[str, ...],
    item: str | None,
    pilots: tuple[Path, ...],
    effects: tuple[str, ...],
    allow_code: tuple[Path, ...],
) -> None:
    """Show what a run would do and cost; needs the tokenizer but, without --item, no forward pass.

    With --power the clusters that it needs, by the spread of a pilot run; of several pilots, to tell them apart.

    \b
    doxascope plan consistency
    doxascope plan my-study.yaml -o items=1000
    doxascope plan consistency --item t0000-012             masses of all its read-outs
    doxascope plan consistency --item t0000-012/prior/free  ids, boundary, every surface form
    doxascope plan martingale --power runs/pilot --effect M=0.1
    """
    from ..engine.config import load_config
    from ..engine.item_plan import describe_item
    from ..engine.plan import make_plan

    experiment, config = load_config(target, overrides, model, allow_code, material)
    if item is not None:
        for line in describe_item(experiment, config, item):
            echo(line)
        return
    if effects or pilots:
        if not (effects and pilots):
            raise UserError("--power and --effect go together: a pilot run, and what is to be found (--effect M=0.1)")
        from ..comparing.power import needed

        asked = {name: _number("--effect", name, value) for name, value in _settings("--effect", effects).items()}
        for one in needed(pilots, asked, seed=config.seed, allow_code=allow_code):
            echo(one.line)
            if one.registered:
                echo(f"  to register it: {one.registered}")
        return
    planned = make_plan(experiment, config)
    first = planned.example[0]
    echo(f"{experiment.name} on {config.model.name}: {planned.items} items, {planned.readouts} read-outs")
    if planned.size:
        echo(planned.size)
    echo(
        f"about {planned.tokens_run:,} tokens through the model "
        f"({planned.tokens_one_by_one / planned.tokens_run:.1f} x fewer than one pass per surface form)"
    )
    if planned.tokens_sampled:
        echo(f"and up to {planned.tokens_sampled:,} tokens sampled, of thoughts and answers")
    echo(f"longest pack {planned.longest_pack} tokens, mask {planned.mask_bytes / 1e6:.1f} MB")
    echo(f"\nfirst read-out, {first.readout_id}:")
    for message in first.conversation:
        echo(f"  {message['role']}: {message['content']}")
    echo(f"  assistant: {first.prefill}...")
    for option in first.options:
        echo(f"  {option.name}: {len(option.forms)} surface forms, e.g. {option.forms[0]!r}")


@cli.command()
@click.argument("model")
@click.option("--out", type=click.Path(path_type=Path), help="File for the certificate as JSON.")
def certify(model: str, out: Path | None) -> None:
    """Measure whether the back ends agree on a model, and its noise floor.

    Exits with 1 if a back end is outside the tolerance, naming the first layer. Loads the model several times. Runs of
    the model that come after it refer to it, and their reports print the floor beside each score.

    \b
    doxascope certify smollm2-135m
    doxascope certify ./my-model --out certificate.json
    """
    from ...hooks.certificate.cached import save_certificate
    from ...hooks.certificate.certify import certify as measure

    certificate = measure(resolve_model(model))
    echo(str(certificate))
    save_certificate(certificate)
    if out is not None:
        try:
            out.write_text(certificate.model_dump_json(indent=1) + "\n")
        except OSError as error:
            raise UserError(f"{out}: cannot be written ({error.strerror})") from error
    if certificate.failures:
        sys.exit(1)


@cli.command()
@click.argument("folders", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(folders: tuple[Path, ...]) -> None:
    """Read runs once, and name every file that is not as it was written; needs no model.

    Exits with 2 if there is one. `doxascope run` with --restore reads anew what is lost.

    \b
    doxascope check runs/consistency-smollm2-135m-1a2b3c4d
    """
    from ...hooks.store.commits import AGAIN
    from ..runs.folder import RunFolder
    from ..runs.integrity import faults

    damaged = 0
    for run in map(RunFolder.open, folders):
        with in_one_line(run.path):
            found = list(faults(run))
            damaged += bool(found)
            if not found:
                missing = f", {run.missing} still to be read" if run.missing else ""
                found = [f"{run.path}: {len(run.committed())} batches{missing}, every file as it was written"]
        echo("\n".join(found))
    if damaged:
        raise UserError(f"{damaged} of {len(folders)} runs damaged; {AGAIN}")


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@ALLOW_CODE
def report(folder: Path, allow_code: tuple[Path, ...]) -> None:
    """Score a run anew from its stored beliefs and write its report; needs no model.

    \b
    doxascope report runs/consistency-smollm2-135m-1a2b3c4d
    """
    from ..engine.config import stored_config
    from ..engine.runner import report as write_report
    from ..runs.folder import RunFolder

    stored = RunFolder.open(folder)
    with stored.writing():
        write_report(stored, *stored_config(stored.config, allow_code))
    _print_scores(folder)


def _settings(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE, each name once."""
    found: dict[str, str] = {}
    for text in given:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise UserError(f"{option} {text}: give NAME=VALUE")
        if name in found:
            raise UserError(f"{option} {text}: {name} has a value already, {found[name]}")
        found[name] = value
    return found


def _list_metrics(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from ..report.text import listing

        echo(listing())
        context.exit()


@cli.command()
@click.argument("tables", metavar="TABLE|RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--ratings", type=click.Path(path_type=Path), help="What people believed at the steps of a run.")
@click.option("--metric", default="all", show_default=True, metavar="NAME", help="A metric of --list, or all that fit.")
@click.option("--cluster", metavar="COLUMN", help="What was sampled: rows that share it are not independent.")
@click.option("--replicates", metavar="COLUMN", help="Which reading of its item a row is, for reliability.")
@click.option("--map", "names", multiple=True, metavar="NAME=COLUMN", help="A name of --list, and your column for it.")
@click.option(
    "--reference", "references", multiple=True, metavar="FACTOR=LEVEL", help="What other levels are compared with."
)
@click.option(
    "--seed", type=click.IntRange(0), help="Of everything that is resampled; 0, or a run's own, if not given."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder for scores.json and report.html.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_metrics, help="Show the metrics."
)
@ALLOW_CODE
def score(
    tables: tuple[Path, ...],
    ratings: Path | None,
    metric: str,
    cluster: str | None,
    replicates: str | None,
    names: tuple[str, ...],
    references: tuple[str, ...],
    seed: int | None,
    out: Path | None,
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
    doxascope score updates.csv --reference domain=law     slopes of other domains less that of law
    doxascope score runs/martingale-*                      runs of one experiment together, by model
    doxascope score --list                                 metrics and their columns
    """
    from ..report.output import prepare, write
    from ..report.text import as_text
    from ..runs.folder import run_at
    from ..scoring.engine import chosen, score_table

    folder = None if out is None else prepare(out)
    chosen(metric)
    as_table = cluster or replicates or names
    named, compared = _settings("--map", names), _settings("--reference", references)
    runs = [run for table in tables if (run := run_at(table)) and not (as_table and table.name == "beliefs")]
    for run in [run for table in tables if table.name == "beliefs" and as_table and (run := run_at(table))]:
        run.require_no_other_beliefs()
    if runs and as_table:
        raise UserError("--cluster, --replicates and --map are for tables; a run knows its items")
    if len(runs) < len(tables) and (ratings or len(tables) > 1):
        odd = next(table for table in tables if not run_at(table))
        raise UserError(f"{odd}: is no run; only runs are scored together, or with --ratings")
    if runs:
        from ..engine.together import score_runs  # and with it torch

        scored = score_runs(runs, metric, ratings=ratings, references=compared, seed=seed, allow_code=allow_code)
    else:
        table = next(iter(tables))
        known = {"cluster": cluster, "replicates": replicates, "names": named}
        scored = score_table(table, metric, **known, references=compared, seed=seed or 0)
    echo(as_text(scored))
    if folder is not None:
        settings = {"metric": metric, "cluster": cluster, "replicates": replicates, "seed": seed}
        settings |= {"ratings": ratings and str(ratings), "map": ", ".join(names) or None}
        settings |= {"reference": ", ".join(references) or None}
        write(folder, scored, {key: value for key, value in settings.items() if value is not None})
        echo(f"\nreport: {folder.path / 'report.html'}")


@cli.command()
@click.argument("paths", metavar="RUN|TABLE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="A number to confirm, as in scores.json.")
@click.option("--margin", "margins", multiple=True, metavar="NAME=VALUE", help="Below this two are the same.")
@click.option("--cluster", metavar="COLUMN", help="Of tables: what was sampled.")
@click.option("--map", "names", multiple=True, metavar="NAME=COLUMN", help="Of tables: a name, and your column for it.")
@click.option("--seed", type=click.IntRange(0), help="Of all resampling; the first run's own, or 0, if not given.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for comparison.json and report.html.")
@ALLOW_CODE
def compare(
    paths: tuple[Path, ...],
    metrics: tuple[str, ...],
    margins: tuple[str, ...],
    cluster: str | None,
    names: tuple[str, ...],
    seed: int | None,
    out: Path | None,
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
    """
    from ..comparing import compare as compared
    from ..comparing.told import prepare, text, write

    folder = None if out is None else prepare(out)
    within = {name: _number("--margin", name, value) for name, value in _settings("--margin", margins).items()}
    known = {"cluster": cluster, "names": _settings("--map", names), "seed": seed, "allow_code": allow_code}
    found = compared(paths, metrics=metrics, margins=within, **known)
    echo(text(found))
    if folder is not None:
        settings = {"metric": ", ".join(metrics), "margin": ", ".join(margins), "cluster": cluster, "seed": seed}
        settings |= {"map": ", ".join(names)}
        write(folder, found, {key: value for key, value in settings.items() if value not in (None, "")})
        echo(f"\nreport: {folder.path / 'report.html'}")


def _number(option: str, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UserError(f"{option} {name}={text}: give a number above 0")
    return value


@cli.command()
@click.argument("model")
@click.option("--set", "chosen", default="quick", show_default=True, help="quick, standard, or a YAML file.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of items and of what is drawn.")
@OVERRIDE
@click.option("--out", type=click.Path(path_type=Path), default=Path("cards"), show_default=True, help="For cards.")
@click.option("--against", "other", type=click.Path(path_type=Path), help="A card; exit code 1 if this one is worse.")
def card(model: str, chosen: str, seed: int, overrides: tuple[str, ...], out: Path, other: Path | None) -> None:
    """Run a fixed set of small experiments and a probe on MODEL, and write one page.

    The same command again resumes. With --against the registered numbers, the share of valid answers and the gates
    are tested against those of another card, and the exit code is 1 if one is worse.

    \b
    doxascope card smollm2-135m
    doxascope card Qwen/Qwen3-0.6B --set standard -o model.dtype=bfloat16
    doxascope card ./checkpoint-2000 --against cards/quick-1-checkpoint-1000-1a2b3c4d
    """
    from ..card import ModelCard, against, make_card
    from ..card.told import against_text, text, write_against

    before = None if other is None else ModelCard.open(other)
    made = make_card(model, out, chosen=chosen, seed=seed, overrides=overrides)
    echo(text(made))
    echo(f"\ncard: {made.folder / 'report.html'}")
    if before is not None:
        found = against(made, before)
        echo(f"\n{against_text(found)}")
        echo(f"\nagainst: {write_against(found)}")
        if found.regressions:
            raise SystemExit(1)


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
def sheet(run: Path, file: Path) -> None:
    """Write the steps of a martingale run as a CSV in which people fill in what they believe after each.

    \b
    doxascope sheet runs/martingale-smollm2-135m-1a2b3c4d ratings.csv
    doxascope score runs/martingale-smollm2-135m-1a2b3c4d --ratings ratings.csv
    """
    from ..martingale.ratings import sheet as empty_sheet
    from ..runs.folder import RunFolder

    text = as_csv(empty_sheet(RunFolder.open(run)))
    try:
        with file.open("x", encoding="utf-8", newline="") as opened:
            opened.write(text)
    except FileExistsError:
        raise UserError(f"{file}: is there, and may hold ratings; name another file") from None
    except OSError as error:
        raise UserError(f"{file}: cannot be written ({error.strerror})") from error


@cli.command()
@click.argument("target")
@MODEL
@OVERRIDE
@click.argument("file", type=click.Path(path_type=Path))
def evidence(target: str, model: str | None, overrides: tuple[str, ...], file: Path) -> None:
    """Have a model write evidence for the scenarios of sycophancy that have none, as YAML for a person to review.

    \b
    doxascope evidence casino.yaml evidence.yaml -m Qwen/Qwen3-4B
    doxascope run casino.yaml -o tasks.conversations.evidence=evidence.yaml
    """
    from ...hooks.lm import load
    from ..engine.config import load_config
    from ..materials.scenarios.stored_evidence import REVIEWED, write_evidence
    from ..sycophancy import SycophancyConfig
    from ..sycophancy.evidence import in_want, written

    _, config = load_config(target, overrides, model)
    if not isinstance(config, SycophancyConfig):
        raise UserError(f"{target}: is no configuration of sycophancy")
    if file.exists():
        raise UserError(f"{file}: is there, and may be reviewed; name another file")
    wanting = in_want(config)
    with load(config.model) as lm:
        write_evidence(file, list(written(lm, wanting, config.seed)))
    echo(f"{len(wanting)} scenarios: {file}; read it, and set `{REVIEWED}: true` where it may be used")


@cli.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs.")
def ls(out: Path) -> None:
    """List the experiments, the models known by name, and the runs.

    \b
    doxascope ls
    doxascope ls --out results
    """
    from ..engine.registry import experiments
    from ..runs.folder import RunFolder

    echo("experiments")
    for name, experiment in experiments().items():
        echo(f"  {name:<16}{experiment.summary}")
    echo("models")
    for name in presets():
        echo(f"  {name}")
    echo(f"runs in {out}")
    for manifest in sorted(out.glob("*/manifest.json")):
        try:
            record = RunFolder(manifest.parent).manifest
            state = f"{record['status']}, began {record['sessions'][0]['began']}"
        except (UserError, KeyError, IndexError, TypeError):
            state = "its manifest cannot be read"
        echo(f"  {manifest.parent.name:<48}{state}")


cli.add_command(activations)
cli.add_command(probe)


def _print_scores(folder: Path) -> None:
    """The headline of a run, the gates, and where its report is."""
    import json

    from ..report.text import headline_text

    scores = json.loads((folder / "scores.json").read_text())
    echo("\n" + headline_text(scores))
    if "partial" in scores:
        echo(f"\nof {scores['partial']} alone; go on with the run for the rest")
    echo(f"\nreport: {folder / 'report.html'}")


def main() -> NoReturn:
    """Run the command line; a user's mistake is one line and exit code 2, whatever else goes wrong one and 1."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads that spin cost a factor three
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    debug = "--debug" in sys.argv
    try:
        cli.main(standalone_mode=False)
    except UserError as error:
        _fail(error, str(error), 2, debug)
    except click.ClickException as error:
        _fail(error, error.format_message(), 2, debug)
    except (KeyboardInterrupt, click.Abort) as error:
        _fail(error, "stopped; what is committed is kept, the same command goes on from there", 130, debug)
    except OSError as error:
        _fail(error, f"{error.filename or 'a file'}: {cause(error)}", 2, debug)
    except Exception as error:
        where = f"{type(error).__name__}: {cause(error).removeprefix(f'{type(error).__name__}: ')}"
        _fail(error, f"{where}; this was not foreseen, --debug shows where it comes from", 1, debug)
    sys.exit(0)


def _fail(error: BaseException, line: str, code: int, debug: bool) -> NoReturn:
    if debug:
        raise error
    echo(f"doxascope: {line}", err=True)
    sys.exit(code)
