"""Worlds whose truth is exact: against independent computations, and what is refused."""

import gzip
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError
from doxascope.experiments.materials.worlds.networks import Network, load_bif, make_network, parse_bif
from doxascope.experiments.materials.worlds.source import WorldSource, load_world
from doxascope.experiments.materials.worlds.source import contexts as of_source
from doxascope.experiments.materials.worlds.source import drawn_contexts as contexts
from doxascope.experiments.materials.worlds.world import load_description


def by_enumeration(network: Network, variable: str, evidence: dict[str, str]) -> np.ndarray:
    """The definition: the joint probability of every configuration, one by one."""
    names = list(network.states)
    total = np.zeros(len(network.states[variable]))
    for config in itertools.product(*(range(len(network.states[name])) for name in names)):
        at = dict(zip(names, config, strict=True))
        if all(network.states[name][at[name]] == state for name, state in evidence.items()):
            p = np.prod([network.tables[n][(*(at[q] for q in network.parents[n]), at[n])] for n in names])
            total[at[variable]] += p
    return total / total.sum()


def by_another_order(network: Network, variable: str, evidence: dict[str, str]) -> np.ndarray:
    """By another route: tables of the configurations that the evidence leaves, hidden variables summed out by fewest
    neighbours.
    """
    factors = []
    for name in network.order:
        scope = [*network.parents[name], name]
        cells = {}
        for config in itertools.product(*(network.states[node] for node in scope)):
            if all(evidence.get(node, state) == state for node, state in zip(scope, config, strict=True)):
                at = tuple(network.states[node].index(state) for node, state in zip(scope, config, strict=True))
                cells[config] = float(network.tables[name][at])
        factors.append((tuple(scope), cells))
    width = {name: len(network.states[name]) for name in network.states}
    hidden = [name for name in network.states if name != variable]
    while hidden:
        sizes = {}
        for name in hidden:
            scope = {node for s, _ in factors if name in s for node in s}
            sizes[name] = (sum(node not in evidence for node in scope), max(width[node] for node in scope), name)
        name = min(hidden, key=sizes.__getitem__)  # fewest neighbours, another criterion than the smallest factor
        hidden.remove(name)
        touched = [factor for factor in factors if name in factor[0]]
        factors = [factor for factor in factors if name not in factor[0]]
        scope, cells = touched[0]
        for other, more in touched[1:]:
            scope, cells = multiplied(scope, cells, other, more)
        keep = tuple(i for i, node in enumerate(scope) if node != name)
        summed: dict[tuple[str, ...], float] = {}
        for config, p in cells.items():
            key = tuple(config[i] for i in keep)
            summed[key] = summed.get(key, 0.0) + p
        factors.append((tuple(scope[i] for i in keep), summed))
    found = np.array([np.prod([f[(s,) if len(n) else ()] for n, f in factors]) for s in network.states[variable]])
    return found / found.sum()


def multiplied(
    first: tuple[str, ...],
    cells: dict[tuple[str, ...], float],
    second: tuple[str, ...],
    more: dict[tuple[str, ...], float],
) -> tuple[tuple[str, ...], dict[tuple[str, ...], float]]:
    shared = [name for name in second if name in first]
    rest = [i for i, name in enumerate(second) if name not in first]
    groups: dict[tuple[str, ...], list[tuple[tuple[str, ...], float]]] = {}
    for config, p in more.items():
        key = tuple(config[second.index(name)] for name in shared)
        groups.setdefault(key, []).append((tuple(config[i] for i in rest), p))
    made = {}
    for config, p in cells.items():
        for tail, q in groups.get(tuple(config[first.index(name)] for name in shared), []):
            made[config + tail] = p * q
    return (*first, *(second[i] for i in rest)), made


def some_evidence(network: Network, rng: np.random.Generator, target: str, n: int) -> dict[str, str]:
    state = network.sample(rng)
    names = [name for name in network.states if name != target]
    return {str(name): state[name] for name in rng.choice(names, n, replace=False)}


@pytest.mark.parametrize(("name", "target", "queries"), [("asia", "bronc", 12), ("child", "Disease", 6)])
def test_posteriors_are_those_of_an_independent_method(
    public: Callable[[str], Path], name: str, target: str, queries: int
) -> None:
    network = load_bif(public(f"bif/{name}.bif.gz"))
    rng = np.random.default_rng(0)
    for k in range(queries):
        evidence = some_evidence(network, rng, target, k % 4)
        found = network.posterior(target, evidence)
        np.testing.assert_allclose(found, by_another_order(network, target, evidence), atol=1e-9)
        if name == "asia":
            np.testing.assert_allclose(found, by_enumeration(network, target, evidence), atol=1e-9)


