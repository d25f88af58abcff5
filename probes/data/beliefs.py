"""Rows of a probe data set from a belief table and the stores that lie beside it (PROBES 1)."""

import json
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...hooks.errors import UserError, in_one_line, nearest
from ...metrics.logodds import clipped_logit

TARGETS = ("outcome", "exact", "verbal")
"""What a belief table holds: truth where it is known, the model's exact belief, its stated one."""
READINGS = ("wording", "reading")
"""What a variant says of one of several readings at a place."""
CONDITIONS = ("method", "scenario", "step", "variant")
OF_THE_RUN = ("cluster", "store", "exact", "verbal", "p_exact", "p_verbal")
"""Columns that a run alone can tell: whose they are, where their activations lie, and what the model believes."""


def belief_rows(beliefs: pd.DataFrame, readout_ids: Sequence[str], option: str | None = None) -> pd.DataFrame:
    """One row per read-out that was captured: its group, its conditions, and the beliefs about one option.

    Args:
        beliefs: a belief table, of exact and, if there are any, verbal rows.
        readout_ids: those whose activations are stored.
        option: whose probability is the belief; None: the first option of each read-out.

    `exact` and `verbal` are log-odds, `p_exact`, `p_verbal` and `outcome` probabilities.

    Raises UserError if the table and the store share no read-out, or no read-out has that option.
    """
    stored = pd.Index(readout_ids).unique()
    exact = _about(beliefs[beliefs["kind"] == "exact"], option)
    exact = exact[exact["readout_id"].astype(str).isin(stored)]
    if exact.empty:
        known = sorted(set(beliefs["option"].astype(str)))
        if option is not None and option not in known:
            raise UserError(f"option {option!r}: no read-out has it; {nearest(option, known)}")
        raise UserError("beliefs and activations share no read-out; give the store of the same run")
    rows = exact[["readout_id", "cluster", "item", *CONDITIONS]].astype(str)
    rows = rows.assign(group=rows["cluster"]).reset_index(drop=True)
    prob = exact["prob"].to_numpy(dtype=np.float64)
    verbal = _about(beliefs[beliefs["kind"] == "verbal"], option)
    source = verbal["of"].astype(str).where(verbal["of"].astype(str) != "", verbal["readout_id"].astype(str))
    said = verbal["prob"].to_numpy(dtype=np.float64)
    stated, by_place = (pd.Series(said, key).groupby(level=0).mean() for key in (source.to_numpy(), _places(verbal)))
    own, near = stated.reindex(rows["readout_id"]).to_numpy(), by_place.reindex(_places(exact)).to_numpy()
    p_verbal = np.where(np.isnan(own), near, own)
    role = rows[["method", "scenario", "step"]].agg("/".join, axis=1)
    return rows.assign(
        role=role,
        outcome=exact["outcome"].to_numpy(dtype=np.float64),
        p_exact=prob,
        p_verbal=p_verbal,
        exact=clipped_logit(prob, "exact")[0],
        verbal=clipped_logit(p_verbal, "verbal", eps=1e-3)[0],
    )


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
    if own := [name for name in OF_THE_RUN if name in table.columns]:
        raise UserError(f"{where}: column {own[0]!r} is the run's own; leave it out, or give it another name")
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
        one, two, *_ = groups[split].iloc[0]
        raise UserError(
            f"{where}: cluster {groups.index[split][0]!r} of the run lies in the groups {one!r} and {two!r}; what "
            "shares content belongs in one"
        )


def _places(beliefs: pd.DataFrame) -> list[str]:
    """Where each belief was asked for, whatever the question: a stated one may be of many exact read-outs."""
    told = [json.loads(text or "{}") for text in beliefs["variant"].astype(str)]
    plain = [{key: value for key, value in one.items() if key not in READINGS} for one in told]
    where = beliefs[["item", "scenario", "step"]].astype(str).agg("\0".join, axis=1) if len(beliefs) else []
    return [f"{place}\0{json.dumps(one, sort_keys=True)}" for place, one in zip(where, plain, strict=True)]


def _about(beliefs: pd.DataFrame, option: str | None) -> pd.DataFrame:
    if option is None:
        return beliefs[beliefs["option_index"] == 0]
    return beliefs[beliefs["option"].astype(str) == option]
