"""What only an open model shows. (METRICS G1, W1-W3, W5, W6)"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from ....metrics import (
    cluster_mean,
    fork_coherence,
    framing_bias,
    transfer_fraction,
    transfer_map,
)
from ....metrics import persistence as share_kept
from ....metrics import query_effect as effect_of_query
from ....metrics import readout_gate as judged
from ....metrics.whitebox.readout import LOW_COVERAGE
from ...tables.samples import Askers, Forks, Layers, Patches, Queries, YesNo
from .metric import Line, clusters_of, counted, metric


@metric("G1", "logp_yes, logp_no [, logp_negated_yes, logp_negated_no]; or several forms logp_yes_<form>, ...", YesNo)
def readout(sample: YesNo, seed: int) -> Iterator[Line]:
    """The belief that the probabilities of yes and no hold, and how much of the answer it speaks for."""
    clusters = clusters_of(sample)
    certain = int(((sample.belief == 0) | (sample.belief == 1)).sum())
    belief = counted(cluster_mean(sample.belief, clusters, seed=seed), sample, sample.belief)
    yield Line("P(yes) among yes and no", belief, {"certain, so of infinite log-odds": str(certain)} if certain else {})
    mass = counted(cluster_mean(sample.mass, clusters, seed=seed), sample, sample.mass)
    low = np.mean(sample.mass[np.isfinite(sample.mass)] < LOW_COVERAGE) if mass.n_rows else np.nan
    yield Line("mass on yes and no", mass, {f"below {LOW_COVERAGE}, where a refusal may hide": f"{low:.1%}"})
    if sample.negated is not None:
        bias = framing_bias(sample.belief, sample.negated)
        yield Line("framing bias", counted(cluster_mean(bias, clusters, seed=seed), sample, bias))


@metric("W1", "yes_<option> and reveal_<option> for each of two or more", Forks)
def fork(sample: Forks, seed: int) -> Iterator[Line]:
    """Is the option that is said to be chosen the one that would be revealed? 0 is a kept choice."""
    found = fork_coherence(sample.q, sample.r)
    named = {
        "distance of yes from the reveal": found.rms,
        "sum of P(yes) less 1": found.excess,
        "correlation of yes with the reveal": found.corr,
        "commitment, 1 if one option is sure": found.commitment,
    }
    for quantity, values in named.items():
        yield Line(quantity, counted(cluster_mean(values, clusters_of(sample), seed=seed), sample, values))


@metric("W2", "base, patched, donor [, patched_reverse; or pair and cell]", Patches)
def transfer(sample: Patches, seed: int) -> Iterator[Line]:
    """Share of an update in log-odds that moves with a patched residual; 1 is all of it."""
    if sample.cell is None:
        score = transfer_fraction(
            sample.base, sample.patched, sample.donor, sample.clusters, sample.patched_reverse, seed=seed
        )
        beside = {"mean update, nats": f"{score.mean_update:.3f}"}
        if np.isfinite(score.reverse):
            beside["forward, backward"] = f"{score.forward:.3f}, {score.reverse:.3f}"
        yield Line("transfer", counted(score, sample, sample.base + sample.patched + sample.donor), beside)
        return
    table = pd.DataFrame({"pair": sample.pair, "cell": sample.cell, "patched": sample.patched})
    patched = table.pivot(index="pair", columns="cell", values="patched")
    first = table.drop_duplicates("pair").set_index("pair").index.get_indexer(patched.index)
    rows = np.flatnonzero(~table["pair"].duplicated())[first]
    base, donor, owners = sample.base[rows], sample.donor[rows], clusters_of(sample)[rows]
    bands = transfer_map(base, patched.to_numpy(), donor, owners, seed=seed)
    for i, cell in enumerate(patched.columns):
        whole = np.isfinite(patched.to_numpy()).all(axis=1)  # every cell of the map is of the same pairs
        score = transfer_fraction(base[whole], patched.to_numpy()[whole, i], donor[whole], owners[whole], seed=seed)
        if bands.ci_method:
            score = replace(
                score, se=bands.se_cell[i], ci_lo=bands.band_lo[i], ci_hi=bands.band_hi[i], ci_method=bands.ci_method,
                p=bands.p_max[i], p_method=bands.p_method, n_dropped=bands.n_dropped, reasons=bands.reasons,
            )  # fmt: skip
        yield Line(f"transfer, {cell}", score, {"mean update, nats": f"{score.mean_update:.3f}"})


@metric("W3", "item, rejected, inner_<option> and exact_<option> for each of two or more [, word_<option>]", Layers)
def readout_gate(sample: Layers, seed: int) -> Iterator[Line]:
    """May what is read at an inner layer be called a belief? Its correlation with the exact one, beyond the words."""
    score = judged(sample.inner, sample.exact, sample.words, clusters_of(sample), sample.rejected, seed=seed)
    lo, hi = score.evidence_ci
    beside = {
        "gate:": "passed" if score.passed else f"failed by {', '.join(score.failures)}",
        f"median coverage, at least {score.params['min_coverage']:g},": f"{score.coverage:.3g}",
        "rejected option, change in nats": f"{score.evidence_response:+.3f} [{lo:.3f}, {hi:.3f}]",
        "and of the exact one": f"{score.evidence_exact:+.3f}",
    }
    yield Line(f"partial correlation, at least {score.params['min_corr']:g}", score, beside)


@metric("W5", "shift_user, shift_third", Askers)
def persistence(sample: Askers, seed: int) -> Iterator[Line]:
    """Share of a shift under testimony that a third party still finds; near 0 only the answer moved."""
    score = share_kept(sample.shift_user, sample.shift_third, sample.clusters, seed=seed)
    beside = {"mean shift asked by the user, by the third": f"{score.shift_user:.3f}, {score.shift_third:.3f} nats"}
    yield Line("persistence", counted(score, sample, sample.shift_user + sample.shift_third), beside)


@metric("W6", "passive, queried", Queries)
def query_effect(sample: Queries, seed: int) -> Iterator[Line]:
    """What asking does to a belief that was there unasked."""
    score = effect_of_query(sample.passive, sample.queried, sample.clusters, seed=seed)
    beside = {"RMS": f"{score.rms:.3f}", "in log-odds": f"{score.logit_effect:+.3f}"}
    if score.n_clipped:
        beside["beliefs moved off 0 or 1 for that"] = str(score.n_clipped)
    yield Line("queried less passive", counted(score, sample, sample.passive + sample.queried), beside)


METRICS = (readout, fork, transfer, readout_gate, persistence, query_effect)
