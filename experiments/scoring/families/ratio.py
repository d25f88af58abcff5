"""How far a rejection moves the odds of the two that remain, and what is there beyond the words? (METRICS B12, W3)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import (
    KappaWord,
    LogoddsChange,
    belief_consistency,
    chance_corrected,
    kappa_word,
    ratio_bounds,
    rms_logodds_change,
)
from ....metrics.logodds import LOGIT_EPS, clipped_logit
from ...tables.cells import Array
from ...tables.samples import Options
from ..number import Resampling
from .metric import FARTHEST, Compared, Line, claimed, clusters_of, compare_moments, keys_of, metric, with_drop_reasons

OPTIONS = "prior_<option>, posterior_<option>, rejected; or item, context, rejected, count_<option>"
THREE = f"{OPTIONS}; three options"
UNALLOCATED = "none: an end of what the mass on no option leaves open"


def _shares(sample: Options) -> tuple[Array, Array]:
    """[n] share of the first of the two options that remain, before and after."""
    found = belief_consistency(sample.prior, sample.posterior, sample.rejected)
    return found.prior2[:, 0].copy(), found.post2[:, 0].copy()


def _changes(sample: Options) -> Array:
    """[n] change of the log-odds of the two options that remain."""
    (before, _), (after, _) = (clipped_logit(share, "share") for share in _shares(sample))
    return after - before


def _compare_rms(sample: Options) -> Compared:
    change = _changes(sample)
    moments = np.column_stack([np.ones(len(change)), change**2])
    return compare_moments("rms_logodds", keys_of(sample), clusters_of(sample), moments, _root, FARTHEST)


def _root(sums: Array) -> Array:
    return np.sqrt(sums[:, 1] / sums[:, 0])


@metric("B12", THREE, Options, needs=("three",), compare=_compare_rms)
def logodds_change(sample: Options, how: Resampling) -> Iterator[Line]:
    """How far do the odds of two move when a third is rejected? In nats, without a ceiling; 0 is a kept ratio."""
    if sample.strata is not None:  # it is told of each part by itself
        return
    (before, after), clusters = _shares(sample), clusters_of(sample)
    score = with_drop_reasons(rms_logodds_change(before, after, clusters, **how.interval), sample, before + after)
    beside = {"half of the changes are at most": f"{score.median_abs:.3f}"}
    if score.n_clipped:
        beside[f"shares moved off 0 or 1 by {LOGIT_EPS:g}"] = str(score.n_clipped)
    if sample.words_prior is not None:
        beside["of the words alone"] = "0, which is no belief"
    claim = claimed(np.abs(_changes(sample)), clusters, "logodds", how, worst=FARTHEST)
    yield Line("rms_logodds", "root mean square change of the log-odds", score, beside, claim, worst=FARTHEST)
    open_ends = ratio_bounds(sample.prior, sample.posterior, sample.rejected)
    least = open_ends.prior_lo + open_ends.post_lo  # NaN where no mass could be on the two
    for end, value, said in (("lower", open_ends.rms_lo, "least"), ("upper", open_ends.rms_hi, "largest")):
        bound = LogoddsChange(
            rms=value,
            n_clipped=open_ends.n_clipped,
            n_rows=open_ends.n_rows,
            n_dropped=open_ends.n_dropped,
            status=open_ends.status,
            ci_method=UNALLOCATED,
        )
        quantity = f"{said} change that the mass on no option leaves open"
        yield Line(f"rms_{end}", quantity, with_drop_reasons(bound, sample, least))


def _both_scores(sample: Options) -> tuple[Array, Array]:
    """[n] three-class consistency of the read-outs, and of the words alone."""
    assert sample.words_prior is not None
    assert sample.words_posterior is not None
    own = belief_consistency(sample.prior, sample.posterior, sample.rejected).c3
    return own, belief_consistency(sample.words_prior, sample.words_posterior, sample.rejected).c3


def _compare_gain(sample: Options) -> Compared | None:
    if sample.words_prior is None:
        return None
    own, null = _both_scores(sample)
    moments = np.column_stack([np.ones(len(own)), own, null])
    return compare_moments("kappa_word", keys_of(sample), clusters_of(sample), moments, _gain)


def _gain(sums: Array) -> Array:
    return np.atleast_1d(chance_corrected(sums[:, 1] / sums[:, 0], sums[:, 2] / sums[:, 0]).kappa)


def gain_over_words(sample: Options, how: Resampling) -> KappaWord | None:
    """Of consistency on three classes, where the words are known."""
    if sample.words_prior is None:
        return None
    return kappa_word(*_both_scores(sample), clusters_of(sample), **how.interval)


@metric(
    "W3, B12",
    "a belief table, or a run; three options",
    Options,
    needs=("three", "words_prior"),
    compare=_compare_gain,
    of_parts=False,
)
def word_gain(sample: Options, how: Resampling) -> Iterator[Line]:
    """Three-class consistency beyond what the words alone would give; 0 is the taste for words, 1 is coherent."""
    score = gain_over_words(sample, how)
    assert score is not None
    own, null = _both_scores(sample)
    beside = {"three-class consistency": f"{score.c:.3f}", "of the words alone": f"{score.c_word:.3f}"}
    yield Line("kappa_word", "gain over word identity", with_drop_reasons(score, sample, own + null), beside)


METRICS = (word_gain, logodds_change)
