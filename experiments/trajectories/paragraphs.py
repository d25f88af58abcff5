"""The split rule: a step is a paragraph, and paragraphs are parted by an empty line."""

import re

BREAK = re.compile(r"\n[^\S\n]*\n\s*")


def ends(text: str) -> list[int]:
    """Where each paragraph ends, without the blanks after it: `text[: ends(text)[k]]` is the first k + 1 of them."""
    found, start = [], 0
    for stop, after in [*(m.span() for m in BREAK.finditer(text)), (len(text), len(text))]:
        if paragraph := text[start:stop].rstrip():
            found.append(start + len(paragraph))
        start = after
    return found
