"""Draw the figures of these pages, each from simulated beliefs through the library's own functions.

    python docs/metrics/figures.py [NAME ...]

Writes one SVG per page beside this file. Seeds are fixed: the same versions give the same bytes.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from doxascope.metrics import (
    Resampling,
    bayes_error,
    bayes_posterior,
    binned_updates,
    cluster_mean,
    consistency_kappa,
    direction_rates,
    expected_jsd_binomial,
    martingale_iv,
    martingale_score,
    plugin_cmi,
    readout_gate,
    stratified_permutation,
    top_b_score_null_bias,
)

HERE = Path(__file__).parent
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "doxascope",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
BLUE, ORANGE, GREY = "#2166ac", "#d6604d", "#777777"


def martingale(left: Axes, right: Axes) -> None:
    """Noise in the prior looks like regression to the mean; a U shape and a shift look like nothing."""
    rng = np.random.default_rng(0)
    n = 4000
    belief = rng.uniform(0.25, 0.75, n)
    post = belief + rng.uniform(-0.1, 0.1, n)
    widths = np.array([0.0, 0.05, 0.1, 0.15, 0.2, 0.25])
    shares = (0.5**2 / 12) / (0.5**2 / 12 + (2 * widths) ** 2 / 12)
    plain, corrected = [], []
    for width in widths:
        one, two = (belief + rng.uniform(-width, width, n) for _ in range(2))
        plain.append(martingale_score(one, post, se="HC3"))
        corrected.append(martingale_iv(one, two, post, how=Resampling(draws=500)))
    for scores, color, label in ((plain, ORANGE, "M"), (corrected, BLUE, "M, two readings")):
        middle = np.array([s.estimate for s in scores])
        ends = np.abs(np.array([[s.ci_lo, s.ci_hi] for s in scores]).T - middle)
        left.errorbar(shares, middle, yerr=ends, fmt="o", ms=3, color=color, label=label)
    left.plot(shares, shares - 1, color=GREY, lw=1, ls=":", label="reliability - 1")
    left.set(xlabel="reliability of the reading", ylabel="slope", title="a perfect martingale, read with noise")
    left.legend()
    shape = 3 * (belief - 0.5) ** 2 - 0.0625
    for moved, color, label in ((shape, ORANGE, "U shape"), (np.full(n, 0.04), BLUE, "shift")):
        after = belief + moved + rng.uniform(-0.1, 0.1, n)
        bins = binned_updates(belief, after)
        m = martingale_score(belief, after, se="HC3").M
        ends = np.abs(np.array([bins.lo, bins.hi]) - bins.mean_delta)
        right.errorbar(
            bins.mean_prior, bins.mean_delta, ends, fmt="o-", ms=3, lw=1, color=color, label=f"{label}: M = {m:+.2f}"
        )
    right.axhline(0, color=GREY, lw=0.8)
    right.set(xlabel="prior", ylabel="mean update", title="what the slope is blind to")
    right.legend()


def consistency(left: Axes, right: Axes) -> None:
    """Samples of one belief disagree; a model that answers by position agrees."""
    sizes = [5, 10, 20, 50, 100, 200, 500, 1000]
    for p, color in ((0.5, BLUE), (0.9, ORANGE)):
        expected = [1 - expected_jsd_binomial(p, p, n, n) for n in sizes]
        left.semilogx(sizes, expected, "o-", ms=3, lw=1, color=color, label=f"belief {p:g}")
    left.axhline(1, color=GREY, lw=0.8)
    left.set(xlabel="samples per context", ylabel="expected c2", title="a belief that never changes, sampled")
    left.legend()
    rng = np.random.default_rng(0)
    first = rng.uniform(0.05, 0.95, 200)
    agents = {
        "keeps its belief": (first, first),
        "by position": (np.full(200, 0.8), np.full(200, 0.8)),
        "half and half": (first, 0.5 * first + 0.4),
        "at random": (first, rng.uniform(0.05, 0.95, 200)),
    }
    for i, (prior, post) in enumerate(agents.values()):
        before, after = (np.column_stack([x, 1 - x]) for x in (prior, post))
        score = consistency_kappa(before, after, np.arange(200), how=Resampling(draws=300))
        right.bar(i - 0.2, score.c, 0.4, color=ORANGE, label="c2" if not i else None)
        if np.isfinite(score.kappa):
            right.bar(i + 0.2, score.kappa, 0.4, color=BLUE, label="kappa" if not i else None)
        else:
            right.text(i + 0.2, 0.03, "no kappa", rotation=90, ha="center", color=BLUE)
    right.axhline(0, color=GREY, lw=0.8)
    right.set_xticks(range(len(agents)), [name.replace(" ", "\n", 1) for name in agents])
    right.set(title="raw score and score above chance", ylim=(-0.3, 1.45))
    right.legend(ncols=2, loc="upper right")


def b_score(left: Axes, right: Axes) -> None:
    """The top option is partly top by luck."""
    sizes = [5, 10, 20, 30, 60, 100]
    for k, color in ((2, BLUE), (4, ORANGE), (10, GREY)):
        left.plot(
            sizes, [top_b_score_null_bias(k, n) for n in sizes], "o-", ms=3, lw=1, color=color, label=f"{k} options"
        )
    left.set(
        xlabel="single-turn answers",
        ylabel="mean top-option B",
        title="no bias at all, uniform answers",
        ylim=(0, None),
    )
    left.legend()
    laws = {"uniform": [0.25] * 4, ".4 .3 .2 .1": [0.4, 0.3, 0.2, 0.1], ".7 .1 .1 .1": [0.7, 0.1, 0.1, 0.1]}
    right.bar(range(3), [top_b_score_null_bias(4, 30, p) for p in laws.values()], color=[BLUE, ORANGE, GREY])
    right.set_xticks(range(3), list(laws))
    right.set(ylabel="mean top-option B", title="30 answers, four options, by their law")


def bayes(left: Axes, right: Axes) -> None:
    """A flawless Bayesian whose four probabilities are read with noise."""
    rng = np.random.default_rng(0)
    n = 4000
    p_x, like, other = rng.uniform(0.2, 0.8, n), rng.uniform(0.1, 0.9, n), rng.uniform(0.1, 0.9, n)
    p_y = like * p_x + other * (1 - p_x)
    truth = like * p_x / p_y
    spreads = np.array([0.0, 0.025, 0.05, 0.075, 0.1, 0.125])
    mae, wrong, above = [], [], []
    for spread in spreads:
        px, ly, py, post = (np.clip(v + rng.normal(0, spread, n), 0.01, 0.99) for v in (p_x, like, p_y, truth))
        target = bayes_posterior(px, ly, py)
        mae.append(bayes_error(post, target.v, how=Resampling(draws=200)).mae)
        wrong.append(direction_rates(px, post, target.v, tol=1e-6).incorrect)
        above.append(target.incoherence_rate)
    left.plot(spreads, mae, "o-", ms=3, lw=1, color=ORANGE)
    left.set(xlabel="SD of a reading", ylabel="mean |stated - Bayes|", title="the error of a perfect Bayesian")
    right.plot(spreads, wrong, "o-", ms=3, lw=1, color=ORANGE, label="wrong direction")
    right.plot(spreads, above, "s-", ms=3, lw=1, color=BLUE, label="P* above 1")
    right.set(xlabel="SD of a reading", ylabel="share of updates", title="and what it is accused of")
    right.legend()


def decision(left: Axes, right: Axes) -> None:
    """An agent that acts on its belief alone; copies of its contexts look like knowledge of the state."""
    rng = np.random.default_rng(0)
    repeats, trials = [1, 2, 3, 5], 120
    rejected = []
    for times in repeats:
        scores = []
        for trial in range(trials):
            p = np.sort(rng.random(60))
            action, theta = ((rng.random(60) < p).astype(int) for _ in range(2))
            strata = np.arange(60) // 15
            rows = np.repeat(np.arange(60), times)
            scores.append(
                stratified_permutation(action[rows], theta[rows], strata[rows], how=Resampling(seed=trial, draws=199))
            )
        rejected.append(np.mean([s.p <= 0.05 for s in scores]))
    left.bar(range(len(repeats)), rejected, color=ORANGE)
    left.axhline(0.05, color=GREY, lw=0.8, ls=":")
    left.set_xticks(range(len(repeats)), [str(r) for r in repeats])
    left.set(
        xlabel="identical repetitions of a context", ylabel="share of p <= .05", title="repetitions counted as rows"
    )
    n, sizes = 300, [5, 10, 15, 30, 60, 150]
    values, debiased = np.zeros((2, len(sizes)))
    for i, size in enumerate(sizes):
        strata = np.arange(n) // size
        for trial in range(40):
            p = np.sort(rng.random(n))
            action, theta = ((rng.random(n) < p).astype(int) for _ in range(2))
            values[i] += plugin_cmi(action, theta, strata).cmi / 40
            debiased[i] += (
                stratified_permutation(action, theta, strata, how=Resampling(seed=trial, draws=199)).debiased / 40
            )
    right.plot(sizes, values, "o-", ms=3, lw=1, color=ORANGE, label="plug-in")
    right.plot(sizes, debiased, "o-", ms=3, lw=1, color=BLUE, label="less its null mean")
    right.axhline(0, color=GREY, lw=0.8)
    right.set_xscale("log")
    right.set_xticks(sizes, [str(size) for size in sizes])
    right.minorticks_off()
    right.set(xlabel="contexts in a stratum, of 300", ylabel="CMI, nats", title="nothing but the belief")
    right.legend()


def white_box(left: Axes, right: Axes) -> None:
    """A read-out that knows the words and not the context correlates with the truth, until words are taken out."""
    rng = np.random.default_rng(0)
    items, k, words = 120, 3, 30
    frequency = rng.normal(0, 2, words)
    option = np.array([rng.choice(words, k, replace=False) for _ in range(items)]).repeat(2, axis=0)
    held = rng.normal(0, 1, (items, k)).repeat(2, axis=0)
    rejected = np.tile([-1, 0], items)
    held[rejected == 0, 0] -= 2
    exact = frequency[option] + held
    raw, partial, lo, hi = [], [], [], []
    shares = [0.0, 0.25, 0.5, 0.75, 1.0]
    for share in shares:
        inner = frequency[option] + share * held + rng.normal(0, 0.5, exact.shape)
        inner_logp, exact_logp = (x - np.log(np.exp(x).sum(axis=1, keepdims=True)) for x in (inner, exact))
        gate = readout_gate(
            inner_logp, exact_logp, option, np.arange(items).repeat(2), rejected, how=Resampling(draws=300)
        )
        raw.append(np.corrcoef(inner_logp.ravel(), exact_logp.ravel())[0, 1])
        partial.append(gate.partial_corr)
        lo.append(gate.partial_corr - gate.ci_lo)
        hi.append(gate.ci_hi - gate.partial_corr)
        right.errorbar(
            share,
            gate.evidence_response,
            np.abs(np.array(gate.evidence_ci)[:, None] - gate.evidence_response),
            fmt="o",
            ms=3,
            color=BLUE,
        )
        right.plot(share, gate.evidence_exact, "_", ms=9, color=GREY)
    left.plot(shares, raw, "o-", ms=3, lw=1, color=ORANGE, label="raw")
    left.errorbar(shares, partial, [lo, hi], fmt="o-", ms=3, lw=1, color=BLUE, label="words taken out")
    left.axhline(0.5, color=GREY, lw=0.8, ls=":")
    left.set(
        xlabel="share of the belief in the read-out",
        ylabel="correlation with exact",
        title="does it track the belief?",
        ylim=(-0.2, 1.05),
    )
    left.legend(loc="lower right")
    right.axhline(0, color=GREY, lw=0.8)
    right.set(
        xlabel="share of the belief in the read-out",
        ylabel="change of log-odds, nats",
        title="does it react to the rejection?",
    )


def inference(left: Axes, right: Axes) -> None:
    """Rows of a cluster are not independent, and few clusters are few."""
    rng = np.random.default_rng(0)
    numbers, trials = [5, 8, 12, 20, 40, 80], 300
    covered = np.zeros((2, len(numbers)))
    for i, g in enumerate(numbers):
        groups = np.repeat(np.arange(g), 8)
        for trial in range(trials):
            values = rng.normal(0, 1, g)[groups] + rng.normal(0, 1, len(groups))
            for j, unit in enumerate((groups, np.arange(len(groups)))):
                made = cluster_mean(values, unit, how=Resampling(seed=trial, draws=400))
                covered[j, i] += (made.ci_lo <= 0 <= made.ci_hi) / trials
    for row, color, label in zip(covered, (BLUE, ORANGE), ("over clusters", "over rows"), strict=True):
        left.semilogx(numbers, row, "o-", ms=3, lw=1, color=color, label=label)
    left.axhline(0.95, color=GREY, lw=0.8, ls=":")
    left.set(
        xlabel="clusters of eight rows", ylabel="coverage of a 95% interval", title="what to resample", ylim=(0, 1)
    )
    left.set_xticks(numbers, [str(g) for g in numbers])
    left.minorticks_off()
    left.legend(loc="lower right")
    folds = 2.0 ** np.arange(0, 9)
    right.loglog(folds, 0.05 / folds, color=BLUE, lw=1, label="smallest p must be below")
    right.axhline(2 / 2001, color=ORANGE, lw=1, label="least p of 2,000 bootstrap draws")
    right.axhline(1 / 5000, color=GREY, lw=1, label="least p of 4,999 permutations")
    right.set(xlabel="tests in the family", ylabel="p", title="draws that a family of tests needs (Holm)")
    right.legend()


FIGURES: dict[str, Callable[[Axes, Axes], None]] = {
    "martingale": martingale,
    "consistency": consistency,
    "b-score": b_score,
    "bayes": bayes,
    "decision": decision,
    "white-box": white_box,
    "inference": inference,
}


def main() -> None:
    """Draw the figures that are named, or all."""
    mpl.use("svg")
    with mpl.rc_context(STYLE):
        for name in sys.argv[1:] or FIGURES:
            figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 2.7))
            FIGURES[name](left, right)
            figure.savefig(HERE / f"{name}.svg", metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    main()
