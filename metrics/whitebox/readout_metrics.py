"""Tables of what only an open model shows. (METRICS G1, W1-W3, W5, W6)"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ..contract import Resampling, row_counts
from ..inference.means import UNIT
from ..metric import (
    Compared,
    Line,
    clusters_of,
    compare_mean,
    deviation_claim,
    mean_of,
    metric,
    mostly_extreme,
    odds_line,
    with_drop_reasons,
)
from ..number import interval_text
from ..tables.samples import YesNo
from ..tables.whitebox_samples import Askers, Forks, Layers, Patches, Queries
from .gates import readout_gate as judged
from .readout import LOW_COVERAGE, fork_coherence, framing_bias
from .readout import query_effect as effect_of_query
from .transfer import MappedTransfer, TransferFraction, transfer_fraction, transfer_map
from .transfer import persistence as share_kept


def _compare_framing(sample: YesNo) -> Compared | None:
    bias = None if sample.negated is None else framing_bias(sample.belief, sample.negated)
    return None if bias is None else compare_mean("framing_bias", bias, sample, limits=(-1.0, 1.0))


@metric(
    "G1",
    "logp_yes, logp_no [, logp_negated_yes, logp_negated_no]; or several forms logp_yes_<form>, ...",
    YesNo,
    compare=_compare_framing,
    place=530,
)
def readout_lines(sample: YesNo, how: Resampling) -> Iterator[Line]:
    """Of statements that are asked as yes or no: P(yes); the coverage of yes and no; and P(yes) of a statement plus
    P(yes) of its negation, minus 1.
    """
    certain = int(((sample.belief == 0) | (sample.belief == 1)).sum())
    beside = {"certain, so of infinite log-odds": str(certain)} if certain else {}
    yield Line("p_yes", "P(yes) among yes and no", mean_of(sample, sample.belief, how, UNIT), beside)
    mass = mean_of(sample, sample.mass, how, UNIT)
    low = np.mean(sample.mass[np.isfinite(sample.mass)] < LOW_COVERAGE) if mass.n_rows else np.nan
    beside = {f"below {LOW_COVERAGE}, where a refusal may hide": f"{low:.1%}"}
    yield Line("yes_no_mass", "mass on yes and no", mass, beside)
    if sample.negated is not None:
        bias, other = framing_bias(sample.belief, sample.negated), 1 - sample.negated
        extreme = mostly_extreme(sample.belief, other)
        claim = None if extreme else deviation_claim(bias, sample, "framing", how)
        yield Line("framing_bias", "framing bias", mean_of(sample, bias, how), equivalence=claim)
        if extreme:
            quantity = "log-odds of yes minus those of no to the negation, nats"
            yield odds_line("framing_logodds", quantity, sample.belief, other, sample, how)


@metric("W1", "yes_<option> and reveal_<option> for each of two or more", Forks, place=540)
def fork_lines(sample: Forks, how: Resampling) -> Iterator[Line]:
    """Is the option that is said to be chosen the one that would be revealed? 0 is a kept choice."""
    forks = fork_coherence(sample.q, sample.r)
    for name, quantity, values, within in (
        ("fork_rms", "distance of yes from the reveal", forks.rms, UNIT),
        ("fork_excess", "sum of P(yes) minus 1", forks.excess, (-1.0, np.inf)),
        ("fork_corr", "correlation of yes with the reveal", forks.corr, (-1.0, 1.0)),
        ("commitment", "commitment, 1 if one option is sure", forks.commitment, UNIT),
        ("fork_coverage", "yes or no", sample.coverage, UNIT),
    ):
        if values is not None:
            yield Line(name, quantity, mean_of(sample, values, how, within))


@metric("W2", "base, patched, donor [, patched_reverse] [, pair and cell]", Patches, place=550)
def transfer_lines(sample: Patches, how: Resampling) -> Iterator[Line]:
    """Share of an update in log-odds that moves with a patched residual; 1 is all of it."""
    reach: dict[str, Any] = {"noise_floor": sample.noise_floor, "how": how}
    if sample.cell is None:
        score = transfer_fraction(
            sample.base, sample.patched, sample.donor, sample.clusters, sample.patched_reverse, **reach
        )
        reported = with_drop_reasons(score, sample, sample.base + sample.patched + sample.donor)
        yield Line(sample.metric, sample.metric, reported, _both_ways(score))
        return
    table = pd.DataFrame({"pair": sample.pair, "cell": sample.cell})
    cells = list(dict.fromkeys(sample.cell))
    ways = [  # [pairs, cells] each
        table.assign(odds=odds).pivot(index="pair", columns="cell", values="odds")[cells].to_numpy()
        for odds in (sample.patched, sample.patched_reverse)
        if odds is not None
    ]
    rows = np.flatnonzero(~table["pair"].duplicated())
    rows = rows[table["pair"].iloc[rows].argsort(kind="stable")]  # as the pivot has them
    whole = np.isfinite(np.hstack(ways)).all(axis=1)  # every cell of the map is of the same pairs
    base, donor, owners = (values[rows][whole] for values in (sample.base, sample.donor, clusters_of(sample)))
    forward, reverse = ways[0][whole], ways[1][whole] if len(ways) > 1 else None
    # A way that counts both: what it adds to the base is the mean of what each direction moved.
    moved = forward - base[:, None] if reverse is None else (forward - base[:, None] + donor[:, None] - reverse) / 2
    bands = transfer_map(base, base[:, None] + moved, donor, owners, **reach)
    counts = row_counts(int(whole.sum()), int((~whole).sum()))
    for i, cell in enumerate(cells):
        back = None if reverse is None else reverse[:, i]
        score = transfer_fraction(base, forward[:, i], donor, owners, back, **reach)
        band = {name: float(getattr(bands, name)[i]) for name in ("band_lo", "band_hi", "p_max")}
        beside = _both_ways(score)
        if bands.ci_method:
            beside["band over all cells"] = f"[{band['band_lo']:.3f}, {band['band_hi']:.3f}], p {band['p_max']:.3g}"
        fields: dict[str, Any] = {**vars(score), **band, **counts}
        reported = MappedTransfer(**fields)
        yield Line(sample.metric, f"{sample.metric}, {cell}", reported, beside, part=str(cell))


def _both_ways(score: TransferFraction) -> dict[str, str]:
    beside = {"mean update, nats": f"{score.mean_update:.3f}"}
    return beside | (
        {"forward, backward": f"{score.forward:.3f}, {score.reverse:.3f}"} if np.isfinite(score.reverse) else {}
    )


@metric(
    "W3",
    "item, rejected, inner_<option> and exact_<option> for each of two or more [, word_<option>]",
    Layers,
    place=560,
)
def readout_gate_lines(sample: Layers, how: Resampling) -> Iterator[Line]:
    """May what is read at an inner layer be called a belief? Its correlation with the exact one, beyond the words."""
    score = judged(sample.inner, sample.exact, sample.words, clusters_of(sample), sample.rejected, how=how)
    lo, hi = score.evidence_ci
    beside = {
        "gate:": "passed" if score.passed else f"failed by {', '.join(score.failures)}",
        f"median coverage, at least {score.params['min_coverage']:g},": f"{score.coverage:.3g}",
        "rejected option, change in nats": f"{score.evidence_response:+z.3f} [{lo:.3f}, {hi:.3f}]",
        "and of the exact one": f"{score.evidence_exact:+z.3f}",
        "items that respond": score.withheld or f"{score.responding:.3f} {interval_text(*score.responding_ci)}",
    }
    yield Line("readout_gate", f"partial correlation, at least {score.params['min_corr']:g}", score, beside)


@metric("W5", "shift_user, shift_third", Askers, place=570)
def persistence_lines(sample: Askers, how: Resampling) -> Iterator[Line]:
    """Share of a shift under testimony that a third party still finds; near 0 only the answer moved."""
    score = share_kept(sample.shift_user, sample.shift_third, sample.clusters, how=how)
    beside = {"mean shift asked by the user, by the third": f"{score.shift_user:.3f}, {score.shift_third:.3f} nats"}
    score = with_drop_reasons(score, sample, sample.shift_user + sample.shift_third)
    yield Line("persistence", "persistence", score, beside)


@metric("W6", "passive, queried", Queries, place=580)
def query_effect_lines(sample: Queries, how: Resampling) -> Iterator[Line]:
    """What asking does to a belief that was there unasked."""
    score = effect_of_query(sample.passive, sample.queried, sample.clusters, how=how)
    beside = {"RMS": f"{score.rms:.3f}", "in log-odds": f"{score.logit_effect:+z.3f}"}
    if score.n_clipped:
        beside["beliefs moved off 0 or 1 for that"] = str(score.n_clipped)
    score = with_drop_reasons(score, sample, sample.passive + sample.queried)
    yield Line("query_effect", "asked (queried) minus passive", score, beside)
