"""`doxascope validate`: all organisms, one after the other."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ...hooks.lm import load
from ..planted.organisms import ORGANISMS, organism_folder
from .beliefs import USUAL, Effort
from .recover import Organism, recover


def validate(
    names: Sequence[str] = (),
    effort: Effort = USUAL,
    *,
    folder: Path | None = None,
    device: str = "cpu",
    backend: str | None = None,
    advance: Callable[[int], object] = lambda n: None,
) -> list[Organism]:
    """Read organisms, and lay what is found beside what was planted.

    Args:
        names: of the organisms; none: all.
        effort: how much is read.
        folder: of organisms that were trained anew; None: the shipped ones.
        device: on which they run.
        backend: that reads them.
        advance: is told of each that is done.

    Raises UserError for a name that is none, and for an organism whose files are damaged.
    """
    places = {name: organism_folder(name, folder) for name in names or [one.name for one in ORGANISMS]}
    found = []
    for one in ORGANISMS:
        if one.name in places:
            with load(places[one.name], device=device, backend=backend) as lm:
                found.append(recover(lm, one, effort))
            advance(1)
    return found
