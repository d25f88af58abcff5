"""Every line and every Python block of the README and the guides runs, on the demo's model.

Sizes are the smallest at which a line does what it says; `DOXASCOPE_GUIDES=full` takes those of the page, and the lines
that take minutes even when small. Another model's name is the demo's here, and names of runs are those that exist.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FULL = os.environ.get("DOXASCOPE_GUIDES") == "full"
MODEL = "smollm2-135m"

NOT_RUN = {
    "pip ": "installs",
    "make ": "is the set-up, the whole of the tests, or hours",
    "python benchmarks/": "measures for minutes on an idle machine",
    "python -m doxascope.benchmarks.calibration --workers 64": "needs a cluster",
    "calibration.verdicts": "simulates for minutes; tests/benchmarks/test_verdicts.py does at one size",
    "--executor slurm": "needs a cluster; tests/experiments/compare/test_sweep.py has jobs as processes",
    "--executor ray": "needs the extra `ray`, here or as a cluster; tests/experiments/run/test_ray_workers.py",
    "dev_rand_split.jsonl": "needs the published file; tests/experiments/materials/test_choices.py reads its layout",
    "bscore-paper": "needs the paper's questions; tests/experiments/suite/bscore reads their layout",
    "consistency-paper": "needs a list of titles; tests/experiments/suite/consistency reads its settings",
    "martingale-paper": "needs the paper's data",
    "sycophancy-paper": "needs the paper's data",
    "rationality-paper": "needs 2,000 draws of each answer; its tables are in tests/experiments/suite/rationality",
    "doxascope evidence": "has a larger model write; tests/experiments/suite/sycophancy runs it on a tiny one",
    "doxascope mcp": "serves until it is stopped; tests/experiments/cli/test_mcp.py talks to it",
    "--to inspect": "needs Inspect; tests/experiments/run/test_exports.py",
    "a.eval b.eval": "needs logs of Inspect; tests/metrics/tables/test_harness_logs.py makes and compares them",
    "samples_a.jsonl": "needs files of lm-eval; tests/metrics/tables/test_harness_logs.py makes and compares them",
    "samples_b.jsonl": "needs files of lm-eval; tests/experiments/compare/test_logs.py has a run beside one",
    "--against cards/": "needs a second checkpoint; tests/experiments/compare/test_card.py has one",
    "./mine --set my-set.yaml": "needs a model of one's own; tests/experiments/compare/test_card.py has one",
    "statements={files: [mine.csv]}": "tests/test_recipe.py runs the recipe as a whole",
    "doxascope probe train": "tests/test_recipe.py runs the recipe as a whole",
    "-o plan.random=20": "tests/test_recipe.py runs the recipe as a whole",
    "doxascope trace": "takes ten seconds; tests/experiments/probing/test_trace.py follows texts and runs",
    "doxascope detector": "needs one; tests/experiments/probing/test_detector.py makes files and runs them",
    "doxascope verify": "needs claims; tests/experiments/probing/test_verification.py makes files and runs them",
    "doxascope steer": "needs a direction; tests/experiments/suite/steer makes and runs every kind of file",
    "--ratings sheet.csv": "needs a sheet that people filled in; tests/experiments/suite/martingale/test_ratings.py",
    "validate --english": "reads three models for minutes; tests/experiments/synthetic/test_english.py reads two",
    "-m smollm2-135m+": "is read by tests/experiments/synthetic/test_english.py",
    "model.adapter=": "needs an adapter; tests/hooks/model/test_adapters.py makes and runs them",
    "model.server=": "needs a server; tests/hooks/exact/test_served.py",
    "model.thinking=on": "needs a model that thinks; tests/experiments/suite/martingale/test_thought.py",
}
"""Part of a line -> why it is not run here."""

LONG = (
    *("bscore-full", "martingale-full", "martingale-control", "rationality-full", "sycophancy-full"),
    *("doxascope certify", "--set standard", "doxascope validate --null", "experiments.synthetic.organisms"),
    *("validate late --folder", "doxascope probe causal", "doxascope probe apply", "heads=true", "head_out]"),
    *("lens={}", "lens.layers", "lens.jacobian", "lens.text", "orders=all", "world.of=asia"),
    *(
        "{of: history}",
        "doxascope card smollm2-135m",
        "consistency -o kinds=all",
        "doxascope run locate",
        "--take-over",
    ),
    *("{of: urn}", "{of: covariate}", "{of: testimony}", "layers=all -o batch_items=4"),
)
"""Parts of the lines that take minutes even when small."""

SMALL: dict[str, tuple[str, ...]] = {
    "ask": ("items=2",),
    "bscore": (
        *("items=1", "runs=2", "turns=2", "cuts=[2]", "confidence=null", "distributions={}"),
        *("controls=null", "queries=3"),
        "methods={words: {ask: '{question} {options}?', forms: ['{option}']}}",
    ),
    "consistency": (
        *("items=1", "fork.methods=[]"),
        "methods={free: {forms: ['{option}']}, "
        "letters: {reveal: 'Which one? A) {a} B) {b} C) {c}', labels: [A, B, C], forms: ['{option}']}}",
    ),
    "locate": ("items=2", "layers=[12]"),
    "martingale": (
        *("items=2", "chains=1", "gate_urns=0", "generation.max_new_tokens=16", "debate.turns=2", "stated={}"),
        *("domains={factual: {kind: computed}}", "reasoning=[cot]", "debate.max_new_tokens=8"),
        "methods={words: {ask: ['Your answer, {first} or {second}?']}, "
        "letters: {ask: ['A) {first} or B) {second}?'], labels: [A, B], forms: ['{option}']}}",
    ),
    "negation.yaml": (),
    "my-study.yaml": (),
    "rationality": (
        *("items=2", "pool=60", "iterations=2", "prompts={standard: '', exact: Be exact.}", "said.numbers=[of 10]"),
        "methods={words: {ask: ['{situation} {prompt} {ask} Answer {first} or {second}.']}}",
    ),
    "sycophancy": (
        *("items=1", "stated={}", "paraphrased=updates", "involvement=[third]", "evidence=[none, for]", "askers=[]"),
        *("tasks={worlds: {kind: computed}}", "asks=[{claim: 'Is it true that {claim}?', denial: 'Is it false?'}]"),
    ),
    "truth": ("items=12", "batch_items=12", "capture.layers=[12, 18]", "stated={}"),
}
"""What makes an experiment small."""
JOB = ("study.permutations=19", "study.refits=20", "study.folds=3", "study.control_draws=2", "positions=[answer]")
JOB += ("study.penalties=[1.0, 100.0]", "study.thresholds.groups=5", "untrained=false", "neutral=0")
STUDY = """
experiment: consistency
items: 8
fork: {methods: []}
batch_items: 1
bootstrap_draws: 50
methods: {letters: {reveal: "Which one? A) {a} B) {b} C) {c}", labels: [A, B, C], forms: ["{option}"]}}
"""
CARD = """
version: 1
runs: {truth: {items: 12, bootstrap_draws: 50}}
probe: {run: truth, settings: {positions: [], study.permutations: 19, study.refits: 20}}
"""

PLAN = """
experiments: {ask: {questions.file: questions.csv, items: 1, answers: [letters], orders: none}}
settings: {bootstrap_draws: 50}
"""

BLOCKS_NOT_RUN = {
    "activations.md": "is about a study of one's own; tests/hooks/store runs each call",
    "architecture.md": "draws",
    "causal.md": "leaves out the contexts; tests/experiments/probing/test_causal.py has them",
    "extending.md": "is a file; tests/experiments/run/test_outside.py runs it",
    "recipe-steering.md": "tests/test_recipe.py runs the recipe as a whole",
    "score.md": "needs the files of ForecastBench; tests/metrics/scoring/test_public_data.py runs it",
}
"""Page -> why its Python is not run here."""

LONG_BLOCKS = ("first-hour.md",)
"""Pages whose Python takes half a minute."""

GIVEN = {
    "ask.md": (
        "questions = [{'id': 'a', 'question': 'Is a whale a fish?', 'options': ['yes', 'no']}]\n"
        "others = [{'id': 'b', 'question': 'Is ice hot?', 'options': ['yes', 'no']}]"
    ),
    "edits.md": (
        "import numpy as np\n"
        "direction = np.random.default_rng(0).normal(size=576)\n"
        "talk = [{'role': 'user', 'content': 'Sam thinks it rains. Does it rain?'}]\n"
        "base = talk\n"
        "source = [{'role': 'user', 'content': 'Sam doubts it rains. Does it rain?'}]\n"
        "questions = ['Is a whale a fish?', 'Is ice cold?']"
    ),
    "probes.md": (
        "import numpy as np\n"
        "x, x_new = np.random.default_rng(0).normal(size=(2, 40, 8))\n"
        "y = np.random.default_rng(1).uniform(0.1, 0.9, 40)"
    ),
    "locate.md": (
        "import torch\n"
        "from doxascope import make_options\n"
        "talk = [{'role': 'user', 'content': 'Is a whale a fish? Answer yes or no, and nothing else.'}]\n"
        "base = lm.reader.query('q', talk, make_options(['yes', 'no']))\n"
        "donor_rows = torch.zeros(2, 576)"
    ),
    "usage.md": "messages = [{'role': 'system', 'content': 'Say one word.'}, {'role': 'user', 'content': 'Is it so?'}]",
    "metrics/b-score.md": (
        "single, multi, options = ['a', 'a', 'b', 'c'], ['a', 'b', 'b', 'c'], ['a', 'b', 'c']\n"
        "p_single, p_multi = rng.dirichlet([1, 1, 1], 6), rng.dirichlet([1, 1, 1], (2, 4))\n"
        "b, b_other, b_balanced = rng.uniform(-0.1, 0.2, (3, 40))\nquestions = np.arange(40)"
    ),
    "metrics/bayes.md": (
        "p_x, p_y_given_x, p_y, posterior, base, syc = rng.uniform(0.2, 0.8, (6, 40))\nscenario = np.arange(40) // 2"
    ),
    "metrics/consistency.md": (
        "prior, post = rng.dirichlet([1, 1, 1], (2, 40))\n"
        "rejected, triple, template = rng.integers(3, size=40), np.arange(40) // 2, np.arange(40) % 2"
    ),
    "metrics/decision.md": "p = rng.uniform(size=120)\naction, theta = rng.integers(2, size=(2, 120))",
    "metrics/inference.md": (
        "prior_exact, post_exact, prior_verbal, post_verbal = rng.uniform(0.1, 0.9, (4, 60))\n"
        "question = np.arange(60) // 2"
    ),
    "metrics/martingale.md": "trajectories = [list(steps) for steps in rng.uniform(0.1, 0.9, (40, 4))]",
    "metrics/white-box.md": (
        "prob = rng.dirichlet([1, 1, 1], 80)\ninner_logp = exact_logp = np.log(prob)\n"
        "option, item, rejected = ['red', 'blue', 'green'], np.arange(80) // 4, np.arange(80) % 4 - 1"
    ),
}
"""Page -> what its reader has at hand; those of the metrics have all public names and a generator, too."""
METRICS = "import numpy as np\nfrom doxascope.metrics import *\nrng = np.random.default_rng(0)\n"


def fenced(page: Path, kinds: tuple[str, ...]) -> list[str]:
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [code for kind, code in blocks if kind in kinds]


def commands() -> Iterator[str]:
    """Each line once, without the words beside it."""
    shown = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?((?:doxascope|python|make|pip) .*?)(?:\s{2,}.*|\s+#.*)?$")
    for page in PAGES:
        for row in "".join(fenced(page, ("", "console", "bash"))).splitlines():
            if line := shown.match(row.strip()):
                yield line[1]


LINES = list(dict.fromkeys(commands()))
RUN = [line for line in LINES if not any(part in line for part in NOT_RUN)]


def test_what_is_not_run_is_on_a_page() -> None:
    assert len(LINES) > 80
    for part in (*NOT_RUN, *LONG):
        assert any(part in line for line in LINES), f"no page has {part!r} any more"
    assert {page for page in BLOCKS_NOT_RUN if not (ROOT / "docs" / page).exists()} == set()
    assert len(RUN) > len(LINES) / 2


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages speak of."""
    folder = tmp_path_factory.mktemp("guides")
    for page, name in (("ask.md", "questions.csv"), ("questions.md", "riddles.csv")):
        (table,) = re.findall(rf"\$ cat {name}\n(.*?)\n\n", (ROOT / "docs" / page).read_text(), re.DOTALL)
        (folder / name).write_text(table + "\n")
    head, *told = (folder / "riddles.csv").read_text().splitlines()
    renamed = [f"{head.replace('question', 'text_en')},notes", *(f"{row},seen" for row in told)]
    (folder / "breakages.csv").write_text("\n".join(renamed) + "\n")
    rows = [f"q{i},{0.1 + 0.02 * i:.2f},{0.9 - 0.015 * i:.3f},{i % 2}" for i in range(40)]
    for name, shift in (("my-beliefs", 0), ("forecasts", 1), ("mine", 2), ("theirs", 3)):
        order = rows[shift:] if name in ("my-beliefs", "forecasts") else [rows[0], *rows[1 + shift :]]
        (folder / f"{name}.csv").write_text("\n".join(["question,prior,posterior,outcome", *order]) + "\n")
    steps = [
        f"{m},none,law,CoT,q{q},{t},{0.2 + 0.04 * q + 0.1 * (q + t) % 0.3:.2f}"
        for m in "ab"
        for q in range(9)
        for t in range(3)
    ]
    (folder / "steps.csv").write_text("\n".join(["model,prompt,domain,reasoning,question,step,belief", *steps]) + "\n")
    said = [
        f"m,random,q{q},{arm},{'abc'[(q + t) % 3]}" for q in range(3) for arm in ("single", "multi") for t in range(4)
    ]
    (folder / "answers.csv").write_text("\n".join(["model,category,question,arm,answer", *said]) + "\n")
    for name, kind in (("negation.py", "python"), ("negation.yaml", "yaml"), ("moved.py", "python")):
        text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
        (code,) = re.findall(rf"`{re.escape(name)}`:\n\n```{kind}\n(.*?)```", text, re.DOTALL)
        (folder / name).write_text(code)
    (folder / "my-study.yaml").write_text(STUDY)
    (folder / "plan.yaml").write_text(PLAN)
    (folder / "generic.txt").write_text("\n\n".join(f"It was {i} then, and {i * i % 17} after." for i in range(30)))
    (folder / "card.yaml").write_text(CARD)
    return folder


