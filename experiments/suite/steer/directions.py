"""The directions of a run, by layer: the one that is asked about, and its controls of the same length."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....base.documents import user_path
from ....base.errors import UserError, nearest
from ....hooks.edits.vectors import Vector
from ....hooks.lm import LanguageModel
from ....hooks.prompts.places import Position
from ....metrics.contract import Floats
from ....probes.detectors import read_arrays
from ....probes.probe import ENDINGS, Probe
from ....probes.statements import csv_statements, neutral_chats
from ....probes.sweep import layer_at
from .config import SteerConfig

OWN, RANDOM, ORTHOGONAL, SHUFFLED = "direction", "random", "orthogonal", "shuffled"
CHATS = 8
"""Whose last tokens say how long the residual stream is."""
PROBE_LENGTH = 0.1
"""Of a probe's direction, in lengths of the residual stream."""


class Way(NamedTuple):
    """A direction at one layer."""

    layer: int
    name: str
    """`direction`, or that of a control."""
    draw: int
    """Number of the control."""
    vector: Vector


class _Found(NamedTuple):
    """What the settings name, before layers are chosen."""

    by_layer: Floats
    """[1 or layers, d]."""
    source: str
    probe_layer: int | None = None


def ways(config: SteerConfig, lm: LanguageModel) -> list[Way]:
    """Every direction, layer by layer, that which is asked about first; drawn by the seed.

    Raises UserError for a file or statements that hold no direction of this model's width or for these layers.
    """
    n_layers = int(lm.model.config.get_text_config().num_hidden_layers)
    given = config.direction
    if given.statements is None and given.file is None:
        raise UserError("direction: none is given; --direction truth.npz, or statements.csv with `statement,label`")
    found = _from_file(user_path(given.file), given.key) if given.file else None
    chosen = config.layers or ((found.probe_layer,) if found and found.probe_layer is not None else (0.5,))
    layers = [layer if isinstance(layer, int) else layer_at(layer, n_layers) for layer in chosen]
    if wrong := [layer for layer in layers if layer >= n_layers]:
        raise UserError(f"layers: {wrong[0]} is none of this model's, which are 0 to {n_layers - 1}")
    x, y = (None, None) if found else _activations(config, layers, lm)
    own = _of_layers(found.by_layer, layers, n_layers) if found else _means(x, y)
    width = int(lm.model.config.get_text_config().hidden_size)
    if own.shape[1] != width:
        raise UserError(f"direction: has {own.shape[1]} entries, the residual stream of this model {width}")
    if not np.linalg.norm(own, axis=1).all():
        raise UserError("direction: has length 0")
    share = config.length or (PROBE_LENGTH if found and found.probe_layer is not None else None)
    if share is not None:
        own = own / np.linalg.norm(own, axis=1, keepdims=True) * (share * _lengths(layers, lm))[:, None]
    source = found.source if found else f"difference in means of {len(y)} statements, {given.statements}"  # type: ignore
    made: list[Way] = []
    for place, (layer, direction) in enumerate(zip(layers, own, strict=True)):
        made.append(Way(layer, OWN, 0, Vector(direction, OWN, source)))
        rng = np.random.default_rng([config.seed, layer])
        for name, n in config.controls.model_dump().items():
            for draw in range(n):
                other = _control(name, direction, rng, None if x is None else x[:, place], y)
                made.append(Way(layer, name, draw, Vector(other, f"{name} {draw}", f"seed {config.seed}")))
    return made


def _control(name: str, direction: Floats, rng: np.random.Generator, x: Floats | None, y: Any) -> Floats:
    """A control, as long as the direction."""
    if name == SHUFFLED:
        other = rng.permutation(direction) if x is None else _means(x[:, None], rng.permutation(y))[0]
    else:
        other = rng.normal(size=direction.shape)
    if name == ORTHOGONAL:
        other = other - direction * (other @ direction) / (direction @ direction)
    return other / np.linalg.norm(other) * np.linalg.norm(direction)


def _from_file(path: Path, key: str | None) -> _Found:
    """The direction of a file. Raises UserError for one that holds none, or several of which none is named."""
    beside = path.with_suffix(".json") if path.suffix in ENDINGS else Path(f"{path}.json")
    if beside.is_file() and path.suffix in ("", *ENDINGS):
        probe = Probe.load(path)
        return _Found(probe.readout.direction[None], f"probe {probe.meta.name}, {path}", probe.meta.layer)
    arrays = read_arrays(path)
    if key is not None and key not in arrays:
        raise UserError(f"{path}: has no array {key!r}; {nearest(key, arrays)}")
    if key is None and len(arrays) != 1:
        raise UserError(f"{path}: has {', '.join(arrays)}; name one by -o direction.key={next(iter(arrays), '')}")
    values = np.asarray(arrays[key] if key is not None else next(iter(arrays.values())))
    if values.dtype.kind not in "biuf" or values.ndim not in (1, 2) or not np.isfinite(values).all():
        raise UserError(f"{path}: holds {values.dtype} {list(values.shape)}; give finite numbers [d], or [layers, d]")
    return _Found(np.atleast_2d(values.astype(np.float64)), str(path))


def _of_layers(values: Floats, layers: Sequence[int], n_layers: int) -> Floats:
    """[layers, d]: one vector for all, one for each that is steered, or one for each of the model."""
    if len(values) == 1:
        return np.repeat(values, len(layers), axis=0)
    if len(values) == n_layers:
        return values[[*layers]]
    if len(values) != len(layers):
        raise UserError(f"direction: has {len(values)} layers; give 1, the {len(layers)} of `layers`, or {n_layers}")
    return values


def _activations(config: SteerConfig, layers: Sequence[int], lm: LanguageModel) -> tuple[Floats, NDArray[np.float64]]:
    """[statements, layers, d] at the end of each statement, as a user's message, and [statements] labels."""
    path = user_path(config.direction.statements or "")
    stated = csv_statements([path])
    labels = np.array([float(statement.true) for statement in stated])
    if labels.min() == labels.max():
        raise UserError(f"{path}: all labels are {labels[0]:g}; a direction needs both")
    asked = [question.choice.text.casefold() for question in config.questions.questions()]
    if both := next((each.text for each in stated if any(each.text.casefold() in text for text in asked)), None):
        raise UserError(f"{path}: {both!r} stands in a question, too: a direction is no measure of what it is made of")
    return _read([statement.text for statement in stated], Position(message=0), layers, lm), labels


def _read(texts: Sequence[str], position: Position, layers: Sequence[int], lm: LanguageModel) -> Floats:
    """[texts, layers, d] the residual stream in users' messages."""
    order = sorted({*layers})
    talks = [[{"role": "user", "content": text}] for text in texts]
    plan = {"positions": {"here": position}, "layers": order}
    captured = lm.beliefs(talks, ["Yes", "No"], capture=plan).residuals  # type: ignore
    values = np.asarray(captured, dtype=np.float64)
    return values[:, [order.index(layer) for layer in layers]]


def _lengths(layers: Sequence[int], lm: LanguageModel) -> Floats:
    """[layers] mean length of the residual stream at the last token of neutral chats."""
    return np.linalg.norm(_read(neutral_chats(CHATS), Position(message=0), layers, lm), axis=2).mean(axis=0)


def _means(x: Any, y: Any) -> Floats:
    """[layers, d] the mean of what is true [n, layers, d], less that of what is false."""
    return x[y == 1].mean(axis=0) - x[y == 0].mean(axis=0)
