"""Controls expose what only looks like a target; intervals and tests say what they say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import roc_auc_score

import doxascope.metrics
from doxascope.metrics import Resampling, belief_consistency, martingale_score
from doxascope.probes.dataset import ProbeData, make_target
from doxascope.probes.estimators import ridge
from doxascope.probes.evidence.calibration import (
    BETS,
    SPREADS,
    by_errors,
    calibrate,
    cells_of,
    shift_test,
    spread,
    update_behind_probe,
)
from doxascope.probes.evidence.controls import baseline_r2, learning_curve, selectivity, surface_features
from doxascope.probes.evidence.crossfit import Refitted, auc, cross_fit, log_loss_skill, recall_at, refit
from doxascope.probes.evidence.estimator_comparison import compare_estimators
from doxascope.probes.evidence.incremental import incremental_validity
from doxascope.probes.evidence.study import Beside, StudyPlan, study
from doxascope.probes.evidence.token_lead import lead_in_tokens
from doxascope.probes.evidence.transfer import complement_gaps, pair_rows, transfer_matrix
from doxascope.probes.groups import grouped_folds

PENALTIES = (1.0, 100.0)


def read(data: ProbeData) -> tuple[Any, Any]:
    return data.read(data.points[0]), grouped_folds(data.groups, 5, 0)


@pytest.mark.parametrize("confound", ["prompt length", "bag of words", "template"])
def test_a_confound_of_length_words_or_template_is_exposed(planted: Callable[..., ProbeData], confound: str) -> None:
    """Activations that hold nothing but the confound, and a target that goes with it: the surface does as well."""

    def text(truth: Any, rng: Any) -> Any:
        return [" ".join(["word"] * int(3 + 5 * t + rng.integers(2))) for t in truth]

    made = {
        "prompt length": {"text": text},
        "bag of words": {"text": lambda truth, rng: ["indeed it is" if t else "it is so said" for t in truth]},
        "template": {"template": lambda truth, rng: np.where(truth == 1, "first", "second")},
    }
    data = planted({0: 1.5}, layers=1, **made[confound])
    x, folds = read(data)
    probe = baseline_r2(x, data.target.logit, folds, PENALTIES)
    surface = baseline_r2(surface_features(data.rows)[confound], data.target.logit, folds, PENALTIES)
    assert probe > 0.5
    assert surface > probe
    honest = planted({0: 1.5}, layers=1)
    by_surface = [
        baseline_r2(rival, honest.target.logit, folds, PENALTIES) for rival in surface_features(honest.rows).values()
    ]
    assert max(by_surface) < 0.1


def test_random_targets_are_learnt_by_heart_where_groups_recur_and_nowhere_else() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 10)
    x = np.repeat(rng.normal(size=(30, 40)), 10, axis=0) + 0.05 * rng.normal(
        size=(300, 40)
    )  # the content is all there is
    y = np.repeat(rng.normal(size=30), 10)
    found = selectivity(x, y, groups, grouped_folds(groups, 5, 0), (0.1, 10.0), draws=10, seed=0)
    assert found.memorised > 0.9
    assert found.control < 0.1


@pytest.mark.filterwarnings("error")
def test_ten_groups_of_one_row_say_what_cannot_be_computed(planted: Callable[..., ProbeData]) -> None:
    """Seed 0 draws a random target, and a resample, that are the same for all: neither has an R2, a skill or a fit."""
    truth = np.repeat([1.0, 0.0], 5)
    x, groups = np.random.default_rng(1).normal(size=(10, 8)), np.arange(10)
    folds, target = grouped_folds(groups, 5, 0), make_target("outcome", truth)
    found = selectivity(x, target.logit, groups, folds, PENALTIES, draws=20, seed=0)
    assert np.isfinite(found.control)
    assert found.selectivity == pytest.approx(baseline_r2(x, target.logit, folds, PENALTIES) - found.control)
    assert "known groups: cannot be computed: each group has one row" in found.told
    assert "nan" not in found.told
    for fit in compare_estimators(x, target, groups, folds, PENALTIES, how=Resampling(0, 20)):
        assert not fit.skill.known or fit.skill.lo > -1000, fit.estimator  # of labels that vary
        assert fit.skill.known == fit.auc.known


def test_scores_are_recalibrated_on_rows_that_they_were_not_fitted_on(planted: Callable[..., ProbeData]) -> None:
    data = planted({0: 0.8}, layers=1, groups=150)
    x, folds = read(data)
    found = cross_fit(x, data.target, folds, PENALTIES)
    assert calibrate(found.logit, data.target.prob).slope == pytest.approx(1, abs=0.25)
    assert calibrate(found.score, data.target.prob).slope < 0.8  # log-odds of +-6.9 are not what is known
    assert log_loss_skill(data.target.prob, found.belief, found.train_prob) > 0.2
    alone = np.flatnonzero(folds == 0)
    np.testing.assert_allclose(found.readouts[0].logit(x[alone]), found.logit[alone], atol=1e-9)


def test_calibration_and_its_shift_between_positions() -> None:
    rng = np.random.default_rng(1)
    logit = 1.5 * rng.normal(size=20000)
    y = rng.random(20000) < expit(0.5 + 0.6 * logit)
    found = calibrate(logit, y)
    assert (found.slope, found.intercept) == (pytest.approx(0.6, abs=0.05), pytest.approx(0.5, abs=0.05))
    assert np.isnan(calibrate(np.zeros(5), y[:5])).all()
    near, far = Refitted(0.02, -0.1, 0.14, 0.06, 100), Refitted(0.4, 0.3, 0.5, 0.05, 100)
    assert shift_test(near, "slope").equivalent
    assert not shift_test(far, "slope").equivalent


def test_the_spread_is_the_root_of_what_a_calibrated_reading_knows_and_nothing_is_blown_up() -> None:
    rng = np.random.default_rng(0)
    read, missed = rng.normal(0, 1.2, 4000), rng.normal(0, 0.9, 4000)  # R2 = 1.44 / 2.25
    option = np.arange(4000) % 2
    away = np.where(option, 1.5, -1.5)  # means of options are no spread
    groups = np.arange(4000) // 4
    calibrated = spread(expit(read + away), expit(read + missed + away), option, groups)
    assert calibrated.ratio == pytest.approx(0.8, abs=0.02)
    assert calibrated.slope == pytest.approx(0.64, abs=0.03)
    assert calibrated.fault[0].startswith("drawn together: its log-odds have")
    assert calibrated.fault[1] == calibrated.ratio
    assert spread(expit(away), expit(read + away), option, groups).ratio == pytest.approx(0.0, abs=1e-12)
    exact = spread(expit(read + away), expit(read + away), option, groups)
    assert (exact.ratio, exact.slope, exact.fault[0], exact.known) == (pytest.approx(1), pytest.approx(1), "", True)


def test_a_reading_that_spreads_as_far_and_knows_nothing_or_too_far_is_told_from_one_that_is_drawn_together() -> None:
    rng = np.random.default_rng(0)
    known = rng.normal(0, 1.2, 800)
    option, groups = np.arange(800) % 2, np.arange(800) // 4
    shuffled = spread(expit(rng.permutation(known)), expit(known), option, groups)
    assert shuffled.ratio == pytest.approx(1, abs=0.02)
    assert shuffled.fault[0].startswith("apart from the exact belief")
    assert spread(expit(1.5 * known), expit(known), option, groups).fault[0].startswith("spread too far: its log-odds")


def test_what_is_struck_out_of_a_probe_that_draws_together_are_numbers_that_metrics_make() -> None:
    code = "".join(file.read_text() for file in Path(doxascope.metrics.__file__).parent.rglob("*.py"))
    assert [name for name in (*SPREADS, *BETS) if f'"{name}' not in code] == []


def test_nothing_is_told_of_a_constant_belief_nor_of_a_perfect_probe_by_few_groups() -> None:
    rng = np.random.default_rng(0)
    groups = np.arange(24) // 2
    for constant in (0.49, 0.5, 0.1 + 0.2, 0.9):
        known = np.full(24, constant)
        known[::2] = np.nextafter(known[::2], 1)  # as by another order of a sum
        flat = spread(known[::-1], known, groups * 0, groups)
        assert np.isnan(flat.ratio)
        assert (flat.fault[0], flat.known) == ("", False)
    struck = 0
    for _ in range(40):
        known = rng.normal(0, 1.2, 24)
        read = known + rng.normal(0, 0.25, 24)
        found = spread(expit(0.95 * read), expit(known), groups * 0, groups)
        struck += bool(found.fault[0])
    assert struck <= 4


def test_the_interval_of_refits_holds_what_it_says() -> None:
    """The R2 of a probe on new groups lies within the interval in most of 40 data sets, though the probe is fitted on
    few groups: with a fixed probe it would be narrower."""
    held = 0
    big = np.random.default_rng(99)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(40), 2)
        x = np.repeat(rng.normal(size=(40, 4)), 2, axis=0)
        y = x[:, 0] + np.repeat(rng.normal(size=40), 2)
        folds = grouped_folds(groups, 4, 0)
        found = refit(
            lambda rows, mine, x=x, y=y: {"r2": baseline_r2(x[rows], y[rows], mine, PENALTIES)},
            groups,
            folds,
            how=Resampling(0, 40),
        )["r2"]
        new = big.normal(size=(4000, 4))
        w, b = ridge(x, y, 1.0)
        target = new[:, 0] + big.normal(size=4000)
        truth = 1 - ((target - new @ w - b) ** 2).sum() / ((target - y.mean()) ** 2).sum()
        held += found.lo <= truth <= found.hi
    assert held >= 32


def test_transfer_fails_where_the_direction_turns(planted: Callable[..., ProbeData]) -> None:
    """A surface probe reads the word of the fact, and knows nothing of `not`: under negation it is below chance."""
    polar = planted({0: 2.0}, layers=1, hidden=lambda rows: (2 * rows["truth"] - 1) * np.where(rows["negated"], -1, 1))
    honest = planted({0: 2.0}, layers=1)
    for data, worst in ((polar, 0.2), (honest, 0.9)):
        x, folds = read(data)
        found = transfer_matrix(
            x, data.target, data.groups, folds, "polarity", data.rows["polarity"], [1.0] * 5, how=Resampling(0, 20)
        )
        away = [found.cells[0][1], found.cells[1][0]]
        assert all((cell.value < worst) == (data is polar) for cell in away)
        assert all(found.cells[i][i].value > 0.9 for i in (0, 1))
        assert found.off_diagonal.value == pytest.approx(np.mean([cell.value for cell in away]))


def test_complements_are_paired_by_rows() -> None:
    pairs, negated = ["a", "b", "a", "", "b", "c"], [False, True, True, False, False, False]
    rows = pair_rows(pairs, negated)
    np.testing.assert_array_equal(sorted(map(tuple, rows)), [(0, 2), (4, 1)])
    gaps = complement_gaps(np.array([0.7, 0.4, 0.3, 0.9, 0.8, 0.1]), rows)
    np.testing.assert_allclose(sorted(gaps), [0.0, 0.2])


def world(seed: int, extra: float) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(60), 3)
    exact, own = rng.normal(size=(2, 180))
    y = (rng.random(180) < expit(1.5 * exact + extra * own)).astype(float)
    return exact + (own if extra else 0.3 * rng.normal(size=180)), y, exact, groups, grouped_folds(groups, 5, 0)


def test_what_repeats_the_logit_adds_nothing_and_what_knows_more_does() -> None:
    adds = incremental_validity(
        *[(w := world(0, 1.5))[0], w[1], [("exact", w[2])], w[3], w[4]], how=Resampling(draws=199)
    )
    assert adds.gain > 0.05
    assert adds.p < 0.01
    assert adds.ci_lo > 0
    same = incremental_validity(w[2] * 2, w[1], [("exact", w[2])], w[3], w[4], how=Resampling(draws=19))
    assert (same.status, np.isnan(same.p)) == ("nothing_new", True)
    below = 0
    for seed in range(40):
        probe, y, exact, groups, folds = world(seed + 1, 0.0)
        below += incremental_validity(probe, y, [("exact", exact)], groups, folds, how=Resampling(draws=39)).p <= 0.1
    assert below <= 10  # eleven or more happen once in a thousand times at a level of a tenth


def test_a_probe_that_copies_the_logit_adds_to_it_no_more_often_than_the_level_says() -> None:
    """The whole road, cross-fitting included: the fold's own labels must not come back through the other folds."""
    below = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        groups, exact = np.repeat(np.arange(40), 2), rng.normal(size=80)
        target = make_target("truth", (rng.random(80) < expit(exact)).astype(float))
        x = np.column_stack([exact, rng.normal(size=(80, 10))])
        folds = grouped_folds(groups, 5, seed)
        crossed = cross_fit(x, target, folds, PENALTIES)
        found = incremental_validity(
            crossed.signals, target.prob, [("exact", exact)], groups, folds, how=Resampling(draws=39)
        )
        below += found.p <= 0.1
    assert below <= 10


