"""What a model says, computes and holds, side by side: the numbers that several kinds of belief have under the same
names, what the stated probabilities of all options sum to, and where said and held are furthest apart.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ....hooks.store import ActivationStore
from ....hooks.store.reader import FOLDER
from ....hooks.verbal.number_formats import RANKING
from ....metrics import UNIT, cluster_mean
from ....metrics.beliefs import condition_columns, condition_keys, read_exactly
from ....metrics.claims import barred, verdicts
from ....metrics.coherence import COHERENCE, UPPER_BOUNDS
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ....probes.dataset import READ_BY, READINGS
from ....probes.features import OF_OPTION
from ....probes.probe import Probe
from ...report.cells import NONE, score_cell, scored_table
from ...report.document import Block, Cell, Instances, Prose, TableBlock
from ...report.figures import forest
from ...report.findings import Figure, Gallery, Instance
from ..readouts import MIXED, SAMPLED
from ..scores import ScoredRun, resampling
from ..stated_beliefs import AMONG

WORDS = {
    "verbal": "says",
    "judge": "is said to hold",
    "exact": "computes",
    "lens": "holds inside",
    "probe": "holds",
    "acted": "acts on",
}
"""Kind of belief -> what the model does with it, in the order in which a table has them."""
NAMED = "/"
"""Before the name of a probe, after that of the method whose exact beliefs it is of."""
FROM_COMPUTED = "said_from_computed"
APART = {
    FROM_COMPUTED: "distance of what it says from what it computes",
    "said_from_held": "distance of what it says from what it holds",
}
"""Distances of what is said from the other kinds, in words."""
EXCESS, SUM = "stated_excess", "options_excess"
MOST = 6
"""Numbers that a table shows beside the headline."""
BOUNDS = ("_lower", "_upper")
"""What the bounds of a number are called after it."""
NUMBERS = "numbers"
"""How a stated belief is read exactly."""
AXIS = 46
"""Most letters of what a figure's axis is called."""
SHOWN = 40
"""Items of the gallery of disagreements."""
DISAGREEMENT = "disagreement.csv"
PROBES_FOLDER = "probes"
"""In a run: what probes read there,"""
KEPT = f"{PROBES_FOLDER}/kept"
"""and the probes themselves, of `kinds: all`."""
HOW = (*READ_BY, *READINGS, *MIXED)
"""Conditions that say how, not where, a belief is read."""


def said_numbers(run: ScoredRun, every: pd.DataFrame, probed: Sequence[pd.DataFrame] = ()) -> Iterator[Number]:
    """What is said, beside the other kinds: what it sums to, and how far it lies from what is computed and held."""
    yield from _excess_numbers(run)
    yield from _sums_of_options(run, probed)
    yield from _apart_numbers(run, every)


def _excess_numbers(run: ScoredRun) -> Iterator[Number]:
    """P(all options) - 1, as it was stated, of each method; a ranking states no sum."""
    if "stated" not in run.every:
        return
    rows = run.every[run.every["stated"].notna() & ~run.every["method"].astype(str).str.startswith(f"{RANKING.name} ")]
    for method, of_method in rows.groupby("method", sort=False, observed=True):
        each = of_method.groupby("readout_id", sort=False, observed=True).agg({"stated": "sum", "cluster": "first"})
        score = cluster_mean(each["stated"].to_numpy() - 1, each["cluster"].to_numpy(), how=resampling(run.config))
        quantity = "stated P of all options, summed, minus 1"
        yield Number(metric=EXCESS, method=str(method), kind="verbal", score=score, quantity=quantity, code="F1")


