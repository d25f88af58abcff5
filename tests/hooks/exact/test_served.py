"""What a server reads is what is read here: by a small server of a real model, and by vLLM where it is installed."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from doxascope import Steer, load
from doxascope.base.errors import UserError
from doxascope.hooks.exact.option_beliefs import largest_difference, next_token_logp
from doxascope.hooks.exact.served import TOKENS
from doxascope.hooks.prompts.options import make_options

ENGINES = Path(__file__).parents[3] / ".engines" / "bin" / "python"
"""Where `make engines` puts vLLM."""
QUESTIONS = ["Is one more than two?", "Is two more than one?"]
ANSWERS = ["yes", "no", "yes and no"]


class _Completions(BaseHTTPRequestHandler):
    """The part of vLLM's protocol that is used, on a model that is loaded here."""

    model: Any
    sharpened = 1.0
    most = TOKENS
    says: Any = None
    """Instead of what is asked."""
    received: ClassVar[list[int]] = []
    """Tokens of each prompt."""

    def do_GET(self) -> None:
        self._say({"version": "0.32.0"} if self.path == "/version" else {"data": [{"id": "tiny"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.says is not None:
            return self._say(self.says)
        wanted = asked["logprob_token_ids"]
        if len(wanted) > self.most:
            return self._say({"error": "too many of logprob_token_ids"}, 400)
        choices = []
        self.received.extend(map(len, asked["prompt"]))
        for index, ids in enumerate(asked["prompt"]):
            logp = (next_token_logp(self.model, ids, first=len(ids) - 1)[0] * self.sharpened).log_softmax(dim=0)
            biased = logp.clone()
            for token, bias in asked.get("logit_bias", {}).items():
                biased[int(token)] += bias
            table = {f"token_id:{token}": float(logp[token]) for token in [*wanted, int(biased.argmax())]}
            choices.append({"index": index, "logprobs": {"top_logprobs": [table]}})
        self._say({"choices": choices[::-1]})

    def _say(self, answer: Any, status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing on standard error."""


@pytest.fixture(scope="module")
def served(tiny: Any) -> Iterator[Callable[..., str]]:
    """The URL of a server of the tiny model, which may multiply its logits, or say few log-probabilities at once."""
    running: list[ThreadingHTTPServer] = []

    def serve(**settings: Any) -> str:
        handler = type("Handler", (_Completions,), {"model": tiny.model, **settings})
        running.append(ThreadingHTTPServer(("127.0.0.1", 0), handler))
        Thread(target=running[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{running[-1].server_address[1]}/"

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def lm(tiny_folder: Path, served: Callable[..., str]) -> Iterator[Any]:
    with load(str(tiny_folder), server=served()) as loaded:
        yield loaded


def test_a_server_gives_the_same_table_of_beliefs(lm: Any, tiny: Any) -> None:
    ours, theirs = (model.beliefs(QUESTIONS, ANSWERS).beliefs for model in (tiny, lm))
    for column in ("logp", "prob", "coverage", "competitor_logp"):
        np.testing.assert_allclose(theirs[column], ours[column], atol=1e-5)
    others = [name for name in ours if ours[name].dtype == object]
    assert theirs[others].equals(ours[others])
    assert (lm.identity.backend, tiny.identity.backend.split()[0]) == ("vLLM 0.32.0, served", "transformers")


def test_prefilled_turns_and_options_of_another_question_at_the_same_place_are_read(lm: Any, tiny: Any) -> None:
    turns = [
        {"role": "user", "content": QUESTIONS[0]},
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": QUESTIONS[1]},
    ]

    def asked(model: Any) -> Any:
        reader = model.reader
        return model.read(
            [reader.query(str(i), turns, make_options(names)) for i, names in enumerate((ANSWERS, ["no", "one"]))]
        )

    asked(lm)  # looks whether the server has the model, too
    _Completions.received.clear()
    read = asked(lm)
    assert read.cost.tokens_run == sum(_Completions.received)
    for theirs, ours in zip(read.readings, asked(tiny).readings, strict=True):
        assert largest_difference(theirs, ours) < 1e-5
        assert theirs.competitor.token == ours.competitor.token


def test_a_server_of_another_model_is_refused(tiny_folder: Path, served: Callable[..., str]) -> None:
    with (
        load(str(tiny_folder), server=served(sharpened=1.01)) as other,
        pytest.raises(UserError, match=r"nat from the model as it is"),
    ):
        other.beliefs(QUESTIONS, ANSWERS)


def test_what_a_server_cannot_give_is_refused_in_a_line(lm: Any) -> None:
    push = Steer(torch.ones(lm.model.config.hidden_size).numpy(), layers=0, at="all", strength=1.0)
    for more in ({"capture": "last"}, {"edits": {"pushed": [push]}}):
        with pytest.raises(UserError, match="a server gives no activations"):
            lm.beliefs(QUESTIONS, ANSWERS, **more)
    with pytest.raises(UserError, match="a server gives no activations"):
        _ = lm.backend
    query = lm.reader.query("q", [{"role": "user", "content": QUESTIONS[0]}], make_options(ANSWERS))
    with pytest.raises(UserError, match="temperatures"):
        lm.read([query], temperatures=[0.5])


def test_a_server_that_is_not_there_or_refuses_is_said(tiny_folder: Path, served: Callable[..., str]) -> None:
    with load(str(tiny_folder), server="http://127.0.0.1:9") as lost, pytest.raises(UserError, match="does not answer"):
        lost.beliefs(QUESTIONS, ANSWERS)
    with (
        load(str(tiny_folder), server=served(most=2)) as asking,
        pytest.raises(UserError, match=r"refuses \(400.*too many"),
    ):
        asking.beliefs(QUESTIONS, ANSWERS)


@pytest.mark.parametrize(
    "says",
    [
        {},
        [],
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 0, "logprobs": None}]},
        {"choices": [{"index": 0, "logprobs": {"top_logprobs": [{"token": -1.0}]}}]},
        {"choices": [{"index": 0, "logprobs": {"top_logprobs": [{"token_id:1": "nan"}]}}]},
        {"choices": [{"index": 0, "logprobs": {"top_logprobs": [{"token_id:1": 2.0}]}}]},
        {"choices": [{"index": 0, "logprobs": {"top_logprobs": [{"token_id:1000000": -1.0}]}}]},
        {"choices": [{"index": 0, "logprobs": {"top_logprobs": [{"token_id:1": False}]}}]},
        {"choices": [{"index": 0, "logprobs": {"top_logprobs": [{"token_id:1": -1.0, "x:1": -2.0}]}}]},
        {"choices": [{"index": 0, "logprobs": {"top_logprobs": [{"token_id:1": -0.1, "token_id:2": -0.1}]}}]},
        {"choices": [{"index": 9, "logprobs": {"top_logprobs": [{"token_id:1": -1.0}]}}]},
    ],
)
def test_a_server_that_answers_otherwise_is_told_in_a_line(
    says: Any, tiny_folder: Path, served: Callable[..., str]
) -> None:
    with load(str(tiny_folder), server=served(says=says)) as odd:
        for _ in range(2):
            with pytest.raises(UserError, match=r"model.server http.* does not answer as vLLM does: .*; start `vllm"):
                odd.beliefs(QUESTIONS[:1], ANSWERS)


@pytest.mark.full
def test_vllm_reads_what_is_read_here(smollm: Any, tmp_path: Path) -> None:
    if not ENGINES.exists():
        pytest.skip("vLLM is not installed; `make engines` installs it in an environment of its own")
    smollm.model.save_pretrained(tmp_path / "model")
    smollm.tokenizer.save_pretrained(tmp_path / "model")
    url, environment = "http://127.0.0.1:8139", {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    line = [str(ENGINES), "-m", "vllm.entrypoints.openai.api_server", "--model", str(tmp_path / "model")]
    line += ["--dtype", "float32", "--port", url.rpartition(":")[2], "--max-model-len", "2048", "--max-logprobs", "-1"]
    with (tmp_path / "log").open("wb") as said:
        server = subprocess.Popen([*line, "--enforce-eager"], stdout=said, stderr=said, env=environment)
    try:
        for _ in range(60):
            time.sleep(5)
            if server.poll() is not None or b"startup complete" in (tmp_path / "log").read_bytes():
                break
        assert server.poll() is None, (tmp_path / "log").read_text()[-2000:]
        with load("smollm2-135m", server=url) as lm:
            ours, theirs = (model.beliefs(QUESTIONS, ANSWERS).beliefs for model in (smollm, lm))
    finally:
        server.terminate()
        server.wait(60)
    np.testing.assert_allclose(theirs["logp"], ours["logp"], atol=1e-4)
