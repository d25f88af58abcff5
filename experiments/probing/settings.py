"""Settings of probe jobs and causal jobs, and the folder in which the same job goes on."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import Field, model_validator

from ...base.errors import UserError, nearest
from ...base.files import json_digest
from ...base.settings import Settings, check_placeholders, parse, read_yaml
from ...hooks.lens.plan import LensPlan
from ...hooks.model.blocks import Every
from ...hooks.prompts.places import Position
from ...hooks.store.header import HEADS
from ...probes.causal.plan import CausalPlan
from ...probes.evidence.controls import OWN_CONTROLS
from ...probes.evidence.study import StudyPlan
from ...probes.features import OF_OPTION
from ...probes.probe import ENDINGS, NAME
from ...probes.statements import MOST_CHATS
from ..run.config import apply_override, put
from ..run.folder import RunFolder
from ..run.manifest import CONFIG

Value = str | bool | int | float
T = TypeVar("T", bound=Settings)
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
    """With the layer rule `study.depth`, the registered place. `option`: a row for each option of a read-out, read
    where its own text ends, by one direction for all options, which may change from question to question."""
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
    def _options_are_read_alone(self) -> "ProbeJob":
        beside = ("positions", "pool", "heads", "rivals", "untrained", "neutral", "option", "targets")
        if self.position == OF_OPTION and (given := [name for name in beside if getattr(self, name)]):
            raise ValueError(f"{given[0]}: is not read at the options' own tokens; empty it, as by -o positions=[]")
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
    """The job in a YAML file, or a shipped one: `probe`, or `probe-NAME` for runs of that experiment. A run as `target`
    is read by the shipped one of its experiment, with the other `runs`.

    Raises UserError for a file or a setting that is wrong.
    """
    shipped = Path(str(files("doxascope") / "configs"))
    known = sorted(path.stem for path in shipped.glob("probe*.yaml"))
    if target not in known and (Path(target) / CONFIG).is_file():
        runs = (Path(target), *runs)
        by_experiment = f"probe-{read_yaml(Path(target) / CONFIG).get('experiment')}"
        target = by_experiment if by_experiment in known else "probe"
    if target not in known and not Path(target).is_file():
        raise UserError(f"{target}: is no run, no file and no shipped job; {nearest(target, known)}")
    path = shipped / f"{target}.yaml" if target in known else Path(target)
    return _loaded(ProbeJob, path, runs, overrides, settings or {})


def _loaded(
    kind: type[T], path: Path, runs: Sequence[Path], overrides: Sequence[str], settings: Mapping[str, Any]
) -> T:
    """The settings of a file, with changes of it; the runs, if there are any, in the place of those that it names."""
    data = read_yaml(path)
    for key, value in settings.items():
        put(data, key, value)
    for override in overrides:
        apply_override(data, override)
    if runs:
        data["runs"] = [str(run) for run in runs]
    return parse(kind, data, " -o ".join([str(path), *overrides]))


# Settings of a causal job: which contexts of which run, which probe, what is asked besides, and the plan.


class CausalAction(Settings):
    """A choice that is asked for in place of the belief: the last message of a context is exchanged for it."""

    ask: str
    """The message; `{question}` is what stood there."""
    options: tuple[str, ...] = Field(min_length=2)
    forms: tuple[str, ...] = ("{option}", "{Option}")
    prefill: str = ""
    values: tuple[float, ...] = ()
    """What each option means, from 0 to 1; none: the first is the action, the others are not."""
    break_even: float | None = Field(default=None, ge=0, le=1)
    """The probability from which on the action has the higher expected utility, for surgery."""

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> "CausalAction":
        check_placeholders("ask", self.ask, ("question",))
        if self.values and len(self.values) != len(self.options):
            raise ValueError(f"values: {len(self.values)} for {len(self.options)} options")
        return self


class CausalStated(Settings):
    """A stated belief that is asked for in place of the belief: the exact mean of the number that the model writes."""

    ask: str | None = None
    """The message; `{question}` is what stood there, `{yes}` the option that the belief is about. None: of `most` cases
    like this one, how many?"""
    most: int = Field(default=10, ge=1, le=100)
    """The number that means 1."""
    prefill: str = ""

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> "CausalStated":
        check_placeholders("ask", self.ask or "", ("question", "yes"))
        return self


class CausalJob(Settings):
    """A causal check of a trained probe on a run. Everything that decides a claim is fixed here."""

    runs: tuple[Path, ...] = ()
    """The run whose contexts are taken; given on the command line, it stands in place of this."""
    probe: Path | None = None
    """The trained probe, as `doxascope probe train` or `sweep` left it."""
    unrelated: Path | None = None
    """A probe of another concept at the same place: its pattern is a control."""
    directions: Mapping[str, Path] = {}
    """Name -> a .npy file of a direction [d] from anywhere, which `plan.directions` may name."""
    option: str | None = None
    """Whose probability the belief is; None: the first."""
    where: Mapping[str, Value | tuple[Value, ...]] = {}
    """Column -> value or values: only these read-outs, as for `probe sweep`."""
    contexts: int = Field(default=40, ge=2)
    """Most contexts that are taken, the first of each group before the second of any."""
    target: str = "outcome"
    """What is erased: `outcome`, `truth`, or another column of the read-outs; it need not be known."""
    action: CausalAction | None = None
    verbal: CausalStated | None = None
    neutral: int = Field(default=20, ge=0, le=MOST_CHATS)
    """Neutral chats on which the cost of steering is measured."""
    neutral_file: Path | None = None
    """A text file of neutral prompts, one a line, in their place."""
    at: Position | str | None = None
    """The tokens that are edited; None: those that the probe reads."""
    wrong_layer: int | None = Field(default=None, ge=0)
    wrong_position: Position | None = None
    name: str = Field(default="causal", pattern=NAME)
    plan: CausalPlan = CausalPlan()


def load_causal(target: str, runs: Sequence[Path] = (), overrides: Sequence[str] = ()) -> CausalJob:
    """The job in a YAML file, or the shipped one, `causal`, by which a run as `target` is read.

    Raises UserError for a file or a setting that is wrong.
    """
    shipped = Path(str(files("doxascope") / "configs")) / "causal.yaml"
    if target != "causal" and (Path(target) / CONFIG).is_file():
        target, runs = "causal", (Path(target), *runs)
    path = shipped if target == "causal" else Path(target)
    if path.is_dir():
        raise UserError(f"{target}: is a folder; give a YAML file, or `causal`, the shipped job")
    if not path.is_file():
        raise UserError(f"{target}: no such file; `causal` is the shipped job")
    return _loaded(CausalJob, path, runs, overrides, {})


def job_folder(name: str, settings: Settings, about: Sequence[Any], out: Path) -> RunFolder:
    """A job's own folder, named by what it is about, with its settings. Raises UserError if it cannot be written."""
    path = out / f"{name}-{json_digest([*about])[:8]}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(path)
        folder.write("job.yaml", yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False))
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another --out") from error
    return folder
