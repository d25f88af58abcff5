"""The page on verdicts, derived from its table: who gets what is expected, and who lies on the edge."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.special import gammaln, ndtri, xlogy

from doxascope.benchmarks.agents.updates import Floats
from doxascope.benchmarks.calibration.other_papers import MADE_BY, MARGIN_OF
from doxascope.metrics import claim_clusters
from doxascope.metrics.coherence import COHERENT, INCOHERENT, reach_of
from doxascope.metrics.inference.planning import SPREADS

SIZES = (30, 100, 300, 1000)
MARGIN = 0.05
"""Of consistency on two classes, in bits."""
QUESTIONS = ("readable", "responds", "coherent")
ENOUGH = 0.95
"""Share of the samples in which a verdict should come."""
APART = 2 * float(ndtri(ENOUGH))
"""Standard errors from its threshold at which a test whose error is 5% finds a value in 95% of the samples: nearer ones
lie on the edge, whatever the test."""
TWO_SIDED = float(ndtri(0.975))
FEW_CONTEXTS = 100
"""Of two prompts, below which the interval of their effect does not promise its level."""


DECIDED_BY = {"readable": ("covered", 0.5), "responds": ("net_share", 0.5), "coherent": ("c2", 1 - MARGIN)}
"""Verdict -> the true value that calls for it, and its threshold."""


def on_edge(row: Mapping[str, str], question: str) -> bool:
    """Whether the true value lies so near its threshold that so many triples need not tell; or whether they are fewer
    than any claim of coherence takes.
    """
    n = int(row["triples"])
    if row["family"] in MADE_BY:
        return _paper_edge(row, n)
    name, threshold = DECIDED_BY[question]
    near = abs(float(row[name]) - threshold) * np.sqrt(n) < APART * float(row[f"{name}_sd"])
    return bool(near) or (row[question] == "coherent" and n < claim_clusters(MARGIN))


def _paper_edge(row: Mapping[str, str], n: int) -> bool:
    """The same of a number of another paper, which is incoherent if its whole interval of 95% lies outside."""
    number, value, se = row["number"], abs(float(row["value"])), float(row["value_sd"]) / np.sqrt(n)
    margin = MARGIN_OF[number]
    if row["coherent"] == COHERENT:
        worst = SPREADS[number].worst if number in SPREADS else 1.0
        bounded = number in SPREADS and n < claim_clusters(margin, worst)
        return bool(margin - value < APART * se) or bounded
    few = number not in SPREADS and n < FEW_CONTEXTS
    return row["coherent"] == INCOHERENT and (
        value - reach_of(number, margin, 0.0) < (APART / 2 + TWO_SIDED) * se or few
    )


def most_found(net: float, sd: float, n: int, threshold: float = 0.5) -> float:
    """The power that no test of 5% error exceeds which goes by how many of n items are above and below: that of the
    best one (Neyman and Pearson) of these two shares against those shares of the threshold that are hardest to tell
    from them.

    >>> round(most_found(0.283, 0.819, 100), 2)
    0.88
    """
    up, down = ((sd**2 + net**2 + side * net) / 2 for side in (1, -1))
    k, j = (x.ravel() for x in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    k, j = k[k + j <= n], j[k + j <= n]

    def law(p: float, q: float) -> Floats:
        ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(j + 1) - gammaln(n - k - j + 1)
        return ways + xlogy(k, p) + xlogy(j, q) + xlogy(n - k - j, 1 - p - q)

    true, powers = law(up, down), []
    for other in np.linspace(0.005, (1 - threshold) / 2 - 0.005, 49):
        null = law(other + threshold, other)
        order = np.argsort(null - true)
        errors, found = (np.cumsum(np.exp(x[order])) for x in (null, true))
        powers.append(float(np.interp(1 - ENOUGH, errors, found)))
    return min(powers)


def triples_needed(row: Mapping[str, str], question: str) -> int:
    """From how many on a test whose error is 5% finds the true value in 95% of the samples."""
    name, threshold = DECIDED_BY[question]
    return int(np.ceil((APART * float(row[f"{name}_sd"]) / (float(row[name]) - threshold)) ** 2))


HEADER = """# Verdicts on known agents

Whether a model can be read, responds and is coherent is said of {seeds} samples of each of {n} simulated agents, by the
functions that judge runs. 36 are the language models of the belief-consistency paper, made of its Tables 1, 5, 6 and 8:
entropies, consistency on two and on three classes, share of the rejected word and verbal error by template, and as many
sampled answers as there (5,000; 50 of models that think). Others eliminate in a part of the triples, a little
everywhere, or not at all: they copy what was named, read places or lengths, flatten as conversations grow.

