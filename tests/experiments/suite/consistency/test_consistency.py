import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as shannon

from doxascope.experiments.compare import compare
from doxascope.experiments.compare.page import page, sentence
from doxascope.experiments.report.findings import Transcript
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import Experiment
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.consistency import ConsistencyConfig, instances
from doxascope.experiments.suite.consistency.ask import CONTROLS
from doxascope.experiments.suite.consistency.page import gallery
from doxascope.metrics import belief_table, exclusion_bounds
from doxascope.metrics.claims import verdicts
from doxascope.metrics.number import Number
from doxascope.metrics.tables.belief_parts import BeliefParts

N_ITEMS = 12


@pytest.fixture(scope="module")
def setup() -> tuple[Experiment, ConsistencyConfig]:
    experiment, config = load_config("consistency", [f"items={N_ITEMS}", "bootstrap_draws=200"])
    assert isinstance(config, ConsistencyConfig)
    return experiment, config


def table_of(
    setup: tuple[Experiment, ConsistencyConfig],
    believe: Callable[[str, dict[str, int]], list[float]],
    say: Callable[[str, dict[str, int]], list[float]] = lambda item, told: [0.5, 0.5],
    spared: Callable[[str, dict[str, Any]], list[float]] | None = None,
) -> pd.DataFrame:
    """The belief table of an agent that believes what `believe(item, told)` says, and answers "Is it X?" so. After a
    reply that decides nothing it believes what `spared` says; None: what it did at first.
    """
    experiment, config = setup
    rows = []
    for item in experiment.items(config):
        for question in experiment.questions(config, item):
            if question.scenario == "fork":
                masses = say(item.id, dict(question.conditions))
            elif question.scenario == "mention":
                masses = spared(item.id, dict(question.conditions)) if spared else believe(item.id, {})
            else:
                masses = believe(item.id, {k: v for k, v in question.conditions.items() if k != "hidden"})
            for i, mass in enumerate(masses):
                rows.append(
                    {
                        "readout_id": question.readout_id,
                        "experiment": "consistency",
                        "item": item.id,
                        "cluster": item.cluster,
                        "kind": "exact",
                        "method": question.method,
                        "scenario": question.scenario,
                        **question.conditions,
                        "option": question.options[i].name,
                        "option_index": i,
                        "logp": np.log(mass) if mass else -np.inf,
                        "prob": mass / sum(masses) if sum(masses) else np.nan,
                        "coverage": sum(masses),
                        "status": "ok" if sum(masses) else "nan",
                    }
                )
    return belief_table(rows)


def said(setup: tuple[Experiment, ConsistencyConfig], ids: Collection[str]) -> dict[str, Transcript]:
    """The transcripts that a run would have kept of these read-outs."""
    experiment, config = setup
    asked = [q for item in experiment.items(config) for q in experiment.questions(config, item)]
    return {
        q.readout_id: {
            "readout_id": q.readout_id,
            "messages": q.conversation,
            "prefill": q.prefill,
            "options": [option.name for option in q.options],
            "thoughts": [],
            "answers": [],
        }
        for q in asked
        if q.readout_id in ids
    }


def scores(setup: tuple[Experiment, ConsistencyConfig], table: pd.DataFrame) -> dict[tuple[str, str, str], Number]:
    experiment, config = setup
    return {(n.metric, n.method, n.subset): n for n in score_run(experiment, config, table)}


def prior(item: str) -> np.ndarray:
    return np.random.default_rng(int(item[1:5])).dirichlet([2, 2, 2])


