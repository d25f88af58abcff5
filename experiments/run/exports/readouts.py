"""What is exported of a run: its read-outs, each with what was said and the belief that was read, and its numbers."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....base.errors import UserError
from ....base.settings import read_yaml
from ....metrics.beliefs import COLUMNS
from ...report.findings import Transcript
from ..folder import RunFolder
from ..galleries import in_words

SINGLE = (
    "Each sample is one read-out. Where a question is asked in several orders of its options, or in several wordings, "
    "the numbers of the run are of its belief averaged over them: the same mean over samples is another number."
)
"""How samples and numbers go together."""
BLANKS = {*COLUMNS} - {"option"}
"""Columns whose empty text says nothing."""
OF_OPTIONS = ("option", "option_index", "logp", "prob", "stated", "outcome")
"""Columns that differ between the options of a read-out."""

FIELDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("metric", "method", "kind", "subset", "quantity", "status", "ci_method", "code"), (str,)),
    **dict.fromkeys(("estimate", "ci_lo", "ci_hi", "se"), (int, float, type(None))),
    **dict.fromkeys(("n_rows", "n_clusters", "n_dropped"), (int,)),
    "params": (dict,),
}
"""What is exported of an entry of `scores.json`, and its types."""


@dataclass(frozen=True)
class ReadOut:
    """One distribution over options, and what was said before it."""

    readout_id: str
    item: str
    about: Mapping[str, Any]
    """The columns that its rows share, without the empty ones."""
    options: Sequence[Mapping[str, Any]]
    """The other columns of each option, in their order."""
    transcript: Transcript | None
    """None: what it is derived from was not asked for as text."""

    @property
    def texts(self) -> list[str]:
        """The options."""
        return [str(option["option"]) for option in self.options]

    @property
    def has_value(self) -> bool:
        """Whether it is a distribution, and no failure."""
        return len(self.options) > 1 and all("prob" in option for option in self.options)

    @property
    def answer(self) -> int | None:
        """The place of the likeliest option; None where there is none, or several."""
        shares = [option.get("prob", math.nan) for option in self.options]
        best = [i for i, share in enumerate(shares) if share == max(shares)] if self.has_value else []
        return best[0] if len(best) == 1 else None

    @property
    def reply(self) -> str:
        """The beginning of the answer, with the likeliest option behind it."""
        begun = "" if self.transcript is None else self.transcript["prefill"]
        said = "" if self.answer is None else self.texts[self.answer]
        apart = " " if said and (begun[-1:].isalnum() or begun.endswith(":")) else ""
        return f"{begun}{apart}{said}"

    @property
    def truth(self) -> int | None:
        """The place of the option that is known to be true; None where that is not known, or not of one of them."""
        outcomes = [option.get("outcome", math.nan) for option in self.options]
        right = [i for i, outcome in enumerate(outcomes) if outcome == 1]
        known = all(outcome in (0, 1) for outcome in outcomes)
        return right[0] if known and len(right) == 1 else None

    @property
    def in_words(self) -> str:
        """The distribution in a line."""
        shares = [option.get("prob", math.nan) for option in self.options]
        return in_words(self.texts, shares, self.about.get("coverage", math.nan), str(self.about["status"]))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Its rows in the belief table, without what is empty."""
        return [{**self.about, **option} for option in self.options]


