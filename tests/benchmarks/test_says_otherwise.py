"""What the organism of the word game is planted with is recovered from exact readings."""

from dataclasses import replace

import numpy as np
import pytest

from doxascope.benchmarks.says_otherwise import COMPUTED, METRICS, NOUNS, SAID, planted, rows_of
from doxascope.experiments.materials.entities import triples
from doxascope.metrics.contract import Resampling
from doxascope.metrics.tables.samples import Options

N = 40


def test_planted_values_are_recovered_where_they_are_read_without_error() -> None:
    """Three posteriors of each triple, each with another word ruled out; computed and held alike."""
    words = {f"t{i}": three for i, three in enumerate(triples(NOUNS, N, 0))}
    clusters, blank = np.repeat([*words], 3), np.full((3 * N, 3), 1 / 3)
    rejected = np.tile(np.arange(3), N)
    asked = Options(
        method="words", prior=blank, posterior=blank, rejected=rejected, clusters=clusters, keys=np.arange(3 * N)
    )
    kinds = {"exact": COMPUTED, "verbal": SAID, "probe": COMPUTED}
    aims = {kind: planted(kept, replace(asked, kind=kind), words) for kind, kept in kinds.items()}
    for metric, code in METRICS.items():
        rows = {(row.kind, row.other): row for row in rows_of(metric, code, aims, aims, Resampling(draws=20))}
        assert {*rows} >= {(kind, "") for kind in kinds} | {("exact", "verbal"), ("verbal", "probe")}
        for row in rows.values():
            assert row.recovered.estimate == pytest.approx(row.planted, abs=1e-9)
        assert all(
            row.planted != pytest.approx(end, abs=0.05) for row in rows.values() if not row.other for end in (0, 1)
        )
        assert (rows["exact", "verbal"].planted > 0.1) == (metric == "c2")
        assert (rows["verbal", "probe"].planted > 0.1) == (metric != "c2")
