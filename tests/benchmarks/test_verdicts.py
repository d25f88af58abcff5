"""Models that are simulated from published figures have these figures, and get the verdicts that were expected."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import xlogy
from scipy.stats import multinomial, norm

from doxascope.benchmarks.calibration import verdict_page, verdicts
from doxascope.benchmarks.calibration.other_papers import MADE_BY, MARGIN_OF, paper_agents
from doxascope.benchmarks.calibration.published import REJECTED, TEMPLATE, TEMPLATES, _figures, model, model_names
from doxascope.benchmarks.calibration.verdicts import EXPECTED, Agent, agents, consistency, read_table, rows_of
from doxascope.metrics.inference.means import share_difference

DOCS = Path(__file__).parents[2] / "docs"
TRIPLES = 3000


@pytest.mark.parametrize("number", [0, 5, 13])
def test_a_simulated_model_has_the_figures_of_the_tables(number: int) -> None:
    """Of what is read of its samples: entropies, consistency, the rejected word's share of all answers, and errors."""
    row = _figures()[number]
    read = model(number).sample(TRIPLES, np.random.default_rng(7))
    kept = consistency(read)
    assert 1 - read.before.mean() == pytest.approx(float(row["error_prior"]), abs=0.02)
    for name in TEMPLATES:
        at = name == TEMPLATE
        gone = np.take_along_axis(read.post, REJECTED[None, :, None], axis=2)[:, at, 0]
        assert np.nanmean(kept[:, at]) == pytest.approx(float(row[f"c2_{name}"]), abs=0.015)
        assert np.nanmean(gone * read.after[:, at]) == pytest.approx(float(row[f"invalid_{name}"]), abs=0.02)
        pairs = np.sort(np.delete(read.prior, 2, axis=1), axis=1)
        share = pairs[:, 0] / pairs.sum(axis=1)
        entropy = -(xlogy(share, share) + xlogy(1 - share, 1 - share)) / np.log(2)
        assert np.nanmean(entropy) == pytest.approx(float(row["entropy_prior"]), abs=0.03)


def test_what_is_expected_is_written_down_of_every_agent_and_follows_from_its_true_values() -> None:
    told = {row["agent"]: row for row in read_table(EXPECTED)}
    assert [agent.name for agent in (*agents(), *paper_agents())] == list(told)
    assert set(model_names()) <= set(told)
    for row in told.values():
        if row["family"] in MADE_BY:
            inside = abs(float(row["value"])) < MARGIN_OF[row["number"]]
            assert (row["coherent"] == "coherent") == inside
            continue
        assert row["responds"] == ("responds" if float(row["net_share"]) > 0.5 else "does not respond")
        assert row["readable"] == ("readable" if float(row["covered"]) >= 0.5 else "unreadable")
        assert row["coherent"] == ("coherent" if 1 - float(row["c2"]) < verdicts.MARGIN else "incoherent")


@pytest.mark.parametrize(
    "name",
    ["Llama 3.1 70B", "Qwen2.5 32B", "Qwen2.5 3B", "half of the triples, the others stand", "weak, 0.5 nat everywhere",
     "copier, 2 nat, half after a hedge", "reads the place", "flattens with length", "leaks in 2.0% of the triples"],
)  # fmt: skip
def test_the_expected_verdict_comes_at_a_hundred_triples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "SIZES", (100,))
    agent: Agent = next(agent for agent in agents() if agent.name == name)
    (row,) = rows_of(agent, next(row for row in read_table(EXPECTED) if row["agent"] == name), 20)
    assert float(row["responds_as_expected"]) >= 0.9
    assert float(row["responds_opposite"]) == 0
    assert float(row["readable_as_expected"]) == 1


