"""What `truth` can read, and who responds to a statement, by agents whose beliefs are known."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from doxascope.experiments.run.config import load_config
from doxascope.metrics.claims import verdicts

ANSWERED, TOLD = "coverage[yes or no]", "easy questions"
Agent = Callable[[dict[str, Any]], float]


def failures(
    believes: Agent, items: int = 30, coverage: float = 0.9, kind: str = "exact", settings: str = "seed=0"
) -> list[str]:
    """What an agent fails who holds each of the shipped statements true with such a probability."""
    truth, config = load_config("truth", [f"items={items}", settings])
    rows = []
    for item in truth.items(config):
        statements = {statement["readout_id"]: statement for statement in item.content["statements"]}
        for question in truth.questions(config, item):
            about = statements[question.readout_id]
            row: dict[str, Any] = {
                "readout_id": question.readout_id,
                "item": item.id,
                "cluster": item.cluster,
                "of": "",
                "kind": kind,
            }
            row |= {"method": question.method, **question.conditions, "status": "ok", "coverage": coverage}
            rows.append(row | {"option_index": 0, "prob": believes(about), "outcome": about["truth"]})
    (verdict,) = verdicts([*truth.own_scores(config, pd.DataFrame(rows))])
    assert {condition.name for condition in verdict.conditions} <= {*truth.gate}
    return [condition.label for condition in verdict.conditions if not condition.held]


def knows(one: dict[str, Any]) -> float:
    return 0.8 if one["truth"] else 0.2


def ignores_not(one: dict[str, Any]) -> float:
    return knows({"truth": one["truth"] != one["negated"]})


@pytest.mark.parametrize(
    ("agent", "fails"),
    [
        (knows, []),
        (lambda _: 0.95, [TOLD]),  # says yes to everything: incoherent as well, which is a result
        (lambda _: 0.05, [TOLD]),
        (lambda _: 0.5, [TOLD]),  # coherent, and knows nothing
        (lambda one: 1 - knows(one), [TOLD]),  # coherent, and wrong throughout
        (ignores_not, [TOLD]),
    ],
)
def test_agents_fail_by_what_they_lack(agent: Agent, fails: list[str]) -> None:
    assert failures(agent) == fails


def test_what_is_rarely_said_and_what_few_facts_show_is_no_belief() -> None:
    assert failures(knows, coverage=0.2) == [ANSWERED]
    assert failures(knows, coverage=0.2, kind="verbal") == ["valid-answer rate[numbers]"]
    assert failures(lambda one: knows(one) if one["domain"] in ("larger", "sums") else 1 - knows(one), 6) == [TOLD]
    assert failures(lambda one: 1 - knows(one) if one["domain"] == "months" else knows(one), 6) == [TOLD]  # 5 of 6


def test_a_guess_knows_which_label_is_more_frequent(tmp_path: Any) -> None:
    """Of statements without negations nine in ten are true: to say yes to all is no knowledge."""
    path = tmp_path / "mine.csv"
    path.write_text("statement,label\n" + "".join(f"{i} is a number.,{int(i % 10 > 0)}\n" for i in range(60)))
    files = f"statements.files=[{path}]"
    assert failures(lambda _: 0.95, 60, settings=files) == [TOLD]
    assert failures(knows, 60, settings=files) == []


@pytest.mark.parametrize("true", [0.6, 0.8, 1.0])
def test_who_reads_only_the_word_not_is_told_from_who_knows(tmp_path: Any, true: float) -> None:
    """Most claims of a file are true, so that most of their negations are false: saying no to "not" is no knowledge."""
    lines = {"claims": "{} is a number.", "neg_claims": "{} is not a number."}
    paths = []
    for k, (name, text) in enumerate(lines.items()):
        paths.append(tmp_path / f"{name}.csv")
        rows = (f"{text.format(i)},{int((i % 10 < 10 * true) != k)}" for i in range(60))
        paths[-1].write_text("\n".join(["statement,label", *rows]) + "\n")
    files = f"statements.files=[{','.join(map(str, paths))}]"
    assert TOLD in failures(lambda one: 0.05 if one["negated"] else 0.95, 60, settings=files)
    assert (TOLD in failures(knows, 60, settings=files)) == (true == 1)