@dataclass(frozen=True)
class Exported:
    """A run that is whole and scored."""

    folder: RunFolder
    config: Mapping[str, Any]
    conditions: Mapping[str, Any]
    scores: Mapping[str, Any]
    """The content of `scores.json`."""

    @classmethod
    def of(cls, folder: RunFolder) -> "Exported":
        """Raises UserError for one that is not whole, not scored, or not as it was written."""
        content = folder.written("scores.json")
        if folder.missing or content is None:
            raise UserError(f"{folder.path}: is not whole and scored; run it again, it goes on where it was")
        for name, digest in folder.manifest.get("session_files", {}).items():
            folder.verified(name, digest)
        scores = json.loads(content)
        for score in scores["scores"]:
            for name, types in FIELDS.items():
                value = score[name]
                if type(value) not in types or (isinstance(value, float) and not math.isfinite(value)):
                    raise ValueError(f"scores.json: {name} of {score['metric']} is {value!r}")
        return cls(folder, read_yaml(folder.config), folder.manifest["conditions"], scores)

    @property
    def experiment(self) -> str:
        """Its name, as one of a file."""
        return _as_name(str(self.scores["experiment"]))

    @property
    def model(self) -> str:
        """The name of its model."""
        return str(self.conditions["model"]["name"])

    @property
    def hub_name(self) -> str:
        """`organisation/name` on the Hub; of a model that is not there, or has an adapter, `local/name`."""
        spec = self.config["model"]
        given = str(spec.get("hub") or "")
        known = given.count("/") == 1 and all(part and part == _as_name(part) for part in given.split("/"))
        if known and not spec.get("path") and not spec.get("adapter"):
            return given
        return f"local/{_as_name(self.model)}"

    @property
    def when(self) -> tuple[str, str]:
        """When its reading began, and when it ended, in ISO 8601."""
        began = min(str(session["began"]) for session in self.folder.sessions)
        return began, max(
            [str(session["ended"]) for session in self.folder.sessions if session.get("ended")] or [began]
        )

    def numbers(self, whole: bool = False) -> Iterator[Mapping[str, Any]]:
        """The entries of `scores.json` that have an estimate; of the whole data alone if so asked."""
        for score in self.scores["scores"]:
            if score["estimate"] is not None and not (whole and score["subset"] != "all"):
                yield score

    @property
    def made_for(self) -> list[Mapping[str, Any]]:
        """The numbers that the run was made for: that which was registered, else those of the experiment's headline."""
        plan = (self.scores.get("lead") or {}).get("registered")
        wanted = {name: plan[name] for name in ("metric", "method", "kind")} if plan else {}
        wanted = wanted or {"metric": self.scores.get("headline")}
        return [one for one in self.numbers(whole=True) if all(one[name] == text for name, text in wanted.items())]

    @property
    def verdict(self) -> str:
        """What is said of the whole."""
        return str((self.scores.get("lead") or {}).get("verdict", ""))

    def readable(self, number: Mapping[str, Any]) -> str:
        """Whether the method of a number can be read as a belief, as its verdict says."""
        judged = (self.scores.get("lead") or {}).get("verdicts", ())
        own = (verdict for verdict in judged if all(verdict[name] == number[name] for name in ("method", "kind")))
        return str(next(own, {"readable": "not judged"})["readable"])

    def readouts(self) -> Iterator[ReadOut]:
        """All read-outs, in their order."""
        said = {line["readout_id"]: line for line in self.folder.said()}
        table = self.folder.beliefs()
        records = map(_filled, table.to_dict("records"))
        for readout_id, rows in groupby(records, key=itemgetter("readout_id")):
            options = list(rows)
            shared = {
                name: value
                for name, value in options[0].items()
                if name not in OF_OPTIONS and all(other.get(name) == value for other in options)
            }
            own = [{name: cell for name, cell in option.items() if name not in shared} for option in options]
            asked = said.get(readout_id) or said.get(shared.get("of", ""))
            yield ReadOut(readout_id, shared["item"], shared, own, asked)


def keep_foreign(ours: Callable[[Path], bool], path: Path, *beside: Path) -> None:
    """Raises UserError if a file is there and is not of an export, or if, where none is, one that lies beside it is."""
    if not (path.is_file() and ours(path)):
        for there in filter(Path.exists, (path, *beside)):
            raise UserError(f"{there}: is not of an export, and would be lost; choose another --out")


def _as_name(text: str) -> str:
    """A text as the name of a file or folder, which leads nowhere else."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text).strip(".")


def _filled(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The cells of a row that hold something, in types that JSON has: an empty text is one in a condition alone."""
    filled: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, tuple | list):
            filled[name] = list(value)
        elif not pd.isna(value) and (value != "" or name not in BLANKS):
            filled[name] = value.item() if isinstance(value, np.generic) else value
    return filled
