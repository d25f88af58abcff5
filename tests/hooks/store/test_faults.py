"""What goes wrong on a disk costs what it touched, says so, and never becomes a number."""

import json
import logging
import os
import random
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import ActivationStore, UserError
from doxascope.base.files import digest_of
from doxascope.hooks.store import ActivationWriter, Header
from doxascope.hooks.store.commits import read_commits
from doxascope.hooks.store.writer import pack_store

KILLED = Path(__file__).with_name("killed.py")


def check_content(path: Path) -> int:
    """That every committed row is there once, with its bits; returns the number of batches."""
    batch = runpy.run_path(str(KILLED))["batch"]
    store = ActivationStore.open(path)
    rows = store.rows()
    assert not list(store.check())
    assert not rows.duplicated(["readout_id", "position"]).any()
    assert sorted(rows["token_index"].unique()) == sorted(store.commits)
    for place in (0, 7):
        read = store.read(layer=place)
        for number in store.commits:
            expected, residuals = batch(number)
            own = (read.rows["token_index"] == number).to_numpy(bool)
            assert read.rows["readout_id"][own].tolist() == expected["readout_id"].tolist()
            assert np.array_equal(read.values[own].view(np.uint32) >> 16, residuals["resid_post"][:, place])
    return len(store.commits)


