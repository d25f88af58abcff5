"""What a run leads with: the gate as it was before reading, and the number that was registered (METRICS W4, F8)."""

import csv
import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from doxascope import UserError
from doxascope.experiments.report.lead import Lead
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import report, run
from doxascope.metrics import Resampling, belief_gate, cluster_mean, items_responding
from doxascope.metrics.claims import Verdict, verdicts
from doxascope.metrics.coherence import COHERENCE, COHERENT, INCOHERENT, beyond, coherent
from doxascope.metrics.consistency.competence import NOT_SHOWN
from doxascope.metrics.decision import monotone_sufficiency
from doxascope.metrics.number import Number
from doxascope.metrics.registration import Registered
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.sample_rows import Pairs, Updates
from doxascope.metrics.tables.samples import Answers, Cases, Options, Told, YesNo

SETTINGS = ("items=3", "bootstrap_draws=50", "methods={letters: {labels: [A, B, C], forms: ['{option}']}}")
PLAN = "registered={metric: coverage_prior, method: letters, n: 5, margin: 0.5, coherent: 1, family: 2}"


@pytest.fixture(scope="module")
def ran(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    out = tmp_path_factory.mktemp("runs")

    def go(*changes: str) -> Any:
        experiment, config = load_config("consistency", [*SETTINGS, *changes], str(tiny_folder))
        return run(experiment, config, out), experiment, config

    return go


def test_another_registration_is_refused_and_so_is_one_written_afterwards(ran: Callable[..., Any]) -> None:
    folder, experiment, config = ran(PLAN)
    before = (folder.path / "scores.json").read_bytes()
    for other in ("registered=null", PLAN.replace("n: 5", "n: 3"), PLAN.replace("letters", "free")):
        with pytest.raises(UserError, match="was registered for another number") as error:
            ran(other)
        assert "\n" not in str(error.value)
    changed = config.model_copy(update={"registered": config.registered.model_copy(update={"metric": "c2"})})
    with pytest.raises(UserError, match="was registered for another number"):
        report(folder, experiment, changed)
    assert (folder.path / "scores.json").read_bytes() == before
    assert ran(PLAN)[0].path == folder.path


def test_the_page_leads_with_verdict_gate_and_primary_and_counts_the_rest(ran: Callable[..., Any]) -> None:
    folder, *_ = ran(PLAN)
    page = (folder.path / "report.html").read_text()
    stored = json.loads((folder.path / "scores.json").read_text())
    places = [
        page.index(text)
        for text in ("eadable", "Primary number", "coverage_prior of letters",
                     f"exploratory: {len(stored['scores']) - 1} further numbers", "The three verdicts",
                     "What was measured", "<h2>Scores<")
    ]  # fmt: skip
    assert places == sorted(places)
    assert "3 of the 5 clusters that are registered are in it" in page
    assert "fixed before anything was read" in page
    (gate,) = stored["lead"]["verdicts"]
    assert gate["method"] == "letters"
    row = next(row for row in stored["scores"] if row["metric"] == "gate")
    assert gate["failed"] == [n for n, one in row["details"]["conditions"].items() if one["state"] == "fails"]
    assert (gate["readable"], gate["responds"]) == (row["details"]["readable"], row["details"]["responds"])
    assert gate["coherent"] in ("coherent", "incoherent", "not shown")
    assert html.escape(gate["said"][1:]) in page


def test_the_figure_shows_the_number_of_the_sentence_and_details_fold_into_seven_parts(ran: Callable[..., Any]) -> None:
    folder, *_ = ran(PLAN)
    stored = json.loads((folder.path / "scores.json").read_text())
    (registered,) = (
        row["estimate"]
        for row in stored["scores"]
        if (row["metric"], row["method"], row["subset"]) == ("coverage_prior", "letters", "all")
    )
    (lead,) = (folder.path / "figures").glob("01-*.csv")
    points = [float(row["x"]) for row in csv.DictReader(lead.open()) if row["mark"] == "point"]
    assert any(point == pytest.approx(registered, rel=1e-6) for point in points)
    page = (folder.path / "report.html").read_text()
    assert page.index('id="lead-figure"') < page.index('id="primary"')
    assert page.count('<details class="section"><summary>') <= 1 + 7  # the verdicts, and the parts


def test_a_condition_that_came_later_is_called_so(ran: Callable[..., Any]) -> None:
    folder, experiment, config = ran(PLAN)
    manifest = folder.manifest
    for fixed, said in (
        (
            ["coverage"],
            "These were added after this run was read: rejected halves and below a mention.",
        ),
        ([], "Nothing says that these conditions were fixed before anything was read."),
    ):
        folder.write_manifest(manifest | {"gate": fixed})
        report(RunFolder.open(folder.path), experiment, config)
        page = (folder.path / "report.html").read_text()
        assert said in page
        assert "were fixed before anything was read" not in page.replace(said, "")
    assert ran(PLAN)[0].manifest["gate"] == []  # going on does not rewrite it
    folder.write_manifest(manifest)
    report(RunFolder.open(folder.path), experiment, config)


def _number(p: float = 0.03, margin: float | None = None) -> tuple[Registered, Number]:
    score = cluster_mean([0.9, 1.0, 1.1, 1.0, 0.95, 1.05] * 2, range(12))
    plan = Registered(metric="m", method="a", n=12, coherent=1, margin=margin, family=3)
    return plan, Number(metric="m", method="a", score=replace(score, p=p))


def test_the_primary_number_is_adjusted_for_its_family_and_held_to_its_margin() -> None:
    plan, number = _number(margin=0.3)
    _, value, lines = Lead([], [number], plan).primary
    assert value == "1.000"
    assert any(
        re.fullmatch(r"Against zero p is 0\.03, and 0\.09 over a family of 3 tests \(Bonferroni\)\.", line)
        for line in lines
    )
    assert any(line.startswith("It is shown to be within ±0.3 of 1") for line in lines)
    plan, number = _number(margin=0.01)
    assert any(
        line.startswith("It is not shown to be within ±0.01 of 1") for line in Lead([], [number], plan).primary[2]
    )
    flagged = replace(number, score=replace(number.score, status="few_effective_clusters"))
    assert (
        "Whether it is within ±0.01 of 1 cannot be tested: few effective clusters."
        in Lead([], [flagged], plan).primary[2]
    )


def test_an_interval_beyond_the_margin_is_shown_to_lie_outside() -> None:
    for value, told in ((0.0, "shown to lie outside ±0.3 of 0"), (0.7, "not shown to be within ±0.3 of 0.7")):
        plan, number = _number(margin=0.3)
        plan = plan.model_copy(update={"coherent": value})
        assert any(told in line for line in Lead([], [number], plan).primary[2])


def test_twelve_clusters_that_are_alike_claim_nothing_of_those_that_were_not_sampled() -> None:
    score = cluster_mean(np.linspace(0.999, 1.001, 12), range(12))
    number = Number(metric="m", method="a", score=score)
    plan = Registered(metric="m", method="a", n=12, coherent=1, margin=0.05)
    found = plan.equivalence(number)
    assert found is not None
    assert (found.p, found.equivalent) == (pytest.approx(0.95**12), False)
    assert any("a claim takes 60 clusters" in line for line in Lead([], [number], plan).primary[2])
    near = plan.equivalence(replace(number, worst=0.1))  # where no cluster can be off by more
    assert near is not None
    assert (near.p, near.equivalent) == (pytest.approx(0.5**12), True)
    other = Number(metric="m", method="b", score=number.score)
    assert "not made by this run" in Lead([], [other], plan).primary[2][0]
    assert Lead([], [other]).primary[2] == ["All 1 numbers here are exploratory."]


@pytest.mark.parametrize(
    ("value", "n", "state"),
    [(1.0, 58, NOT_SHOWN), (1.0, 59, COHERENT), (0.98, 59, NOT_SHOWN), (0.98, 96, NOT_SHOWN), (0.98, 97, COHERENT),
     (0.9, 300, NOT_SHOWN)],
)  # fmt: skip
def test_clusters_that_are_all_alike_are_coherent_once_others_could_not_have_been_missed(
    value: float, n: int, state: str
) -> None:
    """Of as many as bring the mean to its margin one would, at 5%, be among them; nearly alike is no other thing."""
    plan = Registered(metric="c2", method="a", n=n, coherent=1, margin=0.05)
    number = Number(metric="c2", method="a", score=cluster_mean(np.full(2 * n, value), np.arange(2 * n) // 2))
    assert number.score.status == "zero_cluster_variance"
    assert coherent(number, 1, 0.05, plan.equivalence(number)).state == state
    assert ("cannot be tested" in " ".join(Lead([], [number], plan).primary[2])) == (value == 0.9)
    if value == 1:
        almost = replace(number, score=cluster_mean(1 - 1e-9 * np.arange(2 * n), np.arange(2 * n) // 2))
        found = [plan.equivalence(one) for one in (number, almost)]
        assert found[0]
        assert found[1]
        assert found[0].p == pytest.approx(0.95**n)
        assert found[1].p == pytest.approx(found[0].p, rel=1e-4)


def judged(method: str, **readings: Any) -> Number:
    return Number(metric="gate", method=method, score=belief_gate(**readings))


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.9, "Readable; response not tested; coherence not tested."),
        (
            0.1,
            "Unreadable (most of the probability is on answers that are none of the options: median coverage 0.100); "
            "response not tested; nothing follows on coherence.",
        ),
    ],
)
def test_the_sentence_says_three_things(share: float, said: str) -> None:
    answers = [1.0] * 14  # as few as can be shown to be parsed in four of five
    number = judged("a", coverage={"": [share] * 5}, parse_rate={"": answers})
    (verdict,) = verdicts([number])
    lead = Lead([verdict], [], fixed=("coverage", "valid-answer rate"))
    assert lead.sentence == said
    assert lead.failures == (
        []
        if verdict.passed
        else [
            (
                "a (ratio of rare answers)",
                "cannot be read: most of the probability is on answers that are none of the options: median coverage "
                "0.100",
            )
        ]
    )
    plan, measured = _number()
    _, value, lines = Lead([verdict], [measured], plan).primary
    assert value == ("1.000" if verdict.passed else "–")  # what cannot be read heads no page
    assert ("What was measured is 1.000." in lines) == (not verdict.passed)
    others = [judged(name, parse_rate={"": answers}) for name in "bcd"]
    told = "readable, response not tested, coherence not tested."
    for k, names in ((1, ("a and b", "b")), (3, ("a, b, c and d", "b, c and d"))):
        several = Lead(verdicts([number, *others[:k]]), []).sentence
        assert several.lower() == (
            f"{names[0]}: {told}"
            if share > 0.5
            else f"a: unreadable, response not tested, nothing follows on coherence. {names[1]}: {told}"
        )


def test_the_line_of_several_methods_says_why_something_is_not_shown_or_was_not_tested() -> None:
    few = items_responding([1.0, 1.0], [1.0, 1.0], ["a", "b"])
    rare, mostly = (
        judged(name, coverage={"": [share] * 4}, responding=few) for name, share in (("a", 0.12), ("b", 0.6))
    )
    untested = "response not tested (5 items are the fewest that are judged, and 2 can be read precisely enough)"
    found = verdicts([rare, mostly])
    assert [(verdict.readable, verdict.rare) for verdict in found] == [(NOT_SHOWN, True), (NOT_SHOWN, False)]
    assert Lead(found, []).sentence == (
        f"A: not shown to be readable (ratio of rare answers: median coverage 0.120), {untested}, coherence not "
        "tested. "
        f"B: not shown to be readable (coverage: median 0.600), {untested}, coherence not tested."
    )
    assert [verdict.called for verdict in found] == ["a (ratio of rare answers)", "b"]
    table = Lead(found, []).top("", None).gate
    assert table is not None
    assert [row[0].value for row in table.rows[3:]] == ["enough coverage", "items that respond"]
    assert table.caption.endswith("each of the level of the intervals on this page.")


def test_a_table_without_a_gate_leads_with_its_verdict_on_coherence() -> None:
    rng = np.random.default_rng(0)
    prior = rng.uniform(0.2, 0.8, 300)
    pairs = Pairs(prior=prior, posterior=prior + 0.3 * (prior - 0.5) + rng.uniform(-0.02, 0.02, 300))
    numbers = score_samples([Updates(views={"": pairs})], Resampling(draws=99), "martingale").numbers
    said = Lead(verdicts(numbers), numbers).sentence
    assert said.startswith("Readability not tested; response not tested; not coherent (M 0.3")
    assert [one.metric for one in numbers if verdicts([one])] == ["M"]


def test_coherence_is_a_result_with_three_states_and_the_constant_belief_beside() -> None:
    """A number within its margin, outside it, and on the fence; of who responds and who does not."""
    rng = np.random.default_rng(0)
    told = {"template": ["a"] * 40, "prior_rejected": np.full(40, 0.3)}
    follows, ignores = ({**told, "post_rejected": np.full(40, after)} for after in (0.01, 0.3))
    for mean, state in ((0.999, "coherent"), (0.8, "incoherent"), (0.95, "not shown")):
        score = cluster_mean(mean + rng.normal(0, 0.02, 400), range(400), how=Resampling(draws=199))
        number = Number(metric="c2", method="a", score=score)
        plan = Registered(metric="c2", method="a", n=400, coherent=1, margin=0.05)
        for readings in (follows, ignores):
            (verdict,) = verdicts([judged("a", **readings), number], plan)
            assert verdict.states[2] == state
            assert "; a belief of even odds everywhere would have 1.000 as well" in verdict.sentence
            idle = state == "coherent" and readings is ignores
            assert ("as is everybody who ignores what they are told, and this method does" in verdict.sentence) == idle
            (unread,) = verdicts([judged("a", **readings, coverage={"": np.full(40, 0.1)}), number], plan)
            assert unread.states[2] == state
            assert unread.sentence.endswith("; nothing follows on coherence")
            assert unread.short.endswith(", nothing follows on coherence")


def test_the_noise_of_a_reading_is_not_called_incoherent() -> None:
    """Ratios that are kept but for .3 nat of noise, and a leak of .01: the change of log-odds is .4, beyond its margin
    of .1, and consistency .993 bit, within .01 of 1. Unregistered, the verdict goes by the latter."""
    rng = np.random.default_rng(0)
    level = 0.8 * rng.standard_normal((400, 1, 3))
    gone = np.where(np.eye(3), -4.0, 0.0)
    before, after = (
        np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
        for x in (level + 0 * gone, level + gone + 0.3 * rng.standard_normal((400, 3, 3)))
    )
    sample = Options(
        prior=before.reshape(-1, 3),
        posterior=after.reshape(-1, 3),
        rejected=np.tile(np.arange(3), 400),
        clusters=np.repeat(np.arange(400), 3),
    )
    numbers = score_samples([sample], Resampling(draws=200)).numbers
    of = {one.metric: one.score for one in numbers if one.subset == "all"}
    assert of["rms_logodds"].ci_lo > 0.1
    (verdict,) = verdicts(numbers)
    assert verdict.coherent is not None
    assert (verdict.coherent.metric, verdict.coherent.state) == ("c2", COHERENT)


def _planned(rng: np.random.Generator, n: int, *, afresh: bool) -> Options:
    """Ratios that are kept, or drawn afresh, read with .3 nat of noise before and after; a leak of .01."""
    level, gone = 0.8 * rng.standard_normal((2, n, 1, 3)), np.eye(3, dtype=bool)
    before, after = (
        np.exp(x + 0.3 * rng.standard_normal((n, 3, 3))) for x in (level[0], level[1] if afresh else level[0])
    )
    kept = np.where(gone, 0, after)
    after = np.where(gone, 0.01, 0.99 * kept / kept.sum(axis=-1, keepdims=True))
    return Options(
        prior=(before / before.sum(axis=-1, keepdims=True)).reshape(-1, 3),
        posterior=after.reshape(-1, 3),
        rejected=np.tile(np.arange(3), n),
        clusters=np.repeat(np.arange(n), 3),
    )


@pytest.mark.parametrize("n", [12, 300])
def test_noise_before_and_after_is_not_called_incoherent_and_ratios_drawn_afresh_are(n: int) -> None:
    """Noise in both readings takes c2 to .987, beyond its unregistered margin of .01."""
    for afresh, state in ((False, NOT_SHOWN), (True, INCOHERENT)):
        states = []
        for seed in range(10):
            sample = _planned(np.random.default_rng(seed), n, afresh=afresh)
            (verdict,) = verdicts(score_samples([sample], Resampling(seed=seed, draws=100)).numbers)
            assert verdict.coherent is not None
            assert verdict.coherent.metric == "c2"
            states.append(verdict.coherent.state)
        assert states.count(state) >= 9


def test_a_wider_margin_never_calls_more_incoherent() -> None:
    score = replace(cluster_mean([0.97, 0.98, 0.99] * 4, range(12)), ci_lo=0.96, ci_hi=0.97)
    number = Number(metric="c2", method="a", score=score)
    found = [beyond(number, 1, margin) for margin in np.linspace(0, 0.06, 61)]
    assert found == sorted(found, reverse=True)
    assert found[0]
    assert not found[-1]


def test_utilities_that_vary_are_not_called_incoherent_by_a_choice_that_the_belief_explains_in_part() -> None:
    """A coherent maximiser, and beside it the same number under another name, of which nothing of the kind is known."""
    plan = Registered(metric="sufficiency", method="a", n=60, coherent=1, margin=0.05)
    numbers = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        belief, utility = rng.standard_normal((2, 60))
        score = monotone_sufficiency(expit(belief), expit(belief + utility), how=Resampling(seed=seed, draws=199))
        assert score.ci_hi < 0.95
        numbers.append(number := Number(metric="sufficiency", method="a", score=score))
        assert coherent(number, 1, 0.05, plan.equivalence(number)).state == NOT_SHOWN
        other = replace(number, metric="c2")
        assert coherent(other, 1, 0.05, plan.equivalence(other)).state == INCOHERENT
    line = " ".join(Lead([], numbers[-1:], plan).primary[2])
    assert "not shown to be within ±0.05 of 1" in line
    assert "utilities that vary between contexts" in line
    assert "outside" not in line


def test_a_choice_that_the_belief_explains_is_shown_to_be_coherent() -> None:
    """The same number of utilities that do not vary."""
    plan = Registered(metric="sufficiency", method="a", n=400, coherent=1, margin=0.05)
    rng = np.random.default_rng(0)
    belief = rng.standard_normal(400)
    number = Number(metric="sufficiency", method="a", score=monotone_sufficiency(expit(belief), expit(belief + 0.5)))
    assert coherent(number, 1, 0.05, plan.equivalence(number)).state == COHERENT


def test_what_a_constant_belief_has_is_what_the_engine_makes_of_one() -> None:
    three, half = np.full((30, 3), 1 / 3), np.full(30, 0.5)
    rejected = np.arange(30) % 3
    samples = [
        Options(prior=three, posterior=three, rejected=rejected, words_prior=three, words_posterior=three),
        YesNo(belief=half, negated=half, outcome=rejected % 2 * 1.0, mass=np.ones(30)),
        Told(user=half, licensed_user=half, agent=half, licensed_agent=half),
        Answers(options=("a", "b"), single=np.full((30, 2), 0.5), multi=np.full((30, 2), 0.5), invalid=(0.0, 0.0)),
        Cases(p=half, conditional=np.full((30, 2), 0.5), weights=np.full((30, 2), 0.5)),
    ]
    found: dict[str, list[float]] = {}
    for sample in samples:
        for number in score_samples([sample], Resampling(draws=20)).numbers:
            found.setdefault(number.metric, []).append(float(number.score.estimate))
    known = {name: ends.constant for name, ends in COHERENCE.items() if np.isfinite(ends.constant)}
    assert len(known.keys() & found.keys()) >= 9
    for name in known.keys() & found.keys():
        assert found[name] == pytest.approx([known[name]] * len(found[name]), abs=1e-9), name


def test_what_could_not_be_judged_is_said_once_for_all_methods() -> None:
    few = items_responding([1.0, 1.0], [1.0, 1.0], ["a", "b"])
    gate = belief_gate(coverage={"": [0.9] * 5}, responding=few)
    alike = [Verdict(name, list(gate.conditions.values()), withheld=gate.withheld) for name in ("a", "b", "c")]
    lead = Lead(alike, [], fixed=("coverage", "items that respond"))
    said = (
        "Not judged of a, b and c: items that respond, since 5 items are the fewest that are judged, and 2 can be read "
        "precisely enough."
    )
    assert lead.when.endswith(f"A verdict needs all of its conditions. {said}")


def test_a_slope_at_a_level_that_wordings_withhold_leads_with_their_reliability() -> None:
    rng = np.random.default_rng(2)
    wordings, cell = rng.uniform(0.4, 0.6, (100, 5)), np.repeat(["low", "high"], 50)
    pairs = Pairs(prior=wordings.mean(axis=1), posterior=rng.uniform(size=100), wordings=wordings, cell=cell)
    sample = Updates(views={"": pairs}, factors={"cell": cell}, kind="exact", method="words")
    numbers = score_samples([sample], Resampling(draws=200), "martingale-factors").numbers
    of = {number.metric: number for number in numbers}
    for metric in ("M_at", "M_contrast"):
        number = of[metric]
        plan = Registered(metric=metric, method="words", subset=number.subset, n=100)
        for known in (number, replace(number, beside={})):
            _, value, lines = Lead([], [known], plan).primary
            told = f": reliability over wordings {number.beside['reliability over wordings']}" if known.beside else ""
            assert (value, f"(wordings disagree{told})" in " ".join(lines)) == ("-", True)
