"""The files of a checkpoint: whether they are the model that its configuration describes, GGUF converted to
safetensors, the digest of weights, and by which method they are quantised.

Weights that are not there must not be measured: a loader gives random values to what it does not find, and forgets
what it has no place for.
"""

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from ...base.cache import kept, remove_leftovers
from ...base.errors import cause
from ...base.files import TEMPORARY, file_digest

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


NAMED = 3
"""Tensors that a message names; of others it tells the number."""
FLOATS = ("F", "BF")
"""How safetensors begins the names of the dtypes that weights have."""
PLAIN = re.compile(r"[^/\\:\n]+\.safetensors")
"""Names of files of weights."""
WEIGHTS = (".weight", ".bias")


def refuse_incomplete(model: "PreTrainedModel", info: Mapping[str, Any]) -> None:
    """Raise ValueError for tensors that are missing, unexpected or of another shape, by the loader's own list.

    It knows which heads are tied, and which buffers a checkpoint need not have. A model without layers is refused, too.

    Args:
        info: what `from_pretrained` returns with `output_loading_info`.
    """
    shapes = [f"{name} {[*shape]} for {[*wanted]}" for name, shape, wanted in info["mismatched_keys"]]
    faults = [
        _fault("lacks", info["missing_keys"]),
        _fault("has, without a place for them,", info["unexpected_keys"]),
        _fault("has in another shape", shapes),
        *info["error_msgs"],
    ]
    if differences := "; ".join(filter(None, faults)):
        advice = "it is not the model that its config.json describes, restore either"
        raise ValueError(f"its checkpoint {differences}; {advice}")
    if (layers := getattr(model.config.get_text_config(), "num_hidden_layers", 1)) < 1:
        raise ValueError(f"its config.json says num_hidden_layers {layers}; a model has at least one")


def _fault(what: str, names: Iterable[str]) -> str:
    names = sorted(map(str, names))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{what} {', '.join(names[:NAMED])}{more}" if names else ""


def refuse_pickles(place: str, config: "PretrainedConfig", options: Mapping[str, Any]) -> None:
    """Raise ValueError, before any is opened, for weights in files that are not safetensors beside the configuration: a
    loader takes whatever an index names, and the index that a configuration names.

    Args:
        options: of whatever reads from the place.
    """
    from transformers.utils import SAFE_WEIGHTS_INDEX_NAME
    from transformers.utils.hub import cached_file

    if (named := getattr(config, "transformers_weights", None)) is not None:
        raise ValueError(f"its config.json names its weights itself, {named!r}; take transformers_weights out")
    options = {key: value for key, value in options.items() if key != "trust_remote_code"}
    if index := cached_file(place, SAFE_WEIGHTS_INDEX_NAME, _raise_exceptions_for_missing_entries=False, **options):
        try:
            names = {str(name) for name in json.loads(Path(index).read_text())["weight_map"].values()}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{SAFE_WEIGHTS_INDEX_NAME}: {cause(error)}; restore it, or save the model anew"
            ) from error
        if odd := sorted(name for name in names or {""} if not PLAIN.fullmatch(name)):
            raise ValueError(f"{SAFE_WEIGHTS_INDEX_NAME} names {odd[0]!r}; weights are safetensors files beside it")


def refuse_mistyped(model: "PreTrainedModel", place: str, revision: str | None) -> None:
    """Raise ValueError if the files hold weights that are no floating-point numbers, which a loader would convert, or
    if two of them hold one tensor. The weights of a quantised model are whatever its library makes of them.
    """
    if getattr(model, "hf_quantizer", None) is not None:
        return
    home: dict[str, Path] = {}
    for file, name, entry in _tensors(place, revision):
        if not str(entry["dtype"]).startswith(FLOATS) and name.endswith(WEIGHTS):
            raise ValueError(f"{file}: {name} is {entry['dtype']}, and weights are floating-point numbers")
        if (other := home.setdefault(name, file)) != file:
            raise ValueError(f"{file}: holds {name}, which {other.name} holds as well")


