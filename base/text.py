"""Text of strangers on its way to a terminal or a spreadsheet, which take some of it for orders; what near copies of a
text have in common; numbers as text."""

import csv
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters but tab and newline, those that turn the direction of what follows, and what no XML may hold."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet would compute."""
GUARD = "'"
CLOSING = " .,;:!?…。？！"
"""What a question may end on and still be the same."""


def visible(text: str) -> str:
    """The text with its control characters escaped.

    >>> visible("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def as_csv(table: "pd.DataFrame") -> str:
    """A table as comma-separated values, each text as it is: data, which `for_spreadsheet` makes safe to open in one.

    >>> import pandas as pd
    >>> as_csv(pd.DataFrame({"id": ["-1", "a"], "y": [-1, 2]}))
    'id,y\\n-1,-1\\na,2\\n'
    """
    texts = [*map(str, table.columns), *(cell for cell in table.to_numpy(dtype=object).flat if isinstance(cell, str))]
    # Python's writer leaves a bare carriage return without quotes, where readers end a line.
    quoting = csv.QUOTE_NONNUMERIC if any("\r" in text for text in texts) else csv.QUOTE_MINIMAL
    return table.to_csv(index=False, lineterminator="\n", quoting=quoting)


def for_spreadsheet(table: "pd.DataFrame") -> "pd.DataFrame":
    """A table to be opened in a spreadsheet, in which no text is a formula: an apostrophe stands before it.

    >>> import pandas as pd
    >>> as_csv(for_spreadsheet(pd.DataFrame({"x": ["=1+1", "a"], "y": [-1, 2]})))
    "x,y\\n'=1+1,-1\\na,2\\n"
    """
    return table.map(_guarded).rename(columns=_guarded)


def _guarded(cell: object) -> object:
    guard = isinstance(cell, str) and cell.startswith((*FORMULA, *(GUARD + sign for sign in (*FORMULA, GUARD))))
    return f"{GUARD}{cell}" if guard else cell


def unguarded(text: str) -> str:
    """A cell as it was before `for_spreadsheet`."""
    return text[1:] if text.startswith(GUARD) and text[1:].startswith((*FORMULA, GUARD)) else text


def copy_key(text: str) -> str:
    """What near copies of a text have in common.

    >>> copy_key("Is  it ＴＥＡ ?") == copy_key("is it tea")
    True
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(CLOSING)


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names)


LONG_NAME = 30
"""Letters from which on a name is quoted in a sentence."""


def quoted(name: str) -> str:
    """A name in a sentence, in quotes where it would break it.

    >>> quoted("letters"), quoted("smollm2-135m, reveal Well?")
    ('letters', '“smollm2-135m, reveal Well?”')
    """
    return f"“{name}”" if len(name) > LONG_NAME or re.search(r"[\s?]", name) else name


def commonest(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The three names with the largest counts, and these; of equal counts the first by name.

    >>> commonest({"no": 1, "yes": 2, "maybe": 1, "I": 1})
    [('yes', 2), ('I', 1), ('maybe', 1)]
    """
    return sorted(counts.items(), key=lambda named: (-named[1], named[0]))[:3]


def or_dash(value: float, form: str = ".2f") -> str:
    """A number in its form, or a dash for NaN."""
    return "–" if math.isnan(value) else format(value, form)


def shown(value: float) -> str:
    """Three decimals, two digits of what is smaller, and one decimal from 100 on.

    >>> [shown(one) for one in (0.5, 0.00042, 0.0, -0.0, 123.456)]
    ['0.500', '4.2e-04', '0.000', '0.000', '123.5']
    """
    if math.isnan(value):
        return "-"
    if value and abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:z.{1 if abs(value) >= 100 else 3}f}"


def shown_error(nat: float) -> str:
    """A numerical error in one digit.

    >>> shown_error(2.4e-7), shown_error(0.0)
    ('2e-07', '0')
    """
    return f"{nat:.0e}" if nat else "0"


def shown_size(n: int) -> str:
    """A large count in three digits.

    >>> shown_size(134_515_008)
    '135M'
    """
    for unit, name in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if n >= unit:
            return f"{n / unit:.3g}{name}"
    return str(n)
