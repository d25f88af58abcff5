"""Sampled tokens a second inside a run of the martingale experiment, by how many questions are sampled together.

    python benchmarks/gpu_sampling.py [SHAPE] [--tokenizer FOLDER] [--device cuda] [--questions 32] [--together 32]
        [--tokens 128]

Random weights of SHAPE (tiny, 1b or 8b; see gpu_items.py) with the tokenizer of the demo's chat model, or of FOLDER:
such a model never ends its text, so that every chain has its full length. Eight chains of thought of each question
under one system prompt, as `doxascope run` samples them; seconds are those inside `LanguageModel.sample`.
"""

import argparse
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from gpu_items import SHAPES
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.runner import run
from doxascope.hooks.generation.generated_texts import GeneratedText
from doxascope.hooks.lm import LanguageModel, open_model

CHAINS = 8


def folder_of(shape: str, tokenizer: str, device: str, place: Path) -> Path:
    """A checkpoint of random weights."""
    if tokenizer:
        words: Any = AutoTokenizer.from_pretrained(tokenizer)
    else:
        with open_model("smollm2-135m", device="cpu") as lm:
            words = lm.tokenizer
    torch.manual_seed(0)
    settings: dict[str, Any] = {**SHAPES[shape].config, "vocab_size": len(words)}
    with torch.device(device):
        model = LlamaForCausalLM._from_config(LlamaConfig(**settings), dtype=SHAPES[shape].dtype)
    model.save_pretrained(place)
    words.save_pretrained(place)
    return place


def main() -> None:
    """Run with 1, 8 and all questions together, or so many as are asked for, and print."""
    parser = argparse.ArgumentParser(description="Sampled tokens a second in a martingale run.")
    parser.add_argument("shape", nargs="?", default="1b", choices=[*SHAPES])
    parser.add_argument("--tokenizer", default="", help="a folder; by default that of smollm2-135m")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--together", type=int, help="questions at once; by default 1, 8 and all, one after the other")
    parser.add_argument("--tokens", type=int, default=128, help="of a chain")
    args = parser.parse_args()
    calls: list[tuple[float, int, int]] = []
    sample = LanguageModel.sample

    def timed(lm: LanguageModel, *asked: Any, **settings: Any) -> list[GeneratedText]:
        began = time.perf_counter()
        texts = sample(lm, *asked, **settings)
        calls.append((time.perf_counter() - began, sum(len(text.ids) for text in texts), len(texts)))
        return texts

    setattr(LanguageModel, "sample", timed)  # noqa: B010
    card = torch.cuda.get_device_name() if args.device == "cuda" else "a CPU"
    asked = f" --together {args.together}" if args.together else ""
    command = f"{args.shape} --device {args.device} --questions {args.questions}{asked} --tokens {args.tokens}"
    print(
        f"`python benchmarks/gpu_sampling.py {command}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {card}, torch "
        f"{torch.__version__}, transformers {version('transformers')}\n\n"
        "| questions together | rows | tokens sampled | s sampling | tokens a second | of each call | s in all |\n"
        "| --- | --- | --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as place:
        folder = folder_of(args.shape, args.tokenizer, args.device, Path(place) / "model")
        for together in [args.together] if args.together else sorted({1, min(8, args.questions), args.questions}):
            settings = [
                *(
                    "reasoning=[cot]",
                    "domains={factual: {kind: computed}}",
                    "stated={}",
                    "gate_urns=0",
                    "registered=null",
                ),
                *(
                    f"items={args.questions}",
                    f"chains={CHAINS}",
                    f"batch_items={together}",
                    f"model.device={args.device}",
                ),
                *(f"generation.max_new_tokens={args.tokens}", f"model.dtype={str(SHAPES[args.shape].dtype)[6:]}"),
                *("together=true", 'prompts={none: ""}'),
            ]
            experiment, config = load_config("martingale", settings, str(folder))
            calls.clear()
            began = time.perf_counter()
            run(experiment, config, Path(place) / f"runs-{together}", scored=False)
            each = ", ".join(f"{tokens / seconds:,.0f}" for seconds, tokens, _ in calls[:10])
            seconds, tokens, rows = (sum(column) for column in zip(*calls, strict=True))
            print(
                f"| {together} | {rows / len(calls):.0f} | {tokens:,} | {seconds:.1f} | {tokens / seconds:,.0f} | "
                f"{each} | {time.perf_counter() - began:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
