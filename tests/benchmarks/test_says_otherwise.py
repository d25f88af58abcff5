"""What the organism of the word game is planted with is recovered: of exact readings, and of the organism itself."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from doxascope.benchmarks.says_otherwise import COMPUTED, METRICS, NOUNS, SAID, read, rows_of
from doxascope.experiments.materials.entities import triples
from doxascope.experiments.synthetic.validation.in_english import planted
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
    aims = {kind: planted(species, asked, words) for kind, species in kinds.items()}
    samples = {kind: replace(aim, kind=kind) for kind, aim in aims.items()}
    for metric, code in METRICS.items():
        rows = {(row.kind, row.other): row for row in rows_of(metric, code, samples, aims, Resampling(draws=20))}
        assert {*rows} >= {(kind, "") for kind in kinds} | {("exact", "verbal"), ("verbal", "probe")}
        for row in rows.values():
            assert row.recovered.estimate == pytest.approx(row.planted, abs=1e-9)
        assert rows["exact", ""].planted == pytest.approx(float(metric == "c2"))
        assert (rows["exact", "verbal"].planted > 0.1) == (metric == "c2")
        assert (rows["verbal", "probe"].planted > 0.1) == (metric != "c2")


@pytest.mark.full
def test_an_organism_that_says_what_it_does_not_hold_is_read_so(tmp_path: Path) -> None:
    rows = {(row.metric, row.kind, row.other): row for row in read(tmp_path, N, 2000)}
    of_c2 = [row for (metric, *_), row in rows.items() if metric == "c2"]
    assert len(of_c2) == 6
    for row in of_c2:
        assert row.recovered.estimate == pytest.approx(row.planted, abs=0.03)
    for metric in METRICS:
        for other in ("exact", "probe"):
            row = rows[metric, "verbal", other] if (metric, "verbal", other) in rows else rows[metric, other, "verbal"]
            assert np.sign(row.recovered.ci_lo) == np.sign(row.recovered.ci_hi) == np.sign(row.planted)
