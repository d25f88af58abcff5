"""Contexts of a world, evenly over the true chance of its target, and those of QUITE (Schrader et al., EMNLP 2024)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ....base.documents import read_json
from ....base.errors import UserError, in_one_line
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


# QUITE: networks, evidence and queries in words, each with its exact answer (Schrader et al., EMNLP 2024).

NO_ANSWER = -1
"""Of a query whose evidence cannot happen; it is left out."""
PREMISES = {"numbers": "numeric_premises", "words": "wep_based_premises"}


def quite_contexts(path: Path, n: int, *, premises: str = "numbers", seed: int = 0) -> list[Context]:
    """`n` queries, evenly over their answers; more of them begin with the same ones.

    Args:
        path: a file of the data, or the folder that holds some.
        n: how many.
        premises: whether the network is told in `numbers` or in `words` of estimation.
        seed: of their order.

    Raises UserError for a path without files, a file of another form, an answer outside [0, 1], or too few queries.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path}: holds no .json file of QUITE")
    found = [query for file in files for query in _queries(file, PREMISES[premises])]
    if len(found) < n:
        raise UserError(f"items: {n} contexts; {path} has {len(found)} queries, ask for fewer")
    return [found[i] for i in in_turns(np.array([one.p_star for one in found]), seed)[:n]]


def _queries(file: Path, premises: str) -> Iterator[Context]:
    with in_one_line(f"{file}: is no file of QUITE"):
        data = read_json(file)
        told = " ".join(str(one["content"]).strip() for one in data[premises])
        pairs = [
            (one["id"], [str(x).strip() for x in one["evidences"]], str(one["query"]).strip(), float(one["answer"]))
            for one in data["evidence_query_pairs"]
        ]
    for number, evidence, query, answer in pairs:
        if answer == NO_ANSWER:
            continue
        if not 0 <= answer <= 1:
            raise UserError(f"{file}: query {number} has the answer {answer}; give a number in [0, 1]")
        event = "turn out to be so"
        yield Context(
            name=f"{file.stem}-{number}",
            evidence={},
            situation=" ".join([told, *evidence]),
            nothing=told,
            event=event,
            ask=f'The question is: "{query}" Will what it asks for {event}?',
            chance=query,
            p_star=answer,
            prior=None,
        )
