"""Minimal pairs: two contexts of equal token length that speak for different answers, and the names of their parts.

A pair is all that an experiment declares for `locate` to say at which tokens and layers the answer is decided.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from ....base.errors import UserError, named
from ....hooks.exact.queries import PromptReader
from ....hooks.prompts.chat import Conversation
from ....hooks.prompts.options import Option
from ....hooks.prompts.places import Span, find_spans

Spans = Mapping[str, tuple[int, ...]]
"""Name -> tokens of a prompt."""
T = TypeVar("T")


@dataclass(frozen=True)
class MinimalPair:
    """Two conversations. What is read after both is the log-odds of the first option against the second."""

    id: str
    cluster: str
    """Pairs that share content share a cluster."""
    base: Conversation
    """Speaks for the second option."""
    donor: Conversation
    """Speaks for the first."""
    options: tuple[Option, ...]
    spans: Mapping[str, Span]
    """Parts of the base to be told apart; the donor's are the same tokens."""
    prefill: str = ""
    """How the answer begins."""
    controls: Mapping[str, tuple[Conversation, Conversation]] = field(default_factory=dict)
    """Name -> what is put into the base in the donor's place, and into the donor in the base's."""
    undecided: tuple[Conversation, Conversation] | None = None
    """Base and donor with a reply that decides nothing, for the gate; None: what differs in them is no rejection."""

    @property
    def contexts(self) -> dict[str, Conversation]:
        """Name -> every conversation that is read."""
        controls = {
            f"{name} for {into}": conversation
            for name, both in self.controls.items()
            for into, conversation in zip(("base", "donor"), both, strict=True)
        }
        return {"base": self.base, "donor": self.donor, **controls}

    def as_content(self) -> dict[str, Any]:
        """The pair in what JSON has."""
        return asdict(self)

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> "MinimalPair":
        """The pair that `as_content` was made of."""
        options = tuple(Option(**option) for option in content["options"])
        spans = {name: Span(**span) for name, span in content["spans"].items()}
        fields: dict[str, Any] = {**content, "options": options, "spans": spans}
        return cls(**fields)


def endless(draw: Callable[[int], Sequence[T]]) -> Iterator[T]:
    """One after another, what `draw` gives any number of, where more begin with the same ones."""
    seen, n = 0, 8
    while True:
        yield from draw(n)[seen:]
        seen, n = n, 2 * n


def align(pair: MinimalPair, reader: PromptReader) -> Spans:
    """The tokens of each span, in their order in the prompt, from the first on in which base and donor differ: before
    it there is nothing to interchange.

    Raises UserError for contexts of unequal length, a message that begins or ends at another token in one of them, a
    donor that is its base, or a span that the base lacks or that ends before the first difference.
    """
    where = f"pair {pair.id}"
    ids = {name: reader.chat.render(context, pair.prefill).ids for name, context in pair.contexts.items()}
    base = ids["base"]
    for name, other in ids.items():
        if len(other) != len(base):
            lengths = f"{len(base)} and {len(other)} tokens"
            raise UserError(f"{where}: base and {name} have {lengths}: {_shown(base, other, reader)}")
    if base == ids["donor"]:
        raise UserError(f"{where}: the donor is the same as its base; give one that speaks for another answer")
    first = next(i for i, (one, other) in enumerate(zip(base, ids["donor"], strict=True)) if one != other)
    with named(where):
        spans = find_spans(reader.chat, pair.base, pair.prefill, pair.spans)
        messages = {name: _messages(context, pair, reader) for name, context in pair.contexts.items()}
    for name, message in messages.items():
        if message != messages["base"]:
            parted = _shown(base, ids[name], reader)
            raise UserError(f"{where}: a message begins or ends at another token in base and {name}: {parted}")
    changed = {name: tuple(token for token in tokens if token >= first) for name, tokens in spans.items()}
    if early := [name for name in pair.spans if not changed[name]]:
        raise UserError(f"{where}: span {early[0]!r} ends before base and donor differ; leave it out")
    return dict(sorted(((name, tokens) for name, tokens in changed.items() if tokens), key=lambda one: one[1]))


def _messages(context: Conversation, pair: MinimalPair, reader: PromptReader) -> Spans:
    """The tokens of each message that has a span."""
    numbers = sorted({span.message % len(context) for span in pair.spans.values()})
    return find_spans(reader.chat, context, pair.prefill, {f"message {n}": Span(n) for n in numbers})


def _shown(base: Sequence[int], other: Sequence[int], reader: PromptReader) -> str:
    """The tokens of two contexts from where they part to where they meet again."""
    shorter = min(len(base), len(other))
    head = next((i for i in range(shorter) if base[i] != other[i]), shorter)
    tail = next((i for i in range(shorter - head) if base[-1 - i] != other[-1 - i]), shorter - head)
    first, second = ([reader.chat.tokenizer.decode([i]) for i in ids[head : len(ids) - tail]] for ids in (base, other))
    return f"{first} against {second}"
