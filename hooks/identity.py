"""The identity of a loaded model: which weights, tokenizer and template, under which conditions; and how two sets of
conditions differ.
"""

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ..base.settings import Settings
from .backends.libraries import kernel_of
from .exact.self_check import Chosen
from .exact.served import Server
from .model.adapters import adapted
from .model.checkpoint import quantisation, weights_digest
from .model.spec import ModelSpec

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from .generation.engines import ContinuousBatching


OWN = "own"
"""The sampler whose draws a seed determines."""
DATED = "strftime_now"
"""By which a chat template asks for the date."""


class Identity(Settings):
    """The identity of a loaded model. Two runs with equal identities ran the same model in the same way."""

    name: str
    architecture: str
    n_parameters: int
    n_layers: int
    d_model: int
    weights: str
    """Digest of every value of every parameter and buffer, as held in memory: equal digests are equal weights, from
    whatever files they came."""
    adapter: str | None = None
    """What was added to the weights of the base: place, method, digest and weight of each adapter, and in which way."""
    base: str | None = None
    """Where there is an adapter, the digest of the weights without it."""
    revision: str | None
    """The hub's commit, where there is one."""
    tokenizer: str
    chat_template: str | None
    template: str
    date: str | None
    """What the chat template is told; None if it does not ask."""
    dtype: str
    """In which it computes."""
    quantisation: str | None = None
    """Of its weights: the method, its settings, and whether they are held so; None: none."""
    kernel: str
    """The attention implementation that reads."""
    backend: str
    """The library that reads, with its version."""
    path: str
    """How token trees go through it: a name of `LAYOUTS`."""
    sampler: str = OWN
    """What draws texts, and whether the same ones again."""
    device: str
    threads: int


def identify(
    spec: ModelSpec,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    chosen: Chosen,
    engine: "ContinuousBatching | None" = None,
    server: Server | None = None,
) -> Identity:
    """Describe a loaded model and the way in which it is read."""
    import torch

    config = model.config.get_text_config()
    added = adapted(model)
    return Identity(
        name=spec.name,
        architecture=type(model).__name__,
        n_parameters=sum(p.numel() for p in model.parameters()),
        n_layers=config.num_hidden_layers,
        d_model=config.hidden_size,
        weights=weights_digest(model),
        adapter=added and added.said,
        base=added and added.base,
        revision=getattr(model.config, "_commit_hash", None),
        tokenizer=_short(repr(sorted(tokenizer.get_vocab().items())), tokenizer_definition(tokenizer)),
        chat_template=_short(str(tokenizer.chat_template)) if tokenizer.chat_template else None,
        template=spec.template,
        date=spec.date.isoformat() if spec.template == "own" and DATED in str(tokenizer.chat_template) else None,
        dtype=str(model.dtype).removeprefix("torch."),
        quantisation=quantisation(model),
        kernel=kernel_of(chosen.backend),
        backend=f"vLLM {server.version}, served" if server else f"{spec.backend} {version(spec.backend)}",
        path=chosen.path,
        sampler=OWN if engine is None else f"{engine.name}; not reproducible token by token",
        device=model.device.type,
        threads=torch.get_num_threads(),
    )


def condition_differences(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> list[str]:
    """`key: was -> is` for every entry in which two conditions differ.

    >>> condition_differences({"model": {"dtype": "float32"}}, {"model": {"dtype": "bfloat16"}})
    ['model.dtype: float32 -> bfloat16']
    """
    differences: list[str] = []
    for key in dict.fromkeys([*before, *now]):
        was, now_is = before.get(key), now.get(key)
        if isinstance(was, dict) and isinstance(now_is, dict):
            differences += condition_differences(was, now_is, f"{path}{key}.")
        elif was != now_is:
            differences.append(f"{path}{key}: {was} -> {now_is}")
    return differences


def tokenizer_definition(tokenizer: "PreTrainedTokenizerBase") -> str:
    """All of a fast tokenizer (normaliser, merges, post-processor) as text; empty for a slow one."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return backend.to_str() if backend is not None else ""


def _short(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
