"""Whatever a command reads of what doxascope wrote has a digest: of each such file a bit is flipped, and the command
ends in one line that names it."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from doxascope import UserError
from doxascope.experiments.compare.card import ModelCard
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.runner import run
from doxascope.hooks.lens.lens import TunedLens
from doxascope.probes import Probe

SMALL = ["items=6", "stated.numbers=[]", "token_budget=4096", "capture.sites=[resid_post]", "bootstrap_draws=50"]
QUICK = "{permutations: 19, refits: 20, penalties: [100.0], folds: 3, control_draws: 2, transfer: [], depth: 0.5}"
RUN = ("run/manifest.json", "run/config.yaml", "run/items.jsonl", "run/commits.jsonl")
READ = (*RUN, "run/beliefs/*", "run/transcripts/*", "run/sessions/*")
STORE = ("run/activations/store.json", "run/activations/*.h5")
OF_PROBE = ("probe/probe.json", "probe/probe.npz")
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "check": ("check run", (*READ, "run/scores.json", "run/report.html", *STORE)),
    "report": ("report run", READ),
    "score": ("score run", READ),
    "train": ("probe train job.yaml run --out out", (*READ, *STORE)),
    "sweep": ("probe sweep job.yaml run --out probes", (*READ, *STORE, "probes/*/used.json", "probes/*/points/*")),
    "eval": ("probe eval job.yaml other -o probe=probe/probe", OF_PROBE),
    "apply": ("probe apply job.yaml run -o probe=probe/probe", (*READ, *STORE, *OF_PROBE)),
    "causal": (
        "probe causal causal.yaml run -o probe=probe/probe --out causal",
        (*READ, *STORE, *OF_PROBE, "probe/card.json"),
    ),
}
"""Name -> a command, and the files that it reads, each of which has a digest."""
UNREAD = {"run/.lock"}
seen: list[str] = []


def _note(event: str, given: tuple[Any, ...]) -> None:
    if (
        event == "open"
        and seen
        and isinstance(given[0], str | Path)
        and not str(given[1] or "r").startswith(("w", "x", "a"))
    ):
        seen.append(str(given[0]))


sys.addaudithook(_note)


@pytest.fixture(scope="module")
def place(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, another, a probe that was swept and checked, and jobs."""
    from doxascope.experiments.probing.jobs import sweep_job
    from doxascope.experiments.probing.settings import load_job

    out = tmp_path_factory.mktemp("digests")
    run(*load_config("truth", SMALL, str(tiny_folder)), out / "runs").path.rename(out / "run")
    (out / "job.yaml").write_text(yaml.safe_dump({"study": yaml.safe_load(QUICK)}))
    (out / "causal.yaml").write_text(
        "{contexts: 4, neutral: 2, plan: {random: 4, random_contexts: 2, refits: 20, folds: 3, "
        "penalties: [100.0], doses: [1.0], surgery: [0.5], thresholds: {groups: 4}}}"
    )
    shutil.copytree(out / "run", out / "other")
    folder, _ = sweep_job(load_job(str(out / "job.yaml"), [out / "run"]), out / "probes")
    shutil.copytree(folder, out / "probe")
    return out


def flipped(path: Path, at: float = 0.5) -> bytes:
    """What a file was; a bit of it is another now."""
    before = path.read_bytes()
    data = bytearray(before)
    data[min(len(data) - 1, int(len(data) * at))] ^= 1
    path.write_bytes(data)
    return before


def files(place: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        yield from (path for path in sorted(place.glob(pattern)) if path.is_file() and path.stat().st_size)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_reads_nothing_without_a_digest(
    name: str, place: Path, command_line: Callable[..., Any], tmp_path: Path
) -> None:
    line, patterns = COMMANDS[name]
    here = Path(shutil.copytree(place, tmp_path / "here"))
    seen[:] = [""]
    healthy = command_line(*line.split(), cwd=here)
    opened = {Path(path) if Path(path).is_absolute() else here / path for path in seen[1:]}
    seen.clear()
    assert "damaged" not in healthy.stderr, healthy.stderr
    listed = set(files(here, (*patterns, "*.yaml", "*/*.html", "*/*.lock", "*/.lock")))
    ours = {path for path in opened if path.is_file() and here in path.parents and ".writing" not in path.name}
    written = {path for path in ours if not (place / path.relative_to(here)).exists()}
    assert not {path.relative_to(here).as_posix() for path in ours - listed - written}
    for path in files(place, patterns):
        copy = here / path.relative_to(place)
        copy.write_bytes(path.read_bytes())
        before = flipped(copy)
        done = command_line(*line.split(), cwd=here)
        copy.write_bytes(before)
        assert done.returncode == 2, (path, done.stdout, done.stderr)
        assert path.name in done.stdout + done.stderr, (path, done.stderr)


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
    from doxascope.hooks.lens.fitting import Document, fit_tuned_lens

    ids = tiny.tokenizer("which word did you choose? " * 8)["input_ids"]
    fit_tuned_lens(tiny, [Document("a", tuple(ids)), Document("b", tuple(ids[::-1]))], [0]).save(tmp_path / "lens")
    TunedLens.load(tmp_path / "lens")
    for name, steps in (("lens.json", 61), ("lens.npz", 13)):
        for step in range(steps):
            before = flipped(tmp_path / name, step / steps)
            with pytest.raises(UserError, match="fit it anew"):
                TunedLens.load(tmp_path / "lens")
            (tmp_path / name).write_bytes(before)


def test_an_edit_of_a_model_card_is_seen(place: Path, tmp_path: Path, tiny_folder: Path) -> None:
    from doxascope.experiments.compare.card import make_card

    chosen = {"version": 1, "runs": {"consistency": {"items": 3, "registered.n": 3, "bootstrap_draws": 50}}}
    (tmp_path / "set.yaml").write_text(yaml.safe_dump(chosen))
    folder = make_card(str(tiny_folder), tmp_path / "cards", chosen=str(tmp_path / "set.yaml")).folder
    ModelCard.open(folder)
    for step in range(29):
        before = flipped(folder / "card.json", step / 29)
        with pytest.raises(UserError, match="is no card that is whole"):
            ModelCard.open(folder)
        (folder / "card.json").write_bytes(before)
