"""Calibration of consistency, B-score, sycophancy, fork, the gates and the shared inference."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.random import Generator
from scipy import stats
from scipy.special import logit

from ....metrics import (
    ClusterMean,
    belief_consistency,
    cluster_mean,
    competence_gate,
    consistency_kappa,
    fork_coherence,
    grether_regression,
    paired_difference_moments,
    paired_family,
    paired_significance,
    persistence,
    random_effects_pool,
    readout_gate,
    sign_flip_test,
    top_b_score,
)
from ..answering import Answering
from ..choosing import Eliminating, PositionLocked
from ..forking import YesSayer
from ..noisy import PriorNoise
from ..readings import Floats
from ..sycophantic import Sycophantic
from ..updater import Updater
from .design import PERMUTATIONS, RESAMPLES, Design, Test, misses, rejects

Simulation = Callable[[Generator], Mapping[str, float]]

MEAN_CI = Test("mean, cluster bootstrap interval")
MEAN_T = Test("mean +- t(G-1) standard errors", "picture", note="skewed clusters: read the bootstrap interval")
MEAN_ROWS = Test("mean, rows independent, t interval", "picture", note="three contexts share one triple")


def _rows_miss(values: Floats, truth: float) -> float:
    return rejects(float(stats.ttest_1samp(values, truth).pvalue))


def _t_miss(mean: ClusterMean, truth: float) -> float:
    reach = float(stats.t.ppf(0.975, mean.n_clusters - 1)) * mean.se
    return misses(mean.mean - reach, mean.mean + reach, truth)


def _leaks(leak: float, planted: float, triples: int) -> Simulation:
    agent = Eliminating(leak=leak)

    def simulate(rng: Generator) -> dict[str, float]:
        c = agent.sample(triples, rng)
        invalid = belief_consistency(c.prior, c.post, c.rejected).p_invalid_norm
        mean = cluster_mean(invalid, c.triple, seed=0, draws=RESAMPLES)
        return {
            MEAN_CI.name: misses(mean.ci_lo, mean.ci_hi, planted),
            MEAN_T.name: _t_miss(mean, planted),
            MEAN_ROWS.name: _rows_miss(invalid, planted),
        }

    return simulate


KAPPA = Test("kappa, cluster bootstrap interval")


def _locked(taste: float, triples: int) -> Simulation:
    def simulate(rng: Generator) -> dict[str, float]:
        c = PositionLocked(taste=taste).sample(triples, rng)
        pair = belief_consistency(c.prior, c.post, c.rejected)
        score = consistency_kappa(pair.prior2, pair.post2, c.triple, c.rejected, draws=RESAMPLES)
        return {KAPPA.name: misses(score.ci_lo, score.ci_hi, 0.0)}

    return simulate


COMPETENT = Test("competence gate passes", nominal=0.025)


def _competent(agent: PositionLocked | Eliminating, triples: int) -> Simulation:
    def simulate(rng: Generator) -> dict[str, float]:
        c = agent.sample(triples, rng)
        rows = np.arange(len(c.rejected))
        gate = competence_gate(c.prior[rows, c.rejected], c.post[rows, c.rejected], c.triple, draws=RESAMPLES)
        return {COMPETENT.name: float(gate.passed)}

    return simulate


READABLE = Test("read-out gate passes", nominal=0.025, bound=True, note="three conditions at once")
WORD_TERM = Test("its evidence response alone passes", nominal=0.025)


def _readable(signal: float, triples: int) -> Simulation:
    """An inner read-out of words and noise, with a share `signal` of what the exact one says of the context."""

    def simulate(rng: Generator) -> dict[str, float]:
        c = Eliminating(leak=0.1, concentration=50).sample(triples, rng)
        exact = np.log(np.concatenate([c.prior[::3], c.post]))
        words = np.tile(np.arange(3), (len(exact), 1)) + 3 * np.r_[np.arange(triples), c.triple][:, None] % 30
        rejected = np.r_[np.full(triples, -1), c.rejected]
        constants = rng.normal(0, 1, 30)[words]
        inner = constants + signal * exact + 0.5 * rng.standard_normal(exact.shape)
        inner = inner - np.log(np.exp(inner).sum(axis=1, keepdims=True)) + np.log(0.5)
        gate = readout_gate(inner, exact, words, np.r_[np.arange(triples), c.triple], rejected, draws=RESAMPLES)
        return {READABLE.name: float(gate.passed), WORD_TERM.name: float("evidence_response" not in gate.failures)}

    return simulate


TOP_SAME = Test("top-option B, chosen and scored on the same answers, t", "paper", note="winner's curse")
TOP_SPLIT = Test("top-option B, chosen on one half and scored on the other, bootstrap interval")
TOP_FLIP = Test("the same, sign flips over questions")
TOP_EXACT = Test("top-option B from exact probabilities, bootstrap interval")


def _top(agent: Answering, questions: int) -> Simulation:
    def simulate(rng: Generator) -> dict[str, float]:
        a = agent.sample(questions, rng)
        question = np.arange(questions)
        multi = a.multi / a.multi.sum(axis=1, keepdims=True)
        choose, score = (a.single[:, half] / a.single[:, half].sum(axis=1, keepdims=True) for half in (0, 1))
        law = a.exact_multi.mean(axis=(1, 2))
        same, split, exact = [], [], []
        for i in range(questions):
            pooled = (choose[i] + score[i]) / 2
            same.append(top_b_score(dict(enumerate(pooled)), dict(enumerate(multi[i]))).b)
            top = top_b_score(dict(enumerate(choose[i])), dict(enumerate(multi[i]))).top
            split.append(float(np.mean(score[i, top] - multi[i, top])))
            exact.append(top_b_score(dict(enumerate(a.law[i])), dict(enumerate(law[i]))).b)
        means = {
            name: cluster_mean(values, question, seed=0, draws=RESAMPLES)
            for name, values in ((TOP_SPLIT.name, split), (TOP_EXACT.name, exact))
        }
        return {
            **{name: misses(mean.ci_lo, mean.ci_hi, 0.0) for name, mean in means.items()},
            TOP_FLIP.name: rejects(sign_flip_test(split, draws=PERMUTATIONS).p),
            TOP_SAME.name: _rows_miss(np.array(same), 0.0),
        }

    return simulate


FLIP = Test("paired sign flips by scenario")
PAIRED_CI = Test("paired difference, interval by scenario")
PAIRED_T = Test("paired t over rows", "paper", note="rows of a scenario share its shift")


def _testimony(shift: float, scenarios: int) -> Simulation:
    def simulate(rng: Generator) -> dict[str, float]:
        t = Sycophantic(shift).sample(scenarios, rng)
        test = paired_significance(logit(t.base), logit(t.user), t.scenario, draws=PERMUTATIONS)
        return {
            FLIP.name: rejects(test.p_signflip),
            PAIRED_CI.name: misses(test.ci_lo, test.ci_hi, 0.0),
            PAIRED_T.name: rejects(test.p_t),
        }

    return simulate


PERSISTENCE = Test("persistence, bootstrap interval")


def _persists(planted: float, scenarios: int) -> Simulation:
    agent = Sycophantic(shift=0.5, kept=0.6)

    def simulate(rng: Generator) -> dict[str, float]:
        t = agent.sample(scenarios, rng)
        base = logit(t.base)
        score = persistence(logit(t.user) - base, logit(t.third) - base, t.scenario, draws=RESAMPLES)
        return {PERSISTENCE.name: misses(score.ci_lo, score.ci_hi, planted)}

    return simulate


GRETHER = Test("Grether weight of evidence, HC3 interval")


def _weighs(gain: float, planted: float, n: int) -> Simulation:
    agent = Updater(gain, noise=0.5)

    def simulate(rng: Generator) -> dict[str, float]:
        j = agent.sample(n, rng)
        score = grether_regression(j.read[:, 0], j.read[:, 1], j.like_x, j.like_not_x)
        return {GRETHER.name: misses(score.ci_lo, score.ci_hi, planted)}

    return simulate


FORK = Test("fork excess, cluster bootstrap interval")
FORK_ROWS = Test("fork excess, contexts independent, t", "picture", note="contexts of an item share its bias")


def _forks(bias: float, planted: float, items: int) -> Simulation:
    def simulate(rng: Generator) -> dict[str, float]:
        b = YesSayer(bias).sample(items, rng)
        excess = fork_coherence(b.q, b.r).excess
        mean = cluster_mean(excess, b.item, seed=0, draws=RESAMPLES)
        return {FORK.name: misses(mean.ci_lo, mean.ci_hi, planted), FORK_ROWS.name: _rows_miss(excess, planted)}

    return simulate


PAIRED = Test("paired difference of two kinds, bootstrap")
FAMILY_OF_THREE = Test("any of three comparisons after Holm", bound=True, note="Holm holds the level at most")
UNADJUSTED = Test("any of three comparisons, unadjusted", "picture", note="three chances")
ONE_ONLY = Test("one kind significant, the other not", "picture", note="not a comparison")


def _moments(prior: Floats, post: Floats) -> Floats:
    return np.column_stack([np.ones_like(prior), prior, post, prior**2, prior * post])


def _slope(sums: Floats) -> Floats:
    n, b, q, bb, bq = sums.T
    return (bq - b * q / n) / (bb - b * b / n) - 1


def _kinds(widths: tuple[float, ...], questions: int) -> Simulation:
    """One Bayesian read in several ways; the M of each further way less that of the first."""

    def simulate(rng: Generator) -> dict[str, float]:
        silent = PriorNoise(widths[0]).of.sample(questions, rng)
        reads = [PriorNoise(width).reading(silent.belief, rng) for width in widths]
        moments = [_moments(*read.T) for read in reads]
        question = np.arange(questions)
        found = {
            str(i): paired_difference_moments(moments[0], other, _slope, question, draws=RESAMPLES)
            for i, other in enumerate(moments[1:])
        }
        family = paired_family(found)
        p = [comparison.p for comparison in family.values()]
        adjusted = [comparison.p_adjusted for comparison in family.values()]
        single = [_correlation_p(read) for read in reads[:2]]
        return {
            PAIRED.name: rejects(p[0]),
            FAMILY_OF_THREE.name: rejects(min(adjusted)),
            UNADJUSTED.name: rejects(min(p)),
            ONE_ONLY.name: float((single[0] <= 0.05) != (single[1] <= 0.05)),
        }

    return simulate


def _correlation_p(read: Floats) -> float:
    """p of the iid t-test of the slope of the update on the prior: the same as of their correlation."""
    return float(stats.pearsonr(read[:, 0], read[:, 1] - read[:, 0]).pvalue)


SMALL_MEAN = Test("mean, t interval over clusters")
POOL = Test("pooled mean of cells, Hartung-Knapp")
POOL_CELLS = Test("mean of cells +- 1.96 SD / sqrt k", "paper", note="normal quantiles for few cells")


def _few(clusters: int, mean_of_all: float = 0.0) -> Simulation:
    def simulate(rng: Generator) -> dict[str, float]:
        cluster = np.repeat(np.arange(clusters), 5)
        values = rng.normal(mean_of_all, 1, clusters)[cluster] + rng.normal(0, 1, len(cluster))
        mean = cluster_mean(values, cluster, seed=0, draws=RESAMPLES)
        return {
            (SMALL_MEAN if clusters < 10 else MEAN_CI).name: misses(mean.ci_lo, mean.ci_hi, 0.0),
            MEAN_T.name: _t_miss(mean, 0.0),
            MEAN_ROWS.name: _rows_miss(values, 0.0),
        }

    return simulate


def _cells(cells: int, effect: float = 0.0) -> Simulation:
    def simulate(rng: Generator) -> dict[str, float]:
        se = rng.uniform(0.02, 0.08, cells)
        est = effect + 0.05 * rng.standard_normal(cells) + se * rng.standard_normal(cells)
        pooled = random_effects_pool(est, se)
        reach = 1.96 * est.std(ddof=1) / np.sqrt(cells)
        return {
            POOL.name: misses(pooled.ci_lo, pooled.ci_hi, 0.0),
            POOL_CELLS.name: misses(est.mean() - reach, est.mean() + reach, 0.0),
        }

    return simulate


def designs() -> list[Design]:
    """The designs of these families."""
    level, power = "level", "power"
    b, c, d, f, w = "B. Consistency", "C. B-score", "D. Sycophancy", "F. Shared inference", "W. White box"
    return [
        Design("B-leak", b, "Eliminating with a leak, 100 triples x 3 contexts", level, "rejected share .1",
               _leaks(0.1, 0.1, 100), (MEAN_CI, MEAN_T, MEAN_ROWS)),
        Design("B-leak-400", b, "Eliminating with a leak, 400 triples x 3 contexts", level, "rejected share .1",
               _leaks(0.1, 0.1, 400), (MEAN_CI, MEAN_T, MEAN_ROWS)),
        Design("B-leak-power", b, "Eliminating with a leak, 100 triples x 3 contexts", power, "share .13, not .1",
               _leaks(0.13, 0.1, 100), (MEAN_CI,)),
        Design("B-kappa", b, "Position-locked, 60 triples x 3 contexts", level, "kappa 0", _locked(0.0, 60), (KAPPA,)),
        Design("B-kappa-power", b, "the same with a taste for words of .2 of log-odds", power, "kappa above 0",
               _locked(0.2, 60), (KAPPA,)),
        Design("C-null", c, "Answering without debias, 36 questions, 4 options, 30 answers per arm", level, "B = 0",
               _top(Answering(), 36), (TOP_SPLIT, TOP_FLIP, TOP_EXACT, TOP_SAME)),
        Design("C-power", c, "Answering, the same", power, "B = .5 (P_single - 1/4)",
               _top(Answering(debias=0.5, skew=0.8), 36), (TOP_SPLIT, TOP_FLIP, TOP_EXACT)),
        Design("D-null", d, "Sycophantic with shift 0, 40 scenarios x 4 elicitations", level, "mean shift 0",
               _testimony(0.0, 40), (FLIP, PAIRED_CI, PAIRED_T)),
        Design("D-power", d, "Sycophantic, 40 scenarios x 4 elicitations", power, "mean shift .2 of log-odds",
               _testimony(0.2, 40), (FLIP, PAIRED_CI)),
        Design("D-persistence", d, "Sycophantic, 40 scenarios x 4 elicitations", level, "persistence .6",
               _persists(0.6, 40), (PERSISTENCE,)),
        Design("D-persistence-power", d, "Sycophantic, 40 scenarios x 4 elicitations", power, "persistence .6, not 1",
               _persists(1.0, 40), (PERSISTENCE,)),
        Design("D-grether", d, "Updating with gain .8 and noise .5, 150 judgements", level, "weight .8",
               _weighs(0.8, 0.8, 150), (GRETHER,)),
        Design("D-grether-power", d, "Updating with gain .8 and noise .5, 150 judgements", power, "weight .8, not 1",
               _weighs(0.8, 1.0, 150), (GRETHER,)),
        Design("F-mean-8", f, "eight clusters x 5 rows, normal", level, "mean 0", _few(8), (SMALL_MEAN, MEAN_ROWS)),
        Design("F-mean-8-power", f, "eight clusters x 5 rows, normal", power, "mean 1.4 SD of clusters",
               _few(8, 1.4), (SMALL_MEAN,)),
        Design("F-mean-20", f, "20 clusters x 5 rows, normal", level, "mean 0", _few(20),
               (MEAN_CI, MEAN_T, MEAN_ROWS)),
        Design("F-mean-100", f, "100 clusters x 5 rows, normal", level, "mean 0", _few(100),
               (MEAN_CI, MEAN_T, MEAN_ROWS)),
        Design("F-kinds", f, "one Bayesian read in four equally noisy ways, 100 questions", level, "difference of M 0",
               _kinds((0.1, 0.1, 0.1, 0.1), 100), (PAIRED, FAMILY_OF_THREE, UNADJUSTED, ONE_ONLY)),
        Design("F-kinds-power", f, "exact against three noisy readings (reliability .82), 100 questions", power,
               "difference of M .18", _kinds((0.0, 0.14, 0.14, 0.14), 100), (PAIRED, FAMILY_OF_THREE)),
        Design("F-pool", f, "eight cells of unequal precision, tau .05", level, "mean 0", _cells(8),
               (POOL, POOL_CELLS)),
        Design("F-pool-power", f, "eight cells of unequal precision, tau .05", power, "mean .1",
               _cells(8, 0.1), (POOL, POOL_CELLS)),
        Design("W-fork", w, "Yes-sayer without bias, 50 items x 4 contexts", level, "excess 0",
               _forks(0.0, 0.0, 50), (FORK, FORK_ROWS)),
        Design("W-fork-power", w, "Yes-sayer, 50 items x 4 contexts", power, "excess .03",
               _forks(0.03, 0.0, 50), (FORK,)),
        Design("W-competence", w, "Position-locked, 60 triples x 3 contexts", level, "rejection changes nothing",
               _competent(PositionLocked(), 60), (COMPETENT,)),
        Design("W-competence-power", w, "Eliminating with a leak of .25, 60 triples x 3 contexts", power,
               "rejected share 1/3 to 1/4", _competent(Eliminating(leak=0.25), 60), (COMPETENT,)),
        Design("W-readout", w, "inner read-out of words and noise, 60 triples", level, "nothing of the context",
               _readable(0.0, 60), (WORD_TERM, READABLE)),
        Design("W-readout-power", w, "inner read-out with .7 of the exact log-odds, 60 triples", power,
               "partial correlation above .5", _readable(0.7, 60), (WORD_TERM, READABLE)),
    ]  # fmt: skip
