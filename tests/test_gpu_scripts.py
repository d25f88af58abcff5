"""The scripts for GPUs run as they are, on a tiny model."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "examples" / "gpu"
SMALL = {
    "array": ["-o", "items=2"],
    "bscore": ["-o", "items=1", "-o", "runs=2", "-o", "turns=2", "-o", "cuts=[2]"],
    "certify": [],
    "compare": ["-o", "items=2"],
    "consistency": ["-o", "items=1"],
    "kinds": ["-o", "items=3", "-o", "stated.numbers=[of 10]"],
    "locate": ["-o", "items=2"],
    "martingale": ["-o", "items=1"],
    "probe": ["-o", "items=12"],
    "rationality": ["-o", "items=2"],
    "sycophancy": ["-o", "items=1", "-o", "stated={}", "-o", "paraphrased=updates"],
}
"""What makes each small."""


def test_every_script_is_run_here() -> None:
    assert sorted(one.stem for one in SCRIPTS.glob("*.sh")) == sorted(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_a_script_does_what_it_says(name: str, tiny_folder: Path, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    here = tmp_path / "doxascope"
    here.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m doxascope "$@"\n')
    here.chmod(0o755)
    model = tmp_path / "tiny.yaml"
    model.write_text(f"path: {tiny_folder}\ndtype: bfloat16\n")
    env = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "MODEL": str(model),
        "OTHER": str(tiny_folder),
        "JUDGE": str(tiny_folder),
        "OUT": str(tmp_path / "runs"),
        "DOXASCOPE_CACHE": str(tmp_path / "cache"),
    }
    command = [SCRIPTS / f"{name}.sh", *SMALL[name]]
    done = subprocess.run(command, cwd=SCRIPTS, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
