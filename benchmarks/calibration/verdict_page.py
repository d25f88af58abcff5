"""The page on verdicts, derived from its table: who gets what is expected, and who lies on the edge."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.special import ndtri

from doxascope.metrics import claim_clusters

SIZES = (30, 100, 300, 1000)
MARGIN = 0.05
"""Of consistency on two classes, in bits."""
QUESTIONS = ("readable", "responds", "coherent")
ENOUGH = 0.95
"""Share of the samples in which a verdict should come."""
APART = 2 * float(ndtri(ENOUGH))
"""Standard errors from its threshold at which a test whose error is 5% finds a value in 95% of the samples: nearer ones
lie on the edge, whatever the test."""


DECIDED_BY = {"readable": ("covered", 0.5), "responds": ("net_share", 0.5), "coherent": ("c2", 1 - MARGIN)}
"""Verdict -> the true value that calls for it, and its threshold."""


def on_edge(row: Mapping[str, str], question: str) -> bool:
    """Whether the true value lies so near its threshold that so many triples need not tell; or whether they are fewer
    than any claim of coherence takes.
    """
    name, threshold = DECIDED_BY[question]
    n = int(row["triples"])
    near = abs(float(row[name]) - threshold) * np.sqrt(n) < APART * float(row[f"{name}_sd"])
    return bool(near) or (row[question] == "coherent" and n < claim_clusters(MARGIN))


def triples_needed(row: Mapping[str, str], question: str) -> int:
    """From how many on a test whose error is 5% finds the true value in 95% of the samples."""
    name, threshold = DECIDED_BY[question]
    return int(np.ceil((APART * float(row[f"{name}_sd"]) / (float(row[name]) - threshold)) ** 2))


HEADER = """# Verdicts on known agents

Whether a model can be read, responds and is coherent is said of {seeds} samples of each of {n} simulated agents, by the
functions that judge runs. 36 are the language models of the belief-consistency paper, made of its Tables 1, 5, 6 and 8:
entropies, consistency on two and on three classes, share of the rejected word and verbal error by template, and as many
sampled answers as there (5,000; 50 of models that think). Others eliminate in a part of the triples, a little
everywhere, or not at all: they copy what was named, read places, flatten with the length of the conversation.

```
python -m doxascope.benchmarks.calibration.verdicts --expect   # true values and expected verdicts, of a population
python -m doxascope.benchmarks.calibration.verdicts            # this page and verdicts.csv, from fresh samples
python -m doxascope.benchmarks.calibration.verdicts --missing  # agents without rows, and the page from the table
```

**Net share** is the true share of triples in which the rejected word's share at least halves, less that in which it
rises, in the template and beside the control where it is least; the verdict it calls for was written down first, in
`benchmarks/calibration/verdicts_expected.csv`. A model *responds* above one half. It is *readable* if in more than half
of the readings the words hold at least half of the answer. **c2** is coherent within {margin:g} bit of 1. Order effects
and mention controls are not in the tables: every agent has the same small ones (.3 nat).

Cells say how often the expected verdict came, and in brackets the opposite one; the rest is *not shown*. *On the edge*,
in italics, is whose true value lies within {apart:.1f} standard errors of its threshold at that size: there a normal
test of one part, of 5% error, finds it in less than 95% of the samples. A hundred triples leave a net share a standard
error of up to .1, more where many items turn, so that shares from .2 to .8 can be on the edge. Fewer than {least}
triples cannot show that c2 lies within .05 bit of 1, whoever is asked, since they may have missed those that are off.
All sizes, of which 1,000 with a fourth of the samples, stand in [verdicts.csv](verdicts.csv).

"""


EDGE = """## How many triples it takes

*Does not respond* is said as soon as one part, a template or a control, is shown to fall short: no part has to wait for
the others, and where several fall short it is said more often than below. *Responds* takes more triples, since all
parts have to be shown. The table is that of a normal test of 5% error in the one part where the share is least: of
Qwen3 1.7B, thinking, a triple's rejected word halves in .52 and rises in .23, which leaves a hundred triples 2.65
standard errors from one half, and 84% power. At 154 triples the expected verdict came in .965 of 200 samples of it, and
in .975 of Qwen2.5 0.5B (`tests/benchmarks/test_verdicts.py` draws sixty of them). Of agents that a hundred triples
leave on the edge:

