"""Contexts of a world, evenly over the true chance of its target."""

from collections.abc import Sequence

import numpy as np

from ....hooks.errors import UserError
from .world import Auxiliary, Context, Evidence, World

BINS = 20
MOST_STATES = 5
"""Of an auxiliary variable: each state is a context of its own."""


def drawn_contexts(
    world: World, n: int, *, reveal: tuple[int, int] = (1, 3), seed: int = 0, pool: int = 1000, auxiliary: bool = True
) -> list[Context]:
    """`n` different contexts; more of them begin with the same ones.

    A pool is drawn as evidence happens: so many covariates, which of them, and their states, by the seed. It is then
    taken from in turns over bins of the true chance, each turn in an order of its own: contexts are spread as evenly
    as the pool allows.

    Args:
        world: what they are of.
        n: how many.
        reveal: fewest and most covariates.
        seed: of everything that is drawn.
        pool: how many are drawn to choose from.
        auxiliary: whether each has a further variable that could be revealed, for the law of iterated expectation.

    Raises UserError if the pool has fewer contexts, or there are fewer covariates.
    """
    names = world.description.observable
    lo, hi = reveal
    if not 0 < lo <= hi <= len(names):
        raise UserError(f"reveal: {lo} to {hi} covariates; there are {len(names)}")
    found = _pool(world, names, reveal, seed, pool)
    if len(found) < n:
        raise UserError(
            f"items: {n} contexts; only {len(found)} of {pool} that were drawn differ and are known well enough: lower "
            "items or support, or raise pool or reveal"
        )
    order = in_turns(np.array([chance for _, chance in found]), seed)
    prior = _known(world.chance({}))
    return [_context(world, i, *found[k], prior, seed if auxiliary else None) for i, k in enumerate(order[:n])]


def _pool(
    world: World, names: Sequence[str], reveal: tuple[int, int], seed: int, pool: int
) -> list[tuple[dict[str, str], float]]:
    seen: set[frozenset[tuple[str, str]]] = set()
    found = []
    for i in range(pool):
        rng = np.random.default_rng([seed, i])
        state = world.draw(rng)
        known = [name for name in names if name in state]
        size = int(rng.integers(reveal[0], reveal[1] + 1))
        some = rng.choice(known, size=min(size, len(known)), replace=False)
        evidence = {str(name): state[name] for name in sorted(some, key=names.index)}
        key = frozenset(evidence.items())
        if len(evidence) == size and key not in seen:
            seen.add(key)
            chance = world.chance(evidence)
            if np.isfinite(chance):
                found.append((evidence, chance))
    return found


def in_turns(chances: np.ndarray, seed: int) -> list[int]:
    """The numbers of contexts with chances [n], one of each of twenty bins in every turn, by the seed."""
    bins = np.minimum((chances * BINS).astype(int), BINS - 1)
    waiting = {int(one): list(np.flatnonzero(bins == one)) for one in np.unique(bins)}
    order: list[int] = []
    turn = 0
    while waiting:
        for one in np.random.default_rng([seed, turn, BINS]).permutation(sorted(waiting)):
            order.append(int(waiting[int(one)].pop(0)))
        waiting = {one: left for one, left in waiting.items() if left}
        turn += 1
    return order


def _context(
    world: World, number: int, evidence: dict[str, str], chance: float, prior: float | None, seed: int | None
) -> Context:
    words = world.description
    name = f"x{number:04}"
    return Context(
        name=name,
        evidence=evidence,
        situation=words.told(evidence),
        nothing=words.nothing,
        event=words.event,
        ask=words.ask.format(event=words.event),
        chance=words.chance.format(event=words.event),
        p_star=chance,
        prior=prior,
        auxiliary=None if seed is None else _auxiliary(world, number, evidence, seed),
    )


def _auxiliary(world: World, number: int, evidence: Evidence, seed: int) -> Auxiliary | None:
    """A covariate that is not revealed, by the seed; None if there is none."""
    words = world.description
    free = [
        name for name in words.observable if name not in evidence and len(words.variables[name].states) <= MOST_STATES
    ]
    if not free:
        return None
    name = free[int(np.random.default_rng([seed, number, 1]).integers(len(free)))]
    variable = words.variables[name]
    with_each = [{**evidence, name: state} for state in variable.states]
    shares = world.shares(name, evidence)
    return Auxiliary(
        variable=name,
        noun=variable.noun,
        labels=[variable.label(state) for state in variable.states],
        situations=[words.told(one) for one in with_each],
        shares=[_known(share) for share in shares],
        chances=[
            _known(world.chance(one)) if share > 0 else None for one, share in zip(with_each, shares, strict=True)
        ],
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
