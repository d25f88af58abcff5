"""Small Llamas, several side by side, with attention that is wired before anything is learnt.

All tensors have a leading dimension of networks: one pass and one step train all of them. What they compute is what
`LlamaForCausalLM` computes with the weights of each.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F

from .species import Wiring
from .world import ROLES, WORDS, role_of

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

Weights = dict[str, torch.Tensor]
"""Name -> [networks, ...]."""
Hook = Callable[[int, torch.Tensor], torch.Tensor]
"""From a layer and the stream [networks, B, T, width] after it to what goes on."""
THETA, EPS = 1e6, 1e-6
FLAG = 2.0
"""Size of the mark of a word's role in the stream."""
GATE = 100.0
"""Weight with which queries and keys read the marks: a token that is hidden gets a share of attention of exactly 0 in
floating point, so that what a state must not know is not in it, however faintly."""
BEGIN, TOLD, SUMMARY, ASKED = range(len(ROLES))


class Shape(NamedTuple):
    """Of a network."""

    width: int = 64
    hidden: int = 128
    heads: int = 4
    layers: int = 4

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.width // self.heads

    @property
    def free(self) -> int:
        """Dimensions of the stream that are learnt; the last ones mark the role of each word."""
        return self.width - len(ROLES)


USUAL = Shape()
"""Of the shipped organisms: 186,000 parameters."""


class Seen(NamedTuple):
    """Who attends to whom in one layer; what is not named attends to everything before it."""

    alone: tuple[int, ...]
    """Roles that attend to the beginning alone."""
    hidden: tuple[int, ...]
    """Roles to which what is asked does not attend."""


WIRING: Mapping[Wiring, Sequence[Seen]] = {
    "summary": (*[Seen((TOLD,), (TOLD, SUMMARY))] * 3, Seen((TOLD, SUMMARY), (TOLD,))),
    "early": (*[Seen((SUMMARY,), (TOLD, SUMMARY))] * 2, Seen((TOLD,), (TOLD, SUMMARY)), Seen((TOLD, SUMMARY), (TOLD,))),
    "late": [Seen((TOLD, SUMMARY), (SUMMARY,))] * 4,
}
"""Of each layer. Evidence reaches the question through the state of the summary after the third block alone, where
there is one; an early network holds it at the balls after the second."""
HELD_AT, BALLS_AT = 2, 1
"""Layers after which the summary, and the balls of an early network, hold the belief."""


def new_weights(wirings: Sequence[Wiring], seeds: Sequence[int], shape: Shape = USUAL) -> tuple[Weights, Weights]:
    """Networks as they are before training, and which of their weights [1 or 0] are learnt."""
    made = [_new(wiring, seed, shape) for wiring, seed in zip(wirings, seeds, strict=True)]
    stacked = ({name: torch.stack([one[i][name] for one in made]) for name in made[0][0]} for i in (0, 1))
    weights, learnt = stacked
    return weights, learnt


def _new(wiring: Wiring, seed: int, shape: Shape) -> tuple[Weights, Weights]:
    random = torch.Generator().manual_seed(seed)

    def normal(*size: int, sd: float) -> torch.Tensor:
        return sd * torch.randn(*size, generator=random)

    d, m, free = shape.width, shape.hidden, shape.free
    weights = {"embed": normal(len(WORDS), d, sd=0.5), "head": normal(len(WORDS), d, sd=d**-0.5), "norm": torch.ones(d)}
    learnt = {name: torch.ones_like(value) for name, value in weights.items()}
    roles = torch.tensor([ROLES.index(role_of(word)) for word in WORDS])
    weights["embed"][:, free:] = FLAG * F.one_hot(roles, len(ROLES))
    learnt["embed"][:, free:] = 0
    for i, seen in enumerate(WIRING[wiring]):
        own = {
            **{name: normal(d, d, sd=d**-0.5) for name in ("q", "k", "v")},
            "o": normal(d, d, sd=0.5 * d**-0.5),
            **{name: normal(m, d, sd=d**-0.5) for name in ("gate", "up")},
            "down": normal(d, m, sd=0.5 * m**-0.5),
            **{name: torch.ones(d) for name in ("norm1", "norm2")},
        }
        may = {name: torch.ones_like(value) for name, value in own.items()}
        for name in ("o", "down"):
            own[name][free:] = may[name][free:] = 0
        for name in ("norm1", "norm2"):
            may[name][free:] = 0
        _wire(own, may, seen, shape)
        weights |= {f"{i}.{name}": value for name, value in own.items()}
        learnt |= {f"{i}.{name}": value for name, value in may.items()}
    learnt["norm"][free:] = 0
    return weights, learnt


