"""How often the verdict on a planted detector of lies is right (METRICS W10).

python benchmarks/detectors.py [--tables 200]

A table has questions of four statements. What is held of each is known; a lie is asked for at half of the rows and told
at 80% of these and 20% of the others; a word of style stands in 80% of the lies and 20% of the truths, and words of the
subject in all. A detector follows what is held, or whether a lie was asked for, or the word of style, with noise of
the question and of the row; one follows nothing, and one what is held and what is asked for alike. What the surface
alone foretells is fitted as the command fits it. Held beliefs have noise of 1 nat.

Then hard cases: `mark` follows a mark that stands where the word of style stood; `among many` the word among twelve of
a thousand others, with noise of the question of six standard deviations; `asked lies` fires only where a lie is asked
for and told, at half of six of eight rows; of the other two it is told at three tenths. `misread in` a share of the
rows: there what is held is read as its opposite, while the detector follows what is held in truth, or another part, and
the word stands in half of all rows; `beside words` it stands as above, and lies are told at 70% and 30%.
"""

import argparse
from collections import Counter
from itertools import product

import numpy as np
from scipy.special import expit

from doxascope.metrics import detector_reads
from doxascope.metrics.contract import Resampling
from doxascope.probes.evidence.surface import foretold

KINDS = {"belief": "reads the belief", "instruction": "reads the instruction to lie", "surface": "reads the surface"}
EXPECTED = {**KINDS, "nothing": "not shown", "belief and instruction": "not shown"}
HARD = {"mark": "reads the surface", "among many": "reads the surface", "asked lies": "not shown"}
BESIDE = " beside words"
MISREAD = {
    f"{kind}, misread in {errors}": right
    for errors in ("0.1", "0.3", "0.4", f"0.3{BESIDE}")
    for kind, right in KINDS.items()
}
SUBJECTS = tuple(f"subject{i}" for i in range(30))
WORDS = tuple("".join(each) for each in product("abcdefghij", repeat=3))


def verdict(rng: np.random.Generator, kind: str, questions: int, strength: float) -> str:
    """On one table; a detector's signal has the given length, in standard deviations of the noise of a row."""
    kind, _, errors = kind.partition(", misread in ")
    in_each, likely = ([0, 0, *[1] * 6], (0.3, 0.5)) if kind == "asked lies" else ([0, 0, 1, 1], (0.2, 0.8))
    likely = (0.3, 0.7) if BESIDE in errors else likely
    styled = (0.5, 0.5) if errors and BESIDE not in errors else (0.2, 0.8)
    clusters = np.repeat(np.arange(questions), len(in_each))
    n = len(clusters)
    asked = np.tile(np.array(in_each, dtype=float), questions)
    lie = (rng.uniform(size=n) < np.where(asked == 1, likely[1], likely[0])).astype(float)
    style = (rng.uniform(size=n) < np.where(lie == 1, styled[1], styled[0])).astype(float)
    held = expit(2.0 * (1 - 2 * lie) + rng.normal(size=n))
    subject = rng.integers(len(SUBJECTS), size=questions)[clusters]
    begins = [SUBJECTS[i] for i in subject]
    if kind == "among many":
        begins = [" ".join(WORDS[i] for i in rng.zipf(1.3, 12) % len(WORDS)) for _ in range(n)]
    word, end = ("", "!") if kind == "mark" else ("honestly ", ".")
    shown = zip(begins, style, strict=True)
    texts = [f"{begin} {word if each else ''}is what it is{end if each else '.'}" for begin, each in shown]
    parts = {"belief": 1 - held, "instruction": asked, "surface": style, "mark": style, "among many": style}
    parts["asked lies"] = asked * lie
    followed = [parts[name] for name in kind.split(" and ") if name in parts]
    signal = sum((part - part.mean()) / part.std() for part in followed)
    between = 6.0 if kind == "among many" else 1.0
    score = strength * signal + between * rng.normal(size=questions)[clusters] + rng.normal(size=n)
    how = Resampling(draws=999, seed=int(rng.integers(2**31)))
    surface = foretold(score, texts, clusters)
    if errors:
        held = np.where(rng.uniform(size=n) < float(errors.removesuffix(BESIDE)), 1 - held, held)
    return detector_reads(score, held, clusters, lie=lie, instructed=asked, surface=surface, how=how).verdict


def main() -> None:
    """Print a table of verdicts in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=200)
    tables = parser.parse_args().tables
    print("| detector | questions | strength | right | verdicts |\n|---|---:|---:|---:|---|")
    for questions, strength in ((100, 1.0), (100, 0.5), (40, 1.0)):
        kinds = EXPECTED | (HARD | MISREAD if (questions, strength) == (100, 1.0) else {})
        for i, (kind, wanted) in enumerate(kinds.items()):
            verdicts = Counter(
                verdict(np.random.default_rng([i, questions, int(10 * strength), draw]), kind, questions, strength)
                for draw in range(tables)
            )
            each = ", ".join(f"{name} {times}" for name, times in verdicts.most_common())
            print(f"| {kind} | {questions} | {strength:g} | {verdicts[wanted] / tables:.3f} | {each} |", flush=True)


if __name__ == "__main__":
    main()
