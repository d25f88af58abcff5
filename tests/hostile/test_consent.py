"""Code of a model runs by this command line alone: every command is given a run, settings and a preset of a stranger,
whose model would leave a mark, and leaves none; with consent it does."""

import copy
import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
import yaml

from doxascope import UserError, load
from doxascope.experiments.cli.main import cli
from doxascope.experiments.materials.entities import rank_words
from doxascope.experiments.run.config import load_config, stored_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.ray_workers import _Actor
from doxascope.experiments.run.runner import run
from doxascope.hooks.model.consent import consented
from doxascope.hooks.model.spec import ModelSpec, resolve_model

CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

Path({mark!r}).touch()


class EvilConfig(LlamaConfig):
    def __init__(self, *given, **named):
        Path({mark!r}).touch()
        super().__init__(*given, **named)


class EvilModel(LlamaForCausalLM):
    config_class = EvilConfig


class EvilTokenizer(PreTrainedTokenizerFast):
    pass
"""
OWN = {"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.EvilModel"}
SMALL = ["items=6", "stated.numbers=[]", "token_budget=4096", "capture.sites=[resid_post]", "bootstrap_draws=50"]
QUICK = "{permutations: 19, refits: 20, penalties: [100.0], folds: 3, control_draws: 2, transfer: [], depth: 0.5}"
QUICKLY_READ = {
    "items": 3,
    "bootstrap_draws": 50,
    "methods": {"letters": {"labels": ["A", "B", "C"], "forms": ["{option}"]}},
}
WALK: dict[str, list[str]] = {
    "run": [
        "study.yaml --out out",
        "ask questions.csv -m evil.yaml --out out",
        "ask questions.csv -m evil-preset --out out",
        "received/config.yaml --out out",
        "martingale -m {tiny} -o stated.judges.j.model={evil} -o items=2 -o gate_urns=0 --out out",
        "truth -m {tiny} -o model.path=evil --registration received/config.yaml --out out",
    ],
    "plan": [
        *("study.yaml", "received/config.yaml", "entities.yaml", "entities.yaml --item x", "study.yaml --item x"),
        *(
            "truth -m evil.yaml -o items=6",
            "truth -m evil-preset --item x",
            "study.yaml --power received --effect brier=0.1",
        ),
    ],
    "certify": ["evil.yaml", "evil-preset", "evil"],
    "check": ["received"],
    "report": ["received"],
    "sheet": ["received sheet.csv"],
    "evidence": ["sycophancy evidence.yaml -m evil.yaml", "study.yaml evidence.yaml -o items=2"],
    "ls": ["--out .", "--out . --html"],
    "score": ["received", "received/beliefs", "received --ratings questions.csv"],
    "tables": ["received", "received --latex"],
    "compare": ["received", "received received"],
    "card": [
        *("evil.yaml --set set.yaml", "evil-preset --set set.yaml", "evil --set set.yaml", "{tiny} --set set.yaml"),
        *("{tiny} --set set.yaml -o model.path=evil", "{tiny} --set set.yaml --against received"),
    ],
    "validate": [
        "honest --contexts 60 --folder organisms --out validation",
        "--english evil.yaml evil-preset honest --contexts 12 --folder organisms --out english",
    ],
    "doctor": [""],
    "activations ls": ["received"],
    "activations check": ["received"],
    "activations export": ["received copy.npz"],
    "activations pack": ["received"],
    "sweep": [
        "swept.yaml --out swept",
        "varied.yaml --out swept",
        "truth -m evil.yaml -o items=6 --out swept",
        "study.yaml --out swept",
        "received/config.yaml -m evil-preset --out swept",
        "truth -m {tiny} -o items=6 --vary model.path=[evil] --out swept",
    ],
    "steer": [
        "questions.csv -m evil.yaml --direction statements.csv --out out",
        "questions.csv -m {tiny} --direction evil.npy --out out",
        "questions.csv -m {tiny} -o model.path=evil --direction {probe} --out out",
    ],
    "collect": ["received", ". --out collected"],
    "trace": [
        "letter.txt --question so? -m evil.yaml --out traced",
        "letter.txt --question so? -m evil-preset --out traced",
        "received --readout x --out traced",
        "received --readout {said} --out traced",
        "letter.txt --question so? --probe {probe} -m evil-preset --out traced",
        "letter.txt --question so? --beside evil-preset --out traced",
    ],
    "detector": [
        "lies.npz --on lies.csv -m evil.yaml --out detected",
        "lies.npz --on lies.csv -m evil-preset --out detected",
        "evil.pt evil.npz --on lies.csv -m {tiny} --out detected",
        "evil.npz --on lies.csv -m {tiny} --out detected",
        "{probe} --on lies.csv -m {tiny} --out detected",
    ],
    "verify": [
        "evil.yaml --twin {tiny} --claims claims.csv --out verified",
        "{tiny} --twin evil-preset --claims claims.csv --out verified",
        "{tiny} --twin {tiny} --claims claims.csv --probe evil.pt --out verified",
        "{tiny} --twin {tiny} --claims claims.csv --probe {probe} --out verified",
    ],
    "export": [f"received --to {name} --out exported" for name in ("inspect", "eee", "datasets", "model-card")],
    "mcp": ["--help"],  # tests/experiments/cli/test_mcp.py gives its tools the same
    "probe train": ["job.yaml received", "job.yaml received -o targets=evil.npy"],
    "probe sweep": [
        *("job.yaml received", "untrained.yaml received", "neutral.yaml received"),
        "job.yaml received -o untrained=true",
    ],
    "probe lens": ["job.yaml received -o lens.layers=[0]"],
    "probe eval": ["job.yaml received -o probe={probe}"],
    "probe apply": ["job.yaml received -o probe={probe}"],
    "probe causal": ["causal received -o probe={probe} -o contexts=4"],
}
"""Command -> what it is given; a new command needs a line, and so does a new option that names a file or a model."""
OURS = {"--out", "--register", "--allow-code"}
"""Options of what is written, and of consent."""


class _Pickled:
    """Leaves the mark wherever it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return self.mark.touch, ()


