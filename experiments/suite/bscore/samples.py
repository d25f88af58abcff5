"""The belief table as samples: exact and counted answers (METRICS C), and answers to accept or reject."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ....metrics.tables.cells import padded
from ....metrics.tables.samples import ALL, Answers, Records, Sample
from ...materials.choices.sources import CATEGORIES, RANDOM
from .ask import SAMPLED, WRITTEN
from .config import CATEGORY as DISTRIBUTION
from .config import BScoreConfig
from .turns import CONTROLS
from .views import NUMBERS, Asked, MethodView, views, views_beside

BBQ = "bbq"
"""The subset of its questions, which are random ones."""
LATER = "without turn 1"
"""The first turn has no history: it is an answer afresh itself."""


def clusters(asked: Sequence[Asked]) -> Any:
    """What was sampled: questions; of several categories, what they share."""
    several = len({question.category for question in asked}) > 1
    return np.array([question.cluster if several else question.item for question in asked])


def samples(config: BScoreConfig, beliefs: pd.DataFrame) -> Iterator[Sample]:
    """Of each method that holds conversations, exactly and as answers would be counted: B over all questions, of each
    category, of the first k turns, without the first; of each question over its conversations; and verification.
    """
    for view in views(config, beliefs):
        if not view.held:
            continue
        yield from _by_span(config, view)
        if view.method == view.base:
            if config.per_question:
                yield from (question_answers(view, question) for question in view.held)
            yield from _as_counted(config, view)
    for view in views_beside(config, beliefs):
        yield from _by_span(config, view)


def _by_span(config: BScoreConfig, view: MethodView) -> Iterator[Sample]:
    for subset, part in parts(view.held).items():
        for name, turns in spans(config).items():
            yield exact_answers(view, part, ", ".join(filter(None, (subset, name))) or ALL, turns)


def _as_counted(config: BScoreConfig, view: MethodView) -> Iterator[Sample]:
    """As answers would be counted, then questions by their number of options, and verification."""
    ways = ways_of(view)
    counted = {name: turns for name, turns in spans(config).items() if name != LATER}
    for way in ways:
        for subset, part in parts(view.held).items():
            for name, turns in counted.items():
                yield counted_answers(view, part, ", ".join(filter(None, (subset, name))) or ALL, turns.stop, way)
    for subset, part in sized(view.held).items():
        yield exact_answers(view, part, subset, slice(None))
        yield from (counted_answers(view, part, subset, None, way) for way in ways)
    yield from records(view, [question for question in view.held if question.category != DISTRIBUTION], ways)


def parts(asked: Sequence[Asked]) -> dict[str, list[Asked]]:
    """All questions, under no name, but those for a named distribution; then the questions of each category."""
    by_category = {"": [question for question in asked if question.category != DISTRIBUTION]}
    names = dict.fromkeys([*CATEGORIES, *(question.category for question in asked)])
    by_category |= {name: [question for question in asked if question.category == name] for name in names}
    return {name: part for name, part in by_category.items() if part}


def sized(asked: Sequence[Asked]) -> dict[str, list[Asked]]:
    """Random questions by their number of options (Figure 3), and those of BBQ (Table T3)."""
    by_size: dict[str, list[Asked]] = {}
    for question in asked:
        if question.category == RANDOM:
            by_size.setdefault(f"{RANDOM}, {question.k} options", []).append(question)
            if question.cluster.rpartition(":")[2].startswith("bbq "):
                by_size.setdefault(BBQ, []).append(question)
    return by_size


def ways_of(view: MethodView) -> list[str]:
    """How answers of a method are counted: drawn from the exact distributions, and, if any were, written out."""
    return [SAMPLED, *([WRITTEN] if any(question.written for question in view.held) else [])]


def spans(config: BScoreConfig) -> dict[str, slice]:
    """All turns, under no name; those without the first; and the first k of each cut."""
    return {"": slice(None), LATER: slice(1, None)} | {f"k = {k}": slice(0, k) for k in config.cuts}


def exact_answers(view: MethodView, asked: Sequence[Asked], subset: str, turns: slice) -> Answers:
    """A row per question: the mean distributions afresh and in conversation, over the same orders of the options. The
    likeliest option is that of all orders, so that no draw has a part in choosing it.
    """
    both = [question.means(turns) for question in asked]
    known = [name for name in CONTROLS if any(name in question.controls for question in asked)]
    after = [
        [fresh - question.b_of(name, turns) for name in known] for question, (fresh, _) in zip(asked, both, strict=True)
    ]
    return Answers(
        kind=view.kind,
        method=view.method,
        subset=subset,
        single=padded([fresh for fresh, _ in both]),
        multi=padded([multi for _, multi in both]),
        chosen_by=padded([question.balanced for question in asked]),
        controls=np.stack([padded([rows[i] for rows in after]) for i in range(len(known))], axis=1)
        if known
        else np.zeros((len(asked), 0, max(question.k for question in asked))),
        control_names=tuple(known),
        invalid=_uncovered(asked, turns),
        **_about(asked),
    )


def counted_answers(
    view: MethodView, asked: Sequence[Asked], subset: str, k: int | None, way: str = SAMPLED
) -> Answers:
    """A row per question and conversation, as it is published: the first k answers afresh, and the first k answers of
    the conversation, of which those count that are an option. The rows of a question are its `item`, so that one may
    choose and another score.
    """
    runs = [(question, run) for question in asked for run in range(len(question.answered(way)))]
    first = [[np.array(answers[:k]) for answers in question.answered(way)[run]] for question, run in runs]
    counts, later = (
        [np.bincount(a[a >= 0], minlength=one.k) * 1.0 for (one, _), a in zip(runs, answers, strict=True)]
        for answers in zip(*first, strict=True)
    )
    unread = tuple(float(np.mean(np.concatenate(answers) < 0)) for answers in zip(*first, strict=True))
    if way == SAMPLED:
        unread = _uncovered(asked, slice(0, k))
    return Answers(
        kind="verbal",
        method=f"{view.method} {way}",
        subset=subset,
        single=padded([row / (row.sum() or np.nan) for row in counts]),
        multi=padded([row / (row.sum() or np.nan) for row in later]),
        counts=padded(counts),
        controls=np.zeros((len(runs), 0, max(question.k for question in asked))),
        invalid=(unread[0], unread[1]),
        item=np.array([question.item for question, _ in runs]),
        **_about([question for question, _ in runs], keyed=False),
    )


def _uncovered(asked: Sequence[Asked], turns: slice) -> tuple[float, float]:
    """The probability of no option, afresh and in turns."""
    return (
        float(np.mean([1 - question.coverage.mean() for question in asked])),
        float(np.mean([1 - question.coverage_multi[:, turns].mean() for question in asked])),
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
    sizes = np.array([question.k for question in asked])
    return {
        "options": tuple(f"option {i + 1}" for i in range(sizes.max())),
        "named": False,
        "offered": np.arange(sizes.max()) < sizes[:, None],
        "truth": truth if np.isfinite(truth).any() else None,
        "clusters": clusters(asked),
        "keys": np.array([question.item for question in asked], dtype=object) if keyed else None,
    }


def records(view: MethodView, asked: Sequence[Asked], ways: Sequence[str] = (SAMPLED,)) -> Iterator[Records]:
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
    for way in ways:
        runs = [(question, *both) for question in known for both in question.answered(way)]
        valid = [(question, *([i for i in arm if i >= 0] for arm in arms)) for question, *arms in runs]
        first = [(question, single, multi) for question, single, multi in valid if single and multi]
        share = [[arm.count(single[0]) / len(arm) for arm in (single, multi)] for _, single, multi in first]
        if first:
            yield _record(
                view,
                "verbal",
                f"{view.method} {way}",
                [(question, single[0]) for question, single, _ in first],
                single=[one for one, _ in share],
                multi=[other for _, other in share],
                b=[one - other for one, other in share],
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
