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
    FOUND,
    GAIN,
    LENS,
    NOT_FOUND,
    NOT_SHOWN,
    RMSE,
    SHARE,
    SUFFICIENT,
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
    outside = {(number.what, number.reading) for number in mistaken.numbers if number.state == NOT_FOUND}
    assert {(what, "answer") for what in (RMSE, SHARE, GAIN)} | {(LENS, "lens, layer 3")} <= outside
    assert not {(what, reading) for what in (RMSE, SHARE, GAIN) for reading in ("bet", "probe")} & outside
    right = {claim.claimed.name: claim.right for claim in mistaken.claims}
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
    assert told.RULE in page
    assert told.SAID in page
    planted = [number.state for number in mistaken.numbers if not math.isnan(number.planted)]
    assert len(planted) < len(mistaken.numbers)
    assert f"{planted.count(FOUND)} of {len(planted)}" in page
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
        assert sum(before != after for before, after in words) == 1
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


@pytest.mark.parametrize(
    ("lo", "hi", "state"),
    [
        (0.91, 1.09, FOUND),
        (0.85, 0.89, NOT_FOUND),
        (1.11, 1.5, NOT_FOUND),
        (0.85, 1.0, NOT_SHOWN),
        (0.0, 2.0, NOT_SHOWN),
        (math.nan, math.nan, NOT_SHOWN),
    ],
)
def test_a_planted_value_is_found_where_the_whole_interval_lies_within_the_tolerance(
    lo: float, hi: float, state: str
) -> None:
    assert Recovered("x", "y", 1.0, 0.95, lo, hi, 0.1).state == state
    assert Recovered("x", "y", math.nan, 0.95, lo, hi, 0.1).state == ""


def test_noise_never_helps_to_be_found() -> None:
    """Intervals of 95% about estimates of a truth beyond the tolerance of .15, or at its edge: planted is 1. And of a
    truth within it, more noise is never more often found, nor taken for wrong."""
    normal = np.random.default_rng(0).normal(size=4000)
    least = 0.025 + 3 * np.sqrt(0.025 / 4000)

    def states(truth: float, noise: float) -> list[str]:
        ends = [(x, x - 1.96 * noise, x + 1.96 * noise) for x in truth + noise * normal]
        return [Recovered("x", "y", 1.0, *interval, 0.15).state for interval in ends]

    rates = {}
    for noise in (0.01, 0.03, 0.05, 0.075, 0.1, 0.3, 1.0):
        for truth in (0.3, 0.5, 0.7, 0.85, 1.15):
            assert states(truth, noise).count(FOUND) <= least * 4000, (noise, truth)
        rates[noise] = states(1.0, noise).count(FOUND)
        assert states(1.0, noise).count(NOT_FOUND) <= least * 4000
    assert [*rates.values()] == sorted(rates.values(), reverse=True)
    assert rates[0.01] == states(0.7, 0.01).count(NOT_FOUND) == 4000


def test_too_few_contexts_are_not_taken_for_another_organism() -> None:
    """The share of the bet that the answer predicts hardly differs from what was planted in the same contexts, though
    it differs between contexts; of few contexts nothing is shown, and page and terminal say so."""
    with load(organism_folder("denying"), device="cpu") as lm:
        few, more = (recover(lm, DENYING, QUICK._replace(contexts=n, random=2)) for n in (60, 200))
    states = (
        [number.state for number in few.numbers if number.what == SUFFICIENT],
        [number.state for number in more.numbers],
    )
    assert states[0] == [NOT_SHOWN]
    assert set(states[1]) <= {FOUND, ""}
    document = told.page([few], QUICK)
    said = " ".join(to_text(document).split())
    assert "than its tolerance, but there are too few contexts to show all of denying." in said
    assert not few.recovered
    assert more.recovered


@pytest.mark.parametrize(
    ("spread", "gain", "found"), [(1.5, 0.5, None), (0.5, 1.0, None), (0.1, 1.0, 1.0), (0.1, 0.0, 0.0)]
)
def test_an_interval_that_is_wider_than_the_tolerance_finds_nothing(
    spread: float, gain: float, found: float | None
) -> None:
    """An organism whose gain varies much between thirty contexts is said to have no planted value, and to lack none;
    one that is nearly the same everywhere has what it has, and not the other."""
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=30)
    own = gain + spread * (drawn - drawn.mean()) / drawn.std()
    doses = np.tile([-1.0, 1.0], 30)
    score = slope_through_zero(doses, np.repeat(own, 2) * doses, np.repeat(np.arange(30), 2), how=Resampling(0))
    for value in (0.0, 1.0):
        state = line(GAIN, "answer", value, score).state
        assert (state == FOUND) == (value == found)
        assert found is None or value == found or state == NOT_FOUND


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
        assert last.state == FOUND
        assert raw.state == translated.state == (FOUND if species.holds else "")
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
                plain.append([reading.logp for reading in read[: len(queries)]])
            np.testing.assert_array_equal(plain[0], plain[1])
    assert len(found) > 1, "no other back end is installed"
    ours = found.pop("transformers")
    for theirs in found.values():
        assert [(number.what, number.reading) for number in theirs.numbers] == [
            (number.what, number.reading) for number in ours.numbers
        ]
        for number, other in zip(ours.numbers, theirs.numbers, strict=True):
            np.testing.assert_allclose(
                other[2:6], number[2:6], rtol=0, atol=noise(number.estimate), err_msg=f"{number}\n{other}"
            )


@pytest.mark.full
def test_fewer_contexts_than_usual_are_no_fault(
    command_line: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    done = command_line("validate", "denying", "--contexts", "60", cwd=tmp_path)
    assert "too few contexts to show all of denying." in done.stdout
    assert done.returncode == 0


def test_the_command_names_an_organism_that_is_none_or_not_there(
    command_line: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    for name in ("lat", "late"):
        done = command_line("validate", name, "--folder", str(tmp_path), cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert repr(name) in done.stderr
