"""Kinds of a run that are read inside the model, as rows of beliefs: the layer that its gate admits, and probes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...metrics import INNER_KINDS
from ..addons.inner.declaration import ReadInside
from ..addons.inner.scores import profiles
from ..addons.paired import named_apart
from ..addons.probed import applied, by_exact_method
from ..engine.comparable import Run

OF_ONE_OPTION = 2
"""Options of a read-out whose beliefs one number holds."""
LENS = "lens"
"""What the variant of an inner read-out says besides that of the exact one."""


@dataclass(frozen=True)
class Admitted:
    """What a run holds that may be compared."""

    beliefs: pd.DataFrame
    """Its belief table, with the rows of inner kinds that are admitted, each under a method of its own."""
    refused: Mapping[str, str]
    """What is not -> why."""


def inner_beliefs(run: Run, every: pd.DataFrame) -> Admitted:
    """The rows that are not inner, the best layer of each method that was read inside, and those of probes.

    The layer is the one with the largest partial correlation among those that pass. It is chosen on the clusters that
    judge, and holds those that do not, so that the choice has no part in its scores.
    """
    said = every[~every["kind"].isin(INNER_KINDS)]
    found = dict(_probes(run, said))
    if (every["kind"] == "lens").any() and isinstance(run.experiment, ReadInside):
        found |= dict(_layers(run, run.experiment, every))
    rows = [said, *(one for one in found.values() if isinstance(one, pd.DataFrame))]
    texts = ("method", "kind", "variant", "readout_id")
    together = pd.concat([part.astype(dict.fromkeys(texts, str)) for part in rows], ignore_index=True)
    return Admitted(together, {name: one for name, one in found.items() if isinstance(one, str)})


def _layers(run: Run, experiment: ReadInside, every: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame | str]]:
    """Name -> the rows of a layer, or why there are none."""
    for profile in profiles(experiment.inner, run.config, every):
        passed = {view: read for view, read in profile.inner.items() if read.gate.passed}
        if not passed:
            yield f"{profile.method}, inner layers", f"none of {len(profile.inner)} passes its gate"
            continue
        view = max(passed, key=lambda one: passed[one].gate.partial_corr)
        own = every[(every["kind"] == "lens") & (every["method"] == profile.method) & (every["layer"] == view.layer)]
        seen = np.array([json.loads(str(text)).get(LENS) == view.lens for text in own["variant"]], dtype=bool)
        own = own[seen & ~own["cluster"].isin(profile.judges).to_numpy(dtype=bool)]
        name = f"{profile.method}/{view.lens}@{view.layer}"
        yield name, named_apart(own, [name] * len(own), (LENS,))


def _probes(run: Run, said: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame | str]]:
    exact = said[(said["kind"] == "exact") & (said["of"].astype(str) == "")]
    options = exact["readout_id"].astype(str).value_counts()
    for meta, table in applied(run.folder):
        if (options.reindex(table["of"].unique()) > OF_ONE_OPTION).any():
            yield f"probe {meta.name}", "reads one option, and these beliefs are over more than two"
            continue
        yield f"probe {meta.name}", by_exact_method(meta, table)
