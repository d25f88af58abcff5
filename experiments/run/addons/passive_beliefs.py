"""Beliefs that are read without asking, as add-ons of a run: by trained probes and by lenses in passing, beside
those that are asked for at the same places (METRICS W3, W6).

`doxascope probe apply` leaves the ones in the run, in `probes/`, cross-fitted: no group is read by a probe that was
trained on it. `doxascope probe lens` leaves the others, in `passing/`: a gate is judged on some of the clusters,
against the exact belief that is asked for at the same place; the numbers are of the others.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from ....base.errors import UserError, in_one_line
from ....base.settings import read_yaml
from ....base.text import as_csv
from ....hooks.lens.plan import Gate
from ....metrics import ReadoutGate, Score, check_belief_table, query_effect, readout_gate
from ....metrics.beliefs import condition_keys, read_exactly
from ....metrics.consistency import competence
from ....metrics.contract import Resampling
from ....metrics.forms.belief_table import groups_of
from ....metrics.number import Number
from ....metrics.scoring.engine import score_samples
from ....metrics.tables.belief_parts import as_beliefs, read_part
from ....metrics.tables.samples import ALL
from ....probes.dataset import READ_BY, READINGS, TOKEN
from ....probes.evidence.calibration import reach, update_behind_probe
from ....probes.evidence.token_lead import lead_in_tokens
from ....probes.features import NO_BELIEF, OF_OPTION, READ_OUT, TARGETS, WHERE
from ....probes.probe import ProbeMeta
from ...report.cells import score_cell
from ...report.document import Block, Cell, Prose, grid
from ..experiment import RunConfig
from ..folder import RunFolder
from ..manifest import CONFIG
from ..scores import Added, AddOn, ScoredRun, as_taken, resampling
from .inner_readouts import GATE, GATE_FAILED, judging, named_apart, numbers_table, scored_beside
from .side_by_side import (
    DISAGREEMENT,
    PROBES_FOLDER,
    disagreements,
    furthest,
    said_numbers,
    side_by_side,
)

OF_STEP = ("truth", "statuses")
"""Conditions of a step, not of its trajectory."""
PLACE = ["item", "scenario", "step", "place", "option"]
OF_ANSWERS = (competence.GATE, "coverage")
"""How the names of numbers begin that are of answers, and not of what a probe reads."""


def beside_asked(
    run: ScoredRun, table: pd.DataFrame, kind_read: str, name_read: str, *, trajectories: bool, subset: str = ALL
) -> Iterator[Number]:
    """The effect of asking, exactly and in words; along trajectories which of the two settles first, and the slope of
    the updates behind the errors of reading.

    Args:
        trajectories: whether they may be compared step by step: only where they were read before the question.
    """
    passive = by_place(table, [*PLACE, "cluster"])
    how = resampling(run.config)

    def number(
        method: str, metric: str, score: Score, quantity: str, beside: Mapping[str, str] | None = None, code: str = "W6"
    ) -> Number:
        about: dict[str, Any] = {
            "kind": kind_read,
            "subset": subset,
            "quantity": quantity,
            "code": code,
            "beside": beside or {},
        }
        return Number(metric=metric, method=f"{method} {name_read}", score=score, **about)

    for kind in ("exact", "verbal"):
        rows = run.every[run.every["kind"] == kind]
        asked = by_place(rows[rows["of"].astype(str) == ""] if kind == "exact" else rows, ["method", *PLACE])
        both = passive.merge(asked, on=PLACE, suffixes=("", "_asked"))
        for method, places in both.groupby("method", sort=False):
            effect = query_effect(places["prob"], places["prob_asked"], places["cluster"].to_numpy(), how=how)
            how_asked = "exact belief when asked" if kind == "exact" else "stated belief"
            yield number(str(method), "query_effect", effect, f"{how_asked} minus what the probe reads")
            if trajectories and places["step"].nunique() > 1:
                for metric, score, quantity, beside, code in _along(places.sort_values("step"), kind, how):
                    yield number(str(method), metric, score, quantity, beside, code)


def _along(places: pd.DataFrame, kind: str, how: Resampling) -> Iterator[tuple[str, Score, str, dict[str, str], str]]:
    """Metric, score, quantity, what qualifies it and its code, of trajectories that were read at two steps or more."""
    chain = places["item"] + "\0" + places["scenario"] + "\0" + places["chain"]
    if not chain.duplicated().any():
        return
    passive, asked, token, step = (places[column].to_numpy() for column in ("prob", "prob_asked", TOKEN, "step"))
    groups = places["cluster"].to_numpy()
    lead = lead_in_tokens(passive, asked, token, step, chain.to_numpy(), groups, how=replace(how, draws=None))
    beside = {"by chance": f"{lead.by_chance:.1f}", "never settles": str(lead.n_never)}
    yield "lead", lead, f"number of tokens by which the reading settles before the {kind} belief", beside, "W6"
    if kind == "exact":
        after = places.groupby(chain, sort=False)[["prob", "prob_asked"]].shift(-1)
        there = after["prob"].notna().to_numpy()
        read, known_there = after["prob"].to_numpy()[there], after["prob_asked"].to_numpy()[there]
        behind = update_behind_probe(passive[there], read, asked[there], known_there, groups[there], how=how)
        beside = {"as read": f"{behind.M_read:.3f}", "of a coherent belief": f"{behind.M_coherent:.3f}"}
        yield "M_behind", behind, "slope of the update, corrected for errors of reading", beside, "A5"


def by_place(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The mean belief in the first option at each place, over wordings and orders."""
    first = rows[rows["option_index"] == 0]
    first = first.assign(
        place=condition_keys(first, (*READ_BY, *READINGS)),
        chain=condition_keys(first, (*READ_BY, *READINGS, *OF_STEP)),
        **{TOKEN: first.get(TOKEN, 0)},
        **{name: first[name].astype(str) for name in ("method", "item", "scenario", "option", "cluster")},
    )
    return first.groupby(list(by), sort=False, as_index=False).agg(
        {"prob": "mean", TOKEN: "first"} | ({"chain": "first"} if "method" not in by else {})
    )


