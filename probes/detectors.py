"""Linear detectors of lies with a threshold, of one layer or the mean over several, as others publish them. Torch is
imported for checkpoints and .safetensors files alone.
"""

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..base.documents import MOST_BYTES
from ..base.errors import UserError, in_one_line
from ..metrics.contract import NAN, Floats, floats
from .probe import ENDINGS, LARGEST, Probe

ARCHITECTURES = ("deception.detectors.utils.types", "lie_detectors.types")
"""Modules under which checkpoints of `lie-detectors` name the type of their architecture, which is a text."""


@dataclass(frozen=True)
class Detector:
    """score = mean over layers of x @ direction, + offset; a lie is flagged where it lies above the threshold."""

    name: str
    directions: Floats
    """[layers, d] of the residual stream after a block."""
    offset: float
    layers: tuple[int, ...]
    """Blocks, from 0; empty: the file does not say."""
    threshold: float
    """NaN: the file does not say."""
    source: str
    high: str = "lie"
    """What high scores mean: `lie` or `truth`."""
    probe: Probe | None = None
    """That it was made of."""
    turned: bool = False
    """Whether scores and threshold are those of the file with the other sign."""

    def __post_init__(self) -> None:
        if not np.isfinite([*self.directions.flat, self.offset]).all() or np.isinf(self.threshold):
            raise UserError(f"{self.name}: its directions, offset or threshold are no finite numbers")

    def score(self, x: ArrayLike) -> Floats:
        """[n] of activations [n, layers, d]. Raises UserError for those of another width, and no finite numbers."""
        x = floats(x)
        if x.shape[1:] != self.directions.shape:
            width = self.directions.shape[1]
            raise UserError(f"{self.name}: has {width} numbers, the model's activations {x.shape[-1]}")
        if not np.isfinite(x).all():
            raise UserError(f"{self.name}: the model's activations are no finite numbers; load it with dtype float32")
        return np.einsum("nld,ld->n", x, self.directions) / len(self.directions) + self.offset

    def require_placed(self, layers: Sequence[int] = (), threshold: float | None = None) -> None:
        """Raise UserError if neither the file nor what is given says the layer, or the threshold."""
        level = self.threshold if threshold is None else threshold
        known = {"layer": layers or self.layers, "threshold": np.isfinite(level)}
        if missing := [name for name, said in known.items() if not said]:
            raise UserError(f"{self.name}: does not say its {missing[0]}; give --{missing[0]}")

    def placed(self, n_layers: int, layers: Sequence[int] = (), threshold: float | None = None, high: str = "") -> Self:
        """The same with what is given in the place of what the file says, turned so that high scores mean a lie.

        Raises UserError if neither says it, and for layers that the model or the detector has not.
        """
        self.require_placed(layers, threshold)
        layers, threshold = tuple(layers) or self.layers, self.threshold if threshold is None else threshold
        if wrong := [layer for layer in layers if not 0 <= layer < n_layers]:
            raise UserError(f"{self.name}: layer {wrong[0]} is none of this model's, which are 0 to {n_layers - 1}")
        if len({*layers}) < len(layers):
            raise UserError(f"{self.name}: names layer {max(layers, key=layers.count)} twice; give each once")
        if len(layers) != len(self.directions):
            raise UserError(f"{self.name}: has directions of {len(self.directions)} layers; {len(layers)} are given")
        sign = -1.0 if (high or self.high) == "truth" else 1.0
        parts = {
            "directions": sign * self.directions,
            "offset": sign * self.offset,
            "threshold": sign * threshold + 0.0,
        }
        return replace(self, layers=layers, high="lie", turned=self.turned != (sign < 0), **parts)


def load_detector(path: Path) -> Detector:
    """The detector of a file; of a probe of this package, which reads truth, with the threshold of even odds.

    Raises UserError, naming the file, for one that cannot be read, is not linear, or holds what is no finite number.
    No code of a file is run.
    """
    if path.suffix == ".pt":
        return _of_checkpoint(path)
    beside = path.with_suffix(".json") if path.suffix in ENDINGS else Path(f"{path}.json")
    if path.suffix in ("", *ENDINGS) and beside.is_file():
        meta, readout = (probe := Probe.load(path)).meta, probe.readout
        if probe.others or meta.head is not None or meta.site != "resid_post":
            raise UserError(f"{path}: reads {meta.site}, or several options; a detector reads the residual stream")
        if not readout.direction.any():
            raise UserError(f"{path}: reads nothing: its scores do not rise with its target")
        parts = meta.name, readout.direction[None], readout.offset, (meta.layer,)
        return Detector(*parts, 0.0, f"probe of {meta.target}", "truth", probe)
    arrays = read_arrays(path)
    if "direction" not in arrays:
        has = ", ".join(arrays) or "no array"
        raise UserError(f"{path}: has {has}; a detector has `direction`, and may have `bias`, `layer`, `threshold`")
    return _made(path, arrays, path.suffix.removeprefix("."))


