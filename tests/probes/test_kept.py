"""What a job keeps on the disk is what was computed, or is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError
from doxascope.probes.job import kept


class Order:
    """What a pickle would carry out."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Path.touch, (self.trace,)


def never() -> Mapping[str, Any]:
    raise AssertionError("it is computed once")


def test_arrays_in_the_place_of_others_are_not_believed(tmp_path: Path) -> None:
    a, b = (tmp_path / "deep" / f"{name}.npz" for name in ("a", "b"))
    for path in (a, b):
        kept(path, lambda: {"values": np.arange(3.0)})
    raw = a.read_bytes()
    np.testing.assert_array_equal(kept(a, never)["values"], np.arange(3.0))
    with np.load(a) as file:
        whole = {key: file[key] for key in file.files}
    changes: list[dict[str, Any]] = [
        whole | {"values": np.ones(3)},
        whole | {"values": np.full(3, np.nan)},
        {"values": np.arange(3.0)},
        whole | {"more": np.ones(1)},
    ]
    for change in changes:
        np.savez(a, **change)
        with pytest.raises(UserError, match="is not what was computed for it; delete it"):
            kept(a, never)
    for content in (b.read_bytes(), raw[:-20], b""):
        a.write_bytes(content)
        with pytest.raises(UserError, match="delete it"):
            kept(a, never)
    a.write_bytes(raw)
    assert set(kept(a, never)) == {"values"}


def test_what_a_pickle_orders_is_not_done(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", values=np.array([Order(tmp_path / "done")], dtype=object))
    with pytest.raises(UserError, match="delete it"):
        kept(tmp_path / "a.npz", never)
    assert not (tmp_path / "done").exists()
