"""Edits of what rows hold along directions alone: patched from a source, set to a value, or a concept erased, by the
smallest affine change after which no linear probe finds it (LEACE) or by a projection.
"""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...base.errors import UserError, told_briefly
from .changes import Change, set_coordinates
from .interventions import Intervention, Where
from .vectors import Vector, as_floats, as_number, as_vector

Array = NDArray[np.float64]
SMALLEST = 1e-10
"""Of singular values, as a share of the largest: what is below is rounding."""


@dataclass(frozen=True)
class Eraser:
    """x -> x - ((x - mean) @ read.T) @ write, of rows x [n, width]."""

    read: Array
    """[k, width]."""
    write: Array
    """[k, width]; read @ write.T is the identity."""
    mean: Array
    """[width] what a row holds along `read` afterwards."""
    name: str = "erased"
    source: str = ""
    """How it was made, in words."""

    def __post_init__(self) -> None:
        """Keep copies. Raises UserError for what is not finite, or of several widths."""
        for field in ("read", "write", "mean"):
            object.__setattr__(self, field, as_floats(getattr(self, field), f"erasure {self.name!r}: {field}"))
        shapes = self.read.shape, self.write.shape, self.mean.shape
        if self.read.ndim != 2 or not self.read.size or shapes[1:] != (shapes[0], shapes[0][1:]):
            raise UserError(
                f"erasure {self.name!r}: read {shapes[0]}, write {shapes[1]}, mean {shapes[2]}; give [k, width] twice, "
                "and [width]"
            )

    def __call__(self, x: ArrayLike) -> Array:
        """[n, width] of rows [n, width]. Raises UserError for rows of another width."""
        x = as_floats(x, f"erasure {self.name!r}: rows")
        if not x.ndim or x.shape[-1] != len(self.mean):
            raise UserError(f"erasure {self.name!r}: rows {x.shape}; give [n, {len(self.mean)}]")
        return x - ((x - self.mean) @ self.read.T) @ self.write

    def record(self) -> dict[str, Any]:
        """What tables and manifests say of it."""
        digest = hashlib.sha256(b"".join(a.tobytes() for a in (self.read, self.write, self.mean))).hexdigest()[:16]
        return {"name": self.name, "digest": digest, "shape": list(self.read.shape), "source": self.source}


def leace(x: ArrayLike, z: ArrayLike, *, shrinkage: float = 0.0, name: str = "leace", source: str = "") -> Eraser:
    """Least-squares concept erasure: afterwards the covariance of every feature with z is 0, and the rows have moved as
    little as they can, by their own covariance (Belrose et al. 2023, arXiv 2306.03819, theorem 4.3).

    Args:
        x: [n, width] rows.
        z: [n] or [n, m] the concept, any numbers; labels as columns of 0 and 1.
        shrinkage: share of the mean variance times the identity in the covariance of x, in [0, 1): with fewer rows than
            features, the covariance of the rows alone takes out more than the concept.
        name: what it is called in records.
        source: how it was made, in words.

    Raises UserError for rows and concepts that do not fit, and for a concept that no feature holds.
    """
    x, z = as_floats(x, f"erasure {name!r}: rows"), as_floats(z, f"erasure {name!r}: concept")
    if x.ndim != 2 or not x.size or z.ndim not in (1, 2) or not z.size or len(x) != len(z) or len(x) < 2:
        raise UserError(
            f"erasure: rows {x.shape} and a concept {z.shape}; give finite [n, width] and [n] of two or more"
        )
    if not 0 <= as_number(shrinkage, f"erasure {name!r}: shrinkage") < 1:
        raise UserError(f"erasure: shrinkage {shrinkage!r}; give a share from 0 to below 1")
    power = _power(x)  # sums of squares of any rows stay within range; a power of two rounds nothing
    x, z = np.ldexp(x, -power), np.ldexp(z, -_power(z)).reshape(len(z), -1)
    mean = x.mean(axis=0)
    centred = x - mean
    covariance = centred.T @ centred / len(x)
    covariance = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / len(mean) * np.eye(len(mean))
    # With W = cov^(-1/2), the whitened cross-covariance W cov(x, z) spans what is erased: project x off it in whitened
    # coordinates, and colour it again (theorem 4.3).
    crossed = centred.T @ (z - z.mean(axis=0)) / len(x)
    values, vectors = np.linalg.eigh(covariance)
    kept = values > SMALLEST * values[-1]
    root = np.sqrt(values[kept])
    whiten, colour = (vectors[:, kept] / root) @ vectors[:, kept].T, (vectors[:, kept] * root) @ vectors[:, kept].T
    left, sizes, _ = np.linalg.svd(whiten @ crossed, full_matrices=False)
    spread = np.sqrt(z.var(axis=0).sum())
    left = left[:, sizes > SMALLEST * max(float(spread), float(sizes.max(initial=0.0)))]
    if not left.shape[1]:
        raise UserError(f"erasure {name!r}: no feature varies with the concept; there is nothing to erase")
    read, write = (whiten @ left).T, (colour @ left).T
    return Eraser(np.ldexp(read, -power), np.ldexp(write, power), np.ldexp(mean, power), name, source)


def _power(values: Array) -> int:
    """Of two, above the largest of some values."""
    return int(np.frexp(np.abs(values).max())[1])