class Reader:
    """Does what the pages say, in a folder."""

    def __init__(self, command_line: Callable[..., Any], place: Path) -> None:
        self.command_line, self.place = command_line, place
        self.ended: dict[tuple[str, ...], Any] = {}

    def call(self, line: str) -> Any:
        """Run a line, on the demo's model and, unless all is wanted, small; lines that are the same then run once."""
        line = line.replace("compare RUN RUN", "compare runs/martingale-a runs/martingale-b")
        if line.startswith("doxascope probe"):  # a second run of an experiment is read with another template
            line = re.sub(r"(runs/\w+-)\*", r"\1...", line)
        written = shlex.split(line.replace("-m Qwen/Qwen3-0.6B", "").replace("Qwen/Qwen3-0.6B", ""))[1:]
        if "riddles.csv" in written:  # of other questions than the runs that other lines score together
            written += ["--out", "riddles"]
        words = [name for word in written for name in self.existing(word, 2 if written[0] == "compare" else 1)]
        words = words if FULL else smaller(words)
        if (key := tuple(words)) not in self.ended:
            self.ended[key] = self.command_line(*words, cwd=self.place)
        return self.ended[key]

    def existing(self, word: str, n: int = 1) -> list[str]:
        """What a word of a line stands for, at least `n` where it names all; made first where there are none."""
        key, equals, value = word.rpartition("=")
        target = value if value.startswith("probes/") else word
        if target == "RUN":
            return self.existing("runs/truth-...")
        if not (match := re.match(r"(runs|probes)/(\w+)-([\w.*-]+)((?:/\w+)?)$", target)):
            return [word]
        folder, name, which, rest = match.groups()
        place = {"a": 0, "A": 0, "b": 1, "B": 1}.get(which, 0)
        while len(there := self.made(folder, name)) < max(place + 1, n if which == "*" else 1):
            first = {"runs": f"doxascope run {name}", "probes": "doxascope probe sweep runs/truth-..."}[folder]
            done = self.call(first + (" -o model.template=plain" if there else ""))
            assert done.returncode == 0, done.stderr
        chosen = there if which == "*" else there[place : place + 1]
        return [f"{key}{equals if target != word else ''}{path.relative_to(self.place)}{rest}" for path in chosen]

    def made(self, folder: str, name: str) -> list[Path]:
        """The runs or probes of a name, the eldest first."""
        return sorted(
            self.place.glob(f"{folder}/{name}-*"),
            key=lambda path: min(file.stat().st_mtime_ns for file in path.iterdir()),
        )