# What a command has left in a run besides its beliefs: tables with records.


def left_in(folder: RunFolder, room: str, again: str) -> Iterator[tuple[bytes, pd.DataFrame]]:
    """The record and the belief table of everything that a command has left in a room of a run, as the run knows their
    digests: what a kill left besides them does not count. Raises UserError, with the advice `again`, for what is
    damaged.
    """
    files = folder.manifest.get("files", {})
    for name in sorted(file for file in files if file.startswith(f"{room}/") and file.endswith(".parquet")):
        with in_one_line(folder.path / name, again):
            beside = name.removesuffix("parquet") + "json"
            table = check_belief_table(as_beliefs([read_part(folder.verified(name, files[name]))]))
            record = folder.verified(beside, files[beside])
        yield record, table


PASSING_FOLDER = PASSING = "passing"
"""In a run; and what the method of these beliefs is called."""
PRIOR = -1


class LensInPassing(AddOn):
    """Lens beliefs with nothing appended, if they were read once the run was there."""

    def finish(self, run: ScoredRun) -> Added:
        """The gate and the numbers of every layer, and a section for each position."""
        numbers: list[Number] = []
        blocks: list[Block] = []
        for about, table in left_in(run.folder, PASSING_FOLDER, "read it again: `doxascope probe lens`"):
            record = json.loads(about)
            scored = list(_lens_numbers(run, table, record))
            numbers += scored
            blocks += _lens_section(record, scored)
        return Added(numbers=numbers, blocks=blocks)


def _lens_numbers(run: ScoredRun, table: pd.DataFrame, record: dict[str, Any]) -> Iterator[Number]:
    gate = Gate.model_validate(record["gate"])
    judges = table["cluster"].isin(judging(table["cluster"], gate, run.config.seed))
    exact = read_exactly(run.every)
    early = record["site"] == "before the question"
    for (lens, layer), of_layer in table.groupby(["lens", "layer"], sort=False):
        subset = f"{lens}@{layer}"
        name = f"in passing at {record['position']}"
        passed = {}
        for method, asked in exact.groupby("method", sort=False, observed=True):
            judged = _lens_gate(run.config, gate, of_layer[judges.loc[of_layer.index]], asked)
            passed[f"{method} {name}"] = judged.passed
            score = judged if judged.passed else replace(judged, status=GATE_FAILED)
            yield Number(metric=GATE, method=f"{method} {name}", kind="lens", subset=subset, score=score, code="W3")
        others = of_layer[~judges.loc[of_layer.index]]
        for number in beside_asked(run, others, "lens", name, trajectories=early, subset=subset):
            good = passed.get(number.method, any(passed.values()))
            yield number if good else replace(number, score=replace(number.score, status=GATE_FAILED))


