import re
from collections.abc import Callable
from datetime import datetime
from itertools import product

import numpy as np
import pytest

from doxascope import UserError
from doxascope.experiments.materials.questions import BinaryQuestion, arithmetic, comparisons, posterior, urns, weekdays

MAKERS = (arithmetic, weekdays, urns, comparisons)


@pytest.mark.parametrize("make", MAKERS)
def test_more_questions_begin_with_the_same_ones(make: Callable[..., list[BinaryQuestion]]) -> None:
    assert make(20, seed=3)[:5] == make(5, seed=3)
    assert make(20, seed=4) != make(20, seed=3)
    assert len({question.cluster for question in make(20)}) == len({question.id for question in make(20)}) == 20
    assert all(question.provenance.startswith("computed: ") for question in make(5))


def test_products_are_what_they_are_said_to_be() -> None:
    for question in arithmetic(200):
        a, b, shown = map(int, re.findall(r"\d+", question.text))
        assert question.outcome == (a * b == shown)
    assert 70 < sum(question.outcome for question in arithmetic(200)) < 130


def test_the_larger_number_is_the_right_answer() -> None:
    made = comparisons(200)
    assert all((int(question.option_yes) > int(question.option_no)) == question.outcome for question in made)
    assert all(f"{question.option_yes} or {question.option_no}?" in question.text for question in made)
    assert 70 < sum(question.outcome for question in made) < 130


def test_weekdays_are_those_of_another_calendar() -> None:
    for question in weekdays(200):
        found = re.search(r"is (\d+ \w+ \d+) a (\w+)\?", question.text)
        assert found
        day = datetime.strptime(found[1], "%d %B %Y")
        # Zeller's congruence: 0 is Saturday
        m, y = (day.month + 12, day.year - 1) if day.month < 3 else (day.month, day.year)
        h = (day.day + 13 * (m + 1) // 5 + y + y // 4 - y // 100 + y // 400) % 7
        names = ("Saturday", "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
        assert question.outcome == (names[h] == found[2])


def test_the_posterior_of_an_urn_is_bayes_rule_by_enumeration() -> None:
    for prior, a, b in ((0.5, 0.7, 0.2), (1 / 6, 0.1, 0.9)):
        for red in product((True, False), repeat=3):
            for step, p in enumerate(posterior(prior, a, b, red)):
                like_a, like_b = (np.prod([x if r else 1 - x for r in red[:step]]) for x in (a, b))
                assert p == pytest.approx(prior * like_a / (prior * like_a + (1 - prior) * like_b))


def test_urns_are_a_martingale_that_is_calibrated_to_the_outcome() -> None:
    made = urns(2000, draws=4)
    paths, outcome = (
        np.array([question.posterior for question in made]),
        np.array([question.outcome for question in made]),
    )
    assert paths.shape == (2000, 5)
    for step in range(5):
        gap = outcome - paths[:, step]
        for weight in (np.ones(2000), paths[:, step]):
            z = (gap * weight).sum() / np.sqrt((gap**2 * weight**2).sum())
            assert abs(z) < 4
    assert np.mean((paths[:, -1] - outcome) ** 2) < np.mean((paths[:, 0] - outcome) ** 2) - 0.05
    assert all(len(question.evidence) == 4 for question in made)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": " "}, "question q: has no text"),
        ({"option_no": ""}, "options 'Yes' and ''; give two that differ"),
        ({"option_no": "yes "}, "give two that differ"),
        ({"outcome": 2}, "question q: outcome 2"),
        ({"evidence": ("a",), "posterior": (0.5,)}, "1 posteriors for 1 pieces of evidence"),
    ],
)
def test_what_is_no_question_is_refused(change: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"id": "q", "cluster": "q", "text": "?", "option_yes": "Yes", "option_no": "No"}
    with pytest.raises(UserError, match=message):
        BinaryQuestion(**{**good, "provenance": "here", **change})  # type: ignore
