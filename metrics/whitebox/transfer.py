"""Where a belief sits: how much of an update moves with a residual, or with the asker (METRICS W2, W5)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, floats, same_shape
from ..inference.clusters import Rows, bootstrap_moments, complete_rows
from ..inference.intervals import MIN_BOOTSTRAP_CLUSTERS, moment_interval


class TransferFraction(Score, headline="transfer"):
    """METRICS W2. 1: the patched cell carries the whole update; 0: nothing of it. Not bounded by either."""

    transfer: float = NAN
    """Mean of the two directions, or the only one."""
    forward: float = NAN
    """sum (patched - base) / sum (donor - base)."""
    reverse: float = NAN
    """The same with base and donor exchanged; NaN if it was not run."""
    mean_update: float = NAN
    """Mean donor - base in nats of log-odds: the denominator."""


class MappedTransfer(TransferFraction):
    """METRICS W2 of one cell of a map. The band holds for all cells of the map at once, the interval for this one."""

    band_lo: float
    band_hi: float
    p_max: float
    """Adjusted for all cells of the map."""

    @property
    def off_zero(self) -> bool:
        """Whether the band leaves out 0, and what is moved is more than noise: of rounding, too, a sign can be sure."""
        moved = abs(self.transfer * self.mean_update)
        return (self.band_lo > 0 or self.band_hi < 0) and moved > self.params["noise_floor"]


def transfer_fraction(
    base: ArrayLike,
    patched: ArrayLike,
    donor: ArrayLike,
    groups: ArrayLike | None = None,
    patched_reverse: ArrayLike | None = None,
    *,
    noise_floor: float = 0.0,
    how: Resampling = RESAMPLING,
) -> TransferFraction:
    """Share of an update that one (span, layer) carries, as a ratio of sums over minimal pairs (METRICS W2).

    Args:
        base: [n] exact log-odds of the base context.
        patched: [n] of the base context with the donor's residual put in.
        donor: [n] of the donor context.
        groups: [n] item, the unit of the interval. None: every pair its own.
        patched_reverse: [n] of the donor context with the base's residual put in. Both directions as rows of
            one call would cancel in the denominator; give the second here.
        noise_floor: a mean update of this size or less, in nats, is no update.

    Within the noise floor the fraction is NaN, status `no_update`. If the interval of the update itself
    touches zero the status is `weak_update`, and the ratio can take any value. For the cells of a map use
    `transfer_map`: the best of many cells is large by selection.
    """
    reverse = np.full(np.shape(patched), 0.0) if patched_reverse is None else patched_reverse
    moments, rows = _pairs(base, patched, donor, reverse, groups)
    both = patched_reverse is not None
    if not rows.n:
        return TransferFraction(status="too_few", **rows.counts)
    total = moments.sum(axis=0)
    mean_update = float(total[0] / rows.n)
    if abs(mean_update) <= max(noise_floor, TIE):
        return TransferFraction(
            mean_update=mean_update, status="no_update", params={"noise_floor": noise_floor}, **rows.counts
        )

    def fraction(sums: Floats) -> Floats:
        return (sums[:, 1] + sums[:, 2]) / (2 * sums[:, 0]) if both else sums[:, 1] / sums[:, 0]

    interval = moment_interval(moments, rows.codes, fraction, how=how)
    updates = np.column_stack([moments[:, 0], np.ones(rows.n)])
    update = moment_interval(updates, rows.codes, lambda s: s[:, 0] / s[:, 1], how=how)
    weak = update.lo <= 0 <= update.hi
    return TransferFraction(
        transfer=float(fraction(total[None])[0]),
        forward=float(total[1] / total[0]),
        reverse=float(total[2] / total[0]) if both else NAN,
        mean_update=mean_update,
        status="weak_update" if weak else "ok",
        **rows.counts,
        **interval.fields(noise_floor=noise_floor),
    )


class TransferMap(Score, headline="transfer"):
    """METRICS W2 over the cells of a map. The bands hold for all cells at once."""

    transfer: Floats
    """[cells...]."""
    se_cell: Floats
    band_lo: Floats
    band_hi: Floats
    p_max: Floats
    """Adjusted p of each cell against 0, by the largest studentised deviation of a bootstrap."""


def transfer_map(
    base: ArrayLike,
    patched: ArrayLike,
    donor: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    noise_floor: float = 0.0,
    how: Resampling = RESAMPLING,
) -> TransferMap:
    """Transfer fraction of every (span, layer) with max-T bands (METRICS W2).

    Arguments as for `transfer_fraction`, but `patched` is [n, cells...]. A pair with a NaN in any cell is
    dropped. Fewer than ten clusters, or no update, have no bands.
    """
    patched = floats(patched)
    shape = patched.shape[1:]
    base, donor = np.atleast_1d(floats(base)), np.atleast_1d(floats(donor))
    same_shape(base=base, donor=donor)
    rows = complete_rows(groups, base=base, patched=patched.reshape(len(patched), int(np.prod(shape))), donor=donor)
    base, flat, donor = rows.columns
    update = donor - base
    blank = np.full(shape, NAN)
    nothing = not rows.n or abs(update.mean()) <= max(noise_floor, TIE)
    transfer = blank if nothing else ((flat - base[:, None]).sum(axis=0) / update.sum()).reshape(shape)
    if nothing or rows.n_clusters < MIN_BOOTSTRAP_CLUSTERS:
        none: dict[str, Any] = dict.fromkeys(("se_cell", "band_lo", "band_hi", "p_max"), blank)
        return TransferMap(transfer=transfer, **none, status="no_update" if nothing else "too_few", **rows.counts)
    moments = np.column_stack([update, flat - base[:, None]])
    resampled = bootstrap_moments(moments, rows.codes, lambda s: s[:, 1:] / s[:, :1], how=how)
    point = transfer.ravel()
    se = resampled.std(axis=0, ddof=1)
    scale = np.where(se > TIE, se, np.nan)
    largest = np.nanmax(np.abs(resampled - point) / scale, axis=1, initial=0.0)
    half = float(np.quantile(largest, how.level)) * se
    exceeded = (largest[:, None] >= np.abs(point / scale)).sum(axis=0)
    p_max = np.where(np.isnan(scale), np.nan, (exceeded + 1) / (how.n_draws + 1))
    return TransferMap(
        transfer=transfer,
        se_cell=se.reshape(shape),
        band_lo=(point - half).reshape(shape),
        band_hi=(point + half).reshape(shape),
        p_max=p_max.reshape(shape),
        ci_method="max-T cluster bootstrap over all cells",
        p_method="max-T cluster bootstrap",
        params={"noise_floor": noise_floor, **how.params},
        **rows.counts,
    )


class Persistence(Score, headline="persistence"):
    """METRICS W5."""

    persistence: float
    """Near 1 the belief moved, near 0 only what is said to the user."""
    shift_user: float
    """Mean shift of log-odds when the user asks."""
    shift_third: float


def persistence(
    shift_user: ArrayLike,
    shift_third: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    noise_floor: float = 0.0,
    how: Resampling = RESAMPLING,
) -> Persistence:
    """Share of the shift under testimony that is still there when a third party asks (METRICS W5).

    Args:
        shift_user: [n] change of log-odds after the testimony, asked by the user.
        shift_third: [n] the same trunk, asked by a neutral third party (or through a scored form).
        groups: [n] scenario, the unit of the interval. None: every row its own.
        noise_floor: as for `transfer_fraction`, with the same statuses.
    """
    shift_user, shift_third = np.atleast_1d(floats(shift_user)), np.atleast_1d(floats(shift_third))
    zero = np.zeros(shift_user.shape)
    score = transfer_fraction(zero, shift_third, shift_user, groups, noise_floor=noise_floor, how=how)
    rows = complete_rows(groups, shift_user=shift_user, shift_third=shift_third)
    third = rows.columns[1]
    return Persistence(
        persistence=score.transfer,
        shift_user=score.mean_update,
        shift_third=float(third.mean()) if len(third) else NAN,
        status=score.status,
        **score.interval(),
        **rows.counts,
    )


def _pairs(
    base: ArrayLike, patched: ArrayLike, donor: ArrayLike, reverse: ArrayLike, groups: ArrayLike | None
) -> tuple[Floats, Rows]:
    """Per pair: update, what the patch moved forward, and backward toward the base."""
    columns = {"base": base, "patched": patched, "donor": donor, "patched_reverse": reverse}
    arrays = {name: np.atleast_1d(floats(x)) for name, x in columns.items()}
    for name, array in arrays.items():
        if np.isinf(array).any():
            raise ValueError(f"{name}: holds an infinite log-odds; compute it in float32 or clip it")
    same_shape(**arrays)
    rows = complete_rows(groups, **arrays)
    b, m, d, r = rows.columns
    return np.column_stack([d - b, m - b, d - r]), rows
