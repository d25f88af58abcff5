"""Several items read at once, by experiments that read one: what they ask of the model is gathered in rounds.

Each item is read in a thread of its own, and one of them runs at a time, in the order of the items, up to what it asks
the model to read. When all wait, what they asked goes to the model, and while a GPU is at it the next batch of items
runs up to what it asks, which the GPU takes up next: then what becomes of the answers, up to the disk, costs no time of
its own. So nothing depends on which thread is faster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from ...hooks.exact.option_beliefs import PackedReading
from ...hooks.exact.queries import Query
from ...hooks.lm import LanguageModel

Result = TypeVar("Result")


class _Asked(NamedTuple):
    """What one item asks to be read."""

    queries: Sequence[Query]
    settings: dict[str, Any]


class _Abandoned(BaseException):
    """Ends a thread whose answer will not come."""


class _Reader(Thread):
    """Reads one item: runs while it is told to go on, and stops when it asks, or ends."""

    def __init__(self, lm: LanguageModel, read: Callable[[LanguageModel], Any]) -> None:
        super().__init__(daemon=True)
        self._read, self._lm = read, _Gathering.__new__(_Gathering)
        self._lm.__dict__.update(lm.__dict__, reader_thread=self)
        self.asked: _Asked | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self._answers: SimpleQueue[PackedReading | None] = SimpleQueue()
        self._stopped: SimpleQueue[None] = SimpleQueue()

    def run(self) -> None:
        """See Thread."""
        try:
            self.result = self._read(self._lm)
        except BaseException as error:  # it is raised where the items are gathered
            self.error = error
        self.asked = None
        self._stopped.put(None)

    def go_on(self, answer: PackedReading | None) -> None:
        """Let it run, with the answer to what it asked, until it asks again or ends. None abandons it."""
        if self.ident is None:
            self.start()
        else:
            self._answers.put(answer)
        self._stopped.get()

    def ask(self, asked: _Asked) -> PackedReading:
        """Called by the thread itself."""
        self.asked = asked
        self._stopped.put(None)
        answer = self._answers.get()
        if answer is None:
            raise _Abandoned
        return answer


class _Gathering(LanguageModel):
    """A model whose readings wait for those of other items."""

    reader_thread: _Reader

    def read(self, queries: Sequence[Query], **settings: Any) -> PackedReading:
        """See `LanguageModel.read`. What is edited is read at once, and alone."""
        if settings.get("edits"):
            return super().read(queries, **settings)
        settings.pop("edits", None)
        return self.reader_thread.ask(_Asked(queries, settings))


class _Batch:
    """Items that are read together. Nothing is raised before the results are asked for."""

    def __init__(self, lm: LanguageModel, reads: Sequence[Callable[[LanguageModel], Any]], together: bool) -> None:
        self.lm, self.together, self.readers = lm, together, [_Reader(lm, read) for read in reads]
        self.failed: Exception | None = None
        self._go_on(dict.fromkeys(range(len(reads))))

    def _go_on(self, answers: Mapping[int, PackedReading | None]) -> None:
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

    def _start(self) -> list[tuple[list[int], Callable[[], list[PackedReading]]]]:
        """Have all that is asked read: of which items, and what waits for it."""
        asked = {i: reader.asked for i, reader in enumerate(self.readers) if reader.asked}
        started: list[tuple[list[int], Callable[[], list[PackedReading]]]] = []
        while asked:
            settings = next(iter(asked.values())).settings
            same = [i for i, other in asked.items() if other.settings == settings]
            queries = [asked.pop(i).queries for i in same]
            started.append((same, self.lm.start_reading(queries, together=self.together, **settings)))
        return started

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


def read_in_rounds(
    lm: LanguageModel, batches: Iterable[Sequence[Callable[[LanguageModel], Result]]], *, together: bool
) -> Iterator[list[Result]]:
    """What each read of each batch gives, batch after batch.

    Args:
        batches: of what reads an item with the model that it is given.
        together: let several items share a forward pass (see `LanguageModel.start_reading`).

    Raises what a read raises, after what the reads before it have given.
    """
    begun: list[_Batch] = []
    try:
        for reads, following in pairwise(chain(batches, [None])):
            assert reads is not None
            batch = begun.pop() if begun else _Batch(lm, reads, together)
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