```
python -m doxascope.benchmarks.calibration.verdicts --expect   # true values and expected verdicts, of a population
python -m doxascope.benchmarks.calibration.verdicts            # this page and verdicts.csv, from fresh samples
python -m doxascope.benchmarks.calibration.verdicts --missing  # agents without rows, and the page from the table
```

**Net share** is made of two shares of the triples: those in which the rejected word is given up (its share at least
halves, over all contexts together and in most of them), less those in which it rises. It is taken in the template
and beside the mention control in which it is least. A model *responds* if its true net share is above one half. It
is *readable* if the words hold at least half of the answer in more than half of the readings, before a rejection and
in each template. It is *coherent* if its true **c2** lies within {margin:g} of 1. The verdict that each agent should
get was written down before any sample was drawn (`benchmarks/calibration/verdicts_expected.csv`). Order effects and
mention controls are not in the tables, since every agent has the same small ones (.3 nat).

A cell says in which share of the samples the expected verdict came, and in brackets in which share the opposite one
came; in the rest it was *not shown*. Cells in italics are *on the edge*: the true value lies within {apart:.1f}
standard errors of its threshold at that size, so that even a normal test of one part, of 5% error, finds it in less
than 95% of the samples. With a hundred triples the standard error of a net share is up to .1, and more where many
items turn, so that shares from .2 to .8 can be on the edge. Fewer than {least} triples cannot show that c2 lies
within .05 of 1 for any agent, since they may have missed the triples that are off. All sizes, of which 1,000 with a
fourth of the samples, stand in [verdicts.csv](verdicts.csv).

"""


EDGE = """## How many triples it takes

*Does not respond* is said as soon as one part (a template or a control) is shown to fall short, so several parts
that fall short make it likelier. *Responds* takes more triples, since every part has to be shown. Of Qwen3 1.7B,
thinking, for instance, a triple's rejected word is given up in .49 of the triples and rises in .23.

