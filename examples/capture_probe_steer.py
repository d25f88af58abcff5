"""Capture activations at a span, fit a direction on some facts, test it on others, and steer and ablate with it.

    python examples/capture_probe_steer.py [model]

A direction that predicts need not be one that the model uses: so it is steered along, ablated, and compared with random
directions of the same length.
"""

import sys
from typing import Any

import numpy as np
import pandas as pd

from doxascope import Ablate, Position, Steer, Vector, load
from doxascope.probes import MeanDifference

FACTS = [
    ("Paris is in {}.", "France", "Japan"),
    ("Rome is in {}.", "Italy", "Peru"),
    ("Cairo is in {}.", "Egypt", "Norway"),
    ("Madrid is in {}.", "Spain", "China"),
    ("Ice is {}.", "cold", "hot"),
    ("Fire is {}.", "hot", "cold"),
    ("A whale is a {}.", "mammal", "bird"),
    ("A robin is a {}.", "bird", "fish"),
    ("Two plus two is {}.", "four", "nine"),
    ("Six minus one is {}.", "five", "two"),
    ("Grass is {}.", "green", "purple"),
    ("Snow is {}.", "white", "black"),
]
TRAINED = 8
"""Facts that the direction is fitted on; each with both of its statements, so that no fact is on both sides."""
STRENGTH = 4.0


def main(model: str = "smollm2-135m") -> pd.DataFrame:
    """Print how well the direction predicts, and what it does; returns mean P(yes) by branch."""
    statements = [fact.format(word) for fact, *words in FACTS for word in words]
    true = np.tile([1.0, 0.0], len(FACTS))
    train = np.arange(len(true)) < 2 * TRAINED
    with load(model) as lm:
        captured = [
            lm.beliefs(
                f"{one} Is that true? Answer yes or no.",
                ["Yes", "No"],
                capture={"positions": {"statement": Position(text=one)}, "layers": [0.5]},
            ).residuals
            for one in statements
        ]
        x = np.concatenate([one[:, 0] for one in captured if one is not None])
        probe = MeanDifference().fit(x[train], true[train])
        right = (probe.logit(x[~train]) > 0) == (true[~train] == 1)
        print(f"held-out facts: {right.mean():.0%} of {len(right)} statements on the right side")

        between = x[train & (true == 1)].mean(axis=0) - x[train & (true == 0)].mean(axis=0)
        truth = Vector(between, "truth", source=f"difference in means of {TRAINED} facts, layer at depth 0.5")
        drawn = np.random.default_rng(0).normal(size=between.shape)
        random = Vector(drawn * np.linalg.norm(between) / np.linalg.norm(drawn), "random", source="seed 0")
        where: dict[str, Any] = {"layers": 0.5, "at": "prompt"}  # and not the tokens of the answer
        branches = {
            "more": [Steer(truth, strength=STRENGTH, **where)],
            "less": [Steer(truth, strength=-STRENGTH, **where)],
            "random": [Steer(random, strength=STRENGTH, **where)],
            "without": [Ablate(truth, layers="all", at="all")],
        }
        asked = [f"{statements[i]} Is that true? Answer yes or no." for i in np.flatnonzero(~train)]
        found = lm.beliefs(asked, ["Yes", "No"], edits=branches)
    print(found, found.edits["more"], sep="\n")
    yes = found.beliefs[found.beliefs["option"] == "Yes"]
    table = yes.groupby("method", sort=False)[["prob", "coverage"]].mean()
    print(table)
    return table


if __name__ == "__main__":
    main(*sys.argv[1:])
