"""Adapters as PEFT writes them. The reference is PEFT's own forward pass."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from doxascope import UserError, load
from doxascope.hooks.model.adapters import METHODS
from doxascope.hooks.model.loading import load_text_side
from doxascope.hooks.model.spec import ModelSpec, resolve_model

peft = pytest.importorskip("peft")

TARGETS = ["q_proj", "v_proj", "down_proj"]
CONFIGS: dict[str, Callable[..., Any]] = {
    "lora": lambda **changes: peft.LoraConfig(**{"r": 4, "target_modules": TARGETS, **changes}),
    "dora": lambda **changes: peft.LoraConfig(**{"r": 4, "target_modules": TARGETS, "use_dora": True, **changes}),
    "ia3": lambda **changes: peft.IA3Config(target_modules=TARGETS, feedforward_modules=["down_proj"], **changes),
}
QUESTION, OPTIONS = "which word did you choose", ["apple", "stone"]


def changed(model: Any, config: Any, seed: int = 0, size: float = 0.3) -> Any:
    """A model that PEFT has wrapped, as after some training."""
    import torch

    torch.manual_seed(seed)
    wrapped = peft.get_peft_model(model, config)
    for parameter in wrapped.parameters():
        if parameter.requires_grad:
            parameter.data += size * torch.randn_like(parameter)
    return wrapped.eval()


@pytest.fixture
def save(tiny_folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """Saves an adapter on the tiny model, or on another."""

    def make(config: Any, name: str = "adapter", base: Path = tiny_folder, seed: int = 0, size: float = 0.3) -> Path:
        from transformers import AutoModelForCausalLM

        changed(AutoModelForCausalLM.from_pretrained(base), config, seed, size).save_pretrained(tmp_path / name)
        return tmp_path / name

    return make


def logp(lm: Any) -> list[float]:
    beliefs, _ = lm.beliefs(QUESTION, OPTIONS)
    return beliefs["logp"].tolist()


def logits(lm: Any) -> Any:
    import torch

    with torch.no_grad():
        return lm.model(torch.tensor([lm.tokenizer(QUESTION)["input_ids"]], device=lm.model.device)).logits.cpu()


def by_peft(base: Path, adapter: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    speller: Any = AutoTokenizer.from_pretrained(base)
    ids = speller(QUESTION)["input_ids"]
    wrapped = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), str(adapter))
    with torch.no_grad():
        return wrapped(torch.tensor([ids])).logits


@pytest.mark.parametrize("method", CONFIGS)
def test_merged_equals_attached_equals_peft(
    method: str, save: Callable[..., Path], tiny_folder: Path, tiny: Any, noise: Callable[[Any], float]
) -> None:
    adapter = save(CONFIGS[method]())
    merged, attached = (load(str(tiny_folder), adapter=adapter, adapted=how) for how in ("merged", "attached"))
    reference = by_peft(tiny_folder, adapter)
    assert float((logits(merged) - reference).abs().max()) < noise(reference)
    assert float((logits(attached) - reference).abs().max()) < noise(reference)
    assert logp(merged) == pytest.approx(logp(attached), abs=noise(logp(merged)))
    assert abs(logp(merged)[0] - logp(tiny)[0]) > 100 * noise(logp(tiny))
    assert merged.identity.base == attached.identity.base == tiny.identity.weights != merged.identity.weights
    assert tiny.identity.adapter is tiny.identity.base is None
    name = {"dora": "DoRA"}.get(method, method.upper())
    assert str(merged.identity.adapter).startswith(f"adapter ({name} ")
    assert str(merged.identity.adapter).endswith(", merged")
    assert str(attached.identity.adapter).endswith(", attached")
    assert merged.identity.name == "tiny-llama+adapter"


FURTHER = {
    "ADALORA": {"total_step": 10},
    "C3A": {"block_size": 8},
    "MISS": {"r": 4},
    "SHIRA": {"r": 4},
    "FOURIERFT": {"target_modules": ["q_proj"]},
    "ROAD": {"group_size": 8},
    "WAVEFT": {"n_frequency": 100},
}
"""What a method needs on a tiny model."""
LISTED = sorted(METHODS - {"TRAINABLE_TOKENS"})


@pytest.mark.parametrize("method", LISTED)
def test_every_method_that_is_read_is_as_peft_computes_it(
    method: str, save: Callable[..., Path], tiny_folder: Path, tiny: Any, noise: Callable[[Any], float]
) -> None:
    known = getattr(peft.PeftType, method, None)
    if known is None:
        pytest.skip(f"this version of PEFT has no {method}")
    make = peft.PEFT_TYPE_TO_CONFIG_MAPPING[known]
    adapter = save(make(**({"target_modules": TARGETS} | FURTHER.get(method, {}))))
    reference = by_peft(tiny_folder, adapter)
    assert float((logits(tiny) - reference).abs().max()) > 100 * noise(reference)
    for adapted in ("attached", "merged"):
        if method in ("BEFT", "LILY") and adapted == "merged":
            with pytest.raises(UserError, match=f"{method} cannot be merged"):
                load(str(tiny_folder), adapter=adapter)
            continue
        with load(str(tiny_folder), adapter=adapter, adapted=adapted) as lm:
            assert float((logits(lm) - reference).abs().max()) < 3 * noise(reference)


@pytest.mark.parametrize("adapted", ["merged", "attached"])
def test_all_back_ends_read_an_adapter_alike(save: Callable[..., Path], tiny_folder: Path, adapted: str) -> None:
    from doxascope.hooks.checks.certificate import certify

    spec = resolve_model(str(tiny_folder)).model_dump() | {"adapter": str(save(CONFIGS["lora"]())), "adapted": adapted}
    certificate = certify(ModelSpec.model_validate(spec))
    assert not certificate.failures
    assert all(parity.version and parity.change.probability < 1e-5 for parity in certificate.parity.values())  # type: ignore
    assert f"{adapted}, on {certificate.base}" in str(certificate)


@pytest.mark.parametrize("method", CONFIGS)
def test_weights_go_from_the_base_to_the_adapter(
    method: str, save: Callable[..., Path], tiny_folder: Path, tiny: Any, noise: Callable[[Any], float]
) -> None:
    place = str(save(CONFIGS[method]()))
    whole = logits(load(str(tiny_folder), adapter=place))
    doubled = [{"place": place, "weight": weight} for weight in (0.4, 0.6)]
    assert float((logits(load(str(tiny_folder), adapter=doubled)) - whole).abs().max()) < noise(whole)
    nothing = load(str(tiny_folder), adapter={"place": place, "weight": 0})
    assert nothing.identity.weights == tiny.identity.weights
    assert " times 0, merged" in str(nothing.identity.adapter)


def test_a_weight_of_lora_is_its_scale(
    save: Callable[..., Path], tiny_folder: Path, noise: Callable[[Any], float]
) -> None:
    adapter = save(CONFIGS["lora"]())
    half = load(str(tiny_folder), adapter={"place": str(adapter), "weight": 0.5})
    said = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(said | {"lora_alpha": said["lora_alpha"] / 2}))
    reference = by_peft(tiny_folder, adapter)
    assert float((logits(half) - reference).abs().max()) < noise(reference)


def test_several_adapters_add_up(save: Callable[..., Path], tiny_folder: Path, noise: Callable[[Any], float]) -> None:
    places = [save(CONFIGS["lora"](), name, seed=seed) for seed, name in enumerate(("one", "two"))]
    both = load(str(tiny_folder), adapter=list(map(str, places)))
    wrapped = peft.PeftModel.from_pretrained(load(str(tiny_folder)).model, str(places[0]), "one")
    wrapped.load_adapter(str(places[1]), "two")
    wrapped.base_model.set_adapter(["one", "two"])
    reference = logits(load(wrapped, tokenizer=both.tokenizer))
    assert float((logits(both) - reference).abs().max()) < noise(reference)
    assert both.identity.name == "tiny-llama+one+two"
    with pytest.raises(UserError, match="merged alone, not attached"):
        load(str(tiny_folder), adapter=list(map(str, places)), adapted="attached")


def test_an_adapter_of_tied_embeddings_parts_them(
    save_speller: Callable[..., Path], save: Callable[..., Path], noise: Callable[[Any], float]
) -> None:
    base = save_speller("".join(sorted({*QUESTION})), tie_word_embeddings=True)
    for module in ("lm_head", "embed_tokens"):
        adapter = save(peft.LoraConfig(r=2, target_modules=[module]), module, base)
        lm = load(str(base), adapter=adapter, template="none")
        reference = by_peft(base, adapter)
        assert float((logits(lm) - reference).abs().max()) < noise(reference)
        assert lm.chosen.path == "packed"
    with pytest.raises(UserError, match="attached to the unembedding"):
        load(str(base), adapter=save(peft.LoraConfig(r=2, target_modules=["lm_head"]), "x", base), adapted="attached")


def test_added_tokens_come_with_the_adapter(
    tiny: Any, tiny_folder: Path, save: Callable[..., Path], tmp_path: Path, noise: Callable[[Any], float]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.add_tokens(["<secret>"])
    model = AutoModelForCausalLM.from_pretrained(tiny_folder)
    model.resize_token_embeddings(len(tokenizer))
    wrapped = changed(model, CONFIGS["lora"]())
    wrapped.save_pretrained(tmp_path / "adapter", save_embedding_layers=True)
    tokenizer.save_pretrained(tmp_path / "adapter")
    lm = load(str(tiny_folder), adapter=tmp_path / "adapter")
    ids = torch.tensor([lm.tokenizer("<secret> stone")["input_ids"]], device=lm.model.device)
    wrapped.to(lm.model.device)
    assert ids[0, 0] == len(tiny.tokenizer) == len(tokenizer) - 1
    with torch.no_grad():
        apart = (lm.model(ids).logits - wrapped(ids).logits).abs().max()
    assert float(apart) < noise(wrapped(ids).logits.detach())
    assert lm.identity.base == tiny.identity.weights
    read = lm.beliefs("Is it <secret>?", options=["<secret>", "stone"]).beliefs
    assert read["prob"].sum() == pytest.approx(1)
    tokenizer.eos_token = "<secret>"
    tokenizer.save_pretrained(tmp_path / "adapter")
    assert len(tokenizer) - 1 in load_text_side(resolve_model(str(tmp_path / "adapter"))).end_ids
    tokenizer.save_pretrained(save(CONFIGS["lora"](), "without"))
    with pytest.raises(UserError, match=r"without: its tokenizer has .* save it with its embeddings"):
        load(str(tiny_folder), adapter=tmp_path / "without")


WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "peft":
            raise ModuleNotFoundError("No module named 'peft'")
sys.meta_path.insert(0, Blocked())
from doxascope import UserError, load
for place, adapter in ((sys.argv[1], None), (sys.argv[2], None), (sys.argv[3], sys.argv[2])):
    try:
        load(place, adapter=adapter)
    except UserError as error:
        print(error)
"""


