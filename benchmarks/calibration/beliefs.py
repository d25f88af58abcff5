"""Calibration of consistency, B-score, sycophancy, fork, the gates and the shared inference."""

import numpy as np
from numpy.random import Generator
from scipy import stats
from scipy.special import expit, logit

from doxascope.benchmarks.agents.choices import Answering, Eliminating, PositionLocked, YesSayer
from doxascope.benchmarks.agents.testimony import Listener, Sycophantic
from doxascope.benchmarks.agents.updates import Floats, PriorNoise, Updater
from doxascope.benchmarks.calibration.design import (
    PERMUTATIONS,
    RESAMPLES,
    Design,
    Test,
    excludes,
    misses,
    names,
    rejects,
    score_of,
    scores,
    simulation,
    unless_flagged,
    updates,
)
from doxascope.metrics import (
    ClusterMean,
    belief_consistency,
    cluster_mean,
    cluster_share,
    fork_coherence,
    random_effects_pool,
    sign_flip_test,
    top_b_score,
)
from doxascope.metrics.contract import Resampling
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.samples import Answers, Evidence, Learning, Testimony
from doxascope.metrics.tables.whitebox_samples import Askers, Layers

LONGER = "no shorter than t, for the sake of heavy tails"
MEAN_CI = Test("mean, cluster bootstrap interval", bound=True, note=LONGER)
MEAN_T = Test("mean +- t(G-1) standard errors", "picture", note="skewed clusters: read the bootstrap interval")
MEAN_ROWS = Test("mean, rows independent, t interval", "picture", note="three contexts share one triple")


def _rows_miss(values: Floats, truth: float) -> float:
    return rejects(float(stats.ttest_1samp(values, truth).pvalue))


def _t_miss(mean: ClusterMean, truth: float) -> float:
    reach = float(stats.t.ppf(0.975, mean.n_clusters - 1)) * mean.se
    return misses(mean.mean - reach, mean.mean + reach, truth)


@simulation
def _leaks(rng: Generator, leak: float, planted: float, triples: int) -> dict[str, float]:
    agent = Eliminating(leak=leak)
    c = agent.sample(triples, rng)
    mean = score_of("consistency", "p_invalid_norm", c, RESAMPLES)
    invalid = belief_consistency(c.prior, c.posterior, c.rejected).p_invalid_norm
    return {
        MEAN_CI.name: excludes(mean, planted),
        MEAN_T.name: _t_miss(mean, planted),
        MEAN_ROWS.name: _rows_miss(invalid, planted),
    }


KAPPA = Test("kappa, cluster bootstrap interval")


@simulation
def _locked(rng: Generator, taste: float, triples: int) -> dict[str, float]:
    c = PositionLocked(taste=taste).sample(triples, rng)
    return {KAPPA.name: excludes(score_of("consistency-kappa", "kappa", c, RESAMPLES), 0.0)}


COMPETENT = Test("rejected option is given up, by its share of items", bound=True, note="of items, not of means")


@simulation
def _competent(rng: Generator, agent: PositionLocked | Eliminating, triples: int) -> dict[str, float]:
    c = agent.sample(triples, rng)
    gate = score_of("competence", "gate", c, RESAMPLES)
    return {COMPETENT.name: float(gate.conditions["rejected halves"].held)}


READABLE = Test("read-out gate passes", nominal=0.025, bound=True, note="three conditions at once")
WORD_TERM = Test("its evidence response alone passes", nominal=0.025)


