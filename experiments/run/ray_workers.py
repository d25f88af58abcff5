"""Many workers by Ray: an actor holds the model, on a GPU of its own if there is one, and takes one batch number
after the other. Placement, restarts and lost nodes are Ray's. The driver, which is this process, alone commits;
so nothing shares a lock, and whoever dies, the same command goes on.
"""

import logging
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.files import json_digest
from ...base.parallel import RESTARTS, RETRIES, answer, by_actors, ray_cluster, sizes
from ...base.settings import parse
from ...hooks.identity import condition_differences
from ...hooks.model.consent import consented, give_consent
from ...hooks.store import ActivationWriter
from ...hooks.store.header import Header
from .config import experiment_of
from .experiment import Experiment, Item, RunConfig, items_of
from .manifest import code_of, file_of
from .worker import BatchRead, Began, OpenWorkers, Worker, Workers

log = logging.getLogger("doxascope")

IN_FLIGHT = 2
"""Batches that an actor has been given: one that it reads, and the next."""
SLOW = 60
"""Seconds after which it is said that workers are waited for."""


class _Actor:
    """A worker, made when it is first asked: then an error is an answer, and not the death of the actor."""

    def __init__(self, settings: dict[str, Any], code: list[str], place: str) -> None:
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        if Path(place).is_dir():
            os.chdir(place)  # paths in settings are relative to the driver's
        self._settings, self._code = settings, code
        self._mark = f"-s{secrets.token_hex(4)}"

    @cached_property
    def _worker(self) -> Worker:
        allowed = [Path(file) for file in self._code]
        experiment = experiment_of(self._settings["experiment"], allow_code=allowed)
        config = parse(experiment.config_type, self._settings, "settings")
        # It reads a batch at a time, which fills no pass.
        config = config.model_copy(update={"together": bool(config.together)})
        give_consent(config, places=allowed)  # what the driver's command line allows
        return Worker(experiment, config, items_of(experiment, config))

    def began(self) -> tuple[dict[str, Any], Began]:
        """The settings as plain data, since an experiment's own may be of a class that the driver has elsewhere."""
        began = self._worker.began
        return began.config.model_dump(mode="json"), began._replace(config=None)  # type: ignore

    def header(self, threads: int) -> Header | None:
        self._worker.use_threads(threads)
        return self._worker.header()

    def read(self, number: int, threads: int, store: Path | None) -> tuple[BatchRead, str]:
        """The batch, and the digest of the conditions under which it was read: a restart may be on another machine."""
        self._worker.use_threads(threads)
        header = self._worker.header()
        writer = ActivationWriter(store, header, self._mark) if store and header else None
        (batch,) = self._worker.read([number], writer)
        return batch, json_digest(self._worker.began.conditions)

    def verify(self, n: int, threads: int) -> dict[str, Any]:
        self._worker.use_threads(threads)
        return self._worker.verify(n)


class _Actors:
    """All of them, seen from the driver."""

    def __init__(self, ray: Any, actors: list[Any], items: Sequence[Item], experiment: Experiment) -> None:
        self._ray, self._actors, self.items = ray, actors, items
        asked = {actor.began.remote(): i for i, actor in enumerate(actors)}
        answers: dict[int, tuple[dict[str, Any], Began]] = {}
        while asked:
            ready, _ = ray.wait(list(asked), timeout=SLOW)
            if not ready:
                log.warning("%d of %d workers are not there yet; is the cluster busy?", len(asked), len(actors))
            answers |= {asked.pop(ref): answer(self._ray, ref) for ref in ready}
        (settings, began), *others = (answers[i] for i in range(len(actors)))
        for i, (_, other) in enumerate(others, 2):
            if differing := condition_differences(began.conditions, other.conditions):
                raise UserError(
                    f"worker {i} would read under other conditions than the first ({'; '.join(differing)}); take nodes "
                    "that are alike"
                )
        self.began = began._replace(config=parse(experiment.config_type, settings, "settings"))

    @property
    def _threads(self) -> int:
        return self.began.conditions["model"]["threads"]

    def use_threads(self, n: int) -> None:
        """See `Worker.use_threads`: each is told with what it is asked."""
        self.began = self.began.with_threads(n)

    def header(self) -> Header | None:
        """See `Worker.header`."""
        return answer(self._ray, self._actors[0].header.remote(self._threads))

    def plan(self) -> None:
        """See `Worker.plan`: no model is here."""

    def verify(self, n: int) -> dict[str, Any]:
        """See `Worker.verify`."""
        return answer(self._ray, self._actors[0].verify.remote(n, self._threads))

    def read(self, numbers: Iterator[int], store: ActivationWriter | None) -> Iterator[BatchRead]:
        """Each actor has at most `IN_FLIGHT` batches; those of one that is given up go to the others."""
        place = store.path.resolve() if store else None
        expected = json_digest(self.began.conditions)
        batches = by_actors(
            self._ray,
            self._actors,
            numbers,
            lambda actor, number: actor.read.remote(number, self._threads, place),
            in_flight=IN_FLIGHT,
        )
        for number, (batch, conditions) in batches:
            if conditions != expected:
                raise UserError(
                    f"batch {number} was read under other conditions: a worker was restarted on a machine that is not "
                    "like the first; take nodes that are alike, and give the same command again"
                )
            if store and "activations" in batch.note:
                batch.note["activations"] = store.adopt(number, batch.note["activations"])
            yield batch


def ray_workers(n: int | None = None, gpus: float | None = None, address: str | None = None) -> OpenWorkers:
    """Opens workers by Ray.

    Args:
        n: how many; None: as many as the cluster's GPUs allow, or one.
        gpus: of each; None: 1 if the cluster has any, else 0.
        address: of a running cluster, as `ray.init` takes it; None: $RAY_ADDRESS, or a cluster of this machine alone,
            which ends with the run.

    Raises UserError, when it is opened, if Ray is not installed, cannot be reached, or has not so many GPUs or cores.
    """

    @contextmanager
    def opened(experiment: Experiment, config: RunConfig) -> Iterator[Workers]:
        threads = config.model.threads or 1
        with ray_cluster(address, (n or 1) * threads) as ray:
            count, share = sizes(ray.cluster_resources(), n, gpus, threads)
            make = ray.remote(num_cpus=threads, num_gpus=share, max_restarts=RESTARTS, max_task_retries=RETRIES)(_Actor)
            given = (
                config.model_dump(mode="json"),
                [*([str(file_of(experiment))] if code_of(experiment) else []), *map(str, consented(config))],
                os.getcwd(),
            )
            actors = [make.remote(*given) for _ in range(count)]
            try:
                yield _Actors(ray, actors, items_of(experiment, config), experiment)
            finally:
                for actor in actors:
                    ray.kill(actor)

    return opened
