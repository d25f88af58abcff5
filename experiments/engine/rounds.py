"""Several items read at once, by experiments that read one: what they ask of the model is gathered in rounds.

Each item is read in a thread of its own, and one of them runs at a time, in the order of the items, up to what it asks
the model to read. When all wait, all that they asked goes through the model together, and the next round begins. So
nothing depends on which thread is faster.
"""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from ...hooks.exact.exact import PackedReading
from ...hooks.lm import LanguageModel
from ...hooks.prompts.query import Query

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
        self._read, self._lm = read, _Gathering.of(lm, self)
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

    _reader: _Reader

    @classmethod
    def of(cls, lm: LanguageModel, reader: _Reader) -> "_Gathering":
        """The same model, for one item."""
        made = cls.__new__(cls)
        made.__dict__.update(lm.__dict__, _reader=reader)
        return made

    def read(self, queries: Sequence[Query], **settings: Any) -> PackedReading:
        """See `LanguageModel.read`. What is edited is read at once, and alone."""
        if settings.get("edits"):
            return super().read(queries, **settings)
        settings.pop("edits", None)
        return self._reader.ask(_Asked(queries, settings))


def read_in_rounds(lm: LanguageModel, reads: Sequence[Callable[[LanguageModel], Result]]) -> list[Result]:
    """What each of `reads` gives, where their readings of the model are made together.

    Raises what the first of them raises.
    """
    readers = [_Reader(lm, read) for read in reads]
    try:
        answers: dict[int, PackedReading | None] = dict.fromkeys(range(len(readers)))
        while answers:
            for i, answer in answers.items():
                readers[i].go_on(answer)
                if error := readers[i].error:
                    raise error
            asked = {i: one for i in answers if (one := readers[i].asked)}
            answers = {}
            while asked:
                settings = next(iter(asked.values())).settings
                same = [i for i, one in asked.items() if one.settings == settings]
                found = lm.read_together([asked.pop(i).queries for i in same], **settings)
                answers |= dict(zip(same, found, strict=True))
            answers = dict(sorted(answers.items()))
        return [reader.result for reader in readers]
    finally:
        for reader in readers:
            if reader.asked:
                reader.go_on(None)
