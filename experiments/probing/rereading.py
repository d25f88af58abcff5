"""What needs the model once more: the same tokens read by an untrained one of its shape, neutral chat by itself, and
what a lens would say next at a stored position, with nothing appended.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from ...base.errors import UserError
from ...base.files import json_digest
from ...hooks.exact.option_beliefs import normalised, option_rows
from ...hooks.prompts.places import Position, ResolvedPosition
from ...hooks.store import ActivationStore
from ...metrics import belief_table
from ...metrics.beliefs import condition_keys, read_exactly
from ...metrics.contract import Floats
from ...probes.dataset import READINGS
from ...probes.features import AT_THE_ANSWER, ReadAt
from ...probes.job import kept
from ...probes.probe import MODEL_KEYS
from ...probes.statements import neutral_chats
from ..run.addons.inner_layers import fitted_translator
from ..run.addons.passive_beliefs import PASSING, PASSING_FOLDER
from ..run.config import stored_config
from ..run.folder import RunFolder
from ..run.runner import report
from .data import NO_NAME, Loaded, as_read, chosen_readouts, resolved, site_of_position, with_moments
from .settings import ProbeJob

if TYPE_CHECKING:
    from ...hooks.lens.lens import Lens
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
        from ...hooks.lm import open_model

        _, config = stored_config(RunFolder.open(job.runs[0]).config, allow_code)
        log.warning("reading %d neutral chats, once", job.neutral)
        with open_model(config.model, terminators=config.terminators) as lm:
            require_same_model(lm, loaded.header.conditions)
            where = _alike(loaded.asked)
            return _read(lm, [_up_to(lm, chat, where) for chat in chats], loaded.at, config.budget)

    return _kept(folder, "neutral", [_of(loaded), chats], compute)


def require_same_model(lm: "LanguageModel", conditions: Mapping[str, Any]) -> None:
    """Raise UserError, saying in what, if a model is not the one under the conditions of a run, or of its store."""
    mine, read = lm.identity.model_dump(mode="json"), conditions["model"]
    if other := [key for key in (*MODEL_KEYS, "dtype") if mine[key] != read[key]]:
        raise UserError(f"model {lm.spec.name}: is not the one of the run ({', '.join(other)}); put that one back")


def _of(loaded: Loaded) -> object:
    return [loaded.header.conditions["model"], str(loaded.at)]


def _kept(folder: Path, name: str, decides: object, compute: Callable[[], Floats]) -> Floats:
    """What was computed, from the job's folder if it is there."""
    path = folder / f"{name}-{json_digest(json.loads(json.dumps(decides, default=str)))}.npz"
    return kept(path, lambda: {"features": compute()})["features"]


def _prompts(job: ProbeJob, loaded: Loaded, lm: "LanguageModel") -> list[Tokens]:
    """The tokens of each row up to its place, rendered from what was said; their hash must be that of the store."""
    from ...hooks.backends.captures import ids_hash

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
    from ...hooks.backends.captures import Collector
    from ...hooks.tree.memory import run_packs
    from ...hooks.tree.token_tree import Pack, TokenTree

    tree = TokenTree()
    collector = Collector(tree, (at.site,), (at.layer,))  # type: ignore
    ends = []
    for i, (ids, length) in enumerate(prompts):
        nodes = tree.add(ids)
        ends.append(nodes[-1])
        collector.add_places(str(i), nodes, [ResolvedPosition(at.position, len(ids) - 1, length)])

    def take(pack: Pack) -> int:
        output = lm.backend.run(pack, capture=collector.request(pack))
        collector.collect(pack, output)
        return output.tokens_run

    run_packs(tree, ends, budget, take, lm.backend.cut)
    (captured,) = collector.results([len(prompts)])
    (residuals,) = captured.residuals.values()
    return residuals[:, 0].float().numpy().astype(np.float64)


# Lens beliefs in passing: what inner layers would say next at a stored position, with nothing appended.

FORMS = ("{}", " {}")
"""Of an option, as given and capitalised: their first tokens are what is read."""
ROWS = 64
"""That a lens reads at once: a vocabulary of 50,000 then takes 13 MB a view."""
SITE = "resid_post"
OF_PLACE = ("place_key", "option_names")
"""Columns of a place besides those of the belief table: its conditions, and the names of its options."""


