"""Planted layers of which it is known what they hold."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError
from doxascope.experiments.compare.sides import inner_beliefs
from doxascope.experiments.report.document import Picture, Prose, TableBlock
from doxascope.experiments.run.addons.inner_layers import inner_blocks
from doxascope.experiments.run.addons.inner_readouts import (
    EXACT,
    GATE,
    Profile,
    admitted,
    judging,
    numbers,
    numbers_table,
    profiles,
    scoring,
)
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.joint_scores import Run
from doxascope.experiments.suite.consistency import INNER
from doxascope.hooks.lens.lens import View
from doxascope.hooks.lens.plan import Gate
from doxascope.metrics import belief_consistency, belief_table, cluster_mean
from doxascope.metrics.beliefs import condition_keys
from doxascope.metrics.contract import Resampling
from doxascope.metrics.number import Number
from doxascope.metrics.scoring.differences import pairs_of
from doxascope.metrics.scoring.engine import measured

N_ITEMS, WOBBLE, LEAK = 60, 0.5, 0.05
BELIEF, WORDS, FAINT, DEAF = 0, 1, 2, 3
Masses = Callable[[np.random.Generator, dict[str, Any]], np.ndarray]


def prior(rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet([2, 2, 2])


def coherent(rng: np.random.Generator, conditions: dict[str, Any]) -> np.ndarray:
    """The output: it keeps the ratio, and leaks a little."""
    p = prior(rng)
    if conditions:
        kept = np.arange(3) != conditions["rejected"]
        p = np.where(kept, (1 - LEAK) * p / p[kept].sum(), LEAK)
    return 0.5 * p


def wobbling(rng: np.random.Generator, conditions: dict[str, Any]) -> np.ndarray:
    """An inner layer: the same belief, but the log-odds of the two words that remain are off by N(0, WOBBLE)."""
    p = coherent(rng, conditions)
    if conditions:
        kept = np.flatnonzero(np.arange(3) != conditions["rejected"])
        total = p[kept].sum()
        p[kept] *= np.exp(WOBBLE * rng.standard_normal() * np.array([0.5, -0.5]))
        p[kept] *= total / p[kept].sum()
    return p


LAYERS: dict[int, Masses] = {
    BELIEF: wobbling,
    WORDS: lambda rng, _: 0.5 * prior(rng),
    FAINT: lambda rng, conditions: 1e-6 * wobbling(rng, conditions),
    DEAF: lambda rng, conditions: coherent(rng, conditions and {"rejected": (conditions["rejected"] + 1) % 3}),
}
"""What is planted at each layer. DEAF takes away another word than the one that is ruled out."""


@cache
def truth(n: int = 20_000) -> float:
    """The consistency that is planted in BELIEF."""
    contexts = [({}, {"rejected": i % 3}) for i in range(n)]
    pairs = [[wobbling(np.random.default_rng([2, i]), one) for one in both] for i, both in enumerate(contexts)]
    before, after = (np.array(one) for one in zip(*pairs, strict=True))
    return float(np.mean(belief_consistency(before, after, np.arange(n) % 3).c2))


@pytest.fixture(scope="module")
def profile() -> Profile:
    experiment, config = load_config(
        "consistency", [f"items={N_ITEMS}", "bootstrap_draws=500", "fork.methods=[]", "lens={}"]
    )
    return profiles(INNER, config, planted(experiment, config))[0]


def planted(experiment: Any, config: Any) -> pd.DataFrame:
    rows = []
    for number, item in enumerate(experiment.items(config)):
        for question in experiment.questions(config, item):
            if question.method != "letters":
                continue
            for layer, believe in ((None, coherent), *LAYERS.items()):
                told = (
                    dict(question.conditions) if "rejected" in question.conditions else {}
                )  # a mention decides nothing
                masses = believe(np.random.default_rng([1, number]), told)
                lens = {} if layer is None else {"lens": "raw"}
                for i, option in enumerate(question.options):
                    rows.append(
                        {
                            "readout_id": question.readout_id + ("" if layer is None else f"/raw@{layer}"),
                            "of": "" if layer is None else question.readout_id,
                            "item": item.id,
                            "cluster": item.cluster,
                            "kind": "exact" if layer is None else "lens",
                            "layer": pd.NA if layer is None else layer,
                            "method": "letters",
                            "scenario": question.scenario,
                            **question.conditions,
                            **lens,
                            "option": option.name,
                            "option_index": i,
                            "logp": np.log(masses[i]),
                            "prob": masses[i] / masses.sum(),
                            "coverage": masses.sum(),
                            "status": "ok",
                        }
                    )
    return belief_table(rows)


def test_a_layer_that_passes_scores_what_is_planted(profile: Profile) -> None:
    belief = profile.inner[View(BELIEF, "raw")]
    score = belief.scores["c2"]
    assert belief.gate.passed
    assert belief.gate.n_clusters == score.n_clusters == N_ITEMS // 2
    assert score.ci_lo < truth() < score.ci_hi
    assert score.ci_hi < profile.exact["c2"].estimate == pytest.approx(1)


def test_the_layer_that_passes_is_compared_with_what_the_model_says(tmp_path: Path) -> None:
    """On the clusters that did not choose it; the difference is what its wobble was planted to cost."""
    experiment, config = load_config("consistency", [f"items={N_ITEMS}", "fork.methods=[]", "lens={}"])
    admitted = inner_beliefs(Run(RunFolder(tmp_path), experiment, config), planted(experiment, config))
    assert admitted.refused == {}
    samples, how = list(experiment.samples(config, admitted.beliefs)), Resampling(draws=200)
    found = measured(samples, how, "consistency", only_compared=True)
    (pair,) = pairs_of(found.comparable, (), samples)
    assert (pair.one.name, pair.two.name) == ("exact/letters", f"lens/letters/raw@{BELIEF}")
    score = pair.difference(1, how)
    assert score.n_clusters == N_ITEMS // 2
    assert score.n_only_second == 0
    assert score.ci_lo < 1 - truth() < score.ci_hi


def test_layers_that_hold_no_belief_fail_and_say_why(profile: Profile) -> None:
    failures = {layer: set(profile.inner[View(layer, "raw")].gate.failures) for layer in LAYERS}
    assert failures[WORDS] == {"partial_corr", "evidence_response", "items_responding"}
    assert failures[FAINT] == {"coverage"}
    assert "evidence_response" in failures[DEAF]
    assert profile.inner[View(WORDS, "raw")].scores["c2"].estimate == pytest.approx(1)
    told = {(number.subset, number.metric): number for number in numbers(profile)}
    assert told["raw@0", "c2"].score.status == "ok"
    others = [number for number in told.values() if number.kind == "lens" and number.subset != "raw@0"]
    assert {number.score.status for number in others} == {"gate_failed"}
    assert told["raw@0", GATE].score.estimate > 0.5
    assert told[EXACT, "c2"].kind == "exact"


def test_what_passes_alone_enters_other_numbers_on_clusters_that_did_not_judge(profile: Profile) -> None:
    experiment, config = load_config("consistency", [f"items={N_ITEMS}", "fork.methods=[]", "lens={}"])
    table = planted(experiment, config)
    kept = admitted([profile], table)
    assert set(kept["method"]) == {"letters/raw@0"}
    exact = scoring([profile], table[table["kind"] == "exact"])
    assert set(kept["cluster"]) == set(exact["cluster"])
    assert kept["cluster"].nunique() == N_ITEMS // 2
    assert [*condition_keys(kept)] == [*condition_keys(exact)]


def test_the_page_marks_what_fails(profile: Profile) -> None:
    prose, picture, table = inner_blocks(INNER.columns, [profile], Gate())
    assert isinstance(prose, Prose)
    assert f"The gates are judged on {N_ITEMS // 2} of {N_ITEMS} clusters, and the others are scored." in prose.text
    assert f"1 of {len(LAYERS)} read-outs pass" in prose.text
    assert isinstance(table, TableBlock)
    failures = [row[-1].value for row in table.rows]
    assert failures[:DEAF] == ["", "words, evidence, items", "coverage"]
    assert "evidence" in failures[DEAF]
    assert isinstance(picture, Picture)
    assert picture.figure.svg.startswith("<svg")


def test_inner_read_outs_that_do_not_say_what_they_are_of_are_refused() -> None:
    experiment, config = load_config("consistency", ["items=2", "fork.methods=[]", "lens={}"])
    with pytest.raises(UserError, match="do not say what they are of"):
        profiles(INNER, config, planted(experiment, config).assign(of=""))


def test_a_cluster_judges_or_scores() -> None:
    clusters = pd.Series(["a", "b", "c", "d", "e"] * 3)
    for share, n in ((0.01, 1), (0.4, 2), (0.99, 4)):
        drawn = judging(clusters, Gate(share=share), seed=3)
        assert len(drawn) == n
        assert drawn == judging(clusters, Gate(share=share), seed=3) <= set(clusters)
    assert len({frozenset(judging(clusters, Gate(share=0.4), seed)) for seed in range(9)}) > 1


def test_numbers_of_one_method_under_several_prompts_have_labels_of_their_own() -> None:
    score = cluster_mean([0.1, 0.2, 0.4], [0, 1, 2], how=Resampling(draws=9))
    of: dict[str, Any] = {
        "metric": "rmse_truth",
        "method": "words probe",
        "quantity": "RMSE to the truth",
        "score": score,
    }
    table = numbers_table("t", [Number(**of), *(Number(**of, subset=f"prompt {name}") for name in ("a", "b"))])
    assert [row[0].below[0] for row in table.rows] == ["words probe", "words probe, prompt a", "words probe, prompt b"]