class Stranger:
    """What came from somebody else: a folder of a model with code, and everything that could name it."""

    def __init__(self, place: Path, tiny: Path) -> None:
        self.place, self.mark, self.tiny = place, place / "ran", tiny
        self.evil = Path(shutil.copytree(tiny, place / "evil"))
        (self.evil / "evil.py").write_text(CODE.format(mark=str(self.mark)))
        for name, own in (
            ("config.json", OWN),
            ("tokenizer_config.json", {"AutoTokenizer": [None, "evil.EvilTokenizer"]}),
        ):
            settings = json.loads((self.evil / name).read_text())
            (self.evil / name).write_text(json.dumps(settings | {"auto_map": own}))
        self.model: dict[str, Any] = {"name": "evil", "path": str(self.evil), "trust_remote_code": True}
        self.run = run(
            *load_config("truth", [*SMALL, "model.trust_remote_code=true"], str(self.evil)), place / "runs"
        ).path
        assert self.ran()  # the consent of a command line does run it
        self.run.rename(place / "received")
        self.write("evil.yaml", self.model)
        self.write("study.yaml", {"experiment": "consistency", "model": self.model, **QUICKLY_READ})
        entities = {"reference": str(place / "evil.yaml")}
        self.write(
            "entities.yaml",
            {"experiment": "consistency", "model": {"name": "t", "path": str(tiny)}, "entities": entities},
        )
        self.write(
            "set.yaml", {"version": 1, "runs": {"consistency": QUICKLY_READ | {"model.trust_remote_code": True}}}
        )
        trusting = {"items": 6, "model.trust_remote_code": True}
        self.write("swept.yaml", {"experiments": {"truth": trusting}, "models": ["evil.yaml"], "settings": trusting})
        vary = {"model.trust_remote_code": [True]}
        self.write("varied.yaml", {"experiments": ["truth"], "models": ["evil.yaml"], "vary": vary})
        for name, more in (("job", {}), ("untrained", {"untrained": True}), ("neutral", {"neutral": 100})):
            self.write(f"{name}.yaml", {"study": yaml.safe_load(QUICK), **more})
        (place / "statements.csv").write_text("statement,label\nIt is,1\nIt is not,0\n")
        np.save(place / "evil.npy", np.array([_Pickled(self.mark)], dtype=object))
        np.savez(place / "evil.npz", direction=np.array([_Pickled(self.mark)], dtype=object), allow_pickle=True)
        np.savez(place / "lies.npz", direction=np.ones(2), layer=0, threshold=0)
        torch.save({"state_dict": {}, "hyperparams": _Pickled(self.mark)}, place / "evil.pt")
        (place / "lies.csv").write_text("text,label,cluster\nIt is,0,a\nIt is not,1,a\n")
        claims = ("claim,facet,text,believed,reading", "c,a,so?,Yes,exact", "c,b,It is,true,probe", "")
        (place / "claims.csv").write_text("\n".join(claims))
        (place / "letter.txt").write_text("It is. It is not.")
        (place / "questions.csv").write_text("id,question,option_a,option_b\nq,Is it so?,yes,no\n")
        shutil.copytree(self.evil, place / "organisms" / "honest")
        (place / "evil_preset.py").write_text(f"SETTINGS = {self.model!r}\n")
        (place / "evil_preset-1.dist-info").mkdir()
        (place / "evil_preset-1.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: evil-preset\nVersion: 1\n"
        )
        (place / "evil_preset-1.dist-info" / "entry_points.txt").write_text(
            "[doxascope.models]\nevil-preset = evil_preset:SETTINGS\n"
        )

    def write(self, name: str, settings: dict[str, Any]) -> None:
        (self.place / name).write_text(yaml.safe_dump(settings))

    def ran(self) -> bool:
        """Whether the code has run since this was asked last."""
        there = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return there


