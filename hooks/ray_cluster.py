"""A Ray cluster, and how many workers it takes."""

import importlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .errors import UserError, cause


@contextmanager
def ray_cluster(address: str | None, cores: int) -> Iterator[Any]:
    """Ray, connected.

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
    place = address or os.environ.get("RAY_ADDRESS")
    own = {} if place else {"num_cpus": max(os.cpu_count() or 1, cores), "include_dashboard": False}
    try:
        ray.init(address=place or "local", logging_level=logging.ERROR, **own)
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
