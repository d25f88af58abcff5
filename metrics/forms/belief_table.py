"""A belief table, as `doxascope run` writes it and as anyone may: one score per kind, method and layer."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...base.errors import UserError
from .. import COLUMNS, INNER_KINDS, KINDS, STATUSES, check_belief_table, word_identity_null
from ..beliefs import BLANK, VARIANT, condition_columns, condition_keys
from ..contract import Array
from ..tables.cells import complete, padded, refuse_row
from ..tables.sample_rows import Pairs, Updates, joined
from ..tables.samples import Forecasts, Multiclass, Options, Sample
from .form import CONTEXTS, Columns
from .options import options
from .updates import refuse_gap, trajectories

REQUIRED = {**dict.fromkeys(("readout_id", "item", "kind", "method", "option"), "label"), "prob": "probability"}
OPTIONAL = {
    **dict.fromkeys(("cluster", "layer", "scenario", "status"), "label"),
    **dict.fromkeys(("step", "option_index"), "number"),
    "outcome": "outcome",
}
"""Columns with their roles."""
CONDITIONS = ("rejected", "template", "lens", "epoch", VARIANT)
"""Those that are understood in anybody's table; in one that `doxascope run` wrote, every further column is one."""
YES = ("yes", "true")


def columns(there: Sequence[str]) -> Columns:
    """The columns of a belief table that has these."""
    ours = set(COLUMNS) <= set(there)
    conditions = [name for name in there if (name not in COLUMNS if ours else name in CONDITIONS)]
    return REQUIRED, {**OPTIONAL, **dict.fromkeys(conditions, "label")}


def groups(path: Path, data: dict[str, Array], clusters: Array | None) -> tuple[list[Sample], str]:
    """A sample for each kind, method and inner layer (whose method is method/layer, or method/lens@layer), and in words
    what was taken for the belief.

    Raises UserError naming the row where the table breaks its contract.
    """
    return groups_of(path, _table(path, data, clusters))


def groups_of(path: Path, table: pd.DataFrame) -> tuple[list[Sample], str]:
    """The same of a checked belief table."""
    wide, event = _readouts(path, table.astype(dict.fromkeys(table.select_dtypes("category"), object)))
    samples = []
    wide, left = _compared(wide)
    for (kind, method), rows in wide.groupby(["kind", "view"], sort=False):
        sample = _sample(path, f"{kind}/{method}", rows.reset_index(drop=True))
        samples.append(replace(sample, kind=str(kind), method=str(method)))
    instances = all(isinstance(sample, Options) for sample in samples)
    if any(isinstance(sample, Multiclass) for sample in samples):
        event = "over all options, of which the outcome names the true one"
    elif wide["outcome"].notna().any() and (wide["probs"].map(len) > 2).any():
        left += "; outcomes of more than two options are left out: they are scored of beliefs without steps"
    belief = "instances of a rejection" if instances else f"the belief is {event}"
    return samples, belief + left + (
        "; inner layers are not gated here" if wide["kind"].isin(INNER_KINDS).any() else ""
    )


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
        data = {
            **data,
            "status": np.array(["nan" if status is None else status for status in data["status"]], dtype=object),
        }
    for name, allowed in (("kind", KINDS), ("status", STATUSES)):
        values = data.get(name, np.zeros(0))
        wrong = np.array([value not in allowed for value in values], dtype=bool)
        unknown = f", {name}: {{!r}} is unknown; one of {', '.join(allowed)}"
        refuse_row(path, wrong, lambda at, told=unknown, found=values: told.format(found[at]))
    n = len(data["prob"])
    cells = {name: data.get(name, np.full(n, BLANK[dtype])) for name, dtype in COLUMNS.items()}
    cells |= {name: values for name, values in data.items() if name not in COLUMNS}
    cells["cluster"] = data["item"] if clusters is None else clusters
    if "status" not in data:
        cells["status"] = np.where(np.isfinite(data["prob"]), "ok", "nan")
    table = pd.DataFrame(cells)
    table["scenario"] = table["scenario"].fillna("")
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
    for name in ("kind", "method", "item", "cluster", "scenario", "step", *condition_columns(table)):
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
    wide = table[is_event].drop_duplicates("readout_id")
    context = condition_keys(wide, ("lens",))
    wide = wide.rename(columns={"prob": "belief"}).assign(
        view=wide["method"].astype(str) + _layers(wide), context=context
    )
    by_index = table.assign(place=ids.cumcount()).sort_values(["readout_id", "option_index"], kind="stable")
    lists = by_index.groupby("readout_id")[["prob", "option", "outcome"]].agg(list)
    for name, column in (("probs", "prob"), ("words", "option"), ("outcomes", "outcome")):
        wide[name] = wide["readout_id"].map(lists[column])
    first = table["option"].iloc[0]
    same = (table.loc[is_event, "option"].str.lower() == str(first).lower()).all()
    return wide, f"P({target or first})" if target or same else "P(first option)"