def test_fifty_kills_lose_no_committed_row_and_leave_none_twice(tmp_path: Path) -> None:
    path = tmp_path / "store"
    done = subprocess.run([sys.executable, KILLED, path, "kill"], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 0, "no kill hit a write"
    n = check_content(path)
    assert n > 0
    subprocess.run([sys.executable, KILLED, path, "write", str(n + 2)], check=True)
    assert check_content(path) == n + 2
    assert not list(path.glob(".writing-*"))


def test_a_reader_sees_whole_batches_while_a_writer_commits(tmp_path: Path) -> None:
    path = tmp_path / "store"
    writer = subprocess.Popen([sys.executable, KILLED, path, "write", "60"])
    seen = set()
    while writer.poll() is None:
        if (path / "store.json").exists():
            store = ActivationStore.open(path)
            rows = store.read(layer=7).rows
            assert len(rows) == 50 * len(store.commits)
            seen.add(len(store.commits))
    assert writer.returncode == 0
    assert len(seen) > 2
    assert check_content(path) == 60


def test_a_store_that_cannot_be_written_is_read_and_left_as_it_is(store: Path) -> None:
    def state() -> list[tuple[str, int]]:
        return [(file.name, file.stat().st_mtime_ns) for file in sorted(store.iterdir())]

    for file in store.iterdir():
        file.chmod(0o444)
    store.chmod(0o555)
    before = state()
    opened = ActivationStore.open(store)
    assert len(opened.read(layer=0).rows) == 120
    assert not list(opened.check())
    assert state() == before
    store.chmod(0o755)


@pytest.mark.parametrize("left", [0, 10, 0.5, 0.999])
def test_a_truncated_part_costs_its_rows_alone(
    store: Path, caplog: pytest.LogCaptureFixture, left: float, make_batch: Callable[..., Any]
) -> None:
    part = store / "part-00001.h5"
    os.truncate(part, int(left * part.stat().st_size) if left < 1 else int(left))
    opened = ActivationStore.open(store)
    with caplog.at_level(logging.WARNING):
        rows, values = opened.read(layer=3)
    assert set(rows["readout_id"].str[:2]) == {"t0", "t2"}
    assert np.array_equal(values[40:], make_batch(2)[1]["resid_post"][:, 1])
    (message,) = caplog.messages
    assert "part-00001.h5: 40 rows, read-outs t1/é0 to t1/é19, are lost in all layers" in message
    assert [str(loss) in message for loss in opened.check()] == [True]


def test_a_missing_part_is_told(store: Path) -> None:
    (store / "part-00000.h5").unlink()
    (loss,) = ActivationStore.open(store).check()
    assert str(loss) == "part-00000.h5: 40 rows, read-outs t0/é0 to t0/é19, are lost in all layers (it is missing)"


def test_a_part_of_another_store_is_told(store: Path, tmp_path: Path, header: Header, make_batch: Any) -> None:
    other = header.model_copy(update={"conditions": {"model": "b"}})
    with ActivationWriter.open(tmp_path / "other", other) as writer:
        writer.add(0, *make_batch(0))
    (tmp_path / "other/part-00000.h5").replace(store / "part-00000.h5")
    (loss,) = ActivationStore.open(store).check()
    assert loss.reason == "it belongs to another store"


def test_one_wrong_chunk_costs_its_rows_of_its_layer(tmp_path: Path, header: Header, make_batch: Any) -> None:
    wide = header.model_copy(update={"d_model": 1024, "sites": ("resid_post",)})  # 64 rows to a chunk
    rows, _ = make_batch(0, 100)
    values = np.random.default_rng(0).standard_normal((200, 3, 1024)).astype("f4")
    path = tmp_path / "store"
    with ActivationWriter.open(path, wide) as writer:
        writer.add(0, rows, {"resid_post": values})
    part = path / "part-00000.h5"
    content = bytearray(part.read_bytes())
    content[content.index(values[70, 1].tobytes()) + 9] ^= 4
    part.write_bytes(content)
    opened = ActivationStore.open(path)
    (loss,) = opened.check()
    assert str(loss) == (
        "part-00000.h5: 64 rows, read-outs t0/é32 to t0/é63, are lost in resid_post 3 (its checksum is wrong)"
    )
    read = opened.read(layer=3)
    assert np.array_equal(read.values, np.delete(values[:, 1], np.s_[64:128], axis=0))
    assert read.rows["token_index"].tolist() == np.delete(rows["token_index"], np.s_[64:128]).tolist()
    assert np.array_equal(opened.read(layer=0).values, values[:, 0])
    assert pack_store(path) == (1, 1)


def test_no_flipped_bit_becomes_a_number(store: Path) -> None:
    part = store / "part-00001.h5"
    truth = ActivationStore.open(store)
    rows, values = truth.read(layer=3)
    content = part.read_bytes()
    draw = random.Random(0)
    for _ in range(40):
        flipped = bytearray(content)
        flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
        part.write_bytes(flipped)
        read = ActivationStore.open(store).read(layer=3)
        kept = read.rows["ids_hash"].map({hashed: i for i, hashed in enumerate(rows["ids_hash"])}).to_numpy(int)
        assert read.rows.equals(rows.iloc[kept].reset_index(drop=True))
        assert np.array_equal(read.values, values[kept])
        assert list(ActivationStore.open(store).check()), "a flipped bit went unnoticed"


FULL = """
import resource, sys
from pathlib import Path
from runpy import run_path
from doxascope import UserError
from doxascope.hooks.store import ActivationWriter
killed = run_path(sys.argv[1])
with ActivationWriter.open(Path(sys.argv[2]), killed["HEADER"]) as store:
    store.add(0, *killed["batch"](0))
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(file.stat().st_size for file in store.path.iterdir())
    for limit in (10, size // 10, size // 2, size - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
        try:
            store.add(1, *killed["batch"](1))
        except UserError as error:
            print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    store.add(1, *killed["batch"](1))
"""


def test_a_full_disk_is_one_line_and_costs_nothing_that_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    done = subprocess.run([sys.executable, "-c", FULL, KILLED, path], capture_output=True, text=True, check=True)
    line = f"{path}: batch 1 cannot be written (File too large); what is committed is kept, the same command goes on"
    assert [told.startswith(line) for told in done.stdout.splitlines()] == [True] * 4
    assert done.stderr == ""
    assert check_content(path) == 2


def test_a_commit_line_that_was_cut_off_does_not_spoil_the_next(store: Path, header: Header, make_batch: Any) -> None:
    with (store / "commits.jsonl").open("ab") as file:
        file.write(b'{"batch": 3, "activ')
    assert set(ActivationStore.open(store).commits) == {0, 1, 2}
    with ActivationWriter.open(store, header) as writer:
        writer.add(3, *make_batch(3))
    assert set(ActivationStore.open(store).commits) == {0, 1, 2, 3}
    assert all(json.loads(line) for line in (store / "commits.jsonl").read_text().splitlines())


def test_a_damaged_commit_line_is_named(store: Path) -> None:
    commits = store / "commits.jsonl"
    commits.write_text(commits.read_text().replace('{"batch": 1', '{"batch', 1))
    with pytest.raises(UserError, match=r"commits\.jsonl: line 2 is damaged; .* --restore"):
        ActivationStore.open(store)


def test_lines_of_an_older_store_which_name_those_before_them_are_read(
    store: Path, header: Header, make_batch: Any
) -> None:
    commits, before = store / "commits.jsonl", ""
    lines = []
    for line in commits.read_text().splitlines():
        text = json.dumps(
            {key: value for key, value in json.loads(line).items() if key != "digest"} | {"before": before}
        )
        before = digest_of(text.encode())
        lines.append(f'{text[:-1]}, "digest": "{before}"}}\n')
    commits.write_text("".join(lines))
    with ActivationWriter.open(store, header) as writer:
        writer.add(3, *make_batch(3))
    assert set(ActivationStore.open(store).commits) == {0, 1, 2, 3}
    assert set(read_commits(commits, {commits.name: before})) == {0, 1, 2}
    commits.write_text("".join([lines[0], lines[2]]))
    with pytest.raises(UserError, match="line 2 does not follow the one before it: lines are missing"):
        ActivationStore.open(store)
    commits.write_text(lines[0] * 2)
    with pytest.raises(UserError, match="line 2 is damaged"):
        ActivationStore.open(store)


def test_a_part_without_its_commit_line_is_ignored_and_replaced(store: Path, header: Header, make_batch: Any) -> None:
    with ActivationWriter.open(store, header) as writer:
        writer.write(3, *make_batch(9))
    assert len(ActivationStore.open(store).rows()) == 120
    with ActivationWriter.open(store, header) as writer:
        writer.add(3, *make_batch(3))
    rows = ActivationStore.open(store).rows()
    assert set(rows["readout_id"].str[:2]) == {"t0", "t1", "t2", "t3"}


def test_lost_batches_can_be_captured_again(store: Path, header: Header, make_batch: Any) -> None:
    pack_store(store)
    (damaged,) = store.glob("*.h5")
    os.truncate(damaged, 1000)
    lines = (store / "commits.jsonl").read_text().splitlines(keepends=True)
    (store / "commits.jsonl").write_text("".join(lines[:2]))
    with (
        ActivationWriter.open(store, header) as writer,
        pytest.raises(UserError, match=r"and others that are committed .* batches 0 to 2 out"),
    ):
        writer.add(2, *make_batch(2))
    (store / "commits.jsonl").write_text("")
    with ActivationWriter.open(store, header) as writer:
        for number in range(3):
            writer.add(number, *make_batch(number))
    again = ActivationStore.open(store)
    assert not list(again.check())
    assert len(again.rows()) == 120