def smaller(words: list[str]) -> list[str]:
    """A line made small; what it sets itself stays, but for the number of items."""
    settings: tuple[str, ...] = ()
    if words[0] == "run" or "--item" in words:
        settings = (*SMALL[words[1] if words[1] in SMALL else words[1].split("-")[0]], "bootstrap_draws=50")
    elif words[:2] == ["probe", "sweep"]:
        settings = JOB
    elif words[0] == "sweep":  # one plan, with what the line says of seeds, models and the folder
        options = words[next(i for i, word in enumerate(words) if word.startswith("-")) :]
        at = options.index("-o") if "-o" in options else len(options)
        return ["sweep", "plan.yaml", *options[:at], *options[at + 2 :]]
    elif words[0] == "validate":
        return [*words, "honest", "--contexts", "60"]
    elif words[0] == "card":
        return [*words, "--set", "card.yaml"]
    keys = [word.partition("=")[0] for word in words]
    if "items" in keys and any(setting.startswith("items=") for setting in settings):
        at = keys.index("items")
        words, keys = words[: at - 1] + words[at + 1 :], keys[: at - 1] + keys[at + 1 :]
    return words + [part for setting in settings if setting.partition("=")[0] not in keys for part in ("-o", setting)]


@pytest.fixture(scope="module")
def only_reader(place: Path) -> Reader:
    return Reader(print, place)


