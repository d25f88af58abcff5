"""What trained probes read in a run, as an add-on of it: beliefs of kind `probe`, scored as a stranger's are.

`doxascope probe apply` leaves them in the run, in `probes/`. They are cross-fitted: no group is read by a probe that
was trained on it.
"""

import json
from collections.abc import Iterator, Sequence

import pandas as pd

from ...hooks.errors import UserError, in_one_line
from ...hooks.lm import LanguageModel
from ...probes.card.site_rule import READ_OUT
from ...probes.probe import ProbeMeta
from ..experiment import Experiment, Item, RunConfig
from ..report.blocks import Block, Prose
from ..runs.folder import RunFolder
from ..runs.scores import resampling
from ..scoring.engine import score_samples
from ..scoring.number import Number
from ..tables.belief_rows import groups
from .addon import Added, Begun, ScoredRun
from .left import left_in
from .paired import named_apart, numbers_table, scored_beside
from .query_effect import OWN, beside_asked, known

FOLDER = "probes"
"""In a run."""
AGAIN = "apply the probe again"


class ProbeBeliefs:
    """Beliefs of kind `probe`, if a probe was applied to the run."""

    def begin(self, experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> Begun:
        """Nothing: probes are applied once a run is there."""
        return Begun(config, {})

    def finish(self, run: ScoredRun) -> Added:
        """The numbers of every probe, and a section for each."""
        numbers: list[Number] = []
        blocks: list[Block] = []
        for meta, table in applied(run.folder):
            early = meta.reading_site == "before the question"
            own = [*_scored(run, table), *beside_asked(run, table, "probe", meta.name, trajectories=early)]
            own += scored_beside(run.experiment, run.config, run.beliefs, by_exact_method(meta, table))
            numbers += own
            blocks += _section(meta, table, own)
        return Added(numbers=numbers, blocks=blocks)


def applied(folder: RunFolder) -> Iterator[tuple[ProbeMeta, pd.DataFrame]]:
    """The probes that were applied to a run, and what they read there."""
    for record, table in left_in(folder, FOLDER, AGAIN):
        with in_one_line(f"{folder.path}: a probe that was applied", AGAIN):
            meta = ProbeMeta.model_validate_json(record)
        yield meta, table


def _scored(run: ScoredRun, table: pd.DataFrame) -> list[Number]:
    """Every metric that fits what the probe's beliefs are: updates, trajectories, forecasts."""
    plain = table.assign(variant=[known(json.loads(text or "{}"), OWN) for text in table["variant"]])
    data = {name: plain[name].to_numpy(dtype=object) for name in plain.columns if plain[name].notna().any()}
    for name in ("prob", "outcome", "logp", "coverage"):
        if name in data:
            data[name] = plain[name].to_numpy(dtype=float)
    for name in ("step", "option_index"):
        data[name] = plain[name].to_numpy(dtype=int)
    try:
        samples, _ = groups(run.folder.path, data, data["cluster"])
    except UserError:  # one reading per item and no outcome: nothing to score
        return []
    return list(score_samples(samples, resampling(run.config), compared=set()).all)


def by_exact_method(meta: ProbeMeta, table: pd.DataFrame) -> pd.DataFrame:
    """The rows by the form of the exact read-out that each is of."""
    methods = [f"{str(name).removesuffix(f' {meta.name}')}/{meta.name}" for name in table["method"]]
    return named_apart(table, methods, OWN)


def _section(meta: ProbeMeta, table: pd.DataFrame, numbers: Sequence[Number]) -> list[Block]:
    readouts = table["readout_id"].nunique()
    what = "read-out" if meta.called == READ_OUT else "probe"
    return [
        Prose(
            title=f"Read by the {what} {meta.name}",
            text=f"{readouts} read-outs at {meta.at}, by a probe of {meta.target}. What it reads, by its report card: "
            f"{meta.called}. Groups that it was trained on are read by fits without them.",
        ),
        numbers_table(f"Numbers of {meta.name}", numbers),
    ]
