"""A probe on arrays from anywhere, by one call: nested grouped cross-validation, a sweep over layers, the card."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..base.errors import UserError, in_one_line, nearest, told_briefly
from ..base.settings import parse
from ..hooks.store import Header
from ..metrics.contract import Floats
from .dataset import ProbeData, make_target
from .evidence.study import Study, StudyPlan
from .features import OF_ARRAYS, ArrayFeatures, ReadAt
from .job import RegisteredPlace, run_job
from .probe import Probe
from .report_card import Card, told
from .sweep import Sweep, at_depth

BESIDE = ("text", "role", "pair", "negated", "polarity", "template", "domain", "scenario", "exact", "verbal")
"""What may be known of each row: its words, to do better than; what it is within its group; a statement and its
negation (`pair`, `negated`); levels to transfer between; and what the model believes, in log-odds."""

PRINTED_NAMES = {"r2": "R2", "auc": "AUC", "slope": "calibration slope"}
"""Number of a study -> what it is called where it is printed."""


@dataclass(frozen=True)
class ArrayProbe:
    """A probe with what it rests on; prints as its card."""

    probe: Probe
    card: Card
    study: Study
    """Of the layer that the probe reads: its numbers with their intervals."""
    sweep: Sweep
    """Over the layers that were given."""

    @property
    def beliefs(self) -> Floats:
        """[n] the probability that each row has by the fit that did not see its group."""
        return self.study.crossed.belief

    @property
    def curve(self) -> pd.DataFrame:
        """A row for each layer: out-of-fold `r2`, and `p_max`, how often permuted targets have as good a best layer."""
        layers = [at.layer for at in self.sweep.points]
        return pd.DataFrame({"layer": layers, "r2": self.sweep.r2, "p_max": self.sweep.p_max})

    def table(self) -> pd.DataFrame:
        """A row for each claim: its verdict, its evidence, and what would have spoken against it."""
        return pd.DataFrame(self.card.claims)[["name", "verdict", "evidence", "falsifier", "claim"]]

    def __str__(self) -> str:
        meta = self.probe.meta
        lines = [f"Probe {meta.name!r} at layer {meta.layer}: {self.card.headline}"]
        lines += [f"  {said}: {told(self.study.numbers[name])}" for name, said in PRINTED_NAMES.items()]
        lines += [f"  {claim.name}: {claim.verdict}; {claim.evidence}" for claim in self.card.claims]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False)


@told_briefly
def probe_arrays(
    x: Any,
    y: ArrayLike,
    groups: ArrayLike | None,
    *,
    name: str = "probe",
    layers: Sequence[int] | None = None,
    layer: int | None = None,
    before_question: bool | None = None,
    beside: Mapping[str, Sequence[Any]] | pd.DataFrame | None = None,
    **plan: Any,
) -> ArrayProbe:
    """Train a probe on arrays and judge it: nested cross-validation by group, permutations, intervals by refits of
    resampled groups, controls, and the report card.

    Args:
        x: [n, d] or [n, layers, d] activations, of numpy or torch.
        y: [n] the target: truth as 0 and 1 or booleans, or a probability.
        groups: [n] what shares content (a fact, its negation, its paraphrases) bears one name and is held out together;
            has to be said, `range(n)` where no two rows share any.
        name: of the probe.
        layers: which layers of the model those of `x` are; None: from 0.
        layer: the one that the claims are about; name it, before looking. None: the one nearest to `depth` (.6) of the
            highest number in `layers`, which of two is the last.
        before_question: whether `x` was read at least one message before the answer is asked for; None: nobody knows.
            Only then can the probe be called more than a read-out.
        beside: column -> [n] what else is known of the rows (`BESIDE`).
        plan: settings of `StudyPlan`: `folds`, `penalties`, `permutations`, `refits`, `depth`, `seed`, ...

    Raises UserError for arrays that do not fit together, hold what is no number, or whose targets are all alike, and
    for a column or a setting that is unknown.
    """
    if groups is None:
        raise UserError(
            "groups: say by a name for each row which ones share content (a fact, its negation, its paraphrases), so "
            "that they are held out together; groups=range(n) if no two do"
        )
    values, target = _array(x, "x"), make_target(name, _array(y, "y").astype(np.float64))
    values = values[:, None] if values.ndim == 2 else values
    if values.ndim != 3:
        raise UserError(f"x: has shape {list(values.shape)}; give [n, d], or [n, layers, d]")
    n, n_layers, width = values.shape
    numbers = [*range(n_layers)] if layers is None else [*layers]
    if len(numbers) != n_layers or len({*numbers}) != n_layers:
        raise UserError(f"layers: {len({*numbers})} different ones for the {n_layers} of x; give one for each")
    points = {ReadAt("resid_post", number, OF_ARRAYS): values[:, i] for i, number in enumerate(numbers)}
    settings = parse(StudyPlan, plan, "probe_arrays")
    chosen = at_depth([*points], settings.depth, max(numbers) + 1) if layer is None else layer
    if chosen not in numbers:
        raise UserError(f"layer {chosen}: is none of those of x: {', '.join(map(str, numbers))}")
    at = ReadAt("resid_post", chosen, OF_ARRAYS)
    data = ProbeData(_rows(n, np.asarray(groups), beside), target, ArrayFeatures(points), tuple(points))
    site = {True: "before the question", False: "read-out", None: "unknown"}[before_question]
    header = Header(sites=(at.site,), layers=tuple(numbers), d_model=width, dtype="float32", conditions={})
    with tempfile.TemporaryDirectory() as folder:
        judged = run_job(data, RegisteredPlace(at, site), header, settings, name=name, folder=Path(folder))  # pyright: ignore[reportArgumentType]
    return ArrayProbe(judged.probe, judged.card, judged.study, judged.sweep)


def _array(values: Any, name: str) -> np.ndarray:
    """An array of numpy or torch, on whatever device and of whatever type."""
    with in_one_line(name, "give an array of numbers"):
        if hasattr(values, "detach"):
            values = values.detach().to("cpu").double().numpy()
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise UserError(f"{name}: holds {array.dtype}, no numbers")
        return array


def _rows(n: int, groups: np.ndarray, beside: Mapping[str, Sequence[Any]] | pd.DataFrame | None) -> pd.DataFrame:
    """What is known of each row. Raises UserError for a column of another length, or an unknown one."""
    ids = [f"row-{i}" for i in range(n)]
    columns: dict[str, Any] = {"group": groups}
    columns |= {str(name): np.asarray(values) for name, values in (beside if beside is not None else {}).items()}
    for name, values in columns.items():
        if name not in ("group", *BESIDE):
            raise UserError(f"beside: column {name!r} is unknown; {nearest(name, BESIDE)}")
        if len(values) != n:
            raise UserError(f"{name}: has {len(values)} rows, and x {n}")
    return pd.DataFrame({"readout_id": ids, **columns})
