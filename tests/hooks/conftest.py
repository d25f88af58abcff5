"""Tiny random models of any architecture."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Real models where tiny ones of the same architecture are read likewise, and another real one is read: the second
    on other libraries, and prompts in pieces of one token."""
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    second = params.get("lm") == "gemma3-270m" and params.get("subject", "transformers") != "transformers"
    if second or (params.get("lm") == "smollm2-135m" and params.get("budget") == 1):
        item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session")
def save_architecture(
    make_tokenizer: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Mapping[str, Any]], Path]:
    """Saves a random model, and a tokenizer, in a folder. What follows a hyphen in its name is for the reader."""

    def save(name: str, settings: Mapping[str, Any]) -> Path:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        tokenizer = make_tokenizer()
        ids = {"bos_token_id": 0, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": 0}
        config = AutoConfig.for_model(name.partition("-")[0], **{**settings, **ids, "vocab_size": len(tokenizer)})
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        for parameter in model.parameters():  # norms and biases that do nothing would hide mistakes
            parameter.data += 0.1 * torch.randn_like(parameter)
        folder = tmp_path_factory.mktemp(name)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save
