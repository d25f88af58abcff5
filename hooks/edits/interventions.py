"""What is done to activations (a vector is added, a direction or everything is taken out, other rows are put in),
and the marks of the tokens that it touches.

Each token of a query bears a mark: what is done to it. Two tokens are one node of the tree only if their marks are
equal, and those of all tokens before them: so that branches share what is the same in both, and nothing else.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict, Unpack

from pydantic import TypeAdapter, ValidationError

from ...base.errors import UserError, told_briefly
from ..model.blocks import SITES, Layers, Point, Site
from ..prompts.places import PLAIN, Position, plain_position
from .changes import Change, Edit, add_vector, project_out, replace_rows
from .vectors import Vector, as_number, as_vector

if TYPE_CHECKING:
    import torch

    from .vectors import VectorLike

ANSWER, ALL = "answer", "all"
"""What follows the prompt: the tokens of options, or what is generated; and that with the whole prompt."""
_LAYERS: TypeAdapter[Any] = TypeAdapter(Layers)


class Where(TypedDict):
    """Where activations are changed: see `Intervention`."""

    layers: Any
    at: "str | Position | Sequence[str | Position]"
    sites: NotRequired[Site | Sequence[Site]]


@dataclass(eq=False, repr=False)
class Intervention:
    """A change of activations at some layers, sites and tokens; made by `Steer`, `Ablate`, `Replace`, `PatchAlong`,
    `Clamp` or `Erase`.

    Raises UserError for layers, tokens or sites that are none.
    """

    kind: str
    vector: Vector | None
    """What it is made with; None where it needs none."""
    change: "Callable[[torch.Tensor | None], Change]"
    """What is done to rows, by the [rows, width] of its vector."""
    _: KW_ONLY
    layers: Any = None
    """`all`, `{"every": k}`, numbers (negative ones from the last) or depths from 0.0 to 1.0, as in a capture."""
    at: "str | Position | Sequence[str | Position]" = ()
    """The tokens: `last` (of the prompt), `before_answer`, `prompt` (all of its tokens), `answer` (the tokens of the
    options, or those that are generated, and none of the prompt), `all` (prompt and answer), a `Position`, or several
    of these. It has to be given: whether the answer's own tokens are edited is to be said."""
    sites: Site | Sequence[Site] = "resid_post"
    """One or several of `resid_pre`, `head_out`, `attn_out`, `mlp_out`, `resid_post`."""
    name: str = ""
    """Of what it is made with, where that is no vector."""
    further: tuple[Vector, ...] = ()
    """Vectors beside it that must be as wide as the site."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What its record says besides."""

    def __post_init__(self) -> None:
        try:
            self.layers = _LAYERS.validate_python(self.layers)
        except ValidationError:
            raise UserError(
                f"{self.title}: layers {self.layers!r}; give `all`, {{'every': k}}, layer numbers, or depths from 0.0 "
                "to 1.0"
            ) from None
        sites: Any = (self.sites,) if isinstance(self.sites, str) else self.sites
        if not isinstance(sites, Collection) or not sites or any(site not in SITES for site in sites):
            raise UserError(f"{self.title}: sites {self.sites!r}; known: {', '.join(SITES)}")
        self.chosen_sites: tuple[Site, ...] = tuple(sites)
        places: list[Any] = (
            list(self.at) if isinstance(self.at, Collection) and not isinstance(self.at, str) else [self.at]
        )
        if not places:
            known = ", ".join((*PLAIN, ANSWER, ALL))
            raise UserError(f"{self.title}: say by `at` which tokens are edited: {known}, or a Position of tokens")
        self.positions = [self._position(place) for place in places if place != ANSWER]
        self.answer = any(place in (ANSWER, ALL) for place in places)
        """Whether tokens after the prompt are edited."""

    def _position(self, place: "str | Position") -> Position:
        if isinstance(place, str):
            position = plain_position("prompt" if place == ALL else place)
        else:
            position = place if isinstance(place, Position) and place.at != "mean" else None
        if position is None:
            raise UserError(
                f"{self.title}: at {place!r}; give {', '.join((*PLAIN, ANSWER, ALL))}, or a Position of tokens"
            )
        return position

    @property
    def vectors(self) -> "tuple[Vector, ...]":
        """All that must be as wide as the site."""
        return (self.vector, *self.further) if self.vector else self.further

    @property
    def title(self) -> str:
        """As messages call it."""
        return f"{self.kind} {self.vector.name if self.vector else self.name}".rstrip()

    def record(self) -> dict[str, Any]:
        """What tables and manifests say of it."""
        return {
            "edit": self.kind,
            "layers": self.layers.model_dump() if hasattr(self.layers, "model_dump") else self.layers,
            "sites": list(self.chosen_sites),
            "at": [position.model_dump(exclude_none=True) for position in self.positions],
            "answer": self.answer,
            "vector": self.vector.record() if self.vector else None,
            **self.details,
        }

    def __repr__(self) -> str:
        record = self.record()
        at = [str(place["at"]) + (f" {place['text']!r}" if "text" in place else "") for place in record["at"]]
        where = " + ".join([*at, *([ANSWER] if self.answer else [])])
        vector, name = f"{self.vector!r}, " if self.vector else "", self.kind.title().replace(" ", "")
        return f"{name}({vector}layers={record['layers']}, sites={'+'.join(self.chosen_sites)}, at={where})"


