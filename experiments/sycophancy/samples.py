"""The belief table of a run as samples, from which the engine makes its numbers (METRICS D)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit

from ..tables.cells import Array
from ..tables.rows import joined
from ..tables.samples import ALL, Askers, Elicited, Evidence, Forecasts, Sample, Testimony, Told
from .config import SycophancyConfig
from .contexts import COLUMNS, NOT_X, SPEAKERS, X
from .table import arms, array, by_method, in_every_context, labels, mean_readings, readings, updates

SINGLE = "single readings"
"""The subset of updates whose readings are scored one by one, so that their noise is known."""
AFTER = {speaker: f"after the {speaker}'s word" for speaker in SPEAKERS}
"""Subsets of updates: the posterior is that after testimony besides."""
ARGUED = {speaker: f"argued by the {speaker}" for speaker in SPEAKERS}
"""The same after testimony that gives its reason, of third parties alone: what the paper has."""
ARGUED_TO_USER = "argued by the agent, the user took part"
BY_AGENT, BY_USER, CONFORMITY, FLATTERY = "by agent", "by user", "user less agent", "took part"
ARMS = (BY_AGENT, BY_USER, CONFORMITY, FLATTERY)
"""Each against its own base: no testimony, no testimony, the agent's testimony, third parties alone."""
PAPER = {CONFORMITY: "opinion conformity", FLATTERY: "excessive flattery"}
BARE, REASONED = "no evidence", "argument"
"""The paper's two columns: testimony for X without a reason, and with one."""
KNOWN = "with evidence"
PART = {"third": "third parties alone", "user": "the user took part"}
"""Involvement in words."""
BY_ASKER = {"third": "asked by a third person", "form": "asked on a form"}


def samples(config: SycophancyConfig, beliefs: pd.DataFrame) -> Iterator[Sample]:
    """Of each kind and method: testimony beyond its licence, in all parts; arms against their bases; updates on
    evidence; the readings by themselves; askers; and distance from the truth where it is known.
    """
    each = readings(beliefs)
    own = {(kind, method): rows for kind, method, rows in by_method(each)}
    for kind, method, rows in by_method(mean_readings(in_every_context(each))):
        named: dict[str, Any] = {"kind": kind, "method": method}
        table = arms(rows)
        yield from _in_parts(told(table, **named), table)
        yield from _arms(rows, table, named)
        if (rows["evidence"] != "none").any():
            yield from _updates(own[kind, method], named)
            yield from _told_updates(updates(rows), named)
        yield from _askers(rows, named)
        yield _elicited(mean_readings(own[kind, method]), named)
        if rows["truth"].notna().any():
            known = rows[rows["truth"].notna()]
            yield Forecasts(
                belief=array(known, "belief"),
                p_star=array(known, "truth"),
                clusters=labels(known),
                subset="worlds",
                **named,
            )


def told(table: pd.DataFrame, **named: Any) -> Told:
    """Arms as a sample."""
    return Told(
        user=array(table, "user"),
        licensed_user=array(table, "licensed_user"),
        agent=array(table, "agent"),
        licensed_agent=array(table, "licensed_agent"),
        clusters=labels(table),
        keys=joined(*(labels(table, one) for one in ("item", "involvement", "evidence", "direction"))),
        why=labels(table, "why"),
        **named,
    )


def _in_parts(whole: Told, table: pd.DataFrame) -> Iterator[Told]:
    """All together, then by what may differ."""
    yield whole
    for name, rows in parts(table).items():
        yield _part(whole, name, rows)


def parts(table: pd.DataFrame) -> dict[str, Array]:
    """Subset -> which arms are of it: by direction, evidence, involvement and task, where there are several."""
    found = {}
    for column, worded in (
        ("direction", "says {}"),
        ("evidence", "evidence {}"),
        ("involvement", "{}"),
        ("task", "{}"),
    ):
        values = list(dict.fromkeys(table[column]))
        if len(values) > 1 or column == "direction":
            names = [worded.format(PART.get(one, one)) for one in values]
            found |= {name: np.flatnonzero(table[column] == one) for name, one in zip(names, values, strict=True)}
    return found


def _part(whole: Any, name: str, rows: Array) -> Any:
    """Some rows of a sample."""
    taken = {field: value[rows] for field, value in vars(whole).items() if isinstance(value, np.ndarray)}
    return replace(whole, subset=name, **taken)


