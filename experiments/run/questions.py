"""What is asked and what is read: the settings of every run, items, questions, and the reading of an item."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from ...base.settings import Settings, check_placeholders
from ...hooks.backends.captures import Captured, CapturePlan
from ...hooks.generation.sampled_beliefs import Thoughts
from ...hooks.generation.sampling import Sampling
from ...hooks.lens.plan import LensPlan
from ...hooks.lm import LOW_COVERAGE
from ...hooks.model.spec import ModelSpec
from ...hooks.prompts.chat import Conversation
from ...hooks.prompts.options import TERMINATORS, Option
from ...hooks.prompts.places import Positions
from ...hooks.tree.memory import CPU_PACK, Budgets, Cost
from ...hooks.verbal.number_formats import FORMATS, NumberFormat
from ...hooks.verbal.stated_beliefs import StatedPlan
from ...metrics.registration import Registered
from ..report.findings import Transcript

EVERY_ITEM = 10**7
"""The setting `items` of a run that takes all that there are."""


def _method_name(name: str) -> str:
    """Raises ValueError for a name that would be taken for another one, or cannot be part of one."""
    if not name.isprintable() or name != name.strip() or not name or len(name) > 100 or "/" in name:
        raise ValueError(f"method {name!r}: give a name of at most 100 characters, without '/' and blanks at its ends")
    if name in DERIVED or name.startswith(("judge ", "rater ")) or name.endswith((" sampled", " expected", " greedy")):
        raise ValueError(f"method {name!r}: is the name of what is derived from others; give another")
    return name


DERIVED = frozenset({"control", *FORMATS})
"""What experiments call what they read besides their methods."""
MethodName = Annotated[str, AfterValidator(_method_name)]
"""Of a form of reading, as the settings give it."""


EVERY_KIND, REGISTERED_DEPTH = "unit", 0.6
"""The format in which `kinds: all` has beliefs stated, and the layer that it keeps."""


class RunConfig(Settings):
    """What every experiment's configuration has."""

    reads_stated: ClassVar[bool] = False
    """Whether the experiment reads what `stated` asks for."""
    reads_judges: ClassVar[bool] = False
    """Whether it shows its places to the judges of `stated`."""
    reads_temperatures: ClassVar[bool] = False
    """Whether it keeps beliefs at `temperatures` apart from those at 1."""
    cpu_budget: ClassVar[int] = CPU_PACK
    """The token budget with which the experiment is fastest on a CPU."""

    experiment: str
    model: ModelSpec
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of the items and of all resampling."""
    items: int = Field(ge=1, le=EVERY_ITEM)
    terminators: tuple[str, ...] = TERMINATORS
    token_budget: int | None = Field(default=None, ge=1)
    """Most tokens of one forward pass. None: a run chooses by the device and the model's shape, and records it."""
    batch_items: int = Field(default=4, ge=1)
    """Items that are read in one tree and committed together."""
    together: bool | None = None
    """Whether items share forward passes of `token_budget` tokens, as many as fill them. What an item reads is the same
    to the bit whatever is beside it (batch invariance). None: on a GPU, with a model that is no mixture of experts,
    and not quantised."""
    low_coverage: float = Field(default=LOW_COVERAGE, ge=0, le=1)
    """Read-outs whose options hold less are flagged, not dropped."""
    temperatures: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """Exact beliefs at these besides 1: the same logits, rescaled."""
    sampling: Sampling = Sampling()
    """The sampling distribution of sampled answers."""
    kinds: Literal["chosen", "all"] = "chosen"
    """`all`: beside the exact belief also what the model states, in the format `unit` if `stated.numbers` names none,
    and what it holds, by probes that are cross-fitted in the run: without `capture` at the layer of the registered
    depth."""
    stated: StatedPlan = StatedPlan()
    """The beliefs that are read as the model, or a judge, states them."""
    instructions: Mapping[str, str] = {}
    """Number format -> what the prompt says instead of its own instruction; `{yes}` and `{no}` are the options."""
    thoughts: Thoughts = Thoughts()
    """The thoughts of a model with `thinking: on`."""
    capture: CapturePlan | None = None
    """The residual stream that is stored beside the beliefs."""
    lens: LensPlan | None = None
    """The inner layers that are read beside the beliefs."""
    registered: Registered | None = None
    """The number that the run is made for; None: all are exploratory. It is fixed once the run has begun."""
    bootstrap_draws: int = Field(default=2000, ge=1, le=10**6)
    level: float = Field(default=0.95, gt=0, lt=1)
    """Of every interval."""

    @property
    def budget(self) -> int:
        """Most tokens of one forward pass: what is set, or what is best on a CPU."""
        return self.token_budget or self.cpu_budget

    def unworded_format(self, name: str, options: Sequence[str]) -> NumberFormat:
        """The number format of that name; of two options with the instruction that the settings give, if any."""
        text = self.instructions.get(name)
        if text is None or len(options) != 2:
            return FORMATS[name]
        return replace(FORMATS[name], instruction=text.format(yes=options[0], no=options[1]))

    def number_format(self, name: str, yes: str, no: str) -> NumberFormat:
        """The number format of that name for these options, worded as the settings say."""
        return self.unworded_format(name, (yes, no)).worded(yes, no)

    def on_device(self, budgets: Budgets) -> Self:
        """With the token budget of a device, and whether items share passes there, if that is not set."""
        chosen = self.token_budget or (self.budget if budgets.on_cpu else budgets.pack)
        together = budgets.invariant if self.together is None else self.together
        return self.model_copy(update={"token_budget": chosen, "together": together})

    @model_validator(mode="before")
    @classmethod
    def _kinds_are_spelled_out(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("kinds") != "all":
            return data
        filled = {**data, "capture": data.get("capture") or {"layers": [REGISTERED_DEPTH]}}
        stated = data.get("stated") or {}
        if cls.reads_stated and isinstance(stated, Mapping):
            filled["stated"] = {**stated, "numbers": stated.get("numbers") or [EVERY_KIND]}
        return filled

    @model_validator(mode="after")
    def _what_is_set_is_read(self) -> Self:
        for name, text in self.instructions.items():
            if name not in FORMATS:
                raise ValueError(f"instructions: format {name!r} is not one of {', '.join(FORMATS)}")
            check_placeholders(f"instructions.{name}", text, ("yes", "no"))
        if self.model.thinking == "on" and self.temperatures:
            raise ValueError("temperatures: thoughts are sampled at 1; leave them out with `model.thinking: on`")
        if not self.reads_temperatures and self.temperatures:
            raise ValueError(f"temperatures: {self.experiment} is read at 1; leave them out")
        if not self.reads_stated and self.stated != StatedPlan():
            raise ValueError(f"stated: {self.experiment} reads no stated beliefs; leave it out")
        if not self.reads_judges and self.stated.judges:
            raise ValueError(f"stated.judges: {self.experiment} shows nothing to judges; leave them out")
        return self


@dataclass(frozen=True)
class Item:
    """The unit that is sampled, and the content that its questions share."""

    id: str
    cluster: str
    """Items that share content share a cluster; all uncertainty is over clusters."""
    content: Mapping[str, Any]
    beside: Mapping[str, Any] = field(default_factory=dict)
    """What it is read against, of other items: no part of the content by which the items of runs pair."""

    @property
    def record(self) -> tuple[str, str, dict[str, Any]]:
        """What is written down of it."""
        return self.id, self.cluster, dict(self.content)


@dataclass(frozen=True)
class Question:
    """One read-out before it is tokenised: the conversation, how the answer begins, and the options."""

    readout_id: str
    method: str
    scenario: str
    conversation: Conversation
    prefill: str
    options: tuple[Option, ...]
    step: int = 0
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """Columns of the belief table that say under which conditions it is read."""
    draws: int = 0
    """Answers to sample beside the exact read-out."""
    mentioned: tuple[Option, ...] = ()
    """The options as they may stand within a sentence: if given, and answers are sampled, so is the exact chance that
    they name each option first."""
    positions: Positions = field(default_factory=dict)
    """Where a capture reads."""
    thought: Sequence[int] | None = None
    """Of a model that thinks, the tokens of its thought before the answer; empty: none. None: thoughts are sampled, and
    the belief is their mixture.
    """
    own_turns: bool = False
    """The assistant's turns are the model's own: then what it gave to them is not read, which spares an unembedding of
    every token of them."""


class Read(NamedTuple):
    """What was read of one item."""

    rows: Sequence[Mapping[str, Any]]
    """Of the belief table."""
    transcripts: Sequence[Transcript]
    """One per read-out that was asked for; those that are derived from it share its transcript."""
    cost: Cost
    """Of the exact part."""
    captured: Captured | None
    """If the run captures."""