def test_one_prior_and_nine_posteriors_for_each_method(setup: tuple[Experiment, ConsistencyConfig]) -> None:
    experiment, config = setup
    item = experiment.items(config)[0]
    asked = experiment.questions(config, item)
    assert len({q.readout_id for q in asked}) == len(asked) == 30 + 3 * 27 + 12 + 3
    controls = [q for q in asked if q.scenario == "mention"]
    asked = [q for q in asked if q.scenario in ("prior", "posterior")]
    words = item.content["words"]
    replies: dict[str, set[str]] = {}
    for q in controls:  # the same question, and a reply that does not answer it
        real = next(p for p in asked if q.readout_id.startswith(p.readout_id.rpartition("/")[0] + "-"))
        assert q.conversation[1]["content"].startswith(real.conversation[1]["content"])
        replies.setdefault(q.conditions["control"], set()).add(q.conversation[2]["content"])
        assert ("played" in q.conversation[1]["content"]) == (q.conditions["control"] != "hedge")
    assert replies == {
        "hedge": {"I would rather not say yet."},
        "yes to another question": {"Yes."},
        "no to another question": {"No."},
    }
    for method in ("free", "prefill", "letters"):
        mine = [q for q in asked if q.method == method]
        assert [q.scenario for q in mine] == ["prior"] + ["posterior"] * 9
        assert sorted(q.conditions["rejected"] for q in mine[1:]) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        for q in mine[1:]:
            said = q.conversation[1]["content"]
            rejected = words[q.conditions["rejected"]]
            assert (rejected in said) == (q.conditions["template"] == "reject")
            assert q.conversation[2]["content"] == ("No." if q.conditions["template"] == "reject" else "Yes.")
    letters = next(q for q in asked if q.method == "letters")
    assert [o.name for o in letters.options] == list(words)
    assert letters.options[1].forms == ("B", "(B")
    assert f"B) {words[1]}" in letters.conversation[-1]["content"]


def test_a_coherent_agent_scores_one_and_leaks_nothing(setup: tuple[Experiment, ConsistencyConfig]) -> None:
    def believe(item: str, told: dict[str, int]) -> list[float]:
        p = prior(item)
        if told:
            p[told["rejected"]] = 0
        return list(0.5 * p / p.sum())

    found = scores(setup, table_of(setup, believe))
    for method in ("free", "prefill", "letters"):
        assert found["c2", method, "all"].score.estimate == pytest.approx(1)
        assert found["c3", method, "all"].score.estimate == pytest.approx(1)
        assert found["leak", method, "all"].score.estimate == pytest.approx(0)
        assert found["coverage_prior", method, "all"].score.estimate == pytest.approx(0.5)
    assert found["c2", "free", "all"].score.n_rows == 9 * N_ITEMS
    assert found["c2", "free", "all"].score.n_clusters == N_ITEMS
    assert found["c2", "free", "reject"].score.n_rows == 3 * N_ITEMS


def test_an_agent_that_ignores_the_rejection_keeps_the_ratio_and_leaks_its_prior(
    setup: tuple[Experiment, ConsistencyConfig],
) -> None:
    table = table_of(setup, lambda item, told: list(prior(item)))
    found = scores(setup, table)
    assert found["c2", "free", "all"].score.estimate == pytest.approx(1)
    assert found["p_invalid_norm", "free", "all"].score.estimate == pytest.approx(1 / 3)
    assert found["c3", "free", "all"].score.estimate < 0.9


def believer(eliminates: float, copies: float) -> Callable[[str, dict[str, Any]], list[float]]:
    """An agent that takes `eliminates` nat off what is ruled out, and favours the words that a question named by
    `copies` nat, whatever was replied.
    """

    def believe(item: str, told: dict[str, Any]) -> list[float]:
        odds = np.log(prior(item))
        odds[[int(word) for word in told.get("named", "").split(", ") if word]] += copies
        if "rejected" in told:
            odds[told["rejected"]] -= eliminates
        return list(0.9 * np.exp(odds) / np.exp(odds).sum())

    return believe


