"""What a planted agent would leave of a run, so that the experiment's scores can be tried on it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from doxascope.experiments.run.experiment import Item, Question
from doxascope.experiments.suite.bscore.ask import counted_rows, drawn_answers
from doxascope.experiments.suite.bscore.config import BScoreConfig
from doxascope.experiments.suite.bscore.turns import (
    MULTI,
    OTHER,
    alike,
    choice_of,
    control_histories,
    control_questions,
    orders_of,
    single_question,
    turn_orders,
)
from doxascope.experiments.suite.bscore.views import Asked, MethodView
from doxascope.metrics import belief_table
from doxascope.metrics.contract import Floats

from .choices import Repeating

SURE = 1.0
"""Coverage of an agent that says nothing but options."""


def agent_views(config: BScoreConfig, items: Sequence[Item], agent: Repeating, seed: int) -> list[MethodView]:
    """What a run would hold in which the agent is asked and answers under every method, without its table.

    Args:
        config: of the run; its own seed draws the orders and the answers that are counted.
        items: the questions.
        agent: who answers.
        seed: of the agent's likings, which are the same under every method, and of its answers in conversation.
    """
    laws = [
        agent.fresh(orders_of(choice_of(item)), np.random.default_rng([seed, number]))
        for number, item in enumerate(items)
    ]
    found = []
    for which, (name, method) in enumerate(config.methods.items()):
        asked = [
            _asked(config, item, name, agent, laws[number], np.random.default_rng([seed, number, which]))
            for number, item in enumerate(items)
            if method.can_ask(choice_of(item))
        ]
        by_name = {item.id: item for item in items}
        found.append(
            MethodView(name, name, [_controlled(config, by_name[one.item], agent, one, asked) for one in asked])
        )
    return found


def _controlled(config: BScoreConfig, item: Item, agent: Repeating, one: Asked, asked: Sequence[Asked]) -> Asked:
    """The question with what the agent would answer after the control histories."""
    controls: dict[str, Floats] = {}
    for run, turn, control, said in control_histories(config, item, one.answer.tolist(), _alike(asked, item, one)):
        fresh = one.fresh[run, turn - 1]
        after = (
            agent.turn(fresh, [], one.truth, elsewhere=len(said))
            if control == OTHER
            else agent.turn(fresh, said, one.truth)
        )
        controls.setdefault(control, one.fresh.copy())[run, turn - 1] = after
    return replace(one, controls=controls)


def _alike(asked: Sequence[Asked], item: Item, one: Asked) -> list[list[int]]:
    """[R, N] what the question of the same options was answered, as options of this one; empty if there is none."""
    other = alike(item)
    found = [question for question in asked if other is not None and question.item == other.id]
    return [[one.options.index(found[0].options[i]) for i in talk] for talk in found[0].answer] if found else []


def agent_table(config: BScoreConfig, items: Sequence[Item], agent: Repeating, seed: int) -> pd.DataFrame:
    """The belief table of that run (arguments: `agent_views`); confidence is not asked for."""
    by_name = {item.id: item for item in items}
    rows: list[dict[str, Any]] = []
    for view in agent_views(config, items, agent, seed):
        for one in view.asked:
            item = by_name[one.item]
            afresh = [single_question(config, item, view.method, order) for order in range(len(one.orders))]
            for asked, p in zip(afresh, one.orders, strict=True):
                rows += _rows(item, asked, p)
            for run, turn in np.ndindex(one.order.shape):
                asked = afresh[one.order[run, turn]]
                about = {**asked.conditions, "run": run, "turn": turn + 1, "answer": int(one.answer[run, turn])}
                name = f"{item.id}/run-{run}/turn-{turn + 1}/{view.method}"
                held = replace(asked, readout_id=name, scenario=MULTI, step=turn + 1, conditions=about)
                rows += _rows(item, held, one.multi[run, turn])
            if len(one.multi):
                others = _alike(view.asked, item, one)
                for question in control_questions(config, item, view.method, one.answer.tolist(), others):
                    about = question.conditions
                    p = one.controls[about["control"]][about["run"], about["turn"] - 1]
                    rows += _rows(item, question, p)
                counted = counted_rows(config, item, view.method, one.orders, SURE)
                rows += [{"item": item.id, "cluster": item.cluster, **row} for row in counted]
    return belief_table(rows)


def _asked(
    config: BScoreConfig, item: Item, name: str, agent: Repeating, law: Floats, rng: np.random.Generator
) -> Asked:
    """A question under a method: what the agent answers afresh, which is given, and in conversations."""
    choice, runs = choice_of(item), config.runs if config.methods[name].conversations else 0
    shape = (runs, config.turns)
    order, answer = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    multi = np.zeros((*shape, law.shape[1]))
    for run in range(runs):
        order[run] = turn_orders(config, item, run)
        for turn in range(config.turns):
            multi[run, turn] = agent.turn(law[order[run, turn]], answer[run, :turn].tolist(), choice.right)
            answer[run, turn] = rng.choice(law.shape[1], p=multi[run, turn])
    return Asked(
        item=item.id,
        cluster=item.cluster,
        category=choice.category,
        topic=choice.topic,
        options=choice.options,
        truth=choice.right,
        target=np.array(choice.target) if choice.target else None,
        orders=law,
        multi=multi,
        order=order,
        answer=answer,
        coverage=np.full(len(law), SURE),
        coverage_multi=np.full(shape, SURE),
        counted=tuple(tuple(drawn_answers(config, item, name, law, run)) for run in range(runs)),
        confidence={},
    )


def _rows(item: Item, asked: Question, p: Floats) -> list[dict[str, Any]]:
    """As a reading fills them."""
    whole = {
        "readout_id": asked.readout_id,
        "item": item.id,
        "cluster": item.cluster,
        "kind": "exact",
        "method": asked.method,
        "scenario": asked.scenario,
        "step": asked.step,
        **asked.conditions,
        "coverage": SURE,
        "status": "ok",
    }
    return [
        {
            **whole,
            "option": option.name,
            "option_index": i,
            "logp": float(np.log(p[i])),
            "prob": float(p[i]),
        }
        for i, option in enumerate(asked.options)
    ]
