"""What a causal check has left beside a probe is a verdict on that very probe, or is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError
from doxascope.base.files import sealed
from doxascope.experiments.probing.jobs import _used
from doxascope.hooks.store import Header
from doxascope.probes import import_probe
from doxascope.probes.features import ReadAt
from doxascope.probes.report_card import USED, CausalVerdict

VERDICT = CausalVerdict("not shown", "none", "it is")


def test_only_a_verdict_on_the_probe_counts(tmp_path: Path) -> None:
    header = Header(sites=("resid_post",), layers=(0,), d_model=3, dtype="float32", conditions={"model": {"name": "m"}})
    at = ReadAt("resid_post", 0, "statement")
    probe, other = (import_probe(np.eye(3)[i], 0.0, header, at, name="mine", target="truth") for i in (0, 1))
    record = {"probe": probe.digest, **VERDICT._asdict()}

    def left(held: Any) -> Path:
        (tmp_path / USED).write_text(json.dumps(sealed(held) if isinstance(held, dict) else held))
        return tmp_path

    assert _used(left(record), probe) == VERDICT
    assert _used(left(record), other) is None
    changes: list[Any] = [record | {"verdict": "proven"}, record | {"verdict": 1}, record | {"evidence": None}, [], {}]
    for change in changes:
        with pytest.raises(UserError, match=r"used\.json: .*; delete it"):
            _used(left(change), probe)
