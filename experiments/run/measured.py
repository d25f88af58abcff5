"""An experiment of one number for each comparison: its mean, at every level of its factors, what levels differ by, and
of two factors in every cell, with their interaction; its verdicts, tables, figure and gallery, all made of a table that
the experiment gives.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...base.errors import UserError, nearest
from ...base.text import or_dash
from ...metrics import PairedDifference, paired_difference_moments, paired_family
from ...metrics.consistency.competence import COVERAGE
from ...metrics.contract import Floats, Resampling
from ...metrics.metric import WORTH_BOUNDS
from ...metrics.number import Number
from ...metrics.tables.samples import ALL
from ..report.figures import Row, forests
from ..report.findings import Column, Figure, Findings, Gallery, Instance, Table
from .experiment import Experiment, Transcripts
from .galleries import gallery
from .questions import RunConfig
from .scores import gate, mean_number, resampling

CONTRAST, INTERACTION = "_contrast", "_interaction"
"""What is added to the headline in the difference of two levels, and in that of two such differences."""
COMPARED = "compared:"
"""Beside such a number: what is in it."""
FEW_LEVELS = 4
"""Of so many levels each two are compared; of more each with the first."""


class Measured(Experiment):
    """To be written: `items`, `questions`, and `measure`, which makes a table of the beliefs; its column `headline` is
    the number that is asked for.
    """

    gate = (COVERAGE,)
    coherent: ClassVar[float | None] = None
    factors: ClassVar[Sequence[str]] = ()
    """Columns of what `measure` gives, at whose levels the headline is scored and between which it is compared."""
    contrasts: ClassVar[Mapping[str, Sequence[tuple[str, str]]]] = {}
    """Factor -> which of its levels are compared, the first less the second; not said, each two."""

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "headline") and "makes" not in vars(cls):
            alone = cls.own_scores is Measured.own_scores and cls.samples is Experiment.samples
            cls.makes = tuple(cls.headline + end for end in ("", CONTRAST, INTERACTION)) if alone else None

    @abstractmethod
    def measure(self, config: Any, beliefs: pd.DataFrame) -> pd.DataFrame:
        """A row for each comparison: `item`, the headline's value (NaN: undefined), the factors, and `method` where
        there are several.

        Args:
            beliefs: the belief table of one kind, a row for each read-out and option.
        """

    def own_scores(self, config: RunConfig, beliefs: pd.DataFrame) -> Iterator[Number]:
        """The headline of all rows and each level, what levels differ by, and whether the options hold the answer."""
        for kind, own in beliefs.groupby("kind", sort=False, observed=True):
            for method, rows in self._measured(config, own).groupby("method", sort=False):
                if kind == "exact":
                    readouts = own[(own["method"] == method) & (own["option_index"] == 0)]
                    masses, of = ({"": readouts[name].to_numpy()} for name in ("coverage", "cluster"))
                    yield gate(config, str(method), coverage=masses, read_groups=of)
                named: dict[str, Any] = {"kind": str(kind), "quantity": self._words}
                for subset, part in _parts(rows, self.factors):
                    values, clusters = part[self.headline].to_numpy(), part["cluster"].to_numpy()
                    yield mean_number(config, self.headline, str(method), values, clusters, subset=subset, **named)
                yield from self._contrasts(config, str(method), str(kind), rows)

    def findings(
        self, config: RunConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """The headline, tables by level and by contrast, and every row with what was said, the least coherent first."""
        asked = "" if self.coherent is None else f"; {self.coherent:g} is coherent"
        column = Column(self.headline, self._words, f"mean of {self._words}{asked}")
        means, contrasts, interactions = (
            list(dict.fromkeys(number.subset for number in numbers if number.metric == metric and number.subset != ALL))
            for metric in (self.headline, self.headline + CONTRAST, self.headline + INTERACTION)
        )

        def apart(end: str, these: str, title: str, explanation: str) -> list[Column]:
            zero = f"p that the {title} is 0, adjusted by Holm over the {these} of a method"
            p = Column(self.headline + end, "adjusted p", zero, field="p_adjusted")
            return [Column(self.headline + end, title, explanation, beside=COMPARED), p]

        tables = [
            Table("Contrasts", PAIRING, apart(CONTRAST, "contrasts", "difference", "mean at the first level minus "
                  "mean at the second"), contrasts, leads=True),
            Table("Interaction", CROSSED, apart(INTERACTION, "interactions", "difference of differences", "the "
                  "difference of the second factor at the first level of the first, minus that at its second level"),
                  interactions, leads=True),
            Table("By factor", "The items of each level.", [column], [name for name in means if not self._cell(name)]),
            Table("By cell", "The items of each level of both.", [column], [*filter(self._cell, means)]),
        ]  # fmt: skip
        return Findings(
            f"{self.summary[:1].upper()}{self.summary[1:]} A row is {self._words} of an item{asked}.",
            [column],
            [table for table in tables if table.subsets],
            lead=self._lead(numbers, asked) if contrasts else None,
            gallery=self._gallery(config, beliefs, transcripts),
        )

    def _lead(self, numbers: Sequence[Number], asked: str) -> Figure:
        """All items and each level, and beside them what levels differ by."""
        methods = {number.method for number in numbers}

        def panel(title: str, *metrics: str, dashed: float | None) -> tuple[str, list[Row], float | None]:
            of = [number for number in numbers if number.metric in metrics and number.kind == "exact"]
            of = [number for number in of if not self._cell(number.subset) or number.metric != self.headline]
            named = [(f"{number.method}, " * (len(methods) > 1) + number.subset, number) for number in of]
            return title, [(label, number.score, False) for label, number in named], dashed

        words = self._words
        apart = (self.headline + CONTRAST, self.headline + INTERACTION)
        panels = [panel(words, self.headline, dashed=self.coherent), panel("difference", *apart, dashed=0.0)]
        caption = (
            f"The first panel shows the mean of {words}{asked}, the second the differences of levels (first minus "
            "second); no difference is 0."
        )
        return forests(f"{words[:1].upper()}{words[1:]}, and what the factors make of it", panels, caption)

    def _cell(self, subset: str) -> bool:
        """Whether a part is a level of each of two factors."""
        first, *second = self.factors or ("",)
        return len(second) == 1 and subset.startswith(f"{first}: ") and f", {second[0]}: " in subset

    @property
    def _words(self) -> str:
        return self.headline.replace("_", " ")

    def _measured(self, config: RunConfig, beliefs: pd.DataFrame) -> pd.DataFrame:
        """What is measured, with the method and cluster of each row. Raises UserError for a table of other columns."""
        table = self.measure(config, beliefs).reset_index(drop=True)
        methods = beliefs["method"].astype(str).unique()
        if "method" not in table.columns and len(methods) == 1:
            table = table.assign(method=methods[0])
        for name in ("item", "method", self.headline, *self.factors):
            if name not in table.columns:
                raise UserError(f"{self.name}: `measure` gives no column {name!r}; {nearest(name, map(str, table))}")
        cluster_of = beliefs.astype({"item": str}).groupby("item", sort=False)["cluster"].first().astype(str)
        table = table.astype({name: str for name in ("item", "method", *self.factors)})
        if lost := sorted({*table["item"]} - {*cluster_of.index}):
            raise UserError(f"{self.name}: `measure` gives an item {lost[0]!r} that was not read")
        return table.assign(cluster=table["item"].map(cluster_of))

    def _contrasts(self, config: RunConfig, method: str, kind: str, rows: pd.DataFrame) -> Iterator[Number]:
        """Differences between the levels of each factor, and of two factors between those; p by Holm over each."""
        by_factor = {factor: self._pairs(factor, rows) for factor in self.factors}
        pairs = [(factor, pair) for factor, pairs in by_factor.items() for pair in pairs]
        crossed = [*product(*by_factor.values())] if len(by_factor) == 2 else []
        how, value = resampling(config), self.headline
        contrasts = {
            f"{factor}: {one} - {two}": _difference(rows, value, (factor, *self.factors), (one, two), how, len(pairs))
            for factor, (one, two) in pairs
        }
        interactions = {
            ", ".join(f"{factor}: {one} - {two}" for factor, (one, two) in zip(by_factor, both, strict=True)):
            _interaction(rows, value, self.factors, both, how, len(crossed))
            for both in crossed
        }  # fmt: skip
        for end, words, scores in ((CONTRAST, "difference", contrasts), (INTERACTION, "interaction", interactions)):
            for subset, score in paired_family({name: score for name, (score, _) in scores.items()}).items():
                yield Number(
                    metric=self.headline + end,
                    method=method,
                    kind=kind,
                    subset=subset,
                    score=score,
                    quantity=f"{self._words}, {words}",
                    family=end,
                    code="F1",
                    beside={COMPARED: scores[subset][1]},
                )

    def _pairs(self, factor: str, rows: pd.DataFrame) -> Sequence[tuple[str, str]]:
        levels = list(dict.fromkeys(rows[factor]))
        if factor not in self.contrasts:
            every = [*combinations(levels, 2)]
            return every if len(levels) <= FEW_LEVELS else [pair for pair in every if pair[0] == levels[0]]
        for level in (level for pair in self.contrasts[factor] for level in pair):
            if level not in levels:
                raise UserError(f"{self.name}: contrasts: {factor!r} has no level {level!r}; {nearest(level, levels)}")
        return self.contrasts[factor]

    def _gallery(self, config: RunConfig, beliefs: pd.DataFrame, transcripts: Transcripts) -> Gallery:
        exact = beliefs[beliefs["kind"] == "exact"]
        rows = self._measured(config, exact)
        by = ["item", "method", *(name for name in self.factors if name in exact.columns)]
        exact = exact.astype(dict.fromkeys((*by, "readout_id", "option"), str))
        readouts = {key if isinstance(key, tuple) else (key,): own for key, own in exact.groupby(by, sort=False)}
        own = [readouts.get(key, exact.iloc[:0]) for key in rows[by].itertuples(index=False, name=None)]
        values = rows[self.headline].to_numpy(dtype=np.float64)
        facets = ["method", *self.factors]

        def instance(i: int, said: Mapping[str, Any]) -> Instance:
            talks = []
            for name, of in own[i].groupby("readout_id", sort=False):
                if name in said:
                    told = (f"{option} {or_dash(p)}" for option, p in zip(of["option"], of["prob"], strict=True))
                    talks.append((f"{name}: {', '.join(told)}", said[str(name)]))
            facts = f"{rows['item'].iloc[i]}: {self._words} {or_dash(values[i])}"
            return Instance([str(rows[name].iloc[i]) for name in facets], float(values[i]), facts, talks)

        return gallery(
            np.abs(values - (self.coherent or 0.0)),
            lambda i: list(dict.fromkeys(own[i]["readout_id"])),
            instance,
            transcripts,
            facets=facets,
            score=self._words,
            ranking=f"rows; the {'furthest from coherent' if self.coherent is not None else 'largest'} come",
            seed=config.seed,
        )


PAIRING = (
    "Items that have both levels are compared with themselves, at the same levels of the other factors (by their means "
    "where they have several rows), and the others are left out; where fewer than half have both, the levels' means "
    "over all items are compared. Below each number stands which it is. Clusters are resampled together; p is adjusted "
    "by Holm over all contrasts of a method."
)
CROSSED = (
    "By how much one factor changes the difference that the other makes, over the items that have a number in as many "
    "of the four cells as any item has, or over all items where fewer than half do. Clusters are resampled together; p "
    "is adjusted by Holm over all interactions of a method."
)


def _parts(rows: pd.DataFrame, factors: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """All rows, then those of each level of each factor, and of two factors those of each cell."""
    yield ALL, rows
    for factor in factors:
        for level, part in rows.groupby(factor, sort=False):
            yield f"{factor}: {level}", part
    if len(factors) == 2:
        for levels, part in rows.groupby([*factors], sort=False):
            yield ", ".join(f"{factor}: {level}" for factor, level in zip(factors, levels, strict=True)), part


def _difference(
    rows: pd.DataFrame, value: str, factors: Sequence[str], pair: tuple[str, str], how: Resampling, family: int
) -> tuple[PairedDifference, str]:
    """Mean of one level of the first factor less that of another, over the items that have both, or, if fewer than half
    have, of all that have one; and which of these it is, in words.

    An item is compared with itself at the same levels of the other factors: else what one arm lacks at one of them
    would count as a difference of this one. Where more than 2% of what is compared lacks one value, the status says so.
    """
    factor, *others = dict.fromkeys(factors)
    rows = rows[rows[factor].isin(pair)]
    for place in (["item", *others], ["item"]):
        by_level = rows.groupby([*place, factor], sort=False)[value]
        means, asked = (of.unstack().reindex(columns=[*pair]) for of in (by_level.mean(), by_level.size()))
        whole, both, either = asked.notna().all(axis=1), means.notna().all(axis=1), means.notna().any(axis=1)
        within = means[both].groupby(level="item", sort=False).mean()
        n = means[either].index.unique("item").size
        if paired := _most(len(within), n):
            break
    lacking, compared = (whole & either & ~both).sum(), whole.sum() if paired else either.sum()
    means = within if paired else means[either]
    clusters = rows.drop_duplicates("item").set_index("item")["cluster"].reindex(means.index).to_numpy()
    values, there = means.fillna(0.0).to_numpy(dtype=np.float64), means.notna().to_numpy(dtype=np.float64)
    first, second = (np.column_stack([values[:, k], there[:, k]]) for k in (0, 1))
    score = paired_difference_moments(first, second, _mean, clusters, family_size=family, how=how)
    between = f"different items; {len(within)} of {n} have both"
    return _qualified(score, lacking, compared), f"{len(within)} of {n} items, each with itself" if paired else between


def _interaction(
    rows: pd.DataFrame,
    value: str,
    factors: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    how: Resampling,
    family: int,
) -> tuple[PairedDifference, str]:
    """What two levels of the second factor differ by at one level of the first, less that at another, over the items
    that have a value in the most of the four cells, or, if these are fewer than half, all items that have one in any;
    and of how many that is. Status as that of `_difference`.
    """
    by_cell = rows.groupby(["item", *factors], sort=False)[value]
    cells = pd.MultiIndex.from_product(pairs)
    means, asked = (of.unstack([1, 2]).reindex(columns=cells) for of in (by_cell.mean(), by_cell.size()))
    known, asked_in = means.notna().sum(axis=1), asked.notna().sum(axis=1)
    lacking, anywhere, most = ((known > 0) & (known < asked_in)).sum(), known > 0, known == known.max()
    means = means[anywhere & most if _most((anywhere & most).sum(), anywhere.sum()) else anywhere]
    clusters = rows.drop_duplicates("item").set_index("item")["cluster"].reindex(means.index).to_numpy()
    moments = np.stack([means.fillna(0.0).to_numpy(), means.notna().to_numpy(dtype=np.float64)], axis=2)
    first, second = (moments[:, k : k + 2].reshape(len(means), 4) for k in (0, 2))

    def apart(sums: Floats) -> Floats:
        return _mean(sums[:, :2]) - _mean(sums[:, 2:])

    score = paired_difference_moments(first, second, apart, clusters, family_size=family, how=how)
    return _qualified(score, lacking, anywhere.sum()), f"{len(means)} of {anywhere.sum()} items"


def _most(n: int, of: int) -> bool:
    """Whether so many items are enough to leave the others out: at least half."""
    return 2 * n >= of


def _qualified(score: PairedDifference, lacking: int, asked: int) -> PairedDifference:
    """With a status that says so if more than 2% of what was asked lacks a value."""
    return replace(score, status="missing_rows") if score.status == "ok" and lacking > WORTH_BOUNDS * asked else score


def _mean(sums: Floats) -> Floats:
    """[draws] of sums [draws, 2] over rows of values, and of how many rows have one."""
    return np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=sums[:, 1] > 0)
