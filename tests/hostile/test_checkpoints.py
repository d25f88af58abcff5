"""Checkpoints that are not the model that their configuration describes: each is refused in one line, and the healthy
ones are loaded as plain transformers loads them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from doxascope import UserError, load
from doxascope.benchmarks.hostile import asked, broken

UP, DOWN, HEAD = "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.down_proj.weight", "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"

Tensors = dict[str, torch.Tensor]


def without(*names: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {name: x for name, x in tensors.items() if name not in names}


def with_(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Tensors], Tensors]:
    return lambda tensors: tensors | {name: change(tensors[name]).contiguous()}


def renamed(old: str, new: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {name.replace(old, new): x for name, x in tensors.items()}


TENSORS: dict[str, tuple[Callable[[Tensors], Tensors], str]] = {
    "one missing": (without(DOWN), f"lacks {DOWN}"),
    "head lost": (without(HEAD), f"lacks {HEAD}"),
    "embedding lost": (without(EMBEDDING), f"lacks {EMBEDDING}"),
    "norm lost": (without("model.norm.weight"), r"lacks model\.norm\.weight"),
    "a layer lost": (
        lambda t: {k: x for k, x in t.items() if ".layers.0." not in k},
        "lacks model.layers.0.* and 6 more",
    ),
    "a part renamed": (renamed("up_proj", "upp"), r"has, without a place for them, .*upp"),
    "prefix renamed": (renamed("model.", "transformer."), "lacks .* and 17 more"),
    "surplus": (lambda t: t | {"model.extra": torch.ones(3)}, r"without a place for them, model\.extra"),
    "a surplus layer": (
        lambda t: t | {k.replace(".1.", ".2."): x.clone() for k, x in t.items() if ".layers.1." in k},
        r"without a place for them, model\.layers\.2.* and 6 more",
    ),
    "transposed": (with_(UP, lambda x: x.T), rf"another shape {UP} \[32, 64\] for \[64, 32\]"),
    "cut": (with_(UP, lambda x: x[:5]), "another shape"),
    "a scalar": (with_(UP, lambda x: x[0, 0]), "another shape"),
    "empty": (with_(UP, lambda x: x[:0]), "another shape"),
    "whole numbers": (with_(UP, lambda x: (10 * x).long()), f"{UP} is I64"),
    "bytes": (with_(UP, lambda x: (10 * x).to(torch.int8)), f"{UP} is I8"),
    "truth values": (with_(UP, lambda x: x > 0), f"{UP} is BOOL"),
}
CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "more layers": ({"num_hidden_layers": 3}, "lacks .* and 6 more"),
    "fewer layers": ({"num_hidden_layers": 1}, "without a place for them"),
    "no layers": ({"num_hidden_layers": 0}, "without a place for them"),
    "negative layers": ({"num_hidden_layers": -1}, "without a place for them"),
    "wider": ({"intermediate_size": 128}, "another shape"),
    "more words": ({"vocab_size": 999}, "another shape"),
    "heads that do not divide": ({"num_attention_heads": 3}, "not a multiple"),
    "fewer heads": ({"num_key_value_heads": 1}, "another shape"),
    "head size": ({"head_dim": 16}, "another shape"),
    "a negative size": ({"hidden_size": -32}, "negative dimension"),
    "a size as text": ({"hidden_size": "32"}, "hidden_size"),
    "no size": ({"hidden_size": None}, "hidden_size"),
    "a size of 200 digits": ({"vocab_size": 10**200}, "model "),
    "another architecture": ({"model_type": "gpt2"}, "model "),
    "no architecture": ({"model_type": "nonsense"}, "nonsense"),
    "no type": ({"model_type": 5}, "model "),
    "an unknown activation": ({"hidden_act": "nope"}, "nope"),
    "an epsilon as text": ({"rms_norm_eps": "x"}, "rms_norm_eps"),
    "an unknown rotation": ({"rope_parameters": {"rope_type": "nope", "rope_theta": 1e4}}, "nope"),
    "a library that is not there": ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "optimum"),
}


@pytest.fixture(scope="module")
def healthy(save_llama: Callable[..., Path], make_tokenizer: Callable[..., Any]) -> Path:
    return save_llama(make_tokenizer(), "healthy")


@pytest.fixture
def copy(healthy: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(healthy, tmp_path / "model"))


def refused(folder: Path, says: str) -> None:
    with pytest.raises(UserError, match=says) as told, load(str(folder)) as lm:
        _ = lm.identity
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 1000


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_that_are_not_those_of_the_model_are_named(name: str, copy: Path) -> None:
    change, says = TENSORS[name]
    file = copy / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})
    refused(copy, says)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_configuration_that_is_not_that_of_the_weights_is_one_line(name: str, copy: Path) -> None:
    change, says = CONFIGS[name]
    file = copy / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    refused(copy, says)


def test_no_layers_in_file_and_configuration_are_no_model(copy: Path) -> None:
    file = copy / "model.safetensors"
    save_file({k: x for k, x in load_file(file).items() if "layers" not in k}, file, metadata={"format": "pt"})
    config = copy / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"num_hidden_layers": 0}))
    refused(copy, "num_hidden_layers 0; a model has at least one")


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda data: data[:-100],
    "almost empty": lambda data: data[:100],
    "empty": lambda data: b"",
    "too long": lambda data: data + b"xx",
    "noise": lambda data: b"\xff" * 1000,
    "deep": lambda data: data[:8] + b"[" * len(data),
}


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_line(file: str, name: str, copy: Path) -> None:
    path = copy / file
    path.write_bytes(DAMAGED[name](path.read_bytes()))
    refused(copy, "model")


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("text", ["[]", "null", "7", '"x"', "[" * 100_000, '{"a":' * 100_000])
def test_json_that_is_something_else_is_one_line(file: str, text: str, copy: Path) -> None:
    (copy / file).write_text(text)
    refused(copy, "model")


def test_whole_numbers_under_an_unknown_quantisation_are_refused(copy: Path) -> None:
    file, config = copy / "model.safetensors", copy / "config.json"
    save_file(with_(UP, lambda x: (10 * x).to(torch.int8))(load_file(file)), file, metadata={"format": "pt"})
    config.write_text(json.dumps(json.loads(config.read_text()) | {"quantization_config": {"quant_method": "nope"}}))
    refused(copy, f"{UP} is I8")


def test_two_files_that_hold_one_tensor_are_refused(copy: Path) -> None:
    whole = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    for name, part in (("a", whole), ("b", {UP: whole[UP] + 1})):
        save_file(part, copy / f"{name}.safetensors", metadata={"format": "pt"})
    index = {name: "a.safetensors" for name in whole} | {UP: "b.safetensors"}
    (copy / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    refused(copy, f"holds {UP}, which a.safetensors holds as well")


@pytest.mark.parametrize("named", ["weights.bin", "../weights.safetensors", "/weights.safetensors", 5])
@pytest.mark.parametrize("index", ["model.safetensors.index.json", "other.safetensors.index.json"])
def test_no_pickle_is_opened_whatever_names_it(
    named: Any, index: str, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pickles that an index names would be opened by the loader, which sees later what they are."""
    opened: list[Any] = []
    monkeypatch.setattr(torch, "load", lambda *given, **_: opened.append(given))
    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    torch.save(weights, copy / "weights.bin")
    (copy / index).write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(weights, named)}))
    config = json.loads((copy / "config.json").read_text())
    if index.startswith("other"):
        (copy / "config.json").write_text(json.dumps(config | {"transformers_weights": index}))
        refused(copy, "its config.json names its weights itself")
    else:
        refused(copy, f"names '{named}'; weights are safetensors files beside it")
    assert not opened


