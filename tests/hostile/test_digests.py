"""Whatever a command reads of what doxascope wrote has a digest: of each such file a bit is flipped, and the command
ends in one line that names it."""

import shutil
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import AutoModelForCausalLM

from doxascope import UserError
from doxascope.experiments.compare.card import ModelCard
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import run
from doxascope.hooks.lens.lens import TunedLens
from doxascope.probes import Probe

SMALL = ["items=6", "stated.numbers=[]", "token_budget=4096", "capture.sites=[resid_post]", "bootstrap_draws=50"]
QUICK = (
    "{permutations: 19, refits: 20, penalties: [100.0], folds: 3, control_draws: 2, transfer: [], depth: 0.5, "
    "thresholds: {groups: 5}}"
)
CAUSAL = """
contexts: 6
neutral: 2
wrong_layer: 2
plan: {directions: [pattern], doses: [1.0, 2.0], random: 4, random_contexts: 2, surgery: [0.2, 0.8], refits: 20,
  draws: 100, folds: 3, penalties: [100.0], thresholds: {groups: 5}}
"""
COMMANDS = {
    "check": "check run",
    "report": "report run",
    "score": "score run",
    "train": "probe train job.yaml run --out out",
    "sweep": "probe sweep job.yaml run --out probes",
    "apply": "probe apply job.yaml run -o probe=probe/probe",
    "causal": "probe causal causal.yaml run -o probe=probe/probe --out causal",
    "eval": "probe eval job.yaml others/run -o probe=probe/probe",
    "lens": "probe lens job.yaml run -o lens.layers=[0]",
    "trace": "trace run --readout {said} --probe probe/probe --out traced",
    "detector": "detector probe/probe --on lies.csv -m {model} --out detected",
    "verify": "verify {model} --twin {model} --claims claims.csv --probe probe/probe --out verified",
    "compare": "compare run others/run --out compared",
    "collect": "collect run --out collected",
    "datasets": "export run --to datasets --out exported",
    "activations": "activations export run copy.npz",
    "plan": "plan run/config.yaml --power run --effect brier=0.1",
}
READ = (
    *("*run/manifest.json", "*run/config.yaml", "*run/items.jsonl", "*run/commits.jsonl", "*run/certificate.json"),
    *(
        "*run/beliefs/*",
        "*run/transcripts/*",
        "*run/sessions/*",
        "*run/activations/*",
        "*run/probes/*",
        "*run/passing/*",
    ),
    *("*run/scores.*", "*run/report.json", "*run/floors.json", "*run/figures/*", "*run/*.csv"),
    *("probes/*/points/*", "probes/*/used.json", "probes/*/*.npz"),
    *("probe/probe.json", "probe/probe.npz", "probe/card.json", "probe/used.json"),
)
"""All files of ours that the commands read; each has a digest, its own or in another."""
FREE = ("job.yaml", "causal.yaml", "lies.csv", "claims.csv", "*/*.html", "*/.lock*", "*/.commits*")
"""Settings and texts of the user, pages, and locks."""
opened: list[str] = []
written: list[str] = []


def _note(event: str, given: tuple[Any, ...]) -> None:
    """Of everything that Python opens while the lists are kept."""
    if opened and event == "open" and isinstance(given[0], str | Path) and str(given[1] or "r").startswith("r"):
        opened.append(str(given[0]))
    if opened and event == "os.rename":
        written.append(str(given[1]))


sys.addaudithook(_note)