def read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an .npz, .npy (one, without a name) or .safetensors file.

    Raises UserError for a file that is none, holds objects, or unpacks to more than is read of any.
    """
    with in_one_line(path, "give a .npz, .npy or .safetensors file, or a probe"):
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            wide = {name: each.float() if each.itemsize < 4 else each for name, each in load_file(path).items()}
            return {name: each.numpy() for name, each in wide.items()}
        if path.suffix == ".npy":
            return {"": np.load(path, allow_pickle=False)}
        _refuse_packed(path)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}


def _refuse_packed(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        if (size := sum(entry.file_size for entry in archive.infolist())) > MOST_BYTES:
            raise ValueError(f"it holds {size:,} bytes, more than {MOST_BYTES:,}")


def _of_checkpoint(path: Path) -> Detector:
    """Of `lie-detectors`: a difference in means, or a logistic regression of standardised activations."""
    import torch

    known: Any = [(str, f"{module}.ProbeArchitecture") for module in ARCHITECTURES]
    with in_one_line(path, "give a checkpoint of lie-detectors: state_dict and hyperparams, and no code"):
        _refuse_packed(path)
        try:
            with torch.serialization.safe_globals(known):
                stored = torch.load(path, map_location="cpu", weights_only=True)
        except UnpicklingError as error:  # torch advises to run what is in it
            raise ValueError("it holds more than numbers and texts, and is not read") from error
        if (size := sum(each.numel() for each in stored["state_dict"].values())) > MOST_BYTES // 8:
            raise ValueError(f"it holds {size:,} numbers, more than {MOST_BYTES // 8:,}")
        state = {name: np.asarray(each.double()) for name, each in stored["state_dict"].items()}
        about = stored["hyperparams"]
        if (kind := str(about["probe_architecture"])) not in ("dim", "lr"):
            raise ValueError(f"architecture {kind!r} is not linear; `dim` and `lr` are")
        if kind == "lr":
            with np.errstate(divide="ignore", invalid="ignore"):
                state["direction"] = state["linear.weight"].ravel() / state["dataset_std"]
                state["bias"] = state["linear.bias"] - state["dataset_mean"] @ state["direction"]
        layer = {} if about.get("layer") is None else {"layer": about["layer"]}
        return _made(path, state | layer, f"lie-detectors, {kind}")


def _made(path: Path, arrays: Mapping[str, Any], source: str) -> Detector:
    """Raises UserError for what is no finite number of a detector's shapes."""
    names = ("direction", "bias", "layer", "threshold")
    with in_one_line(path):
        if odd := [name for name in arrays if name not in names and path.suffix != ".pt"]:
            raise ValueError(f"it holds {odd[0]!r}; a detector has {', '.join(names)}")
        given = {name: np.atleast_1d(np.asarray(arrays[name])) for name in names if name in arrays}
        for name, each in given.items():
            if each.dtype.kind not in "biuf" or not (np.abs(each.astype(np.float64)) < LARGEST).all():
                raise ValueError(f"its {name} are no finite numbers below {LARGEST:g}")
            if name != "direction" and each.ndim > 1:
                raise ValueError(f"its {name} is {list(each.shape)}; give one axis")
        direction, bias, layer, threshold = (given.get(name, np.zeros(0)).astype(np.float64) for name in names)
        directions = np.atleast_2d(direction)
        one_each = threshold.size < 2 and bias.size in (0, 1, len(directions))
        if directions.ndim != 2 or not directions.any() or not one_each:
            raise ValueError(f"direction {list(direction.shape)}; give [d] or [layers, d], not 0, and one threshold")
        if (layer != np.round(layer)).any():
            raise ValueError(f"its layer is {layer[0]:g}; give whole numbers")
    of = tuple(int(each) for each in layer), float(threshold[0]) if threshold.size else NAN
    return Detector(path.stem, directions, float(bias.mean()) if bias.size else 0.0, *of, source)
