"""The belief table of a run as arrays: of each method, its questions with what was read of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...metrics.validation import Floats
from .asking import CONFIDENCE, MULTI, SINGLE
from .config import BScoreConfig
from .reading import SAMPLED

Ints = NDArray[np.int64]
NUMBERS, GREEDY = "numbers", "greedy"
"""Ways of reading a confidence."""
TEMPERED = r"/(@T=[^/]+)$"
"""How a read-out at another temperature than 1 is named."""


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
        """[R, N, k] the distribution at each turn without what its order alone does: constant for a model that ignores
        history."""
        return self.balanced - self.b

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

    @property
    def held(self) -> list[Asked]:
        """The questions of which there are conversations."""
        return [one for one in self.asked if len(one.multi)]


def clusters(asked: Sequence[Asked]) -> Any:
    """What was sampled: questions; of several categories, what they share."""
    several = len({one.category for one in asked}) > 1
    return np.array([one.cluster if several else one.item for one in asked])


def views(config: BScoreConfig, beliefs: pd.DataFrame) -> list[MethodView]:
    """Every method of the settings, then each at the other temperatures."""
    own = beliefs[beliefs["kind"] == "exact"]
    tempered = own["readout_id"].astype(str).str.extract(TEMPERED, expand=False)
    own = own.assign(method=own["method"].astype(str) + (" " + tempered).fillna(""))
    counted = _counted(beliefs)
    stated = _stated(beliefs)
    return [view_of(config, str(method), rows, counted, stated) for method, rows in own.groupby("method", sort=False)]


def view_of(
    config: BScoreConfig,
    method: str,
    rows: pd.DataFrame,
    counted: Mapping[tuple[str, str], tuple[tuple[int, ...], ...]] = MappingProxyType({}),
    stated: Mapping[tuple[str, str], Mapping[str, Floats]] = MappingProxyType({}),
) -> MethodView:
    """From the rows of a method, exact or at one inner layer, to questions, in the order of the table."""
    base = method.partition(" @T=")[0]
    asked = []
    for item, mine in rows.groupby("item", sort=False):
        readouts = mine[mine["option_index"] == 0].reset_index(drop=True)
        k = int(mine["option_index"].max()) + 1
        prob = mine["prob"].to_numpy(dtype=np.float64).reshape(-1, k)
        told = pd.DataFrame([json.loads(text) for text in readouts["variant"].astype(str)])
        single = (readouts["scenario"] == SINGLE).to_numpy()
        multi = (readouts["scenario"] == MULTI).to_numpy()
        by_order = np.argsort(told.loc[single, "order"].to_numpy(dtype=np.int64), kind="stable")
        coverage = readouts["coverage"].to_numpy(dtype=np.float64)
        n_runs = int(told.loc[multi, "run"].max()) + 1 if multi.any() else 0
        shape = (n_runs, config.turns)
        later = told[multi].sort_values(["run", "turn"], kind="stable") if n_runs else told[:0]
        places = later.index.to_numpy()
        first = told.iloc[0]
        truth, target = first.get("truth"), first.get("target")
        asked.append(
            Asked(
                item=str(item),
                cluster=str(readouts["cluster"].iloc[0]),
                category=str(first["category"]),
                topic=str(first["topic"]),
                options=tuple(mine["option"].astype(str).iloc[:k]),
                truth=None if pd.isna(truth) else int(truth),
                target=np.array(target) if isinstance(target, list) else None,
                orders=prob[single][by_order],
                multi=prob[places].reshape(*shape, k),
                order=_ints(later, "order", shape),
                answer=_ints(later, "answer", shape),
                coverage=coverage[single][by_order],
                coverage_multi=coverage[places].reshape(shape),
                counted=counted.get((str(item), method), ()),
                confidence=stated.get((str(item), method), {}),
            )
        )
    return MethodView(method, base, asked)


def _ints(rows: pd.DataFrame, name: str, shape: tuple[int, int]) -> Ints:
    values = rows[name].to_numpy(dtype=np.int64) if len(rows) else np.zeros(0, dtype=np.int64)
    return values.reshape(shape)


def _counted(beliefs: pd.DataFrame) -> dict[tuple[str, str], tuple[tuple[int, ...], ...]]:
    """(item, method) -> the answers afresh, run by run."""
    mine = beliefs[(beliefs["option_index"] == 0) & beliefs["method"].astype(str).str.endswith(f" {SAMPLED}")]
    found: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    for item, method, variant in zip(mine["item"], mine["method"], mine["variant"], strict=True):
        key = (str(item), str(method).removesuffix(f" {SAMPLED}"))
        found.setdefault(key, []).append(tuple(json.loads(str(variant))["answers"]))
    return {key: tuple(runs) for key, runs in found.items()}


def _stated(beliefs: pd.DataFrame) -> dict[tuple[str, str], dict[str, Floats]]:
    """(item, method) -> way of reading -> confidence in each option."""
    mine = beliefs[(beliefs["scenario"] == CONFIDENCE) & (beliefs["option_index"] == 0)]
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for row in mine[["item", "method", "variant", "prob"]].to_dict("records"):
        told: dict[str, Any] = json.loads(str(row["variant"]))
        way = str(row["method"]).rpartition(" ")[2]
        found.setdefault((str(row["item"]), told["of"]), {}).setdefault(way, {})[told["asked"]] = row["prob"]
    return {
        key: {way: np.array([by_option[i] for i in sorted(by_option)]) for way, by_option in ways.items()}
        for key, ways in found.items()
    }