@pytest.mark.parametrize(
    ("eliminates", "copies", "failing"),
    [
        (6.0, 0.0, ()),
        (6.0, 0.25, ()),
        (0.0, 0.0, ("rejected halves[reject]", "rejected halves[narrow]")),
        *((0.0, copies, ("rejected halves[reject]",)) for copies in (0.25, 0.5, 1.0, 2.0)),
        *((0.0, -copies, ("below a mention[reject, hedge]", "rejected halves[narrow]")) for copies in (0.25, 2.0)),
    ],
)
def test_who_eliminates_responds_and_no_copier_does(
    setup: tuple[Experiment, ConsistencyConfig], eliminates: float, copies: float, failing: tuple[str, ...]
) -> None:
    experiment, config = setup
    agent = believer(eliminates, copies)
    table = table_of(setup, agent, spared=agent)
    judged = verdicts(score_run(experiment, config, table), config.registered)
    assert [verdict.method for verdict in judged] == ["free", "prefill", "letters"]
    for verdict in judged:
        labels = [condition.label for condition in verdict.conditions if condition.state == "fails"]
        assert verdict.readable == "readable"  # whether it responds has no part in that
        assert verdict.responds == ("does not respond" if failing else "responds")
        assert set(failing) <= set(labels)
        assert verdict.coherent is not None
        assert (verdict.coherent.metric, verdict.coherent.target) == ("c2", 1)
        assert {condition.part for condition in verdict.conditions if condition.name == "below a mention"} == {
            f"{template}, {control}" for template in ("reject", "narrow") for control in CONTROLS
        }


def test_every_instance_can_be_looked_at_or_the_page_says_which_ones(
    setup: tuple[Experiment, ConsistencyConfig],
) -> None:
    def believe(item: str, told: dict[str, int]) -> list[float]:
        p = prior(item)
        return [0.0, 0.0, 0.1] if item == "t0003-012" and told.get("rejected") == 2 else list(p[:: -1 if told else 1])

    config = setup[1]
    rows = instances(table_of(setup, believe))
    whole = gallery(config, rows, rows.loc.__getitem__, lambda ids: said(setup, ids))
    np.testing.assert_array_equal(
        [instance.score for instance in whole.instances], np.sort(rows["c2"])
    )  # undefined last
    assert whole.caption.startswith(f"All {27 * N_ITEMS},")
    lowest, undefined = whole.instances[0], whole.instances[-1]
    assert whole.facets == ["method", "rejection", "status"]
    assert (lowest.facets[2], undefined.facets[2]) == ("ok", "undefined")
    assert "ruled out" in undefined.facts
    assert undefined.facts.count("–") == 2
    before, after = (transcript for _, transcript in lowest.conversations)
    assert before["options"] == after["options"]
    assert after["messages"][0] == before["messages"][0]
    assert after["messages"][2]["role"] == "assistant"

    many = pd.concat([rows] * 5, ignore_index=True)
    some = gallery(config, many, many.loc.__getitem__, lambda ids: said(setup, ids))
    assert f"{len(some.instances)} of {len(many)}" in some.caption
    assert 1000 <= len(some.instances) <= 1000 + 20 * 3
    again = gallery(config, many, many.loc.__getitem__, lambda ids: said(setup, ids))
    assert some.instances[:20] == again.instances[:20]
    for method, own in many.groupby("method"):
        shown = [instance.score for instance in some.instances if instance.facets[0] == method]
        np.testing.assert_array_equal(shown[:20], np.sort(own["c2"])[:20])


def test_a_position_locked_agent_is_consistent_but_not_above_chance(
    setup: tuple[Experiment, ConsistencyConfig],
) -> None:
    def believe(item: str, told: dict[str, int]) -> list[float]:
        jitter = np.random.default_rng([int(item[1:5]), len(told)]).normal(0, 0.02)
        p = np.array([0.7 + jitter, 0.2, 0.1 - jitter])
        if told:
            p[told["rejected"]] = 0
        return list(p / p.sum())

    found = scores(setup, table_of(setup, believe))
    assert found["c2", "free", "all"].score.estimate > 0.95
    kappa = found["kappa", "free", "all"].score
    assert kappa.ci_lo < 0 < kappa.ci_hi
    assert found["prior_share_position_1", "free", "all"].score.estimate == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize(("orders", "n"), [("one", 1), ("latin", 3), ("all", 6)])