def _sums_of_options(run: ScoredRun, probed: Sequence[pd.DataFrame]) -> Iterator[Number]:
    """P(all options) - 1 of each kind and method, of questions `among` whose options each has a question of its own."""
    if AMONG not in run.every or run.folder.missing:  # options that are still to be read would be left out of a sum
        return
    parts = [each[each[AMONG].notna() & (each["option_index"] == 0)] for each in (run.every, *probed) if AMONG in each]
    rows = pd.concat(parts, ignore_index=True)
    rows = rows[rows["kind"] != "lens"]
    read = rows[["kind", "method", "scenario", "step", "item", "cluster"]].astype(str).assign(prob=rows["prob"])
    by = ["kind", "method", "scenario", "step", "place"]
    read["place"] = condition_keys(rows, (*HOW, "truth", "statuses"))
    read["k"] = rows.groupby(AMONG)["item"].transform("nunique")
    each = read.groupby([*by, "item"], sort=False).agg({"prob": "mean", "cluster": "first", "k": "first"})
    sums = each.groupby(by, sort=False).agg({"prob": ["sum", "count"], "cluster": "first", "k": "first"})
    for (kind, method), places in sums.groupby(level=["kind", "method"], sort=False):
        whole = places["prob", "count"] == places["k", "first"]
        excess, clusters = (places["prob", "sum"] - 1).where(whole), places["cluster", "first"].to_numpy()
        score = cluster_mean(excess, clusters, how=resampling(run.config))
        quantity, out = "sum of P over all options, each asked for by itself, minus 1", int((~whole).sum())
        beside = {"sums left out, for an option that has no belief": f"{out} of {len(whole)}"} if out else {}
        about: dict[str, Any] = {"quantity": quantity, "code": "F1", "beside": beside}
        yield Number(metric=SUM, method=str(method), kind=str(kind), score=score, **about)


def side_by_side(
    run: ScoredRun,
    numbers: Sequence[Number],
    doubted: Mapping[tuple[str, str], str],
    left_out: Mapping[str, str],
    notes: Mapping[tuple[str, str], str],
) -> tuple[Sequence[Block], Figure | None]:
    """A table of every kind and method, what there is none of, and a figure of the number that the run is made for;
    no table and no figure where there is one kind.

    Args:
        doubted: kind and method of a probe whose card says that what it reads is no belief -> why.
        left_out: what could not be read -> why.
        notes: kind and method of a probe -> how what it reads is off in spread, or that nothing tells.
    """
    of_all = [number for number in numbers if number.subset == ALL and number.kind in WORDS]
    whole = {(number.kind, number.method, number.metric): number for number in of_all}
    plan = run.config.registered
    headline = plan.metric if plan and any(key[2] == plan.metric for key in whole) else run.experiment.headline
    columns = [
        (kind, method)
        for kind, method, metric in whole
        if metric == headline and (kind != "probe" or NAMED in method)  # as the experiment scores it, not as a stranger
    ]
    columns.sort(key=lambda column: list(WORDS).index(column[0]))
    without = [Prose(text=f"{name}: left out, for {why}.", soft=True, short=True) for name, why in left_out.items()]
    if len({kind for kind, _ in columns}) < 2 or (run.config.kinds != "all" and "probe" not in dict(columns)):
        return without, None
    metrics = _told(whole, headline)
    shown = next((metric for metric in metrics if len(_kinds(whole, metric)) > 1), headline)
    known = 1.0 if shown in UPPER_BOUNDS else COHERENCE[shown].coherent if shown in COHERENCE else None
    coherent = plan.coherent if plan and plan.metric == shown else known
    failing = [verdict for verdict in verdicts(run.numbers) if not verdict.passed]
    judged = {(verdict.kind, verdict.method): f"cannot be read: {verdict.reason}" for verdict in failing}
    drawn_from = {
        ("verbal", f"{method} {SAMPLED}"): f"drawn from {method}, which {why}"
        for (kind, method), why in judged.items()
        if kind == "exact"
    }
    failed = drawn_from | judged | dict(doubted)
    short = Counter(_form(kind, method) for kind, method in columns if kind == "probe")
    label = {
        (kind, method): f"{WORDS[kind]}: {_form(kind, method) if short[_form(kind, method)] == 1 else method}"
        for kind, method in columns
    }

    def struck(kind: str, method: str, metric: str) -> bool:
        return (kind, method) in failed and barred(metric, kind)

    def cell(kind: str, method: str, metric: str) -> Cell:
        if (number := whole.get((kind, method, metric))) is None:
            return Cell(NONE, ["not defined"])
        return score_cell(number.score, struck=struck(kind, method, metric))

    words = {number.metric: number.quantity for number in whole.values()}
    does = "says, computes, holds and acts on" if "acted" in dict(columns) else "says, computes and holds"
    table = TableBlock(
        title=f"What it {does}",
        short=True,
        name="Kinds of belief",
        caption="The same numbers for every kind of belief, from the same conversations. What is struck out is no "
        "belief, or cannot be read; the reason stands under its name. How good its answers are (accuracy, Brier, "
        "log-loss) is shown and compared even then.",
        head=[("", ""), *((metric.replace("_", " "), words.get(metric, "")) for metric in metrics)],
        rows=[
            [
                Cell(label[kind, method], [kind, *filter(None, (of.get((kind, method)) for of in (failed, notes)))]),
                *(cell(kind, method, metric) for metric in metrics),
            ]
            for kind, method in columns
        ],
    )
    known_of = [name for name in columns if (*name, shown) in whole and np.isfinite(whole[*name, shown].score.estimate)]
    quantity = next((whole[*name, shown].quantity for name in known_of), "") or shown.replace("_", " ")
    axis = quantity if shown.replace("_", " ").lower() in quantity.lower() else f"{quantity} ({shown})"
    none = [label[name] for name in columns if name not in known_of]
    drawn = forest(
        f"{quantity[:1].upper()}{quantity[1:]}: what it {does}",
        [
            (label[kind, method], whole[kind, method, shown].score, (kind, method) in failed)
            for kind, method in known_of
        ],
        axis if len(axis) <= AXIS else shown.replace("_", " "),
        "Each number with its interval; a hollow mark cannot be read, or is no belief."
        + (f" No number: {', '.join(none)}." if none else "")
        + (f" Dashed: {coherent:g}, a coherent belief." if coherent is not None else ""),
        reference=coherent,
    )
    far = [number for number in numbers if number.metric in APART]

    def doubts(number: Number) -> list[str]:
        form, _, other = number.method.partition(", ")
        both = (("verbal", form), ("exact" if number.metric == FROM_COMPUTED else "probe", other))
        return [number.method, *(f"{name[1]}: {failed[name]}" for name in both if name in failed)]

    lengths = scored_table(
        far,
        doubts,
        short=True,
        title="How far is what it says from what it computes and holds?",
        caption="Mean distance (total variation) of the two distributions over the options, in the same read-outs: 0 "
        "if they are equal, 1 if they have nothing in common.",
    )
    return [table, *([lengths] if far else []), *without], drawn