@told_briefly
def Steer(vector: "VectorLike", *, strength: float = 1.0, **where: Unpack[Where]) -> Intervention:
    """Add `strength` times a vector (activation addition); `layers`, `at` and `sites` are those of `Intervention`.

    >>> Steer([3.0, 4.0], layers=12, at="last", strength=2.0)
    Steer(Vector('unnamed', [2], norm 5, dea5ce9a), layers=(12,), sites=resid_post, at=last)
    """
    added = as_vector(vector, "unnamed")
    factor = as_number(strength, f"steer {added.name}: strength")
    as_number(factor * float(added.values.abs().max()), f"steer {added.name}: strength times its largest entry")

    def change(values: "torch.Tensor | None") -> Change:
        assert values is not None
        return add_vector((factor * values.double()).float())

    return Intervention("steer", added, change, details={"strength": factor}, **where)


@told_briefly
def Ablate(direction: "VectorLike | None" = None, **where: Unpack[Where]) -> Intervention:
    """Take out the component along a direction of any length (directional ablation); without one, everything: the rows
    are set to zero. Mean ablation is `Replace` with the mean.
    """
    vector = None if direction is None else as_vector(direction, "unnamed")
    if vector and not vector.values.abs().amax(dim=-1).all():
        raise UserError(f"ablate {vector.name}: a direction of length 0 is none")

    def change(values: "torch.Tensor | None") -> Change:
        return (lambda rows, which: rows.new_zeros(rows.shape)) if values is None else project_out(values)

    return Intervention("ablate", vector, change, **where)


@told_briefly
def Replace(values: "VectorLike", **where: Unpack[Where]) -> Intervention:
    """Put other rows in place: those of another context (activation patching), or a mean (mean ablation)."""

    def change(values: "torch.Tensor | None") -> Change:
        assert values is not None
        return replace_rows(values)

    return Intervention("replace", as_vector(values, "unnamed"), change, **where)


class Bound:
    """An intervention on one model: equal to no other, so that each has nodes of its own."""

    def __init__(self, what: "Intervention", points: Mapping[Point, int], digest: str) -> None:
        self.what, self.points, self.digest = what, points, digest
        """`points`: point -> the place of its layer among those of the intervention."""
        self.values = what.vector.by_token_and_layer() if what.vector else None

    def change(self, point: Point, rows: list[int]) -> Change:
        """What is done at a point to nodes that stand for these rows of its vector."""
        if self.values is None:
            return self.what.change(None)
        layer = self.values[:, self.points[point] if self.values.shape[1] > 1 else 0]
        return self.what.change(layer[rows] if len(layer) > 1 else layer[0])


class Touch(NamedTuple):
    """What one intervention does to one token."""

    order: int
    """The intervention's place in its branch."""
    bound: Bound
    row: int
    """Of the vector, where it has one for each token."""


Mark = tuple[Touch, ...]


class Marks(NamedTuple):
    """What is done to the tokens of a query."""

    prompt: tuple[Mark | None, ...]
    """[T]; None: nothing."""
    answer: Mark | None
    """To each token after the prompt."""


def marked_edits(marks: Iterable[tuple[int, Any]]) -> list[Edit]:
    """The edits of nodes with their marks, in the order in which each branch has them."""
    rows_of: dict[tuple[int, Bound], dict[int, int]] = {}
    for node, mark in marks:
        for touch in mark or ():
            rows_of.setdefault((touch.order, touch.bound), {})[node] = touch.row
    return [
        Edit(point, tuple(rows), bound.change(point, list(rows.values())))
        for (_, bound), rows in sorted(rows_of.items(), key=lambda item: item[0][0])
        for point in bound.points
    ]


def marks_digest(marks: Iterable[Any]) -> str:
    """What tells what was done to some tokens; empty for nothing."""
    touches = [
        f"{place}:{touch.order}:{touch.bound.digest}:{touch.row}"
        for place, mark in enumerate(marks)
        for touch in mark or ()
    ]
    return " ".join(touches)
