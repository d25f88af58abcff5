"""When did it know? How many tokens before the belief that is asked for settles does the one that is read in
passing?

A probe that always says yes has settled on every yes from the start. What counts is therefore the lead above that of
probe beliefs that were taken from other trajectories.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...metrics.contract import NAN, RESAMPLING, Floats, Resampling, Score, floats
from ...metrics.inference.means import cluster_mean


class TokenLead(Score, headline="tokens"):
    """Of passive beliefs along trajectories."""

    tokens: float = NAN
    """Mean lead over trajectories, in tokens; positive: the passive belief settles first. One that never settles is
    counted as if it did at the last step: its lead is no larger than that."""
    by_chance: float = NAN
    """Mean lead of passive beliefs of other questions, along trajectories of the same length."""
    n_never: int = 0
    """Trajectories on which the passive belief never settles on the side that the other ends on."""


def settling_point(belief: Floats, token: Floats, yes: bool) -> float:
    """The token from which on a belief [T] stays on one side of one half; NaN if it does not end there."""
    right = belief > 0.5 if yes else belief < 0.5
    wrong = np.flatnonzero(~right)
    first = int(wrong[-1]) + 1 if len(wrong) else 0
    return float(token[first]) if first < len(belief) else NAN


def lead_in_tokens(
    passive: ArrayLike,
    asked: ArrayLike,
    token: ArrayLike,
    step: ArrayLike,
    chain: ArrayLike,
    groups: ArrayLike,
    *,
    how: Resampling = RESAMPLING,
) -> TokenLead:
    """How much earlier passive beliefs settle than those that are asked for.

    Args:
        passive: [n] beliefs of a probe, at the end of a step, nothing appended.
        asked: [n] the exact or stated beliefs there.
        token: [n] index of the token at which the step ends.
        step: [n] number of the step, by which a trajectory is ordered.
        chain: [n] the trajectory.
        groups: [n] the question, unit of the interval.
        how: the permutations, 199 unless it says otherwise, by which questions exchange all that is read in passing
            along their trajectories, and the level of the interval.

    Trajectories of one step, with a hole, or whose asked belief ends on one half are dropped and counted. A question
    whose trajectories are as long as those of no other keeps its own: where none has another there is no p.
    """
    how = how.drawing(199)
    labels, codes = np.unique(np.asarray(chain).astype(str), return_inverse=True)
    columns = [floats(column) for column in (passive, asked, token, step)]
    of_group = np.asarray(groups)
    chains: list[tuple[Floats, Floats, Floats]] = []
    owners = []
    for code in range(len(labels)):
        rows = np.flatnonzero(codes == code)
        rows = rows[np.argsort(columns[3][rows], kind="stable")]
        columns_of = tuple(column[rows] for column in columns[:3])
        if len(rows) > 1 and np.isfinite(np.stack(columns_of)).all() and columns_of[1][-1] != 0.5:
            chains.append((columns_of[0], columns_of[1], columns_of[2]))
            owners.append(of_group[rows[0]])
    counts: dict[str, Any] = {
        "n_dropped": len(labels) - len(chains),
        "reasons": {"too short or undefined": len(labels) - len(chains)},
    }
    counts = counts if counts["n_dropped"] else {}
    if not chains:
        return TokenLead(status="too_few", **counts)
    leads = _leads(chains, np.arange(len(chains)))
    mean = cluster_mean(leads, np.asarray(owners), how=replace(how, draws=None))
    rng = np.random.default_rng(how.seed)
    sizes = np.array([len(each[0]) for each in chains])
    blocks = _alike(sizes, np.asarray(owners))
    if all(len(block) == 1 for block in blocks):  # nobody to exchange with: nothing is tested
        return TokenLead(tokens=mean.mean, n_rows=mean.n_rows, n_clusters=mean.n_clusters, status="too_few", **counts)
    null = np.array([_leads(chains, _moved(blocks, rng)).mean() for _ in range(how.n_draws)])
    return TokenLead(
        tokens=mean.mean,
        by_chance=float(null.mean()),
        n_never=sum(np.isnan(settling_point(each[0], each[2], bool(each[1][-1] > 0.5))) for each in chains),
        p=float((1 + (null >= mean.mean - 1e-12).sum()) / (1 + how.n_draws)),
        p_method=f"passive beliefs exchanged between questions of as long trajectories, {how.n_draws} permutations",
        n_rows=mean.n_rows,
        n_clusters=mean.n_clusters,
        status=mean.status,
        **mean.interval(draws=how.n_draws),
        **counts,
    )


def _leads(chains: list[tuple[Floats, Floats, Floats]], source: NDArray[np.intp]) -> Floats:
    """[chains] leads, the passive beliefs taken from the trajectories `source`."""
    leads = []
    for (_, asked, token), other in zip(chains, source, strict=True):
        yes = bool(asked[-1] > 0.5)
        passive = settling_point(chains[other][0], token, yes)
        leads.append(settling_point(asked, token, yes) - (token[-1] if np.isnan(passive) else passive))
    return np.array(leads)


def _moved(blocks: Sequence[NDArray[np.intp]], rng: np.random.Generator) -> NDArray[np.intp]:
    """[chains] another trajectory of the same length for each: questions are exchanged whole, since what is read along
    the trajectories of one question is alike. In a block [questions, trajectories] these have the same lengths.
    """
    source = np.empty(sum(block.size for block in blocks), dtype=np.intp)
    for block in blocks:
        source[block] = block[rng.permutation(len(block))]
    return source


def _alike(sizes: NDArray[np.int64], owners: NDArray[Any]) -> list[NDArray[np.intp]]:
    """[questions, trajectories] of the questions whose trajectories have the same lengths, shortest first."""
    alike: dict[tuple[int, ...], list[NDArray[np.intp]]] = {}
    codes = np.unique(owners, return_inverse=True)[1]
    for code in range(int(codes.max()) + 1):
        rows = np.flatnonzero(codes == code)
        rows = rows[np.argsort(sizes[rows], kind="stable")]
        alike.setdefault(tuple(sizes[rows].tolist()), []).append(rows)
    return [np.array(block) for block in alike.values()]
