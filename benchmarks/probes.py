"""A ridge sweep against the same loops around scikit-learn, and its permutation band against the sweep.

    python benchmarks/probes.py            one layer of 20,000 rows by 576, 5 x 4 grouped folds, and d = 8,192
    python benchmarks/probes.py --false-positives 200    how often noise passes for a finding
    python benchmarks/probes.py --power 50               how often a planted direction is found, at its layer
    python benchmarks/probes.py --heads 5                what a capture of all heads adds to the passes of SmolLM2

The first prints seconds of a layer; a sweep of 30 is 30 of them, of which one is in memory at a time.
"""

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from doxascope.metrics import Resampling
from doxascope.probes.cross_validation import PENALTIES, nested_ridge
from doxascope.probes.dataset import ProbeData, make_target
from doxascope.probes.features import ArrayFeatures, ReadAt
from doxascope.probes.groups import grouped_folds, permuted_targets
from doxascope.probes.sweep import sweep, sweep_point

ROWS_OF_GROUP = 10
PLANTED = 7
STRENGTHS = (0.3, 0.5, 0.7)


def world(n: int, d: int) -> tuple[Any, Any, Any, Any]:
    """Features, a target of each group, groups and folds."""
    rng = np.random.default_rng(0)
    groups = np.arange(n) // ROWS_OF_GROUP
    x = rng.normal(size=(n, d))
    y = x[:, 0].reshape(-1, ROWS_OF_GROUP).mean(axis=1)[groups] + rng.normal(size=groups.max() + 1)[groups]
    return x, y, groups, grouped_folds(groups, 5, 0)


def by_scikit_learn(x: Any, y: Any, folds: Any) -> list[Any]:
    """The same nested loops, one fit after the other; returns the fit of each outer fold."""
    fits = []
    for train, _ in LeaveOneGroupOut().split(x, y, folds):
        errors = np.zeros(len(PENALTIES))
        for inner, held in LeaveOneGroupOut().split(x[train], y[train], folds[train]):
            for i, penalty in enumerate(PENALTIES):
                model = make_pipeline(StandardScaler(), Ridge(alpha=penalty)).fit(x[train][inner], y[train][inner])
                errors[i] += ((model.predict(x[train][held]) - y[train][held]) ** 2).sum()
        best = PENALTIES[int(errors.argmin())]
        fits.append(make_pipeline(StandardScaler(), Ridge(alpha=best)).fit(x[train], y[train]))
    return fits


def timed(what: str, call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, printed, and what it gave."""
    began = time.perf_counter()
    found = call()
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:<60}{seconds:>8.2f} s   peak {peak:,.0f} MB", flush=True)
    return seconds, found


def speed(n: int, permutations: int) -> None:
    """The two promises: five times scikit-learn's loops, and a band for at most five sweeps."""
    x, y, groups, folds = world(n, 576)
    print(f"{n:,} rows x 576, {n // ROWS_OF_GROUP:,} groups, 5 x 4 folds, {len(PENALTIES)} penalties; one layer")
    ours, found = timed("nested ridge", lambda: nested_ridge(x, y[:, None], folds))
    null = permuted_targets(y, groups, draws=permutations, seed=0).targets
    band, _ = timed(f"the same with {permutations:,} permuted targets", lambda: sweep_point(x, y, null, folds))
    theirs, fits = timed("loops around scikit-learn", lambda: by_scikit_learn(x, y, folds))
    pairs = zip(found.readouts, fits, strict=True)
    worst = max(float(np.abs(mine.weights - fit[-1].coef_).max()) for mine, fit in pairs)
    print(
        f"scikit-learn takes {theirs / ours:.1f} x ours; the band {band / ours:.1f} x a sweep; coefficients {worst:.0e}"
    )
    x, y, groups, folds = world(2000, 8192)
    null = permuted_targets(y, groups, draws=permutations, seed=0).targets
    timed("2,000 rows x 8,192, with the permuted targets", lambda: sweep_point(x, y, null, folds))


def layers_of_noise(seed: int, strength: float = 0.0) -> ProbeData:
    """Twelve layers of 50 features for 160 rows in 40 groups; at layer 7 one feature holds the target of the group with
    this signal-to-noise ratio, in standard deviations: its R2 in the population is s^2 / (1 + s^2).
    """
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(40), 4)
    arrays = {ReadAt("resid_post", layer, "end"): rng.normal(size=(160, 50)) for layer in range(12)}
    rows = pd.DataFrame({"readout_id": np.arange(160).astype(str), "group": groups})
    target = make_target("planted", rng.random(40)[groups])
    unit = (target.logit - target.logit.mean()) / target.logit.std()
    arrays[ReadAt("resid_post", PLANTED, "end")][:, 0] += strength * unit
    return ProbeData(rows, target, ArrayFeatures(arrays), tuple(arrays))