@pytest.fixture(scope="module")
def place(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, a probe of the first that was swept and checked, and jobs."""
    from doxascope.experiments.probing.jobs import sweep_job
    from doxascope.experiments.probing.settings import load_job

    out = tmp_path_factory.mktemp("digests")
    run(*load_config("truth", SMALL, str(tiny_folder)), out / "runs").path.rename(out / "run")
    run(*load_config("truth", [*SMALL, "items=12"], str(tiny_folder)), out / "others").path.rename(
        out / "others" / "run"
    )
    (out / "job.yaml").write_text(yaml.safe_dump({"study": yaml.safe_load(QUICK)}))
    (out / "causal.yaml").write_text(CAUSAL)
    (out / "lies.csv").write_text("text,label,cluster\nIt is.,0,a\nIt is not.,1,a\n")
    (out / "claims.csv").write_text("claim,facet,text,believed,reading\nc,a,It is.,true,probe\n")
    folder = sweep_job(load_job(str(out / "job.yaml"), [out / "run"]), out / "probes")
    shutil.copytree(folder, out / "probe")
    return out


def flipped(path: Path, at: float = 0.5) -> bytes:
    """What a file was; a bit of it is another now."""
    before = path.read_bytes()
    data = bytearray(before)
    data[min(len(data) - 1, int(len(data) * at))] ^= 1
    path.write_bytes(data)
    return before


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_reads_nothing_without_a_digest(
    name: str, place: Path, tiny_folder: Path, command_line: Callable[..., Any], tmp_path: Path
) -> None:
    said = next(RunFolder.open(place / "run").said())["readout_id"]
    line = COMMANDS[name].format(said=said, model=tiny_folder).split()
    here = Path(shutil.copytree(place, tmp_path / "here"))
    opened[:], written[:] = [""], []
    healthy = command_line(*line, cwd=here)
    names = [{here / path for path in paths} for paths in (opened[1:], written)]
    opened.clear()
    assert healthy.returncode == 0, healthy.stderr
    ours = {path.relative_to(here) for path in names[0] - names[1] if here in path.parents and path.is_file()}
    before = sorted(path for path in ours if (place / path).is_file() and (place / path).stat().st_size)
    read = [path for path in before if not any(fnmatch(path.as_posix(), free) for free in FREE)]
    assert not [path for path in read if not any(fnmatch(path.as_posix(), known) for known in READ)]
    assert len(read) >= 2
    if name == "report":  # which writes down the digest of the store's header, and reads nothing of it
        read.remove(Path("run/activations/store.json"))
    for path in read:
        for folder in ("run", "others", "probe", "probes"):
            shutil.rmtree(here / folder)
            shutil.copytree(place / folder, here / folder)
        flipped(here / path)
        done = command_line(*line, cwd=here)
        assert done.returncode == 2, (path, done.stdout, done.stderr)
        assert done.stderr.count("\n") <= 3, (path, done.stderr)


def test_every_bit_of_a_probe_s_metadata_counts(place: Path, tmp_path: Path) -> None:
    for name in ("probe.json", "probe.npz"):
        shutil.copy(place / "probe" / name, tmp_path / name)
    assert Probe.load(tmp_path / "probe").meta.layer >= 0
    for name, steps in (("probe.json", 97), ("probe.npz", 13)):
        for step in range(steps):
            before = flipped(tmp_path / name, step / steps)
            with pytest.raises(UserError, match="probe"):
                Probe.load(tmp_path / "probe")
            (tmp_path / name).write_bytes(before)
    text = (tmp_path / "probe.json").read_text()
    (tmp_path / "probe.json").write_text(text.replace('"layer": 1', '"layer": 0'))
    with pytest.raises(UserError, match=r"probe\.json: is damaged"):
        Probe.load(tmp_path / "probe")


def test_every_bit_of_a_tuned_lens_counts(tiny: Any, tmp_path: Path) -> None:
    from doxascope.hooks.lens.fitting import fit_tuned_lens
    from doxascope.hooks.lens.plan import Document

    ids = tiny.tokenizer("which word did you choose? An apple, a stone, or a river? " * 12)["input_ids"]
    documents = [Document("", tuple(each), tuple(range(len(ids)))) for each in (ids, ids[::-1])]
    fit_tuned_lens(tiny, documents, [0]).save(tmp_path / "lens")
    TunedLens.load(tmp_path / "lens")
    for name, steps in (("lens.json", 61), ("lens.npz", 13)):
        for step in range(steps):
            before = flipped(tmp_path / name, step / steps)
            with pytest.raises(UserError, match="fit it anew"):
                TunedLens.load(tmp_path / "lens")
            (tmp_path / name).write_bytes(before)


def test_an_edit_of_a_model_card_is_seen(place: Path, tmp_path: Path, tiny_folder: Path) -> None:
    from doxascope.experiments.compare.card import make_card

    quick = {"items": 3, "registered.n": 3, "bootstrap_draws": 50, "methods": {"free": {"forms": ["{option}"]}}}
    chosen = {"version": 1, "runs": {"consistency": quick}}
    (tmp_path / "set.yaml").write_text(yaml.safe_dump(chosen))
    folder = make_card(str(tiny_folder), tmp_path / "cards", chosen=str(tmp_path / "set.yaml")).folder
    ModelCard.open(folder)
    for step in range(29):
        before = flipped(folder / "card.json", step / 29)
        with pytest.raises(UserError, match=r"card\.json|is no card that is whole"):
            ModelCard.open(folder)
        (folder / "card.json").write_bytes(before)


def test_an_adapter_that_was_changed_is_another_model(
    tiny_folder: Path, tmp_path: Path, command_line: Callable[..., Any]
) -> None:
    """What is read with it lies in a run of its own, and nothing is read anew in the name of the old one."""
    peft = pytest.importorskip("peft")
    adapter = tmp_path / "adapter"
    settings = peft.LoraConfig(target_modules=["q_proj"], lora_alpha=8, init_lora_weights=False)
    peft.get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_folder), settings).save_pretrained(adapter)
    given = "truth", [*SMALL, "items=5", f"model.adapter={adapter}"], str(tiny_folder)
    first = run(*load_config(*given), tmp_path / "runs").path
    said = next(RunFolder.open(first).said())["readout_id"]
    line = ("trace", str(first), "--readout", said)
    assert command_line(*line, "--out", "traced", cwd=tmp_path).returncode == 0
    for name, change in (
        ("adapter_model.safetensors", lambda data: data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]),
        ("adapter_config.json", lambda data: data.replace(b'"lora_alpha": 8', b'"lora_alpha": 9')),
    ):
        before = (adapter / name).read_bytes()
        (adapter / name).write_bytes(changed := change(before))
        assert changed != before
        done = command_line(*line, "--out", "again", cwd=tmp_path)
        assert (done.returncode, "is not the one of the run (weights)" in done.stderr) == (2, True), done.stderr
        if name.endswith(".json"):
            assert run(*load_config(*given), tmp_path / "runs").path != first
        (adapter / name).write_bytes(before)
    assert command_line(*line, "--out", "again", cwd=tmp_path).returncode == 0
