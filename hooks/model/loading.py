"""From a ModelSpec to weights and a tokenizer in memory; and a model that is handed over as an object."""

import contextlib
import logging
import math
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from ...base.cache import ELSEWHERE, cache_folder
from ...base.documents import user_path
from ...base.errors import UserError, cause, in_one_line
from ...base.files import locked
from ...base.settings import parse
from .adapters import (
    adapter_tokenizer,
    apply_adapters,
    find_adapters,
    fit_vocabulary,
    note_attached,
    refusal,
    refuse_adapted_head,
    require_peft,
)
from .checkpoint import ONE_LOADS, convert_gguf, note_quantisation, refuse_incomplete, refuse_mistyped, refuse_pickles
from .consent import require_consent
from .spec import ADAPTER_CONFIG, IN_MEMORY, ModelSpec, PackagedFile

if TYPE_CHECKING:
    from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

log = logging.getLogger("doxascope")

PATIENCE = 3.0
"""Seconds that a connection may take."""
MOST_LAYERS = 10_000
"""Ten times what the deepest models have."""
LOADED_AS = {"auto": "sdpa", "sdpa": "sdpa", "flex": "sdpa", "eager": "eager"}
"""Attention implementations of transformers that are asked for. Blocks are for packs alone."""


@dataclass(frozen=True)
class WeightsSource:
    """Where the weights are: an argument for `from_pretrained`, and the revision if it is on the hub."""

    place: str
    revision: str | None = None
    own_code: bool = False
    """Whether code that comes with the model may run."""
    from_cache: bool = False
    """Whether the hub is not asked, since it is not reached."""

    @property
    def options(self) -> dict[str, Any]:
        """Of whatever reads from it."""
        options = {"revision": self.revision, "trust_remote_code": self.own_code}
        return options | ({"local_files_only": True} if self.from_cache else {})


def find_weights(spec: ModelSpec) -> WeightsSource:
    """The first of the spec's sources that is here; a GGUF file is converted on the way.

    Raises UserError if there is none, or if it would run code without consent.
    """
    require_consent(spec)
    if spec.path == IN_MEMORY:
        raise UserError(f"model {spec.name}: was handed over as an object; save it, and give the folder")
    if spec.packaged and (package := find_spec(spec.packaged.module)) and package.origin:
        return WeightsSource(str(convert_gguf(_packaged(spec.packaged, Path(package.origin).parent))))
    if spec.path:
        return WeightsSource(_local(user_path(spec.path)), own_code=spec.trust_remote_code)
    if spec.hub:
        return WeightsSource(spec.hub, spec.revision, spec.trust_remote_code, from_cache=not hub_is_reached())
    assert spec.packaged is not None
    raise UserError(f"model {spec.name}: package {spec.packaged.module} is not installed; {spec.packaged.install}")


