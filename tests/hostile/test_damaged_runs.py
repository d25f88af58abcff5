"""A finished run, damaged: whatever is edited, flipped, lost or swapped is named by every command that reads it, and
brought back by `run --restore` to the same bytes. A number that differs without a word is the one thing that must
not be.
"""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doxascope import UserError
from doxascope.experiments.compare import compare
from doxascope.experiments.compare.page import page
from doxascope.experiments.report.cells import as_row
from doxascope.experiments.report.record import to_json
from doxascope.experiments.run.config import load_config, stored_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.integrity import faults
from doxascope.experiments.run.joint_scores import score_runs
from doxascope.experiments.run.runner import report, run

FLIPS = 12
"""`make damage` flips a thousand."""
READ = ("config.yaml", "items.jsonl", "manifest.json", "commits.jsonl", "beliefs", "transcripts")
"""What scores are made of; the rest is made of it."""


@pytest.fixture(scope="module")
def setting(tiny_folder: Path) -> tuple[Any, Any]:
    wanted = ["items=3", "batch_items=1", "bootstrap_draws=20", "capture={layers: [0]}"]
    wanted += ["fork.methods=[]", "methods={free: {forms: ['{option}']}}"]
    return load_config("consistency", wanted, str(tiny_folder))


@pytest.fixture(scope="module")
def whole(setting: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(*setting, tmp_path_factory.mktemp("whole")).path


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / whole.name))


@pytest.fixture(scope="module")
def truth(whole: Path) -> str:
    return numbers(whole)


def numbers(folder: Path) -> str:
    """Every number of a run as `doxascope score` gives it, or the line that says why not."""
    try:
        return repr([as_row(number) for number in score_runs([RunFolder.open(folder)]).all])
    except UserError as error:
        return f"named: {error}"


def files(folder: Path, *tops: str) -> list[Path]:
    inside = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith(".lock"))
    return [file for file in inside if not tops or file.relative_to(folder).parts[0] in tops]


@pytest.mark.parametrize("name", ["no manifest", "half of the rows", "a transcript edited", "the conditions edited"])
def test_a_damaged_run_is_compared_with_nothing(name: str, whole: Path, copy: Path) -> None:
    """Each is refused in a line that names the file."""
    EDITS[name](copy)
    with pytest.raises(UserError, match=r"manifest\.json|part-0000\d") as refused:
        page(compare(whole, copy), {})  # which shows what was said
    assert "\n" not in str(refused.value)


def test_what_is_made_anew_is_not_believed(whole: Path, copy: Path) -> None:
    before = compare(whole, alone=True)
    (copy / "scores.json").write_text("[]")
    assert to_json(page(compare(copy, alone=True), {})) == to_json(page(before, {}))


def test_a_whole_run_has_no_faults(whole: Path, truth: str) -> None:
    assert not list(faults(RunFolder(whole)))
    assert not truth.startswith("named")


@pytest.mark.parametrize("seed", range(FLIPS))
def test_a_flipped_bit_is_named_or_changes_nothing(seed: int, copy: Path, truth: str) -> None:
    draw = random.Random(seed)
    file = draw.choice(files(copy))
    data = bytearray(file.read_bytes())
    place = draw.randrange(len(data))
    data[place] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    found = numbers(copy)
    assert found == truth or found.startswith("named")
    told = list(faults(RunFolder(copy)))
    assert told, f"{file.name}, byte {place}: nobody sees it"
    assert any(file.name in line for line in told)
    assert found == truth or file.relative_to(copy).parts[0] in READ


def swap(one: str, other: str) -> Callable[[Path], None]:
    def exchange(folder: Path) -> None:
        first, second = (folder / one).read_bytes(), (folder / other).read_bytes()
        (folder / one).write_bytes(second)
        (folder / other).write_bytes(first)

    return exchange