def test_a_folder_with_an_adapter_is_never_read_without_it(
    save: Callable[..., Path], tiny_folder: Path, tmp_path: Path, tiny: Any, noise: Callable[[Any], float]
) -> None:
    adapter = save(CONFIGS["lora"]())
    both = tmp_path / "both"
    shutil.copytree(tiny_folder, both)
    for file in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(adapter / file, both)
    asked = logp(load(str(tiny_folder), adapter=adapter))
    found, named = load(str(both)), load(str(both), adapter=both)
    assert logp(found) == logp(named) == pytest.approx(asked, abs=noise(asked))
    assert abs(asked[0] - logp(tiny)[0]) > 100 * noise(asked)
    assert found.identity.base == tiny.identity.weights
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT, both, adapter, tiny_folder], capture_output=True, text=True, check=True
    )
    lines = ended.stdout.splitlines()
    assert len(lines) == 3, ended
    assert all("needs peft, which is missing" in line and 'pip install "doxascope[peft]"' in line for line in lines)


def test_a_folder_of_an_adapter_alone_brings_its_base(save: Callable[..., Path], tiny_folder: Path) -> None:
    adapter = save(CONFIGS["lora"]())
    assert logp(load(str(adapter))) == logp(load(str(tiny_folder), adapter=adapter))
    said = json.loads((adapter / "adapter_config.json").read_text())
    for base in (None, "/nowhere/at/all", "nobody", str(adapter)):
        (adapter / "adapter_config.json").write_text(json.dumps(said | {"base_model_name_or_path": base}))
        with pytest.raises(UserError, match=rf"is an adapter, of a model .*-m MODEL -o model\.adapter={adapter}"):
            load(str(adapter))
    with pytest.raises(UserError, match="it is an adapter: give its model as path"):
        load(ModelSpec(name="x", path=str(adapter)))