@pytest.mark.parametrize(("name", "target"), [("alarm", "LVFAILURE"), ("hepar2", "PBC")])
def test_so_are_those_of_large_networks_whose_rows_are_off_by_rounding(
    public: Callable[[str], Path], name: str, target: str
) -> None:
    network = load_bif(public(f"bif/{name}.bif.gz"))
    rng = np.random.default_rng(1)
    for k in (0, 3):
        evidence = some_evidence(network, rng, target, k)
        np.testing.assert_allclose(
            network.posterior(target, evidence), by_another_order(network, target, evidence), atol=1e-9
        )
    sums = [table.sum(axis=-1) for table in network.tables.values()]
    assert max(np.abs(total - 1).max() for total in sums) < 1e-12


def test_posteriors_of_a_random_network_agree_with_enumeration_whatever_the_query() -> None:
    rng = np.random.default_rng(2)
    names = list("abcdef")
    states = {name: [f"{name}{i}" for i in range(int(rng.integers(2, 4)))] for name in names}
    parents = {name: [str(p) for p in rng.choice(names[:i], min(i, 2), replace=False)] for i, name in enumerate(names)}
    tables = {n: rng.dirichlet(np.ones(len(states[n])), [len(states[p]) for p in parents[n]]) for n in names}
    network = make_network(states, parents, tables)
    for target in names:
        evidence = some_evidence(network, rng, target, 2)
        np.testing.assert_allclose(
            network.posterior(target, evidence), by_enumeration(network, target, evidence), atol=1e-12
        )


def test_two_hundred_contexts_of_seventy_nodes_take_seconds(public: Callable[[str], Path]) -> None:
    source = WorldSource(of=str(public("bif/hepar2.bif.gz")), target="PBC=present")
    began = time.process_time()
    found = contexts(load_world(source), 200, reveal=(2, 6))
    assert time.process_time() - began < 60
    assert len({context.situation for context in found}) == 200


def test_contexts_are_spread_over_the_truth_and_more_begin_with_the_same() -> None:
    world = load_world(WorldSource(of="breast-cancer"))
    many = contexts(world, 120)
    assert contexts(world, 30) == many[:30]
    counts = np.histogram([context.p_star for context in many], 10, (0, 1))[0]
    assert counts.min() >= 6  # of 12 each
    for context in many[:20]:
        assert 1 <= len(context.evidence) <= 3
        assert context.auxiliary is not None
        assert context.auxiliary.variable not in context.evidence
    assert contexts(world, 30, seed=1) != many[:30]


def test_the_truth_of_a_network_obeys_the_law_of_iterated_expectation() -> None:
    for context in contexts(load_world(WorldSource(of="asia")), 25):
        assert context.auxiliary is not None
        known = [(s, c) for s, c in zip(context.auxiliary.shares, context.auxiliary.chances, strict=True) if s]
        assert sum(s * c for s, c in known if s and c is not None) == pytest.approx(context.p_star)


def test_the_truth_of_a_table_is_the_share_of_those_who_are_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"smokes": rng.choice(["yes", "no"], 2000), "sex": rng.choice(["f", "m"], 2000)})
    table["ill"] = np.where(rng.random(2000) < np.where(table["smokes"] == "yes", 0.7, 0.2), "yes", "no")
    table.to_csv(tmp_path / "t.csv", index=False)
    world = load_world(WorldSource(of=str(tmp_path / "t.csv"), target="ill=yes"))
    for smokes, sex in itertools.product(("yes", "no"), ("f", "m")):
        rows = table[(table["smokes"] == smokes) & (table["sex"] == sex)]
        assert world.chance({"smokes": smokes, "sex": sex}) == pytest.approx((rows["ill"] == "yes").mean())
    weighted = load_world(WorldSource(of=str(tmp_path / "t.csv"), target="ill=yes", prevalence=0.1))
    assert weighted.chance({}) == pytest.approx(0.1)
    odds = [w.chance({"smokes": "yes"}) / (1 - w.chance({"smokes": "yes"})) for w in (world, weighted)]
    share = (table["ill"] == "yes").mean()
    assert odds[1] / odds[0] == pytest.approx((0.1 / 0.9) / (share / (1 - share)))
    rare = load_world(WorldSource(of=str(tmp_path / "t.csv"), target="ill=yes", support=1900))
    assert np.isnan(rare.chance({"smokes": "yes"}))
    with pytest.raises(UserError, match="known well enough"):
        contexts(rare, 1, reveal=(1, 2), pool=20)


