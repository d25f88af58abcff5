"""Were texts drawn from the distribution that was asked for? Every token is read again on the same weights.

An engine's own log-probabilities have to agree with ours, token by token. And what it drew has to be what the asked
distribution draws: an engine that says the log-probabilities that it was asked for, and draws by others, shows in
tokens that are too likely together (sharpened, as by a temperature below 1) or too unlikely (flattened).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..backends.backend import Backend
from ..errors import UserError
from ..exact.steps import UNEMBED_ROWS, nan_logits
from ..model.head import Head
from ..model.upload import upload
from ..tree.memory import run_packs
from ..tree.tree import Pack, TokenTree
from .sampling import Sampling

if TYPE_CHECKING:
    import torch

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
    """Read every token of texts after their prompts, in one tree and packs of at most `budget` tokens, or of a text."""
    import torch

    tree = TokenTree()
    paths = [tree.add((*prompt, *ids))[len(prompt) :] for prompt, ids in zip(prompts, texts, strict=True)]
    nodes = np.unique(np.concatenate([np.array(path, dtype=np.int64) for path in paths]))
    above, tokens = np.array(tree.parents)[nodes], np.array(tree.tokens)[nodes]
    found = np.full((2 + len(TILTS), len(tree)), np.nan)

    def take(one: Pack) -> int:
        output = backend.run(one)
        for start in range(0, len(one.nodes), UNEMBED_ROWS):
            here = one.nodes[start : start + UNEMBED_ROWS]
            logp = head.log_probs(output.hidden[start : start + UNEMBED_ROWS], passing=True)
            row_of = np.full(len(tree), -1)
            row_of[here] = np.arange(len(here))
            mine = np.flatnonzero(row_of[above] >= 0)
            at = tuple(upload(one[mine], logp.device) for one in (row_of[above], tokens))
            asked = _asked(logp, sampling)
            tilted = [asked.mul(1 + tilt).logsumexp(dim=1)[at[0]] for tilt in TILTS]
            values = torch.stack([logp[at], asked[at], *tilted])
            found[:, nodes[mine]] = values.double().cpu().numpy()
        return output.tokens_run

    run_packs(tree, np.unique(above).tolist(), max(budget, max(tree.depths) + 1), take)
    return [ReadText(found[0, path], found[1, path], found[2:, path]) for path in paths]


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
        asked = np.concatenate([one.asked for one in read])
        if np.isnan(asked).any():
            raise nan_logits(name)
        if np.isneginf(asked).any():
            raise UserError(f"{name}: drew a token that the sampling settings leave out; leave model.sampler out")
        gaps = np.concatenate([np.asarray(one, dtype=np.float64) for one in said]) - asked
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
    asked = np.concatenate([one.asked for one in read])
    tilted = np.concatenate([one.tilted for one in read], axis=1)
    variance = (tilted[TILTS.index(-SMALL)] + tilted[TILTS.index(SMALL)]) / SMALL**2
    free = np.clip(FREE * variance, 0, BIAS_NAT).sum()
    tilts = np.array(TILTS)
    return tilts * asked.sum() - tilted.sum(axis=1) - np.abs(tilts) * free
