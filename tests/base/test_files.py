"""Files are whole or not there, and nothing else is left."""

import os
from pathlib import Path

import pytest

from doxascope.base.errors import UserError
from doxascope.base.files import OutputFolder, atomic_write


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


def test_nothing_is_written_through_a_link_that_lay_in_the_folder(tmp_path: Path) -> None:
    mine, given = tmp_path / "mine", tmp_path / "given"
    for folder in (mine, given):
        folder.mkdir()
    (mine / "notes").write_text("precious")
    (given / ".writing-report.html").symlink_to(mine / "notes")
    (given / "figures").symlink_to(mine)
    folder = OutputFolder(given)
    folder.write("report.html", "a page")
    assert (given / "report.html").read_text() == "a page"
    assert not (given / "report.html").is_symlink()
    with pytest.raises(UserError, match="figures: is a link"):
        folder.write_bytes("figures/01-accuracy.svg", b"<svg/>")
    assert [(file.name, file.read_text()) for file in mine.iterdir()] == [("notes", "precious")]