def _lens_gate(config: RunConfig, gate: Gate, read: pd.DataFrame, asked: pd.DataFrame) -> ReadoutGate:
    """Against the exact belief of one method: the mean over its readings at each place.

    Where the true posterior of a trajectory is known, its first place that was read is the prior, and what has become
    less likely since is what is ruled out; where it is not, a place speaks for coverage and correlation alone.
    """
    inner, exact = _wide(read), _wide(asked)
    both = inner.join(exact.add_suffix("_exact"), how="inner").sort_values("step")
    first = both.groupby("chain", sort=False)[["truth", "step"]].transform("first")
    prior = (both["step"] == first["step"]).to_numpy()
    moved = (both["truth"] - first["truth"]).to_numpy(dtype=np.float64)
    rejected = np.where(prior, PRIOR, np.where(moved < 0, 0, 1))
    kept = prior | (np.isfinite(moved) & (moved != 0))
    judging_places = both[kept]
    return readout_gate(
        np.array(judging_places["logp"].tolist()).reshape(len(judging_places), -1),
        np.array(judging_places["logp_exact"].tolist()).reshape(len(judging_places), -1),
        np.array(judging_places["option"].tolist()).reshape(len(judging_places), -1),
        judging_places["cluster"].to_numpy(),
        rejected[kept],
        min_coverage=gate.coverage,
        min_corr=gate.partial_corr,
        how=resampling(config),
    )


