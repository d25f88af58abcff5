"""Which world a run is about: settings, the world that they name, and its contexts, evenly over the true chance."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from ....base.documents import read_csv, read_json, version_of
from ....base.errors import UserError, in_one_line, nearest
from ....base.settings import Settings
from .networks import NetworkWorld, load_bif, written_network
from .people import TableWorld, maximum_likelihood, table_world
from .world import Auxiliary, Context, Description, Evidence, TargetState, Variable, World, embedded, load_description

BINS = 20
MOST_STATES = 5
"""Of an auxiliary variable: each state is a context of its own."""


def drawn_contexts(
    world: World, n: int, *, reveal: tuple[int, int] = (1, 3), seed: int = 0, pool: int = 1000
) -> list[Context]:
    """`n` different contexts; more of them begin with the same ones. Each has a further variable that could be
    revealed, where there is one, for the law of iterated expectation.

    A pool is drawn as evidence happens: so many covariates, which of them, and their states, by the seed. It is then
    taken from in turns over bins of the true chance, each turn in an order of its own: contexts are spread as evenly
    as the pool allows.

    Args:
        reveal: fewest and most covariates.

    Raises UserError if the pool has fewer contexts, or there are fewer covariates.
    """
    names = world.description.observable
    lo, hi = reveal
    if not 0 < lo <= hi <= len(names):
        raise UserError(f"reveal: {lo} to {hi} covariates; there are {len(names)}")
    drawn = _pool(world, names, reveal, seed, pool)
    if len(drawn) < n:
        raise UserError(
            f"items: {n} contexts; only {len(drawn)} of {pool} that were drawn differ and are known well enough: lower "
            "items or support, or raise pool or reveal"
        )
    order = in_turns(np.array([chance for _, chance in drawn]), seed)
    prior = _known(world.chance({}))
    return [_context(world, i, *drawn[k], prior, seed) for i, k in enumerate(order[:n])]


def _pool(
    world: World, names: Sequence[str], reveal: tuple[int, int], seed: int, pool: int
) -> list[tuple[dict[str, str], float]]:
    seen: set[frozenset[tuple[str, str]]] = set()
    drawn = []
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
                drawn.append((evidence, chance))
    return drawn


def in_turns(chances: np.ndarray, seed: int) -> list[int]:
    """The numbers of contexts with chances [n], one of each of twenty bins in every turn, by the seed."""
    bins = np.minimum((chances * BINS).astype(int), BINS - 1)
    waiting = {int(place): list(np.flatnonzero(bins == place)) for place in np.unique(bins)}
    order: list[int] = []
    turn = 0
    while waiting:
        for place in np.random.default_rng([seed, turn, BINS]).permutation(sorted(waiting)):
            order.append(int(waiting[int(place)].pop(0)))
        waiting = {place: left for place, left in waiting.items() if left}
        turn += 1
    return order


def _context(
    world: World, number: int, evidence: dict[str, str], chance: float, prior: float | None, seed: int
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
        auxiliary=_auxiliary(world, number, evidence, seed),
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
        situations=[words.told(known) for known in with_each],
        shares=[_known(share) for share in shares],
        chances=[
            _known(world.chance(known)) if share > 0 else None for known, share in zip(with_each, shares, strict=True)
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
        premises: whether the network is told in `numbers` or in `words` of estimation.

    Raises UserError for a path without files, a file of another form, an answer outside [0, 1], or too few queries.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path}: holds no .json file of QUITE")
    contexts = [query for file in files for query in _queries(file, PREMISES[premises])]
    if len(contexts) < n:
        raise UserError(f"items: {n} contexts; {path} has {len(contexts)} queries, ask for fewer")
    return [contexts[i] for i in in_turns(np.array([context.p_star for context in contexts]), seed)[:n]]


def _queries(file: Path, premises: str) -> Iterator[Context]:
    with in_one_line(f"{file}: is no file of QUITE"):
        data = read_json(file)
        premise = " ".join(str(entry["content"]).strip() for entry in data[premises])
        pairs = [
            (
                entry["id"],
                [str(x).strip() for x in entry["evidences"]],
                str(entry["query"]).strip(),
                float(entry["answer"]),
            )
            for entry in data["evidence_query_pairs"]
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
            situation=" ".join([premise, *evidence]),
            nothing=premise,
            event=event,
            ask=f'The question is: "{query}" Will what it asks for {event}?',
            chance=query,
            p_star=answer,
            prior=None,
        )


BREAST_CANCER, QUITE = "breast-cancer", "quite"
SUPPORT = {BREAST_CANCER: 20}
"""Fewest rows of a stratum, where it is not the usual number."""
USUAL_SUPPORT = 100
BIF = (".bif", ".bif.gz")
CSV = (".csv", ".csv.gz")


class WorldSource(Settings):
    """A world."""

    of: str
    """An embedded world (asia, breast-cancer, brfss, echonext, ...), a .yaml file with words, or a .bif or .csv file,
    which then goes without: its names are its words."""
    data: str | None = None
    """The .bif or .csv file of a world that has its words elsewhere."""
    target: str | None = None
    """`variable=state`, of a file without words."""
    support: int | None = Field(default=None, ge=1)
    """Fewest rows of a stratum whose share counts as known; 100, of the small embedded table 20."""
    prevalence: float | None = Field(default=None, gt=0, lt=1)
    """Share of the target in the population, where the table was balanced."""
    graph: bool = False
    """Of a table whose words name parents: the truth is the network with these arrows, its tables of maximum
    likelihood, not the share of a stratum. Strata below support stay out."""

    premises: Literal["numbers", "words"] = "numbers"
    """Of `quite`: how the network is told."""

    @model_validator(mode="after")
    def _target_is_named(self) -> "WorldSource":
        if self.target is not None and "=" not in self.target:
            raise ValueError(f"target {self.target!r}: give variable=state")
        if self.of == QUITE and self.data is None:
            raise ValueError("of 'quite': name its folder, or a file of it, by data")
        return self

    @property
    def versions(self) -> tuple[int, ...]:
        """What changes whenever one of its files does."""
        return tuple(number for one in (self.of, self.data) if one for number in version_of(Path(one)))


def contexts(
    source: WorldSource, n: int, *, reveal: tuple[int, int] = (1, 3), seed: int = 0, pool: int = 1000
) -> list[Context]:
    """`n` contexts of the world that settings name. Raises UserError as `load_world` and `drawn_contexts` do."""
    if source.of == QUITE:
        assert source.data is not None  # the settings see to it
        return quite_contexts(Path(source.data), n, premises=source.premises, seed=seed)
    return drawn_contexts(load_world(source), n, reveal=reveal, seed=seed, pool=pool)


def load_world(source: WorldSource) -> World:
    """The world that settings name, loaded once. Raises UserError for files that are missing or wrong."""
    return _loaded(source.model_dump_json(), source.versions)


@lru_cache(maxsize=4)
def _loaded(settings: str, _: tuple[int, ...]) -> World:
    source = WorldSource.model_validate_json(settings)
    if source.of.endswith(BIF):
        return _bare_network(source)
    if source.of.endswith(CSV):
        return _bare_table(source)
    if not source.of.endswith((".yaml", ".yml")) and source.of not in embedded():
        raise UserError(
            f"world {source.of!r}: unknown; {nearest(source.of, embedded())}, or a .yaml, .bif or .csv file"
        )
    description = load_description(source.of)
    return _described(source, description)


def _described(source: WorldSource, description: Description) -> World:
    where = f"world {source.of}"
    if source.data is not None and source.data.endswith(BIF):
        return NetworkWorld(description, load_bif(Path(source.data)), where)
    if source.of == BREAST_CANCER:
        return _table(source, description, breast_cancer(), where)
    if source.data is not None:
        return _table(source, description, read_csv(Path(source.data)), where)
    if any(variable.table is not None for variable in description.variables.values()):
        return NetworkWorld(description, written_network(description, where), where)
    raise UserError(f"{where}: is in words alone; name its figures by world.data, a .csv or .bif file")


def _table(source: WorldSource, description: Description, table: Any, where: str) -> World:
    support = source.support or SUPPORT.get(source.of, USUAL_SUPPORT)
    world = table_world(description, table, support=support, prevalence=source.prevalence, where=where)
    return maximum_likelihood(world, where) if source.graph else world


def breast_cancer() -> Any:
    """The Wisconsin diagnostic table that scikit-learn ships: 569 tumours (W. H. Wolberg et al., 1995)."""
    from sklearn.datasets import load_breast_cancer

    loaded_set: Any = load_breast_cancer(as_frame=True)
    return loaded_set.data.assign(diagnosis=[str(loaded_set.target_names[i]) for i in loaded_set.target])


def _bare_network(source: WorldSource) -> NetworkWorld:
    where = f"world {source.of}"
    network = load_bif(Path(source.of))
    words = {name: _bare(name, list(states)) for name, states in network.states.items()}
    return NetworkWorld(_bare_description(source, words, where), network, where)


def _bare_table(source: WorldSource) -> TableWorld:
    where = f"world {source.of}"
    table = read_csv(Path(source.of))
    words = {}
    for name in table.columns:
        states = sorted({str(state).strip() for state in table[name].unique()} - {""})
        if 2 <= len(states) <= 20:
            words[str(name)] = _bare(str(name), states)
    if not words:
        raise UserError(f"{where}: has no categorical column (2 to 20 different values); describe it in a .yaml file")
    world = _table(source, _bare_description(source, words, where), table, where)
    assert isinstance(world, TableWorld)
    return world


def _bare(name: str, states: list[str]) -> Variable:
    return Variable(noun=name, states={state: f"has {name} = {state}" for state in states})


def _bare_description(source: WorldSource, words: dict[str, Variable], where: str) -> Description:
    if source.target is None:
        raise UserError(f"{where}: has no words, so name the target: world.target=variable=state")
    variable, _, state = source.target.partition("=")
    if variable not in words:
        raise UserError(f"{where}: target {variable!r} is no variable of few states; {nearest(variable, words)}")
    return Description(
        target=TargetState(variable=variable, state=state),
        event=f"have {variable} = {state}",
        situation="There is a case that {evidence}.",
        nothing="There is a case.",
        ask="Does it {event}?",
        chance="What is the probability that it will {event}?",
        variables=words,
    )