@simulation
def _readable(rng: Generator, signal: float, triples: int) -> dict[str, float]:
    """An inner read-out of words and noise, with a share `signal` of what the exact one says of the context."""
    c = Eliminating(leak=0.1, concentration=50).sample(triples, rng)
    exact = np.log(np.concatenate([c.prior[::3], c.posterior]))
    item = np.r_[np.arange(triples), np.repeat(np.arange(triples), 3)]
    words = np.tile(np.arange(3), (len(exact), 1)) + 3 * item[:, None] % 30
    rejected = np.r_[np.full(triples, -1), c.rejected]
    constants = rng.normal(0, 1, 30)[words]
    inner = constants + signal * exact + 0.5 * rng.standard_normal(exact.shape)
    inner = inner - np.log(np.exp(inner).sum(axis=1, keepdims=True)) + np.log(0.5)
    read = Layers(inner=inner, exact=exact, words=words, rejected=rejected, clusters=item)
    gate = score_of("readout-gate", "readout_gate", read, RESAMPLES)
    return {READABLE.name: float(gate.passed), WORD_TERM.name: float("evidence_response" not in gate.failures)}


TOP_SAME = Test("top-option B, chosen and scored on the same answers, t", "paper", note="winner's curse")
TOP_SPLIT = Test(
    "top-option B, chosen on one half and scored on the other, bootstrap interval", bound=True, note=LONGER
)
TOP_FLIP = Test("the same, sign flips over questions")
TOP_EXACT = Test("top-option B from exact probabilities, bootstrap interval", bound=True, note=LONGER)


@simulation
def _top(rng: Generator, agent: Answering, questions: int) -> dict[str, float]:
    options = tuple(map(str, range(agent.options)))
    a = agent.sample(questions, rng)
    single, multi, *halves = (_shares(x) for x in (a.single.sum(axis=1), a.multi, a.single[:, 0], a.single[:, 1]))
    counted = Answers(options=options, single=single, multi=multi, counts=a.single.sum(axis=1), invalid=(0.0, 0.0))
    exact = Answers(options=options, single=a.p_single, multi=a.p_multi.mean(axis=(1, 2)), invalid=(0.0, 0.0))
    once = [
        np.mean(row[top_b_score(dict(enumerate(choose)), dict(enumerate(after))).top])
        for choose, row, after in zip(halves[0], halves[1] - multi, multi, strict=True)
    ]
    same = [top_b_score(*(dict(enumerate(row)) for row in both)).b for both in zip(single, multi, strict=True)]
    return {
        TOP_SPLIT.name: excludes(score_of("b-score", "top_b_held_out", counted, RESAMPLES), 0.0),
        TOP_EXACT.name: excludes(score_of("b-score", "top_b", exact, RESAMPLES), 0.0),
        TOP_FLIP.name: rejects(sign_flip_test(once, how=Resampling(draws=PERMUTATIONS)).p),
        TOP_SAME.name: _rows_miss(np.array(same), 0.0),
    }


def _shares(counts: Floats) -> Floats:
    return counts / counts.sum(axis=1, keepdims=True)


SHIFT_P = Test("paired shift, p by scenario", bound=True, note=LONGER)
PAIRED_CI = Test("paired difference, interval by scenario", bound=True, note=LONGER)
PAIRED_T = Test("paired t over rows", "paper", note="rows of a scenario share its shift")


@simulation
def _testimony(rng: Generator, shift: float, scenarios: int) -> dict[str, float]:
    """Levels and shifts are symmetric, so a mean shift of 0 in log-odds is one of 0 in the belief as well."""
    t = Sycophantic(shift).sample(scenarios, rng)
    found = scores("sycophancy", Testimony(base=t.base, syc=t.user, clusters=t.scenario), RESAMPLES)
    return {
        SHIFT_P.name: rejects(found["shift"].p),
        PAIRED_CI.name: excludes(found["shift_logit"], 0.0),
        PAIRED_T.name: rejects(found["shift"].p_t),
    }


PERSISTENCE = Test("persistence, bootstrap interval")


@simulation
def _persists(rng: Generator, planted: float, scenarios: int) -> dict[str, float]:
    agent = Sycophantic(shift=0.5, kept=0.6)
    t = agent.sample(scenarios, rng)
    user, third = (logit(x) - logit(t.base) for x in (t.user, t.third))
    sample = Askers(shift_user=user, shift_third=third, clusters=t.scenario)
    return {PERSISTENCE.name: excludes(score_of("persistence", "persistence", sample, RESAMPLES), planted)}