def paired_arms(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Arm -> rows with `before` and `after`, beliefs in what is said; of `took part`, in X, the favourable outcome."""
    found = {
        BY_AGENT: table.assign(before=table["base"], after=table["agent"]),
        BY_USER: table.assign(before=table["base"], after=table["user"]),
        CONFORMITY: table.assign(before=table["agent"], after=table["user"]),
    }
    once = table[table["direction"] == X].set_index(["item", "evidence"])
    before, after = (once[once["involvement"] == one]["base_x"] for one in ("third", "user"))
    if len(before) and len(after):
        both = once[once["involvement"] == "user"].assign(before=before.reindex(after.index), after=after)
        found[FLATTERY] = both.reset_index()
    return found


def _arms(rows: pd.DataFrame, table: pd.DataFrame, named: dict[str, Any]) -> Iterator[Testimony]:
    """Every arm, and those with evidence again, beside Bayes' rule; then the paper's own two."""
    has_evidence = (rows["evidence"] != "none").any()
    known = updates(rows).set_index(["item", "involvement", "evidence"]) if has_evidence else None
    for arm, own in paired_arms(table).items():
        yield _testimony(own, arm, None, named)
        seen = own[own["evidence"] != "none"]
        if known is not None and len(seen):
            base = seen.assign(involvement="third") if arm == FLATTERY else seen
            bayes = array(known.reindex(pd.MultiIndex.from_frame(base[["item", "involvement", "evidence"]])), "bayes")
            against = (seen["direction"] == NOT_X).to_numpy() & (arm != FLATTERY)
            yield _testimony(seen, f"{arm}, {KNOWN}", np.where(against, 1 - bayes, bayes), named)
    for column, own in published_arms(rows, table).items():
        for arm, pairs in own.items():
            bayes = array(pairs, "bayes") if "bayes" in pairs else None
            yield _testimony(pairs, f"{PAPER[arm]}, {column}", bayes, named)


def published_arms(rows: pd.DataFrame, table: pd.DataFrame) -> dict[str, dict[str, pd.DataFrame]]:
    """The paper's column -> arm -> rows with `before` and `after`: testimony for X alone. Of conformity, the user's
    word against the agent's, of third parties; of flattery, the agent's where the user took part against where not.
    """
    bare = table[(table["direction"] == X) & (table["evidence"] == "none")]
    found = {BARE: _both(bare, "agent", "user")}
    if rows["argument"].any():
        found[REASONED] = _both(updates(rows).query("evidence == 'for'"), "agent x because", "user x because")
    return found


def _both(rows: pd.DataFrame, agent: str, user: str) -> dict[str, pd.DataFrame]:
    third = rows[rows["involvement"] == "third"].set_index("item")
    mine = rows[rows["involvement"] == "user"].set_index("item")
    found = {}
    if len(third):
        found[CONFORMITY] = third.assign(before=third[agent], after=third[user]).reset_index()
    if len(third) and len(mine):
        base = third.reindex(mine.index)
        bayes = {"bayes": base["bayes"]} if "bayes" in base else {}
        found[FLATTERY] = mine.assign(before=base[agent], after=mine[agent], **bayes).reset_index()
    return found


def _testimony(rows: pd.DataFrame, subset: str, bayes: Array | None, named: dict[str, Any]) -> Testimony:
    outcome = array(rows, "outcome")
    return Testimony(
        base=array(rows, "before"),
        syc=array(rows, "after"),
        bayes=bayes,
        outcome=outcome if np.isfinite(outcome).any() else None,
        clusters=labels(rows),
        keys=joined(*(labels(rows, one) for one in ("item", "involvement", "evidence"))),
        why=labels(rows, "why"),
        subset=subset,
        **named,
    )


def _updates(each: pd.DataFrame, named: dict[str, Any]) -> Iterator[Evidence]:
    """Updates on evidence alone, by the mean of all readings, and the readings one by one."""
    table = updates(mean_readings(each))
    yield _evidence(table, "posterior", {"subset": ALL, **named})
    for task, own in table.groupby("task", sort=False) if table["task"].nunique() > 1 else ():
        yield _evidence(own, "posterior", {"subset": str(task), **named})
    if each["reading"].nunique() > 1:
        yield _evidence(_centred(updates(each, by=["reading"])), "posterior", {"subset": SINGLE, **named})


def _told_updates(table: pd.DataFrame, named: dict[str, Any]) -> Iterator[Evidence]:
    """Updates on evidence and testimony: which come apart, and as the paper has them, in one sentence."""
    for speaker, subset in AFTER.items():
        told = [_oriented(table, side, f"{speaker} {side}") for side in (X, NOT_X)]
        yield _evidence(pd.concat(told, ignore_index=True), "told", {"subset": subset, **named})
    third = table[table["involvement"] == "third"]
    for speaker, subset in ARGUED.items():
        if f"{speaker} x because" in table and len(third):
            yield _evidence(third[third["evidence"] == "for"], f"{speaker} x because", {"subset": subset, **named})
    mine = table[(table["involvement"] == "user") & (table["evidence"] == "for")]
    if "agent x because" in table and len(mine):
        yield _evidence(mine, "agent x because", {"subset": ARGUED_TO_USER, **named})


def _oriented(table: pd.DataFrame, side: str, arm: str) -> pd.DataFrame:
    """Updates as of the belief in what is said, so that the constants of both directions can be told together."""
    if side == X:
        return table.assign(told=array(table, arm))
    return table.assign(
        p_x=1 - table["p_x"],
        p_y_given_x=table["p_y_given_not_x"],
        p_y_given_not_x=table["p_y_given_x"],
        told=1 - array(table, arm),
    )


def _centred(table: pd.DataFrame) -> pd.DataFrame:
    """Readings without what a wording adds to all of them: a constant bias is no noise of reading."""
    found = table.copy()
    for name in ("p_x", "p_y", "p_y_given_x", "p_y_given_not_x", "posterior"):
        bias = table.groupby("reading")[name].transform("mean") - table[name].mean()
        found[name] = (table[name] - bias).clip(0, 1)
    return found


def _evidence(table: pd.DataFrame, posterior: str, named: dict[str, Any]) -> Evidence:
    place = joined(*(labels(table, one) for one in ("item", "involvement", "evidence")))
    single = named["subset"] == SINGLE
    return Evidence(
        p_x=array(table, "p_x"),
        p_y=array(table, "p_y"),
        p_y_given_x=array(table, "p_y_given_x"),
        p_y_given_not_x=array(table, "p_y_given_not_x"),
        posterior=array(table, posterior),
        clusters=labels(table),
        keys=joined(place, labels(table, "reading")) if single else place,
        why=labels(table, "why"),
        item=place if single else None,
        replicate=labels(table, "reading") if single else None,
        **named,
    )


def _askers(rows: pd.DataFrame, named: dict[str, Any]) -> Iterator[Askers]:
    """The shift towards what the user says, in log-odds, as each asker finds it (METRICS W5)."""
    asked = rows[(rows["evidence"] == "none") & (rows["quantity"] == X) & ~rows["argument"].astype(bool)]
    asked = asked[asked["speaker"].isin(("none", "user"))]
    asked = asked[asked["involvement"].isin(asked.loc[asked["asker"] != "user", "involvement"])]
    wide = asked.pivot(index=["item", "cluster"], columns=["asker", "says"], values="belief")
    if wide.empty:
        return
    with np.errstate(divide="ignore"):
        odds = wide.apply(lambda column: logit(column.to_numpy(dtype=np.float64).clip(1e-6, 1 - 1e-6)))
    clusters = np.tile(wide.index.get_level_values("cluster").to_numpy(), 2)
    shifts = {
        asker: np.concatenate([sign * (odds[asker, side] - odds[asker, ""]) for side, sign in ((X, 1), (NOT_X, -1))])
        for asker in dict.fromkeys(wide.columns.get_level_values("asker"))
    }
    for asker in (one for one in shifts if one != "user"):
        yield Askers(
            shift_user=shifts["user"], shift_third=shifts[asker], clusters=clusters, subset=BY_ASKER[asker], **named
        )


def _elicited(rows: pd.DataFrame, named: dict[str, Any]) -> Elicited:
    """Beliefs in claims; where their negations were asked for, too, as two readings, of which a belief is the mean."""
    belief, apart = array(rows, "belief"), array(rows, "complement") / 2
    return Elicited(
        belief=belief,
        coverage=array(rows, "coverage"),
        readings=np.column_stack([belief + apart, belief - apart]) if np.isfinite(apart).any() else None,
        clusters=labels(rows),
        keys=joined(*(labels(rows, name) for name in ["item", *COLUMNS])),
        subset=ALL,
        **named,
    )
