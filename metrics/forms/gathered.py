"""Tables with a row per answer, as experiments write them down: put together into a row per question."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ...base.errors import UserError
from ..contract import Array
from ..tables.cells import complete, load_columns, refuse_row
from ..tables.samples import Sample
from ..tables.source import TableSource, of_frame
from .form import OTHER, Data, Form, P, named
from .levels import level_columns

LEVELS = ("category", "truth", "cluster")
"""Columns that stay beside those of `level_columns`; what else there is tells single answers apart."""
ARMS = ("single", "multi")
STANDARD = ("standard", "standard prompt", "default", "base")
"""What the prompt is called that others are compared with; so is one without a name."""


def _read(source: TableSource, named_columns: dict[str, str], kept: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """The named columns by their roles, with those of levels; and the names of these."""
    beside = [*level_columns(source.columns), *(name for name in (*LEVELS, *kept) if name in source.columns)]
    beside = [name for name in dict.fromkeys(beside) if name not in named_columns]
    return pd.DataFrame(load_columns(source, {**dict.fromkeys(beside, "label"), **named_columns})), beside


def _counted(source: TableSource, kept: Sequence[str]) -> TableSource:
    """Answers of each question in both arms. What neither gave was not offered, but for what is right."""
    frame, beside = _read(source, dict.fromkeys(("question", "arm", "answer"), "label"), kept)
    for name in ("question", "arm"):
        complete(source.path, name, frame[name].to_numpy())
    arms = frame["arm"].str.lower().str.extract(rf"^({'|'.join(ARMS)})", expand=False)
    unknown = arms.isna().to_numpy()
    refuse_row(source.path, unknown, lambda at: f", arm: {frame['arm'][at]!r}; give {' or '.join(map(repr, ARMS))}")
    frame["answer"] = arms + "_" + frame["answer"].fillna(OTHER).str.lower()
    keys = ["question", *beside]
    counts = frame.groupby([*keys, "answer"], dropna=False, sort=False).size().unstack("answer")
    truths = counts.index.to_frame().get("truth", pd.Series(dtype=object)).str.lower()
    for option in sorted({*(name.partition("_")[2] for name in counts.columns), *truths.dropna()}):
        both = [f"{arm}_{option}" for arm in ARMS]
        counts = counts.reindex(columns=[*(name for name in counts.columns if name not in both), *both])
        offered = counts[both].notna().any(axis=1) | (option == OTHER)
        offered |= (truths == option) if len(truths) else False
        counts.loc[offered, both] = counts.loc[offered, both].fillna(0)
    return of_frame(source.path, counts.reset_index())


def _paired(source: TableSource, kept: Sequence[str]) -> TableSource:
    """Beliefs under each other prompt beside those under the standard one, in the order of their rows."""
    frame, beside = _read(source, {"context": "label", "prompt": "label", "belief": P}, kept)
    beside = [name for name in beside if name != "prompt"]
    standard = frame["prompt"].isna() | frame["prompt"].str.lower().isin(STANDARD)
    if not standard.any():
        known = ", ".join(map(repr, dict.fromkeys(frame["prompt"])))
        raise UserError(f"{source.path}: prompt: none is {STANDARD[0]!r}, with which others are compared ({known})")
    keys = [*beside, "context", "repetition"]
    frame["repetition"] = frame.groupby([*beside, "context", "prompt"], dropna=False).cumcount()
    base = frame[standard].drop(columns="prompt").rename(columns={"belief": "p_base"})
    others = frame[~standard].rename(columns={"belief": "p_alt"})
    each = base.merge(others[[*beside, "context", "prompt"]].drop_duplicates(), on=[*beside, "context"])
    paired = each.merge(others, on=[*keys, "prompt"], how="outer")
    return of_frame(source.path, paired.drop(columns="repetition"))


def _unbuilt(path: Any, data: Data, clusters: Array | None) -> Sample:
    raise NotImplementedError("its rows are put together first")


LISTED_ANSWERS = Form(
    "answers, one row per answer",
    "question, arm (single or multi), answer [, truth]",
    named(dict.fromkeys(("question", "arm", "answer"), "label"), {"truth": "label"}),
    _unbuilt,
    gather=_counted,
)
LISTED_PRIZES = Form(
    "prizes, one row per answer",
    "context, prompt (standard, and others), belief",
    named({"context": "label", "prompt": "label", "belief": P}),
    _unbuilt,
    gather=_paired,
)
