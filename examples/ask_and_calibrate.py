"""Ask a table of questions, each with its own options: is the model right, and does it know when it is?

python examples/ask_and_calibrate.py [model]
"""

import sys

import pandas as pd

from doxascope import load

QUESTIONS = pd.DataFrame(
    [
        ("What is a whale?", ["a fish", "a mammal", "a bird"], "a mammal"),
        ("Which is the largest planet?", ["Mars", "Jupiter", "Venus"], "Jupiter"),
        ("What is the capital of Italy?", ["Milan", "Rome", "Turin"], "Rome"),
        ("Which of these is a metal?", ["iron", "oxygen", "wood"], "iron"),
        ("How many legs does a spider have?", ["six", "eight", "ten"], "eight"),
        ("What do bees make?", ["honey", "milk", "bread"], "honey"),
        ("Which is frozen water?", ["steam", "ice", "sand"], "ice"),
        ("Who wrote Hamlet?", ["Dickens", "Shakespeare", "Austen"], "Shakespeare"),
    ],
    columns=["question", "options", "truth"],
)
OTHERS = [
    {"question": "What is a robin?", "options": ["a fish", "a bird", "a stone"]},
    {"question": "Which is the capital of France?", "options": ["Lyon", "Paris", "Nice"]},
    {"question": "What colour is snow?", "options": ["white", "black", "green"]},
]
"""To find out how an answer begins: none of them is scored."""


def main(model: str = "smollm2-135m") -> pd.DataFrame:
    """Print beliefs and scores; returns the scores."""
    with load(model) as lm:
        print(lm)
        asked = lm.ask(QUESTIONS, ["texts", "letters"])
        print(asked)
        print(*asked.help(), sep="\n")
        fitted = lm.fit_forms(OTHERS, "texts")  # by coverage alone, never by a score
        print(*fitted)
        asked = lm.ask(QUESTIONS, ["texts", "letters"], forms=fitted)
    print(asked.table[["id", "method", "answer", "prob", "truth", "coverage"]].to_string(index=False))
    scores = asked.scores()
    told = scores[scores["metric"].isin(["accuracy", "brier_multiclass", "calibration_error", "coverage", "gate"])]
    print(told.to_string(index=False))
    return scores


if __name__ == "__main__":
    main(*sys.argv[1:])
