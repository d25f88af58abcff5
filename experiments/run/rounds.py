"""Several items read at once, by experiments that read one: what they ask of the model is gathered in rounds.

Each item is read in a thread of its own, and one of them runs at a time, in the order of the items, up to what it asks
the model to read or to write. When all wait, what they asked goes to the model, and while a GPU is at it the next
batch of items runs up to what it asks, which the GPU takes up next: then what becomes of the answers, up to the disk,
costs no time of its own. So nothing depends on which thread is faster.

What the items of one group ask to have written is sampled at once. How a text's log-probabilities are rounded depends
on what is sampled beside it, so that groups have to be the same ones whenever an item is read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from ...hooks.exact.option_beliefs import PackedReading
from ...hooks.exact.queries import Query
from ...hooks.generation.generated_texts import GeneratedText, Request
from ...hooks.generation.sampling import Sampling
from ...hooks.lm import LanguageModel

Result = TypeVar("Result")
Groups = Sequence[Sequence[Callable[[LanguageModel], Result]]]
"""Reads of the items of a batch, in groups whose samples are drawn together."""


class _Asked(NamedTuple):
    """What one item asks the model to read, or to write."""

    wanted: Sequence[Query] | Sequence[Request]
    settings: dict[str, Any]
    group: int | None = None
    """Of the items whose texts are written together; None: what is read, which does not hang on its neighbours."""


class _Abandoned(BaseException):
    """Ends a thread whose answer will not come."""


class _Reader(Thread):
    """Reads one item: runs while it is told to go on, and stops when it asks, or ends."""

    def __init__(self, lm: LanguageModel, read: Callable[[LanguageModel], Any], group: int, together: bool) -> None:
        super().__init__(daemon=True)
        self.group = group
        self._read, self._lm = read, _Gathering.__new__(_Gathering)
        self._lm.__dict__.update(lm.__dict__, reader_thread=self, together=together)
        self.asked: _Asked | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._stopped: SimpleQueue[None] = SimpleQueue()

    def run(self) -> None:
        """See Thread."""
        try:
            self.result = self._read(self._lm)
        except BaseException as error:  # it is raised where the items are gathered
            self.error = error
        self.asked = None
        self._stopped.put(None)

    def go_on(self, answer: Any) -> None:
        """Let it run, with the answer to what it asked, until it asks again or ends. None abandons it."""
        if self.ident is None:
            self.start()
        else:
            self._answers.put(answer)
        self._stopped.get()

    def ask(self, asked: _Asked) -> Any:
        """Called by the thread itself."""
        self.asked = asked
        self._stopped.put(None)
        answer = self._answers.get()
        if answer is None:
            raise _Abandoned
        return answer


class _Gathering(LanguageModel):
    """A model whose readings, and samples, wait for those of other items."""

    reader_thread: _Reader
    together: bool

    def read(self, queries: Sequence[Query], **settings: Any) -> PackedReading:
        """See `LanguageModel.read`. What is edited is read at once, and alone."""
        if settings.get("edits"):
            return super().read(queries, **settings)
        settings.pop("edits", None)
        return self.reader_thread.ask(_Asked(queries, settings))

    def sample(self, requests: Sequence[Request], sampling: Sampling, **settings: Any) -> list[GeneratedText]:
        """See `LanguageModel.sample`. What is edited is sampled at once, and alone."""
        if settings.get("marks") or not self.together:
            return super().sample(requests, sampling, **settings)
        return self.reader_thread.ask(_Asked(requests, {"sampling": sampling, **settings}, self.reader_thread.group))


class _Batch:
    """Items that are read together. Nothing is raised before the results are asked for."""

    def __init__(self, lm: LanguageModel, groups: Groups[Any], together: bool) -> None:
        self.lm, self.together = lm, together
        self.readers = [_Reader(lm, read, number, together) for number, reads in enumerate(groups) for read in reads]
        self.failed: Exception | None = None
        self._go_on(dict.fromkeys(range(len(self.readers))))

    def _go_on(self, answers: Mapping[int, Any]) -> None:
        """Let these items run up to what they ask next, and have it read, without waiting for a GPU."""
        for i, answer in sorted(answers.items()):
            self.readers[i].go_on(answer)
            if self.readers[i].error:  # those before it go on, and are not lost by its fault
                self._end(self.readers[i + 1 :])
                del self.readers[i + 1 :]
                break
        try:
            self._started = self._start()
        except Exception as error:
            self.failed = error

    def _start(self) -> list[tuple[list[int], Callable[[], Sequence[Any]]]]:
        """Have all that is asked read and written: of which items, and what waits for it."""
        asked = {i: reader.asked for i, reader in enumerate(self.readers) if reader.asked}
        started: list[tuple[list[int], Callable[[], Sequence[Any]]]] = []
        while asked:
            first = next(iter(asked.values()))
            same = [i for i, other in asked.items() if other[1:] == first[1:]]
            wanted: list[Any] = [asked.pop(i).wanted for i in same]
            if first.group is None:
                started.append((same, self.lm.start_reading(wanted, together=self.together, **first.settings)))
            else:
                started.append((same, partial(self._written, wanted, first.settings)))
        return started

    def _written(self, wanted: Sequence[Any], settings: Mapping[str, Any]) -> list[list[GeneratedText]]:
        """What each asked to have written, sampled at once."""
        texts = iter(self.lm.sample(list(chain.from_iterable(wanted)), **settings))
        return [list(islice(texts, sum(len(request.draws) for request in requests))) for requests in wanted]

    def results(self) -> list[Any]:
        """What each item has read, given what it asks until none asks; up to the first error, which is raised there."""
        while self.failed is None and any(reader.asked for reader in self.readers):
            self._go_on({i: answer for same, wait in self._started for i, answer in zip(same, wait(), strict=True)})
        if self.failed:
            raise self.failed
        return [reader.result for reader in self.readers if not reader.error]

    def abandon(self) -> None:
        """End the threads that wait."""
        self._end(self.readers)

    @staticmethod
    def _end(readers: Sequence[_Reader]) -> None:
        for reader in readers:
            if reader.asked:
                reader.go_on(None)
                reader.join()


def read_in_rounds(lm: LanguageModel, batches: Iterable[Groups[Result]], *, together: bool) -> Iterator[list[Result]]:
    """What each read of each batch gives, batch after batch.

    Args:
        batches: of groups of what reads an item with the model that it is given.
        together: let several items share a forward pass (see `LanguageModel.start_reading`), and sample what the items
            of a group have written at once.

    Raises what a read raises, after what the reads before it have given.
    """
    begun: list[_Batch] = []
    try:
        for groups, following in pairwise(chain(batches, [None])):
            assert groups is not None
            batch = begun.pop() if begun else _Batch(lm, groups, together)
            begun.append(batch)
            if following is not None:
                begun.append(_Batch(lm, following, together))
            results = batch.results()
            begun.remove(batch)
            if results:
                yield results
            if error := batch.readers[-1].error:
                raise error
    finally:
        for batch in begun:
            batch.abandon()