@pytest.mark.parametrize("text", ["[]", "null", '{"weight_map": {}}', '{"weight_map": 5}', "[" * 100_000, "no"])
def test_an_index_that_is_none_is_named(text: str, copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    (copy / "model.safetensors.index.json").write_text(text)
    refused(copy, r"model\.safetensors\.index\.json")


@pytest.mark.parametrize("config", [{}, {"tie_word_embeddings": True}], ids=["own head", "tied head"])
@pytest.mark.parametrize("shard", ["50GB", "20KB"], ids=["one file", "several"])
def test_healthy_checkpoints_are_loaded_as_transformers_loads_them(
    config: dict[str, Any],
    shard: str,
    save_llama: Callable[..., Path],
    make_tokenizer: Callable[..., Any],
    tmp_path: Path,
) -> None:
    from transformers import AutoModelForCausalLM

    folder = save_llama(make_tokenizer(), "healthy", **config)
    plain = AutoModelForCausalLM.from_pretrained(folder)
    plain.save_pretrained(tmp_path / "again", max_shard_size=shard)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(folder / name, tmp_path / "again")
    with load(str(folder)) as lm, load(str(tmp_path / "again")) as again:
        assert lm.identity.weights == again.identity.weights
        for (name, ours), (_, theirs) in zip(lm.model.named_parameters(), plain.named_parameters(), strict=True):
            assert torch.equal(ours, theirs), name


def test_one_changed_value_makes_another_model(healthy: Path, copy: Path) -> None:
    file = copy / "model.safetensors"
    tensors = load_file(file)
    tensors[UP][3, 17] += 1e-6
    save_file(tensors, file, metadata={"format": "pt"})
    with load(str(healthy)) as one, load(str(copy)) as other:
        assert one.identity.weights != other.identity.weights


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        ("generation_config.json", {"eos_token_id": ["x"]}, "eos_token_id 'x': is none of its"),
        ("tokenizer_config.json", {"model_max_length": {"x": 1}}, "its tokenizer cannot be used: TypeError"),
        ("generation_config.json", {"eos_token_id": [["x"]]}, r"eos_token_id|generation_config"),
        ("generation_config.json", {"eos_token_id": 99_999}, "eos_token_id 99999: is none of its"),
        ("config.json", {"num_hidden_layers": 10**7}, "num_hidden_layers 10,000,000; at most 10,000 are read"),
    ],
)
def test_what_a_configuration_names_and_the_model_has_not_is_refused_before_it_is_built(
    tiny_folder: Path, tmp_path: Path, file: str, change: dict[str, Any], says: str
) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | change))
    with pytest.raises(UserError, match=says) as told:
        load(str(folder))
    assert "\n" not in str(told.value)


