"""The site rule: where the answer is read, a probe recovers the logits and shows nothing (PROBES 12)."""

from collections.abc import Iterable
from typing import Literal, Protocol

ReadingSite = Literal["before the question", "read-out", "unknown"]
"""`before the question`: at least one message before the one that asks for the answer. `read-out`: in the message that
asks, or after it. `unknown`: nothing tells."""
AT_THE_ANSWER = ("last", "before_answer", "thought")
BELIEF, READ_OUT, DECODED, NOTHING = "latent belief", "read-out", "decoded information", "nothing decodable"
TOO_FEW = "too few groups to say"


class NamedToken(Protocol):
    """A position as a capture plan has it."""

    @property
    def at(self) -> str:
        """Which token."""
        ...

    @property
    def message(self) -> int | None:
        """Of which message."""
        ...


def reading_site(place: NamedToken, n_messages: int) -> ReadingSite:
    """Where a position lies in a conversation whose last message asks for the answer.

    Args:
        place: the position.
        n_messages: of the conversation that is read, without the answer.
    """
    if place.at in AT_THE_ANSWER:
        return "read-out"
    if place.message is None or not -n_messages <= place.message < n_messages:
        return "unknown"
    number = place.message % n_messages
    inside = number if place.at != "before" else number - 1  # `before` ends where the message before it does
    return "before the question" if inside < n_messages - 1 else "read-out"


def name_of(site: ReadingSite, decodable: bool | None, needed: Iterable[bool]) -> str:
    """What the values of a probe may be called: never a belief at a read-out site, nothing where nothing is decoded,
    neither where that was not tested (`decodable` is None), and a latent belief only if all that the word claims is
    supported.
    """
    if site != "before the question":
        return READ_OUT
    if decodable is None:
        return TOO_FEW
    if not decodable:
        return NOTHING
    return BELIEF if all(needed) else DECODED
