"""A probe data set: its rows, from the belief table of a run or a user's own, what they share, and their targets
(PROBES 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..base.errors import UserError, in_one_line, nearest
from ..hooks.store import ActivationStore
from ..metrics.beliefs import condition_columns, condition_keys
from ..metrics.contract import Floats, probabilities
from ..metrics.divergence import clipped_logit
from .features import OF_OPTION, Features, ReadAt

# What a probe is trained on: a probability, on the log-odds scale where it is regressed on (PROBES 1, 2).

EPS = 1e-3
"""Targets are moved this far off 0 and 1 before their log-odds are taken."""
GRADED = "graded"
BINARY = "binary"


@dataclass(frozen=True)
class Target:
    """[n] targets of one probe."""

    name: str
    """`truth`, `posterior` (p* of x), `exact`, `verbal`, `action`, or a name of the user's own."""
    prob: Floats
    """[n] in [0, 1]."""
    logit: Floats
    """[n] natural log-odds, clipped."""
    n_clipped: int

    @property
    def kind(self) -> str:
        """`binary` if every target is 0 or 1, else `graded`."""
        return BINARY if bool(((self.prob == 0) | (self.prob == 1)).all()) else GRADED


def make_target(name: str, values: ArrayLike, eps: float = EPS, *, options_of: ArrayLike | None = None) -> Target:
    """Checked targets: log-odds; or, of options that are read at their own tokens, the logits of a softmax.

    Args:
        name: of what is told.
        values: [n] probabilities.
        eps: how far off 0 and 1 they are at least.
        options_of: [n] the read-out whose option each is; None: each is told by itself.

    Raises UserError for a hole, a value that is no probability, one class only, or targets that are all the same.
    """
    try:
        prob = probabilities(values, f"target {name}")
    except ValueError as error:
        raise UserError(str(error)) from None
    if np.isnan(prob).any():
        row = int(np.argmax(np.isnan(prob)))
        raise UserError(f"target {name}: row {row} has none; leave out rows without a target")
    if len(prob) == 0 or prob.min() == prob.max():
        fault = f"all {len(prob)} rows have {prob[0]:g}" if len(prob) else "there are no rows"
        raise UserError(f"target {name}: {fault}; a probe needs targets that differ")
    logit, n_clipped = clipped_logit(prob, name, eps)
    if options_of is not None:
        logit = logits_over_options(prob, options_of, eps)
    return Target(name, prob, logit, n_clipped)


# A probe data set: rows, what they share, what is known of them, and where their activations are.

COLUMNS = ("readout_id", "group")
"""What every row has. Others, where they are known: `text`; `role`, what a row is within its group; `exact` and
`verbal`, beliefs of the model itself; and conditions to transfer between, such as `domain`, `template`, `negated`."""


@dataclass(frozen=True)
class ProbeData:
    """[n] rows. Two that share content (question, entity, paraphrases, X and not X) share a group (PROBES 3)."""

    rows: pd.DataFrame
    target: Target
    features: Features
    points: tuple[ReadAt, ...]
    """Where activations can be read."""
    options: Floats | None = None
    """[n, k] the target of each of k > 2 options, of which `target` is the first's; None: there is no more to tell."""

    def __post_init__(self) -> None:
        for name in COLUMNS:
            if name not in self.rows.columns:
                raise UserError(f"probe data: column {name!r} is missing")
        if len(self.rows) != len(self.target.prob):
            raise UserError(f"probe data: {len(self.rows)} rows and {len(self.target.prob)} targets")
        if self.rows["group"].isna().any():
            raise UserError(f"probe data: row {int(np.argmax(self.rows['group'].isna()))} has no group")
        if not self.points:
            raise UserError("probe data: there is no site, layer and position to read")

    @property
    def groups(self) -> NDArray[Any]:
        """[n]."""
        return self.rows["group"].to_numpy()

    @property
    def roles(self) -> NDArray[Any] | None:
        """[n] what a row is within its group, if that is known."""
        return self.rows["role"].to_numpy() if "role" in self.rows.columns else None

    @property
    def n_groups(self) -> int:
        """How many there are."""
        return int(self.rows["group"].nunique())

    def read(self, at: ReadAt) -> Floats:
        """[n, d] features. Raises UserError for another shape, and for one that is no number, naming the read-out."""
        x = self.features.read(at)
        if x.ndim != 2 or len(x) != len(self.rows):
            raise UserError(f"features: have shape {list(x.shape)} at {at}; give [rows, d], of {len(self.rows)} rows")
        if (bad := ~np.isfinite(x).all(axis=1)).any():
            name = self.rows["readout_id"].iloc[int(np.argmax(bad))]
            raise UserError(f"features: {name!r} at {at} holds a value that is no number; leave the row out")
        return x

    def at(self, points: Sequence[ReadAt]) -> "ProbeData":
        """The same at some of its points."""
        return replace(self, points=tuple(points))


# Rows of a probe data set from a belief table and the stores that lie beside it (PROBES 1).

