"""How often simulated models get each verdict: those of five papers, and agents of known response.

`python -m doxascope.benchmarks.calibration.verdicts` writes `docs/verdicts.md` and `docs/verdicts.csv`. What is
expected of each stands in `verdicts_expected.csv`, written by `--expect` from a population of its own, before any
sample is drawn.
"""

import argparse
import csv
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy.special import logit, softmax

from doxascope.benchmarks.agents.updates import Floats
from doxascope.benchmarks.calibration.claims import urn_readings
from doxascope.benchmarks.calibration.other_papers import PaperAgent, paper_agents
from doxascope.benchmarks.calibration.published import (
    CONTROLS,
    NAMES_WORD,
    OTHERS,
    REJECTED,
    TEMPLATE,
    TEMPLATES,
    Read,
    mention_shares,
    model,
    model_names,
)
from doxascope.benchmarks.calibration.verdict_page import MARGIN, QUESTIONS, SIZES, page
from doxascope.metrics import (
    Resampling,
    cluster_mean,
    evidence_responding,
    jsd,
    readable,
    responds,
)
from doxascope.metrics.coherence import coherent
from doxascope.metrics.consistency.competence import least_covered
from doxascope.metrics.number import Number
from doxascope.metrics.registration import Registered

SEEDS = 200
LARGE, FEWER = 1000, 4
"""Of samples so large a fourth of the seeds is drawn: there hardly any verdict is open."""
OF_URNS = 5
"""Of readers of urns so many times the seeds are drawn: they are read in a moment."""
ITEMS, OF_PAPERS, OF_LARGE = 100, 5, 10
"""Of another paper's agents all seeds are drawn at so many items, a fifth at other sizes, a tenth at the largest."""
POPULATION = 20_000
EXPECTED = Path(__file__).with_name("verdicts_expected.csv")
PAGE, TABLE = "verdicts.md", "verdicts.csv"

Sampler = Callable[[int, Generator], Read]


@dataclass(frozen=True)
class Agent:
    """A simulated model."""

    name: str
    family: str
    sample: Sampler


PUBLISHED, PARTLY, IDLE, WHOLE = "published", "eliminates in part", "does not eliminate", "eliminates"
TASTE, WAVER = 0.8, 0.3


def agents() -> list[Agent]:
    """All of them."""
    found = [Agent(name, PUBLISHED, _published(number)) for number, name in enumerate(model_names())]
    made: list[tuple[str, str, Sampler]] = [
        *((f"{name} of the triples, {rest}", PARTLY, _partly(share, waver))
          for name, share in (("a third", 1 / 3), ("half", 1 / 2), ("three quarters", 3 / 4))
          for rest, waver in (("the others waver", WAVER), ("the others stand", 0.0))),
        *((f"weak, {nats:g} nat everywhere", IDLE, _told(loses=nats)) for nats in (0.05, 0.1, 0.2, 0.5)),
        *((f"copier, {nats:g} nat", IDLE, _told(copies=nats, after_control=nats)) for nats in (0.25, 1.0, 2.0)),
        ("copier, 2 nat, half after a hedge", IDLE, _told(copies=2.0, after_control=2.0, hedged=0.5)),
        ("shuns recent words, 2 nat", IDLE, _told(copies=-2.0, after_control=-2.0)),
        ("no update, noise .3 nat", IDLE, _told()),
        ("no update", IDLE, _told(blur=0.0)),
        ("reads the place", IDLE, _told(places=(1.0, 0.3, -0.5))),
        ("reads the length of the words", IDLE, _told(lengths=0.5)),
        ("flattens with length", IDLE, _told(flattens=0.5)),
        ("no leak", WHOLE, _told(loses=np.inf)),
        ("three nats everywhere", WHOLE, _told(loses=3.0)),
        *((f"leaks in {share:.1%} of the triples", WHOLE, _told(loses=np.inf, leaks=share))
          for share in (0.005, 0.02, 0.05)),
        ("leaks .02 in every triple", WHOLE, _told(loses=float(logit(1 / 3) - logit(0.02)))),
    ]  # fmt: skip
    return [*found, *(Agent(name, family, sample) for name, family, sample in made)]


