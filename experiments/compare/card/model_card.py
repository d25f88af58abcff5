"""A card that was made, the set of experiments that it is made of, and one card against another: what is worse than
it was?
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field, PositiveInt

from ....base.documents import read_json
from ....base.errors import UserError, in_one_line
from ....base.files import unsealed
from ....base.settings import Settings, parse, read_yaml
from ....base.text import shown
from ....metrics import PairedDifference, paired_difference, paired_family
from ....metrics.beliefs import read_exactly
from ....metrics.consistency.competence import READABLE, RESPONDS
from ....metrics.contract import Resampling
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ....probes.report_card import Card
from ...run.folder import RunFolder
from ...run.joint_scores import short
from ...run.manifest import ITEMS, item_digests
from .. import Comparison, Group, Side, compare
from ..findings import ALPHA

Changes = dict[str, Any]
"""Key, as `-o` takes it -> value."""


class ProbeOf(Settings):
    """A probe on the activations of one of the runs."""

    run: str
    settings: Changes = Field(default_factory=dict)


class CardSet(Settings):
    """Experiments with their settings, fixed before a model is seen."""

    name: str
    version: PositiveInt
    runs: dict[str, Changes]
    probe: ProbeOf | None = None


def load_set(target: str) -> CardSet:
    """The set in a YAML file, or a shipped one by its name. Raises UserError for what is wrong in it."""
    shipped = Path(str(files("doxascope") / "configs" / "cards"))
    known = sorted(path.stem for path in shipped.glob("*.yaml"))
    path = shipped / f"{target}.yaml" if target in known else Path(target)
    if not path.is_file():
        raise UserError(f"--set {target}: is no set and no file; known: {', '.join(known)}")
    chosen = parse(CardSet, read_yaml(path) | {"name": path.stem}, str(path))
    if not chosen.runs:
        raise UserError(f"{path}: runs: is empty; name an experiment")
    if chosen.probe and chosen.probe.run not in chosen.runs:
        raise UserError(f"{path}: probe.run: {chosen.probe.run!r} is none of its runs ({', '.join(chosen.runs)})")
    return chosen


# A card that was made: where its runs are, and what they say.

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
            card = unsealed(read_json(folder / CARD))
            if not (all(isinstance(card.get(name), dict) for name in ("set", "runs"))):
                raise ValueError("its set or its runs are not there")
            chosen = parse(CardSet, card["set"], f"{folder / CARD}: set")
            runs = {name: _inside(folder / "runs", run) for name, run in card["runs"].items()}
            probe = None if card["probe"] is None else _inside(folder / "probes", _named(card["probe"]))
            model, seed = card["model"], card["seed"]
            if not isinstance(model, str) or type(seed) is not int:
                raise ValueError("its model is no name, or its seed no whole number")
            if runs.keys() != chosen.runs.keys():
                raise ValueError(f"its runs are {', '.join(runs) or 'none'}, its set has {', '.join(chosen.runs)}")
            return cls(folder, chosen, model, seed, runs, probe)

    @cached_property
    def within(self) -> dict[str, Comparison]:
        """Experiment -> its kinds of belief, or methods, compared on the same items; no pairs where it has but one."""
        return {name: compare(path, alone=True) for name, path in self.runs.items()}

    def floors(self, experiment: str) -> Mapping[tuple[str, ...], float]:
        """(metric, method, kind) -> how far arithmetic alone moves it; empty without a certificate of the model."""
        path = self.runs[experiment] / "floors.json"
        with in_one_line(path, "score the run again: `doxascope report`"):
            content = RunFolder(path.parent).written(path.name)
            rows = [] if content is None else json.loads(content)["scores"]
            whole = [row for row in rows if row["subset"] == ALL and row["floor"] is not None]
            return {(row["metric"], row["method"], row["kind"]): float(row["floor"]) for row in whole}

    @cached_property
    def probed(self) -> Mapping[str, Any]:
        """The report card of the probe; empty if there is none. Raises UserError for one that is damaged."""
        if self.probe is None:
            return {}
        with in_one_line(self.probe / CARD, "delete the folder of the probe, and give `doxascope card` again"):
            card = unsealed(read_json(self.probe / CARD))
            if not all(isinstance(part, str) for claim in Card.of(card).claims for part in claim):
                raise ValueError("a claim is no text")
            return card


def registered(group: Group) -> list[Number]:
    """The number that an experiment was made for, of each kind and method."""
    return [number for number in group.numbers if number.metric == group.sides[0].headline]


def _named(probe: object) -> object:
    return probe.get("folder") if isinstance(probe, dict) else probe


def _inside(folder: Path, name: object) -> Path:
    """A folder in another. Raises ValueError if it is not there, or the name leads elsewhere."""
    path = folder / str(name)
    if not isinstance(name, str) or not name or Path(name).name != name or name == ".." or not path.is_dir():
        raise ValueError(f"{name!r} is no folder in {folder.name}")
    return path


VALID = "valid-answer rate"
LEAST = 0.01
"""A smaller change of the valid-answer rate does not matter."""
FREE = frozenset({"settings.token_budget", "settings.batch_items", "settings.together", "settings.capture"})
"""Settings in which the runs of two cards may differ: how they were read, and what was kept."""


@dataclass(frozen=True)
class Tested:
    """A number of both cards, of the family that is tested."""

    experiment: str
    name: str
    score: PairedDifference
    """The other card's less this one's, adjusted over the family."""
    coherent: float
    """What the number is for a coherent agent."""
    least: float
    """The change that would matter."""
    note: str = ""
    """What is to be read with it."""

    @property
    def regressed(self) -> bool:
        """Whether this card lies further from coherence, by as much as matters, and that is no chance."""
        further = abs(self.score.second - self.coherent) - abs(self.score.first - self.coherent)
        return bool(self.score.p_adjusted < ALPHA and further > self.least)

    @property
    def unclear(self) -> bool:
        """Whether it may have moved away from coherence by twice as much as matters, unseen: the interval does not
        leave that out, or there is none. Without a margin nothing is twice as much.
        """
        score = self.score
        if self.regressed or score.difference == 0:
            return False
        if not score.p_adjusted >= 0 or not all(map(math.isfinite, (score.ci_lo, score.ci_hi))):
            return True
        ends = (abs(score.first - end - self.coherent) for end in (score.ci_lo, score.ci_hi))
        return bool(self.least and max(ends) - abs(score.first - self.coherent) > 2 * self.least)

    @property
    def told(self) -> str:
        """In a line."""
        was, now = shown(self.score.first), shown(self.score.second)
        p = f"{self.score.p_adjusted:.3g}" if self.score.p_adjusted >= 0 else f"not tested ({self.score.status})"
        note = f"; {self.note}" if self.note else ""
        numbers = f"{self.experiment}: {self.name} {was} before, {now} now"
        return f"{numbers} (coherent {self.coherent:g}; adjusted p {p}{note})"


@dataclass(frozen=True)
class Against:
    """What was tested, and what failed."""

    card: ModelCard
    other: ModelCard
    tested: list[Tested]
    gates: list[str]
    """That failed here and held there; registered numbers, and kinds of belief, that were measured there and could not
    be here."""
    comparison: Comparison | None
    """All else; None of a card against itself."""

    @property
    def regressions(self) -> list[str]:
        """In a line each."""
        return [*self.gates, *(test.told for test in self.tested if test.regressed)]

    @property
    def unclear(self) -> list[str]:
        """What may be worse by twice its margin without being seen, in a line each."""
        return [test.told for test in self.tested if test.unclear]

    @property
    def passed(self) -> str:
        """What is said if nothing regressed, with how much of it could be tested."""
        n = sum(test.score.p_adjusted >= 0 for test in self.tested)
        whole = n == len(self.tested) and (n or self.comparison is None)
        return "nothing is worse" if whole else f"nothing is worse of what could be tested, {n} of {len(self.tested)}"


def against(card: ModelCard, other: ModelCard) -> Against:
    """Compare a card with another of the same set, on the items of both.

    Tested over one family (Holm): the registered number of each experiment, where no gate strikes it out, and the mean
    valid-answer rate of its exact read-outs. Worse is what differs, and lies further from coherence by more than
    the registered margin, or .01 of the answers. So is a gate that held, and a registered number that was measured,
    where they do not and could not be any more. Raises UserError for cards of other sets or settings, or whose runs are
    of another model than they say, and as `compare` does.
    """
    require_same_set(other, card.chosen, card.seed)
    if card.folder.resolve() == other.folder.resolve():
        return Against(card, other, [], [], None)
    comparison = compare(*other.runs.values(), *card.runs.values())
    for group in comparison.groups:
        _require_own_runs(group, other, card)
    tests = list(_registered(comparison))
    untested = [*tests, *(_valid(group, len(tests) + len(comparison.groups)) for group in comparison.groups)]
    adjusted = paired_family({i: test.score for i, test in enumerate(untested)})
    tested = [replace(test, score=adjusted[i]) for i, test in enumerate(untested)]
    gates = [line for group in comparison.groups for line in (*_fallen(group), *_lost(group), *_vanished(group))]
    return Against(card, other, tested, gates, comparison)


def require_same_set(other: ModelCard, chosen: CardSet, seed: int) -> None:
    """Raise UserError for a card that was made by another set or seed."""
    if (other.chosen, other.seed) != (chosen, seed):
        theirs, ours = (
            f"{other.chosen.name} {other.chosen.version}, seed {other.seed}",
            f"{chosen.name} {chosen.version}",
        )
        raise UserError(
            f"{other.folder}: was made by another set or seed ({theirs}; not {ours}, seed {seed}); make it again"
        )


def _require_own_runs(group: Group, *cards: ModelCard) -> None:
    """Raise UserError for a run of another model than its card is of, or two runs by settings that are not the same."""
    for side, card in zip(_sides(group), cards, strict=True):
        if side.run and side.run.config.model.name != card.model:
            raise UserError(
                f"{side.path}: is a run of {side.run.config.model.name}, in a card of {card.model}; make the card again"
            )
    for name, (was, now) in group.differs:
        if name.startswith("settings.") and not any(f"{name}.".startswith(f"{free}.") for free in FREE):
            raise UserError(
                f"{cards[0].folder}: its run of {group.name} has {name.removeprefix('settings.')} {short(was)}, not "
                f"{short(now)}; make both cards with the same settings"
            )


def _registered(comparison: Comparison) -> Iterator[Tested]:
    """The one number that each experiment was made for."""
    for group in comparison.groups:
        (first, _) = _sides(group)
        plan = first.run.config.registered if first.run else None
        if plan is None:
            continue
        for record in comparison.confirmed:
            sample = record.pair.one
            named = (record.pair.metric, sample.method, sample.kind) == (plan.metric, plan.method, plan.kind)
            if named and any(sample is other for other in first.samples):
                name = f"{plan.metric} of {plan.method}"
                yield Tested(group.name, name, record.score, plan.coherent, plan.margin or 0)


def _sides(group: Group) -> tuple[Side, Side]:
    if len(group.sides) != 2:
        raise UserError(f"{group.name}: has {len(group.sides)} runs, not one of each card; make the other card again")
    first, second = group.sides
    return first, second


def _valid(group: Group, family_size: int) -> Tested:
    """The mean over items of the share of answers that are an option; a read-out that failed counts 0, and is told."""
    before, now = (_coverage(side) for side in _sides(group))
    both = before.add_suffix("_before").join(now.add_suffix("_now"), how="inner")
    how = _sides(group)[0].how or Resampling()
    columns = [both["coverage_before"].to_numpy()], [both["coverage_now"].to_numpy()]
    clusters = both["cluster_before"].to_numpy()
    score = paired_difference(*columns, np.mean, clusters, family_size=family_size, how=how)
    failed = [int(both[f"failed_{when}"].sum()) for when in ("before", "now")]
    note = f"{failed[0]} read-outs failed before, {failed[1]} now, and count 0" if any(failed) else ""
    return Tested(group.name, VALID, score, 1, LEAST, note)


def _coverage(side: Side) -> pd.DataFrame:
    exact = read_exactly(side.beliefs)
    exact = exact[exact["option_index"] == 0]
    known = item_digests(side.run.folder.recorded(ITEMS)) if side.run else {}
    exact = exact.assign(
        item=[f"{item} {known.get(str(item), '')}" for item in exact["item"]],
        failed=exact["coverage"].isna(),
        coverage=exact["coverage"].fillna(0.0),
    )
    return exact.groupby("item", sort=True).agg(
        coverage=("coverage", "mean"), failed=("failed", "sum"), cluster=("cluster", "first")
    )


def _fallen(group: Group) -> Iterator[str]:
    """What could be read, or responded, and does not now."""
    before, now = _sides(group)
    was = {(verdict.kind, verdict.method): verdict for verdict in before.verdicts if verdict.readable == READABLE}
    for verdict in now.verdicts:
        earlier = was.pop((verdict.kind, verdict.method), None)
        if earlier is not None and not verdict.passed:
            yield f"{group.name}: {verdict.called} could be read before, and now cannot: {verdict.reason}"
        if earlier is not None and earlier.responds == RESPONDS and verdict.unresponsive:
            yield f"{group.name}: {verdict.called} responded before, and now does not: {verdict.unresponsive}"
    for _, method in sorted(was):
        yield f"{group.name}: {method} could be read before, and now is not judged"


def _vanished(group: Group) -> Iterator[str]:
    """Kinds of belief that were measured and are not any more; those of a gate that held are told by that."""
    before, now = _sides(group)
    was, now_read = (
        {
            (number.kind, number.method)
            for number in group.numbers
            if number.run == side.label and math.isfinite(number.score.estimate)
        }
        for side in (before, now)
    )
    passing = {(verdict.kind, verdict.method) for verdict in before.verdicts if verdict.passed}
    for kind, method in sorted(was - now_read - passing):
        yield f"{group.name}: {kind} beliefs of {method} had numbers before, and now have none"


def _lost(group: Group) -> Iterator[str]:
    """The registered number, where it was measured and could not be now."""
    before, now = _sides(group)
    plan = before.run.config.registered if before.run else None
    numbers = {
        number.run: number.score
        for number in group.numbers
        if plan
        and (number.metric, number.method, number.kind, number.subset) == (plan.metric, plan.method, plan.kind, ALL)
    }
    was, is_now = (numbers.get(side.label) for side in (before, now))
    if plan and was and math.isfinite(was.estimate) and not (is_now and math.isfinite(is_now.estimate)):
        why = is_now.status if is_now else "it is not there"
        yield f"{group.name}: {plan.metric} of {plan.method} was {shown(was.estimate)} before, none now ({why})"
