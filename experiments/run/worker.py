"""What holds the model of a run, and reads its batches: one worker in this process, or, behind the same protocol,
many elsewhere.
"""

import math
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol, Self

import pandas as pd

from ...base.files import json_digest
from ...base.progress import progress
from ...hooks.backends.captures import join_captures
from ...hooks.checks.certificate import Certificate, find_certificate
from ...hooks.exact.option_beliefs import largest_difference
from ...hooks.exact.tokenisations import Vocabulary, other_tokenisations
from ...hooks.lm import LanguageModel, open_model
from ...hooks.model.blocks import head_widths
from ...hooks.store import ActivationWriter, store_header
from ...hooks.store.header import Header
from ...metrics import INNER_KINDS, belief_table
from ..report.cells import jsonable
from ..report.findings import Transcript
from .addons import ADDONS
from .experiment import Experiment, items_of
from .manifest import code_of, conditions
from .plan import Plan, make_plan
from .questions import Item, Read, RunConfig
from .readouts import compile_questions
from .rounds import read_in_rounds

MOST_BATCHES = 1000
"""Of a run whose items are more than so many times `batch_items`, several times as many are committed together: a
hundred thousand items make two thousand files, and a kill costs a thousandth of the run."""
PLANNED = 3
"""Items whose trees are built before a run begins, to say what it takes."""
FILLED, MOST_ITEMS = 4, 64
"""Passes that the items of a round fill where they share them and nothing is captured, and how many items those are at
most: each waits in a thread. A kill costs two rounds, and an error in an item its own."""
COUNTED = ("packs", "tokens_run", "tokens_tree", "halvings")
"""Of what a batch has cost."""


def batches(config: RunConfig, items: Sequence[Item]) -> list[Sequence[Item]]:
    """Items that are committed together; what is captured makes large files, so that there each tree is a group."""
    trees = math.ceil(len(items) / config.batch_items)
    several = math.ceil(trees / MOST_BATCHES) if config.capture is None else 1
    size = config.batch_items * several
    return [items[i : i + size] for i in range(0, len(items), size)]


class Began(NamedTuple):
    """What a worker says of itself. Two may read one run if and only if their conditions are equal."""

    config: RunConfig
    """With what the device and the model have settled."""
    conditions: dict[str, Any]
    name: str
    """Of the run's folder."""
    certificate: Certificate | None

    def with_threads(self, n: int) -> "Began":
        """The same, computed with so many CPU threads."""
        model = self.config.model.model_copy(update={"threads": n})
        now = self.conditions | {"model": self.conditions["model"] | {"threads": n}}
        return self._replace(config=self.config.model_copy(update={"model": model}), conditions=now)


class BatchRead(NamedTuple):
    """A batch that was read, and is to be committed."""

    number: int
    beliefs: pd.DataFrame
    transcripts: list[Transcript]
    note: dict[str, Any]
    """For its commit line."""


class Workers(Protocol):
    """Who reads the batches of a run: what the runner asks of them. It alone commits."""

    items: Sequence[Item]

    @property
    def began(self) -> Began:
        """What they say of themselves, which is the same of all."""
        ...

    def use_threads(self, n: int) -> None:
        """Compute with so many CPU threads from now on."""
        ...

    def header(self) -> Header | None:
        """Of the run's store of activations, if it has one."""
        ...

    def read(self, numbers: Iterator[int], store: ActivationWriter | None) -> Iterator[BatchRead]:
        """Read these batches, in any order, each as it is done. A number is asked for shortly before it is read."""
        ...

    def plan(self) -> Plan | None:
        """What the run would do, by a few of its items; None where what reads is elsewhere."""
        ...

    def verify(self, n: int) -> dict[str, Any]:
        """Recompute `n` read-outs, drawn by the seed, without tree or packs, and read other tokenisations of them. An
        item that cannot be asked has none; empty if none of those drawn can be.
        """
        ...


OpenWorkers = Callable[[Experiment, RunConfig], AbstractContextManager[Workers]]


