"""Fused blocks: the same passes, the same hooks, and nothing left behind."""

import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doxascope import load
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.exact.option_beliefs import read_packed
from doxascope.hooks.model.blocks import SITES
from doxascope.hooks.model.fused import ROTARY, Fused, compiled
from doxascope.hooks.prompts.options import make_options
from doxascope.hooks.prompts.places import LAST
from doxascope.hooks.tree.layouts import Packed

SHAPE: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "initializer_range": 0.3,
}
PARTS = {"llama": 7 + 3, "qwen3": 7 + 3 + 6, "gemma3_text": 4 * 3 + 1 + 2 * 3 + 3}
"""Norms and MLPs of three blocks, and the last norm."""
TRACED = partial(torch.compile, backend="aot_eager", dynamic=True)
"""What compiles, without the C++ that takes seconds."""


def readings(lm: Any, fused: Fused | None) -> tuple[np.ndarray, list[torch.Tensor]]:
    """Of questions whose tree branches, with all that can be captured."""
    options = make_options(["yes", "no", "perhaps not"])
    queries = [
        lm.reader.query(str(i), [{"role": "user", "content": text}], options, positions={"last": LAST})
        for i, text in enumerate(["one two three?", "one two four five?", "one"])
    ]
    backend = TransformersBackend(lm.model, Packed, fused)
    read = read_packed(queries, backend, lm.head, budget=512, capture=CapturePlan(sites=SITES))
    assert read.captured is not None
    return np.concatenate([reading.logp for reading in read.readings]), [*read.captured.residuals.values()]


@pytest.mark.parametrize("family", PARTS)
def test_fused_passes_read_and_capture_the_same_and_leave_the_model_as_it_was(
    family: str, save_architecture: Callable[..., Path], noise: Callable[[Any], float]
) -> None:
    with load(str(save_architecture(family, SHAPE))) as lm:
        attention = sys.modules[type(lm.model).__module__]
        rotary = getattr(attention, ROTARY)
        calls: list[str] = []

        def counted(function: Any) -> Callable[..., Any]:
            quick = TRACED(function)
            return lambda *given, **more: calls.append(function.__qualname__) or quick(*given, **more)

        fused = Fused(lm.model, counted)
        assert len(fused.parts) == PARTS[family]
        assert list(fused.rotaries) == [attention]
        plain = readings(lm, None)
        calls.clear()
        quick = readings(lm, fused)
        assert len(calls) == PARTS[family] + 3  # one pass, and of every block its rotary embedding
        assert calls.count(rotary.__qualname__) == 3
        np.testing.assert_allclose(quick[0], plain[0], atol=noise(plain[0]))
        for one, other in zip(quick[1], plain[1], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        assert getattr(attention, ROTARY) is rotary
        assert not any("forward" in part.__dict__ for part in lm.model.modules())
        again = readings(lm, None)
        assert again[0].tobytes() == plain[0].tobytes()


@pytest.mark.full
def test_what_is_compiled_for_this_machine_reads_the_same(
    save_architecture: Callable[..., Path], noise: Callable[[Any], float]
) -> None:
    with load(str(save_architecture("llama", SHAPE))) as lm:
        plain, quick = (readings(lm, fused)[0] for fused in (None, Fused(lm.model, compiled)))
        np.testing.assert_allclose(quick, plain, atol=noise(plain))


def test_an_architecture_of_other_parts_is_left_as_it_is(save_architecture: Callable[..., Path]) -> None:
    shape = {"n_embd": 48, "n_layer": 2, "n_head": 3, "initializer_range": 0.3}
    with load(str(save_architecture("gpt2", shape))) as lm:
        fused = Fused(lm.model, TRACED)
        assert len(fused.parts) == 2  # its MLPs
        assert not fused.rotaries
        np.testing.assert_allclose(readings(lm, fused)[0], readings(lm, None)[0], atol=1e-4)


def fails(function: Any) -> Callable[..., Any]:
    def never(*given: Any) -> Any:
        raise RuntimeError(f"no compiler for {function.__name__}\nand more lines")

    return never


def doubles(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*given: Any) -> Any:
        outcome = function(*given)
        return outcome * 2 if isinstance(outcome, torch.Tensor) else outcome

    return wrong


@pytest.mark.parametrize(
    ("compiler", "fault"), [(fails, "no compiler for forward"), (doubles, "a pass is off by ")], ids=["fails", "wrong"]
)
def test_a_compiler_that_fails_or_is_wrong_fuses_nothing_and_that_is_said(
    compiler: Any, fault: str, save_architecture: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    with load(str(save_architecture("llama", SHAPE))) as lm, caplog.at_level(logging.WARNING, "doxascope"):
        fused = Fused(lm.model, compiler)
        assert f"fused blocks fail here ({fault}" in caplog.text
        assert len(caplog.records[-1].getMessage().splitlines()) == 1
        assert readings(lm, fused)[0].tobytes() == readings(lm, None)[0].tobytes()