EXCESS = Test("user's excess less the agent's, studentised interval by scenario", bound=True, note=LONGER)
EXCESS_FEW = Test(EXCESS.name, "picture", note="at 40 scenarios a common shift makes it a little short: see 100")


@simulation
def _listens(rng: Generator, agent: Listener, planted: float, worlds: int) -> dict[str, float]:
    """The excess of a listener whose readings all have noise."""
    found = score_of("licensed-testimony", "excess", agent.sample(worlds, rng), RESAMPLES)
    return {EXCESS.name: excludes(found, planted)}


GRETHER = Test("Grether weight of evidence, CR3 interval")


@simulation
def _weighs(rng: Generator, gain: float, planted: float, n: int) -> dict[str, float]:
    agent = Updater(gain, noise=0.5)
    j = agent.sample(n, rng)
    p_x, posterior = j.read.T
    p_y = p_x * j.like_x + (1 - p_x) * j.like_not_x
    sample = Evidence(p_x=p_x, p_y=p_y, p_y_given_x=j.like_x, posterior=posterior, p_y_given_not_x=j.like_not_x)
    return {GRETHER.name: excludes(score_of("grether", "grether", sample, RESAMPLES), planted)}


COEFFICIENT = Test("Bayesian coherence coefficient, cluster bootstrap interval")


@simulation
def _coheres(rng: Generator, planted: float, questions: int) -> dict[str, float]:
    """Three pieces of evidence on each question, which share half of their variance; the coefficient is .8."""
    shared, alone = rng.normal(0, np.sqrt(0.5), (2, questions, 1)), rng.normal(0, np.sqrt(0.5), (2, questions, 3))
    expected, noise = (shared + alone).reshape(2, -1)
    prior = rng.normal(0, 1, len(expected))
    before, after = (np.column_stack([x, 1 - x]) for x in expit([prior, prior + 0.8 * expected + 0.6 * noise]))
    loglik = np.column_stack([expected, np.zeros(len(expected))])
    sample = Learning(prior=before, loglik=loglik, posterior=after, clusters=np.repeat(names(questions), 3))
    return {COEFFICIENT.name: excludes(score_of("bayes-coherence", "bcc", sample, RESAMPLES), planted)}


FORK = Test("fork excess, cluster bootstrap interval", bound=True, note=LONGER)
FORK_ROWS = Test("fork excess, contexts independent, t", "picture", note="contexts of an item share its bias")


@simulation
def _forks(rng: Generator, bias: float, planted: float, items: int) -> dict[str, float]:
    b = YesSayer(bias).sample(items, rng)
    mean = score_of("fork", "fork_excess", b, RESAMPLES)
    rows = _rows_miss(fork_coherence(b.q, b.r).excess, planted)
    return {FORK.name: excludes(mean, planted), FORK_ROWS.name: rows}


PAIRED = Test("paired difference of two kinds, bootstrap")
FAMILY_OF_THREE = Test("any of three comparisons after Holm", bound=True, note="Holm holds the level at most")
UNADJUSTED = Test("any of three comparisons, unadjusted", "picture", note="three chances")
ONE_ONLY = Test("one kind significant, the other not", "picture", note="not a comparison")


@simulation
def _kinds(rng: Generator, widths: tuple[float, ...], questions: int) -> dict[str, float]:
    """One Bayesian read in several ways; the M of each further way less that of the first."""
    silent = PriorNoise(widths[0]).of.sample(questions, rng)
    reads = [PriorNoise(width).reading(silent.belief, rng) for width in widths]
    kinds = [updates(*read.T, keys=names(questions), kind=str(i)) for i, read in enumerate(reads)]
    rivals = [(kinds[0].name, other.name) for other in kinds[1:]]
    family = score_samples(kinds, Resampling(draws=RESAMPLES), "martingale", until="M", rivals=rivals).differences
    p, adjusted = ([one.value(name) for one in family] for name in ("p", "p_adjusted"))
    single = [_correlation_p(read) for read in reads[:2]]
    return {
        PAIRED.name: rejects(p[0]),
        FAMILY_OF_THREE.name: rejects(min(adjusted)),
        UNADJUSTED.name: rejects(min(p)),
        ONE_ONLY.name: float((single[0] <= 0.05) != (single[1] <= 0.05)),
    }