def test_a_graph_that_is_given_is_learnt_by_maximum_likelihood(tmp_path: Path) -> None:
    """With an arrow from every variable to the target the learnt network says what the strata say."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"a": rng.choice(["0", "1"], 4000), "b": rng.choice(["0", "1"], 4000)})
    table["t"] = np.where(rng.random(4000) < 0.2 + 0.3 * (table["a"] == "1") + 0.4 * (table["b"] == "1"), "1", "0")
    table.to_csv(tmp_path / "t.csv", index=False)
    states = '{"0": does not have it, "1": has it}'
    (tmp_path / "w.yaml").write_text(
        'target: {variable: t, state: "1"}\nevent: have t\nvariables:\n'
        + "".join(f"  {v}: {{noun: {v}, states: {states}}}\n" for v in "ab")
        + f"  t: {{noun: t, states: {states}, parents: [a, b]}}\n"
    )
    words, data = str(tmp_path / "w.yaml"), str(tmp_path / "t.csv")
    strata, graph = (load_world(WorldSource(of=words, data=data, graph=graph)) for graph in (False, True))
    for a, b in itertools.product("01", "01"):
        assert graph.chance({"a": a, "b": b}) == pytest.approx(strata.chance({"a": a, "b": b}))
    assert graph.shares("a", {"b": "1"}) == pytest.approx(np.bincount(table["a"] == "1") / 4000)  # a and b are apart


def test_the_published_graph_of_heart_disease_is_whole() -> None:
    variables = load_description("echonext").variables
    assert (len(variables), sum(len(variable.parents) for variable in variables.values())) == (20, 121)


def test_heart_disease_is_read_by_its_strata_and_by_its_graph(tmp_path: Path) -> None:
    """A table of the published layout; the target's arrows come from its eleven indicators alone, so that given these
    the network says what the stratum says.
    """
    described = load_description("echonext").variables
    rng = np.random.default_rng(5)
    table = pd.DataFrame({name: rng.choice(list(variable.states), 600) for name, variable in described.items()})
    indicators = list(described["shd"].parents)
    for name in indicators:
        table[name] = np.where(rng.random(600) < 0.1, "1", "0")
    table.to_csv(tmp_path / "echo.csv", index=False)
    source: dict[str, Any] = {"of": "echonext", "data": str(tmp_path / "echo.csv"), "support": 20}
    strata, graph = (load_world(WorldSource(**source, graph=graph)) for graph in (False, True))
    healthy = dict.fromkeys(indicators, "0")
    rows = table[(table[indicators] == "0").all(axis=1)]
    assert strata.chance(healthy) == pytest.approx((rows["shd"] == "1").mean())
    assert graph.chance(healthy) == pytest.approx(strata.chance(healthy))
    found = contexts(graph, 3, reveal=(3, 4), pool=6)
    assert all(context.situation for context in found)


def test_a_survey_of_seventy_thousand_is_read_with_its_prevalence(public: Callable[[str], Path]) -> None:
    data = str(public("brfss2015/diabetes_binary_5050split_BRFSS2015.csv.gz"))
    world = load_world(WorldSource(of="brfss", data=data, prevalence=35346 / 253680))
    assert world.chance({}) == pytest.approx(35346 / 253680)
    found = contexts(world, 50, reveal=(2, 5), pool=200)
    assert world.chance({"high_blood_pressure": "1"}) > world.chance({"high_blood_pressure": "0"})
    assert all("who" in context.situation for context in found)


TWO = "variable a { type discrete [ 2 ] { y, n }; } variable b { type discrete [ 2 ] { <5, 12+ }; }"
OF_A = "probability ( a ) { table 0.2, 0.8; }"


def test_odd_names_comments_and_defaults_are_read() -> None:
    text = f"network x {{ }} // said\n{TWO}{OF_A} probability ( b | a ) {{ (y) 0.1, 0.9; default 0.5, 0.5; }}"
    network = parse_bif(text)
    assert network.posterior("b", {"a": "y"}).tolist() == pytest.approx([0.1, 0.9])
    assert network.posterior("b", {"a": "n"}).tolist() == [0.5, 0.5]
    flat = parse_bif(f"{TWO}{OF_A} probability ( b | a ) {{ table 0.1, 0.5, 0.9, 0.5; }}")
    assert flat.tables["b"].tolist() == network.tables["b"].tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{TWO} probability ( a | b ) {{ default 1, 0; }} probability ( b | a ) {{ default 1, 0; }}", "cycle"),
        (f"{TWO} probability ( a ) {{ table 0.2, 0.7; }} probability ( b ) {{ table 1, 0; }}", "sums to 0.9"),
        (f"{TWO}{OF_A}", "'b' has no table"),
        (f"{TWO}{OF_A} probability ( b | a ) {{ (maybe) 1, 0; }}", "state 'maybe' of 'a' is unknown"),
        (f"{TWO}{OF_A} probability ( b | a ) {{ (y) 1, 0; }}", "a row is missing"),
        (f"{TWO}{OF_A} probability ( b | c ) {{ table 1, 0; }}", "'c', which is no variable"),
        (f"{TWO}{OF_A} probability ( b ) {{ table 1; }}", "1 numbers where 2 belong"),
        ('#include "other.bif"\n' + TWO, "includes another file"),
        ("network x { }", "no discrete variable"),
        (f"{TWO}{OF_A} probability ( b ) {{ table 1, 0; }} and more", "cannot be understood"),
    ],
)  # fmt: skip
def test_a_faulty_network_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said.replace("(", r"\(")) as error:
        parse_bif(text, "net.bif")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("net.bif")


def test_questions_that_no_network_answers_are_refused() -> None:
    network = make_network({"a": ["y", "n"], "b": ["y", "n"]}, {"b": ["a"]}, {"a": [1, 0], "b": [[1, 0], [0, 1]]})
    for evidence, said in (
        ({"b": "n"}, "probability zero"),
        ({"a": "y"}, "among the evidence"),
        ({"b": "x"}, "unknown"),
        ({"c": "y"}, "not in the network"),
    ):
        with pytest.raises(UserError, match=said):
            network.posterior("a", evidence)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "big.bif.gz", "wb") as file:
        file.write(b" " * 10_000_001)
    with pytest.raises(UserError, match="more than 10,000,000 bytes"):
        load_bif(tmp_path / "big.bif.gz")


WORDS = (
    'target: {variable: t, state: "1"}\nevent: have t\nvariables:\n  t: {noun: t, states: {"0": lacks t, "1": has t}}\n'
)


@pytest.mark.parametrize(
    ("words", "rows", "said"),
    [
        ('  a: {noun: a, states: {"0": is so, "1": is not}}\n', "t,a\n0,0\n1,2\n", "no words for its state '2'"),
        ('  a: {noun: a, states: {"0": is so, "1": is not}}\n', "t\n0\n1\n", "no column 'a'"),
        ('  a: {noun: a, states: {"0": is so, "1": is not}}\n', "t,a\n1,0\n1,1\n", "in every row, or in none"),
        ('  a: {noun: a, states: {"0": is so}}\n', "t,a\n0,0\n", "at least 2"),
        ("  a: {noun: a, states: {yes: is so, no: is not}}\n", "t,a\n0,0\n", "quote it"),
        ('  a: {noun: a, cut: 3, states: {"0": is so, "1": is not}}\n', "t,a\n0,0\n", "makes 3 states"),
    ],
)
def test_a_faulty_table_is_refused_in_one_line(tmp_path: Path, words: str, rows: str, said: str) -> None:
    (tmp_path / "w.yaml").write_text(WORDS + words)
    (tmp_path / "t.csv").write_text(rows)
    with pytest.raises(UserError, match=said) as error:
        load_world(WorldSource(of=str(tmp_path / "w.yaml"), data=str(tmp_path / "t.csv"), support=1))
    assert "\n" not in str(error.value)


def test_queries_in_words_are_read_with_their_answers(public: Callable[[str], Path]) -> None:
    source = WorldSource(of="quite", data=str(public("quite/data")))
    many = of_source(source, 60)
    assert of_source(source, 20) == many[:20]
    assert len({context.name for context in many}) == 60
    assert np.histogram([context.p_star for context in many], 5, (0, 1))[0].min() >= 6
    alone = WorldSource(of="quite", data=str(public("quite/data/cancer0.json")))
    cancer = next(context for context in of_source(alone, 26) if context.name == "cancer0-0")
    assert cancer.p_star == 0.19148936
    # the same by the network that its sentences tell
    network = make_network(
        {"air": ["low", "high"], "smoker": ["y", "n"], "cancer": ["y", "n"], "xray": ["+", "-"]},
        {"cancer": ["air", "smoker"], "xray": ["cancer"]},
        {"air": [0.9, 0.1], "smoker": [0.3, 0.7], "xray": [[0.9, 0.1], [0.2, 0.8]],
         "cancer": [[0.03, 0.97], [0.001, 0.999], [0.05, 0.95], [0.02, 0.98]]},
    )  # fmt: skip
    known = network.posterior("cancer", {"air": "high", "smoker": "y", "xray": "+"})
    assert known[0] == pytest.approx(cancer.p_star, abs=1e-7)


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(UserError, match="no file of QUITE"):
        of_source(WorldSource(of="quite", data=str(tmp_path / "x.json")), 1)
