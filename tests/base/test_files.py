"""Files are whole or not there, and nothing else is left."""

import os
from pathlib import Path

import pytest

from doxascope.base.files import atomic_write


@pytest.mark.parametrize("links", [True, False])
def test_what_is_written_once_leaves_nothing_beside_it(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "manifest.json"
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    with atomic_write(path, once=True) as temporary:
        temporary.write_text("first")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    if links:
        with pytest.raises(FileExistsError), atomic_write(path, once=True) as temporary:
            temporary.write_text("second")
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
        assert path.read_text() == "first"
