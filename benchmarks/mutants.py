"""Mutation score: small changes of the code, one at a time, each of which the tests have to notice.

    python benchmarks/mutants.py metrics/tables/truths.py --tests tests/experiments/materials/test_choices.py
    python benchmarks/mutants.py metrics/divergence.py --tests tests/metrics/test_divergence.py --since HEAD~9 --most 30

Comparisons, arithmetic, `and` and `or`, `not`, signs, numbers and truth values are exchanged. No file is touched: the
tests run in a forked process that compiles the changed source in its place. With `--since` only lines that have changed
since that commit are taken; of more than `--most` a sample, by `--seed`. Survivors are shown with their line: each
wants a test, or an explanation why the change changes nothing.
"""

import argparse
import ast
import contextlib
import multiprocessing
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent.parent
SWAPS: dict[type[ast.AST], type[Any]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult},
}
NONE = -1
"""The number of the code as it is."""
LOADED = ("numpy", "scipy.stats", "pandas", "hypothesis", "pyarrow", "torch", "transformers", "sklearn", "statsmodels")
"""Libraries that are loaded once, and not for each mutant anew."""
FORK = multiprocessing.get_context("fork")


def mutants(source: str) -> Iterator[tuple[int, str, ast.Module]]:
    """Line, what is changed, and the changed module; the same order for the same source."""
    known = (ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Constant)
    for i in [i for i, node in enumerate(ast.walk(ast.parse(source))) if isinstance(node, known)]:
        for way in range(2):
            tree = ast.parse(source)
            nodes: Any = list(ast.walk(tree))
            if told := _changed(nodes[i], way):
                yield nodes[i].lineno, told, tree


def _changed(node: Any, way: int) -> str:
    """Change a node, and say how; empty if there is no such change of it."""
    match node:
        case ast.Compare() if way < len(node.ops) and type(node.ops[way]) in SWAPS:
            node.ops[way] = SWAPS[type(node.ops[way])]()
        case ast.BinOp() | ast.BoolOp() if way == 0 and type(node.op) in SWAPS:
            node.op = SWAPS[type(node.op)]()
        case ast.UnaryOp(op=ast.Not() | ast.USub()) if way == 0:
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
            if isinstance(node.op, ast.Not):
                node.operand = ast.UnaryOp(ast.Not(), node.operand, lineno=node.lineno, col_offset=node.col_offset)
        case ast.Constant(value=bool()) if way == 0:
            node.value = not node.value
        case ast.Constant(value=int() | float() as value) if way == 0:
            node.value = value + 1
        case _:
            return ""
    return ast.unparse(node)


class _Mutated(SourceFileLoader):
    """Compiles the chosen mutant of a file."""

    def __init__(self, name: str, path: str, number: int) -> None:
        super().__init__(name, path)
        self.number = number

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text(encoding="utf-8")
        tree = next(tree for i, (_, _, tree) in enumerate(mutants(source)) if i == self.number)
        return compile(ast.fix_missing_locations(tree), self.path, "exec")


def install(path: Path, number: int) -> None:
    """Have the chosen file compiled as its mutant, whoever imports it."""
    before = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        if not isinstance(loader, _Mutated) and Path(loader.path).resolve() == path:
            return _Mutated(fullname, loader.path, number).get_code(fullname)
        return before(loader, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore


def survives(path: Path, number: int, tests: Sequence[str], seconds: float) -> bool:
    """Whether the tests pass on a mutant."""
    process = FORK.Process(target=_tried, args=(path, number, tests))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode == 0


def _tried(path: Path, number: int, tests: Sequence[str]) -> None:
    """In a process of its own, silently: it ends as the tests do."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.chdir(HERE)
    if number != NONE:
        install(path, number)
    os._exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests]))


def changed_lines(path: Path, since: str) -> set[int]:
    """Lines of a file that a commit has otherwise."""
    command = ["git", "diff", "-U0", since, "--", str(path)]
    told = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout
    hunks = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", told, re.MULTILINE)
    return {int(start) + i for start, n in hunks for i in range(int(n or 1))}


def main(arguments: Sequence[str]) -> int:
    """Count the killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--since")
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300, help="of the tests; a mutant that takes longer is killed")
    given = parser.parse_args(arguments)
    for name in LOADED:
        with contextlib.suppress(ImportError):
            import_module(name)
    print(f"`python benchmarks/mutants.py {' '.join(arguments)}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n")
    found: list[tuple[Path, int, int, str]] = []
    for path in (file.resolve() for file in given.files):
        lines = changed_lines(path, given.since) if given.since else None
        every = enumerate(mutants(path.read_text(encoding="utf-8")))
        found += [(path, i, line, told) for i, (line, told, _) in every if lines is None or line in lines]
    taken = random.Random(given.seed).sample(found, min(given.most, len(found)))
    if not survives(Path(), NONE, given.tests, given.seconds):
        raise SystemExit(f"{' '.join(given.tests)}: fail on the code as it is")
    left = [one for one in sorted(taken) if survives(one[0], one[1], given.tests, given.seconds)]
    print(f"{len(taken)} of {len(found)} mutants, {len(taken) - len(left)} killed ({1 - len(left) / len(taken):.2f})")
    for path, _, line, told in left:
        print(f"- survives: {path.relative_to(HERE)}:{line}: `{told}`")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
