"""Texts that an engine draws, fast where many are wanted, with random numbers of its own; and whether they were
drawn from the distribution that was asked for.

An engine decides by itself what it computes together, so that its draws are not the same ones another time. What a
text is worth does not hang on that: its tokens are read again here, exactly and on the same weights, and what the
engine says of them has to agree, as has what it draws (`AsAsked`). An engine that samples another distribution than it
was asked for (by a temperature or a truncation that a checkpoint's settings bring, or by an attention that it serves
wrongly) is refused.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base.errors import UserError, in_one_line
from ..backends.backend import Backend
from ..exact.log_probs import UNEMBED_ROWS, nan_logits
from ..model.blocks import upload
from ..model.head import Head
from ..tree.memory import run_packs
from ..tree.token_tree import Pack, TokenTree
from .generated_texts import GeneratedText, Request, Sampler
from .sampling import Sampling, random_generator

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


Ids = tuple[int, ...]
Floats = NDArray[np.float64]

MEAN_NAT = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}
"""How far an engine's log-probabilities may be from ours, in the mean of the distances over all calls, and further by
`MEANT` times as much over the root of the tokens: one token's distance is no mean. It rounds logits of half precision,
those of bfloat16 to eighths."""
BIAS_NAT = 5e-3
"""How far their mean may be where anything can be drawn, beyond `MEANT` standard errors: rounding cancels out, a
temperature or a truncation does not. It estimates the Kullback-Leibler divergence of the engine's distribution from the
one that was asked for.
Errors of logits of SD s make that s^2 / 2 times the chance that two draws differ, and the variance of a distance s^2
times that chance, which the mean of 1 - p over drawn tokens estimates; s is .1, as far as bfloat16 goes. So tokens that
were all but sure give nothing free."""
MEANT = 4
SMALL = 0.05
TILTS = (-0.2, -SMALL, SMALL, 0.25)
"""Of distributions that the asked one is compared with, the exponent less 1: temperatures of 1.25, 1.05, .95, .8."""
FREE = 0.01
"""Of the variance of a token's log-probability (nats squared), the bias that is given free."""
FALSE_ALARM = 6e-5
"""Largest chance that a faithful engine is ever refused for what it drew by one sampling, in however many calls,
however few tokens and however rare the rarest: that of 4 standard errors of a normal number."""


class ReadText(NamedTuple):
    """The log-probabilities of a text's tokens."""

    logp: Floats
    """[tokens] under the model."""
    asked: Floats
    """[tokens] under the sampling distribution; -inf for one that it leaves out."""
    tilted: Floats
    """[`TILTS`, tokens] log of the sum over the vocabulary of asked ** (1 + tilt)."""


def read_texts(
    prompts: Sequence[Ids], texts: Sequence[Ids], sampling: Sampling, backend: Backend, head: Head, budget: int
) -> list[ReadText]:
    """Read every token of texts after their prompts, in one tree and passes of about `budget` tokens."""
    import torch

    tree = TokenTree()
    paths = [tree.add((*prompt, *ids))[len(prompt) :] for prompt, ids in zip(prompts, texts, strict=True)]
    nodes = np.unique(np.concatenate([np.array(path, dtype=np.int64) for path in paths]))
    above, tokens = np.array(tree.parents)[nodes], np.array(tree.tokens)[nodes]
    values = np.full((2 + len(TILTS), len(tree)), np.nan)

    def take(pack: Pack) -> int:
        output = backend.run(pack)
        for start in range(0, len(pack.nodes), UNEMBED_ROWS):
            here = pack.nodes[start : start + UNEMBED_ROWS]
            logp = head.log_probs(output.hidden[start : start + UNEMBED_ROWS], passing=True)
            row_of = np.full(len(tree), -1)
            row_of[here] = np.arange(len(here))
            children = np.flatnonzero(row_of[above] >= 0)
            at = tuple(upload(indices[children], logp.device) for indices in (row_of[above], tokens))
            asked = _asked(logp, sampling)
            tilted = [asked.mul(1 + tilt).logsumexp(dim=1)[at[0]] for tilt in TILTS]
            read = torch.stack([logp[at], asked[at], *tilted])
            values[:, nodes[children]] = read.double().cpu().numpy()
        return output.tokens_run

    run_packs(tree, np.unique(above).tolist(), budget, take, backend.cut)
    return [ReadText(values[0, path], values[1, path], values[2:, path]) for path in paths]


