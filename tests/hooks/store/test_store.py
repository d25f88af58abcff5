"""What is read is what was written, in every bit, however it is cut."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest

from doxascope import ActivationStore, UserError
from doxascope.hooks.store import ActivationWriter, Header, store_header
from doxascope.hooks.store.commits import append_commit
from doxascope.hooks.store.writer import pack_store

Batch = Callable[..., tuple[pd.DataFrame, dict[str, Any]]]


def test_every_layer_comes_back_with_its_rows(store: Path, make_batch: Batch) -> None:
    written = [make_batch(number) for number in range(3)]
    rows = pd.concat([rows for rows, _ in written], ignore_index=True)
    opened = ActivationStore.open(store)
    for site in ("resid_pre", "resid_post"):
        for place, layer in enumerate((0, 3, 7)):
            read = opened.read(layer=layer, site=site)
            pd.testing.assert_frame_equal(read.rows, rows)
            assert np.array_equal(read.values, np.concatenate([residuals[site][:, place] for _, residuals in written]))
    pd.testing.assert_frame_equal(opened.rows(), rows)
    assert not list(opened.check())


def test_a_part_of_the_rows_is_that_part_of_the_whole(store: Path) -> None:
    opened = ActivationStore.open(store)
    rows, values = opened.read(layer=3)
    last = opened.read(layer=3, position="last", where=lambda some: some["readout_id"].str.startswith("t1"))
    chosen = ((rows["position"] == "last") & rows["readout_id"].str.startswith("t1")).to_numpy(bool)
    assert chosen.sum() == 20
    assert np.array_equal(last.values, values[chosen])
    assert last.rows["token_index"].tolist() == rows["token_index"][chosen].tolist()
    assert opened.rows(position="last").equals(rows[rows["position"] == "last"].reset_index(drop=True))


@pytest.mark.parametrize("size", [1, 7, 40, 1000])
def test_batches_are_the_whole_in_pieces(store: Path, size: int) -> None:
    opened = ActivationStore.open(store)
    rows, values = opened.read(layer=7)
    pieces = list(opened.batches(size, layer=7))
    assert max(len(piece.rows) for piece in pieces) <= size
    assert all(len(piece.rows) == len(piece.values) for piece in pieces)
    assert np.array_equal(np.concatenate([piece.values for piece in pieces]), values)
    assert pd.concat([piece.rows for piece in pieces], ignore_index=True).equals(rows)


def test_every_bit_pattern_of_bfloat16_survives(tmp_path: Path, header: Header) -> None:
    import torch

    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).reshape(64, 2, 512)
    tensor = bits.view(torch.bfloat16)
    rows = pd.DataFrame(
        {
            "readout_id": [f"r{i}" for i in range(64)],
            "position": "last",
            "token_index": 1,
            "ids_hash": [str(i) for i in range(64)],
        }
    )
    half = header.model_copy(update={"dtype": "bfloat16", "d_model": 512, "layers": (0, 1), "sites": ("resid_post",)})
    with ActivationWriter.open(tmp_path / "store", half) as writer:
        writer.add(0, rows, {"resid_post": tensor})
    for layer in (0, 1):
        with h5py.File(tmp_path / "store/part-00000.h5") as file:
            stored = np.asarray(file[f"residuals/resid_post/{layer}"])
            assert file["residuals"].attrs["dtype"] == b"bfloat16"
        assert np.array_equal(stored, bits[:, layer].numpy().view(np.uint16))
        read = ActivationStore.open(tmp_path / "store").read(layer=layer).values
        assert np.array_equal(read.view(np.uint32) >> 16, stored)
        assert np.array_equal(read, tensor[:, layer].float().numpy(), equal_nan=True)


def test_readouts_that_share_a_context_share_its_vector(tmp_path: Path, header: Header, make_batch: Batch) -> None:
    rows, residuals = make_batch(0)
    shared = rows.assign(token_index=3, ids_hash="system prompt", position=["system", "last"] * 20)
    residuals = {site: np.repeat(values[:1], len(rows), axis=0) for site, values in residuals.items()}
    odd = residuals["resid_pre"][8, 2].view(np.uint32)
    odd[5] ^= 1  # the same context, but one bit of one layer: not the same vector
    with ActivationWriter.open(tmp_path / "store", header) as writer:
        writer.add(0, shared, residuals)
    with h5py.File(tmp_path / "store/part-00000.h5") as file:
        assert np.asarray(file["residuals/resid_pre/0"]).shape == (3, 16)
    opened = ActivationStore.open(tmp_path / "store")
    for site, values in residuals.items():
        for place, layer in enumerate(header.layers):
            assert np.array_equal(opened.read(layer=layer, site=site).values, values[:, place])


def test_a_part_says_what_it_is(store: Path, header: Header) -> None:
    with h5py.File(store / "part-00001.h5") as file:
        assert Header.model_validate_json(file.attrs["header"]) == header  # pyright: ignore[reportArgumentType]


def test_the_same_batches_give_the_same_bytes(store: Path, tmp_path: Path, header: Header, make_batch: Batch) -> None:
    with ActivationWriter.open(tmp_path / "again", header) as writer:
        for number in (2, 0, 1):
            writer.add(number, *make_batch(number))
    for name in ("store.json", "part-00000.h5", "part-00001.h5", "part-00002.h5"):
        assert (tmp_path / "again" / name).read_bytes() == (store / name).read_bytes()


def test_a_packed_store_reads_the_same(store: Path, header: Header, make_batch: Batch) -> None:
    before = ActivationStore.open(store)
    size = (store / "part-00000.h5").stat().st_size
    assert pack_store(store, 2 * size) == (3, 2)
    assert sorted(path.name for path in store.glob("*.h5")) == ["part-00000-00001.h5", "part-00002.h5"]
    with ActivationWriter.open(store, header) as writer:
        writer.add(3, *make_batch(3))
        with pytest.raises(UserError, match="another process is writing"):
            pack_store(store)
    assert pack_store(store) == (3, 1)
    after = ActivationStore.open(store)
    assert not list(after.check())
    for number in range(4):
        rows, residuals = make_batch(number)
        read = after.read(layer=3, where=lambda some, n=number: some["readout_id"].str.startswith(f"t{n}/"))
        assert np.array_equal(read.values, residuals["resid_post"][:, 1])
        assert read.rows["readout_id"].tolist() == rows["readout_id"].tolist()
    assert all("open the store again" in loss.reason for loss in before.check())
    assert sum(loss.rows or 0 for loss in before.check()) == 120


def test_a_joined_part_counts_instead_of_those_that_a_kill_left(store: Path) -> None:
    parts = {path.name: path.read_bytes() for path in store.glob("*.h5")}
    pack_store(store)
    for name, content in parts.items():
        (store / name).write_bytes(content)
    rows = ActivationStore.open(store).rows()
    assert len(rows) == 120
    assert not rows.duplicated(["readout_id", "position"]).any()
    pack_store(store)
    assert [path.name for path in store.glob("*.h5")] == ["part-00000-00002.h5"]


def test_residuals_of_a_model_as_it_hands_them_on(tiny: Any, tmp_path: Path) -> None:
    beliefs, residuals = tiny.beliefs(["which?", "what?"], options=["apple", "stone"], capture="last")
    rows = pd.DataFrame(
        {
            "readout_id": beliefs["readout_id"].unique(),
            "position": "last",
            "token_index": [9, 9],
            "ids_hash": ["a", "b"],
        }
    )
    run = tmp_path / "run"
    run.mkdir()
    header = store_header(tiny.identity, sites=["resid_post"], layers=range(3), commits="../commits.jsonl")
    assert header.conditions["model"]["weights"] == tiny.identity.weights
    assert {"doxascope", "torch", "transformers"} <= set(header.conditions["versions"])
    with ActivationWriter.open(run / "activations", header) as writer:
        note = writer.write(0, rows, {"resid_post": residuals})
        assert ActivationStore.open(run).rows().empty  # written, not yet committed
        with pytest.raises(ValueError, match="committed by its run"):
            writer.add(1, rows, {"resid_post": residuals})
    append_commit(run / "commits.jsonl", 0, {"readouts": 2, "activations": note})
    assert (note["rows"], note["first"], note["last"]) == (2, rows["readout_id"][0], rows["readout_id"][1])
    for layer in range(3):
        assert np.array_equal(ActivationStore.open(run).read(layer=layer).values, residuals[:, layer])


def test_an_empty_batch_counts_and_has_no_part(tmp_path: Path, header: Header, make_batch: Batch) -> None:
    with ActivationWriter.open(tmp_path / "store", header) as writer:
        writer.add(0, make_batch(0)[0][:0], {})
    opened = ActivationStore.open(tmp_path / "store")
    assert set(opened.commits) == {0}
    assert opened.read(layer=0).values.shape == (0, 16)
    assert not list(opened.check())