@cache
def hub_is_reached() -> bool:
    """Whether a connection to the hub can be opened; true where a proxy opens it, or where the library itself is told
    to stay offline. Its own requests would be tried five times each before they said so.
    """
    from huggingface_hub import constants

    place = urlsplit(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE or getproxies():
        return True
    try:
        port = place.port or {"http": 80}.get(place.scheme, 443)
        socket.create_connection((place.hostname or "", port), timeout=PATIENCE).close()
    except OSError as error:
        log.warning("the hub %s is not reached (%s): models are taken from its cache", constants.ENDPOINT, cause(error))
        return False
    return True


def _packaged(packaged: PackagedFile, folder: Path) -> Path:
    """The file of an installed package, put together first where the package brings it in parts."""
    if packaged.file:
        return folder / packaged.file
    assert packaged.assemble is not None
    home = cache_folder()
    home.mkdir(parents=True, exist_ok=True)
    lock = locked(home / f"{packaged.module}.lock", advice=ELSEWHERE)
    with in_one_line(f"package {packaged.module}", packaged.install), lock:
        return Path(getattr(import_module(packaged.module), packaged.assemble)())


def _local(path: Path) -> str:
    if path.suffix == ".gguf" and path.is_file():
        with in_one_line(f"{path}: cannot be read as GGUF"):
            return str(convert_gguf(path))
    if not (path / "config.json").is_file():
        advice = "give a folder as `save_pretrained` writes it, or a .gguf"
        if (path / ADAPTER_CONFIG).is_file():
            advice = f"it is an adapter: give its model as path, and adapter: {path}"
        raise UserError(f"{path}: no config.json in it; {advice}")
    return str(path)


@dataclass(frozen=True)
class TextSide:
    """What a model is without its weights: enough to render prompts and to plan a run."""

    tokenizer: "PreTrainedTokenizerBase"
    end_ids: tuple[int, ...]
    """The ids that end a turn."""
    context: int | None
    """The longest sequence that the model takes, in tokens."""
    n_layers: int | None
    """Its blocks, where its configuration says how many."""
    n_tokens: int | None = None
    """Of which it has embeddings, those of its adapters among them, where its configuration says how many."""
    config: "PretrainedConfig | None" = None
    """All that is known of it without its weights."""


def load_text_side(spec: ModelSpec) -> TextSide:
    """The tokenizer, and what the configuration says about texts."""
    from transformers import AutoTokenizer, GenerationConfig

    source = find_weights(spec)
    options = source.options
    with _explained(spec, source):
        tokenizer: Any = AutoTokenizer.from_pretrained(source.place, **options)
        config = _config(source)
        brought = adapter_tokenizer(
            find_adapters(spec, source.place, source.revision, from_cache=source.from_cache), tokenizer
        )
    with _explained(spec, source):
        try:
            generation = GenerationConfig.from_pretrained(source.place, **options)
        except OSError:  # a model need not bring one
            generation = GenerationConfig.from_model_config(config)
    return text_side(brought or tokenizer, config, generation, source.place, len(brought) if brought else 0)


def text_side(
    tokenizer: "PreTrainedTokenizerBase",
    config: "PretrainedConfig",
    generation: "GenerationConfig | None",
    place: str,
    brought: int = 0,
) -> TextSide:
    """What a tokenizer and the configurations of a model say about texts; adapters bring embeddings of so many tokens.

    Raises UserError, naming the `place` of the model, for a tokenizer that takes no text, and for an end of the text
    that is none of its tokens.
    """
    with in_one_line(f"model {place}: its tokenizer cannot be used"):
        tokenizer("a")  # some of its settings are believed until then
    ends: Any = generation.eos_token_id if generation else config.get_text_config().eos_token_id
    every: list[Any] = [tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])]
    named = [end for end in every if end is not None]
    text = config.get_text_config()
    size = max(getattr(text, "vocab_size", None) or 0, brought) or None
    if odd := [end for end in named if type(end) is not int or not 0 <= end < (size or math.inf)]:
        fault = f"eos_token_id {odd[0]!r}: is none of its {size or ''} tokens"
        raise UserError(f"model {place}: {fault}; correct generation_config.json, config.json or the tokenizer")
    ids = set(named)
    context, n_layers = (getattr(text, name, None) for name in ("max_position_embeddings", "num_hidden_layers"))
    return TextSide(tokenizer, tuple(sorted(ids)), context, n_layers, size, config)


def load_model(spec: ModelSpec) -> "PreTrainedModel":
    """The weights, in evaluation mode, on their device or devices. Only safetensors are read, never pickles."""
    import torch
    from transformers.utils import logging

    if spec.threads:
        torch.set_num_threads(spec.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cudnn.allow_tf32 = False
    logging.disable_progress_bar()
    source = find_weights(spec)
    options = source.options
    with _explained(spec, source), ONE_LOADS, _silent():
        adapters = find_adapters(spec, source.place, source.revision, from_cache=source.from_cache)
        if adapters:
            require_peft(f"adapter {adapters[0].adapter.place}")
        config = _config(source)
        refuse_pickles(source.place, config, options)
        quantised = getattr(config, "quantization_config", None) is not None
        # Where the library of quantised weights puts them, there they stay.
        one_device = {"": pick_device(spec.device)} if quantised else None

        def load(kernel: str) -> Any:
            return auto_class(config).from_pretrained(
                source.place,
                dtype=_dtype(spec, None if quantised else config),
                attn_implementation=kernel,
                device_map=spec.device_map or one_device,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # else the error does not name them
                # Else transformers attaches what lies beside, or does not, and asks a hub that is not reached for it.
                adapter_kwargs={"subfolder": "none", "local_files_only": source.from_cache},
                **options,
            )

        model, info = _with_kernel(spec, load)
        refuse_incomplete(model, info)
        refuse_mistyped(model, source.place, source.revision)
        note_quantisation(model, config)
    if spec.device_map and any(parameter.is_meta for parameter in model.parameters()):
        raise UserError(
            f"model {spec.name}: device_map {spec.device_map!r} leaves weights off every device; use more or "
            "larger devices, or a smaller dtype"
        )
    try:
        model = model if spec.device_map or quantised else model.to(pick_device(spec.device))
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"model {spec.name}: device {spec.device!r}: {cause(error)}") from error
    model = model.eval().requires_grad_(False)
    return apply_adapters(spec, model, adapters) if adapters else model


