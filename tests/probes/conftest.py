"""Planted data: features that hold a target, hold nothing, or hold what only looks like it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from doxascope.probes.dataset import ProbeData, make_target
from doxascope.probes.features import ArrayFeatures, ReadAt
from doxascope.probes.statements import computed_statements, statement_rows


@pytest.fixture(scope="session")
def planted() -> Callable[..., ProbeData]:
    """Makes a data set of computed statements whose features are noise, with a direction of some strength at layers."""

    def make(
        strength: dict[int, float] | None = None,
        *,
        groups: int = 60,
        layers: int = 4,
        d: int = 20,
        seed: int = 0,
        hidden: Any = None,
        **columns: Any,
    ) -> ProbeData:
        rows = statement_rows(computed_statements(groups))
        truth = rows["truth"].to_numpy()
        rng = np.random.default_rng(seed)
        carried = 2 * truth - 1 if hidden is None else hidden(rows)
        arrays = {}
        for layer in range(layers):
            x = rng.normal(size=(len(rows), d))
            x[:, 0] += (strength or {}).get(layer, 0.0) * carried
            arrays[ReadAt("resid_post", layer, "statement")] = x
        made = {name: value(truth, rng) for name, value in columns.items()}
        return ProbeData(rows.assign(**made), make_target("outcome", truth), ArrayFeatures(arrays), tuple(arrays))

    return make