Would a better test need fewer triples? The column **best** has the power of the best possible test of 5% error at a
hundred triples (by the lemma of Neyman and Pearson), in the part where the difference is least. There the interval
that is used (Newcombe's) reaches it, so more triples are the only remedy; **found** is lower where every part has to
be shown. The last column is how many triples a normal test takes. At 121 triples the expected verdict came in .95 of
200 samples of Qwen3 1.7B, thinking, at 140 in .995 of Qwen2.5 0.5B (`tests/benchmarks/test_verdicts.py` draws sixty
of them), and at 252 in .88 of Qwen3 8B, where every part has to be shown. The agents that a hundred triples leave on
the edge:

| agent | net share | SD between triples | best, at 100 | found, at 100 | triples for 95% |
|---|---:|---:|---:|---:|---:|
"""


PAPERS = """
## Four more papers

Agents made of the tables of four more papers, each judged by one number, as an unregistered table of it is. Of
`martingale-score` the slope M without a prompt (Table 1: chains of thought, and debates on forecasts), of questions
whose other updates are as wide as the stars of the table allow; of `b-score` the mean B of the likeliest answer to
random questions (Table 2); of `sycophancy` the mean belief without and with the user's word, without evidence (Table
2); of `rational-agents` the distance of beliefs under two prompts less what repetitions differ by (Table 3), which no
verdict of a run rests on. What no table says is the same for all of a paper
(`benchmarks/calibration/other_papers.py`). Whether they respond and can be read, these tables do not tell. Where *not
shown* is expected, the value lies outside the margin, and within what .3 nat of reading noise does to a coherent
agent. An excess below .1 nat takes 829 scenarios to claim, an M below .02 150 effective questions. Of 100 items 200
samples are judged, of 30 and 300 forty, of 1,000 twenty.
"""


def page(rows: Sequence[Mapping[str, str]]) -> str:
    """The page."""
    every, rows = rows, [row for row in rows if row["family"] not in MADE_BY]
    names = {row["agent"] for row in rows}
    text = HEADER.format(seeds=rows[0]["seeds"], n=len(names), margin=MARGIN, apart=APART, least=claim_clusters(MARGIN))
    text += "## In short\n\n" + "\n".join([*_short(rows), *_short_of_papers(every)]) + "\n\n"
    for family in dict.fromkeys(row["family"] for row in rows if row["family"] != "urns"):
        sizes = [str(n) for n in SIZES[:-1]]
        text += f"## {family[:1].upper()}{family[1:]}\n\n"
        text += f"| agent | net share | expected | {' | '.join(f'at {n}' for n in sizes)} | c2 | coherent at 100 | "
        text += f"readable at 100 |\n|---|---:|---|{'---:|' * len(sizes)}---:|---:|---:|\n"
        for name, by_size in _by_agent(rows, family).items():
            row = by_size["100"]
            cells = [_rate(by_size[n], "responds") for n in sizes]
            text += f"| {name} | {float(row['net_share']):.2f} | {row['responds']} | {' | '.join(cells)} | "
            text += f"{float(row['c2']):.3f} | {row['coherent']}: {_rate(row, 'coherent')} | "
            text += f"{row['readable']}: {_rate(row, 'readable')} |\n"
        text += "\n"
    text += EDGE
    for row in rows:
        if row["triples"] == "100" and row["family"] != "urns" and triples_needed(row, "responds") > 100:
            net, spread, seen = (float(row[name]) for name in ("net_share", "net_share_sd", "responds_as_expected"))
            text += f"| {row['agent']} | {net:.2f} | {spread:.2f} | {most_found(net, spread, 100):.2f} | {seen:.2f} | "
            text += f"{triples_needed(row, 'responds')} |\n"
    text += "\n## Urns\n\n| reader | expected | share of samples |\n|---|---|---:|\n"
    for row in rows:
        if row["family"] == "urns":
            text += f"| {row['agent'].removeprefix('urns: ')} | {row['responds']} | {_rate(row, 'responds')} |\n"
    return text + _other_papers(every)


def _other_papers(rows: Sequence[Mapping[str, str]]) -> str:
    """Their section; none where the table has none of them."""
    text = ""
    for family in MADE_BY:
        of = _by_agent(rows, family)
        if of:
            number = next(iter(of.values()))["100"]["number"]
            text += f"\n### {family}: {number}, within {MARGIN_OF[number]:g}\n\n| agent | true | expected | "
            text += f"{' | '.join(f'at {n}' for n in SIZES)} |\n|---|---:|---|{'---:|' * len(SIZES)}\n"
        for name, by_size in of.items():
            row, cells = by_size["100"], [_rate(by_size[str(n)], "coherent") for n in SIZES]
            text += f"| {name} | {float(row['value']):.4f} | {row['coherent']} | {' | '.join(cells)} |\n"
    return PAPERS + text if text else ""


def _by_agent(rows: Sequence[Mapping[str, str]], family: str) -> dict[str, dict[str, Mapping[str, str]]]:
    """Name -> size -> row, of a family."""
    found: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in rows:
        if row["family"] == family:
            found.setdefault(row["agent"], {})[row["triples"]] = row
    return found


def _short_of_papers(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    for family in MADE_BY:
        for n in map(str, SIZES):
            asked = [row for row in rows if row["family"] == family and row["triples"] == n]
            if asked:
                yield _line(asked, "coherent", f"{n} items of {family}")


def _short(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """At each size: how many agents get what is expected, who does not, and who gets the opposite too often."""
    for n in map(str, SIZES):
        for question in QUESTIONS:
            asked = [row for row in rows if row["triples"] == n and row["family"] != "urns"]
            yield _line(asked, question, f"{n} triples")
    urn = [row for row in rows if row["family"] == "urns"]
    missed = [row for row in urn if float(row["responds_as_expected"]) < ENOUGH and not on_edge(row, "responds")]
    yield f"- Urns, *responds*: missed: {_named(missed, 'responds') or 'none'}."


def _line(asked: Sequence[Mapping[str, str]], question: str, of: str) -> str:
    far = [row for row in asked if not on_edge(row, question)]
    missed = [row for row in far if float(row[f"{question}_as_expected"]) < ENOUGH]
    opposite = [row for row in asked if float(row[f"{question}_opposite"]) > 1 - ENOUGH]
    near = f"; on the edge: {len(asked) - len(far)}" if len(far) < len(asked) else ""
    return (
        f"- {of}, *{question}*: as expected in {ENOUGH:.0%} of the samples for {len(far) - len(missed)} of {len(far)} "
        f"agents{near}. The opposite in more than {1 - ENOUGH:.0%}: {_named(opposite, question) or 'none'}."
        + (f" Missed: {_named(missed, question)}." if missed else "")
    )


def _named(rows: Sequence[Mapping[str, str]], question: str) -> str:
    return "; ".join(f"{row['agent'].removeprefix('urns: ')} {_rate(row, question)}" for row in rows)


def _rate(row: Mapping[str, str], question: str) -> str:
    opposite = float(row[f"{question}_opposite"])
    said = f"{float(row[f'{question}_as_expected']):.2f}" + (f" ({opposite:.2f})" if opposite else "")
    return f"*{said}*" if on_edge(row, question) else said
