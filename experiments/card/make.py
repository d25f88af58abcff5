"""Make a card, or go on with one: its runs, its probe, its page."""

from collections.abc import Mapping
from pathlib import Path

from threadpoolctl import threadpool_limits

from ...hooks.errors import UserError
from ..engine.config import load_config
from ..engine.runner import run
from ..probing.job import sweep_job
from ..probing.settings import ProbeJob, load_job
from ..runs.folder import RunFolder
from ..runs.manifest import digest
from .card import CARD, ModelCard
from .page import card_page
from .settings import CardSet, load_set
from .told import as_data


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
    planned = {name: load_config(name, common, model, settings=own) for name, own in given.runs.items()}
    if len({experiment.name for experiment, _ in planned.values()}) < len(planned):
        raise UserError(f"--set {chosen}: names an experiment twice; a card has one run of each")
    spec = next(iter(planned.values()))[1].model
    settings = [given.model_dump(mode="json"), spec.model_dump(mode="json", exclude={"threads"}), common]
    folder = out / f"{given.name}-{given.version}-{spec.name}-{digest(settings)[:8]}"
    _job(given, {name: folder for name in given.runs})  # what is wrong in it is said before anything is read
    runs = {name: run(experiment, config, folder / "runs").path for name, (experiment, config) in planned.items()}
    job = _job(given, runs)
    with threadpool_limits(1, "blas"):  # sums of several threads differ in their last bits from one time to another
        probe = sweep_job(job, folder / "probes")[0] if job else None
    card = ModelCard(folder, given, spec.name, seed, runs, probe)
    written = RunFolder(folder)
    try:
        written.write_json(CARD, as_data(card))
        card_page(card).write(written)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None
    return card


def _job(given: CardSet, runs: Mapping[str, Path]) -> ProbeJob | None:
    if given.probe is None:
        return None
    return load_job("probe", [runs[given.probe.run]], settings=given.probe.settings)
