"""A page of which some parts have changed: they are made anew in its file, and everything else stays as it stands."""

import re
from pathlib import Path

from ...hooks.documents import read_text
from ...hooks.errors import in_one_line
from ...hooks.files import atomic_write
from .page import Page

PART = re.compile(r"<!-- part (\S+) -->.*?<!-- end -->", re.DOTALL)
"""What the template writes around the verdict, the gate and each section; no text of a page can hold it unescaped."""


def make_again(path: Path, parts: Page) -> None:
    """Put the verdict, the gate and the sections of `parts` in the place of those that the page at `path` has.

    Raises UserError for a page that cannot be read or written.
    """
    new = {found[1]: found[0] for found in PART.finditer(parts.html())}
    text = PART.sub(lambda found: new.get(found[1], found[0]), read_text(path))
    with in_one_line(path, "make it writable"), atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
