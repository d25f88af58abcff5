"""From the belief table to what is believed and done in each context, and to samples (METRICS E, A10)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from ....metrics.beliefs import INNER_KINDS, conditions, worst_status
from ....metrics.contract import Floats
from ....metrics.tables.samples import (
    Cases,
    Decisions,
    Elicited,
    Forecasts,
    Knowledge,
    Menus,
    Policies,
    Predictions,
    Prizes,
    Sample,
)
from ...run.readouts import SAMPLED
from .ask import AUXILIARY, BELIEF, CASE, LINE_1, LINE_2, MENU
from .config import STANDARD, RationalityConfig
from .learners import out_of_fold

CONDITIONS = ("prompt", "truth", "case", "reading", "line", "menu", "sd", "excess", "covariate", "shares")
REVEALED = "evidence."
"""Before the name of a covariate, among the conditions."""
YES, NO = 0, 1
"""Of the options of the table."""


@dataclass(frozen=True)
class Actions:
    """Exact choices, a row for each context in the order of `items`."""

    items: np.ndarray
    """[n] names."""
    truth: Floats
    """[n] the true chance."""
    outcome: Floats
    """[n] what came true."""
    forced: Floats
    """[n] P(yes) if a decision must be made."""
    tree: Floats
    """[n, 3] P(no), P(defer), P(yes)."""
    two: Floats
    """[n, 2] P(yes), P(no) from the menu of both."""
    three: Floats
    """[n, 3] P(yes), P(no), P(defer) from that of three."""
    coverage: Mapping[str, Floats]
    """Form of decision -> [n] probability that the answer is one of its options."""
    evidence: Sequence[Mapping[str, str]]
    """[n] what was revealed."""


@dataclass(frozen=True)
class MethodBeliefs:
    """What one method reads, a row for each context."""

    kind: str
    method: str
    estimate: str
    """How answers became a number."""
    readings: Mapping[str, Floats]
    """Prompt -> [n, readings]."""
    coverage: Floats
    """[n] under the standard prompt."""
    status: np.ndarray
    """[n] under the standard prompt, that of a reading without a number if there is one."""
    cases: Floats
    """[n, m] belief given each state of the further covariate; m of the most states, NaN where there are fewer."""
    spread: Floats
    """[n] SD of an exact number distribution."""
    excess: Floats
    """[n] by how much the numbers of several lines add up to more than 1."""

    @property
    def belief(self) -> Floats:
        """[n] under the standard prompt."""
        return mean_of(self.readings[STANDARD])


def mean_of(readings: Floats) -> Floats:
    """[n] the mean of the readings [n, r] that have a number; NaN where none has."""
    known = np.isfinite(readings)
    total = np.where(known, readings, 0.0).sum(axis=1)
    return np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)


def detailed(beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows with texts for categories, and all conditions."""
    table = beliefs.reset_index(drop=True)
    table = table.astype(dict.fromkeys(("kind", "method", "estimate", "item", "scenario", "status"), str))
    return table.assign(**conditions(table, CONDITIONS))


def actions(config: RationalityConfig, table: pd.DataFrame) -> Actions:
    """The exact choices; what is read inside of a decision is none.

    P(defer) is P(no) on the first line; a decision after it is given anyway, and the yes-or-no choice counts both
    branches.
    """
    table = table[~table["kind"].isin(INNER_KINDS)]
    lines = table[table["scenario"].isin((LINE_1, LINE_2))]
    first = lines[(lines["scenario"] == LINE_1) & (lines["option_index"] == YES)]
    known = first[first["truth"].notna()].drop_duplicates("item").set_index("item")
    evidence = pd.DataFrame(conditions(known, [str(name) for name in known if str(name).startswith(REVEALED)]))
    items = known.index.to_numpy()
    able = _wide(first, items)
    after = {
        answer: _wide(lines[(lines["line"] == f"{LINE_2}, {answer}") & (lines["option_index"] == YES)], items)
        for answer in config.answers
    }
    yes, no = (after[answer] for answer in config.answers)
    tree = np.stack([able * (1 - yes), 1 - able, able * yes], axis=2)
    forced = able * yes + (1 - able) * no
    coverage = {"lines": _covered(lines, items)}
    menus = {}
    for size in (2, 3):
        rows = table[(table["scenario"] == MENU) & (table["menu"] == size)]
        by_option = [_wide(rows[rows["option_index"] == i], items) for i in range(size)]
        menus[size] = np.stack(by_option, axis=2).mean(axis=1)
        coverage[f"menu of {size}"] = _covered(rows, items)
    return Actions(
        items=items,
        truth=known["truth"].to_numpy(dtype=np.float64),
        outcome=known["outcome"].to_numpy(dtype=np.float64),
        forced=forced.mean(axis=1),
        tree=tree.mean(axis=1),
        two=menus[2],
        three=menus[3],
        coverage=coverage,
        evidence=[
            {str(name).removeprefix(REVEALED): state for name, state in row.items() if not pd.isna(state)}
            for row in evidence.to_dict("records")
        ],
    )


