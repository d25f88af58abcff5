"""Read-outs like those of the default consistency item for models of users' shapes, in tokens drawn at random."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerFast

from doxascope.hooks.exact.queries import Query
from doxascope.hooks.prompts.chat import Boundary, Prompt
from doxascope.hooks.prompts.options import OptionPaths, Terminators
from doxascope.hooks.prompts.places import ResolvedPosition

BATCH = 7
"""Items in one tree: 14,700 tokens."""
Group = list[Query]


@dataclass(frozen=True)
class Shape:
    """A model's shape, and how much it is given to do."""

    config: Mapping[str, int]
    dtype: torch.dtype
    items: int
    draws: int
    length: int
    budgets: tuple[int, ...]


def llama_3(hidden: int, inner: int, layers: int) -> Shape:
    """A model of that family, on a GPU."""
    config = dict(vocab_size=128256, max_position_embeddings=32768, rope_theta=500000, hidden_size=hidden)
    config |= dict(intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=8)
    return Shape(config, torch.bfloat16, items=56, draws=256, length=128, budgets=(4096, 16384))


SHAPES = {
    "tiny": Shape(
        dict(vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
        | {"num_key_value_heads": 2, "max_position_embeddings": 4096},
        torch.float32,
        items=2,
        draws=8,
        length=8,
        budgets=(1024, 4096),
    ),
    "1b": llama_3(2048, 8192, 16),
    "8b": llama_3(4096, 14336, 32),
}
TRUNK, CONTEXTS, CONTEXT, OPTIONS, FORMS, FORM = 200, 13, 40, 3, 12, 3
"""Of an item: tokens that its contexts share, contexts and their own tokens, options, forms of each, tokens of a form:
2,100 tokens, 1,400 of which are read, as in the default consistency item."""


def items(vocabulary: int, n: int) -> list[Group]:
    """Read-outs of n items, drawn at random."""
    draw = random.Random(0)
    closing = Terminators(words(vocabulary), ["<end>"], [0, 1, 2, 3])

    def ids(count: int) -> tuple[int, ...]:
        return tuple(draw.choices(range(4, vocabulary), k=count))

    def group(number: int) -> Group:
        trunk = ids(TRUNK)
        forms = tuple(tuple(ids(FORM) for _ in range(FORMS)) for _ in range(OPTIONS))
        contexts = (trunk + ids(CONTEXT) for _ in range(CONTEXTS))
        return [
            Query(f"{number}-{i}", Prompt(one, Boundary(None, "")), OptionPaths((), forms), closing, (last(one),))
            for i, one in enumerate(contexts)
        ]

    return [group(number) for number in range(n)]


def last(ids: Sequence[int]) -> ResolvedPosition:
    """Where a capture reads."""
    return ResolvedPosition("last", len(ids) - 1, 1)


def words(vocabulary: int) -> PreTrainedTokenizerFast:
    """A tokenizer that says numbers, since one is asked for the text of a sample."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"a": 4} | {f"w{i}": i for i in range(vocabulary) if i != 4}, "a"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=made)
