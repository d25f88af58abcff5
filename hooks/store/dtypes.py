"""Residuals bit for bit: what a model computes in is what is stored. numpy has no bfloat16; its bits are uint16."""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError

if TYPE_CHECKING:
    import torch

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
        found, array = values.dtype.name, values
    else:
        import torch

        found, values = str(values.dtype).removeprefix("torch."), values.detach().cpu()
        array = values.view(torch.uint16).numpy() if found == "bfloat16" else values.numpy()
    if array.dtype != STORED[dtype]:
        raise UserError(f"residuals are {found}, the store holds {dtype}; give them as the model computed them")
    return array


def as_float32(stored: NDArray[Any], dtype: DType) -> NDArray[np.float32]:
    """The values, exactly: every float16 and bfloat16 is a float32."""
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32, copy=False)