def broken(adapter: Path, what: str) -> None:
    from safetensors.torch import load_file, save_file

    weights, settings = adapter / "adapter_model.safetensors", adapter / "adapter_config.json"
    said, tensors = json.loads(settings.read_text()), load_file(weights)
    first = sorted(tensors)[0]
    if what == "pickle":
        weights.rename(adapter / "adapter_model.bin")
    elif what == "lacks":
        save_file({name: tensor for name, tensor in tensors.items() if name != first}, weights)
    elif what == "more":
        save_file({**tensors, first.replace("layers.0", "layers.9"): tensors[first].clone()}, weights)
    elif what == "shape":
        save_file({**tensors, first: tensors[first][..., :-1].contiguous()}, weights)
    elif what == "torn":
        weights.write_bytes(weights.read_bytes()[:100])
    elif what == "list":
        settings.write_text("[]")
    else:
        settings.write_text(json.dumps(said | json.loads(what)))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("pickle", "pickles are not read"),
        ("lacks", "finds no weights for .*(1 in all).*not of this model"),
        ("more", "has no place for .*layers.9.*(1 in all).*not of this model"),
        ("shape", "size mismatch.*not of this model"),
        ("torn", r"adapter .*adapter_model\.safetensors: "),
        ("list", "names no peft_type"),
        ('{"target_modules": ["c_attn"]}', "not found in the base model.*not of this model"),
        ('{"peft_type": "PREFIX_TUNING"}', "'PREFIX_TUNING' is no method that changes layers alone"),
        ('{"peft_type": "PSOFT"}', "'PSOFT' is no method that changes layers alone"),
        ('{"peft_type": "FROD"}', "'FROD' is no method that changes layers alone"),
        ('{"peft_type": "LORA", "init_lora_weights": "pissa_niter_4"}', "its init_lora_weights changes the base"),
        ('{"peft_type": "XLORA", "adapters": {"0": "elsewhere"}}', "'XLORA' is no method"),
        ('{"peft_type": ["LORA"]}', "is no method"),
        ('{"alora_invocation_tokens": [1, 2]}', "its alora_invocation_tokens makes the adapter begin"),
        ('{"arrow_config": {"top_k": 1}}', "its arrow_config mixes adapters"),
        ('{"layer_replication": [[0, 2], [1, 2]]}', "set model.adapted=attached"),
        ('{"megatron_config": {"a": 1}, "megatron_core": "antigravity"}', "would import a module"),
        ('{"rank_pattern": {"(.*)*(.*)*(.*)*(.*)*X": 4}}', "a pattern in its adapter_config.json takes too long"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(
    what: str, message: str, save: Callable[..., Path], tiny_folder: Path
) -> None:
    adapter = save(CONFIGS["lora"]())
    broken(adapter, what)
    with pytest.raises(UserError, match=message) as refused:
        load(str(tiny_folder), adapter=adapter)
    assert "\n" not in str(refused.value)


def test_an_adapter_of_another_model_is_refused(
    save: Callable[..., Path], save_llama: Callable[..., Path], make_tokenizer: Callable[..., Any], tiny_folder: Path
) -> None:
    wide = save_llama(make_tokenizer(), "wide", hidden_size=48)
    adapter = save(CONFIGS["lora"](), base=wide)
    with pytest.raises(UserError, match=rf"not of this model; give the one that it was trained on \({wide}\)"):
        load(str(tiny_folder), adapter=adapter)
    with pytest.raises(UserError, match="neither a folder that exists nor a hub id"):
        load(str(tiny_folder), adapter="./nowhere")
    with pytest.raises(UserError, match=r"no adapter_config\.json in it"):
        load(str(tiny_folder), adapter=tiny_folder)


def test_objects_are_read_as_they_are(
    save: Callable[..., Path], tiny_folder: Path, tiny: Any, noise: Callable[[Any], float]
) -> None:
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(tiny_folder)
    lm = load(plain, tokenizer=tiny.tokenizer)
    assert logp(lm) == pytest.approx(logp(tiny), abs=1e-5)
    assert lm.identity.weights == tiny.identity.weights
    adapter = save(CONFIGS["dora"]())
    asked = logp(load(str(tiny_folder), adapter=adapter))
    for backend in ("transformers", "transformer_lens", "nnsight"):
        wrapped = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_folder), str(adapter))
        given = load(wrapped, tokenizer=tiny.tokenizer, backend=backend)
        assert logp(given) == pytest.approx(asked, abs=noise(asked))
        assert given.identity.adapter == "LORA, attached in memory"
    with pytest.raises(UserError, match="comes without one"):
        load(plain)
    with pytest.raises(UserError, match="dtype: says how a model is loaded"):
        load(plain, tokenizer=tiny.tokenizer, dtype="bfloat16")
    with pytest.raises(UserError, match="belongs to a model that is an object"):
        load(str(tiny_folder), tokenizer=tiny.tokenizer)
    with pytest.raises(UserError, match="model: dict is given"):
        load({})  # type: ignore


