"""Whether a checkpoint is the model that its configuration describes: weights that are not there must not be measured.

A loader gives random values to what it does not find, and forgets what it has no place for.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAMED = 3
"""Tensors that a message names; of others it tells the number."""
FLOATS = ("F", "BF")
"""How safetensors begins the names of the dtypes that weights have."""
WEIGHTS = (".weight", ".bias")


def refuse_incomplete(model: "PreTrainedModel", info: Mapping[str, Any]) -> None:
    """Raise ValueError for tensors that are missing, unexpected or of another shape, by the loader's own list.

    It knows which heads are tied, and which buffers a checkpoint need not have. A model without layers is refused, too.

    Args:
        model: as loaded.
        info: what `from_pretrained` returns with `output_loading_info`.
    """
    shapes = [f"{name} {[*found]} for {[*wanted]}" for name, found, wanted in info["mismatched_keys"]]
    faults = [
        _fault("lacks", info["missing_keys"]),
        _fault("has, without a place for them,", info["unexpected_keys"]),
        _fault("has in another shape", shapes),
        *info["error_msgs"],
    ]
    if told := "; ".join(filter(None, faults)):
        raise ValueError(f"its checkpoint {told}; it is not the model that its config.json describes, restore either")
    if (layers := getattr(model.config.get_text_config(), "num_hidden_layers", 1)) < 1:
        raise ValueError(f"its config.json says num_hidden_layers {layers}; a model has at least one")


def _fault(what: str, names: Iterable[str]) -> str:
    names = sorted(map(str, names))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{what} {', '.join(names[:NAMED])}{more}" if names else ""


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