def methods(table: pd.DataFrame, items: np.ndarray) -> Iterator[MethodBeliefs]:
    """Every method that reads a belief in the target, in the order of the table."""
    beliefs = table[table["scenario"].isin((BELIEF, CASE)) & (table["option_index"] == YES)]
    for (kind, method), rows in beliefs.groupby(["kind", "method"], sort=False):
        of_context = rows[rows["scenario"] == BELIEF]
        plain = of_context[of_context["prompt"] == STANDARD]
        cases = rows[rows["scenario"] == CASE]
        numbers = sorted(cases["case"].dropna().unique())
        yield MethodBeliefs(
            kind=str(kind),
            method=str(method),
            estimate=rows["estimate"].iloc[0],
            readings={str(prompt): _wide(some, items) for prompt, some in of_context.groupby("prompt", sort=False)},
            coverage=mean_of(_wide(plain, items, "coverage")),
            status=plain.groupby("item", sort=False)["status"].agg(worst_status).reindex(items).to_numpy(),
            cases=np.column_stack([mean_of(_wide(cases[cases["case"] == i], items)) for i in numbers])
            if numbers
            else np.full((len(items), 0), np.nan),
            spread=_of_item(plain, items, "sd"),
            excess=_of_item(plain, items, "excess"),
        )


def weights(table: pd.DataFrame, items: np.ndarray) -> dict[str, Floats]:
    """Kind -> [n, m] what the model gives to each state of the further covariate, 0 for states that it has not."""
    by_kind = {}
    asked = table[table["scenario"] == AUXILIARY]
    if "stated" in asked:  # as it was said, whatever it sums to
        asked = asked.assign(prob=asked["stated"].where(asked["stated"].notna(), asked["prob"]))
    for kind, rows in asked.groupby("kind", sort=False):
        per = [_wide(rows[rows["option_index"] == i], items) for i in sorted(rows["option_index"].unique())]
        some = np.column_stack([mean_of(readings) for readings in per])
        by_kind[str(kind)] = np.where(np.isnan(some) & np.isfinite(some).any(axis=1, keepdims=True), 0.0, some)
    return by_kind


def _wide(rows: pd.DataFrame, items: np.ndarray, value: str = "prob") -> Floats:
    """[n, readings] of a column; what is not read several times is one reading."""
    if rows.empty:
        return np.full((len(items), 1), np.nan)
    place = rows["reading"].astype(float).fillna(0.0)
    wide = rows.assign(place=place).pivot(index="item", columns="place", values=value)
    return wide.sort_index(axis=1).reindex(items).to_numpy(dtype=np.float64)


def _covered(rows: pd.DataFrame, items: np.ndarray) -> Floats:
    """[n] mean over the read-outs of a context."""
    readouts = rows.drop_duplicates("readout_id")
    return readouts.groupby("item", sort=False)["coverage"].mean().reindex(items).to_numpy(dtype=np.float64)


def _of_item(rows: pd.DataFrame, items: np.ndarray, name: str) -> Floats:
    values = rows.assign(value=pd.to_numeric(rows[name], errors="coerce"))
    return values.groupby("item", sort=False)["value"].mean().reindex(items).to_numpy(dtype=np.float64)


