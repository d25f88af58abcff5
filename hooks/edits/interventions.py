"""What is done to activations: a vector is added, a direction or everything is taken out, other rows are put in."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from ..errors import UserError
from ..model.layers import Layers
from ..model.points import SITES, Site
from ..prompts.places import PLAIN, Position, plain_position
from .changes import Change, add_vector, project_out, replace_rows
from .numbers import as_number
from .vector import Vector, as_vector

if TYPE_CHECKING:
    import torch

    from .vector import VectorLike

ANSWER, ALL = "answer", "all"
"""What follows the prompt: the tokens of options, or what is generated; and that with the whole prompt."""
_LAYERS: TypeAdapter[Any] = TypeAdapter(Layers)


class Intervention(ABC):
    """A change of activations at some layers, sites and tokens.

    Args:
        vector: what it is made with; None where it needs none.
        layers: `all`, `{"every": k}`, numbers (negative ones from the last) or depths from 0.0 to 1.0, as in a capture.
        at: the tokens: `last` (of the prompt), `before_answer`, `prompt` (all of its tokens), `answer` (the tokens of
            the options, or those that are generated, and none of the prompt), `all` (prompt and answer), a `Position`,
            or several of these. It has no default: whether the answer's own tokens are edited is to be said.
        sites: one or several of `resid_pre`, `head_out`, `attn_out`, `mlp_out`, `resid_post`.

    Raises UserError for any of them that is none.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        vector: Vector | None,
        *,
        layers: Any,
        at: "str | Position | Sequence[str | Position]",
        sites: Site | Sequence[Site] = "resid_post",
    ) -> None:
        self.vector = vector
        try:
            self.layers: Any = _LAYERS.validate_python(layers)
        except ValidationError:
            raise UserError(
                f"{self.title}: layers {layers!r}; give `all`, {{'every': k}}, layer numbers, or depths from 0.0 to 1.0"
            ) from None
        named: Any = (sites,) if isinstance(sites, str) else sites
        if not isinstance(named, Collection) or not named or any(one not in SITES for one in named):
            raise UserError(f"{self.title}: sites {sites!r}; known: {', '.join(SITES)}")
        self.sites: tuple[Site, ...] = tuple(named)
        given = list(at) if isinstance(at, Collection) and not isinstance(at, str) else [at]
        if not given:
            raise UserError(f"{self.title}: at is empty; say which tokens are edited")
        self.positions = [self._position(one) for one in given if one != ANSWER]
        self.answer = any(one in (ANSWER, ALL) for one in given)
        """Whether tokens after the prompt are edited."""

    def _position(self, one: "str | Position") -> Position:
        if isinstance(one, str):
            found = plain_position("prompt" if one == ALL else one)
        else:
            found = one if isinstance(one, Position) and one.at != "mean" else None
        if found is None:
            raise UserError(
                f"{self.title}: at {one!r}; give {', '.join((*PLAIN, ANSWER, ALL))}, or a Position of tokens"
            )
        return found

    @property
    def held(self) -> "tuple[Vector, ...]":
        """All vectors that must be as wide as the site."""
        return (self.vector,) if self.vector else ()

    @property
    def title(self) -> str:
        """As messages call it."""
        return f"{self.kind} {self.vector.name}" if self.vector else self.kind

    @abstractmethod
    def change(self, values: "torch.Tensor | None") -> Change:
        """What is done to rows with [rows, width] of its vector."""

    def record(self) -> dict[str, Any]:
        """What tables and manifests say of it."""
        at = [one.model_dump(exclude_none=True) for one in self.positions]
        layers = self.layers.model_dump() if hasattr(self.layers, "model_dump") else self.layers
        vector = self.vector.record() if self.vector else None
        return {
            "edit": self.kind,
            "layers": layers,
            "sites": list(self.sites),
            "at": at,
            "answer": self.answer,
            "vector": vector,
        }

    def __repr__(self) -> str:
        told = self.record()
        at = [str(one["at"]) + (f" {one['text']!r}" if "text" in one else "") for one in told["at"]]
        where = " + ".join([*at, *([ANSWER] if self.answer else [])])
        vector = f"{self.vector!r}, " if self.vector else ""
        return f"{type(self).__name__}({vector}layers={told['layers']}, sites={'+'.join(self.sites)}, at={where})"


class Steer(Intervention):
    """Add `strength` times a vector (activation addition).

    >>> Steer([3.0, 4.0], layers=12, at="last", strength=2.0)
    Steer(Vector('unnamed', [2], norm 5, dea5ce9a), layers=(12,), sites=resid_post, at=last)
    """

    kind = "steer"

    def __init__(
        self,
        vector: "VectorLike",
        *,
        layers: Any,
        at: "str | Position | Sequence[str | Position]",
        sites: Site | Sequence[Site] = "resid_post",
        strength: float = 1.0,
    ) -> None:
        given = as_vector(vector, "unnamed")
        super().__init__(given, layers=layers, at=at, sites=sites)
        self.strength = as_number(strength, f"{self.title}: strength")
        largest = self.strength * float(given.values.abs().max())
        as_number(largest, f"{self.title}: strength times its largest entry")

    def change(self, values: "torch.Tensor | None") -> Change:
        """See `Intervention.change`."""
        assert values is not None
        return add_vector((self.strength * values.double()).float())

    def record(self) -> dict[str, Any]:
        """See `Intervention.record`."""
        return super().record() | {"strength": self.strength}


class Ablate(Intervention):
    """Take out the component along a direction of any length (directional ablation); without one, everything: the rows
    are set to zero. Mean ablation is `Replace` with the mean.
    """

    kind = "ablate"

    def __init__(
        self,
        direction: "VectorLike | None" = None,
        *,
        layers: Any,
        at: "str | Position | Sequence[str | Position]",
        sites: Site | Sequence[Site] = "resid_post",
    ) -> None:
        vector = None if direction is None else as_vector(direction, "unnamed")
        super().__init__(vector, layers=layers, at=at, sites=sites)
        if vector and not vector.values.abs().amax(dim=-1).all():
            raise UserError(f"{self.title}: a direction of length 0 is none")

    def change(self, values: "torch.Tensor | None") -> Change:
        """See `Intervention.change`."""
        if values is None:
            return lambda rows, which: rows.new_zeros(rows.shape)
        return project_out(values)


class Replace(Intervention):
    """Put other rows in place: those of another context (activation patching), or a mean (mean ablation)."""

    kind = "replace"

    def __init__(
        self,
        values: "VectorLike",
        *,
        layers: Any,
        at: "str | Position | Sequence[str | Position]",
        sites: Site | Sequence[Site] = "resid_post",
    ) -> None:
        super().__init__(as_vector(values, "unnamed"), layers=layers, at=at, sites=sites)

    def change(self, values: "torch.Tensor | None") -> Change:
        """See `Intervention.change`."""
        assert values is not None
        return replace_rows(values)
