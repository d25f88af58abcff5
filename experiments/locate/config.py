"""Settings of the locate experiment: which pairs, and which cells of the map."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from ...hooks.model.layers import Every, Layers
from ..experiment import RunConfig
from .covariate import CovariatePairs
from .history import HistoryPairs
from .rejection import RejectionPairs
from .testimony import SpeakerPairs
from .urn import UrnPairs


class LocateConfig(RunConfig):
    """Configuration of `locate`."""

    cpu_budget: ClassVar[int] = 640
    """Patched contexts share little, and the mask grows with the square."""
    pairs: Annotated[
        RejectionPairs | UrnPairs | SpeakerPairs | HistoryPairs | CovariatePairs, Field(discriminator="of")
    ]
    """`items` of them are read: the first whose contexts are of equal token length."""
    layers: Layers = Every(every=2)
    """After which blocks rows are interchanged; before the first block they always are."""
    control_layers: Layers = (0.33, 0.9)
    """After which blocks those of the controls are, and the donor's, too."""
    noise_floor: float = Field(default=1e-3, ge=0)
    """In nats: a mean update no larger than this is none."""

    @model_validator(mode="after")
    def _exact_alone(self) -> "LocateConfig":
        if self.model.thinking == "on":
            raise ValueError("model.thinking: a belief after thoughts has no tokens to interchange; set `closed`")
        if self.capture:
            raise ValueError("capture: the map keeps no activations; leave it out")
        return self
