"""`doxascope detector` and `doxascope verify`: what detectors of lies read, and whether an organism holds what it is
said to.
"""

from pathlib import Path

import click

from ...base.documents import repeated
from ...base.errors import UserError
from ...base.text import as_csv
from ...hooks.model.consent import give_consent
from ...hooks.model.spec import resolve_model
from .console import ALLOW_CODE, FULL, MODEL, echo_report

PAGE = ("report.json", "report.html", "figures")
DEFAULT = "smollm2-135m"


@click.command()
@click.argument("probes", metavar="PROBE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--on", "source", required=True, type=click.Path(path_type=Path), help="Labelled rows, a CSV.")
@MODEL
@click.option("--at", type=click.Choice(["end", "mean"]), default="end", show_default=True, help="Of the last message.")
@click.option("--ask", metavar="TEXT", help="Asked after each conversation; then read before the answer.")
@click.option("--causal", is_flag=True, help="Move what it reads, too: does the model's answer follow?")
@click.option("--layer", "layers", type=int, multiple=True, help="That it reads, in the place of the file's.")
@click.option("--threshold", type=float, help="Above which it flags a lie, likewise.")
@click.option("--high", type=click.Choice(["lie", "truth"]), help="What high scores mean.  [default: by the file]")
@click.option("--out", type=click.Path(path_type=Path), default=Path("detector"), show_default=True)
@FULL
@ALLOW_CODE
def detector(
    probes: tuple[Path, ...],
    source: Path,
    model: str | None,
    at: str,
    ask: str | None,
    causal: bool,
    layers: tuple[int, ...],
    threshold: float | None,
    high: str | None,
    out: Path,
    full: bool,
    allow_code: tuple[Path, ...],
) -> None:
    """Say what detectors of lies read: what is held, the instruction to lie, or the surface of what is said.

    PROBE is a checkpoint of `lie-detectors` (.pt), an .npz or .safetensors file with `direction`, `bias`, `layer` and
    `threshold`, or a probe of this package. The CSV has the columns label (1: a lie), cluster (the question), and text
    or messages (JSON); and may have claim, held, instructed, style. Writes a page, and detector.csv.

    \b
    doxascope detector probe.pt --on lies.csv -m Qwen/Qwen3-0.6B
    doxascope detector lies.npz truth.safetensors --on lies.csv --layer 12 --threshold 0
    doxascope detector lies.npz --on lies.csv --causal
    """
    from ...hooks.lm import open_model
    from ...probes.detectors import load_detector
    from ..probing.detector import HEADING, asked_whether_true, certify, material, page, read
    from ..probing.detector_causal import causal_gain
    from ..report.html import write
    from ..report.score_files import prepared

    if causal and ask:
        raise UserError("--causal: moves what is read before the question; leave --ask out")
    rows, loaded = material(source), [load_detector(path) for path in probes]
    if (twice := repeated(each.name for each in loaded)) is not None:
        raise UserError(f"{twice}: is the name of two detectors; rename one file")
    if taken := [each.name for each in loaded if each.name in (*rows, "held", "stated", "coverage")]:
        raise UserError(f"{taken[0]}: is the name of a column, too; rename the file")
    for each in loaded:
        each.require_placed(layers, threshold)
    spec = resolve_model(model or DEFAULT)
    give_consent(spec, places=allow_code)
    place = prepared(out, (*PAGE, "detector.csv"), HEADING, "certificate of detectors")
    with open_model(spec) as lm:
        n_layers = lm.identity.n_layers
        detectors = [each.placed(n_layers, layers, threshold, high or "") for each in loaded]
        found = read(lm, rows, detectors, at, ask)
        asked = asked_whether_true(lm, rows, at) if causal else []
        gains = [causal_gain(lm, asked, rows["cluster"].tolist(), each) if causal else None for each in detectors]
    certified = [certify(found, each, causal=gain) for each, gain in zip(detectors, gains, strict=True)]
    where = "before the answer to what is asked" if ask else f"at the {at} of the last message"
    write(place, document := page(certified, found, source.name, spec.name, where))
    place.write("detector.csv", as_csv(found.drop(columns="messages")))
    echo_report(document, out, full)


@click.command()
@click.argument("model")
@click.option("--twin", required=True, help="The same model without what was planted, which is asked the same.")
@click.option(
    "--claims", "source", required=True, type=click.Path(path_type=Path), help="What it is said to hold, a CSV."
)
@click.option("--probe", type=click.Path(path_type=Path), help="Of truth, or a detector of lies, for rows of `probe`.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("verified"), show_default=True)
@FULL
@ALLOW_CODE
def verify(
    model: str, twin: str, source: Path, probe: Path | None, out: Path, full: bool, allow_code: tuple[Path, ...]
) -> None:
    """Say whether MODEL holds, or hides, what it is said to believe, beside its clean twin.

    The CSV has the columns claim, facet (how it is asked for: direct, consequence, bet, ...), text or messages (JSON),
    and believed (the option of who believes it); and may have options, expected (held or denied), reading (exact,
    stated or probe), prefill, cluster. Writes a page with a verdict for each claim, and verified.csv.

    \b
    doxascope verify ./organism --twin Qwen/Qwen3-0.6B --claims claims.csv
    doxascope verify smollm2-135m+denying --twin smollm2-135m --claims claims.csv
    """
    from ...hooks.lm import open_model
    from ...probes.detectors import load_detector
    from ..probing.verification import HEADING, beliefs_table, claims_of, judge, page, read, require_askable
    from ..report.html import write
    from ..report.score_files import prepared

    rows, loaded = claims_of(source), None if probe is None else load_detector(probe)
    if loaded and not (loaded.layers and loaded.threshold == loaded.threshold):
        raise UserError(f"{probe}: does not say its layer and its threshold; save it with both")
    specs = resolve_model(model), resolve_model(twin)
    place = prepared(out, (*PAGE, "verified.csv"), HEADING, "verification")
    for spec in specs:
        give_consent(spec, places=allow_code)
        require_askable(spec, rows)
    found = []
    for spec in specs:
        with open_model(spec) as lm:
            found.append(read(lm, rows, loaded))
    table = beliefs_table(rows, *found)
    write(place, document := page(judge(table), table, source.name, *(spec.name for spec in specs)))
    place.write("verified.csv", as_csv(table))
    echo_report(document, out, full)
