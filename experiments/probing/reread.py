"""What of a job needs a model: the same tokens read by an untrained one of its shape, and neutral chat by itself."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...hooks.errors import UserError
from ...hooks.prompts.places import Position, ResolvedPosition
from ...hooks.store import ActivationStore, Header
from ...metrics.validation import Floats
from ...probes.card.site_rule import AT_THE_ANSWER
from ...probes.data.features import ReadAt
from ...probes.data.neutral import neutral_chats
from ...probes.kept import kept
from ...probes.probe import MODEL_KEYS
from ..engine.config import stored_config
from ..runs.folder import RunFolder
from ..runs.manifest import digest
from .rows import Loaded
from .settings import ProbeJob

if TYPE_CHECKING:
    from ...hooks.lm import LanguageModel

log = logging.getLogger("doxascope")

AGAIN = "leave `untrained` out"


class Tokens(NamedTuple):
    """The tokens up to a place, the last `length` of which are averaged there."""

    ids: tuple[int, ...]
    length: int = 1


def untrained_features(job: ProbeJob, loaded: Loaded, folder: Path, allow_code: Sequence[Path] = ()) -> Floats:
    """[n, d] of the rows at the registered place, by a model of the same shape whose weights are fresh: what the
    architecture and the tokens alone give.

    Raises UserError for prompts that cannot be rendered anew, and for a place that is a mean over tokens.
    """

    def compute() -> Floats:
        from ...hooks.lm import LanguageModel
        from ...hooks.model.loading import load_text_side, untrained_model

        if loaded.asked is not None and loaded.asked.at == "mean":
            raise UserError(f"untrained: {loaded.at.position!r} is a mean over tokens; {AGAIN}")
        _, config = stored_config(RunFolder.open(job.runs[0]).config, allow_code)
        spec = config.model.model_copy(update={"backend": "transformers"})
        log.warning("reading %d prompts by an untrained model, once", len(loaded.data.rows))
        text = load_text_side(spec)
        with LanguageModel(spec, untrained_model(spec, job.study.seed), text, config.terminators) as lm:
            return _read(lm, _prompts(job, loaded, lm), loaded.at, config.budget)

    ids = sorted(loaded.data.rows["readout_id"])
    return _kept(folder, "untrained", [_of(loaded), job.study.seed, ids], compute)


def neutral_features(job: ProbeJob, loaded: Loaded, folder: Path, allow_code: Sequence[Path] = ()) -> Floats:
    """[chats, d] of neutral chat, at the end of the user's message, or where the answer begins if the registered place
    is there.

    Raises UserError if the model is not the one that was captured.
    """
    chats = neutral_chats(job.neutral)

    def compute() -> Floats:
        from ...hooks.lm import load

        _, config = stored_config(RunFolder.open(job.runs[0]).config, allow_code)
        log.warning("reading %d neutral chats, once", job.neutral)
        with load(config.model, terminators=config.terminators) as lm:
            require_same_model(lm, loaded.header)
            where = _alike(loaded.asked)
            return _read(lm, [_up_to(lm, chat, where) for chat in chats], loaded.at, config.budget)

    return _kept(folder, "neutral", [_of(loaded), chats], compute)


def require_same_model(lm: "LanguageModel", header: Header) -> None:
    """Raise UserError, saying in what, if a model is not the one whose activations lie in a store."""
    mine, captured = lm.identity.model_dump(mode="json"), header.conditions["model"]
    if other := [key for key in (*MODEL_KEYS, "dtype") if mine[key] != captured[key]]:
        raise UserError(f"model {lm.spec.name}: is not the one of the run ({', '.join(other)}); put that one back")


def _of(loaded: Loaded) -> object:
    return [loaded.header.conditions["model"], str(loaded.at)]


def _kept(folder: Path, name: str, decides: object, compute: Callable[[], Floats]) -> Floats:
    """What was computed, from the job's folder if it is there."""
    path = folder / f"{name}-{digest(json.loads(json.dumps(decides, default=str)))}.npz"
    return kept(path, lambda: {"features": compute()})["features"]


def _prompts(job: ProbeJob, loaded: Loaded, lm: "LanguageModel") -> list[Tokens]:
    """The tokens of each row up to its place, rendered from what was said; their hash must be that of the store."""
    from ...hooks.backends.captured import ids_hash

    rows = loaded.data.rows
    found: dict[tuple[int, str], Tokens] = {}
    for number, run in enumerate(job.runs):
        there = ActivationStore.open(run).rows(position=loaded.at.position).set_index("readout_id")
        wanted = set(rows.loc[rows["store"] == number, "readout_id"])
        for line in RunFolder.open(run).said():
            name = line["readout_id"]
            if name not in wanted:
                continue
            token, known = there.at[name, "token_index"], there.at[name, "ids_hash"]
            prompt = lm.reader.chat.render(line["messages"], line["prefill"], own_turns=True)
            ids = prompt.ids[: int(str(token)) + 1]
            if ids_hash(ids) != known:
                raise UserError(f"untrained: the prompt of {name!r} cannot be rendered as it was read; {AGAIN}")
            found[number, name] = Tokens(ids)
    names = list(zip(rows["store"].tolist(), rows["readout_id"].tolist(), strict=True))
    if absent := [name for name in names if name not in found]:
        raise UserError(f"untrained: there is no transcript of {absent[0][1]!r}; {AGAIN}")
    return [found[name] for name in names]


def _alike(asked: Position | None) -> Position:
    """The place in a conversation of one message that is most like the one that was asked for."""
    if asked is not None and asked.at in AT_THE_ANSWER:
        return Position(at="last")
    return Position(at="mean" if asked is not None and asked.at == "mean" else "end", message=0)


def _up_to(lm: "LanguageModel", text: str, where: Position) -> Tokens:
    from ...hooks.prompts.chat import Message
    from ...hooks.prompts.places import find_places

    messages = [Message(role="user", content=text)]
    prompt = lm.reader.chat.render(messages)
    (place,) = find_places(lm.reader.chat, messages, "", prompt, {"here": where})
    return Tokens(prompt.ids[: place.token + 1], place.length)


def _read(lm: "LanguageModel", prompts: Sequence[Tokens], at: ReadAt, budget: int) -> Floats:
    """[prompts, d] residuals at one place."""
    from ...hooks.backends.captured import Collector
    from ...hooks.tree.memory import run_packs
    from ...hooks.tree.tree import Pack, TokenTree

    tree = TokenTree()
    collector = Collector(tree, (at.site,), (at.layer,))  # pyright: ignore[reportArgumentType]
    ends = []
    for i, (ids, length) in enumerate(prompts):
        nodes = tree.add(ids)
        ends.append(nodes[-1])
        collector.add_places(str(i), nodes, [ResolvedPosition(at.position, len(ids) - 1, length)])

    def take(pack: Pack) -> int:
        output = lm.backend.run(pack, capture=collector.request(pack))
        collector.collect(pack, output)
        return output.tokens_run

    run_packs(tree, ends, budget, take)
    (residuals,) = collector.result().residuals.values()
    return residuals[:, 0].float().numpy().astype(np.float64)
