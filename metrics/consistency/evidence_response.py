"""Do beliefs respond to what they are told, and do the items do so, or only a few of them by much (METRICS W3, W4)?"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, floats, probabilities, row_counts
from ..divergence import clipped_logit
from ..inference.clusters import Rows, complete_beliefs, complete_rows
from ..inference.intervals import moment_interval
from ..inference.means import share_difference
from ..inference.regression import ROUNDING

QUARTER = 0.25
"""Of the pooled slope, from which on an item's own counts; and of the usual size of the evidence, below which an item
has no slope of its own."""
LEANS = 4
"""Degrees of freedom that the noise of all items adds to that of each."""
MOST = 0.5
"""Of the items: a gate asks for more than this, since a mean that half of them make is no response of the model."""
RESOLVED = 2.0
"""Standard errors of an item's slope that a full response must make: in an item with more noise nobody can be seen to
follow, or to turn."""
FEWEST = 5
"""Items with a slope of their own, of which so many can be shown not to respond: if none of five follows, the upper
bound is .476."""
FEWEST_SHOWN = 11
"""Items that can be shown to respond: of ten whose net share is .5 all follow in up to 5.6%."""


class Responding(Score, headline="share"):
    """METRICS W4."""

    share: float = NAN
    """Of the items: those that follow what they are told less those that turn against it."""
    follow: int = 0
    """Items that follow: whose own slope is more than a quarter of the pooled one, of probabilities or of log-odds; or
    whose rejected option is given up (`responding_share`)."""
    turn: int = 0
    """Items whose own slope is as far on the other side of 0; of a rejection, in which that share rises."""
    unheard: tuple[int, int, int] = (0, 0, 0)
    """Items that were told and do not count, since they are too noisy or have no answer: how many there are, and of
    those how many lie above and below 0 nevertheless."""

    def at(self, level: float) -> "Responding":
        """The same with the interval of another level. Its lower end is no higher than the share of all items, the
        unheard among them: whoever is loud where it does not respond, or refuses there, is else heard where it does. It
        is that of all items where fewer can tell than it takes to show a response (`FEWEST_SHOWN`).
        """
        if not self.n_clusters:
            return self
        lo, hi = share_difference(self.follow, self.turn, self.n_clusters, level)
        n, above, below = self.unheard
        up, down, n = self.follow + above, self.turn + below, self.n_clusters + n
        if self.n_clusters < FEWEST_SHOWN:
            lo = min(share_difference(up, down, n, level)[0], self.share)
        return replace(self, ci_lo=min(lo, (up - down) / n), ci_hi=hi, params={"level": level})

    @property
    def withheld(self) -> str:
        """Why no share is told, in words; empty if one is."""
        if self.status == "ok":
            return ""
        n = self.n_clusters
        return f"{FEWEST} items are the fewest that are judged, and {n or 'none'} can be read precisely enough"


def items_responding(
    change: ArrayLike,
    evidence: ArrayLike,
    items: ArrayLike,
    *,
    log_odds: tuple[ArrayLike, ArrayLike] | None = None,
    noisy: bool = False,
    how: Resampling = RESAMPLING,
) -> Responding:
    """Share of the items that respond to evidence (METRICS W4).

    Args:
        change: [n] how far what is read lies from where it stands in its item, or stood before.
        evidence: [n] the same of what it should follow.
        items: [n], each of which has one slope through zero, however many rows.
        log_odds: change and evidence in log-odds, each [n], where the others are of probabilities. An item that follows
            on one of the two scales, and does not turn on the other, follows; one that turns likewise.
        noisy: whether the rows of an item are readings about their mean, each with an error. The slope of an item then
            has one, too, from what its line leaves; where a slope of 1 is less than `RESOLVED` of it on either scale,
            the item has no slope of its own. What it does has no part in that choice: of normal errors a slope and
            what its line leaves are independent.

    A pooled slope above 0 says that some items respond, not that most do: if a tenth of fifty do, it is. What does not
    respond has a slope that noise makes, as often above 0 as below. So the items below count against those above: the
    difference is no more than the share that responds, however large the noise is and however few the levels of an
    item. Its interval is `share_difference`, with no item larger than another; its lower end is no higher than the
    share of all, those that are too noisy with the slope that they have. Items whose evidence has less than a quarter
    of the root mean square of all items' have no slope of their own; fewer than five others are `too_few_items`.

    Whoever answers more surely than Bayes' rule hardly moves where beliefs are near 0 or 1, and by much between: of
    probabilities most of such a reader's slopes lie far below the pooled one, while those of its log-odds are equal.
    """
    named = zip(("change_logit", "evidence_logit"), log_odds or (), strict=False)
    rows = complete_rows(
        items, change=floats(change), evidence=floats(evidence), **{name: floats(column) for name, column in named}
    )
    if not rows.n:
        return Responding(status="too_few_items", **rows.counts)
    b, sizes = rows.columns[1], np.bincount(rows.codes)
    size = np.bincount(rows.codes, b * b) / sizes
    told_apart = size >= max(QUARTER**2 * size.mean(), TIE**2)
    scales = list(zip(rows.columns[::2], rows.columns[1::2], strict=True))
    sides = np.array([_sides(moved, by, rows.codes) for moved, by in scales])
    clear = np.ones(sides.shape, dtype=bool)
    if noisy:
        clear = np.array([_resolved(moved, by, rows.codes) for moved, by in scales])
    kept = told_apart & clear.any(axis=0)
    signs, loud = sides.sum(axis=0), told_apart & ~kept
    reasons = {"too little evidence": int(sizes[~told_apart].sum()), "too noisy": int(sizes[loud].sum())}
    return _counted(signs[kept], signs[loud], int(sizes[kept].sum()), rows.counts, reasons).at(how.level)


def _counted(
    signs: Floats, unheard: Floats, n_rows: int, counts: Mapping[str, Any], reasons: Mapping[str, int]
) -> Responding:
    """The share of items that are above 0 less those below; with the rows that were left out, by reason."""
    left = {reason: n for reason, n in reasons.items() if n}
    counts: dict[str, Any] = {
        **counts,
        "n_rows": n_rows,
        "n_clusters": len(signs),
        "n_dropped": counts["n_dropped"] + sum(left.values()),
        "reasons": {**counts["reasons"], **left},
    }
    if not len(signs):
        return Responding(status="too_few_items", **counts)
    follow, turn = int((signs > 0).sum()), int((signs < 0).sum())
    return Responding(
        share=(follow - turn) / len(signs),
        follow=follow,
        turn=turn,
        unheard=(len(unheard), int((unheard > 0).sum()), int((unheard < 0).sum())),
        ci_method=f"Newcombe, {follow} and {turn} of {len(signs)} items",
        status="ok" if len(signs) >= FEWEST else "too_few_items",
        **counts,
    )


def _resolved(change: Floats, evidence: Floats, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
    """[items] whether a slope of 1 would be `RESOLVED` standard errors of the item's own. Rows are less their means."""
    n = np.bincount(codes)
    ab, bb, aa = (np.bincount(codes, x) for x in (change * evidence, evidence * evidence, change * change))
    left = np.maximum(aa - ab**2 / np.where(bb > 0, bb, np.inf), 0)
    df = np.maximum(n - 2, 0)  # of three rows or fewer little can be said: they lean on those of all items
    usual = left.sum() / max(df.sum(), 1)
    variance = (left + LEANS * usual) / (df + LEANS)
    return bb >= RESOLVED**2 * variance