def test_orders_of_a_triple_share_its_cluster(orders: str, n: int) -> None:
    experiment, config = load_config("consistency", ["items=4", f"orders={orders}"])
    items = experiment.items(config)
    assert len(items) == 4 * n
    assert len({item.content["words"] for item in items}) == 4 * n
    assert len({item.cluster for item in items}) == 4
    for position in range(3 if n > 1 else 0):
        assert {item.content["words"][position] for item in items[:n]} == set(items[0].content["words"])


def test_methods_are_compared_on_the_same_instances(setup: tuple[Experiment, ConsistencyConfig]) -> None:
    def believe(item: str, told: dict[str, int]) -> list[float]:
        p = prior(item)
        if told:
            p[told["rejected"]] = 0
        return list(p)

    table = table_of(setup, believe)
    worse = table["method"].eq("letters") & table["scenario"].eq("posterior")
    index = table["option_index"]
    table["option_index"] = index.where(~worse, np.array([1, 0, 2], dtype=np.int32)[index])
    found = scores(setup, table)
    same = found["kappa_word_difference", "free - prefill", "all"].score
    less = found["kappa_word_difference", "free - letters", "all"].score
    assert same.estimate == pytest.approx(0, abs=1e-12)
    gain = {method: found["kappa_word", method, "all"].score.estimate for method in ("free", "letters")}
    assert less.estimate == pytest.approx(gain["free"] - gain["letters"])
    assert less.ci_lo > 0
    assert less.params["draws"] == 800 * 3  # three comparisons: Holm's first step must be within reach
    assert less.as_dict()["family_size"] >= 2


def test_an_agent_that_swaps_the_two_words_is_found_out(setup: tuple[Experiment, ConsistencyConfig]) -> None:
    def believe(item: str, told: dict[str, int]) -> list[float]:
        p = np.array([0.6, 0.3, 0.1])
        if told:
            kept = [i for i in range(3) if i != told["rejected"]]
            p[kept] = p[kept[::-1]]
            p[told["rejected"]] = 0
            p /= p.sum()
        return list(p)

    table = table_of(setup, believe)
    found = scores(setup, table)
    assert found["c2", "free", "all"].score.estimate < 0.95
    rows = instances(table)
    np.testing.assert_allclose(rows["alpha_prior"], 1 - rows["alpha_post"])


def test_an_undefined_instance_is_dropped_counted_and_bounded(setup: tuple[Experiment, ConsistencyConfig]) -> None:
    def believe(item: str, told: dict[str, int]) -> list[float]:
        if item == "t0003-012" and told and told["rejected"] == 1:
            return [0.0, 0.4, 0.0]
        return list(0.8 * prior(item))

    table = table_of(setup, believe)
    found = scores(setup, table)
    score = found["c2", "free", "all"].score
    assert (score.n_rows, score.n_dropped, score.reasons) == (9 * N_ITEMS - 3, 3, {"undefined": 3})
    bounds = exclusion_bounds(instances(table).query("method == 'free'")["c2"])
    assert found["c2_lower", "free", "all"].score.estimate == pytest.approx(bounds.lower)
    assert found["c2_upper", "free", "all"].score.estimate == pytest.approx(bounds.upper)
    assert bounds.lower < score.estimate <= bounds.upper
    assert found["p_invalid_norm", "free", "all"].score.n_rows == 9 * N_ITEMS


