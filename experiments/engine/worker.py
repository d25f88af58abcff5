"""What holds the model of a run, and reads its batches: in this process, or in one of many."""

import math
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import pandas as pd

from ...hooks.backends.captured import join_captures
from ...hooks.certificate.cached import find_certificate
from ...hooks.certificate.certificate import Certificate
from ...hooks.exact.exact import largest_difference
from ...hooks.exact.tokenisations import Vocabulary, other_tokenisations
from ...hooks.lm import LanguageModel, load
from ...hooks.model.blocks import head_widths
from ...hooks.store import ActivationWriter, store_header
from ...hooks.store.header import Header
from ...metrics import INNER_KINDS, belief_table
from ..addons import ADDONS
from ..experiment import Experiment, Item, LeavesOut, Question, Read, ReadsByItself, RunConfig, Transcript
from ..reading.exact import compile_questions, read_questions
from ..report.rows import jsonable
from ..runs.manifest import code_of, conditions, digest
from .progress import progress
from .rounds import read_in_rounds

MOST_BATCHES = 1000
"""Of a run whose items are more than so many times `batch_items`, several times as many are committed together: a
hundred thousand items make two thousand files, and a kill costs a thousandth of the run."""


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


class Worker:
    """A model, and the experiment that is read on it. Use it in a `with` block."""

    def __init__(self, experiment: Experiment, config: RunConfig, items: Sequence[Item]) -> None:
        self.experiment, self.items = experiment, items
        self.lm = load(config.model, terminators=config.terminators)
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
        lm = self.lm
        spec = lm.spec.model_copy(update={"threads": lm.identity.threads})
        config = config.on_device(lm.budgets).model_copy(update={"model": spec})
        settled: dict[str, Any] = {}
        for addon in ADDONS:
            config, own = addon.begin(self.experiment, config, self.items, lm)
            settled |= own
        now = conditions(config, lm.identity, [list(one) for one in told(self.items)])
        now |= settled | code_of(self.experiment)
        first = (one for item in self.items[: config.batch_items] for one in self._asked(config, item))
        now["prompts"] = digest([lm.reader.chat.digest(one.conversation, one.prefill) for one in first])
        held: Any = now["model"]
        named = {key: value for key, value in held.items() if key != "threads"}
        name = f"{self.experiment.name}-{lm.spec.name}-{digest([now['config'], named])[:8]}"
        return Began(config, now, name, find_certificate(lm.identity))

    def use_threads(self, n: int) -> None:
        """Compute with so many CPU threads from now on."""
        if self.began.conditions["model"]["threads"] == n:
            return
        self.lm.use_threads(n)
        self.began = self.began.with_threads(n)

    def header(self) -> Header | None:
        """Of the run's store of activations, if it has one."""
        capture = self.began.config.capture
        if capture is None:
            return None
        return store_header(
            self.lm.identity,
            sites=capture.sites,
            layers=capture.layer_numbers(self.lm.identity.n_layers),
            commits="../commits.jsonl",
            heads=head_widths(self.lm.model),
        )

    def read(self, numbers: Iterable[int], store: ActivationWriter | None) -> Iterator[BatchRead]:
        """Read batches, in their order; while a GPU is at one, the items of the next begin, if there are any. What is
        captured goes into the store, where it counts once its batch is committed.
        """
        config, whole = self.began.config, batches(self.began.config, self.items)
        begun: deque[tuple[int, int]] = deque()  # batches, and how many trees each has

        def trees() -> Iterator[list[Callable[[LanguageModel], Read]]]:
            for number in numbers:
                starts = range(0, len(whole[number]), config.batch_items)
                begun.append((number, len(starts)))
                for i in starts:
                    yield [partial(self._read, item) for item in whole[number][i : i + config.batch_items]]

        gathered = config.together or self.lm.on_gpu
        every = read_in_rounds(self.lm, trees(), together=config.together) if gathered else _each(self.lm, trees())
        started = time.perf_counter()
        for first in every:
            number, n = begun.popleft()
            more = [one for _ in range(n - 1) for one in next(every)]
            yield self._batch(number, [*first, *more], started, store)
            started = time.perf_counter()

    def _batch(self, number: int, read: Sequence[Read], started: float, store: ActivationWriter | None) -> BatchRead:
        costs = [one.cost for one in read]
        transcripts = [line for one in read for line in one.transcripts]
        beliefs = belief_table(row for one in read for row in one.rows)
        named = zip(*(beliefs[name].tolist() for name in ("readout_id", "status", "kind")), strict=True)
        statuses: dict[str, str] = {}
        for readout_id, status, kind in named:
            if kind not in INNER_KINDS:
                statuses.setdefault(readout_id, status)
        note: dict[str, Any] = {
            "readouts": len(transcripts),
            "statuses": dict(Counter(statuses.values())),
            **{name: sum(getattr(cost, name) for cost in costs) for name in COUNTED},
            "smallest_budget": min(cost.budget for cost in costs),
        }
        captured = [one.captured for one in read if one.captured]
        if store and captured:
            whole = join_captures(captured)
            note["activations"] = store.write(number, whole.rows, {**whole.residuals})
        note["seconds"] = round(time.perf_counter() - started, 3)
        return BatchRead(number, beliefs, transcripts, note)

    def _read(self, item: Item, lm: LanguageModel) -> Read:
        config = self.began.config
        if isinstance(self.experiment, ReadsByItself):
            return self.experiment.read(config, item, lm)
        return read_questions(self.experiment.name, config, item, self.experiment.questions(config, item), lm)

    def _asked(self, config: RunConfig, item: Item) -> list[Question]:
        """The questions of an item that are read."""
        if isinstance(self.experiment, LeavesOut):
            return self.experiment.readable(config, item, self.lm.reader)
        return self.experiment.questions(config, item)

    def verify(self, n: int) -> dict[str, Any]:
        """Recompute `n` read-outs, drawn by the seed, without tree or packs, and read other tokenisations of them. An
        item that cannot be asked has none; empty if none of those drawn can be.
        """
        lm, config = self.lm, self.began.config
        drawn = random.Random(config.seed).choices(self.items, k=n)
        vocabulary = Vocabulary(lm.tokenizer)
        worst = 0.0
        ids, others = [], []
        with progress(n, "read-out", "verifying") as advance:
            for i, item in enumerate(drawn):
                advance(1)
                if not (queries := compile_questions(lm.reader, self._asked(config, item))):
                    continue
                readings, *_ = lm.read(queries, budget=config.budget)
                pick = random.Random(f"{config.seed}-{i}").randrange(len(queries))
                worst = max(worst, largest_difference(readings[pick], lm.read_plain(queries[pick])))
                others.append(other_tokenisations(lm, queries[pick], vocabulary, budget=config.budget))
                ids.append(queries[pick].readout_id)
        if not ids:
            return {}
        return {
            "readouts": ids,
            "largest_difference_nat": worst,
            "other_tokenisations": {
                "largest_share": jsonable(max(one.share for one in others)),
                "largest_change": jsonable(max(one.change for one in others)),
                "read": sum(one.n_read for one in others),
                "of": sum(one.n_all for one in others),
            },
        }


def _each(lm: LanguageModel, trees: Iterable[Sequence[Callable[[LanguageModel], Read]]]) -> Iterator[list[Read]]:
    """The same as in rounds where there is nothing to wait for."""
    for reads in trees:
        yield [one(lm) for one in reads]


COUNTED = ("packs", "tokens_run", "tokens_tree", "halvings")
"""Of what a batch has cost."""


def told(items: Sequence[Item]) -> list[tuple[str, str, dict[str, Any]]]:
    """What is written down of each item."""
    return [(item.id, item.cluster, dict(item.content)) for item in items]


def batches(config: RunConfig, items: Sequence[Item]) -> list[Sequence[Item]]:
    """Items in the groups that are committed together. What is captured makes large files, so that there each tree is a
    group.
    """
    trees = math.ceil(len(items) / config.batch_items)
    several = math.ceil(trees / MOST_BATCHES) if config.capture is None else 1
    size = config.batch_items * several
    return [items[i : i + size] for i in range(0, len(items), size)]
