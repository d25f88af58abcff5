"""A belief table, as `doxascope run` writes it and as anyone may: one score per kind, method and layer."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...hooks.errors import UserError
from ...metrics import COLUMNS, INNER_KINDS, KINDS, STATUSES, check_belief_table, word_identity_null
from .cells import Array, complete, padded, refuse_row
from .forms.form import CONTEXTS
from .forms.options import options
from .forms.updates import refuse_gap, trajectories
from .rows import joined
from .samples import Forecasts, Multiclass, Options, Sample
from .updates import Pairs, Updates

REQUIRED = {**dict.fromkeys(("readout_id", "item", "kind", "method", "option"), "label"), "prob": "probability"}
OPTIONAL = {
    **dict.fromkeys(("cluster", "layer", "scenario", "variant", "status"), "label"),
    **dict.fromkeys(("step", "option_index"), "number"),
    "outcome": "outcome",
}
"""Columns with their roles."""
YES = ("yes", "true")


def groups(path: Path, data: dict[str, Array], clusters: Array | None) -> tuple[list[Sample], str]:
    """A sample for each kind, method and inner layer (whose method is method/layer, or method/lens@layer), and in words
    what was taken for the belief.

    Raises UserError naming the row where the table breaks its contract.
    """
    table = _table(path, data, clusters)
    wide, event = _readouts(path, table)
    found = []
    wide, left = _compared(wide)
    for (kind, method), rows in wide.groupby(["kind", "view"], sort=False):
        sample = _sample(path, f"{kind}/{method}", rows.reset_index(drop=True))
        found.append(replace(sample, kind=str(kind), method=str(method)))
    instances = all(isinstance(sample, Options) for sample in found)
    if any(isinstance(sample, Multiclass) for sample in found):
        event = "over all options, of which the outcome names the true one"
    elif wide["outcome"].notna().any() and (wide["probs"].map(len) > 2).any():
        left += "; outcomes of more than two options are left out: they are scored of beliefs without steps"
    told = "instances of a rejection" if instances else f"the belief is {event}"
    return found, told + left + ("; inner layers are not gated here" if wide["kind"].isin(INNER_KINDS).any() else "")


def _compared(wide: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Of a table that has priors and posteriors, these alone, and in words what is left out: its other scenarios."""
    pairs = wide["scenario"].isin(CONTEXTS)
    if not set(CONTEXTS) <= set(wide["scenario"]) or pairs.all():
        return wide, ""
    names = ", ".join(sorted(set(wide.loc[~pairs, "scenario"])))
    return wide[pairs], f"; {(~pairs).sum()} read-outs of other scenarios ({names}) are left out"


def _table(path: Path, data: dict[str, Array], clusters: Array | None) -> pd.DataFrame:
    for name in [*REQUIRED][:-1]:
        complete(path, name, data[name])
    if "status" in data:  # the status `nan` reads like a cell that is missing
        data = {**data, "status": np.array(["nan" if one is None else one for one in data["status"]], dtype=object)}
    for name, allowed in (("kind", KINDS), ("status", STATUSES)):
        values = data.get(name, np.zeros(0))
        wrong = np.array([value not in allowed for value in values], dtype=bool)
        unknown = f", {name}: {{!r}} is unknown; one of {', '.join(allowed)}"
        refuse_row(path, wrong, lambda at, told=unknown, found=values: told.format(found[at]))
    n = len(data["prob"])
    blank = {"str": "", "int32": 0, "Int32": pd.NA, "float64": np.nan}
    columns = {name: data.get(name, np.full(n, blank[dtype])) for name, dtype in COLUMNS.items()}
    columns["cluster"] = data["item"] if clusters is None else clusters
    if "status" not in data:
        columns["status"] = np.where(np.isfinite(data["prob"]), "ok", "nan")
    table = pd.DataFrame(columns)
    for name in ("scenario", "variant"):
        table[name] = table[name].fillna("")
    if "option_index" not in data:
        table["option_index"] = table.groupby("readout_id", sort=False).cumcount()
    fault = ": readout_id {readout_id!r} has option {option!r} twice; a read-out has one row per option"
    twice = table.duplicated(["readout_id", "option"]).to_numpy()
    refuse_row(path, twice, lambda at: fault.format(**table.loc[at, ["readout_id", "option"]]))
    try:
        return check_belief_table(table)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


