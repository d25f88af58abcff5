"""Layers of a model by number, by step or by relative depth."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ..errors import UserError
from ..settings import Settings


class Every(Settings):
    """Every k-th layer, from layer 0."""

    every: int = Field(ge=1)


def _known(given: Any) -> Any:
    plain = _plain(given)
    listed = (plain,) if isinstance(plain, int | float) else list(plain) if isinstance(plain, range) else plain
    if isinstance(listed, list | tuple):
        listed = [_plain(one) for one in listed]
        if listed and all(
            isinstance(one, int | float) and not isinstance(one, bool) and (isinstance(one, int) or 0 <= one <= 1)
            for one in listed
        ):
            return tuple(listed)
    elif listed == "all" or isinstance(listed, dict | Every):
        return listed
    raise ValueError("give `all`, `{every: k}`, layer numbers, or depths from 0.0 to 1.0")


def _plain(given: Any) -> Any:
    """Of arrays and their numbers what they hold."""
    return given.tolist() if hasattr(given, "tolist") else given


Layers = Annotated[Literal["all"] | Every | tuple[int | float, ...], BeforeValidator(_known)]
"""`all`, `{every: k}`, or a list: whole numbers are layers (negative ones from the last), numbers with a point are
relative depths from 0.0, the first layer, to 1.0, the last. One of them need not be a list."""


def layer_numbers(layers: Layers, n_layers: int, key: str) -> tuple[int, ...]:
    """The layers that are meant of a model with so many, ascending.

    Raises UserError, naming the setting `key`, for a layer that the model has not.

    >>> layer_numbers((0.0, 0.5, -1), n_layers=9, key="layers")
    (0, 4, 8)
    >>> layer_numbers(Every(every=4), n_layers=9, key="layers")
    (0, 4, 8)
    """
    if layers == "all":
        return tuple(range(n_layers))
    if isinstance(layers, Every):
        return tuple(range(0, n_layers, layers.every))
    numbers = set()
    for one in layers:
        number = int(one * (n_layers - 1) + 0.5) if isinstance(one, float) else one
        if not -n_layers <= number < n_layers:
            raise UserError(f"{key}: there is no layer {one}; the model has layers 0 to {n_layers - 1}")
        numbers.add(number % n_layers)
    return tuple(sorted(numbers))