def _form(kind: str, method: str) -> str:
    """The form of asking whose exact belief a probe is of; any other method as it is.

    >>> _form("probe", "letters/held-letters-3")
    'letters'
    """
    return method.partition(NAMED)[0] if kind == "probe" else method


Named = Mapping[tuple[str, str, str], Number]
"""(kind, method, metric) -> number."""


def _told(whole: Named, headline: str) -> list[str]:
    """The headline, then others that several kinds have, those of most kinds first, and among them those of coherence;
    none without any interval, unless the headline has none either, and no bounds of another.
    """
    scores = [(metric, number.score) for (*_, metric), number in whole.items()]
    known = {metric for metric, score in scores if np.isfinite(score.ci_lo)}
    if headline not in known:
        known |= {metric for metric, score in scores if np.isfinite(score.estimate)}
    known -= {f"{metric}{end}" for metric in known for end in BOUNDS}
    named = dict.fromkeys(metric for *_, metric in whole if metric in known and metric != headline)
    kinds_with = {metric: len(_kinds(whole, metric)) for metric in named}
    ranked = sorted(named, key=lambda metric: (-kinds_with[metric], metric not in COHERENCE))
    return [headline, *(metric for metric in ranked if kinds_with[metric] > 1)][: MOST + 1]


def _kinds(whole: Named, metric: str) -> set[str]:
    """The kinds of which a number is defined."""
    return {kind for (kind, _, name), number in whole.items() if name == metric and np.isfinite(number.score.estimate)}