def test_skill_is_that_of_scikit_learn_and_recall_keeps_its_rate() -> None:
    rng = np.random.default_rng(3)
    y, score = rng.integers(0, 2, 500).astype(float), np.round(rng.normal(size=500), 1)
    assert auc(y, score) == pytest.approx(roc_auc_score(y, score))
    soft = rng.random(200)
    doubled = roc_auc_score(
        np.repeat([1, 0], 200), np.tile(score[:200], 2), sample_weight=np.concatenate([soft, 1 - soft])
    )
    assert auc(soft, score[:200]) == pytest.approx(doubled, abs=0.01)
    negatives = rng.normal(size=1000)
    found = recall_at(rng.normal(2, 1, 1000), negatives)
    assert (negatives > found.threshold).mean() <= 0.01
    assert 0.2 < found.recall < 0.6
    assert np.isnan(recall_at([1.0], negatives[:99]).recall)


def test_every_estimator_is_judged_on_the_same_folds(planted: Callable[..., ProbeData]) -> None:
    data = planted({0: 1.5}, layers=1, d=6)
    x, folds = read(data)
    pairs = pair_rows(data.rows["pair"], data.rows["negated"])
    pooled = np.stack([np.random.default_rng(0).normal(size=x.shape), x], axis=1)
    given: Any = {"pooled": pooled, "pairs": pairs, "how": Resampling(0, 20)}
    found = {fit.estimator: fit for fit in compare_estimators(x, data.target, data.groups, folds, PENALTIES, **given)}
    assert len(found) == 7
    for name, fit in found.items():
        if "mean," not in name:
            assert fit.auc.value > 0.85, name
            assert fit.auc.lo > 0.5, name
            assert fit.skill.lo <= fit.skill.value <= fit.skill.hi
    crossed = cross_fit(x, data.target, folds, PENALTIES)
    assert found["ridge on log-odds"].auc.value == pytest.approx(auc(data.target.prob, crossed.logit), abs=0.02)
    nothing = make_target("noise", np.random.default_rng(1).integers(0, 2, len(x)))
    noise = compare_estimators(x, nothing, data.groups, folds, PENALTIES, **given)
    assert all(fit.skill.value < 0.05 and fit.skill.lo < 0 for fit in noise)


