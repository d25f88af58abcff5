"""Texts that an engine draws: fast where many are wanted, with random numbers of its own.

An engine decides by itself what it computes together, so that its draws are not the same ones another time. What a
text is worth does not hang on that: its tokens are read again here, exactly and on the same weights, and what the
engine says of them has to agree, as has what it draws (`as_asked`). An engine that samples another distribution than it
was asked for (by a temperature or a truncation that a checkpoint's settings bring, or by an attention that it serves
wrongly) is refused.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..backends.backend import Backend
from ..errors import UserError, in_one_line
from ..model.head import Head
from .as_asked import AsAsked, Ids, read_texts
from .generation import GeneratedText, Request, Sampler
from .sampling import Sampling, random_generator

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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
    drawn: dict[str, AsAsked] = field(default_factory=dict, init=False)
    """By the sampling that was asked for, what all calls have shown of the engine."""

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
        said = [one.logp for one in drawn]
        seen = self.drawn.setdefault(sampling.model_dump_json(), AsAsked())
        seen.check(self.engine.name, said, read, str(self.backend.model.dtype).removeprefix("torch."))
        return [
            self._cut(request.readout_id, draw, one.ids, logp.tolist(), sampling)
            for (request, draw), one, (logp, *_) in zip(draws, drawn, read, strict=True)
        ]

    def _cut(self, readout_id: str, draw: int, ids: Ids, logp: list[float], sampling: Sampling) -> GeneratedText:
        """The sample, up to the first token that ends it."""
        for n in range(1, len(ids) + 1):
            if found := self.sampler.finished(readout_id, draw, ids[:n], logp[:n], sampling):
                return found
        raise UserError(f"{self.engine.name}: ended a text of {readout_id} by nothing that ends one")


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
