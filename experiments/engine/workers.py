"""Who reads the batches of a run: one worker in this process, or many elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from ...hooks.store import ActivationWriter
from ...hooks.store.header import Header
from ..experiment import Experiment, Item, RunConfig
from .items import items_of
from .worker import BatchRead, Began, Worker


class Workers(Protocol):
    """What the runner asks of them. It alone commits."""

    items: Sequence[Item]

    @property
    def began(self) -> Began:
        """What they say of themselves, which is the same of all."""
        ...

    def use_threads(self, n: int) -> None:
        """See `Worker.use_threads`."""
        ...

    def header(self) -> Header | None:
        """See `Worker.header`."""
        ...

    def read(self, numbers: Iterator[int], store: ActivationWriter | None) -> Iterator[BatchRead]:
        """Read these batches, in any order, each as it is done. A number is asked for shortly before it is read."""
        ...

    def verify(self, n: int) -> dict[str, Any]:
        """See `Worker.verify`."""
        ...


OpenWorkers = Callable[[Experiment, RunConfig], AbstractContextManager[Workers]]


@contextmanager
def one_here(experiment: Experiment, config: RunConfig) -> Iterator[Workers]:
    """Opens a worker in this process."""
    with Worker(experiment, config, items_of(experiment, config)) as worker:
        yield worker
