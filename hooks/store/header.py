"""What a store holds, and under which conditions it was captured. Two batches lie in one store only if both agree."""

import importlib.metadata
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, cast

from ... import __version__
from ..errors import UserError
from ..identity import Identity
from ..settings import Settings, parse
from .dtypes import DType

NAME = "store.json"
PACKAGES = {"torch", "transformers", "tokenizers", "transformer-lens", "nnsight"}
Commits = Literal["commits.jsonl", "../commits.jsonl"]
"""Where the commit lines are: beside the parts, or in the run whose beliefs count together with them."""


class Header(Settings):
    """Of a store, in `store.json` and again in every part, which so says what it is wherever it is found."""

    format: Literal[1] = 1
    commits: Commits = "commits.jsonl"
    sites: tuple[str, ...]
    layers: tuple[int, ...]
    d_model: int
    dtype: DType
    conditions: dict[str, Any]
    """Model and tokenizer, template, kernel, versions: all that changes the numbers, as JSON has it."""


def store_header(
    identity: Identity, *, sites: Iterable[str], layers: Iterable[int], commits: Commits = "commits.jsonl"
) -> Header:
    """The header of what is captured from a loaded model, with the versions of what touches the numbers."""
    installed = {found.name: found.version for found in importlib.metadata.distributions() if found.name in PACKAGES}
    return Header(
        commits=commits,
        sites=tuple(sites),
        layers=tuple(layers),
        d_model=identity.d_model,
        dtype=cast(DType, identity.dtype),
        conditions={
            "model": identity.model_dump(mode="json"),
            "versions": {"doxascope": __version__, **dict(sorted(installed.items()))},
        },
    )


def read_header(folder: Path) -> Header:
    """The header of the store in `folder`. Raises UserError if there is none that can be understood."""
    path = folder / NAME
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{folder}: is not an activation store (no {NAME})") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error}); restore it from a copy") from error
    return parse(Header, data, str(path))
