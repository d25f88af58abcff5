"""Where questions with options come from: one name for each kind of file."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from ....hooks.documents import user_path, version_of
from ....hooks.errors import UserError
from ....hooks.settings import Settings
from .benchmarks import Rows, load_bbq, load_csqa, load_hle, load_mmlu, load_paper, load_truthfulqa
from .choice import Choice
from .plain import NINE_TOPICS, load_plain

BENCHMARKS: Mapping[str, Callable[[Path], Rows]] = {
    "csqa": load_csqa,
    "mmlu": load_mmlu,
    "bbq": load_bbq,
    "hle": load_hle,
    "truthfulqa": load_truthfulqa,
}
"""Of which questions are drawn at random; of the others, the first are taken."""


class ChoiceSource(Settings):
    """Questions with options, from one place."""

    kind: Literal["nine_topics", "paper", "yaml", "csqa", "mmlu", "bbq", "hle", "truthfulqa"]
    file: str | None = None
    """Of all kinds but the first, which comes with doxascope."""
    items: int | None = Field(default=None, ge=1)
    """Questions to take; None: as many as of every source."""
    categories: tuple[str, ...] = ()
    """Of `yaml`: names that a category may have besides subjective, random, easy and hard."""

    @model_validator(mode="after")
    def _has_its_file(self) -> "ChoiceSource":
        if (self.file is None) != (self.kind == "nine_topics"):
            raise ValueError(f"kind {self.kind!r}: {'needs a' if self.file is None else 'takes no'} `file`")
        if self.categories and self.kind != "yaml":
            raise ValueError(f"kind {self.kind!r}: takes no `categories`, which go with `yaml`")
        return self

    def choices(self, n: int, seed: int) -> list[Choice]:
        """`n` questions, or as many as `items` says; more begin with the same ones.

        Those of a benchmark are drawn as `pandas.DataFrame.sample(random_state=seed)` draws rows.

        Raises UserError if there are not so many.
        """
        rows = loaded(self.kind, self.file, self.categories)
        drawn = np.random.RandomState(seed).permutation(len(rows)) if self.kind in BENCHMARKS else range(len(rows))
        every = [one for i in drawn if (one := rows[i])]
        wanted = n if self.items is None else self.items
        if len(every) < wanted:
            raise UserError(f"{self.file or self.kind}: has {len(every)} questions, fewer than {wanted}; ask for fewer")
        return every[:wanted]


def loaded(kind: str, file: str | None, categories: tuple[str, ...] = ()) -> Rows:
    """The questions of a file, row by row, by its kind; read once until the file changes."""
    path = NINE_TOPICS if file is None else user_path(file)
    return _loaded(kind, path, version_of(path), categories)


@lru_cache(maxsize=8)
def _loaded(kind: str, path: Path, _: tuple[int, ...], categories: tuple[str, ...]) -> Rows:
    if kind in ("nine_topics", "yaml"):
        return tuple(load_plain(path, categories))
    return tuple(load_paper(path) if kind == "paper" else BENCHMARKS[kind](path))
