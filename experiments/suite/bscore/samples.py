"""The belief table as arrays and as samples: exact and counted answers (METRICS C), and answers to accept or reject."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....metrics.beliefs import conditions
from ....metrics.contract import Floats
from ....metrics.tables.cells import padded
from ....metrics.tables.samples import ALL, Answers, Records, Sample
from ...materials.choices.sources import CATEGORIES, RANDOM
from .ask import CONFIDENCE, MULTI, SAMPLED, SINGLE
from .config import CATEGORY as DISTRIBUTION
from .config import BScoreConfig

Ints = NDArray[np.int64]
NUMBERS, GREEDY = "numbers", "greedy"
"""Ways of reading a confidence."""
CONDITIONS = ("order", "category", "topic", "truth", "target", "run", "turn", "answer")


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
    kind: str = "exact"

    @property
    def held(self) -> list[Asked]:
        """The questions of which there are conversations."""
        return [question for question in self.asked if len(question.multi)]


def clusters(asked: Sequence[Asked]) -> Any:
    """What was sampled: questions; of several categories, what they share."""
    several = len({question.category for question in asked}) > 1
    return np.array([question.cluster if several else question.item for question in asked])


def views(config: BScoreConfig, beliefs: pd.DataFrame) -> list[MethodView]:
    """Every method of the settings, then each at the other temperatures."""
    return _views(config, beliefs, beliefs[beliefs["kind"] == "exact"])


def views_beside(config: BScoreConfig, beliefs: pd.DataFrame) -> list[MethodView]:
    """What is stated of all options, and what a probe reads, in the same conversations."""
    asked = beliefs["scenario"].isin((SINGLE, MULTI)) & beliefs["kind"].isin(("verbal", "probe"))
    counted = (beliefs["estimate"] == SAMPLED) & (beliefs["of"].astype(str) == "") & beliefs["stated"].isna()
    found = beliefs[asked & ~counted]
    return _views(config, beliefs, found) if len(found) else []


def _views(config: BScoreConfig, beliefs: pd.DataFrame, exact: pd.DataFrame) -> list[MethodView]:
    temperatures = conditions(exact, ["temperature"])["temperature"]
    at = ["" if pd.isna(temperature) else f" @T={temperature:g}" for temperature in temperatures]
    exact = exact.assign(view=exact["method"].astype(str) + at)
    counted, stated = _counted(beliefs), _stated(beliefs)
    return [view_of(config, str(name), rows, counted, stated) for name, rows in exact.groupby("view", sort=False)]


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
            )
        )
    return MethodView(name, str(rows["method"].iloc[0]), asked, str(rows["kind"].iloc[0]))


def _counted(beliefs: pd.DataFrame) -> dict[tuple[str, str], tuple[tuple[int, ...], ...]]:
    """(item, method of counted answers) -> the answers afresh, run by run."""
    rows = beliefs[(beliefs["option_index"] == 0) & (beliefs["estimate"] == SAMPLED)]
    rows = rows[rows["answers"].notna()] if len(rows) else rows
    return {
        (str(item), str(method)): tuple(answers)
        for (item, method), answers in rows.groupby(["item", "method"], sort=False)["answers"]
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


# The belief table as samples: exact and counted answers (METRICS C), and answers to accept or reject.

LATER = "without turn 1"
"""The first turn has no history: it is an answer afresh itself."""


def samples(config: BScoreConfig, beliefs: pd.DataFrame) -> Iterator[Sample]:
    """Of each method that holds conversations, exactly and as answers would be counted: B over all questions, of each
    category, of the first k turns, without the first; of each question over its conversations; and verification.
    """
    for view in views(config, beliefs):
        if not view.held:
            continue
        asked = [question for question in view.held if question.category != DISTRIBUTION]
        for subset, part in parts(view.held).items():
            for name, turns in spans(config).items():
                yield exact_answers(view, part, ", ".join(filter(None, (subset, name))) or ALL, turns)
        if view.method == view.base:
            if config.per_question:
                yield from (question_answers(view, question) for question in view.held)
            for subset, part in parts(view.held).items():
                for name, turns in spans(config).items():
                    if name != LATER:
                        yield counted_answers(view, part, ", ".join(filter(None, (subset, name))) or ALL, turns.stop)
            yield from records(view, asked)
    for view in views_beside(config, beliefs):
        for subset, part in parts(view.held).items():
            for name, turns in spans(config).items():
                yield exact_answers(view, part, ", ".join(filter(None, (subset, name))) or ALL, turns)


def parts(asked: Sequence[Asked]) -> dict[str, list[Asked]]:
    """All questions, under no name, but those for a named distribution; then the questions of each category."""
    by_category = {"": [question for question in asked if question.category != DISTRIBUTION]}
    names = dict.fromkeys([*CATEGORIES, *(question.category for question in asked)])
    by_category |= {name: [question for question in asked if question.category == name] for name in names}
    return {name: part for name, part in by_category.items() if part}


def spans(config: BScoreConfig) -> dict[str, slice]:
    """All turns, under no name; those without the first; and the first k of each cut."""
    return {"": slice(None), LATER: slice(1, None)} | {f"k = {k}": slice(0, k) for k in config.cuts}


def exact_answers(view: MethodView, asked: Sequence[Asked], subset: str, turns: slice) -> Answers:
    """A row per question: the mean distributions afresh and in conversation, over the same orders of the options. The
    likeliest option is that of all orders, so that no draw has a part in choosing it.
    """
    both = [question.means(turns) for question in asked]
    return Answers(
        kind=view.kind,
        method=view.method,
        subset=subset,
        single=padded([fresh for fresh, _ in both]),
        multi=padded([multi for _, multi in both]),
        chosen_by=padded([question.balanced for question in asked]),
        invalid=(
            float(np.mean([1 - question.coverage.mean() for question in asked])),
            float(np.mean([1 - question.coverage_multi[:, turns].mean() for question in asked])),
        ),
        **_about(asked),
    )


def counted_answers(view: MethodView, asked: Sequence[Asked], subset: str, k: int | None) -> Answers:
    """A row per question and conversation, as it is published: the first k answers drawn afresh, and the first k
    answers of the conversation. The rows of a question are its `item`, so that one may choose and another score.
    """
    runs = [(question, run) for question in asked for run in range(len(question.multi))]
    counts = [np.bincount(question.counted[run][:k], minlength=question.k).astype(np.float64) for question, run in runs]
    shares = [
        np.bincount(question.answer[run, :k], minlength=question.k) / len(question.answer[run, :k])
        for question, run in runs
    ]
    return Answers(
        kind="verbal",
        method=f"{view.method} {SAMPLED}",
        subset=subset,
        single=padded([row / row.sum() for row in counts]),
        multi=padded(shares),
        counts=padded(counts),
        invalid=(0.0, 0.0),
        item=np.array([question.item for question, _ in runs]),
        **_about([question for question, _ in runs], keyed=False),
    )


def question_answers(view: MethodView, question: Asked) -> Answers:
    """A row per conversation of one question, which are what was sampled of it."""
    rows = np.arange(len(question.multi))
    return Answers(
        kind="exact",
        method=view.method,
        subset=question.item,
        options=question.options,
        single=question.fresh.mean(axis=1),
        multi=question.multi.mean(axis=1),
        chosen_by=np.repeat(question.balanced[None], len(rows), axis=0),
        invalid=(float(1 - question.coverage.mean()), float(1 - question.coverage_multi.mean())),
        truth=None if question.truth is None else np.full(len(rows), float(question.truth)),
        clusters=rows,
    )


def _about(asked: Sequence[Asked], *, keyed: bool = True) -> dict[str, Any]:
    """What rows of several questions share; keyed, if each question has one row."""
    truth = np.array([np.nan if question.truth is None else question.truth for question in asked])
    return {
        "options": tuple(f"option {i + 1}" for i in range(max(question.k for question in asked))),
        "named": False,
        "sizes": np.array([question.k for question in asked]),
        "truth": truth if np.isfinite(truth).any() else None,
        "clusters": clusters(asked),
        "keys": np.array([question.item for question in asked], dtype=object) if keyed else None,
    }


def records(view: MethodView, asked: Sequence[Asked]) -> Iterator[Records]:
    """Every option as the answer, weighed by its chance afresh; and the first of the counted answers, as published."""
    known = [question for question in asked if question.category == RANDOM or question.truth is not None]
    if not known:
        return
    options = [(question, i) for question in known for i in range(question.k)]
    means = {question.item: question.means() for question in known}
    yield _record(
        view,
        "exact",
        view.method,
        options,
        single=[question.balanced[i] for question, i in options],
        multi=[means[question.item][1][i] for question, i in options],
        b=[means[question.item][0][i] - means[question.item][1][i] for question, i in options],
        weight=[question.balanced[i] for question, i in options],
    )
    first = [(question, run, question.counted[run][0]) for question in known for run in range(len(question.multi))]
    single = [question.counted[run].count(i) / len(question.counted[run]) for question, run, i in first]
    multi = [float((question.answer[run] == i).mean()) for question, run, i in first]
    yield _record(
        view,
        "verbal",
        f"{view.method} {SAMPLED}",
        [(question, i) for question, _, i in first],
        single=single,
        multi=multi,
        b=[s - m for s, m in zip(single, multi, strict=True)],
    )


def _record(
    view: MethodView, kind: str, method: str, rows: Sequence[tuple[Asked, int]], **scores: Sequence[float]
) -> Records:
    stated = [question.confidence[NUMBERS][i] if NUMBERS in question.confidence else np.nan for question, i in rows]
    arrays = {name: np.array(values) for name, values in scores.items()}
    if np.isfinite(stated).any():
        arrays["conf"] = np.array(stated)
    return Records(
        kind=kind,
        method=method,
        category=np.array([question.category for question, _ in rows]),
        answer=np.array([question.options[i] for question, i in rows], dtype=object),
        truth=np.array(
            [None if question.truth is None else question.options[question.truth] for question, _ in rows], dtype=object
        ),
        scores={**arrays, "k": np.array([question.k for question, _ in rows])},
        clusters=np.array([question.item for question, _ in rows]),
    )
