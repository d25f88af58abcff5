"""Whether a validation sees what is planted, and what is not what it is said to be."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from doxascope import load
from doxascope.experiments.planted.organisms import ORGANISMS, draw_contexts, organism_folder
from doxascope.experiments.validating.beliefs import Effort
from doxascope.experiments.validating.null import Falsely
from doxascope.experiments.validating.recover import Recovered, recover
from doxascope.experiments.validating.where import mirrored

QUICK = Effort(contexts=80, pairs=12, permutations=39, refits=20)


@pytest.fixture(scope="module")
def denying() -> Any:
    return next(one for one in ORGANISMS if one.name == "denying")


def test_a_denial_is_found_and_only_by_its_own_name(denying: Any) -> None:
    with load(organism_folder("denying"), device="cpu") as lm:
        right = recover(lm, denying, QUICK)
        wrong = recover(lm, ORGANISMS[0], QUICK)
    assert right.recovered, [one for one in (*right.numbers, *right.claims, right.place)]
    assert not wrong.recovered
    outside = {(one.what, one.reading) for one in wrong.numbers if not one.found}
    assert ("RMSE to the posterior", "answer") in outside
    assert ("RMSE to the posterior", "bet") not in outside
    assert ("RMSE to the posterior", "probe") not in outside
    assert [one.right for one in wrong.claims] == [True, True, False]


def test_pairs_differ_in_one_word_and_speak_for_other_urns() -> None:
    contexts, _ = draw_contexts(50, 0)
    base, donor = mirrored(contexts)
    assert (donor.logit >= base.logit).all()
    for i in range(len(base)):
        words = zip(base.text(i).split(), donor.text(i).split(), strict=True)
        assert sum(one != other for one, other in words) == 1
    np.testing.assert_allclose(base.logit + donor.logit, 2 * contexts.prior_logit)


@pytest.mark.parametrize(("count", "n", "fails"), [(0, 30, False), (4, 30, False), (5, 30, True), (166, 1000, False)])
def test_false_claims_are_counted_with_their_interval(count: int, n: int, fails: bool) -> None:
    one = Falsely("denial", count, n)
    exact = binomtest(count, n).proportion_ci(method="exact")
    assert one.interval == pytest.approx((exact.low, exact.high))
    assert one.fails == fails


def test_a_planted_value_beyond_interval_and_tolerance_is_not_found() -> None:
    assert Recovered("x", "y", 1.0, 0.8, 0.7, 0.9, 0.1).found
    assert not Recovered("x", "y", 1.01, 0.8, 0.7, 0.9, 0.1).found
    assert not Recovered("x", "y", 1.0, 0.8, float("nan"), float("nan"), 0.1).found


def test_the_command_fails_for_an_organism_that_is_another(
    command_line: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    """Weights that are whole, and not what their name says."""
    import shutil

    for name in ("late", "honest"):
        shutil.copytree(organism_folder("honest"), tmp_path / "grown" / name)
    told = ("--folder", str(tmp_path / "grown"), "--contexts", "60")
    done = command_line("validate", "late", *told, cwd=tmp_path)
    assert done.returncode == 1
    assert "0 of 1 organisms recovered" in done.stdout
    assert "Not recovered: late" in (tmp_path / "validation" / "report.html").read_text()
    done = command_line("validate", "early", *told, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