def _asked(logp: "torch.Tensor", sampling: Sampling) -> "torch.Tensor":
    """[F, vocabulary] log-probabilities of the model -> of the sampling distribution."""
    if sampling.faithful:
        return logp
    p = sampling.probabilities(logp)
    return (p / p.sum(dim=1, keepdim=True)).log()


@dataclass
class AsAsked:
    """Whether all that an engine has drawn by one sampling is what was asked for: each call adds to the same tests."""

    tokens: int = 0
    gap_sizes: float = 0.0
    """Sum of the distances between the engine's log-probabilities and ours."""
    gap: float = 0.0
    """Sum of the log-probabilities that the engine says, less ours."""
    gap_squares: float = 0.0
    unsure: float = 0.0
    """Sum of 1 - p."""
    ratios: Floats = field(default_factory=lambda: np.zeros(len(TILTS)))
    """[`TILTS`] `log_ratios` of all texts."""

    def check(self, name: str, said: Sequence[Sequence[float]], read: Sequence[ReadText], dtype: str) -> None:
        """Raise UserError where texts were drawn from another distribution than the one that was asked for.

        Args:
            name: of the engine.
            said: of each text, the log-probabilities of its tokens, as the engine says them.
            read: the texts as we read them.
            dtype: that the engine computes in.
        """
        asked = np.concatenate([text.asked for text in read])
        if np.isnan(asked).any():
            raise nan_logits(name)
        if np.isneginf(asked).any():
            raise UserError(f"{name}: drew a token that the sampling settings leave out; leave model.sampler out")
        gaps = np.concatenate([np.asarray(logps, dtype=np.float64) for logps in said]) - asked
        self.tokens += len(gaps)
        self.gap += float(gaps.sum())
        self.gap_squares += float((gaps**2).sum())
        self.unsure += float(-np.expm1(asked).sum())
        self.ratios = self.ratios + log_ratios(read)
        self.gap_sizes += float(np.abs(gaps).sum())
        size, most = self.gap_sizes / self.tokens, MEAN_NAT[dtype] * (1 + MEANT / np.sqrt(self.tokens))
        if not (size <= most and abs(self.gap / self.tokens) <= self._free()):
            raise UserError(
                f"{name}: samples another distribution than it was asked for (by {size:.2g} nat a token, as the model "
                "is read here); leave model.sampler out"
            )
        if not np.logaddexp.reduce(self.ratios) <= np.log(len(TILTS) / FALSE_ALARM):
            how = "likelier" if TILTS[int(self.ratios.argmax())] > 0 else "less likely"
            raise UserError(
                f"{name}: samples another distribution than it was asked for: its tokens are {how} than those that the "
                "asked one draws, whatever it says of them; leave model.sampler out"
            )

    def _free(self) -> float:
        """How far the mean distance may be. Of tokens that were sure the spread that was seen can be that of none."""
        n, unsure = self.tokens, BIAS_NAT * self.unsure / self.tokens
        spread = max(self.gap_squares / n - (self.gap / n) ** 2, 2 * unsure)
        return unsure + MEANT * float(np.sqrt(spread / n))