@contextmanager
def one_here(experiment: Experiment, config: RunConfig) -> Iterator[Workers]:
    """Opens a worker in this process."""
    with Worker(experiment, config, items_of(experiment, config)) as worker:
        yield worker


@contextmanager
def sharing_a_model() -> Iterator[OpenWorkers]:
    """The same for several runs, one after the other: a model stays loaded until one is asked for another."""
    import torch

    loaded: list[tuple[Any, LanguageModel]] = []

    @contextmanager
    def open_worker(experiment: Experiment, config: RunConfig) -> Iterator[Workers]:
        items, asked = items_of(experiment, config), (config.model, config.terminators)
        if not loaded or loaded[0][0] != asked:
            close()
            loaded.append((asked, open_model(config.model, terminators=config.terminators)))
        threads = loaded[0][1].identity.threads  # and what is checked at the first use
        torch.set_num_threads(threads)  # a run that went on may have had others
        with Worker(experiment, config, items, copy(loaded[0][1])) as worker:
            yield worker

    def close() -> None:
        while loaded:
            loaded.pop()[1].__exit__()

    try:
        yield open_worker
    finally:
        close()


class Worker:
    """A model, and the experiment that is read on it. Use it in a `with` block."""

    def __init__(
        self, experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel | None = None
    ) -> None:
        self.experiment, self.items = experiment, items
        self.lm = lm or open_model(config.model, terminators=config.terminators)
        try:
            self.began = self._begin(config)
        except BaseException:
            self.lm.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.lm.__exit__(*exception)

    def _begin(self, config: RunConfig) -> Began:
        """Settle what the device, the experiment and the add-ons choose; name the conditions and the run's folder."""
        experiment, lm = self.experiment, self.lm
        spec = lm.spec.model_copy(update={"threads": lm.identity.threads})
        config = config.on_device(lm.budgets).model_copy(update={"model": spec})
        config, choices = experiment.settle(config, lm)
        settled = dict(choices)
        for addon in ADDONS:
            config, choices = addon.begin(experiment, config, self.items, lm)
            settled |= choices
        now = conditions(config, lm.identity, [item.record for item in self.items]) | settled | code_of(experiment)
        asked = [q for item in self.items[: config.batch_items] for q in experiment.readable(config, item, lm.reader)]
        now["prompts"] = json_digest(
            [lm.reader.chat.digest(question.conversation, question.prefill) for question in asked]
        )
        identity = {key: value for key, value in lm.identity.model_dump().items() if key != "threads"}
        name = f"{experiment.name}-{lm.spec.name}-{json_digest([now['config'], identity])[:8]}"
        return Began(config, now, name, find_certificate(lm.identity))

    def use_threads(self, n: int) -> None:
        """See `Workers`."""
        if self.began.conditions["model"]["threads"] != n:
            self.lm.use_threads(n)
            self.began = self.began.with_threads(n)

    def header(self) -> Header | None:
        """See `Workers`."""
        capture = self.began.config.capture
        if capture is None:
            return None
        return store_header(
            self.lm.identity,
            sites=capture.sites,
            layers=capture.layer_numbers(self.lm.identity.n_layers),
            commits="../commits.jsonl",
            heads=head_widths(self.lm.model) if "head_out" in capture.sites else None,
        )

    def read(self, numbers: Iterable[int], store: ActivationWriter | None) -> Iterator[BatchRead]:
        """Read batches, in their order; while a GPU is at some, the items of the next begin, if there are any. What is
        captured goes into the store, where it counts once its batch is committed.
        """
        config, lm, groups = self.began.config, self.lm, batches(self.began.config, self.items)
        begun: deque[int] = deque()
        tokens: deque[int] = deque(maxlen=MOST_ITEMS)  # of the last items that were read

        def several() -> int:
            """Groups of a round: where items share passes, as many as fill some, once it is known how long they are."""
            if not (config.together and tokens):
                return 1
            filled = (FILLED if config.capture is None else 1) * config.budget * len(tokens) / max(1, sum(tokens))
            return math.ceil(min(filled, MOST_ITEMS) / config.batch_items)

        def rounds() -> Iterator[list[list[Callable[[LanguageModel], Read]]]]:
            waiting: list[list[Callable[[LanguageModel], Read]]] = []
            for number in numbers:
                begun.append(number)
                every = iter(groups[number])
                while items := [*islice(every, config.batch_items)]:
                    waiting.append([partial(self.experiment.read, config, item) for item in items])
                while len(waiting) >= (n := several()):
                    yield waiting[:n]
                    waiting = waiting[n:]
            if waiting:
                yield waiting

        if config.together or lm.on_gpu:
            readings = read_in_rounds(lm, rounds(), together=bool(config.together))
        else:  # nothing is waited for
            readings = ([read(lm) for read in chain.from_iterable(waiting)] for waiting in rounds())
        started = time.perf_counter()
        every = chain.from_iterable(readings)
        for first in every:
            number = begun.popleft()
            reads = [first, *islice(every, len(groups[number]) - 1)]
            tokens += [read.cost.tokens_run for read in reads]
            yield _batch_read(number, reads, started, store)
            started = time.perf_counter()

    def plan(self) -> Plan | None:
        """See `Workers`."""
        return make_plan(self.experiment, self.began.config, self.lm, items=self.items, n=PLANNED)

    def verify(self, n: int) -> dict[str, Any]:
        """See `Workers`."""
        lm, config = self.lm, self.began.config
        vocabulary = Vocabulary(lm.tokenizer)
        worst = 0.0
        readout_ids, tokenisations = [], []
        with progress(n, "read-out", "verifying") as advance:
            for i, item in enumerate(random.Random(config.seed).choices(self.items, k=n)):
                advance(1)
                queries = compile_questions(lm.reader, self.experiment.readable(config, item, lm.reader))
                if not queries:
                    continue
                readings, *_ = lm.read(queries, budget=config.budget)
                pick = random.Random(f"{config.seed}-{i}").randrange(len(queries))
                worst = max(worst, largest_difference(readings[pick], lm.read_plain(queries[pick])))
                tokenisations.append(other_tokenisations(lm, queries[pick], vocabulary, budget=config.budget))
                readout_ids.append(queries[pick].readout_id)
        if not readout_ids:
            return {}
        return {
            "readouts": readout_ids,
            "largest_difference_nat": worst,
            "other_tokenisations": {
                "largest_share": jsonable(max(other.share for other in tokenisations)),
                "largest_change": jsonable(max(other.change for other in tokenisations)),
                "read": sum(other.n_read for other in tokenisations),
                "of": sum(other.n_all for other in tokenisations),
            },
        }


def _batch_read(number: int, reads: Sequence[Read], started: float, store: ActivationWriter | None) -> BatchRead:
    """What is committed of the items of a batch: their rows, their transcripts, and what they have cost."""
    costs = [read.cost for read in reads]
    transcripts = [transcript for read in reads for transcript in read.transcripts]
    beliefs = belief_table(row for read in reads for row in read.rows)
    statuses: dict[str, str] = {}
    for readout_id, status, kind in beliefs[["readout_id", "status", "kind"]].itertuples(index=False):
        if kind not in INNER_KINDS:
            statuses.setdefault(readout_id, status)
    note: dict[str, Any] = {
        "readouts": len(transcripts),
        "statuses": dict(Counter(statuses.values())),
        **{name: sum(getattr(cost, name) for cost in costs) for name in COUNTED},
        "smallest_budget": min(cost.budget for cost in costs),
    }
    captured = [read.captured for read in reads if read.captured]
    if store and captured:
        whole = join_captures(captured)
        note["activations"] = store.write(number, whole.rows, {**whole.residuals})
    note["seconds"] = round(time.perf_counter() - started, 3)
    return BatchRead(number, beliefs, transcripts, note)
