"""Pages with hostile names, texts and cells in a real browser: nothing of them runs, and nothing is requested."""

import contextlib
import dataclasses
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner

from doxascope.experiments.cli.main import cli
from doxascope.experiments.compare import compare
from doxascope.experiments.compare.card import make_card
from doxascope.experiments.compare.page import page
from doxascope.experiments.probing.jobs import evaluate_job, sweep_job
from doxascope.experiments.probing.settings import load_job
from doxascope.experiments.report.document import Prose, Report, Top
from doxascope.experiments.report.html import to_html
from doxascope.experiments.report.record import read
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.pages import index_page
from doxascope.experiments.run.runner import run
from doxascope.hooks.checks.tiny_models import save_tiny

MARK = "document.documentElement.dataset.ran=1"
NAME = f'"><img src=x onerror="{MARK}">'
"""As long and as odd as the name of a model may be."""
SMALL = ["items=6", "stated.numbers=[]", "token_budget=4096", "capture.sites=[resid_post]", "bootstrap_draws=50"]
QUICK = "{permutations: 19, refits: 20, penalties: [100.0], folds: 3, control_draws: 2, transfer: [], depth: 0.5}"
BY_COMMAND = ("ask", "steer", "trace", "beside", "detector", "verify", "score", "collect")
KINDS = ("run", "index", "sweep", "probe", "card", "compare", "tables", "every text", *BY_COMMAND)
HARNESS = """<!doctype html><body><script>const pages = %s;</script><pre id="found"></pre><script>
(async () => {
  const found = {}, later = (ms) => new Promise((done) => setTimeout(done, ms));
  for (const [name, text] of Object.entries(pages)) {
    const frame = document.createElement("iframe");
    frame.srcdoc = text;
    await new Promise((done) => { frame.onload = done; document.body.append(frame); });
    const inner = frame.contentDocument;
    for (const one of inner.querySelectorAll("details")) one.open = true;
    for (const one of inner.querySelectorAll("button, summary, th")) one.click();
    for (const one of inner.querySelectorAll("select, input")) {
      one.value = one.options ? one.options[one.options.length - 1].value : "<b";
      for (const event of ["input", "change"]) one.dispatchEvent(new Event(event, { bubbles: true }));
    }
    for (const one of inner.querySelectorAll("details")) one.open = true;
    await later(200);
    found[name] = { ran: inner.documentElement.dataset.ran || "", seen: inner.body.innerText.includes("onerror"),
      made: inner.querySelectorAll("[onerror], [onload], iframe, object, base, link, meta[http-equiv=refresh]," +
        "[href^='javascript:'], [href^='data:text/html']").length,
      turned: [inner, ...inner.querySelectorAll("body :not(script)")].some((one) =>
        /[\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]/.test(
          [one.title, ...[...one.childNodes].filter((x) => x.nodeType == 3).map((x) => x.data)])),
      asked: frame.contentWindow.performance.getEntriesByType("resource").map((one) => one.name) };
    frame.remove();
  }
  document.querySelector("#found").textContent = JSON.stringify(found);
})();
</script></body>"""


