"""A trained probe, frozen: what it reads, where, of which model, and how to apply it again."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from scipy.special import expit, logsumexp, softmax

from ..base.documents import read_json
from ..base.errors import UserError, in_one_line
from ..base.files import atomic_write, sealed, unsealed
from ..base.settings import Settings, parse
from ..base.version import __version__
from ..hooks.store import Header
from ..metrics.contract import Floats
from .estimators import LinearReadout
from .features import ReadAt, ReadingSite

MODEL_KEYS = ("architecture", "n_layers", "d_model", "weights", "tokenizer", "chat_template", "template")
"""What of a model's identity must be the same where a probe is applied."""
NAME = r"^\w[\w.-]{0,99}$"
"""Of a probe: it names files."""
ENDINGS = (".npz", ".json")
"""Of its two files."""
LARGEST = 1e100
"""Of the numbers of a probe: no product of them is beyond floating point."""
ARRAYS = ("mean", "scale", "weights", "calibration", "groups", "folds")


class ProbeMeta(Settings):
    """All of a probe but its numbers."""

    format: Literal[1] = 1
    name: str = Field(pattern=NAME)
    doxascope: str = __version__
    estimator: str
    """`ridge`, `logistic`, `mean_difference`, ..., or `imported`."""
    params: Mapping[str, Any] = {}
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
    options: int = 2
    """Over how many it is a distribution. Each of more than two has a direction of its own: those of the options after
    the first lie beside it, in `<name>.1`, `<name>.2`, ..."""
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
    """Fitted on all groups."""
    meta: ProbeMeta
    crossed: tuple[LinearReadout, ...] = ()
    """[K] fitted without each fold, by which what it was trained on is read (PROBES 7)."""
    fold_of: Mapping[str, int] = field(default_factory=dict)
    """Group that it was trained on -> its fold."""
    others: "tuple[Probe, ...]" = ()
    """Of more than two options, those of the second and later ones."""

    def logit(self, x: ArrayLike, groups: ArrayLike | None = None) -> Floats:
        """[n] natural log-odds of the first option from features [n, d] read at `meta.at`.

        A row whose group [n] was trained on is read by the fit that did not see it. Without groups every row is read by
        the fit on all: then none of them may have been trained on.
        """
        if not self.others:
            return self._scores(x, groups)
        first, *others = (each._scores(x, groups) for each in (self, *self.others))
        return first - logsumexp(others, axis=0)

    def beliefs(self, x: ArrayLike, groups: ArrayLike | None = None) -> Floats:
        """[n, k] the belief in each option: the softmax of the directions' log-odds (arguments: `logit`)."""
        if not self.others:
            p = expit(self.logit(x, groups))
            return np.column_stack([p, 1 - p])
        return softmax(np.column_stack([each._scores(x, groups) for each in (self, *self.others)]), axis=1)

    def _scores(self, x: ArrayLike, groups: ArrayLike | None) -> Floats:
        """[n] of its own direction."""
        x = np.asarray(x, dtype=np.float64)
        scores = self.readout.logit(x)
        if groups is not None:
            fold = np.array([self.fold_of.get(str(group), -1) for group in np.asarray(groups).tolist()])
            for k, readout in enumerate(self.crossed):
                scores[fold == k] = readout.logit(x[fold == k])
        return scores

    def require_model(self, identity: Mapping[str, Any]) -> None:
        """Raise UserError, naming what differs, unless it was trained on the model of this identity."""
        if odd := [key for key in MODEL_KEYS if key in self.meta.model and self.meta.model[key] != identity.get(key)]:
            raise UserError(f"probe {self.meta.name}: was trained on another model ({', '.join(odd)} differ)")

    def require_fit(self, header: Header, at: ReadAt) -> None:
        """Raise UserError, with every difference, unless activations of a store, read at a place, are what it reads."""
        meta = self.meta
        here = header.conditions.get("model", {})
        differences = [
            f"{name}: trained on {was}, given {now}"
            for name, was, now in [
                ("width", len(self.readout.weights), _width(header, at)),
                *((key, meta.model.get(key), here.get(key)) for key in MODEL_KEYS if key in meta.model),
                ("dtype", meta.dtype, header.dtype),
                *zip(("site", "layer", "position", "head"), meta.at, at, strict=True),
            ]
            if was != now
        ]
        if differences:
            raise UserError(f"probe {meta.name}: does not read these activations ({'; '.join(differences)})")

    def save(self, path: Path | str) -> None:
        """Write `path`.npz, the arrays, and `path`.json, the rest. Raises UserError if they cannot be written, or hold
        numbers with which `load` would refuse them; and the directions of further options.
        """
        path = Path(path)
        for i, other in enumerate(self.others, 1):
            other.save(path.with_name(f"{path.name}.{i}"))
        raw = self._packed()
        with in_one_line(f"probe {self.meta.name}: cannot be kept"):
            _arrays(raw)
        meta = self.meta.model_copy(update={"numbers": _hash(raw)})
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(_named(path, ".npz")) as temporary:
                temporary.write_bytes(raw)
            with atomic_write(_named(path, ".json")) as temporary:
                text = json.dumps(sealed(meta.model_dump(mode="json")), indent=1, ensure_ascii=False)
                temporary.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror or error})") from error

    @property
    def digest(self) -> str:
        """Of its arrays, which `meta.numbers` is once it was saved."""
        return _hash(self._packed())

    def _packed(self) -> bytes:
        """Its arrays as a file."""
        every = (self.readout, *self.crossed)
        buffer = io.BytesIO()
        np.savez(
            buffer,
            mean=np.stack([fit.mean for fit in every]),
            scale=np.stack([fit.scale for fit in every]),
            weights=np.stack([fit.weights for fit in every]),
            calibration=np.array([[fit.bias, fit.slope, fit.intercept] for fit in every]),
            groups=np.array(list(self.fold_of), dtype=np.str_),
            folds=np.array(list(self.fold_of.values()), dtype=np.int64),
        )
        return buffer.getvalue()

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """The probe that `save` wrote; `path` with either ending or none.

        Raises UserError for files that are not there, damaged, or do not belong together.
        """
        path = Path(path)
        return cls._one(path.with_suffix("") if path.suffix in ENDINGS else path)

    @classmethod
    def _one(cls, path: Path) -> Self:
        with in_one_line(_named(path, ".json"), "train the probe anew"):
            record = unsealed(read_json(_named(path, ".json")))
        meta = parse(ProbeMeta, record, str(_named(path, ".json")))
        with in_one_line(_named(path, ".npz")):
            raw = _named(path, ".npz").read_bytes()
        if meta.numbers != _hash(raw):
            raise UserError(f"{_named(path, '.npz')}: is damaged, or of another probe than {path.name}.json")
        with in_one_line(_named(path, ".npz")):
            arrays = _arrays(raw)
            first, *crossed = (
                LinearReadout(mean, scale, weights, *map(float, calibration))
                for mean, scale, weights, calibration in zip(*(arrays[name] for name in ARRAYS[:4]), strict=True)
            )
            fold_of = dict(zip(arrays["groups"].tolist(), arrays["folds"].tolist(), strict=True))
            if not {*fold_of.values()} <= {*range(len(crossed))} or len(fold_of) < len(arrays["groups"]):
                raise ValueError("its groups are there twice, or in folds that it has not")
        further = range(1, meta.options) if meta.options > 2 else ()
        others = tuple(cls._one(path.with_name(f"{path.name}.{i}")) for i in further)
        if any(other.meta.at != meta.at or len(other.crossed) != len(crossed) for other in others):
            raise UserError(f"{path}: its options are of several trainings; train it again")
        return cls(first, meta, tuple(crossed), fold_of, others)


