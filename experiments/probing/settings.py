"""Settings of a probe job: which runs, which target, where to read, and how it is judged."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from pydantic import Field

from ...hooks.settings import Settings, parse, read_yaml
from ...probes.plan import StudyPlan
from ...probes.probe import NAME
from ..engine.config import apply_override


class ProbeJob(Settings):
    """A job. Place, layer rule and thresholds are fixed here, before anything is read."""

    runs: tuple[Path, ...] = ()
    """Folders of runs that kept their activations; given on the command line, they stand in place of these."""
    target: str = "outcome"
    """`outcome`, `exact`, `verbal`, or a column of `targets`."""
    targets: Path | None = None
    """A CSV with `readout_id`, the column `target`, and, if need be, `group`: what else is known."""
    option: str | None = None
    """Whose probability the belief is; None: the first."""
    where: Mapping[str, str] = {}
    """Column -> value: only these read-outs, for example `method: queried`."""
    site: str = "resid_post"
    position: str = "statement"
    """With the layer rule `study.depth`, the registered place."""
    sites: tuple[str, ...] = ()
    """That are swept besides."""
    positions: tuple[str, ...] = ()
    """That are swept besides."""
    heads: bool = False
    """Whether each head of `head_out` is a place of its own."""
    rivals: Mapping[str, Path] = {}
    """Name -> a run that asked another model the same: what is read there at the same place must be done better than. A
    model of the same shape with random weights tells what the architecture and the words alone give."""
    probe: Path | None = None
    """A trained probe, for `eval` and `apply`."""
    name: str = Field(default="probe", pattern=NAME)
    study: StudyPlan = StudyPlan()


def load_job(target: str, runs: Sequence[Path] = (), overrides: Sequence[str] = ()) -> ProbeJob:
    """The job in a YAML file, or the shipped one named `probe`.

    Raises UserError for a file or a setting that is wrong.
    """
    shipped = Path(str(files("doxascope") / "configs" / "probe.yaml"))
    path = shipped if target == "probe" else Path(target)
    data = read_yaml(path)
    for override in overrides:
        apply_override(data, override)
    if runs:
        data["runs"] = [str(run) for run in runs]
    return parse(ProbeJob, data, " -o ".join([str(path), *overrides]))
