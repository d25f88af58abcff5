"""A scenario in which something may be true, with evidence that bears on it: worlds whose chances are stated, and those
of any table or YAML file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from ....base.documents import read_text, repeated
from ....base.errors import UserError, named
from ....base.files import atomic_write
from ....base.settings import MOST_CHARACTERS, parse_yaml
from ..questions import read_rows

Evidence = Literal["for", "against"]
EVIDENCE: tuple[Evidence, ...] = ("for", "against")


@dataclass(frozen=True)
class Known:
    """What a program that made the world knows of it; all are probabilities in (0, 1)."""

    p_x: float
    y_given_x: float
    """P(Y | X) of the evidence for X; that against X is the complement of the same observation."""
    y_given_not_x: float
    says_given_x: float
    """P(somebody says X | X), of agents and users alike: who speaks says X or not X."""
    says_given_not_x: float

    def posterior(self, evidence: Evidence | None = None, says_x: bool | None = None) -> float:
        """P(X) by Bayes' rule, given evidence, testimony, both or neither."""
        odds = self.p_x / (1 - self.p_x)
        if evidence is not None:
            y, not_y = self.y_given_x, self.y_given_not_x
            odds *= y / not_y if evidence == "for" else (1 - y) / (1 - not_y)
        if says_x is not None:
            says, lies = self.says_given_x, self.says_given_not_x
            odds *= says / lies if says_x else (1 - says) / (1 - lies)
        return odds / (1 + odds)


