"""What trained probes read in a run, as an add-on of it: beliefs of kind `probe`, scored as a stranger's are.

`doxascope probe apply` leaves them in the run, in `probes/`. They are cross-fitted: no group is read by a probe that
was trained on it.
"""

import io
import json
from collections.abc import Iterator, Sequence

import pandas as pd

from ...hooks.errors import UserError, in_one_line
from ...hooks.lm import LanguageModel
from ...metrics import check_belief_table, query_effect
from ...probes.card.site_rule import READ_OUT
from ...probes.evidence.lead import lead_in_tokens
from ...probes.probe import ProbeMeta
from ..experiment import Experiment, Item, RunConfig
from ..report.blocks import Block, Prose
from ..runs.folder import RunFolder
from ..runs.scores import resampling
from ..scoring.engine import score_samples
from ..scoring.number import Number
from ..tables.belief_rows import groups
from .addon import Added, Begun, ScoredRun
from .paired import named_apart, numbers_table, scored_beside

FOLDER = "probes"
"""In a run."""
TOKEN = "token"
"""What a variant says besides, with the probe: at which token of the prompt it was read."""
OWN = ("probe", TOKEN)


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
            own = [*_scored(run, table), *_beside_exact(run, meta, table)]
            own += scored_beside(run.experiment, run.config, run.beliefs, by_exact_method(meta, table))
            numbers += own
            blocks += _section(meta, table, own)
        return Added(numbers=numbers, blocks=blocks)


def applied(folder: RunFolder) -> Iterator[tuple[ProbeMeta, pd.DataFrame]]:
    """Those whose digests the run knows: what a kill left besides them does not count."""
    known = folder.manifest.get("files", {})
    for name in sorted(one for one in known if one.startswith(f"{FOLDER}/") and one.endswith(".parquet")):
        with in_one_line(folder.path / name, "apply the probe again"):
            table = folder.verified(name, known[name])
            beside = name.removesuffix("parquet") + "json"
            meta = ProbeMeta.model_validate_json(folder.verified(beside, known[beside]))
            applied = meta, check_belief_table(pd.read_parquet(io.BytesIO(table)))
        yield applied


def _scored(run: ScoredRun, table: pd.DataFrame) -> list[Number]:
    """Every metric that fits what the probe's beliefs are: updates, trajectories, forecasts."""
    plain = table.assign(variant=[_without_probe(text) for text in table["variant"]])
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


def _without_probe(text: str) -> str:
    told = json.loads(text or "{}")
    return json.dumps({key: value for key, value in told.items() if key not in OWN}, sort_keys=True)


def _beside_exact(run: ScoredRun, meta: ProbeMeta, table: pd.DataFrame) -> Iterator[Number]:
    """What is read in passing against what is asked for at the same places (METRICS W6), and along trajectories which
    of the two settles first.
    """
    own = table[table["option_index"] == 0]
    exact = run.every[(run.every["kind"] == "exact") & (run.every["of"].astype(str) == "")]
    exact = exact.assign(readout_id=exact["readout_id"].astype(str), option=exact["option"].astype(str))
    both = own.merge(
        exact[["readout_id", "option", "prob"]], left_on=["of", "option"], right_on=["readout_id", "option"]
    )
    how = resampling(run.config)
    for method, rows in both.groupby("method", sort=False):
        passive, asked = rows["prob_x"].to_numpy(float), rows["prob_y"].to_numpy(float)
        effect = query_effect(passive, asked, rows["cluster"].to_numpy(), **how.interval)
        yield Number(
            metric="query_effect",
            score=effect,
            quantity="asked less read in passing",
            code="W6",
            method=str(method),
            kind="probe",
        )
        told = [json.loads(text) for text in rows["variant"]]
        chain = rows["item"] + rows["scenario"] + [_without_probe(text) for text in rows["variant"]]
        if meta.reading_site == "before the question" and chain.duplicated().any() and rows["step"].nunique() > 1:
            lead = lead_in_tokens(
                passive,
                asked,
                [one[TOKEN] for one in told],
                rows["step"].to_numpy(),
                chain.to_numpy(),
                rows["cluster"].to_numpy(),
                seed=how.seed,
                level=run.config.level,
            )
            beside = {"by chance": f"{lead.by_chance:.1f}", "never settles": str(lead.n_never)}
            quantity = "tokens by which it settles before the exact belief"
            yield Number(metric="lead", score=lead, quantity=quantity, beside=beside, method=str(method), kind="probe")


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
            text=f"{readouts} read-outs at {meta.at}, by a probe of {meta.target}; by its report card this is "
            f"{meta.called}. What it was trained on is read by fits without it.",
        ),
        numbers_table(f"Numbers of {meta.name}", numbers),
    ]
