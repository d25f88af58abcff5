"""Which model, and how to hold it: a hub id, a local folder, a GGUF file, or a preset by name."""

import datetime
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, PrivateAttr, field_validator, model_validator

from ...base.documents import read_json, user_path
from ...base.errors import UserError, in_one_line, nearest
from ...base.settings import Settings, parse, read_yaml

BackendName = Literal["transformers", "transformer_lens", "nnsight"]
DAY = datetime.date(2025, 1, 1)
"""What a chat template is told that asks for the date, on every day: a prompt that changes overnight is another one."""
GROUP = "doxascope.models"
"""Of entry points: a package that is installed may bring models, each a name and a mapping of settings."""
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)


class PackagedFile(Settings):
    """A weights file that an installed Python package carries, whole or in parts."""

    module: str
    file: str | None = None
    """Its name in the package's folder."""
    assemble: str | None = None
    """The function of the module that puts the file together and returns its path."""
    install: str
    """The command that brings it."""

    @model_validator(mode="after")
    def _has_one_way(self) -> "PackagedFile":
        if (self.file is None) == (self.assemble is None):
            raise ValueError("a packaged model needs one of `file`, `assemble`")
        return self


class Adapter(Settings):
    """An adapter as PEFT writes it."""

    place: str = Field(min_length=1)
    """A folder, or a hub id."""
    weight: float = Field(default=1.0, ge=-10, le=10)
    """How much of the change that it makes to the weights is applied."""
    revision: str | None = None

    @property
    def name(self) -> str:
        """The last part of its place."""
        return Path(self.place).name


def _adapters(given: Any) -> Any:
    """Of one adapter a list, and of a place an adapter."""
    several = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    return tuple({"place": str(each)} if isinstance(each, str | Path) else each for each in several)


IN_MEMORY = "in memory"
"""The path of a model that was handed over as an object."""


class ModelSpec(Settings):
    """A model and the conditions under which it is run."""

    name: str = Field(pattern=r"^[^/\\\x00-\x1f\x7f]+$", max_length=100)
    """Short name, for folders and reports."""
    packaged: PackagedFile | None = None
    """Taken first, if the package is installed."""
    path: str | None = None
    """A folder as `save_pretrained` writes it, or a `.gguf` file."""
    hub: str | None = None
    """A hub id, `owner/name`."""
    revision: str | None = None
    adapter: Annotated[tuple[Adapter, ...], BeforeValidator(_adapters)] = ()
    """What PEFT has trained on the model, by folder or hub id: one, or a list; with weights as `{place, weight}`."""
    adapted: Literal["merged", "attached"] = "merged"
    """`merged`: the changes that adapters make to the weights are added to them. `attached`: PEFT computes one adapter
    beside each layer; only `transformers` reads so, the other back ends get it merged."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, ..., or `auto`: a GPU if there is one."""
    device_map: str | None = None
    """For a model larger than one GPU: how accelerate spreads its blocks, for example `auto` or `balanced`."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "float32"
    """In which to compute. `auto`: as the model's files say, and its quantisation, if it has one, knows best."""
    kernel: Literal["auto", "sdpa", "flex", "eager"] = "auto"
    """The attention implementation. `sdpa` and `eager` take the mask of a packed tree as it is, `flex` as blocks.
    `auto`: `flex` on a GPU, else `sdpa`, and `eager` where a model has neither."""
    backend: BackendName = "transformers"
    """The library whose forward passes beliefs and activations are read from. Samples are drawn by plain transformers
    whatever it is; all but `transformers` hold the weights a second time."""
    server: str | None = Field(default=None, pattern=r"^https?://")
    """The URL of a running vLLM server that holds the same weights: exact beliefs are read from it, once it has agreed
    with the model that is loaded here. It gives no activations."""
    sampler: Literal["own", "continuous_batching"] = "own"
    """What draws thoughts and answers. `own`: by random numbers that the seed, the read-out and the draw determine.
    `continuous_batching`: that of transformers, by random numbers of its own, so that draws are not repeated token by
    token; what it drew is read here again. Greedy texts are always made by `own`."""
    template: Literal["own", "plain", "none"] = "own"
    """`own`: the model's chat template. For a model without one: `plain` writes `User: ...` lines, `none` joins
    the messages with newlines."""
    thinking: Literal["off", "on", "closed"] = "off"
    """Of a model whose template has a think block. `off`: as the template writes it; `closed`: an empty block is put
    before the answer; `on`: the answer follows a thought that is sampled."""
    date: datetime.date = DAY
    """The date that a chat template is told which asks for it."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """CPU threads; None leaves torch's choice, which is recorded."""
    trust_remote_code: bool = False
    """Whether the model has code of its own that is to run. It does so only with consent, which no settings hold
    (`hooks.model.consent`)."""
    _allowed: str | None = PrivateAttr(default=None)

    @property
    def code_place(self) -> str:
        """Where the model's own code would come from: a folder, or a hub id."""
        return str(user_path(self.path).resolve()) if self.path else self.hub or self.name

    @property
    def code_allowed(self) -> bool:
        """Whether this command line, or this call, allows the model's own code. A copy keeps it as long as it names the
        same place; files, and what is pickled, never do.
        """
        return self._allowed == self.code_place

    def allow_code(self) -> None:
        """Note that it does: for what the user says now, never for what was read."""
        self._allowed = self.code_place

    def __getstate__(self) -> dict[Any, Any]:
        """See `code_allowed`."""
        return super().__getstate__() | {"__pydantic_private__": {"_allowed": None}}

    @field_validator("thinking", mode="before")
    @classmethod
    def _yaml_says_yes_and_no(cls, thinking: object) -> object:
        """YAML reads `on` and `off` as true and false."""
        return ("off", "on")[thinking] if isinstance(thinking, bool) else thinking

    @model_validator(mode="after")
    def _has_a_source(self) -> "ModelSpec":
        if not (self.packaged or self.path or self.hub):
            raise ValueError("a model needs one of `packaged`, `path`, `hub`")
        if self.device_map and self.device != "auto":
            raise ValueError("`device` and `device_map` both say where the model goes; give one of them")
        return self

    @model_validator(mode="after")
    def _is_named_after_its_adapters(self) -> "ModelSpec":
        """Else folders, pages and comparisons would call it by the name of its base."""
        added = "".join(f"+{adapter.name}" for adapter in self.adapter)
        if not self.name.endswith(added):
            object.__setattr__(self, "name", f"{self.name}{added}"[:100])
        return self