def test_recall_on_neutral_chat_needs_a_direction_that_chat_has_not(planted: Callable[..., ProbeData]) -> None:
    data = planted({0: 3.0}, layers=1, groups=30, d=5)
    x, folds = read(data)
    plan = StudyPlan(permutations=19, refits=20, penalties=(1.0,), control_draws=1, transfer=())
    neutral = np.random.default_rng(0).normal(size=(200, x.shape[1]))
    given = [neutral, neutral + 3 * np.eye(x.shape[1])[0]]  # the second looks as true as what is true
    apart, alike = (
        study(data, data.points[0], folds, plan, Beside(neutral=chats)).numbers["recall"] for chats in given
    )
    assert apart.value > 0.6
    assert apart.lo > 0.01
    assert alike.value < 0.1
    few = study(data, data.points[0], folds, plan, Beside(neutral=neutral[:99])).numbers["recall"]
    assert np.isnan(few.value)


def test_the_learning_curve_rises_while_groups_are_missing(planted: Callable[..., ProbeData]) -> None:
    data = planted({0: 1.0}, layers=1, groups=120)
    x, folds = read(data)
    curve = learning_curve(x, data.target.logit, data.groups, folds, PENALTIES)
    assert [point.groups for point in curve] == [15, 30, 60, 120]
    assert curve[0].r2 < curve[-1].r2