def _wide(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each place: its chain, step and truth, the log-probabilities of its options and their names."""
    where = rows["item"].astype(str) + "\0" + rows["scenario"].astype(str) + "\0"
    rows = rows.assign(
        key=(where + rows["step"].astype(str)).str.cat(condition_keys(rows, (*READ_BY, *READINGS))),
        chain=where.str.cat(condition_keys(rows, (*READ_BY, *READINGS, *OF_STEP))),
        truth=rows["truth"].astype(float) if "truth" in rows else np.nan,
        **{name: rows[name].astype(str) for name in ("option", "cluster")},
    )
    about = ["key", "chain", "step", "truth", "cluster", "option_index", "option"]
    mean = rows.groupby(about, sort=False, dropna=False)["logp"].mean().reset_index().sort_values("option_index")
    return mean.groupby("key").agg(
        {"chain": "first", "step": "first", "truth": "first", "cluster": "first", "logp": tuple, "option": tuple}
    )


def _lens_section(record: dict[str, Any], numbers: Sequence[Number]) -> list[Block]:
    gates = [number for number in numbers if number.metric == GATE]
    passed = sum(number.score.status != GATE_FAILED for number in gates)
    return [
        Prose(
            title=f"What lenses read in passing at {record['position']!r}",
            text="No question is appended: these numbers are of what inner layers would say next at that place, which "
            f"{WHERE[record['site']]}. {passed} of {len(gates)} read-outs pass their gates, which are judged on other "
            "clusters than the numbers; a read-out that fails is no belief.",
        ),
        grid(
            "",
            ["", "lens and layer", "estimate"],
            [
                [
                    Cell(number.quantity or "correlation beyond the words", [number.method]),
                    number.subset,
                    score_cell(number.score),
                ]
                for number in numbers
            ],
            name="In passing, layer by layer",
            folded=True,
        ),
    ]


LEFT_OUT = f"{PROBES_FOLDER}/left-out.json"
"""What `kinds: all` could not read -> why."""
AGAIN = "apply the probe again"


class ProbeBeliefs(AddOn):
    """Beliefs of kind `probe`, if a probe was applied to the run once it was there."""

    def finish(self, run: ScoredRun) -> Added:
        """The numbers of every probe, and a section for each."""
        numbers: list[Number] = []
        blocks: list[Block] = []
        doubted: dict[tuple[str, str], str] = {}
        notes: dict[tuple[str, str], str] = {}
        read: dict[str, pd.DataFrame] = {}
        by_form: list[pd.DataFrame] = []
        failed: dict[str, str] = {}
        for meta, table in applied(run.folder):
            read[meta.name] = table
            early = meta.reading_site == "before the question"
            plain = _probe_scores(run, table) if meta.options == 2 and meta.position != OF_OPTION else []
            scored = [*plain, *beside_asked(run, table, "probe", meta.name, trajectories=early)]
            by_form.append(named := by_exact_method(meta, table, run.beliefs))
            scored += scored_beside(run.experiment, run.config, run.beliefs, named)
            known = {number.key for number in scored}
            scored += [number for number in _as_said(run, named) if number.key not in known]
            numbers += scored
            together = reach(meta.target, table, run.beliefs).text
            blocks += _probe_section(meta, table, scored, together)
            notes |= {("probe", str(method)): together for method in named["method"].unique() if together}
            if why := unreadable(meta):
                failed[meta.name] = why
                doubted |= {("probe", str(method)): why for method in named["method"].unique()}
        apart = disagreements(run, read)
        numbers = [*said_numbers(run, apart, by_form), *numbers]
        every = [*run.numbers, *numbers]
        beside, drawn = side_by_side(run, every, doubted, left_out(run.folder), notes)
        files = {} if apart.empty else {DISAGREEMENT: as_csv(apart)}
        return Added(numbers=numbers, files=files, blocks=[*beside, *furthest(run, apart, failed), *blocks], lead=drawn)


def applied(folder: RunFolder) -> Iterator[tuple[ProbeMeta, pd.DataFrame]]:
    """The probes that were applied to a run, and what they read there."""
    for record, table in left_in(folder, PROBES_FOLDER, AGAIN):
        with in_one_line(f"{folder.path}: a probe that was applied", AGAIN):
            meta = ProbeMeta.model_validate_json(record)
            if not {"of", "kind"} <= {*table.columns} or set(table["kind"].astype(str)) != {"probe"}:
                raise ValueError("has other rows than what a probe reads")
        yield meta, table


def left_out(folder: RunFolder) -> dict[str, str]:
    """What `kinds: all` could not read -> why. Raises UserError for a list that is none."""
    files = folder.manifest.get("files", {})
    if LEFT_OUT not in files:
        unfinished = CONFIG in files and read_yaml(folder.config).get("kinds") == "all"
        return {"probes": "the run was stopped before they were trained; give its command again"} if unfinished else {}
    with in_one_line(folder.path / LEFT_OUT, "give the run's command again"):
        read = TypeAdapter(dict[str, str]).validate_json(folder.verified(LEFT_OUT, files[LEFT_OUT]))
    return {f"probe of {name}": why for name, why in read.items()}


def _probe_scores(run: ScoredRun, table: pd.DataFrame) -> list[Number]:
    """Every metric that fits what the probe's beliefs are: updates, trajectories, forecasts."""
    plain = table.drop(columns=[name for name in READ_BY if name in table])
    try:
        samples, _ = groups_of(run.folder.path, plain)
    except UserError:  # one reading per item and no outcome: nothing to score
        return []
    return list(score_samples(samples, resampling(run.config), compared=set()).all)


def _as_said(run: ScoredRun, named: pd.DataFrame) -> list[Number]:
    """The numbers that the experiment makes of what is said, of a probe; its report card judges it, no gate."""
    taken = as_taken(run.experiment, pd.concat([run.beliefs, named], ignore_index=True))
    probed = [sample for sample in run.experiment.samples(run.config, taken) if sample.kind == "probe"]
    scored = score_samples(probed, resampling(run.config), compared=set()).numbers
    own = [number for number in run.experiment.own_scores(run.config, taken) if number.kind == "probe"]
    return [*scored, *(number for number in own if not number.metric.startswith(OF_ANSWERS))]


def unreadable(meta: ProbeMeta) -> str:
    """Why what a probe reads is no belief, by its report card; empty if nothing speaks against it."""
    return f"its report card: {meta.called} ({meta.n_groups} groups)" if meta.called in NO_BELIEF else ""


def by_exact_method(meta: ProbeMeta, table: pd.DataFrame, beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows of a probe by the form of the exact read-out, one of `beliefs`, that each is of."""
    form = beliefs.drop_duplicates("readout_id").set_index("readout_id")["method"].astype(str)
    if unknown := sorted({*table["of"].astype(str)} - {*form.index.astype(str)})[:1]:
        raise UserError(f"probe {meta.name}: reads {unknown[0]!r}, which is no read-out of the run; {AGAIN}")
    return named_apart(table, [f"{form[name]}/{meta.name}" for name in table["of"]], READ_BY)


def _probe_section(meta: ProbeMeta, table: pd.DataFrame, numbers: Sequence[Number], note: str) -> list[Block]:
    readouts = table["readout_id"].nunique()
    what = "read-out" if meta.called == READ_OUT else "probe"
    return [
        Prose(
            title=f"Read by the {what} {meta.name}",
            text=f"A probe of {TARGETS.get(meta.target, meta.target)} read {readouts} read-outs at {meta.at}. Its "
            f"report card says: {meta.called}. Groups that it was trained on are read by fits without them."
            + (f" Its readings are {note}." if note else ""),
        ),
        numbers_table(f"Numbers of {meta.name}", numbers),
    ]
