"""A loaded model with its read-outs, for scripts and notebooks."""

import gc
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeVar

import numpy as np
import pandas as pd

from ..metrics.beliefs import belief_table
from .backends.backend import Backend
from .backends.capture import CapturePlan
from .backends.make import make_backend, require_library
from .budgets import Budgets, budgets_of
from .errors import UserError, in_one_line
from .exact.exact import ExactReading, PackedReading, exact_rows, read_packed, read_together
from .exact.plain import read_plain
from .exact.self_check import Chosen, choose_path
from .generation.generation import GeneratedText, Request, Sampler
from .generation.growing import CachedHistories, Histories, RecomputedHistories
from .generation.grown import GrownReading, read_grown
from .generation.mentions import BUDGET as HISTORIES
from .generation.mentions import Mentions, read_mentions
from .generation.rows import CachedRows, Rows, TreeRows
from .generation.sampling import Sampling
from .identity import Identity, identify
from .model.head import Head
from .model.loading import TextSide, load_model, load_text_side
from .model.spec import ModelSpec, resolve_model
from .prompts.chat import Conversation, as_conversations
from .prompts.options import TERMINATORS, Option, make_options
from .prompts.places import LAST
from .prompts.query import PromptReader, Query
from .settings import parse
from .tree.attention import attends_by_blocks

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .lens.lens import Lens

LOW_COVERAGE = 0.5
"""Below this coverage the model would most likely not have said any of the options (METRICS G1)."""


class Beliefs(NamedTuple):
    """What `LanguageModel.beliefs` returns."""

    beliefs: pd.DataFrame
    """A belief table: one row per conversation and option."""
    residuals: np.ndarray | None
    """[conversation, layer, d_model] float32 residual stream after each block at the prompt's last token."""


