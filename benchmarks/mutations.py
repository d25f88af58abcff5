"""Small changes of a source, of which each ought to make a difference, and how a process is given one of them.

Comparisons, arithmetic, `and` and `or`, `not`, signs, numbers and truth values are exchanged. What no test should see
is left alone: annotations, decorators, assertions, the texts of errors and whatever else is written into a text,
`strict` of `zip`, and what is multiplied by 1.
"""

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

SWAPS: dict[type[ast.AST], type[Any]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult},
}
UNSEEN_NODES = (ast.Raise, ast.Assert, ast.JoinedStr)
UNSEEN_FIELDS = ("annotation", "returns", "decorator_list", "keywords of a class")
UNSEEN_WORDS = ("strict", "stacklevel", "maxsize")
UNSEEN_CALLS = ("UserError", "warn", "cast")

Functions = Mapping[tuple[str, str, int], Sequence[FunctionType]]
"""(file, qualified name, first line) -> the functions of that code."""


class Site(NamedTuple):
    """A place in a syntax tree that can be changed."""

    node: Any
    way: int
    lines: frozenset[int]
    """Those of the node, and the first of its statement."""
    function: tuple[str, int] | None
    """Qualified name and first line of the outermost function around it; None where it runs at import."""


class Mutant(NamedTuple):
    """A change of a file, by its number among those of the file."""

    file: str
    number: int
    line: int
    lines: frozenset[int]
    function: tuple[str, int] | None
    before: str
    after: str


def mutants(file: Path, root: Path) -> Iterator[Mutant]:
    """All changes of a file, in the same order for the same source."""
    number = 0
    for site in _sites(ast.parse(file.read_text(encoding="utf-8"))):
        before = ast.unparse(site.node)
        kept = {name: _copied(value) for name, value in ast.iter_fields(site.node)}
        if after := _changed(site.node, site.way):
            for name, value in kept.items():
                setattr(site.node, name, value)
            place = str(file.relative_to(root))
            yield Mutant(place, number, site.node.lineno, site.lines, site.function, before, after)
            number += 1


def _copied(value: object) -> object:
    return [*value] if isinstance(value, list) else value


def mutated(source: str, number: int) -> ast.Module:
    """The tree of a source with the change of that number."""
    tree = ast.parse(source)
    for site in _sites(tree):
        kept = {name: _copied(value) for name, value in ast.iter_fields(site.node)}
        if _changed(site.node, site.way):
            if number == 0:
                return ast.fix_missing_locations(tree)
            for name, value in kept.items():
                setattr(site.node, name, value)
            number -= 1
    raise LookupError(number)


def _sites(tree: ast.Module) -> list[Site]:
    """Both ways of every node that tests should see, in the order of the source."""
    return [Site(node, way, *place) for node, *place in _nodes(tree, (), None, 0) for way in range(2)]


def _nodes(node: Any, names: tuple[str, ...], function: tuple[str, int] | None, statement: int) -> Iterator[Any]:
    if isinstance(node, UNSEEN_NODES) or _is_unseen(node):
        return
    statement = node.lineno if isinstance(node, ast.stmt) else statement
    if isinstance(node, (ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Constant)):
        yield node, frozenset(range(node.lineno, (node.end_lineno or node.lineno) + 1)) | {statement}, function
    named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    inside = (*names, node.name) if named else names
    for name, value in ast.iter_fields(node):
        if name in UNSEEN_FIELDS or (isinstance(node, ast.ClassDef) and name == "keywords"):
            continue
        within, place = names, function
        if named and name == "body":
            within = inside
            if function is None and not isinstance(node, ast.ClassDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                place = (".".join(inside), first)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child, within, place, statement)


def _is_unseen(node: Any) -> bool:
    match node:
        case ast.keyword(arg=word):
            return word in UNSEEN_WORDS
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in UNSEEN_CALLS
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _changed(node: Any, way: int) -> str:
    """Change a node, and say how; empty if there is no such change of it."""
    match node:
        case ast.Compare() if way < len(node.ops) and type(node.ops[way]) in SWAPS:
            node.ops[way] = SWAPS[type(node.ops[way])]()
        case ast.BinOp(op=ast.Mult() | ast.Div(), right=ast.Constant(value=1)):
            return ""
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


def install(mutant: Mutant, root: Path, functions: Functions | None) -> None:
    """Give this process a mutant: its code to the functions that are loaded, or, without them, the package anew."""
    path = str(root / mutant.file)
    tree = mutated(Path(path).read_text(encoding="utf-8"), mutant.number)
    code = compile(tree, path, "exec")
    if functions is not None:
        _replace(code, path, functions, mutant.function)
        return
    for name in [name for name in sys.modules if name.partition(".")[0] == "doxascope"]:
        del sys.modules[name]
    before = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        return code if loader.path == path else before(loader, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore


def _replace(code: CodeType, path: str, functions: Functions, wanted: tuple[str, int] | None) -> None:
    """The functions of a code, and of all that lies within it; of a module, of the wanted one alone."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            key = (inner.co_qualname, inner.co_firstlineno)
            if wanted in (None, key):
                for function in functions.get((path, *key), ()):
                    function.__code__ = inner
                _replace(inner, path, functions, None)
            elif wanted is not None and wanted[0].startswith(f"{inner.co_qualname}."):
                _replace(inner, path, functions, wanted)