@pytest.fixture
def hub(tmp_path: Path) -> Any:
    """A hub that has one gated model and no other."""

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            gated = "/owner/gated" in self.path
            self.send_response(403 if gated else 404)
            self.send_header("X-Error-Code", "GatedRepo" if gated else "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield os.environ | {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(tmp_path),
        "NO_PROXY": "127.0.0.1",
    }
    server.shutdown()


ASK = """
import sys
from doxascope import UserError, load
for place, adapter in (("owner/gated", None), ("owner/none", None), (sys.argv[1], "owner/gated"), (sys.argv[1], "a/b")):
    try:
        load(place, adapter=adapter)
    except UserError as error:
        print(error)
"""


def test_the_hub_says_what_is_gated_and_what_is_missing(hub: dict[str, str], tiny_folder: Path) -> None:
    command = [sys.executable, "-c", ASK, str(tiny_folder)]
    ended = subprocess.run(command, env=hub, capture_output=True, text=True, check=True)
    model, missing, adapter, absent = ended.stdout.splitlines()
    for line, place in ((model, "model 'owner/gated'"), (adapter, "adapter owner/gated")):
        assert line.startswith(
            f"{place}: gated: accept its terms at https://huggingface.co/owner/gated, then set HF_TOKEN"
        )
    for line, place in ((missing, "model 'owner/none'"), (absent, "adapter a/b")):
        assert line.startswith(f"{place}: not on the hub, or private: check the id, or set HF_TOKEN")


