"""Could a belief drive the choices, whose exact probabilities are known? (METRICS E4, E7, E11-E13)"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from ....metrics import (
    cyclic_monotonicity,
    latent_knowledge,
    menu_shift,
    monotone_exact_shares,
    monotone_sufficiency,
    probability_weighting,
    rao_blackwell_cmi,
)
from ....metrics.decision.sufficiency import explained_share, sufficiency_moments
from ...tables.samples import Decisions, Knowledge, Menus, Policies
from ..number import Resampling
from .decision import strata_of
from .metric import Compared, Line, clusters_of, compare_moments, keys_of, metric, tested_mean, with_drop_reasons


def _compare_sufficiency(sample: Decisions) -> Compared | None:
    if sample.action_prob is None:
        return None
    owners = clusters_of(sample)
    moments = sufficiency_moments(sample.belief, sample.action_prob, owners)
    return compare_moments("sufficiency", keys_of(sample), owners, moments, explained_share)


@metric(
    "E4",
    "belief, action, outcome, action_prob",
    Decisions,
    needs=("action_prob",),
    compare=_compare_sufficiency,
)
def sufficiency(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """How much of an exact policy does a rising function of the belief predict, in other contexts? 1: all of it."""
    assert sample.action_prob is not None
    score = monotone_sufficiency(sample.belief, sample.action_prob, clusters_of(sample), **how.interval)
    told = with_drop_reasons(score, sample, sample.belief + sample.action_prob)
    yield Line("sufficiency", "share of the policy that a rising function of the belief predicts", told)


@metric("E4, E11", "belief, action, outcome, action_prob, p_star", Decisions, needs=("action_prob", "p_star"))
def knows_more(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """Do the exact choice and the truth still go together once the belief is known? Partial correlation; 0: no."""
    assert sample.action_prob is not None
    assert sample.p_star is not None
    score = latent_knowledge(sample.belief, sample.action_prob, sample.p_star, clusters_of(sample), **how.interval)
    told = with_drop_reasons(score, sample, sample.belief + sample.action_prob + sample.p_star)
    beside = {"share of the truth that the belief leaves": f"{score.left_of_target:.3f}"}
    yield Line("knows_more", "what the choice knows of the truth beyond the belief", told, beside)


@metric("E13", "belief, action, outcome, action_prob", Decisions, needs=("action_prob",))
def weighting(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """Is the belief used as it is, or weighted? Exponent of the weighting; 1 is as it is."""
    assert sample.action_prob is not None
    score = probability_weighting(sample.belief, sample.action_prob, clusters_of(sample), **how.interval)
    told = with_drop_reasons(score, sample, sample.belief + sample.action_prob)
    beside = {"p tests": "an exponent of 1", "share of the choice's log-odds that it explains": f"{score.r2:.3f}"}
    yield Line("weighting", "exponent of the probability weighting", told, beside)


@metric("E4, E7, E12", "beliefs and exact policies of a run", Policies)
def choices(sample: Policies, how: Resampling) -> Iterator[Line]:
    """Could any utilities with random shocks have these choices, by this belief? 0: yes. And pair by pair."""
    known = sample.belief + sample.policy.sum(axis=1)
    found = cyclic_monotonicity(sample.belief, sample.policy, seed=how.seed)
    slopes = ", ".join(f"{name} {slope:.2f}" for name, slope in zip(sample.actions, found.slopes, strict=False))
    beside = {"with utilities that rise by": slopes, "pairs of contexts against the order": f"{found.discordant:.3f}"}
    yield Line("cyclic", "distance from any random-utility choice", with_drop_reasons(found, sample, known), beside)
    for i, j in combinations(range(len(sample.actions)), 2):
        pair = sample.policy[:, [i, j]]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = pair[:, 1] / pair.sum(axis=1)
        score = monotone_exact_shares(sample.belief, share)
        named = f"{sample.actions[j]} against {sample.actions[i]}"
        told = {"distance from the best rising curve": f"{score.iso_rms:.3f}", "Kendall's tau": f"{score.tau:.3f}"}
        yield Line(
            "discordant_pair",
            f"pairs of contexts against the order, {named}",
            with_drop_reasons(score, sample, sample.belief + share),
            told,
            part=named,
        )
    if sample.p_star is not None:
        score = rao_blackwell_cmi(sample.policy, sample.p_star, strata_of(sample.belief))
        yield Line(
            "cmi_policy",
            "information of all actions beyond the belief, exact, nats",
            with_drop_reasons(score, sample, known + sample.p_star),
        )


@metric("E12", "choices of a run from two menus", Menus)
def menus(sample: Menus, how: Resampling) -> Iterator[Line]:
    """Does a third action change the share of the first among the first two? 0: irrelevant alternatives are so."""
    shift, owners = menu_shift(sample.two, sample.three), clusters_of(sample)
    for name, quantity, values in (
        ("menu_shift", "share of the first of two with a third less without", shift),
        ("menu_size", "size of that change", np.abs(shift)),
    ):
        yield Line(name, quantity, with_drop_reasons(tested_mean(values, owners, how), sample, values))


@metric("E11", "two beliefs, and what either may predict", Knowledge)
def latent(sample: Knowledge, how: Resampling) -> Iterator[Line]:
    """Does the other belief predict the action, or the truth, beyond the stated one? Partial correlation; 0: no."""
    for name, quantity, target in (
        ("latent_action", "what it knows of the action beyond the stated belief", sample.action_prob),
        ("latent_truth", "what it knows of the truth beyond the stated belief", sample.p_star),
    ):
        if target is not None:
            score = latent_knowledge(sample.stated, sample.other, target, sample.clusters, **how.interval)
            known = sample.stated + sample.other + target
            beside = {"share of it that the stated belief leaves": f"{score.left_of_target:.3f}"}
            yield Line(name, quantity, with_drop_reasons(score, sample, known), beside)


METRICS = (sufficiency, knows_more, weighting, choices, menus, latent)
