"""Settings of a causal job: which contexts of which run, which probe, what is asked besides, and the plan."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from ....hooks.errors import UserError
from ....hooks.prompts.places import Position
from ....hooks.settings import Settings, check_placeholders, parse, read_yaml
from ....probes.causal.plan import CausalPlan
from ....probes.data.neutral import MOST
from ....probes.probe import NAME
from ...engine.config import apply_override
from ..settings import Value


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
    neutral: int = Field(default=20, ge=0, le=MOST)
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
    """The job in a YAML file, or the shipped one, `causal`.

    Raises UserError for a file or a setting that is wrong.
    """
    shipped = Path(str(files("doxascope") / "configs")) / "causal.yaml"
    path = shipped if target == "causal" else Path(target)
    if path.is_dir():
        raise UserError(f"{target}: is a folder; give a YAML file, or `causal`, the shipped job")
    if not path.is_file():
        raise UserError(f"{target}: no such file; `causal` is the shipped job")
    data: dict[str, Any] = read_yaml(path)
    for override in overrides:
        apply_override(data, override)
    if runs:
        data["runs"] = [str(run) for run in runs]
    return parse(CausalJob, data, " -o ".join([str(path), *overrides]))
