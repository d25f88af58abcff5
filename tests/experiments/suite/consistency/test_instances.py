"""What the consistency scores tell of the order of the words, of the words themselves, and of a second rejection."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.special import softmax
from statsmodels.stats.anova import anova_lm

from doxascope.base.errors import UserError
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import Question
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.consistency.config import ConsistencyConfig
from doxascope.experiments.suite.consistency.instances import answers_worth
from doxascope.experiments.suite.consistency.samples import order_share
from doxascope.hooks.exact.option_beliefs import exact_rows
from doxascope.metrics import Score, belief_consistency, belief_table, jsd_plugin_bias

Believe = Callable[[tuple[str, ...], Question], Any]
"""Words in their order, and the question -> mass of each."""


def scores_of(believe: Believe, *settings: str) -> dict[tuple[str, str], Score]:
    """(metric, subset) -> the score of the free answers of an agent that believes so."""
    wanted = ["items=15", "bootstrap_draws=200", "fork.methods=[]", "methods={free: {forms: ['{option}']}}", *settings]
    experiment, config = load_config("consistency", wanted)
    rows = []
    for item in experiment.items(config):
        for question in experiment.questions(config, item):
            named = {"readout_id": question.readout_id, "item": item.id, "cluster": item.cluster, "method": "free"}
            where = {"scenario": question.scenario, "step": question.step, **question.conditions}
            with np.errstate(divide="ignore"):
                logp = np.log(np.asarray(believe(item.content["words"], question), dtype=float))
            rows += [named | where | row for row in exact_rows(logp, question.options, 0.5)]
    numbers = score_run(experiment, config, belief_table(rows))
    return {(number.metric, number.subset): number.score for number in numbers}


def strength(word: str) -> float:
    """What a word weighs, whatever the context."""
    return 1 + sum(map(ord, word)) % 7


def coherent(words: tuple[str, ...], question: Question) -> np.ndarray:
    p = np.array([strength(word) for word in words])
    for rejected in ("rejected", "then"):
        if rejected in question.conditions:
            p[question.conditions[rejected]] = 0
    return 0.8 * p / p.sum()


def test_a_coherent_agent_is_above_the_words() -> None:
    found = scores_of(coherent)
    gain = found["kappa_word", "all"].as_dict()
    assert gain["n_rows"] == 9 * 15
    assert gain["estimate"] == pytest.approx(1)
    assert gain["c_word"] < 0.95
    assert found["rms_logodds", "all"].estimate == pytest.approx(0, abs=1e-9)


def test_an_agent_that_knows_the_words_alone_is_not_above_them() -> None:
    def believe(words: tuple[str, ...], question: Question) -> np.ndarray:
        return softmax([np.log(strength(word)) for word in words])

    found = scores_of(believe, "orders=all")
    assert found["kappa_word", "all"].estimate == pytest.approx(0, abs=1e-12)
    assert found["c3", "all"].estimate < 0.95


def test_what_words_score_is_computed_by_hand() -> None:
    def believe(words: tuple[str, ...], question: Question) -> np.ndarray:
        return np.array([0.5, 0.3, 0.1]) if question.scenario == "prior" else np.array([0.2, 0.2, 0.1])

    found = scores_of(believe, "items=1")["kappa_word", "all"].as_dict()
    constants = (np.log([0.5, 0.3, 0.1]) + 9 * np.log([0.2, 0.2, 0.1])) / 10
    p = softmax(constants)
    scores = []
    for rejected in range(3):
        ideal = np.delete(p, rejected) / (1 - p[rejected])
        ideal = np.insert(ideal, rejected, 0.0)
        mean = (ideal + p) / 2
        kl = [sum(a * np.log2(a / m) for a, m in zip(x, mean, strict=True) if a) for x in (ideal, p)]
        scores.append(1 - sum(kl) / 2)
    assert found["c_word"] == pytest.approx(np.mean(scores))
    assert found["estimate"] == pytest.approx((found["c"] - np.mean(scores)) / (1 - np.mean(scores)))


def table(scores: np.ndarray) -> pd.DataFrame:
    """Instances [triples, orders], three of each, that scatter around these scores."""
    spread = np.array([-0.01, 0.0, 0.01])
    return pd.DataFrame(
        {"cluster": f"t{t}", "order": str(o), "c2": score + jitter}
        for (t, o), score in np.ndenumerate(scores)
        for jitter in spread
    )


@pytest.fixture(scope="module")
def config() -> ConsistencyConfig:
    _, config = load_config("consistency", ["bootstrap_draws=500"])
    assert isinstance(config, ConsistencyConfig)
    return config


def test_the_share_of_the_orders_is_that_of_a_one_way_analysis_of_variance(config: ConsistencyConfig) -> None:
    rng = np.random.default_rng(0)
    values = 0.9 + rng.normal(0, 0.02, (40, 1)) + rng.normal(0, 0.01, (40, 6))
    found = order_share(config, table(values))
    long = pd.DataFrame([(t, v) for (t, _), v in np.ndenumerate(values)], columns=["t", "v"])
    ms = anova_lm(smf.ols("v ~ C(t)", long).fit())["mean_sq"]
    within, between = float(ms["Residual"]), (float(ms["C(t)"]) - float(ms["Residual"])) / 6
    assert found.share == pytest.approx(within / (within + between))
    assert found.order_variance == pytest.approx(within)
    assert found.ci_lo < found.share < found.ci_hi
    assert (found.n_rows, found.n_clusters, found.n_orders, found.ci_method != "") == (40, 40, 6, True)


def test_orders_that_change_nothing_and_orders_that_change_all(config: ConsistencyConfig) -> None:
    rng = np.random.default_rng(1)
    by_triple = rng.uniform(0.5, 1, (20, 1)) * np.ones(3)
    assert order_share(config, table(by_triple)).share == pytest.approx(0)
    assert order_share(config, table(by_triple[::-1].T[:, :6])).share > 0.9
    assert order_share(config, table(np.full((20, 3), 0.9))).status == "zero_variance"
    holes = by_triple.copy()
    holes[0, 1] = np.nan
    assert (order_share(config, table(holes)).n_rows, order_share(config, table(holes)).n_dropped) == (19, 1)


def test_an_agent_of_places_has_a_share_of_orders_and_one_order_has_none() -> None:
    def believe(words: tuple[str, ...], question: Question) -> np.ndarray:
        p = coherent(words, question)
        moved = question.scenario == "posterior" and words[0] < words[1]
        return p * np.array([3, 2, 1]) / 3 if moved else p

    assert scores_of(believe, "orders=latin")["order_share", "all"].estimate > 0.2
    assert ("order_share", "all") not in scores_of(believe)


def test_a_second_rejection_leaves_one_word_to_a_coherent_agent() -> None:
    found = scores_of(coherent, "rejections=2")
    for subset in ("1 rejection", "2 rejections"):
        assert found["c3", subset].estimate == pytest.approx(1)
        assert found["p_invalid_norm", subset].estimate == pytest.approx(0)
        assert found["p_error_post", subset].estimate == pytest.approx(0.2)
    assert (found["c3", "1 rejection"].n_rows, found["c3", "2 rejections"].n_rows) == (3 * 15, 6 * 15)
    assert found["c2", "all"].n_rows == 9 * 15


def test_who_forgets_the_first_rejection_at_the_second_is_found_out() -> None:
    def believe(words: tuple[str, ...], question: Question) -> np.ndarray:
        p = np.full(3, 0.25)
        if "rejected" in question.conditions:
            p[question.conditions.get("then", question.conditions["rejected"])] = 0
        return p

    found = scores_of(believe, "rejections=2")
    assert found["p_invalid_raw", "1 rejection"].estimate == 0
    assert found["p_invalid_raw", "2 rejections"].estimate == pytest.approx(0.25)
    assert found["p_invalid_norm", "2 rejections"].estimate == pytest.approx(0.5)
    h = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    assert found["c3", "2 rejections"].estimate == pytest.approx(1 - (h - 0.5))
    assert found["c3", "1 rejection"].estimate == pytest.approx(1)


def test_both_rejections_are_said_in_their_order() -> None:
    experiment, config = load_config("consistency", ["items=1", "rejections=2"])
    (item,) = experiment.items(config)
    asked = {q.readout_id: q for q in experiment.questions(config, item)}
    one, two, three = item.content["words"]
    question = asked[f"{item.id}/reject-2-0/free"]
    assert [m["content"] for m in question.conversation[1:5]] == [f"Is it {three}?", "No.", f"Is it {one}?", "No."]
    assert question.conversation[5:] == asked[f"{item.id}/prior/free"].conversation[1:]
    assert question.step == 2
    assert two not in "".join(m["content"] for m in question.conversation[1:])
    assert sum(q.scenario == "second-posterior" for q in asked.values()) == 6 * 3


def known(masses: np.ndarray, **columns: Any) -> np.ndarray:
    """What read-outs with these masses and columns are worth, the third word left out."""
    blank = {"estimate": np.nan, "draws": np.nan, "covariance": np.nan}
    readouts = pd.DataFrame({name: columns.get(name, [value] * len(masses)) for name, value in blank.items()})
    return answers_worth(readouts, masses, np.full(len(masses), 2))


def test_answers_and_their_covariance_are_worth_the_same() -> None:
    masses = np.array([[0.3, 0.2, 0.1], [0.05, 0.6, 0.2]])
    spread = [((np.diag(m) - np.outer(m, m)) / 40).tolist() for m in masses]
    counted = known(masses, estimate=["sampled"] * 2, draws=[40.0] * 2)
    np.testing.assert_allclose(counted, [20, 26])
    np.testing.assert_allclose(known(masses, covariance=spread), counted)
    assert np.isnan(known(masses)).all()
    assert np.isinf(known(masses, covariance=[np.zeros((3, 3)).tolist()] * 2)).all()


def test_the_divergence_that_few_thoughts_add_is_taken_off() -> None:
    rng = np.random.default_rng(0)
    thoughts, contexts = 12, 4000
    drawn = rng.dirichlet([3, 3, 2], (2, contexts, thoughts))  # before and after: the same law
    before, after = drawn.mean(axis=2)
    worth = [known(one.mean(axis=1), covariance=[(np.cov(k.T) / thoughts).tolist() for k in one]) for one in drawn]
    c2 = belief_consistency(before, after, np.full(contexts, 2)).c2
    bias = jsd_plugin_bias(2, *worth)
    assert 1 - c2.mean() > 0.003
    assert (c2 + bias).mean() == pytest.approx(1, abs=0.1 * (1 - c2.mean()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("sampled.methods=[fre]", "sampled.methods: 'fre' is not one of the methods"),
        ("fork.methods=[x]", "fork.methods: 'x' is not one of the methods"),
        ("fork.hidden='note {z}'", "fork.hidden: placeholder 'z'"),
        ("temperatures=[0]", "temperatures"),
    ],
)
def test_a_wrong_setting_is_named(change: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        load_config("consistency", [change])


def test_answers_with_labels_are_not_matched() -> None:
    with pytest.raises(UserError, match="'letters' is answered with labels"):
        load_config("consistency", ["sampled.draws=5", "sampled.methods=[letters]"])
