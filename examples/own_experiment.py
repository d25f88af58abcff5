"""An experiment of one's own: is a claim believed as much as its negation is disbelieved?

    python examples/own_experiment.py [model]

The class says what is asked and which arrays the answers are; runs, resuming, intervals, gates and pages are the
package's. `doxascope run` takes it, too: see own_experiment.yaml.
"""

import sys
from pathlib import Path

from doxascope import Column, Experiment, Findings, Item, Question, make_options, run
from doxascope.metrics.tables.samples import YesNo

STATEMENTS = [
    ("Paris is in France.", "Paris is not in France."),
    ("A whale is a fish.", "A whale is not a fish."),
    ("Ice is colder than steam.", "Ice is not colder than steam."),
    ("Two is larger than three.", "Two is not larger than three."),
]


class Negation(Experiment):
    name = "negation"
    summary = "is a statement believed as much as its negation is disbelieved?"
    headline = "framing_bias"

    def items(self, config):
        return [Item(f"s{i}", f"s{i}", {"both": both}) for i, both in enumerate(STATEMENTS[: config.items])]

    def questions(self, config, item):
        return [
            Question(
                readout_id=f"{item.id}/{scenario}",
                method="plain",
                scenario=scenario,
                conversation=[{"role": "user", "content": f"{statement} Is that true? Answer yes or no."}],
                prefill="",
                options=make_options(["Yes", "No"]),
            )
            for scenario, statement in zip(("claim", "negation"), item.content["both"], strict=True)
        ]

    def samples(self, config, beliefs):
        yes = beliefs[beliefs["option"] == "Yes"]
        prob = yes.pivot(index="item", columns="scenario", values="prob")
        mass = yes.pivot(index="item", columns="scenario", values="coverage")
        yield YesNo(
            kind="exact",
            method="plain",
            belief=prob["claim"].to_numpy(),
            negated=prob["negation"].to_numpy(),
            mass=mass["claim"].to_numpy(),
            clusters=prob.index.to_numpy(),
            keys=prob.index.to_numpy(),
        )

    def findings(self, config, beliefs, numbers, transcripts):
        bias = Column("framing_bias", "framing bias", "P(yes) + P(yes to the negation) - 1; 0 is coherent")
        return Findings("Each statement and its negation are asked for in contexts of their own.", [bias])


def main(model: str = "smollm2-135m", out: str = "runs") -> Path:
    """Run it; returns the folder of the run."""
    settings = Path(__file__).with_name("own_experiment.yaml")
    done = run(str(settings), model, out=out, allow_code=[__file__])
    print(done)
    print(done.path / "report.html")
    return done.path


if __name__ == "__main__":
    main(*sys.argv[1:])
