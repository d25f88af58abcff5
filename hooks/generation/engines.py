"""Texts that an engine draws: fast where many are wanted, with random numbers of its own.

An engine decides by itself what it computes together, so that its draws are not the same ones another time. What a
text is worth does not hang on that: its tokens are read again here, exactly and on the same weights, and what the
engine says of them has to agree. An engine that samples another distribution than it was asked for (by a temperature or
a truncation that a checkpoint's settings bring, or by an attention that it serves wrongly) is refused, as long as it
says the log-probabilities that it draws by; one that says others than it draws by would not be noticed. In half
precision a temperature of 1.05 is not, either.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..backends.backend import Backend
from ..errors import UserError, in_one_line
from ..exact.steps import UNEMBED_ROWS, nan_logits
from ..model.head import Head
from ..model.upload import upload
from ..tree.memory import run_packs
from ..tree.tree import Pack, TokenTree
from .generation import GeneratedText, Request, Sampler
from .sampling import Sampling, random_generator

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Ids = tuple[int, ...]
Floats = NDArray[np.float64]

MEAN_NAT = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}
"""How far an engine's log-probabilities may be from ours, in the mean of the distances. It rounds logits of half
precision, those of bfloat16 to eighths."""
BIAS_NAT = 5e-3
"""How far their mean may be, beyond `MEANT` standard errors: rounding cancels out, a temperature or a truncation does
not. It estimates the Kullback-Leibler divergence of the engine's distribution from the one that was asked for, per
token."""
MEANT = 4
PAGE = 256
"""Tokens of a page of keys and values."""


class DrawnText(NamedTuple):
    """What an engine drew after a prompt."""

    ids: Ids
    """Up to the id that ended it, which is included."""
    logp: tuple[float, ...]
    """Natural log of the probability with which the engine says that it drew each."""


class Engine(Protocol):
    """Draws texts from one model's weights."""

    @property
    def name(self) -> str:
        """As runs record it: the library, its version, and what it computes with."""
        ...

    def draw(
        self, prompts: Sequence[Ids], sampling: Sampling, *, ends: Sequence[int], seed: int, held: int, pack: int
    ) -> list[DrawnText]:
        """A text after each prompt; prompts may be alike. Stop texts are not its concern.

        Args:
            prompts: token ids.
            sampling: the sampling distribution, which is not greedy.
            ends: the ids that end a text.
            seed: of its random numbers.
            held: most tokens whose keys and values it keeps.
            pack: most tokens of a forward pass.

        Raises UserError where it cannot serve the model.
        """
        ...


