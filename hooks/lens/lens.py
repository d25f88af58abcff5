"""Inner read-outs: the final norm and the head on residuals of inner layers, raw or brought to the last layer
(METRICS W3); and the tuned lenses that bring them there, an affine map per layer, by closed-form ridge on generic
text.

A raw lens reads an inner layer as if it were the last. A tuned lens first undoes what is merely another basis
(tuned lens, Belrose et al. 2023), fitted without gradient steps: the least squares of the last residual on the
layer's own, shrunk towards leaving it as it is.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...base.errors import UserError, in_one_line
from ...base.files import atomic_write, file_digest, sealed, unsealed, write_text
from ..model.blocks import blocks, final_norm
from .plan import JACOBIAN, RAW, TRANSLATED, View

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Of standardised features, per row. Each layer takes the one with the least error across documents."""
FORMAT = 2


@dataclass(frozen=True)
class TunedLens:
    """A map per layer."""

    layers: tuple[int, ...]
    weight: torch.Tensor
    """[layers, d_model, d_model] float32: residual @ weight + bias is what is added to the residual."""
    bias: torch.Tensor
    """[layers, d_model] float32."""
    r2: NDArray[np.float64]
    """[layers] share of the change from here to the last layer that is predicted in documents not fitted on, at most 1;
    NaN where nothing changes, as at the last layer itself."""
    penalty: tuple[float, ...]
    """[layers] as chosen from PENALTIES; 0 for a Jacobian, which is not regressed on anything."""
    origin: dict[str, Any]
    """What it was fitted on: the model's identity, the text, the number of rows."""

    def __call__(self, residuals: torch.Tensor) -> torch.Tensor:
        """[rows, layers, d_model], of these layers, to what the last residuals may be, float32."""
        x = residuals.to(self.weight)
        return x + torch.einsum("rld,lde->rle", x, self.weight) + self.bias

    def to(self, device: torch.device) -> "TunedLens":
        """The same on another device."""
        return replace(self, weight=self.weight.to(device), bias=self.bias.to(device))

    def save(self, path: Path) -> None:
        """Write `path`.npz and then, with what it was fitted on, `path`.json, each whole or not at all."""
        arrays, record = _files(path)
        with atomic_write(arrays) as temporary:
            np.savez(temporary, weight=self.weight.cpu().numpy(), bias=self.bias.cpu().numpy(), r2=self.r2)
        fields = {"format": FORMAT, "layers": self.layers, "penalty": self.penalty, "origin": self.origin}
        write_text(record, json.dumps(sealed({**fields, "arrays": file_digest(arrays)}), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "TunedLens":
        """Read what `save` wrote. Raises UserError if it is missing or incomplete."""
        stored, description = _files(path)
        with in_one_line(f"{path}: no tuned lens can be read from it", "fit it anew"):
            record = unsealed(json.loads(description.read_text()))
            if record["arrays"] != file_digest(stored):
                raise ValueError(f"{stored.name} is damaged: its digest is wrong")
            with np.load(stored, allow_pickle=False) as arrays:
                weight, bias, r2 = (arrays[name] for name in ("weight", "bias", "r2"))
            if record["format"] != FORMAT:
                raise UserError(f"{path}: a tuned lens of format {record['format']}, not {FORMAT}; fit it anew")
            layers, penalty = tuple(record["layers"]), tuple(record["penalty"])
            return cls(layers, torch.from_numpy(weight), torch.from_numpy(bias), r2, penalty, record["origin"])


def _files(path: Path) -> tuple[Path, Path]:
    """The arrays and the record; the names of models have dots."""
    return path.with_name(f"{path.name}.npz"), path.with_name(f"{path.name}.json")


class TunedLensFitter:
    """Takes documents one after the other and keeps their second moments, in two halves, alone."""

    def __init__(self, layers: Sequence[int], d_model: int) -> None:
        self.layers, self.d_model = tuple(layers), d_model
        width = 2 * d_model + 1
        self._moments = torch.zeros(2, len(self.layers), width, width, dtype=torch.float64)
        self.documents = self.rows = 0

    def update(self, residuals: torch.Tensor, last: torch.Tensor) -> None:
        """Take one document.

        A row weighs the inverse of the size of its last residual, squared: after the final norm, which divides by that
        size, all rows then count alike.

        Args:
            residuals: [rows, layers, d_model] of the layers of this fitter.
            last: [rows, d_model] after the last block, before the final norm.
        """
        weight = last.double().square().mean(dim=1).rsqrt()[:, None]
        for i in range(len(self.layers)):
            x = residuals[:, i].double()
            z = torch.cat([torch.ones_like(weight), x, last.double() - x], dim=1) * weight
            self._moments[self.documents % 2, i] += (z.T @ z).cpu()
        self.documents += 1
        self.rows += len(last)

    def fit(self, origin: dict[str, Any]) -> TunedLens:
        """The maps that all documents give. Raises UserError if there are fewer rows than can be fitted."""
        if self.documents < 2 or self.rows < 4 * self.d_model:
            raise UserError(
                f"tuned lens: {self.rows} tokens in {self.documents} documents are too few for {self.d_model} "
                f"dimensions; bring at least {4 * self.d_model} tokens in two or more"
            )
        maps = [self._layer(halves) for halves in self._moments.transpose(0, 1)]
        weight, bias, r2, penalty = zip(*maps, strict=True)
        origin = origin | {"documents": self.documents, "rows": self.rows}
        return TunedLens(
            self.layers,
            torch.stack(weight).float(),
            torch.stack(bias).float(),
            np.array(r2, dtype=np.float64),
            penalty,
            origin,
        )

    def transport(self, jacobians: torch.Tensor, origin: dict[str, Any]) -> TunedLens:
        """Given maps [layers, d_model, d_model] of a change of the residual, about the mean residuals of all rows."""
        weights = jacobians.double() - torch.eye(self.d_model, dtype=torch.float64)
        bias, r2 = [], []
        for weight, halves in zip(weights, self._moments.transpose(0, 1), strict=True):
            moments = halves.sum(dim=0)
            mean = moments[0, 1:] / moments[0, 0]
            bias.append(mean[self.d_model :] - mean[: self.d_model] @ weight)
            total = float(_error(*_solve(moments, (float("inf"),)), moments))
            left = float(_error(weight[None], bias[-1][None], moments))
            r2.append(1 - left / total if total > 0 else float("nan"))
        return TunedLens(
            self.layers,
            weights.float(),
            torch.stack(bias).float(),
            np.array(r2, dtype=np.float64),
            (0.0,) * len(self.layers),
            origin | {"documents": self.documents, "rows": self.rows},
        )

    def _layer(self, halves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float, float]:
        """Weight, bias, cross-validated R2 and penalty from the moments [2, width, width] of the halves."""
        errors = torch.stack([_error(*_solve(halves[i], PENALTIES), halves[1 - i]) for i in (0, 1)]).sum(dim=0)
        total = sum(float(_error(*_solve(halves[i], (float("inf"),)), halves[1 - i])) for i in (0, 1))
        best = int(errors.argmin())
        weight, bias = _solve(halves.sum(dim=0), (PENALTIES[best],))
        r2 = 1 - float(errors[best]) / total if total > 0 else float("nan")
        return weight[0], bias[0], r2, PENALTIES[best]


def _solve(moments: torch.Tensor, penalties: Sequence[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights [penalties, d, d] and biases [penalties, d]; an infinite penalty leaves the mean change alone."""
    d = (len(moments) - 1) // 2
    total = moments[0, 0]
    mean_x, mean_y = moments[0, 1 : d + 1] / total, moments[0, d + 1 :] / total
    xx = moments[1 : d + 1, 1 : d + 1] / total - mean_x.outer(mean_x)
    xy = moments[1 : d + 1, d + 1 :] / total - mean_x.outer(mean_y)
    # Ridge on standardised features: solve (corr + penalty I) b = xy / sd, and b / sd are the weights of x itself.
    scale = xx.diagonal().clamp(min=0).sqrt()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    correlations, target = xx / scale.outer(scale), xy / scale[:, None]
    eye = torch.eye(d, dtype=xx.dtype)
    weights = torch.stack(
        [
            torch.linalg.solve(correlations + penalty * eye, target) / scale[:, None]
            if np.isfinite(penalty)
            else torch.zeros_like(target)
            for penalty in penalties
        ]
    )
    return weights, mean_y - mean_x @ weights


def _error(weights: torch.Tensor, biases: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """[penalties] weighted sum of squares of what the maps leave, on the rows of `moments`."""
    maps = torch.cat([biases[:, None], weights], dim=1)  # [penalties, 1 + d, d]
    width = maps.shape[1]
    zz, zy, yy = moments[:width, :width], moments[:width, width:], moments[width:, width:]
    # |Y - Z B|^2 = tr(Y'Y) - 2 tr(B'Z'Y) + tr(B'Z'Z B), of second moments alone.
    fitted = (maps * (zz @ maps)).sum(dim=(1, 2))
    return (yy.trace() - 2 * (maps * zy).sum(dim=(1, 2)) + fitted).clamp(min=0)


class Lens:
    """The inner read-outs of a model.

    Args:
        model: whose final norm is applied anew to each residual.
        tuned: of the layers to read; they are read raw, too.
        jacobian: of the same layers, as a third way.
    """

    def __init__(self, model: "PreTrainedModel", tuned: TunedLens, jacobian: TunedLens | None = None) -> None:
        last = len(blocks(model)) - 1
        if unknown := [layer for layer in tuned.layers if not 0 <= layer <= last]:
            raise UserError(f"tuned lens: is of layer {unknown[0]}; the model has layers 0 to {last}")
        self.layers, self.norm = tuned.layers, final_norm(model)
        self.device = next(self.norm.parameters()).device
        maps = {TRANSLATED: tuned} | ({JACOBIAN: jacobian} if jacobian else {})
        self.maps = {name: lens.to(self.device) for name, lens in maps.items()}
        self.views = [View(layer, lens) for lens in (RAW, *maps) for layer in self.layers]

    def hidden(self, streams: torch.Tensor) -> torch.Tensor:
        """[views, R, d_model] after the final norm, from [R, layers, d_model] after the blocks."""
        here = streams.to(self.device)
        with torch.inference_mode():
            every = torch.cat([here, *(lens(here).to(here) for lens in self.maps.values())], dim=1)
            return self.norm(every.transpose(0, 1))
