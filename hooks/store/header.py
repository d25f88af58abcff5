"""What a store holds, under which conditions it was captured, and in which bits. Two batches lie in one store only
if both agree.
"""

import importlib.metadata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ...base.documents import read_json
from ...base.errors import UserError
from ...base.settings import Settings, parse
from ...base.version import __version__
from ..identity import Identity

if TYPE_CHECKING:
    import torch

OF_OPTION = "option"
"""The position of a row that is about one option: where that option's own text ends, which a store has as `option-0`,
`option-1`, ..., by the number of the option."""
DType = Literal["float32", "float16", "bfloat16"]
Residuals: TypeAlias = "torch.Tensor | NDArray[Any]"
STORED: dict[DType, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
}


def as_stored(values: Residuals, dtype: DType) -> NDArray[Any]:
    """The same bits as an array; a tensor on the CPU is not copied.

    Raises UserError if the values are of another dtype. An array of bfloat16 is given as its uint16 bits.
    """
    if isinstance(values, np.ndarray):
        given, array = values.dtype.name, values
    else:
        import torch

        given, values = str(values.dtype).removeprefix("torch."), values.detach().cpu()
        array = values.view(torch.uint16).numpy() if given == "bfloat16" else values.numpy()
    if array.dtype != STORED[dtype]:
        raise UserError(f"residuals are {given}, the store holds {dtype}; give them as the model computed them")
    return array


def as_float32(stored: NDArray[Any], dtype: DType) -> NDArray[np.float32]:
    """The values, exactly: every float16 and bfloat16 is a float32."""
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32, copy=False)


NAME = "store.json"
HEADS = "head_out"
"""The site whose vectors are the outputs of all heads."""
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
    widths: Mapping[str, int] = {}
    """Of the sites that are not as wide as the residual stream."""
    n_heads: int | None = None
    """Of the model, if the outputs of its heads are kept, side by side."""
    dtype: DType
    conditions: dict[str, Any]
    """Model and tokenizer, template, kernel, versions: all that changes the numbers, as JSON has it."""

    def width(self, site: str) -> int:
        """Of the vectors at a site."""
        return self.widths.get(site, self.d_model)


def store_header(
    identity: Identity,
    *,
    sites: Iterable[str],
    layers: Iterable[int],
    commits: Commits = "commits.jsonl",
    heads: tuple[int, int] | None = None,
) -> Header:
    """The header of what is captured from a loaded model, with the versions of what touches the numbers.

    Args:
        commits: where the commit lines are.
        heads: for the site `head_out`, how many heads there are and how wide they are together (`head_widths`).

    Raises ValueError for `head_out` without `heads`.
    """
    sites = tuple(sites)
    if (kept := HEADS in sites) and heads is None:
        raise ValueError(f"{HEADS}: give the number of heads and their width")
    packages = importlib.metadata.distributions()
    installed = {package.name: package.version for package in packages if package.name in PACKAGES}
    return Header(
        commits=commits,
        sites=sites,
        layers=tuple(layers),
        d_model=identity.d_model,
        widths={HEADS: heads[1]} if kept and heads else {},
        n_heads=heads[0] if kept and heads else None,
        dtype=cast(DType, identity.dtype),
        conditions={
            "model": identity.model_dump(mode="json"),
            "versions": {"doxascope": __version__, **dict(sorted(installed.items()))},
        },
    )


def read_header(folder: Path) -> Header:
    """The header of the store in `folder`. Raises UserError if there is none that can be understood."""
    path = folder / NAME
    if not path.exists():
        raise UserError(
            f"{folder}: is not an activation store (no {NAME}); a run keeps its activations with -o capture.layers=all"
        )
    data = read_json(path)
    return parse(Header, data, str(path))
