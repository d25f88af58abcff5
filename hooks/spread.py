"""Independent tasks side by side: on this machine, or by Ray."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from .ray_cluster import answer, ray_cluster, sizes

T = TypeVar("T")
R = TypeVar("R")


class Spread(Protocol):
    """What `map` does, with tasks that may be done side by side."""

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T], /) -> Iterable[R]:
        """What the function gives for each task, in their order."""
        ...


@contextmanager
def spread_over(
    workers: int, executor: str = "local", address: str | None = None, *, local: Callable[[int], Executor]
) -> Iterator[Spread]:
    """Tasks side by side; what they give comes in their order.

    Args:
        workers: how many tasks at a time, of one core each.
        executor: `local` or `ray`.
        address: as `ray_cluster`.
        local: makes what spreads them over this machine; with one worker they are done here.

    Raises UserError as `ray_cluster` and `sizes` do.
    """
    if executor == "ray":
        with ray_cluster(address, workers) as ray:
            sizes(ray.cluster_resources(), workers, 0, 1)
            yield _by_ray(ray, workers)
    elif workers > 1:
        with local(workers) as pool:
            yield pool.map
    else:
        yield map


def _by_ray(ray: Any, workers: int) -> Spread:
    def spread(function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        given, do = ray.put(function), ray.remote(num_cpus=1)(lambda function, task: function(task))
        flying: deque[Any] = deque()
        for task in tasks:
            if len(flying) == workers:
                yield answer(ray, flying.popleft())
            flying.append(do.remote(given, task))
        while flying:
            yield answer(ray, flying.popleft())

    return spread