def log_ratios(read: Sequence[ReadText]) -> Floats:
    """[`TILTS`] log-likelihood ratios of the drawn tokens, tempered distributions over the asked one, in nats.

    The mean of the ratios themselves is at most 1 in expectation where tokens are drawn as asked, however many there
    are, and of one call after another it is a supermartingale, so that it ever exceeds 1/a with a chance of a at most
    (Ville). A z of the log-probabilities against the entropies
    has no more power, and no such bound: one token of a thousand-to-one chance is dozens of its standard errors. A bias
    of `BIAS_NAT` a token is given free, and of a token that was all but sure no more than `FREE` of its variance: else
    an answer of one word, after which all is sure, could be drawn at any temperature.
    """
    asked = np.concatenate([text.asked for text in read])
    tilted = np.concatenate([text.tilted for text in read], axis=1)
    # tilted is log E[p^tilt], a cumulant generating function at the tilt, whose second derivative at 0 is the variance
    # of log p: its second difference, since it is 0 at 0.
    variance = (tilted[TILTS.index(-SMALL)] + tilted[TILTS.index(SMALL)]) / SMALL**2
    free = np.clip(FREE * variance, 0, BIAS_NAT).sum()
    tilts = np.array(TILTS)
    return tilts * asked.sum() - tilted.sum(axis=1) - np.abs(tilts) * free


PAGE = 256
"""Tokens of a page of keys and values."""


class DrawnText(NamedTuple):
    """What an engine drew after a prompt."""

    ids: Ids
    """Up to the id that ended it, which is included."""
    logp: tuple[float, ...]
    """Natural log of the probability with which the engine says that it drew each."""


class ContinuousBatching:
    """The continuous batching of transformers, on the model that is loaded."""

    def __init__(self, model: "PreTrainedModel") -> None:
        self.model = model

    @property
    def name(self) -> str:
        """As runs record it: the library, its version, and what it computes with."""
        return f"continuous batching of transformers {version('transformers')}"

    def draw(
        self, prompts: Sequence[Ids], sampling: Sampling, *, ends: Sequence[int], seed: int, held: int, pack: int
    ) -> list[DrawnText]:
        """A text after each prompt; prompts may be alike. Stop texts are not its concern, and nothing is taken from the
        generation settings of the checkpoint.

        Args:
            sampling: the sampling distribution, which is not greedy.
            ends: the ids that end a text.
            held: most tokens whose keys and values it keeps.
            pack: most tokens of a forward pass.

        Raises UserError where it cannot serve the model.
        """
        import torch
        from transformers import GenerationConfig

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
        with in_one_line(self.name, "update transformers to 5.19 or newer, or leave model.sampler out"):
            from transformers.generation.configuration_utils import ContinuousBatchingConfig

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
            results = model.generate_batch([list(ids) for ids in prompts], wanted, how).values()
            failed = next((str(result.error) for result in results if result.error), None)
            if failed or len(results) < len(prompts):
                raise RuntimeError(failed or "it ended before all texts were drawn")
        return [DrawnText(tuple(result.generated_tokens), tuple(result.logprobs)) for result in results]


ENGINES = {"continuous_batching": ContinuousBatching}
"""By the name that `ModelSpec.sampler` gives them."""


@dataclass(frozen=True)
class EngineSampler:
    """Samples of an engine, read again by us."""

    engine: ContinuousBatching
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
        engine_seed = int(random_generator(seed, called, 0).integers(2**31))
        prompts = [request.prompt.ids for request, _ in draws]
        ends = sorted(self.sampler.end_ids)
        drawn = self.engine.draw(prompts, sampling, ends=ends, seed=engine_seed, held=held, pack=pack)
        read = read_texts(prompts, [text.ids for text in drawn], sampling, self.backend, self.head, pack)
        logps = [text.logp for text in drawn]
        seen = self.drawn.setdefault(sampling.model_dump_json(), AsAsked())
        seen.check(self.engine.name, logps, read, str(self.backend.model.dtype).removeprefix("torch."))
        return [
            self._cut(request.readout_id, draw, text.ids, logp.tolist(), sampling)
            for (request, draw), text, (logp, *_) in zip(draws, drawn, read, strict=True)
        ]

    def _cut(self, readout_id: str, draw: int, ids: Ids, logp: list[float], sampling: Sampling) -> GeneratedText:
        """The sample, up to the first token that ends it."""
        for n in range(1, len(ids) + 1):
            if sample := self.sampler.finished(readout_id, draw, ids[:n], logp[:n], sampling):
                return sample
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
