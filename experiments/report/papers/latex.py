"""Tables as papers print them, in LaTeX."""

import re
from collections.abc import Iterator, Sequence

from .paper_tables import PaperTable


def as_latex(table: PaperTable) -> str:
    """A `tabular` within a `table`, for the package booktabs; each interval under its number."""
    n = len(table.labels)
    groups = [group for group, _ in table.columns]
    head = [*table.labels, *(name for _, name in table.columns)]
    of = f"{table.number} of {table.paper}"
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_tex(f'{table.caption} ({of}.)')}}}"]
    lines.append(rf"\label{{tab:{'-'.join(re.findall(r'[a-z0-9]+', f'{table.paper} {table.number}'.lower()))}}}")
    lines += [rf"\begin{{tabular}}{{{'l' * n}{'r' * len(groups)}}}", r"\toprule"]
    if any(groups):
        lines.append(" & ".join([""] * (n - 1) + [""] + list(_spans(groups))) + r" \\")
    lines += [" & ".join(map(_tex, head)) + r" \\", r"\midrule"]
    for labels, cells in table.rows:
        lines.append(" & ".join(map(_tex, [*labels, *(cell.text for cell in cells)])) + r" \\")
        if any(cell.below for cell in cells):
            small = [rf"{{\scriptsize {_tex(cell.below)}}}" if cell.below else "" for cell in cells]
            lines.append(" & ".join([""] * n + small) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", *(rf"\par {_tex(note)}" for note in table.told), r"\end{table}"]
    return "\n".join(lines)


def _spans(groups: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(groups):
        width = next((i for i, group in enumerate(groups[at:]) if group != groups[at]), len(groups) - at)
        yield rf"\multicolumn{{{width}}}{{c}}{{{_tex(groups[at])}}}" if width > 1 else _tex(groups[at])
        at += width


TEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "✓": r"$\checkmark$",
    "–": "--",
    "|": r"$|$",
    "<": r"$<$",
    ">": r"$>$",
    "≥": r"$\ge$",
    "π": r"$\pi$",
    "ρ": r"$\rho$",
    "θ": r"$\theta$",
    "Δ": r"$\Delta$",
    "↑": r"$\uparrow$",
    "²": r"$^2$",
    "±": r"$\pm$",
}
"""Letters that LaTeX would read as something else."""

MARKS = {
    r'"([^"]*)"': r"``\1''",
    r"(?<![\w.-])(\d+) - (?=\w)": r"\1 $-$ ",
    r" - ": " -- ",
    r"(?<![\w.-])-(?=\d)": "$-$",
}
"""Quotes, and the signs that are one letter on a keyboard: minus and dash."""


def _tex(text: str) -> str:
    found = "".join(TEX.get(letter, letter) for letter in " ".join(text.split()))
    for what, written in MARKS.items():
        found = re.sub(what, written, found)
    return found
