"""Sure losses of planted agents, in cents: what was stated is found, and the coherent lose nothing."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from doxascope.benchmarks.agents.updates import Incoherent
from doxascope.metrics.contract import Resampling
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.samples import Cases, Elicited, Evidence, Options, Sample, YesNo
from doxascope.metrics.tables.whitebox_samples import Forks

N = 40
KEYS = np.array([f"i{j}" for j in range(N)], dtype=object)
NAMED: dict[str, Any] = {"kind": "exact", "method": "m", "clusters": KEYS, "keys": KEYS}


def law(seed: int = 0) -> Mapping[str, np.ndarray]:
    """Beliefs of one distribution over two events, each."""
    rng = np.random.default_rng(seed)
    x, if_x, if_not = rng.uniform(0.1, 0.9, (3, N))
    y = x * if_x + (1 - x) * if_not
    return {"p_x": x, "p_y": y, "p_y_given_x": if_x, "p_y_given_not_x": if_not, "posterior": x * if_x / y}


def options(leak: float) -> Options:
    """A kept ratio, of which a share of the belief goes back to what was ruled out."""
    rng = np.random.default_rng(1)
    prior, rejected = rng.dirichlet(np.ones(3), N), rng.integers(0, 3, N)
    after = prior.copy()
    after[np.arange(N), rejected] = 0
    after *= (1 - leak) / after.sum(axis=1, keepdims=True)
    after[np.arange(N), rejected] = leak
    return Options(prior=prior, posterior=after, rejected=rejected, **NAMED)


def complement(excess: float) -> YesNo:
    belief = law()["p_x"]
    return YesNo(belief=belief, negated=1 + excess - belief, mass=np.ones(N), **NAMED)


def cases(gap: float) -> Cases:
    one = Incoherent(gap=gap, noise=0.0).sample(N, 0)
    return Cases(p=one.p, conditional=one.conditional, weights=one.weights, **NAMED)


def shares(excess: float) -> Forks:
    q = np.random.default_rng(2).dirichlet(np.ones(4), N) * (1 - abs(excess))
    q[:, 0] += max(excess, 0) + abs(excess)
    return Forks(q=q, r=q, **NAMED)


def swapped(gap: float) -> Elicited:
    belief = law()["p_x"]
    read = np.column_stack([belief, belief - gap])
    return Elicited(belief=belief, coverage=np.ones(N), readings=read, **NAMED)


def bayes(gap: float) -> Evidence:
    beliefs = {**law()}
    beliefs["p_y"] = beliefs["p_y"] + gap * np.where(beliefs["p_y"] < 0.5, 1, -1)
    return Evidence(**beliefs, **NAMED)


def losses(sample: Sample, relation: str) -> dict[str, Any]:
    found = score_samples([sample], Resampling(draws=100), f"dutch-book-{relation}").numbers
    return {number.metric: number for number in found}


FORMS = {
    "complement": complement, "cases": cases, "rejection": options, "bayes": bayes, "swaps": swapped, "fork": shares,
}  # fmt: skip
TENTH = ("complement", "cases", "swaps", "fork")
"""Forms in which an agent that is off by a tenth in one price loses ten cents, and no more."""


@pytest.mark.parametrize("relation", FORMS)
def test_a_coherent_agent_loses_nothing_in_any_form(relation: str) -> None:
    score = losses(FORMS[relation](0.0), relation)[f"dutch_book_{relation}"].score
    assert score.n_rows == N
    assert score.estimate == 0.0
    assert (score.ci_lo, score.ci_hi) == (0.0, 0.0)


@pytest.mark.parametrize("relation", FORMS)
def test_an_incoherent_agent_loses_what_was_planted(relation: str) -> None:
    found = losses(FORMS[relation](0.1), relation)
    number, per_bet = found[f"dutch_book_{relation}"], found[f"dutch_book_{relation}_per_bet"]
    least, most = (10, 10) if relation in TENTH else (10, 20) if relation == "rejection" else (0.1, 10)
    assert least - 1e-6 <= number.score.estimate <= most + 1e-6
    assert per_bet.score.estimate == pytest.approx(number.score.estimate / int(number.beside["bets"]))
    (shown,) = [text for name, text in number.beside.items() if name.startswith("most is lost at")]
    assert "buys" in shown or "sells" in shown


def test_yes_and_no_that_sum_to_one_and_a_tenth_lose_ten_cents() -> None:
    score = losses(complement(0.1), "complement")["dutch_book_complement"].score
    assert score.estimate == pytest.approx(10, abs=1e-9)


def test_a_coherent_agent_read_with_noise_loses_what_its_floor_says() -> None:
    """The floor comes from how far replicate readings of an item are apart."""
    rng = np.random.default_rng(3)
    table = {name: np.repeat(values, 4) for name, values in law().items()}
    read: dict[str, Any] = {
        name: np.clip(values + 0.03 * rng.standard_normal(4 * N), 0, 1) for name, values in table.items()
    }
    item = np.repeat(KEYS, 4)
    sample = Evidence(**read, item=item, replicate=np.tile(np.array(list("abcd"), dtype=object), N), clusters=item)
    number = losses(sample, "bayes")["dutch_book_bayes"]
    floor = float(number.beside["of a coherent agent read with this noise"])
    assert floor == pytest.approx(number.score.estimate, rel=0.15)


def test_counted_options_lose_by_luck_what_their_floor_says() -> None:
    rng = np.random.default_rng(4)
    whole = options(0.0)
    drawn = [np.array([rng.multinomial(60, row) for row in shares]) / 60 for shares in (whole.prior, whole.posterior)]
    left = 60 * (1 - drawn[0][np.arange(N), whole.rejected])
    sample = Options(
        prior=drawn[0], posterior=drawn[1], rejected=whole.rejected, n_prior=left, n_posterior=np.full(N, 60.0), **NAMED
    )
    number = losses(sample, "rejection")["dutch_book_rejection"]
    floor = float(number.beside["of a coherent agent read with this noise"])
    assert floor == pytest.approx(number.score.estimate, rel=0.25)


def test_few_answers_that_name_one_option_alone_have_a_floor() -> None:
    """A fifth over one less four fifths is a rounding more than 1."""
    prior, rejected = np.tile([0.0, 0.2, 0.8], (N, 1)), np.full(N, 2)
    after = np.tile([0.0, 1.0, 0.0], (N, 1))
    few = Options(prior=prior, posterior=after, rejected=rejected, n_prior=np.ones(N), n_posterior=np.ones(N), **NAMED)
    number = losses(few, "rejection")["dutch_book_rejection"]
    assert float(number.beside["of a coherent agent read with this noise"]) == pytest.approx(0, abs=1e-6)
