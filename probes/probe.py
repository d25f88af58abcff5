"""A trained probe, frozen: what it reads, where, of which model, and how to apply it again."""

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from .. import __version__
from ..hooks.errors import UserError
from ..hooks.files import atomic_write
from ..hooks.settings import Settings, parse
from ..hooks.store import Header
from ..metrics.validation import Floats
from .card.site_rule import ReadingSite
from .data.features import ReadAt
from .estimators.readout import LinearReadout

MODEL_KEYS = ("architecture", "n_layers", "d_model", "weights", "tokenizer", "chat_template", "template")
"""What of a model's identity must be the same where a probe is applied."""
ARRAYS = ("mean", "scale", "weights", "calibration")


class ProbeMeta(Settings):
    """All of a probe but its numbers."""

    format: Literal[1] = 1
    name: str
    doxascope: str = __version__
    estimator: str
    """`ridge`, `logistic`, `mean_difference`, ..., or `imported`."""
    params: dict[str, Any] = {}
    target: str
    site: str
    layer: int
    position: str
    head: int | None = None
    reading_site: ReadingSite = "unknown"
    called: str = "decoded information"
    """What its values may be called, by the report card of the job that trained it."""
    dtype: str
    """Of the activations that it was trained on."""
    model: dict[str, Any]
    """Identity of the model; of an imported probe what is known of it."""
    n_rows: int = 0
    n_groups: int = 0
    groups: str = ""
    """Hash of the groups that it was trained on, to find out what may not be scored with it."""
    numbers: str = ""
    """Hash of the file of arrays that belongs to it."""

    @property
    def at(self) -> ReadAt:
        """Where it reads."""
        return ReadAt(self.site, self.layer, self.position, self.head)


@dataclass(frozen=True)
class Probe:
    """Arrays and what they mean."""

    readout: LinearReadout
    meta: ProbeMeta

    def predict(self, x: ArrayLike) -> Floats:
        """[n] values in [0, 1] of features [n, d] read at `meta.at`."""
        return self.readout.predict(x)

    def require_fit(self, header: Header, at: ReadAt) -> None:
        """Raise UserError, with every difference, unless activations of a store, read at a place, are what it reads."""
        mine = self.meta
        here = header.conditions.get("model", {})
        differences = [
            f"{name}: trained on {was}, given {now}"
            for name, was, now in [
                *((key, mine.model.get(key), here.get(key)) for key in MODEL_KEYS if key in mine.model),
                ("dtype", mine.dtype, header.dtype),
                *zip(("site", "layer", "position", "head"), mine.at, at, strict=True),
            ]
            if was != now
        ]
        if differences:
            raise UserError(f"probe {mine.name}: does not read these activations ({'; '.join(differences)})")

    def save(self, path: Path) -> None:
        """Write `path`.npz, the arrays, and `path`.json, the rest. Raises UserError if they cannot be written."""
        own = self.readout
        buffer = io.BytesIO()
        calibration = np.array([own.bias, own.slope, own.intercept])
        np.savez(buffer, mean=own.mean, scale=own.scale, weights=own.weights, calibration=calibration)
        meta = self.meta.model_copy(update={"numbers": _hash(buffer.getvalue())})
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(_named(path, ".npz")) as temporary:
                temporary.write_bytes(buffer.getvalue())
            with atomic_write(_named(path, ".json")) as temporary:
                temporary.write_text(meta.model_dump_json(indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror or error})") from error

    @classmethod
    def load(cls, path: Path) -> Self:
        """The probe that `save` wrote; `path` with either ending or none.

        Raises UserError for files that are not there, damaged, or do not belong together.
        """
        path = path.with_suffix("") if path.suffix in (".npz", ".json") else path
        try:
            data = json.loads(_named(path, ".json").read_text(encoding="utf-8"))
            raw = _named(path, ".npz").read_bytes()
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: is no probe ({error}); give the path of its .json") from None
        meta = parse(ProbeMeta, data, str(_named(path, ".json")))
        if meta.numbers != _hash(raw):
            raise UserError(f"{_named(path, '.npz')}: is damaged, or of another probe than {path.name}.json")
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            if missing := [name for name in ARRAYS if name not in arrays]:
                raise UserError(f"{path}.npz: has no array {missing[0]!r}")
            bias, slope, intercept = arrays["calibration"].tolist()
            readout = LinearReadout(arrays["mean"], arrays["scale"], arrays["weights"], bias, slope, intercept)
        return cls(readout, meta)


def import_probe(direction: ArrayLike, bias: float, header: Header, at: ReadAt, *, name: str, target: str) -> Probe:
    """A direction [d] of raw activations and a bias, of any other tool, to be judged here as a probe of a store's model.

    Raises UserError if the direction is not of the model's width.
    """
    readout = LinearReadout.from_direction(direction, bias)
    if at.head is None and len(readout.weights) != header.d_model:
        raise UserError(f"direction: has {len(readout.weights)} numbers, the activations {header.d_model}")
    return Probe(
        readout,
        ProbeMeta(
            name=name,
            estimator="imported",
            target=target,
            dtype=header.dtype,
            model=dict(header.conditions.get("model", {})),
            **at._asdict(),
        ),
    )


def groups_hash(groups: ArrayLike) -> str:
    """A short hash of the set of groups."""
    return _hash("\0".join(sorted(set(map(str, np.asarray(groups).tolist())))).encode())


def _named(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