# Where what is said and what is held are furthest apart, item by item.


def disagreements(run: ScoredRun, probes: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row for each option of each place at which a probe reads a belief and one is stated in numbers: `said`, `held`
    and `computed` P, and how far what is said lies from what is held (`distance`, total variation in [0, 1]), the
    furthest first, and from what is computed (`distance_computed`). Readings of a place, by wording and order, are
    averaged.
    """
    stated = run.every[(run.every["kind"] == "verbal") & (run.every["estimate"] == NUMBERS)]
    tables = []
    for name, table in probes.items():
        known = {column for column in condition_columns(table) if table[column].notna().any()}
        probed, answered = _at_places(table, known), _at_places(stated, known)
        exact = run.every[run.every["readout_id"].isin(table["of"].unique())]
        computed = _at_places(exact, known)[["place", "method", "option_index", "option", "prob"]]
        probed["method"] = probed["method"].str.removesuffix(f" {name}")  # the form whose exact belief it is of
        probed = probed.drop(columns="option").merge(computed, on=["place", "method", "option_index"])
        both = probed.merge(answered[["place", "method", "option_index", "prob"]], on=["place", "option_index"])
        tables.append(both.assign(probe=name))
    columns = {"method_x": "method", "method_y": "stated", "prob": "said", "prob_x": "held", "prob_y": "computed"}
    every = pd.concat(tables, ignore_index=True).rename(columns=columns) if tables else pd.DataFrame()
    if every.empty:
        return every
    by = ["place", "method", "stated", "probe"]
    for distance, other in (("distance", "held"), ("distance_computed", "computed")):
        each = (every["said"] - every[other]).abs().groupby([every[column] for column in by])
        every[distance] = each.transform("sum", min_count=1) / 2
    every = every.sort_values(["distance", *by, "option_index"], ascending=[False, *[True] * 5], kind="stable")
    about = ["item", "cluster", "scenario", "step", "readout_id", *by[1:], "option", "said", "held", "computed"]
    return every[[*about, "distance", "distance_computed"]].reset_index(drop=True)


def _apart_numbers(run: ScoredRun, every: pd.DataFrame) -> Iterator[Number]:
    """How far what is said lies from what is computed, and from what each probe reads of it: the mean total variation
    of the two distributions over the options, 0 alike, 1 nothing in common, over places that both have.
    """
    stated = run.every[(run.every["kind"] == "verbal") & (run.every["estimate"] == NUMBERS)]
    exact = read_exactly(run.every)
    if stated.empty or exact.empty:
        return
    known = {column for column in condition_columns(exact) if exact[column].notna().any()}
    computed, answered = _at_places(exact, known), _at_places(stated, known)
    both = computed.merge(answered[["place", "method", "option_index", "prob"]], on=["place", "option_index"])
    both["distance"] = (both["prob_x"] - both["prob_y"]).abs() / 2
    by_place = both.groupby(["method_x", "method_y", "place"], sort=False)
    places = by_place["distance"].sum(min_count=1).to_frame().assign(cluster=by_place["cluster"].first())
    distances = [
        (FROM_COMPUTED, f"{form}, {method}", rows)
        for (method, form), rows in places.groupby(["method_x", "method_y"], sort=False)
    ]
    if len(every):
        probed = every.drop_duplicates(["readout_id", "method", "stated", "probe"])
        distances += [
            ("said_from_held", f"{form}, {method}/{probe}", rows)
            for (method, form, probe), rows in probed.groupby(["method", "stated", "probe"], sort=False)
        ]
    for metric, name, rows in distances:
        distance, clusters = rows["distance"].to_numpy(dtype=np.float64), rows["cluster"].to_numpy()
        score = cluster_mean(distance, clusters, within=UNIT, how=resampling(run.config))
        yield Number(metric=metric, method=name, kind="verbal", score=score, quantity=APART[metric], code="F1")


def _at_places(rows: pd.DataFrame, known: Collection[str]) -> pd.DataFrame:
    """The mean belief in each option, by each form, at each place, which conditions among those `known` tell."""
    rows = rows.drop(columns=[name for name in condition_columns(rows) if name not in known])
    texts = {name: rows[name].astype(str) for name in ("item", "cluster", "scenario", "method", "option", "of")}
    where = texts["item"] + "\0" + texts["scenario"] + "\0" + rows["step"].astype(str)
    rows = rows.assign(**texts, place=where.str.cat(condition_keys(rows, HOW), sep="\0"))
    rows = rows.assign(readout_id=texts["of"].where(texts["of"] != "", rows["readout_id"].astype(str)))
    first = dict.fromkeys(("item", "cluster", "scenario", "step", "readout_id", "option"), "first")
    return rows.groupby(["place", "method", "option_index"], sort=False, as_index=False).agg({"prob": "mean", **first})


def furthest(run: ScoredRun, every: pd.DataFrame, doubted: Mapping[str, str]) -> list[Block]:
    """The gallery of the places at which said and held differ most, of `disagreements`; doubted: probe -> why."""
    if every.empty:
        return []
    by = ["readout_id", "method", "stated", "probe"]
    places = every[by].drop_duplicates()
    first = every.merge(places.head(SHOWN), on=by)
    kept = {line["readout_id"] for line in run.folder.said()}  # of a conversation its last turn alone
    texts = run.folder.transcripts(kept.intersection(first["readout_id"]))
    instances, along = [], _along(run, first)
    for place, rows in first.groupby(by, sort=False):
        readout_id, method, stated, probe = map(str, place)
        beliefs = [
            f"{row.option}: says {row.said:.2f}, computes {row.computed:.2f}, holds {row.held:.2f}"
            for row in rows.itertuples()
        ]
        apart = f"said lies {rows['distance_computed'].iloc[0]:.2f} from computed"
        instances.append(
            Instance(
                facets=[method, stated, str(rows["scenario"].iloc[0])],
                score=float(rows["distance"].iloc[0]),
                facts="; ".join(filter(None, [*beliefs, apart, along.get((readout_id, probe)), doubted.get(probe)])),
                conversations=[
                    (f"asked for its answer, {method}", texts[name]) for name in (readout_id,) if name in texts
                ],
            )
        )
    caption = (
        f"The {len(instances)} of {len(places)} read-outs in which the kinds are furthest apart; {DISAGREEMENT} has "
        f"all."
        + (
            " Along the prompt: what the probe reads of the options, in their order, at each kept token."
            if along
            else ""
        )
    )
    gallery = Gallery(caption, ["asked", "stated", "scenario"], "said, held apart", instances)
    return [Instances.of(gallery, "Where said and held differ most")]


def _along(run: ScoredRun, places: pd.DataFrame) -> dict[tuple[str, str], str]:
    """(read-out, probe) -> what a probe that was trained in the run reads at each token of its prompt that is kept, in
    their order: nothing where the activations are no longer there, or a probe reads options' own tokens.
    """
    found = dict[tuple[str, str], str]()
    if not (run.folder.path / FOLDER).is_dir():
        return found
    store = ActivationStore.open(run.folder.path)
    for name, rows in places.groupby("probe", sort=False):
        if not (run.folder.path / KEPT / f"{name}.json").is_file():
            continue
        probe = Probe.load(run.folder.path / KEPT / str(name))
        if (at := probe.meta.at).position == OF_OPTION:
            continue
        cluster = rows.drop_duplicates("readout_id").set_index("readout_id")["cluster"]
        tokens, values = store.read(
            layer=at.layer, site=at.site, where=lambda row, own=cluster: row["readout_id"].isin(own.index)
        )
        shares = probe.beliefs(values, tokens["readout_id"].map(cluster))
        read = [" ".join(f"{share:.2f}" for share in each) for each in shares]
        names = tokens.assign(read=tokens["position"] + " " + read).sort_values("token_index", kind="stable")
        names = names.drop_duplicates(["readout_id", "token_index"], keep="last")
        for readout_id, each in names.groupby("readout_id"):
            found[str(readout_id), str(name)] = f"along the prompt: {', '.join(each['read'])}"
    return found
