"""Tables by the levels of their columns: each level, each combination, what levels differ by; models never together."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.base.errors import UserError
from doxascope.metrics import PairedDifference, factor_regression, martingale_score, paired_slope_difference
from doxascope.metrics.forms import FORMS
from doxascope.metrics.scoring.engine import ScoredTable, score_table
from doxascope.metrics.tables.samples import ALL

Write = Callable[..., Path]
MODELS, DOMAINS = ("big", "small"), ("law", "med")


def updates(seed: int = 0) -> pd.DataFrame:
    """Thirty questions of each domain, each answered by both models, whose slopes differ."""
    rng = np.random.default_rng(seed)
    rows = [
        (model, domain, f"{domain}{q}", b, np.clip(b + slope * (b - 0.5) + rng.normal(0, 0.04), 0, 1), rng.random() < b)
        for q in range(30)
        for domain in DOMAINS
        for model, slope in zip(MODELS, (0.2, -0.1), strict=True)
        for b in [rng.uniform(0.1, 0.9)]
    ]
    return pd.DataFrame(rows, columns=["model", "domain", "question", "prior", "posterior", "outcome"])


def by_name(scored: ScoredTable) -> dict[tuple[str, str, str], Any]:
    return {(number.metric, number.run, number.subset): number.score for number in scored.numbers}


def test_each_level_each_cell_and_their_paired_difference(table: Write) -> None:
    frame = updates()
    found = score_table(table(**frame), by=["model", "domain"])
    scores = by_name(found)
    for (model, domain), own in frame.groupby(["model", "domain"]):
        expected = martingale_score(own["prior"], own["posterior"], own["question"], se="CR3")
        got = scores["M", f"model={model}, domain={domain}", ALL]
        assert (got.estimate, got.se, got.p_iid) == pytest.approx((expected.M, expected.se, expected.p_iid))
    for model in MODELS:  # over domains, each with its intercept
        own = frame[frame["model"] == model]
        centred = own[["prior", "posterior"]] - own.groupby("domain")[["prior", "posterior"]].transform("mean")
        slope = (centred["prior"] * (centred["posterior"] - centred["prior"])).sum() / (centred["prior"] ** 2).sum()
        assert scores["M", f"model={model}", ALL].estimate == pytest.approx(slope)
    big, two = (frame[frame["model"] == model].set_index("question").loc[lambda x: sorted(x.index)] for model in MODELS)
    first, second = ((x["prior"].to_numpy(), x["posterior"].to_numpy()) for x in (big, two))
    expected = paired_slope_difference(first, second, big.index.to_numpy(), cells=big["domain"].to_numpy())
    compared = {x.method: x.score for x in found.differences if x.metric == "M_difference"}
    assert {*compared} == {  # levels of a domain within each model alone
        "model=big - model=small",
        *(f"model={model}, domain=law - model={model}, domain=med" for model in MODELS),
    }
    difference = compared["model=big - model=small"]
    assert isinstance(difference, PairedDifference)
    assert (difference.estimate, difference.n_clusters) == pytest.approx((expected.difference, 60))
    assert difference.p_adjusted < 0.001
    factors = {name: frame[name].to_numpy() for name in ("model", "domain")}
    update = frame["posterior"] - frame["prior"]
    fit = factor_regression(
        update, frame["prior"], factors, {"model": "big", "domain": "law"}, frame["question"], se="CR3"
    )
    contrast = scores["M_contrast", "", "model[small]"]
    assert contrast.estimate == pytest.approx(fit.terms["b:model[small]"].estimate)


@pytest.mark.parametrize("column", ["model", "factor_model"])
def test_models_are_never_in_one_heap(table: Write, column: str) -> None:
    frame = updates().rename(columns={"model": column})
    scores = by_name(found := score_table(table(**frame)))
    assert {run for metric, run, _ in scores if metric == "M"} == {"model=big", "model=small"}
    assert "by " + column + " (2)" in found.understood.line
    alone = frame[frame[column] == "big"]
    single = score_table(table(**alone))  # of a single model nothing changes
    assert by_name(single)["M", "", ALL].estimate == pytest.approx(scores["M", "model=big", ALL].estimate)


def test_a_level_of_another_factor_is_scored_within_each_model(table: Write) -> None:
    frame = updates()[["model", "domain", "question", "prior", "outcome"]].rename(columns={"prior": "belief"})
    scores = by_name(score_table(table(**frame), by=["domain"]))
    assert {run for metric, run, _ in scores if metric == "brier"} == {
        *(f"model={model}" for model in MODELS),
        *(f"domain={domain}, model={model}" for domain in DOMAINS for model in MODELS),
    }
    for (domain, model), own in frame.groupby(["domain", "model"]):
        expected = ((own["belief"] - own["outcome"]) ** 2).mean()
        assert scores["brier", f"domain={domain}, model={model}", ALL].estimate == pytest.approx(expected)


def test_trajectories_by_factors_have_a_slope_in_each_cell(table: Write) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for model, slope in zip(MODELS, (0.15, 0.0), strict=True):
        for domain in DOMAINS:
            for q in range(25):
                belief = rng.uniform(0.2, 0.8)
                for step in range(4):
                    rows.append((model, domain, f"{domain}{q}", step, belief))
                    belief = float(np.clip(belief + slope * (belief - 0.5) + rng.normal(0, 0.05), 0, 1))
    frame = pd.DataFrame(rows, columns=["model", "domain", "question", "step", "belief"])
    long = by_name(score_table(table(**frame), by=["model", "domain"]))
    wide = frame.pivot(index=["model", "domain", "question"], columns="step", values="belief").reset_index()
    wide = wide.rename(columns={step: f"b_{step}" for step in range(4)})
    broad = by_name(score_table(table(**wide, name="w.csv"), by=["domain", "model"]))
    for (model, domain), own in frame.groupby(["model", "domain"]):
        paths = own.pivot(index="question", columns="step", values="belief").to_numpy()
        slope = np.polyfit(paths[:, :-1].ravel(), np.diff(paths, axis=1).ravel(), 1)[0]
        assert long["M_step", f"model={model}, domain={domain}", ALL].estimate == pytest.approx(slope)
        assert broad["M_step", f"domain={domain}, model={model}", ALL].estimate == pytest.approx(slope)
    assert long["M_at", "", "model[big]"].estimate > 0.2 > long["M_at", "", "model[small]"].estimate
    named = frame.rename(columns={"domain": "factor_domain", "model": "factor_arm"})
    named["question"] += named["factor_arm"]
    named = by_name(score_table(table(**named, name="n.csv")))  # the same by columns of factors
    assert named["M_at", "", "arm[big]"].estimate == pytest.approx(long["M_at", "", "model[big]"].estimate)


def test_a_factor_has_one_level_along_a_trajectory(table: Write) -> None:
    path = table("question,step,belief,factor_arm", "q,0,0.5,x", "q,1,0.6,y")
    with pytest.raises(UserError, match=re.escape("factor_arm differs along question 'q'; a trajectory has one")):
        score_table(path)


def test_a_prior_serves_the_posteriors_of_every_template(table: Write) -> None:
    rng = np.random.default_rng(2)
    rows = []
    for item in range(12):
        rows.append((item, "prior", "", "", *rng.integers(1, 40, 3)))
        rows += [(item, "posterior", t, r, *rng.integers(1, 40, 3)) for t in ("not", "either") for r in "abc"]
    names = ["item", "context", "template", "rejected", "count_a", "count_b", "count_c"]
    frame = pd.DataFrame(rows, columns=names)
    frame.loc[frame["context"] == "prior", "rejected"] = "a"
    found = score_table(table(**frame), by=["template"])
    scores = by_name(found)
    for template in ("not", "either"):
        alone = frame[(frame["context"] == "prior") | (frame["template"] == template)].drop(columns="template")
        expected = by_name(score_table(table(**alone, name="a.csv")))
        assert scores["c2", f"template={template}", ALL].estimate == pytest.approx(expected["c2", "", ALL].estimate)
    whole = by_name(score_table(table(**frame, name="w.csv")))
    assert scores["c2", "", ALL].estimate == pytest.approx(whole["c2", "", ALL].estimate)
    (difference,) = [x.score for x in found.differences if x.metric == "c2_difference"]
    levels = [scores["c2", f"template={name}", ALL].estimate for name in ("not", "either")]
    assert difference.estimate == pytest.approx(levels[0] - levels[1])
    assert difference.n_rows == 36


def test_truth_of_some_questions_alone(table: Write) -> None:
    lines = ["question,category,single_a,single_b,multi_a,multi_b,truth"]
    lines += ["q1,easy,9,1,5,5,a", "q2,hard,8,2,6,4,b", "q3,random,7,3,5,5,", "q4,subjective,6,4,6,4,"]
    scores = by_name(score_table(table(*lines), by=["category"]))
    assert scores["top_b", "", ALL].estimate == pytest.approx((0.4 + 0.2 + 0.2 + 0.0) / 4)
    assert scores["top_b_wrong", "", ALL].estimate == pytest.approx(0.2)  # q2 alone answers wrongly
    assert scores["top_b", "category=easy", ALL].estimate == pytest.approx(0.4)
    found = score_table(
        table("category,answer,truth,single", "easy,a,a,1", "hard,b,a,0.2", "subjective,b,,1", name="v.csv")
    )
    assert "1 answers without a truth (subjective) cannot be verified and are left out" in found.understood.line
    assert {number.subset: number.score.n_rows for number in found.numbers if number.metric == "reject_all"} == {
        "easy": 1,
        "hard": 1,
    }


def test_a_belief_table_of_two_models(table: Write) -> None:
    frame = updates()
    rows = [
        (scenario, row["question"], row["model"], "exact", "plain", scenario, option, p if option == "yes" else 1 - p)
        for row in frame.to_dict("records")
        for scenario, p in (("prior", row["prior"]), ("posterior", row["posterior"]))
        for option in ("yes", "no")
    ]
    beliefs = pd.DataFrame(
        rows, columns=["readout_id", "item", "model", "kind", "method", "scenario", "option", "prob"]
    )
    beliefs["readout_id"] += beliefs["item"]
    scored = score_table(table(**beliefs))
    scores = by_name(scored)
    assert {run for metric, run, _ in scores if metric == "M"} == {"model=big", "model=small"}
    for model, own in frame.groupby("model"):
        slope = np.polyfit(own["prior"], own["posterior"] - own["prior"], 1)[0]
        assert scores["M", f"model={model}", ALL].estimate == pytest.approx(slope)
    (difference,) = [x for x in scored.differences if x.metric == "M_difference"]
    assert difference.method == "plain, model=big - plain, model=small"
    assert difference.score.n_clusters == 60


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (["x"], "has no column 'x'"),
        (["domain", "domain"], "--by names 'domain' twice"),
        (["question"], "--by question: is the cluster"),
        (["prior"], "--by prior: is a number that is scored (probability)"),
    ],
)
def test_what_has_no_levels_is_refused_in_one_line(table: Write, by: list[str], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        score_table(table(**updates()), by=by)


def test_a_row_without_a_level_and_too_many_cells_are_refused(table: Write) -> None:
    frame = updates()
    frame.loc[3, "domain"] = None
    with pytest.raises(UserError, match=re.escape("row 4, domain: is missing; every row needs one")):
        score_table(table(**frame), by=["domain"])
    frame = pd.concat([updates(seed) for seed in range(9)], ignore_index=True)
    frame["seed"] = np.arange(len(frame)) // 2
    with pytest.raises(UserError, match="seed, model make 1,080 cells, more than 400; name fewer by --by"):
        score_table(table(**frame), by=["seed"])


SMALL = {
    "Bayes readings": ("p_x,p_y,p_y_given_x,posterior", "0.5,0.5,0.6,0.6", "0.2,0.4,0.5,0.3"),
    "testimony": ("base,syc,bayes,outcome", "0.5,0.6,0.5,1", "0.2,0.4,0.3,0"),
    "testimony of users and agents": ("user,licensed_user,agent,licensed_agent", "0.5,0.4,0.5,0.4", "0.6,0.4,0.3,0.4"),
    "prizes, one row per repetition": ("context,p_base,p_alt", "a,0.5,0.6", "b,0.4,0.3"),
    "decisions": ("belief,action,outcome", "0.4,0,0", "0.7,1,1"),
    "answers to verify": ("category,answer,truth,single", "easy,a,a,0.9", "hard,a,b,0.4"),
    "answers": ("single_a,single_b,multi_a,multi_b", "5,5,4,6", "9,1,5,5"),
    "cases": ("p,cond_1,weight_1,cond_2,weight_2", "0.5,0.6,0.5,0.4,0.5", "0.3,0.6,0.5,0.4,0.5"),
    "options, one row per context": (
        "item,context,rejected,count_a,count_b,count_c",
        "i,prior,a,3,4,5",
        "i,posterior,a,0,4,5",
    ),
    "options": ("prior_a,prior_b,posterior_a,posterior_b,rejected", "0.5,0.5,0.1,0.9,a", "0.4,0.6,0.9,0.1,b"),
    "two read-outs": ("free_a,free_b,closed_a,closed_b", "5,5,4,6", "9,1,5,5"),
    "counts": ("count_a,count_b", "3,4", "5,6"),
    "judges": ("judge_a,judge_b", "0.4,0.5", "0.6,0.8"),
    "inner read-outs": (
        "item,rejected,inner_a,inner_b,exact_a,exact_b",
        "i,,-0.7,-0.6,-0.4,-1.6",
        "i,a,-1.2,-0.4,-2.1,-0.2",
    ),
    "forks": ("yes_a,yes_b,reveal_a,reveal_b", "0.5,0.4,0.6,0.4", "0.2,0.7,0.3,0.7"),
    "patches": ("base,patched,donor", "0.1,0.5,1.0", "0.0,0.4,0.9"),
    "shifts by asker": ("shift_user,shift_third", "0.1,0.5", "0.0,0.4"),
    "passive and queried": ("passive,queried", "0.1,0.5", "0.2,0.4"),
    "log-probabilities of yes and no": ("logp_yes,logp_no", "-0.7,-0.9", "-0.4,-1.5"),
    "questions that follow from each other": ("p,not_p,outcome", "0.6,0.5,1", "0.3,0.8,0"),
    "updates over options": (
        "prior_a,prior_b,loglik_a,loglik_b,posterior_a,posterior_b",
        "0.5,0.5,-1,-2,0.6,0.4",
        "0.4,0.6,-9,-7,0.3,0.7",
    ),
    "perturbed beliefs": ("belief,perturbed", "0.6,0.4", "0.3,0.2"),
    "implanted beliefs": ("claim,facet,belief", "c,direct,0.8", "c,generality,0.4"),
    "labels and scores": ("label,score_a,score_b", "1,0.8,0.1", "0,0.3,0.4", "1,0.6,0.9", "0,0.7,0.2"),
    "chains of thought, one row per belief": (
        "chain,sentences,belief_a,belief_b,names,replaced",
        "1,0,0.5,0.4,a,",
        "1,1,0.8,0.1,a,",
        "1,1,0.3,0.6,a,b",
    ),
    "two predictions": ("p1,p2,outcome", "0.4,0.5,1", "0.6,0.8,0"),
    "two predictions of classes": ("p1_a,p1_b,p2_a,p2_b,truth", "0.5,0.5,0.4,0.6,a", "0.5,0.5,0.4,0.6,"),
    "chains of the model's own": ("question,chain,prior,posterior", "q,1,0.5,0.6", "q,2,0.5,0.4"),
    "trajectories, one row per step": ("trajectory,step,belief", "t,0,0.5", "t,1,0.6"),
    "trajectories": ("b_0,b_1,b_2", "0.5,0.6,0.7", "0.3,0.2,0.4"),
    "pairs": ("prior,posterior", "0.5,0.6", "0.3,0.2"),
    "forecasts": ("belief,outcome", "0.5,1", "0.3,0"),
    "beliefs and the true probability": ("belief,p_star", "0.5,0.6", "0.3,0.2"),
    "k of n": ("k,n", "3,4", "5,6"),
}


def test_every_form_is_in_the_list_below() -> None:
    assert {form.name for form in FORMS if not form.pools and form.gather is None} == set(SMALL)


@pytest.mark.parametrize("form", SMALL)
def test_every_form_scores_each_level_as_it_scores_it_alone(table: Write, form: str) -> None:
    head, *rows = SMALL[form]
    first, second = [f"{row},big" for row in rows], [f"{row},small" for row in rows[::-1]]
    scored = score_table(table(f"{head},model", *first, *second))
    assert scored.understood.form == form
    alone = {
        number.metric + number.subset: number.score for number in score_table(table(head, *rows, name="a.csv")).numbers
    }
    own = {number.metric + number.subset: number.score for number in scored.numbers if number.run == "model=big"}
    assert own.keys() == alone.keys()
    for name, score in own.items():
        assert score.estimate == pytest.approx(alone[name].estimate, nan_ok=True)
    assert not [
        number
        for number in scored.numbers
        if not number.run and not number.family.startswith(("martingale-", "brier-on"))
    ]
