"""The belief table as arrays: of every method and temperature, each question with its conversations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....metrics.beliefs import conditions
from ....metrics.contract import Floats
from .ask import LIST, SAMPLED, WRITTEN
from .config import BScoreConfig
from .turns import CONFIDENCE, CONTROL, MULTI, SINGLE

Ints = NDArray[np.int64]
NUMBERS, GREEDY = "numbers", "greedy"
"""Ways of reading a confidence."""
CONDITIONS = ("order", "category", "topic", "truth", "target", "run", "turn", "answer", "control")


@dataclass(frozen=True)
class Asked:
    """A question under one method at one temperature. It has R conversations of N turns, and k options."""

    item: str
    cluster: str
    category: str
    topic: str
    options: tuple[str, ...]
    truth: int | None
    """Index of the true option."""
    target: Floats | None
    """[k] the distribution that was asked for."""
    orders: Floats
    """[orders, k] afresh, in each order of the options."""
    multi: Floats
    """[R, N, k] at each turn, given what was sampled before it; R is 0 under a method without conversations."""
    order: Ints
    """[R, N] the number of each turn's order."""
    answer: Ints
    """[R, N] the option that was drawn."""
    coverage: Floats
    """[orders] of the read-outs afresh."""
    coverage_multi: Floats
    """[R, N]"""
    counted: tuple[tuple[int, ...], ...]
    """[R, queries] answers afresh, drawn from `orders`, for each conversation."""
    confidence: Mapping[str, Floats]
    """Way of reading -> [k] stated, given each option as the answer."""
    controls: Mapping[str, Floats] = field(default_factory=dict)
    """Control history -> [R, N, k] at each turn after it; at the first, which has no history, afresh."""
    written: Sequence[tuple[Sequence[int], Sequence[int]]] = ()
    """[R] answers that were written out, afresh and in turns; `UNPARSED` where none can be read."""
    lists: Sequence[Sequence[int]] = ()
    """Numbers of each list that was written of a named distribution, by their option."""

    @property
    def k(self) -> int:
        """Number of options."""
        return len(self.options)

    @cached_property
    def balanced(self) -> Floats:
        """[k] afresh, every order weighing the same."""
        return self.orders.mean(axis=0)

    @cached_property
    def fresh(self) -> Floats:
        """[R, N, k] afresh, in the order of each turn."""
        return self.orders[self.order]

    @cached_property
    def b(self) -> Floats:
        """[R, N, k] how much likelier afresh than at the turn, in the same order."""
        return self.fresh - self.multi

    @cached_property
    def adjusted(self) -> Floats:
        """[R, N, k] each turn's distribution without what its order does: constant for who ignores history."""
        return self.balanced - self.b

    def b_of(self, control: str, turns: slice) -> Floats:
        """[k] how much likelier afresh than after a control history, in the same orders; NaN where there is none."""
        if control not in self.controls:
            return np.full(self.k, np.nan)
        return (self.fresh - self.controls[control])[:, turns].mean(axis=(0, 1))

    def answered(self, way: str) -> Sequence[tuple[Sequence[int], Sequence[int]]]:
        """[R] answers afresh and in turns: `SAMPLED`, those that go with the exact conversations; or `WRITTEN`."""
        return self.written if way == WRITTEN else [*zip(self.counted, self.answer.tolist(), strict=True)]

    def means(self, turns: slice = slice(None)) -> tuple[Floats, Floats]:
        """[k] afresh and in conversation, over the same orders, of some of the turns."""
        return self.fresh[:, turns].mean(axis=(0, 1)), self.multi[:, turns].mean(axis=(0, 1))


@dataclass(frozen=True)
class MethodView:
    """A method at a temperature."""

    method: str
    """As it is printed."""
    base: str
    """The method of the settings."""
    asked: Sequence[Asked]
    kind: str = "exact"

    @property
    def held(self) -> list[Asked]:
        """The questions of which there are conversations."""
        return [question for question in self.asked if len(question.multi)]


def views(config: BScoreConfig, beliefs: pd.DataFrame) -> list[MethodView]:
    """Every method of the settings, then each at the other temperatures."""
    return _views(config, beliefs, beliefs[beliefs["kind"] == "exact"])


def views_beside(config: BScoreConfig, beliefs: pd.DataFrame) -> list[MethodView]:
    """What is stated of all options, and what a probe reads, in the same conversations."""
    asked = beliefs["scenario"].isin((SINGLE, MULTI)) & beliefs["kind"].isin(("verbal", "probe"))
    drawn = (beliefs["estimate"] == SAMPLED) & (beliefs["of"].astype(str) == "") & beliefs["stated"].isna()
    counted = drawn | beliefs["estimate"].isin((WRITTEN, LIST))
    beside = beliefs[asked & ~counted]
    return _views(config, beliefs, beside) if len(beside) else []


