"""Independent tasks side by side, on this machine or on a Ray cluster, and how threads of a CPU wait for each other."""

import importlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from itertools import islice
from typing import Any, Protocol, TypeVar

from .errors import UserError, cause

log = logging.getLogger("doxascope")

RESTARTS = 100
"""Of an actor, before it is given up."""
RETRIES = 3
"""Of a task whose actor died: what kills every actor that does it ends the work in a line."""


@contextmanager
def ray_cluster(address: str | None, cores: int) -> Iterator[Any]:
    """Ray, connected; who is connected already stays so.

    Args:
        address: of a running cluster, as `ray.init` takes it; None: $RAY_ADDRESS, or a cluster of this machine alone,
            which ends with this.
        cores: that a cluster of this machine alone has at least.

    Raises UserError if Ray is not installed, or cannot be reached.
    """
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise UserError(f'--executor ray: {error}; pip install "doxascope[ray]"') from error
    if ray.is_initialized():
        yield ray
        return
    place = address or os.environ.get("RAY_ADDRESS")
    local = {} if place else {"num_cpus": max(os.cpu_count() or 1, cores), "include_dashboard": False}
    try:
        ray.init(address=place or "local", logging_level=logging.ERROR, **local)
    except Exception as error:  # of the network, of the cluster's version, ...
        raise UserError(f"Ray cannot be started at {place or 'this machine'}: {cause(error)}") from error
    try:
        yield ray
    finally:
        ray.shutdown()  # and with it the actors, which are this driver's


def answer(ray: Any, ref: Any) -> Any:
    """What a task or an actor gives. Raises what it raised, a UserError without Ray's own account of it."""
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, UserError) else error from error


def sizes(there: dict[str, float], n: int | None, gpus: float | None, threads: int) -> tuple[int, float]:
    """How many workers, with how many GPUs each. Raises UserError if the cluster has not so many GPUs or cores."""
    has, cores = there.get("GPU", 0.0), there.get("CPU", 0.0)
    share = gpus if gpus is not None else float(has > 0)
    count = n or (int(has // share) if share else 1) or 1
    if count * share > has or count * threads > cores:
        raise UserError(
            f"{count} workers with {share:g} GPUs and {threads} threads each: Ray has {has:g} GPUs and {cores:g} "
            "cores; take fewer workers, or set --gpus-per-worker or -o model.threads"
        )
    return count, share


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
            make = ray.remote(num_cpus=1, max_restarts=RESTARTS, max_task_retries=RETRIES)(_Hand)
            hands = [make.remote() for _ in range(workers)]

            def spread(function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
                given = ray.put(function)
                results: dict[int, R] = {}
                following = 0
                done = by_actors(ray, hands, enumerate(tasks), lambda hand, task: hand.do.remote(given, task[1]))
                for (place, _), result in done:
                    results[place] = result
                    while following in results:
                        yield results.pop(following)
                        following += 1

            yield spread
    elif workers > 1:
        with local(workers) as pool:
            yield pool.map
    else:
        yield map


class _Hand:
    """An actor that does any task."""

    def do(self, function: Callable[[T], R], task: T) -> R:
        return function(task)


def by_actors(
    ray: Any, actors: Iterable[Any], tasks: Iterator[T], give: Callable[[Any, T], Any], *, in_flight: int = 1
) -> Iterator[tuple[T, Any]]:
    """Each task and what an actor answers to it, as the answers come. The tasks of an actor that is given up go to the
    others.

    Args:
        give: hands a task to an actor; returns the reference to its answer.
        in_flight: tasks that an actor has been given at a time.

    Raises what a task raises, and UserError if every actor is lost.
    """
    alive, again = list(actors), list[T]()
    flying: dict[Any, tuple[T, Any]] = {}

    def send(actor: Any) -> None:
        for task in again[-1:] or islice(tasks, 1):
            del again[-1:]
            flying[give(actor, task)] = task, actor

    for _ in range(in_flight):
        for actor in alive:
            send(actor)
    while flying:
        (ref,), _ = ray.wait(list(flying), num_returns=1)
        task, actor = flying.pop(ref)
        try:
            result = answer(ray, ref)
        except ray.exceptions.RayActorError as error:
            again.append(task)
            if actor in alive:
                alive.remove(actor)
                log.warning("a worker is lost (%s); %d are left", cause(error), len(alive))
            if not alive:
                raise UserError(
                    f"every worker is lost, the last with {task!r:.60}; give the same command again"
                ) from error
            send(alive[len(flying) % len(alive)])
            continue
        yield task, result
        if actor in alive:
            send(actor)


def wait_passively() -> None:
    """Let threads that wait for work sleep: those that spin cost a factor of three where cores are shared. It holds for
    a process that has not imported torch yet; a choice of the user's own (`OMP_WAIT_POLICY`) stands.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