def test_the_balanced_mean_is_the_mean_of_the_templates(setup: tuple[Experiment, ConsistencyConfig]) -> None:
    def believe(item: str, told: dict[str, int]) -> list[float]:
        p = prior(item)
        return list(p if not told or told["template"] == "reject" else p[::-1])

    found = scores(setup, table_of(setup, believe))
    mean = {subset: found["c2", "free", subset].score.estimate for subset in ("reject", "narrow", "all")}
    assert mean["reject"] != pytest.approx(mean["narrow"])
    assert found["c2", "free", "template-balanced"].score.estimate == pytest.approx(
        (mean["reject"] + mean["narrow"]) / 2
    )
    assert mean["all"] == pytest.approx((3 * mean["reject"] + 6 * mean["narrow"]) / 9)


def test_a_kept_choice_says_yes_as_often_as_it_is_revealed(setup: tuple[Experiment, ConsistencyConfig]) -> None:
    def kept(item: str, told: dict[str, int]) -> list[float]:
        share = prior(item)[told["asked"]]
        return [0.9 * share, 0.9 * (1 - share)]

    def believe(item: str, told: dict[str, int]) -> list[float]:
        return list(0.5 * prior(item))

    found = scores(setup, table_of(setup, believe, kept))
    assert found["fork_rms", "free", "all"].score.estimate == pytest.approx(0, abs=1e-12)
    assert found["fork_excess", "free", "all"].score.estimate == pytest.approx(0, abs=1e-12)
    assert found["fork_corr", "free", "all"].score.estimate == pytest.approx(1)
    assert found["fork_coverage", "free", "all"].score.estimate == pytest.approx(0.9)
    entropy = [-(p * np.log(p)).sum() / np.log(3) for p in map(prior, (f"t{i:04}-012" for i in range(N_ITEMS)))]
    assert found["commitment", "free", "all"].score.estimate == pytest.approx(1 - np.mean(entropy))
    assert found["fork_rms", "free", "choice written down"].score.n_rows == 3 * N_ITEMS


def test_who_says_yes_to_every_word_has_no_choice(setup: tuple[Experiment, ConsistencyConfig]) -> None:
    found = scores(setup, table_of(setup, lambda item, _: list(prior(item)), lambda item, _: [0.8, 0.2]))
    assert found["fork_excess", "free", "all"].score.estimate == pytest.approx(3 * 0.8 - 1)
    assert found["fork_rms", "free", "all"].score.estimate > 0.3


def test_the_control_writes_the_choice_down_and_asks_the_same(setup: tuple[Experiment, ConsistencyConfig]) -> None:
    experiment, config = setup
    item = experiment.items(config)[0]
    asked = {q.readout_id: q for q in experiment.questions(config, item)}
    plain, control = asked[f"{item.id}/fork-1"], asked[f"{item.id}/fork-1-hidden-2"]
    chosen = item.content["words"][2]
    assert control.conversation[1:] == plain.conversation[1:]
    added = control.conversation[0]["content"].removeprefix(plain.conversation[0]["content"])
    assert chosen in added
    assert not any(word in added for word in item.content["words"][:2])
    reveal = asked[f"{item.id}/hidden-2/free"]
    assert reveal.conversation[0] == control.conversation[0]
    assert reveal.conversation[1:] == asked[f"{item.id}/prior/free"].conversation[1:]


