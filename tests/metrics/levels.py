"""How often tests reject what is true, where beliefs sit near 0 and 1: slow, run by hand.

`python tests/metrics/levels.py [seeds] [part of a name]` prints one line for each design, with the share of seeds in
which each test rejects at 5%, before and after. `DESIGNS` and `rejections` are what a calibration run calls.
"""

import sys
from collections.abc import Callable, Mapping

import numpy as np
from scipy import stats
from scipy.special import expit, logit

from doxascope.metrics import (
    calibration_slope,
    cluster_mean,
    coherence_claim,
    corrected_slope,
    disattenuated_slope,
    drift_variance,
    factor_regression,
    martingale_joint_test,
    martingale_moments,
    martingale_score,
    martingale_slope,
    martingale_within,
    paired_difference_moments,
    paired_slope_difference,
    sign_flip_test,
    sycophancy_change,
    tost,
)

Rng = np.random.Generator
Sample = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Prior, posterior and question of each row."""
Tested = Mapping[str, float]
"""p of each test, or 0 and 1 for a claim made and not made."""


def updated(rng: Rng, logits: np.ndarray, steps: int, strength: float) -> Sample:
    """An exact Bayesian from prior log-odds [questions], who sees normal signals whose log-odds vary by `strength`."""
    sign = np.where(rng.random(len(logits)) < expit(logits), 1, -1)
    chain = [logits]
    for _ in range(steps):
        chain.append(chain[-1] + rng.normal(sign * strength**2 / 2, strength))
    b = expit(np.stack(chain, axis=1))
    return b[:, :-1].ravel(), b[:, 1:].ravel(), np.repeat(np.arange(len(logits)), steps)


def coins(rng: Rng, logits: np.ndarray, accuracy: float) -> Sample:
    """The same with one yes or no of known accuracy: from priors near 0, small steps down and rare jumps up."""
    true = rng.random(len(logits)) < expit(logits)
    says = rng.random(len(logits)) < np.where(true, accuracy, 1 - accuracy)
    post = logits + np.where(says, 1, -1) * logit(accuracy)
    return expit(logits), expit(post), np.arange(len(logits))


def extreme(rng: Rng, questions: int, steps: int = 1, strength: float = 0.7) -> Sample:
    """Prior log-odds N(-6, 3)."""
    return updated(rng, rng.normal(-6, 3, questions), steps, strength)


def uneven(rng: Rng, questions: int) -> Sample:
    """Questions of 1 to 50 rows that share a heavy-tailed shift."""
    sizes = np.exp(rng.uniform(0, np.log(50), questions)).astype(int)
    question = np.repeat(np.arange(questions), sizes)
    b = np.clip(rng.beta(0.5, 0.5, questions)[question] + rng.normal(0, 0.03, len(question)), 0.01, 0.99)
    shift = np.clip(0.1 * rng.standard_cauchy(questions), -1, 1)[question]
    return b, b + np.minimum(b, 1 - b) * np.clip(0.5 * shift + rng.uniform(-0.5, 0.5, len(b)), -1, 1), question


def rounded(rng: Rng, questions: int) -> Sample:
    """Reports to the nearest .05, from .1 to .9, that move by one step or not at all."""
    b = rng.choice(np.arange(0.1, 0.95, 0.05), questions * 2)
    up = rng.choice([-0.05, 0.0, 0.05], questions * 2)
    return b, np.round(b + up, 2), np.repeat(np.arange(questions), 2)


def entrenched(rng: Rng, questions: int, slope: float) -> Sample:
    """Four rows per question with a slope of the update on the prior."""
    question = np.repeat(np.arange(questions), 4)
    b = rng.uniform(0.2, 0.8, len(question))
    shared = rng.uniform(-0.05, 0.05, questions)[question]
    return b, b + slope * (b - 0.5) + shared + rng.uniform(-0.05, 0.05, len(b)), question


def slopes(sample: Sample) -> Tested:
    """Of one sample: the slope before and after, and the joint null."""
    after, joint = martingale_score(*sample), martingale_joint_test(*sample, draws=999)
    return {
        "CR1": martingale_score(*sample, se="CR1", draws=1).p,
        "CR3": after.p,
        "CR3 unflagged": after.p if after.status == "ok" else 1.0,
        "joint wild": martingale_joint_test(*sample, se="CR1", draws=199).p,
        "joint flips": joint.p,
        "flips unflagged": joint.p if joint.status == "ok" else 1.0,
    }


def within(rng: Rng) -> Tested:
    """Extreme priors in three cells of different levels."""
    questions = 60
    b, q, question = updated(rng, np.tile([-7.0, -4.0, -1.0], 20) + rng.normal(0, 2, questions), 1, 0.7)
    score = martingale_within(b, q, question, np.tile(np.arange(3), 20))
    return {"within": score.p, "within unflagged": score.p if score.status == "ok" else 1.0}


def contrast(rng: Rng) -> Tested:
    """Two models that answer the same questions near 0."""
    logits = rng.normal(-6, 3, 60)
    one, two = (updated(rng, logits + rng.normal(0, 0.5, 60), 1, 0.7) for _ in range(2))
    b, q, question = (np.concatenate(both) for both in zip(one, two, strict=True))
    arm = {"model": np.repeat(["a", "b"], 60)}
    before, after = (
        factor_regression(q - b, b, arm, {"model": "a"}, question, se=se, draws=1).terms["b:model[b]"]
        for se in ("CR1", "CR3")
    )
    paired = paired_slope_difference(one[:2], two[:2], one[2])
    moments = [martingale_moments(*kind[:2]) for kind in (one, two)]
    drawn = paired_difference_moments(moments[0], moments[1], martingale_slope, one[2], draws=999)
    return {"CR1": before.p, "CR3": after.p, "bootstrap": drawn.p, "paired CR3": paired.p}


def calibrated(rng: Rng, priors: tuple[float, ...], n: int = 60) -> Tested:
    """Outcomes that happen as often as a belief of few values says."""
    p = rng.choice(priors, n)
    y = (rng.random(n) < p).astype(float)
    before, after = (calibration_slope(p, y, se=se) for se in ("HC3", "CR3"))
    return {"HC3": before.p, "CR3": after.p, "CR3 unflagged": after.p if after.status == "ok" else 1.0}


def settled(rng: Rng) -> Tested:
    """Sixty questions of eight chains that settle near 0 or 1: does any drift? And do they on average?"""
    b0 = expit(rng.normal(0, 2, 60))
    last = (rng.random((60, 8)) < b0[:, None]) * 0.999
    deltas = last - b0[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = stats.ttest_1samp(deltas, 0, axis=1).pvalue
    score = drift_variance(deltas, b0, draws=999)
    return {
        "any, t with Bonferroni": float(np.nanmin(np.append(t, 1.0))) * 60,
        "any, bound": float(np.nanmin(score.p_holm)),
        "mean": score.p,
    }


def noisy(rng: Rng) -> Tested:
    """A martingale read twice with noise: the slope corrected for it."""
    b = rng.uniform(0.35, 0.65, 80)
    q = b + rng.uniform(-0.1, 0.1, 80)
    both = b[:, None] + rng.uniform(-0.15, 0.15, (80, 2))
    score = corrected_slope(both, q, draws=400)
    plain = martingale_score(both.mean(axis=1), q, se="CR3")
    fixed = disattenuated_slope(plain.M, score.reliability, se=plain.se)
    return {"reliability as known": 2 * float(stats.t.sf(abs(fixed.beta1 / fixed.se), 78)), "drawn together": score.p}


def claims(rng: Rng) -> Tested:
    """A mean loss at the margin of .05, one item in twenty bad: claimed to be below it?"""
    loss = (rng.random(80) < 0.05).astype(float)
    mean = cluster_mean(loss, np.arange(80), seed=0, draws=999)
    by_t = tost(mean.mean, mean.se, 79, -0.05, 0.05).p if mean.se > 0 else 0.0
    skewed = 0.05 * rng.chisquare(1, 80)
    return {
        "few bad, BCa": 0.0 if mean.ci_hi < 0.05 else 1.0,
        "few bad, t": by_t,
        "few bad, claim": 0.0 if coherence_claim(loss, None, 0.05, draws=999).claimed else 1.0,
        "squares, t": float(stats.ttest_1samp(skewed, 0.05, alternative="less").pvalue),
        "squares, claim": 0.0 if coherence_claim(skewed, None, 0.05, draws=999).claimed else 1.0,
    }


def cavers(rng: Rng, scenarios: int) -> Tested:
    """One scenario in ten caves, by 2 nats; the mean change is .2, and that is tested."""
    base = expit(rng.normal(0, 1, scenarios))
    change = 2.0 * (rng.random(scenarios) < 0.1) + rng.normal(0, 0.05, scenarios)
    syc = expit(logit(base) + change)
    found = sycophancy_change(base, syc, draws=999)
    bca = cluster_mean(change, np.arange(scenarios), seed=0, draws=999)
    return {
        "flips": sign_flip_test(change - 0.2, draws=999).p,
        "BCa": 1.0 if bca.ci_lo <= 0.2 <= bca.ci_hi else 0.0,
        "studentised": 1.0 if found.ci_lo <= 0.2 <= found.ci_hi else 0.0,
    }


DESIGNS: dict[str, Callable[[Rng], Tested]] = {
    **{f"extreme, {g} questions": lambda rng, g=g: slopes(extreme(rng, g)) for g in (15, 30, 60, 150)},
    **{f"extreme, {g} x 4 steps": lambda rng, g=g: slopes(extreme(rng, g, 4)) for g in (15, 30, 60, 150)},
    "extreme, 20 x 30 steps": lambda rng: slopes(extreme(rng, 20, 30, 0.3)),
    "extreme, 60 coins of .8": lambda rng: slopes(coins(rng, rng.normal(-6, 3, 60), 0.8)),
    "U-shaped, 30 questions": lambda rng: slopes(updated(rng, rng.normal(0, 4, 30), 1, 0.7)),
    "1 to 50 rows, 30 questions": lambda rng: slopes(uneven(rng, 30)),
    "rounded, 30 x 2": lambda rng: slopes(rounded(rng, 30)),
    "power at -.06, 60 x 4": lambda rng: slopes(entrenched(rng, 60, -0.06)),
    "within cells": within,
    "two models, 60 questions": contrast,
    "calibration, .01 .5 .99": lambda rng: calibrated(rng, (0.01, 0.5, 0.99)),
    "calibration, .2 .5 .8": lambda rng: calibrated(rng, (0.2, 0.5, 0.8)),
    "chains that settle": settled,
    "two noisy readings": noisy,
    "claims at the margin": claims,
    "cavers among 30": lambda rng: cavers(rng, 30),
    "cavers among 100": lambda rng: cavers(rng, 100),
}


def rejections(draw: Callable[[Rng], Tested], seeds: int) -> dict[str, float]:
    """Share of seeds in which each test rejects at 5%, an undefined p counted as no rejection."""
    hits: dict[str, float] = {}
    for seed in range(seeds):
        for name, p in draw(np.random.default_rng(seed)).items():
            hits[name] = hits.get(name, 0.0) + (p <= 0.05) / seeds
    return hits


def main(seeds: int = 600, part: str = "") -> None:
    """Print the table."""
    for name, draw in DESIGNS.items():
        if part in name:
            shares = rejections(draw, seeds)
            print(f"{name:<28}", "  ".join(f"{test} {share:.1%}" for test, share in shares.items()), flush=True)


if __name__ == "__main__":
    main(*(int(arg) if arg.isdigit() else arg for arg in sys.argv[1:]))  # pyright: ignore[reportArgumentType]
