"""`doxascope activations`: look at, check, copy and pack the activations of a run."""

from collections import Counter
from pathlib import Path

import click
import yaml

from ...hooks.errors import UserError
from .echo import echo

STORE = click.argument("path", type=click.Path(path_type=Path))


@click.group()
def activations() -> None:
    """Look at, check, copy and pack stored activations; needs no model.

    PATH is a run, or the folder of a store.

    \b
    doxascope activations ls runs/consistency-smollm2-135m-1a2b3c4d
    """


@activations.command()
@STORE
def ls(path: Path) -> None:
    """Show what a store holds and under which conditions.

    \b
    doxascope activations ls runs/consistency-smollm2-135m-1a2b3c4d
    """
    from ...hooks.store import ActivationStore

    store = ActivationStore.open(path)
    header, rows = store.header, store.rows()
    megabytes = sum(part.path.stat().st_size for part in store.parts) / 1e6
    echo(f"{len(rows):,} rows of {len(store.commits)} batches in {len(store.parts)} parts, {megabytes:,.1f} MB")
    echo(f"{header.dtype} [{header.d_model}] at {', '.join(header.sites)}, layers {', '.join(map(str, header.layers))}")
    for position, n in Counter(rows["position"]).items():
        echo(f"  {position:<24}{n:>10,} rows")
    echo(yaml.safe_dump(header.conditions, sort_keys=False).rstrip())


@activations.command()
@STORE
def check(path: Path) -> None:
    """Read everything once, and name the rows that are lost.

    \b
    doxascope activations check runs/consistency-smollm2-135m-1a2b3c4d
    """
    from ...hooks.store import ActivationStore

    store = ActivationStore.open(path)
    damaged = set()
    for loss in store.check():
        echo(loss)
        damaged.add(loss.part)
    if damaged:
        raise UserError(
            f"{store.path}: {len(damaged)} of {len(store.parts)} parts damaged, the rest can be read; to have the lost "
            f"rows again, take the lines of their batches out of {store.header.commits} and repeat the run"
        )
    echo(f"{len(store.parts)} parts, all rows intact")


@activations.command()
@STORE
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--layer", "layers", type=int, multiple=True, help="Only this one; may be repeated.")
@click.option("--site", "sites", multiple=True, help="Only this one; may be repeated.")
@click.option("--position", help="Only rows at this one.")
def export(path: Path, out: Path, layers: tuple[int, ...], sites: tuple[str, ...], position: str | None) -> None:
    """Copy activations to OUT, a .npz or .safetensors file, and its rows beside it.

    \b
    doxascope activations export runs/consistency-smollm2-135m-1a2b3c4d layer12.safetensors --layer 12
    """
    from ...hooks.store import ActivationStore
    from ...hooks.store.export import export_store as write

    store = ActivationStore.open(path)
    points = [(site, layer) for site in sites or store.header.sites for layer in layers or store.header.layers]
    n, beside = write(store, out, points=points, position=position)
    echo(f"{n:,} rows of {len(points)} layers: {out}, {beside}")


@activations.command()
@STORE
def pack(path: Path) -> None:
    """Join small parts into larger ones, which are faster to read.

    \b
    doxascope activations pack runs/consistency-smollm2-135m-1a2b3c4d
    """
    from ...hooks.store.pack import pack_store as join

    before, after = join(path)
    echo(f"{before} parts before, {after} now")
