"""How a token is drawn: from which distribution, and by which random numbers."""

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from ...base.settings import Settings
from ..model.blocks import upload

if TYPE_CHECKING:
    import torch


class Sampling(Settings):
    """The sampling distribution of an answer. The default is the model's own, which exact read-outs are about.

    >>> Sampling().faithful, Sampling(temperature=0).faithful
    (True, False)
    """

    temperature: float = Field(default=1.0, ge=0)
    """0 is greedy."""
    top_k: int = Field(default=0, ge=0)
    """Draw among the k likeliest tokens; 0 is no limit. (A limit of 50 can hide a tenth of the mass.)"""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Draw among the likeliest tokens that together hold this much; 1 is no limit."""
    max_new_tokens: int = Field(default=100, ge=1)
    stop: tuple[str, ...] = ()
    """Texts that end an answer, besides the end of the turn."""

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if "" in stop:
            raise ValueError("a stop text is empty; take it out")
        return stop

    @property
    def faithful(self) -> bool:
        """Whether tokens are drawn from the model's own distribution."""
        return self.temperature == 1 and self.top_k == 0 and self.top_p == 1

    def probabilities(self, logp: "torch.Tensor") -> "torch.Tensor":
        """[F, vocabulary] log-probabilities of the model -> probabilities to draw from."""
        import torch

        if self.temperature == 0:
            return torch.nn.functional.one_hot(logp.argmax(dim=1), logp.shape[1]).to(logp.dtype)
        p = (logp if self.temperature == 1 else logp / self.temperature).softmax(dim=1)
        if self.top_k:
            p = p * (p >= p.topk(min(self.top_k, p.shape[1]), dim=1).values[:, -1:])
        if self.top_p < 1:
            p = p / p.sum(dim=1, keepdim=True)
            ranked, order = p.sort(dim=1, descending=True, stable=True)
            beyond = ranked.cumsum(dim=1) - ranked >= self.top_p
            p = p.masked_fill(beyond.scatter(1, order, beyond), 0)
        return p


def random_generator(seed: int, readout_id: str, draw: int) -> np.random.Generator:
    """The random numbers of one sequence, and of no other.

    Philox with a hashed 128-bit key: a torch generator keeps 32 bits of its seed, so that among the 5,000 draws
    of each of 1,000 contexts thousands would share their numbers.
    """
    digest = hashlib.sha256(f"{seed}\0{readout_id}\0{draw}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


def numbers_per_token(vocabulary: int) -> int:
    """How many uniform numbers `draw_tokens` takes for a token."""
    return (vocabulary - 1).bit_length()


def draw_tokens(p: "torch.Tensor", rows: "torch.Tensor", uniform: NDArray[np.float64]) -> "torch.Tensor":
    """Draw a token for each of B sequences by halving the vocabulary until one token is left.

    A plain inverse CDF moves *every* boundary when rounding moves the mass of one early token. Here each halving has a
    number and a boundary of its own: if log-probabilities move by no more than e nat, each of the halvings goes
    another way with probability at most e/2.

    Args:
        p: [F, vocabulary] weights, not necessarily normalised.
        rows: [B] which distribution each sequence draws from.
        uniform: [B, numbers_per_token(vocabulary)] in [0, 1).

    Returns: [B] token ids.
    """
    import torch

    halvings = uniform.shape[1]
    padded = torch.nn.functional.pad(p, (0, 2**halvings - p.shape[1]))
    if p.device.type == "cpu":  # numpy takes many small steps in less than half the time
        return torch.from_numpy(halve(padded.numpy(), rows.numpy(), uniform))
    return halve(padded, rows, upload(uniform, p.device))


def halve(mass: Any, rows: Any, uniform: Any) -> Any:
    """What `draw_tokens` gives, of weights of a power of two of tokens: arrays, or tensors of one device."""
    pairs, wide = [], uniform.dtype
    for _ in range(uniform.shape[1]):
        pairs.append(mass.reshape(len(mass), 2, -1))  # [F, 2, what is left]: tokens alike in their last bits are one
        mass = pairs[-1][:, 0] + pairs[-1][:, 1]
    token = rows * 0
    for step, (number, pair) in enumerate(zip(uniform.T, reversed(pairs), strict=True)):
        both = pair[rows, :, token]
        left, right = (both.astype(wide) if isinstance(both, np.ndarray) else both.to(wide)).T
        # A number below 1 never leads right where nothing is: its product with `left` alone is below `left`.
        token = token + (number * (left + right) >= left) * 2**step
    return token
