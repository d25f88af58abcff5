"""How far from Bayes a perfect Bayesian appears, read as noisily as the model was (METRICS D2)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, Resampling, Score, probabilities, same_shape
from ..inference.clusters import complete_rows
from .posterior import BayesError, bayes_posterior, direction, py_bounds

READINGS = ("p_x", "p_y_given_x", "p_y", "posterior")


class BayesNoiseFloor(Score, headline="rmse"):
    """METRICS D2: what single readings of a perfect Bayesian would show, on average over the draws."""

    rmse: float = NAN
    """Root mean square over items and draws of posterior - P*, as `bayes_error` computes it."""
    mae: float = NAN
    incorrect: float = NAN
    """Share of updates that appear to go the wrong way, as `direction_rates` counts them."""
    incoherence_rate: float = NAN
    """Share of P* above 1 before the policy."""
    sd: Mapping[str, float]
    """Noise of one reading of each of the four, as a standard deviation: pooled over items, ddof 1."""


class BeyondFloor(Score, headline="beyond"):
    """METRICS D2: the error that noise of reading does not explain."""

    beyond: float
    """RMSE less that of the perfect Bayesian; an interval that holds 0 shows no irrationality."""


def beyond_floor(error: BayesError, floor: BayesNoiseFloor) -> BeyondFloor:
    """How far single readings are from Bayes' rule beyond a perfect Bayesian who is read with the same noise
    (METRICS D2). The interval is that of the error; the floor is held as simulated.
    """
    lo, hi = error.ci_lo - floor.rmse, error.ci_hi - floor.rmse
    status = error.status if error.status != "ok" else floor.status
    shared = error.common_fields(ci_lo=lo, ci_hi=hi, p=NAN, p_method="", status=status)
    return BeyondFloor(beyond=error.rmse - floor.rmse, **shared)


def bayes_noise_floor(
    p_x: ArrayLike,
    p_y_given_x: ArrayLike,
    p_y: ArrayLike,
    posterior: ArrayLike,
    policy: str = "clip",
    tol: float = 0.0,
    *,
    how: Resampling = RESAMPLING,
) -> BayesNoiseFloor:
    """Simulate a perfect Bayesian with the noise of replicate readings (METRICS D2).

    Args:
        p_x: [items, r] readings; NaN for one that is missing. P(Y|X), P(Y) and the posterior likewise.
        p_y_given_x: [items, r].
        p_y: [items, r].
        posterior: [items, r].
        policy: of P* above 1, as for `bayes_posterior`.
        tol: as for `direction`.

    The agent believes the mean reading of each item, with P(Y) moved to the nearest value that P(X) and P(Y|X)
    allow, and updates without error; every reading adds independent normal noise and is cut to [0, 1]. The floor is
    what to compare `bayes_error` with, instead of 0. Items with no reading of one of the four, or without a Bayesian
    posterior, are dropped. `no_replicates` where one of the four was never read twice in an item.
    """
    how = how.drawing(200)
    columns = dict(zip(READINGS, (p_x, p_y_given_x, p_y, posterior), strict=True))
    arrays = {name: probabilities(values, name) for name, values in columns.items()}
    same_shape(**arrays)
    if arrays["p_x"].ndim != 2:
        raise ValueError(f"p_x: shape {arrays['p_x'].shape}; give [items, readings of each]")
    means, sd = dict[str, Any](), dict[str, float]()
    for name, x in arrays.items():
        read = np.isfinite(x).sum(axis=1)
        means[name] = np.nansum(x, axis=1) / np.where(read > 0, read, np.nan)
        df = np.maximum(read - 1, 0).sum()
        sd[name] = float(np.sqrt(np.nansum((x - means[name][:, None]) ** 2) / df)) if df else NAN
    bounds = py_bounds(means["p_x"], means["p_y_given_x"])
    marginal = np.clip(means["p_y"], bounds.lo, bounds.hi)
    target = bayes_posterior(means["p_x"], means["p_y_given_x"], marginal).v
    rows = complete_rows(**means, target=target)
    params = {"policy": policy, "tol": tol, "draws": how.n_draws, "seed": how.seed}
    if not rows.n or np.isnan(list(sd.values())).any():
        status = "no_replicates" if rows.n else "too_few"
        return BayesNoiseFloor(sd=sd, status=status, params=params, **rows.counts)
    truth = (means["p_x"], means["p_y_given_x"], marginal, target)
    rng = np.random.default_rng(how.seed)
    read = [
        np.clip(x[rows.kept] + rng.normal(0, sd[name], (how.n_draws, rows.n)), 0, 1)
        for name, x in zip(READINGS, truth, strict=True)
    ]
    simulated = bayes_posterior(*read[:3], policy=policy)
    error = read[3] - simulated.v
    labels = [label for label in direction(read[0], read[3], simulated.v, tol).labels if label != "undefined"]
    defined = bool(np.isfinite(error).any())
    return BayesNoiseFloor(
        rmse=float(np.sqrt(np.nanmean(error**2))) if defined else NAN,
        mae=float(np.nanmean(np.abs(error))) if defined else NAN,
        incorrect=labels.count("incorrect") / len(labels) if labels else NAN,
        incoherence_rate=simulated.incoherence_rate,
        sd=sd,
        status="ok" if defined else "undefined",
        params=params,
        **rows.counts,
    )
