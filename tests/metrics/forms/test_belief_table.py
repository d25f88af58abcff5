"""`doxascope score`: a belief table, its kinds and their differences."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.base.errors import UserError
from doxascope.metrics import belief_consistency, paired_difference
from doxascope.metrics.scoring.engine import score_table

Estimates = Callable[..., dict[str, Any]]


def beliefs(n: int = 12) -> pd.DataFrame:
    """Two kinds of belief of the same items: exact ones that hold still, verbal ones that halve."""
    rng = np.random.default_rng(1)
    rows = []
    for i, prior in enumerate(rng.uniform(0.1, 0.9, n)):
        for kind, post in (("exact", min(1.0, prior + rng.normal(0, 0.01))), ("verbal", prior / 2)):
            for step, belief in enumerate((prior, post)):
                for k, (option, prob) in enumerate((("yes", belief), ("no", 1 - belief))):
                    rows.append(
                        {"readout_id": f"{i}/{kind}/{step}", "item": f"i{i}", "kind": kind, "method": "free",
                         "step": step, "option": option, "option_index": k, "prob": prob, "outcome": float(k == i % 2)}
                    )  # fmt: skip
    return pd.DataFrame(rows)


def test_a_belief_table_has_a_score_per_kind_and_their_paired_differences(tmp_path: Path, estimates: Estimates) -> None:
    frame = beliefs()
    path = tmp_path / "beliefs.parquet"
    frame.sample(frac=1, random_state=0).to_parquet(path)
    scored = score_table(path)
    assert estimates(scored, "verbal/free")["M"].estimate == pytest.approx(-0.5)
    yes = frame[frame["option"] == "yes"].pivot(index=["kind", "item"], columns="step", values="prob")
    one, two = yes.loc["exact"], yes.loc["verbal"]
    (number,) = [number for number in scored.differences if number.metric == "M_difference"]
    sign = 1 if number.method.startswith("exact/free") else -1
    expected = paired_difference(
        (one[0], one[1]), (two[0], two[1]), lambda b, q: np.polyfit(b, q - b, 1)[0], one.index.to_numpy()
    )
    difference: Any = number.score
    assert sign * difference.difference == pytest.approx(expected.difference)
    tested = [number for number in scored.differences if np.isfinite(number.score.p)]
    assert difference.family_size == len(tested) == 3  # slopes of calibration are equal in every item: nothing to test
    assert difference.p_adjusted >= difference.p
    assert difference.n_clusters == 12


@pytest.mark.parametrize("old", [False, True])
def test_a_rejection_makes_a_belief_table_one_of_options(tmp_path: Path, estimates: Estimates, old: bool) -> None:
    rows = []
    for i in range(3):
        for scenario, rejected, probs in (
            ("prior", None, (0.3, 0.1, 0.6)),
            ("posterior", 2, (0.6, 0.2, 0.2)),
            ("posterior", 1, (0.1, 0.8, 0.1)),
        ):
            told = {"variant": "" if rejected is None else json.dumps({"rejected": rejected})}
            rows += [
                {"readout_id": f"{i}/{rejected}", "item": f"t{i}", "kind": "exact", "method": "free",
                 "scenario": scenario, "option": o, "option_index": k, "prob": p}
                | (told if old else {"rejected": rejected})
                for k, (o, p) in enumerate(zip("abc", probs, strict=True))
            ]  # fmt: skip
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = estimates(score_table(path), "exact/free")
    kept = belief_consistency([0.3, 0.1, 0.6], [0.1, 0.8, 0.1], 1).c2
    assert found["consistency"].estimate == pytest.approx((1 + kept) / 2)
    assert (found["consistency"].n_rows, found["consistency"].n_clusters) == (6, 3)


def test_a_read_out_that_failed_is_dropped_under_its_status(tmp_path: Path, estimates: Estimates) -> None:
    frame = beliefs()
    frame["status"] = "ok"
    lost = frame["readout_id"] == "3/verbal/1"
    frame.loc[lost, ["prob", "status"]] = [np.nan, "refused"]
    frame["scenario"] = np.where(frame["step"] == 0, "prior", "posterior")
    path = tmp_path / "beliefs.csv"
    frame.to_csv(path, index=False)
    scored = score_table(path, "martingale")
    assert dict(estimates(scored, "verbal/free")["M"].reasons) == {"refused": 1}
    (difference,) = [number for number in scored.differences if number.metric == "M_difference"]
    assert (difference.method, difference.score.n_rows) == ("exact/free - verbal/free", 11)
    assert "read-outs: 1 refused" in scored.understood.line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guess"}, "row 2, kind: 'guess' is unknown; one of exact, lens, probe, verbal, judge"),
        ({"prob": 1.5}, "row 2, prob: '1.5' is not in [0, 1]"),
        ({"prob": 0.5}, "prob sums to"),
        ({"option": "yes"}, "has option 'yes' twice"),
        ({"kind": "probe"}, "mixes several values of 'kind'"),
        ({"item": None}, "row 2, item: is missing"),
        ({"item": "i1"}, "mixes several values of 'item'"),
    ],
)
def test_a_belief_table_that_breaks_its_contract(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    frame = beliefs(3)
    for column, value in change.items():
        frame.loc[1, column] = value
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(UserError, match=re.escape(message)):
        score_table(path)


def test_an_item_lies_in_one_cluster(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    frame = beliefs(3)
    frame.assign(cluster=np.where(frame["kind"] == "exact", "a", "b")).to_csv(path, index=False)
    with pytest.raises(UserError, match="item 'i0' lies in several clusters"):
        score_table(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scenario": ["prior", "prior", "posterior"]}, "item 'i' has several priors"),
        ({"scenario": ["prior", "posterior", "posterior"], "item": ["i", "i", "j"]}, "item 'j' has a posterior and no"),
        (
            {"scenario": ["prior", "posterior", "posterior"], "variant": ["", "{rejected", ""]},
            "'{rejected' is not JSON",
        ),
        ({}, "exact/m has one read-out per item and no outcome, so nothing to compare"),
        ({"status": ["ok", "lost", "ok"]}, "row 2, status: 'lost' is unknown; one of ok, low_coverage"),
        ({"status": ["ok", "refused", "ok"]}, "NaN: a failed read-out carries no number"),
    ],
)
def test_read_outs_that_cannot_be_paired(tmp_path: Path, change: dict[str, list[str]], message: str) -> None:
    columns = {"readout_id": list("abc"), "item": ["i"] * 3, "kind": ["exact"] * 3, "method": ["m"] * 3}
    path = tmp_path / "t.parquet"
    pd.DataFrame({**columns, "option": ["yes"] * 3, "prob": [0.2, 0.4, 0.6]} | change).to_parquet(path)
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        score_table(path)
    assert "\n" not in str(caught.value)


def test_three_words_of_a_belief_table_are_compared_with_the_words_alone(
    table: Callable[..., Path], estimates: Estimates
) -> None:
    """A taste for words has none of it, whatever it was told; whoever drops the rejected word has all."""
    weight = {word: 1 + i for i, word in enumerate("abcdefghi")}
    triples = [("a", "b", "c"), ("d", "e", "f"), ("g", "h", "i")]
    lines = ["readout_id,item,kind,method,scenario,rejected,option,option_index,prob"]
    for method in ("taste", "belief"):
        for triple in triples:
            item = "".join(triple)
            for rejected in (None, 0, 1, 2):
                kept = [weight[w] * (method == "taste" or i != rejected) for i, w in enumerate(triple)]
                told = "prior," if rejected is None else f"posterior,{rejected}"
                name = f"{method}/{item}/{rejected},{item},exact,{method},{told}"
                lines += [
                    f"{name},{w},{i},{x / sum(kept)!r}" for i, (w, x) in enumerate(zip(triple, kept, strict=True))
                ]
    scored = score_table(table(*lines))
    gain = {name: estimates(scored, f"exact/{name}")["gain over word identity"] for name in ("taste", "belief")}
    assert gain["taste"].estimate == pytest.approx(0, abs=1e-9)
    assert gain["belief"].estimate == pytest.approx(1)
    rms = estimates(scored, "exact/taste")["root mean square change of the log-odds"]
    assert rms.estimate == pytest.approx(0, abs=1e-9)  # which is why it never leads alone
