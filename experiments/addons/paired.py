"""Inner read-outs among the other beliefs of a run: what both are compared by, and what only both together say."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from ...metrics import adjust
from ..experiment import Experiment, RunConfig
from ..report.blocks import Cell, TableBlock
from ..report.cells import score_cell
from ..report.text import cells
from ..runs.scores import resampling
from ..scoring.engine import score_samples
from ..scoring.number import Number, shown
from .inner.declaration import ReadInside

ADJUSTED = "p after Holm"
"""What stands beside a number."""


def named_apart(rows: pd.DataFrame, methods: Sequence[str], told: Sequence[str]) -> pd.DataFrame:
    """The rows of inner read-outs in the contexts of the exact ones, under methods of their own.

    Args:
        rows: of the belief table.
        methods: [rows] that of the exact read-out, `/`, and a name.
        told: what their variants say besides those of the exact read-outs.
    """
    variants = [json.loads(text or "{}") for text in rows["variant"].astype(str)]
    plain = [json.dumps({key: v for key, v in one.items() if key not in told}, sort_keys=True) for one in variants]
    return rows.assign(method=methods, variant=plain)


def scored_beside(experiment: Experiment, config: RunConfig, said: pd.DataFrame, inner: pd.DataFrame) -> list[Number]:
    """The numbers of inner read-outs that take other beliefs of the same contexts, and their differences from these;
    none of an experiment that declares none. All p that are not adjusted yet are adjusted together.

    Args:
        experiment: of the run.
        config: of the run.
        said: the rows that the experiment scores.
        inner: those of the inner read-outs that may enter other numbers, named apart.
    """
    if not isinstance(experiment, ReadInside) or experiment.inner.beside is None or inner.empty:
        return []
    names = set(inner["method"])
    alone = {column.metric for column in experiment.inner.columns}
    found: list[Number] = []
    for metric, samples in experiment.inner.beside(config, pd.concat([said, inner], ignore_index=True)):
        scored = score_samples(list(samples), resampling(config), metric, compared={experiment.headline})
        found += [one for one in scored.numbers if one.metric not in alone] + [*scored.differences]
    return _adjusted([one for one in found if any(name in one.method for name in names)])


def _adjusted(numbers: Sequence[Number]) -> list[Number]:
    plain = [one for one in numbers if one.score.p == one.score.p and one.family != "differences"]
    adjusted = adjust([one.score.p for one in plain]) if plain else None
    p = {} if adjusted is None else dict(zip([one.key for one in plain], adjusted.p_adjusted.tolist(), strict=True))
    return [
        replace(one, beside={**one.beside, ADJUSTED: f"{shown(p[one.key])} of {len(p)}"}) if one.key in p else one
        for one in numbers
    ]


def numbers_table(name: str, numbers: Sequence[Number]) -> TableBlock:
    """A folded table of numbers, with what is to be read beside each."""
    return TableBlock(
        head=[(name, "") for name in ("", "estimate", "p", "n", "clusters", "dropped")],
        rows=[
            [
                Cell(one.quantity or one.metric, [one.method, *(f"{k} {v}" for k, v in one.beside.items())]),
                score_cell(one.score),
                *map(Cell, cells(one.score)[2:6]),
            ]
            for one in numbers
        ],
        folded=True,
        name=name,
    )