def presets() -> dict[str, Mapping[str, Any]]:
    """The settings of the models that are known by name: those shipped, and those of installed packages."""
    folder = Path(str(files("doxascope") / "configs" / "models"))
    settings: dict[str, Mapping[str, Any]] = {path.stem: _preset(path) for path in sorted(folder.glob("*.yaml"))}
    for point in _installed(tuple(sys.path)):
        with in_one_line(f"entry point {point.value}", "uninstall it"):
            settings.setdefault(point.name, dict(point.load()))
    return settings


@lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Those of the packages on a path, which takes reading all of their records."""
    return tuple(entry_points(group=GROUP))


def _preset(path: Path) -> Mapping[str, Any]:
    """What a shipped file says: a model, or a `base` among them and an adapter of the package."""
    settings = dict(read_yaml(path))
    if base := settings.pop("base", None):
        adapter = Path(str(files("doxascope"))) / settings["adapter"]
        return {**_preset(path.with_name(f"{base}.yaml")), "adapter": str(adapter)}
    return settings


def require_preset(spec: ModelSpec) -> None:
    """Raise UserError for a package that no preset names: to ask it for its file runs its code."""
    if spec.packaged and spec.packaged.model_dump() not in [_packaged(preset) for preset in presets().values()]:
        raise UserError(
            f"model {spec.name}: packaged.module {spec.packaged.module!r} is of no preset, and would run code; install "
            f"a package that brings the preset (entry points {GROUP!r}), or give `path` or `hub`"
        )


def _packaged(preset: Mapping[str, Any]) -> dict[str, Any] | None:
    given = preset.get("packaged")
    return parse(PackagedFile, given, "packaged").model_dump() if isinstance(given, dict) else None


ADAPTER_CONFIG = "adapter_config.json"


DEEPEST = 8
"""Adapters that were trained on one another: more, or a ring of them, have no model."""


def _base_of(folder: Path, depth: int) -> ModelSpec:
    """The model that an adapter says it was trained on, with it. Raises UserError if that is not to be found here."""
    settings = read_json(folder / ADAPTER_CONFIG)
    given = settings.get("base_model_name_or_path") if isinstance(settings, dict) else None
    try:
        base = resolve_model(str(given or "/") if depth < DEEPEST else "/", depth + 1)
    except UserError:
        raise UserError(
            f"{folder}: is an adapter, of a model that is not to be found ({given}); give its model, -m MODEL "
            f"-o model.adapter={folder}"
        ) from None
    return parse(ModelSpec, base.model_dump() | {"adapter": [*base.adapter, str(folder)]}, f"model {str(folder)!r}")


def resolve_model(model: str, depth: int = 0) -> ModelSpec:
    """What a name on the command line means: a preset, else a path that exists, else a hub id.

    Args:
        model: the name; as an adapter gives that of its model, `depth` is how many adapters stand before it.
    """
    known = presets()
    if model in known:
        return parse(ModelSpec, {"name": model, **known[model]}, f"preset {model}")
    path = user_path(model)
    if path.exists():
        if path.suffix == ".yaml":
            if depth:  # settings, which may name a server, are not an adapter's to choose
                raise UserError(model)
            return parse(ModelSpec, {"name": path.stem} | read_yaml(path), model)
        if (path / ADAPTER_CONFIG).is_file() and not (path / "config.json").is_file():
            return _base_of(path, depth)
        name = path.stem if path.suffix == ".gguf" else path.resolve().name
        return parse(ModelSpec, {"name": name, "path": str(path)}, f"model {model!r}")
    if model.count("/") == 1 and not model.startswith((".", "/", "~")):
        return parse(ModelSpec, {"name": model.rpartition("/")[2], "hub": model}, f"model {model!r}")
    raise UserError(
        f"model {model!r}: not a preset, a path that exists, or a hub id `owner/name`; {nearest(model, known)}"
    )