def _readouts(path: Path, table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """One row per read-out, with its belief, its probabilities by option, and its group."""
    ids = table.groupby("readout_id", sort=False)
    for name in ("kind", "method", "item", "cluster", "scenario", "step", "variant"):
        mixed = ids[name].nunique(dropna=False) > 1
        if mixed.any():
            raise UserError(f"{path}: readout_id {mixed.idxmax()!r} mixes several values of {name!r}; it has one")
    torn = table.groupby("item", sort=False)["cluster"].nunique() > 1
    if torn.any():
        raise UserError(f"{path}: item {torn.idxmax()!r} lies in several clusters; it has one")
    sizes = ids.size()
    names = table["option"].str.lower()
    everywhere = names.groupby(names).size() == len(sizes)
    target = next((name for name in YES if everywhere.get(name, False)), None)
    is_event = table["option_index"] == ids["option_index"].transform("min") if target is None else names == target
    wide = table[is_event].drop_duplicates("readout_id").rename(columns={"prob": "belief"})
    by_index = table.assign(place=ids.cumcount()).sort_values(["readout_id", "option_index"], kind="stable")
    lists = by_index.groupby("readout_id")[["prob", "option", "outcome"]].agg(list)
    for name, column in (("probs", "prob"), ("words", "option"), ("outcomes", "outcome")):
        wide[name] = wide["readout_id"].map(lists[column])
    views = [_view(path, *row) for row in wide[["kind", "layer", "variant"]].itertuples(index=False, name=None)]
    layer, variant = zip(*views, strict=True)
    wide["view"], wide["variant"] = wide["method"] + list(layer), list(variant)
    first = table["option"].iloc[0]
    same = (table.loc[is_event, "option"].str.lower() == str(first).lower()).all()
    return wide, f"P({target or first})" if target or same else "P(first option)"


def _view(path: Path, kind: str, layer: object, variant: str) -> tuple[str, str]:
    """What the name of a group says of the layer, and the variant without the lens: then it is the exact read-out's."""
    number = layer if isinstance(layer, str) else ""
    told = _told(path, variant) if kind in INNER_KINDS else {}
    if "lens" in told:
        return f"/{told.pop('lens')}@{number}", json.dumps(told, sort_keys=True)
    return f"/{number}" if number else "", variant


def _told(path: Path, variant: str) -> dict[str, Any]:
    """What a variant says, if it is a mapping. Raises UserError if it is not JSON."""
    try:
        told = json.loads(variant or "{}")
    except (ValueError, RecursionError):
        raise UserError(f"{path}: variant {variant!r} is not JSON") from None
    return told if isinstance(told, dict) else {}


def _sample(path: Path, name: str, rows: pd.DataFrame) -> Sample:
    """Updates between scenarios or along steps, instances of a rejection, or forecasts."""
    several = (rows["probs"].map(len) > 2).any()
    known = rows["outcome"].notna().any() and not several
    if set(rows["scenario"]) == set(CONTEXTS):
        before, after = _prior_and_posteriors(path, name, rows)
        rejected = _rejections(path, rows.iloc[after])
        if rejected is not None:
            return _instances(path, rows, before, after, rejected)
        pairs = Pairs(
            prior=rows["belief"].to_numpy()[before],
            posterior=rows["belief"].to_numpy()[after],
            outcome=rows["outcome"].to_numpy()[after] if known else None,
            clusters=rows["cluster"].to_numpy()[after],
            keys=joined(rows["item"].to_numpy()[after], rows["variant"].to_numpy()[after]),
            why=_why(rows, before, after),
        )
        return Updates(views={"": pairs}, clusters=pairs.clusters)
    chain = _chains(rows)
    if chain is not None:
        ordered = rows.assign(chain=chain).sort_values(["chain", "step"], kind="stable")
        starts = np.flatnonzero((~ordered["chain"].duplicated()).to_numpy())
        label = ordered["chain"].to_numpy()
        refuse_gap(path, name, label, ordered["step"].to_numpy(), label[1:] == label[:-1])
        beliefs = np.split(ordered["belief"].to_numpy(), starts[1:])
        outcome = ordered["outcome"].to_numpy()[starts] if known else None
        return trajectories(
            beliefs, ordered["cluster"].to_numpy()[starts], outcome, ordered["chain"].to_numpy()[starts]
        )
    if several and rows["outcomes"].map(lambda one: np.isfinite(one).any()).any():
        return _multiclass(path, rows)
    if known:
        return Forecasts(
            belief=rows["belief"].to_numpy(),
            outcome=rows["outcome"].to_numpy(),
            clusters=rows["cluster"].to_numpy(),
            keys=joined(rows["item"].to_numpy(), rows["scenario"].to_numpy(), rows["variant"].to_numpy()),
            why=rows["status"].to_numpy(),
        )
    raise UserError(
        f"{path}: {name} has one read-out per item and no outcome, so nothing to compare; give several steps, "
        "the scenarios 'prior' and 'posterior', or outcomes"
    )


def _multiclass(path: Path, rows: pd.DataFrame) -> Multiclass:
    """Beliefs over options, of which `outcome` names the true one: it is 1 in that row and 0 in the others."""
    return Multiclass(
        belief=padded(rows["probs"].tolist()),
        sizes=rows["probs"].map(len).to_numpy(),
        truth=np.array([_true_option(path, *row) for row in zip(rows["readout_id"], rows["outcomes"], strict=True)]),
        clusters=rows["cluster"].to_numpy(),
        keys=joined(rows["item"].to_numpy(), rows["scenario"].to_numpy(), rows["variant"].to_numpy()),
        why=rows["status"].to_numpy(),
    )


def _true_option(path: Path, name: str, outcomes: Sequence[float]) -> float:
    """The index of the option that is true; NaN if none is known."""
    marked = np.array(outcomes)
    if np.isnan(marked).all():
        return np.nan
    if np.nansum(marked) != 1:
        raise UserError(
            f"{path}: readout_id {name!r}: outcome is 1 for {int(np.nansum(marked))} of its {len(marked)} options; "
            "give 1 in the row of the option that is true and 0 in the others"
        )
    return float(np.nanargmax(marked))


def _prior_and_posteriors(path: Path, name: str, rows: pd.DataFrame) -> tuple[Array, Array]:
    """Row of the prior and row of the posterior of each pair; a prior may serve many."""
    priors = rows[rows["scenario"] == CONTEXTS[0]]
    if (twice := priors["item"].duplicated()).any():
        item = priors.loc[twice, "item"].iloc[0]
        raise UserError(f"{path}: {name}: item {item!r} has several priors; one read-out of scenario 'prior' each")
    after = np.flatnonzero((rows["scenario"] == CONTEXTS[1]).to_numpy())
    row_of = pd.Series(priors.index, index=priors["item"])
    before = row_of.reindex(rows["item"].iloc[after])
    if before.isna().any():
        raise UserError(f"{path}: {name}: item {before.index[before.isna()][0]!r} has a posterior and no prior")
    return before.to_numpy(dtype=np.intp), after


def _rejections(path: Path, after: pd.DataFrame) -> Array | None:
    """Index of the rejected option of each posterior, if the variants tell it."""
    found = []
    for text, probs in zip(after["variant"], after["probs"], strict=True):
        variant = _told(path, text)
        if "rejected" not in variant:
            return None
        if variant["rejected"] not in range(len(probs)):
            raise UserError(f"{path}: variant {text!r}: 'rejected' is the option_index of one of the options")
        found.append(variant["rejected"])
    return np.array(found)


def _instances(path: Path, rows: pd.DataFrame, before: Array, after: Array, rejected: Array) -> Options:
    if len(sizes := sorted(rows["probs"].map(len).unique())) > 1:
        raise UserError(f"{path}: read-outs have {' or '.join(map(str, sizes))} options; give all as many")
    masses = np.array([[*probs, 0.0] for probs in rows["probs"]])
    masses[np.isnan(masses).any(axis=1)] = np.nan
    alone = _words_alone(masses[:, :-1], rows)
    templates = [_told(path, text).get("template") for text in rows["variant"].iloc[after]]
    return options(
        masses[before],
        masses[after],
        rejected,
        rows["cluster"].to_numpy()[after],
        position=rows["variant"].to_numpy()[after],
        keys=joined(rows["item"].to_numpy()[after], rows["variant"].to_numpy()[after]),
        why=_why(rows, before, after),
        template=None if None in templates else np.array(templates, dtype=object),
        words_prior=None if alone is None else alone[before],
        words_posterior=None if alone is None else alone[after],
    )


def _words_alone(shares: Array, rows: pd.DataFrame) -> Array | None:
    """[n, 3] what a read-out would be that knows the words and nothing of what was said; None of other than three."""
    if shares.shape[1] != 3:
        return None
    with np.errstate(divide="ignore"):
        logp = np.log(shares)
    return word_identity_null(
        logp, np.array(rows["words"].tolist(), dtype=object), rows["cluster"].to_numpy()
    ).null_prob


def _why(rows: pd.DataFrame, before: Array, after: Array) -> Array:
    status = rows["status"].to_numpy(dtype=object)
    return np.where(np.isnan(rows["belief"].to_numpy()[before]), status[before], status[after])


def _chains(rows: pd.DataFrame) -> Array | None:
    """Name of the trajectory of each read-out, if there are steps: whatever tells apart what shares a step."""
    ways: Sequence[tuple[str, ...]] = (("item", "scenario", "variant"), ("item", "scenario"), ("item",))
    for way in ways:
        names = joined(*(rows[column].to_numpy() for column in way))
        steps = pd.DataFrame({"name": names, "step": rows["step"].to_numpy()})
        if steps["name"].duplicated().any() and not steps.duplicated().any():
            return names
    return None


def describe_statuses(data: dict[str, Any]) -> str:
    """How many read-outs carry a flag or no number, in words."""
    status = pd.Series(data.get("status", np.zeros(0, dtype=object)), dtype=object)
    ids = pd.Series(data["readout_id"]) if len(status) else pd.Series(dtype=object)
    counts = status[~ids.duplicated().to_numpy()].value_counts() if len(status) else status
    return ", ".join(f"{n} {name}" for name, n in counts.items() if name != "ok")
