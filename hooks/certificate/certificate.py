"""The record of how far a model's numbers may be trusted."""

import hashlib

from pydantic import Field

from ..model.points import Point, Site, forward_order
from ..settings import Settings

SITES: tuple[Site, ...] = ("resid_pre", "resid_post")
AMONG = "among others"
"""The condition of an item that shares its pass with seven others: nothing changes in a dense model, while a mixture of
experts gives each expert as many tokens as all items have for it."""
TOLERANCE = 1e-3
"""How far a layer's residuals may be from those of plain transformers, in relative norm, in float32."""


class Change(Settings):
    """How far options move."""

    probability: float
    """Largest change of an option's probability among the options."""
    nat: float
    """Largest change of the natural log of an option's probability."""

    def __str__(self) -> str:
        return f"{self.probability:.1e} ({self.nat:.1e} nat)"


class Parity(Settings):
    """How far one back end is from plain transformers."""

    version: str | None
    """Of the library; None if it is not installed or cannot serve the model."""
    note: str = ""
    residuals: dict[Site, tuple[float, ...]] = Field(default={})
    """Site -> per layer, the largest relative norm of a difference."""
    change: Change | None = None


class Certificate(Settings):
    """What `certify` measures of a model."""

    model: str
    weights: dict[str, str]
    """dtype -> the fingerprint of `Identity.weights`."""
    device: str
    versions: dict[str, str]
    """Of the libraries that compute."""
    parity: dict[str, Parity]
    """Back end -> parity, in float32."""
    floor: dict[str, dict[str, Change]]
    """dtype -> condition -> change against one plain pass per text in that dtype; under `among others` against the same
    item alone in a pass, under `against float32` against float32."""

    @property
    def failures(self) -> list[str]:
        """Back ends that are outside the tolerance, with the first layer that is."""
        found = []
        for name, parity in self.parity.items():
            gaps = {Point(i, site): gap for site, layers in parity.residuals.items() for i, gap in enumerate(layers)}
            outside = [point for point, gap in gaps.items() if not gap <= TOLERANCE]  # NaN is outside
            if outside:
                first = min(outside, key=forward_order)
                found.append(f"{name}: {first} is {gaps[first]:.1e} away, more than {TOLERANCE:.0e}")
        return found

    @property
    def hash(self) -> str:
        """A hash of all that was measured; runs record it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def worst(self, dtype: str, backend: str) -> Change:
        """The numerical error of runs in a dtype through a back end: the largest change by any of the conditions, or
        between that back end and plain transformers.

        Raises KeyError for a dtype that was not measured.
        """
        changes = [
            *self.floor[dtype].values(),
            *(p.change for n, p in self.parity.items() if n == backend and p.change),
        ]
        return Change(probability=max(one.probability for one in changes), nat=max(one.nat for one in changes))

    def __str__(self) -> str:
        weights = ", ".join(f"{fingerprint} in {dtype}" for dtype, fingerprint in self.weights.items())
        lines = [
            f"{self.model} on {self.device}, weights {weights}",
            "",
            "| back end | resid_pre | resid_post | option |",
            "|---|---|---|---|",
        ]
        for name, parity in self.parity.items():
            if parity.version is None:
                lines.append(f"| {name} | {parity.note} | | |")
                continue
            worst = " | ".join(f"{max(parity.residuals[site]):.1e}" for site in SITES)
            lines.append(f"| {name} {parity.version} | {worst} | {parity.change} |")
        lines += [
            "",
            f"| largest change of an option | {' | '.join(self.floor)} |",
            "|---|" + "---|" * len(self.floor),
        ]
        for condition in dict.fromkeys(condition for floor in self.floor.values() for condition in floor):
            row = (str(floor[condition]) if condition in floor else "" for floor in self.floor.values())
            lines.append(f"| {condition} | {' | '.join(row)} |")
        return "\n".join(
            [*lines, "", *(self.failures or ["every back end that ran is within the tolerance at every layer"])]
        )