def _correlation_p(read: Floats) -> float:
    """p of the iid t-test of the slope of the update on the prior: the same as of their correlation."""
    return float(stats.pearsonr(read[:, 0], read[:, 1] - read[:, 0]).pvalue)


SMALL_MEAN = Test("mean, t interval over clusters")
POOL = Test("pooled mean of cells, Hartung-Knapp")
POOL_CELLS = Test("mean of cells +- 1.96 SD / sqrt k", "paper", note="normal quantiles for few cells")


@simulation
def _few(rng: Generator, clusters: int, mean_of_all: float = 0.0) -> dict[str, float]:
    cluster = np.repeat(np.arange(clusters), 5)
    values = rng.normal(mean_of_all, 1, clusters)[cluster] + rng.normal(0, 1, len(cluster))
    mean = cluster_mean(values, cluster, how=Resampling(draws=RESAMPLES))
    return {
        (SMALL_MEAN if clusters < 10 else MEAN_CI).name: excludes(mean, 0.0),
        MEAN_T.name: _t_miss(mean, 0.0),
        MEAN_ROWS.name: _rows_miss(values, 0.0),
    }


BAD = Test("mean loss, interval of clusters", bound=True, note="flagged below thirty clusters")
RIGHT = Test("share that is right, interval", bound=True, note="Clopper-Pearson, which errs to the safe side")


@simulation
def _lumpy(rng: Generator, clusters: int, null: float = 1.0) -> dict[str, float]:
    """One cluster in ten loses ten cents, the others next to nothing: one on average."""
    loss = np.where(rng.random(clusters) < 0.1, 10.0, 0.0) + rng.uniform(-0.01, 0.01, clusters)
    mean = cluster_mean(loss, np.arange(clusters), how=Resampling(draws=RESAMPLES))
    return {BAD.name: unless_flagged(mean, excludes(mean, null))}


@simulation
def _right(rng: Generator, clusters: int, share: float, null: float, rows: int) -> dict[str, float]:
    """So many questions to each theme, whose own share of right answers varies."""
    own = rng.beta(share * 20, (1 - share) * 20, clusters)
    right = (rng.random((clusters, rows)) < own[:, None]).astype(float).ravel()
    found = cluster_share(right, np.repeat(np.arange(clusters), rows))
    return {RIGHT.name: unless_flagged(found, excludes(found, null))}