# The belief table as samples, from which the engine makes its numbers (METRICS E, A10).

NAMES = ("No", "Defer", "Yes")
"""Actions, from that which a low belief favours to that which a high one does."""
OUTCOME, CONTROL = "with the outcome", "with the outcome, given the evidence (control)"
BEYOND = " beyond "


def prompted(prompt: str) -> str:
    """The subset of what a prompt changes."""
    return f"prompt {prompt}"


def samples(config: RationalityConfig, beliefs: pd.DataFrame) -> Iterator[Sample]:
    """Of each method: the decisions on its belief, its readings, what prompts change, its beliefs by cases, and what
    the outcome adds to it; of each two, what the one knows beyond the other; and the menus.
    """
    table = detailed(beliefs)
    acts = actions(config, table)
    every = list(methods(table, acts.items))
    yield from cases_of(table, every, acts)
    for method in every:
        yield decisions(config, method, acts)
        yield Policies(**_named(method, acts), actions=NAMES, belief=method.belief, policy=acts.tree, p_star=acts.truth)
        yield _elicited(method, acts)
        yield from _by_prompt(method, acts)
        yield from _predictions(config, method, acts)
    yield from (knowledge(stated, other, acts) for stated, other in permutations(every, 2))
    yield Menus(kind="exact", method=MENU, clusters=acts.items, two=acts.two, three=acts.three)


def _named(beliefs: MethodBeliefs, acts: Actions, subset: str = "all") -> dict[str, Any]:
    return {"kind": beliefs.kind, "method": beliefs.method, "subset": subset, "clusters": acts.items}


def decisions(config: RationalityConfig, beliefs: MethodBeliefs, acts: Actions) -> Decisions:
    """The belief, and the decision that must be made; its label is drawn from the exact choice by the seed."""
    return Decisions(
        **_named(beliefs, acts),
        belief=beliefs.belief,
        action=drawn(config, acts, 1)[:, 0],
        outcome=acts.outcome,
        action_prob=acts.forced,
        p_star=acts.truth,
        keys=acts.items,
        why=beliefs.status.astype(object),
    )


def knowledge(stated: MethodBeliefs, other: MethodBeliefs, acts: Actions) -> Knowledge:
    """What one belief may predict beyond another."""
    return Knowledge(
        method=f"{other.method}{BEYOND}{stated.method}",
        clusters=acts.items,
        stated=stated.belief,
        other=other.belief,
        action_prob=acts.forced,
        p_star=acts.truth,
    )


def drawn(config: RationalityConfig, acts: Actions, n: int) -> np.ndarray:
    """[contexts, n] "1" for yes, "0" for no, drawn from the yes-or-no choice."""
    luck = np.random.default_rng([config.seed, 2]).random((len(acts.items), n))
    return np.where(luck < acts.forced[:, None], "1", "0")


def drawn_of_three(config: RationalityConfig, acts: Actions, n: int) -> np.ndarray:
    """[contexts, n] number of an action of the tree, in the order of `NAMES`."""
    luck = np.random.default_rng([config.seed, 3]).random((len(acts.items), n))
    return (luck[:, :, None] > np.cumsum(acts.tree, axis=1)[:, None, :2]).sum(axis=2)


@dataclass(frozen=True)
class Repeated:
    """Rows of repetitions; all [rows]."""

    belief: Floats
    """Its own answer where as many were sampled as actions are drawn; else the belief."""
    taken: np.ndarray
    """Number of the action, drawn from the exact choice, in the order of `NAMES`."""
    of: np.ndarray
    """Number of the context."""


def repeated(config: RationalityConfig, beliefs: MethodBeliefs, acts: Actions) -> Repeated:
    """`said.repetitions` of each context; those without a belief or a choice are left out."""
    n = config.said.repetitions
    readings = beliefs.readings[STANDARD]
    each_its_own = beliefs.estimate == SAMPLED and readings.shape[1] == n
    belief = (readings if each_its_own else np.repeat(beliefs.belief[:, None], n, axis=1)).ravel()
    of = np.repeat(np.arange(len(acts.items)), n)
    acted = np.asarray(np.isfinite(acts.tree).all(axis=1))
    known = np.isfinite(belief) & acted[of]
    return Repeated(belief[known], drawn_of_three(config, acts, n).ravel()[known], of[known])


