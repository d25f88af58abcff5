"""Settings files: YAML read safely into frozen models that refuse what they do not know."""

from collections.abc import Iterable
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from .documents import read_text, repeated
from .errors import UserError, closest, in_one_line, nearest


class _OneLine(type(BaseModel)):  # pyright: ignore[reportGeneralTypeIssues]
    """Settings that a user makes say what is wrong with them in a line, as those of a file do. Settings within others
    are not made by a call: their faults are told with the place of each.
    """

    if not TYPE_CHECKING:  # to a type checker the arguments are those of the model

        def __call__(cls, *args: Any, **values: Any) -> Any:
            """Raise UserError for a fault."""
            try:
                return super().__call__(*args, **values)
            except ValidationError as error:
                raise UserError(_lines(cls, error, cls.__name__)) from None


class Settings(BaseModel, metaclass=_OneLine):
    """Base of every settings model: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


S = TypeVar("S", bound=Settings)
SHOWN = 60
"""Characters of a wrong value that a message repeats."""
MOST_NODES = 100_000
"""Values of a YAML file, with what its aliases repeat."""
MOST_CHARACTERS = 2_000_000
"""Of a YAML file: more takes longer than anybody waits."""


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, and aliases that would grow without end."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping of the document."""
        keys = (key for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        twice = repeated(key.value for key in keys if key.tag != "tag:yaml.org,2002:merge")
        if twice is not None:
            raise ValueError(f"key {twice!r} is there twice, at line {node.start_mark.line + 1} and below")
        return super().construct_mapping(node, deep)

    def compose_document(self) -> yaml.Node | None:
        """The whole, measured before it is built."""
        node = super().compose_document()
        if node is not None and _size(node, {}) > MOST_NODES:
            raise ValueError(f"it holds more than {MOST_NODES:,} values")
        return node


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for, an alias each time anew."""
    if known.get(id(node)) == 0:
        raise ValueError(f"an alias at line {node.start_mark.line + 1} holds itself")
    if id(node) not in known:
        known[id(node)] = 0
        n = 1
        if isinstance(node, yaml.CollectionNode):
            inner = [child for pair in node.value for child in (pair if isinstance(pair, tuple) else (pair,))]
            n += sum(_size(child, known) for child in inner)
        known[id(node)] = n
    return known[id(node)]


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds."""
    data = parse_yaml(read_text(path, MOST_CHARACTERS), path)
    if not isinstance(data, dict):
        raise UserError(f"{path}: holds {type(data).__name__}, not `key: value` lines")
    return data


def parse_yaml(text: str, where: object) -> Any:
    """What a YAML text holds. Raises UserError, which begins with `where`, if it is none."""
    with in_one_line(f"{where}: not valid YAML"):
        return deepcopy(_parsed(text)) if len(text) < SHORT else yaml.load(text, _Loader)


SHORT = 20_000
"""Characters of a text that is parsed once, as shipped files are, however often it is asked for."""


@lru_cache(maxsize=32)
def _parsed(text: str) -> Any:
    return yaml.load(text, _Loader)


def parse(model: type[S], data: dict[str, Any], where: str) -> S:
    """Build `model` from `data`; every fault becomes one line that names `where` and the key."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UserError(_lines(model, error, where)) from None


def _lines(model: type[BaseModel], error: ValidationError, where: str) -> str:
    """The first faults, without those of a whole that only follow from faults of its parts."""
    faults = error.errors()
    places = [fault["loc"] for fault in faults]
    deepest = [
        fault
        for fault in faults
        if not any(len(place) > len(fault["loc"]) and place[: len(fault["loc"])] == fault["loc"] for place in places)
    ]
    return "; ".join(_line(model, fault, where) for fault in deepest[:3])


def _line(model: type[BaseModel], fault: Any, where: str) -> str:
    key = ".".join(str(part) for part in fault["loc"]) or "(top level)"
    if fault["type"] == "extra_forbidden":
        return f"{where}: unknown key {key!r}; {_suggestion(str(fault['loc'][-1]), _at(model, fault['loc'][:-1]))}"
    short = isinstance(fault["input"], str | int | float) and len(str(fault["input"])) <= SHOWN
    given = f", given {fault['input']!r}" if short else ""
    return f"{where}: {key}: {fault['msg'].removeprefix('Value error, ')}{given}"


def as_seed(seed: object) -> int:
    """A seed, which is the same everywhere: a whole number from 0 to 2**32 - 1. The same seed draws the same, and more
    draws begin with the same ones. Raises UserError for anything else.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise UserError(f"seed {seed!r}: give a whole number from 0 to 2**32 - 1")
    return int(seed)


def placeholders(*names: str) -> AfterValidator:
    """Of a text of settings, `Annotated[str, placeholders("claim")]`: no other `{name}` stands in it."""
    return AfterValidator(lambda text: _with_placeholders(text, names))


def check_placeholders(key: str, text: str, names: Iterable[str]) -> None:
    """The same of the text at `key`, where its placeholders hang on other settings. Raises ValueError."""
    try:
        _with_placeholders(text, names)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _with_placeholders(text: str, names: Iterable[str]) -> str:
    """The text. Raises ValueError for a placeholder `{name}` that is none of the names, or says more."""
    listed = " ".join(f"{{{name}}}" for name in names)
    try:
        parts = [part for part in Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise ValueError(f"{error}; the placeholders are {listed}, a brace is written twice") from None
    for _, name, width, conversion in parts:
        placeholder = f"{name}{f'!{conversion}' if conversion else ''}{f':{width}' if width else ''}"
        if f"{{{placeholder}}}" not in listed.split():
            raise ValueError(f"placeholder {placeholder!r} is not one of {listed}")
    return text


def _suggestion(name: str, model: type[BaseModel]) -> str:
    """What an unknown key may have meant: the same key of settings one level below, in full; else the closest of the
    model's own, or of those below; all of its own when none is close.
    """
    fields = list(model.model_fields)
    below: dict[str, list[str]] = {}
    for outer in fields:
        inner = _at(model, (outer,))
        for key in inner.model_fields if inner is not model else ():
            below.setdefault(key, []).append(f"{outer}.{key}")
    close = name if name in below else None if closest(name, fields) else closest(name, below)
    return f"did you mean {' or '.join(map(repr, below[close]))}?" if close else nearest(name, fields)


def _at(model: type[BaseModel], path: tuple[str | int, ...]) -> type[BaseModel]:
    """The settings at `path` below `model`."""
    for part in path:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        for annotation in (inner, *get_args(inner)):  # optional settings are a union
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                model = annotation
    return model
