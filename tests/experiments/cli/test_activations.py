"""`doxascope activations` as a user meets it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import load_file

from doxascope import ActivationStore, UserError
from doxascope.experiments.cli.main import cli
from doxascope.hooks.store import ActivationWriter, Header
from doxascope.hooks.store.commits import append_commit


def activations(*args: object) -> Result:
    return CliRunner().invoke(cli, ["activations", *map(str, args)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with two committed batches of six rows, in bfloat16."""
    header = Header(
        commits="../commits.jsonl",
        sites=("resid_post",),
        layers=(4, 8),
        d_model=8,
        dtype="bfloat16",
        conditions={"model": {"name": "a"}},
    )
    with ActivationWriter.open(tmp_path / "run/activations", header) as writer:
        for number in range(2):
            rows = pd.DataFrame(
                {
                    "readout_id": [f"t{number}/{i // 2}" for i in range(6)],
                    "position": ["question", "last"] * 3,
                    "token_index": range(6),
                    "ids_hash": [f"{number}{i}" for i in range(6)],
                }
            )
            bits = np.random.default_rng(number).integers(0, 2**14, (6, 2, 8)).astype(np.uint16)
            note = writer.write(number, rows, {"resid_post": bits})
            append_commit(tmp_path / "run/commits.jsonl", number, {"activations": note})
    return tmp_path / "run"


def test_ls_shows_rows_layers_and_model(run: Path) -> None:
    told = activations("ls", run).output
    for expected in ("12 rows of 2 batches in 2 parts", "bfloat16 [8] at resid_post", "layers 4, 8", "name: a"):
        assert expected in told
    assert told == activations("ls", run / "activations").output


def test_check_names_what_is_lost_and_fails(run: Path) -> None:
    assert activations("check", run).output == "2 parts, all rows intact\n"
    (run / "activations/part-00001.h5").write_bytes(b"no more")
    told = activations("check", run)
    assert "part-00001.h5: 6 rows, read-outs t1/0 to t1/2, are lost in all layers" in told.output
    assert isinstance(told.exception, UserError)
    assert "1 of 2 parts damaged" in str(told.exception)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_an_export_holds_the_same_values_with_their_rows(run: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    told = activations("export", run, out, "--position", "last")
    assert told.exception is None
    tensors = load_file(out) if suffix == ".safetensors" else dict(np.load(out))
    rows = pd.read_parquet(tmp_path / "out.rows.parquet")
    store = ActivationStore.open(run)
    for layer in (4, 8):
        read = store.read(layer=layer, position="last")
        assert np.array_equal(tensors[f"resid_post.{layer}"], read.values)
        pd.testing.assert_frame_equal(rows, read.rows, check_dtype=False)
    assert set(tensors) - {"header"} == {"resid_post.4", "resid_post.8"}


def test_an_export_leaves_out_what_is_damaged_at_one_layer(run: Path, tmp_path: Path) -> None:
    part = run / "activations/part-00000.h5"
    values = ActivationStore.open(run).read(layer=8).values[:6]
    content = bytearray(part.read_bytes())
    content[content.index((values.view(np.uint32) >> 16).astype("<u2").tobytes())] ^= 1
    part.write_bytes(content)
    assert activations("export", run, tmp_path / "out.npz").exception is None
    tensors = np.load(tmp_path / "out.npz")
    assert tensors["resid_post.4"].shape == tensors["resid_post.8"].shape == (6, 8)
    assert pd.read_parquet(tmp_path / "out.rows.parquet")["readout_id"].str.startswith("t1/").all()


def test_pack_joins_the_parts(run: Path) -> None:
    before = ActivationStore.open(run).read(layer=4)
    assert activations("pack", run).output == "2 parts before, 1 now\n"
    after = ActivationStore.open(run).read(layer=4)
    assert np.array_equal(before.values, after.values)
    assert before.rows.equals(after.rows)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("ls", "nowhere"), "nowhere: is not an activation store"),
        (("export", "RUN", "out.h5"), "out.h5: must end in .npz or .safetensors"),
        (("export", "RUN", "out.npz", "--layer", "5"), "has no layer 5; it has 4, 8"),
        (("export", "RUN", "out.npz", "--position", "lst"), "no row has the position 'lst'; did you mean 'last'"),
        (("export", "RUN", "/proc/no/out.npz"), "/proc/no/out.npz: cannot be written"),
    ],
)
def test_a_mistake_is_one_line(run: Path, args: tuple[str, ...], told: str) -> None:
    done = activations(*(str(run) if arg == "RUN" else arg for arg in args))
    assert isinstance(done.exception, UserError)
    assert told in str(done.exception)
    assert "\n" not in str(done.exception)


def test_a_mistake_ends_with_two(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "doxascope", "activations", "check", "nowhere"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    told = "is not an activation store (no store.json); a run keeps its activations with -o capture.layers=all"
    assert done.stderr == f"doxascope: nowhere: {told}\n"
