"""What a conversation costs, and how often the estimates of B hold what was planted.

    python benchmarks/bscore.py [rounds]            N turns over one cache against one pass over the final conversation
    python benchmarks/bscore.py agents [seeds]      agents with a known law, through the experiment's table and scores

Turns are read with all forms of all options, as `configs/bscore.yaml` has it; the floor is one plain forward pass of
the conversation's last prompt. Times are CPU seconds of this process, and both take their turn in every round.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import sys
import time
from collections.abc import Callable

import numpy as np

from doxascope import load
from doxascope.experiments.bscore import BScoreConfig
from doxascope.experiments.bscore.agents import agent_table
from doxascope.experiments.bscore.asking import MULTI
from doxascope.experiments.bscore.conversations import planned
from doxascope.experiments.bscore.samples import counted_answers, exact_answers, parts
from doxascope.experiments.bscore.table import views
from doxascope.experiments.engine.config import load_config
from doxascope.experiments.planted import Repeating
from doxascope.experiments.reading.exact import compile_questions
from doxascope.experiments.scoring.engine import score_samples
from doxascope.experiments.scoring.number import Resampling
from doxascope.experiments.tables.samples import Answers
from doxascope.metrics import top_b_score_null_bias

MODEL, ROUNDS, SEEDS, AT_MOST = "smollm2-135m", 3, 1000, 1.5
TURNS = (8, 30)
AGENTS = {
    "ignores history, equally likely options": Repeating(taste=0.0),
    "ignores history": Repeating(),
    "corrects itself": Repeating("uniform", 0.5),
    "sticks to its last answer": Repeating("last", 0.6),
    "leaks the truth": Repeating("truth", 0.5),
}
HOLDS = (0.93, 0.98)
"""Between these shares of the seeds a 95% interval has to hold what was planted."""
DRAWS = 20_000
"""Laws of each question from which its planted B is taken."""


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def speed(rounds: int) -> bool:
    """Whether N turns cost at most so many passes over the whole."""
    import torch

    held = True
    with load(MODEL) as lm:
        for turns in TURNS:
            experiment, config = load_config("bscore", ["items=36", f"turns={turns}", "runs=2", "confidence=null"])
            assert isinstance(config, BScoreConfig)
            item = experiment.items(config)[20]
            asked = [one for one in planned(config, item) if one.scenario == MULTI and one.variant["run"] == 0]
            queries = compile_questions(lm.reader, asked)
            last = torch.tensor([queries[-1].prompt.ids])

            def whole(ids: torch.Tensor = last) -> None:
                with torch.inference_mode():
                    lm.model.base_model(ids)

            def turn_by_turn(every: list = queries) -> int:
                histories, tokens, kept = lm.histories(4096), 0, []
                for query in every:
                    grown = lm.read_grown([query], histories, budget=4096)
                    tokens, kept = tokens + grown.cost.tokens_run, [kept[-1:], grown.held]
                return tokens

            whole()
            tokens = turn_by_turn()
            times = np.array([(timed(turn_by_turn), timed(whole)) for _ in range(rounds)]).min(axis=0)
            ratio, in_tokens = times[0] / times[1], tokens / last.shape[1]
            held &= bool(in_tokens <= AT_MOST)
            print(
                f"{turns} turns, {last.shape[1]} tokens: {times[0]:.2f} s against {times[1]:.2f} s for one pass over "
                f"the whole: {ratio:.2f} x; {in_tokens:.2f} x its tokens"
            )
    return held


def agents(seeds: int) -> bool:
    """Whether the exact estimate, and that by halves, hold the planted B as often as their intervals say."""
    experiment, config = load_config(
        "bscore",
        [
            *("items=36", "runs=4", "turns=6", "queries=30", "distributions={}", "confidence=null"),
            *("methods.letters.conversations=false", "bootstrap_draws=400"),
        ],
    )
    assert isinstance(config, BScoreConfig)
    items = [item for item in experiment.items(config) if item.content["category"] == "hard"]
    k = [len(item.content["options"]) for item in items]
    luck = float(np.mean([top_b_score_null_bias(one, config.queries) for one in k]))
    every = True
    for name, agent in AGENTS.items():
        holds: dict[str, list[bool]] = {}
        errors: dict[str, list[float]] = {}
        aim = _planted(config, items, agent)
        for seed in range(seeds):
            own = config.model_copy(update={"seed": seed})
            for label, score in _scores(own, items, agent, seed).items():
                holds.setdefault(label, []).append(score.ci_lo <= aim <= score.ci_hi)
                errors.setdefault(label, []).append(score.estimate - aim)
        for label, own in holds.items():
            share = float(np.mean(own))
            print(f"{name}: B = {aim:+.3f}; {label}: off by {np.mean(errors[label]):+.3f}, holds it in {share:.1%}")
            if label != PUBLISHED:
                every &= HOLDS[0] <= share <= HOLDS[1] or (aim == 0 and np.allclose(errors[label], 0))
    print(f"luck of choosing among equally likely options: {luck:+.3f}")
    return every


EXACT, HALVES, PUBLISHED = "exact", "by halves", "published"


def _answers(config: BScoreConfig, items: list, agent: Repeating, seed: int) -> tuple[Answers, Answers]:
    table = agent_table(config, items, agent, seed)
    (view, *_) = views(config, table)
    asked = parts(view.held)["hard"]
    return exact_answers(view, asked, "hard", slice(None)), counted_answers(view, asked, "hard", None)


def _planted(config: BScoreConfig, items: list, agent: Repeating) -> float:
    """Mean B of the likeliest option over many questions: these agents have no lean, so that their law tells it."""
    rng = np.random.default_rng(config.seed)
    found = []
    for item in items:
        k, right = len(item.content["options"]), item.content["options"].index(item.content["truth"])
        top = np.array([agent.fresh([range(k)], rng)[0] for _ in range(DRAWS)])
        drawn = {"uniform": 1 / k, "truth": top.argmax(axis=1) == right}.get(agent.drawn)
        moved = 0.0 if drawn is None else agent.weight * (top.max(axis=1) - drawn)
        found.append(np.mean(moved) * (config.turns - 1) / config.turns)
    return float(np.mean(found))


def _scores(config: BScoreConfig, items: list, agent: Repeating, seed: int) -> dict:
    how = Resampling(config.seed, config.bootstrap_draws, config.level)
    exact, counted = (
        {one.metric: one.score for one in score_samples([sample], how, "b-score").numbers}
        for sample in _answers(config, items, agent, seed)
    )
    return {EXACT: exact["top_b"], HALVES: counted["top_b_halves"], PUBLISHED: counted["top_b"]}


if __name__ == "__main__":
    number = [int(one) for one in sys.argv[1:] if one.isdigit()]
    if "agents" in sys.argv[1:]:
        raise SystemExit(not agents(number[0] if number else SEEDS))
    raise SystemExit(not speed(number[0] if number else ROUNDS))
