"""The belief table as samples: beliefs over options, by topic too, and of options that are proposed P(yes)."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from ..tables.cells import padded
from ..tables.rows import joined
from ..tables.samples import ALL, Multiclass, Sample, YesNo
from .config import AskConfig
from .table import Answered, answered, padded_truth


def samples(config: AskConfig, beliefs: pd.DataFrame) -> Iterator[Sample]:
    """Of each method all questions, then those of each value of `by`."""
    for method, asked in answered(beliefs):
        for subset, part in parts(config, asked).items():
            yield multiclass(method, subset, part)
            if proposed := [one for one in part if one.yes is not None]:
                yield _proposed(method, subset, proposed)


def parts(config: AskConfig, asked: Sequence[Answered]) -> dict[str, list[Answered]]:
    """All questions, then those of each value of the column that the settings name."""
    found = {ALL: list(asked)}
    if config.by is not None:
        for one in asked:
            value = one.topic if config.by == "topic" else one.more.get(config.by)
            found.setdefault(f"{config.by}: {value}", []).append(one)
    return found


def multiclass(method: str, subset: str, asked: Sequence[Answered]) -> Multiclass:
    """The beliefs over options of some questions."""
    several = [one.by_order for one in asked]
    return Multiclass(
        kind="exact",
        method=method,
        subset=subset,
        belief=padded([one.belief.tolist() for one in asked]),
        sizes=np.array([len(one.options) for one in asked]),
        truth=padded_truth(asked),
        coverage=np.array([one.coverage.mean() for one in asked]),
        by_order=several if max(map(len, several)) > 1 else None,
        clusters=np.array([one.cluster for one in asked]),
        keys=np.array([one.item for one in asked], dtype=object),
        why=np.array([one.status for one in asked], dtype=object),
    )


def _proposed(method: str, subset: str, asked: Sequence[Answered]) -> YesNo:
    """A row for each option: whether it is right, and the belief that it is."""
    options = [(one, place) for one in asked for place in range(len(one.options))]
    truth = [np.nan if one.truth is None else float(one.truth == place) for one, place in options]
    names = (np.array([one.item for one, _ in options]), np.array([place for _, place in options]))
    return YesNo(
        kind="exact",
        method=method,
        subset=subset,
        belief=np.concatenate([one.yes for one in asked if one.yes is not None]),
        outcome=np.array(truth) if np.isfinite(truth).any() else None,
        mass=np.concatenate([one.coverage for one in asked]),
        clusters=np.array([one.cluster for one, _ in options]),
        keys=joined(*names),
        why=np.array([one.status for one, _ in options], dtype=object),
    )
