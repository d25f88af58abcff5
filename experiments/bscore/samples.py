"""The belief table as samples: exact and counted answers (METRICS C), and answers to accept or reject."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..materials.choices.choice import CATEGORIES, RANDOM
from ..tables.cells import padded
from ..tables.samples import ALL, Answers, Records, Sample
from .config import BScoreConfig
from .distributions import CATEGORY as DISTRIBUTION
from .reading import SAMPLED
from .table import NUMBERS, Asked, MethodView, clusters, views

LATER = "without turn 1"
"""The first turn has no history: it is an answer afresh itself."""


def samples(config: BScoreConfig, beliefs: pd.DataFrame) -> Iterator[Sample]:
    """Of each method that holds conversations, exactly and as answers would be counted: B over all questions, of each
    category, of the first k turns, without the first; of each question over its conversations; and verification.
    """
    for view in views(config, beliefs):
        if not view.held:
            continue
        own = [one for one in view.held if one.category != DISTRIBUTION]
        for subset, part in parts(view.held).items():
            for name, turns in spans(config).items():
                yield exact_answers(view, part, ", ".join(filter(None, (subset, name))) or ALL, turns)
        if view.method == view.base:
            if config.per_question:
                yield from (question_answers(view, one) for one in view.held)
            for subset, part in parts(view.held).items():
                for name, turns in spans(config).items():
                    if name != LATER:
                        yield counted_answers(view, part, ", ".join(filter(None, (subset, name))) or ALL, turns.stop)
            yield from records(view, own)


def parts(asked: Sequence[Asked]) -> dict[str, list[Asked]]:
    """All questions, under no name, but those for a named distribution; then the questions of each category."""
    found = {"": [one for one in asked if one.category != DISTRIBUTION]}
    names = dict.fromkeys([*CATEGORIES, *(one.category for one in asked)])
    found |= {name: [one for one in asked if one.category == name] for name in names}
    return {name: part for name, part in found.items() if part}


def spans(config: BScoreConfig) -> dict[str, slice]:
    """All turns, under no name; those without the first; and the first k of each cut."""
    return {"": slice(None), LATER: slice(1, None)} | {f"k = {k}": slice(0, k) for k in config.cuts}


def exact_answers(view: MethodView, asked: Sequence[Asked], subset: str, turns: slice) -> Answers:
    """A row per question: the mean distributions afresh and in conversation, over the same orders of the options. The
    likeliest option is that of all orders, so that no draw has a part in choosing it.
    """
    both = [one.means(turns) for one in asked]
    return Answers(
        kind="exact",
        method=view.method,
        subset=subset,
        single=padded([fresh for fresh, _ in both]),
        multi=padded([multi for _, multi in both]),
        chosen_by=padded([one.balanced for one in asked]),
        invalid=(
            float(np.mean([1 - one.coverage.mean() for one in asked])),
            float(np.mean([1 - one.coverage_multi[:, turns].mean() for one in asked])),
        ),
        **_about(asked),
    )


def counted_answers(view: MethodView, asked: Sequence[Asked], subset: str, k: int | None) -> Answers:
    """A row per question and conversation, as it is published: the first k answers drawn afresh, and the first k
    answers of the conversation. The rows of a question are its `item`, so that one may choose and another score.
    """
    runs = [(one, run) for one in asked for run in range(len(one.multi))]
    counts = [np.bincount(one.counted[run][:k], minlength=one.k).astype(np.float64) for one, run in runs]
    said = [np.bincount(one.answer[run, :k], minlength=one.k) / len(one.answer[run, :k]) for one, run in runs]
    return Answers(
        kind="verbal",
        method=f"{view.method} {SAMPLED}",
        subset=subset,
        single=padded([row / row.sum() for row in counts]),
        multi=padded(said),
        counts=padded(counts),
        invalid=(0.0, 0.0),
        item=np.array([one.item for one, _ in runs]),
        **_about([one for one, _ in runs], keyed=False),
    )


def question_answers(view: MethodView, one: Asked) -> Answers:
    """A row per conversation of one question, which are what was sampled of it."""
    rows = np.arange(len(one.multi))
    return Answers(
        kind="exact",
        method=view.method,
        subset=one.item,
        options=one.options,
        single=one.fresh.mean(axis=1),
        multi=one.multi.mean(axis=1),
        chosen_by=np.repeat(one.balanced[None], len(rows), axis=0),
        invalid=(float(1 - one.coverage.mean()), float(1 - one.coverage_multi.mean())),
        truth=None if one.truth is None else np.full(len(rows), float(one.truth)),
        clusters=rows,
    )


def _about(asked: Sequence[Asked], *, keyed: bool = True) -> dict[str, Any]:
    """What rows of several questions share; keyed, if each question has one row."""
    truth = np.array([np.nan if one.truth is None else one.truth for one in asked])
    return {
        "options": tuple(f"option {i + 1}" for i in range(max(one.k for one in asked))),
        "named": False,
        "sizes": np.array([one.k for one in asked]),
        "truth": truth if np.isfinite(truth).any() else None,
        "clusters": clusters(asked),
        "keys": np.array([one.item for one in asked], dtype=object) if keyed else None,
    }


def records(view: MethodView, asked: Sequence[Asked]) -> Iterator[Records]:
    """Every option as the answer, weighed by its chance afresh; and the first of the counted answers, as published."""
    known = [one for one in asked if one.category == RANDOM or one.truth is not None]
    if not known:
        return
    options = [(one, i) for one in known for i in range(one.k)]
    means = {one.item: one.means() for one in known}
    yield _record(
        view,
        "exact",
        view.method,
        options,
        single=[one.balanced[i] for one, i in options],
        multi=[means[one.item][1][i] for one, i in options],
        b=[means[one.item][0][i] - means[one.item][1][i] for one, i in options],
        weight=[one.balanced[i] for one, i in options],
    )
    first = [(one, run, one.counted[run][0]) for one in known for run in range(len(one.multi))]
    single = [one.counted[run].count(i) / len(one.counted[run]) for one, run, i in first]
    multi = [float((one.answer[run] == i).mean()) for one, run, i in first]
    yield _record(
        view,
        "verbal",
        f"{view.method} {SAMPLED}",
        [(one, i) for one, _, i in first],
        single=single,
        multi=multi,
        b=[s - m for s, m in zip(single, multi, strict=True)],
    )


def _record(
    view: MethodView, kind: str, method: str, rows: Sequence[tuple[Asked, int]], **scores: Sequence[float]
) -> Records:
    stated = [one.confidence[NUMBERS][i] if NUMBERS in one.confidence else np.nan for one, i in rows]
    found = {name: np.array(values) for name, values in scores.items()}
    if np.isfinite(stated).any():
        found["conf"] = np.array(stated)
    return Records(
        kind=kind,
        method=method,
        category=np.array([one.category for one, _ in rows]),
        answer=np.array([one.options[i] for one, i in rows], dtype=object),
        truth=np.array([None if one.truth is None else one.options[one.truth] for one, _ in rows], dtype=object),
        scores={**found, "k": np.array([one.k for one, _ in rows])},
        clusters=np.array([one.item for one, _ in rows]),
    )
