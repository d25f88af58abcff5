"""What is said of quantised weights: by which method, and whether they are held so."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_SAID = "doxascope_quantisation"


def note_quantisation(model: "PreTrainedModel", config: "PretrainedConfig") -> None:
    """Keep with a model what the configuration in its files says: where a device has no kernels for a method,
    transformers makes plain numbers of the weights, and forgets.
    """
    given: Any = getattr(config, "quantization_config", None)
    if given is None:
        return
    settings = given if isinstance(given, dict) else given.to_dict()
    told = {
        key: value for key, value in sorted(settings.items()) if isinstance(value, str | int) and value is not False
    }
    method = told.pop("quant_method", "quantised")
    held = getattr(model, "hf_quantizer", None) is not None and hasattr(model.config, "quantization_config")
    details = "".join(f", {key} {value}" for key, value in told.items() if not key.startswith("_"))
    setattr(model, _SAID, f"{getattr(method, 'value', method)}{details}" + ("" if held else ", held as plain numbers"))


def quantisation(model: "PreTrainedModel") -> str | None:
    """What was noted; None for a model that is not quantised."""
    return getattr(model, _SAID, None)