RUN = (
    "-o",
    "items=3",
    "-o",
    "methods={letters: {reveal: 'A) {a} B) {b} C) {c}?', labels: [A, B, C], forms: ['{option}']}}",
)
CARD = "version: 1\nruns: {truth: {items: 12, bootstrap_draws: 50}}\nprobe: null\n"


@pytest.mark.full
def test_a_strangers_lora_runs_everything(
    smollm_folder: Path, save: Callable[..., Path], tmp_path: Path, command_line: Callable[..., Any]
) -> None:
    """Made with PEFT alone on SmolLM2, as others publish theirs."""
    config = peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights="gaussian")
    adapter = ("-o", f"model.adapter={save(config, 'stranger', smollm_folder, size=0.01)}")
    (tmp_path / "q.csv").write_text("question,options\nIs ice cold?,yes|no\nIs fire cold?,yes|no\n")
    (tmp_path / "small.yaml").write_text(CARD)
    commands = (
        ("run", "ask", "q.csv", *adapter),
        ("run", "consistency", "-o", "fork.methods=[]", *RUN),
        ("run", "consistency", "-o", "fork.methods=[]", *RUN, *adapter),
        ("card", "smollm2-135m", "--set", "small.yaml", *adapter),
    )
    for command in commands:
        ended = command_line(*command, cwd=tmp_path)
        assert ended.returncode == 0, ended
    base, own = sorted((tmp_path / "runs").glob("consistency-*"), key=lambda run: "+stranger" in run.name)
    manifests = [json.loads((run / "manifest.json").read_text())["conditions"]["model"] for run in (base, own)]
    assert manifests[0]["adapter"] is None
    assert manifests[1]["adapter"].startswith("stranger (LORA ")
    assert manifests[1]["base"] == manifests[0]["weights"] != manifests[1]["weights"]
    assert "Weights: GGUF Q4_1, held as plain numbers." in (base / "report.html").read_text()
    ended = command_line("compare", str(base), str(own), "--out", "compared", cwd=tmp_path)
    assert ended.returncode == 0, ended
    page = next(tmp_path.glob("**/compared/**/report.html")).read_text()
    assert "What differs" in page
    assert f"with the adapter {manifests[1]['adapter']}; what differs is what that changed" in page
    assert "+stranger" in next((tmp_path / "cards").glob("*")).name