def _sides(change: Floats, evidence: Floats, codes: NDArray[np.intp]) -> Floats:
    """[items] 1: its slope is more than a quarter of the pooled one; -1: as far on the other side of 0; 0: neither."""
    ab, bb = (np.bincount(codes, evidence * x) for x in (change, evidence))
    least = max(QUARTER * float(ab.sum() / bb.sum()), ROUNDING) if bb.sum() > 0 else ROUNDING
    return (ab > least * bb) * 1.0 - (ab < -least * bb) * 1.0


# Is what was ruled out given up? (METRICS W4)


class RespondingShare(Score, headline="share"):
    """METRICS W4. The interval of the base class is that of the least share."""

    share: float = NAN
    """The least, over templates and controls."""
    falls: Mapping[str, Responding] = field(default_factory=dict)
    """Template -> items in which the rejected option is given up, less those in which its share rises."""
    below: Mapping[tuple[str, str], Responding] = field(default_factory=dict)
    """(template, control) -> items in which it is at most half of what it is after a mere mention, less those in which
    it is more."""


def responding_share(
    prior: ArrayLike,
    post: ArrayLike,
    mentioned: ArrayLike | Mapping[str, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    templates: ArrayLike | None = None,
    *,
    how: Resampling = RESAMPLING,
) -> RespondingShare:
    """In what share of the items is a rejected option given up, in every template (METRICS W4)?

    Args:
        prior: [n] share of the option before it is rejected, in each context.
        post: [n] after.
        mentioned: [n] after the same question with a reply that decides nothing; or control -> [n].
        groups: [n] item, in which the contexts of a template are taken together. None: every row its own.
        templates: [n] in what way it was rejected. None: one.

    An item responds where the share, over its contexts, at least halves, and does so in those that held more than half
    of it before, less those in which it rises: half of the contexts are else enough, such as one order in which words
    are named. It turns where the share rises. Less than half is no elimination, however sure: by sign alone whoever
    lowers the option by .2 nat everywhere would respond in all items. The interval of a net share is Newcombe's for two
    kinds of one count, with no item larger than another, and lies in [-1, 1]; its lower end is no higher than the share
    of all, those without an answer as if they did not respond. Where an option had no share before there was nothing to
    give up: such items say nothing. Fewer than five others are `too_few_items`.
    """
    after = probabilities(post, "post")
    controls = {} if mentioned is None else mentioned if isinstance(mentioned, Mapping) else {"": mentioned}
    against = {"prior": prior, **{f"mentioned {name}".strip(): share for name, share in controls.items()}}
    shares = {name: probabilities(share, name) for name, share in against.items()}
    labels = np.zeros(len(after), dtype=np.intp) if templates is None else np.asarray(templates)
    items = np.arange(len(after)) if groups is None else np.asarray(groups)
    for name, array in (*shares.items(), ("templates", labels), ("groups", items)):
        if array.shape != after.shape:
            raise ValueError(f"{name}: shape {array.shape} for {after.shape} contexts; give one per context")
    codes, named = pd.factorize(labels)
    owners = pd.factorize(items)[0]
    if min(codes.min(initial=0), owners.min(initial=0)) < 0:
        raise ValueError("templates, groups: a context has none; give one per context")
    texts = [""] if templates is None else [str(name) for name in named]
    response = {
        (text, name): _halved(before[codes == k], after[codes == k], owners[codes == k]).at(how.level)
        for name, before in shares.items()
        for k, text in enumerate(texts)
    }
    if not len(after):
        return RespondingShare(status="too_few")
    least = min(response.values(), key=lambda counted: -np.inf if counted.withheld else counted.share)
    return RespondingShare(
        share=least.share,
        falls={text: counted for (text, name), counted in response.items() if name == "prior"},
        below={
            (t, name.removeprefix("mentioned").strip()): counted
            for (t, name), counted in response.items()
            if name != "prior"
        },
        **least.common_fields(),
    )


def _halved(before: Floats, after: Floats, items: NDArray[np.intp]) -> Responding:
    """The share of items in which sums over contexts at least halve, less those in which they rise."""
    known = np.isfinite(before) & np.isfinite(after)
    codes, unique = pd.factorize(items[known])
    before, after = before[known], after[known]
    given_up = before * ((after <= before / 2 + TIE) * 1.0 - (after > before + TIE))
    first, last, most = (np.bincount(codes, column, len(unique)) for column in (before, after, given_up))
    sizes = np.bincount(codes, minlength=len(unique))
    had = first > TIE
    signs = ((last <= first / 2 + TIE) & (most > first / 2 + TIE)).astype(np.float64) - (last > first + TIE)
    counts = row_counts(int(known.sum()), int((~known).sum()))
    unanswered = np.zeros(len(set(items.tolist())) - len(unique))
    return _counted(signs[had], unanswered, int(sizes[had].sum()), counts, {"no share before": int(sizes[~had].sum())})


# Does the belief follow evidence whose posterior is known? (METRICS W4)


class EvidenceSlope(Score, headline="slope"):
    """METRICS W4."""

    slope: float = NAN
    """Of the belief on the true posterior, within questions: 1 follows the evidence fully, 0 not at all."""


def evidence_slope(
    belief: ArrayLike, truth: ArrayLike, groups: ArrayLike, *, how: Resampling = RESAMPLING
) -> EvidenceSlope:
    """Slope of beliefs on true posteriors, each less its mean in the question (METRICS W4).

    What questions differ by, such as a prior that is stated in them, is no response and does not count.

    Args:
        belief: [n] beliefs as evidence comes in; a NaN is dropped.
        truth: [n] posterior that Bayes' rule gives at the same place.
        groups: [n] question, within which the slope is taken, and the unit of the interval.

    The interval is no shorter than CR3 with t of the questions that carry the slope: of beliefs near 0 and 1 those are
    few. `few_effective_clusters` where fewer than ten do, and `too_few` where no question has two beliefs at different
    posteriors. A slope above 0 says that some questions are responded to: `evidence_responding` says whether most are.
    """
    rows, seen, known = _within(belief, truth, groups)
    if not rows.n:
        return EvidenceSlope(status="too_few", **rows.counts)
    moments = np.column_stack([seen * known, known * known])
    if not moments[:, 1].sum() > 0:
        return EvidenceSlope(status="too_few", **rows.counts)

    def slope(sums: Floats) -> Floats:
        return sums[:, 0] / np.where(sums[:, 1] > 0, sums[:, 1], np.nan)

    value = float(slope(moments.sum(axis=0)[None])[0])
    interval = moment_interval(moments, rows.codes, slope, weights=moments[:, 1], how=how)
    return EvidenceSlope(
        slope=value, status=interval.concern, **interval.fields(), **interval.test_of_zero(value), **rows.counts
    )


def evidence_responding(
    belief: ArrayLike, truth: ArrayLike, groups: ArrayLike, *, how: Resampling = RESAMPLING
) -> Responding:
    """Share of the questions in which the belief follows the true posterior: `items_responding` of the same, or of its
    log-odds, in which whoever is surer than Bayes' rule answers to all evidence alike. Questions in which the noise of
    a reading hides even a full response say nothing: give several pieces of evidence to each.
    """
    rows, seen, known = _within(belief, truth, groups)
    odds = [_less_mean(clipped_logit(column, "belief")[0], rows) for column in rows.columns]
    return items_responding(seen, known, rows.codes, log_odds=(odds[0], odds[1]), noisy=True, how=how)


def _within(belief: ArrayLike, truth: ArrayLike, groups: ArrayLike) -> tuple[Rows, Floats, Floats]:
    """The complete rows, and beliefs and posteriors less their means in the question."""
    rows = complete_beliefs(groups, belief=belief, truth=truth)
    seen, known = (_less_mean(column, rows) for column in rows.columns)
    return rows, seen, known


def _less_mean(column: Floats, rows: Rows) -> Floats:
    return column - (np.bincount(rows.codes, column) / np.bincount(rows.codes))[rows.codes]