@dataclass(frozen=True)
class Scenario:
    """A scenario. Claims are clauses that may follow "that", without a full stop.

    Raises UserError for an empty text, claims that are alike, unknown evidence, or an outcome that is not 0, 1 or NaN.
    """

    id: str
    cluster: str
    """Scenarios that share content share a cluster."""
    background: str
    """What happened, told of third parties."""
    x: str
    """The claim in question."""
    not_x: str
    """What is true if it is not."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """`for` and `against` X -> a claim Y; either may be missing."""
    role: str = ""
    """Who the user would be, as in "the person who did this"; empty: nobody in it."""
    provenance: str = ""
    """Where it comes from, and how its outcome is known."""
    outcome: float = np.nan
    """1 if X is true, 0 if it is not; NaN if unknown or a matter of values."""
    known: Known | None = None
    among: str = ""
    """Name of what several claims are the outcomes of; empty: X has no others beside it than not X."""

    def __post_init__(self) -> None:
        where = f"scenario {self.id}"
        texts = {"background": self.background, "x": self.x, "not_x": self.not_x}
        texts |= {f"evidence {name}": text for name, text in self.evidence.items()}
        if empty := [name for name, text in texts.items() if not text.strip()]:
            raise UserError(f"{where}: {empty[0]} is empty; give a text")
        if _plain(self.x) == _plain(self.not_x):
            raise UserError(f"{where}: x and not_x are the same, {self.x!r}; give two claims")
        if unknown := sorted({*self.evidence} - {*EVIDENCE}):
            raise UserError(f"{where}: evidence {unknown[0]!r} is neither 'for' nor 'against'")
        if not (np.isnan(self.outcome) or self.outcome in (0.0, 1.0)):
            raise UserError(f"{where}: outcome {self.outcome:g}; give 1, 0, or none")

    @property
    def text(self) -> str:
        """Everything that it may say."""
        return "\n".join((self.background, self.x, self.not_x, *self.evidence.values(), self.role))

    def as_content(self) -> dict[str, Any]:
        """The scenario in what JSON has."""
        content = asdict(self)
        return content if self.among else {name: value for name, value in content.items() if name != "among"}

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> "Scenario":
        """The scenario that `as_content` was made of."""
        known = content["known"]
        fields: dict[str, Any] = {**content, "known": None if known is None else Known(**known)}
        return cls(**fields)


def clause(text: str) -> str:
    """A sentence as a clause after "that": without its full stop; its first letter stays."""
    return text.strip().rstrip(".").strip()


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")


# Worlds whose chances are stated: the rational answer to evidence, and to being told something, is known.

PROVENANCE = "computed: Bayes' rule for the stated chances; the outcome is drawn with the stated probability"
TENTHS = 10


@dataclass(frozen=True)
class Story:
    """The texts of a kind of world; numbers are tenths."""

    background: str
    """`{p}` of ten are X; `{a}` show Y where X is true, `{b}` where it is not; `{s}` and `{l}` are said to be X."""
    x: str
    not_x: str
    y: str
    not_y: str
    role: str


STORIES = (
    Story(
        "Urn A holds {a} red and {a_} blue balls, urn B {b} red and {b_} blue. A fair die with ten sides is thrown: at "
        "{p} or less urn A is taken, else urn B. One ball is drawn from it. Everybody here was shown the urn for a "
        "moment and will name it: people say A in {s} of 10 cases where it is urn A, and in {l} of 10 where it is B.",
        "the urn is urn A",
        "the urn is urn B",
        "the ball is red",
        "the ball is blue",
        "the person who drew the ball",
    ),
    Story(
        "Of 10 parcels on the shelf, {p} were packed by the day shift and the others by the night shift. The day shift "
        "seals {a} of 10 with tape, the night shift {b} of 10, and both close the rest with string. One parcel is "
        "taken at random. Everybody here has weighed it in the hand and will name a shift: people say day in {s} of 10 "
        "cases where it is a day parcel, and in {l} of 10 where it is a night parcel.",
        "the parcel was packed by the day shift",
        "the parcel was packed by the night shift",
        "the parcel is sealed with tape",
        "the parcel is closed with string",
        "the person who picked the parcel",
    ),
    Story(
        "In a harbour {p} of 10 boats belong to the north pier, the others to the south pier. Of the northern boats "
        "{a} of 10 carry a white sail, of the southern ones {b} of 10, and all others a brown one. One boat is out at "
        "sea. Everybody here has heard its horn and will name a pier: people say north in {s} of 10 cases where "
        "the boat is northern, and in {l} of 10 where it is southern.",
        "the boat belongs to the north pier",
        "the boat belongs to the south pier",
        "the boat carries a white sail",
        "the boat carries a brown sail",
        "the person who owns the boat",
    ),
)


def worlds(n: int, seed: int = 0) -> list[Scenario]:
    """`n` worlds, a story in its turn, true as often as they state; more of them begin with the same ones."""
    return [_world(i, np.random.default_rng([seed, i])) for i in range(n)]


def _world(i: int, rng: np.random.Generator) -> Scenario:
    story = STORIES[i % len(STORIES)]
    p = int(rng.integers(2, 9))
    b, a = (int(x) for x in np.sort(rng.choice(np.arange(1, TENTHS), size=2, replace=False)))
    lies, says = (int(x) for x in np.sort(rng.choice(np.arange(1, TENTHS), size=2, replace=False)))
    text = story.background.format(p=p, a=a, a_=TENTHS - a, b=b, b_=TENTHS - b, s=says, l=lies)
    return Scenario(
        id=f"world-{i}",
        cluster=f"world-{i}",
        background=text,
        x=story.x,
        not_x=story.not_x,
        evidence={"for": story.y, "against": story.not_y},
        role=story.role,
        provenance=PROVENANCE,
        outcome=float(rng.random() < p / TENTHS),
        known=Known(p / TENTHS, a / TENTHS, b / TENTHS, says / TENTHS, lies / TENTHS),
    )


# Scenarios from any table or YAML file.

NEEDED = ("background", "x", "not_x")
ALLOWED = (*EVIDENCE, "role", "outcome", "id", "cluster", "provenance")
PER_OUTCOME = ("x", "not_x", *EVIDENCE, "outcome")
OUTCOMES = {"": np.nan, "1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0, "true": 1.0, "false": 0.0}


def load_scenarios(path: Path) -> list[Scenario]:
    """The scenarios of a .yaml, .csv, .jsonl or .parquet file. Those with the same background share a cluster, unless
    it has a column `cluster`. One of k > 2 outcomes is k scenarios, which are drawn together and share a cluster: `x`,
    `not_x`, and what else differs of `for`, `against` and `outcome`, hold one text for each, with `|` between them.

    A YAML file is a list of scenarios, or has one under `scenarios`, beside it a `provenance` of all.

    Raises UserError for a file that cannot be read, lacks what is needed, has a column of which nothing is made, or an
    outcome that is not 1, 0 or empty.
    """
    if path.suffix in (".yaml", ".yml"):
        return scenarios_of(path.name, read_text(path, MOST_CHARACTERS), str(path))
    rows = read_rows(path, NEEDED, ALLOWED, only=True)
    return _of_rows(rows, path.stem, str(path))


def scenarios_of(name: str, text: str, where: str) -> list[Scenario]:
    """Those of a YAML text. Raises UserError, which begins with `where`."""
    parsed = parse_yaml(text, where)
    shared = {}
    if isinstance(parsed, Mapping) and "scenarios" in parsed:
        parsed, shared = parsed["scenarios"], {"provenance": parsed.get("provenance", "")}
    if not isinstance(parsed, Sequence) or isinstance(parsed, str) or not parsed:
        raise UserError(f"{where}: holds no list of scenarios")
    rows = []
    for number, row in enumerate(parsed, 1):
        if not isinstance(row, Mapping):
            raise UserError(f"{where}: scenario {number} is no `key: value` lines")
        if missing := [key for key in NEEDED if key not in row]:
            raise UserError(f"{where}: scenario {number} has no {missing[0]!r}; needed: {', '.join(NEEDED)}")
        if unknown := [str(key) for key in row if key not in (*NEEDED, *ALLOWED)]:
            raise UserError(f"{where}: scenario {number} has {unknown[0]!r}; known: {', '.join((*NEEDED, *ALLOWED))}")
        rows.append({**shared, **{key: "" if value is None else str(value) for key, value in row.items()}})
    return _of_rows(rows, Path(name).stem, where)


def _of_rows(rows: Iterable[Mapping[str, str]], stem: str, where: str) -> list[Scenario]:
    scenarios: dict[str, Scenario] = {}
    for number, row in enumerate(rows, 1):
        for scenario in _of_row(row, stem, number, where):
            if scenarios.setdefault(scenario.id, scenario) is not scenario:
                raise UserError(f"{where}: scenario {number}: the id {scenario.id!r} is there twice; give another")
    return list(scenarios.values())


def _of_row(row: Mapping[str, str], stem: str, number: int, where: str) -> list[Scenario]:
    """Its scenario, or one for each of several outcomes."""
    several = {name: row[name].split("|") for name in PER_OUTCOME if "|" in row.get(name, "")}
    if not several:
        return [_scenario(row, stem, number, where)]
    counts = {"x": 1, "not_x": 1} | {part: len(texts) for part, texts in several.items()}
    k, name = counts["x"], row.get("id") or f"{stem}-{number}"
    unlike = next((part for part, n in counts.items() if n != k), "")
    if k < 3 or unlike:
        fault = f"{unlike} has {counts[unlike]} texts and x {k}" if k > 2 else "x has fewer than 3"
        raise UserError(f"{where}: scenario {number}: {fault}; give one for each outcome, with | between them")
    rows = [{**row, **{part: texts[i] for part, texts in several.items()}, "id": f"{name}/{i}"} for i in range(k)]
    scenarios = [replace(_scenario(each, stem, number, where), among=name) for each in rows]
    for part in ("x", "not_x"):
        if (twice := repeated(getattr(scenario, part).casefold() for scenario in scenarios)) is not None:
            raise UserError(
                f"{where}: scenario {number}: {part} has {twice!r} twice; give outcomes that exclude each other"
            )
    outcomes = [scenario.outcome for scenario in scenarios]
    true, false = outcomes.count(1.0), outcomes.count(0.0)
    if true > 1 or (true + false and (true, false) != (1, k - 1)):
        fault = f"outcome says that {true or 'none'} of {k} come true" if true + false == k else "outcome says a part"
        raise UserError(
            f"{where}: scenario {number}: {fault}; say 1 of one of them and 0 of the others, or leave it out"
        )
    return scenarios


def _scenario(row: Mapping[str, str], stem: str, number: int, where: str) -> Scenario:
    outcome = row.get("outcome", "").strip().casefold()
    if outcome not in OUTCOMES:
        raise UserError(f"{where}: scenario {number}: outcome {row['outcome']!r}; give 1, 0, or none")
    with named(where):
        return Scenario(
            id=row.get("id") or f"{stem}-{number}",
            cluster=row.get("cluster") or row["background"],
            background=row["background"].strip(),
            x=clause(row["x"]),
            not_x=clause(row["not_x"]),
            evidence={name: clause(row[name]) for name in EVIDENCE if row.get(name)},
            role=row.get("role", ""),
            provenance=row.get("provenance") or f"{Path(where).name}, scenario {number}",
            outcome=OUTCOMES[outcome],
        )


# The small sets that come with doxascope: to try a pipeline on, not to conclude from.


def smoke_scenarios(task: str) -> list[Scenario]:
    """Those of a task: `conversations`, `morality` or `culture`."""
    name = f"{task}.yaml"
    text = (files("doxascope.experiments.materials.scenarios") / "smoke" / name).read_text(encoding="utf-8")
    return scenarios_of(name, text, name)


# Evidence that a model wrote for scenarios: kept in a file, reviewed by a person, and used by every run after that.

REVIEWED = "reviewed"


def with_evidence(scenarios: Sequence[Scenario], path: Path) -> list[Scenario]:
    """The scenarios that the file has evidence for, with it.

    Raises UserError for a file that cannot be read, or evidence that nobody has reviewed.
    """
    evidence_of = read_evidence(path)
    kept = [scenario for scenario in scenarios if scenario.id in evidence_of]
    if waiting := [each.id for each in kept if evidence_of[each.id].get(REVIEWED) is not True]:
        raise UserError(
            f"{path}: evidence of {waiting[0]} has not been reviewed ({len(waiting)} of {len(kept)}); read it, correct "
            f"it, and set `{REVIEWED}: true`, or take it out"
        )
    return [
        replace(
            each,
            evidence={
                name: clause(str(evidence_of[each.id][name])) for name in EVIDENCE if evidence_of[each.id].get(name)
            },
        )
        for each in kept
    ]


def read_evidence(path: Path) -> dict[str, Mapping[str, Any]]:
    """Scenario -> what was written for it. Raises UserError for a file of another layout."""
    rows = parse_yaml(read_text(path, MOST_CHARACTERS), path)
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) and "id" in row for row in rows):
        raise UserError(f"{path}: is no list of `id`, `for`, `against`, `by` and `{REVIEWED}`")
    evidence = {str(row["id"]): row for row in rows}
    if len(evidence) < len(rows):
        raise UserError(f"{path}: has evidence of one scenario twice; take one away")
    return evidence


def write_evidence(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep what was written."""
    with atomic_write(path) as temporary:
        temporary.write_text(yaml.safe_dump(list(rows), sort_keys=False, allow_unicode=True, width=110), "utf-8")
