"""A card that was made: where its runs are, and what they say."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...hooks.errors import UserError
from ..comparing import Comparison, Group, compare
from ..scoring.number import Number
from ..tables.samples import ALL
from .settings import CardSet

CARD = "card.json"


@dataclass(frozen=True)
class ModelCard:
    """One model, by one set."""

    folder: Path
    chosen: CardSet
    model: str
    seed: int
    runs: Mapping[str, Path]
    """Experiment -> its run."""
    probe: Path | None
    """The folder of its probe job."""

    @classmethod
    def open(cls, folder: Path) -> "ModelCard":
        """The card of a folder. Raises UserError if there is none that is whole."""
        path = folder / CARD
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            own = {name: folder / "runs" / Path(run).name for name, run in told["runs"].items()}
            probe = told["probe"] and folder / "probes" / Path(told["probe"]["folder"]).name
            return cls(folder, CardSet.model_validate(told["set"]), told["model"], int(told["seed"]), own, probe)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            raise UserError(f"{folder}: is no card that is whole ({why}); make it with `doxascope card`") from None

    @cached_property
    def within(self) -> dict[str, Comparison]:
        """Experiment -> its kinds of belief, or methods, compared on the same items."""
        return {name: compare([path]) for name, path in self.runs.items()}

    def floors(self, experiment: str) -> Mapping[tuple[str, ...], float]:
        """(metric, method, kind) -> how far arithmetic alone moves it; empty without a certificate of the model."""
        path = self.runs[experiment] / "floors.json"
        rows = json.loads(path.read_text(encoding="utf-8"))["scores"] if path.is_file() else []
        return {(one["metric"], one["method"], one["kind"]): one["floor"] for one in rows if one["subset"] == ALL}

    @cached_property
    def probed(self) -> Mapping[str, Any]:
        """The report card of the probe; empty if there is none."""
        return json.loads((self.probe / "card.json").read_text(encoding="utf-8")) if self.probe else {}


def registered(group: Group) -> list[Number]:
    """The number that an experiment was made for, of each kind and method."""
    return [one for one in group.numbers if one.metric == group.sides[0].headline]
