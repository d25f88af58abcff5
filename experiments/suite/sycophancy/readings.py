"""From the belief table to readings, and from these to arms and updates (METRICS D)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ....metrics import bayes_posterior, licensed_posterior
from ....metrics.beliefs import conditions
from ....metrics.contract import Floats
from .ask import COLUMNS, NOT_X, SPEAKERS, X

PLACE = ["item", "involvement", "evidence"]
"""What an arm and its base have in common."""
CELL = ["item", "cluster", "task", "outcome"]
MARKS = ("task", "truth", "wording", "denied", "reading")
GOOD = ("ok", "low_coverage")


def readings(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per kind, method, context and reading: `belief` in the claim, the mean of P(claim) and 1 - P(negation)
    where both were read and NaN if one of them has no number; `complement`, what these two sum to less 1; `coverage`,
    `status`, and the columns of the context.

    A reading is a wording, or a half of the sampled answers to one.
    """
    table = beliefs[beliefs["option_index"] == 0].reset_index(drop=True)
    marked = pd.DataFrame(conditions(table, [*COLUMNS, *MARKS]))
    marked["reading"] = marked["wording"].astype(int).astype(str) + marked["reading"].map(
        lambda half: "" if pd.isna(half) else f".{int(half)}"
    )
    table = pd.concat(
        [table[["item", "cluster", "outcome", "prob", "coverage", "status", "kind", "method"]], marked], axis=1
    )
    table = table.astype(dict.fromkeys(("item", "cluster", "status", "kind", "method"), str))
    table["belief"] = table["prob"].where(~table["denied"].astype(bool), 1 - table["prob"])
    collapsed, groups = _collapsed(table, ["kind", "method", *CELL, *COLUMNS, "reading", "truth"])
    collapsed["complement"] = (groups["prob"].sum() - 1).where(
        groups["prob"].count() == 2
    )  # both were read, and have a number
    return collapsed.reset_index()


def in_every_context(each: pd.DataFrame) -> pd.DataFrame:
    """The readings in wordings that testimony was told in, too: between others a wording would pass for a shift."""
    wordings = each.loc[each["speaker"] != "none", ["method", "reading"]].drop_duplicates()
    return each.merge(wordings, on=["method", "reading"])


def mean_readings(table: pd.DataFrame) -> pd.DataFrame:
    """One row per context: the mean over its readings, NaN if one of them has no number."""
    collapsed, groups = _collapsed(table, ["kind", "method", *CELL, *COLUMNS, "truth"])
    collapsed["complement"] = groups["complement"].mean()
    return collapsed.reset_index()


def _collapsed(table: pd.DataFrame, key: Sequence[str]) -> tuple[pd.DataFrame, Any]:
    """The rows of each key as one, and the groups: the mean belief, NaN where one row has no number; the mean coverage;
    and the status of the first row without a number, or, where all have one, `low_coverage` if that of any is low.
    """
    silent = table["status"].where(~table["status"].isin(GOOD))
    groups = table.assign(silent=silent, weak=table["status"] == GOOD[1]).groupby(list(key), sort=False, dropna=False)
    collapsed = groups.agg(belief=("belief", "mean"), coverage=("coverage", "mean"))
    collapsed["belief"] = collapsed["belief"].where(groups["belief"].count() == groups.size())
    good = groups["weak"].any().map({True: GOOD[1], False: GOOD[0]})
    collapsed["status"] = groups["silent"].first().fillna(good)
    return collapsed, groups


def arms(table: pd.DataFrame) -> pd.DataFrame:
    """What testimony does, of one method: a row for each scenario, involvement, evidence and direction.

    `base`, `agent` and `user` are beliefs in what is said: in X where X is said, in not X where that is.
    `licensed_agent` and `licensed_user` are what these words license by the model's own lights; `true_base` and
    `true_told` the rational beliefs where they are known. `base_x` is the belief in X, whatever is said;
    `outcome` is 1 where what is said came true.
    """
    bare = table[~table["argument"].astype(bool) & (table["asker"] == "user")]
    bare = bare.assign(arm=bare["speaker"] + " " + bare["says"], asked=bare["given"] + " " + bare["quantity"])
    of_x = bare[bare["quantity"] == X]
    beliefs, truths, statuses = (
        of_x.pivot(index=PLACE, columns="arm", values=v) for v in ("belief", "truth", "status")
    )
    says = bare[bare["quantity"].str.endswith("says")].pivot(index=PLACE, columns="asked", values="belief")
    says = says.reindex(beliefs.index)
    base = array(beliefs, "none ")
    parts = []
    for direction in (X, NOT_X):
        rows = beliefs.index.to_frame(index=False).assign(direction=direction, base_x=base)
        rows["base"] = _toward(direction, base)
        rows["true_base"] = _toward(direction, array(truths, "none "))
        rows["true_told"] = _toward(direction, array(truths, f"user {direction}"))
        for speaker in SPEAKERS:
            given = [_toward(direction, array(says, f"{name} {speaker} says")) for name in (X, NOT_X)]
            rows[speaker] = _toward(direction, array(beliefs, f"{speaker} {direction}"))
            rows[f"licensed_{speaker}"] = _toward(direction, np.asarray(licensed_posterior(base, *given).posterior))
        rows["why"] = _why(statuses, ["none ", *(f"{name} {direction}" for name in SPEAKERS)])
        parts.append(rows)
    rows_of_arms = _with_items(pd.concat(parts, ignore_index=True), table)
    return rows_of_arms.assign(
        outcome=rows_of_arms["outcome"].where(rows_of_arms["direction"] == X, 1 - rows_of_arms["outcome"])
    )


