"""GGUF files, converted once to a safetensors folder in the cache, whoever asks first."""

import hashlib
import shutil
import tempfile
from pathlib import Path
from threading import Lock
from typing import Any

from filelock import FileLock

from ..cache import cache_folder

ONE_LOADS = Lock()
"""Held while transformers loads weights: it swaps functions of its classes meanwhile, and two threads that load at once
would leave them swapped, so that no tied weight would be loaded any more."""


def convert_gguf(gguf: Path) -> Path:
    """The folder with the same model as dequantised float32 safetensors, made if it is not there.

    The folder is named by the file's content and the transformers version that wrote it (a folder written by
    one version may be read wrongly by another). It appears whole or not at all, and two processes that ask
    at once make it once.
    """
    import transformers

    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    home = cache_folder() / "gguf"
    folder = home / f"{gguf.stem}-{digest}-transformers{transformers.__version__}"
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            temporary = Path(tempfile.mkdtemp(prefix=".converting-", dir=home))
            try:
                _convert(gguf, temporary)
                temporary.rename(folder)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise
    return folder


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