def _published(number: int) -> Sampler:
    return lambda n, rng: model(number).sample(n, rng)


def _told(
    *,
    loses: float = 0.0,
    copies: float = 0.0,
    after_control: float = 0.0,
    hedged: float = 1.0,
    flattens: float = 1.0,
    leaks: float = 0.0,
    blur: float = WAVER,
    places: tuple[float, float, float] | None = None,
    lengths: float = 0.0,
) -> Sampler:
    """An agent with exact beliefs.

    Args:
        loses: nats that a rejected word loses.
        copies: nats that named words gain.
        after_control: the same after a reply that decides nothing.
        hedged: its part after a hedge.
        flattens: what all log-odds are multiplied by after a turn.
        leaks: share of the triples in which nothing is lost.
        blur: SD of the noise of each word after a turn, in nats.
        places: log-odds of the places in the list; None: words have a taste of their own.
        lengths: nats that each letter of a word takes from it, of three to nine; then there is no other taste.
    """

    def sample(n: int, rng: Generator) -> Read:
        level: Floats = TASTE * rng.standard_normal((n, 3)) if places is None else np.tile(places, (n, 1))
        if lengths:
            level = np.asarray(-lengths * rng.integers(3, 10, (n, 3)), dtype=np.float64)
        gone = np.eye(3)[REJECTED]
        keeps = (rng.random(n) < leaks)[:, None, None]
        later = flattens * level[:, None] + copies * NAMES_WORD + blur * rng.standard_normal((n, 9, 3))
        with np.errstate(invalid="ignore"):
            lost = np.where(gone > 0, loses, 0.0)
        post = softmax(np.where(keeps, later, later - lost), axis=2)
        mentioned = mention_shares(flattens * level, rng, after_control)
        if hedged != 1:
            mentioned[..., 0] = mention_shares(flattens * level, rng, hedged * after_control)[..., 0]
        return Read(softmax(level, axis=1), post, mentioned, np.ones(n), np.ones((n, 9)))

    return sample


def _partly(share: float, waver: float) -> Sampler:
    whole, none = _told(loses=5.0, blur=0.0), _told(blur=waver)

    def sample(n: int, rng: Generator) -> Read:
        seed = int(rng.integers(2**31))
        first, second = (one(n, np.random.default_rng(seed)) for one in (whole, none))
        gives = (rng.random(n) < share)[:, None, None]
        return Read(first.prior, np.where(gives, first.post, second.post), first.mentioned, first.before, first.after)

    return sample


# The verdicts on one sample, by the functions that judge runs.


def verdicts_of(read: Read, kept: Floats, n: int) -> tuple[str, str, str]:
    """Of the first n triples; `kept` [all, 9] is consistency on two classes."""
    triple, template = np.repeat(np.arange(n), 9), np.tile(TEMPLATE, n)
    before, after = read.prior[:n][:, REJECTED], np.take_along_axis(read.post[:n], REJECTED[None, :, None], axis=2)
    least = least_covered(read.after[:n].ravel(), template)
    can = readable(
        coverage={"before": read.before[:n], "after": read.after[:n].ravel()[least]},
        read_groups={"after": triple[least]},
    )
    does = responds(
        template=template,
        prior_rejected=before.ravel(),
        post_rejected=after.ravel(),
        mentioned={name: read.mentioned[:n, :, i].ravel() for i, name in enumerate(CONTROLS)},
        groups=triple,
    )
    score = cluster_mean(kept[:n].ravel(), triple, within=(0.0, 1.0), how=Resampling(draws=1))
    plan = Registered(metric="c2", method="", coherent=1, margin=MARGIN, n=n)
    number = Number(metric="c2", method="", score=score)
    return can.state, does.state, coherent(number, 1, MARGIN, plan.equivalence(number)).state


