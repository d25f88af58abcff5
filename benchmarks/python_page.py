"""Every public name of doxascope with its signature, as docs/python.md has them below its first part.

python benchmarks/python_page.py          writes the page anew; a test compares it
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import doxascope

PAGE = Path(__file__).parents[1] / "docs" / "python.md"
MARK = "<!-- below: python benchmarks/python_page.py -->\n"
WIDTH = 100
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
LITERAL = re.compile(r"""'((?:[^'\\]|\\.)*)'|"(?:[^"\\]|\\.)*\"""")
UNPACKED = re.compile(r"\*<class '?(\w+)'?>|Unpack\[(\w+)\]")
"""Of `**where`, which versions of Python write in several ways."""
DEFINED = re.compile(r"METRICS ([A-Z]\d+)")
"""A section of the definitions, as docstrings name it."""
WRITTEN_OUT = {"Union[numpy._typing": "ArrayLike", "numpy.ndarray[tuple[Any, ...]": "Array", "Annotated[": None}
"""How types begin that their libraries write out, and their names; None: the first of what is in the brackets."""
FIRST = ("load", "run", "open_run", "sweep", "collect", "score", "compare", "export", "probe_arrays")
MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")
"""What stands before a class in an annotation."""


def reference() -> str:
    """The generated part of the page."""
    values = {name: getattr(doxascope, name) for name in doxascope.__all__ if name != "metrics"}
    functions = [*FIRST, *(name for name in values if inspect.isfunction(values[name]) and name not in FIRST)]
    classes = [name for name, value in values.items() if inspect.isclass(value)]
    rest = [name for name in values if name not in (*functions, *classes)]
    parts = ["## Functions\n", *(part for name in functions for part in _entry(name, values[name]))]
    parts += ["## Classes\n", *(part for name in classes for part in _of_class(name, values[name]))]
    parts += ["## Further\n", *(f"- `{name}`, a {type(values[name]).__name__}" for name in rest)]
    parts += ["- `metrics`, a module: [its pages](metrics/README.md)\n"]
    return "\n".join(parts)


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"### `{name}`\n"
    yield f"{sentence(value)}\n"
    yield f"```text\n{signature(name, value)}\n```\n"


def _of_class(name: str, value: type) -> Iterator[str]:
    yield from _entry(name, value)
    for own, member in sorted(vars(value).items()):
        inner = getattr(member, "__func__", member)
        if own.startswith(("_", "model_")) or not (inspect.isfunction(inner) or isinstance(member, property)):
            continue
        told = sentence(member)
        if isinstance(member, property):
            yield f"- `.{own}`: {told}"
        else:
            yield f"- `.{signature(own, inner, one_line=True)}`: {told}"
    yield ""


def sentence(value: Any) -> str:
    """The first sentence of a docstring."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    first = re.split(r"(?<=[.:?!]) (?=[A-Z])", text)[0]
    return DEFINED.sub(r"[\1](metrics/definitions.md)", first.removesuffix(":").rstrip(".") + ".")


def signature(name: str, value: Any, *, one_line: bool = False) -> str:
    """As it is called, without modules and without `self`."""
    try:
        known = inspect.signature(value)
    except ValueError:
        return f"{name}(...)"
    parameters = [one for one in known.parameters.values() if one.name not in ("self", "cls")]
    texts = [_clean(str(one)) for one in parameters]
    keyword = next((i for i, one in enumerate(parameters) if one.kind is one.KEYWORD_ONLY), None)
    if keyword is not None and not any(one.kind is one.VAR_POSITIONAL for one in parameters):
        texts.insert(keyword, "*")
    returned = "" if known.return_annotation is known.empty or inspect.isclass(value) else f" -> {_type(known)}"
    line = f"{name}({', '.join(texts)}){returned}"
    if one_line or len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {text}," for text in texts), f"){returned}"])


def _type(known: inspect.Signature) -> str:
    annotation = known.return_annotation
    return _clean(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


def _clean(text: str) -> str:
    text = _short(ADDRESS.sub("", MODULES.sub("", text)))
    text = LITERAL.sub(lambda found: found[0] if '"' in found[0] else f'"{found[1]}"', text)
    text = UNPACKED.sub(lambda found: f"Unpack[{found[1] or found[2]}]", text)
    return re.sub(r'"([A-Z]\w*(?:\[.*?\])?)"', r"\1", text).replace("<factory>", "...")


def _short(text: str) -> str:
    """With the names of types that are written out."""
    for beginning, name in WRITTEN_OUT.items():
        while (start := text.find(beginning)) >= 0:
            depth, end = 1, text.index("[", start)
            parts = [end]
            while depth:
                end += 1
                depth += (text[end] == "[") - (text[end] == "]")
                if text[end] == "," and depth == 1:
                    parts.append(end)
            text = text[:start] + (name or text[parts[0] + 1 : parts[1]]) + text[end + 1 :]
    return text


def whole() -> str:
    """The page, its first part as it is."""
    return PAGE.read_text(encoding="utf-8").partition(MARK)[0] + MARK + "\n" + reference()


if __name__ == "__main__":
    PAGE.write_text(whole(), encoding="utf-8")
