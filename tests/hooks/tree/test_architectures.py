"""Packed, padded and plain are the same numbers, on every architecture that is read."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doxascope import UserError, load
from doxascope.benchmarks.tiny_families import FAMILIES, SHAPE
from doxascope.hooks.backends.backend import Backend
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.exact.option_beliefs import largest_difference, read_packed
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.model.blocks import attention_heads, blocks, head_widths
from doxascope.hooks.prompts.chat import Boundary, Prompt
from doxascope.hooks.prompts.options import OptionPaths
from doxascope.hooks.prompts.places import ResolvedPosition
from doxascope.hooks.tree.layouts import Packed, Padded

PACKED: dict[str, Mapping[str, Any]] = {
    name: FAMILIES[name] for name in ("llama", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text", "gpt2")
}
PACKED |= {name: FAMILIES[name] for name in ("cohere", "granite")} | {"qwen2": SHAPE, "qwen2-window": FAMILIES["qwen2"]}
PACKED["gemma4_text"] = {**FAMILIES["gemma4_text"], "vocab_size_per_layer_input": 1000}
OTHERS = {name: FAMILIES[name] for name in ("llama4_text", "falcon", "bloom", "mpt", "mamba", "recurrent_gemma")}
PATHS = {"mamba": "stepped", "recurrent_gemma": "padded"}
"""Of the others, those that do not go on from a cache as they read a prompt, or keep their states in themselves."""
EAGER_ONLY = {"gemma2", "bloom", "mpt", "mamba"}


@pytest.fixture(scope="module")
def make_lm(save_architecture: Callable[..., Path]) -> Callable[..., Any]:
    """Makes, saves and loads a tiny random model."""
    return lambda name, settings, **spec: load(str(save_architecture(name, settings)), **spec)


def queries(lm: Any) -> list[Query]:
    """Read-outs that share a trunk and go on to four times the window."""
    words = torch.randint(3, len(lm.tokenizer), (80,), generator=torch.Generator().manual_seed(1)).tolist()
    paths = tuple((tuple(words[n : n + 3]), tuple(words[n : n + 1])) for n in (5, 20, 40))
    prompts = (words[:4], words[:12], words[:12] + words[50:53], words[:4] + words[30:58])
    return [
        Query(
            str(i),
            Prompt(tuple(ids), Boundary(None, "")),
            OptionPaths((), paths),
            lm.reader.terminators,
            (ResolvedPosition("last", len(ids) - 1, 1),),
        )
        for i, ids in enumerate(prompts)
    ]


def read(lm: Any, backend: Backend, budget: int) -> Any:
    return read_packed(queries(lm), backend, lm.head, budget=budget, capture=CapturePlan())


@pytest.mark.parametrize(
    ("name", "kernel"), [(n, k) for n in PACKED for k in ("sdpa", "eager") if k == "eager" or n not in EAGER_ONLY]
)
def test_packed_padded_and_plain_agree(
    make_lm: Callable[..., Any], name: str, kernel: str, noise: Callable[[Any], float]
) -> None:
    lm = make_lm(name, PACKED[name], kernel=kernel)
    assert lm.identity.path == "packed"
    plain = [lm.read_plain(query) for query in queries(lm)]
    assert np.ptp(plain[0].logp) > 0.1, "the model must have something to say"
    for backend in (TransformersBackend(lm.model), TransformersBackend(lm.model, Padded)):
        for budget in (1000, 50, 20):
            readings, cost, _ = read(lm, backend, budget)
            if isinstance(backend.layout, Packed):
                assert cost.tokens_run == cost.tokens_tree
            else:
                assert (cost.packs == 1) == (budget == 1000)
            assert all(
                largest_difference(one, other) < noise(other.logp) for one, other in zip(readings, plain, strict=True)
            )


@pytest.mark.parametrize("name", OTHERS)
def test_what_takes_no_tree_mask_is_read_from_its_cache(
    make_lm: Callable[..., Any], name: str, noise: Callable[[Any], float]
) -> None:
    lm = make_lm(name, OTHERS[name], kernel="eager" if name in EAGER_ONLY else "sdpa")
    assert lm.identity.path == PATHS.get(name, "forked")
    plain = [lm.read_plain(query) for query in queries(lm)]
    for layout in (type(lm.backend.layout), Padded):
        for budget in (1000, 20):
            readings, cost, _ = read(lm, TransformersBackend(lm.model, layout), budget)
            assert all(
                largest_difference(one, other) < noise(other.logp) for one, other in zip(readings, plain, strict=True)
            )
            if budget == 1000:
                assert (cost.tokens_run <= 1.5 * cost.tokens_tree) == (layout is not Padded)


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "gpt2", "bloom", "mpt", "mamba"])
def test_residuals_are_those_of_the_path_alone(
    make_lm: Callable[..., Any], name: str, noise: Callable[[Any], float]
) -> None:
    lm = make_lm(name, (PACKED | OTHERS)[name], kernel="eager")
    for backend in (lm.backend, TransformersBackend(lm.model, Padded)):
        for budget in (1000, 20):
            captured = read(lm, backend, budget).captured
            for residual, query in zip(captured.residuals["resid_post"], queries(lm), strict=True):
                with torch.inference_mode():
                    ids = torch.tensor([query.prompt.ids], device=lm.model.device)
                    states = lm.model(ids, output_hidden_states=True, use_cache=False).hidden_states
                first = 0 if name == "mamba" else 1  # whether the embedding is among them; the last is normed
                expected = torch.stack([state[0, -1].cpu() for state in states[first:]])[: len(residual) - 1]
                torch.testing.assert_close(residual[:-1], expected, rtol=0, atol=noise(expected))


@pytest.mark.parametrize("name", ["llama", "bloom", "mamba"])
def test_sampling_goes_the_way_that_reading_goes(make_lm: Callable[..., Any], name: str) -> None:
    lm = make_lm(name, (PACKED | OTHERS)[name], kernel="eager")
    (sample,) = lm.generate("Is it?", temperature=0, max_new_tokens=6)
    ids = list(lm.reader.chat.render([{"role": "user", "content": "Is it?"}]).ids)
    for token in sample.ids:
        with torch.inference_mode():
            assert token == int(
                lm.model(torch.tensor([ids], device=lm.model.device), use_cache=False).logits[0, -1].argmax()
            )
        ids.append(token)


@pytest.mark.parametrize("name", ["mistral", "gemma2", "gemma3_text", "qwen2-window"])
def test_the_check_sees_a_window_that_is_bypassed(
    make_lm: Callable[..., Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doxascope.hooks.tree.layouts.pack_masks", full_mask)
    assert make_lm(name, PACKED[name], kernel="eager").identity.path == "forked"


def full_mask(pack: Any, config: Any, dtype: Any, device: Any) -> torch.Tensor:
    """The mask of a pack as if no layer had a window."""
    hidden = torch.from_numpy(~pack.visible())
    return torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(dtype).min)[None, None].to(device)


def test_a_kernel_that_the_model_has_not_is_refused(make_lm: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="its attention has no 'sdpa' kernel; set `kernel: eager`"):
        make_lm("gemma2", PACKED["gemma2"], kernel="sdpa")


def test_a_model_without_the_fast_kernel_gets_the_slow_one_and_that_is_said(
    make_lm: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert make_lm("gemma2", PACKED["gemma2"]).identity.kernel == "eager"
    assert caplog.text.count("no 'sdpa' kernel; it is computed by 'eager'") == 1


def test_a_cap_on_attention_is_kept_where_transformers_would_leave_it_out(
    save_architecture: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some versions (5.19) let models of Gemma 2 choose SDPA, which caps nothing."""
    folder = str(save_architecture("gemma2", {**PACKED["gemma2"], "attn_logit_softcapping": 0.01}))
    right = load(folder, kernel="eager").beliefs("Is it?", ["yes", "no"]).beliefs["logp"].to_numpy()
    monkeypatch.setattr("transformers.models.gemma2.modeling_gemma2.Gemma2PreTrainedModel._supports_sdpa", True)
    for kernel in ("auto", "sdpa"):
        lm = load(folder, kernel=kernel)
        assert lm.identity.kernel == "eager"
        np.testing.assert_allclose(lm.beliefs("Is it?", ["yes", "no"]).beliefs["logp"], right, atol=1e-6)


