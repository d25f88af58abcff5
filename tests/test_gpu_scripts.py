"""The scripts for GPUs run as they are, on a tiny model."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "examples" / "gpu"
LETTERS = "methods={letters: {reveal: 'A) {a} B) {b} C) {c}', labels: [A, B, C], forms: ['{option}']}}"
URNS, WORLDS = "domains={factual: {kind: computed, make: [urns]}}", "tasks={worlds: {kind: computed}}"
SMALL: dict[str, tuple[str, ...]] = {
    "array": ("items=2", LETTERS, "fork.methods=[]"),
    "bscore": ("items=1", "runs=2", "turns=2", "cuts=[2]", "queries=3"),
    "certify": (),
    "compare": ("items=2", LETTERS, "fork.methods=[]"),
    "consistency": ("items=1",),
    "locate": ("items=2",),
    "martingale": ("items=1", URNS, "gate_urns=2", "generation.max_new_tokens=20", "debate.max_new_tokens=10"),
    "rationality": ("items=2", "pool=60", "iterations=5"),
    "sycophancy": ("items=1", WORLDS, "stated={}", "paraphrased=updates"),
}
"""What makes each small."""
READS = {"array": "consistency", "compare": "consistency", "probe": "truth", "causal": "truth", "certify": "truth"}
"""The experiment of each script that is not called by it."""
FULL = os.environ.get("DOXASCOPE_GUIDES") == "full"
STATED = ("stated.numbers=[of 10]", "registered=null")
KINDS = {
    "ask": ("answers=[texts]", *STATED),
    "bscore": ("items=36", "runs=2", "turns=2", "controls=null", "confidence=null", *STATED),
    "consistency": ("items=8", LETTERS, "fork.methods=[]", *STATED),
    "martingale": ("items=8", URNS, "gate_urns=0", "reasoning=[evidence]", "stated.greedy=[]", *STATED),
    "rationality": ("items=8", "iterated=false", "prompts={standard: ''}", "said.numbers=[of 10]"),
    "sycophancy": ("items=8", WORLDS, "evidence=[none]", "involvement=[third]", "askers=[]", *STATED),
    "truth": ("items=12", *STATED),
}
"""Experiments that `kinds.sh` reads, and the settings that make each small."""
CAUSAL = ("contexts=4", "neutral=2", "plan.random=3", "plan.random_contexts=2")
CAUSAL += ("plan.doses=[0.5, 1.0]", "plan.dose=1.0", "plan.surgery=[0.5]")


def options(settings: Sequence[str]) -> list[str]:
    """As they stand on the command line."""
    return [word for setting in settings for word in ("-o", setting)]


Script = Callable[..., None]
SERVER = """
import gc, json, os, socket, sys, traceback
import doxascope.experiments.cli.main as cli
import h5py, pandas, scipy.stats, sklearn.linear_model, statsmodels.api, torch, transformers

listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
gc.freeze()
print("listens", flush=True)
while True:
    connection, _ = listener.accept()
    if os.fork():
        connection.close()
        continue
    asked, files, *_ = socket.recv_fds(connection, 2**20, 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
    asked = json.loads(asked)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["variables"])
    sys.argv = ["doxascope", *asked["words"]]
    code = 1
    try:
        cli.main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.send(bytes([code]))
        os._exit(code)
"""
"""Runs each command in a process of its own, which begins with what takes seconds to import."""
CLIENT = """
import json, os, socket, sys

connection = socket.socket(socket.AF_UNIX)
connection.connect(PLACE)
asked = {"folder": os.getcwd(), "variables": dict(os.environ), "words": sys.argv[1:]}
socket.send_fds(connection, [json.dumps(asked).encode()], [0, 1, 2])
sys.exit(connection.recv(1)[0])
"""


@pytest.fixture(scope="module")
def doxascope(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the command."""
    place = tmp_path_factory.mktemp("bin")
    # Not below the folders of the tests: the names of sockets are short.
    with tempfile.TemporaryDirectory() as short:
        socket = f"{short}/socket"
        command = [sys.executable, "-c", SERVER, socket]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as server:
            assert server.stdout
            assert server.stdout.readline() == "listens\n"
            here = place / "doxascope"
            here.write_text(f"#!{sys.executable} -S\nPLACE = {socket!r}\n{CLIENT}")
            here.chmod(0o755)
            yield place
            server.kill()


@pytest.fixture
def script(doxascope: Path, tiny_for: Callable[[str], Path], tmp_path: Path) -> Script:
    """Runs a script on a tiny model, with further variables."""
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    model = tmp_path / "tiny.yaml"
    env = os.environ | {
        "PATH": f"{doxascope}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "MODEL": str(model),
        "OUT": str(tmp_path / "runs"),
        "DOXASCOPE_CACHE": str(tmp_path / "cache"),
    }

    def run(name: str, *small: str, **variables: str) -> None:
        tiny = str(tiny_for(variables.get("EXPERIMENT") or READS.get(name, name)))
        model.write_text(f"path: {tiny}\ndtype: bfloat16\n")
        variables |= {"OTHER": tiny, "JUDGE": tiny}
        command = [SCRIPTS / f"{name}.sh", *small]
        done = subprocess.run(command, cwd=SCRIPTS, env=env | variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        assert "Traceback" not in done.stderr

    return run


def test_every_script_is_run_here() -> None:
    assert {one.stem for one in SCRIPTS.glob("*.sh")} == {*SMALL, "kinds", "probe", "causal"}


@pytest.mark.parametrize("name", SMALL)
def test_a_script_does_what_it_says(script: Script, name: str) -> None:
    script(name, *options((*SMALL[name], "bootstrap_draws=50") if name != "certify" else ()))


@pytest.mark.parametrize("experiment", KINDS)
def test_every_kind_of_each_experiment_with_its_probe_job(script: Script, tmp_path: Path, experiment: str) -> None:
    if not FULL and experiment != "ask":
        pytest.skip("takes minutes: DOXASCOPE_GUIDES=full")
    (tmp_path / "mine.csv").write_text("question,options,truth\n" + "".join(f"Is it {i}?,a|b|c,a\n" for i in range(8)))
    given = {"QUESTIONS": str(tmp_path / "mine.csv")} if experiment == "ask" else {}
    script("kinds", *options(KINDS[experiment]), EXPERIMENT=experiment, **given)
    (run,) = (tmp_path / "runs").glob(f"{experiment}-*")
    scores = json.loads((run / "scores.json").read_text())["scores"]
    assert {"exact", "verbal", "probe"} <= {row["kind"] for row in scores}
    (card,) = (tmp_path / "runs" / "probes").glob("*/card.json")
    assert json.loads(card.read_text())["settings"]["runs"] == [str(run)]


def test_a_probe_is_checked_for_use(script: Script, tmp_path: Path) -> None:
    script("probe", *options(("items=12", "capture.layers=[1]")))
    script("causal", *options(CAUSAL))
    (used,) = (tmp_path / "runs" / "probes").glob("*/used.json")
    assert json.loads(used.read_text())["verdict"]
