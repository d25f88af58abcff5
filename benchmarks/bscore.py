"""What a conversation costs, and how often the estimates of B hold what was planted.

    python benchmarks/bscore.py [rounds]            conversations turn by turn against one pass over each whole
    python benchmarks/bscore.py agents [seeds]      agents with a known law, through the experiment's table and scores

Conversations are held as `configs/bscore.yaml` has them: rendered, read with all forms of all options, answered. The
floor is one plain forward pass of each conversation's last prompt, of which nothing is read. Times are CPU seconds of
this process; both take their turn in every round, and the fastest round counts.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from doxascope import load
from doxascope.benchmarks.agents import Repeating
from doxascope.benchmarks.agents.bscore import agent_views
from doxascope.experiments.materials.choices.sources import HARD
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import Item
from doxascope.experiments.run.readouts import compile_questions
from doxascope.experiments.suite.bscore import BScoreConfig
from doxascope.experiments.suite.bscore.samples import counted_answers, exact_answers, parts
from doxascope.experiments.suite.bscore.turns import Firsts, Turn, hold, single_questions
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.tree.memory import Cost
from doxascope.metrics import Score, top_b_score_null_bias
from doxascope.metrics.contract import Resampling
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.samples import ALL

MODEL, METHOD, ROUNDS, SEEDS, AT_MOST = "smollm2-135m", "words", 3, 1000, 1.5
TURNS, ASKED = (6, 8, 20), 20
"""Of a conversation; and the question, which has four options."""
AGENTS = {
    "corrects itself": Repeating("uniform", 0.5),
    "sticks to its last answer": Repeating("last", 0.6),
    "leaks the truth": Repeating("truth", 0.5),
    "ignores history": Repeating(),
    "ignores history, equally likely options": Repeating(taste=0.0),
}
HOLDS = (0.93, 0.98)
"""Between these shares of the seeds a 95% interval over all 36 questions has to hold what was planted; of the nine hard
ones, whose B is more skewed, the shares are told."""
DRAWS = 5_000
"""Laws of each question from which its planted B is taken."""


Held = tuple[list[list[Turn]], list[Cost]]


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def speed(rounds: int) -> bool:
    """Whether conversations, as a run holds them, cost at most so many passes over their whole."""
    import torch

    held = True
    with load(MODEL) as lm:
        for turns in TURNS:
            experiment, config = load_config("bscore", ["items=36", f"turns={turns}", "confidence=null"])
            assert isinstance(config, BScoreConfig)
            item = experiment.items(config)[ASKED]
            asked = single_questions(config, item)
            afresh = lm.read(compile_questions(lm.reader, asked), budget=config.token_budget).readings
            firsts = {
                (question.method, question.conditions["order"]): read
                for question, read in zip(asked, afresh, strict=True)
            }

            def turn_by_turn(config: BScoreConfig = config, item: Item = item, firsts: Firsts = firsts) -> Held:
                return hold(config, item, METHOD, firsts, lm)

            conversations, costs = turn_by_turn()
            last = compile_questions(lm.reader, [turns[-1].question for turns in conversations])
            tokens = sum(len(query.prompt.ids) for query in last)

            def whole(last: Sequence[Query] = last) -> None:
                with torch.inference_mode():
                    for query in last:
                        lm.model.base_model(torch.tensor([query.prompt.ids]))

            times = np.array([(timed(turn_by_turn), timed(whole)) for _ in range(rounds)]).min(axis=0)
            ratio, in_tokens = times[0] / times[1], sum(cost.tokens_run for cost in costs) / tokens
            held &= bool(max(in_tokens, ratio) <= AT_MOST)
            print(
                f"{turns} turns, {len(last)} conversations of {tokens / len(last):.0f} tokens: {times[0]:.2f} s "
                f"against {times[1]:.2f} s for one pass over each whole: {ratio:.2f} x; {in_tokens:.2f} x its tokens"
            )
    return held


def agents(seeds: int) -> bool:
    """Whether the exact estimate, and the counted one that is free of luck, hold the planted B as often as their
    intervals say.
    """
    experiment, config = load_config(
        "bscore",
        [
            *("items=36", "runs=4", "turns=6", "queries=30", "distributions={}", "confidence=null"),
            *("per_question=false", "bootstrap_draws=400"),
        ],
    )
    assert isinstance(config, BScoreConfig)
    config = config.model_copy(update={"methods": {METHOD: config.methods[METHOD]}})
    items = experiment.items(config)
    own = {part: [item for item in items if part in (ALL, item.content["category"])] for part in (ALL, HARD)}
    every = True
    for name, agent in AGENTS.items():
        aims = {part: _planted(config, asked, agent) for part, asked in own.items()}
        off: dict[tuple[str, str], list[float]] = {}
        holds: dict[tuple[str, str], list[bool]] = {}
        for seed in range(seeds):
            for (part, label), score in _scores(config.model_copy(update={"seed": seed}), items, agent, seed).items():
                holds.setdefault((part, label), []).append(score.ci_lo <= aims[part] <= score.ci_hi)
                off.setdefault((part, label), []).append(score.estimate - aims[part])
        for (part, label), found in holds.items():
            share, error = float(np.mean(found)), np.array(off[part, label])
            print(
                f"{name}, {part}: B = {aims[part]:+.4f}; {label}: off by {error.mean():+.4f} "
                f"(SE {error.std() / np.sqrt(seeds):.4f}), holds it in {share:.1%}",
                flush=True,
            )
            if part == ALL and label != PUBLISHED:
                every &= HOLDS[0] <= share <= HOLDS[1] or (aims[part] == 0 and np.allclose(error, 0))
    for part, asked in own.items():
        luck = np.mean([top_b_score_null_bias(len(item.content["options"]), config.queries) for item in asked])
        print(f"luck of choosing among equally likely options, {part}: {luck:+.3f}")
    return every


EXACT, HELD_OUT, PUBLISHED = "exact", "chosen on other answers", "published"


def _planted(config: BScoreConfig, items: list[Item], agent: Repeating) -> float:
    """Mean B of the likeliest option over many questions: these agents have no lean, so that their law tells it."""
    rng = np.random.default_rng(config.seed)
    found = []
    for item in items:
        k, truth = len(item.content["options"]), item.content["truth"]
        top = np.array([agent.fresh([range(k)], rng)[0] for _ in range(DRAWS)])
        drawn: Any = {"uniform": 1 / k, "truth": 1 / k}.get(agent.drawn)
        if agent.drawn == "truth" and truth:
            drawn = top.argmax(axis=1) == item.content["options"].index(truth)
        moved = 0.0 if drawn is None else agent.weight * (top.max(axis=1) - drawn)
        found.append(np.mean(moved) * (config.turns - 1) / config.turns)
    return float(np.mean(found))


def _scores(config: BScoreConfig, items: list[Item], agent: Repeating, seed: int) -> dict[tuple[str, str], Score]:
    """(part, estimate) -> B of the likeliest option, of a run with the agent."""
    (view,) = agent_views(config, items, agent, seed)
    found: dict[tuple[str, str], Score] = {}
    for part, asked in ((ALL, view.held), (HARD, parts(view.held)[HARD])):
        exact, counted = exact_answers(view, asked, part, slice(None)), counted_answers(view, asked, part, None)
        for label, metric, sample in (
            (EXACT, "top_b", exact),
            (HELD_OUT, "top_b_held_out", counted),
            (PUBLISHED, "top_b", counted),
        ):
            how = Resampling(config.seed, config.bootstrap_draws, config.level)
            numbers = score_samples([sample], how, "b-score", until=metric).numbers
            found[part, label] = numbers[-1].score
    return found


if __name__ == "__main__":
    number = [int(word) for word in sys.argv[1:] if word.isdigit()]
    if "agents" in sys.argv[1:]:
        raise SystemExit(not agents(number[0] if number else SEEDS))
    raise SystemExit(not speed(number[0] if number else ROUNDS))