@pytest.fixture
def reader(
    command_line: Callable[..., Any], only_reader: Reader, smollm: Any, monkeypatch: pytest.MonkeyPatch
) -> Reader:
    """Runs that read the demo's model as it is share one that is loaded; what they close is their copy."""
    from doxascope.hooks.lm import open_model

    assert smollm.identity  # and with it what is checked at the first use

    def opened(spec: Any, **how: Any) -> Any:
        return copy(smollm) if spec == smollm.spec else open_model(spec, **how)

    monkeypatch.setattr("doxascope.experiments.run.worker.open_model", opened)
    only_reader.command_line = command_line
    return only_reader


@pytest.mark.parametrize("line", [line for line in RUN if line.startswith("doxascope ")])
def test_a_line_does_what_it_says(line: str, reader: Reader) -> None:
    if not FULL and any(part in line for part in LONG):
        pytest.skip("takes minutes: DOXASCOPE_GUIDES=full")
    done = reader.call(line)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", [line for line in RUN if line.startswith("python ")])
def test_a_module_does_what_it_says(line: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not FULL:
        pytest.skip("takes minutes: DOXASCOPE_GUIDES=full")
    import runpy

    _, _, module, *words = shlex.split(line)
    monkeypatch.chdir(ROOT if "--page-only" in words else place)
    monkeypatch.setattr("sys.argv", [module, *words])
    with contextlib.suppress(SystemExit):
        runpy.run_module(module, run_name="__main__")


@pytest.mark.parametrize("page", [page for page in PAGES if fenced(page, ("python",))], ids=lambda page: page.name)
def test_the_python_of_a_page_runs(
    page: Path, reader: Reader, place: Path, smollm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name in BLOCKS_NOT_RUN:
        pytest.skip(BLOCKS_NOT_RUN[page.name])
    if page.name in LONG_BLOCKS and not FULL:
        pytest.skip("takes half a minute: DOXASCOPE_GUIDES=full")
    import doxascope

    plain = doxascope.load

    def load(name: str, **how: Any) -> Any:
        return contextlib.nullcontext(smollm) if name == MODEL and not how else plain(name, **how)

    monkeypatch.setattr(doxascope, "load", load)
    monkeypatch.chdir(place)
    names: dict[str, Any] = {"lm": smollm}
    name = str(page.relative_to(page.parents[1] if page.parent.name == "metrics" else page.parent))
    exec((METRICS if name.startswith("metrics/") else "") + GIVEN.get(name, ""), names)
    for code in fenced(page, ("python",)):
        probe = "probes/probe-5e6f7a8b"
        there = reader.existing(f"{probe}/probe")[0].removesuffix("/probe") if probe in code else probe
        exec(compile(code.replace(probe, there), page.name, "exec"), names)