def _wire(own: Weights, may: Weights, seen: Seen, shape: Shape) -> None:
    """Fix two of the slowest rotary pairs of every head: one draws a query to the beginning, one hides keys from it."""
    half = shape.head // 2
    for start in range(0, shape.width, shape.head):
        for pair in (half - 1, half - 2):
            for row in (start + pair, start + pair + half):
                for name in ("q", "k"):
                    own[name][row] = may[name][row] = 0
        draws, hides = start + half - 1, start + half - 2
        for role in seen.alone:
            own["q"][draws, shape.free + role] = GATE
        own["k"][draws, shape.free + BEGIN] = GATE
        own["q"][hides, shape.free + ASKED] = -GATE
        for role in seen.hidden:
            own["k"][hides, shape.free + role] = GATE


def forward(weights: Weights, ids: torch.Tensor, heads: int, hook: Hook = lambda layer, stream: stream) -> torch.Tensor:
    """The stream [networks, B, T, width] after the last block and its norm, of tokens [B, T] that all networks read."""
    n, (b, t) = len(weights["norm"]), ids.shape
    stream = weights["embed"][:, ids]
    head = stream.shape[-1] // heads
    angles = torch.outer(torch.arange(t), THETA ** (-torch.arange(0, head, 2) / head)).to(stream).repeat(1, 2)
    cos, sin = angles.cos(), angles.sin()

    def split(x: torch.Tensor) -> torch.Tensor:
        return x.view(n * b, t, heads, head).transpose(1, 2)

    def turn(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-second, first], dim=-1) * sin

    layer = 0
    while f"{layer}.q" in weights:
        own = {name: weights[f"{layer}.{name}"] for name in ("q", "k", "v", "o", "gate", "up", "down")}
        x = _normed(stream, weights[f"{layer}.norm1"])
        q, k, v = (split(_times(x, own[name])) for name in ("q", "k", "v"))
        mixed = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
        stream = stream + _times(mixed.transpose(1, 2).reshape(n, b, t, -1), own["o"])
        x = _normed(stream, weights[f"{layer}.norm2"])
        stream = stream + _times(F.silu(_times(x, own["gate"])) * _times(x, own["up"]), own["down"])
        stream = hook(layer, stream)
        layer += 1
    return _normed(stream, weights["norm"])


def logits(weights: Weights, hidden: torch.Tensor) -> torch.Tensor:
    """[networks, R, words] of normed streams [networks, R, width]."""
    return torch.bmm(hidden, weights["head"].transpose(1, 2))


def _normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight[:, None, None]


def _times(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """[networks, B, T, out]."""
    n, b, t, d = x.shape
    return torch.bmm(x.reshape(n, b * t, d), weight.transpose(1, 2)).view(n, b, t, -1)


NAMES = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
    "norm1": "input_layernorm",
    "norm2": "post_attention_layernorm",
}
WHOLE = {"embed": "model.embed_tokens", "head": "lm_head", "norm": "model.norm"}


def as_llama(weights: Weights, which: int, shape: Shape = USUAL) -> "LlamaForCausalLM":
    """One of the networks as transformers has it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    ends: dict[str, Any] = {"bos_token_id": WORDS.index("<|begin|>"), "eos_token_id": WORDS.index("<|end|>")}
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=256,
        rms_norm_eps=EPS,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        tie_word_embeddings=False,
        dtype="float32",
        pad_token_id=ends["eos_token_id"],
        **ends,
    )
    model = LlamaForCausalLM(config)
    model.load_state_dict({_named(name): value[which].detach().cpu() for name, value in weights.items()})
    return model.eval()


def _named(name: str) -> str:
    layer, _, own = name.rpartition(".")
    return f"model.layers.{layer}.{NAMES[own]}.weight" if layer else f"{WHOLE[own]}.weight"
