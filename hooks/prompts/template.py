"""A model's chat template, rendered as transformers renders it, but the same on every day and within bounds.

Templates come with checkpoints and are programs. In the sandbox of jinja they cannot reach the machine; but they can
ask for the date, draw at random, loop for hours and ask for strings of gigabytes. Here the date is a setting, nothing
is drawn, and a template is rendered by a process of its own (`template_worker`), whose memory is limited and which is
killed when a prompt takes too long.
"""

import json
import os
import re
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from ...base.errors import UserError

SECONDS = 3.0
"""Of a processor that one prompt may take; real templates take a few thousandths. A busy machine takes none of them."""
PATIENCE = 20
"""Times as many seconds may pass on the clock, where a process cannot limit its own or never comes to run."""
MEMORY = 512 * 2**20
"""Bytes of the process that renders."""
LONGEST = 4 * 10**6
"""Characters of a prompt."""
SOURCE = 10**6
"""Characters of a template."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+>")
STOPPED = [-getattr(signal, name) for name in ("SIGPROF",) if hasattr(signal, name)]
"""What a worker ends with that has used up its seconds."""
SHOWN = 60
"""Characters of a message that an error shows."""
MOST_ASKED = 100_000
"""Prompts that are known, so that two questions are never one prompt."""
WORKER = Path(__file__).with_name("template_worker.py")


class ChatTemplate:
    """One template.

    Args:
        day: what it is told when it asks for the date.

    Raises UserError if it cannot be compiled, or draws at random.
    """

    def __init__(self, source: str, day: date) -> None:
        if len(source) > SOURCE:
            raise _unusable(f"it has {len(source):,} characters, more than {SOURCE:,}")
        self._beginning = {"source": source, "day": day.isoformat(), "memory": MEMORY}
        self._turn = Lock()
        self._start()

    def render(self, messages: Sequence[Mapping[str, str]], **variables: Any) -> str:
        """The text that asks for the next turn. Raises UserError if the template refuses, or goes beyond the bounds."""
        conversation = {"messages": [*map(dict, messages)], "tools": None, "documents": None}
        with self._turn:
            if self._worker.poll() is not None or self._owner != os.getpid():  # killed, or another process's
                self._start()
            text = self._ask({**conversation, "add_generation_prompt": True, **variables})["text"]
        if len(text) > LONGEST:
            raise _unusable(f"it writes {len(text):,} characters, more than {LONGEST:,}")
        if len(ADDRESS.findall(text)) > sum(len(ADDRESS.findall(message["content"])) for message in messages):
            raise _unusable("it writes an address of memory, which differs from run to run")
        return text

    def _start(self) -> None:
        command = [sys.executable, "-P", str(WORKER)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self._worker = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True, encoding="utf-8")
        self._owner = os.getpid()
        weakref.finalize(self, _end, self._worker)
        assert self._worker.stdout
        self._worker.stdout.readline()  # it has started, however long that takes on a busy machine
        self._ask(self._beginning)

    def _ask(self, question: Mapping[str, Any]) -> dict[str, str]:
        """What the worker answers in time."""
        worker = self._worker
        assert worker.stdin
        assert worker.stdout
        timer = Timer(PATIENCE * SECONDS, worker.kill)
        timer.daemon = True
        try:
            timer.start()  # an interrupt may come while it starts, and must not leave the process waiting for it
            worker.stdin.write(json.dumps({**question, "seconds": SECONDS}) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except BrokenPipeError:
            line = ""
        except BaseException:  # interrupted: what it answers later would be taken for the next prompt
            _end(worker)
            raise
        finally:
            late = not timer.is_alive()
            timer.cancel()
        timer.join()
        if not line:
            _end(worker)
            late = late or worker.returncode in STOPPED
            raise _unusable(f"it takes longer than {SECONDS:g} s for one prompt" if late else "it ends what renders it")
        answer = json.loads(line)
        if "refuses" in answer:
            raise UserError(f"the model's chat template refuses the conversation: {answer['refuses']}")
        if "error" in answer:
            raise _unusable(answer["error"])
        return answer


class WhatIsSaid:
    """Sees that rendered texts hold what was asked."""

    def __init__(self) -> None:
        self._heard: set[tuple[str, ...]] = set()
        """Whose turns followed each other in texts that were held."""
        self._asked: dict[int, int] = {}
        """Digest of a rendered text -> that of the texts it was rendered from, without their blanks."""

    def unheard(self, messages: Sequence[Mapping[str, str]]) -> list[list[dict[str, str]]]:
        """Where the turns follow each other as they did in none before, a conversation of such turns, whose texts stand
        nowhere else in a template: what is asked may be found there although the template drops the message.
        """
        if (roles := _roles(messages)) in self._heard:
            return []
        says = "This is what message {} of {} says.".format
        return [[{"role": role, "content": says(i, len(roles))} for i, role in enumerate(roles)]]

    def require(self, messages: Sequence[Mapping[str, str]], text: str) -> None:
        """Raise UserError, showing what is rendered, if it does not hold the text of every message, in their order and
        unaltered but for blanks around it and as often as messages hold it, or if other texts were rendered the same. A
        template may put the system text where it likes.
        """
        end, contents = 0, [message["content"].strip() for message in messages]
        for i, (message, content) in enumerate(zip(messages, contents, strict=True)):
            at = text.find(content, 0 if message["role"] == "system" else end)
            if at < 0 or (content and text.count(content) < sum(each.count(content) for each in contents)):
                raise _not_said(f"message {i}, {content[:SHOWN]!r}, is not in it as it was given", text)
            end = end if message["role"] == "system" else at + len(content)
        asked = hash("".join("".join(message["content"].split()) for message in messages))
        if len(self._asked) >= MOST_ASKED:
            self._asked.clear()
        if self._asked.setdefault(hash(text), asked) != asked:
            raise _not_said(f"it is the same for another question than {messages[-1]['content'][:SHOWN]!r}", text)
        self._heard.add(_roles(messages))


def _roles(messages: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(message["role"] for message in messages)


def _not_said(fault: str, text: str) -> UserError:
    shown = text if len(text) <= 5 * SHOWN else f"{text[: 4 * SHOWN]} ... {text[-SHOWN:]}"
    return UserError(
        f"the model's chat template changes what is asked: {fault}; it renders {shown!r}; choose `template: plain` or "
        "`template: none`, or restore the model's own"
    )


def _unusable(reason: str) -> UserError:
    return UserError(
        f"the model's chat template cannot be used: {reason}; choose `template: plain` or `template: none`"
    )


def _end(worker: "subprocess.Popen[str]") -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
