"""`doxascope trace`: a belief along a text."""

from pathlib import Path

import click

from ...base.errors import UserError
from ...base.text import as_csv
from ...hooks.model.consent import give_consent
from ...hooks.model.spec import resolve_model
from .console import ALLOW_CODE, FULL, MODEL, echo_report

FILES = ("report.json", "report.html", "figures", "trace.csv")
DEFAULT = "smollm2-135m"


@click.command()
@click.argument("source", metavar="TEXT|RUN", type=click.Path(path_type=Path))
@click.option("--question", metavar="TEXT", help="Asked after every part; of a run by default what was asked there.")
@click.option("--option", "options", multiple=True, metavar="TEXT", help="An answer, two or more.  [default: Yes, No]")
@click.option("--readout", metavar="ID", help="Of a run: the read-out whose conversation is followed.")
@click.option("--every", type=click.Choice(["sentence", "token"]), default="sentence", show_default=True)
@click.option("--probe", "trained", type=click.Path(path_type=Path), help="Trained on this model: what it reads there.")
@MODEL
@click.option("--beside", multiple=True, metavar="MODEL", help="A further model that reads the same.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("trace"), show_default=True, help="For page and CSV."
)
@FULL
@ALLOW_CODE
def trace(
    source: Path,
    question: str | None,
    options: tuple[str, ...],
    readout: str | None,
    every: str,
    trained: Path | None,
    model: str | None,
    beside: tuple[str, ...],
    out: Path,
    full: bool,
    allow_code: tuple[Path, ...],
) -> None:
    """Follow a belief along a text, or along what was said in a run: read after every sentence, in one tree.

    Writes a page with the text coloured by the belief in the first option, a figure, and trace.csv.

    \b
    doxascope trace letter.txt --question "Is the writer in Paris?"
    doxascope trace letter.txt --question "Where is the writer?" --option Paris --option Rome --every token
    doxascope trace letter.txt --question "Is the writer in Paris?" --beside smollm2-135m+honest
    doxascope trace runs/truth-smollm2-135m-1a2b3c4d --readout fact-0001/true/yes-no
    """
    from ...hooks.lm import open_model
    from ...probes.probe import Probe
    from ..probing.rereading import require_same_model
    from ..probing.trace import Trace, joined, of_source, page
    from ..probing.trace import trace as follow
    from ..report.html import write
    from ..report.score_files import prepared
    from ..run.config import stored_config
    from ..run.folder import RunFolder

    traced = of_source(source, readout, question, options)
    probe = None if trained is None else Probe.load(trained)
    run = RunFolder.open(source) if source.is_dir() and model is None else None
    if run:
        spec = stored_config(run.config, allow_code)[1].model
    else:
        spec = resolve_model(model or DEFAULT)
        give_consent(spec, places=allow_code)
    others = [resolve_model(name) for name in beside]
    for other in others:
        give_consent(other, places=allow_code)
    if len({spec.name, *(other.name for other in others)}) <= len(others):
        raise UserError(f"--beside {beside[0]}: is named twice; name models that differ")
    place = prepared(out, FILES, "Belief along", "trace")
    found: dict[str, Trace] = {}
    for each in (spec, *others):
        with open_model(each) as lm:
            if run and not found:
                require_same_model(lm, run.manifest["conditions"])
            found[each.name] = follow(lm, traced, every, None if found else probe)
    table = joined(found)
    write(place, document := page(found, probe))
    place.write("trace.csv", as_csv(table))
    echo_report(document, out, full)
