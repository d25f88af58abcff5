"""The map from the belief table: how much of the change each span carries at each layer (METRICS W2)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ....metrics import MappedTransfer, cluster_mean, items_responding
from ....metrics.beliefs import conditions
from ....metrics.consistency.competence import RESPONDING
from ....metrics.number import Number
from ....metrics.tables.whitebox_samples import Patches
from ...run.scores import gate, resampling
from .ask import BASE, DONOR, EMBEDDING, EVERYTHING, PATCHED, UNDECIDED
from .config import LocateConfig

UPDATE, SHARE = "update", "share_change"


class Place(NamedTuple):
    """A cell of the map."""

    span: str
    layer: int
    """-1: before the first block."""

    def __str__(self) -> str:
        return f"{self.span}, {'embedding' if self.layer < 0 else f'layer {self.layer}'}"


Map = Mapping[Place, MappedTransfer]


def metric_name(donor: str) -> str:
    """The name of the transfer from a donor, or from a control."""
    return "transfer" if donor == DONOR else f"transfer, {donor}"


def samples(config: LocateConfig, beliefs: pd.DataFrame) -> Iterator[Patches]:
    """Everything at once, and each map: of the donor and of each control. See `Experiment.samples`."""
    readouts = log_odds(beliefs)
    base, donor = (_of(readouts, name)["log_odds"] for name in (BASE, DONOR))
    patched = readouts[readouts["scenario"] == PATCHED]
    ways = patched.pivot(index=["donor", "span", "layer", "item"], columns="into", values="log_odds")
    rows = patched[patched["into"] == BASE]
    both = ways.loc[pd.MultiIndex.from_frame(rows[["donor", "span", "layer", "item"]])]
    rows = rows.assign(patched=both[BASE].to_numpy(), reverse=both[DONOR].to_numpy())
    for (name, everything), cells in rows.groupby(["donor", rows["span"] == EVERYTHING], sort=False):
        yield Patches(
            kind="exact",
            method=str(cells["method"].iloc[0]),
            metric=EVERYTHING if everything else metric_name(str(name)),
            base=base.loc[cells["item"]].to_numpy(),
            patched=cells["patched"].to_numpy(),
            donor=donor.loc[cells["item"]].to_numpy(),
            patched_reverse=cells["reverse"].to_numpy(),
            cell=None if everything else np.array([str(place) for place in _places(cells)]),
            pair=cells["item"].to_numpy(),
            clusters=cells["cluster"].to_numpy(),
            noise_floor=config.noise_floor,
        )


def own_scores(config: LocateConfig, beliefs: pd.DataFrame) -> Iterator[Number]:
    """The mean update, that of the first option's share of the two, and the gate (METRICS W4)."""
    readouts = log_odds(beliefs)
    base = _of(readouts, BASE)
    donor = _of(readouts, DONOR).loc[base.index]
    clusters, how = base["cluster"].to_numpy(), resampling(config)
    method = str(base["method"].iloc[0])
    update = cluster_mean(donor["log_odds"] - base["log_odds"], clusters, how=how)
    yield Number(metric=UPDATE, method=method, score=update)
    change = cluster_mean(base["share"] - donor["share"], clusters, how=how)
    yield Number(metric=SHARE, method=method, score=change)
    read = readouts[readouts["scenario"].isin((BASE, DONOR))]
    masses, of = {"contexts": read["coverage"].to_numpy()}, {"contexts": read["cluster"].to_numpy()}
    yield gate(config, method, coverage=masses, read_groups=of, **_response(config, readouts, base, donor))


def _response(config: LocateConfig, readouts: pd.DataFrame, base: pd.DataFrame, donor: pd.DataFrame) -> dict[str, Any]:
    """What the gate looks at: base and donor each reject an option; or they show evidence for different ones."""
    if config.pairs.of in ("testimony", "history"):
        # whether the user's word does more than an agent's, and what a past answer does, is the question
        return {"untested": {RESPONDING: "whether it responds is the question"}}
    if config.pairs.of != "rejection":
        change = donor["log_odds"] - base["log_odds"]
        return {"responding": items_responding(change, np.ones(len(change)), base["cluster"])}
    spared = [_of(readouts, name).reindex(base.index)["share"] for name in UNDECIDED]
    return {
        "template": np.full(2 * len(base), "reject"),
        "prior_rejected": np.r_[donor["share"], 1 - base["share"]],
        "post_rejected": np.r_[base["share"], 1 - donor["share"]],
        "mentioned": np.r_[spared[0], 1 - spared[1]],
        "groups": np.tile(base["cluster"].to_numpy(), 2),
    }


def maps(beliefs: pd.DataFrame, numbers: Sequence[Number]) -> dict[str, Map]:
    """Donor, or name of a control -> its cells, spans in their order."""
    scores = {(number.metric, number.subset): number.score for number in numbers}
    readouts = log_odds(beliefs[beliefs["scenario"] == PATCHED])
    by_donor: dict[str, Map] = {}
    for name, of_donor in readouts[readouts["span"] != EVERYTHING].groupby("donor", sort=False):
        cells = {place: scores[metric_name(str(name)), str(place)] for place in _places(of_donor)}
        by_donor[str(name)] = {place: score for place, score in cells.items() if isinstance(score, MappedTransfer)}
    return by_donor


def log_odds(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per read-out: its names and conditions, `log_odds` of the first option against the second in nats (NaN
    where one of them has no mass), and `share` of the first among the two.
    """
    readouts = beliefs.drop_duplicates("readout_id").reset_index(drop=True)
    logp = beliefs.pivot(index="readout_id", columns="option_index", values="logp").loc[readouts["readout_id"]]
    first, second = logp[0].to_numpy(), logp[1].to_numpy()
    with np.errstate(invalid="ignore"):
        odds = np.where(np.isfinite(first) & np.isfinite(second), first - second, np.nan)
    patch = conditions(readouts, ["into", "donor", "span", "site"])
    return readouts.assign(
        **patch,
        layer=readouts["layer"].fillna(-1).mask(patch["site"] == EMBEDDING.site, -1).astype(int),
        log_odds=odds,
        share=1 / (1 + np.exp(-odds)),
    )


def _of(readouts: pd.DataFrame, scenario: str) -> pd.DataFrame:
    """The read-outs of a context, by item."""
    return readouts[readouts["scenario"] == scenario].set_index("item")


def _places(readouts: pd.DataFrame) -> list[Place]:
    """[n] of each patched read-out."""
    return [Place(str(span), int(layer)) for span, layer in zip(readouts["span"], readouts["layer"], strict=True)]
