"""Copies of a store for other tools: one npz or safetensors file, and its rows beside it. Nothing is held whole."""

import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ..errors import UserError
from ..files import atomic_write
from .reader import READ_ROWS, ActivationStore, StoredPoint


def export_store(
    store: ActivationStore, path: Path, *, points: Sequence[StoredPoint], position: str | None = None
) -> tuple[int, Path]:
    """Write `path`, and its rows beside it; returns how many there are and where.

    Args:
        store: to copy from.
        path: ends in `.npz` or `.safetensors`. Holds float32 `<site>.<layer>` [rows, width], exact whatever the
            dtype of the store, and its header as JSON (npz: the array `header`; safetensors: the metadata).
        points: sites and layers to copy.
        position: only rows at it.

    A row that is damaged at one of the points is left out of all. Raises UserError if the name ends otherwise, if
    there are no rows, or if the file cannot be written.
    """
    writers = {".npz": _write_npz, ".safetensors": _write_safetensors}
    if path.suffix not in writers:
        raise UserError(f"{path}: must end in {' or '.join(writers)}")
    rows = store.rows(position=position, points=points)
    if rows.empty:
        raise UserError(f"{store.path}: holds no rows to export")
    beside = path.with_suffix(".rows.parquet")
    try:
        with atomic_write(path) as temporary:
            writers[path.suffix](temporary, store, points, rows)
        with atomic_write(beside) as temporary:
            rows.to_parquet(temporary, index=False)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from error
    return len(rows), beside


def _stream(store: ActivationStore, point: StoredPoint, rows: pd.DataFrame) -> Iterator[bytes]:
    """The values of these rows at a point, in their order."""
    keys = ["readout_id", "position"]
    wanted = pd.MultiIndex.from_frame(rows[keys])
    site, layer = point

    def where(some: pd.DataFrame) -> "pd.Series[bool]":
        return pd.Series(pd.MultiIndex.from_frame(some[keys]).isin(wanted), some.index)

    for some in store.batches(READ_ROWS, layer=layer, site=site, where=where):
        yield some.values.astype("<f4", copy=False).tobytes()


def _write_npz(path: Path, store: ActivationStore, points: Sequence[StoredPoint], rows: pd.DataFrame) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("header.npy", "w") as member:
            np.lib.format.write_array(member, np.array(store.header.model_dump_json()))
        for site, layer in points:
            with archive.open(f"{site}.{layer}.npy", "w", force_zip64=True) as member:
                shape = (len(rows), store.header.width(site))
                layout = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, layout)
                for data in _stream(store, (site, layer), rows):
                    member.write(data)


def _write_safetensors(path: Path, store: ActivationStore, points: Sequence[StoredPoint], rows: pd.DataFrame) -> None:
    header: dict[str, object] = {"__metadata__": {"header": store.header.model_dump_json()}}
    end = 0
    for site, layer in points:
        shape = [len(rows), store.header.width(site)]
        begin, end = end, end + 4 * shape[0] * shape[1]
        header[f"{site}.{layer}"] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the data begin at a multiple of eight bytes
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for point in points:
            file.writelines(_stream(store, point, rows))
