"""A model that is handed over as an object, with its tokenizer."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import UserError
from ...base.settings import parse
from .adapters import note_attached, refuse_adapted_head
from .loading import TextSide, text_side
from .spec import IN_MEMORY, ModelSpec

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

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
    held: dict[str, Any] = {
        "name": Path(whole.name_or_path or type(whole).__name__).name,
        "path": IN_MEMORY,
        "device": str(whole.device),
        "dtype": str(whole.dtype).removeprefix("torch."),
    }
    spec = parse(ModelSpec, {**held, **settings}, "load()")
    return spec, whole.eval(), text_side(tokenizer, whole.config, whole.generation_config)
