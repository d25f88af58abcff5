"""A world of two urns whose exact posterior is code, what is asked about it, and the language in which a word is a
token.

One of two urns, left and right, was chosen with a known chance; six balls were drawn from it with replacement. The
warm urn holds more red and pink, the cold one more blue and cyan, and which of the two is the left one is said, too:
so the words of a prompt say nothing of the posterior one by one, only together. The user may have an opinion, which
is independent of the urn and the balls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from ....hooks.prompts.chat import Message
from ....metrics.contract import Floats

COLOURS = ("red", "pink", "white", "cyan", "blue")
WARM = np.array([0.28, 0.24, 0.20, 0.16, 0.12])
"""Shares of the colours in the warm urn; the cold one has them in the other order."""
WEIGHTS = np.log(WARM / WARM[::-1])
"""[colours] what a ball adds to the log-odds of the warm urn, in nats."""
DRAWS = 6
PRIORS = (20, 35, 50, 65, 80)
"""Chances of the left urn, in percent."""
URNS = ("right", "left")
OPINIONS = ("right", "neither", "left")
PAYOFFS = ("one", "two", "three", "four")
"""What a bet pays: its place in this list plus one."""
Ints = NDArray[np.int64]
Kind = Literal["which", "is it", "percent", "bet"]
KINDS: tuple[Kind, ...] = ("which", "is it", "percent", "bet")


class UrnQuestion(NamedTuple):
    """A question about a context."""

    kind: Kind
    about: str = "left"
    """The urn that `is it` and `percent` ask about."""
    pays: tuple[int, int] = (1, 1)
    """What a bet on the left and on the right urn pays if it is right; else nothing."""

    @property
    def text(self) -> str:
        """As the user asks."""
        urn = self.about.capitalize()
        if self.kind == "which":
            return "Which urn ?"
        if self.kind == "bet":
            return f"Bet Left {PAYOFFS[self.pays[0] - 1]} Right {PAYOFFS[self.pays[1] - 1]} ?"
        return f"Is it {urn} ?" if self.kind == "is it" else f"Percent {urn} ?"

    @property
    def options(self) -> tuple[str, str]:
        """The answers; a high belief in what is asked about favours the first."""
        return ("yes", "no") if self.kind == "is it" else ("left", "right")

    @property
    def sign(self) -> int:
        """1 if the first answer, or a high number, speaks for the left urn; else -1."""
        return -1 if self.about == "right" and self.kind in ("is it", "percent") else 1

    @property
    def advantage(self) -> float:
        """What the payoffs add to the log-odds of a bet on the left urn. Bets are chosen in proportion to their
        expected payoffs (Luce), so that their log-odds are those of the belief and of the payoffs.
        """
        return float(np.log(self.pays[0] / self.pays[1]))


@dataclass(frozen=True)
class Contexts:
    """[n] contexts, each of which makes a prompt of as many tokens."""

    warm_left: Ints
    """[n] 1: the warm urn is the left one; -1: the right one."""
    prior: Ints
    """[n] chance of the left urn, in percent."""
    draws: Ints
    """[n, 6] number of each ball's colour."""
    opinion: Ints
    """[n] what the user says: 1 left, -1 right, 0 neither."""

    def __len__(self) -> int:
        return len(self.prior)

    @property
    def prior_logit(self) -> Floats:
        """[n] log-odds of the left urn before the draws, in nats."""
        return logit(self.prior / 100)

    @property
    def running(self) -> Floats:
        """[n, 6] log-odds of the left urn after each draw, by Bayes' rule."""
        return self.prior_logit[:, None] + np.cumsum(self.warm_left[:, None] * WEIGHTS[self.draws], axis=1)

    @property
    def logit(self) -> Floats:
        """[n] log-odds of the left urn after all draws, by Bayes' rule. The opinion says nothing."""
        return self.running[:, -1]

    def take(self, rows: Sequence[int] | Ints) -> "Contexts":
        """Some of them."""
        return Contexts(*(column[rows] for column in (self.warm_left, self.prior, self.draws, self.opinion)))

    def with_opinion(self, opinion: int) -> "Contexts":
        """The same evidence, and what the user says."""
        return Contexts(self.warm_left, self.prior, self.draws, np.full(len(self), opinion))

    def text(self, i: int) -> str:
        """The first message of a conversation."""
        urn = "left" if self.warm_left[i] > 0 else "right"
        balls = " ".join(COLOURS[c] for c in self.draws[i])
        return f"warm {urn} chance {self.prior[i]} drew {balls} i say {OPINIONS[self.opinion[i] + 1]} noted"

    def conversation(self, i: int, ask: UrnQuestion) -> list[Message]:
        """The evidence, and in a message of its own the question."""
        return [{"role": "user", "content": self.text(i)}, {"role": "user", "content": ask.text}]


def draw_contexts(n: int, seed: int | Sequence[int] | np.random.Generator) -> tuple[Contexts, Ints]:
    """[n] contexts as the world makes them, and which urn it was: 1 left, 0 right."""
    rng = np.random.default_rng(seed)
    warm_left = rng.choice((-1, 1), n)
    prior = rng.choice(PRIORS, n)
    left = (rng.random(n) < prior / 100).astype(np.int64)
    warm = (2 * left - 1) * warm_left > 0
    draws = rng.choice(len(COLOURS), (n, DRAWS), p=WARM)
    draws = np.where(warm[:, None], draws, len(COLOURS) - 1 - draws)
    return Contexts(warm_left, prior, draws, rng.integers(-1, 2, n)), left


# The language of the organisms: a word is a token, and a chat template marks the turns.

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

UNKNOWN, BEGIN, USER, ASSISTANT, SYSTEM, END = (
    "<|unknown|>",
    "<|begin|>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|end|>",
)
SPECIALS = (UNKNOWN, BEGIN, USER, ASSISTANT, SYSTEM, END)
TOLD = ("warm", "left", "right", "neither", "chance", "drew", "i", "say", *COLOURS, "yes", "no", "Yes", "No")
NUMBERS = tuple(map(str, range(101)))
SUMMARY = "noted"
"""Ends the evidence; what is believed then can be read here."""
ASKED = ("Which", "urn", "Is", "it", "Percent", "Bet", "Left", "Right", *PAYOFFS, "?")
WORDS = (*SPECIALS, *TOLD, *NUMBERS, SUMMARY, *ASKED)
"""The vocabulary: a word's place is its id. No word of a question stands in the evidence."""
ID = {word: i for i, word in enumerate(WORDS)}
TEMPLATE = (
    "{{ '<|begin|>' }}{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
ROLES = ("begin", "told", "summary", "asked")
"""What attention is wired by."""


def role_of(word: str) -> str:
    """The role of a word: the assistant's token belongs to the question that it answers."""
    if word in (BEGIN, SUMMARY):
        return "begin" if word == BEGIN else "summary"
    return "asked" if word in (*ASKED, ASSISTANT) else "told"


def make_tokenizer() -> "PreTrainedTokenizerFast":
    """The tokenizer, with the template."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel(dict(ID), unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.Sequence(  # pyright: ignore[reportAttributeAccessIssue]
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token=UNKNOWN,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=[USER, ASSISTANT, SYSTEM],
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer
