"""External evidence: the next piece is given, not generated. Nothing is sampled, so there is one trajectory."""

from collections.abc import Callable, Sequence

from ....hooks.prompts.chat import Conversation
from .trajectory import Trajectory, status


def evidence_trajectory(
    name: str, evidence: Sequence[str], seen: Callable[[Sequence[str]], Conversation]
) -> Trajectory:
    """The trajectory of some evidence.

    Args:
        name: of the trajectory.
        evidence: piece by piece.
        seen: pieces so far -> the conversation that shows them.
    """
    return Trajectory(
        name=name,
        draw=0,
        contexts=tuple(seen(evidence[:k]) for k in range(len(evidence) + 1)),
        steps=tuple(evidence),
        status=status(evidence, whole=True),
        asked=seen(()),
    )
