"""An experiment of one's own: is a claim believed as much as its negation is disbelieved?

    python examples/own_experiment.py [model]

The class says what is asked and measured; runs, resuming, intervals, contrasts, verdicts, the gallery and pages are
the package's. `doxascope run` takes it, too: see own_experiment.yaml.
"""

import sys
from pathlib import Path

from doxascope import Item, Measured, Question, make_options, run

STATEMENTS = [
    ("place", "Paris is in France.", "Paris is not in France."),
    ("place", "Rome is in Peru.", "Rome is not in Peru."),
    ("nature", "A whale is a fish.", "A whale is not a fish."),
    ("nature", "Ice is colder than steam.", "Ice is not colder than steam."),
]
SYSTEMS = {"plain": "", "careful": "Think about what is true before you answer."}


class Negation(Measured):
    name = "negation"
    summary = "is a statement believed as much as its negation is disbelieved?"
    headline = "framing_bias"
    coherent = 0.0
    factors = ("topic", "system")

    def items(self, config):
        return [Item(f"s{i}", f"s{i}", {"told": told}) for i, told in enumerate(STATEMENTS[: config.items])]

    def questions(self, config, item):
        topic, *both = item.content["told"]
        return [
            Question(
                readout_id=f"{item.id}/{system}/{scenario}",
                method="yes or no",
                scenario=scenario,
                conversation=[
                    *([{"role": "system", "content": text}] if text else []),
                    {"role": "user", "content": f"{statement} Is that true? Answer yes or no."},
                ],  # type: ignore
                prefill="",
                options=make_options(["Yes", "No"]),
                conditions={"topic": topic, "system": system},
            )
            for system, text in SYSTEMS.items()
            for scenario, statement in zip(("claim", "negation"), both, strict=True)
        ]

    def measure(self, config, beliefs):
        yes = beliefs[beliefs["option"] == "Yes"]
        wide = yes.pivot(index=["item", "topic", "system"], columns="scenario", values="prob").reset_index()
        return wide.assign(framing_bias=wide["claim"] + wide["negation"] - 1)


def main(model: str = "smollm2-135m", out: str = "runs") -> Path:
    """Run it; returns the folder of the run."""
    settings = Path(__file__).with_name("own_experiment.yaml")
    done = run(str(settings), model, out=out, allow_code=[__file__])
    print(done)
    print(done.path / "report.html")
    return done.path


if __name__ == "__main__":
    main(*sys.argv[1:])
