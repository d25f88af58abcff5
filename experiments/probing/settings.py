"""Settings of a probe job: which runs, which target, where to read, and how it is judged."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from ...hooks.errors import UserError, nearest
from ...hooks.lens.plan import LensPlan
from ...hooks.model.layers import Every
from ...hooks.settings import Settings, parse, read_yaml
from ...hooks.store.header import HEADS
from ...probes.evidence.controls import OWN_CONTROLS
from ...probes.plan import StudyPlan
from ...probes.probe import ENDINGS, NAME
from ..engine.config import apply_override, put

Value = str | bool | int | float
TAKEN = ("card", "sweep", "used")
"""Names of the files of a job in which its probe lies."""


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
    where: Mapping[str, Value | tuple[Value, ...]] = {}
    """Column -> value or values: only these read-outs, for example `method: asked`."""
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
    """Name -> a run that asked another model the same: what is read there must be done better than."""
    untrained: bool = False
    """Whether a model of the same shape with fresh weights reads the same prompts, as one more rival: what the
    architecture and the tokens alone give. Needs torch and the model's configuration."""
    neutral: int = Field(default=0, ge=0)
    """Neutral chats that the model reads, which set the threshold of 1% false alarms of a probe of a binary target: 100
    or more; 0: none. Needs torch and the model."""
    pool: tuple[str, ...] = ()
    """Positions that are pooled, by their mean and by attention, beside the registered one."""
    probe: Path | None = None
    """A trained probe, for `eval` and `apply`."""
    lens: LensPlan = LensPlan(layers=Every(every=4))
    """Of `lens`: which layers are read in passing, the text that their maps are fitted on, and the gate."""
    workers: int = Field(default=1, ge=1)
    """Threads that sweep, each at a place of its own, one layer of activations each in memory."""
    name: str = Field(default="probe", pattern=NAME)
    """Of the probe and its files, which lie among those of the job."""
    study: StudyPlan = StudyPlan()

    @model_validator(mode="after")
    def _name_is_free(self) -> "ProbeJob":
        if self.name.lower() in TAKEN or Path(self.name).suffix.lower() in ENDINGS:
            raise ValueError(f"name: {self.name!r} is that of a file of the job, or ends as one; give another")
        return self

    @model_validator(mode="after")
    def _rivals_are_no_controls(self) -> "ProbeJob":
        if taken := sorted(OWN_CONTROLS.intersection(self.rivals)):
            raise ValueError(f"rivals: {taken[0]!r} is the name of a control that is there anyway; give another")
        return self

    @model_validator(mode="after")
    def _heads_are_read(self) -> "ProbeJob":
        if self.heads and HEADS not in (self.site, *self.sites):
            raise ValueError(f"heads: are those of {HEADS}, which is not read; give sites: [{HEADS}]")
        return self


def load_job(
    target: str, runs: Sequence[Path] = (), overrides: Sequence[str] = (), settings: Mapping[str, Any] | None = None
) -> ProbeJob:
    """The job in a YAML file, or a shipped one: `probe`, or `probe-NAME` for runs of that experiment.

    Raises UserError for a file or a setting that is wrong.
    """
    shipped = Path(str(files("doxascope") / "configs"))
    known = sorted(path.stem for path in shipped.glob("probe*.yaml"))
    if target not in known and not Path(target).is_file():
        raise UserError(f"{target}: no such file, nor a shipped job; {nearest(target, known)}")
    path = shipped / f"{target}.yaml" if target in known else Path(target)
    data = read_yaml(path)
    for key, value in (settings or {}).items():
        put(data, key, value)
    for override in overrides:
        apply_override(data, override)
    if runs:
        data["runs"] = [str(run) for run in runs]
    return parse(ProbeJob, data, " -o ".join([str(path), *overrides]))