def _tensors(place: str, revision: str | None) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
    """File, name, dtype and shape of every tensor that the loader read."""
    from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
    from transformers.utils.hub import cached_file

    folder = Path(str(cached_file(place, "config.json", revision=revision))).parent
    index = folder / SAFE_WEIGHTS_INDEX_NAME
    whole = folder / SAFE_WEIGHTS_NAME
    names = [whole.name] if whole.exists() else sorted(set(json.loads(index.read_text())["weight_map"].values()))
    for file in (folder / name for name in names):
        with file.open("rb") as opened:
            header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
        yield from ((file, name, entry) for name, entry in header.items() if name != "__metadata__")


def weights_digest(model: "PreTrainedModel") -> str:
    """A digest of all weights, name by name, at the speed of SHA-256 on all cores (1.8 GB/s on each of them)."""
    import torch

    def of(tensor: torch.Tensor) -> bytes:
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return hashlib.sha256(raw.numpy().data).digest()

    stored = model.state_dict().keys()  # other buffers follow from the configuration
    tensors = {**dict(model.named_parameters()), **{k: b for k, b in model.named_buffers() if k in stored}}
    whole = hashlib.sha256()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (name, tensor), digest in zip(tensors.items(), pool.map(of, tensors.values()), strict=True):
            whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode() + digest)
    return whole.hexdigest()[:16]


# GGUF files, converted once to a safetensors folder in the cache, whoever asks first.

ONE_LOADS = Lock()
"""Held while transformers loads weights: it swaps functions of its classes meanwhile, and two threads that load at once
would leave them swapped, so that no tied weight would be loaded any more."""


def convert_gguf(gguf: Path) -> Path:
    """The folder with the same model as dequantised float32 safetensors, made if it is not there as it was made.

    The folder is named by the file's content and the transformers version that wrote it (a folder written by
    one version may be read wrongly by another). It appears whole or not at all.
    """
    import transformers

    def make(folder: Path) -> None:
        remove_leftovers(ROOM)
        temporary = folder.with_name(f"{TEMPORARY}-{folder.name}")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            _convert(gguf, temporary)
            temporary.rename(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    return kept(ROOM, f"{gguf.stem}-{file_digest(gguf)[:16]}-noted-transformers{transformers.__version__}", make)


ROOM = "converted"
"""Of the cache."""


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # Files beside it may name code; left unsaid, transformers would ask at the terminal whether to run that.
    options: dict[str, Any] = {"gguf_file": gguf.name, "trust_remote_code": False}
    tokenizer: Any = AutoTokenizer.from_pretrained(gguf.parent, **options)
    with ONE_LOADS:
        model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **options)
    # The weights are plain floats by now, but the model still calls itself quantised and would not be saved.
    model.hf_quantizer = None
    del model.config.quantization_config
    setattr(model.config, _SAID, f"GGUF {_mostly(gguf)}, held as plain numbers")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _mostly(gguf: Path) -> str:
    """In what a file holds most of its weights, such as `Q4_1`."""
    from gguf import GGUFReader

    elements: Counter[str] = Counter()
    for tensor in GGUFReader(gguf).tensors:
        elements[tensor.tensor_type.name] += int(tensor.n_elements)
    return elements.most_common(1)[0][0]


_SAID = "doxascope_quantisation"


def note_quantisation(model: "PreTrainedModel", config: "PretrainedConfig") -> None:
    """Keep with a model what the configuration in its files says: where a device has no kernels for a method,
    transformers makes plain numbers of the weights, and forgets.
    """
    given: Any = getattr(config, "quantization_config", None)
    if given is None:
        return
    settings = given if isinstance(given, dict) else given.to_dict()
    plain = {
        key: value for key, value in sorted(settings.items()) if isinstance(value, str | int) and value is not False
    }
    method = plain.pop("quant_method", "quantised")
    quantised = getattr(model, "hf_quantizer", None) is not None and hasattr(model.config, "quantization_config")
    details = "".join(f", {key} {value}" for key, value in plain.items() if not key.startswith("_"))
    name = f"{getattr(method, 'value', method)}{details}"
    setattr(model, _SAID, name if quantised else f"{name}, held as plain numbers")


def quantisation(model: "PreTrainedModel") -> str | None:
    """What was noted, now or when its GGUF file was converted; None for a model that is not quantised."""
    return getattr(model, _SAID, None) or getattr(model.config, _SAID, None)
