"""What a plan says a run takes, and what it then took."""

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, AutoModelForCausalLM

from doxascope.base.errors import UserError
from doxascope.benchmarks.tiny_families import FAMILIES
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.estimate import CARDS, card_of, rates_of_runs
from doxascope.experiments.run.plan import make_plan
from doxascope.experiments.run.runner import run
from doxascope.hooks.model.shape import ModelShape, shape_from, shape_of
from doxascope.hooks.store import ActivationStore

FREE = "methods={free: {forms: ['{option}', '{Option}']}}"
EIGHT_B = ModelShape(parameters=8_030_000_000, active=7_000_000_000, width=4096, vocabulary=128_256, layers=32)


@pytest.fixture(scope="module")
def asked(tiny_for: Callable[[str], Path]) -> Callable[..., Any]:
    """The consistency experiment on a tiny model, and settings."""

    def ask(*changes: str) -> Any:
        settings = ["items=3", "orders=one", "registered=null", "bootstrap_draws=50", FREE, *changes]
        return load_config("consistency", settings, str(tiny_for("consistency")))

    return ask


def test_a_run_says_what_it_will_take_and_what_it_took(asked: Callable[..., Any], tmp_path: Path) -> None:
    told: list[str] = []
    experiment, config = asked()
    assert rates_of_runs(tmp_path, "consistency", config) is None
    first = run(experiment, config, tmp_path, tell=told.append)
    totals = first.manifest["totals"]
    assert re.search(r"^takes about [\d,]+ tokens, a time that is not known", told[0])
    assert told[1].startswith(f"took {totals['tokens_run']:,} tokens")
    counts = first.manifest["planned"]["counts"]
    assert (counts["tokens"], counts["readouts"]) == (totals["tokens_run"], totals["readouts"])
    rates = rates_of_runs(tmp_path, "consistency", asked("seed=1")[1])
    assert rates is not None
    assert rates.operations == pytest.approx(counts["operations"] / totals["seconds"])
    planned = make_plan(*asked("items=6", "seed=1"))
    taken = planned.takes(rates)
    assert taken is not None
    more = planned.counts.operations / counts["operations"]
    assert more > 1.5
    assert taken.seconds == pytest.approx(more * totals["seconds"])
    disk = sum(file.stat().st_size for file in first.path.rglob("*") if file.is_file())
    assert 0.2 < planned.takes(rates).disk / disk < 5  # type: ignore
    assert rates_of_runs(tmp_path, "consistency", asked("model.dtype=bfloat16")[1]) is None
    newer = shutil.copytree(first.path, tmp_path / "consistency-renamed")  # of another experiment, and faster
    manifest = json.loads((newer / "manifest.json").read_text())
    assert manifest["planned"]["experiment"] == "consistency"
    manifest["planned"]["experiment"] = "truth"
    manifest["totals"]["seconds"] /= 2
    (newer / "manifest.json").write_text(json.dumps(manifest))
    for experiment_name, times in (("consistency", 1), ("truth", 2), ("ask", 2)):
        of_it = rates_of_runs(tmp_path, experiment_name, config)
        assert of_it is not None
        assert of_it.operations == pytest.approx(times * rates.operations)
    shutil.rmtree(newer)
    whole = json.loads((first.path / "manifest.json").read_text())
    wrong = [{"counts": counts | {"operations": value}} for value in ("x", 0, 10**400)]
    odd = [json.dumps(whole | {"planned": whole["planned"] | change}) for change in wrong]
    for damaged in (*odd, "[" * 100_000, "{", "[]", '{"status": "complete", "planned": {"counts": {"tokens": 1}}}'):
        (first.path / "manifest.json").write_text(damaged)
        assert rates_of_runs(tmp_path, "consistency", config) is None


def test_what_is_captured_is_counted_row_by_row(asked: Callable[..., Any], tmp_path: Path) -> None:
    experiment, config = asked("capture={layers: all}")
    folder = run(experiment, config, tmp_path, tell=lambda _: None)
    rows, shape = (
        len(ActivationStore.open(folder.path).rows()),
        shape_from(AutoConfig.from_pretrained(config.model.path)),
    )
    assert folder.manifest["planned"]["counts"]["captured"] == rows * shape.layers * shape.width > 0


@pytest.mark.parametrize("family", ["llama", "mixtral", "gemma3", "gpt2"])
def test_a_shape_is_known_without_weights(family: str) -> None:
    config = AutoConfig.for_model(family, **FAMILIES[family])
    if family == "gemma3":
        assert shape_from(config).width == config.get_text_config().hidden_size
        return
    model = AutoModelForCausalLM.from_config(config)
    assert shape_from(config) == shape_of(model)
    assert shape_of(model).parameters == sum(parameter.numel() for parameter in model.parameters())
    assert 0 < shape_of(model).active < shape_of(model).parameters


def test_of_experts_those_that_are_chosen_count() -> None:
    half, every = (
        shape_from(AutoConfig.for_model("mixtral", **{**FAMILIES["mixtral"], "num_experts_per_tok": n})) for n in (2, 4)
    )
    assert half.parameters == every.parameters
    assert half.active < every.active < every.parameters


def test_a_card_is_as_fast_as_it_was_measured(asked: Callable[..., Any]) -> None:
    """29,489 unique tokens a second at 8B, 55.2% of 789.1 Top/s, in passes that items share."""
    card = card_of("h100")
    _, config = asked("model.dtype=bfloat16", "together=true")
    rates = card.rates(EIGHT_B, config)
    assert rates.operations == pytest.approx(0.552 * 789.1e12, rel=0.01)
    assert rates.sampled == pytest.approx(9_998, rel=0.01)
    apart = card.rates(EIGHT_B, asked("model.dtype=bfloat16", "together=false")[1])
    assert apart.operations < rates.operations
    with pytest.raises(UserError, match="bfloat16 alone"):
        card.rates(EIGHT_B, asked()[1])
    with pytest.raises(UserError, match="do not fit"):
        card.rates(ModelShape(70_000_000_000, 1, 1, 1, 1), config)
    with pytest.raises(UserError, match=r"--card tpu: was not measured; .*h100"):
        card_of("tpu")
    newer = card_of("h200").rates(EIGHT_B, asked("model.dtype=bfloat16")[1])  # items share passes, unless it is set
    assert newer.operations == pytest.approx(0.645 * 800.1e12, rel=0.01)
    assert all(card.memory > 0 for card in CARDS.values())


def test_the_command_line_says_time_and_money(
    command_line: Callable[..., Any], tiny_for: Callable[[str], Path], tmp_path: Path
) -> None:
    model = ("-m", str(tiny_for("consistency")), "-o", "items=3", "-o", "model.dtype=bfloat16")
    planned = command_line("plan", "consistency", *model, "--card", "h100", "--price", "3600", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "one NVIDIA H100 80GB" in planned.stdout
    cost = float(re.search(r"costs ([\d.,]+), at 3,600.00 an hour", planned.stdout)[1])  # type: ignore
    assert math.isfinite(cost)
    unknown = command_line("plan", "consistency", *model, "--price", "1", cwd=tmp_path)
    assert (unknown.returncode, "how long it takes is not known" in unknown.stderr) == (2, True)