def _views(config: BScoreConfig, beliefs: pd.DataFrame, exact: pd.DataFrame) -> list[MethodView]:
    temperatures = conditions(exact, ["temperature"])["temperature"]
    at = ["" if pd.isna(temperature) else f" @T={temperature:g}" for temperature in temperatures]
    exact = exact.assign(view=exact["method"].astype(str) + at)
    counted, stated = _counted(beliefs), _stated(beliefs)
    views = [view_of(config, str(name), rows, counted, stated) for name, rows in exact.groupby("view", sort=False)]
    written, turns, lists = (
        _counted(beliefs, way, key)
        for way, key in ((WRITTEN, "answers"), (WRITTEN, "answers_multi"), (LIST, "answers"))
    )
    return [
        replace(
            view,
            asked=[
                replace(
                    question,
                    written=tuple(zip(written.get(name, ()), turns.get(name, ()), strict=True)),
                    lists=lists.get((question.item, f"{view.method} {LIST}"), ()),
                )
                for question in view.asked
                for name in [(question.item, f"{view.method} {WRITTEN}")]
            ],
        )
        for view in views
    ]


def view_of(
    config: BScoreConfig,
    name: str,
    rows: pd.DataFrame,
    counted: Mapping[tuple[str, str], tuple[tuple[int, ...], ...]] = MappingProxyType({}),
    stated: Mapping[tuple[str, str], Mapping[str, Floats]] = MappingProxyType({}),
) -> MethodView:
    """From the rows of a method, exact or at one inner layer, to questions, in the order of the table."""
    asked = []
    for item, of_item in rows.groupby("item", sort=False):
        first = (of_item["option_index"] == 0).to_numpy()
        readouts = of_item[first].reset_index(drop=True)
        readouts = readouts.assign(**conditions(readouts, CONDITIONS))
        k = int(of_item["option_index"].max()) + 1
        prob = of_item["prob"].to_numpy(dtype=np.float64).reshape(-1, k)
        afresh = readouts[readouts["scenario"] == SINGLE].sort_values("order", kind="stable")
        later = readouts[readouts["scenario"] == MULTI].sort_values(["run", "turn"], kind="stable")
        shape = (int(later["run"].max()) + 1 if len(later) else 0, config.turns)
        about = readouts.iloc[0]
        asked.append(
            Asked(
                item=str(item),
                cluster=str(about["cluster"]),
                category=str(about["category"]),
                topic=str(about["topic"]),
                options=tuple(of_item["option"].astype(str).iloc[:k]),
                truth=None if pd.isna(about["truth"]) else int(about["truth"]),
                target=np.array(about["target"]) if isinstance(about["target"], tuple) else None,
                orders=prob[afresh.index],
                multi=prob[later.index].reshape(*shape, k),
                order=later["order"].to_numpy(dtype=np.int64).reshape(shape),
                answer=later["answer"].to_numpy(dtype=np.int64).reshape(shape),
                coverage=afresh["coverage"].fillna(1.0).to_numpy(dtype=np.float64),
                coverage_multi=later["coverage"].fillna(1.0).to_numpy(dtype=np.float64).reshape(shape),
                counted=counted.get((str(item), f"{name} {SAMPLED}"), ()),
                confidence=stated.get((str(item), name), {}),
                controls=_controls(readouts, prob, prob[afresh.index], later, shape),
            )
        )
    return MethodView(name, str(rows["method"].iloc[0]), asked, str(rows["kind"].iloc[0]))


def _controls(
    readouts: pd.DataFrame, prob: Floats, afresh: Floats, later: pd.DataFrame, shape: tuple[int, int]
) -> dict[str, Floats]:
    """Control history -> [R, N, k]."""
    controls: dict[str, Floats] = {}
    rows = readouts[readouts["scenario"] == CONTROL]
    for control, of_control in rows.groupby("control", sort=False) if len(rows) else ():
        read = prob[of_control.sort_values(["run", "turn"], kind="stable").index].reshape(shape[0], shape[1] - 1, -1)
        first = afresh[later["order"].to_numpy(dtype=np.int64).reshape(shape)[:, :1]]
        controls[str(control)] = np.concatenate([first, read], axis=1)
    return controls


def _counted(
    beliefs: pd.DataFrame, way: str = SAMPLED, key: str = "answers"
) -> dict[tuple[str, str], tuple[tuple[int, ...], ...]]:
    """(item, method of counted answers) -> the answers afresh, or those in turns, run by run."""
    rows = beliefs[(beliefs["option_index"] == 0) & (beliefs["estimate"] == way)]
    if not len(rows):
        return {}
    rows = rows[rows[key].notna()]
    return {
        (str(item), str(method)): tuple(answers)
        for (item, method), answers in rows.groupby(["item", "method"], sort=False)[key]
    }


def _stated(beliefs: pd.DataFrame) -> dict[tuple[str, str], dict[str, Floats]]:
    """(item, method) -> way of reading -> confidence in each option."""
    rows = beliefs[(beliefs["scenario"] == CONFIDENCE) & (beliefs["option_index"] == 0)]
    stated: dict[tuple[str, str], dict[str, Floats]] = {}
    if len(rows):
        for (item, method, way), each in rows.groupby(["item", "of_method", "estimate"], sort=False):
            belief = each.sort_values("asked")["prob"].to_numpy(dtype=np.float64)
            stated.setdefault((str(item), str(method)), {})[str(way)] = belief
    return stated