TARGETS = ("outcome", "exact", "verbal")
"""What a belief table holds: truth where it is known, the model's exact belief, its stated one."""
READINGS = ("wording", "reading")
"""Conditions of one of several readings at a place."""
TOKEN = "token"
"""The condition of a belief that was read in passing: at which token of the prompt,"""
READ_BY = ("probe", "lens", TOKEN)
"""and by what."""
WHERE = ("method", "scenario", "step")
OF_THE_RUN = ("cluster", "store", "exact", "verbal", "p_exact", "p_verbal")
"""Columns that a run alone can tell: whose they are, where their activations lie, and what the model believes."""


def belief_rows(
    beliefs: pd.DataFrame, readout_ids: Sequence[str], option: str | None = None, number: int = 0
) -> pd.DataFrame:
    """One row per read-out that was captured: its group, its conditions, and the beliefs about one option.

    Args:
        beliefs: a belief table, of exact and, if there are any, verbal rows.
        readout_ids: those whose activations are stored.
        option: whose probability is the belief; None: that of the option's `number` in each read-out.
        number: of the option where none is named.

    `exact` and `verbal` are log-odds, `p_exact`, `p_verbal` and `outcome` probabilities.

    Raises UserError if the table and the store share no read-out, or no read-out has that option.
    """
    stored = pd.Index(readout_ids).unique()
    exact = _about(beliefs[beliefs["kind"] == "exact"], option, number)
    exact = exact[exact["readout_id"].astype(str).isin(stored)]
    if exact.empty:
        known = sorted(set(beliefs["option"].astype(str)))
        if option is not None and option not in known:
            raise UserError(f"option {option!r}: no read-out has it; {nearest(option, known)}")
        raise UserError("beliefs and activations share no read-out; give the store of the same run")
    rows = exact[["readout_id", "cluster", "item", *WHERE]].astype(str)
    rows = rows.assign(group=rows["cluster"], **_single_conditions(exact)).reset_index(drop=True)
    prob = exact["prob"].to_numpy(dtype=np.float64)
    verbal = _about(beliefs[beliefs["kind"] == "verbal"], option, number)
    source = verbal["of"].astype(str).where(verbal["of"].astype(str) != "", verbal["readout_id"].astype(str))
    values = verbal["prob"].to_numpy(dtype=np.float64)
    stated, by_place = (pd.Series(values, key).groupby(level=0).mean() for key in (source.to_numpy(), _places(verbal)))
    by_source, near = stated.reindex(rows["readout_id"]).to_numpy(), by_place.reindex(_places(exact)).to_numpy()
    p_verbal = np.where(np.isnan(by_source), near, by_source)
    role = rows[["method", "scenario", "step"]].agg("/".join, axis=1)
    n_options = beliefs[beliefs["kind"] == "exact"]["readout_id"].astype(str).value_counts()
    return rows.assign(
        role=role,
        n_options=n_options.reindex(rows["readout_id"]).to_numpy(),
        outcome=exact["outcome"].to_numpy(dtype=np.float64),
        p_exact=prob,
        p_verbal=p_verbal,
        exact=clipped_logit(prob, "exact")[0],
        verbal=clipped_logit(p_verbal, "verbal", eps=1e-3)[0],
    )


def option_rows(beliefs: pd.DataFrame, store: ActivationStore) -> pd.DataFrame:
    """The same, a row for each option of each read-out whose options' own tokens were captured: `option_index` is its
    number, `option_text` what it says, `option_position` its place among those that are listed, from 0. Raises
    UserError if there is none.
    """
    every, parts = store.rows(), []
    exact = beliefs[beliefs["kind"] == "exact"].astype({"readout_id": str, "option": str})
    for number in count():
        stored = every[every["position"] == f"{OF_OPTION}-{number}"].set_index("readout_id")["token_index"]
        if stored.empty:
            break
        says = exact[exact["option_index"] == number].set_index("readout_id")["option"]
        rows = belief_rows(beliefs, sorted(stored.index), number=number).assign(option_index=number)
        parts.append(
            rows.assign(
                **{
                    name: rows["readout_id"].map(of)
                    for name, of in (("option_text", says), ("option_position", stored))
                }
            )
        )
    if not parts:
        raise UserError(f"{store.path}: holds no options' own tokens; `ask` and `bscore` keep them with -o kinds=all")
    rows = pd.concat(parts, ignore_index=True)
    rows["option_position"] = rows.groupby("readout_id")["option_position"].rank().astype(int) - 1
    return rows


def logits_over_options(prob: ArrayLike, readout_ids: ArrayLike, eps: float = EPS) -> Floats:
    """[n] the log-probability of each option [n] less the mean of its read-out's options: the logits whose softmax the
    belief is. Log-odds of each option against the rest are none: between two options they differ by more than the
    log-ratio, by how much depends on the others. Shares below `eps` are taken for it.
    """
    log = np.log(np.maximum(np.asarray(prob, dtype=np.float64), eps))
    of = np.unique(np.asarray(readout_ids), return_inverse=True)[1]
    return log - (np.bincount(of, log) / np.bincount(of))[of]


