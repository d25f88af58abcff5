"""Norms, rotary embeddings and MLPs of a model with their elementwise steps fused, by torch.compile: a GPU spends a
fifth of a pass of a small model on moving what lies between them.

What is traced is the model's own code, so that no architecture is known here, and hooks see what they saw before.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import TYPE_CHECKING, Any

from .blocks import ATTENTIONS, blocks, body, input_device

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger("doxascope")

ROTARY = "apply_rotary_pos_emb"
"""How transformers calls the function, beside an attention, that turns its queries and keys."""
CLOSE = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.02}
"""How far the outcome of a fused pass may be from that of a plain one, as a share of it. How far that takes beliefs is
the self-check's to say."""
TRIAL = 61
"""Tokens of the pass that is tried: as many as nothing else has, or lengths and widths would be compiled as one."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function compiled once for all numbers of tokens."""
    import torch

    return torch.compile(function, dynamic=True)


class Fused:
    """Passes of a model with fused parts, where that works; where it fails, that is said and nothing is fused."""

    def __init__(self, model: "PreTrainedModel", compiler: Callable[..., Any] = compiled) -> None:
        every = blocks(model)
        inner = [part for block in every if type(part := getattr(block, "mlp", None)).__name__.endswith("MLP")]
        norms = [part for part in body(model).modules() if type(part).__name__.endswith("RMSNorm")]
        self.parts = [part for part in (*norms, *inner) if part is not None]
        self.forwards = {kind: compiler(kind.forward) for kind in {type(part) for part in self.parts}}
        attentions = [part for name in ATTENTIONS if (part := getattr(every[0], name, None)) is not None]
        files = [sys.modules[type(part).__module__] for part in attentions]
        self.rotaries = {file: compiler(getattr(file, ROTARY)) for file in files if hasattr(file, ROTARY)}
        try:
            fault = self._fault(model)
        except Exception as error:  # compilers fail in any way
            fault = (str(error) or type(error).__name__).splitlines()[0]
        if fault:
            log.warning("fused blocks fail here (%s): the model's own are used", fault)
            self.parts, self.rotaries = [], {}

    @contextmanager
    def passes(self) -> Iterator[None]:
        """While this is open, passes are fused, but for parts that compiling would leave a hook or a forward out of."""
        fused = [part for part in self.parts if "forward" not in vars(part) and not _hooked_inside(part)]
        usual = {file: getattr(file, ROTARY) for file in self.rotaries}
        try:
            for part in fused:
                part.forward = MethodType(self.forwards[type(part)], part)
            for file, rotary in self.rotaries.items():
                setattr(file, ROTARY, rotary)
            yield
        finally:
            for part in fused:
                part.__dict__.pop("forward", None)
            for file, rotary in usual.items():
                setattr(file, ROTARY, rotary)

    def _fault(self, model: "PreTrainedModel") -> str:
        """What is wrong with a pass over random tokens."""
        import torch

        draw = torch.Generator().manual_seed(0)
        words = int(model.get_input_embeddings().weight.shape[0])  # type: ignore
        ids = torch.randint(words, (1, TRIAL), generator=draw).to(input_device(model))
        with torch.inference_mode():
            plain = body(model)(input_ids=ids, use_cache=False).last_hidden_state.float()
            with self.passes():
                fused = body(model)(input_ids=ids, use_cache=False).last_hidden_state.float()
        gap = float((fused - plain).norm() / plain.norm())
        return "" if gap <= CLOSE[str(model.dtype).removeprefix("torch.")] else f"a pass is off by {gap:.2g}"


def _hooked_inside(part: Any) -> bool:
    """Whether hooks stand on modules within a part; those on itself run around what is fused."""
    inner = (module for module in part.modules() if module is not part)
    return any(module._forward_hooks or module._forward_pre_hooks for module in inner)