def false_positives(seeds: int) -> None:
    """Share of data sets of pure noise whose selected place has a p at or below each level."""
    p = []
    for seed in range(seeds):
        data = layers_of_noise(seed)
        found = sweep(data, grouped_folds(data.groups, 5, seed), how=Resampling(seed, 99))
        best = int(found.r2.argmax())
        p.append([found.selected_p, found.p_max[best], found.p_at(found.points[best])])
    names = ("selected within folds", "best place, max-T", "best place, its own p (wrong)")
    print(f"{seeds} data sets of noise, 12 layers, 40 groups of 4 rows, 50 features, 99 permutations")
    for name, column in zip(names, np.array(p).T, strict=True):
        told = ", ".join(f"{(column <= level).mean():.3f} at {level:g}" for level in (0.01, 0.05, 0.1))
        print(f"{name:<32}{told}")


def power(seeds: int) -> None:
    """Share of data sets in which a planted direction is found by the selected pipeline, and where."""
    print(
        f"{seeds} data sets, 12 layers, 40 groups of 4 rows, 50 features, 99 permutations; planted at layer {PLANTED}"
    )
    for strength in STRENGTHS:
        hits = right = 0
        for seed in range(seeds):
            data = layers_of_noise(seed, strength)
            found = sweep(data, grouped_folds(data.groups, 5, seed), how=Resampling(seed, 99))
            hits += found.selected_p <= 0.05
            right += found.points[int(found.r2.argmax())].layer == PLANTED
        r2 = strength**2 / (1 + strength**2)
        print(f"R2 {r2:.2f} in one feature: found in {hits / seeds:.2f}, its layer the highest in {right / seeds:.2f}")


def heads(rounds: int) -> None:
    """Processor time of the passes over 78 contexts with the heads of all layers captured at the last token, over the
    same passes without; they take turns.
    """
    from peers.workload import ONE_FORM, compiled

    from doxascope import CapturePlan, load
    from doxascope.hooks.prompts.places import ResolvedPosition

    with load("smollm2-135m") as lm:
        groups = [
            [replace(q, places=(ResolvedPosition("last", len(q.prompt.ids) - 1, 1),)) for q in group]
            for group in compiled(lm, 6, ONE_FORM)
        ]
        plan = CapturePlan(sites=("head_out",))
        taken: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(rounds + 1):
            for captures in (False, True):
                began = time.process_time()
                for group in groups:
                    lm.read(group, capture=plan if captures else None)
                if turn:
                    taken[captures].append(time.process_time() - began)
        ratios = np.array(taken[True]) / np.array(taken[False])
        print(
            f"capture of all heads over none: {np.median(ratios):.3f} ({ratios.min():.3f} to {ratios.max():.3f}), "
            f"{rounds} rounds; at most 1.10: {'met' if np.median(ratios) <= 1.1 else 'MISSED'}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--permutations", type=int, default=1000)
    parser.add_argument("--false-positives", type=int, metavar="SEEDS")
    parser.add_argument("--power", type=int, metavar="SEEDS")
    parser.add_argument("--heads", type=int, metavar="ROUNDS")
    given = parser.parse_args()
    if given.false_positives:
        false_positives(given.false_positives)
    elif given.power:
        power(given.power)
    elif given.heads:
        heads(given.heads)
    else:
        speed(given.rows, given.permutations)
