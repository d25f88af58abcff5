from pathlib import Path

import pytest

from doxascope import UserError
from doxascope.experiments.run.config import load_config
from doxascope.experiments.suite.consistency import ConsistencyConfig
from doxascope.experiments.suite.martingale.config import MartingaleConfig
from doxascope.hooks.model.spec import presets

pytestmark = pytest.mark.place


def consistency(*overrides: str, target: str = "consistency", model: str | None = None) -> ConsistencyConfig:
    _, config = load_config(target, overrides, model)
    assert isinstance(config, ConsistencyConfig)
    return config


def test_every_shipped_file_is_valid() -> None:
    assert consistency().model.name == "smollm2-135m"
    for preset in presets():
        assert consistency(model=preset).model.name == preset


@pytest.mark.parametrize("preset", ["full", "paper", "control"])
def test_a_preset_says_what_it_changes(preset: str) -> None:
    experiment, shipped = load_config("martingale")
    same, config = load_config(f"martingale-{preset}", ["seed=5"])
    assert isinstance(config, MartingaleConfig)
    assert same is experiment
    assert shipped.items is None
    assert config.items is not None
    assert len(same.items(config)) > len(experiment.items(shipped))
    assert (config.seed, config.token_budget) == (5, shipped.token_budget)
    assert len(same.items(config)) == config.items * len(config.model_dump()["domains"]) + config.gate_urns


def test_overrides_reach_nested_settings() -> None:
    config = consistency("items=7", "model.dtype=bfloat16", "entities.max_length=5", "wording.reveal=Well?")
    assert (config.items, config.model.dtype, config.entities.max_length) == (7, "bfloat16", 5)
    assert config.wording.reveal == "Well?"
    assert config.wording.reject == consistency().wording.reject


def test_a_file_says_only_what_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        "experiment: consistency\nseed: 3\nwording: {reveal: 'Tell me.'}\nmethods: {bare: {forms: ['{option}']}}\n"
    )
    config = consistency("items=2", target=str(file))
    assert (config.seed, config.items, config.wording.reveal) == (3, 2, "Tell me.")
    assert list(config.methods) == ["bare"]
    assert config.wording.system == consistency().wording.system


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("itmes=3", "unknown key 'itmes'; did you mean 'items'"),
        ("model.dtpye=float32", r"unknown key 'model\.dtpye'; did you mean 'dtype'"),
        ("wording.revael=x", r"unknown key 'wording\.revael'; did you mean 'reveal'"),
        ("methods.free.form=x", r"unknown key 'methods\.free\.form'"),
        ("items=0", "items: .*greater than or equal to 1, given 0"),
        ("items=many", "items: .*given 'many'"),
        ("wording.reveal='Which, {d}?'", r"wording\.reveal: placeholder 'd' is not one of"),
        ("wording.reveal='Not {x}?'", r"wording\.reveal: placeholder 'x' is not one of {a} {b} {c}"),
        ("wording.reject='{x} or {y}?'", r"wording\.reject: placeholder 'y' is not one of {a} {b} {c} {x}"),
        ("fork.yes=[]", r"fork\.yes: .*at least 1 item"),
        ("rejections=3", r"rejections: Input should be 1 or 2, given 3"),
        ("model.thinking=maybe", r"model\.thinking: Input should be 'off', 'on' or 'closed', given 'maybe'"),
        ("items", "give key=value"),
        ("experiment=truth", "setting experiment: consistency is one; name truth in its place"),
        ("items=[", "not valid YAML"),
        ("model.dtype=int8", r"model\.dtype"),
        (
            "stated.judges={j: {model: smollm2-135m}}",
            r"stated\.judges: consistency shows nothing to judges; leave them out",
        ),
    ],
)
def test_a_wrong_setting_is_one_clear_line(override: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        consistency(override)
    assert "\n" not in str(error.value)


def test_wrong_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'consistency'"):
        load_config("consistancy")
    with pytest.raises(UserError, match="cannot be read"):
        load_config(str(tmp_path / "none.yaml"))
    for text, message in (("a: [", "not valid YAML"), ("- a", "holds list"), ("seed: 1", "'experiment' is missing")):
        (tmp_path / "x.yaml").write_text(text)
        with pytest.raises(UserError, match=message):
            load_config(str(tmp_path / "x.yaml"))
