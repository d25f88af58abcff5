"""All that is asked of a probe at the place that was registered before reading (PROBES 2 to 10)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.inference.equivalence import Equivalence
from ...metrics.validation import Floats
from ..data.dataset import ProbeData
from ..data.features import ReadAt
from ..folds import check_folds
from ..plan import StudyPlan
from ..targets import BINARY, Target
from .calibration import SHIFT_MARGINS, by_level, calibrate, shift_test
from .complement import complement_gaps, pair_rows
from .controls import CurvePoint, Selectivity, baseline_r2, learning_curve, selectivity, surface_features
from .crossfit import CrossFitted, cross_fit
from .estimators import ByEstimator, compare_estimators
from .incremental import Incremental, incremental_validity
from .refit import Refitted, refit
from .skill import Recall, auc, log_loss_skill, out_of_fold_r2, recall_at
from .transfer import Transfer, transfer_matrix

MODEL_BELIEFS = {"exact logit": ("exact",), "verbal belief": ("verbal",), "both": ("exact", "verbal")}
"""What a probe is to add to: name -> columns of the rows, as log-odds."""
POSITIONS = ("scenario", "polarity")
"""Columns at whose levels the calibration is shown, the first that is there: prior and posterior, or polarities."""
BOUNDED = {"r2": -np.inf, "skill": -np.inf, "auc": 0.0, "abs_gap": 0.0, "recall": 0.0}
"""Number -> the least that it can be; the most is 1."""


@dataclass(frozen=True)
class Study:
    """Of one place."""

    at: ReadAt
    crossed: CrossFitted
    numbers: Mapping[str, Refitted]
    """`r2`, `skill` (log-loss), `auc`, `slope`, `intercept`, `gap` and `abs_gap` of negations, `above NAME` (R2 above a
    surface baseline), `recall` at 1% false alarms on neutral chat, and slope and intercept by level."""
    shifts: Mapping[str, Equivalence]
    """Of calibration between positions."""
    control: Selectivity
    baselines: Mapping[str, float]
    """Name -> R2 of what needs no model, or less of it."""
    curve: tuple[CurvePoint, ...]
    transfers: tuple[Transfer, ...]
    estimators: Sequence[ByEstimator]
    """The same place by others than ridge."""
    added: Mapping[str, Incremental]
    """What the probe adds to the model's own beliefs."""
    recall: Recall | None
    """At 1% false alarms among what is false; None for a graded target."""


class Beside(NamedTuple):
    """Features besides those of the place."""

    others: Mapping[str, Floats] = MappingProxyType({})
    """Name -> [n, d] to do better than, besides the surface of the text: layer-0 embeddings, an untrained model."""
    neutral: Floats | None = None
    """[chats, d] of chat in which nothing is stated."""
    pooled: Floats | None = None
    """[n, positions, d] of several positions at the layer, for estimators that pool them."""


def study(data: ProbeData, at: ReadAt, folds: NDArray[np.intp], plan: StudyPlan, beside: Beside | None = None) -> Study:
    """Everything about one place.

    Args:
        data: what to decode.
        at: the registered place.
        folds: [n] grouped; UserError if a group lies in several.
        plan: under which settings.
        beside: features besides those of the place.
    """
    check_folds(folds, data.groups)
    x, target = data.read(at), data.target
    crossed = cross_fit(x, target, folds, plan.penalties)
    others, neutral, pooled = beside or Beside()
    rivals = {**surface_features(data.rows), **others}
    pairs = _pairs(data)
    levels = next((data.rows[name].to_numpy() for name in POSITIONS if _varies(data, name)), None)

    def statistic(rows: NDArray[np.intp], mine: NDArray[np.intp]) -> Mapping[str, float]:
        own = Target(target.name, target.prob[rows], target.logit[rows], 0)
        found = cross_fit(x[rows], own, mine, plan.penalties)
        numbers = _numbers(own, found)
        if neutral is not None and target.kind == BINARY:
            numbers["recall"] = _recall_on(neutral, own, found, mine)
        if len(pairs):
            numbers |= _gaps(found.belief, rows, pairs, len(data.rows))
        if levels is not None:
            numbers |= by_level(found.logit, own.prob, levels[rows])
        for name, rival in rivals.items():
            numbers[f"above {name}"] = numbers["r2"] - baseline_r2(rival[rows], own.logit, mine, plan.penalties)
        return numbers

    numbers = refit(statistic, data.groups, folds, draws=plan.refits, seed=plan.seed, level=plan.level)
    numbers |= {name: numbers[name].within(least, 1.0) for name, least in BOUNDED.items() if name in numbers}
    once: dict[str, Any] = {"seed": plan.seed}
    logit = target.logit
    return Study(
        at=at,
        crossed=crossed,
        numbers=numbers,
        shifts={
            name: shift_test(one, name.partition("[")[0])
            for name, one in numbers.items()
            if " - " in name and name.partition("[")[0] in SHIFT_MARGINS
        },
        control=selectivity(x, logit, data.groups, folds, plan.penalties, draws=plan.control_draws, **once),
        baselines={name: baseline_r2(rival, logit, folds, plan.penalties) for name, rival in rivals.items()},
        curve=tuple(learning_curve(x, logit, data.groups, folds, plan.penalties, **once)),
        transfers=tuple(_transfers(data, x, folds, crossed, plan)),
        estimators=compare_estimators(
            x,
            target,
            data.groups,
            folds,
            plan.penalties,
            pooled=pooled,
            pairs=pairs,
            draws=plan.refits,
            seed=plan.seed,
            level=plan.level,
        ),
        added={name: _added(data, folds, crossed, columns, plan) for name, columns in _known(data).items()},
        recall=_recall(data, crossed) if target.kind == BINARY else None,
    )


