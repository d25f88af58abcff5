"""Erasure of a concept: the smallest affine change after which no linear probe finds it (LEACE), and a projection."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UserError

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

    def __call__(self, x: ArrayLike) -> Array:
        """[n, width] of rows [n, width]."""
        x = np.asarray(x, dtype=np.float64)
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
    x, z = np.asarray(x, dtype=np.float64), np.asarray(z, dtype=np.float64)
    z = z.reshape(len(z), -1)
    if x.ndim != 2 or len(x) != len(z) or len(x) < 2 or not (np.isfinite(x).all() and np.isfinite(z).all()):
        raise UserError(
            f"erasure: rows {x.shape} and a concept {z.shape}; give finite [n, width] and [n] of two or more"
        )
    if not 0 <= shrinkage < 1:
        raise UserError(f"erasure: shrinkage {shrinkage!r}; give a share from 0 to below 1")
    mean = x.mean(axis=0)
    centred = x - mean
    covariance = centred.T @ centred / len(x)
    covariance = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / len(mean) * np.eye(len(mean))
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
    return Eraser((whiten @ left).T.copy(), (colour @ left).T.copy(), mean, name, source)


def projection(
    directions: ArrayLike, mean: ArrayLike | None = None, *, name: str = "projection", source: str = ""
) -> Eraser:
    """The orthogonal projection off directions [width] or [k, width]; `mean` [width] is what is left along them, zero
    if it is not given.

    Raises UserError for directions that depend on each other.
    """
    basis = orthonormal(directions, name)
    left = np.zeros(basis.shape[1]) if mean is None else np.asarray(mean, dtype=np.float64)
    return Eraser(basis, basis, left, name, source)


def orthonormal(directions: ArrayLike, name: str) -> Array:
    """[k, width] a basis of what the directions [width] or [k, width] span.

    Raises UserError for directions that depend on each other, or have length 0.
    """
    given = np.atleast_2d(np.asarray(directions, dtype=np.float64))
    if given.ndim != 2 or not np.isfinite(given).all():
        raise UserError(f"subspace {name!r}: has shape {given.shape}; give finite [width] or [k, width]")
    _, sizes, basis = np.linalg.svd(given, full_matrices=False)
    if len(given) > given.shape[1] or not sizes[-1] > 1e-6 * sizes[0]:
        raise UserError(f"subspace {name!r}: its {len(given)} directions depend on each other, or have length 0")
    return basis