class Server(HTTPServer):
    """Writes down what is asked of it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Answer(BaseHTTPRequestHandler):
    """Nothing, to whatever is asked."""

    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append(self.path)
        self.send_response(404)
        self.end_headers()

    def log_message(self, format: str, *given: object) -> None:
        """It says nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Of which the pages would ask."""
    listening = Server()
    yield listening
    listening.shutdown()


def payload(server: str) -> str:
    """What breaks out of text, attributes, scripts, styles, titles, comments and data in JSON, and leaves marks."""
    code = f"{MARK};fetch('{server}/fetched')"
    return (
        f"\"'>--></title></style></textarea></script></svg><script>{code}</script>"
        f'<img src="{server}/image" onerror="{code}"><svg onload="{code}"><a href="javascript:{code}">x</a>'
        f'<link rel=stylesheet href={server}/style><style>@import "{server}/import";</style><base href={server}>'
        f'<iframe src="{server}/frame"></iframe><meta http-equiv=refresh content="0;url={server}/refresh">'
        f'<object data="data:text/html,<script>{code}</script>"></object><a href="data:text/html,{code}">y</a>'
        f"<math><mtext></form><form><mglyph><style></math><img src={server}/math onerror={MARK}>\u202e\u2066\u200f"
        f"{{{{7*7}}}}${{{code}}}`\\u003cscript\\u003e{code}\\u003c/script\\u003e]]>&lt;script&gt;"
    )


def everywhere(value: Any, told: str) -> Any:
    """A document with something hostile in each of its texts but those that are drawings, links or names of kinds."""
    if isinstance(value, str):
        return value + told
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(everywhere(one, told) for one in value)
    if hasattr(value, "_fields"):
        return type(value)(*(everywhere(one, told) for one in value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        texts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        kept = {"kind", "figure", "svg", "pdf", "data", "link", "tone", "id", "stem"}
        return dataclasses.replace(value, **{k: everywhere(v, told) for k, v in texts.items() if k not in kept})
    return value


def by_commands(out: Path, told: str, model: Path, table: Path) -> dict[str, Path]:
    """Kind -> folder of what a command leaves of questions, answers, statements, a text and columns of a stranger."""
    columns = {"id": [f"{i}{told}" for i in range(4)], "question": [f"Is {i} so?{told}" for i in range(4)]}
    columns |= {f"option_{i}": [f"{word}{told}"] * 4 for i, word in enumerate(("no", "yes"), 1)}
    pd.DataFrame(columns | {"cluster": columns["id"], told: columns["id"]}).to_csv(out / "asked.csv", index=False)
    statements = {"statement": [f"{i}{told}" for i in range(4)], "label": [0, 1, 0, 1]}
    pd.DataFrame(statements).to_csv(out / "statements.csv", index=False)
    lies = {"text": statements["statement"], "label": [0, 1, 0, 1], "instructed": 0, "held": [0.9, 0.2, 0.8, 0.1]}
    lies |= {name: [f"{i % 2}{told}" for i in range(4)] for name in ("cluster", "style", "claim")}
    pd.DataFrame(lies).to_csv(out / f"{NAME.replace('/', '')}.csv", index=False)
    claims = {"claim": columns["id"], "facet": columns["id"], "text": columns["question"], "believed": f"yes{told}"}
    claims |= {"options": f"yes{told}|no{told}", "cluster": columns["id"]}
    pd.DataFrame(claims).to_csv(out / f"claims{NAME.replace('/', '')}.csv", index=False)
    width = json.loads((out / "reads" / "config.json").read_text())["hidden_size"]
    detector = f"{NAME.replace('/', '')}.npz"
    np.savez(out / detector, direction=np.ones(width), layer=0, threshold=0.0)
    (out / "letter.txt").write_text(f"It is so. {told}. {told}\nIt is not.", encoding="utf-8")
    other = model.with_name("other.yaml")
    other.write_text(yaml.safe_dump(yaml.safe_load(model.read_text()) | {"name": f"{NAME[:-1]} >"}))
    few = ["-m", str(model), "-o", "bootstrap_draws=50"]
    steered = ["--direction", "statements.csv", "-o", "layers=[0]", "-o", "controls={random: 1, shuffled: 1}"]
    asked = ["--question", f"so?{told}", "--option", f"yes{told}", "--option", f"no{told}"]
    commands = {
        "ask": ["run", "ask", "asked.csv", *few],
        "steer": ["steer", "asked.csv", *few, *steered, "-o", "strengths=[1.0]"],
        "trace": ["trace", "letter.txt", "-m", str(model), *asked],
        "beside": ["trace", "letter.txt", "-m", str(model), "--beside", str(other), *asked],
        "detector": ["detector", detector, "--on", f"{NAME.replace('/', '')}.csv", "-m", str(model)],
        "verify": ["verify", str(model), "--twin", str(other), "--claims", f"claims{NAME.replace('/', '')}.csv"],
        "score": ["score", table.name, "--by", "who", "--cluster", f"by{told}"],
        "collect": ["collect", "runs"],
    }
    with contextlib.chdir(out):
        for kind, command in commands.items():
            done = CliRunner().invoke(cli, [*command, "--out", f"left/{kind}"], catch_exceptions=False)
            assert done.exit_code == 0, (kind, done.output)
    return {kind: next((out / "left" / kind).rglob("report.html")).parent for kind in BY_COMMAND}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, server: Server) -> dict[str, str]:
    """Kind -> page, each of work on a model and on tables of a stranger."""
    out, told = tmp_path_factory.mktemp("pages"), payload(server.url)
    model, runs = out / "model.yaml", []
    for template in ("plain", "own"):
        model.write_text(yaml.safe_dump({"name": NAME, "path": str(tiny_folder), "template": template}))
        runs.append(run(*load_config("truth", SMALL, str(model)), out / "runs"))
    (out / "job.yaml").write_text(yaml.safe_dump({"study": yaml.safe_load(QUICK)}))
    sweep = sweep_job(load_job(str(out / "job.yaml"), [runs[1].path]), out / "probes")
    shutil.copytree(sweep, out / "probe")
    other = run(*load_config("truth", [*SMALL, "items=12"], str(model)), out / "others").path
    job = load_job(str(out / "job.yaml"), [other], [f"probe={out / 'probe' / 'probe'}"])
    methods = {"free": {"forms": ["{option}"]}}
    wanted = {"consistency": {"items": 3, "registered.n": 3, "bootstrap_draws": 50, "methods": methods}}
    (out / "set.yaml").write_text(yaml.safe_dump({"version": 1, "runs": wanted}))
    card = make_card(str(model), out / "cards", chosen=str(out / "set.yaml")).folder
    tables = [out / f"{side}{NAME.replace('/', '')}.csv" for side in ("mine", "theirs")]
    for i, path in enumerate(tables):
        rows = [(f"q{n}{told}", (n + i) / 20, n / 20, n % 2, *(f"{n % k}{told}" for k in (2, 6))) for n in range(1, 13)]
        columns = ["question", "prior", "posterior", "outcome", "who", f"by{told}"]
        pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    save_tiny(out / "reads", [told] * 3)
    model.write_text(yaml.safe_dump({"name": NAME, "path": str(out / "reads")}))
    left = by_commands(out, told, model, tables[0])
    documents = {
        "index": index_page(out / "runs"),
        "probe": everywhere(evaluate_job(job), told),
        "compare": page(compare(*(folder.path for folder in runs)), {"names": told}),
        "tables": page(compare(*tables), {"map": told}),
        "every text": everywhere(read(runs[1].path / "report.json"), told),
    }
    written = {"run": runs[1].path, "sweep": sweep, "card": card, **left}
    found = {name: (folder / "report.html").read_text(encoding="utf-8") for name, folder in written.items()}
    return found | {name: to_html(document) for name, document in documents.items() if isinstance(document, Report)}


def seen(browse: Callable[[str], str], pages: dict[str, str]) -> dict[str, Any]:
    """What a browser makes of pages of which everything is unfolded, clicked, chosen and typed into."""
    dom = browse(HARNESS % json.dumps(pages).replace("<", "\\u003c"))
    found = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    assert found is not None, dom[:500]
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


@pytest.fixture(scope="module")
def browsed(pages: dict[str, str], browse: Callable[[str], str]) -> dict[str, Any]:
    return seen(browse, pages)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_hostile_page_runs_and_nothing_is_requested(
    kind: str, browsed: dict[str, Any], server: Server
) -> None:
    found = browsed[kind]
    assert found["seen"]  # it stands there, as text
    assert (found["ran"], found["made"], found["turned"]) == ("", 0, False)
    assert [name for name in found["asked"] if not name.startswith("data:")] == []
    assert server.asked == []


def test_the_look_finds_what_runs_and_what_is_requested(browse: Callable[[str], str]) -> None:
    """Without escapes, and then under the policy of our pages."""
    other = Server()
    code = f"<script>{MARK};fetch('{other.url}/fetched')</script><img src={other.url}/image onerror=\"{MARK}\">"
    bare = f"<!doctype html><body>onerror{code}"
    empty = to_html(Report("a", "b", Top(said="c", verdict=Prose(text="d")), ()))
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', empty)
    assert policy is not None
    under = seen(browse, {"page": bare.replace("<body>", f"{policy[0]}<body>")})["page"]
    assert (under["ran"], other.asked) == ("", [])
    found = seen(browse, {"page": bare})["page"]
    assert found["ran"] == "1"
    assert found["made"] == 1
    assert set(other.asked) == {"/fetched", "/image"}
    other.shutdown()