def untrained_model(spec: ModelSpec, seed: int) -> "PreTrainedModel":
    """A model of the same shape, its weights as the architecture initialises them, drawn by the seed."""
    import torch

    source = find_weights(spec)
    with _explained(spec, source), torch.random.fork_rng():
        torch.manual_seed(seed)
        config = _config(source)

        def make(kernel: str) -> Any:
            return auto_class(config).from_config(
                config, dtype=_dtype(spec, config), attn_implementation=kernel, trust_remote_code=source.own_code
            )

        model = _with_kernel(spec, make)
        fit_vocabulary(model, find_adapters(spec, source.place, source.revision, from_cache=source.from_cache))
    return model.to(pick_device(spec.device)).eval().requires_grad_(False)


def _config(source: WeightsSource) -> "PretrainedConfig":
    """What a model's files say of its shape. Raises ValueError for more layers than a model has."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(source.place, **source.options)
    if (layers := getattr(config.get_text_config(), "num_hidden_layers", None) or 0) > MOST_LAYERS:
        raise ValueError(f"its config.json says num_hidden_layers {layers:,}; at most {MOST_LAYERS:,} are read")
    return config


def auto_class(config: "PretrainedConfig") -> Any:
    """What loads a model with a language head: of a model of images and texts, whose text side is read, the whole."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

    whole = type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING and type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    return AutoModelForImageTextToText if whole else AutoModelForCausalLM


def _dtype(spec: ModelSpec, config: "PretrainedConfig | None") -> Any:
    """In which to compute: what the files say, if so asked, and float32 if they say nothing. Of a quantised model there
    is no `config` here, since its library may know better.
    """
    import torch

    if spec.dtype != "auto":
        return getattr(torch, spec.dtype)
    return "auto" if config is None else getattr(config.get_text_config(), "dtype", None) or torch.float32


def _with_kernel(spec: ModelSpec, make: Callable[[str], Any]) -> Any:
    """What `make` makes with the attention kernel of a model, or, if it is free to choose, with the one that it has."""
    kernel = LOADED_AS[spec.kernel]
    try:
        return make(kernel)
    except ValueError as error:
        if spec.kernel != "auto" or "attn_implementation" not in str(error):
            raise
        log.warning("model %s: its attention has no %r kernel; it is computed by 'eager'", spec.name, kernel)
        return make("eager")


def pick_device(device: str) -> str:
    """`auto` is the first GPU, else the CPU."""
    import torch

    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without the library's own report of what did not fit, which is told in one line."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


@contextlib.contextmanager
def _explained(spec: ModelSpec, source: WeightsSource) -> Iterator[None]:
    """Turns what the loading libraries raise for a missing, damaged or foreign model into one line."""
    with in_one_line(f"model {source.place}"):
        try:
            yield
        except Exception as error:
            if "attn_implementation" in str(error):
                advice = f"its attention has no {LOADED_AS[spec.kernel]!r} kernel; set `kernel: eager`, or `auto`"
                raise UserError(f"model {source.place}: {advice}") from error
            if isinstance(error, OSError) and source.place == spec.hub:
                advice = f"; or {spec.packaged.install}" if spec.packaged else ""
                raise UserError(f"model {spec.hub!r}: {refusal(error, source.place)}{advice}") from error
            raise


# A model that is handed over as an object, with its tokenizer.

LOADS = ("dtype", "device", "device_map", "revision", "adapter", "adapted", "trust_remote_code")
"""Settings that say how a model is loaded, which an object has been."""


def handed_over(
    model: Any, tokenizer: "PreTrainedTokenizerBase | None", settings: Mapping[str, object]
) -> "tuple[ModelSpec, PreTrainedModel, TextSide]":
    """What is read of an object of transformers, or of PEFT around one. It is put in evaluation mode, and not copied.

    Raises UserError for another object, without a tokenizer, and for settings that come too late.
    """
    from transformers import PreTrainedModel

    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    if not isinstance(whole, PreTrainedModel) or hasattr(model, "prompt_encoder"):
        raise UserError(
            f"model: {type(model).__name__} is given; give a name, a path, a hub id, a ModelSpec, or a model of "
            "transformers or PEFT that puts nothing before the prompt"
        )
    if tokenizer is None:
        raise UserError("tokenizer: a model that is an object comes without one; give it, tokenizer=...")
    if late := [key for key in LOADS if key in settings]:
        raise UserError(f"load(): {late[0]}: says how a model is loaded, and this one is an object")
    refuse_adapted_head(whole, "model")
    note_attached(whole)
    known: dict[str, Any] = {
        "name": Path(whole.name_or_path or type(whole).__name__).name,
        "path": IN_MEMORY,
        "device": str(whole.device),
        "dtype": str(whole.dtype).removeprefix("torch."),
    }
    spec = parse(ModelSpec, {**known, **settings}, "load()")
    return spec, whole.eval(), text_side(tokenizer, whole.config, whole.generation_config, spec.name)