@pytest.fixture(scope="module")
def stranger(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    return Stranger(tmp_path_factory.mktemp("stranger"), tiny_folder)


@pytest.fixture
def call(stranger: Stranger, command_line: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a command beside what came, with the preset installed and variables that might be taken for consent."""
    monkeypatch.syspath_prepend(str(stranger.place))
    for name in (
        "TRUST_REMOTE_CODE",
        "HF_HUB_TRUST_REMOTE_CODE",
        "HF_TRUST_REMOTE_CODE",
        "DOXASCOPE_TRUST_REMOTE_CODE",
    ):
        monkeypatch.setenv(name, "1")
    probes = list(stranger.place.glob("out-of-train/*/probe.npz"))
    if not probes:
        done = command_line("probe", "train", "job.yaml", "received", "--out", "out-of-train", cwd=stranger.place)
        assert done.returncode == 0, done.stderr
        probes = list(stranger.place.glob("out-of-train/*/probe.npz"))
    said = next(RunFolder.open(stranger.place / "received").said())["readout_id"]
    given = {
        "said": said,
        "probe": probes[0].with_suffix(""),
        "tiny": stranger.tiny,
        "evil": stranger.place / "evil.yaml",
    }
    stranger.ran()
    return lambda line: command_line(*line.format(**given).split(), cwd=stranger.place)


def commands(group: click.Group = cli, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_the_walk_knows_every_command_and_all_that_it_can_be_given() -> None:
    """By the parser: each command, and each of its options by which files, models and settings come in."""
    assert set(WALK) == {name for name, _ in commands()}
    for name, command in commands():
        options = [option for option in command.params if isinstance(option, click.Option)]
        files = {word for option in options if isinstance(option.type, click.Path) for word in option.opts}
        words = {word for option in options for word in option.opts} & {"-m", "-o", "--vary", "--english", "--set"}
        assert not (files | words) - OURS - set(" ".join(WALK[name]).split()), name


@pytest.mark.parametrize("command", WALK)
def test_no_command_runs_code_that_nobody_allowed(command: str, call: Callable[..., Any], stranger: Stranger) -> None:
    for given in WALK[command]:
        done = call(f"{command} {given}")
        assert not stranger.ran(), (given, done.stdout, done.stderr)
        assert done.returncode in (0, 1, 2), done.stderr
        assert "not foreseen" not in done.stderr, (given, done.stderr)


@pytest.mark.parametrize(
    "line",
    [
        "run study.yaml --out allowed -o model.trust_remote_code=true",
        "plan study.yaml --allow-code evil",
        "sweep truth -m evil.yaml -o items=6 --out allowed --allow-code evil",
        "certify evil.yaml --allow-code evil",
        "probe sweep untrained.yaml received --allow-code evil",
        "probe lens job.yaml received -o lens.layers=[0] --allow-code evil",
    ],
)
def test_with_consent_it_runs(line: str, call: Callable[..., Any], stranger: Stranger) -> None:
    done = call(line)
    assert stranger.ran(), done.stderr


def test_who_refuses_says_how_it_is_allowed(call: Callable[..., Any], stranger: Stranger) -> None:
    for line in ("plan study.yaml", "certify evil.yaml", "probe lens job.yaml received", "plan entities.yaml"):
        done = call(line)
        assert done.returncode == 2
        assert f"to allow it, say -o model.trust_remote_code=true, or --allow-code {stranger.evil}" in done.stderr
        assert done.stderr.count("\n") == 1
    assert f"--allow-code {stranger.evil}" in call("sweep swept.yaml --out no").stderr


def test_consent_is_of_a_call_and_never_of_what_was_read(stranger: Stranger) -> None:
    """What was allowed once is not allowed by what it left, and an argument in Python is."""
    spec = resolve_model(str(stranger.place / "evil.yaml"))
    for made in (spec, ModelSpec(**stranger.model)):
        with pytest.raises(UserError, match="no file may allow"):
            load(made)
    with pytest.raises(UserError, match="no file may allow"):
        load(spec, dtype="float32")
    with pytest.raises(UserError, match="no file may allow"):
        rank_words(["stone", "river"], str(stranger.place / "evil.yaml"))
    _, config = load_config("consistency", ["model.trust_remote_code=true"], str(stranger.evil))
    assert consented(config) == [stranger.evil]
    _, stored = stored_config(stranger.place / "received" / "config.yaml")
    assert stored.model.trust_remote_code
    assert not consented(stored)
    assert not stranger.ran()
    with load(spec, trust_remote_code=True) as lm:
        assert type(lm.model).__name__ == "EvilModel"
    assert stranger.ran()


def allowed(spec: ModelSpec) -> ModelSpec:
    spec.allow_code()
    return spec


COPIES: dict[str, tuple[bool, Callable[[ModelSpec], ModelSpec]]] = {
    "a copy": (True, copy.copy),
    "a deep copy": (True, copy.deepcopy),
    "a copy of pydantic": (True, lambda spec: spec.model_copy(deep=True)),
    "another back end": (True, lambda spec: spec.model_copy(update={"backend": "nnsight", "name": "other"})),
    "pickled": (False, lambda spec: pickle.loads(pickle.dumps(spec))),
    "written and read": (False, lambda spec: ModelSpec(**spec.model_dump())),
    "as JSON": (False, lambda spec: ModelSpec.model_validate_json(spec.model_dump_json())),
    "another path": (False, lambda spec: spec.model_copy(update={"path": "elsewhere"})),
    "a hub id": (False, lambda spec: spec.model_copy(update={"path": None, "hub": "a/b"})),
}


@pytest.mark.parametrize("name", COPIES)
def test_consent_goes_with_copies_of_one_place_alone(name: str, stranger: Stranger) -> None:
    kept, made = COPIES[name]
    assert made(allowed(ModelSpec(**stranger.model))).code_allowed == kept
    assert not made(ModelSpec(**stranger.model)).code_allowed


def test_a_loaded_model_s_consent_does_not_reach_another_place(stranger: Stranger) -> None:
    other = Path(shutil.copytree(stranger.evil, stranger.place / "other", dirs_exist_ok=True))
    spec = allowed(ModelSpec(**stranger.model))
    changes: tuple[dict[str, Any], ...] = ({"path": str(other)}, {"path": str(other), "dtype": "float32"})
    for given in changes:
        with pytest.raises(UserError, match="no file may allow"):
            load(spec, **given)
        with pytest.raises(UserError, match="no file may allow"):
            load(spec.model_copy(update=given))
    assert not stranger.ran()


@pytest.mark.parametrize("key", ["_allowed", "code_allowed", "__pydantic_private__", "code_place"])
def test_no_key_of_a_file_is_consent(key: str, stranger: Stranger) -> None:
    stranger.write("keyed.yaml", stranger.model | {key: str(stranger.evil)})
    with pytest.raises(UserError):
        load(resolve_model(str(stranger.place / "keyed.yaml")))
    assert not stranger.ran()


def test_a_worker_elsewhere_has_the_consent_that_it_is_told_and_no_other(stranger: Stranger) -> None:
    _, stored = stored_config(stranger.place / "received" / "config.yaml")
    with pytest.raises(UserError, match="no file may allow"):
        _Actor(stored.model_dump(mode="json"), [], str(stranger.place)).began()
    assert not stranger.ran()
    _, config = load_config("truth", [*SMALL, "model.trust_remote_code=true"], str(stranger.evil))
    _Actor(config.model_dump(mode="json"), list(map(str, consented(config))), str(stranger.place)).began()
    assert stranger.ran()


@pytest.mark.parametrize("base", ["evil", "evil.yaml"])
def test_what_an_adapter_says_of_its_base_allows_nothing(
    base: str, stranger: Stranger, call: Callable[..., Any]
) -> None:
    """Nor does the tokenizer that it brings."""
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(stranger.tiny)
    folder = stranger.place / f"adapter-{base.replace('.', '-')}"
    peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"])).save_pretrained(folder)
    settings = json.loads((folder / "adapter_config.json").read_text())
    settings |= {"base_model_name_or_path": str(stranger.place / base)}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    for name in ("tokenizer.json", "tokenizer_config.json", "evil.py"):
        shutil.copy(stranger.evil / name, folder)
    for line in (
        f"plan truth -m {folder}",
        f"run truth -m {folder}",
        f"plan truth -m {{tiny}} -o model.adapter={folder}",
    ):
        done = call(line)
        assert not stranger.ran(), line
        assert done.returncode in (0, 2), done.stderr
        if base == "evil.yaml" and "model.adapter" not in line:  # settings could name a server, to which prompts go
            assert "of a model that is not to be found" in done.stderr


@pytest.mark.parametrize("adapted", ["merged", "attached"])
@pytest.mark.parametrize("method", ["SHADOW", "XLORA"])
def test_an_adapter_loads_no_model_and_no_adapter_that_it_names(
    method: str, adapted: Any, stranger: Stranger, tmp_path: Path
) -> None:
    """PEFT would load both, and a hub's library ask at the terminal whether their code may run."""
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(stranger.tiny)
    peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path)
    names = {
        "shadow_model": str(stranger.evil),
        "shadow_num_hidden_layers": None,
        "adapters": {"0": str(stranger.evil)},
    }
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": method} | names))
    with pytest.raises(UserError, match=f"'{method}' is no method that changes layers alone"):
        load(str(stranger.tiny), adapter=str(tmp_path), adapted=adapted)
    assert not stranger.ran()


def test_a_judge_that_lies_elsewhere_needs_its_own_consent(stranger: Stranger) -> None:
    judge = {"name": "judge", "path": str(stranger.evil), "trust_remote_code": True}
    given = [f"stated.judges={{j: {{model: {json.dumps(judge)}}}}}", "items=2", "gate_urns=0"]
    _, config = load_config("martingale", given, str(stranger.tiny))
    assert not consented(config)
    _, config = load_config("martingale", [*given, "stated.judges.j.model.trust_remote_code=true"], str(stranger.tiny))
    assert consented(config) == [stranger.evil]