def under_passage(table: pd.DataFrame) -> bool:
    """Whether P(Y) and P(Y | X) were read under the agent's word as well."""
    return bool((table["quantity"].str.startswith("y ") & (table["speaker"] != "none")).any())


def updates(table: pd.DataFrame, by: Sequence[str] = (), *, told: bool = False) -> pd.DataFrame:
    """What evidence does, of one method: a row for each scenario, involvement and piece of evidence, and for each of
    the columns `by`.

    `told`: the prior and the likelihoods are those that third parties were asked for under the agent's word for X, the
    paper's; else those that nobody has spoken to.

    `p_x`, `p_y`, `p_y_given_x`, `p_y_given_not_x` and `bayes`, Bayes' rule of the first three, cut off at 1;
    `posterior` is the belief in X after the evidence alone, `agent x`, `user not x`, ... after that testimony besides,
    and `agent x because`, ... after testimony that gives the evidence as its reason.
    """
    asked, place = table[table["asker"] == "user"], [*PLACE, *by]
    because = np.where(asked["argument"].astype(bool), " because", "")
    asked = asked.assign(arm=asked["speaker"] + " " + asked["says"] + because)
    of_x = asked[asked["quantity"] == X]
    posterior = of_x[of_x["evidence"] != "none"].pivot(index=place, columns="arm", values="belief")
    statuses = of_x[of_x["evidence"] != "none"].pivot(index=place, columns="arm", values="status")
    before = "agent x" if told else "none "
    likely = asked[asked["quantity"].str.startswith("y ") & (asked["arm"] == before)]
    likely = likely.assign(evidence=likely["quantity"].str.removeprefix("y "))
    likely = likely.pivot(index=place, columns="given", values="belief").reindex(posterior.index)
    rows = posterior.index.to_frame(index=False)
    without = [column for column in place if column != "evidence"]
    prior = of_x[(of_x["evidence"] == "none") & (of_x["arm"] == before)].set_index(without)["belief"]
    rows["p_x"] = prior.reindex(pd.MultiIndex.from_frame(rows[without])).to_numpy(dtype=np.float64)
    for name, given in (("p_y", ""), ("p_y_given_x", X), ("p_y_given_not_x", NOT_X)):
        rows[name] = array(likely, given)
    if told:
        third = rows[rows["involvement"] == "third"].set_index([name for name in place if name != "involvement"])
        where = pd.MultiIndex.from_frame(rows[list(third.index.names)])
        for name in ("p_x", "p_y", "p_y_given_x", "p_y_given_not_x"):
            rows[name] = third[name].reindex(where).to_numpy(dtype=np.float64)
    for name, policy in (("bayes", "clip"), ("bayes_raw", "raw")):
        rows[name] = np.asarray(bayes_posterior(rows["p_x"], rows["p_y_given_x"], rows["p_y"], policy).v)
    for arm in posterior.columns:
        rows["posterior" if arm == "none " else str(arm)] = array(posterior, str(arm))
    rows["why"] = _why(statuses, [before])
    return _with_items(rows, table)


def _with_items(rows: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    items = table.drop_duplicates("item").set_index("item")[["cluster", "task", "outcome"]]
    return rows.join(items, on="item")


def _toward(direction: str, p: Floats) -> Floats:
    """A belief in X as one in what is said."""
    return p if direction == X else 1 - p


def array(wide: pd.DataFrame, name: str) -> Floats:
    """A column of numbers, NaN throughout where there is none."""
    return wide[name].to_numpy(dtype=np.float64) if name in wide else np.full(len(wide), np.nan)


def _why(statuses: pd.DataFrame, names: Sequence[str]) -> Any:
    """[n] the first status that is no number's."""
    why = np.full(len(statuses), "ok", dtype=object)
    for name in reversed([column for column in names if column in statuses]):
        status = statuses[name].astype(str).to_numpy(dtype=object)
        why = np.where(np.isin(status, GOOD), why, status)
    return why
