"""Whether a validation sees what is planted, and what is not what it is said to be."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from scipy.stats import binomtest

from doxascope import load
from doxascope.experiments.planted.organisms import draw_contexts, organism_folder
from doxascope.experiments.planted.organisms.species import HONEST
from doxascope.experiments.validating import told
from doxascope.experiments.validating.beliefs import Effort
from doxascope.experiments.validating.null import Falsely
from doxascope.experiments.validating.recover import Organism, Recovered, recover
from doxascope.experiments.validating.where import mirrored
from doxascope.hooks.errors import UserError

QUICK = Effort(contexts=80, pairs=12, permutations=39, refits=20)


@pytest.fixture(scope="module")
def mistaken() -> Organism:
    """An organism that denies what it holds, under the name of an honest one."""
    with load(organism_folder("denying"), device="cpu") as lm:
        return recover(lm, HONEST, QUICK)


def test_a_denial_is_found_where_none_was_planted(mistaken: Organism) -> None:
    outside = {(one.what, one.reading) for one in mistaken.numbers if not one.found}
    said = {"RMSE to the posterior", "share of an update at the summary", "causal gain of the probe"}
    assert {(what, "answer") for what in said} <= outside
    assert not {(what, reading) for what in said for reading in ("bet", "probe")} & outside
    assert [one.right for one in mistaken.claims] == [True, True, False]
    assert not mistaken.recovered


def test_what_is_not_recovered_is_told_on_page_and_terminal(mistaken: Organism, tmp_path: Path) -> None:
    told.write(told.prepare(tmp_path / "out"), [mistaken], QUICK)
    assert "0 of 1 organisms recovered" in told.text([mistaken])
    assert "Not recovered: honest" in (tmp_path / "out" / "report.html").read_text()
    written = json.loads((tmp_path / "out" / "validation.json").read_text())
    assert not written["organisms"]["honest"]["recovered"]
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
    assert not Recovered("x", "y", 1.0, 0.8, float("nan"), float("nan"), 0.1).found


def test_the_command_names_an_organism_that_is_none_or_not_there(
    command_line: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    for name in ("lat", "late"):
        done = command_line("validate", name, "--folder", str(tmp_path), cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert repr(name) in done.stderr