def test_coverage_thresholds_keep_the_instances_that_reach_them(setup: tuple[Experiment, ConsistencyConfig]) -> None:
    def believe(item: str, told: dict[str, int]) -> list[float]:
        return list((0.95 if int(item[1:5]) % 3 == 0 else 0.3) * prior(item))

    found = scores(setup, table_of(setup, believe))
    rows = {t: found["c2", "free", f"coverage >= {t}"].score.n_rows for t in ("0.1", "0.5", "0.9")}
    assert rows == {"0.1": 9 * N_ITEMS, "0.5": 9 * N_ITEMS // 3, "0.9": 9 * N_ITEMS // 3}


@pytest.mark.parametrize("mixed", [False, True])
def test_instances_of_a_few_items_at_a_time_are_those_of_all_at_once(
    setup: tuple[Experiment, ConsistencyConfig], monkeypatch: pytest.MonkeyPatch, mixed: bool
) -> None:
    table = table_of(setup, believer(0.5, 0.2))
    table = table.sample(frac=1, random_state=0) if mixed else table  # as a user's table may lie
    whole = instances(table)
    monkeypatch.setattr(sys.modules[BeliefParts.__module__], "ROWS_AT_ONCE", 400)
    few = instances(table)
    assert whole["item"].nunique() > 2
    pd.testing.assert_frame_equal(few.astype(object), whole.astype(object), check_exact=True)


def test_answers_are_drawn_in_the_published_contexts_alone() -> None:
    """The paper's preset: a prior and nine posteriors of each triple; the closed set is read in the same ones."""
    changes = ["items=2", "entities={file: null, reference: null, ranks: null, max_length: 10}"]
    experiment, config = load_config("consistency-paper", changes)
    asked = experiment.questions(config, experiment.items(config)[0])
    drawn = [question for question in asked if question.draws]
    assert {question.scenario for question in drawn} == {"prior", "posterior"}
    assert (len(drawn), {question.draws for question in drawn}) == (10, {5000})
    assert (config.sampling.max_new_tokens, config.thoughts.max_new_tokens) == (100, 3000)
    everywhere = experiment.questions(
        *load_config("consistency-paper", [*changes, "sampled.contexts=all"])[1:], experiment.items(config)[0]
    )
    assert sum(question.draws > 0 for question in everywhere) == 37


def test_free_answers_are_compared_with_the_closed_set(
    setup: tuple[Experiment, ConsistencyConfig], published: Callable[..., pd.DataFrame]
) -> None:
    """Table 7: 1 - JSD of the two words, free and by letters, before and after, of every instance."""
    rng = np.random.default_rng(5)
    law: dict[tuple[str, str], list[float]] = {}
    table = table_of(setup, lambda item, told: law.setdefault((item, str(told)), rng.dirichlet([1, 1, 1]).tolist()))
    letters = table["method"] == "letters"
    twisted = np.where(letters, table["prob"] ** 2, table["prob"])
    sums = pd.Series(twisted).groupby(table["readout_id"].astype(str).to_numpy()).transform("sum").to_numpy()
    table = table.assign(prob=twisted / sums, logp=np.log(twisted / sums))
    experiment, config = setup
    found = published(experiment, ("m", config, score_run(experiment, config, table)))
    rows = found[(found["table"] == "Table 7") & (found["read as"] == "free and letters")].set_index("column")
    whole = pd.concat([instances(table)], ignore_index=True)
    both = {
        name: whole[(whole["method"] == name) & (whole["temperature"] == 1)].set_index(["item", "place"]).sort_index()
        for name in ("free", "letters")
    }

    def entropy(p: np.ndarray) -> np.ndarray:
        return -(p * np.log2(p) + (1 - p) * np.log2(1 - p))

    for column, when in (("alpha_prior", "prior"), ("alpha_post", "posterior")):
        p, q = (both[name][column].to_numpy(float) for name in ("free", "letters"))
        jsd = entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2
        place = f"Calibration (2-class), free against closed set, {when.capitalize()}"
        assert rows.loc[place, "value"] == pytest.approx(np.mean(1 - jsd))


def test_what_leaves_no_ratio_is_in_no_published_number_but_those_of_table_8(
    setup: tuple[Experiment, ConsistencyConfig], published: Callable[..., pd.DataFrame]
) -> None:
    """App. A: where "Is it X?" "No." leaves the rejected word alone, in half of the items, there is no ratio. The
    paper's tables leave these posteriors out, and what is told of their priors; our own numbers keep what they have.
    """
    rng = np.random.default_rng(4)
    law: dict[tuple[str, str, int], np.ndarray] = {}

    def believe(item: str, told: dict[str, Any]) -> list[float]:
        template, rejected = told.get("template", ""), told.get("rejected", -1)
        if "then" not in told and template == "reject" and int(item[1:5]) % 2:
            return [0.6 * (i == rejected) for i in range(3)]
        return law.setdefault((item, template, rejected), 0.8 * rng.dirichlet([1, 1, 1])).tolist()

    experiment, config = setup
    scored = score_run(experiment, config, table_of(setup, believe))
    rows = published(experiment, ("m", config, scored))
    rows = rows[rows["read as"].isin(["free", "free and letters"])]
    told = {(row["table"], row["column"]): row["value"] for _, row in rows.iterrows()}
    kept: dict[str, list[tuple[float, ...]]] = {"reject": [], "narrow": []}
    every: list[float] = []
    for item in experiment.items(config):
        prior = np.array(believe(item.id, {}))
        for rejected in range(3):
            for template, times in (("reject", 1), ("narrow", 2)):
                post = np.array(believe(item.id, {"template": template, "rejected": rejected}))
                every += [post[rejected]] * times
                two = np.delete(prior, rejected)
                if np.delete(post, rejected).sum() > 0:
                    ideal = np.insert(two / two.sum(), rejected, 0.0)
                    c3 = 1 - jensenshannon(ideal, post / post.sum(), base=2) ** 2
                    kept[template] += [(float(c3), float(post[rejected]), float(shannon(two, base=2)), 0.2)] * times
    assert (len(kept["reject"]), len(kept["narrow"])) == (3 * N_ITEMS / 2, 6 * N_ITEMS)
    columns = ["Consistency, 3 classes", "p invalid posterior", "Entropy [bit], Prior", "Verbal Error, Posterior"]
    for number, instances_of in (("1", kept["reject"] + kept["narrow"]), ("5", kept["reject"]), ("6", kept["narrow"])):
        found = [told[f"Table {number}", column] for column in columns]
        assert found == pytest.approx(np.mean(instances_of, axis=0))
    assert told["Table 8", "p invalid posterior, Raw"] == pytest.approx(np.mean(every))
    own = {(n.metric, n.subset): n.score for n in scored if n.method == "free"}
    assert own["c3", "all"].n_rows == own["p_invalid_raw", "all"].n_rows == 9 * N_ITEMS
    assert own["c3_included", "all"].n_rows == own["c2", "all"].n_rows == len(kept["reject"] + kept["narrow"])
    beside = {n.metric: n.score for n in scored if n.method == "free and letters"}
    assert beside["agreement_prior"].n_rows == 9 * N_ITEMS
    assert beside["agreement_prior_included"].n_rows == own["c2", "all"].n_rows


def test_a_comparison_explains_a_method_in_the_words_of_each_run(
    setup: tuple[Experiment, ConsistencyConfig], stored_run: Callable[..., Any], tmp_path: Path
) -> None:
    table = table_of(setup, lambda item, told: list(prior(item)))
    asked = "Well? Which word is it?"
    _, other = load_config("consistency", ["items=9", "bootstrap_draws=200", f"wording.reveal={asked}"])
    runs = [stored_run(tmp_path / name, config, table, "m") for name, config in (("a", setup[1]), ("b", other))]
    found = compare(*(run.path for run in runs), metrics=["c2"])
    usual, changed = "“m, reveal Which word did you choose?”", f"“m, reveal {asked}”"
    terms = dict(page(found, {}).terms)
    assert terms["free"] == f"{usual}: asks “Which word did you choose?”; {changed}: asks “{asked}”"
    assert terms["before"] == "read before a word is ruled out"
    (said, *_) = [sentence(record) for record in (*found.confirmed, *found.struck) if record.pair.one.method == "free"]
    assert said.startswith(f"c2 of free: {usual} has ")
    assert f" and {changed} " in said
    assert [name for name, _ in found.groups[0].differs] == ["settings.wording.reveal", "settings.items"]