def import_probe(direction: ArrayLike, bias: float, header: Header, at: ReadAt, *, name: str, target: str) -> Probe:
    """A direction [d] of raw activations and a bias, of any other tool, to be judged as a probe of a store's model.

    Raises UserError if the direction is not of the model's width, or holds what is no number.
    """
    with in_one_line(f"probe {name}"):
        readout = LinearReadout.from_direction(direction, bias)
    if len(readout.weights) != (width := _width(header, at)):
        raise UserError(f"direction: has {len(readout.weights)} numbers, the activations {width}")
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


def _width(header: Header, at: ReadAt) -> int:
    """Of the features at a place."""
    return header.width(at.site) if at.head is None else header.width(at.site) // (header.n_heads or 1)


def _arrays(raw: bytes) -> dict[str, Any]:
    """The arrays of a probe. Raises ValueError for any that is not as `save` writes it."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > len(raw):
            raise ValueError("it is packed, which no probe is")
    with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
        if missing := [name for name in ARRAYS if name not in arrays]:
            raise ValueError(f"it has no array {missing[0]!r}")
        known = {name: arrays[name] for name in ARRAYS}
    fits, d = known["weights"].shape if known["weights"].ndim == 2 else (0, 0)
    wanted = dict.fromkeys(ARRAYS[:3], (fits, d)) | {"calibration": (fits, 3)}
    for name, shape in wanted.items():
        array = known[name]
        if not fits or array.dtype != np.float64 or array.shape != shape or not (np.abs(array) < LARGEST).all():
            raise ValueError(f"its {name}, {array.dtype} {array.shape}, are not float64 {shape} below {LARGEST:g}")
    if not (known["scale"] > 0).all():
        raise ValueError("a scale is not above 0")
    if known["groups"].dtype.kind != "U" or known["folds"].dtype != np.int64:
        raise ValueError("its groups are no texts, or its folds no whole numbers")
    return known


def _named(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
