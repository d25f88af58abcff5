"""Settings of the truth experiment: which statements, and how they are put to the model."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from ...hooks.settings import Settings, check_placeholders
from ..experiment import RunConfig


class Statements(Settings):
    """Where the statements come from."""

    files: tuple[Path, ...] = ()
    """CSV files with the columns `statement,label`, as the geometry of truth publishes them; none: those that a program
    makes."""
    group: str | None = None
    """The column of the files that says what shares content, such as `city`."""


class Wording(Settings):
    """The conversation. The statement stands in a message of its own, before anything is asked about it."""

    system: str = ""
    state: str = "{statement}"
    acknowledge: str = "I see."
    """The model's turn before it is asked."""
    ask: str = "Is that statement true? Answer with yes or no."
    options: tuple[str, str] = ("Yes", "No")
    forms: tuple[str, ...] = ("{option}", "{Option}")

    def model_post_init(self, _: object) -> None:
        """Placeholders that nothing fills are a mistake."""
        check_placeholders("state", self.state, ("statement",))


class TruthConfig(RunConfig):
    """Configuration of `truth`; `items` facts are taken, in the order of the set, all statements of each."""

    reads_stated: ClassVar[bool] = True

    statements: Statements = Statements()
    wording: Wording = Wording()
    items: int = Field(ge=5)