def consistency(read: Read) -> Floats:
    """[n, 9] on two classes; NaN where a ratio is undefined."""
    n = len(read.prior)
    p = np.take_along_axis(np.broadcast_to(read.prior[:, None], (n, 9, 3)), OTHERS[None], axis=2)
    q = np.take_along_axis(read.post, OTHERS[None], axis=2)
    totals = [x.sum(axis=2, keepdims=True) for x in (p, q)]
    p, q = (x / np.where(total > 0, total, np.nan) for x, total in zip((p, q), totals, strict=True))
    there = np.isfinite(p).all(axis=2) & np.isfinite(q).all(axis=2)
    found = np.full(there.shape, np.nan)
    found[there] = 1 - jsd(p[there], q[there])
    return found


def expected(agent: Agent) -> dict[str, str]:
    """The true values of a population, read as samples of it are, and the verdicts that they call for."""
    read = agent.sample(POPULATION, np.random.default_rng([1, zlib.crc32(agent.name.encode())]))
    gone = np.take_along_axis(read.post, REJECTED[None, :, None], axis=2)[..., 0]
    net: list[tuple[float, float]] = []
    for name in TEMPLATES:
        at = name == TEMPLATE
        for first in (read.prior[:, REJECTED][..., None], *np.split(read.mentioned, len(CONTROLS), axis=2)):
            known = np.isfinite(gone[:, at]) & np.isfinite(first[:, at, 0])
            after, before = (np.where(known, x, 0) for x in (gone[:, at], first[:, at, 0]))
            given_up = (before * ((after <= before / 2) * 1.0 - (after > before + 1e-12))).sum(axis=1)
            last, whole = after.sum(axis=1), before.sum(axis=1)
            had = whole > 1e-12
            side = (((last <= whole / 2) & (given_up > whole / 2)) * 1.0 - (last > whole + 1e-12))[had]
            net.append((float(side.mean()), float(side.std())))
    of_template = [(read.after[:, name == TEMPLATE] >= 0.5).mean(axis=1) for name in TEMPLATES]
    covered = [(float(x.mean()), float(x.std())) for x in (read.before >= 0.5, *of_template)]
    each = consistency(read)
    known = np.isfinite(each)
    kept = float(each[known].mean())
    off = np.where(known, each - kept, 0).sum(axis=1) / known.sum(axis=1).mean()
    return {
        "agent": agent.name,
        "family": agent.family,
        "net_share": f"{min(net)[0]:.4f}",
        "net_share_sd": f"{min(net)[1]:.4f}",
        "covered": f"{min(covered)[0]:.4f}",
        "covered_sd": f"{min(covered)[1]:.4f}",
        "c2": f"{kept:.4f}",
        "c2_sd": f"{off.std():.4f}",
        "readable": "readable" if min(covered)[0] >= 0.5 else "unreadable",
        "responds": "responds" if min(net)[0] > 0.5 else "does not respond",
        "coherent": "coherent" if 1 - kept < MARGIN else "incoherent",
    }


def rows_of(agent: Agent, told: Mapping[str, str], seeds: int) -> Iterator[dict[str, str]]:
    """A row for each size: the share of the seeds with each verdict."""
    counts = {(n, q): [] for n in SIZES for q in QUESTIONS}
    for seed in range(seeds):
        sizes = [n for n in SIZES if n < LARGE or seed % FEWER == 0]
        read = agent.sample(sizes[-1], np.random.default_rng([zlib.crc32(agent.name.encode()), seed]))
        kept = consistency(read)
        for n in sizes:
            for question, state in zip(QUESTIONS, verdicts_of(read, kept, n), strict=True):
                counts[n, question].append(state)
    for n in SIZES:
        row = {**told, "triples": str(n), "seeds": str(len(counts[n, QUESTIONS[0]]))}
        for question in QUESTIONS:
            row |= _shares(question, counts[n, question], told[question])
        yield row


def paper_rows(agent: PaperAgent, told: Mapping[str, str], seeds: int) -> Iterator[dict[str, str]]:
    """The same of an agent of another paper, of which one number is judged; every size has samples of its own."""
    key = zlib.crc32(agent.name.encode())
    for n in SIZES:
        step = 1 if n == ITEMS else OF_LARGE if n >= LARGE else OF_PAPERS
        states = [agent.judged(n, np.random.default_rng([key, n, seed]))[1] for seed in range(0, seeds, step)]
        yield {**told, "triples": str(n), "seeds": str(len(states))} | _shares("coherent", states, told["coherent"])


