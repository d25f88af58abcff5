"""The split rule: a step is a paragraph, and paragraphs are parted by an empty line."""

import re

BREAK = re.compile(r"(\n[^\S\n]*\n)\s*")


def paragraph_ends(text: str) -> list[int]:
    """Where each paragraph ends, without the blanks after it: up to the k-th of these are the first k + 1 of them."""
    found, start = [], 0
    for stop, after in [*(m.span() for m in BREAK.finditer(text)), (len(text), len(text))]:
        if paragraph := text[start:stop].rstrip():
            found.append(start + len(paragraph))
        start = after
    return found


def paragraph_closings(text: str) -> list[int]:
    """Where each paragraph is known to have ended, whatever comes after: behind its empty line. That of the last is the
    end of the text.
    """
    breaks = [m for m in BREAK.finditer(text) if text[: m.start()].strip() and m.end() < len(text)]
    return [*(m.end(1) for m in breaks), len(text)] if text.strip() else []
