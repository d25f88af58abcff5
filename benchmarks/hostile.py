"""Models that are broken in ways drawn by the seed, each loaded and asked: a line, or beliefs that are beliefs.

    python benchmarks/hostile.py [--models 200] [--seed 0] [--first 0]

A healthy tiny model has one to three of its parts changed: values of its configurations, nodes of its tokenizer, its
chat template, tensors, bytes and whole files. It is read in a process of its own, within a minute of the processor and
4 GB: it loads, and says what it believes of two questions. Right is: refused in one line, or probabilities that are
whole, of prompts that hold what was asked. A traceback, a hang, a process that dies, or beliefs that are none are not.
"""

import argparse
import json
import math
import multiprocessing
import os
import platform
import random
import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from doxascope import UserError, load
from doxascope.hooks.checks.tiny_models import save_tiny

QUESTIONS = ("Which of the two is it, the stone or the river?", "Is it the stone?\nAnswer in a word.")
OPTIONS = ["stone", "river"]
SECONDS, MEMORY = 60, 4 * 2**30
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2**31,
        10**7,
        10**200,
        0.5,
        -0.0,
        math.nan,
        math.inf,
        "",
        "x",
        "\ud800",
        "\0",
        "../..",
    ),
    *([], [None], ["x"], [0, 1], [-1], [10**9], {}, {"x": 1}, {"type": "x"}, [[[]]], "stone", "a" * 10_000),
)
"""What stands where something else should."""
PIECES = (
    *(
        "{{ m.content }}",
        "{{ m.role }}",
        "{{ m.content | upper }}",
        "{{ m.content[:9] }}",
        "{{ bos_token }}",
        "\n",
        "<x>",
    ),
    *(
        "{{ messages }}",
        "{{ loop.index }}",
        "{{ '\\ud800' }}",
        "{{ 1 / 0 }}",
        "{{ 'x' * 10**9 }}",
        "{% break %}",
        "{{ x.y }}",
    ),
    *(
        "{{ raise_exception('no') }}",
        "{{ strftime_now('%H') }}",
        "{% if loop.last %}",
        "{% endif %}",
        "{{ eos_token }}",
    ),
)
"""Of which chat templates are put together."""
CHANGES: dict[str, Callable[[random.Random, Path], None]] = {}
"""Name -> what it does to a folder."""
VERDICTS = ("a line", "beliefs", "TRACEBACK", "NO BELIEFS", "DIED")


def change(function: Callable[[random.Random, Path], None]) -> Callable[[random.Random, Path], None]:
    """Enter a change under its name."""
    CHANGES[function.__name__] = function  # type: ignore
    return function


def _edited(folder: Path, name: str, edit: Callable[[Any], None]) -> None:
    """A JSON file that is changed; one that is broken already stays as it is."""
    try:
        data = json.loads((folder / name).read_text())
        edit(data)
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return
    (folder / name).write_text(json.dumps(data))


def _written(file: Path, text: str) -> None:
    """A file in place of what another change may have left there."""
    if not file.is_dir():
        file.unlink(missing_ok=True)
        file.write_text(text)


def _node(draw: random.Random, data: Any) -> tuple[Any, Any]:
    """A container at any depth, and a key of it."""
    while True:
        keys = list(data) if isinstance(data, dict) else list(range(len(data)))
        key = draw.choice(keys)
        if not isinstance(data[key], dict | list) or not data[key] or draw.random() < 0.3:
            return data, key
        data = data[key]


def _changed_node(draw: random.Random, data: Any) -> None:
    place, key = _node(draw, data)
    match draw.randrange(3):
        case 0:
            place[key] = draw.choice(ODD)
        case 1:
            del place[key]
        case _:
            place[key] = place[draw.choice(list(place))] if isinstance(place, dict) else draw.choice(place)