def test_the_page_is_derived_from_a_table_of_every_agent_at_every_size_and_names_who_misses() -> None:
    rows = read_table(DOCS / verdicts.TABLE)
    text = (DOCS / verdicts.PAGE).read_text()
    assert text == verdicts.page(rows)
    expected = {row["agent"]: row for row in read_table(EXPECTED)}
    known = [row for row in rows if row["family"] != "urns"]
    assert [(row["agent"], row["triples"]) for row in known] == [
        (agent.name, str(n)) for agent in (*agents(), *paper_agents()) for n in verdicts.SIZES
    ]
    assert {row["agent"] for row in rows} - set(expected) == {name for name, *_ in verdicts.URN_READERS}
    for row in known:
        assert {name: row[name] for name in expected[row["agent"]]} == expected[row["agent"]]
        for question in ("coherent",) if row["family"] in MADE_BY else verdicts.QUESTIONS:
            shares = [float(row[f"{question}_{name}"]) for name in ("as_expected", "not_shown", "opposite")]
            assert sum(shares) == pytest.approx(1, abs=0.002)
            near = verdict_page.on_edge(row, question)
            if shares[0] < 0.95 and not near:
                of = f"items of {row['family']}" if row["family"] in MADE_BY else "triples"
                head = f"- {row['triples']} {of}, *{question}*"
                (line,) = (line for line in text.splitlines() if line.startswith(head))
                assert f"{row['agent']} {shares[0]:.2f}" in line
            assert shares[2] <= 0.05  # the opposite, wherever it lies
            if row["triples"] == "100" and not near:
                assert shares[0] >= 0.95


def test_on_the_edge_is_where_a_test_of_known_spread_has_less_power_than_is_asked() -> None:
    """One-sided, at 5%, of a normal estimate: the power is 95% at the edge itself."""
    row = {"family": "published", "covered": "0.5", "covered_sd": "1", "responds": "responds", "net_share_sd": "0.8"}
    for triples in (30, 100, 1000):
        for distance in (0.05, 0.1, 0.2, 0.3, 0.4):
            power = norm.cdf(distance * np.sqrt(triples) / 0.8 - norm.ppf(0.95))
            found = verdict_page.on_edge(row | {"net_share": str(0.5 + distance), "triples": str(triples)}, "responds")
            assert found == (power < 0.95)


def test_who_is_on_the_edge_at_a_hundred_triples_gets_the_verdict_at_so_many_as_the_page_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "Qwen3 1.7B, thinking"
    told = next(row for row in read_table(EXPECTED) if row["agent"] == name)
    needed = verdict_page.triples_needed(told, "responds")
    assert f"| {name} | 0.26 | 0.81 | 0.94 | " in (DOCS / verdicts.PAGE).read_text()
    assert verdict_page.on_edge(told | {"triples": str(needed - 1)}, "responds")
    assert not verdict_page.on_edge(told | {"triples": str(needed)}, "responds")
    monkeypatch.setattr(verdicts, "SIZES", (needed,))
    (row,) = rows_of(next(agent for agent in agents() if agent.name == name), told, 60)
    assert float(row["responds_as_expected"]) >= 0.9
    assert float(row["responds_opposite"]) == 0


def test_no_test_of_the_counts_finds_more_than_the_best_and_newcombe_finds_as_much() -> None:
    """Against all samples of a hundred: what `share_difference` finds of a true net share of .28."""
    net, sd, n = 0.2828, 0.8193, 100
    up, down = ((sd**2 + net**2 + side * net) / 2 for side in (1, -1))
    found = sum(
        multinomial.pmf([k, j, n - k - j], n, [up, down, 1 - up - down])
        for k in range(20, n)
        for j in range(5, n - k)
        if share_difference(k, j, n, 0.9)[1] < 0.5
    )
    assert found == pytest.approx(verdict_page.most_found(net, sd, n), abs=0.015)
    assert verdict_page.most_found(net, sd, n) < 0.89
    assert verdict_page.most_found(net, sd, 140) > 0.95


def test_an_agent_of_another_paper_has_its_figure_and_gets_its_verdict() -> None:
    known = {agent.name: agent for agent in paper_agents()}
    told = {row["agent"]: row for row in read_table(EXPECTED)}
    for name in (
        "Gemini 2.0 Flash, ChangeMyView, CoT",
        "Command R, random",
        "Llama 3.1, hybrid, no evidence",
        "Cry-Llama",
    ):
        number, state = known[name].judged(300, np.random.default_rng(3), 99)
        assert state == told[name]["coherent"] == "incoherent"
        assert float(number.score.estimate) == pytest.approx(float(told[name]["value"]), rel=0.3)
    assert float(told["Command R, random"]["value"]) == pytest.approx(0.49, abs=0.005)


def test_urns_get_what_is_promised() -> None:
    rows = {row["agent"]: row for row in read_table(DOCS / verdicts.TABLE) if row["family"] == "urns"}
    for name, row in rows.items():
        if "honest" in name:
            assert float(row["responds_as_expected"]) >= 0.95
        elif "turned" in name:
            assert float(row["responds_opposite"]) <= 0.05
