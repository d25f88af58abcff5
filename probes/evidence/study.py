"""All that is asked of a probe at the place that was registered before reading, and the plan that fixes how (PROBES
2 to 11).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...base.settings import Settings
from ...metrics.contract import Floats, Resampling
from ...metrics.inference.equivalence import Equivalence
from ..cross_validation import PENALTIES
from ..dataset import BINARY, ProbeData, Target
from ..features import ReadAt
from ..groups import MIN_FOLDS
from .calibration import SHIFT_MARGINS, by_level, calibrate, shift_test
from .controls import CurvePoint, Selectivity, baseline_r2, learning_curve, selectivity, surface_features
from .crossfit import CrossFitted, Recall, Refitted, auc, cross_fit, log_loss_skill, out_of_fold_r2, recall_at, refit
from .estimator_comparison import ByEstimator, compare_estimators
from .incremental import Incremental, incremental_validity
from .transfer import Transfer, complement_gaps, pair_rows, transfer_matrix

Penalty = Annotated[float, Field(ge=1e-6, le=1e12)]


class Thresholds(Settings):
    """What falsifies a claim. They are printed beside it, and are part of what a job is known by."""

    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Of every permutation test."""
    selectivity: float = Field(default=0.1, ge=0)
    """R2 that the target must have above random targets."""
    coherence: float = Field(default=0.1, gt=0, lt=1)
    """Most that |p(X) + p(not X) - 1| may be on average."""
    groups: int = Field(default=50, ge=5)
    """Fewest groups for any claim."""


class StudyPlan(Settings):
    """Settings of a sweep and of what is shown of its registered place."""

    depth: float = Field(default=0.6, ge=0, le=1)
    """The registered layer rule: the relative depth at which the probe of the claims is read."""
    folds: int = Field(default=5, ge=MIN_FOLDS)
    penalties: tuple[Penalty, ...] = Field(default=PENALTIES, min_length=1)
    over_options: Literal["ridge", "multinomial"] = "ridge"
    """How the probe of a distribution over more than two options is fitted: ridge on the logit of each, or all at
    once by logistic regression, which takes longer. Either is calibrated as a softmax, nested and grouped."""
    permutations: int = Field(default=199, ge=19, le=10**6)
    """Of the band, and of every permutation test."""
    refits: int = Field(default=200, ge=20, le=10**6)
    """Resamples of groups with all fits repeated, of every interval."""
    control_draws: int = Field(default=20, ge=1, le=10**5)
    """Random targets of the control task."""
    transfer: tuple[str, ...] = ("polarity", "template", "domain")
    """Columns to train on one level of and test on another, where they are there."""
    level: float = Field(default=0.95, gt=0.5, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of folds, permutations, refits and controls."""
    thresholds: Thresholds = Thresholds()

    def resampling(self, draws: int) -> Resampling:
        """With so many refits or permutations."""
        return Resampling(self.seed, draws, self.level)


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
        folds: [n] of `grouped_folds`.
        beside: features besides those of the place.
    """
    x, target = data.read(at), data.target
    crossed = cross_fit(x, target, folds, plan.penalties)
    others, neutral, pooled = beside or Beside()
    rivals = {**surface_features(data.rows), **others}
    pairs = _pairs(data)
    levels = next((data.rows[name].to_numpy() for name in POSITIONS if _varies(data, name)), None)

    def statistic(rows: NDArray[np.intp], fold_of: NDArray[np.intp]) -> Mapping[str, float]:
        target_of = Target(target.name, target.prob[rows], target.logit[rows], 0)
        fit_of = cross_fit(x[rows], target_of, fold_of, plan.penalties)
        numbers = _numbers(target_of, fit_of)
        if neutral is not None and target.kind == BINARY:
            numbers["recall"] = _recall_on(neutral, target_of, fit_of, fold_of)
        if len(pairs):
            numbers |= _gaps(fit_of.belief, rows, pairs, len(data.rows))
        if levels is not None:
            numbers |= by_level(fit_of.logit, target_of.prob, levels[rows])
        for name, rival in rivals.items():
            numbers[f"above {name}"] = numbers["r2"] - baseline_r2(
                rival[rows], target_of.logit, fold_of, plan.penalties
            )
        return numbers

    how = plan.resampling(plan.refits)
    numbers = refit(statistic, data.groups, folds, how=how)
    numbers |= {name: numbers[name].within(least, 1.0) for name, least in BOUNDED.items() if name in numbers}
    logit = target.logit
    return Study(
        at=at,
        crossed=crossed,
        numbers=numbers,
        shifts={
            name: shift_test(refitted, name.partition("[")[0])
            for name, refitted in numbers.items()
            if " - " in name and name.partition("[")[0] in SHIFT_MARGINS
        },
        control=selectivity(x, logit, data.groups, folds, plan.penalties, draws=plan.control_draws, seed=plan.seed),
        baselines={name: baseline_r2(rival, logit, folds, plan.penalties) for name, rival in rivals.items()},
        curve=tuple(learning_curve(x, logit, data.groups, folds, plan.penalties, seed=plan.seed)),
        transfers=tuple(
            transfer_matrix(
                x, target, data.groups, folds, by, data.rows[by].to_numpy(), crossed.penalties.tolist(), how=how
            )
            for by in plan.transfer
            if _varies(data, by)
        ),
        estimators=compare_estimators(
            x, target, data.groups, folds, plan.penalties, pooled=pooled, pairs=pairs, how=how
        ),
        added={
            name: incremental_validity(
                crossed.signals,
                data.target.prob,
                [(name, data.rows[name].to_numpy(dtype=np.float64)) for name in columns],
                data.groups,
                folds,
                roles=data.roles,
                how=plan.resampling(plan.permutations),
            )
            for name, columns in _known(data).items()
        },
        recall=_recall(data, crossed) if target.kind == BINARY else None,
    )


def _numbers(target: Target, crossed: CrossFitted) -> dict[str, float]:
    # Of a probe that reads nothing the folds differ in their base rate alone, which runs against what is left out.
    logit = crossed.logit if any(readout.slope for readout in crossed.readouts) else np.zeros(len(crossed.logit))
    calibration = calibrate(logit, target.prob)
    return {
        "r2": out_of_fold_r2(target.logit, crossed.score, crossed.train_logit),
        "skill": log_loss_skill(target.prob, crossed.belief, crossed.train_prob),
        "auc": auc(target.prob, logit),
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


def _known(data: ProbeData) -> dict[str, tuple[str, ...]]:
    """The combinations of the model's own beliefs that the rows have; the target itself is none of them."""
    have = {name for name in ("exact", "verbal") if name in data.rows.columns and data.rows[name].notna().any()}
    return {
        name: columns
        for name, columns in MODEL_BELIEFS.items()
        if set(columns) <= have and data.target.name not in columns
    }


def _recall_on(neutral: Floats, target: Target, crossed: CrossFitted, folds: NDArray[np.intp]) -> float:
    """The share of true rows above the threshold that 1% of neutral chats reach, each fold by the fit without it."""
    above = 0.0
    for k, readout in enumerate(crossed.readouts):
        true = (folds == k) & (target.prob == 1)
        above += recall_at(crossed.logit[true], readout.logit(neutral)).recall * true.sum() if true.any() else 0.0
    return above / float((target.prob == 1).sum())


def _recall(data: ProbeData, crossed: CrossFitted) -> Recall:
    true = data.target.prob == 1
    return recall_at(crossed.logit[true], crossed.logit[~true])
