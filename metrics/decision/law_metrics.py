"""Tables of beliefs of which some follow from others: the mean over cases (METRICS E9), and what a bookmaker surely
wins, in cents per euro (METRICS W7).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from ..consistency.rejection import counts_to_probabilities
from ..contract import Array, Resampling
from ..inference.means import LOSS, UNIT
from ..metric import (
    VERBAL_TOLERANCE,
    Compared,
    Line,
    clusters_of,
    compare_mean,
    deviation_claim,
    keys_of,
    mean_of,
    metric,
    mostly_extreme,
    odds_line,
    share_of,
    with_drop_reasons,
)
from ..tables.sample_rows import by_reading, label_text
from ..tables.samples import Cases, Elicited, Evidence, Options, Sample, YesNo
from ..tables.whitebox_samples import Forks
from .probability_laws import bet_payoffs, median_ci
from .probability_laws import dutch_book as surely_lost
from .probability_laws import lie as law


@metric("E9", "p, cond_1, weight_1, cond_2, weight_2, ...", Cases, place=490)
def lie_lines(sample: Cases, how: Resampling) -> Iterator[Line]:
    """Law of iterated expectation: is a belief the weighted mean of the beliefs given each case?"""
    gaps = law(sample.p, sample.conditional, sample.weights)
    signed = mean_of(sample, gaps.signed, how)
    beside = {"weights sum to, on average": f"{np.nanmean(gaps.weight_sum):.3f}"} if signed.n_rows else {}
    extreme = mostly_extreme(sample.p, sample.p - gaps.signed)
    claim = None if extreme else deviation_claim(gaps.signed, sample, "lie", how)
    yield Line("lie", "belief minus the belief that its cases imply", signed, beside, claim)
    if extreme:
        implied = np.clip(sample.p - gaps.signed, 0, 1)
        quantity = "log-odds of the belief minus those that its cases imply, nats"
        yield odds_line("lie_logodds", quantity, sample.p, implied, sample, how)
    noise = {}
    if sample.replicate is not None:
        readings = by_reading(sample, gaps.signed)
        repeated = readings[np.isfinite(readings).sum(axis=1) > 1]
        if len(repeated):  # the mean size of normal noise is sqrt(2 / pi) of its standard deviation
            spread = np.nanvar(repeated, axis=1, ddof=1).mean()
            noise["of a coherent agent read with this noise"] = f"{np.sqrt(2 / np.pi * spread):.3f}"
    yield Line("lie_size", "size of the difference", mean_of(sample, gaps.delta, how, UNIT), noise)
    ratio = median_ci(gaps.ratio, groups=sample.clusters, how=how)
    yield Line("lie_ratio", "median of difference / p", with_drop_reasons(ratio, sample, gaps.ratio))
    outside = np.where(np.isnan(gaps.outside_hull), np.nan, gaps.outside_hull > VERBAL_TOLERANCE)
    quantity = f"share outside its cases by more than {VERBAL_TOLERANCE:g}, wrong whatever the weights"
    yield Line("outside_hull", quantity, share_of(sample, outside, how))


# What a bookmaker surely wins from someone who bets at these beliefs, in cents per euro (METRICS W7).

CENTS = 100
LEAST_STAKE = 0.005
"""Of a bet that is shown, in euros."""
MOST_CORNERS = 8
"""Bets up to which the largest loss is computed; of more, each bet is taken to be lost."""
FLOOR_ROWS = 2_000
"""Rows that the floor of reading noise is simulated on."""


@dataclass(frozen=True)
class Book:
    """Beliefs about events of which some follow from others, as prices of bets."""

    about: str
    """What is logically related."""
    bets: tuple[str, ...]
    prices: Array
    """[n, bets]"""
    payoffs: Array
    """[worlds, bets]"""


def complement(sample: YesNo) -> Book:
    """A statement and its negation: exactly one is true."""
    assert sample.negated is not None
    pays = bet_payoffs(["true", "false"], [["true"], ["false"]])
    return Book(
        "a statement and its negation", ("it", "its negation"), np.column_stack([sample.belief, sample.negated]), pays
    )


def cases(sample: Cases) -> Book:
    """A belief, the chance of each case, and the belief given each: bets on a belief given a case stand in it alone."""
    m = sample.conditional.shape[1]
    worlds = [(case, true) for case in range(m) for true in (True, False)]
    whole, within = [(case, True) for case in range(m)], [[(case, True), (case, False)] for case in range(m)]
    pays = bet_payoffs(
        worlds,
        [whole, *within, *([world] for world in whole)],
        [None, *[None] * m, *(within[case] for case in range(m))],
    )
    total = sample.weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = sample.weights / np.where(total > 0, total, np.nan)
    names = ("it", *(f"case {case + 1}" for case in range(m)), *(f"it, given case {case + 1}" for case in range(m)))
    return Book("a belief and its cases", names, np.column_stack([sample.p, weights, sample.conditional]), pays)


def rejection(sample: Options) -> Book:
    """Options before one is ruled out, and after: the latter are bets that are called off if it was the one."""
    n, k = sample.prior.shape
    others = np.array([[j for j in range(k) if j != rejected] for rejected in sample.rejected], dtype=np.intp)
    order = np.column_stack([others.reshape(n, k - 1), sample.rejected])
    shares = [np.take_along_axis(counts_to_probabilities(x), order, axis=1) for x in (sample.prior, sample.posterior)]
    events = [[j] for j in range(k)]
    pays = bet_payoffs(range(k), [*events, *events], [*[None] * k, *[range(k - 1)] * k])
    left = [*(f"option {j + 1} of those that remain" for j in range(k - 1)), "the rejected option"]
    return Book("a rejection", (*left, *(f"{name}, after it" for name in left)), np.hstack(shares), pays)


def bayes(sample: Evidence) -> Book:
    """X, Y, Y given X, X given Y, and Y given not X where it was read."""
    worlds = [(x, y) for x in (True, False) for y in (True, False)]
    is_x, is_y = [world for world in worlds if world[0]], [world for world in worlds if world[1]]
    not_x = [world for world in worlds if not world[0]]
    names, columns = (
        ["X", "Y", "Y given X", "X given Y"],
        [sample.p_x, sample.p_y, sample.p_y_given_x, sample.posterior],
    )
    events, given = [is_x, is_y, is_y, is_x], [None, None, is_x, is_y]
    if sample.p_y_given_not_x is not None:
        names, columns = [*names, "Y given not X"], [*columns, sample.p_y_given_not_x]
        events, given = [*events, is_y], [*given, not_x]
    pays = bet_payoffs(worlds, events, given)
    return Book("a prior, its evidence and the posterior", tuple(names), np.column_stack(columns), pays)


def swaps(sample: Elicited) -> Book:
    """One event, read twice: with the options in either order, say."""
    assert sample.readings is not None
    r = sample.readings.shape[1]
    pays = bet_payoffs(["true", "false"], [["true"]] * r)
    return Book("readings of one event", tuple(f"reading {j + 1}" for j in range(r)), sample.readings, pays)


def fork(sample: Forks) -> Book:
    """Is it d, asked of every option d of which one is the chosen one."""
    k = sample.q.shape[1]
    return Book("options asked for one by one", tuple(f"option {j + 1}" for j in range(k)), sample.q, np.eye(k))


def _compare(name: str, book: Callable[[Any], Book]) -> Callable[[Any], Compared | None]:
    """Cents by which the books of two samples differ."""

    def compare(sample: Any) -> Compared:
        bets = book(sample)
        worst = CENTS * _most(bets.payoffs.shape, bets.payoffs.tobytes())
        return compare_mean(name, CENTS * surely_lost(bets.prices, bets.payoffs).loss, sample, worst)

    return compare


@cache
def _most(shape: tuple[int, int], payoffs: bytes) -> float:
    """The most that any prices of these bets lose, in euros: convex, it is lost at prices that are all 0 or 1."""
    bets = shape[1]
    if bets > MOST_CORNERS:
        return float(bets)
    corners = np.array(list(product((0.0, 1.0), repeat=bets)))
    return float(surely_lost(corners, np.frombuffer(payoffs).reshape(shape)).loss.max())


def _lines(name: str, sample: Sample, book: Book, how: Resampling, floor: Array | None = None) -> Iterator[Line]:
    """The loss, and that per bet; `floor` [m, bets] are the prices of a coherent agent that is read as noisily."""
    loss_of = surely_lost(book.prices, book.payoffs)
    for metric_name, quantity, loss in (
        (name, f"sure loss on {book.about}, cents per euro", loss_of.loss),
        (f"{name}_per_bet", "the same per bet, cents", loss_of.loss_per_bet),
    ):
        beside = _beside(sample, book, loss_of, floor) if loss is loss_of.loss else {}
        yield Line(metric_name, quantity, mean_of(sample, CENTS * loss, how, LOSS), beside)


def _beside(sample: Sample, book: Book, sure: Any, floor: Array | None) -> Mapping[str, str]:
    if not np.isfinite(sure.loss).any():
        return {}
    worst = int(np.nanargmax(sure.loss))
    beside = {
        "bets": str(len(book.bets)),
        "distance from coherence, cents": f"{CENTS * np.nanmean(sure.quadratic):.3f}",
    }
    if floor is not None:
        losses = surely_lost(floor, book.payoffs).loss
        beside["of a coherent agent read with this noise"] = f"{CENTS * np.nanmean(losses):.3f}"
    bets = [
        f"{'buys' if stake > 0 else 'sells'} {bet} at {price:.3f}"
        for bet, stake, price in zip(book.bets, sure.stakes[worst], book.prices[worst], strict=True)
        if abs(stake) > LEAST_STAKE
    ]
    if bets and sure.loss[worst] > 0:
        at = label_text(str((keys_of(sample) if sample.keys_known else clusters_of(sample))[worst]))
        beside[f"most is lost at {at}, {CENTS * sure.loss[worst]:.1f} cents:"] = ", ".join(bets)
    return beside


def _noisy(sample: Sample, columns: list[Array], coherent: Array, how: Resampling) -> Array | None:
    """Coherent prices [n, bets] with the spread that replicate readings of an item have; None where none has any."""
    read = [by_reading(sample, column) for column in columns]
    twice = [readings[np.isfinite(readings).sum(axis=1) > 1] for readings in read]
    if not all(map(len, twice)):
        return None
    rng = np.random.default_rng(how.seed)
    coherent = coherent[:FLOOR_ROWS]
    spreads = [np.sqrt(np.nanvar(readings, axis=1, ddof=1).mean()) for readings in twice]
    return np.clip(coherent + spreads * rng.standard_normal(coherent.shape), 0.0, 1.0)


def _floor_of_cases(sample: Cases, how: Resampling) -> Array | None:
    if sample.replicate is None:
        return None
    prices = cases(sample).prices
    m = sample.conditional.shape[1]
    coherent = np.column_stack([(prices[:, 1 : m + 1] * sample.conditional).sum(axis=1), prices[:, 1:]])
    return _noisy(sample, list(prices.T), coherent, how)


def _floor_of_bayes(sample: Evidence, how: Resampling) -> Array | None:
    if sample.replicate is None:
        return None
    prices, p_x, given = bayes(sample).prices, sample.p_x, sample.p_y_given_x
    with np.errstate(invalid="ignore", divide="ignore"):
        without = np.clip((sample.p_y - p_x * given) / (1 - p_x), 0, 1)
        without = without if sample.p_y_given_not_x is None else sample.p_y_given_not_x
        p_y = p_x * given + (1 - p_x) * without
        coherent = np.column_stack([p_x, p_y, given, p_x * given / p_y, without])[:, : prices.shape[1]]
    return _noisy(sample, list(prices.T), coherent, how)


def _floor_of_counts(sample: Options, how: Resampling) -> Array | None:
    """A kept ratio, with as many answers drawn before and after as there were."""
    if sample.n_prior is None or sample.n_posterior is None:
        return None
    rng, k = np.random.default_rng(how.seed), sample.prior.shape[1]
    before = rejection(sample).prices[:, :k]
    drawn = np.full((min(len(before), FLOOR_ROWS), 2 * k), np.nan)
    for i, (prior, n_prior, n_posterior) in enumerate(zip(before, sample.n_prior, sample.n_posterior, strict=True)):
        if i == FLOOR_ROWS:
            break
        left = prior[:-1].sum()
        if not (np.isfinite(prior).all() and left > 0 and n_prior > 0 and n_posterior > 0):
            continue
        after = np.append(prior[:-1] / left, 0.0)  # a quotient by 1 less the rejected share can exceed 1 by a rounding
        counts = (
            rng.multinomial(max(1, round(n_prior / left)), prior),
            rng.multinomial(max(1, round(n_posterior)), after),
        )
        drawn[i] = np.concatenate([count / count.sum() for count in counts])
    return drawn


book_metric = partial(metric, "W7", slow=True, margin="dutch_book")

COMPLEMENT, CASES, REJECTION = "dutch_book_complement", "dutch_book_cases", "dutch_book_rejection"
BAYES, SWAPS, FORK = "dutch_book_bayes", "dutch_book_swaps", "dutch_book_fork"


@book_metric(
    "logp_yes, logp_no, logp_negated_yes, logp_negated_no",
    YesNo,
    needs=("negated",),
    compare=_compare(COMPLEMENT, complement),
    place=590,
)
def dutch_book_complement_lines(sample: YesNo, how: Resampling) -> Iterator[Line]:
    """What surely is lost by betting at these beliefs in a statement and its negation. 0: they sum to one."""
    yield from _lines(COMPLEMENT, sample, complement(sample), how)


@book_metric("p, cond_1, weight_1, cond_2, weight_2, ...", Cases, compare=_compare(CASES, cases), place=600)
def dutch_book_cases_lines(sample: Cases, how: Resampling) -> Iterator[Line]:
    """What surely is lost by betting at a belief, at the chances of its cases, and at the beliefs given each."""
    yield from _lines(CASES, sample, cases(sample), how, _floor_of_cases(sample, how))


@book_metric(
    "prior_<option>, posterior_<option>, rejected; or item, context, rejected, count_<option>",
    Options,
    compare=_compare(REJECTION, rejection),
    of_parts=False,
    place=610,
)
def dutch_book_rejection_lines(sample: Options, how: Resampling) -> Iterator[Line]:
    """What surely is lost by betting before and after an option is ruled out. 0: the others keep their ratio."""
    yield from _lines(REJECTION, sample, rejection(sample), how, _floor_of_counts(sample, how))


@book_metric(
    "p_x, p_y, p_y_given_x, posterior [, p_y_given_not_x]", Evidence, compare=_compare(BAYES, bayes), place=620
)
def dutch_book_bayes_lines(sample: Evidence, how: Resampling) -> Iterator[Line]:
    """What surely is lost by betting at a prior, its evidence and the posterior. 0: they are of one distribution."""
    yield from _lines(BAYES, sample, bayes(sample), how, _floor_of_bayes(sample, how))


@book_metric("a run", Elicited, needs=("readings",), compare=_compare(SWAPS, swaps), place=630)
def dutch_book_swaps_lines(sample: Elicited, how: Resampling) -> Iterator[Line]:
    """What surely is lost by betting at every reading of one belief, as in both orders of the options."""
    yield from _lines(SWAPS, sample, swaps(sample), how)


@book_metric("yes_<option> and reveal_<option> for each of two or more", Forks, compare=_compare(FORK, fork), place=640)
def dutch_book_fork_lines(sample: Forks, how: Resampling) -> Iterator[Line]:
    """What surely is lost by betting on each option that it is the chosen one. 0: the beliefs sum to one."""
    yield from _lines(FORK, sample, fork(sample), how)
