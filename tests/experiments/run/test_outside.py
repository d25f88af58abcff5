"""An experiment in a file of one's own: the example of docs/extending.md, as it stands there."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from doxascope.base.code import load_code

ROOT = Path(__file__).parents[3]
Call = Callable[..., CompletedProcess[str]]
PACKAGE = ("metrics", "hooks", "experiments", "configs")


@pytest.fixture(scope="module")
def tiny_folder(tiny_for: Callable[[str], Path]) -> Path:
    """A tiny model that does not spell every prompt."""
    return tiny_for("*")


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder with the two files of the example."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    for name, kind in (("negation.py", "python"), ("negation.yaml", "yaml")):
        (code,) = re.findall(rf"`{re.escape(name)}`:\n\n```{kind}\n(.*?)```", text, re.DOTALL) or [""]
        (tmp_path / name).write_text(code, encoding="utf-8")
    return tmp_path


def sources() -> dict[str, str]:
    return {str(file): file.read_text(encoding="utf-8") for folder in PACKAGE for file in (ROOT / folder).rglob("*.py")}


def test_the_example_runs_from_a_folder_outside_the_package(
    example: Path, tiny_folder: Path, command_line: Call
) -> None:
    """On its own model tests/test_guides.py runs it."""
    before = sources()
    assert len((example / "negation.py").read_text().splitlines()) < 60
    small = ("-o", "bootstrap_draws=50", "-m", str(tiny_folder))
    done = command_line("run", "negation.yaml", "--allow-code", "negation.py", *small, "--verify", "1", cwd=example)
    assert done.returncode == 0, done.stderr
    (folder,) = (example / "runs").iterdir()
    scores = json.loads((folder / "scores.json").read_text())["scores"]
    bias = {row["subset"]: row["estimate"] for row in scores if row["metric"] == "framing_bias"}
    contrasts = {row["subset"]: row for row in scores if row["metric"] == "framing_bias_contrast"}
    topics, systems = ("topic: place", "topic: nature"), ("system: plain", "system: careful")
    cells = {f"{topic}, {system}" for topic in topics for system in systems}
    assert bias.keys() == {"all", *topics, *systems, *cells}
    assert contrasts.keys() == {"topic: place - nature", "system: plain - careful"}
    assert contrasts["system: plain - careful"]["estimate"] == pytest.approx(
        bias["system: plain"] - bias["system: careful"]
    )
    assert bias["all"] == pytest.approx((bias["topic: place"] + bias["topic: nature"]) / 2)
    assert all(row["ci_lo"] <= row["estimate"] <= row["ci_hi"] for row in contrasts.values())
    assert any(row["metric"] == "gate" for row in scores)
    page = (folder / "report.html").read_text()
    lead = "Framing bias, and what the factors make of it"
    assert all(part in page for part in (lead, "Contrasts", "careful", "Rome is in Peru"))
    assert "Contrasts\n---" in done.stdout
    told = command_line("score", str(folder), "--allow-code", str(example / "negation.py"), cwd=example)
    assert told.returncode == 0, told.stderr
    assert "framing bias" in told.stdout
    assert sources() == before


@pytest.mark.parametrize("command", [("run", "negation.yaml"), ("plan", "negation.yaml")])
def test_a_file_is_not_run_unless_it_is_named(example: Path, command: tuple[str, ...], command_line: Call) -> None:
    (example / "negation.py").write_text("open('was-run', 'w')\n")
    done = command_line(*command, cwd=example)
    assert done.returncode == 2
    assert "--allow-code" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (example / "was-run").exists()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import nothing_of_the_kind", "cannot be imported"),
        ("class Negation: pass", "is no subclass of doxascope.Experiment"),
        ("class Negatoin: pass", "the file has no class 'Negation'; did you mean 'Negatoin'?"),
        ("from doxascope import Experiment\nclass Negation(Experiment):\n    name = 'x'", "lacks 'items'"),
    ],
)
def test_a_file_that_holds_no_experiment_is_named_in_a_line(
    example: Path, code: str, says: str, command_line: Call
) -> None:
    (example / "negation.py").write_text(code + "\n")
    done = command_line("run", "negation.yaml", "--allow-code", "negation.py", cwd=example)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


OWN = """
from doxascope import Experiment, Item, Question, make_options, mean_number


class Sky(Experiment):
    name = "sky"
    summary = "how much does it believe that things are blue?"
    headline = "belief_in_yes"

    def items(self, config):
        return [Item(thing, thing, {}) for thing in ("The sky", "Grass", "Snow")[: config.items]]

    def questions(self, config, item):
        asked = [{"role": "user", "content": f"Is it blue: {item.id}? Answer yes or no." * TIMES}]
        return [Question(f"{item.id}/plain", "plain", "asked", asked, "", make_options(["Yes", "No"]))]

    def own_scores(self, config, beliefs):
        yes = beliefs[beliefs["option_index"] == 0]
        yield mean_number(config, "belief_in_yes", "plain", yes["prob"], yes["cluster"], within=(0, 1))
"""


def test_a_headline_needs_one_import_and_a_run_that_read_nothing_begins_anew(
    tmp_path: Path, tiny_folder: Path, command_line: Call, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "sky.yaml").write_text(f"experiment: ./sky.py:Sky\nmodel: {tiny_folder}\nitems: 3\n")

    def attempt(times: int) -> CompletedProcess[str]:
        (tmp_path / "sky.py").write_text(OWN.replace("TIMES", str(times)))
        load_code.cache_clear()  # a process of its own would have loaded none
        return command_line("run", "sky.yaml", "--allow-code", "sky.py", "-o", "bootstrap_draws=50", cwd=tmp_path)

    mistaken = attempt(9999)  # tokens, which are counted when they are to be read: then the run has begun
    assert (mistaken.returncode, mistaken.stderr.count("\n")) == (2, 1)
    assert "tokens, the model takes" in mistaken.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    before = json.loads((folder / "manifest.json").read_text())
    mended = attempt(1)
    assert mended.returncode == 0, mended.stderr
    assert "was begun under other conditions, and has read nothing; begins anew" in caplog.text
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["status"], before["status"]) == ("complete", "running")
    assert manifest["conditions"]["code"] != before["conditions"]["code"]
    (score,) = json.loads((folder / "scores.json").read_text())["scores"]
    assert score["metric"] == "belief_in_yes"
    assert 0 <= score["ci_lo"] < score["estimate"] < score["ci_hi"] <= 1
    other = attempt(2)  # now something was read
    assert other.returncode == 2
    assert "was run under other conditions" in other.stderr