def belief_over_options(logit: ArrayLike, readout_ids: ArrayLike) -> Floats:
    """[n] the belief in each option, the softmax of its logit [n] over the rows of its read-out [n]: the way back of
    `logits_over_options`.
    """
    speaks, of = np.asarray(logit, dtype=np.float64), np.unique(np.asarray(readout_ids), return_inverse=True)[1]
    most = np.full(of.max() + 1, -np.inf)
    with np.errstate(invalid="ignore"):  # a read-out that is no number stays none
        np.maximum.at(most, of, speaks)
    mass = np.exp(speaks - most[of])
    return mass / np.bincount(of, mass)[of]


def _single_conditions(exact: pd.DataFrame) -> dict[str, list[Any]]:
    """Column -> [n] the conditions that are no lists and that some row has."""
    values = exact[condition_columns(exact)].dropna(axis="columns", how="all").astype(object)
    values = values.where(values.notna(), None).to_dict("list")
    return {str(name): column for name, column in values.items() if not any(isinstance(x, tuple) for x in column)}


def option_targets(beliefs: pd.DataFrame, readout_ids: Sequence[str]) -> Floats | None:
    """[n, k] the exact belief in each option of these read-outs; None for two, and where they differ in number."""
    exact = beliefs[(beliefs["kind"] == "exact") & beliefs["readout_id"].astype(str).isin(set(readout_ids))]
    exact = exact.assign(readout_id=exact["readout_id"].astype(str))
    wide = exact.pivot(index="readout_id", columns="option_index", values="prob").reindex([*readout_ids])
    values = wide.to_numpy(dtype=np.float64)
    return values if values.shape[1] > 2 and np.isfinite(values).all() else None


def target_values(rows: pd.DataFrame, target: str) -> np.ndarray:
    """[n] the target of that name. Raises UserError for one that the rows do not have."""
    column = {"exact": "p_exact", "verbal": "p_verbal"}.get(target, target)
    if column not in rows.columns or rows[column].isna().all():
        raise UserError(
            f"target {target!r}: the rows do not have it; known: {', '.join(TARGETS)}, or a table of targets"
        )
    with in_one_line(f"target {target!r}"):
        return rows[column].replace("", np.nan).to_numpy(dtype=np.float64)


def join_targets(rows: pd.DataFrame, table: pd.DataFrame, where: str) -> pd.DataFrame:
    """Rows with the columns of a user's own table, by `readout_id`: `target`, and if it has them `group`, `text`, ...

    Raises UserError if the table lacks `readout_id`, has one twice, or shares none with the rows; for a column that is
    the run's own; and for groups that are missing, or between which a cluster of the run is split.
    """
    if "readout_id" not in table.columns:
        raise UserError(f"{where}: has no column 'readout_id'")
    if taken := [name for name in OF_THE_RUN if name in table.columns]:
        raise UserError(f"{where}: column {taken[0]!r} is the run's own; leave it out, or give it another name")
    joined = rows.drop(columns=[name for name in table.columns if name in rows.columns and name != "readout_id"])
    joined = joined.merge(table.astype({"readout_id": str}), on="readout_id")
    if joined.empty:
        raise UserError(f"{where}: shares no readout_id with the activations")
    if (twice := table["readout_id"].duplicated()).any():
        raise UserError(f"{where}: has {table.loc[twice, 'readout_id'].iloc[0]!r} twice; take one away")
    if "group" in table.columns:
        _require_whole_clusters(joined, where)
    return joined


def _require_whole_clusters(rows: pd.DataFrame, where: str) -> None:
    """Raise UserError for rows without a group, and for rows of one cluster in two: their content would be shared."""
    if (lacking := rows["group"].isna() | (rows["group"] == "")).any():
        raise UserError(f"{where}: {rows.loc[lacking, 'readout_id'].iloc[0]!r} has no group; give each row one")
    groups = rows.groupby("cluster", sort=False)["group"].unique()
    if (split := groups.map(len) > 1).any():
        first, second, *_ = groups[split].iloc[0]
        raise UserError(
            f"{where}: cluster {groups.index[split][0]!r} of the run lies in the groups {first!r} and {second!r}; what "
            "shares content belongs in one"
        )


def _places(beliefs: pd.DataFrame) -> list[str]:
    """Where each belief was asked for, whatever the question: a stated one may be of many exact read-outs."""
    where = beliefs[["item", "scenario", "step"]].astype(str).agg("\0".join, axis=1) if len(beliefs) else []
    return [
        f"{place}\0{conditions}" for place, conditions in zip(where, condition_keys(beliefs, READINGS), strict=True)
    ]


def _about(beliefs: pd.DataFrame, option: str | None, number: int) -> pd.DataFrame:
    if option is None:
        return beliefs[beliefs["option_index"] == number]
    return beliefs[beliefs["option"].astype(str) == option]