def chains(seed: int, early: int) -> dict[str, Any]:
    """Forty trajectories of ten steps: the asked belief settles at a step, the passive one `early` steps before."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {name: [] for name in ("passive", "asked", "token", "step", "chain", "groups")}
    for c in range(40):
        sign, at = rng.choice([-1, 1]), int(rng.integers(5, 9))
        for step in range(10):
            rows["asked"].append(0.5 + 0.3 * sign * (1 if step >= at else -1))
            rows["passive"].append(0.5 + 0.2 * sign * (1 if step >= at - early else -1))
            for name, value in (("token", 7 * step), ("step", step), ("chain", c), ("groups", c // 2)):
                rows[name].append(value)
    return rows


def test_the_lead_is_that_which_was_planted_and_a_probe_that_always_says_yes_has_none() -> None:
    for early in (0, 3):
        found = lead_in_tokens(**chains(0, early))
        assert found.tokens == pytest.approx(7 * early)
        assert found.n_clusters == 20
    assert found.p == 1 / 200
    assert found.ci_lo > found.by_chance + 10
    always: dict[str, Any] = {**chains(0, 0), "passive": [0.9] * 400}
    fooled = lead_in_tokens(**always)
    assert fooled.tokens > 7  # it has settled on every yes from the start
    assert fooled.tokens == pytest.approx(fooled.by_chance)
    assert fooled.p == 1
    assert 0 < fooled.n_never < 40
    silent: dict[str, Any] = {**always, "passive": [np.nan] * 400}
    assert lead_in_tokens(**silent).status == "too_few"


def test_a_rare_level_of_a_condition_is_one_cell_with_other_rare_ones_and_hides_no_common_one() -> None:
    rows = pd.DataFrame({"cluster": np.repeat(np.arange(10), 2), "ruled_out": ["tea", "milk"] * 10})
    plain = cells_of(rows)
    assert len({*zip(rows["ruled_out"], plain, strict=True)}) == len({*plain.tolist()}) == 2
    rare = pd.concat([rows, pd.DataFrame({"cluster": [0, 1], "ruled_out": ["rum", "gin"]})], ignore_index=True)
    cells = cells_of(rare)
    assert len({*zip(rare["ruled_out"][:20], cells[:20], strict=True)}) == len({*cells[:20].tolist()}) == 2
    assert cells[20] == cells[21]
    assert cells[20] not in cells[:20]
    own = rows.assign(ruled_out=[f"word {i}" for i in range(20)])
    assert len({*cells_of(own).tolist()}) == 1


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_the_slope_behind_a_noisy_probe_is_found_where_the_probe_reads_another(slope: float) -> None:
    """A probe with its own scale at prior and posterior, errors of its own and errors that both share."""
    rng = np.random.default_rng(0)
    n, groups = 6000, np.arange(6000) // 3
    prior = 0.5 + 0.15 * rng.normal(size=n)
    post = prior + slope * (prior - 0.5) + 0.1 * rng.normal(size=n)
    shared, own0, own1 = 0.1 * rng.normal(size=(3, n))
    read0, read1 = 0.2 + 0.8 * prior + shared + own0, 0.1 + 1.1 * post + shared + own1
    found = update_behind_probe(read0, read1, prior, post, groups, how=Resampling(draws=200))
    assert found.M_read == pytest.approx(np.polyfit(read0, read1 - read0, 1)[0])
    assert abs(found.M_read - slope) > 0.1
    assert found.M_behind == pytest.approx(slope, abs=0.05)
    assert found.ci_lo <= slope <= found.ci_hi
    variance = np.var(read0)
    assert found.reliability == pytest.approx(0.64 * 0.15**2 / variance, abs=0.03)
    assert found.common == pytest.approx(0.01 / variance, abs=0.03)
    if slope == 0:
        assert found.M_coherent == pytest.approx(found.M_read, abs=0.03)
    deaf = update_behind_probe(np.ones(n), read1, prior, post, groups)
    assert (deaf.status, np.isnan(deaf.M_behind)) == ("no_reliability", True)
    assert update_behind_probe(read0[:9], read1[:9], prior[:9], post[:9], groups[:9]).status == "too_few"


def test_errors_of_a_reading_make_a_coherent_belief_look_incoherent_and_are_known_by_their_side() -> None:
    rng = np.random.default_rng(0)
    prior = softmax(rng.normal(size=(400, 3)), axis=1)
    left = np.where(np.arange(3) == 0, 0.0, prior)
    post = left / left.sum(axis=1, keepdims=True)

    def scores(noise: float) -> dict[str, float]:
        read = [softmax(np.log(np.maximum(p, 1e-4)) + noise * rng.normal(size=p.shape), axis=1) for p in (prior, post)]
        scored = belief_consistency(*read, np.zeros(400, dtype=int))
        change = np.diff(np.log(scored.prior2), axis=1) - np.diff(np.log(scored.post2), axis=1)
        before = rng.uniform(0.2, 0.8, 400)
        after = before + rng.normal(0, 0.1, 400)
        seen = [p + noise / 5 * rng.normal(size=400) for p in (before, after)]
        slope = martingale_score(np.clip(seen[0], 0, 1), np.clip(seen[1], 0, 1)).M
        return {"rms_logodds": float(np.sqrt((change**2).mean())), "c2": float(scored.c2.mean()), "M": slope}

    held, read = scores(0.0), scores(0.4)
    for metric in held:
        assert by_errors(metric, held[metric] - read[metric])
        assert not by_errors(metric, read[metric] - held[metric])
    assert not by_errors("accuracy", 1.0)
    assert by_errors("dutch_book_rejection", -1.0)
