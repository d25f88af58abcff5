"""Settings of the inner read-outs: layers, the text that translators are fitted on, and the gates."""

from pydantic import Field

from ..model.layers import Layers, layer_numbers
from ..settings import Settings


class Gate(Settings):
    """What a layer must show, on items that it is not scored on, before it is called a belief (METRICS W3)."""

    share: float = Field(default=0.5, gt=0, lt=1)
    """Of the clusters, drawn by the run's seed, that judge; the others score."""
    coverage: float = Field(default=0.01, ge=0, le=1)
    """The median coverage must reach it."""
    partial_corr: float = Field(default=0.5, ge=-1, le=1)
    """So must the correlation with the exact log-odds, each word's own mean taken out."""


class LensPlan(Settings):
    """Which inner layers to read beside the exact beliefs, raw and translated."""

    layers: Layers = "all"
    methods: tuple[str, ...] | None = Field(default=None, min_length=1)
    """The read-out forms to read inside. None: the one with the fewest surface forms, which costs least."""
    text: str | None = None
    """A UTF-8 file of generic text to fit the translators on, a paragraph a document. None: the model's own answers to
    questions about anything, each up to where it first says a word of the items."""
    draws: int = Field(default=1, ge=1)
    """Own answers to each question."""
    jacobian: int = Field(default=0, ge=0)
    """Tokens of that text over which each layer's Jacobian to the last is averaged, for a third lens; 0: none."""
    gate: Gate = Gate()

    def layer_numbers(self, n_layers: int) -> tuple[int, ...]:
        """The layers that are meant of a model with so many, ascending. Raises UserError for one that it has not."""
        return layer_numbers(self.layers, n_layers, "lens.layers")