def cases_of(table: pd.DataFrame, every: Sequence[MethodBeliefs], acts: Actions) -> list[Cases]:
    """Of each method with beliefs by cases; the chances of the cases are those of its own kind where there are any."""
    given = weights(table, acts.items)
    if not given:
        return []
    shares = {beliefs.method: given.get(beliefs.kind, given["exact"]) for beliefs in every}
    return [
        Cases(
            **_named(beliefs, acts),
            p=beliefs.belief,
            conditional=_filled(beliefs.cases, shares[beliefs.method]),
            weights=shares[beliefs.method],
            keys=acts.items,
        )
        for beliefs in every
        if beliefs.cases.shape[1]
    ]


def _elicited(beliefs: MethodBeliefs, acts: Actions) -> Elicited:
    """Readings: paraphrases and orders, or sampled answers, in two halves."""
    readings = beliefs.readings[STANDARD]
    halves = np.column_stack([mean_of(readings[:, ::2]), mean_of(readings[:, 1::2])]) if readings.shape[1] > 1 else None
    named = _named(beliefs, acts)
    return Elicited(**named, belief=beliefs.belief, coverage=beliefs.coverage, readings=halves, keys=acts.items)


def _by_prompt(beliefs: MethodBeliefs, acts: Actions) -> Iterator[Sample]:
    """Distance from the truth under each other prompt, and what it changes.

    The mean of an exact distribution is the same whenever it is read: its repetitions are equal, and have no noise.
    """
    for prompt, readings in beliefs.readings.items():
        if prompt == STANDARD:
            continue
        named = _named(beliefs, acts, prompted(prompt))
        base, alt = beliefs.readings[STANDARD], readings
        yield Forecasts(**named, belief=mean_of(alt), outcome=acts.outcome, p_star=acts.truth, keys=acts.items)
        if beliefs.estimate != SAMPLED:
            base, alt = (np.repeat(mean_of(x)[:, None], 2, axis=1) for x in (base, alt))
        yield Prizes(**named, base=base, alt=alt)


def _filled(cases: Floats, shares: Floats) -> Floats:
    """The beliefs by cases; a state that the covariate does not have has weight 0 and adds nothing."""
    wide = np.full(shares.shape, np.nan)
    wide[:, : cases.shape[1]] = cases
    return np.where(np.isnan(wide) & (shares == 0), 0.5, wide)


def _predictions(config: RationalityConfig, beliefs: MethodBeliefs, acts: Actions) -> Iterator[Predictions]:
    """Are actions predicted better with the outcome than with the belief alone? Then the same with the evidence known:
    there the outcome can add nothing, and what it adds is what the learner failed to learn. As published, on rows of
    repetitions; no fold divides those of a context, and they are resampled together.
    """
    rows = repeated(config, beliefs, acts)
    belief, outcome = rows.belief[:, None], acts.outcome[rows.of, None]
    taken, owners = rows.taken, acts.items[rows.of]
    evidence = revealed(acts)[rows.of]
    for subset, less in ((OUTCOME, belief), (CONTROL, np.hstack([belief, evidence]))):
        first, second = (
            out_of_fold(config, features, taken, owners) for features in (less, np.hstack([less, outcome]))
        )
        width = first.shape[1]
        truth = taken.astype(np.float64) if width else np.zeros(0)
        named: dict[str, Any] = {**_named(beliefs, acts, subset), "clusters": owners}
        yield Predictions(**named, first=first, second=second, truth=truth)


def revealed(acts: Actions) -> Floats:
    """[n, covariates] number of the state that was revealed, NaN where none was."""
    names: Sequence[str] = sorted({name for states_of in acts.evidence for name in states_of})
    numbers = np.full((len(acts.items), len(names)), np.nan)
    for column, name in enumerate(names):
        states = sorted({states_of[name] for states_of in acts.evidence if name in states_of})
        for row, states_of in enumerate(acts.evidence):
            if name in states_of:
                numbers[row, column] = states.index(states_of[name])
    return numbers
