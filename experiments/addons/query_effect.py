"""Beliefs that are read in passing beside those that are asked for at the same places (METRICS W6)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from ...metrics import Score, query_effect
from ...probes.data.beliefs import READINGS
from ...probes.evidence.error_model import update_behind_probe
from ...probes.evidence.lead import lead_in_tokens
from ..runs.scores import resampling
from ..scoring.number import ALL, Number, Resampling
from .addon import ScoredRun

TOKEN = "token"
"""What a variant says of a belief that was read in passing: at which token of the prompt,"""
OWN = ("probe", "lens", TOKEN)
"""and by what."""
OF_STEP = ("truth", "statuses")
"""What a variant says of a step, not of its trajectory."""
PLACE = ["item", "scenario", "step", "place", "option"]


def beside_asked(
    run: ScoredRun, table: pd.DataFrame, kind_read: str, name_read: str, *, trajectories: bool, subset: str = ALL
) -> Iterator[Number]:
    """The effect of asking, exactly and in words; along trajectories which of the two settles first, and the slope of
    the updates behind the errors of reading.

    Args:
        run: with the beliefs that were asked for.
        table: rows of what was read in passing, their variants naming the token.
        kind_read: of those.
        name_read: of what read them; it follows the name of each method of asking.
        trajectories: whether they may be compared step by step: only where they were read before the question.
        subset: of the numbers.
    """
    passive = by_place(table, [*PLACE, "cluster"])
    how = resampling(run.config)

    def number(
        method: str, metric: str, score: Score, quantity: str, beside: Mapping[str, str] | None = None, code: str = "W6"
    ) -> Number:
        about = {"kind": kind_read, "subset": subset, "quantity": quantity, "code": code, "beside": beside or {}}
        return Number(metric=metric, method=f"{method} {name_read}", score=score, **about)

    for kind in ("exact", "verbal"):
        rows = run.every[run.every["kind"] == kind]
        asked = by_place(rows[rows["of"].astype(str) == ""] if kind == "exact" else rows, ["method", *PLACE])
        both = passive.merge(asked, on=PLACE, suffixes=("", "_asked"))
        for method, own in both.groupby("method", sort=False):
            effect = query_effect(own["prob"], own["prob_asked"], own["cluster"].to_numpy(), **how.interval)
            said = "asked" if kind == "exact" else "stated"
            yield number(str(method), "query_effect", effect, f"{said} less read in passing")
            if trajectories and own["step"].nunique() > 1:
                for metric, score, quantity, beside, code in _along(own.sort_values("step"), kind, how):
                    yield number(str(method), metric, score, quantity, beside, code)


def _along(own: pd.DataFrame, kind: str, how: Resampling) -> Iterator[tuple[str, Score, str, dict[str, str], str]]:
    """Metric, score, what it is in words, what qualifies it and its code, of trajectories that were read at two steps
    or more.
    """
    chain = own["item"] + "\0" + own["scenario"] + "\0" + own["chain"]
    if not chain.duplicated().any():
        return
    passive, asked, token, step = (own[column].to_numpy() for column in ("prob", "prob_asked", TOKEN, "step"))
    groups = own["cluster"].to_numpy()
    lead = lead_in_tokens(passive, asked, token, step, chain.to_numpy(), groups, seed=how.seed, level=how.level or 0.95)
    beside = {"by chance": f"{lead.by_chance:.1f}", "never settles": str(lead.n_never)}
    yield "lead", lead, f"tokens by which it settles before the {kind} belief", beside, "W6"
    if kind == "exact":
        after = own.groupby(chain, sort=False)[["prob", "prob_asked"]].shift(-1)
        there = after["prob"].notna().to_numpy()
        read, known_there = after["prob"].to_numpy()[there], after["prob_asked"].to_numpy()[there]
        behind = update_behind_probe(passive[there], read, asked[there], known_there, groups[there], **how.interval)
        beside = {"as read": f"{behind.M_read:.3f}", "of a coherent belief": f"{behind.M_coherent:.3f}"}
        yield "M_behind", behind, "slope of the update behind the errors of reading", beside, "A5"


def by_place(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The mean belief in the first option at each place, over wordings and orders."""
    own = rows[rows["option_index"] == 0]
    told = [json.loads(text or "{}") for text in own["variant"].astype(str)]
    own = own.assign(
        place=[known(one, (*OWN, *READINGS)) for one in told],
        chain=[known(one, (*OWN, *READINGS, *OF_STEP)) for one in told],
        **{TOKEN: [one.get(TOKEN, 0) for one in told]},
        **{name: own[name].astype(str) for name in ("method", "item", "scenario", "option", "cluster")},
    )
    return own.groupby(list(by), sort=False, as_index=False).agg(
        {"prob": "mean", TOKEN: "first"} | ({"chain": "first"} if "method" not in by else {})
    )


def known(told: Mapping[str, Any], without: Sequence[str]) -> str:
    """What a variant says, but for some keys, as text."""
    return json.dumps({key: value for key, value in told.items() if key not in without}, sort_keys=True)