def lens_job(job: ProbeJob, run: Path, allow_code: tuple[Path, ...] = ()) -> int:
    """Write what the lenses read at a position of a run, and the run's report anew; returns at how many places.

    Raises UserError for a model that is not the run's, layers that were not kept, or options that begin alike.
    """
    from ...hooks.lens.lens import Lens
    from ...hooks.lm import open_model

    folder, store = RunFolder.open(run), ActivationStore.open(run)
    experiment, config = stored_config(folder.config, allow_code)
    job = resolved(job.model_copy(update={"runs": (run,)}), allow_code)
    kept = store.rows(position=job.position)
    chosen = chosen_readouts(job, with_moments(folder, allow_code), set(kept["readout_id"]))
    places = _places(folder.beliefs(), chosen)
    if places.empty:
        raise UserError(f"{run}: beliefs and activations share no read-out; give a run with its own store")
    where = pd.Index(kept["readout_id"]).get_indexer(pd.Index(places["readout_id"]))
    with open_model(config.model, terminators=config.terminators) as lm:
        require_same_model(lm, store.header.conditions)
        words = {name for names in places[OF_PLACE[1]] for name in names}
        fitted = fitted_translator(lm, job.lens, words)
        lens = Lens(lm.model, fitted.translator, fitted.jacobian)
        streams = [store.read(layer=layer, site=SITE, position=job.position).values[where] for layer in lens.layers]
        tokens = kept["token_index"].to_numpy()[where]
        rows = _lens_rows(lm, lens, np.stack(streams, axis=1), places, tokens)
        table = belief_table(rows)
    record = {
        "position": job.position,
        "site": site_of_position(run, store, job.position, allow_code),
        "gate": job.lens.gate.model_dump(),
        "maps": fitted.names,
    }
    with folder.writing():
        (run / PASSING_FOLDER).mkdir(exist_ok=True)
        name = f"{PASSING_FOLDER}/{NO_NAME.sub('_', job.position)}"
        folder.write_table(f"{name}.parquet", table)
        folder.write_json(f"{name}.json", record)
        folder.record(f"{name}.parquet", f"{name}.json")
        report(folder, experiment, config)
    return len(places)


def _places(beliefs: pd.DataFrame, stored: set[str]) -> pd.DataFrame:
    """One of the read-outs that share a place, with the names of its options, in their order."""
    exact = read_exactly(beliefs)
    exact = exact[exact["readout_id"].astype(str).isin(stored)].sort_values("option_index", kind="stable")
    exact = exact.assign(**{name: exact[name].astype(str) for name in ("readout_id", "item", "scenario", "option")})
    names = exact.groupby("readout_id", sort=False)["option"].agg(tuple)
    first = exact[exact["option_index"] == 0]
    first = first.assign(
        **dict(zip(OF_PLACE, (condition_keys(first, READINGS), first["readout_id"].map(names)), strict=True)),
    )
    return first.drop_duplicates(["item", "scenario", "step", *OF_PLACE]).reset_index(drop=True)


def _lens_rows(
    lm: "LanguageModel", lens: "Lens", streams: np.ndarray, places: pd.DataFrame, tokens: np.ndarray
) -> Iterator[dict[str, Any]]:
    """The rows of all places in all views."""
    import torch

    ids = {names: option_ids(lm, names) for names in set(places[OF_PLACE[1]])}
    every = places.to_dict("records")
    for start in range(0, len(every), ROWS):
        hidden = lens.hidden(torch.from_numpy(streams[start : start + ROWS]).to(lm.model.dtype))
        for view, states in zip(lens.views, hidden, strict=True):
            logp = lm.head.log_probs(states).double().cpu().numpy()
            for own, row, token in zip(every[start:], logp, tokens[start:].tolist(), strict=False):
                of_options = np.array([logsumexp(row[list(one)]) for one in ids[own[OF_PLACE[1]]]])
                yield from _rows(own, of_options, view.layer, view.lens, token)


def option_ids(lm: "LanguageModel", names: Sequence[str]) -> list[set[int]]:
    """The tokens with which each option may begin, none shared.

    Raises UserError for an option that begins like another in every form.
    """
    found = []
    for name in names:
        forms = {form.format(way) for form in FORMS for way in (name, name.lower(), name[:1].upper() + name[1:])}
        found.append({lm.tokenizer(form, add_special_tokens=False)["input_ids"][0] for form in forms})
    alone = [one.difference(*(other for other in found if other is not one)) for one in found]
    if absent := [name for name, one in zip(names, alone, strict=True) if not one]:
        raise UserError(f"option {absent[0]!r}: begins like another; a lens cannot tell them by their first tokens")
    return alone


def _rows(own: Mapping[Any, Any], logp: np.ndarray, layer: int, lens: str, token: int) -> list[dict[str, Any]]:
    prob = normalised(logp)
    shared = as_read(own, f"{PASSING} {lens}@{layer}", token, OF_PLACE)
    shared |= {"method": PASSING, "layer": layer, "lens": lens}
    status = "ok" if np.isfinite(prob).all() else "nan"
    made = option_rows(own[OF_PLACE[1]], prob, kind="lens", coverage=float(np.exp(logsumexp(logp))), status=status)
    return [row | shared | {"logp": one} for row, one in zip(made, logp.tolist(), strict=True)]
