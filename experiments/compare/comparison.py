"""`doxascope compare`: every two sides that have a counterpart, by every number that both have."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...base.code import load_code
from ...base.documents import user_path
from ...base.errors import UserError, nearest, told_briefly
from ...base.settings import as_seed
from ...metrics.claims import Verdict, barred, with_coherence
from ...metrics.contract import Resampling
from ...metrics.metric import RELIABILITY, WITHHELD
from ...metrics.number import Number, status_text
from ...metrics.scoring.differences import SAME, Pair, paired_differences, pairs_of
from ...metrics.scoring.engine import MeasuredSamples, measured
from ...metrics.tables.samples import ALL, sample_name
from ...probes.evidence.calibration import BETS, SPREADS, by_errors
from .findings import Comparison, Group, Record, drivers_of, matrix_of
from .logs import alongside
from .sides import Side, disagreements, samples_of, sides_of, what_differs, without_strays

BY_COMMAND, BY_PLAN, BY_HEADLINE, BY_ALL = (
    "named in the command, before anything was compared",
    "registered before the runs",
    "the headline of their experiment",
    "all numbers that can be compared, since none of them was named",
)


@told_briefly
def compare(
    *paths: Path | str,
    metrics: Sequence[str] = (),
    margins: Mapping[str, float] | None = None,
    cluster: str | None = None,
    names: Mapping[str, str] | None = None,
    methods: Sequence[str] = (),
    seed: int | None = None,
    allow_code: Sequence[Path | str] = (),
    alone: bool = False,
) -> Comparison:
    """Compare runs, or tables, on the items that both have, or the kinds of belief of one run, as `doxascope compare`.

    Args:
        paths: of runs, of one experiment or of several where each has its counterpart; or of tables of one form. What
            else lies in the folder of several runs is left out, and said.
        metrics: the numbers that are to be confirmed, as in `scores.json`; none: those that the runs were made for.
        margins: number -> the difference below which two are the same; else its default, where it has one.
        cluster: of tables, the column that names what was sampled.
        names: of tables, what a form wants -> the column that has it.
        methods: of sides that call their methods otherwise, such as a run and a log, the one of each that is compared.
        seed: of all resampling; None: the first run's own, 0 of tables.
        allow_code: files of experiments, and of metrics, that may be run.
        alone: whether one run that holds one kind of belief is a comparison without pairs, and no error.

    Raises UserError for what cannot be compared: sides without a counterpart, of other versions, or that share no item;
    runs that are not whole; and a number or a margin of one that is not there.
    """
    seed = None if seed is None else as_seed(seed)
    allowed = [Path(file) for file in allow_code]
    for file in allowed:
        if file.suffix == ".py":  # else a model's folder
            load_code(user_path(file).resolve())
    compared, strays = without_strays([Path(path) for path in paths])
    sides = alongside(sides_of(compared, cluster=cluster, names=names, allow_code=allowed), methods)
    groups = groups_of(sides)
    how = next((side.how for side in sides if side.how is not None), Resampling())
    how = how if seed is None else Resampling(seed, how.draws, how.level)
    group_list: list[Group] = []
    every: list[Pair] = []
    struck: dict[int, str] = {}
    idle: set[str] = set()
    for name, opened in groups.items():
        numbers, failed = measured(samples_of(opened), how, only_compared=True), _failed(opened)
        judged = [_with_coherence(side, numbers, several=len(opened) > 1) for side in opened]
        pairs = pairs_between(judged, numbers)
        if pairs or len(judged) > 1 or not alone:
            _require_common(judged, pairs)
        met = [pair for pair in pairs if len(judged) == 1 or len(pair.rows[0])]
        unpaired, pairs = len(pairs) - len(met), met
        notes = {name: note for side in opened for name, note in side.notes.items()}
        struck |= {len(every) + i: why for i, pair in enumerate(pairs) if (why := _why_struck(pair, failed, notes))}
        idle |= {name for name, verdict in _judged(judged) if verdict.unresponsive}
        every += pairs
        matrix, apart = matrix_of(samples_of(judged), how), disagreements(judged)
        scored = numbers.numbers, list(numbers.comparable), failed
        group_list.append(Group(name, judged, *scored, what_differs(judged), matrix, apart, unpaired))
    known = list(dict.fromkeys(pair.metric for pair in every))
    for name in (*metrics, *(margins or {})):
        if name not in known:
            raise UserError(f"{name!r} is no number that can be compared here; {nearest(name, known)}")
    whole = [number for group in group_list for number in group.numbers if number.subset == ALL]
    withheld = {number.metric: number for number in whole if number.score.status == WITHHELD}
    family, named_by = _family(sides, metrics, known, withheld)
    kept = [pair for i, pair in enumerate(every) if i not in struck]
    confirmed = _records([pair for pair in kept if pair.metric in family], how, margins, "holm", idle)
    explored = _records([pair for pair in kept if pair.metric not in family], how, margins, "bh", idle)
    out = _records([every[i] for i in struck], how, margins, "holm")
    out = [_struck(record, why) for record, why in zip(out, struck.values(), strict=True)]
    for records in (confirmed, explored):  # known once the difference is; the others are adjusted as if it stayed
        reasons = [_errors_of_probe(record) for record in records]
        out += [_struck(record, why) for record, why in zip(records, reasons, strict=True) if why]
        records[:] = [record for record, why in zip(records, reasons, strict=True) if not why]
    return Comparison(group_list, family, named_by, confirmed, explored, out, margins or {}, strays)


def _with_coherence(side: Side, numbers: MeasuredSamples, *, several: bool) -> Side:
    """The verdicts of a side with those on coherence, from its numbers."""
    of_side = [number for number in numbers.numbers if not several or number.run == side.label]
    plan = side.run.config.registered if side.run else None
    return replace(side, verdicts=[with_coherence(verdict, of_side, plan) for verdict in side.verdicts])


def _struck(record: Record, why: str) -> Record:
    """Without tests: nothing is concluded."""
    score = replace(record.score, p=math.nan, p_method="", p_adjusted=math.nan, family_size=0)
    number = replace(record.number, score=score, equivalence=None)
    return replace(record, number=number, struck=why)


def _errors_of_probe(record: Record) -> str:
    """Why a difference with a probe that looks less coherent says nothing, if it does."""
    less, pair = -record.score.difference, record.pair
    for sample, by in ((pair.one, less), (pair.two, -less)):
        if sample.kind == "probe" and by_errors(pair.metric, by):
            return f"errors of what {sample.name} reads alone make {pair.metric} of a coherent belief look so"
    return ""


def groups_of(sides: Sequence[Side]) -> dict[str, list[Side]]:
    """Experiment, or form of table -> its sides. Raises UserError if one of them lacks a counterpart."""
    groups: dict[str, list[Side]] = {}
    for side in sides:
        groups.setdefault(side.group, []).append(side)
    alone = [members[0] for members in groups.values() if len(members) == 1]
    if alone and len(sides) > 1:
        others = ", ".join(name for name in groups if name != alone[0].group)
        raise UserError(
            f"{alone[0].path}: is of {alone[0].group}, and nothing else is ({others}); give each its counterpart, or "
            "one run alone to compare its kinds of belief"
        )
    return groups


def pairs_between(sides: Sequence[Side], numbers: MeasuredSamples) -> list[Pair]:
    """Between sides a kind and method with itself; within one side every two kinds, or its methods if there is one."""
    if len(sides) > 1:
        rivals: dict[tuple[str, str], dict[str, None]] = {}
        for sample in samples_of(sides):
            rivals.setdefault((sample.kind, sample.method), {})[sample.name] = None
        return pairs_of(numbers.comparable, [list(names) for names in rivals.values()], samples_of(sides))
    pairs = pairs_of(numbers.comparable, (), samples_of(sides))
    across = [pair for pair in pairs if pair.one.kind != pair.two.kind]
    return across or pairs


def _failed(sides: Sequence[Side]) -> dict[str, str]:
    """Name of a sample -> what is said of it: that it cannot be read, or is not shown to be readable, and why."""
    doubted = {name: f"cannot be read: {why}" for side in sides for name, why in side.doubted.items()}
    return doubted | {name: verdict.unread for name, verdict in _judged(sides) if verdict.unread}


def _judged(sides: Sequence[Side]) -> list[tuple[str, Verdict]]:
    several = len(sides) > 1
    return [
        (sample_name(verdict.kind, verdict.method, side.label if several else ""), verdict)
        for side in sides
        for verdict in side.verdicts
    ]


def _why_struck(pair: Pair, failed: Mapping[str, str], notes: Mapping[str, str]) -> str:
    """Why a difference says nothing: one of the two is no belief, or its probe draws such numbers together."""
    if not barred(pair.metric, pair.one.kind, pair.two.kind):
        return ""
    both = (pair.one, pair.two)
    names = [sample.name for sample in both if barred(pair.metric, sample.kind)]
    reasons = [f"{name} {failed[name]}" for name in names if name in failed]
    if pair.metric in SPREADS or pair.metric.startswith(BETS):
        reasons += [f"{name} is {notes[name]}" for name in names if name in notes]
    return "; ".join(reasons)


def _require_common(sides: Sequence[Side], pairs: Sequence[Pair]) -> None:
    """Raise UserError for sides that have nothing in common."""
    first, last = sides[0], sides[-1]
    if not pairs and len(sides) == 1:
        why = "".join(f"; {name}: {reason}" for name, reason in first.refused.items())
        raise UserError(
            f"{first.path}: holds one kind of belief, and nothing to compare it with; give a second run{why}"
        )
    if not pairs:
        raise UserError(
            f"{last.path}: has no kind and method of belief in common with {first.path}; --method says which "
            "methods are compared"
        )
    for side in sides if len(sides) > 1 else ():
        of_side = [pair for pair in pairs if side.label in (pair.one.run, pair.two.run)]
        if not any(len(pair.rows[0]) for pair in of_side):
            raise UserError(
                f"{side.path}: has no item of the same name and content as any other; runs of other questions, "
                "seeds or rankings of words are brought together by `doxascope collect`"
            )


def _family(
    sides: Sequence[Side], metrics: Sequence[str], known: Sequence[str], withheld: Mapping[str, Number]
) -> tuple[list[str], str]:
    """The numbers that are tested, and who named them; a headline that is not among them, and why."""
    if metrics:
        return list(dict.fromkeys(metrics)), BY_COMMAND
    made_for = dict.fromkeys(side.headline for side in sides if side.headline)
    headlines = [name for name in made_for if name in known]
    unplanned = {side.headline for side in sides if side.run and not side.run.config.registered}
    by = {name: BY_HEADLINE if name in unplanned else BY_PLAN for name in headlines}
    each = "; ".join(f"{name}: {why}" for name, why in by.items())
    family, named_by = headlines or list(known), each if len({*by.values()}) > 1 else next(iter(by.values()), BY_ALL)
    lost = [
        f"; {name} is not tested, since it is withheld: {status_text(WITHHELD)}"
        + (f" ({RELIABILITY} {reliability})" if (reliability := withheld[name].beside.get(RELIABILITY)) else "")
        for name in made_for
        if name in withheld and name not in known
    ]
    return family, named_by + "".join(lost)


def _records(
    pairs: Sequence[Pair],
    how: Resampling,
    margins: Mapping[str, float] | None,
    method: str,
    idle: Collection[str] = (),
) -> list[Record]:
    numbers = paired_differences(pairs, how, margins=margins, method=method)
    return [
        Record(pair, number, drivers, unresponsive=(pair.one.name in idle, pair.two.name in idle))
        for pair, number in zip(pairs, numbers, strict=True)
        for drivers in [[] if number.score.status == SAME else drivers_of(pair)]
    ]
