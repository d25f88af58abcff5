"""A file object between HDF5 and the disk: on a full disk HDF5 alone would crash the process."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


class FaultKeeper(io.FileIO):
    """A file for HDF5 to write, which crashes the process, or hides the fault, if a write of its own fails.

    To HDF5 every write succeeds; `fault` is the first that did not, for its caller to raise.
    """

    fault: OSError | None = None

    def write(self, data: "Buffer", /) -> int:
        """Write all of it, once and for all."""
        view = memoryview(data).cast("B")
        rest = view
        try:
            while rest and self.fault is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.fault = error
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Grow or shrink to `size` bytes."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.fault = self.fault or error
            return self.tell() if size is None else size