class ContinuousBatching:
    """The continuous batching of transformers, on the model that is loaded. See `Engine`."""

    def __init__(self, model: "PreTrainedModel") -> None:
        self.model = model

    @property
    def name(self) -> str:
        """See `Engine.name`."""
        return f"continuous batching of transformers {version('transformers')}"

    def draw(
        self, prompts: Sequence[Ids], sampling: Sampling, *, ends: Sequence[int], seed: int, held: int, pack: int
    ) -> list[DrawnText]:
        """See `Engine.draw`. Nothing is taken from the generation settings of the checkpoint."""
        import torch
        from transformers import GenerationConfig

        with in_one_line(self.name, "update transformers"):
            from transformers.generation.configuration_utils import ContinuousBatchingConfig
        wanted = GenerationConfig(
            do_sample=True,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            max_new_tokens=sampling.max_new_tokens,
            eos_token_id=sorted(ends) or -1,
            pad_token_id=0,
        )
        pages = [-(-(len(ids) + sampling.max_new_tokens) // PAGE) for ids in prompts]
        how = ContinuousBatchingConfig(
            page_size=PAGE,
            num_blocks=max(*pages, min(held // PAGE, sum(pages))) + 1,
            max_batch_tokens=pack,
            return_logprobs=True,
            seed=seed,
            auto_switch_to_flash=False,
        )
        with in_one_line(self.name, "leave model.sampler out"), _served(self.model), torch.random.fork_rng():
            model: Any = self.model
            found = model.generate_batch([list(ids) for ids in prompts], wanted, how).values()
            failed = next((str(one.error) for one in found if one.error), None)
            if failed or len(found) < len(prompts):
                raise RuntimeError(failed or "it ended before all texts were drawn")
        return [DrawnText(tuple(one.generated_tokens), tuple(one.logprobs)) for one in found]


ENGINES = {"continuous_batching": ContinuousBatching}
"""By the name that `ModelSpec.sampler` gives them."""


@dataclass(frozen=True)
class EngineSampler:
    """Samples of an engine, read again by us.

    Args:
        engine: draws them.
        sampler: says what ends a text.
        backend: reads them.
        head: of the model.
    """

    engine: Engine
    sampler: Sampler
    backend: Backend
    head: Head

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, *, seed: int, held: int, pack: int
    ) -> list[GeneratedText]:
        """As `Sampler.generate`, with random numbers that depend on all that is drawn in the call.

        Raises UserError for an engine that cannot serve the model, or samples another distribution than asked.
        """
        draws = [(request, draw) for request in requests for draw in request.draws]
        if not draws:
            return []
        called = "\n".join(f"{request.readout_id} {draw}" for request, draw in draws)
        own = int(random_generator(seed, called, 0).integers(2**31))
        prompts = [request.prompt.ids for request, _ in draws]
        ends = sorted(self.sampler.end_ids)
        drawn = self.engine.draw(prompts, sampling, ends=ends, seed=own, held=held, pack=pack)
        read = read_texts(prompts, [one.ids for one in drawn], sampling, self.backend, self.head, pack)
        refuse_other(self.engine.name, drawn, read, str(self.backend.model.dtype).removeprefix("torch."))
        return [
            self._cut(request.readout_id, draw, one.ids, logp.tolist(), sampling)
            for (request, draw), one, (logp, _) in zip(draws, drawn, read, strict=True)
        ]

    def _cut(self, readout_id: str, draw: int, ids: Ids, logp: list[float], sampling: Sampling) -> GeneratedText:
        """The sample, up to the first token that ends it."""
        for n in range(1, len(ids) + 1):
            if found := self.sampler.finished(readout_id, draw, ids[:n], logp[:n], sampling):
                return found
        raise UserError(f"{self.engine.name}: ended a text of {readout_id} by nothing that ends one")


class ReadText(NamedTuple):
    """The log-probabilities of a text's tokens."""

    logp: Floats
    """[tokens] under the model."""
    asked: Floats
    """[tokens] under the sampling distribution; -inf for one that it leaves out."""


def read_texts(
    prompts: Sequence[Ids], texts: Sequence[Ids], sampling: Sampling, backend: Backend, head: Head, budget: int
) -> list[ReadText]:
    """Read every token of texts after their prompts, in one tree and packs of at most `budget` tokens, or of a text."""
    import torch

    tree = TokenTree()
    paths = [tree.add((*prompt, *ids))[len(prompt) :] for prompt, ids in zip(prompts, texts, strict=True)]
    nodes = np.unique(np.concatenate([np.array(path, dtype=np.int64) for path in paths]))
    above, tokens = np.array(tree.parents)[nodes], np.array(tree.tokens)[nodes]
    found = np.full((2, len(tree)), np.nan)

    def take(one: Pack) -> int:
        output = backend.run(one)
        for start in range(0, len(one.nodes), UNEMBED_ROWS):
            here = one.nodes[start : start + UNEMBED_ROWS]
            logp = head.log_probs(output.hidden[start : start + UNEMBED_ROWS], passing=True)
            row_of = np.full(len(tree), -1)
            row_of[here] = np.arange(len(here))
            mine = np.flatnonzero(row_of[above] >= 0)
            at = tuple(upload(one[mine], logp.device) for one in (row_of[above], tokens))
            values = torch.stack([logp[at], _asked(logp, sampling)[at]])
            found[:, nodes[mine]] = values.double().cpu().numpy()
        return output.tokens_run

    run_packs(tree, np.unique(above).tolist(), max(budget, max(tree.depths) + 1), take)
    return [ReadText(*found[:, path]) for path in paths]


def _asked(logp: "torch.Tensor", sampling: Sampling) -> "torch.Tensor":
    """[F, vocabulary] log-probabilities of the model -> of the sampling distribution."""
    if sampling.faithful:
        return logp
    p = sampling.probabilities(logp)
    return (p / p.sum(dim=1, keepdim=True)).log()


def refuse_other(name: str, drawn: Sequence[DrawnText], read: Sequence[ReadText], dtype: str) -> None:
    """Raise UserError where what was drawn is of another distribution than the one that was asked for."""
    said = np.array([value for one in drawn for value in one.logp])
    asked = np.concatenate([one.asked for one in read])
    if np.isnan(asked).any():
        raise nan_logits(name)
    if np.isneginf(asked).any():
        raise UserError(f"{name}: drew a token that the sampling settings leave out; leave model.sampler out")
    gaps = said - asked
    bias, se = abs(gaps.mean()), gaps.std() / np.sqrt(len(gaps))
    if not (np.abs(gaps).mean() <= MEAN_NAT[dtype] and bias <= BIAS_NAT + MEANT * se):
        raise UserError(
            f"{name}: samples another distribution than it was asked for (by {np.abs(gaps).mean():.2g} nat a token, as "
            "the model is read here); leave model.sampler out"
        )


@contextmanager
def _served(model: Any) -> Iterator[None]:
    """The model with an attention that the engine takes, and without the engine's own words about what it cannot do."""
    import logging

    log, kernel = logging.getLogger("ContinuousBatchingLogger"), model.config._attn_implementation
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        if kernel != "eager":
            model.set_attn_implementation("sdpa")
        yield
    finally:
        if model.config._attn_implementation != kernel:
            model.set_attn_implementation(kernel)
        log.setLevel(level)