def test_a_head_that_is_not_understood_is_refused(make_lm: Callable[..., Any]) -> None:
    lm = make_lm("cohere", PACKED["cohere"])
    lm.head.scale = 1.0
    with pytest.raises(UserError, match=r"CohereForCausalLM cannot be read exactly: packed .* nat; padded .* nat"):
        _ = lm.identity


def test_a_device_map_reads_the_same(tiny_folder: Path) -> None:
    there, spread = load(str(tiny_folder), device="cpu"), load(str(tiny_folder), device_map="cpu")
    one, other = (lm.beliefs("Is it?", ["yes", "no"], capture="last") for lm in (there, spread))
    np.testing.assert_array_equal(one.beliefs["logp"], other.beliefs["logp"])
    np.testing.assert_array_equal(one.residuals, other.residuals)


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "bloom"])
def test_blocks_that_accelerate_moves_data_between_read_the_same(make_lm: Callable[..., Any], name: str) -> None:
    from accelerate import dispatch_model

    lm = make_lm(name, (PACKED | OTHERS)[name], kernel="eager")
    before, _, taken = read(lm, lm.backend, 50)
    place = lm.model.device
    dispatch_model(lm.model, {lm.model.base_model_prefix: place, "lm_head": place}, main_device=place, force_hooks=True)
    assert all(hasattr(block, "_hf_hook") for block in blocks(lm.model))
    after, _, taken_after = read(lm, lm.backend, 50)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.logp, other.logp)
    torch.testing.assert_close(taken.residuals, taken_after.residuals, rtol=0, atol=0)


def test_a_device_map_that_cannot_be_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="leaves weights off every device"):
        load(str(tiny_folder), device_map="meta")
    with pytest.raises(UserError, match="both say where the model goes"):
        load(str(tiny_folder), device_map="cpu", device="cpu")


def test_heads_of_several_widths_are_counted_layer_by_layer(make_lm: Callable[..., Any]) -> None:
    lm = make_lm("gemma4_text", PACKED["gemma4_text"])
    heads = attention_heads(lm.model.config)
    for layer, block in zip(heads, blocks(lm.model), strict=True):
        attention: Any = block.self_attn
        assert attention.q_proj.out_features == layer.queries * layer.width
        assert attention.k_proj.out_features == layer.keys * layer.width
    assert len(set(heads)) == 2
    with pytest.raises(UserError, match="several widths"):
        head_widths(lm.model)
