"""The belief table that a planted agent would leave, so that the experiment's scores can be tried on it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ...metrics import belief_table
from ...metrics.validation import Floats
from ..experiment import Item, Question
from ..planted.repeating import Repeating
from .asking import MULTI, choice_of, orders_of, single_question
from .config import BScoreConfig
from .conversations import turn_orders
from .reading import counted_rows

SURE = 1.0
"""Coverage of an agent that says nothing but options."""


def agent_table(config: BScoreConfig, items: Sequence[Item], agent: Repeating, seed: int) -> pd.DataFrame:
    """The table of a run in which the agent is asked and answers under every method; confidence is not asked for.

    Args:
        config: of the run; its own seed draws the orders and the answers that are counted.
        items: the questions.
        agent: who answers.
        seed: of the agent's likings, which are the same under every method, and of its answers in conversation.
    """
    rows: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        choice = choice_of(item)
        law = agent.fresh(orders_of(choice), np.random.default_rng([seed, number]))
        for which, (name, method) in enumerate(config.methods.items()):
            if not method.can_ask(choice):
                continue
            afresh = [single_question(config, item, name, order) for order in range(len(law))]
            for asked, fresh in zip(afresh, law, strict=True):
                rows += _rows(item, asked, fresh)
            if method.conversations:
                rng = np.random.default_rng([seed, number, which])
                rows += _conversations(config, item, afresh, agent, law, rng)
                counted = counted_rows(config, item, name, law, SURE)
                rows += [{"item": item.id, "cluster": item.cluster, **row} for row in counted]
    return belief_table(rows)


def _conversations(
    config: BScoreConfig,
    item: Item,
    afresh: Sequence[Question],
    agent: Repeating,
    law: Floats,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    right = choice_of(item).right
    for run in range(config.runs):
        said: list[int] = []
        for turn, order in enumerate(turn_orders(config, item, run), 1):
            p = agent.turn(law[order], said, right)
            answer = int(rng.choice(len(p), p=p))
            asked = afresh[order]
            told = {**asked.variant, "run": run, "turn": turn, "answer": answer}
            name = f"{item.id}/run-{run}/turn-{turn}/{asked.method}"
            rows += _rows(item, replace(asked, readout_id=name, scenario=MULTI, step=turn, variant=told), p)
            said.append(answer)
    return rows


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
        "variant": json.dumps(asked.variant, sort_keys=True),
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
