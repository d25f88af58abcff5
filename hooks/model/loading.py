"""From a ModelSpec to weights and a tokenizer in memory."""

import json
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from ..cache import cache_folder
from ..errors import UserError
from .gguf import ONE_LOADS, convert_gguf
from .spec import ModelSpec, PackagedFile

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class WeightsSource:
    """Where the weights are: an argument for `from_pretrained`, and the revision if it is on the hub."""

    place: str
    revision: str | None = None


def find_weights(spec: ModelSpec) -> WeightsSource:
    """The first of the spec's sources that is here; a GGUF file is converted on the way."""
    if spec.packaged and (found := find_spec(spec.packaged.module)) and found.origin:
        return WeightsSource(str(convert_gguf(_packaged(spec.packaged, Path(found.origin).parent))))
    if spec.path:
        return WeightsSource(_local(Path(spec.path).expanduser()))
    if spec.hub:
        return WeightsSource(spec.hub, spec.revision)
    assert spec.packaged is not None
    raise UserError(f"model {spec.name}: package {spec.packaged.module} is not installed; {spec.packaged.install}")


def _packaged(packaged: PackagedFile, folder: Path) -> Path:
    """The file of an installed package, put together first where the package brings it in parts."""
    if packaged.file:
        return folder / packaged.file
    assert packaged.assemble is not None
    home = cache_folder()
    home.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(home / f"{packaged.module}.lock"):
            return Path(getattr(import_module(packaged.module), packaged.assemble)())
    except (ImportError, OSError, ValueError) as error:
        raise UserError(f"package {packaged.module}: {_first_line(error)}; {packaged.install}") from error


def _local(path: Path) -> str:
    if path.suffix == ".gguf" and path.is_file():
        try:
            return str(convert_gguf(path))
        except Exception as error:  # a damaged file breaks its parser in any way
            raise UserError(f"{path}: cannot be read as GGUF ({_first_line(error)})") from error
    if not (path / "config.json").is_file():
        raise UserError(f"{path}: no config.json in it; give a folder as `save_pretrained` writes it, or a .gguf")
    return str(path)


@dataclass(frozen=True)
class TextSide:
    """What a model is without its weights: enough to render prompts and to plan a run."""

    tokenizer: "PreTrainedTokenizerBase"
    end_ids: tuple[int, ...]
    """The ids that end a turn."""
    context: int | None
    """The longest sequence that the model takes, in tokens."""


def load_text_side(spec: ModelSpec) -> TextSide:
    """The tokenizer, and what the configuration says about texts."""
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    source = find_weights(spec)
    options: dict[str, Any] = {"revision": source.revision, "trust_remote_code": spec.trust_remote_code}
    with _explained(spec, source):
        tokenizer = AutoTokenizer.from_pretrained(source.place, **options)
        config = AutoConfig.from_pretrained(source.place, **options)
    try:
        generation = GenerationConfig.from_pretrained(source.place, **options)
    except OSError:  # a model need not bring one
        generation = GenerationConfig.from_model_config(config)
    ends = generation.eos_token_id
    ids = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}
    return TextSide(tokenizer, tuple(sorted(ids)), getattr(config.get_text_config(), "max_position_embeddings", None))


def load_model(spec: ModelSpec) -> "PreTrainedModel":
    """The weights, in evaluation mode, on their device or devices. Only safetensors are read, never pickles."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    if spec.threads:
        torch.set_num_threads(spec.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    logging.disable_progress_bar()
    source = find_weights(spec)
    with _explained(spec, source), ONE_LOADS:
        model: Any = AutoModelForCausalLM.from_pretrained(
            source.place,
            revision=source.revision,
            dtype=getattr(torch, spec.dtype),
            attn_implementation=spec.kernel,
            device_map=spec.device_map,
            trust_remote_code=spec.trust_remote_code,
            use_safetensors=True,
        )
    if spec.device_map:
        if any(parameter.is_meta for parameter in model.parameters()):
            raise UserError(
                f"model {spec.name}: device_map {spec.device_map!r} leaves weights off every device; use more or "
                "larger devices, or a smaller dtype"
            )
        return model.eval().requires_grad_(False)
    try:
        return model.to(pick_device(spec.device)).eval().requires_grad_(False)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"model {spec.name}: device {spec.device!r}: {_first_line(error)}") from error


def pick_device(device: str) -> str:
    """`auto` is the first GPU, else the CPU."""
    import torch

    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


class _explained:
    """Turns what the loading libraries raise for a missing or foreign model into one line."""

    def __init__(self, spec: ModelSpec, source: WeightsSource) -> None:
        self.spec, self.source = spec, source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, OSError | ValueError | json.JSONDecodeError) or isinstance(error, UserError):
            return
        if "attn_implementation" in str(error):
            raise UserError(
                f"model {self.source.place}: its attention has no {self.spec.kernel!r} kernel; set `kernel: eager`"
            ) from error
        if self.spec.hub and self.source.place == self.spec.hub:
            advice = "check the id, or, without a network, give a local folder or a .gguf file"
            if self.spec.packaged:
                advice = f"{self.spec.packaged.install}, or {advice}"
            raise UserError(f"model {self.spec.hub!r}: not to be had from the hub or its cache; {advice}") from error
        raise UserError(f"model {self.source.place}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
