"""Whether a validation sees what is planted, and what is not what it is said to be."""

import json
import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from doxascope import Position, Steer, load
from doxascope.base.errors import UserError
from doxascope.experiments.report.html import write
from doxascope.experiments.report.terminal import to_text
from doxascope.experiments.synthetic.organisms import draw_contexts, organism_folder
from doxascope.experiments.synthetic.organisms.network import HELD_AT
from doxascope.experiments.synthetic.organisms.readouts import queries_of
from doxascope.experiments.synthetic.organisms.species import DENYING, HONEST, LATE
from doxascope.experiments.synthetic.organisms.training import direction
from doxascope.experiments.synthetic.validation import report as told
from doxascope.experiments.synthetic.validation.beliefs import REGISTERED, WHICH, Effort, mirrored, states_and_answers
from doxascope.experiments.synthetic.validation.claims import Falsely
from doxascope.experiments.synthetic.validation.probe_use import check_of_opinion
from doxascope.experiments.synthetic.validation.recovery import (
    GAIN,
    LENS,
    RMSE,
    SHARE,
    TOLERANCE,
    Organism,
    Recovered,
    lens_numbers,
    line,
    recover,
)
from doxascope.metrics import Resampling
from doxascope.probes.causal.steering import slope_through_zero

QUICK = Effort(contexts=80, pairs=12, permutations=39, refits=20, checked=12, trained=40, random=19)
LEAST = Effort(contexts=20, pairs=4, folds=3, permutations=19, refits=20, checked=6, trained=12, random=2)


@pytest.fixture(scope="module")
def mistaken() -> Organism:
    """An organism that denies what it holds, under the name of an honest one."""
    with load(organism_folder("denying"), device="cpu") as lm:
        return recover(lm, HONEST, QUICK)


def test_a_denial_is_found_where_none_was_planted(mistaken: Organism) -> None:
    outside = {(one.what, one.reading) for one in mistaken.numbers if one.found is False}
    assert {(what, "answer") for what in (RMSE, SHARE, GAIN)} | {(LENS, "lens, layer 3")} <= outside
    assert not {(what, reading) for what in (RMSE, SHARE, GAIN) for reading in ("bet", "probe")} & outside
    right = {one.claimed.name: one.right for one in mistaken.claims}
    wrong = {"denial", "beyond random directions, answer"}
    assert right == {name: name not in wrong for name in right}
    assert right.keys() >= wrong | {"beyond random directions, bet"}
    assert not mistaken.recovered


def test_what_is_not_recovered_is_told_on_page_and_terminal(mistaken: Organism, tmp_path: Path) -> None:
    document = told.page([mistaken], QUICK)
    write(told.prepare(tmp_path / "out"), document)
    assert "Not recovered: honest" in to_text(document)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Not recovered: honest" in page
    assert told.FOUND in page
    assert told.SAID in page
    planted = [one.found for one in mistaken.numbers if not math.isnan(one.planted)]
    assert len(planted) < len(mistaken.numbers)
    assert f"{sum(filter(None, planted))} of {len(planted)}" in page
    assert "nothing moves" in page
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert written["top"]["verdict"]["lines"][0][0] == "honest"
    told.prepare(tmp_path / "out")
    with pytest.raises(UserError, match="which is no validation of null organisms"):
        told.prepare_null(tmp_path / "out")


def test_pairs_differ_in_one_word_and_speak_for_other_urns() -> None:
    contexts, _ = draw_contexts(50, 0)
    base, donor = mirrored(contexts)
    assert (donor.logit >= base.logit).all()
    for i in range(len(base)):
        words = zip(base.text(i).split(), donor.text(i).split(), strict=True)
        assert sum(one != other for one, other in words) == 1
    np.testing.assert_allclose(base.logit + donor.logit, 2 * contexts.prior_logit)


@pytest.mark.parametrize(
    ("count", "n", "fails"),
    [(0, 30, False), (4, 30, False), (5, 30, True), (0, 19, True), (60, 1000, False), (70, 1000, True)],
)
def test_false_claims_are_counted_with_their_interval(count: int, n: int, fails: bool) -> None:
    one = Falsely("denial", count, n)
    exact = binomtest(count, n).proportion_ci(method="exact")
    assert one.interval == pytest.approx((exact.low, exact.high))
    assert one.fails == fails


def test_a_planted_value_beyond_interval_and_tolerance_is_not_found() -> None:
    assert Recovered("x", "y", 1.0, 0.8, 0.7, 0.9, 0.1).found
    assert not Recovered("x", "y", 1.01, 0.8, 0.7, 0.9, 0.1).found
    assert Recovered("x", "y", 0.8, 0.8, float("nan"), float("nan"), 0.1).found is False
    assert Recovered("x", "y", float("nan"), 0.8, 0.7, 0.9, 0.1).found is None


