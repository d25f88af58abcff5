"""A card that was made: where its runs are, and what they say."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...hooks.documents import read_json
from ...hooks.errors import in_one_line
from ...hooks.settings import parse
from ...probes.card.claims import Card
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
        with in_one_line(f"{folder}: is no card that is whole", "make it with `doxascope card`"):
            if not (folder / CARD).is_file():
                raise FileNotFoundError(CARD)
            told = read_json(folder / CARD)
            if not (isinstance(told, dict) and all(isinstance(told.get(name), dict) for name in ("set", "runs"))):
                raise ValueError("its set or its runs are not there")
            chosen = parse(CardSet, told["set"], f"{folder / CARD}: set")
            own = {name: _inside(folder / "runs", run) for name, run in told["runs"].items()}
            probe = None if told["probe"] is None else _inside(folder / "probes", _named(told["probe"]))
            model, seed = told["model"], told["seed"]
            if not isinstance(model, str) or type(seed) is not int:
                raise ValueError("its model is no name, or its seed no whole number")
            if own.keys() != chosen.runs.keys():
                raise ValueError(f"its runs are {', '.join(own) or 'none'}, its set has {', '.join(chosen.runs)}")
            return cls(folder, chosen, model, seed, own, probe)

    @cached_property
    def within(self) -> dict[str, Comparison]:
        """Experiment -> its kinds of belief, or methods, compared on the same items; no pairs where it has but one."""
        return {name: compare([path], alone=True) for name, path in self.runs.items()}

    def floors(self, experiment: str) -> Mapping[tuple[str, ...], float]:
        """(metric, method, kind) -> how far arithmetic alone moves it; empty without a certificate of the model."""
        path = self.runs[experiment] / "floors.json"
        with in_one_line(path, "score the run again: `doxascope report`"):
            rows = read_json(path)["scores"] if path.is_file() else []
            whole = [one for one in rows if one["subset"] == ALL and one["floor"] is not None]
            return {(one["metric"], one["method"], one["kind"]): float(one["floor"]) for one in whole}

    @cached_property
    def probed(self) -> Mapping[str, Any]:
        """The report card of the probe; empty if there is none. Raises UserError for one that is damaged."""
        if self.probe is None:
            return {}
        with in_one_line(self.probe / CARD, "delete the folder of the probe, and give `doxascope card` again"):
            told = read_json(self.probe / CARD)
            if not all(isinstance(part, str) for claim in Card.of(told).claims for part in claim):
                raise ValueError("a claim is no text")
            return told


def registered(group: Group) -> list[Number]:
    """The number that an experiment was made for, of each kind and method."""
    return [one for one in group.numbers if one.metric == group.sides[0].headline]


def _named(probe: object) -> object:
    return probe.get("folder") if isinstance(probe, dict) else probe


def _inside(folder: Path, name: object) -> Path:
    """A folder in another. Raises ValueError if it is not there, or the name leads elsewhere."""
    path = folder / str(name)
    if not isinstance(name, str) or not name or Path(name).name != name or name == ".." or not path.is_dir():
        raise ValueError(f"{name!r} is no folder in {folder.name}")
    return path
