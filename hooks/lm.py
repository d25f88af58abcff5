"""A loaded model with its read-outs, for scripts and notebooks."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..base.errors import UserError, in_one_line, told_briefly
from ..base.parallel import wait_passively
from ..base.settings import as_seed, parse
from ..base.text import shown_size
from ..metrics.beliefs import belief_table
from .backends.backend import Backend
from .backends.captures import Capturing, as_plan
from .backends.libraries import make_backend, require_library
from .edits.interventions import Marks
from .exact import option_beliefs
from .exact.queries import Branches, Edits, PromptReader, Query, branch_names
from .exact.self_check import Chosen, check_server, choose_path
from .exact.served import Server, read_served, refuse_activations
from .generation.engines import ENGINES, ContinuousBatching, EngineSampler
from .generation.generated_texts import GeneratedText, Request, Sampler
from .generation.histories import CachedHistories, GrownReading, Histories, RecomputedHistories, read_grown
from .generation.rows import CachedRows, ForkedRows, HistoryRows, TreeRows
from .generation.sampled_beliefs import BUDGET as HISTORIES
from .generation.sampled_beliefs import Mentions, read_mentions
from .generation.sampling import Sampling
from .identity import Identity, identify
from .model.consent import changed
from .model.head import Head
from .model.loading import TextSide, handed_over, load_model, load_text_side
from .model.spec import ModelSpec, resolve_model
from .prompts.chat import Conversation, as_conversations
from .prompts.options import TERMINATORS, Option, make_options
from .tree.attention import takes_joined
from .tree.memory import Budgets, budgets_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from .lens.lens import Lens

log = logging.getLogger("doxascope")

LOW_COVERAGE = 0.5
"""Below this coverage the model would most likely not have said any of the options (METRICS G1)."""
SAID = 4096
"""Tokens whose text is remembered: few are likeliest beside the options."""


class LanguageModel:
    """A model, its tokenizer, and exact read-outs. Made by `load`; use it in a `with` block."""

    def __init__(
        self, spec: ModelSpec, model: PreTrainedModel, text: TextSide, terminators: Sequence[str] = TERMINATORS
    ) -> None:
        self.spec, self.model, self.tokenizer = spec, model, text.tokenizer
        self.lens: Lens | None = None
        """The lens through which experiments read inner layers, if a run has one."""
        self.reader = PromptReader(spec, text, terminators)
        self.head = Head(model)
        self.sampler = Sampler(text.tokenizer, self.head, text.end_ids)
        self._said = lru_cache(SAID)(lambda token: text.tokenizer.decode([token]))

    def __repr__(self) -> str:
        size = sum(p.numel() for p in self.model.parameters()) if hasattr(self, "model") else 0
        state = f"{shown_size(size)} parameters" if size else "closed"
        spec = self.spec
        return f"{type(self).__name__}({spec.name}: {state}, {spec.dtype}, {spec.backend}, template {spec.template})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        del self.model, self.head, self.sampler, self.lens
        for name in ("chosen", "engine", "server"):
            self.__dict__.pop(name, None)
        gc.collect()  # a library may hold the model in a cycle

    @cached_property
    def identity(self) -> Identity:
        """The identity under which results of this model are recorded."""
        return identify(self.spec, self.model, self.tokenizer, self.chosen, self.engine, self.server)

    def use_threads(self, n: int) -> None:
        """Compute with so many CPU threads from now on."""
        import torch

        torch.set_num_threads(n)
        self.identity = self.identity.model_copy(update={"threads": n})

    @cached_property
    def chosen(self) -> Chosen:
        """The path by which this model is read, chosen at the first use by a check against plain forward passes. Raises
        UserError for a model whose beliefs the back end, or the server, does not reproduce.
        """
        special = set(self.tokenizer.all_special_ids)
        words = [i for i in range(len(self.tokenizer)) if i not in special]
        try:
            with in_one_line("its forward pass fails"):
                make = make_backend(self.spec, self.model, self.tokenizer)
                chosen = choose_path(make, self.model, self.head, self.reader.terminators, words)
            if self.server:
                apart = check_server(self.server, self.model, self.reader.terminators, words, len(self.head.weight))
                log.warning(
                    "%s: vLLM %s reads within %.1e nat of plain passes", self.server.url, self.server.version, apart
                )
            return chosen
        except UserError as error:
            raise UserError(f"model {self.spec.name}: {error}") from error

    @cached_property
    def budgets(self) -> Budgets:
        """How many tokens are run, and held, at once where nothing else is said: by the memory of the device."""
        return budgets_of(self.model)

    @cached_property
    def server(self) -> Server | None:
        """What reads in our place, if the settings name it."""
        return Server(self.spec.server) if self.spec.server else None

    @cached_property
    def engine(self) -> ContinuousBatching | None:
        """What draws texts in our place, if the settings want it."""
        return ENGINES[self.spec.sampler](self.model) if self.spec.sampler in ENGINES else None

    @property
    def on_gpu(self) -> bool:
        """Whether the model's passes run while the host does something else."""
        return self.model.device.type != "cpu"

    @property
    def backend(self) -> Backend:
        """What runs packs on this model. Raises UserError where a server reads."""
        return refuse_activations() if self.spec.server else self.chosen.backend

    def read(
        self,
        queries: Sequence[Query],
        *,
        budget: int | None = None,
        temperatures: Sequence[float] = (),
        capture: Capturing | None = None,
        edits: Edits | None = None,
        lens: Lens | None = None,
    ) -> option_beliefs.PackedReading:
        """Exact readings of compiled queries, in one tree. The first call checks the back end on this model.

        Args:
            queries: made by `reader.query`.
            budget: most tokens of one forward pass; None: by the memory of the device.
            temperatures: at which to read, too.
            capture: sites and layers of the residual stream to take in the same passes, at the places that each
                query was compiled with.
            edits: what is done to activations in further branches of the same tree. The readings of the queries as they
                are come first, then those of every branch, named `<read-out>/<branch>`.
            lens: reads inner layers in the same passes.

        Raises UserError for an edit of a layer, a width or a token that is not there.
        """
        branches = Branches(edits, self.model, self.reader.chat)
        every = [*queries, *branches.queries(queries)]
        (reading,) = self.start_reading([every], budget=budget, temperatures=temperatures, capture=capture, lens=lens)()
        return reading

    def start_reading(
        self,
        requests: Sequence[Sequence[Query]],
        *,
        together: bool = False,
        budget: int | None = None,
        temperatures: Sequence[float] = (),
        capture: Capturing | None = None,
        lens: Lens | None = None,
    ) -> Callable[[], list[option_beliefs.PackedReading]]:
        """The same for several sets of queries, without waiting for a GPU: what is returned waits for it.

        `together`: several sets in one forward pass, where the model's attention can be told of them. What a set reads
        does not depend on the others (see `start_reading`). Raises UserError for what a server that reads cannot give.
        """
        if self.server:
            more = {"temperatures": temperatures, "activations": capture is not None or lens is not None}
            served = self.chosen and read_served(requests, self.server, len(self.head.weight), **more)
            return lambda: served
        return option_beliefs.start_reading(
            requests,
            self.backend,
            self.head,
            budget=budget or self.budgets.pack,
            temperatures=temperatures,
            capture=as_plan(capture),
            lens=lens,
            joined=together and self.chosen.path == "packed" and takes_joined(self.backend.model),
        )

    def read_grown(
        self,
        queries: Sequence[Query],
        histories: Histories,
        *,
        budget: int | None = None,
        temperatures: Sequence[float] = (),
    ) -> GrownReading:
        """Exact readings of compiled queries after histories that this model has sampled, of which only what is new is
        computed. `histories` is made by the method of that name. Raises UserError where a server reads.
        """
        if self.server:
            raise UserError("model.server: reads no histories as they grow; leave it out with thoughts and drawn turns")
        return read_grown(queries, histories, self.head, budget=budget or self.budgets.pack, temperatures=temperatures)

    def read_plain(self, query: Query) -> option_beliefs.ExactReading:
        """The exact reading of one query by an ordinary forward pass per surface form."""
        return option_beliefs.read_plain(query, self.model)

    @told_briefly
    def beliefs(
        self,
        messages: str | Conversation | Sequence[str | Conversation],
        options: Sequence[str],
        *,
        prefill: str = "",
        forms: Sequence[str] = ("{option}", "{Option}"),
        capture: Capturing | None = None,
        edits: Edits | None = None,
        budget: int | None = None,
    ) -> option_beliefs.Beliefs:
        """The exact distribution over `options` as the next assistant turn.

        Args:
            messages: a question, a conversation, or several of either (read in one tree).
            options: the answers, at least two.
            prefill: how the assistant's turn already begins.
            forms: what counts as saying an option; `{option}` as given, `{Option}` capitalised. Their
                probabilities are summed.
            capture: `"last"` reads the residual stream after each block at the prompt's last token in the same pass,
                `"prompt"` at each of its tokens; a `CapturePlan`, or its settings as a mapping, at any sites, layers
                and positions.
            edits: a list of `Steer`, `Ablate` and `Replace`, made together in a branch `edited`, or several such lists
                by the names of their branches. Each branch is read beside the unedited one, in the same passes.
            budget: most tokens of one forward pass; None: by the memory of the device.

        Returns:
            A belief table with `logp` (natural, not normalised), `prob` (normalised over the options) and
            `coverage`, and the residuals if captured.

        Raises UserError for options that are empty, alike or overlapping, for a prompt whose ids change when an
        option follows, and for an edit of a layer, a width or a token that is not there.
        """
        if self.spec.thinking == "on":
            raise UserError(
                "thinking 'on': a belief is a mixture over thoughts; run an experiment, or load it 'closed'"
            )
        plan = as_plan(capture)
        conversations = as_conversations(messages)
        compiled = make_options(options, forms)
        queries = [
            self.reader.query(str(i), c, compiled, prefill, positions=plan.places() if plan else None)
            for i, c in enumerate(conversations)
        ]
        readings, _, captured = self.read(queries, budget=budget, capture=plan, edits=edits)
        method = "prefill" if prefill else "free"
        named = [{"readout_id": q.readout_id, "item": q.readout_id, "method": method} for q in queries]
        records = Branches(edits, self.model, self.reader.chat).records
        names = [*named, *(branch_names(readout, branch) for branch in records for readout in named)]
        rows = [
            {**name, "cluster": name["item"]} | row
            for name, reading in zip(names, readings, strict=True)
            for row in self.option_rows(reading, compiled)
        ]
        return option_beliefs.Beliefs(
            belief_table(rows), option_beliefs.one_row_each(captured, len(readings)), captured, records
        )

    def sample(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        *,
        seed: int,
        budget: int | None = None,
        until: Sequence[int] = (),
        marks: Marks | None = None,
        branch: str = "",
    ) -> list[GeneratedText]:
        """The draws of each request, in their order. See `generation` for what a draw depends on.

        The ids of `until` end a draw, as the end of the turn does. `marks` are the edits of the one prompt that is
        asked for, and of what follows it, `branch` their name.

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
        seed = as_seed(seed)
        budget = budget or self.budgets.held
        sampler = Sampler(self.tokenizer, self.head, [*self.sampler.end_ids, *until]) if until else self.sampler
        if self.engine and sampling.temperature > 0:
            if marks:
                raise UserError(f"edits: {self.engine.name} draws without them; leave model.sampler out")
            drawing = EngineSampler(self.engine, sampler, self.backend, self.head)
            return drawing.generate(requests, sampling, seed=seed, held=budget, pack=self.budgets.pack)
        rows = TreeRows(self.histories(), marks) if marks else self.rows()
        branches = [branch] if marks else []
        return sampler.generate(requests, rows, sampling, seed=seed, budget=budget, branches=branches)

    @told_briefly
    def generate(
        self,
        messages: str | Conversation | Sequence[str | Conversation],
        n: int = 1,
        *,
        seed: int = 0,
        prefill: str = "",
        edits: Edits | None = None,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        max_new_tokens: int = 100,
        stop: Sequence[str] = (),
        budget: int | None = None,
        **others: object,
    ) -> list[GeneratedText]:
        """Sampled next assistant turns; by default from the model's own distribution, not truncated.

        Args:
            messages: a question, a conversation, or several of either.
            n: draws of each.
            seed: the same seed draws the same; more draws begin with the same ones.
            prefill: how the assistant's turn already begins.
            edits: as for `beliefs`; what is generated is edited where they say `answer` or `all`. Each branch draws by
                the same random numbers as the unedited one.
            temperature: 0 is greedy.
            top_k, top_p: draw among the likeliest tokens alone; 0 and 1 are no limit.
            max_new_tokens: of a draw.
            stop: texts that end it, besides the end of the turn.
            budget: most tokens whose keys and values are held at once; None: by the memory of the device.
            others: further fields of Sampling.

        Returns: n samples of the first conversation, then of the next; then the same of every branch, whose `branch`
            says which.
        """
        given: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        given |= {"max_new_tokens": max_new_tokens, "stop": stop if isinstance(stop, str) else tuple(stop)}
        distribution = parse(Sampling, {**given, **others}, "generate()")
        branches = Branches(edits, self.model, self.reader.chat)
        conversations = as_conversations(messages)
        requests = [
            Request(str(i), self.reader.chat.render(conversation, prefill), range(n))
            for i, conversation in enumerate(conversations)
        ]
        drawn = self.sample(requests, distribution, seed=seed, budget=budget)
        for branch in branches.names:
            for request, conversation in zip(requests, conversations, strict=True):
                place = branch, conversation, prefill, request.prompt, f"conversation {request.readout_id}"
                marks = branches.marks(*place)
                edited = self.sample([request], distribution, seed=seed, budget=budget, marks=marks, branch=branch)
                drawn += [replace(sample, branch=branch) for sample in edited]
        return drawn

    @told_briefly
    def mentions(
        self, samples: Sequence[GeneratedText], query: Query, sampling: Sampling, *, budget: int = HISTORIES
    ) -> Mentions:
        """First mentions in the answers to one prompt, counted and expected (see `read_mentions`)."""
        return read_mentions(samples, query, sampling, self.histories(budget), self.head, budget=budget)

    def histories(self, budget: int | None = None) -> Histories:
        """An empty tree of histories: with a cache if the model takes a tree's mask, else made anew each step."""
        if self.chosen.path == "packed":
            return CachedHistories(self.model)
        return RecomputedHistories(self.backend, budget or self.budgets.pack)

    def rows(self) -> HistoryRows:
        """What sampling runs on: with a cache where the model takes the mask of a tree, or goes on from one by single
        tokens as it reads them in a prompt; else computed anew.
        """
        if self.chosen.path == "packed":
            return CachedRows(self.model, self.budgets.pack)
        if self.chosen.path in ("forked", "stepped"):
            return ForkedRows(self.model, self.budgets.pack)
        return TreeRows(self.histories())

    def option_rows(
        self, reading: option_beliefs.ExactReading, options: Sequence[Option], low_coverage: float = LOW_COVERAGE
    ) -> list[dict[str, object]]:
        """The rows of the belief table that one reading fills, without the columns of its experiment."""
        competitor = {
            "competitor": self._said(reading.competitor.token),
            "competitor_logp": reading.competitor.logp,
            "forced_logp": reading.prefilled_logp,
        }
        return [row | competitor for row in option_beliefs.exact_rows(reading.logp, options, low_coverage)]


Model = TypeVar("Model", bound=LanguageModel)


def open_model(
    model: str | ModelSpec | PreTrainedModel,
    *,
    kind: type[Model] = LanguageModel,  # type: ignore
    terminators: Sequence[str] = TERMINATORS,
    tokenizer: PreTrainedTokenizerBase | None = None,
    **settings: object,
) -> Model:
    """Load a model for reading, as `doxascope.load` does, as a `kind` of model; settings that are None stay."""
    wait_passively()
    given = {key: value for key, value in settings.items() if value is not None}
    if not isinstance(model, str | ModelSpec):
        spec, whole, text = handed_over(model, tokenizer, given)
        require_library(spec)
        return kind(spec, whole, text, terminators)
    if tokenizer is not None:
        raise UserError("tokenizer: belongs to a model that is an object; one that is loaded brings its own")
    spec = resolve_model(model) if isinstance(model, str) else model
    if given:
        spec = changed(spec, given)
    require_library(spec)
    return kind(spec, load_model(spec), load_text_side(spec), terminators)
