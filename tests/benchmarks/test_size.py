"""The house keeps its shape: few rooms, arrows that run one way, no circle of files; the script sees what breaks it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from doxascope.benchmarks import size
from doxascope.benchmarks.size import measure

FILES = {
    "base/text.py": '"""Texts."""\n\n\ndef plain(one: str) -> str:\n    """A text as it is."""\n    return one\n',
    "metrics/mean.py": "# A comment.\nfrom ..base.text import plain\n\nX = plain\n",
    "experiments/__init__.py": '"""Experiments."""\n',
    "experiments/run/runner.py": (
        "from typing import TYPE_CHECKING\n\nfrom ...metrics import mean\n\nif TYPE_CHECKING:\n"
        "    from ..cli.main import main\n\n\ndef run() -> None:\n    from ...hooks import load\n"
    ),
    "experiments/cli/main.py": "from ..run import runner\n\n\ndef main() -> None: ...\n",
    "hooks/__init__.py": '"""Models."""\n\nfrom .lm import load as load\n',
    "hooks/lm.py": "def load() -> None: ...\n",
}


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Path]:
    def write(**changes: str) -> Path:
        for name, text in (FILES | {name.replace("__", "/") + ".py": text for name, text in changes.items()}).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def test_the_house_has_few_rooms_whose_arrows_run_one_way() -> None:
    house = measure()
    assert len(house.rooms) <= 12
    assert house.circles == []
    assert house.order is not None
    assert house.total.files > 200
    assert house.total.lines == sum(
        vars(house.total)[name] for name in vars(house.total) if name not in ("files", "lines")
    )


def test_what_is_imported_when_the_code_runs_is_an_arrow(build: Callable[..., Path]) -> None:
    house = measure(build())
    assert house.arrows == {
        ("metrics", "base"): ["metrics/mean.py"],
        ("experiments/run", "hooks"): ["experiments/run/runner.py"],
        ("experiments/run", "metrics"): ["experiments/run/runner.py"],
        ("experiments/cli", "experiments/run"): ["experiments/cli/main.py"],
    }
    assert set(house.rooms) == {"base", "metrics", "hooks", "experiments/run", "experiments/cli"}
    assert house.order is not None
    assert house.order.index("experiments/run") < house.order.index("experiments/cli")
    assert (house.functions, house.vague, house.total.files) == (4, 1, 7)
    text = house.rooms["base"]
    assert (text.lines, text.docstrings, text.imports, text.blank, text.comments, text.code) == (6, 2, 0, 2, 0, 2)
    assert (house.rooms["metrics"].comments, house.rooms["metrics"].imports) == (1, 1)


def test_circles_of_files_and_of_rooms_are_seen(build: Callable[..., Path]) -> None:
    house = measure(build(base__text="def plain() -> None:\n    from ..metrics.mean import X\n"))
    assert house.circles == [["base/text.py", "metrics/mean.py"]]
    assert house.order is None


@pytest.mark.parametrize(("limit", "code"), [("7", 0), ("6", 1)])
def test_a_limit_that_is_passed_is_an_exit_code(
    build: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    limit: str,
    code: int,
) -> None:
    house = measure(build())
    monkeypatch.setattr(size, "measure", lambda: house)
    monkeypatch.setattr("sys.argv", ["size.py", "--max-files", limit])
    assert size.main() == code
    assert ("7 files, more than 6" in capsys.readouterr().err) == bool(code)