def text(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        before = (folder / name).read_text()
        assert old in before
        (folder / name).write_text(before.replace(old, new, 1))

    return change


def lines(name: str, keep: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text("".join(keep(path.read_text().splitlines(keepends=True))))

    return change


def half(folder: Path) -> None:
    """Half of the rows of a part, written as well as the whole."""
    import pandas as pd

    path = folder / "beliefs/part-00001.parquet"
    table = pd.read_parquet(path)
    table.iloc[: len(table) // 2].to_parquet(path, index=False)


EDITS: dict[str, Callable[[Path], object]] = {
    "a part for another": swap("beliefs/part-00000.parquet", "beliefs/part-00001.parquet"),
    "a transcript for another": swap("transcripts/part-00000.jsonl", "transcripts/part-00002.jsonl"),
    "half of the rows": half,
    "a part deleted": lambda folder: (folder / "beliefs/part-00001.parquet").unlink(),
    "a transcript deleted": lambda folder: (folder / "transcripts/part-00001.jsonl").unlink(),
    "a transcript edited": text("transcripts/part-00001.jsonl", "user", "uses"),
    "settings edited": text("config.yaml", "seed: 0", "seed: 1"),
    "the level edited": text("config.yaml", "level: 0.95", "level: 0.59"),
    "settings deleted": lambda folder: (folder / "config.yaml").unlink(),
    "items edited": text("items.jsonl", "content", "context"),
    "the first line lost": lines("commits.jsonl", lambda found: found[1:]),
    "a middle line lost": lines("commits.jsonl", lambda found: [found[0], found[2]]),
    "the last line lost": lines("commits.jsonl", lambda found: found[:-1]),
    "the last newline lost": lines("commits.jsonl", lambda found: [*found[:-1], found[-1][:-1]]),
    "a newline lost": lines("commits.jsonl", lambda found: [found[0][:-1], *found[1:]]),
    "lines exchanged": lines("commits.jsonl", lambda found: [found[1], found[0], found[2]]),
    "a line twice": lines("commits.jsonl", lambda found: [*found, found[-1]]),
    "a line edited": text("commits.jsonl", '"batch": 1', '"batch": 7'),
    "no lines": lines("commits.jsonl", lambda found: []),
    "no commits": lambda folder: (folder / "commits.jsonl").unlink(),
    "the manifest edited": text("manifest.json", '"batches": 3', '"batches": 2'),
    "the conditions edited": text("manifest.json", '"float32"', '"float16"'),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "an empty manifest": lambda folder: (folder / "manifest.json").write_text("{}"),
    "a list for a manifest": lambda folder: (folder / "manifest.json").write_text("[]"),
    "a deep manifest": lambda folder: (folder / "manifest.json").write_text("[" * 100_000),
}
RESTORED = ("a part for another", "half of the rows", "a transcript deleted", "the first line lost", "a newline lost")
RESTORED += ("lines exchanged", "no commits")
"""Settings, items and manifest are gone for good: no reading of the model brings them back."""


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_named_by_every_command_that_reads(name: str, copy: Path, setting: tuple[Any, Any]) -> None:
    EDITS[name](copy)
    found = numbers(copy)
    assert found.startswith("named") or "transcript" in name  # of which no number is made
    with pytest.raises(UserError):
        report(RunFolder.open(copy), *stored_config(RunFolder(copy).config))
    if name != "no manifest":  # then it is the folder of no run
        assert list(faults(RunFolder(copy)))
    with pytest.raises(UserError):
        run(*setting, copy.parent)


@pytest.mark.parametrize("name", RESTORED)
def test_what_is_lost_is_read_again_to_the_same_bytes(
    name: str, copy: Path, whole: Path, setting: tuple[Any, Any]
) -> None:
    EDITS[name](copy)
    run(*setting, copy.parent, restored=True)
    for file in [*files(whole, "beliefs", "transcripts", "activations"), whole / "scores.json"]:
        assert (copy / file.relative_to(whole)).read_bytes() == file.read_bytes(), file.name
    assert not list(faults(RunFolder(copy)))


@pytest.mark.parametrize("how", ["gone", "swapped", "cut"])
def test_activations_that_are_lost_are_said_and_brought_back_if_asked(
    how: str, copy: Path, whole: Path, setting: tuple[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (copy / f"activations/part-0000{i}.h5" for i in (0, 1))
    if how == "gone":
        first.unlink()
    elif how == "cut":
        first.write_bytes(first.read_bytes()[:1000])
    else:
        swap("activations/part-00000.h5", "activations/part-00001.h5")(copy)
    assert any(first.name in line for line in faults(RunFolder(copy)))
    if how == "gone":
        run(*setting, copy.parent)
        assert "activations of batches 0 are gone" in caplog.text
        assert not first.exists()
    run(*setting, copy.parent, restored=True)
    for file in (first, second):
        assert file.read_bytes() == (whole / file.relative_to(copy)).read_bytes()
    assert not list(faults(RunFolder(copy)))


@pytest.mark.parametrize("torn", [False, True])
def test_a_killed_run_goes_on_and_says_so(
    torn: bool,
    copy: Path,
    whole: Path,
    setting: tuple[Any, Any],
    cut_short: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    cut_short(copy, 2, torn=torn)
    partial = stored_config(RunFolder(copy).config)
    report(RunFolder(copy), *partial)
    assert json.loads((copy / "scores.json").read_text())["partial"] == "2 of 3 batches"
    run(*setting, copy.parent)
    assert "batch 2 was not committed; it is read again" in caplog.text
    assert (copy / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()
    assert "partial" not in json.loads((whole / "scores.json").read_text())


def test_leftovers_are_no_part_of_a_table(copy: Path, command_line: Callable[..., Any]) -> None:
    beliefs = copy / "beliefs"
    shutil.copy(beliefs / "part-00001.parquet", beliefs / "part-00001 (1).parquet")
    done = command_line("score", str(beliefs), "--cluster", "cluster", cwd=copy)
    assert done.returncode == 2
    assert "part-00001 (1).parquet: was not committed" in done.stderr