def _layers(wide: pd.DataFrame) -> Array:
    """[n] what the name of a group says of the layer."""
    lenses = wide["lens"].astype(object) if "lens" in wide else pd.Series(None, wide.index, dtype=object)
    lenses = lenses.where(wide["kind"].isin(INNER_KINDS) & lenses.notna(), None)
    layers = [layer if isinstance(layer, str) else "" for layer in wide["layer"]]
    return np.array(
        [
            f"/{lens}@{layer}" if lens else f"/{layer}" if layer else ""
            for lens, layer in zip(lenses, layers, strict=True)
        ],
        dtype=object,
    )


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
            keys=joined(rows["item"].to_numpy()[after], rows["context"].to_numpy()[after]),
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
    if several and rows["outcomes"].map(lambda outcomes: np.isfinite(outcomes).any()).any():
        return _multiclass(path, rows)
    if known:
        return Forecasts(
            belief=rows["belief"].to_numpy(),
            outcome=rows["outcome"].to_numpy(),
            clusters=rows["cluster"].to_numpy(),
            keys=joined(rows["item"].to_numpy(), rows["scenario"].to_numpy(), rows["context"].to_numpy()),
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
        keys=joined(rows["item"].to_numpy(), rows["scenario"].to_numpy(), rows["context"].to_numpy()),
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
    """Index of the rejected option of each posterior, if the table has it."""
    if "rejected" not in after or after["rejected"].isna().any():
        return None
    rejected = pd.to_numeric(after["rejected"].astype(str), errors="coerce").to_numpy(dtype=np.float64)
    for cell, index, probs in zip(after["rejected"].astype(str), rejected, after["probs"], strict=True):
        if index not in range(len(probs)):
            raise UserError(f"{path}: rejected {cell}: give the option_index of one of the options")
    return rejected.astype(int)


def _instances(path: Path, rows: pd.DataFrame, before: Array, after: Array, rejected: Array) -> Options:
    if len(sizes := sorted(rows["probs"].map(len).unique())) > 1:
        raise UserError(f"{path}: read-outs have {' or '.join(map(str, sizes))} options; give all as many")
    masses = np.array([[*probs, 0.0] for probs in rows["probs"]])
    masses[np.isnan(masses).any(axis=1)] = np.nan
    alone = _words_alone(masses[:, :-1], rows)
    templates = rows["template"].iloc[after] if "template" in rows else None
    return options(
        masses[before],
        masses[after],
        rejected,
        rows["cluster"].to_numpy()[after],
        position=rows["context"].to_numpy()[after],
        keys=joined(rows["item"].to_numpy()[after], rows["context"].to_numpy()[after]),
        why=_why(rows, before, after),
        template=None if templates is None or templates.isna().any() else templates.to_numpy(dtype=object),
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
    ways: Sequence[tuple[str, ...]] = (("item", "scenario", "context"), ("item", "scenario"), ("item",))
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
