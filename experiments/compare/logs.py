"""Runs, tables and logs of other harnesses side by side: a question is known by its text and its options, and one
method of each side is compared with one of each other, whatever they are called.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...base.errors import UserError, nearest
from ...base.text import listed
from ...metrics.tables.harness_logs import names_by_prompt, places_of, question_name
from ...metrics.tables.sample_rows import GLUE
from ...metrics.tables.samples import Forecasts, Multiclass
from ..run.manifest import CHOICE, ITEMS, json_digest, recorded_items
from .sides import Side

PAIR = 2
"""Options of a question whose answer is a forecast of the first."""


def alongside(sides: Sequence[Side], methods: Sequence[str] = ()) -> list[Side]:
    """The sides, runs of questions with options as logs have them where one is a log, each with one method where they
    are named, or where a log has no other counterpart.

    Raises UserError for a method that is not there, and for a side that has several of which none is named.
    """
    logs = [side for side in sides if side.is_log]
    if methods and len(sides) < 2:
        raise UserError("--method: says what is compared between runs, tables or logs; give two or more")
    if logs:
        sides = [side if side.run is None else _as_log(side, logs) for side in sides]
    read = [_methods(side) for side in sides]
    known = {method for names in read for method in names}
    for name in methods:
        if name not in known:
            raise UserError(f"--method {name}: nothing here has it; {nearest(name, known)}")
    common = set.intersection(*map(set, read)) if read else set()
    if len(sides) < 2 or not (methods or (logs and not common)):
        return list(sides)
    chosen = [_chosen(side, names, methods) for side, names in zip(sides, read, strict=True)]
    joint = " against ".join(dict.fromkeys(chosen))
    return [_under(side, name, joint) for side, name in zip(sides, chosen, strict=True)]


def _methods(side: Side) -> list[str]:
    """Those by which beliefs were computed, if any were."""
    exact = [sample.method for sample in side.samples if sample.kind == "exact"]
    return list(dict.fromkeys(exact or [sample.method for sample in side.samples]))


def _chosen(side: Side, there: Sequence[str], methods: Sequence[str]) -> str:
    named = [name for name in there if name in methods]
    if len(named) == 1 or len(there) == 1:
        return (named or there)[0]
    if named:
        raise UserError(
            f"{side.path}: has {listed(named)}, all of them named by --method; of each run or table just one is "
            "compared with the others. Runs that have the same methods are compared method by method without --method"
        )
    raise UserError(
        f"{side.path}: has the methods {', '.join(there)}; say by --method which one is compared (of each run or table "
        "one)"
    )


def _under(side: Side, method: str, joint: str) -> Side:
    """One method of a side, under another name."""
    beliefs = side.beliefs
    if len(beliefs):
        beliefs = beliefs[beliefs["method"].astype(str) == method].assign(method=joint)
    return replace(
        side,
        samples=[replace(sample, method=joint) for sample in side.samples if sample.method == method],
        verdicts=[replace(verdict, method=joint) for verdict in side.verdicts if verdict.method == method],
        beliefs=beliefs,
    )


def _as_log(side: Side, logs: Sequence[Side]) -> Side:
    """A run of questions with options, which are named and ordered as those of logs are; any other run as it is."""
    assert side.run is not None
    lines = recorded_items(side.run.folder.recorded(ITEMS))
    asked = {line["id"]: line[CHOICE] for line in lines if CHOICE in line}
    if not asked:  # of a version that did not keep them
        digests = {line["id"]: line["content"] for line in lines}
        asked = {
            item.id: item.content[CHOICE]
            for item in side.run.experiment.items(side.run.config)
            if CHOICE in item.content and digests.get(item.id) == json_digest(item.content)
        }
    if not asked:
        return side
    renamed = {known: name for log in logs for known, name in names_by_prompt(log.path).items()}
    names = {item: question_name(choice["text"], choice["options"]) for item, choice in asked.items()}
    names = {item: renamed.get(name, name) for item, name in names.items()}
    places = {item: places_of(choice["options"]) for item, choice in asked.items()}

    def as_log(sample: Multiclass) -> Multiclass | Forecasts:
        items = [str(key).split(GLUE, maxsplit=1)[0] for key in sample.keys]  # type: ignore
        belief, truth = sample.belief.copy(), sample.truth.copy()
        for row, item in enumerate(items):
            order = places.get(item, range(sample.belief.shape[1]))
            belief[row, : len(order)] = sample.belief[row, order]
            if np.isfinite(truth[row]):
                truth[row] = order.index(int(truth[row]))
        keys = np.array([names.get(item, item) + 2 * GLUE for item in items], dtype=object)
        if (sample.sizes == PAIR).all():  # as logs have them: forecasts of the first
            told = {name: getattr(sample, name) for name in ("kind", "method", "subset", "run", "clusters", "why")}
            first = np.where(np.isfinite(truth), 1 - truth, np.nan)
            return Forecasts(**told, belief=belief[:, 0], outcome=first, keys=keys)
        return replace(sample, belief=belief, truth=truth, by_order=None, keys=keys, content=None)

    samples = [as_log(sample) for sample in side.samples if isinstance(sample, Multiclass)]
    return replace(side, group=logs[0].group, samples=samples)