@change
def configuration(draw: random.Random, folder: Path) -> None:
    """A value of config.json, known or new."""
    further = ("eos_token_id", "pad_token_id", "tie_word_embeddings", "layer_types", "sliding_window", "rope_scaling")
    _edited(folder, "config.json", lambda data: data.update({draw.choice([*data, *further]): draw.choice(ODD)}))


@change
def generation(draw: random.Random, folder: Path) -> None:
    """generation_config.json, as somebody else wrote it."""
    keys = (
        "eos_token_id",
        "pad_token_id",
        "temperature",
        "max_length",
        "stop_strings",
        "do_sample",
        "transformers_version",
    )
    _written(folder / "generation_config.json", json.dumps({draw.choice(keys): draw.choice(ODD) for _ in range(2)}))


@change
def tokenizer(draw: random.Random, folder: Path) -> None:
    """A node of tokenizer.json."""
    _edited(folder, "tokenizer.json", lambda data: _changed_node(draw, data))


@change
def tokens(draw: random.Random, folder: Path) -> None:
    """A value of tokenizer_config.json."""
    further = (
        "bos_token",
        "eos_token",
        "add_bos_token",
        "tokenizer_class",
        "added_tokens_decoder",
        "extra_special_tokens",
    )
    _edited(
        folder, "tokenizer_config.json", lambda data: data.update({draw.choice([*data, *further]): draw.choice(ODD)})
    )


@change
def vocabulary(draw: random.Random, folder: Path) -> None:
    """Ids of tokens that are others than they were."""

    def edit(data: Any) -> None:
        known = data["model"]["vocab"]
        one, other = draw.sample(list(known), 2)
        known[one] = draw.choice([known[other], 10**6, -1, known[one] + 1])

    _edited(folder, "tokenizer.json", edit)


@change
def template(draw: random.Random, folder: Path) -> None:
    """A chat template of random pieces."""
    inner = "".join(draw.choice(PIECES) for _ in range(draw.randint(0, 6)))
    _written(folder / "chat_template.jinja", "{% for m in messages %}" + inner + "{% endfor %}" + draw.choice(PIECES))


@change
def weights(draw: random.Random, folder: Path) -> None:
    """A tensor that has other values, another shape or type, another name, or is gone."""
    import torch
    from safetensors.torch import load_file, save_file

    try:
        tensors = load_file(folder / "model.safetensors")
    except Exception:  # another change was here before
        return
    if not tensors:
        return
    name = draw.choice(list(tensors))
    x = tensors.pop(name)
    ways: tuple[Callable[[], dict[str, torch.Tensor]], ...] = (
        lambda: {name: torch.full_like(x, draw.choice([math.nan, math.inf, 0.0, 1e30, -1e38]))},
        lambda: {name: x[..., : x.shape[-1] // 2].clone()},
        lambda: {name: x.to(draw.choice([torch.int8, torch.float64, torch.bool, torch.complex64]))},
        lambda: {f"{name}.x": x},
        dict,
        lambda: {name: x.T.contiguous()},
    )
    save_file(tensors | draw.choice(ways)(), folder / "model.safetensors", metadata={"format": "pt"})


@change
def header(draw: random.Random, folder: Path) -> None:
    """The index at the head of the weights."""
    file = folder / "model.safetensors"
    data = file.read_bytes() if file.is_file() else b""
    if len(data) > 8 and (size := int.from_bytes(data[:8], "little")) < len(data):
        try:
            head = json.loads(data[8 : 8 + size])
            _changed_node(draw, head)
        except (ValueError, IndexError):
            return
        text = json.dumps(head).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])


@change
def file(draw: random.Random, folder: Path) -> None:
    """A file that is gone, empty, another one, a folder, or a link to nowhere."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    if len(files) < 2:
        return
    one, other = draw.sample(files, 2)
    data = other.read_bytes()
    one.unlink()
    match draw.randrange(5):
        case 0:
            one.write_bytes(b"")
        case 1:
            one.write_bytes(data)
        case 2:
            one.mkdir()
        case 3:
            one.symlink_to("/nowhere")
        case _:
            pass


@change
def damage(draw: random.Random, folder: Path) -> None:
    """Bytes of any file."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.stat().st_size]
    if files:
        data = bytearray((chosen := draw.choice(files)).read_bytes())
        for _ in range(draw.choice([1, 1, 8])):
            data[draw.randrange(len(data))] = draw.randrange(256)
        chosen.write_bytes(data[: draw.randrange(len(data))] if draw.random() < 0.2 else data)