class LanguageModel:
    """A model, its tokenizer, and exact read-outs. Made by `load`; use it in a `with` block."""

    def __init__(
        self,
        spec: ModelSpec,
        model: "PreTrainedModel",
        text: TextSide,
        terminators: Sequence[str] = TERMINATORS,
    ) -> None:
        self.spec, self.model, self.tokenizer = spec, model, text.tokenizer
        self.lens: Lens | None = None
        """The lens through which experiments read inner layers, if a run has one."""
        self.reader = PromptReader(spec, text, terminators)
        self.head = Head(model)
        self.sampler = Sampler(text.tokenizer, self.head, text.end_ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        del self.model, self.head, self.sampler, self.lens
        self.__dict__.pop("chosen", None)
        gc.collect()  # a library may hold the model in a cycle

    @cached_property
    def identity(self) -> Identity:
        """The identity under which results of this model are recorded."""
        return identify(self.spec, self.model, self.tokenizer, self.chosen)

    @cached_property
    def chosen(self) -> Chosen:
        """The path by which this model is read. It is chosen at the first use, by a check of the back end against plain
        forward passes.

        Raises UserError for a model whose beliefs the back end does not reproduce.
        """
        special = set(self.tokenizer.all_special_ids)
        words = [i for i in range(len(self.tokenizer)) if i not in special]
        try:
            with in_one_line("its forward pass fails"):
                make = make_backend(self.spec, self.model, self.tokenizer)
                return choose_path(make, self.model, self.head, self.reader.terminators, words)
        except UserError as error:
            raise UserError(f"model {self.spec.name}: {error}") from error

    @cached_property
    def budgets(self) -> Budgets:
        """How many tokens are run, and held, at once where nothing else is said: by the memory of the device."""
        return budgets_of(self.model)

    @property
    def backend(self) -> Backend:
        """What runs packs on this model."""
        return self.chosen.backend

    def read(
        self,
        queries: Sequence[Query],
        *,
        budget: int | None = None,
        temperatures: Sequence[float] = (),
        capture: CapturePlan | None = None,
        lens: "Lens | None" = None,
    ) -> PackedReading:
        """Exact readings of compiled queries, in one tree. The first call checks the back end on this model.

        Args:
            queries: made by `reader.query`.
            budget: most tokens of one forward pass; None: by the memory of the device.
            temperatures: at which to read, too.
            capture: sites and layers of the residual stream to take in the same passes, at the places that each
                query was compiled with.
            lens: reads inner layers in the same passes.
        """
        return read_packed(
            queries,
            self.backend,
            self.head,
            budget=budget or self.budgets.pack,
            temperatures=temperatures,
            capture=capture,
            lens=lens,
        )

    def read_together(
        self,
        requests: Sequence[Sequence[Query]],
        *,
        budget: int | None = None,
        temperatures: Sequence[float] = (),
        capture: CapturePlan | None = None,
        lens: "Lens | None" = None,
    ) -> list[PackedReading]:
        """The same for several sets of queries, several in one forward pass. What a set reads does not depend on the
        others (see `read_together`).
        """
        return read_together(
            requests,
            self.backend,
            self.head,
            budget=budget or self.budgets.pack,
            temperatures=temperatures,
            capture=capture,
            lens=lens,
            joined=self.chosen.path == "packed",
        )

    @property
    def reads_together(self) -> bool:
        """Whether that is faster: on a GPU, where packs attend by blocks. On a CPU packs of one item are."""
        return self.chosen.path == "packed" and attends_by_blocks(self.backend.model)

    def read_grown(
        self,
        queries: Sequence[Query],
        histories: Histories,
        *,
        budget: int | None = None,
        temperatures: Sequence[float] = (),
    ) -> GrownReading:
        """Exact readings of compiled queries after histories that this model has sampled, of which only what is new is
        computed. `histories` is made by the method of that name.
        """
        return read_grown(queries, histories, self.head, budget=budget or self.budgets.pack, temperatures=temperatures)

    def read_plain(self, query: Query) -> ExactReading:
        """The exact reading of one query by an ordinary forward pass per surface form."""
        return read_plain(query, self.model)

    def beliefs(
        self,
        messages: str | Conversation | Sequence[str | Conversation],
        options: Sequence[str],
        *,
        prefill: str = "",
        forms: Sequence[str] = ("{option}", "{Option}"),
        capture: Literal["last"] | None = None,
        budget: int | None = None,
    ) -> Beliefs:
        """The exact distribution over `options` as the next assistant turn.

        Args:
            messages: a question, a conversation, or several of either (read in one tree).
            options: the answers, at least two.
            prefill: how the assistant's turn already begins.
            forms: what counts as saying an option; `{option}` as given, `{Option}` capitalised. Their
                probabilities are summed.
            capture: `"last"` reads the residual stream at the prompt's last token in the same pass.
            budget: most tokens of one forward pass; None: by the memory of the device.

        Returns:
            A belief table with `logp` (natural, not normalised), `prob` (normalised over the options) and
            `coverage`, and the residuals if captured.

        Raises UserError for options that are empty, alike or overlapping, and for a prompt whose ids change when an
        option follows.
        """
        if self.spec.thinking == "on":
            raise UserError(
                "thinking 'on': a belief is a mixture over thoughts; run an experiment, or load it 'closed'"
            )
        if capture not in (None, "last"):
            raise UserError(f"capture {capture!r}: only 'last' (the prompt's last token) is known")
        conversations = as_conversations(messages)
        made = make_options(options, forms)
        queries = [
            self.reader.query(str(i), c, made, prefill, positions={"last": LAST}) for i, c in enumerate(conversations)
        ]
        readings, _, captured = self.read(queries, budget=budget, capture=CapturePlan() if capture else None)
        residuals = captured.residuals["resid_post"].float().numpy() if captured else None
        method = "prefill" if prefill else "free"
        rows = [
            {"readout_id": id_, "item": id_, "cluster": id_, "method": method} | row
            for id_, reading in ((reading.readout_id, reading) for reading in readings)
            for row in self.option_rows(reading, made)
        ]
        return Beliefs(belief_table(rows), residuals)

    def sample(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        *,
        seed: int,
        budget: int | None = None,
        until: Sequence[int] = (),
    ) -> list[GeneratedText]:
        """The draws of each request, in their order. See `generation` for what a draw depends on.

        The ids of `until` end a draw, as the end of the turn does.

        Raises UserError, naming the read-out, for a prompt that leaves no room for an answer of full length.
        """
        context = self.reader.context
        for request in requests:
            longest = len(request.prompt.ids) + sampling.max_new_tokens
            if context is not None and longest > context:
                raise UserError(
                    f"read-out {request.readout_id}: prompt and answer take up to {longest} tokens, the model takes "
                    f"{context}; shorten the conversation or lower max_new_tokens"
                )
        budget = budget or self.budgets.held
        sampler = Sampler(self.tokenizer, self.head, [*self.sampler.end_ids, *until]) if until else self.sampler
        return sampler.generate(requests, self.rows(), sampling, seed=seed, budget=budget)

    def generate(
        self,
        messages: str | Conversation | Sequence[str | Conversation],
        n: int = 1,
        *,
        seed: int = 0,
        prefill: str = "",
        budget: int | None = None,
        **sampling: object,
    ) -> list[GeneratedText]:
        """Sampled next assistant turns.

        Args:
            messages: a question, a conversation, or several of either.
            n: draws of each.
            seed: the same seed draws the same; more draws begin with the same ones.
            prefill: how the assistant's turn already begins.
            budget: most tokens whose keys and values are held at once; None: by the memory of the device.
            sampling: fields of Sampling, such as `temperature=0` (greedy) or `max_new_tokens=20`; by default the
                model's own distribution, not truncated.

        Returns: n samples of the first conversation, then of the next.
        """
        distribution = parse(Sampling, sampling, "generate()")
        requests = [
            Request(str(i), self.reader.chat.render(conversation, prefill), range(n))
            for i, conversation in enumerate(as_conversations(messages))
        ]
        return self.sample(requests, distribution, seed=seed, budget=budget)

    def mentions(
        self, samples: Sequence[GeneratedText], query: Query, sampling: Sampling, *, budget: int = HISTORIES
    ) -> Mentions:
        """First mentions in the answers to one prompt, counted and expected (see `read_mentions`)."""
        return read_mentions(samples, query, sampling, self.histories(budget), self.head, budget=budget)

    def histories(self, budget: int | None = None) -> Histories:
        """An empty tree of histories: with a cache where the model takes the mask of a tree, else computed anew at
        every step.
        """
        if self.chosen.path == "packed":
            return CachedHistories(self.model)
        return RecomputedHistories(self.backend, budget or self.budgets.pack)

    def rows(self) -> Rows:
        """What sampling runs on: with a cache where the model takes the mask of a tree, else computed anew."""
        packed = self.chosen.path == "packed"
        return CachedRows(self.model, self.budgets.pack) if packed else TreeRows(self.histories())

    def option_rows(
        self, reading: ExactReading, options: Sequence[Option], low_coverage: float = LOW_COVERAGE
    ) -> list[dict[str, object]]:
        """The rows of the belief table that one reading fills, without the columns of its experiment."""
        competitor = {
            "competitor": self.tokenizer.decode([reading.competitor.token]),
            "competitor_logp": reading.competitor.logp,
            "forced_logp": reading.forced_logp,
        }
        return [row | competitor for row in exact_rows(reading.logp, options, low_coverage)]


Model = TypeVar("Model", bound=LanguageModel)


def load(model: str | ModelSpec, *, terminators: Sequence[str] = TERMINATORS, **settings: object) -> LanguageModel:
    """Load a model for reading.

    Args:
        model: a preset's name, a local folder, a `.gguf` file, a hub id, or a ModelSpec.
        terminators: what closes an option.
        settings: fields of ModelSpec to change, such as `dtype="bfloat16"`, `device="cuda"` or `backend="nnsight"`.
    """
    return loaded(LanguageModel, model, terminators, settings)


def loaded(
    kind: type[Model], model: str | ModelSpec, terminators: Sequence[str], settings: Mapping[str, object]
) -> Model:
    """The same as a `kind` of model."""
    spec = resolve_model(model) if isinstance(model, str) else model
    if settings:
        spec = parse(ModelSpec, spec.model_dump() | dict(settings), "load()")
    require_library(spec)
    return kind(spec, load_model(spec), load_text_side(spec), terminators)