def test_an_id_beyond_the_embeddings_and_half_a_character_are_told_in_a_line(tiny_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    (folder / "chat_template.jinja").write_text("{{ '\\ud800' }}" + template)
    with (
        load(str(folder)) as lm,
        pytest.raises(UserError, match=r"template writes holds '\\ud800', half of a character"),
    ):
        lm.beliefs("Is it so?", options=["yes", "no"])
    speller = json.loads((folder / "tokenizer.json").read_text())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    speller["added_tokens"].append({"id": 5000, "content": "<far>", "special": True, **flags})
    (folder / "tokenizer.json").write_text(json.dumps(speller))
    (folder / "chat_template.jinja").write_text(template + "<far>")
    with load(str(folder)) as lm, pytest.raises(UserError, match="the model has embeddings of"):
        lm.beliefs("Is it so?", options=["yes", "no"])


def test_an_id_beyond_the_embeddings_in_the_vocabulary_itself_is_told_in_a_line(copy: Path) -> None:
    speller = json.loads((copy / "tokenizer.json").read_text())
    speller["model"]["vocab"]["?"] = 10**6
    (copy / "tokenizer.json").write_text(json.dumps(speller))
    with load(str(copy)) as lm, pytest.raises(UserError, match="gives the id 1000000, and the model has embeddings of"):
        lm.beliefs("Is it ???", options=["yes", "no"])


def test_a_pattern_of_a_tokenizer_that_gives_up_is_told_in_a_line(copy: Path) -> None:
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "y"}
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    with load(str(copy)) as lm, pytest.raises(UserError, match=r"tokenizer cannot read a text: .*retry-limit") as error:
        lm.beliefs(f"Is it {'a' * 60}?", ["apple", "stone"])
    assert "\n" not in str(error.value)


def test_thousands_of_options_are_refused_in_words_of_the_user(tiny: Any) -> None:
    with pytest.raises(UserError, match="options: 3,000 are given; at most 2,000 can be read at once"):
        tiny.beliefs("Is it so?", options=[f"o{i}x" for i in range(3000)])


@pytest.mark.parametrize("number", range(10))
def test_a_model_that_is_broken_at_random_is_a_line_or_has_beliefs(number: int, copy: Path, tmp_path: Path) -> None:
    """The first of those that `benchmarks/hostile.py` tries."""
    done = broken(copy, tmp_path / "broken", number, seed=0)
    assert asked(tmp_path / "broken") in ("a line", "beliefs"), done
