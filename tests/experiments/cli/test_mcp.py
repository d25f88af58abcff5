"""The server of the Model Context Protocol, called by the library's own client in memory."""

import json
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from doxascope.experiments.cli.mcp_server import server

mcp = pytest.importorskip("mcp", reason="mcp is not installed")
anyio = pytest.importorskip("anyio")

CODE = "from pathlib import Path\nPath({mark!r}).touch()\nclass EvilModel: ...\n"


def served(out: Path, talk: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """Talk to a server of its own."""

    async def connected() -> None:
        async with mcp.Client(server(out)) as client:
            await talk(client)

    anyio.run(connected)


def said(result: Any) -> str:
    return "\n".join(part.text for part in result.content)


def test_an_agent_asks_the_chat_model_and_reads_its_belief(tmp_path: Path, smollm: Any) -> None:
    questions = [{"id": "whale", "question": "What is a whale?", "options": ["a fish", "a mammal"]}]
    alone = smollm.ask(questions, "letters")

    async def talk(client: Any) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"ask", "plan", "run", "report", "compare"}
        result = await client.call_tool("ask", {"model": "smollm2-135m", "questions": questions})
        assert not result.is_error, said(result)
        told = json.loads(result.content[0].text)
        assert told["answer"] == alone.table["answer"].iloc[0]
        assert list(told["belief"].values()) == pytest.approx(alone.options["prob"].tolist(), abs=1e-6)

    served(tmp_path, talk)


def test_an_agent_plans_runs_reports_and_compares(
    tmp_path: Path, tiny_for: Callable[[str], Path], table: Callable[..., Path]
) -> None:
    model = str(tiny_for("truth"))
    asked = {"experiment": "truth", "model": model, "settings": {"items": 6, "bootstrap_draws": 50, "stated": {}}}
    tables = [table(name=f"{name}.csv", item=list("abcdefgh"), belief=held, outcome=[1, 0] * 4)
              for name, held in (("one", [0.9, 0.2] * 4), ("two", [0.6, 0.3, 0.7, 0.4] * 2))]  # fmt: skip

    async def talk(client: Any) -> None:
        planned = await client.call_tool("plan", asked)
        assert said(planned).startswith("truth on tiny-truth: 6 items "), said(planned)
        done = await client.call_tool("run", asked)
        assert not done.is_error, said(done)
        place = Path(said(done).splitlines()[-1])
        assert (place / "scores.json").is_file()
        assert place.parent == tmp_path / "runs"
        again = await client.call_tool("report", {"run": str(place)})
        assert said(again) == said(done)
        found = await client.call_tool("compare", {"paths": [str(path) for path in tables], "metrics": ["brier"]})
        assert not found.is_error, said(found)
        assert "brier" in said(found)
        wrong = await client.call_tool("plan", {"experiment": "trth"})
        assert wrong.is_error
        assert "truth" in said(wrong)

    served(tmp_path / "runs", talk)


def test_what_was_changed_meanwhile_is_read_anew_or_refused(
    tmp_path: Path, tiny_for: Callable[[str], Path], tiny_folder: Path
) -> None:
    model = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    questions = [{"question": "apple stone", "options": ["river", "apple"]}]
    asked = {
        "experiment": "truth",
        "model": str(tiny_for("truth")),
        "settings": {"items": 6, "bootstrap_draws": 50, "stated": {}},
    }

    async def talk(client: Any) -> None:
        before = said(await client.call_tool("ask", {"model": str(model), "questions": questions}))
        weights = load_file(model / "model.safetensors")
        changed = {name: array + np.float32(0.3) * (array > 0) for name, array in weights.items()}
        save_file(changed, model / "model.safetensors", metadata={"format": "pt"})
        assert said(await client.call_tool("ask", {"model": str(model), "questions": questions})) != before
        long = await client.call_tool(
            "ask", {"model": str(model), "questions": [{"question": "apple " * 20_000, "options": ["a", "b"]}]}
        )
        assert "NaN" not in said(long)
        done = await client.call_tool("run", asked)
        place = Path(said(done).splitlines()[-1])
        page = (place / "report.json").read_text()
        (place / "report.json").write_text(page.replace("unreadable", "readable"))
        assert (await client.call_tool("report", {"run": str(place)})).is_error
        elsewhere = tmp_path / "elsewhere.yaml"
        elsewhere.write_text(json.dumps({"path": str(model), "server": "http://127.0.0.1:9"}))
        for name, given, told in (
            ("compare", {"paths": []}, "paths: none are given"),
            ("compare", {"paths": ["a\0b"]}, "null"),
            ("plan", asked | {"settings": {"model.server": "http://127.0.0.1:9"}}, "model.server"),
            (
                "ask",
                {"model": str(elsewhere), "questions": [{"question": "Is it?", "options": ["a", "b"]}]},
                "model.server",
            ),
        ):
            result = await client.call_tool(name, given)
            assert result.is_error, (name, given)
            assert told in said(result), said(result)

    served(tmp_path / "runs", talk)


def test_a_client_never_allows_a_models_code(tmp_path: Path, tiny_folder: Path) -> None:
    evil, mark = Path(shutil.copytree(tiny_folder, tmp_path / "evil")), tmp_path / "ran"
    (evil / "evil.py").write_text(CODE.format(mark=str(mark)))
    config = json.loads((evil / "config.json").read_text())
    (evil / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModelForCausalLM": "evil.EvilModel"}}))
    trusting = tmp_path / "trusting.yaml"
    trusting.write_text(json.dumps({"name": "evil", "path": str(evil), "trust_remote_code": True}))
    study = tmp_path / "study.yaml"
    study.write_text(
        json.dumps({"experiment": "truth", "model": {"name": "e", "path": str(evil), "trust_remote_code": True}})
    )
    questions = [{"question": "?", "options": ["a", "b"]}]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("ask", {"model": str(trusting), "questions": questions}),
        ("run", {"experiment": "truth", "model": str(trusting)}),
        ("plan", {"experiment": str(study)}),
        ("run", {"experiment": str(study)}),
        ("run", {"experiment": "truth", "model": str(evil), "settings": {"model.trust_remote_code": True}}),
        ("run", {"experiment": "truth", "settings": {"model": {"path": str(evil), "trust_remote_code": True}}}),
        ("plan", {"experiment": "truth", "model": str(evil), "settings": {"model.trust_remote_code": "yes"}}),
    ]

    async def talk(client: Any) -> None:
        for name, given in calls:
            result = await client.call_tool(name, given)
            assert result.is_error, (name, given)
            assert "code" in said(result), said(result)

    served(tmp_path / "runs", talk)
    assert not mark.exists()
