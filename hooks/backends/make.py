"""The back ends by name, and how each gets a model instance of its own."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from textwrap import shorten
from typing import TYPE_CHECKING

from ..errors import UserError
from ..model.loading import load_model
from ..model.spec import ModelSpec
from ..tree.attention import use_tree_attention
from ..tree.layout import Layout
from .backend import Backend
from .transformers import TransformersBackend

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MakeBackend = Callable[[Callable[["PreTrainedModel"], Layout]], Backend]
"""From a layout to a back end that uses it, on one and the same model instance."""


def require_library(spec: ModelSpec) -> str:
    """The version of the library that a model is to be read with.

    Raises UserError if it is not installed.
    """
    try:
        import_module(spec.backend)
    except ImportError as error:
        package = spec.backend.replace("_", "-")
        raise UserError(f'back end {spec.backend}: {error}; pip install "doxascope[{package}]"') from error
    return version(spec.backend)


def make_backend(spec: ModelSpec, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> MakeBackend:
    """How the model's back end is made. All but plain transformers hold the weights a second time.

    A library that takes models over or rewires them would make the plain reference path its own: then nothing would
    check it.

    Raises UserError if the library cannot serve the model.
    """
    if spec.backend == "transformers":
        on_one_gpu = {parameter.device.type for parameter in model.parameters()} == {"cuda"} and not spec.device_map
        use_tree_attention(model, blocks=spec.kernel == "flex" or (spec.kernel == "auto" and on_one_gpu))
        return lambda layout: TransformersBackend(model, layout)
    try:
        if spec.backend == "transformer_lens":
            from .transformer_lens import TransformerLensBackend, bridge

            bridged = bridge(load_model(spec), tokenizer)
            return lambda layout: TransformerLensBackend(bridged, layout)
        from .nnsight import NnsightBackend, wrap

        traced = wrap(load_model(spec))
        return lambda layout: NnsightBackend(traced, layout)
    except UserError:
        raise
    except Exception as error:  # what a library does not know breaks in any way
        reason = shorten(str(error) or type(error).__name__, 120, placeholder=" ...")
        name = type(model).__name__
        raise UserError(f"{spec.backend} cannot serve {name} ({reason}); try `--backend transformers`") from error
