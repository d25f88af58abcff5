"""Networks in the Bayesian Interchange Format, as the public repositories have them."""

import itertools
import re
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np

from ....hooks.documents import read_text
from ....hooks.errors import UserError
from .network import Network, make_network

MOST_BYTES = 10_000_000
"""Of a file: the largest public networks take two."""
MOST_VARIABLES = 5000
"""The largest public networks have a thousand."""
MOST_CELLS = 2**24
"""Of all tables together: a default fills what no file could hold."""
# Whatever a text holds, each of these takes a time that grows as its length.
COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
INCLUDE = re.compile(r"^[ \t]*(?:#[ \t]*)?include\b.*$", re.MULTILINE)
NETWORK = re.compile(r"\bnetwork\s+(?:\"[^\"]*\"|\S+)\s*\{[^{}]*\}", re.DOTALL)
VARIABLE = re.compile(
    r"\bvariable\s+(?P<name>\"[^\"]*\"|[^\s{]+)\s*\{\s*type\s+discrete\s*\[\s*(?P<n>\d{1,9})\s*\]\s*"
    r"\{(?P<states>[^{}]*)\}\s*;(?:\s*property[^;]*;)*\s*\}",
    re.DOTALL,
)
PROBABILITY = re.compile(r"\bprobability\s*\((?P<of>[^()]*)\)\s*\{(?P<body>[^{}]*)\}", re.DOTALL)
ENTRY = re.compile(r"\s*(?:\((?P<given>[^()]*)\)|(?P<word>table|default)\b)(?P<numbers>.*)", re.DOTALL)
PROPERTY = "property"


def load_bif(path: Path) -> Network:
    """The network of a `.bif` or `.bif.gz` file.

    Raises UserError if it cannot be read, is larger than `MOST_BYTES`, includes other files, or holds what is no
    discrete network; and as `make_network` does.
    """
    return parse_bif(read_text(path, MOST_BYTES), str(path))


def parse_bif(text: str, where: str = "BIF") -> Network:
    """The network that a text describes. Raises UserError as `load_bif` does."""
    text = COMMENT.sub(" ", text)
    if found := INCLUDE.search(text):
        raise UserError(f"{where}: line {found[0].strip()!r} includes another file; write the network into one")
    states: dict[str, list[str]] = {}
    for found in VARIABLE.finditer(text):
        name, own = _bare(found["name"]), _names(found["states"])
        if len(own) != int(found["n"]):
            raise UserError(f"{where}: variable {name!r} says {found['n']} states and lists {len(own)}")
        if name in states:
            raise UserError(f"{where}: variable {name!r} is there twice; remove one")
        states[name] = own
    if len(states) > MOST_VARIABLES:
        raise UserError(f"{where}: has {len(states):,} variables; give a network of at most {MOST_VARIABLES:,}")
    if not states:
        raise UserError(f"{where}: declares no discrete variable; give a network in BIF")
    parents: dict[str, list[str]] = {}
    tables: dict[str, np.ndarray] = {}
    cells = 0
    for found in PROBABILITY.finditer(text):
        of, _, given = found["of"].partition("|")
        name = _bare(of)
        unknown = [one for one in (name, *_names(given)) if one not in states]
        if unknown:
            raise UserError(f"{where}: a probability names {unknown[0]!r}, which is no variable")
        if name in tables:
            raise UserError(f"{where}: probability of {name!r} is there twice; remove one")
        parents[name] = _names(given)
        cells += prod(len(states[one]) for one in (name, *parents[name]))
        if cells > MOST_CELLS:
            raise UserError(f"{where}: probability of {name!r}: the tables have more than {MOST_CELLS:,} cells")
        tables[name] = _rows(name, parents[name], found["body"], states, where)
    rest = PROBABILITY.sub("", VARIABLE.sub("", NETWORK.sub("", text))).split()
    if rest:
        raise UserError(f"{where}: cannot be understood from {' '.join(rest[:6])!r} on")
    return make_network(states, parents, tables, where)


def _rows(name: str, parents: list[str], body: str, states: dict[str, list[str]], where: str) -> np.ndarray:
    """[configurations of the parents, states]; rows may come in any order."""
    shape = [len(states[one]) for one in (*parents, name)]
    table, written = np.full(shape, np.nan), set[tuple[int, ...]]()
    place = f"{where}: probability of {name!r}"
    for word, given, numbers in _entries(body, place):
        if word == "default":
            table[np.isnan(table).any(axis=-1)] = _of_length(numbers, shape[-1], place)
        elif word == "table":
            # The one table of a variable with parents has the variable's own states slowest.
            values = _of_length(numbers, prod(shape), place)
            table[...] = np.moveaxis(values.reshape(shape[-1:] + shape[:-1]), 0, -1)
        else:
            said = _names(given)
            for parent, state in itertools.zip_longest(parents, said):
                if parent is None or state not in states[parent]:
                    raise UserError(f"{place}: state {state!r} of {parent!r} is unknown")
            at = tuple(states[parent].index(state) for parent, state in zip(parents, said, strict=True))
            if at in written:
                raise UserError(f"{place}: the row of {given.strip()!r} is there twice; remove one")
            written.add(at)
            table[at] = _of_length(numbers, shape[-1], place)
    if np.isnan(table).any():
        raise UserError(f"{place}: a row is missing; give one for each configuration of {', '.join(parents) or name}")
    return table


def _entries(body: str, place: str) -> Iterator[tuple[str, str, list[float]]]:
    """(`table`, `default` or nothing, the states of the parents, numbers) of each line that ends in a semicolon."""
    *parts, rest = body.split(";")
    if rest.strip():
        raise UserError(f"{place}: {rest.strip()!r} does not end in a semicolon")
    for part in filter(str.strip, parts):
        entry = ENTRY.fullmatch(part)
        if entry is None and part.split()[0] != PROPERTY:
            raise UserError(f"{place}: cannot be understood from {part.strip()!r} on")
        if entry is not None:
            try:
                numbers = [float(one) for one in entry["numbers"].replace(",", " ").split()]
            except ValueError:
                raise UserError(f"{place}: {entry['numbers'].strip()!r} are not numbers") from None
            yield entry["word"] or "", entry["given"] or "", numbers


def _of_length(numbers: list[float], n: int, place: str) -> np.ndarray:
    if len(numbers) != n:
        raise UserError(f"{place}: has {len(numbers)} numbers where {n} belong")
    return np.array(numbers)


def _names(text: str) -> list[str]:
    return [_bare(one) for one in text.split(",")] if text.strip() else []


def _bare(text: str) -> str:
    return text.strip().strip('"')
