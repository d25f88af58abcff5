"""Edits of what rows hold along directions alone: patched from a source, set to a value, erased."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError
from ..model.points import Site
from ..prompts.places import Position
from .changes import Change, set_coordinates
from .erasure import Eraser, orthonormal
from .interventions import Intervention
from .numbers import as_number
from .vector import Vector, as_vector

if TYPE_CHECKING:
    import torch

    from .vector import VectorLike


class PatchAlong(Intervention):
    """Put what a source holds along a direction, or in a subspace, in place of what is there; the rest stays
    (activation patching of a subspace; Geiger et al. 2024, arXiv 2303.02536).

    Args:
        source: rows of another context, as a capture gives them: [width], [layers, width] or [tokens, layers, width].
        subspace: [width], or [k, width] directions, the same at every layer and token.
        layers, at, sites: as for `Steer`.

    Raises UserError for directions that depend on each other.
    """

    kind = "patch along"

    def __init__(
        self,
        source: "VectorLike",
        subspace: "VectorLike",
        *,
        layers: Any,
        at: "str | Position | Sequence[str | Position]",
        sites: Site | Sequence[Site] = "resid_post",
    ) -> None:
        super().__init__(as_vector(source, "unnamed"), layers=layers, at=at, sites=sites)
        self.subspace = as_vector(subspace, "unnamed subspace")
        self._basis = _tensor(orthonormal(self.subspace.values.double().numpy(), self.subspace.name))

    @property
    def held(self) -> tuple[Vector, ...]:
        """See `Intervention.held`."""
        return *super().held, self.subspace

    def change(self, values: "torch.Tensor | None") -> Change:
        """See `Intervention.change`."""
        assert values is not None
        return set_coordinates(self._basis, self._basis, values @ self._basis.to(values).T)

    def record(self) -> dict[str, Any]:
        """See `Intervention.record`."""
        return super().record() | {"subspace": self.subspace.record()}


class Clamp(Intervention):
    """Set what a read-out gives, row @ direction + offset, to a value, by moving rows along a direction (clamping of a
    feature). With a probe's direction and offset, the value is the log-odds that the probe is to read.

    Args:
        direction: [width] of the read-out.
        value: what it gives afterwards.
        offset: of the read-out.
        along: [width] in which rows are moved, such as the read-out's Haufe pattern; None: the direction itself.
        layers, at, sites: as for `Steer`.

    Raises UserError for a value that is not finite, and for a movement that does not change the read-out.
    """

    kind = "clamp"

    def __init__(
        self,
        direction: "VectorLike",
        value: float,
        *,
        layers: Any,
        at: "str | Position | Sequence[str | Position]",
        sites: Site | Sequence[Site] = "resid_post",
        offset: float = 0.0,
        along: "VectorLike | None" = None,
    ) -> None:
        read = as_vector(direction, "unnamed")
        super().__init__(read, layers=layers, at=at, sites=sites)
        self.along = read if along is None else as_vector(along, "unnamed")
        if read.values.ndim != 1 or self.along.values.ndim != 1:
            raise UserError(f"{self.title}: give directions [width]")
        self.value, self.offset = as_number(value, f"{self.title}: value"), as_number(offset, f"{self.title}: offset")
        if read.values.shape == self.along.values.shape:
            w, d = read.values.double(), self.along.values.double()
            moved = float(w @ d)
            if not abs(moved) > 1e-9 * float(w.norm() * d.norm()):
                raise UserError(f"{self.title}: moving along {self.along.name!r} does not change what it reads")
            scale = float(w.abs().max())  # a read-out of any length is computed as one of entries up to 1
            self._read, self._write = (w / scale).float()[None], (d / (moved / scale)).float()[None]
            wanted = (self.value - self.offset) / scale
            self._wanted = as_number(wanted, f"{self.title}: value, by the largest entry of the direction,")

    @property
    def held(self) -> tuple[Vector, ...]:
        """See `Intervention.held`."""
        return *super().held, self.along

    def change(self, values: "torch.Tensor | None") -> Change:
        """See `Intervention.change`."""
        assert values is not None
        return set_coordinates(self._read, self._write, values.new_tensor([self._wanted]))

    def record(self) -> dict[str, Any]:
        """See `Intervention.record`."""
        return super().record() | {"value": self.value, "offset": self.offset, "along": self.along.record()}


class Erase(Intervention):
    """Erase a concept by an `Eraser`, of `leace` or `projection`.

    Raises UserError if it is none.
    """

    kind = "erase"

    def __init__(
        self,
        eraser: Eraser,
        *,
        layers: Any,
        at: "str | Position | Sequence[str | Position]",
        sites: Site | Sequence[Site] = "resid_post",
    ) -> None:
        if not isinstance(eraser, Eraser):
            raise UserError(f"erase: {type(eraser).__name__} is no eraser; make one by leace or projection")
        self.eraser = eraser
        super().__init__(None, layers=layers, at=at, sites=sites)
        self._mean = Vector(eraser.mean, eraser.name, eraser.source)

    @property
    def title(self) -> str:
        """See `Intervention.title`."""
        return f"{self.kind} {self.eraser.name}"

    @property
    def held(self) -> tuple[Vector, ...]:
        """See `Intervention.held`."""
        return (self._mean,)

    def change(self, values: "torch.Tensor | None") -> Change:
        """See `Intervention.change`."""
        one = self.eraser
        return set_coordinates(_tensor(one.read), _tensor(one.write), _tensor(one.read @ one.mean))

    def record(self) -> dict[str, Any]:
        """See `Intervention.record`."""
        return super().record() | {"vector": self.eraser.record()}


def _tensor(values: np.ndarray) -> "torch.Tensor":
    """In float32, as edits compute."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