def test_what_is_halfway_to_another_planted_value_is_seldom_found_and_a_wide_interval_never() -> None:
    """Intervals of 95% about estimates of .5, .3 or 1, with little noise or much: planted is 1, another has 0."""
    normal = np.random.default_rng(0).normal(size=4000)
    for noise in (0.05, 0.15, 0.3, 1.0):
        for truth in (0.5, 0.3, 1.0):
            ends = [(x, x - 1.96 * noise, x + 1.96 * noise) for x in truth + noise * normal]
            found = np.mean([bool(Recovered("x", "y", 1.0, *one, 0.15, (0.0, 1.0)).found) for one in ends])
            if truth < 1 or noise > 0.3:
                assert found <= 0.025 + 3 * np.sqrt(0.025 / 4000), (noise, truth)
            elif noise <= 0.05:
                assert found >= 0.97


@pytest.mark.parametrize(("spread", "gain", "found"), [(1.5, 0.5, None), (0.1, 1.0, 1.0), (0.1, 0.0, 0.0)])
def test_an_interval_that_holds_two_planted_values_finds_neither(
    spread: float, gain: float, found: float | None
) -> None:
    """An organism whose gain varies by 1.5 between thirty contexts has an interval that holds 0 and 1, each with its
    tolerance; one that is nearly the same everywhere has what it has, and not the other."""
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=30)
    own = gain + spread * (drawn - drawn.mean()) / drawn.std()
    doses = np.tile([-1.0, 1.0], 30)
    score = slope_through_zero(doses, np.repeat(own, 2) * doses, np.repeat(np.arange(30), 2), how=Resampling(0))
    if found is None:
        assert score.ci_lo - TOLERANCE[GAIN] < 0
        assert score.ci_hi + TOLERANCE[GAIN] > 1
    for value in (0.0, 1.0):
        assert line(GAIN, "answer", value, score).found == (value == found)


def test_a_probe_of_what_is_not_used_has_the_gain_that_the_words_have() -> None:
    """The honest organism does not use the user's opinion: the gain's interval holds 0. Training left the denying one
    with a thousandth of a nat of it: steering finds what changing the opinion in the prompt does."""
    contexts, _ = draw_contexts(100, [0, 99])
    for name in ("honest", "denying"):
        with load(organism_folder(name), device="cpu") as lm:
            check = check_of_opinion(lm, Effort(checked=24, trained=50))
            (right, x), (left, y) = (states_and_answers(lm, contexts.with_opinion(o)) for o in (-1, 1))
        x, y = x[REGISTERED], y[REGISTERED]
        apart = (y - x).mean(axis=0)
        size = float(np.linalg.norm(apart))
        deviations = size / float((np.concatenate([x, y]) @ apart / size).std())
        gain, read = check.numbers.gains["means"], check.numbers.slopes["probe"].ratio
        words = float((left - right).mean()) / (deviations * read)
        assert gain.ci_hi - gain.ci_lo < 0.01
        assert gain.ci_lo <= (0 if name == "honest" else words) <= gain.ci_hi
        assert gain.params["folds"] == 10


def test_a_lens_shows_no_belief_before_the_question_has_seen_any() -> None:
    """After the last block it is the answer, what is denied and what is not; of a late organism nothing was planted."""
    contexts, _ = draw_contexts(60, [0, 1])
    for species in (DENYING, LATE):
        with load(organism_folder(species.name), device="cpu") as lm:
            raw, translated, last = lens_numbers(lm, species, contexts, QUICK)
        assert last.found
        assert raw.found == translated.found == (True if species.holds else None)
        assert math.isnan(raw.planted) == math.isnan(translated.planted) == (not species.holds)
        if species.holds:
            assert abs(raw.estimate) + abs(translated.estimate) < 1e-5
            assert 0.1 < last.planted < 0.6
        else:
            assert min(raw.estimate, translated.estimate, last.estimate) > 0.9


def test_every_back_end_recovers_the_same(noise: Callable[[Any], float]) -> None:
    """On the denying organism: all that is found; and what is read unedited changes by no bit, whatever is done to the
    branches beside it in the same pass."""
    found = {}
    contexts, _ = draw_contexts(3, 0)
    for backend in ("transformers", "transformer_lens", "nnsight"):
        if find_spec(backend) is None:
            continue
        with load(organism_folder("denying"), device="cpu", backend=backend) as lm:
            found[backend] = recover(lm, DENYING, LEAST)
            queries = queries_of(lm, contexts, WHICH)
            along = direction().numpy()
            plain = []
            for strength in (0.5, 50.0):
                steer = Steer(along, layers=HELD_AT, at=Position(at="end", message=0), strength=strength)
                read = lm.read(queries, edits={"steered": [steer]}).readings
                plain.append([one.logp for one in read[: len(queries)]])
            np.testing.assert_array_equal(*plain)
    assert len(found) > 1, "no other back end is installed"
    ours = found.pop("transformers")
    for theirs in found.values():
        assert [(one.what, one.reading) for one in theirs.numbers] == [(one.what, one.reading) for one in ours.numbers]
        for one, other in zip(ours.numbers, theirs.numbers, strict=True):
            np.testing.assert_allclose(
                other[2:6], one[2:6], rtol=0, atol=noise(one.estimate), err_msg=f"{one}\n{other}"
            )


def test_the_command_names_an_organism_that_is_none_or_not_there(
    command_line: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    for name in ("lat", "late"):
        done = command_line("validate", name, "--folder", str(tmp_path), cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert repr(name) in done.stderr
