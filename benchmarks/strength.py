"""From an absent belief to a planted one: an organism in English whose adapter is applied at some strengths.

python benchmarks/strength.py [honest] [--triples 20] [--strengths 0 .25 .5 .75 1 1.25 1.5] [--device cuda]
                                        [--out FOLDER]

Of each strength it prints the three verdicts with their numbers, then between which strengths each verdict switches; a
figure and a table of its numbers go into the folder. The questions are those of `doxascope validate --english`,
on nouns of the test.
"""

import argparse
import json
import tempfile
from itertools import pairwise
from pathlib import Path

from doxascope.experiments.compare import compare
from doxascope.experiments.report.figures import Panel, chart
from doxascope.experiments.report.findings import Figure
from doxascope.experiments.report.marks import Axis, line, points, ranges
from doxascope.experiments.synthetic.organisms.cards import shipped_in_english
from doxascope.experiments.synthetic.organisms.lessons import BASE
from doxascope.experiments.synthetic.validation.in_english import METHOD, read

ASKED = ("readable", "responds", "coherent")
SHOWN = {"coverage_posterior": "coverage", "p_invalid_norm": "word ruled out", "c2": "c2"}


def figure(organism: str, runs: dict[float, Path]) -> Figure:
    """The numbers of each run over its strength, with their intervals."""
    scores = {strength: json.loads((folder / "scores.json").read_text())["scores"] for strength, folder in runs.items()}
    panels = []
    for metric, name in SHOWN.items():
        wanted = (metric, METHOD, "exact", "all")
        at = [
            (strength, score["estimate"], score["ci_lo"], score["ci_hi"])
            for strength, every in scores.items()
            for score in every
            if (score["metric"], score["method"], score["kind"], score["subset"]) == wanted
        ]
        x, y, lo, hi = zip(*at, strict=True)
        low, high = {"coverage_posterior": (0, 1), "p_invalid_norm": (0, 0.4), "c2": (0.9, 1)}[metric]
        axis = Axis("", (min(low, *lo), max(high, *hi)), most=3)
        panels.append(Panel(name, [ranges(x, lo, hi), line(x, y), points(x, y)], y=axis))
    caption = (
        f"The word game with the adapter `{organism}` at so many times its strength, 0 being the chat model as it is. "
        "After a word is ruled out: what the three words hold of the answer, the share of the one that is ruled out "
        "among them, and c2, with intervals over triples."
    )
    return chart("Strength of an adapter", panels, caption, x=Axis("strength"), columns=3)


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
    verdicts, runs = dict[float, tuple[str, ...]](), dict[float, Path]()
    for strength in asked.strengths:
        adapter = f"model.adapter=[{{place: '{shipped_in_english()[asked.organism]}', weight: {strength}}}]"
        (folder,) = read(out, [BASE], asked.triples, 0, [adapter, f"model.device={asked.device}"], lambda n: None)
        (side,) = compare(folder, alone=True).groups[0].sides
        (verdict,) = side.verdicts
        print(f"{strength:4}  {verdict.sentence}", flush=True)
        verdicts[strength], runs[strength] = verdict.states, folder
    runs = dict(sorted(runs.items()))
    for place, what in enumerate(ASKED):
        for low, high in pairwise(runs):
            if verdicts[low][place] != verdicts[high][place]:
                print(f"{what}: {verdicts[low][place]} at {low}, {verdicts[high][place]} at {high}")
    drawn = figure(asked.organism, runs)
    for ending in ("svg", "csv"):
        drawn.save(out / f"strength.{ending}")
    print(f"figure and table: {out / 'strength.svg'}")


if __name__ == "__main__":
    main()
