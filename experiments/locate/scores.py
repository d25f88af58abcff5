"""The map from the belief table: how much of the change each span carries at each layer (METRICS W2)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...metrics import Score, TransferFraction, cluster_mean, competence_gate, transfer_fraction, transfer_map
from ...metrics.validation import Floats
from ..experiment import Cell
from .config import LocateConfig
from .reading import BASE, DONOR, EMBEDDING, EVERYTHING, PATCHED

ALL = "all"
UPDATE, SHARE, WHOLE = "update", "share_change", "everything"
TRANSFER = "transfer"


class Place(NamedTuple):
    """A cell of the map."""

    span: str
    layer: int
    """-1: before the first block."""

    def __str__(self) -> str:
        return f"{self.span}, {layer_name(self.layer)}"


@dataclass(frozen=True, kw_only=True)
class MappedTransfer(TransferFraction):
    """METRICS W2 of one cell of a map. The band holds for all cells of the map at once, the interval for this one."""

    donor: str
    """Or the name of the control."""
    span: str
    layer: int
    """After this block; -1: before the first."""
    band_lo: float
    band_hi: float
    p_max: float
    """Adjusted for all cells of the map."""

    @property
    def off_zero(self) -> bool:
        """Whether the band leaves out 0, and what is moved is more than noise: of rounding, too, a sign can be sure."""
        moved = abs(self.transfer * self.mean_update)
        return (self.band_lo > 0 or self.band_hi < 0) and moved > self.params["noise_floor"]


def layer_name(layer: int) -> str:
    """As it is printed."""
    return "embedding" if layer < 0 else f"layer {layer}"


def metric_name(donor: str) -> str:
    """The name of the transfer from a donor, or from a control."""
    return TRANSFER if donor == DONOR else f"{TRANSFER}, {donor}"


def scores(config: LocateConfig, beliefs: pd.DataFrame) -> list[Cell]:
    """The update, the competence gate (W4), everything at once, and each map: of the donor and of each control."""
    readouts = log_odds(beliefs)
    method = str(readouts["method"].iloc[0])
    base, donor = (readouts[readouts["scenario"] == name].set_index("item") for name in (BASE, DONOR))
    clusters = base["cluster"].to_numpy()
    settings = {"seed": config.seed, "draws": config.bootstrap_draws, "level": config.level}
    before, after = base["log_odds"], donor["log_odds"].loc[base.index]
    update = cluster_mean(after - before, clusters, **settings)
    gate = competence_gate(donor["share"].loc[base.index], base["share"], clusters, **settings)
    found: list[tuple[str, str, Score]] = [(UPDATE, ALL, update), (SHARE, ALL, gate)]
    patched = readouts[readouts["scenario"] == PATCHED]
    pairs = Pairs(before, after, clusters, config)
    whole = patched[patched["span"] == EVERYTHING]
    found += [(WHOLE, ALL, score) for _, score in pairs.transfers(whole).items()]
    for name, cells in patched[patched["span"] != EVERYTHING].groupby("donor", sort=False):
        mapped = pairs.mapped(str(name), cells)
        found += [(metric_name(str(name)), str(place), score) for place, score in mapped.items()]
    return [Cell(metric, method, subset, score) for metric, subset, score in found]


def log_odds(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per read-out: its names and conditions, `log_odds` of the first option against the second in nats (NaN
    where one of them has no mass), and `share` of the first among the two.
    """
    readouts = beliefs.drop_duplicates("readout_id").reset_index(drop=True)
    logp = beliefs.pivot(index="readout_id", columns="option_index", values="logp").loc[readouts["readout_id"]]
    first, second = logp[0].to_numpy(), logp[1].to_numpy()
    with np.errstate(invalid="ignore"):
        odds = np.where(np.isfinite(first) & np.isfinite(second), first - second, np.nan)
    variants = pd.DataFrame(
        [json.loads(text) for text in readouts["variant"]], columns=["into", "donor", "span", "site"]
    )
    embedding = variants["site"] == EMBEDDING.site
    return readouts.join(variants).assign(
        layer=readouts["layer"].fillna(-1).mask(embedding, -1).astype(int),
        log_odds=odds,
        share=1 / (1 + np.exp(-odds)),
    )


@dataclass(frozen=True)
class Pairs:
    """The log-odds that all patched read-outs are measured by."""

    base: pd.Series
    """By item."""
    donor: pd.Series
    clusters: np.ndarray
    config: LocateConfig

    def transfers(self, cells: pd.DataFrame) -> dict[Place, TransferFraction]:
        """Both directions averaged, each cell alone.

        Args:
            cells: rows of `log_odds`, those of one donor or control.
        """
        return {
            place: transfer_fraction(
                self.base,
                forward,
                self.donor,
                self.clusters,
                reverse,
                noise_floor=self.config.noise_floor,
                seed=self.config.seed,
                draws=self.config.bootstrap_draws,
                level=self.config.level,
            )
            for place, (forward, reverse) in self._both_ways(cells).items()
        }

    def mapped(self, donor: str, cells: pd.DataFrame) -> dict[Place, MappedTransfer]:
        """The same of the donor or control of that name, with max-T bands over all of its cells."""
        ways = self._both_ways(cells)
        # A way that counts both: what it adds to the base is the mean of what each direction moved.
        moved = [(forward - self.base + self.donor - reverse) / 2 for forward, reverse in ways.values()]
        bands = transfer_map(
            self.base,
            np.column_stack([self.base + one for one in moved]),
            self.donor,
            self.clusters,
            noise_floor=self.config.noise_floor,
            seed=self.config.seed,
            draws=self.config.bootstrap_draws,
            level=self.config.level,
        )
        return {
            place: MappedTransfer(
                **vars(score),
                donor=donor,
                span=place.span,
                layer=place.layer,
                band_lo=float(bands.band_lo[i]),
                band_hi=float(bands.band_hi[i]),
                p_max=float(bands.p_max[i]),
            )
            for i, (place, score) in enumerate(self.transfers(cells).items())
        }

    def _both_ways(self, cells: pd.DataFrame) -> Mapping[Place, tuple[Floats, Floats]]:
        """[pairs] log-odds of the base with the other's rows, and of the donor with the base's; by span and layer."""
        found = {}
        for (span, layer), rows in cells.groupby(["span", "layer"], sort=False):
            by_item = rows.pivot(index="item", columns="into", values="log_odds").loc[self.base.index]
            found[Place(str(span), int(str(layer)))] = (by_item[BASE].to_numpy(), by_item[DONOR].to_numpy())
        return found
