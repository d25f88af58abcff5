"""What lenses read in a run in passing, as an add-on of it: gated like inner layers, and beside the beliefs asked for.

`doxascope probe lens` leaves it in the run, in `passing/`. A gate is judged on some of the clusters, against the exact
belief that is asked for at the same place; the numbers are of the others (METRICS W3, W6).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ...hooks.lens.plan import Gate
from ...hooks.lm import LanguageModel
from ...metrics import ReadoutGate, readout_gate
from ...probes.data.beliefs import READINGS
from ..experiment import Experiment, Item, RunConfig
from ..report.blocks import Block, Cell, Prose, TableBlock
from ..report.cells import score_cell
from ..runs.scores import resampling
from ..scoring.number import Number
from .addon import Added, Begun, ScoredRun
from .inner.scores import GATE, GATE_FAILED, judging
from .left import left_in
from .query_effect import OF_STEP, OWN, beside_asked, known

FOLDER = PASSING = "passing"
"""In a run; and what the method of these beliefs is called."""
PRIOR = -1


class LensInPassing:
    """Lens beliefs with nothing appended, if they were read."""

    def begin(self, experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> Begun:
        """Nothing: they are read once a run is there."""
        return Begun(config, {})

    def finish(self, run: ScoredRun) -> Added:
        """The gate and the numbers of every layer, and a section for each position."""
        numbers: list[Number] = []
        blocks: list[Block] = []
        for said, table in left_in(run.folder, FOLDER, "read it again: `doxascope probe lens`"):
            record = json.loads(said)
            found = list(_numbers(run, table, record))
            numbers += found
            blocks += _section(record, found)
        return Added(numbers=numbers, blocks=blocks)


def _numbers(run: ScoredRun, table: pd.DataFrame, record: dict[str, Any]) -> Iterator[Number]:
    gate = Gate.model_validate(record["gate"])
    table = table.assign(lens=[json.loads(text)["lens"] for text in table["variant"]])
    judges = table["cluster"].isin(judging(table["cluster"], gate, run.config.seed))
    exact = run.every[(run.every["kind"] == "exact") & (run.every["of"].astype(str) == "")]
    early = record["site"] == "before the question"
    for (lens, layer), own in table.groupby(["lens", "layer"], sort=False):
        subset = f"{lens}@{layer}"
        name = f"in passing at {record['position']}"
        passed = {}
        for method, asked in exact.groupby("method", sort=False, observed=True):
            judged = _gate(run.config, gate, own[judges.loc[own.index]], asked)
            passed[f"{method} {name}"] = judged.passed
            score = judged if judged.passed else replace(judged, status=GATE_FAILED)
            yield Number(metric=GATE, method=f"{method} {name}", kind="lens", subset=subset, score=score, code="W3")
        others = own[~judges.loc[own.index]]
        for number in beside_asked(run, others, "lens", name, trajectories=early, subset=subset):
            good = passed.get(number.method, any(passed.values()))
            yield number if good else replace(number, score=replace(number.score, status=GATE_FAILED))


def _gate(config: RunConfig, gate: Gate, read: pd.DataFrame, asked: pd.DataFrame) -> ReadoutGate:
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
    own = both[kept]
    return readout_gate(
        np.array(own["logp"].tolist()).reshape(len(own), -1),
        np.array(own["logp_exact"].tolist()).reshape(len(own), -1),
        np.array(own["option"].tolist()).reshape(len(own), -1),
        own["cluster"].to_numpy(),
        rejected[kept],
        min_coverage=gate.coverage,
        min_corr=gate.partial_corr,
        **resampling(config).interval,
    )


def _wide(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each place: its chain, step and truth, the log-probabilities of its options and their names."""
    told = [json.loads(text or "{}") for text in rows["variant"].astype(str)]
    where = rows["item"].astype(str) + "\0" + rows["scenario"].astype(str) + "\0"
    rows = rows.assign(
        key=where + rows["step"].astype(str) + [known(one, (*OWN, *READINGS)) for one in told],
        chain=where + [known(one, (*OWN, *READINGS, *OF_STEP)) for one in told],
        truth=[float(one.get("truth", np.nan)) for one in told],
        **{name: rows[name].astype(str) for name in ("option", "cluster")},
    )
    about = ["key", "chain", "step", "truth", "cluster", "option_index", "option"]
    mean = rows.groupby(about, sort=False, dropna=False)["logp"].mean().reset_index().sort_values("option_index")
    return mean.groupby("key").agg(
        {"chain": "first", "step": "first", "truth": "first", "cluster": "first", "logp": tuple, "option": tuple}
    )


def _section(record: dict[str, Any], numbers: Sequence[Number]) -> list[Block]:
    gates = [one for one in numbers if one.metric == GATE]
    passed = sum(one.score.status != GATE_FAILED for one in gates)
    return [
        Prose(
            title=f"What lenses read in passing at {record['position']!r}",
            text=f"Nothing is appended: what inner layers would say next, which lies {record['site']}. {passed} of "
            f"{len(gates)} read-outs pass their gates, judged on other clusters than the numbers are of; what fails is "
            "no belief.",
        ),
        TableBlock(
            name="In passing, layer by layer",
            head=[("", ""), ("lens and layer", ""), ("estimate", "")],
            rows=[
                [
                    Cell(one.quantity or "correlation beyond the words", [one.method]),
                    Cell(one.subset),
                    score_cell(one.score),
                ]
                for one in numbers
            ],
            folded=True,
        ),
    ]
