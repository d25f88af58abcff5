"""`doxascope score`: options of any number, alone, before and after a rejection, and read in two ways."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.base.errors import UserError
from doxascope.metrics import belief_consistency, expected_jsd_binomial, jsd
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
Estimates = Callable[..., dict[str, Any]]
Beside = Callable[..., Mapping[str, str]]
PRODUCT = "product of the two shares, over that of their means"
SHARE = "least share of items whose rejected option is given up"


@pytest.mark.parametrize("k", [2, 4, 5])
@pytest.mark.parametrize("form", ["wide", "long", "table"])
def test_a_rejection_among_any_number_of_options(
    table: Write, tmp_path: Path, k: int, form: str, estimates: Estimates
) -> None:
    # The first option falls from 1/2 to 1/4, then from 1/4 to 0: increase rate (1/8 + 0) / 2 / (3/8 * 1/8) = 4/3.
    masses = [[2 * (k - 1), *[2] * (k - 1)], [k - 1, *[3] * (k - 1)], [k - 1, *[3] * (k - 1)], [0, *[4] * (k - 1)]]
    names, told = "abcde"[:k], [*("prior", "posterior"), *("prior", "posterior")]
    if form == "wide":
        heads = [f"{context}_{name}" for context in ("prior", "posterior") for name in names]
        rows = [",".join(map(str, [*masses[i], *masses[i + 1], "a"])) for i in (0, 2)]
        path = table(",".join([*heads, "rejected"]), *rows)
    elif form == "long":
        heads = ["item", "context", "rejected", *(f"count_{name}" for name in names)]
        rows = [f"{i // 2},{told[i]},{'a' * (i % 2)},{','.join(map(str, masses[i]))}" for i in range(4)]
        path = table(",".join(heads), *rows)
    else:
        path = tmp_path / "t.jsonl"
        rows = [
            {"readout_id": str(i), "item": str(i // 2), "kind": "exact", "method": "free", "scenario": told[i],
             "rejected": 0 if i % 2 else None, "option": name, "prob": x / sum(masses[i])}
            for i in range(4) for name, x in zip(names, masses[i], strict=True)
        ]  # fmt: skip
        path.write_text("\n".join(map(json.dumps, rows)))
    scored = score_table(path)
    found = estimates(scored, "exact/free" if form == "table" else "")
    assert found[PRODUCT].estimate == pytest.approx(4 / 3)
    assert list(found[SHARE].withheld) == ["below a mention", "rejected halves"]  # of two items
    assert "consistency" not in found
    assert scored.skipped["consistency"] == "needs three options, of which two remain"
    with pytest.raises(UserError, match="consistency-kappa needs three options"):
        score_table(path, "consistency-kappa")


def test_three_options_have_the_association_and_the_gate_too(
    table: Write, estimates: Estimates, beside: Beside
) -> None:
    lines = ("prior_a,prior_b,prior_c,posterior_a,posterior_b,posterior_c,rejected", *["3,1,6,6,2,2,c"] * 12)
    found = estimates(scored := score_table(table(*lines)))
    assert found[PRODUCT].estimate == pytest.approx(1)
    assert found[PRODUCT].status == "constant"
    assert beside(scored, PRODUCT)["mean share before, after"] == "0.600, 0.200"
    assert found["consistency"].estimate == pytest.approx(1)
    assert beside(scored, SHARE)["verdicts:"] == "readable; not shown"  # no mention was asked for
    assert found[SHARE].share == 1
    gaining = score_table(table(*(line.replace("3,1,6,6,2,2", "6,2,2,3,1,6") for line in lines)), "competence")
    assert beside(gaining, SHARE)["verdicts:"] == "readable; does not respond"
    assert "averaged over templates" in beside(gaining, SHARE)
    # Where templates are told apart, none may be left out of the average, and a mere mention may not do as much.
    head, row, *_ = lines
    spared = f"{head},template,mentioned_a,mentioned_b,mentioned_c"
    told = beside(score_table(table(spared, *[f"{row},x,6,2,2", f"{row},y,3,1,6"] * 12), "competence"), SHARE)
    assert [name for name in told if "[" in name] == ["below a mention[x]"]
    assert told["verdicts:"] == "readable; does not respond"


@pytest.mark.parametrize("k", [2, 3, 5])
def test_counts(table: Write, k: int, estimates: Estimates, beside: Beside) -> None:
    # All options equally often: log2 k bits. One option alone: none.
    names = [f"count_{name}" for name in "abcde"[:k]]
    path = table(",".join([*names, "count_other", "item"]), f"{'4,' * k}{4 * k},x", f"8,{'0,' * (k - 1)}0,y")
    found = estimates(scored := score_table(path))
    assert found["entropy of the options"].estimate == pytest.approx(np.log2(k) / 2)
    assert found["share of a"].estimate == pytest.approx((1 / (2 * k) + 1) / 2)
    assert found["share of no option"].estimate == pytest.approx(1 / 4)
    assert (found["share of a"].n_clusters, found["share of a"].status) == (2, "few_clusters")
    low = np.mean([(k - 1) / (2 * 4 * k * np.log(2)), (k - 1) / (2 * 8 * np.log(2))])
    assert beside(scored, "entropy of the options")["so few answers lower it by about"] == f"{low:.3f} (Miller-Madow)"


def test_counts_of_a_context_that_lack_the_rejected_option_are_asked_for_it(table: Write) -> None:
    with pytest.raises(UserError, match=r"'options, one row per context'.*which lacks 'rejected'"):
        score_table(table("item,context,count_a,count_b", "s,prior,1,2"))


@pytest.mark.parametrize("k", [2, 3, 4])
def test_two_read_outs(table: Write, k: int, estimates: Estimates, beside: Beside) -> None:
    free, closed = np.arange(1, k + 1.0), np.arange(k, 0, -1.0)
    both = {f"free_{name}": [x, 1] for name, x in zip("abcd"[:k], free, strict=True)}
    both |= {f"closed_{name}": [x, 1] for name, x in zip("abcd"[:k], closed, strict=True)}
    found = estimates(scored := score_table(table(**both, context=["prior", "posterior"])))
    expected = 1 - jsd(free / free.sum(), closed / closed.sum())
    assert found["agreement of the read-outs, prior"].estimate == pytest.approx(float(expected))
    assert found["agreement of the read-outs, posterior"].estimate == pytest.approx(1)
    floor = beside(scored, "agreement of the read-outs, prior")["expected of one belief, counted so often"]
    n = int(free.sum())
    first_order = (k - 1) * (2 / n) / (8 * np.log(2))
    exact = expected_jsd_binomial(1 / 3, 1 / 3, 3, 3) if k == 2 else first_order
    assert floor == f"{1 - exact:.4f}"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("context,rejected,free_a,free_b,free_c,closed_a,closed_b,closed_c", "prior,,1,2,3,1,2,3"), "no 'item'"),
        (("item,context,rejected,free_a,free_b,closed_a,closed_b", "i,prior,,1,2,1,2"), "of 2 options one remains"),
        (
            ("item,context,rejected,free_a,free_b,free_c,closed_a,closed_b,closed_c", "i,posterior,a,1,2,3,1,2,3"),
            "item 'i' has no prior",
        ),
    ],
)
def test_read_outs_after_a_rejection_need_their_prior(table: Write, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        score_table(table(*lines))


def test_two_exact_read_outs_have_no_sampling_noise(table: Write, beside: Beside) -> None:
    scored = score_table(table("free_a,free_b,closed_a,closed_b", "0.7,0.3,0.9,0.1", "0.2,0.3,0.4,0.6"))
    expected = 1 - np.mean([float(jsd([0.7, 0.3], [0.9, 0.1])), 0])
    assert scored.numbers[0].score.estimate == pytest.approx(expected)
    assert "expected of one belief, counted so often" not in beside(scored, "agreement of the read-outs")


def test_share_of_the_rejected_option_is_that_of_the_options_alone(table: Write, estimates: Estimates) -> None:
    # Half of the first prior's mass is on no option: .2 of .5 is a share of .4; the mass itself falls by .1.
    path = table("prior_a,prior_b,posterior_a,posterior_b,rejected", "0.3,0.2,0.9,0.1,b", "0.2,0.8,0.5,0.5,b")
    found = estimates(score_table(path))
    shares = np.array([[0.4, 0.1], [0.8, 0.5]])
    assert found[PRODUCT].estimate == pytest.approx((shares[:, 0] @ shares[:, 1] / 2) / np.prod(shares.mean(axis=0)))
    many = table("prior_a,prior_b,posterior_a,posterior_b,rejected", *["0.3,0.2,0.9,0.1,b", "0.2,0.8,0.5,0.5,b"] * 5)
    given_up = estimates(score_table(many))[SHARE]  # .4 to .1 is less than half; .8 to .5 is not
    assert (given_up.share, given_up.n_clusters) == (0.5, 10)


def test_a_rejection_that_counts_no_option_is_refused(tmp_path: Path) -> None:
    rows = [
        {"readout_id": i, "item": "i", "kind": "exact", "method": "m", "scenario": scenario, "rejected": rejected,
         "option": name, "prob": 0.5}
        for i, (scenario, rejected) in enumerate((("prior", None), ("posterior", 2))) for name in "ab"
    ]  # fmt: skip
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match=re.escape("rejected 2: give the option_index of one of the options")):
        score_table(tmp_path / "t.jsonl")
    rows[-1]["rejected"] = rows[-2]["rejected"] = 0
    rows.append(rows[0] | {"option": "c", "prob": 0.0})
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match=re.escape("read-outs have 2 or 3 options; give all as many")):
        score_table(tmp_path / "t.jsonl")


def test_three_options_of_a_table_agree_with_the_metric(table: Write, estimates: Estimates) -> None:
    path = table("prior_a,prior_b,prior_c,posterior_a,posterior_b,posterior_c,rejected", "0.5,0.3,0.2,0.6,0.36,0.04,c")
    found = estimates(score_table(path))
    assert found["three-option consistency"].estimate == belief_consistency([0.5, 0.3, 0.2], [0.6, 0.36, 0.04], 2).c3
