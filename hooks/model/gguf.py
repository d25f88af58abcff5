"""GGUF files, converted once to a safetensors folder in the cache, whoever asks first."""

import shutil
from pathlib import Path
from threading import Lock
from typing import Any

from ..cache import kept, remove_leftovers
from ..files import TEMPORARY, file_digest

ONE_LOADS = Lock()
"""Held while transformers loads weights: it swaps functions of its classes meanwhile, and two threads that load at once
would leave them swapped, so that no tied weight would be loaded any more."""


def convert_gguf(gguf: Path) -> Path:
    """The folder with the same model as dequantised float32 safetensors, made if it is not there as it was made.

    The folder is named by the file's content and the transformers version that wrote it (a folder written by
    one version may be read wrongly by another). It appears whole or not at all.
    """
    import transformers

    def make(folder: Path) -> None:
        remove_leftovers(ROOM)
        temporary = folder.with_name(f"{TEMPORARY}-{folder.name}")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            _convert(gguf, temporary)
            temporary.rename(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    return kept(ROOM, f"{gguf.stem}-{file_digest(gguf)[:16]}-transformers{transformers.__version__}", make)


ROOM = "converted"
"""Of the cache."""


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    with ONE_LOADS:
        model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # The weights are plain floats by now, but the model still calls itself quantised and would not be saved.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
