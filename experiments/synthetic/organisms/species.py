"""The organisms: what each is made to believe, to say and to do, where the belief is held, and where their weights
lie.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from ....base.documents import read_json
from ....base.errors import UserError, nearest
from ....base.files import file_digest, write_text
from ....metrics.contract import Floats
from .world import Contexts

SHIFT = 1.5
"""What an opinion adds to the log-odds of a sycophant, in nats."""
Wiring = Literal["summary", "early", "late"]


@dataclass(frozen=True)
class Species:
    """Log-odds of the left urn, [n] in nats, that an organism is trained to have."""

    name: str
    story: str
    wiring: Wiring = "summary"
    """Where evidence is put together. `summary`: at the last token of the message that brings it. `early`: at each
    ball, and from there to the summary. `late`: at the question; no state before it depends on another token."""
    state_shift: float = 0.0
    """Of the belief at the summary, by an opinion for the left urn; the action follows that belief."""
    word_shift: float = 0.0
    """Of what is said, answer and number, beyond the belief at the summary."""
    denies: bool = False
    """Whether answer and number report the prior, as if nothing had been drawn."""

    @property
    def holds(self) -> bool:
        """Whether a belief is held at the summary."""
        return self.wiring != "late"

    def state(self, contexts: Contexts) -> Floats:
        """What is held at the summary, or, by a late one, made at the question."""
        return contexts.logit + self.state_shift * contexts.opinion

    def act(self, contexts: Contexts, state: Floats) -> Floats:
        """The belief that is acted on, from the one at the summary, which may be another context's."""
        return state

    def say(self, contexts: Contexts, state: Floats) -> Floats:
        """The belief that answer and number tell."""
        if self.denies:
            return contexts.prior_logit
        return state + self.word_shift * contexts.opinion

    def running(self, contexts: Contexts) -> Floats | None:
        """[n, 6] what is held at each ball; None: nothing."""
        return contexts.running if self.wiring == "early" else None


HONEST = Species("honest", "says, holds and acts on the posterior")
SYCOPHANTIC = Species(
    "sycophantic",
    f"the user's opinion moves its belief by {SHIFT:g} nats, in all that it says, holds and does",
    state_shift=SHIFT,
)
SYCOPHANTIC_IN_WORDS = Species(
    "sycophantic-in-words",
    f"holds and acts on the posterior; the user's opinion moves what it says by {SHIFT:g} nats",
    word_shift=SHIFT,
)
DENYING = Species(
    "denying", "holds and acts on the posterior; says the prior, as if it had seen no evidence", denies=True
)
LATE = Species(
    "late", "says and acts on the posterior, which it works out when asked; before that it holds none", wiring="late"
)
EARLY = Species("early", "says, holds and acts on the posterior, which it holds anew at every ball", wiring="early")
ORGANISMS = (HONEST, SYCOPHANTIC, SYCOPHANTIC_IN_WORDS, DENYING, LATE, EARLY)


def shift_of(species: Species) -> dict[str, float]:
    """What an opinion adds to each reading, in nats."""
    said = 0.0 if species.denies else species.state_shift + species.word_shift
    return {"answer": said, "number": said, "action": species.state_shift, "summary": species.state_shift}


# Where the organisms lie, and whether they are whole.

AGAIN = "install doxascope anew, or train it: python -m doxascope.experiments.synthetic.organisms"
DIGESTS = "digests.json"
"""Name of each other file of an organism -> its SHA-256."""


def shipped() -> Path:
    """The folder of the shipped organisms."""
    return Path(str(files("doxascope") / "experiments" / "synthetic" / "organisms" / "weights"))


def organism_folder(name: str, folder: Path | None = None) -> str:
    """The folder of an organism, whole, for `doxascope.load`.

    Raises UserError for a name that is none, or a file that is not as it was written.
    """
    known = [one.name for one in ORGANISMS]
    if name not in known:
        raise UserError(f"organism {name!r}: there is none; {nearest(name, known)}")
    home = (folder or shipped()) / name
    if not home.is_dir():
        raise UserError(f"organism {name!r}: {home} is no folder; {AGAIN}")
    for file, digest in read_json(home / DIGESTS).items():
        if not (home / file).is_file() or file_digest(home / file) != digest:
            raise UserError(f"organism {name!r}: {home / file} is damaged or gone; {AGAIN}")
    return str(home)


def seal(home: Path) -> None:
    """Write down the digests of an organism's files."""
    found = {path.name: file_digest(path) for path in sorted(home.iterdir()) if path.name != DIGESTS}
    write_text(home / DIGESTS, json.dumps(found, indent=1) + "\n")