@simulation
def _cells(rng: Generator, cells: int, effect: float = 0.0) -> dict[str, float]:
    se = rng.uniform(0.02, 0.08, cells)
    est = effect + 0.05 * rng.standard_normal(cells) + se * rng.standard_normal(cells)
    pooled = random_effects_pool(est, se)
    reach = 1.96 * est.std(ddof=1) / np.sqrt(cells)
    return {
        POOL.name: excludes(pooled, 0.0),
        POOL_CELLS.name: misses(est.mean() - reach, est.mean() + reach, 0.0),
    }


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
               _testimony(0.0, 40), (SHIFT_P, PAIRED_CI, PAIRED_T)),
        Design("D-power", d, "Sycophantic, 40 scenarios x 4 elicitations", power, "mean shift .2 of log-odds",
               _testimony(0.2, 40), (SHIFT_P, PAIRED_CI)),
        Design("D-persistence", d, "Sycophantic, 40 scenarios x 4 elicitations", level, "persistence .6",
               _persists(0.6, 40), (PERSISTENCE,)),
        Design("D-persistence-power", d, "Sycophantic, 40 scenarios x 4 elicitations", power, "persistence .6, not 1",
               _persists(1.0, 40), (PERSISTENCE,)),
        Design("D-excess", d, "Listening, licensed by known reliability, 40 worlds x 6 arms", level, "excess 0",
               _listens(Listener(spread=0.4, blur=0.05), 0.0, 40), (EXCESS,)),
        Design("D-excess-trust", d, "Listening, and trusting everybody by .8 nats too much, 40 worlds", level,
               "excess 0", _listens(Listener(trust=0.8, spread=0.4, blur=0.05), 0.0, 40), (EXCESS_FEW,)),
        Design("D-excess-trust-100", d, "Listening, and trusting everybody by .8 nats too much, 100 worlds", level,
               "excess 0", _listens(Listener(trust=0.8, spread=0.4, blur=0.05), 0.0, 100), (EXCESS,)),
        Design("D-excess-flattery", d, "Listening, and flattering by .5 nats, 40 worlds x 6 arms", level, "excess .5",
               _listens(Listener(flattery=0.5, spread=0.4, blur=0.05), 0.5, 40), (EXCESS,)),
        Design("D-excess-power", d, "Listening, and flattering by .35 nats, 40 worlds x 6 arms", power,
               "excess .35", _listens(Listener(flattery=0.35, spread=0.4, blur=0.05), 0.0, 40), (EXCESS,)),
        Design("D-grether", d, "Updating with gain .8 and noise .5, 150 judgements", level, "weight .8",
               _weighs(0.8, 0.8, 150), (GRETHER,)),
        Design("D-grether-power", d, "Updating with gain .8 and noise .5, 150 judgements", power, "weight .8, not 1",
               _weighs(0.8, 1.0, 150), (GRETHER,)),
        Design("D-bcc", d, "Updating with gain .8 and noise .6, 50 questions x 3 pieces of evidence", level,
               "coefficient .8", _coheres(0.8, 50), (COEFFICIENT,)),
        Design("D-bcc-power", d, "Updating with gain .8 and noise .6, 50 questions x 3 pieces of evidence", power,
               "coefficient .8, not .65", _coheres(0.65, 50), (COEFFICIENT,)),
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
        *(
            Design(f"F-lumpy-{n}", f, f"one cluster in ten loses ten cents, {n} clusters", level, "mean 1 cent",
                   _lumpy(n), (BAD,))
            for n in (6, 12, 20, 60)
        ),
        Design("F-lumpy-power", f, "one cluster in ten loses ten cents, 100 clusters", power, "mean 1 cent, not 0",
               _lumpy(100, 0.0), (BAD,)),
        *(
            Design(f"F-share-{n}x{rows}-{share:g}", f, f"{n} themes x {rows} questions, {share:.0%} right", level,
                   f"share {share:g}", _right(n, share, share, rows), (RIGHT,))
            for n, rows, share in ((60, 1, 0.98), (12, 1, 0.9), (20, 10, 0.95), (20, 10, 0.6))
        ),
        Design("F-share-power", f, "20 themes x 10 questions of which 60% are right", power, "share .6, not .45",
               _right(20, 0.6, 0.45, 10), (RIGHT,)),
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
        Design("W-competence-power", w, "Eliminating with a leak of .05, 60 triples x 3 contexts", power,
               "rejected share 1/3 to 1/20", _competent(Eliminating(leak=0.05), 60), (COMPETENT,)),
        Design("W-readout", w, "inner read-out of words and noise, 60 triples", level, "nothing of the context",
               _readable(0.0, 60), (WORD_TERM, READABLE)),
        Design("W-readout-power", w, "inner read-out with .7 of the exact log-odds, 60 triples", power,
               "partial correlation above .5", _readable(0.7, 60), (WORD_TERM, READABLE)),
    ]  # fmt: skip
