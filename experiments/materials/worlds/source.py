"""Which world a run is about: settings, and the world that they name."""

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from ....base.documents import read_csv, version_of
from ....base.errors import UserError, nearest
from ....base.settings import Settings
from .contexts import drawn_contexts, quite_contexts
from .networks import NetworkWorld, load_bif, written_network
from .people import TableWorld, maximum_likelihood, table_world
from .world import Context, Description, TargetState, Variable, World, embedded, load_description

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

    found: Any = load_breast_cancer(as_frame=True)
    return found.data.assign(diagnosis=[str(found.target_names[i]) for i in found.target])


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
        states = sorted({str(one).strip() for one in table[name].unique()} - {""})
        if 2 <= len(states) <= 20:
            words[str(name)] = _bare(str(name), states)
    if not words:
        raise UserError(f"{where}: has no categorical column (2 to 20 different values); describe it in a .yaml file")
    found = _table(source, _bare_description(source, words, where), table, where)
    assert isinstance(found, TableWorld)
    return found


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
