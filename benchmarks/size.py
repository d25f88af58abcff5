"""How large the product is and how its rooms hang together: files, lines, arrows between rooms, circles of files.

python benchmarks/size.py [--json] [--max-lines 60000] [--max-files 340] [--max-arrows 30]

A room is one of `base`, `metrics`, `hooks`, `probes` and the folders of `experiments`. An arrow is at least one import
from a room into another that is followed when the code runs, at its top or inside a function; what only a type checker
reads is no arrow. A circle is a set of files that import each other. Exits with 1 where a limit is passed.
"""

import argparse
import ast
import json
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("base", "metrics", "hooks", "probes", "experiments")
LONG, SHORT = 430, 40
VAGUE = frozenset({"one", "own", "found", "told", "made", "mine", "said", "held"})
"""Local names that do not say what the thing is."""


@dataclass
class Lines:
    """Of some files: how many, and what their lines hold. A line of code is none of the others."""

    files: int = 0
    lines: int = 0
    docstrings: int = 0
    imports: int = 0
    blank: int = 0
    comments: int = 0
    code: int = 0

    def add(self, other: "Lines") -> None:
        """Count those of other files, too."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class House:
    """What `measure` finds."""

    rooms: dict[str, Lines]
    arrows: dict[tuple[str, str], list[str]]
    """(from, to) -> the files that import, sorted."""
    circles: list[list[str]]
    total: Lines = field(default_factory=Lines)
    long: dict[str, int] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)
    functions: int = 0
    vague: int = 0

    @property
    def order(self) -> list[str] | None:
        """The rooms, each after all that it imports; None where arrows run in a circle."""
        targets = {room: {to for source, to in self.arrows if source == room} for room in self.rooms}
        ordered: list[str] = []
        while len(ordered) < len(targets):
            free = [room for room in targets if room not in ordered and targets[room] <= {*ordered}]
            if not free:
                return None
            ordered += free
        return ordered


def room_of(file: Path) -> str:
    """The room of a file, by its path from the root."""
    folder, *rest = file.parts
    return f"{folder}/{rest[0]}" if folder == "experiments" and len(rest) > 1 else folder


def lines_of(text: str, tree: ast.Module) -> Lines:
    """What the lines of a file hold."""
    rows = text.splitlines()
    docstrings, imports = set[int](), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    blank = {i for i, row in enumerate(rows, 1) if not row.strip()} - docstrings
    tokens = tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__)
    comments = {
        token.start[0] for token in tokens if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
    }
    counts = (len(docstrings), len(imports), len(blank), len(comments))
    return Lines(1, len(rows), *counts, code=len(rows) - sum(counts))


def imported(file: Path, tree: ast.Module, files: frozenset[Path]) -> Iterator[Path]:
    """The files of the product that a file imports when it runs."""
    blocks = (node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    for_types = {id(inner) for block in blocks for statement in block.body for inner in ast.walk(statement)}
    for node in ast.walk(tree):
        if id(node) in for_types or not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            folder = file.parents[node.level - 1]
        elif (node.module or "").split(".")[0] == "doxascope":
            folder = Path()
        else:
            continue
        module = folder.joinpath(*(node.module or "").removeprefix("doxascope").strip(".").split("."))
        for name in node.names:
            places = (module / f"{name.name}.py", module / name.name / "__init__.py")
            places += (module.with_suffix(".py") if module.name else module, module / "__init__.py")
            yield from [place for place in places if place in files and place != file][:1]


def circles(graph: dict[Path, set[Path]]) -> list[list[str]]:
    """The strongly connected sets of at least two files (Tarjan 1972)."""
    index: dict[Path, int] = {}
    low: dict[Path, int] = {}
    stack: list[Path] = []
    result: list[list[str]] = []

    def visit(file: Path) -> None:
        index[file] = low[file] = len(index)
        stack.append(file)
        for target in sorted(graph.get(file, ())):
            if target not in index:
                visit(target)
                low[file] = min(low[file], low[target])
            elif target in stack:
                low[file] = min(low[file], index[target])
        if low[file] == index[file]:
            members = stack[stack.index(file) :]
            del stack[stack.index(file) :]
            if len(members) > 1:
                result.append(sorted(map(str, members)))

    for file in sorted(graph):
        if file not in index:
            visit(file)
    return sorted(result)


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Arguments, and names that are given a value in a function."""
    arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    return arguments | {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def measure(root: Path = ROOT) -> House:
    """Read the files of the product below a checkout."""
    files = frozenset(file.relative_to(root) for folder in FOLDERS for file in (root / folder).rglob("*.py"))
    rooms: dict[str, Lines] = {}
    arrows: dict[tuple[str, str], set[str]] = {}
    graph: dict[Path, set[Path]] = {}
    house = House({}, {}, [])
    for file in sorted(files, key=lambda file: (FOLDERS.index(file.parts[0]), file)):
        text = (root / file).read_text(encoding="utf-8")
        tree = ast.parse(text)
        lines = lines_of(text, tree)
        rooms.setdefault(room_of(file), Lines()).add(lines)
        house.total.add(lines)
        if lines.lines > LONG:
            house.long[str(file)] = lines.lines
        elif lines.lines < SHORT and file.name not in ("__init__.py", "__main__.py"):
            house.short[str(file)] = lines.lines
        graph[file] = set(imported(file, tree, files))
        for target in graph[file]:
            if room_of(target) != room_of(file):
                arrows.setdefault((room_of(file), room_of(target)), set()).add(str(file))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                house.functions += 1
                house.vague += bool(local_names(node) & VAGUE)
    # What lies beside the rooms of `experiments/` is no room: an `__init__.py` that holds a sentence.
    house.rooms = {room: lines for room, lines in rooms.items() if lines.imports + lines.code}
    house.circles = circles(graph)
    house.arrows = {arrow: sorted(sources) for arrow, sources in sorted(arrows.items())}
    return house


def table(house: House) -> Iterator[str]:
    """The lines of a Markdown table, and what is not in it."""
    columns = tuple(asdict(Lines()))
    yield "| room | " + " | ".join(columns) + " | imports |"
    yield "|---|" + "---:|" * len(columns) + "---|"
    for room, lines in [*house.rooms.items(), ("all", house.total)]:
        targets = [to.removeprefix("experiments/") for source, to in house.arrows if source == room]
        counts = " | ".join(f"{value:,}" for value in asdict(lines).values())
        yield f"| {room} | {counts} | {', '.join(targets)} |"
    yield ""
    yield f"{len(house.rooms)} rooms, {len(house.arrows)} arrows, " + (
        "in a circle" if house.order is None else "one way"
    )
    yield f"circles of files: {len(house.circles)}"
    yield from (f"  {', '.join(circle)}" for circle in house.circles)
    yield f"files of more than {LONG} lines: {len(house.long)}"
    yield from (f"  {lines} {file}" for file, lines in sorted(house.long.items(), key=lambda pair: -pair[1]))
    yield f"files of fewer than {SHORT} lines: {len(house.short)}"
    yield from (f"  {lines} {file}" for file, lines in sorted(house.short.items(), key=lambda pair: pair[1]))
    share = house.vague / max(house.functions, 1)
    yield f"functions with a local name that says nothing: {house.vague} of {house.functions} ({share:.1%})"


def main() -> int:
    """Measure, print, and judge by the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    for limit in ("lines", "files", "arrows"):
        parser.add_argument(f"--max-{limit}", type=int, help=f"exit with 1 where there are more {limit}")
    given = parser.parse_args()
    house = measure()
    if given.json:
        arrows = [{"from": source, "to": to, "files": files} for (source, to), files in house.arrows.items()]
        print(json.dumps(asdict(house) | {"arrows": arrows}, indent=2))
    else:
        print("\n".join(table(house)))
    sizes = {"lines": house.total.lines, "files": house.total.files, "arrows": len(house.arrows)}
    limits = {name: getattr(given, f"max_{name}") for name in sizes}
    passed = [name for name, limit in limits.items() if limit is not None and sizes[name] > limit]
    for name in passed:
        print(f"{sizes[name]:,} {name}, more than {limits[name]:,}", file=sys.stderr)
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
