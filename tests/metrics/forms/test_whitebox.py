"""`doxascope score`: what only an open model shows, by examples that a hand can check."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.base.errors import UserError
from doxascope.metrics import fork_coherence, readout_gate, transfer_map
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
Estimates = Callable[..., dict[str, Any]]
Beside = Callable[..., Mapping[str, str]]


def test_log_probabilities_of_yes_and_no(table: Write, estimates: Estimates, beside: Beside) -> None:
    # Yes .3 + .1, no .15 + .05: 2/3 of .6. Then yes .2, no 0: 1 of .2. Then nothing at all.
    logs = [["" if p is None else np.log(p) if p else "-inf" for p in row] for row in (
        (0.3, 0.1, 0.15, 0.05, 1), (0.2, 0, 0, 0, 0), (0, 0, 0, 0, 1), (None, 0.1, 0.1, 0.1, 1),
    )]  # fmt: skip
    lines = [",".join(map(str, [*row[:4], outcome])) for row, outcome in zip(logs, (1, 0, 1, 1), strict=True)]
    path = table("logp_yes_1,logp_yes_2,logp_no_1,logp_no_2,outcome", *lines)
    found = estimates(scored := score_table(path))
    belief = found["P(yes) among yes and no"]
    assert belief.estimate == pytest.approx((2 / 3 + 1) / 2)
    assert (belief.n_rows, belief.n_dropped) == (2, 2)
    assert beside(scored, "P(yes) among yes and no")["certain, so of infinite log-odds"] == "1"
    assert found["mass on yes and no"].estimate == pytest.approx((0.6 + 0.2 + 0) / 3)
    assert beside(scored, "mass on yes and no")["below 0.5, where a refusal may hide"] == "66.7%"
    assert found["Brier score"].estimate == pytest.approx((1 / 9 + 1) / 2)


def test_a_question_and_its_negation(table: Write, estimates: Estimates) -> None:
    # P(yes) .8 and, negated, .5: .3 too much in all. Then .4 and .6: none.
    halves = [f"{np.log(p)},{np.log(1 - p)}" for p in (0.8, 0.5, 0.4, 0.6)]
    path = table("logp_yes,logp_no,logp_negated_yes,logp_negated_no", ",".join(halves[:2]), ",".join(halves[2:]))
    assert estimates(score_table(path))["framing bias"].estimate == pytest.approx(0.15)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_forks(table: Write, k: int, estimates: Estimates) -> None:
    # One sure choice that is said once; then yes to everything and a reveal of all alike.
    q = [[1, *[0] * (k - 1)], [1] * k]
    r = [[0.8, *[0] * (k - 1)], [1 / k] * k]
    heads = [f"{part}_{name}" for part in ("yes", "reveal") for name in "abcde"[:k]]
    found = estimates(score_table(table(",".join(heads), *(",".join(map(str, [*q[i], *r[i]])) for i in (0, 1)))))
    assert found["distance of yes from the reveal"].estimate == pytest.approx((0 + (1 - 1 / k)) / 2)
    assert found["sum of P(yes) minus 1"].estimate == pytest.approx((k - 1) / 2)
    assert found["commitment, 1 if one option is sure"].estimate == pytest.approx(0.5)
    correlation = found["correlation of yes with the reveal"]
    assert (correlation.estimate, correlation.n_dropped) == (1, 1)
    assert fork_coherence(q, r).rms.mean() == found["distance of yes from the reveal"].estimate


def test_transfer(table: Write, estimates: Estimates, beside: Beside) -> None:
    # Updates of 2 and 4 nats; 1 and 2 of them move: one half, and 3/6 backward with 1 and 0... 4 - 3 + 2 - 2 of 6.
    path = table("base,patched,donor,patched_reverse", "0,1,2,1", "0,2,4,3", ",1,1,1")
    score = estimates(scored := score_table(path))["transfer"]
    assert score.estimate == pytest.approx((3 / 6 + 2 / 6) / 2)
    assert (score.n_rows, score.n_dropped) == (2, 1)
    assert beside(scored, "transfer")["forward, backward"] == "0.500, 0.333"


def test_a_transfer_that_has_nothing_to_move(table: Write, estimates: Estimates) -> None:
    score = estimates(score_table(table("base,patched,donor", "1,2,1", "0,1,0")))["transfer"]
    assert (score.status, np.isnan(score.estimate)) == ("no_update", True)


def test_transfer_by_cell_has_the_bands_of_the_map(table: Write, estimates: Estimates) -> None:
    rng = np.random.default_rng(0)
    base, update = rng.normal(size=20), rng.normal(2, 0.5, 20)
    patched = base[:, None] + update[:, None] * [0, 0.5, 1] + rng.normal(0, 0.1, (20, 3))
    pair, cell = np.repeat([f"p{i:02}" for i in range(20)], 3), np.tile(["early", "late", "mid"], 20)
    columns = {"pair": pair, "cell": cell, "base": np.repeat(base, 3), "donor": np.repeat(base + update, 3)}
    shuffled = rng.permutation(60)
    path = table(**{name: x[shuffled] for name, x in (columns | {"patched": patched.ravel()}).items()})
    found = estimates(score_table(path))
    expected = transfer_map(base, patched, base + update)
    for i, name in enumerate(("early", "late", "mid")):
        score = found[f"transfer, {name}"]
        assert (score.estimate, score.band_lo, score.p_max) == pytest.approx(
            (expected.transfer[i], expected.band_lo[i], expected.p_max[i])
        )
    assert found["transfer, early"].estimate == pytest.approx(0, abs=0.1)
    assert found["transfer, mid"].estimate == pytest.approx(1, abs=0.1)
    few = estimates(score_table(table("pair,cell,base,patched,donor", "a,x,0,1,2", "a,y,0,2,2", "b,x,0,1,2")))
    assert {name: (s.estimate, s.n_rows) for name, s in few.items()} == {
        "transfer, x": (0.5, 1),  # pair b lacks cell y, so it is in neither
        "transfer, y": (1.0, 1),
    }


def gate_table(rng: np.random.Generator, n: int = 30) -> dict[str, Any]:
    """A prior and a posterior per item; the inner read-out is the exact one, blurred."""
    item = np.repeat(np.arange(n), 2)
    exact = rng.normal(0, 1, (n, 3)).repeat(2, axis=0) + rng.normal(0, 0.2, (2 * n, 3))
    gone = rng.integers(0, 3, n)
    exact[np.arange(1, 2 * n, 2), gone] -= 2
    exact -= np.log(np.exp(exact).sum(axis=1, keepdims=True)) + 0.1
    inner = exact + rng.normal(0, 0.1, exact.shape) - 0.5
    rejected = np.where(np.arange(2 * n) % 2, np.array(list("xyz"))[gone].repeat(2), "")
    return {
        "item": item,
        "rejected": rejected,
        **{f"inner_{name}": inner[:, i] for i, name in enumerate("xyz")},
        **{f"exact_{name}": exact[:, i] for i, name in enumerate("xyz")},
    }


def test_gate_of_an_inner_layer(table: Write, estimates: Estimates, beside: Beside) -> None:
    data = gate_table(np.random.default_rng(1))
    scored = score_table(table(**data))
    quantity = "partial correlation, at least 0.5"
    inner, exact = (np.column_stack([data[f"{part}_{name}"] for name in "xyz"]) for part in ("inner", "exact"))
    rejected = [-1 if name == "" else "xyz".index(name) for name in data["rejected"]]
    expected = readout_gate(inner, exact, list("xyz"), data["item"], rejected)
    score = estimates(scored)[quantity]
    assert (score.estimate, score.ci_lo, score.n_clusters) == (expected.estimate, expected.ci_lo, 30)
    assert beside(scored, quantity)["gate:"] == "passed"
    # The words may be another in each row; three columns of one word each are the same.
    words = {f"word_{name}": [name] * 60 for name in "xyz"}
    assert estimates(score_table(table(**data, **words)))[quantity].estimate == pytest.approx(expected.estimate)
    flat = data | {f"inner_{name}": np.full(60, -1.5 - i) for i, name in enumerate("xyz")}
    failed = beside(score_table(table(**flat)), quantity)["gate:"]
    assert failed == "failed by partial_corr, evidence_response, items_responding"


def test_persistence(table: Write, estimates: Estimates, beside: Beside) -> None:
    scored = score_table(table("scenario,shift_user,shift_third", "s,1,0.5", "t,3,0.5", "u,,1"))
    score = estimates(scored)["persistence"]
    assert score.estimate == pytest.approx(1 / 4)
    assert (score.n_rows, score.n_dropped, score.n_clusters) == (2, 1, 2)
    assert beside(scored, "persistence") == {"mean shift asked by the user, by the third": "2.000, 0.500 nats"}


def test_effect_of_the_query(table: Write, estimates: Estimates, beside: Beside) -> None:
    scored = score_table(table("item,passive,queried", "a,0.5,0.75", "b,0.5,0.25", "c,1,0.7"))
    score = estimates(scored)["asked (queried) minus passive"]
    assert score.estimate == pytest.approx(-0.1)
    assert beside(scored, "asked (queried) minus passive")["RMS"] == f"{np.sqrt((2 * 0.25**2 + 0.3**2) / 3):.3f}"
    assert beside(scored, "asked (queried) minus passive")["beliefs moved off 0 or 1 for that"] == "1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("logp_yes,logp_no|0.5,-1", "row 1, logp_yes: '0.5' is above 0, which a log-probability cannot be"),
        ("logp_yes,logp_no|-0.1,-0.2", "row 1: the probabilities of logp_... sum to 1.72; forms overlap"),
        ("logp_yes|-0.1", "which lacks 'logp_no'"),
        ("logp_yes,logp_no,logp_negated_yes|-1,-1,-1", "which lacks 'logp_negated_no'"),
        ("yes_a,yes_b,reveal_a|1,0,1", "which lacks 'reveal_b'"),
        ("base,patched|1,0", "which lacks 'donor'"),
        ("base,patched,donor|1,inf,2", "row 1, patched: 'inf' is infinite"),
        ("base,patched,donor,cell|1,1,2,x", "has column 'cell' and no 'pair'"),
        ("base,patched,donor,cell,pair|1,1,2,x,p|1,1,2,x,p", "row 2: pair 'p' has cell 'x' twice"),
        ("base,patched,donor,cell,pair|1,1,2,x,p|0,1,2,y,p", "base differs within pair 'p'"),
        ("item,rejected,inner_a,inner_b,exact_a,exact_b|i,c,-1,-1,-1,-1", "row 1, rejected: 'c' is no option"),
        ("item,rejected,inner_a,inner_b,exact_a,exact_b,word_a|i,a,-1,-1,-1,-1,x", "which lacks 'word_b'"),
        ("shift_user|1", "which lacks 'shift_third'"),
        ("passive,queried|0.5,1.5", "row 1, queried: '1.5' is not in [0, 1]"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(table: Write, text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        score_table(table(*text.split("|")))
    assert "\n" not in str(caught.value)
