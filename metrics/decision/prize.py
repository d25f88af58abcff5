"""Does the stated belief depend on what is paid for it? (METRICS E8)"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..inference.equivalence import MARGINS, tost
from ..inference.intervals import Interval
from ..inference.rows import complete_rows
from ..inference.studentised import studentised_mean
from ..score import NAN, Score
from ..validation import Floats, floats, probabilities

FEW_CONTEXTS = 100
"""Below this an interval of squared shifts, which are skewed, does not quite hold its level."""


@dataclass(frozen=True, kw_only=True)
class PrizeIndependence(Score):
    """METRICS E8. The interval is of `debiased_ms`, over contexts."""

    headline: ClassVar[str] = "debiased_ms"
    debiased_ms: float
    """rmse_means^2 - noise_floor^2: the mean square effect of the prompt itself, unbiased, maybe negative."""
    debiased_rms: float
    """Root of what of it is positive."""
    noise_floor: float
    """What `rmse_means` would be if the prompt had no effect, from the repetitions of both prompts."""
    rmse_means: float
    """RMS over contexts of the difference of repetition means (the paper's Table 3 caption)."""
    rmse_per_rep: float
    """RMS of single alternative answers around the base mean (the paper's text)."""
    sd_pooled: float
    """Root mean variance of the repetitions of the base prompt, ddof 1."""
    sd_mean: float
    """Mean of their SDs."""
    mean_shift: float
    """Mean of alternative - base."""
    p_tost_shift: float
    """Paired TOST of `mean_shift` against the margin, t over contexts. Shifts that cancel pass it."""
    rms_upper: float
    """95% upper bound of the prompt's RMS effect, from the interval of `debiased_ms`."""
    equivalent: bool
    """`rms_upper` lies within the margin, and so does the mean shift: independence may be claimed."""


def prize_independence(
    p_base: ArrayLike,
    p_alt: ArrayLike,
    *,
    margin: float = MARGINS["rmse"],
    seed: int = 0,
    draws: int = 2000,
    level: float = 0.95,
) -> PrizeIndependence:
    """Beliefs under two prompts that differ in the scoring rule (METRICS E8; rational-agents Table 3).

    Args:
        p_base: [contexts, r0] repeated answers; NaN for one that is missing.
        p_alt: [contexts, r1].
        margin: the smallest RMS effect that matters, in units of probability (METRICS F3).
        seed: of the context bootstrap, like `draws` and `level`.
        draws: resamples.
        level: of the interval.

    A context without an answer under either prompt is dropped. Where nothing was repeated there is no noise
    floor and no bound (`no_replicates`); one context has no equivalence test. The interval is by studentised bootstrap,
    linearised where repetitions are unequal; of fewer than a hundred contexts it misses a little more often than it
    says (`few_contexts`, docs/calibration.md). The bound that `equivalent` rests on lies below the true effect in 4 to
    6% of samples of 20 to 60 contexts that all have some of it, but in 14% of samples of 20 if only one context in ten
    has any: a sample may then hold none. Absolute loss is improper: a rational agent told of it should report 0 or 1.

    >>> base = [[0.5, 0.6], [0.3, 0.4], [0.7, 0.8]]
    >>> paid = [[0.7, 0.8], [0.5, 0.6], [0.9, 1.0]]
    >>> round(prize_independence(base, paid).mean_shift, 3)
    0.2
    """
    base, alt = (probabilities(x, name) for x, name in ((p_base, "p_base"), (p_alt, "p_alt")))
    if base.ndim != 2 or alt.ndim != 2 or len(base) != len(alt):
        raise ValueError(f"p_base {base.shape}, p_alt {alt.shape}; give [contexts, reps] of the same contexts")
    r0, r1 = (floats(np.isfinite(x).sum(axis=1)) for x in (base, alt))
    rows = complete_rows(answered=np.where((r0 > 0) & (r1 > 0), 0.0, np.nan))
    base, alt, r0, r1 = (x[rows.kept] for x in (base, alt, r0, r1))
    n, counts = rows.n, rows.counts
    if not n:
        return PrizeIndependence(
            debiased_ms=NAN, debiased_rms=NAN, noise_floor=NAN, rmse_means=NAN, rmse_per_rep=NAN,
            sd_pooled=NAN, sd_mean=NAN, mean_shift=NAN, p_tost_shift=NAN, rms_upper=NAN, equivalent=False,
            status="too_few", **counts,
        )  # fmt: skip
    mean0, mean1 = np.nanmean(base, axis=1), np.nanmean(alt, axis=1)
    squares0, squares1 = (np.nansum((x - m[:, None]) ** 2, axis=1) for x, m in ((base, mean0), (alt, mean1)))
    shift2 = (mean1 - mean0) ** 2
    floor = [_floor(squares, r) for squares, r in ((squares0, r0), (squares1, r1))]
    noise = floor[0] + floor[1]
    debiased_ms = float((shift2 - noise).mean())
    repeated = r0 > 1
    sds = np.sqrt(squares0[repeated] / (r0[repeated] - 1))
    interval = bound = Interval()
    if np.isfinite(debiased_ms):
        interval, bound = (studentised_mean(shift2 - noise, seed=seed, draws=draws, level=x) for x in (level, 0.9))
    rms_upper = float(np.sqrt(np.maximum(bound.hi, 0.0)))
    shift = mean1 - mean0
    se_shift = float(scipy.stats.sem(shift)) if n > 1 else NAN
    return PrizeIndependence(
        debiased_ms=debiased_ms,
        debiased_rms=float(np.sqrt(max(debiased_ms, 0.0))) if np.isfinite(debiased_ms) else NAN,
        noise_floor=float(np.sqrt(noise.mean())),
        rmse_means=float(np.sqrt(shift2.mean())),
        rmse_per_rep=float(np.sqrt(np.nanmean((alt - mean0[:, None]) ** 2))),
        sd_pooled=float(np.sqrt(squares0.sum() / (r0 - 1).sum())) if repeated.any() else NAN,
        sd_mean=float(sds.mean()) if repeated.any() else NAN,
        mean_shift=float(shift.mean()),
        p_tost_shift=tost(float(shift.mean()), se_shift, n - 1, -margin, margin).p,
        rms_upper=rms_upper,
        equivalent=rms_upper < margin,
        status="no_replicates" if np.isnan(debiased_ms) else "few_contexts" if n < FEW_CONTEXTS else "ok",
        **counts,
        **interval.fields(margin=margin),
    )


def _floor(squares: Floats, r: Floats) -> Floats:
    """[contexts] whose mean is the variance of a repetition mean: pooled variance times the mean of 1 / r.

    The pooled variance is a ratio of sums; each context adds what it pulls of it, to first order.
    """
    df = r - 1
    if not df.any():
        return np.full(len(r), np.nan)
    variance = squares.sum() / df.sum()
    return variance / r + (1 / r).mean() * (squares - variance * df) / df.mean()
