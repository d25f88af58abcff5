"""Numbers on their way to a device."""

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


def upload(numbers: NDArray[Any], device: "torch.device") -> "torch.Tensor":
    """A tensor of these numbers on a device. A GPU takes them when it comes to them: an ordinary copy would first wait
    for all that it was given to do, and what the host could do meanwhile would come after it.
    """
    import torch

    host = torch.from_numpy(numbers)
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host.to(device)