def broken(healthy: Path, place: Path, number: int, seed: int) -> list[str]:
    """A model of a stranger, and what was done to it."""
    draw = random.Random(f"{seed} {number}")
    done = draw.sample(list(CHANGES), draw.choice([1, 1, 2, 3]))
    shutil.copytree(healthy, place)
    for name in done:
        CHANGES[name](draw, place)
    return done


def asked(folder: Path) -> str:
    """What becomes of a model that is loaded and asked, in this process."""
    try:
        with load(str(folder)) as lm:
            read = [lm.beliefs(question, options=OPTIONS) for question in QUESTIONS]
    except UserError as error:
        return "a line" if "\n" not in str(error) and len(str(error)) < 2000 else f"TRACEBACK: of many lines: {error}"
    for belief in read:
        table = belief.beliefs
        prob, fine = table["prob"].to_numpy(), (table["status"] == "ok").to_numpy()
        if fine.any() and not (abs(prob.sum() - 1) < 1e-6 and ((prob >= 0) & (prob <= 1)).all()):
            return f"NO BELIEFS: {prob.tolist()} of status ok"
    return "beliefs"


def verdict(folder: Path) -> str:
    """The same in a process of its own, within bounds."""
    context = multiprocessing.get_context("fork")
    heard, told = context.Pipe(duplex=False)

    def work() -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
        try:
            told.send(asked(folder))
        except BaseException as error:
            told.send(f"TRACEBACK: {type(error).__name__}: {error}")
        told.close()
        os._exit(0)

    process = context.Process(target=work)
    process.start()
    told.close()
    try:
        return heard.recv()
    except EOFError:
        process.join()
        return f"DIED: exit code {process.exitcode}"
    finally:
        process.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Break, ask and count."""
    parser = argparse.ArgumentParser()
    for name, default in (("--models", 200), ("--seed", 0), ("--first", 0), ("--minutes", 60)):
        parser.add_argument(name, type=int, default=default)
    began = time.monotonic()
    given = parser.parse_args(arguments)
    libraries = ", ".join(f"{name} {version(name)}" for name in ("doxascope", "torch", "transformers", "tokenizers"))
    now = datetime.now(UTC)
    print(f"`python benchmarks/hostile.py --models {given.models} --seed {given.seed}`, {now:%Y-%m-%d %H:%M} UTC")
    print(f"{platform.machine()}, Python {platform.python_version()}, {libraries}\n", flush=True)
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as name:
        save_tiny(Path(name) / "healthy", [*QUESTIONS, *OPTIONS])
        assert verdict(Path(name) / "healthy") == "beliefs"
        for number in range(given.first, given.first + given.models):
            if time.monotonic() - began > 60 * given.minutes:
                break
            place = Path(name) / f"model-{number}"
            done = broken(Path(name) / "healthy", place, number, given.seed)
            said = verdict(place)
            shutil.rmtree(place)
            seen = said.partition(":")[0]
            counts.update((part, seen) for part in [*done, "all models"])
            if seen.isupper():
                print(f"model {number}, {', '.join(done)}: {said}", flush=True)
    print(f"| changed, alone or among others | {' | '.join(VERDICTS)} |\n|{'---|' * (len(VERDICTS) + 1)}")
    for part in (*CHANGES, "all models"):
        print(f"| {part} | {' | '.join(str(counts[part, seen]) for seen in VERDICTS)} |")
    return int(any(counts["all models", seen] for seen in VERDICTS if seen.isupper()))


if __name__ == "__main__":
    raise SystemExit(main())
