"""`llms.txt`, from which an agent finds its way: the pages of docs/README.md, each with what it is for.

python benchmarks/llms_txt.py          writes the file anew; a test compares it
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "llms.txt"
LINK = re.compile(r"\[([^]]+)\]\(([^)#]+)(?:#[^)]*)?\)")
FIRST = """# doxascope

> Beliefs of open language models, read exactly from their logits and activations: option probabilities of any
> question, coherence tests with error bars, probes, steering. Python 3.11 or newer; `doxascope --help` has the
> commands, and `doxascope mcp` serves agents.

A user's mistake is one line that says what is wrong, where, and what to do (exit code 2; `UserError` in Python). Code
of a model never runs unless the command line says so. What a number means, and when it misleads, stands in its
definition.
"""


def llms_txt() -> str:
    """The text of the file."""
    parts, named = [FIRST], ""
    for line in (ROOT / "docs" / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            parts.append(f"\n{line}\n")
        if line.startswith(("| ", "- ", *(f"{n}. " for n in range(10)))):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            named = LINK.sub(r"\1", cells[0]).lstrip("-0123456789. ") if len(cells) > 1 else ""
            for title, target in LINK.findall(line):
                place = (ROOT / "docs" / target).resolve().relative_to(ROOT)
                plain = LINK.sub(r"\1", line).lstrip("-0123456789. ")
                parts.append(f"- [{title}]({place.as_posix()}): {named or plain.removeprefix(f'{title}: ')}")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    FILE.write_text(llms_txt(), encoding="utf-8")
