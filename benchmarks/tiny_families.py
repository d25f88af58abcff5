"""Tiny random models: one of each family, with all of its kinds of layers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doxascope.hooks.model.loading import auto_class

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WINDOW = 8
"""Of sliding windows and attention chunks, and the most keys that an index picks."""
VOCABULARY = 96
SHAPE: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
NO_HEAD_DIM = {key: value for key, value in SHAPE.items() if key != "head_dim"}
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "moe_shared_expert_intermediate_size": 16,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
SLIDING = {"sliding_window": WINDOW}
MIXED = SLIDING | {"layer_types": ["sliding_attention", "full_attention"] * 2}
LINEAR = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 32,  # fewer, and keys are so alike that rounding grows
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "layer_types": ["linear_attention", "full_attention"] * 2,
}
MAMBA = {
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_ssm": 64,
    "mamba_n_groups": 1,
    "mamba_dt_rank": 4,
    "mamba_chunk_size": 8,
}
LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "head_dim": 8,
    "num_key_value_heads": 4,
}
# Few heads of an index tie at exactly nothing, and then rounding picks the keys.
INDEX = {"index_n_heads": 16, "index_head_dim": 16, "index_topk": WINDOW}
VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 8}
DEEP = {"depth": 1, "num_heads": 2, "out_hidden_size": 32, "deepstack_visual_indexes": [0]}
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1], "mrope_interleaved": True}
OWN_KEYS = {"num_key_value_heads": 4}
"""Of families whose heads share no keys: what they do not read themselves, an engine that draws does."""
GPT = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256, "n_inner": 48}

FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "llama": SHAPE,
    "mistral": SHAPE | SLIDING,
    "ministral": SHAPE | MIXED,
    "mixtral": SHAPE | EXPERTS,
    "qwen2": SHAPE | {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2},
    "qwen2_moe": SHAPE | EXPERTS,
    "qwen3": SHAPE,
    "qwen3_moe": SHAPE | EXPERTS,
    "gemma": SHAPE,
    "gemma2": SHAPE | MIXED | {"final_logit_softcapping": 3.0, "attn_logit_softcapping": 5.0},
    "gemma3_text": SHAPE | MIXED,
    "gemma3n_text": SHAPE
    | MIXED
    | {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY, "num_kv_shared_layers": 2}
    | {"laurel_rank": 8, "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0], "intermediate_size": [48] * 4},
    "gemma4_text": SHAPE
    | MIXED
    | {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY, "global_head_dim": 16},
    "gpt2": SHAPE | GPT | OWN_KEYS,
    "gpt_neo": {key: value for key, value in NO_HEAD_DIM.items() if key != "num_hidden_layers"}
    | {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 4, "window_size": WINDOW},
    "gpt_neox": NO_HEAD_DIM | OWN_KEYS,
    "gptj": SHAPE | GPT | {"rotary_dim": 4},
    "gpt_bigcode": SHAPE | GPT,
    "gpt_oss": SHAPE | EXPERTS | MIXED | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    "opt": NO_HEAD_DIM | OWN_KEYS | {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "phi": NO_HEAD_DIM,
    "phi3": NO_HEAD_DIM | SLIDING,
    "phimoe": NO_HEAD_DIM | EXPERTS | SLIDING,
    "stablelm": NO_HEAD_DIM,
    "starcoder2": NO_HEAD_DIM | SLIDING,
    "cohere": SHAPE | {"logit_scale": 0.25},
    "cohere2": SHAPE | MIXED | {"logit_scale": 0.25},
    "olmo": NO_HEAD_DIM,
    "olmo2": NO_HEAD_DIM,
    "olmo3": NO_HEAD_DIM | MIXED,
    "olmoe": NO_HEAD_DIM | EXPERTS,
    "granite": SHAPE | {"logits_scaling": 4.0, "embedding_multiplier": 3.0, "residual_multiplier": 0.5},
    "granitemoe": SHAPE | EXPERTS,
    "smollm3": SHAPE | {"no_rope_layer_interval": 2},
    "exaone4": SHAPE | MIXED,
    "glm": SHAPE,
    "glm4": SHAPE,
    "glm4_moe": SHAPE | EXPERTS,
    "ernie4_5": SHAPE,
    "nemotron": SHAPE,
    "arcee": SHAPE,
    "seed_oss": SHAPE,
    "hunyuan_v1_dense": SHAPE,
    "diffllama": SHAPE,
    "afmoe": SHAPE | MIXED | EXPERTS | {"num_dense_layers": 1},
    "deepseek_v2": SHAPE | EXPERTS | LATENT,
    "deepseek_v3": SHAPE | EXPERTS | LATENT,
    "deepseek_v32": SHAPE | EXPERTS | LATENT | INDEX,
    "deepseek_v4": SHAPE | EXPERTS | INDEX | SLIDING,
    "glm_moe_dsa": SHAPE | EXPERTS | LATENT | INDEX,
    "longcat_flash": SHAPE
    | LATENT
    | {"num_layers": 2, "ffn_hidden_size": 48, "expert_ffn_hidden_size": 16, "n_routed_experts": 4}
    | {"zero_expert_num": 2, "moe_topk": 2},
    "mimo_v2_flash": SHAPE | MIXED | EXPERTS | {"v_head_dim": 8, "mlp_layer_types": ["dense"] + ["sparse"] * 3},
    "falcon": NO_HEAD_DIM | {"alibi": True, "new_decoder_architecture": False},
    "bloom": SHAPE | {"n_layer": 3, "n_head": 4},
    "mpt": SHAPE | {"d_model": 32, "n_layers": 3, "n_heads": 4, "max_seq_len": 256},
    "llama4_text": SHAPE
    | EXPERTS
    | {"attention_chunk_size": WINDOW, "intermediate_size_mlp": 48, "num_experts_per_tok": 1}
    | {"no_rope_layer_interval": 2, "interleave_moe_layer_step": 2},
    "qwen3_next": SHAPE | EXPERTS | LINEAR,
    "qwen3_5_text": SHAPE | LINEAR,
    "qwen3_5_moe_text": SHAPE | EXPERTS | LINEAR,
    "olmo_hybrid": NO_HEAD_DIM | LINEAR,
    "kimi_linear": SHAPE
    | EXPERTS
    | LATENT
    | LINEAR
    | {"linear_head_dim": 8, "linear_num_heads": 4, "num_experts_per_token": 2, "num_expert_group": 1},
    "minimax": SHAPE | EXPERTS | {"layer_types": LINEAR["layer_types"], "block_size": WINDOW},
    "lfm2": SHAPE | {"layer_types": ["conv", "full_attention"] * 2, "block_multiple_of": 8},
    "lfm2_moe": SHAPE | EXPERTS | {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "nemotron_h": SHAPE
    | EXPERTS
    | {"layers_block_type": ["linear_attention", "mlp", "full_attention", "moe"], "ssm_state_size": 8}
    | {"mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 1, "chunk_size": 8, "use_mamba_kernels": False},
    "falcon_h1": SHAPE | MAMBA,
    "granitemoehybrid": NO_HEAD_DIM
    | EXPERTS
    | MAMBA
    | {"layer_types": LINEAR["layer_types"], "shared_intermediate_size": 16, "logits_scaling": 4.0},
    "bamba": NO_HEAD_DIM | MAMBA | {"attn_layer_indices": [1]},
    "jamba": NO_HEAD_DIM
    | EXPERTS
    | MAMBA
    | {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "zamba": NO_HEAD_DIM
    | MAMBA
    | {"attention_hidden_size": 64, "attention_head_dim": 16, "n_mamba_heads": 2, "num_key_value_heads": 4}
    | {"layers_block_type": ["linear_attention", "hybrid"] * 2, "use_mamba_kernels": False},
    "zamba2": NO_HEAD_DIM
    | {"mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_ngroups": 1, "n_mamba_heads": 4}
    | {"mamba_headdim": 16, "num_key_value_heads": 4, "adapter_rank": 4, "num_mem_blocks": 1, "chunk_size": 8}
    | {"layers_block_type": ["linear_attention", "hybrid"] * 2, "hybrid_layer_ids": [1, 3], "use_mamba_kernels": False},
    "mamba": {key: SHAPE[key] for key in ("vocab_size", "hidden_size", "initializer_range", "bos_token_id")}
    | {"num_hidden_layers": 3, "state_size": 4},
    "mamba2": {key: SHAPE[key] for key in ("vocab_size", "hidden_size", "initializer_range", "bos_token_id")}
    | {"num_hidden_layers": 3, "state_size": 8, "num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 8},
    "falcon_mamba": {key: SHAPE[key] for key in ("vocab_size", "hidden_size", "initializer_range", "bos_token_id")}
    | {"num_hidden_layers": 3, "state_size": 4},
    "mistral3": {"text_config": SHAPE | {"model_type": "ministral3"}, "vision_config": VISION | {"patch_size": 4}},
    "qwen3_vl": {"text_config": SHAPE | {"rope_parameters": MROPE}, "vision_config": VISION | DEEP},
    "gemma3": {"text_config": SHAPE | MIXED, "vision_config": VISION | {"patch_size": 4}},
    "recurrent_gemma": SHAPE
    | {"logits_soft_cap": 3.0, "lru_width": 32, "attention_window_size": WINDOW, "num_hidden_layers": 3},
}
"""Model type, as transformers calls it -> settings."""


def tiny_model(family: str, device: str, kernel: str = "sdpa") -> "PreTrainedModel":
    """A random model of a family. Norms and biases that do nothing would hide mistakes, so all weights are moved.

    Raises what transformers raises where it does not know the family, or has no such kernel for it.
    """
    import torch
    from transformers import AutoConfig

    config = AutoConfig.for_model(family, **FAMILIES[family])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = auto_class(config).from_config(config, dtype=torch.float32, attn_implementation=kernel)
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model.to(device).eval().requires_grad_(False)