def projection(
    directions: ArrayLike, mean: ArrayLike | None = None, *, name: str = "projection", source: str = ""
) -> Eraser:
    """The orthogonal projection off directions [width] or [k, width]; `mean` [width] is what is left along them, zero
    if it is not given.

    Raises UserError for directions that depend on each other, and for a mean of another width.
    """
    basis = orthonormal(directions, name)
    return Eraser(basis, basis, np.zeros(basis.shape[1]) if mean is None else mean, name, source)  # type: ignore


def orthonormal(directions: ArrayLike, name: str) -> Array:
    """[k, width] a basis of what the directions [width] or [k, width] span.

    Raises UserError for directions that depend on each other, or have length 0.
    """
    given = np.atleast_2d(as_floats(directions, f"subspace {name!r}"))
    if given.ndim != 2 or not given.size:
        raise UserError(f"subspace {name!r}: has shape {given.shape}; give finite [width] or [k, width]")
    _, sizes, basis = np.linalg.svd(given, full_matrices=False)
    if len(given) > given.shape[1] or not sizes[-1] > 1e-6 * sizes[0]:
        raise UserError(f"subspace {name!r}: its {len(given)} directions depend on each other, or have length 0")
    return basis


if TYPE_CHECKING:
    import torch

    from .vectors import VectorLike


@told_briefly
def PatchAlong(source: "VectorLike", subspace: "VectorLike", **where: Unpack[Where]) -> Intervention:
    """Put what a source holds along a direction, or in a subspace, in place of what is there; the rest stays
    (activation patching of a subspace; Geiger et al. 2024, arXiv 2303.02536).

    Args:
        source: rows of another context, as a capture gives them: [width], [layers, width] or [tokens, layers, width].
        subspace: [width], or [k, width] directions, the same at every layer and token.
        where: `layers`, `at` and `sites`, as of `Intervention`.

    Raises UserError for directions that depend on each other.
    """
    spanned = as_vector(subspace, "unnamed subspace")
    basis = _tensor(orthonormal(spanned.values.double().numpy(), spanned.name))

    def change(values: "torch.Tensor | None") -> Change:
        assert values is not None
        return set_coordinates(basis, basis, values @ basis.to(values).T)

    rows, details = as_vector(source, "unnamed"), {"subspace": spanned.record()}
    return Intervention("patch along", rows, change, further=(spanned,), details=details, **where)


@told_briefly
def Clamp(
    direction: "VectorLike",
    value: float,
    *,
    offset: float = 0.0,
    along: "VectorLike | None" = None,
    **where: Unpack[Where],
) -> Intervention:
    """Set what a read-out gives, row @ direction + offset, to a value, by moving rows along a direction (clamping of a
    feature). With a probe's direction and offset, the value is the log-odds that the probe is to read.

    Args:
        direction: [width] of the read-out.
        value: what it gives afterwards.
        offset: of the read-out.
        along: [width] in which rows are moved, such as the read-out's Haufe pattern; None: the direction itself.
        where: `layers`, `at` and `sites`, as of `Intervention`.

    Raises UserError for a value that is not finite, and for a movement that does not change the read-out.
    """
    read = as_vector(direction, "unnamed")
    write = read if along is None else as_vector(along, "unnamed")
    title = f"clamp {read.name}"
    if read.values.ndim != 1 or write.values.ndim != 1:
        raise UserError(f"{title}: give directions [width]")
    if read.values.shape != write.values.shape:
        raise UserError(f"{title}: has {len(read.values)} entries, and {write.name!r} has {len(write.values)} entries")
    value, offset = as_number(value, f"{title}: value"), as_number(offset, f"{title}: offset")
    w, d = read.values.double(), write.values.double()
    moved = float(w @ d)
    if not abs(moved) > 1e-9 * float(w.norm() * d.norm()):
        raise UserError(f"{title}: moving along {write.name!r} does not change what it reads")
    scale = float(w.abs().max())  # a read-out of any length is computed as one of entries up to 1
    reading, movement = (w / scale).float()[None], (d / (moved / scale)).float()[None]
    wanted = as_number((value - offset) / scale, f"{title}: value, by the largest entry of the direction,")

    def change(values: "torch.Tensor | None") -> Change:
        assert values is not None
        return set_coordinates(reading, movement, values.new_tensor([wanted]))

    details = {"value": value, "offset": offset, "along": write.record()}
    return Intervention("clamp", read, change, further=(write,), details=details, **where)


@told_briefly
def Erase(eraser: Eraser, **where: Unpack[Where]) -> Intervention:
    """Erase a concept by an `Eraser`, of `leace` or `projection`.

    Raises UserError if it is none.
    """
    if not isinstance(eraser, Eraser):
        raise UserError(f"erase: {type(eraser).__name__} is no eraser; make one by leace or projection")
    read, write, kept = map(_tensor, (eraser.read, eraser.write, eraser.read @ eraser.mean))
    mean, details = Vector(eraser.mean, eraser.name, eraser.source), {"vector": eraser.record()}

    def change(values: "torch.Tensor | None") -> Change:
        return set_coordinates(read, write, kept)

    return Intervention("erase", None, change, name=eraser.name, further=(mean,), details=details, **where)


def _tensor(values: np.ndarray) -> "torch.Tensor":
    """In float32, as edits compute."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