def _shares(question: str, states: Sequence[str], wanted: str) -> dict[str, str]:
    """How often the expected verdict came, none, and the opposite one."""
    as_expected = states.count(wanted)
    open_ = sum(one in ("not shown", "not tested") and one != wanted for one in states)
    named = {"as_expected": as_expected, "not_shown": open_, "opposite": len(states) - as_expected - open_}
    return {f"{question}_{name}": f"{count / len(states):.3f}" for name, count in named.items()}


# Readers of urns, whose every reading has noise.

URN_READERS = tuple(
    (f"urns: {what}, noise {noise:g} nat, {n} urns of {draws} draws", n, draws, noise, turned, slope)
    for n, draws, noise in ((20, 6, 0.6), (40, 8, 1.0))
    for what, turned, slope in (("honest", 0.0, 1.0), ("a fifth turned round", 0.2, 1.0), ("no update", 0.0, 0.0))
)


def urn_rows(seeds: int) -> Iterator[dict[str, str]]:
    """The same of readers of urns."""
    for name, n, draws, noise, turned, slope in URN_READERS:
        net = slope * (1 - 2 * turned)
        states, told = [], []
        for seed in range(seeds):
            rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
            found = evidence_responding(*urn_readings(rng, n, draws, noise, turned, slope))
            told.append((found.n_clusters, found.follow, found.turn))
            states.append(responds(responding=found).state)
        can, follow, turn = np.mean(told, axis=0)
        sd = np.sqrt(((follow + turn) / can - ((follow - turn) / can) ** 2) * n / can)
        want = {1.0: "responds", 0.0: "does not respond"}.get(net, "not shown")
        row = {
            "agent": name,
            "family": "urns",
            "net_share": f"{net:.4f}",
            "net_share_sd": f"{sd:.4f}",
            "responds": want,
        }
        yield row | {"triples": str(n), "seeds": str(seeds)} | _shares("responds", states, want)


def _write(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    fields = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, fields, restval="", lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table that was written; none if there is none."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="verdicts", description="Verdicts on simulated models.")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument(
        "--only", default="", help="agents whose name or family begins with this; others keep their rows"
    )
    parser.add_argument("--expect", action="store_true", help="write what is expected of each, and no sample")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument(
        "--seconds", type=float, default=np.inf, help="stop before a further agent; go on by `--missing`"
    )
    parser.add_argument("--missing", action="store_true", help="only the agents that have no rows yet")
    asked = parser.parse_args(arguments)
    began, known, papers = time.monotonic(), agents(), paper_agents()
    if asked.expect:
        _write(EXPECTED, [*(expected(agent) for agent in known), *(agent.expected() for agent in papers)])
        return
    told = {row["agent"]: row for row in read_table(EXPECTED)}
    old = read_table(asked.out / TABLE)
    done = {row["agent"] for row in old} if asked.missing else set()
    made: list[dict[str, str]] = []
    for agent in (*known, *papers):
        names = (agent.name, agent.family)
        if not any(name.startswith(asked.only) for name in names) or agent.name in done:
            continue
        if time.monotonic() - began < asked.seconds:
            own = told[agent.name]
            if isinstance(agent, PaperAgent):
                made += paper_rows(agent, own, asked.seeds)
            else:
                made += rows_of(agent, own, asked.seeds)
    if "urns".startswith(asked.only) and not {name for name, *_ in URN_READERS} <= done:
        made += urn_rows(OF_URNS * asked.seeds)
    if not made and not old:
        parser.error(f"--only: no agent begins with {asked.only!r}")
    new = {row["agent"] for row in made}
    order = {name: i for i, name in enumerate([*told, *(row[0] for row in URN_READERS)])}
    rows = sorted([*made, *(row for row in old if row["agent"] not in new)], key=lambda row: order[row["agent"]])
    asked.out.mkdir(parents=True, exist_ok=True)
    _write(asked.out / TABLE, rows)
    (asked.out / PAGE).write_text(page(rows), encoding="utf-8")
    print(f"{len(new)} agents in {time.monotonic() - began:.0f} s: {asked.out / PAGE}")


if __name__ == "__main__":
    main()
