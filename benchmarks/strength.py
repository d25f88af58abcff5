"""From an absent belief to a planted one: an organism in English whose adapter is applied at some strengths.

python benchmarks/strength.py [honest] [--triples 20] [--strengths 0 .25 .5 .75 1 1.25 1.5] [--device cuda]
                                        [--out FOLDER]

Of each strength it prints the three verdicts with their numbers, then between which strengths each verdict switches.
The questions are those of `doxascope validate --english`, on nouns of the test.
"""

import argparse
import tempfile
from itertools import pairwise
from pathlib import Path

from doxascope.experiments.compare import compare
from doxascope.experiments.synthetic.organisms.cards import shipped_in_english
from doxascope.experiments.synthetic.organisms.lessons import BASE
from doxascope.experiments.synthetic.validation.in_english import read

ASKED = ("readable", "responds", "coherent")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="At which strength of an adapter does each verdict switch?")
    parser.add_argument("organism", nargs="?", default="honest", choices=shipped_in_english())
    parser.add_argument("--triples", type=int, default=20)
    parser.add_argument("--strengths", type=float, nargs="+", default=[0, 0.25, 0.5, 0.75, 1, 1.25, 1.5])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--out", type=Path, help="folder of the runs, which a second call goes on with")
    asked = parser.parse_args()
    out = asked.out or Path(tempfile.mkdtemp())
    out.mkdir(parents=True, exist_ok=True)
    rows = list[tuple[float, tuple[str, ...]]]()
    for strength in asked.strengths:
        adapter = f"model.adapter=[{{place: '{shipped_in_english()[asked.organism]}', weight: {strength}}}]"
        folders = read(out, [BASE], asked.triples, 0, [adapter, f"model.device={asked.device}"], lambda n: None)
        (side,) = compare(folders, alone=True).groups[0].sides
        (verdict,) = side.verdicts
        print(f"{strength:4}  {verdict.sentence}", flush=True)
        rows.append((strength, verdict.states))
    for place, what in enumerate(ASKED):
        for (low, before), (high, after) in pairwise(rows):
            if before[place] != after[place]:
                print(f"{what}: {before[place]} at {low}, {after[place]} at {high}")


if __name__ == "__main__":
    main()