| agent | net share | SD between triples | triples for 95%, by one part |
|---|---:|---:|---:|
"""


def page(rows: Sequence[Mapping[str, str]]) -> str:
    """The page."""
    names = {row["agent"] for row in rows}
    text = HEADER.format(seeds=rows[0]["seeds"], n=len(names), margin=MARGIN, apart=APART, least=claim_clusters(MARGIN))
    text += "## In short\n\n" + "\n".join(_short(rows)) + "\n\n"
    for family in dict.fromkeys(row["family"] for row in rows if row["family"] != "urns"):
        own = {}
        for row in rows:
            if row["family"] == family:
                own.setdefault(row["agent"], {})[row["triples"]] = row
        sizes = [str(n) for n in SIZES[:-1]]
        text += f"## {family[:1].upper()}{family[1:]}\n\n"
        text += f"| agent | net share | expected | {' | '.join(f'at {n}' for n in sizes)} | c2 | coherent at 100 | "
        text += f"readable at 100 |\n|---|---:|---|{'---:|' * len(sizes)}---:|---:|---:|\n"
        for name, by_size in own.items():
            row = by_size["100"]
            cells = [_rate(by_size[n], "responds") for n in sizes]
            text += f"| {name} | {float(row['net_share']):.2f} | {row['responds']} | {' | '.join(cells)} | "
            text += f"{float(row['c2']):.3f} | {row['coherent']}: {_rate(row, 'coherent')} | "
            text += f"{row['readable']}: {_rate(row, 'readable')} |\n"
        text += "\n"
    text += EDGE
    for row in rows:
        if row["triples"] == "100" and row["family"] != "urns" and triples_needed(row, "responds") > 100:
            spread, needed = float(row["net_share_sd"]), triples_needed(row, "responds")
            text += f"| {row['agent']} | {float(row['net_share']):.2f} | {spread:.2f} | {needed} |\n"
    text += "\n## Urns\n\n| reader | expected | share of samples |\n|---|---|---:|\n"
    for row in rows:
        if row["family"] == "urns":
            text += f"| {row['agent'].removeprefix('urns: ')} | {row['responds']} | {_rate(row, 'responds')} |\n"
    return text


def _short(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """At each size: how many agents get what is expected, who does not, and who gets the opposite too often."""
    for n in map(str, SIZES):
        for question in QUESTIONS:
            asked = [row for row in rows if row["triples"] == n and row["family"] != "urns"]
            far = [row for row in asked if not on_edge(row, question)]
            missed = [row for row in far if float(row[f"{question}_as_expected"]) < ENOUGH]
            opposite = [row for row in asked if float(row[f"{question}_opposite"]) > 1 - ENOUGH]
            near = f"; on the edge: {len(asked) - len(far)}" if len(far) < len(asked) else ""
            yield (
                f"- {n} triples, *{question}*: as expected in {ENOUGH:.0%} of the samples for "
                f"{len(far) - len(missed)} of {len(far)} agents{near}. The opposite in more than {1 - ENOUGH:.0%}: "
                f"{_named(opposite, question) or 'none'}." + (f" Missed: {_named(missed, question)}." if missed else "")
            )
    urn = [row for row in rows if row["family"] == "urns"]
    missed = [row for row in urn if float(row["responds_as_expected"]) < ENOUGH and not on_edge(row, "responds")]
    yield f"- Urns, *responds*: missed: {_named(missed, 'responds') or 'none'}."


def _named(rows: Sequence[Mapping[str, str]], question: str) -> str:
    return "; ".join(f"{row['agent'].removeprefix('urns: ')} {_rate(row, question)}" for row in rows)


def _rate(row: Mapping[str, str], question: str) -> str:
    opposite = float(row[f"{question}_opposite"])
    said = f"{float(row[f'{question}_as_expected']):.2f}" + (f" ({opposite:.2f})" if opposite else "")
    return f"*{said}*" if on_edge(row, question) else said
