"""The belief table as samples, from which the engine makes its numbers (METRICS E, A10)."""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from ...metrics.validation import Floats
from ..tables.samples import (
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
from .asking import MENU
from .config import STANDARD, RationalityConfig
from .learners import out_of_fold
from .table import Actions, MethodBeliefs, actions, detailed, methods, weights

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
    for one in every:
        yield decisions(config, one, acts)
        yield Policies(**_named(one, acts), actions=NAMES, belief=one.belief, policy=acts.tree, p_star=acts.truth)
        yield _elicited(one, acts)
        yield from _by_prompt(one, acts)
        yield from _predictions(config, one, acts)
    yield from (knowledge(stated, other, acts) for stated, other in permutations(every, 2))
    yield Menus(kind="exact", method=MENU, clusters=acts.items, two=acts.two, three=acts.three)


def _named(one: MethodBeliefs, acts: Actions, subset: str = "all") -> dict[str, Any]:
    return {"kind": one.kind, "method": one.method, "subset": subset, "clusters": acts.items}


def decisions(config: RationalityConfig, one: MethodBeliefs, acts: Actions) -> Decisions:
    """The belief, and the decision that must be made; its label is drawn from the exact choice by the seed, the same
    for every method.
    """
    return Decisions(
        **_named(one, acts),
        belief=one.belief,
        action=drawn(config, acts, 1)[:, 0],
        outcome=acts.outcome,
        action_prob=acts.forced,
        p_star=acts.truth,
        keys=acts.items,
        why=one.status.astype(object),
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
    """[contexts, n] "1" for yes, "0" for no, drawn from the forced choice."""
    luck = np.random.default_rng([config.seed, 2]).random((len(acts.items), n))
    return np.where(luck < acts.forced[:, None], "1", "0")


def drawn_of_three(config: RationalityConfig, acts: Actions, n: int) -> np.ndarray:
    """[contexts, n] number of an action of the tree, in the order of `NAMES`."""
    luck = np.random.default_rng([config.seed, 3]).random((len(acts.items), n))
    return (luck[:, :, None] > np.cumsum(acts.tree, axis=1)[:, None, :2]).sum(axis=2)


def cases_of(table: pd.DataFrame, every: Sequence[MethodBeliefs], acts: Actions) -> list[Cases]:
    """Of each method with beliefs by cases; the chances of the cases are those of its own kind where there are any."""
    given = weights(table, acts.items)
    if not given:
        return []
    shares = {one.method: given.get(one.kind, given["exact"]) for one in every}
    return [
        Cases(
            **_named(one, acts),
            p=one.belief,
            conditional=_filled(one.cases, shares[one.method]),
            weights=shares[one.method],
            keys=acts.items,
        )
        for one in every
        if one.cases.shape[1]
    ]


def _elicited(one: MethodBeliefs, acts: Actions) -> Elicited:
    """Readings: paraphrases and orders, or sampled answers, in two halves."""
    readings = one.readings[STANDARD]
    halves = np.column_stack([_half(readings[:, ::2]), _half(readings[:, 1::2])]) if readings.shape[1] > 1 else None
    named = _named(one, acts)
    return Elicited(**named, belief=one.belief, coverage=one.coverage, readings=halves, keys=acts.items)


def _half(readings: Floats) -> Floats:
    known = np.isfinite(readings)
    total = np.where(known, readings, 0.0).sum(axis=1)
    return np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)


def _by_prompt(one: MethodBeliefs, acts: Actions) -> Iterator[Sample]:
    """Distance from the truth under each other prompt, and what it changes.

    The mean of an exact distribution is the same whenever it is read: its repetitions are equal, and have no noise.
    """
    for prompt, readings in one.readings.items():
        if prompt == STANDARD:
            continue
        named = _named(one, acts, prompted(prompt))
        base, alt = one.readings[STANDARD], readings
        yield Forecasts(**named, belief=_half(alt), outcome=acts.outcome, p_star=acts.truth, keys=acts.items)
        if "sampled" not in one.method:
            base, alt = (np.repeat(_half(x)[:, None], 2, axis=1) for x in (base, alt))
        yield Prizes(**named, base=base, alt=alt)


def _filled(cases: Floats, shares: Floats) -> Floats:
    """The beliefs by cases; a state that the covariate does not have has weight 0 and adds nothing."""
    wide = np.full(shares.shape, np.nan)
    wide[:, : cases.shape[1]] = cases
    return np.where(np.isnan(wide) & (shares == 0), 0.5, wide)


def _predictions(config: RationalityConfig, one: MethodBeliefs, acts: Actions) -> Iterator[Predictions]:
    """Are actions predicted better with the outcome than with the belief alone? Then the same with the evidence known:
    there the outcome can add nothing, and what it adds is what the learner failed to learn.
    """
    known = np.isfinite(one.belief) & np.isfinite(acts.tree).all(axis=1)
    belief, outcome = one.belief[known, None], acts.outcome[known, None]
    taken, owners = drawn_of_three(config, acts, 1)[known, 0], acts.items[known]
    evidence = revealed(acts)[known]
    for subset, less in ((OUTCOME, belief), (CONTROL, np.hstack([belief, evidence]))):
        first, second = (
            out_of_fold(config, features, taken, owners) for features in (less, np.hstack([less, outcome]))
        )
        width = first.shape[1]
        truth = taken.astype(np.float64) if width else np.zeros(0)
        named: dict[str, Any] = {**_named(one, acts, subset), "clusters": owners}
        yield Predictions(**named, first=first, second=second, truth=truth)


def revealed(acts: Actions) -> Floats:
    """[n, covariates] number of the state that was revealed, NaN where none was."""
    names: Sequence[str] = sorted({name for own in acts.evidence for name in own})
    found = np.full((len(acts.items), len(names)), np.nan)
    for column, name in enumerate(names):
        states = sorted({own[name] for own in acts.evidence if name in own})
        for row, own in enumerate(acts.evidence):
            if name in own:
                found[row, column] = states.index(own[name])
    return found
