"""Lens beliefs in passing: what inner layers would say next at a stored position, with nothing appended."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from ...hooks.belief_rows import option_rows
from ...hooks.errors import UserError
from ...hooks.exact.exact import normalised
from ...hooks.store import ActivationStore
from ...metrics import belief_table
from ...probes.data.beliefs import READINGS
from ..addons.inner.fitted import fitted_translator
from ..addons.passing import FOLDER, PASSING
from ..addons.query_effect import OWN, TOKEN, known
from ..engine.config import stored_config
from ..engine.runner import report
from ..runs.folder import RunFolder
from .reread import require_same_model
from .rows import chosen_readouts, site_of_position
from .settings import ProbeJob

if TYPE_CHECKING:
    from ...hooks.lens.lens import Lens
    from ...hooks.lm import LanguageModel

FORMS = ("{}", " {}")
"""Of an option, as given and capitalised: their first tokens are what is read."""
ROWS = 64
"""That a lens reads at once: a vocabulary of 50,000 then takes 13 MB a view."""
SITE = "resid_post"
NO_NAME = r"[^\w.-]"
"""What the name of a position may hold and that of a file may not."""


def lens_job(job: ProbeJob, run: Path, allow_code: tuple[Path, ...] = ()) -> int:
    """Write what the lenses read at a position of a run, and the run's report anew; returns at how many places.

    Raises UserError for a model that is not the run's, layers that were not kept, or options that begin alike.
    """
    from ...hooks.lens.lens import Lens
    from ...hooks.lm import load

    folder, store = RunFolder.open(run), ActivationStore.open(run)
    experiment, config = stored_config(folder.config, allow_code)
    kept = store.rows(position=job.position)
    beliefs = folder.beliefs()
    places = _places(beliefs, chosen_readouts(job, beliefs, set(kept["readout_id"])))
    if places.empty:
        raise UserError(f"{run}: beliefs and activations share no read-out; give a run with its own store")
    where = pd.Index(kept["readout_id"]).get_indexer(pd.Index(places["readout_id"]))
    with load(config.model, terminators=config.terminators) as lm:
        require_same_model(lm, store.header)
        words = {name for names in places["options"] for name in names}
        fitted = fitted_translator(lm, job.lens, words)
        lens = Lens(lm.model, fitted.translator, fitted.jacobian)
        streams = [store.read(layer=layer, site=SITE, position=job.position).values[where] for layer in lens.layers]
        tokens = kept["token_index"].to_numpy()[where]
        rows = _read(lm, lens, np.stack(streams, axis=1), places, tokens)
        table = belief_table(rows)
    record = {
        "position": job.position,
        "site": site_of_position(run, store, job.position, allow_code),
        "gate": job.lens.gate.model_dump(),
        "maps": fitted.names,
    }
    with folder.writing():
        (run / FOLDER).mkdir(exist_ok=True)
        name = f"{FOLDER}/{re.sub(NO_NAME, '_', job.position)}"
        folder.write_table(f"{name}.parquet", table)
        folder.write_json(f"{name}.json", record)
        folder.record(f"{name}.parquet", f"{name}.json")
        report(folder, experiment, config)
    return len(places)


def _places(beliefs: pd.DataFrame, stored: set[str]) -> pd.DataFrame:
    """One of the read-outs that share a place, with the names of its options, in their order."""
    exact = beliefs[(beliefs["kind"] == "exact") & (beliefs["of"].astype(str) == "")]
    exact = exact[exact["readout_id"].astype(str).isin(stored)].sort_values("option_index", kind="stable")
    exact = exact.assign(**{name: exact[name].astype(str) for name in ("readout_id", "item", "scenario", "option")})
    names = exact.groupby("readout_id", sort=False)["option"].agg(tuple)
    first = exact[exact["option_index"] == 0]
    first = first.assign(
        options=first["readout_id"].map(names),
        place=[known(json.loads(text or "{}"), READINGS) for text in first["variant"].astype(str)],
    )
    return first.drop_duplicates(["item", "scenario", "step", "place", "options"]).reset_index(drop=True)


def _read(
    lm: "LanguageModel", lens: "Lens", streams: np.ndarray, places: pd.DataFrame, tokens: np.ndarray
) -> Iterator[dict[str, Any]]:
    """The rows of all places in all views."""
    import torch

    ids = {names: option_ids(lm, names) for names in set(places["options"])}
    every = places.to_dict("records")
    for start in range(0, len(every), ROWS):
        hidden = lens.hidden(torch.from_numpy(streams[start : start + ROWS]).to(lm.model.dtype))
        for view, states in zip(lens.views, hidden, strict=True):
            logp = lm.head.log_probs(states).double().cpu().numpy()
            for own, row, token in zip(every[start:], logp, tokens[start:].tolist(), strict=False):
                of_options = np.array([logsumexp(row[list(one)]) for one in ids[own["options"]]])
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
    variant = json.dumps({**json.loads(own["variant"] or "{}"), OWN[1]: lens, TOKEN: token}, sort_keys=True)
    prob = normalised(logp)
    shared = {name: own[name] for name in ("experiment", "item", "cluster", "scenario", "step", "outcome")} | {
        "readout_id": f"{own['readout_id']}/{PASSING} {lens}@{layer}",
        "of": own["readout_id"],
        "method": PASSING,
        "layer": layer,
        "variant": variant,
    }
    status = "ok" if np.isfinite(prob).all() else "nan"
    made = option_rows(own["options"], prob, kind="lens", coverage=float(np.exp(logsumexp(logp))), status=status)
    return [row | shared | {"logp": one} for row, one in zip(made, logp.tolist(), strict=True)]