def _numbers(target: Target, found: CrossFitted) -> dict[str, float]:
    calibration = calibrate(found.logit, target.prob)
    return {
        "r2": out_of_fold_r2(target.logit, found.score, found.train_logit),
        "skill": log_loss_skill(target.prob, found.belief, found.train_prob),
        "auc": auc(target.prob, found.logit),
        "slope": calibration.slope,
        "intercept": calibration.intercept,
    }


def _gaps(belief: Floats, rows: NDArray[np.intp], pairs: NDArray[np.intp], n: int) -> dict[str, float]:
    """Mean p(X) + p(not X) - 1, signed and not; a pair counts as often as its group was drawn."""
    whole = np.full(n, np.nan)
    whole[rows] = belief
    times = np.bincount(rows, minlength=n)[pairs[:, 0]]
    gaps = np.repeat(complement_gaps(whole, pairs), times)
    return {"gap": float(np.mean(gaps)), "abs_gap": float(np.mean(np.abs(gaps)))}


def _pairs(data: ProbeData) -> NDArray[np.intp]:
    if not {"pair", "negated"} <= set(data.rows.columns):
        return np.empty((0, 2), dtype=np.intp)
    return pair_rows(data.rows["pair"].to_numpy(), data.rows["negated"].to_numpy())


def _varies(data: ProbeData, name: str) -> bool:
    return name in data.rows.columns and data.rows[name].nunique() > 1


def _transfers(
    data: ProbeData, x: Floats, folds: NDArray[np.intp], crossed: CrossFitted, plan: StudyPlan
) -> list[Transfer]:
    return [
        transfer_matrix(
            x,
            data.target,
            data.groups,
            folds,
            by,
            data.rows[by].to_numpy(),
            crossed.penalties.tolist(),
            draws=plan.refits,
            seed=plan.seed,
            level=plan.level,
        )
        for by in plan.transfer
        if _varies(data, by)
    ]


def _known(data: ProbeData) -> dict[str, tuple[str, ...]]:
    """The combinations of the model's own beliefs that the rows have; the target itself is none of them."""
    have = {name for name in ("exact", "verbal") if name in data.rows.columns and data.rows[name].notna().any()}
    return {
        name: columns
        for name, columns in MODEL_BELIEFS.items()
        if set(columns) <= have and data.target.name not in columns
    }


def _added(
    data: ProbeData, folds: NDArray[np.intp], crossed: CrossFitted, columns: tuple[str, ...], plan: StudyPlan
) -> Incremental:
    return incremental_validity(
        crossed.signals,
        data.target.prob,
        [(name, data.rows[name].to_numpy(dtype=np.float64)) for name in columns],
        data.groups,
        folds,
        roles=data.roles,
        draws=plan.permutations,
        seed=plan.seed,
        level=plan.level,
    )


def _recall_on(neutral: Floats, target: Target, found: CrossFitted, folds: NDArray[np.intp]) -> float:
    """The share of true rows above the threshold that 1% of neutral chats reach, each fold by the fit without it."""
    above = 0.0
    for k, readout in enumerate(found.readouts):
        true = (folds == k) & (target.prob == 1)
        above += recall_at(found.logit[true], readout.logit(neutral)).recall * true.sum() if true.any() else 0.0
    return above / float((target.prob == 1).sum())


def _recall(data: ProbeData, crossed: CrossFitted) -> Recall:
    true = data.target.prob == 1
    return recall_at(crossed.logit[true], crossed.logit[~true])
