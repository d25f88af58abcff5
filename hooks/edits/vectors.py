"""Vectors with their provenance, so that what was added, projected out or put in place can be named and found again;
and the numbers that users give, of Python, numpy or torch.
"""

import hashlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...base.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    VectorLike: TypeAlias = "Vector | torch.Tensor | np.ndarray | Sequence[float]"


class Vector:
    """Values for an edit, with their name and where they come from.

    Args:
        values: [width]: the same at every layer and token; [layers, width]: one for each layer of the edit; or [tokens,
            layers, width], as a capture gives them: one for each token and layer. A length of 1 is for all.
        name: what it is called in records.
        source: how it was made, in words.

    Raises UserError for values of another shape, and for any that are complex or not finite in float32.

    >>> Vector([3.0, 4.0], "north-east", source="by hand")
    Vector('north-east', [2], norm 5, dea5ce9a, by hand)
    """

    def __init__(self, values: Any, name: str, source: str = "") -> None:
        import torch

        try:
            tensor = torch.as_tensor(np.asarray(values) if isinstance(values, list | tuple) else values).detach()
        except (TypeError, ValueError, RuntimeError):
            raise UserError(f"vector {name!r}: {type(values).__name__} is no array of numbers") from None
        if tensor.is_complex():
            raise UserError(f"vector {name!r}: its values are complex; give real numbers")
        self.values = tensor.to("cpu", torch.float32, copy=True).contiguous()
        """A copy: what becomes of the array that was given changes neither the edit nor its digest."""
        if not 1 <= self.values.ndim <= 3 or not self.values.numel():
            shape = list(self.values.shape)
            raise UserError(
                f"vector {name!r}: has shape {shape}; give [width], [layers, width] or [tokens, layers, width]"
            )
        if not self.values.isfinite().all():
            raise UserError(f"vector {name!r}: some of its values are not finite, or beyond the range of float32")
        self.name, self.source = name, source
        content = f"{list(self.values.shape)}".encode() + self.values.numpy().tobytes()
        self.digest = hashlib.sha256(content).hexdigest()[:16]
        """Of its float32 values and their shape."""

    def by_token_and_layer(self) -> "torch.Tensor":
        """[tokens or 1, layers or 1, width]."""
        return self.values[(None,) * (3 - self.values.ndim)]

    def record(self) -> dict[str, Any]:
        """What a manifest or a table says of it."""
        return {"name": self.name, "digest": self.digest, "shape": list(self.values.shape), "source": self.source}

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.values.shape))
        source = f", {self.source}" if self.source else ""
        norm = self.values.norm(dim=-1).mean()
        return f"Vector({self.name!r}, [{shape}], norm {norm:.3g}, {self.digest[:8]}{source})"


def as_vector(values: "VectorLike", name: str) -> Vector:
    """The same, named so unless it has a name."""
    return values if isinstance(values, Vector) else Vector(values, name)


SINGLE = float(np.finfo(np.float32).max)
"""The largest number of float32, in which edits compute."""


def as_number(value: Any, where: str) -> float:
    """One finite number, within the range of float32.

    Raises UserError, which begins with `where`, for anything else.

    >>> as_number(np.float32(2), "strength")
    2.0
    """
    try:
        number = float("nan") if isinstance(value, str | bytes) or np.iscomplexobj(value) else float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        number = float("nan")
    if not abs(number) <= SINGLE:
        raise UserError(f"{where} {value!r}: give a finite number, within the range of float32")
    return number


def as_floats(values: Any, where: str) -> NDArray[np.float64]:
    """A copy as finite float64, of any shape.

    Raises UserError, which begins with `where`, for what is ragged, complex, not finite, or no number.
    """
    try:
        given = np.asarray(values)
        floats = None if given.dtype.kind not in "biufO" else np.array(given, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        floats = None
    if floats is None:
        raise UserError(f"{where}: {type(values).__name__} is no array of real numbers")
    if not np.isfinite(floats).all():
        raise UserError(f"{where}: some of its values are not finite")
    return floats
